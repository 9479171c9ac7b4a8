"""Losses: the error of predictions. Functions return one number per sample; classes, called as loss(y_true, y_pred), return the mean."""
from __future__ import annotations

from . import _border, _core, _elsewhere, errors

Loss = _core.losses.Loss
SparseCrossEntropy = _core.losses.SparseCrossEntropy
CategoricalCrossEntropy = _core.losses.CategoricalCrossEntropy
BinaryCrossEntropy = _core.losses.BinaryCrossEntropy
MeanSquaredError = _core.losses.MeanSquaredError
MeanAbsoluteError = _core.losses.MeanAbsoluteError
Huber = _core.losses.Huber
KLDivergence = _core.losses.KLDivergence
Hinge = _core.losses.Hinge
CosineSimilarity = _core.losses.CosineSimilarity
SparseCategoricalCrossentropy, CategoricalCrossentropy = SparseCrossEntropy, CategoricalCrossEntropy  # Keras's names
BinaryCrossentropy = BinaryCrossEntropy
sparse_categorical_crossentropy = _core.losses.sparse_categorical_crossentropy
categorical_crossentropy = _core.losses.categorical_crossentropy
binary_crossentropy = _core.losses.binary_crossentropy
mean_squared_error = _core.losses.mean_squared_error
mean_absolute_error = _core.losses.mean_absolute_error
huber = _core.losses.huber
kl_divergence = _core.losses.kl_divergence
hinge = _core.losses.hinge
cosine_similarity = _core.losses.cosine_similarity
mse = _core.losses.mse
mae = _core.losses.mae

__all__ = [
    "BinaryCrossEntropy", "BinaryCrossentropy", "CategoricalCrossEntropy", "CategoricalCrossentropy", "CosineSimilarity", "Hinge", "Huber",
    "KLDivergence", "Loss", "MeanAbsoluteError", "MeanSquaredError", "SparseCategoricalCrossentropy", "SparseCrossEntropy",
    "binary_crossentropy", "categorical_crossentropy", "cosine_similarity", "get", "hinge", "huber", "kl_divergence", "mae",
    "mean_absolute_error", "mean_squared_error", "mse", "sparse_categorical_crossentropy",
]


def get(loss):
    """The loss for a name, or the Loss or function (y_true, y_pred) itself."""
    if isinstance(loss, str):
        return Loss(loss)
    if isinstance(loss, type):
        loss = loss()
    if not callable(loss):
        raise errors.TypeMismatch(f"{errors.a_type(loss)} is not a loss", fix="pass a name, one of lm.losses, or a function (y_true, y_pred)")
    return loss


def _weighted_mean(losses, weights, what):
    """The mean of losses [n] or [n, t, ...] times the weights of samples, [n] or [n, 1], or of their steps, [n, t]. `what` is in errors."""
    if len(losses.shape) == 0:
        raise errors.InvalidArgument(f"{what}: samples have weights, and the loss gives one number for all", why="each sample's loss is multiplied by its weight", fix="return one number per sample")
    weights = _checked_weights(weights, losses, what)
    rank = len(weights.shape)
    return _core.mean((losses if len(losses.shape) == rank else _core.mean(losses, tuple(range(rank, len(losses.shape))))) * weights)


def _checked_weights(weights, losses, what):
    """The weights, [n] or [n, t], in the losses' dtype."""
    given = weights = _core.astype(weights, losses.dtype)
    while len(weights.shape) > 1 and weights.shape[-1] == 1:
        weights = _core.squeeze(weights, -1)
    if len(weights.shape) > len(losses.shape) or any(a != b and None not in (a, b) for a, b in zip(weights.shape, losses.shape)):
        raise errors.InvalidArgument(f"{what}: sample_weight of shape {tuple(given.shape)} does not fit losses of shape {tuple(losses.shape)}", why="each sample, or each step of a sequence, has one weight",
                                     fix="pass one for each row: [n]" if len(losses.shape) == 1 else "pass one for each row, [n], or for each step, [n, t]")
    return weights


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.losses", __all__)
_border.guard(globals())
