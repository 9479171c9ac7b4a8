"""Functions that transforms are given, as they are to be called."""
from __future__ import annotations

from . import _core


def callee(fn):
    """fn, or what AutoGraph makes of it when the function that is being traced is converted."""
    if not _core.autograph_is_active():
        return fn
    from .autograph.conversion import converted
    return converted(fn)
