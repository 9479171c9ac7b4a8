"""Masks of padded sequences: which steps of a tensor [n, t, ...] count, bool [n, t]. A layer that makes one attaches it to its result, and those after it find it there."""
from __future__ import annotations

import warnings
import weakref

from .. import _core

_of: dict = {}  # id of a tensor: (weak reference to it, its mask)


def attach(tensor, mask) -> None:
    key = id(tensor)
    _of[key] = weakref.ref(tensor, lambda _: _of.pop(key, None)), mask


def of(tensor):
    """The mask of a tensor, or None; of a list of tensors a list."""
    if isinstance(tensor, (tuple, list)):
        return [of(one) for one in tensor]
    known = _of.get(id(tensor))
    return known[1] if known is not None and known[0]() is tensor else None


def any_is_there(mask) -> bool:
    return mask is not None and (not isinstance(mask, list) or any(map(any_is_there, mask)))


def all_of(masks):
    """Where every mask is true; those that are None are left out."""
    masks = [mask for mask in masks if mask is not None]
    found = masks[0] if masks else None
    for mask in masks[1:]:
        found = found if mask is found else _core.logical_and(found, mask)
    return found


def run(layer, call, parameters, args, kwargs):
    """What call(*args, **kwargs) gives, with the inputs' mask passed to it where it takes one, and the mask of the result attached to it."""
    inputs = args[0] if args else next(iter(kwargs.values()), None)
    mask = kwargs["mask"] if kwargs.get("mask") is not None else of(inputs)
    if any_is_there(mask) and "mask" in parameters and kwargs.get("mask") is None and len(args) < 2:
        kwargs = kwargs | {"mask": mask}
    result = call(*args, **kwargs)
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if not isinstance(first, _core.Tensor):
        return result
    after = layer.compute_mask(inputs, mask if any_is_there(mask) else None)
    if after is not None:
        attach(first, after)
    elif any_is_there(mask) and of(first) is None and layer.supports_masking is False and not layer._told_of_mask:
        layer._told_of_mask = True
        warnings.warn(f"{layer.name}: the mask of its input ends here, and padded steps count from now on: {type(layer).__name__} does not pass masks on; if it may, set supports_masking = True",
                      stacklevel=4)
    return result
