"""examples/python/lstm.py in JAX, with optax."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

SYMBOLS, LENGTH = 8, 5


def build(key, inputs, units, outputs):
    glorot, orthogonal = jax.nn.initializers.glorot_uniform(), jax.nn.initializers.orthogonal()
    keys = jax.random.split(key, 3)
    return {
        "kernel": glorot(keys[0], (inputs, 4 * units)), "recurrent": orthogonal(keys[1], (units, 4 * units)),
        "bias": jnp.zeros(4 * units).at[units:2 * units].set(1), "head": glorot(keys[2], (units, outputs)), "head_bias": jnp.zeros(outputs),
    }


def lstm(weights, x):
    """The states [rows, steps, units] of [rows, steps, inputs]."""
    units = len(weights["head"])

    def one(carried, x):
        h, c = carried
        i, f, g, o = jnp.split(x + h @ weights["recurrent"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((len(x), units))
    _, states = jax.lax.scan(one, (zeros, zeros), jnp.swapaxes(x @ weights["kernel"] + weights["bias"], 0, 1))
    return jnp.swapaxes(states, 0, 1)


def head(weights, states):
    return states @ weights["head"] + weights["head_bias"]


def train(weights, loss, batches, steps):
    adam = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.01, steps)))
    state = adam.init(weights)

    @jax.jit(donate_argnums=(0, 1))
    def step(weights, state, x, y):
        cost, slope = jax.value_and_grad(loss)(weights, x, y)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, cost

    for i in range(steps):
        weights, state, cost = step(weights, state, *batches())
        if i % 500 == 0:
            print(f"step {i:4}: loss {float(cost):.6f}")
    return weights


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    keys, draw = jax.random.split(jax.random.key(given.seed)), np.random.default_rng(given.seed)

    def waves():
        """20 values of sines of random phase [rows, 20, 1], and the next value."""
        wave = np.sin(0.3 * np.arange(21) + draw.uniform(0, 2 * np.pi, (32, 1))).astype("float32")
        return wave[:, :-1, None], wave[:, -1:]

    def copies():
        """Symbols and then blanks, one-hot [rows, 10, 9], and the symbols at the blanks."""
        symbols = draw.integers(SYMBOLS, size=(64, LENGTH))
        seen = np.concatenate([symbols, np.full_like(symbols, SYMBOLS)], 1)
        return np.eye(SYMBOLS + 1, dtype="float32")[seen], symbols.astype("int32")

    def next_value(weights, x):
        return head(weights, lstm(weights, x)[:, -1])

    sine = train(build(keys[0], 1, 32, 1), lambda weights, x, y: jnp.mean((next_value(weights, x) - y) ** 2), waves, given.steps // 2)
    x, y = waves()
    print(f"sine: mean error of the next value {np.abs(next_value(sine, x) - y).mean():.6f}")

    def scores(weights, x):
        return head(weights, lstm(weights, x)[:, LENGTH:])

    def crossentropy(weights, x, symbols):
        return optax.softmax_cross_entropy_with_integer_labels(scores(weights, x), symbols).mean()

    copy = train(build(keys[1], SYMBOLS + 1, 64, SYMBOLS), crossentropy, copies, given.steps)
    x, y = copies()
    print(f"copy: {(scores(copy, x).argmax(-1) == y).mean():.2%} of the symbols")


if __name__ == "__main__":
    main()
