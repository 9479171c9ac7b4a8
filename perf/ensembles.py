"""A training step of lm.nn.Ensemble beside one net's step with the members' batches as one wide batch: the same products, measured alternately.

    ./dev python perf/ensembles.py [--seconds 3]

A ratio is the wide batch's time over the ensemble's. The ensemble updates n times as many weights, which is why Adam's ratio is below SGD's. Asserts nothing.
"""
import argparse
import os

os.environ.setdefault("LAMINA_THREADS", str(min(2, len(os.sched_getaffinity(0)))))

import numpy as np

import lamina as lm
from two_towers import microseconds

NETWORKS = {"32 nets of 10, 64, 64, 1, batch 50": (32, (10, 64, 64, 1), 50), "16 nets of 64, 5 x 64, 10, batch 20": (16, (64,) * 6 + (10,), 20),
            "8 nets of 6, 64, 64, 1, batch 40": (8, (6, 64, 64, 1), 40)}


def steps(members, widths, batch, optimizer):
    """(a step of the ensemble, a step of one net with the wide batch)."""
    inputs, *hidden, outputs = widths
    random = np.random.default_rng(0)

    def make():
        return lm.nn.Sequential([lm.nn.Input((inputs,)), *[lm.nn.Dense(n, "relu") for n in hidden], lm.nn.Dense(outputs)])

    def rows(count):
        return [lm.constant(random.normal(size=(count, n)).astype(np.float32)) for n in (inputs, outputs)]

    nets, net, sgd, loss = lm.nn.Ensemble(make, members, optimizer=optimizer, input_shape=(inputs,)), make(), optimizer(0.001), lm.losses.MeanSquaredError()

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    own, wide = rows(batch), rows(batch * members)
    return lambda: nets._train(*own).numpy(), lambda: step(*wide).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="per network and optimizer")
    options = parser.parse_args()
    for name, (members, widths, batch) in NETWORKS.items():
        for optimizer in (lm.optim.SGD, lm.optim.Adam):
            (ours, middle), (wide, wide_middle) = microseconds(steps(members, widths, batch, optimizer), options.seconds)
            print(f"{name:38}{optimizer.__name__:6}ensemble {ours:8.0f} us (median {middle:.0f}), wide batch {wide:8.0f} us (median {wide_middle:.0f}): {wide / ours:.2f} of its speed", flush=True)
    print(f"{os.environ['LAMINA_THREADS']} threads, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
