"""examples/python/tabular.py in JAX, with optax."""
import argparse
import csv
import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax

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


def build(key, widths=(6, 64, 64, 1)):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def predict(weights, x):
    *hidden, (w, b) = weights
    for kernel, bias in hidden:
        x = jax.nn.relu(x @ kernel + bias)
    return x @ w + b


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

    weights = jax.vmap(build)(jax.random.split(jax.random.key(given.seed), MEMBERS))
    adam = optax.adam(0.003)
    state = jax.vmap(adam.init)(weights)

    def step(weights, state, x, y):
        cost, slope = jax.value_and_grad(lambda weights: jnp.mean((predict(weights, x) - y) ** 2))(weights)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, cost

    train = jax.jit(jax.vmap(step), donate_argnums=(0, 1))
    draw = np.random.default_rng(given.seed)
    own = draw.integers(len(x), size=(MEMBERS, len(x)))  # each member's rows, drawn with repetition (Breiman 1996)
    for epoch in range(given.epochs):
        order = draw.permuted(own, axis=1)
        for rows in np.split(order, 25, axis=1):
            weights, state, cost = train(weights, state, x[rows], y[rows])
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}: training loss {cost.mean():.4f}")

    predicted = np.asarray(jax.vmap(predict, (0, None))(weights, test_x))
    members = np.sqrt(np.mean((predicted - test_y) ** 2, (1, 2)))
    together = np.sqrt(np.mean((predicted.mean(0) - test_y) ** 2))
    print("errors of the members, relative:", *(f"{error:.4f}" for error in members))
    print(f"best member {members.min():.4f}, together {together:.4f}")


if __name__ == "__main__":
    main()
