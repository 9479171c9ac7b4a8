"""Python's functions and operators that may get tensors of the graph: range, len, min, sorted, in, list[i] and the like."""
from __future__ import annotations

import builtins
import functools
import operator

from .. import _core, errors
from ..reporting import check_with
from . import lists
from .iteration import Counted, Steps, Zipped
from .lists import GrowingList
from .numbers import is_number, weak
from .values import Tensor, Variable, boolean_of, in_graph

_SCALARS = (bool, int, float)


def _as_tensor(iterated):
    return iterated.buffer if type(iterated) is GrowingList else iterated.read() if isinstance(iterated, Variable) else iterated


def _is_dynamic(iterated):
    return isinstance(iterated, (Steps, Counted, Zipped, GrowingList)) or in_graph(iterated)


# --- iterables of loops ---


def range_(*args):
    """range(...) as the head of a for statement."""
    return Steps(*args) if any(in_graph(a) for a in args) else builtins.range(*args)


def range_value(*args):
    made = range_(*args)
    return made.tensor() if isinstance(made, Steps) else made


def lamina_range(*args, **options):
    """lm.range(...) as the head of a for statement."""
    return Steps(*args) if any(in_graph(a) for a in args) and not options else _core.range(*args, **options)


def lamina_range_value(*args, **options):
    dtype = options.pop("dtype", None)
    if options or not any(in_graph(a) for a in args):
        return _core.range(*args, **options) if dtype is None else _core.range(*args, dtype=dtype, **options)
    made = Steps(*args).tensor()
    return made if dtype is None else _core.astype(made, dtype)


def enumerate_(iterated, start=0):
    return Counted(_as_tensor(iterated), start) if _is_dynamic(iterated) else builtins.enumerate(iterated, start)


def zip_(*parts, strict=False):
    if not any(_is_dynamic(p) for p in parts):
        return builtins.zip(*parts, strict=strict)
    if all(_is_dynamic(p) for p in parts):
        return Zipped([_as_tensor(p) for p in parts], strict)
    parts = [_as_tensor(p) for p in parts]
    if strict:
        return builtins.zip(*(list(p) if isinstance(p, Tensor) else p for p in parts), strict=True)
    lengths = [len(p) if hasattr(p, "__len__") and not isinstance(p, Tensor) else None for p in parts]
    shortest = builtins.min((n for n in lengths if n is not None), default=None)
    for p in parts:
        if isinstance(p, Tensor) and p.shape[0] is None and shortest is not None:
            check_with(lists.length_of(p) >= shortest, f"zip: a tensor whose length is known at run time goes with something of {shortest}, and is shorter", [("its length", lists.length_of(p))])
    rows = [([p[i] for i in builtins.range(shortest if p.shape[0] is None else builtins.min(shortest, p.shape[0]))] if isinstance(p, Tensor) else p) for p in parts]
    return builtins.zip(*rows)


def reversed_(iterated):
    if isinstance(iterated, Steps):
        return iterated.reversed()
    return _core.flip(_as_tensor(iterated), 0) if _is_dynamic(iterated) else builtins.reversed(iterated)


def _is_open(iterated):
    return isinstance(iterated, (Steps, GrowingList)) or in_graph(iterated) and iterated.shape != () and iterated.shape[0] is None


def items(iterated):
    """The iterable of a comprehension, which Python unrolls."""
    if _is_open(iterated):
        raise errors.ConversionFailed("a comprehension goes through something whose length is known when the graph runs", why="Python makes one element after the other while the function is traced",
                                      fix="write a for loop that appends to a list: for x in xs: out.append(f(x))")
    return iterated


def _collected(python):
    def call(*args):
        if args and _is_open(args[0]):
            raise errors.ConversionFailed(f"{python.__name__}: the length of what it goes through is known when the graph runs", why="Python takes one element after the other while the function is traced",
                                          fix="use the tensor itself, or a for loop that appends to a list")
        return python(*args)
    return call


# --- folds ---


def _elements(name, iterated):
    """The iterable as a tensor with one axis; None if it is not one."""
    if type(iterated) is GrowingList or in_graph(iterated):
        tensor = _as_tensor(iterated)
        if len(tensor.shape) != 1:
            raise errors.InvalidArgument(f"{name}: the tensor has {len(tensor.shape)} axes", why="Python compares elements one by one, and what it goes through here are tensors themselves",
                                         fix=f"use lm.{name} and say which axis" if hasattr(_core, name) else "pass a tensor with one axis")
        return tensor
    return None


def _scalar(name, value):
    if not isinstance(value, (Tensor, Variable)) and type(value) not in _SCALARS or isinstance(value, (Tensor, Variable)) and tuple(value.shape) != ():
        raise errors.InvalidArgument(f"{name}: {errors.a_type(value)} is compared with a tensor" if not isinstance(value, (Tensor, Variable)) else f"{name}: a tensor of shape {tuple(value.shape)} is compared",
                                     why="the comparison is part of the graph, and of single numbers", fix=f"use lm.{name} on one tensor" if hasattr(_core, name) else "stack the tensors, and use functions of lm")
    return value


def _no_options(name, options):
    if options:
        raise errors.ConversionFailed(f"{name}: {', '.join(options)} cannot be used where elements are tensors of the graph", why="the order is known when the graph runs", fix="use lm.argsort, lm.argmin or lm.argmax, and index with the result")


def _extreme(name, python, pairwise, reduce):
    def call(*args, **options):
        one = args[0] if len(args) == 1 else None
        tensor = _elements(name, one) if len(args) == 1 else None
        if tensor is not None:
            _no_options(name, options)
            return reduce(tensor)
        parts = list(one) if len(args) == 1 else args
        if not any(in_graph(p) for p in parts):
            return python(parts, **options) if len(args) == 1 else python(*args, **options)
        _no_options(name, options)
        chosen = functools.reduce(pairwise, [_scalar(name, p) for p in parts])
        return weak(chosen) if all(map(is_number, parts)) else chosen
    return call


def sum_(iterated, /, start=0):
    if (type(iterated) is GrowingList or in_graph(iterated)) and _as_tensor(iterated).shape != ():
        tensor = _as_tensor(iterated)
        return _core.sum(_core.astype(tensor, _core.int32) if tensor.dtype == _core.bool else tensor, axis=0) + start
    return builtins.sum(iterated, start)


def _truth(name, python, reduce, pairwise):
    def call(iterated, /):
        tensor = _elements(name, iterated)
        if tensor is not None:
            return reduce(tensor if tensor.dtype == _core.bool else _core.not_equal(tensor, 0))
        parts = list(iterated)
        if not any(in_graph(p) for p in parts):
            return python(parts)
        return functools.reduce(pairwise, [boolean_of(_scalar(name, p) if in_graph(p) else p) for p in parts])
    return call


def sorted_(iterated, /, **options):
    tensor = _elements("sorted", iterated)
    if tensor is None:
        parts = list(iterated)
        if not any(in_graph(p) for p in parts):
            return builtins.sorted(parts, **options)
        tensor = _core.stack([_scalar("sorted", p) for p in parts])
    backwards = options.pop("reverse", False)
    _no_options("sorted", {k: v for k, v in options.items() if v is not None})
    tensor = _core.flip(_core.sort(tensor), 0) if backwards else _core.sort(tensor)
    return tensor if tensor.shape[0] is None else [tensor[i] for i in builtins.range(tensor.shape[0])]


def divmod_(a, b, /):
    return (a // b, a % b) if in_graph(a) or in_graph(b) else builtins.divmod(a, b)


# --- in, and indexing by a tensor ---


def contains(value, container):
    """value in container"""
    if type(container) is GrowingList and not container.closed:
        raise errors.ConversionFailed("in: the list grows in this loop of the graph", why="what is in it by now is known when the graph runs", fix="look for it after the loop")
    if type(container) is GrowingList or in_graph(container):
        return _core.any(_core.equal(_as_tensor(container), value))
    if not in_graph(value):
        if isinstance(container, _HASHED) and _has_tensor(value):
            _refuse_key("in: a tuple with a tensor is looked for among keys")
        return value in container
    if isinstance(container, builtins.range):
        _scalar("in", value)
        inside = _core.logical_and(value >= builtins.min(container[0], container[-1]), value <= builtins.max(container[0], container[-1])) if len(container) else _core.constant(False)
        return _core.logical_and(inside, _core.equal((value - container.start) % container.step, 0)) if len(container) else inside
    if isinstance(container, (list, tuple, _VALUES, *_HASHED)):
        parts = list(container)
        for part in parts:
            if type(part) not in _SCALARS and not isinstance(part, (Tensor, Variable)):
                raise errors.ConversionFailed(f"in: a tensor is looked for among values one of which is {errors.a_type(part)}", why="whether it is equal is known when the graph runs, for numbers and tensors",
                                              fix="make the container numbers only, or the value a Python value")
        return functools.reduce(_core.logical_or, [_core.all(_core.equal(value, part)) for part in parts], _core.constant(False))
    return value in container


def not_in(value, container):
    found = contains(value, container)
    return _core.logical_not(found) if in_graph(found) else not found


def item(container, index):
    """container[index]"""
    if in_graph(index):
        if isinstance(container, (list, tuple)) and not hasattr(container, "_fields") or type(container) is builtins.range:
            parts = list(container)
            for part in parts:
                if type(part) not in _SCALARS and not isinstance(part, (Tensor, Variable)) and type(part).__module__ != "numpy":
                    raise errors.ConversionFailed(f"a {type(container).__name__} that holds {errors.a_type(part)} is indexed by a tensor", why="which element it is is known when the graph runs, and only tensors and numbers are there then",
                                                  fix="call one of several functions with lm.switch(index, functions), or stack tensors")
            return _core.stack(parts)[index]
        check_key(container, index)
    return container[index]


def set_item(value, container, index):
    """container[index] = value. Of a list whose index is a tensor of the graph, each item is the value or what it was."""
    if in_graph(index) and isinstance(container, list) and type(container) is not GrowingList:
        for part in (value, *container):
            if type(part) not in _SCALARS and not isinstance(part, (Tensor, Variable)) and type(part).__module__ != "numpy":
                raise errors.ConversionFailed(f"an item of a list that {'becomes' if part is value else 'holds'} {errors.a_type(part)} is chosen by a tensor", why="which item it is is known when the graph runs, and only tensors and numbers are there then",
                                              fix="stack tensors, and write x = x.at[i].set(value)")
        place = _core.arange(len(container), dtype=_core.int32)[_as_tensor(index)]
        for i, before in enumerate(list(container)):
            container[i] = _core.where(_core.equal(place, i), value, before)
        return
    container[check_key(container, index)] = value


def item_to_change(container, index):
    """(container, index, container[index])"""
    return container, index, item(container, check_key(container, index))


def change_item(read, operation, value):
    """container[index] += value, and its like, of what item_to_change() gave; operation: the name of the operator in ast."""
    container, index, before = read
    set_item(_IN_PLACE[operation](before, value), container, index)


_IN_PLACE = {"Add": operator.iadd, "Sub": operator.isub, "Mult": operator.imul, "MatMult": operator.imatmul, "Div": operator.itruediv, "FloorDiv": operator.ifloordiv, "Mod": operator.imod, "Pow": operator.ipow,
             "LShift": operator.ilshift, "RShift": operator.irshift, "BitOr": operator.ior, "BitXor": operator.ixor, "BitAnd": operator.iand}


def check_key(container, index):
    """A tensor of the graph used as a dict key is an error, because Python would compare identity, not value. Returns the index. A Variable
    may be a key itself."""
    if isinstance(container, dict) and _has_tensor(index) and not (isinstance(index, Variable) and not any(type(k) in _SCALARS for k in container)):
        _refuse_key("a dict is indexed by a tensor" if in_graph(index) else "a dict is indexed by a tuple with a tensor")
    return index


_KEYS, _VALUES, _ITEMS = type({}.keys()), type({}.values()), type({}.items())
_HASHED = set, frozenset, dict, _KEYS, _ITEMS


def _has_tensor(key) -> bool:
    return in_graph(key) or isinstance(key, tuple) and any(map(_has_tensor, key))


def _refuse_key(what):
    raise errors.ConversionFailed(what, why="its value is known when the graph runs, and Python would look for this very tensor", fix="use a list or a tensor of values, or lm.switch")


def lookup(method):
    """A bound method of a dict; get, pop, setdefault and the like take no key that is a tensor of the graph."""
    if method.__name__ not in ("get", "pop", "setdefault", "__getitem__", "__setitem__", "__contains__"):
        return method

    def call(*args, **options):
        check_key(method.__self__, args[0] if args else options.get("key"))
        return method(*args, **options)
    return call


BUILTINS = {
    builtins.range: range_value, builtins.enumerate: enumerate_, builtins.zip: zip_, builtins.reversed: reversed_, builtins.len: lists.length, builtins.sum: sum_, builtins.sorted: sorted_,
    builtins.min: _extreme("min", builtins.min, _core.minimum, _core.min), builtins.max: _extreme("max", builtins.max, _core.maximum, _core.max),
    builtins.any: _truth("any", builtins.any, _core.any, _core.logical_or), builtins.all: _truth("all", builtins.all, _core.all, _core.logical_and), builtins.divmod: divmod_, builtins.list: _collected(list), builtins.tuple: _collected(tuple),
    _core.stack: lists.stack, _core.concat: lists.concat,
}
HEADS = {builtins.range: range_}  # as in the head of a for statement
for _name in ("range", "arange"):
    BUILTINS[getattr(_core, _name)], HEADS[getattr(_core, _name)] = lamina_range_value, lamina_range
