"""Lamina: runs models made of many small layers as fast as the hardware allows.

    import lamina as lm

    @lm.function
    def step(x, y): ...

Ordinary functions of tensors become one graph each, and a graph becomes a few fused kernels.
"""
from __future__ import annotations

import importlib
import os
import site

from . import _border, _core, _deprecated, errors
from ._core import (
    ConcreteFunction, DType, Function, GradientTape, Tensor, TensorSpec, Variable, __version__, abs, acos, acosh, add, all, any, arange,
    argmax, argmin, argsort, asin, asinh, astype, atan, atan2, atanh, avg_pool2d, batch_norm, bfloat16, bitwise_and, bitwise_not,
    bitwise_or, bitwise_xor, bool, broadcast_to, cbrt, ceil, check_numerics, clip, concat, config, constant, conv1d, conv2d,
    conv2d_transpose, cos, cosh, count_nonzero, cuda, cumsum, device, device_of, diag, diagonal, div, dot, dropout, dtype, einsum, elu,
    equal, erf, erfc, executing_eagerly, exp, exp2, expand_dims, expm1, eye, flatten, flip, float16, float32, float64, floor, floor_divide,
    fmod, from_dlpack, full, full_like, gather, gather_nd, gelu, greater, greater_equal, hard_sigmoid, inner, inspect, int16, int32, int64,
    int8, isfinite, isinf, isnan, layer_norm, leaky_relu, less, less_equal, linspace, log, log10, log1p, log2, log_softmax, logaddexp,
    logical_and, logical_not, logical_or, logical_xor, logsumexp, matmul, max, max_pool2d, maximum, mean, meshgrid, min, minimum, mod,
    moments, moveaxis, mul, neg, nonzero, norm, not_equal, one_hot, ones, ones_like, outer, pad, per_model, pow, prod, random, range,
    ravel, reciprocal, relu, remainder, repeat, reshape, roll, round, rsqrt, scatter_add, scatter_nd, searchsorted, selu, shift_left,
    shift_right, sigmoid, sign, silu, sin, sinh, softmax, softplus, sort, split, sqrt, square, squeeze, stack, std, stop_gradient, sub,
    sum, swapaxes, synchronize, take, take_along_axis, tan, tanh, tensordot, tile, top_k, transpose, tril, triu, trunc, uint8, unique, var,
    vdot, where, zeros, zeros_like,
)
from ._explanation import Explanation
from ._loops import checkpoint, cond, fori_loop, scan, switch, while_loop
from .errors import GradientWarning, RetraceWarning
from .graph import Graph
from .reporting import check, print
from .saving import load_metadata, load_tensors, load_weights, save_tensors, save_weights
from .transforms import custom_gradient, grad, hessian, jacobian, jvp, value_and_grad, vjp
from .vmap import vmap

_deprecated.rename(_core.config, "experimental_run_functions_eagerly", "run_functions_eagerly", "lm.config")
_core.cuda._look_in([*site.getsitepackages(), *([site.USER_SITE] if site.ENABLE_USER_SITE else [])])
_core._set_package_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)


def function(fn=None, *, input_signature=None, relax_shapes=False, autograph=True, memory_budget=None):
    """fn as a lm.Function: traced into one graph per signature at its first call with it, run as that graph afterwards.

    A signature is the dtypes and shapes of tensors and Variables, and the type and value of everything else; NumPy arrays count as tensors,
    other objects by identity. Python code in fn runs while tracing only. Variables and models that fn uses from outside are used by reference.

    input_signature: a list of TensorSpecs, one per tensor argument; one graph takes all that fits, anything else raises SignatureMismatch.
    relax_shapes: calls that differ in lengths only share a graph for all lengths from the second length on.
    autograph: if, while, for, and, or, not on tensors become part of the graph, here and in functions that fn calls. False: fn is traced as it is.
    memory_budget: bytes of temporary memory that a call may take. When its values do not fit, most of those that wait for the gradient are
    computed again when it needs them, with the same bits; what cannot be made to fit takes as little as was found.

    Use it as lm.function(fn), @lm.function or @lm.function(...). fn may be a function, method, or any callable object such as a model.
    """
    if fn is None:
        return lambda fn: function(fn, input_signature=input_signature, relax_shapes=relax_shapes, autograph=autograph, memory_budget=memory_budget)
    return _core.function(fn, input_signature, relax_shapes, autograph, memory_budget)


function = _border.guarded(function)

# What takes time to import, or is not needed by everyone, is imported when it is first used.
TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers see them as what they are
    from . import autograph, data, losses, metrics, nn, optim, profiler, progress, testing  # noqa: F401
_SUBMODULES = ("autograph", "data", "losses", "metrics", "nn", "optim", "profiler", "progress", "testing")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    elsewhere = importlib.import_module("._elsewhere", __name__).NAMES
    if name in elsewhere:
        raise AttributeError(f"lamina has no '{name}'\n  where: {_core._user_line()}\n  why:   it has another name here\n  fix:   write lm.{elsewhere[name]}")
    raise AttributeError(str(_core.unknown_name("attribute of lamina", name, sorted({*_SUBMODULES, *__all__}))))


def __dir__():
    return sorted([*globals(), *_SUBMODULES])


__all__ = [
    "ConcreteFunction", "DType", "Explanation", "Function", "GradientTape", "GradientWarning", "Graph", "RetraceWarning", "Tensor", "TensorSpec", "Variable", "__version__",
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asin", "asinh", "astype", "atan", "atan2",
    "atanh", "avg_pool2d", "batch_norm", "bfloat16", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bool", "broadcast_to",
    "cbrt", "ceil", "check", "check_numerics", "checkpoint", "clip", "concat", "cond", "config", "constant", "conv1d", "conv2d",
    "conv2d_transpose", "cos", "cosh", "count_nonzero", "cuda", "cumsum", "custom_gradient", "data", "device", "device_of", "diag",
    "diagonal", "div", "dot", "dropout", "dtype", "einsum", "elu", "equal", "erf", "erfc", "errors", "executing_eagerly", "exp", "exp2",
    "expand_dims", "expm1", "eye", "flatten", "flip", "float16", "float32", "float64", "floor", "floor_divide", "fmod", "fori_loop",
    "from_dlpack", "full", "full_like", "function", "gather", "gather_nd", "gelu", "grad", "greater", "greater_equal", "hard_sigmoid",
    "hessian", "inner", "inspect", "int16", "int32", "int64", "int8", "isfinite", "isinf", "isnan", "jacobian", "jvp", "layer_norm",
    "leaky_relu", "less", "less_equal", "linspace", "load_metadata", "load_tensors", "load_weights", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logsumexp", "losses", "matmul", "max", "max_pool2d", "maximum", "mean", "meshgrid",
    "metrics", "min", "minimum", "mod", "moments", "moveaxis", "mul", "neg", "nn", "nonzero", "norm", "not_equal", "one_hot", "ones",
    "ones_like", "optim", "outer", "pad", "per_model", "pow", "print", "prod", "random", "range", "ravel", "reciprocal", "relu",
    "remainder", "repeat", "reshape", "roll", "round", "rsqrt", "save_tensors", "save_weights", "scan", "scatter_add", "scatter_nd", "searchsorted", "selu", "shift_left",
    "shift_right", "sigmoid", "sign", "silu", "sin", "sinh", "softmax", "softplus", "sort", "split", "sqrt", "square", "squeeze", "stack",
    "std", "stop_gradient", "sub", "sum", "swapaxes", "switch", "synchronize", "take", "take_along_axis", "tan", "tanh", "tensordot", "testing",
    "tile", "top_k", "transpose", "tril", "triu", "trunc", "uint8", "unique", "value_and_grad", "var", "vdot", "vjp", "vmap", "where",
    "while_loop", "zeros", "zeros_like",
]
