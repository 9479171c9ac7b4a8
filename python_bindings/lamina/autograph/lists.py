"""Lists in loops of the graph: a Python list that is appended to becomes a tensor of all elements, whose length is known at run time."""
from __future__ import annotations

import builtins

from .. import _core, errors
from .numbers import alone, as_number, takes, weak

Tensor, Variable = _core.Tensor, _core.Variable


class Grows(Exception):
    """Raised when a loop of the graph appends to a list: the loop is traced again with a GrowingList in its place."""

    def __init__(self, owner, element):
        self.owner, self.element = owner, element


class Unfit(Grows):
    """Raised when a Collected list is used otherwise: the loop is traced again with a GrowingList."""


class Collected:
    """A list that gets one element in each iteration of a loop of known length, without being read there: lm.scan stacks the elements."""

    def __init__(self, is_in_body):
        self.is_in_body, self.elements = is_in_body, []

    def append(self, value):
        if self.elements or not self.is_in_body():
            self.refuse()
        self.elements.append(as_element(value))

    def refuse(self, *_):
        raise Unfit(self, None)

    __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = __contains__ = __eq__ = __hash__ = refuse

    def __getattr__(self, name):
        self.refuse()


class GrowingList:
    """A list of tensors of one dtype and shape in a graph. Supports len(), indexing, iteration, lm.stack and append."""

    def __init__(self, buffer, count, closed=False):
        self.buffer, self.taken, self.closed = buffer, count, closed

    def close(self):
        """After the loop in which it grew: sets its length to the count."""
        _core._list_close(self.buffer, self.taken)
        self.closed = True

    def append(self, value):
        if self.closed:
            raise errors.ConversionFailed("a list that has grown in a loop of the graph cannot grow again after it", why="it is a tensor of that length", fix="use a list for each loop, and lm.concat([lm.stack(a), lm.stack(b)])")
        value = as_element(value, self.buffer.dtype)
        self.buffer = _core._list_set(self.buffer, self.taken, value)
        self.taken = self.taken + 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise errors.ConversionFailed("a list that grew in a loop of the graph cannot be sliced", why="its length is known when it runs", fix="stack it first: lm.stack(out)[...]")
        return _core.gather(self.buffer, self._place(index))

    def __setitem__(self, index, value):
        if isinstance(index, slice):
            raise errors.ConversionFailed("slices of a list that grows in a loop of the graph cannot be assigned", why="its length is known when it runs", fix="assign its elements one by one")
        self.buffer = _core._list_set(self.buffer, _core.astype(self._place(index), _core.int64), as_element(value, self.buffer.dtype))

    def _place(self, index):
        """A position counted from the front. One beyond the last element is out of the buffer's range, so that it is an error at run time."""
        index = index.read() if isinstance(index, Variable) else index
        index = _core.astype(index, _core.int64) if isinstance(index, Tensor) else _core.constant(index, dtype=_core.int64)
        inside = _core.logical_and(index < self.taken, index >= -self.taken)
        return _core.where(inside, _core.where(index < 0, index + self.taken, index), _core.constant(2 ** 31 - 1, dtype=_core.int64))

    def __getattr__(self, name):
        if not hasattr(list, name) or name.startswith("__"):
            raise AttributeError(name)
        raise errors.ConversionFailed(f"{name}: a list that grows in a loop of the graph can only be appended to, indexed, gone through, stacked and measured", why="it is a tensor there",
                                      fix="stack it and use functions of lm: lm.stack(out)")

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
    """An appended value as a tensor."""
    if isinstance(value, Variable):
        return value.read()
    if isinstance(value, Tensor):
        return value
    if type(value) in (bool, int, float):
        return _core.constant(alone(value)) if dtype is None else as_number(value, dtype)
    if type(value).__module__ == "numpy":
        if dtype is not None and value.ndim == 0:
            return as_number(value.item(), dtype)
        made = _core.constant(value)
        return _core.astype(made, dtype) if dtype is not None and takes(0.0, made.dtype) and takes(0.0, dtype) else made
    raise errors.ConversionFailed(f"append: {errors.a_type(value)} cannot be collected in a loop of the graph", why="the list is stacked: its elements are tensors", fix="use a list for each tensor")


def is_element(value, element) -> bool:
    """Whether what a list holds already is of the shape and dtype of what is appended."""
    if not isinstance(value, (Tensor, Variable)) and type(value) not in (bool, int, float):
        return False
    made = as_element(value) if isinstance(value, (Tensor, Variable)) or not takes(value, element[1]) else as_element(value, element[1])
    return (tuple(made.shape), made.dtype) == element


def started(values, element):
    """A GrowingList with these initial values and space for all appended elements."""
    shape, dtype = element
    out = GrowingList(_core._list_buffer(shape, dtype), _core.constant(0, dtype=_core.int64))
    for value in values:
        out.append(value)
    return out


# --- built-in functions that may get such lists ---


def length(value):
    if type(value) is GrowingList:
        return weak(_core.astype(value.taken, _core.int32))
    if isinstance(value, Tensor) and not _core.executing_eagerly() and value.shape != () and (value.shape[0] is None or _core._may_be_short(value)):
        return weak(length_of(value))
    return builtins.len(value)


def length_of(tensor):
    """A tensor's first length, as an int32 tensor: for lengths known at run time."""
    short = _core._may_be_short(tensor)
    if len(tensor.shape) > 1:
        none = tensor[:, :0]
        tensor = _core.any(_core.equal(none, none), axis=tuple(range(1, len(none.shape))))
    # What is counted of a slice depends on its elements: then it is as short as they are.
    ones = _core.logical_or(_core.equal(tensor, tensor), _core.not_equal(tensor, tensor)) if short else _core.ones_like(tensor)
    return _core.sum(_core.astype(ones, _core.int32))


def of_length(count):
    """0, 1, ... count - 1, an int32 tensor whose length is known at run time."""
    try:
        buffer = _core._list_buffer((), _core.int32)
    except errors.InvalidArgument as error:
        raise errors.ConversionFailed("range: a tensor of this length is made inside of a branch or loop of the graph", why="its length is found before the whole graph runs, so it belongs to the function itself",
                                      fix="make it before the branch or loop, or write for i in range(...): directly") from error
    _core._list_close(buffer, _core.astype(_core.maximum(count, 0), _core.int64))
    return _core.cumsum(_core.ones_like(buffer), 0) - 1


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
