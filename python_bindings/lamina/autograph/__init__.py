"""AutoGraph: converts Python's if, while, for, and, or, not and assert to parts of a graph.

lm.function traces a converted copy of the function and of the functions that it calls. There, a branch or loop whose condition is a tensor
becomes lm.cond, lm.while_loop or lm.scan; with a Python value it stays Python. Code that cannot be converted raises an error at the user's
line.
"""
from .. import _border
from .conversion import do_not_convert, to_code

do_not_convert, to_code = _border.guarded(do_not_convert), _border.guarded(to_code)

__all__ = ["do_not_convert", "to_code"]
