"""examples/python/regression.py in PyTorch."""
import argparse
import copy
import math

import numpy as np
import torch
from torch import nn


def friedman(rows, seed):
    draw = np.random.default_rng(seed)
    x = draw.random((rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4] + draw.normal(size=rows)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y[:, None], dtype=torch.float32)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=150)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    (x, y), valid, test = friedman(3000, seed=1), friedman(1000, seed=2), friedman(1000, seed=3)

    net = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    adam, loss = torch.optim.Adam(net.parameters(), lr=0.002, fused=True), nn.MSELoss()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, given.epochs)

    def step(x, y):
        adam.zero_grad()
        cost = loss(net(x), y)
        cost.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        adam.step()
        return cost

    @torch.no_grad()
    def error(x, y):
        return loss(net(x), y)

    best, best_epoch, weights = math.inf, 0, copy.deepcopy(net.state_dict())
    for epoch in range(given.epochs):
        batches = torch.randperm(len(x)).split(50)
        total = sum(step(x[rows], y[rows]).item() for rows in batches)
        schedule.step()
        found = error(*valid).item()
        if found < best:
            best, best_epoch, weights = found, epoch, copy.deepcopy(net.state_dict())
        if epoch % 10 == 0:
            print(f"epoch {epoch:3}: training loss {total / len(batches):7.3f}, validation {found:7.3f}")
        if epoch - best_epoch >= 20:
            break
    net.load_state_dict(weights)
    print(f"stopped after {epoch + 1} epochs; the best was {best_epoch}")
    print(f"test error {error(*test).item():.3f}")


if __name__ == "__main__":
    main()
