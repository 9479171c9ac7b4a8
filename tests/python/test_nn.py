"""Layers, models, initializers, losses, optimizers, metrics."""
import numpy as np
import pytest

import lamina as lm

nn = lm.nn


class Tower(nn.Model):
    def __init__(self, depth=3, **kw):
        super().__init__(**kw)
        self.flat = nn.Flatten(input_shape=(4, 4))
        self.stack = [nn.Dense(8, activation="relu", kernel_initializer="he_normal") for _ in range(depth)]
        self.named = {"drop": nn.Dropout(0.5), "head": (nn.Dense(3),)}

    def call(self, x):
        x = self.flat(x)
        for layer in self.stack:
            x = layer(x)
        return self.named["head"][0](self.named["drop"](x))


@pytest.mark.row("S1-36")
def test_a_model_finds_layers_in_lists_tuples_and_dicts():
    net = Tower()
    assert net.variables == [] and len(net.layers) == 6 and not net.built
    y = net(lm.ones((5, 4, 4)))
    assert y.shape == (5, 3) and net.built and len(net.trainable_variables) == 8 and net.count_params() == 16 * 8 + 8 + 2 * (64 + 8) + 24 + 3
    assert [v.shape for v in net.variables][:2] == [(16, 8), (8,)] and net.variables[0] is net.stack[0].kernel
    before = [v.numpy() for v in net.variables]
    net(lm.ones((2, 4, 4)))
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights()))


def test_counting_needs_weights():
    with pytest.raises(RuntimeError, match="do not exist yet"):
        Tower().count_params()


def test_dense_computes_and_checks():
    d = nn.Dense(2, kernel_initializer="ones", bias_initializer="ones")
    assert d(lm.constant([[1.0, 2.0, 3.0]])).tolist() == [[7, 7]] and d.kernel.shape == (3, 2) and "kernel" in d.kernel.name
    assert nn.Dense(2, use_bias=False)(lm.ones((1, 3))).shape == (1, 2) and nn.Dense(4)(lm.ones((2, 5, 3))).shape == (2, 5, 4)
    assert nn.Dense(2, activation=lambda x: x * 0)(lm.ones((1, 3))).tolist() == [[0, 0]]
    with pytest.raises(ValueError):
        d(lm.ones((1, 4)))
    with pytest.raises(TypeError):
        d(lm.ones((1, 3), dtype="int32"))
    assert d(lm.ones((1, 3), dtype="float64")).dtype == lm.float32
    for units in (0, -1):
        with pytest.raises(ValueError):
            nn.Dense(units)
    with pytest.raises(TypeError):
        nn.Dense("3")
    with pytest.raises(lm.errors.NotFound, match="relu"):
        nn.Dense(3, activation="rleu")
    with pytest.raises(lm.errors.NotFound, match="he_normal"):
        nn.Dense(3, kernel_initializer="he_norml")


def test_weights_can_be_read_and_set():
    a, b = Tower(), Tower()
    x = lm.random.uniform((2, 4, 4))
    a(x), b(x)
    b.set_weights(a.get_weights())
    assert np.array_equal(a(x).numpy(), b(x).numpy())
    bad = a.get_weights()
    bad[1] = np.zeros(3)
    before = b.get_weights()
    with pytest.raises(ValueError, match="shape"):
        b.set_weights(bad)
    with pytest.raises(ValueError, match="variables"):
        b.set_weights(bad[:2])
    assert all(np.array_equal(p, q) for p, q in zip(before, b.get_weights()))


def test_training_reaches_every_layer_inside():
    net, x = Tower(), lm.ones((64, 4, 4))
    assert np.array_equal(net(x).numpy(), net(x).numpy()) and not np.array_equal(net(x, training=True).numpy(), net(x, training=True).numpy())

    class Asks(nn.Layer):
        def call(self, x, training=None):
            self.seen = training
            return x

    class Outer(nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = Asks()

        def call(self, x):
            return self.inner(x)
    outer = Outer()
    for given, seen in ((None, False), (True, True), (False, False)):
        outer(lm.ones(1), training=given)
        assert outer.inner.seen is seen
    with pytest.raises(ZeroDivisionError):
        nn.Activation(lambda x: 1 / 0)(x, training=True)
    assert outer(lm.ones(1)).item() == 1 and outer.inner.seen is False


@pytest.mark.row("S1-38")
def test_dropout():
    d, x = nn.Dropout(0.25), lm.ones((100, 100))
    y = d(x, training=True).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)} and abs((y == 0).mean() - 0.25) < 0.02 and d(x).numpy().min() == 1
    for rate in (-0.1, 1.0, 2.0):
        with pytest.raises(ValueError, match="rate"):
            nn.Dropout(rate)


@pytest.mark.row("S1-37")
def test_own_layers_build_once_with_the_input_shape():
    class Scale(nn.Layer):
        builds = 0

        def build(self, shape):
            Scale.builds += 1
            self.w = self.add_weight((shape[-1],), "ones", name="w")
            self.steps = lm.Variable(0, trainable=False)

        def call(self, x):
            self.steps.assign_add(1)
            return x * self.w
    s = Scale(name="mine")
    f = lm.function(s)
    f(lm.ones((2, 5))), f(lm.ones((2, 5)))
    assert Scale.builds == 1 and s.steps.item() == 2 and s.w.name == "mine/w" and len(s.variables) == 2 and [v.shape for v in s.trainable_variables] == [(5,)]
    assert len(s.non_trainable_variables) == 1 and s.count_params() == 6


def test_freezing_a_layer():
    net = Tower()
    net(lm.ones((1, 4, 4)))
    net.stack[0].trainable = False
    assert len(net.trainable_variables) == 6 and len(net.non_trainable_variables) == 2


def test_a_shared_layer_counts_once():
    shared = nn.Dense(4)
    inp = nn.Input((4,))
    net = nn.Model(inp, shared(shared(shared(inp))))
    assert net.count_params() == 20 and len(net.trainable_variables) == 2
    x = lm.random.uniform((3, 4))
    np.testing.assert_allclose(net(x).numpy(), shared(shared(shared(x))).numpy(), rtol=1e-6)


def test_functional_models():
    a, b = nn.Input((4,)), nn.Input((4,))

    class Add(nn.Layer):
        def call(self, pair):
            return pair[0] + pair[1]
    h = nn.Dense(3)(a)
    net = nn.Model([a, b], [Add()([h, nn.Dense(3)(b)]), h])
    assert h.shape == (None, 3) and len(net.trainable_variables) == 4
    out = net([lm.ones((2, 4)), lm.ones((2, 4))])
    assert isinstance(out, list) and out[0].shape == out[1].shape == (2, 3)
    with pytest.raises(TypeError, match="no value"):
        bool(h)
    with pytest.raises(ValueError):
        net([lm.ones((2, 4))])
    with pytest.raises(TypeError):
        nn.Model(lm.ones(1), h)


def test_sequential():
    net = nn.Sequential([nn.Input((6,)), nn.Dense(5, activation="tanh"), nn.Dense(2)])
    assert len(net.trainable_variables) == 4 and net.count_params() == 47 and net(lm.ones((3, 6))).shape == (3, 2)
    late = nn.Sequential([nn.Flatten(), nn.Dense(2)])
    assert late.variables == [] and late(lm.ones((3, 2, 2))).shape == (3, 2) and late.count_params() == 10
    assert nn.Sequential([nn.Flatten(input_shape=(2, 2)), nn.Dense(2)]).count_params() == 10
    with pytest.raises(TypeError, match="not a layer"):
        nn.Sequential([3])


def test_a_missing_call_is_named():
    class Empty(nn.Model):
        pass
    with pytest.raises(NotImplementedError, match="Empty"):
        Empty()(lm.ones(1))


@pytest.mark.parametrize("name", ["glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "orthogonal", "looks_linear", "zeros", "ones"])
def test_initializers_repeat_with_a_seed(name):
    init = nn.initializers.get(name)
    a, b = init((64, 32)), init((64, 32))
    assert a.shape == (64, 32) and a.dtype == lm.float32 and (name in ("zeros", "ones")) == np.array_equal(a.numpy(), b.numpy())
    if name not in ("zeros", "ones"):
        made = getattr(nn.initializers, name)(seed=3)
        assert np.array_equal(made((8, 8)).numpy(), made((8, 8)).numpy())
    lm.random.set_seed(0)
    again = init((64, 32))
    lm.random.set_seed(0)
    assert np.array_equal(again.numpy(), init((64, 32)).numpy())


def test_initializer_scales():
    n = 256
    assert abs(nn.initializers.he_normal()((n, n)).numpy().std() / np.sqrt(2 / n) - 1) < 0.02
    assert abs(nn.initializers.glorot_uniform()((n, n)).numpy().max() / np.sqrt(6 / (2 * n)) - 1) < 0.01
    q = nn.initializers.orthogonal()((n, 64)).numpy()
    np.testing.assert_allclose(q.T @ q, np.eye(64), atol=1e-5)
    w = nn.initializers.looks_linear()((64, 64)).numpy()
    np.testing.assert_array_equal(w[:32, :32], -w[32:, :32])
    np.testing.assert_allclose(w[:32, :32].T @ w[:32, :32], np.eye(32), atol=1e-5)
    with pytest.raises(ValueError, match="equal halves"):
        nn.initializers.looks_linear()((63, 63))
    custom = nn.Dense(2, kernel_initializer=lambda shape: np.full(shape, 7.0), use_bias=False)
    assert custom(lm.ones((1, 3))).tolist() == [[21, 21]]


def test_a_looks_linear_stack_keeps_the_signal():
    net = nn.Sequential([nn.Dense(64, "relu", kernel_initializer=nn.initializers.looks_linear(mirror_in=i > 0)) for i in range(50)])
    x = lm.random.normal((10, 32))
    y = net(x).numpy()
    np.testing.assert_allclose((y ** 2).sum(1), (x.numpy() ** 2).sum(1), rtol=1e-3)


@pytest.mark.row("S1-59")
def test_losses():
    L, logits = lm.losses, np.array([[2.0, -1.0, 0.5], [0.0, 1.0, 0.0]], "float32")
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = -np.log(p[[0, 1], [2, 1]])
    for labels in ([2, 1], [2.9, 1.2], [[2], [1]], np.array([2, 1], "int64"), np.array([2, 1], "uint8")):
        np.testing.assert_allclose(L.SparseCrossEntropy(from_logits=True)(labels, logits).item(), want.mean(), rtol=1e-5)
    np.testing.assert_allclose(L.sparse_categorical_crossentropy([2, 1], p).numpy(), want, rtol=1e-5)
    onehot = np.eye(3, dtype="float32")[[2, 1]]
    np.testing.assert_allclose(L.CategoricalCrossEntropy(from_logits=True)(onehot, logits).item(), want.mean(), rtol=1e-5)
    np.testing.assert_allclose(L.categorical_crossentropy(onehot, p).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(L.mse(np.zeros((2, 3)), logits).numpy(), (logits ** 2).mean(1), rtol=1e-6)
    np.testing.assert_allclose(L.get("mae")(np.zeros((2, 3)), logits).item(), np.abs(logits).mean(), rtol=1e-6)
    np.testing.assert_allclose(L.BinaryCrossEntropy(from_logits=True)(np.ones((2, 1)), logits[:, :1]).item(), np.log1p(np.exp(-logits[:, 0])).mean(), rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, lm.function], ids=["eager", "traced"])
@pytest.mark.row("S1-59")
def test_a_label_out_of_range_is_refused(wrap):
    cost = wrap(lm.losses.SparseCrossEntropy(from_logits=True))
    for label in (7, 3, -1):
        with pytest.raises(lm.errors.IndexOutOfRange, match=str(label)) as e:
            cost(lm.constant([0, label]), lm.zeros((2, 3))).numpy()
        assert isinstance(e.value, (lm.errors.InvalidArgument)) and isinstance(e.value, IndexError) and isinstance(e.value, ValueError)
    assert abs(cost(lm.constant([0, 2]), lm.zeros((2, 3))).item() - np.log(3)) < 1e-6


def test_losses_check_shapes_and_names():
    with pytest.raises(ValueError):
        lm.losses.SparseCrossEntropy(from_logits=True)([0, 1, 2], np.zeros((2, 3), "float32"))
    with pytest.raises(ValueError):
        lm.losses.mse(np.zeros((2, 3)), np.zeros((2, 4), "float32"))
    with pytest.raises(lm.errors.NotFound, match="mse"):
        lm.losses.get("mze")
    with pytest.raises(TypeError):
        lm.losses.get(3)


def reference_sgd(w, g, state, lr=0.1, momentum=0.9, nesterov=False):
    s = state.setdefault("s", np.zeros_like(w))
    s[:] = momentum * s - lr * g
    return w + (momentum * s - lr * g if nesterov else s)


def reference_rmsprop(w, g, state, lr=0.01):
    s = state.setdefault("s", np.zeros_like(w))
    s[:] = 0.9 * s + 0.1 * g * g
    return w - lr * g / np.sqrt(s + 1e-7)


def reference_adam(w, g, state, lr=0.01, decay=0.0):
    m, s = state.setdefault("m", np.zeros_like(w)), state.setdefault("s", np.zeros_like(w))
    t = state["t"] = state.get("t", 0) + 1
    m[:] = 0.9 * m + 0.1 * g
    s[:] = 0.999 * s + 0.001 * g * g
    w = w - lr * decay * w
    return w - lr * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (np.sqrt(s) + 1e-7)


@pytest.mark.parametrize("make, reference", [
    (lambda: lm.optim.SGD(0.1), lambda w, g, s: w - 0.1 * g), (lambda: lm.optim.SGD(0.1, momentum=0.9), reference_sgd),
    (lambda: lm.optim.SGD(0.1, momentum=0.9, nesterov=True), lambda w, g, s: reference_sgd(w, g, s, nesterov=True)),
    (lambda: lm.optim.RMSprop(0.01), reference_rmsprop), (lambda: lm.optim.Adam(0.01), reference_adam),
    (lambda: lm.optim.AdamW(0.01, weight_decay=0.1), lambda w, g, s: reference_adam(w, g, s, decay=0.1)),
], ids=["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"])
@pytest.mark.parametrize("wrap", [lambda f: f, lm.function], ids=["eager", "traced"])
def test_optimizers_follow_their_formulas(make, reference, wrap):
    start = np.array([1.0, -2.0, 3.0])
    v, optimizer, state, w = lm.Variable(start), make(), {}, start.copy()
    step = wrap(lambda g: optimizer.apply_gradients([(g, v)]))
    for i in range(5):
        g = np.array([0.1 * i, 1.0, -0.5])
        step(lm.constant(g))
        w = reference(w, g, state)
        np.testing.assert_allclose(v.numpy(), w, rtol=1e-6)


def test_optimizers_refuse_what_they_cannot_do():
    v, other, sgd = lm.Variable(1.0), lm.Variable(1.0), lm.optim.SGD(0.1)
    sgd.apply_gradients(zip([lm.constant(1.0)], [v]))
    assert abs(v.item() - 0.9) < 1e-6
    with pytest.raises(ValueError, match="ptimizer"):
        sgd.apply_gradients([(lm.constant(1.0), other)])
    with pytest.raises(ValueError):
        lm.optim.SGD(0.1).apply_gradients([(None, v)])
    with pytest.raises(ValueError):
        sgd.apply_gradients([(lm.ones(3), v)])
    with pytest.raises(TypeError):
        sgd.apply_gradients([3])
    with pytest.raises(TypeError):
        sgd.apply_gradients([(lm.constant(1.0), lm.constant(1.0))])
    with pytest.raises(lm.errors.NotFound, match="adam"):
        lm.optim.get("adm")
    adam = lm.optim.Adam(0.1)
    adam.apply_gradients([(None, v), (lm.constant(1.0), other)])
    assert adam.iterations.item() == 1 and v.item() == pytest.approx(0.9)


def test_changing_the_learning_rate_traces_nothing():
    v, sgd = lm.Variable(0.0), lm.optim.SGD(1.0)
    step = lm.function(lambda: sgd.apply_gradients([(lm.constant(1.0), v)]))
    for rate in (1.0, 0.5, 0.25):
        sgd.learning_rate.assign(rate)
        step()
    assert v.item() == -1.75 and step.trace_count == 1


def test_metrics():
    p = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], "float32")
    assert lm.metrics.accuracy([1, 0, 0], p).item() == pytest.approx(2 / 3) and lm.metrics.accuracy([[1], [0], [1]], p).item() == 1
    assert lm.metrics.accuracy(np.eye(2, dtype="float32")[[1, 0, 0]], p).item() == pytest.approx(2 / 3)
    mean = lm.metrics.Mean()
    assert np.isnan(mean.result())
    mean.update(1.0, 1), mean.update(float("nan"), 0), mean.update(3.0, 3)
    assert mean.result() == 2.5
    with pytest.raises(lm.errors.NotFound, match="accuracy"):
        lm.metrics.get("acuracy")
    with pytest.raises(TypeError):
        lm.metrics.get(3)
