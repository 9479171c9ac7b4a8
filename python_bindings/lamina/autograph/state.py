"""State of Python objects in branches and loops of the graph.

A Guard records what a body can reach (reach.py) before the body is traced, reports what the body changed, and restores it. Changes become
state of the branch or loop, or an error at their line. A Trace handles changes that would outlive the call.
"""
from __future__ import annotations

import types
import functools
import operator
import sys
import threading
import weakref

from .. import _core, _structure, errors
from .._structure import is_dataclass, parts_of
from .places import is_state_code, is_users_code, line_of_raise, running_line, text_at
from .lists import Grows
from .reach import _Globals, Reach, same_parts, same_value
from .values import Again, containers_in, has_parts, is_container, is_state

_local = threading.local()
_known = weakref.WeakKeyDictionary()  # code of a branch -> paths of its changes in earlier traces


def _guards() -> list:
    if not hasattr(_local, "guards"):
        _local.guards, _local.traces, _local.loops = [], [], []
    return _local.guards


def innermost_guard():
    """Of the branch or body that is being traced; None outside of them."""
    return _guards()[-1] if _guards() else None


def _traces() -> list:
    _guards()
    return _local.traces


def loops() -> list:
    """The loops of the graph being traced, outermost first."""
    _guards()
    return _local.loops


def _owned(function, names, cells, scopes):
    """The cells and globals of a frame's names that get_state and set_state handle: of set_state, or of a function around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if name in ("set_state", "get_state") and isinstance(cell.cell_contents, types.FunctionType):  # not a variable of that name
            _owned(cell.cell_contents, names, cells, scopes)
        else:
            cells.add(id(cell))
    scopes.setdefault(id(function.__globals__), set()).update(n for n in names if n in function.__code__.co_names)


def _is_made(value) -> bool:
    """Whether a value is a Variable or layer, or consists of them: objects that programs create once, on first use."""
    from ..nn.layer import Layer
    if isinstance(value, (_core.Variable, Layer)):
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_made, value))
    return isinstance(value, dict) and bool(value) and all(map(_is_made, value.values()))


class Guard:
    """A context: the body is traced inside, and afterwards everything is restored."""

    def __init__(self, functions, set_state=None, names=()):
        cells, scopes = set(), {}
        if set_state is not None:
            _owned(set_state, names, cells, scopes)
        self.reach = Reach([(f, getattr(f, "__name__", "the body")) for f in functions], cells, scopes)
        self.holders = self.reach.holders

    def __enter__(self):
        _guards().append(self)
        self.dirty = None  # result of changed() after the body has run
        for array in self.reach.locked:
            array.flags.writeable = False
        return self

    def __exit__(self, kind, error, traceback):
        _guards().remove(self)
        for _ in self.reach.locked:
            left = [a for a in self.reach.locked if not a.flags.writeable]
            for array in left:
                try:
                    array.flags.writeable = True
                except ValueError:  # a view: its base comes first
                    pass
            if not left:
                break
        self.restore(self.holders if error is not None or self.dirty is None else self.dirty)
        if self.reach.locked and isinstance(error, ValueError) and not isinstance(error, errors.Error) and "read-only" in str(error):
            raise errors.ConversionFailed("a NumPy array is written in a branch or loop of the graph", why=_ONCE, fix=_FIXES["NumPy array"]) from None

    def restore(self, holders=None):
        for holder in self.holders if holders is None else holders:
            if not holder.same():
                holder.restore()

    def changed(self) -> list:
        """The holders whose content has changed."""
        self.dirty = [h for h in self.holders if not h.same() and not self._settled(h)]
        return self.dirty

    def _settled(self, holder) -> bool:
        """Whether everything new is a Variable or layer made by the body: these are kept."""
        before, now = holder.parts(holder.content), holder.parts(holder.read())
        if before is None:
            return False
        new = {k: v for k, v in now.items() if k not in before or not same_value(before[k], v)}
        made = {k for k, v in new.items() if before.get(k) is None and _is_made(v)}
        flags = {k for k, v in new.items() if v is True and before.get(k) in (None, False)}  # such as `built`, besides new Variables and layers
        if before.keys() - now.keys() or not made or new.keys() - made - flags:
            return False
        holder.content = holder.read()
        return True

    def refuse_once(self, name):
        """Error: a body traced again did not repeat its change, so something invisible (a cache) remembers it."""
        raise errors.ConversionFailed(f"'{name}' is changed in a branch or loop of the graph, but only the first time that it is traced", why="something that the body calls remembers that it was called",
                                      fix="change it outside of the branch or loop, or pass what it depends on as arguments")

    def refuse(self, holder, run, what=None, why=None, fix=None, kind=errors.ConversionFailed):
        """Raises the error at the line that changes the holder, found by calling run() again."""
        self.restore()
        where = _line_of_change(holder, run)
        self.restore()
        error = kind(what or f"the {holder.kind} '{holder.path}' is changed in a branch or loop of the graph", where=where, why=why or _ONCE,
                     fix=fix or _FIXES.get(holder.kind, "change it outside of the branch or loop, or make the condition a Python value"))
        error._located = bool(where)
        raise error


_ONCE = "Python would do it once, while the function is traced, whatever the data say"
_FIXES = {
    "set": "use a dict of booleans, or a tensor of flags",
    "NumPy array": "make it a tensor: x = lm.constant(array), then x = x.at[i].set(value)",
    "iterator": "take the items before the branch or loop, or loop over a tensor",
    "generator": "take the items before the branch or loop, or loop over a tensor",
    "cached function": "call it with these arguments before the branch or loop, or leave functools.cache out",
    "random generator": "draw with lm.random, which draws on every way and in every iteration",
}


def _line_of_change(holder, run) -> str:
    """The user's line that changes the holder while run() runs."""
    found, last = [], [None]
    holder.content, content = holder.read(), holder.content  # content that cannot be restored has changed already

    def local(frame, event, arg):
        if not found:
            if last[0] is not None and not holder.same():
                found.append(last[0])
            outer = frame.f_back if event == "return" else frame
            while outer is not None and not (is_users_code(outer.f_code) and not is_state_code(outer.f_code)):
                outer = outer.f_back
            last[0] = (outer.f_code, outer.f_lineno) if outer is not None else None
        return local

    def opened(frame, event, arg):
        return local if is_users_code(frame.f_code) and not found else None

    before = sys.gettrace()
    sys.settrace(opened)
    try:
        run()
    except BaseException as error:  # only the line of the change matters
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
    finally:
        sys.settrace(before)
    if not found and last[0] is not None and not holder.same():
        found.append(last[0])
    holder.content = content
    return text_at(*found[0]) if found else ""


def remembered(guard, codes) -> list:
    """The holders that branches with these codes changed before."""
    paths = set().union(*(_known.get(code, ()) for code in codes))
    return [h for h in guard.holders if h.path in paths] if paths else []


def remember(codes, holders):
    for code in codes:
        _known.setdefault(code, set()).update(h.path for h in holders)


def known_to_a_body(value):
    """Whether a value existed before a body being traced, so that changes to it are the body's."""
    return any(g.reach.knows(value) for g in _guards())


def shared_containers(values) -> set:
    """The ids of containers in a frame's values (a tuple, fresh from get_state) that have other references too."""
    out, seen = set(), set()

    def look(value, count, own):
        if not has_parts(value) or id(value) in out or id(value) in seen:
            return
        seen.add(id(value))
        if count > own and is_container(value):
            out.update(id(v) for v in containers_in(value)) if is_state(value) else out.add(id(value))
            return
        part_of = getattr if is_dataclass(value) else operator.getitem
        for key in list(parts_of(value)):
            count = sys.getrefcount(part_of(value, key))
            look(part_of(value, key), count, 2)

    kept = {id(value) for loop in loops() for value in loop.kept}
    for i in range(len(values)):  # the name's cell, the tuple and the count itself; the user's caller holds two more
        count = sys.getrefcount(values[i])
        look(values[i], count, 3 + 2 * is_an_argument(values[i]) + (id(values[i]) in kept))
    return out


def is_an_argument(value) -> bool:
    """Whether a value is an argument of the function being traced: its caller holds it meanwhile."""
    return bool(_traces()) and id(value) in _traces()[-1].direct


def keep_what_is_made(make):
    """Calls make(), whose changes (a layer that builds its weights) happen once and are kept, even if first called in a branch."""
    before = [(g, {id(h) for h in g.holders if not h.same()}) for g in _guards()]
    make()
    for guard, changed in before:
        for h in guard.holders:
            if id(h) not in changed and not h.same():
                h.content = h.read()


class Trace:
    """A context around a function being traced. Changes in branches and loops must not outlive the call, because later calls would not
    repeat them."""

    def __init__(self, function, made, args, kwargs, of_instance):
        self.function = function
        self.code = getattr(getattr(made, "__func__", made), "__code__", None)
        self.direct = {id(a) for a in (*args, *kwargs.values())}
        self.carried = {}  # (id of an object, kind) -> (its holder, the old value, name, line)
        self.caught = None  # exceptions of a branch or body, with their lines
        self.aliases = []  # (a container, its content, its replacement by a branch or loop, its content, name, line)
        self.own = set()
        self.outer = list(args[:of_instance])
        for argument in (*args[of_instance:], *kwargs.values()):
            self._leaves(argument, self.outer)

    def __enter__(self):
        _traces().append(self)
        return self

    def __exit__(self, kind, error, traceback):
        _traces().remove(self)
        if error is None and self.caught:
            self._undo()
            raised, where = self.caught
            raise errors.ConversionFailed(f"a branch or loop of the graph raises {type(raised).__name__}: {raised}", where, "the function catches it while it is traced; whether it is raised is known when the graph runs",
                                          "check the value with lm.check or assert, or return a flag that says what went wrong") from raised
        if error is None:
            self._check_aliases()
        if not self.carried:
            return
        if error is None:
            self._check()
        else:
            self._undo()

    def _check_aliases(self):
        for old, was, new, made, name, where in self.aliases:
            if not same_parts(parts_of(old), was) or not same_parts(parts_of(new), made):
                self._undo()
                raise errors.ConversionFailed(f"'{name}' is changed after a branch or loop of the graph, of which one way made it a {type(new).__name__} of its own", where,
                                              "on the other way something else holds the same object, and Python would change that too", "copy it before, as in list(x), dict(x) or copy.copy(x)")

    def _undo(self):
        for holder, parts in reversed([(h, p) for h, p, _, _ in self.carried.values()]):
            holder.write(holder.built(parts))

    def _leaves(self, value, out):
        """Containers in arguments are copies for this call; objects in them are not."""
        if not _structure.is_container(value):
            out.append(value)
            return out
        self.own.update((id(value), id(getattr(value, "__dict__", None))))
        for part in parts_of(value).values():
            self._leaves(part, out)
        return out

    def _check(self):
        reach = Reach([(self.function, "the function"), *((v, "an argument") for v in self.outer)])
        for holder, parts, name, where in list(self.carried.values()):
            held = reach.seen.get(id(holder.object)) is holder.object and id(holder.object) not in self.own
            if isinstance(holder, _Globals):
                held = any(isinstance(h, _Globals) and h.object is holder.object for h in reach.holders)
            if held:
                self._undo()
                raise errors.ConversionFailed(f"'{name}' is changed in a branch or loop of the graph, and outlives the call", where,
                                              "the function is traced once: later calls would start from what was there then, and change nothing",
                                              "make it a lm.Variable and assign it, or make the object in the function and return it")


def is_outermost(code) -> bool:
    """Whether code belongs to the function being traced, not to one that it calls, so that its return value is the result."""
    outermost = _traces()[-1].code if _traces() else None
    frame, calls = sys._getframe(1), 0
    while frame is not None:
        calls += frame.f_code is outermost
        frame = frame.f_back
    return calls == 1 and _contains(outermost, code)


def _contains(outer, code) -> bool:
    return any(c is code or _contains(c, code) for c in outer.co_consts if hasattr(c, "co_consts"))


def note(holder, key, before):
    """A place gets a value of the graph. If its old value came from outside, its holder must not outlive the call."""
    if not _traces() or isinstance(before, _core.Tensor) and _core._is_symbolic(before):
        return
    carried = _traces()[-1].carried
    carried.setdefault((id(holder.object), type(holder)), (holder, holder.parts(holder.content), holder.name(key), running_line()))


def note_alias(old, new, name):
    """A branch or loop replaced a container that has other references: from now on neither may be changed."""
    name = "what is returned" if name.startswith("return_value") else name
    aliases().append((old, parts_of(old), new, parts_of(new), name, running_line()))


def aliases() -> list:
    """What note_alias noted. Attempts to trace a branch or loop that are given up take back theirs."""
    return _traces()[-1].aliases if _traces() else []


def stands_for(value) -> list:
    """The objects that a container made by a branch or loop is on one of the ways."""
    return [old for old, _, new, *_ in aliases() if new is value]


def run_user_code(run):
    """Runs a branch or body that Python might not run with these values. A raise statement in it is refused. Other exceptions count as
    errors of the function only if nothing catches them."""
    try:
        run()
    except (Again, Grows):
        raise
    except Exception as error:
        refuse_raise(error)
        if isinstance(error, errors.Error):
            raise
        _note_caught(error, running_line())
        if not isinstance(error, (IndexError, KeyError)):
            raise
        kind = errors.IndexOutOfRange if isinstance(error, IndexError) else errors.NotFound
        made = kind(f"{type(error).__name__}: {error}", why="a branch or loop of the graph is traced whatever the data say, also where Python would not come by", fix="make the condition a Python value, or the object such that the branch can run")
        raise made.with_traceback(error.__traceback__) from error


def refuse_raise(error):
    """Refuses an exception that comes from a raise statement in a branch or body of the graph."""
    line = line_of_raise(error)
    if not line:
        return
    _note_caught(error, line)
    shown = f"{type(error).__name__}: {error}".removesuffix(": ").splitlines()[0]
    refused = errors.ConversionFailed(f"a branch or loop of the graph raises {shown}", line, "it is traced whatever the data say; whether Python would come by is known when the graph runs",
                                      "write assert or lm.check(condition, message), or make the condition a Python value")
    refused._located = True
    raise refused from error


def _note_caught(error, line):
    if _traces():
        _traces()[-1].caught = _traces()[-1].caught or (error, line)


def watched(function, once=False):
    """Wraps a body of lm.cond, lm.scan and the like: it must not change Python objects while it is traced. once: Python would run it once too."""
    if isinstance(function, (_core.Tensor, _core.Variable, type)) or not callable(function):
        return function

    @functools.wraps(function, updated=())
    def run(*args, **kwargs):
        if _core.executing_eagerly():
            return function(*args, **kwargs)
        guard = Guard([function])
        with guard:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                if not once:
                    refuse_raise(error)
                raise
            for holder in guard.changed():
                before, now = holder.parts(holder.content), holder.parts(holder.read())
                key = next((k for k in [*now, *before] if k not in before or k not in now or not same_value(before[k], now[k])), None) if before is not None else None
                where = holder.path if key is None else holder.name(key)
                guard.refuse(holder, lambda: function(*args, **kwargs), f"'{where}' is changed in a branch or loop of the graph",
                             fix=_FIXES.get(holder.kind, "return the new value from the body, or write the branch or loop as Python's if, while or for in a traced function"))
        return result

    return run


__all__ = ["Guard", "Trace", "aliases", "is_outermost", "keep_what_is_made", "loops", "known_to_a_body", "note", "note_alias", "remember", "remembered", "run_user_code", "shared_containers", "stands_for", "watched"]
