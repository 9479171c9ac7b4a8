"""Products of every precision on the GPU against double precision: in sections, which compute in float32, and large ones by cuBLASLt. Then
the training of a small network in each precision against the CPU, which computes in float32.

usage: products.py [--device gpu:0]
The bound of a product in a section is that of float32 sums. The library may round operands but need not, so its bound, and training's, is
that of the rounding.
"""
import argparse, sys

import numpy as np

import lamina as lm
from check import RULES, train, train_in_double

NAMES = ["float32", "tf32", "3xtf32", "bf16"]
DIGITS = {"float32": 24, "tf32": 11, "3xtf32": 21, "bf16": 8}  # significant bits of operands; for 3xtf32: in effect
SECTIONS = [(1, 1, 1), (3, 5, 7), (20, 64, 64), (37, 100, 10), (70, 33, 17), (20, 256, 256), (130, 20, 200)]  # rows, k, n
LARGE = [(512, 512, 512), (300, 700, 260)]


def off(got, a, b, bound):
    """The fraction of the bound, relative to the sum of the products' sizes, that is used: at most 1 if all is well."""
    a, b = a.astype("float64"), b.astype("float64")
    return float((np.abs(got.numpy() - a @ b) / (bound * (np.abs(a) @ np.abs(b)) + 1e-300)).max())


def compare(device, name, shape, in_section):
    rows, k, n = shape
    random = np.random.default_rng(rows * 1000 + k)
    x, w, dz = (random.standard_normal(s).astype("float32") for s in ((rows, k), (k, n), (rows, n)))
    with lm.device(device), lm.config.set_matmul_precision(name):
        f = lm.function(lambda x, w, dz: (lm.matmul(x, w), lm.matmul(dz, w, transpose_b=True), lm.matmul(x, dz, transpose_a=True)))
        results = f(*map(lm.constant, (x, w, dz)))
    rounds = not in_section and not device.startswith("cpu")
    worst = 0.0
    for got, a, b in zip(results, (x, dz, x.T), (w, w.T, dz)):
        bound = 2.0**-22 * (a.shape[1] + 2) + rounds * 2 * 2.0**-DIGITS[name]  # a sum may truncate at most two bits more than rounding
        worst = max(worst, off(got, a, b, bound))
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
    batches = train_in_double(3, 5, 20, RULES["SGD"])[-1]
    for name in NAMES:
        want, _, _ = train("cpu:0", 3, batches, RULES["SGD"])
        with lm.config.set_matmul_precision(name):
            got, _, _ = train(o.device, 3, batches, RULES["SGD"])
        apart = max(abs(a - b) / abs(a) for a, b in zip(want, got))
        print(f"{name}: losses of training differ by {apart:.1e} from the CPU's")
        agree = agree and apart <= 64 * 2.0**-min(DIGITS[name], 20)
    print("agree" if agree else "DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
