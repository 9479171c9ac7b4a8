"""lm.quantize: int8 weights; results within the bound that half a step implies; saved, exported and run with the same numbers."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from exported import Code

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
ROOT = pathlib.Path(__file__).parents[2]
F32 = lm.float32
SLOPES = {None: 1, "relu": 1, "tanh": 1, "sigmoid": 0.25, "gelu": 1.13, "silu": 1.1, "elu": 1, "softplus": 1, "leaky_relu": 1}  # the largest of each


def random_net(seed):
    """(net, rows of inputs) of one to four layers: convolutions, transposed ones, batch normalisation, dense layers."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]
    shape, layers = ((int(rng.integers(8, 12)), int(rng.integers(8, 12)), int(rng.integers(1, 4))) if seed % 2 else (int(rng.integers(1, 40)),)), []
    for _ in range(rng.integers(1, 3) if seed % 2 else 0):
        kind = pick(lm.nn.Conv2D, lm.nn.Conv2D, lm.nn.Conv2DTranspose)
        layers.append(kind(int(rng.integers(1, 7)), int(rng.integers(1, 4)), strides=int(rng.integers(1, 3)), padding=pick("same", "valid"), activation=pick(*SLOPES)))
        layers += [lm.nn.BatchNorm()] if rng.random() < 0.3 else []
    layers += [lm.nn.Flatten()] if seed % 2 else []
    layers += [lm.nn.Dense(int(rng.integers(1, 40)), pick(*SLOPES), use_bias=bool(rng.integers(2))) for _ in range(rng.integers(1, 4))]
    net = lm.nn.Sequential([lm.nn.Input(shape), *layers])
    for v in net.trainable_variables:
        v.assign(v + (rng.normal(size=tuple(v.shape)) * 10.0 ** rng.integers(-3, 0)).astype("float32"))
    return net, (rng.normal(size=(48, *shape)) * 10.0 ** rng.integers(-2, 2) + rng.normal()).astype("float32")


def steps_of(q, name):
    """The scale of the inputs of a product, and their ends."""
    (low, high), = q.report["weights"][name]["inputs"]
    return (high - low) / 255, low, high


def stored(q, name):
    return vars(q)[name].numpy(), vars(q)[f"{name}.scale"].numpy()


def product_of(layer, x, weights):
    """The layer's product by these weights, without bias and activation, in float64."""
    config = layer.get_config() | {"use_bias": False, "activation": None, "dtype": "float64"}
    again = type(layer).from_config({k: v for k, v in config.items() if not k.endswith("initializer")})
    again(lm.constant(x))
    again.kernel.assign(lm.constant(np.asarray(weights, np.float64)))
    return again(lm.constant(x)).numpy()


@pytest.mark.parametrize("seed", range(400 if LONG else 40))
def test_results_stay_within_the_bound_of_half_steps(seed):
    net, x = random_net(seed)
    q = lm.quantize(net, x)
    value, apart = x.astype(np.float64), np.zeros(x.shape)  # what a layer gets in the float model, and how far the quantized model's may be
    for i, layer in enumerate(net.layers):
        if isinstance(layer, (lm.nn.Dense, lm.nn.Conv2D, lm.nn.Conv2DTranspose)):
            kernel = layer.kernel.numpy().astype(np.float64)
            step, low, high = steps_of(q, f"{i}.kernel")
            whole, scale = stored(q, f"{i}.kernel")
            scale = scale.astype(np.float64)[:, None] if isinstance(layer, lm.nn.Conv2DTranspose) else scale.astype(np.float64)
            assert whole.dtype == np.int8 and np.all(np.abs(whole * scale - kernel) <= scale * 0.50001)
            inputs = apart + np.maximum(step / 2, np.maximum(value + apart - high, low - value + apart))
            apart = product_of(layer, inputs, np.abs(kernel) + scale / 2) + product_of(layer, np.abs(value), np.broadcast_to(scale / 2, kernel.shape))
            apart *= SLOPES[layer.get_config()["activation"]]
        elif isinstance(layer, lm.nn.BatchNorm):
            apart = apart * np.abs(layer.gamma.numpy() / np.sqrt(layer.moving_variance.numpy() + layer.epsilon))
        else:
            apart = apart.reshape(len(x), -1)
        value = layer(lm.constant(value.astype(np.float32))).numpy().astype(np.float64)
        apart = apart + 1e-5 * np.abs(value).max()  # of float32
    got = q(x).numpy()
    assert np.all(np.abs(got - value) <= apart)
    assert np.abs(got - value).mean() <= 0.1 * np.abs(value).mean() + 1e-4  # the bound is of the worst case
    assert q.report["max_difference"] == pytest.approx(np.abs(got - net(x).numpy()).max() / np.abs(net(x).numpy()).max(), rel=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_numbers_are_those_of_the_stored_integers(seed):
    rng = np.random.default_rng(seed)
    net = lm.nn.Sequential([lm.nn.Input((7,)), lm.nn.Dense(5, kernel_initializer="glorot_uniform", bias_initializer="glorot_uniform")]) if seed % 2 else lm.nn.Sequential(
        [lm.nn.Input((6, 5, 3)), lm.nn.Conv2D(4, 3, strides=2, padding="same")])
    x = rng.normal(size=(20, *((7,) if seed % 2 else (6, 5, 3)))).astype("float32") * 2 + 1
    q = lm.quantize(net, x)
    step, low, _ = steps_of(q, "0.kernel")
    whole, scale = stored(q, "0.kernel")
    integers = np.clip(np.rint(x / np.float32(step)) + np.rint(-128 - low / step), -128, 127)
    want = product_of(net.layers[0], (integers - np.rint(-128 - low / step)) * step, whole * scale.astype(np.float64)) + net.layers[0].bias.numpy()
    np.testing.assert_allclose(q(x).numpy(), want, rtol=1e-4, atol=1e-5)


W = {  # where the weight is: a function of (x, w), shapes, scales
    "right": (lambda x, w: lm.matmul(x, w), (9, 6), (6, 4), 4), "right, transposed": (lambda x, w: lm.matmul(x, w, transpose_b=True), (9, 6), (4, 6), 4),
    "left": (lambda x, w: lm.matmul(w, x), (6, 9), (4, 6), 4), "left, transposed": (lambda x, w: lm.matmul(w, x, transpose_a=True), (6, 9), (6, 4), 4),
    "turned before": (lambda x, w: lm.matmul(x, lm.transpose(w)), (9, 6), (4, 6), 4), "turned twice": (lambda x, w: lm.matmul(x, lm.transpose(w), transpose_b=True), (9, 6), (6, 4), 4),
    "a vector": (lambda x, w: lm.matmul(x, w), (9, 6), (6,), 1), "of a vector": (lambda x, w: lm.matmul(x, w), (6,), (6, 4), 4),
    "a stack": (lambda x, w: lm.matmul(x, w), (3, 9, 6), (3, 6, 4), 4), "shared by a stack": (lambda x, w: lm.matmul(x, w), (3, 9, 6), (6, 4), 4),
    "reshaped, last axis kept": (lambda x, w: lm.matmul(x, lm.reshape(w, [6, 4])), (9, 6), (2, 3, 4), 4), "reshaped": (lambda x, w: lm.matmul(x, lm.reshape(w, [6, 4])), (9, 6), (4, 6), 1),
    "einsum": (lambda x, w: lm.einsum("bi,oi->bo", x, w), (9, 6), (4, 6), 4), "stop_gradient": (lambda x, w: lm.matmul(x, lm.stop_gradient(w)), (9, 6), (6, 4), 4),
    "conv1d": (lambda x, w: lm.conv1d(x, w), (2, 9, 3), (3, 3, 4), 4), "conv2d": (lambda x, w: lm.conv2d(x, w, 2, "same"), (2, 9, 9, 3), (3, 3, 3, 4), 4),
    "conv2d in groups": (lambda x, w: lm.conv2d(x, w, groups=3), (2, 9, 9, 3), (3, 3, 1, 6), 6), "conv2d_transpose": (lambda x, w: lm.conv2d_transpose(x, w, 2), (2, 4, 4, 3), (3, 3, 5, 3), 5),
    "used twice": (lambda x, w: lm.matmul(lm.tanh(lm.matmul(x, w)), w), (9, 6), (6, 6), 6), "used elsewhere": (lambda x, w: lm.matmul(x, w) + lm.sum(w), (9, 6), (6, 4), 4),
    "in a loop": (lambda x, w: lm.fori_loop(0, 2, lambda i, a: lm.tanh(lm.matmul(a, w)), x), (9, 6), (6, 6), 6),
    "in a scan": (lambda x, w: lm.scan(lambda c, row: (c + row, lm.matmul(lm.reshape(row, [1, 6]), lm.transpose(w))), x[0], x)[1], (9, 6), (4, 6), 4),
    "in a while": (lambda x, w: lm.while_loop(lambda c: lm.max(c) > 1, lambda c: lm.tanh(lm.matmul(c, w)), x), (9, 6), (6, 6), 6),
    "in a branch": (lambda x, w: lm.cond(lm.sum(x) > 1e9, lambda: lm.matmul(x, lm.transpose(w)), lambda: lm.matmul(x, w, transpose_b=True) * 2), (9, 6), (4, 6), 4),
    "recomputed": (lambda x, w: lm.checkpoint(lambda x: lm.tanh(lm.matmul(x, w)))(x), (9, 6), (6, 4), 4),
}


@pytest.mark.parametrize("place", W)
def test_every_place_of_a_weight(place, tmp_path):
    fn, x_shape, w_shape, scales = W[place]
    rng = np.random.default_rng(0)
    x = rng.normal(size=x_shape).astype("float32")
    w = lm.Variable((rng.normal(size=w_shape) * 10.0 ** rng.integers(-2, 3, w_shape[-1:])).astype("float32") if "turn" not in place else rng.normal(size=w_shape).astype("float32"), name="w")
    float_fn = lm.function(lambda x: fn(x, w))
    q = lm.quantize(float_fn, x)
    whole, scale = stored(q, "w")
    assert whole.dtype == np.int8 and whole.shape == w_shape and scale.size == scales and q.report["weights"]["w"]["scales"] == scales
    assert ("in" in place.split()[:1] or place == "recomputed") == (q.report["weights"]["w"]["inputs"] == [])
    # The same function of the rounded weights, with its inputs as they are, is near.
    axis = [a for a, n in enumerate(w_shape) if n == scales][-1:] if scales > 1 else []
    axis = {"conv2d_transpose": [2], "used twice": [1], "in a loop": [1], "in a while": [1]}.get(place, axis)
    rounded = lm.Variable((whole * scale.reshape([-1 if a in axis else 1 for a in range(len(w_shape))])).astype("float32"))
    assert np.all(np.abs(rounded.numpy() - w.numpy()) <= np.max(scale) * 0.51)
    want, got = fn(x, rounded).numpy(), q(x).numpy()
    assert np.abs(got - want).max() <= 0.02 * np.abs(want).max()
    assert np.array_equal(q.call(x).numpy(), lm.function(lambda x: q(x))(x).numpy())
    lm.save(q, tmp_path / "q")
    assert np.array_equal(lm.load(tmp_path / "q")(x).numpy(), got)


def digits():
    images = lm.data.read_idx(ROOT / "examples/data/digits-images-idx3-ubyte.gz").astype("float32") / 255
    labels = lm.data.read_idx(ROOT / "examples/data/digits-labels-idx1-ubyte.gz").astype("int32")
    test = np.arange(len(labels)) % 5 == 4
    return images[~test], labels[~test], images[test], labels[test]


def convolutional():
    return lm.nn.Sequential([lm.nn.Input((28, 28)), lm.nn.Activation(lambda x: lm.expand_dims(x, -1)), lm.nn.Conv2D(8, 3, strides=2, activation="relu"), lm.nn.BatchNorm(),
                             lm.nn.Conv2D(16, 3, strides=2, activation="relu"), lm.nn.Flatten(), lm.nn.Dense(64, "relu"), lm.nn.Dropout(0.2), lm.nn.Dense(10)])


def hundred():
    sys.path.insert(0, str(ROOT / "examples/python"))
    from train_hundred_layers import HundredLayers
    return HundredLayers()


@pytest.mark.parametrize("make", [convolutional, hundred])
def test_trained_networks_lose_at_most_a_point(make, tmp_path):
    x, y, test_x, test_y = digits()
    lm.random.set_seed(0)
    net = make()
    net.compile(lm.optim.Adam(1e-3) if make is convolutional else lm.optim.SGD(0.005), lm.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(x, y, batch_size=20, epochs=3, verbose=0)
    q = lm.quantize(net, x[::8])
    accuracy = {m: float(np.mean(np.argmax(m(test_x).numpy(), -1) == test_y)) for m in (net, q)}
    print(f"{make.__name__}: accuracy {accuracy[net]:.3f}, with int8 weights {accuracy[q]:.3f}; {q}")
    assert accuracy[net] > 0.8 and accuracy[q] >= accuracy[net] - 0.01
    lm.save({"call": lm.function(lambda x: net(x, training=False), input_signature=[lm.TensorSpec([None, 28, 28], F32)])}, tmp_path / "float")
    lm.save(q, tmp_path / "int8")
    size = {name: (tmp_path / name / "weights.safetensors").stat().st_size for name in ("float", "int8")}
    kinds = {name: str(t.dtype) for name, t in lm.load_tensors(tmp_path / "int8" / "weights.safetensors").items()}
    assert all((kind == "int8") == name.endswith("kernel") for name, kind in kinds.items()), kinds
    assert size["int8"] < size["float"] / (3.5 if make is convolutional else 3), size  # 100 layers of 64: 11 % of their bytes are names, scales and biases
    assert np.array_equal(lm.load(tmp_path / "int8")(test_x).numpy(), q(test_x).numpy())


@pytest.mark.parametrize("weights", ["arrays", "file"])
def test_c_code_has_int8_weights_and_the_same_numbers(weights, tmp_path):
    for seed in range(6 if LONG else 3):
        net, x = random_net(seed)
        q, x = lm.quantize(net, x), x[:7]
        folder = tmp_path / f"q{seed}"
        lm.export_c(q, folder, lm.constant(x), weights=weights)
        loaded = Code(folder).loaded(tmp_path)
        (got,), error = loaded.call(loaded.model(), "run", x)
        want = q(x).numpy()
        assert error == "" and np.abs(got - want).max() <= 1e-5 * max(1, np.abs(want).max()) + one_step(q, x)
    net = lm.nn.Sequential([lm.nn.Input((128,)), lm.nn.Dense(128, "relu"), lm.nn.Dense(128)])
    x, sizes = lm.ones((1, 128)), []
    for name, model in (("f", net), ("i", lm.quantize(net, np.random.default_rng(0).normal(size=(64, 128)).astype("float32")))):
        lm.export_c(model, tmp_path / name, x, weights=weights)
        if weights == "file":
            sizes.append(os.path.getsize(tmp_path / name / f"{name}.safetensors"))
        else:
            subprocess.run(["gcc", "-std=c99", "-Os", "-c", tmp_path / name / f"{name}.c", "-o", tmp_path / f"{name}.o"], check=True)
            sizes.append(int(subprocess.run(["size", tmp_path / f"{name}.o"], capture_output=True, text=True, check=True).stdout.split("\n")[1].split()[0]))
    assert sizes[1] < sizes[0] / 3.2, sizes


def one_step(q, x):
    """What one step of each product's inputs changes at most, beyond the first product: a rounding may fall to the other side."""
    total = 0.0
    for i, (name, weight) in enumerate(q.report["weights"].items()):
        if i:
            whole, scale = stored(q, name)
            total += steps_of(q, name)[0] * float(np.abs(whole * scale.max()).sum(axis=tuple(range(whole.ndim - 1))).max())
    return total


def test_the_command_line_runs_it(tmp_path):
    program = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(lm.__file__))), "lamina-run")
    if not os.path.exists(program):
        pytest.skip("lamina-run was not built: CLI11 is missing")
    net, x = random_net(3)
    q = lm.quantize(net, x)
    lm.save(q, tmp_path / "q")
    np.save(tmp_path / "x.npy", x)
    done = subprocess.run([program, tmp_path / "q", "--input", f"inputs={tmp_path}/x.npy", "--output", f"output={tmp_path}/y.npy"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), q(x).numpy())


def test_forms_of_data_are_the_same():
    net, x = random_net(1)
    rows = lm.data.Dataset.from_tensor_slices
    forms = [x, lm.constant(x), [x[:20], lm.constant(x[20:])], (part for part in (x[:5], x[5:])), rows(x).batch(16), rows((x, np.zeros(len(x)))).batch(7), [x[i:i + 1] for i in range(len(x))]]
    made = [lm.quantize(net, form) for form in forms]
    assert all(m.report["weights"].keys() == made[0].report["weights"].keys() for m in made)
    for m in made[1:]:
        np.testing.assert_allclose([w["inputs"] for w in m.report["weights"].values()], [w["inputs"] for w in made[0].report["weights"].values()], rtol=1e-5)
    many = np.tile(x, (12, *[1] * (x.ndim - 1)))  # in parts of 256 rows
    np.testing.assert_allclose(steps_of(lm.quantize(net, many), "0.kernel"), steps_of(made[0], "0.kernel"), rtol=1e-5)
    assert made[0](x[:3]).shape == made[0](x).shape[:0] + (3, *made[0](x).shape[1:])  # any number of rows


class Policy(lm.Module):
    def __init__(self):
        super().__init__()
        self.net = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dense(3)])
        self.net(lm.ones((1, 4)))

    @lm.function(input_signature=[{"obs": lm.TensorSpec(["n", 4], F32), "mask": lm.TensorSpec(["n", 3], F32)}])
    def act(self, inputs):
        logits = self.net(inputs["obs"]) * inputs["mask"]
        return {"logits": logits, "action": lm.argmax(logits, axis=-1)}


def test_models_of_every_kind(tmp_path):
    rng = np.random.default_rng(0)
    obs, mask = rng.normal(size=(40, 4)).astype("float32"), np.ones((40, 3), "float32")
    policy = Policy()
    data = {"obs": obs, "mask": mask}
    q = lm.quantize(policy.act, data)
    want, got = policy.act(data), q(data)
    assert sorted(got) == ["action", "logits"] and q.report["changed"] == np.mean(want["action"].numpy() != got["action"].numpy())
    lm.save(policy, tmp_path / "policy")
    loaded = lm.load(tmp_path / "policy")
    for other in (lm.quantize(loaded.act, data), lm.quantize(policy.act.get_concrete_function(policy, data), [data]), lm.quantize(loaded.act, lm.data.Dataset.from_tensor_slices(data).batch(40))):
        assert np.array_equal(other(data)["logits"].numpy(), got["logits"].numpy())
    # Two inputs, of a functional model and of a function.
    a, b = lm.nn.Input((4,)), lm.nn.Input((3,))
    joined = lm.nn.Model([a, b], lm.nn.Dense(2)(Joined()([lm.nn.Dense(5)(a), b])))
    q = lm.quantize(joined, [[obs, mask]])
    assert np.abs(q([obs, mask]).numpy() - joined([obs, mask]).numpy()).max() < 0.05
    w = lm.Variable(rng.normal(size=(4, 3)).astype("float32"))
    q = lm.quantize(lambda x, m, twice: lm.matmul(x, w) * m * (2 if twice else 1), (obs, mask, True))
    assert q(obs, mask, True).shape == (40, 3)
    with pytest.raises(lm.errors.SignatureMismatch):
        q(obs, mask, False)
    # A .onnx file.
    pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
    lm.onnx.save(policy.net, tmp_path / "a.onnx", lm.TensorSpec(["n", 4], F32, name="obs"))
    q = lm.quantize(lm.onnx.load(tmp_path / "a.onnx"), obs)
    assert np.array_equal(q(obs=obs).numpy(), lm.quantize(policy.net, obs)(obs).numpy())


class Joined(lm.nn.Layer):
    def call(self, parts):
        return lm.concat(parts, axis=-1)


class Branching(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.inner = lm.nn.Dense(6, "relu")
        self.drop = lm.nn.Dropout(0.5)
        self.outer = lm.nn.Dense(2)

    def call(self, x):
        h = self.drop(self.inner(x))
        if lm.sum(h) > 0:
            h = h * 2
        return self.outer(h)


def test_a_copy_stands_by_itself():
    net, x = Branching(), np.random.default_rng(0).normal(size=(30, 5)).astype("float32")
    net(x)
    q = lm.quantize(net, x)
    before = q(x).numpy()
    for v in net.variables:
        v.assign(v * 0)
    assert np.array_equal(q(x).numpy(), before) and np.all(net(x).numpy() == 0)
    assert q.trainable_variables == [] and sorted(q.state_dict()) == ["inner.bias", "inner.kernel", "inner.kernel.scale", "outer.bias", "outer.kernel", "outer.kernel.scale"]
    inside = lm.function(lambda x: q(x) + 1)
    assert np.array_equal(inside(x).numpy(), before + 1)
    assert np.array_equal(lm.vmap(q)(np.stack([x, x])).numpy(), np.stack([before, before]))


def test_print_shows_the_report():
    net, x = Branching(), np.random.default_rng(0).normal(size=(30, 5)).astype("float32")
    net(x)
    q = lm.quantize(net, x)
    text, r = str(q), q.report
    assert r["bytes_before"] == 4 * (5 * 6 + 6 + 6 * 2 + 2) and r["bytes_after"] == 5 * 6 + 6 * 2 + 4 * (6 + 6 + 2 + 2)
    assert f"{r['bytes_before']} bytes before, {r['bytes_after']} after" in text and "inner.kernel: int8[5, 6], 6 scales, inputs from" in text
    assert 0 < r["mean_difference"] < 0.05 and f"{r['max_difference']:.3%}" in text and repr(q) == "<Quantized call(inputs: float32(None, 5))>"
    attention = lm.function(lambda x: lm.matmul(lm.matmul(x, x, transpose_b=True), net(x)))
    assert any("matmul, test_quantization.py:" in why and "both are computed" in why for why in lm.quantize(attention, x).report["float32"])


@pytest.mark.parametrize("count", [1, 7, 9_999, 10_000, 35_000])
def test_steps_reach_all_values_but_the_outermost(count):
    rng = np.random.default_rng(count)
    values = np.append(rng.normal(size=count - count // 10_000) + rng.normal(), rng.choice([-1e6, 1e6], count // 10_000)).astype("float32")
    w = lm.Variable(np.ones((1, 1), "float32"))
    for data in (values[:, None], [values[:count // 3, None], values[count // 3:, None]]):
        step, low, high = steps_of(lm.quantize(lm.function(lambda x: lm.matmul(x, w), input_signature=[lm.TensorSpec([None, 1])]), data), w.name)
        ordered = np.sort(values)
        least, most = min(ordered[count // 10_000], 0), max(ordered[-1 - count // 10_000], 0)
        assert abs(low - least) <= step and abs(high - most) <= step and step == pytest.approx((most - least) / 255, rel=1e-5)
        assert step < 0.1


def test_zeros_and_one_value_have_steps():
    w = lm.Variable(np.zeros((3, 2), "float32"), name="w")
    f = lm.function(lambda x: lm.matmul(x, w))
    for x in (np.zeros((4, 3), "float32"), np.full((4, 3), 5.0, "float32"), np.full((4, 3), -1e-30, "float32"), np.full((4, 3), 1e-44, "float32")):
        w.assign(w * 0)
        assert np.all(lm.quantize(f, x)(x).numpy() == 0)
        w.assign(w + 1)
        np.testing.assert_allclose(lm.quantize(f, x)(x).numpy(), f(x).numpy(), rtol=0.005, atol=1e-37)


def test_wrong_uses_say_what_is_wrong():
    x = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
    net = lm.nn.Sequential([lm.nn.Dense(6, "relu"), lm.nn.Dropout(0.5), lm.nn.Dense(2)])
    new = lm.nn.Sequential([lm.nn.Dense(2)])
    net(x)
    half, w = lm.Variable(np.ones((5, 2), "float16")), lm.Variable(np.ones((5, 2), "float32"), name="w")
    ones = lambda *shape: lm.ones(shape)
    bad = lm.Variable(np.full((5, 2), np.nan, "float32"), name="bad")
    q = lm.quantize(net, x)
    rows = lm.data.Dataset.from_tensor_slices(x).batch(4)
    E = lm.errors
    for call, kind, text in [
        (lambda: lm.quantize(lambda x: x * 2, x), E.InvalidArgument, "it has no matmul"), (lambda: lm.quantize(lambda x: lm.matmul(x, x, transpose_b=True), x), E.InvalidArgument, "both are computed"),
        (lambda: lm.quantize(lambda x: lm.matmul(w, half), x), E.TypeMismatch, "dtype"), (lambda: lm.quantize(lambda x: lm.matmul(x, half), x.astype("float16")), E.InvalidArgument, "is float16"),
        (lambda: lm.quantize(lambda: lm.matmul(lm.transpose(w), w), ()), E.InvalidArgument, "both are Variables"), (lambda: lm.quantize(q, x), E.InvalidArgument, "int8 already"),
        (lambda: lm.quantize(net, []), E.InvalidArgument, "no calibration data"), (lambda: lm.quantize(net, x[:0]), E.InvalidArgument, "no calibration data"),
        (lambda: lm.quantize(net, iter(())), E.InvalidArgument, "no calibration data"), (lambda: lm.quantize(net, rows.repeat()), E.InvalidArgument, "repeats for ever"),
        (lambda: lm.quantize(net, 3), E.TypeMismatch, "no calibration data"), (lambda: lm.quantize(net, None), E.TypeMismatch, "no calibration data"), (lambda: lm.quantize(net, "x"), E.TypeMismatch, "no calibration data"),
        (lambda: lm.quantize(net, x[:, :3]), E.InvalidArgument, "f32[5,6]"), (lambda: lm.quantize(net, [x, x[:, :3]]), E.SignatureMismatch, "does not fit"),
        (lambda: lm.quantize(new, x), E.StateError, "do not exist yet"), (lambda: lm.quantize(lambda x: net(x, training=True), x), E.InvalidArgument, "draws random numbers: dropout"),
        (lambda: lm.quantize(lambda x: w.assign(lm.matmul(lm.transpose(x), x)[:, :2]), x), E.InvalidArgument, "it assigns a Variable"),
        (lambda: lm.quantize(3, x), E.TypeMismatch, "cannot be called"), (lambda: lm.quantize(lm.Module(), x), E.TypeMismatch, "cannot be called"),
        (lambda: lm.quantize(lambda x, v: lm.matmul(x, v), (x, w)), E.InvalidArgument, "takes a Variable"), (lambda: lm.quantize(lambda x, y: lm.matmul(x, w) + y, x), E.SignatureMismatch, "'y'"),
        (lambda: lm.quantize(lambda x: lm.matmul(x, w), x * np.nan), E.InvalidArgument, "not finite"), (lambda: lm.quantize(lambda x: lm.matmul(x, bad), x), E.InvalidArgument, "'bad' is not finite"),
        (lambda: lm.quantize(net), E.TypeMismatch, "data"), (lambda: lm.quantize(), E.TypeMismatch, "quantize"), (lambda: q(ones(2, 7)), E.SignatureMismatch, "5"), (lambda: q(), E.SignatureMismatch, "inputs"),
    ]:
        with pytest.raises(kind) as caught:
            call()
        assert text in str(caught.value), str(caught.value)
        assert "test_quantization.py" in str(caught.value), str(caught.value)
