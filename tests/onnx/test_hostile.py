"""Hostile ONNX files: each is an error of lm.errors that says what, why and how to fix it; none crashes, hangs or takes much memory."""
import time

import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.ones(2, np.float32)


def info(name, shape=("n",), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, initializers=(), inputs=None, outputs=None, functions=(), opsets=(("", 21), ("own", 1))):
    graph = helper.make_graph(nodes, "g", inputs or [info("x")], outputs or [info("y", ("k",))], initializers)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid(*o) for o in opsets], functions=list(functions))


def one(op, *others, **attrs):
    return model([helper.make_node(op, ["x", *(o.name for o in others)], ["y"], **attrs)], others)


def from_shape(op, *values, **attrs):
    return model([helper.make_node(op, ["s"], ["y"], **attrs)], [ints("s", *values)])


def tensor(**fields):
    w = TensorProto(name="w")
    for name, value in fields.items():
        getattr(w, name).extend(value) if isinstance(value, list) else setattr(w, name, value)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [w])


def endless_loop(trips=None):
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["v", "v"], ["v2"])], "b",
                             [info("i", [], INT64), info("c", [], TensorProto.BOOL), info("v")], [info("c2", [], TensorProto.BOOL), info("v2")])
    go, n = numpy_helper.from_array(np.array(True), "go"), ints("trips", 0 if trips is None else trips)
    n.dims[:] = []
    return model([helper.make_node("Loop", ["trips" if trips else "", "go", "x"], ["y"], body=body)], [go, n] if trips else [go])


def nested(depth):
    """The bytes of Ifs in each other."""
    def field(number, raw):
        size, length = len(raw), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + raw

    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(1, b"t") + field(2, b"y") + field(4, b"If") + field(5, attribute)) + field(2, b"g")
    return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x15")


def recursive():
    f = helper.make_function("own", "f", ["a"], ["b"], [helper.make_node("f", ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)])
    return model([helper.make_node("f", ["x"], ["y"], domain="own")], functions=[f])


def doubling(levels):
    """Functions that each call the one before twice: 2^levels nodes."""
    functions = []
    for k in range(levels):
        inner = (lambda a, b, k=k: helper.make_node(f"f{k - 1}", [a], [b], domain="own")) if k else (lambda a, b: helper.make_node("Neg", [a], [b]))
        functions.append(helper.make_function("own", f"f{k}", ["a"], ["c"], [inner("a", "b"), inner("b", "c")], [helper.make_opsetid("own", 1), helper.make_opsetid("", 21)]))
    return model([helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="own")], functions=functions)


def two_of_a_name():
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [numpy_helper.from_array(X, "w"), numpy_helper.from_array(X, "w")])


CASES = {  # what the error says, the model
    "cycle": ("topologically sorted", model([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["y"])])),
    "value written twice": ("single static assignment", model([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])])),
    "initializers of one name": ("one name", two_of_a_name()),
    "missing value": ("'nothing'", model([helper.make_node("Add", ["x", "nothing"], ["y"])])),
    "missing output": ("not an output of any node", model([helper.make_node("Neg", ["x"], ["z"])])),
    "unknown op": ("No Op registered for Explode", model([helper.make_node("Explode", ["x"], ["y"])])),
    "unknown op of another domain": ("Explode.*domain 'own', opset 1", model([helper.make_node("Explode", ["x"], ["y"], domain="own")])),
    "unknown domain": ("nowhere", model([helper.make_node("Explode", ["x"], ["y"], domain="nowhere")])),
    "negative length": (r"shape \[-2\]", tensor(data_type=FLOAT, dims=[-2], raw_data=X.tobytes())),
    "overflowing lengths": ("has 8 bytes, its shape", tensor(data_type=FLOAT, dims=[1 << 40, 1 << 40], raw_data=X.tobytes())),
    "fewer bytes than the shape": ("has 8 bytes, its shape", tensor(data_type=FLOAT, dims=[1000], raw_data=X.tobytes())),
    "fewer elements than the shape": ("has 1 elements", tensor(data_type=FLOAT, dims=[1 << 50], float_data=[1.0])),
    "no elements": ("has 0 elements", tensor(data_type=FLOAT, dims=[1 << 40])),
    "unknown dtype": ("unknown dtype 999", tensor(data_type=999, dims=[2], raw_data=X.tobytes())),
    "dtypes that differ": ("Add.*different dtypes", tensor(data_type=TensorProto.DOUBLE, dims=[2], raw_data=np.ones(2).tobytes())),
    "texts": ("holds texts", tensor(data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])),
    "100 axes": ("at most 32", tensor(data_type=FLOAT, dims=[1] * 100, raw_data=X[:1].tobytes())),
    "external data": ("lies in another file", tensor(data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)),
    "huge ConstantOfShape": ("ConstantOfShape.*budget", from_shape("ConstantOfShape", 1 << 50)),
    "overflowing ConstantOfShape": ("ConstantOfShape.*budget", from_shape("ConstantOfShape", 1 << 40, 1 << 40)),
    "negative ConstantOfShape": ("negative length", from_shape("ConstantOfShape", -1)),
    "huge Expand": ("Expand.*budget", one("Expand", ints("s", 1 << 42, 2))),
    "huge Tile": ("Tile.*budget", one("Tile", ints("s", 1 << 42))),
    "huge Pad": ("Pad.*budget", one("Pad", ints("s", 1 << 42, 0))),
    "huge Range": ("Range.*budget", model([helper.make_node("Range", ["a", "b", "c"], ["y"])], [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in (("a", 0), ("b", 1 << 50), ("c", 1))])),
    "huge Resize": ("Resize.*budget", model([helper.make_node("Resize", ["x", "", "", "s"], ["y"])], [ints("s", 1 << 42)])),
    "huge OneHot": ("OneHot.*budget", model([helper.make_node("Cast", ["x"], ["i"], to=INT64), helper.make_node("OneHot", ["i", "d", "v"], ["y"])], [ints("d", 1 << 42), numpy_helper.from_array(X, "v")])),
    "huge window": ("MaxPool.*reaches", model([helper.make_node("Unsqueeze", ["x", "a"], ["z"]), helper.make_node("MaxPool", ["z"], ["y"], kernel_shape=[1 << 40])], [ints("a", 0, 1)])),
    "Range by 0": ("no range from 0 to 0", model([helper.make_node("Range", ["a", "a", "a"], ["y"])], [numpy_helper.from_array(np.array(0, np.int64), "a")])),
    "misfitting Reshape": ("does not become", one("Reshape", ints("s", 7))),
    "axis out of range": ("axis 9 is none of 1", one("Softmax", axis=9)),
    "wrong attribute type": ("Mismatched attribute type", one("Softmax", axis="first")),
    "endless Loop": ("max_trips, 1,000 rounds", endless_loop()),
    "Loop of 2^60 rounds": ("more than max_trips", endless_loop(1 << 60)),
    "function that calls itself": ("recursive", recursive()),
    "2^40 nodes of functions": ("more than 1,000,000 nodes", doubling(40)),
    "no graph": ("no graph", onnx.ModelProto(ir_version=9)),
    "opset of the future": ("opset 9999", model([helper.make_node("Neg", ["x"], ["y"])], opsets=(("", 9999),))),
}
RAW = {"2,000 nested Ifs": nested(2000), "empty": b"", "noise": bytes(range(256)) * 40, "text": b"hello", "deep protobuf": b"\x3a\x7f" * 10000, "long length": b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}


def refused(path, match="", seconds=20):
    start = time.time()
    with pytest.raises(lm.errors.Error, match=f"(?s){match}") as caught:
        lm.onnx.load(path, max_trips=1000)(X)
    assert caught.value.what and not isinstance(caught.value, lm.errors.InternalError), caught.value
    assert time.time() - start < seconds


@pytest.mark.parametrize("name", CASES)
def test_HostileModelIsRefused(name, tmp_path):
    path = tmp_path / "m.onnx"
    match, made = CASES[name]
    path.write_bytes(made.SerializeToString())
    refused(path, match)


@pytest.mark.parametrize("name", RAW)
def test_HostileBytesAreRefused(name, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(RAW[name])
    refused(path, "no ONNX model")


def test_EveryCutOfAFileIsRefusedOrRuns(tmp_path):
    path, raw = tmp_path / "m.onnx", model([helper.make_node("Add", ["x", "w"], ["y"])], [numpy_helper.from_array(X, "w")]).SerializeToString()
    failed = 0
    for cut in range(len(raw)):
        path.write_bytes(raw[:cut])
        try:
            lm.onnx.load(path)(X)
        except lm.errors.Error as error:
            assert error.why and error.fix and not isinstance(error, lm.errors.InternalError)
            failed += 1
    assert failed > len(raw) // 2


def test_ChangedBytesAreRefusedOrRun(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "m.onnx"
    raw = one("Reshape", ints("s", 1, 2)).SerializeToString()
    for _ in range(300):
        data = bytearray(raw)
        for place in rng.integers(0, len(raw), rng.integers(1, 4)):
            data[place] = rng.integers(0, 256)
        path.write_bytes(bytes(data))
        try:
            lm.onnx.load(path, memory_budget=1 << 20)(X)
        except lm.errors.Error as error:
            assert not isinstance(error, lm.errors.InternalError), error


def test_FilesThatAreNone(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        refused(path)


def test_ChainOfManyNodesRuns(tmp_path):
    nodes = [helper.make_node("Neg", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(2000)]
    path = tmp_path / "m.onnx"
    path.write_bytes(model([*nodes, helper.make_node("Identity", ["v2000"], ["y"])]).SerializeToString())
    assert lm.onnx.load(path)(X).numpy().tolist() == [1, 1]
