"""lm.nn.Ensemble: each member has the bits of a model trained alone, also when it stops early."""
import numpy as np
import pytest

import lamina as lm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 3)).astype("float32")
Y = np.tanh(X.sum(1, keepdims=True)).astype("float32") + RNG.normal(size=(48, 1)).astype("float32") * 0.3
XV, YV = RNG.normal(size=(16, 3)).astype("float32"), RNG.normal(size=(16, 1)).astype("float32") * 0.5
RATES = [0.003, 0.03, 0.3]


def make():
    return lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dense(1)])


def alone(seed, optimizer, **fit):
    lm.random.set_seed(seed)
    net = make()
    net.build((None, 3))
    net.compile(optimizer, "mse")
    return net, net.fit(X, Y, batch_size=16, shuffle=False, verbose=0, **fit).history


@pytest.mark.parametrize("optimizer", [lm.optim.Adam, lm.optim.SGD])
def test_members_are_models_trained_alone(optimizer):
    nets = lm.nn.Ensemble(make, 3, learning_rate=RATES, optimizer=optimizer, input_shape=(3,))
    history = nets.fit(X, Y, batch_size=16, epochs=6, shuffle=False)
    assert history["loss"].shape == (6, 3) and list(history["epochs"]) == [6, 6, 6] and nets._train.trace_count == 1
    for k, rate in enumerate(RATES):
        net, own = alone(k, optimizer(rate), epochs=6)
        for a, b in zip(nets[k].get_weights(), net.get_weights()):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(history["loss"][:, k], own["loss"], rtol=1e-6)
        np.testing.assert_array_equal(nets.predict(XV, members=True)[k], net.predict(XV, batch_size=16))
    np.testing.assert_allclose(nets.predict(XV), nets.predict(XV, members=True).mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nets.evaluate(XV, YV), np.square(nets.predict(XV, members=True) - YV).mean((1, 2)), rtol=1e-5)


def test_members_stop_early_each_at_its_own_epoch():
    nets = lm.nn.Ensemble(make, 3, learning_rate=RATES, input_shape=(3,))
    history = nets.fit(X, Y, batch_size=16, epochs=30, shuffle=False, validation_data=(XV, YV), patience=3)
    assert len(set(history["epochs"])) > 1
    for k, rate in enumerate(RATES):
        stop = lm.nn.EarlyStopping(patience=3, restore_best_weights=True)
        net, own = alone(k, lm.optim.Adam(rate), epochs=30, validation_data=(XV, YV), callbacks=[stop])
        assert history["epochs"][k] == np.argmin(own["val_loss"]) + 1
        for a, b in zip(nets[k].get_weights(), net.get_weights()):
            np.testing.assert_array_equal(a, b)


def test_what_makes_no_ensemble_is_refused():
    with pytest.raises(lm.errors.InvalidArgument, match="2 learning rates for 3 members"):
        lm.nn.Ensemble(make, 3, learning_rate=[0.1, 0.2], input_shape=(3,))
    nets = lm.nn.Ensemble(make, 2, input_shape=(3,))
    with pytest.raises(lm.errors.InvalidArgument, match="patience without validation_data"):
        nets.fit(X, Y, patience=2)
    with pytest.raises(lm.errors.InvalidArgument, match="patience 0"):
        nets.fit(X, Y, patience=0)


def test_validation_data_may_be_a_list():
    x = np.random.default_rng(2).normal(size=(20, 3)).astype("float32")
    made = lambda: lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(1)]), 2, input_shape=(3,))  # noqa: E731
    listed, paired = (made().fit(x, x[:, :1], epochs=2, shuffle=False, validation_data=data) for data in ([x, x[:, :1]], (x, x[:, :1])))
    assert (listed["val_loss"] == paired["val_loss"]).all()
    with pytest.raises(ValueError, match="validation_data has weights"):
        made().fit(x, x[:, :1], validation_data=(x, x[:, :1], np.ones(20)))
