"""Trees: how the arguments and results of a saved function, and what an object holds, are nested, as JSON.

["tensor"], ["variable"], ["value", x], ["float", text], ["list" or "tuple", parts], ["dict", [[key, part], ...]], ["named", class name, [[field, part],
...]]; of what an object holds also ["variable", name], ["stored", name], ["function", name], ["object", number], ["lost", what].
"""
from __future__ import annotations

import collections
import keyword
import math

from . import _core, errors
from ._structure import fill


def plain(value):
    """A constant as JSON keeps it exactly: a float that is no number as text."""
    return ["float", repr(value)] if isinstance(value, float) and not math.isfinite(value) else ["value", value]


def encoded(tree):
    kind, *rest = tree
    if kind == "value":
        return plain(rest[0])
    if kind == "object":  # of a call: what no program can hold; an attribute's is an object's number
        return ["lost", rest[0]]
    if kind in ("list", "tuple"):
        return [kind, [encoded(part) for part in rest[0]]]
    if kind == "dict":
        return [kind, [[plain(key) if isinstance(key, (str, int, float, bool, type(None))) else ["lost", errors.a_type(key)], encoded(part)] for key, part in rest[0]]]
    if kind == "named":
        return [kind, rest[0], [[field, encoded(part)] for field, part in rest[1]]]
    return list(tree)


def constant_of(tree):
    return float(tree[1]) if tree[0] == "float" else tree[1]


def lost_in(tree):
    """What in a tree cannot be saved, or None."""
    kind, *rest = tree
    if kind == "lost":
        return rest[0]
    if kind in ("list", "tuple"):
        return next(filter(None, map(lost_in, rest[0])), None)
    if kind == "dict":
        return next(filter(None, (lost_in(part) for pair in rest[0] for part in pair)), None)
    if kind == "named":
        return next(filter(None, (lost_in(part) for _, part in rest[1])), None)
    return None


def is_constant(tree):
    """Whether a tree has no tensor, Variable or object."""
    kind, *rest = tree
    parts = rest[0] if kind in ("list", "tuple") else [part for _, part in rest[-1]] if kind in ("dict", "named") else ()
    return kind not in ("tensor", "variable", "lost") and all(map(is_constant, parts))


def names_of(tree, path):
    """The path to each tensor: "x", "options['depth'][0]"."""
    kind, *rest = tree
    if kind == "tensor":
        yield path
    elif kind in ("list", "tuple"):
        for i, part in enumerate(rest[0]):
            yield from names_of(part, f"{path}[{i}]")
    elif kind == "dict":
        for key, part in rest[0]:
            yield from names_of(part, f"{path}[{constant_of(key)!r}]")
    elif kind == "named":
        for field, part in rest[1]:
            yield from names_of(part, f"{path}.{field}")


def result_names(tree):
    """As programs without Python see them: the keys of a dict, else "output" and what leads to each."""
    if tree[0] == "dict" and all(key[0] == "value" and isinstance(key[1], str) for key, _ in tree[1]):
        return [name for key, part in tree[1] for name in names_of(part, key[1])]
    return list(names_of(tree, "output"))


def _tuple_class(name, fields):
    """A class for results of a named tuple or dataclass whose own class is not known here."""
    good = [field for field in (name, *fields) if isinstance(field, str) and field.isidentifier() and not keyword.iskeyword(field) and not field.startswith("_")]
    return collections.namedtuple(name, fields) if len(good) == len(fields) + 1 and len(set(fields)) == len(fields) else None


def built(tree, leaf, custom):
    """The value of a tree, with leaf(node) for each part that is no container and no constant."""
    kind, *rest = tree
    if kind in ("value", "float"):
        return constant_of(tree)
    if kind in ("list", "tuple"):
        parts = [built(part, leaf, custom) for part in rest[0]]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {constant_of(key): built(part, leaf, custom) for key, part in rest[0]}
    if kind == "named":
        values = {field: built(part, leaf, custom) for field, part in rest[1]}
        made = custom.get(rest[0]) or _tuple_class(rest[0], tuple(values))
        if hasattr(made, "__dataclass_fields__"):
            return fill(made.__new__(made), values)
        return values if made is None else made(**values)
    return leaf(tree)


class Different(Exception):
    """The arguments of a call are not those of a graph."""


def take(tree, value, tensors, variables, path):
    """Appends the tensors and Variables of an argument; Different when it is nested in another way or a constant is another."""
    kind, *rest = tree
    if kind == "tensor":
        return tensors.append(value)
    if kind == "variable":
        if not isinstance(value, _core.Variable):
            raise Different(f"{path} is {errors.a_type(value)}, it was saved for a Variable")
        return variables.append(value)
    if kind in ("value", "float"):
        constant = constant_of(tree)
        if type(value) is not type(constant) or repr(value) != repr(constant):  # -0.0 is not 0.0, and nan is nan
            raise Different(f"{path} is {errors.shown(value)}, it was saved for {errors.shown(constant)}")
        return None
    if kind == "named":
        fields = [field for field, _ in rest[1]]
        if type(value).__name__ != rest[0] or not all(hasattr(value, field) for field in fields):
            raise Different(f"{path} is {errors.a_type(value)}, it was saved for a {rest[0]} of {', '.join(fields)}")
        parts = [(part, getattr(value, field), f"{path}.{field}") for field, part in rest[1]]
    elif kind == "dict":
        keys = [constant_of(key) for key, _ in rest[0]]
        if not isinstance(value, dict) or set(value) != set(keys):
            raise Different(f"{path} is {errors.a_type(value)}, it was saved for a dict of {', '.join(map(repr, keys)) or 'nothing'}")
        parts = [(part, value[key], f"{path}[{key!r}]") for key, (_, part) in zip(keys, rest[0])]
    else:
        if type(value) is not (list if kind == "list" else tuple) or len(value) != len(rest[0]):
            raise Different(f"{path} is {errors.a_type(value)}, it was saved for a {kind} of {len(rest[0])}")
        parts = [(part, one, f"{path}[{i}]") for i, (part, one) in enumerate(zip(rest[0], value))]
    for part, one, inside in parts:
        take(part, one, tensors, variables, inside)
    return None
