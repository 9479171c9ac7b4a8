"""fit, evaluate and predict: several outputs, weights, splits, steps, callbacks, metrics, summary."""
import csv
import math
import warnings

import numpy as np
import pytest

import lamina as lm

nn = lm.nn
R = np.random.default_rng(11)
X = R.standard_normal((60, 4)).astype("float32")
Y = (X @ R.standard_normal((4, 1)) + 0.3).astype("float32")
C = R.integers(0, 3, 60)


def regression(loss="mse", metrics=(), rate=0.05, **kwargs):
    net = nn.Sequential([nn.Input((4,)), nn.Dense(1, kernel_initializer="zeros")])
    net.compile(lm.optim.SGD(rate), loss, metrics, **kwargs)
    return net


def two_outputs(**kwargs):
    a, b = nn.Input((4,)), nn.Input((4,))
    h = nn.Dense(5, "tanh")(a) + b[:, :1]
    net = nn.Model([a, b], [nn.Dense(1, name="value")(h), nn.Dense(3, name="kind")(h)])
    net.compile(lm.optim.Adam(0.02), **kwargs)
    return net


LOGITS = lm.losses.SparseCrossEntropy(from_logits=True)


@pytest.mark.parametrize("given", [["mse", LOGITS], {"value": "mse", "kind": LOGITS}], ids=["list", "dict"])
def test_several_inputs_and_outputs_with_a_loss_each(given):
    net = two_outputs(loss=given, loss_weights=[1.0, 0.5] if isinstance(given, list) else {"kind": 0.5, "value": 1.0}, metrics={"kind": ["accuracy"], "value": "mae"})
    logs = net.fit([X, X], (Y, C), epochs=8, verbose=0).history
    assert list(logs) == ["loss", "value_loss", "kind_loss", "kind_accuracy", "value_mae"] and logs["loss"][-1] < logs["loss"][0]
    assert np.allclose(logs["loss"], np.add(logs["value_loss"], np.multiply(logs["kind_loss"], 0.5)), rtol=1e-5)
    value, kind = net.predict([X, X])
    out = net.evaluate([X, X], {"value": Y, "kind": C}, return_dict=True)
    assert out["value_mae"] == pytest.approx(np.abs(value - Y).mean(), rel=1e-5) and out["kind_accuracy"] == pytest.approx((kind.argmax(1) == C).mean(), rel=1e-5)
    assert len(net.fit(lm.data.Dataset.from_tensor_slices(((X, X), (Y, C))).batch(20), verbose=0).epoch) == 1


def test_outputs_that_do_not_fit_are_refused():
    for kwargs, labels, say in (({"loss": ["mse"]}, (Y, C), "2 outputs"), ({"loss": {"valeu": "mse"}}, (Y, C), "value"), ({"loss": "mse"}, Y, "2 outputs"), ({"loss": "mse"}, {"value": Y}, "kind"),
                                ({"loss": ["mse", LOGITS], "metrics": ["mae"]}, (Y, C), "which output"), ({"loss": {}}, (Y, C), "no output")):
        with pytest.raises((ValueError, KeyError), match=say):
            two_outputs(**kwargs).fit([X, X], labels, verbose=0)


def sgd(weights, steps, rate=0.05):
    """Full-batch descent on mean(w (xk + b - y)^2) in float64."""
    k, b = np.zeros((4, 1)), np.zeros(1)
    losses = []
    for _ in range(steps):
        e = X.astype("float64") @ k + b - Y
        losses.append((weights[:, None] * e * e).mean())
        g = 2 * weights[:, None] * e / len(X)
        k, b = k - rate * X.T.astype("float64") @ g, b - rate * g.sum(0)
    return losses, k


def test_weights_of_samples_and_classes():
    w = R.random(60).astype("float32")
    net = regression()
    losses = net.fit(X, Y, sample_weight=w, batch_size=60, epochs=5, verbose=0, shuffle=False).history["loss"]
    want, k = sgd(w.astype("float64"), 5)
    assert np.allclose(losses, want, rtol=1e-5) and np.allclose(net.layers[0].kernel.numpy(), k, atol=1e-5)
    weighted = lm.data.Dataset.from_tensor_slices((X, Y, w)).batch(60)
    again = regression()
    assert again.fit(weighted, epochs=5, verbose=0).history["loss"] == losses
    assert regression().evaluate(X, Y, sample_weight=w) == pytest.approx(want[0], rel=1e-5)

    net = nn.Sequential([nn.Input((4,)), nn.Dense(3, kernel_initializer="zeros")])
    net.compile("sgd", LOGITS)
    by_class = net.fit(X, C, class_weight={0: 2.0, 2: 0.5}, batch_size=60, verbose=0).history["loss"][0]
    assert by_class == pytest.approx(np.log(3) * np.select([C == 0, C == 1], [2.0, 1.0], 0.5).mean(), rel=1e-5)
    one_hot = nn.Sequential([nn.Input((4,)), nn.Dense(3, kernel_initializer="zeros")])
    one_hot.compile("sgd", lm.losses.CategoricalCrossEntropy(from_logits=True))
    assert one_hot.fit(X, np.eye(3, dtype="float32")[C], class_weight={0: 2.0, 2: 0.5}, batch_size=60, verbose=0).history["loss"][0] == pytest.approx(by_class, rel=1e-5)
    with pytest.raises(ValueError, match="beside a Dataset"):
        net.fit(weighted, sample_weight=w)
    with pytest.raises(TypeError, match="class_weight"):
        net.fit(X, C, class_weight=[1, 2])
    scalar = regression(lambda y, p: lm.mean(lm.square(y - p)))
    with pytest.raises(ValueError, match="one number per sample|one number for all"):
        scalar.fit(X, Y, sample_weight=w, verbose=0)


def test_a_split_holds_back_the_last_rows():
    net = regression()
    logs = net.fit(X, Y, validation_split=0.25, epochs=3, batch_size=45, verbose=0, shuffle=False).history
    other = regression()
    assert other.fit(X[:45], Y[:45], validation_data=(X[45:], Y[45:]), epochs=3, batch_size=45, verbose=0, shuffle=False).history == logs and len(logs["val_loss"]) == 3
    for bad in (lambda: net.fit(X, Y, validation_split=1.5), lambda: net.fit(X, Y, validation_split=0.2, validation_data=(X, Y)), lambda: net.fit(X[:1], Y[:1], validation_split=0.5),
                lambda: net.fit(lm.data.Dataset.range(3), validation_split=0.2)):
        with pytest.raises(ValueError, match="validation"):
            bad()


def test_steps_per_epoch_go_on_where_the_last_epoch_ended(tmp_path):
    seen = []

    class Net(nn.Model):
        def __init__(self):
            super().__init__()
            self.d = nn.Dense(1)

        def call(self, x):
            seen.extend(x.numpy()[:, 0].tolist())
            return self.d(x)

    net = Net()
    net.compile("sgd", "mse", run_eagerly=True)
    x = np.arange(10, dtype="float32")[:, None]
    net.fit(lm.data.Dataset.from_tensor_slices((x, x)).batch(2), steps_per_epoch=3, epochs=3, verbose=0)
    assert seen == [*range(10), *range(8)]
    net.fit(lm.data.Dataset.from_tensor_slices((x, x)).repeat().batch(4), steps_per_epoch=2, verbose=0)
    with pytest.raises(lm.errors.InvalidArgument, match="steps_per_epoch"):
        net.fit(x, x, steps_per_epoch=0)
    for bad in (2.5, True):
        with pytest.raises(lm.errors.TypeMismatch, match="'steps_per_epoch' is a"):
            net.fit(x, x, steps_per_epoch=bad)


def test_single_batches():
    net, twin = regression(metrics=["mae"]), regression(metrics=["mae"])
    loss, mae = net.train_on_batch(X, Y)
    logs = twin.fit(X, Y, batch_size=60, verbose=0, shuffle=False).history
    assert [loss] == logs["loss"] and [mae] == logs["mae"] and np.array_equal(net.predict_on_batch(X), twin.predict(X, batch_size=60))
    assert net.test_on_batch(X, Y, return_dict=True) == net.evaluate(X, Y, batch_size=60, return_dict=True)
    assert regression().train_on_batch(X, Y, sample_weight=np.full(60, 3.0)) == pytest.approx(3 * loss, rel=1e-5)
    with pytest.raises(RuntimeError, match="compile"):
        nn.Sequential([nn.Dense(1)]).train_on_batch(X, Y)


# --- callbacks ---


def fit_with(callbacks, epochs=8, values=None, **kwargs):
    """values: the validation losses of the epochs, in place of the true ones."""
    net = regression()
    if values is not None:
        coming = iter(values)
        net._evaluate = lambda *a, **named: {"loss": next(coming)}
    history = net.fit(X, Y, epochs=epochs, verbose=0, callbacks=callbacks, validation_data=(X, Y), batch_size=60, shuffle=False, **kwargs)
    return net, history


def test_early_stopping_counts_epochs_and_puts_the_best_weights_back():
    best = {}
    keep = nn.LambdaCallback(on_epoch_end=lambda epoch, logs: best.update({epoch: keep.model.get_weights()}))
    stop = nn.EarlyStopping(patience=2, restore_best_weights=True)
    net, history = fit_with([keep, stop], values=[5, 3, 4, 3.5, 1, 1, 1, 1])
    assert len(history.epoch) == 4 and stop.stopped_epoch == 3 and stop.best == 3 and all(map(np.array_equal, net.get_weights(), best[1]))
    assert len(fit_with([nn.EarlyStopping(patience=2, min_delta=0.6)], values=[5, 4.5, 4.45, 4, 3, 3, 3, 3])[1].epoch) == 3
    assert len(fit_with([nn.EarlyStopping(patience=1, mode="max")], values=[1, 2, 3, 2, 9, 9, 9, 9])[1].epoch) == 4
    assert len(fit_with([nn.EarlyStopping(patience=1, start_from_epoch=5)], values=[1, 2, 3, 4, 5, 6, 7, 8])[1].epoch) == 7
    with pytest.raises(KeyError, match="val_accuracy"):
        fit_with([nn.EarlyStopping("val_accuracy")])
    with pytest.raises(ValueError, match="mode"):
        nn.EarlyStopping(mode="up")


def test_model_checkpoints(tmp_path):
    net, _ = fit_with([nn.ModelCheckpoint(tmp_path / "w-{epoch:02d}-{val_loss:.1f}.safetensors"), nn.ModelCheckpoint(tmp_path / "best.safetensors", save_best_only=True)],
                      epochs=3, values=[2, 1, 3])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.safetensors", "w-01-2.0.safetensors", "w-02-1.0.safetensors", "w-03-3.0.safetensors"]
    assert (tmp_path / "best.safetensors").read_bytes() == (tmp_path / "w-02-1.0.safetensors").read_bytes()
    again = regression()
    lm.load_weights(again, tmp_path / "w-03-3.0.safetensors")
    assert all(map(np.array_equal, again.get_weights(), net.get_weights()))
    pytest.importorskip("h5py", reason="h5py is not installed")
    fit_with([nn.ModelCheckpoint(tmp_path / "net.keras")], epochs=1)
    assert nn.load_file(tmp_path / "net.keras").count_params() == 5
    with pytest.raises(ValueError, match="keras"):
        nn.ModelCheckpoint(tmp_path / "net.h5")
    with pytest.raises(KeyError, match="acc"):
        fit_with([nn.ModelCheckpoint(str(tmp_path / "{acc}.keras"))], epochs=1)


def test_csv_logs(tmp_path):
    path = tmp_path / "log.csv"
    _, first = fit_with([nn.CSVLogger(path)], epochs=2)
    _, second = fit_with([nn.CSVLogger(path, append=True)], epochs=1)
    rows = list(csv.DictReader(path.open()))
    assert [r["epoch"] for r in rows] == ["0", "1", "0"] and [float(r["loss"]) for r in rows] == first.history["loss"] + second.history["loss"] and "val_loss" in rows[0]
    fit_with([nn.CSVLogger(path, separator=";")], epochs=1)
    assert path.read_text().splitlines()[0] == "epoch;loss;val_loss"


def test_learning_rates():
    rates, traces = [], []
    watch = nn.LambdaCallback(on_epoch_end=lambda epoch, logs: (rates.append(float(watch.model.optimizer.learning_rate.numpy())), traces.append(watch.model._train_step.trace_count)))
    fit_with([nn.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch else rate), watch], epochs=3)
    assert np.allclose(rates, [0.05, 0.025, 0.0125]) and traces[0] == traces[-1]
    rates.clear()
    fit_with([nn.ReduceLROnPlateau(factor=0.1, patience=2, min_lr=0.0004), watch], values=[1, 1, 1, 1, 1, 0.5, 1, 1])
    assert np.allclose(rates, [0.05, 0.05, 0.005, 0.005, 0.0005, 0.0005, 0.0005, 0.0004])
    rates.clear()
    fit_with([nn.ReduceLROnPlateau(factor=0.5, patience=1, cooldown=2), watch], values=[1] * 8)
    assert np.allclose(rates, [0.05, 0.025, 0.025, 0.0125, 0.0125, 0.00625, 0.00625, 0.003125])
    rates.clear()
    fit_with([nn.ReduceLROnPlateau(patience=1, min_lr=0.1), watch], values=[1] * 8)
    assert np.allclose(rates, [0.05] * 8)  # never raised
    with pytest.raises(ValueError, match="factor"):
        nn.ReduceLROnPlateau(factor=1.0)


def test_nan_is_reported_with_epoch_and_batch(capsys):
    x = X.copy()
    x[45] = math.nan
    with pytest.warns(RuntimeWarning, match="nan since batch 3 of epoch 1"):
        regression().fit(x, Y, batch_size=20, verbose=0, shuffle=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = regression().fit(x, Y, batch_size=20, epochs=5, verbose=0, shuffle=False, callbacks=[nn.TerminateOnNaN()])
    assert len(history.epoch) == 1 and "batch 3: the loss is nan" in capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regression().fit(X, Y, verbose=0)


def test_events_of_callbacks(tmp_path):
    said = []
    fit_with([nn.LambdaCallback(on_train_begin=lambda: said.append("begin"), on_epoch_begin=lambda e: said.append(e), on_train_batch_begin=lambda b: said.append(f"before {b}"),
                                on_train_batch_end=lambda b, logs: said.append(logs["loss"] > 0), on_train_end=lambda: said.append("end"))], epochs=1)
    assert said == ["begin", 0, "before 0", True, "end"]
    with pytest.raises(KeyError, match="on_epoch_end"):
        nn.LambdaCallback(on_epoch=print)
    with pytest.raises(TypeError, match="callback"):
        regression().fit(X, Y, callbacks=[3], verbose=0)
    _, history = fit_with([nn.TensorBoard(tmp_path / "tb")], epochs=2)
    files = list((tmp_path / "tb").rglob("*tfevents*"))
    assert len(files) == 1 and b"val_loss" in files[0].read_bytes()
    assert "val_loss" in str(history.plot())


# --- metrics ---


def measured(metric, labels, predictions, batch=7):
    for i in range(0, len(labels), batch):
        metric.update(metric.measure(lm.constant(labels[i:i + batch]), lm.constant(predictions[i:i + batch])), len(labels[i:i + batch]))
    return metric.result()


def test_metrics_follow_their_definitions():
    M = lm.metrics
    y, p = (R.random(60) > 0.4).astype("int64"), R.random(60).astype("float32")
    said = p > 0.5
    tp, fp, fn = (said & (y == 1)).sum(), (said & (y == 0)).sum(), (~said & (y == 1)).sum()
    assert measured(M.Precision(), y, p) == pytest.approx(tp / (tp + fp)) and measured(M.Recall(), y, p[:, None]) == pytest.approx(tp / (tp + fn))
    assert measured(M.F1(), y[:, None], p[:, None]) == pytest.approx(2 * tp / (2 * tp + fp + fn)) and measured(M.BinaryAccuracy(), y, p) == pytest.approx((said == y).mean())
    exact = np.mean([(a > b) + 0.5 * (a == b) for a in p[y == 1] for b in p[y == 0]])
    assert measured(M.AUC(2000), y, p) == pytest.approx(exact, abs=2e-3) and measured(M.AUC(), np.zeros(9, "int64"), p[:9]) == 0 and math.isnan(M.AUC().result())
    assert measured(M.Precision(), y, p * 0) == 0 and measured(M.Recall(), y * 0, p) == 0 and measured(M.F1(), y, p * 0) == 0
    a, b = R.standard_normal((60, 2)).astype("float32"), R.standard_normal((60, 2)).astype("float32")
    assert measured(M.MeanSquaredError(), a, b) == pytest.approx(((a - b) ** 2).mean(), rel=1e-5) and measured(M.MeanAbsoluteError(), a, b) == pytest.approx(np.abs(a - b).mean(), rel=1e-5)
    assert measured(M.R2(), a, b) == pytest.approx((1 - ((a - b) ** 2).sum(0) / ((a - a.mean(0)) ** 2).sum(0)).mean(), rel=1e-4)
    scores, labels = R.standard_normal((60, 5)).astype("float32"), R.integers(0, 5, 60)
    ranks = (scores > scores[np.arange(60), labels][:, None]).sum(1)
    for form in (labels, labels[:, None], np.eye(5, dtype="float32")[labels]):
        assert measured(M.TopK(2), form, scores) == pytest.approx((ranks < 2).mean(), rel=1e-6)
        matrix = np.zeros((5, 5), int)
        np.add.at(matrix, (labels, scores.argmax(1)), 1)
        assert measured(M.ConfusionMatrix(5), form, scores) == matrix.tolist()
    for label in (5, -1):
        with pytest.raises(lm.errors.IndexOutOfRange):
            measured(M.ConfusionMatrix(5), [label], np.eye(5, dtype="float32")[:1])
    with pytest.raises(lm.errors.IndexOutOfRange):
        measured(M.ConfusionMatrix(4), [1], np.eye(5, dtype="float32")[4:])
    assert measured(M.TopK(5), [0, 1], np.array([[np.nan] * 5, [1] * 5], "float32")) == 0.5, "a row of NaN is no answer"
    for bad in (lambda: M.AUC(1), lambda: M.ConfusionMatrix(0), lambda: M.get("acuracy")):
        with pytest.raises((ValueError, KeyError)):
            bad()


@pytest.mark.parametrize("name", ["auc", "binary_accuracy", "mae", "mse", "precision", "r2"])
def test_a_metric_refuses_labels_of_another_shape_than_predictions(name):
    metric = lm.metrics.get(name)
    with pytest.raises(lm.errors.InvalidArgument, match=rf'(?s){type(metric).__name__}: labels of shape \(4,\) do not fit predictions of shape \(4, 2\).*"accuracy".*Dense\(1\)'):
        metric.measure(np.array([0, 1, 1, 0]), np.zeros((4, 2), "float32"))
    for labels in (np.zeros(4), np.zeros((4, 1)), np.zeros((4, 1), "int64")):
        metric.measure(labels, np.zeros((4, 1), "float32"))


def test_data_frames_of_other_than_numbers_are_refused_by_column():
    pd = pytest.importorskip("pandas", reason="DataFrames are pandas'")
    frame, y = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}), pd.Series([0.0, 1.0])
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    net.fit(frame, y, verbose=0)
    with pytest.raises(lm.errors.TypeMismatch, match="fit: column 'c' of x has dtype"):
        net.fit(frame.assign(c=["u", "v"]), y, verbose=0)
    with pytest.raises(lm.errors.TypeMismatch, match=r'(?s)x has columns of bools and of numbers.*x.astype\("float32"\)'):
        net.fit(frame.assign(c=[True, False]), y, verbose=0)


def test_a_schedule_may_take_the_epoch_alone():
    seen = []
    for schedule in (lambda epoch: 0.5, lambda epoch, rate: rate * 2, lm.optim.schedules.Constant(0.25)):
        net = lm.nn.Sequential([lm.nn.Dense(1)])
        net.compile(lm.optim.SGD(0.125), "mse")
        net.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0, callbacks=[lm.nn.LearningRateScheduler(schedule)])
        seen.append(float(net.optimizer.learning_rate))
    assert seen == [0.5, 0.25, 0.25]


def test_what_fit_lacks_is_said_by_its_fix():
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    x = np.ones((4, 1))
    with pytest.raises(lm.errors.NotFound, match="(?s)no 'val_los'.*fix: +name one of these"):
        net.fit(x, x, verbose=0, validation_split=0.5, callbacks=[lm.nn.EarlyStopping("val_los")])
    with pytest.raises(lm.errors.NotFound, match="(?s)no 'val_loss'.*fix: +pass validation_data"):
        net.fit(x, x, verbose=0, callbacks=[lm.nn.EarlyStopping()])
    with pytest.raises(lm.errors.TypeMismatch, match="(?s)LBFGS does not train by batches.*minimize"):
        net.compile(lm.optim.LBFGS(), "mse")


def test_metrics_in_fit(tmp_path, capsys):
    net = nn.Sequential([nn.Input((4,)), nn.Dense(3)])
    matrix = lm.metrics.ConfusionMatrix(3)
    net.compile(lm.optim.Adam(0.05), LOGITS, metrics=["accuracy", lm.metrics.TopK(2), matrix])
    logs = net.fit(X, C, epochs=2).history
    assert "confusion" not in capsys.readouterr().out and np.sum(logs["confusion_matrix"][-1]) == 60 and 0 <= logs["accuracy"][0] <= logs["top_k"][0] <= 1
    loss, accuracy, _, table = net.evaluate(X, C)
    assert accuracy == pytest.approx(np.trace(table) / 60)
    binary = nn.Sequential([nn.Input((4,)), nn.Dense(1, "sigmoid")])
    binary.compile("adam", "binary_crossentropy", metrics=["precision", "recall", "f1", "auc", "binary_accuracy"])
    runs = [binary.fit(X, (C > 0)[:, None].astype("float32"), epochs=2, verbose=0, shuffle=False, checkpoint=tmp_path, checkpoint_every=1).history]
    assert set(runs[0]) == {"loss", "precision", "recall", "f1", "auc", "binary_accuracy"}


# --- summary ---


def test_summary_and_get_layer(capsys):
    net = nn.Sequential([nn.Input((6,)), nn.Dense(8, "relu", name="first"), nn.Dropout(0.1, name="drop"), nn.Dense(3, name="last")])
    net.layers[0].trainable = False
    net.summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["layer", "output", "shape", "parameters", "launch"] and [line.split()[0] for line in lines[3:6]] == ["first", "drop", "last"]
    assert "(n, 8)" in lines[3] and lines[3].split()[-2:] == ["56", "1"] and lines[5].split()[-2:] == ["27", "1"] and lines[-1].startswith("83 parameters, 27 trainable, 56 not; 332 bytes")
    assert net.get_layer("last") is net.layers[2] and net.get_layer(index=0) is net.layers[0]
    for bad in (lambda: net.get_layer("lats"), lambda: net.get_layer(index=9), lambda: net.get_layer(), lambda: net.get_layer("last", 1)):
        with pytest.raises((KeyError, IndexError, ValueError)) as e:
            bad()
        assert isinstance(e.value, lm.errors.Error)
    with pytest.raises(RuntimeError, match="do not exist"):
        nn.Sequential([nn.Dense(2)]).summary()
    two_outputs(loss="mse").summary(print_fn=(said := []).append)
    assert "value (Dense)" in said[0] and "(n, 5)" in said[0]


def test_weights_of_classes_apply_to_each_step_of_labels_that_number_classes():
    ids, factors = np.random.default_rng(0).integers(0, 3, (4, 5)), np.array([1, 10, 100.0])
    net = lm.nn.Sequential([lm.nn.Embedding(3, 3)])
    net.compile(lm.optim.SGD(0.0), lm.losses.SparseCrossEntropy(from_logits=True))
    net(ids)
    logits = net(ids).numpy().astype("float64")
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, ids[..., None], -1)[..., 0]
    for weights in (None, np.arange(1, 5.0)):
        got = net.fit(ids, ids, class_weight=dict(enumerate(factors)), sample_weight=weights, verbose=0).history["loss"][0]
        assert got == pytest.approx((losses * factors[ids] * (1 if weights is None else weights[:, None])).mean(), rel=1e-5)
    net.compile("sgd", "mse")
    with pytest.raises(ValueError, match="no one-hot rows"):
        net.fit(ids, np.eye(3)[ids] * 2, class_weight={0: 2.0}, verbose=0)


def value_and_kind():
    a = lm.nn.Input((2,))
    h = lm.nn.Dense(4, "tanh")(a)
    return lm.nn.Model(a, [lm.nn.Dense(1, name="value")(h), lm.nn.Dense(3, name="kind")(h)])


@pytest.mark.parametrize("made, monitor, larger", [
    (lambda: {"kind": ["accuracy"]}, "val_kind_accuracy", True), (lambda: {"kind": lm.metrics.TopK(2, name="top")}, "kind_top", True), (lambda: {"value": lm.metrics.R2(name="score")}, "val_value_score", True),
    (lambda: {"value": lm.metrics.MeanAbsoluteError(name="accuracy_of_value")}, "val_value_accuracy_of_value", False), (lambda: {"kind": [lm.metrics.accuracy]}, "val_kind_accuracy", True),
    (lambda: {"kind": ["accuracy"]}, "val_loss", False), (lambda: {"kind": ["accuracy"]}, "value_loss", False),
])
def test_callbacks_ask_the_metric_which_direction_is_better(made, monitor, larger, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
    y = (x[:, :1], (x[:, 0] > 0).astype("int64"))
    net = value_and_kind()
    net.compile(lm.optim.SGD(0.1), ["mse", lm.losses.SparseCrossEntropy(from_logits=True)], metrics=made())
    followers = [lm.nn.EarlyStopping(monitor, patience=9), lm.nn.ReduceLROnPlateau(monitor, patience=9, min_delta=0), lm.nn.ModelCheckpoint(tmp_path / "best.safetensors", monitor, save_best_only=True)]
    seen = net.fit(x, y, validation_data=(x, y), epochs=4, verbose=0, callbacks=followers).history[monitor]
    assert [one.best for one in followers] == [max(seen) if larger else min(seen)] * 3


def test_a_metric_that_does_not_say_its_direction_needs_a_mode():
    def closeness(y, p):
        return -lm.abs(y - p)

    class Own(lm.metrics.Metric):
        name, larger_is_better = "own", True

        def measure(self, y, p):
            return lm.mean(-lm.abs(y - p))

    x = np.ones((4, 3), "float32")
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse", metrics=[closeness, Own()])
    with pytest.raises(ValueError, match="larger or smaller is not known"):
        net.fit(x, x[:, :1], verbose=0, callbacks=[lm.nn.EarlyStopping("closeness")])
    for follower in (lm.nn.EarlyStopping("closeness", mode="max"), lm.nn.EarlyStopping("own")):
        seen = net.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[follower]).history[follower.monitor]
        assert follower.best == max(seen)


@pytest.mark.parametrize("far", [0, 1e4, -1e6, 1e8])
@pytest.mark.parametrize("launch", [1, 3])
def test_r2_of_labels_far_from_zero(far, launch):
    r = np.random.default_rng(0)
    y = far + r.normal(size=(1000, 2))
    p = y + 0.3 * r.normal(size=(1000, 2))
    metric, right = lm.metrics.R2(), (1 - ((y - p) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean()
    for part in np.split(np.arange(1000), [0, 300, 301, 301]):
        metric.update(metric.measure(y[part], p[part]), len(part))
    assert metric.result() == pytest.approx(right, rel=1e-6)
    net = lm.nn.Sequential([lm.nn.Input((2,), "float64"), lm.nn.Activation("linear")])
    net.compile("sgd", "mse", metrics=[lm.metrics.R2()])
    with pytest.warns(UserWarning, match="nothing in"):
        seen = net.fit(p, y, batch_size=64, epochs=2, verbose=0, validation_data=(p, y), sample_weight=np.ones(1000), steps_per_launch=launch).history
    assert [*seen["r2"], *seen["val_r2"], net.evaluate(p, y)[1]] == pytest.approx([right] * 5, rel=1e-6)


def test_r2_of_constant_labels_and_of_no_rows():
    metric = lm.metrics.R2()
    metric.update(metric.measure(np.zeros(0), np.zeros(0)), 0)
    assert math.isnan(metric.result())
    for rows in (5, 3):
        metric.update(metric.measure(np.full(rows, 0.1), np.arange(rows) * 1.0), rows)
    assert metric.result() == 0


@pytest.mark.parametrize("event", ["on_train_batch_begin", "on_train_batch_end"])
def test_evaluate_in_a_callback_leaves_fits_metrics_alone(event):
    x, c = np.random.default_rng(1).normal(size=(40, 2)).astype("float32"), np.arange(40) % 2

    def history(looks):
        lm.random.set_seed(1)
        net = lm.nn.Sequential([lm.nn.Dense(2, "softmax")])
        net.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy", lm.metrics.ConfusionMatrix(2)])
        measured = lambda batch, logs=None: net.evaluate(x[:4], c[:4]) if looks else None  # noqa: E731
        return net.fit(x, c, batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=[lm.nn.LambdaCallback(**{event: measured})]).history

    assert history(True) == history(False)


def test_metrics_of_one_name_are_numbered():
    x, c = np.random.default_rng(1).normal(size=(40, 2)).astype("float32"), np.arange(40) % 3
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    net.compile("sgd", lm.losses.SparseCrossEntropy(from_logits=True), metrics=[lm.metrics.TopK(1), lm.metrics.TopK(2), lm.metrics.TopK(3, name="loss")])
    found = net.evaluate(x, c, return_dict=True)
    assert list(found) == ["loss", "top_k", "top_k_1", "loss_1"] and found["top_k"] < found["top_k_1"] < found["loss_1"] == 1 and found["loss"] != 1
    both = value_and_kind()
    both.compile("sgd", "mse", metrics={"kind": [lm.metrics.MeanSquaredError(), "mse"], "value": ["mse"]})
    assert list(both.evaluate(x, (x[:, :1], np.eye(3, dtype="float32")[c]), return_dict=True)) == ["loss", "value_loss", "kind_loss", "kind_mse", "kind_mse_1", "value_mse"]


def test_predict_refuses_a_dataset_without_an_end():
    data = lm.data.Dataset.from_tensor_slices(np.ones((4, 2), "float32")).batch(2)
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    with pytest.raises(ValueError, match="predict: the Dataset never ends"):
        net.predict(data.repeat())
    assert net.predict(data.repeat(2)).shape == (8, 3)


def test_csv_lines_have_the_fields_of_their_header(tmp_path):
    x, c = np.ones((6, 2), "float32"), np.arange(6) % 3
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    net.compile("sgd", lm.losses.SparseCrossEntropy(from_logits=True), metrics=[lm.metrics.ConfusionMatrix(3), "accuracy"])
    net.fit(x, c, epochs=2, verbose=0, callbacks=[lm.nn.CSVLogger(tmp_path / "log.csv")])
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,accuracy" and [len(line.split(",")) for line in lines] == [3, 3, 3]


@pytest.mark.parametrize("number", [np.float32(2), np.int64(2), np.float64(2), lm.constant(2.0), 2])
def test_factors_of_losses_are_numbers_of_any_kind(number):
    net = two_outputs(loss=["mse", LOGITS], loss_weights={"value": number, "kind": 1.0})
    whole, value, kind = net.evaluate([X, X], (Y, C))
    assert whole == pytest.approx(2 * value + kind, rel=1e-6)
    with pytest.raises(lm.errors.TypeMismatch, match="a factor of loss_weights is a str, 'half'"):
        two_outputs(loss="mse", loss_weights=[1.0, "half"])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float64"])
def test_metrics_take_predictions_of_every_dtype(dtype):
    M = lm.metrics
    y, p = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 1, 1])
    for metric in (M.Precision, M.Recall, M.F1, M.BinaryAccuracy, M.AUC, M.MeanSquaredError, M.MeanAbsoluteError, M.R2):
        assert measured(metric(), y, p.astype(dtype)) == pytest.approx(measured(metric(), y, p.astype("float32")), rel=1e-3)
    assert measured(M.MeanSquaredError(), np.array([0.5, 0.5]), np.array([1, 0])) == 0.25  # labels stay fractions


@pytest.mark.parametrize("wrong", [[-3, 4, 5, -1.0], [math.nan, 0.4, 0.5, 0.1], [0, 0.5, 1, 1.5]])
def test_auc_refuses_what_are_no_probabilities(wrong):
    with pytest.raises(lm.errors.InvalidArgument, match="AUC: . predictions of a batch are NaN, or not from 0 to 1"):
        measured(lm.metrics.AUC(), np.array([0, 1, 1, 0]), np.array(wrong, "float32"))


def test_a_loss_that_gives_no_tensor_is_named():
    def forgotten(labels, predictions):
        lm.mean(labels - predictions)
    for loss, given in ((forgotten, "'forgotten' gave None"), (lambda labels, predictions: 5.0, "gave 5.0")):
        net = lm.nn.Sequential([lm.nn.Dense(1)])
        net.compile("sgd", loss)
        with pytest.raises(lm.errors.TypeMismatch, match=f"the loss .*{given}"):
            net.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)
