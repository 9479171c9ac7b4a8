"""Loops made of lm.scan and lm.while_loop."""
from ._core import scan, while_loop


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
