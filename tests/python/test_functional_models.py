"""Models made of calls on Input: any op, several inputs and outputs."""
import copy
import pickle

import numpy as np
import pytest

import lamina as lm

nn = lm.nn
X = np.random.default_rng(3).standard_normal((5, 6)).astype("float32")


def model(make, *shapes):
    inputs = [nn.Input(shape) for shape in shapes]
    return nn.Model(inputs if len(inputs) > 1 else inputs[0], make(*inputs))


@pytest.mark.parametrize("f", [
    lambda h: h + 1, lambda h: 2 - h, lambda h: h * h / 3, lambda h: -h ** 2, lambda h: abs(h) @ np.ones((6, 2), "float32"), lambda h: h[:, 0], lambda h: h[..., 1:4], lambda h: lm.relu(h),
    lambda h: lm.concat([h, lm.tanh(h)], -1), lambda h: lm.where(h > 0, h, 0.1 * h), lambda h: lm.mean(h, axis=-1, keepdims=True), lambda h: h.reshape((-1, 2, 3)), lambda h: h.T, lambda h: lm.softmax(x=h),
    lambda h: lm.constant(X[0]) * h, lambda h: X[0] + h, lambda h: lm.einsum("ij,kj->ik", h, h), lambda h: lm.stack([h[:, 0], h[:, 1] // 0.5]), lambda h: lm.split(h, 3, 1)[1], lambda h: lm.maximum(h, lm.zeros((6,))),
    lambda h: lm.losses.mean_squared_error(h, h * 0.5), lambda h: lm.sum(h) + lm.astype(h, "float64").astype("float32"),
])
def test_any_op_on_an_input(f):
    net = model(f, (6,))
    want = f(lm.constant(X)).numpy()
    assert np.array_equal(net(X).numpy(), want) and np.array_equal(lm.function(net)(lm.constant(X)).numpy(), want)


def test_ops_between_layers_train_and_are_saved(tmp_path):
    first, second = nn.Dense(6, "tanh"), nn.Dense(3)
    net = model(lambda h: second(lm.concat([h + first(h), h[:, :2] * 2], 1)), (6,))
    assert len(net.trainable_variables) == 4 and net.count_params() == 42 + 27
    net.compile(lm.optim.Adam(0.02), "mse")
    y = X[:, :3] * 0.5
    losses = net.fit(X, y, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0]
    lm.save_weights(net, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="(?s)op on a symbolic.*nn.Add"):
        nn.save_file(net, tmp_path / "net.keras")


def test_tensors_may_be_given_by_name():
    q, v = nn.Input((4, 6)), nn.Input((3, 6))
    m = nn.Input((4, 3), "bool")
    layer = nn.MultiHeadAttention(2, 3)
    net = nn.Model([q, v, m], layer(q, value=v, attention_mask=m))
    a, b, mask = lm.random.normal((2, 4, 6)), lm.random.normal((2, 3, 6)), lm.random.uniform((2, 4, 3)) > 0.3
    assert np.array_equal(net([a, b, mask]).numpy(), layer(a, b, attention_mask=mask).numpy())


def test_what_is_no_op_says_so():
    h = nn.Input((6,))
    for bad, kind in ((lambda: bool(h), TypeError), (lambda: float(h), TypeError), (lambda: len(h), TypeError), (lambda: [*h], TypeError), (lambda: h.nothing, AttributeError),
                      (lambda: lm.matmul(h, lm.ones((5, 2))), ValueError), (lambda: h + "a", TypeError), (lambda: lm.concat([h, h], 7), ValueError), (lambda: h.numpy(), (TypeError, RuntimeError, ValueError))):
        with pytest.raises(kind):
            bad()
    if h.shape != (None, 6) or "symbolic" not in repr(h + 1) or (h > 0).dtype != lm.bool:
        raise AssertionError(repr(h))


def test_inputs_of_a_dict_are_paired_by_key(tmp_path):
    a, b = nn.Input((1,)), nn.Input((1,))
    net = nn.Model({"u": a, "v": b}, nn.Lambda(lambda p, q: 10 * p + q)(a, b))
    kept = nn.Model({"u": a, "v": b}, nn.Subtract()([b, a]))
    lm.nn.save_file(kept, tmp_path / "net.keras")
    outer = nn.Model({"v": a, "u": b}, net({"v": b, "u": a}))
    one, two = np.ones((1, 1), "float32"), np.full((1, 1), 2, "float32")
    for made, wanted in ((net, 12), (outer, 21), (lm.nn.load_file(tmp_path / "net.keras"), 1)):
        made.compile("sgd", "mae")
        for given in ({"u": one, "v": two}, {"v": two, "u": one}):
            assert float(made(given)[0, 0]) == made.predict(given)[0, 0] == made.predict_on_batch(given)[0, 0] == made.evaluate(given, np.zeros((1, 1), "float32")) == wanted
        rows = lm.data.Dataset.from_tensor_slices({"v": two, "u": one}).batch(1)
        assert made.predict(rows)[0, 0] == wanted


@pytest.mark.parametrize("given, said", [
    ({"x": 1, "y": 2}, "there is no input 'x'"), ({"u": 1}, "nothing is given for the input 'v'"), ({"u": 1, "v": 2, "w": 3}, "there is no input 'w'"), ([1, 2], "the inputs are a (list|tuple)"), (1, "the inputs are a (ndarray|Tensor)"),
])
def test_other_keys_and_structures_than_the_inputs_are_refused(given, said):
    array = lambda n: np.full((1, 1), n, "float32")  # noqa: E731
    given = {key: array(n) for key, n in given.items()} if isinstance(given, dict) else [array(n) for n in given] if isinstance(given, list) else array(given)
    a, b = nn.Input((1,)), nn.Input((1,))
    net = nn.Model({"u": a, "v": b}, a - b)
    for call in (net, net.predict):
        with pytest.raises(lm.errors.InvalidArgument, match=said) as raised:
            call(given)
        assert "u, v" in str(raised.value)
    listed = nn.Model([a, b], a - b)
    with pytest.raises(lm.errors.InvalidArgument, match="the inputs are a dict|2 inputs, 1 were given") as raised:
        listed(given if isinstance(given, dict) else array(1))
    assert listed((array(3), array(1))).numpy() == listed([array(3), array(1)]).numpy() == 2


@pytest.mark.parametrize("order", [lambda parts: parts, lambda parts: tuple(reversed(parts)), list], ids=["tuple", "reversed", "list"])
def test_inputs_with_names_are_given_in_order_or_as_a_dict_by_them(order):
    a, b = nn.Input((2,), name="left"), nn.Input((2,), name="right")
    net = nn.Model(order((a, b)), a - 2.0 * b)
    net.compile("adam", "mse")
    left, right = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]])
    wanted = left - 2 * right
    for form in (order((left, right)), {"left": left, "right": right}, {"right": right, "left": left}):
        np.testing.assert_array_equal(net(form), wanted)
        np.testing.assert_array_equal(net.predict(form), wanted)
        assert net.evaluate(form, wanted) == 0
    with pytest.raises(lm.errors.InvalidArgument, match="there is no input 'middle'"):
        net({"left": left, "middle": right})
    with pytest.raises(lm.errors.InvalidArgument, match="nothing is given for the input 'right'"):
        net({"left": left})
    assert "of left>" in repr(a)


def test_inputs_without_names_or_with_one_name_take_no_dict():
    for names in ((None, None), ("a", None), ("a", "a")):
        a, b = (nn.Input((2,), name=name) for name in names)
        with pytest.raises(lm.errors.InvalidArgument, match=r"(?s)the inputs are a dict.*lm.nn.Input\(shape, name='a'\)"):
            nn.Model([a, b], a + b)({"a": np.ones((1, 2)), "b": np.ones((1, 2))})


def of_file(net, folder):
    pytest.importorskip("h5py", reason=".keras files need h5py")
    nn.save_file(net, folder / "net.keras")
    return nn.load_file(folder / "net.keras")


@pytest.mark.parametrize("copied", [lambda net, _: copy.deepcopy(net), lambda net, _: pickle.loads(pickle.dumps(net)), of_file], ids=["deepcopy", "pickle", "file"])
def test_names_of_inputs_are_kept(copied, tmp_path):
    a, b = nn.Input((2,), name="left"), nn.Input((3,), name="right")
    net = nn.Model([a, b], nn.Concatenate()([nn.Dense(2)(a), nn.Dense(2)(b)]))
    given = {"right": np.ones((4, 3), "float32"), "left": np.full((4, 2), 0.5, "float32")}
    np.testing.assert_array_equal(copied(net, tmp_path)(given), net(given))
