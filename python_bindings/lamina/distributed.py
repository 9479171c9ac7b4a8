"""The ranks of a job: processes that mpirun, srun or `python -m lamina launch` has started. A process without a launcher is one rank.

The first call of any function here joins the job. Errors of one rank end all of them, with a report.
"""
from __future__ import annotations

import atexit
import json
import sys

from . import _border, _core, errors
from ._data_parallel import DataParallel
from ._structure import flatten, is_data, unflatten

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast", "data_parallel", "host_all_gather", "host_all_reduce", "host_broadcast", "rank", "reduce_scatter", "send_receive",
           "set_step", "shard", "size"]

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
    _join().barrier(name)


def all_reduce(x, shards: int | None = None, name: str = ""):
    """The sum of all ranks' x, a tensor of any shape, with the same bits on every rank; eager, and an op of traced functions.

    With `shards`, the job has that many arrays, of which x stacks this rank's along its first axis, as in host_all_reduce. All ranks call the
    same collectives in the same order, also inside loops and branches, and pass the same name. Its gradient is that of the sum of all ranks'
    targets. Raises RankMismatch when the ranks' calls differ.
    """
    return _join().graph_all_reduce(x, shards if shards is None else _shards("all_reduce", shards), name)


def all_gather(x, name: str = ""):
    """All ranks' x, of one shape, stacked along a new first axis; eager and traced, with gradients (see all_reduce)."""
    return _join().graph_all_gather(x, name)


def reduce_scatter(x, shards: int | None = None, name: str = ""):
    """This rank's part of the sum of all ranks' x: the first axis [n, ...] becomes [n / size(), ...]; eager and traced, with gradients.

    `shards` as in all_reduce; n is then the second axis. Raises InvalidArgument when n is no multiple of the number of ranks.
    """
    return _join().graph_reduce_scatter(x, shards if shards is None else _shards("reduce_scatter", shards), name)


def broadcast(x, root: int = 0, name: str = ""):
    """Rank root's x, of the same shape and dtype on every rank; eager and traced, with gradients (see all_reduce)."""
    if not errors.is_whole(root):
        raise errors.TypeMismatch(f"broadcast: root {errors.shown(root)} is no rank", why="ranks are whole numbers from 0", fix="pass 0, or the number of the rank that has the value")
    return _join().graph_broadcast(x, int(root), name)


def send_receive(x, routes, name: str = ""):
    """The x that is sent to this rank, zeros if none is; eager and traced, with gradients (see all_reduce).

    routes: pairs of ranks (from, to), the same on every rank; a rank sends at most once and receives at most once.
    """
    pairs = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair,) for pair in (routes if isinstance(routes, (tuple, list)) else (routes,))]
    if any(len(pair) != 2 or not all(errors.is_whole(rank) for rank in pair) for pair in pairs):
        raise errors.TypeMismatch(f"send_receive: the routes {errors.shown(routes)} are not pairs of ranks", why="a route is from one rank to another", fix="pass a list such as [(0, 1)]")
    return _join().graph_send_receive(x, [(int(a), int(b)) for a, b in pairs], name)


def host_all_reduce(x, name: str = "", shards: int | None = None):
    """The sum of the arrays of all ranks, of the same shape and dtype, as a tensor on the CPU; the same bits on every rank.

    With `shards`, the job has that many arrays, of which x stacks this rank's along a new first axis: the first ranks have one more where
    they cannot be split evenly. The sum then has the same bits for any number of ranks up to `shards`. It runs at once, outside of graphs.
    Raises RankMismatch when the ranks' arrays differ in shape or dtype.
    """
    return _join().all_reduce(x, name, shards)


def host_all_gather(x, name: str = ""):
    """The arrays of all ranks, stacked along a new first axis, as a tensor on the CPU. It runs at once, outside of graphs."""
    return _join().all_gather(x, name)


def host_broadcast(x, root: int = 0, name: str = ""):
    """The array of rank `root`, as a tensor on the CPU. Every rank passes an array of that shape and dtype. It runs at once, outside of graphs."""
    return _join().broadcast(x, root, name)


def data_parallel(step=None, shards: int = 8, in_axes=0, devices=None, buckets: int | None = None, reproducible: bool = True):
    """step, a function of a whole batch, as a function of each rank's rows that means the same: losses, metrics, gradients, batch statistics
    and dropout are those of the whole batch, with the same bits for any number of ranks up to `shards`.

    Each rank calls it with its rows, as `shard` with the same `shards` gives them, along axis 0 of all tensors among the arguments. in_axes:
    another axis, or None for arguments that are the same on every rank; one for all positional arguments or one for each, as in lm.vmap.
    Numbers and Variables are the same on every rank: create Variables with one seed. Results without rows are the same on every rank;
    results with rows are this rank's rows. The gradient is taken inside of step: with several ranks, a tape outside is an error.

    devices: in one process, names of devices with a replica each, such as ["cpu:0", "cpu:1"] (lm.config.set_virtual_devices); arguments and
    results are then whole batches, and the bits those of ranks.

    buckets: into how many parts the gradients are put; each is exchanged as soon as the backward pass has made it, while the pass goes on. By
    default rank 0's model of costs chooses; on CPUs whose cores all compute that is one.

    reproducible: False lets MPI_Allreduce or ncclAllReduce add the ranks' sums, so that the bits depend on the number of ranks and the library.

    Without step it is a decorator with these options: @lm.distributed.data_parallel(shards=16).

    The step is traced (lm.function) for each number of rows. Its graph is cut by rows: sums and means over rows are added in a fixed tree over
    the shards; ops that mix rows otherwise, such as a sort along the batch, get all rows, and `data_parallel(step).explain(...)` lists them.
    Without a launcher it runs on one rank with the same results. Raises RankMismatch on every rank when the ranks trace different graphs or a
    rank's rows are not its part of the batch, and InvalidArgument for more ranks than shards.
    """
    if step is not None and not callable(step):
        raise errors.TypeMismatch(f"data_parallel: {errors.a_type(step)} cannot be called", why="what is run on each part of a batch is a function", fix="pass a function or a callable object")
    if devices is not None and not (isinstance(devices, (tuple, list)) and devices and all(isinstance(device, str) for device in devices)):
        raise errors.TypeMismatch(f"data_parallel: devices is {errors.shown(devices)}, which names no devices", fix='pass a list such as ["cpu:0", "cpu:1"]')
    if buckets is not None and not (errors.is_whole(buckets) and 1 <= buckets <= 4096):
        raise errors.InvalidArgument(f"data_parallel: buckets {errors.shown(buckets)} is not a whole number from 1 to 4096", fix="leave it out: the model of costs then chooses")
    options = _shards("data_parallel", shards), in_axes, list(devices or ()), int(buckets or 0), reproducible
    return DataParallel(step, *options) if step is not None else lambda step: data_parallel(step, options[0], in_axes, devices, buckets, reproducible)


def set_step(step: int) -> None:
    """Says which step this rank is in, for reports of failures."""
    _join().set_step(step)


def _is_array(value):
    return is_data(value) and not _is_list_of_arrays(value)


class _Shard:
    def __init__(self, batches, shards):
        self._batches, self._shards = batches, shards

    def __len__(self):
        return len(self._batches)

    def _position(self):  # for lm.Checkpoint; it is the same for any number of ranks
        return self._batches._position()

    def _go_to(self, *position):
        self._batches._go_to(*position)

    def __iter__(self):
        for batch in self._batches:
            leaves, structure = flatten(batch, is_leaf=_is_array)
            rows = {leaf.shape[0] if getattr(leaf, "shape", ()) else None for leaf in leaves if leaf is not None}
            if len(rows) != 1 or None in rows:
                raise errors.InvalidArgument("shard: the arrays of a batch have different numbers of rows", why="a batch is cut along the first axis of all its arrays",
                                             fix="batch the dataset first: lm.distributed.shard(data.batch(1024))")
            first, end = _core.distributed.rows_of_rank(rows.pop(), self._shards)
            yield unflatten(structure, [None if leaf is None else leaf[first:end] for leaf in leaves])


def shard(dataset, shards: int = 8):
    """This rank's rows of each batch of `dataset`, an iterable of arrays or of tuples, lists or dicts of such, or of None.

    A batch is cut into `shards` parts, as even as possible, and each rank has some neighbouring ones, so that the same rows meet in the same
    sums for any number of ranks. A small last batch may leave a rank without rows. Every rank must iterate over the same batches: pass a
    seed to shuffle().
    """
    shards = _shards("shard", shards)
    _join()
    if not hasattr(dataset, "__iter__"):
        raise errors.TypeMismatch(f"shard: {errors.a_type(dataset)} has no batches", why="each batch is cut into the rows of the ranks", fix="pass a lm.data.Dataset or another iterable of batches")
    return _Shard(dataset, shards)


def _on_rank_0(call, name, warn=None):
    """What `call` returns on rank 0, on every rank: (what JSON can hold, {name: Tensor}). Its error of Lamina is raised on every rank, and the texts that it
    gave to its argument, a function, are given to `warn` on every rank."""
    ranks, said = _join(), []
    if ranks.size() == 1:
        out = call(said.append)
        for text in said:
            warn(text)
        return out
    import numpy as np  # here: import lamina does without it

    tensors = {}
    if ranks.rank() == 0:
        head = {}
        try:
            head["value"], tensors = call(said.append)
        except errors.Error as error:
            head["error"] = [type(error).__name__, error.what, error.where, error.why, error.fix]
        head |= {"said": said, "tensors": [[key, str(value.dtype), list(value.shape)] for key, value in tensors.items()]}
        text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    length = int(ranks.broadcast(np.int64(text.size if ranks.rank() == 0 else 0), 0, name).numpy())
    text = ranks.broadcast(text if ranks.rank() == 0 else np.zeros(length, np.uint8), 0, name)
    head = json.loads(text.numpy().tobytes())
    for said in head["said"]:
        warn(said)
    if "error" in head:
        kind, *parts = head["error"]
        raise getattr(errors, kind)(*parts)
    return head["value"], {key: ranks.broadcast(tensors[key] if ranks.rank() == 0 else _core.zeros(shape, dtype), 0, f"{name}: {key}")
                           for key, dtype, shape in head["tensors"]}


_ALIKE = "call lm.random.set_seed with the same seed on every rank"


def _require_same(function, values, name, why="one file is for all ranks, so all must have the same state", fix=f"{_ALIKE}, and update from sums over ranks: lm.distributed.host_all_reduce"):
    """Raises on every rank if the tensors or bytes, a dict, are not the same on all ranks."""
    ranks = _join()
    import numpy as np

    own = np.array([ranks.checksum(np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value) for value in values.values()], np.uint32).view(np.int32)
    all_sums = ranks.all_gather(own, name).numpy()
    for key, column in zip(values, all_sums.T):
        if (column != column[0]).any():
            other = [str(rank) for rank in range(1, len(column)) if column[rank] != column[0]]
            raise errors.RankMismatch(f"{function}: '{key}' differs between rank 0 and rank{'s' * (len(other) > 1)} {', '.join(other)}", why=why, fix=fix)


def _require_same_fit(function):
    """Before a fit of all ranks: they draw the same numbers."""
    _require_same(function, {"the state of lm.random": repr(_core.random.get_state()).encode()}, function, "all ranks draw what one would: the order of rows, dropout", _ALIKE)


def _on_any_rank(flag, name) -> bool:
    """Whether it is true on one of the ranks, which all ask together."""
    ranks = _join()
    if ranks.size() == 1:
        return bool(flag)
    import numpy as np

    return bool(ranks.all_gather(np.array([flag], np.uint8), name).numpy().any())


def _rows_of_fit(function, batch, first):
    """This rank's rows of a batch that all ranks have. first: of an epoch; it is compared."""
    if first and _join().size() > 1:
        leaves = flatten(batch, is_leaf=_is_array)[0]
        _require_same(function, {f"array {i} of an epoch's first batch": leaf for i, leaf in enumerate(leaves) if leaf is not None}, function,
                      "every rank calls it with all of the data, and takes its rows of each batch", "pass the same data on every rank; where each has a part of its own, write a loop around lm.distributed.data_parallel")
    return next(iter(shard([batch])))


def _is_list_of_arrays(value) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(part is None or hasattr(part, "shape") for part in value)


def _shards(function, shards):
    if not (errors.is_whole(shards) and 1 <= shards <= 65536):
        raise errors.InvalidArgument(f"{function}: shards {errors.shown(shards)} is not a whole number from 1 to 65536", why="a batch is cut into as many parts, whatever the number of ranks",
                                     fix="leave it out, or pass a multiple of the number of ranks")
    return int(shards)


_border.guard(globals())
