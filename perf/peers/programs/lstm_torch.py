"""examples/python/lstm.py in PyTorch."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SYMBOLS, LENGTH = 8, 5


class Sine(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, x):
        steps, _ = self.lstm(x)
        return self.head(steps[:, -1])


class Copy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(SYMBOLS + 1, 64, batch_first=True), nn.Linear(64, SYMBOLS)

    def forward(self, x):
        steps, _ = self.lstm(x)
        return self.head(steps)


def train(net, loss, batches, steps):
    adam = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)

    def step(x, y):
        adam.zero_grad()
        cost = loss(y, net(x))
        cost.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        schedule.step()
        return cost

    for i in range(steps):
        cost = step(*batches())
        if i % 500 == 0:
            print(f"step {i:4}: loss {cost.item():.6f}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    draw = np.random.default_rng(given.seed)

    def waves():
        """20 values of sines of random phase [rows, 20, 1], and the next value."""
        wave = torch.tensor(np.sin(0.3 * np.arange(21) + draw.uniform(0, 2 * np.pi, (32, 1))), dtype=torch.float32)
        return wave[:, :-1, None], wave[:, -1:]

    def copies():
        """Symbols and then blanks, one-hot [rows, 10, 9], and the symbols at the blanks."""
        symbols = torch.tensor(draw.integers(SYMBOLS, size=(64, LENGTH)))
        seen = torch.cat([symbols, torch.full_like(symbols, SYMBOLS)], 1)
        return F.one_hot(seen, SYMBOLS + 1).float(), symbols

    sine = Sine()
    train(sine, F.mse_loss, waves, given.steps // 2)
    x, y = waves()
    with torch.no_grad():
        print(f"sine: mean error of the next value {(sine(x) - y).abs().mean():.6f}")

    copy = Copy()
    train(copy, lambda symbols, scores: F.cross_entropy(scores[:, LENGTH:].flatten(0, 1), symbols.flatten()), copies, given.steps)
    x, y = copies()
    with torch.no_grad():
        print(f"copy: {(copy(x)[:, LENGTH:].argmax(-1) == y).float().mean():.2%} of the symbols")


if __name__ == "__main__":
    main()
