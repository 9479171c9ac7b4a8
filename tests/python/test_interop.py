"""Functions of Lamina in PyTorch and JAX, and PyTorch's weights. ./dev test --long runs it where both are (.venv-peers); gymnasium's environments belong here too."""
import numpy as np
import pytest

import lamina as lm

nn = lm.nn


def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed here; ./dev test --long runs this beside the peers")


def jax():
    return pytest.importorskip("jax", reason="JAX is not installed here; ./dev test --long runs this beside the peers")


def curved(x, w, times=1):
    return {"y": lm.tanh(x @ w) * times, "place": lm.argmax(x, 1)}


# --- PyTorch ---


def test_a_function_has_pytorchs_gradients_to_the_second_order():
    t = torch()
    f = lm.interop.to_torch(curved)
    x, w = t.randn(4, 3, requires_grad=True), t.randn(3, 2, requires_grad=True)
    given = f(x, w, times=2)
    wanted = t.tanh(x @ w) * 2
    assert given["y"].requires_grad and not given["place"].requires_grad and given["place"].tolist() == x.argmax(1).tolist()
    t.testing.assert_close(given["y"], wanted)
    first = t.autograd.grad(given["y"].square().sum(), [x, w], create_graph=True)
    expected = t.autograd.grad(wanted.square().sum(), [x, w], create_graph=True)
    t.testing.assert_close(first, expected, rtol=1e-4, atol=1e-5)
    t.testing.assert_close(t.autograd.grad(first[0].square().sum(), w), t.autograd.grad(expected[0].square().sum(), w), rtol=1e-3, atol=1e-3)
    of_64_bits = [v.detach().double().requires_grad_() for v in (x, w)]
    assert t.autograd.gradcheck(lambda x, w: f(x, w)["y"], of_64_bits) and t.autograd.gradgradcheck(lambda x, w: f(x, w)["y"], of_64_bits)


def test_a_model_is_a_part_of_a_network_of_pytorch_that_trains():
    t = torch()
    t.manual_seed(0)
    lm.random.set_seed(0)
    fixed = nn.Sequential([nn.Input((4,)), nn.Dense(8, "tanh"), nn.Dense(3)])
    before, front, inside = fixed.get_weights(), t.nn.Linear(5, 4), lm.interop.to_torch(fixed)
    optimizer, x = t.optim.Adam(front.parameters(), 0.05), t.randn(64, 5)
    goal = t.from_dlpack(fixed(x.numpy()[:, :4])).clone()
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (inside(front(x)) - goal).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0] and all(np.array_equal(a, b) for a, b in zip(before, fixed.get_weights()))


def test_torch_func_maps_and_differentiates_it():
    t = torch()
    f, g = lm.interop.to_torch(lambda x, w: lm.tanh(x @ w)), lambda x, w: t.tanh(x @ w)
    x, w = t.randn(5, 4, 3), t.randn(3, 2)
    for call in (lambda f: t.func.vmap(f, in_dims=(0, None))(x, w), lambda f: t.func.vmap(f, in_dims=(1, None))(x, w),
                 lambda f: t.func.vmap(t.func.grad(lambda a: f(a, w).square().sum()))(x)):
        t.testing.assert_close(call(f), call(g), rtol=1e-4, atol=1e-5)


def test_forward_mode_and_hessians_are_pytorchs():
    t = torch()
    f, g = lm.interop.to_torch(lambda x, w: lm.tanh(x @ w)), lambda x, w: t.tanh(x @ w)
    x, w, dx = t.randn(4, 3), t.randn(3, 2), t.randn(4, 3)
    for call in (lambda f: t.func.jvp(lambda x: f(x, w), (x,), (dx,)), lambda f: t.func.jacfwd(f, (0, 1))(x, w), lambda f: t.func.hessian(lambda w: f(x, w).square().sum())(w),
                 lambda f: t.func.jvp(lambda x: t.func.jvp(lambda x: f(x, w), (x,), (dx,))[1], (x,), (dx,))):
        t.testing.assert_close(call(f), call(g), rtol=1e-3, atol=1e-4)
    place = lm.interop.to_torch(lambda x, i: {"y": lm.take(x, i, axis=0) * 2, "i": i + 1})
    _, pushed = t.func.jvp(lambda x: place(x, t.tensor([2, 0]))["y"], (x,), (dx,))
    t.testing.assert_close(pushed, dx[[2, 0]] * 2)


def halves_and_counts(count):
    def call(x):
        count.assign_add(1.0)
        return lm.dropout(lm.square(x), 0.5)

    return call


def test_the_gradient_of_what_draws_and_assigns_is_that_of_the_call():
    t = torch()
    lm.random.set_seed(0)
    count = lm.Variable(0.0)
    f, x = lm.interop.to_torch(halves_and_counts(count)), t.rand(5, 8) + 1
    x.requires_grad_()
    first, between, second = f(x), f(x), t.func.vmap(f)(x)
    assert not t.equal(first, between) and count.numpy() == 3
    for y in (first, second, between):  # 2 x as dropped, then 2 as dropped
        gradient, = t.autograd.grad(y.sum(), x, create_graph=True)
        t.testing.assert_close(gradient, 2 * y / x)
        t.testing.assert_close(t.autograd.grad(gradient.sum(), x)[0], 2 * y.detach() / x.detach().square())
    apart, (y, pushed) = x.detach(), t.func.jvp(f, (x.detach(),), (t.ones(5, 8),))
    t.testing.assert_close(pushed, 2 * y / apart)
    gradient, y = t.func.vmap(t.func.grad(lambda row: (f(row).sum(),) * 2, has_aux=True))(apart)
    t.testing.assert_close((gradient * apart).sum(1), 2 * y)
    assert count.numpy() == 5
    before = lm.random.get_state()
    t.autograd.grad(first.sum(), x)
    assert np.array_equal(before, lm.random.get_state())
    for call in (t.func.jacrev, t.func.jacfwd, t.func.hessian):
        with pytest.raises(lm.errors.NotDefined, match="the derivative of a function that draws or assigns is mapped"):
            call(f)(apart)


def test_results_are_copies_and_strided_tensors_are_taken():
    t = torch()
    v = lm.Variable(np.ones(3, "float32"))
    same = lm.interop.to_torch(lambda x: (x, v.read()))
    x = t.arange(6.0).reshape(2, 3).T
    y, read = same(x)
    y += 1
    read += 1
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]] and v.numpy().tolist() == [1, 1, 1] and y[0].tolist() == [1, 4]


# --- JAX ---


@pytest.mark.filterwarnings("ignore:lm.function .* was traced again")
def test_a_function_has_jaxs_gradients_inside_of_jit_and_vmap():
    j = jax()
    import jax.numpy as jnp

    f, g = (lambda x, w, f=lm.interop.to_jax(curved): f(x, w, times=2)["y"]), lambda x, w: jnp.tanh(x @ w) * 2
    draw = np.random.default_rng(0)
    x, w = (jnp.asarray(draw.normal(size=shape), "float32") for shape in ((5, 3), (3, 2)))
    xs = jnp.stack([x, 2 * x, 3 * x])

    def second(f):
        return lambda x, w: j.grad(lambda w: (j.grad(lambda x: (f(x, w) ** 2).sum())(x) ** 2).sum())(w)

    for call in (lambda f: f(x, w), lambda f: j.jit(f)(x, w), lambda f: j.grad(lambda x, w: (f(x, w) ** 2).sum(), argnums=(0, 1))(x, w), lambda f: j.jit(second(f))(x, w),
                 lambda f: j.vmap(f, (0, None))(xs, w), lambda f: j.jit(j.vmap(j.vmap(j.grad(lambda row: f(row[None], w).sum()))))(xs)):
        j.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), call(f), call(g))
    assert lm.interop.to_jax(curved)(x, w)["place"].tolist() == x.argmax(1).tolist()


def test_a_model_is_a_function_of_jax():
    j = jax()
    net = nn.Sequential([nn.Input((3,)), nn.Dense(4, "tanh"), nn.Dense(2)])
    x = np.random.randn(5, 3).astype("float32")
    np.testing.assert_array_equal(j.jit(lm.interop.to_jax(net))(x), net(x).numpy())


def test_arrays_of_bfloat16_and_numbers_are_taken():
    j = jax()
    import jax.numpy as jnp

    g = lm.interop.to_jax(lambda x: x * 2 + 1)
    x = jnp.arange(3, dtype=jnp.bfloat16)
    for call, wanted in ((g, [1, 3, 5]), (j.jit(g), [1, 3, 5]), (j.vmap(g), [1, 3, 5]), (j.grad(lambda x: g(x).sum()), [2, 2, 2])):
        assert call(x).dtype == jnp.bfloat16 and call(x).tolist() == wanted
    assert g(3.0) == 7 and j.jit(g)(3.0) == 7 and j.grad(g)(2.0) == 2 and j.grad(g)(np.float32(2)) == 2


def test_jax_is_told_that_a_gradient_needs_a_pure_function():
    j = jax()
    f, x = lm.interop.to_jax(lambda x: lm.dropout(x, 0.5)), j.numpy.ones(8, "float32")
    assert set(f(x).tolist()) <= {0, 2}
    with pytest.raises(lm.errors.NotDefined, match="the gradient of a function that draws or assigns"):
        j.grad(lambda x: f(x).sum())(x)
    keyed = lm.interop.to_jax(lambda x, key: lm.square(x) * lm.random.normal(x.shape, key=lm.astype(key, lm.int64)))
    key = j.numpy.asarray([3, 4], "int32")
    np.testing.assert_allclose(j.grad(lambda x: keyed(x, key).sum())(x), 2 * keyed(x, key), rtol=1e-6)


# --- complex ---


def complex_functions(fft, real, exp):
    """Functions of a complex (or real) array and a complex constant, by a library's own functions."""
    return [lambda x, c: real(fft(x) * fft(x) * c), lambda x, c: abs(fft(x)) ** 2, lambda x, c: fft(fft(x) * c), lambda x, c: real(exp(fft(x) * c)), lambda x, c: fft(exp(x)) * c]


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_gradients_through_complex_tensors_are_those_of_each_library(which, dtype):
    t, j = torch(), jax()
    import jax.numpy as jnp

    x, c = np.array([1 + 2j, 0.3 - 1j, -0.5 + 0.2j]), np.array([1 + 2j, 0.1 - 0.5j, 1j], "complex64")
    x = (x if dtype == "complex64" else x.real).astype(dtype)
    ours = complex_functions(lm.fft.fft, lm.real, lm.exp)[which]

    def of_torch(f):
        given = t.tensor(x, requires_grad=True)
        first, = t.autograd.grad(f(given, t.tensor(c)).abs().square().sum(), given, create_graph=True)
        pushed = t.func.jvp(lambda x: f(x, t.tensor(c)), (given.detach(),), (t.ones_like(given),))[1]
        return first, t.autograd.grad(first.abs().square().sum(), given)[0], pushed

    def of_jax(f):
        def number(x):
            return (jnp.abs(f(x, c)) ** 2).sum()

        return j.jit(j.grad(number))(x), j.grad(lambda x: (jnp.abs(j.grad(number)(x)) ** 2).sum())(x)

    t.testing.assert_close(of_torch(lm.interop.to_torch(ours)), of_torch(complex_functions(t.fft.fft, t.real, t.exp)[which]), rtol=1e-3, atol=1e-3)
    for mine, theirs in zip(of_jax(lm.interop.to_jax(ours)), of_jax(complex_functions(jnp.fft.fft, jnp.real, jnp.exp)[which])):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


# --- what does not fit ---


@pytest.mark.parametrize("call, package", [(lambda: lm.interop.to_torch(curved), "torch"), (lambda: lm.interop.to_jax(curved), "jax")])
def test_a_package_that_is_missing_is_named(call, package, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(lm.errors.NotFound, match=f"the package {package} is not installed.*"):
        call()


def test_what_is_no_function_is_refused():
    torch()
    with pytest.raises(lm.errors.TypeMismatch, match="is no function"):
        lm.interop.to_torch(3)
    with pytest.raises(lm.errors.TypeMismatch, match="among the arguments"):
        lm.interop.to_torch(lambda x: x)({1, 2})


# --- weights: PyTorch's layouts, which these dicts have too ---


def linear(draw, inputs, outputs):
    return {"weight": draw.normal(size=(outputs, inputs)).astype("float32"), "bias": draw.normal(size=outputs).astype("float32")}


def test_layers_take_weights_by_their_paths_and_by_names():
    draw = np.random.default_rng(0)
    first, second = linear(draw, 5, 4), linear(draw, 4, 3)
    net = nn.Sequential([nn.Input((5,)), nn.Dense(4, "relu"), nn.Dense(3, name="head")])
    x = draw.normal(size=(2, 5)).astype("float32")
    wanted = np.maximum(x @ first["weight"].T + first["bias"], 0) @ second["weight"].T + second["bias"]

    def state(a, b):
        return {f"{prefix}.{name}": value for prefix, part in ((a, first), (b, second)) for name, value in part.items()}

    for given, names in ((state("0", "1"), None), (state("body.fc", "1"), {"0": "body.fc"}), (state("0", "out"), {"head": "out"})):
        net.set_weights([np.zeros(v.shape) for v in net.variables])
        lm.interop.load_torch(net, given, names=names)
        np.testing.assert_allclose(net(x).numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_weights_come_from_a_safetensors_file_too(tmp_path):
    draw = np.random.default_rng(0)
    weights = linear(draw, 5, 4)
    lm.save_tensors(tmp_path / "w.safetensors", weights)
    layer = nn.Dense(4)
    layer(np.ones((1, 5), "float32"))
    lm.interop.load_torch(layer, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(layer.kernel.numpy(), weights["weight"].T)


def test_what_does_not_fit_is_listed_and_nothing_is_changed():
    draw = np.random.default_rng(0)
    net = nn.Sequential([nn.Input((5,)), nn.Dense(4), nn.Dense(3)])
    before = net.get_weights()
    state = {f"0.{name}": value for name, value in linear(draw, 5, 7).items()} | {"extra": np.ones(2, "float32")}
    with pytest.raises(lm.errors.NotFound, match=r"'1.kernel', '1.bias' of .* are not in the state dict(.|\n)*no 'extra'(.|\n)*0.kernel of .* has shape \(5, 4\), the state dict's has \(5, 7\)"):
        lm.interop.load_torch(net, state)
    with pytest.raises(lm.errors.Error, match="there is no layer named 'body'"):
        lm.interop.load_torch(net, state, names={"body": "0"})
    with pytest.raises(lm.errors.TypeMismatch, match="is no state dict"):
        lm.interop.load_torch(net, 3)
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights()))


def in_pytorchs_layout(x):
    """Channels first."""
    return np.moveaxis(x, -1, 1).copy()


LAYERS = {
    "Linear": (lambda t: t.nn.Linear(5, 4), lambda: nn.Dense(4), (2, 5)),
    "Conv1d": (lambda t: t.nn.Conv1d(4, 6, 3, stride=2, groups=2), lambda: nn.Conv1D(6, 3, strides=2, groups=2), (2, 9, 4)),
    "Conv2d": (lambda t: t.nn.Conv2d(3, 6, (3, 2)), lambda: nn.Conv2D(6, (3, 2)), (2, 7, 6, 3)),
    "Depthwise": (lambda t: t.nn.Conv2d(3, 6, 3, groups=3), lambda: nn.DepthwiseConv2D(3, depth_multiplier=2), (2, 7, 6, 3)),
    "ConvTranspose1d": (lambda t: t.nn.ConvTranspose1d(3, 6, 3, stride=2), lambda: nn.Conv1DTranspose(6, 3, strides=2), (2, 5, 3)),
    "ConvTranspose2d": (lambda t: t.nn.ConvTranspose2d(3, 6, 3, stride=2), lambda: nn.Conv2DTranspose(6, 3, strides=2), (2, 5, 4, 3)),
    "BatchNorm": (lambda t: t.nn.BatchNorm2d(3), lambda: nn.BatchNorm(epsilon=1e-5), (2, 5, 4, 3)),
    "GroupNorm": (lambda t: t.nn.GroupNorm(2, 4), lambda: nn.GroupNorm(2, epsilon=1e-5), (2, 5, 4, 4)),
    "LayerNorm": (lambda t: t.nn.LayerNorm(6), lambda: nn.LayerNorm(epsilon=1e-5), (2, 6)),
    "RMSNorm": (lambda t: t.nn.RMSNorm(6, eps=1e-6), lambda: nn.RMSNorm(epsilon=1e-6), (2, 6)),
    "Embedding": (lambda t: t.nn.Embedding(7, 3), lambda: nn.Embedding(7, 3), None),
    "RNN": (lambda t: t.nn.RNN(4, 5, batch_first=True), lambda: nn.SimpleRNN(5, return_sequences=True), (2, 6, 4)),
    "LSTM": (lambda t: t.nn.LSTM(4, 5, batch_first=True), lambda: nn.LSTM(5, return_sequences=True), (2, 6, 4)),
    "GRU": (lambda t: t.nn.GRU(4, 5, batch_first=True), lambda: nn.GRU(5, return_sequences=True), (2, 6, 4)),
    "Bidirectional": (lambda t: t.nn.LSTM(4, 5, batch_first=True, bidirectional=True), lambda: nn.Bidirectional(nn.LSTM(5, return_sequences=True)), (2, 6, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_with_pytorchs_weights_gives_what_pytorch_gives(name):
    t = torch()
    theirs, ours, shape = LAYERS[name]
    theirs, ours = theirs(t).eval(), ours()
    t.manual_seed(0)
    with t.no_grad():
        for value in (*theirs.parameters(), *(b for b in theirs.buffers() if b.is_floating_point())):
            value.copy_(t.rand_like(value) + 0.1)
    x = np.random.default_rng(1).normal(size=shape).astype("float32") if shape else np.arange(6).reshape(2, 3)
    ours(x)
    lm.interop.load_torch(ours, theirs.state_dict())
    first = len(x.shape) > 2 and "Conv" in name or name in ("BatchNorm", "GroupNorm", "Depthwise")
    with t.no_grad():
        wanted = theirs(t.from_numpy(in_pytorchs_layout(x) if first else x))
    wanted = (wanted[0] if isinstance(wanted, tuple) else wanted).numpy()
    np.testing.assert_allclose(ours(x).numpy(), np.moveaxis(wanted, 1, -1) if first else wanted, rtol=1e-4, atol=1e-5)


def test_a_stack_of_lstms_is_taken_layer_by_layer():
    t = torch()
    theirs = t.nn.LSTM(4, 5, num_layers=2, batch_first=True)
    net = nn.Sequential([nn.Input((6, 4)), nn.LSTM(5, return_sequences=True), nn.LSTM(5, return_sequences=True)])
    lm.interop.load_torch(net, {f"body.{name}": value for name, value in theirs.state_dict().items()}, names={"0": "body", "1": ("body", 1)})
    x = np.random.default_rng(1).normal(size=(2, 6, 4)).astype("float32")
    np.testing.assert_allclose(net(x).numpy(), theirs(t.from_numpy(x))[0].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_attention_takes_pytorchs_weights():
    t = torch()
    theirs, ours = t.nn.MultiheadAttention(8, 2, batch_first=True), nn.MultiHeadAttention(2, 4)
    x = np.random.default_rng(1).normal(size=(2, 6, 8)).astype("float32")
    ours(x, x)
    with t.no_grad():
        theirs.in_proj_bias.copy_(t.rand(24))
    lm.interop.load_torch(ours, theirs.state_dict())
    np.testing.assert_allclose(ours(x, x).numpy(), theirs(*[t.from_numpy(x)] * 3)[0].detach().numpy(), rtol=1e-4, atol=1e-5)


# --- gymnasium ---


def test_observations_of_gymnasiums_vector_environments_are_read_without_a_copy():
    gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: ./dev setup brings it")
    world = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 8, copy=False)
    state, _ = world.reset(seed=0)
    shared = lm.from_dlpack(state)
    policy = lm.function(nn.Sequential([nn.Input((4,)), nn.Dense(2)]))
    for _ in range(3):
        action = np.asarray(lm.argmax(policy(shared), 1))
        before = shared.numpy().copy()
        after, *_ = world.step(action)
        assert np.shares_memory(np.from_dlpack(shared), after) and not np.array_equal(before, shared.numpy())  # the environment has written into it
        np.testing.assert_array_equal(shared.numpy(), after)
    result = lm.argmax(policy(shared), 1)
    assert np.shares_memory(np.asarray(result), np.from_dlpack(result))
    world.close()
