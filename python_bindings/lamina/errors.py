"""One class per kind of error. Each is a lm.errors.Error and also the built-in exception that people catch.

Every error says what failed, where, why and how to fix it: as its text, and as the attributes what, where, why and fix.
"""
from __future__ import annotations

import math
import numbers
import os

__all__ = [
    "AssertionFailed", "BadFile", "CollectiveTimeout", "ConversionFailed", "DeviceUnavailable", "Error", "GradientWarning",
    "IndexOutOfRange", "InternalError", "InvalidArgument", "KernelBuildFailed", "NotDefined", "NotFound", "OutOfMemory", "RankMismatch",
    "RecursionTooDeep", "RetraceLimit", "RetraceWarning", "SignatureMismatch", "StateError", "TapeUsed", "TimeLimitExceeded",
    "TypeMismatch", "UninitializedVariable", "UnrollWarning",
]


def _user_line() -> str:
    """ "train.py:41", the line that called Lamina; "" when there is none."""
    from . import _core  # imported while this module is being imported
    return _core._user_line()


class Error(Exception):
    """Base of all errors of Lamina. `where` defaults to the user's running line."""

    def __init__(self, what: str = "", where: str = "", why: str = "", fix: str = ""):
        where = where or _user_line()
        lines = [what]
        lines += [f"  {label:<6} {text}" for label, text in (("where:", where), ("why:", why), ("fix:", fix)) if text]
        super().__init__("\n".join(lines))
        self.what, self.where, self.why, self.fix = what, where, why, fix

    __str__ = Exception.__str__  # a KeyError would quote its text

    def __reduce__(self):
        return type(self), (self.what, self.where, self.why, self.fix)


def shown(value) -> str:
    """A value's repr, shortened; its type if that fails."""
    if isinstance(value, (list, tuple, dict)) or hasattr(type(value), "__dataclass_fields__"):
        return f"{a_type(value)} of {len(value)}" if isinstance(value, (list, tuple)) else a_type(value)  # its text may be endless
    try:
        text = repr(value)
    except Exception:
        return a_type(value)
    return text if len(text) <= 60 else text[:60] + "..."


def in_range(what: str, why: str, low, high=math.inf, **values) -> None:
    """Raises InvalidArgument for a value that is not a finite number from low to high."""
    for name, value in values.items():
        try:
            number = float(value)
        except Exception:  # no number, or one of which only a run of the graph knows
            number = math.nan
        if not low <= number <= high or math.isinf(number):
            raise InvalidArgument(f"{what}: {name} {shown(value)}", why=why, fix=f"pass a number from {low} {'on' if high == math.inf else f'to {high}'}" if low > -math.inf else "pass a finite number")


def path_of(what: str, path, argument: str = "path") -> str:
    """A path as text, of a str, bytes or os.PathLike. what: the call that was given it as this argument."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
    except TypeError:
        raise TypeMismatch(f"{what}: {argument} is {a_type(path)}", why="it names a file or a folder", fix="pass a str or a pathlib.Path") from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what}: {argument} {ascii(text)[:200]} has half a character", why="no file can have such a name", fix="take the name from the system, as os.listdir gives it") from None
    return text


# Of an error about None while a function is traced: why, and what to write.
OPEN_LENGTH = ("a length that is open while a function is traced is None in x.shape",
               "write len(x) for the first axis's length and lm.shape(x)[i] for any axis's, which are tensors; -1 for one length in a reshape; lm.zeros_like(x) for a tensor like x")


def is_whole(value) -> bool:
    """Whether it is a whole number of Python's or of NumPy's; a bool is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def a_type(value) -> str:
    """ "an int", "a Policy": what a value is, for an error."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


class InvalidArgument(Error, ValueError):
    """An argument's value or shape does not fit."""


class IndexOutOfRange(InvalidArgument, IndexError):
    """An index or a label is outside its range."""


class TypeMismatch(Error, TypeError):
    """A dtype, or the type of a Python value, does not fit."""


class SignatureMismatch(Error, TypeError):
    """A function was called with arguments that its signature rejects."""


class StateError(Error, RuntimeError):
    """The call is not possible in the current state."""


class UninitializedVariable(StateError):
    """A Variable was read before it had a value."""


class NotDefined(StateError, NotImplementedError):
    """A class lacks a method that it must define."""


class RecursionTooDeep(StateError, RecursionError):
    """Functions or layers call themselves or each other until the stack is full."""


class TapeUsed(StateError):
    """A single-use tape was asked for gradients again."""


class AssertionFailed(Error, AssertionError):
    """A check inside a graph failed."""


class NotFound(Error, KeyError):
    """There is nothing with that name."""


class ConversionFailed(Error, ValueError):
    """A Python construct cannot become part of a graph."""


class RetraceLimit(Error, RuntimeError):
    """One function was traced too many times."""


class OutOfMemory(Error, MemoryError):
    """A device has not enough memory."""


class TimeLimitExceeded(Error, TimeoutError):
    """A program ran longer than lm.limits allows."""


class DeviceUnavailable(Error, RuntimeError):
    """The device does not exist on this machine."""


class KernelBuildFailed(DeviceUnavailable):
    """A kernel could not be compiled for a device."""


class CollectiveTimeout(Error, TimeoutError):
    """Another device did not take part in time."""


class RankMismatch(Error, RuntimeError):
    """Devices disagree about what they exchange."""


class BadFile(Error, ValueError):
    """A file is damaged, cut short or of another format."""


class InternalError(Error, RuntimeError):
    """A bug in Lamina."""


class GradientWarning(UserWarning):
    """A tape returns None for a source that it did not watch, or for a target that it did not record."""


class RetraceWarning(UserWarning):
    """A function is retraced repeatedly; the text says why."""


class UnrollWarning(UserWarning):
    """A Python loop over the elements of a tensor was traced into very many ops; the text says where, and what is faster."""


# The names of the C++ kinds.
_BY_KIND = {
    "invalid_argument": InvalidArgument, "type": TypeMismatch, "signature": SignatureMismatch, "state": StateError,
    "assertion": AssertionFailed, "index": IndexOutOfRange, "not_found": NotFound, "conversion": ConversionFailed, "retrace": RetraceLimit,
    "out_of_memory": OutOfMemory, "time_limit": TimeLimitExceeded, "device": DeviceUnavailable, "collective": CollectiveTimeout,
    "file": BadFile, "internal": InternalError,
}


def _from_core(kind: str, what: str, where: str, why: str, fix: str) -> Error:
    """The exception for an Error of the C++ side."""
    cls = _BY_KIND.get(kind, InternalError)
    if cls is StateError:
        words = what.lower()
        cls = RecursionTooDeep if "nested too deep" in words else TapeUsed if "tape" in words else UninitializedVariable if "initial" in words or "has no value yet" in words else StateError
    elif cls is DeviceUnavailable and "compile" in what.lower():
        cls = KernelBuildFailed
    elif cls is CollectiveTimeout and what.startswith("ranks disagree"):
        cls = RankMismatch
    return cls(what, where, why, fix)
