"""Trains a network of small layers on the GPU and on the CPU from the same weights, and compares losses and weights.

usage: check.py [--layers N] [--steps N] [--batches 1,20,128] [--optimizers SGD,Adam] [--device gpu:0]
The exit status tells whether they agree: sums have one order on both, exponentials differ in their last bits.
"""
import argparse, sys

import numpy as np

import lamina as lm


class Net(lm.nn.Model):
    def __init__(self, layers, width):
        super().__init__()
        self.hidden = [lm.nn.Dense(width, activation="relu", kernel_initializer=lm.nn.initializers.looks_linear(mirror_in=i > 0)) for i in range(layers)]
        self.head = lm.nn.Dense(10)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.head(x)


def train(device, layers, steps, batch, optimizer):
    """(losses, weights) after so many steps."""
    random = np.random.default_rng(3)
    with lm.device(device):
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

        losses = []
        for _ in range(steps):
            x = lm.constant(random.standard_normal((batch, 784)).astype("float32"))
            y = lm.constant(random.integers(0, 10, batch))
            losses.append(float(step(x, y).numpy()))
        return losses, [v.numpy() for v in net.trainable_variables]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--layers", type=int, default=100)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--batches", default="1,20,128")
    options.add_argument("--optimizers", default="SGD,Adam")
    options.add_argument("--device", default="gpu:0")
    o = options.parse_args()
    worst = 0.0
    rules = {"SGD": lambda: lm.optim.SGD(0.003), "Adam": lambda: lm.optim.Adam(1e-4)}
    for name in o.optimizers.split(","):
        optimizer = rules[name]
        for batch in map(int, o.batches.split(",")):
            want, wanted = train("cpu:0", o.layers, o.steps, batch, optimizer)
            got, weights = train(o.device, o.layers, o.steps, batch, optimizer)
            apart = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(want, got))
            far = max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) for a, b in zip(wanted, weights))
            print(f"{name}, batch {batch}: losses differ by {apart:.1e}, weights by {far:.1e}")
            worst = max(worst, apart, far)
    print("agree" if worst < 1e-3 else "DIFFER")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
