"""Which dtypes mix, and what comes out: for every op of the table and every pair of dtypes, of tensors, arrays, lists and numbers."""
import itertools
import os
import re

import numpy as np
import pytest

import lamina as lm

TABLE = os.path.join(os.path.dirname(__file__), "..", "..", "kernels", "shared", "elementwise_ops.inc")
ROWS = {name: (int(operands), domain, result) for name, operands, domain, result, access in re.findall(r"^ELEMENTWISE\((\w+), (\d), (\w+), (\w+), \w+, (\w+),", open(TABLE).read(), re.M)
        if hasattr(lm, name) and access != "inner" and name not in ("where", "bitwise_not")}
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
NUMPY = tuple(d for d in DTYPES if d != "bfloat16")
MODES = {"eager": lambda f: f, "traced": lm.function}


def kind(dtype):
    return 0 if dtype == "bool" else 2 if "float" in dtype else 1


def accepted(domain, dtype):
    return {"floating": kind(dtype) == 2, "numeric": kind(dtype) > 0, "any": True, "integer": kind(dtype) == 1, "bits": kind(dtype) < 2, "boolean": dtype == "bool"}[domain]


def computed_in(domain, tensors, others=()):
    """The dtype that tensors of these dtypes are computed in beside `others`, which follow them; None: they do not mix."""
    counts = domain in ("floating", "numeric", "integer")
    every = [*tensors, *others]
    if counts and any(d != "bool" for d in every):
        tensors, others = [d for d in tensors if d != "bool"], [d for d in others if d != "bool"]
    if len(set(tensors)) > 1:
        return None
    found = tensors[0] if tensors else others[0]
    if any(kind(d) != kind(found) for d in others):
        return None
    if domain == "floating" and kind(found) < 2:
        found = "float32"
    return found if accepted(domain, found) else None


def tensor(dtype, first=1):
    return lm.astype(lm.constant([first, 1, 0, 2]), dtype)


def check(call, op, row, arguments, wanted):
    """The call's result has the wanted dtype and the values of the same op on converted tensors; without one it is a TypeMismatch with a fix."""
    if wanted is None:
        with pytest.raises(lm.errors.TypeMismatch) as info:
            call()
        assert info.value.why and info.value.fix
        return
    got = call()
    assert got.dtype.name == ("bool" if row[2] == "boolean" else wanted), f"{op}: {got.dtype}"
    same = getattr(lm, op)(*(lm.astype(lm.constant(a), wanted) for a in arguments))
    np.testing.assert_array_equal(lm.astype(got, "float64").numpy(), lm.astype(same, "float64").numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ROWS)
def test_tensors_of_every_pair_of_dtypes(op, mode):
    row = ROWS[op]
    for dtypes in itertools.product(DTYPES, repeat=min(row[0], 2)):
        dtypes += dtypes[-1:] * (row[0] - len(dtypes))
        arguments = [tensor(d, 1 + (i > 0)) for i, d in enumerate(dtypes)]
        check(lambda: MODES[mode](getattr(lm, op))(*arguments), op, row, arguments, computed_in(row[1], dtypes))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", [op for op, row in ROWS.items() if row[0] == 2])
def test_an_array_takes_the_dtype_of_a_tensor_of_its_kind(op, mode):
    row = ROWS[op]
    for own, given in itertools.product(DTYPES, NUMPY):
        t, array = tensor(own), np.array([2, 1, 0, 2]).astype(given)
        wanted = computed_in(row[1], [own], [given])
        if mode == "traced" and wanted and kind(given) == kind(wanted) == 1 and not np.can_cast(given, wanted):
            continue  # whether values fit is not known while tracing: test_an_integer_array_keeps_its_values
        check(lambda: MODES[mode](getattr(lm, op))(t, array), op, row, [t, array], wanted)
        check(lambda: MODES[mode](getattr(lm, op))(array, t), op, row, [array, t], wanted)


@pytest.mark.parametrize("op", [op for op, row in ROWS.items() if row[0] == 2])
@pytest.mark.parametrize("number, name", [(True, "bool"), (2, "int32"), (2.5, "float32")])
def test_numbers_take_the_dtype_of_a_tensor(op, number, name):
    row = ROWS[op]
    for own in DTYPES:
        t = tensor(own)
        wanted = computed_in(row[1], [own], [own if kind(name) == 1 and kind(own) == 2 else "float32" if kind(name) == 2 and row[1] == "floating" and kind(own) == 1 else name]) \
            if row[1] != "floating" or kind(own) != 1 or kind(name) != 2 else "float32"
        check(lambda: getattr(lm, op)(t, number), op, row, [t, number], wanted)


@pytest.mark.parametrize("name", ["mean", "var", "std", "norm", "logsumexp", "softmax", "log_softmax", "sqrt", "exp", "sigmoid", "gelu", "elu", "leaky_relu", "selu", "hard_sigmoid"])
@pytest.mark.parametrize("mode", MODES)
def test_functions_of_fractions_give_float32_for_integers_and_bools(name, mode):
    f = MODES[mode](getattr(lm, name))
    for dtype in DTYPES:
        x = tensor(dtype)
        wanted = dtype if kind(dtype) == 2 else "float32"
        got = f(x)
        assert got.dtype.name == wanted
        np.testing.assert_array_equal(lm.astype(got, "float64").numpy(), lm.astype(f(lm.astype(x, wanted)), "float64").numpy())


def test_the_sentences_of_the_decision():
    x = lm.constant([1.0, -2.0, 3.0])
    assert (x * (x > 0)).numpy().tolist() == [1, 0, 3] and ((x > 0) * x).dtype == lm.float32
    assert lm.mean(x > 0).item() == pytest.approx(2 / 3) and lm.sqrt(2).dtype == lm.float32 and lm.sqrt(4).item() == 2
    n = lm.constant([1, 2, 4])
    assert (1 / n).numpy().tolist() == [1, 0.5, 0.25] and (n / n).dtype == lm.float32 and (n / 2.5).dtype == lm.float32
    assert lm.sum(n).dtype == lm.int32 and ((x > 0) * 2).dtype == lm.int32 and ((x > 0) * 0.5).dtype == lm.float32
    with pytest.raises(lm.errors.TypeMismatch):
        n * 2.5
    with pytest.raises(lm.errors.TypeMismatch):
        x + n
    assert (lm.constant([[True, False]]) @ lm.constant([[1.0], [2.0]])).numpy().tolist() == [[1.0]]


def test_gradients_flow_past_a_mask():
    f = lambda x: lm.sum(x * x * (x > 0))
    for mode in MODES.values():
        assert mode(lm.grad(f))(lm.constant([1.0, -2.0, 3.0])).numpy().tolist() == [2, 0, 6]
    assert lm.vmap(lambda x: x * (x > 0))(lm.constant([[1.0], [-1.0]])).numpy().tolist() == [[1], [0]]


def test_float64_arrays_go_with_float32_models():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 1))
    w, net = lm.Variable(lm.ones((3, 1))), lm.nn.Sequential([lm.nn.Dense(4, "tanh"), lm.nn.Dense(1)])
    for mode in MODES.values():
        for f in (lambda x, y: lm.mean((x @ w - y) ** 2), lambda x, y: lm.mean(lm.square(net(x) - y)), lambda x, y: lm.concat([x @ w, y], 1), lambda x, y: lm.where(x @ w > 0, y, x @ w),
                  lambda x, y: lm.einsum("ij,jk->ik", x, w) + y, lambda x, y: lm.losses.mean_squared_error(y, net(x))):
            got = mode(f)(x, y)
            assert got.dtype == lm.float32
            np.testing.assert_allclose(got.numpy(), f(lm.constant(x.astype("float32")), lm.constant(y.astype("float32"))).numpy(), rtol=1e-6)
    w.assign(np.zeros((3, 1)))
    w.assign_add(np.ones((3, 1)))
    assert w.dtype == lm.float32 and w.numpy().sum() == 3
    signed = lm.function(lambda x: x @ w, input_signature=[lm.TensorSpec([None, 3])])
    np.testing.assert_allclose(signed(x).numpy(), x.sum(1, keepdims=True), rtol=1e-5)


def test_a_graph_of_arrays_is_not_taken_for_tensors():
    w = lm.ones(2)
    f = lm.function(lambda x: x + w)
    assert f(np.ones(2)).dtype == lm.float32 and f.trace_count == 1 and f(np.zeros(2)).numpy().tolist() == [1, 1] and f.trace_count == 1
    with pytest.raises(lm.errors.TypeMismatch):
        f(lm.ones(2, "float64"))
    assert lm.astype(np.ones(2), "float64").dtype == lm.float64 and lm.reshape(np.ones(2), (2,)).dtype == lm.float64
    for made in (lm.astype(np.ones(2), "float64"), lm.constant(np.ones(2)), lm.reshape(np.ones(2), (2,)), lm.function(lambda x: x)(np.ones(2)), +lm.constant(np.ones(2))):
        with pytest.raises(lm.errors.TypeMismatch):
            made + w  # a tensor, no array any more


def test_an_integer_array_keeps_its_values():
    small = lm.constant([1, 2], "uint8")
    assert (small + np.array([3, 250])).dtype == lm.uint8
    for wrong in (np.array([3, 256]), np.array([-1, 0]), [3, 256]):
        with pytest.raises(lm.errors.TypeMismatch, match="does not fit"):
            small + wrong
    with pytest.raises(lm.errors.TypeMismatch, match="only if its values fit") as info:
        lm.function(lambda a: small + a)(np.array([1, 2]))
    assert "traced" in info.value.why and "before the call" in info.value.fix
    assert lm.function(lambda a: lm.constant([1, 2], "int64") + a)(np.array([1, 2], "int16")).dtype == lm.int64


def test_lists_keep_their_digits_beside_float64():
    t = lm.constant([0.0, 0.0], "float64")
    assert (t + [0.1, 0.2]).numpy().tolist() == [0.1, 0.2] and ([0.1, 0.2] + t).numpy().tolist() == [0.1, 0.2] and lm.maximum(t, [0.1, 0.2]).numpy().tolist() == [0.1, 0.2]
    assert (lm.constant([0.0, 0.0]) + [0.1, 0.2]).dtype == lm.float32


def test_layers_convert_floating_inputs():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for x in (np.ones((2, 3)), lm.ones((2, 3)), lm.ones((2, 3), "float64"), lm.ones((2, 3), "float16")):
            for mode in MODES.values():
                for layer in (lm.nn.Dense(2, dtype=dtype), lm.nn.LayerNormalization(dtype=dtype) if hasattr(lm.nn, "LayerNormalization") else lm.nn.LayerNorm(dtype=dtype)):
                    layer(x)
                    assert mode(lambda x: layer(x))(x).dtype.name == dtype
    strict = lm.nn.Dense(2)
    strict.autocast = False
    with pytest.raises(lm.errors.TypeMismatch):
        strict(lm.ones((2, 3), "float64"))
        strict(lm.ones((2, 3), "float64"))
    with pytest.raises(lm.errors.TypeMismatch):
        lm.nn.Dense(2)(lm.ones((2, 3), "int32"))


def test_layers_of_users_convert_too():
    class Scale(lm.nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = lm.Variable(2.0)

        def call(self, x):
            return x * self.w

    scale = Scale()
    assert scale(lm.ones(2, "float64")).dtype == lm.float32 and scale(np.ones(2)).dtype == lm.float32
    scale.autocast = False
    assert not scale.autocast
    with pytest.raises(lm.errors.TypeMismatch):
        scale(lm.ones(2, "float64"))


ARRAY = np.array([[1.0, 2.0], [3.0, 5.0]], "float32")
REDUCTIONS = ("mean", "sum", "max", "min", "std", "var", "prod", "all", "any", "argmax", "argmin", "cumsum")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_numpys_reductions_of_a_tensor_are_tensors(name):
    function = getattr(np, name)
    for make in (lm.constant, lm.Variable):
        for options in ({}, {"axis": None}, {"axis": 0}, {"axis": 1}, {"axis": -1}, *(() if name == "cumsum" else ({"axis": 1, "keepdims": True}, {"keepdims": True}))):
            got, wanted = function(make(ARRAY), **options), function(ARRAY, **options)
            assert isinstance(got, lm.Tensor) and got.shape == wanted.shape
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    if name in ("mean", "sum", "prod", "std", "var", "cumsum"):
        assert function(lm.constant(ARRAY), dtype="float64").dtype == lm.float64
    with pytest.raises(lm.errors.InvalidArgument, match="out"):
        getattr(lm.constant(ARRAY), name)(out=np.zeros(()))
    assert function(ARRAY).tolist() == function(np.asarray(lm.constant(ARRAY))).tolist()


def test_operators_with_arrays_on_the_left_give_tensors():
    t = lm.constant([1.0, 2.0])
    for got in (np.array([1.0, 2.0]) + t, np.array([1.0, 2.0]) @ t, np.float64(2) * t, np.ones((2, 2)) @ t, np.array([1.0, 2.0]) ** lm.Variable(t), np.array([1.0, 2.0]) < t):
        assert isinstance(got, lm.Tensor) and got.dtype in (lm.float32, lm.bool)


class OtherLibrary:
    """An array that only DLPack reads, as a tensor of PyTorch that needs a gradient in NumPy's way."""

    def __init__(self, array):
        self.array = array

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no way through NumPy")

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_read_through_dlpack():
    memory = np.array([1.0, 2.0])
    t = lm.constant([1.0, 1.0])
    got = [t + OtherLibrary(memory), lm.add(OtherLibrary(memory), t), lm.function(lambda a: a + t)(OtherLibrary(memory))]
    memory[:] = 7  # the copies do not follow
    assert all(g.numpy().tolist() == [2, 3] and g.dtype == lm.float32 for g in got)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_torch_and_jax_read_and_are_read(library):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    t = lm.constant([1.0, 2.0])
    theirs = module.asarray([3.0, 4.0])
    assert (t + theirs).numpy().tolist() == [4, 6]
    assert np.asarray(module.asarray(np.asarray(t) if library == "torch" else t)).tolist() == [1, 2]


def test_open_lengths_of_one_signature_that_meet_are_equal():
    net = lm.nn.Sequential([lm.nn.Dense(4, "tanh"), lm.nn.Dense(1)])
    spec = [lm.TensorSpec([None, 4]), lm.TensorSpec([None, 1])]
    loss = lm.function(lambda x, y: lm.mean((net(x) - y) ** 2), input_signature=spec)
    plain = lambda x, y: lm.mean((net(x) - y) ** 2)
    rng = np.random.default_rng(3)
    for n in (3, 7, 1):
        x, y = lm.constant(rng.normal(size=(n, 4)).astype("float32")), lm.constant(rng.normal(size=(n, 1)).astype("float32"))
        np.testing.assert_allclose(loss(x, y).numpy(), plain(x, y).numpy(), rtol=1e-6)
    assert loss.trace_count == 1
    with pytest.raises(lm.errors.InvalidArgument) as info:
        loss(lm.ones((3, 4)), lm.ones((2, 1)))
    assert "equally long" in info.value.why and info.value.fix

    @lm.function(input_signature=spec)
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.where(x[:, :1] > 0, (y - net(x)) ** 2, y * 0))
        return tape.gradient(cost, net.trainable_variables)

    assert step(lm.ones((5, 4)), lm.ones((5, 1)))[0].shape == (4, 4)
    with pytest.raises(lm.errors.InvalidArgument):  # two names say that they differ
        lm.function(lambda x, y: x - y, input_signature=[lm.TensorSpec(["n", 1]), lm.TensorSpec(["m", 1])])(lm.ones((2, 1)), lm.ones((2, 1)))


ARRAYS = {
    "slice": lambda x, w: x[1:, ::2] * w[0, 0], "row": lambda x, w: x[0] + w[0], "picked": lambda x, w: x[[0, 1]] * w, "new axis": lambda x, w: x[:, None] * w[None], "rows of a loop": lambda x, w: sum((row * w[0] for row in x), w[1]),
    "unpacked": lambda x, w: (lambda a, b: a * w + b)(*x), "transposed": lambda x, w: x.T @ w, "reshaped": lambda x, w: x.reshape(-1) * w[:1, 0], "squeezed": lambda x, w: x[:1].squeeze() * w[0], "operator": lambda x, w: (x - 0.5) / 2 * w,
    "reflected": lambda x, w: (1 - x) * w, "two arrays": lambda x, w: (x + x[::-1]) * w, "unary": lambda x, w: abs(-x) * w, "power": lambda x, w: x ** 2 * w, "product": lambda x, w: (x @ x.T) @ w, "sum": lambda x, w: w * x.sum(),
    "mean": lambda x, w: (x - x.mean(axis=0)) * w, "standard deviation": lambda x, w: x / x.std() * w, "largest": lambda x, w: x.max(axis=1) + w[0, :2], "running sum": lambda x, w: x.cumsum(axis=0) * w, "condition": lambda x, w: lm.where(x > 0, w, 0.0),
}


def case(name, dtype):
    """f, an array and a float32 tensor for it."""
    w = lm.constant([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
    return ARRAYS[name], np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -2.0]], dtype), w[:, :2] if name in ("slice", "transposed", "product") else w


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_what_a_traced_or_mapped_function_takes_out_of_an_array_stays_an_array_as_numpy_s_do(name, dtype):
    f, x, w = case(name, dtype)
    eager = f(x, w)
    mapped = lm.vmap(lambda x: f(x, w))
    for other in (lm.function(f)(x, w), mapped(x[None])[0], lm.function(mapped)(x[None])[0]):
        assert other.dtype == eager.dtype == lm.float32
        np.testing.assert_allclose(other, eager, rtol=4e-3 if dtype == "float16" else 1e-6, atol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_gradients_flow_through_what_is_taken_out_of_an_array(name, traced):
    f, x, w = case(name, "float64")

    def gradient(x, w):
        with lm.GradientTape() as tape:
            tape.watch(x)
            value = lm.sum(lm.square(f(x, w)))
        return tape.gradient(value, x, unconnected_gradients="zero")

    of_array = lm.function(gradient)(x, w) if traced else gradient(lm._core._as_array(lm.constant(x)), w)
    of_tensor = gradient(lm.constant(x), lm.astype(w, "float64"))
    assert of_array.dtype == lm.float64
    np.testing.assert_allclose(of_array, of_tensor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_gradients_by_an_array_are_arrays(traced):
    """A residual of float64 points and a float32 network's derivatives."""
    w = lm.Variable([[0.5], [-1.0]])

    def residual(points):
        t, x = points[:, :1], points[:, 1:]
        with lm.GradientTape() as outer:
            outer.watch(x)
            with lm.GradientTape(persistent=True) as inner:
                inner.watch((t, x))
                u = lm.sin(t * w[0] + x * w[1])
            by_t, by_x = inner.gradient(u, (t, x))
        twice = outer.gradient(by_x, x)
        return by_t + u * by_x - 0.1 * twice

    points = np.random.default_rng(0).random((5, 2))
    found = lm.function(residual)(points) if traced else residual(lm._core._as_array(lm.constant(points)))
    assert found.dtype == lm.float32
    phase = points @ np.array([[0.5], [-1.0]])
    np.testing.assert_allclose(found, 0.5 * np.cos(phase) - np.sin(phase) * np.cos(phase) + 0.1 * np.sin(phase), rtol=1e-5, atol=1e-6)
