"""The same program gives the same bits on every instruction set of the machine."""
import os, subprocess, sys

import pytest

import lamina as lm

PROGRAM = """
import hashlib
import numpy as np
import lamina as lm

lm.random.set_seed(1)
random = np.random.default_rng(2)
digest = hashlib.sha256()

def take(*tensors):
    for t in tensors:
        digest.update(np.ascontiguousarray(t.numpy()).tobytes())

def numbers(*shape, dtype=np.float32):
    return lm.constant(random.standard_normal(shape).astype(dtype))

# Training steps: dense layers of several widths and activations, dropout, Adam.
net = lm.nn.Sequential([lm.nn.Dense(n, activation=a) for n, a in ((64, "relu"), (37, "tanh"), (50, "gelu"), (33, "sigmoid"))] + [lm.nn.Dropout(0.2), lm.nn.Dense(10)])
optimizer, loss = lm.optim.Adam(0.01), lm.losses.SparseCrossEntropy(from_logits=True)

@lm.function
def step(x, y):
    with lm.GradientTape() as tape:
        cost = loss(y, net(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
    return cost

x, y = numbers(21, 29), lm.constant(random.integers(0, 10, 21).astype(np.int32))
for _ in range(5):
    take(step(x, y))
take(*net.trainable_variables)

# Kernels one by one, and their gradients.
for dtype in (np.float32, np.float64):
    a, b, images, filters = numbers(70, 300, dtype=dtype), numbers(300, 41, dtype=dtype), numbers(2, 9, 9, 3, dtype=dtype), numbers(3, 3, 3, 8, dtype=dtype)
    for f, args in (
        (lambda a, b: a @ b, (a, b)), (lambda a: lm.softmax(a), (a,)), (lambda a: lm.cumsum(a, axis=1), (a,)), (lambda a: lm.mean(lm.exp(a) * lm.tanh(a), axis=0), (a,)),
        (lambda a: lm.sort(a, axis=1), (a,)), (lambda x, w: lm.conv2d(x, w), (images, filters)),
        (lambda a, b: lm.einsum("ij,jk->ki", a, b), (a, b)), (lambda a: lm.var(a, axis=1), (a,)),
    ):
        with lm.GradientTape() as tape:
            for one in args:
                tape.watch(one)
            result = f(*args)
        take(result, *tape.gradient(result, list(args)))
print(digest.hexdigest())
"""


@pytest.mark.row("S3-22", "S3-25")
def test_a_program_has_the_same_bits_on_every_instruction_set():
    known = ["scalar", "avx2", "avx512"]
    here = known[: known.index(lm.config.cpu_isa()) + 1]

    def digest(isa):
        run = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | {"LAMINA_CPU": isa}, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout

    digests = {isa: digest(isa) for isa in here}
    assert len(set(digests.values())) == 1, digests
