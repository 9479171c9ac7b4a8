"""Structures of tensors: tuples, lists, dicts, named tuples and dataclasses, nested, as lists of leaves. None is a leaf without a value, which map leaves as it is."""
from __future__ import annotations

import builtins

from . import _border, _structure, errors

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]


def flatten(tree):
    """(the leaves in order, the structure that unflatten takes)."""
    return _structure.flatten(tree)


def leaves(tree) -> list:
    """What is in the structure and no container, in order."""
    return _structure.flatten(tree)[0]


def structure(tree):
    """The nesting without the leaves."""
    return _structure.flatten(tree)[1]


def unflatten(structure, leaves):
    """The structure with these leaves in order. Raises InvalidArgument for another number of them."""
    leaves = list(leaves)
    wanted = _count(structure)
    if len(leaves) != wanted:
        raise errors.InvalidArgument(f"unflatten: {len(leaves)} leaves for a structure of {wanted}", why="each place takes one", fix="pass what flatten gave, or as many")
    return _structure.unflatten(structure, leaves)


def _count(node) -> int:
    return 1 if node.is_leaf else sum(_count(child) for child in node.children)


def _same(a, b, path="") -> None:
    if a.kind != b.kind or (a.keys and set(a.keys) != set(b.keys)) or len(a.children) != len(b.children):
        what = lambda n: "a leaf" if n.is_leaf else f"a {n.kind.__name__} of {len(n.children)}"
        raise errors.InvalidArgument(f"map: the structures differ{' at ' + path if path else ''}: {what(a)} and {what(b)}", why="leaves are taken in pairs", fix="pass trees of one structure")
    other = dict(zip(b.keys, b.children)) if a.keys else None
    for i, child in enumerate(a.children):
        _same(child, other[a.keys[i]] if other else b.children[i], f"{path}[{a.keys[i] if a.keys else i!r}]")


def map(fn, tree, *rest):
    """The structure with fn(leaf, ...) in place of each leaf; further trees of the same structure give further arguments. None stays None. Raises
    InvalidArgument where the structures differ."""
    first, shape = _structure.flatten(tree)
    others = []
    for other in rest:
        _same(shape, structure(other))
        others.append(_ordered(other, shape))
    return _structure.unflatten(shape, [None if leaf is None else fn(leaf, *more) for leaf, *more in builtins.zip(first, *others)])


def _ordered(tree, shape):
    """The leaves of a tree in the order of another's keys."""
    if shape.is_leaf:
        return [tree]
    parts = _structure.parts_of(tree)
    return [leaf for key, child in builtins.zip(shape.keys or parts, shape.children) for leaf in _ordered(parts[key], child)]


_border.guard(globals())
