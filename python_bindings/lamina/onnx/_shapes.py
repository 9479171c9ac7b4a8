"""Ops that move elements: shapes, indexing, padding, sorting."""
from __future__ import annotations

import math

import numpy as np

from .. import _core as lm, errors
from . import _open
from ._open import is_open, lengths_of
from ._table import fold, op
from ._tensors import dtype_from, dtype_of, from_proto, from_sparse, shape_of, to_tensor


def axis_of(n, axis, rank):
    if not -rank <= axis < max(rank, 1):
        raise n.refuse(f"axis {axis} is none of {rank}")
    return axis % rank if rank else 0


@op("Constant", raw=True)
def constant(n):
    for name in ("value", "sparse_value", "value_int", "value_ints", "value_float", "value_floats"):
        v = n.attr(name)
        if v is not None:
            if name == "value":
                return from_proto(v)
            if name == "sparse_value":
                return from_sparse(v)
            return np.asarray(v, np.int64 if "int" in name else np.float32)
    raise n.refuse("its value is a text or missing; there are no tensors of texts")


@op("Identity", raw=True)
def identity(n, x):
    return x


@op("Shape", raw=True)
def shape(n, x):
    dims = lengths_of(x)
    start, end = n.attr("start", 0), n.attr("end")
    return np.array(dims[start:len(dims) if end is None else end], np.int64)


@op("Size", raw=True)
def size(n, x):
    return np.array(_open.product(lengths_of(x)), np.int64)


fold("Gather", "Concat", "Squeeze", "Unsqueeze", "Slice", "Reshape", "Transpose", "Expand", "Tile", "Range", "ConstantOfShape", "ReduceProd", "ReduceSum",
     "ReduceMax", "ReduceMin", "Flatten", "Split", "CumSum", "NonZero", "ScatterND", "ScatterElements", "GatherND", "TopK", "OneHot")
# NonZero and TopK of known values only; of tensors they are below.


def with_dims(n, x, wanted):
    """x reshaped. One length may be -1; a length that is no dimension is what the others leave."""
    dims = shape_of(x)
    if not _open.named(wanted):
        wanted = [-1 if isinstance(_open.meaning_of(d), tuple) else d for d in wanted]
        if wanted.count(-1) > 1:
            raise n.refuse("more than one length of its result is open", fix="trace with fixed lengths")
    if None not in dims and not any(map(is_open, wanted)):
        return lm.reshape(x, wanted) if -1 in wanted or math.prod(dims) == math.prod(wanted) else _misfit(n, dims, wanted)
    try:
        return _open.reshaped(x, wanted)
    except errors.InvalidArgument as error:
        raise n.refuse(f"its lengths are open, and {error.what.removeprefix('reshape: ')}", fix="trace with fixed lengths") from None


def _misfit(n, dims, wanted):
    raise n.refuse(f"the shape {list(dims)} does not become {wanted}")


@op("Reshape", fixed=(1,))
def reshape(n, x, _=None):
    wanted = n.ints(1, lengths=True) if n.version >= 5 else n.attr("shape")
    dims = shape_of(x)
    if not n.attr("allowzero", 0):
        wanted = [lengths_of(x)[i] if d == 0 else d for i, d in enumerate(wanted)]
    elif -1 in wanted and 0 in wanted:
        raise n.refuse("its shape has 0 and -1, and allowzero")
    known = [d for d in wanted if d != -1 and not is_open(d)]
    if any(d < 0 for d in known) or (None not in dims and -1 in wanted and math.prod(known) == 0 and math.prod(dims) != 0):
        raise n.refuse(f"the shape {wanted} is none")
    if None not in dims and -1 in wanted and 0 in known:
        return lm.reshape(x, [0 if d == -1 else d for d in wanted])
    return with_dims(n, x, wanted)


@op("Flatten")
def flatten(n, x):
    dims, axis = lengths_of(x), n.attr("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return _open.reshaped(x, [_open.product(dims[:axis]), _open.product(dims[axis:])])


@op("Squeeze", fixed=(1,))
def squeeze(n, x, _=None):
    axes = n.ints(1) if n.version >= 13 else n.attr("axes")
    if axes is None:
        axes = [i for i, d in enumerate(shape_of(x)) if d == 1]
    return lm.squeeze(x, tuple(axis_of(n, a, x.ndim) for a in axes))


@op("Unsqueeze", fixed=(1,))
def unsqueeze(n, x, _=None):
    axes = n.ints(1) if n.version >= 13 else n.attr("axes")
    rank = x.ndim + len(axes)
    return lm.expand_dims(x, tuple(sorted(axis_of(n, a, rank) for a in axes)))


@op("Transpose")
def transpose(n, x):
    return lm.transpose(x, n.attr("perm", list(reversed(range(x.ndim)))))


@op("Concat")
def concat(n, *parts):
    if len(parts) == 1:
        return parts[0]
    return lm.concat(list(parts), axis_of(n, n.attr("axis", 1), parts[0].ndim))


@op("Expand", fixed=(1,))
def expand(n, x, _, only_check=False):
    dims, wanted = lengths_of(x), n.ints(1, lengths=True)
    rank = max(len(dims), len(wanted))
    dims, wanted = [1] * (rank - len(dims)) + dims, [1] * (rank - len(wanted)) + wanted
    out = [a if b == 1 else b for a, b in zip(dims, wanted)]
    n.room(out, None if only_check else dtype_of(x))
    return None if only_check else _open.full(x, dimensions(n, out))


def dimensions(n, dims):
    """These lengths, none of which is open and no dimension."""
    if not _open.named(dims):
        raise n.refuse("a length of its result follows from an open one, and is no sum or product of such", fix="trace with fixed lengths")
    return dims


@op("Tile", fixed=(1,))
def tile(n, x, _, only_check=False):
    repeats, dims = n.ints(1, lengths=True), lengths_of(x)
    if any(r < 0 and not is_open(r) for r in repeats):
        raise n.refuse(f"the repeats {repeats} have a negative number")
    out = [_open.combined("Mul", d, r) for d, r in zip(dims, repeats)]
    n.room(out, None if only_check else dtype_of(x))
    if only_check:
        return None
    if not any(map(is_open, repeats)):
        return lm.tile(x, repeats)
    dimensions(n, [*dims, *repeats, *out])
    apart = _open.reshaped(x, [d for length in dims for d in (1, length)])  # each axis behind one for its repeats
    return _open.reshaped(_open.full(apart, [d for pair in zip(repeats, dims) for d in pair]), out)


@op("ConstantOfShape", fixed=(0,))
def constant_of_shape(n, _, only_check=False):
    value = n.attr("value")
    value = from_proto(value).reshape(-1)[0] if value is not None else np.float32(0)
    shape = n.room(n.ints(0, lengths=True), value.dtype)
    if only_check:
        return None
    return _open.full(to_tensor(np.array(value)), dimensions(n, shape)) if any(map(is_open, shape)) else np.full(shape, value)


@op("Range", fixed=(0, 1, 2))
def range_(n, *_, only_check=False):
    start, stop, step = (np.asarray(n.known(i, lengths=True)).reshape(())[()] for i in range(3))
    if start.dtype.kind == "i" and any(is_open(v) for v in (start, stop, step)):
        if step != 1:
            raise n.refuse("it counts to a length that is open by other steps than 1", fix="trace with that length fixed")
        return _open.counting(start, dimensions(n, [_open.combined("Sub", stop, start)])[0], str(start.dtype))
    if step == 0 or not all(np.isfinite(np.float64(v)) for v in (start, stop, step)):
        raise n.refuse(f"there is no range from {start} to {stop} by {step}")
    count = max(0, math.ceil((float(stop) - float(start)) / float(step)))
    n.room([count])
    return None if only_check else (start + np.arange(count) * step).astype(start.dtype)


def sizes(n, x, axis, parts):
    length = shape_of(x)[axis]
    split = n.ints(1) if n.version >= 13 else n.attr("split")
    if split is not None:
        return split
    each = -(-length // parts)
    return [each] * (length // each) + ([length % each] if length % each else [])


@op("Split", fixed=(1,))
def split(n, x, _=None):
    axis = axis_of(n, n.attr("axis", 0), x.ndim)
    lengths = sizes(n, x, axis, n.attr("num_outputs", n.outputs))
    lengths += [0] * (n.outputs - len(lengths))
    if sum(lengths) != shape_of(x)[axis] or min(lengths) < 0:
        raise n.refuse(f"the lengths {lengths} are not {shape_of(x)[axis]} together")
    return parts_of(x, axis, lengths)


def parts_of(x, axis, lengths):
    out, start = [], 0
    for length in lengths:
        out.append(cut(x, axis, start, start + length))
        start += length
    return tuple(out)


def cut(x, axis, start, stop, step=1):
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


@op("Slice", fixed=(1, 2, 3, 4))
def slice_(n, x, *_):
    if n.version < 10:
        starts, ends, axes, steps = n.attr("starts"), n.attr("ends"), n.attr("axes"), None
    else:
        starts, ends, axes, steps = n.ints(1, lengths=True), n.ints(2, lengths=True), n.ints(3), n.ints(4)
    axes = [axis_of(n, a, x.ndim) for a in axes] if axes is not None else list(range(len(starts)))
    steps = steps or [1] * len(starts)
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        length = shape_of(x)[axis]
        if step == 0:
            raise n.refuse("a step is 0")
        if is_open(start) or is_open(end):
            x = open_slice(n, x, axis, start, end, step)
            continue
        if length is None:
            far = np.iinfo(np.int32).max
            begins = step < 0 and (start == -1 or start >= far)
            key[axis] = slice(None if begins else start, None if (end >= far if step > 0 else end < -far) else end, step)
            continue
        if step > 0:
            start = min(max(start + length if start < 0 else start, 0), length)
            end = min(max(end + length if end < 0 else end, 0), length)
            key[axis] = slice(start, max(end, start), step)
        else:
            start = min(max(start + length if start < 0 else start, -1), length - 1)
            end = min(max(end + length if end < 0 else end, -1), length - 1)
            key[axis] = slice(0, 0) if start <= end else slice(start, None if end < 0 else end, step)
    return x[tuple(key)]


def open_slice(n, x, axis, start, end, step):
    """A slice from or to an open length."""
    length = lengths_of(x)[axis]
    if step == 1:
        before = [_open.combined("Sub", length, place) if is_open(place) else None for place in (start, end)]  # so far in front of the end
        if not any(map(is_open, [0 if d is None else d for d in before])):
            begin, stop = (place if d is None else -d for place, d in zip((start, end), before))
            if before[0] == 0:
                return cut(x, axis, 0, 0)
            return cut(x, axis, begin, None if before[1] == 0 or stop >= np.iinfo(np.int32).max else stop)
        count = _open.combined("Sub", end, start)
        if not is_open(length) and (is_open(start) or start >= 0) and _open.named([start, count]):
            return lm.gather(x, _open.counting(start, count, "int64"), axis)  # beyond the axis it is an error of the call
    raise n.refuse("it goes from or to an open length in a way that no dimension says", fix="trace with that length fixed")


@op("Pad", fixed=(1, 3))
def pad(n, x, _=None, value=None, __=None):
    if n.version >= 11:
        widths, axes = n.ints(1), n.ints(3)
    else:
        widths, axes, value = n.attr("pads") or n.attr("paddings"), None, n.attr("value", 0.0)
    axes = [axis_of(n, a, x.ndim) for a in axes] if axes is not None else list(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = (widths[i], widths[i + len(axes)])
    n.room([d if d is None else d + max(a, 0) + max(b, 0) for d, (a, b) in zip(shape_of(x), pairs)], dtype_of(x))
    for axis, (before, after) in enumerate(pairs):  # negative ones cut
        if before < 0 or after < 0:
            length = shape_of(x)[axis]
            x = cut(x, axis, max(-before, 0), length - max(-after, 0) if length is not None else min(after, 0) or None)
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    mode = n.choice("mode", "constant", "reflect", "edge", "wrap")
    if mode != "constant":
        return lm.pad(x, pairs, mode)
    if value is None or isinstance(value, float):
        return lm.pad(x, pairs, "constant", value or 0)
    inside = lm.pad(lm.ones_like(x, lm.bool), pairs)
    return lm.where(inside, lm.pad(x, pairs), lm.reshape(value, []))


# --- indices ---


def wrapped(indices, length):
    """Indices from the back made positive."""
    indices = lm.astype(indices, lm.int64)
    return lm.where(indices < 0, indices + length, indices)


@op("Gather")
def gather(n, x, indices):
    axis = axis_of(n, n.attr("axis", 0), x.ndim)
    length = shape_of(x)[axis]
    return lm.gather(x, indices if length is None else wrapped(indices, length), axis)


@op("GatherElements")
def gather_elements(n, x, indices):
    axis = axis_of(n, n.attr("axis", 0), x.ndim)
    for i, (a, b) in enumerate(zip(shape_of(x), shape_of(indices))):
        if i != axis and a != b:
            x = cut(x, i, 0, b)
    return lm.take_along_axis(x, wrapped(indices, length_of(x, axis)), axis)


def length_of(x, axis):
    """A number, or a tensor where the length is open."""
    length = lengths_of(x)[axis]
    return _open.tensor_of(length) if is_open(length) else length


def wrapped_places(indices, dims):
    return lm.where(indices < 0, indices + to_tensor(np.array(dims, np.int64)), indices)


@op("GatherND")
def gather_nd(n, x, indices):
    batch = n.attr("batch_dims", 0)
    depth = shape_of(indices)[-1]
    indices = wrapped_places(indices, lengths_of(x)[batch:batch + depth])
    if batch:
        outer = shape_of(indices)[:-1]
        grids = [lm.broadcast_to(lm.reshape(lm.arange(outer[i], dtype=lm.int64), [1] * i + [-1] + [1] * (len(outer) - i)), [*outer, 1]) for i in range(batch)]
        indices = lm.concat([*grids, indices], -1)
    return lm.gather_nd(x, indices)


def reduced(n, at, updates):
    how = n.choice("reduction", "none", "add", "mul", "max", "min")
    return getattr(at, "set" if how == "none" else how)(updates)


@op("ScatterND")
def scatter_nd(n, x, indices, updates):
    depth = shape_of(indices)[-1]
    if 0 in shape_of(indices):
        return x
    indices = wrapped_places(indices, lengths_of(x)[:depth])
    places = tuple(lm.reshape(cut(indices, indices.ndim - 1, i, i + 1), shape_of(indices)[:-1]) for i in range(depth))
    return reduced(n, x.at[places], updates)


@op("ScatterElements", "Scatter")
def scatter_elements(n, x, indices, updates):
    axis = axis_of(n, n.attr("axis", 0), x.ndim)
    dims = shape_of(indices)
    if 0 in dims:
        return x
    places = [lm.broadcast_to(lm.reshape(lm.arange(d, dtype=lm.int64), [1] * i + [-1] + [1] * (len(dims) - i - 1)), dims) for i, d in enumerate(dims)]
    places[axis] = wrapped(indices, length_of(x, axis))
    return reduced(n, x.at[tuple(places)], updates)


@op("TensorScatter")
def tensor_scatter(n, past, update, start=None):
    axis = axis_of(n, n.attr("axis", -2), past.ndim)
    batch, length = shape_of(past)[0], shape_of(past)[axis]
    begin = lm.zeros([batch], lm.int64) if start is None else start
    places = lm.reshape(begin, [batch, 1]) + lm.reshape(lm.arange(shape_of(update)[axis], dtype=lm.int64), [1, -1])
    if n.choice("mode", "linear", "circular") == "circular":
        places = lm.mod(places, length)
    rows = lm.reshape(lm.arange(batch, dtype=lm.int64), [batch, 1])
    y, u = lm.moveaxis(past, axis, 1), lm.moveaxis(update, axis, 1)
    return lm.moveaxis(y.at[rows, places].set(u), 1, axis)


@op("OneHot", fixed=(1,))
def one_hot(n, indices, _, values):
    depth = n.ints(1)[0]
    axis = n.attr("axis", -1)
    n.room([*shape_of(indices), depth], values.dtype)
    labels = lm.astype(indices, lm.int64)
    hot = lm.one_hot(lm.where(labels < 0, labels + depth, labels), depth, lm.bool)
    return lm.moveaxis(lm.where(hot, values[1], values[0]), -1, axis)


@op("Compress", fixed=(1,))
def compress(n, x, _):
    places = np.flatnonzero(n.known(1))
    axis = n.attr("axis")
    if axis is None:
        return lm.gather(lm.reshape(x, [-1]), lm.constant(places))
    return lm.gather(x, lm.constant(places), axis_of(n, axis, x.ndim))


@op("NonZero")
def non_zero(n, x):
    if not lm.executing_eagerly():
        raise n.needs_data("how many elements are not zero follows from data")
    return lm.stack(list(lm.nonzero(x)), 0)


@op("Unique")
def unique(n, x):
    if not lm.executing_eagerly():
        raise n.needs_data("how many distinct elements there are follows from data")
    axis = n.attr("axis")
    if axis is None:
        y, first, inverse, counts = lm.unique(x, True, True, True)
        inverse = lm.reshape(inverse, [-1])
    else:  # rows are compared on the host
        values = n.known(0)
        y, first, inverse, counts = np.unique(values, True, True, True, axis=axis_of(n, axis, x.ndim))
        y, first, inverse, counts = (to_tensor(np.ascontiguousarray(v)) for v in (y, first, inverse.reshape(-1), counts))
    if not n.attr("sorted", 1):
        order = lm.argsort(first)
        place = lm.argsort(order)
        y, first, counts = lm.gather(y, order, axis_of(n, axis, x.ndim) if axis is not None else 0), lm.gather(first, order), lm.gather(counts, order)
        inverse = lm.gather(place, inverse)
    return y, lm.astype(first, lm.int64), lm.astype(inverse, lm.int64), lm.astype(counts, lm.int64)


# --- order ---


@op("TopK", fixed=(1,))
def top_k(n, x, _=None):
    k = n.ints(1)[0] if n.version >= 10 else n.attr("k")
    axis = axis_of(n, n.attr("axis", -1), x.ndim)
    if n.attr("largest", 1):
        return tuple(lm.top_k(x, k, axis))
    order = cut(lm.argsort(x, axis), axis, 0, k)
    return lm.take_along_axis(x, order, axis), order


def arg(function):
    def found(n, x):
        axis, keep = axis_of(n, n.attr("axis", 0), x.ndim), bool(n.attr("keepdims", 1))
        if not n.attr("select_last_index", 0):
            return function(x, axis, keep)
        return length_of(x, axis) - 1 - function(lm.flip(x, axis), axis, keep)
    return found


op("ArgMax")(arg(lm.argmax))
op("ArgMin")(arg(lm.argmin))


@op("Trilu", fixed=(1,))
def trilu(n, x, _=None):
    k = (n.ints(1) or [0])[0]
    if 0 in shape_of(x):
        return x
    rows, columns = shape_of(x)[-2:]
    k = max(min(k, columns + rows), -rows - columns)
    return lm.triu(x, k) if n.attr("upper", 1) else lm.tril(x, k)


@op("EyeLike", raw=True)
def eye_like(n, x):
    rows, columns = shape_of(x)
    n.room([rows, columns])
    code = n.attr("dtype")
    return lm.eye(rows, columns, n.attr("k", 0), dtype_from(code) if code else dtype_of(x))


@op("ReverseSequence")
def reverse_sequence(n, x, lengths):
    batch, time = n.attr("batch_axis", 1), n.attr("time_axis", 0)
    y = lm.moveaxis(x, (batch, time), (0, 1))
    t = lm.reshape(lm.arange(shape_of(y)[1], dtype=lm.int64), [1, -1])
    ends = lm.reshape(lm.astype(lengths, lm.int64), [-1, 1])
    places = lm.where(t < ends, ends - 1 - t, t)
    return lm.moveaxis(lm.gather(y, places, 1, batch_axes=1), (0, 1), (batch, time))


@op("DepthToSpace")
def depth_to_space(n, x):
    b, (size, (c, h, w)) = n.attr("blocksize"), (lengths_of(x)[0], shape_of(x)[1:])
    if n.choice("mode", "DCR", "CRD") == "DCR":
        y = lm.transpose(_open.reshaped(x, [size, b, b, c // (b * b), h, w]), [0, 3, 4, 1, 5, 2])
    else:
        y = lm.transpose(_open.reshaped(x, [size, c // (b * b), b, b, h, w]), [0, 1, 4, 2, 5, 3])
    return _open.reshaped(y, [size, c // (b * b), h * b, w * b])


@op("SpaceToDepth")
def space_to_depth(n, x):
    b, (size, (c, h, w)) = n.attr("blocksize"), (lengths_of(x)[0], shape_of(x)[1:])
    if h % b or w % b:
        raise n.refuse(f"blocks of {b} do not divide an image of {h} x {w}")
    y = _open.reshaped(x, [size, c, h // b, b, w // b, b])
    y = lm.transpose(y, [0, 3, 5, 1, 2, 4] if n.choice("mode", "DCR", "CRD") == "DCR" else [0, 1, 3, 5, 2, 4])
    return _open.reshaped(y, [size, c * b * b, h // b, w // b])
