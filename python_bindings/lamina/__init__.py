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
import sys

from . import _border, _core, _deprecated, _elsewhere, _habits, errors as errors
from ._core import *  # noqa: F403  its __all__, which stands in its stub too
from ._explanation import Explanation as Explanation
from ._function import function as function
from ._loops import checkpoint as checkpoint, cond as cond, fori_loop as fori_loop, scan as scan, switch as switch, while_loop as while_loop
from .checkpoints import Checkpoint as Checkpoint
from .export import export_c as export_c
from .errors import GradientWarning as GradientWarning, RetraceWarning as RetraceWarning, UnrollWarning as UnrollWarning
from .graph import Graph as Graph
from ._names import name_scope as name_scope
from .reporting import check as check, print as print
from .module import Module as Module
from .numeric import (
    allclose as allclose, angle as angle, associative_scan as associative_scan, bincount as bincount, broadcast_arrays as broadcast_arrays, complex as complex, copysign as copysign,
    cross as cross, cumprod as cumprod,
    diff as diff, digamma as digamma, erfinv as erfinv, histogram as histogram, hypot as hypot, imag as imag, isclose as isclose, isin as isin, kron as kron, lgamma as lgamma,
    matrix_transpose as matrix_transpose, median as median, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar,
    nextafter as nextafter, quantile as quantile, real as real, signbit as signbit, trace as trace, unstack as unstack, vecdot as vecdot, __all__ as _numeric,
)
from .numpy_like import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, average as average, corrcoef as corrcoef, cov as cov, cummax as cummax, cummin as cummin, deg2rad as deg2rad,
    digitize as digitize, heaviside as heaviside, hstack as hstack, interp as interp, log_sigmoid as log_sigmoid, logcumsumexp as logcumsumexp, logit as logit,
    logspace as logspace, nan_to_num as nan_to_num, nancumprod as nancumprod, nancumsum as nancumsum, polyval as polyval, rad2deg as rad2deg, rot90 as rot90, shape as shape, sinc as sinc,
    trapezoid as trapezoid, vander as vander, vstack as vstack, xlogy as xlogy, __all__ as _numpy_like,
)
from .quantization import quantize as quantize
from .saving import (
    load as load, load_metadata as load_metadata, load_tensors as load_tensors, load_weights as load_weights, save as save, save_tensors as save_tensors,
    save_weights as save_weights,
)
from .transforms import (
    custom_gradient as custom_gradient, grad as grad, hessian as hessian, jacobian as jacobian, jvp as jvp, value_and_grad as value_and_grad, vjp as vjp,
)
from .vmap import vmap as vmap

_deprecated.rename(_core.config, "experimental_run_functions_eagerly", "run_functions_eagerly", "lm.config")
_border.give_signatures(_core._set_signature, _core.matmul, _core.TensorSpec.__eq__, _core.TensorSpec([]).__eq__, _core.Tensor)
_core.cuda._look_in([*site.getsitepackages(), *([site.USER_SITE] if site.ENABLE_USER_SITE else [])])
_habits.hints(_core.Tensor, "Tensor", _habits.TENSOR)
_habits.hints(_core.Variable, "Variable", _habits.VARIABLE)
_habits.hints(_core.Function, "function", _habits.FUNCTION)
_habits.hints(_core.At, "At", _habits.AT)
for _part in ("config", "cuda", "random"):  # `import lamina.random` finds what is in the core
    sys.modules[f"lamina.{_part}"] = getattr(_core, _part)
    getattr(_core, _part).__getattr__, _ = _elsewhere.names_of(f"lm.{_part}", [name for name in dir(getattr(_core, _part)) if not name.startswith("_")])
_core._set_package_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)

# Slow or rarely needed imports happen on first use.
TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers
    from . import autograph, data, distributed, fft, interop, linalg, losses, metrics, nn, onnx, optim, profiler, progress, sklearn, summary, testing, tree, xp  # noqa: F401
_SUBMODULES = ("autograph", "data", "distributed", "fft", "interop", "linalg", "losses", "metrics", "nn", "onnx", "optim", "profiler", "progress", "sklearn", "summary", "testing", "tree", "xp")


if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    def __getattr__(name):
        if name in _SUBMODULES:
            return importlib.import_module(f".{name}", __name__)
        if name.startswith("_") or os.path.exists(os.path.join(os.path.dirname(__file__), name + ".py")):
            raise AttributeError(f"module 'lamina' has no attribute '{name}'")  # an import is looking for a module of this name
        raise importlib.import_module("._elsewhere", __name__).missing("lm", name, {*_SUBMODULES, *__all__}, _core._user_line())


def __dir__():
    return sorted({*__all__, *_SUBMODULES})


if not TYPE_CHECKING:  # they see the names exported by the star and the `as` above
    __all__ = sorted([
        *_core.__all__, "Checkpoint", "Explanation", "GradientWarning", "Graph", "Module", "RetraceWarning", "UnrollWarning", "check", "checkpoint", "cond", "custom_gradient", "data", "errors",
        "export_c", "fft", "fori_loop", "function", "grad", "hessian", "jacobian", "jvp", "linalg", "load", "load_metadata", "load_tensors", "load_weights", "losses", "metrics", "name_scope", "nn", "optim",
        *_numeric, *_numpy_like, "print", "quantize", "save", "save_tensors", "save_weights", "scan", "switch", "testing", "tree", "value_and_grad", "vjp", "vmap", "while_loop", "xp",
    ])
