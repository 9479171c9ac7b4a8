"""Draws by rejection: a loop draws for all elements until each has accepted a number. lm.random.gamma and lm.random.poisson call them."""
from __future__ import annotations


from . import _core as _c, errors
from ._core import Tensor, Variable
from .numeric import lgamma
from .reporting import check

_draw = _c.random


def gamma(alpha, shape, key):
    alpha, dtype = _parameter(alpha, shape)
    fits = _c.logical_and(alpha > 0, _c.isfinite(alpha))
    _require(fits, "random.gamma: alpha is not a positive number")
    alpha = _c.where(fits, alpha, 1.0)  # the loop ends also where nobody looks at the check
    small = alpha < 1
    d = _c.where(small, alpha + 1.0, alpha) - 1 / 3
    c = 1 / _c.sqrt(9 * d)
    first, second = _keys(key, 2)

    def attempt(state):
        key, accepted, done = state
        key, of_normal, of_uniform = _keys(key, 3)
        x = _draw.normal(alpha.shape, dtype=alpha.dtype, key=of_normal)
        u = _draw.uniform(alpha.shape, dtype=alpha.dtype, key=of_uniform)
        root = 1 + c * x
        v = root * root * root
        positive = v > 0
        safe = _c.where(positive, v, 1.0)
        fits = _c.logical_and(positive, _c.log(1 - u) < 0.5 * x * x + d * (1 - v + _c.log(safe)))
        return key, _c.where(done, accepted, v), _c.logical_or(done, fits)

    _, v, _ = _until_all(attempt, first, alpha)
    power = _c.where(small, (1 - _draw.uniform(alpha.shape, dtype=alpha.dtype, key=second)) ** (1 / alpha), 1.0)
    return _c.astype(_c.stop_gradient(d * v * power), dtype)


def poisson(rate, shape, key):
    rate, _ = _parameter(rate, shape)
    rate = _c.astype(_c.stop_gradient(rate), "float64")
    fits = _c.logical_and(rate >= 0, rate <= 2.0**50)
    _require(fits, "random.poisson: the rate is not a number from 0 to 2^50")
    rate = _c.where(fits, rate, 0.0)
    few = rate < 10
    least = _c.exp(-_c.where(few, rate, 1.0))
    large = _c.where(few, 10.0, rate)
    b = 0.931 + 2.53 * _c.sqrt(large)
    a = -0.059 + 0.02483 * b
    scale, fast, log_large = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2), _c.log(large)

    def attempt(state):
        key, (count, product), done = state
        key, of_u, of_v = _keys(key, 3)
        u = _draw.uniform(rate.shape, dtype="float64", key=of_u)
        product = product * (1 - u)
        v = 1 - _draw.uniform(rate.shape, dtype="float64", key=of_v)
        middle = u - 0.5
        edge = 0.5 - _c.abs(middle)
        apart = edge > 0
        edge = _c.where(apart, edge, 0.5)
        k = _c.floor((2 * a / edge + b) * middle + large + 0.43)
        below = _c.log(v * scale / (a / _c.square(edge) + b)) <= k * log_large - large - lgamma(_c.maximum(k, 0.0) + 1)
        inside = _c.logical_and(apart, _c.logical_and(k >= 0, _c.logical_not(_c.logical_and(edge < 0.013, v > edge))))
        accepted = _c.logical_or(_c.logical_and(edge >= 0.07, v <= fast), _c.logical_and(inside, below))
        ends = _c.where(few, product <= least, accepted)
        now = _c.where(few, _c.where(ends, count, count + 1), k)
        return key, (_c.where(done, count, now), product), _c.logical_or(done, ends)

    zero = _c.zeros_like(rate)
    _, (count, _), _ = _until_all(attempt, _keys(key, 1)[0], (zero, zero + 1))
    return _c.astype(count, "int64")


def _parameter(x, shape):
    """(a parameter as a tensor of the draw's shape, in float32 or float64; the dtype of the result)."""
    x = x.read() if isinstance(x, Variable) else x if isinstance(x, Tensor) else _c.constant(x)
    x = x if x.dtype.is_floating else _c.astype(x, "float32")
    dtype = x.dtype
    x = _c.astype(x, "float32") if dtype.itemsize == 2 else x
    return x if shape is None else _c.broadcast_to(x, shape), dtype


def _require(fits, what):
    if not _c.executing_eagerly():
        return check(_c.all(fits), what)
    if not _c.all(fits):
        raise errors.AssertionFailed(what, why="there is no such distribution", fix="clip the parameter, or look at where it comes from")


def _keys(key, count):
    """Keys of their own: of a key, or of the generator's next number."""
    key = _draw.integers(-2**62, 2**62, (2,), "int64") if key is None else key
    new = _draw.split(key, count)
    return [new[i] for i in range(count)]


def _until_all(attempt, key, like):
    """The state (key, like, done) after attempts until all elements are done."""
    first = like[0] if isinstance(like, tuple) else like
    state = (key, like, _c.not_equal(first, first))
    return _c.while_loop(lambda state: _c.logical_not(_c.all(state[2])), attempt, state)
