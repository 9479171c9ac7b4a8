"""complex64 and complex128: arithmetic and functions beside NumPy's, gradients, moves of elements, borders, text and refusals."""
import itertools
import pickle

import numpy as np
import pytest

import lamina as lm

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
W = RNG.normal(size=(3, 4)) - 2j * RNG.normal(size=(3, 4))
DTYPES = ("complex64", "complex128")


def close(ours, theirs, dtype="complex128"):
    theirs = np.asarray(theirs)
    assert tuple(ours.shape) == theirs.shape and ours.dtype.name == theirs.dtype.name, (ours, theirs)
    tolerance = 2e-5 if dtype == "complex64" else 1e-11
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance)


ONE = {"abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "angle": np.angle, "conj": np.conj, "cos": np.cos, "cosh": np.cosh,
       "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "imag": np.imag, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
       "neg": np.negative, "real": np.real, "reciprocal": np.reciprocal, "rsqrt": lambda z: 1 / np.sqrt(z), "sign": lambda z: z / np.abs(z), "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
       "tan": np.tan, "tanh": np.tanh}


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one(name, dtype):
    for scale in (1, 1e-3, 6):
        z = (Z * scale).astype(dtype)
        close(getattr(lm, name)(lm.constant(z)), ONE[name](z), dtype)
        close(lm.function(getattr(lm, name))(lm.constant(z)), ONE[name](z), dtype)


def test_branch_cuts_and_edges():
    for name, z in [("sqrt", [-4 + 0j, complex(-4, -0.0), 0j, 1e300 + 1e300j, 1e-300 - 1e-300j]), ("log", [-1 + 0j, complex(-1, -0.0), 1 + 1e-9j]), ("abs", [3e200 + 4e200j, 3e-200 + 4e-200j, 0j, complex(np.inf, np.nan)]),
                    ("tanh", [400 + 1j, -400 - 2j, 0j]), ("acosh", [0.5 + 0j, -2 + 1e-3j]), ("exp", [-np.inf + 1j, 1000 - 0.5j, 2 + 0j])]:
        with np.errstate(all="ignore"):
            expected = ONE[name](np.array(z))
        np.testing.assert_allclose(getattr(lm, name)(lm.constant(np.array(z))).numpy(), expected, rtol=1e-12)
    assert lm.sign(lm.constant(0j)).item() == 0 and (lm.constant(0j) ** 2).item() == 0 and (lm.constant(0j) ** 0).item() == 1


PARTS = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan)
PAIRS = list(itertools.product(PARTS, PARTS))
# NumPy's expm1 of infinities and NaNs is exp(z) - 1, and its tanh takes the sign of sin(2b) at an infinity; here they are the array API standard's. It has no rule for sign and reciprocal.
OWN = {"expm1": lambda a, b: not np.isfinite(a) or a == b == 0, "tanh": lambda a, b: np.isinf(a), "tan": lambda a, b: np.isinf(b), "sign": lambda a, b: np.isnan(a) or np.isnan(b), "reciprocal": lambda a, b: a == b == 0}
OPEN = {"exp": np.isfinite, "sign": np.isfinite, "sin": np.isfinite, "cos": np.isfinite, "sinh": np.isfinite, "cosh": np.isfinite, "asin": lambda x: not np.isnan(x), "atan": lambda x: not np.isnan(x)}  # else the standard leaves signs open
STANDARD = {
    "expm1": [(0.0, 0.0, 0j), (-0.0, 0.0, 0j), (np.inf, 0.0, complex(np.inf, 0)), (-np.inf, np.inf, -1 + 0j), (np.inf, np.inf, complex(np.inf, np.nan)), (-np.inf, np.nan, -1 + 0j),
              (np.inf, np.nan, complex(np.inf, np.nan)), (np.nan, 0.0, complex(np.nan, 0)), (np.nan, 1.0, complex(np.nan, np.nan))],
    "tanh": [(np.inf, 1.0, 1 + 0j), (np.inf, 2.5, 1 + 0j), (np.inf, np.inf, 1 + 0j), (np.inf, np.nan, 1 + 0j), (np.inf, -2.5, complex(1, -0.0)), (-np.inf, 2.5, complex(-1, 0.0))],
    "sign": [(np.nan, 1.0, complex(np.nan, np.nan)), (np.inf, np.nan, complex(np.nan, np.nan)), (-0.0, -0.0, 0j)], "reciprocal": [(0.0, 0.0, complex(np.inf, np.nan))],
}


def agree(ours, theirs, signs=True):
    if np.isnan(ours) or np.isnan(theirs):
        return np.isnan(ours) and np.isnan(theirs)
    return np.isclose(ours if signs else abs(ours), theirs if signs else abs(theirs), rtol=1e-5, atol=0) and (not signs or np.signbit(ours) == np.signbit(theirs))


def parts(z):
    return z.real, z.imag


@pytest.mark.parametrize("name", sorted(set(ONE) - {"angle", "conj", "exp2", "imag", "isfinite", "isinf", "isnan", "neg", "real", "rsqrt"}))
@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_infinities_and_nans(name, dtype):
    """All pairs of parts beside NumPy, whose libraries follow Annex G of C99 as the array API standard does, and beside the standard's list where NumPy does not."""
    z = np.array([complex(a, b) for a, b in PAIRS], dtype)
    with np.errstate(all="ignore"):
        theirs = (np.sign if name == "sign" else ONE[name])(z)
    ours = getattr(lm, name)(lm.constant(z)).numpy()
    for of_graph, eager in zip(parts(lm.function(getattr(lm, name))(lm.constant(z)).numpy()), parts(ours)):
        np.testing.assert_array_equal(of_graph, eager)
        assert (np.signbit(of_graph) == np.signbit(eager))[~np.isnan(eager)].all()
    for (a, b), our, their in zip(PAIRS, ours, theirs):
        signs = name not in OPEN or (OPEN[name](a) and OPEN[name](b))
        if name not in OWN or not OWN[name](a, b):
            assert agree(our.real, their.real, signs) and agree(our.imag, their.imag, signs), (name, a, b, our, their)
        mirrored = next(m for (c, d), m in zip(PAIRS, ours) if agree(c, a) and agree(d, -b))
        assert agree(mirrored.real, our.real) and agree(mirrored.imag, -our.imag, np.isfinite(a) and np.isfinite(b) and name not in ("abs", "reciprocal", "sign")), (name, a, b, our, mirrored)
    for a, b, their in STANDARD.get(name, ()):
        our = getattr(lm, name)(lm.constant(np.array(complex(a, b), dtype))).item()
        assert agree(our.real, their.real) and agree(our.imag, their.imag), (name, a, b, our, their)


LARGE = {"exp": [709.5 + 1.5j, 715 + 1.5707963j, -745 + 1j], "expm1": [39 + 1.5j, 41 + 1.5j, 1e-12 + 1e-12j], "sinh": [715 + 1.5707963j, -715 - 1.5707963j, 1e-200 + 1e-200j], "cosh": [715 + 1.5707963j, -715 - 1.5707963j],
         "tanh": [1e-160 + 1e-160j, 21.9 + 1j, 22.1 + 1j, 300 + 1e300j], "asinh": [1e300 + 1e300j, -1e160 + 1j, 1e-200 + 1e-200j, 1e149 - 1e151j], "acosh": [1e300 - 1e300j, 1 + 1e-12j], "acos": [1e300 + 1e300j, 1e160 - 1e-160j, 1 + 1e-12j],
         "asin": [-1e300 + 1e300j, 1e-200 + 1e-200j], "atan": [1e200 + 1e200j, 1e-200 + 1e-200j], "atanh": [1e200 + 1e200j, -1e300 + 1j, 1e100 - 1e100j, 1e-200 + 1e-200j, 1 - 1e-12j, 1 + 5e-324j, -1 - 1e-160j], "sqrt": [1e308 + 1e308j, 1.7e308 - 1.7e308j, -1.7e308 + 1e300j, 5e-324 + 5e-324j, -1e-320 + 1e-310j, -1e-315 - 5e-324j], "log": [1.7e308 - 1.7e308j, 5e-324 + 5e-324j, 1e-315 - 1e-312j, 1 + 1e-12j], "abs": [1e308 + 1e308j]}


@pytest.mark.parametrize("name", LARGE)
def test_nothing_overflows_on_the_way(name):
    z = np.array(LARGE[name])
    with np.errstate(all="ignore"):
        theirs = ONE[name](z)
    ours = getattr(lm, name)(lm.constant(z)).numpy()
    np.testing.assert_allclose(ours.real, theirs.real, rtol=1e-13)
    np.testing.assert_allclose(ours.imag, theirs.imag, rtol=1e-13)


SLOPES = {"acos": lambda z: -1 / np.sqrt(1 - z * z), "acosh": lambda z: 1 / (np.sqrt(z - 1) * np.sqrt(z + 1)), "asin": lambda z: 1 / np.sqrt(1 - z * z), "asinh": lambda z: 1 / np.sqrt(1 + z * z),
          "atan": lambda z: 1 / (1 + z * z), "atanh": lambda z: 1 / (1 - z * z), "cos": lambda z: -np.sin(z), "cosh": np.sinh, "exp": np.exp, "expm1": np.exp, "log": lambda z: 1 / z, "log1p": lambda z: 1 / (1 + z),
          "reciprocal": lambda z: -1 / (z * z), "sin": np.cos, "sinh": np.cosh, "sqrt": lambda z: 0.5 / np.sqrt(z), "square": lambda z: 2 * z, "tan": lambda z: 1 / np.cos(z) ** 2, "tanh": lambda z: 1 / np.cosh(z) ** 2}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_on_the_axes_are_the_formulas(name):
    """The gradient of Re f is the conjugate of f', also where a part is 0, and on a branch cut that of the side of the zero's sign."""
    z = np.array([0.5, 0.5j, -0.5j, -0.25] + ([0] if name not in ("log", "reciprocal", "sqrt") else [])) + 0j
    ours = lm.grad(lambda t: lm.sum(lm.real(getattr(lm, name)(t))))(lm.constant(z)).numpy()
    np.testing.assert_allclose(ours, SLOPES[name](z).conj(), atol=1e-12)


TWO = {"add": np.add, "div": np.divide, "equal": np.equal, "mul": np.multiply, "not_equal": np.not_equal, "pow": np.power, "sub": np.subtract}


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_two(name, dtype):
    z, w = Z.astype(dtype), np.where(np.arange(12).reshape(3, 4) % 3 == 0, Z, W).astype(dtype)
    close(getattr(lm, name)(lm.constant(z), lm.constant(w)), TWO[name](z, w), dtype)
    close(getattr(lm, name)(lm.constant(z), lm.constant(w[0])), TWO[name](z, w[0]), dtype)
    close(getattr(lm, name)(lm.constant(z), 2), TWO[name](z, dtype and np.asarray(2, dtype)), dtype)


def test_numbers_and_arrays_take_part():
    z, x = lm.constant(Z), lm.constant(Z.real)
    close(z * 2.5 - 1j + 3, Z * 2.5 - 1j + 3)
    close(1j / z, 1j / Z)
    close(z + np.ones((3, 4)), Z + 1)
    close(x * 1j, Z.real * 1j)  # a complex number makes a real tensor complex
    assert (lm.constant([1.0]) * 1j).dtype == lm.complex64 and (lm.constant(np.float64([1])) + 1j).dtype == lm.complex128 and lm.constant([1 + 2j, 3]).dtype == lm.complex64
    with pytest.raises(lm.errors.TypeMismatch, match="complex128"):
        z * x
    with pytest.raises(lm.errors.TypeMismatch):
        lm.constant([1, 2]) * 1j


def test_reductions_and_products():
    z, w = lm.constant(Z), lm.constant(W)
    for axis, keepdims in itertools.product((None, 0, -1, (0, 1)), (False, True)):
        for name in ("sum", "mean", "prod"):
            close(getattr(lm, name)(z, axis, keepdims), getattr(np, name)(Z, axis=axis, keepdims=keepdims))
        assert (lm.any(z, axis, keepdims).numpy() == np.any(Z, axis=axis, keepdims=keepdims)).all() and (lm.all(z, axis, keepdims).numpy() == np.all(Z, axis=axis, keepdims=keepdims)).all()
    close(lm.cumsum(z, 0), np.cumsum(Z, 0))
    close(lm.cumprod(z, 1), np.cumprod(Z, 1))
    close(z @ lm.transpose(w), Z @ W.T)
    close(lm.matmul(z, w, transpose_a=True), Z.T @ W)
    close(lm.einsum("ij,kj->ik", z, w), np.einsum("ij,kj->ik", Z, W))
    close(lm.tensordot(z, w, 2), np.tensordot(Z, W, 2))
    assert lm.prod(lm.zeros([0, 2], "complex64"), 0).numpy().tolist() == [1, 1] and lm.count_nonzero(lm.constant([0j, 1j, 2])).item() == 2


def test_squares_of_statistics_and_norms_are_those_of_sizes():
    for dtype in DTYPES:
        x = Z.astype(dtype)
        for z, axis, keepdims in itertools.product((lm.constant(x), lm.constant(x + 100)), (None, 0, -1, (0, 1)), (False, True)):
            for ddof in (0, 1):
                for name in ("var", "std"):
                    close(getattr(lm, name)(z, axis, keepdims, ddof), getattr(np, name)(z.numpy(), axis=axis, keepdims=keepdims, ddof=ddof), "complex64" if z.numpy()[0, 0].real > 50 else dtype)
            variance = lm.moments(z, axis, keepdims)
            close(variance[0], np.mean(z.numpy(), axis=axis, keepdims=keepdims), dtype)
            close(variance[1], np.var(z.numpy(), axis=axis, keepdims=keepdims), "complex64")
        for ord in (2, 1, 3, 0.5, 0, np.inf, -np.inf, -1):
            close(lm.norm(lm.constant(x), ord, 1), np.linalg.norm(x, ord, 1), dtype)
        close(lm.norm(lm.constant(x)), np.linalg.norm(x), dtype)
        close(lm.vdot(lm.constant(x), lm.constant(W.astype(dtype))), np.vdot(x, W.astype(dtype)), dtype)
    z = lm.constant(Z)
    for call in (lambda: lm.layer_norm(z), lambda: lm.layer_norm(z, z[0], z[0]), lambda: lm.batch_norm(z, z[0], lm.abs(z[0])), lambda: lm.batch_norm(z, z[0], z[0], z[0], z[0])):
        with pytest.raises(lm.errors.TypeMismatch, match="_norm is defined for real numbers"):
            call()


def test_moves_of_elements():
    z, w = lm.constant(Z), lm.constant(W)
    for ours, theirs in [(lm.reshape(z, (2, 6)), Z.reshape(2, 6)), (lm.transpose(z), Z.T), (z[1:, ::-2], Z[1:, ::-2]), (z[0, None], Z[0, None]), (z[:, -1], Z[:, -1]), (lm.concat([z, w], 1), np.concatenate([Z, W], 1)),
                         (lm.stack([z, w]), np.stack([Z, W])), (lm.where(z == w, z, w), W), (lm.where(lm.constant([True, False, True, False]), z, 0j), np.where([True, False, True, False], Z, 0)),
                         (lm.gather(z, lm.constant([2, 0])), Z[[2, 0]]), (z[lm.constant([0, 1]), lm.constant([3, 2])], Z[[0, 1], [3, 2]]), (lm.flip(z), Z[::-1, ::-1]), (lm.roll(z, 1, 1), np.roll(Z, 1, 1)),
                         (lm.broadcast_to(z[0], (2, 4)), np.broadcast_to(Z[0], (2, 4))), (lm.pad(z, ((1, 0), (0, 2))), np.pad(Z, ((1, 0), (0, 2)))), (lm.tril(z), np.tril(Z)), (z[lm.constant(np.abs(Z) > 1)], Z[np.abs(Z) > 1])]:
        close(ours, np.ascontiguousarray(theirs))
    close(z.at[1].set(2j), np.concatenate([Z[:1], np.full((1, 4), 2j), Z[2:]]))
    close(lm.scatter_add(z, lm.constant([0, 1, 0]), [2, 4]), np.stack([Z[0] + Z[2], Z[1]]))
    assert lm.ones([2], "complex128").numpy().tolist() == [1, 1] and lm.zeros_like(z).dtype == lm.complex128 and lm.eye(2, dtype="complex64").numpy().tolist() == [[1, 0], [0, 1]]


def test_casts():
    assert lm.astype(lm.constant([1, 2]), "complex64").numpy().tolist() == [1, 2] and lm.astype(lm.constant(Z), "complex64").dtype == lm.complex64 and lm.astype(lm.constant([0j, 1j]), "bool").numpy().tolist() == [False, True]
    with pytest.raises(lm.errors.TypeMismatch, match="lm.real"):
        lm.astype(lm.constant(Z), "float64")
    close(lm.complex(lm.constant(Z.real), lm.constant(Z.imag)), Z)
    assert lm.linspace(0, 1, 3, dtype="complex64").tolist() == [0, 0.5, 1]
    close(lm.as_complex(lm.as_real(lm.constant(Z))), Z)


def loss(z):
    y = lm.exp(z * (0.5 - 1j)) / (z + 3) + lm.sqrt(z) * lm.conj(z)
    return lm.sum(lm.square(lm.abs(y))) + lm.sum(lm.real(lm.sin(z) @ lm.transpose(z))) + lm.sum(lm.angle(z + 10))


@pytest.mark.parametrize("traced", [False, True])
def test_gradients_are_those_of_differences(traced):
    def by_parts(a, b):
        return loss(lm.complex(a, b))

    a, b = lm.constant(Z.real), lm.constant(Z.imag)
    slopes = lm.grad(by_parts, argnums=(0, 1))
    slopes = (lm.function(slopes) if traced else slopes)(a, b)
    for i, (name, part) in enumerate([("re", Z.real), ("im", Z.imag)]):
        for at in [(0, 0), (1, 2), (2, 3)]:
            step = np.zeros_like(part)
            step[at] = 1e-6
            up, down = ([Z.real + step * (i == 0), Z.imag + step * (i == 1)], [Z.real - step * (i == 0), Z.imag - step * (i == 1)])
            numeric = (by_parts(*map(lm.constant, up)).item() - by_parts(*map(lm.constant, down)).item()) / 2e-6
            assert slopes[i].numpy()[at] == pytest.approx(numeric, rel=1e-5), name
    with lm.GradientTape() as tape:  # of a complex source: dL/da + i dL/db
        z = lm.constant(Z)
        tape.watch(z)
        y = loss(z)
    np.testing.assert_allclose(tape.gradient(y, z).numpy(), slopes[0].numpy() + 1j * slopes[1].numpy(), rtol=1e-10)


def slopes_by_differences(function, z, step=1e-6):
    out = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        for way in (1, 1j):
            moved = np.zeros_like(z)
            moved[at] = way * step
            out[at] += way * (function(lm.constant(z + moved)).item() - function(lm.constant(z - moved)).item()) / (2 * step)
    return out


@lm.custom_gradient
def doubled(z):
    return z * 2, lambda dy: dy * 2


CURVED = {
    "scan": lambda z: lm.scan(lambda c, a: (c * a * z[0, 1] + c, c + a), z[1], z)[1], "fori_loop": lambda z: lm.fori_loop(0, 3, lambda i, c: c * z + 0.5j, z), "cond": lambda z: lm.cond(lm.real(z[0, 0]) > 0, lambda: z * z, lambda: z * 2),
    "one capture of two": lambda z: lm.cond(lm.real(z[0, 0]) > 0, lambda: z[0] * 1, lambda: z[1] * 2), "switch": lambda z: lm.switch(lm.constant(1), [lambda: z, lambda: z * z[1]]), "checkpoint": lambda z: lm.checkpoint(lambda c: c * c * z)(z),
    "custom_gradient": lambda z: doubled(z * z), "associative_scan": lambda z: lm.associative_scan(lambda a, b: a * b, z), "prod": lambda z: lm.prod(z, 0), "var": lambda z: lm.var(z, 0), "std": lambda z: lm.std(z, 1), "moments": lambda z: lm.moments(z, 1)[1], "norm": lambda z: lm.norm(z, axis=1), "norm 3": lambda z: lm.norm(z, 3, 1),
    "vdot": lambda z: lm.vdot(z, z * z)[None], "vecdot": lambda z: lm.vecdot(z, z * z), "cumprod": lambda z: lm.cumprod(z, 0), "gather": lambda z: lm.gather(z, lm.constant([1, 1, 0])),
    "scatter_add": lambda z: lm.scatter_add(z, lm.constant([1, 1]), [2, 2]), "at": lambda z: z.at[0].set(z[1] * 2), "pow": lambda z: z ** (1.5 + 0.5j), "square": lambda z: z**2, "sign": lm.sign, "atanh": lm.atanh, "acosh": lm.acosh, "acos": lm.acos,
    "asin": lm.asin, "atan": lm.atan, "asinh": lm.asinh, "log1p": lm.log1p, "expm1": lm.expm1, "sqrt": lm.sqrt, "tanh": lm.tanh, "div": lambda z: (z + 1) / (z * z + 2), "where": lambda z: lm.where(lm.real(z) > 0.1, z * z, z),
    "einsum": lambda z: lm.einsum("ij,jk,kl->il", z, z, z), "vmap of a loop": lambda z: lm.vmap(lambda q: lm.fori_loop(0, 3, lambda i, c: c * q + 1j, q))(z), "astype": lambda z: lm.astype(lm.complex(lm.real(z), lm.imag(z)), "complex128") * z,
    "vmap of a branch": lambda z: lm.vmap(lambda q: lm.cond(lm.real(q[0]) > 0.2, lambda: q * q, lambda: q * 2))(z),
}


@pytest.mark.parametrize("name", CURVED)
def test_gradients_of_loops_branches_and_functions(name):
    z = np.array([[1 + 2j, 3 - 1j], [0.5j, 2]]) / 3 + (name == "acosh")  # some parts are 0 (of acosh: z - 1), where roots and inverse functions are smooth too

    def cost(z):
        y = CURVED[name](z)
        return lm.sum(lm.square(lm.abs(y)) * lm.constant(np.arange(1.0, 1 + y.shape[-1]))) + lm.sum(lm.real(y) * 0.3)

    expected = slopes_by_differences(cost, z)
    for slope in (lm.grad(cost), lm.function(lm.grad(cost))):
        np.testing.assert_allclose(slope(lm.constant(z)).numpy(), expected, atol=2e-7)


def test_second_derivatives_and_targets():
    z = np.array([1 + 2j, 0.3 - 1j])
    energy = lambda z: lm.sum(lm.square(lm.abs(lm.grad(lambda q: lm.real(lm.sum(q * q * q)))(z))))  # |3 z^2|^2
    np.testing.assert_allclose(lm.grad(energy)(lm.constant(z)).numpy(), 36 * np.abs(z) ** 2 * z, rtol=1e-12)
    y, pushed = lm.jvp(lambda q: q * q, (lm.constant(z),), (lm.constant(1j * z),))
    close(y, z * z)
    close(pushed, 2j * z * z)
    close(lm.vjp(lambda q: q * (2 - 1j), lm.constant(z))[1](lm.constant(z))[0], (2 + 1j) * z)
    for call in (lambda: lm.grad(lambda z: lm.sum(z * z))(lm.constant(z)), lambda: lm.jacobian(lambda z: lm.abs(z))(lm.constant(z)), lambda: lm.jacobian(lambda x: lm.complex(x, x))(lm.constant([1.0]))):
        with pytest.raises(lm.errors.TypeMismatch):
            call()


def test_models_stop_and_branch_by_themselves():
    z = np.array([1 + 1j, 3 - 2j, 0.5j])
    grown = lm.vmap(lambda q: lm.while_loop(lambda c: lm.abs(c) < 9, lambda c: c * (1 + 1j), q))(lm.constant(z))
    for before, after in zip(z, grown.numpy()):
        while abs(before) < 9:
            before = before * (1 + 1j)
        assert after == pytest.approx(before, rel=1e-12)
    start = lm.constant(1 - 1j, "complex128")  # not of the models
    close(lm.vmap(lambda q: lm.cond(lm.abs(q) > 1, lambda: start, lambda: q))(lm.constant(z)), np.where(np.abs(z) > 1, 1 - 1j, z))


def test_isclose():
    z = lm.constant(Z)
    assert lm.allclose(z, z * (1 + 1e-9)) and not lm.allclose(z, z * (1 + 1e-3j)) and lm.isclose(lm.constant(1j), 1j).item()


def test_in_loops_branches_and_vmap():
    @lm.function
    def run(z, n):
        total = z
        for i in lm.range(n):
            total = total * (1 + 0.5j) if i % 2 == 0 else total - 1j
        return total

    expected = Z
    for i in range(4):
        expected = expected * (1 + 0.5j) if i % 2 == 0 else expected - 1j
    close(run(lm.constant(Z), lm.constant(4)), expected)
    close(lm.vmap(lambda z, w: lm.sum(z * w))(lm.constant(Z), lm.constant(W)), (Z * W).sum(1))


def test_variables_and_files(tmp_path):
    v = lm.Variable(lm.constant(Z))
    v.assign_add(lm.constant(W))
    close(v.read(), Z + W)
    lm.save_tensors(tmp_path / "t.safetensors", {"z": lm.constant(Z), "w": lm.constant(W.astype("complex64"))})
    back = lm.load_tensors(tmp_path / "t.safetensors")
    close(back["z"], Z)
    assert back["w"].dtype == lm.complex64
    close(pickle.loads(pickle.dumps(lm.constant(Z))), Z)
    module = lm.Module()
    module.call = lm.function(lambda z: lm.exp(z * 1j), input_signature=[lm.TensorSpec([None, 4], "complex128")])
    lm.save(module, tmp_path / "m")
    close(lm.load(tmp_path / "m").call(lm.constant(Z)), np.exp(Z * 1j))


def test_borders():
    z = lm.constant(Z)
    assert np.asarray(z).dtype == np.complex128 and (np.from_dlpack(z) == Z).all() and (lm.from_dlpack(Z).numpy() == Z).all()
    assert z[0, 0].item() == Z[0, 0] and complex(z[0, 0]) == Z[0, 0] and bool(z[0, 0]) and not bool(lm.constant(0j)) and complex(lm.constant(2)) == 2
    with pytest.raises(TypeError):
        float(z[0, 0])
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    close(lm.from_dlpack(torch.from_numpy(Z)), Z)


def test_text():
    assert str(lm.constant([1 + 2j, -0.5 - 1j])) == "lm.Tensor([ 1. +2.j -0.5-1.j], shape=(2,), dtype=complex64)"
    assert str(lm.constant(1 - 2j)) == "lm.Tensor(1.0-2.0j, shape=(), dtype=complex64)"


def test_without_order():
    z = lm.constant(Z)
    for call in (lambda: z < z, lambda: lm.max(z), lambda: lm.sort(z), lambda: lm.argmax(z), lambda: lm.maximum(z, z), lambda: lm.floor(z), lambda: round(z, 2), lambda: lm.relu(z), lambda: lm.softmax(z)):
        with pytest.raises(lm.errors.TypeMismatch):
            call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "complex128"])
def test_the_check_of_graphs_allows_a_tolerance_in_every_dtype(dtype):
    def off_by(share):
        return lambda x: x + lm.astype(share if lm.executing_eagerly() else 0.0, dtype)

    x = lm.astype(lm.constant([1.0, 2.0]), dtype)
    lm.testing.assert_graph_matches_eager(off_by(0.01), x, rtol=0.02)
    with pytest.raises(AssertionError, match="differs"):
        lm.testing.assert_graph_matches_eager(off_by(0.5), x, rtol=0.02)
