"""Tensors and weights in safetensors files: they keep their bits, other programs can read them, and loading is all or nothing."""
import os
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy as safetensors

import lamina as lm
from compared import equal

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def model():
    net = lm.nn.Sequential([lm.nn.Dense(4, activation="relu", name="same"), lm.nn.Dense(3, name="same"), lm.nn.BatchNorm()])
    net(lm.ones((2, 5)))
    return net


def values(net):
    return [v.numpy() for v in net.variables]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_tensors_come_back(tmp_path, dtype, shape):
    wanted = lm.astype(lm.random.normal(shape) * 10.0, dtype)
    lm.save_tensors(tmp_path / "t", {"x": wanted, "é/β": lm.ones(2)}, {"made by": "a test"})
    got = lm.load_tensors(tmp_path / "t")
    assert list(got) == ["x", "é/β"] and got["x"].dtype == wanted.dtype and got["x"].shape == shape
    assert np.array_equal(lm.astype(got["x"], "float64").numpy(), lm.astype(wanted, "float64").numpy())
    assert lm.load_metadata(tmp_path / "t") == {"made by": "a test"}


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_the_reference_package_reads_what_lamina_writes_and_the_other_way(tmp_path, dtype):
    array = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    lm.save_tensors(tmp_path / "ours", {"a": array, "b": lm.ones((0, 2))}, {"k": "v"})
    theirs = safetensors.load_file(tmp_path / "ours")
    assert theirs["a"].dtype == array.dtype and np.array_equal(theirs["a"], array) and theirs["b"].shape == (0, 2)
    safetensors.save_file({"a": array, "b": np.ones((0, 2), "float32")}, tmp_path / "theirs", {"k": "v"})
    ours = lm.load_tensors(tmp_path / "theirs")
    assert np.array_equal(ours["a"].numpy(), array) and ours["a"].dtype == lm.dtype(dtype) and ours["b"].shape == (0, 2)
    assert lm.load_metadata(tmp_path / "theirs") == {"k": "v"}


def test_the_same_tensors_give_the_same_bytes(tmp_path):
    a, b = lm.ones(3), lm.zeros((2, 2), dtype="int64")
    lm.save_tensors(tmp_path / "1", {"a": a, "b": b}, {"x": "1", "y": "2"})
    lm.save_tensors(tmp_path / "2", {"b": b, "a": a}, {"y": "2", "x": "1"})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    lm.save_tensors(tmp_path / "3", lm.load_tensors(tmp_path / "1"), lm.load_metadata(tmp_path / "1"))
    assert (tmp_path / "3").read_bytes() == (tmp_path / "1").read_bytes()


def test_weights_of_a_model_and_its_optimizer(tmp_path):
    net, other = model(), model()
    optimizers = [lm.optim.Adam(0.1) for _ in range(2)]
    for one, optimizer in zip((net, other), optimizers):
        optimizer.build(one.trainable_variables)
    with lm.GradientTape() as tape:
        loss = lm.sum(net(lm.ones((2, 5)), training=True) ** 2)
    optimizers[0].apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    lm.save_weights(net, tmp_path / "net")
    lm.save_weights(optimizers[0], tmp_path / "optimizer")
    lm.load_weights(other, tmp_path / "net")
    lm.load_weights(optimizers[1], tmp_path / "optimizer")
    assert equal(values(net), values(other)) and equal(*([v.numpy() for v in o.variables] for o in optimizers))
    assert sorted(lm.load_tensors(tmp_path / "net")) == sorted(net.state_dict())


def test_weights_of_a_dict(tmp_path):
    made = {"w": lm.Variable([1.0, 2.0]), "half": lm.Variable(lm.ones(3, dtype="bfloat16"))}
    lm.save_weights(made, tmp_path / "w")
    made["w"].assign([0.0, 0.0])
    lm.load_weights(made, tmp_path / "w")
    assert made["w"].numpy().tolist() == [1.0, 2.0] and lm.load_tensors(tmp_path / "w")["half"].dtype == lm.bfloat16


def test_names_of_other_programs(tmp_path):
    """As PyTorch names and lays out Linear(5, 4): weight [4, 5], bias [4]."""
    dense = lm.nn.Dense(4)
    dense(lm.ones((1, 5)))
    weight, bias = np.random.default_rng(0).normal(size=(4, 5)).astype("float32"), np.arange(4, dtype="float32")
    safetensors.save_file({"fc.weight": weight, "fc.bias": bias}, tmp_path / "torch")
    lm.load_weights(dense, tmp_path / "torch", names={"kernel": ("fc.weight", lm.transpose), "bias": "fc.bias"})
    assert np.array_equal(dense.state_dict()["kernel"], weight.T) and np.array_equal(dense.state_dict()["bias"], bias)
    dense.set_weights([np.zeros((5, 4)), np.zeros(4)])
    lm.load_weights(dense, tmp_path / "torch", names=lambda name: {"kernel": ("fc.weight", lm.transpose)}.get(name, f"fc.{name}"))
    assert np.array_equal(dense.state_dict()["kernel"], weight.T)


def test_what_does_not_fit_is_listed_and_nothing_is_loaded(tmp_path):
    net = model()
    state = {name: lm.constant(value) for name, value in net.state_dict().items()}
    first, second, third, *_ = state
    state[first], state[second] = lm.zeros((9, 9)), lm.astype(state[second], "float64")
    state["unknown"] = state.pop(third)
    lm.save_tensors(tmp_path / "bad", state)
    before = values(net)
    with pytest.raises(lm.errors.NotFound) as info:
        lm.load_weights(net, tmp_path / "bad")
    for part in (first, second, third, "unknown", "(9, 9)", "float64"):
        assert part in str(info.value)
    with pytest.raises(lm.errors.InvalidArgument):
        lm.load_weights(net, tmp_path / "bad", strict=False)
    assert equal(before, values(net))


def test_a_file_name_mapped_to_another_weight_is_left_over(tmp_path):
    """The file has "kernel", but the model's kernel is taken from "w": what the file calls kernel is left over."""
    made = {"kernel": lm.Variable([0.0, 0.0])}
    lm.save_tensors(tmp_path / "t", {"w": lm.constant([1.0, 2.0]), "kernel": lm.constant([3.0, 4.0])})
    with pytest.raises(lm.errors.NotFound, match="no 'kernel'"):
        lm.load_weights(made, tmp_path / "t", names={"kernel": "w"})
    assert made["kernel"].numpy().tolist() == [0.0, 0.0]
    lm.load_weights(made, tmp_path / "t", names={"kernel": "w"}, strict=False)
    assert made["kernel"].numpy().tolist() == [1.0, 2.0]


def test_damaged_and_missing_files(tmp_path):
    lm.save_tensors(tmp_path / "t", {"x": lm.ones(100)})
    good = (tmp_path / "t").read_bytes()
    bad = bytearray(good)
    bad[-7] ^= 4
    (tmp_path / "bad").write_bytes(bad)
    (tmp_path / "short").write_bytes(good[:-1])
    for name, text in (("bad", "'x' is damaged"), ("short", "data_offsets"), ("none", "cannot open"), (".", "directory")):
        with pytest.raises(lm.errors.BadFile, match=text):
            lm.load_tensors(tmp_path / name)
    with pytest.raises(lm.errors.BadFile, match="folder"):
        lm.save_tensors(tmp_path / "none" / "t", {"x": lm.ones(1)})
    for wrong in ([lm.ones(1)], {1: lm.ones(1)}):
        with pytest.raises(lm.errors.TypeMismatch):
            lm.save_tensors(tmp_path / "t", wrong)
    assert (tmp_path / "t").read_bytes() == good and sorted(os.listdir(tmp_path)) == ["bad", "short", "t"]


def test_a_file_is_replaced_at_one_instant(tmp_path):
    """A process killed while saving leaves a complete file, the old one or the new one."""
    path = tmp_path / "t"
    lm.save_tensors(path, {"x": lm.zeros(100_000)})
    program = "import sys, lamina as lm\nfor i in range(10**9):\n lm.save_tensors(sys.argv[1], {'x': lm.full((100_000,), float(i))}); print(i, flush=True)"
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3):
            last = int(child.stdout.readline())
        child.kill()
        last = int((child.communicate()[0].split() or [last])[-1])
        x = lm.load_tensors(path)["x"].numpy()
        assert (x == x[0]).all() and x[0] in (last, last + 1)
    lm.save_tensors(path, {"x": lm.zeros(1)})
    assert os.listdir(tmp_path) == ["t"]


def writers(path):
    """Calls that write to a path, and such that read from it."""
    net = lm.nn.Sequential([lm.nn.Input((5,)), lm.nn.Dense(3)])
    net.compile("adam", "mse")
    x, y = np.ones((8, 5), "float32"), np.ones((8, 3), "float32")
    fit = lambda callback: net.fit(x, y, verbose=0, callbacks=[callback(path)])
    return {"save": lambda: lm.save(net, path), "load": lambda: lm.load(path), "save_weights": lambda: lm.save_weights(net, path), "load_weights": lambda: lm.load_weights(net, path),
            "save_tensors": lambda: lm.save_tensors(path, {"a": x}), "load_tensors": lambda: lm.load_tensors(path), "load_metadata": lambda: lm.load_metadata(path),
            "save_file": lambda: lm.nn.save_file(net, path), "load_file": lambda: lm.nn.load_file(path), "Checkpoint": lambda: lm.Checkpoint(path), "summary.Writer": lambda: lm.summary.Writer(path),
            "plot": lambda: net.plot(path) if path is not None else lm.save(net, None), "export_c": lambda: lm.export_c(net, path, lm.constant(x)), "read_idx": lambda: lm.data.read_idx(path),
            "read_npy": lambda: lm.data.read_npy(path), "read_csv": lambda: lm.data.read_csv(path),
            "from_images": lambda: lm.data.Dataset.from_images(path, (4, 4)), "profiler.trace": lambda: lm.profiler.trace(path), "CSVLogger": lambda: fit(lm.nn.CSVLogger),
            "ModelCheckpoint": lambda: fit(lm.nn.ModelCheckpoint), "TensorBoard": lambda: fit(lm.nn.TensorBoard)}


@pytest.mark.parametrize("call", writers("a"))
def test_a_path_is_a_text_bytes_or_a_path_or_refused_in_plain_words(call):
    for path in (5, None, ["a"]):
        with pytest.raises(lm.errors.TypeMismatch, match="(path|dir|folder) is an? (int|NoneType|list)") as caught:
            writers(path)[call]()
        assert caught.value.fix == "pass a str or a pathlib.Path"
    with pytest.raises(lm.errors.InvalidArgument, match="half a character"):
        writers("a\ud800.svg")[call]()


def test_bytes_name_files_too(tmp_path):
    path = bytes(tmp_path / "weights")
    lm.save_tensors(path, {"a": lm.ones(2)}, {"made by": "me"})
    assert lm.load_tensors(path)["a"].tolist() == [1, 1] and lm.load_metadata(path) == {"made by": "me"}


def test_a_link_is_named_where_a_file_would_be_written(tmp_path):
    lm.save_tensors(tmp_path / "real", {"a": lm.ones(2)})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(lm.errors.BadFile, match="there is a link where a file would be written") as caught:
        lm.save_tensors(tmp_path / "link", {"a": lm.zeros(2)})
    assert "realpath" in caught.value.fix
    with pytest.raises(lm.errors.BadFile, match="there is a folder where a file would be written"):
        lm.save_tensors(tmp_path, {"a": lm.zeros(2)})


@pytest.mark.parametrize("path", ["no/such/folder.csv", ".", "a\0b", "x" * 300])
def test_a_log_that_cannot_be_written_is_an_error_before_the_first_epoch(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    with pytest.raises(lm.errors.BadFile, match="CSVLogger"):
        net.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0, callbacks=[lm.nn.CSVLogger(path)])
    assert not net.built
