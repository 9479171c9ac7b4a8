"""Values of names and places in converted code: which can be state of a graph, which are equal in Python, and the placeholder for unbound
names."""
from __future__ import annotations

from .. import _core
from .._structure import is_dataclass, parts_of, with_parts
from .lists import GrowingList
from .numbers import is_number, weak
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


def is_state(value) -> bool:
    """Whether a value can be a result of a branch or a loop variable of the graph: a tensor, a number, or a tuple, list, dict or dataclass with such a part.
    Its other parts stay Python values, the same on every way."""
    return not _is_python(value)


def _is_in_graph(leaf) -> bool:
    return isinstance(leaf, (Tensor, Variable, GrowingList, _Zeros)) or type(leaf) in NUMBERS or type(leaf).__module__ == "numpy"


def _is_python(value) -> bool:
    """Whether a value has nothing that a graph carries, or reaches itself. A container of nothing is carried."""
    def look(value, around):
        if not has_parts(value):
            return not _is_in_graph(value)
        if len(around) > 100 or any(value is v for v in around):
            raise RecursionError
        parts = [look(part, (*around, value)) for part in parts_of(value).values()]
        return parts != [] and all(parts)

    try:
        return look(value, ())
    except RecursionError:
        return True


def has_parts(value) -> bool:
    """Whether a value consists of others, which branches and loops of the graph carry."""
    return isinstance(value, (tuple, list)) or type(value) is dict or is_dataclass(value)


def is_container(value) -> bool:
    """Whether a value has parts that can be changed, so that it matters which object it is."""
    return type(value) in (list, dict) or is_dataclass(value) and not getattr(getattr(value, "__dataclass_params__", None), "frozen", False)


def frozen(value):
    """What the graph carries of a value: a structure of tensors and numbers, with new containers and None for what stays a Python value."""
    if type(value) is GrowingList:
        return value.buffer, value.taken
    return None if _is_python(value) else with_each(value, frozen) if has_parts(value) else value


def thawed(carried, like):
    """The value of which the graph carried the tensors, with new containers, and the Python values and the order of keys of one like it."""
    if type(like) is GrowingList:
        return GrowingList(*carried, closed=like.closed)
    if not has_parts(like) or not has_parts(carried):
        return like if carried is None else weak(carried) if is_number(like) else carried
    parts = parts_of(carried)
    made = {key: thawed(parts[key], part) for key, part in parts_of(like).items()}
    return made if type(carried) is dict else with_parts(carried, made)


def difference(name, a, b):
    """(where, one value, the other, the fix) of the first part that would have to be a tensor on both ways, or the same Python value; None if there is none."""
    if a is b:
        return None
    if has_parts(a) and has_parts(b) and not _is_python(a) and not _is_python(b):
        others, dot = parts_of(b), is_dataclass(a)
        if found := dot and is_dataclass(b) and _other_attributes(name, a, b):
            return found
        found = (difference(f"{name}.{key}" if dot else f"{name}[{key!r}]", part, others[key]) for key, part in parts_of(a).items() if key in others)
        return next(filter(None, found), None)
    python = _is_python(a), _is_python(b)
    return None if python == (False, False) or all(python) and _agree(a, b) else (name, a, b, "make it a tensor on every way, or the same Python value")


def _other_attributes(name, a, b):
    """As difference(), of what dataclasses hold besides their fields, which is not carried."""
    mine, others = ({key: part for key, part in getattr(value, "__dict__", {}).items() if key not in value.__dataclass_fields__} for value in (a, b))
    return next(((f"{name}.{key}", mine.get(key, Undefined(key)), others.get(key, Undefined(key)), f"declare it as a field of {type(a).__name__}, which are carried: {key}: lm.Tensor = dataclasses.field(init=False)") for key in [*mine, *others]
                 if key not in mine or key not in others or not _agree(mine[key], others[key])), None)


def _agree(a, b) -> bool:
    """Whether two Python values are one on both ways: what can be changed is the same object."""
    if a is b or is_container(a):
        return a is b
    if type(a) is not type(b) or not has_parts(a):
        return same(a, b)
    parts, others = parts_of(a), parts_of(b)
    return parts.keys() == others.keys() and all(_agree(part, others[key]) for key, part in parts.items())


def with_each(value, change):
    """A container like value, of change(part) for each part."""
    return with_parts(value, {key: change(part) for key, part in parts_of(value).items()})


def containers_in(value):
    """The containers of a carried structure that can be changed, itself included."""
    if is_container(value):
        yield value
    for part in parts_of(value).values() if has_parts(value) else ():
        if not _is_python(part):
            yield from containers_in(part)


def pairs_in(a, b):
    """The containers of a carried structure that can be changed, each with what is in its place in another."""
    if a is b or not has_parts(a) or not has_parts(b) or _is_python(a):
        return
    if is_container(a):
        yield a, b
    others = parts_of(b)
    for key, part in parts_of(a).items():
        if key in others:
            yield from pairs_in(part, others[key])


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
    return value if _is_python(value) else with_each(value, zeros_like) if has_parts(value) else type(value)()


def made(value):
    if has_parts(value) and not _is_python(value):
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
