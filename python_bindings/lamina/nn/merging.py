"""Layers of several inputs of one shape: Add()([a, b])."""
from __future__ import annotations

import functools

from .. import _border, _core, errors
from .layer import Layer


class _Merge(Layer):
    supports_masking = True

    def call(self, inputs):
        if not isinstance(inputs, (tuple, list)) or len(inputs) < 2:
            raise errors.TypeMismatch(f"{self.name}: it takes a list of at least two tensors, not {errors.shown(inputs)}", fix=f"write {type(self).__name__}()([a, b])")
        return self.merged(list(inputs))

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
    """The product of tensors, element by element."""

    def merged(self, inputs):
        return functools.reduce(_core.mul, inputs)


class Average(_Merge):
    """The mean of tensors, element by element."""

    def merged(self, inputs):
        return functools.reduce(_core.add, inputs) * (1 / len(inputs))


class Maximum(_Merge):
    """The largest of tensors, element by element."""

    def merged(self, inputs):
        return functools.reduce(_core.maximum, inputs)


class Minimum(_Merge):
    """The smallest of tensors, element by element."""

    def merged(self, inputs):
        return functools.reduce(_core.minimum, inputs)


class Concatenate(_Merge):
    """Tensors one after another along an axis, by default the last."""

    def __init__(self, axis: int = -1, name: str | None = None):
        super().__init__(name=name)
        self.axis = axis

    def compute_mask(self, inputs, mask=None):
        """Along an axis of the masks, samples or steps, they are joined; an input without one counts in all its steps. Along others, a step counts where it does in all inputs."""
        axis, rank = self.axis % len(inputs[0].shape), next((len(one.shape) for one in mask or () if one is not None), 0)
        if axis >= rank:
            return super().compute_mask(inputs, mask)
        known = [one if one is not None else _core.ones_like(x[(*[slice(None)] * rank, *[0] * (len(x.shape) - rank))], "bool") for x, one in zip(inputs, mask)]
        return _core.concat(known, axis)

    def merged(self, inputs):
        return _core.concat(inputs, self.axis)


_border.guard(globals())
