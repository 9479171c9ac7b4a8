"""vmap: maps a function of one model, or of one example, over a stack of them."""
from __future__ import annotations

import functools

from . import _border, _core, errors
from ._callee import callee, traced
from ._structure import enter, parts_of, with_parts


def vmap(fn, in_axes=0, out_axes=0, axis_size: int | None = None):
    """Maps fn over its arguments' axes: vmap(fn)(x)[i] is fn(x[i]).

    in_axes: the mapped axis of each argument, negative ones from the end; None: all calls share the argument. One for all arguments, or a
    tuple with one per argument; for an argument that is a tuple, list, dict or dataclass of tensors it may be such a structure. Keyword
    arguments are mapped along axis 0. out_axes: the same for results; None for results that do not differ. axis_size: number of calls, if
    no argument is mapped.

    Stacked Variables (lm.nn.stack, lm.per_model) that fn uses are mapped too: fn sees one model's value, and an assignment sets that
    model's value. Assigning values that differ between models to an unstacked Variable is an InvalidArgument at that line. Draws differ
    between calls. AutoGraph converts fn's control flow, outside of traced functions too. Values that are not tensors are passed to fn unchanged; a number has no axis and needs in_axes=None. vmap can be nested,
    traced by lm.function, and differentiated: a GradientTape inside fn gives gradients per example.

    Raises InvalidArgument for axes of different lengths or out of range, for in_axes whose structure does not match the arguments, and when
    nothing is mapped.
    """
    if not callable(fn):
        raise errors.TypeMismatch(f"lm.vmap: {errors.a_type(fn)} cannot be called", why="what is mapped is a function", fix="pass a function or a callable object")
    name = getattr(fn, "__name__", None) or type(fn).__name__

    parameters = _parameter_names(fn)

    @functools.wraps(fn, updated=())
    def mapped(*args, **kwargs):
        given = _Given()
        if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
            raise errors.InvalidArgument(f"vmap: in_axes has {len(in_axes)} entries, {name} was given {len(args)} arguments",
                                         why="there is one for each positional argument", fix="pass one per argument, or one for all of them")
        each = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
        names = [parameters[i] if i < len(parameters) else f"argument {i}" for i in range(len(args))]
        values = [_map(value, axes, path, "in_axes", given.take) for value, axes, path in zip(args, each, names)]
        named = {key: _map(value, 0, key, "in_axes", given.take_by_name) for key, value in kwargs.items()}
        result, eager = _Result(), _core.executing_eagerly()

        def body(tensors):
            one = (traced if eager else callee)(fn)(*[_fill(value, tensors) for value in values], **{key: _fill(value, tensors) for key, value in named.items()})
            result.structure = _map(one, out_axes, "the result", "out_axes", result.take)
            return result.tensors, result.axes

        tensors = _core._vmap(name, given.tensors, given.axes, given.names, axis_size, body)
        return _fill(result.structure, tensors)

    return mapped


class _Slot:
    """The position of a tensor in a structure."""

    __slots__ = ("index",)

    def __init__(self, index):
        self.index = index


def _is_tensor(value) -> bool:
    return isinstance(value, _core.Tensor) or (hasattr(value, "__array__") and not isinstance(value, _core.Variable))


class _Given:
    """The tensors among the arguments, each with its axis and its name."""

    def __init__(self):
        self.tensors, self.axes, self.names = [], [], []

    def take(self, value, axis, path):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and axis is not None:
            raise errors.InvalidArgument(f"vmap: {path} is the number {errors.shown(value)}", why="a number has no axis to map", fix="pass in_axes=None for it, or a tensor")
        return self.take_by_name(value, axis, path)

    def take_by_name(self, value, axis, path):
        if isinstance(value, _core.Variable) and axis is not None and value.models == 0:
            value = value.read()
        if not _is_tensor(value):
            return value
        self.tensors.append(value)
        self.axes.append(axis)
        self.names.append(path)
        return _Slot(len(self.tensors) - 1)


class _Result:
    """The tensors among the results, each with its required axis."""

    structure = None

    def __init__(self):
        self.tensors, self.axes = [], []

    def take(self, value, axis, path):
        if not _is_tensor(value) and not isinstance(value, _core.Variable):
            _core._check_leaf(value)
            return value
        self.tensors.append(value)
        self.axes.append(axis)
        return _Slot(len(self.tensors) - 1)


def _parameter_names(fn) -> tuple:
    code = getattr(getattr(fn, "__wrapped__", fn), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None and not hasattr(fn, "__self__") else ()


def _map(value, axes, path, what, take, inside=()):
    """value with each leaf replaced by take(leaf, axis, path); axes is an axis, None, or a structure that matches the beginning of
    value's."""
    if axes is not None and not isinstance(axes, int):
        wanted, parts = parts_of(axes), parts_of(value)
        if wanted is None:
            raise errors.TypeMismatch(f"vmap: {what} has {errors.shown(axes)} for {path}", why="an axis is an integer or None", fix="pass an integer, None, or a structure of them")
        if parts is None or wanted.keys() != parts.keys():
            have = "no structure" if parts is None else f"{len(parts)} parts: {', '.join(map(str, parts))}" if parts else "no parts"
            raise errors.InvalidArgument(f"vmap: {what} does not have the structure of {path}", why=f"it has {len(wanted)} parts: {', '.join(map(str, wanted))}; {path} has {have}",
                                         fix="pass an axis for all of it, or a structure with the same keys and lengths")
        inside = enter(inside, value, path)
        return with_parts(value, {key: _map(part, wanted[key], _join(path, key, value), what, take, inside) for key, part in parts.items()})
    if isinstance(axes, bool):
        raise errors.TypeMismatch(f"vmap: {what} has {errors.shown(axes)} for {path}", why="an axis is an integer or None", fix="pass 0 for the first axis")
    parts = parts_of(value)
    if parts is None:
        return take(value, axes, path)
    inside = enter(inside, value, path)
    return with_parts(value, {key: _map(part, axes, _join(path, key, value), what, take, inside) for key, part in parts.items()})


def _join(path, key, container):
    return f"{path}[{errors.shown(key)}]" if isinstance(container, (dict, tuple, list)) else f"{path}.{key}"


def _fill(value, tensors):
    """value with each slot replaced by its tensor."""
    if isinstance(value, _Slot):
        return tensors[value.index]
    parts = parts_of(value)
    return value if parts is None else with_parts(value, {key: _fill(part, tensors) for key, part in parts.items()})


_border.guard(globals())
