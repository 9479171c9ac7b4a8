"""The table of test_every_function.py: calls of each public function of tensors with float64 arrays."""
from __future__ import annotations

import dataclasses
from typing import Callable

import numpy as np
from elementwise_rows import ROWS

import lamina as lm

rng = np.random.default_rng(7)


def between(low, high, shape=(2, 3)):
    return rng.uniform(low, high, shape)


def apart(shape=(2, 3), gap=0.3):
    """Numbers that differ by at least `gap`, so that a small step does not change their order."""
    return (rng.permutation(int(np.prod(shape))) - np.prod(shape) / 2 + 0.25).reshape(shape) * gap


@dataclasses.dataclass
class Case:
    fn: Callable  # of tensors
    args: tuple  # float64 arrays, to differentiate with respect to
    slopes: bool = True  # whether its result has a gradient


CASES: dict[str, Case] = {}


def case(name, fn, *args, slopes=True):
    assert name not in CASES
    CASES[name] = Case(fn, args, slopes)


def named(name, *args, variant="", slopes=True, **options):
    """A function of lm, called with the arrays and these options."""
    fn = getattr(lm, name)
    case(f"{name} {variant}".strip(), lambda *tensors: fn(*tensors, **options), *args, slopes=slopes)


DRAW = {"n": apart, "p": lambda shape=(2, 3): between(0.3, 2, shape), "u": lambda shape=(2, 3): between(-0.8, 0.8, shape), "o": lambda shape=(2, 3): between(1.2, 3, shape),
        "b": apart, "i": lambda shape=(2, 3): between(0, 5, shape)}
CAST = {"b": lambda x: x > 0, "i": lambda x: lm.astype(x, lm.int32)}


def elementwise(name, row, variant, shape):
    """The function on operands of this row's kinds, the last one with another shape; operands never tie."""
    fn, last = getattr(lm, name), len(row.kinds) - 1
    args = [DRAW[kind](shape if i == last else (2, 3)) + (0.07 if i and kind == "n" else 0) for i, kind in enumerate(row.kinds)]
    case(f"{name} {variant}".strip(), lambda *tensors: fn(*(CAST.get(kind, lambda x: x)(x) for kind, x in zip(row.kinds, tensors))), *args, slopes=row.slope)


for name, row in ROWS.items():
    elementwise(name, row, "", (2, 3))
    if len(row.kinds) == 2:
        elementwise(name, row, "broadcast", (3,))
for name in ("fmod", "mod", "remainder"):
    named(name, apart() * 3, between(0.7, 1.3), variant="" if name == "remainder" else "slopes")
named("selu", apart())
named("hard_sigmoid", apart() / 3)

for name in "sum mean max min prod std var logsumexp".split():
    named(name, apart() + 0.05)
    named(name, apart((2, 3, 2)) + 0.05, variant="axes", axis=(0, -1))
    named(name, apart() + 0.05, variant="keepdims", axis=1, keepdims=True)
named("norm", apart() + 0.05)
named("norm", apart() + 0.05, variant="of rows", axis=1)
named("norm", apart() + 0.05, variant="1", ord=1)
for name in "all any count_nonzero".split():
    case(name, lambda x, fn=getattr(lm, name): fn(x > 0, axis=1), apart(), slopes=False)
for name in "argmax argmin argsort".split():
    named(name, apart(), slopes=False)
named("cumsum", apart(), axis=1)
case("moments", lambda x: lm.moments(x, 0), apart())
for name in "softmax log_softmax".split():
    named(name, apart())
    named(name, apart(), variant="axis", axis=0)

named("matmul", between(-1, 1, (2, 3)), between(-1, 1, (3, 4)))
named("matmul", between(-1, 1, (2, 2, 3)), between(-1, 1, (3, 2)), variant="batch")
named("matmul", between(-1, 1, (3,)), between(-1, 1, (3, 2)), variant="vector")
named("dot", between(-1, 1, (3,)), between(-1, 1, (3,)))
named("inner", between(-1, 1, (2, 3)), between(-1, 1, (4, 3)))
named("outer", between(-1, 1, (2,)), between(-1, 1, (3,)))
named("vdot", between(-1, 1), between(-1, 1))
named("tensordot", between(-1, 1, (2, 3)), between(-1, 1, (3, 2)), axes=1)
case("einsum", lambda a, b: lm.einsum("ij,kj->ik", a, b), between(-1, 1, (2, 3)), between(-1, 1, (2, 3)))
case("einsum diagonal", lambda a: lm.einsum("ii->i", a), between(-1, 1, (3, 3)))

case("broadcast_to", lambda x: lm.broadcast_to(x, (4, 2, 3)), apart())
case("concat", lambda a, b: lm.concat([a, b, a], 1), apart(), apart())
case("stack", lambda a, b: lm.stack([a, b], 1), apart(), apart())
named("diag", apart((3,)))
named("diag", apart((3, 3)), variant="of matrix")
named("diagonal", apart((3, 3)))
case("expand_dims", lambda x: lm.expand_dims(x, 1), apart())
named("flatten", apart((2, 3, 2)))
case("flip", lambda x: lm.flip(x, 1), apart())
case("moveaxis", lambda x: lm.moveaxis(x, 0, 2), apart((2, 3, 2)))
case("pad", lambda x: lm.pad(x, ((1, 0), (0, 2))), apart())
named("ravel", apart())
case("repeat", lambda x: lm.repeat(x, 2, 1), apart())
case("reshape", lambda x: lm.reshape(x, (3, 2)), apart())
case("roll", lambda x: lm.roll(x, 1, 1), apart())
case("split", lambda x: lm.split(x, 3, 1), apart())
case("squeeze", lambda x: lm.squeeze(x, 1), apart((2, 1, 3)))
case("swapaxes", lambda x: lm.swapaxes(x, 0, 1), apart())
case("tile", lambda x: lm.tile(x, (2, 1)), apart())
named("transpose", apart())
case("transpose axes", lambda x: lm.transpose(x, (2, 0, 1)), apart((2, 3, 2)))
named("tril", apart((3, 3)))
named("triu", apart((3, 3)))
case("take", lambda x: lm.take(x, lm.constant([1, 0, 1]), 0), apart())
case("take_along_axis", lambda x: lm.take_along_axis(x, lm.constant([[2, 0], [1, 1]]), 1), apart())
case("gather", lambda x: lm.gather(x, lm.constant([1, 0, 1]), 0), apart())
case("gather_nd", lambda x: lm.gather_nd(x, lm.constant([[1, 0], [0, 2]])), apart())
case("scatter_nd", lambda x: lm.scatter_nd(lm.constant([[1], [3], [1]]), x, (5,)), apart((3,)))
case("scatter_add", lambda x: lm.scatter_add(x, lm.constant([1, 0, 1]), (2, 3)), apart((3, 3)))
case("where", lambda a, b: lm.where(a > 0, a * b, b), apart(), apart())
case("clip", lambda x: lm.clip(x, -0.4, 0.4), apart())
case("meshgrid", lambda a, b: lm.meshgrid(a, b), apart((2,)), apart((3,)))
named("sort", apart())
case("top_k", lambda x: lm.top_k(x, 2)[0], apart())
case("unique", lambda x: lm.unique(x, size=4)[0], apart((4,)), slopes=False)
case("nonzero", lambda x: lm.nonzero(x > 0, size=3), apart(), slopes=False)
case("searchsorted", lambda x: lm.searchsorted(lm.constant([-0.5, 0.0, 0.5], dtype=lm.float64), x), apart(), slopes=False)
case("one_hot", lambda x: lm.one_hot(lm.astype(x, lm.int32), 4), between(0, 4), slopes=False)
case("astype", lambda x: lm.astype(lm.astype(x, lm.float64), lm.float64), apart())
case("check_numerics", lambda x: lm.check_numerics(x, "x"), apart())
for name in "zeros_like ones_like".split():
    named(name, apart(), slopes=False)
case("full_like", lambda x: lm.full_like(x, 2.0), apart(), slopes=False)
named("stop_gradient", apart(), slopes=False)
case("Tensor.at", lambda x, y: x.at[1].add(y), apart(), apart((3,)))
case("Tensor[...]", lambda x: x[:, ::-1][1:, [0, 2]], apart())

case("layer_norm", lambda x, s, o: lm.layer_norm(x, s, o), apart(), apart((3,)), apart((3,)))
case("batch_norm", lambda x, m, v, o, s: lm.batch_norm(x, m, v, o, s), apart(), apart((3,)), between(0.5, 2, (3,)), apart((3,)), apart((3,)))
case("conv1d", lambda x, w: lm.conv1d(x, w), apart((1, 5, 2)), between(-1, 1, (3, 2, 2)))
case("conv2d", lambda x, w: lm.conv2d(x, w), apart((1, 4, 3, 2)), between(-1, 1, (2, 2, 2, 2)))
case("conv2d strides", lambda x, w: lm.conv2d(x, w, strides=2, padding="same"), apart((1, 4, 3, 1)), between(-1, 1, (2, 2, 1, 2)))
case("conv2d_transpose", lambda x, w: lm.conv2d_transpose(x, w, strides=2), apart((1, 2, 2, 2)), between(-1, 1, (2, 2, 1, 2)))
case("avg_pool2d", lambda x: lm.avg_pool2d(x, 2), apart((1, 4, 4, 1)))
case("max_pool2d", lambda x: lm.max_pool2d(x, 2), apart((1, 4, 4, 1)))

case("cond", lambda x: lm.cond(lm.sum(x) < 100.0, lambda: lm.sin(x), lambda: x), apart())
case("switch", lambda x: lm.switch(lm.astype(x[0, 0] * 0, lm.int32) + 1, [lambda: x, lambda: lm.sin(x), lambda: -x]), apart())
case("while_loop", lambda x: lm.while_loop(lambda s: lm.sum(s * s) > 0.5, lambda s: s * lm.cos(s) * 0.7, x, maximum_iterations=6), apart())
case("scan", lambda x: lm.scan(lambda s, z: (s * z + 1.0, s - z), x[0], x), apart())
case("fori_loop", lambda x: lm.fori_loop(0, 3, lambda i, s: lm.sin(s) + x, x), apart())
case("checkpoint", lambda x: lm.checkpoint(lambda z: lm.sin(z) * z)(x), apart())
case("custom_gradient", lambda x: lm.custom_gradient(lambda z: (lm.sin(z), lambda g: g * lm.cos(z)))(x), apart())
case("function", lambda x: lm.function(lambda z: lm.sin(z) * x)(x), apart())
case("vmap", lambda x: lm.vmap(lambda z: lm.sin(z) * lm.sum(x))(x), apart())
case("grad", lambda x: lm.grad(lambda z: lm.sum(lm.sin(z) * x))(x), apart())
case("value_and_grad", lambda x: lm.value_and_grad(lambda z: lm.sum(lm.sin(z) * x))(x), apart())
case("jacobian", lambda x: lm.jacobian(lambda z: lm.sin(z) * x)(x), apart((3,)))
case("hessian", lambda x: lm.hessian(lambda z: lm.sum(lm.sin(z) * x))(x), apart((3,)))
case("jvp", lambda x: lm.jvp(lambda z: lm.sin(z) * x, (x,), (x * x,)), apart((3,)))
case("vjp", lambda x: lm.vjp(lambda z: lm.sin(z) * x, x)[1](x * x)[0], apart((3,)))

LABELS = lm.constant([1, 0])


def chances(x):
    return lm.softmax(x)


case("losses.mse", lambda a, b: lm.losses.mse(a, b), apart(), apart() + 0.1)
case("losses.mae", lambda a, b: lm.losses.mae(a, b), apart(), apart() + 0.1)
case("losses.mean_squared_error", lambda a, b: lm.losses.mean_squared_error(a, b), apart(), apart() + 0.1)
case("losses.mean_absolute_error", lambda a, b: lm.losses.mean_absolute_error(a, b), apart(), apart() + 0.1)
case("losses.huber", lambda a, b: lm.losses.huber(a, b), apart(), apart() + 0.1)
case("losses.hinge", lambda b: lm.losses.hinge(lm.constant([[1.0, -1.0, 1.0]], dtype=lm.float64), b), apart((1, 3)))
case("losses.cosine_similarity", lambda a, b: lm.losses.cosine_similarity(a, b), apart(), apart())
case("losses.kl_divergence", lambda a, b: lm.losses.kl_divergence(chances(a), chances(b)), apart(), apart())
case("losses.binary_crossentropy", lambda b: lm.losses.binary_crossentropy(lm.constant([[1.0, 0.0, 1.0]], dtype=lm.float64), b), between(0.2, 0.8, (1, 3)))
case("losses.binary_crossentropy of logits",
     lambda b: lm.losses.binary_crossentropy(lm.constant([[1.0, 0.0, 1.0]], dtype=lm.float64), b, from_logits=True), apart((1, 3)))
case("losses.categorical_crossentropy", lambda a, b: lm.losses.categorical_crossentropy(chances(a), chances(b)), apart(), apart())
case("losses.sparse_categorical_crossentropy", lambda b: lm.losses.sparse_categorical_crossentropy(LABELS, chances(b)), apart())
case("losses.sparse_categorical_crossentropy of logits", lambda b: lm.losses.sparse_categorical_crossentropy(LABELS, b, from_logits=True), apart())

named("cumprod", between(0.5, 1.5), axis=1)
named("cumprod", between(0.5, 1.5, (7,)), variant="of seven")
named("diff", apart(), axis=0)
case("diff twice", lambda x: lm.diff(x, 2, prepend=0.5), apart())
named("cross", apart(), apart())
named("kron", apart(), apart((2, 2)))
named("trace", apart((3, 3)))
named("quantile", apart(), q=0.3, axis=1)
named("quantile", apart(), variant="several", q=(0.1, 0.5))
named("median", apart(), axis=0)
named("histogram", apart(), bins=3, slopes=False)
case("bincount", lambda x: lm.bincount(lm.astype(x > 0, lm.int32), length=2), apart(), slopes=False)
for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"):
    case(name, lambda x, name=name: getattr(lm, name)(lm.where(x > 0.6, np.nan, x), 1), apart())
named("erfinv", between(-0.8, 0.8))
named("lgamma", between(0.3, 4))
case("lgamma below zero", lambda x: lm.lgamma(x - 3), between(0.2, 0.8))
named("digamma", between(0.3, 4))
named("isclose", apart(), apart(), slopes=False)
named("allclose", apart(), apart(), slopes=False)
named("isin", apart(), apart((4,)), slopes=False)
named("signbit", apart(), slopes=False)
named("nextafter", apart(), apart(), slopes=False)
named("copysign", apart(), apart())
named("hypot", apart(), apart() + 0.07)
case("complex", lambda a, b: lm.abs(lm.complex(a, b)), apart(), apart())
named("real", apart())
named("imag", apart(), slopes=False)
named("conj", apart())
named("angle", apart(), slopes=False)
named("matrix_transpose", apart())
named("vecdot", apart(), apart())
named("unstack", apart(), axis=1)
named("broadcast_arrays", apart(), apart((3,)))
case("associative_scan", lambda x: lm.associative_scan(lambda a, b: {"x": a["x"] * b["x"], "y": a["y"] * b["x"] + b["y"]}, {"x": x, "y": x + 1}, axis=1, reverse=True), between(0.5, 1.5, (2, 5)))

case("nan_to_num", lambda x: lm.nan_to_num(lm.where(x > 0.6, np.nan, x), 2.0), apart())
case("nancumsum", lambda x: lm.nancumsum(lm.where(x > 0.6, np.nan, x), 1), apart())
case("nancumprod", lambda x: lm.nancumprod(lm.where(x > 0.6, np.nan, x), 1), apart())
named("cummax", apart(), axis=1)
named("cummin", apart(), axis=0)
named("logcumsumexp", apart(), axis=1)
named("trapezoid", apart(), axis=0)
case("trapezoid over x", lambda y, x: lm.trapezoid(y, x, axis=1), apart(), between(0, 1, (3,)))
case("interp", lambda x, xp, fp: lm.interp(x, lm.cumsum(xp), fp), between(0.1, 3.9), between(0.6, 1, (5,)), apart((5,)))
case("digitize", lambda x, bins: lm.digitize(x, lm.sort(bins)), apart(), apart((4,)) + 0.07, slopes=False)
named("polyval", apart((4,)), apart())
named("vander", apart((4,)), n=3)
case("logspace", lambda a, b: lm.logspace(a, b, 4, dtype="float64"), np.array(0.1), np.array(0.7))
case("average", lambda x, w: lm.average(x, 0, w), apart(), between(0.3, 2, (2,)))
named("cov", apart((3, 5)))
case("corrcoef", lm.corrcoef, between(-1, 1, (2, 6)))
named("deg2rad", apart())
named("rad2deg", apart())
named("heaviside", apart(), apart())
named("sinc", apart())
named("logit", between(0.1, 0.9))
named("log_sigmoid", apart())
named("xlogy", apart(), between(0.3, 2))
named("atleast_1d", np.array(0.7))
named("atleast_2d", apart((3,)))
case("vstack", lambda a, b: lm.vstack([a, b]), apart((3,)), apart())
case("hstack", lambda a, b: lm.hstack([a, b]), apart((2, 1)), apart())
named("rot90", apart())
named("shape", apart(), slopes=False)

# Public names that are not functions from tensors to tensors, and why.
EXEMPT = {
    "are of complex numbers: tests of test_complex.py": "as_complex as_real",
    "types": "ConcreteFunction DType Explanation Function GradientTape GradientWarning Graph Module RetraceWarning Tensor TensorSpec Variable bfloat16 bool dtype "
             "UnrollWarning complex128 complex64 float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8 __version__",
    "modules": "config cuda data errors fft linalg losses metrics nn optim random testing profiler progress autograph tree xp",
    "makes tensors of numbers alone": "arange constant eye from_dlpack full linspace ones range zeros",
    "about devices": "device device_of limits memory_stats synchronize",
    "has effects": "check print",
    "names ops": "name_scope",
    "files: tests of test_weights_files.py and test_saved_programs.py": "load load_metadata load_tensors load_weights save save_tensors save_weights",
    "files: tests of test_checkpoints.py": "Checkpoint",
    "files: tests of test_export_c.py": "export_c",
    "makes models of models: tests of test_quantization.py": "quantize",
    "describes a call": "inspect executing_eagerly",
    "is state": "per_model",
    "draws: tests of test_random.py": "dropout",
}
EXEMPT_LOSSES = {
    "classes that mean what the functions give": "BinaryCrossEntropy BinaryCrossentropy CategoricalCrossEntropy CategoricalCrossentropy CosineSimilarity Hinge Huber "
                                                 "KLDivergence Loss MeanAbsoluteError MeanSquaredError SparseCategoricalCrossentropy SparseCrossEntropy",
    "finds one": "get",
}
