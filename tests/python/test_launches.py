"""fit with several steps in one launch: the bits, the History and the output of single steps."""
import io
import sys

import numpy as np
import pytest

import lamina as lm

nn = lm.nn


def data(rows=203):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 6)).astype("float32")
    return x, (x[:, :1] * x[:, 1:2] > 0).astype("float32")


def trained(steps_per_launch, rows=203, epochs=3, callbacks=(), metrics=("mse", lm.metrics.F1), optimizer="adam", verbose=0, **options):
    lm.random.set_seed(3)
    net = nn.Sequential([nn.Dense(16, "tanh"), nn.Dropout(0.3), nn.BatchNorm(), nn.Dense(1, "sigmoid", kernel_regularizer="l2")])
    net.compile(optimizer, "mse", metrics=[metric() if isinstance(metric, type) else metric for metric in metrics])
    x, y = data(rows)
    history = net.fit(x, y, batch_size=10, epochs=epochs, verbose=verbose, callbacks=callbacks, steps_per_launch=steps_per_launch, **options)
    return net, history.history


def same(one, other):
    for a, b in zip(one.variables + one.optimizer.variables, other.variables + other.optimizer.variables):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("rows, steps", [(203, 4), (200, 5), (200, 7), (30, 50), (203, 20)])
def test_a_launch_has_the_bits_of_single_steps(rows, steps):
    net, history = trained(1, rows)
    other, launched = trained(steps, rows)
    same(net, other)
    assert launched == history and list(history) == ["loss", "mse", "f1"]


def test_weights_of_samples_and_several_inputs_and_outputs_are_cut_too():
    a, b = nn.Input((3,)), nn.Input((3,))
    x, y = data(120)
    nets = []
    for steps in (1, 6):
        lm.random.set_seed(1)
        h = nn.Dense(8, "tanh")(a) * nn.Dense(8, "tanh")(b)
        net = nn.Model({"a": a, "b": b}, [nn.Dense(1, name="one")(h), nn.Dense(1, name="two")(h)])
        net.compile(lm.optim.SGD(0.1, momentum=0.9), "mse")
        net.fit({"a": x[:, :3], "b": x[:, 3:]}, (y, 1 - y), sample_weight=np.arange(120.0) / 60, batch_size=10, epochs=2, verbose=0, steps_per_launch=steps)
        nets.append(net)
    same(*nets)


def test_all_launches_of_a_fit_are_one_graph(monkeypatch):
    from lamina.nn import launches

    made = []
    monkeypatch.setattr(launches.Launches, "__init__", lambda self, *args, real=launches.Launches.__init__: (real(self, *args), made.append(self))[0])
    trained(4, rows=240)
    assert made[0]._loop.call.trace_count == 1  # 17 launches of equal batches


def test_callbacks_for_batches_get_every_batch():
    seen = []

    class Watch(nn.Callback):
        def on_train_batch_end(self, batch, logs):
            seen.append((batch, self.model.variables[0].numpy().sum(), logs["loss"]))

    net, _ = trained(5, callbacks=[Watch()], epochs=1)
    assert [batch for batch, _, _ in seen] == list(range(21)) and len({total for _, total, _ in seen}) == 21


def test_the_lines_are_those_of_single_steps(monkeypatch):
    texts = []
    for steps in (1, 4):
        file = io.StringIO()
        monkeypatch.setattr(sys, "stdout", file)
        trained(steps, verbose=1, epochs=2)
        monkeypatch.undo()
        texts.append([part for line in file.getvalue().splitlines() for part in line.split(" - ") if "/step" not in part and "ETA" not in part])
    assert texts[0] == texts[1] and any(part.startswith("1/21 [") for part in texts[1])


def test_a_loss_that_is_not_finite_is_reported_with_its_batch():
    x, y = data(100)
    y[45] = np.nan
    net = nn.Sequential([nn.Dense(1)])
    net.compile("sgd", "mse")
    with pytest.warns(RuntimeWarning, match="since batch 5 of epoch 1"):
        net.fit(x, y, batch_size=10, shuffle=False, verbose=0, steps_per_launch=4)


def test_a_learning_rate_that_a_callback_sets_is_used_without_a_new_trace():
    schedule = lambda epoch, rate: 0.1 / (epoch + 1)
    (net, history), (other, launched) = (trained(steps, callbacks=[nn.LearningRateScheduler(schedule)], optimizer="sgd") for steps in (1, 7))
    same(net, other)
    assert history == launched


def test_fit_chooses_a_number_where_steps_are_short():
    from lamina.nn.launches import Launches

    class Feed:
        can_join, rows, specs = True, 10_000, ()

    launches = Launches(lambda *batch: (), 10, Feed(), None, False, {})
    launches._times = [0.05] + [1e-4] * 10
    launches.after_epoch(100)
    assert launches.steps == 1  # too few steps are left for another trace
    for times, left, wanted in (([0.05] + [1e-4] * 10, 20_000, 200), ([0.05] + [2e-3] * 10, 20_000, 1), ([0.05] + [1e-3 / 4] * 10, 20_000, 50)):
        launches = Launches(lambda *batch: (), 10, Feed(), None, False, {})
        launches._times = times
        launches.after_epoch(left)
        assert launches.steps == wanted and 1000 % launches.steps == 0
    launches = Launches(lambda *batch: (), 10, Feed(), None, False, {})
    for _ in range(11):
        list(launches.of((lm.zeros([10, 30_000]), lm.zeros([10], "int32")), 10))  # 1.2 MB
    launches._times = [0.05] + [1e-4] * 10
    launches.after_epoch(20_000)
    assert 4 <= launches.steps <= 6, "batches of 8 MiB"
    for single, feed in ((True, Feed()), (False, type("Stream", (), {"can_join": False})())):
        launches = Launches(lambda *batch: (), 10, feed, 8, single, {})
        assert launches.steps == 1 and launches.rows is None


def test_long_fits_of_short_steps_launch_several_by_themselves(monkeypatch):
    from lamina.nn import launches

    monkeypatch.setattr(launches, "_SAVED", 1.0)
    monkeypatch.setattr(launches, "_WORTH", 1.0)
    found = []
    monkeypatch.setattr(launches.Launches, "after_epoch", lambda self, *args, real=launches.Launches.after_epoch: (real(self, *args), found.append(self.steps)))
    net, history = trained(None, epochs=4)
    monkeypatch.undo()
    other, single = trained(1, epochs=4)
    same(net, other)
    assert found[0] > 1 and history == single


def test_later_fits_on_such_data_launch_what_the_first_one_traced(monkeypatch):
    from lamina.nn import launches

    monkeypatch.setattr(launches, "_SAVED", 1.0)
    monkeypatch.setattr(launches, "_WORTH", 1.0)
    made = []
    monkeypatch.setattr(launches.Launches, "__init__", lambda self, *args, real=launches.Launches.__init__: (real(self, *args), made.append(self))[0])
    nets, histories = [], []
    for steps in (None, 1):
        net, history = trained(steps, epochs=2)
        histories.append([history])
        for rows in (203, 203, 90):
            histories[-1].append(net.fit(*data(rows), batch_size=10, epochs=2, verbose=0, steps_per_launch=steps).history)
        nets.append(net)
    same(*nets)
    assert histories[0] == histories[1]
    first, second, third, fewer = made[:4]
    assert first.steps == second.steps > 1 and first._loop is second._loop is third._loop and second._loop.call.trace_count == 1
    assert fewer._loop is not first._loop
    net.optimizer.learning_rate = 0.0
    before = [v.numpy() for v in nets[0].trainable_variables]
    nets[0].optimizer.learning_rate = 0.0
    nets[0].fit(*data(), batch_size=10, verbose=0)
    for v, old in zip(nets[0].trainable_variables, before):
        np.testing.assert_array_equal(v.numpy(), old)
    nets[0].layers[0].trainable = False
    nets[0].optimizer.learning_rate = 0.01
    nets[0].fit(*data(), batch_size=10, verbose=0)
    np.testing.assert_array_equal(nets[0].trainable_variables[0].numpy() == before[2], False)
    np.testing.assert_array_equal(nets[0].layers[0].variables[0].numpy(), before[0])
    nets[0].compile("sgd", "mse")
    assert not nets[0]._loops


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "many"])
def test_what_is_no_number_of_steps_is_refused(wrong):
    whole = type(wrong) is int
    with pytest.raises(lm.errors.InvalidArgument if whole else lm.errors.TypeMismatch, match="steps_per_launch .* positive integer" if whole else "'steps_per_launch' is a"):
        trained(wrong)
