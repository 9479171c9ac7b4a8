"""Virtual CPU devices, and functions placed by cost. Each program has a process of its own, because the number of devices is chosen once."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_cpu_is_split_into_virtual_devices():
    run("""
import lamina as lm
assert lm.config.list_devices("cpu") == ["cpu:0"]
threads = lm.config.threads()
lm.config.set_virtual_devices("cpu", 4)
assert lm.config.list_devices("cpu") == ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
assert lm.config.threads() == max(1, threads // 4)  # each has its share
lm.config.set_virtual_devices("cpu", 2)  # nothing has used the others yet
with lm.device("cpu:1"):
    x = lm.constant([1.0, 2.0])
assert lm.device_of(x + x) == "cpu:1"
lm.config.set_virtual_devices("cpu", 2)  # the same number
try:
    lm.config.set_virtual_devices("cpu", 3)
    raise SystemExit("no error")
except RuntimeError as e:
    assert "cpu:1 is in use" in str(e), e
for kind, count in (("npu", 2), ("gpu", 0), ("cpu", 0), ("cpu", 5000)):
    try:
        lm.config.set_virtual_devices(kind, count)
        raise SystemExit("no error")
    except ValueError:
        pass
try:
    x.to("auto")
    raise SystemExit("no error")
except lm.errors.DeviceUnavailable as e:
    assert "auto" in str(e)
""")


def test_two_towers_are_placed_by_cost():
    run("""
import numpy as np
import lamina as lm
lm.config.set_virtual_devices("cpu", 2)
random = np.random.default_rng(0)
def tower(device):
    with lm.device(device):
        return [lm.Variable((random.normal(size=(64, 64)) / 8).astype(np.float32)) for _ in range(100)]
left, right = tower("cpu:0"), tower("cpu:1")
@lm.function
def towers(x):
    a = b = x
    for w in left: a = lm.tanh(a @ w)
    for w in right: b = lm.tanh(b @ w)
    return lm.sum(a * b)
x = lm.constant(random.normal(size=(64, 64)).astype(np.float32))
alone = towers(x)
with lm.device("auto"):
    placed = towers(x)
    e = towers.explain(x)
assert lm.device_of(placed) == "cpu:0"
assert alone.numpy().tobytes() == placed.numpy().tobytes()
assert towers.trace_count == 2
names = [name for name, _, _ in e.placements]
assert any(name == "cpu:0 alone" for name in names) and any("list scheduling" in name for name in names), names
assert e.placements[0][2] == "taken" and all(why for _, _, why in e.placements), e.placements
assert e.modelled_us > 0 and "placement by cost" in e and "simulated time line" in e
assert e.json()
""")


def test_the_example_of_the_page_runs():
    with open(os.path.join(ROOT, "docs", "devices.md"), encoding="utf-8") as f:
        blocks = re.findall(r"```py\n(.*?)```", f.read(), re.S)
    assert blocks
    program = "import tempfile, runpy, sys, pathlib\np = pathlib.Path(tempfile.mkdtemp()) / 'page.py'\np.write_text(sys.stdin.read())\nrunpy.run_path(str(p))"
    done = subprocess.run([sys.executable, "-c", program], input=blocks[0], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "placement by cost" in done.stdout, done.stdout + done.stderr
