"""Training steps on GPUs that are not there: explain(device=, count=) and python -m lamina plan. Every time is modelled and deterministic."""
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from built import BUILD
from training_steps import training_step

PROGRAM = """
import sys, numpy as np, lamina as lm
rng = np.random.default_rng(0)
kernels = [lm.Variable((rng.normal(size=(64, 64)) / 8).astype("float32")) for _ in range(100)]
biases = [lm.Variable(np.zeros(64, "float32")) for _ in range(100)]
sgd = lm.optim.SGD(0.01)

@lm.function
def look(x): return lm.sum(x @ kernels[0])

@lm.function
def step(x):
    with lm.GradientTape() as tape:
        y = x
        for w, b in zip(kernels, biases):
            y = lm.relu(y @ w + b)
        cost = lm.mean(lm.square(y))
    sgd.apply_gradients(zip(tape.gradient(cost, kernels + biases), kernels + biases))
    return cost

x = lm.constant(rng.normal(size=(1024, 64)).astype("float32"))
"""
LOOP = """
print("looked", float(look(x)), sys.argv[1:])
for _ in range(3):
    try: step(x)
    except Exception: print("the step has not ended")
    print("trained")
"""
TEXT = """\
8 ranks of null:h100 on 1 host, joined by NVLink 4; every time here is modelled: launches by what one H200 showed, links as published
  rows: 1024, 128 a rank; gradients: 1,664,000 bytes of 200 Variables
  launches a rank and step: 1, which sums over the ranks, too
  one device, all rows: 182.3 us modelled
  sums in the step's launch, 200 sums: 99.1 us modelled, of which 5.0 us exposed communication modelled
  sums by NCCL beside the backward pass, 32 sums: 115.8 us modelled, of which 21.7 us exposed communication modelled
  one sum by NCCL after the backward pass, 1 sum: 124.4 us modelled, of which 30.2 us exposed communication modelled
  the program below, as planned: 113.3 us modelled, of which 19.2 us exposed communication modelled
  8 ranks are faster, 1.61 times as modelled

the program of one rank
"""


@pytest.fixture(scope="module")
def program():
    names = {}
    exec(PROGRAM, names)
    return names


def test_explain_models_a_step_on_eight_gpus(program):
    seen = program["step"].explain(program["x"], device="null:h100", count=8)
    assert seen.startswith(TEXT), seen[:1500]
    assert all("modelled" in line for line in TEXT.splitlines() if " us" in line)
    assert len(seen.launches) == 1 and seen.planned_only and seen.ranks["rows_of_a_rank"] == 128 and seen.ranks["faster"] == "ranks"
    assert [way["name"].split(" ")[0] for way in seen.ranks["ways"]] == ["sums", "sums", "one"]
    assert "all_reduce over 8 ranks" in seen and "announce blocks" in seen and "collect blocks" in seen
    assert seen.modelled_us < 130, "sums begin while the backward pass runs"
    assert json.loads(seen.json())["ranks"] == seen.ranks


def test_two_gpus_are_slower_for_a_small_step(program):
    """As in tensorflow#35095: 286 s on two, 197 s on one."""
    seen = program["step"].explain(program["x"][:20], device="null:h100", count=2)
    assert seen.ranks["faster"] == "one device" and "one device is faster" in seen
    one = program["step"].explain(program["x"][:20], device="null:h100", count=1)
    assert one.ranks["ways"][0]["exposed_us"] == 0 and one.ranks["ways"][0]["step_us"] == pytest.approx(one.ranks["one_device_us"])


def test_explain_models_a_thousand_gpus(program):
    seen = program["step"].explain(lm.zeros((8192, 64)), device="null:h100", count=1024, hosts=128)
    assert seen.startswith("1024 ranks of null:h100 on 128 hosts") and "rows: 8192, 8 a rank" in seen and seen.ranks["gradient_bytes"] == 1664000
    beside, after = (next(way for way in seen.ranks["ways"] if words in way["name"]) for words in ("beside", "after"))
    assert "exchange sums or rows" in seen and not any("launch" in way["name"] for way in seen.ranks["ways"])
    assert beside["step_us"] <= after["step_us"] and after["exposed_us"] > 100  # a step of 8 rows does not hide a sum over 128 hosts
    assert seen.ranks == program["step"].explain(lm.zeros((8192, 64)), device="null:h100", count=1024, hosts=128).ranks


def test_explain_with_count_of_what_exchanges_nothing(program):
    seen = program["look"].explain(program["x"], device="null:h100", count=4, hosts=2)
    assert seen.ranks["gradient_bytes"] == 0 and seen.ranks["ways"][0]["exposed_us"] == 0 and "on 2 hosts" in seen

    @lm.function
    def count(x, count):
        return x + count

    assert "ConcreteFunction count" in count.explain(lm.ones(3), count=2), "a parameter of that name is the function's"


LAYERS = {"dense": lambda: [lm.nn.Dense(16, "relu")], "statistics": lambda: [lm.nn.Dense(16), lm.nn.BatchNormalization()], "draws": lambda: [lm.nn.Dense(16), lm.nn.Dropout(0.5)]}


@pytest.mark.parametrize("rows", [9, 25, 64])
@pytest.mark.parametrize("layers", LAYERS)
def test_a_data_parallel_step_is_modelled_as_its_function(layers, rows):
    net = lm.nn.Sequential([*LAYERS[layers](), lm.nn.Dense(2)])
    x, y = lm.ones((rows, 6)), lm.zeros(rows, dtype="int32")
    net(x)
    step = training_step(net, lm.optim.SGD(0.1))
    parallel = lm.distributed.data_parallel(step)
    around = lm.function(lambda x, y: parallel(x, y))
    float(around(x, y))  # has a graph that is cut already
    nodes = re.search(r"graph as traced, (\d+) nodes", around.explain(x, y))[1]
    for count in (4, 8):
        expected = lm.function(step).explain(x, y, device="null:h100", count=count)
        for other in (parallel, around):
            seen = other.explain(x, y, device="null:h100", count=count)
            assert seen.ranks == expected.ranks and seen.summary == expected.summary
        assert expected.ranks["rows_of_a_rank"] == -(-rows // count)
    assert parallel.explain(x, y).startswith(f"data parallel: {rows} rows in 8 shards on 1 rank"), "the plan of ranks that are not there is no plan of this job"
    assert f"graph as traced, {nodes} nodes" in around.explain(x, y)
    assert "null:h100" in parallel.explain(x, y, device="null:h100")


def test_in_axes_say_what_is_cut():
    w = lm.Variable(lm.ones((3, 2)))

    def train(factors, x, count=2):
        w.assign_sub(lm.sum(x * factors[:, None], axis=1, keepdims=True) * lm.ones((3, 2)) * count)

    seen = lm.distributed.data_parallel(train, in_axes=(None, -1)).explain(lm.ones(3), lm.ones((3, 40)), device="null:h100", hosts=1)
    assert "rows: 40, 40 a rank" in seen, "count is the function's"
    step = lm.distributed.data_parallel(lambda factors, x: w.assign_sub(lm.sum(x * factors[:, None]) * lm.ones((3, 2))), in_axes=(None, -1))
    assert "rows: 40, 5 a rank" in step.explain(lm.ones(3), lm.ones((3, 40)), device="null:h100", count=8)
    with pytest.raises(lm.errors.InvalidArgument, match="40 rows cannot be cut for 64 ranks"):
        step.explain(lm.ones(3), lm.ones((3, 40)), device="null:h100", count=64)


@pytest.mark.parametrize("arguments, what", [
    (dict(count=8), "count= needs a GPU"), (dict(count=8, device="cpu:0"), "count= needs a GPU"), (dict(count=0, device="null:h100"), "not a whole number"),
    (dict(count=True, device="null:h100"), "not a whole number"), (dict(count=3, hosts=2, device="null:h100"), "cannot be spread over 2 hosts"),
    (dict(count=2048, device="null:h100"), "1024 rows cannot be cut for 2048 ranks")])
def test_bad_counts_are_errors(program, arguments, what):
    with pytest.raises(lm.errors.InvalidArgument, match=what):
        program["step"].explain(program["x"], **arguments)


def plan(tmp_path, *words, program=PROGRAM + LOOP):
    (tmp_path / "train.py").write_text(program)
    return subprocess.run([sys.executable, "-m", "lamina", "plan", str(tmp_path / "train.py"), *words], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.path.join(BUILD, "python")})


def test_plan_runs_a_program_up_to_its_first_training_step(tmp_path):
    done = plan(tmp_path, "--devices", "8xH100", "--", "--epochs", "3")
    assert done.returncode == 0 and "looked" in done.stderr and "['--epochs', '3']" in done.stderr and "trained" not in done.stderr + done.stdout, done.stderr
    assert done.stdout == f"{tmp_path / 'train.py'}: the step is 'step'\n" + TEXT.partition("\n\n")[0] + "\n"


def test_plan_gives_json(tmp_path):
    done = plan(tmp_path, "--devices", "8xH100", "--nodes", "4", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["modelled"] is True and said["function"] == "step" and said["count"] == 32 and said["hosts"] == 4 and said["faster"] == "ranks"
    assert [way["name"] for way in said["ways"]] == ["sums by NCCL beside the backward pass", "one sum by NCCL after the backward pass"]


def test_plan_of_fit(tmp_path):
    done = plan(tmp_path, "--devices", "2xA100", program="""
import numpy as np, lamina as lm
net = lm.nn.Sequential([lm.nn.Dense(64, "relu"), lm.nn.Dense(10)])
net.compile("adam", lm.losses.SparseCrossEntropy(from_logits=True))
net.fit(np.ones((64, 20), "float32"), np.zeros(64, "int64"), batch_size=32)
""")
    weights = 4 * (20 * 64 + 64 + 64 * 10 + 10)
    assert done.returncode == 0 and f"rows: 32, 16 a rank; gradients: {weights:,} bytes of 4 Variables" in done.stdout, done.stdout + done.stderr


DISTRIBUTED = {
    "data_parallel": "net(x[:1])\nstep = lm.distributed.data_parallel(train)\nfor x, y in lm.distributed.shard([(x, y)]): step(x, y)",
    "a function around it": "net(x[:1])\nstep = lm.distributed.data_parallel(train)\nlm.function(lambda x, y: step(x, y))(x, y)",
    "fit": "net.compile(sgd, loss)\nnet.fit(x, y, batch_size=50, distribute=True)",
}


@pytest.mark.parametrize("how", DISTRIBUTED)
def test_plan_of_a_program_that_is_distributed_already(how, tmp_path):
    done = plan(tmp_path, "--devices", "8xH100", program="""
import numpy as np, lamina as lm
net = lm.nn.Sequential([lm.nn.Dense(64), lm.nn.BatchNormalization(), lm.nn.Dropout(0.2), lm.nn.Dense(10)])
sgd, loss = lm.optim.SGD(0.1), lm.losses.SparseCrossEntropy(from_logits=True)
x, y = np.ones((50, 20), "float32"), np.zeros(50, "int64")
def train(x, y):
    with lm.GradientTape() as tape: cost = loss(y, net(x, training=True))
    sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
""" + DISTRIBUTED[how])
    weights = 4 * (20 * 64 + 64 + 2 * 64 + 64 * 10 + 10)
    assert done.returncode == 0 and f"rows: 50, 7 a rank; gradients: {weights:,} bytes of 6 Variables" in done.stdout, done.stdout + done.stderr


def test_the_plan_says_of_the_program_that_would_run_whether_it_is_faster():
    """Statistics of batches are sums that the next layer waits for: the plan's time counts them, the ways' does not."""
    net = lm.nn.Sequential([layer for _ in range(8) for layer in (lm.nn.Dense(64), lm.nn.BatchNormalization())])
    x, sgd = lm.ones((64, 64)), lm.optim.SGD(0.1)
    net(x)

    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x, training=True)))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))

    seen = step.explain(x, device="null:h100", count=4)
    planned = float(re.search(r"as planned: ([\d.]+) us", seen)[1])
    assert (seen.ranks["faster"] == "ranks") == (planned < seen.ranks["one_device_us"])


@pytest.mark.parametrize("words, code, said", [
    (["--devices", "8xQ100"], 1, "there is no null device model named 'q100'"), (["--devices", "eight"], 2, "write --devices 8xH100"),
    (["--devices", "0xH100"], 2, "--devices 0xH100"), (["--devices", "8xH100", "--nodes", "0"], 2, "--nodes 0"), ([], 2, "--devices")])
def test_wrong_arguments_of_plan(words, code, said, tmp_path):
    done = plan(tmp_path, *words)
    assert done.returncode == code and said in done.stderr and done.stdout == "", done.stderr


@pytest.mark.parametrize("program, said", [("print('nothing')", "has no training step"), ("raise SystemExit(0)", "has no training step"), ("1 / 0", "ZeroDivisionError")])
def test_plan_of_a_program_without_a_step_is_an_error(program, said, tmp_path):
    done = plan(tmp_path, "--devices", "2xH100", program=program)
    assert done.returncode == 1 and re.search(said, done.stderr), done.stderr


def test_a_carried_value_that_is_stacked_too_is_computed_in_place():
    f = lm.function(lambda xs: lm.scan(lambda h, x: (lm.tanh(lm.sin(h) * x), h), lm.ones([40, 40]), xs))
    body = re.search(r"inside of 0, a scan of 30 iterations:\n((?: +\d+ .*\n)+)", str(f.explain(lm.zeros([30, 40, 40]), device="null:h100")))[1]
    assert [line.split()[1] for line in body.splitlines()] == ["copy", "elementwise"], "the value before goes to the stack"
    xs, h, stack = lm.random.normal([3, 2, 2]), lm.ones([2, 2]), []
    for x in xs:
        stack.append(h.numpy())
        h = lm.tanh(lm.sin(h) * x)
    last, all_before = lm.function(lambda xs: lm.scan(lambda h, x: (lm.tanh(lm.sin(h) * x), h), lm.ones([2, 2]), xs))(xs)
    np.testing.assert_allclose(last, h, rtol=1e-6)
    np.testing.assert_allclose(all_before, stack, rtol=1e-6)
