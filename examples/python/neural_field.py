"""A neural field: a net from coordinates to brightness learns a picture by heart.

    ./dev python examples/python/neural_field.py [--steps N] [--seed N] [--save FILE.png]

The picture is a mosaic of handwritten digits. The net sees sines of random multiples of the coordinates (Tancik et al. 2020), without which
it would learn a blur.
"""
import argparse
import math
import os
from typing import Any

import numpy as np

import lamina as lm

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--save", metavar="FILE", help="write the picture and its copy there, side by side; needs Pillow")
    given = options.parse_args()
    lm.random.set_seed(given.seed)

    digits = lm.data.read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz"))[::313]  # 16 of 5,000
    picture = digits.reshape(4, 4, 28, 28).swapaxes(1, 2).reshape(112, 112).astype("float32") / 255
    places = np.stack(np.meshgrid(*[np.linspace(0, 1, 112, dtype="float32")] * 2, indexing="ij"), -1).reshape(-1, 2)
    waves = lm.random.normal((2, 64)) * 40
    net = lm.nn.Sequential([lm.nn.Input((128,)), lm.nn.Dense(64, "relu"), lm.nn.Dense(64, "relu"), lm.nn.Dense(1, "sigmoid")])
    adam = lm.optim.Adam()

    @lm.function
    def field(at: Any) -> Any:
        angles = lm.matmul(at, waves)
        return net(lm.concat([lm.sin(angles), lm.cos(angles)], -1))[:, 0]

    @lm.function
    def step(at: Any, brightness: Any) -> lm.Tensor:
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(field(at) - brightness))
        adam.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    draw = np.random.default_rng(given.seed)
    for i in range(given.steps):
        adam.learning_rate = 0.005 * (1 + math.cos(math.pi * i / given.steps))
        some = draw.choice(len(places), 1024)
        cost = step(places[some], picture.ravel()[some])
        if i % 200 == 0:
            print(f"step {i:4}: squared error {float(cost):.5f}")
    copy = field(places).numpy().reshape(112, 112)
    print(f"PSNR {-10 * math.log10(np.mean((copy - picture) ** 2)):.1f} dB")
    if given.save:
        from PIL import Image
        Image.fromarray((np.hstack([picture, copy]) * 255).astype("uint8")).save(given.save)


if __name__ == "__main__":
    main()
