"""Memory shared by DLPack: with NumPy always; with PyTorch and JAX in long runs (LAMINA_TEST_LONG=1), where they are installed."""
import gc
import os
import weakref

import numpy as np
import pytest

import lamina as lm

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "complex64", "complex128", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


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


def test_usual_bools_are_shared():
    a = np.array([True, False] * 9)
    t = lm.from_dlpack(a)
    a[1] = True
    assert t.numpy()[:3].tolist() == [True, True, True]


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
    with pytest.raises(lm.errors.InvalidArgument, match="longdouble"):
        lm.from_dlpack(np.zeros(2, "clongdouble"))
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


def test_an_array_lives_as_long_as_a_tensor_of_it():
    class Owner(np.ndarray):
        pass

    a = np.arange(5.0).view(Owner)
    gone = weakref.ref(a)
    t = lm.from_dlpack(a)
    u = t + 0.0
    del a
    gc.collect()
    assert gone() is not None and t.tolist() == u.tolist() == [0, 1, 2, 3, 4]
    del t
    gc.collect()
    assert gone() is None


def test_a_tensor_lives_as_long_as_an_array_of_it():
    seen = np.from_dlpack(lm.arange(1000) * 2)
    gc.collect()
    np.testing.assert_array_equal(seen, np.arange(1000) * 2)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (2, 3, 4, 5)])
def test_every_shape_goes_both_ways(shape):
    a = np.asarray(np.random.randn(*shape), "float32")
    np.testing.assert_array_equal(np.from_dlpack(lm.constant(a)), a)
    np.testing.assert_array_equal(lm.from_dlpack(a).numpy(), a)


def test_arrays_of_variables_and_results_do_not_change_with_them():
    v = lm.Variable(np.ones(4, "float32"))
    before = np.from_dlpack(v.read())
    v.assign(v * 3)
    np.testing.assert_array_equal(before, np.ones(4))

    @lm.function
    def step():
        v.assign(v + 1)
        return v.read()

    first = np.from_dlpack(step())
    step()
    np.testing.assert_array_equal(first, np.full(4, 4))


def test_a_refusal_is_told_with_its_reason():
    class Refusing:
        def __dlpack__(self, **options):
            raise BufferError("this memory is mine")

    class Wrong(Refusing):
        def __dlpack__(self, max_version=None):
            return 5

    with pytest.raises(lm.errors.InvalidArgument) as info:
        lm.from_dlpack(Refusing())
    assert str(info.value).startswith("from_dlpack: the array cannot be shared\n") and "its library says: this memory is mine" in str(info.value)
    with pytest.raises(lm.errors.InvalidArgument, match="what its __dlpack__ returned is no DLPack capsule"):
        lm.from_dlpack(Wrong())


# --- the real frameworks ---


def real(name):
    if os.environ.get("LAMINA_TEST_LONG") != "1":
        pytest.skip(f"{name} is imported in long runs: LAMINA_TEST_LONG=1")
    return pytest.importorskip(name, reason=f"{name} is not installed; ./dev test --long runs this file again where it is")


PEER_DTYPES = [d for d in DTYPES if d != "bool"] + ["bool", "bfloat16"]


def wide(dtype):
    return "complex128" if dtype.startswith("complex") else "float64"


@pytest.mark.parametrize("dtype", PEER_DTYPES)
def test_torch_tensors_and_back(dtype):
    torch = real("torch")
    a = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    t = lm.from_dlpack(a)
    assert t.dtype == getattr(lm, dtype)
    np.testing.assert_array_equal(lm.astype(t, wide(dtype)).numpy(), a.to(getattr(torch, wide(dtype))).numpy())
    back = torch.from_dlpack(t)
    assert back.dtype == a.dtype and torch.equal(back, a)
    assert back.data_ptr() == a.data_ptr(), "the memory is shared"


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1:3], lambda a: a[0].expand(3, 4), lambda a: a[0, 0]])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_torch_views_are_taken(view, dtype):
    torch = real("torch")
    a = view(torch.arange(12).reshape(3, 4).to(getattr(torch, dtype)))
    np.testing.assert_array_equal(lm.astype(lm.from_dlpack(a), lm.float64).numpy(), a.double().numpy())


def test_torch_and_lamina_see_each_others_changes():
    torch = real("torch")
    a = torch.randn(20, 8)
    t = lm.from_dlpack(a)
    a.mul_(2)
    np.testing.assert_array_equal(t.numpy(), a.numpy())
    ours = torch.from_dlpack(lm.tanh(t @ lm.transpose(t)))
    torch.testing.assert_close(ours, torch.tanh(a @ a.T), rtol=1e-5, atol=1e-5)


def test_torch_parameters_are_taken_when_detached():
    torch = real("torch")
    layer = torch.nn.Linear(3, 2)
    with pytest.raises(lm.errors.InvalidArgument, match="requires? grad.*detach"):
        lm.from_dlpack(layer.weight)
    np.testing.assert_array_equal(lm.from_dlpack(layer.weight.detach()).numpy(), layer.weight.detach().numpy())


@pytest.mark.parametrize("dtype", PEER_DTYPES)
def test_jax_arrays_and_back(dtype):
    jax = real("jax")
    jax.config.update("jax_enable_x64", True)
    a = jax.numpy.arange(12).reshape(3, 4).astype(dtype)
    t = lm.from_dlpack(a)
    np.testing.assert_array_equal(lm.astype(t, wide(dtype)).numpy(), np.asarray(a).astype(wide(dtype)))
    back = jax.dlpack.from_dlpack(t)
    assert back.dtype == a.dtype and bool((back == a).all())


def test_jax_computes_with_results():
    jax = real("jax")
    x = np.random.randn(5, 4).astype("float32")
    ours = jax.dlpack.from_dlpack(lm.softmax(lm.constant(x)))
    np.testing.assert_allclose(np.asarray(jax.jit(lambda a: a.sum(-1))(ours)), np.ones(5), rtol=1e-6)
    np.testing.assert_allclose(lm.from_dlpack(jax.nn.softmax(x)).numpy(), np.asarray(ours), rtol=1e-5)


class Foreign:
    """An array of a library whose dtypes are its own, as PyTorch's are."""

    class Kind:
        def __repr__(self):
            return "foreign.float32"

    def __init__(self, array, refuses=None):
        self.array, self.shape, self.dtype, self.refuses = array, array.shape, Foreign.Kind(), refuses

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        return Foreign(self.array[i])

    def __dlpack__(self, **options):
        return self._given().__dlpack__(**options)

    def __array__(self, dtype=None, copy=None):
        return self._given()

    def _given(self):
        if self.refuses:
            raise RuntimeError(self.refuses)
        return self.array

    def __dlpack_device__(self):
        return 1, 0


class Own(lm.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = lm.nn.Dense(2)

    def call(self, x):
        return self.inner(x) * 2


@pytest.mark.parametrize("layer, shape", [
    (lambda: lm.nn.Dense(2), (2, 3)), (lambda: lm.nn.LSTM(2), (2, 4, 3)), (lambda: lm.nn.BatchNorm(), (2, 3)), (lambda: lm.nn.Flatten(), (2, 3)), (Own, (2, 3)),
    (lambda: lm.nn.Sequential([lm.nn.Dense(2)]), (2, 3)), (lambda: lm.nn.Model(x := lm.nn.Input((3,)), lm.nn.Dense(1)(x)), (2, 3)),
])
def test_layers_take_arrays_of_libraries_with_dtypes_of_their_own(layer, shape):
    lm.random.set_seed(0)
    first, x = layer(), np.random.default_rng(0).normal(size=shape).astype("float32")
    given = first(Foreign(x))  # builds it
    assert np.array_equal(given.numpy(), first(x).numpy()) and np.array_equal(first(Foreign(x)).numpy(), given.numpy())


def test_several_arrays_of_other_libraries():
    x = np.ones((1, 2, 4), "float32")
    assert lm.nn.MultiHeadAttention(1, 2)(Foreign(x), Foreign(x)).shape == (1, 2, 4)
    assert lm.nn.Add()([Foreign(x), Foreign(x)]).numpy().tolist() == (x + x).tolist()


def test_what_a_library_does_not_give_away_is_to_be_converted_by_it():
    held = Foreign(np.ones(2, "float32"), "it requires a gradient")
    for call in (lm.constant, lambda x: lm.nn.Dense(1)(x), lm.function(lambda x: x * 2)):
        with pytest.raises(lm.errors.InvalidArgument, match="a Foreign of another library does not become a tensor") as caught:
            call(held)
        assert "requires a gradient" in caught.value.why and "lm.constant" not in caught.value.fix and "detach" in caught.value.fix
    with pytest.raises(lm.errors.InvalidArgument, match="cannot be shared") as caught:
        lm.from_dlpack(held)
    assert "lm.constant" in caught.value.fix


def test_a_variable_gives_its_value_of_the_moment():
    v = lm.Variable([1.0, 2.0])
    before = np.from_dlpack(v)
    v.assign([5.0, 6.0])
    assert before.tolist() == [1, 2] and np.from_dlpack(v).tolist() == [5, 6] and v.__dlpack_device__() == (1, 0)
    assert lm.from_dlpack(v).tolist() == [5, 6]


def test_predict_takes_what_fit_takes():
    class Loader:
        def __iter__(self):
            return iter([(np.ones((2, 3), "float32"), np.ones((2, 1), "float32")), (np.zeros((1, 3), "float32"), np.ones((1, 1), "float32"))])

    net = lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    net.fit(Loader(), epochs=2, verbose=0)
    assert net.predict(Loader()).tolist() == net.predict(np.array([[1] * 3, [1] * 3, [0] * 3], "float32")).tolist() and np.isfinite(net.evaluate(Loader()))
