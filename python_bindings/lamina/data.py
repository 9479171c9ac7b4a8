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

    def __init__(self, core, structure, rows, specs=()):
        if type(core) is not _core.data.Dataset:
            raise errors.TypeMismatch(f"Dataset: {errors.a_type(core)} is no source of rows", why="a Dataset is made of arrays", fix="call lm.data.Dataset.from_tensor_slices")
        self._core, self._structure, self._rows, self._specs = core, structure, rows, specs  # specs: (shape, dtype) of each part of an element
        self._passes, self._taken, self._skip, self._repeats = 0, None, 0, False  # passes begun; elements taken of the last one, None after its end

    @classmethod
    def from_tensor_slices(cls, tensors) -> Dataset:
        """One element per row of the first axis. `tensors` is an array, a tensor, nested lists of numbers, or a tuple or dict of such
        (nested arbitrarily), all with the same number of rows; elements have the same structure. Raises InvalidArgument when the
        numbers of rows differ.
        """
        leaves, structure = flatten(tensors, is_leaf=lambda value: not isinstance(value, (tuple, dict)))
        leaves = [_core.constant(leaf) for leaf in leaves]
        return cls(_core.data.Dataset.from_tensor_slices(leaves), structure, leaves[0].shape[0],
                   [(tuple(leaf.shape)[1:], leaf.dtype) for leaf in leaves])

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Joins `batch_size` elements along a new first axis; the last batch may be smaller unless it is dropped."""
        made = self._with(self._core.batch(_count("batch_size", batch_size), drop_remainder))
        made._specs = [((None, *shape), dtype) for shape, dtype in self._specs]
        return made

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, different in each loop: each is drawn from the next buffer_size elements, by default from all. All
        orders follow from the seed, by default lm.random.set_seed's. Shuffle before batch() to mix rows, after it to mix whole batches."""
        window = max(len(self), 1) if buffer_size is None else _count("buffer_size", buffer_size)
        return self._with(self._core.shuffle(window, None if seed is None else seed % 2**64))

    def repeat(self, count: int | None = None) -> Dataset:
        """Several loops in one; without a number it never ends."""
        made = self._with(self._core.repeat(None if count is None else _count("count", count)))
        made._repeats = True
        return made

    def _with(self, core) -> Dataset:
        made = Dataset(core, self._structure, self._rows, self._specs)
        made._repeats = self._repeats
        return made

    def __len__(self) -> int:
        size = self._core.size
        if size is None:
            raise errors.TypeMismatch("a Dataset that repeats for ever has no length")
        return size

    def __iter__(self):
        structure = self._structure
        for tensors in self._elements():
            if structure.is_leaf:
                yield tensors[0]
            elif structure.kind is tuple and all(child.is_leaf for child in structure.children):
                yield tuple(tensors)
            else:
                yield unflatten(structure, tensors)

    def _elements(self):
        skip, self._skip = self._skip, 0
        self._passes, self._taken = self._passes + 1, 0
        this = self._passes
        for taken, tensors in enumerate(self._core, 1):
            if self._passes == this:  # no later loop has begun
                self._taken = taken
            if taken > skip:
                yield tensors
        if self._passes == this:
            self._taken = None

    def _position(self) -> list:
        """Where the last loop is, for _go_to(), or where the next one will be after it."""
        return [self._passes + 1, self._skip] if self._skip else [self._passes, self._taken]

    def _go_to(self, passes: int, taken: int | None) -> None:
        """The next loop goes on where a Dataset that was made in the same way was at _position()."""
        whole = passes - (taken is not None)
        if self._passes > whole:
            raise errors.InvalidArgument("Checkpoint: the Dataset was looped over before", why="the orders of its loops follow one another",
                                         fix="restore before the first loop, with a Dataset made as in the run that was saved")
        for _ in range(self._passes, whole):
            elements = iter(self._core)  # begins a pass: a shuffle counts them
            if self._repeats:  # the passes inside of it begin as it goes
                for _ in elements:
                    pass
        self._passes, self._taken, self._skip = whole, None, taken or 0

    def __repr__(self) -> str:
        return f"<lm.data.Dataset of {'endless' if self._core.size is None else self._core.size} elements>"


def _count(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise errors.InvalidArgument(f"Dataset: {name} {errors.shown(value)} is not a positive integer")
    return value


_border.guard(globals())
