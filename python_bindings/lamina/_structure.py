"""Nested tuples, lists and dicts as a flat list of leaves and a recipe to build them again."""
from __future__ import annotations


class Structure:
    """How leaves are nested. `kind` is None for a leaf, else tuple, list, dict or a named tuple's class."""

    __slots__ = ("kind", "keys", "children")

    def __init__(self, kind=None, keys=(), children=()):
        self.kind, self.keys, self.children = kind, keys, children

    @property
    def is_leaf(self) -> bool:
        return self.kind is None


def flatten(value, is_leaf=lambda value: not isinstance(value, (tuple, list, dict))):
    """The leaves in order, and the Structure that unflatten takes."""
    leaves = []

    def walk(part):
        if is_leaf(part):
            leaves.append(part)
            return Structure()
        if isinstance(part, dict):
            return Structure(dict, tuple(part), tuple(walk(v) for v in part.values()))
        kind = list if isinstance(part, list) else tuple if type(part) is tuple else type(part)
        return Structure(kind, (), tuple(walk(v) for v in part))

    return leaves, walk(value)


def unflatten(structure: Structure, leaves):
    """The nested value again, with these leaves."""
    leaves = iter(leaves)

    def build(node):
        if node.kind is None:
            return next(leaves)
        if node.kind is dict:
            return {key: build(child) for key, child in zip(node.keys, node.children)}
        children = [build(child) for child in node.children]
        return children if node.kind is list else tuple(children) if node.kind is tuple else node.kind(*children)

    return build(structure)
