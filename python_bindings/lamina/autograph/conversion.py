"""Converted functions: made once per code object, with the closure, globals and defaults of the original."""
from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import sys
import threading
import types
import weakref

from .. import _core, errors
from .._structure import enter, flatten, parts_of, with_parts
from . import runtime
from .lists import GrowingList
from .places import is_generated, place_of
from .python_functions import lookup
from .source import NoSource, function_node
from .state import Trace
from .transform import AG, convert
from .values import has_parts

_codes: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # original code -> {its file: converted code}: equal code may stand in several files
_lock = threading.RLock()


def _unlock_in_child():
    global _lock
    _lock = threading.RLock()  # in a child process, another thread may have held the old one


os.register_at_fork(after_in_child=_unlock_in_child)

# Packages whose functions are not converted: they do not branch on tensors.
_SKIPPED = frozenset(sys.stdlib_module_names) - {"__main__"} | {"lamina", "numpy", "scipy", "pandas", "matplotlib", "torch", "jax", "tensorflow", "pytest", "_pytest",
                                                               "hypothesis", "PIL", "sklearn"}
_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def do_not_convert(function):
    """Marks a function that AutoGraph must not convert. Use it as a decorator."""
    try:
        function._lamina_do_not_convert = True
    except AttributeError:  # for a bound method: of its function
        function.__func__._lamina_do_not_convert = True
    return function


def to_code(function) -> str:
    """AutoGraph's converted source of a function, as text. Raises lm.errors.ConversionFailed when there is no source."""
    from .. import errors

    given, function = function, inspect.unwrap(getattr(function, "python_function", function))
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        function = getattr(type(function), "__call__", function)
        function = getattr(function, "__func__", function)
    try:
        return ast.unparse(_converted_node(function)) + "\n"
    except (NoSource, AttributeError) as error:
        what = str(error) if isinstance(error, NoSource) else f"{errors.a_type(given)} has no source"
        raise errors.ConversionFailed(f"to_code: {what}", why="it shows the source that is traced instead", fix="pass a function that is written in a file") from None


def _name_of(function):
    return "lm__lambda" if function.__name__ == "<lambda>" else f"lm__{function.__name__}"


def _class_name(function):
    """The innermost class around a function, which says what self.__x means in it."""
    parts = getattr(function.__code__, "co_qualname", function.__qualname__).split(".")
    return next((p for p, following in reversed(list(zip(parts, parts[1:]))) if "<locals>" not in (p, following)), None)


def _converted_node(function):
    return convert(function_node(function), _name_of(function))


def _converted_code(function):
    """The converted function's code object; its free variables are those of the original and the runtime."""
    node, class_name = _converted_node(function), _class_name(function)
    names = [*function.__code__.co_freevars, AG]
    body = [node]
    if class_name is not None:  # the compiler replaces self.__x by self._Class__x
        cls = ast.ClassDef(class_name, [], [], [node], [])
        cls.type_params = []
        body = [cls] if class_name in names else [ast.Global([class_name]), cls]  # names in the function keep their meaning
    outer = ast.FunctionDef("factory", ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, []), body, [], None)
    outer.type_params = []
    ast.copy_location(outer, node)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True, flags=function.__code__.co_flags & _future_flags())
    made = code
    for _ in range(2 if class_name is None else 3):  # the factory, the class, the function
        made = next(c for c in made.co_consts if isinstance(c, types.CodeType))
    return _named_as_written(made, function.__qualname__)


def _named_as_written(code, written):
    """Code whose inner functions and classes keep the user's qualified names, which Python's messages show."""
    if not hasattr(code, "co_qualname"):  # before Python 3.11
        return code
    generated = code.co_qualname

    def name(text):
        return re.sub(r"\b(if_body|else_body|loop_body|loop_test|extra_test)(_\d+)?\.<locals>\.", "", text.replace(generated, written, 1))

    def renamed(c):
        consts = tuple(renamed(k) if isinstance(k, types.CodeType) else name(k) if isinstance(k, str) and k.startswith(generated) else k for k in c.co_consts)
        return c.replace(co_consts=consts, co_qualname=c.co_qualname if c is code or is_generated(c) else name(c.co_qualname))

    return renamed(code)


@functools.lru_cache(maxsize=1)
def _future_flags():
    import __future__
    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


def _is_skipped(function) -> bool:
    if getattr(function, "_lamina_do_not_convert", False):
        return True
    code = function.__code__
    return bool(code.co_flags & _NOT_PLAIN) or (function.__module__ or "").split(".")[0] in _SKIPPED or code.co_name.startswith("lm__")


def converted_function(function: types.FunctionType):
    """The converted function, or the function itself if it needs no conversion or has no source."""
    if _is_skipped(function):
        return function
    code = function.__code__
    with _lock:
        files = _codes.setdefault(code, {})
        if code.co_filename not in files:
            try:
                files[code.co_filename] = _converted_code(function)
            except NoSource as error:
                files[code.co_filename] = str(error)
    made = files[code.co_filename]
    if isinstance(made, str):
        return function
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    closure = tuple(_RUNTIME if name == AG else cells[name] for name in made.co_freevars)
    out = types.FunctionType(made, function.__globals__, function.__name__, function.__defaults__, closure)
    out.__kwdefaults__ = function.__kwdefaults__
    out.__qualname__, out.__module__, out.__dict__ = function.__qualname__, function.__module__, dict(function.__dict__)
    return out


def converted(callable_):
    """The replacement for a callable while a graph is traced."""
    if isinstance(callable_, types.FunctionType):
        return runtime.BUILTINS.get(callable_) or converted_function(callable_)
    if isinstance(callable_, types.MethodType):
        function = callable_.__func__
        if isinstance(function, types.FunctionType):
            made = converted_function(function)
            return callable_ if made is function else types.MethodType(made, callable_.__self__)
        return callable_
    if isinstance(callable_, functools.partial):
        return functools.partial(converted(callable_.func), *callable_.args, **callable_.keywords)
    if isinstance(callable_, (type, types.BuiltinFunctionType, _core.Function)):
        if isinstance(getattr(callable_, "__self__", None), dict):
            return lookup(callable_)
    elif isinstance(call := getattr(type(callable_), "__call__", None), types.FunctionType):
        made = converted_function(call)
        return callable_ if made is call else types.MethodType(made, callable_)
    try:
        return runtime.BUILTINS.get(callable_, callable_)
    except TypeError:
        return callable_


def traced(function, of_instance=False):
    """The callable that lm.function runs to trace a function. of_instance: the first argument is the object whose method it is."""
    made = converted(function)

    def run(*args, **kwargs):
        with Trace(function, made, args, kwargs, of_instance):
            try:
                return _delivered(made(*args, **kwargs))
            except TypeError as error:
                if "NoneType" in str(error) and not isinstance(error, errors.Error) and _has_open_length((args, kwargs)):
                    raise errors.TypeMismatch(str(error), place_of(error), *errors.OPEN_LENGTH) from error
                raise

    return run


def _has_open_length(arguments) -> bool:
    return any(isinstance(leaf, _core.Tensor) and None in leaf.shape for leaf in flatten(arguments)[0])


def _delivered(result, inside=()):
    """A result with lists that grew in loops replaced by tensors."""
    if type(result) is GrowingList:
        return result.buffer
    if not has_parts(result):
        return result
    inside, parts = enter(inside, result, "a result"), parts_of(result)
    made = {key: _delivered(part, inside) for key, part in parts.items()}
    return result if all(made[key] is part for key, part in parts.items()) else with_parts(result, made)


def why_not_here() -> str | None:
    """Why the running code (the caller's frame) was not converted; None if it was, or if it is not user code."""
    code = sys._getframe(1).f_code
    made = _codes.get(code, {}).get(code.co_filename)
    if isinstance(made, str):
        return made
    if code.co_flags & _NOT_PLAIN:
        return f"{code.co_name} is a generator or coroutine, which Python runs while the function is traced"
    return None


def _callee(callable_):
    return converted(callable_) if _core.autograph_is_active() else callable_


runtime.callee = _callee
_RUNTIME = types.CellType(runtime)
