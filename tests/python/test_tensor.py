"""lm.Tensor: creation, operators, indexing, and conversion to Python and NumPy values."""
import array, collections, copy, math, pickle, weakref

import numpy as np
import pytest

import lamina as lm

c = lm.constant


@pytest.mark.parametrize("value, dtype", [
    (1, "int32"), (1.0, "float32"), (True, "bool"), ([1, 2.5], "float32"), ([[True], [False]], "bool"), ([], "float32"),
    (np.array([1.0]), "float64"), (np.arange(2), "int64"), (np.float32(1), "float32"), (np.float64(1), "float64"), (np.array(1, "int8"), "int8"),
    (np.array([1, 2], "uint8"), "uint8"), (np.array([0.5], "float16"), "float16"), (np.bool_(True), "bool"), (np.int16(3), "int16"),
])
def test_constant_infers_the_dtype(value, dtype):
    t = c(value)
    assert t.dtype == dtype and t.numpy().dtype == dtype
    assert np.array_equal(t.numpy(), np.asarray(value, dtype))
    assert t.shape == np.shape(value)


def test_constant_takes_a_dtype():
    assert c(1, dtype="float64").dtype == lm.float64
    assert c([1, 2], dtype=lm.int8).numpy().tolist() == [1, 2]
    assert c(2.5, dtype=lm.bfloat16).astype("float32").item() == 2.5
    assert c(np.arange(3), dtype="float32").dtype == lm.float32
    assert c(c(1), dtype="int64").dtype == lm.int64


def test_constant_copies_strided_and_foreign_byte_order_arrays():
    a = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(c(a.T).numpy(), a.T) and np.array_equal(c(a[:, ::2]).numpy(), a[:, ::2])
    assert np.array_equal(c(a.astype(">f4")).numpy(), a) and c(a.astype(">f4")).dtype == lm.float32
    t = c(a)
    a[:] = 0
    assert t.numpy()[2, 3] == 11


def test_constant_stacks_tensors_inside_lists():
    t = c([c([1.0, 2.0]), [3.0, 4.0]])
    assert t.numpy().tolist() == [[1, 2], [3, 4]]
    assert c([np.float32(1), np.float32(2)]).dtype == lm.float32


@pytest.mark.parametrize("value, error, words", [
    ([[1, 2], [3]], ValueError, "do not form a rectangle"),
    ([1, [2]], ValueError, "do not form a rectangle"),
    ([True, 1], TypeError, "mixed"),
    ("text", TypeError, "str"),
    (None, TypeError, "NoneType"),
    (object(), TypeError, "object"),
    ([object()], TypeError, "object"),
    (2**40, ValueError, "does not fit int32"),
    (2**70, ValueError, "64 bits"),
    (np.array([1j], "clongdouble"), TypeError, "complex256"),
    (np.array(["a"]), TypeError, "<U1"),
    (np.array([object()]), TypeError, "not a number"),
    (np.zeros(3, "datetime64[s]"), TypeError, "datetime64"),
])
def test_constant_refuses_what_is_no_array_of_numbers(value, error, words):
    with pytest.raises(error, match=words) as e:
        c(value)
    assert isinstance(e.value, lm.errors.Error)


def test_constant_refuses_a_number_that_does_not_fit_the_dtype():
    with pytest.raises(lm.errors.InvalidArgument, match="300 does not fit uint8"):
        c([1, 300], dtype="uint8")
    with pytest.raises(lm.errors.TypeMismatch, match="fraction"):
        c(1.5, dtype="int32")
    with pytest.raises(lm.errors.NotFound, match="float31"):
        c(1, dtype="float31")


def test_text_shows_value_shape_and_dtype():
    assert str(c(6)) == repr(c(6)) == "lm.Tensor(6, shape=(), dtype=int32)"
    assert str(c([1.0, 1.0, 1.0])) == "lm.Tensor([1. 1. 1.], shape=(3,), dtype=float32)"
    seen = []
    lm.function(lambda x: seen.append(repr(x + 1)) or x)(lm.ones((2, 2)))
    assert 'shape=(2, 2), dtype=float32' in seen[0] and seen[0].startswith('lm.Tensor("add') and "[" not in seen[0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_numpy_round_trip(dtype, shape):
    a = np.random.default_rng(0).uniform(0, 2, shape).astype(dtype)
    t = c(a)
    for b in (t.numpy(), np.asarray(t), np.array(t), np.from_dlpack(t), lm.from_dlpack(a).numpy(), pickle.loads(pickle.dumps(t)).numpy(),
              copy.deepcopy(t).numpy()):
        assert b.dtype == a.dtype and b.shape == a.shape and np.array_equal(a, b)


def test_numpy_is_a_copy_and_views_are_read_only():
    t = c([1.0, 2.0])
    t.numpy()[0] = 9
    assert t.numpy().tolist() == [1, 2]
    view = np.asarray(t)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 9
    assert not memoryview(t).c_contiguous or memoryview(t).readonly
    with pytest.raises(ValueError):
        np.from_dlpack(t)[0] = 9


def test_views_keep_the_memory_alive():
    view, capsule = np.asarray(c(np.arange(1000.0))), np.from_dlpack(c(np.arange(1000.0)))
    for _ in range(10):
        c(np.zeros(1000))
    assert np.array_equal(view, np.arange(1000.0)) and np.array_equal(capsule, np.arange(1000.0))


def test_array_takes_dtype_and_copy():
    t = c([1, 2])
    assert np.asarray(t, dtype="float64").dtype == np.float64
    assert t.__array__(copy=True).flags.writeable
    with pytest.raises(ValueError):
        t.__array__("float64", copy=False)


@pytest.mark.parametrize("take", [lm.constant, lm.from_dlpack, lambda b: lm.constant([b])[0], lambda b: lm.Variable(b).read(), lambda b: lm.function(lambda x: x)(b),
                                  lambda b: lm.constant(np.asfortranarray(np.stack([b, b], 1)))[:, 0], lambda b: lm.from_dlpack(np.repeat(b, 2)[::2])])
def test_bytes_of_bools_other_than_0_and_1_are_true(take):
    b = np.frombuffer(bytes([255, 0, 2, 1, 0] * 7), bool)
    want = b.view("uint8") > 0
    t = take(b)
    assert lm.sum(t).item() == want.sum() and np.array_equal((t == True).numpy(), want) and np.array_equal((lm.ones(35) * t).numpy(), want)  # noqa: E712
    assert np.array_equal(t.numpy().view("uint8"), want.view("uint8")) and b.view("uint8")[0] == 255


def test_dlpack_shares_memory_with_numpy():
    a = np.arange(6.0, dtype="float32").reshape(2, 3)
    t = lm.from_dlpack(a)
    a[0, 0] = 42
    assert t.numpy()[0, 0] == 42
    assert t.__dlpack_device__() == (1, 0)
    assert np.array_equal(lm.from_dlpack(a.T).numpy(), a.T)  # not row-major: copied
    a_ref = weakref.ref(a)
    del a
    assert a_ref() is not None and t.numpy()[0, 0] == 42
    del t
    assert a_ref() is None
    with pytest.raises(TypeError, match="__dlpack__"):
        lm.from_dlpack([1.0])


def test_bfloat16_has_no_numpy_form():
    t = c([1.5, 2.5], dtype=lm.bfloat16)
    with pytest.raises(lm.errors.TypeMismatch, match="astype"):
        t.numpy()
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(t)
    assert t.astype("float32").tolist() == [1.5, 2.5]
    assert pickle.loads(pickle.dumps(t)).dtype == lm.bfloat16


def test_python_numbers():
    assert float(c(1.5)) == 1.5 and int(c(2.7)) == 2 and int(c(7)) == 7 and bool(c(0.0)) is False and bool(c([[3]])) is True
    assert [10, 20, 30][c(1)] == 20 and c(True).item() is True and c(5).item() == 5 and isinstance(c(1.0).item(), float)
    assert f"{c(1.23456):.2f}" == "1.23" and f"{c(3)}" == str(c(3))
    for convert in (float, int, bool, lambda t: t.item()):
        with pytest.raises(ValueError):
            convert(c([1.0, 2.0]))
    with pytest.raises(TypeError, match="integer"):
        [1][c(0.0)]


def test_len_and_iteration():
    t = c([[1, 2], [3, 4], [5, 6]])
    assert len(t) == 3 and [row.numpy().tolist() for row in t] == [[1, 2], [3, 4], [5, 6]] and t.ndim == 2 and t.size == 6
    with pytest.raises(TypeError):
        len(c(1))
    with pytest.raises(TypeError):
        iter(c(1))


OPERATORS = [
    ("+", lambda a, b: a + b), ("-", lambda a, b: a - b), ("*", lambda a, b: a * b), ("/", lambda a, b: a / b), ("//", lambda a, b: a // b),
    ("%", lambda a, b: a % b), ("**", lambda a, b: a ** b), ("<", lambda a, b: a < b), ("<=", lambda a, b: a <= b), (">", lambda a, b: a > b),
    (">=", lambda a, b: a >= b), ("==", lambda a, b: a == b), ("!=", lambda a, b: a != b),
]


@pytest.mark.parametrize("name, op", OPERATORS)
def test_operators_agree_with_numpy(name, op):
    a, b = np.array([[1.5, 2.0], [3.0, 4.5]], "float32"), np.array([2.0, 1.5], "float32")
    for left, right in ((c(a), c(b)), (c(a), 2.0), (2.0, c(a)), (c(a), b), (a, c(b)), (lm.Variable(a), c(b)), (c(a), lm.Variable(b)), (3, c(a)), (c(a), np.float64(2))):
        got = op(left, right)
        x, y = (v.numpy() if hasattr(v, "numpy") else v for v in (left, right))
        want = op(np.asarray(x, "float32"), np.asarray(y, "float32"))
        assert isinstance(got, lm.Tensor) and got.dtype == (want.dtype if want.dtype == bool else "float32")
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("name, op", [o for o in OPERATORS if o[0] not in ("/", "**")])
def test_integer_operators_agree_with_numpy(name, op):
    a, b = np.array([7, -7, 5], "int32"), np.array([2, 2, -3], "int32")
    np.testing.assert_array_equal(op(c(a), c(b)).numpy(), op(a, b))
    assert op(c(a), 2).dtype in ("int32", "bool")


def test_unary_operators_and_matmul():
    a = c([[1.0, -2.0], [3.0, 4.0]])
    assert (-a).numpy().tolist() == [[-1, 2], [-3, -4]] and abs(a).numpy().min() == 1 and (+a).numpy()[0, 1] == -2
    assert (a @ a).numpy().tolist() == [[-5, -10], [15, 10]] and (a @ c([1.0, 1.0])).shape == (2,) and (c([1.0, 1.0]) @ c([2.0, 3.0])).item() == 5
    assert a.T.numpy().tolist() == [[1, 3], [-2, 4]]
    flags = c([True, False])
    assert (~flags).tolist() == [False, True] and (flags & True).tolist() == [True, False] and (flags | c([False, False])).tolist() == [True, False]


def test_numbers_are_weak_and_tensors_are_not():
    assert (c(2) - 1).dtype == lm.int32 and (c(2.0) - 1).dtype == lm.float32 and (1 - c(2)).item() == -1
    assert (c(1, dtype="float64") * 0.5).dtype == lm.float64 and (c(1, dtype="int8") + 1).dtype == lm.int8
    for op in (lambda: c(2) * 1.5, lambda: c(2) + c(2.0), lambda: c(2.0) + np.array([1]), lambda: lm.matmul(c([[1]]), c([[1.0]]))):
        with pytest.raises(lm.errors.TypeMismatch, match="astype"):
            op()


def test_comparison_with_other_things_is_pythons():
    assert (c(1) == None) is False and (c(1) != "x") is True  # noqa: E711
    with pytest.raises(TypeError):
        c(1) < "x"
    with pytest.raises(TypeError):
        c(1) + object()
    t = c(1)
    assert {t: 1}[t] == 1


KEYS = [0, -1, slice(1, None), slice(None, None, 2), slice(None, None, -1), (1, 2), (slice(None), 1), (..., 0), (0, ..., 1), None, (slice(None), None, 1),
        (slice(-2, None), slice(3, 0, -2)), (slice(5, 2), 0), np.int64(1), ([2, 0],), (slice(None), [0, 3])]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_agrees_with_numpy(key):
    a = np.arange(24, dtype="float32").reshape(3, 4, 2)
    want = a[key]
    got = c(a)[key]
    assert got.shape == want.shape and np.array_equal(got.numpy(), want)
    assert np.array_equal(lm.Variable(a)[key].numpy(), want)


def test_bad_indices_are_refused():
    t = c([[1, 2], [3, 4]])
    for key in (2, -3, (0, 2)):
        with pytest.raises(IndexError):
            t[key]
    with pytest.raises(ValueError):
        t[0, 0, 0]
    for key in ("a", 1.5, True):
        with pytest.raises(TypeError):
            t[key]


def test_methods_are_the_functions():
    t = c([[1.0, 2.0], [3.0, 4.0]])
    assert t.sum().item() == 10 and t.mean(axis=0).tolist() == [2, 3] and t.max(axis=-1, keepdims=True).shape == (2, 1) and t.min().item() == 1
    assert t.reshape(4).shape == (4,) and t.reshape(-1, 1).shape == (4, 1) and t.reshape((1, 4)).shape == (1, 4) and t.transpose(1, 0).tolist() == [[1, 3], [2, 4]]
    assert t.argmax().tolist() == [1, 1] and t.argmax().dtype == lm.int64 and t.astype("int32").dtype == lm.int32 and t.squeeze().shape == (2, 2)
    assert t.device == "cpu:0" and t.to("cpu:0").tolist() == t.tolist()


def test_a_large_op_lets_other_threads_run():
    import threading
    a, seen = lm.random.normal([700, 700]), []
    thread = threading.Thread(target=lambda: [seen.append((a @ a).shape) for _ in range(4)])
    thread.start()
    mine = [(a @ a).shape for _ in range(4)]
    thread.join()
    assert seen == mine


def test_shape_errors_say_what_and_where():
    with pytest.raises(lm.errors.InvalidArgument) as e:
        lm.matmul(lm.ones((2, 3)), lm.ones((2, 3)))
    text = str(e.value)
    assert text.startswith("matmul") and "[2,3]" in text.replace("(", "[").replace(" ", "") and "test_tensor.py" in text
    with pytest.raises(ValueError, match="add"):
        lm.ones((2, 3)) + lm.ones((4,))
    with pytest.raises(ValueError, match="axis 5"):
        lm.softmax(lm.ones((2, 4)), axis=5)
    assert "fix:" in str(pytest.raises(ValueError, lm.softmax, lm.ones((2, 4)), axis=5).value)


def test_nan_and_infinity_pass_through():
    x = np.array([np.nan, np.inf, -np.inf, 0.0], "float32")
    t = c(x)
    np.testing.assert_array_equal((t + 1).numpy(), x + 1)
    np.testing.assert_array_equal((t == t).numpy(), x == x)
    assert np.isnan(lm.sum(t).item()) and np.isnan(lm.maximum(t, 0.0).numpy()[0])
    np.testing.assert_array_equal(lm.relu(t).numpy()[1:], [np.inf, 0, 0])


def test_tensors_are_immutable_and_weakly_referenceable():
    t = c([1.0])
    with pytest.raises(TypeError):
        t[0] = 2
    with pytest.raises(TypeError):
        lm.Tensor(1)
    reference = weakref.ref(t)
    del t
    assert reference() is None


def test_dtypes_are_objects_equal_to_their_names():
    assert lm.float32 == "float32" == lm.float32 and lm.float32 == np.float32 == lm.float32 and lm.float32 == np.dtype("float32") and lm.float32 != lm.int32
    assert np.dtype(lm.int8) == np.int8 and {lm.bool: 1}["bool"] == 1 and str(lm.int64) == "int64" and repr(lm.int64) == "lm.int64"
    assert lm.float32 != None and lm.float32 != 3 and lm.dtype(float) is lm.float32 and lm.dtype(int) is lm.int32 and lm.dtype(bool) is lm.bool  # noqa: E711
    assert pickle.loads(pickle.dumps(lm.float16)) is lm.float16 and lm.bfloat16.itemsize == 2 and lm.float16.is_floating and not lm.bool.is_integer
    with pytest.raises(lm.errors.NotFound, match="float32"):
        lm.dtype("float23")
    with pytest.raises(TypeError):
        lm.dtype(3)


@pytest.mark.parametrize("join", [lm.stack, lm.constant])
def test_numbers_beside_tensors_in_a_list_take_their_dtype(join):
    for number, dtype in ((0.1, "float64"), (2**40, "int64"), (-1, "int16"), (3, "float16"), (3, "float64"), (200, "uint8")):
        x = lm.constant(np.array(1, dtype))
        for parts in ([x, number], [lm.Variable(x), number]):
            result = join(parts)
            assert result.dtype.name == dtype and result.numpy()[1] == np.array(number, dtype), (number, dtype)
    for number, dtype in ((300, "uint8"), (0.5, "int32"), (2**40, "int32")):
        with pytest.raises(lm.errors.Error):
            join([lm.constant(np.array(1, dtype)), number])
    assert lm.concat([lm.constant(np.ones(1)), [0.1]], 0).numpy()[1] == 0.1


def test_copies_of_a_tensor_are_itself_also_while_tracing():
    x = lm.constant([1.0, 2.0])
    assert copy.copy(x) is x and copy.deepcopy({"x": [x]})["x"][0] is x
    assert lm.function(lambda x: lm.sum(copy.deepcopy([x * 2])[0] + copy.copy(x)))(x).item() == 9


@pytest.mark.parametrize("a, b", [(7, 2), (-7, 2), (7, -2), (7.5, 2.0), (-0.5, 2.0)])
def test_divmod_and_trunc_are_pythons(a, b):
    want = divmod(a, b)
    for x in (lm.constant(a), lm.Variable(a)):
        for made in (divmod(x, b), divmod(a, lm.constant(b)), divmod(x, lm.constant(b)), lm.function(lambda x: divmod(x, b))(x)):
            assert tuple(v.item() for v in made) == want
        assert math.trunc(x) == math.trunc(a)
    with pytest.raises(TypeError, match="unsupported operand"):
        divmod(lm.constant(a), "b")


def test_a_power_modulo_a_third_number_is_refused():
    for f in (lambda x: pow(x, 3, 5), lambda x: pow(2, x, 5), lm.function(lambda x: pow(x, 3, 5))):
        with pytest.raises(lm.errors.TypeMismatch, match="modulo a third number"):
            f(lm.constant(2))


def test_reversed_gives_the_rows_from_the_last_on():
    assert [v.tolist() for v in reversed(lm.constant([[1, 2], [3, 4]]))] == [[3, 4], [1, 2]]
    assert [float(v) for v in reversed(lm.Variable([1.0, 2.0]))] == [2.0, 1.0]
    with pytest.raises(lm.errors.Error):
        reversed(lm.constant(1.0))


class OwnSequence:
    def __init__(self, *values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


class OwnList(list):
    pass


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize("value", [range(3), range(5, -2, -2), range(0), collections.deque([1.5, 2.0]), collections.UserList([1, 2]), OwnSequence(1, 2), OwnList([1.0, 2.0]), Pair(1, 2), [range(2), (3, 4)], [Pair(1, 2), OwnSequence(3, 4)],
                                   collections.deque([[1.0], [2.0]]), [OwnSequence(1.0, 2.0), np.array([3.0, 4.0])], OwnSequence(True, False), array.array("d", [1.0, 2.0])])
def test_what_numpy_takes_for_a_sequence_becomes_a_tensor(value):
    wanted = np.array(value)
    for got in (lm.constant(value), lm.Variable(value), lm.function(lambda: lm.constant(value))(), lm.sum(lm.stack([lm.constant(value)]), axis=0) if wanted.dtype != bool else lm.constant(value)):
        assert got.numpy().tolist() == wanted.tolist() and got.shape == wanted.shape
    if wanted.dtype != bool and isinstance(value, (range, list)):
        assert (lm.zeros_like(lm.constant(value)) + value).numpy().tolist() == wanted.tolist()


@pytest.mark.parametrize("value, fix", [((i for i in range(3)), "list"), (iter([1]), "list"), (map(float, [1]), "list"), ({1, 2}, "list"), ({1: 2}.values(), "list"), ({1: 2}, "its values"), (collections.OrderedDict(a=1), "its values"),
                                        ("12", "numbers"), (b"12", "numbers"), (None, "numbers"), (object(), "numbers"), ([{1, 2}], "list"), (["1"], "numbers"), ([(i for i in range(2))], "list")])
def test_what_has_no_order_or_no_numbers_is_refused_with_what_to_pass(value, fix):
    with pytest.raises(lm.errors.TypeMismatch) as error:
        lm.constant(value)
    assert fix in error.value.fix


def test_in_is_whether_any_element_is_equal():
    rng = np.random.default_rng(0)
    for dtype in ("float32", "int32", "uint8", "bool", "complex64"):
        for shape in ((), (3,), (2, 3), (2, 0), (2, 1, 3)):
            x = rng.integers(0, 3, shape).astype(dtype)
            for x_ in (lm.constant(x), lm.Variable(x)):
                for value in (0, 1, 2, 2.0, 7, True, False):
                    assert (value in x_) == bool((x == value).any()), (dtype, shape, value)
    x = lm.constant([[1.0, np.nan], [3.0, 4.0]])
    assert 3 in x and 3.5 not in x and np.nan not in x and [3.0, 4.0] in x and lm.constant(4.0) in x and np.float32(1) in x and 1j not in x
    integers = lm.constant([[2, 3]], "uint8")
    assert 2.0 in integers and 2.5 not in integers and 300 not in integers and -1 not in integers and 10**30 not in integers and np.inf not in integers and "2" not in integers and None not in integers
    with pytest.raises(lm.errors.InvalidArgument, match="do not fit"):
        [1.0, 2.0, 3.0] in x  # noqa: B015
    assert lm.function(lambda x: lm.where(3.0 in x, 1, 0))(x).item() == 1
