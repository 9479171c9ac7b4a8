"""lm.profiler.trace: Chrome traces."""
import collections
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from lamina import _chrome_trace
from lamina.profiler import DeviceStep, TimedRange


def load(path):
    """The trace; (process, lane) of each box by name; checks what viewers need."""
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    return checked(trace)


def checked(trace):
    names = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "M" and e["name"] == "process_name":
            names[e["pid"]] = e["args"]["name"]
        elif e["ph"] == "M" and e["name"] == "thread_name":
            assert (e["pid"], e["tid"]) not in names
            names[e["pid"], e["tid"]] = e["args"]["name"]
    boxes, lanes = [], collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            assert e["dur"] > 0 and e["ts"] >= 0 and isinstance(e["name"], str) and e["name"]
            lane = names[e["pid"]], names[e["pid"], e["tid"]]
            boxes.append((lane, e))
            lanes[lane].append(e)
    for lane, events in lanes.items():  # boxes of a lane lie side by side or inside each other
        open_until = []
        for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 0.002:
                open_until.pop()
            assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + 0.002, (lane, e)
            open_until.append(e["ts"] + e["dur"])
    return trace, boxes


@pytest.fixture
def trained(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(16, activation="relu", name="first"), lm.nn.Dense(3, name="second")], name="net")
    net.compile("sgd", "mse")
    x, y = np.ones([60, 5], "float32"), np.ones([60, 3], "float32")
    net.fit(x, y, verbose=0)
    with lm.profiler.trace(tmp_path / "deep" / "er") as t:
        with lm.profiler.range("my epoch"):
            net.fit(x, y, batch_size=20, verbose=0)
        lm.matmul(lm.ones([4, 4]), lm.ones([4, 4]))
    return t


@pytest.mark.row("S3-16", "S3-17")
def test_a_trace_has_layers_streams_and_waits_for_input(trained, tmp_path):
    assert os.listdir(tmp_path / "deep" / "er") == [os.path.basename(trained.path)] and trained.path.endswith(".json")
    trace, boxes = load(trained.path)
    assert {lane for lane, _ in boxes} >= {("host", "thread 0"), ("cpu:0", "stream 0")}
    layers = {e["args"].get("layer") for lane, e in boxes if e["cat"] == "step" and lane[0] == "cpu:0"}
    assert {"net/first", "net/second", "grad/net/second"} <= layers
    (dense,) = {e["name"] for _, e in boxes if e["cat"] == "step" and e["args"].get("layer") == "net/first"}
    (event,) = [e for _, e in boxes if e["name"] == dense][:1]
    assert event["args"]["op"] == "dense(matmul, add, relu)" and event["args"]["line"].partition(":")[0].endswith(".py")
    assert [lane for lane, e in boxes if e["name"] == "my epoch"] == [("host", "thread 0")]
    waits = [e for lane, e in boxes if e["cat"] == "input" and lane[0] == "host"]
    assert len(waits) == 4 and {e["name"] for e in waits} == {"wait for input"}  # three batches, and the end
    assert any(e["name"].startswith("matmul") and lane == ("cpu:0", "stream 0") for lane, e in boxes)
    assert trace["otherData"]["rank"] == 0 and trace["otherData"]["began_unix_us"] > 1e15
    assert "my epoch" in str(trained) and len(trained.ranges) == len(boxes)


def test_instructions_of_a_recording_have_their_device_and_stream():
    f = lm.function(lambda x: lm.sort(lm.tanh(x)))
    f(lm.ones([3]))
    with lm.profiler.record() as r:
        f(lm.ones([3]))
    instructions = [one for one in r.ranges if one.kind == "instruction"]
    assert instructions and all((one.device, one.stream) == ("cpu:0", 0) for one in instructions)
    assert all((one.device, one.stream) == ("", None) for one in r.ranges if one.kind != "instruction")


def test_two_virtual_devices_have_a_lane_each(tmp_path):
    program = f"""
import lamina as lm
lm.config.set_virtual_devices("cpu", 2)
@lm.function
def f(x):
    with lm.device("cpu:1"):
        y = lm.sort(x)
    return lm.sort(x + 1), y
f(lm.ones([30]))
with lm.profiler.trace({str(tmp_path)!r}) as t: f(lm.ones([30]))
print(t.path)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=300)
    assert done.returncode == 0, done.stderr
    _, boxes = load(done.stdout.strip())
    assert {lane[0] for lane, e in boxes if e["name"].startswith("sort")} == {"cpu:0", "cpu:1"}


def recording(ranges, steps=()):
    return type("Recording", (), {"ranges": ranges, "device_steps": list(steps)})


def test_a_gpu_has_launches_on_the_host_and_steps_by_its_own_clock():
    ranges = [TimedRange("step", "function", 3, 0, None, 10.0, 60.0), TimedRange("section of 2 steps: a t.py:1; b t.py:2", "instruction", 0, 0, 0, 12.0, 50.0, "gpu:0", 1)]
    steps = [DeviceStep("a/dense(matmul) t.py:1", 1, 1, 8, 1.0, 4.0, 3.0, 0.5), DeviceStep("b/dense(matmul) t.py:2", 1, 1, 8, 3.0, 9.0, 4.0, 1.5)]  # overlapping
    _, boxes = checked(_chrome_trace.trace_of(recording(ranges, steps)))
    assert [(lane, e["cat"], e["ts"]) for lane, e in boxes] == [
        (("host", "thread 0"), "function", 10.0), (("host", "thread 0"), "launch", 12.0), (("gpu:0", "stream 1"), "step", 13.0), (("gpu:0", "stream 1, beside it 1"), "step", 15.0)]
    launch, step = boxes[1][1], boxes[2][1]
    assert (launch["args"]["device"], launch["args"]["stream"]) == ("gpu:0", 1) and launch["args"]["layer"].startswith("a t.py:1")
    assert step["args"] == {"layer": "a", "op": "dense(matmul)", "line": "t.py:1", "times": 1, "blocks": 8, "busy_us": 3.0, "waited_us": 0.5}


def test_threads_that_share_a_section_have_lanes_of_its_device():
    ranges = [TimedRange("section of 2 steps: a", "instruction", 0, 0, None, 0.0, 50.0, "cpu:1", 0), TimedRange("a/dense", "step", 0, 0, 0, 1.0, 20.0),
              TimedRange("a/dense", "step", 0, 1, None, 2.0, 21.0), TimedRange("work", "user", None, 1, None, 30.0, 31.0)]
    _, boxes = checked(_chrome_trace.trace_of(recording(ranges), rank=2))
    assert [lane for lane, _ in boxes] == [("rank 2: cpu:1", "stream 0")] * 2 + [("rank 2: cpu:1", "stream 0, thread 1"), ("rank 2: host", "thread 1")]


@pytest.mark.parametrize("text, parts", [
    ("net/hidden_1/dense(matmul, add) train.py:9", ("net/hidden_1", "dense(matmul, add)", "train.py:9")), ("matmul", ("", "matmul", "")), ("matmul a b.py:1", ("", "matmul a", "b.py:1")),
    ("a/b(div, x/y) t.py:1", ("a", "b(div, x/y)", "t.py:1")), ("section of 2 steps: a/b t.py:1; c t.py:2", ("a/b t.py:1; c t.py:2", "section of 2 steps", "")), ("max_pool2d t.py:2", ("", "max_pool2d", "t.py:2"))])
def test_a_text_is_taken_apart(text, parts):
    assert _chrome_trace.parts_of(text) == parts


def test_a_trace_is_written_when_the_block_raises_and_wrong_folders_are_errors(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with lm.profiler.trace(tmp_path / "a") as t:
            lm.ones([2]) + 1
            1 / 0
    assert any(e["name"].startswith("add") for _, e in load(t.path)[1])
    (tmp_path / "file").write_text("")
    with pytest.raises(lm.errors.BadFile, match="file"):
        with lm.profiler.trace(tmp_path / "file"):
            raise AssertionError("not reached")
    with lm.profiler.record():
        with pytest.raises(lm.errors.StateError, match="recording"):
            with lm.profiler.trace(tmp_path / "b"):
                raise AssertionError("not reached")
    with lm.profiler.trace(tmp_path / "c"), pytest.raises(lm.errors.StateError):
        lm.profiler.trace(tmp_path / "c").__enter__()
    for wrong in (None, 3):
        with pytest.raises(lm.errors.TypeMismatch):
            lm.profiler.trace(wrong)


def test_names_in_a_trace_are_escaped(tmp_path):
    nasty = 'quote" \\ back </script> \u2028 \x01 name'
    with lm.profiler.trace(tmp_path) as t:
        with lm.profiler.range(nasty):
            pass
    assert [e["name"] for _, e in load(t.path)[1]] == [nasty]


def test_a_name_scope_names_ops_and_is_a_range():
    @lm.name_scope("evaluate")
    def evaluate(x):
        return lm.tanh(x)

    f = lm.function(lambda x: evaluate(x))
    assert "evaluate/tanh" in f.explain(lm.ones([2]), device="null:h100").launches[0]["label"]
    with lm.profiler.record() as r:
        evaluate(lm.ones([2]))
    assert [one.text for one in r.ranges if one.kind == "user"] == ["evaluate"] and repr(lm.name_scope("a'b")) == 'lm.name_scope("a\'b")'
    assert repr(lm.profiler.range("x")) == "lm.profiler.range('x')"


@pytest.mark.row("S3-22")
def test_the_processors_extensions_have_names():
    features = lm.config.cpu_features()
    assert features and all(name == name.lower() for name in features)
    assert lm.config.cpu_isa() == "scalar" or any(name.startswith(lm.config.cpu_isa()) for name in features)
