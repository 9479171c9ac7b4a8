"""Calls functions that are passed to transforms."""
from __future__ import annotations

from . import _core


def callee(fn):
    """fn, or its AutoGraph conversion when the function being traced is converted."""
    if not _core.autograph_is_active():
        return fn
    from .autograph.conversion import converted
    return converted(fn)


def traced(fn):
    """fn's AutoGraph conversion, for a transform that traces it outside of a traced function."""
    from .autograph.conversion import traced
    return traced(fn)
