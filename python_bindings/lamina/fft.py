"""Discrete Fourier transforms, by KissFFT on the CPU: numpy.fft's names, norms and defaults, with gradients, in traced functions and under vmap.

float32 and complex64 give complex64, float64 and complex128 give complex128; other dtypes count as float32. Sums are taken in float64. The lengths of transformed axes must be known
while tracing. A length with small factors is fastest: n log n operations, but n^2 for a prime n.
"""
from __future__ import annotations

import math

from . import _border, _core as _c, _elsewhere, errors
from .numeric import _axis, _floating, _is_complex, _tensor

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


def _pairs(x):
    x = _tensor(x)
    if _is_complex(x):
        return _c.as_real(x)
    x = _floating(x)
    x = x if x.dtype == _c.float64 else _c.astype(x, "float32")
    return _c.stack([x, _c.zeros_like(x)], -1)


def _real(name, x):
    x = _tensor(x)
    if _is_complex(x):
        raise errors.TypeMismatch(f"{name}: the tensor is {x.dtype}", why="it transforms real numbers", fix="pass lm.real(x), or use fft")
    return x


def _length(name, n):
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise errors.InvalidArgument(f"{name}: the length {errors.shown(n)}", why="a transform has one number at least", fix="pass an int from 1 on")
    return n


def _resized(name, x, n, axis):
    """x with n numbers along an axis: cut off, or zeros added."""
    have = x.shape[axis]
    if n is None or n == have:
        return x, _length(name, have)
    _length(name, n)
    if n < have:
        return x[(slice(None),) * axis + (slice(0, n),)], n
    shape = [n - have if i == axis else d for i, d in enumerate(x.shape)]
    return _c.concat([x, _c.zeros(shape, x.dtype)], axis), n


def _scale(name, norm, n, inverse):
    if norm not in ("backward", "ortho", "forward"):
        raise errors.InvalidArgument(f"{name}: there is no norm {errors.shown(norm)}", why='there are "backward", "ortho" and "forward"', fix='pass "backward"')
    return 1 / math.sqrt(n) if norm == "ortho" else 1 / n if (norm == "backward") == inverse else 1.0


def _transformed(name, x, n, axis, norm, inverse):
    """Pairs of pairs."""
    x, n = _resized(name, x, n, axis)
    scale = _scale(name, norm, n, inverse)
    y = _c.moveaxis(_c.linalg.fft(_c.moveaxis(x, axis, -2), inverse), -2, axis)
    return y if scale == 1 else y * scale


def _one(name, x, n, axis, norm, inverse):
    x = _tensor(x)
    axis = _axis(name, x, axis)[0]
    return _c.as_complex(_transformed(name, _pairs(x), n, axis, norm, inverse))


def fft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """The transform of x along an axis: y[k] = sum of x[j] exp(-2 pi i j k / n). n: x is cut or filled up with zeros to this length. norm: what divides, "backward" nothing,
    "ortho" sqrt(n), "forward" n."""
    return _one("fft", x, n, axis, norm, False)


def ifft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """The inverse of fft with the same norm: "backward" divides by n, "ortho" by sqrt(n), "forward" by nothing."""
    return _one("ifft", x, n, axis, norm, True)


def rfft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """fft of real numbers: the first n // 2 + 1 results, of which the others are conjugates."""
    x = _real("rfft", x)
    axis, have = _axis("rfft", x, axis)
    y = _transformed("rfft", _pairs(x), n, axis, norm, False)
    return _c.as_complex(y[(slice(None),) * axis + (slice(0, (have if n is None else n) // 2 + 1),)])


def irfft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """The inverse of rfft: n real numbers, by default 2 (m - 1) from m. The imaginary part of x[0], and of x[n / 2] where n is even, counts as 0."""
    x = _tensor(x)
    axis, have = _axis("irfft", x, axis)
    n = _length("irfft", 2 * (have - 1) if n is None else n)
    half = _resized("irfft", _pairs(x), n // 2 + 1, axis)[0]
    before = (slice(None),) * axis
    rest = _c.flip(half[(*before, slice(1, (n + 1) // 2))], axis)
    if rest.shape[axis]:
        half = _c.concat([half, _c.as_real(_c.conj(_c.as_complex(rest)))], axis)
    return _transformed("irfft", half, None, axis, norm, True)[..., 0]


_OTHER = {"backward": "forward", "forward": "backward"}


def hfft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """fft of numbers whose second half are conjugates of the first half x: n real numbers, by default 2 (m - 1) from m."""
    return irfft(_c.conj(x), n, axis, _OTHER.get(norm, norm))


def ihfft(x, n: int | None = None, axis: int = -1, norm: str = "backward"):
    """The inverse of hfft: the first n // 2 + 1 results."""
    return _c.conj(rfft(_real("ihfft", x), n, axis, _OTHER.get(norm, norm)))


def _several(name, x, s, axes, least=0):
    """Axes, counted from the front, and lengths."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [_axis(name, x, a)[0] for a in axes]
    if len(axes) < least:
        raise errors.InvalidArgument(f"{name}: no axes", why="the last axis has the real numbers, or half of the frequencies", fix="pass one axis or more, or leave axes out")
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes):
        raise errors.InvalidArgument(f"{name}: {len(lengths)} lengths for {len(axes)} axes", why="each axis has one", fix="pass as many in s as in axes")
    return axes, lengths


def fftn(x, s=None, axes=None, norm: str = "backward"):
    """fft along several axes, by default all; s: a length for each."""
    return _all("fftn", x, s, axes, norm, False)


def ifftn(x, s=None, axes=None, norm: str = "backward"):
    """The inverse of fftn."""
    return _all("ifftn", x, s, axes, norm, True)


def _all(name, x, s, axes, norm, inverse):
    x = _tensor(x)
    pairs = _pairs(x)
    for axis, n in reversed(list(zip(*_several(name, x, s, axes)))):
        pairs = _transformed(name, pairs, n, axis, norm, inverse)
    return _c.as_complex(pairs)


def rfftn(x, s=None, axes=None, norm: str = "backward"):
    """fftn of real numbers: rfft along the last of the axes."""
    x = _real("rfftn", x)
    axes, lengths = _several("rfftn", x, s, axes, 1)
    return fftn(rfft(x, lengths[-1], axes[-1], norm), None if s is None else lengths[:-1], axes[:-1], norm)


def irfftn(x, s=None, axes=None, norm: str = "backward"):
    """The inverse of rfftn."""
    x = _tensor(x)
    axes, lengths = _several("irfftn", x, s, axes, 1)
    return irfft(ifftn(x, None if s is None else lengths[:-1], axes[:-1], norm), lengths[-1], axes[-1], norm)


def fft2(x, s=None, axes=(-2, -1), norm: str = "backward"):
    """fftn along two axes, by default the last ones."""
    return fftn(x, s, axes, norm)


def ifft2(x, s=None, axes=(-2, -1), norm: str = "backward"):
    """The inverse of fft2."""
    return ifftn(x, s, axes, norm)


def rfft2(x, s=None, axes=(-2, -1), norm: str = "backward"):
    """fft2 of real numbers: rfft along the last of the axes."""
    return rfftn(x, s, axes, norm)


def irfft2(x, s=None, axes=(-2, -1), norm: str = "backward"):
    """The inverse of rfft2."""
    return irfftn(x, s, axes, norm)


def fftfreq(n: int, d: float = 1.0, dtype=None):
    """The frequency of each of fft's n results, in cycles per unit of the spacing d: 0, 1, ..., -2, -1, divided by n d. float32 unless a dtype is given."""
    _length("fftfreq", n)
    first = (n - 1) // 2 + 1
    places = _c.concat([_c.arange(0, first, 1, "float64"), _c.arange(-(n // 2), 0, 1, "float64")])
    return _c.astype(places / (n * d), "float32" if dtype is None else dtype)


def rfftfreq(n: int, d: float = 1.0, dtype=None):
    """The frequency of each of rfft's n // 2 + 1 results, in cycles per unit of the spacing d. float32 unless a dtype is given."""
    _length("rfftfreq", n)
    return _c.astype(_c.arange(0, n // 2 + 1, 1, "float64") / (n * d), "float32" if dtype is None else dtype)


def _shifted(name, x, axes, way):
    x = _tensor(x)
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    for a in axes:
        axis, n = _axis(name, x, a)
        x = _c.roll(x, way(n), axis)
    return x


def fftshift(x, axes=None):
    """x with frequency 0 in the middle of the axes, by default of all."""
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x, axes=None):
    """The inverse of fftshift."""
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.fft", __all__)
_border.guard(globals())
