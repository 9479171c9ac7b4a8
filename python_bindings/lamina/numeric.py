"""Functions of NumPy and SciPy as compositions of ops: differentiable where the function is, eager, traced and under vmap."""
from __future__ import annotations

import math
import operator

from . import _border, _core as _c, errors
from ._core import Tensor, Variable
from ._structure import flatten, unflatten
from .reporting import check
from .transforms import custom_gradient

__all__ = [
    "allclose", "angle", "associative_scan", "bincount", "broadcast_arrays", "complex", "copysign", "cross", "cumprod", "diff", "digamma", "erfinv", "histogram", "hypot", "imag", "isclose", "isin", "kron", "lgamma",
    "matrix_transpose", "median", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "nextafter", "quantile", "real", "signbit", "trace", "unstack", "vecdot",
]


def _tensor(x):
    return x.read() if isinstance(x, Variable) else x if isinstance(x, Tensor) else _c.constant(x)


def _pair(a, b):
    """Both as tensors of one dtype, by the rule of arithmetic, and broadcast."""
    a, b = (x if isinstance(x, (Tensor, int, float)) else _tensor(x) for x in (a, b))
    zero = (_c.add if any(isinstance(x, Tensor) and _is_complex(x) for x in (a, b)) else _c.maximum)(a, b)
    like = lambda x: _spread(_c.astype(x, zero.dtype), zero) if isinstance(x, Tensor) else _c.full_like(zero, x)
    return like(a), like(b)


def _spread(x, like):
    """x with the shape of `like`, to which it broadcasts and whose lengths may be open."""
    return _c.where(_c.ones_like(like, "bool"), x, _c.zeros_like(like, x.dtype)) if None in like.shape else _c.broadcast_to(x, like.shape)


def _floating(x):
    x = _tensor(x)
    return x if _is_floating(x) else _c.astype(x, "float32")


def _is_floating(x):
    return "float" in x.dtype.name


def _is_half(x):
    return x.dtype in (_c.float16, _c.bfloat16)


def _widened(x):
    """Half types as float32, in which statistics are computed."""
    return _c.astype(x, "float32") if _is_half(x) else x


def _narrowed(y, x):
    """y, computed of _widened(x), in x's half type."""
    return _c.astype(y, x.dtype) if _is_half(x) else y


def _axis_of(name, x, axis):
    """The axis counted from the front."""
    n = x.ndim
    if not -n <= axis < n:
        raise errors.InvalidArgument(f"{name}: axis {axis} is out of range for a tensor of {n} axes", why="axes count from 0, or from -1 at the end", fix=f"pass an axis from {-n} to {n - 1}" if n else "pass a tensor with axes")
    return axis % n


def _axis(name, x, axis):
    """The axis counted from the front, and its length, which must be known."""
    axis = _axis_of(name, x, axis)
    if x.shape[axis] is None:
        raise errors.InvalidArgument(f"{name}: the length of axis {axis} is open", why="how many steps there are follows from it", fix="give the axis a length in the input_signature")
    return axis, x.shape[axis]


def _part(x, axis, key):
    return x[(slice(None),) * axis + (key,)]


# --- complex numbers ---

def _is_complex(x):
    return x.dtype.is_complex


def _of_pair(x, which):
    return _c.as_real(x)[..., which]


def complex(real, imag):
    """The complex numbers with these parts, which are floating tensors or numbers and broadcast: complex128 of float64, else complex64."""
    real, imag = _pair(real, imag)
    both = _c.stack([real if real.dtype == _c.float64 else _c.astype(real, "float32"), imag if imag.dtype == _c.float64 else _c.astype(imag, "float32")], -1)
    return _c.as_complex(both)


def real(x):
    """The real part; x itself where it is not complex."""
    x = _tensor(x)
    return _of_pair(x, 0) if _is_complex(x) else x


def imag(x):
    """The imaginary part; zeros where x is not complex."""
    x = _tensor(x)
    return _of_pair(x, 1) if _is_complex(x) else _c.zeros_like(x)


def angle(x):
    """The angle of complex numbers in radians, -pi to pi; of real ones 0, or pi where they are negative."""
    x = _tensor(x)
    return _c.atan2(imag(x), real(x)) if _is_complex(x) else _c.atan2(_c.zeros_like(_floating(x)), _floating(x))


# --- along an axis ---

def associative_scan(fn, elements, axis: int = 0, reverse: bool = False):
    """All prefixes combined by an associative function, in about 2 log2(n) steps over whole arrays instead of n: fn(a, b) of two structures like `elements`
    whose tensors have any one length along the axis. The length must be known while tracing. reverse: suffixes, combined from the end."""
    leaves, structure = flatten(elements)
    leaves = [_tensor(x) for x in leaves]
    if not leaves:
        return elements
    axes = [_axis("associative_scan", x, axis) for x in leaves]
    if len({n for _, n in axes}) > 1:
        raise errors.InvalidArgument("associative_scan: the elements differ in length", why="they are combined place by place", fix="pass tensors of one length along the axis")
    at = axes[0][0]
    if reverse:
        leaves = [_c.flip(x, at) for x in leaves]

    def combine(a, b):
        return flatten(fn(unflatten(structure, a), unflatten(structure, b)))[0]

    done = _scanned(leaves, at, combine)
    return unflatten(structure, [_c.flip(x, at) for x in done] if reverse else done)


def _scanned(parts, at, combine):
    n = parts[0].shape[at]
    if n < 2:
        return parts
    pairs = combine([_part(x, at, slice(0, n - 1, 2)) for x in parts], [_part(x, at, slice(1, None, 2)) for x in parts])
    odd = _scanned(pairs, at, combine)
    rest = [_part(x, at, slice(2, None, 2)) for x in parts]
    before = odd if n % 2 else [_part(x, at, slice(0, -1)) for x in odd]
    even = combine(before, rest) if rest[0].shape[at] else rest
    even = [_c.concat([_part(x, at, slice(0, 1)), y], at) for x, y in zip(parts, even)]
    return [_interleaved(x, y, at) for x, y in zip(even, odd)]


def _interleaved(even, odd, axis):
    n, m = even.shape[axis], odd.shape[axis]
    last = _part(even, axis, slice(m, None))
    both = _c.stack([_part(even, axis, slice(0, m)), odd], axis + 1)
    shape = [*even.shape[:axis], 2 * m, *even.shape[axis + 1:]]
    both = _c.reshape(both, [-1 if d is None else d for d in shape]) if 0 not in [d for d in shape if d is not None] else _c.zeros([d or 0 for d in shape], even.dtype)
    return _c.concat([both, last], axis) if n > m else both


def cumprod(x, axis: int = -1):
    """Running products along an axis. The gradient is right at zeros too. bool counts as int64."""
    x = _tensor(x)
    x = _c.astype(x, "int64") if x.dtype == _c.bool else x
    return associative_scan(_c.mul, x, _axis("cumprod", x, axis)[0])


def diff(x, n: int = 1, axis: int = -1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times; of bools, whether they differ. prepend and append are joined to x first."""
    x = _tensor(x)
    if not isinstance(n, int) or n < 0:
        raise errors.InvalidArgument(f"diff: n is {n}", why="it is how often differences are taken", fix="pass 0 or more")
    at = _axis_of("diff", x, axis)
    ends = [None if e is None else e if isinstance(e, (Tensor, Variable)) else _c.constant(e, x.dtype) for e in (prepend, append)]
    ends = [None if e is None else _c.broadcast_to(e, [1 if i == at else d for i, d in enumerate(x.shape)]) if e.ndim == 0 else e for e in ends]
    if ends[0] is not None or ends[1] is not None:
        x = _c.concat([p for p in (ends[0], x, ends[1]) if p is not None], at)
    for _ in range(n):
        after, before = _part(x, at, slice(1, None)), _part(x, at, slice(0, -1))
        x = _c.not_equal(after, before) if x.dtype == _c.bool else after - before
    return x


def unstack(x, axis: int = 0) -> tuple:
    """The parts along an axis, without it: the inverse of stack."""
    x = _tensor(x)
    at, n = _axis("unstack", x, axis)
    return tuple(_part(x, at, i) for i in range(n))


def broadcast_arrays(*tensors) -> list:
    """The tensors with the shape that all of them broadcast to."""
    tensors = [_tensor(x) for x in tensors]
    if not tensors:
        return []
    like = _c.zeros_like(tensors[0], "float32")
    for x in tensors[1:]:
        like = like + _c.zeros_like(x, "float32")
    return [_spread(x, like) for x in tensors]


# --- products ---

def matrix_transpose(x):
    """x with its last two axes exchanged."""
    return _c.swapaxes(x, -1, -2)


def vecdot(a, b, axis: int = -1):
    """Sums of products along an axis of both, of complex a its conjugate; the other axes broadcast."""
    product = _c.mul(_c.moveaxis(_c.conj(a), axis, -1), _c.moveaxis(_tensor(b), axis, -1))
    return _c.sum(product, -1)


def cross(a, b, axis: int = -1):
    """The vector product of vectors of length 3 along an axis; the other axes broadcast."""
    a, b = (_c.moveaxis(_tensor(x), axis, -1) for x in (a, b))
    for x in (a, b):
        if x.shape[-1] != 3:
            raise errors.InvalidArgument(f"cross: the axis has the length {x.shape[-1]}", why="a vector product is that of three numbers each", fix="pass vectors of length 3")
    (a0, a1, a2), (b0, b1, b2) = ([x[..., i] for i in range(3)] for x in (a, b))
    return _c.moveaxis(_c.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1), -1, axis)


def kron(a, b):
    """Kronecker's product: every element of a times b. The one with fewer axes gets axes of length 1 in front."""
    a, b = _tensor(a), _tensor(b)
    n = max(a.ndim, b.ndim)
    rows, columns = ((1,) * (n - x.ndim) + tuple(x.shape) for x in (a, b))
    a = _c.reshape(a, [d for length in rows for d in (length, 1)])
    b = _c.reshape(b, [d for length in columns for d in (1, length)])
    return _c.reshape(a * b, [i * j for i, j in zip(rows, columns)])


def trace(x, offset: int = 0, axis1: int = 0, axis2: int = 1):
    """The sum of a diagonal of two axes. Integers keep their dtype."""
    return _c.sum(_c.diagonal(x, offset, axis1, axis2), -1)


# --- order ---

def quantile(x, q, axis=None, keepdims: bool = False, method: str = "linear"):
    """The q-quantiles, 0 <= q <= 1, of all elements or along an axis. q may be a vector, whose axis then comes first, and a tensor, to which gradients flow if `method` is
    "linear". method: how a place between two elements is read, "linear", "lower", "higher", "nearest" or "midpoint". NaN where an element is NaN. Integers count as float32."""
    x = _floating(x)
    shape = [1] * x.ndim if axis is None else [1 if i == axis % x.ndim else d for i, d in enumerate(x.shape)]
    if axis is None:
        x, axis = _c.reshape(x, [-1]), 0
    at, n = _axis("quantile", x, axis)
    if n == 0:
        raise errors.InvalidArgument("quantile: there are no elements", why="a quantile lies between two of them", fix="check the size before")
    ways = "linear", "lower", "higher", "nearest", "midpoint"
    if method not in ways:
        raise errors.InvalidArgument(f"quantile: {errors.shown(method)} is no method", why=f"there are {', '.join(ways)}", fix='pass "linear"')
    is_tensor = isinstance(q, (Tensor, Variable))
    share = _c.astype(_tensor(q), "float64") if is_tensor else _c.constant(q, "float64")
    if is_tensor and not _c.executing_eagerly():
        fits = _c.logical_and(share >= 0, share <= 1)
        check(_c.all(fits), "quantile: q must be numbers from 0 to 1")
        share = _c.where(fits, share, 0)
    elif not all(0 <= v <= 1 for v in share.numpy().ravel()):
        raise errors.InvalidArgument(f"quantile: q is {errors.shown(q)}", why="it is a share", fix="pass numbers from 0 to 1")
    ordered, spoiled = _c.sort(x, at), _c.any(_c.isnan(x), at)

    def read(place):
        return _widened(_c.take(ordered, _c.astype(place, "int64"), axis=at))

    def at_share(share):
        one = _c.where(spoiled, math.nan, _narrowed(_between(read, share * (n - 1), n, method), x))
        return _c.reshape(one, [-1 if d is None else d for d in shape]) if keepdims else one

    return at_share(share) if share.ndim == 0 else _c.stack([at_share(one) for one in unstack(share)], 0)


def _between(read, place, n, method):
    """What stands at a place, float64, in an order of n elements, of which read(i) gives the i-th."""
    low = _c.floor(_c.stop_gradient(place))
    if method == "nearest":
        return read(_c.round(_c.stop_gradient(place)))
    high = _c.where(place > low, _c.minimum(low + 1, float(n - 1)), low)
    if method in ("lower", "higher"):
        return read(low if method == "lower" else high)
    if method == "midpoint":
        place = (low + high) / 2
    low = _c.minimum(low, float(max(n - 2, 0)))  # at the last element the slope is that from the one before
    first, second = read(low), read(_c.minimum(low + 1, float(n - 1)))
    part, distance = _c.astype(place - low, first.dtype), second - first
    near = _c.isfinite(distance)  # else a distance too large for a number, or an infinity
    distance = _c.where(near, distance, 0)
    share, low_one, high_one = _c.stop_gradient(part), _c.where(near, 0, first), _c.where(near, 0, second)
    far = _c.where(share == 0, low_one, _c.where(share == 1, high_one, low_one * (1 - share) + high_one * share))
    return _c.where(near, _c.where(part < 1, first + distance * part, second + distance * (part - 1)), far)


def median(x, axis=None, keepdims: bool = False):
    """The middle element in order, or the mean of the two middle ones. NaN where an element is NaN. Integers count as float32."""
    return quantile(x, 0.5, axis, keepdims)


def isin(x, values, invert: bool = False):
    """Whether each element of x is one of `values`; with invert, none."""
    x, given = _tensor(x), not isinstance(values, (Tensor, Variable))
    values = _c.reshape(_tensor(values), [-1])
    one_unsigned = (x.dtype == _c.uint64) != (values.dtype == _c.uint64)
    if given and _is_floating(values) <= _is_floating(x) and (values.dtype == _c.bool) == (x.dtype == _c.bool):
        values = _c.astype(values, _c.float64 if _is_floating(x) else _c.int64)
        x = _c.astype(x, values.dtype)
    same = _c.equal(_c.expand_dims(x, -1), values)
    if one_unsigned and values.dtype == _c.int64:  # the bits of a number that only one of the two dtypes has mean another one in the other
        same = _c.logical_and(same, values >= 0)
    found = _c.any(same, -1)
    return _c.logical_not(found) if invert else found


def bincount(x, weights=None, minlength: int = 0, length: int | None = None):
    """How often each integer 0, 1, ... occurs in x (int64), or the sum of its weights. The result has `length` elements; without it, which only works outside
    of traced functions, as many as the largest needs and at least minlength. Raises IndexOutOfRange for other integers."""
    x = _c.reshape(_tensor(x), [-1])
    if length is None:
        if not _c.executing_eagerly():
            raise errors.InvalidArgument("bincount: the length of the result follows from data", why="in a traced function lengths are known before", fix="pass length=, one more than the largest integer")
        least, most = (int(f(x).item()) for f in (_c.min, _c.max)) if x.size else (0, -1)
        if least < 0:
            raise errors.IndexOutOfRange(f"bincount: there is a {least}", why="counts are those of 0, 1, ...", fix="add a number to all, so that the least is 0")
        length = max(minlength, most + 1)
    ones = _c.ones_like(x, "int64") if weights is None else _c.reshape(_tensor(weights), [-1])
    if x.size == 0:
        return _c.zeros([length], ones.dtype)
    if "int" in x.dtype.name:
        x = _c.astype(x, "int64")
        x = _c.where(x < 0, 2**63 - 1, x)  # a negative index counts from the end, a negative number nowhere
    return _c.scatter_add(ones, x, [length])


def histogram(x, bins=10, range=None, weights=None, density: bool = False):
    """(counts, edges): how many elements lie in each bin. bins: how many between the bounds of `range`, by default the least and the largest element; or the
    edges, ascending. The last bin contains its upper edge. Counts are int64, with weights or density floating. Elements outside count nowhere. Bounds that are not
    finite are refused, outside of traced functions also where they follow from data."""
    x = _c.reshape(_tensor(x), [-1])
    x = x if _is_floating(x) else _c.astype(x, "float64")
    if hasattr(bins, "__index__") and getattr(bins, "ndim", 0) == 0 and not isinstance(bins, (bool, Tensor, Variable)):
        bins = operator.index(bins)
        if bins < 1:
            raise errors.InvalidArgument(f"histogram: {bins} bins", why="there is at least one", fix="pass 1 or more")
        low, high = (_c.min(x), _c.max(x)) if range is None and x.size else (_c.astype(_c.constant(float(v)), x.dtype) for v in ((0, 1) if range is None else range))
        if range is not None or _c.executing_eagerly():
            least, most = range if range is not None else (low.item(), high.item())
            if not (math.isfinite(least) and math.isfinite(most) and least <= most):
                raise errors.InvalidArgument(f"histogram: the bounds are {least} and {most}", why="bins lie between two finite numbers, the lower one first", fix="pass range=(low, high)")
        flat = _c.equal(low, high)
        low, high = _c.where(flat, low - 0.5, low), _c.where(flat, high + 0.5, high)
        edges = low + (high - low) * _c.astype(_c.linspace(0, 1, bins + 1, dtype="float64"), x.dtype)
        edges = _c.concat([edges[:-1], _c.reshape(high, [1])])
    else:
        edges = _c.astype(_tensor(bins), x.dtype)
        if edges.ndim != 1 or (edges.shape[0] or 0) < 2 or (_c.executing_eagerly() and not _c.all(edges[1:] >= edges[:-1]).item()):
            raise errors.InvalidArgument(f"histogram: the edges are {errors.shown(bins)}", why="a bin lies between two neighbours of an ascending vector", fix="pass how many bins, or their edges in order")
        bins = edges.shape[0] - 1
    place = _c.searchsorted(edges, x, "right") - 1
    place = _c.where(_c.equal(x, edges[-1]), bins - 1, place)
    inside = _c.logical_and(x >= edges[0], x <= edges[-1])
    given = _c.ones_like(x, "int64") if weights is None else _c.reshape(_tensor(weights), [-1])
    counts = bincount(_c.clip(place, 0, bins - 1), _c.where(inside, given, _c.zeros_like(given)), length=bins)
    if density:
        counts = _c.astype(counts, edges.dtype)
        counts = counts / (_c.sum(counts) * diff(edges))
    return counts, edges


# --- without NaN ---

def _without(x, value):
    x = _tensor(x)
    return _c.where(_c.isnan(x), value, x) if _is_floating(x) or _is_complex(x) else x


def _fractions(x):
    x = _tensor(x)
    return x if _is_complex(x) else _floating(x)


def nansum(x, axis=None, keepdims: bool = False):
    """The sum of the elements that are not NaN."""
    return _c.sum(_without(x, 0.0), axis, keepdims)


def nanprod(x, axis=None, keepdims: bool = False):
    """The product of the elements that are not NaN."""
    return _c.prod(_without(x, 1.0), axis, keepdims)


def _nanchosen(choose, worst, x, axis, keepdims):
    x = _tensor(x)
    if not _is_floating(x):
        return choose(x, axis, keepdims)
    all_nan = _c.all(_c.isnan(x), axis, keepdims)
    return _c.where(all_nan, math.nan, choose(_without(x, worst), axis, keepdims))


def nanmax(x, axis=None, keepdims: bool = False):
    """The largest element that is not NaN; NaN where all are."""
    return _nanchosen(_c.max, -math.inf, x, axis, keepdims)


def nanmin(x, axis=None, keepdims: bool = False):
    """The smallest element that is not NaN; NaN where all are."""
    return _nanchosen(_c.min, math.inf, x, axis, keepdims)


def nanmean(x, axis=None, keepdims: bool = False):
    """The mean of the elements that are not NaN; NaN where all are."""
    x = _fractions(x)
    wide = _widened(x)
    return _narrowed(nansum(wide, axis, keepdims) / _c.sum(_c.astype(_c.logical_not(_c.isnan(wide)), wide.dtype), axis, keepdims), x)


def nanvar(x, axis=None, keepdims: bool = False, ddof: float = 0):
    """The variance of the elements that are not NaN; their number less ddof divides."""
    x = _fractions(x)
    wide = _widened(x)
    there = _c.logical_not(_c.isnan(wide))
    deviation = _c.where(there, wide - nanmean(wide, axis, True), 0.0)
    squares = _c.square(_c.abs(deviation) if _is_complex(x) else deviation)
    count = _c.sum(_c.astype(there, squares.dtype), axis, keepdims)
    return _narrowed(_c.sum(squares, axis, keepdims) / _c.maximum(count - ddof, 0.0), x)


def nanstd(x, axis=None, keepdims: bool = False, ddof: float = 0):
    """The root of nanvar; its gradient at 0 is 0."""
    x = _fractions(x)
    v = nanvar(_widened(x), axis, keepdims, ddof)
    zero = _c.equal(v, 0)
    return _narrowed(_c.where(zero, 0.0, _c.sqrt(_c.where(zero, 1.0, v))), x)


# --- of each element ---

def isclose(a, b, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False):
    """Whether |a - b| <= atol + rtol |b|; equal infinities are, NaN only with equal_nan."""
    a, b = (x if _is_floating(x) or _is_complex(x) else _c.astype(x, "float64") for x in _pair(a, b))
    near = _c.logical_and(_c.abs(a - b) <= atol + rtol * _c.abs(b), _c.isfinite(b))
    near = _c.logical_or(near, _c.equal(a, b))
    return _c.logical_or(near, _c.logical_and(_c.isnan(a), _c.isnan(b))) if equal_nan else near


def allclose(a, b, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False):
    """Whether isclose holds for all elements, as a bool tensor without axes."""
    return _c.all(isclose(a, b, rtol, atol, equal_nan))


def signbit(x):
    """Whether the sign of x is negative: that of -0.0 too. NaN has none here."""
    x = _tensor(x)
    if not _is_floating(x):
        return x < 0
    return _c.logical_or(x < 0, _c.logical_and(_c.equal(x, 0), _c.reciprocal(x) < 0))


def copysign(a, b):
    """|a| with the sign of b. Its gradient by b is 0."""
    a, b = (_floating(x) for x in _pair(a, b))
    return _c.where(signbit(b), -_c.abs(a), _c.abs(a))


def hypot(a, b):
    """sqrt(a^2 + b^2) without overflow; infinity if one is infinite, also beside NaN. The gradient at the origin is 0."""
    a, b = (_c.abs(_floating(x)) for x in _pair(a, b))
    most, least = _c.maximum(a, b), _c.minimum(a, b)
    plain = _c.logical_and(most > 0, _c.isfinite(most))
    safe = _c.where(plain, most, 1.0)
    y = _c.where(plain, most * _c.sqrt(1 + _c.square(_c.where(plain, least, 0.0) / safe)), most)
    return _c.where(_c.logical_or(_c.isinf(a), _c.isinf(b)), math.inf, y)


# Of each floating dtype: half the distance from 1 to its neighbour, the least number, the largest.
_GRAIN = {"float16": (2.0**-11, 2.0**-24, 65504.0), "bfloat16": (2.0**-8, 2.0**-133, float.fromhex("0x1.fep127")), "float32": (2.0**-24, 2.0**-149, float.fromhex("0x1.fffffep127")),
          "float64": (2.0**-53, 5e-324, 1.7976931348623157e308)}


def nextafter(a, b):
    """The number of the dtype that follows a in the direction of b."""
    a, b = (_floating(x) for x in _pair(a, b))
    dtype = a.dtype
    grain, least, most = _GRAIN[dtype.name]
    wide = _c.astype(a, "float64")
    if dtype.name == "float64":  # Rump, Zimmermann, Boldo and Melquiond 2009; small numbers are scaled up
        small = _c.abs(wide) < 1e-280
        scaled = _c.where(small, wide * 2.0**200, wide)
        step = _c.where(small, _c.maximum(_c.abs(scaled) * (grain * (1 + 2 * grain)), least * 2.0**200), _c.abs(scaled) * (grain * (1 + 2 * grain)))
        up, down = scaled + step, scaled - step
        up, down = (_c.where(small, v * 2.0**-200, v) for v in (up, down))
    else:
        step = _c.maximum(_c.abs(wide) * (1.25 * grain), 0.7 * least)
        up, down = wide + step, wide - step
    finite = _c.logical_not(_c.isinf(wide))
    up = _c.where(_c.logical_and(_c.logical_not(finite), wide < 0), -most, _c.where(_c.equal(wide, most), math.inf, up))
    down = _c.where(_c.logical_and(_c.logical_not(finite), wide > 0), most, _c.where(_c.equal(wide, -most), -math.inf, down))
    moved = _c.astype(_c.where(a < b, up, down), dtype)
    return _c.where(_c.equal(a, b), b, _c.where(_c.logical_or(_c.isnan(a), _c.isnan(b)), math.nan, moved))


def _in_double(f):
    """f of float64, for narrower floats rounded once."""

    def run(x):
        x = _floating(x)
        return f(x) if x.dtype == _c.float64 else _c.astype(f(_c.astype(x, "float64")), x.dtype)

    return run


@custom_gradient
def _erfinv(y):
    inside = _c.abs(y) < 1
    v = _c.where(inside, y, 0.0)
    size, side = _c.abs(v), _c.where(v < 0, -1.0, _c.ones_like(v))
    lost = _c.log1p(-_c.square(v))  # Winitzki's first guess is within 2e-3; each step of Halley's triples its digits
    half = 2 / (math.pi * 0.147) + lost * 0.5
    x = _c.stop_gradient(side * _c.sqrt(_c.maximum(_c.sqrt(_c.square(half) - lost / 0.147) - half, 0.0)))  # on which the result's slopes do not depend
    for _ in range(3):
        error = _c.where(size < 0.5, _c.erf(x) - v, side * ((1 - size) - _c.erfc(side * x)))
        slope = error / (1.1283791670955126 * _c.exp(-_c.square(x)))
        x = x - slope / (1 + x * slope)
    x = _c.where(inside, x, math.nan)
    x = _c.where(_c.equal(y, 1), math.inf, _c.where(_c.equal(y, -1), -math.inf, x))
    return x, lambda dy: dy * 0.886226925452758 * _c.exp(_c.square(x))


def erfinv(y):
    """The number whose error function is y; infinite at 1 and -1, NaN beyond."""
    return _in_double(_erfinv)(y)


def _above(x, least, most):
    """(x + k, k) and the terms x, x + 1, ..., x + k - 1, with x + k near least or beyond and k at most `most`; terms are 1 from the k-th on."""
    k = _c.clip(_c.ceil(least - x), 0.0, float(most))
    return x + k, k, [_c.where(k > i, x + i, 1.0) for i in range(most)]


# log gamma(2 + z) is (1 - 0.577...) z and the sum of these times z^2, z^3, ...: (-1)^k (zeta(k) - 1) / k. Abramowitz and Stegun 1964, 6.1.33.
_NEAR_2 = (0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
           9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
           2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09)


@custom_gradient
def _lgamma(x):
    negative = x < 0.5
    v = _c.where(negative, 1 - x, x)
    z, _, terms = _above(_c.minimum(v, 1e300), 10, 8)  # v < 2.5 is below
    below = terms[0]
    for term in terms[1:]:
        below = below * term
    inverse = _c.reciprocal(z)
    square = _c.square(inverse)
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188 - square * 691 / 360360)))))
    y = (z - 0.5) * _c.log(z) - z + 0.9189385332046727 + series - _c.log(below)
    y = _c.where(v > 1e300, v * (_c.log(v) - 1), y)
    at_1, near = v < 1.5, v < 2.5  # around 1 and 2, where the result is 0
    z, rest = _c.where(near, _c.where(at_1, v - 1, v - 2), 0.0), 0.0
    for factor in reversed(_NEAR_2):
        rest = rest * z + factor
    y = _c.where(near, z * (0.4227843350984671 + z * rest) - _c.log(_c.where(at_1, v, 1.0)), y)
    fraction = x - _c.round(x)
    pole = _c.logical_and(negative, _c.equal(fraction, 0))
    sine = _c.abs(_c.sin(math.pi * _c.where(_c.logical_or(pole, _c.isinf(x)), 0.5, fraction)))
    y = _c.where(negative, _c.log(math.pi / sine) - y, y)
    return _c.where(_c.logical_or(pole, _c.isinf(x)), math.inf, y), lambda dy: dy * digamma(x)


def lgamma(x):
    """log |gamma(x)|; infinite at 0, -1, -2, ... Its gradient is digamma."""
    return _in_double(_lgamma)(x)


def _digamma(x):
    negative = x < 0.5
    whole = _c.equal(x, _c.round(x))
    pole = _c.logical_and(negative, whole)
    safe = _c.where(_c.logical_or(pole, _c.isinf(x)), 0.25, x)
    v = _c.where(negative, 1 - safe, safe)
    z, k, terms = _above(v, 10, 10)
    below = sum(_c.where(k > i, _c.reciprocal(term), 0.0) for i, term in enumerate(terms))
    inverse = _c.square(_c.reciprocal(z))
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse * (1 / 132 - inverse * (691 / 32760 - inverse / 12))))))
    y = _c.log(z) - 0.5 / z - series - below
    turn = math.pi * _c.where(negative, safe - _c.round(safe), 0.25)
    y = _c.where(negative, y - math.pi * _c.cos(turn) / _c.sin(turn), y)
    return _c.where(pole, math.nan, _c.where(_c.equal(x, math.inf), math.inf, y))


def digamma(x):
    """The slope of lgamma; NaN at 0, -1, -2, ..."""
    return _in_double(_digamma)(x)


_border.guard(globals())
