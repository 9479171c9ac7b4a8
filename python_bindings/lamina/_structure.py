"""Flattens nested tuples, lists and dicts to a list of leaves, and rebuilds them."""
from __future__ import annotations

from . import errors

DEEPEST, _MOST = 200, 2**17  # limits for levels and containers of one walk, as in python_bindings/src/containers.cpp


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
    """The nesting of leaves. `kind` is None for a leaf, else tuple, list, dict or a named tuple's class."""

    __slots__ = ("kind", "keys", "children")

    def __init__(self, kind=None, keys=(), children=()):
        self.kind, self.keys, self.children = kind, keys, children

    @property
    def is_leaf(self) -> bool:
        return self.kind is None

    # By value: a structure is an argument of traced functions, which another one of the same form must not trace again.
    def __eq__(self, other):
        return isinstance(other, Structure) and (self.kind, self.keys, self.children) == (other.kind, other.keys, other.children)

    def __hash__(self):
        return hash((self.kind, self.keys, self.children))


def flatten(value, is_leaf=lambda value: not isinstance(value, (tuple, list, dict))):
    """The leaves in order, and the Structure that unflatten takes."""
    leaves = []

    def walk(part, inside):
        if is_leaf(part):
            leaves.append(part)
            return Structure()
        inside = enter(inside, part, "a structure")
        if isinstance(part, dict):
            items = list(part.items())
            return Structure(dict, tuple(key for key, _ in items), tuple([walk(v, inside) for _, v in items]))
        kind = list if isinstance(part, list) else tuple if type(part) is tuple else type(part)
        return Structure(kind, (), tuple([walk(v, inside) for v in list(part)]))

    return leaves, walk(value, ())


def unflatten(structure: Structure, leaves):
    """Rebuilds the nested value with these leaves."""
    leaves = iter(leaves)

    def build(node):
        if node.kind is None:
            return next(leaves)
        if node.kind is dict:
            return {key: build(child) for key, child in zip(node.keys, node.children)}
        children = [build(child) for child in node.children]
        return children if node.kind is list else tuple(children) if node.kind is tuple else node.kind(*children)

    return build(structure)
