""".keras files: Keras's are opened, Keras opens Lamina's, training goes on with the same bits, and a file that is damaged or hostile is an error that says what."""
import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import lamina as lm
from compared import equal
from keras_nets import attention, keras_opens, masked, merged, more_images, recurrent, regularized, with_keras

h5py = pytest.importorskip("h5py", reason="h5py is not installed: ./dev setup installs it, pip install lamina[keras] too")
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(HERE), "data", "keras")
nn = lm.nn


def flat(y):
    if isinstance(y, (list, tuple)):
        return [leaf for part in y for leaf in flat(part)]
    return [leaf for name in sorted(y) for leaf in flat(y[name])] if isinstance(y, dict) else [y]


def array(y):
    return lm.astype(y, "float32").numpy()


def outputs(net, inputs):
    return [array(y) for y in flat(net(inputs if len(inputs) > 1 else inputs[0]))]


def weights(net):
    return [array(v.read()) for v in net.variables]


def close(a, b, tolerance=2e-6):
    return len(a) == len(b) and all(np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b))


@pytest.mark.parametrize("name", sorted(f[:-6] for f in os.listdir(DATA) if f.endswith(".keras")))
def test_files_of_keras(name):
    """tests/data/keras/make.py made them and what Keras computed."""
    given = np.load(os.path.join(DATA, name + ".npz"))
    net = nn.load_file(os.path.join(DATA, name + ".keras"))
    x = [lm.constant(given[f"x{i}"]) for i in range(9) if f"x{i}" in given]
    ids = {"embedded_floats": [0], "masked": [0]}.get(name, ())
    x = [lm.astype(v, "bfloat16") if name == "halves" else lm.astype(v, "int32") if i in ids else v for i, v in enumerate(x)]
    expected = [given[f"y{i}"] for i in range(99) if f"y{i}" in given]
    assert close(outputs(net, x), expected)
    if "labels" in given:
        loss, *_ = net._train_step(x[0], lm.constant(given["labels"]))
        assert np.allclose(float(loss), given["loss"], rtol=1e-5)
        assert close(net.get_weights(), [given[f"w{i}"] for i in range(len(net.get_weights()))])


class Twin(nn.Model):
    """Layers of one name, in lists, and attributes whose order is not that of the alphabet."""

    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.b = nn.Dense(units, name="same")
        self.a = [nn.Dense(units, name="same"), [nn.Dense(units, name="same")]]
        self._last = nn.Dense(2)
        self.zero = nn.Dense(units, "tanh")

    def call(self, x):
        return self._last(self.zero(self.a[1][0](self.a[0](self.b(x)))))

    def get_config(self):
        return super().get_config() | {"units": self.units}


def images():
    net = nn.Sequential([
        nn.Conv2D(4, 3, padding="same", activation="relu", input_shape=(9, 8, 2)), nn.BatchNorm(0.9), nn.MaxPool2D(), nn.Conv2D(6, (2, 3), strides=(1, 2), groups=2), nn.Conv2DTranspose(3, 2, strides=3),
        nn.Conv2DTranspose(2, 3, strides=2, padding="same", use_bias=False), nn.AveragePooling2D(2, padding="same"), nn.LayerNorm(epsilon=1e-4), nn.Flatten(), nn.Dense(3)])
    return net, [lm.random.normal((2, 9, 8, 2))]


def functional():
    a, b = nn.Input((4,)), nn.Input((4,))
    twice, inner = nn.Dense(4, "tanh", name="same"), nn.Sequential([nn.Input((4,)), nn.Dense(4, name="same"), nn.Dense(4, name="same")], name="inner")
    cell = nn.Input((4,))
    nested = nn.Model(cell, nn.Dense(4, "relu")(cell))
    late = nn.Dense(4, name="same")(b)
    x = twice(nn.Dense(4)(twice(a)))
    return nn.Model([a, b], {"first": nn.Dense(4)(inner(x)), "second": nested(nested(twice(late)))}), [lm.random.normal((3, 4)), lm.random.normal((3, 4))]


def pools():
    x = nn.Input((6, 6, 3))
    h = nn.Conv2D(4, 3, dilation_rate=2)(x)
    return nn.Model(x, [nn.GlobalAveragePooling2D()(h), nn.GlobalMaxPooling2D(keepdims=True)(h), nn.MaxPooling2D(2, strides=1, padding="same")(h)]), [lm.random.normal((2, 6, 6, 3))]


def sequences():
    x = nn.Input((7,), "int32")
    h = nn.Conv1D(5, 3, strides=2, padding="same", activation="tanh")(nn.Embedding(11, 4)(x))
    return nn.Model(x, nn.Dense(2)(nn.LayerNorm(center=False)(h))), [lm.random.integers(0, 11, (3, 7))]


def transposed():
    x = nn.Input((5, 4, 2))
    made = [nn.Conv2DTranspose(3, k, strides=s, padding=p, output_padding=o)(x) for k in (1, 2, 3, 4) for s in (1, 2, 3) for p in ("valid", "same") for o in (0, 1) if o == 0 or (p == "valid" and k >= s > 1)]
    return nn.Model(x, made), [lm.random.normal((2, 5, 4, 2))]


def activations():
    names = "relu tanh sigmoid elu gelu silu softplus selu hard_sigmoid exponential softmax log_softmax linear".split()
    x = nn.Input((4,))
    return nn.Model(x, [nn.Activation(n)(nn.Dense(3, n)(x)) for n in names]), [lm.random.normal((3, 4))]


def initializers():
    i = nn.initializers
    made = ["zeros", "ones", "he_uniform", i.he_normal(), i.glorot_normal(seed=2**62 + 1), i.random_uniform(-1, 2), i.random_normal(1, 0.2, seed=4), i.orthogonal(1.5), i.constant(0.25)]
    return nn.Sequential([nn.Input((4,)), *(nn.Dense(4, kernel_initializer=k, bias_initializer=k if n in (0, 1, 8) else "zeros") for n, k in enumerate(made))]), [lm.random.normal((3, 4))]


def halves():
    net = nn.Sequential([nn.Dense(4, "relu", dtype="bfloat16"), nn.Flatten(), nn.Dense(2, dtype="bfloat16")])
    x = lm.random.normal((3, 4), dtype="bfloat16")
    net(x)
    return net, [x]


def doubles():
    net = nn.Sequential([nn.Input((4,), "float64"), nn.Dense(4, "relu", dtype="float64"), nn.BatchNorm(dtype="float64")])
    return net, [lm.random.normal((3, 4), dtype="float64")]


def called():
    net = nn.Sequential([nn.Dense(4, "relu"), nn.BatchNorm(scale=False), nn.Dropout(0.5), nn.Dense(2)])
    x = lm.random.normal((2, 3))
    net(x)
    return net, [x]


def twin():
    net, x = Twin(3), lm.random.normal((2, 3))
    net(x)
    return net, [x]


class TwoInputs(nn.Model):
    def __init__(self):
        super().__init__()
        self.ids, self.out = nn.Embedding(5, 3), nn.Dense(2)

    def call(self, ids, x):
        return self.out(self.ids(ids) + x)


def test_a_class_that_was_called_with_several_inputs(tmp_path):
    net, x = TwoInputs(), [lm.constant([1, 2]), lm.ones((2, 3))]
    y = net(*x)
    nn.save_file(net, tmp_path / "net.keras")
    assert equal(nn.load_file(tmp_path / "net.keras", custom={"TwoInputs": TwoInputs})(*x).numpy(), y.numpy())


def frozen():
    net, x = called()
    net.layers[0].trainable = False
    return net, x


def trained(optimizer, loss="mse"):
    def make():
        net = nn.Sequential([nn.Input((4,)), nn.Dense(5, "tanh"), nn.BatchNorm(), nn.Dense(3)])
        net.compile(optimizer(), loss, metrics=["accuracy"])
        labels = lm.random.integers(0, 3, (8,)) if loss != "mse" else lm.random.normal((8, 3))
        net.fit(lm.random.normal((8, 4)), labels, verbose=0, shuffle=False, epochs=2)
        return net, [lm.random.normal((3, 4))]
    return make


OPTIMIZERS = {
    "adam": trained(lambda: lm.optim.Adam(0.01, beta_1=0.8)), "adamw": trained(lambda: lm.optim.AdamW(0.01)), "adam_decay": trained(lambda: lm.optim.Adam(weight_decay=0.01)),
    "sgd": trained(lambda: lm.optim.SGD(0.1, 0.9, True), lm.losses.SparseCrossEntropy(from_logits=True)), "plain_sgd": trained(lambda: lm.optim.SGD(0.1)),
    "rmsprop": trained(lambda: lm.optim.RMSprop(0.01, momentum=0.5, centered=True)),
    "adagrad": trained(lambda: lm.optim.Adagrad(0.01)), "lion": trained(lambda: lm.optim.Lion(0.01)),
}
NETS = {f.__name__: f for f in (images, functional, pools, sequences, recurrent, attention, more_images, masked, regularized, merged, transposed, activations, initializers, halves, doubles, called, twin, frozen)} | OPTIMIZERS


def disturbed(net):
    """Weights that no initializer gives."""
    for v in net.variables:
        if v.dtype.name.startswith(("float", "bfloat")):
            value = lm.astype(v.read(), "float64")
            v.assign(lm.astype(lm.abs(value) + 0.1 if v.name.endswith("variance") else value + 0.1 * lm.random.normal(v.shape, dtype="float64"), v.dtype))
    return net


@pytest.mark.row("S3-31")
@pytest.mark.parametrize("name", NETS)
def test_lamina_opens_what_it_writes(name, tmp_path):
    net, x = NETS[name]()
    if name not in OPTIMIZERS:
        disturbed(net)
    expected, path = outputs(net, x), tmp_path / "net.keras"
    state = lm.random.get_state()
    nn.save_file(net, path)
    again = nn.load_file(path, custom={"Twin": Twin})
    assert type(again) is type(net) and lm.random.get_state() == state
    assert equal(outputs(again, x), expected) and equal(weights(again), weights(net))
    assert [v.name.rpartition("/")[2] for v in again.variables] == [v.name.rpartition("/")[2] for v in net.variables]
    assert len(again.trainable_variables) == len(net.trainable_variables)
    nn.save_file(again, tmp_path / "again.keras")
    first, second = (zipfile.ZipFile(p).read("config.json") for p in (path, tmp_path / "again.keras"))
    if name not in ("functional", "twin"):  # names that were equal have numbers now
        assert json.loads(first) == json.loads(second)
    nn.save_file(net, tmp_path / "twice.keras")
    assert (tmp_path / "twice.keras").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_with_the_same_bits(name, tmp_path):
    net, _ = NETS[name]()
    nn.save_file(net, tmp_path / "net.keras")
    again = nn.load_file(tmp_path / "net.keras")
    x, y = lm.random.normal((16, 4)), lm.random.integers(0, 3, (16,)) if name == "sgd" else lm.random.normal((16, 3))
    histories = [one.fit(x, y, batch_size=4, epochs=3, verbose=0, shuffle=False).history for one in (net, again)]
    assert histories[0] == histories[1] and equal(weights(net), weights(again))
    assert equal(*([array(v.read()) for v in one.optimizer.variables] for one in (net, again)))
    assert nn.load_file(tmp_path / "net.keras", compile=False).optimizer is None


def test_keras_opens_what_lamina_writes(tmp_path):
    python = with_keras()
    made = {}
    for name, make in NETS.items():
        net, x = make()
        if name not in OPTIMIZERS:
            disturbed(net)
        made[name] = net, x, outputs(net, x)
        nn.save_file(net, tmp_path / f"{name}.keras")
        more = {"labels": lm.random.integers(0, 3, (3,)).numpy() if name == "sgd" else lm.random.normal((3, 3)).numpy()} if name in OPTIMIZERS else {}
        np.savez(tmp_path / name, **{f"x{i}": array(v) if v.dtype == lm.bfloat16 else v.numpy() for i, v in enumerate(x)}, **more)
    keras_opens(tmp_path, python)
    for name, (net, x, expected) in made.items():
        theirs = np.load(tmp_path / f"{name}.out.npz")
        assert close([theirs[f"y{i}"] for i in range(len(expected))], expected, 0.03 if name == "halves" else 5e-6), name
        again = nn.load_file(tmp_path / f"{name}.again.keras", custom={"Twin": Twin})
        same = close if name == "doubles" else equal  # Keras on JAX has no float64
        assert same(outputs(again, x), expected) and same(weights(again), weights(net)), name
        assert [float(term) for term in again.losses] == [float(term) for term in net.losses], name
        if name in OPTIMIZERS:
            loss, *_ = net._train_step(x[0], lm.constant(np.load(tmp_path / f"{name}.npz")["labels"]))
            assert np.allclose(float(loss), theirs["loss"], rtol=1e-5), name
            assert close([theirs[f"w{i}"] for i in range(len(net.get_weights()))], net.get_weights(), 1e-5), name


# --- classes of the user's ---


def scaled_relu(x):
    return lm.relu(x) * 2.0


class Scale(nn.Layer):
    """By get_config()'s default: the arguments that it was made with."""

    def __init__(self, size, start=1.0, **kwargs):
        super().__init__(**kwargs)
        self.start, self.size = start, size

    def build(self, shape):
        self.factor = self.add_weight((shape[-1],), nn.initializers.constant(self.start), name="factor")
        self.seen = self.add_weight((), "zeros", name="seen", trainable=False)

    def call(self, x):
        return x * self.factor


def test_classes_of_the_users_by_name(tmp_path):
    net = nn.Sequential([nn.Input((3,)), Scale(3, start=2.0, name="mine"), nn.Dense(2, scaled_relu, kernel_initializer=quarters)])
    net.compile("sgd", loss=squares, metrics=[scaled_mean])
    net.layers[0].factor.assign([1.0, 2.0, 3.0])
    nn.save_file(net, tmp_path / "net.keras")
    custom = {"Scale": Scale, "scaled_relu": scaled_relu, "quarters": quarters, "squares": squares, "scaled_mean": scaled_mean}
    again = nn.load_file(tmp_path / "net.keras", custom=custom)
    assert equal(outputs(again, [lm.ones((2, 3))]), outputs(net, [lm.ones((2, 3))])) and again.layers[0].name == "mine" and again.layers[0].start == 2.0
    with pytest.raises(lm.errors.NotFound) as info:
        nn.load_file(tmp_path / "net.keras")
    for part in ("'mine'", "Scale", "scaled_relu", "custom"):
        assert part in str(info.value)
    for name in custom:
        with pytest.raises((lm.errors.NotFound, lm.errors.BadFile), match=name):
            nn.load_file(tmp_path / "net.keras", custom={k: v for k, v in custom.items() if k != name})


def quarters(shape):
    return np.full(shape, 0.25)


def squares(labels, predictions):
    return lm.mean((labels - predictions) ** 2)


def scaled_mean(labels, predictions):
    return lm.mean(predictions) * 2.0


def test_a_layer_that_lamina_lacks_may_be_the_callers(tmp_path):
    class Double(nn.Layer):
        def call(self, x):
            return x * 2.0

    edit(tmp_path, lambda c: c["config"]["layers"].insert(2, {"module": "keras.layers", "class_name": "Doubled", "registered_name": None, "config": {"name": "d", "dtype": "float32"}}))
    with pytest.raises(lm.errors.NotFound, match="'d': Lamina has no layer Doubled"):
        nn.load_file(tmp_path / "net.keras")
    net = nn.load_file(tmp_path / "net.keras", custom={"Doubled": Double})
    assert [layer.name for layer in net.layers] == ["one", "d", "two"]


def test_what_a_file_cannot_hold_is_listed(tmp_path):
    class Odd(nn.Layer):
        def __init__(self, what):
            super().__init__()

        def call(self, x):
            return x

    net = nn.Sequential([nn.Input((3,)), nn.Dense(3, lambda x: x, name="first"), Odd(object()), nn.Dense(3, kernel_initializer=lambda s: np.ones(s), name="second")])
    with pytest.raises(lm.errors.InvalidArgument) as info:
        nn.save_file(net, tmp_path / "net.keras")
    for part in ("'first' (Dense): the activation is a lambda", "(Odd): what is an object", "'second' (Dense): an initializer is a lambda"):
        assert part in str(info.value)
    with pytest.raises(lm.errors.StateError, match="do not exist yet"):
        nn.save_file(nn.Sequential([nn.Dense(2)]), tmp_path / "net.keras")
    for path in ("net.h5", "net"):
        with pytest.raises(lm.errors.InvalidArgument, match="keras"):
            nn.save_file(net, tmp_path / path)
    assert os.listdir(tmp_path) == []


def test_what_only_lamina_has_comes_back(tmp_path):
    net = nn.Sequential([nn.Input((4,)), nn.Dense(4, "leaky_relu", kernel_initializer=nn.initializers.looks_linear(mirror_in=False)), nn.Dense(2, "gelu_tanh")])
    nn.save_file(net, tmp_path / "net.keras")
    x = [lm.random.normal((3, 4))]
    assert equal(outputs(nn.load_file(tmp_path / "net.keras"), x), outputs(net, x))
    assert '"leaky_relu", "registered_name": "lamina>leaky_relu"' in zipfile.ZipFile(tmp_path / "net.keras").read("config.json").decode()


def test_without_h5py_the_error_says_what_to_install(tmp_path):
    program = "import sys; sys.modules['h5py'] = None\nimport lamina as lm\ntry: lm.nn.load_file('x.keras')\nexcept lm.errors.StateError as e: print(e)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install h5py" in run.stdout, run.stderr


# --- files that are damaged or hostile ---


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, packed=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, part in parts.items() if isinstance(parts, dict) else parts:
            archive.writestr(name, part)


def small(tmp_path):
    net = nn.Sequential([nn.Input((3,)), nn.Dense(4, "relu", name="one"), nn.Dense(2, name="two")])
    net.compile("adam", "mse")
    nn.save_file(net, tmp_path / "net.keras")
    return parts_of(tmp_path / "net.keras")


def edit(tmp_path, change):
    parts = small(tmp_path)
    config = json.loads(parts["config.json"])
    change(config)
    write(tmp_path / "net.keras", parts | {"config.json": json.dumps(config)})


def dense(config, i=1):
    return config["config"]["layers"][i]["config"]


CONFIGS = {  # what is changed, and what the error says
    "keys": (lambda c: dense(c).update(kernel_constraint={"class_name": "NonNeg", "config": {}}), "'one' (Dense): Lamina's Dense has no kernel_constraint"),
    "regularizer": (lambda c: dense(c).update(kernel_regularizer={"class_name": "Orthogonal", "config": {}}), "'one' (Dense): Lamina has no kernel_regularizer 'Orthogonal', and it is not in `custom`"),
    "regularizers": (lambda c: dense(c).update(kernel_regularizer={"class_name": ["L2"], "config": {}}), "'one' (Dense): the kernel_regularizer's class is a list"),
    "factor": (lambda c: dense(c).update(kernel_regularizer={"class_name": "L2", "config": {"l2": -1}}), "'one' (Dense): L2: l2 -1"),
    "factors": (lambda c: dense(c).update(kernel_regularizer={"class_name": "L2", "config": {"l3": 1}}), "'one' (Dense)"),
    "kinds": (lambda c: dense(c).update(units="4"), "'one' (Dense)"),
    "large": (lambda c: dense(c).update(units=10**9), "more weights than the file"),
    "huge": (lambda c: dense(c).update(units=10**30), "'one' (Dense)"),
    "negative": (lambda c: dense(c).update(units=-4), "'one'"),
    "wide": (lambda c: c["config"]["layers"][0]["config"].update(batch_shape=[None, 2**39]), "more weights than the file"),
    "shape": (lambda c: c["config"]["layers"][0]["config"].update(batch_shape=[None, "3"]), "is no shape"),
    "units": (lambda c: dense(c).update(units=5), "weight 0 of 'one' has shape (3, 4), the layer's is (3, 5)"),
    "activation": (lambda c: dense(c).update(activation="mish"), "no activation 'mish'"),
    "policy": (lambda c: dense(c).update(dtype="mixed_float16"), "no dtype 'mixed_float16'"),
    "initializer": (lambda c: dense(c).update(kernel_initializer={"class_name": "VarianceScaling", "config": {}}), "no initializer 'VarianceScaling'"),
    "lambda": (lambda c: dense(c).update(activation={"class_name": "__lambda__", "config": {"value": "4wEAAA=="}}), "no activation '__lambda__'"),
    "module": (lambda c: c["config"]["layers"][1].update(module="os", class_name="system", registered_name="os>system"), "os>system is not in `custom`"),
    "import": (lambda c: c["config"]["layers"][1].update(module="keras.src.utils", class_name="get_file"), "Lamina has no layer get_file"),
    "layers": (lambda c: c["config"].update(layers={"a": 1}), "layers is a dict, no list"),
    "class": (lambda c: c.update(class_name=7), "class_name is an int"),
    "none": (lambda c: c.pop("config"), "config is a NoneType"),
    "optimizer": (lambda c: c["compile_config"]["optimizer"].update(class_name="Ftrl"), "no optimizer Ftrl"),
    "clip": (lambda c: c["compile_config"]["optimizer"]["config"].update(clipnorm=1.0), "no clipnorm"),
    "schedule": (lambda c: c["compile_config"]["optimizer"]["config"].update(learning_rate={"class_name": "CosineDecay", "config": {}}), "by a schedule ('CosineDecay')"),
    "loss": (lambda c: c["compile_config"].update(loss="poisson"), "no loss poisson"),
    "metric": (lambda c: c["compile_config"].update(metrics=["fbeta_score"]), "no metric fbeta_score"),
    "metric's keys": (lambda c: c["compile_config"].update(metrics=[{"class_name": "AUC", "config": {"curve": "PR"}}]), "Lamina's AUC has no curve ('PR')"),
    "F1": (lambda c: c["compile_config"].update(metrics=["f1_score"]), "Lamina's F1Score has no average (None)"),
    "metric's value": (lambda c: c["compile_config"].update(metrics=[{"class_name": "AUC", "config": {"num_thresholds": [1, 2]}}]), "what compile() was given"),
    "metric's config": (lambda c: c["compile_config"].update(metrics=[{"class_name": "AUC", "config": 3}]), "config is an int"),
    "loss weights": (lambda c: c["compile_config"].update(loss_weights=["a"]), "a loss weight is a str"),
    "weights of two": (lambda c: c["compile_config"].update(loss_weights=[1, 2]), "2 losses or loss_weights for one output"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_that_do_not_fit(name, tmp_path):
    change, text = CONFIGS[name]
    edit(tmp_path, change)
    with pytest.raises((lm.errors.BadFile, lm.errors.NotFound)) as info:
        nn.load_file(tmp_path / "net.keras")
    assert text in str(info.value) and "net.keras" in info.value.where


NOT_EQUAL = {"class_name": "NotEqual", "name": "unequal", "config": {"name": "unequal"}, "module": "keras.src.ops.numpy",
             "inbound_nodes": [{"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["input_layer", 0, 0]}}, 0], "kwargs": {}}]}
FUNCTIONAL = {
    "circle": (lambda layers: layers[1]["inbound_nodes"][0]["args"][0]["config"].update(keras_history=["two", 0, 0]), "form a circle"),
    "missing": (lambda layers: layers[1]["inbound_nodes"][0]["args"][0]["config"].update(keras_history=["three", 0, 0]), "need what is not there"),
    "output": (lambda layers: layers[1]["inbound_nodes"][0]["args"][0]["config"].update(keras_history=["input_layer", 0, 7]), "no output 7"),
    "names": (lambda layers: layers[2].update(name="one"), "two layers are called 'one'"),
    "history": (lambda layers: layers[1]["inbound_nodes"][0]["args"][0]["config"].update(keras_history="one"), "names no tensor"),
    "nodes": (lambda layers: layers[1].update(inbound_nodes={}), "inbound_nodes is a dict"),
    "kwargs": (lambda layers: layers[1]["inbound_nodes"][0].update(kwargs={"x": {"class_name": "__keras_tensor__"}}), "gives a tensor by name"),
    "mask": (lambda layers: layers[1]["inbound_nodes"][0].update(kwargs={"mask": dict(layers[1]["inbound_nodes"][0]["args"][0])}), "a call of 'one' gives a mask of its own"),
    "mask_of": (lambda layers: layers.append(NOT_EQUAL) or layers[1]["inbound_nodes"][0].update(kwargs={"mask": {"class_name": "__keras_tensor__", "config": {"keras_history": ["unequal", 0, 0]}}}),
                "'unequal' makes a mask that is not of an Embedding or Masking"),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_graphs_that_do_not_fit(name, tmp_path):
    x = nn.Input((3,))
    nn.save_file(nn.Model(x, nn.Dense(3, name="two")(nn.Dense(3, name="one")(x))), tmp_path / "net.keras")
    change, text = FUNCTIONAL[name]
    parts = parts_of(tmp_path / "net.keras")
    config = json.loads(parts["config.json"])
    change(config["config"]["layers"])
    write(tmp_path / "net.keras", parts | {"config.json": json.dumps(config)})
    with pytest.raises(lm.errors.BadFile) as info:
        nn.load_file(tmp_path / "net.keras")
    assert text in str(info.value)


def hdf5(change):
    """The parts of a file whose weights were changed so."""
    def made(tmp_path, parts):
        content = io.BytesIO(parts["model.weights.h5"])
        with h5py.File(content, "a") as file:
            change(file, tmp_path)
        return parts | {"model.weights.h5": content.getvalue()}
    return made


def replaced(**options):
    def change(file, tmp_path):
        del file["layers/dense/vars/1"]
        file["layers/dense/vars"].create_dataset("1", **options)
    return change


def external(file, tmp_path):
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    replaced(shape=(4,), dtype="f4", external=[(str(tmp_path / "secret"), 0, 16)])(file, tmp_path)


def virtual(file, tmp_path):
    del file["layers/dense/vars/1"]
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (4,))
    file["layers/dense/vars"].create_virtual_dataset("1", layout)


def linked(link):
    def change(file, tmp_path):
        del file["layers/dense/vars/1"]
        file["layers/dense/vars"]["1"] = link
    return change


def twice(file, tmp_path):
    file["layers/again"] = file["layers"]


def gone(file, tmp_path):
    del file["layers/dense/vars/1"]


def more(file, tmp_path):
    file["layers/dense/vars"]["2"] = np.ones(3)


FILES = {
    "empty": (lambda t, p: {}, "no config.json"), "no weights": (lambda t, p: {k: v for k, v in p.items() if not k.endswith("h5")}, "no model.weights.h5"),
    "outside": (lambda t, p: p | {"../x": b"1"}, "has a part '../x'"), "absolute": (lambda t, p: p | {"/etc/x": b"1"}, "has a part '/etc/x'"),
    "assets": (lambda t, p: p | {"assets/../../x": b"1"}, "has a part"), "asset": (lambda t, p: p | {"assets/words.txt": b"1"}, "has a part 'assets/words.txt'"),
    "many": (lambda t, p: p | {f"assets/{i}/": b"" for i in range(100)}, "too many parts"),
    "deep": (lambda t, p: p | {"config.json": b'{"a":' + b"[" * 10**6 + b"]" * 10**6 + b"}"}, "nested more than 200 levels"),
    "unended": (lambda t, p: p | {"config.json": b"[" * 10**6}, "levels deep"),
    "twice in an object": (lambda t, p: p | {"config.json": b'{"class_name": "a", "class_name": "b"}'}, "occurs twice"),
    "number": (lambda t, p: p | {"config.json": b'{"a": NaN}'}, "NaN is no number"), "digits": (lambda t, p: p | {"config.json": b'{"a": ' + b"9" * 10**5 + b"}"}, "no JSON"),
    "text": (lambda t, p: p | {"config.json": b"\xff\xfe"}, "no JSON"), "list": (lambda t, p: p | {"config.json": b"[1]"}, "no object"),
    "not hdf5": (lambda t, p: p | {"model.weights.h5": b"\x89HDF\r\n\x1a\n" + b"\0" * 400}, "no HDF5"), "no bytes": (lambda t, p: p | {"model.weights.h5": b""}, "no HDF5"),
    "external": (hdf5(external), "external"), "virtual": (hdf5(virtual), "virtual"), "soft": (hdf5(linked(h5py.SoftLink("/layers/dense/vars/0"))), "is a link"),
    "link outside": (hdf5(linked(h5py.ExternalLink("/etc/passwd", "/"))), "is a link"), "circle": (hdf5(twice), "twice"),
    "packed": (hdf5(replaced(data=np.zeros(10**6, "f4"), compression="gzip")), "packed"), "unwritten": (hdf5(replaced(shape=(2**40,), dtype="f4")), "says that it has"),
    "objects": (hdf5(replaced(data=np.array(["a", "b", "c", "d"], object), dtype=h5py.string_dtype())), "weights are numbers"),
    "shape": (hdf5(replaced(data=np.ones(5, "f4"))), "weight 1 of 'one' has shape (5,), the layer's is (4,)"),
    "integers": (hdf5(replaced(data=np.ones(4, "i4"))), "weight 1 of 'one' is int32"),
    "missing": (hdf5(gone), "'one': its weight 1 is missing"), "left over": (hdf5(more), "'layers/dense/vars/2' belongs to no layer"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files(name, tmp_path):
    parts = small(tmp_path)
    change, text = FILES[name]
    write(tmp_path / "bad.keras", change(tmp_path, parts))
    with pytest.raises(lm.errors.BadFile) as info:
        nn.load_file(tmp_path / "bad.keras")
    assert text in str(info.value) and info.value.fix and "bad.keras" in info.value.where


def test_zip_bombs_and_damage(tmp_path):
    parts = small(tmp_path)
    path = tmp_path / "bad.keras"
    for name in ("config.json", "model.weights.h5"):
        write(path, parts | {name: b"\0" * (64 << 20)}, zipfile.ZIP_DEFLATED)
        with pytest.raises(lm.errors.BadFile, match="too much"):
            nn.load_file(path)
    write(path, parts, zipfile.ZIP_LZMA)
    with pytest.raises(lm.errors.BadFile, match="packed in a way"):
        nn.load_file(path)
    with pytest.warns(UserWarning, match="Duplicate"):
        write(path, [*parts.items(), ("config.json", b"{}")])
    with pytest.raises(lm.errors.BadFile, match="two of one name"):
        nn.load_file(path)
    for content in (b"", b"PK", b"x" * 1000):
        path.write_bytes(content)
        with pytest.raises(lm.errors.BadFile, match="no .keras file"):
            nn.load_file(path)
    for wrong in (tmp_path / "none.keras", tmp_path):
        with pytest.raises(lm.errors.Error):
            nn.load_file(wrong)


def test_every_byte_that_is_changed_or_cut_is_an_error_or_makes_no_difference(tmp_path):
    small(tmp_path)
    good = (tmp_path / "net.keras").read_bytes()
    expected = weights(nn.load_file(tmp_path / "net.keras"))
    rng = np.random.default_rng(5)
    places = rng.choice(len(good), 2000 if os.environ.get("LAMINA_TEST_LONG") else 100, replace=False)
    path, found = tmp_path / "bad.keras", 0
    for place in places:
        for content in (good[:place] + bytes([good[place] ^ (1 << rng.integers(8))]) + good[place + 1:], good[:place]):
            path.write_bytes(content)
            try:
                assert equal(weights(nn.load_file(path)), expected)
            except (lm.errors.BadFile, lm.errors.NotFound):
                found += 1
    assert found >= 1.5 * len(places)


def test_a_deep_chain_is_saved_and_loaded(tmp_path):
    net = nn.Sequential([nn.Input((2,)), *(nn.Dense(2, "tanh") for _ in range(300))])
    nn.save_file(net, tmp_path / "net.keras")
    x = [lm.ones((1, 2))]
    assert equal(outputs(nn.load_file(tmp_path / "net.keras"), x), outputs(net, x))
