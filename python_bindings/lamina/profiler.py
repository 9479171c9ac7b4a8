"""Ranges for Nsight and other NVTX tools, and capture of selected steps. See docs/profiling-with-nsight.md.

While a tool listens, each call of a traced function is a range with its name in the domain "Lamina", each instruction in it a range with
the layer, the fused ops and the user's line, and on the CPU each step of a section too. Eager ops and layers are ranges as well. Without a
tool each costs only a branch.
"""
from __future__ import annotations

import os
import time
import typing

from . import _border, _core, _elsewhere, errors
from ._core.profiler import attached_by, listening, status
from ._names import name_scope

__all__ = ["attached", "attached_by", "capture", "DeviceStep", "listening", "range", "record", "status", "TimedRange", "trace"]


class range(name_scope):
    """A range with this name: with lm.profiler.range("load batch"): ..., or @lm.profiler.range("evaluate") on a function.

    Ranges nest, per thread. In a traced function the name becomes part of the ops' names instead, like a layer's name, so that it is
    visible whenever the graph runs: it is a lm.name_scope.
    """


class capture:
    """with lm.profiler.capture(): ... selects what `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start off`
    record.

    It calls cudaProfilerStart and cudaProfilerStop, each after waiting for running work. Without a GPU it does nothing; ranges are still
    emitted. Raises DeviceUnavailable when CUDA refuses.
    """

    def __init__(self):
        pass  # takes no arguments, and reports others in Lamina's words

    def __enter__(self):
        _core.profiler._start_capture()
        return self

    def __exit__(self, *error):
        _core.profiler._stop_capture()


class TimedRange(typing.NamedTuple):
    """A range in a recording. Times are microseconds since the recording began."""

    text: str
    kind: str  # "function", "instruction", "step", "layer", "user" or "input": waiting for the next element of a Dataset
    payload: int | None
    thread: int  # numbered in order of appearance
    parent: int | None  # index of the enclosing range in the list
    begin: float
    end: float
    device: str = ""  # of an instruction: where it runs
    stream: int | None = None  # of that device, from 0


class DeviceStep(typing.NamedTuple):
    """A step of one call of a section on a GPU (usually one launch), timed by the kernel's own clock. Times are microseconds."""

    text: str  # its layer, op and line
    range: int | None  # index of its launch in the recording's ranges
    times: int  # executions in the call: in a loop, the iterations
    blocks: int  # blocks that took part
    began: float  # start of the last execution in the first block, since the launch began
    ended: float  # its end in the last block
    busy: float  # maximum over blocks, summed over executions
    waited: float  # for other blocks, maximum over blocks


class record:
    """with lm.profiler.record() as r: step(x, y) records ranges with their times in this process, without a tool.

    r.ranges has them in order of their begin. print(r) sums those with equal text; on the CPU this shows the time of every step of a
    section, and so of every layer. On a GPU these are launch times. Recording a range takes a fraction of a microsecond itself.

    device_steps=True also looks into sections on GPUs: r.device_steps has each step of each launch, which print(r) sums after the ranges.
    The kernel then reads clocks before and after each step, the host waits for each launch, and launches are not joined into graphs. Raises
    StateError when a recording is already running, other than that of `python -m lamina profile`: it gets the ranges too.
    """

    ranges: list[TimedRange]
    device_steps: list[DeviceStep]

    def __init__(self, device_steps: bool = False):
        self.ranges, self.device_steps = [], []
        self._with_steps, self._runs = bool(device_steps), False

    def __enter__(self):
        if _around is not None and _around._runs:
            _around._pause()
        self._start()
        self.ranges, self.device_steps, self._zero = [], [], self._clock
        return self

    def __exit__(self, *error):
        self._pause()
        if _around is not None and _around is not self:
            _around._add(self.ranges, self.device_steps, self._zero)
            _around._start()

    def _start(self):
        clock = time.perf_counter()
        _core.profiler._start_recording(self._with_steps)
        self._clock, self._runs = clock, True

    def _pause(self):
        self._runs = False
        ranges, steps = _core.profiler._stop_recording()
        self._add([TimedRange(*one) for one in ranges], [DeviceStep(*one) for one in steps], self._clock)

    def _add(self, ranges, device_steps, clock):
        """Adds what was recorded from this time on."""
        first, later = len(self.ranges), (clock - self._zero) * 1e6
        self.ranges += [one._replace(parent=None if one.parent is None else first + one.parent, begin=later + one.begin, end=later + one.end) for one in ranges]
        self.device_steps += [one._replace(range=None if one.range is None else first + one.range) for one in device_steps]

    def __str__(self) -> str:
        if self._runs:
            return "the recording still runs: print it after the with block"
        rows = {}  # in order of first appearance
        for one in self.ranges:
            rows.setdefault((one.kind, one.text), []).append(one.end - one.begin)
        lines = [f"{'times':>6} {'total us':>11} {'least us':>10}  range"]
        for (kind, text), times in rows.items():
            short = text if len(text) <= 120 else text[:117] + "..."
            lines.append(f"{len(times):>6} {sum(times):>11.1f} {min(times):>10.1f}  {'  ' * _DEPTHS.get(kind, 0)}{short}")
        steps = {}
        for one in self.device_steps:
            steps.setdefault(one.text, []).append(one)
        if steps:
            lines += ["inside of launches on the GPU", f"{'times':>6} {'busy us':>11} {'waited us':>10}  step"]
        for text, all_of in steps.items():
            lines.append(f"{sum(s.times for s in all_of):>6} {sum(s.busy for s in all_of):>11.2f} {sum(s.waited for s in all_of):>10.2f}    {text}")
        return "\n".join(lines)


_DEPTHS = {"instruction": 1, "step": 2}
_around = None  # the recording of `python -m lamina profile`: it pauses while one of the program's own runs, and then takes that one's ranges


class trace(record):
    """with lm.profiler.trace("traces") as t: step(x, y) writes a Chrome trace into a folder, for ui.perfetto.dev or chrome://tracing.

    The file has a lane per thread of the host and per stream of each device. A lane's boxes are named by layer, ops and line; waiting for the next element of a
    Dataset is a box "wait for input". On a CPU the boxes of a stream are its instructions and the steps of its sections. On a GPU the host's lanes have the
    launches; with device_steps=True, as in record(), the GPU's streams have the steps inside of sections, by the GPU's clock.

    t.path: the file, which has a new name each time; several ranks write one each. t.ranges and print(t): as of record(). Also written when the
    block raises. Raises BadFile when the folder cannot be written, StateError when a recording is already running.
    """

    path: str

    def __init__(self, dir, device_steps: bool = False):
        super().__init__(device_steps)
        self._dir, self.path = errors.path_of("profiler.trace", dir, "dir"), ""

    def __enter__(self):
        try:
            os.makedirs(self._dir, exist_ok=True)
        except OSError as problem:
            raise errors.BadFile(f"profiler.trace: the folder cannot be made: {problem.strerror}", where=f"file '{self._dir}'", why="the trace is a file in it",
                                 fix="pass a folder that can be written") from None
        self._rank = _core.distributed.launch_report()["rank"]
        super().__enter__()
        self._began = time.time()
        return self

    def __exit__(self, *error):
        from ._chrome_trace import write

        super().__exit__(*error)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._began))
        name = f"lamina-{stamp}-{int(self._began % 1 * 1e6):06}-{os.getpid()}" + (f"-rank{self._rank}" if self._rank else "")
        self.path = os.path.join(self._dir, f"{name}.json")
        write(self.path, self, self._rank, self._began)


def attached() -> bool:
    """Whether this process runs under a profiler, sanitizer or debugger; attached_by() says why. LAMINA_RESIDENT=staged forces it."""
    return attached_by() != ""


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.profiler", __all__)
_border.guard(globals())
