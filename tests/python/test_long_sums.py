"""float32 sums of a million terms are within 1e-5 of float64, in every function, and have the same bits for any number of threads."""
import os
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm

N = 1_000_003
RNG = np.random.default_rng(0)
# All of one sign, so that nothing cancels: 0.1, where consecutive additions round in the same direction, and random numbers.
TERMS = {"tenths": np.full(N, 0.1, "float32"), "random": RNG.uniform(0, 1, N).astype("float32"), "wide": np.exp(RNG.uniform(-9, 9, N)).astype("float32")}
ONES = np.ones(N, "float32")


def wide(x):
    return np.asarray(x, "float64")


def rows(x, count):
    """[count, N]: x, and x rotated."""
    return np.stack([np.roll(x, 1000 * i) for i in range(count)])


CASES = {
    "sum": (lambda x: lm.sum(x), lambda x: x.sum()),
    "mean": (lambda x: lm.mean(x), lambda x: x.mean()),
    "var": (lambda x: lm.var(x), lambda x: x.var()),
    "norm": (lambda x: lm.norm(x), lambda x: np.sqrt((x * x).sum())),
    "logsumexp": (lambda x: lm.logsumexp(lm.log(x)), lambda x: np.log(x.sum())),
    "cumsum": (lambda x: lm.cumsum(x), lambda x: x.cumsum()),
    "cumsum from the end": (lambda x: lm.cumsum(x, reverse=True), lambda x: x[::-1].cumsum()[::-1]),
    "cumsum of columns": (lambda x: lm.cumsum(lm.stack([x, x * 2], 1), 0), lambda x: np.stack([x, x * 2], 1).cumsum(0)),
    "dot": (lambda x: lm.dot(x, x), lambda x: (x * x).sum()),
    "vdot": (lambda x: lm.vdot(x, lm.ones_like(x)), lambda x: x.sum()),
    "matmul, row by matrix": (lambda x: lm.matmul(lm.stack([x]), lm.stack([x, lm.ones_like(x)], 1)), lambda x: np.array([[(x * x).sum(), x.sum()]])),
    "matmul, transposed": (lambda x: lm.matmul(lm.stack([x, x]), lm.stack([x] * 3), transpose_b=True), lambda x: np.full((2, 3), (x * x).sum())),
    "matmul, both transposed": (lambda x: lm.matmul(lm.stack([x] * 3, 1), lm.stack([x] * 20, 1), transpose_a=True), lambda x: np.full((3, 20), (x * x).sum())),
    "matmul, many rows": (lambda x: lm.matmul(lm.stack([x] * 17), lm.stack([x] * 19, 1)), lambda x: np.full((17, 19), (x * x).sum())),
    "einsum": (lambda x: lm.einsum("i,i->", x, x), lambda x: (x * x).sum()),
    "einsum of matrices": (lambda x: lm.einsum("ki,kj->ij", lm.stack([x, x], 1), lm.stack([x, x], 1)), lambda x: np.full((2, 2), (x * x).sum())),
}


@pytest.mark.parametrize("terms", list(TERMS))
@pytest.mark.parametrize("name", list(CASES))
def test_a_million_terms_keep_five_digits(name, terms):
    f, reference = CASES[name]
    x = TERMS[terms]
    wanted = reference(wide(x))
    got = f(lm.constant(x)).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-12)  # the variance of equal numbers is 0
    traced = lm.function(f)(lm.constant(x)).numpy()
    np.testing.assert_allclose(traced, wanted, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_types_add_a_million_terms_too(half):
    x = lm.full((N,), 2.0**-8, dtype=half)
    one = lm.ones_like(x)
    wanted = N * 2.0**-8
    for got in (lm.sum(x), lm.dot(x, one), lm.cumsum(x)[-1], lm.mean(x) * 256.0 * 3906.0, lm.matmul(lm.stack([x]), lm.stack([one], 1))[0, 0]):
        assert float(got) == pytest.approx(wanted, rel=2.0**-7)


@pytest.mark.parametrize("activation", [None, "tanh"])
def test_a_layers_weights_have_gradients_of_long_batches(activation):
    n = 200_000
    x, scale = RNG.uniform(0, 1, (n, 3)).astype("float32"), 1e-4
    layer = lm.nn.Dense(5, activation, kernel_initializer="zeros")

    @lm.function
    def gradients(x):
        with lm.GradientTape() as tape:
            cost = lm.sum(layer(x)) * scale
        return tape.gradient(cost, layer.trainable_variables)

    kernel, bias = gradients(lm.constant(x))
    np.testing.assert_allclose(kernel.numpy(), np.outer(wide(x).sum(0), np.full(5, scale)), rtol=1e-5)
    np.testing.assert_allclose(bias.numpy(), np.full(5, n * scale), rtol=1e-5)


def test_a_layer_of_many_inputs_has_the_bits_of_its_product():
    n = 20_000
    x, w, b = (RNG.uniform(0, 1, s).astype("float32") for s in ((7, n), (n, 9), (9,)))
    layer = lm.function(lambda x, w, b: lm.tanh((lm.matmul(x, w) + b) * 1e-4))
    fused = lm.function(lambda x, w, b: lm.relu(lm.matmul(x, w) + b))
    product = lm.matmul(x, w)
    np.testing.assert_allclose(product.numpy(), wide(x) @ wide(w), rtol=2e-6)
    np.testing.assert_array_equal(fused(lm.constant(x), lm.constant(w), lm.constant(b)).numpy(), np.maximum(product.numpy() + b, 0))
    assert np.isfinite(layer(lm.constant(x), lm.constant(w), lm.constant(b)).numpy()).all()

    def through(x, w):  # dz w^T with an inner length of n, and the previous layer's mask
        return lm.grad(lambda v: lm.sum(lm.square(lm.matmul(lm.relu(v), w))))(x)

    z, m = RNG.uniform(-1, 1, (4, 6)).astype("float32"), RNG.uniform(0, 1, (6, n)).astype("float32")
    got = lm.function(through)(lm.constant(z), lm.constant(m)).numpy()
    wanted = (2 * (np.maximum(wide(z), 0) @ wide(m)) @ wide(m).T) * (z > 0)
    np.testing.assert_allclose(got, wanted, rtol=5e-6)


@pytest.mark.parametrize("groups", [1, 2])
def test_filters_have_gradients_of_many_places(groups):
    x = RNG.uniform(0, 1, (3, 120, 130, 2)).astype("float32")
    w = lm.constant(np.zeros((3, 3, 2 // groups, 4 if groups == 1 else 2), "float32"))
    g = lm.grad(lambda w: lm.sum(lm.conv2d(lm.constant(x), w, padding="same", groups=groups)))(w).numpy()
    padded = np.pad(wide(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for a in range(3):
        for b in range(3):
            seen = padded[:, a:a + 120, b:b + 130].sum((0, 1, 2))
            for c in range(2 // groups):
                for o in range(w.shape[3]):
                    assert g[a, b, c, o] == pytest.approx(seen[c + (o if groups == 2 else 0)], rel=1e-5)


def test_infinite_sums_stay_infinite():
    x = np.full(40_000, 1e36, "float32")
    assert float(lm.dot(lm.constant(x), lm.constant(x))) == np.inf and float(lm.dot(lm.constant(-x), lm.constant(x))) == -np.inf
    x[5] = np.nan
    assert np.isnan(float(lm.dot(lm.constant(x), lm.ones_like(lm.constant(x)))))


PROGRAM = """
import numpy as np, lamina as lm
rng = np.random.default_rng(1)
a, b = (lm.constant(rng.standard_normal(s).astype("float32")) for s in ((30, 30011), (30011, 40)))
x = lm.constant(rng.standard_normal((2, 60, 70, 3)).astype("float32"))
w = lm.constant(rng.standard_normal((3, 3, 3, 4)).astype("float32"))
import hashlib
h = hashlib.sha256()
for t in (a @ b, a[:1] @ b, lm.matmul(b, a, transpose_a=True, transpose_b=True), lm.cumsum(a, 1), lm.sum(a), lm.dot(a[0], b[:, 0]),
          lm.grad(lambda w: lm.sum(lm.square(lm.conv2d(x, w))))(w), lm.function(lambda a, b: lm.tanh(a @ b * 0.01))(a, b)):
    h.update(np.ascontiguousarray(t.numpy()).tobytes())
print(h.hexdigest())
"""


def test_the_bits_of_long_sums_do_not_depend_on_threads():
    found = set()
    for threads in ("1", "2", "5"):
        environment = {**os.environ, "LAMINA_THREADS": threads}
        found.add(subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=300).stdout)
    assert len(found) == 1
