"""Regression by a training loop of one's own: Adam, a cosine schedule, clipped gradients, early stopping.

    ./dev python examples/python/regression.py [--epochs N] [--seed N]

The data are Friedman's (1991): ten uniform inputs, of which five matter, and noise of variance 1, which no model can explain.
"""
import argparse
import math

import numpy as np

import lamina as lm

Rows = tuple[lm.Tensor, lm.Tensor]


def friedman(rows: int, seed: int) -> Rows:
    draw = np.random.default_rng(seed)
    x = draw.random((rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4] + draw.normal(size=rows)
    return lm.constant(x.astype("float32")), lm.constant(y[:, None].astype("float32"))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epochs", type=int, default=150)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    (x, y), valid, test = friedman(3000, seed=1), friedman(1000, seed=2), friedman(1000, seed=3)

    net = lm.nn.Sequential([lm.nn.Input((10,)), lm.nn.Dense(64, "tanh"), lm.nn.Dense(64, "tanh"), lm.nn.Dense(1)])
    adam, loss = lm.optim.Adam(lm.optim.schedules.CosineDecay(0.002, given.epochs * 60)), lm.losses.MeanSquaredError()

    @lm.function
    def train(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        """One epoch: the mean loss of its batches."""
        mean = lm.constant(0.0)
        for rows in lm.random.permutation(x.shape[0]).reshape((-1, 50)):
            with lm.GradientTape() as tape:
                cost = loss(y[rows], net(x[rows]))
            gradients, _ = lm.optim.clip_by_global_norm(tape.gradient(cost, net.trainable_variables), 5.0)
            adam.apply_gradients(zip(gradients, net.trainable_variables))
            mean = mean + cost * (50 / x.shape[0])
        return mean

    @lm.function
    def error(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        return loss(y, net(x))

    best, best_epoch, weights = math.inf, 0, net.get_weights()
    for epoch in range(given.epochs):
        mean, found = train(x, y), float(error(*valid))
        if found < best:
            best, best_epoch, weights = found, epoch, net.get_weights()
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: training loss {float(mean):7.3f}, validation {found:7.3f}")
        if epoch - best_epoch >= 20:
            break
    net.set_weights(weights)
    print(f"stopped after {epoch + 1} epochs; the best was {best_epoch}")
    print(f"test error {float(error(*test)):.3f}")


if __name__ == "__main__":
    main()
