"""32 learning rates in one call: 32 small nets, trained together on handwritten digits by vmap, with scan over the steps.

    ./dev python examples/python/ensemble.py [--epochs N] [--seed N]
"""
import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import lamina as lm

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
loss = lm.losses.SparseCrossEntropy(from_logits=True)


def build() -> lm.nn.Sequential:
    return lm.nn.Sequential([lm.nn.Input((784,)), lm.nn.Dense(32, activation="relu"), lm.nn.Dense(10)])


def steps(net: lm.nn.Layer, sgd: lm.optim.Optimizer) -> Callable[[Any, Any], Any]:
    """A function that takes one step with each of the batches [steps, rows, ...], and returns their losses."""
    def step(_: None, batch: tuple[lm.Tensor, lm.Tensor]) -> tuple[None, lm.Tensor]:
        x, y = batch
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return None, cost

    return lambda x, y: lm.scan(step, None, (x, y))[1]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()

    images = (lm.data.read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz")).astype("float32") / 255).reshape(-1, 784)
    labels = lm.data.read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(5000) % 5 == 4
    draw = np.random.default_rng(given.seed)
    epochs = [draw.permutation(np.flatnonzero(~test)).reshape(80, 50) for _ in range(given.epochs)]  # every net sees the same batches

    rates = np.geomspace(0.001, 3, 32).astype("float32")
    seeds = [given.seed + k for k in range(32)]
    nets = lm.nn.stack(build, 32, seeds=seeds)
    train_all = lm.function(lm.vmap(steps(nets, lm.optim.SGD(lm.per_model(rates))), in_axes=None))
    for epoch, order in enumerate(epochs):
        losses = train_all(images[order], labels[order]).numpy().mean(1)
        print(f"epoch {epoch + 1}: training losses from {losses.min():.3f} to {losses.max():.3f}")
    accuracies = lm.vmap(lambda x, y: lm.metrics.accuracy(y, nets(x)), in_axes=None)(images[test], labels[test]).numpy()
    for rate, cost, accuracy in zip(rates, losses, accuracies):
        print(f"learning rate {rate:6.4f}: training loss {cost:6.3f}, test accuracy {accuracy:.3f}")

    best = int(accuracies.argmax())
    lm.random.set_seed(seeds[best])
    alone = build()
    train = lm.function(steps(alone, lm.optim.SGD(float(rates[best]))))
    for order in epochs:
        train(images[order], labels[order])
    same = all(np.array_equal(a, b) for a, b in zip(alone.get_weights(), nets[best].get_weights()))
    print(f"best: learning rate {rates[best]:.4f}, test accuracy {accuracies[best]:.3f}; trained alone it has {'the same bits' if same else 'other bits'}")


if __name__ == "__main__":
    main()
