"""A damped oscillator as a physics-informed net: it sees the equation and the start, and no solution.

    ./dev python examples/python/oscillator.py [--steps N] [--seed N]

u'' + 2 d u' + w^2 u = 0 with u(0) = 1, u'(0) = 0 (Raissi, Perdikaris and Karniadakis 2019).
"""
import argparse
import math
from typing import Any

import numpy as np

import lamina as lm

DAMPING, FREQUENCY, END = 0.5, 5.0, 2.0


def exact(t: np.ndarray) -> np.ndarray:
    turn = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return np.exp(-DAMPING * t) * (np.cos(turn * t) + DAMPING / turn * np.sin(turn * t))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    net = lm.nn.Sequential([lm.nn.Input((1,)), lm.nn.Dense(32, "tanh"), lm.nn.Dense(32, "tanh"), lm.nn.Dense(1)])

    def u(t: lm.Tensor) -> Any:
        return net(t.reshape((1, 1)))[0, 0]

    speed = lm.grad(u)
    acceleration = lm.grad(speed)

    def residual(t: lm.Tensor) -> Any:
        return acceleration(t) + 2 * DAMPING * speed(t) + FREQUENCY**2 * u(t)

    times, start = lm.linspace(0.0, END, 100), lm.constant(0.0)
    adam = lm.optim.Adam()

    @lm.function
    def step() -> Any:
        with lm.GradientTape() as tape:
            equation = lm.mean(lm.square(lm.vmap(residual)(times)))
            cost = equation + 100 * (lm.square(u(start) - 1) + lm.square(speed(start)))
        adam.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    for i in range(given.steps):
        adam.learning_rate = 0.005 * (1 + math.cos(math.pi * i / given.steps))
        cost = step()
        if i % 1000 == 0:
            print(f"step {i:5}: loss {float(cost):.2e}")
    t = np.linspace(0, END, 301, dtype="float32")[:, None]
    error = np.linalg.norm(net(t).numpy() - exact(t)) / np.linalg.norm(exact(t))
    print(f"loss {float(cost):.2e}, relative L2 error {error:.4f}")


if __name__ == "__main__":
    main()
