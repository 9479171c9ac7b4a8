"""Functions of lm.numpy_like beside NumPy's: values, edges, errors. Their gradients are in test_every_function.py."""
import numpy as np
import pytest

import lamina as lm

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 5))
FLOATS = ("float16", "float32", "float64")


def same(got, wanted, rtol=1e-12, atol=1e-15):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=atol)
    assert np.shape(got) == np.shape(wanted)


def test_nan_to_num_is_numpys_for_every_dtype_and_replacement():
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5]
    ways = ({}, {"nan": 3.0}, {"posinf": 9.0}, {"neginf": -9.0}, {"nan": np.inf}, {"nan": 1.0, "posinf": np.nan, "neginf": 2.0})
    for options in ways:
        for dtype in FLOATS:
            x = np.array(values, dtype)
            for mode in (lambda f: f, lm.function):
                got = mode(lambda x: lm.nan_to_num(x, **options))(lm.constant(x)).numpy()
                np.testing.assert_array_equal(got, np.nan_to_num(x, **options))
                assert got.dtype == x.dtype
        z = np.array([complex(np.nan, 1), complex(-np.inf, np.nan), 1 + 2j])
        np.testing.assert_array_equal(lm.nan_to_num(z, **options).numpy(), np.nan_to_num(z, **options))
    assert lm.nan_to_num(lm.constant([1, 2])).dtype == lm.int32 and lm.nan_to_num([True]).dtype == lm.bool
    assert np.isfinite(lm.nan_to_num(lm.constant(values, "bfloat16")).tolist()).all()
    assert lm.grad(lambda x: lm.sum(lm.nan_to_num(x) * 2))(lm.constant(values)).numpy().tolist() == [0, 0, 0, 2, 2, 2]


@pytest.mark.parametrize("axis", (0, 1, -1))
def test_running_values_are_numpys(axis):
    for n in (1, 2, 3, 7):
        x = rng.normal(size=(n, n))
        x[rng.random(size=x.shape) < 0.2] = np.nan
        same(lm.cummax(x, axis), np.maximum.accumulate(x, axis))
        same(lm.cummin(x, axis), np.minimum.accumulate(x, axis))
        same(lm.nancumsum(x, axis), np.nancumsum(x, axis))
        same(lm.nancumprod(x, axis), np.nancumprod(x, axis))
        y = rng.normal(size=(n, n)) * 100
        same(lm.logcumsumexp(y, axis), np.logaddexp.accumulate(y, axis))


def test_trapezoid_is_numpys():
    numpys = getattr(np, "trapezoid", None) or np.trapz
    at = np.sort(rng.normal(size=5))
    for axis in (0, 1, -1):
        same(lm.trapezoid(X, dx=0.3, axis=axis), numpys(X, dx=0.3, axis=axis))
        same(lm.trapezoid(X, X**3, axis=axis), numpys(X, X**3, axis=axis))
    same(lm.trapezoid(X, at), numpys(X, at))
    same(lm.trapezoid([1, 2, 3]), 4.0)
    same(lm.trapezoid(X[0], at), numpys(X[0], at))
    with pytest.raises(lm.errors.InvalidArgument, match="x has the shape"):
        lm.trapezoid(X, at[:3])


def test_interp_is_numpys_at_points_between_them_and_beyond():
    for n in (1, 2, 3, 9):
        xp = np.sort(rng.normal(size=n))
        fp = rng.normal(size=n)
        x = np.concatenate([rng.normal(size=20) * 2, xp, [np.inf, -np.inf], [np.nan] if n > 1 else []])  # between no two points NumPy knows no NaN
        for options in ({}, {"left": 5.0}, {"right": -5.0}, {"left": np.nan, "right": 0.0}):
            same(lm.interp(x, xp, fp, **options), np.interp(x, xp, fp, **options))
            same(lm.function(lambda x: lm.interp(x, xp, fp, **options))(lm.constant(x)), np.interp(x, xp, fp, **options))
    same(lm.interp(2.5, [1, 2, 3], [3, 2, 0]), 1.0)
    with pytest.raises(lm.errors.InvalidArgument, match="two vectors of one length"):
        lm.interp(X, [1.0, 2.0], [1.0])


@pytest.mark.parametrize("right", (False, True))
def test_digitize_is_numpys(right):
    edges = np.array([-1.0, 0.0, 0.0, 1.5])
    x = np.concatenate([X.ravel(), edges])
    for bins in (edges, edges[::-1], edges[:1]):
        same(lm.digitize(x, bins, right), np.digitize(x, bins, right))
    same(lm.digitize([0, 1, 5], [1, 3], right), np.digitize([0, 1, 5], [1, 3], right))


def test_polynomials_are_numpys():
    for p in ([2.0], [1.0, -2.0, 0.5], [1, 2, 3]):
        same(lm.polyval(p, X), np.polyval(p, X), 1e-6)
    same(lm.polyval([1, 2, 3], 4), np.polyval([1, 2, 3], 4))
    for n in (None, 0, 1, 3):
        for increasing in (False, True):
            same(lm.vander(X[0], n, increasing), np.vander(X[0], n, increasing))
    same(lm.logspace(0, 3, 4), [1, 10, 100, 1000], 1e-6)
    same(lm.logspace(0, 3, 5, endpoint=False, base=2.0, dtype="float64"), np.logspace(0, 3, 5, endpoint=False, base=2.0))


def test_statistics_are_numpys():
    weights = rng.uniform(0.5, 2, size=4)
    same(lm.average(X), np.average(X))
    same(lm.average(X, 0, weights), np.average(X, 0, weights))
    same(lm.average(X, weights=X**2), np.average(X, weights=X**2))
    same(lm.average(X, 1, X**2), np.average(X, 1, X**2))
    for rowvar in (True, False):
        same(lm.cov(X, rowvar), np.cov(X, rowvar=rowvar), 1e-10)
        same(lm.corrcoef(X, rowvar), np.corrcoef(X, rowvar=rowvar), 1e-10)
    same(lm.cov(X[0]), np.cov(X[0]), 1e-10)
    same(lm.cov(X, ddof=0), np.cov(X, ddof=0), 1e-10)
    z = X + 1j * X[::-1] ** 2
    same(lm.cov(z), np.cov(z), 1e-10)
    same(lm.corrcoef(z), np.corrcoef(z), 1e-10)
    with pytest.raises(lm.errors.InvalidArgument, match="the weights have the shape"):
        lm.average(X, weights=weights)


def test_functions_of_each_element():
    same(lm.deg2rad(X), np.deg2rad(X))
    same(lm.rad2deg(X), np.rad2deg(X))
    edges = np.array([-2.0, -0.0, 0.0, 1.0, np.nan, np.inf])
    same(lm.heaviside(edges, 0.5), np.heaviside(edges, 0.5))
    for x in (np.linspace(-4, 4, 801), np.array([0.0, 1e-320, 1e-5, 9.9e-5, 1.01e-4, 30.5])):
        same(lm.sinc(x), np.sinc(x), 1e-9, 1e-15)
    x = np.linspace(-4, 4, 8001).astype("float32")
    same(lm.sinc(x), np.sinc(x.astype("float64")), 2e-6, 2e-7)
    assert lm.grad(lm.sinc)(lm.constant(0.0)).item() == 0 and lm.grad(lm.grad(lm.sinc))(lm.constant(0.0, "float64")).item() == pytest.approx(-np.pi**2 / 3)
    p = np.array([0.0, 1e-30, 0.3, 1.0])
    with np.errstate(divide="ignore"):
        same(lm.logit(p), np.log(p) - np.log1p(-p))
    same(lm.sigmoid(lm.logit(p[1:3])), p[1:3])
    same(lm.log_sigmoid(lm.constant([-1000.0, 0.0, 1000.0])), [-1000.0, -np.log(2), 0.0], 1e-6)
    same(lm.xlogy([0.0, 0.0, 2.0, 0.0], [0.0, 3.0, 4.0, -1.0]), [0, 0, 2 * np.log(4), 0], 1e-6)
    assert np.isnan(lm.xlogy(0.0, np.nan).item())
    assert [g.item() for g in lm.grad(lm.xlogy, argnums=(0, 1))(lm.constant(0.0), lm.constant(0.0))] == [0, 0]


def test_shape_is_that_of_every_call():
    whole = lm.function(lm.shape, input_signature=[lm.TensorSpec([None, 3, None])])
    for n, m in ((2, 5), (0, 1), (4, 0)):
        assert whole(lm.zeros([n, 3, m])).tolist() == [n, 3, m] == lm.shape(lm.zeros([n, 3, m])).tolist()
    assert lm.shape(lm.constant(1.0)).tolist() == [] and lm.shape(X).dtype == lm.int32 and whole.trace_count == 1
    mean = lm.function(lambda x: lm.sum(x) / lm.astype(lm.shape(x)[1], x.dtype), input_signature=[lm.TensorSpec([3, None])])
    same(mean(lm.ones([3, 7])), 3.0)


def test_shapes_are_numpys():
    for x in (np.array(2.0), X[0], X, X[None]):
        same(lm.atleast_1d(x), np.atleast_1d(x))
        same(lm.atleast_2d(x), np.atleast_2d(x))
    for values in ([X, X], [X[0], X[1]], [X, X[0]]):
        same(lm.vstack(values), np.vstack(values))
    for values in ([X, X[:, :2]], [X[0], X[1]], [np.array(1.0), X[0]], [X[None], X[None]]):
        same(lm.hstack(values), np.hstack(values))
    for k in range(-4, 5):
        same(lm.rot90(X, k), np.rot90(X, k))
        same(lm.rot90(X[None], k, (2, 0)), np.rot90(X[None], k, (2, 0)))
    with pytest.raises(lm.errors.InvalidArgument, match="plane"):
        lm.rot90(X, axes=(0, -2))
