"""Convolution, pooling and normalisation from Python, against NumPy."""
import numpy as np
import pytest

import lamina as lm

X = np.random.default_rng(0).normal(size=(2, 6, 5, 4)).astype("float32")


def convolved(x, w, strides=(1, 1), pads=((0, 0), (0, 0)), dilation=(1, 1), groups=1):
    x = np.pad(x.astype("float64"), ((0, 0), *pads, (0, 0)))
    a, b, depth, count = w.shape
    height = (x.shape[1] - (a - 1) * dilation[0] - 1) // strides[0] + 1
    width = (x.shape[2] - (b - 1) * dilation[1] - 1) // strides[1] + 1
    out = np.zeros((x.shape[0], height, width, count))
    for g in range(groups):
        mine = slice(g * count // groups, (g + 1) * count // groups)
        for i in range(a):
            for j in range(b):
                seen = x[:, i * dilation[0]:, j * dilation[1]:, g * depth:(g + 1) * depth]
                seen = seen[:, :(height - 1) * strides[0] + 1:strides[0], :(width - 1) * strides[1] + 1:strides[1]]
                out[..., mine] += seen @ w[i, j, :, mine].astype("float64")
    return out


@pytest.mark.parametrize("given, reference", [
    ({}, {}),
    ({"strides": (2, 1)}, {"strides": (2, 1)}),
    ({"padding": "same"}, {"pads": ((1, 1), (0, 1))}),
    ({"padding": ((2, 0), (1, 3)), "strides": 2}, {"pads": ((2, 0), (1, 3)), "strides": (2, 2)}),
    ({"padding": (1, 2), "dilation": (2, 1)}, {"pads": ((1, 1), (2, 2)), "dilation": (2, 1)}),
    ({"padding": 1, "groups": 2}, {"pads": ((1, 1), (1, 1)), "groups": 2}),
])
def test_conv2d(given, reference):
    w = np.random.default_rng(1).normal(size=(3, 2, 4 // given.get("groups", 1), 6)).astype("float32")
    want = convolved(X, w, **reference)
    for f in (lm.conv2d, lm.function(lambda x, w: lm.conv2d(x, w, **given))):
        got = f(X, w, **given) if f is lm.conv2d else f(lm.constant(X), lm.constant(w))
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-5)


def test_conv1d_transpose_and_errors():
    line, w = X[:, :, 0], np.ones((3, 4, 2), "float32")
    np.testing.assert_allclose(lm.conv1d(line, w, stride=2).numpy(), convolved(line[:, None], w[None], strides=(1, 2))[:, 0], rtol=1e-5, atol=1e-5)
    assert lm.conv2d_transpose(X, np.ones((3, 3, 7, 4), "float32"), strides=2, padding="same").shape == (2, 12, 10, 7)
    with pytest.raises(ValueError, match="x has 4 channels, the filters take 3"):
        lm.conv2d(X, np.ones((3, 3, 3, 2), "float32"))
    with pytest.raises(KeyError, match="padding"):
        lm.conv2d(X, np.ones((3, 3, 4, 2), "float32"), padding="some")
    with pytest.raises(ValueError, match="strides"):
        lm.conv2d(X, np.ones((3, 3, 4, 2), "float32"), strides=(1, 2, 3))
    with pytest.raises(ValueError, match="stride"):
        lm.conv2d(X, np.ones((3, 3, 4, 2), "float32"), strides=0)
    with pytest.raises(TypeError):
        lm.conv2d(lm.constant(X), lm.constant(np.ones((3, 3, 4, 2), "float64")))


def test_pooling():
    tiles = X[:, :, :4].reshape(2, 3, 2, 2, 2, 4)
    np.testing.assert_array_equal(lm.max_pool2d(X[:, :, :4]).numpy(), tiles.max((2, 4)))
    np.testing.assert_allclose(lm.avg_pool2d(X[:, :, :4]).numpy(), tiles.mean((2, 4)), rtol=1e-5, atol=1e-6)
    assert lm.max_pool2d(X, (3, 2), strides=1, padding="same").shape == X.shape
    x = lm.constant(X)
    with lm.GradientTape() as tape:
        tape.watch(x)
        y = lm.sum(lm.max_pool2d(x, 2) * 2.0)
    g = tape.gradient(y, x).numpy()
    np.testing.assert_array_equal(g[:, :, :4].reshape(2, 3, 2, 2, 2, 4).sum((2, 4)), 2)
    assert set(np.unique(g)) == {0, 2}


def test_normalisation():
    flat = X.reshape(-1, 4).astype("float64")
    mean, variance = lm.moments(X, (0, 1, 2))
    np.testing.assert_allclose(mean.numpy(), flat.mean(0), atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), flat.var(0), rtol=1e-5)
    want = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(lm.layer_norm(X).numpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lm.batch_norm(X, mean, variance, offset=1.0, scale=2.0).numpy(), (X - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-3) * 2 + 1, rtol=1e-4, atol=1e-5)


def bars(count=32, side=8):
    x, y = np.zeros((count, side, side, 1), "float32"), np.arange(count) % 2
    for i in range(count):
        if y[i]:
            x[i, :, i // 4] = 1
        else:
            x[i, i // 4] = 1
    return x, y


def test_image_layers_learn_with_fit():
    nn = lm.nn
    model = nn.Sequential([
        nn.Conv2D(8, 3, padding="same", activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Conv2D(8, (3, 3), activation="relu"),
        nn.AveragePooling2D(2, strides=1), nn.GlobalAveragePool2D(), nn.LayerNorm(), nn.Dense(2),
    ])
    x, y = bars()
    model.compile(optimizer=lm.optim.Adam(0.02), loss=lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(x, y, epochs=25, batch_size=32, verbose=0)
    assert history.history["loss"][-1] < 0.1 * history.history["loss"][0]
    norm = model.layers[1]
    assert norm.moving_mean.numpy().any() and len(model.non_trainable_variables) == 2
    before = norm.moving_mean.numpy()
    model(x)
    np.testing.assert_array_equal(norm.moving_mean.numpy(), before)
    model(x, training=True)
    assert (norm.moving_mean.numpy() != before).any()


def test_embedding_and_upscaling_layers():
    embed = lm.nn.Embedding(7, 3)
    assert embed(np.array([[1, 2], [6, 0]])).shape == (2, 2, 3)
    assert embed.embeddings.shape == (7, 3)
    with pytest.raises(IndexError):
        embed(np.array([7]))
    up = lm.nn.Conv2DTranspose(5, 3, strides=2, padding="same")
    assert up(X).shape == (2, 12, 10, 5) and up.kernel.shape == (3, 3, 5, 4)
    assert lm.nn.Conv1D(5, 3, padding="same")(X[:, 0]).shape == (2, 5, 5)
    assert lm.nn.GlobalMaxPool2D()(X).shape == (2, 4)


def test_losses():
    t, p = np.array([[0.0, 1.0, -1.0]], "float32"), np.array([[0.5, -1.5, 0.25]], "float32")
    e = np.abs(t - p)
    np.testing.assert_allclose(lm.losses.Huber()(t, p).item(), np.where(e <= 1, e * e / 2, e - 0.5).mean(), rtol=1e-6)
    np.testing.assert_allclose(lm.losses.huber(t, p, delta=2).numpy(), np.where(e <= 2, e * e / 2, 2 * e - 2).mean(-1), rtol=1e-6)
    np.testing.assert_allclose(lm.losses.Hinge()(t, p).item(), np.maximum(0, 1 - np.where(t == 0, -1, t) * p).mean(), rtol=1e-6)
    cosine = (t * p).sum() / np.linalg.norm(t) / np.linalg.norm(p)
    np.testing.assert_allclose(lm.losses.CosineSimilarity()(t, p).item(), -cosine, rtol=1e-5)
    q, r = np.array([[0.2, 0.8]], "float32"), np.array([[0.6, 0.4]], "float32")
    np.testing.assert_allclose(lm.losses.KLDivergence()(q, r).item(), (q * np.log(q / r)).sum(), rtol=1e-5)
    for name in ("huber", "hinge", "kl_divergence", "cosine_similarity"):
        assert lm.losses.get(name).name == name


def test_the_gradient_of_max_pooling_is_mapped():
    x = np.random.default_rng(3).permutation(3 * 2 * 7 * 6 * 2).reshape(3, 2, 7, 6, 2).astype("float32")
    dy = np.random.default_rng(4).standard_normal((3, 2, 4, 3, 2), dtype="float32")
    gradient = lm.grad(lambda x, dy: lm.sum(lm.max_pool2d(x, 3, 2, padding="same") * dy))
    loop = np.stack([gradient(a, b).numpy() for a, b in zip(x, dy)])
    for f in (lm.vmap(gradient), lm.function(lm.vmap(gradient))):
        np.testing.assert_array_equal(f(x, dy).numpy(), loop)
    np.testing.assert_array_equal(lm.vmap(gradient, in_axes=(None, 0))(x[0], dy).numpy(), np.stack([gradient(x[0], b).numpy() for b in dy]))
    np.testing.assert_array_equal(lm.vmap(gradient, in_axes=(0, None))(x, dy[1]).numpy(), np.stack([gradient(a, dy[1]).numpy() for a in x]))


@pytest.mark.parametrize("size, stride, more", [(3, 2, 1), (2, 3, 1), (4, 4, 3), (1, 2, 1), (3, 1, 1), (2, 4, 2), (3, 2, -1)])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_output_padding_lengthens_by_its_number_or_is_refused(size, stride, more, padding):
    x, line = lm.ones((1, 4, 4, 2)), lm.ones((1, 4, 2))
    for layer, given in ((lm.nn.Conv2DTranspose, x), (lm.nn.Conv1DTranspose, line)):
        made, plain = (layer(3, size, strides=stride, padding=padding, output_padding=p) for p in (more, 0))
        if padding == "valid" and 0 <= more < min(size, stride):
            assert made(given).shape[1] == plain(given).shape[1] + more
        else:
            with pytest.raises(lm.errors.InvalidArgument, match=f"output_padding {more}"):
                made(given)


@pytest.mark.parametrize("shape", [(0, 3), (0, 4, 4, 3), (2, 0, 3)])
@pytest.mark.parametrize("traced", [False, True])
def test_no_rows_leave_the_moving_statistics_unchanged(shape, traced):
    layer = lm.nn.BatchNorm()
    layer(lm.ones([max(1, n) for n in shape]), training=True)
    before = layer.get_weights()
    call = lambda x: layer(x, training=True)  # noqa: E731
    assert (lm.function(call) if traced else call)(lm.zeros(shape)).shape == shape
    assert all((a == b).all() for a, b in zip(before, layer.get_weights()))
