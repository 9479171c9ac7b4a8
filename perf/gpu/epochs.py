"""Trains over stacked batches on the device, and over the same batches streamed from the host (LAMINA_CUDA_INFEED=on), and compares every
bit.

usage: epochs.py [--layers N] [--batches N] [--batch ROWS] [--times N] [--device gpu:0] [--json FILE]
Prints, and writes to FILE, the minimum time of an epoch of each kind in milliseconds (the first kind includes copying all batches), and for
one step of the network the times of its layers by the kernel's own clock (lm.profiler.record(device_steps=True)). The exit status tells
whether the bits are the same.
"""
import argparse, json, sys, time

import numpy as np

import lamina as lm
from check import Net, training_step


def epoch_of(layers):
    """(epoch, step, net): epoch(xs, ys) trains on each batch and returns the losses, step(x, y) on one."""
    lm.random.set_seed(7)
    net = Net(layers, 64)
    step = training_step(net, lm.optim.SGD(0.003))

    @lm.function
    def epoch(xs, ys):
        return lm.scan(lambda carry, batch: (carry, step(*batch)), (), (xs, ys))[1]

    return epoch, lm.function(step), net


def train(device, place, layers, xs, ys, times):
    """(milliseconds, losses of the first epoch and all weights) with the batches on `place`."""
    with lm.device(device):
        epoch, step, net = epoch_of(layers)
        took, losses = [], None
        for _ in range(times):
            with lm.device("cpu:0"):
                on_host = lm.constant(xs), lm.constant(ys)
            began = time.perf_counter()
            given = [t.to(place) for t in on_host]
            found = epoch(*given).numpy()
            took.append(1e3 * (time.perf_counter() - began))
            losses = found if losses is None else losses
        weights = [v.numpy() for v in net.trainable_variables]
        with lm.profiler.record(device_steps=True) as record:
            step(lm.constant(xs[0]), lm.constant(ys[0])).numpy()
        return min(took), [losses, *weights], record


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--layers", type=int, default=100)
    options.add_argument("--batches", type=int, default=300)
    options.add_argument("--batch", type=int, default=20)
    options.add_argument("--times", type=int, default=4)
    options.add_argument("--device", default="gpu:0")
    options.add_argument("--json")
    o = options.parse_args()
    random = np.random.default_rng(3)
    xs = random.standard_normal((o.batches, o.batch, 784)).astype("float32")
    ys = random.integers(0, 10, (o.batches, o.batch))
    before, wanted, _ = train(o.device, o.device, o.layers, xs, ys, o.times)
    meanwhile, got, record = train(o.device, "cpu:0", o.layers, xs, ys, o.times)
    same = all(np.array_equal(a, b) for a, b in zip(wanted, got, strict=True))
    print(f"{o.batches} batches of {o.batch}: {before:.2f} ms with all batches copied before, {meanwhile:.2f} ms with batches that come while the loop runs; the bits are {'the same' if same else 'DIFFERENT'}")
    print(record)
    if o.json:
        figures = {"batches": o.batches, "batch": o.batch, "layers": o.layers, "copied before ms": before, "meanwhile ms": meanwhile, "steps": [s._asdict() for s in record.device_steps]}
        with open(o.json, "w") as file:
            json.dump(figures, file, indent=1)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
