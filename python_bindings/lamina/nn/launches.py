"""Several steps of fit as one call: a traced loop over the batches of a longer one, with the bits of single steps."""
from __future__ import annotations

import time

from .. import _core, errors
from .._loops import scan
from .._structure import flatten, unflatten

_SECONDS, _MOST, _BYTES = 0.02, 200, 8 << 20  # of one launch; steps; their batches: more would be memory that is new to the process
_WORTH, _SAVED = 1e-3, 2e-5  # longer steps gain nothing; seconds that a step in a loop saves, at least


class Loop:
    """The traced loop of a step over batches of one size. steps: how many a launch has, once that is chosen; 1: it cannot be traced."""

    def __init__(self, step, size):
        self._step, self._size, self.steps, self.call = step, size, None, _core.function(self._run)

    def _run(self, structure, *leaves):
        batches = tuple(_core.reshape(leaf, (-1, self._size, *leaf.shape[1:])) for leaf in leaves)
        return scan(lambda done, batch: (done + 1, tuple(self._step(*unflatten(structure, batch)))), _core.constant(0), batches)[1]


class Launches:
    """How many steps a launch of one fit has: given, or what an earlier fit on such data chose, or found from the times of the first epoch's single steps.

    loops: the Loops of train_step, by size and data. A model keeps them, so that later fits need not trace again."""

    def __init__(self, train_step, batch_size, feed, wanted, single, loops):
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
            raise errors.InvalidArgument(f"fit: steps_per_launch {errors.shown(wanted)} is not a positive integer", why="so many steps are one traced loop", fix="leave it out: fit finds a number")
        self._step, self._size, joins = train_step, batch_size, feed.can_join and not single
        if joins and wanted != 1:
            key = (batch_size, feed.rows, feed.specs, wanted)
            self._loop, self._whole = loops.get(key) or Loop(train_step, batch_size), feed.rows // batch_size
            loops[key] = self._loop
        self._chooses = joins and wanted is None
        self.steps = wanted if joins and wanted is not None else (self._loop.steps or 1) if self._chooses else 1
        self._open = self._chooses and self._loop.steps is None  # whether the times will tell
        self._times, self._begun, self._bytes = [], self._chooses and self.steps > 1, 1  # begun: the weights and the names of the results exist

    @property
    def rows(self):
        """Of one launch, for Feed.epoch(); None: batches."""
        return self.steps * self._size if self.steps > 1 else None

    def of(self, batch, samples):
        """(loss and metrics, number of samples) of each step on these rows, one after another."""
        if self.steps == 1:
            began = time.perf_counter()
            values = self._step(*batch)
            if self._open and len(self._times) < 32:
                self._times.append(time.perf_counter() - began)
                self._bytes = max(self._bytes, sum(leaf.size * leaf.dtype.itemsize for leaf in flatten(batch)[0]))
            yield values, samples
            return
        begin, (leaves, structure) = 0, flatten(batch)
        columns = self._launched(leaves, structure) if samples >= self.rows and self._begun else None
        if columns is not None:
            losses, *others = (column.numpy() for column in columns)
            for values in zip(losses.tolist(), *(map(_core.constant, column) for column in others)):
                yield values, self._size
            begin = len(losses) * self._size
        for at in range(begin, samples, self._size):
            end = min(at + self._size, samples)
            yield self._step(*unflatten(structure, [leaf[at:end] for leaf in leaves])), end - at
        self._begun = True

    def _launched(self, leaves, structure):
        """The results of the steps of a launch; None where the loop cannot be traced and fit has chosen it."""
        try:
            return self._loop.call(structure, *leaves)
        except errors.ConversionFailed:  # what a layer keeps of a step would be kept once; nothing has run yet
            if not self._chooses:
                raise
            self.steps = self._loop.steps = 1
            return None

    def after_epoch(self, left):
        """Chooses, when an epoch has ended and so many steps are left."""
        if not self._open or len(self._times) < 3:
            return
        self._open, self._begun, step = False, True, sorted(self._times[1:])[len(self._times) // 2]
        if step < _WORTH and left * _SAVED > self._times[0]:
            most = max(2, min(_MOST, int(_SECONDS / step), _BYTES // self._bytes, self._whole))
            self.steps = self._loop.steps = min(range(most, max(most // 2, 1), -1), key=lambda n: self._whole % n)  # few are left over
