"""What compile() was given, in .keras files: losses, their weights and metrics come back, and Keras measures the same."""
import json
import os

import numpy as np
import pytest

import lamina as lm
from keras_nets import keras_opens, with_keras

pytest.importorskip("h5py", reason="h5py is not installed: ./dev setup installs it, pip install lamina[keras] too")
nn = lm.nn


def rows(*shape, labels=None):
    draw = np.random.default_rng(1)
    return draw.normal(size=shape).astype("float32") if labels is None else draw.integers(0, labels, shape)


def stack(units, activation, loss, metrics):
    net = nn.Sequential([nn.Input((4,)), nn.Dense(units, activation, name="last")])
    net.compile("sgd", loss, metrics=metrics)
    return net


def two(named, loss, weights, metrics):
    x = nn.Input((4,))
    made = {"u": nn.Dense(2, name="one")(x), "v": nn.Dense(1, name="two")(x)}
    net = nn.Model(x, made if named else list(made.values()))
    net.compile("sgd", loss, loss_weights=weights, metrics=metrics)
    return net


M, BINARY, TWO = lm.metrics, rows(40, 1, labels=2).astype("float32"), [rows(40, 2), rows(40, 1)]
COMPILED = {
    "numbers": (lambda: stack(2, None, "mse", ["mse", "mae", M.R2()]), rows(40, 2)),
    "binary": (lambda: stack(1, "sigmoid", "binary_crossentropy", ["accuracy", "binary_accuracy", M.BinaryAccuracy(0.4, "at_4"), M.Precision(0.3), M.Recall(0.6), M.F1(0.3), "auc", M.AUC(50, "area"), M.Accuracy("mine")]), BINARY),
    "logits": (lambda: stack(1, None, lm.losses.BinaryCrossEntropy(from_logits=True), [M.BinaryAccuracy(0.0), M.Precision(0.0), M.Recall(1.0)]), BINARY),
    "classes": (lambda: stack(5, "softmax", "sparse_categorical_crossentropy", ["accuracy", M.TopK(3), M.Accuracy("mine")]), rows(40, labels=5)),
    "one_hot": (lambda: stack(5, "softmax", "categorical_crossentropy", [M.TopK(2, "best"), "accuracy"]), np.eye(5, dtype="float32")[rows(40, labels=5)]),
    "weighted": (lambda: two(False, "mse", [1.0, 0.01], [["mae"], ["mse", M.R2()]]), TWO),
    "named_layers": (lambda: two(False, {"one": "mse", "two": lm.losses.MeanAbsoluteError()}, {"two": 0.5}, {"two": "mae"}), TWO),
    "named_outputs": (lambda: two(True, "mae", {"v": 3.0}, {"v": [M.R2("fit")]}), dict(zip("uv", TWO))),
    "list_for_names": (lambda: two(True, ["mae", "mse"], [3.0, 2.0], [[], ["mae"]]), dict(zip("uv", TWO))),
    "one_of_two": (lambda: two(False, ["mse", None], None, []), TWO),
}


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("used", [False, True])
def test_losses_and_metrics_come_back(name, used, tmp_path):
    make, labels = COMPILED[name]
    net, x = make(), rows(40, 4)
    if used:
        net.evaluate(x, labels)
    nn.save_file(net, tmp_path / "net.keras")
    again = nn.load_file(tmp_path / "net.keras")
    assert again.evaluate(x, labels) == net.evaluate(x, labels)
    assert [(type(m), m.name) for m in again._metrics] == [(M.BinaryAccuracy if type(m) is M.Accuracy and name == "binary" and m.name == "mine" else type(m), m.name) for m in net._metrics]
    nn.save_file(again, tmp_path / "again.keras")
    assert (tmp_path / "again.keras").read_bytes() == (tmp_path / "net.keras").read_bytes()


def test_keras_measures_the_same(tmp_path):
    python = with_keras()
    made = {name: make() for name, (make, _) in COMPILED.items()}
    x = rows(40, 4)
    for name, net in made.items():
        labels = COMPILED[name][1]
        nn.save_file(net, tmp_path / f"{name}.keras")
        np.savez(tmp_path / name, x0=x, **{f"l{i}": part for i, part in enumerate(labels.values() if isinstance(labels, dict) else labels if isinstance(labels, list) else [labels])})
    keras_opens(tmp_path, python)
    for name, net in made.items():
        ours = net.evaluate(x, COMPILED[name][1], return_dict=True)
        theirs = json.loads((tmp_path / f"{name}.json").read_text())
        told = {key: value for key, value in ours.items() if key in theirs or key != "one_loss"}  # Keras names the parts of several losses alone
        assert {key: theirs.get(key) for key in told} == pytest.approx(told, rel=2e-4, abs=1e-6), name
        again = nn.load_file(tmp_path / f"{name}.again.keras").evaluate(x, COMPILED[name][1], return_dict=True)
        assert again == pytest.approx(ours, rel=1e-5), name


class Farthest(lm.metrics.Metric):
    name = "farthest"

    def __init__(self, power, name=None):
        self.power = power
        super().__init__(name)

    def measure(self, labels, predictions):
        return lm.max(lm.abs(labels - predictions)) ** self.power


class Farther(Farthest):
    def get_config(self):
        return {"power": self.power, "name": self.name}


@pytest.mark.parametrize("metric, text", [
    (M.ConfusionMatrix(2), "'confusion_matrix' (ConfusionMatrix) has no counterpart in Keras: compile() without it"), (M.F1(0.0), "Keras's F1Score takes those from 0 to 1"),
    (M.Precision(-1.0), "threshold -1.0"), (Farthest(2.0), "give its class get_config()"),
])
def test_metrics_that_have_no_counterpart_are_refused(metric, text, tmp_path):
    with pytest.raises(lm.errors.InvalidArgument) as info:
        nn.save_file(stack(1, None, "mse", [metric]), tmp_path / "net.keras")
    assert text in str(info.value) and not os.listdir(tmp_path)


def test_metrics_of_the_users_keep_their_arguments(tmp_path):
    nn.save_file(stack(1, None, "mse", [Farther(3.0, "far")]), tmp_path / "net.keras")
    metric, = nn.load_file(tmp_path / "net.keras", custom={"Farther": Farther})._metrics
    assert type(metric) is Farther and metric.power == 3.0 and metric.name == "far"
