"""What converted functions call: at each branch, loop and condition, Python's own way when the values are Python's, a node of the graph when
they are tensors of the trace."""
from __future__ import annotations

import builtins
import operator
import types

from .. import _core, errors
from .._loops import fori_loop
from ..reporting import check_with
from . import lists
from .iteration import Counted, Steps, Zipped, item_at as _item_at, stacked as _stacked
from .lists import GrowingList, Grows, LoopList, append, copied, packed, unpacked
from .places import located

Tensor, Variable = _core.Tensor, _core.Variable


class Undefined:
    """The value of a name that has none on some way through the function. Any use of it is an error that names it."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"<no value for {self.name}>"


def value_of(value, name):
    """The value of a name that may have none."""
    if type(value) is Undefined:
        raise UnboundLocalError(f"the variable '{name}' has no value here: it is given one only on another way through the function")
    return value


def returned(value):
    """What a function returns; falling off its end is None."""
    return None if type(value) is Undefined else value


def in_graph(value) -> bool:
    """Whether a condition is one of the graph that is being traced."""
    return isinstance(value, (Tensor, Variable)) and not _core.executing_eagerly()


class _Again(Exception):
    """A branch or body was traced and it turned out what a name must be; it is traced once more with that."""

    def __init__(self, hints):
        self.hints = hints


def _function_of(body):
    return body.__qualname__.split(".<locals>.")[-2].removeprefix("lm__") if ".<locals>." in body.__qualname__ else None


_NUMBERS = (bool, int, float)


def _is_state(value) -> bool:
    """Whether a value can be a result of a branch or a loop variable of the graph: tensors, numbers, and tuples, lists and dicts of them."""
    if isinstance(value, (Tensor, Variable, GrowingList)) or type(value) in _NUMBERS or type(value).__module__ == "numpy":
        return True
    if isinstance(value, (tuple, list)):
        return all(_is_state(v) for v in value)
    return type(value) is dict and all(_is_state(v) for v in value.values())


def _has_tensor(value) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_tensor(v) for v in value)
    if type(value) is dict:
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (Tensor, Variable))


def _same(a, b) -> bool:
    """Whether two Python values are one, so that both branches agree without a tensor."""
    if a is b:
        return True
    if _has_tensor(a) or _has_tensor(b) or type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if type(a) is dict:
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    try:
        return bool(a == b)
    except Exception:
        return False


def _zeros_like(value):
    if isinstance(value, (tuple, list)):
        return type(value)(_zeros_like(v) for v in value)
    if type(value) is dict:
        return {k: _zeros_like(v) for k, v in value.items()}
    if isinstance(value, (Tensor, Variable)):
        return _Zeros(value.shape, value.dtype)
    return type(value)()


class _Zeros:
    """Zeros that are made where they are needed: a tensor of one branch cannot be used in another."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def _made(value):
    if isinstance(value, (tuple, list)):
        return type(value)(_made(v) for v in value)
    if type(value) is dict:
        return {k: _made(v) for k, v in value.items()}
    return _core.zeros(value.shape, dtype=value.dtype) if type(value) is _Zeros else value


def _boolean(test):
    test = test.read() if isinstance(test, Variable) else test
    return test if test.dtype == _core.bool else _core.not_equal(test, 0)


def _describe(value):
    if isinstance(value, (Tensor, Variable)):
        return f"a tensor {value.dtype.name if hasattr(value.dtype, 'name') else value.dtype}{tuple(value.shape)}"
    return "None" if value is None else f"the {type(value).__name__} {value!r}"[:80]


# --- branches ---


def if_(test, body, orelse, get_state, set_state, names, merged):
    """The if statement. The first `merged` names are needed afterwards."""
    if not in_graph(test):
        body() if test else orelse()
        return
    function = _function_of(body)
    start = get_state()
    hints = {}
    for attempt in builtins.range(4):
        results = {}

        def run(which, branch):
            def traced():
                set_state(tuple(copied(v) for v in start))
                branch()
                results[which] = now = get_state()[:merged]
                other = results.get(not which)
                out = {}
                for i, name in enumerate(names[:merged]):
                    value = now[i]
                    if type(value) is Undefined:
                        if (name, which) in hints:
                            out[name] = _made(hints[name, which])
                        continue
                    if not _is_state(value):
                        continue
                    if (name, which, "as") in hints and type(value) in _NUMBERS:
                        value = _core.astype(_core.constant(value), hints[name, which, "as"])
                    out[name] = list(value) if type(value) is LoopList else packed(value)
                if other is not None:
                    _compare_branches(names[:merged], results, hints, out, function)
                return out
            return traced

        try:
            chosen = _core.cond(_boolean(test), run(True, body), run(False, orelse))
            break
        except _Again as again:
            if again.hints.items() <= hints.items():
                raise
            hints.update(again.hints)
        except errors.Error as error:
            located(error, function)
    final = list(start)
    for i, name in enumerate(names[:merged]):
        first, second = results[True][i], results[False][i]
        if _same(first, second):
            final[i] = first
        elif type(first) is LoopList:
            final[i] = LoopList(chosen[name], first.owner)
        else:
            final[i] = unpacked(chosen[name], first) if name in chosen else first
    set_state(tuple(final))


def _compare_branches(names, results, hints, out, function):
    """After both branches: what cannot be merged is an error, what only needs to know the other is tried again."""
    again = {}
    for i, name in enumerate(names):
        values = {which: results[which][i] for which in (True, False)}
        for which in (True, False):
            mine, other = values[which], values[not which]
            if type(mine) is Undefined and type(other) is not Undefined:
                if mine.name is None and _is_state(other):  # what a function returns, guarded by a flag
                    if (name, which) not in hints:
                        again[name, which] = _zeros_like(other)
                elif mine.name is None:
                    _refuse_return(other, function)
                else:
                    raise errors.InvalidArgument(f"'{name}' is given a value in only one branch of an if", where=f"in {function}",
                                                 why="the condition is a tensor, so the graph has both branches, and what follows uses the value",
                                                 fix=f"give '{name}' a value in the other branch too, or before the if")
            elif type(mine) in _NUMBERS and isinstance(other, (Tensor, Variable)) and not isinstance(other, bool):
                if (name, which, "as") not in hints and (type(mine) is not float or "float" in str(other.dtype)) and (type(mine) is not bool):
                    again[name, which, "as"] = other.dtype
        first, second = values[True], values[False]
        if isinstance(first, list) and isinstance(second, list) and len(first) != len(second):
            raise errors.InvalidArgument(f"the list '{name}' has {_count(first)} in one branch of an if and {_count(second)} in the other", where=f"in {function}",
                                         why="the condition is a tensor, so what follows is one graph for both branches", fix="append in both branches, or in a loop over tensors, where a list may grow by what the data say")
        if not _is_state(first) or not _is_state(second):
            if type(first) is Undefined or type(second) is Undefined or _same(first, second):
                continue
            if name.startswith("return_value"):
                _refuse_return(first if first is not None else second, function)
            raise errors.InvalidArgument(f"'{name}' is {_describe(first)} in one branch of an if and {_describe(second)} in the other", where=f"in {function}",
                                         why="the condition is a tensor, so what follows is one graph for both branches",
                                         fix="make it a tensor in both, or the condition a Python value")
    if again:
        raise _Again(again)


def _count(values) -> str:
    return "1 element" if len(values) == 1 else f"{len(values)} elements"


def _refuse_return(value, function):
    raise errors.InvalidArgument(f"one way through {function} returns {_describe(value)}, another has no return", where=f"in {function}",
                                 why="the condition is a tensor, so the graph returns the same structure on every way", fix="add a return with a value of the same dtype and shape to the other branch")


def if_expression(test, body, orelse):
    """body() if test else orelse()"""
    if not in_graph(test):
        return body() if test else orelse()
    results = []

    def set_state(state):
        pass

    def keep(branch):
        def run():
            results.append(branch())
        return run

    value = [Undefined(None)]

    def set_value(state):
        value[0] = state[0]

    def first():
        value[0] = body()

    def second():
        value[0] = orelse()

    first.__qualname__ = body.__qualname__
    if_(test, first, second, lambda: (value[0],), set_value, ("the result",), 1)
    return value[0]


# --- loops ---


def while_(test, body, get_state, set_state, names):
    """The while statement. Python's own iterations come first, as long as the condition is Python's."""
    condition = test()
    while not in_graph(condition):
        if not condition:
            return
        body()
        condition = test()
    _graph_loop(lambda: _boolean_of(test()), body, get_state, set_state, names)


def _boolean_of(value):
    return _boolean(value) if isinstance(value, (Tensor, Variable)) else _core.constant(bool(value))


class Element:
    """What a list that grows in a loop holds: shape and dtype."""

    def __init__(self, spec):
        self.spec = spec

    def __eq__(self, other):
        return isinstance(other, Element) and self.spec == other.spec


def _loop_state(names, start, hints, function):
    """What goes into the loop: name -> structure of tensors, and the names that stay Python's."""
    state, fixed = {}, {}
    for name, value in zip(names, start):
        if isinstance(hints.get(name), Element):
            state[name] = packed(lists.started(value, hints[name].spec))
        elif type(value) is GrowingList:
            state[name] = packed(value)
        elif type(value) is LoopList:
            state[name] = list(value)
        elif name in hints:
            state[name] = _made(hints[name]) if type(value) is Undefined else _core.astype(_core.constant(value), hints[name])
        elif _is_state(value):
            state[name] = value
        else:
            fixed[name] = value
    return state, fixed


def _after_body(names, given, fixed, start, now, hints, function):
    """The values after an iteration that are carried on; what they tell about the start is tried again."""
    again, out = {}, {}
    for name, before, value in zip(names, start, now):
        if name in fixed:
            if type(before) is Undefined and type(value) is not Undefined:
                if _is_state(value):
                    if before.name is not None:
                        raise errors.InvalidArgument(f"'{name}' has no value before the loop", where=f"in {function}",
                                                     why="the loop is part of the graph and may have no iteration at all, and the value is used afterwards",
                                                     fix=f"give '{name}' a value of the same dtype and shape before the loop")
                    again[name] = _zeros_like(value)
                    continue
            if value is not before and not _same(before, value):
                raise errors.InvalidArgument(f"'{name}' is {_describe(before)} before an iteration and {_describe(value)} after it", where=f"in {function}",
                                             why="the loop is part of the graph, where only tensors change from iteration to iteration", fix="make it a tensor, or loop over Python values")
            continue
        if type(before) in (int, float) and isinstance(value, (Tensor, Variable)) and name not in hints and tuple(value.shape) == ():
            wanted = value.dtype
            if wanted != given[name].dtype and (type(before) is int or "float" in str(wanted)):
                again[name] = wanted
        if isinstance(hints.get(name), Element) and type(value) is not GrowingList:
            raise errors.InvalidArgument(f"'{name}' is a list that grows in the loop, and {_describe(value)} after an iteration", where=f"in {function}",
                                         why="what a list collects in a loop of the graph is one tensor", fix="make the list once, before the loop, and only append to it inside")
        out[name] = list(value) if type(value) is LoopList else packed(value)
    if again:
        raise _Again(again)
    return out


def _graph_loop(test, body, get_state, set_state, names, scan=None):
    """A loop of the graph: a while_loop, or with scan=(xs, item setter) a scan without a condition."""
    function = _function_of(body)
    start = get_state()
    hints = {}
    while True:
        state, fixed = _loop_state(names, start, hints, function)
        growing = {n for n, value in zip(names, start) if isinstance(hints.get(n), Element) or type(value) is GrowingList}
        owners = {n: value if type(value) is LoopList else LoopList(()) for n, value in zip(names, start) if isinstance(value, list)}

        def value_in(given, name, value):
            if name in fixed:
                return fixed[name]
            if name in growing:
                return GrowingList(*given[name], closed=type(value) is GrowingList and value.closed)
            return LoopList(given[name], owners[name].owner) if name in owners else given[name]

        def enter(given):
            set_state(tuple(value_in(given, n, value) for n, value in zip(names, start)))

        def step(given):
            enter(given)
            body()
            return _after_body(names, given, fixed, start, get_state(), hints, function)

        def looks(given):
            enter(given)
            return test()

        def scanned(given, item):
            enter(given)
            body(scan[1](item))
            return _after_body(names, given, fixed, start, get_state(), hints, function), None

        try:
            if scan is None:
                final = _core.while_loop(looks, step, state)
            else:
                final, _ = _core.scan(scanned, state, scan[0])
            break
        except _Again as again:
            if again.hints.items() <= hints.items():
                raise
            hints.update(again.hints)
        except Grows as grows:
            name = next((n for n, own in owners.items() if own is grows.owner), None)
            if name is None or isinstance(hints.get(name), Element):
                raise
            hints[name] = Element(grows.element)
        except errors.Error as error:
            located(error, function)
    set_state(tuple(_after_loop(name, value, fixed, final, growing) for name, value in zip(names, start)))


def _after_loop(name, before, fixed, final, growing):
    """A name's value after a loop of the graph."""
    if name in fixed:
        return fixed[name]
    if name not in growing:
        return LoopList(final[name], before.owner) if type(before) is LoopList else final[name]
    if type(before) is GrowingList:
        return GrowingList(*final[name], closed=before.closed)
    made = GrowingList(*final[name])
    made.close()
    return made


def for_(iterated, extra_test, body, get_state, set_state, names):
    """The for statement. extra_test, when there is one, says whether to go on (break and return end a loop early)."""
    if isinstance(iterated, Variable):
        iterated = iterated.read()
    if type(iterated) is GrowingList:
        iterated = iterated.buffer
    dynamic = isinstance(iterated, (Steps, Counted, Zipped)) or in_graph(iterated)
    if not dynamic:
        for item in iterated:
            if extra_test is not None:
                go_on = extra_test()
                if in_graph(go_on):  # the loop was left on some way only: the rest is a branch of the graph
                    def rest(item=item):
                        body(item)
                    rest.__qualname__ = body.__qualname__
                    if_(go_on, rest, lambda: None, get_state, set_state, names, len(names))
                    continue
                if not go_on:
                    break
            body(item)
        return
    xs, item_of = _stacked(iterated)
    if xs is not None and extra_test is None:
        _graph_loop(None, body, get_state, set_state, names, scan=(xs, item_of))
        return
    _counted_loop(iterated, extra_test, body, get_state, set_state, names)


def _counted_loop(iterated, extra_test, body, get_state, set_state, names):
    """A loop with a counter, for ranges of unknown length and loops that may be left early."""
    count, item_at = _item_at(iterated)
    at = [_core.constant(0)]

    def get():
        return (*get_state(), at[0])

    def put(state):
        set_state(state[:-1])
        at[0] = state[-1]

    def step():
        body(item_at(at[0]))
        at[0] = at[0] + 1

    def test():
        inside = at[0] < count
        return inside if extra_test is None else and_(lambda: inside, extra_test)

    step.__qualname__ = body.__qualname__
    _graph_loop(lambda: _boolean_of(test()), step, get, put, (*names, "the loop's counter"))


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


BUILTINS = {builtins.range: range_, builtins.enumerate: enumerate_, builtins.zip: zip_, builtins.len: lists.length, _core.stack: lists.stack, _core.concat: lists.concat}
for _name in ("range", "arange"):
    if hasattr(_core, _name):
        BUILTINS[getattr(_core, _name)] = lamina_range
for _function in (_core.cond, _core.while_loop, _core.scan, fori_loop):
    BUILTINS[_function] = _converting(_function)

__all__ = ["BUILTINS", "Undefined", "and_", "append", "assert_", "compare", "for_", "if_", "if_expression", "not_", "or_", "returned", "value_of", "while_"]
