"""Batches for fit, evaluate and predict: from arrays, Datasets and loaders, with weights of samples."""
from __future__ import annotations

import itertools
import math
import numbers
import operator
import time

from .. import _core, errors
from .._structure import flatten, is_data, unflatten
from ..data import Dataset


class Feed:
    """Batches of (inputs, labels, weights or None, number of samples). `singles`: of arrays, the Dataset that `data` is batches of."""

    def __init__(self, what, data, singles=None, steps=None, class_weight=None, numbered=False):
        self.what, self.data, self._singles, self._steps, self._classes, self._numbered = what, data, singles, steps, class_weight, numbered
        self.waited = 0.0  # seconds in this epoch, for what others read; arrays are at hand
        self._open = None  # the loop that goes on in the next epoch

    @property
    def steps(self):
        """Of one epoch; None where only the end will tell."""
        if self._steps is not None:
            return self._steps
        if self.data._core.endless:
            raise errors.InvalidArgument(f"{self.what}: the Dataset never ends", why="an epoch is one loop over it", fix="pass steps_per_epoch, or give repeat() a number of times")
        return self.data._core.size

    @property
    def can_join(self) -> bool:
        """Whether epoch() can give several batches as one."""
        return self._singles is not None and self._steps is None

    @property
    def rows(self) -> int:
        """Of the arrays, if it can join."""
        return self._singles._core.size

    @property
    def specs(self) -> tuple:
        """(shape, dtype) of a row of each array, if it can join."""
        return tuple(self._singles._form.specs)

    def go_on(self):
        """Begins the loop that a checkpoint has put back, so that no other loop over the same data does."""
        if self.data._resumed[1] is not None:
            self._open = iter(self.data)
            self._open.begin()

    def _elements(self, done, data):
        self.waited = 0.0
        for _ in itertools.count() if self._steps is None else range(self._steps - done):
            began = time.perf_counter()
            element = self._next(data)
            if element is None and self._steps is not None:  # the loop was at its end, also one that goes on from a checkpoint
                element = self._next(data)
            if element is None:
                return
            if self._singles is None:
                self.waited += time.perf_counter() - began
            yield element

    def _next(self, data):
        """The next element of the open loop, or of a new one; None at its end."""
        self._open = self._open or iter(data)
        element = next(self._open, None)
        if element is None:
            self._open = None
        return element

    def epoch(self, done: int = 0, joined: int | None = None):
        """The batches of an epoch of which `done` are over. joined: as many rows at a time instead, in the same order."""
        for element in self._elements(done, self.data if joined is None else self._singles.batch(joined)):
            if not (isinstance(element, (tuple, list)) and len(element) in (2, 3)):
                raise errors.InvalidArgument(f"{self.what}: an element of the dataset is not (inputs, labels)", why="or (inputs, labels, weights of the samples)",
                                             fix="make it with Dataset.from_tensor_slices((x, y)).batch(n)")
            inputs, labels, weights = (*element, None)[:3]
            yield inputs, labels, with_classes(self.what, weights, labels, self._classes, self._numbered), flatten(inputs)[0][0].shape[0]


def require_classes(what, class_weight):
    """Checks an argument class_weight."""
    if class_weight is not None and not isinstance(class_weight, dict):
        raise errors.TypeMismatch(f"{what}: class_weight is {errors.a_type(class_weight)}", why="it has the weight of each class", fix="pass {0: 1.0, 1: 5.0}")
    for label, weight in (class_weight or {}).items():
        if not isinstance(label, numbers.Real):
            raise errors.InvalidArgument(f"{what}: class_weight has the class {errors.shown(label)}", why="classes are numbers, as in the labels", fix="pass {0: 1.0, 1: 5.0}")
        if not isinstance(weight, numbers.Real) or not math.isfinite(weight):
            raise errors.InvalidArgument(f"{what}: class_weight of the class {label} is {errors.shown(weight)}", why="it is a finite factor of the class's losses", fix="pass {0: 1.0, 1: 5.0}")


def with_classes(what, weights, labels, class_weight, numbered=False):
    """The samples' weights times the weight of each label's class, 1 for classes that are not named; None where there are neither. numbered: the loss takes labels as numbers of classes, also
    one for each step."""
    if class_weight is None:
        return weights
    import numpy as np

    if isinstance(labels, (tuple, list, dict)):
        raise errors.InvalidArgument(f"{what}: class_weight with several outputs", why="it does not say whose classes", fix="pass sample_weight")
    labels = np.asarray(labels.numpy() if hasattr(labels, "numpy") else labels)
    if labels.ndim > 1:
        if labels.shape[-1] == 1:
            labels = labels[..., 0]
        elif not numbered:
            if (labels < 0).any() or (abs(labels.sum(-1) - 1) > 1e-3).any():
                raise errors.InvalidArgument(f"{what}: class_weight with labels of shape {labels.shape} that are no one-hot rows", why="each row of labels says one class", fix="pass sample_weight, of the labels' shape or [n], instead")
            labels = labels.argmax(-1)
    of_classes = np.ones(labels.shape, "float32")
    for label, weight in class_weight.items():
        of_classes[labels == label] = weight
    of_classes = _core.constant(of_classes)
    if weights is None:
        return of_classes
    weights = _core.astype(weights, "float32")
    if len(weights.shape) != len(of_classes.shape):  # [n] or [n, 1], of each sample
        weights = _core.reshape(weights, (-1, *[1] * (len(of_classes.shape) - 1)))
    return weights * of_classes


def inputs_of(element):
    """x of (x,), (x, y) and (x, y, weights); anything else unchanged."""
    if not isinstance(element, tuple):
        return element
    if not 1 <= len(element) <= 3:
        raise errors.InvalidArgument(f"predict: an element of the dataset is a tuple of {len(element)}",
                                     why="it is inputs, (inputs, labels) or (inputs, labels, weights)",
                                     fix="several inputs of a model are a tuple in front: ((a, b), labels), or a dict")
    return element[0]


def as_arrays(batch):
    """A batch as ops take arrays: its tensors get the dtype of the tensors of their kind that they meet."""
    leaves, structure = flatten(batch)
    return unflatten(structure, [_core._as_array(leaf) if isinstance(leaf, _core.Tensor) else leaf for leaf in leaves])


def loaded(x):
    """PyTorch's DataLoader, and what is like it, as a Dataset; anything else unchanged."""
    if isinstance(x, (Dataset, tuple, list, dict, str)) or not hasattr(x, "__iter__") or hasattr(x, "shape"):
        return x
    return Dataset.from_generator(x)


def made_feed(what, x, y, batch_size, shuffle, weights=None, class_weight=None, steps=None, numbered=False):
    """The Feed of what fit or evaluate was given."""
    if steps is not None:
        errors.in_range(what, "it is a number of batches; left out it is one loop over the data", 1, **{"steps_per_epoch" if what == "fit" else "steps": steps})
        steps = operator.index(steps)
    require_classes(what, class_weight)
    x = loaded(x) if y is None else x
    if isinstance(x, Dataset):
        for name, value in (("y", y), ("sample_weight", weights)):
            if value is not None:
                raise errors.InvalidArgument(f"{what}: {name} is given beside a Dataset", why="the elements of a Dataset have all that belongs to a sample", fix="put it into the Dataset: from_tensor_slices((x, y)) or ((x, y, weights))")
        return Feed(what, x, None, steps, class_weight, numbered)
    if y is None:
        raise errors.InvalidArgument(f"{what}: there are no labels", why="a loss compares outputs with labels", fix="pass y, or a Dataset of (inputs, labels)")
    errors.in_range(what, "it is the number of rows of a batch", 1, batch_size=batch_size)
    rows = {name: _rows(value) for name, value in (("x", x), ("y", y), ("sample_weight", weights))}
    for name, value in (("x", x), ("y", y), ("sample_weight", weights)):
        require_rows(what, name, value)
        _require_numbers(what, name, value)
    if len(set(rows.values()) - {None}) > 1:
        raise errors.InvalidArgument(f"{what}: {' and '.join(f'{name} has {n} rows' for name, n in rows.items() if n is not None)}", why="row i of each belongs to sample i", fix="pass as many of each")
    data = Dataset.from_tensor_slices(tuple(_arrays(part) for part in ((x, y) if weights is None else (x, y, weights))))
    singles = data.shuffle() if shuffle else data
    return Feed(what, singles.batch(batch_size), singles, steps, class_weight, numbered)


def require_rows(what, name, value):
    if isinstance(value, (bool, int, float)) or getattr(value, "shape", None) == ():
        raise errors.InvalidArgument(f"{what}: {name} is one number", why="it has a row for each sample", fix="pass an array or a tensor with rows")
    if isinstance(value, (tuple, dict)) and not flatten(value)[0]:
        raise errors.InvalidArgument(f"{what}: {name} is {errors.a_type(value)} of nothing", why="it has a row for each sample", fix="pass an array or a tensor with rows")


def _require_numbers(what, name, frame):
    """Checks that a DataFrame of pandas becomes an array of numbers."""
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        return
    dtypes = list(frame.dtypes)
    for column, dtype in zip(frame.columns, dtypes):
        if dtype.kind not in "biuf":
            raise errors.TypeMismatch(f"{what}: column '{column}' of {name} has dtype {dtype}", why="rows are numbers", fix="turn it into numbers, or drop the column")
    if len({dtype.kind == "b" for dtype in dtypes}) > 1:
        raise errors.TypeMismatch(f"{what}: {name} has columns of bools and of numbers", why="NumPy has no array of both", fix=f'pass {name}.astype("float32")')


def no_data(what):
    return errors.InvalidArgument(f"{what}: there is no data", why="the arrays, or the Dataset, have no rows", fix="pass at least one row")


def require_pair(what, data):
    """Checks an argument validation_data."""
    if data is None or isinstance(data, Dataset):
        return
    if isinstance(data, (tuple, list)) and len(data) in (2, 3):
        if _rows(data[0]) == 0:
            raise no_data(f"{what}'s validation_data")
        return
    if not hasattr(data, "__iter__") or hasattr(data, "shape") or isinstance(data, (tuple, list, dict, str)):
        raise errors.TypeMismatch(f"{what}: validation_data is {errors.shown(data)}", why="it is (x, y), (x, y, weights) or a Dataset", fix="pass validation_data=(x_test, y_test)")


def _rows(value):
    """The number of rows of an array, or of the first of several; None where it is not known."""
    value = _arrays(value)
    while isinstance(value, (tuple, dict)) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    shape = getattr(value, "shape", None)
    return len(value) if isinstance(value, list) else shape[0] if shape else None


def _arrays(value):
    """Several inputs or outputs may be in a list."""
    several = isinstance(value, list) and len(value) > 0 and all(hasattr(part, "shape") for part in value)
    return tuple(value) if several else value


def cut(share, *arrays):
    """(the first rows of each, the last `share` of them)."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise errors.InvalidArgument(f"fit: validation_split {errors.shown(share)}", why="it is the share of the last rows", fix="pass a number between 0 and 1")
    leaves, structure = flatten(tuple(_arrays(a) for a in arrays), is_leaf=is_data)
    if any(not hasattr(leaf, "shape") and not isinstance(leaf, list) and leaf is not None for leaf in leaves) or isinstance(arrays[0], Dataset):
        raise errors.InvalidArgument("fit: validation_split needs arrays", why="it takes the last rows", fix="use random_split of the Dataset, and validation_data")
    at = int(len(leaves[0]) * (1 - share))
    if at == 0 or at == len(leaves[0]):
        raise errors.InvalidArgument(f"fit: validation_split {share} of {len(leaves[0])} rows leaves no rows to one side", fix="pass another share, or validation_data")
    return [unflatten(structure, [None if leaf is None else leaf[part] for leaf in leaves]) for part in (slice(0, at), slice(at, None))]
