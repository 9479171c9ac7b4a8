"""What lm.onnx.save writes of a model with int8 weights: QuantizeLinear and DequantizeLinear, with which ONNX Runtime computes the same numbers."""
import os
import sys

import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed: ./dev setup, or pip install onnxruntime")
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from test_quantization import W, one_step, random_net  # noqa: E402

onnxruntime.set_default_logger_severity(4)
LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL]


def flags():
    """Of an x86 CPU, as Linux says."""
    try:
        with open("/proc/cpuinfo") as file:
            return {word for line in file if line.startswith("flags") for word in line.split()}
    except OSError:
        return set()


# ONNX Runtime's sums of int8 products saturate on x86 CPUs without VNNI. There it shall not make such products of the file's operations.
SATURATING = ["QDQSelectorActionTransformer"] if "avx2" in flags() and not {"avx512_vnni", "avx_vnni"} & flags() else None


def in_runtime(path, x, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"], disabled_optimizers=SATURATING)
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def kinds(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("seed", range(200 if LONG else 24))
def test_random_networks_have_the_same_numbers(seed, tmp_path):
    net, x = random_net(seed)
    q, path = lm.quantize(net, x), tmp_path / "q.onnx"
    lm.onnx.save(q.call, path)
    model, want = onnx.load(path), q(x).numpy()
    count = len(q.report["weights"])
    assert kinds(model).count("QuantizeLinear") == count and kinds(model).count("DequantizeLinear") == 2 * count
    assert not {"Round", "Clip", "Cast"} & set(kinds(model))
    initializers = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert all(initializers[name].dtype == np.int8 for name in q.report["weights"])
    assert sum(a.nbytes for a in initializers.values()) <= q.report["bytes_after"] + 200 * count
    # A value between two steps may go to either: everything else is rounding of float32.
    most = one_step(q, x) + 1e-4 * np.abs(want).max()
    for level in LEVELS:
        got = in_runtime(path, x, level)
        assert got.shape == want.shape and np.abs(got - want).max() <= most, level
    assert np.abs(lm.onnx.load(path)(x).numpy() - want).max() <= most
    assert np.median(np.abs(in_runtime(path, x, LEVELS[1]) - want)) <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("place", [p for p in W if p != "in a while"])  # ONNX Runtime's Loop is tested in test_export.py
def test_every_place_of_a_weight(place, tmp_path):
    fn, x_shape, w_shape, scales = W[place]
    rng, path = np.random.default_rng(0), tmp_path / "q.onnx"
    x, w = rng.normal(size=x_shape).astype("float32"), lm.Variable(rng.normal(size=w_shape).astype("float32"), name="w")
    q = lm.quantize(lm.function(lambda x: fn(x, w)), x)
    lm.onnx.save(q.call, path)
    model = onnx.load(path)
    initializers = {t.name: t for t in model.graph.initializer}
    assert initializers["w"].data_type == onnx.TensorProto.INT8
    rounded = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.input[0] == "w"]
    assert len(rounded) == (place != "a stack")  # ONNX Runtime has no product of stacks with a scale for each column
    for node in rounded:
        attributes = {a.name: a.i for a in node.attribute}
        assert [list(initializers[name].dims) for name in node.input[1:]] == [[scales] if scales > 1 else []] * 2
        assert scales == 1 or w_shape[attributes["axis"]] == scales
    want = q(x).numpy()
    # ONNX Runtime may round the inputs of a product whose weights alone are int8.
    most = [1e-5 + (place == "used twice") * 2e-3 * np.abs(want).max(), 1e-5 + (place in ("used twice", "recomputed")) * 0.02 * np.abs(want).max()]
    for level, atol in zip(LEVELS, most):
        np.testing.assert_allclose(in_runtime(path, x, level), want, atol=atol)


@pytest.mark.parametrize("seed", [2, 5, 9])
def test_a_file_goes_both_ways(seed, tmp_path):
    net, x = random_net(seed)
    q = lm.quantize(net, x)
    lm.onnx.save(q.call, tmp_path / "a.onnx")
    lm.save(lm.onnx.load(tmp_path / "a.onnx"), tmp_path / "program")
    program = lm.load(tmp_path / "program")
    lm.onnx.save(program.call, tmp_path / "b.onnx")
    first, second = onnx.load(tmp_path / "a.onnx"), onnx.load(tmp_path / "b.onnx")
    assert all(kinds(first).count(op) == kinds(second).count(op) for op in ("QuantizeLinear", "DequantizeLinear"))
    assert os.path.getsize(tmp_path / "b.onnx") < 1.1 * os.path.getsize(tmp_path / "a.onnx") + 1000
    want, most = q(x).numpy(), one_step(q, x)
    for form in (program, lm.onnx.load(tmp_path / "b.onnx")):
        assert np.abs(form(x).numpy() - want).max() <= most + 1e-5 * np.abs(want).max()


def test_only_the_same_computation_is_recognised(tmp_path):
    x, whole = np.linspace(-3, 3, 24, dtype="float32").reshape(4, 6), lm.Variable(np.arange(-12, 12, dtype="int8").reshape(4, 6), name="whole")
    both, row, column = (lm.Variable(np.linspace(0.1, 1, n, dtype="float32").reshape(shape), name="scale") for n, shape in ((24, (4, 6)), (6, (6,)), (4, (4, 1))))
    to8 = lambda v, low=-128.0, high=127.0, kind=lm.int8: lm.astype(lm.clip(v, low, high), kind)
    wide = lambda v: lm.astype(v, lm.float32)
    cases = {  # the function, and how many nodes of each kind it has
        "scaled": (lambda x: to8(lm.round(x / 0.1)), 1, 0), "shifted": (lambda x: to8(lm.round(x / 0.1) + 3), 1, 0), "unsigned": (lambda x: to8(lm.round(x / 0.1) + 7, 0.0, 255.0, lm.uint8), 1, 0),
        "multiplied": (lambda x: to8(lm.round(x * 10.0)), 0, 0), "narrow": (lambda x: to8(lm.round(x / 0.1), -127.0), 0, 0), "not rounded": (lambda x: to8(x / 0.1), 0, 0),
        "down": (lambda x: to8(lm.floor(x / 0.1)), 0, 0), "between": (lambda x: to8(lm.round(x / 0.1) + 0.5), 0, 0), "negative": (lambda x: to8(lm.round(x / -0.1)), 0, 0),
        "by a tensor": (lambda x: to8(lm.round(x / row)), 0, 0), "rounded after": (lambda x: to8(lm.round(x / 0.1 + 3)), 0, 0), "int16": (lambda x: to8(lm.round(x / 0.1), kind=lm.int16), 0, 0),
        "one scale": (lambda x: x + wide(whole) * 0.1, 0, 1), "scale first": (lambda x: x + 0.1 * wide(whole), 0, 1), "zero": (lambda x: x + (wide(whole) - 3) * 0.1, 0, 1), "rows": (lambda x: x + wide(whole) * row, 0, 1),
        "columns": (lambda x: x + wide(whole) * lm.reshape(lm.reshape(column, [4]), [4, 1]), 0, 1), "a column": (lambda x: x + wide(whole) * column, 0, 0), "each its own": (lambda x: x + wide(whole) * both, 0, 0),
        "far zero": (lambda x: x + (wide(whole) - 300) * 0.1, 0, 0), "half a zero": (lambda x: x + (wide(whole) - 0.5) * 0.1, 0, 0), "enlarged": (lambda x: x + wide(whole)[0:1] * wide(whole), 0, 0),
        "of int16": (lambda x: x + wide(lm.astype(whole, lm.int16)) * 0.1, 0, 0), "used twice": (lambda x: (wide(whole) * 0.1, wide(whole) + x), 0, 1),
    }
    for name, (fn, quantize, dequantize) in cases.items():
        path = tmp_path / "a.onnx"
        lm.onnx.save(fn, path, x)
        model, want = onnx.load(path), lm.function(fn)(x)
        assert (kinds(model).count("QuantizeLinear"), kinds(model).count("DequantizeLinear")) == (quantize, dequantize), (name, kinds(model))
        for level in LEVELS:
            np.testing.assert_allclose(in_runtime(path, x, level), (want[0] if isinstance(want, tuple) else want).numpy(), rtol=1e-6, err_msg=name)
