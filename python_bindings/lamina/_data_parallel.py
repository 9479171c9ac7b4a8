"""data_parallel: arguments and results of a function that is cut by rows; the graph is cut in C++ (graph/passes/cut_rows.h)."""
from __future__ import annotations

import functools

from . import _border, _core, errors
from ._callee import callee
from .vmap import _fill, _Given, _map, _Result


class DataParallel:
    """A function of a whole batch as one of each rank's rows; see lm.distributed.data_parallel."""

    def __init__(self, fn, shards, in_axes, devices, buckets, reproducible, join):
        self._fn, self._shards, self._in_axes, self._devices, self._buckets, self._join = fn, shards, in_axes, devices, buckets, join
        self._reproducible = reproducible
        self._name = getattr(fn, "__name__", None) or type(fn).__name__
        self._notes = []
        functools.update_wrapper(self, fn, updated=())
        from . import function

        def whole_batch(rows, args, kwargs):
            return self._whole_batch(rows, args, kwargs)

        whole_batch.__name__ = self._name
        self._function = function(whole_batch)

    def _given(self, args, kwargs):
        """The structure of the arguments and the tensors in it, with axes; in one structure, for the traced function."""
        if isinstance(self._in_axes, (tuple, list)) and len(self._in_axes) != len(args):
            raise errors.InvalidArgument(f"{self._name}: in_axes has {len(self._in_axes)} entries, the function was given {len(args)} arguments",
                                         why="there is one for each positional argument", fix="pass one per argument, or one for all of them")
        each = list(self._in_axes) if isinstance(self._in_axes, (tuple, list)) else [self._in_axes] * len(args)
        given = _Given()

        def take(value, axis, path):
            if isinstance(value, _core.Variable) or not getattr(value, "shape", None):
                axis = None  # the same on every rank
            return given.take_by_name(value, axis, path)

        values = [_map(value, axes, f"argument {i}", "in_axes", take) for i, (value, axes) in enumerate(zip(args, each))]
        named = {key: _map(value, 0, key, "in_axes", take) for key, value in kwargs.items()}
        return given, values, named

    def _rows(self, given):
        return self._join().rows_of_batch(self._name, given.tensors, given.axes, given.names, self._shards, self._buckets, self._devices)

    def __call__(self, *args, **kwargs):
        return self._function(self._rows(self._given(args, kwargs)[0]), args, kwargs)

    def _whole_batch(self, rows, args, kwargs):
        given, values, named = self._given(args, kwargs)
        result = _Result()

        def body(tensors):
            whole = callee(self._fn)(*[_fill(value, tensors) for value in values], **{key: _fill(value, tensors) for key, value in named.items()})
            result.structure = _map(whole, None, "the result", "", result.take)
            return result.tensors

        tensors, self._notes = self._join().call_by_rows(self._name, given.tensors, given.axes, given.names, rows, self._shards, self._buckets, self._devices,
                                                         self._reproducible, body)
        return _fill(result.structure, tensors)

    def explain(self, *args, **kwargs) -> str:
        """How a call of these arguments runs: the batch, its ranks, and the ops for which rows are gathered; then the graph and its kernels."""
        rows = self._rows(self._given(args, kwargs)[0])
        text = str(self._function.explain(rows, args, kwargs))
        size = self._join().size()
        on = ", ".join(self._devices) if self._devices else f"{size} rank" + "s" * (size > 1)
        lines = [f"data parallel: {rows} rows in {self._shards} shards on {on}"]
        if not self._reproducible:
            lines.append("sums between ranks are the library's (reproducible=False): their bits depend on the number of ranks")
        for op, value, line in self._notes:
            lines.append(f"rows are gathered for {op}, {value}" + (f" ({line})" if line else "") + ": it mixes rows")
        return "\n".join(lines) + "\n\n" + text

    def __repr__(self):
        return f"<lm.distributed.data_parallel of {self._name}, {self.trace_count} graph{'s' * (self.trace_count != 1)}>"

    @property
    def trace_count(self) -> int:
        """How many graphs have been traced: one per signature and number of rows."""
        return self._function.trace_count


_border.guard(globals())
