"""Lengths that a signature leaves open: those that meet in an op are equal, relax_shapes keeps equal ones equal, a model's steps take any number of rows."""
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from elementwise_rows import ROWS

import lamina as lm

F, I = "float32", "int64"
CASES = {
    "sparse cross entropy": (lambda a, b: lm.losses.SparseCrossEntropy(from_logits=True)(b, a), [(None, 4, F), (None, I)]),
    "its gradient": (lambda a, b: lm.grad(lambda x: lm.losses.SparseCrossEntropy(from_logits=True)(b, x))(a), [(None, 4, F), (None, I)]),
    "elementwise": (lambda a, b: a - b, [(None, 4, F), (None, 4, F)]),
    "matmul, inner": (lambda a, b: a @ b, [(3, None, F), (None, 4, F)]),
    "matmul, batch": (lambda a, b: a @ b, [(None, 3, 2, F), (None, 2, 4, F)]),
    "concat": (lambda a, b: lm.concat([a, b], 1), [(None, 4, F), (None, 3, F)]),
    "stack of three": (lambda a, b, c: lm.stack([a, b, c]), [(None, 4, F)] * 3),
    "einsum": (lambda a, b: lm.einsum("ij,ik->jk", a, b), [(None, 4, F), (None, 3, F)]),
    "dot": (lambda a, b: lm.dot(a, b), [(None, F), (None, F)]),
    "tensordot": (lambda a, b: lm.tensordot(a, b, axes=([0], [0])), [(None, 3, F), (None, 4, F)]),
    "take_along_axis": (lambda a, b: lm.take_along_axis(a, b, 1), [(None, 4, F), (None, 2, I)]),
    "clip": (lambda a, b: lm.clip(a, b, b + 1), [(None, 4, F), (None, 4, F)]),
    "cond": (lambda a, b: lm.cond(lm.sum(a) > 0, lambda: a, lambda: b), [(None, 4, F), (None, 4, F)]),
    "vmap": (lambda a, b: lm.vmap(lambda x, y: lm.sum(x) * y)(a, b), [(None, 4, F), (None, F)]),
    "scan": (lambda a, b: lm.scan(lambda c, xs: (c + lm.sum(xs[0]) * xs[1], c), lm.constant(0.0), (a, b)), [(None, 4, F), (None, F)]),
    "at": (lambda a, b: a.at[:].add(b), [(None, 4, F), (None, 4, F)]),
    "solve": (lambda a, b: lm.linalg.solve(a, b), [(None, 2, 2, F), (None, 2, 1, F)]),
}


def arguments(specs, lengths, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [[n if d is None else d for d in dims] for (*dims, _), n in zip(specs, lengths)]
    return [rng.integers(0, 2, shape) if dtype == I else rng.standard_normal(shape).astype(dtype) for shape, (*_, dtype) in zip(shapes, specs)]


@pytest.mark.parametrize("name", CASES)
def test_open_lengths_that_meet_in_an_op_are_equal(name):
    fn, specs = CASES[name]
    traced = lm.function(fn, input_signature=[lm.TensorSpec(list(dims), dtype) for *dims, dtype in specs])
    for n in (5, 5, 3, 8):
        given = arguments(specs, [n] * len(specs), n)
        want, got = fn(*map(lm.constant, given)), traced(*given)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got))):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-5)
    assert traced.trace_count == 1
    with pytest.raises((ValueError, TypeError)) as e:
        traced(*arguments(specs, [5, *[7] * (len(specs) - 1)]))
    assert isinstance(e.value, lm.errors.Error)
    assert traced.trace_count == 1 and np.all(np.isfinite(np.asarray(lm.tree.flatten(traced(*given))[0][0])))


ELEMENTWISE = {**{name: (getattr(lm, name), row.kinds) for name, row in ROWS.items()}, **{name: (getattr(lm, name), "n") for name in ("angle", "conj", "digamma", "erfinv", "imag", "lgamma", "real", "signbit", "selu", "hard_sigmoid", "zeros_like", "ones_like")},
               **{name: (getattr(lm, name), "nn") for name in ("allclose", "complex", "copysign", "hypot", "isclose", "nextafter", "vecdot", "remainder", "vdot")}, "clip": (lambda x: lm.clip(x, -1, 1), "n"), "where": (lambda a, b: lm.where(a > b, a, b), "nn"),
               "broadcast_arrays": (lambda a, b: lm.broadcast_arrays(a, b)[1], "nn"), "clip between": (lambda a, b: lm.clip(a, b, b + 1), "nn"), "xp.conj": (lm.xp.conj, "n"), "xp.round": (lm.xp.round, "n")}
OF_COMPLEX = ("abs", "angle", "conj", "exp", "imag", "isnan", "log", "neg", "real", "sign", "sqrt", "square", "add", "div", "equal", "isclose", "allclose", "mul", "pow", "sub", "vecdot", "vdot", "where", "zeros_like", "xp.conj", "xp.round")


@pytest.mark.parametrize("name", [*ELEMENTWISE, *(f"{n} of complex" for n in OF_COMPLEX)])
def test_elementwise_functions_take_open_lengths(name):
    rng, (fn, kinds) = np.random.default_rng(1), ELEMENTWISE[name.removesuffix(" of complex")]
    if name == "where of complex":
        fn = lambda a, b: lm.where(lm.real(a) > 0, a, b)
    dtype = "complex64" if "of complex" in name else "bool" if "b" in kinds else I if "i" in kinds else F

    def sample(*shape):
        x = rng.uniform(1.1, 2, shape) if "o" in kinds else rng.uniform(0.1, 0.9, shape)
        return (rng.integers(0, 5, shape) if dtype == I else x + 1j * x[::-1] if dtype == "complex64" else x > 0.5 if dtype == "bool" else x).astype(dtype)

    for dims in ([None], [None, 3], [3, None], ["n"]):
        traced = lm.function(fn, input_signature=[lm.TensorSpec(dims, dtype)] * len(kinds))
        for n in (4, 3):
            given = [sample(*[d if isinstance(d, int) else n for d in dims]) for _ in kinds]
            np.testing.assert_allclose(traced(*given).numpy(), fn(*map(lm.constant, given)).numpy(), rtol=1e-4, atol=1e-6)
        assert traced.trace_count == 1


def test_operands_of_fewer_axes_meet_open_lengths():
    for fn in (lm.complex, lm.copysign, lm.hypot, lm.isclose, lm.nextafter, lambda a, b: lm.broadcast_arrays(a, b)[1]):
        traced = lm.function(fn, input_signature=[lm.TensorSpec([None, 3]), lm.TensorSpec([3])])
        for n in (2, 5):
            a, b = np.arange(3.0 * n, dtype=F).reshape(n, 3), np.float32([1, -2, 0])
            assert np.array_equal(traced(a, b).numpy(), fn(lm.constant(a), lm.constant(b)).numpy())
    slopes = lm.function(lm.grad(lambda a, b: lm.sum(lm.abs(lm.complex(a, b))), argnums=(0, 1)), input_signature=[lm.TensorSpec([None, 3]), lm.TensorSpec([3])])
    for got, wanted in zip(slopes(np.full((4, 3), 3, F), np.full(3, 4, F)), (np.full((4, 3), 0.6), np.full(3, 3.2))):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


def test_a_step_over_an_open_length_is_refused_as_it_is_written():
    for key, text in ((slice(None, None, 2), "::2"), (slice(1, None, 2), "1::2"), (slice(None, None, -2), "::-2"), (slice(None, -1, 3), ":-1:3")):
        with pytest.raises(lm.errors.InvalidArgument, match=f"the length of {text} of "):
            lm.function(lambda x, key=key: x[key], input_signature=[lm.TensorSpec([None])])(np.ones(4, F))
    whole = lm.function(lambda x: x[0:2**62], input_signature=[lm.TensorSpec([None])])
    assert whole(np.ones(4, F)).shape == (4,) and whole(np.ones(7, F)).shape == (7,)


def test_only_lengths_that_meet_are_equal():
    @lm.function(input_signature=[lm.TensorSpec([None, 4], F), lm.TensorSpec([None, 4], F), lm.TensorSpec([None], F)])
    def f(a, b, other):
        return lm.concat([a, b], 1), lm.sum(other)

    for n, k in ((5, 5), (5, 2), (3, 9)):
        joined, total = f(np.ones((n, 4), F), np.ones((n, 4), F), np.ones(k, F))
        assert joined.shape == (n, 8) and total.item() == k
    assert f.trace_count == 1


def test_lengths_of_two_names_are_two_and_errors_stay():
    f = lm.function(lambda a, b: a @ b, input_signature=[lm.TensorSpec([3, "k"], F), lm.TensorSpec(["m", 4], F)])
    with pytest.raises(lm.errors.InvalidArgument, match="matmul.* do not fit"):
        f(np.ones((3, 5), F), np.ones((5, 4), F))
    runs = []

    @lm.function(input_signature=[lm.TensorSpec([None], F), lm.TensorSpec([None], F)])
    def g(a, b):
        runs.append(1)
        raise RuntimeError("of the user: n0_0_0 n0_1_0")

    with pytest.raises(RuntimeError, match="of the user"):
        g(np.ones(3, F), np.ones(3, F))
    assert len(runs) == 1


def test_threads_find_the_equal_lengths_at_once():
    fn, specs = CASES["stack of three"]
    for _ in range(20):
        traced = lm.function(lambda a, b, c: fn(a, b, c), input_signature=[lm.TensorSpec(list(dims), dtype) for *dims, dtype in specs])
        with ThreadPoolExecutor(4) as pool:
            shapes = list(pool.map(lambda n: traced(*arguments(specs, [n] * 3)).shape, [3, 4, 5, 6]))
        assert shapes == [(3, n, 4) for n in (3, 4, 5, 6)] and traced.trace_count == 1


@pytest.mark.filterwarnings("ignore::lamina.RetraceWarning")
def test_relaxed_lengths_that_were_always_equal_stay_equal_until_a_call_in_which_they_differ():
    @lm.function(relax_shapes=True)
    def step(x, y):
        return lm.losses.SparseCrossEntropy(from_logits=True)(y, x)

    @lm.function(relax_shapes=True)
    def sums(x, y):
        return lm.sum(x) + lm.sum(y)

    rng = np.random.default_rng(0)
    for n in (20, 13, 7, 20, 9):
        x, y = rng.standard_normal((n, 4)).astype(F), rng.integers(0, 4, n)
        assert step(x, y).item() == pytest.approx(lm.losses.SparseCrossEntropy(from_logits=True)(lm.constant(y), lm.constant(x)).item(), rel=1e-5)
    assert step.trace_count == 2
    for n, m in ((2, 2), (3, 3), (4, 4), (4, 5), (6, 7), (8, 8), (9, 1)):
        assert sums(np.ones(n, F), np.ones(m, F)).item() == n + m
    assert sums.trace_count == 3


# --- functions of every length: as untraced, or refused ---

def outcome(fn, *given):
    try:
        return [a.numpy() for a in lm.tree.flatten(fn(*map(lm.constant, given)))[0]]
    except lm.errors.Error as e:
        return e


def same(got, want):
    if isinstance(got, Exception) or isinstance(want, Exception):
        return type(got) is type(want)
    return len(got) == len(want) and all(a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) for a, b in zip(got, want))


def test_roll_of_an_open_length_takes_any_shift():
    rng = np.random.default_rng(0)
    for shift in (-7, -2, -1, 0, 1, 3, 9):
        for axis in (0, 1, None, (0, 1), (0, 0)):
            steps = (shift, 1) if isinstance(axis, tuple) else shift
            fn = lm.function(lambda x, steps=steps, axis=axis: lm.roll(x, steps, axis), input_signature=[lm.TensorSpec([None, 3], F)])
            slope = lm.function(lm.grad(lambda x, w, steps=steps, axis=axis: lm.sum(lm.roll(x, steps, axis) * w)), input_signature=[lm.TensorSpec(["n", 3], F)] * 2)
            back = tuple(-s for s in steps) if isinstance(axis, tuple) else -steps
            for n in (0, 1, 2, 3, 5):
                x = rng.standard_normal((n, 3)).astype(F)
                assert np.array_equal(fn(x).numpy(), np.roll(x, steps, axis)) and np.array_equal(slope(x, x).numpy(), np.roll(x, back, axis))
        counted = lm.function(lambda n, shift=shift: (lm.roll(lm.arange(n), shift), lm.xp.roll(lm.arange(n) > 0, shift)))
        for n in (0, 1, 2, 5):
            assert np.array_equal(counted(lm.constant(n))[0].numpy(), np.roll(np.arange(n), shift)) and np.array_equal(counted(lm.constant(n))[1].numpy(), np.roll(np.arange(n) > 0, shift))


OF_SLICES = {  # per function whether input_signature takes axes that are too short for its slices
    "pad after": (lambda x: lm.pad(x[3:], ((0, 3),)), False), "pad after one": (lambda x: lm.pad(x[1:], ((0, 1),)), False), "pad around": (lambda x: lm.pad(x[3:], ((1, 1),)), False),
    "pad before": (lambda x: lm.pad(x[4:], ((4, 0),)), False), "pad of the first": (lambda x: lm.pad(x[:5], ((1, 1),)), False), "pad of the last": (lambda x: lm.pad(x[-3:-1] + 1, ((1, 1),)), False),
    "pad backwards": (lambda x: lm.pad(x[4::-1], ((0, 1),)), False), "pad of steps": (lambda x: lm.pad(x[0:4:2], ((0, 1),)), False), "pad of zeros": (lambda x: lm.pad(lm.zeros_like(x[3:]), ((0, 3),)), False),
    "ones beside": (lambda x: lm.ones_like(x[:5]) + x[:5], False), "gradient": (lambda x: lm.grad(lambda v: lm.sum(v[2:] ** 2))(x), False), "in a branch": (lambda x: lm.cond(lm.constant(True), lambda: lm.pad(x[3:], ((0, 3),)), lambda: lm.pad(x[3:], ((3, 0),))), False),
    "sums in a loop": (lambda x: lm.scan(lambda s, v: (s + v + lm.sum(x[3:]), s), lm.constant(0.0), x)[0], True),
    "a sum in a branch": (lambda x: lm.cond(lm.sum(x) > -1e9, lambda: lm.sum(x[:4] * 2), lambda: lm.constant(0.0)), True),
    "out of a branch": (lambda x: lm.cond(lm.sum(x) > -1e9, lambda: x[3:], lambda: x[3:] * 2), False),
    "rest": (lambda x: x[3:], True), "first": (lambda x: x[:5] * 2, True), "last": (lambda x: x[-3:], True), "sums": (lambda x: (lm.sum(x[3:]), lm.mean(x[:4]), lm.cumsum(x[2:])), True), "concat": (lambda x: lm.concat([x[:5], x[3:]]), True),
    "differences": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], True), "variance": (lambda x: lm.var(x[1:]), True), "an element": (lambda x: x[2], True), "the last": (lambda x: x[-1] + lm.sum(x), True),
    "add at": (lambda x: x.at[1:].add(1.0), True), "set at": (lambda x: x.at[:3].set(0.0), True), "multiply at": (lambda x: x.at[-3:].mul(2.0), True), "largest at": (lambda x: x.at[1:-1].max(2.0), True), "element at": (lambda x: x.at[2].add(1.0), True),
    "mean by len": (lambda x: lm.sum(x[:5]) / lm.astype(len(x[:5]), F), True), "len of a rest": (lambda x: lm.astype(len(x[3:] * 2), F), True), "len of rows": (lambda x: lm.astype(len(lm.stack([x, x], 1)[1:4] + 1), F), True),
    "len of an element": (lambda x: x[2] * len(lm.stack([x, x], 1)[2]), True), "len in a loop": (lambda x: lm.fori_loop(0, 3, lambda i, s: s + lm.astype(len(x[-4:]), F), lm.constant(0.0)), True),
    "gradient at": (lambda x: lm.grad(lambda v: lm.sum(v.at[:3].set(0.0) ** 2))(x), True)}


@pytest.mark.filterwarnings("ignore::lamina.RetraceWarning")
@pytest.mark.parametrize("name", OF_SLICES)
def test_slices_longer_than_an_axis_are_as_untraced_or_refused(name):
    fn, any_length = OF_SLICES[name]
    given = lm.function(fn, input_signature=[lm.TensorSpec([None], F)])
    for n in (7, 0, 1, 2, 3, 4, 5, 6):
        x = np.arange(1, n + 1, dtype=F)
        want, got, relaxed = outcome(fn, x), outcome(given, x), lm.function(fn, relax_shapes=True)
        if any_length or n >= 5 or not isinstance(got, lm.errors.SignatureMismatch):
            assert same(got, want), n
        else:
            assert "is too short" in str(got) and "the graph was traced for at least" in str(got) and "test_open_lengths.py" in str(got)
        for k in (8, 7):
            relaxed(np.ones(k, F))
        assert same(outcome(relaxed, x), want) and same(outcome(relaxed, np.ones(9, F)), outcome(fn, np.ones(9, F)))
        outer = lm.function(lambda x, given=given: given(x))
        assert same(outcome(outer, x), got)
    assert given.trace_count == 1


NEED_LENGTHS = {
    "median": lm.median, "cumprod": lm.cumprod, "every other": lambda x: x[::2], "rfft": lambda x: lm.abs(lm.fft.rfft(x)), "diag": lm.diag, "eye": lambda x: lm.eye(x.shape[0]), "arange": lambda x: lm.arange(x.shape[0]),
    "reshape": lambda x: lm.reshape(x, (x.shape[0], 1)), "mean": lambda x: lm.sum(x) / len(x), "one hot": lambda x: lm.one_hot(lm.astype(x, "int64"), len(x)), "list": lambda x: lm.stack([v * v for v in x]), "quantile": lambda x: lm.quantile(x, 0.3)}


@pytest.mark.filterwarnings("ignore::lamina.RetraceWarning")
@pytest.mark.parametrize("name", NEED_LENGTHS)
def test_relax_shapes_takes_functions_that_need_their_lengths(name):
    fn, runs = NEED_LENGTHS[name], []
    relaxed = lm.function(lambda x: (runs.append(1), fn(x))[1], relax_shapes=True)
    for n in (3, 5, 4, 3, 6, 4):
        assert same(outcome(relaxed, np.arange(1, n + 1, dtype=F)), outcome(fn, np.arange(1, n + 1, dtype=F)))
    assert len(runs) <= 5  # each length once, and one attempt for all lengths


@pytest.mark.filterwarnings("ignore::lamina.RetraceWarning")
def test_relax_shapes_keeps_the_open_lengths_that_work():
    runs = []

    @lm.function(relax_shapes=True)
    def products(x, y):
        runs.append(1)
        return x @ y

    for n, m in ((3, 3), (4, 4), (5, 1), (6, 6), (1, 5), (7, 7), (5, 1), (8, 8)):
        assert np.array_equal(products(np.ones((n, 2, 2), F), np.ones((m, 2, 2), F)).numpy(), np.full((max(n, m), 2, 2), 2, F))
    assert len(runs) == 5 and products.trace_count == 4  # of (3, 3), equal lengths, an attempt for others, (5, 1), (1, 5)
    broken, runs = lm.function(lambda x: (runs.append(1), 1 // 0), relax_shapes=True), []
    for n in (3, 4, 5):
        with pytest.raises(ZeroDivisionError):
            broken(np.ones(n, F))


# --- a model's own steps ---

def fitted():
    net = lm.nn.Sequential([lm.nn.Dense(8, "relu"), lm.nn.Dense(3)])
    net.compile("adam", lm.losses.SparseCrossEntropy(from_logits=True))
    return net


def test_a_model_takes_any_number_of_rows_without_a_graph_or_a_warning_for_each():
    rng, net = np.random.default_rng(0), fitted()
    x, y = rng.standard_normal((300, 4)), rng.integers(0, 3, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lm.errors.RetraceWarning)
        for size in (10, 7, 64, 33, 100, 11):
            net.fit(x, y, epochs=1, batch_size=size, verbose=0, shuffle=False)
        for n in range(1, 300):
            out = net.predict(x[:n], batch_size=1000)
            assert out.shape == (n, 3)
            if n % 50 == 0:
                np.testing.assert_allclose(out, net(x[:n]).numpy(), rtol=1e-5, atol=1e-6)
                net.train_on_batch(x[:n], y[:n])
                net.evaluate(x[:n], y[:n], verbose=0, batch_size=1000)
    assert net._predict_step.trace_count <= 5 and net._train_step.trace_count <= 5 and net._test_step.trace_count <= 5


def test_a_model_whose_layer_needs_its_lengths_has_a_graph_for_each():
    class Rows(lm.nn.Layer):
        def call(self, x):
            return lm.stack([x[i] * (i + 1) for i in range(int(x.shape[0]))])

    net = lm.nn.Sequential([lm.nn.Dense(3), Rows()])
    net.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((20, 4)).astype(F)
    for n in (*range(1, 12), 3):
        np.testing.assert_allclose(net.predict(x[:n]), net(x[:n]).numpy(), rtol=1e-5, atol=1e-6)
    assert net._predict_step.trace_count == 11


def test_members_of_an_ensemble_take_any_number_of_rows():
    ensemble = lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(4, "tanh"), lm.nn.Dense(1)]), 3, input_shape=(2,))
    x = np.random.default_rng(0).standard_normal((40, 2)).astype(F)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lm.errors.RetraceWarning)
        for n in range(1, 30):
            assert np.asarray(ensemble.predict(x[:n])).shape[-2:] == (n, 1)
    assert ensemble._predict.trace_count <= 5


def test_the_graph_of_an_input_signature():
    f = lm.function(lambda x, y: x + y, input_signature=[lm.TensorSpec([None]), lm.TensorSpec([None])])
    assert f.get_concrete_function() is f.get_concrete_function(lm.TensorSpec([None]), lm.TensorSpec([None])) and f.trace_count == 1
    with pytest.raises(lm.errors.SignatureMismatch, match="missing 1 required"):
        lm.function(lambda x: x).get_concrete_function()
