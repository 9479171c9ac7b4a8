"""examples/python/regression.py in JAX, with optax."""
import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax


def friedman(rows, seed):
    draw = np.random.default_rng(seed)
    x = draw.random((rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4] + draw.normal(size=rows)
    return x.astype("float32"), y[:, None].astype("float32")


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def predict(weights, x):
    *hidden, (w, b) = weights
    for kernel, bias in hidden:
        x = jnp.tanh(x @ kernel + bias)
    return x @ w + b


def loss(weights, x, y):
    return jnp.mean((predict(weights, x) - y) ** 2)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=150)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    (x, y), valid, test = friedman(3000, seed=1), friedman(1000, seed=2), friedman(1000, seed=3)

    weights = build(jax.random.key(given.seed), (10, 64, 64, 1))
    epoch_steps = len(x) // 50
    adam = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(lambda i: 0.001 * (1 + jnp.cos(jnp.pi * (i // epoch_steps) / given.epochs))))
    state, error = adam.init(weights), jax.jit(loss)

    @jax.jit(donate_argnums=(0, 1))
    def train(weights, state, x, y):
        """One step with each of the batches [steps, rows, ...]: the new weights and state, and the mean loss."""
        def step(carried, batch):
            weights, state = carried
            cost, slope = jax.value_and_grad(loss)(weights, *batch)
            change, state = adam.update(slope, state)
            return (optax.apply_updates(weights, change), state), cost

        (weights, state), costs = jax.lax.scan(step, (weights, state), (x, y))
        return weights, state, jnp.mean(costs)

    draw = np.random.default_rng(given.seed)
    best, best_epoch, kept = math.inf, 0, weights
    for epoch in range(given.epochs):
        order = draw.permutation(len(x)).reshape(epoch_steps, -1)
        weights, state, mean = train(weights, state, x[order], y[order])
        found = float(error(weights, *valid))
        if found < best:
            best, best_epoch, kept = found, epoch, jax.tree.map(jnp.copy, weights)
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: training loss {float(mean):7.3f}, validation {found:7.3f}")
        if epoch - best_epoch >= 20:
            break
    print(f"stopped after {epoch + 1} epochs; the best was {best_epoch}")
    print(f"test error {float(error(kept, *test)):.3f}")


if __name__ == "__main__":
    main()
