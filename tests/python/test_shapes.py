"""Functions of shapes against NumPy."""
import numpy as np
import pytest

import lamina as lm

A = np.arange(24.0, dtype="float32").reshape(2, 3, 4)


def same(got, want):
    assert got.shape == np.shape(want), (got.shape, np.shape(want))
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("call, reference", [
    (lambda m, x: m.flip(x), None), (lambda m, x: m.flip(x, 1), None), (lambda m, x: m.flip(x, (0, -1)), None),
    (lambda m, x: m.roll(x, 5), None), (lambda m, x: m.roll(x, -2, 2), None), (lambda m, x: m.roll(x, 9, 1), None), (lambda m, x: m.roll(x, (1, -1), (0, 2)), None),
    (lambda m, x: m.moveaxis(x, 0, -1), None), (lambda m, x: m.moveaxis(x, (0, 1), (2, 0)), None), (lambda m, x: m.swapaxes(x, 0, -1), None),
    (lambda m, x: m.tile(x, 2), None), (lambda m, x: m.tile(x, (2, 1, 3)), None), (lambda m, x: m.tile(x, (2, 1, 1, 2)), None), (lambda m, x: m.tile(x, (0, 2)), None),
    (lambda m, x: m.repeat(x, 2, 1), None), (lambda m, x: m.repeat(x, 3), None), (lambda m, x: m.repeat(x, [0, 2, 1], 1), None), (lambda m, x: m.repeat(x, 0, 0), None),
    (lambda m, x: m.tril(x), None), (lambda m, x: m.tril(x, -1), None), (lambda m, x: m.triu(x, 2), None), (lambda m, x: m.triu(x), None),
    (lambda m, x: m.diagonal(x), None), (lambda m, x: m.diagonal(x, 1, 1, 2), None), (lambda m, x: m.diagonal(x, -1, 2, 0), None), (lambda m, x: m.diagonal(x, 7), None),
    (lambda m, x: m.ravel(x), None), (lambda m, x: m.diag(x[0], 1), None), (lambda m, x: m.diag(x[0, 0], -2), None), (lambda m, x: m.diag(x[0, 0]), None),
    (lambda m, x: m.full_like(x, 7), None), (lambda m, x: m.meshgrid(x[0, 0], x[0, :, 0])[0], None), (lambda m, x: m.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[1], None),
    (lambda m, x: m.tensordot(x, x, 3), None), (lambda m, x: m.tensordot(x, x, ((1, 0), (1, 0))), None), (lambda m, x: m.tensordot(x[0], x[0], 0), None),
    (lambda m, x: m.outer(x[0, 0], x[1]), None), (lambda m, x: m.dot(x[0, 0], x[0, 1]), None), (lambda m, x: m.dot(x, x[0, 0]), None), (lambda m, x: m.dot(x[0].T, x), None),
    (lambda m, x: m.vdot(x, x), None), (lambda m, x: m.inner(x, x[0]), None), (lambda m, x: m.dot(x, 2.0), None),
])
def test_agrees_with_numpy_eager_and_traced(call, reference):
    want = call(np, A)
    same(call(lm, lm.constant(A)), want)
    same(lm.function(lambda x: call(lm, x))(A), want)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("widths", [1, (2, 1), ((0, 0), (1, 2), (3, 0)), ((0, 0), (7, 9), (0, 0))])
def test_pad(mode, widths):
    same(lm.pad(A, widths, mode), np.pad(A, widths, mode))
    if mode == "constant":
        same(lm.pad(A, widths, value=-1.5), np.pad(A, widths, constant_values=-1.5))
        same(lm.pad(A > 3, widths, value=True), np.pad(A > 3, widths, constant_values=True))


def test_split():
    for got, want in zip(lm.split(A, 2, axis=2), np.split(A, 2, 2)):
        same(got, want)
    for sizes in ([1, 3], [-1, 3], [1, -1], [0, 4, -1]):
        at = [1] if sizes[0] in (1, -1) else [0, 4]
        for got, want in zip(lm.split(A, sizes, axis=-1), np.split(A, at, -1)):
            same(got, want)
    assert [t.shape for t in lm.constant(A).split([1, 2], axis=1)] == [(2, 1, 4), (2, 2, 4)]
    for bad in (5, 0, [1, 1], [5, -1], [-1, -1], [-2, 6]):
        with pytest.raises(ValueError, match="split"):
            lm.split(A, bad, axis=2)


def test_split_and_roll_of_any_length():
    @lm.function(input_signature=[lm.TensorSpec([None, 3])])
    def f(x):
        a, rest, b = lm.split(x, [1, -1, 2])
        return lm.concat([b, rest, a]), lm.roll(x, 1, 0), lm.flip(x), lm.tile(x, (2, 1)), lm.pad(x, ((1, 1), (0, 0)))
    for n in (3, 5):
        x = np.random.rand(n, 3).astype("float32")
        for got, want in zip(f(x), (np.concatenate([x[-2:], x[1:-2], x[:1]]), np.roll(x, 1, 0), np.flip(x), np.tile(x, (2, 1)), np.pad(x, ((1, 1), (0, 0))))):
            same(got, want)
    assert f.trace_count == 1


def test_factories():
    same(lm.eye(3), np.eye(3))
    same(lm.eye(2, 4, 1, dtype="int32"), np.eye(2, 4, 1, dtype="int32"))
    same(lm.linspace(-1, 1, 5), np.linspace(-1, 1, 5))
    same(lm.linspace(0, 1, 4, endpoint=False, dtype="float64"), np.linspace(0, 1, 4, endpoint=False))
    assert lm.linspace(0, 1, 0).shape == (0,) and lm.linspace(3, 9, 1).tolist() == [3]
    assert lm.full_like(A, 2, dtype="int64").dtype == lm.int64


@pytest.mark.parametrize("bad", [
    lambda: lm.tril(A[0, 0]), lambda: lm.diag(A), lambda: lm.diagonal(A, 0, 1, 1), lambda: lm.roll(A, (1, 2), (0, 1, 2)), lambda: lm.repeat(A, [1, 2], 1),
    lambda: lm.repeat(A, -1, 1), lambda: lm.tile(A, -1), lambda: lm.pad(A, -1), lambda: lm.pad(A, ((1, 1), (1, 1))), lambda: lm.pad(A, 1, "mirror"), lambda: lm.eye(-1),
    lambda: lm.linspace(0, 1, -1), lambda: lm.moveaxis(A, (0, 0), (1, 2)), lambda: lm.swapaxes(A, 0, 3), lambda: lm.flip(A, 3), lambda: lm.tensordot(A, A, 2),
    lambda: lm.tensordot(A, A, ((0, 0), (0, 1))), lambda: lm.tile(A, 1 << 60), lambda: lm.pad(A, 1 << 62), lambda: lm.pad(A[:, :0], 1, "edge"),
])
def test_what_does_not_fit_is_refused(bad):
    with pytest.raises(lm.errors.Error):
        bad()


def test_gradients_follow():
    def check(f, x, w):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = lm.sum(f(x) * w)
        got, h = tape.gradient(y, x).numpy(), 1e-3
        for i in np.ndindex(*x.shape):
            d = np.zeros(x.shape)
            d[i] = h
            slope = (np.sum(f(lm.constant(x.numpy() + d)).numpy() * w) - np.sum(f(lm.constant(x.numpy() - d)).numpy() * w)) / (2 * h)
            assert abs(got[i] - slope) < 1e-6 * max(1, abs(slope))
    x = lm.constant(np.random.rand(3, 4))
    for f in (lambda x: lm.pad(x, 2, "reflect"), lambda x: lm.tile(x, (2, 2)), lambda x: lm.roll(x, 1, 1), lambda x: lm.repeat(x, [1, 0, 3], 0), lambda x: lm.tril(x, 1), lambda x: lm.diag(x),
              lambda x: lm.flip(x, 0), lambda x: lm.outer(x, x), lambda x: lm.sort(x * x, 0), lambda x: lm.einsum("ij,kj->ik", x, x), lambda x: x.at[1:, [0, 2]].mul(x[:2, :2]),
              lambda x: x.at[[0, 0], 1].add(x[0, :2]), lambda x: x[[0, 1, 1], [3, 2, 2]], lambda x: x[x.numpy() > 0.5]):
        check(f, x, np.random.rand(*f(x).shape))


def test_an_open_length_is_written_as_minus_one():
    @lm.function(input_signature=[lm.TensorSpec(["n", 2, 3])])
    def rows(x):
        return lm.reshape(x, [x.shape[0], 6])

    with pytest.raises(TypeError, match="(?s)None is no whole number.*-1 for one length in a reshape"):
        rows(lm.ones([5, 2, 3]))
    with pytest.raises(TypeError, match="'six' is no whole number"):
        lm.reshape(A, ["six"])
    with pytest.raises(TypeError, match="1.5 is no whole number"):
        lm.sum(A, axis=1.5)
    assert lm.reshape(A, np.array([4, 6])).shape == (4, 6)
