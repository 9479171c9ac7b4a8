"""name_scope: names for the ops of a part of a program."""
from __future__ import annotations

import functools

from . import _border, _core


class name_scope:
    """with lm.name_scope("encoder"): ... puts a name in front of the names of the ops inside, like a layer's: encoder/matmul. Scopes nest.

    The names of a traced function's ops are visible in fn.explain(), profilers and TensorBoard whenever the graph runs. Eagerly the scope is a range of its own for
    profilers. It is also a decorator of functions. One object may be entered many times, also by several threads.
    """

    def __init__(self, name: str):
        self.name = str(name)

    def __enter__(self):
        _core.profiler._enter(self.name)
        return self

    def __exit__(self, *error):
        _core.profiler._leave()

    def __call__(self, fn):
        @functools.wraps(fn)
        def named(*args, **kwargs):
            call = fn
            if _core.autograph_is_active():
                from .autograph.conversion import converted
                call = converted(fn)
            with self:
                return call(*args, **kwargs)

        return named

    def __repr__(self) -> str:
        return f"lm.{'profiler.' if type(self) is not name_scope else ''}{type(self).__name__}({self.name!r})"


_border.guard(globals())
