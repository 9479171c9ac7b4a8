"""examples/python/burgers.py in JAX, with optax."""
import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

VISCOSITY, AT_ONCE = 0.01 / math.pi, 250


def exact(t, x):
    """[n] of [n] times and places, by Gauss and Hermite's quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[:, None] - np.sqrt(4 * VISCOSITY * t)[:, None] * nodes
    chance = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -np.sum(np.sin(np.pi * y) * chance, 1) / np.sum(chance, 1)


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def u(weights, t, x):
    *hidden, (w, b) = weights
    y = jnp.stack([t, x])
    for kernel, bias in hidden:
        y = jnp.tanh(y @ kernel + bias)
    return t * (1 - x * x) * (y @ w + b)[0] - jnp.sin(math.pi * x)


slope = jax.grad(u, (1, 2))
curve = jax.grad(lambda weights, t, x: slope(weights, t, x)[1], 2)


def residual(weights, t, x):
    u_t, u_x = slope(weights, t, x)
    return (u_t + u(weights, t, x) * u_x - VISCOSITY * curve(weights, t, x)) / (1 + 0.1 * jnp.abs(u_x))


def loss(weights, t, x):
    return jnp.mean(jax.vmap(residual, (None, 0, 0))(weights, t, x) ** 2)


@jax.jit(donate_argnums=0)
def minimize(weights, t, x):
    """AT_ONCE iterations of L-BFGS from an empty history, with their line searches."""
    search = optax.lbfgs(memory_size=50)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def one(carried, _):
        weights, state = carried
        value, grad = value_and_grad(weights, t, x, state=state)
        change, state = search.update(grad, state, weights, value=value, grad=grad, value_fn=loss, t=t, x=x)
        return (optax.apply_updates(weights, change), state), None

    (weights, _), _ = jax.lax.scan(one, (weights, search.init(weights)), length=AT_ONCE)
    return weights, loss(weights, t, x)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--iterations", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    weights = build(jax.random.key(given.seed), (2, 20, 20, 20, 20, 20, 1))
    wrong, predicted = jax.jit(jax.vmap(residual, (None, 0, 0))), jax.jit(jax.vmap(u, (None, 0, 0)))

    def points(draw):
        """1500 times and places out of 20000 uniform ones: more where the residual is large, so that no false shock hides between points."""
        t, x = draw.uniform(size=20000).astype("float32"), draw.uniform(-1, 1, 20000).astype("float32")
        size = np.abs(wrong(weights, t, x)).astype("float64")
        weight = size / size.mean() + 1
        chosen = draw.choice(len(t), 1500, replace=False, p=weight / weight.sum())
        return t[chosen], x[chosen]

    draw = np.random.default_rng(given.seed)
    test_t, test_x = (a.ravel() for a in np.meshgrid(np.linspace(0, 1, 100)[1:], np.linspace(-1, 1, 256), indexing="ij"))
    wanted = exact(test_t, test_x)
    for done in range(AT_ONCE, given.iterations + 1, AT_ONCE):
        weights, found = minimize(weights, *points(draw))
        error = np.linalg.norm(predicted(weights, test_t.astype("float32"), test_x.astype("float32")) - wanted) / np.linalg.norm(wanted)
        print(f"iteration {done:5}: loss {float(found):.2e}, relative L2 error {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
