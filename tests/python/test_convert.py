"""python -m lamina convert: the same numbers in each form of a model."""
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
import lamina.__main__ as command

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
F32 = lm.float32


def dense(x):
    return lm.relu(lm.matmul(x, dense.w) + 1.0)


dense.w = lm.Variable(np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3), name="net.0.w")


def several(a, b):
    return {"sum": a + b, "largest": lm.argmax(b, axis=-1)}


def branches(x, times):
    shifted = lm.fori_loop(0, 3, lambda i, v: v - lm.sum(dense.w) * lm.astype(times, F32), x)
    return lm.cond(lm.sum(x) > 0, lambda: x * 2, lambda: shifted)


def looked_up(ids):
    return lm.take(dense.w, ids, axis=0), ids * 2


N = lm.TensorSpec
CASES = {  # the function, and the specs of its arguments
    "dense": (dense, [N(["rows", 4], F32, name="obs.1")]), "fixed": (dense, [N([2, 4], F32, name="x")]), "no name": (dense, [N([None, 4], F32)]),
    "several": (several, [N(["n", 3], F32, name="a"), N(["n", 3], F32, name="b")]), "branches": (branches, [N([3], F32, name="x"), N([], lm.int64, name="times")]),
    "looked up": (looked_up, [N(["n"], lm.int32, name="ids")]),
}


def arguments(specs, rng):
    shapes = [[2 if d is None else d for d in spec.shape] for spec in specs]
    return [rng.integers(0, 4, shape).astype(str(spec.dtype)) if "int" in str(spec.dtype) else rng.normal(size=shape).astype("float32") for spec, shape in zip(specs, shapes)]


def leaves(result):
    parts = list(result.values()) if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    return [part.numpy() for part in parts]


@pytest.mark.parametrize("case", CASES)
def test_an_onnx_file_becomes_a_program_and_a_file_again(case, tmp_path):
    fn, specs = CASES[case]
    first, program, second = tmp_path / "first.onnx", tmp_path / "program", tmp_path / "second.ONNX"
    lm.onnx.save(fn, first, *specs)
    assert command.main(["convert", str(first), str(program)]) == 0 and command.main(["convert", str(program), str(second)]) == 0
    forms = [lm.onnx.load(first), lm.load(program), lm.onnx.load(second)]
    assert forms[0].inputs == forms[2].inputs and sorted(forms[0].outputs) == sorted(forms[2].outputs)
    assert sorted(forms[0].variables) == sorted(forms[1].state_dict()) == sorted(forms[2].variables)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = arguments(specs, rng)
        want = leaves(lm.function(fn)(*x))
        for form in forms:
            for a, b in zip(leaves(form(*x)), want, strict=True):
                assert a.dtype == b.dtype and np.array_equal(a, b)
    assert np.array_equal(leaves(lm.load(program)(**dict(zip(forms[0].inputs, x))))[0], want[0])  # by the names in the file


def test_a_program_of_an_onnx_file_is_live(tmp_path):
    lm.onnx.save(dense, tmp_path / "a.onnx", N([None, 4], F32))
    lm.save(lm.onnx.load(tmp_path / "a.onnx"), tmp_path / "a")
    again, x = lm.load(tmp_path / "a"), np.ones((2, 4), "float32")
    with lm.GradientTape() as tape:
        cost = lm.sum(again(x))
    weights = again.variables[0]
    slope = tape.gradient(cost, weights)
    assert slope.shape == (4, 3) and float(lm.sum(lm.abs(slope))) > 0
    weights.assign(lm.zeros((4, 3)))
    assert again(x).numpy().tolist() == [[1.0] * 3] * 2


def test_keras_files(tmp_path):
    pytest.importorskip("h5py", reason="the package h5py is not installed: ./dev setup, or pip install h5py")
    net = lm.nn.Sequential([lm.nn.Input((6, 6, 1)), lm.nn.Conv2D(3, 3, activation="relu"), lm.nn.Flatten(), lm.nn.Dense(2)])
    file, x = str(tmp_path / "net.keras"), np.random.default_rng(0).normal(size=(3, 6, 6, 1)).astype("float32")
    net.compile("adam", "mse")
    lm.nn.save_file(net, file)
    assert command.main(["convert", file, str(tmp_path / "program")]) == 0 and command.main(["convert", file, str(tmp_path / "net.onnx")]) == 0
    assert np.array_equal(lm.load(tmp_path / "program")(x).numpy(), net(x).numpy())
    np.testing.assert_allclose(lm.onnx.load(tmp_path / "net.onnx")(x).numpy(), net(x).numpy(), atol=1e-6)


def test_of_several_functions_one_is_named(tmp_path, capsys):
    net = lm.nn.Sequential([lm.nn.Dense(2)])
    net.compile("sgd", "mse")
    x = np.ones((4, 3), "float32")
    net.fit(x, x[:, :2], verbose=0)
    program, file = str(tmp_path / "program"), str(tmp_path / "net.onnx")
    lm.save(net, program)
    assert command.main(["convert", program, file, "--signature", "step"]) == 1
    assert "it has call, train_step" in capsys.readouterr().err
    assert command.main(["convert", program, file]) == 0  # call, which is meant
    np.testing.assert_allclose(lm.onnx.load(file)(x).numpy(), net(x).numpy(), atol=1e-6)
    assert command.main(["convert", program, file, "--signature", "call"]) == 0
    np.testing.assert_allclose(lm.onnx.load(file)(x).numpy(), net(x).numpy(), atol=1e-6)
    lm.save({"call": lm.function(lambda x: x, input_signature=[N([2], F32)])}, program)
    assert command.main(["convert", program, file]) == 0


@pytest.mark.parametrize("source, target, more, text", [
    ("none.onnx", "p", [], "none.onnx cannot be read"), ("none", "a.onnx", [], "cannot open the folder"), ("none.keras", "p", [], "none.keras"),
    ("a.onnx", "b.onnx", [], "are both ONNX files"), ("two", "p", [], "are both saved programs"), ("two", "b.keras", [], "lm.nn.save_file"), ("a.keras", "b.keras", [], "lm.nn.save_file"),
    ("two", "b.onnx", [], "it has a, b"), ("two", "b.onnx", ["--signature", "c"], "no signature 'c'"), ("two", "b.onnx", ["--signature", "b"], "has 2 graphs"),
    ("two", "b.onnx", ["--signature", "a"], "the op assign cannot be written"), ("a.onnx", "p", ["--signature", "a"], "is for saved programs"), ("a.onnx", ".", [], "holds something else"),
    ("shape.onnx", "p", [], "decides shapes"), ("damaged.onnx", "p", [], "is no ONNX model"),
])
def test_what_cannot_be_converted_is_an_error(source, target, more, text, tmp_path, monkeypatch, capsys):
    import onnx
    from onnx import helper

    monkeypatch.chdir(tmp_path)
    v = lm.Variable(0.0)
    b = lm.function(lambda x: x)
    b(lm.ones(2))
    b(lm.ones(3))
    lm.save({"a": lm.function(lambda x: v.assign(x), input_signature=[N([], F32)]), "b": b}, "two")
    lm.onnx.save(dense, "a.onnx", N([None, 4], F32))
    (tmp_path / "damaged.onnx").write_bytes((tmp_path / "a.onnx").read_bytes()[:-40])
    values = [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in [("x", 1, [4]), ("to", 7, [2]), ("y", 1, [None, None])]]
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Reshape", ["x", "to"], ["y"])], "g", values[:2], values[2:]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
              "shape.onnx")
    before = sorted(path.name for path in tmp_path.iterdir())
    wrong_words = text.startswith(("are both", "lm.nn.save_file", "is for"))
    assert command.main(["convert", source, target, *more]) == (2 if wrong_words else 1)
    said = capsys.readouterr()
    assert text in said.err and said.out == "", said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # nothing was written


def test_it_runs_as_a_program(tmp_path):
    lm.onnx.save(dense, tmp_path / "a.onnx", N([None, 4], F32))
    run = lambda *words: subprocess.run([sys.executable, "-m", "lamina", "convert", *map(str, words)], capture_output=True, text=True)
    done = run(tmp_path / "a.onnx", tmp_path / "a")
    assert done.returncode == 0 and done.stderr == ""
    failed = run(tmp_path / "b.onnx", tmp_path / "a")
    assert failed.returncode == 1 and "fix:" in failed.stderr and "Traceback" not in failed.stderr and "runpy" not in failed.stderr
    assert run("--help").returncode == 0 and "SOURCE TARGET" in run("--help").stdout
    assert run(tmp_path / "a.onnx").returncode == 2
