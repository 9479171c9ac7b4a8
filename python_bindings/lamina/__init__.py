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

from . import _border, _core, _deprecated, errors as errors
from ._core import *  # noqa: F403  its __all__, which stands in its stub too
from ._explanation import Explanation as Explanation
from ._loops import checkpoint as checkpoint, cond as cond, fori_loop as fori_loop, scan as scan, switch as switch, while_loop as while_loop
from .checkpoints import Checkpoint as Checkpoint
from .export import export_c as export_c
from .errors import GradientWarning as GradientWarning, RetraceWarning as RetraceWarning
from .graph import Graph as Graph
from .reporting import check as check, print as print
from .module import Module as Module
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
_core.cuda._look_in([*site.getsitepackages(), *([site.USER_SITE] if site.ENABLE_USER_SITE else [])])
_core._set_package_folder(os.path.dirname(os.path.abspath(__file__)) + os.sep)


def function(fn=None, *, input_signature=None, relax_shapes=False, autograph=True, memory_budget=None):
    """Returns fn as an lm.Function: traced into one graph per signature at the first call with it; later calls run the graph.

    A signature is the dtypes and shapes of tensors and Variables, and the type and value of everything else. NumPy arrays count as tensors,
    other objects by identity. Python code in fn runs only while tracing. Variables and models from outside are used by reference.

    input_signature: a list of TensorSpecs, one per tensor argument; one graph serves all matching calls, others raise SignatureMismatch.
    relax_shapes: calls that differ only in lengths share one graph for all lengths, from the second length on.
    autograph: if, while, for, and, or, not on tensors become part of the graph, here and in functions that fn calls. False: traces fn
    without conversion.
    memory_budget: limit of temporary memory per call in bytes. If the values do not fit, most of those kept for the gradient are recomputed
    with the same bits; if that does not fit either, the smallest plan found is used.

    Use it as lm.function(fn), @lm.function or @lm.function(...). fn may be a function, method, or any callable object such as a model.
    """
    if fn is None:
        return lambda fn: function(fn, input_signature=input_signature, relax_shapes=relax_shapes, autograph=autograph, memory_budget=memory_budget)
    return _core.function(fn, input_signature, relax_shapes, autograph, memory_budget)


function = _border.guarded(function)

# Slow or rarely needed imports happen on first use.
TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers
    from . import autograph, data, distributed, losses, metrics, nn, onnx, optim, profiler, progress, testing  # noqa: F401
_SUBMODULES = ("autograph", "data", "distributed", "losses", "metrics", "nn", "onnx", "optim", "profiler", "progress", "testing")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    elsewhere = importlib.import_module("._elsewhere", __name__).NAMES
    if name in elsewhere:
        raise AttributeError(f"lamina has no '{name}'\n  where: {_core._user_line()}\n  why:   it has another name here\n  fix:   write lm.{elsewhere[name]}")
    raise AttributeError(str(_core.unknown_name("attribute of lamina", name, sorted({*_SUBMODULES, *__all__}))))


def __dir__():
    return sorted([*globals(), *_SUBMODULES])


if not TYPE_CHECKING:  # they see the names exported by the star and the `as` above
    __all__ = sorted([
        *_core.__all__, "Checkpoint", "Explanation", "GradientWarning", "Graph", "Module", "RetraceWarning", "check", "checkpoint", "cond", "custom_gradient", "data", "errors",
        "export_c", "fori_loop", "function", "grad", "hessian", "jacobian", "jvp", "load", "load_metadata", "load_tensors", "load_weights", "losses", "metrics", "nn", "optim",
        "print", "quantize", "save", "save_tensors", "save_weights", "scan", "switch", "testing", "value_and_grad", "vjp", "vmap", "while_loop",
    ])
