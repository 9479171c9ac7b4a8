"""Recurrent, attention, normalisation, image and merging layers, beside float64 NumPy written from their definitions."""
import copy
import inspect
import pickle

import numpy as np
import pytest

import lamina as lm

nn = lm.nn
R = np.random.default_rng(7)


def normal(*shape):
    return R.standard_normal(shape)


def given_weights(layer, *inputs, **kwargs):
    """The layer's outputs on float32 inputs, and its weights in float64 by name; the weights are drawn at random."""
    arguments = [lm.constant(np.asarray(x, "float32")) for x in inputs]
    layer(*arguments, **kwargs)
    layer.set_weights([normal(*v.shape).astype("float32") * 0.5 for v in layer.variables])
    return layer(*arguments, **kwargs)


def weight(layer, name):
    value = getattr(layer, name)
    return None if value is None else value.numpy().astype("float64")


def close(got, want, tolerance=2e-5):
    got = got.numpy() if hasattr(got, "numpy") else got
    return got.shape == np.shape(want) and np.allclose(got, want, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# --- recurrent ---


def step_of(layer):
    """(states, x_t) -> states, written as the docstrings say."""
    W, U, b, u = weight(layer, "kernel"), weight(layer, "recurrent_kernel"), weight(layer, "bias"), layer.units

    def part(z, i):
        return z[:, i * u:(i + 1) * u]

    def simple(s, x):
        return (np.tanh(x @ W + s[0] @ U + (0 if b is None else b)),)

    def lstm(s, x):
        z = x @ W + s[0] @ U + (0 if b is None else b)
        i, f, g, o = sigmoid(part(z, 0)), sigmoid(part(z, 1)), np.tanh(part(z, 2)), sigmoid(part(z, 3))
        c = s[1] * f + i * g
        return o * np.tanh(c), c

    def gru(s, x):
        h, after = s[0], layer.get_config()["reset_after"]
        zx = x @ W + (0 if b is None else b[0] if after else b)
        if after:
            zh = h @ U + (0 if b is None else b[1])
            z, r = sigmoid(part(zx, 0) + part(zh, 0)), sigmoid(part(zx, 1) + part(zh, 1))
            n = np.tanh(part(zx, 2) + r * part(zh, 2))
        else:
            z, r = sigmoid(part(zx, 0) + h @ part(U, 0)), sigmoid(part(zx, 1) + h @ part(U, 1))
            n = np.tanh(part(zx, 2) + (r * h) @ part(U, 2))
        return (z * h + (1 - z) * n,)

    return {"SimpleRNN": simple, "LSTM": lstm, "GRU": gru}[type(layer).__name__]


def unrolled(layer, x, mask=None, states=None, backwards=False):
    """(outputs in the order of x, final states)"""
    step, n = step_of(layer), len(x)
    states = tuple(states) if states is not None else (np.zeros((n, layer.units)),) * layer._states
    out = np.zeros((n, x.shape[1], layer.units))
    for t in range(x.shape[1])[::-1 if backwards else 1]:
        new = step(states, x[:, t])
        if mask is not None:
            new = tuple(np.where(mask[:, t, None], a, b) for a, b in zip(new, states))
        states, out[:, t] = new, new[0]
    return out, states


KINDS = [(nn.SimpleRNN, {}), (nn.LSTM, {}), (nn.GRU, {}), (nn.GRU, {"reset_after": False}), (nn.LSTM, {"use_bias": False}), (nn.GRU, {"use_bias": False})]
IDS = ["simple", "lstm", "gru", "gru before", "lstm no bias", "gru no bias"]


@pytest.mark.parametrize("cls, options", KINDS, ids=IDS)
@pytest.mark.parametrize("traced", [False, True])
def test_recurrent_layers_follow_their_definitions(cls, options, traced):
    x = normal(3, 6, 4)
    for backwards in (False, True):
        layer = cls(5, return_sequences=True, return_state=True, go_backwards=backwards, **options)
        y, *states = given_weights(layer, x)
        call = lm.function(layer) if traced else layer
        y, *states = call(lm.constant(x.astype("float32")))
        want, finals = unrolled(layer, x, backwards=backwards)
        assert close(y, want[:, ::-1] if backwards else want) and len(states) == layer._states and all(map(close, states, finals))
        last = cls(5, go_backwards=backwards, **options)
        last(lm.constant(x.astype("float32")))
        last.set_weights(layer.get_weights())
        assert close(last(lm.constant(x.astype("float32"))), finals[0])


@pytest.mark.parametrize("cls, options", KINDS[:4], ids=IDS[:4])
def test_masks_and_initial_states(cls, options):
    x, mask = normal(3, 5, 2), R.random((3, 5)) > 0.4
    layer = cls(4, return_sequences=True, return_state=True, **options)
    first = [normal(3, 4).astype("float32") for _ in range(layer._states)]
    y, *states = given_weights(layer, x, mask=lm.constant(mask), initial_state=first)
    want, finals = unrolled(layer, x, mask, first)
    assert close(y, want) and all(map(close, states, finals))
    assert close(layer(x.astype("float32"), mask=np.zeros((3, 5), bool), initial_state=first)[0], np.repeat(first[0][:, None], 5, 1))
    with pytest.raises(ValueError, match="mask"):
        layer(x.astype("float32"), mask=np.ones((3, 5), "float32"))
    with pytest.raises(ValueError, match="initial state"):
        layer(x.astype("float32"), initial_state=[*first, first[0]])
    with pytest.raises(ValueError, match="initial state"):
        layer(x.astype("float32"), initial_state=[f[:, :3] for f in first])


@pytest.mark.parametrize("mode", ["concat", "sum", "mul", "ave", None])
@pytest.mark.parametrize("sequences", [False, True])
def test_bidirectional(mode, sequences):
    x, mask = normal(2, 4, 3), np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)
    layer = nn.Bidirectional(nn.LSTM(3, return_sequences=sequences, return_state=True), mode)
    y = given_weights(layer, x, mask=lm.constant(mask))
    (a, fa), (b, fb) = unrolled(layer.forward_layer, x, mask), unrolled(layer.backward_layer, x, mask, backwards=True)
    a, b = (a * mask[..., None], b * mask[..., None]) if sequences else (fa[0], fb[0])
    want = {"concat": lambda: [np.concatenate([a, b], -1)], "sum": lambda: [a + b], "mul": lambda: [a * b], "ave": lambda: [(a + b) / 2], None: lambda: [a, b]}[mode]()
    assert len(y) == len(want) + 4 and all(map(close, y, [*want, *fa, *fb]))


def test_recurrent_layers_train_stacked_in_one_scan_each():
    x = np.cumsum(normal(64, 9, 2), 1).astype("float32")
    net = nn.Sequential([nn.Input((None, 2)), nn.Bidirectional(nn.GRU(6, return_sequences=True)), nn.LSTM(8), nn.Dense(1)])
    net.compile(lm.optim.Adam(0.02), "mse")
    losses = net.fit(x, x[:, -1, :1] - x[:, 0, 1:], epochs=12, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0]
    assert lm.inspect(lm.function(net), lm.constant(x)).optimized.count("scan") == 3
    assert len({v.name for v in net.variables}) == len(net.variables)


@pytest.mark.parametrize("cls, options", KINDS[:4], ids=IDS[:4])
def test_gradients_through_time(cls, options):
    x = normal(2, 4, 3)
    layer = cls(3, dtype="float64", return_sequences=True, **options)
    net = lambda *w: _called_with(layer, w, x)  # noqa: E731
    layer(lm.constant(x))
    w = [normal(*v.shape) * 0.5 for v in layer.variables]
    layer.set_weights(w)

    @lm.function
    def slopes():
        with lm.GradientTape() as tape:
            loss = lm.sum(lm.square(layer(lm.constant(x))))
        return tape.gradient(loss, layer.trainable_variables)

    for k, slope in enumerate(slopes()):
        for _ in range(3):
            at = tuple(R.integers(0, n) for n in w[k].shape)
            up, down = ([v.copy() for v in w] for _ in range(2))
            up[k][at] += 1e-5
            down[k][at] -= 1e-5
            assert np.isclose(slope.numpy()[at], (net(*up) - net(*down)) / 2e-5, rtol=1e-5, atol=1e-7)


def _called_with(layer, weights, x):
    layer.set_weights(weights)
    return float(lm.sum(lm.square(layer(lm.constant(x)))))


def test_a_forget_gate_begins_open():
    layer = nn.LSTM(3)
    layer(lm.ones((1, 2, 2)))
    assert layer.bias.tolist() == [0] * 3 + [1] * 3 + [0] * 6
    closed = nn.LSTM(3, unit_forget_bias=False)
    closed(lm.ones((1, 2, 2)))
    assert closed.bias.tolist() == [0] * 12


# --- attention ---


def attended(layer, q, v, k, mask=None):
    H, K = layer.num_heads, layer.key_dim
    project = lambda x, n: np.einsum("nld,dhk->nhlk", x, weight(layer, f"{n}_kernel")) + (0 if getattr(layer, f"{n}_bias") is None else weight(layer, f"{n}_bias")[None, :, None])  # noqa: E731
    scores = project(q, "query") @ project(k, "key").swapaxes(2, 3) / np.sqrt(K)
    if mask is not None:
        scores = np.where(mask if mask.ndim == 4 else mask[:, None] if mask.ndim == 3 else mask, scores, -1e30)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    assert p.shape[1] == H
    y = np.einsum("nhqv,hvd->nqd", p @ project(v, "value"), weight(layer, "output_kernel"))
    return y + (0 if layer.output_bias is None else weight(layer, "output_bias")), p


@pytest.mark.parametrize("options", [{}, {"use_bias": False}, {"value_dim": 5, "output_size": 7}], ids=["plain", "no bias", "sizes"])
def test_attention_follows_its_definition(options):
    q, v, k = normal(2, 4, 6), normal(2, 5, 3), normal(2, 5, 8)
    layer = nn.MultiHeadAttention(3, 2, **options)
    y, p = given_weights(layer, q, v, k, return_attention_scores=True)
    want = attended(layer, q, v, k)
    assert close(y, want[0]) and close(p, want[1]) and y.shape == (2, 4, options.get("output_size", 6))
    for mask in (R.random((2, 4, 5)) > 0.5, R.random((2, 3, 4, 5)) > 0.5, np.tril(np.ones((4, 5), bool))):
        mask[..., 0] = True
        args = [lm.constant(a.astype("float32")) for a in (q, v, k)]
        assert close(layer(*args, attention_mask=mask), attended(layer, q, v, k, mask)[0])


def test_causal_attention_sees_no_later_step():
    x = normal(2, 6, 4)
    layer = nn.MultiHeadAttention(2, 3)
    y = given_weights(layer, x, x, use_causal_mask=True)
    assert close(y, attended(layer, x, x, x, np.tril(np.ones((6, 6), bool)))[0])
    fn = lm.function(lambda t: layer(t, t, use_causal_mask=True), input_signature=[lm.TensorSpec([None, None, 4])])
    for length in (6, 2):
        assert close(fn(lm.constant(x[:, :length].astype("float32"))), y.numpy()[:, :length])
    assert fn.trace_count == 1


def test_attention_drops_weights_in_training_only_and_refuses_what_does_not_fit():
    x = normal(2, 6, 4).astype("float32")
    layer = nn.MultiHeadAttention(2, 3, dropout=0.5)
    assert close(layer(x, x), layer(x, x)) and not close(layer(x, x, training=True), layer(x, x))
    with pytest.raises(ValueError, match="query"):
        layer(x[..., :3], x)
    with pytest.raises(ValueError, match="mask"):
        layer(x, x, attention_mask=np.ones((6, 6), "float32"))
    for bad in (lambda: nn.MultiHeadAttention(0, 3), lambda: nn.MultiHeadAttention(2, 3, dropout=1.0), lambda: nn.MultiHeadAttention(2, 3)(x[0], x[0]), lambda: nn.MultiHeadAttention(2, 3)(lm.ones((4, 5, 8)), lm.ones((1, 6, 8)))):
        with pytest.raises(ValueError):
            bad()


# --- normalisation ---


def test_rms_and_group_norm():
    x = normal(2, 3, 5, 6)
    layer = nn.RMSNorm(1e-4)
    assert close(given_weights(layer, x), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-4) * weight(layer, "scale"))
    for groups in (1, 2, 3, 6, -1):
        layer = nn.GroupNorm(groups, epsilon=1e-2)
        y = given_weights(layer, x)
        parts = x.reshape(2, 15, 6 if groups == -1 else groups, -1)
        m, v = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        want = ((parts - m) / np.sqrt(v + 1e-2)).reshape(x.shape)
        assert close(y, want * weight(layer, "gamma") + weight(layer, "beta"))
    assert close(nn.GroupNorm(2, center=False, scale=False)(x[:, 0, 0].astype("float32")).numpy().reshape(2, 2, 3).mean(-1), np.zeros((2, 2)))
    for bad in (lambda: nn.GroupNorm(4)(x.astype("float32")), lambda: nn.GroupNorm(0), lambda: nn.RMSNorm(0.0)):
        with pytest.raises(ValueError):
            bad()
    half = nn.RMSNorm(dtype="float16")(lm.constant(x * 300, dtype="float16"))
    assert half.dtype == lm.float16 and np.isfinite(half.numpy()).all()


# --- images and sequences ---


def windows(x, size, stride):
    return np.stack([x[:, i * stride:i * stride + size] for i in range((x.shape[1] - size) // stride + 1)], 1)


def test_transposed_convolution_of_sequences():
    x = normal(2, 5, 3)
    for stride, size in ((1, 3), (2, 3), (3, 2)):
        layer = nn.Conv1DTranspose(4, size, stride)
        y = given_weights(layer, x)
        want = np.zeros((2, y.shape[1], 4))
        for i in range(5):
            for k in range(size):
                want[:, i * stride + k] += x[:, i] @ weight(layer, "kernel")[k].T
        assert close(y, want + weight(layer, "bias")) and y.shape[1] == max(4 * stride + size, 5 * stride)
        assert nn.Conv1DTranspose(4, size, stride, "same")(x.astype("float32")).shape == (2, 5 * stride, 4)
    with pytest.raises(ValueError):
        layer(x[0].astype("float32"))


def test_depthwise_convolution():
    x = normal(2, 6, 5, 3)
    layer = nn.DepthwiseConv2D((3, 2), depth_multiplier=2, activation="relu")
    y = given_weights(layer, x)
    K, want = weight(layer, "kernel"), np.zeros((2, 4, 4, 3, 2))
    for i in range(3):
        for j in range(2):
            want += x[:, i:i + 4, j:j + 4, :, None] * K[i, j]
    assert close(y, np.maximum(want.reshape(2, 4, 4, 6) + weight(layer, "bias"), 0)) and layer.kernel.shape == (3, 2, 3, 2)
    assert nn.DepthwiseConv2D(3, 2, "same")(x.astype("float32")).shape == (2, 3, 3, 3)
    with pytest.raises(ValueError):
        nn.DepthwiseConv2D(3, depth_multiplier=0)


def test_pools_paddings_and_reshapes():
    x = normal(2, 7, 3)
    t = lm.constant(x.astype("float32"))
    assert close(nn.MaxPool1D(3, 2)(t), windows(x, 3, 2).max(2)) and close(nn.AveragePooling1D(2)(t), windows(x, 2, 2).mean(2)) and nn.MaxPool1D(2, padding="same")(t).shape == (2, 4, 3)
    assert close(nn.GlobalAveragePooling1D()(t), x.mean(1)) and close(nn.GlobalMaxPool1D(keepdims=True)(t), x.max(1, keepdims=True))
    image = normal(2, 3, 4, 2)
    i = lm.constant(image.astype("float32"))
    assert close(nn.UpSampling2D((2, 3))(i), image.repeat(2, 1).repeat(3, 2)) and close(nn.ZeroPadding2D(((1, 2), (0, 3)))(i), np.pad(image, ((0, 0), (1, 2), (0, 3), (0, 0))))
    assert nn.ZeroPadding2D(1)(i).shape == (2, 5, 6, 2) and nn.ZeroPadding2D((1, 2))(i).shape == (2, 5, 8, 2)
    assert close(nn.Reshape((4, -1))(i), image.reshape(2, 4, 6)) and nn.Reshape(24)(i).shape == (2, 24)
    net = nn.Sequential([nn.Input((3, 4, 2)), nn.Reshape((2, 12)), nn.Lambda(lambda v: v * 2)])
    assert close(net(i), image.reshape(2, 2, 12) * 2)
    for bad in (lambda: nn.Reshape((5, -1))(i), lambda: nn.Reshape((-1, -1))(i), lambda: nn.Reshape((23,))(i), lambda: nn.Reshape((-2, 3))(i), lambda: nn.UpSampling2D(0), lambda: nn.UpSampling2D()(t),
                lambda: nn.ZeroPadding2D(-1), lambda: nn.MaxPool1D(0), lambda: nn.MaxPool1D()(i), lambda: nn.Lambda(3), lambda: nn.ZeroPadding2D("same")):
        with pytest.raises((ValueError, TypeError)) as e:
            bad()
        assert isinstance(e.value, lm.errors.Error)


def test_merging_layers():
    a, b, c = (normal(2, 3) for _ in range(3))
    t = [lm.constant(v.astype("float32")) for v in (a, b, c)]
    for layer, want in ((nn.Add(), a + b + c), (nn.Multiply(), a * b * c), (nn.Average(), (a + b + c) / 3), (nn.Maximum(), np.maximum(np.maximum(a, b), c)),
                        (nn.Minimum(), np.minimum(np.minimum(a, b), c)), (nn.Concatenate(), np.concatenate([a, b, c], -1)), (nn.Concatenate(0), np.concatenate([a, b, c], 0))):
        assert close(layer(t), want)
    assert close(nn.Subtract()(t[:2]), a - b)
    for bad in (lambda: nn.Add()(t[0]), lambda: nn.Add()([t[0]]), lambda: nn.Subtract()(t)):
        with pytest.raises((ValueError, TypeError), match="add|subtract"):
            bad()


def test_activations_as_layers():
    x = np.linspace(-3, 3, 13)
    from math import erf
    want = {"ReLU": np.maximum(x, 0), "Sigmoid": sigmoid(x), "Tanh": np.tanh(x), "GELU": x * np.array([0.5 * (1 + erf(v / 2**0.5)) for v in x]), "SiLU": x * sigmoid(x),
            "SELU": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), "Softplus": np.log1p(np.exp(x)), "Softmax": np.exp(x) / np.exp(x).sum(),
            "LeakyReLU": np.where(x > 0, x, 0.3 * x), "ELU": np.where(x > 0, x, np.expm1(x))}
    for name, y in want.items():
        assert close(getattr(nn, name)()(lm.constant(x.astype("float32"))), y, 1e-5), name
    assert close(nn.LeakyReLU(0.1)(lm.constant(x.astype("float32"))), np.where(x > 0, x, 0.1 * x)) and close(nn.Softmax(0)(lm.ones((2, 3))), np.full((2, 3), 0.5))


# --- what holds for every layer ---

EVERY = [
    (nn.SimpleRNN(3), (2, 4, 5), (2, 3), 27), (nn.LSTM(3), (2, 4, 5), (2, 3), 108), (nn.GRU(3), (2, 4, 5), (2, 3), 90), (nn.Bidirectional(nn.GRU(3)), (2, 4, 5), (2, 6), 180),
    (nn.RMSNorm(), (2, 4), (2, 4), 4), (nn.GroupNorm(2), (2, 3, 4), (2, 3, 4), 8), (nn.Conv1DTranspose(2, 3), (2, 4, 5), (2, 6, 2), 32), (nn.DepthwiseConv2D(2), (1, 3, 3, 2), (1, 2, 2, 2), 10),
]


@pytest.mark.parametrize("layer, shape, made, parameters", EVERY, ids=lambda v: type(v).__name__ if isinstance(v, nn.Layer) else "")
def test_shapes_names_dtypes_and_configs(layer, shape, made, parameters):
    y = layer(lm.ones(shape))
    assert y.shape == made and layer.count_params() == parameters and repr(layer) == f"<{type(layer).__name__} {layer.name}>"
    entry = nn.Input(shape[1:])
    assert nn.Model(entry, layer(entry)).count_params() == parameters
    assert layer(lm.ones(shape, dtype="float64")).dtype == lm.float32
    if not isinstance(layer, nn.Bidirectional):
        again = type(layer).from_config(layer.get_config())
        again(lm.ones(shape))
        again.set_weights(layer.get_weights())
        assert close(again(lm.ones(shape)), y.numpy()) and all(v.name for v in again.variables)
        wide = type(layer).from_config(layer.get_config() | {"dtype": "float64"})
        assert wide(lm.ones(shape, dtype="float64")).dtype == lm.float64
        if type(layer) is not nn.RMSNorm:
            with pytest.raises(ValueError):
                type(layer).from_config(layer.get_config())(lm.ones((4,)))


MADE = [(nn.Dense(3), (2, 4)), (nn.Flatten(), (2, 3, 2)), (nn.Conv2D(2, 2), (1, 3, 3, 2)), (nn.LayerNorm(), (2, 4)), (nn.BatchNorm(), (2, 4)), (nn.Sequential([nn.Dense(3), nn.Dense(2)]), (2, 4)),
        (nn.MaxPool2D(2), (1, 4, 4, 2)), (nn.MultiHeadAttention(2, 3), (1, 3, 4)), *((layer, shape) for layer, shape, _, _ in EVERY if not isinstance(layer, nn.Bidirectional))]


@pytest.mark.parametrize("layer, shape", MADE, ids=lambda v: type(v).__name__ if isinstance(v, nn.Layer) else "")
def test_a_first_call_takes_nested_lists_as_later_ones_do_and_nothing_but_tensors(layer, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    given = (lambda layer, x: layer(x, x)) if isinstance(layer, nn.MultiHeadAttention) else lambda layer, x: layer(x)
    copy = type(layer).from_config(layer.get_config())
    for wrong in ("text", None, object(), {"a": 1}, [["a"]]):
        with pytest.raises(TypeError, match="a str|a NoneType|an object|a dict"):
            given(copy, wrong)
    first = given(copy, x.tolist())
    assert np.array_equal(first.numpy(), given(copy, x).numpy()) and np.array_equal(first.numpy(), given(copy, x.tolist()).numpy())


def test_layers_of_ones_own_are_built_for_the_shape_of_nested_lists():
    seen = []

    class Own(nn.Layer):
        def build(self, input_shape):
            seen.append(input_shape)

        def call(self, x, size=None):
            return x

    Own()([[1.0, 2.0, 3.0]])
    Own()([lm.ones((2, 5)), [1.0]])
    Own()((7, 7))
    Own()(lm.ones((4, 2)), [3, 4])
    assert seen == [(1, 3), (2, 5), (), (4, 2)]
    with pytest.raises(ValueError, match="rectangle"):
        Own()([[1.0], [2.0, 3.0]])


@pytest.mark.parametrize("bad", [lambda: nn.LSTM(0), lambda: nn.LSTM("3"), lambda: nn.GRU(3, activation="tan"), lambda: nn.Bidirectional(nn.Dense(3)), lambda: nn.Bidirectional(nn.GRU(3), "cat"),
                                 lambda: nn.Bidirectional(nn.GRU(3), backward_layer=nn.GRU(3)), lambda: nn.LSTM(3)(lm.ones((2, 3)))])
def test_what_makes_no_layer_is_refused(bad):
    with pytest.raises((ValueError, TypeError, KeyError)) as e:
        bad()
    assert isinstance(e.value, lm.errors.Error)


@pytest.mark.parametrize("cls", [nn.Conv1D, nn.Conv1DTranspose, nn.Conv2D, nn.Conv2DTranspose], ids=lambda cls: cls.__name__)
def test_groups_divide_the_filters_of_a_convolution(cls):
    with pytest.raises(lm.errors.InvalidArgument, match="2 groups of 5 filters"):
        cls(5, 3, groups=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_])
def test_integers_into_a_dense_layer_name_the_layer_and_the_conversion(dtype):
    layer, pixels = lm.nn.Dense(2, name="first"), np.ones((3, 4), dtype)
    for _ in range(2):
        with pytest.raises(lm.errors.TypeMismatch, match="first: cannot take") as caught:
            layer(pixels)
        assert "lm.astype(x, lm.float32)" in caught.value.fix
        layer(np.ones((3, 4)))


# --- assignments to attributes ---


SEQUENCE, IMAGE, IDS, ROWS = np.linspace(-2, 2, 24).reshape(2, 4, 3).astype("float32"), np.linspace(-2, 2, 64).reshape(1, 4, 4, 4).astype("float32"), np.array([[0, 1], [2, 3]]), np.linspace(-2, 2, 8).reshape(2, 4).astype("float32")
LAYERS = {
    nn.Dense: (lambda: nn.Dense(3), ROWS), nn.Flatten: (nn.Flatten, SEQUENCE), nn.Dropout: (lambda: nn.Dropout(0.5), ROWS), nn.Activation: (lambda: nn.Activation("tanh"), ROWS),
    nn.Reshape: (lambda: nn.Reshape(4), ROWS), nn.Lambda: (lambda: nn.Lambda(lm.tanh), ROWS), nn.Softmax: (nn.Softmax, ROWS), nn.LeakyReLU: (nn.LeakyReLU, ROWS), nn.ELU: (nn.ELU, ROWS),
    nn.ReLU: (nn.ReLU, ROWS), nn.Sigmoid: (nn.Sigmoid, ROWS), nn.Tanh: (nn.Tanh, ROWS), nn.GELU: (nn.GELU, ROWS), nn.SiLU: (nn.SiLU, ROWS), nn.SELU: (nn.SELU, ROWS), nn.Softplus: (nn.Softplus, ROWS),
    nn.BatchNorm: (nn.BatchNorm, ROWS), nn.LayerNorm: (nn.LayerNorm, ROWS), nn.RMSNorm: (nn.RMSNorm, ROWS), nn.GroupNorm: (lambda: nn.GroupNorm(2), IMAGE), nn.Embedding: (lambda: nn.Embedding(5, 3), IDS),
    nn.Masking: (nn.Masking, np.ones((2, 4, 3), "float32")), nn.Conv1D: (lambda: nn.Conv1D(3, 2), SEQUENCE), nn.Conv2D: (lambda: nn.Conv2D(3, 2), IMAGE), nn.Conv1DTranspose: (lambda: nn.Conv1DTranspose(3, 2), SEQUENCE),
    nn.Conv2DTranspose: (lambda: nn.Conv2DTranspose(3, 2), IMAGE), nn.DepthwiseConv2D: (lambda: nn.DepthwiseConv2D(2), IMAGE), nn.MaxPool1D: (nn.MaxPool1D, SEQUENCE), nn.AveragePooling1D: (nn.AveragePooling1D, SEQUENCE),
    nn.MaxPool2D: (lambda: nn.MaxPool2D(3), IMAGE), nn.AveragePooling2D: (lambda: nn.AveragePooling2D(3), IMAGE), nn.GlobalAveragePool1D: (nn.GlobalAveragePool1D, SEQUENCE), nn.GlobalMaxPool1D: (nn.GlobalMaxPool1D, SEQUENCE),
    nn.GlobalAveragePool2D: (nn.GlobalAveragePool2D, IMAGE), nn.GlobalMaxPool2D: (nn.GlobalMaxPool2D, IMAGE), nn.UpSampling2D: (nn.UpSampling2D, IMAGE), nn.ZeroPadding2D: (nn.ZeroPadding2D, IMAGE),
    nn.SimpleRNN: (lambda: nn.SimpleRNN(3), SEQUENCE), nn.LSTM: (lambda: nn.LSTM(3), SEQUENCE), nn.GRU: (lambda: nn.GRU(3), SEQUENCE), nn.Bidirectional: (lambda: nn.Bidirectional(nn.LSTM(3)), SEQUENCE),
    nn.MultiHeadAttention: (lambda: nn.MultiHeadAttention(2, 3), (SEQUENCE, SEQUENCE)), nn.Add: (nn.Add, ([ROWS, ROWS],)), nn.Subtract: (nn.Subtract, ([ROWS, ROWS],)), nn.Multiply: (nn.Multiply, ([ROWS, ROWS],)),
    nn.Average: (nn.Average, ([ROWS, ROWS],)), nn.Maximum: (nn.Maximum, ([ROWS, ROWS],)), nn.Minimum: (nn.Minimum, ([ROWS, ROWS],)), nn.Concatenate: (nn.Concatenate, ([ROWS, ROWS],)),
    nn.Sequential: (lambda: nn.Sequential([nn.Dense(3)]), ROWS), nn.Model: (lambda: nn.Model(a := nn.Input((4,)), nn.Dense(3)(a)), ROWS),
}
OTHER = {"axis": 0, "negative_slope": 0.9, "alpha": 3.0, "mask_value": 1.0, "function": lm.exp, "activation": "relu", "keepdims": True, "pool_size": 1, "strides": (1, 1), "padding": "same",
         "return_sequences": True, "return_state": True, "merge_mode": "sum"}


def outputs(layer, inputs):
    lm.random.set_seed(3)
    return [t.numpy() for t in lm.tree.leaves(layer(*(inputs if isinstance(inputs, tuple) else (inputs,)), training=True))]


def test_every_layer_is_among_those_whose_attributes_are_assigned():
    assert {one for one in vars(nn).values() if isinstance(one, type) and issubclass(one, nn.Layer)} - {nn.Layer, nn.Stack} == set(LAYERS)


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_assignment_to_an_argument_reaches_the_computation_or_is_refused(cls):
    make, inputs = LAYERS[cls]
    for name in inspect.signature(cls.__init__).parameters:
        if name in ("self", "name", "trainable", "input_shape"):
            continue
        layer = make()
        outputs(layer, inputs)
        with pytest.raises(lm.errors.StateError, match=f"{name} cannot be assigned"):
            setattr(layer, name, OTHER.get(name, 7))
        lm.random.set_seed(5)
        changed = make()
        try:
            setattr(changed, name, OTHER.get(name, 7))  # before the first call
        except lm.errors.StateError:
            continue
        if name in ("backward_layer", "zero_output_for_mask"):
            continue  # a part, as an attribute of any layer; of effect with a mask
        lm.random.set_seed(5)
        before, after = outputs(make(), inputs), outputs(changed, inputs)
        assert len(before) != len(after) or any(a.shape != b.shape or (a != b).any() for a, b in zip(before, after)), name


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_a_variable_assigned_in_place_of_a_weight_is_computed_with(cls):
    make, inputs = LAYERS[cls]
    layer, same = make(), make()
    outputs(layer, inputs), outputs(same, inputs)
    same.set_weights(layer.get_weights())
    for name, old in [(name, value) for name, value in vars(layer).items() if isinstance(value, lm.Variable)]:
        new = lm.Variable(old.numpy() * 0.5 + 0.25, trainable=old.trainable)
        setattr(layer, name, new)
        getattr(same, name).assign(new)
        assert getattr(layer, name) is new and any(new is v for v in layer.variables)
        with lm.GradientTape() as tape:
            cost = lm.sum(layer(*(inputs if isinstance(inputs, tuple) else (inputs,))) ** 2)
        assert not old.trainable or tape.gradient(cost, new) is not None
        assert all((a == b).all() for a, b in zip(outputs(layer, inputs), outputs(same, inputs))), name
        for bad in (new.read(), None, lm.Variable(np.zeros((9, 9), "float32")), lm.Variable(new.numpy().astype("float64"))):
            with pytest.raises(lm.errors.Error):
                setattr(layer, name, bad)
    if isinstance(layer, nn.Dense):
        with pytest.raises(lm.errors.StateError, match="call the layer once"):
            nn.Dense(3).kernel = lm.Variable(np.zeros((4, 3), "float32"))
        plain = nn.Dense(3, use_bias=False)
        plain(inputs)
        with pytest.raises(lm.errors.StateError, match="made without bias"):
            plain.bias = lm.Variable(np.zeros(3, "float32"))


def test_tied_weights_stay_tied_in_copies_and_pickles():
    table, head = nn.Embedding(5, 3), nn.Dense(3, use_bias=False)
    table(IDS), head(np.ones((1, 5), "float32"))
    head.kernel = table.embeddings
    for a, b in (copy.deepcopy([table, head]), pickle.loads(pickle.dumps([table, head]))):
        a.embeddings.assign(np.full((5, 3), 2.0, "float32"))
        assert b(np.ones((1, 5), "float32")).numpy().tolist() == [[10.0] * 3]


def test_a_layer_of_ones_own_assigns_what_it_likes():
    class Scaled(nn.Dense):
        def __init__(self):
            super().__init__(2)
            self.activation = lm.tanh

        def call(self, x):
            return self.activation(super().call(x))

    layer = Scaled()
    layer(ROWS)
    layer.activation = lm.relu
    assert layer(ROWS).numpy().min() >= 0
