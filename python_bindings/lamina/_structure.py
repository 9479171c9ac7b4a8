"""Containers: tuples, lists, dicts, named tuples and dataclasses. Flattens nested ones to a list of leaves, and rebuilds them."""
from __future__ import annotations

import copy

from . import errors

DEEPEST, _MOST = 200, 2**17  # limits for levels and containers of one walk, as in python_bindings/src/containers.cpp


def is_dataclass(value) -> bool:
    """Whether a value is an instance of a dataclass, and nothing else: a Module is an object, and a dict a dict, whatever decorates its class."""
    kind = type(value)
    return isinstance(getattr(kind, "__dataclass_fields__", None), dict) and not hasattr(kind, "_lamina_whole") and not isinstance(value, (tuple, list, dict))


def is_container(value) -> bool:
    return isinstance(value, (tuple, list, dict)) or is_dataclass(value)


def is_data(value) -> bool:
    """Whether a value is a leaf among arrays: a list is one of numbers."""
    return isinstance(value, list) or not is_container(value)


def parts_of(value) -> dict | None:
    """The parts of a container by key, or None for a leaf. Of a dataclass they are its fields that have a value; what its class holds and what only its __init__ takes
    are no fields."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if not is_dataclass(value):
        return None
    from dataclasses import _FIELD  # there already, where a dataclass is
    fields = [name for name, field in type(value).__dataclass_fields__.items() if getattr(field, "_field_type", None) is _FIELD]
    return {name: getattr(value, name) for name in fields if hasattr(value, name)}


def with_parts(value, parts):
    """A container like value, with these parts by key. What a dataclass holds besides its fields is in the new one too."""
    if isinstance(value, dict):
        made = copy.copy(value)
        dict.update(made, parts)  # a Counter's own adds
        return made
    if isinstance(value, list):
        return list(parts.values())
    if isinstance(value, tuple):
        return type(value)._make(parts.values()) if hasattr(value, "_fields") else tuple(parts.values())
    made = copy.copy(value)
    if made is value:
        if any(part is not getattr(value, name, None) for name, part in parts.items()):
            raise errors.TypeMismatch(f"the copy of {errors.a_type(value)} is itself", why="one with other fields is a copy of it", fix="pass a plain dataclass of the values")
        return value
    return fill(made, parts)


def fill(dataclass, parts):
    """Gives the fields of a dataclass their values."""
    for name, part in parts.items():
        object.__setattr__(dataclass, name, part)  # a frozen one has its own
    return dataclass


class _Inside(tuple):
    """The containers around a part, and a count of all parts visited."""


def enter(inside: tuple, container, what: str) -> tuple:
    """The containers around the parts of this one: `inside` and itself. Raises InvalidArgument if it contains itself."""
    if id(container) in inside:
        raise errors.InvalidArgument(f"{what}: {errors.a_type(container)} contains itself", why="what is taken apart into its tensors has an end",
                                     fix="pass the parts that are used; a link back to the parent stays outside of lists, dicts and dataclasses")
    if len(inside) >= DEEPEST:
        raise errors.InvalidArgument(f"{what}: containers are nested more than {DEEPEST} levels deep", why="what is taken apart has a bound",
                                     fix="pass one list of the parts")
    path = _Inside((*inside, id(container)))
    path.met = getattr(inside, "met", None) or [0]
    path.met[0] += 1
    if path.met[0] > _MOST:
        raise errors.InvalidArgument(f"{what}: there are more than {_MOST} containers in it", why="each is looked at by itself",
                                     fix="pass arrays or tensors instead of lists of numbers, and each list once")
    return path


class Structure:
    """The nesting of leaves. `kind` is None for a leaf, else tuple, list, dict, or the class of a named tuple or dataclass; `empty` is a dataclass
    without its parts."""

    __slots__ = ("kind", "keys", "children", "empty")

    def __init__(self, kind=None, keys=(), children=(), empty=None):
        self.kind, self.keys, self.children, self.empty = kind, keys, children, empty

    @property
    def is_leaf(self) -> bool:
        return self.kind is None

    # By value: a structure is an argument of traced functions, which another one of the same form must not trace again.
    def __eq__(self, other):
        return isinstance(other, Structure) and (self.kind, self.keys, self.children) == (other.kind, other.keys, other.children)

    def __hash__(self):
        return hash((self.kind, self.keys, self.children))


def flatten(value, is_leaf=lambda value: not is_container(value)):
    """The leaves in order, and the Structure that unflatten takes."""
    leaves = []
    return leaves, _structure_of(value, is_leaf, leaves, ())


# Recursive functions are no closures: one would hold itself, and what it has seen, until Python looks for cycles.
def _structure_of(part, is_leaf, leaves, inside):
    if is_leaf(part):
        leaves.append(part)
        return Structure()
    inside = enter(inside, part, "a structure")
    parts = parts_of(part)
    children = tuple([_structure_of(v, is_leaf, leaves, inside) for v in parts.values()])
    if isinstance(part, dict):
        return Structure(dict, tuple(parts), children)
    if is_dataclass(part):
        return Structure(type(part), tuple(parts), children, with_parts(part, dict.fromkeys(parts)))
    return Structure(list if isinstance(part, list) else tuple if type(part) is tuple else type(part), (), children)


def unflatten(structure: Structure, leaves):
    """Rebuilds the nested value with these leaves."""
    return _built(structure, iter(leaves))


def _built(node, leaves):
    if node.kind is None:
        return next(leaves)
    children = [_built(child, leaves) for child in node.children]
    if node.kind is dict:
        return dict(zip(node.keys, children))
    if node.empty is not None:
        return with_parts(node.empty, dict(zip(node.keys, children)))
    return children if node.kind is list else tuple(children) if node.kind is tuple else node.kind(*children)
