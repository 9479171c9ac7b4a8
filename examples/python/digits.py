"""A convolutional network on handwritten digits by compile and fit, with callbacks and a summary.

    ./dev python examples/python/digits.py [--epochs N] [--seed N]
"""
import argparse
import os

import numpy as np

import lamina as lm

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
nn = lm.nn


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)

    images = lm.data.read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz"))[..., None].astype("float32") / 255
    labels = lm.data.read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(len(labels)) % 5 == 4  # the files are sorted by digit

    net = nn.Sequential([
        nn.Input((28, 28, 1)),
        nn.Conv2D(16, 3, activation="relu"), nn.MaxPool2D(),
        nn.Conv2D(32, 3, activation="relu"), nn.MaxPool2D(),
        nn.Flatten(), nn.Dropout(0.3), nn.Dense(64, activation="relu"), nn.Dense(10),
    ])
    net.summary()
    net.compile(lm.optim.Adam(0.003), lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    net.fit(images[~test], labels[~test], epochs=given.epochs, validation_data=(images[test], labels[test]), verbose=2, callbacks=[
        nn.LearningRateScheduler(lambda epoch, rate: 0.003 * (1 - epoch / given.epochs)),
        nn.EarlyStopping("loss", patience=2, restore_best_weights=True),
    ])
    loss, accuracy = net.evaluate(images[test], labels[test])
    print(f"test accuracy {accuracy:.3f}, loss {loss:.3f}")


if __name__ == "__main__":
    main()
