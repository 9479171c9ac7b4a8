"""Normalisation layers and Embedding. Their computations are the C++ ones."""
from __future__ import annotations

from .. import _border, _core
from .layer import CoreLayer, Layer


class BatchNorm(CoreLayer):
    """x [..., c], per channel: (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    Training uses the batch's statistics and updates the moving ones: moving = momentum * moving + (1 - momentum) * batch. Otherwise the
    moving ones are used. gamma, beta, moving_mean and moving_variance are [c]; the last two are not trainable, and float32 if dtype is a
    half type.
    """

    _weights = ("gamma", "beta", "moving_mean", "moving_variance")
    supports_masking = True

    def __init__(self, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True, dtype="float32",
                 name: str | None = None, trainable: bool = True,
                 gamma_regularizer=None, beta_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(gamma=gamma_regularizer, beta=beta_regularizer)
        self.momentum, self.epsilon = momentum, epsilon
        self._computed_by("BatchNorm", momentum, epsilon, center, scale, dtype, self.name)

    def call(self, x, training=False):
        return self._core.call(x, bool(training) and self.trainable)


class LayerNorm(CoreLayer):
    """Normalises each sample to mean 0 and variance 1 over the last axes, then multiplies by gamma and adds beta, which have those axes'
    shape."""

    _weights = ("gamma", "beta")
    supports_masking = True

    def __init__(self, axis=-1, epsilon: float = 1e-3, center: bool = True, scale: bool = True, dtype="float32", name: str | None = None,
                 trainable: bool = True,
                 gamma_regularizer=None, beta_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(gamma=gamma_regularizer, beta=beta_regularizer)
        self.axis, self.epsilon = axis, epsilon
        self._computed_by("LayerNorm", axis, epsilon, center, scale, dtype, self.name)


class RMSNorm(CoreLayer):
    """x / sqrt(mean of squares over the last axis + epsilon) * scale, Zhang and Sennrich 2019; scale has that axis's length."""

    _weights = ("scale",)
    supports_masking = True

    def __init__(self, epsilon: float = 1e-6, dtype="float32", name: str | None = None, trainable: bool = True,
                 scale_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(scale=scale_regularizer)
        self.epsilon = epsilon
        self._computed_by("RMSNorm", epsilon, dtype, self.name)


class GroupNorm(CoreLayer):
    """Normalises each sample of x [n, ..., c] to mean 0 and variance 1 within each of `groups` groups of channels, then multiplies by gamma [c] and adds beta [c]. Wu
    and He 2018. groups=-1: one for each channel."""

    _weights = ("gamma", "beta")
    supports_masking = True

    def __init__(self, groups: int = 32, epsilon: float = 1e-3, center: bool = True, scale: bool = True, dtype="float32", name: str | None = None,
                 trainable: bool = True,
                 gamma_regularizer=None, beta_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(gamma=gamma_regularizer, beta=beta_regularizer)
        self.groups, self.epsilon = groups, epsilon
        self._computed_by("GroupNorm", groups, epsilon, center, scale, dtype, self.name)


class Embedding(Layer):
    """Integer ids [...] -> rows of a table [input_dim, output_dim]: [..., output_dim]. Raises IndexOutOfRange for an id without a row; as an index does, a
    negative id counts rows from the end.

    mask_zero: id 0 is padding; the layers after it leave such steps out, as models.md says.
    """

    _weights = ("embeddings",)
    supports_masking = None

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer="random_uniform", dtype="float32", name: str | None = None,
                 trainable: bool = True, mask_zero: bool = False,
                 embeddings_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(embeddings=embeddings_regularizer)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, bool(mask_zero)
        self._makes_mask = self.mask_zero
        self._computed_by("Embedding", input_dim, output_dim, embeddings_initializer, dtype, self.name)

    def build(self, input_shape):
        self._build_core()

    def call(self, ids):
        return self._core.call(ids)

    def compute_mask(self, inputs, mask=None):
        return _core.not_equal(inputs, 0) if self.mask_zero else None


class Masking(Layer):
    """x [n, t, c] with zeros in place of the steps whose numbers are all mask_value; the layers after it leave these out, as models.md says."""

    supports_masking = None
    _makes_mask = True

    def __init__(self, mask_value: float = 0.0, name: str | None = None):
        super().__init__(name=name)
        self.mask_value = mask_value

    def _differs(self, x):
        x = x if isinstance(x, _core.Tensor) else _core.constant(x)
        return _core.not_equal(x if x.dtype.is_floating else _core.astype(x, "float64"), self.mask_value)  # integers beside a value that may be a fraction

    def call(self, x):
        return _core.where(_core.any(self._differs(x), -1, True), x, _core.zeros_like(x))

    def compute_mask(self, inputs, mask=None):
        return _core.any(self._differs(inputs), -1)


BatchNormalization, LayerNormalization, GroupNormalization, RMSNormalization = BatchNorm, LayerNorm, GroupNorm, RMSNorm


_border.guard(globals())
