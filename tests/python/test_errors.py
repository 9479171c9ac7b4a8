"""Classes and texts of errors."""
import pickle, subprocess, sys

import pytest

import lamina as lm

E = lm.errors


@pytest.mark.parametrize("cls, builtin", [
    (E.InvalidArgument, ValueError), (E.TypeMismatch, TypeError), (E.SignatureMismatch, TypeError), (E.StateError, RuntimeError),
    (E.UninitializedVariable, RuntimeError), (E.TapeUsed, RuntimeError), (E.AssertionFailed, AssertionError), (E.IndexOutOfRange, IndexError),
    (E.IndexOutOfRange, E.InvalidArgument), (E.NotFound, KeyError), (E.ConversionFailed, ValueError), (E.RetraceLimit, RuntimeError),
    (E.OutOfMemory, MemoryError), (E.TimeLimitExceeded, TimeoutError), (E.DeviceUnavailable, RuntimeError), (E.KernelBuildFailed, RuntimeError), (E.CollectiveTimeout, TimeoutError),
    (E.RankMismatch, RuntimeError), (E.BadFile, ValueError), (E.InternalError, RuntimeError),
])
def test_every_class_is_also_the_builtin_that_people_catch(cls, builtin):
    assert issubclass(cls, builtin) and issubclass(cls, E.Error)
    e = cls("it broke", where="here", why="because", fix="do that")
    assert str(e) == "it broke\n  where: here\n  why:   because\n  fix:   do that" and (e.what, e.where, e.why, e.fix) == ("it broke", "here", "because", "do that")
    copy = pickle.loads(pickle.dumps(e))
    assert type(copy) is cls and str(copy) == str(e)


@pytest.mark.row("S1-5", "S1-52")
def test_errors_of_the_compiled_part_have_the_four_parts():
    with pytest.raises(E.InvalidArgument) as info:
        lm.softmax(lm.ones((2, 4)), axis=5)
    e = info.value
    assert e.what.startswith("softmax: axis 5") and "test_errors.py" in e.where and e.why and e.fix and str(e).count("\n") == 3


def test_unknown_devices():
    with pytest.raises(E.NotFound, match="cpu:0"):
        lm.device("tpu")
    with pytest.raises(E.DeviceUnavailable):
        with lm.device("gpu:7"):
            lm.ones(1)


def test_without_a_gpu_it_says_why():
    if lm.cuda.is_available():
        assert lm.cuda.why_unavailable() == "" and "gpu:0" in lm.config.list_devices()
    else:
        assert lm.cuda.why_unavailable() and lm.config.list_devices("gpu") == []
    assert lm.config.list_devices()[-1].startswith("cpu:") and lm.config.threads() >= 1 and lm.config.cpu_isa() in ("avx512", "avx2", "scalar", "neon")


@pytest.mark.row("S1-4")
def test_device_contexts_nest_and_end():
    with lm.device("cpu:0") as d:
        with d:
            assert lm.ones(1).device == "cpu:0"
        assert lm.Variable(1.0).device == "cpu:0"
    lm.synchronize()
    with pytest.raises(TypeError, match="no device"):
        lm.device_of(3)


def test_a_bad_setting_in_the_environment_is_an_error_not_a_crash():
    import os
    run = subprocess.run([sys.executable, "-c", "import lamina as lm; lm.ones((4, 4)) @ lm.ones((4, 4))"], capture_output=True, text=True,
                         env=os.environ | {"LAMINA_CPU": "avx1024"})
    assert run.returncode == 1 and "lamina.errors" in run.stderr and "avx1024" in run.stderr and "scalar" in run.stderr


def test_importing_loads_neither_numpy_nor_matplotlib():
    code = "import sys, lamina as lm; x = lm.constant([1.0]) + 1; assert x.item() == 2; print([m for m in ('numpy', 'matplotlib', 'inspect') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr
