"""Loops: while and for statements whose condition or range is a tensor, as lm.while_loop and lm.scan."""
from __future__ import annotations

import dis
import functools
import operator

from .. import _core, errors
from . import lists, state
from .branches import if_, if_expression
from .iteration import Counted, Steps, Zipped, each_of, first_of, item_at as _item_at, stacked as _stacked
from .lists import Collected, GrowingList, Grows, Unfit, as_element, is_element
from .lower_jumps import HELD
from .numbers import alone, as_number, is_number, takes
from .places import located
from .reach import is_users, same_value
from .values import Again, Tensor, Undefined, Variable, boolean_of, containers_in, describe, difference, frozen, function_of, in_graph, is_container, is_state, made, pairs_in, same, thawed, zeros_like


UNROLLED = 10_000  # iterations of a Python loop that only a tensor's condition leaves, over something without a length


def while_(test, body, get_state, set_state, names):
    """The while statement. While the condition is a Python value, iterations run in Python."""
    may_change = _may_change(test.__code__)
    while True:
        start, guard = get_state(), state.Guard((test,), set_state, names) if may_change else None
        condition = test()
        if in_graph(condition):
            break
        if not condition:
            return
        body()
    changes = may_change and not (all(a is b for a, b in zip(start, get_state())) and not guard.changed())
    start = guard = None
    if not changes:
        _GraphLoop(lambda: boolean_of(test()), body, get_state, set_state, names).run()
        return
    go_on = boolean_of(condition)  # the condition has side effects: evaluate it as often as Python would

    def get():
        return (*get_state(), go_on)

    def put(values):
        nonlocal go_on
        set_state(values[:-1])
        go_on = values[-1]

    def step():
        nonlocal go_on
        body()
        go_on = boolean_of(test())

    step.__qualname__ = body.__qualname__

    _GraphLoop(lambda: go_on, step, get, put, (*names, "the loop's condition")).run()


@functools.lru_cache(maxsize=4096)
def _may_change(code) -> bool:
    """Whether a condition assigns names or calls something."""
    return any(i.opname.startswith("CALL") or i.opname in ("STORE_DEREF", "STORE_GLOBAL") for i in dis.get_instructions(code))


class Element:
    """The shape and dtype of a growing list's elements."""

    def __init__(self, spec):
        self.spec = spec

    def __eq__(self, other):
        return isinstance(other, Element) and self.spec == other.spec


class _Met(Exception):
    """What Python numbers are after an iteration that got them as numbers: name -> the dtype of the tensor that each met."""

    def __init__(self, dtypes):
        self.dtypes = dtypes


class _Peels(Exception):
    """A number becomes a tensor with axes in the first iteration, which then belongs before the loop."""


class _GraphLoop:
    """A loop of the graph: a while_loop, or with scan=(xs, item setter) a scan without a condition. Its names, and the parts of Python
    objects that the body changes, are loop variables."""

    def __init__(self, test, body, get_state, set_state, names, scan=None, runs=False):
        self.test, self.body, self.get_state, self.set_state, self.names, self.scan, self.runs = test, body, get_state, set_state, names, scan, runs
        self.function = function_of(body)
        self.values = get_state()
        self.shared = state.shared_containers(self.values)
        self.guard = state.Guard((body, test) if test is not None else (body,), set_state, names)
        self.returns_the_result = state.is_outermost(body.__code__)
        self.places = {}  # (id of a holder, key) -> (the holder, key, its name, the value before the loop)
        self.hints = {}
        self.lists, self.kept = {}, []  # id of a list that may grow -> its name; the lists keep their ids unique
        self.last = {}  # the loop variables after an iteration
        self.stays_number = {}  # name of a Python number in hints -> whether an iteration makes it another number, not a tensor
        self.numbers = set()  # while dtypes_met() tries: the names whose values stay Python numbers
        self.length = first_of(scan[0]).shape[0] if scan is not None else None
        self.collecting, self.unfit = {}, set()  # name -> the Collected that an iteration fills; the names for which that was tried in vain

    def run(self) -> bool:
        """Whether the loop is in the graph now. False: nothing has happened, and the first iteration, which there is for sure, belongs before it."""
        noted = len(state.aliases())
        while True:
            del state.aliases()[noted:]
            self.prepare()
            state.loops().append(self)
            try:
                final = self.in_graph()
                break
            except _Peels:
                del state.aliases()[noted:]
                self.set_state(self.values)
                self.__dict__.clear()  # what it holds would count as another holder of a list that grows
                return False
            except Again as again:
                if again.hints.items() <= self.hints.items():
                    raise
                self.hints.update(again.hints)
            except Unfit as unfit:
                name = next((n for n, made in self.collecting.items() if made is unfit.owner), None)
                if name is None:
                    raise
                del self.collecting[name]
                self.unfit.add(name)
            except Grows as grows:
                name = self.lists.get(id(grows.owner))
                if name is None or isinstance(self.hints.get(name), Element) or any(id(grows.owner) in loop.lists for loop in state.loops() if loop is not self):
                    raise
                if id(grows.owner) in self.shared:
                    self.refuse_shared(name)
                if self.length is not None and name in self.names and name not in self.unfit and all(is_element(value, grows.element) for value in grows.owner):
                    self.collecting[name] = None
                else:
                    self.hints[name] = Element(grows.element)
            except errors.Error as error:
                met = self.dtypes_met() if isinstance(error, errors.TypeMismatch) else {}
                if not met:
                    located(error, self.function)
                self.hints.update(met)
            finally:
                state.loops().remove(self)
        after = [self.after_loop(name, value, final) for name, value in zip(self.labels, self.start)]
        count = len(self.names)
        self.set_state(tuple(after[:count]))
        for (holder, key, _, before), value in zip(self.places.values(), after[count:]):
            state.note(holder, key, before)
            holder.put(key, value)
        for name, before, value in zip(self.labels, self.start, after):
            for old, new in pairs_in(before, value):
                if name not in self.names or id(old) in self.shared:
                    state.note_alias(old, new, name)
        return True

    def in_graph(self):
        if self.scan is None:
            return _core.while_loop(self.looks, self.step, self.state)
        final, self.stacked = _core.scan(self.scanned, self.state, self.scan[0])
        return final

    def dtypes_met(self):
        """name -> the dtype that a Python number takes, found by an iteration in which it is still one; {} if there is none."""
        self.numbers = {n for n, value in zip(self.labels, self.start) if type(value) in (int, float) and n in self.state and n not in self.hints}
        try:
            if self.numbers:
                self.in_graph()
        except _Met as met:
            return met.dtypes
        except (Again, Grows, errors.Error, TypeError, ValueError, ArithmeticError):  # not on this path: the first error is the user's
            pass
        finally:
            self.numbers = set()
        return {}

    def refuse_shared(self, name):
        error = errors.ConversionFailed(f"the list '{name}' grows in a loop of the graph, and something else holds it too: another name, an object or the caller",
                                        why="it becomes a tensor there, under this name only", fix=f"make the list in this function, for '{name}' alone, and return it or store it after the loop")
        located(error, self.function)

    def prepare(self):
        """The loop's inputs: label -> structure of tensors; and the labels that stay in Python."""
        self.drop_places_of_moved()
        self.labels = [*self.names, *(label for _, _, label, _ in self.places.values())]
        self.start = [*self.values, *(before for _, _, _, before in self.places.values())]
        self.state, self.fixed = {}, {}
        hints = self.hints
        for name, value in zip(self.labels, self.start):
            if name in self.collecting:
                continue
            if isinstance(hints.get(name), Element):
                self.state[name] = frozen(lists.started(value, hints[name].spec))
            elif name in hints:
                self.state[name] = frozen(made(hints[name])) if type(value) is Undefined else as_number(value, hints[name])
            elif is_state(value) and (not is_container(value) or ("moved", name) in hints):
                self.state[name] = alone(frozen(value))
            else:
                self.fixed[name] = value  # a container, unless the body replaces it: its contents are compared separately
        self.growing = {n for n, value in zip(self.labels, self.start) if isinstance(hints.get(n), Element) or type(value) is GrowingList}
        self.lists = {id(v): n for n, v in zip(self.labels, self.start) if n in self.fixed and type(v) is list}

    def drop_places_of_moved(self):
        """A name that the body makes another object is carried whole, with what its first object holds: the parts of that one have no places of their own."""
        moved = {}  # id of an object, or of its attributes, -> (the object's id, the name)
        for name, value in zip(self.names, self.values):
            for part in containers_in(value) if ("moved", name) in self.hints else ():
                moved[id(part)] = moved[id(getattr(part, "__dict__", part))] = id(part), name
        for at, (holder, _, label, _) in list(self.places.items()):
            if id(holder.object) not in moved:
                continue
            thing, name = moved[id(holder.object)]
            if thing in self.shared:
                error = errors.InvalidArgument(f"a loop of the graph changes '{label}', and makes '{name}' another object, while something else holds the first one",
                                               why="only the first iteration would change that", fix=f"copy it before the loop, as in list(x), dict(x) or copy.copy(x), for '{name}' alone")
                located(error, self.function)
            del self.places[at]

    def value_in(self, given, name, value):
        if name in self.fixed or name in self.numbers:
            return value
        if name in self.collecting:
            self.collecting[name] = Collected(lambda: state.innermost_guard() is self.guard)
            return self.collecting[name]
        if name in self.growing:
            return GrowingList(*given[name], closed=type(value) is GrowingList and value.closed)
        if name in self.hints and type(value) in (int, float) and not self.stays_number.get(name):
            return given[name]  # a number that has become a tensor
        own = thawed(given[name], self.hints[name] if type(value) is Undefined else value)  # nothing else holds its containers
        if type(own) is list:
            self.lists[id(own)] = name
            self.kept.append(own)
        return own

    def enter(self, given):
        values, count = [self.value_in(given, n, value) for n, value in zip(self.labels, self.start)], len(self.names)
        self.set_state(tuple(values[:count]))
        self.entered = values[count:]  # of the places
        for (holder, key, _, _), value in zip(self.places.values(), self.entered):
            holder.put(key, value)

    def traced(self, given, run):
        """Traces an iteration; returns the names and places after it."""
        def again():
            self.enter(given)
            run()

        with self.guard as guard:
            state.run_user_code(again)
            if self.numbers:
                parts = zip(self.names, self.values, self.get_state())
                raise _Met({n: now.dtype for n, before, now in parts if n in self.numbers and isinstance(now, (Tensor, Variable)) and not is_number(now) and takes(before, now.dtype)})
            self.look_for_changes(guard, again)
            for (holder, key, label, _), value in zip(self.places.values(), self.entered):
                if same_value(holder.parts(holder.read())[key], value):
                    self.guard.refuse_once(label)
            now = [*self.get_state(), *(h.parts(h.read())[k] for h, k, _, _ in self.places.values())]
            return self.after_body(given, now)

    def look_for_changes(self, guard, again):
        """Parts that the body changes become loop variables; other changes are refused."""
        found = False
        for holder in guard.changed():
            before = holder.parts(holder.content)
            if before is None:
                guard.refuse(holder, again)
            now = holder.parts(holder.read())
            if list(before) != list(now):
                what, why, fix = _differs(holder, before, now)
                guard.refuse(holder, again, what, why, fix, errors.InvalidArgument)
            for key, value in now.items():
                if (id(holder), key) not in self.places and not same_value(value, before[key]):
                    label = holder.name(key)
                    label = label if label not in self.labels else f"{label}, the {len(self.places)}th"
                    self.places[id(holder), key] = (holder, key, label, before[key])
                    found = True
        if found:
            raise Again({("places", len(self.places)): True})

    def step(self, given):
        return self.traced(given, self.body)

    def scanned(self, given, item):
        out = self.traced(given, lambda: self.body(self.scan[1](item)))
        return out, {name: made.elements[0] for name, made in self.collecting.items()}

    def looks(self, given):
        with self.guard as guard:
            self.enter(given)
            if self.numbers:
                return _core.constant(True)
            result = self.test()
            for holder in guard.changed():
                if any(h is holder for h, _, _, _ in self.places.values()):
                    continue
                guard.refuse(holder, lambda: (self.enter(given), self.test()))
            return result

    def after_body(self, given, now):
        """The carried values after an iteration. If they change what must hold at the start, the body is traced again."""
        again, out, function = {}, {}, self.function
        self.check_aliases(now)
        for name, before, value in zip(self.labels, self.start, now):
            if name in self.collecting:
                if value is not self.collecting[name] or not value.elements:
                    self.collecting[name].refuse()
                continue
            if name in self.fixed:
                if is_container(before) and value is not before and is_state(before) and is_state(value):
                    again["moved", name] = True
                    continue
                if type(before) is Undefined and type(value) is not Undefined:
                    if is_state(value):
                        if before.name is not None and not self.runs:
                            raise errors.InvalidArgument(f"'{name}' has no value before the loop", where=f"in {function}",
                                                         why="the loop is part of the graph and may have no iteration at all, and the value is used afterwards",
                                                         fix=f"give '{name}' a value of the same dtype and shape before the loop")
                        again[name] = zeros_like(value)
                        continue
                if value is not before and not same(before, value):
                    raise self.refused(name, before, value, "make it a tensor, or loop over Python values")
                continue
            if self.scan is not None and self.runs and is_number(before) and isinstance(value, (Tensor, Variable)) and tuple(value.shape) != ():
                raise _Peels
            if type(before) in (int, float) and isinstance(value, (Tensor, Variable)) and name not in self.hints and tuple(value.shape) == ():
                wanted = value.dtype
                if wanted != given[name].dtype and takes(before, wanted):
                    again[name], self.stays_number[name] = wanted, is_number(value)
            if isinstance(self.hints.get(name), Element) and type(value) is not GrowingList:
                raise errors.InvalidArgument(f"'{name}' is a list that grows in the loop, and {describe(value)} after an iteration", where=f"in {function}",
                                             why="what a list collects in a loop of the graph is one tensor", fix="make the list once, before the loop, and only append to it inside")
            elif found := difference(name, self.hints[name] if type(before) is Undefined else before, value):
                raise self.refused(*found)
            out[name], self.last[name] = frozen(value), value
        if again:
            raise Again(again)
        return out

    def refused(self, name, before, value, fix):
        return errors.InvalidArgument(f"'{name}' is {describe(before)} before an iteration and {describe(value)} after it", where=f"in {self.function}",
                                      why="the loop is part of the graph, where only tensors change from iteration to iteration", fix=fix)

    def check_aliases(self, now):
        """Checks that a container which a body stores has only one name or place, because the graph carries contents, not identity."""
        seen = {}
        for name, before, value in zip(self.labels, self.start, now):
            if name in self.fixed or self.returns_the_result and name.startswith("return_value") and not name.startswith(HELD):  # one that is fixed and changes is traced again
                continue
            for part in containers_in(value) if is_state(value) else ():
                if id(part) in seen or any(map(self.guard.reach.knows, (part, *state.stands_for(part)))):
                    error = errors.InvalidArgument(f"{'what is returned' if name.startswith('return_value') else repr(name)} becomes another name of a list, dict or object in a loop of the graph", why="what the loop carries is what is in it, not which object it is",
                                                   fix="copy it, as in list(x), dict(x) or copy.copy(x)")
                    located(error, self.function)
                seen[id(part)] = part

    def after_loop(self, name, before, final):
        """The value of a name or place after the loop."""
        if name in self.fixed:
            return self.fixed[name]
        if name in self.collecting:
            elements = self.stacked[name]
            if before:
                elements = _core.concat([_core.stack([as_element(value, elements.dtype) for value in before]), elements], 0)
            return GrowingList(elements, _core.constant(len(before) + self.length, dtype=_core.int64), closed=True)
        if name not in self.growing:
            return thawed(final[name], self.last[name])
        if type(before) is GrowingList:
            return GrowingList(*final[name], closed=before.closed)
        grown = GrowingList(*final[name])
        grown.close()
        return grown


def _differs(holder, before, now):
    """A body's change in the structure of a list, dict or object: why it is refused, and the fix."""
    if holder.kind in ("list", "deque"):
        return (f"the {holder.kind} '{holder.path}' has {len(before)} elements before an iteration and {len(now)} after it", "the loop is part of the graph, where structures keep their lengths",
                "append to a local list that nothing else names, as a statement: out.append(x); or write into a tensor: x = x.at[i].set(value)")
    extra = next((k for k in now if k not in before), None)
    if extra is not None:
        name = holder.name(extra)
        return f"'{name}' has no value before the loop", "the loop is part of the graph and may have no iteration at all", f"give '{name}' a value of the same dtype and shape before the loop"
    missing = next((k for k in before if k not in now), None)
    if missing is not None:
        return f"'{holder.name(missing)}' is deleted in a loop of the graph", "the loop may have no iteration at all, and what follows is one graph", "delete it after the loop"
    return f"the keys of '{holder.path}' are in another order after an iteration", "what follows is one graph, however often the loop runs", "write the keys before the loop"


def for_(iterated, extra_test, body, get_state, set_state, names):
    """The for statement. extra_test, if given, says whether to continue (break and return end a loop early)."""
    if isinstance(iterated, Variable):
        iterated = iterated.read()
    if type(iterated) is GrowingList:
        iterated = iterated.buffer
    dynamic = isinstance(iterated, (Steps, Counted, Zipped)) or in_graph(iterated)
    if not dynamic:
        refuse_items_of(iterated)
        go_on, unrolled = True, 0
        for item in iterated:
            if in_graph(go_on):  # the loop ended early on some path only: the rest is a branch of the graph
                unrolled += 1
                if unrolled > UNROLLED and operator.length_hint(iterated, -1) < 0:
                    _refuse_endless(iterated, body)

                def rest(item=item):
                    body(item)
                rest.__qualname__ = body.__qualname__
                if_(go_on, rest, lambda: None, get_state, set_state, names, len(names))
            else:
                body(item)
            if extra_test is not None:  # after the body: Python takes no further item once the loop is left
                go_on = extra_test()
                if not in_graph(go_on) and not go_on:
                    break
        return
    xs, item_of = _stacked(iterated)
    if xs is not None and extra_test is None:
        count = first_of(xs).shape[0] or 0
        if not _GraphLoop(None, body, get_state, set_state, names, scan=(xs, item_of), runs=count > 0).run():
            body(item_of(each_of(xs, lambda x: x[0])))
            if count > 1:
                _GraphLoop(None, body, get_state, set_state, names, scan=(each_of(xs, lambda x: x[1:]), item_of), runs=True).run()
        return
    _counted_loop(iterated, extra_test, body, get_state, set_state, names)


def _refuse_endless(iterated, body):
    raise errors.ConversionFailed(f"a Python loop over {errors.a_type(iterated)} has {UNROLLED} iterations, and no end yet", where=f"in {function_of(body)}",
                                  why="only a tensor says when it ends, which is known when the graph runs, and Python makes one iteration after the other while the function is traced",
                                  fix="count in the graph: while condition:, or for i in lm.range(n):; or go through a list, whose length is known")


def refuse_items_of(iterator):
    """Refuses the next item of a Python iterator that was not made inside the branch or loop."""
    if hasattr(type(iterator), "__next__") and not is_users(type(iterator).__module__) and state.known_to_a_body(iterator):
        raise errors.ConversionFailed(f"next: {errors.a_type(iterator)} gives its items in a branch or loop of the graph", why="Python would take one item while the function is traced, whatever the data say",
                                      fix="take the items before the branch or loop, or loop over a tensor")


def _counted_loop(iterated, extra_test, body, get_state, set_state, names):
    """A loop with a counter: for ranges of unknown length and loops that may end early."""
    count, item_at = _item_at(iterated)
    at = _core.constant(0)

    def get():
        return (*get_state(), at)

    def put(values):
        nonlocal at
        set_state(values[:-1])
        at = values[-1]

    def step():
        nonlocal at
        body(item_at(at))
        at = at + 1

    def test():
        inside = at < count
        return inside if extra_test is None else if_expression(inside, lambda: boolean_of(extra_test()), lambda: _core.constant(False))

    step.__qualname__ = body.__qualname__
    _GraphLoop(lambda: boolean_of(test()), step, get, put, (*names, "the loop's counter"), runs=isinstance(count, int) and count > 0).run()


def append(target, value):
    """target.append(value) as a statement; returns the name's new value."""
    if type(target) is list and any(id(target) in loop.lists for loop in state.loops()):
        element = as_element(value)
        raise Grows(target, (tuple(element.shape), element.dtype))
    target.append(value)
    return target


__all__ = ["append", "for_", "while_"]
