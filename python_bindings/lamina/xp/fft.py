"""The array API's Fourier transforms over lm.fft: its names and keywords. Arrays are real or complex and floating."""
from __future__ import annotations

from .. import _border, fft as _f
from ._arrays import _numbers
from ._dtypes import array, on

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]


def _along_one(name, kinds, doc):
    op = getattr(_f, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return op(_numbers(name, x, kinds), n, axis, norm)
    return _named(function, name, doc)


def _along_several(name, kinds, doc):
    op = getattr(_f, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        return op(_numbers(name, x, kinds), s, axes, norm)
    return _named(function, name, doc)


def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


fft = _along_one("fft", (2, 3), "The discrete Fourier transform along an axis.")
ifft = _along_one("ifft", (2, 3), "The inverse of fft.")
rfft = _along_one("rfft", (2,), "fft of real numbers: the first n // 2 + 1 results.")
irfft = _along_one("irfft", (2, 3), "The inverse of rfft: n real numbers.")
hfft = _along_one("hfft", (2, 3), "fft of numbers whose second half are conjugates of the first: n real numbers.")
ihfft = _along_one("ihfft", (2,), "The inverse of hfft.")
fftn = _along_several("fftn", (2, 3), "fft along several axes, by default all.")
ifftn = _along_several("ifftn", (2, 3), "The inverse of fftn.")
rfftn = _along_several("rfftn", (2,), "fftn of real numbers: rfft along the last of the axes.")
irfftn = _along_several("irfftn", (2, 3), "The inverse of rfftn: real numbers.")


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of fft's n results in cycles per unit of the spacing d."""
    return on(_f.fftfreq(n, d, dtype), device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of rfft's results in cycles per unit of the spacing d."""
    return on(_f.rfftfreq(n, d, dtype), device)


def fftshift(x, /, *, axes=None):
    """x with frequency 0 in the middle of the axes."""
    return _f.fftshift(array("fftshift", x), axes)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    return _f.ifftshift(array("ifftshift", x), axes)


_border.guard(globals())
