"""Learning rates that follow from the steps done: pass one as `learning_rate` to an optimizer. It is computed in the training step's graph, which is traced once."""
from __future__ import annotations

from .. import _core, _elsewhere

Schedule = _core._schedules.Schedule
Constant = _core._schedules.Constant
PiecewiseConstantDecay = _core._schedules.PiecewiseConstantDecay
ExponentialDecay = _core._schedules.ExponentialDecay
CosineDecay = _core._schedules.CosineDecay
CosineDecayRestarts = _core._schedules.CosineDecayRestarts
PolynomialDecay = _core._schedules.PolynomialDecay
OneCycle = _core._schedules.OneCycle
Warmup = _core._schedules.Warmup

__all__ = ["Constant", "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "OneCycle", "PiecewiseConstantDecay", "PolynomialDecay", "Schedule", "Warmup"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__ = _elsewhere.getter("lm.optim.schedules", __all__)
