"""Training has the same bits on any number of threads, in every way in which threads can share a section's rows."""
import os
import subprocess
import sys

import pytest

# Hashes of the loss and of all Variables after each of enough steps for all ways to be tried.
PROGRAM = """
import hashlib, sys
import numpy as np
import lamina as lm

kind, batch = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
lm.random.set_seed(3)
first = lm.nn.Dense(24)
model = lm.nn.Sequential([lm.nn.Dense(48, "relu") for _ in range(6)] + [lm.nn.Dropout(0.2)] +
                         [lm.nn.Dense(56, "tanh"), lm.nn.Dense(56, "gelu"), lm.nn.Dense(1 if kind == "regression" else 10)])
descent = lm.optim.Adam(0.01) if kind == "adam" else lm.optim.SGD(0.05)
x, y = rng.normal(size=(batch, 40)).astype(np.float32), rng.integers(0, 10, batch).astype(np.int32)
above = rng.normal(size=(batch // 2, 48)).astype(np.float32)

@lm.function
def step(x, y):
    with lm.GradientTape() as tape:
        if kind == "halves":  # rows of the first layer's result are halves of the next layers' rows
            x = lm.concat([above, lm.reshape(first(x), [batch // 2, 48])], 0)
        found = model(x, training=True)
        if kind == "regression":
            loss = lm.mean((found[:, 0] - lm.astype(y, lm.float32)) ** 2)
        else:
            loss = lm.losses.SparseCategoricalCrossentropy(from_logits=True)(y, found)
    variables = (first.trainable_variables if kind == "halves" else []) + model.trainable_variables
    descent.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss

for i in range(20):
    digest = hashlib.sha256(np.asarray(step(x, y)).tobytes())
    for v in model.variables + (first.variables if kind == "halves" else []):
        digest.update(np.asarray(v).tobytes())
    print(digest.hexdigest())
print("chunks" if "in chunks of" in str(step.explain(x, y)) else "whole")
"""


def run(threads, *arguments):
    out = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], env={**os.environ, "LAMINA_THREADS": str(threads)},
                         capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


@pytest.mark.parametrize("kind, batch, ways", [("sgd", 1100, "chunks"), ("adam", 700, "chunks"), ("regression", 900, "chunks"), ("halves", 1100, "whole"),
                                               ("sgd", 100, "whole")])
def test_training_has_the_same_bits_in_all_ways(kind, batch, ways):
    *expected, _ = run(1, kind, batch)
    assert len(set(expected)) == 20
    for threads in (2, 3, 4):
        assert run(threads, kind, batch) == [*expected, ways]
