"""Functions of lm that are compositions, beside NumPy's and the C library's: values, edges, errors. Their gradients are in test_every_function.py."""
import math
import warnings

import numpy as np
import pytest

import lamina as lm

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 7))
FLOATS = ("float16", "float32", "float64")


def same(got, wanted, rtol=1e-12, atol=0):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=atol)
    assert np.shape(got) == np.shape(wanted)


@pytest.mark.parametrize("axis", (0, 1, -1))
def test_products_and_differences_along_an_axis(axis):
    for n in (0, 1, 2, 3, 8, 13):
        x = rng.normal(size=(n, n))
        same(lm.cumprod(x, axis), np.cumprod(x, axis))
        if n > 2:
            same(lm.diff(x, 2, axis), np.diff(x, 2, axis), atol=1e-15)
    same(lm.diff(X, axis=axis, prepend=0, append=1.5), np.diff(X, axis=axis, prepend=0, append=1.5))
    same(lm.diff(X > 0, axis=axis), np.diff(X > 0, axis=axis))
    same(lm.cumprod(lm.constant([2, 3, 4])), [2, 6, 24])
    assert lm.grad(lambda v: lm.sum(lm.cumprod(v)))(lm.constant([2.0, 0.0, 3.0])).numpy().tolist() == [1, 8, 0]


def test_associative_scan_is_a_scan():
    for n in (1, 2, 5, 16, 33):
        a, b = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
        combine = lambda s, t: (s[0] * t[0], s[1] * t[0] + t[1])  # h = a h + b, which is not commutative
        h, wanted = np.zeros(2), []
        for i in range(n):
            h = a[i] * h + b[i]
            wanted.append(h)
        for mode in (lambda f: f, lm.function):
            same(mode(lambda a, b: lm.associative_scan(combine, (a, b)))(lm.constant(a), lm.constant(b))[1], wanted, 1e-9, 1e-12)
        h, wanted = np.zeros(2), []
        for i in reversed(range(n)):
            h = a[i] * h + b[i]
            wanted.append(h)
        same(lm.associative_scan(combine, (lm.constant(a), lm.constant(b)), reverse=True)[1], wanted[::-1], 1e-9, 1e-12)
    with pytest.raises(lm.errors.InvalidArgument, match="length"):
        lm.associative_scan(lambda s, t: s, (lm.ones(3), lm.ones(4)))
    with pytest.raises(lm.errors.InvalidArgument, match="open"):
        lm.function(lm.cumprod, input_signature=[lm.TensorSpec([None])])(lm.ones(3))


def test_products_of_matrices_and_vectors():
    same(lm.cross(X[:, :3], X[:, 3:6]), np.cross(X[:, :3], X[:, 3:6]))
    same(lm.cross(X[:3], X[:3, ::-1], axis=0), np.cross(X[:3], X[:3, ::-1], axis=0))
    for a, b in ((X[:2], X[0]), (X[0], X[:2]), (X, X[:2, :2])):
        same(lm.kron(a, b), np.kron(a, b))
    for k in (-2, 0, 3):
        same(lm.trace(X, k), np.trace(X, k))
    same(lm.vecdot(X, X[0]), X @ X[0], 1e-12)
    same(lm.matrix_transpose(X), X.T)
    with pytest.raises(lm.errors.InvalidArgument, match="length 7"):
        lm.cross(X, X)


@pytest.mark.parametrize("method", ("linear", "lower", "higher", "nearest", "midpoint"))
def test_quantiles(method):
    for q in (0.3, 0.5, 0, 1, [0.0, 0.25, 1.0]):
        for axis in (None, 0, -1):
            for keepdims in (False, True):
                same(lm.quantile(X, q, axis, keepdims, method), np.quantile(X, q, axis, method=method, keepdims=keepdims))
    same(lm.median(X, 0), np.median(X, 0))
    same(lm.median([3, 1, 2, 9]), 2.5)
    assert math.isnan(lm.median([1.0, math.nan]).item())
    for wrong in (lambda: lm.quantile(X, 1.5), lambda: lm.quantile(X, 0.5, method="middle"), lambda: lm.quantile(np.zeros(0), 0.5)):
        with pytest.raises(lm.errors.InvalidArgument):
            wrong()


def test_quantiles_of_infinities_and_large_numbers():
    inf, nan = math.inf, math.nan
    assert lm.median([1.0, inf, inf]).item() == inf and lm.median([-3e38, 3e38]).item() == 0 and lm.median([-inf, 2.0]).item() == -inf and math.isnan(lm.median([-inf, inf]).item())
    assert lm.quantile([-inf, 2.0, 3.0], 0.0).item() == -inf and lm.quantile([-inf, 2.0, 3.0], 0.5).item() == 2 and lm.quantile([1.0, inf, inf], [0.0, 0.5, 0.9, 1.0]).tolist() == [1, inf, inf, inf]
    for method in ("linear", "midpoint"):
        assert lm.quantile(lm.constant([-60000.0, 60000.0], "float16"), 0.5, method=method).item() == 0 and lm.quantile([1.0, 2.0, inf, inf], 0.9, method=method).item() == inf
    assert lm.quantile([0.1] * 4, 0.3).item() == np.float32(0.1) and lm.quantile([1.0, 2.0], np.array(0.5)).item() == 1.5 and lm.quantile([1.0, 2.0], np.float32(0.5)).item() == 1.5
    assert lm.grad(lambda x: lm.quantile(x, 0.25))(lm.constant([3e38, 0.0, -3e38])).tolist() == [0, 0.5, 0.5] and not math.isnan(lm.grad(lm.median)(lm.constant([1.0, inf, inf]))[0].item()) and nan != nan
    for x, q, want in (([inf, 1.0, 2.0], 0.5, [0, 0, 1]), ([-inf, 1.0, 2.0, inf], 1 / 3, [0, 1, 0, 0]), ([inf, 1.0, 2.0], 0.75, [0.5, 0, 0.5]), ([1.0, inf], 1.0, [0, 1])):
        for f in (lm.grad(lambda x: lm.quantile(x, q)), lm.function(lm.grad(lambda x: lm.quantile(x, q)))):
            np.testing.assert_allclose(f(lm.constant(x, "float64")), want, atol=1e-7)


def test_integers_that_the_other_dtype_does_not_hold():
    most = np.array([2**64 - 1, 5], "uint64")
    for x, values in ((most, [-1]), (most, [-1, 5]), (most, [2**64 - 1]), (np.array([-1, 5]), most), (np.array([2**63 - 1, 5]), most), (most, most)):
        wanted = [int(v) in [int(w) for w in values] for v in x]
        assert lm.isin(x, values).tolist() == wanted and lm.isin(lm.constant(x), values, invert=True).tolist() == [not w for w in wanted]
    for call in (lambda: lm.bincount([0, -1]), lambda: lm.bincount([0, -1], length=4), lambda: lm.function(lambda x: lm.bincount(x, length=4))(lm.constant([0, -1])).numpy(), lambda: lm.bincount(lm.constant([3, -7], "int8"), length=300)):
        with pytest.raises(lm.errors.IndexOutOfRange):
            call()
    assert lm.bincount(np.array([1, 2, 1], "uint64")).tolist() == [0, 2, 1]


def test_histograms_without_bounds_are_refused():
    for options in ({}, {"range": (3, 1)}, {"range": (0, math.inf)}, {"bins": [1.0, 0.0]}, {"bins": 2.5}, {"bins": [1.0]}, {"bins": True}):
        with pytest.raises(lm.errors.InvalidArgument, match="histogram: "):
            lm.histogram([1.0, math.nan], **options)
    assert lm.histogram([1.0, math.nan, 2.0], range=(1, 3))[0].sum().item() == 2 and lm.histogram([1.0, 2.0], np.int64(3))[0].tolist() == [1, 0, 1] and lm.histogram([1.0, 2.0], [1, 1, 2])[0].tolist() == [0, 2]


def test_counts():
    i, w = rng.integers(0, 6, 20), X.ravel()[:20]
    for options in ({}, {"minlength": 9}, {"weights": w}):
        same(lm.bincount(i, **options), np.bincount(i, **options))
    same(lm.function(lambda i: lm.bincount(i, length=8))(lm.constant(i)), np.bincount(i, minlength=8))
    with pytest.raises(lm.errors.InvalidArgument, match="length"):
        lm.function(lm.bincount)(lm.constant(i))
    with pytest.raises(lm.errors.IndexOutOfRange):
        lm.bincount(i, length=2)
    for options in ({}, {"bins": 6}, {"bins": [-1.0, 0.0, 0.5, 1.0]}, {"range": (-1, 1)}, {"bins": 4, "weights": X}, {"density": True, "bins": 5}):
        counts, edges = np.histogram(X, **options)
        got = lm.histogram(X, **options)
        same(got[0], counts, 1e-9)
        same(got[1], edges, 1e-9)
    same(lm.histogram(np.ones(4), 2)[1], np.histogram(np.ones(4), 2)[1])
    for values in ([1, 2], [9], np.array([0, 5])):
        same(lm.isin(i, values), np.isin(i, values))
        same(lm.isin(i, values, invert=True), np.isin(i, values, invert=True))


@pytest.mark.parametrize("name", ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"))
def test_functions_that_leave_nan_out(name):
    y = X.copy()
    y[0, 0], y[:, 2] = np.nan, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for axis in (None, 0, 1):
            for keepdims in (False, True):
                same(getattr(lm, name)(y, axis, keepdims), getattr(np, name)(y, axis, keepdims=keepdims), 1e-12)


@pytest.mark.parametrize("name", ("nansum", "nanprod", "nanmean", "nanvar", "nanstd"))
def test_complex_functions_that_leave_nan_out(name):
    z = X + 1j * X[::-1]
    z[0, 0], z[1, 2] = np.nan, complex(1, np.nan)
    for axis in (None, 0, 1):
        same(getattr(lm, name)(z, axis), getattr(np, name)(z, axis), 1e-12)


def test_statistics_of_half_types_compute_in_float32():
    assert lm.nanmean(lm.ones(70000, "float16")).item() == 1 and lm.nanstd(lm.constant([300.0, -300.0], "float16")).item() == 300
    for f in (lm.nanmean, lm.nanvar, lm.nanstd, lm.median):
        assert f(lm.ones(3, "bfloat16")).dtype == lm.bfloat16


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_the_floating_format(dtype):
    info = np.finfo(dtype)
    reach = int(np.log10(float(info.max))) - 1
    a = np.concatenate([rng.normal(size=400) * 10.0 ** rng.integers(-reach, reach, 400), [0.0, -0.0, 1, 2, 4, 0.5, np.inf, -np.inf, info.max, -info.max, info.tiny, info.smallest_subnormal, -info.smallest_subnormal]]).astype(dtype)
    b = rng.permutation(a)
    with np.errstate(all="ignore"):
        for to in (np.full_like(a, np.inf), np.full_like(a, -np.inf), np.zeros_like(a), b):
            same(lm.nextafter(a, to), np.nextafter(a, to), 0)
        assert math.isnan(lm.nextafter(lm.constant([math.nan], dtype), lm.constant([1.0], dtype)).item())
        same(lm.signbit(a), np.signbit(a))
        same(lm.copysign(a, b), np.copysign(a, b), 0)
        far = np.abs(a) < float(info.max) / 4, np.abs(b) < float(info.max) / 4  # within a rounding of overflow either is right
        a, b = a[far[0] & far[1] | np.isinf(a)], b[far[0] & far[1] | np.isinf(a)]
        same(lm.hypot(a, b), np.hypot(a, b), {"float16": 2e-3, "float32": 3e-7, "float64": 1e-15}[dtype], float(info.smallest_subnormal))
    assert lm.hypot(math.inf, math.nan).item() == math.inf and lm.hypot(3, 4).item() == 5


def test_erfinv_is_the_inverse():
    z = np.concatenate([np.linspace(-0.999, 0.999, 401), [1e-10, 1e-300, 1 - 1e-12, 1 - 1e-16]])
    x = np.asarray(lm.erfinv(z))
    same([math.erf(v) for v in x], z, 2e-15)
    same([math.erfc(v) for v in x[z > 0.5]], (1 - z)[z > 0.5], 1e-13)
    assert lm.erfinv([1.0, -1.0, 0.0]).numpy().tolist() == [math.inf, -math.inf, 0] and math.isnan(lm.erfinv(1.5).item())


def test_slopes_of_erfinv_to_third_order():
    y = np.array([-0.9, -0.3, 0.0, 1e-8, 0.4, 0.999])
    x = np.asarray(lm.erfinv(y))
    first = math.sqrt(math.pi) / 2 * np.exp(x**2)
    each = lambda f: lambda v: lm.grad(lambda v: lm.sum(f(v)))(v)
    for f, wanted in ((each(lm.erfinv), first), (each(each(lm.erfinv)), 2 * x * first**2), (each(each(each(lm.erfinv))), (2 + 8 * x**2) * first**3)):
        for mode in (lambda f: f, lm.function):
            same(mode(f)(lm.constant(y)), wanted, 1e-10, 1e-12)
    assert lm.hessian(lambda v: lm.sum(lm.erfinv(v)))(lm.constant([0.5, -0.25])).numpy()[0, 1] == 0


def test_gamma_functions():
    x = np.concatenate([rng.uniform(-9.9, 30, 800), [1e-5, 1e10, 0.5, 1, 2, 1e300, 170.5]])
    same(lm.lgamma(x), [math.lgamma(v) for v in x], 1e-12, 3e-14)
    same(lm.lgamma(x.astype("float32")[:-2]), [math.lgamma(v) for v in x.astype("float32")[:-2]], 2e-7, 1e-14)
    near = np.concatenate([10.0 ** -np.arange(5, 16), -(10.0 ** -np.arange(5, 16)), [0.0]])  # the digits that libraries lose around 1 and 2
    for at, first, second in ((1, -0.5772156649015329, math.pi**2 / 12), (2, 0.42278433509846713, math.pi**2 / 12 - 0.5)):
        e = at + near - at  # as x holds it
        same(lm.lgamma(at + near), e * first + e**2 * second - e**3 * (0.40068563438653143 - (at == 2) / 3), 1e-14)
    assert lm.lgamma([1.0, 2.0]).tolist() == [0, 0]
    x = np.linspace(0.5, 12, 3000)
    same(lm.lgamma(x + 1) - lm.lgamma(x), np.log(x), 0, 2e-14)
    assert lm.lgamma([0.0, -1.0, math.inf, -math.inf]).numpy().tolist() == [math.inf] * 4 and math.isnan(lm.lgamma(math.nan).item())
    same(lm.digamma([1.0, 0.5, 10.0, -0.5, 0.1]), [-0.5772156649015329, -1.9635100260214235, 2.251752589066721, 0.03648997397857652, -10.423754940411076], 2e-7)
    same(lm.digamma(np.array([1.0, 0.5, 10.0, -0.5, 0.1])), [-0.5772156649015329, -1.9635100260214235, 2.251752589066721, 0.03648997397857652, -10.423754940411076], 1e-12)
    assert math.isnan(lm.digamma(-2.0).item()) and lm.digamma(math.inf).item() == math.inf
    same(lm.grad(lm.grad(lm.lgamma))(lm.constant(2.0, "float64")), math.pi**2 / 6 - 1, 1e-10)


def test_closeness():
    assert lm.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9]).item() and not lm.allclose([1.0, 2.0], [1.0, 2.1]).item()
    a, b = np.array([1.0, np.inf, np.inf, np.nan, 1e-9]), np.array([1.0 + 1e-6, np.inf, -np.inf, np.nan, 0])
    for equal_nan in (False, True):
        same(lm.isclose(a, b, equal_nan=equal_nan), np.isclose(a, b, equal_nan=equal_nan))


def test_trees():
    tree = {"w": lm.ones(2), "layers": [(1.0, lm.zeros(3)), None]}
    doubled = lm.tree.map(lambda x: x * 2, tree)
    assert doubled["w"].numpy().tolist() == [2, 2] and doubled["layers"][0][0] == 2 and doubled["layers"][1] is None
    assert lm.tree.map(lambda a, b: a + b, {"a": 1, "b": (2, 3)}, {"b": (20, 30), "a": 10}) == {"a": 11, "b": (22, 33)}
    leaves, structure = lm.tree.flatten(tree)
    assert len(leaves) == len(lm.tree.leaves(tree)) == 4 and lm.tree.unflatten(structure, leaves)["layers"][0][0] == 1.0
    step = lm.function(lambda p, g: lm.tree.map(lambda p, g: p - 0.1 * g, p, g))
    assert step({"w": lm.ones(2)}, {"w": lm.ones(2)})["w"].numpy().tolist() == pytest.approx([0.9, 0.9])
    with pytest.raises(lm.errors.InvalidArgument, match="differ at"):
        lm.tree.map(lambda a, b: a, {"a": (1, 2)}, {"a": [1, 2]})
    with pytest.raises(lm.errors.InvalidArgument, match="leaves"):
        lm.tree.unflatten(structure, leaves[1:])
