"""What each op of Lamina's graph is in ONNX: {op: function(exporter, node, *inputs)}, which returns names."""
from __future__ import annotations

import math
import re

import numpy as np

from ._tensors import CODES, array_of, pairs_of

EXPORTED: dict = {}


def export(*names):
    def add(function):
        for name in names:
            EXPORTED[name] = function
        return function
    return add


# --- elementwise: ONNX has most by the same name in camel case ---

SAME = """Abs Acos Acosh Add Asin Asinh Atan Atanh Cos Cosh Div Erf Exp Log Mul Neg Pow Reciprocal Sigmoid Sign Sin Sinh Softplus Sqrt Sub Tan Tanh Where"""
for camel in SAME.split():
    EXPORTED[re.sub("(?<=.)([A-Z])", r"_\1", camel).lower()] = lambda e, n, *x, op=camel: e.add(op, *x)
OTHER = {"maximum": "Max", "minimum": "Min", "logical_and": "And", "logical_or": "Or", "logical_not": "Not", "logical_xor": "Xor", "gelu": "Gelu"}
for name, camel in OTHER.items():
    EXPORTED[name] = lambda e, n, *x, op=camel: e.add(op, *x)
for camel in ("Ceil", "Floor", "Round"):  # of whole numbers they are the numbers
    EXPORTED[camel.lower()] = lambda e, n, x, op=camel: e.add(op, x) if x.floating else x
for name, camel in (("equal", "Equal"), ("less", "Less"), ("greater", "Greater"), ("less_equal", "LessOrEqual"), ("greater_equal", "GreaterOrEqual")):
    EXPORTED[name] = lambda e, n, a, b, op=camel: e.add(op, a, b)
for name, camel in (("bitwise_and", "And"), ("bitwise_or", "Or"), ("bitwise_xor", "Xor"), ("bitwise_not", "Not")):
    EXPORTED[name] = lambda e, n, *x, op=camel: e.add(op if x[0].dtype == "bool" else "Bitwise" + op, *x)


def negative(x):
    """Whether x has a minus sign, as -0 has."""
    return "Or", ("Less", x, 0), ("Less", ("Reciprocal", x), 0)


def within(x, far):
    """x, but no further from 0 than where a slope has reached its limit: infinity times 0 is NaN."""
    return "Max", ("Min", x, far), -far


# Formulas of ops that ONNX does not have; a number is a scalar of the first operand's dtype.
FORMULAS = {
    "cbrt": lambda x: ("Mul", ("Sign", x), ("Pow", ("Abs", x), 1 / 3)),
    "clip": lambda x, low, high: ("Min", ("Max", x, low), high),
    "erfc": lambda x: ("Sub", 1, ("Erf", x)),
    "exp2": lambda x: ("Pow", 2, x),
    # Both lose no digits where x is small.
    "expm1": lambda x: ("Where", ("Less", ("Abs", x), 1), ("Div", ("Mul", 2, ("Tanh", ("Mul", x, 0.5))), ("Sub", 1, ("Tanh", ("Mul", x, 0.5)))), ("Sub", ("Exp", x), 1)),
    "log1p": lambda x: ("Where", ("Equal", ("Add", x, 1), 1), x, (
        "Where", ("Less", ("Abs", x), 0.5), ("Mul", ("Log", ("Add", x, 1)), ("Div", x, ("Sub", ("Add", x, 1), 1))), ("Log", ("Add", x, 1)))),
    "log10": lambda x: ("Mul", ("Log", x), 1 / math.log(10)),
    "log2": lambda x: ("Mul", ("Log", x), 1 / math.log(2)),
    "logaddexp": lambda a, b: ("Where", ("Equal", a, b), ("Add", a, math.log(2)), ("Add", ("Max", a, b), ("Log", ("Add", 1, ("Exp", ("Neg", ("Abs", ("Sub", a, b)))))))),
    "rsqrt": lambda x: ("Reciprocal", ("Sqrt", x)),
    "square": lambda x: ("Mul", x, x),
    "silu": lambda x: ("Where", ("Less", x, -1e4), -0.0, ("Mul", x, ("Sigmoid", x))),
    "elu": lambda x, alpha: ("Where", ("Greater", x, 0), x, ("Mul", alpha, ("Sub", ("Exp", ("Min", x, 0)), 1))),
    "leaky_relu": lambda x, slope: ("Where", ("Greater", x, 0), x, ("Mul", slope, x)),
    "atan2": lambda a, b: ("Mul", ("Where", negative(a), -1, 1), ("Abs", ("Sub", ("Where", negative(b), math.pi, 0), (
        "Where", ("Equal", ("Abs", a), ("Abs", b)), ("Where", ("Equal", a, 0), 0, math.pi / 4), ("Atan", ("Abs", ("Div", a, b))))))),
    "relu_grad": lambda dy, y: ("Where", ("Greater", y, 0), dy, 0),
    "tanh_grad": lambda dy, y: ("Mul", dy, ("Sub", 1, ("Mul", y, y))),
    "sigmoid_grad": lambda dy, y: ("Mul", dy, ("Mul", y, ("Sub", 1, y))),
    "elu_grad": lambda dy, x, alpha: ("Where", ("Greater", x, 0), dy, ("Mul", dy, ("Mul", alpha, ("Exp", ("Min", x, 0))))),
    "leaky_relu_grad": lambda dy, y, slope: ("Where", ("Greater", y, 0), dy, ("Mul", slope, dy)),
    "softplus_grad": lambda dy, y: ("Mul", dy, ("Sub", 1, ("Exp", ("Neg", y)))),
    "silu_grad": lambda dy, x: ("Mul", dy, ("Mul", ("Sigmoid", x), ("Add", 1, ("Mul", within(x, 1e4), ("Sub", 1, ("Sigmoid", x)))))),
    "gelu_grad": lambda dy, x: ("Mul", dy, ("Add", ("Mul", 0.5, ("Add", 1, ("Erf", ("Mul", x, math.sqrt(0.5))))),
                                            ("Mul", within(x, 1e2), ("Mul", 1 / math.sqrt(2 * math.pi), ("Exp", ("Mul", -0.5, ("Mul", x, x))))))),
}


def formula(e, n, *x):
    def written(part):
        return tuple([part[0], *map(written, part[1:])]) if isinstance(part, tuple) else e.like(x[0], part) if isinstance(part, (int, float)) else part
    return e.chain(*written(FORMULAS[n.op](*x)))


for name in FORMULAS:
    EXPORTED[name] = formula


@export("gelu_tanh")
def gelu_tanh(e, n, x):
    return e.add("Gelu", x, approximate="tanh")


@export("gelu_tanh_grad")
def gelu_tanh_grad(e, n, dy, x):
    c = math.sqrt(2 / math.pi)
    k = lambda v, x=x: e.like(x, v)
    x = e.chain("Max", ("Min", x, k(1e2)), k(-1e2))
    square = e.add("Mul", x, x)
    t = e.chain("Tanh", ("Mul", k(c), ("Mul", x, ("Add", k(1), ("Mul", k(0.044715), square)))))
    slope = e.chain("Mul", ("Mul", x, ("Sub", k(1), ("Mul", t, t))), ("Mul", k(c), ("Add", k(1), ("Mul", k(3 * 0.044715), square))))
    return e.chain("Mul", dy, ("Mul", k(0.5), ("Add", ("Add", k(1), t), slope)))


@export("not_equal")
def not_equal(e, n, a, b):
    return e.chain("Not", ("Equal", a, b))


@export("isfinite")
def isfinite(e, n, x):
    if not x.floating:
        return e.chain("Equal", x, x)
    return e.chain("Not", ("Or", ("IsInf", x), ("IsNaN", x)))


@export("isinf", "isnan")
def irregular(e, n, x):
    return e.add("IsInf" if n.op == "isinf" else "IsNaN", x) if x.floating else e.chain("Not", ("Equal", x, x))


@export("relu")
def relu(e, n, x):
    return e.add("Relu", x) if x.floating else e.add("Max", x, e.like(x, 0))


@export("trunc")
def trunc(e, n, x):
    return e.chain("Where", ("Less", x, e.like(x, 0)), ("Ceil", x), ("Floor", x)) if x.floating else x


@export("floor_divide", "mod", "fmod")
def division(e, n, a, b):
    k = lambda v: e.like(a, v)
    if a.floating:  # the remainder of fmod is exact
        rest = e.add("Mod", a, b, fmod=1)
        if n.op == "fmod":
            return rest
        whole = e.add("Equal", rest, k(0))
        turned = e.chain("And", ("Not", whole), ("Xor", ("Less", rest, k(0)), ("Less", b, k(0))))
        if n.op == "mod":
            return e.chain("Where", whole, ("Where", ("Less", b, k(0)), k(-0.0), k(0)), ("Where", turned, ("Add", rest, b), rest))
        share, quotient = e.add("Div", a, b), e.chain("Div", ("Sub", a, rest), b)
        quotient = e.chain("Round", ("Where", turned, ("Sub", quotient, k(1)), quotient))
        return e.chain("Where", ("Equal", b, k(0)), share, ("Where", ("Equal", quotient, k(0)), ("Mul", share, k(0)), quotient))
    none, minus = e.add("Equal", b, k(0)), None if a.dtype.startswith("uint") else e.add("Equal", b, k(-1))
    by = e.add("Where", e.add("Or", none, minus) if minus else none, k(1), b)  # a processor divides neither by 0 nor the least integer by -1
    if n.op != "floor_divide":
        return e.add("Mod", a, by, fmod=int(n.op == "fmod"))
    quotient = e.add("Div", a, by)
    if minus:
        turned = e.chain("And", ("Not", ("Equal", ("Mod", a, by), k(0))), ("Xor", ("Less", a, k(0)), ("Less", by, k(0))))
        quotient = e.chain("Where", minus, ("Neg", a), ("Where", turned, ("Sub", quotient, k(1)), quotient))
    return e.add("Where", none, k(0), quotient)


@export("shift_left", "shift_right")
def shift(e, n, a, b):
    if a.dtype == "uint8":
        return e.add("BitShift", a, b, direction="LEFT" if n.op == "shift_left" else "RIGHT")
    wide = e.add("Cast", a, to=CODES["int64"])
    power = e.add("Pow", e.const(2, "int64"), e.cast(b, "int64"))
    out = e.add("Mul", wide, power) if n.op == "shift_left" else e.chain("Div", ("Sub", wide, ("Mod", wide, power)), power)
    return e.cast(out, a.dtype)


@export("stop_gradient", "to_device", "after")
def same(e, n, x, *_):
    return x


@export("astype")
def astype(e, n, x):
    return e.cast(x, n.types[0][0])


@export("constant")
def constant(e, n):
    return e.const(pairs_of(array_of(n.attrs["value"], *n.types[0])))


@export("as_complex", "as_real")
def parts(e, n, x):
    return x  # pairs of parts stand for complex numbers, of which no other op takes any


@export("fft")
def fft(e, n, x):
    y = e.add("DFT", x, "", e.const(x.rank - 2, "int64"), inverse=int(n.flag("inverse")))
    return e.add("Mul", y, e.like(x, n.known(x.dims[-2:-1], "fft")[0])) if n.flag("inverse") else y  # ONNX divides by the length


# --- shapes ---


@export("reshape")
def reshape(e, n, x):
    return e.reshape(x, n.types[0][1])


@export("broadcast_to")
def broadcast_to(e, n, x):
    return e.add("Expand", x, e.shape(n.types[0][1]))


@export("transpose")
def transpose(e, n, x):
    return e.transpose(x, n.dims("axes"))


@export("concat")
def concat(e, n, *parts):
    return e.add("Concat", *parts, axis=n.int("axis") % parts[0].rank)


LAST = np.iinfo(np.int64)


def sliced(e, x, starts, ends, steps, axes=None):
    axes = list(range(len(starts))) if axes is None else axes
    return e.add("Slice", x, e.ints(starts), e.ints(ends), e.ints(axes), e.ints(steps))


def first_place(begin, step, length, offset=0):
    """Where a slice begins on an axis of this length, as an expression of lengths: Lamina's rule."""
    if step < 0:
        first = f"min({begin},({length})-1)"
    else:
        first = f"max(({length})+{begin},0)" if begin < 0 else f"min({begin},{length})" if begin else "0"
    return first if offset == 0 else f"{first}+({offset})"


@export("slice")
def slice_(e, n, x):
    begin, end, step, offset, size = (n.dims(k) for k in ("begin", "end", "step", "offset", "size"))
    if offset or size:
        starts = [first_place(*place) for place in zip(begin, step, x.dims, offset or [0] * x.rank)]
        ends = [f"({b})+(({s})-1)*{k}+1" for b, s, k in zip(starts, size or n.types[0][1], step)]
        if min(step) < 0:
            raise n.refuse("it goes backward from a place that is open", "save it for fixed lengths")
        return e.add("Slice", x, e.shape(starts), e.shape(ends), e.ints(range(x.rank)), e.ints(step))
    end = [LAST.min if s < 0 and v < 0 else v for v, s in zip(end, step)]
    return sliced(e, x, begin, end, step)


@export("pad_slice")
def pad_slice(e, n, x):
    """Zeros with x at begin, begin + step, ..."""
    step, out, zero, name = n.dims("step"), n.types[0][1], e.like(x, 0), x.name
    # A slice of an open axis is shorter than it says where that axis is short.
    dims = [d if isinstance(d, int) and isinstance(o, int) else e.length_of(x, axis) for axis, (d, o) in enumerate(zip(x.dims, out))]
    begin = [first_place(*place) for place in zip(n.dims("begin"), step, out, n.dims("offset") or [0] * len(out))]
    for axis, s in enumerate(step):
        if s < 0:
            name = sliced(e, name, [-1], [LAST.min], [-1], [axis])
            begin[axis], s = f"{begin[axis]}+(({dims[axis]})-1)*{s}", -s
        if s > 1:  # zeros behind each element; what the last has too many is cut off at the end
            rank = len(dims) + 1
            name = e.add("Pad", e.add("Unsqueeze", name, e.ints([axis + 1])), e.ints([0] * (rank + axis + 1) + [s - 1] + [0] * (rank - axis - 2)), zero)
            dims[axis] = f"{dims[axis]}*{s}" if isinstance(dims[axis], str) else dims[axis] * s
            name = e.reshape(name, dims)
    behind = [f"({o})-({b})-({d})" for o, b, d in zip(out, begin, dims)]
    return e.add("Pad", name, e.shape([*begin, *behind]), zero) if out else name


@export("iota")
def iota(e, n):
    dtype, dims = n.types[0]
    axis = n.int("axis") % max(len(dims), 1)
    numbers = e.add("Range", e.const(0, "int64"), e.add("Squeeze", e.length(dims[axis])), e.const(1, "int64")) if not isinstance(dims[axis], int) else e.ints(range(dims[axis]))
    numbers = numbers if dtype == "int64" else e.cast(numbers, dtype)
    if len(dims) == 1:
        return numbers
    numbers = e.reshape(numbers, [-1 if i == axis else 1 for i in range(len(dims))])
    return e.add("Expand", numbers, e.shape(dims))


@export("one_hot")
def one_hot(e, n, labels):
    classes = e.const(np.arange(n.int("classes")).astype(labels.dtype))
    return e.cast(e.add("Equal", e.add("Unsqueeze", labels, e.ints([-1])), classes), n.types[0][0])


# --- sums over axes ---


def reduction(camel):
    def reduce(e, n, x):
        axes = n.axes("axes", x.rank)
        wide = x if x.dtype == n.types[0][0] else e.cast(x, n.types[0][0])
        return e.add(camel, wide, e.ints(axes), keepdims=int(n.flag("keepdims"))) if axes else wide
    return reduce


for name in ("sum", "mean", "prod", "max", "min"):
    EXPORTED[name] = reduction("Reduce" + name.capitalize())


@export("argmax")
def argmax(e, n, x):
    return e.add("ArgMax", x, axis=n.int("axis") % x.rank, keepdims=int(n.flag("keepdims")))


@export("softmax")
def softmax(e, n, x):
    return e.add("Softmax", x, axis=n.int("axis") % x.rank)


@export("log_softmax")
def log_softmax(e, n, x):
    return e.add("LogSoftmax", x, axis=n.int("axis") % x.rank)


@export("cumsum")
def cumsum(e, n, x):
    wide = x if x.dtype == n.types[0][0] else e.cast(x, n.types[0][0])
    return e.add("CumSum", wide, e.const(n.int("axis") % x.rank, "int64"), reverse=int(n.flag("reverse")), exclusive=int(n.flag("exclusive")))


@export("matmul")
def matmul(e, n, a, b):
    turned = lambda v: e.transpose(v, [*range(v.rank - 2), v.rank - 1, v.rank - 2]) if v.rank > 1 else v.name
    return e.add("MatMul", turned(a) if n.flag("transpose_a") else a, turned(b) if n.flag("transpose_b") else b)


@export("sparse_cross_entropy")
def sparse_cross_entropy(e, n, logits, labels):
    axis = logits.rank - 1
    chances = e.add("LogSoftmax", logits, axis=axis)
    classes = logits.dims[-1]
    if not isinstance(classes, int):
        raise n.refuse("how many classes there are is open", "save it for fixed lengths")
    hit = e.add("Equal", e.add("Unsqueeze", labels, e.ints([-1])), e.const(np.arange(classes).astype(labels.dtype)))
    losses = e.add("Neg", e.add("ReduceSum", e.add("Where", hit, chances, e.like(logits, 0)), e.ints([axis]), keepdims=0))
    return losses, e.add("Exp", chances)


# --- images: Lamina's have channels last ---


def image_attrs(n, dims, kernel):
    strides, dilation = n.dims("strides"), n.dims("dilation") if "dilation" in n.attrs else [1, 1]
    kind = n.text("padding")
    if kind == "valid":
        pads = [0, 0, 0, 0]
    elif kind == "given":
        above, below, left, right = n.dims("pads")
        pads = [above, left, below, right]
    else:
        n.known([*dims, *kernel], "padding 'same'")
        whole = [max((-(-d // s) - 1) * s + (k - 1) * g + 1 - d, 0) for d, s, k, g in zip(dims, strides, kernel, dilation)]
        pads = [w // 2 for w in whole] + [w - w // 2 for w in whole]
    return strides, dilation, pads


FIRST, LAST_AXIS = [0, 3, 1, 2], [0, 2, 3, 1]


@export("conv2d")
def conv2d(e, n, x, filters):
    strides, dilation, pads = image_attrs(n, x.dims[1:3], filters.dims[:2])
    y = e.add("Conv", e.transpose(x, FIRST), e.transpose(filters, [3, 2, 0, 1]), strides=strides, dilations=dilation, pads=pads, group=n.int("groups"),
              kernel_shape=n.known(filters.dims[:2], "a filter"))
    return e.transpose(y, LAST_AXIS)


@export("conv2d_grad_input")
def conv2d_grad_input(e, n, dy, filters):
    out = n.types[0][1]
    strides, dilation, pads = image_attrs(n, out[1:3], filters.dims[:2])
    n.known([*dy.dims[1:3], *out[1:3]], "a transposed convolution")
    more = [o - ((d - 1) * s + (k - 1) * g + 1 - pads[i] - pads[i + 2]) for i, (o, d, s, k, g) in enumerate(zip(out[1:3], dy.dims[1:3], strides, filters.dims[:2], dilation))]
    kept = [p - min(m, 0) for p, m in zip(pads[2:], more)]  # less than nothing behind: padding
    y = e.add("ConvTranspose", e.transpose(dy, FIRST), e.transpose(filters, [3, 2, 0, 1]), strides=strides, dilations=dilation, pads=pads[:2] + kept,
              output_padding=[max(m, 0) for m in more], group=n.int("groups"))
    return e.transpose(y, LAST_AXIS)


@export("max_pool2d")
def max_pool2d(e, n, x):
    window = n.dims("window")
    strides, _, pads = image_attrs(n, x.dims[1:3], window)
    y = e.add("MaxPool", e.transpose(x, FIRST), kernel_shape=window, strides=strides, pads=pads)
    return e.transpose(y, LAST_AXIS)


from . import _export_index  # noqa: E402, F401  its rows
