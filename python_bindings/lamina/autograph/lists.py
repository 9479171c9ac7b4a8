"""Lists in loops of the graph: what appends to a Python list there becomes a tensor of all elements, whose length is found when it runs."""
from __future__ import annotations

import builtins

from .. import _core, errors

Tensor, Variable = _core.Tensor, _core.Variable


class Grows(Exception):
    """A list was appended to in a loop of the graph: the loop is traced again with a GrowingList in its place."""

    def __init__(self, owner, element):
        self.owner, self.element = owner, element


class GrowingList:
    """A list of tensors of one dtype and shape in a graph: len(), indexing, iteration, lm.stack and append are what it can do."""

    def __init__(self, buffer, count, closed=False):
        self.buffer, self.count, self.closed = buffer, count, closed

    def close(self):
        """After the loop in which it grew: its count is its length."""
        _core._list_close(self.buffer, self.count)
        self.closed = True

    def append(self, value):
        if self.closed:
            raise errors.ConversionFailed("a list that has grown in a loop of the graph cannot grow again after it", why="it is a tensor of that length", fix="use a list for each loop, and lm.concat([lm.stack(a), lm.stack(b)])")
        value = as_element(value, self.buffer.dtype)
        self.buffer = _core._list_set(self.buffer, self.count, value)
        self.count = self.count + 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise errors.ConversionFailed("a list that grew in a loop of the graph cannot be sliced", why="its length is known when it runs", fix="stack it first: lm.stack(out)[...]")
        if not isinstance(index, (Tensor, Variable)) and index < 0:
            index = self.count + index
        return _core.gather(self.buffer, index)

    def __iter__(self):
        raise errors.ConversionFailed("a list that grew in a loop of the graph cannot be gone through by Python", why="its length is known when it runs",
                                      fix="loop over it in a function that is converted, or stack it: lm.stack(out)")

    def __len__(self):
        raise errors.ConversionFailed("the length of a list that grew in a loop of the graph is not a Python number", why="it is known when it runs", fix="call len() in a function that is converted: it gives a tensor there")

    def __bool__(self):
        return builtins.bool(self.__len__())

    def __repr__(self):
        return f"<list of tensors {self.buffer.dtype}{tuple(self.buffer.shape[1:])} in a graph>"


def as_element(value, dtype=None):
    """What is appended, as a tensor."""
    if isinstance(value, Variable):
        return value.read()
    if isinstance(value, Tensor):
        return value
    if type(value) in (bool, int, float) or type(value).__module__ == "numpy":
        return _core.constant(value) if dtype is None else _core.astype(_core.constant(value), dtype)
    raise errors.ConversionFailed(f"append: {errors.a_type(value)} cannot be collected in a loop of the graph", why="the list is stacked: its elements are tensors", fix="use a list for each tensor")


def started(values, element):
    """A GrowingList with a place for all that will be appended, and these values at its start."""
    shape, dtype = element
    out = GrowingList(_core._list_buffer(shape, dtype), _core.constant(0, dtype=_core.int64))
    for value in values:
        out.append(value)
    return out


# --- built-in functions that lists may reach ---


def length(value):
    return value.count if type(value) is GrowingList else builtins.len(value)


def stack(arrays, axis=0, **options):
    if type(arrays) is not GrowingList:
        return _core.stack(arrays, axis, **options)
    return arrays.buffer if axis == 0 else _core.moveaxis(arrays.buffer, 0, axis)


def concat(arrays, axis=0, **options):
    if type(arrays) is not GrowingList:
        return _core.concat(arrays, axis, **options)
    x = arrays.buffer
    if len(x.shape) == 1:
        raise errors.InvalidArgument("concat: tensors without axes cannot be joined along one", fix="lm.stack(out)")
    rank = len(x.shape) - 1
    x = _core.moveaxis(x, 0, axis % rank)
    shape = list(x.shape)
    joined = shape[:axis % rank] + [-1] + shape[axis % rank + 2:]
    return _core.reshape(x, joined)
