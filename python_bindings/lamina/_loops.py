"""What is made of lm.cond, lm.scan, lm.while_loop and the core's checkpoint."""
import functools

from . import _border, _core, errors
from ._core import Tensor, Variable


def _watched(function):
    """A body of lm.cond, lm.scan and their like: it may not change Python objects while it is traced."""
    from .autograph.state import watched
    return watched(function)


def _watching(function):
    """lm.cond or its like, with bodies that are watched."""

    @functools.wraps(function)
    def call(*args, **options):
        if _core.executing_eagerly():
            return function(*args, **options)
        return function(*map(_watched, args), **{k: _watched(v) for k, v in options.items()})

    return call


cond, scan, while_loop = _watching(_core.cond), _watching(_core.scan), _watching(_core.while_loop)


def checkpoint(fn):
    """fn, with less memory for gradients through it.

    In a traced function, what fn computes is not kept for the gradient but computed a second time when the gradient needs it, with the same
    bits: memory for the values inside, for one more forward pass through it. fn returns tensors, or tuples, lists and dicts of them. Variables and
    random draws in it are as anywhere else. Eagerly it just runs.
    """

    @functools.wraps(fn, updated=())
    def run(*args, **kwargs):
        return _core.checkpoint(_watched(lambda: fn(*args, **kwargs)))

    return run


def switch(index, branches, *operands):
    """branches[index](*operands), one of several; an index outside of 0 to len(branches) - 1 takes the first or the last.

    index is one integer: a Python int chooses while tracing; a tensor makes all branches part of the graph, which runs one of them. They return the
    same structure of tensors with the same dtypes and shapes, as those of lm.cond, which this is made of: log2(len(branches)) conditions deep.
    Raises InvalidArgument when there is no branch.
    """
    branches = list(branches)
    if not branches:
        raise errors.InvalidArgument("switch: there is no branch", why="one of them is run", fix="pass a list of functions")
    if not isinstance(index, (Tensor, Variable)):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    def choose(first, end):
        if end - first == 1:
            return branches[first](*operands)
        middle = (first + end) // 2
        return cond(index < middle, lambda: choose(first, middle), lambda: choose(middle, end))

    return choose(0, len(branches))


def fori_loop(lower, upper, body, init):
    """state = body(i, state) for i from lower to upper - 1; returns the last state, init when there is no such i.

    i is an int32 tensor without axes. lower and upper are Python ints or integer tensors without axes; a state is any structure of tensors that
    keeps its dtypes and shapes.
    """
    if isinstance(lower, int) and isinstance(upper, int):
        (_, state), _ = scan(lambda carried, _: ((carried[0] + 1, body(*carried)), None), (lower, init), None, length=max(0, upper - lower))
    else:
        _, state = while_loop(lambda carried: carried[0] < upper, lambda carried: (carried[0] + 1, body(*carried)), (lower, init))
    return state


_border.guard(globals())
