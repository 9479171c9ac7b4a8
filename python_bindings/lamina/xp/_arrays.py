"""Creation, manipulation, searching, sets, sorting, statistics and products of the array API, over the functions of lm."""
from __future__ import annotations

import builtins
import collections

from .. import _border, _core as _c, errors, numeric as _n
from ._dtypes import COMPLEX, DEFAULT_FLOATING, DEFAULT_INTEGER, INTEGER, UNSIGNED, array, asarray, is_array, kind, on, promoted

__all__ = [
    "all", "any", "arange", "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "empty", "empty_like",
    "expand_dims", "eye", "flip", "from_dlpack", "full", "full_like", "linspace", "matmul", "matrix_transpose", "max", "mean", "meshgrid", "min", "moveaxis", "nonzero", "ones", "ones_like",
    "permute_dims", "prod", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tensordot", "tile", "tril", "triu", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "zeros", "zeros_like",
]


def _numbers(name, x, kinds=(1, 2)):
    x = array(name, x)
    if kind(x.dtype) not in kinds:
        raise errors.TypeMismatch(f"{name}: the array is {x.dtype.name}", why="the array API defines it for other dtypes", fix="convert it: lm.xp.astype(x, lm.xp.float32)")
    return x


# --- creation ---

def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... before stop; with one argument from 0."""
    if stop is None:
        start, stop = 0, start
    whole = builtins.all(isinstance(v, int) for v in (start, stop, step))
    return on(_c.arange(start, stop, step, DEFAULT_INTEGER if dtype is None and whole else DEFAULT_FLOATING if dtype is None else dtype), device)


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def zeros(shape, *, dtype=None, device=None):
    """Zeros; float32 unless a dtype is given."""
    return on(_c.zeros(_shape(shape), dtype), device)


def ones(shape, *, dtype=None, device=None):
    """Ones; float32 unless a dtype is given."""
    return on(_c.ones(_shape(shape), dtype), device)


def empty(shape, *, dtype=None, device=None):
    """An array whose elements mean nothing; here zeros."""
    return zeros(shape, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """One number everywhere."""
    return on(_c.broadcast_to(asarray(fill_value, dtype=dtype), _shape(shape)), device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros of x's shape and dtype."""
    return on(_c.zeros_like(array("zeros_like", x), dtype), device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones of x's shape and dtype."""
    return on(_c.ones_like(array("ones_like", x), dtype), device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array like x whose elements mean nothing; here zeros."""
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One number in x's shape and dtype."""
    x = array("full_like", x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on diagonal k of a matrix of zeros."""
    columns = n_rows if n_cols is None else n_cols
    k = builtins.max(builtins.min(k, columns), -n_rows)
    return on(_c.eye(n_rows, columns, k, dtype), device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers from start to stop; without the endpoint the last is one step before it."""
    if isinstance(start, complex) or isinstance(stop, complex):
        parts = [_c.linspace(a, b, num, endpoint, "float64") for a, b in ((start.real, stop.real), (start.imag, stop.imag))]
        return on(_c.astype(_n.complex(*parts), COMPLEX[0] if dtype is None else dtype), device)
    x = _c.linspace(float(start), float(stop), num, endpoint, "float64")
    return on(_c.astype(x, DEFAULT_FLOATING if dtype is None else dtype), device)


def meshgrid(*arrays, indexing="xy"):
    """Each vector spread over the grid that they span, as a list."""
    return list(_c.meshgrid(*[array("meshgrid", x) for x in arrays], indexing=indexing)) if arrays else []


def tril(x, /, *, k=0):
    """The last two axes' lower triangle: zero above diagonal k."""
    return _c.tril(array("tril", x), k)


def triu(x, /, *, k=0):
    """The last two axes' upper triangle: zero below diagonal k."""
    return _c.triu(array("triu", x), k)


def from_dlpack(x, /, *, device=None, copy=None):
    """The array that looks at another library's memory, or with copy=True has the same elements in memory of its own."""
    y = _c.from_dlpack(x)
    return on(_c.constant(y.numpy()) if copy and not is_array(x) else y, device)


# --- manipulation ---

def broadcast_to(x, /, shape):
    """x repeated to a shape."""
    return _c.broadcast_to(array("broadcast_to", x), _shape(shape))


def broadcast_arrays(*arrays):
    """The arrays with the shape that all broadcast to."""
    return _n.broadcast_arrays(*[array("broadcast_arrays", x) for x in arrays])


def concat(arrays, /, *, axis=0):
    """The arrays one after another along an axis; of the flattened ones with axis=None."""
    arrays = promoted("concat", *arrays)
    return _c.concat([_c.reshape(x, [-1]) for x in arrays] if axis is None else arrays, 0 if axis is None else axis)


def expand_dims(x, /, axis=0):
    """x with a new axis of length 1. IndexOutOfRange for an axis beyond x's and one more."""
    x = array("expand_dims", x)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise errors.IndexOutOfRange(f"expand_dims: axis {axis} is out of range", why=f"the result has {x.ndim + 1} axes", fix=f"pass an axis from {-x.ndim - 1} to {x.ndim}")
    return _c.expand_dims(x, axis)


def flip(x, /, *, axis=None):
    """x in reverse order along axes, all without."""
    return _c.flip(array("flip", x), axis)


def moveaxis(x, source, destination, /):
    """x with axes at other places."""
    return _c.moveaxis(array("moveaxis", x), source, destination)


def permute_dims(x, /, axes):
    """x with its axes in this order."""
    return _c.transpose(array("permute_dims", x), tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element so many times along an axis, of the flattened x without."""
    return _c.repeat(array("repeat", x), repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape; one length may be -1."""
    return _c.reshape(array("reshape", x), _shape(shape))


def roll(x, /, shift, *, axis=None):
    """Elements moved along axes; those that leave at the end come back in front."""
    return _c.roll(array("roll", x), shift, axis)


def squeeze(x, /, axis):
    """x without these axes of length 1."""
    return _c.squeeze(array("squeeze", x), axis)


def stack(arrays, /, *, axis=0):
    """The arrays along a new axis."""
    return _c.stack(promoted("stack", *arrays), axis)


def tile(x, repetitions, /):
    """x repeated along its axes."""
    return _c.tile(array("tile", x), tuple(repetitions))


def unstack(x, /, *, axis=0):
    """The parts along an axis, as a tuple."""
    return _n.unstack(array("unstack", x), axis)


# --- elements ---

def take(x, indices, /, *, axis=None):
    """The parts along an axis at these places."""
    x = array("take", x)
    if axis is None and x.ndim != 1:
        raise errors.InvalidArgument(f"take: the array has {x.ndim} axes", why="only a vector needs no axis", fix="pass axis=")
    return _c.take(x, array("take", indices), 0 if axis is None else axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements along an axis at places of their own."""
    return _c.take_along_axis(array("take_along_axis", x), array("take_along_axis", indices), axis)


def _place(op, name, x, axis, keepdims):
    x = _numbers(name, x)
    if axis is not None:
        return op(x, axis, keepdims)
    found = op(_c.reshape(x, [-1]), 0)
    return _c.reshape(found, [1] * x.ndim) if keepdims else found


def argmax(x, /, *, axis=None, keepdims=False):
    """The place of the first largest element (int64)."""
    return _place(_c.argmax, "argmax", x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The place of the first smallest element (int64)."""
    return _place(_c.argmin, "argmin", x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not 0 (int64)."""
    return _c.count_nonzero(array("count_nonzero", x), axis, keepdims)


def nonzero(x, /):
    """Where x is not 0, as a tuple with a vector per axis."""
    x = array("nonzero", x)
    if x.ndim == 0:
        raise errors.InvalidArgument("nonzero: the array has no axes", why="places are those along axes", fix="reshape it to one element")
    return tuple(_c.nonzero(x))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where each element of x2 would stand in the sorted x1 (int64)."""
    x1, x2 = promoted("searchsorted", x1, x2)
    return _c.searchsorted(x1 if sorter is None else _c.take(x1, sorter, 0), x2, side)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    return _c.sort(_numbers("sort", x), axis, descending)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The places of the elements in order along an axis (int64). Equal elements keep their order."""
    return _c.astype(_c.argsort(_numbers("argsort", x), axis, descending), "int64")


_All = collections.namedtuple("unique_all_result", ["values", "indices", "inverse_indices", "counts"])
_Counts = collections.namedtuple("unique_counts_result", ["values", "counts"])
_Inverse = collections.namedtuple("unique_inverse_result", ["values", "inverse_indices"])


def unique_all(x, /):
    """The distinct elements, where each stands first in the flattened x, which of them each element is, and how often each occurs. Every NaN is distinct."""
    x = array("unique_all", x)
    flat = _c.reshape(x, [-1])
    n = flat.size
    if n == 0:
        none = _c.zeros([0], "int64")
        return _All(flat, none, _c.reshape(none, x.shape), none)
    keys = [_n.imag(flat), _n.real(flat)] if x.dtype in COMPLEX else [flat if x.dtype != _c.bool else _c.astype(flat, "uint8")]
    order = _c.astype(_c.argsort(keys[0]), "int64")
    for key in keys[1:]:  # sorting is stable
        order = _c.take(order, _c.argsort(_c.take(key, order, 0)), 0)
    ordered = _c.take(flat, order, 0)
    new = _c.concat([_c.ones([1], "bool"), _c.not_equal(ordered[1:], ordered[:-1])])
    first = _c.nonzero(new)[0]
    which = _c.cumsum(_c.astype(new, "int64")) - 1
    inverse = _c.reshape(_c.scatter_add(which, order, [n]), x.shape)
    counts = _n.diff(first, append=n)
    return _All(_c.take(ordered, first, 0), _c.take(order, first, 0), inverse, counts)


def unique_counts(x, /):
    """The distinct elements and how often each occurs."""
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x, /):
    """The distinct elements and which of them each element is."""
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x, /):
    """The distinct elements."""
    return unique_all(x).values


# --- statistics ---

def _wide(x, dtype):
    """x in the dtype that its sum has: integers are widened."""
    wanted = dtype if dtype is not None else "uint64" if x.dtype in UNSIGNED else DEFAULT_INTEGER if x.dtype in INTEGER or x.dtype == _c.bool else x.dtype
    return _c.astype(x, wanted)


def _of(dtype, y):
    """The result in the dtype that was asked for: that of bools is counted."""
    return y if dtype is None else _c.astype(y, dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum over axes; narrow integers are added as int64 or uint64."""
    return _of(dtype, _c.sum(_wide(array("sum", x), dtype), axis, keepdims))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product over axes; narrow integers are multiplied as int64 or uint64."""
    return _of(dtype, _c.prod(_wide(array("prod", x), dtype), axis, keepdims))


def _running(op, start, name, x, axis, dtype, include_initial):
    x = array(name, x)
    if axis is None and x.ndim != 1:
        raise errors.InvalidArgument(f"{name}: the array has {x.ndim} axes", why="only a vector needs no axis", fix="pass axis=")
    axis = 0 if axis is None else axis
    x = _wide(x, dtype)
    y = _of(dtype, op(x, axis))
    if not include_initial:
        return y
    shape = list(y.shape)
    shape[axis] = 1
    return _c.concat([_c.astype(_c.full(shape, start), y.dtype), y], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sums along an axis; include_initial puts a 0 in front."""
    return _running(_c.cumsum, 0, "cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along an axis; include_initial puts a 1 in front."""
    return _running(_n.cumprod, 1, "cumulative_prod", x, axis, dtype, include_initial)


def max(x, /, *, axis=None, keepdims=False):
    """The largest element over axes."""
    return _c.max(_numbers("max", x), axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element over axes."""
    return _c.min(_numbers("min", x), axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean over axes."""
    return _c.mean(_numbers("mean", x, (2, 3)), axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over axes; the number of elements less `correction` divides."""
    return _c.var(_numbers("var", x, (2,)), axis, keepdims, float(correction))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over axes; the number of elements less `correction` divides."""
    return _c.std(_numbers("std", x, (2,)), axis, keepdims, float(correction))


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements are true, or not 0."""
    return _c.all(array("all", x), axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether one element is true, or not 0."""
    return _c.any(array("any", x), axis, keepdims)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times."""
    return _n.diff(_numbers("diff", x, (1, 2, 3)), n, axis, prepend, append)


# --- products ---

def _product(name, op, x1, x2, *rest):
    """The product of arrays of one dtype; of narrow integers it is taken in int32, whose low bits are theirs."""
    x1, x2 = promoted(name, x1, x2)
    dtype = _numbers(name, x1, (1, 2, 3)).dtype
    if dtype not in (_c.int8, _c.int16, _c.uint8):
        return op(x1, x2, *rest)
    return _c.astype(op(_c.astype(x1, "int32"), _c.astype(x2, "int32"), *rest), dtype)


def matmul(x1, x2, /):
    """The matrix product over the last two axes."""
    return _product("matmul", _c.matmul, x1, x2)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over axes of both."""
    return _product("tensordot", _c.tensordot, x1, x2, axes)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of products along an axis of both; of complex x1, its conjugate. The other axes broadcast."""
    x1, x2 = promoted("vecdot", x1, x2)
    for x in (x1, x2):
        if not -x.ndim <= axis < x.ndim:
            raise errors.InvalidArgument(f"vecdot: axis {axis} is out of range", why=f"an array has {x.ndim} axes", fix="pass an axis that both have, from -1 downwards")
    if x1.shape[axis] != x2.shape[axis]:
        raise errors.InvalidArgument(f"vecdot: the axes have lengths {x1.shape[axis]} and {x2.shape[axis]}", why="the axis that is summed over is not broadcast", fix="pass vectors of one length")
    return _n.vecdot(_numbers("vecdot", x1, (1, 2, 3)), x2, axis)


def matrix_transpose(x, /):
    """x with its last two axes exchanged."""
    return _n.matrix_transpose(array("matrix_transpose", x))


_border.guard(globals())
