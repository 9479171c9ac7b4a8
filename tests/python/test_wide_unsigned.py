"""uint16, uint32 and uint64 beside NumPy: arithmetic that wraps, comparisons, bits, casts, reductions, order, indices, borders, files."""
import numpy as np
import pytest

import lamina as lm

DTYPES = ("uint16", "uint32", "uint64")


def samples(dtype, seed=0, shape=(60,)):
    top = np.iinfo(dtype).max
    rng = np.random.default_rng(seed)
    chosen = np.array([0, 1, 2, 3, 7, 9, 200, 255, 256, 40000, 65535, top // 2, top // 2 + 1, top - 1, top], dtype=np.uint64)
    return np.concatenate([rng.choice(chosen, shape), rng.integers(0, top, shape, dtype=np.uint64)]).astype(dtype)


TWO = {"add": np.add, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "equal": np.equal, "floor_divide": np.floor_divide, "fmod": np.fmod, "greater": np.greater,
       "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal, "maximum": np.maximum, "minimum": np.minimum, "mod": np.mod, "mul": np.multiply, "not_equal": np.not_equal, "pow": np.power,
       "shift_left": np.left_shift, "shift_right": np.right_shift, "sub": np.subtract}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name, dtype):
    a, b = samples(dtype), samples(dtype, 1)
    if "shift" in name:
        b = b % np.array(8 * a.dtype.itemsize + 3, dtype)
    with np.errstate(all="ignore"):
        expected = TWO[name](a, b)
        if "shift" in name:
            expected = np.where(b < 8 * a.dtype.itemsize, TWO[name](a, b % np.array(8 * a.dtype.itemsize, dtype)), 0).astype(dtype)
        if name in ("floor_divide", "mod", "fmod"):
            expected = np.where(b == 0, 0, expected).astype(dtype)
    for fn in (getattr(lm, name), lm.function(getattr(lm, name))):
        got = fn(lm.constant(a), lm.constant(b))
        assert got.dtype.name == expected.dtype.name
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one_and_reductions(dtype):
    a = samples(dtype)
    x, square = lm.constant(a), lm.constant(a.reshape(10, 12))
    with np.errstate(all="ignore"):
        for name, expected in [("abs", a), ("bitwise_not", ~a), ("ceil", a), ("neg", (-a.astype("int64")).astype(dtype)), ("sign", np.sign(a)), ("square", a * a), ("relu", a), ("isfinite", np.ones(a.shape, bool))]:
            np.testing.assert_array_equal(getattr(lm, name)(x).numpy(), expected)
        for axis in (None, 0, -1):
            for name in ("sum", "prod", "max", "min"):
                got = getattr(lm, name)(square, axis)
                assert got.dtype.name == dtype
                np.testing.assert_array_equal(got.numpy(), getattr(np, name)(a.reshape(10, 12), axis=axis, **({"dtype": dtype} if name in ("sum", "prod") else {})))
        np.testing.assert_array_equal(lm.cumsum(x).numpy(), np.cumsum(a, dtype=dtype))
        np.testing.assert_array_equal((square @ lm.transpose(square)).numpy(), a.reshape(10, 12) @ a.reshape(10, 12).T)
    np.testing.assert_array_equal(lm.clip(x, 3, 300).numpy(), np.clip(a, 3, 300))
    np.testing.assert_allclose(lm.mean(x).item(), a.astype("float64").mean(), rtol=1e-6)
    assert lm.sqrt(x).dtype == lm.float32 and (x / 2).dtype == lm.float32 and (x + 1).dtype.name == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_order(dtype):
    a = samples(dtype)
    x = lm.constant(a)
    for descending in (False, True):
        np.testing.assert_array_equal(lm.sort(x, descending=descending).numpy(), np.sort(a)[::-1 if descending else 1])
    np.testing.assert_array_equal(lm.argsort(x).numpy(), np.argsort(a, kind="stable"))
    assert lm.argmax(x).item() == a.argmax() and lm.argmin(x).item() == a.argmin()
    np.testing.assert_array_equal(lm.unique(x)[0].numpy() if isinstance(lm.unique(x), tuple) else lm.unique(x).numpy(), np.unique(a))
    np.testing.assert_array_equal(lm.top_k(x, 5)[0].numpy(), np.sort(a)[::-1][:5])
    np.testing.assert_array_equal(lm.searchsorted(lm.sort(x), x).numpy(), np.searchsorted(np.sort(a), a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_moves_and_indices(dtype):
    a = samples(dtype).reshape(10, 12)
    x, i = lm.constant(a), lm.constant(np.array([3, 0, 9], dtype))
    for got, expected in [(lm.transpose(x), a.T), (x[2:, ::-3], a[2:, ::-3]), (lm.concat([x, x], 1), np.concatenate([a, a], 1)), (lm.where(x > 7, x, 0), np.where(a > 7, a, 0)), (x[i], a[[3, 0, 9]]), (lm.gather(x, i), a[[3, 0, 9]]),
                          (x.at[i].set(5), np.where(np.isin(np.arange(10), [3, 0, 9])[:, None], 5, a)), (x.at[0].add(x[1]), np.concatenate([a[:1] + a[1:2], a[1:]])), (x.at[0].max(x[1]), np.concatenate([np.maximum(a[:1], a[1:2]), a[1:]])),
                          (lm.scatter_add(x, lm.zeros([10], "int64"), [1, 12]), a.sum(0, keepdims=True, dtype=dtype))]:
        assert got.dtype.name == dtype
        np.testing.assert_array_equal(got.numpy(), expected)
    assert lm.one_hot(i, 10).numpy().argmax(1).tolist() == [3, 0, 9] and lm.one_hot(i, 10, dtype).dtype.name == dtype and list(range(12))[lm.constant(4, dtype)] == 4
    assert lm.arange(5, dtype=dtype).numpy().tolist() == [0, 1, 2, 3, 4] and lm.eye(2, dtype=dtype).numpy().tolist() == [[1, 0], [0, 1]] and lm.random.uniform([3]).shape == (3,)


@pytest.mark.parametrize("mode", (lambda f: f, lm.function), ids=("eager", "traced"))
def test_an_index_beyond_int64_is_out_of_range(mode):
    u, x = lm.constant([2**64 - 1], "uint64"), lm.constant([1.0, 2.0, 3.0])
    for call in (lambda x, u: lm.take(x, u, 0), lambda x, u: x[u], lambda x, u: x.at[u].set(9.0), lambda x, u: lm.stack([x, x])[lm.constant([0]), u], lambda x, u: lm.scatter_add(x[:1], u, [3]), lambda x, u: lm.bincount(u, length=3),
                 lambda x, u: lm.take_along_axis(x, u, 0), lambda x, u: lm.scatter_add(lm.constant([1], "uint64"), u, [3]), lambda x, u: lm.constant([1, 2, 3], "uint64").at[u].add(lm.constant([1], "uint64"))):
        with pytest.raises(lm.errors.IndexOutOfRange, match="is out of range"):
            mode(call)(x, u).numpy()
    assert mode(lambda u: lm.one_hot(u, 3))(u).numpy().tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype):
    a = samples(dtype)
    for other in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64"):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(lm.astype(lm.constant(a), other).numpy(), a.astype(other))
    import ml_dtypes

    np.testing.assert_array_equal(lm.astype(lm.astype(lm.constant(a), "bfloat16"), "float32").numpy(), a.astype(ml_dtypes.bfloat16).astype("float32"))
    top = np.iinfo(dtype).max
    floats = np.array([0.0, 1.9, -3.0, 70000.5, 1e30, -np.inf, np.nan, 255.99])
    expected = [0, 1, 0, min(70000, top), top, 0, 0, 255]
    for kind in ("float32", "float64"):
        np.testing.assert_array_equal(lm.astype(lm.constant(floats.astype(kind)), dtype).numpy().tolist(), [0, 1, 0, min(70000, top), top, 0, 0, 255] if kind == "float64" else [min(int(v), top) for v in [0, 1, 0, np.float32(70000.5), top, 0, 0, np.float32(255.99)]])
    assert expected[3] == min(70000, top)
    np.testing.assert_array_equal(lm.astype(lm.constant(np.array([-1, 5], "int64")), dtype).numpy(), np.array([-1, 5], "int64").astype(dtype))


def test_numbers_and_refusals():
    assert lm.constant(2**64 - 1, "uint64").item() == 2**64 - 1 and lm.constant([2**63, 1]).dtype == lm.uint64 and lm.constant([2**64 - 1], "uint64").tolist() == [2**64 - 1] and int(lm.constant(2**63, "uint64")) == 2**63
    assert str(lm.constant([1, 2**63], "uint64")) == "lm.Tensor([                  1 9223372036854775808], shape=(2,), dtype=uint64)"
    for call, kind in [(lambda: lm.constant(-1, "uint16"), lm.errors.InvalidArgument), (lambda: lm.constant(65536, "uint16"), lm.errors.InvalidArgument), (lambda: lm.constant([1], "uint16") + lm.constant([1], "int16"), lm.errors.TypeMismatch),
                       (lambda: lm.constant([1], "uint32") + (-1), lm.errors.TypeMismatch), (lambda: lm.constant([1], "uint16") + 1.5, lm.errors.TypeMismatch)]:
        with pytest.raises(kind):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_branches_and_models(dtype):
    a = samples(dtype)[:4]
    x = lm.constant(a)
    half = lambda n: lm.while_loop(lambda c: c > 9, lambda c: c // 2, n)
    for got in (lm.stack([half(one) for one in x]), lm.vmap(half)(x), lm.function(lm.vmap(half))(x)):
        expected = a.copy()
        while (expected > 9).any():
            expected = np.where(expected > 9, expected // 2, expected).astype(dtype)
        assert got.dtype.name == dtype and got.tolist() == expected.tolist()
    total, parts = lm.function(lambda x: lm.scan(lambda c, v: (c + v, c), x[0], x))(x)
    with np.errstate(over="ignore"):
        assert total.item() == int(a[0] + a.sum(dtype=dtype)) % 2 ** (8 * a.itemsize) and parts.dtype.name == dtype
    assert lm.vmap(lambda n: lm.cond(n > 9, lambda: n, lambda: n * 0))(x).tolist() == np.where(a > 9, a, 0).tolist()


def test_borders_files_and_draws(tmp_path):
    for dtype in DTYPES:
        a = samples(dtype)
        x = lm.constant(a)
        assert x.dtype.name == dtype and (np.asarray(x) == a).all() and (np.from_dlpack(x) == a).all() and (lm.from_dlpack(a).numpy() == a).all()
        lm.save_tensors(tmp_path / "t.safetensors", {"x": x})
        assert (lm.load_tensors(tmp_path / "t.safetensors")["x"].numpy() == a).all()
        module = lm.Module()
        module.call = lm.function(lambda x: x * 3 // 2, input_signature=[lm.TensorSpec([None], dtype)])
        lm.save(module, tmp_path / "m")
        np.testing.assert_array_equal(lm.load(tmp_path / "m").call(x).numpy(), a * np.array(3, dtype) // np.array(2, dtype))


def test_where_refuses_a_condition_that_is_no_bool():
    for d in DTYPES:
        x = lm.constant(samples(d))
        with pytest.raises(lm.errors.TypeMismatch, match="where"):
            lm.where(x, x, x)


def test_errors_name_the_dtype_of_the_operands():
    for d in DTYPES:
        a, b, m = lm.ones(3, d), lm.ones(4, d), lm.ones((4, 4), d)
        name = "u" + d[4:]
        for wrong in (lambda: a + b, lambda: a // b, lambda: a < b, lambda: lm.maximum(a, b), lambda: a @ m, lambda: lm.sum(a, 3), lambda: lm.argmax(a, 4), lambda: lm.function(lambda x, y: x - y)(a, b)):
            with pytest.raises(lm.errors.InvalidArgument) as caught:
                wrong()
            assert f"{name}[" in caught.value.what and "i64[" not in str(caught.value)
