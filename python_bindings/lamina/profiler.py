"""Ranges for Nsight and other NVTX tools, and capture of selected steps. See docs/profiling-with-nsight.md.

While a tool listens, each call of a traced function is a range with its name in the domain "Lamina", each instruction in it a range with
the layer, the fused ops and the user's line, and on the CPU each step of a section too. Eager ops and layers are ranges as well. Without a
tool each costs only a branch.
"""
from __future__ import annotations

import functools
import typing

from . import _border, _core
from ._core.profiler import attached_by, listening, status

__all__ = ["attached", "attached_by", "capture", "DeviceStep", "listening", "range", "record", "status", "TimedRange"]


class range:
    """A range with this name: with lm.profiler.range("load batch"): ..., or @lm.profiler.range("evaluate") on a function.

    Ranges nest, per thread. In a traced function the name becomes part of the ops' names instead, like a layer's name, so that it is
    visible whenever the graph runs. One object may be entered many times, also by several threads.
    """

    def __init__(self, name: str):
        self.name = str(name)

    def __enter__(self):
        _core.profiler._enter(self.name)
        return self

    def __exit__(self, *error):
        _core.profiler._leave()

    def __call__(self, fn):
        @functools.wraps(fn)
        def ranged(*args, **kwargs):
            call = fn
            if _core.autograph_is_active():
                from .autograph.conversion import converted
                call = converted(fn)
            with self:
                return call(*args, **kwargs)

        return ranged

    def __repr__(self) -> str:
        return f"lm.profiler.range({self.name!r})"


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
    kind: str  # "function", "instruction", "step", "layer" or "user"
    payload: int | None
    thread: int  # numbered in order of appearance
    parent: int | None  # index of the enclosing range in the list
    begin: float
    end: float


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
    StateError when a recording is already running.
    """

    ranges: list[TimedRange]
    device_steps: list[DeviceStep]

    def __init__(self, device_steps: bool = False):
        self.ranges, self.device_steps = [], []
        self._with_steps = bool(device_steps)

    def __enter__(self):
        _core.profiler._start_recording(self._with_steps)
        return self

    def __exit__(self, *error):
        ranges, steps = _core.profiler._stop_recording()
        self.ranges = [TimedRange(*one) for one in ranges]
        self.device_steps = [DeviceStep(*one) for one in steps]

    def __str__(self) -> str:
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


def attached() -> bool:
    """Whether this process runs under a profiler, sanitizer or debugger; attached_by() says why. LAMINA_RESIDENT=staged forces it."""
    return attached_by() != ""


_border.guard(globals())
