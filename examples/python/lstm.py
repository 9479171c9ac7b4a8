"""LSTMs that continue a sine and repeat a sequence from memory.

    ./dev python examples/python/lstm.py [--steps N] [--seed N]

The second task is that of copying: after five symbols the net sees blanks only, and must give the symbols again in order.
"""
import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import lamina as lm

nn = lm.nn
SYMBOLS, LENGTH = 8, 5


def train(net: lm.nn.Model, loss: Callable[[lm.Tensor, lm.Tensor], lm.Tensor], batches: Callable[[], tuple[Any, Any]], steps: int) -> None:
    adam = lm.optim.Adam()

    @lm.function
    def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        gradients, _ = lm.optim.clip_by_global_norm(tape.gradient(cost, net.trainable_variables), 1.0)
        adam.apply_gradients(zip(gradients, net.trainable_variables))
        return cost

    for i in range(steps):
        adam.learning_rate = 0.005 * (1 + math.cos(math.pi * i / steps))
        cost = step(*batches())
        if i % 500 == 0:
            print(f"step {i:4}: loss {float(cost):.6f}")


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    draw = np.random.default_rng(given.seed)

    def waves() -> tuple[Any, Any]:
        """20 values of sines of random phase [rows, 20, 1], and the next value."""
        wave = np.sin(0.3 * np.arange(21) + draw.uniform(0, 2 * np.pi, (32, 1))).astype("float32")
        return wave[:, :-1, None], wave[:, -1:]

    def copies() -> tuple[Any, Any]:
        """Symbols and then blanks, one-hot [rows, 10, 9], and the symbols at the blanks."""
        symbols = draw.integers(SYMBOLS, size=(64, LENGTH))
        seen = np.concatenate([symbols, np.full_like(symbols, SYMBOLS)], 1)
        return np.eye(SYMBOLS + 1, dtype="float32")[seen], symbols.astype("int32")

    sine = nn.Sequential([nn.LSTM(32), nn.Dense(1)])
    train(sine, lm.losses.MeanSquaredError(), waves, given.steps // 2)
    x, y = waves()
    print(f"sine: mean error of the next value {np.abs(sine(x).numpy() - y).mean():.6f}")

    copy = nn.Sequential([nn.LSTM(64, return_sequences=True), nn.Dense(SYMBOLS)])
    crossentropy = lm.losses.SparseCrossEntropy(from_logits=True)
    train(copy, lambda symbols, scores: crossentropy(symbols, scores[:, LENGTH:]), copies, given.steps)
    x, y = copies()
    print(f"copy: {(copy(x).numpy()[:, LENGTH:].argmax(-1) == y).mean():.2%} of the symbols")


if __name__ == "__main__":
    main()
