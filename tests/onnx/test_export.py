"""What lm.onnx.save writes: ONNX Runtime computes Lamina's numbers with it, and so does the network that is loaded back."""
import os
import re
import sys

import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed: ./dev setup, or pip install onnxruntime")
import onnx  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "examples", "python")]
from every_function import CASES  # noqa: E402
from test_every_function import leaves, weights  # noqa: E402

onnxruntime.set_default_logger_severity(4)
REFUSED = {  # of the table's functions: the op that is refused
    "check_numerics": "check_numerics", "check_numerics grad": "check_numerics", "unique": "unique", "max_pool2d grad": "max_pool2d", "while_loop grad": "scan",
}


def in_runtime(path, *args):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: np.asarray(a) for i, a in zip(session.get_inputs(), args)})


def same(path, fn, *args, rtol=2e-4, atol=2e-5):
    """What fn gives is what ONNX Runtime and the loaded network give."""
    wanted = [np.asarray(t) for t in leaves(fn(*args))]
    loaded = lm.onnx.load(path)(*args)
    for which, got in (("ONNX Runtime", in_runtime(path, *args)), ("loaded", [t.numpy() for t in (loaded if isinstance(loaded, tuple) else (loaded,))])):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted):
            assert a.shape == b.shape and a.dtype == b.dtype, which
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=which)


def slope_of(case):
    def total(*xs):
        parts = [lm.sum(t * lm.astype(weights(t.shape), t.dtype)) for t in leaves(case.fn(*xs)) if t.dtype == lm.float32]
        return sum(parts[1:], parts[0])
    return lm.grad(total, argnums=tuple(range(len(case.args))))


# searchsorted's table is float64, and the gradients of astype and logspace are of float64 alone. ONNX Runtime has no Erf of float64, which erfinv takes.
WITHOUT = {"searchsorted", "erfinv", "astype grad", "logspace grad", "erfinv grad"}
NAMES = [n for n in [*CASES, *(f"{name} grad" for name, case in CASES.items() if case.slopes)] if n not in WITHOUT]


@pytest.mark.parametrize("name", NAMES)
def test_EveryFunctionAndItsGradient(name, tmp_path):
    plain = name.removesuffix(" grad")
    case, path = CASES[plain], tmp_path / "f.onnx"
    fn, args = lm.function(case.fn if plain == name else slope_of(case)), [a.astype(np.float32) for a in case.args]
    if name in REFUSED:
        with pytest.raises(lm.errors.InvalidArgument, match=f"the op {REFUSED[name]} cannot be written") as caught:
            lm.onnx.save(fn, path, *args)
        assert caught.value.where and caught.value.why and caught.value.fix and not path.exists()
        return
    lm.onnx.save(fn, path, *args)
    same(path, fn, *args)


def test_RefusedFunctionsAreInTheTable():
    assert set(REFUSED) <= set(NAMES)


def example(name):
    if name == "hundred layers":
        from train_hundred_layers import HundredLayers
        return HundredLayers(), np.random.default_rng(0).random((5, 28, 28), np.float32)
    if name == "policy":
        return lm.nn.Sequential([lm.nn.Dense(32, "tanh"), lm.nn.Dense(2)]), np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    if name == "moved":
        from cartpole import moved
        return lambda s: moved(s, s[:, 0] > 0), np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    if name == "first program":
        w, b = lm.Variable(3.0, name="w"), lm.Variable(1.0, name="b")
        return lambda x: x * w + b, np.arange(5, dtype=np.float32)
    if name == "ensemble":
        nets = lm.nn.stack(lambda: lm.nn.Sequential([lm.nn.Dense(32, activation="relu"), lm.nn.Dense(10)]), 3, seeds=[1, 2, 3], input_shape=(7,))
        return lm.vmap(lambda x: nets(x), in_axes=None), np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    nn = lm.nn
    net = nn.Sequential([nn.Conv2D(4, 3, padding="same", activation="relu"), nn.BatchNorm(), nn.MaxPool2D(2), nn.Conv2D(6, 3, strides=2, activation="gelu"), nn.Conv2DTranspose(3, 2),
                         nn.AvgPool2D(2), nn.Flatten(), nn.Dense(8, activation="silu"), nn.LayerNorm(), nn.Dropout(0.5), nn.Dense(3, activation="softmax")])
    return net, np.random.default_rng(0).normal(size=(5, 14, 14, 2)).astype(np.float32)


@pytest.mark.parametrize("name", ["hundred layers", "policy", "moved", "first program", "ensemble", "images"])
def test_ExampleModelsAsOnnxRuntimeRunsThem(name, tmp_path):
    model, x = example(name)
    model(x)
    lm.onnx.save(model, tmp_path / "m.onnx", x)
    same(tmp_path / "m.onnx", model, x)


def test_OpenBatchServesEveryLength(tmp_path):
    model, x = example("policy")
    model(x)
    path = tmp_path / "m.onnx"
    fn = lm.function(lambda x: {"logits": model(x), "flat": lm.reshape(x[1:], [-1]), "both": lm.concat([x, x], 0)})
    lm.onnx.save(fn, path, lm.TensorSpec(["n", 4]))
    written = onnx.load(path).graph
    assert written.input[0].name == "x" and written.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert [o.name for o in written.output] == ["logits", "flat", "both"]
    for n in (1, 2, 9):
        same(path, fn, np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32))


SLICES = {
    **{f"[{text}]": (lambda v, place=eval(f"np.s_[{text}]"): v[place]) for text in "-1|-2:|:-1|1:|-3:-1|::-1|:3|-3:|1:-1|0:4:2|3::-2|:, -1|:, -2:|:, 2::-2|-1, 1:|-2:, :-1".split("|")},
    "concat": lambda v: lm.concat([v[-1:], v], 0), "roll down": lambda v: lm.roll(v, 1, axis=0), "roll across": lambda v: lm.roll(v, -1, axis=1),
    "last of a scan": lambda v: lm.scan(lambda c, r: (c * 0.5 + r, c), lm.zeros(3), v)[1][-1], "set": lambda v: v.at[-1].set(0.0),
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("spec", [["n", 3], ["n", "m"]], ids=["rows open", "both open"])
def test_SlicesOfOpenAxesAndTheirGradients(name, spec, tmp_path):
    if name == "last of a scan" and "m" in spec:
        return
    fn = SLICES[name]
    both = lm.function(lambda v: (fn(v), lm.grad(lambda v: lm.sum(fn(v) ** 2))(v)))
    lm.onnx.save(both, tmp_path / "f.onnx", lm.TensorSpec(spec))
    for n in (4, 5, 7):
        same(tmp_path / "f.onnx", both, np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32))


def test_GradientOfASliceLongerThanItsAxis(tmp_path):
    for stop in (slice(None, 3), slice(-3, None), slice(1, -1)):
        lm.onnx.save(lambda v, w: lm.vjp(lambda v: v[stop], v)[1](w[stop]), tmp_path / "f.onnx", lm.TensorSpec(["n"]), lm.TensorSpec(["n"]))
        for n in (1, 2, 3, 4):
            w = np.arange(1, n + 1, dtype=np.float32)
            wanted = np.zeros(n, np.float32)
            wanted[stop] = w[stop]
            np.testing.assert_array_equal(in_runtime(tmp_path / "f.onnx", w, w)[0], wanted)


def test_VariablesKeepTheirNamesAndTrainOn(tmp_path):
    model, x = example("policy")
    y = lm.constant(np.random.default_rng(1).integers(0, 2, 5))
    model(x)
    path = tmp_path / "m.onnx"
    lm.onnx.save(model, path, x)
    loaded, loss = lm.onnx.load(path), lm.losses.SparseCrossEntropy(from_logits=True)
    assert list(loaded.variables) == [v.name for v in model.variables]
    slopes = []
    for f, variables in ((model, model.trainable_variables), (loaded, loaded.trainable_variables)):
        with lm.GradientTape() as tape:
            cost = loss(y, f(x))
        slopes.append(tape.gradient(cost, variables))
    for a, b in zip(*slopes):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)
    optimizer, first = lm.optim.SGD(0.5), cost.item()

    @lm.function
    def step():
        with lm.GradientTape() as tape:
            cost = loss(y, loaded(x))
        optimizer.apply_gradients(zip(tape.gradient(cost, loaded.trainable_variables), loaded.trainable_variables))
        return cost

    for _ in range(20):
        last = step().item()
    assert last < 0.8 * first


V = lm.Variable(np.zeros(3, np.float32), name="v")
SPEC = lm.TensorSpec([None], lm.float32)


def printed(x):
    lm.print("x", x)
    return x


def assigned(x):
    V.assign(x)
    return x


@pytest.mark.parametrize("fn, spec, op", [
    (printed, lm.TensorSpec([3]), "print"), (assigned, lm.TensorSpec([3]), "assign"), (lambda x: x + lm.random.uniform((3,)), lm.TensorSpec([3]), "random_uniform"),
    (lambda x: lm.dropout(x, 0.5), lm.TensorSpec([3]), "dropout"), (lambda x: lm.sort(x), SPEC, "sort"), (lambda x: lm.unique(x, size=2), lm.TensorSpec([3]), "unique"),
])
def test_WhatOnnxDoesNotHaveIsRefusedByNameAndLine(fn, spec, op, tmp_path):
    with pytest.raises(lm.errors.InvalidArgument, match=f"lm.onnx.save: the op {op} cannot") as caught:
        lm.onnx.save(fn, tmp_path / "m.onnx", spec)
    assert "test_export.py" in caught.value.where and caught.value.fix and not os.listdir(tmp_path)


I32 = np.array([[-7, 3, 0], [5, -2, 9]], np.int32)
F16 = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float16)
OTHERS = {
    "half products": (lambda x: lm.softmax(lm.matmul(x, lm.transpose(x))), F16), "half activations": (lambda x: lm.layer_norm(lm.gelu(x)), F16),
    "whole numbers": (lambda x: lm.floor_divide(x, 2) + lm.mod(x, 3) + lm.fmod(x, lm.constant([0, 2, 3], lm.int32)) + lm.shift_left(x, 1) + lm.sum(x, 1, keepdims=True) + lm.max(x), I32),
    "bits": (lambda x: lm.bitwise_and(x, 3) + lm.shift_right(x, 1), I32),
    "bools": (lambda x: lm.astype(lm.logical_and(x > 0, x < 5), lm.int64) + lm.argmax(x, 1, keepdims=True), I32),
    "double": (lambda x: lm.exp(x) * lm.matmul(x, lm.transpose(x)), F16[:, :3].astype(np.float64)),
    "backward slices": (lambda x: x[::-1, -1:0:-2], F16.astype(np.float32)),
    "while": (lambda x: lm.while_loop(lambda s: lm.sum(s) < 100.0, lambda s: s * 2.0 + 1.0, x), np.ones(3, np.float32)),
    "for": (lambda x: lm.fori_loop(0, 5, lambda i, s: s + x[0] * lm.astype(i, lm.float32), x), np.ones((3, 2), np.float32)),
    "wide unsigned": (lambda x: lm.concat([lm.astype(x * 3 // 2, lm.uint64), lm.astype(lm.sort(x[::-1]) - 1, lm.uint64)], 0), np.array([1, 40000, 65535], np.uint16)),
    "complex": (lambda x: lm.abs(lm.exp(lm.complex(x, -x)) * lm.constant([1j, 2, 1 - 1j]) - lm.conj(lm.complex(x, x))), np.array([0.5, -1, 2], np.float32)),
    "Fourier transforms": (lambda x: lm.abs(lm.fft.fft(x, axis=0)) + lm.fft.irfft(lm.fft.rfft(x, axis=0) * (1 - 1j), 3, axis=0), F16.astype(np.float32)),
    "table": (lambda i: lm.gather(lm.constant(np.arange(12, dtype=np.float32).reshape(4, 3)), i), np.array([1, 3, 0])),
}


@pytest.mark.parametrize("name", OTHERS)
def test_OtherDtypesAndLoops(name, tmp_path):
    fn, x = OTHERS[name]
    fn = lm.function(fn)
    lm.onnx.save(fn, tmp_path / "f.onnx", x)
    same(tmp_path / "f.onnx", fn, x, rtol=1e-2 if x.dtype == np.float16 else 1e-5, atol=1e-3 if x.dtype == np.float16 else 1e-6)


def pairs(values, dtype):
    return [np.ascontiguousarray(part) for part in np.meshgrid(np.array(values, dtype), np.array(values, dtype))]


DIVISION = {
    **{name: pairs([low := np.iinfo(name).min, low + 1, np.iinfo(name).max, 0, 1, 2, 3, 7] + ([-1, -2, -3, -7] if low else []), name) for name in "int8 int16 int32 int64 uint8".split()},
    "tenths": [np.arange(1, 11, dtype=np.float32) / 10, np.full(10, 0.1, np.float32)], "tenths in double": [np.arange(-10, 11) / 10, np.full(21, 0.1)],
    "borders": pairs([0.0, -0.0, 1, -1, 2, -3, 3.5, 1e30, -1e30, 1e-30, np.inf, -np.inf, np.nan], np.float32),
}


@pytest.mark.parametrize("name", DIVISION)
@pytest.mark.parametrize("op", ["floor_divide", "mod", "fmod"])
def test_DivisionRoundsAsInLamina(op, name, tmp_path):
    fn, (a, b) = lm.function(getattr(lm, op)), DIVISION[name]
    lm.onnx.save(fn, tmp_path / "f.onnx", a, b)
    same(tmp_path / "f.onnx", fn, a, b, rtol=0, atol=0)


BORDERS = [0.0, -0.0, 1, -1, 0.5, -0.5, 1e-12, 1e30, -1e30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["atan2", "log1p", "silu", "silu grad", "gelu grad", "gelu_tanh grad"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_BordersOfFormulas(name, dtype, tmp_path):
    if dtype == np.float64 and name in ("atan2", "gelu grad"):
        return  # ONNX Runtime has no Atan and Erf of float64
    plain = name.removesuffix(" grad")
    op = (lambda x: lm.gelu(x, True)) if plain == "gelu_tanh" else getattr(lm, plain)
    args = pairs(BORDERS, dtype) if name == "atan2" else [np.array(BORDERS, dtype)]
    fn = lm.function(op if plain == name else lm.grad(lambda x: lm.sum(op(x))))
    lm.onnx.save(fn, tmp_path / "f.onnx", *args)
    (got,), wanted = in_runtime(tmp_path / "f.onnx", *args), fn(*args).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)
    if name == "atan2":  # ONNX Runtime's Where loses the sign of 0
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


NARROW = {
    "sum": lambda x: lm.sum(x, 0), "prod": lambda x: lm.prod(x, 0), "max": lambda x: lm.max(x, 0), "min": lambda x: lm.min(x, 1), "cumsum": lambda x: lm.cumsum(x, 0),
    "argmax": lambda x: lm.argmax(x, 1), "pow": lambda x: lm.pow(x, x), "neg": lm.neg, "relu": lm.relu,
    "max_pool2d": lambda x: lm.max_pool2d(x[None, :, :, None], (2, 2)), "isnan": lm.isnan, "less": lambda x: lm.less(x, x[::-1]),
    "round": lm.round, "softplus": lm.softplus, "conv2d": lambda x: lm.conv2d(x[None, :, :, None], x[:2, :2, None, None]), "matmul": lambda x: lm.matmul(x, x), "sort": lambda x: lm.sort(x, 1),
    "where": lambda x: lm.where(lm.less(x, x[::-1]), x, x[::-1]), "maximum": lambda x: lm.maximum(x, x[::-1]), "pad": lambda x: lm.pad(x, ((1, 0), (0, 1))),
}
UNRUN = "bfloat16", "uint64"  # ONNX Runtime (CPU) lacks most ops of these


@pytest.mark.parametrize("name", NARROW)
def test_EveryDtypeIsWrittenAsTheStandardHasItOrRefused(name, tmp_path):
    fn, path = lm.function(NARROW[name]), tmp_path / "f.onnx"
    for dtype in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split():
        x = lm.astype(lm.constant([[3, 1, 2], [0, 4, 1], [2, 2, 5]]), dtype)
        try:
            wanted = fn(x)
        except lm.errors.Error:
            continue  # Lamina does not have it either
        if name == "max_pool2d" and dtype in ("int64", "uint64"):  # no dtype of ONNX's op holds these numbers
            with pytest.raises(lm.errors.InvalidArgument, match=f"the op {name} cannot be written") as caught:
                lm.onnx.save(fn, path, x)
            assert dtype in caught.value.why and "test_export.py" in caught.value.where
            continue
        lm.onnx.save(fn, path, x)
        onnx.checker.check_model(path, full_check=True)
        if dtype not in UNRUN and (name, dtype) not in (("softplus", "float64"), ("conv2d", "float64")):
            (got,) = in_runtime(path, x.numpy())
            assert got.dtype == wanted.numpy().dtype
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-2 if dtype == "float16" else 1e-5, err_msg=dtype)


def test_ComplexInputsAndOutputsAreRefused(tmp_path):
    for fn, spec in ((lambda z: lm.abs(z), lm.TensorSpec([3], lm.complex64)), (lambda x: lm.complex(x, x), lm.TensorSpec([3]))):
        with pytest.raises(lm.errors.TypeMismatch, match="lm.onnx.save: a tensor is complex64"):
            lm.onnx.save(fn, tmp_path / "m.onnx", spec)


# Ops that are not written, and why.
UNWRITTEN = {
    "cannot be in a file": "assign check check_numerics print dropout random_integers random_normal random_truncated_normal random_uniform",
    "are no ops of ONNX": "cholesky eigh qr slogdet solve svd triangular_solve",
    "are between ranks": "all_gather all_reduce broadcast_from reduce_scatter send_receive",
    "are made by passes, after tracing": "dense dense_grad_input dense_grad_weights dense_update fused_elementwise",
    "are written by the walk itself": "input read",
    "have lengths or places that ONNX's ops do not give": "unique with_length max_pool2d_grad",
}


def test_EveryOpIsWrittenOrListed():
    from lamina.onnx._export_ops import EXPORTED
    ops = set()
    for path in (("graph", "ops", "ops.inc"), ("kernels", "shared", "elementwise_ops.inc")):
        with open(os.path.join(ROOT, *path)) as file:
            ops |= set(re.findall(r"^(?:OP|ELEMENTWISE)\((\w+)[,)]", file.read(), re.M)) - {"name"}
    assert len(ops) > 120
    listed = set(" ".join(UNWRITTEN.values()).split())
    assert ops - set(EXPORTED) == listed and set(EXPORTED) <= ops
