"""What a docstring says about errors: each public function and class is called with arguments of sensible types and wrong values; the classes that it raises are
those that its docstring names.

Not named in each docstring, since docs/errors.md says it of all: TypeError for a call that does not match the signature and for an argument of a wrong Python type,
NotFound for the name of no dtype or device, and what the machine lacks (OutOfMemory, DeviceUnavailable).
"""
import inspect
import pathlib
import random
import re
import warnings

import numpy as np
import public_surface
import pytest

import lamina as lm

# They write, wait, change the process, or are made by Lamina alone.
NOT_CALLED = {"lamina.print", "lamina.check", "lamina.testing.fma_peak", "lamina.profiler.capture", "lamina.profiler.trace", "lamina.profiler.start", "lamina.profiler.stop", "lamina.config.set_threads", "lamina.config.set_memory_limit", "lamina.config.set_virtual_devices",
              "lamina.config.experimental_run_functions_eagerly", "lamina.Explanation", "lamina.profiler.DeviceStep", "lamina.profiler.TimedRange", "lamina.synchronize", "lamina.limits"}
OF_ALL = (lm.errors.SignatureMismatch, lm.errors.OutOfMemory, lm.errors.DeviceUnavailable, lm.errors.UninitializedVariable)
DTYPES = re.compile(r"different dtypes|is not an? \w+ tensor|is not floating point|is not complex|does not hold pairs|holds no numbers|does not go with|does not become (int|float|bool)|do not become|have no dtype")
NAMES = re.compile(r"there is no dtype named|is not a device")
CALLS = 150


AXES = ("axis", "axes", "n", "k", "n_rows", "n_cols", "axis1", "axis2", "source", "destination")
TENSORS = ("x", "a", "b", "y", "t", "x1", "x2", "logits", "y_true", "y_pred", "inputs", "indices", "updates", "labels", "kernel", "condition", "mean", "scale", "offset", "variance", "low", "high", "bins")


def value(rng, parameter):
    """An argument of a type that its parameter, or its default, takes."""
    name, default = parameter.name, parameter.default
    tensor = lm.constant(np.random.default_rng(rng.randrange(9)).normal(size=rng.choice([(), (3,), (2, 3), (3, 3), (2, 3), (0,), (2, 4, 4, 2)])).astype("float32"))
    tensor = lm.astype(tensor, rng.choice(["float32", "float32", "float32", "float64", "int32", "bool"]))
    number, real = rng.choice([0, 1, 2, 3, -1, -2, 7]), rng.choice([0.5, 2.0, -1.0, 0.0, float("nan")])
    shapes, word = rng.choice([(2, 3), (-1,), (3, 3), (), (4, 5), (0, 1), (-1, -1), [1, 0]]), rng.choice(["no such word", "same", "relu", "mse", "adam"])
    if name in AXES:
        return rng.choice([number, number, shapes])
    if name == "shape":
        return shapes
    if name == "dtype":
        return rng.choice(["float32", "int32", "bool"])
    if name in TENSORS and not isinstance(default, (int, float)):
        return tensor
    for kind, of_it in ((bool, True), (int, number), (float, real), (str, word)):
        if isinstance(default, kind) or parameter.annotation == kind.__name__:
            return of_it
    return rng.choice([number, real, word, shapes, True, None, *([] if default is None else [tensor, tensor, [tensor, tensor]])])


def raised(function, name):
    """{class: the first text} of errors by arguments' values."""
    rng, out = random.Random(name), {}
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    except ValueError:
        return out
    for _ in range(CALLS):
        args = [value(rng, p) for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
        named = {p.name: value(rng, p) for p in parameters if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY and rng.random() < 0.3}
        try:
            function(*args, **named)
        except lm.errors.Error as error:
            wrong_type = isinstance(error, lm.errors.TypeMismatch) and not DTYPES.search(error.what)
            if not isinstance(error, OF_ALL) and not wrong_type and not NAMES.search(error.what) and "the argument '" not in error.what:
                out.setdefault(type(error), error.what)
        except Exception:  # test_border.py looks at those
            pass
    return out


def named(cls, text):
    """Whether a docstring names the class, or one that it is, built-in ones too."""
    return any(re.search(rf"\b{one.__name__}\b", text) for one in cls.__mro__ if one not in (lm.errors.Error, Exception, BaseException, object))


def missing(path):
    out = []
    for name, function in public_surface.callables():
        if name.rpartition(".")[0] == path and name not in NOT_CALLED:
            out += [f"{name} does not name {cls.__name__}: {what}" for cls, what in raised(function, name).items() if not named(cls, function.__doc__ or "")]
    return out


@pytest.mark.parametrize("path", sorted({name.rpartition(".")[0] for name, _ in public_surface.callables()}))
def test_docstrings_name_the_errors_that_are_raised(path, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)  # some functions write the files that they are given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = missing(path)
        finally:
            lm.config.run_functions_eagerly(False)
            lm.config.set_matmul_precision("float32")
    assert not out, f"{len(out)} of them:\n" + "\n".join(out)


def test_the_tables_names_are_public_and_have_its_sentences():
    table = (pathlib.Path(__file__).parents[2] / "python_bindings" / "src" / "raises.inc").read_text(encoding="utf-8")
    rows = re.findall(r'^RAISES\("([^"]+)",\s+"([^"]+)"\)$', table, re.M)
    assert len(rows) == table.count("\nRAISES(") > 80
    functions, seen = dict(public_surface.callables()), set()
    for names, sentence in rows:
        for name in names.split():
            assert name not in seen, f"{name} stands twice"
            seen.add(name)
            assert f"Raises {sentence}" in functions.get(f"lamina.{name}", lm).__doc__, name
