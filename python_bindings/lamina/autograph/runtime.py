"""What converted functions call: at each branch, loop and condition, Python's own way when the values are Python's, a node of the graph when
they are tensors of the trace."""
from __future__ import annotations

import builtins
import operator
import types

from .. import _core
from .._loops import cond, fori_loop, scan, while_loop
from ..reporting import check_with
from . import lists
from .branches import if_, if_expression
from .iteration import Counted, Steps, Zipped
from .lists import GrowingList
from .loops import append, for_, refuse_items_of, while_
from .values import Tensor, Undefined, Variable, boolean as _boolean, boolean_of as _boolean_of, in_graph, returned, value_of


# --- conditions ---


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


def not_(value):
    return _core.logical_not(_boolean(value)) if in_graph(value) else not value


_OPERATORS = {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne, "Is": operator.is_,
              "IsNot": operator.is_not, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b}


def compare(names, left, *others):
    """a < b < c, each operand evaluated once and only as far as needed."""
    held = [left]

    def link(i):
        def run():
            a = held[0]
            held[0] = others[i]()
            return _OPERATORS[names[i]](a, held[0])
        return run

    return and_(*(link(i) for i in builtins.range(len(others))))


def assert_(test, source, message, names, values):
    """The assert statement: at once for Python values, when it runs for tensors. source: the condition as it is written."""
    if not in_graph(test):
        if not test:
            text = message()
            raise AssertionError() if text is None else AssertionError(text)
        return
    text = message()
    named = [(n, v) for n, v in zip(names, values()) if isinstance(v, (Tensor, Variable))]
    check_with(_boolean(test), source if text is None else text, named, "assertion failed: ")


# --- built-in functions that tensors may reach ---


def range_(*args):
    return Steps(*args) if any(in_graph(a) for a in args) else builtins.range(*args)


def _is_dynamic(iterated):
    return isinstance(iterated, (Steps, Counted, Zipped, GrowingList)) or in_graph(iterated)


def _as_tensor(iterated):
    return iterated.buffer if type(iterated) is GrowingList else iterated.read() if isinstance(iterated, Variable) else iterated


def enumerate_(iterated, start=0):
    return Counted(_as_tensor(iterated), start) if _is_dynamic(iterated) else builtins.enumerate(iterated, start)


def zip_(*parts, **options):
    if not any(_is_dynamic(p) for p in parts):
        return builtins.zip(*parts, **options)
    if all(_is_dynamic(p) for p in parts):
        return Zipped([_as_tensor(p) for p in parts])
    parts = [_as_tensor(p) for p in parts]
    lengths = [len(p) if hasattr(p, "__len__") and not isinstance(p, Tensor) else None for p in parts]
    shortest = builtins.min((n for n in lengths if n is not None), default=None)
    rows = [([p[i] for i in builtins.range(shortest if p.shape[0] is None else builtins.min(shortest, p.shape[0]))] if isinstance(p, Tensor) else p) for p in parts]
    return builtins.zip(*rows)


def lamina_range(*args, **options):
    return Steps(*args) if any(in_graph(a) for a in args) and not options else _core.range(*args, **options)


def _converting(function):
    """A function of lamina with the functions among its arguments converted."""
    def call(*args, **options):
        def converted(a):
            return callee(a) if isinstance(a, types.FunctionType) else a

        return function(*map(converted, args), **{k: converted(v) for k, v in options.items()})

    return call


def callee(function):
    """What to call instead of a function; conversion.py puts its own in this place."""
    return function


def next_(iterator, *default):
    refuse_items_of(iterator)
    return builtins.next(iterator, *default)


BUILTINS = {builtins.next: next_, builtins.range: range_, builtins.enumerate: enumerate_, builtins.zip: zip_, builtins.len: lists.length, _core.stack: lists.stack, _core.concat: lists.concat}
for _name in ("range", "arange"):
    if hasattr(_core, _name):
        BUILTINS[getattr(_core, _name)] = lamina_range
for _function in (cond, while_loop, scan, fori_loop):
    BUILTINS[_function] = _converting(_function)

__all__ = ["BUILTINS", "Undefined", "and_", "append", "assert_", "compare", "for_", "if_", "if_expression", "not_", "or_", "returned", "value_of", "while_"]
