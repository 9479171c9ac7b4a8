"""Learning rates that follow from the steps done: pass one as `learning_rate` to an optimizer. It is computed in the training step's graph, which is traced once."""
from __future__ import annotations

from .. import _border, _core, _elsewhere

Schedule = _core.schedules.Schedule
Constant = _core.schedules.Constant
PiecewiseConstantDecay = _core.schedules.PiecewiseConstantDecay
ExponentialDecay = _core.schedules.ExponentialDecay
CosineDecay = _core.schedules.CosineDecay
CosineDecayRestarts = _core.schedules.CosineDecayRestarts
PolynomialDecay = _core.schedules.PolynomialDecay
OneCycle = _core.schedules.OneCycle
Warmup = _core.schedules.Warmup

__all__ = ["Constant", "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "OneCycle", "PiecewiseConstantDecay", "PolynomialDecay", "Schedule", "Warmup"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.optim.schedules", __all__)

_border.guard(globals())
