"""Optimizers: update Variables from gradients."""
from __future__ import annotations

from .. import _border, _core, _elsewhere, _habits, errors
from . import schedules
from .lbfgs import LBFGS

Optimizer = _core.optim.Optimizer
SGD = _core.optim.SGD
RMSprop = _core.optim.RMSprop
Adam = _core.optim.Adam
AdamW = _core.optim.AdamW
Nadam = _core.optim.Nadam
Adagrad = _core.optim.Adagrad
Lion = _core.optim.Lion

__all__ = ["LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "Lion", "Nadam", "Optimizer", "RMSprop", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "get", "schedules"]

_BY_NAME = {cls.__name__.lower(): cls for cls in (SGD, RMSprop, Adagrad, Adam, AdamW, Nadam, Lion)}


def get(optimizer):
    """The optimizer for a name or class, with its defaults, or the object itself."""
    return _made(optimizer)


def _made(optimizer, **options):
    """get(); an optimizer of Lamina that it makes takes the options."""
    if isinstance(optimizer, str):
        if optimizer.lower() not in _BY_NAME:
            raise _core.unknown_name("optimizer", optimizer, sorted(_BY_NAME))
        optimizer = _BY_NAME[optimizer.lower()]
    if isinstance(optimizer, type):
        optimizer = optimizer(**options if issubclass(optimizer, Optimizer) else {})
    if not hasattr(optimizer, "apply_gradients"):
        if isinstance(optimizer, LBFGS):
            raise errors.TypeMismatch("LBFGS does not train by batches", why="it minimises a loss of all data in one call", fix="write lm.optim.LBFGS().minimize(loss, variables) in place of compile and fit")
        raise errors.TypeMismatch(f"{errors.a_type(optimizer)} is not an optimizer", fix="pass a name or one of lm.optim")
    return optimizer


def clip_by_value(gradients, limit: float):
    """The gradients, a list or one, with every element limited to [-limit, limit]. None, the gradient of what is not connected, stays None."""
    limit = _limit("clip_by_value", limit)
    return _like(gradients, [None if g is None else _core.clip(g, -limit, limit) for g in _listed("clip_by_value", gradients)])


def clip_by_norm(gradients, limit: float):
    """Each gradient, of a list or one, scaled down to this L2 norm where its own is larger. None stays None."""
    limit = _limit("clip_by_norm", limit)
    return _like(gradients, [None if g is None else _scaled(g, _squares(g), limit) for g in _listed("clip_by_norm", gradients)])


def clip_by_global_norm(gradients, limit: float) -> tuple:
    """(gradients, norm): all gradients, a list or one, scaled by one factor, so that the L2 norm of all together is at most `limit`; and that norm before, a float32 scalar. None stays None.
    Pascanu, Mikolov and Bengio 2013.

        gradients, norm = lm.optim.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
    """
    limit, given = _limit("clip_by_global_norm", limit), _listed("clip_by_global_norm", gradients)
    squares = [_core.astype(_squares(g), "float32") for g in given if g is not None]
    if not squares:
        raise errors.InvalidArgument("clip_by_global_norm: there are no gradients", why="none of them is a tensor", fix="compute the loss from the variables while the tape is active")
    total = _core.sum(_core.stack(squares))
    return _like(gradients, [None if g is None else _scaled(g, total, limit) for g in given]), _core.sqrt(total)


def _listed(what, gradients) -> list:
    """What tape.gradient() gives for a list of sources, or for one."""
    if gradients is None or isinstance(gradients, (_core.Tensor, _core.Variable)):
        return [gradients]
    if isinstance(gradients, dict) or not hasattr(gradients, "__iter__"):
        raise errors.TypeMismatch(f"{what}: {errors.a_type(gradients)} is no list of gradients", fix="pass a list of tensors, as tape.gradient() gives it for a list")
    return list(gradients)


def _like(gradients, clipped):
    return clipped[0] if gradients is None or isinstance(gradients, (_core.Tensor, _core.Variable)) else clipped


def _limit(what, limit) -> float:
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise errors.InvalidArgument(f"{what}: the limit {errors.shown(limit)} is not a positive number", fix="pass 1.0")
    return float(limit)


def _squares(gradient):
    """The sum of squares, in float32 for half types."""
    return _core.sum(_core.square(_core.astype(gradient, "float32") if gradient.dtype.itemsize == 2 else gradient))


def _scaled(gradient, squares, limit):
    """gradient * limit / max(norm, limit)."""
    factor = limit / _core.maximum(_core.sqrt(squares), limit)
    return gradient * _core.astype(factor, gradient.dtype)


class _AveragedWeights:
    """averaged_weights(): the weights are their averages inside of the block."""

    def __init__(self, optimizer):
        self._pairs = list(zip(optimizer._trained_variables, optimizer._averages))
        if not self._pairs:
            raise errors.StateError(f"{optimizer.name}: there are no averages of the weights", why="ema_momentum keeps them from the first step on",
                                    fix="pass ema_momentum=0.99 to the optimizer, and train")

    def __enter__(self):
        self._own = [variable.read() for variable, _ in self._pairs]
        for variable, average in self._pairs:
            variable.assign(_core.astype(average.read(), variable.dtype))

    def __exit__(self, *_):
        for (variable, _), value in zip(self._pairs, self._own):
            variable.assign(value)


def _shown(optimizer) -> str:
    try:
        rate = f", learning rate {float(optimizer.learning_rate):g}"
    except errors.Error:  # while a function is traced it has no value
        rate = ""
    return f"<lm.optim.{type(optimizer).__name__}{rate}>"


Optimizer.__repr__ = _shown
_habits.hints(Optimizer, "Optimizer", _habits.OPTIMIZER)

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.optim", __all__)
_border.guard(globals())
