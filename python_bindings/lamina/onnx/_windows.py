"""Windows over images: convolutions and pooling, in as many axes as the op has."""
from __future__ import annotations

import itertools
import math

import numpy as np

from .. import _core as lm
from ._elementwise import along, quantized
from ._open import lengths_of, reshaped
from ._shapes import cut
from ._table import op
from ._tensors import FLOATS, in_float32, shape_of
from . import _sampling  # noqa: F401  its rows

PLACES = 4096  # windows with more places are refused


class Window:
    """Strides, dilations and padding of a node, per axis."""

    def __init__(self, n, dims, kernel):
        axes = len(kernel)
        self.kernel = [int(k) for k in kernel]
        self.strides = n.attr("strides") or [1] * axes
        self.dilations = n.attr("dilations") or [1] * axes
        if len(dims) != axes or min(*self.kernel, *self.strides, *self.dilations) < 1:
            raise n.refuse(f"its window {self.kernel}, strides {self.strides}, dilations {self.dilations} do not fit an image of {len(dims)} axes")
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]
        pads, auto = n.attr("pads") or [0] * 2 * axes, n.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        if auto == "VALID":
            pads = [0] * 2 * axes
        if auto.startswith("SAME"):
            whole = [max((-(-d // s) - 1) * s + r - d, 0) for d, s, r in zip(dims, self.strides, self.reach)]
            less, more = [w // 2 for w in whole], [w - w // 2 for w in whole]
            pads = less + more if auto == "SAME_UPPER" else more + less
        if len(pads) != 2 * axes or min(pads) < 0:
            raise n.refuse(f"its pads {pads} do not fit {axes} axes")
        self.pads = [(pads[i], pads[i + axes]) for i in range(axes)]
        self.ceil = bool(n.attr("ceil_mode", 0))
        self.out = []
        for d, (a, b), r, s in zip(dims, self.pads, self.reach, self.strides):
            span = d + a + b - r
            if span < 0:
                raise n.refuse(f"its window reaches {r}, the image has {d + a + b}")
            count = (-(-span // s) if self.ceil else span // s) + 1
            if self.ceil and (count - 1) * s >= d + a:  # the last window starts in the padding behind
                count -= 1
            self.out.append(count)
        if math.prod(self.kernel) > PLACES:
            raise n.refuse(f"its window has {math.prod(self.kernel):,} places, at most {PLACES:,} are run")

    def padded(self, x, value):
        """x with its padding, and as much behind as a window of ceil_mode reaches."""
        widths = [(0, 0), (0, 0)]
        for d, (a, b), o, s, r in zip(shape_of(x)[2:], self.pads, self.out, self.strides, self.reach):
            widths.append((a, max(b, (o - 1) * s + r - d - a)))
        return lm.pad(x, widths, value=value) if any(w != (0, 0) for w in widths) else x

    def places(self):
        """(place in the window, the slices of a padded image that all windows have there)."""
        for place in itertools.product(*(range(k) for k in self.kernel)):
            yield place, tuple(slice(p * d, p * d + (o - 1) * s + 1, s) for p, d, s, o in zip(place, self.dilations, self.strides, self.out))

    def parts(self, x):
        """What all windows have at each place."""
        for _, key in self.places():
            yield x[(slice(None), slice(None), *key)]


def last(x):
    return lm.moveaxis(x, 1, -1)


def first(x):
    return lm.moveaxis(x, -1, 1)


# --- convolutions ---


def convolved(n, x, w, window, groups):
    """x [n, c, ...] and w [o, c/groups, ...] -> [n, o, ...]."""
    axes = x.ndim - 2
    if axes == 1:
        y = lm.conv1d(last(x), lm.transpose(w, [2, 1, 0]), window.strides[0], window.pads[0], window.dilations[0], groups)
        return first(y)
    if axes == 2:
        y = lm.conv2d(last(x), lm.transpose(w, [2, 3, 1, 0]), tuple(window.strides), tuple(window.pads), tuple(window.dilations), groups)
        return first(y)
    if axes != 3:
        raise n.refuse(f"it has {axes} axes, at most 3 are run")
    x = lm.pad(x, [(0, 0), (0, 0), window.pads[0], (0, 0), (0, 0)])
    depth, total = window.out[0], None
    for k in range(window.kernel[0]):  # one image per place along the first axis
        start = k * window.dilations[0]
        part = cut(x, 2, start, start + (depth - 1) * window.strides[0] + 1, window.strides[0])
        images = lm.reshape(lm.transpose(part, [0, 2, 3, 4, 1]), [-1, *shape_of(part)[3:], shape_of(part)[1]])
        y = lm.conv2d(images, lm.transpose(w[:, :, k], [2, 3, 1, 0]), tuple(window.strides[1:]), tuple(window.pads[1:]), tuple(window.dilations[1:]), groups)
        y = lm.reshape(y, [-1, depth, *shape_of(y)[1:]])
        total = y if total is None else total + y
    return first(total)


def with_bias(y, b):
    return y if b is None else y + lm.reshape(b, [1, -1] + [1] * (y.ndim - 2))


@op("Conv")
def conv(n, x, w, b=None):
    return with_bias(convolved(n, x, w, Window(n, shape_of(x)[2:], n.attr("kernel_shape") or shape_of(w)[2:]), n.attr("group", 1)), b)


def exact(n, x, w, x_zero, w_zero):
    """The convolution of whole numbers, which float64 holds exactly."""
    wide = lambda v: lm.astype(v, lm.float64)
    x, w = wide(x) - (0.0 if x_zero is None else wide(along(x_zero, x, 1))), wide(w) - (0.0 if w_zero is None else wide(along(w_zero, w, 0)))
    return convolved(n, x, w, Window(n, shape_of(x)[2:], shape_of(w)[2:]), n.attr("group", 1))


@op("ConvInteger")
def conv_integer(n, x, w, x_zero=None, w_zero=None):
    return lm.astype(exact(n, x, w, x_zero, w_zero), lm.int32)


@op("QLinearConv")
def qlinear_conv(n, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None):
    y = exact(n, x, w, x_zero, w_zero)
    y = with_bias(y, None if b is None else lm.astype(b, lm.float64))
    factor = lm.astype(lm.reshape(x_scale, []), lm.float64) * lm.astype(along(w_scale, y, 1), lm.float64)
    return quantized(n, lm.astype(y * factor, lm.float32), y_scale, y_zero)


@op("ConvTranspose")
def conv_transpose(n, x, w, b=None):
    dims, kernel, groups = shape_of(x)[2:], shape_of(w)[2:], n.attr("group", 1)
    axes = len(kernel)
    strides, dilations = n.attr("strides") or [1] * axes, n.attr("dilations") or [1] * axes
    more, pads = n.attr("output_padding") or [0] * axes, n.attr("pads") or [0] * 2 * axes
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    auto, wanted = n.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), n.attr("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = [d * s for d, s in zip(dims, strides)]
    if wanted is not None:
        wanted = wanted[-axes:]
        whole = [max((d - 1) * s + o + r - g, 0) for d, s, o, r, g in zip(dims, strides, more, reach, wanted)]
        half, rest = [v // 2 for v in whole], [v - v // 2 for v in whole]
        pads = half + rest if auto == "SAME_UPPER" else rest + half
        more = [max(o, g - ((d - 1) * s + r)) for d, s, o, r, g in zip(dims, strides, more, reach, wanted)]
    n.room([shape_of(x)[0], shape_of(w)[1] * groups, *(d * s + r + o for d, s, r, o in zip(dims, strides, reach, more))], x.dtype)
    # Zeros between the elements, then a convolution with the window turned around.
    for i in range(axes):
        x = spread(x, i + 2, strides[i])
    widths = [(0, 0), (0, 0)]
    for i in range(axes):
        widths.append((reach[i] - 1 - pads[i], reach[i] - 1 - pads[i + axes] + more[i]))
    for i, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            x = cut(x, i, max(-before, 0), shape_of(x)[i] - max(-after, 0))
    x = lm.pad(x, [(max(before, 0), max(after, 0)) for before, after in widths])
    w = lm.flip(w, tuple(range(2, axes + 2)))
    c, o = shape_of(w)[:2]
    w = lm.reshape(lm.swapaxes(lm.reshape(w, [groups, c // groups, o, *kernel]), 1, 2), [groups * o, c // groups, *kernel])
    plain = _Plain(shape_of(x)[2:], kernel, dilations)
    return with_bias(convolved(n, x, w, plain, groups), b)


class _Plain:
    """A window of stride 1 without padding."""

    def __init__(self, dims, kernel, dilations):
        self.kernel, self.dilations, self.strides, self.pads = list(kernel), list(dilations), [1] * len(kernel), [(0, 0)] * len(kernel)
        self.out = [d - (k - 1) * e for d, k, e in zip(dims, kernel, dilations)]


def spread(x, axis, step):
    """x with step - 1 zeros after each element but the last along an axis."""
    if step == 1:
        return x
    dims = lengths_of(x)
    x = lm.pad(lm.expand_dims(x, axis + 1), [(0, 0)] * (axis + 1) + [(0, step - 1)] + [(0, 0)] * (len(dims) - axis - 1))
    x = reshaped(x, [*dims[:axis], dims[axis] * step, *dims[axis + 1:]])
    return cut(x, axis, 0, (dims[axis] - 1) * step + 1)


# --- pooling ---


def lowest(x):
    return -math.inf if x.dtype.name in FLOATS else int(np.iinfo(x.dtype.name).min)


@op("MaxPool")
def max_pool(n, x):
    w = Window(n, shape_of(x)[2:], n.attr("kernel_shape"))
    if x.ndim == 4 and not w.ceil and w.dilations == [1, 1] and x.dtype.name in FLOATS and not n.wanted(1) and all(a < k and b < k for (a, b), k in zip(w.pads, w.kernel)):
        return first(lm.max_pool2d(last(x), tuple(w.kernel), tuple(w.strides), tuple(w.pads)))
    wide = lm.astype(x, lm.int32) if x.dtype.name in ("int8", "uint8") else x
    padded, best, where = w.padded(wide, lowest(wide)), None, None
    if not n.wanted(1):
        for part in w.parts(padded):
            best = part if best is None else lm.maximum(best, part)
        return lm.astype(best, x.dtype)
    dims = shape_of(x)[2:]
    numbers = np.arange(math.prod(shape_of(x)), dtype=np.int64).reshape(shape_of(x))
    if n.attr("storage_order", 0):  # within an image columns come first
        numbers = np.moveaxis(numbers.reshape(-1, *reversed(dims)), range(1, len(dims) + 1), range(len(dims), 0, -1)).reshape(shape_of(x))
    numbers = w.padded(lm.constant(np.ascontiguousarray(numbers)), 0)
    for part, number in zip(w.parts(padded), w.parts(numbers)):
        if best is None:
            best, where = part, number
        else:
            larger = part > best
            best, where = lm.where(larger, part, best), lm.where(larger, number, where)
    return lm.astype(best, x.dtype), where


def summed(w, x):
    total = None
    for part in w.parts(x):
        total = part if total is None else total + part
    return total


@op("AveragePool")
@in_float32
def average_pool(n, x):
    w = Window(n, shape_of(x)[2:], n.attr("kernel_shape"))
    counts = np.ones(shape_of(x)[2:])
    counts = np.pad(counts, w.pads, constant_values=1 if n.attr("count_include_pad", 0) else 0)
    counts = np.pad(counts, [(0, max(0, (o - 1) * s + r - d)) for o, s, r, d in zip(w.out, w.strides, w.reach, counts.shape)])
    divisor = np.zeros(w.out)
    for _, key in w.places():
        divisor += counts[key]
    return summed(w, w.padded(x, 0)) / lm.constant(np.maximum(divisor, 1).astype(x.dtype.name)[None, None])


@op("LpPool")
@in_float32
def lp_pool(n, x):
    w, p = Window(n, shape_of(x)[2:], n.attr("kernel_shape")), n.attr("p", 2)
    powers = lm.square(x) if p == 2 else lm.pow(lm.abs(x), float(p))
    total = summed(w, w.padded(powers, 0))
    return lm.sqrt(total) if p == 2 else lm.pow(total, 1.0 / p)


def over_image(function):
    return lambda n, x: function(n, x, tuple(range(2, x.ndim)))


op("GlobalAveragePool")(over_image(lambda n, x, axes: lm.mean(x, axes, True)))
op("GlobalMaxPool")(over_image(lambda n, x, axes: lm.max(x, axes, True)))
op("GlobalLpPool")(over_image(lambda n, x, axes: lm.pow(lm.sum(lm.pow(lm.abs(x), float(n.attr("p", 2))), axes, True), 1.0 / n.attr("p", 2))))


@op("MaxUnpool", fixed=(2,))
def max_unpool(n, x, places, _=None):
    kernel = n.attr("kernel_shape")
    strides, pads = n.attr("strides") or [1] * len(kernel), n.attr("pads") or [0] * 2 * len(kernel)
    inner = [(d - 1) * s + k - pads[i] - pads[i + len(kernel)] for i, (d, s, k) in enumerate(zip(shape_of(x)[2:], strides, kernel))]
    inner = n.room([*shape_of(x)[:2], *inner], x.dtype)
    out = n.ints(2) or inner
    flat = lm.zeros([math.prod(inner)], x.dtype).at[lm.reshape(places, [-1])].set(lm.reshape(x, [-1]))
    y = lm.reshape(flat, inner)
    return lm.pad(y, [(0, b - a) for a, b in zip(inner, out)]) if out != inner else y


@op("Col2Im", fixed=(1, 2))
def col2im(n, x, *_):
    image, block = n.ints(1), n.ints(2)
    w = Window(n, image, block)
    batch, channels = shape_of(x)[0], shape_of(x)[1] // math.prod(block)
    columns = lm.reshape(x, [batch, channels, *block, *w.out])
    sizes = [d + a + b for d, (a, b) in zip(image, w.pads)]
    total = lm.zeros(n.room([batch, channels, *sizes], x.dtype), x.dtype)
    for place, key in w.places():
        total = total.at[(slice(None), slice(None), *key)].add(columns[(slice(None), slice(None), *place)])
    return total[(slice(None), slice(None), *(slice(a, a + d) for d, (a, _) in zip(image, w.pads)))]
