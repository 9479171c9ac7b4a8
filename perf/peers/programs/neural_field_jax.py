"""examples/python/neural_field.py in JAX, with optax."""
import argparse
import gzip
import math
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--save", metavar="FILE", help="write the picture and its copy there, side by side; needs Pillow")
    given = options.parse_args()
    waves_key, key = jax.random.split(jax.random.key(given.seed))

    digits = read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz"))[::313]  # 16 of 5,000
    picture = digits.reshape(4, 4, 28, 28).swapaxes(1, 2).reshape(112, 112).astype("float32") / 255
    places = np.stack(np.meshgrid(*[np.linspace(0, 1, 112, dtype="float32")] * 2, indexing="ij"), -1).reshape(-1, 2)
    waves = jax.random.normal(waves_key, (2, 64)) * 40
    weights = build(key, (128, 64, 64, 1))
    adam = optax.adam(optax.cosine_decay_schedule(0.01, given.steps))
    state = adam.init(weights)

    @jax.jit
    def field(weights, at):
        angles = at @ waves
        *hidden, (w, b) = weights
        x = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
        for kernel, bias in hidden:
            x = jax.nn.relu(x @ kernel + bias)
        return jax.nn.sigmoid(x @ w + b)[:, 0]

    @jax.jit(donate_argnums=(0, 1))
    def step(weights, state, at, brightness):
        cost, slope = jax.value_and_grad(lambda weights: jnp.mean((field(weights, at) - brightness) ** 2))(weights)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, cost

    draw = np.random.default_rng(given.seed)
    for i in range(given.steps):
        some = draw.choice(len(places), 1024)
        weights, state, cost = step(weights, state, places[some], picture.ravel()[some])
        if i % 200 == 0:
            print(f"step {i:4}: squared error {float(cost):.5f}")
    copy = np.asarray(field(weights, places)).reshape(112, 112)
    print(f"PSNR {-10 * math.log10(np.mean((copy - picture) ** 2)):.1f} dB")
    if given.save:
        from PIL import Image
        Image.fromarray((np.hstack([picture, copy]) * 255).astype("uint8")).save(given.save)


if __name__ == "__main__":
    main()
