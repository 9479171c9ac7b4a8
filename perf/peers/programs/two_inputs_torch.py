"""examples/python/two_inputs.py in PyTorch."""
import argparse
import gzip
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


class Pairs(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.hidden = encoder, nn.Linear(64, 64)
        self.total, self.larger = nn.Linear(64, 1), nn.Linear(64, 2)

    def forward(self, a, b):
        h = F.relu(self.hidden(torch.cat([self.encoder(a), self.encoder(b)], 1)))
        return self.total(h), self.larger(h)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    images = torch.tensor(read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz")).astype("float32") / 255)
    labels = torch.tensor(read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int64"))
    test = np.arange(len(labels)) % 5 == 4  # the files are sorted by digit

    encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
    reader = nn.Sequential(encoder, nn.Linear(32, 10))
    adam = torch.optim.Adam(reader.parameters(), lr=0.002, fused=True)
    x, y = images[~test], labels[~test]
    for _ in range(given.epochs):
        for rows in torch.randperm(len(x)).split(32):
            adam.zero_grad()
            F.cross_entropy(reader(x[rows]), y[rows]).backward()
            adam.step()
    with torch.no_grad():
        print(f"single digits: test accuracy {(reader(images[test]).argmax(1) == labels[test]).float().mean():.3f}")

    encoder.requires_grad_(False)
    frozen = [p.clone() for p in encoder.parameters()]
    net = Pairs(encoder)
    print(net)
    print("parameters:", sum(p.numel() for p in net.parameters()), "trainable:", sum(p.numel() for p in net.parameters() if p.requires_grad))
    adam = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), lr=0.003, fused=True)

    draw = np.random.default_rng(given.seed)

    def pairs(rows, count):
        first, second = draw.choice(rows, (2, count))
        return images[first], images[second], (labels[first] + labels[second])[:, None].float(), (labels[first] > labels[second]).long()

    train = pairs(np.flatnonzero(~test), 10000)
    for epoch in range(given.epochs):
        sums, batches = np.zeros(3), torch.randperm(len(train[0])).split(32)
        for rows in batches:
            a, b, total, larger = (part[rows] for part in train)
            adam.zero_grad()
            total_found, larger_found = net(a, b)
            cost = F.mse_loss(total_found, total) + F.cross_entropy(larger_found, larger)
            cost.backward()
            adam.step()
            sums += [cost.item(), (total_found - total).abs().mean().item(), (larger_found.argmax(1) == larger).float().mean().item()]
        print("epoch {}/{}: loss {:.4f}, total_mae {:.4f}, larger_accuracy {:.4f}".format(epoch + 1, given.epochs, *sums / len(batches)))
    a, b, total, larger = pairs(np.flatnonzero(test), 2000)
    with torch.no_grad():
        total_found, larger_found = net(a, b)
    print(f"pairs: mean error of the sum {(total_found - total).abs().mean():.2f}, accuracy of 'larger' {(larger_found.argmax(1) == larger).float().mean():.3f}")
    print("frozen weights unchanged:", all(torch.equal(before, after) for before, after in zip(frozen, encoder.parameters())))


if __name__ == "__main__":
    main()
