"""Lengths that a trace leaves open, in arrays that shapes are computed with.

In such an array a number of its own stands for each open length: for the text of a dimension ("n", "2*n"), or for (op, a, b) where no dimension is that, such as the
half of "n". So Gather, Concat and Where move lengths like any number, and arithmetic gives other lengths. Where values are wanted the length is counted when the graph runs.
"""
from __future__ import annotations

import threading

import numpy as np

from .. import _core

_FIRST = -1_987_654_321  # the numbers go down from here; int32 holds them too
_numbers: dict = {}  # {meaning: number}
_meanings: list = []
_lock = threading.Lock()
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
PLAIN = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": lambda a, b: a // b if b else 0, "Max": max, "Min": min}
COMPARED = {"Equal": lambda a, b: a == b, "Less": lambda a, b: a < b, "Greater": lambda a, b: a > b, "LessOrEqual": lambda a, b: a <= b, "GreaterOrEqual": lambda a, b: a >= b}


def number_of(meaning) -> int:
    """The number that stands for a length; a length that is known stands for itself."""
    if isinstance(meaning, int):
        return meaning
    with _lock:
        if meaning not in _numbers:
            _numbers[meaning] = _FIRST - len(_meanings)
            _meanings.append(meaning)
        return _numbers[meaning]


def is_open(d) -> bool:
    return d is None or _FIRST - len(_meanings) < d <= _FIRST


def has_open(array) -> bool:
    """Whether a known value has an open length among its numbers."""
    if not isinstance(array, np.ndarray) or array.dtype not in (np.int64, np.int32) or not _meanings:
        return False
    return bool(((array <= _FIRST) & (array > _FIRST - len(_meanings))).any())


def meaning_of(d):
    """A whole number; the text of a dimension; or (op, a, b), of numbers that may stand for lengths."""
    return _meanings[_FIRST - int(d)] if is_open(d) else int(d)


def named(dims) -> bool:
    """Whether these are whole numbers and dimensions."""
    return not any(isinstance(meaning_of(d), tuple) for d in dims)


def lengths_of(x) -> list:
    """The shape of a value, with numbers for the open lengths."""
    dims = tuple(x.shape)
    return [number_of(d) for d in _core._lengths(x)] if None in dims else list(dims)


def combined(op, a, b) -> int:
    """The number of a op b."""
    a, b = int(a), int(b)
    if not is_open(a) and not is_open(b):
        return PLAIN[op](a, b)
    x, y = meaning_of(a), meaning_of(b)
    if op in ("Max", "Min"):
        found = x if a == b else None
    else:
        found = None if isinstance(x, tuple) or isinstance(y, tuple) else _core._length(_SIGNS[op], x, y)
    return number_of((op, a, b) if found is None else found)


def product(dims) -> int:
    out = 1
    for d in dims:
        out = combined("Mul", out, d)
    return out


def compared(op, a, b):
    """Whether a op b, or None where that depends on the call. A length is not negative."""
    a, b = int(a), int(b)
    if a == b or not is_open(a) and not is_open(b):
        return COMPARED[op](a, b)
    if is_open(a) and is_open(b):
        return None
    meaning, other = (meaning_of(a), b) if is_open(a) else (meaning_of(b), a)
    if isinstance(meaning, tuple) or "-" in meaning or other >= 0:
        return None
    return COMPARED[op](0, -1) if is_open(a) else COMPARED[op](-1, 0)


def full(value, dims):
    """A tensor of this shape from one that broadcasts to it; named(dims)."""
    if not any(map(is_open, dims)):
        return _core.broadcast_to(value, dims)
    return _core._broadcast_to(value, [meaning_of(d) for d in dims])


def reshaped(x, dims):
    """x in this shape; named(dims), one of which may be -1."""
    if not any(map(is_open, dims)):
        return _core.reshape(x, dims)
    return _core._reshape_to(x, [meaning_of(d) for d in dims])


def tensor_of(d, dtype="int64"):
    """A length as a tensor without axes."""
    meaning = meaning_of(d)
    if isinstance(meaning, int):
        return _core.constant(meaning, dtype)
    if isinstance(meaning, str):
        return _core.sum(_core._broadcast_to(_core.constant(1, dtype), [meaning]), 0)
    op, a, b = meaning
    function = {"Add": _core.add, "Sub": _core.sub, "Mul": _core.mul, "Max": _core.maximum, "Min": _core.minimum, "Div": _cut_off}[op]
    return function(tensor_of(a, dtype), tensor_of(b, dtype))


def _cut_off(a, b):
    size = _core.floor_divide(_core.abs(a), _core.abs(b))
    return _core.where(_core.not_equal(_core.less(a, 0), _core.less(b, 0)), -size, size)


def counted(array):
    """An array with open lengths as a tensor."""
    dtype = str(array.dtype)
    return _core.reshape(_core.stack([tensor_of(d, dtype) for d in array.ravel().tolist()], 0), list(array.shape))


def counting(start, count, dtype):
    """start, start + 1, ...: so many that the length `count` says."""
    ones = full(_core.constant(1, dtype), [count])
    return _core.cumsum(ones, 0, exclusive=True) + tensor_of(start, dtype)


def folded(node, arrays):
    """The outputs of a node of known inputs, open lengths among them, as a tuple of arrays; None where they are no lengths but values."""
    op = node.op
    if op in PLAIN and len(arrays) == 2 or op in COMPARED:
        a, b = np.broadcast_arrays(*arrays)
        found = [(combined if op in PLAIN else compared)(op, x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist())]
        return None if None in found else (np.array(found, a.dtype if op in PLAIN else bool).reshape(a.shape),)
    if op == "ReduceProd" and arrays[0].ndim == 1 and (len(arrays) < 2 or arrays[1] is None or arrays[1].size):
        out = np.array([product(arrays[0].tolist())], arrays[0].dtype)
        return (out if node.attr("keepdims", 1) else out.reshape(()),)
    if op == "Cast":
        wanted = {6: np.int32, 7: np.int64}.get(node.attr("to"))
        return None if wanted is None else (arrays[0].astype(wanted),)
    if op == "Where":
        return (np.where(*arrays),)
    return None


# The inputs that these ops only move; what they are told by the others is known.
MOVED = {"Gather": (0,), "Squeeze": (0,), "Unsqueeze": (0,), "Slice": (0,), "Reshape": (0,), "Split": (0,), "Flatten": (0,), "Transpose": (0,), "GatherND": (0,)}


def moves(node, arrays) -> bool:
    """Whether a node of known inputs only moves its open lengths."""
    return node.op == "Concat" or node.op in MOVED and not any(has_open(a) for i, a in enumerate(arrays) if i not in MOVED[node.op])
