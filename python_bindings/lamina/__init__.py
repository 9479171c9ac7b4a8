"""Lamina: runs models made of many small layers as fast as the hardware allows.

    import lamina as lm

    @lm.function
    def step(x, y): ...

Ordinary functions of tensors become one graph each, and a graph becomes a few fused kernels.
"""
from __future__ import annotations

import importlib
import os

from . import _core, errors
from ._core import (
    ConcreteFunction, DType, Function, GradientTape, Tensor, TensorSpec, Variable, __version__, abs, add, arange, argmax, argmin, astype,
    bfloat16, bool, broadcast_to, clip, concat, cond, config, constant, cos, cuda, device, device_of, div, dropout, dtype, equal,
    executing_eagerly, exp, expand_dims, flatten, float16, float32, float64, floor_divide, from_dlpack, full, gather, gelu, greater,
    greater_equal, inspect, int16, int32, int64, int8, less, less_equal, log, log_softmax, logical_and, logical_not, logical_or, matmul, max,
    maximum, mean, min, minimum, mod, mul, neg, not_equal, one_hot, ones, ones_like, per_model, pow, random, range, relu, reshape, rsqrt, scan,
    sigmoid, sign, silu, sin, softmax, softplus, sqrt, square, squeeze, stack, stop_gradient, sub, sum, synchronize, tanh, transpose, uint8,
    where, while_loop, zeros, zeros_like,
)
from ._loops import fori_loop
from ._core import (  # shapes, indexing and sorting
    argsort, diag, diagonal, dot, einsum, eye, flip, full_like, gather_nd, inner, linspace, meshgrid, moveaxis, nonzero, outer, pad, ravel,
    repeat, roll, scatter_add, scatter_nd, searchsorted, sort, split, swapaxes, take, take_along_axis, tensordot, tile, top_k, tril, triu,
    unique, vdot,
)
from ._core import avg_pool2d, batch_norm, conv1d, conv2d, conv2d_transpose, layer_norm, max_pool2d, moments
from ._core import (
    acos, acosh, all, any, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, cbrt, ceil, cosh, count_nonzero, cumsum,
    elu, erf, erfc, exp2, expm1, floor, fmod, hard_sigmoid, isfinite, isinf, isnan, leaky_relu, log10, log1p, log2, logaddexp, logical_xor, logsumexp,
    norm, prod, reciprocal, remainder, round, selu, shift_left, shift_right, sinh, std, tan, trunc, var,
)
from .errors import RetraceWarning
from .vmap import vmap

_core._set_package_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)


def function(fn=None, *, input_signature=None, relax_shapes=False):
    """fn as a lm.Function: traced into one graph per signature at its first call with it, run as that graph afterwards.

    A signature is the dtypes and shapes of tensors and Variables, and the type and value of everything else; NumPy arrays count as tensors,
    other objects by identity. Python code in fn runs while tracing only. Variables and models that fn uses from outside are used by reference.

    input_signature: a list of TensorSpecs, one per tensor argument; one graph takes all that fits, anything else raises SignatureMismatch.
    relax_shapes: calls that differ in lengths only share a graph for all lengths from the second length on.

    Use it as lm.function(fn), @lm.function or @lm.function(...). fn may be a function, method, or any callable object such as a model.
    """
    if fn is None:
        return lambda fn: _core.function(fn, input_signature, relax_shapes)
    return _core.function(fn, input_signature, relax_shapes)


# What takes time to import, or is not needed by everyone, is imported when it is first used.
TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers see them as what they are
    from . import data, losses, metrics, nn, optim, progress, testing  # noqa: F401
_SUBMODULES = ("data", "losses", "metrics", "nn", "optim", "progress", "testing")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(str(_core.unknown_name("attribute of lamina", name, [*_SUBMODULES, *(n for n in globals() if n[0] != "_")])))


def __dir__():
    return sorted([*globals(), *_SUBMODULES])


__all__ = [
    "ConcreteFunction", "DType", "Function", "GradientTape", "RetraceWarning", "Tensor", "TensorSpec", "Variable", "__version__", "abs", "add",
    "arange", "argmax", "argmin", "astype", "bfloat16", "bool", "broadcast_to", "clip", "concat", "cond", "config", "constant", "cos", "cuda",
    "data", "device", "device_of", "div", "dropout", "dtype", "equal", "errors", "executing_eagerly", "exp", "expand_dims", "flatten", "float16",
    "float32", "float64", "floor_divide", "fori_loop", "from_dlpack", "full", "function", "gather", "gelu", "greater", "greater_equal", "inspect",
    "int16", "int32", "int64", "int8", "less", "less_equal", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "losses", "matmul",
    "max", "maximum", "mean", "metrics", "min", "minimum", "mod", "mul", "neg", "nn", "not_equal", "one_hot", "ones", "ones_like", "optim",
    "per_model", "pow", "random", "range", "relu", "reshape", "rsqrt", "scan", "sigmoid", "sign", "silu", "sin", "softmax", "softplus", "sqrt",
    "square", "squeeze", "stack", "stop_gradient", "sub", "sum", "synchronize", "tanh", "testing", "transpose", "uint8", "vmap", "where",
    "while_loop", "zeros", "zeros_like",
]
__all__ += [
    "argsort", "diag", "diagonal", "dot", "einsum", "eye", "flip", "full_like", "gather_nd", "inner", "linspace", "meshgrid", "moveaxis",
    "nonzero", "outer", "pad", "ravel", "repeat", "roll", "scatter_add", "scatter_nd", "searchsorted", "sort", "split", "swapaxes", "take",
    "take_along_axis", "tensordot", "tile", "top_k", "tril", "triu", "unique", "vdot",
    "float32", "float64", "floor_divide", "from_dlpack", "full", "function", "gather", "gelu", "greater", "greater_equal", "inspect", "int8", "int16",
    "int32", "int64", "less", "less_equal", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "losses", "matmul", "max", "maximum",
    "mean", "metrics", "min", "minimum", "mod", "mul", "neg", "nn", "not_equal", "one_hot", "ones", "ones_like", "optim", "pow", "random", "range",
    "relu", "reshape", "rsqrt", "sigmoid", "sign", "silu", "sin", "softmax", "softplus", "sqrt", "square", "squeeze", "stack", "stop_gradient", "sub",
    "sum", "synchronize", "tanh", "testing", "transpose", "uint8", "where", "zeros", "zeros_like",
    "avg_pool2d", "batch_norm", "conv1d", "conv2d", "conv2d_transpose", "layer_norm", "max_pool2d", "moments",
    "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt", "ceil",
    "cosh", "count_nonzero", "cumsum", "elu", "erf", "erfc", "exp2", "expm1", "floor", "fmod", "hard_sigmoid", "isfinite", "isinf", "isnan", "leaky_relu",
    "log10", "log1p", "log2", "logaddexp", "logical_xor", "logsumexp", "norm", "prod", "reciprocal", "remainder", "round", "selu", "shift_left",
    "shift_right", "sinh", "std", "tan", "trunc", "var",
]
