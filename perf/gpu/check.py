"""Trains a network of small layers on the GPU and on the CPU from the same weights, both in float32, and on the CPU in float64.

usage: check.py [--layers N] [--steps N] [--batches 1,20,128] [--optimizers SGD,Adam] [--device gpu:0] [--profile N]
Each row names the kernels that ran on the device. They agree if the device is near float64; a variable's error is relative to how far
training has moved it. Rounding would show as large errors of single gradients but for two measures: rows whose relus are near their
kink are left out of the batches, and Adam's epsilon keeps it from magnifying tiny gradients.
With --profile the network of the first batch is trained on the device only, and a profiler that waits for cudaProfilerStart sees N of
its steps.
"""
import argparse, sys

import numpy as np

import lamina as lm
import nets
from tools import PROFILED


DRAWN = 4  # rows for each that is taken
BOUND = 2e-4  # of errors, relative. The CPU's are at most 2e-5
RULES = {"SGD": lambda: lm.optim.SGD(0.003), "Adam": lambda: lm.optim.Adam(1e-4, epsilon=1e-3)}


class Net(lm.nn.Model):
    def __init__(self, layers, width, dtype="float32"):
        super().__init__()
        self.hidden = [lm.nn.Dense(width, activation="relu", kernel_initializer=lm.nn.initializers.looks_linear(mirror_in=i > 0), dtype=dtype) for i in range(layers)]
        self.head = lm.nn.Dense(10, dtype=dtype)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.head(x)


def training_step(net, rule):
    """step(x, y) trains on a batch and returns the loss; not traced."""
    loss = lm.losses.SparseCrossEntropy(from_logits=True)

    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        variables = net.trainable_variables
        rule.apply_gradients(zip(tape.gradient(cost, variables), variables))
        return cost

    return step


def trainer(layers, batch, optimizer, dtype="float32"):
    """(step, feed, net): step(*feed()) draws a batch, trains on it and returns the loss. The weights begin the same in both dtypes."""
    random = np.random.default_rng(3)
    lm.random.set_seed(7)
    net = Net(layers, 64, "float32")
    if dtype != "float32":
        net(lm.zeros([1, 784]))
        start, net = [v.numpy() for v in net.trainable_variables], Net(layers, 64, dtype)
        net(lm.zeros([1, 784], dtype))
        for v, w in zip(net.trainable_variables, start, strict=True):
            v.assign(w.astype(dtype))

    def feed():
        return lm.constant(random.standard_normal((batch, 784)).astype("float32")), lm.constant(random.integers(0, 10, batch))

    return lm.function(training_step(net, optimizer())), feed, net


def clear_rows(x, weights, count):
    """The rows whose relus stay farthest from their kink, relative to the layer: so many of x, by these weights."""
    least, y = np.full(len(x), np.inf), x
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        z = y @ kernel + bias
        least = np.minimum(least, np.abs(z).min(1) / np.sqrt(np.mean(z * z)))
        y = np.maximum(z, 0)
    return np.sort(np.argsort(-least)[:count])


def train_in_double(layers, steps, batch, optimizer):
    """(losses, weights before, weights after, batches) of training in float64 on batches that have clear rows."""
    random = np.random.default_rng(3)
    with lm.device("cpu:0"):
        step, _, net = trainer(layers, batch, optimizer, "float64")
        values = lambda: [v.numpy() for v in net.trainable_variables]
        before, losses, batches = values(), [], []
        for _ in range(steps):
            x, y = random.standard_normal((DRAWN * batch, 784)).astype("float32"), random.integers(0, 10, DRAWN * batch)
            rows = clear_rows(x.astype("float64"), values(), batch)
            batches.append((x[rows], y[rows]))
            losses.append(float(step(lm.constant(x[rows].astype("float64")), lm.constant(y[rows])).numpy()))
        return losses, before, values(), batches


def train(device, layers, batches, optimizer):
    """(losses, weights) after training on these, and the kernels that ran."""
    with lm.device(device):
        step, _, net = trainer(layers, len(batches[0][0]), optimizer)
        batches = [tuple(map(lm.constant, batch)) for batch in batches]
        losses = [float(step(*batch).numpy()) for batch in batches]
        return losses, [v.numpy() for v in net.trainable_variables], nets.kernels(step.explain(*batches[0]))


def errors(losses, weights, double):
    """The largest relative error of a loss, and of a variable's change: what is more than each step's rounding of the stored numbers."""
    wanted, before, after, batches = double
    of_losses = max(abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True))
    worst = 0.0
    for now, old, right in zip(weights, before, after, strict=True):
        rounding = len(batches) * 2.0**-24 * np.abs(right)
        worst = max(worst, float((np.abs(now - right) - rounding).max() / np.abs(right - old).max()))
    return of_losses, worst


def profile(device, layers, steps, batch):
    """The first steps compile, load kernels and allocate permanent memory; the following ones are profiled."""
    with lm.device(device):
        step, feed, _ = trainer(layers, batch, RULES["SGD"])
        for _ in range(4):
            step(*feed()).numpy()
        data = feed()
        with lm.profiler.capture():
            for _ in range(steps):
                step(*data)
    print(f"{PROFILED}{steps}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--layers", type=int, default=100)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--batches", default="1,20,128")
    options.add_argument("--optimizers", default="SGD,Adam")
    options.add_argument("--device", default="gpu:0")
    options.add_argument("--profile", type=int, default=0, metavar="N")
    o = options.parse_args()
    if o.profile:
        profile(o.device, o.layers, o.profile, int(o.batches.split(",")[0]))
        return 0
    agree = True
    for name in o.optimizers.split(","):
        for batch in map(int, o.batches.split(",")):
            double = train_in_double(o.layers, o.steps, batch, RULES[name])
            losses, weights, _ = train("cpu:0", o.layers, double[-1], RULES[name])
            cpu = errors(losses, weights, double)
            losses, weights, ran = train(o.device, o.layers, double[-1], RULES[name])
            got = errors(losses, weights, double)
            print(f"{name}, batch {batch}: losses are off by {got[0]:.1e} (the CPU's by {cpu[0]:.1e}), weights by {got[1]:.1e} ({cpu[1]:.1e}) of their change; ran {nets.in_words(ran)}")
            agree = agree and max(got) < BOUND
    print("agree" if agree else "DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
