"""Elementwise ops, casts and quantization."""
from __future__ import annotations

import re

import numpy as np

from .. import _core as lm
from ._table import fold, op
from ._tensors import DTYPES, FLOATS, dtype_from, dtype_of, numpy_dtype, shape_of, to_tensor

# Ops that Lamina has under the same name, in snake case, and those that it has under another.
SAME = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Sqrt Tan Tanh
          BitwiseNot Add Sub Mul Equal Less Greater BitwiseAnd BitwiseOr BitwiseXor LessOrEqual GreaterOrEqual"""
OTHER = {"IsNaN": lm.isnan, "Not": lm.logical_not, "And": lm.logical_and, "Or": lm.logical_or, "Xor": lm.logical_xor}
NAMES = {name: getattr(lm, re.sub("(?<=.)([A-Z])", r"_\1", name).lower().replace("less_or", "less").replace("greater_or", "greater")) for name in SAME.split()}


def called(function):
    return lambda n, a, b=None: function(a) if b is None else function(a, legacy(n, a, b))


def legacy(n, a, b):
    """The second operand of the one-sided broadcasts before opset 7."""
    if n.version >= 7 or not n.attr("broadcast", 0) or not n.has("axis"):
        return b
    axis = n.attr("axis") % len(shape_of(a))
    return lm.reshape(b, list(shape_of(b)) + [1] * (len(shape_of(a)) - axis - len(shape_of(b))))


for name, function in {**NAMES, **OTHER}.items():
    op(name)(called(function))
fold("Abs", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Not", "And", "Or", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Floor", "Ceil",
     "Cast", "Where", "Min", "Max", "Sqrt", "Round")


@op("Div")
def div(n, a, b):
    b = legacy(n, a, b)
    if dtype_of(a).name in FLOATS:
        return lm.div(a, b)
    down, negative = lm.floor_divide(a, b), lm.not_equal(lm.less(a, lm.zeros_like(a)), lm.less(b, lm.zeros_like(b)))
    return lm.where(lm.logical_and(negative, lm.not_equal(lm.mod(a, b), lm.zeros_like(b))), down + lm.ones_like(down), down)  # ONNX cuts integers off


@op("Mod")
def mod(n, a, b):
    return lm.fmod(a, b) if n.attr("fmod", 0) else lm.mod(a, b)


@op("Pow")
def power(n, a, b):
    b = legacy(n, a, b)
    if a.dtype.name == b.dtype.name:
        return lm.pow(a, b)
    if a.dtype.name in FLOATS:
        return lm.pow(a, lm.astype(b, a.dtype))
    return lm.astype(lm.pow(lm.astype(a, lm.float64), lm.astype(b, lm.float64)), a.dtype)


def folded_over(function):
    def all_of(n, *values):
        if not values:
            raise n.refuse("it has no input")
        out = values[0]
        for v in values[1:]:
            out = function(out, v)
        return lm.add(out, lm.zeros_like(out)) if len(values) == 1 and n.op == "Sum" else out
    return all_of


op("Max")(folded_over(lm.maximum))
op("Min")(folded_over(lm.minimum))
op("Sum")(folded_over(lm.add))
op("Mean")(lambda n, *values: folded_over(lm.add)(n, *values) / len(values))
op("Where")(lambda n, c, a, b: lm.where(c, a, b))


@op("BitShift")
def bit_shift(n, a, b):
    return (lm.shift_left if n.choice("direction", "LEFT", "RIGHT") == "LEFT" else lm.shift_right)(a, b)


@op("IsInf")
def is_inf(n, x):
    both = lm.isinf(x)
    if not n.attr("detect_negative", 1):
        both = lm.logical_and(both, x > 0)
    return both if n.attr("detect_positive", 1) else lm.logical_and(both, x < 0)


@op("Clip")
def clip(n, x, low=None, high=None):
    if n.version < 11:
        low, high = (None if v is None else lm.constant(v, x.dtype) for v in (n.attr("min"), n.attr("max")))
    x = x if low is None else lm.maximum(x, lm.reshape(low, []))
    return x if high is None else lm.minimum(x, lm.reshape(high, []))


@op("LeakyRelu")
def leaky_relu(n, x):
    return lm.leaky_relu(x, n.attr("alpha", 0.01))


@op("PRelu")
def prelu(n, x, slope):
    return lm.where(lm.less(x, lm.zeros_like(x)), x * slope, x)


@op("Elu")
def elu(n, x):
    return lm.elu(x, n.attr("alpha", 1.0))


@op("Celu")
def celu(n, x):
    alpha = n.attr("alpha", 1.0)
    return lm.elu(x / alpha, 1.0) * alpha


@op("Selu")
def selu(n, x):
    return lm.elu(x, n.attr("alpha", 1.67326319217681884765625)) * n.attr("gamma", 1.05070102214813232421875)


@op("HardSigmoid")
def hard_sigmoid(n, x):
    return lm.clip(x * n.attr("alpha", 0.2) + n.attr("beta", 0.5), 0.0, 1.0)


@op("HardSwish")
def hard_swish(n, x):
    return x * lm.clip(x * (1 / 6) + 0.5, 0.0, 1.0)


@op("Gelu")
def gelu(n, x):
    return lm.gelu(x, n.choice("approximate", "none", "tanh") == "tanh")


@op("Mish")
def mish(n, x):
    return x * lm.tanh(lm.softplus(x))


@op("Swish")
def swish(n, x):
    alpha = n.attr("alpha", 1.0)
    return lm.silu(x) if alpha == 1 else x * lm.sigmoid(x * alpha)


@op("Softsign")
def softsign(n, x):
    return x / (lm.abs(x) + 1.0)


@op("ThresholdedRelu")
def thresholded_relu(n, x):
    return lm.where(x > n.attr("alpha", 1.0), x, lm.zeros_like(x))


@op("Shrink")
def shrink(n, x):
    bias, edge = n.attr("bias", 0.0), n.attr("lambd", 0.5)
    if x.dtype.name not in FLOATS:
        bias = int(bias)
    return lm.where(x < -edge if x.dtype.name in FLOATS else lm.astype(x, lm.float64) < -edge, x + bias,
                    lm.where(x > edge if x.dtype.name in FLOATS else lm.astype(x, lm.float64) > edge, x - bias, lm.zeros_like(x)))


# --- dtypes ---


def cast_to(x, dtype):
    if x.dtype.name == dtype.name:
        return x
    if x.dtype.name in FLOATS and dtype.name in ("int8", "int16", "uint8", "uint16"):
        return lm.astype(lm.astype(x, lm.int32), dtype)  # wraps, as C does
    return lm.astype(x, dtype)


@op("Cast", raw=True)
def cast(n, x):
    code = n.attr("to")
    if isinstance(code, str):  # before opset 6
        import onnx
        code = onnx.TensorProto.DataType.Value(code)
    if code not in DTYPES:
        raise n.refuse(f"it casts to a dtype that Lamina does not have ({code})")
    return cast_to(to_tensor(x), dtype_from(code))


@op("CastLike")
def cast_like(n, x, like):
    return cast_to(x, like.dtype)


@op("BitCast")
def bit_cast(n, x):
    wanted = dtype_from(n.attr("to"))
    if wanted.name == x.dtype.name:
        return x
    return np.array(n.known(0), order="C").view(numpy_dtype(wanted.name))


# --- quantization ---

LIMITS = {"uint8": (0, 255), "uint16": (0, 65535), "int8": (-128, 127), "int16": (-32768, 32767)}


def along(v, x, axis, block=0):
    """A scale or zero point, shaped so that it broadcasts with x."""
    dims = shape_of(v)
    if len(dims) == 0 or (len(dims) == 1 and dims[0] == 1):
        return lm.reshape(v, [])
    if block:
        return lm.repeat(v, block, axis % len(shape_of(x)))[tuple(slice(0, d) for d in shape_of(x))]
    if len(dims) > 1:
        return v
    shape = [1] * len(shape_of(x))
    shape[axis] = dims[0]
    return lm.reshape(v, shape)


def quantized(n, x, scale, zero, axis=1, block=0, dtype=None):
    dtype = zero.dtype if zero is not None else dtype or lm.uint8
    if dtype.name not in LIMITS:
        raise n.refuse(f"it quantizes to {dtype.name}")
    low, high = LIMITS[dtype.name]
    scale = lm.astype(along(scale, x, axis, block), lm.float32)
    y = lm.round(lm.astype(x, lm.float32) / scale)
    if zero is not None:
        y = y + lm.astype(along(zero, x, axis, block), lm.float32)
    return lm.astype(lm.clip(y, float(low), float(high)), dtype)


def dequantized(n, x, scale, zero, axis=1, block=0):
    y = lm.astype(x, lm.float32)
    if zero is not None:
        y = y - lm.astype(along(zero, x, axis, block), lm.float32)
    return lm.astype(y * lm.astype(along(scale, x, axis, block), lm.float32), scale.dtype)


@op("QuantizeLinear")
def quantize_linear(n, x, scale, zero=None):
    code = n.attr("output_dtype", 0)
    return quantized(n, x, scale, zero, n.attr("axis", 1), n.attr("block_size", 0), dtype_from(code) if code else None)


@op("DequantizeLinear")
def dequantize_linear(n, x, scale, zero=None):
    y = dequantized(n, x, scale, zero, n.attr("axis", 1), n.attr("block_size", 0))
    code = n.attr("output_dtype", 0)
    return lm.astype(y, dtype_from(code)) if code else y


def centred(x, zero, axis):
    y = lm.astype(x, lm.int32)
    return y if zero is None else y - lm.astype(along(zero, y, axis), lm.int32)


@op("MatMulInteger")
def matmul_integer(n, a, b, a_zero=None, b_zero=None):
    return lm.matmul(centred(a, a_zero, -2), centred(b, b_zero, -1))


@op("QLinearMatMul")
def qlinear_matmul(n, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    product = lm.astype(lm.matmul(centred(a, a_zero, -2), centred(b, b_zero, -1)), lm.float32)
    factor = lm.astype(along(a_scale, product, -2), lm.float32) * lm.astype(along(b_scale, product, -1), lm.float32)
    return quantized(n, product * factor, y_scale, y_zero, -2)
