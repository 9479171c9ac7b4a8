"""Deprecated names: they work, and warn once with the caller's line and the new name."""
from __future__ import annotations

import functools
import warnings


def rename(module, old: str, new: str, prefix: str) -> None:
    """Makes `old` an alias of a module's function `new`, which warns at its first call."""
    function = getattr(module, new)
    warned = []

    @functools.wraps(function)
    def renamed(*args, **kwargs):
        if not warned:
            warned.append(True)
            warnings.warn(f"{prefix}.{old} is deprecated and will be removed; use {prefix}.{new} instead", DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"The old name of {prefix}.{new}; it warns."
    setattr(module, old, renamed)
