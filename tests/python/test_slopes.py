"""Every function at kinks, limits and zeros, at infinities and at numbers whose squares overflow or underflow: values, gradients and
second derivatives.

A derivative at a kink is one of the one-sided ones or their mean. A smooth function's derivative is finite where its limit is.
"""
import math
import re

import numpy as np
import pytest

import lamina as lm

LOG2, LOG10 = math.log(2), math.log(10)
POINTS = [0.0, -0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, 8.9, 20.0, 40.0, 87.0, 88.5, 100.0, 104.0, 1e3, 1e4, 1e9, 1e20, 3e38, math.inf]
POINTS += [-p for p in POINTS[2:]] + [1e-3, -1e-3, 1e-8, -1e-8, 1e-20, -1e-20, 1e-30, -1e-30, 1e-38, -1e-38, 1e-42, -1e-42, 1 - 2**-20, 2**-20 - 1, 1 + 2**-20]


def wide(f):
    """f on long doubles, or a math function on doubles, without warnings; NaN where undefined."""
    def run(x):
        with np.errstate(all="ignore"):
            return f(np.asarray(x, np.longdouble))
    return run


def each(f):
    def one(x):
        try:
            return f(float(x))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan
    return np.vectorize(one, otypes=[np.longdouble])


def sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def step(x, left=0.0, right=1.0):
    return np.where(x > 0, right, left)


def tail(x):  # the normal distribution function at x
    return each(lambda v: math.erfc(-v / math.sqrt(2)) / 2)(x)


def density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.longdouble(np.pi))


def limit(f, at_minus, at_plus):
    """f with its limits at the infinities."""
    return lambda x: np.where(x == np.inf, at_plus, np.where(x == -np.inf, at_minus, f(np.where(np.isinf(x), 1, x))))


A, S = np.longdouble(1.6732632423543772), np.longdouble(1.0507009873554805)
K, C3 = np.longdouble(1.5957691216057308), np.longdouble(0.07135481627260025)


def gelu_tanh_slope(x):
    x = np.clip(x, -1000, 1000)
    s = sigmoid(x * (K + C3 * x * x))
    return s + x * s * sigmoid(-x * (K + C3 * x * x)) * (K + 3 * C3 * x * x)


# name: (the function in NumPy, its slope, its second derivative or None). At a kink the slope is a tuple of allowed values.
# If a slope is computed from a rounded result, `near` covers that rounding.
SMOOTH = {
    "acos": (np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), lambda x: -x / ((1 - x) * (1 + x)) ** 1.5),
    "acosh": (np.arccosh, limit(lambda x: np.where(x < 1, np.nan, 1 / np.sqrt(x - 1) / np.sqrt(x + 1)), np.nan, 0), None),
    "asin": (np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), lambda x: x / ((1 - x) * (1 + x)) ** 1.5),
    "asinh": (np.arcsinh, lambda x: 1 / np.hypot(1, x), lambda x: -x / np.hypot(1, x) ** 3),
    "atan": (np.arctan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "atanh": (np.arctanh, lambda x: np.where(np.abs(x) > 1, np.nan, 1 / ((1 - x) * (1 + x))), None),
    "cbrt": (np.cbrt, lambda x: 1 / (3 * np.cbrt(x) ** 2), None),
    "cos": (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)),
    "cosh": (np.cosh, np.sinh, np.cosh),
    "erf": (each(math.erf), lambda x: 2 / np.sqrt(np.longdouble(np.pi)) * np.exp(-x * x), None),
    "erfc": (each(math.erfc), lambda x: -2 / np.sqrt(np.longdouble(np.pi)) * np.exp(-x * x), None),
    "exp": (np.exp, np.exp, np.exp),
    "exp2": (np.exp2, lambda x: np.exp2(x) * LOG2, lambda x: np.exp2(x) * LOG2**2),
    "expm1": (np.expm1, np.exp, np.exp),
    "gelu": (limit(lambda x: x * tail(x), 0, np.inf), limit(lambda x: tail(x) + x * density(x), 0, 1), limit(lambda x: (2 - x * x) * density(x), 0, 0)),
    "log": (np.log, lambda x: 1 / x, lambda x: -1 / x**2),
    "log10": (np.log10, lambda x: 1 / (x * LOG10), None),
    "log1p": (np.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "log2": (np.log2, lambda x: 1 / (x * LOG2), None),
    "neg": (np.negative, lambda x: -np.ones_like(x), np.zeros_like),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: -0.5 / (np.sqrt(x) * x), None),
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x), lambda x: sigmoid(x) * sigmoid(-x) * (1 - 2 * sigmoid(x))),
    "silu": (limit(lambda x: x * sigmoid(x), 0, np.inf), limit(lambda x: sigmoid(x) * (1 + x * sigmoid(-x)), 0, 1),
             limit(lambda x: sigmoid(x) * sigmoid(-x) * (2 + x * (1 - 2 * sigmoid(x))), 0, 0)),
    "sin": (np.sin, np.cos, lambda x: -np.sin(x)),
    "sinh": (np.sinh, np.cosh, np.sinh),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 / x**1.5),
    "square": (np.square, lambda x: 2 * x, lambda x: 2 * np.ones_like(x)),
    "tan": (np.tan, lambda x: 1 + np.tan(x) ** 2, None),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "gelu_tanh": (limit(lambda x: x * sigmoid(x * (K + C3 * x * x)), 0, np.inf), gelu_tanh_slope, None),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0))),
            lambda x: step(x, np.exp(np.minimum(x, 0)), 0)),
    "elu of alpha 3": (lambda x: np.where(x > 0, x, 3 * np.expm1(np.minimum(x, 0))),
                       lambda x: np.where(x > 0, 1, 3 * np.exp(np.minimum(x, 0))), None),
    "elu of alpha -1": (lambda x: np.where(x > 0, x, -np.expm1(np.minimum(x, 0))), lambda x: np.where(x > 0, 1, -np.exp(np.minimum(x, 0))), None),
    "selu": (lambda x: S * np.where(x > 0, x, A * np.expm1(np.minimum(x, 0))), lambda x: S * np.where(x > 0, 1, A * np.exp(np.minimum(x, 0))), None),
    "power 3": (lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x),
    "power 0": (lambda x: np.ones_like(x), lambda x: np.zeros_like(x), np.zeros_like),
    "power 1": (lambda x: x, lambda x: np.ones_like(x), np.zeros_like),
    "power -1": (lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "atan2(x, 1)": (np.arctan, lambda x: 1 / (1 + x * x), None),
    "atan2(1, x)": (lambda x: np.arctan2(1, x), lambda x: -1 / (1 + x * x), None),
    "atan2(x, x)": (lambda x: np.arctan2(x, x), lambda x: np.where(np.abs(x) < 1e-37, np.nan, 0.0), None),  # two slopes too large for float32
    "logaddexp(x, 1)": (lambda x: np.logaddexp(x, 1), lambda x: sigmoid(x - 1), None),
    "x / 3": (lambda x: x / 3, lambda x: np.ones_like(x) / 3, np.zeros_like),
    "2 ** x": (np.exp2, lambda x: np.exp2(x) * LOG2, lambda x: np.exp2(x) * LOG2**2),
    "x ** x": (lambda x: np.where(x < 0, np.nan, x**x), lambda x: np.where(x < 1e-37, np.nan, x**x * (1 + np.log(x))), None),  # x^(x - 1) as well
}
FUNCTIONS = {
    "gelu_tanh": lambda x: lm.gelu(x, approximate=True), "elu of alpha 3": lambda x: lm.elu(x, 3.0), "elu of alpha -1": lambda x: lm.elu(x, -1.0),
    "power 3": lambda x: x**3.0, "power 0": lambda x: x**0.0, "power 1": lambda x: x**1.0, "power -1": lambda x: x**-1.0,
    "atan2(x, 1)": lambda x: lm.atan2(x, lm.ones_like(x)), "atan2(1, x)": lambda x: lm.atan2(lm.ones_like(x), x), "atan2(x, x)": lambda x: lm.atan2(x, x),
    "logaddexp(x, 1)": lambda x: lm.logaddexp(x, 1.0), "x / 3": lambda x: x / 3.0, "2 ** x": lambda x: 2.0**x, "x ** x": lambda x: x**x,
}
# Error of slopes in roundings of 1, if computed from a rounded result.
FROM_RESULTS = {"sigmoid": 2, "tanh": 3}
# Second derivatives of nearly constant functions: sums with cancellation.
SECONDS = {"acos": 4, "asin": 4, "sigmoid": 4, "tanh": 8, "softplus": 4, "silu": 8, "gelu": 8, "asinh": 4}
# Accuracy lost for large arguments: e^(x^2) and the like, x^y.
DIGITS = {"erf": 400, "erfc": 400, "gelu": 400, "gelu_tanh": 400, "x ** x": 400, "cosh": 60, "sinh": 60, "tan": 40, "elu": 8, "softplus": 20}


def function_of(name):
    return FUNCTIONS.get(name) or getattr(lm, name)


def slope_of(f):
    return lm.grad(lambda x: lm.sum(f(x)))


def compare(name, x, got, wanted, ulps, near):
    """Equal within `ulps` roundings of the number itself and `near` roundings of 1; numbers out of the type's range become infinite or 0."""
    info = np.finfo(x.dtype)
    with np.errstate(all="ignore"):
        rounded, exists = wanted.astype(x.dtype), ~np.isnan(wanted.astype("float64"))
        allowed = ulps * info.eps * np.abs(wanted) + near * info.eps + 4 * info.smallest_subnormal
        right = np.abs(got.astype(np.longdouble) - wanted) <= allowed
    right |= got == rounded
    right |= ~exists  # no derivative there: anything
    right |= np.isinf(got) & (np.sign(got) == np.sign(wanted)) & (np.abs(wanted) > info.max * (1 - ulps * info.eps))
    # Processors may flush subnormal numbers.
    right |= (np.abs(wanted) < info.tiny) & (np.abs(got) <= 2 * info.tiny)
    assert right.all(), f"{name} {x.dtype}: x, got, wanted\n" + "\n".join(f"{a!r} {b!r} {c!r}" for a, b, c in zip(x[~right], got[~right], wanted[~right]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(SMOOTH))
def test_values_and_slopes_of_smooth_functions(name, dtype):
    value, slope, second = SMOOTH[name]
    with np.errstate(all="ignore"):
        x = np.unique(np.asarray(POINTS).astype(dtype))
    x = np.append(x, np.asarray([-0.0], dtype))
    f, digits = function_of(name), DIGITS.get(name, 6)
    t = lm.constant(x)
    circular = name in ("sin", "cos", "tan")
    usable = np.abs(x) < 1e4 if circular else np.ones_like(x, bool)
    compare(name, x[usable], f(t).numpy()[usable], wide(value)(x)[usable], digits, 0 if name != "acosh" else 4)
    eager = slope_of(f)(t).numpy()
    compare("slope of " + name, x[usable], eager[usable], wide(slope)(x)[usable], digits + 2, FROM_RESULTS.get(name, 0))
    traced = lm.function(slope_of(f))(t).numpy()
    np.testing.assert_array_equal(traced, eager)
    if second is not None:
        wanted = wide(second)(x)
        inside = usable & (np.abs(x) <= 1e20) & np.isfinite(wanted) & ((np.abs(x) > 1e-18) | (x == 0) if name == "power 0" else True)
        got = slope_of(slope_of(f))(t).numpy()
        compare("second derivative of " + name, x[inside], got[inside], wanted[inside], 4 * digits, SECONDS.get(name, 0))


def test_slopes_do_not_depend_on_where_a_nan_lies():
    for name in SMOOTH:
        y = slope_of(function_of(name))(lm.constant([0.5, math.nan, 0.5])).numpy()
        assert y[0] == y[2] or np.isnan(y[[0, 2]]).all(), name


# --- kinks: one of the one-sided slopes, or their mean ---

V = np.array
MASK = V([True, False, True])
LABELS = V([0, 2], "int32")


# name, function of float64 tensors to a number, points to differentiate at (each argument)
KINKS = [
    ("abs", lambda x: lm.sum(lm.abs(x)), [0.0, -0.0, 1.0, -1.0]),
    ("relu", lambda x: lm.sum(lm.relu(x)), [0.0, -0.0, 1.0, -1.0]),
    ("leaky_relu", lambda x: lm.sum(lm.leaky_relu(x, 0.1)), [0.0, -0.0, 1.0, -1.0]),
    ("leaky_relu, negative slope", lambda x: lm.sum(lm.leaky_relu(x, -0.1)), [0.0, -0.0, 1.0, -1.0]),
    ("leaky_relu by its slope", lambda x, s: lm.sum(lm.leaky_relu(x, s)), [0.0, 1.0, -1.0], [0.0]),
    ("elu", lambda x: lm.sum(lm.elu(x)), [0.0, -0.0]),
    ("elu by alpha", lambda x, a: lm.sum(lm.elu(x, a)), [0.0, 1.0, -1.0], [0.5]),
    ("selu", lambda x: lm.sum(lm.selu(x)), [0.0, -0.0]),
    ("hard_sigmoid", lambda x: lm.sum(lm.hard_sigmoid(x)), [-3.0, 3.0, 0.0, 4.0, -4.0]),
    ("clip", lambda x: lm.sum(lm.clip(x, -1.0, 2.0)), [-1.0, 2.0, 0.0, 3.0, -3.0]),
    ("clip between equal bounds", lambda x: lm.sum(lm.clip(x, 1.0, 1.0)), [0.0, 1.0, 2.0]),
    ("clip between crossed bounds", lambda x: lm.sum(lm.clip(x, 2.0, 1.0)), [0.0, 1.0, 1.5, 2.0, 3.0]),
    ("clip by its bounds", lambda x, a, b: lm.sum(lm.clip(x, a, b)), [-1.0, 2.0, 0.0, 3.0], [-1.0] * 4, [2.0] * 4),
    ("clip by equal bounds", lambda x, a, b: lm.sum(lm.clip(x, a, b)), [1.0], [1.0], [1.0]),
    ("maximum", lambda a, b: lm.sum(lm.maximum(a, b)), [1.0, 2.0, 0.0], [1.0, 1.0, -0.0]),
    ("minimum", lambda a, b: lm.sum(lm.minimum(a, b)), [1.0, 2.0, 0.0], [1.0, 1.0, -0.0]),
    ("maximum of a number with itself", lambda a: lm.sum(lm.maximum(a, a)), [1.0, 2.0, 0.0]),
    ("floor, ceil, round, trunc, sign between whole numbers", lambda x: lm.sum(lm.floor(x) + lm.ceil(x) + lm.round(x) + lm.trunc(x) + lm.sign(x)), [0.3, -1.7]),
    ("mod", lambda a, b: lm.sum(lm.mod(a, b)), [5.5, -5.5, 0.7], [2.0, 2.0, -3.0]),
    ("fmod", lambda a, b: lm.sum(lm.fmod(a, b)), [5.5, -5.5, 0.7], [2.0, 2.0, -3.0]),
    ("where", lambda a, b: lm.sum(lm.where(lm.constant(MASK), a, b)), [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
    ("pow of 0", lambda a, b: lm.sum(lm.pow(a, b)), [0.0, 0.0, 0.0], [2.0, 1.0, 3.0]),
    ("max of equal elements", lambda x: lm.max(x), [1.0, 1.0, 0.0]),
    ("min of equal elements", lambda x: lm.min(x), [1.0, 1.0, 2.0]),
    ("max of all equal rows", lambda x: lm.sum(lm.max(lm.reshape(x, (2, 2)), 1)), [1.0, 1.0, 0.0, 0.0]),
    ("prod with a zero", lambda x: lm.prod(x), [2.0, 0.0, 3.0]),
    ("prod with zeros", lambda x: lm.prod(x), [2.0, 0.0, 0.0]),
    ("sort of equal elements", lambda x: lm.sum(lm.sort(x) * lm.constant([1.0, 2.0, 3.0], dtype=lm.float64)), [1.0, 0.0, 5.0]),
    ("std of equal elements", lambda x: lm.std(x), [2.0, 2.0, 2.0]),
    ("var of equal elements", lambda x: lm.var(x), [2.0, 2.0, 2.0]),
    ("std of one row that is constant", lambda x: lm.sum(lm.std(lm.reshape(x, (2, 2)), 1)), [2.0, 2.0, 1.0, 3.0]),
    *[(f"norm {p} of zeros", lambda x, p=p: lm.norm(x, p), [0.0, 0.0]) for p in (1, 1.5, 2, 3, math.inf)],
    *[(f"norm {p} with a zero", lambda x, p=p: lm.norm(x, p), [0.0, 3.0, -4.0]) for p in (1, 1.5, 2, 3, math.inf, -math.inf)],
    ("norm inf of equal sizes", lambda x: lm.norm(x, math.inf), [3.0, -3.0, 1.0]),
    ("norm of each", lambda x: lm.sum(lm.norm(x, 2, axis=())), [0.0, 3.0, -4.0]),
    ("logsumexp of equal elements", lambda x: lm.logsumexp(x), [1.0, 1.0]),
    ("softmax of equal elements", lambda x: lm.sum(lm.softmax(x) * lm.constant([1.0, 2.0], dtype=lm.float64)), [1.0, 1.0]),
    ("layer_norm of a constant row", lambda x: lm.sum(lm.layer_norm(x) * lm.constant([1.0, 2.0, 4.0], dtype=lm.float64)), [1.0, 1.0, 1.0]),
    ("max_pool2d of equal elements", lambda x: lm.sum(lm.max_pool2d(lm.reshape(x, (1, 2, 2, 1)))), [1.0, 1.0, 0.0, 1.0]),
    ("top_k of equal elements", lambda x: lm.sum(lm.top_k(x, 1)[0]), [1.0, 1.0, 0.0]),
    ("mean_squared_error at its end", lambda p: lm.losses.MeanSquaredError()(V([1.0, 2.0]), p), [1.0, 2.0]),
    ("mean_absolute_error at its kink", lambda p: lm.losses.MeanAbsoluteError()(V([1.0, 2.0]), p), [1.0, 3.0]),
    ("huber at its end and its kinks", lambda p: lm.losses.Huber()(V([0.0] * 5), p), [0.0, 1.0, -1.0, 2.0, -2.0]),
    ("hinge at its kink", lambda p: lm.losses.Hinge()(V([1.0, -1.0, 1.0]), p), [1.0, -1.0, 2.0]),
    ("binary_cross_entropy of logits", lambda p: lm.losses.BinaryCrossEntropy(from_logits=True)(V([1.0, 0.0, 0.3]), p), [0.0, 0.0, -0.0]),
    ("binary_cross_entropy of far logits", lambda p: lm.losses.BinaryCrossEntropy(from_logits=True)(V([1.0, 0.0, 0.3]), p), [100.0, 100.0, -100.0]),
    ("binary_cross_entropy by targets", lambda t, p: lm.losses.BinaryCrossEntropy(from_logits=True)(t, p), [0.0, 1.0, 0.5], [0.0, 0.0, 2.0]),
    ("binary_cross_entropy of probabilities", lambda p: lm.losses.BinaryCrossEntropy()(V([1.0, 0.0]), p), [0.5, 0.25]),
    ("categorical_cross_entropy of logits",
     lambda p: lm.losses.CategoricalCrossEntropy(from_logits=True)(V([[1.0, 0.0]]), lm.reshape(p, (1, 2))), [0.0, 0.0]),
    ("sparse_cross_entropy of logits", lambda p: lm.losses.SparseCrossEntropy(from_logits=True)(LABELS, lm.reshape(p, (2, 3))), [0.0] * 6),
    ("kl_divergence of equal rows", lambda p: lm.losses.KLDivergence()(V([[0.5, 0.5]]), lm.reshape(p, (1, 2))), [0.5, 0.5]),
    ("cosine_similarity of equal rows", lambda p: lm.losses.CosineSimilarity()(V([[3.0, 4.0]]), lm.reshape(p, (1, 2))), [3.0, 4.0]),
    ("cosine_similarity to a row of zeros", lambda p: lm.losses.CosineSimilarity()(V([[0.0, 0.0]]), lm.reshape(p, (1, 2))), [3.0, 4.0]),
]


def one_sided(f, arguments, which, place, side, h=1e-6):
    def at(d):
        moved = [list(a) for a in arguments]
        moved[which][place] += d
        return float(f(*[lm.constant(a, dtype=lm.float64) for a in moved]))
    return side * (at(side * h) - at(0)) / h


@pytest.mark.parametrize("case", KINKS, ids=lambda case: case[0].replace(" ", "_"))
def test_a_slope_at_a_kink_is_one_sided_or_the_mean(case):
    name, f, *arguments = case
    at = [lm.constant(a, dtype=lm.float64) for a in arguments]
    for made in (f, lm.function(f)):
        gradients = lm.grad(made, argnums=tuple(range(len(at))))(*at)
        narrow = lm.grad(made, argnums=tuple(range(len(at))))(*[lm.constant(a, dtype=lm.float32) for a in arguments]) if "max_pool" not in name and all(
            word not in name for word in ("sort", "softmax", "layer_norm")) else gradients
        for which, (gradient, single) in enumerate(zip(gradients, narrow)):
            g = gradient.numpy()
            np.testing.assert_allclose(single.numpy(), g, rtol=1e-5, atol=1e-6, err_msg=name)
            for place in range(len(arguments[which])):
                left, right = (one_sided(f, arguments, which, place, side) for side in (-1, 1))
                allowed = [left, right, (left + right) / 2]
                if name.startswith(("max of", "min of", "max_pool", "top_k")):  # ties share
                    allowed += [(left + right) * n / 2 for n in (1 / 3, 2 / 3)] + [right + left if 0 in (round(left, 3), round(right, 3)) else left]
                assert np.isfinite(g[place]) and min(abs(g[place] - a) for a in allowed) < 1e-4, (name, which, place, g[place], left, right)


# Functions without kinks or limits.
ELSEWHERE = {
    "linear": "add sub mul conv1d conv2d conv2d_transpose avg_pool2d matmul dot vdot inner outer tensordot einsum mean cumsum batch_norm moments",
    "moves elements": "broadcast_to concat diag diagonal expand_dims flatten flip gather gather_nd meshgrid moveaxis pad ravel repeat roll scatter_add scatter_nd split "
                      "squeeze stack swapaxes take take_along_axis tile transpose tril triu stop_gradient",
    "of whole numbers and bools": "all any argmax argmin argsort bitwise_and bitwise_not bitwise_or bitwise_xor count_nonzero equal greater greater_equal isfinite isnan less "
                                  "less_equal logical_and logical_not logical_or logical_xor nonzero not_equal one_hot searchsorted shift_left shift_right unique",
    "its gradient is 0": "floor_divide",
    "makes numbers": "arange astype constant dtype eye full full_like linspace ones range zeros zeros_like dropout",
    "runs what it is given": "check check_numerics checkpoint cond custom_gradient fori_loop hessian inspect jacobian jvp print scan switch value_and_grad vjp vmap while_loop "
                             "per_model from_dlpack device device_of limits memory_stats synchronize executing_eagerly export_c quantize load load_metadata load_tensors load_weights save save_tensors save_weights",
    "is made of other functions: tests of test_numeric.py": "allclose associative_scan bincount broadcast_arrays copysign cross cumprod diff digamma erfinv histogram hypot isclose "
        "isin kron lgamma matrix_transpose median nanmax nanmean nanmin nanprod nanstd nansum nanvar nextafter quantile signbit "
        "trace unstack vecdot",
    "is made of other functions: tests of test_numpy_like.py": "atleast_1d atleast_2d average corrcoef cov cummax cummin deg2rad digitize heaviside hstack interp log_sigmoid logcumsumexp "
        "logit logspace nan_to_num nancumprod nancumsum polyval rad2deg rot90 shape sinc trapezoid vander vstack xlogy",
    "is of complex numbers: test_complex.py": "angle as_complex as_real complex conj imag real",
    "the same as another": "remainder div",
}


def test_every_public_function_is_in_a_table():
    with open(__file__, encoding="utf-8") as f:
        text = f.read()
    named = set(re.findall(r"lm\.(\w+)", text)) | set(SMOOTH) | set(" ".join(ELSEWHERE.values()).split())
    functions = {n for n in dir(lm) if n[0].islower() and callable(getattr(lm, n)) and not isinstance(getattr(lm, n), type) and type(getattr(lm, n)) is not lm.DType}
    assert functions <= named, sorted(functions - named)


# --- zeros, masks and lengths that give finite numbers where limits exist ---

def gradient(f, x, dtype="float32"):
    return lm.grad(f)(lm.constant(np.asarray(x, dtype))).numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_have_no_slope_along_an_element_that_is_zero(dtype):
    for p in (-2, -1, 0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf):
        assert (gradient(lambda x: lm.norm(x, p), [0.0, 0.0], dtype) == 0).all(), p
        g = gradient(lambda x: lm.norm(x, p), [0.0, 2.0, -3.0], dtype)
        assert np.isfinite(g).all() and g[0] == 0, p
    assert float(lm.norm(lm.constant([math.inf, 1.0]), -1)) == 1 and float(lm.norm(lm.constant([math.inf]), -1)) == math.inf
    np.testing.assert_allclose(gradient(lambda x: lm.norm(x, 0.5), [1.0, 4.0], dtype), [3.0, 1.5], rtol=1e-5)


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [5.0], [0.0], []])
def test_prod_of_an_open_length_has_the_gradient_of_a_known_one(x):
    x = np.asarray(x, "float32")
    known = lm.grad(lm.prod)(lm.constant(x)).numpy()
    open_length = lm.function(lm.grad(lm.prod), input_signature=[lm.TensorSpec([None], lm.float32)])
    np.testing.assert_allclose(open_length(lm.constant(x)).numpy(), known, rtol=1e-6)
    rows = lm.function(lambda v: lm.grad(lambda u: lm.sum(lm.prod(u, 1)))(v), input_signature=[lm.TensorSpec([None, None], lm.float32)])
    np.testing.assert_allclose(rows(lm.constant(np.stack([x, x + 1]))).numpy()[0], known, rtol=1e-6)


def test_masks_of_minus_infinity_keep_gradients_finite():
    x = [1.0, -math.inf, 2.0]
    p = np.exp(1.0) / (np.exp(1.0) + np.exp(2.0))
    for f in (lm.logsumexp, lambda v: lm.sum(lm.log_softmax(v)[::2]) * -0.5 + lm.sum(lm.constant([0.5, 0.0, 0.5]) * lm.where(lm.isinf(v), 0.0, v))):
        np.testing.assert_allclose(gradient(f, x), [p, 0, 1 - p], rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda v: lm.softmax(v)[0], x), [p * (1 - p), 0, -p * (1 - p)], rtol=1e-5)
    nothing = [-math.inf, -math.inf]
    assert float(lm.logsumexp(lm.constant(nothing))) == -math.inf and (gradient(lm.logsumexp, nothing) == 0).all()
    assert float(lm.logsumexp(lm.constant([math.inf, 0.0]))) == math.inf and float(lm.logsumexp(lm.zeros((0,)))) == -math.inf
    assert (gradient(lambda v: lm.logaddexp(v[0], v[1]), nothing) == 0.5).all()


def test_an_impossible_class_that_is_not_the_target_costs_nothing():
    targets, logits = np.array([[1.0, 0.0, 0.0]], "float32"), [[1.0, -math.inf, 2.0]]
    loss = lambda z: lm.losses.CategoricalCrossEntropy(from_logits=True)(targets, z)
    wanted = math.log(math.exp(1) + math.exp(2)) - 1
    assert float(loss(lm.constant(logits))) == pytest.approx(wanted, rel=1e-6)
    p = np.exp(1.0) / (np.exp(1.0) + np.exp(2.0))
    np.testing.assert_allclose(gradient(loss, logits), [[p - 1, 0, 1 - p]], rtol=1e-5)
    by_target = lm.grad(lambda t: lm.losses.CategoricalCrossEntropy(from_logits=True)(t, lm.constant([[1.0, 2.0]])))(lm.constant([[1.0, 0.0]])).numpy()
    np.testing.assert_allclose(by_target, [[math.log(1 + math.e), math.log(1 + 1 / math.e)]], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_of_certain_predictions_are_finite(dtype):
    eps = 1e-7
    for t in (0.0, 1.0):
        for p in (0.0, 1.0):
            loss = lambda v: lm.losses.BinaryCrossEntropy()(np.asarray([t], dtype), v)
            assert float(loss(lm.constant(np.asarray([p], dtype)))) == pytest.approx(-math.log(eps) if t != p else eps, rel=0.3)
            assert np.isfinite(gradient(loss, [p], dtype)).all()
    rows = np.asarray([[1.0, 0.0], [0.0, 1.0]], dtype)
    for loss in (lm.losses.CategoricalCrossEntropy(), lm.losses.KLDivergence(), lm.losses.CosineSimilarity()):
        for t in (rows, rows[::-1].copy()):
            assert math.isfinite(float(loss(t, lm.constant(rows)))) and np.isfinite(gradient(lambda v: loss(t, v), rows, dtype)).all(), loss.name
    assert np.isfinite(gradient(lambda v: lm.losses.CosineSimilarity()(rows, v), np.zeros((2, 2)), dtype)).all()


def test_binary_cross_entropy_keeps_the_digits_of_a_small_loss():
    for logit, target in ((20.0, 1.0), (-20.0, 0.0)):
        f = lambda z: lm.losses.BinaryCrossEntropy(from_logits=True)(np.array([target], "float32"), z)
        assert float(f(lm.constant([logit]))) == pytest.approx(math.exp(-20), rel=1e-5)
        assert gradient(f, [logit])[0] == pytest.approx(math.copysign(math.exp(-20), -logit if target else 1), rel=1e-5)
    second = lm.grad(lambda z: lm.sum(lm.grad(lambda v: lm.losses.BinaryCrossEntropy(from_logits=True)(np.array([1.0], "float32"), v))(z)))
    assert float(second(lm.constant([0.0]))[0]) == pytest.approx(0.25, rel=1e-6)


def test_huber_is_smooth_where_the_error_is_zero():
    second = lm.grad(lambda p: lm.sum(lm.grad(lambda v: lm.losses.Huber()(np.zeros(1, "float32"), v))(p)))
    assert float(second(lm.constant([0.0]))[0]) == 1 and float(second(lm.constant([0.5]))[0]) == 1 and float(second(lm.constant([2.0]))[0]) == 0
    assert gradient(lambda p: lm.losses.Huber()(np.zeros(1, "float32"), p), [3e38])[0] == 1


@pytest.mark.parametrize("form", [lambda f: f, lm.function])
def test_var_of_too_few_elements_is_numpys(form):
    x = np.array([1.0, 2.0], "float32")
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        for ddof in (0, 1, 2, 3):
            for ours, theirs in ((lm.var, np.var), (lm.std, np.std)):
                np.testing.assert_allclose(form(lambda v: ours(v, ddof=ddof))(lm.constant(x)).numpy(), theirs(x, ddof=ddof))
        assert np.isnan(lm.var(lm.constant([1.0]), ddof=1).numpy()) and np.isnan(gradient(lambda v: lm.var(v, ddof=1), [1.0])).all()
        assert not np.isfinite(gradient(lambda v: lm.var(v, ddof=3), x)).any()
    open_length = lm.function(lambda v: lm.var(v, ddof=3), input_signature=[lm.TensorSpec([None], lm.float32)])
    assert np.isposinf(open_length(lm.constant(x)).numpy()) and float(open_length(lm.constant([1.0, 2.0, 3.0, 4.0]))) == 5


def test_reductions_of_nothing():
    empty = lm.zeros((2, 0))
    assert np.isnan(lm.mean(empty, 1).numpy()).all() and np.isnan(lm.var(empty, 1).numpy()).all() and lm.mean(empty, 0).shape == (0,)
    assert (lm.sum(empty, 1).numpy() == 0).all() and (lm.prod(empty, 1).numpy() == 1).all() and lm.all(empty, 1).numpy().all()
    assert not lm.any(empty, 1).numpy().any() and (lm.norm(empty, axis=1).numpy() == 0).all() and lm.max(empty, 0).shape == (0,)
    for f in (lm.max, lm.min):
        with pytest.raises(lm.errors.InvalidArgument, match="nothing to choose from"):
            f(empty, 1)
    for f in (lm.mean, lm.sum, lm.prod, lm.var, lm.std, lm.norm):
        assert lm.grad(lambda v: lm.sum(f(v, axis=1)))(empty).shape == (2, 0)


# --- the same activations inside layers ---

ACTIVATIONS = ["relu", "tanh", "sigmoid", "softplus", "gelu", "gelu_tanh", "silu", "elu", "selu", "leaky_relu", "hard_sigmoid", "exponential"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_layer_has_its_activations_values_and_slopes(activation):
    """A layer with weight 1 and bias 0: traced it is one fused step with its gradients, and must equal the function."""
    normal = 4 * np.finfo("float32").tiny  # products may take smaller numbers as 0
    points = np.asarray([[p] for p in POINTS if abs(p) <= 80 and (p == 0 or abs(p) >= normal)], "float32")
    f = {"gelu_tanh": lambda x: lm.gelu(x, approximate=True), "exponential": lm.exp}.get(activation) or getattr(lm, activation)
    first = lm.nn.Dense(1, activation, kernel_initializer="ones")
    second = lm.nn.Dense(1, kernel_initializer="ones", use_bias=False)  # its gradient arrives as a product, into which slopes are fused
    x = lm.constant(points)
    second(first(x))

    def run(x):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = second(first(x))
            cost = lm.sum(y)
        return (y, *tape.gradient(cost, [x, first.kernel, first.bias]))

    y, dx, dkernel, dbias = (t.numpy() for t in lm.function(run)(x))
    slope = slope_of(f)(x).numpy()
    np.testing.assert_array_equal(y, f(x).numpy())
    np.testing.assert_array_equal(dx, slope)
    np.testing.assert_allclose(dkernel[0, 0], np.sum(slope.astype("float64") * points), rtol=1e-5)
    np.testing.assert_allclose(dbias[0], np.sum(slope.astype("float64")), rtol=1e-5)
    for a, b in zip(run(x), lm.function(run)(x)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
