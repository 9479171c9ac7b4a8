"""Ranges for Nsight and other NVTX tools, and which steps they capture. See docs/profiling-with-nsight.md.

While a tool listens, each call of a traced function is a range of its name in the domain "Lamina", each instruction in it a range with the layer, the ops
that were fused and the user's line, and on the CPU each step of a section too. Eager ops and layers are ranges as well. Without a tool none of
this costs more than a branch.
"""
from __future__ import annotations

import functools
import typing

from . import _border, _core
from ._core.profiler import attached_by, listening, status

__all__ = ["attached", "attached_by", "capture", "DeviceStep", "listening", "range", "record", "status", "TimedRange"]


class range:
    """with lm.profiler.range("load batch"): ..., or @lm.profiler.range("evaluate") in front of a function: a range of this name.

    Ranges nest, and each thread has its own. While a function is traced the name becomes a part of its ops' names instead, as a layer's name
    does, so that it is seen whenever the graph runs. One object may be entered many times, also by several threads.
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
    """with lm.profiler.capture(): ...: what `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start off` record.

    It is cudaProfilerStart and cudaProfilerStop, each after waiting for what runs on the devices. Without a GPU nothing happens; ranges are seen anyway.
    Raises DeviceUnavailable when CUDA refuses.
    """

    def __init__(self):
        pass  # takes nothing, and says so in Lamina's words

    def __enter__(self):
        _core.profiler._start_capture()
        return self

    def __exit__(self, *error):
        _core.profiler._stop_capture()


class TimedRange(typing.NamedTuple):
    """A range of a recording. Times are microseconds since the recording began."""

    text: str
    kind: str  # "function", "instruction", "step", "layer" or "user"
    payload: int | None
    thread: int  # numbered as they come
    parent: int | None  # where in the list the range around it is
    begin: float
    end: float


class DeviceStep(typing.NamedTuple):
    """A step inside of one call of a section on a GPU, which is mostly one launch, by the kernel's own clock. Times are microseconds."""

    text: str  # its layer, op and line
    range: int | None  # where in the recording's ranges its launch is
    times: int  # that it has run in the call: in a loop, the iterations
    blocks: int  # that have taken part
    began: float  # its last time, since the first launch began: the first block
    ended: float  # ... and the last one
    busy: float  # of the block with the most of it, all times together
    waited: float  # for other blocks, of the block with the most of it


class record:
    """with lm.profiler.record() as r: step(x, y): the ranges with their times, kept in this process; no tool is needed.

    r.ranges has them in the order in which they began, print(r) adds up those of equal text, which on the CPU shows the time of every step
    of a section, and so of every layer. On a GPU these are the times of launching. Recording a range takes a fraction of a microsecond itself.

    device_steps=True looks into the sections of GPUs as well: r.device_steps has each step of each launch, which print(r) adds up behind the ranges. The kernel reads
    clocks before and behind each step then, the host waits for each launch, and launches are not joined to graphs.
    Raises StateError when a recording runs already.
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
        rows = {}  # in the order of their first beginning
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
    """Whether this process is under a profiler, a sanitizer or a debugger; attached_by() says why. LAMINA_RESIDENT=staged makes it true."""
    return attached_by() != ""


_border.guard(globals())
