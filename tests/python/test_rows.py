"""Rows of tests/rows.txt that no other test covers; each test is marked with its rows. Also tests the table itself."""
import contextlib
import glob
import importlib.util
import io
import os
import re
import subprocess
import sys
import time
import timeit
import warnings

import numpy as np
import pytest

import lamina as lm

c = lm.constant
row = pytest.mark.row


def test_every_row_has_a_test_or_a_reason():
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rows.py")
    spec = importlib.util.spec_from_file_location("rows", path)
    rows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rows)
    known, carried = rows.rows(), rows.carriers()
    assert rows.problems(known, carried) == [] and len(known) == 198
    lost = {n: t for n, t in known.items() if n != "S2-9"}
    assert rows.problems(lost, {}) and rows.problems(lost, {"S9-1": ["here"]})[-1] == "here carries S9-1, which is no row"


OPS = [lambda x: x + 1, lambda x: 1 - x, lambda x: x * x, lambda x: x / 2, lambda x: x ** 2, lambda x: -x, lambda x: x @ x, lambda x: x[0], lambda x: x[:, 1], lambda x: x > 0.5,
       lm.exp, lm.tanh, lm.relu, lm.sum, lm.mean, lm.max, lm.argmax, lm.softmax, lm.transpose, lm.flatten, lm.cumsum, lm.sort, lm.zeros_like, lm.ones_like, lm.isnan, lm.sign,
       lambda x: lm.reshape(x, (9,)), lambda x: lm.concat([x, x], 1), lambda x: lm.stack([x, x]), lambda x: lm.where(x > 0.5, x, 0.0), lambda x: lm.clip(x, 0.2, 0.8),
       lambda x: lm.einsum("ij,jk->ik", x, x), lambda x: lm.astype(x, lm.int32), lambda x: lm.one_hot(lm.argmax(x, 1), 3), lambda x: lm.logsumexp(x, axis=1)]


@row("S1-3")
@pytest.mark.parametrize("op", range(len(OPS)))
def test_an_op_gives_the_same_eagerly_and_traced(op):
    assert lm.executing_eagerly()
    lm.testing.assert_graph_matches_eager(OPS[op], lm.random.uniform((3, 3)))


@row("S0-4", "S0-17", "S0-18", "S0-19", "S0-22", "S0-27")
def test_a_chain_of_products_is_traced_and_is_exact_to_float32():
    def chain(x, y):
        s = lm.zeros_like(x, dtype=lm.float32)
        s = s + lm.matmul(x, y)
        for _ in range(10):
            s = s + lm.matmul(s, y) * x
        return s

    size = 300
    x = lm.ones((size, size), dtype=lm.float32)
    y = lm.ones_like(x, dtype=lm.float32)
    want = size * (size + 1) ** 10
    for result in (chain(x, y), lm.function(chain)(x, y)):
        got = result.numpy().astype(np.float64)
        assert np.abs(got / want - 1).max() < 5e-5
    ops = lm.inspect(lm.function(chain), x, y).traced
    assert ops.count("matmul") == 11
    assert lm.ones((2, 3), dtype=lm.float64).dtype == lm.float64
    for like in (lm.zeros_like, lm.ones_like):
        assert like(x).dtype == lm.float32 and like(x, dtype=lm.int32).dtype == lm.int32 and like(x, dtype=lm.int32).shape == x.shape


@row("S0-11", "S1-77")
def test_a_ragged_tail_costs_one_trace_and_none_with_an_open_dimension():
    rows = np.arange(70, dtype=np.float32).reshape(70, 1)
    feed = lm.data.Dataset.from_tensor_slices((rows,)).batch(32)
    step = lm.function(lambda x: lm.sum(x))
    opened = lm.function(lambda x: lm.sum(x), input_signature=[lm.TensorSpec([None, 1], lm.float32)])
    for _ in range(2):
        total = sum(float(step(x)) for (x,) in feed)
        assert total == sum(float(opened(x)) for (x,) in feed) == rows.sum()
    assert step.trace_count == 2 and opened.trace_count == 1


@row("S0-13", "S0-15", "S0-31", "S1-13", "S1-15")
def test_constants_are_folded_equal_nodes_merged_and_dead_nodes_removed():
    def f(x, y):
        lm.exp(x)  # unused
        return lm.sin(x * y) + lm.sin(x * y) + (c(2.0) * 3.0 + 4.0)
    seen = lm.inspect(lm.function(f), c(1.0), c(2.0))
    assert seen.traced.count("sin") == 2 and seen.optimized.count("sin") == 1
    assert seen.traced.count("exp") == 1 and "exp" not in seen.optimized
    assert seen.optimized.count("mul") <= 2
    v = lm.Variable(0.0)

    @lm.function
    def g(x):
        v.assign(x)          # an effect: it stays
        lm.random.normal([])  # a draw is kept, and so is its counter
        return c(1.0)
    g(c(5.0))
    assert float(v) == 5

    @lm.function
    def h(x):
        lm.print("seen", x)
        assert x > 0
        return c(1.0)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(lm.errors.AssertionFailed):
        h(c(2.0)), h(c(-1.0))
    assert out.getvalue() == "seen 2\nseen -1\n"
    lm.random.set_seed(3)
    g(c(1.0))
    after = float(lm.random.normal([]))
    lm.random.set_seed(3)
    lm.random.normal([])
    assert float(lm.random.normal([])) == after


@row("S0-21", "S1-20")
def test_a_function_is_an_ordinary_callable():
    runs = []
    f = lm.function(lambda *, x, k=2: runs.append(1) or x * k)

    def timed(fn):
        def wrapper(*args, **kwargs):
            fn(*args, **kwargs)
            lm.synchronize()
        return wrapper
    timed(f)(x=c(2))
    assert timeit.timeit(lambda: f(x=c(2)), number=20) > 0 and len(runs) == 1


@row("S0-34")
def test_source_text_may_have_any_letters():
    @lm.function
    def функция(значение):
        сообщение = "больше нуля"
        if значение > 0:
            lm.print(сообщение)
        return значение

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        функция(c(1))
    assert out.getvalue() == "больше нуля\n" and "значение" in lm.autograph.to_code(функция)


@row("S0-34")
@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_source_text_and_its_line_numbers_do_not_depend_on_the_locale(tmp_path, locale):
    (tmp_path / "программа.py").write_text("import lamina as lm\n\n@lm.function\ndef f(x):\n    s = 'больше нуля'\n    if x > 0:\n        return lm.matmul(x, x), s\n    return x, s\n\n"
                                           "try:\n    f(lm.constant(1))\nexcept lm.errors.Error as e:\n    import os; print(ascii(os.fsencode(e.where)))\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8", "PYTHONIOENCODING"))}
    done = subprocess.run([sys.executable, "-X", "utf8=0", tmp_path / "программа.py"], capture_output=True, text=True,
                          env={**environment, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0 and ascii("программа.py:7".encode())[2:-1] in done.stdout, done.stdout + done.stderr


@row("S0-35")
def test_the_limitations_are_written_down():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "functions.md"), encoding="utf-8") as f:
        text = f.read()
    listed = re.findall(r"^- .*(?:\n  .*)*", text.split("## Limitations")[1].split("\n## ")[0], re.M)
    assert len(listed) >= 10
    tests = "".join(open(path, encoding="utf-8").read() for path in glob.glob(os.path.join(root, "tests", "python", "test_*.py")))
    for line in listed[:-1]:  # the last is about memory
        named = re.findall(r"`(test_\w+?)(?:\.\.\.)?`", line)
        marked = re.findall(r"\b(S\d-\d+)\b", line)
        assert named or marked, line
        assert all(f"def {name}" in tests for name in named) and all(f'"{name}"' in tests for name in marked), line


@row("S0-40")
def test_a_large_graph_is_traced_in_about_linear_time():
    def f(x, n):
        for i in range(n):
            x = x + 1.0 if i % 2 else x * 0.5
        return x
    def least(n):
        """Microseconds of tracing and compiling a graph of n ops."""
        times = []
        for _ in range(3):
            g = lm.function(f)
            begin = time.perf_counter()
            assert float(g(c(1.0), n)) == pytest.approx(2.0, abs=1)
            times.append(time.perf_counter() - begin)
            assert [t["microseconds"] > 0 for t in g.traces] == [True]
        return min(times)
    assert least(8000) < 30 * least(1000)  # work that grows with the square would be 64 times as much


@row("S1-21", "S2-10", "S2-7", "S2-22", "S2-23")
def test_the_first_examples():
    g = lm.function(lambda x, y, b: lm.matmul(x, y) + b)
    assert repr(g(c([[1.0, 2.0]]), c([[2.0], [3.0]]), c(4.0)).numpy()) == "array([[12.]], dtype=float32)"
    assert c([[10, 10], [11.0, 1.0]]).dtype == lm.float32

    def f():
        b = lm.Variable(12.0)  # allowed outside of a trace
        return lm.matmul(c([[10, 10], [11.0, 1.0]]), c([[1.0, 0.0], [0.0, 1.0]])) + b
    for _ in range(2):
        assert f().numpy().tolist() == [[22, 22], [23, 13]]

    @lm.function
    def ported():
        a, x = c([[10, 10], [11.0, 1.0]]), c([[1.0, 0.0], [0.0, 1.0]])
        return lm.matmul(a, x) + 12
    assert ported().numpy().tolist() == ported().numpy().tolist() == [[22, 22], [23, 13]] and ported.trace_count == 1


@row("S1-27")
def test_python_numbers_are_weak_and_tensors_are_not():
    assert (c(2) - 1).dtype == lm.int32 and (c(2.0) - 1).dtype == lm.float32
    with pytest.raises(lm.errors.TypeMismatch):
        c(2) * 1.5
    with pytest.raises(lm.errors.TypeMismatch):
        c(2) + c(2.0)


@row("S1-46")
def test_a_tensor_prints_its_value_shape_and_dtype():
    assert str(c(1)) == "lm.Tensor(1, shape=(), dtype=int32)"
    assert str(c([1.0, 1.0])) == "lm.Tensor([1. 1.], shape=(2,), dtype=float32)"


@row("S1-54", "S1-58")
def test_models_are_called_directly_and_may_end_with_an_own_layer():
    calls = []

    class Watch(lm.nn.Layer):
        def call(self, x):
            calls.append(1)
            return x

    class Net(lm.nn.Model):
        def __init__(self):
            super().__init__()
            self.dense, self.watch = lm.nn.Dense(3), Watch()

        def call(self, x):
            return self.watch(self.dense(x))

    net = Net()
    assert net(lm.ones((2, 4))).shape == (2, 3) and net(lm.ones((2, 4))).shape == (2, 3)
    assert len(calls) == 2 and lm.executing_eagerly()


@row("S1-61", "S1-68")
def test_compile_sets_rmsprop_and_keeps_the_weights():
    net = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Dense(2)])
    net.compile(loss="mse")
    assert type(net.optimizer).__name__ == "RMSprop" and float(net.optimizer.learning_rate) == pytest.approx(0.001)
    before = [w.copy() for w in net.get_weights()]
    net.compile(loss="mse", run_eagerly=True)
    for a, b in zip(before, net.get_weights()):
        np.testing.assert_array_equal(a, b)


@row("S1-72", "S1-73")
def test_a_graph_is_traced_on_demand_also_while_functions_run_eagerly():
    runs = []
    f = lm.function(lambda x: runs.append(1) or x + 1)
    with lm.config.run_functions_eagerly(True):
        concrete = f.get_concrete_function(c(1))
        assert len(runs) == 1 and "x" in str(concrete)
        f(c(1)), f(c(2))
        assert len(runs) == 3
    f(c(1)), f(c(2))
    assert len(runs) == 3 and f.trace_count == 1


@row("S1-74")
def test_an_old_name_works_and_warns_once_with_the_callers_line():
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        for _ in range(2):
            lm.config.experimental_run_functions_eagerly(False)
    assert len(log) == 1 and issubclass(log[0].category, DeprecationWarning) and log[0].filename == __file__
    assert "lm.config.run_functions_eagerly" in str(log[0].message)


@row("S1-80", "S1-82", "S2-43")
def test_tensors_share_a_graph_and_python_numbers_have_one_each():
    traced = []

    @lm.function
    def f(x):
        traced.append(x)
        return x * x + c(2)
    assert [int(f(x)) for x in (c(2), c(3), 2, 3, 2, 3)] == [6, 11, 6, 11, 6, 11]
    assert len(traced) == 3 and f.trace_count == 3 and f(3).dtype == lm.int32
    assert "mul" not in lm.inspect(f, 3).traced  # 3 * 3 is Python's


@row("S2-16")
def test_without_source_a_function_is_traced_as_it_is_and_a_condition_says_so():
    scope = {}
    exec("def f(x):\n    return x + 1\ndef g(x):\n    if x > 0: return x\n    return -x\n", scope)
    assert int(lm.function(scope["f"])(c(1))) == 2
    with pytest.raises(lm.errors.Error, match="source .*not available"):
        lm.function(scope["g"])(c(1))


@row("S2-20")
def test_graphs_belong_to_a_function_not_to_its_name():
    one, two = lm.function(lambda x: x + 1), lm.function(lambda x: x + 2)
    assert int(one(c(1))) == 2 and int(two(c(1))) == 3


@row("S2-27", "S2-35", "S2-42", "S2-29")
def test_python_prints_once_and_the_graph_on_every_call():
    class Cell:
        def __init__(self):
            self.b = None

        @lm.function
        def __call__(self):
            if self.b is None:
                self.b = lm.Variable(12.0)
            y = c([[10.0, 10.0], [11.0, 1.0]]) + self.b
            print("PRINT:", y)
            lm.print("GRAPH:", y)
            return y

    out, cell = io.StringIO(), Cell()
    with contextlib.redirect_stdout(out):
        first = cell()
        cell()
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("PRINT: lm.Tensor(\"add:0\", shape=(2, 2), dtype=float32") and lines[1:] == ["GRAPH: [[22 22]", " [23 13]]"] * 2
    assert type(first) is lm.Tensor and first.numpy().tolist() == [[22, 22], [23, 13]]
