"""Several steps of fit as one call: a traced loop over the batches of a longer one, with the bits of single steps."""
from __future__ import annotations

import time

from .. import _core, errors
from .._loops import scan
from .._structure import flatten, unflatten

_SECONDS, _MOST, _BYTES = 0.02, 200, 8 << 20  # of one launch; steps; their batches: more would be memory that is new to the process
_WORTH, _SAVED = 1e-3, 2e-5  # longer steps gain nothing; seconds that a step in a loop saves, at least


class Launches:
    """How many steps a launch has: given, or found from the times of the first epoch's single steps."""

    def __init__(self, train_step, batch_size, feed, wanted, single):
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
            raise errors.InvalidArgument(f"fit: steps_per_launch {errors.shown(wanted)} is not a positive integer", why="so many steps are one traced loop", fix="leave it out: fit finds a number")
        self._step, self._size = train_step, batch_size
        joins = feed.can_join and not single
        self.steps = wanted if joins and wanted is not None else 1
        self._open = self._chosen = joins and wanted is None  # whether the times will tell; whether they did
        self._loop, self._times, self._begun, self._bytes = _core.function(self._run), [], False, 1

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
            for i, loss in enumerate(losses):
                yield (loss, *(_core.constant(column[i]) for column in others)), self._size
            begin = len(losses) * self._size
        for at in range(begin, samples, self._size):
            end = min(at + self._size, samples)
            yield self._step(*unflatten(structure, [leaf[at:end] for leaf in leaves])), end - at
        self._begun = True  # the weights and the names of the results exist

    def _launched(self, leaves, structure):
        """The results of the steps of a launch; None where the loop cannot be traced and fit has chosen it."""
        try:
            return self._loop(structure, *leaves)
        except errors.ConversionFailed:  # what a layer keeps of a step would be kept once; nothing has run yet
            if not self._chosen:
                raise
            self.steps = 1
            return None

    def _run(self, structure, *leaves):
        batches = tuple(_core.reshape(leaf, (-1, self._size, *leaf.shape[1:])) for leaf in leaves)
        return scan(lambda done, batch: (done + 1, tuple(self._step(*unflatten(structure, batch)))), _core.constant(0), batches)[1]

    def after_epoch(self, steps, left):
        """Chooses, when an epoch of so many steps has ended and so many are left."""
        if not self._open or len(self._times) < 3:
            return
        self._open, self._begun, step = False, True, sorted(self._times[1:])[len(self._times) // 2]
        if step < _WORTH and left * _SAVED > self._times[0]:
            most = max(2, min(_MOST, int(_SECONDS / step), _BYTES // self._bytes, steps))
            self.steps = min(range(most, max(most // 2, 1), -1), key=lambda n: steps % n)  # few are left over
