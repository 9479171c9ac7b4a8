"""Sequences, which are lists of values in the interpreter, and optional values, which may be None."""
from __future__ import annotations

import math

import numpy as np

from .. import _core as lm
from ._shapes import axis_of, cut, parts_of
from ._table import op
from ._tensors import shape_of


@op("SequenceConstruct", raw=True)
def sequence_construct(n, *values):
    return list(values)


@op("SequenceEmpty")
def sequence_empty(n):
    return []


def place(n, values, position, end):
    index = n.known(position)
    if index is None:
        return end
    index = int(index.reshape(()))
    if not -len(values) <= index <= len(values):
        raise n.refuse(f"the index {index} is none of a sequence of {len(values)}")
    return index + len(values) if index < 0 else index


@op("SequenceInsert", fixed=(2,), raw=True)
def sequence_insert(n, values, value, _=None):
    i = place(n, values, 2, len(values))
    return values[:i] + [value] + values[i:]


@op("SequenceErase", fixed=(1,), raw=True)
def sequence_erase(n, values, _=None):
    i = place(n, values, 1, len(values) - 1)
    return values[:i] + values[i + 1:]


@op("SequenceAt", fixed=(1,), raw=True)
def sequence_at(n, values, _):
    return values[place(n, values, 1, 0)]


@op("SequenceLength", raw=True)
def sequence_length(n, values):
    return np.array(len(values), np.int64)


@op("ConcatFromSequence")
def concat_from_sequence(n, values):
    axis = n.attr("axis")
    if n.attr("new_axis", 0):
        return lm.stack(values, axis)
    return lm.concat(values, axis_of(n, axis, values[0].ndim))


@op("SplitToSequence", fixed=(1,))
def split_to_sequence(n, x, _=None):
    axis, lengths = axis_of(n, n.attr("axis", 0), x.ndim), n.known(1)
    length = shape_of(x)[axis]
    if lengths is None:
        parts = list(parts_of(x, axis, [1] * length))
        return parts if n.attr("keepdims", 1) else [lm.squeeze(p, axis) for p in parts]
    if lengths.ndim == 0:
        each = int(lengths)
        if each <= 0:
            raise n.refuse(f"parts of length {each}")
        return [cut(x, axis, i * each, min((i + 1) * each, length)) for i in range(math.ceil(length / each))]
    return list(parts_of(x, axis, [int(v) for v in lengths]))


@op("Optional", raw=True)
def optional(n, x=None):
    return x


@op("OptionalGetElement", raw=True)
def optional_get_element(n, x):
    if x is None:
        raise n.refuse("the optional value is not there")
    return x


@op("OptionalHasElement", raw=True)
def optional_has_element(n, x=None):
    return np.array(x is not None)


@op("SequenceMap", raw=True)
def sequence_map(n, values, *others):
    body = n.attr("body")
    rows = []
    for i, value in enumerate(values):
        rows.append(n.run(body, [value, *(o[i] if isinstance(o, list) else o for o in others)]))
    return tuple([row[k] for row in rows] for k in range(len(body.output)))
