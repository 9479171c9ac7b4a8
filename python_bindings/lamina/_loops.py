"""What is made of lm.scan, lm.while_loop and the core's checkpoint."""
import functools

from . import _core
from ._core import scan, while_loop


def checkpoint(fn):
    """fn, with less memory for gradients through it.

    In a traced function, what fn computes is not kept for the gradient but computed a second time when the gradient needs it, with the same
    bits: memory for the values inside, for one more forward pass through it. fn returns tensors, or tuples, lists and dicts of them. Variables and
    random draws in it are as anywhere else. Eagerly it just runs.
    """

    @functools.wraps(fn, updated=())
    def run(*args, **kwargs):
        return _core.checkpoint(lambda: fn(*args, **kwargs))

    return run


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
