"""Images read between their points: Resize, GridSample, RoiAlign, DeformConv."""
from __future__ import annotations

import itertools
import math

import numpy as np

from .. import _core as lm
from ._open import lengths_of, reshaped
from ._table import op
from ._tensors import FLOATS, HALVES, dtype_of, in_float32, shape_of, to_tensor


# --- Resize: a matrix per axis ---


MODES = "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"


def places(n, length, out, scale, roi):
    """Where each output lies in the input."""
    mode = n.choice("coordinate_transformation_mode", *MODES) if n.version >= 11 else "asymmetric"
    x, size = np.arange(out, dtype=np.float64), scale * length
    if mode == "align_corners":
        return np.zeros(out) if size == 1 else x * (length - 1) / (size - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        inner = np.full(out, (end - start) * (length - 1) / 2) if size == 1 else x * (end - start) * (length - 1) / (size - 1)
        return inner + start * (length - 1)
    if mode == "pytorch_half_pixel" and size == 1:
        return np.full(out, -0.5)
    half = (x + 0.5) / scale - 0.5
    return half + length / 2 * (1 - out / size) if mode == "half_pixel_symmetric" else half


def cubic(v, a):
    v = np.abs(v)
    return np.where(v <= 1, (a + 2) * v**3 - (a + 3) * v**2 + 1, np.where(v < 2, a * v**3 - 5 * a * v**2 + 8 * a * v - 4 * a, 0))


def matrix(n, mode, length, out, scale, roi):
    """[out, length]: the weight of each input in each output."""
    n.room([out, length])
    x = places(n, length, out, scale, roi)
    base = np.ceil(x) - 1
    ratio = (x - base)[:, None]
    narrow = min(scale, 1) if n.attr("antialias", 0) else 1
    reach = 1 if mode == "linear" else 2
    begin = math.floor(-reach / narrow) + 1
    offsets = np.arange(begin, 2 - begin)
    v = (offsets[None] - ratio) * narrow
    weights = np.clip(1 - np.abs(v), 0, 1) if mode == "linear" else cubic(v, n.attr("cubic_coeff_a", -0.75))
    if narrow != 1 or n.attr("antialias", 0):
        weights = weights / weights.sum(1, keepdims=True)
    index = base[:, None] + offsets[None]
    if n.attr("exclude_outside", 0):
        weights = np.where((index < 0) | (index >= length), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    m = np.zeros((out, length))
    np.add.at(m, (np.arange(out)[:, None], np.clip(index, 0, length - 1).astype(int)), weights)
    return m, x


def nearest(n, length, out, scale, roi):
    x = places(n, length, out, scale, roi)
    rounding = {"round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5), "floor": np.floor, "ceil": np.ceil}
    which = n.choice("nearest_mode", *rounding) if n.version >= 11 else "floor" if scale >= 1 else "ceil"
    return np.clip(rounding[which](x), 0, length - 1).astype(np.int64), x


@op("Resize", fixed=(1, 2, 3))
def resize(n, x, *_):
    dims, mode = list(shape_of(x)), n.choice("mode", "nearest", "linear", "cubic")
    if n.version >= 11:
        roi, scales, sizes = n.known(1), n.known(2), n.ints(3, lengths=True)
    else:
        roi, scales, sizes = None, n.known(1), None
    axes = [a % x.ndim for a in n.attr("axes") or range(x.ndim)]
    if None in [dims[a] for a in axes]:
        kept = [number is not None and (number == lengths_of(x)[a] if sizes else number == 1) for a, number in zip(axes, sizes or scales)]
        if any(dims[a] is None and not k for a, k in zip(axes, kept)) or len(roi if roi is not None else ()):
            raise n.refuse("a length that it resizes is open", fix="trace with that length fixed")
        scales, sizes = ([v for v, a in zip(values, axes) if dims[a] is not None] if values is not None else None for values in (scales, sizes))
        axes = [a for a in axes if dims[a] is not None]
    if sizes:
        scales = [s / dims[a] for s, a in zip(sizes, axes)]
        policy = n.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(scales)
            scales, sizes = [one] * len(axes), [math.floor(dims[a] * one + 0.5) for a in axes]
    else:
        if scales is None or len(scales) != len(axes) or not all(np.isfinite(scales)) or min(scales) <= 0:
            raise n.refuse("its scales do not fit")
        scales = [float(s) for s in scales]
        sizes = [math.floor(dims[a] * s) for a, s in zip(axes, scales)]
    full = list(dims)
    for a, s in zip(axes, sizes):
        full[a] = s
    n.room([0 if d is None else d for d in full], dtype_of(x))
    whole, dtype = x.dtype.name not in FLOATS, x.dtype
    if mode != "nearest" and (whole or dtype.name in HALVES):
        x = lm.astype(x, lm.float32)
    outside = None
    for i, (axis, out, scale) in enumerate(zip(axes, sizes, scales)):
        crop = (0.0, 1.0) if roi is None or not len(roi) else (float(roi[i]), float(roi[i + len(axes)]))
        cropping = n.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
        if scale == 1 and out == dims[axis] and not cropping:
            continue
        if mode == "nearest":
            index, at = nearest(n, dims[axis], out, scale, crop)
            x = lm.gather(x, lm.constant(index), axis)
        else:
            m, at = matrix(n, mode, dims[axis], out, scale, crop)
            x = lm.moveaxis(lm.tensordot(x, to_tensor(m.T.astype(x.dtype.name)), [[axis], [0]]), -1, axis)
        if cropping:
            shape = [1] * x.ndim
            shape[axis] = out
            missed = ((at < 0) | (at > dims[axis] - 1)).reshape(shape)
            outside = missed if outside is None else outside | missed
    if outside is not None and outside.any():
        x = lm.where(to_tensor(outside), n.attr("extrapolation_value", 0.0), x)
    return x if x.dtype.name == dtype.name else lm.astype(lm.round(x) if whole else x, dtype)


@op("Upsample", fixed=(1,))
def upsample(n, x, _=None):
    scales = [float(v) for v in (n.known(1) if n.version >= 9 else n.attr("scales"))]
    n.room([d if d is None else math.floor(d * s) for d, s in zip(shape_of(x), scales)], x.dtype)
    for axis, scale in enumerate(scales):
        length = shape_of(x)[axis]
        if scale == 1:
            continue
        if length is None:
            raise n.refuse("a length that it resizes is open", fix="trace with that length fixed")
        at = np.arange(math.floor(length * scale)) / scale
        if n.choice("mode", "nearest", "linear") == "nearest":
            x = lm.gather(x, lm.constant(np.floor(at).astype(np.int64)), axis)
        else:
            low = np.floor(at).astype(int)
            m = np.zeros((len(at), length))
            np.add.at(m, (np.arange(len(at)), low), 1 - (at - low))
            np.add.at(m, (np.arange(len(at)), np.minimum(low + 1, length - 1)), at - low)
            x = lm.moveaxis(lm.tensordot(x, to_tensor(m.T.astype(x.dtype.name)), [[axis], [0]]), -1, axis)
    return x


# --- points that are computed ---


def read_at(x, index):
    """x [n, c, d1, d2, ...] at whole places, one tensor [n, p] per axis -> [n, c, p]; zero outside."""
    dims, flat, inside = shape_of(x)[2:], None, None
    for i, d in zip(index, dims):
        within = lm.logical_and(i >= 0, i < d)
        inside = within if inside is None else lm.logical_and(inside, within)
        i = lm.clip(i, 0, d - 1)
        flat = i if flat is None else flat * d + i
    rows = lm.moveaxis(reshaped(x, [*lengths_of(x)[:2], math.prod(dims)]), 1, 2)
    values = lm.moveaxis(lm.gather(rows, flat, 1, batch_axes=1), 1, 2)
    return lm.where(lm.expand_dims(inside, 1), values, lm.zeros_like(values))


def between(x, at, read=read_at):
    """x at places between its points, by the 2^axes points around each."""
    low = [lm.floor(v) for v in at]
    total = None
    for corner in itertools.product((0, 1), repeat=len(at)):
        weight = None
        for v, l, c in zip(at, low, corner):
            part = v - l if c else 1 - (v - l)
            weight = part if weight is None else weight * part
        value = read(x, [lm.astype(l, lm.int64) + c for l, c in zip(low, corner)]) * lm.expand_dims(weight, 1)
        total = value if total is None else total + value
    return total


def reflected(v, low, high):
    """Numbers thrown back between two bounds."""
    span = high - low
    if span <= 0:
        return lm.zeros_like(v) + low
    far = lm.mod(lm.abs(v - low), 2 * span)
    return low + lm.minimum(far, 2 * span - far)


@op("GridSample")
@in_float32
def grid_sample(n, x, grid):
    mode = n.choice("mode", "linear", "bilinear", "nearest", "cubic", "bicubic").removeprefix("bi")
    padding, corners = n.choice("padding_mode", "zeros", "border", "reflection"), n.attr("align_corners", 0)
    dims, batch, out = shape_of(x)[2:], lengths_of(x)[0], shape_of(grid)[1:-1]
    flat = lm.astype(reshaped(grid, [lengths_of(grid)[0], math.prod(out), len(dims)]), x.dtype)
    at = []
    for i, d in enumerate(dims):
        v = flat[..., len(dims) - 1 - i]
        at.append((v + 1) * ((d - 1) / 2) if corners else ((v + 1) * d - 1) / 2)

    def folded(v, d):
        if padding == "border":
            return lm.clip(v, 0, d - 1)
        if padding == "reflection":
            low, high = (0.0, d - 1.0) if corners else (-0.5, d - 0.5)
            return lm.clip(reflected(v, low, high), 0, d - 1)
        return v

    def read(x, index):
        return read_at(x, [lm.astype(folded(lm.astype(i, lm.float32), d), lm.int64) for i, d in zip(index, dims)] if padding != "zeros" else index)

    if mode == "nearest":
        y = read(x, [lm.astype(lm.round(folded(v, d)), lm.int64) for v, d in zip(at, dims)])
    elif mode == "linear":
        y = between(x, [folded(v, d) for v, d in zip(at, dims)], read)
    else:
        low, y = [lm.floor(v) for v in at], None
        coefficient = [[cubic_of(v - l - k) for k in range(-1, 3)] for v, l in zip(at, low)]
        for place in itertools.product(range(4), repeat=len(dims)):
            weight = None
            for c, k in zip(coefficient, place):
                weight = c[k] if weight is None else weight * c[k]
            value = read(x, [lm.astype(l, lm.int64) + (k - 1) for l, k in zip(low, place)]) * lm.expand_dims(weight, 1)
            y = value if y is None else y + value
    return reshaped(y, [batch, shape_of(x)[1], *out])


def cubic_of(v, a=-0.75):
    v = lm.abs(v)
    near = ((a + 2) * v - (a + 3)) * v * v + 1
    far = ((a * v - 5 * a) * v + 8 * a) * v - 4 * a
    return lm.where(v <= 1.0, near, lm.where(v < 2.0, far, lm.zeros_like(v)))


@op("RoiAlign")
@in_float32
def roi_align(n, x, rois, batches):
    height, width, ratio = n.attr("output_height", 1), n.attr("output_width", 1), n.attr("sampling_ratio", 0)
    scale, mode = n.attr("spatial_scale", 1.0), n.choice("mode", "avg", "max")
    half = n.version >= 16 and n.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel"
    if ratio <= 0:
        raise n.refuse("its sampling_ratio is 0: how many points it reads follows from data")
    count, (h, w) = shape_of(rois)[0], shape_of(x)[2:]
    box = rois * scale - (0.5 if half else 0.0)
    x1, y1, x2, y2 = (lm.reshape(box[:, i], [count, 1]) for i in range(4))
    wide, tall = x2 - x1, y2 - y1
    if not half:
        wide, tall = lm.maximum(wide, 1.0), lm.maximum(tall, 1.0)
    steps = lambda parts: lm.constant(((np.arange(parts * ratio) + 0.5) / (parts * ratio)).astype(np.float32)[None])
    ys, xs = y1 + tall * steps(height), x1 + wide * steps(width)
    py = lm.reshape(lm.broadcast_to(lm.expand_dims(ys, 2), [count, height * ratio, width * ratio]), [count, -1])
    px = lm.reshape(lm.broadcast_to(lm.expand_dims(xs, 1), [count, height * ratio, width * ratio]), [count, -1])
    image = lm.gather(x, batches, 0)
    inside = lm.logical_and(lm.logical_and(py >= -1.0, py <= float(h)), lm.logical_and(px >= -1.0, px <= float(w)))
    py, px = lm.clip(py, 0.0, h - 1.0), lm.clip(px, 0.0, w - 1.0)
    if mode == "avg":
        v = between(image, [py, px])
    else:  # the largest of the weighted points around
        best, low = None, [lm.floor(py), lm.floor(px)]
        for a, b in itertools.product((0, 1), repeat=2):
            weight = (py - low[0] if a else 1 - (py - low[0])) * (px - low[1] if b else 1 - (px - low[1]))
            part = read_at(image, [lm.astype(low[0], lm.int64) + a, lm.astype(low[1], lm.int64) + b]) * lm.expand_dims(weight, 1)
            best = part if best is None else lm.maximum(best, part)
        v = best
    v = lm.where(lm.expand_dims(inside, 1), v, lm.zeros_like(v))
    v = lm.reshape(v, [count, shape_of(x)[1], height, ratio, width, ratio])
    return lm.mean(v, (3, 5)) if mode == "avg" else lm.max(v, (3, 5))


@op("DeformConv")
@in_float32
def deform_conv(n, x, w, offset, b=None, mask=None):
    from ._windows import Window, with_bias
    if x.ndim != 4:
        raise n.refuse(f"it has {x.ndim - 2} axes, 2 are run")
    window = Window(n, shape_of(x)[2:], shape_of(w)[2:])
    batch, channels = shape_of(x)[:2]
    groups, shifts, out = n.attr("group", 1), n.attr("offset_group", 1), window.out
    points, spots = math.prod(window.kernel), math.prod(out)
    offset = lm.reshape(offset, [batch, shifts, points, 2, spots])
    mask = None if mask is None else lm.reshape(mask, [batch, shifts, points, spots])
    columns = []
    for s in range(shifts):
        part, column = x[:, s * channels // shifts:(s + 1) * channels // shifts], []
        for k, place in enumerate(itertools.product(*(range(v) for v in window.kernel))):
            at = []
            for i in range(2):
                start = np.arange(out[i]) * window.strides[i] - window.pads[i][0] + place[i] * window.dilations[i]
                grid = np.broadcast_to(start[:, None] if i == 0 else start[None], out).reshape(1, spots).astype(np.float32)
                at.append(offset[:, s, k, i] + lm.constant(np.ascontiguousarray(grid)))
            value = between(part, at)
            column.append(value if mask is None else value * lm.expand_dims(mask[:, s, k], 1))
        columns.append(lm.stack(column, 2))
    columns = lm.concat(columns, 1) if len(columns) > 1 else columns[0]
    columns = lm.reshape(columns, [batch, groups, channels // groups * points, spots])
    kernel = lm.reshape(w, [1, groups, shape_of(w)[0] // groups, -1])
    y = lm.reshape(lm.matmul(kernel, columns), [batch, shape_of(w)[0], *out])
    return with_bias(y, b)
