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

optimizer, batch = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
lm.random.set_seed(3)
model = lm.nn.Sequential([lm.nn.Dense(48, "relu") for _ in range(6)] + [lm.nn.Dropout(0.2)] +
                         [lm.nn.Dense(56, "tanh"), lm.nn.Dense(56, "gelu"), lm.nn.Dense(10)])
descent = {"sgd": lm.optim.SGD(0.05), "adam": lm.optim.Adam(0.01)}[optimizer]
criterion = lm.losses.SparseCategoricalCrossentropy(from_logits=True)
x, y = rng.normal(size=(batch, 40)).astype(np.float32), rng.integers(0, 10, batch).astype(np.int32)

@lm.function
def step(x, y):
    with lm.GradientTape() as tape:
        loss = criterion(y, model(x, training=True))
    descent.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss

for i in range(20):
    digest = hashlib.sha256(np.asarray(step(x, y)).tobytes())
    for v in model.variables:
        digest.update(np.asarray(v).tobytes())
    print(digest.hexdigest())
print("chunks" if "or in chunks of" in str(step.explain(x, y)) else "whole")
"""


def run(threads, *arguments):
    out = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], env={**os.environ, "LAMINA_THREADS": str(threads)},
                         capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


@pytest.mark.parametrize("optimizer, batch, chunks", [("sgd", 1100, (2, 4)), ("adam", 700, (2, 3)), ("sgd", 100, ())])
def test_training_has_the_same_bits_in_all_ways(optimizer, batch, chunks):
    *expected, _ = run(1, optimizer, batch)
    assert len(set(expected)) == 20
    for threads in (2, 3, 4):
        *found, ways = run(threads, optimizer, batch)
        assert found == expected
        assert threads not in chunks or ways == "chunks"
