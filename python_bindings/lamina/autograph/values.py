"""Values of names and places in converted code: which can be state of a graph, which are equal in Python, and the placeholder for unbound
names."""
from __future__ import annotations

from .. import _core
from .._structure import is_dataclass, parts_of, with_parts
from .lists import GrowingList
from .reach import NUMBERS, same_number

Tensor, Variable = _core.Tensor, _core.Variable


class Undefined:
    """The value of a name that is unbound on some path through the function. Any use is an error that names it."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"<no value for {self.name}>"


def value_of(value, name):
    """The value of a name that may be unbound."""
    if type(value) is Undefined:
        raise UnboundLocalError(f"the variable '{name}' has no value here: it is given one only on another way through the function")
    return value


def returned(value):
    """A function's return value; None if it falls off its end."""
    return None if type(value) is Undefined else value


def in_graph(value) -> bool:
    """Whether a condition is a tensor of the graph being traced."""
    return isinstance(value, (Tensor, Variable)) and not _core.executing_eagerly()


class Again(Exception):
    """Raised when tracing a branch or body shows what a name must be; it is traced again with that."""

    def __init__(self, hints):
        self.hints = hints


def function_of(body):
    """The user's function that a body belongs to."""
    return next((part[4:] for part in reversed(body.__qualname__.split(".")) if part.startswith("lm__")), None)


def is_state(value, around=()) -> bool:
    """Whether a value can be a result of a branch or a loop variable of the graph: tensors, numbers, and tuples, lists, dicts and dataclasses of them
    and of None."""
    if isinstance(value, (Tensor, Variable, GrowingList)) or type(value) in NUMBERS or type(value).__module__ == "numpy":
        return True
    if not has_parts(value):
        return value is None and around != ()
    if len(around) > 100 or any(value is v for v in around):
        return False
    return all(is_state(v, (*around, value)) for v in parts_of(value).values())


def has_parts(value) -> bool:
    """Whether a value consists of others, which branches and loops of the graph carry."""
    return isinstance(value, (tuple, list)) or type(value) is dict or is_dataclass(value)


def is_container(value) -> bool:
    """Whether a value has parts that can be changed, so that it matters which object it is."""
    return type(value) in (list, dict) or is_dataclass(value) and not type(value).__dataclass_params__.frozen


def frozen(value):
    """A snapshot of a structure of tensors, with new containers."""
    if type(value) is GrowingList:
        return value.buffer, value.taken
    return with_each(value, frozen) if has_parts(value) else value


def with_each(value, change):
    """A container like value, of change(part) for each part."""
    return with_parts(value, {key: change(part) for key, part in parts_of(value).items()})


def containers_in(value):
    """The containers in a structure that can be changed, itself included."""
    if is_container(value):
        yield value
    for part in parts_of(value).values() if has_parts(value) else ():
        yield from containers_in(part)


def _has_tensor(value, around=()) -> bool:
    if not has_parts(value):
        return isinstance(value, (Tensor, Variable))
    return not any(value is v for v in around) and any(_has_tensor(v, (*around, value)) for v in parts_of(value).values())


def same(a, b) -> bool:
    """Whether two Python values are equal, so that both branches agree without a tensor."""
    if a is b:
        return True
    if _has_tensor(a) or _has_tensor(b) or type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if type(a) is dict:
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return False  # a separate object on each path
    try:
        return same_number(a, b) if isinstance(a, (float, complex)) else bool(a == b)
    except Exception:
        return False


class _Zeros:
    """Zeros created where they are needed, because a tensor of one branch cannot be used in another."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def zeros_like(value):
    if isinstance(value, (Tensor, Variable)):
        return _Zeros(value.shape, value.dtype)
    return with_each(value, zeros_like) if has_parts(value) else type(value)()


def made(value):
    if has_parts(value):
        return with_each(value, made)
    return _core.zeros(value.shape, dtype=value.dtype) if type(value) is _Zeros else value


def boolean(test):
    test = test.read() if isinstance(test, Variable) else test
    return test if test.dtype == _core.bool else _core.not_equal(test, 0)


def boolean_of(value):
    return boolean(value) if isinstance(value, (Tensor, Variable)) else _core.constant(bool(value))


def describe(value):
    if isinstance(value, (Tensor, Variable)):
        return f"a tensor {value.dtype.name if hasattr(value.dtype, 'name') else value.dtype}{tuple(value.shape)}"
    return "None" if value is None else f"the {type(value).__name__} {value!r}"[:80]
