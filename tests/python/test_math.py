"""Elementwise functions, reductions built from several ops, operators and in-place forms, against NumPy and math."""
import math

import numpy as np
import pytest

import lamina as lm

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]], "float32")
I = np.array([[5, -7, 12], [3, 0, -1]], "int32")


@pytest.mark.parametrize("name, reference", [
    ("hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)), ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
])
def test_activations_of_several_ops_are_numpys_eager_and_traced(name, reference):
    eager, traced = getattr(lm, name)(X), lm.function(getattr(lm, name))(lm.constant(X))
    np.testing.assert_allclose(eager.numpy(), reference(X), rtol=2e-6, atol=1e-7)
    assert np.array_equal(traced.numpy(), eager.numpy()) and eager.dtype == lm.float32


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_nan_and_infinity_are_detected(name):
    odd = np.array([1, np.nan, np.inf, -np.inf, 0], "float32")
    for x in (odd, I):
        assert np.array_equal(getattr(lm, name)(x).numpy(), getattr(np, name)(x))


def test_whole_numbers_and_bools_are_numpys():
    y, j, b = np.array([[2.0], [0.25]], "float32"), np.array([[3], [6]], "int32"), I > 2
    for ours, theirs in ((lm.fmod, np.fmod), (lm.remainder, np.remainder), (lm.floor_divide, np.floor_divide), (lm.shift_right, np.right_shift)):
        assert np.array_equal(ours(I, j).numpy(), theirs(I, j)), ours
    np.testing.assert_allclose(lm.remainder(X, y).numpy(), np.remainder(X, y), rtol=2e-6)
    assert np.array_equal(lm.bitwise_not(b).numpy(), ~b)


def test_operators_are_numpys():
    x, i, b = lm.constant(X), lm.constant(I), lm.constant(I > 2)
    for a, n in ((x // 0.5, X // np.float32(0.5)), (x % 0.5, X % np.float32(0.5)), (x ** 2, X ** 2), (2 ** x, np.float32(2) ** X), (abs(x), abs(X)),
                 (round(x), np.round(X)), (x @ x.T, X @ X.T), (-x, -X), (+x, X), (1 - x, 1 - X), (1 / x, 1 / X), (7 // i[0], 7 // I[0]), (i % 4, I % 4),
                 (i & 6, I & 6), (6 | i, 6 | I), (i ^ 3, I ^ 3), (~i, ~I), (i << 2, I << 2), (i >> 1, I >> 1), (b & True, I > 2), (~b, I <= 2), (b ^ b, I != I),
                 (b | False, I > 2), (x < 1, X < 1), (1 <= i, I >= 1), (x != x, X != X)):
        np.testing.assert_allclose(a.numpy(), n, rtol=2e-6)
        assert a.numpy().dtype == n.dtype
    np.testing.assert_allclose(round(lm.constant([1.2345, -0.005]), 2).numpy(), [1.23, 0], atol=1e-6)
    with pytest.raises(TypeError, match="bitwise_and"):
        x & x
    with pytest.raises(TypeError, match="float 0.5"):
        i + 0.5
    with pytest.raises(TypeError, match="shift_left"):
        b << b


def test_in_place_forms_assign_the_variable():
    v = w = lm.Variable([4.0, 9.0])
    v += 2
    v -= [1.0, 1.0]
    v *= 3
    v /= lm.constant([5.0, 10.0])
    v **= 2
    v %= 5
    v //= 2
    assert v is w and isinstance(v, lm.Variable) and v.tolist() == [2, 2]  # 6 11, 5 10, 15 30, 3 3, 9 9, 4 4, 2 2
    bits = lm.Variable([6, 1])
    bits &= 3
    bits |= 8
    bits ^= 1
    bits <<= 2
    bits >>= 1
    assert bits.tolist() == [22, 16]

    @lm.function
    def double():
        v.assign(v)
        u = v
        u *= 2

    double()
    assert v.tolist() == [4, 4]
    t = lm.constant([1.0])
    before = t
    t += 1
    assert before.tolist() == [1] and t.tolist() == [2]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(axis, keepdims):
    kind = dict(axis=axis, keepdims=keepdims)
    for x in (X, I, I > 2):
        for name in ("prod", "all", "any", "count_nonzero"):
            got, want = getattr(lm, name)(x, **kind), getattr(np, name)(x, **kind)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    for ddof in (0, 1):
        np.testing.assert_allclose(lm.var(X, ddof=ddof, **kind).numpy(), np.var(X, ddof=ddof, **kind), rtol=2e-6)
        np.testing.assert_allclose(lm.std(X, ddof=ddof, **kind).numpy(), np.std(X, ddof=ddof, **kind), rtol=2e-6)
    np.testing.assert_allclose(lm.logsumexp(X, **kind).numpy(), np.log(np.sum(np.exp(X), **kind)), rtol=2e-6)
    for ord in (1, 2, 3, np.inf, -np.inf, 0):
        flat = X.reshape(-1) if axis in (None, (0, 1)) else X
        want = np.linalg.norm(flat, ord, axis=None if axis in (None, (0, 1)) else axis)
        np.testing.assert_allclose(lm.norm(X, ord, **kind).numpy().reshape(np.shape(want)), want, rtol=2e-6)


def test_reductions_of_nothing_and_of_infinities():
    none = np.zeros((3, 0), "float32")
    assert lm.prod(none, axis=1).tolist() == [1] * 3 and lm.all(none, axis=1).tolist() == [True] * 3 and lm.any(none, axis=1).tolist() == [False] * 3
    assert lm.logsumexp(none, axis=1).tolist() == [-math.inf] * 3 and lm.norm(none, axis=1).tolist() == [0] * 3 and lm.cumsum(none, axis=1).shape == (3, 0)
    inf = math.inf
    assert lm.logsumexp(lm.constant([-inf, -inf])).item() == -inf and lm.logsumexp(lm.constant([inf, 1.0])).item() == inf
    assert abs(lm.logsumexp(lm.constant([1000.0, 1000.0])).item() - 1000 - math.log(2)) < 1e-3
    assert lm.logsumexp(I).dtype == lm.float32
    with pytest.raises(ValueError, match="axis 2"):
        lm.prod(X, axis=2)


def test_running_sums_are_numpys():
    for axis in (0, 1, -1):
        np.testing.assert_allclose(lm.cumsum(X, axis=axis).numpy(), np.cumsum(X, axis), rtol=1e-6)
        np.testing.assert_allclose(lm.cumsum(X, axis=axis, reverse=True).numpy(), np.flip(np.cumsum(np.flip(X, axis), axis), axis), rtol=1e-6)
    assert lm.cumsum(lm.constant([1, 2, 3]), exclusive=True).tolist() == [0, 1, 3] and lm.cumsum(I > 2, axis=0).dtype == lm.int64


def test_clip_takes_one_bound_or_two():
    np.testing.assert_array_equal(lm.clip(X, -1, 1).numpy(), np.clip(X, -1, 1))
    np.testing.assert_array_equal(lm.clip(X, low=0).numpy(), np.clip(X, 0, None))
    np.testing.assert_array_equal(lm.clip(X, high=np.float32(0.5)).numpy(), np.clip(X, None, 0.5))
    np.testing.assert_array_equal(lm.clip(I, 0, lm.constant([[1], [2]])).numpy(), np.clip(I, 0, [[1], [2]]))
    with pytest.raises(TypeError, match="clip"):
        lm.clip(I, 0.5, 1)


def gradient(f, x):
    with lm.GradientTape() as tape:
        x = lm.constant(x)
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("f", [
    lambda x: lm.prod(x, axis=1), lambda x: lm.logsumexp(x, axis=0), lm.var, lambda x: lm.std(x, axis=1, ddof=1), lm.norm, lambda x: lm.norm(x, 1, axis=0),
    lambda x: lm.norm(x, math.inf), lambda x: lm.norm(x, 3), lambda x: lm.cumsum(x, axis=0), lm.selu, lambda x: lm.hard_sigmoid(x + 0.01), lambda x: lm.gelu(x, approximate=True),
    lambda x: lm.leaky_relu(x, 0.2), lambda x: lm.elu(x, 0.5), lambda x: lm.clip(x, -1, 1), lambda x: lm.logaddexp(x, 0.3),
])
def test_gradients_are_those_of_differences(f):
    x = X.astype("float64")
    got, h = gradient(f, x), 1e-6
    for at in np.ndindex(x.shape):
        more, less = x.copy(), x.copy()
        more[at] += h
        less[at] -= h
        slope = (float(lm.sum(f(lm.constant(more))).item()) - float(lm.sum(f(lm.constant(less))).item())) / (2 * h)
        assert abs(got[at] - slope) < 1e-7 * max(1, abs(slope)) + 1e-8


def test_gradients_at_extreme_values_are_finite():
    assert gradient(lm.norm, [0.0, 0.0]).tolist() == [0, 0] and gradient(lm.prod, [0.0, 2.0, 3.0]).tolist() == [6, 0, 0]
    assert gradient(lm.prod, [0.0, 0.0, 3.0]).tolist() == [0, 0, 0] and gradient(lambda x: lm.logsumexp(x), [-math.inf, 0.0]).tolist() == [0, 1]
    slopes = gradient(lambda x: lm.clip(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0])
    assert slopes.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "softplus", "elu", "selu", "leaky_relu", "hard_sigmoid", "exponential"])
def test_layers_know_activations_by_name(name):
    layer = lm.nn.Dense(3, activation=name)
    x = lm.constant(X)
    y = layer(x)
    w, b = layer.trainable_variables
    z = x @ w + b
    f = {"gelu_tanh": lambda t: lm.gelu(t, approximate=True), "exponential": lm.exp}.get(name) or getattr(lm, name)
    np.testing.assert_allclose(y.numpy(), f(z).numpy(), rtol=1e-5, atol=1e-6)


def test_an_integer_to_a_negative_number_is_refused():
    x, v = lm.constant([2, 3]), lm.Variable(lm.constant([2, 3]))

    def in_place():
        nonlocal v
        v **= -1

    for f in (lambda: x ** -1, lambda: lm.pow(x, -2), lambda: lm.pow(2, -1), lambda: lm.constant(2) ** -1, lambda: lm.function(lambda a: a ** -1)(x), in_place,
              lambda: lm.constant([1], dtype=lm.uint8) ** -1):
        with pytest.raises(lm.errors.InvalidArgument, match="(?s)integer to the power -[12].*astype"):
            f()
    assert float(lm.constant(2.0) ** -1) == 0.5 and float(lm.pow(2.0, -1)) == 0.5 and v.numpy().tolist() == [2, 3]
    assert (x ** lm.constant([-1, 2])).numpy().tolist() == [0, 9] and (lm.constant([1, -1, -1]) ** lm.constant([-3, -3, -2])).numpy().tolist() == [1, -1, 1]


@pytest.mark.parametrize("form", [lambda f: f, lm.function])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integer_division_by_zero_and_far_shifts_are_defined(dtype, form):
    least, bits = np.iinfo(dtype).min, np.iinfo(dtype).bits
    x, zero = lm.constant(np.array([5, least, 0, np.iinfo(dtype).max], dtype)), lm.constant(np.zeros(4, dtype))
    for f in (lm.floor_divide, lm.mod, lm.fmod):
        assert (form(f)(x, zero).numpy() == 0).all()
        assert (form(lambda v: f(v, 0))(x).numpy() == 0).all()
    if least < 0:
        minus = lm.constant(np.full(4, -1, dtype))
        assert form(lm.floor_divide)(x, minus).numpy().tolist() == [-5, least, 0, -np.iinfo(dtype).max] and (form(lm.mod)(x, minus).numpy() == 0).all()
        assert (form(lm.shift_left)(x, minus).numpy() == 0).all() and form(lm.shift_right)(x, minus).numpy().tolist() == [0, -1, 0, 0]
    for far in (bits, bits + 1, 127):
        by = lm.constant(np.full(4, far, dtype))
        assert (form(lm.shift_left)(x, by).numpy() == 0).all()
        assert form(lm.shift_right)(x, by).numpy().tolist() == [0, -1 if least < 0 else 0, 0, 0]
