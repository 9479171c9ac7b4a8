"""State dicts, and arrays shared with other libraries."""
import gc, os

import numpy as np
import pytest

import lamina as lm

nn = lm.nn


class Net(nn.Model):
    def __init__(self):
        super().__init__()
        self.hidden = [nn.Dense(4, activation="tanh"), nn.Dense(4)]
        self.heads = {"a": nn.Dense(1), "b": nn.BatchNorm()}
        self.scale = lm.Variable(2.0)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.heads["b"](self.heads["a"](x)) * self.scale


def built():
    net = Net()
    net(lm.ones([2, 3]))
    return net


def test_a_state_dict_names_what_leads_to_each_variable():
    state = built().state_dict()
    assert list(state) == ["hidden.0.kernel", "hidden.0.bias", "hidden.1.kernel", "hidden.1.bias", "heads.a.kernel", "heads.a.bias", "heads.b.gamma",
                           "heads.b.beta", "heads.b.moving_mean", "heads.b.moving_variance", "scale"]
    assert all(isinstance(v, np.ndarray) for v in state.values()) and state["hidden.0.kernel"].shape == (3, 4)
    flat = nn.Sequential([nn.Dense(2), nn.Dense(1)])
    flat(lm.ones([1, 3]))
    assert list(flat.state_dict()) == ["0.kernel", "0.bias", "1.kernel", "1.bias"]


def test_a_state_goes_through_a_file_without_pickle(tmp_path):
    one, other = built(), built()
    x = lm.random.normal([5, 3])
    np.savez(tmp_path / "net.npz", **one.state_dict())
    assert not np.array_equal(one(x).numpy(), other(x).numpy())
    with np.load(tmp_path / "net.npz", allow_pickle=False) as state:
        other.load_state_dict(state)
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())


def test_a_state_that_does_not_fit_changes_nothing():
    net = built()
    state = net.state_dict()
    kept = {k: v.copy() for k, v in state.items()}

    def refused(error, match, **changes):
        wrong = {k: v + 1 for k, v in kept.items()}
        for name, value in changes.items():
            if value is None:
                del wrong[name.replace("__", ".")]
            else:
                wrong[name.replace("__", ".")] = value
        with pytest.raises(error, match=match):
            net.load_state_dict(wrong)
        for name, value in net.state_dict().items():
            np.testing.assert_array_equal(value, kept[name])

    refused(KeyError, "'hidden.1.bias' of net.* is not in the state dict", hidden__1__bias=None)
    refused(KeyError, "has no 'hidden.9.bias'", hidden__9__bias=np.zeros(3, "float32"))
    refused(ValueError, r"hidden.0.kernel of net.* has shape \(3, 4\), the state dict's has \(4, 3\)", hidden__0__kernel=np.zeros((4, 3), "float32"))
    refused(TypeError, "scale of net.* is float32, the state dict's is float64", scale=np.float64(3))
    with pytest.raises(TypeError, match="a list is not a state dict"):
        net.load_state_dict([1, 2])
    with pytest.raises(RuntimeError, match="do not exist yet"):
        nn.Dense(3).load_state_dict({})
    net.load_state_dict({"scale": np.float32(7), "other": np.zeros(1)}, strict=False)
    assert net.scale.numpy() == 7


def test_bfloat16_weights_come_as_float32():
    layer = nn.Dense(2, dtype="bfloat16")
    layer(lm.ones([1, 3], dtype="bfloat16"))
    state = layer.state_dict()
    assert state["kernel"].dtype == np.float32
    other = nn.Dense(2, dtype="bfloat16")
    other(lm.ones([1, 3], dtype="bfloat16"))
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.state_dict()["kernel"], state["kernel"])


def test_training_goes_on_where_the_states_were_taken():
    x, y = lm.random.normal([16, 3]), lm.random.normal([16, 1])

    def trained(net, optimizer, steps):
        for _ in range(steps):
            with lm.GradientTape() as tape:
                cost = lm.losses.mse(y, net(x, training=True))
            variables = net.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(cost, variables), variables))

    one, optimizer = built(), lm.optim.Adam(0.01)
    trained(one, optimizer, 3)
    model_state, optimizer_state = one.state_dict(), optimizer.state_dict()
    assert len(optimizer_state) == 2 + 2 * len(one.trainable_variables)
    trained(one, optimizer, 3)

    other, fresh = built(), lm.optim.Adam(0.5)
    other.load_state_dict(model_state)
    with pytest.raises(KeyError):
        fresh.load_state_dict(optimizer_state)
    fresh.build(other.trainable_variables)
    # Names of slots hold the names of layers, which differ between the two models.
    fresh.load_state_dict(dict(zip(fresh.state_dict(), optimizer_state.values())))
    assert fresh.iterations.numpy() == 3
    trained(other, fresh, 3)
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value)


# --- arrays shared with NumPy ---

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_takes_tensors_by_dlpack_and_gives_them_back(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    t = lm.constant(a)
    seen = np.from_dlpack(t)
    assert seen.dtype == a.dtype and not seen.flags.writeable
    np.testing.assert_array_equal(seen, a)
    back = lm.from_dlpack(a)
    np.testing.assert_array_equal(back.numpy(), a)
    assert back.dtype == t.dtype


def test_shared_memory_is_the_same_memory():
    a = np.arange(6, dtype="float32")
    t = lm.from_dlpack(a)
    a[2] = 50
    assert t.tolist() == [0, 1, 50, 3, 4, 5]
    assert np.shares_memory(np.from_dlpack(t), a)
    u = lm.constant(a)
    assert np.from_dlpack(u).ctypes.data == np.from_dlpack(u).ctypes.data
    assert np.from_dlpack(u, copy=True).flags.writeable


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a.T, lambda a: a[1:, 1:3], lambda a: np.broadcast_to(a[0], (3, 6))])
def test_strided_arrays_are_taken(view):
    a = view(np.arange(24, dtype="int32").reshape(4, 6))
    np.testing.assert_array_equal(lm.from_dlpack(a).numpy(), a)
    np.testing.assert_array_equal(lm.constant(a).numpy(), a)


def test_read_only_arrays_are_taken():
    a = np.arange(4.0)
    a.setflags(write=False)
    np.testing.assert_array_equal(lm.from_dlpack(a).numpy(), a)
    assert (lm.from_dlpack(a) + 1.0).tolist() == [1, 2, 3, 4]


def test_memory_lives_as_long_as_anyone_looks_at_it():
    seen = np.from_dlpack(lm.constant(np.arange(1000, dtype="int64")) + 1)
    view = np.asarray(memoryview(lm.constant(np.arange(1000, dtype="int64"))))
    t = lm.from_dlpack(np.arange(1000, dtype="int64").copy())
    gc.collect()
    junk = [np.full(1000, 7, "int64") for _ in range(50)]
    assert seen.sum() == 500500 and view.sum() == 499500 and lm.sum(t).item() == 499500 and len(junk) == 50


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(TypeError):
        lm.from_dlpack([1, 2])
    with pytest.raises(TypeError):
        lm.from_dlpack(np.zeros(2, "complex64"))
    with pytest.raises(TypeError):
        lm.from_dlpack(np.zeros(2, "uint32"))
    seen = []

    @lm.function
    def f(x):
        with pytest.raises(Exception, match="does not exist yet"):
            x.__dlpack__()
        seen.append(1)
        return x
    f(lm.ones([2]))
    assert seen == [1]
    with pytest.raises(BufferError):
        lm.ones([2]).__dlpack__(dl_device=(2, 0))
    assert lm.ones([2]).__dlpack_device__() == (1, 0)


def test_empty_and_scalar_arrays_are_shared():
    for a in (np.zeros((0, 3), "float32"), np.array(3.5)):
        assert lm.from_dlpack(a).shape == a.shape and np.from_dlpack(lm.constant(a)).shape == a.shape


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries_share_arrays(library):
    """With --long, and where they are installed."""
    if not os.environ.get("LAMINA_TEST_LONG"):
        pytest.skip(f"{library} takes seconds to import: only with --long")
    other = pytest.importorskip(library, reason=f"{library} is not installed")
    a = np.arange(12, dtype="float32").reshape(3, 4)
    if library == "torch":
        theirs = other.from_dlpack(lm.constant(a))
        ours = [lm.from_dlpack(other.from_numpy(a)), lm.from_dlpack(other.from_numpy(a).t()), lm.from_dlpack(other.ones(3, dtype=other.bfloat16))]
        assert ours[2].dtype == lm.bfloat16
    else:
        theirs = other.dlpack.from_dlpack(lm.constant(a)) if hasattr(other, "dlpack") else other.numpy.from_dlpack(lm.constant(a))
        ours = [lm.from_dlpack(other.numpy.asarray(a)), lm.from_dlpack(other.numpy.asarray(a).T)]
    np.testing.assert_array_equal(np.asarray(theirs), a)
    np.testing.assert_array_equal(ours[0].numpy(), a)
    np.testing.assert_array_equal(ours[1].numpy(), a.T)
