"""The benchmark's training step while another process keeps a core busy.

    ./dev python perf/busy_core.py [--rounds N] [--busy N]

Three rows, measured alternately: all threads on the idle machine, then one thread and all threads beside --busy processes that only count.
The last should take at most 1.1 times the second. A figure is a mean over half a second, because a thread that loses its core loses it for
milliseconds; a row is the median of all rounds.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = """
import sys, time
import numpy as np
import lamina as lm
sys.path.insert(0, sys.argv[1])
import train_hundred_layers as benchmark
random = np.random.default_rng(0)
x, y = lm.constant(random.random((20, 28, 28), np.float32)), lm.constant(random.integers(0, 10, 20, np.int32))
step = benchmark.make_step(benchmark.HundredLayers(), lm.optim.SGD(0.001))
for _ in range(100): step(x, y)
print("ready", flush=True)
for _ in sys.stdin:
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < 0.5:
        for _ in range(10): step(x, y)
        steps += 10
    print((time.perf_counter() - start) / steps * 1e6, flush=True)
"""


class Program:
    def __init__(self, threads):
        self.process = subprocess.Popen([sys.executable, "-c", STEPS, str(ROOT / "examples/python")], env=os.environ | {"LAMINA_THREADS": str(threads)},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def microseconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--busy", type=int, default=1, help="how many processes keep a core busy")
    given = options.parse_args()
    threads = len(os.sched_getaffinity(0))
    one, all_of_them = Program(1), Program(threads)
    rows = {f"{threads} threads, quiet": [], "1 thread, busy": [], f"{threads} threads, busy": []}
    for _ in range(given.rounds):
        quiet, single, shared = rows.values()
        quiet.append(all_of_them.microseconds())
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
        try:
            single.append(one.microseconds())
            shared.append(all_of_them.microseconds())
        finally:
            for process in busy:
                process.kill()
                process.wait()
    for name, times in rows.items():
        print(f"{name:<18} {statistics.median(times):7.0f} us (best {min(times):.0f}, worst {max(times):.0f})")
    _, single, shared = (statistics.median(times) for times in rows.values())
    print(f"{threads} threads beside a busy core take {shared / single:.2f} times what 1 thread takes")


if __name__ == "__main__":
    main()
