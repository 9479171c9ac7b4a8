"""lm.xp beside array-api-strict: the same names and parameters, and for each function and dtype the same results, dtypes and refusals."""
import inspect
import itertools

import numpy as np
import pytest

import lamina as lm
from lamina import xp

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed; ./dev setup brings it")
NOT_HERE = {"get_array_api_strict_flags", "set_array_api_strict_flags", "reset_array_api_strict_flags", "ArrayAPIStrictFlags", "Device", "isin", "broadcast_shapes",
            "__array_api_strict_version__", "__version__", "CPU_DEVICE"}  # what belongs to a later version of the standard, and strict's own
NAMES = sorted(set(strict.__all__) - NOT_HERE)
DTYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128")


def values(dtype, shape=(3,), seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if "complex" in dtype:
        return rng.choice([-2.5 + 0.5j, -1.0, -0.5j, 0.0, 0.25 - 0.25j, 0.5 + 2j, 1.0 + 1j, 3.0 - 4j, 0.1 + 0.1j], shape).astype(dtype)
    if "float" in dtype:
        return rng.choice([-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0, np.inf, -np.inf, np.nan], shape).astype(dtype)
    return rng.integers(0 if "uint" in dtype else -6, 7, shape).astype(dtype)


def both(call):
    """The results of the call with each library, or the TypeErrors that they raise."""
    out = []
    for library in (strict, xp):
        try:
            out.append(call(library))
        except TypeError as error:
            out.append(error)
        except ValueError as error:
            out.append(error)
    return out


def same(call, rtol=3e-6, order=True):
    theirs, ours = both(call)
    if isinstance(theirs, Exception):
        assert isinstance(ours, lm.errors.Error), f"strict raises {theirs!r}, lm.xp gives {ours!r}"
        return
    assert not isinstance(ours, Exception), repr(ours)
    parts = zip(theirs, ours) if isinstance(theirs, (tuple, list)) else [(theirs, ours)]
    for a, b in parts:
        assert str(a.dtype).split(".")[-1] == b.dtype.name and tuple(a.shape) == tuple(b.shape), (a, b)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=rtol if b.dtype.name in ("float32", "complex64") else 1e-12, atol=1e-6 if b.dtype.name in ("float32", "complex64") else 1e-13)


def arrays(library, *given):
    return [library.asarray(g, dtype=getattr(library, g.dtype.name if g.dtype.name != "bool" else "bool")) for g in given]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_parameters_are_the_standards(name):
    assert hasattr(xp, name), name
    theirs, ours = getattr(strict, name), getattr(xp, name)
    if not inspect.isfunction(theirs):
        return
    wanted = [(p.name, p.kind) for p in inspect.signature(theirs).parameters.values()]
    given = [(p.name, p.kind) for p in inspect.signature(ours).parameters.values()]
    assert [k for _, k in given] == [k for _, k in wanted]
    assert [n for n, k in given if k in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)] == [n for n, k in wanted if k in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]


FROM = ("abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round sign "
        "signbit sin sinh sqrt square tan tanh trunc").split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FROM)
def test_functions_of_one_array(name):
    for dtype, shape in itertools.product(DTYPES, [(), (0,), (40,), (2, 3)]):
        x = values(dtype, shape)
        if name in ("acos", "asin", "atanh", "acosh", "tan", "exp", "expm1", "sinh", "cosh", "cos", "sin") and "float" in dtype:
            x = np.where(np.isfinite(x), x, 0.5).astype(dtype)
        if name == "signbit" and "float" in dtype:
            x = np.abs(np.nan_to_num(x)) * np.where(np.arange(x.size).reshape(shape) % 2, 1, -1).astype(dtype)
        same(lambda lib: getattr(lib, name)(*arrays(lib, x)))


TWO = ("add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
       "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract").split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays_promote(name):
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = values(a, (12,)), values(b, (12,), 1)
        if name in ("floor_divide", "remainder", "pow"):
            y = np.where(np.isfinite(y) & (y != 0), np.abs(y) if "complex" not in b else y, 1).astype(b)
            x = np.where(np.isfinite(x) & ((x != 0) | (name != "pow")), x, 1).astype(a)
        if "shift" in name:
            y = (np.abs(y) if b != "bool" else y).astype(b)
        if name == "copysign":
            y = np.where(np.isnan(y), 1, y).astype(b)  # a NaN has no sign here
        same(lambda lib: getattr(lib, name)(*arrays(lib, x, y)))
        same(lambda lib: getattr(lib, name)(*arrays(lib, x.reshape(3, 4), y[:4])))
    for a, number in itertools.product(DTYPES, (True, 2, 1.5, 2j)):
        if (a == "bool" and name in ("add", "multiply") and number is not True) or (number == 2j and name in ("greater", "greater_equal", "less", "less_equal", "maximum", "minimum")):
            continue  # strict compares with complex numbers
        same(lambda lib: getattr(lib, name)(*arrays(lib, np.where(np.isfinite(values(a)), values(a), 1).astype(a)), number))


SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0, -3.0, 20.0, -20.0, np.inf, -np.inf, np.nan])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in FROM + TWO if "bitwise" not in n and "logical" not in n and n != "imag"])
def test_zeros_infinities_and_nans_of_real_functions(name):
    """Every special value, beside every other one where there are two arrays; the sign of a zero counts."""
    given = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)] if name in TWO else [SPECIAL]
    for dtype in ("float32", "float64"):
        theirs, ours = (np.asarray(r) for r in both(lambda lib: getattr(lib, name)(*arrays(lib, *(g.astype(dtype) for g in given)))))
        if name == "floor_divide":  # NumPy's is NaN or -1 where the standard wants the quotient itself
            with np.errstate(all="ignore"):
                theirs = np.where(np.isinf(given).any(0), (given[0] / given[1]).astype(dtype), theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
        zeros = (theirs == 0) & (theirs.dtype.kind == "f")
        assert (np.signbit(ours[zeros]) == np.signbit(theirs[zeros])).all()


@pytest.mark.parametrize("elements", list(itertools.product((True, 2, 0.5, 1j), repeat=3)), ids=str)
def test_lists_that_mix_kinds_take_the_widest(elements):
    kinds = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
    widest = [k for k in kinds if any(type(e) is k for e in elements)][-1]
    for nested in (list(elements), [[elements[0]], (elements[1],), [elements[2]]]):
        x = xp.asarray(nested)
        assert x.dtype.name == kinds[widest] and np.asarray(x).ravel().tolist() == list(elements)
    assert widest in (float, complex) or np.asarray(xp.asarray(elements, dtype=xp.int8)).tolist() == list(elements)


def test_lists_without_numbers_and_beyond_int64():
    for given, dtype, shape in [([], "float32", (0,)), ([[]], "float32", (1, 0)), ([[2**63, 1]], "uint64", (1, 2)), (2**64 - 1, "uint64", ()), ([-(2**63), 1], "int64", (2,)), ([[True], [2**63]], "uint64", (2, 1)),
                                ([np.int8(1)], "int8", (1,)), ([xp.asarray(1), 2], "int64", (2,)), (((1, 2), [3, 4]), "int64", (2, 2))]:
        x = xp.asarray(given)
        assert x.dtype.name == dtype and x.shape == shape, given


def test_result_types_and_casts():
    for a, b in itertools.product(DTYPES, DTYPES):
        theirs, ours = both(lambda lib: lib.result_type(getattr(lib, a), getattr(lib, b)))
        assert isinstance(ours, lm.errors.TypeMismatch) if isinstance(theirs, Exception) else ours.name == str(theirs).split(".")[-1]
        if not isinstance(theirs, Exception):
            assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == strict.can_cast(getattr(strict, a), getattr(strict, b))
    for dtype, kind in itertools.product(DTYPES, ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", ("bool", "integral"))):
        assert xp.isdtype(getattr(xp, dtype), kind) == strict.isdtype(getattr(strict, dtype), kind)
    for dtype in DTYPES[1:]:
        info = "iinfo" if "int" in dtype else "finfo"
        ours, theirs = getattr(xp, info)(getattr(xp, dtype)), getattr(strict, info)(getattr(strict, dtype))
        assert all(getattr(ours, n) == getattr(theirs, n) for n in (("bits", "max", "min", "eps", "smallest_normal") if info == "finfo" else ("bits", "max", "min")))


X, Y = values("float64", (3, 4), 5), np.arange(12.0).reshape(3, 4)
I = np.array([[3, 1, 2], [1, 3, 3]])
CALLS = {
    "arange": [lambda lib: lib.arange(5), lambda lib: lib.arange(1, 9, 2, dtype=lib.float64), lambda lib: lib.arange(5, 0, -1), lambda lib: lib.arange(3, 1)],
    "eye": [lambda lib: lib.eye(3, 4, k=k, dtype=lib.float32) for k in (-9, -1, 0, 2, 9)], "full": [lambda lib: lib.full((2, 3), 7), lambda lib: lib.full(2, True), lambda lib: lib.full((), 1.5, dtype=lib.float64)],
    "linspace": [lambda lib: lib.linspace(0.0, 2.0, 5, dtype=lib.float64), lambda lib: lib.linspace(1.0, 2.0, 4, endpoint=False, dtype=lib.float32), lambda lib: lib.linspace(0, 1, 0, dtype=lib.float64)],
    "meshgrid": [lambda lib: lib.meshgrid(*arrays(lib, np.arange(3.0), np.arange(2.0)), indexing=i) for i in ("xy", "ij")],
    "tril": [lambda lib: lib.tril(*arrays(lib, Y), k=1)], "triu": [lambda lib: lib.triu(*arrays(lib, Y), k=-1)], "zeros": [lambda lib: lib.zeros((2, 0), dtype=lib.int8)], "ones": [lambda lib: lib.ones(3, dtype=lib.bool)],
    "concat": [lambda lib: lib.concat(arrays(lib, Y, Y.astype("float32")), axis=a) for a in (0, 1, None)] + [lambda lib: lib.concat(arrays(lib, I, I.astype("uint8")))], "stack": [lambda lib: lib.stack(arrays(lib, Y, Y), axis=a) for a in (0, 1, -1)],
    "unstack": [lambda lib: lib.unstack(*arrays(lib, Y), axis=1)], "flip": [lambda lib: lib.flip(*arrays(lib, Y), axis=a) for a in (None, 0, (0, 1))], "roll": [lambda lib: lib.roll(*arrays(lib, Y), 1, axis=a) for a in (None, 0)],
    "repeat": [lambda lib: lib.repeat(*arrays(lib, Y), 2, axis=a) for a in (None, 1)], "tile": [lambda lib: lib.tile(*arrays(lib, Y), (2, 1))], "squeeze": [lambda lib: lib.squeeze(lib.reshape(*arrays(lib, Y), (1, 12)), 0), lambda lib: lib.squeeze(*arrays(lib, Y), 0)],
    "expand_dims": [lambda lib: lib.expand_dims(*arrays(lib, Y), axis=a) for a in (0, 1, -1, 5)], "permute_dims": [lambda lib: lib.permute_dims(*arrays(lib, Y), (1, 0))], "moveaxis": [lambda lib: lib.moveaxis(*arrays(lib, Y), 0, 1)],
    "reshape": [lambda lib: lib.reshape(*arrays(lib, Y), (4, -1)), lambda lib: lib.reshape(*arrays(lib, Y), (5, 3))], "broadcast_to": [lambda lib: lib.broadcast_to(*arrays(lib, Y), (2, 3, 4))], "broadcast_arrays": [lambda lib: lib.broadcast_arrays(*arrays(lib, Y, Y[0]))],
    "take": [lambda lib: lib.take(*arrays(lib, Y, np.array([2, 0])), axis=0), lambda lib: lib.take(*arrays(lib, Y, np.array([1])))], "take_along_axis": [lambda lib: lib.take_along_axis(*arrays(lib, Y, np.array([[0], [1], [3]])), axis=1)],
    "argmax": [lambda lib: lib.argmax(*arrays(lib, Y), axis=a, keepdims=k) for a in (None, 0, -1) for k in (False, True)], "argmin": [lambda lib: lib.argmin(*arrays(lib, Y), axis=a, keepdims=k) for a in (None, 0) for k in (False, True)],
    "count_nonzero": [lambda lib: lib.count_nonzero(*arrays(lib, Y), axis=a) for a in (None, 0)], "nonzero": [lambda lib: lib.nonzero(*arrays(lib, Y)), lambda lib: lib.nonzero(lib.asarray(1))],
    "searchsorted": [lambda lib: lib.searchsorted(*arrays(lib, np.arange(5.0), Y), side=s) for s in ("left", "right")], "where": [lambda lib: lib.where(*arrays(lib, Y > 3, Y, Y.astype("float32"))), lambda lib: lib.where(*arrays(lib, Y > 3, Y), 1.0)],
    "unique": [lambda lib, n=n: getattr(lib, n)(*arrays(lib, I)) for n in ("unique_all", "unique_counts", "unique_inverse")] + [lambda lib: lib.unique_values(*arrays(lib, I)), lambda lib: lib.unique_values(*arrays(lib, I > 2))],
    "sort": [lambda lib: lib.sort(*arrays(lib, I), axis=a, descending=d) for a in (0, -1) for d in (False, True)], "argsort": [lambda lib: lib.argsort(*arrays(lib, I), axis=a, descending=d) for a in (0, -1) for d in (False, True)],
    "clip": [lambda lib: lib.clip(*arrays(lib, Y), 2.0, 5.0), lambda lib: lib.clip(*arrays(lib, I), min=2), lambda lib: lib.clip(*arrays(lib, Y), max=3.0), lambda lib: lib.clip(*arrays(lib, Y))],
    "matmul": [lambda lib: lib.matmul(*arrays(lib, Y, Y.T.astype("float32"))), lambda lib: lib.matmul(*arrays(lib, I, I.T)), lambda lib: lib.matmul(*arrays(lib, Y[0], Y[1]))], "tensordot": [lambda lib: lib.tensordot(*arrays(lib, Y, Y), axes=2), lambda lib: lib.tensordot(*arrays(lib, Y, Y), axes=((0,), (0,)))],
    "vecdot": [lambda lib: lib.vecdot(*arrays(lib, Y, Y[0]))], "matrix_transpose": [lambda lib: lib.matrix_transpose(*arrays(lib, Y))], "diff": [lambda lib: lib.diff(*arrays(lib, Y), axis=0, n=2)],
    "cumulative_sum": [lambda lib: lib.cumulative_sum(*arrays(lib, Y), axis=1, include_initial=i) for i in (False, True)] + [lambda lib: lib.cumulative_sum(*arrays(lib, Y))],
    "cumulative_prod": [lambda lib: lib.cumulative_prod(*arrays(lib, Y), axis=0, include_initial=i) for i in (False, True)],
    "astype": [lambda lib, a=a, b=b: lib.astype(*arrays(lib, np.array([0, 1, 3]).astype(a)), getattr(lib, b)) for a in DTYPES for b in DTYPES if "complex" not in a or "complex" in b],
}
C = values("complex128", (3, 4), 2)
for _dtype in ("uint16", "uint32", "uint64", "complex64", "complex128"):  # what moves and joins elements, of dtypes with few kernels of their own
    _x = (C if "complex" in _dtype else np.array([[3, 60000, 2, 7], [65535, 0, 3, 1], [9, 9, 40000, 5]])).astype(_dtype)
    CALLS["of_" + _dtype] = [
        lambda lib, x=_x: lib.reshape(*arrays(lib, x), (2, 6)), lambda lib, x=_x: lib.permute_dims(*arrays(lib, x), (1, 0)), lambda lib, x=_x: arrays(lib, x)[0][1:, ::-2], lambda lib, x=_x: arrays(lib, x)[0][0, :],
        lambda lib, x=_x: lib.concat(arrays(lib, x, x), axis=1), lambda lib, x=_x: lib.stack(arrays(lib, x, x), axis=-1), lambda lib, x=_x: lib.roll(*arrays(lib, x), 1, axis=1), lambda lib, x=_x: lib.flip(*arrays(lib, x)),
        lambda lib, x=_x: lib.take(*arrays(lib, x, I[0] % 3), axis=0), lambda lib, x=_x: lib.take_along_axis(*arrays(lib, x, np.array([[0], [1], [3]])), axis=1), lambda lib, x=_x: lib.broadcast_to(*arrays(lib, x[0]), (3, 4)), lambda lib, x=_x: lib.tile(*arrays(lib, x), (2, 1)),
        lambda lib, x=_x: lib.repeat(*arrays(lib, x), 2, axis=0), lambda lib, x=_x: lib.where(*arrays(lib, Y > 4, x, x[0])), lambda lib, x=_x: lib.tril(*arrays(lib, x)), lambda lib, x=_x: lib.eye(3, 4, k=1, dtype=getattr(lib, x.dtype.name)),
        lambda lib, x=_x: lib.zeros((2, 3), dtype=getattr(lib, x.dtype.name)), lambda lib, x=_x: lib.full((2, 3), 7, dtype=getattr(lib, x.dtype.name)), lambda lib, x=_x: lib.ones_like(*arrays(lib, x)), lambda lib, x=_x: lib.arange(5, dtype=getattr(lib, x.dtype.name)),
        lambda lib, x=_x: lib.matmul(*arrays(lib, x, x.T)), lambda lib, x=_x: lib.tensordot(*arrays(lib, x, x), axes=2), lambda lib, x=_x: lib.vecdot(*arrays(lib, x, x[0])), lambda lib, x=_x: lib.cumulative_sum(*arrays(lib, x), axis=0),
        lambda lib, x=_x: lib.cumulative_prod(*arrays(lib, x[:, :2]), axis=0), lambda lib, x=_x: lib.diff(*arrays(lib, x), axis=1), lambda lib, x=_x: lib.nonzero(*arrays(lib, x)), lambda lib, x=_x: lib.count_nonzero(*arrays(lib, x)),
        lambda lib, x=_x: lib.unique_counts(*arrays(lib, x)), lambda lib, x=_x: lib.any(*arrays(lib, x), axis=0), lambda lib, x=_x: lib.all(*arrays(lib, x)), lambda lib, x=_x: lib.sum(*arrays(lib, x[:0]), axis=0), lambda lib, x=_x: lib.prod(*arrays(lib, x[:0]), axis=0),
        lambda lib, x=_x: lib.max(*arrays(lib, x), axis=1), lambda lib, x=_x: lib.argmin(*arrays(lib, x), axis=1), lambda lib, x=_x: lib.sort(*arrays(lib, x), axis=1), lambda lib, x=_x: lib.argsort(*arrays(lib, x), descending=True), lambda lib, x=_x: lib.moveaxis(*arrays(lib, x), 0, 1),
        lambda lib, x=_x: lib.linalg.trace(*arrays(lib, x)), lambda lib, x=_x: lib.linalg.outer(*arrays(lib, x[0], x[1])), lambda lib, x=_x: lib.linalg.diagonal(*arrays(lib, x)), lambda lib, x=_x: lib.linalg.cross(*arrays(lib, x[:, :3], x[0, :3])),
    ]


@pytest.mark.parametrize("name", CALLS)
def test_other_functions(name):
    for call in CALLS[name]:
        same(call)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any"])
def test_reductions_of_every_dtype(name):
    for dtype, axis, keepdims in itertools.product(DTYPES, (None, 0, -1, (0, 1)), (False, True)):
        if dtype == "bool" and name in ("sum", "prod"):
            continue  # bools are added too
        x = np.where(np.isfinite(values(dtype, (3, 4))), values(dtype, (3, 4)), 1).astype(dtype)
        same(lambda lib: getattr(lib, name)(*arrays(lib, x), axis=axis, keepdims=keepdims), rtol=2e-5)
    assert xp.sum(xp.asarray([250, 250], dtype=xp.uint8)).dtype == xp.uint64 and xp.sum(xp.asarray([250, 250], dtype=xp.uint8)).item() == 500 and xp.sum(xp.ones(3)).dtype == xp.float32
    assert xp.sum(xp.ones(3), dtype=xp.float64).dtype == xp.float64


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("chosen", [True, False])
def test_a_mask_without_axes_takes_all_or_nothing_along_a_new_axis(shape, chosen):
    x = values("float64", shape)
    ours = xp.asarray(x)[xp.asarray(chosen)]
    assert ours.shape == (int(chosen), *shape) and np.array_equal(np.asarray(ours), x[np.asarray(chosen)], equal_nan=True)
    grads = lm.grad(lambda t: xp.sum(t[xp.asarray(chosen)] * 3.0))(xp.zeros(shape))
    assert np.array_equal(np.asarray(grads), np.full(shape, 3.0 * chosen))
    with pytest.raises(lm.errors.IndexOutOfRange, match="outside of a trace"):
        lm.function(lambda t, mask: t[mask])(xp.zeros(shape), xp.asarray(chosen))


def test_a_mask_of_length_0_chooses_nothing():
    x = xp.asarray(np.arange(6).reshape(2, 3))
    for shape, expected in [((0,), (0, 3)), ((2, 0), (0,)), ((0, 3), (0,)), ((0, 0), (0,))]:
        assert x[xp.zeros(shape, dtype=xp.bool)].shape == expected
    for shape in [(3,), (2, 2), (0, 2), (2, 3, 0)]:
        with pytest.raises(IndexError):
            x[xp.zeros(shape, dtype=xp.bool)]


@pytest.mark.parametrize("name", ["matmul", "tensordot", "vecdot"])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_products_of_every_numeric_dtype(name, dtype):
    given = {"matmul": [((3,), (3,)), ((2, 3), (3, 4)), ((2, 1, 0), (0, 4)), ((0,), (0, 3)), ((2, 1, 2, 3), (5, 3, 2))], "tensordot": [((2, 3, 4), (3, 4, 5)), ((2, 0, 0), (0, 0)), ((3, 1), (3, 1))],
             "vecdot": [((3,), (3,)), ((2, 3), (3,)), ((4, 1, 3), (2, 3)), ((2, 0), (0,))]}[name]
    for a, b in given:
        x, y = (np.random.default_rng(7 + len(s)).integers(0 if "uint" in dtype else -90, 90, s).astype(dtype) for s in (a, b))  # beyond the narrow dtypes
        same(lambda lib: getattr(lib, name)(*arrays(lib, x, y)), rtol=1e-5)


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_copies_are_as_asked():
    given = np.arange(3.0)
    for wrapped in (given, OnlyDLPack(given)):
        given[:] = [0, 1, 2]
        shared, own, made, cast = xp.from_dlpack(wrapped), xp.from_dlpack(wrapped, copy=True), xp.asarray(wrapped), xp.asarray(wrapped, dtype=xp.float32, copy=True)
        given[:] = 7
        assert shared.numpy().tolist() == [7, 7, 7] and all(t.numpy().tolist() == [0, 1, 2] for t in (own, made, cast)) and (made.dtype, cast.dtype) == (xp.float64, xp.float32)
        with pytest.raises(ValueError, match="copy is False"):
            xp.asarray(wrapped, copy=False)
    x = xp.asarray([1.0])
    assert xp.asarray(x, copy=False) is x and xp.asarray(x, dtype=xp.float32, copy=False).dtype == xp.float32
    for refused in (lambda: xp.asarray(x, dtype=xp.float64, copy=False), lambda: xp.asarray([1.0], copy=False), lambda: xp.asarray(2, copy=False)):
        with pytest.raises(ValueError, match="copy is False"):
            refused()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_clip_takes_bounds_that_the_dtype_does_not_hold(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.min, 0, 5, 100, info.max], dtype)
    for other in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        for low, high in itertools.product(np.array([np.iinfo(other).min, 3, np.iinfo(other).max], other), repeat=2):
            wanted = np.clip(np.clip(x.astype("int64"), int(low), None), None, int(high)).clip(info.min, info.max)
            for bounds in ((xp.asarray(low), xp.asarray(high)), (int(low), int(high))):
                got = xp.clip(xp.asarray(x), *bounds)
                assert got.dtype.name == dtype and got.numpy().tolist() == wanted.tolist()


def test_sums_have_the_dtype_that_is_asked_for():
    x = xp.asarray([[1, 2], [0, 0]])
    assert xp.sum(x, axis=1, dtype=xp.bool).tolist() == [True, False] and xp.prod(x, dtype=xp.bool).tolist() is False
    assert xp.cumulative_sum(x, axis=0, dtype=xp.bool).tolist() == [[True, True], [True, True]] and xp.sum(x, dtype=xp.bool).dtype == xp.bool
    assert xp.cumulative_sum(x[0], dtype=xp.bool, include_initial=True).tolist() == [False, True, True]


def test_axes_that_the_standard_refuses():
    x = xp.ones((2, 3))
    for axis in (-5, -4, 3, 7):
        with pytest.raises(IndexError, match="expand_dims: axis"):
            xp.expand_dims(x, axis=axis)
    assert [xp.expand_dims(x, axis=a).shape for a in (-3, 0, 2)] == [(1, 2, 3), (1, 2, 3), (2, 3, 1)]
    for a, b, axis in [((3,), (1,), -1), ((0,), (1,), -1), ((2, 3), (2, 1), -1), ((2, 3), (3,), -2), ((3, 2), (1, 2), -2)]:
        with pytest.raises(lm.errors.InvalidArgument, match="vecdot: "):
            xp.vecdot(xp.ones(a), xp.ones(b), axis=axis)


def test_namespace_and_inspection():
    x = xp.asarray([1.0, 2.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp and x.to_device(x.device).numpy().tolist() == [1, 2] and xp.ones((2, 3)).mT.shape == (3, 2)
    with pytest.raises(lm.errors.InvalidArgument):
        x.__array_namespace__(api_version="1999.01")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == xp.asarray(3).dtype and info.default_dtypes()["real floating"] == xp.asarray(3.0).dtype and x.device in info.devices() and x.device == info.default_device()
    assert set(info.dtypes(kind="integral")) == {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"} and info.dtypes()["float32"] == xp.float32 and info.capabilities()["max dimensions"] == 8
    assert xp.asarray(1j).dtype == xp.complex64 == info.default_dtypes()["complex floating"] and complex(xp.asarray(1j)) == 1j
    assert xp.asarray([1, 2], dtype=xp.float64).dtype == xp.float64 and xp.asarray([[1, 2.5]]).dtype == xp.float32 and xp.asarray(np.arange(3, dtype="int16")).dtype == xp.int16
    assert lm.function(lambda x: xp.std(x, correction=1))(lm.constant([1.0, 3.0])).item() == pytest.approx(2**0.5) and lm.grad(lambda x: xp.sum(xp.square(x)))(x).numpy().tolist() == [2, 4]


needs_lapack = pytest.mark.skipif(lm._core.linalg.library().startswith("none"), reason=f"needs LAPACK: {lm._core.linalg.library()}")
SQUARE = np.array([[[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]], [[2.0, 0.5, 0.0], [0.5, 5.0, 1.0], [0.0, 1.0, 3.0]]])
TALL = np.sin(np.arange(24.0).reshape(2, 4, 3) ** 2) * 3
LINALG = {
    "cholesky": [(SQUARE,), {"upper": True}], "cross": [(TALL, TALL[:1, ::-1])], "det": [(SQUARE,)], "diagonal": [(TALL,), {"offset": 1}], "eigvalsh": [(SQUARE,)], "inv": [(SQUARE,)],
    "matrix_norm": [(TALL,), {"ord": 1}, {"ord": "nuc", "keepdims": True}, {"ord": -2}], "matrix_rank": [(TALL,)], "outer": [(TALL[0, 0], TALL[0, :, 0])], "pinv": [(TALL,)], "slogdet": [(SQUARE,)],
    "solve": [(SQUARE, SQUARE[:, :, :2])], "svdvals": [(TALL,)], "trace": [(TALL,), {"offset": -1}], "vector_norm": [(TALL,), {"axis": (0, 2)}, {"axis": 1, "ord": 3, "keepdims": True}, {"ord": float("inf")}],
    "matmul": [(SQUARE, SQUARE)], "matrix_transpose": [(TALL,)], "tensordot": [(SQUARE[0], SQUARE[1])], "vecdot": [(TALL, TALL)],
}


@needs_lapack
@pytest.mark.parametrize("name", LINALG)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_linear_algebra(name, dtype):
    args, *options = LINALG[name]
    for given in [{}, *options]:
        same(lambda library, given=given: getattr(library.linalg if name != "matmul" else library, name)(*arrays(library, *[a.astype(dtype) for a in args]), **given), rtol=2e-4)


@needs_lapack
@pytest.mark.parametrize("name", ["matrix_rank", "pinv"])
def test_each_matrix_has_a_tolerance_of_its_own(name):
    x = xp.asarray(np.stack([np.diag([1.0, 0.1, 0.001]), np.diag([1.0, 0.1, 0.001])]).astype("float32"))
    found = getattr(xp.linalg, name)(x, rtol=xp.asarray([0.01, 0.5], dtype=xp.float64))
    for i, rtol in enumerate((0.01, 0.5)):
        assert np.array_equal(found[i].numpy(), getattr(xp.linalg, name)(x[i], rtol=rtol).numpy()) and np.array_equal(found[i].numpy(), getattr(xp.linalg, name)(x[i], rtol=xp.asarray(rtol)).numpy())
    assert xp.linalg.matrix_rank(x, rtol=xp.asarray([0.01, 0.5])).numpy().tolist() == [2, 1]


@needs_lapack
def test_factors_have_the_standards_names_and_parameters():
    assert set(xp.linalg.__all__) == set(strict.linalg.__all__)
    for name in xp.linalg.__all__:
        theirs, ours = (inspect.signature(getattr(library.linalg, name)).parameters for library in (strict, xp))
        assert [(p.name, p.kind) for p in theirs.values()] == [(p.name, p.kind) for p in ours.values()], name
    x = xp.asarray(TALL)
    for made, fields, back in [(xp.linalg.qr(x), ("Q", "R"), lambda f: f.Q @ f.R), (xp.linalg.svd(x, full_matrices=False), ("U", "S", "Vh"), lambda f: (f.U * f.S[:, None, :]) @ f.Vh),
                               (xp.linalg.eigh(xp.asarray(SQUARE)), ("eigenvalues", "eigenvectors"), None), (xp.linalg.slogdet(xp.asarray(SQUARE)), ("sign", "logabsdet"), None)]:
        assert made._fields == fields
        if back:
            np.testing.assert_allclose(back(made).numpy(), TALL, atol=1e-12)
    np.testing.assert_allclose(xp.linalg.matrix_power(xp.asarray(SQUARE), -2).numpy(), np.linalg.matrix_power(SQUARE, -2), atol=1e-12)
