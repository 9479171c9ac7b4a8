"""examples/python/tabular.py in PyTorch, with torch.func for the members."""
import argparse
import csv
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

COLUMNS, MEMBERS = ["area", "rooms", "year", "floor", "distance", "garden", "price"], 8


def write_prices(path, rows, seed):
    draw = np.random.default_rng(seed)
    area, year, distance = draw.uniform(25, 180, rows), draw.integers(1900, 2025, rows), draw.exponential(6, rows)
    rooms, floor, garden = np.clip(area // 30 + draw.integers(0, 3, rows), 1, 7), draw.integers(0, 9, rows), draw.integers(0, 2, rows)
    price = area * (3 + 4 * np.exp(-distance / 5)) * (0.8 + abs(year - 1960) / 200) + 40 * garden * (floor == 0) + 5 * floor - 10 * abs(rooms - area / 35)
    price *= np.exp(0.1 * draw.normal(size=rows))
    with open(path, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(COLUMNS)
        writer.writerows(zip(area.round(1), rooms.astype(int), year, floor, distance.round(2), garden, price.round(1)))


def read_prices(path):
    try:
        import pandas
        table = pandas.read_csv(path).to_numpy("float32")
    except ImportError:
        table = np.loadtxt(path, "float32", delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1:]


def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "prices.csv")
        write_prices(path, 1500, seed=1)
        x, y = read_prices(path)
    x = (x - x[:1000].mean(0)) / x[:1000].std(0)
    y = np.log(y)
    center = y[:1000].mean()
    (x, test_x), (y, test_y) = np.split(x, [1000]), np.split(y - center, [1000])

    net = build(0)
    weights, buffers = stack_module_state([build(seed) for seed in range(given.seed, given.seed + MEMBERS)])
    adam = torch.optim.Adam(weights.values(), lr=0.003, fused=True)

    def predict(weights, x):
        return functional_call(net, (weights, buffers), (x,))

    def loss(weights, x, y):
        return (predict(weights, x) - y).square().mean()

    slopes = vmap(grad_and_value(loss))

    def step(x, y):
        found, cost = slopes(weights, x, y)
        for name, slope in found.items():
            weights[name].grad = slope
        adam.step()
        return cost

    draw = np.random.default_rng(given.seed)
    own = draw.integers(len(x), size=(MEMBERS, len(x)))  # each member's rows, drawn with repetition (Breiman 1996)
    for epoch in range(given.epochs):
        order = draw.permuted(own, axis=1)
        for rows in np.split(order, 25, axis=1):
            cost = step(torch.tensor(x[rows]), torch.tensor(y[rows]))
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}: training loss {cost.mean():.4f}")

    with torch.no_grad():
        predicted = vmap(predict, in_dims=(0, None))(weights, torch.tensor(test_x)).numpy()
    members = np.sqrt(np.mean((predicted - test_y) ** 2, (1, 2)))
    together = np.sqrt(np.mean((predicted.mean(0) - test_y) ** 2))
    print("errors of the members, relative:", *(f"{error:.4f}" for error in members))
    print(f"best member {members.min():.4f}, together {together:.4f}")


if __name__ == "__main__":
    main()
