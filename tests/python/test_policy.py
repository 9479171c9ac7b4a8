"""lm.nn.set_policy: layers compute in a half type, weights and losses stay float32."""
import copy
import pickle
import warnings

import numpy as np
import pytest

import lamina as lm

nn = lm.nn
HALF = {"mixed_float16": lm.float16, "mixed_bfloat16": lm.bfloat16}


def data():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(256, 8)).astype("float32")
    return x, np.sin(x[:, :1]) + 0.5 * x[:, 1:2]


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("make, shape", [
    (lambda: nn.Dense(4, "relu"), (2, 3)), (lambda: nn.Conv1D(4, 3), (2, 8, 3)), (lambda: nn.Conv2D(4, 3), (2, 8, 8, 3)), (lambda: nn.Conv2DTranspose(4, 3), (2, 8, 8, 3)),
    (lambda: nn.DepthwiseConv2D(3), (2, 8, 8, 3)), (lambda: nn.LSTM(4, return_sequences=True), (2, 5, 3)), (lambda: nn.GRU(4), (2, 5, 3)), (lambda: nn.SimpleRNN(4), (2, 5, 3)),
    (lambda: nn.LayerNorm(), (2, 3)), (lambda: nn.BatchNorm(), (4, 3)), (lambda: nn.MaxPool2D(), (2, 4, 4, 3)), (lambda: nn.Activation("tanh"), (2, 3)),
])
def test_layers_have_float32_weights_and_give_the_half_type(name, make, shape):
    x = np.random.default_rng(1).normal(size=shape).astype("float32")
    lm.random.set_seed(0)
    plain = make()
    wanted = plain(x, training=True).numpy()
    with nn.set_policy(name):
        lm.random.set_seed(0)
        layer = make()
    assert nn.policy() == "float32"
    y = layer(x, training=True)
    assert y.dtype == HALF[name] and {v.dtype for v in layer.variables} <= {lm.float32}
    np.testing.assert_allclose(lm.astype(y, "float32").numpy(), wanted, atol=0.1 if name == "mixed_bfloat16" else 0.02)
    with lm.GradientTape() as tape:
        cost = lm.sum(lm.square(lm.astype(layer(x, training=True), "float32")))
    for gradient in tape.gradient(cost, layer.trainable_variables):
        assert gradient.dtype == lm.float32 and np.isfinite(gradient.numpy()).all()


def test_products_are_rounded_to_the_half_type():
    with nn.set_policy("mixed_bfloat16"):
        layer = nn.Dense(1, use_bias=False, kernel_initializer="ones")
    assert float(layer(np.float32([[1.001]]))[0, 0]) == 1.0  # no float32 product would lose the thousandth


def test_a_residual_block_with_attention_and_a_norm_needs_no_casts():
    class Block(nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(), nn.MultiHeadAttention(2, 4)

        def call(self, x):
            h = self.norm(x)
            return x + self.attention(h, h, use_causal_mask=True)

    with nn.set_policy("mixed_float16"):
        net = nn.Sequential([nn.Embedding(10, 8), Block(), nn.Dense(10)])
    assert net(np.arange(6, dtype="int32").reshape(2, 3)).dtype == lm.float16


def test_a_layer_of_ones_own_computes_in_its_weights_dtype_and_gives_the_half_type():
    seen = []

    class Scale(nn.Layer):
        def build(self, shape):
            self.by = self.add_weight((shape[-1],), "ones")

        def call(self, x):
            seen.append(x.dtype)
            return x * self.by

    with nn.set_policy("mixed_bfloat16"):
        assert Scale()(lm.ones((2, 3))).dtype == lm.bfloat16
    assert seen == [lm.float32]


@pytest.mark.parametrize("name", HALF)
def test_fit_learns_with_float32_losses_and_predictions(name):
    x, y = data()
    with nn.set_policy(name):
        lm.random.set_seed(0)
        net = nn.Sequential([nn.Dense(32, "tanh"), nn.LayerNorm(), nn.Dense(1)])
    net.compile("adam", "mse", metrics=["mae"])
    assert net.optimizer._switches["dynamic_loss_scale"] == (name == "mixed_float16")
    net.optimizer.learning_rate = 0.01
    history = net.fit(x, y, epochs=30, verbose=0).history
    assert history["loss"][-1] < 0.1 * history["loss"][0]
    assert net.predict(x).dtype == np.float32 and {v.dtype for v in net.variables} == {lm.float32}
    assert net.evaluate(x, y)[0] < 0.2


def test_small_gradients_survive_by_the_loss_scale():
    """Gradients near 1e-8 are 0 in float16; the scale brings them back."""
    with nn.set_policy("mixed_float16"):
        net = nn.Sequential([nn.Input((1,)), nn.Dense(1, use_bias=False, kernel_initializer="zeros")])
    net.compile(lm.optim.SGD(1.0, dynamic_loss_scale=True), lambda y, p: lm.mean(p) * 1e-8)
    net.fit(np.ones((32, 1), "float32"), np.zeros((32, 1), "float32"), epochs=1000, verbose=0)
    assert float(net.layers[-1].kernel[0, 0]) == pytest.approx(-1e-5, rel=0.02)


def test_an_optimizer_without_a_scale_is_warned_of():
    with nn.set_policy("mixed_float16"):
        net = nn.Sequential([nn.Dense(1)])
    with pytest.warns(UserWarning, match="dynamic_loss_scale=True"):
        net.compile(lm.optim.Adam(), "mse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.compile(lm.optim.Adam(dynamic_loss_scale=True), "mse")


def test_copies_and_pickles_keep_their_policy():
    with nn.set_policy("mixed_bfloat16"):
        net = nn.Sequential([nn.Input((2,)), nn.Dense(3)])
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(np.ones((1, 2), "float32")).dtype == lm.bfloat16
    plain = pickle.dumps(nn.Sequential([nn.Input((2,)), nn.Dense(3)]))
    with nn.set_policy("mixed_bfloat16"):
        assert pickle.loads(plain)(np.ones((1, 2), "float32")).dtype == lm.float32


def test_other_dtypes_and_unknown_names():
    with nn.set_policy("mixed_float16"):
        assert nn.Dense(2, dtype="float64")(np.ones((1, 2))).dtype == lm.float64
    with pytest.raises(lm.errors.NotFound, match="mixed_bfloat16"):
        nn.set_policy("mixed_float8")
    assert nn.policy() == "float32"
