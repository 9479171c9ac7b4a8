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


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.losses", __all__)
_border.guard(globals())
