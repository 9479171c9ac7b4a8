#!/usr/bin/env python3
"""What C code of lm.export_c takes beside Lamina itself on one thread: 100 layers of 64, batch 20, inference and training step, in turns in one run.

usage: ./dev python perf/c_export.py [--rounds N] [--compiler CC] [--json]
"""
import argparse
import ctypes
import json
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
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
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
        text, data, *_ = subprocess.run(["size", f"{folder}/net.o"], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
        code = ctypes.CDLL(library)
        with open(f"{folder}/net/net.safetensors", "rb") as f:
            weights = f.read()
    state = ctypes.create_string_buffer(1 << 24)
    assert code.net_init(state, weights, ctypes.c_size_t(len(weights))) == 0
    images, labels, out, cost = x.numpy(), y.numpy().astype(np.int64), np.zeros((20, 10), np.float32), np.zeros(1, np.float32)
    at = [a.ctypes.data_as(ctypes.c_void_p) for a in (images, labels, out, cost)]
    calls = {"forward_c": lambda: code.net_score(state, at[0], at[2]), "forward_lamina": lambda: score(x),
             "step_c": lambda: code.net_step(state, at[0], at[1], at[3]), "step_lamina": lambda: step(x, y)}
    best = dict.fromkeys(calls, 1e9)
    for _ in range(options.rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    figures = {f"{name}_us": round(seconds * 1e6, 1) for name, seconds in best.items()} | {"compiled_kb": (int(text) + int(data)) / 1000}
    for kind in ("forward", "step"):
        figures[f"{kind}_over_lamina"] = round(best[f"{kind}_c"] / best[f"{kind}_lamina"], 3)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:<24} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
