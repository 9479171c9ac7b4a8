"""Burgers' equation as a physics-informed net, trained by L-BFGS: 250 iterations with their line searches are one call of one graph.

    ./dev python examples/python/burgers.py [--iterations N] [--seed N]

u_t + u u_x = v u_xx with v = 0.01 / pi, u(0, x) = -sin(pi x) and u(t, -1) = u(t, 1) = 0: a shock forms at x = 0 (Raissi, Perdikaris and Karniadakis 2019). The form of u has the
start and the edges in it; the net sees the equation alone. Two things keep it from a false shock: every call has new points, more of them where the residual is large, and a
steep slope makes the residual count less, so that the smooth parts settle first. The solution it is compared with is Cole's and Hopf's.
"""
import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import lamina as lm

nn = lm.nn
VISCOSITY, AT_ONCE = 0.01 / math.pi, 250


def exact(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[n] of [n] times and places, by Gauss and Hermite's quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[:, None] - np.sqrt(4 * VISCOSITY * t)[:, None] * nodes
    chance = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return np.asarray(-np.sum(np.sin(np.pi * y) * chance, 1) / np.sum(chance, 1))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--iterations", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    net = nn.Sequential([nn.Input((2,)), *(nn.Dense(20, "tanh") for _ in range(5)), nn.Dense(1)])

    def u(t: lm.Tensor, x: lm.Tensor) -> Any:
        return t * (1 - x * x) * net(lm.stack([t, x])[None])[0, 0] - lm.sin(math.pi * x)

    slope = lm.grad(u, argnums=(0, 1))
    curve = lm.grad(lambda t, x: slope(t, x)[1], argnums=1)

    def residual(t: lm.Tensor, x: lm.Tensor) -> Any:
        """Of the equation, less where u is steep (Liu et al. 2022)."""
        u_t, u_x = slope(t, x)
        return (u_t + u(t, x) * u_x - VISCOSITY * curve(t, x)) / (1 + 0.1 * lm.abs(u_x))

    def loss(t: lm.Tensor, x: lm.Tensor) -> Any:
        return lm.mean(lm.square(lm.vmap(residual)(t, x)))

    def points(draw: np.random.Generator, wrong: Callable[..., Any]) -> list[lm.Tensor]:
        """1500 times and places out of 20000 uniform ones: more where the residual is large (Wu et al. 2023), so that no false shock hides between points."""
        t, x = draw.uniform(size=20000).astype("float32"), draw.uniform(-1, 1, 20000).astype("float32")
        size = np.abs(wrong(t, x).numpy())
        chosen = draw.choice(len(t), 1500, replace=False, p=(weight := size / size.mean() + 1) / weight.sum())
        return [lm.constant(t[chosen]), lm.constant(x[chosen])]

    draw, wrong = np.random.default_rng(given.seed), lm.function(lm.vmap(residual))
    test_t, test_x = (a.ravel() for a in np.meshgrid(np.linspace(0, 1, 100)[1:], np.linspace(-1, 1, 256), indexing="ij"))
    wanted, search = exact(test_t, test_x), lm.optim.LBFGS(history_size=50, max_iterations=AT_ONCE)
    predicted = lm.function(lm.vmap(u))
    for done in range(AT_ONCE, given.iterations + 1, AT_ONCE):
        found: Any = search.minimize(loss, net.trainable_variables, *points(draw, wrong))
        error = np.linalg.norm(predicted(test_t.astype("float32"), test_x.astype("float32")).numpy() - wanted) / np.linalg.norm(wanted)
        print(f"iteration {done:5}: loss {float(found.loss):.2e}, relative L2 error {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
