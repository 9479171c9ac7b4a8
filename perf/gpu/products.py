"""Products of every precision on the GPU against double precision: in sections, on tensor cores, and large ones by cuBLASLt. Then the
training of a small network in each precision against the CPU, which computes in float32.

usage: products.py [--device gpu:0]
A section's products are compared with products of operands rounded as runtime/core/precision.h says; the remaining error is that of float32
sums and of truncation in tensor cores. The library may round operands but need not, so its bound, and training's, is that of the rounding.
"""
import argparse, sys

import numpy as np

import lamina as lm
from check import train

NAMES = ["float32", "tf32", "3xtf32", "bf16"]
DIGITS = {"float32": 24, "tf32": 11, "3xtf32": 21, "bf16": 8}  # significant bits of operands; for 3xtf32: in effect
DEPTH = {"float32": 1, "tf32": 8, "3xtf32": 8, "bf16": 16}     # terms added by one instruction
SECTIONS = [(1, 1, 1), (3, 5, 7), (20, 64, 64), (37, 100, 10), (70, 33, 17), (20, 256, 256), (130, 20, 200)]  # rows, k, n
LARGE = [(512, 512, 512), (300, 700, 260)]


def rounded(x, name):
    """Operands as a product uses them, in double."""
    if name in ("float32", "3xtf32"):
        return x.astype("float64")
    fraction, exponent = np.frexp(x.astype("float64"))
    scaled = np.ldexp(fraction, DIGITS[name])
    away = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.ldexp(np.rint(scaled) if name == "bf16" else away, exponent - DIGITS[name])


def sums(name, depth):
    """Error bound of the sum of this many products, relative to the sum of their sizes: each instruction truncates at most two bits more
    than rounding."""
    instructions = depth / DEPTH[name] * (4 if name == "3xtf32" else 1)
    return 2.0**-22 * (instructions + 2) + (2.0**-20 if name == "3xtf32" else 0)


def off(got, a, b, operands, bound):
    """The fraction of the bound that is used: at most 1 if all is well."""
    want, size = rounded(a, operands) @ rounded(b, operands), np.abs(a.astype("float64")) @ np.abs(b.astype("float64"))
    return float((np.abs(got.numpy() - want) / (bound * size + 1e-300)).max())


def compare(device, name, shape, in_section):
    rows, k, n = shape
    random = np.random.default_rng(rows * 1000 + k)
    x, w, dz = (random.standard_normal(s).astype("float32") for s in ((rows, k), (k, n), (rows, n)))
    with lm.device(device), lm.config.set_matmul_precision(name):
        f = lm.function(lambda x, w, dz: (lm.matmul(x, w), lm.matmul(dz, w, transpose_b=True), lm.matmul(x, dz, transpose_a=True)))
        results = f(*map(lm.constant, (x, w, dz)))
    on_cpu = device.startswith("cpu")
    worst = 0.0
    for got, a, b in zip(results, (x, dz, x.T), (w, w.T, dz)):
        bound = sums("float32" if on_cpu else name, a.shape[1])
        if not on_cpu and not in_section:
            bound += 2 * 2.0**-DIGITS[name]
        worst = max(worst, off(got, a, b, name if in_section and not on_cpu else "float32", bound))
    return worst


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu:0")
    o = options.parse_args()
    agree = True
    for name in NAMES:
        in_sections = max(compare(o.device, name, shape, True) for shape in SECTIONS)
        large = max(compare(o.device, name, shape, False) for shape in LARGE)
        print(f"{name}: products of sections use {in_sections:.2f} of what sums may be off, large products {large:.2f} of what roundings may be")
        agree = agree and in_sections <= 1 and large <= 1
    for name in NAMES:
        optimizer = lambda: lm.optim.SGD(0.003)
        want, _, _ = train("cpu:0", 3, 5, 20, optimizer)
        with lm.config.set_matmul_precision(name):
            got, _, _ = train(o.device, 3, 5, 20, optimizer)
        apart = max(abs(a - b) / abs(a) for a, b in zip(want, got))
        print(f"{name}: losses of training differ by {apart:.1e} from the CPU's")
        agree = agree and apart <= 64 * 2.0**-min(DIGITS[name], 20)
    print("agree" if agree else "DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
