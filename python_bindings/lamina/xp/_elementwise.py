"""The elementwise functions of the array API, with its promotion, over the ops of lm."""
from __future__ import annotations

import builtins

from .. import _border, _core as _c, errors, numeric as _n
from ._dtypes import array, check_scalar, iinfo, is_scalar, kind, promoted


def _floor_divide(a, b):
    """The quotient rounded down. Of infinities it is the quotient itself, and a finite number over an infinity is a zero, as the standard has it; // gives NaN and -1, as NumPy."""
    whole = _c.floor_divide(a, b)
    return whole if kind(a.dtype) == 1 else _c.where(_c.logical_or(_c.isinf(a), _c.isinf(b)), _c.div(a, b), whole)


_UNARY = {name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log10", "log2", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh")}
_NUMERIC = {"abs": "abs", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "negative": "neg", "sign": "sign", "square": "square"}
_REAL = {"ceil": "ceil", "floor": "floor", "trunc": "trunc"}
_BINARY = {"add": ("add", (1, 2, 3)), "atan2": ("atan2", (2,)), "bitwise_and": ("bitwise_and", (0, 1)), "bitwise_left_shift": ("shift_left", (1,)), "bitwise_or": ("bitwise_or", (0, 1)),
           "bitwise_right_shift": ("shift_right", (1,)), "bitwise_xor": ("bitwise_xor", (0, 1)), "divide": ("div", (2, 3)), "equal": ("equal", (0, 1, 2, 3)), "floor_divide": (_floor_divide, (1, 2)),
           "greater": ("greater", (1, 2)), "greater_equal": ("greater_equal", (1, 2)), "less": ("less", (1, 2)), "less_equal": ("less_equal", (1, 2)), "logaddexp": ("logaddexp", (2,)),
           "logical_and": ("logical_and", (0,)), "logical_or": ("logical_or", (0,)), "logical_xor": ("logical_xor", (0,)), "maximum": ("maximum", (1, 2)), "minimum": ("minimum", (1, 2)),
           "multiply": ("mul", (1, 2, 3)), "not_equal": ("not_equal", (0, 1, 2, 3)), "pow": ("pow", (1, 2, 3)), "remainder": ("mod", (1, 2)), "subtract": ("sub", (1, 2, 3)),
           "copysign": (_n.copysign, (2,)), "hypot": (_n.hypot, (2,)), "nextafter": (_n.nextafter, (2,))}
_NAMES = ("bool", "integer", "floating", "complex")


def _require(name, x, kinds):
    if kind(x.dtype) not in kinds:
        raise errors.TypeMismatch(f"{name}: the array is {x.dtype.name}", why=f"the array API defines it for {' and '.join(_NAMES[k] for k in kinds)} arrays", fix="convert it: lm.xp.astype(x, lm.xp.float32)")
    return x


def _unary(name, op, kinds):
    def function(x, /):
        return op(_require(name, array(name, x), kinds))
    return function


def _binary(name, op, kinds):
    def function(x1, x2, /):
        x1, x2 = promoted(name, x1, x2)
        return op(_require(name, x1, kinds), x2)
    return function


def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    signature, _, text = doc.partition("\n\n")
    text = (text if ") -> lamina._core" in signature else doc).partition("\n\nElementwise: ")[0]  # nanobind puts the signature in front; other rules for dtypes hold here
    function.__doc__ = f"{text}\n\nElementwise: arrays are promoted to one dtype and broadcast. TypeMismatch for dtypes that the standard leaves out, InvalidArgument for shapes that do not broadcast."
    return function


def _op(op):
    return getattr(_c, op) if isinstance(op, str) else op


__all__ = []
for _table, _kinds in ((_UNARY, (2, 3)), (_NUMERIC, (1, 2, 3)), (_REAL, (1, 2))):
    for _name, _o in _table.items():
        globals()[_name] = _named(_unary(_name, _op(_o), _kinds), _name, _op(_o).__doc__)
        __all__.append(_name)
for _name, (_o, _kinds) in _BINARY.items():
    globals()[_name] = _named(_binary(_name, _op(_o), _kinds), _name, _op(_o).__doc__)
    __all__.append(_name)
signbit = _named(_unary("signbit", _n.signbit, (2,)), "signbit", _n.signbit.__doc__)
logical_not = _named(_unary("logical_not", _c.logical_not, (0,)), "logical_not", "Not, of bools.")
bitwise_invert = _named(_unary("bitwise_invert", _c.bitwise_not, (0, 1)), "bitwise_invert", "The bits that x has not; of bools, the other one.")
positive = _named(_unary("positive", lambda x: x, (1, 2, 3)), "positive", "x itself.")
conj = _named(_unary("conj", _c.conj, (1, 2, 3)), "conj", _c.conj.__doc__)
real = _named(_unary("real", _n.real, (1, 2, 3)), "real", _n.real.__doc__)
imag = _named(_unary("imag", _n.imag, (3,)), "imag", _n.imag.__doc__)


def _rounded(x):
    return _n.complex(_c.round(_n.real(x)), _c.round(_n.imag(x))) if kind(x.dtype) == 3 else _c.round(x)


round = _named(_unary("round", _rounded, (1, 2, 3)), "round", "The nearest whole number, the even one of two; of complex numbers, of both parts.")


def clip(x, /, min=None, max=None):
    """x, but at least min and at most max, which broadcast; None is no bound. The dtype is x's."""
    x = _require("clip", array("clip", x), (1, 2))
    for bound, limit in ((min, _c.maximum), (max, _c.minimum)):
        if bound is not None:
            x = limit(x, _within(x.dtype, bound))
    return x


def _within(dtype, bound):
    """A bound in a dtype: of integers, the nearest one that the dtype has."""
    if kind(dtype) != 1 or not is_scalar(bound) and kind(array("clip", bound).dtype) != 1:
        return _c.astype(promoted("clip", _c.zeros([], dtype), bound)[1], dtype)
    limits = iinfo(dtype)
    if is_scalar(bound):
        check_scalar(bound, dtype)
        return _c.constant(builtins.min(builtins.max(bound, limits.min), limits.max), dtype)
    value = promoted("clip", _c.zeros([], dtype), bound)[1]
    return _c.astype(value if value.dtype == dtype else _c.clip(value, limits.min, limits.max), dtype)


def where(condition, x1, x2, /):
    """x1 where the bool condition holds, else x2; all broadcast."""
    if is_scalar(x1) and is_scalar(x2):
        raise errors.TypeMismatch("where: both are numbers", why="an array decides the dtype", fix="make an array of one: lm.xp.asarray(x1)")
    x1, x2 = promoted("where", x1, x2)
    return _c.where(_require("where", array("where", condition), (0,)), x1, x2)


__all__ += ["bitwise_invert", "clip", "conj", "imag", "logical_not", "positive", "real", "round", "signbit", "where"]


_border.guard(globals())
