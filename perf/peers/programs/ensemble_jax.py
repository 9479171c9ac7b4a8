"""examples/python/ensemble.py in JAX."""
import argparse
import gzip
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


def build(key):
    def layer(key, inputs, outputs):
        limit = (6 / (inputs + outputs)) ** 0.5
        return {"kernel": jax.random.uniform(key, (inputs, outputs), minval=-limit, maxval=limit), "bias": jnp.zeros(outputs)}

    first, second = jax.random.split(key)
    return [layer(first, 784, 32), layer(second, 32, 10)]


def scores(weights, x):
    hidden, head = weights
    return jax.nn.relu(x @ hidden["kernel"] + hidden["bias"]) @ head["kernel"] + head["bias"]


def loss(weights, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores(weights, x)), y[:, None], 1))


def steps(weights, rate, x, y):
    """One step with each of the batches [steps, rows, ...]: the new weights, and the losses."""
    def step(weights, batch):
        cost, slope = jax.value_and_grad(loss)(weights, *batch)
        return jax.tree.map(lambda w, g: w - rate * g, weights, slope), cost

    return jax.lax.scan(step, weights, (x, y))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()

    images = (read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz")).astype("float32") / 255).reshape(-1, 784)
    labels = read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(5000) % 5 == 4
    draw = np.random.default_rng(given.seed)
    epochs = [draw.permutation(np.flatnonzero(~test)).reshape(80, 50) for _ in range(given.epochs)]  # every net sees the same batches

    rates = np.geomspace(0.001, 3, 32).astype("float32")
    keys = jax.random.split(jax.random.key(given.seed), 32)
    nets = jax.vmap(build)(keys)
    train_all = jax.jit(jax.vmap(steps, in_axes=(0, 0, None, None)), donate_argnums=0)
    for epoch, order in enumerate(epochs):
        nets, losses = train_all(nets, rates, images[order], labels[order])
        losses = np.asarray(losses).mean(1)
        print(f"epoch {epoch + 1}: training losses from {losses.min():.3f} to {losses.max():.3f}")
    right = jax.vmap(partial(lambda x, y, weights: jnp.mean(jnp.argmax(scores(weights, x), 1) == y), images[test], labels[test]))
    accuracies = np.asarray(right(nets))
    for rate, cost, accuracy in zip(rates, losses, accuracies):
        print(f"learning rate {rate:6.4f}: training loss {cost:6.3f}, test accuracy {accuracy:.3f}")

    best = int(accuracies.argmax())
    alone, train = build(keys[best]), jax.jit(steps)
    for order in epochs:
        alone, _ = train(alone, rates[best], images[order], labels[order])
    same = all(np.array_equal(a, b[best]) for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(nets)))
    print(f"best: learning rate {rates[best]:.4f}, test accuracy {accuracies[best]:.3f}; trained alone it has {'the same bits' if same else 'other bits'}")


if __name__ == "__main__":
    main()
