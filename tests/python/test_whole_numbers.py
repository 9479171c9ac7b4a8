"""Integer arguments at the limits of int64: exact, or an error of Lamina; and tensors as lengths, axes and counts."""
import numpy as np
import pytest

import lamina as lm

ENDS = [2**63 - 1, -2**63, 2**62, -2**62, 2**53 + 1, -2**53 - 1, 2**40]
BEYOND = [2**63, -2**63 - 1, 2**64, 10**30]
X = lm.constant([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("n", ENDS)
def test_int64_constants_are_exact(n):
    wrapped = lambda v: int(np.array(v % 2**64, "uint64").astype("int64"))
    x = np.array([0, 1, -1, 3], "int64")
    t = lm.constant(x)
    fused = [lambda v: v + n, lambda v: (v + n) * 1 + 0, lambda v: (v + n) - (v - n), lambda v: lm.where(v > 0, v + n, v - n), lambda v: lm.maximum(v, n) ^ (v & n), lambda v: lm.clip(v, n, n) + v * 3,
             lambda v: (v < n) == (v <= n - 1 if n > -2**63 else v < n), lambda v: v * n, lambda v: lm.full_like(v, n) + v]
    for f in fused:
        with np.errstate(over="ignore"):
            for mode in (lm.function, lm.vmap, lambda g: lm.function(lm.vmap(g))):
                assert f(t).numpy().tolist() == mode(f)(t).numpy().tolist()
    assert lm.function(fused[0])(t).numpy().tolist() == [wrapped(int(v) + n) for v in x]
    assert lm.function(fused[1])(t).numpy().tolist() == [wrapped(int(v) + n) for v in x]
    v = lm.Variable(lm.zeros((2,), "int64"))
    v.assign(n)
    assert v.numpy().tolist() == [n, n] and lm.constant(n, "int64").item() == n
    assert lm.sum(lm.constant([n, 0], "int64")).item() == n and lm.cumsum(lm.constant([n, 0], "int64")).numpy().tolist() == [n, n]


TAKE = {
    "zeros": lambda n: lm.zeros((n, n, n)), "full": lambda n: lm.full((n, n, 4), 1), "broadcast_to": lambda n: lm.broadcast_to(X, (n, n, 2, 2)), "tile": lambda n: lm.tile(X, (n, n)), "repeat": lambda n: lm.repeat(X, (n, n), 0),
    "pad": lambda n: lm.pad(X, n), "pad edge": lambda n: lm.pad(X, n, "edge"), "one_hot": lambda n: lm.one_hot(lm.constant([0, 1]), n), "eye": lambda n: lm.eye(n), "eye k": lambda n: lm.eye(2, 2, n), "linspace": lambda n: lm.linspace(0, 1, n),
    "uniform": lambda n: lm.random.uniform((n, 4)), "diag": lambda n: lm.diag(X[0], n), "diag of": lambda n: lm.diag(X, n), "tril": lambda n: lm.tril(X, n), "triu": lambda n: lm.triu(X, n), "roll": lambda n: lm.roll(X, n, 0),
    "roll flat": lambda n: lm.roll(X, n), "diagonal": lambda n: lm.diagonal(X, n), "top_k": lambda n: lm.top_k(X, n), "nonzero": lambda n: lm.nonzero(X, size=n), "unique": lambda n: lm.unique(X, size=n), "split": lambda n: lm.split(X, n),
    "split lengths": lambda n: lm.split(X, (n, 1)), "reshape": lambda n: lm.reshape(X, (n, n)), "slice": lambda n: X[n:], "step": lambda n: X[::n], "element": lambda n: X[n], "permutation": lambda n: lm.random.permutation(n),
    "integers": lambda n: lm.random.integers(0, n, (2,), dtype="int64"), "strides": lambda n: lm.conv2d(lm.ones((1, 4, 4, 1)), lm.ones((2, 2, 1, 1)), strides=n),
    "dilation": lambda n: lm.conv2d(lm.ones((1, 4, 4, 1)), lm.ones((2, 2, 1, 1)), dilation=n), "window": lambda n: lm.max_pool2d(lm.ones((1, 4, 4, 1)), n), "scatter_add": lambda n: lm.scatter_add(X, lm.constant([0, 1]), (n, 2)),
    "scatter_nd": lambda n: lm.scatter_nd(lm.constant([[0], [1]]), X, (n, 2)), "flatten": lambda n: lm.flatten(X, n), "cumsum": lambda n: lm.cumsum(X, n), "sum": lambda n: lm.sum(X, n), "transpose": lambda n: lm.transpose(X, (n, 0)),
    "expand_dims": lambda n: lm.expand_dims(X, n), "squeeze": lambda n: lm.squeeze(X, n), "moveaxis": lambda n: lm.moveaxis(X, n, 0), "tensordot": lambda n: lm.tensordot(X, X, n), "add": lambda n: lm.constant([1], "int64") + n,
    "int32 add": lambda n: lm.constant([1], "int32") + n, "compare": lambda n: lm.constant([1], "int32") < n, "seed": lambda n: lm.random.set_seed(n), "Dense": lambda n: lm.nn.Dense(n)(X), "Embedding": lambda n: lm.nn.Embedding(n, 4)(lm.constant([0])),
    "batch": lambda n: lm.data.Dataset.from_tensor_slices(X).batch(n), "gather": lambda n: lm.gather(X, n, 0), "axis_size": lambda n: lm.vmap(lambda: lm.random.uniform(()), axis_size=n)(), "argmax": lambda n: lm.argmax(X, n),
    "stack": lambda n: lm.stack([X, X], n), "concat": lambda n: lm.concat([X, X], n), "TensorSpec": lambda n: lm.TensorSpec((n,)), "switch": lambda n: lm.switch(n, [lambda: X, lambda: X]),
}
HUGE_IS_FINE = {"seed", "TensorSpec", "switch", "batch", "slice", "step"}  # those of slices are cut, as Python's are
TRIED_BY_MEMORY = {"zeros", "full", "uniform", "eye", "one_hot", "linspace", "nonzero", "unique", "permutation", "Dense", "Embedding", "scatter_add", "scatter_nd", "axis_size", "diag", "tile", "repeat", "broadcast_to", "pad", "pad edge"}


@pytest.mark.parametrize("name", TAKE)
def test_extremes_of_int64_are_exact_or_refused(name):
    for n in ENDS + BEYOND:
        if name in TRIED_BY_MEMORY and 0 < n <= 2**40:
            continue  # the machine's memory limits the size of a tensor
        for mode in (lambda f: f, lm.function):
            try:
                result = mode(lambda: TAKE[name](n))()
                assert n not in BEYOND or name in HUGE_IS_FINE, f"{name}({n}) gave {result}"
            except lm.errors.Error as error:
                assert not isinstance(error, lm.errors.InternalError) and error.what and error.why and error.fix, error


@pytest.mark.parametrize("kind", [lambda v: lm.constant(v), lambda v: lm.Variable(lm.constant(v)), lambda v: np.asarray(v), lambda v: lm.constant(v, "int64")])
def test_tensors_and_arrays_are_lengths_axes_and_counts(kind):
    one, two, pair = kind(1), kind(2), kind([1, 0])
    for mode in (lambda f: f, lm.function)[:1 if isinstance(one, lm.Variable) else 2]:  # a Variable's value is known when the graph runs
        run = lambda f: mode(f)()
        assert run(lambda: lm.zeros(kind([2, 3]))).shape == (2, 3) and run(lambda: lm.zeros((two, 3))).shape == (2, 3) and run(lambda: lm.ones(two)).shape == (2,)
        assert run(lambda: lm.transpose(X, pair)).numpy().tolist() == X.numpy().T.tolist()
        assert run(lambda: lm.repeat(X, pair, 0)).numpy().tolist() == [[1, 2]] and run(lambda: lm.repeat(X, two, one)).shape == (2, 4)
        assert run(lambda: lm.reshape(X, kind([4]))).shape == (4,) and run(lambda: lm.tile(X, pair)).shape == (2, 0)
        assert run(lambda: lm.sum(X, one)).shape == (2,) and run(lambda: lm.flip(X, pair)).numpy().tolist() == [[4, 3], [2, 1]] and run(lambda: lm.expand_dims(X, pair)).shape == (1, 1, 2, 2)
        assert [p.shape for p in run(lambda: lm.split(X, kind([1, 1])))] == [(1, 2), (1, 2)] and run(lambda: lm.broadcast_to(X, kind([3, 2, 2]))).shape == (3, 2, 2)


def test_what_a_graph_computes_is_no_length():
    n = lm.constant(2)
    for f in (lambda n: lm.zeros((n, 2)), lambda n: lm.repeat(X, lm.stack([n, n]), 0), lambda n: lm.sum(X, n), lambda n: lm.reshape(X, (n, -1)), lambda n: lm.tile(X, (n, 1)), lambda n: lm.split(X, n), lambda n: lm.one_hot(lm.constant([0]), n)):
        with pytest.raises(lm.errors.Error) as info:
            lm.function(f)(n)
        assert not isinstance(info.value, lm.errors.InternalError) and info.value.why and info.value.fix


def test_bounds_of_draws_may_be_tensors():
    f = lm.function(lambda low, high: lm.random.integers(low, high, (200,)))
    for low, high in ((0, 7), (-5, 2**30), (-2**30, -2**30 + 1), (3, 4)):
        lm.random.set_seed(5)
        wanted = lm.random.integers(low, high, (200,)).numpy()
        for draw in (f, lambda a, b: lm.random.integers(a, b, (200,))):
            lm.random.set_seed(5)
            assert draw(lm.constant(low), lm.constant(high)).numpy().tolist() == wanted.tolist()
    spread = lm.random.integers(0, lm.constant([1, 10, 100]), (500, 3)).numpy()
    assert spread.dtype == np.int32 and (spread.min(0) >= 0).all() and (spread.max(0) < [1, 10, 100]).all() and spread[:, 2].max() > 80
    assert lm.random.integers(0, lm.constant([5, 6])).shape == (2,)
    each = lm.vmap(lambda n: lm.random.integers(0, n, (50,)))(lm.constant([2, 1000])).numpy()
    assert each[0].max() < 2 and each[1].max() > 500
    for low, high, dtype in ((5, 5, "int32"), (5, 3, "int32"), (0, 300, "uint8"), (-1, 3, "uint8"), (0, 2**40, "int64")):
        with pytest.raises(lm.errors.AssertionFailed, match="random.integers"):
            lm.random.integers(lm.constant(low, "int64"), lm.constant(high, "int64"), (3,), dtype=dtype)
    with pytest.raises(lm.errors.TypeMismatch):
        lm.random.integers(0, lm.constant(3.0))
    with pytest.raises(lm.errors.TypeMismatch):
        lm.random.integers(0, lm.constant(3), dtype="float32")


def test_seeds_are_64_bits():
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 1, -2**63, np.uint64(2**63), np.int32(3), True + 0):
        lm.random.set_seed(seed)
        first = lm.random.uniform((3,)).numpy()
        lm.random.set_seed(seed)
        assert first.tolist() == lm.random.uniform((3,)).numpy().tolist()
    for seed in (2**64, -2**63 - 1, 1.5, "1", None):
        with pytest.raises(lm.errors.Error):
            lm.random.set_seed(seed)
    lm.random.set_seed(2**64 - 1)
    state = lm.random.get_state()
    assert state[0] == -1
    lm.random.set_state(state)


@pytest.mark.parametrize("axis", [(), 0, -1, (0, 1), (-1, 0), (-2, -1), (1, 3)])
def test_expand_dims_takes_several_axes(axis):
    for mode in (lambda f: f, lm.function):
        assert mode(lambda x: lm.expand_dims(x, axis))(X).shape == np.expand_dims(X.numpy(), axis).shape
    assert lm.vmap(lambda x: lm.expand_dims(x, axis))(X[None]).shape == (1, *np.expand_dims(X.numpy(), axis).shape)
    for wrong in ((0, 0), 3, -4, (0, 4), (0, -4)):
        with pytest.raises(lm.errors.InvalidArgument):
            lm.expand_dims(X, wrong)


def test_axes_of_length_1_that_are_open_are_dropped_by_name_only():
    spec = [lm.TensorSpec([None, 1, 3], lm.float32)]
    x = lm.ones((2, 1, 3))
    assert lm.function(lambda v: lm.squeeze(v, 1), input_signature=spec)(x).shape == (2, 3) and lm.function(lambda v: lm.squeeze(v, -2), input_signature=spec)(x).shape == (2, 3)
    for f in (lm.squeeze, lambda v: lm.squeeze(v, 0)):
        with pytest.raises(lm.errors.InvalidArgument, match="squeeze"):
            lm.function(f, input_signature=spec)(x)


VECTOR_BODIES = {
    "mul": lambda x: x * 2.0, "matmul": lambda x: x @ lm.ones((3, 2)), "sum": lm.sum, "max": lm.max, "argmax": lm.argmax, "softmax": lm.softmax, "sort": lm.sort, "concat": lambda x: lm.concat([x, x]),
    "cond": lambda x: lm.cond(lm.sum(x) > 0, lambda: x, lambda: -x), "scan": lambda x: lm.scan(lambda s, r: (s + r, s * r), lm.constant(0.0), x)[1],
    "while_loop": lambda x: lm.while_loop(lambda a: lm.sum(a) < 3, lambda a: a + 1, x), "grad": lambda x: lm.grad(lambda t: lm.sum(t * t))(x), "jacobian": lambda x: lm.jacobian(lambda t: t * t)(x),
    "vmap": lambda x: lm.vmap(lambda r: r + x)(x), "draw": lambda x: x + lm.random.normal((3,)), "set": lambda x: x.at[0].set(1.0), "gather": lambda x: lm.gather(x, lm.constant([0, 2])),
}


@pytest.mark.parametrize("body", VECTOR_BODIES)
def test_vmap_over_nothing_has_the_shape_of_nothing(body):
    mapped = lm.vmap(VECTOR_BODIES[body])
    wanted = (0, *mapped(lm.ones((2, 3))).shape[1:])
    for f in (mapped, lm.function(mapped), lm.function(mapped, input_signature=[lm.TensorSpec([None, 3])])):
        assert f(lm.zeros((0, 3))).shape == wanted


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_whole_numbers_are_rounded_before_the_point_as_python_does(dtype):
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(3).integers(limits.min, limits.max, 300, dtype=dtype, endpoint=True).tolist()
    values = np.array([v for v in [0, 5, 15, 25, 45, 50, 55, -5, -15, -25, -50, 150, 250, limits.min, limits.max, *drawn] if limits.min <= v <= limits.max], dtype)
    for digits in (2, 0, -1, -2, -3, -5, -17, -25):
        want = [round(int(v), digits) for v in values]
        fits = [limits.min <= w <= limits.max for w in want]
        for made in (round(lm.constant(values), digits), lm.function(lambda x: round(x, digits))(lm.constant(values))):
            assert str(made.dtype) == dtype
            assert [int(v) for v, known in zip(made.numpy(), fits) if known] == [w for w, known in zip(want, fits) if known]


def test_halves_are_rounded_in_float32():
    x = np.array([0.126, 30000.0, 1000.5, -2.345, 65504.0], "float16")
    np.testing.assert_array_equal(round(lm.constant(x), 2), np.round(x.astype("f4"), 2).astype("float16"))
    np.testing.assert_array_equal(round(lm.constant(x), -2), np.round(x.astype("f4"), -2).astype("float16"))
