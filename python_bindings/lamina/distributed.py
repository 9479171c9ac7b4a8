"""The ranks of a job: processes that mpirun, srun or `python -m lamina launch` has started. A process without a launcher is one rank.

The first call of any function here joins the job. Errors of one rank end all of them, with a report.
"""
from __future__ import annotations

import atexit
import sys

from . import _border, _core, errors
from ._structure import flatten, unflatten

__all__ = ["barrier", "host_all_gather", "host_all_reduce", "host_broadcast", "rank", "set_step", "shard", "size"]

_joined = False


def _join():
    """Starts this rank. From then on an exception that nobody catches ends the job."""
    global _joined
    if not _joined and _core.distributed.size() > 1:
        _joined = True
        shown = sys.excepthook

        def end_the_job(kind, error, traceback):
            shown(kind, error, traceback)
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            _core.distributed.fail(f"{kind.__name__}: {error}")

        sys.excepthook = end_the_job
        atexit.register(_core.distributed.end)  # before others, such as mpi4py, end MPI
    return _core.distributed


def rank() -> int:
    """This process's number in the job, from 0."""
    return _join().rank()


def size() -> int:
    """How many ranks the job has; 1 without a launcher."""
    return _join().size()


def barrier(name: str = "") -> None:
    """Waits until every rank has called it. All ranks must pass the same name."""
    _join().barrier(_text("barrier", name))


def host_all_reduce(x, name: str = "", shards: int | None = None):
    """The sum of the arrays of all ranks, of the same shape and dtype, as a tensor on the CPU; the same bits on every rank.

    With `shards`, the job has that many arrays, of which x stacks this rank's along a new first axis: the first ranks have one more where
    they cannot be split evenly. The sum then has the same bits for any number of ranks up to `shards`. It runs at once, outside of graphs.
    Raises RankMismatch when the ranks' arrays differ in shape or dtype.
    """
    return _join().all_reduce(x, _text("host_all_reduce", name), shards)


def host_all_gather(x, name: str = ""):
    """The arrays of all ranks, stacked along a new first axis, as a tensor on the CPU. It runs at once, outside of graphs."""
    return _join().all_gather(x, _text("host_all_gather", name))


def host_broadcast(x, root: int = 0, name: str = ""):
    """The array of rank `root`, as a tensor on the CPU. Every rank passes an array of that shape and dtype. It runs at once, outside of graphs."""
    return _join().broadcast(x, root, _text("host_broadcast", name))


def set_step(step: int) -> None:
    """Says which step this rank is in, for reports of failures."""
    _join().set_step(step)


class _Shard:
    def __init__(self, batches, shards):
        self._batches, self._shards = batches, shards

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        for batch in self._batches:
            leaves, structure = flatten(batch, is_leaf=lambda value: not isinstance(value, (tuple, dict)))
            rows = {leaf.shape[0] if getattr(leaf, "shape", ()) else None for leaf in leaves}
            if len(rows) != 1 or None in rows:
                raise errors.InvalidArgument("shard: the arrays of a batch have different numbers of rows", why="a batch is cut along the first axis of all its arrays",
                                             fix="batch the dataset first: lm.distributed.shard(data.batch(1024))")
            first, end = _core.distributed.rows_of_rank(rows.pop(), self._shards)
            yield unflatten(structure, [leaf[first:end] for leaf in leaves])


def shard(dataset, shards: int = 8):
    """This rank's rows of each batch of `dataset`, an iterable of arrays or of tuples or dicts of such.

    A batch is cut into `shards` parts, as even as possible, and each rank has some neighbouring ones, so that the same rows meet in the same
    sums for any number of ranks. A small last batch may leave a rank without rows. Every rank must iterate over the same batches: pass a
    seed to shuffle().
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 65536:
        raise errors.InvalidArgument(f"shard: shards {errors.shown(shards)} is not a whole number from 1 to 65536")
    _join()
    if not hasattr(dataset, "__iter__"):
        raise errors.TypeMismatch(f"shard: {errors.a_type(dataset)} has no batches", why="it must be a Dataset or another iterable of batches")
    return _Shard(dataset, shards)


def _text(function, name):
    if not isinstance(name, str):
        raise errors.TypeMismatch(f"{function}: the name is {errors.a_type(name)}", why="names are strings, the same on every rank")
    return name


_border.guard(globals())
