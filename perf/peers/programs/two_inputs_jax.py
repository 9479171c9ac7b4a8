"""examples/python/two_inputs.py in JAX, with optax."""
import argparse
import gzip
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")
crossentropy = optax.softmax_cross_entropy_with_integer_labels


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def encode(encoder, x):
    x = x.reshape(len(x), -1)
    for kernel, bias in encoder:
        x = jax.nn.relu(x @ kernel + bias)
    return x


def dense(layer, x):
    kernel, bias = layer
    return x @ kernel + bias


def fit(weights, loss, adam, data, epochs, draw, report=None):
    """Minimizes loss(weights, *batch) -> (cost, figures) over `epochs` of batches of 32 rows; reports the mean figures of each epoch."""
    state = adam.init(weights)

    @jax.jit(donate_argnums=(0, 1))
    def train(weights, state, batches):
        def step(carried, batch):
            weights, state = carried
            (_, figures), slope = jax.value_and_grad(loss, has_aux=True)(weights, *batch)
            change, state = adam.update(slope, state)
            return (optax.apply_updates(weights, change), state), figures

        (weights, state), figures = jax.lax.scan(step, (weights, state), batches)
        return weights, state, jax.tree.map(jnp.mean, figures)

    rows = len(data[0]) // 32 * 32
    for epoch in range(epochs):
        order = draw.permutation(len(data[0]))[:rows].reshape(-1, 32)
        weights, state, figures = train(weights, state, [part[order] for part in data])
        if report:
            report(epoch, figures)
    return weights


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    keys, draw = jax.random.split(jax.random.key(given.seed), 5), np.random.default_rng(given.seed)
    images = read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz")).astype("float32") / 255
    labels = read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(len(labels)) % 5 == 4  # the files are sorted by digit

    def read(weights, x):
        return dense(weights["head"], encode(weights["encoder"], x))

    def reading(weights, x, y):
        return crossentropy(read(weights, x), y).mean(), ()

    reader = {"encoder": build(keys[0], (784, 128, 32)), "head": build(keys[1], (32, 10))[0]}
    reader = fit(reader, reading, optax.adam(0.002), (images[~test], labels[~test]), given.epochs, draw)
    print(f"single digits: test accuracy {(read(reader, images[test]).argmax(1) == labels[test]).mean():.3f}")

    encoder = reader["encoder"]
    frozen = jax.tree.map(np.asarray, encoder)
    net = {name: build(key, widths)[0] for name, key, widths in zip(("hidden", "total", "larger"), keys[2:], ((64, 64), (64, 1), (64, 2)))}
    for name, (kernel, bias) in net.items():
        print(name, kernel.shape, bias.shape)
    trainable, kept = (sum(w.size for w in jax.tree.leaves(weights)) for weights in (net, encoder))
    print("parameters:", trainable + kept, "trainable:", trainable)

    def outputs(weights, a, b):
        h = jax.nn.relu(dense(weights["hidden"], jnp.concatenate([encode(encoder, a), encode(encoder, b)], 1)))
        return dense(weights["total"], h), dense(weights["larger"], h)

    def pairing(weights, a, b, total, larger):
        total_found, larger_found = outputs(weights, a, b)
        cost = jnp.mean((total_found - total) ** 2) + crossentropy(larger_found, larger).mean()
        return cost, (cost, jnp.abs(total_found - total).mean(), jnp.mean(larger_found.argmax(1) == larger))

    def pairs(rows, count):
        first, second = draw.choice(rows, (2, count))
        return images[first], images[second], (labels[first] + labels[second])[:, None].astype("float32"), (labels[first] > labels[second]).astype("int32")

    def report(epoch, figures):
        print("epoch {}/{}: loss {:.4f}, total_mae {:.4f}, larger_accuracy {:.4f}".format(epoch + 1, given.epochs, *figures))

    net = fit(net, pairing, optax.adam(0.003), pairs(np.flatnonzero(~test), 10000), given.epochs, draw, report)
    _, (_, mae, accuracy) = pairing(net, *pairs(np.flatnonzero(test), 2000))
    print(f"pairs: mean error of the sum {mae:.2f}, accuracy of 'larger' {accuracy:.3f}")
    print("frozen weights unchanged:", all(map(np.array_equal, jax.tree.leaves(frozen), jax.tree.leaves(encoder))))


if __name__ == "__main__":
    main()
