"""Dtypes of the array API: promotion, questions about them, and arrays from what a caller passes."""
from __future__ import annotations

import builtins
import dataclasses

from .. import _border, _core as _c, errors
from .._core import Tensor, Variable

SIGNED = (_c.int8, _c.int16, _c.int32, _c.int64)
UNSIGNED = (_c.uint8, _c.uint16, _c.uint32, _c.uint64)
FLOATING, COMPLEX = (_c.float32, _c.float64), (_c.complex64, _c.complex128)
INTEGER, DEFAULT_INTEGER, DEFAULT_FLOATING = (*SIGNED, *UNSIGNED), _c.int64, _c.float32
_KINDS = {"bool": (_c.bool,), "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": INTEGER, "real floating": (*FLOATING, _c.float16, _c.bfloat16), "complex floating": COMPLEX,
          "numeric": (*INTEGER, *FLOATING, *COMPLEX, _c.float16, _c.bfloat16)}
_LIMITS = {"float16": (16, 2.0**-10, 65504.0, 2.0**-14), "bfloat16": (16, 2.0**-7, float.fromhex("0x1.fep127"), 2.0**-126), "float32": (32, 2.0**-23, float.fromhex("0x1.fffffep127"), 2.0**-126),
           "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.2250738585072014e-308)}


def is_array(x):
    return isinstance(x, (Tensor, Variable))


def is_scalar(x):
    return isinstance(x, (builtins.bool, int, float, complex))


def kind(dtype):
    return 0 if dtype == _c.bool else 1 if dtype in INTEGER else 3 if dtype in COMPLEX else 2


def array(name, x):
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Variable):
        return x.read()
    raise errors.TypeMismatch(f"{name}: {errors.a_type(x)} is no array", why="functions of the array API take arrays", fix="make one of it: lm.xp.asarray(x)")


def _bits(dtype):
    return 1 if dtype == _c.bool else int("".join(c for c in dtype.name if c.isdigit()))


def _promoted(a, b):
    if a == b:
        return a
    if {kind(a), kind(b)} == {2, 3}:
        return _c.complex128 if _c.float64 in (a, b) or _c.complex128 in (a, b) else _c.complex64
    if kind(a) != kind(b) or _c.uint64 in (a, b) and (a in SIGNED or b in SIGNED):
        raise errors.TypeMismatch(f"{a.name} and {b.name} are not promoted", why="the array API promotes within a kind (bool, integers, floating), floating to complex, and no integers beside uint64 that have a sign", fix=f"convert one of them: lm.xp.astype(x, lm.xp.{b.name})")
    if kind(a) == 2 and _bits(a) == _bits(b) == 16:
        return _c.float32
    if kind(a) == 1 and (a in SIGNED) != (b in SIGNED):
        signed, other = (a, b) if a in SIGNED else (b, a)
        return next(d for d in SIGNED if _bits(d) >= _bits(signed) and _bits(d) > _bits(other))
    return a if _bits(a) > _bits(b) else b


def result_type(*arrays_and_dtypes):
    """The dtype that arrays, dtypes and at least one of them beside Python numbers are promoted to."""
    dtypes = [x.dtype if is_array(x) else _c.dtype(x) for x in arrays_and_dtypes if not is_scalar(x)]
    if not dtypes:
        raise errors.InvalidArgument("result_type: there is no array and no dtype", why="numbers follow them", fix="pass one")
    found = dtypes[0]
    for d in dtypes[1:]:
        found = _promoted(found, d)
    for x in arrays_and_dtypes:
        if is_scalar(x):
            found = check_scalar(x, found)
    return found


def check_scalar(x, dtype):
    wanted = 0 if isinstance(x, builtins.bool) else 1 if isinstance(x, int) else 2 if isinstance(x, float) else 3
    if wanted == 3 and kind(dtype) == 2:
        return _promoted(dtype, _c.complex64)
    if wanted == 0 and kind(dtype) != 0 or wanted > 0 and (kind(dtype) == 0 or wanted > kind(dtype)):
        raise errors.TypeMismatch(f"{x!r} does not go with {dtype.name}", why="a bool goes with bools, an int with numbers, a float with floating dtypes, a complex number with floating and complex ones", fix="convert the array with lm.xp.astype")
    return dtype


def promoted(name, *values):
    """Arrays and numbers, at least one array, as arrays of one dtype."""
    if not any(is_array(x) for x in values):
        array(name, values[0])
    values = [x if is_scalar(x) else array(name, x) for x in values]
    dtype = result_type(*values)
    return [_c.constant(x, dtype) if is_scalar(x) else x if x.dtype == dtype else _c.astype(x, dtype) for x in values]


def isdtype(dtype, kind):
    """Whether a dtype is of a kind ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"), is another dtype, or one of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise errors.InvalidArgument(f"isdtype: {errors.shown(kind)} is no kind", why=f"there are {', '.join(_KINDS)}", fix='pass "numeric"')
        return _c.dtype(dtype) in _KINDS[kind]
    return _c.dtype(dtype) == _c.dtype(kind)


def can_cast(from_, to, /):
    """Whether promotion turns the dtype, or an array's, into `to`."""
    from_ = from_.dtype if is_array(from_) else _c.dtype(from_)
    try:
        return _promoted(from_, _c.dtype(to)) == _c.dtype(to)
    except errors.TypeMismatch:
        return False


@dataclasses.dataclass(frozen=True)
class finfo_object:
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: object


@dataclasses.dataclass(frozen=True)
class iinfo_object:
    bits: int
    max: int
    min: int
    dtype: object


def finfo(type, /):
    """The limits of a floating dtype, or an array's; of a complex one, those of its parts."""
    dtype = type.dtype if is_array(type) else _c.dtype(type)
    if dtype in COMPLEX:
        dtype = FLOATING[COMPLEX.index(dtype)]
    if dtype.name not in _LIMITS:
        raise errors.TypeMismatch(f"finfo: {dtype.name} is not floating", why="integers have iinfo", fix="pass a floating dtype")
    bits, eps, most, normal = _LIMITS[dtype.name]
    return finfo_object(bits, eps, most, -most, normal, dtype)


def iinfo(type, /):
    """The limits of an integer dtype, or an array's."""
    dtype = type.dtype if is_array(type) else _c.dtype(type)
    if dtype not in INTEGER:
        raise errors.TypeMismatch(f"iinfo: {dtype.name} is no integer dtype", why="floating dtypes have finfo", fix="pass an integer dtype")
    bits = _bits(dtype)
    return iinfo_object(bits, 2**bits - 1 if dtype in UNSIGNED else 2 ** (bits - 1) - 1, 0 if dtype in UNSIGNED else -(2 ** (bits - 1)), dtype)


def astype(x, dtype, /, *, copy=True, device=None):
    """x in another dtype."""
    return on(_c.astype(array("astype", x), dtype), device)


def on(x, device):
    return x if device is None else x.to(device)


def _types(value):
    """The types of a number, or of those in nested lists."""
    if not isinstance(value, (list, tuple)):
        return {type(value)}
    found = set(map(type, value))
    lists = {t for t in found if issubclass(t, (list, tuple))}
    return found if not lists else (found - lists).union(*(_types(v) for v in value if isinstance(v, (list, tuple))))


def _as_numbers(value):
    return [_as_numbers(v) for v in value] if isinstance(value, (list, tuple)) else int(value) if isinstance(value, builtins.bool) else value


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of an array, a number, nested lists of them, or anything with a buffer or DLPack. Integers become int64, floats float32, complex numbers complex64, unless a dtype is given; bools beside numbers count as 0 and 1."""
    wanted = None if dtype is None else _c.dtype(dtype)
    if is_array(obj):
        x = array("asarray", obj)
        if copy is False and wanted not in (None, x.dtype):
            raise errors.InvalidArgument(f"asarray: {x.dtype.name} does not become {wanted.name} without a copy", why="copy is False", fix="leave copy away")
        return on(x if wanted is None else _c.astype(x, wanted), device)
    if copy is False:
        raise errors.InvalidArgument(f"asarray: {errors.a_type(obj)} is copied", why="copy is False, and a tensor has memory of its own", fix="leave copy away, or share memory: lm.xp.from_dlpack(x)")
    if is_scalar(obj) or isinstance(obj, (list, tuple)):
        types = _types(obj)
        if builtins.bool in types and len(types) > 1:
            obj, types = _as_numbers(obj), types - {builtins.bool} | {int}
        if wanted is None:
            whole = len(types) > 0 and all(issubclass(t, int) and t is not builtins.bool for t in types)
            return on(_c.constant(obj, DEFAULT_INTEGER if whole and not _beyond_int64(obj) else None), device)
        try:
            return on(_c.constant(obj, wanted), device)
        except errors.TypeMismatch:  # numbers of another kind: converted as astype does
            return on(_c.astype(asarray(obj), wanted), device)
    x = _c.constant(obj)
    return on(x if wanted is None else _c.astype(x, wanted), device)


def _beyond_int64(value):
    if not isinstance(value, (list, tuple)):
        return value >= 2**63
    if any(issubclass(t, (list, tuple)) for t in set(map(type, value))):
        return any(map(_beyond_int64, value))
    return max(value, default=0) >= 2**63


_border.guard(globals())
