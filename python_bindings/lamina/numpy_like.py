"""More functions of NumPy, SciPy and PyTorch as compositions of ops: values that are not finite, samples of functions, statistics, shapes."""
from __future__ import annotations

import math
import operator

from . import _border, _core as _c, errors
from .numeric import _GRAIN, _axis, _axis_of, _floating, _fractions, _is_complex, _is_floating, _narrowed, _pair, _part, _tensor, _widened, _without, associative_scan, cumprod

__all__ = [
    "atleast_1d", "atleast_2d", "average", "corrcoef", "cov", "cummax", "cummin", "deg2rad", "digitize", "heaviside", "hstack", "interp", "log_sigmoid", "logcumsumexp", "logit", "logspace", "nan_to_num",
    "nancumprod", "nancumsum", "polyval", "rad2deg", "rot90", "shape", "sinc", "trapezoid", "vander", "vstack", "xlogy",
]


# --- values that are not finite ---

def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    """x with `nan` in place of NaN, posinf of infinity and neginf of -infinity; by default the largest and the least finite number of the dtype. They may be tensors. Complex numbers are
    replaced part by part. Integers and bools are as they were. The gradient of what is replaced is 0."""
    x = _tensor(x)
    if _is_complex(x):
        return _c.as_complex(nan_to_num(_c.as_real(x), nan, posinf, neginf))
    if not _is_floating(x):
        return x
    largest = _GRAIN[x.dtype.name][2]
    y = _c.where(_c.isnan(x), nan, x)
    y = _c.where(_c.equal(x, math.inf), largest if posinf is None else posinf, y)
    return _c.where(_c.equal(x, -math.inf), -largest if neginf is None else neginf, y)


def nancumsum(x, axis: int = -1):
    """Running sums along an axis in which NaN counts as 0."""
    return _c.cumsum(_without(x, 0.0), axis)


def nancumprod(x, axis: int = -1):
    """Running products along an axis in which NaN counts as 1."""
    return cumprod(_without(x, 1.0), axis)


# --- along an axis ---

def _running(name, fn, x, axis):
    x = _tensor(x)
    return associative_scan(fn, x, _axis(name, x, axis)[0])


def cummax(x, axis: int = -1):
    """The largest element so far along an axis; NaN from the first NaN on."""
    return _running("cummax", _c.maximum, x, axis)


def cummin(x, axis: int = -1):
    """The smallest element so far along an axis; NaN from the first NaN on."""
    return _running("cummin", _c.minimum, x, axis)


def logcumsumexp(x, axis: int = -1):
    """log of the running sums of exp(x) along an axis, without overflow."""
    return _running("logcumsumexp", _c.logaddexp, _floating(x), axis)


def trapezoid(y, x=None, dx: float = 1.0, axis: int = -1):
    """The integral of y along an axis by the trapezoidal rule. x: where the values stand, a vector or of y's shape; without it they are dx apart."""
    y = _floating(y)
    at, n = _axis("trapezoid", y, axis)
    if x is None:
        width = dx
    else:
        x = _tensor(x)
        if x.ndim not in (1, y.ndim) or x.shape[at if x.ndim == y.ndim and y.ndim > 1 else 0] != n:
            raise errors.InvalidArgument(f"trapezoid: x has the shape {tuple(x.shape)}, y has {tuple(y.shape)}", why="each value of y along the axis stands at one x", fix="pass a vector of that length, or x of y's shape")
        if x.ndim == 1:
            x = _c.reshape(x, [n if i == at else 1 for i in range(y.ndim)])
        x = _c.astype(x, y.dtype)
        width = _part(x, at, slice(1, None)) - _part(x, at, slice(0, -1))
    wide = _widened((_part(y, at, slice(1, None)) + _part(y, at, slice(0, -1))) * width)
    return _narrowed(_c.sum(wide, at) / 2, y)


# --- samples of functions ---

def interp(x, xp, fp, left=None, right=None):
    """The values at x of the lines between the points (xp, fp), two vectors, xp ascending. Before the first point `left`, by default its value; after the last one `right`. Gradients
    flow to x, xp and fp."""
    x, xp, fp = _floating(x), _floating(xp), _floating(fp)
    if xp.ndim != 1 or fp.ndim != 1 or xp.shape[0] != fp.shape[0] or xp.shape[0] == 0:
        raise errors.InvalidArgument(f"interp: xp has the shape {tuple(xp.shape)}, fp has {tuple(fp.shape)}", why="they are the coordinates of points", fix="pass two vectors of one length, which is not 0")
    xp = _c.astype(xp, x.dtype)
    n = xp.shape[0]
    if n is None:
        raise errors.InvalidArgument("interp: how many points there are is open", why="how lines are found follows from it", fix="give xp a length in the input_signature")
    first, last = fp[0], fp[n - 1]
    if n > 1:
        place = _c.clip(_c.searchsorted(xp, _c.stop_gradient(x), "right") - 1, 0, n - 2)
        x0, x1, y0, y1 = (_c.take(v, place + i, axis=0) for v in (xp, fp) for i in (0, 1))
        flat = _c.equal(x0, x1)
        share = _c.where(flat, 0.0, x - x0) / _c.where(flat, 1.0, x1 - x0)
        y = y0 + (y1 - y0) * _c.astype(share, fp.dtype)
    else:
        y = first + _c.astype(_c.zeros_like(x), fp.dtype)
    y = _c.where(x < xp[0], first if left is None else left, y)
    y = _c.where(_c.greater_equal(x, xp[n - 1]), last, y)
    y = y if right is None else _c.where(x > xp[n - 1], right, y)
    return _c.where(_c.isnan(x), math.nan, y)


def digitize(x, bins, right: bool = False):
    """In which of the bins between ascending or descending edges each element lies: 0 before the first edge, len(bins) after the last. right: a bin contains its upper edge, not its lower one."""
    x, bins = _pair_of(x, bins)
    if bins.ndim != 1 or not bins.shape[0]:
        raise errors.InvalidArgument(f"digitize: bins has the shape {tuple(bins.shape)}", why="a bin lies between two edges", fix="pass a vector of edges in order")
    n = bins.shape[0]
    up = _c.searchsorted(bins, x, "left" if right else "right")
    if n == 1:
        return up
    down = n - _c.searchsorted(_c.flip(bins, 0), x, "left" if right else "right")
    return _c.where(bins[0] <= bins[n - 1], up, down)


def _pair_of(a, b):
    """Both as tensors of one dtype, each with its own shape."""
    a, b = _tensor(a), _tensor(b)
    if a.dtype != b.dtype:
        wide = "float64" if _c.float64 in (a.dtype, b.dtype) or not (_is_floating(a) or _is_floating(b)) else "float32"
        a, b = _c.astype(a, wide), _c.astype(b, wide)
    return a, b


def polyval(p, x):
    """p[0] x^(n-1) + ... + p[n-1] at each x, by Horner's rule. p: the coefficients, the highest power first."""
    p, x = _tensor(p), _tensor(x)
    if p.ndim == 0:
        raise errors.InvalidArgument("polyval: the coefficients have no axis", why="there is one for each power", fix="pass a vector")
    n = _axis("polyval", p, 0)[1]
    y = _c.zeros_like(x) if _is_floating(x) or not _is_floating(p) else _c.zeros_like(x, p.dtype)
    x = _c.astype(x, y.dtype)
    p = _c.astype(p, y.dtype)
    for i in range(n):
        y = y * x + p[i]
    return y


def vander(x, n: int | None = None, increasing: bool = False):
    """The powers of a vector as columns, the highest first: x^(n-1), ..., x, 1. n: how many, by default as many as x has elements. increasing: 1, x, ..., x^(n-1)."""
    x = _tensor(x)
    if x.ndim != 1:
        raise errors.InvalidArgument(f"vander: x has the shape {tuple(x.shape)}", why="each element makes a row", fix="pass a vector")
    n = _axis("vander", x, 0)[1] if n is None else n
    if n < 0:
        raise errors.InvalidArgument(f"vander: {n} columns", why="there is one for each power", fix="pass 0 or more")
    powers = [_c.ones_like(x)] if n else []
    while len(powers) < n:
        powers.append(powers[-1] * x)
    return _c.stack(powers if increasing else powers[::-1], 1) if n else _c.zeros([x.shape[0], 0], x.dtype)


def logspace(start, stop, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype=None):
    """`num` powers of `base` whose exponents are evenly spaced from start to stop, without stop if endpoint is False: float32, or of the dtype."""
    exponents = _c.linspace(start, stop, num, dtype="float64") if endpoint or num < 1 else _c.linspace(start, stop, num + 1, dtype="float64")[:-1]
    return _c.astype(_c.pow(_c.constant(float(base), "float64") if isinstance(base, (int, float)) else _c.astype(_tensor(base), "float64"), exponents), dtype or "float32")


# --- statistics ---

def average(x, axis: int | None = None, weights=None, keepdims: bool = False):
    """The mean of all elements or along an axis, of elements that count by their weights: a tensor of x's shape, or a vector along the axis."""
    x = _fractions(x)
    if weights is None:
        return _c.mean(x, axis, keepdims)
    weights = _c.astype(_tensor(weights), x.dtype)
    if tuple(weights.shape) != tuple(x.shape):
        if axis is None or weights.ndim != 1 or weights.shape[0] != x.shape[_axis("average", x, axis)[0]]:
            raise errors.InvalidArgument(f"average: the weights have the shape {tuple(weights.shape)}, x has {tuple(x.shape)}", why="each element has a weight", fix="pass weights of x's shape, or an axis and a vector of its length")
        at = _axis("average", x, axis)[0]
        weights = _c.reshape(weights, [x.shape[i] if i == at else 1 for i in range(x.ndim)])
    wide, weights = _widened(x), _widened(weights)
    total = _c.sum(weights + _c.zeros_like(wide), axis, keepdims)
    return _narrowed(_c.sum(wide * weights, axis, keepdims) / total, x)


def cov(x, rowvar: bool = True, ddof: float = 1):
    """The covariances of variables, of which x has a row each, or a column with rowvar=False; the number of observations less ddof divides. Of a vector its variance."""
    x = _fractions(x)
    if x.ndim not in (1, 2):
        raise errors.InvalidArgument(f"cov: x has the shape {tuple(x.shape)}", why="it has variables and observations", fix="pass a matrix or a vector")
    wide = _widened(x)
    rows = _c.expand_dims(wide, 0) if x.ndim == 1 else wide if rowvar else _c.swapaxes(wide, 0, 1)
    away = rows - _c.mean(rows, 1, True)
    count = _c.sum(_c.ones_like(_c.abs(away[0])))
    products = _c.matmul(away, _c.conj(_c.swapaxes(away, 0, 1)))
    result = _narrowed(products / _c.astype(_c.maximum(count - ddof, 0.0), products.dtype), x)
    return result[0, 0] if x.ndim == 1 else result


def corrcoef(x, rowvar: bool = True):
    """The correlations of variables, of which x has a row each, or a column with rowvar=False: numbers from -1 to 1, NaN beside a variable that is constant."""
    c = cov(x, rowvar)
    if c.ndim == 0:
        return c / c
    spread = _c.sqrt(_c.abs(_c.diagonal(c)) if _is_complex(c) else _c.diagonal(c))
    both = _c.astype(_c.expand_dims(spread, 1) * _c.expand_dims(spread, 0), c.dtype)
    result = c / both
    return result if _is_complex(c) else _c.clip(result, -1.0, 1.0)


# --- of each element ---

def deg2rad(x):
    """Degrees as radians."""
    return _floating(x) * (math.pi / 180)


def rad2deg(x):
    """Radians as degrees."""
    return _floating(x) * (180 / math.pi)


def heaviside(x, at_zero):
    """0 for negative x, at_zero for 0, 1 for positive x. Its gradient by x is 0."""
    x, at_zero = (_floating(v) for v in _pair(x, at_zero))
    return _c.where(_c.isnan(x), math.nan, _c.where(_c.equal(x, 0), at_zero, _c.where(x < 0, 0.0, _c.ones_like(x))))


def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0."""
    x = _floating(x)
    near = _c.abs(x) < (1e-2 if x.dtype != _c.float64 else 1e-4)  # by its series, whose slopes are right at 0 too
    turn = math.pi * _c.where(near, 1.0, x)
    square = _c.square(math.pi * _c.where(near, x, 0.0))
    return _c.where(near, 1 - square * (1 / 6 - square / 120), _c.sin(turn) / turn)


def logit(x):
    """log(x / (1 - x)), of which sigmoid is the inverse; infinite at 0 and 1, NaN beyond."""
    x = _floating(x)
    return _c.log(x) - _c.log1p(-x)


def log_sigmoid(x):
    """log of sigmoid(x), which does not underflow."""
    return -_c.softplus(-_floating(x))


def xlogy(x, y):
    """x log(y), and 0 where x is 0 unless y is NaN. The gradient by x at 0 is that of a y, log(y); where y is 0 too it is 0."""
    x, y = (_floating(v) for v in _pair(x, y))
    none = _c.logical_and(_c.equal(x, 0), _c.logical_not(_c.isnan(y)))
    both = _c.logical_and(none, y <= 0)
    return _c.where(both, 0.0, x) * _c.log(_c.where(both, 1.0, y))


# --- shapes ---

def shape(x):
    """The lengths of x's axes as an int32 vector. In a traced function those that are open there, None in x.shape, are computed when the graph runs."""
    x = _tensor(x)
    known = tuple(x.shape)
    if None not in known:
        return _c.constant(list(known), "int32") if known else _c.zeros([0], "int32")
    return _c.stack([_length(x, axis) if n is None else _c.constant(n, "int32") for axis, n in enumerate(known)])


def _length(x, axis):
    """An open length, of ones that stand for the elements along the axis."""
    for other in reversed([i for i in range(x.ndim) if i != axis]):
        none = _part(x, other, slice(0, 0))
        x = _c.any(_c.equal(none, none), other)
    return _c.sum(_c.astype(_c.ones_like(x), "int32"))


def _at_least(n, x):
    x = _tensor(x)
    while x.ndim < n:
        x = _c.expand_dims(x, 0)
    return x


def atleast_1d(x):
    """x, or a vector of it if it has no axes."""
    return _at_least(1, x)


def atleast_2d(x):
    """x with axes of length 1 in front, so that it has two at least."""
    return _at_least(2, x)


def vstack(values):
    """The tensors below each other: joined along the first axis, vectors as rows."""
    return _c.concat([_at_least(2, x) for x in values], 0)


def hstack(values):
    """The tensors beside each other: joined along the second axis, vectors along their only one."""
    values = [_at_least(1, x) for x in values]
    return _c.concat(values, min(1, min((x.ndim for x in values), default=1) - 1))


def rot90(x, k: int = 1, axes=(0, 1)):
    """x turned by 90 degrees k times in the plane of two axes, from the first towards the second."""
    x = _tensor(x)
    first, second = (_axis_of("rot90", x, axis) for axis in axes)
    if first == second:
        raise errors.InvalidArgument(f"rot90: the axes are {tuple(axes)}", why="two axes make a plane", fix="pass two different axes")
    k = operator.index(k) % 4
    if k == 2:
        return _c.flip(_c.flip(x, first), second)
    return x if k == 0 else _c.swapaxes(_c.flip(x, second), first, second) if k == 1 else _c.flip(_c.swapaxes(x, first, second), second)


_border.guard(globals())
