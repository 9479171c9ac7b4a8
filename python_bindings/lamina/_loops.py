"""Functions built on lm.cond, lm.scan, lm.while_loop and the core's checkpoint."""
import functools
import operator

from . import _border, _core, errors
from ._callee import callee
from ._core import Tensor, Variable


def _watched(function, once=False):
    """Wraps a body of lm.cond, lm.scan and the like: it must not change Python objects while it is traced. once: Python would run it once too."""
    from .autograph.state import watched
    return watched(function, once)


def _watching(function):
    """lm.cond or the like with watched bodies."""

    @functools.wraps(function)
    def call(*args, **options):
        if _core.executing_eagerly():
            return function(*args, **options)
        return function(*map(_watched, args), **{k: _watched(v) for k, v in options.items()})

    return call


_cond, scan, while_loop = _watching(_core.cond), _watching(_core.scan), _watching(_core.while_loop)


def cond(pred, then, otherwise, *operands):
    """then(*operands) where pred (one bool) is true, else otherwise(*operands).

    While a function is traced both are traced, and the graph runs the one that pred chooses then. Both must return the same structure of tensors (tuples, lists, dicts, dataclasses, None) with
    the same dtypes and shapes; anything else raises InvalidArgument or TypeMismatch. A Python bool chooses while tracing.
    """
    return _cond(pred, lambda: then(*operands), lambda: otherwise(*operands)) if operands else _cond(pred, then, otherwise)


def checkpoint(fn):
    """fn with gradients that use less memory.

    In a traced function, the values inside fn are not kept for the gradient but recomputed when it needs them, with the same bits. This
    saves their memory at the cost of one more forward pass through fn. fn returns tensors, or containers of them. It may use
    Variables and random draws as usual. Eagerly it just runs.
    """

    @functools.wraps(fn, updated=())
    def run(*args, **kwargs):
        body = callee(fn)
        return _core.checkpoint(_watched(lambda: body(*args, **kwargs), once=True))

    return run


def _whole(function, name, value):
    """A Python int, or a tensor of integers, from what is one."""
    if isinstance(value, (Tensor, Variable)):
        if value.dtype == _core.bool or not value.dtype.is_integer:
            raise errors.TypeMismatch(f"{function}: {name} is {value.dtype}, not an integer", why="it counts", fix="pass an integer: lm.astype(x, lm.int32)")
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise errors.TypeMismatch(f"{function}: {name} {errors.shown(value)} is not an integer", why="it counts", fix="pass an int, or a tensor of integers") from None


def switch(index, branches, *operands):
    """branches[index](*operands); an index outside of 0 to len(branches) - 1 is clamped.

    index is one integer: a Python int selects the branch while tracing; with a tensor all branches become part of the graph, which runs one
    of them. All branches must return the same structure of tensors with the same dtypes and shapes, as for lm.cond, from which this is
    built, log2(len(branches)) conditions deep. Raises InvalidArgument when there is no branch.
    """
    branches = list(branches)
    if not branches:
        raise errors.InvalidArgument("switch: there is no branch", why="one of them is run", fix="pass a list of functions")
    index = _whole("switch", "index", index)
    if isinstance(index, int):
        return branches[min(max(index, 0), len(branches) - 1)](*operands)
    index = _core.astype(index, _core.int64)  # int8 does not count many branches
    return _chosen(index, branches, operands, 0, len(branches))


def _chosen(index, branches, operands, first, end):
    if end - first == 1:
        return branches[first](*operands)
    middle = (first + end) // 2
    return cond(index < middle, lambda: _chosen(index, branches, operands, first, middle), lambda: _chosen(index, branches, operands, middle, end))


def fori_loop(lower, upper, body, init):
    """Repeats state = body(i, state) for i from lower to upper - 1; returns the final state, or init if there is no such i.

    i is a tensor without axes, int32, or int64 if a bound is or does not fit int32. lower and upper are whole numbers of Python, or integer tensors without axes;
    others raise TypeMismatch. A state is any structure of tensors whose dtypes and shapes do not change.
    """
    lower, upper = _whole("fori_loop", "lower", lower), _whole("fori_loop", "upper", upper)
    if isinstance(lower, int) and isinstance(upper, int):
        first = lower if -(2**31) <= lower and upper < 2**31 else _core.constant(lower, _core.int64)
        (_, state), _ = scan(lambda carried, _: ((carried[0] + 1, body(*carried)), None), (first, init), None, length=max(0, upper - lower))
        return state
    wide = _core.int64 if any(not isinstance(b, int) and b.dtype in (_core.int64, _core.uint32, _core.uint64) for b in (lower, upper)) else _core.int32
    first, end = (_core.constant(b, wide) if isinstance(b, int) else _core.astype(b, wide) for b in (lower, upper))
    _, state = while_loop(lambda carried: carried[0] < end, lambda carried: (carried[0] + 1, body(*carried)), (first, init))
    return state


_border.guard(globals())
