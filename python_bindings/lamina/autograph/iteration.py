"""What loops of the graph iterate over: ranges, enumerate and zip of tensors, and how items are read."""
from __future__ import annotations

import builtins

from .. import _core, errors
from ..reporting import check_with
from .lists import length_of, of_length
from .numbers import weak

Tensor, Variable = _core.Tensor, _core.Variable


class Steps:
    """range(start, stop, step) with tensors, as iterated by a loop of the graph."""

    def __init__(self, start, stop=None, step=1, dtype=None):
        start, stop, step = (0, start, step) if stop is None else (start, stop, step)
        self.start, self.stop, self.step = (v.read() if isinstance(v, Variable) else v for v in (start, stop, step))
        if isinstance(self.step, Tensor) and dtype is None:  # reversed: its step is checked already
            check_with(_core.not_equal(self.step, 0), "range: a step of 0 goes nowhere", [("step", self.step)])
        dtypes = [v.dtype for v in (self.stop, self.start, self.step) if isinstance(v, Tensor)]
        self.dtype = dtype or dtypes[0]
        self.floating = any("float" in str(d) for d in dtypes) or any(isinstance(v, float) for v in (self.start, self.stop, self.step))
        self.plain = self.floating or self.dtype in (_core.int32, _core.int64) and all(d == self.dtype for d in dtypes)  # items need no wider dtype

    def __iter__(self):
        raise errors.ConversionFailed("a range of a tensor cannot be gone through by Python", why="its length is known when the graph runs, and Python takes one item after the other while the function is traced",
                                      fix="write for i in range(n):; lists that go with it as tensors: zip(range(n), lm.constant(list))")

    def wide(self):
        """start, stop and step, integers as int64: their differences may not fit their own dtype."""
        parts = self.start, self.stop, self.step
        return parts if self.floating else tuple(_core.astype(v, _core.int64) if isinstance(v, Tensor) else v for v in parts)

    def count(self):
        """The number of items: an int, or an int32 tensor."""
        start, stop, step = self.wide()
        if isinstance(step, int) and step == 0:
            raise errors.InvalidArgument("range: a step of 0 goes nowhere", why="it never comes to its end", fix="pass a step that is not 0")
        if isinstance(step, int) and step == 1:
            count = self.stop if type(start) is int and start == 0 else stop - start
        elif isinstance(step, int):
            count = (stop - start + (step - 1 if step > 0 else step + 1)) // step
        else:
            count = _core.ceil((stop - start) / step) if self.floating else (stop - start + step - _core.sign(step)) // step
        if not isinstance(count, Tensor):
            return count
        if self.floating:
            count = _core.ceil(count)
        elif count.dtype in (_core.int64, _core.uint32, _core.uint64):
            count = _core.minimum(_core.maximum(count, 0), 2 ** 31 - 1)
        return _core.astype(count, _core.int32)

    def at(self, i):
        """The item at an index, or at several indices."""
        if self.plain:
            return weak(_core.astype(i, self.dtype) * self.step + self.start)
        start, _, step = self.wide()
        return weak(_core.astype(_core.astype(i, _core.int64) * step + start, self.dtype))

    def tensor(self):
        """All items, as a tensor whose length is known at run time."""
        return self.at(of_length(self.count()))

    def reversed(self):
        start, _, step = self.wide()
        last = start + _core.astype(self.count() - 1, self.dtype if self.floating else _core.int64) * step
        return Steps(last, start - step, -step, self.dtype)


class Counted:
    """enumerate(iterated, start) of something that the graph iterates over."""

    def __init__(self, iterated, start=0):
        self.iterated, self.start = iterated, start

    def __iter__(self):
        return ((self.start + i, item) for i, item in builtins.enumerate(self.iterated))


class Zipped:
    """zip(...) of tensors."""

    def __init__(self, parts, strict=False):
        self.parts, self.strict = parts, strict

    def __iter__(self):
        return builtins.zip(*self.parts, strict=self.strict)

    def require_equal(self, a, b):
        """With strict=True: two lengths must be equal, those known at run time then."""
        if not self.strict:
            return
        if not isinstance(a, int) or not isinstance(b, int):
            check_with(_core.equal(a, b), "zip with strict=True: the lengths differ", [("one length", a), ("the next", b)])
        elif a != b:
            raise errors.InvalidArgument(f"zip: the lengths {a} and {b} differ", why="strict=True says that they are equal", fix="cut the longer one, or leave strict out")


def _length(tensor):
    if tensor.shape == () or len(tensor.shape) == 0:
        raise errors.InvalidArgument("a tensor without axes cannot be iterated over", why="a loop goes along the first axis", fix="loop over lm.range(n), or reshape it")
    return tensor.shape[0]


def stacked(iterated):
    """The input of a scan, and a function that makes an item of a slice; None if the number of iterations is known only at run time."""
    if isinstance(iterated, Tensor):
        _length(iterated)
        return iterated, lambda item: item
    if isinstance(iterated, Zipped):
        parts = [stacked(p) for p in iterated.parts]
        lengths = [None if p[0] is None else first_of(p[0]).shape[0] for p in parts]
        if any(p[0] is None for p in parts) or None in lengths and any(part is not iterated.parts[0] for part in iterated.parts):
            return None, None
        for one, next_one in zip(lengths, lengths[1:]):
            if one is not None and next_one is not None:
                iterated.require_equal(int(one), int(next_one))
        shortest = builtins.min((int(first_of(p[0]).shape[0]) for p in parts if first_of(p[0]).shape[0] is not None), default=None)
        cut = tuple(p[0] if shortest is None or not isinstance(p[0], Tensor) or p[0].shape[0] == shortest else p[0][:shortest] for p in parts)
        return cut, lambda item: tuple(p[1](one) for p, one in zip(parts, item))
    if isinstance(iterated, Counted):
        xs, item_of = stacked(iterated.iterated)
        length = None if xs is None else first_of(xs).shape[0]
        if xs is None or length is None:
            return None, None
        return (_core.arange(length) + iterated.start, xs), lambda item: (weak(item[0]), item_of(item[1]))
    return None, None


def first_of(xs):
    return xs if isinstance(xs, Tensor) else first_of(xs[0])


def each_of(xs, change):
    return change(xs) if isinstance(xs, Tensor) else tuple(each_of(part, change) for part in xs)


def item_at(iterated):
    """The number of items, and the item at an index."""
    if isinstance(iterated, Steps):
        return iterated.count(), iterated.at
    if isinstance(iterated, Tensor):
        length = _length(iterated)
        return length_of(iterated) if length is None else length, lambda i: _core.gather(iterated, i)
    if isinstance(iterated, Counted):
        count, inner = item_at(iterated.iterated)
        return count, lambda i: (weak(i) + iterated.start, inner(i))
    parts = [item_at(p) for p in iterated.parts]
    count = parts[0][0]
    for other, _ in parts[1:]:
        iterated.require_equal(count, other)
        count = builtins.min(count, other) if isinstance(count, int) and isinstance(other, int) else _core.minimum(count, other)
    return count, lambda i: tuple(item_at(i) for _, item_at in parts)
