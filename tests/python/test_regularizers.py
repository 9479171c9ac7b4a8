"""Regularisers of layers: their values, and what training and evaluation add to the loss."""
import numpy as np
import pytest

import lamina as lm

nn, R = lm.nn, lm.nn.regularizers
X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
Y = np.random.default_rng(1).normal(size=(8, 2)).astype("float32")


@pytest.mark.parametrize("given, value", [
    ("l1", lambda w: 0.01 * np.abs(w).sum()), ("l2", lambda w: 0.01 * (w * w).sum()), (R.L1(0.3), lambda w: 0.3 * np.abs(w).sum()), (R.L2(0.3), lambda w: 0.3 * (w * w).sum()),
    (R.L1L2(0.1, 0.2), lambda w: 0.1 * np.abs(w).sum() + 0.2 * (w * w).sum()), (R.L1L2(), lambda w: 0.0), (R.L1, lambda w: 0.01 * np.abs(w).sum()),
    (lambda w: lm.sum(w) * 2, lambda w: 2 * w.sum()),
])
def test_values_are_those_of_the_formula(given, value):
    w = np.random.default_rng(3).normal(size=(4, 5))
    np.testing.assert_allclose(float(R.get(given)(lm.constant(w))), value(w), rtol=1e-12)


@pytest.mark.parametrize("make, shape", [
    (lambda **kw: nn.Dense(4, **kw), (2, 3)), (lambda **kw: nn.Conv2D(4, 2, **kw), (2, 5, 5, 3)), (lambda **kw: nn.Conv1D(4, 2, **kw), (2, 5, 3)),
    (lambda **kw: nn.Conv2DTranspose(4, 2, **kw), (2, 5, 5, 3)), (lambda **kw: nn.Conv1DTranspose(4, 2, **kw), (2, 5, 3)),
])
def test_layers_list_their_terms(make, shape):
    layer = make(kernel_regularizer="l1", bias_regularizer=R.L2(2.0))
    assert layer.losses == []  # no weights yet
    layer(np.ones(shape, "float32"))
    layer.bias.assign(np.full(layer.bias.shape, 0.5, "float32"))
    kernel, bias = layer.losses
    assert float(kernel) == pytest.approx(0.01 * np.abs(layer.kernel.numpy()).sum(), rel=1e-5) and float(bias) == pytest.approx(2 * 0.25 * 4)
    layer.trainable = False
    assert layer.losses == []


def model(**kw):
    lm.random.set_seed(4)
    shared = nn.Dense(3, "tanh", **kw)
    net = nn.Sequential([nn.Input((3,)), shared, nn.Sequential([shared]), nn.Dense(2)])
    return net


def test_training_and_evaluation_add_them_to_the_loss():
    plain, net = model(), model(kernel_regularizer=R.L2(0.3))
    for one in (plain, net):
        one.compile(lm.optim.SGD(0.1), "mse")
    kernel = net.layers[0].kernel.numpy()
    assert len(net.losses) == 1  # a shared layer counts once
    term = 0.3 * (kernel * kernel).sum()
    assert net.evaluate(X, Y) == pytest.approx(plain.evaluate(X, Y) + term, rel=1e-5)
    first, plain_first = net.train_on_batch(X, Y), plain.train_on_batch(X, Y)
    assert first == pytest.approx(plain_first + term, rel=1e-5)
    moved = plain.layers[0].kernel.numpy() - 0.1 * 2 * 0.3 * kernel
    np.testing.assert_allclose(net.layers[0].kernel.numpy(), moved, rtol=1e-4, atol=1e-6)
    assert net.fit(X, Y, epochs=30, verbose=0).history["loss"][-1] < first


def test_terms_of_half_types_are_computed_in_float32():
    net = nn.Sequential([nn.Input((3,)), nn.Dense(2, dtype="float16", kernel_regularizer=R.L2(1.0))])
    net.layers[0].kernel.assign(np.full((3, 2), 200, "float16"))
    assert float(net.losses[0]) == 240000.0  # above float16's largest number


def test_what_is_no_regularizer_is_refused(tmp_path):
    with pytest.raises(lm.errors.NotFound, match="there is no regularizer named 'l3'"):
        nn.Dense(2, kernel_regularizer="l3")
    with pytest.raises(lm.errors.TypeMismatch, match="is no regularizer"):
        nn.Dense(2, kernel_regularizer=0.1)
    with pytest.raises(lm.errors.InvalidArgument, match="L2: l2 -1"):
        R.L2(-1)
    for layer, text in ((nn.Dense(2, kernel_regularizer=lambda w: lm.sum(w)), "kernel_regularizer is a function: the file holds L1, L2 and L1L2"), (nn.RMSNorm(scale_regularizer="l2"), "Keras's RMSNormalization has no scale_regularizer")):
        with pytest.raises(lm.errors.Error, match=text):
            nn.save_file(nn.Sequential([nn.Input((3,)), layer]), tmp_path / "net.keras")


def test_keras_files_hold_regularizers(tmp_path):
    pytest.importorskip("h5py", reason="h5py is not installed: ./dev setup brings it")
    net = nn.Sequential([nn.Input((3,)), nn.Dense(2, kernel_regularizer=R.L1L2(0.3, 0.2), bias_regularizer="l1")])
    net.compile("sgd", "mse")
    nn.save_file(net, tmp_path / "net.keras")
    again = nn.load_file(tmp_path / "net.keras")
    assert len(again.losses) == 2 and again.evaluate(X, Y) == net.evaluate(X, Y) and again.train_on_batch(X, Y) == net.train_on_batch(X, Y)


@pytest.mark.parametrize("make, weights, shape", [
    *((make, ("kernel", "recurrent", "bias"), (2, 5, 3)) for make in (nn.SimpleRNN, nn.LSTM, nn.GRU)),
    *((make, ("gamma", "beta"), (2, 5, 4)) for make in (lambda _, **kw: nn.BatchNorm(**kw), lambda _, **kw: nn.LayerNorm(**kw), lambda _, **kw: nn.GroupNorm(2, **kw))),
    (lambda _, **kw: nn.RMSNorm(**kw), ("scale",), (2, 5, 4)), (lambda units, **kw: nn.Embedding(5, units, **kw), ("embeddings",), None),
])
def test_recurrent_and_normalising_layers_list_their_terms(make, weights, shape):
    layer = make(4, **{f"{weight}_regularizer": R.L2(0.5 + i) for i, weight in enumerate(weights)})
    layer(np.ones(shape, "float32") if shape else np.ones((2, 3), "int32"))
    assert len(layer.losses) == len(weights)
    for i, (weight, term) in enumerate(zip(weights, layer.losses)):
        value = getattr(layer, "recurrent_kernel" if weight == "recurrent" else weight).numpy()
        assert float(term) == pytest.approx((0.5 + i) * (value * value).sum(), rel=1e-5)
    if "recurrent" in weights:
        assert len(nn.Bidirectional(layer).losses) == 3  # its twin has no weights yet
