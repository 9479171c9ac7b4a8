"""The C interface: from a C99 program, and from Python by ctypes, where neither knows anything of Lamina but its header and its library."""
import ctypes
import os
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

import lamina as lm

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.path.join(os.path.dirname(lm.__file__), "liblamina.so")
HEADER = os.path.join(ROOT, "capi", "lamina_c.h")


class Policy(lm.Module):
    def __init__(self):
        super().__init__()
        self.w = lm.Variable([[0.5], [-0.25], [0.125]])

    @lm.function(input_signature=[lm.TensorSpec([None, 3], lm.float32)])
    def score(self, x):
        return lm.matmul(x, self.w)

    @lm.function(input_signature=[lm.TensorSpec(["n", 3], lm.float32), lm.TensorSpec(["n", 1], lm.float32)])
    def step(self, x, y):
        with lm.GradientTape() as tape:
            loss = lm.mean((lm.matmul(x, self.w) - y) ** 2)
        self.w.assign_sub(0.01 * tape.gradient(loss, self.w))
        return {"loss": loss}


@pytest.fixture
def saved(tmp_path):
    policy = Policy()
    lm.save(policy, tmp_path / "policy")
    return policy, tmp_path


@pytest.mark.row("S0-16")
def test_a_c99_program_runs_and_trains_it(saved):
    policy, folder = saved
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    os.makedirs(folder / "include" / "lamina")
    shutil.copy(HEADER, folder / "include" / "lamina")
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}/include", os.path.join(ROOT, "examples", "c", "serve.c"), "-o",
                    folder / "serve", f"-L{os.path.dirname(LIBRARY)}", "-llamina", f"-Wl,-rpath,{os.path.dirname(LIBRARY)}"], check=True)
    done = subprocess.run([folder / "serve", folder / "policy", folder / "trained"], capture_output=True, text=True, check=True)
    x, y = lm.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), lm.constant([[1.0], [0.0]])
    scores, loss = policy.score(x).numpy().ravel(), float(policy.step(x, y)["loss"])
    assert f"scores {scores[0]:g} {scores[1]:g}" in done.stdout and f"loss {loss:g}" in done.stdout
    assert np.array_equal(lm.load(folder / "trained").w.numpy(), policy.w.numpy())
    needed = subprocess.run(["ldd", folder / "serve"], capture_output=True, text=True).stdout
    assert "libpython" not in needed and "cuda" not in needed
    failed = subprocess.run([folder / "serve", folder / "nothing", folder / "trained"], capture_output=True, text=True)
    assert failed.returncode == 1 and "error 8" in failed.stderr


class C:
    """The library by ctypes."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        for name in ("lamina_last_error", "lamina_module_text", "lamina_results_name"):
            getattr(self.library, name).restype = ctypes.c_char_p
        for name in ("lamina_results_find", "lamina_results_tensor"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.lamina_tensor_length.restype = ctypes.c_int64
        for name in ("lamina_results_count", "lamina_tensor_rank", "lamina_tensor_bytes"):
            getattr(self.library, name).restype = ctypes.c_size_t

    def __getattr__(self, name):
        return getattr(self.library, "lamina_" + name)

    def load(self, path):
        module = ctypes.c_void_p()
        status = self.module_load(os.fsencode(path), ctypes.byref(module))
        return status, module

    def tensor(self, array):
        array = np.ascontiguousarray(array)
        dtype = {"bool": 0, "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 8, "float64": 9}[str(array.dtype)]
        out = ctypes.c_void_p()
        assert self.tensor_new(dtype, ctypes.c_size_t(array.ndim), (ctypes.c_int64 * array.ndim)(*array.shape), array.ctypes.data_as(ctypes.c_void_p), ctypes.byref(out)) == 0
        return out

    def values(self, tensor, dtype="float32"):
        tensor, data = ctypes.c_void_p(tensor), ctypes.c_void_p()
        assert self.tensor_data(tensor, ctypes.byref(data)) == 0
        shape = [self.tensor_length(tensor, ctypes.c_size_t(i)) for i in range(self.tensor_rank(tensor))]
        return np.frombuffer(ctypes.string_at(data, self.tensor_bytes(tensor)), dtype).reshape(shape)

    def run(self, module, function, **arguments):
        results = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(arguments))(*[name.encode() for name in arguments])
        tensors = (ctypes.c_void_p * len(arguments))(*[tensor.value for tensor in arguments.values()])
        return self.call(module, function.encode(), ctypes.c_size_t(len(arguments)), names, tensors, ctypes.byref(results)), results


class Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t), ("shape", ctypes.POINTER(ctypes.c_int64))]

    def described(self):
        return self.name.decode(), self.dtype, [self.shape[i] for i in range(self.rank)]


def test_a_program_says_what_its_functions_take_and_give(tmp_path):
    @lm.function(input_signature=[lm.TensorSpec([None, 3], lm.float32), lm.TensorSpec([], lm.bool)])
    def score(rows, flag):
        return {"sum": lm.sum(rows, axis=1), "flag": flag}

    model = lm.Module()
    model.score = score
    model.twice = lm.function(lambda x: x * 2)
    model.twice(lm.ones((2, 2)))
    model.twice(lm.constant([1, 2]))
    lm.save(model, tmp_path / "model")
    c = C()
    for name in ("graph_count", "graph_arguments", "graph_results"):
        getattr(c.library, "lamina_" + name).restype = ctypes.c_size_t
    c.library.lamina_graph_function.restype = ctypes.c_char_p
    status, module = c.load(tmp_path / "model")
    assert status == 0

    def values(kind, graph):
        count, out = getattr(c, f"graph_{kind}s")(module, ctypes.c_size_t(graph)), Value()
        found = []
        for i in range(count):
            assert getattr(c, f"graph_{kind}")(module, ctypes.c_size_t(graph), ctypes.c_size_t(i), ctypes.byref(out)) == 0
            found.append(out.described())
        assert getattr(c, f"graph_{kind}")(module, ctypes.c_size_t(graph), ctypes.c_size_t(count), ctypes.byref(out)) == 5 and out.name is None
        return found

    graphs = [(c.graph_function(module, ctypes.c_size_t(g)), values("argument", g), values("result", g)) for g in range(c.graph_count(module))]
    assert graphs == [(b"score", [("rows", 8, [-1, 3]), ("flag", 0, [])], [("sum", 8, [-1]), ("flag", 0, [])]), (b"twice", [("x", 4, [2])], [("output", 4, [2])]),
                      (b"twice", [("x", 8, [2, 2])], [("output", 8, [2, 2])])]
    assert c.graph_function(module, ctypes.c_size_t(3)) is None and c.graph_count(None) == 0 and c.graph_arguments(None, ctypes.c_size_t(0)) == 0
    assert c.graph_argument(module, ctypes.c_size_t(3), ctypes.c_size_t(0), ctypes.byref(Value())) == 5 and b"there is no graph 3" in c.last_error()
    assert c.graph_argument(module, ctypes.c_size_t(0), ctypes.c_size_t(0), None) == 1 and c.graph_result(None, ctypes.c_size_t(0), ctypes.c_size_t(0), ctypes.byref(Value())) == 1
    c.module_free(module)


def test_ctypes_calls_reads_assigns_and_gets_errors(saved):
    policy, folder = saved
    c = C()
    assert c.c_version() == 2
    status, module = c.load(folder / "policy")
    assert status == 0 and b"function score" in c.module_text(module)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    status, results = c.run(module, "score", x=c.tensor(x))
    assert status == 0 and c.results_count(results) == 1 and c.results_name(results, 0) == b"output" and c.results_name(results, 1) is None
    assert np.array_equal(c.values(c.results_find(results, b"output")), policy.score(lm.constant(x)).numpy())
    assert c.results_find(results, b"no") is None
    for call, status, text in [(lambda: c.run(module, "scare", x=c.tensor(x))[0], 5, b"score"), (lambda: c.run(module, "score", z=c.tensor(x))[0], 3, b"names"),
                               (lambda: c.run(module, "score", x=c.tensor(x[:, :2]))[0], 3, b"3"), (lambda: c.load(folder / "no")[0], 8, b"no"),
                               (lambda: c.module_load(None, ctypes.byref(ctypes.c_void_p())), 1, b"NULL"), (lambda: c.module_load(b"x", None), 1, b"NULL"),
                               (lambda: c.run(None, "score", x=c.tensor(x))[0], 1, b"NULL"), (lambda: c.module_save(module, b"/nowhere/at/all"), 8, b"")]:
        assert call() == status and text in c.last_error() and b"where: " in c.last_error(), (status, c.last_error())
    assert c.run(None, "score", x=c.tensor(x))[0] == 1 and b"where: lamina_call" in c.last_error()
    assert c.variable_assign(module, b"w", c.tensor(np.ones((3, 1), "float32"))) == 0
    read = ctypes.c_void_p()
    assert c.variable_read(module, b"w", ctypes.byref(read)) == 0 and c.values(read.value).tolist() == [[1.0]] * 3
    assert c.variable_assign(module, b"w", c.tensor(np.ones((2, 1), "float32"))) != 0
    out = ctypes.c_void_p(5)
    assert c.tensor_new(77, ctypes.c_size_t(0), None, None, ctypes.byref(out)) == 2 and out.value is None
    assert c.tensor_new(8, ctypes.c_size_t(1), (ctypes.c_int64 * 1)(-1), None, ctypes.byref(out)) == 1
    assert c.tensor_new(8, ctypes.c_size_t(2), (ctypes.c_int64 * 2)(2**40, 2**40), x.ctypes.data_as(ctypes.c_void_p), ctypes.byref(out)) != 0
    c.results_free(results), c.tensor_free(read), c.module_free(module), c.module_free(None), c.tensor_free(None), c.results_free(None)


def test_threads_call_one_module(saved):
    policy, folder = saved
    c = C()
    _, module = c.load(folder / "policy")
    x = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")
    expected, wrong = policy.score(lm.constant(x)).numpy(), []

    def work():
        tensor = c.tensor(x)
        for _ in range(200):
            status, results = c.run(module, "score", x=tensor)
            if status != 0 or not np.array_equal(c.values(c.results_find(results, b"output")), expected):
                wrong.append(status)
            c.results_free(results)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_every_function_of_the_header_is_in_the_library():
    with open(HEADER) as file:
        names = set(re.findall(r"\b(lamina_\w+)\(", file.read()))
    assert len(names) > 20
    library = ctypes.CDLL(LIBRARY)
    for name in names:
        getattr(library, name)


def test_bytes_of_bools_other_than_0_and_1_are_true():
    library, t, data = ctypes.CDLL(LIBRARY), ctypes.c_void_p(), ctypes.c_void_p()
    assert library.lamina_tensor_new(0, ctypes.c_size_t(1), (ctypes.c_int64 * 1)(11), bytes([255, 0, 1, 2] + [0] * 6 + [7]), ctypes.byref(t)) == 0
    assert library.lamina_tensor_data(t, ctypes.byref(data)) == 0
    assert ctypes.string_at(data, 11) == bytes([1, 0, 1, 1] + [0] * 6 + [1])
    library.lamina_tensor_free(t)
