"""Linear algebra: of matrices in the last two axes, where leading axes are many of them; eager, traced, under vmap, with gradients to any order.

Matrices are float32, float64, complex64 or complex128, the complex ones without gradients of factors and solutions; integers count as float32, half types are refused. Of complex
matrices, symmetric means Hermitian, and a transpose in a product of factors is conjugate. The factors come from LAPACK, on the CPU. Values agree with numpy.linalg's, whose definitions these are.
Raises InvalidArgument for a matrix that is not square, singular, or not positive definite, with its number among the leading axes, and DeviceUnavailable where there is no LAPACK.
"""
from __future__ import annotations

import math

from . import _border, _core as _c, _elsewhere, errors
from .numeric import _is_complex, _tensor, cross as cross, matrix_transpose as matrix_transpose, trace as _trace, vecdot as vecdot

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "triangular_solve", "vecdot", "vector_norm",
]

matmul, tensordot = _c.matmul, _c.tensordot


def _matrix(name, x, square=False):
    """x as a tensor of matrices; integers as float32."""
    x = _floating(name, x)
    if x.ndim < 2:
        raise errors.InvalidArgument(f"{name}: {_type(x)} is not a matrix", why="a matrix is the last two axes, leading axes are many of them", fix="reshape it to two axes or more")
    if square and None not in x.shape[-2:] and x.shape[-1] != x.shape[-2]:
        raise errors.InvalidArgument(f"{name}: {_type(x)} is not square", why=f"it has {x.shape[-2]} rows and {x.shape[-1]} columns", fix="pass as many rows as columns")
    return x


def _floating(name, x):
    x = _tensor(x)
    if x.dtype in (_c.float16, _c.bfloat16):
        raise errors.TypeMismatch(f"{name}: {_type(x)} is of a half type", why="factors of matrices lose most of its digits", fix="convert it: .astype('float32')")
    return x if x.dtype.is_floating or _is_complex(x) else _c.astype(x, "float32")


def _adjoint(x):
    return matrix_transpose(_c.conj(x))


def _type(x):
    return f"{x.dtype.name}{list(x.shape)}"


def _identity_like(x):
    """The identity, of x's matrices."""
    n = x.shape[-1]
    if n is None:
        places = _c.cumsum(_c.ones_like(x[..., 0, :]), -1)
        return _c.astype(_c.equal(_c.expand_dims(places, -1), _c.expand_dims(places, -2)), x.dtype)
    return _c.broadcast_to(_c.eye(n, dtype=x.dtype), x.shape) if None not in x.shape else _c.zeros_like(x) + _c.eye(n, dtype=x.dtype)


# --- factors ---

def cholesky(a, *, upper: bool = False):
    """The lower triangle l [..., n, n] with l l^T = a for symmetric positive definite a [..., n, n]; upper: u = l^T with u^T u = a. Only the lower triangle of a is read; its
    gradient is that of a function of (a + a^T) / 2. Raises InvalidArgument where a is not positive definite."""
    lower = _c.linalg.cholesky(_matrix("cholesky", a))
    return _adjoint(lower) if upper else lower


def qr(a, mode: str = "reduced"):
    """(q, r) of a [..., m, n]: q [..., m, k] has orthonormal columns, r [..., k, n] is an upper triangle, q r = a, k = min(m, n). mode="complete": k = m; without a gradient when m > n. mode="r":
    r alone. The gradient needs the first k columns of a to be independent."""
    if mode not in ("reduced", "complete", "r"):
        raise errors.InvalidArgument(f"qr: {errors.shown(mode)} is no mode", why="there are reduced, complete and r", fix='pass "reduced"')
    q, r = _c.linalg.qr(_matrix("qr", a), mode == "complete")
    return r if mode == "r" else (q, r)


def eigh(a):
    """(w, v) of symmetric a [..., n, n]: ascending eigenvalues w [..., n], and orthonormal eigenvectors in the columns of v [..., n, n]: a v = v diag(w). Only the lower triangle of a is read;
    its gradient is that of a function of (a + a^T) / 2. Eigenvectors of equal eigenvalues are not determined, and their gradients leave out how they turn into each other."""
    return _c.linalg.eigh(_matrix("eigh", a))


def eigvalsh(a):
    """The ascending eigenvalues [..., n] of symmetric a [..., n, n]; see eigh."""
    return eigh(a)[0]


def svd(a, full_matrices: bool = True, compute_uv: bool = True):
    """(u, s, vt) of a [..., m, n] with u diag(s) vt = a: u [..., m, m] and vt [..., n, n] are orthogonal, s [..., k] >= 0 descends, k = min(m, n). full_matrices=False: u [..., m, k] and vt [..., k, n],
    which have gradients when m != n. compute_uv=False: s alone."""
    u, s, vt = _c.linalg.svd(_matrix("svd", a), full_matrices and compute_uv)
    return (u, s, vt) if compute_uv else s


def svdvals(a):
    """The singular values [..., min(m, n)] of a [..., m, n], descending."""
    return svd(a, compute_uv=False)


# --- solutions ---

def solve(a, b):
    """x with a x = b, of a [..., n, n] and b [..., n, k] or a vector b [n]; leading axes broadcast. Raises InvalidArgument where a is singular."""
    return _c.linalg.solve(_matrix("solve", a), _floating("solve", b))


def triangular_solve(a, b, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False):
    """x with a x = b, or a^T x = b with transpose, where a [..., n, n] is a lower or upper triangle whose other triangle is not read; b [..., n, k] or a vector b [n]; leading axes broadcast.
    unit_diagonal: a's diagonal counts as 1. Raises InvalidArgument for a 0 in the diagonal."""
    return _c.linalg.triangular_solve(_matrix("triangular_solve", a), _floating("triangular_solve", b), lower, transpose, unit_diagonal)


def inv(a):
    """The inverse of a [..., n, n]. solve(a, b) is faster than inv(a) @ b, and closer. Raises InvalidArgument where a is singular."""
    a = _matrix("inv", a, square=True)
    return _c.linalg.solve(a, _identity_like(a))


def slogdet(a):
    """(sign, log) of a [..., n, n]: its determinant is sign * exp(log). sign 0 and log -infinity where a is singular, which has no gradient."""
    return _c.linalg.slogdet(_matrix("slogdet", a))


def det(a):
    """The determinant [...] of a [..., n, n]; its gradient needs a to be regular."""
    sign, log = slogdet(a)
    return sign * _c.astype(_c.exp(log), sign.dtype)


def lstsq(a, b, rcond: float | None = None):
    """x of the smallest size with the least |a x - b|, of a [..., m, n] and b [..., m, k] or a vector b [m]: pinv(a, rcond) @ b."""
    inverse, b = pinv(a, rcond), _floating("lstsq", b)
    return _c.matmul(inverse, b)


def pinv(a, rcond=None):
    """The inverse of Moore and Penrose [..., n, m] of a [..., m, n]. Singular values up to rcond times the largest one count as 0: a number, or one for each matrix [...]; by default
    max(m, n) times the dtype's epsilon."""
    a = _matrix("pinv", a)
    if 0 in a.shape:
        return _adjoint(a)
    u, s, vt = svd(a, full_matrices=False)
    kept = s > _limit(a, s, rcond)
    inverse = _c.where(kept, 1 / _c.where(kept, s, 1.0), 0.0)
    return _c.matmul(_adjoint(vt), _c.astype(_c.expand_dims(inverse, -1), u.dtype) * _adjoint(u))


def matrix_rank(a, rtol=None):
    """How many singular values of a [..., m, n] are larger than rtol times the largest one: int64 [...]. rtol is a number, or one for each matrix [...]; by default max(m, n) times the
    dtype's epsilon."""
    a = _matrix("matrix_rank", a)
    s = svdvals(a)
    if 0 in a.shape[-2:]:
        return _c.zeros(a.shape[:-2], "int64")
    return _c.sum(_c.astype(s > _limit(a, s, rtol), "int64"), -1)


def _limit(a, s, share):
    if share is None:
        share = max(a.shape[-2:]) * (2.0**-52 if s.dtype == _c.float64 else 2.0**-23)
    elif not isinstance(share, (int, float)):
        share = _c.expand_dims(_c.astype(_tensor(share), s.dtype), -1)
    return _c.max(s, -1, True) * share


def cond(a, p=None):
    """The condition number [...] of a [..., m, n]: its largest singular value by its smallest; with p ("fro", 1, -1, 2, -2, inf, -inf), norm(a, p) norm(inv(a), p)."""
    a = _matrix("cond", a)
    if p in (None, 2, -2):
        s = svdvals(a)
        above, below = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        none = _c.equal(below, 0)
        return _c.where(none, math.inf, above / _c.where(none, 1.0, below))
    return matrix_norm(a, p) * matrix_norm(inv(a), p)


# --- norms ---

def norm(x, ord=None, axis=None, keepdims: bool = False):
    """A vector's or matrix's norm, as numpy.linalg.norm: without ord, the square root of the sum of squares of all elements, or along axis. An axis (or a vector) takes vector_norm's orders,
    two axes (or a matrix) matrix_norm's."""
    x = _floating("norm", x)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axis = tuple(range(x.ndim)) if axis is None else axis
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        return vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise errors.InvalidArgument(f"norm: {len(axes)} axes with the order {errors.shown(ord)}", why="a vector has one axis, a matrix two", fix="pass axis")
    first, second = (a % x.ndim if -x.ndim <= a < x.ndim else _no_axis(a, x) for a in axes)
    if first == second:
        raise errors.InvalidArgument(f"norm: axis {axes[0]} twice", why="a matrix has rows and columns", fix="pass two axes")
    found = matrix_norm(_c.moveaxis(x, (first, second), (-2, -1)), "fro" if ord is None else ord)
    return found if not keepdims else _c.reshape(found, [1 if i in (first, second) else -1 if d is None else d for i, d in enumerate(x.shape)])


def _no_axis(axis, x):
    raise errors.InvalidArgument(f"norm: axis {axis} is out of range for {_type(x)}", why="axes count from 0, or from -1 at the end", fix=f"pass axes from {-x.ndim} to {x.ndim - 1}")


def _largest(sizes, axis, keepdims=False):
    """The largest of numbers from 0 on; of none it is 0."""
    axes = range(sizes.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return (_c.sum if any(sizes.shape[a] == 0 for a in axes) else _c.max)(sizes, axis, keepdims)


def vector_norm(x, ord=2, axis=None, keepdims: bool = False):
    """(sum of |x|^ord)^(1/ord) along axis, by default of all elements: ord=inf the largest size, -inf the smallest, 0 the number of elements that are not 0."""
    x = _floating("vector_norm", x)
    size = _c.abs(x)
    if ord == math.inf:
        return _largest(size, axis, keepdims)
    if ord == -math.inf:
        return _c.min(size, axis, keepdims)
    if isinstance(ord, str) or not isinstance(ord, (int, float)) or math.isnan(ord):
        raise errors.InvalidArgument(f"vector_norm: {errors.shown(ord)} is no order", why="it is the power of the elements", fix="pass 1, 2 or float('inf')")
    if ord == 0:
        return _c.sum(_c.astype(_c.not_equal(x, 0), size.dtype), axis, keepdims)
    if ord == 1:
        return _c.sum(size, axis, keepdims)
    total = _c.sum(_c.square(size if _is_complex(x) else x) if ord == 2 else size**float(ord), axis, keepdims)
    none = _c.equal(total, 0)  # the slope of the root is infinite there: 0 is one of the norm's own
    if ord != 2:
        return _c.where(none, 0.0 if ord > 0 else math.inf, _c.where(none, 1.0, total) ** (1.0 / ord))
    return _c.where(none, 0.0, _c.sqrt(_c.where(none, 1.0, total)))


def matrix_norm(x, ord="fro", keepdims: bool = False):
    """A norm [...] of x [..., m, n]: "fro" the root of the sum of squares, "nuc" the sum of singular values, 2 and -2 the largest and smallest of them, 1 and -1 the largest and smallest sum of sizes
    of a column, inf and -inf of a row."""
    x = _matrix("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, 2, (-2, -1), keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(x)
        found = _c.sum(s, -1) if ord == "nuc" else _largest(s, -1) if ord == 2 else _c.min(s, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = _c.sum(_c.abs(x), -2 if abs(ord) == 1 else -1)
        found = _largest(sums, -1) if ord > 0 else _c.min(sums, -1)
    else:
        raise errors.InvalidArgument(f"matrix_norm: {errors.shown(ord)} is no order", why='there are "fro", "nuc", 1, -1, 2, -2, inf and -inf', fix='pass "fro"')
    return _c.expand_dims(_c.expand_dims(found, -1), -1) if keepdims else found


# --- products ---

def matrix_power(a, n: int):
    """a [..., m, m] multiplied n times by itself, by squaring; n = 0 gives the identity, a negative n powers of the inverse."""
    a = _matrix("matrix_power", a, square=True)
    if isinstance(n, bool) or not isinstance(n, int):
        raise errors.TypeMismatch(f"matrix_power: n is {errors.a_type(n)}", why="it is how often a is multiplied", fix="pass an int")
    if n == 0:
        return _identity_like(a)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else _c.matmul(result, a)
        n >>= 1
        if n:
            a = _c.matmul(a, a)
    return result


def outer(a, b):
    """Every element of vector a [m] times every one of vector b [n]: [m, n]. Tensors with more axes count as vectors of all their elements."""
    a, b = (_c.reshape(_tensor(x), (-1,)) for x in (a, b))
    return _c.expand_dims(a, 1) * _c.expand_dims(b, 0)


def multi_dot(arrays):
    """The product of two or more matrices, in the order of multiplications that needs the fewest. The first and the last may be vectors."""
    arrays = [_tensor(x) for x in arrays]
    if len(arrays) < 2:
        raise errors.InvalidArgument(f"multi_dot: {len(arrays)} matrices", why="a product is that of two or more", fix="pass a list of matrices")
    for i, x in enumerate(arrays):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, len(arrays) - 1)):
            raise errors.InvalidArgument(f"multi_dot: argument {i} is {_type(x)}", why="all are matrices; the first and the last may be vectors", fix="use matmul for many matrices at once")
    row, column = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if row:
        arrays[0] = _c.expand_dims(arrays[0], 0)
    if column:
        arrays[-1] = _c.expand_dims(arrays[-1], 1)
    lengths = [x.shape[0] or 1 for x in arrays] + [arrays[-1].shape[1] or 1]
    n = len(arrays)
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            cost[i, j], cut[i, j] = min((cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k) for k in range(i, j))
    out = _product(arrays, cut, 0, n - 1)
    out = _c.squeeze(out, 0) if row else out
    return _c.squeeze(out, -1) if column else out


def _product(arrays, cut, i, j):
    return arrays[i] if i == j else _c.matmul(_product(arrays, cut, i, cut[i, j]), _product(arrays, cut, cut[i, j] + 1, j))


def diagonal(x, offset: int = 0):
    """The diagonal [..., k] of x [..., m, n]; offset > 0: of one above."""
    return _c.diagonal(x, offset, -2, -1)


def trace(x, offset: int = 0):
    """The sum [...] of a diagonal of x [..., m, n]."""
    return _trace(x, offset, -2, -1)


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.linalg", __all__)
_border.guard(globals())
