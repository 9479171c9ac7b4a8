"""Branches: if statements and conditional expressions whose condition is a tensor, as lm.cond."""
from __future__ import annotations

import copy

from .. import _core, errors
from .._structure import fill, parts_of, with_parts
from . import state
from .lists import GrowingList
from .lower_jumps import HELD
from .numbers import alone, as_number, is_number, takes, weak
from .places import is_users_code, located
from .reach import same_parts
from .values import NUMBERS, Again, Tensor, Undefined, Variable, boolean, containers_in, describe, difference, frozen, function_of, has_parts, in_graph, is_container, is_state, made, pairs_in, same, thawed, zeros_like


def if_(test, body, orelse, get_state, set_state, names, merged):
    """The if statement. The first `merged` names are used after it."""
    if not in_graph(test):
        body() if test else orelse()
        return
    _Branches(body, orelse, get_state, set_state, names, merged).run(boolean(test))


class _Branches:
    """One if statement. Its names, and the parts of Python objects that a branch changes, are results of a cond."""

    def __init__(self, body, orelse, get_state, set_state, names, merged):
        self.ways = {True: body, False: orelse}
        self.get_state, self.set_state, self.names, self.merged = get_state, set_state, names, merged
        self.function = function_of(body)
        self.start = get_state()
        self.shared = state.shared_containers(self.start)
        self.guard = state.Guard((body, orelse), set_state, names)
        self.codes = tuple(f.__code__ for f in (body, orelse) if is_users_code(f.__code__))
        self.touched = state.remembered(self.guard, self.codes)
        self.known = list(self.touched)
        self.returns_the_result = state.is_outermost(body.__code__)
        self.hints = {}
        self.results = {}  # branch -> the names' values after it
        self.contents = {}  # (branch, id of a container in them) -> its contents then
        self.places = {}   # branch -> {(holder's number, key): value}

    def run(self, test):
        noted = len(state.aliases())
        while True:
            del state.aliases()[noted:]
            self.results.clear()
            self.places.clear()
            try:
                chosen = _core.cond(test, lambda: self.traced(True), lambda: self.traced(False))
                break
            except Again as again:
                if again.hints.items() <= self.hints.items():
                    raise
                self.hints.update(again.hints)
            except errors.Error as error:
                located(error, self.function)
        for number, holder in enumerate(self.touched):
            if holder not in self.known and not any(self.moved(number, holder, way) for way in (True, False)):
                self.guard.refuse_once(holder.path)
        state.remember(self.codes, self.touched)
        self.pairs = {}
        values = [self.merge(label, first, second, chosen.get(label)) for label, first, second in zip(self.labels(True), self.values(True), self.values(False))]
        self.set_state((*values[:self.merged], *self.start[self.merged:]))
        self.put(values[self.merged:])
        for held, new, label, _, _ in self.pairs.values():
            for old in held:
                state.note_alias(old, new, label)

    def merge(self, label, first, second, chosen):
        """One value for both branches. Containers made by the branches are rebuilt, one for each pair."""
        if first is second or not _holds_containers(first) and not _holds_containers(second) and same(first, second):
            return first
        if self.returns_the_result and label.startswith("return_value") and not label.startswith(HELD) and chosen is not None and type(first) is not GrowingList:
            return thawed(chosen, second if type(first) is Undefined else first)  # identity does not matter afterwards
        if type(first) is Undefined or type(second) is Undefined:
            return self.copied(label, second if type(first) is Undefined else first, chosen)
        if type(first) is GrowingList:
            return GrowingList(*chosen)
        if chosen is None or not has_parts(first):
            return first if chosen is None else weak(chosen) if is_number(first) and is_number(second) else chosen
        if not is_container(first):
            return with_parts(first, self.merged_parts(label, *map(parts_of, (first, second, chosen))))
        return self.paired(label, first, second, chosen)

    def copied(self, label, value, chosen):
        """A copy of a branch's result. It must not be distinguishable from the original."""
        if chosen is None:
            return value
        if type(value) is GrowingList:
            return GrowingList(*chosen)
        made = thawed(chosen, value)
        for old, new in pairs_in(value, made):
            state.note_alias(old, new, "what is returned")
        return made

    def paired(self, label, first, second, chosen):
        """A new container in place of one from each branch. What something else holds too must not be changed from now on, nor the new one."""
        for which, mine, other in ((0, first, second), (1, second, first)):
            known = self.pairs.get((which, id(mine)))
            if known is not None and known[3 + which] is not other:
                self.refuse_alias(label)
        if (0, id(first)) in self.pairs:
            return self.pairs[0, id(first)][1]
        made = [] if type(first) is list else {} if type(first) is dict else copy.copy(first)
        held = [v for v in (first, second) if self.guard.reach.knows(v) and (id(v) in self.shared or label not in self.names or not self.was_there(label, v))]
        held += [old for v in (first, second) for old in state.stands_for(v)]
        self.pairs[0, id(first)] = self.pairs[1, id(second)] = (held, made, label, second, first)
        mine, other = self.contents[True, id(first)], self.contents[False, id(second)]  # as they were in their branches
        merged = self.merged_parts(label, mine, other, parts_of(chosen))
        if type(first) is list:
            made.extend(merged.values())
        elif type(first) is dict:
            made.update(merged)
        else:
            fill(made, merged)
        return made

    def merged_parts(self, label, *parts):
        return {key: self.merge(label, *(of[key] for of in parts)) for key in parts[0]}

    def was_there(self, label, value):
        """Whether a container was in this name or place before the branches."""
        before = self.before.get(label)
        return any(value is v for v in containers_in(before))

    def refuse_alias(self, label):
        error = errors.InvalidArgument(f"'{label}' becomes another name of a list, dict or object in one branch of an if", why="the condition is a tensor, so what follows is one graph, in which a name means one object",
                                       fix="copy it, as in list(x), dict(x) or copy.copy(x), or make the condition a Python value")
        located(error, self.function)

    def put(self, values):
        """Stores the merged values in their objects."""
        at = 0
        for number, holder in enumerate(self.touched):
            keys = [k for n, k in self.places[True] if n == number]
            now = dict(zip(keys, values[at:at + len(keys)]))
            at += len(keys)
            before = holder.parts(holder.content)
            for key, value in now.items():
                if key not in before or value is not before[key]:
                    state.note(holder, key, before.get(key))
            holder.write(holder.built(now))

    def moved(self, number, holder, way):
        before = holder.parts(holder.content)
        now = {k: v for (n, k), v in self.places[way].items() if n == number}
        return not same_parts(before, now)

    def labels(self, way):
        out = dict.fromkeys(self.names[:self.merged])
        for number, key in self.places[way]:
            name = self.touched[number].name(key)
            out[name if name not in out else f"{name}, the {len(out)}th"] = None
        return list(out)

    def values(self, way):
        return [*self.results[way], *self.places[way].values()]

    def traced(self, way):
        """Traces one branch; returns the names and places after it."""
        branch, rerun = self.ways[way], self.rerun(way)
        self.set_state(self.start)
        with self.guard as guard:
            state.run_user_code(branch)
            for holder in guard.changed():
                if holder.parts(holder.content) is None:
                    guard.refuse(holder, rerun)
                if holder not in self.touched:
                    self.touched.append(holder)
                    if (not way) in self.results:
                        raise Again({("touched", len(self.touched)): True})
            self.results[way] = list(self.get_state()[:self.merged])
            self.places[way] = {(n, k): v for n, h in enumerate(self.touched) for k, v in h.parts(h.read()).items()}
            self.before = {**dict(zip(self.names, self.start)), **{h.name(k): v for h in self.touched for k, v in h.parts(h.content).items()}}
            both = len(self.places) == 2
            if both:
                self.check_structure(way)
            self.contents.update(((way, id(c)), parts_of(c)) for v in self.values(way) if is_state(v) for c in containers_in(v))
            out = self.outputs(way)
            if both:
                _compare(self.labels(way), {w: self.values(w) for w in (True, False)}, self.hints, self.function)
            return out

    def rerun(self, way):
        def again():
            self.set_state(self.start)
            self.ways[way]()
        return again

    def outputs(self, way):
        out = {}
        for label, value in zip(self.labels(way), self.values(way)):
            if type(value) is Undefined:
                if (label, way) in self.hints:
                    out[label] = frozen(made(self.hints[label, way]))
                continue
            if not is_state(value) or self.unmoved(value) and ("moved", label) not in self.hints:
                continue
            if (label, way, "as") in self.hints and is_number(value):
                value = as_number(value, self.hints[label, way, "as"])
            elif (not way) not in self.results:
                value = alone(value)
            out[label] = frozen(value)
        return out

    def unmoved(self, value):
        """Whether a name or place still has the same object, whose contents are compared separately."""
        return (isinstance(value, (list, dict, GrowingList)) or is_container(value)) and self.guard.reach.knows(value)

    def check_structure(self, way):
        """Checks that both branches leave the same dict keys, list lengths and attributes."""
        for number, holder in enumerate(self.touched):
            keys = {w: [k for n, k in self.places[w] if n == number] for w in (True, False)}
            if keys[True] == keys[False]:
                continue
            before = list(holder.parts(holder.content))
            changed = way if keys[way] != before else not way
            what, fix = _differs(holder, keys[True], keys[False])
            self.guard.refuse(holder, self.rerun(changed), what, "the condition is a tensor, so what follows is one graph for both branches", fix, errors.InvalidArgument)


def _holds_containers(value) -> bool:
    return next(containers_in(value), None) is not None


def _differs(holder, first, second):
    """What differs between the branches, and the fix."""
    if holder.kind in ("list", "deque"):
        return (f"the {holder.kind} '{holder.path}' has {_count(first)} in one branch of an if and {_count(second)} in the other",
                "append in both branches, or in a loop over tensors, where a list may grow by what the data say")
    extra = next((k for k in [*first, *second] if (k in first) != (k in second)), None)
    if extra is None:
        return f"the {holder.kind} '{holder.path}' has its keys in another order after one branch of an if", "write the keys in the same order in both branches"
    name = holder.name(extra)
    return f"'{name}' is given a value in only one branch of an if, or deleted there", f"give '{name}' a value in the other branch too, or before the if"


def _compare(names, results, hints, function):
    """After both branches: raises an error for values that cannot be merged, and retries those that only need to know the other."""
    again = {}
    for i, name in enumerate(names):
        values = {which: results[which][i] for which in (True, False)}
        for which in (True, False):
            mine, other = values[which], values[not which]
            if type(mine) is Undefined and type(other) is not Undefined:
                if mine.name is None and is_state(other):  # a function's return value, guarded by a flag
                    if (name, which) not in hints:
                        again[name, which] = zeros_like(other)
                    if is_container(other) and ("moved", name) not in hints:
                        again["moved", name] = True
                elif mine.name is None:
                    _refuse_return(other, function)
                else:
                    raise errors.InvalidArgument(f"'{name}' is given a value in only one branch of an if", where=f"in {function}",
                                                 why="the condition is a tensor, so the graph has both branches, and what follows uses the value",
                                                 fix=f"give '{name}' a value in the other branch too, or before the if")
            elif type(mine) in NUMBERS and isinstance(other, (Tensor, Variable)) and not isinstance(other, bool):
                usual = _core.float32 if type(mine) is float else _core.int32
                if (name, which, "as") not in hints and other.dtype != usual and takes(mine, other.dtype):
                    again[name, which, "as"] = other.dtype
            elif _is_computed(mine) and (_is_computed(other) or isinstance(other, (Tensor, Variable, float))):
                wanted = _core.float32 if type(other) is float else other.dtype
                if (name, which, "as") not in hints and mine.dtype != wanted and takes(mine, wanted):
                    again[name, which, "as"] = wanted
            elif type(mine) is int and type(other) is float and (name, which, "as") not in hints:
                again[name, which, "as"] = _core.float32
            elif type(mine) is int and type(other) is int and (name, which, "as") not in hints and alone(mine) is mine and alone(other) is not other:
                again[name, which, "as"] = _core.int64
        first, second = values[True], values[False]
        if isinstance(first, list) and isinstance(second, list) and len(first) != len(second):
            raise errors.InvalidArgument(f"the list '{name}' has {_count(first)} in one branch of an if and {_count(second)} in the other", where=f"in {function}",
                                         why="the condition is a tensor, so what follows is one graph for both branches", fix="append in both branches, or in a loop over tensors, where a list may grow by what the data say")
        if first is not second and is_container(first) and is_container(second) and ("moved", name) not in hints:
            again["moved", name] = True
        if not is_state(first) or not is_state(second):
            if type(first) is Undefined or type(second) is Undefined or same(first, second):
                continue
            if name.startswith("return_value"):
                _refuse_return(first if first is not None else second, function)
            _refuse_difference(name, first, second, "make it a tensor in both, or the condition a Python value", function)
        elif any((name, which, "as") in {**hints, **again} and _is_computed(values[which]) for which in (True, False)):
            continue  # it has the other's dtype
        elif found := difference("result" if name.startswith("return_value") else name, first, second):
            _refuse_difference(*found, function)
    if again:
        raise Again(again)


def _is_computed(value) -> bool:
    """Whether a value is a number that the graph computes."""
    return isinstance(value, Tensor) and is_number(value)


def _refuse_difference(name, first, second, fix, function):
    raise errors.InvalidArgument(f"'{name}' is {describe(first)} in one branch of an if and {describe(second)} in the other", where=f"in {function}",
                                 why="the condition is a tensor, so what follows is one graph for both branches", fix=fix)


def _count(values) -> str:
    return "1 element" if len(values) == 1 else f"{len(values)} elements"


def _refuse_return(value, function):
    raise errors.InvalidArgument(f"one way through {function} returns {describe(value)}, another has no return", where=f"in {function}",
                                 why="the condition is a tensor, so the graph returns the same structure on every way", fix="add a return with a value of the same dtype and shape to the other branch")


def if_expression(test, body, orelse):
    """body() if test else orelse()"""
    if not in_graph(test):
        return body() if test else orelse()
    value = Undefined(None)

    def set_state(state):
        nonlocal value
        (value,) = state

    def first():
        nonlocal value
        value = body()

    def second():
        nonlocal value
        value = orelse()

    first.__qualname__ = body.__qualname__
    if_(test, first, second, lambda: (value,), set_state, ("the result",), 1)
    return value
