"""Metrics: measures of a model's quality, averaged over the batches of an epoch."""
from __future__ import annotations

import functools
import math

from . import _border, _core, _elsewhere, _habits, errors

__all__ = [
    "AUC", "Accuracy", "BinaryAccuracy", "ConfusionMatrix", "F1", "Mean", "MeanAbsoluteError", "MeanSquaredError", "Metric", "Precision", "R2", "Recall", "TopK", "accuracy", "get",
]


def accuracy(labels: object, predictions: object) -> _core.Tensor:
    """The fraction of rows whose largest prediction is the label: a float32 scalar.

    predictions is [rows, classes]; labels are [rows] of integers (floats are truncated), [rows, 1], or one-hot rows [rows, classes].
    """
    return _core.accuracy(labels, predictions)


def _measuring(measure):
    """A measure() that takes what becomes tensors, of as many rows."""
    @functools.wraps(measure)
    def checked(self, labels, predictions):
        given = {"labels": labels, "predictions": predictions}
        for name, value in given.items():
            try:
                given[name] = value if isinstance(value, _core.Tensor) else _core.constant(value)
            except (TypeError, ValueError) as problem:
                raise errors.TypeMismatch(f"{type(self).__name__}.measure: {name} is {errors.a_type(value)}", why=getattr(problem, "what", None) or str(problem), fix="pass tensors, arrays or nested lists of numbers") from None
        rows = [value.shape[0] if value.shape else 1 for value in given.values()]
        if None not in rows and rows[0] != rows[1]:
            raise errors.InvalidArgument(f"{type(self).__name__}.measure: labels has {rows[0]} rows, predictions {rows[1]}", why="row i of each belongs to sample i", fix="pass as many of each")
        return measure(self, *given.values())

    return checked


class Metric:
    """A running metric. Subclasses define `name` and `measure(labels, predictions)`, the mean over a batch's samples, and may change how
    batches are combined by overriding update() and result(). larger_is_better: True, False, or None where a callback that follows the metric is told its mode."""

    name = "metric"
    larger_is_better: bool | None = None

    def __init__(self, name: str | None = None):
        if name is not None:
            self.name = name
        self.reset()

    def __call__(self, *args):
        raise errors.NotDefined(f"{type(self).__name__}: a metric is not called", why="measure() computes a batch's number, update() adds it",
                                fix=f"write metric.update({'value' if len(args) == 1 else 'metric.measure(labels, predictions), len(labels)'})")

    def measure(self, labels, predictions):
        """The batch's number, a tensor, of labels [n, ...] and predictions [n, ...]; those of batches are averaged. Metrics of your own override it."""
        raise NotImplementedError(f"{type(self).__name__} does not define measure(labels, predictions)")

    def update(self, value, samples: int = 1) -> None:
        """Adds a batch's mean and its number of samples."""
        errors.in_range(type(self).__name__, "it is a number of samples", 0, samples=samples)
        self._add(float(value), samples)

    def _add(self, value: float, samples: int) -> None:
        if samples:  # the mean of none is NaN
            self._sum += value * samples
            self._count += samples

    def result(self) -> float:
        """The mean over all samples so far; NaN before the first."""
        return self._sum / self._count if self._count else float("nan")

    def reset(self) -> None:
        """Forgets all batches."""
        self._sum = 0.0
        self._count = 0


_habits.hints(Metric, "Metric", _habits.METRIC)


class Mean(Metric):
    """The mean of the given numbers."""

    name = "mean"

    def measure(self, labels, predictions):
        return _core.mean(predictions)


class Accuracy(Metric):
    """The fraction of samples whose largest prediction is the label."""

    name = "accuracy"
    larger_is_better = True

    @_measuring
    def measure(self, labels, predictions):
        return accuracy(labels, predictions)


class MeanSquaredError(Metric):
    """The mean of the squared errors."""

    name = "mse"
    larger_is_better = False

    @_measuring
    def measure(self, labels, predictions):
        labels, predictions = _beside(self, labels, predictions)
        return _core.mean(_core.square(labels - predictions))


class MeanAbsoluteError(Metric):
    """The mean of the errors' sizes."""

    name = "mae"
    larger_is_better = False

    @_measuring
    def measure(self, labels, predictions):
        labels, predictions = _beside(self, labels, predictions)
        return _core.mean(_core.abs(labels - predictions))


class BinaryAccuracy(Metric):
    """The fraction of predictions on the right side of a threshold: 0.5 for probabilities, 0 for logits. Labels are 0 or 1."""

    name = "binary_accuracy"
    larger_is_better = True

    def __init__(self, threshold: float = 0.5, name: str | None = None):
        errors.in_range(type(self).__name__, "predictions above it are positive", -math.inf, threshold=threshold)
        self.threshold = threshold
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        labels, predictions = _beside(self, labels, predictions)
        return _core.mean(_core.astype(_core.equal(predictions > self.threshold, labels > 0.5), "float32"))


class TopK(Metric):
    """The fraction of rows whose label is among the k largest predictions. Labels are [rows], [rows, 1] or one-hot rows."""

    name = "top_k"
    larger_is_better = True

    def __init__(self, k: int = 5, name: str | None = None):
        errors.in_range("TopK", "it is how many predictions count", 1, k=k)
        self.k = k
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        classes = _classes(labels, predictions)
        _, best = _core.top_k(predictions, min(self.k, predictions.shape[-1]))
        found = _core.any(_core.equal(best, _core.expand_dims(classes, -1)), -1)
        return _core.mean(_core.astype(_core.logical_and(found, _core.logical_not(_core.any(_core.isnan(predictions), -1))), "float32"))


class _Counted(Metric):
    """A metric of sums over all samples. measure() gives a vector of a batch's sums; of_sums() makes the result of their totals."""

    def of_sums(self, sums):
        """The metric, a number or a NumPy array, of the totals of measure()'s vectors."""
        raise NotImplementedError(f"{type(self).__name__} does not define of_sums(sums)")

    def merged(self, before, added):
        """The vector of all batches up to one, from that before it and its own."""
        return [a + b for a, b in zip(before, added)]

    def update(self, value, samples: int = 1) -> None:
        """Adds a batch's sums."""
        errors.in_range(type(self).__name__, "it is a number of samples", 0, samples=samples)
        numbers = value.numpy().astype("float64").tolist()
        self._sums = self.merged(self._sums, numbers) if self._sums else numbers
        self._count += samples

    def result(self):
        """The metric over all samples so far; NaN before the first."""
        return self.of_sums(self._sums) if self._sums else float("nan")

    def reset(self) -> None:
        """Forgets all batches."""
        self._sums = []
        super().reset()


class _Binary(_Counted):
    """Of the counts of true positives, false positives and false negatives."""

    def __init__(self, threshold: float = 0.5, name: str | None = None):
        errors.in_range(type(self).__name__, "predictions above it are positive", -math.inf, threshold=threshold)
        self.threshold = threshold
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        labels, predictions = _beside(self, labels, predictions)
        said, true = predictions > self.threshold, labels > 0.5
        return _core.stack([_count(said & true), _count(said & ~true), _count(~said & true)])


class Precision(_Binary):
    """The fraction of positive predictions that are right; 0 without any. A prediction above the threshold is positive: 0.5 for probabilities, 0 for logits. Labels
    are 0 or 1, of the predictions' shape."""

    name = "precision"
    larger_is_better = True

    def of_sums(self, sums):
        return sums[0] / (sums[0] + sums[1]) if sums[0] else 0.0


class Recall(_Binary):
    """The fraction of positive labels that are predicted; 0 without any. As Precision."""

    name = "recall"
    larger_is_better = True

    def of_sums(self, sums):
        return sums[0] / (sums[0] + sums[2]) if sums[0] else 0.0


class F1(_Binary):
    """The harmonic mean of precision and recall. As Precision."""

    name = "f1"
    larger_is_better = True

    def of_sums(self, sums):
        return 2 * sums[0] / (2 * sums[0] + sums[1] + sums[2]) if sums[0] else 0.0


class AUC(_Counted):
    """The area under the curve of true over false positive rates, by trapezoids between `thresholds` thresholds from 0 to 1. Predictions are probabilities, labels 0 or 1."""

    name = "auc"
    larger_is_better = True

    def __init__(self, thresholds: int = 200, name: str | None = None):
        errors.in_range("AUC", "the curve has two ends", 2, 100_000, thresholds=thresholds)
        self.thresholds = thresholds
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        n = self.thresholds
        edges = _core.constant([-1e-7, *(i / (n - 1) for i in range(1, n - 1)), 1 + 1e-7], "float32")
        labels, predictions = _beside(self, labels, predictions)
        fit = (predictions >= -1e-6) & (predictions <= 1 + 1e-6)  # not so for NaN
        said = _core.reshape(_core.clip(_core.astype(predictions, "float32"), 0.0, 1.0), (-1, 1)) > edges
        true = _core.reshape(labels > 0.5, (-1, 1))
        sums = [_core.sum(_core.astype(said & of, "float32"), 0) for of in (true, ~true)]
        return _core.concat([*sums, _core.reshape(_count(~fit), (1,))])

    def update(self, value, samples: int = 1) -> None:
        """Adds a batch's sums. Raises InvalidArgument for predictions that are no probabilities."""
        wrong = int(value.numpy()[-1])
        if wrong:
            raise errors.InvalidArgument(f"AUC: {wrong} predictions of a batch are NaN, or not from 0 to 1", why="its thresholds are probabilities", fix='end the model with a "sigmoid", or pass lm.sigmoid(logits)')
        super().update(value, samples)

    def of_sums(self, sums):
        true, false = sums[:self.thresholds], sums[self.thresholds:2 * self.thresholds]
        if not true[0] or not false[0]:
            return 0.0
        return sum((false[i] - false[i + 1]) * (true[i] + true[i + 1]) / 2 for i in range(self.thresholds - 1)) / true[0] / false[0]


class R2(_Counted):
    """1 - the squared errors' sum over the labels' squared deviations from their mean; with several columns, the mean of theirs."""

    name = "r2"
    larger_is_better = True

    @_measuring
    def measure(self, labels, predictions):
        labels, predictions = _beside(self, labels, _core.astype(predictions, "float64"))
        y, p = (_core.reshape(t, (-1, math.prod(t.shape[1:]))) for t in (labels, predictions))
        n = _core.sum(_core.ones_like(y[:, :1]), 0)
        first = _core.sum(y[:1], 0)  # of no rows: 0
        from_first = y - first  # exactly 0 where labels are constant
        shift = _core.sum(from_first, 0) / _core.maximum(n, 1.0)
        return _core.concat([n, _core.sum(_core.square(y - p), 0), first + shift, _core.sum(_core.square(from_first - shift), 0)])

    def merged(self, before, added):
        """By the formula of Chan, Golub and LeVeque 1979: the batches' [rows, squared errors, labels' means, squared deviations from these]."""
        k, n = len(before) // 3, before[0] + added[0]
        if not n:
            return added
        share, columns = added[0] / n, range(1, 1 + k)
        apart = [added[i + k] - before[i + k] for i in columns]
        means = [before[i + k] + share * gap for i, gap in zip(columns, apart)]
        return [n, *(before[i] + added[i] for i in columns), *means, *(before[i + 2 * k] + added[i + 2 * k] + before[0] * share * gap ** 2 for i, gap in zip(columns, apart))]

    def of_sums(self, sums):
        k = len(sums) // 3
        return sum(0.0 if spread == 0 else 1 - wrong / spread for wrong, spread in zip(sums[1:1 + k], sums[1 + 2 * k:])) / k if sums[0] else float("nan")


class ConfusionMatrix(_Counted):
    """How often class i was predicted as class j: lists [classes][classes]. Labels as for accuracy; IndexOutOfRange for a label or a prediction that is no class. Not shown in the progress bar."""

    name = "confusion_matrix"

    def __init__(self, classes: int, name: str | None = None):
        errors.in_range("ConfusionMatrix", "it is their number", 1, classes=classes)
        self.classes = classes
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        each = _core.eye(self.classes)
        rows, columns = (_core.take(each, _core.where(i < 0, self.classes, i), axis=0) for i in (_classes(labels, predictions), _core.argmax(predictions, -1)))  # from 0, or refused
        return _core.reshape(_core.matmul(rows, columns, transpose_a=True), (-1,))

    def of_sums(self, sums):
        return [[int(n) for n in sums[i * self.classes:(i + 1) * self.classes]] for i in range(self.classes)]


def _beside(metric, labels, predictions):
    """(labels in the predictions' shape and dtype, the predictions): floats; float64 for integers."""
    if not predictions.dtype.is_floating:
        predictions = _core.astype(predictions, "float64")
    given, labels = labels, _core.astype(labels, predictions.dtype)
    if len(labels.shape) + 1 == len(predictions.shape) and predictions.shape[-1] == 1:
        labels = _core.expand_dims(labels, -1)
    elif len(labels.shape) == len(predictions.shape) + 1 and labels.shape[-1] == 1:
        labels = _core.squeeze(labels, -1)
    if len(labels.shape) != len(predictions.shape) or any(a != b and None not in (a, b) for a, b in zip(labels.shape, predictions.shape)):
        classes = len(given.shape) < len(predictions.shape)
        raise errors.InvalidArgument(f"{type(metric).__name__}: labels of shape {tuple(given.shape)} do not fit predictions of shape {tuple(predictions.shape)}", why="it compares each prediction with a label of its own",
                                     fix="for labels that number classes use \"accuracy\"; for one prediction each end the model with Dense(1)" if classes else "pass labels of the predictions' shape")
    return labels, predictions


def _classes(labels, predictions):
    """int64 [rows] of labels [rows], [rows, 1] or one-hot rows."""
    if len(labels.shape) == len(predictions.shape):
        labels = _core.squeeze(labels, -1) if labels.shape[-1] == 1 else _core.argmax(labels, -1)
    return _core.astype(labels, "int64")


def _count(true):
    return _core.sum(_core.astype(true, "float32"))


class _FromFunction(Metric):
    def __init__(self, function):
        self._function = function
        name = getattr(function, "__name__", "metric")
        self.larger_is_better = _BY_NAME[name].larger_is_better if name in _BY_NAME else None
        super().__init__(name)

    @_measuring
    def measure(self, labels, predictions):
        return _core.mean(self._function(labels, predictions))


_BY_NAME = {
    "accuracy": Accuracy, "acc": Accuracy, "auc": AUC, "binary_accuracy": BinaryAccuracy, "f1": F1, "mae": MeanAbsoluteError, "mean_absolute_error": MeanAbsoluteError,
    "mean_squared_error": MeanSquaredError, "mse": MeanSquaredError, "precision": Precision, "r2": R2, "recall": Recall, "top_k": TopK,
}


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


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.metrics", __all__)
_border.guard(globals())
