"""An ensemble on a table: eight nets, each trained on its own draw of the rows of a CSV file, predict better together than the best of them.

    ./dev python examples/python/tabular.py [--epochs N] [--seed N]

The table has prices of flats that the program makes up. pandas reads it where it is installed, and lm.data otherwise.
"""
import argparse
import csv
import os
import tempfile

import numpy as np

import lamina as lm

nn = lm.nn
COLUMNS, MEMBERS = ["area", "rooms", "year", "floor", "distance", "garden", "price"], 8


def write_prices(path: str, rows: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    area, year, distance = draw.uniform(25, 180, rows), draw.integers(1900, 2025, rows), draw.exponential(6, rows)
    rooms, floor, garden = np.clip(area // 30 + draw.integers(0, 3, rows), 1, 7), draw.integers(0, 9, rows), draw.integers(0, 2, rows)
    price = area * (3 + 4 * np.exp(-distance / 5)) * (0.8 + abs(year - 1960) / 200) + 40 * garden * (floor == 0) + 5 * floor - 10 * abs(rooms - area / 35)
    price *= np.exp(0.1 * draw.normal(size=rows))
    with open(path, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(COLUMNS)
        writer.writerows(zip(area.round(1), rooms.astype(int), year, floor, distance.round(2), garden, price.round(1)))


def read_prices(path: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
        table = pandas.read_csv(path).to_numpy("float32")
    except ImportError:
        _, table = lm.data.read_csv(path)
    return table[:, :-1], table[:, -1:]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
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

    nets = nn.stack(lambda: nn.Sequential([nn.Dense(64, "relu"), nn.Dense(64, "relu"), nn.Dense(1)]), MEMBERS, seeds=range(given.seed, given.seed + MEMBERS), input_shape=(6,))
    adam, loss = lm.optim.Adam(0.003), lm.losses.MeanSquaredError()

    @lm.function
    @lm.vmap
    def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        with lm.GradientTape() as tape:
            cost = loss(y, nets(x))
        adam.apply_gradients(zip(tape.gradient(cost, nets.trainable_variables), nets.trainable_variables))
        return cost

    draw = np.random.default_rng(given.seed)
    own = draw.integers(len(x), size=(MEMBERS, len(x)))  # each member's rows, drawn with repetition (Breiman 1996)
    for epoch in range(given.epochs):
        order = draw.permuted(own, axis=1)
        for rows in np.split(order, 25, axis=1):
            cost = step(x[rows], y[rows])
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}: training loss {cost.numpy().mean():.4f}")

    predicted = lm.vmap(nets, in_axes=None)(test_x).numpy()
    members = np.sqrt(np.mean((predicted - test_y) ** 2, (1, 2)))
    together = np.sqrt(np.mean((predicted.mean(0) - test_y) ** 2))
    print("errors of the members, relative:", *(f"{error:.4f}" for error in members))
    print(f"best member {members.min():.4f}, together {together:.4f}")


if __name__ == "__main__":
    main()
