"""Optimizers: update Variables from gradients."""
from __future__ import annotations

from . import _border, _core, errors

Optimizer = _core.optim.Optimizer
SGD = _core.optim.SGD
RMSprop = _core.optim.RMSprop
Adam = _core.optim.Adam
AdamW = _core.optim.AdamW

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "get"]

_BY_NAME = {"sgd": SGD, "rmsprop": RMSprop, "adam": Adam, "adamw": AdamW}


def get(optimizer):
    """The optimizer for a name or class, with its defaults, or the object itself."""
    if isinstance(optimizer, str):
        if optimizer.lower() not in _BY_NAME:
            raise _core.unknown_name("optimizer", optimizer, sorted(_BY_NAME))
        return _BY_NAME[optimizer.lower()]()
    if isinstance(optimizer, type):
        optimizer = optimizer()
    if not hasattr(optimizer, "apply_gradients"):
        raise errors.TypeMismatch(f"{errors.a_type(optimizer)} is not an optimizer", fix="pass a name or one of lm.optim")
    return optimizer


_border.guard(globals())
