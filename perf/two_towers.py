"""Two 100-layer towers of 64, batch 64, joined at the end: two virtual devices with one thread each, placed by cost, against one. Prints the measured times beside the
simulator's; asserts nothing.

    LAMINA_THREADS=1 PYTHONPATH=build/python python perf/two_towers.py [seconds]
"""
import os
import sys
import time

os.environ.setdefault("LAMINA_THREADS", "1")

import numpy as np

import lamina as lm

LAYERS, WIDTH, BATCH = 100, 64, 64


def towers_on(devices):
    random = np.random.default_rng(0)
    weights = []
    for device in devices:
        with lm.device(device):
            weights.append([lm.Variable((random.normal(size=(WIDTH, WIDTH)) / 8).astype(np.float32)) for _ in range(LAYERS)])

    @lm.function
    def towers(x):
        ends = []
        for tower in weights:
            y = x
            for w in tower:
                y = lm.tanh(y @ w)
            ends.append(y)
        return lm.sum(ends[0] * ends[1])

    return towers


def microseconds(call, seconds):
    times = []
    for _ in range(5):
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6, sorted(times)[len(times) // 2] * 1e6


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    lm.config.set_virtual_devices("cpu", 2)
    x = lm.constant(np.random.default_rng(1).normal(size=(BATCH, WIDTH)).astype(np.float32))
    one, two = towers_on(["cpu:0", "cpu:0"]), towers_on(["cpu:0", "cpu:1"])
    measured = {"one device": microseconds(lambda: one(x).numpy(), seconds)}
    with lm.device("auto"):
        measured["placed by cost"] = microseconds(lambda: two(x).numpy(), seconds)
        explained = two.explain(x)
    modelled = {"one device": next(us for name, us, _ in explained.placements if name == "cpu:0 alone"), "placed by cost": explained.modelled_us}
    for name, (best, median) in measured.items():
        print(f"{name:16}{best:9.0f} us at best, {median:9.0f} us median, {modelled[name]:9.0f} us simulated ({100 * (modelled[name] / best - 1):+.0f} % of the best)")
    print(f"gain: {measured['one device'][0] / measured['placed by cost'][0]:.2f}x at best, {measured['one device'][1] / measured['placed by cost'][1]:.2f}x median, "
          f"{modelled['one device'] / modelled['placed by cost']:.2f}x simulated; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
