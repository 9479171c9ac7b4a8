"""The array API's linear algebra over lm.linalg: its names, keywords and results with names. Arrays are floating or complex, of products any number."""
from __future__ import annotations

import collections

from .. import _border, linalg as _l
from ._arrays import _numbers, matmul as matmul, matrix_transpose as matrix_transpose, sum as _sum, tensordot as tensordot, vecdot as vecdot
from ._dtypes import array, promoted

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]

EighResult = collections.namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
QRResult = collections.namedtuple("QRResult", ["Q", "R"])
SlogdetResult = collections.namedtuple("SlogdetResult", ["sign", "logabsdet"])
SVDResult = collections.namedtuple("SVDResult", ["U", "S", "Vh"])


def _floating(name, x):
    return _numbers(name, x, (2, 3))


def cholesky(x, /, *, upper=False):
    """The lower triangle l with l l^T = x, or the upper one."""
    return _l.cholesky(_floating("cholesky", x), upper=upper)


def cross(x1, x2, /, *, axis=-1):
    """The vector product of vectors of length 3 along an axis."""
    x1, x2 = promoted("cross", x1, x2)
    return _l.cross(_numbers("cross", x1, (1, 2, 3)), x2, axis)


def det(x, /):
    """The determinants."""
    return _l.det(_floating("det", x))


def diagonal(x, /, *, offset=0):
    """The diagonals of the last two axes."""
    return _l.diagonal(array("diagonal", x), offset)


def eigh(x, /):
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices."""
    return EighResult(*_l.eigh(_floating("eigh", x)))


def eigvalsh(x, /):
    """The ascending eigenvalues of symmetric matrices."""
    return _l.eigvalsh(_floating("eigvalsh", x))


def inv(x, /):
    """The inverses."""
    return _l.inv(_floating("inv", x))


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norms of matrices."""
    return _l.matrix_norm(_floating("matrix_norm", x), ord, keepdims)


def matrix_power(x, n, /):
    """Matrices multiplied n times by themselves."""
    return _l.matrix_power(_floating("matrix_power", x), n)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are larger than rtol times the largest one."""
    return _l.matrix_rank(_numbers("matrix_rank", x, (1, 2, 3)), rtol)


def outer(x1, x2, /):
    """Every element of a vector times every one of another."""
    x1, x2 = promoted("outer", x1, x2)
    return _l.outer(_numbers("outer", x1, (1, 2, 3)), x2)


def pinv(x, /, *, rtol=None):
    """The inverses of Moore and Penrose."""
    return _l.pinv(_floating("pinv", x), rtol)


def qr(x, /, *, mode="reduced"):
    """Orthonormal columns and upper triangles whose product is x."""
    return QRResult(*_l.qr(_floating("qr", x), mode))


def slogdet(x, /):
    """The determinants' signs, and the logs of their sizes."""
    return SlogdetResult(*_l.slogdet(_floating("slogdet", x)))


def solve(x1, x2, /):
    """The solutions of x1 x = x2."""
    x1, x2 = promoted("solve", x1, x2)
    return _l.solve(_floating("solve", x1), x2)


def svd(x, /, *, full_matrices=True):
    """U, S and Vh with U diag(S) Vh = x."""
    return SVDResult(*_l.svd(_floating("svd", x), full_matrices))


def svdvals(x, /):
    """The singular values, descending."""
    return _l.svdvals(_floating("svdvals", x))


def trace(x, /, *, offset=0, dtype=None):
    """The sums of diagonals of the last two axes."""
    return _sum(_l.diagonal(_numbers("trace", x, (1, 2, 3)), offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norms of vectors along axes, by default of all elements."""
    return _l.vector_norm(_floating("vector_norm", x), ord, axis, keepdims)


_border.guard(globals())
