"""lm.print and lm.check: output and checks at run time."""
from __future__ import annotations

import sys

from . import _border, _core, errors
from ._structure import is_dataclass, parts_of

Tensor, Variable = _core.Tensor, _core.Variable


def _format(value, tensors, nested=False, inside=()) -> str:
    """The text of a value with "{}" for each tensor in it, which is appended to tensors."""
    if isinstance(value, (Tensor, Variable)):
        tensors.append(value)
        return "{}"
    if isinstance(value, str):
        return _core._escaped_format(repr(value) if nested else value)
    if type(value).__module__ == "numpy" and hasattr(value, "__array__") and value.dtype.kind in "biuf":
        tensors.append(_core.constant(value))
        return "{}"
    if id(value) in inside:
        return "[...]"  # as in Python's own texts
    inside = (*inside, id(value))
    if type(value) is dict:
        return "{{" + ", ".join(f"{_format(k, tensors, True, inside)}: {_format(v, tensors, True, inside)}" for k, v in value.items()) + "}}"
    if isinstance(value, (list, tuple)):
        parts = [_format(v, tensors, True, inside) for v in value]
        if isinstance(value, list):
            return f"[{', '.join(parts)}]"
        if hasattr(value, "_fields"):
            return f"{type(value).__name__}({', '.join(f'{n}={p}' for n, p in zip(value._fields, parts))})"
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{n}={_format(part, tensors, True, inside)}' for n, part in parts_of(value).items())})"
    return _core._escaped_format(repr(value) if nested else str(value))


def print(*values, file=None, sep=" ", end="\n", summarize=3):
    """Prints values at run time: at once eagerly, at every call of the graph in a traced function.

    Tensors show their elements, also in lists, tuples, dicts and dataclasses, with as few digits as read back exactly; Python values are
    those at the time of tracing. Prints and other effects keep program order, also in branches and loops. Under vmap there is one text per
    model.
    file: any object with write(). sys.stdout (the default) and sys.stderr are looked up when the graph runs, so that redirect_stdout and
    notebooks get the text. A function that assigns Variables writes its text when the call ends.
    summarize: number of elements shown at both ends of each axis; -1 for all.
    """
    if file is not None and not callable(getattr(file, "write", None)):
        raise errors.TypeMismatch(f"print: {errors.a_type(file)} is not a file", why="it has no write()", fix="pass an open file, sys.stdout or sys.stderr")
    tensors = []
    format = sep.join(_format(v, tensors) for v in values) + end
    if not tensors and _core.executing_eagerly():
        (sys.stdout if file is None else file).write("".join(str(v) for v in (sep.join(map(str, values)), end)))
        return
    stream = 2 if file is sys.stderr else 1
    _core._print(_core._escaped_format("") + format, tensors, summarize, stream, None if file is None or file is sys.stdout or file is sys.stderr else file)


def check(condition, message="", **values):
    """Raises AssertionFailed when the condition is false, with the message and these values in its text.

    The condition is a bool, or a bool tensor whose elements must all be true. In a traced function a tensor condition is checked whenever
    the graph runs, in program order with other effects: earlier assignments are kept, later effects do not happen. AutoGraph turns Python's
    assert statement into this.
    """
    check_with(condition, message, tuple(values.items()))


def check_with(condition, message, named, before=""):
    """check() with the values as (name, value) pairs, and a text before the message."""
    tensors = []
    text = before + (_format(message, tensors) if message is not None else "")
    if not isinstance(condition, (Tensor, Variable)):
        if condition:
            return
        if not _core.executing_eagerly():
            raise errors.AssertionFailed(before + str(message) if message else "a check failed", _core._user_line(), ", ".join(f"{n} = {v}" for n, v in named))
        condition = _core.constant(False)
    shown, others = [], []
    for name, value in named:
        if isinstance(value, (Tensor, Variable)) or type(value) in (int, float, bool):
            shown.append((name, value))
        else:
            others.append(f"{name} = {value!r}")
    if others:
        text += (" (" if text else "") + _core._escaped_format(", ".join(others)) + (")" if text else "")
    _core._check(condition, text, tensors, shown)


_border.guard(globals())
