"""What loops of the graph go through: ranges, enumerate and zip of tensors, and where their items come from."""
from __future__ import annotations

import builtins

from .. import _core, errors

Tensor = _core.Tensor


class Steps:
    """range(start, stop, step) with tensors in it: what a loop of the graph counts through."""

    def __init__(self, start, stop=None, step=1):
        self.start, self.stop, self.step = (0, start, step) if stop is None else (start, stop, step)

    def __iter__(self):
        raise errors.ConversionFailed("a range with a tensor in it is only for loops", why="its length is known when the graph runs", fix="write for i in range(...): directly")


class Counted:
    """enumerate(iterated, start) of something that the graph goes through."""

    def __init__(self, iterated, start=0):
        self.iterated, self.start = iterated, start


class Zipped:
    """zip(...) of tensors."""

    def __init__(self, parts):
        self.parts = parts


def _length(tensor):
    if tensor.shape == () or len(tensor.shape) == 0:
        raise errors.InvalidArgument("a tensor without axes cannot be iterated over", why="a loop goes along the first axis", fix="loop over lm.range(n), or reshape it")
    return tensor.shape[0]


def stacked(iterated):
    """What scan goes through, and how an item is made of a slice; None when the number of iterations is known only when it runs."""
    if isinstance(iterated, Tensor):
        _length(iterated)
        return iterated, lambda item: item
    if isinstance(iterated, Zipped):
        parts = [stacked(p) for p in iterated.parts]
        if any(p[0] is None for p in parts):
            return None, None
        shortest = builtins.min((int(_first(p[0]).shape[0]) for p in parts if _first(p[0]).shape[0] is not None), default=None)
        cut = tuple(p[0] if shortest is None or not isinstance(p[0], Tensor) or p[0].shape[0] == shortest else p[0][:shortest] for p in parts)
        return cut, lambda item: tuple(p[1](one) for p, one in zip(parts, item))
    if isinstance(iterated, Counted):
        xs, item_of = stacked(iterated.iterated)
        length = None if xs is None else _first(xs).shape[0]
        if xs is None or length is None:
            return None, None
        return (_core.arange(length) + iterated.start, xs), lambda item: (item[0], item_of(item[1]))
    return None, None


def _first(xs):
    return xs if isinstance(xs, Tensor) else _first(xs[0])


def item_at(iterated):
    """How many items there are, and the one at a place."""
    if isinstance(iterated, Steps):
        start, stop, step = iterated.start, iterated.stop, iterated.step
        if isinstance(step, int) and step == 0:
            raise errors.InvalidArgument("range: a step of 0 goes nowhere", fix="pass a step that is not 0")
        if isinstance(step, int) and step == 1:
            count = stop - start
        elif isinstance(step, int):
            count = (stop - start + (step - 1 if step > 0 else step + 1)) // step
        else:
            count = (stop - start + step - _core.sign(step)) // step
        return _core.astype(count, _core.int32) if isinstance(count, Tensor) else count, lambda i: _like(i, stop) * step + start
    if isinstance(iterated, Tensor):
        return _length(iterated) if _length(iterated) is not None else _core.shape(iterated)[0], lambda i: _core.gather(iterated, i)
    if isinstance(iterated, Counted):
        count, inner = item_at(iterated.iterated)
        return count, lambda i: (i + iterated.start, inner(i))
    parts = [item_at(p) for p in iterated.parts]
    count = parts[0][0]
    for other, _ in parts[1:]:
        count = builtins.min(count, other) if isinstance(count, int) and isinstance(other, int) else _core.minimum(count, other)
    return count, lambda i: tuple(item_at(i) for _, item_at in parts)


def _like(i, stop):
    return _core.astype(i, stop.dtype) if isinstance(stop, Tensor) and "int" in str(stop.dtype) else i
