"""Trains a network of small layers on the GPU and on the CPU from the same weights, and compares losses and weights.

usage: check.py [--layers N] [--steps N] [--batches 1,20,128] [--optimizers SGD,Adam] [--device gpu:0] [--profile N]
Each row names the kernels that ran on the device. The exit status tells whether they agree: sums have one order on both, exponentials
differ in their last bits. With --profile the network of the first batch is trained on the device only, and a profiler that waits for
cudaProfilerStart sees N of its steps.
"""
import argparse, sys

import numpy as np

import lamina as lm
import nets
from tools import PROFILED


class Net(lm.nn.Model):
    def __init__(self, layers, width):
        super().__init__()
        self.hidden = [lm.nn.Dense(width, activation="relu", kernel_initializer=lm.nn.initializers.looks_linear(mirror_in=i > 0)) for i in range(layers)]
        self.head = lm.nn.Dense(10)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.head(x)


def trainer(layers, batch, optimizer):
    """(step, feed, net): step(*feed()) draws a batch, trains on it and returns the loss."""
    random = np.random.default_rng(3)
    lm.random.set_seed(7)
    net, loss = Net(layers, 64), lm.losses.SparseCrossEntropy(from_logits=True)
    rule = optimizer()

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        variables = net.trainable_variables
        rule.apply_gradients(zip(tape.gradient(cost, variables), variables))
        return cost

    def feed():
        return lm.constant(random.standard_normal((batch, 784)).astype("float32")), lm.constant(random.integers(0, 10, batch))

    return step, feed, net


def train(device, layers, steps, batch, optimizer):
    """(losses, weights) after this many steps, and the kernels that ran."""
    with lm.device(device):
        step, feed, net = trainer(layers, batch, optimizer)
        losses = [float(step(*feed()).numpy()) for _ in range(steps)]
        return losses, [v.numpy() for v in net.trainable_variables], nets.kernels(step.explain(*feed()))


def profile(device, layers, steps, batch):
    """The first steps compile, load kernels and allocate permanent memory; the following ones are profiled."""
    with lm.device(device):
        step, feed, _ = trainer(layers, batch, lambda: lm.optim.SGD(0.003))
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
    worst = 0.0
    rules = {"SGD": lambda: lm.optim.SGD(0.003), "Adam": lambda: lm.optim.Adam(1e-4)}
    for name in o.optimizers.split(","):
        optimizer = rules[name]
        for batch in map(int, o.batches.split(",")):
            want, wanted, _ = train("cpu:0", o.layers, o.steps, batch, optimizer)
            got, weights, ran = train(o.device, o.layers, o.steps, batch, optimizer)
            apart = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(want, got))
            far = max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) for a, b in zip(wanted, weights))
            print(f"{name}, batch {batch}: losses differ by {apart:.1e}, weights by {far:.1e}; ran {nets.in_words(ran)}")
            worst = max(worst, apart, far)
    print("agree" if worst < 1e-3 else "DIFFER")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
