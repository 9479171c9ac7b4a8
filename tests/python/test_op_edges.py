"""Every op with an axis of length 0, of length 1 and of open length, in float32, float16 and bfloat16: eager, traced, vmapped and
differentiated, against NumPy in float64. Where NumPy raises an error, Lamina must too. Each op of the op table has a case here or a
reason why not.

LAMINA_TEST_LONG=1 covers all combinations; otherwise each case covers some.
"""
import math
import os
import pathlib
import re

import numpy as np
import pytest
from elementwise_rows import ACCESS, ACTIVATIONS, OTHERWISE, ROWS

import lamina as lm

LONG = os.environ.get("LAMINA_TEST_LONG") == "1"
ERRORS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
N = -1  # the axis whose length is varied


class Case:
    """f on tensors of these shapes, and what NumPy makes of the same numbers. kinds: a letter per operand: n(ormal), p(ositive), u(nit), o(ver 1), b(ool), i(nteger from 0 to 2)."""

    def __init__(self, ops, f, reference, *shapes, kinds="", slope=True, open_length=True, rough=1.0, least=0, vmap=True):
        self.ops, self.f, self.reference, self.shapes = ops.split(), f, reference, shapes or ((N,),)
        self.kinds = kinds or "n" * len(self.shapes)
        self.slope, self.open_length, self.rough, self.least, self.vmap = slope, open_length, rough, least, vmap

    def draw(self, length, dtype, rng):
        out = []
        for shape, kind in zip(self.shapes, self.kinds):
            shape = [length if n == N else n for n in shape]
            if kind == "i":
                out.append(lm.constant(rng.integers(0, 3, shape).astype("int32")))
            elif kind == "b":
                out.append(lm.constant(rng.random(shape) < 0.5))
            else:
                # Values farther apart, and from kinks, than half types round.
                values = (rng.permutation(math.prod(shape)) + 0.25) / max(1, math.prod(shape)) * 2.9 - 1.4
                values = {"n": values, "p": np.abs(values) + 0.2, "u": values / 1.6, "o": np.abs(values) + 1.2}[kind].reshape(shape)
                out.append(lm.astype(lm.constant(values), dtype))
        return out


def numbers(t):
    return np.asarray(t.numpy() if t.dtype in (lm.bool, lm.int32, lm.int64) else lm.astype(t, lm.float64).numpy())


def as_list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def elementwise(name, row):
    shapes = [(N, 2)] if len(row.kinds) == 1 else [(2, N), (N,)]
    return Case(name, getattr(lm, name), row.reference, *shapes, kinds=row.kinds, slope=row.slope, rough=row.rough)


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis, keepdims=True, initial=-1e9))
    return e / np.sum(e, axis, keepdims=True)


def windows(x, size):
    return np.stack([x[..., i:i + x.shape[-1] - size + 1] for i in range(size)], -1)


def conv(x, w):  # [n, h, w, c] with [2, 2, c, k], valid
    out = np.zeros((x.shape[0], x.shape[1] - 1, x.shape[2] - 1, w.shape[3]))
    for i in range(2):
        for j in range(2):
            out += np.einsum("nhwc,ck->nhwk", x[:, i:i + out.shape[1], j:j + out.shape[2]], w[i, j])
    return out


def pooled(x):
    return np.max(np.stack([x[:, i:i + x.shape[1] - 1, j:j + x.shape[2] - 1] for i in range(2) for j in range(2)]), 0)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def batch_norm(x):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)


def logsumexp(x, axis):
    return np.log(np.sum(np.exp(x), axis))


def no_warnings(f):
    def run(*args):
        with np.errstate(all="ignore"):
            return f(*args)
    return run


class Layers:
    """Layers with weights of 0.5, created for each dtype."""

    @staticmethod
    def dense(x, w, b):
        return lm.tanh(x @ w + b)


CASES = [
    *[elementwise(name, row) for name, row in ROWS.items()],
    Case("gelu_tanh", lambda x: lm.gelu(x, approximate=True), ROWS["gelu"].reference, (N, 2), rough=30),
    Case("clip", lambda x: lm.clip(x, -0.5, 0.7), lambda x: np.clip(x, -0.5, 0.7), (2, N)),
    Case("where", lm.where, np.where, (2, N), (N,), (2, 1), kinds="bnn"),
    Case("astype", lambda x: lm.astype(x, lm.int32), lambda x: x.astype("int32"), (2, N), slope=False),
    # reductions, over the axis and over others
    *[Case(n, lambda x, n=n, a=a: getattr(lm, n)(x, axis=a), lambda x, n=n, a=a: getattr(np, n)(x, axis=a), (2, N, 3)) for n in ("sum", "mean", "max", "min", "prod") for a in (0, 1, (1, 2), None, ())],
    *[Case(o, lambda x, n=n: getattr(lm, n)(x, axis=1), lambda x, n=n: getattr(np, n)(x, axis=1), (2, N, 3), kinds=k, slope=n in ("var", "std"), rough=3)
      for o, n, k in (("mean", "var", "n"), ("mean sqrt", "std", "n"), ("prod", "all", "b"), ("sum", "any", "b"), ("sum", "count_nonzero", "b"))],
    Case("max sum", lambda x: lm.logsumexp(x, axis=1), lambda x: logsumexp(x, 1), (2, N, 3)),
    Case("sum sqrt", lambda x: lm.norm(x, axis=1), lambda x: np.sqrt(np.sum(x * x, 1)), (2, N, 3)),
    *[Case("argmax", lambda x, n=n, a=a: getattr(lm, n)(x, axis=a), lambda x, n=n, a=a: getattr(np, n)(x, axis=a), (2, N, 3), slope=False) for n in ("argmax", "argmin") for a in (0, 1, -1)],
    *[Case("cumsum", lambda x, a=a: lm.cumsum(x, axis=a), lambda x, a=a: np.cumsum(x, axis=a), (2, N, 3)) for a in (0, 1, -1)],
    *[Case("softmax", lambda x, a=a: lm.softmax(x, axis=a), lambda x, a=a: softmax(x, a), (2, N, 3)) for a in (0, 1, -1)],
    *[Case("log_softmax", lambda x, a=a: lm.log_softmax(x, axis=a), lambda x, a=a: np.log(softmax(x, a)), (2, N, 3)) for a in (0, 1, -1)],
    # products
    Case("matmul", lm.matmul, np.matmul, (2, N), (N, 3)), Case("matmul", lm.matmul, np.matmul, (N, 2), (2, 3)), Case("matmul", lm.matmul, np.matmul, (3, 2), (2, N)),
    Case("matmul", lm.matmul, np.matmul, (2, 3, N), (2, N, 2)), Case("matmul", lm.matmul, np.matmul, (N, 3, 2), (N, 2, 4)), Case("matmul", lm.matmul, np.matmul, (2, N, 2), (2, 3)),
    Case("matmul", lm.matmul, np.matmul, (N,), (N, 3)), Case("matmul", lm.matmul, np.matmul, (N,), (N,)),
    Case("dense dense_grad_input dense_grad_weights", Layers.dense, lambda x, w, b: np.tanh(x @ w + b), (N, 3), (3, 4), (4,)),
    Case("dense", Layers.dense, lambda x, w, b: np.tanh(x @ w + b), (2, N), (N, 4), (4,)),
    Case("dense", Layers.dense, lambda x, w, b: np.tanh(x @ w + b), (2, 3), (3, N), (N,)),
    Case("matmul", lambda a, b: lm.einsum("ij,jk->ik", a, b), lambda a, b: np.einsum("ij,jk->ik", a, b), (3, N), (N, 2)),
    Case("matmul", lambda a, b: lm.einsum("bij,bkj->bik", a, b), lambda a, b: np.einsum("bij,bkj->bik", a, b), (2, 3, N), (2, 2, N)),
    Case("matmul", lambda a, b: lm.einsum("i,j->ij", a, b), np.outer, (N,), (3,)),
    Case("matmul", lambda a, b: lm.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1), (2, N), (N, 2)),
    Case("mul sum", lm.inner, np.inner, (2, N), (3, N)),
    # shapes
    Case("reshape", lambda x: lm.reshape(x, (-1, 2)), lambda x: np.reshape(x, (x.size // 2, 2)), (N, 2, 3)),
    Case("reshape", lm.ravel, np.ravel, (2, N, 3)),
    Case("reshape", lambda x: lm.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1)), (2, N)),
    Case("transpose", lambda x: lm.transpose(x, (1, -1, 0)), lambda x: np.transpose(x, (1, -1, 0)), (2, N, 3)),
    Case("transpose", lambda x: lm.moveaxis(x, -1, 0), lambda x: np.moveaxis(x, -1, 0), (2, N, 3)), Case("transpose", lambda x: lm.swapaxes(x, -2, 0), lambda x: np.swapaxes(x, -2, 0), (2, N, 3)),
    Case("broadcast_to", lambda x: x + lm.zeros((3, 1, 1), x.dtype), lambda x: x + np.zeros((3, 1, 1)), (2, N)),
    Case("slice", lambda x: [x[:, 1:], x[:, :0], x[:, ::-1], x[1], x[:, -1:]], lambda x: [x[:, 1:], x[:, :0], x[:, ::-1], x[1], x[:, -1:]], (2, N, 2)),
    Case("slice", lambda x: lm.flip(x, (0, -1)), lambda x: np.flip(x, (0, -1)), (2, N)),
    Case("slice concat", lambda x: lm.roll(x, 2, 0), lambda x: np.roll(x, 2, 0), (3, N)), Case("slice concat", lambda x: lm.roll(x, (1, -1), (0, 1)), lambda x: np.roll(x, (1, -1), (0, 1)), (3, N), open_length=False),
    Case("slice", lambda x: lm.split(x, [1, 0, -1], -1), lambda x: np.split(x, [1, 1], -1), (N, 3)), Case("slice", lambda x: lm.split(x, 3, -1), lambda x: np.split(x, 3, -1), (N, 3)),
    Case("concat", lambda x, y: lm.concat([x, y, x], -1), lambda x, y: np.concatenate([x, y, x], -1), (2, N), (2, 3)), Case("concat", lambda x, y: lm.concat([x, y]), lambda x, y: np.concatenate([x, y]), (2, N), (1, N)),
    Case("concat", lambda x, y: lm.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), (2, N), (2, N)),
    Case("pad_slice", lambda x: lm.pad(x, ((1, 2), (0, 1))), lambda x: np.pad(x, ((1, 2), (0, 1))), (N, 2)),
    Case("pad_slice", lambda x: lm.diag(x), np.diag, (N,), open_length=False), Case("iota where", lm.tril, np.tril, (3, N)), Case("iota where", lm.triu, np.triu, (N, 3)),
    Case("broadcast_to reshape", lambda x: lm.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), (2, N)), Case("broadcast_to reshape", lambda x: lm.repeat(x, 2, -1), lambda x: np.repeat(x, 2, -1), (2, N)),
    Case("gather", lambda x: lm.repeat(x, lm.constant([2, 0, 1]), 0), lambda x: np.repeat(x, [2, 0, 1], 0), (3, N)),
    Case("reshape", lambda x: lm.squeeze(x, (0, -1)), lambda x: np.squeeze(x, (0, -1)), (1, N, 1)),
    # indices
    Case("gather", lambda x: lm.take(x, lm.constant([2, 0, 2]), 0), lambda x: np.take(x, [2, 0, 2], 0), (3, N)),
    Case("gather", lambda x, i: lm.take(x, i, 0), lambda x, i: np.take(x, i, 0), (3, 2), (N,), kinds="ni"),
    Case("gather", lambda x, i: lm.take_along_axis(x, i, 0), lambda x, i: np.take_along_axis(x, i, 0), (3, N), (2, N), kinds="ni", open_length=False),
    Case("ravel_index gather", lambda x, i: x[i, i], lambda x, i: x[i, i], (3, 3, 2), (N,), kinds="ni"),
    Case("scatter_add", lambda y, i: lm.scatter_add(y, i, (3, 2)), lambda y, i: (lambda z: (np.add.at(z, i, y), z)[1])(np.zeros((3, 2))), (N, 2), (N,), kinds="ni"),
    Case("scatter", lambda x: x.at[1].set(0.5), lambda x: (lambda z: (z.__setitem__(1, 0.5), z)[1])(x.copy()), (3, N), open_length=False),
    Case("scatter", lambda x, i: x.at[i].add(0.5), lambda x, i: (lambda z: (np.add.at(z, i, 0.5), z)[1])(x.copy()), (3, 2), (N,), kinds="ni", open_length=False),
    Case("scatter", lambda x: x.at[None].add(1.0), lambda x: x + 1.0, (2, N), open_length=False),
    Case("one_hot", lambda i: lm.one_hot(i, 3), lambda i: np.eye(3)[i], (N,), kinds="i", slope=False), Case("one_hot", lambda i: lm.one_hot(i, 3), lambda i: np.eye(3)[i], (2, N), kinds="i", slope=False),
    Case("sparse_cross_entropy", lambda x, i: lm.losses.sparse_categorical_crossentropy(i, x, from_logits=True), lambda x, i: -np.log(softmax(x))[np.arange(len(i)), i], (N, 3), (N,), kinds="ni"),
    *[Case("sort", lambda x, a=a: lm.sort(x, a), lambda x, a=a: np.sort(x, a), (2, N, 3)) for a in (0, 1, -1)],
    *[Case("argsort", lambda x, a=a: lm.argsort(x, a), lambda x, a=a: np.argsort(x, a, kind="stable"), (2, N, 3), slope=False) for a in (0, 1, -1)],
    Case("top_k", lambda x: lm.top_k(x, 2, 0)[0], lambda x: -np.sort(-x, 0)[:2], (3, N)),
    Case("searchsorted", lambda x: lm.searchsorted(lm.constant([-0.5, 0.0, 0.5], x.dtype), x), lambda x: np.searchsorted([-0.5, 0.0, 0.5], x), (2, N), slope=False),
    Case("searchsorted", lambda x, y: lm.searchsorted(lm.sort(x), y), lambda x, y: np.searchsorted(np.sort(x), y), (N,), (2,), slope=False),
    Case("unique", lambda x: lm.unique(x, size=2), lambda x: np.unique(x)[:2], (3,), slope=False, vmap=False),
    Case("nonzero", lambda x: lm.nonzero(x, size=2, fill_value=-1)[0], lambda x: np.concatenate([np.nonzero(x)[0], [-1, -1]])[:2], (N,), kinds="b", slope=False),
    # images
    Case("conv2d conv2d_grad_input conv2d_grad_filter", lm.conv2d, conv, (N, 4, 3, 2), (2, 2, 2, 3), rough=3),
    Case("conv2d", lm.conv2d, conv, (2, 3, 3, N), (2, 2, N, 2), rough=3, open_length=False), Case("conv2d", lm.conv2d, conv, (2, 3, 3, 2), (2, 2, 2, N), rough=3, open_length=False),
    Case("max_pool2d max_pool2d_grad", lambda x: lm.max_pool2d(x, 2, 1), pooled, (N, 4, 3, 2)),
    Case("max_pool2d", lambda x: lm.max_pool2d(x, 2, 1), pooled, (2, 3, 3, N)),
    Case("mean", lm.layer_norm, layer_norm, (2, N, 3), rough=20), Case("mean", lambda x: lm.layer_norm(x), layer_norm, (N, 3), rough=20),
    # control flow
    Case("scan", lambda x: lm.scan(lambda s, v: (s * 0.5 + v, s), lm.zeros_like(x[0]), x)[0], lambda x: x[2] + 0.5 * (x[1] + 0.5 * x[0]), (3, N)),
    Case("scan", lambda x: lm.scan(lambda s, v: (s + v, s), lm.zeros((2,), x.dtype), x), lambda x: (x.sum(0), np.cumsum(x, 0) - x), (N, 2)),
    Case("while_loop", lambda x: lm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5), (lm.constant(0), x))[1], lambda x: x / 8, (2, N), slope=True),
    Case("while_loop with_length", lambda x: lm.fori_loop(0, lm.constant(3), lambda i, s: s * 0.5, x), lambda x: x / 8, (2, N)),
    Case("cond", lambda x, c: lm.cond(lm.any(c), lambda: x * 2.0, lambda: x + 1.0), lambda x, c: x * 2.0 if c.any() else x + 1.0, (2, N), (N,), kinds="nb"),
    Case("checkpoint", lambda x: lm.checkpoint(lambda v: lm.tanh(v) * v)(x), lambda x: np.tanh(x) * x, (2, N)),
    Case("custom_gradient", lm.custom_gradient(lambda x: (x * x, lambda dy: dy * 2.0 * x)), lambda x: x * x, (2, N)),
    Case("fused_elementwise", lambda x: lm.tanh(x * 2.0 + 1.0) * x - 0.5, lambda x: np.tanh(x * 2.0 + 1.0) * x - 0.5, (2, N)),
    Case("stop_gradient", lambda x: lm.stop_gradient(x) * 2.0, lambda x: x * 2.0, (2, N), slope=False),
    Case("check_numerics", lambda x: lm.check_numerics(x), lambda x: x, (2, N)),
    Case("to_device", lambda x: x.to("cpu:0") * 1.0, lambda x: x, (2, N), vmap=False),
]

ELSEWHERE = {
    "input": "every traced case", "constant": "every traced case", "read": "test_state_with_empty_axes", "assign": "test_state_with_empty_axes", "dense_update": "test_state_with_empty_axes",
    "random_uniform": "test_draws", "random_normal": "test_draws", "random_integers": "test_draws", "random_truncated_normal": "test_draws", "dropout": "test_draws",
    **dict.fromkeys(["all_gather", "all_reduce", "broadcast_from", "reduce_scatter", "send_receive"], "between ranks: collectives_test.cpp"),
    **dict.fromkeys(["cholesky", "eigh", "qr", "slogdet", "solve", "svd", "triangular_solve"], "by LAPACK: test_linalg.py"),
    "as_complex": "of complex numbers: test_complex.py", "as_real": "of complex numbers: test_complex.py", "fft": "by KissFFT: test_fft.py",
    "print": "test_reports", "check": "test_reports", "after": "made for draws and effects that are ordered",
    **{f"{n}_grad": "the gradient's case of the op itself" for n in ACTIVATIONS},
}


def test_every_elementwise_function_has_a_row():
    assert set(ROWS) | set(OTHERWISE) == {op for op, access in ACCESS.items() if access != "inner"}


def test_every_op_has_a_case_or_a_reason():
    table = [*ACCESS, *re.findall(r"^OP\((\w+)\)", (pathlib.Path(__file__).parents[2] / "graph/ops/ops.inc").read_text(), re.M)]
    covered = {op for case in CASES for op in case.ops}
    assert len(table) > 100 and set(table) == covered | set(ELSEWHERE) and not covered & set(ELSEWHERE)
    for reason in ELSEWHERE.values():
        assert not reason.startswith("test_") or reason in globals()


def agree(got, wanted, allowed, what):
    got, wanted = as_list(got), as_list(wanted)
    assert len(got) == len(wanted), what
    for g, w in zip(got, wanted):
        assert tuple(g.shape) == np.shape(w), f"{what}: shape {g.shape}, not {np.shape(w)}"
        g = numbers(g).astype("float64")
        w = np.asarray(w, "float64")
        finite = np.abs(w[np.isfinite(w)])
        scale = max(1.0, finite.max() if finite.size else 0.0)
        np.testing.assert_allclose(g, w, rtol=0, atol=allowed * scale, err_msg=what)


def slopes(case, args):
    """The derivative of the sum of all results times 1, 2, 3, ... by central differences."""
    def total(values):
        return sum(float(np.sum(np.asarray(r, "float64").ravel() * weights_of(np.size(r)))) for r in as_list(no_warnings(case.reference)(*values)))
    out = []
    for i, (a, kind) in enumerate(zip(args, case.kinds)):
        if kind in "ib":
            continue
        slope, step = np.zeros_like(a), 1e-6
        for place in np.ndindex(a.shape):
            sides = []
            for side in (step, -step):
                moved = [v.copy() for v in args]
                moved[i][place] += side
                sides.append(total(moved))
            slope[place] = (sides[0] - sides[1]) / (2 * step)
        out.append(slope)
    return out


def weights_of(size):
    return (np.arange(size) % 3 + 1) / 2


def weighted(f):
    def total(*args):
        results = [r for r in as_list(f(*args))]
        parts = [lm.sum(lm.astype(r, lm.float32) * lm.constant(weights_of(math.prod(r.shape)).reshape(r.shape).astype("float32"))) for r in results]
        return sum(parts[1:], parts[0])
    return total


def refused(call):
    with pytest.raises(lm.errors.Error) as info:
        call()
    assert not isinstance(info.value, lm.errors.InternalError), info.value
    return True


def ways(index):
    every = [(length, dtype) for length in (0, 1, 3) for dtype in ERRORS]
    return every if LONG else [(0, "float32"), every[3 + index % 6], (0, ("float16", "bfloat16")[index % 2])]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{i}-{c.ops[0]}" for i, c in enumerate(CASES)])
def test_values(index):
    case, rng = CASES[index], np.random.default_rng(index)
    for length, dtype in ways(index):
        args = case.draw(length, dtype, rng)
        wide, allowed, what = [numbers(a) for a in args], ERRORS[dtype] * case.rough, f"length {length}, {dtype}"
        specs = [lm.TensorSpec(["n" if n == N else n for n in shape], a.dtype) for shape, a in zip(case.shapes, args)]
        wanted = None
        try:
            wanted = no_warnings(case.reference)(*[w.copy() for w in wide])
        except ValueError:
            assert refused(lambda: case.f(*args)) and refused(lambda: lm.function(case.f)(*args)), what
            continue
        agree(case.f(*args), wanted, allowed, f"{what}, eager")
        agree(lm.function(case.f)(*args), wanted, allowed, f"{what}, traced")
        if case.open_length:
            agree(lm.function(case.f, input_signature=specs)(*args), wanted, allowed, f"{what}, open length")
        if case.vmap:
            more = case.draw(length, dtype, rng)
            wanted_more = no_warnings(case.reference)(*[numbers(a).copy() for a in more])
            both = [np.stack([np.asarray(a), np.asarray(b)]) for a, b in zip(as_list(wanted), as_list(wanted_more))]
            stacked = [lm.stack([a, b]) for a, b in zip(args, more)]
            agree(lm.vmap(case.f)(*stacked), both, allowed, f"{what}, vmap")
            agree(lm.function(lm.vmap(case.f))(*stacked), both, allowed, f"{what}, traced vmap")


@pytest.mark.parametrize("index", [i for i, c in enumerate(CASES) if c.slope], ids=[f"{i}-{c.ops[0]}" for i, c in enumerate(CASES) if c.slope])
def test_gradients(index):
    case, rng = CASES[index], np.random.default_rng(index)
    for length, dtype in ways(index):
        args = case.draw(length, dtype, rng)
        wide, what = [numbers(a) for a in args], f"length {length}, {dtype}"
        by = tuple(i for i, kind in enumerate(case.kinds) if kind not in "ib")
        try:
            value = no_warnings(case.reference)(*[w.copy() for w in wide])
        except ValueError:
            continue
        wanted = [np.where(np.isfinite(s), s, 0) for s in slopes(case, wide)]
        if not all(np.isfinite(np.asarray(v, "float64")).all() for v in as_list(value)):
            wanted = None  # the mean of nothing: only shapes are compared
        f = weighted(case.f)
        allowed = max(ERRORS[dtype] * case.rough * 8, 1e-4)
        for name, got in (("eager", lm.grad(f, by)(*args)), ("traced", lm.function(lm.grad(f, by))(*args)), ("checkpoint", lm.function(lm.grad(lm.checkpoint(f), by))(*args))):
            if wanted is not None:
                agree(got, wanted, allowed, f"{what}, gradient, {name}")
            for g, i in zip(got, by):
                assert g.shape == args[i].shape and g.dtype == args[i].dtype, f"{what}, gradient, {name}"
        if case.vmap:
            stacked = [lm.stack([a, a]) for a in args]
            for mode in (lambda g: g, lm.function):
                got = mode(lm.vmap(lm.grad(f, by)))(*stacked)
                for g, i in zip(got, by):
                    assert g.shape == (2, *args[i].shape), what
                if wanted is not None:
                    agree(got, [np.stack([w, w]) for w in wanted], allowed, f"{what}, vmapped gradient")


@pytest.mark.parametrize("rows, units", [(0, 3), (2, 0), (0, 0), (1, 1)])
def test_state_with_empty_axes(rows, units):
    v, w, b = lm.Variable(lm.ones((rows, units))), lm.Variable(lm.ones((4, units))), lm.Variable(lm.zeros((units,)))
    sgd = lm.optim.SGD(0.5)

    def step(x):
        with lm.GradientTape() as tape:
            cost = lm.sum(lm.relu(x @ w + b) + v)
        sgd.apply_gradients(zip(tape.gradient(cost, [w, b, v]), [w, b, v]))
        v.assign_add(lm.ones_like(v))
        return cost

    f = lm.function(step)
    for _ in range(2):
        cost = f(lm.ones((rows, 4)))
    assert cost.shape == () and v.shape == (rows, units) and w.shape == (4, units)
    np.testing.assert_allclose(v.numpy(), np.full((rows, units), 2.0))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (1,)])
def test_draws(shape):
    draws = [lambda: lm.random.uniform(shape), lambda: lm.random.normal(shape), lambda: lm.random.truncated_normal(shape), lambda: lm.random.integers(0, 5, shape),
             lambda: lm.dropout(lm.ones(shape), 0.5), lambda: lm.random.exponential(shape), lambda: lm.random.bernoulli(0.5, shape), lambda: lm.random.shuffle(lm.ones(shape), -1)]
    for draw in draws:
        assert draw().shape == shape == lm.function(draw)().shape
        assert lm.vmap(lambda x: draw() + 0 * lm.astype(x, draw().dtype) if draw().dtype != lm.bool else draw())(lm.zeros(2)).shape[1:] == shape
        lm.random.set_seed(3)
        first, second = draw(), lm.random.uniform((2,))
        lm.random.set_seed(3)
        again, same = lm.function(draw)(), lm.function(lambda: lm.random.uniform((2,)))()
        np.testing.assert_array_equal(first.numpy(), again.numpy())
        np.testing.assert_array_equal(second.numpy(), same.numpy())
    assert lm.random.permutation(0).shape == (0,)
    assert lm.random.categorical(lm.zeros((0, 3))).shape == (0,)


def test_reports(capfd):
    def f(x):
        lm.print("x is", x)
        lm.check(lm.all(x > 0), "all are positive")
        return x * 2.0

    for mode in (lambda g: g, lm.function, lm.vmap, lambda g: lm.function(lm.vmap(g))):
        assert mode(f)(lm.ones((2, 0))).shape == (2, 0)
    assert "[]" in capfd.readouterr().out


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (2, 0, 3), (2, 4, 0)])
def test_batch_norm(shape):
    layer = lm.nn.BatchNorm()
    x = lm.constant(np.arange(math.prod(shape)).reshape(shape).astype("float32"))
    layer(x)
    f = lm.function(lambda x: lm.grad(lambda x: lm.sum(layer(x, training=True) * x))(x))
    assert f(x).shape == shape and layer(x, training=True).shape == shape
    if math.prod(shape[:-1]):
        assert np.isfinite(layer.moving_mean.numpy()).all() and np.isfinite(f(x).numpy()).all()
