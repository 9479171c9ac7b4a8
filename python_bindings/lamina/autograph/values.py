"""Values of names and places in converted code: which can be state of a graph, which are equal in Python, and the placeholder for unbound
names."""
from __future__ import annotations

from .. import _core
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
    """Whether a value can be a result of a branch or a loop variable of the graph: tensors, numbers, and tuples, lists and dicts of them."""
    if isinstance(value, (Tensor, Variable, GrowingList)) or type(value) in NUMBERS or type(value).__module__ == "numpy":
        return True
    if isinstance(value, (tuple, list)) or type(value) is dict:
        if len(around) > 100 or any(value is v for v in around):
            return False
        return all(is_state(v, (*around, value)) for v in (value.values() if type(value) is dict else value))
    return False


def is_container(value) -> bool:
    """Whether a value is a container that branches and loops can rebuild."""
    return type(value) in (list, dict)


def frozen(value):
    """A snapshot of a structure of tensors, with new containers."""
    if type(value) is GrowingList:
        return value.buffer, value.taken
    if isinstance(value, tuple):
        parts = [frozen(v) for v in value]
        return type(value)._make(parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [frozen(v) for v in value]
    return {k: frozen(v) for k, v in value.items()} if type(value) is dict else value


def containers_in(value):
    """The lists and dicts in a structure, itself included."""
    if is_container(value):
        yield value
    for part in value.values() if type(value) is dict else value if isinstance(value, (list, tuple)) else ():
        yield from containers_in(part)


def _has_tensor(value) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_tensor(v) for v in value)
    if type(value) is dict:
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (Tensor, Variable))


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
    if isinstance(value, (tuple, list)):
        return type(value)(zeros_like(v) for v in value)
    if type(value) is dict:
        return {k: zeros_like(v) for k, v in value.items()}
    if isinstance(value, (Tensor, Variable)):
        return _Zeros(value.shape, value.dtype)
    return type(value)()


def made(value):
    if isinstance(value, (tuple, list)):
        return type(value)(made(v) for v in value)
    if type(value) is dict:
        return {k: made(v) for k, v in value.items()}
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
