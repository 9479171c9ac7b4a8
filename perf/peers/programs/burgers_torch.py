"""examples/python/burgers.py in PyTorch."""
import argparse
import math

import numpy as np
import torch
from torch import nn

VISCOSITY, AT_ONCE = 0.01 / math.pi, 250


def exact(t, x):
    """[n] of [n] times and places, by Gauss and Hermite's quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[:, None] - np.sqrt(4 * VISCOSITY * t)[:, None] * nodes
    chance = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -np.sum(np.sin(np.pi * y) * chance, 1) / np.sum(chance, 1)


def slope(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--iterations", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    widths = [2, 20, 20, 20, 20, 20]
    net = nn.Sequential(*(part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.Tanh())), nn.Linear(20, 1))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def u(t, x):
        return t * (1 - x * x) * net(torch.stack([t, x], 1))[:, 0] - torch.sin(math.pi * x)

    def residual(t, x):
        t, x = t.detach().requires_grad_(), x.detach().requires_grad_()
        value = u(t, x)
        u_t, u_x = slope(value, t), slope(value, x)
        return (u_t + value * u_x - VISCOSITY * slope(u_x, x)) / (1 + 0.1 * u_x.abs())

    def points(draw):
        """1500 times and places out of 20000 uniform ones: more where the residual is large, so that no false shock hides between points."""
        t, x = torch.tensor(draw.uniform(size=20000), dtype=torch.float32), torch.tensor(draw.uniform(-1, 1, 20000), dtype=torch.float32)
        size = residual(t, x).detach().abs().double().numpy()
        weight = size / size.mean() + 1
        chosen = draw.choice(len(t), 1500, replace=False, p=weight / weight.sum())
        return t[chosen], x[chosen]

    draw = np.random.default_rng(given.seed)
    test_t, test_x = (a.ravel() for a in np.meshgrid(np.linspace(0, 1, 100)[1:], np.linspace(-1, 1, 256), indexing="ij"))
    wanted = exact(test_t, test_x)
    search = torch.optim.LBFGS(net.parameters(), history_size=50, max_iter=AT_ONCE, max_eval=10 * AT_ONCE, tolerance_change=0, line_search_fn="strong_wolfe")
    for done in range(AT_ONCE, given.iterations + 1, AT_ONCE):
        t, x = points(draw)

        def loss():
            search.zero_grad()
            cost = residual(t, x).square().mean()
            cost.backward()
            return cost

        search.step(loss)
        with torch.no_grad():
            found = u(torch.tensor(test_t, dtype=torch.float32), torch.tensor(test_x, dtype=torch.float32)).numpy()
        error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
        print(f"iteration {done:5}: loss {loss().item():.2e}, relative L2 error {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
