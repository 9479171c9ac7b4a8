"""Data: reading files and feeding batches."""
from __future__ import annotations

import os

from . import _border, _core, errors
from ._structure import flatten, unflatten

__all__ = ["Dataset", "read_idx"]


def read_idx(path):
    """The array in an IDX file (the format of MNIST), plain or gzipped, as a NumPy array of the file's shape and dtype.

    Raises lm.errors.BadFile for a file that is damaged, cut short or something else, and for one that cannot be opened.
    """
    return _core.data.read_idx(os.fspath(path))


class Dataset:
    """Rows of arrays as a sequence of tensors; every loop over it starts again.

    Create it by from_tensor_slices; batch, shuffle and repeat return a new Dataset.
    """

    def __init__(self, core, structure, rows):
        if type(core) is not _core.data.Dataset:
            raise errors.TypeMismatch(f"Dataset: {errors.a_type(core)} is no source of rows", why="a Dataset is made of arrays", fix="call lm.data.Dataset.from_tensor_slices")
        self._core, self._structure, self._rows = core, structure, rows

    @classmethod
    def from_tensor_slices(cls, tensors) -> Dataset:
        """One element per row of the first axis. `tensors` is an array, a tensor, nested lists of numbers, or a tuple or dict of such
        (nested arbitrarily), all with the same number of rows; elements have the same structure. Raises InvalidArgument when the
        numbers of rows differ.
        """
        leaves, structure = flatten(tensors, is_leaf=lambda value: not isinstance(value, (tuple, dict)))
        leaves = [_core.constant(leaf) for leaf in leaves]
        return cls(_core.data.Dataset.from_tensor_slices(leaves), structure, leaves[0].shape[0])

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Joins `batch_size` elements along a new first axis; the last batch may be smaller unless it is dropped."""
        return self._with(self._core.batch(_count("batch_size", batch_size), drop_remainder))

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, different in each loop: each is drawn from the next buffer_size elements, by default from all. All
        orders follow from the seed, by default lm.random.set_seed's. Shuffle before batch() to mix rows, after it to mix whole batches."""
        window = max(len(self), 1) if buffer_size is None else _count("buffer_size", buffer_size)
        return self._with(self._core.shuffle(window, None if seed is None else seed % 2**64))

    def repeat(self, count: int | None = None) -> Dataset:
        """Several loops in one; without a number it never ends."""
        return self._with(self._core.repeat(None if count is None else _count("count", count)))

    def _with(self, core) -> Dataset:
        return Dataset(core, self._structure, self._rows)

    def __len__(self) -> int:
        size = self._core.size
        if size is None:
            raise errors.TypeMismatch("a Dataset that repeats for ever has no length")
        return size

    def __iter__(self):
        structure = self._structure
        if structure.is_leaf:
            for (tensor,) in self._core:
                yield tensor
        elif structure.kind is tuple and all(child.is_leaf for child in structure.children):
            for tensors in self._core:
                yield tuple(tensors)
        else:
            for tensors in self._core:
                yield unflatten(structure, tensors)

    def __repr__(self) -> str:
        return f"<lm.data.Dataset of {'endless' if self._core.size is None else self._core.size} elements>"


def _count(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise errors.InvalidArgument(f"Dataset: {name} {errors.shown(value)} is not a positive integer")
    return value


_border.guard(globals())
