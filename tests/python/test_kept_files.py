"""Files of released versions, in tests/data/programs, load, give the results that they gave, and are saved again with the same bytes."""
import importlib.util
import json
import os
import pathlib
import zipfile

import numpy as np
import pytest

import lamina as lm

KEPT = pathlib.Path(__file__).parent.parent / "data" / "programs"
VERSIONS = sorted(p.name for p in KEPT.iterdir() if (p / "expected.safetensors").exists())

_spec = importlib.util.spec_from_file_location("make_kept_programs", KEPT / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)


def files(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def same(a, b):
    a, b = (np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in (a, b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(params=VERSIONS)
def kept(request):
    folder = KEPT / request.param
    return folder, lm.load_tensors(folder / "expected.safetensors")


def inside(expected, prefix):
    return {name[len(prefix):]: value for name, value in expected.items() if name.startswith(prefix)}


def test_there_is_a_folder_of_the_first_version():
    assert "0.1" in VERSIONS


def test_programs_give_their_results_and_end_with_the_same_state(kept, tmp_path):
    folder, expected = kept
    loaded = {name: lm.load(folder / name) for name in ("function", "policy")}
    calls = sorted({name.rsplit("/", 2)[0] for name in expected if name[0].isdigit()})
    assert len(calls) == 9
    for call in calls:
        program, name = call[3:].split(":")
        results = loaded[program].signatures[name](**inside(expected, call + "/argument/"))
        results = results if isinstance(results, dict) else {"output": results}
        wanted = inside(expected, call + "/result/")
        assert sorted(results) == sorted(wanted) and all(same(results[key], wanted[key]) for key in wanted), call
    for program, module in loaded.items():
        lm.save(module, tmp_path / program)
        weights, wanted = lm.load_tensors(tmp_path / program / "weights.safetensors"), inside(expected, f"after/{program}/")
        assert sorted(weights) == sorted(wanted) and all(same(weights[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("program", ["function", "policy"])
def test_programs_are_saved_again_with_the_same_bytes(kept, program, tmp_path):
    lm.save(lm.load(kept[0] / program), tmp_path / program)
    assert files(tmp_path / program) == files(kept[0] / program)


def test_weights_are_saved_again_with_the_same_bytes(kept, tmp_path):
    path = kept[0] / "weights.safetensors"
    tensors = lm.load_tensors(path)
    assert len(tensors) == 12 and str(tensors["bfloat16"].dtype) == "bfloat16" and tensors["empty"].shape == (0, 3)
    lm.save_tensors(tmp_path / "again", tensors, lm.load_metadata(path))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_checkpoint_is_restored_saved_again_and_continued(kept, tmp_path):
    folder, expected = kept
    parts = make.training()
    (tmp_path / "run").mkdir()
    (name, data), = files(folder / "checkpoint").items()
    (tmp_path / "run" / name).write_bytes(data)
    assert lm.Checkpoint(tmp_path / "run", **parts).restore() == 3
    lm.Checkpoint(tmp_path / "again", **parts).save(3)
    assert files(tmp_path / "again") == {name: data}
    assert len(list(make.steps(**parts))) == 2
    wanted = inside(expected, "checkpoint/")
    weights = parts["model"].state_dict()
    assert sorted(weights) == sorted(wanted) and all(same(weights[key], wanted[key]) for key in wanted)


def test_a_keras_file_predicts_trains_on_and_is_saved_again(kept, tmp_path):
    pytest.importorskip("h5py", reason="h5py is not installed: the weights in a .keras file are in HDF5")
    folder, expected = kept
    net = lm.nn.load_file(folder / "net.keras")
    lm.nn.save_file(net, tmp_path / "again.keras")
    lm.nn.save_file(lm.nn.load_file(tmp_path / "again.keras"), tmp_path / "third.keras")
    with zipfile.ZipFile(folder / "net.keras") as old, zipfile.ZipFile(tmp_path / "again.keras") as new:
        assert old.namelist() == new.namelist() and old.read("config.json") == new.read("config.json")
        if json.loads(old.read("metadata.json")) == json.loads(new.read("metadata.json")):  # else the versions of what wrote them differ
            assert len(old.read("model.weights.h5")) == len(new.read("model.weights.h5"))
    assert (tmp_path / "again.keras").read_bytes() == (tmp_path / "third.keras").read_bytes()
    keras = inside(expected, "keras/")
    assert same(net.predict(keras["x"]), keras["y"])
    net.fit(keras["x"], keras["labels"], batch_size=4, epochs=1, verbose=0, shuffle=False)
    assert same(net.predict(keras["x"]), keras["after"])
