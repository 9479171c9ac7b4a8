"""Products, sums over axes, and what is made of them."""
from __future__ import annotations

import math

import numpy as np

from .. import _core as lm
from ._shapes import axis_of
from ._table import op
from ._tensors import FLOATS, dtype_from, in_float32, shape_of, to_tensor


@op("MatMul")
def matmul(n, a, b):
    return lm.matmul(a, b)


@op("Gemm")
def gemm(n, a, b, c=None):
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    y = lm.matmul(a, b, bool(n.attr("transA", 0)), bool(n.attr("transB", 0)))
    scaled = lambda v, by: v if by == 1 else v * (by if v.dtype.name in FLOATS else int(by))
    return scaled(y, alpha) if c is None else scaled(y, alpha) + scaled(c, beta)


@op("Einsum")
def einsum(n, *operands):
    return lm.einsum(n.attr("equation").replace(" ", ""), *operands)


# --- sums over axes ---


def axes_of(n, x, position=1, since=18):
    """The axes that a reduction sums over; none: all, or none at all (noop_with_empty_axes)."""
    axes = n.ints(position) if n.version >= since else n.attr("axes")
    if not axes:
        return () if n.attr("noop_with_empty_axes", 0) else tuple(range(x.ndim))
    return tuple(axis_of(n, a, x.ndim) for a in axes)


def reduction(name, function, since=18):
    @op(name, fixed=(1,))
    def reduce(n, x, _=None):
        axes, keep = axes_of(n, x, since=since), bool(n.attr("keepdims", 1))
        return function(x, axes, keep)


def counted(x, axes):
    return math.prod(shape_of(x)[a] for a in axes)


def extreme(function, empty):
    def reduce(x, axes, keep):
        if not axes:
            return x
        if x.dtype.name == "bool":
            return lm.astype(reduce(lm.astype(x, lm.uint8), axes, keep), lm.bool)
        if None not in shape_of(x) and counted(x, axes) == 0:
            shape = [1 if i in axes else d for i, d in enumerate(shape_of(x)) if keep or i not in axes]
            low, high = (-math.inf, math.inf) if x.dtype.name in FLOATS else (np.iinfo(x.dtype.name).min, np.iinfo(x.dtype.name).max)
            return lm.full(shape, high if empty == "high" else low, x.dtype)
        return function(x, axes, keep)
    return reduce


def mean(x, axes, keep):
    if not axes:
        return x
    return lm.mean(x, axes, keep) if x.dtype.name in FLOATS else lm.floor_divide(lm.sum(x, axes, keep), counted(x, axes))


def log_sum_exp(x, axes, keep):
    return lm.logsumexp(x, axes, keep) if x.dtype.name in FLOATS else lm.astype(lm.logsumexp(lm.astype(x, lm.float64), axes, keep), x.dtype)


def through_float(function):
    return lambda x, axes, keep: function(x, axes, keep) if x.dtype.name in FLOATS else lm.astype(function(lm.astype(x, lm.float64), axes, keep), x.dtype)


total = lambda x, axes, keep: lm.sum(x, axes, keep) if axes else x
reduction("ReduceSum", total, 13)
reduction("ReduceProd", lambda x, axes, keep: lm.prod(x, axes, keep) if axes else x)
reduction("ReduceMax", extreme(lm.max, "low"))
reduction("ReduceMin", extreme(lm.min, "high"))
reduction("ReduceMean", mean)
reduction("ReduceL1", lambda x, axes, keep: total(lm.abs(x), axes, keep))
reduction("ReduceL2", through_float(lambda x, axes, keep: lm.sqrt(total(lm.square(x), axes, keep))))
reduction("ReduceSumSquare", lambda x, axes, keep: total(lm.square(x), axes, keep))
reduction("ReduceLogSum", through_float(lambda x, axes, keep: lm.log(total(x, axes, keep))))
reduction("ReduceLogSumExp", lambda x, axes, keep: log_sum_exp(x, axes, keep) if axes else x)


@op("CumSum", fixed=(1,))
def cumsum(n, x, _):
    return lm.cumsum(x, axis_of(n, n.ints(1)[0], x.ndim), bool(n.attr("reverse", 0)), bool(n.attr("exclusive", 0)))


@op("CumProd", fixed=(1,))
def cumprod(n, x, _):
    axis = axis_of(n, n.ints(1)[0], x.ndim)
    y = lm.moveaxis(x, axis, 0)

    def step(product, factor):
        after = product * factor
        return after, (product if n.attr("exclusive", 0) else after)

    _, out = lm.scan(step, lm.ones(shape_of(y)[1:], x.dtype), y, reverse=bool(n.attr("reverse", 0)))
    return lm.moveaxis(out, 0, axis)


@op("Det")
@in_float32
def det(n, x):
    size, batch = shape_of(x)[-1], shape_of(x)[:-2]
    y = lm.reshape(x, [-1, size, size])
    rows = lm.arange(size, dtype=lm.int64)
    count = shape_of(y)[0]
    value = lm.ones([count], x.dtype)
    for k in range(size):  # elimination with the largest pivot
        column = lm.where(lm.reshape(rows, [1, -1]) >= k, lm.abs(y[:, :, k]), lm.full([count, size], -1.0, x.dtype))
        pivot = lm.argmax(column, 1)
        order = lm.where(lm.equal(lm.reshape(rows, [1, -1]), k), lm.reshape(pivot, [-1, 1]),
                         lm.where(lm.equal(lm.reshape(rows, [1, -1]), lm.reshape(pivot, [-1, 1])), lm.full([count, size], k, lm.int64), lm.reshape(rows, [1, -1])))
        y = lm.gather(y, order, 1, batch_axes=1)
        value = value * lm.where(lm.equal(pivot, k), lm.ones([count], x.dtype), -lm.ones([count], x.dtype)) * y[:, k, k]
        top = lm.where(lm.equal(y[:, k:k + 1, k:k + 1], 0.0), lm.ones([count, 1, 1], x.dtype), y[:, k:k + 1, k:k + 1])
        factor = lm.where(lm.reshape(rows, [1, -1, 1]) > k, y[:, :, k:k + 1] / top, lm.zeros([count, size, 1], x.dtype))
        y = y - factor * y[:, k:k + 1, :]
    return lm.reshape(value, list(batch))


# --- Fourier transforms and windows ---


def fourier(n, x, axis, length, inverse, onesided):
    """x [..., 1 or 2] along an axis."""
    full = inverse and onesided  # the missing half is the conjugate
    if length is None:
        length = 2 * (shape_of(x)[axis] - 1) if full else shape_of(x)[axis]
    n.room([length])
    y = lm.moveaxis(x, axis, -2)
    have = shape_of(y)[-2]
    given = length // 2 + 1 if full else length
    if have > given:
        y = y[..., :given, :]
    elif have < given:
        y = lm.pad(y, [(0, 0)] * (y.ndim - 2) + [(0, given - have), (0, 0)])
    real = y[..., 0]
    imaginary = y[..., 1] if shape_of(y)[-1] == 2 else lm.zeros_like(real)
    if full:
        rest = slice(1, length - given + 1)
        real, imaginary = lm.concat([real, lm.flip(real[..., rest], -1)], -1), lm.concat([imaginary, -lm.flip(imaginary[..., rest], -1)], -1)
    out = lm.linalg.fft(lm.astype(lm.stack([real, imaginary], -1), lm.float64), inverse)
    out = out[..., :1] if full else out[..., :length // 2 + 1, :] if onesided else out
    return lm.moveaxis(lm.astype(out / float(length) if inverse else out, x.dtype), -2, axis)


@op("DFT", fixed=(1, 2))
def dft(n, x, *_):
    axis = (n.ints(2) or [-2])[0] if n.version >= 20 else n.attr("axis", 1)
    return fourier(n, x, axis_of(n, axis, x.ndim), (n.ints(1) or [None])[0], bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0)))


@op("STFT", fixed=(1, 3))
def stft(n, signal, _, window=None, __=None):
    step, length = n.ints(1)[0], (n.ints(3) or [None])[0]
    length = length or shape_of(window)[0]
    frames = (shape_of(signal)[1] - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    y = lm.gather(signal, lm.constant(places), 1)
    if y.ndim == 3:
        y = lm.expand_dims(y, -1)
    if window is not None:
        y = y * lm.reshape(window, [1, 1, length, 1])
    return fourier(n, y, 2, length, False, bool(n.attr("onesided", 1)))


@op("HannWindow", "HammingWindow", "BlackmanWindow", fixed=(0,))
def window(n, _):
    size = n.ints(0)[0]
    n.room([size])
    t = np.arange(size) / (size if n.attr("periodic", 1) else max(size - 1, 1)) * 2 * np.pi
    parts = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0), "BlackmanWindow": (0.42, 0.5, 0.08)}[n.op]
    return lm.astype(to_tensor(parts[0] - parts[1] * np.cos(t) + parts[2] * np.cos(2 * t)), dtype_from(n.attr("output_datatype", 1)))


@op("MelWeightMatrix", fixed=(0, 1, 2, 3, 4))
def mel_weight_matrix(n, *_):
    bins, length, rate, low, high = (n.known(i).reshape(())[()] for i in range(5))
    n.room([length // 2 + 1, bins])
    mel = lambda f: 2595 * np.log1p(f / 700) / np.log(10)
    edges = mel(low) + np.arange(int(bins) + 2) * ((mel(high) - mel(low)) / (int(bins) + 2))
    places = ((int(length) + 1) * (700 * np.expm1(edges / 2595 * np.log(10))) // rate).astype(int)
    out = np.zeros((int(length) // 2 + 1, int(bins)))
    for i in range(int(bins)):
        a, b, c = places[i:i + 3]
        out[b, i] = 1
        for j in range(a, b):
            out[j, i] = (j - a) / (b - a)
        for j in range(b, c):
            out[j, i] = (c - j) / (c - b)
    return lm.astype(to_tensor(out), dtype_from(n.attr("output_datatype", 1)))
