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


def test_loops_and_branches_are_placed_as_a_whole(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import sys
import numpy as np
import lamina as lm

if int(sys.argv[1]) > 1:
    lm.config.set_virtual_devices("cpu", int(sys.argv[1]))

def written(x):
    s = x * 0
    for i in lm.range(5):
        if lm.sum(s) > 3:
            s = s + x
        else:
            s = s + 2 * x
    while lm.sum(s) < 100:
        s = s * 2
    return s

def branch(x):
    return lm.cond(lm.sum(x) > 0, lambda: x * 2.0, lambda: x)

def switch(x):
    return lm.switch(lm.astype(lm.sum(x), lm.int32) % 3, [lambda: x, lambda: x + 1.0, lambda: x + 2.0])

def nested(x):
    return lm.while_loop(lambda a: lm.sum(a) < 100.0, lambda a: lm.cond(lm.sum(a) > 50.0, lambda: a * 3.0, lambda: a * 2.0), x)

def scan(x):
    return lm.scan(lambda s, v: (lm.cond(v > s, lambda: v * s, lambda: s + v), s), lm.sum(x), x)[1]

x = lm.constant([1.0, -2.0, 4.0])
for body in (written, branch, switch, nested, scan, lm.vmap(lambda v: lm.cond(v > 0, lambda: v, lambda: -v)), lm.grad(lambda v: lm.sum(nested(v)))):
    expected = lm.function(body)(x).numpy()
    with lm.device("auto"):
        np.testing.assert_array_equal(lm.function(body)(x).numpy(), expected)
with lm.device("auto"):
    net = lm.nn.Sequential([lm.nn.LSTM(4), lm.nn.Dropout(0.2), lm.nn.Dense(2)])
    net.compile(optimizer=lm.optim.SGD(0.1), loss=lm.losses.MeanSquaredError())
    net.fit(np.ones((8, 5, 3), np.float32), np.ones((8, 2), np.float32), epochs=2, batch_size=4, verbose=0)
""")
    for devices in ("1", "3"):
        done = subprocess.run([sys.executable, program, devices], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
