"""Every function in float16 and bfloat16 against float64 of the same inputs: results and gradients differ by a few roundings of the half
type, and are finite where that type can hold them. Intermediate values are float32.

LAMINA_TEST_LONG=1 covers all functions, scales and seeds; otherwise one scale of each.
"""
import math
import os
import re

import numpy as np
import pytest

import lamina as lm

LONG = os.environ.get("LAMINA_TEST_LONG") == "1"
HALVES = ["float16", "bfloat16"]
# Bits of the significand, smallest exponent, largest number.
TYPES = {"float16": (11, -24, 65504.0), "bfloat16": (8, -133, float.fromhex("0x1.fep127"))}


def to_half(x, half):
    return lm.astype(lm.constant(np.asarray(x, "float64")), half)


def numbers(t):
    return lm.astype(t, lm.float64).numpy()


def spacing(x, half):
    digits, least, _ = TYPES[half]
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(np.abs(np.where(np.isfinite(x), x, 1))))
    return np.exp2(np.maximum(exponent - digits + 1, least))


def compare(name, half, got, wanted, ulps, of_largest=0.0):
    largest = TYPES[half][2]
    got, wanted = np.asarray(got, "float64"), np.asarray(wanted, "float64")
    assert got.shape == wanted.shape, name
    if not wanted.size:
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    allowed = ulps * spacing(wanted, half) + of_largest * (finite.max() if finite.size else 0)
    with np.errstate(invalid="ignore"):
        right = np.abs(got - wanted) <= allowed
    right |= (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    right |= (np.sign(got) == np.sign(wanted)) & (np.abs(wanted) >= largest * (1 - 2.0 ** -TYPES[half][0] * ulps)) & (np.abs(got) >= largest * 0.99)
    where = np.argwhere(~right)[:5]
    assert right.all(), f"{name} in {half}: " + "; ".join(f"at {tuple(i)} {got[tuple(i)]!r}, not {wanted[tuple(i)]!r}" for i in where)


# --- the functions: name, f, shapes of the operands, domain, roundings of the result, of the gradient ---

def normal(rng, shape, scale):
    return rng.standard_normal(shape) * scale


def positive(rng, shape, scale):
    return np.abs(rng.standard_normal(shape)) * scale + 1e-3 * scale


def unit(rng, shape, scale):
    return rng.uniform(-0.99, 0.99, shape)


def above_one(rng, shape, scale):
    return 1 + np.abs(rng.standard_normal(shape)) * scale + 0.01


def probabilities(rng, shape, scale):
    p = rng.uniform(0.05, 1, shape)
    return p / p.sum(-1, keepdims=True)


def row(name, f, *shapes, domain=normal, value=1.5, slope=2.5, of_largest=1e-6, scales=(1.0, 0.01, 20.0)):
    return pytest.param(f, shapes or ((257,),), domain, value, slope, of_largest, scales, id=name)


def unary(name, **options):
    return row(name, getattr(lm, name), **options)


W = ((3, 40),)
CASES = [
    *[unary(n) for n in ("abs", "asinh", "atan", "cbrt", "ceil", "cos", "erf", "floor", "neg", "relu", "round", "sigmoid", "sign", "sin", "softplus", "square",
                         "tanh", "trunc", "selu", "hard_sigmoid", "gelu", "silu", "elu", "leaky_relu")],
    *[unary(n, scales=(1.0, 0.01, 4.0)) for n in ("cosh", "exp", "exp2", "expm1", "sinh", "erfc")],
    *[unary(n, domain=unit) for n in ("acos", "asin", "atanh")],
    unary("acosh", domain=above_one),
    *[unary(n, domain=positive, scales=(1.0, 0.01, 1000.0)) for n in ("log", "log10", "log2", "log1p", "rsqrt", "sqrt", "reciprocal")],
    unary("tan", domain=unit),
    row("gelu_tanh", lambda x: lm.gelu(x, approximate=True)),
    *[row(n, getattr(lm, n), (40,), (40,)) for n in ("add", "sub", "mul", "maximum", "minimum", "logaddexp", "atan2")],
    row("div", lm.div, (40,), (40,), domain=positive),
    row("pow", lm.pow, (40,), (40,), domain=positive, scales=(1.0,)),
    *[row(n, getattr(lm, n), (40,), (40,), domain=positive, slope=2) for n in ("mod", "fmod", "floor_divide")],
    row("broadcast mul", lm.mul, (30, 40), (40,), slope=3),
    row("where", lambda x, y: lm.where(x > y, x, y), (40,), (40,)),
    row("clip", lambda x: lm.clip(x, -0.5, 0.5)),
    # sums
    *[row(f"{n} of {a}", lambda x, n=n, a=a: getattr(lm, n)(x, axis=a), *W) for n in ("sum", "mean", "max", "min", "var", "std", "logsumexp", "norm")
      for a in (0, 1, None)],
    row("prod", lambda x: lm.prod(x, axis=1), (3, 9), domain=positive, scales=(1.0,), slope=3),
    row("norm of order 3", lambda x: lm.norm(x, 3, axis=1), *W, scales=(1.0, 20.0)),
    row("norm of order 1", lambda x: lm.norm(x, 1, axis=1), *W),
    row("var with ddof", lambda x: lm.var(x, axis=1, ddof=1), *W),
    row("sum of thousands", lambda x: lm.sum(x), (6000,), domain=positive, scales=(1.0,)),
    row("mean of thousands", lambda x: lm.mean(x), (70000,), domain=positive, scales=(1.0, 20.0)),
    row("cumsum", lambda x: lm.cumsum(x), (300,)),
    row("softmax", lm.softmax, *W),
    row("log_softmax", lm.log_softmax, *W),
    row("max of many ties", lambda x: lm.max(lm.clip(x, -5.0, -4.0)), (5000,), scales=(1.0,)),
    # products
    row("matmul", lm.matmul, (7, 33), (33, 5), slope=2),
    row("batched matmul", lm.matmul, (2, 7, 33), (2, 33, 5), slope=2),
    row("dot of thousands", lm.dot, (9000,), (9000,), domain=positive, scales=(1.0,)),
    row("einsum", lambda a, b: lm.einsum("ij,kj->ik", a, b), (4, 30), (5, 30)),
    row("outer", lm.outer, (5,), (6,)),
    row("conv2d", lambda x, w: lm.conv2d(x, w, padding="same"), (2, 6, 6, 3), (3, 3, 3, 4), scales=(1.0,), slope=2),
    row("avg_pool2d", lambda x: lm.avg_pool2d(x, 3, 1), (1, 8, 8, 2), value=2.5, slope=4),
    row("max_pool2d", lambda x: lm.max_pool2d(x, 3, 1), (1, 8, 8, 2), slope=2),
    row("conv1d", lambda x, w: lm.conv1d(x, w), (2, 9, 3), (3, 3, 4), scales=(1.0,), slope=2),
    row("conv2d_transpose", lambda x, w: lm.conv2d_transpose(x, w, strides=2), (1, 4, 4, 3), (3, 3, 2, 3), scales=(1.0,), slope=2),
    *[row(n, getattr(lm, n), (4, 30), (5, 30)) for n in ("inner",)],
    row("tensordot", lambda a, b: lm.tensordot(a, b, 2), (3, 4, 5), (4, 5, 6)),
    row("vdot", lm.vdot, (60,), (60,)),
    # indices
    row("gather", lambda x: lm.gather(x, lm.constant([2, 0, 2] * 99)), (3, 4)),
    row("take", lambda x: lm.take(x, lm.constant([1, 1, 1] * 99)), (3, 4)),
    row("take_along_axis", lambda x: lm.take_along_axis(x, lm.constant([[0, 0] * 99, [1, 1] * 99, [3, 3] * 99]), 1), (3, 4)),
    row("gather_nd", lambda x: lm.gather_nd(x, lm.constant([[0, 1], [2, 2]] * 99)), (3, 4)),
    row("scatter_add", lambda y: lm.scatter_add(y, lm.constant([0, 1, 1, 1] * 100), (2, 3)), (400, 3), domain=positive),
    row("scatter_nd", lambda y: lm.scatter_nd(lm.constant([[0], [1], [1]] * 100), y, (4, 3)), (300, 3), domain=positive),
    row("top_k", lambda x: lm.top_k(x, 5)[0]),
    row("pad", lambda x: lm.concat([lm.pad(x, 2, m) for m in ("constant", "edge", "reflect", "symmetric", "wrap")]), (9,)),
    row("tile", lambda x: lm.tile(x, (40,)), (5,)),
    row("repeat", lambda x: lm.repeat(x, 40), (5,)),
    row("broadcast_to", lambda x: lm.ravel(lm.broadcast_to(x, (40, 5))), (5,)),
    *[row(n, getattr(lm, n), (5, 5)) for n in ("tril", "triu", "diagonal")],
    row("diag", lm.diag, (5,)),
    row("reshape, transpose and their like", lambda x: lm.squeeze(lm.transpose(lm.swapaxes(lm.moveaxis(lm.expand_dims(lm.reshape(lm.flatten(x), (3, 4)), 0), 0, 2), 0, 1))), (3, 4)),
    row("split, stack, meshgrid", lambda x: lm.stack([*lm.split(x, 2), lm.meshgrid(x[:3], x[:2])[0][1]]), (6,), slope=3),
    row("stop_gradient", lambda x: x * lm.stop_gradient(x)),
    row("full_like, zeros_like, ones_like", lambda x: lm.stack([lm.full_like(x, x[0]), lm.zeros_like(x), lm.ones_like(x) * x]), (30,)),
    row("checkpoint", lambda x: lm.checkpoint(lambda v: lm.tanh(v * 2.0))(x), slope=4),
    row("scan", lambda x: lm.scan(lambda s, v: (s + v, s), lm.zeros_like(x[0]), x)[0], (4, 3), value=3, slope=3),
    row("take often", lambda x: x[lm.constant([0, 1, 1, 1, 1, 0] * 200)], (2, 3)),
    row("add at", lambda x, y: x.at[lm.constant([0, 1, 1, 1] * 100)].add(y), (2, 3), (400, 3), domain=positive),
    row("mul at", lambda x, y: x.at[lm.constant([0, 1, 1, 1])].mul(y), (2, 3), (4, 3), domain=positive, scales=(1.0,), slope=4),
    row("sort", lambda x: lm.sort(x)),
    row("flip, roll, concat", lambda x: lm.concat([lm.flip(x), lm.roll(x, 3)])),
    # normalisation
    row("layer_norm", lambda x: lm.layer_norm(x), *W, scales=(1.0, 0.01, 1000.0)),
    row("moments", lambda x: (lambda mean, variance: mean + variance)(*lm.moments(x, 1)), *W, value=2.5, slope=3),
    row("batch_norm", lambda x, m, v: lm.batch_norm(x, m, v), (6, 5), (5,), (5,), domain=positive, slope=3),
    # losses; the targets are constants
    *[row(n, lambda p, n=n: getattr(lm.losses, n)(np.linspace(-1, 2, 24).reshape(4, 6), p), (4, 6), value=2, slope=3)
      for n in ("mean_squared_error", "mean_absolute_error", "huber", "hinge", "cosine_similarity")],
    row("binary_crossentropy of logits", lambda p: lm.losses.binary_crossentropy(np.linspace(0, 1, 24).reshape(4, 6), p, from_logits=True), (4, 6), slope=3),
    row("categorical_crossentropy of logits", lambda p: lm.losses.categorical_crossentropy(np.eye(6)[:4], p, from_logits=True), (4, 6), slope=3),
    row("sparse_categorical_crossentropy of logits", lambda p: lm.losses.sparse_categorical_crossentropy(np.arange(4), p, from_logits=True), (4, 6), slope=3),
    *[row(n, lambda p, n=n: getattr(lm.losses, n)(np.full((4, 6), 1 / 6), p), (4, 6), domain=probabilities, scales=(1.0,), slope=3)
      for n in ("binary_crossentropy", "categorical_crossentropy", "kl_divergence")],
]
CASES += [row(loss.name, lambda p, loss=loss: loss(np.linspace(0, 1, 24).reshape(4, 6), p), (4, 6), slope=3)
          for loss in (lm.losses.MeanSquaredError(), lm.losses.MeanAbsoluteError(), lm.losses.Huber(), lm.losses.BinaryCrossEntropy(from_logits=True))]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("f, shapes, domain, value, slope, of_largest, scales", CASES)
def test_a_half_type_is_rounded_at_the_end(f, shapes, domain, value, slope, of_largest, scales, half, request):
    name = request.node.callspec.id
    for seed in range(5 if LONG else 1):
        rng = np.random.default_rng(seed)
        for scale in scales if LONG else scales[:1] + scales[-1:]:
            operands = [to_half(domain(rng, shape, scale), half) for shape in shapes]
            exact = [lm.astype(x, lm.float64) for x in operands]
            got, wanted = f(*operands), f(*exact)
            assert got.dtype == operands[0].dtype, name
            compare(f"{name} of scale {scale}", half, numbers(got), wanted.numpy(), value, of_largest)
            weights = to_half(rng.uniform(0.5, 1.5, wanted.shape), half)
            cost = lambda *x: lm.sum(f(*x) * lm.astype(weights, x[0].dtype))
            which = tuple(range(len(operands)))
            eager = lm.grad(cost, argnums=which)(*operands)
            for g, h, x in zip(eager, lm.grad(cost, argnums=which)(*exact), operands):
                assert g.dtype == x.dtype, name
                compare(f"gradient of {name} of scale {scale}", half, numbers(g), h.numpy(), slope, of_largest)
            traced = lm.function(f)(*operands)
            np.testing.assert_array_equal(numbers(traced), numbers(got))
            for a, b in zip(lm.function(lm.grad(cost, argnums=which))(*operands), eager):
                compare(f"traced gradient of {name}", half, numbers(a), numbers(b), 2, of_largest)


# Functions without a floating-point result computed from operands, or covered by another test of this file.
ELSEWHERE = {
    "of whole numbers and bools": "all any argmax argmin argsort bitwise_and bitwise_not bitwise_or bitwise_xor count_nonzero equal greater greater_equal isfinite isinf isnan less "
                                  "less_equal logical_and logical_not logical_or logical_xor nonzero not_equal one_hot searchsorted shift_left shift_right unique",
    "converts": "astype dtype",
    "makes numbers on the host": "arange constant eye full linspace ones range zeros",
    "runs what it is given": "check check_numerics cond custom_gradient fori_loop function grad hessian inspect jacobian jvp print switch value_and_grad vjp vmap while_loop "
                             "per_model from_dlpack device device_of limits memory_stats synchronize executing_eagerly export_c quantize load load_metadata load_tensors load_weights save save_tensors save_weights",
    "is made of other functions: tests of test_numeric.py": "allclose associative_scan bincount broadcast_arrays copysign cross cumprod diff digamma erfinv histogram hypot isclose "
        "isin kron lgamma matrix_transpose median nanmax nanmean nanmin nanprod nanstd nansum nanvar nextafter quantile signbit "
        "trace unstack vecdot",
    "is made of other functions: tests of test_numpy_like.py": "atleast_1d atleast_2d average corrcoef cov cummax cummin deg2rad digitize heaviside hstack interp log_sigmoid logcumsumexp "
        "logit logspace nan_to_num nancumprod nancumsum polyval rad2deg rot90 shape sinc trapezoid vander vstack xlogy",
    "is of complex numbers: test_complex.py": "angle as_complex as_real complex conj imag real",
    "the same as another": "remainder",
    "draws": "dropout",
}


def test_every_public_function_is_in_the_table():
    with open(__file__, encoding="utf-8") as f:
        table = f.read().split("CASES = [")[1].split("@pytest")[0]
    named = set(re.findall(r"lm\.(\w+)", table)) | set(re.findall(r'"(\w+)"', table)) | set(" ".join(ELSEWHERE.values()).split())
    functions = {n for n in dir(lm) if n[0].islower() and callable(getattr(lm, n)) and not isinstance(getattr(lm, n), type) and type(getattr(lm, n)) is not lm.DType}
    assert functions <= named, sorted(functions - named)


# --- conversions round once ---

@pytest.mark.parametrize("half", HALVES)
def test_float64_becomes_a_half_type_in_one_rounding(half):
    digits = TYPES[half][0]
    one = 1.0
    tie = one + 2.0 ** -digits  # halfway between 1 and the next number
    x = [tie, tie + 2.0**-40, tie - 2.0**-40, tie + 2.0**-52, -tie - 2.0**-40, 3 * tie + 2.0**-45, TYPES[half][2], math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-300]
    up, down = one + 2.0 ** (1 - digits), one
    wanted = [down, up, down, up, -up]
    ways = {"astype": lm.astype(lm.constant(np.array(x)), half), "constant": lm.constant(x, dtype=half), "array": lm.constant(np.array(x), dtype=half),
            "traced": lm.function(lambda v: lm.astype(v, half))(lm.constant(np.array(x))),
            "fused": lm.function(lambda v: lm.astype(v * 1.0 + 0.0, half))(lm.constant(np.array(x))),
            "numbers": lm.stack([lm.full((), v, dtype=half) for v in x])}
    for way, t in ways.items():
        got = numbers(t)
        assert got[:5].tolist() == wanted, way
        assert got[6] == TYPES[half][2] and got[7] == math.inf and got[8] == -math.inf and np.isnan(got[9]) and got[12] == 0, way
    for value, rounded in ((tie + 2.0**-40, up), (tie - 2.0**-40, down)):
        assert float((lm.zeros((), half) + value)) == rounded  # a weak number
    if half == "float16":
        rng = np.random.default_rng(0)
        many = np.clip(rng.standard_normal(20000) * np.exp2(rng.integers(-28, 18, 20000)), -7e4, 7e4)
        with np.errstate(over="ignore"):
            near = many[::2].astype("float16").astype("float64")
        many[::2] = near * (1 + rng.integers(-2, 3, 10000) * 2.0**-30)  # near numbers of the type
        halfway = np.arange(1, 2001) + 0.5 * np.spacing(np.arange(1, 2001).astype("float16")).astype("float64") + rng.integers(-1, 2, 2000) * 1e-9
        for values in (many, halfway):
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(lm.astype(lm.constant(values), half).numpy(), values.astype("float16"))


def test_integers_become_bfloat16_in_one_rounding():
    x = np.array([0x40400000, 0x40400001, 0x403FFFFF, -0x40400001, 2**24 + 1, 257, 258, 2**62 + 2**54, 2**62 + 2**54 + 1, -(2**63)])
    wanted = [2.0**30, 2.0**30 * 1.0078125, 2.0**30, -(2.0**30) * 1.0078125, 2.0**24, 256, 258, 2.0**62, 2.0**62 + 2.0**55, -(2.0**63)]
    for got in (lm.astype(lm.constant(x), "bfloat16"), lm.constant(x.tolist(), dtype="bfloat16")):
        assert numbers(got).tolist() == wanted
    assert numbers(lm.astype(lm.constant(x[:6].astype("int32")), "bfloat16")).tolist() == wanted[:6]


def test_floats_become_integers_by_truncation_and_the_nearest_end():
    x = np.array([math.nan, math.inf, -math.inf, 1e30, -1e30, 300.7, -300.7, 2.9, -2.9, -0.5])
    for dtype in ("uint8", "int8", "int16", "int32", "int64"):
        info = np.iinfo(dtype)
        wanted = [0 if math.isnan(v) else int(min(max(v, info.min), info.max)) for v in x]
        for source in ("float64", "float32"):
            t = lm.constant(x.astype(source))
            for got in (lm.astype(t, dtype), lm.function(lambda v: lm.astype(v, dtype))(t)):
                assert got.numpy().tolist() == wanted, (dtype, source)
    big = np.array([2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1])
    for dtype in ("float32", "float64"):
        np.testing.assert_array_equal(lm.astype(lm.constant(big), dtype).numpy(), big.astype(dtype))


# --- what used to overflow, vanish or stagnate ---

@pytest.mark.parametrize("half", HALVES)
def test_statistics_of_large_numbers_are_made_in_float32(half):
    x = to_half([[1000, -1000]], half)
    np.testing.assert_allclose(numbers(lm.layer_norm(x)), [[1, -1]], rtol=1e-2)
    constant_row = to_half([[3.0, 3.0, 3.0]], half)
    for epsilon in (1e-3, 1e-5, 1e-6):
        g = lm.grad(lambda v: lm.sum(lm.layer_norm(v, epsilon=epsilon) * lm.constant([1.0, 2.0, 4.0], dtype=half)))(constant_row)
        assert np.isfinite(numbers(g)).all(), epsilon
    assert float(lm.mean(to_half([60000, 60000, -60000, 60000], half))) == pytest.approx(30000, rel=1e-2)
    assert float(lm.norm(to_half([300, 400], half))) == pytest.approx(500, rel=1e-2) and float(lm.std(to_half([1000, -1000], half))) == pytest.approx(1000, rel=1e-2)
    assert float(lm.sum(lm.ones((3000,), half))) == pytest.approx(3000, rel=2**-8) and float(lm.cumsum(lm.ones((3000,), half))[-1]) == pytest.approx(3000, rel=2**-8)
    assert (numbers(lm.grad(lambda v: lm.std(v))(constant_row)) == 0).all()


@pytest.mark.parametrize("form", [lambda f: f, lm.function])
@pytest.mark.parametrize("half", HALVES)
def test_batch_norm_keeps_its_statistics_in_float32(half, form):
    norm = lm.nn.BatchNorm(dtype=half, momentum=0.5)
    x = to_half([[1000.0, 1.0], [-1000.0, 2.0]], half)
    y = form(lambda v: norm(v, training=True))(x)
    assert y.dtype == x.dtype and norm.moving_mean.dtype == norm.moving_variance.dtype == lm.float32 and norm.gamma.dtype == x.dtype
    np.testing.assert_allclose(numbers(y), [[1, -1], [-1, 1]], rtol=2e-2)
    np.testing.assert_allclose(norm.moving_variance.numpy(), [500000.5, 0.625], rtol=1e-3)
    assert np.isfinite(numbers(norm(x))).all() and norm(x).dtype == x.dtype
    with lm.GradientTape() as tape:
        cost = lm.sum(lm.square(norm(x, training=True)))
    assert all(g.dtype == x.dtype and np.isfinite(numbers(g)).all() for g in tape.gradient(cost, norm.trainable_variables))


@pytest.mark.parametrize("half", HALVES)
def test_losses_of_certain_predictions_are_finite(half):
    one, zero = lm.ones((1,), half), lm.zeros((1,), half)
    loss = lm.losses.BinaryCrossEntropy()
    assert float(loss(one, one)) < 1e-6 and float(loss(zero, zero)) < 1e-6 and float(loss(one, zero)) == pytest.approx(16.1, rel=1e-2)
    for t, p in ((one, one), (zero, zero), (one, zero)):
        assert np.isfinite(numbers(lm.grad(lambda v: loss(t, v))(p))).all()
    rows = to_half([[1.0, 0.0]], half)
    for other in (lm.losses.CategoricalCrossEntropy(), lm.losses.KLDivergence(), lm.losses.CosineSimilarity()):
        assert math.isfinite(float(other(rows, rows))) and np.isfinite(numbers(lm.grad(lambda v: other(rows, v))(rows))).all()
    spread = to_half([[300.0, 0.0, 0.0, 0.0]] * 4, half)
    assert float(lm.losses.MeanSquaredError()(lm.zeros((4, 4), half), spread)) == pytest.approx(22500, rel=1e-2)


@pytest.mark.parametrize("half", HALVES)
def test_draws_have_the_chances_of_float32(half):
    n = 400_000
    for p in (1e-4, 0.003, 0.3, 0.999):
        given = to_half(p, half)
        share = float(lm.mean(lm.astype(lm.random.bernoulli(given, (n,)), lm.float64)))
        assert abs(share - float(given)) < 5 * math.sqrt(p * (1 - p) / n), p
    u = numbers(lm.random.uniform((n,), dtype=half))
    assert u.min() >= 0 and u.max() < 1 and (u < 2.0**-10).mean() == pytest.approx(2.0**-10, rel=0.3) and (u == 0).sum() <= 2
    e = numbers(lm.random.exponential((n,), dtype=half))
    assert e.mean() == pytest.approx(1, rel=1e-2) and np.isfinite(e).all() and e.max() > 9
    z = numbers(lm.random.normal((n,), dtype=half))
    assert abs(z.mean()) < 0.01 and z.std() == pytest.approx(1, rel=1e-2) and np.abs(z).max() > 4
    shifted = numbers(lm.random.uniform((n,), -3.0, 5.0, dtype=half))
    assert shifted.min() >= -3 and shifted.max() < 5 and shifted.mean() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("make", [lambda: lm.optim.SGD(0.5), lambda: lm.optim.SGD(0.5, momentum=0.9), lambda: lm.optim.RMSprop(0.01), lambda: lm.optim.Adam(0.01),
                                  lambda: lm.optim.AdamW(0.01), lambda: lm.optim.RMSprop(0.01, momentum=0.9, centered=True), lambda: lm.optim.Adagrad(0.1),
                                  lambda: lm.optim.Nadam(0.01), lambda: lm.optim.Lion(0.01), lambda: lm.optim.SGD(lm.optim.schedules.CosineDecay(0.5, 9))])
def test_optimizers_compute_their_steps_in_float32(make, half):
    gradients = [1e-4, -3e-5, 2.0, -200.0]
    for traced in (False, True):
        v, exact = lm.Variable(lm.ones((4,), half)), lm.Variable(lm.ones((4,), "float64"))
        for variable, dtype in ((v, half), (exact, "float64")):
            optimizer = make()
            g = lm.astype(lm.constant(np.asarray(numbers(to_half(gradients, half)))), dtype)
            step = lambda g: optimizer.apply_gradients([(g, variable)])
            (lm.function(step) if traced else step)(g)
            if dtype == half:
                assert all(s.dtype != lm.dtype(half) if hasattr(lm, "dtype") else str(s.dtype) != str(v.dtype) for s in optimizer.variables)
        compare(optimizer.name, half, numbers(v.read()), exact.numpy(), 1)
