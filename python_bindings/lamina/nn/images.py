"""Layers over images [n, height, width, channels] and sequences [n, length, channels]. Their computations are the C++ ones."""
from __future__ import annotations

from .. import _border, _core
from .layer import Layer


class _Conv(Layer):
    def build(self, input_shape):
        self._core.build(input_shape)
        self.kernel, self.bias = self._core.kernel, self._core.bias

    def call(self, x):
        return self._core.call(x)


class Conv2D(_Conv):
    """activation(conv2d(x, kernel) + bias): x [n, h, w, c] -> [n, h', w', filters].

    kernel_size, strides and dilation_rate are a number or (rows, columns). padding is "valid", "same", a number, (rows, columns) or
    ((above, below), (left, right)). kernel is [rows, columns, c / groups, filters], bias [filters]; both exist from the first call on.
    """

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1, activation=None,
                 use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        self.filters, self.kernel_size, self.strides, self.padding = filters, kernel_size, strides, padding
        self.input_shape = input_shape
        self._core = _core.nn.Conv2D(filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                                     kernel_initializer, bias_initializer, dtype, self.name)


class Conv2DTranspose(_Conv):
    """Transposed convolution: the gradient of a Conv2D as a layer, which enlarges images by the strides. kernel is [rows, columns, filters
    / groups, c]."""

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1, activation=None,
                 use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True, output_padding=0):
        super().__init__(name=name, trainable=trainable)
        self.filters, self.kernel_size, self.strides, self.padding = filters, kernel_size, strides, padding
        self.input_shape = input_shape
        self._core = _core.nn.Conv2DTranspose(filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                                              kernel_initializer, bias_initializer, dtype, self.name, output_padding)


class Conv1D(_Conv):
    """x [n, length, c] -> [n, length', filters]; kernel [kernel_size, c / groups, filters]. padding: "valid", "same", a number or (before, after)."""

    def __init__(self, filters: int, kernel_size: int, strides: int = 1, padding="valid", dilation_rate: int = 1, groups: int = 1,
                 activation=None, use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        self.filters, self.kernel_size, self.strides, self.padding = filters, kernel_size, strides, padding
        self.input_shape = input_shape
        self._core = _core.nn.Conv1D(filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                                     kernel_initializer, bias_initializer, dtype, self.name)


class MaxPool2D(Layer):
    """The maximum of each window over [n, h, w, c]; strides default to the window's size."""

    def __init__(self, pool_size=2, strides=None, padding="valid", name: str | None = None):
        super().__init__(name=name)
        self.pool_size, self.strides, self.padding = pool_size, strides, padding

    def call(self, x):
        return _core.max_pool2d(x, self.pool_size, self.strides, self.padding)


class AveragePooling2D(Layer):
    """The mean of each window over [n, h, w, c], without padding; strides default to the window's size."""

    def __init__(self, pool_size=2, strides=None, padding="valid", name: str | None = None):
        super().__init__(name=name)
        self.pool_size, self.strides, self.padding = pool_size, strides, padding

    def call(self, x):
        return _core.avg_pool2d(x, self.pool_size, self.strides, self.padding)


class GlobalAveragePool2D(Layer):
    """The mean over each image: [n, h, w, c] -> [n, c]."""

    def __init__(self, keepdims: bool = False, name: str | None = None):
        super().__init__(name=name)
        self.keepdims = keepdims

    def call(self, x):
        return _core.mean(x, (1, 2), self.keepdims)


class GlobalMaxPool2D(Layer):
    """The maximum of each image: [n, h, w, c] -> [n, c]."""

    def __init__(self, keepdims: bool = False, name: str | None = None):
        super().__init__(name=name)
        self.keepdims = keepdims

    def call(self, x):
        return _core.max(x, (1, 2), self.keepdims)


MaxPooling2D, AvgPool2D = MaxPool2D, AveragePooling2D
GlobalAveragePooling2D, GlobalMaxPooling2D = GlobalAveragePool2D, GlobalMaxPool2D


_border.guard(globals())
