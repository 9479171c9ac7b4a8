"""Python numbers that meet tensors in branches, loops and lists: they take the tensor's dtype, as in arithmetic. So do those that the graph computes instead."""
from __future__ import annotations

from .. import _core, errors

weak = _core._weak  # a scalar in place of a Python number


def is_number(value) -> bool:
    """Whether a value is a Python number, or one that the graph computes."""
    return type(value) in (int, float) or isinstance(value, _core.Tensor) and _core._is_number(value)


def takes(value, dtype) -> bool:
    """Whether a number takes this dtype of a tensor that it meets."""
    if isinstance(value, _core.Tensor):
        return any(kind in str(dtype) for kind in ("float", "complex")) or dtype == _core.int64 and "int" in value.dtype.name  # narrower ones might not hold it
    if type(value) is int:
        return dtype != _core.bool or value in (0, 1)
    return type(value) is float and any(kind in str(dtype) for kind in ("float", "complex"))


def as_number(value, dtype):
    """A number as a tensor of this dtype, which must hold a Python number."""
    if isinstance(value, _core.Tensor):
        return _core.astype(value, dtype)
    if dtype == _core.bool and value in (0, 1):
        return _core.constant(bool(value))
    try:
        return _core.constant(value, dtype=dtype)
    except errors.InvalidArgument:
        raise errors.TypeMismatch(f"{value} does not fit {dtype}", why="a number takes the dtype of the tensor that it meets", fix="convert the tensor: lm.astype(x, lm.int64)") from None


def alone(value):
    """A number that meets no tensor yet: an int that does not fit int32 is an int64, or a uint64."""
    if type(value) is not int or -2 ** 31 <= value < 2 ** 31:
        return value
    return as_number(value, _core.int64 if value < 2 ** 63 else _core.uint64)
