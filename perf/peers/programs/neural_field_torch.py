"""examples/python/neural_field.py in PyTorch."""
import argparse
import gzip
import math
import os

import numpy as np
import torch
from torch import nn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--save", metavar="FILE", help="write the picture and its copy there, side by side; needs Pillow")
    given = options.parse_args()
    torch.manual_seed(given.seed)

    digits = read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz"))[::313]  # 16 of 5,000
    picture = torch.tensor(digits.reshape(4, 4, 28, 28).swapaxes(1, 2).reshape(112, 112).astype("float32") / 255)
    places = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, 112)] * 2, indexing="ij"), -1).reshape(-1, 2)
    waves = torch.randn(2, 64) * 40
    net = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    adam = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, given.steps)

    def field(at):
        angles = at @ waves
        return net(torch.cat([torch.sin(angles), torch.cos(angles)], -1))[:, 0]

    def step(at, brightness):
        adam.zero_grad()
        cost = (field(at) - brightness).square().mean()
        cost.backward()
        adam.step()
        schedule.step()
        return cost

    draw = np.random.default_rng(given.seed)
    for i in range(given.steps):
        some = draw.choice(len(places), 1024)
        cost = step(places[some], picture.ravel()[some])
        if i % 200 == 0:
            print(f"step {i:4}: squared error {cost.item():.5f}")
    with torch.no_grad():
        copy = field(places).reshape(112, 112)
    print(f"PSNR {-10 * math.log10(((copy - picture) ** 2).mean()):.1f} dB")
    if given.save:
        from PIL import Image
        Image.fromarray((torch.hstack([picture, copy]) * 255).byte().numpy()).save(given.save)


if __name__ == "__main__":
    main()
