"""Data for compiled models are weak in kind, as arrays are: float64 numbers of NumPy fit models of any floating dtype, whatever the model does with them."""
import numpy as np
import pytest

import lamina as lm

nn = lm.nn
X = np.random.default_rng(0).integers(-8, 9, (8, 4)) / 8  # numbers that float16 holds too
Y = X[:, :2] / 2


class Residual(nn.Model):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4)
        self.head = nn.Dense(2)

    def call(self, x):
        return self.head(x + self.dense(x) * lm.ones(4))


class Pairs(nn.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(2), nn.Dense(2)

    def call(self, inputs):
        x, z = inputs["x"], inputs["z"]
        return self.a(x) * z[:, :2] + self.b(z) * x[:, :2]


def joined():
    a = nn.Input((4,))
    return nn.Model(a, nn.Dense(2)(nn.Concatenate()([a, nn.Dense(3)(a)])))


def by_ops():
    a, b = nn.Input((4,)), nn.Input((4,))
    return nn.Model({"x": a, "z": b}, nn.Dense(2)(a + nn.Dense(4)(b)) - b[:, :2])


def with_lambda():
    return nn.Sequential([nn.Input((4,)), nn.Lambda(lambda x: x * lm.ones(4)), nn.Dense(2)])


def error(y_true, y_pred):
    return lm.mean(lm.square(y_true - y_pred), axis=-1)


def worst(y_true, y_pred):
    return lm.max(lm.abs(y_true - y_pred))


MODELS = {"own": (Residual, X), "joined": (joined, X), "lambda": (with_lambda, X), "own of two": (Pairs, {"x": X, "z": X[::-1]}), "ops of two": (by_ops, {"x": X, "z": X[::-1]})}
CARRIERS = {"array": lambda x, y: (x, y), "tensor": lambda x, y: (lm.tree.map(lm.constant, x), lm.constant(y)), "Dataset": lambda x, y: (lm.data.Dataset.from_tensor_slices((x, y)).batch(4), None)}


def trained(make, x, y, carrier, eager=False):
    """All that a compiled model computes of data."""
    lm.random.set_seed(0)
    net = make()
    net.compile(lm.optim.SGD(0.1), error, metrics=[worst, "mse"], run_eagerly=eager)
    data, labels = CARRIERS[carrier](x, y)
    history = net.fit(data, labels, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    return [history, net.evaluate(data, labels, batch_size=4), net.predict(data, batch_size=4).tolist(), net.train_on_batch(x, y), net.test_on_batch(x, y), net.predict_on_batch(x).tolist()]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_data_of_any_floating_dtype_give_the_bits_of_float32(model, carrier, dtype):
    make, x = MODELS[model]
    of = lambda dtype: (lm.tree.map(lambda part: part.astype(dtype), x), Y.astype(dtype))
    assert trained(make, *of(dtype), carrier) == trained(make, *of("float32"), carrier)


@pytest.mark.parametrize("model", MODELS)
def test_eager_steps_compute_the_same(model):
    make, x = MODELS[model]
    for eager, traced in zip(map(np.hstack, map(leaves, trained(make, x, Y, "array", eager=True))), map(np.hstack, map(leaves, trained(make, x, Y, "array")))):
        np.testing.assert_allclose(eager, traced, rtol=1e-4, atol=1e-6)


def leaves(value):
    return [np.ravel(part) for part in (value.values() if isinstance(value, dict) else [value])]


def test_float64_models_compute_float64_data_in_float64():
    class Wide(nn.Model):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(4, dtype="float64")

        def call(self, x):
            return x + self.dense(x)

    net, x = Wide(), X + 1e-12
    net.compile("adam", error)
    np.testing.assert_array_equal(net.predict(x), net(lm.constant(x)).numpy())
    assert net.predict(x).dtype == np.float64 and net.fit(x, x, verbose=0).history["loss"][0] < 100


def test_members_of_an_ensemble_take_them_too():
    def history(dtype):
        nets = nn.Ensemble(Residual, 3, loss=error, input_shape=(4,))
        x, y = X.astype(dtype), Y.astype(dtype)
        return [nets.fit(x, y, epochs=2, batch_size=4, shuffle=False)["loss"].tolist(), nets.evaluate(x, y).tolist(), nets.predict(x).tolist()]

    assert history("float64") == history("float32")


@pytest.mark.parametrize("make", [joined, with_lambda], ids=["Model", "Sequential"])
def test_an_input_converts_what_a_call_gives_it_unless_autocast_is_off(make):
    net = make()
    wanted = net(X.astype("float32")).numpy()
    for given in (X, lm.constant(X), lm.Variable(X), X.astype("float16"), lm.constant(X.astype("float16")), X.tolist()):
        np.testing.assert_array_equal(net(given), wanted)
    net.autocast = False
    with pytest.raises(lm.errors.TypeMismatch, match="f64"):
        net(lm.constant(X))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("merge", [nn.Add, nn.Subtract, nn.Multiply, nn.Average, nn.Maximum, nn.Minimum, nn.Concatenate])
def test_merging_layers_of_a_half_policy_convert_each_of_their_inputs(policy, merge):
    with nn.set_policy(policy):
        a = nn.Input((4,))
        net = nn.Model(a, merge()([a, nn.Dense(4, kernel_initializer="ones")(a)]))
    half = policy.removeprefix("mixed_")
    x = lm.constant(X.astype("float32"))
    assert net(x).dtype == lm.dtype(half)
    wide = merge()([x, lm.constant(np.repeat(X.sum(1, keepdims=True), 4, 1).astype("float32"))])
    np.testing.assert_allclose(lm.astype(net(x), "float32"), wide, atol=0.05)
