"""lamina-run: a saved program on the command line."""
import json
import os
import subprocess

import numpy as np
import pytest

import lamina as lm

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(lm.__file__))), "lamina-run")


@pytest.fixture
def saved(tmp_path):
    if not os.path.exists(RUN):
        pytest.skip("lamina-run was not built: CLI11 is missing")
    weights = lm.Variable(np.arange(3, dtype="float32").reshape(3, 1), name="w")

    @lm.function(input_signature=[lm.TensorSpec([None, 3], lm.float32, name="rows")])
    def score(rows):
        return {"scores": lm.matmul(rows, weights), "best": lm.argmax(rows, axis=0)}

    @lm.function(input_signature=[lm.TensorSpec([], lm.float32)])
    def grow(by):
        weights.assign_add(lm.ones((3, 1)) * by)

    lm.save({"score": score, "grow": grow, "w": weights}, tmp_path / "m")
    return score, tmp_path


def run(*arguments):
    return subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.row("S0-16", "S1-11")
def test_it_lists_runs_trains_and_measures(saved):
    score, folder = saved
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    np.save(folder / "x.npy", x)
    np.save(folder / "by.npy", np.float32(2.0))
    assert "function score(rows: f32[" in run(folder / "m", "--list").stdout
    listed = json.loads(run(folder / "m", "--list", "--json").stdout)
    assert listed["functions"]["score"][0]["outputs"]["best"] == "i64[3]" or listed["functions"]["score"][0]["outputs"]["best"] == "i32[3]"
    done = run(folder / "m", "--signature", "score", "--input", f"rows={folder}/x.npy", "--output", f"scores={folder}/y.npy", "--repeat", 5)
    assert done.returncode == 0 and "loaded in" in done.stdout
    assert np.array_equal(np.load(folder / "y.npy"), score(lm.constant(x))["scores"].numpy())
    times = json.loads(run(folder / "m", "-s", "score", "-i", f"rows={folder}/x.npy", "--repeat", 3, "--json").stdout)
    assert 0 < times["least_us"] <= times["median_us"]
    assert run(folder / "m", "-s", "grow", "-i", f"by={folder}/by.npy", "--save", folder / "m2").returncode == 0
    assert np.array_equal(lm.load(folder / "m2").w.numpy().ravel(), [2.0, 3.0, 4.0])


def test_errors_name_what_is_wrong(saved):
    _, folder = saved
    np.save(folder / "bad.npy", np.ones((2, 2), "float32"))
    np.save(folder / "text.npy", np.array(["a"]))
    np.save(folder / "x.npy", np.ones((2, 3), "float32"))
    (folder / "no.npy").write_bytes(b"hello")
    for arguments, text in [((folder / "none", "--list"), "cannot open"), ((folder / "m",), "2 functions"), ((folder / "m", "-s", "scare"), "there are: score, grow\n"),
                            ((folder / "m", "-s", "score", "-i", f"rows={folder}/x.npy", "-i", f"rows={folder}/x.npy"), "rows is given twice"),
                            ((folder / "m", "-s", "score", "-i", f"rows={folder}/bad.npy"), "3"), ((folder / "m", "-s", "score", "-i", "rows"), "NAME=FILE"),
                            ((folder / "m", "-s", "score", "-i", f"rows={folder}/text.npy"), "<U1"), ((folder / "m", "-s", "score", "-i", f"rows={folder}/no.npy"), "no .npy")]:
        done = run(*arguments)
        assert done.returncode == 1 and text in done.stderr, done.stderr
    assert run(folder / "m", "--what").returncode != 0


@pytest.mark.parametrize("array", [np.float32(3), np.zeros((0, 3), "int64"), np.asfortranarray(np.arange(6, dtype="int16").reshape(2, 3)), np.array([True, False]),
                                   np.arange(24, dtype="float16").reshape(2, 3, 4), np.arange(3, dtype="uint8"), np.arange(3, dtype="uint16"), np.array([2**64 - 1], "uint64"), np.array([1 - 2j], "complex64"), np.array([[1 - 2j]])])
def test_arrays_go_through_it(tmp_path, array):
    if not os.path.exists(RUN):
        pytest.skip("lamina-run was not built: CLI11 is missing")
    spec = lm.TensorSpec(list(array.shape), str(array.dtype), name="x")
    lm.save(lm.function(lambda x: x, input_signature=[spec]), tmp_path / "m")
    np.save(tmp_path / "x.npy", array)
    done = run(tmp_path / "m", "-i", f"x={tmp_path}/x.npy", "-o", f"output={tmp_path}/y.npy")
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "y.npy")
    assert got.dtype == array.dtype and np.array_equal(got, array)


def test_bytes_of_bools_in_files_other_than_0_and_1_are_true(tmp_path):
    if not os.path.exists(RUN):
        pytest.skip("lamina-run was not built: CLI11 is missing")
    lm.save(lm.function(lambda x: lm.sum(x), input_signature=[lm.TensorSpec([3], "bool", name="x")]), tmp_path / "m")
    np.save(tmp_path / "x.npy", np.frombuffer(bytes([255, 0, 3]), bool))
    done = run(tmp_path / "m", "-i", f"x={tmp_path}/x.npy", "-o", f"output={tmp_path}/y.npy")
    assert done.returncode == 0 and np.load(tmp_path / "y.npy") == 2, done.stderr
