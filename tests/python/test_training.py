"""compile, fit, evaluate, predict, and the progress bar."""
import io, re

import numpy as np
import pytest

import lamina as lm
from lamina.progress import ProgressBar, format_duration, format_metric, format_step_time


def constant_net():
    return lm.nn.Sequential([lm.nn.Dense(1, use_bias=False, kernel_initializer="zeros")])


def blobs(n=200, seed=0):
    r = np.random.default_rng(seed)
    y = r.integers(0, 3, n)
    return (r.normal(size=(n, 4)) + 3 * np.eye(4)[y]).astype("float32"), y


def classifier():
    return lm.nn.Sequential([lm.nn.Dense(16, activation="relu"), lm.nn.Dense(3)])


@pytest.mark.row("S1-66")
def test_fit_learns_and_returns_a_history(capsys):
    x, y = blobs()
    net = classifier()
    net.compile(optimizer="adam", loss=lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    net.optimizer.learning_rate.assign(0.02)
    history = net.fit(x, y, epochs=8, verbose=0, validation_data=blobs(100, 1))
    assert capsys.readouterr().out == "" and history.epoch == list(range(8)) and set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert history.history["loss"][-1] < 0.3 * history.history["loss"][0] and history.history["val_accuracy"][-1] > 0.9 and history.params["steps"] == 7
    loss, accuracy = net.evaluate(*blobs(100, 1))
    assert loss == pytest.approx(history.history["val_loss"][-1], rel=1e-5) and accuracy == pytest.approx(history.history["val_accuracy"][-1])
    p = net.predict(blobs(70, 2)[0])
    assert isinstance(p, np.ndarray) and p.shape == (70, 3) and (p.argmax(1) == blobs(70, 2)[1]).mean() > 0.9
    assert net.evaluate(*blobs(10), return_dict=True).keys() == {"loss", "accuracy"}


@pytest.mark.row("S1-63")
def test_the_epoch_loss_is_weighted_by_samples():
    net = constant_net()
    net.compile(loss="mse", optimizer=lm.optim.SGD(0.0))
    target = np.concatenate([np.ones((32, 1)), 3 * np.ones((28, 1))]).astype("float32")
    assert net.fit(np.ones((60, 1), "float32"), target, shuffle=False, verbose=0).history["loss"][0] == pytest.approx((32 + 28 * 9) / 60)


class Probe(lm.nn.Layer):
    def __init__(self):
        super().__init__()
        self.runs = 0

    def call(self, x):
        self.runs += 1
        return x


@pytest.mark.row("S1-55", "S1-57", "S1-60", "S1-62", "S1-67")
def test_compiled_fit_traces_and_eager_fit_runs_every_batch():
    probe = Probe()
    net = lm.nn.Sequential([lm.nn.Dense(2), probe])
    net.compile(loss="mse")
    assert probe.runs == 0 and type(net.optimizer).__name__ == "RMSprop" and net.optimizer.learning_rate.item() == pytest.approx(1e-3)
    x, y = np.ones((60, 3), "float32"), np.ones((60, 2), "float32")
    net.fit(x, y, epochs=3, verbose=0)
    assert probe.runs == 2  # one per size of batch
    net.fit(x, y, epochs=2, verbose=0)
    assert probe.runs == 2
    before = net.get_weights()
    net.compile(loss="mse", run_eagerly=True)
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights()))
    net.fit(x, y, epochs=3, verbose=0)
    assert probe.runs == 8


def test_eager_and_compiled_fit_agree():
    x, y = blobs(96)
    results = []
    for eagerly in (False, True):
        lm.random.set_seed(3)
        net = classifier()
        net.compile("sgd", lm.losses.SparseCrossEntropy(from_logits=True), run_eagerly=eagerly)
        results.append(net.fit(x, y, epochs=2, verbose=0).history["loss"] + [w for w in net.get_weights()])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_fit_takes_datasets_dicts_and_functions():
    x, y = blobs(64)
    net = classifier()
    net.compile(lm.optim.SGD(0.1), loss=lambda t, p: lm.losses.sparse_categorical_crossentropy(t, p, from_logits=True), metrics=[lambda t, p: p * 0 + 2])
    history = net.fit(lm.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=2, verbose=0)
    assert history.params["steps"] == 4 and list(history.history)[1] in ("<lambda>",) and history.history["<lambda>"] == [2, 2]

    class Sum(lm.nn.Model):
        def __init__(self):
            super().__init__()
            self.d = lm.nn.Dense(1)

        def call(self, parts):
            return self.d(parts["a"] + parts["b"])
    both = Sum()
    both.compile("sgd", "mse")
    assert len(both.fit({"a": x, "b": x}, y.reshape(-1, 1).astype("float32"), verbose=0).history["loss"]) == 1


def test_callbacks_see_every_epoch_and_can_stop():
    class Stop(lm.nn.Callback):
        seen = []

        def on_train_batch_end(self, batch, logs):
            self.seen.append((batch, "loss" in logs))

        def on_epoch_end(self, epoch, logs):
            self.model.stop_training = epoch == 1
    net = constant_net()
    net.compile("sgd", "mse")
    history = net.fit(np.ones((40, 1), "float32"), np.ones((40, 1), "float32"), epochs=9, verbose=0, callbacks=[Stop()])
    assert history.epoch == [0, 1] and Stop.seen == [(0, True), (1, True)] * 2


def test_misuse_is_explained():
    x, y = np.ones((4, 1), "float32"), np.ones((4, 1), "float32")
    net = constant_net()
    with pytest.raises(RuntimeError, match="compile"):
        net.fit(x, y)
    net.compile("sgd")
    with pytest.raises(ValueError, match="without a loss"):
        net.fit(x, y, verbose=0)
    net.compile("sgd", "mse")
    for call, words in ((lambda: net.fit(x), "no labels"), (lambda: net.fit(x, y[:2]), "x has 4 rows and y has 2 rows"), (lambda: net.fit(x[:0], y[:0]), "no data"),
                        (lambda: net.fit(lm.data.Dataset.from_tensor_slices(x).batch(2)), "inputs, labels"),
                        (lambda: net.fit(lm.data.Dataset.from_tensor_slices((x, y)).batch(2), y), "beside a Dataset"), (lambda: net.predict(x[:0]), "no data"),
                        (lambda: net.evaluate(x[:0], y[:0]), "evaluate: there is no data"), (lambda: net.evaluate(lm.data.Dataset.from_tensor_slices((x[:0], y[:0])).batch(2)), "evaluate: there is no data"),
                        (lambda: net.fit(x, y, verbose=0, validation_data=(x[:0], y[:0])), "fit's validation_data: there is no data"),
                        (lambda: net.fit(x, y, verbose=0, validation_data=lm.data.Dataset.from_tensor_slices((x[:0], y[:0])).batch(2)), "fit's validation_data: there is no data")):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_label_out_of_range_stops_fit():
    net = classifier()
    net.compile("sgd", lm.losses.SparseCrossEntropy(from_logits=True))
    x, y = blobs(64)
    y[40] = 5
    with pytest.raises(lm.errors.IndexOutOfRange, match="5"):
        net.fit(x, y, verbose=0)


# --- the bar ---

class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def draw(file, steps, seconds_per_step, verbose=1, metrics=(("loss", 1.0),)):
    clock = Clock()
    bar = ProgressBar(steps, verbose, file, clock)
    for step in range(1, steps + 1):
        clock.now += seconds_per_step
        bar.update(step, metrics)
    bar.finish(metrics)
    return file.getvalue()


@pytest.mark.row("S1-65")
def test_metric_text():
    assert [format_metric(v) for v in (1.6631, 0.0011, 5.7225e-4, 1e-3, 0.0, -2.0, -1e-5, float("nan"))] == [
        "1.6631", "0.0011", "5.7225e-04", "1.0000e-03", "0.0000e+00", "-2.0000", "-1.0000e-05", "nan"]
    assert [format_step_time(t) for t in (2.0, 0.0131, 35e-6)] == ["2s/step", "13ms/step", "35us/step"]
    assert [format_duration(t) for t in (0.2, 59, 65, 3725)] == ["0s", "59s", "1:05", "1:02:05"]


@pytest.mark.row("S1-64")
def test_a_pipe_gets_plain_lines_at_the_ends_and_every_ten_seconds():
    text = draw(io.StringIO(), 300, 0.1)
    lines = text.splitlines()
    assert not re.search(r"[\x1b\x08\r]", text) and lines[0].startswith("1/300 [>....") and "ETA: 29s" in lines[0] and len(lines) == 4
    assert lines[-1] == "300/300 [" + "=" * 30 + "] - 30s 100ms/step - loss: 1.0000"


@pytest.mark.row("S1-64")
def test_a_terminal_gets_one_moving_line():
    text = draw(Terminal(), 2, 0.2)
    first, last = text.split("\r")[1:]
    assert first == "1/2 [==============>...............] - ETA: 0s - loss: 1.0000" and last.startswith("2/2 [" + "=" * 30 + "] - 0s 200ms/step") and text.endswith("\n")
    assert len(draw(Terminal(), 1000, 0.001).split("\r")) < 14  # at most ten a second


def test_verbose_two_and_zero():
    assert re.fullmatch(r"2/2 - 1s - 500ms/step - loss: 1\.0000\n", draw(io.StringIO(), 2, 0.5, verbose=2)) and draw(io.StringIO(), 2, 0.5, verbose=0) == ""


def test_fit_shows_epochs_steps_and_times(capsys):
    net = constant_net()
    net.compile("sgd", "mse")
    net.fit(np.ones((60, 1), "float32"), np.ones((60, 1), "float32"), epochs=2)
    text = capsys.readouterr().out
    assert re.findall(r"Epoch \d/\d", text) == ["Epoch 1/2", "Epoch 2/2"] and text.count("1/2 [") == text.count("2/2 [") == 2 and re.search(r"\d+[mu]?s/step - loss: \d", text)


@pytest.mark.parametrize("eagerly", [False, True])
def test_predict_takes_the_inputs_of_pairs_and_of_weighted_pairs(eagerly):
    x, y = blobs(128)
    net = classifier()
    net.compile(loss=lm.losses.SparseCrossEntropy(from_logits=True), run_eagerly=eagerly)
    wanted = net.predict(x)
    rows = lm.data.Dataset.from_tensor_slices
    for data in (rows(x), rows((x,)), rows((x, y)), rows((x, y, np.ones(128, "float32")))):
        got = net.predict(data.batch(30))
        assert got.shape == (128, 3)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(lm.errors.InvalidArgument, match="a tuple of 4"):
        net.predict(rows((x, x, x, x)).batch(30))
    pairs = rows((x, y)).batch(30)
    assert net.evaluate(pairs) == pytest.approx(net.evaluate(x, y), rel=1e-5) and len(net.fit(pairs, verbose=0).epoch) == 1
    for use in (net.fit, net.evaluate):
        with pytest.raises(lm.errors.InvalidArgument, match=r"not \(inputs, labels\)"):
            use(rows((x, y, y, y)).batch(30))
    weighted = rows((x, y, np.full(128, 2, "float32"))).batch(30)
    assert net.evaluate(weighted) == pytest.approx(2 * net.evaluate(x, y), rel=1e-5)


def test_predict_joins_every_output_of_a_model_along_its_rows():
    class Two(lm.nn.Model):
        def call(self, inputs):
            a, b = inputs["a"], inputs["b"]
            return {"sum": a + b, "both": (a * 2, [b])}

    x = {"a": np.arange(10.0, dtype="float32").reshape(10, 1), "b": np.ones((10, 1), "float32")}
    for data in (x, lm.data.Dataset.from_tensor_slices(x).batch(4), lm.data.Dataset.from_tensor_slices((x, np.zeros(10))).batch(4)):
        out = Two().predict(data)
        np.testing.assert_array_equal(out["sum"], x["a"] + 1)
        assert isinstance(out["both"], tuple) and isinstance(out["both"][1], list)
        np.testing.assert_array_equal(out["both"][0], 2 * x["a"])

    class Pair(lm.nn.Model):
        def call(self, inputs):
            return inputs[0] - inputs[1]

    np.testing.assert_array_equal(Pair().predict((x["a"], x["b"])), x["a"] - 1)
    np.testing.assert_array_equal(Pair().predict(lm.data.Dataset.from_tensor_slices(((x["a"], x["b"]), np.zeros(10))).batch(3)), x["a"] - 1)

    class Total(lm.nn.Model):
        def call(self, x):
            return lm.sum(x)

    with pytest.raises(lm.errors.InvalidArgument, match="no axis of rows"):
        Total().predict(x["a"])


def trained(net, layers):
    """The layers that one step of fit changes."""
    x, y = blobs(32)
    net(x[:1])  # the weights exist from here on
    before = [[w.copy() for w in layer.get_weights()] for layer in layers]
    net.fit(x, y, epochs=1, batch_size=16, verbose=0)
    return [any((a != b).any() for a, b in zip(old, layer.get_weights())) for old, layer in zip(before, layers)]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("eagerly", [False, True])
def test_what_is_trainable_may_change_between_steps(eagerly, optimizer):
    body = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dense(8, "tanh")])
    head = lm.nn.Dense(3)
    net = lm.nn.Sequential([body, head])
    net.compile(optimizer, lm.losses.SparseCrossEntropy(from_logits=True), run_eagerly=eagerly)
    layers = [*body.layers, head]
    assert trained(net, layers) == [True, True, True]
    body.layers[0].trainable = False
    assert trained(net, layers) == [False, True, True] and len(net.trainable_variables) == 4
    body.trainable = False
    assert trained(net, layers) == [False, False, True]
    body.layers[0].trainable = body.trainable = True
    assert trained(net, layers) == [True, True, True]
    net.trainable = False
    with pytest.warns(UserWarning, match="nothing in"):
        assert trained(net, layers) == [False, False, False]
    net.trainable = True
    assert trained(net, layers) == [True, True, True]
    if not eagerly:
        counts = []
        for _ in range(4):
            body.trainable = not body.trainable
            trained(net, layers)
            counts.append(net._train_step.trace_count)
        assert counts[1:] == counts[:1] * 3  # the earlier trace is reused


def test_a_layer_that_is_switched_on_after_the_first_step_gets_its_slots():
    net = classifier()
    net.layers[0].trainable = False
    net.compile(lm.optim.Adam(0.01), lm.losses.SparseCrossEntropy(from_logits=True))
    assert trained(net, net.layers) == [False, True]
    net.layers[0].trainable = True
    assert trained(net, net.layers) == [True, True] and len(net.optimizer.variables) == 2 + 2 * 4


def test_a_users_own_step_notices_what_is_trainable():
    first, second = lm.nn.Dense(4), lm.nn.Dense(1)
    net = lm.nn.Sequential([first, second])
    x = lm.ones((2, 3))
    net(x)

    @lm.function
    def gradients_of(x):
        with lm.GradientTape() as tape:
            cost = lm.sum(net(x))
        return tape.gradient(cost, net.trainable_variables)

    @lm.function
    def outer(x, scale):
        return [g * scale for g in gradients_of(x)]

    @lm.function
    def branch(x):
        return x * 2 if first.trainable else x

    two = lm.constant(2.0)
    for expected, switch in ((4, None), (2, False), (4, True), (2, False), (4, True)):
        if switch is not None:
            first.trainable = switch
        assert len(gradients_of(x)) == len(outer(x, two)) == expected
        assert float(branch(two)) == (4 if expected == 4 else 2)
    assert gradients_of.trace_count == outer.trace_count == branch.trace_count == 2
    assert "dense" in gradients_of.traces[1]["cause"] and "trainable False" in gradients_of.traces[1]["cause"]
    unrelated = lm.nn.Dense(2)
    unrelated.trainable = False
    gradients_of(x), outer(x, two)
    assert gradients_of.trace_count == outer.trace_count == 2  # a change of an unrelated layer does not count


def test_batch_norm_that_is_switched_off_keeps_its_statistics_in_a_traced_step():
    norm = lm.nn.BatchNorm(momentum=0.5)
    step = lm.function(lambda x: norm(x, training=True))
    x = lm.constant([[1.0], [3.0]])
    step(x)
    moved = norm.moving_mean.numpy()
    assert moved == [1.0]
    norm.trainable = False
    step(x)
    assert norm.moving_mean.numpy() == moved
    norm.trainable = True
    step(x)
    assert norm.moving_mean.numpy() == [1.5]


class OwnNet(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = [lm.nn.Dense(3)], lm.nn.Dense(1)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize("change", ["head", "blocks", "appended", "weight"])
def test_steps_are_traced_anew_when_a_layer_or_variable_is_another(change):
    x, net = np.ones((4, 3), "float32"), OwnNet()
    net.compile("adam", "mse")
    net.fit(x, x[:, :1], verbose=0), net.predict(x), net.evaluate(x, x[:, :1])
    if change == "head":
        net.head = lm.nn.Dense(2)
    elif change == "blocks":
        net.blocks = [lm.nn.Dense(3), lm.nn.Dense(3)]
    elif change == "appended":
        net.blocks.append(lm.nn.Dense(3))
    else:
        net.head.kernel = lm.Variable(np.full((3, 1), 3.0, "float32"))
    y = np.zeros((4, 2 if change == "head" else 1), "float32")
    net.fit(x, y, verbose=0)
    before = net.get_weights()
    net.fit(x, y, verbose=0)
    assert all((a != b).any() for a, b in zip(before, net.get_weights()))
    assert np.allclose(net.predict(x), net(x)) and np.allclose(net.evaluate(x, y), np.mean(net(x).numpy() ** 2))
    traces = net._train_step.trace_count, net._test_step.trace_count, net._predict_step.trace_count
    net.fit(x, y, verbose=0), net.predict(x), net.evaluate(x, y), net.train_on_batch(x, y), lm.nn.Dense(3)(x), net.train_on_batch(x, y)
    assert traces == (net._train_step.trace_count, net._test_step.trace_count, net._predict_step.trace_count) == (1, 1, 1)


def test_a_layer_that_is_added_after_a_step_takes_part():
    x, net = np.ones((2, 3), "float32"), lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(3)])
    net.compile("sgd", "mse")
    outer = lm.nn.Sequential([net])
    outer.compile("sgd", "mse")
    net.predict(x), outer.predict(x), outer.predict_on_batch(x)
    net.add(lm.nn.Lambda(lambda t: 100 * t))
    for made in (net, outer):
        assert np.allclose(made.predict_on_batch(x), net(x)) and np.allclose(made.predict(x), net(x))


def test_a_frozen_model_freezes_the_layers_inside_as_in_keras():
    x = np.random.default_rng(0).normal(3, 2, (64, 4)).astype("float32")
    inner = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Dense(4), lm.nn.BatchNorm()])
    base = lm.nn.Sequential([lm.nn.Input((4,)), inner])
    base.trainable = False
    assert not any(layer.trainable for layer in (inner, *inner.layers)) and not base.trainable_variables
    net = lm.nn.Sequential([base, lm.nn.Dense(1)])
    net.compile("adam", "mse")
    before, norm = base.get_weights(), base.predict(x)
    assert (base(x, training=True).numpy() == norm).all()
    net.fit(x, x[:, :1], epochs=2, verbose=0)
    assert all((a == b).all() for a, b in zip(before, base.get_weights()))
    base.trainable = True
    assert len(base.trainable_variables) == 4
    net.fit(x, x[:, :1], verbose=0)
    assert all((a != b).any() for a, b in zip(before, base.get_weights()))
    a = lm.nn.Input((4,))
    assert not lm.nn.Model(a, inner(a), trainable=False).trainable_variables and not inner.layers[1].trainable


def test_a_layer_in_and_beside_a_frozen_one_is_frozen_in_either_order():
    class Pair(lm.nn.Model):
        def __init__(self, *parts):
            super().__init__()
            self.first, self.second = parts

    for frozen_first in (True, False):
        shared, off = lm.nn.Dense(2), lm.nn.Sequential()
        shared(np.ones((1, 2), "float32"))
        if frozen_first:
            off.trainable = False
        off.add(shared)
        if not frozen_first:
            off.trainable = False
        for net in (Pair(off, shared), Pair(shared, off)):
            assert net.trainable_variables == [] and len(net.non_trainable_variables) == 2
