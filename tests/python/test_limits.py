"""lm.limits: programs stop instead of running or growing beyond what the caller allows, and everything stays usable."""
import ctypes, os, subprocess

import numpy as np
import pytest

import lamina as lm
from built import BUILD

SCALAR = lm.TensorSpec([], lm.float32)


def plain_loop(x):
    while x < 1:
        x = x * 1
    return x


def loop_in_a_branch(x):
    if x < 1:
        while x < 1:
            x = x * 1
    return x


def loop_in_a_loop(x):
    for _ in lm.range(3):
        while x < 1:
            x = x * 1
    return x


def loop_of_large_steps(x):
    rows = lm.zeros([300, 300])
    while x < 1:
        rows = lm.tanh(rows @ rows)
        x = x * 1
    return x + lm.sum(rows)


def long_scan(x):
    return lm.scan(lambda carry, _: (lm.sin(carry), None), x, lm.zeros([10**9, 0]))[0]


ENDLESS = [plain_loop, loop_in_a_branch, loop_in_a_loop, loop_of_large_steps, long_scan]


@pytest.mark.parametrize("body", ENDLESS, ids=lambda f: f.__name__)
def test_a_loop_is_stopped(body):
    f = lm.function(body, input_signature=[SCALAR])
    f.get_concrete_function(SCALAR)
    with lm.limits(seconds=0.1), pytest.raises(lm.errors.TimeLimitExceeded, match="0.1 seconds"):
        f(lm.constant(0.0))
    if body is not long_scan:
        assert float(f(lm.constant(2.0)).numpy()) == 2


def test_ops_that_run_one_by_one_are_stopped():
    with lm.limits(seconds=0.05), pytest.raises(TimeoutError):
        x = lm.zeros([2])
        while True:
            x = x + 1


def test_variables_keep_whole_values():
    v = lm.Variable(np.zeros(1000, np.float32))

    @lm.function
    def count():
        while v[0] < 1e9:
            v.assign_add(lm.ones([1000]))

    with lm.limits(seconds=0.1), pytest.raises(TimeoutError):
        count()
    assert len(set(v.numpy())) == 1


@pytest.mark.parametrize("make", [
    lambda: lm.zeros([1 << 20]), lambda: lm.constant(np.zeros(1 << 20, np.float32)), lambda: lm.Variable(np.zeros(1 << 20, np.float32)),
    lm.function(lambda: lm.zeros([1 << 20]) + 1), lm.function(lambda: lm.sort(lm.random.uniform([1 << 20]))[0]),
    lambda: lm.zeros([1 << 10, 1]) + lm.zeros([1, 1 << 10])], ids=["zeros", "array", "Variable", "result", "intermediate", "op"])
def test_memory_is_limited(make):
    with lm.limits(bytes=1 << 20), pytest.raises(lm.errors.OutOfMemory, match="memory limit"):
        make()
    make()


def test_a_limit_that_suffices_changes_nothing():
    f = lm.function(lambda x: lm.sort(x) * 2)
    x = lm.random.uniform([1000])
    with lm.limits(seconds=1000, bytes=1 << 24):
        limited = f(x)
    np.testing.assert_array_equal(limited.numpy(), f(x).numpy())


@pytest.mark.parametrize("limits", [{"seconds": -1}, {"seconds": float("nan")}, {"bytes": -1}, {"bytes": -2}])
def test_what_is_no_limit_is_refused(limits):
    with pytest.raises(lm.errors.InvalidArgument, match="limit is negative"):
        lm.limits(**limits)


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("endless") / "program")
    lm.save({body.__name__: lm.function(body, input_signature=[SCALAR]) for body in ENDLESS}, folder)
    return folder


@pytest.mark.parametrize("name", [body.__name__ for body in ENDLESS])
def test_a_loaded_program_is_stopped(endless, name, tmp_path):
    with lm.limits(seconds=0.2), pytest.raises(lm.errors.TimeLimitExceeded):
        getattr(lm.load(endless), name)(lm.constant(0.0))

    runner = os.path.join(BUILD, "lamina-run")
    np.save(tmp_path / "x.npy", np.float32(0))
    ran = subprocess.run([runner, endless, "--signature", name, "--input", f"x={tmp_path}/x.npy", "--seconds", "0.2"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and "time limit of 0.2 seconds" in ran.stderr

    library = ctypes.CDLL(os.path.join(BUILD, "python", "lamina", "liblamina.so"))
    library.lamina_last_error.restype = ctypes.c_char_p
    module, x, results, zero = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(0)
    assert library.lamina_module_load(endless.encode(), ctypes.byref(module)) == 0
    assert library.lamina_tensor_new(8, ctypes.c_size_t(0), None, ctypes.byref(zero), ctypes.byref(x)) == 0
    library.lamina_set_limits.argtypes = [ctypes.c_double, ctypes.c_int64]
    assert library.lamina_set_limits(0.2, -1) == 0
    try:
        status = library.lamina_call(module, name.encode(), ctypes.c_size_t(1), (ctypes.c_char_p * 1)(b"x"), (ctypes.c_void_p * 1)(x), ctypes.byref(results))
    finally:
        library.lamina_set_limits(-1, -1)
    assert status == 10 and b"time limit" in library.lamina_last_error()
