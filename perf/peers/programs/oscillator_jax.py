"""examples/python/oscillator.py in JAX, with optax."""
import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

DAMPING, FREQUENCY, END = 0.5, 5.0, 2.0


def exact(t):
    turn = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return np.exp(-DAMPING * t) * (np.cos(turn * t) + DAMPING / turn * np.sin(turn * t))


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def u(weights, t):
    *hidden, (w, b) = weights
    x = t.reshape(1)
    for kernel, bias in hidden:
        x = jnp.tanh(x @ kernel + bias)
    return (x @ w + b)[0]


speed = jax.grad(u, 1)
acceleration = jax.grad(speed, 1)


def loss(weights, times, start):
    def residual(t):
        return acceleration(weights, t) + 2 * DAMPING * speed(weights, t) + FREQUENCY**2 * u(weights, t)

    equation = jnp.mean(jax.vmap(residual)(times) ** 2)
    return equation + 100 * ((u(weights, start) - 1) ** 2 + speed(weights, start) ** 2)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    weights = build(jax.random.key(given.seed), (1, 32, 32, 1))
    times, start = jnp.linspace(0.0, END, 100), jnp.float32(0)
    adam = optax.adam(optax.cosine_decay_schedule(0.01, given.steps))
    state = adam.init(weights)

    @jax.jit(donate_argnums=(0, 1))
    def step(weights, state):
        cost, slope = jax.value_and_grad(loss)(weights, times, start)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, cost

    for i in range(given.steps):
        weights, state, cost = step(weights, state)
        if i % 1000 == 0:
            print(f"step {i:5}: loss {float(cost):.2e}")
    t = np.linspace(0, END, 301, dtype="float32")
    error = np.linalg.norm(jax.vmap(u, (None, 0))(weights, t) - exact(t)) / np.linalg.norm(exact(t))
    print(f"loss {float(cost):.2e}, relative L2 error {error:.4f}")


if __name__ == "__main__":
    main()
