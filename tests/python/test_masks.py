"""Masks of padded sequences: from Embedding(mask_zero=True) and Masking through Sequential, functional and own models to the loss."""
import warnings

import numpy as np
import pytest

import lamina as lm

nn = lm.nn
IDS = np.array([[3, 1, 4, 0, 0], [2, 5, 0, 0, 0], [1, 2, 3, 4, 5]], "int32")
LENGTHS = [3, 2, 5]


@pytest.fixture(autouse=True)
def every_mask_arrives():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def alone(net, row):
    """What the model gives for the steps of a row that count."""
    return net(IDS[row:row + 1, :LENGTHS[row]]).numpy()[0]


@pytest.mark.parametrize("layers", [
    lambda: [nn.LSTM(4)], lambda: [nn.GRU(4), nn.Dense(2)], lambda: [nn.SimpleRNN(4, return_sequences=True), nn.Dense(3, "tanh"), nn.Dropout(0.5), nn.LSTM(4)],
    lambda: [nn.Bidirectional(nn.LSTM(4))], lambda: [nn.Bidirectional(nn.GRU(3, return_sequences=True)), nn.LayerNorm(), nn.ReLU(), nn.GRU(2)],
    lambda: [nn.Dense(3), nn.GlobalAveragePooling1D()], lambda: [nn.LSTM(4, return_sequences=True, go_backwards=True), nn.LSTM(3)],
])
def test_padding_changes_nothing(layers):
    net = nn.Sequential([nn.Embedding(6, 3, mask_zero=True), *layers()])
    wanted = net(IDS).numpy()
    for row in range(3):
        np.testing.assert_allclose(wanted[row], alone(net, row), atol=1e-6)
    np.testing.assert_allclose(lm.function(net)(IDS).numpy(), wanted, atol=1e-6)
    nested = nn.Sequential([nn.Sequential(net.layers[:2]), *net.layers[2:]])
    np.testing.assert_allclose(nested(IDS).numpy(), wanted, atol=1e-6)


def test_functional_models_pass_masks_on():
    ids = nn.Input((5,), "int32")
    e = nn.Embedding(6, 4, mask_zero=True)(ids)
    h = nn.Add()([nn.LSTM(4, return_sequences=True)(e), e])
    net = nn.Model(ids, nn.GRU(3)(nn.MultiHeadAttention(2, 3)(h, h)))
    wanted = net(IDS).numpy()
    other = nn.Input((None,), "int32")
    e = net.layers[0](other)
    h = net.layers[2]([net.layers[1](e), e])
    same = nn.Model(other, net.layers[4](net.layers[3](h, h)))
    for row in range(3):
        np.testing.assert_allclose(wanted[row], alone(same, row), atol=1e-6)


def test_own_models_and_explicit_masks():
    class Net(nn.Model):
        def __init__(self):
            super().__init__()
            self.table, self.rnn = nn.Embedding(6, 3, mask_zero=True), nn.LSTM(4)

        def call(self, ids):
            return self.rnn(self.table(ids))

    net = Net()
    wanted = net(IDS).numpy()
    assert np.array_equal(net.table.compute_mask(lm.constant(IDS)).numpy(), IDS != 0)
    np.testing.assert_allclose(wanted, net.rnn(lm.constant(net.table(IDS).numpy()), mask=IDS != 0).numpy(), atol=1e-6)
    every = np.ones(IDS.shape, bool)
    np.testing.assert_allclose(net.rnn(net.table(IDS), mask=every).numpy(), net.rnn(lm.constant(net.table(IDS).numpy())).numpy(), atol=1e-6)  # an explicit mask counts


def test_masking_leaves_out_steps_of_one_value():
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    x[0, 2:] = -1
    net = nn.Sequential([nn.Masking(-1), nn.LSTM(4)])
    np.testing.assert_allclose(net(x).numpy()[0], net(x[:1, :2]).numpy()[0], atol=1e-6)
    assert net.layers[0](x).numpy()[0, 2:].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5])])
def test_losses_count_the_steps_that_are_there(weights):
    net = nn.Sequential([nn.Embedding(6, 3, mask_zero=True), nn.GRU(4, return_sequences=True), nn.Dense(1)])
    y = np.random.default_rng(0).normal(size=(3, 5, 1)).astype("float32")
    net.compile(lm.optim.SGD(0.1), "mse")
    errors = (net(IDS).numpy() - y)[..., 0] ** 2 * (IDS != 0) * (1 if weights is None else weights[:, None])
    assert net.evaluate(IDS, y, sample_weight=weights) == pytest.approx(errors.sum() / (IDS != 0).sum(), rel=1e-5)
    before = net.get_weights()
    other = y.copy()
    other[IDS == 0] = 100  # labels of padding do not matter
    found = []
    for labels in (y, other):
        net.set_weights(before)
        net.fit(IDS, labels, epochs=3, shuffle=False, verbose=0, sample_weight=weights)
        found.append(net.get_weights())
    assert all(np.array_equal(a, b) for a, b in zip(*found)) and not np.array_equal(before[0], found[0][0])


def test_a_mask_that_ends_is_told_once():
    net = nn.Sequential([nn.Embedding(6, 3, mask_zero=True), nn.Flatten()])
    with pytest.warns(UserWarning, match="flatten.*: the mask of its input ends here"):
        net(IDS)
    net(IDS)

    class Twice(nn.Layer):
        supports_masking = True

        def call(self, x):
            return x * 2

    net = nn.Sequential([nn.Embedding(6, 3, mask_zero=True), Twice(), nn.LSTM(4)])
    np.testing.assert_allclose(net(IDS).numpy()[1], alone(net, 1), atol=1e-6)


def test_masks_go_with_their_tensors():
    from lamina.nn import masks

    x = nn.Embedding(6, 3, mask_zero=True)(IDS)
    key = id(x)
    assert masks.of(x) is not None and key in masks._of
    del x
    assert key not in masks._of


def test_they_come_back_from_files(tmp_path):
    pytest.importorskip("h5py", reason="h5py is not installed: ./dev setup brings it")
    net = nn.Sequential([nn.Input((5,), "int32"), nn.Embedding(6, 3, mask_zero=True), nn.LSTM(4)])
    nn.save_file(net, tmp_path / "net.keras")
    again = nn.load_file(tmp_path / "net.keras")
    assert again.layers[0].mask_zero
    np.testing.assert_array_equal(again(IDS).numpy(), net(IDS).numpy())


def test_joined_sequences_have_their_masks_joined():
    table, mean = nn.Embedding(6, 2, mask_zero=True), nn.GlobalAveragePooling1D()
    a, b, free = np.array([[1, 2, 0]]), np.array([[0, 3]]), lm.ones((1, 2, 2))
    known = lambda ids: [table(np.array([i]))[None, :1] for i in ids]  # noqa: E731

    def wanted(*parts):
        return lm.mean(lm.concat(list(parts), 1), 1)

    for axis in (1, -2):
        join = nn.Concatenate(axis=axis)
        np.testing.assert_allclose(mean(join([table(a), table(b)])), wanted(*known([1, 2, 3])), atol=1e-6)
        np.testing.assert_allclose(mean(join([table(a), free])), wanted(*known([1, 2]), free), atol=1e-6)
        np.testing.assert_allclose(mean(join([free, table(b)])), wanted(free, *known([3])), atol=1e-6)
    i, j = nn.Input((None,), "int32"), nn.Input((None,), "int32")
    net = nn.Model([i, j], mean(nn.Concatenate(axis=1)([table(i), table(j)])))
    np.testing.assert_allclose(net([a, b]), wanted(*known([1, 2, 3])), atol=1e-6)
    rows = nn.Concatenate(axis=0)([table(a[:, :2]), table(b)])
    np.testing.assert_allclose(mean(rows), [table(np.array([1, 2])).numpy().mean(0), table(np.array([3])).numpy()[0]], atol=1e-6)
    np.testing.assert_allclose(mean(nn.Concatenate()([table(a), table(np.array([[4, 0, 5]]))])), lm.mean(lm.concat([table(a), table(np.array([[4, 0, 5]]))], -1), 1), atol=1e-6)


def test_joined_channels_count_where_any_do_with_masks_of_any_rank():
    table = nn.Embedding(6, 2, mask_zero=True)
    for shape in ((3,), (2, 3), (2, 2, 3)):
        a, b = np.resize([1, 0, 2, 3], shape), np.resize([0, 1, 2], shape)
        assert (lm.nn.masks.of(nn.Concatenate()([table(a), table(b)])).numpy() == ((a != 0) | (b != 0))).all()
        joined = nn.Concatenate(axis=len(shape) - 1)([table(a), table(b)])
        assert (lm.nn.masks.of(joined).numpy() == np.concatenate([a != 0, b != 0], -1)).all()


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_mask_of_queries_and_keys_joins_that_of_padding(length):
    ids = IDS[:length if length < 4 else 3, :length]
    x, triangle = nn.Embedding(6, 4, mask_zero=True)(ids), np.tril(np.ones((length, length), bool))
    attend = nn.MultiHeadAttention(3, 2)
    found = [attend(x, x, attention_mask=lm.constant(mask), return_attention_scores=True)[1].numpy() for mask in (triangle, np.stack([triangle] * len(ids)), np.stack([triangle] * len(ids))[:, None])]
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()
    assert (found[0][..., ~triangle] == 0).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_weights_of_samples_or_steps_multiply_the_losses_of_steps(size):
    table = nn.Embedding(6, 2, mask_zero=True)
    net = nn.Sequential([table])
    net.compile("sgd", "mse")
    y, each = np.ones((3, 5, 2), "float32"), np.arange(1, 16).reshape(3, 5).astype("float32")
    errors, mask = ((net(IDS).numpy() - y) ** 2).mean(-1), IDS != 0
    for weights, full in ((each, each), (each[:, 0], each[:, :1]), (each[:, :1], each[:, :1])):
        parts = [(errors * mask * full)[i:i + size].sum() / mask[i:i + size].sum() * len(errors[i:i + size]) for i in range(0, 3, size)]
        assert net.evaluate(IDS, y, sample_weight=weights, batch_size=size) == pytest.approx(sum(parts) / 3, rel=1e-5)
        plain = nn.Sequential([nn.Embedding(6, 2)])
        plain.compile("sgd", "mse")
        plain(IDS), plain.set_weights(table.get_weights())
        assert plain.evaluate(IDS, y, sample_weight=weights, batch_size=size) == pytest.approx((errors * full).mean(), rel=1e-5)
    for bad in (each[:, :3], np.ones((3, 5, 2), "float32")):
        with pytest.raises(lm.errors.InvalidArgument, match="sample_weight of shape .* does not fit losses of shape"):
            net.evaluate(IDS, y, sample_weight=bad, batch_size=size)


@pytest.mark.parametrize("layer", [nn.Add, nn.Subtract, nn.Multiply, nn.Average, nn.Maximum, nn.Minimum, nn.Concatenate])
def test_merged_steps_count_where_any_input_does_and_everywhere_beside_one_without_a_mask(layer):
    table, a, b = nn.Embedding(6, 2, mask_zero=True), IDS[:, :3], IDS[:, 2:]
    found = nn.masks.of(layer()([table(a), table(b)]))
    assert (found.numpy() == ((a != 0) | (b != 0))).all()
    assert nn.masks.of(layer()([table(a), lm.ones((3, 3, 2))])) is None and nn.masks.of(layer()([lm.ones((3, 3, 2)), table(a)])) is None


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.SimpleRNN])
@pytest.mark.parametrize("backwards", [False, True])
def test_outputs_of_steps_left_out_are_zeros_on_request_and_in_bidirectional(cell, backwards):
    x, mask = lm.random.normal((2, 5, 3)), np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]], bool)
    layer = cell(2, return_sequences=True, go_backwards=backwards)
    plain = layer(x, mask=mask).numpy()
    zeros = cell(2, return_sequences=True, return_state=True, go_backwards=backwards, zero_output_for_mask=True)
    zeros(x), zeros.set_weights(layer.get_weights())
    y, *state = zeros(x, mask=mask)
    counted = mask[:, ::-1] if backwards else mask
    assert (y.numpy() == plain * counted[..., None]).all() and (plain[~counted][1:] != 0).any() and (state[0].numpy() == plain[:, -1]).all()
    both = nn.Bidirectional(cell(2, return_sequences=True), None)
    for one in both(x, mask=mask):
        assert (one.numpy()[~mask] == 0).all() and (one.numpy()[mask] != 0).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float16", "float64"])
@pytest.mark.parametrize("value", [0.0, 1, 0.5])
def test_masking_takes_numbers_of_every_dtype(dtype, value):
    x = np.random.default_rng(0).integers(0, 2, (2, 6, 2)).astype(dtype)
    y = nn.Masking(value)(x)
    counted = (x != value).any(-1)
    assert (nn.masks.of(y).numpy() == counted).all() and (y.numpy() == x * counted[..., None]).all() and y.dtype.name == dtype
