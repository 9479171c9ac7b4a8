"""lm.linalg against numpy.linalg: values, gradients against finite differences, leading axes, vmap, lengths 0 and 1, errors."""
import subprocess
import sys

import numpy as np
import pytest
import lamina as lm

if lm._core.linalg.library().startswith("none"):
    pytest.skip(f"needs LAPACK: {lm._core.linalg.library()}", allow_module_level=True)
la, nl = lm.linalg, np.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
rng = np.random.default_rng(7)
numbers = {"dtype": "float64"}  # what matrix() makes unless it is told


def matrix(*shape, dtype=None):
    dtype = dtype or numbers["dtype"]
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if "complex" in dtype else real).astype(dtype)


def positive(*shape):
    a = matrix(*shape)
    return a @ turned(a) + shape[-1] * np.eye(shape[-1])


def sym(a):
    return (a + lm.matrix_transpose(a)) * 0.5


def turned(x):
    return np.swapaxes(x.conj(), -1, -2)


def close(a, b, dtype="float64", scale=1.0):
    a = [x.numpy() for x in a] if isinstance(a, (tuple, list)) else [a.numpy()]
    b = b if isinstance(b, (tuple, list)) else [b]
    for x, y in zip(a, b, strict=True):
        assert x.shape == np.shape(y)
        limit = (2e-4 if dtype in ("float32", "complex64") else 1e-10) * scale * max(1.0, np.abs(np.where(np.isfinite(y), y, 0)).max() if np.size(y) else 1.0)
        np.testing.assert_allclose(x, y, rtol=0, atol=limit)


# function of lm.linalg, of numpy.linalg, arguments
CASES = {
    "inv": (la.inv, nl.inv, lambda: [positive(4, 4)]), "inv of many": (la.inv, nl.inv, lambda: [positive(2, 3, 4, 4)]),
    "det": (la.det, nl.det, lambda: [matrix(3, 4, 4)]), "slogdet": (la.slogdet, lambda a: tuple(nl.slogdet(a)), lambda: [matrix(5, 3, 3)]),
    "solve": (la.solve, nl.solve, lambda: [positive(2, 3, 3), matrix(2, 3, 2)]), "solve a vector": (la.solve, nl.solve, lambda: [matrix(3, 3), matrix(3)]),
    "solve, leading axes broadcast": (la.solve, nl.solve, lambda: [positive(3, 3), matrix(4, 3, 2)]),
    "lower triangle": (la.triangular_solve, lambda a, b: nl.solve(np.tril(a), b), lambda: [positive(2, 4, 4), matrix(2, 4, 3)]),
    "upper triangle, transposed, unit": (lambda a, b: la.triangular_solve(a, b, lower=False, transpose=True, unit_diagonal=True), lambda a, b: nl.solve((np.triu(a, 1) + np.eye(3)).T, b), lambda: [matrix(3, 3), matrix(3, 2)]),
    "cholesky": (la.cholesky, nl.cholesky, lambda: [positive(2, 5, 5)]), "cholesky, upper": (lambda a: la.cholesky(a, upper=True), lambda a: turned(nl.cholesky(a)), lambda: [positive(3, 3)]),
    "eigvalsh": (la.eigvalsh, lambda a: nl.eigvalsh(a), lambda: [positive(3, 4, 4)]), "svdvals": (la.svdvals, lambda a: nl.svd(a, compute_uv=False), lambda: [matrix(2, 5, 3)]),
    "pinv": (la.pinv, nl.pinv, lambda: [matrix(2, 5, 3)]), "pinv of a wide one": (la.pinv, nl.pinv, lambda: [matrix(3, 5)]),
    "lstsq": (la.lstsq, lambda a, b: nl.lstsq(a, b, rcond=None)[0], lambda: [matrix(6, 3), matrix(6, 2)]), "lstsq of a vector": (la.lstsq, lambda a, b: nl.lstsq(a, b, rcond=None)[0], lambda: [matrix(3, 5), matrix(3)]),
    "matrix_power": (lambda a: la.matrix_power(a, 5), lambda a: nl.matrix_power(a, 5), lambda: [matrix(2, 3, 3)]), "matrix_power -3": (lambda a: la.matrix_power(a, -3), lambda a: nl.matrix_power(a, -3), lambda: [positive(3, 3)]),
    "matrix_power 0": (lambda a: la.matrix_power(a, 0), lambda a: nl.matrix_power(a, 0), lambda: [matrix(2, 3, 3)]), "outer": (la.outer, np.outer, lambda: [matrix(3), matrix(4)]),
    "multi_dot": (lambda *a: la.multi_dot(a), lambda *a: nl.multi_dot(a), lambda: [matrix(3), matrix(3, 5), matrix(5, 2), matrix(2, 4), matrix(4)]), "trace": (la.trace, lambda a: np.trace(a, axis1=-2, axis2=-1), lambda: [matrix(2, 3, 4)]),
    "diagonal": (lambda a: la.diagonal(a, 1), lambda a: np.diagonal(a, 1, -2, -1), lambda: [matrix(2, 3, 4)]), "vecdot": (la.vecdot, lambda a, b: (a.conj() * b).sum(-1), lambda: [matrix(2, 3), matrix(2, 3)]),
    "cross": (la.cross, np.cross, lambda: [matrix(2, 3), matrix(2, 3)]), "cond": (la.cond, nl.cond, lambda: [matrix(2, 3, 3)]), "cond 1": (lambda a: la.cond(a, 1), lambda a: nl.cond(a, 1), lambda: [matrix(3, 3)]),
    **{f"norm {o}": (lambda a, o=o: la.norm(a, o), lambda a, o=o: nl.norm(a, o), lambda: [matrix(4, 3)]) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)},
    **{f"norm {o} of vectors": (lambda a, o=o: la.norm(a, o, axis=0), lambda a, o=o: nl.norm(a, o, axis=0), lambda: [matrix(4, 3)]) for o in (None, 0, 1, 2, 3, -2, np.inf, -np.inf)},
    "norm of two axes": (lambda a: la.norm(a, 1, axis=(2, 0), keepdims=True), lambda a: nl.norm(a, 1, axis=(2, 0), keepdims=True), lambda: [matrix(2, 3, 4)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_numpy_eager_traced_and_under_vmap(name, dtype):
    ours, theirs, make = CASES[name]
    wide = numbers["dtype"] = "complex128" if "complex" in dtype else "float64"
    try:
        args = [a.astype(dtype) for a in make()]
    finally:
        numbers["dtype"] = "float64"
    wanted = theirs(*[a.astype(wide) for a in args])
    eager = ours(*map(lm.constant, args))
    close(eager, wanted, dtype, 20)
    for x, y in zip(eager if isinstance(eager, tuple) else (eager,), wanted if isinstance(wanted, tuple) else (wanted,)):
        assert x.dtype == (dtype if np.iscomplexobj(y) else dtype.replace("complex64", "float32").replace("complex128", "float64"))
    close(lm.function(lambda *a: ours(*a))(*map(lm.constant, args)), wanted, dtype, 20)
    stacks = [np.stack([a, a * (1.5 if k == 0 else 1.0)]) for k, a in enumerate(args)]
    alone = [ours(*[lm.constant(s[k]) for s in stacks]) for k in range(2)]
    mapped = lm.vmap(ours)(*map(lm.constant, stacks))
    pair = lambda x: x if isinstance(x, tuple) else (x,)
    close(pair(mapped), [np.stack([a.numpy(), b.numpy()]) for a, b in zip(*map(pair, alone))], dtype, 20)
    if len(args) == 2:  # one of them is shared
        shared = lm.vmap(ours, in_axes=(0, None))(lm.constant(stacks[0]), lm.constant(args[1]))
        close(pair(shared), [np.stack([a.numpy(), b.numpy()]) for a, b in zip(pair(ours(*map(lm.constant, args))), pair(ours(lm.constant(stacks[0][1]), lm.constant(args[1]))))], dtype, 20)


SMOOTH = {
    "inv": (la.inv, [(2, 3, 3)]), "det": (la.det, [(3, 3)]), "slogdet": (lambda a: la.slogdet(a)[1], [(2, 3, 3)]), "solve": (la.solve, [(3, 3), (2, 3, 2)]),
    "triangular": (lambda a, b: la.triangular_solve(a, b), [(3, 3), (3, 2)]), "triangular, upper": (lambda a, b: la.triangular_solve(a, b, lower=False, transpose=True, unit_diagonal=True), [(3, 3), (3,)]),
    "cholesky": (lambda a: la.cholesky(sym(a)), [(2, 3, 3)]), "eigvalsh": (lambda a: la.eigvalsh(sym(a)), [(3, 3)]),
    "eigh": (lambda a: (lambda w, v: lm.matmul(v * lm.exp(-w / 10), lm.matrix_transpose(v)))(*la.eigh(sym(a))), [(3, 3)]), "eigenvectors": (lambda a: lm.square(la.eigh(sym(a))[1]), [(3, 3)]),
    **{f"qr {m, n}": (lambda a: [part * lm.sign(lm.linalg.diagonal(la.qr(a)[1])[..., None, :] if k == 0 else lm.linalg.diagonal(la.qr(a)[1])[..., :, None]) for k, part in enumerate(la.qr(a))], [(m, n)]) for m, n in [(3, 3), (4, 2), (2, 4)]},
    **{f"svd {m, n}": (lambda a: (lambda u, s, v: [lm.square(u), s, lm.square(v), lm.matmul(u, v)])(*la.svd(a, full_matrices=False)), [(m, n)]) for m, n in [(3, 3), (4, 2), (2, 4)]},
    "svdvals": (la.svdvals, [(3, 4)]), "pinv": (la.pinv, [(4, 2)]), "nuclear norm": (lambda a: la.norm(a, "nuc"), [(3, 2)]), "norm 3": (lambda a: la.norm(a, 3, axis=0), [(3, 2)]),
    "matrix_power": (lambda a: la.matrix_power(a, -2), [(3, 3)]),
}


def total(function, args):
    out = function(*args)
    parts = out if isinstance(out, (list, tuple)) else [out]
    return sum(lm.sum(part * lm.constant(np.cos(np.arange(part.size) + 1.0).reshape(part.shape))) for part in parts)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_to_second_order(name):
    function, shapes = SMOOTH[name]
    values = [positive(*s) + 0.3 * matrix(*s) if len(s) > 1 and s[-1] == s[-2] else matrix(*s) for s in shapes]
    first = lambda *a: total(function, a)
    grads = lm.grad(first, argnums=tuple(range(len(values))))
    found = grads(*map(lm.constant, values))
    twists = [matrix(*s) for s in shapes]
    second = lm.grad(lambda *a: sum(lm.sum(g * lm.constant(t)) for g, t in zip(grads(*a), twists)), argnums=tuple(range(len(values))))(*map(lm.constant, values))
    step = 1e-5
    for i, value in enumerate(values):
        for _ in range(3):
            direction = matrix(*value.shape)
            moved = [[lm.constant(v + (side * step * direction if k == i else 0)) for k, v in enumerate(values)] for side in (1, -1)]
            slope = (first(*moved[0]).item() - first(*moved[1]).item()) / (2 * step)
            assert abs(slope - (found[i].numpy() * direction).sum()) <= 1e-6 * max(1.0, abs(slope)), name
            slope = sum(((a - b).numpy() * t).sum() for a, b, t in zip(grads(*moved[0]), grads(*moved[1]), twists)) / (2 * step)
            assert abs(slope - (second[i].numpy() * direction).sum()) <= 1e-5 * max(1.0, abs(slope)), name
    traced = lm.function(lambda *a: grads(*a))(*map(lm.constant, values))
    for a, b in zip(traced, found):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_of_random_shapes_multiply_to_the_matrix(dtype):
    limit = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    for round in range(60):
        leading = tuple(rng.integers(0, 4, rng.integers(0, 3)))
        m, n = (int(v) for v in rng.integers(0, 6, 2))
        a = matrix(*leading, m, n, dtype=dtype)
        x, k, eye = lm.constant(a), min(m, n), lambda q: np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
        for mode in ("reduced", "complete"):
            q, r = (t.numpy() for t in la.qr(x, mode))
            wide = m if mode == "complete" else k
            assert q.shape == (*leading, m, wide) and r.shape == (*leading, wide, n) and q.dtype == dtype
            np.testing.assert_allclose(q @ r, a, atol=limit)
            np.testing.assert_allclose(turned(q) @ q, eye(q), atol=limit)
            np.testing.assert_array_equal(r, np.triu(r))
        for full in (False, True):
            u, s, vt = (t.numpy() for t in la.svd(x, full_matrices=full))
            assert u.shape == (*leading, m, m if full else k) and s.shape == (*leading, k) and vt.shape == (*leading, n if full else k, n)
            np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, atol=limit)
            np.testing.assert_allclose(turned(u) @ u, eye(u), atol=limit)
            np.testing.assert_allclose(vt @ turned(vt), eye(turned(vt)), atol=limit)
            assert (np.diff(s, axis=-1) <= limit).all() and (s >= 0).all()
        square = a @ turned(a)
        w, v = (t.numpy() for t in la.eigh(lm.constant(square)))
        np.testing.assert_allclose((v * w[..., None, :]) @ turned(v), square, atol=20 * limit)
        if m:
            np.testing.assert_allclose(w, nl.eigvalsh(square), atol=20 * limit)
        regular = square + np.eye(m, dtype=dtype)
        lower = la.cholesky(lm.constant(regular)).numpy()
        np.testing.assert_allclose(lower @ turned(lower), regular, atol=20 * limit)
        b = matrix(*leading, m, 2, dtype=dtype)
        np.testing.assert_allclose(regular @ la.solve(lm.constant(regular), lm.constant(b)).numpy(), b, atol=20 * limit)
        np.testing.assert_allclose(lower @ la.triangular_solve(lm.constant(lower), lm.constant(b)).numpy(), b, atol=20 * limit)
        assert la.inv(lm.constant(regular)).shape == regular.shape and la.det(lm.constant(regular)).shape == leading
        np.testing.assert_allclose(la.det(lm.constant(regular)).numpy(), nl.det(regular), rtol=1e3 * limit, atol=limit)
        assert la.pinv(x).shape == (*leading, n, m) and la.matrix_rank(x).shape == leading
    assert la.det(lm.zeros((0, 0))).item() == 1 and la.matrix_rank(lm.zeros((0, 3))).item() == 0 and la.inv(lm.zeros((2, 0, 0))).shape == (2, 0, 0)


def test_lengths_that_are_open_while_tracing():
    spec = lm.TensorSpec([None, "n", "n"], "float64")
    f = lm.function(lambda a: (la.inv(a), la.cholesky(a), la.eigvalsh(a), la.svdvals(a), la.qr(a)[1], la.det(a)), input_signature=[spec])
    for n in (1, 3):
        a = positive(2, n, n)
        out = f(a)
        np.testing.assert_allclose(out[0].numpy(), nl.inv(a), atol=1e-9)
        np.testing.assert_allclose(out[1].numpy(), nl.cholesky(a), atol=1e-9)
        np.testing.assert_allclose(out[3].numpy(), nl.svd(a, compute_uv=False), atol=1e-9)
    assert f.trace_count == 1
    with pytest.raises(lm.errors.InvalidArgument, match="svd: the lengths of .* are open"):
        lm.function(la.svdvals, input_signature=[lm.TensorSpec([None, 3])])(lm.zeros((2, 3)))


def test_rank_and_condition_of_deficient_matrices():
    a = matrix(4, 2) @ matrix(2, 5)
    assert la.matrix_rank(lm.constant(a)).item() == 2 and la.matrix_rank(lm.constant(np.stack([a, a * 0]))).tolist() == [2, 0]
    np.testing.assert_allclose(la.pinv(lm.constant(a)).numpy(), nl.pinv(a), atol=1e-10)
    sign, log = la.slogdet(lm.constant(a[:, :4] * 0))
    assert sign.item() == 0 and log.item() == -np.inf and la.det(lm.zeros((2, 2))).item() == 0
    for p in (None, 2, -2):
        assert la.cond(lm.constant(np.stack([np.zeros((2, 2)), np.diag([1.0, 0])])), p).tolist() == [np.inf, 0 if p == -2 else np.inf]
    equal = lm.grad(lambda x: lm.sum(la.eigh(sym(x))[0]))(lm.constant(np.eye(3)))  # equal eigenvalues
    np.testing.assert_allclose(equal.numpy(), np.eye(3), atol=1e-12)


def test_integers_count_as_float32_and_lists_work():
    assert la.inv([[2, 0], [0, 4]]).tolist() == [[0.5, 0], [0, 0.25]] and la.inv(lm.constant([[2]], "int32")).dtype == lm.float32
    v = lm.Variable([[4.0, 0.0], [0.0, 9.0]])
    assert la.cholesky(v).tolist() == [[2, 0], [0, 3]] and la.norm([3, 4]).item() == 5 and la.norm(lm.Variable([3.0, 4.0])).item() == 5


@pytest.mark.parametrize("call, kind, text", [
    (lambda: la.inv(lm.zeros((2, 2))), "InvalidArgument", "solve: the matrix is singular"), (lambda: la.solve(np.stack([np.eye(2), np.ones((2, 2))]), np.ones((2, 2, 1))), "InvalidArgument", "solve: matrix 1 of 2 is singular"),
    (lambda: la.inv(lm.zeros((2, 3))), "InvalidArgument", "inv: .* is not square"), (lambda: la.cholesky(lm.zeros((3, 2))), "InvalidArgument", "cholesky: .* is not square"),
    (lambda: la.cholesky(-np.eye(2)), "InvalidArgument", "cholesky: the matrix is not positive definite"), (lambda: la.triangular_solve(np.tril(np.ones((2, 2)), -1), np.ones(2)), "InvalidArgument", "triangular_solve: the matrix is singular"),
    (lambda: la.svd(np.full((2, 2), np.nan)), "InvalidArgument", "svd: the matrix is not finite"), (lambda: la.eigh(np.full((2, 2), np.inf)), "InvalidArgument", "eigh: the matrix is not finite"),
    (lambda: la.qr(lm.ones(3)), "InvalidArgument", "qr: .* is not a matrix"), (lambda: la.det(lm.ones((2, 2), "float16")), "TypeMismatch", "det|slogdet: .* half type"), (lambda: la.qr(lm.ones((2, 2)), "full"), "InvalidArgument", "qr: 'full' is no mode"),
    (lambda: la.solve(lm.ones((2, 2)), lm.ones((3, 1))), "InvalidArgument", "solve: "), (lambda: la.solve(lm.ones((2, 2)), lm.ones((2, 1), "float64")), "TypeMismatch", "solve: "), (lambda: la.solve(lm.ones((3, 2, 2)), lm.ones((4, 2, 1))), "InvalidArgument", "solve: .* do not fit"),
    (lambda: la.norm(lm.ones((2, 2)), "max"), "InvalidArgument", "matrix_norm: 'max'"), (lambda: la.norm(lm.ones((2, 2, 2)), 1), "InvalidArgument", "norm: 3 axes"), (lambda: la.matrix_power(lm.ones((2, 2)), 0.5), "TypeMismatch", "matrix_power"),
    (lambda: la.multi_dot([lm.ones((2, 2))]), "InvalidArgument", "multi_dot: 1 matrices"), (lambda: la.inverse, "AttributeError", "has no 'inverse'"),
    (lambda: lm.grad(lambda a: lm.sum(la.qr(a, "complete")[0]))(lm.constant(matrix(3, 2))), "InvalidArgument", "qr: no gradient"), (lambda: lm.grad(lambda a: lm.sum(la.svd(a)[0]))(lm.constant(matrix(3, 2))), "InvalidArgument", "svd: no gradient"),
    (lambda: lm.grad(lambda a: la.norm(la.inv(lm.complex(a, a))))(lm.constant(positive(3, 3))), "TypeMismatch", "no gradient of factors and solutions of c128"), (lambda: la.inv(lm.zeros((2, 2), "complex64")), "InvalidArgument", "solve: the matrix is singular"),
    (lambda: la.eigh(np.array([[1, complex(0, np.nan)], [complex(0, np.nan), 1]])), "InvalidArgument", "eigh: the matrix is not finite"),
])
def test_errors_say_what_is_wrong(call, kind, text):
    with pytest.raises(getattr(lm.errors, kind, AttributeError), match=text) as caught:
        call()
    if kind != "AttributeError":
        assert caught.value.why and caught.value.fix and "test_linalg.py" in str(caught.value)


def test_saved_programs_and_training_hold_them(tmp_path):
    class Gaussian(lm.Module):
        def __init__(self):
            self.half = lm.Variable(np.eye(3) * 2)

        @lm.function
        def step(self, x):
            with lm.GradientTape() as tape:
                covariance = lm.matmul(self.half, lm.matrix_transpose(self.half)) + 0.1 * lm.eye(3, dtype="float64")
                white = la.triangular_solve(la.cholesky(covariance), lm.transpose(x))
                loss = lm.mean(lm.sum(lm.square(white), 0)) + la.slogdet(covariance)[1]
            self.half.assign_sub(0.1 * tape.gradient(loss, self.half))
            return loss

    model, x = Gaussian(), lm.constant(matrix(200, 3) @ np.diag([1.0, 2.0, 0.5]))
    first = model.step(x).item()
    lm.save(model, tmp_path / "gaussian")
    again = lm.load(tmp_path / "gaussian")
    for _ in range(100):
        assert model.step(x).item() == again.step(x).item()
    assert model.step(x).item() < first
    np.testing.assert_allclose((model.half.numpy() @ model.half.numpy().T + 0.1 * np.eye(3)), np.cov(x.numpy().T, bias=True) + np.outer(*[x.numpy().mean(0)] * 2), atol=0.15)


def test_c_and_onnx_files_refuse_them_by_name(tmp_path):
    spec = lm.TensorSpec([2, 2])
    f = lm.function(la.inv, input_signature=[spec])
    with pytest.raises(lm.errors.Error, match="solve"):
        lm.export_c(f, tmp_path / "c")
    with pytest.raises(lm.errors.Error, match="solve"):
        lm.onnx.save(f, tmp_path / "f.onnx", spec)


def test_lapack_is_opened_by_the_first_call_alone():
    code = "import lamina as lm; maps = lambda: 'lapack' in open('/proc/self/maps').read(); a = maps(); lm.linalg.norm([3., 4.]); b = maps(); lm.linalg.inv([[1.]]); print(a, b, maps() or 'openblas' in open('/proc/self/maps').read())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.split() == ["False", "False", "True"], ran.stderr
    core = next(line.split()[-1] for line in open("/proc/self/maps") if "liblamina.so" in line)
    assert "lapack" not in subprocess.run(["readelf", "-d", core], capture_output=True, text=True).stdout


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3)])
def test_norms_of_nothing_are_zero(shape):
    x = lm.zeros(shape)
    for order in ("fro", "nuc", 1, 2, np.inf):
        np.testing.assert_array_equal(lm.linalg.matrix_norm(x, order).numpy(), np.zeros(shape[:-2]))
    for order in (1, 2, 3, np.inf):
        assert float(lm.linalg.vector_norm(x, order)) == 0
    with pytest.raises(lm.errors.InvalidArgument):
        lm.linalg.matrix_norm(lm.zeros((3, 0)), -1)
