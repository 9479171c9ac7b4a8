"""Layers of several inputs of one shape: Add()([a, b]). What they do at masked steps is what Keras does."""
from __future__ import annotations

import functools

from .. import _border, _core, errors
from . import masks
from .layer import Layer


def _masks_beside(inputs) -> list:
    """The masks of tensors, each in a shape that broadcasts to its tensor's."""
    return [None if mask is None else _core.reshape(mask, (*mask.shape, *[1] * (len(x.shape) - len(mask.shape)))) for x, mask in zip(inputs, masks.of(inputs))]


class _Merge(Layer):
    supports_masking = True

    def call(self, inputs):
        if not isinstance(inputs, (tuple, list)) or len(inputs) < 2:
            raise errors.TypeMismatch(f"{self.name}: it takes a list of at least two tensors, not {errors.shown(inputs)}", fix=f"write {type(self).__name__}()([a, b])")
        return self.merged(list(inputs))

    def compute_mask(self, inputs, mask=None):
        """A step counts where it does in any input, as in Keras; an input without a mask counts everywhere."""
        return None if mask is None or any(one is None for one in mask) else functools.reduce(_core.logical_or, mask)

    def merged(self, inputs):
        """One tensor of a list of tensors."""
        raise NotImplementedError


class Add(_Merge):
    """The sum of tensors, which broadcast."""

    def merged(self, inputs):
        return functools.reduce(_core.add, inputs)


class Subtract(_Merge):
    """The first of two tensors minus the second."""

    def merged(self, inputs):
        if len(inputs) != 2:
            raise errors.InvalidArgument(f"{self.name}: {len(inputs)} tensors", why="it subtracts one from another", fix="pass two")
        return _core.sub(*inputs)


class Multiply(_Merge):
    """The product of tensors, element by element. Steps that a mask leaves out count as 1; the product is 0 where every input's mask leaves them out."""

    def merged(self, inputs):
        known = _masks_beside(inputs)
        product = functools.reduce(_core.mul, [x if mask is None else _core.where(mask, x, 1) for x, mask in zip(inputs, known)])
        return product if any(mask is None for mask in known) else _core.where(functools.reduce(_core.logical_or, known), product, 0)


class Average(_Merge):
    """The mean of tensors, element by element."""

    def merged(self, inputs):
        return functools.reduce(_core.add, inputs) * (1 / len(inputs))


class _Extreme(_Merge):
    def merged(self, inputs):
        known = _masks_beside(inputs)
        best, counted = inputs[0], known[0]
        for x, mask in zip(inputs[1:], known[1:]):
            x = x if mask is None else _core.where(mask, x, best)
            best = type(self)._of(best if counted is None else _core.where(counted, best, x), x)
            counted = None if mask is None or counted is None else _core.logical_or(counted, mask)
        return best


class Maximum(_Extreme):
    """The largest of tensors, element by element. Steps that a mask leaves out take no part where another input counts."""

    _of = staticmethod(_core.maximum)


class Minimum(_Extreme):
    """The smallest of tensors, element by element. Steps that a mask leaves out take no part where another input counts."""

    _of = staticmethod(_core.minimum)


class Concatenate(_Merge):
    """Tensors one after another along an axis, by default the last."""

    def __init__(self, axis: int = -1, name: str | None = None):
        super().__init__(name=name)
        self.axis = axis

    def compute_mask(self, inputs, mask=None):
        """Along an axis of the masks, samples or steps, they are joined; an input without one counts in all its steps. Along others, a step counts where it does in any input."""
        axis, rank = self.axis % len(inputs[0].shape), next((len(one.shape) for one in mask or () if one is not None), 0)
        if axis >= rank:
            return super().compute_mask(inputs, mask)
        known = [one if one is not None else _core.ones_like(x[(*[slice(None)] * rank, *[0] * (len(x.shape) - rank))], "bool") for x, one in zip(inputs, mask)]
        return _core.concat(known, axis)

    def merged(self, inputs):
        return _core.concat(inputs, self.axis)


_border.guard(globals())
