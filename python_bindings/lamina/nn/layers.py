"""The built-in layers. Their computations are the C++ ones."""
from __future__ import annotations

from .. import _border, _core, errors
from .layer import Layer


class Dense(Layer):
    """activation(x @ kernel + bias): x [..., inputs] -> [..., units].

    kernel is [inputs, units], bias [units]; both exist from the first call on. activation is a name ("relu", "tanh", "sigmoid", "softmax",
    "gelu", ...), a function, or None. Initializers are names, lm.nn.initializers or functions of the shape.
    """

    def __init__(self, units: int, activation=None, use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 dtype="float32", name: str | None = None, input_shape=None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        if isinstance(units, bool) or not isinstance(units, int):
            raise errors.TypeMismatch(f"Dense: units {errors.shown(units)} is not an integer")
        self.units = units
        self.use_bias = use_bias
        self.input_shape = input_shape
        self._core = _core.nn.Dense(units, activation, use_bias, kernel_initializer, bias_initializer, dtype, self.name)

    def build(self, input_shape):
        self._core.build(input_shape)
        self.kernel, self.bias = self._core.kernel, self._core.bias

    def call(self, x):
        return self._core.call(x)


class Flatten(Layer):
    """x [n, a, b, ...] -> [n, a b ...]."""

    def __init__(self, name: str | None = None, input_shape=None):
        super().__init__(name=name)
        self.input_shape = input_shape
        self._core = _core.nn.Flatten(self.name)

    def call(self, x):
        return self._core.call(x)


class Dropout(Layer):
    """In training, sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate); otherwise returns x. 0 <= rate
    < 1."""

    def __init__(self, rate: float, name: str | None = None):
        super().__init__(name=name)
        self.rate = rate
        self._core = _core.nn.Dropout(rate, self.name)

    def call(self, x, training=False):
        return self._core.call(x, bool(training))


class Activation(Layer):
    """An activation as a layer, by name or as a function of a tensor."""

    def __init__(self, activation, name: str | None = None):
        super().__init__(name=name)
        self.activation = activation

    def call(self, x):
        return _core.nn.activation(self.activation, x)


_border.guard(globals())
