"""The built-in layers. Their computations are the C++ ones."""
from __future__ import annotations

import math

from .. import _border, _core, errors
from .layer import CoreLayer, Layer, _shape


class Dense(CoreLayer):
    """activation(x @ kernel + bias): x [..., inputs] -> [..., units].

    kernel is [inputs, units], bias [units]; both exist from the first call on. activation is a name ("relu", "tanh", "sigmoid", "softmax",
    "gelu", ...), a function, or None. Initializers are names, lm.nn.initializers or functions of the shape.
    """

    kernel: _core.Variable
    bias: _core.Variable
    _weights = ("kernel", "bias")
    supports_masking = True

    def __init__(self, units: int, activation=None, use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 dtype="float32", name: str | None = None, input_shape=None, trainable: bool = True,
                 kernel_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, bias=bias_regularizer)
        self.units = units
        self.use_bias = use_bias
        self.input_shape = _shape(self, input_shape)
        self._computed_by("Dense", units, activation, use_bias, kernel_initializer, bias_initializer, dtype, self.name)


class Flatten(CoreLayer):
    """x [n, a, b, ...] -> [n, a b ...]."""

    def __init__(self, name: str | None = None, input_shape=None):
        super().__init__(name=name)
        self.input_shape = _shape(self, input_shape)
        self._computed_by("Flatten", self.name)


class Dropout(Layer):
    """In training, sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate); otherwise returns x. 0 <= rate
    < 1."""

    supports_masking = True

    def __init__(self, rate: float, name: str | None = None):
        super().__init__(name=name)
        self.rate = rate
        self._computed_by("Dropout", rate, self.name)

    def call(self, x, training=False):
        return self._core.call(x, bool(training))


class Activation(Layer):
    """An activation as a layer, by name or as a function of a tensor."""

    supports_masking = True

    def __init__(self, activation, name: str | None = None):
        super().__init__(name=name)
        self.activation = activation

    def call(self, x):
        return _core.nn.activation(self.activation, x)


class Reshape(CoreLayer):
    """x [n, ...] -> [n, *target_shape]; one length may be -1: it is inferred."""

    def __init__(self, target_shape, name: str | None = None):
        super().__init__(name=name)
        self.target_shape = tuple(target_shape) if not isinstance(target_shape, int) else (target_shape,)
        for length in self.target_shape:
            errors.in_range("Reshape", "it has the lengths of a row; one may be -1", -1, target_shape=length)
        self._computed_by("Reshape", self.target_shape, self.name)


class Lambda(Layer):
    """A function of tensors as a layer. Variables that it uses are not the layer's: for those subclass lm.nn.Layer."""

    def __init__(self, function, name: str | None = None):
        super().__init__(name=name)
        if not callable(function):
            raise errors.TypeMismatch(f"Lambda: {errors.a_type(function)} is no function", fix="pass a function of tensors")
        self.function = function

    def call(self, *inputs):
        return self.function(*inputs)


class _Named(Layer):
    """The activation of the class's name."""

    supports_masking = True

    def call(self, x):
        return _core.nn.activation(type(self).__name__.lower(), x)


class ReLU(_Named):
    """max(x, 0)."""


class Sigmoid(_Named):
    """1 / (1 + exp(-x))."""


class Tanh(_Named):
    """The hyperbolic tangent."""


class GELU(_Named):
    """x times the standard normal distribution function of x."""


class SiLU(_Named):
    """x sigmoid(x)."""


class SELU(_Named):
    """1.0507 elu(x, 1.6733): keeps mean 0 and variance 1."""


class Softplus(_Named):
    """log(1 + exp(x))."""


class Softmax(Layer):
    """exp(x) along an axis, by default the last, divided by its sum."""

    def __init__(self, axis: int = -1, name: str | None = None):
        super().__init__(name=name)
        self.axis = axis

    def call(self, x):
        return _core.softmax(x, self.axis)


class LeakyReLU(Layer):
    """x where it is positive, else negative_slope x."""

    def __init__(self, negative_slope: float = 0.3, name: str | None = None):
        super().__init__(name=name)
        errors.in_range("LeakyReLU", "it is a slope", -math.inf, negative_slope=negative_slope)
        self.negative_slope = negative_slope

    def call(self, x):
        return _core.leaky_relu(x, self.negative_slope)


class ELU(Layer):
    """x where it is positive, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, name: str | None = None):
        super().__init__(name=name)
        errors.in_range("ELU", "it is a factor", -math.inf, alpha=alpha)
        self.alpha = alpha

    def call(self, x):
        return _core.elu(x, self.alpha)


_border.guard(globals())
