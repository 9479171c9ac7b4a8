"""A recording of lm.profiler as a Chrome trace: JSON that Perfetto and chrome://tracing show as lanes."""
from __future__ import annotations

import json
import re

_LINE = re.compile(r" (\S+:\d+)$")
_HOST = 1  # process of the host's lanes; devices follow


def parts_of(text):
    """(layer, op with what is fused into it, the user's line) of a range's text: "net/hidden_1/dense(matmul, add) train.py:9"; "" for what it does not have."""
    if text.startswith("section of "):  # of several layers
        return text.partition(": ")[2], text.partition(": ")[0], ""
    line = _LINE.search(text)
    text = text[:line.start()] if line else text
    scope, slash, _ = text.partition("(")[0].rpartition("/")
    return scope, text[len(scope) + len(slash):], line[1] if line else ""


class _Lanes:
    """Processes and threads of the trace: the host's threads, and each device's streams."""

    def __init__(self, rank):
        self.rank, self.events, self.processes, self.lanes = rank, [], {}, {}
        self.process("host")

    def process(self, device):
        if device not in self.processes:
            pid = self.processes[device] = self.rank * 1000 + _HOST + len(self.processes)
            name = device if self.rank == 0 else f"rank {self.rank}: {device}"
            self.events += [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}},
                            {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}]
        return self.processes[device]

    def lane(self, device, name):
        if (device, name) not in self.lanes:
            pid, tid = self.process(device), len(self.lanes) + 1
            self.lanes[device, name] = pid, tid
            self.events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
        return self.lanes[device, name]

    def add(self, lane, text, kind, begin, length, **numbers):
        layer, op, line = parts_of(text) if kind in ("instruction", "launch", "step") else ("", "", "")
        known = {name: value for name, value in (("layer", layer), ("op", op), ("line", line), *numbers.items()) if value not in ("", None)}
        event = {"ph": "X", "name": text, "cat": kind, "pid": lane[0], "tid": lane[1], "ts": round(begin, 3), "dur": max(round(length, 3), 0.001), "args": known}
        if kind == "input":
            event |= {"name": "wait for input", "cname": "terrible"}
        self.events.append(event)


def _places(ranges):
    """The (device, stream) of each range, or None for the host's. A section's steps are where the section is, also on threads that help with it."""
    places, sections = [], []
    for one in ranges:
        if one.device:
            places.append((one.device, one.stream))
            sections.append(one)
        elif one.kind == "step":
            parent = places[one.parent] if one.parent is not None else None
            around = parent or next(((s.device, s.stream) for s in reversed(sections) if s.begin <= one.begin and one.end <= s.end and s.device.startswith("cpu")), None)
            places.append(around)
        else:
            places.append(None)
    return places


def trace_of(record, rank=0, began=None):
    """The trace as a dict for json. began: seconds since 1970 when the recording began."""
    lanes, first = _Lanes(rank), {}
    for one, place in zip(record.ranges, _places(record.ranges)):
        numbers = {"number": one.payload}
        if place is None or not place[0].startswith("cpu"):  # a GPU runs on its own: the range is the launch, on the host
            lane, kind = lanes.lane("host", f"thread {one.thread}"), "launch" if place else one.kind
            numbers |= {"device": place[0], "stream": place[1]} if place else {}
        else:
            device, stream = place
            own = one.thread == first.setdefault(place, one.thread)  # several threads may work for one stream: ranges of a lane must nest
            lane, kind = lanes.lane(device, f"stream {stream}" if own else f"stream {stream}, thread {one.thread}"), one.kind
        lanes.add(lane, one.text, kind, one.begin, one.end - one.begin, **numbers)
    _add_device_steps(record, lanes)
    other = {"producer": "lamina", "rank": rank} | ({} if began is None else {"began_unix_us": round(began * 1e6)})
    return {"traceEvents": lanes.events, "displayTimeUnit": "ns", "otherData": other}


def _add_device_steps(record, lanes):
    """Steps on a GPU by its own clock, placed where their launch began. Steps of different blocks overlap: each goes to the first lane that is free."""
    ends = {}
    for step in sorted(record.device_steps, key=lambda one: (one.range is None, one.range, one.began)):
        launch = record.ranges[step.range] if step.range is not None else None
        begin = step.began + (launch.begin if launch else 0)
        device, stream = (launch.device, launch.stream) if launch and launch.device else ("gpu", 0)
        free = ends.setdefault((device, stream), [])
        row = next((i for i, end in enumerate(free) if end <= begin), len(free))
        free[row:row + 1] = [begin + step.ended - step.began]
        lane = lanes.lane(device, f"stream {stream}" if row == 0 else f"stream {stream}, beside it {row}")
        lanes.add(lane, step.text, "step", begin, step.ended - step.began, times=step.times, blocks=step.blocks, busy_us=step.busy, waited_us=step.waited)


def write(path, record, rank, began):
    from . import _core

    _core._replace_file(path, json.dumps(trace_of(record, rank, began), separators=(",", ":"), allow_nan=False).encode())
