"""A functional model of two inputs and two outputs on a frozen encoder: of two handwritten digits, their sum and whether the first is larger.

    ./dev python examples/python/two_inputs.py [--epochs N] [--seed N]

The encoder learns to read single digits first. Its weights then stay, while the layers on top of it learn from pairs.
"""
import argparse
import os

import numpy as np

import lamina as lm

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
nn = lm.nn


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    images = lm.data.read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz")).astype("float32") / 255
    labels = lm.data.read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(len(labels)) % 5 == 4  # the files are sorted by digit

    encoder = nn.Sequential([nn.Input((28, 28)), nn.Flatten(), nn.Dense(128, "relu"), nn.Dense(32, "relu")], name="encoder")
    reader = nn.Sequential([encoder, nn.Dense(10)])
    reader.compile(lm.optim.Adam(0.002), lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    reader.fit(images[~test], labels[~test], epochs=given.epochs, verbose=0)
    print(f"single digits: test accuracy {reader.evaluate(images[test], labels[test])[1]:.3f}")

    encoder.trainable = False
    frozen = encoder.get_weights()
    a, b = nn.Input((28, 28)), nn.Input((28, 28))
    h = nn.Dense(64, "relu")(nn.Concatenate()([encoder(a), encoder(b)]))
    net = nn.Model([a, b], {"total": nn.Dense(1)(h), "larger": nn.Dense(2)(h)})
    net.summary()
    net.compile(lm.optim.Adam(0.003), {"total": "mse", "larger": lm.losses.SparseCrossEntropy(from_logits=True)}, metrics={"total": ["mae"], "larger": ["accuracy"]})

    draw = np.random.default_rng(given.seed)

    def pairs(rows: np.ndarray, count: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        first, second = draw.choice(rows, (2, count))
        return [images[first], images[second]], {"total": (labels[first] + labels[second])[:, None].astype("float32"), "larger": (labels[first] > labels[second]).astype("int32")}

    net.fit(*pairs(np.flatnonzero(~test), 10000), epochs=given.epochs, verbose=2)
    found = net.evaluate(*pairs(np.flatnonzero(test), 2000), return_dict=True)
    print(f"pairs: mean error of the sum {found['total_mae']:.2f}, accuracy of 'larger' {found['larger_accuracy']:.3f}")
    print("frozen weights unchanged:", all(np.array_equal(before, after) for before, after in zip(frozen, encoder.get_weights())))


if __name__ == "__main__":
    main()
