"""Times the training step and the forward pass of the 100-layer network on a device, at several batch sizes.

usage: times.py [--device gpu:0] [--batches 20,128] [--json FILE]
"""
import argparse, json, os, sys, time

import numpy as np

import lamina as lm

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python"))
from train_hundred_layers import HundredLayers, make_step  # noqa: E402


def microseconds(call, wait, seconds=1.0):
    """Per call, the best of five runs, each waited for at its end."""
    call(), wait()
    start = time.perf_counter()
    call(), wait()
    calls = max(1, int(seconds / 5 / max(time.perf_counter() - start, 1e-6)))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            last = call()
        wait(last)
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu:0")
    options.add_argument("--batches", default="20,128,1024,8192")
    options.add_argument("--json")
    o = options.parse_args()
    rows = []
    for batch in map(int, o.batches.split(",")):
        with lm.device(o.device):
            net = HundredLayers()
            step = make_step(net, lm.optim.SGD(0.003))
            random = np.random.default_rng(1)
            x = lm.constant(random.random((batch, 28, 28), dtype="float32"))
            y = lm.constant(random.integers(0, 10, batch))
            forward = lm.function(lambda x: net(x, training=False))
            wait = lambda value=None: value is None or value.numpy()
            rows.append({"batch": batch, "step_us": microseconds(lambda: step(x, y), wait), "forward_us": microseconds(lambda: forward(x), wait)})
            print(f"batch {batch}: step {rows[-1]['step_us']:.1f} us, forward {rows[-1]['forward_us']:.1f} us", flush=True)
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"device": o.device, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
