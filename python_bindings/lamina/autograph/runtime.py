"""Functions called by converted code: at each branch, loop and condition they run plain Python for Python values, and add nodes to the
graph for tensors of the trace."""
from __future__ import annotations

import builtins
import operator
import types

from .. import _core, errors
from .._loops import cond, fori_loop, scan, while_loop
from ..reporting import check_with
from .branches import if_, if_expression
from .iteration import Steps
from .lists import GrowingList
from .loops import append, for_, refuse_items_of, while_
from .numbers import alone, takes
from .python_functions import BUILTINS, HEADS, change_item, check_key, contains, item, item_to_change, items, not_in, set_item
from .values import Again, Tensor, Undefined, Variable, boolean as _boolean, boolean_of as _boolean_of, describe, has_parts, in_graph, is_state, returned, value_of


# --- conditions: only their truth matters ---


def and_(*operands):
    value = operands[0]()
    for n, operand in enumerate(operands[1:], 1):
        if not in_graph(value):
            if not value:
                return value
            value = operand()
            continue
        rest = operands[n:]
        return if_expression(value, lambda: _boolean_of(and_(*rest)), lambda: _core.constant(False)) if value.shape == () else _core.logical_and(_boolean(value), _boolean_of(and_(*rest)))
    return value


def or_(*operands):
    value = operands[0]()
    for n, operand in enumerate(operands[1:], 1):
        if not in_graph(value):
            if value:
                return value
            value = operand()
            continue
        rest = operands[n:]
        return if_expression(value, lambda: _core.constant(True), lambda: _boolean_of(or_(*rest))) if value.shape == () else _core.logical_or(_boolean(value), _boolean_of(or_(*rest)))
    return value


# --- `and` and `or` as values: one of the operands ---


def first_false(*operands):
    """The operand that Python's `and` gives."""
    return _chosen("and", operands, lambda value: not value, first_false)


def first_true(*operands):
    """The operand that Python's `or` gives."""
    return _chosen("or", operands, bool, first_true)


def _chosen(name, operands, ends, again):
    value = operands[0]()
    for n, operand in enumerate(operands[1:], 1):
        if in_graph(value):
            return _operand(name, value, lambda: again(*operands[n:]))
        if ends(value):
            return value
        value = operand()
    return value


class _Meets(Again):
    """Raised when the rest of an `and` or `or` is a number, and what stands before it a bool tensor."""

    def __init__(self, dtype):
        super().__init__({})
        self.dtype = dtype


def _operand(name, value, rest):
    """`value and rest()` or `value or rest()` with a tensor of the graph. A bool tensor that meets a number becomes one, as in arithmetic."""
    if tuple(value.shape) == ():
        try:
            return _selected(name, value, rest, value.dtype)
        except _Meets as number:
            return _selected(name, value, rest, number.dtype)
    other = rest()
    if value.dtype != _core.bool or not (type(other) is bool or isinstance(other, (Tensor, Variable)) and other.dtype == _core.bool):
        _refuse_operand(name, value)
    return (_core.logical_and if name == "and" else _core.logical_or)(value, other)


def _selected(name, value, rest, dtype):
    def stays():
        return value if value.dtype != _core.bool else _core.constant(name == "or", dtype=dtype)

    def goes_on():
        other = rest()
        if type(other).__module__ == "numpy" and other.ndim == 0:
            other = other.item()
        if not is_state(other) or has_parts(other) or type(other) is GrowingList:
            _refuse_operand(name, other)
        if type(other) in (int, float) and value.dtype != _core.bool and takes(other, dtype):
            return other
        made = other if isinstance(other, (Tensor, Variable)) else _core.constant(alone(other))
        if made.dtype == _core.bool:
            return _core.astype(made, dtype)
        if dtype == _core.bool:
            raise _Meets(made.dtype)
        if made.dtype != dtype:
            _refuse_operand(name, other)
        return made

    goes_on.__qualname__ = stays.__qualname__ = rest.__qualname__
    return if_expression(value, goes_on, stays) if name == "and" else if_expression(value, stays, goes_on)


def _refuse_operand(name, operand):
    raise errors.ConversionFailed(f"{name}: {describe(operand)} cannot be an operand beside a tensor of the graph", why="which operand Python gives is known when the graph runs, which chooses between single numbers of one dtype",
                                  fix="write lm.where(condition, a, b), or x if condition else y; for conditions of several elements lm.logical_and and lm.logical_or")


def not_(value):
    return _core.logical_not(_boolean(value)) if in_graph(value) else not value


_OPERATORS = {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne, "Is": operator.is_,
              "IsNot": operator.is_not, "In": contains, "NotIn": not_in}


def compare(names, left, *others):
    """a < b < c, with each operand evaluated once and only if needed."""
    return _compared(names, left, others, 0)


def _compared(names, a, others, i):
    b = others[i]()
    first = _OPERATORS[names[i]](a, b)
    return first if i + 1 == len(others) else and_(lambda: first, lambda: _compared(names, b, others, i + 1))


def assert_(test, source, message, names, values):
    """The assert statement: checked at once for Python values, at run time for tensors. source: the condition's source text."""
    if not in_graph(test):
        if not test:
            text = message()
            raise AssertionError() if text is None else AssertionError(text)
        return
    text = message()
    named = [(n, v) for n, v in zip(names, values()) if isinstance(v, (Tensor, Variable))]
    check_with(_boolean(test), source if text is None else text, named, "assertion failed: ")


# --- calls ---


def _converting(function):
    """Calls a function of lamina with converted function arguments."""
    def call(*args, **options):
        def converted(a):
            return callee(a) if isinstance(a, types.FunctionType) else a

        return function(*map(converted, args), **{k: converted(v) for k, v in options.items()})

    return call


def callee(function):
    """The replacement for a function; conversion.py installs its own here."""
    return function


def next_(iterator, *default):
    refuse_items_of(iterator)
    return builtins.next(iterator, *default)


_TAKE_RANGES = builtins.enumerate, builtins.zip, builtins.reversed


def head(function):
    """callee(function) in the head of a for statement, where a range, also inside enumerate, zip and reversed, is iterated without making a tensor."""
    if not _core.autograph_is_active():
        return function
    if any(function is f for f in HEADS):
        return HEADS[function]
    called = callee(function)
    if any(function is f for f in _TAKE_RANGES) or isinstance(called, type):  # map, filter and the like say that they cannot go through it
        return called
    return lambda *args, **options: called(*(a.tensor() if isinstance(a, Steps) else a for a in args), **options)


BUILTINS = {**BUILTINS, builtins.next: next_}
for _function in (cond, while_loop, scan, fori_loop):
    BUILTINS[_function] = _converting(_function)

__all__ = ["BUILTINS", "Undefined", "and_", "append", "assert_", "change_item", "check_key", "compare", "contains", "first_false", "first_true", "for_", "head", "if_", "if_expression", "item", "item_to_change", "items", "not_", "not_in", "or_", "returned", "set_item", "value_of", "while_"]
