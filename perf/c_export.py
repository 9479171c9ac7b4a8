#!/usr/bin/env python3
"""What C code of lm.export_c takes beside Lamina itself on one thread: 100 layers of 64, batch 20, inference and training step, in turns in one run.

usage: LAMINA_THREADS=1 python perf/c_export.py [--rounds N] [--compiler CC]
"""
import argparse
import ctypes
import os
import subprocess
import tempfile
import time

import numpy as np

os.environ.setdefault("LAMINA_THREADS", "1")

import lamina as lm  # noqa: E402  the setting is read when it starts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--compiler", default="gcc")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    net = lm.nn.Sequential([lm.nn.Flatten(), *[lm.nn.Dense(64, "relu") for _ in range(100)], lm.nn.Dropout(0.2), lm.nn.Dense(10)])
    x, y = lm.constant(rng.random((20, 28, 28), dtype=np.float32)), lm.constant(rng.integers(0, 10, 20))
    net(x)
    sgd, loss = lm.optim.SGD(0.003), lm.losses.SparseCategoricalCrossentropy(from_logits=True)

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x, training=True))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    score = lm.function(lambda x: net(x))
    with tempfile.TemporaryDirectory() as folder:
        lm.export_c({"score": (score, x), "step": (step, x, y)}, f"{folder}/net", weights="file")
        library = f"{folder}/net.so"
        subprocess.run([options.compiler, "-O3", "-march=native", "-std=c99", "-shared", "-fPIC", f"{folder}/net/net.c", "-o", library, "-lm"], check=True)
        subprocess.run([options.compiler, "-O3", "-std=c99", "-c", f"{folder}/net/net.c", "-o", f"{folder}/net.o"], check=True)
        print(subprocess.run(["size", f"{folder}/net.o"], capture_output=True, text=True, check=True).stdout.strip())
        code = ctypes.CDLL(library)
        with open(f"{folder}/net/net.safetensors", "rb") as f:
            weights = f.read()
    state = ctypes.create_string_buffer(1 << 24)
    assert code.net_init(state, weights, ctypes.c_size_t(len(weights))) == 0
    images, labels, out, cost = x.numpy(), y.numpy().astype(np.int64), np.zeros((20, 10), np.float32), np.zeros(1, np.float32)
    at = [a.ctypes.data_as(ctypes.c_void_p) for a in (images, labels, out, cost)]
    calls = {"inference, C": lambda: code.net_score(state, at[0], at[2]), "inference, Lamina": lambda: score(x),
             "step, C": lambda: code.net_step(state, at[0], at[1], at[3]), "step, Lamina": lambda: step(x, y)}
    best = dict.fromkeys(calls, 1e9)
    for _ in range(options.rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    for name, seconds in best.items():
        print(f"{name:<20} {seconds * 1e6:8.0f} us")
    for kind in ("inference", "step"):
        print(f"{kind}: {best[kind + ', C'] / best[kind + ', Lamina']:.2f} times Lamina's own time on one thread")


if __name__ == "__main__":
    main()
