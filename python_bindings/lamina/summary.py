"""Event files for TensorBoard: scalars, histograms and graphs, written without TensorFlow.

    with lm.summary.Writer("runs/first") as writer:
        for step in range(100):
            writer.scalar("loss", train(step), step)

`tensorboard --logdir runs` shows them.
"""
from __future__ import annotations

import itertools
import os
import socket
import threading
import time as clock

from . import _border, _core, _events, errors

__all__ = ["Writer", "write_graph"]

_numbers = itertools.count()


class Writer:
    """Writes one event file, events.out.tfevents.*, into a folder, which it makes. Several Writers may share a folder: TensorBoard reads all its files.

    writer.path is the file. What was written reaches the disk within a second of the next event, and with flush() or close(); `with` closes it. Threads may share a Writer.
    Raises BadFile when the folder or file cannot be written; StateError when it is used after close().
    """

    def __init__(self, dir):
        folder = errors.path_of("summary.Writer", dir, "dir")
        name = f"events.out.tfevents.{int(clock.time()):010}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path, self._file = os.path.join(folder, name), None
        try:
            os.makedirs(folder, exist_ok=True)
            self._file = open(self.path, "xb")
        except OSError as problem:
            raise errors.BadFile(f"summary.Writer: the events cannot be written: {problem.strerror}", where=f"file '{self.path}'", why="events are a file in this folder",
                                 fix="pass a folder that can be written") from None
        self._lock, self._flushed = threading.Lock(), 0.0
        self._write(_events.version(clock.time()))

    def __reduce__(self):
        from ._pickle import stays

        raise stays(self, "it has an open file", "make a Writer in each process: several write to one folder")

    def scalar(self, name: str, value, step: int, time: float | None = None) -> None:
        """One number of a curve: `value` (a number, or a tensor or array of one element) at this step. time: seconds since 1970; by default now."""
        self._event(_events.scalar(_text("scalar", name), _number(name, value)), step, time)

    def histogram(self, name: str, values, step: int, time: float | None = None, bins: int = 64) -> None:
        """How the elements of a tensor, Variable or array are distributed at this step, in bins of equal width. Elements that are not finite are left out. Raises InvalidArgument
        when none is left."""
        import numpy as np

        _text("histogram", name)
        try:
            array = np.asarray(values.tolist() if str(getattr(values, "dtype", "")) == "bfloat16" else values.numpy() if hasattr(values, "numpy") else values).ravel().astype(np.float64)
        except (TypeError, ValueError):
            raise errors.TypeMismatch(f"summary: the values of '{name}' are {errors.a_type(values)}", why="a histogram counts numbers", fix="pass a tensor, a Variable or an array") from None
        array = array[np.isfinite(array)]
        if array.size == 0:
            raise errors.InvalidArgument(f"summary: the values of '{name}' have no finite element", why="a histogram counts them", fix="look for the step that made NaN or infinity")
        errors.in_range("summary", "it is their number", 1, 10000, bins=bins)
        with np.errstate(over="ignore"):
            squares = float(np.square(array).sum())
        try:
            counts, edges = np.histogram(array, bins)
        except ValueError:  # the elements are too close together for so many bins
            counts, edges = np.asarray([array.size]), np.asarray([array.min(), array.max()])
        self._event(_events.histogram(_text("histogram", name), array, squares, counts, edges[1:]), step, time)

    def graph(self, fn, *args, **kwargs) -> None:
        """The graph of fn for these arguments, as traced: ops in their layers and lm.name_scopes, with shapes. fn is a lm.function, a model or a function; its
        arguments may be TensorSpecs. It is traced, not run."""
        concrete = fn if isinstance(fn, _core.ConcreteFunction) else (fn if isinstance(fn, _core.Function) else _core.function(fn)).get_concrete_function(*args, **kwargs)
        self._write(_events.graph(concrete._graph_data, clock.time()))

    def flush(self) -> None:
        """Hands all events to the system, so that TensorBoard sees them."""
        with self._lock:
            self._open().flush()

    def close(self) -> None:
        """Ends the file. A second call does nothing."""
        with self._lock:
            if not self._file.closed:
                self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self) -> str:
        return f"<lm.summary.Writer {self.path}{', closed' if self._file is None or self._file.closed else ''}>"

    def _event(self, summary, step, time):
        if isinstance(step, bool) or not hasattr(step, "__index__") or not -2**63 <= step.__index__() < 2**63:
            raise errors.TypeMismatch(f"summary: the step is {errors.shown(step)}", why="steps are whole numbers of 64 bits", fix="pass the number of the batch or epoch")
        if time is not None:
            errors.in_range("summary", "it is in seconds since 1970", 0, time=time)
        self._write(_events.event(summary, step.__index__(), clock.time() if time is None else float(time)))

    def _write(self, payload):
        record = _events.framed(payload)
        with self._lock:
            file = self._open()
            try:
                file.write(record)
                if clock.monotonic() - self._flushed > 1:
                    file.flush()
                    self._flushed = clock.monotonic()
            except OSError as problem:
                raise errors.BadFile(f"summary: the event cannot be written: {problem.strerror}", where=f"file '{self.path}'", fix="make room, and write to a new folder") from None

    def _open(self):
        if self._file is None or self._file.closed:
            raise errors.StateError("summary: the Writer is closed", where="", why=f"its file {self.path} is complete", fix="make another Writer for the same folder")
        return self._file


def write_graph(fn, args, dir) -> str:
    """Writes the graph of fn(*args) into a new event file in this folder, and returns its path. As Writer.graph()."""
    with Writer(dir) as writer:
        writer.graph(fn, *(args if isinstance(args, (tuple, list)) else (args,)))
    return writer.path


def _text(what, name):
    if not isinstance(name, str) or not name:
        raise errors.TypeMismatch(f"summary: the name of a {what} is {errors.shown(name)}", why="TensorBoard lists curves by their names", fix='pass a text such as "loss"')
    return name


def _number(name, value):
    try:
        return float(value)
    except errors.Error:
        raise
    except Exception:
        raise errors.TypeMismatch(f"summary: the value of '{name}' is {errors.a_type(value)}", why="a scalar is one number", fix="pass a float, or a tensor of one element") from None


_border.guard(globals())
