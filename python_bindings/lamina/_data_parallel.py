"""data_parallel: arguments and results of a function that is cut by rows; the graph is cut in C++ (graph/passes/cut_rows.h)."""
from __future__ import annotations

import functools
import types
import weakref

from . import _border, _core, errors
from ._callee import callee
from .vmap import _fill, _Given, _map, _parameter_names, _Result


_notes = weakref.WeakKeyDictionary()  # DataParallel -> the ops for which its last trace gathers rows. Not an attribute: a trace changes nothing that a loop around it would carry


def _join():
    from . import distributed  # here: it imports this module

    return distributed._join()


class DataParallel:
    """A function of a whole batch as one of each rank's rows; see lm.distributed.data_parallel."""

    def __init__(self, fn, shards, in_axes, devices, buckets, reproducible):
        self._options = shards, in_axes, devices, buckets, reproducible
        self._fn, self._shards, self._in_axes, self._devices, self._buckets, self._reproducible = fn, *self._options
        self._name = getattr(fn, "__name__", None) or type(fn).__name__
        self._attribute = None  # of a class, if it decorates a method
        functools.update_wrapper(self, fn, updated=())
        from . import function

        def whole_batch(rows, args, kwargs):
            return self._whole_batch(rows, args, kwargs)

        whole_batch.__name__ = self._name
        whole_batch._advice = "pass batches of one length: a number of rows is a graph of its own, because the ranks' rows follow from it"
        self._function = function(whole_batch)

    def __reduce__(self):
        return DataParallel, (self._fn, *self._options)

    def __set_name__(self, owner, name):
        self._attribute = name

    def __get__(self, instance, owner=None):
        """Of a method: one for each instance, which has it from then on."""
        if instance is None:
            return self
        bound = DataParallel(types.MethodType(self._fn, instance), *self._options)
        if self._attribute is not None and hasattr(instance, "__dict__"):
            vars(instance)[self._attribute] = bound
        return bound

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
        return _join().rows_of_batch(self._name, given.tensors, given.axes, given.names, self._shards, self._buckets, self._devices)

    def __call__(self, *args, **kwargs):
        if _core.distributed.in_whole_batch():  # a step that calls another one, or a plan of ranks that are not there
            if not _core.executing_eagerly():
                return callee(self._fn)(*args, **kwargs)
            whole, tensors = self._whole(args, kwargs)
            return whole(*tensors)
        return self._function(self._rows(self._given(args, kwargs)[0]), args, kwargs)

    def _on(self, tensors, values, named):
        """Calls the function with tensors in their places among the arguments."""
        return callee(self._fn)(*[_fill(value, tensors) for value in values], **{key: _fill(value, tensors) for key, value in named.items()})

    def _whole(self, args, kwargs):
        """The function of whole batches as one of the tensors among the arguments, and these tensors."""
        given, values, named = self._given(args, kwargs)

        def whole(*tensors):
            return self._on(tensors, values, named)

        whole.__name__ = self._name
        whole._axes = given.axes  # of the rows, for lamina._ranks_model
        from . import function

        return function(whole), given.tensors

    def _whole_batch(self, rows, args, kwargs):
        given, values, named = self._given(args, kwargs)
        result = _Result()

        def body(tensors):
            result.structure = _map(self._on(tensors, values, named), None, "the result", "", result.take)
            return result.tensors

        tensors, _notes[self] = _join().call_by_rows(self._name, given.tensors, given.axes, given.names, rows, self._shards, self._buckets, self._devices,
                                                     self._reproducible, body)
        return _fill(result.structure, tensors)

    def explain(self, *args, **kwargs) -> str:
        """How a call of these arguments runs: the batch, its ranks, and the ops for which rows are gathered; then the graph and its kernels. device, count and hosts, unless
        they are names of the function's own arguments, plan for GPUs that need not be there, as in lm.function: with count the arguments are the whole batch of that many ranks."""
        of_function = _parameter_names(self._fn)
        planned = {name: kwargs.pop(name) for name in ("device", "count", "hosts") if name in kwargs and name not in of_function}
        if "count" in planned or "hosts" in planned:
            whole, tensors = self._whole(args, kwargs)
            return whole.explain(*tensors, **planned)
        rows = self._rows(self._given(args, kwargs)[0])
        text = str(self._function.explain(rows, args, kwargs, **planned))
        size = _join().size()
        on = ", ".join(self._devices) if self._devices else f"{size} rank" + "s" * (size > 1)
        lines = [f"data parallel: {rows} rows in {self._shards} shards on {on}"]
        if not self._reproducible:
            lines.append("sums between ranks are the library's (reproducible=False): their bits depend on the number of ranks")
        for op, value, line in _notes.get(self, ()):
            lines.append(f"rows are gathered for {op}, {value}" + (f" ({line})" if line else "") + ": it mixes rows")
        return "\n".join(lines) + "\n\n" + text

    def __repr__(self):
        return f"<lm.distributed.data_parallel of {self._name}, {self.trace_count} graph{'s' * (self.trace_count != 1)}>"

    @property
    def trace_count(self) -> int:
        """How many graphs have been traced: one per signature and number of rows."""
        return self._function.trace_count


_border.guard(globals())
