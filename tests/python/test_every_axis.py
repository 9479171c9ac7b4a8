"""Every function with one or several axes, for each axis from the front and from the back: NumPy's result, or an error where NumPy raises
one."""
import numpy as np
import pytest

import lamina as lm

X = np.random.default_rng(3).permutation(24).reshape(2, 3, 4).astype("float32")
T = lm.constant(X)
ONE = range(-4, 4)  # -4 and 3 are out of range
SEVERAL = [(0, 1), (-1, 0), (-2, -1), (0, 1, 2), (-1, -2, -3), (1,), (-3,), (0, 0), (0, -3), (0, 3), (-4, 1)]

# name: (lm's, NumPy's) function of x and an axis
SINGLE = {
    **{n: (lambda x, a, n=n: getattr(lm, n)(x, a), lambda x, a, n=n: getattr(np, n)(x, a)) for n in ("sum", "mean", "max", "min", "prod", "all", "any", "var", "std", "cumsum", "argmax", "argmin", "sort", "argsort", "flip", "count_nonzero")},
    "softmax": (lambda x, a: lm.softmax(x, a), lambda x, a: np.exp(x - x.max(a, keepdims=True)) / np.exp(x - x.max(a, keepdims=True)).sum(a, keepdims=True)),
    "logsumexp": (lambda x, a: lm.logsumexp(x, a), lambda x, a: np.log(np.exp(x.astype("float64")).sum(a))),
    "roll": (lambda x, a: lm.roll(x, 5, a), lambda x, a: np.roll(x, 5, a)), "roll back": (lambda x, a: lm.roll(x, -1, a), lambda x, a: np.roll(x, -1, a)),
    "moveaxis": (lambda x, a: lm.moveaxis(x, a, -1), lambda x, a: np.moveaxis(x, a, -1)), "moveaxis to": (lambda x, a: lm.moveaxis(x, 0, a), lambda x, a: np.moveaxis(x, 0, a)),
    "swapaxes": (lambda x, a: lm.swapaxes(x, a, -1), lambda x, a: np.swapaxes(x, a, -1)), "squeeze": (lambda x, a: lm.squeeze(x[:, :1], a), lambda x, a: np.squeeze(x[:, :1], a)),
    "concat": (lambda x, a: lm.concat([x, x], a), lambda x, a: np.concatenate([x, x], a)), "split": (lambda x, a: lm.split(x, [1, -1], a), lambda x, a: np.split(x, [1], a)),
    "repeat": (lambda x, a: lm.repeat(x, 2, a), lambda x, a: np.repeat(x, 2, a)), "take": (lambda x, a: lm.take(x, lm.constant([1, 0]), a), lambda x, a: np.take(x, [1, 0], a)),
    "gather": (lambda x, a: lm.gather(x, lm.constant([1, 0]), a), lambda x, a: np.take(x, [1, 0], a)), "top_k": (lambda x, a: lm.top_k(x, 2, a)[0], lambda x, a: -np.sort(-np.moveaxis(np.moveaxis(x, a, 0), 0, a), a).take([0, 1], a)),
    "take_along_axis": (lambda x, a: lm.take_along_axis(x, lm.argsort(x, a), a), lambda x, a: np.take_along_axis(x, np.argsort(x, a), a)), "diagonal": (lambda x, a: lm.diagonal(x, 0, a, 1), lambda x, a: np.diagonal(x, 0, a, 1)),
    "shuffle": (lambda x, a: lm.sort(lm.random.shuffle(x, a), a), lambda x, a: np.sort(x, a)), "norm": (lambda x, a: lm.norm(x, axis=a), lambda x, a: np.sqrt((x * x).sum(a))),
}
LONGER = {"expand_dims": (lm.expand_dims, np.expand_dims), "stack": (lambda x, a: lm.stack([x, x], a), lambda x, a: np.stack([x, x], a))}  # axes of the result
MANY = {
    **{n: SINGLE[n] for n in ("sum", "mean", "max", "min", "prod", "all", "any", "var", "std", "flip", "count_nonzero", "logsumexp", "norm")}, "expand_dims": LONGER["expand_dims"],
    "squeeze": (lambda x, a: lm.squeeze(x[:1, :1, :1], a), lambda x, a: np.squeeze(x[:1, :1, :1], a)),
    "transpose": (lm.transpose, np.transpose), "moveaxis": (lambda x, a: lm.moveaxis(x, a, tuple(range(len(a)))), lambda x, a: np.moveaxis(x, a, tuple(range(len(a))))),
}


def outcome(function, x, axis):
    """The error that the function raises, or None."""
    try:
        function(x, axis)
    except (lm.errors.Error, IndexError) as e:
        return e
    return None


# Functions of tensors and an axis, or several, beside those above.
OTHERS = {
    "cumprod": lm.cumprod, "diff": lambda x, a: lm.diff(x, axis=a), "scatter_add": lambda x, a: lm.scatter_add(x, lm.constant([0] * (x.shape[a] if -x.ndim <= a < x.ndim else 1)), x.shape, a), "trace": lambda x, a: lm.trace(x, 0, a, 1),
    "unstack": lm.unstack, "vecdot": lambda x, a: lm.vecdot(x, x, a), "nansum": lm.nansum, "nanmean": lm.nanmean, "nanvar": lm.nanvar, "moments": lm.moments, "xp.cumulative_sum": lambda x, a: lm.xp.cumulative_sum(x, axis=a), "take of pairs": lambda x, a: lm.take(x, lm.constant([[0, 1], [0, 0]]), a),
    "xp.sum": lambda x, a: lm.xp.sum(x, axis=a), "associative_scan": lambda x, a: lm.associative_scan(lm.mul, x, a), "linalg.norm": lambda x, a: lm.linalg.norm(x, axis=a), "fft": lambda x, a: lm.fft.fft(x, axis=a),
}


@pytest.mark.parametrize("name", [*SINGLE, *LONGER, *OTHERS])
def test_complex_refuses_the_axes_that_float32_refuses(name):
    function = OTHERS[name] if name in OTHERS else {**SINGLE, **LONGER}[name][0]
    for x in (T, T[0, 0], T[0, 0, 0]):
        z = lm.astype(x, "complex64") * (1 + 1j)
        for axis in range(-5, 6):
            of_real, of_complex = outcome(function, x, axis), outcome(function, z, axis)
            if isinstance(of_complex, lm.errors.TypeMismatch) and of_real is None:
                assert " complex" in str(of_complex) or "c64" in str(of_complex)  # the function has no order or no kernel of such numbers
                continue
            assert type(of_real) is type(of_complex), (name, x.shape, axis, of_real, of_complex)
            assert of_complex is None or "f32" not in str(of_complex) or "norm" in name  # which is that of sizes


@pytest.mark.parametrize("name", [n for n in MANY if n not in ("max", "min", "logsumexp")])
def test_complex_refuses_several_axes_that_float32_refuses(name):
    for axes in SEVERAL:
        of_real, of_complex = outcome(MANY[name][0], T, axes), outcome(MANY[name][0], lm.astype(T, "complex64"), axes)
        assert type(of_real) is type(of_complex), (name, axes, of_real, of_complex)


def check(ours, theirs, axis):
    try:
        wanted = theirs(X, axis)
    except (ValueError, IndexError):  # AxisError is both
        for mode in (lambda f: f, lm.function):
            with pytest.raises((lm.errors.InvalidArgument, lm.errors.TypeMismatch)):
                mode(lambda x: ours(x, axis))(T)
        return
    for mode in (lambda f: f, lm.function, lambda f: lambda x: (lambda r: [p[1] for p in r] if isinstance(r, (list, tuple)) else r[1])(lm.vmap(f)(lm.stack([x + 1, x])))):
        got = mode(lambda x: ours(x, axis))(T)
        for g, w in zip(got, wanted) if isinstance(got, list) else ((got, wanted),):
            assert tuple(g.shape) == np.shape(w)
            np.testing.assert_allclose(g.numpy(), w, rtol=2e-5)


@pytest.mark.parametrize("axis", ONE)
@pytest.mark.parametrize("name", SINGLE)
def test_one_axis(name, axis):
    check(*SINGLE[name], axis)


@pytest.mark.parametrize("axis", range(-5, 5))
@pytest.mark.parametrize("name", LONGER)
def test_one_axis_of_the_result(name, axis):
    check(*LONGER[name], axis)


@pytest.mark.parametrize("axis", SEVERAL)
@pytest.mark.parametrize("name", MANY)
def test_several_axes(name, axis):
    check(*MANY[name], axis)
