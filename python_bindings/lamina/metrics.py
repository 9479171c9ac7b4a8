"""Metrics: measures of a model's quality, averaged over the batches of an epoch."""
from __future__ import annotations

from . import _border, _core, errors

__all__ = ["Accuracy", "Mean", "Metric", "accuracy", "get"]


def accuracy(labels, predictions):
    """The fraction of rows whose largest prediction is the label: a float32 scalar.

    predictions is [rows, classes]; labels are [rows] of integers (floats are truncated), [rows, 1], or one-hot rows [rows, classes].
    """
    return _core.accuracy(labels, predictions)


class Metric:
    """A running metric. Subclasses define `name` and `measure(labels, predictions)`, the mean over a batch's samples, and may change how
    batches are combined by overriding update() and result()."""

    name = "metric"

    def __init__(self, name: str | None = None):
        if name is not None:
            self.name = name
        self.reset()

    def measure(self, labels, predictions):
        raise NotImplementedError(f"{type(self).__name__} does not define measure(labels, predictions)")

    def update(self, value, samples: int = 1) -> None:
        """Adds a batch's mean and its number of samples."""
        self._sum += float(value) * samples
        self._count += samples

    def result(self) -> float:
        """The mean over all samples so far; NaN before the first."""
        return self._sum / self._count if self._count else float("nan")

    def reset(self) -> None:
        self._sum = 0.0
        self._count = 0


class Mean(Metric):
    """The mean of the given numbers."""

    name = "mean"

    def measure(self, labels, predictions):
        return _core.mean(predictions)


class Accuracy(Metric):
    """The fraction of samples whose largest prediction is the label."""

    name = "accuracy"

    def measure(self, labels, predictions):
        return accuracy(labels, predictions)


class _FromFunction(Metric):
    def __init__(self, function):
        self._function = function
        super().__init__(getattr(function, "__name__", "metric"))

    def measure(self, labels, predictions):
        return _core.mean(self._function(labels, predictions))


_BY_NAME = {"accuracy": Accuracy, "acc": Accuracy}


def get(metric) -> Metric:
    """The metric for a name, a Metric, a Metric class, or a function of (labels, predictions)."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, type) and issubclass(metric, Metric):
        return metric()
    if isinstance(metric, str):
        if metric not in _BY_NAME:
            raise _core.unknown_name("metric", metric, sorted(_BY_NAME))
        return _BY_NAME[metric]()
    if callable(metric):
        return _FromFunction(metric)
    raise errors.TypeMismatch(f"{errors.shown(metric)} is not a metric", fix="pass a name, a lm.metrics.Metric or a function (labels, predictions)")


_border.guard(globals())
