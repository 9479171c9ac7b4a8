"""How objects of the compiled module are pickled and copied: by the name of what makes them, and arrays. copy.deepcopy takes the same way."""
from __future__ import annotations

import copy
import copyreg
import functools
import pickle
import sys
import threading
import types
import weakref

from . import _core, errors
from ._structure import flatten


def dtype(name):
    return _core.dtype(name)


def tensor(array, name):
    return _core.constant(array, name)


# --- Variables: several Python objects may stand for one, and stay one ---
_shared: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # hash of a Variable, which is its identity: _Shared


class _Shared:
    """The one object that stands for a Variable in a pickle."""

    def __init__(self, variable):
        self.variable = variable

    def __reduce__(self):
        v = self.variable
        return variable, (v.read(), v.name, v.trainable, v.models)


def variable(value, name, trainable, models):
    made = _core.Variable(value[0] if models else value, name=name, trainable=trainable)
    if models:
        _core._stack_variable(made, value)
    return made


def same(shared):
    return shared.variable if isinstance(shared, _Shared) else shared


def _variable(v):
    shared = _shared.get(hash(v))
    if shared is None:
        shared = _shared[hash(v)] = _Shared(v)
    return same, (shared,)


# --- what is made by name ---
def made(module, name, args, kwargs):
    return getattr(sys.modules[f"{_core.__name__}.{module}"], name)(*args, **kwargs)


_SWITCHES = {"nesterov", "centered", "from_logits", "mirror_in", "mirror_out"}


def _parameters(of) -> dict:
    return {name: bool(value) if name in _SWITCHES else value for name, value in of._parameters.items()}


def optimizer(name, parameters, trained, values, counts=False):
    made = getattr(_core.optim, name)(**parameters)
    if counts:
        made.iterations
    if trained is not None:
        made.build(trained)
    for own, value in zip(made.variables, values, strict=True):
        own.assign(value)
    return made


def _optimizer(o):
    rate = o.learning_rate if o.schedule is None else o.schedule
    parameters = _parameters(o) | o._switches | {"learning_rate": rate if o.schedule is not None or rate.models else rate.item()}
    return optimizer, (type(o).__name__, parameters, o._trained_variables if o.built else None, [v.read() for v in o.variables], o._counts)


def schedule_of(function):
    return _core.optim.SGD(function).schedule


def _schedule(schedule):
    kind, arguments = schedule._made_of
    if kind:
        return made, ("schedules", kind, arguments, {})
    function = arguments[0]
    if isinstance(function, types.FunctionType) and not _is_global(function):
        raise errors.StateError(f"pickle: the learning rate is the function {function.__qualname__}, which no name leads to", why="a pickle holds the names of functions, not their code",
                                fix="define the function at the top of a module, or use one of lm.optim.schedules")
    return schedule_of, (function,)


def own_loss(kind, base, args, kwargs):
    made = kind.__new__(kind)
    base.__init__(made, *args, **kwargs)
    return made


def _own_loss(loss):
    """Of a class that is derived from Loss or another loss."""
    base = next(kind for kind in type(loss).__mro__ if kind in vars(_core.losses).values())
    return own_loss, (type(loss), base, *(((loss.name,), {}) if base is _core.losses.Loss else ((), _parameters(loss)))), vars(loss)


def _loss(loss):
    if type(loss) is _core.losses.Loss:
        return made, ("losses", "Loss", (loss.name,), {})
    return made, ("losses", type(loss).__name__, (), _parameters(loss))


def _initializer(i):
    if i.name == "custom":
        raise errors.StateError("pickle: an initializer is a function", why="a pickle of Lamina holds names and numbers, no code", fix="pass the function itself to the layer, defined at the top of a module")
    if i.name in ("zeros", "ones"):
        return made, ("nn", i.name, (), {})
    if i.name == "constant":
        return made, ("nn", "constant_value", (), _parameters(i))
    return made, ("nn", i.name, (), _parameters(i) | {"seed": i._seed})


def _spec(spec):
    return _core.TensorSpec, (list(spec.shape), spec.dtype, spec.name or None)


def attribute(module, name):
    return functools.reduce(getattr, name.split("."), sys.modules[module])


def _compiled(function):
    module, name = function.__module__, function.__qualname__
    if module in sys.modules:
        try:
            if attribute(module, name) is function:
                return attribute, (module, name)
        except AttributeError:
            pass
    raise pickle.PicklingError(f"{name} is not found as {module}.{name}")


def function(python_function, signature, relax_shapes, autograph, memory_budget):
    return _core.function(python_function, signature, relax_shapes, autograph, memory_budget)


def _function(f):
    inner = f.python_function
    return f.__qualname__ if _is_global(f) else (function, (inner, f._signature, *f._options))


# Types of the compiled module that stay in their process: why, and what to do instead.
_STAY = {
    _core.ConcreteFunction: ("it is a graph of this process, which no name leads to", "copy or pickle the function that was traced; of a saved program call lm.load once more; lm.save writes graphs to a folder"),
    _core.data.Dataset: ("its steps are functions and threads of this process", "make it anew where it is needed, in a function"),
    _core.GradientTape: ("it follows what this thread computes", "make a tape where gradients are needed"),
    _core.Inspection: ("it describes a graph of this process", "keep what it says as text: str(inspection.optimized)"),
    _core.device: ("it is a context of this process", "keep the name, and write lm.device(name)"),
    _core.limits: ("it is a context of this process", "keep its numbers, and write lm.limits(seconds=..., bytes=...)"),
}


def stays(value, why, fix):
    """The error for an object that a pickle cannot hold, and copy cannot copy."""
    return errors.TypeMismatch(f"pickle: {errors.a_type(value)} cannot be pickled or copied", why=why, fix=fix)


def _stays(value):
    raise stays(value, *_STAY[type(value)])


for _type, _reduce in {
    **{kind: _stays for kind in _STAY},
    _core.Variable: _variable, _core.TensorSpec: _spec, _core.nn.Initializer: _initializer, _core.Function: _function, type(_core.relu): _compiled, type(_core.Tensor.reshape): _compiled,
    **{kind: _optimizer for kind in vars(_core.optim).values() if isinstance(kind, type)}, **{kind: _loss for kind in vars(_core.losses).values() if isinstance(kind, type)},
    **{kind: _schedule for kind in vars(_core.schedules).values() if isinstance(kind, type)},
}.items():
    copyreg.pickle(_type, _reduce)
_core.losses.Loss.__reduce__ = _own_loss  # of types that are not in the table


# --- errors that name the layer ---
_looking = threading.local()  # .inside: a part of a Module is tried


def require_by_name(module) -> None:
    """Raises StateError, which names the module and the attribute, where a pickle cannot hold a Module: a class or function that is not found by its name, a lock, a file."""
    if not _is_global(type(module)):
        raise errors.StateError(f"pickle: the class {type(module).__qualname__} of {module._described()} has no name outside of the function that defines it",
                                why="a pickle holds the names of classes and functions, not their code", fix="define it at the top of a module, or use lm.save, which holds the graphs")
    if getattr(_looking, "inside", False):
        return
    _looking.inside = True
    try:
        for name, value in module.__getstate__().items():
            for leaf in _leaves(value):
                problem = _problem(leaf)
                if problem:
                    raise errors.StateError(f"pickle: {module._described()} has {problem} in '{name.lstrip('_')}'" if name != "_made_with" else f"pickle: {module._described()} was made with {problem}",
                                            why="a pickle holds the names of classes and functions, not their code", fix="define the function at the top of a module, or use lm.save, which holds the graphs")
    finally:
        _looking.inside = False


_PLAIN = (_core.Variable, _core.Tensor, _core.TensorSpec, _core.optim.Optimizer, str, bytes, int, float, complex, type(None), _core.DType, type(_core.relu), type(_core.Tensor.reshape))


def _leaves(value):
    arguments = hasattr(value, "args") and hasattr(value, "kwargs") and not isinstance(value, BaseException)
    return flatten((list(value.args), value.kwargs) if arguments else value)[0]


def _problem(leaf) -> str:
    """What a pickle cannot hold; empty for what it can."""
    from .module import Module

    if isinstance(leaf, (Module, _PLAIN)) or type(leaf).__module__.split(".")[0] == "numpy" or type(leaf).__module__.startswith("lamina.") and not isinstance(leaf, _core.Function):
        return ""  # parts of Lamina's own name what is wrong with them
    inner = leaf.python_function if isinstance(leaf, _core.Function) else leaf
    if isinstance(inner, types.FunctionType):
        return "" if _is_global(inner) or _is_global(leaf) else f"the function {inner.__qualname__}, which no name leads to,"
    if isinstance(inner, types.MethodType) and isinstance(inner.__self__, Module):
        return ""
    try:
        pickle.dumps(leaf)
    except errors.Error:
        raise
    except Exception:
        return errors.a_type(leaf) + ", which cannot be pickled,"
    return ""


def _is_global(value) -> bool:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module not in sys.modules:
        return False
    try:
        return attribute(module, name) is value
    except AttributeError:
        return False


def copied_parts(module, memo) -> dict:
    """Deep copies of what a Module's state holds."""
    parts = {}
    for name, value in module.__getstate__().items():
        try:
            parts[name] = copy.deepcopy(value, memo)
        except TypeError as error:
            raise errors.StateError(f"deepcopy: {module._described()} has {errors.a_type(value)} in '{name.lstrip('_')}', which cannot be copied", why=getattr(error, "why", None) or str(error),
                                    fix=getattr(error, "fix", None) or "make it when it is first used, or define __deepcopy__ in its class") from None
    return parts
