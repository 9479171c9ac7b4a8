"""examples/python/oscillator.py in PyTorch."""
import argparse
import math

import numpy as np
import torch
from torch import nn

DAMPING, FREQUENCY, END = 0.5, 5.0, 2.0


def exact(t):
    turn = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return np.exp(-DAMPING * t) * (np.cos(turn * t) + DAMPING / turn * np.sin(turn * t))


def slope(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    times = torch.linspace(0, END, 100)[:, None].requires_grad_()
    start = torch.zeros(1, 1, requires_grad=True)
    adam = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, given.steps)

    def step():
        adam.zero_grad()
        u = net(times)
        speed = slope(u, times)
        acceleration = slope(speed, times)
        equation = (acceleration + 2 * DAMPING * speed + FREQUENCY**2 * u).square().mean()
        first = net(start)
        cost = equation + 100 * ((first - 1).square() + slope(first, start).square()).sum()
        cost.backward()
        adam.step()
        schedule.step()
        return cost

    for i in range(given.steps):
        cost = step()
        if i % 1000 == 0:
            print(f"step {i:5}: loss {cost.item():.2e}")
    t = np.linspace(0, END, 301, dtype="float32")[:, None]
    with torch.no_grad():
        error = np.linalg.norm(net(torch.tensor(t)).numpy() - exact(t)) / np.linalg.norm(exact(t))
    print(f"loss {cost.item():.2e}, relative L2 error {error:.4f}")


if __name__ == "__main__":
    main()
