"""Softmax, normalization, losses, dropout and draws."""
from __future__ import annotations

import numpy as np

from .. import _core as lm
from ._open import full, lengths_of, product, reshaped
from ._shapes import axis_of
from ._table import op
from ._tensors import HALVES, dtype_from, in_float32, shape_of


def softmax_with(function):
    def computed(n, x):
        axis = n.attr("axis", -1 if n.version >= 13 else 1)
        if n.version >= 13:
            return function(x, axis_of(n, axis, x.ndim))
        dims = lengths_of(x)  # before opset 13 all axes from this one on are one
        axis = axis_of(n, axis, x.ndim)
        return reshaped(function(reshaped(x, [product(dims[:axis]), product(dims[axis:])]), -1), dims)
    return computed


op("Softmax")(softmax_with(lm.softmax))
op("LogSoftmax")(softmax_with(lm.log_softmax))
op("Hardmax")(softmax_with(lambda x, axis: lm.moveaxis(lm.one_hot(lm.argmax(x, axis), shape_of(x)[axis], x.dtype), -1, axis)))


def by_channel(v, rank):
    return lm.reshape(v, [1, -1] + [1] * (rank - 2))


@op("BatchNormalization")
def batch_normalization(n, x, scale, offset, mean, variance):
    epsilon, momentum = n.attr("epsilon", 1e-5), n.attr("momentum", 0.9)
    dtype = x.dtype
    wide = lambda v: lm.astype(v, lm.float32) if v.dtype.name in HALVES else v.read() if isinstance(v, lm.Variable) else v
    x, scale, offset, mean_in, variance_in = map(wide, (x, scale, offset, mean, variance))
    training = n.attr("training_mode", 0) if n.version >= 14 else (n.version < 7 and not n.attr("is_test", 0)) and n.wanted(1)
    used_mean, used_variance = mean_in, variance_in
    if training:
        axes = tuple(a for a in range(x.ndim) if a != 1)
        used_mean, used_variance = lm.mean(x, axes), lm.var(x, axes)
    y = (x - by_channel(used_mean, x.ndim)) * by_channel(lm.rsqrt(used_variance + epsilon) * scale, x.ndim) + by_channel(offset, x.ndim)
    y = lm.astype(y, dtype)
    if not training:
        return y
    running = [lm.astype(old * momentum + new * (1 - momentum), source.dtype)
               for old, new, source in ((mean_in, used_mean, mean), (variance_in, used_variance, variance))]
    return (y, *running)


@op("InstanceNormalization")
@in_float32
def instance_normalization(n, x, scale, offset):
    axes = tuple(range(2, x.ndim))
    y = (x - lm.mean(x, axes, True)) * lm.rsqrt(lm.var(x, axes, True) + n.attr("epsilon", 1e-5))
    return y * by_channel(scale, x.ndim) + by_channel(offset, x.ndim)


@op("LayerNormalization")
def layer_normalization(n, x, scale, offset=None):
    axes = tuple(range(axis_of(n, n.attr("axis", -1), x.ndim), x.ndim))
    wide = x.dtype if x.dtype.name == "float64" else lm.float32
    v = lm.astype(x, wide)
    mean = lm.mean(v, axes, True)
    inverse = lm.rsqrt(lm.mean(lm.square(v - mean), axes, True) + n.attr("epsilon", 1e-5))
    y = lm.astype((v - mean) * inverse, x.dtype) * scale
    return (y if offset is None else y + offset), mean, inverse


@op("LRN")
@in_float32
def local_response(n, x):
    size, channels = n.attr("size"), shape_of(x)[1]
    squares = lm.pad(lm.square(x), [(0, 0), ((size - 1) // 2, size - 1 - (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    total = None
    if size > channels * 2 + 2:
        raise n.refuse(f"a window of {size} channels of {channels}")
    for i in range(size):
        part = squares[:, i:i + channels]
        total = part if total is None else total + part
    return x / lm.pow(total * (n.attr("alpha", 1e-4) / size) + n.attr("bias", 1.0), n.attr("beta", 0.75))


@op("LpNormalization")
@in_float32
def lp_normalization(n, x):
    axis, p = axis_of(n, n.attr("axis", -1), x.ndim), n.attr("p", 2)
    norm = lm.sum(lm.abs(x), axis, True) if p == 1 else lm.sqrt(lm.sum(lm.square(x), axis, True))
    return lm.where(lm.equal(norm, 0.0), lm.zeros_like(x), x / norm)


@op("Dropout", fixed=(1, 2))
def dropout(n, x, *_):
    if n.version >= 12:
        ratio, training = n.known(1), n.known(2)
        ratio = 0.5 if ratio is None else float(ratio.reshape(()))
        training = bool(training.reshape(())) if training is not None else False
    else:
        ratio, training = n.attr("ratio", 0.5), n.version < 7 and not n.attr("is_test", 0)
    if not training or ratio == 0:
        return x, full(lm.constant(True), lengths_of(x)) if n.wanted(1) else None
    kept = lm.random.uniform(shape_of(x)) >= ratio
    return lm.where(kept, x * (1 / (1 - ratio)), lm.zeros_like(x)), kept


def drawn(n, shape, dtype):
    n.room(shape)
    if n.has("seed"):
        raise n.refuse("it draws by a seed of its own", fix="leave the seed out: lm.random.set_seed decides")
    dtype = dtype or lm.float32
    if n.op.startswith("RandomNormal"):
        y = lm.random.normal(shape, n.attr("mean", 0.0), n.attr("scale", 1.0))
    else:
        y = lm.random.uniform(shape, n.attr("low", 0.0), n.attr("high", 1.0))
    return lm.astype(y, dtype)


@op("RandomNormal", "RandomUniform")
def random(n):
    return drawn(n, n.attr("shape"), dtype_from(n.attr("dtype", 1)))


@op("RandomNormalLike", "RandomUniformLike")
def random_like(n, x):
    return drawn(n, shape_of(x), dtype_from(n.attr("dtype")) if n.has("dtype") else x.dtype)


@op("Bernoulli")
def bernoulli(n, x):
    drawn_ones = lm.random.uniform(shape_of(x)) < lm.astype(x, lm.float32)
    return lm.astype(drawn_ones, dtype_from(n.attr("dtype")) if n.has("dtype") else x.dtype)


@op("Multinomial")
def multinomial(n, x):
    rows, count = shape_of(x)[0], n.attr("sample_size", 1)
    cumulated = lm.cumsum(lm.softmax(lm.astype(x, lm.float32), -1), -1)
    u = lm.random.uniform([rows, count, 1])
    places = lm.sum(lm.astype(u > lm.expand_dims(cumulated, 1), lm.int32), -1)
    return lm.astype(lm.minimum(places, shape_of(x)[1] - 1), dtype_from(n.attr("dtype", 6)))


# --- ai.onnx.preview.training and ai.onnx.ml ---

TRAINING = "ai.onnx.preview.training"


def each(inputs, kinds):
    """[(x, gradient, state...)] of the operands that follow each other by kind."""
    count = len(inputs) // kinds
    return [inputs[i::count] for i in range(count)]


@op("Momentum", domain=TRAINING)
def momentum(n, rate, step, *inputs):
    alpha, decay, nesterov = n.attr("alpha"), n.attr("norm_coefficient"), n.attr("mode") == "nesterov"
    beta = n.attr("beta") if not isinstance(n.known(1), np.ndarray) or int(n.known(1).reshape(())) > 0 else 1.0
    out = []
    for x, g, v in each(inputs, 3):
        g = g + x * decay
        v = v * alpha + g * beta
        out.append((x - rate * ((g + v * alpha) if nesterov else v), v))
    return tuple(o[i] for i in range(2) for o in out)


@op("Adagrad", domain=TRAINING)
def adagrad(n, rate, step, *inputs):
    rate = rate / (lm.astype(step, rate.dtype) * n.attr("decay_factor", 0.0) + 1.0)
    out = []
    for x, g, h in each(inputs, 3):
        g = g + x * n.attr("norm_coefficient", 0.0)
        h = h + g * g
        out.append((x - rate * g / (lm.sqrt(h) + n.attr("epsilon", 1e-6)), h))
    return tuple(o[i] for i in range(2) for o in out)


@op("Adam", domain=TRAINING)
def adam(n, rate, step, *inputs):
    alpha, beta = n.attr("alpha", 0.9), n.attr("beta", 0.999)
    t = lm.astype(step, rate.dtype)
    moved = lm.where(t > 0.0, rate * lm.sqrt(1.0 - lm.pow(beta, t)) / lm.where(t > 0.0, 1.0 - lm.pow(alpha, t), 1.0), rate)
    out = []
    for x, g, v, h in each(inputs, 4):
        g = g + x * n.attr("norm_coefficient", 0.0)
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        x = (x - moved * v / (lm.sqrt(h) + n.attr("epsilon", 1e-6))) * (1 - n.attr("norm_coefficient_post", 0.0))
        out.append((x, v, h))
    return tuple(o[i] for i in range(3) for o in out)


@op("Binarizer", domain="ai.onnx.ml")
def binarizer(n, x):
    return lm.astype(x > n.attr("threshold", 0.0), x.dtype)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(n, x, indices):
    return lm.gather(x if x.ndim > 1 else lm.reshape(x, [1, -1]), lm.reshape(indices, [-1]), -1)
