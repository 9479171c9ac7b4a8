"""Regularisers: numbers that grow with the weights, which training adds to the loss. Keras's names and defaults."""
from __future__ import annotations

from .. import _border, _core, _elsewhere, errors

__all__ = ["L1", "L2", "L1L2", "Regularizer", "get"]


class Regularizer:
    """Base of regularisers: a subclass defines __call__(weight) -> a scalar tensor."""

    def __init__(self):
        """Takes no arguments; subclasses need not call it."""

    def __call__(self, weight):
        raise NotImplementedError(f"{type(self).__name__} does not define __call__()")


class L1L2(Regularizer):
    """l1 * sum(|w|) + l2 * sum(w^2)."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0):
        errors.in_range(type(self).__name__, "it is a factor", 0, l1=l1, l2=l2)
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, weight):
        """The sum for a weight: a scalar of its dtype, float32 for half types."""
        weight = _core.astype(weight, "float32") if weight.dtype.itemsize == 2 else weight
        parts = [_core.sum(_core.abs(weight)) * self.l1] if self.l1 else []
        parts += [_core.sum(_core.square(weight)) * self.l2] if self.l2 or not parts else []
        return sum(parts[1:], parts[0])

    def __repr__(self) -> str:
        return f"<lm.nn.regularizers.{type(self).__name__} l1={self.l1} l2={self.l2}>"


class L1(L1L2):
    """l1 * sum(|w|)."""

    def __init__(self, l1: float = 0.01):
        super().__init__(l1=l1)


class L2(L1L2):
    """l2 * sum(w^2)."""

    def __init__(self, l2: float = 0.01):
        super().__init__(l2=l2)


def get(regularizer):
    """The regularizer for a name ("l1", "l2", "l1_l2"), or the function or object itself; None for None."""
    return _made(regularizer)


def _made(regularizer):
    names = {"l1": L1, "l2": L2, "l1_l2": lambda: L1L2(0.01, 0.01)}
    if isinstance(regularizer, str):
        if regularizer.lower() not in names:
            raise _core.unknown_name("regularizer", regularizer, sorted(names))
        return names[regularizer.lower()]()
    if regularizer is not None and not callable(regularizer):
        raise errors.TypeMismatch(f"{errors.a_type(regularizer)} is no regularizer", fix='pass "l2", one of lm.nn.regularizers, or a function of a weight')
    return regularizer() if isinstance(regularizer, type) else regularizer


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.nn.regularizers", __all__)
_border.guard(globals())
