"""Networks that lm.onnx.load makes."""
import os
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def model_of(text):
    return onnx.parser.parse_model(text)


def saved(tmp_path, model, name="model.onnx"):
    path = tmp_path / name
    onnx.save(model, path)
    return path


def mlp(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"w1": rng.normal(size=(3, 8)) * 0.5, "b1": np.zeros(8), "w2": rng.normal(size=(8, 1)) * 0.5, "b2": np.zeros(1)}
    model = model_of('''<ir_version: 9, opset_import: ["": 21]>
        net (float[n, 3] x) => (float[n, 1] y) { h = MatMul(x, w1) hb = Add(h, b1) a = Tanh(hb) o = MatMul(a, w2) y = Add(o, b2) }''')
    model.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items())
    return saved(tmp_path, model), {name: a.astype(np.float32) for name, a in arrays.items()}


def direct(x, w):
    return lm.matmul(lm.tanh(lm.matmul(x, w["w1"]) + w["b1"]), w["w2"]) + w["b2"]


def test_GradientsOfALoadedNetworkAreThoseOfTheSameProgram(tmp_path):
    path, arrays = mlp(tmp_path)
    network, own = lm.onnx.load(path), {name: lm.Variable(a) for name, a in arrays.items()}
    x = lm.constant(np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32))
    assert list(network.variables) == list(own) and network.inputs == ["x"] and network.outputs == ["y"]

    def slope_of(function, variables):
        def slope(x):
            with lm.GradientTape() as tape:
                tape.watch(x)
                cost = lm.sum(lm.square(function(x)))
            return tape.gradient(cost, [x, *variables.values()])
        return slope

    for call in (lambda f: f, lm.function):
        loaded, wanted = call(slope_of(network, network.variables))(x), call(slope_of(lambda x: direct(x, own), own))(x)
        for a, b in zip(loaded, wanted):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_LoadedNetworkTrainsOn(tmp_path):
    path, _ = mlp(tmp_path)
    network, optimizer = lm.onnx.load(path), lm.optim.Adam(0.05)
    x = np.random.default_rng(1).normal(size=(64, 3)).astype(np.float32)
    y = (x[:, :1] - 2 * x[:, 1:2]).astype(np.float32)

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(network(x) - y))
        optimizer.apply_gradients(zip(tape.gradient(cost, network.trainable_variables), network.trainable_variables))
        return cost

    costs = [step(x, y).item() for _ in range(100)]
    assert costs[-1] < 0.05 * costs[0] and step.trace_count == 1
    lm.save_weights(network, tmp_path / "weights")
    other = lm.onnx.load(path)
    assert not np.allclose(other(x).numpy(), network(x).numpy(), atol=1e-3)
    lm.load_weights(other, tmp_path / "weights")
    np.testing.assert_array_equal(other(x).numpy(), network(x).numpy())


def test_VmapCallsANetworkPerRow(tmp_path):
    network = lm.onnx.load(mlp(tmp_path)[0])
    x = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(lm.vmap(network)(lm.constant(x)).numpy(), np.stack([network(row).numpy() for row in x]), rtol=1e-6)


def test_OpenLengthsServeEveryBatch(tmp_path):
    model = model_of('''<ir_version: 9, opset_import: ["": 21]>
        net (float[n, 2, 6] x) => (float[n, k] y) {
            s = Shape(x)  zero = Constant<value = int64[1] {0}>()  batch = Gather(s, zero)
            rest = Constant<value = int64[1] {-1}>()  to = Concat<axis = 0>(batch, rest)  y = Reshape(x, to) }''')
    network = lm.onnx.load(saved(tmp_path, model))
    step = lm.function(lambda x: network(x) + 1, input_signature=[lm.TensorSpec([None, 2, 6])])
    for n in (1, 3, 7):
        assert step(np.zeros((n, 2, 6), np.float32)).shape == (n, 12)
    assert step.trace_count == 1


def test_ShapesThatAreInputsAreReadBeforeTheTrace(tmp_path):
    model = model_of('<ir_version: 9, opset_import: ["": 21]> net (float[a] x, int64[b] to) => (float[c, d] y) { z = Abs(x) y = Reshape(z, to) }')
    network = lm.onnx.load(saved(tmp_path, model))
    x = np.arange(6, dtype=np.float32)
    assert network(x, np.array([2, 3])).shape == (2, 3) and network(x, to=np.array([3, -1])).shape == (3, 2)
    with pytest.raises(lm.errors.InvalidArgument, match="Reshape.*opset 21") as caught:
        lm.function(lambda x, to: network(x, to))(x, np.array([2, 3]))
    assert "'to' decides shapes" in caught.value.why


def loop(trips, condition, body="c2 = Identity(c)  v2 = Add(v, one)"):
    return model_of(f'''<ir_version: 9, opset_import: ["": 21]>
        net (float v0, int64 n) => (float y) {{ one = Constant<value = float {{1.0}}>()  go = Constant<value = bool {{1}}>()
            y = Loop<body = b (int64 i, bool c, float v) => (bool c2, float v2) {{ {body} }}>({trips}, {condition}, v0) }}''')


def test_LoopsRunEagerlyAndTraced(tmp_path):
    counted = lm.onnx.load(saved(tmp_path, loop("n", "go")))
    until = lm.onnx.load(saved(tmp_path, loop("n", "go", "ten = Constant<value = float {10.0}>()  v2 = Add(v, one)  c2 = Less(v2, ten)")))
    n = lm.constant(np.int64(4))
    for call in (lambda f: f, lm.function):
        assert call(lambda x, n: counted(x, n))(lm.constant(1.0), n).item() == 5
        assert call(lambda x, n: until(x, n))(lm.constant(8.5), n).item() == 10.5
    with lm.GradientTape() as tape:
        x = lm.constant(2.0)
        tape.watch(x)
        y = until(x, n)
    assert tape.gradient(y, x).item() == 1


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16"])
def test_IntegerDivisionCutsOff(name, tmp_path):
    limits, kind = np.iinfo(name), {"uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16}.get(name) or getattr(TensorProto, name.upper())
    values = [limits.min, limits.min + 2, limits.max, 1, 2, 3, 7] + ([-1, -2, -5] if limits.min else [])
    info = lambda n: helper.make_tensor_value_info(n, kind, ["n"])
    graph = helper.make_graph([helper.make_node("Div", ["a", "b"], ["y"])], "g", [info("a"), info("b")], [info("y")])
    net = lm.onnx.load(saved(tmp_path, helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 21)])))
    cut = [(a, b, q) for a in values for b in values if b for q in [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)] if q <= limits.max]
    a, b, wanted = (np.array(part, name) for part in zip(*cut))
    np.testing.assert_array_equal(net(a, b).numpy(), wanted)


def resized(tmp_path, opset, scale, **attrs):
    inputs, x = ["x", "roi", "scales"] if opset > 10 else ["x", "scales"], np.arange(5, dtype=np.float32)
    constants = [numpy_helper.from_array(np.array(v, np.float32), name) for name, v in (("scales", [scale]), ("roi", [])) if name in inputs]
    graph = helper.make_graph([helper.make_node("Resize", inputs, ["y"], **attrs)], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])], constants)
    return lm.onnx.load(saved(tmp_path, helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", opset)])))(x).numpy()


def test_PlacesThatResizeReads(tmp_path):
    half = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    np.testing.assert_allclose(resized(tmp_path, 11, 2.0, mode="linear", **half), [0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4, 4])
    np.testing.assert_array_equal(resized(tmp_path, 11, 0.4, nearest_mode="floor", **half), [1, 3])
    np.testing.assert_allclose(resized(tmp_path, 10, 2.0, mode="linear"), [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4])
    np.testing.assert_array_equal(resized(tmp_path, 10, 1.7), [0, 0, 1, 1, 2, 2, 3, 4])
    for name, mode in (("coordinate_transformation_mode", "half"), ("nearest_mode", "up"), ("mode", "bilinear")):
        with pytest.raises(lm.errors.InvalidArgument, match="Resize") as caught:
            resized(tmp_path, 13, 2.0, **{name: mode})
        assert f"its {name} is '{mode}'" in caught.value.why


def test_FunctionsOfTheFileAreInlined(tmp_path):
    model = model_of('''<ir_version: 9, opset_import: ["": 21, "own": 1]>
        net (float[n] x) => (float[n] y) { y = own.scaled<by = 3.0>(x) }
        <domain: "own", opset_import: ["": 21]> scaled<by: float = 2.0>(x) => (y) { f = Constant<value_float: float = @by>()  y = Mul(x, f) }''')
    assert lm.onnx.load(saved(tmp_path, model))(np.ones(2, np.float32)).numpy().tolist() == [3, 3]


def test_ArgumentsThatDoNotFitAreRefusedByName(tmp_path):
    network = lm.onnx.load(mlp(tmp_path)[0])
    for args, match in (((), "'x' is missing"), ((np.ones((2, 4), np.float32),), r"'x' has the shape \[n, 3\]"), ((np.ones((2, 3)),), "'x' is float32"),
                        ((np.ones((2, 3), np.float32),) * 2, "takes 1 inputs")):
        with pytest.raises(lm.errors.SignatureMismatch, match=match):
            network(*args)


def test_ExternalDataIsReadOnlyFromTheFolderThatWasNamed(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    array = np.arange(4, dtype=np.float32)
    (inner / "w.bin").write_bytes(array.tobytes())
    (tmp_path / "secret.bin").write_bytes(array.tobytes())
    os.symlink(tmp_path / "secret.bin", inner / "link.bin")
    os.symlink(tmp_path, inner / "up")
    os.link(tmp_path / "secret.bin", inner / "hard.bin")

    def model(location, **entries):
        w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, **entries}.items():
            w.external_data.add(key=key, value=str(value))
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "net", [helper.make_tensor_value_info("x", 1, [4])],
                                  [helper.make_tensor_value_info("y", 1, [4])], [w])
        path = tmp_path / "model.onnx"
        path.write_bytes(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        return path

    with pytest.raises(lm.errors.BadFile, match="another file"):
        lm.onnx.load(model("w.bin"))
    assert lm.onnx.load(model("w.bin"), external_data=inner)(np.zeros(4, np.float32)).numpy().tolist() == [0, 1, 2, 3]
    for location, entries in (("../secret.bin", {}), (str(tmp_path / "secret.bin"), {}), ("link.bin", {}), ("up/secret.bin", {}), ("hard.bin", {}), ("none.bin", {}),
                              (".", {}), ("w.bin", {"offset": -1}), ("w.bin", {"offset": 4}), ("w.bin", {"length": 1 << 50}), ("w.bin", {"mode": "x"}), ("", {}),
                              ("w.bin", {"offset": "none"}), ("../inner/w.bin", {})):
        with pytest.raises(lm.errors.BadFile, match="tensor 'w'|'hard.bin'"):
            lm.onnx.load(model(location, **entries), external_data=inner)


def test_ImportingLaminaDoesNotImportOnnx():
    program = "import sys, lamina as lm; lm.onnx.load; assert 'onnx' not in sys.modules\nsys.modules['onnx'] = None\ntry: lm.onnx.load('x')\nexcept lm.errors.NotFound as e: print(e.fix)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'pip install "lamina[onnx]"' in out.stdout
