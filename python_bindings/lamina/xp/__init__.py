"""The array API standard 2024.12 over Lamina's tensors: its names, keywords and promotion; sums of narrow integers are int64 or uint64.

Arrays are lm.Tensor. x.__array_namespace__() gives this module, so that functions of SciPy and scikit-learn that accept such arrays run on tensors. The default dtypes are float32,
complex64 and int64. Tensors are immutable, and their operators stay strict: x + y of two dtypes is refused, lm.xp.add(x, y) promotes.
"""
from __future__ import annotations

import math as _math

from .. import _border, _core as _c, errors as _errors
from . import fft as fft, linalg as linalg
from ._arrays import *  # noqa: F403
from ._arrays import __all__ as _arrays
from ._dtypes import (
    COMPLEX, DEFAULT_FLOATING, DEFAULT_INTEGER, FLOATING, INTEGER, SIGNED, UNSIGNED, asarray as asarray, astype as astype, can_cast as can_cast, finfo as finfo, iinfo as iinfo, isdtype as isdtype,
    result_type as result_type,
)
from ._elementwise import *  # noqa: F403
from ._elementwise import __all__ as _elementwise

__array_api_version__ = "2024.12"
e, inf, nan, pi, newaxis = _math.e, _math.inf, _math.nan, _math.pi, None
bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128 = _c.bool, *SIGNED, *UNSIGNED, *FLOATING, *COMPLEX
_DTYPES = {"bool": bool, **{d.name: d for d in (*INTEGER, *FLOATING, *COMPLEX)}}


def _of_version(version):
    if version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise _errors.InvalidArgument(f"__array_namespace__: there is no version {_errors.shown(version)}", why="this is version 2024.12 of the standard", fix='pass "2024.12", or nothing')
    import sys

    return sys.modules[__name__]


class __array_namespace_info__:
    """What this namespace supports."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return "cpu:0"

    def default_dtypes(self, *, device=None):
        return {"real floating": DEFAULT_FLOATING, "complex floating": complex64, "integral": DEFAULT_INTEGER, "indexing": int64}

    def devices(self):
        return ["cpu:0"]

    def dtypes(self, *, device=None, kind=None):
        return dict(_DTYPES) if kind is None else {name: d for name, d in _DTYPES.items() if isdtype(d, kind)}


_border.guard(globals())
__all__ = sorted([
    *_arrays, *_elementwise, *_DTYPES, "__array_api_version__", "__array_namespace_info__", "asarray", "astype", "can_cast", "e", "fft", "finfo", "iinfo", "inf", "isdtype", "linalg", "nan", "newaxis", "pi", "result_type",
])
