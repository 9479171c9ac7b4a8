"""Layers over images [n, height, width, channels] and sequences [n, length, channels]. Their computations are the C++ ones."""
from __future__ import annotations

from .. import _border, _core, errors
from .layer import CoreLayer, Layer, _shape


def _sizes(layer, **named):
    """Checks arguments that are a number or (rows, columns)."""
    for name, value in named.items():
        parts = value if isinstance(value, (tuple, list)) else [value]
        if len(parts) not in ((1, 2) if parts is value else (1,)) or not all(hasattr(type(part), "__index__") and not isinstance(part, bool) for part in parts):
            raise errors.TypeMismatch(f"{type(layer).__name__}: {name} is {errors.shown(value)}", why="it is a number, or a pair for rows and columns", fix="pass 2, or (2, 2)")
        for part in parts:
            errors.in_range(type(layer).__name__, "it is a number, or a pair for rows and columns", 1, **{name: part})


def _padding(layer, padding):
    """Checks an argument padding: for each side a number or (before, after), or one number for all."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise _core.unknown_name("padding", padding, ["valid", "same"])
        return
    parts = [part for side in (padding if isinstance(padding, (tuple, list)) else [padding]) for part in (side if isinstance(side, (tuple, list)) else [side])]
    if not 1 <= len(parts) <= 4 or not all(hasattr(type(part), "__index__") and not isinstance(part, bool) and part >= 0 for part in parts):
        raise errors.InvalidArgument(f"{type(layer).__name__}: padding is {errors.shown(padding)}", why="it is how many zeros are added at each side", fix='pass "same", "valid" or a number')


def _keep_window(layer, pool_size, strides, padding):
    """Checks and keeps the arguments of a pooling layer."""
    _sizes(layer, pool_size=pool_size, **({} if strides is None else {"strides": strides}))
    _padding(layer, padding)
    layer.pool_size, layer.strides, layer.padding = pool_size, strides, padding


def _of_rank(layer, x, rank):
    x = x if isinstance(x, _core.Tensor) else _core.constant(x)
    if len(x.shape) != rank:
        raise errors.InvalidArgument(f"{layer.name}: x has the shape {list(x.shape)}", why="it takes [n, length, channels]" if rank == 3 else "it takes [n, height, width, channels]", fix="reshape x")
    return x


class _Conv(CoreLayer):
    _weights = ("kernel", "bias")

    def _keep(self, kernel_size, strides, padding, dilation_rate, input_shape):
        """Checks arguments that all convolutions have."""
        _sizes(self, kernel_size=kernel_size, strides=strides, dilation_rate=dilation_rate)
        _padding(self, padding)
        self.kernel_size, self.strides, self.padding = kernel_size, strides, padding
        self.input_shape = _shape(self, input_shape)


class Conv2D(_Conv):
    """activation(conv2d(x, kernel) + bias): x [n, h, w, c] -> [n, h', w', filters].

    kernel_size, strides and dilation_rate are a number or (rows, columns). padding is "valid", "same", a number, (rows, columns) or
    ((above, below), (left, right)). kernel is [rows, columns, c / groups, filters], bias [filters]; both exist from the first call on.
    """

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1, activation=None,
                 use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True,
                 kernel_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, bias=bias_regularizer)
        self._keep(kernel_size, strides, padding, dilation_rate, input_shape)
        self.filters = filters
        self._computed_by("Conv2D", filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                          kernel_initializer, bias_initializer, dtype, self.name)


class Conv2DTranspose(_Conv):
    """Transposed convolution: the gradient of a Conv2D as a layer, which enlarges images by the strides. kernel is [rows, columns, filters
    / groups, c]. output_padding, a number or (rows, columns) below the strides and the kernel's size, makes images so much larger at the end; not beside padding="same"."""

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1, activation=None,
                 use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True, output_padding=0,
                 kernel_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, bias=bias_regularizer)
        self._keep(kernel_size, strides, padding, dilation_rate, input_shape)
        self.filters = filters
        self._computed_by("Conv2DTranspose", filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                          kernel_initializer, bias_initializer, dtype, self.name, output_padding)


class Conv1D(_Conv):
    """x [n, length, c] -> [n, length', filters]; kernel [kernel_size, c / groups, filters]. padding: "valid", "same", a number or (before, after)."""

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1,
                 activation=None, use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32",
                 name: str | None = None, input_shape=None, trainable: bool = True,
                 kernel_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, bias=bias_regularizer)
        self._keep(kernel_size, strides, padding, dilation_rate, input_shape)
        self.filters = filters
        self._computed_by("Conv1D", filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias,
                          kernel_initializer, bias_initializer, dtype, self.name)


class Conv1DTranspose(_Conv):
    """Transposed Conv1D, which lengthens sequences by the stride. kernel is [kernel_size, filters / groups, c]. output_padding, below the stride and kernel_size, adds so many steps at the end; not
    beside padding="same"."""

    def __init__(self, filters: int, kernel_size, strides=1, padding="valid", dilation_rate=1, groups: int = 1, activation=None,
                 use_bias: bool = True, kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32", name: str | None = None,
                 input_shape=None, trainable: bool = True, output_padding=0,
                 kernel_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, bias=bias_regularizer)
        self._keep(kernel_size, strides, padding, dilation_rate, input_shape)
        self.filters = filters
        self._computed_by("Conv1DTranspose", filters, kernel_size, strides, padding, dilation_rate, groups, activation, use_bias, kernel_initializer,
                          bias_initializer, dtype, self.name, output_padding)


class DepthwiseConv2D(_Conv):
    """Convolves each channel by depth_multiplier filters of its own: x [n, h, w, c] -> [n, h', w', c depth_multiplier]. kernel is [rows, columns, c, depth_multiplier]."""

    def __init__(self, kernel_size, strides=1, padding="valid", depth_multiplier: int = 1, dilation_rate=1, activation=None, use_bias: bool = True,
                 depthwise_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32", name: str | None = None, input_shape=None, trainable: bool = True,
                 depthwise_regularizer=None, bias_regularizer=None):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=depthwise_regularizer, bias=bias_regularizer)
        self._keep(kernel_size, strides, padding, dilation_rate, input_shape)
        self.depth_multiplier = depth_multiplier
        self._computed_by("DepthwiseConv2D", kernel_size, depth_multiplier, strides, padding, dilation_rate, activation, use_bias, depthwise_initializer,
                          bias_initializer, dtype, self.name)


class MaxPool1D(CoreLayer):
    """The maximum of each window over [n, l, c]; the stride is by default the window's size."""

    def __init__(self, pool_size=2, strides=None, padding="valid", name: str | None = None):
        super().__init__(name=name)
        _keep_window(self, pool_size, strides, padding)
        self._computed_by("Pool1D", True, pool_size, strides, padding, self.name)


class AveragePooling1D(CoreLayer):
    """The mean of each window over [n, l, c], without padding; the stride is by default the window's size."""

    def __init__(self, pool_size=2, strides=None, padding="valid", name: str | None = None):
        super().__init__(name=name)
        _keep_window(self, pool_size, strides, padding)
        self._computed_by("Pool1D", False, pool_size, strides, padding, self.name)


class _Global(Layer):
    def __init__(self, keepdims: bool = False, name: str | None = None):
        super().__init__(name=name)
        self.keepdims = keepdims


class GlobalAveragePool1D(_Global):
    """The mean over each sequence, or over its steps where mask (bool [n, l]) is true: [n, l, c] -> [n, c]."""

    supports_masking = None

    def compute_mask(self, inputs, mask=None):
        return None

    def call(self, x, mask=None):
        if mask is None:
            return _core.mean(_of_rank(self, x, 3), 1, self.keepdims)
        counted = _core.astype(mask, x.dtype)[:, :, None]
        return _core.sum(x * counted, 1, self.keepdims) / _core.maximum(_core.sum(counted, 1, self.keepdims), 1.0)


class GlobalMaxPool1D(_Global):
    """The maximum of each sequence: [n, l, c] -> [n, c]."""

    def call(self, x):
        return _core.max(_of_rank(self, x, 3), 1, self.keepdims)


class UpSampling2D(CoreLayer):
    """Repeats each pixel: [n, h, w, c] -> [n, h rows, w columns, c] with size = (rows, columns) or a number."""

    def __init__(self, size=2, name: str | None = None):
        super().__init__(name=name)
        _sizes(self, size=size)
        self.size = size
        self._computed_by("UpSampling2D", size, self.name)


class ZeroPadding2D(CoreLayer):
    """Zeros around images. padding: a number, (rows, columns) or ((above, below), (left, right))."""

    def __init__(self, padding=1, name: str | None = None):
        super().__init__(name=name)
        if isinstance(padding, str):
            raise errors.TypeMismatch(f"ZeroPadding2D: padding {errors.shown(padding)} is no number", fix="pass 1, (1, 2) or ((1, 2), (3, 4))")
        _padding(self, padding)
        self.padding = padding
        self._computed_by("ZeroPadding2D", padding, self.name)


class _Pool2D(Layer):
    def __init__(self, pool_size=2, strides=None, padding="valid", name: str | None = None):
        super().__init__(name=name)
        _keep_window(self, pool_size, strides, padding)


class MaxPool2D(_Pool2D):
    """The maximum of each window over [n, h, w, c]; strides default to the window's size."""

    def call(self, x):
        return _core.max_pool2d(x, self.pool_size, self.strides, self.padding)


class AveragePooling2D(_Pool2D):
    """The mean of each window over [n, h, w, c], without padding; strides default to the window's size."""

    def call(self, x):
        return _core.avg_pool2d(x, self.pool_size, self.strides, self.padding)


class GlobalAveragePool2D(_Global):
    """The mean over each image: [n, h, w, c] -> [n, c]."""

    def call(self, x):
        return _core.mean(_of_rank(self, x, 4), (1, 2), self.keepdims)


class GlobalMaxPool2D(_Global):
    """The maximum of each image: [n, h, w, c] -> [n, c]."""

    def call(self, x):
        return _core.max(_of_rank(self, x, 4), (1, 2), self.keepdims)


MaxPooling2D, AvgPool2D = MaxPool2D, AveragePooling2D
GlobalAveragePooling2D, GlobalMaxPooling2D = GlobalAveragePool2D, GlobalMaxPool2D
MaxPooling1D, AvgPool1D = MaxPool1D, AveragePooling1D
GlobalAveragePooling1D, GlobalMaxPooling1D = GlobalAveragePool1D, GlobalMaxPool1D


_border.guard(globals())
