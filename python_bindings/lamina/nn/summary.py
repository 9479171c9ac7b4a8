"""Model.summary(): a table of layers."""
from __future__ import annotations

from .. import _core, errors
from .._structure import flatten, unflatten
from .layer import _watching


def table_of(model) -> str:
    """Layers in the order of their calls, with output shapes, parameters, and the launch that computes each: layers with the same number are fused into one."""
    shapes, order, groups = _called(model)
    rows = [("layer", "output shape", "parameters", "launch")]
    for layer in order or model.layers:
        count = sum(v.size for v in layer.variables)
        rows.append((f"{layer.name} ({type(layer).__name__})", shapes.get(id(layer), "?"), f"{count:,}", groups.get(id(layer), "")))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join((row[i].rjust if i == 2 else row[i].ljust)(widths[i]) for i in range(4)).rstrip() for row in rows]
    total, trained = (sum(v.size for v in variables) for variables in (model.variables, model.trainable_variables))
    return "\n".join([f"{type(model).__name__} {model.name}", lines[0], "-" * max(map(len, lines)), *lines[1:], "-" * max(map(len, lines)),
                      f"{total:,} parameters, {trained:,} trainable, {total - trained:,} not; {sum(v.size * v.dtype.itemsize for v in model.variables):,} bytes"])


def _called(model):
    """({id(layer): output shapes}, layers in order of their calls, {id(layer): its launches}) of a call on zeros of one row; empty where that fails."""
    specs = model._input_specs()
    if specs is None:
        return {}, [], {}
    leaves, structure = flatten(specs)
    zeros = [_core.zeros([1 if type(d) is not int else d for d in leaf.shape], dtype=leaf.dtype) if isinstance(leaf, _core.TensorSpec) else leaf for leaf in leaves]
    args, kwargs = unflatten(structure, zeros)
    shapes, order, own = {}, [], {id(layer): layer for layer in model.layers}

    def watch(layer, result):
        if id(layer) in own and id(layer) not in shapes:
            order.append(layer)
            shapes[id(layer)] = ", ".join(_shape(t) for t in flatten(result)[0])

    traced = _core.function(lambda *a, **k: model(*a, **k))
    _watching.append(watch)
    try:
        traced(*args, **kwargs)
    except errors.Error:  # zeros are no input of this model
        return shapes, order, {}
    finally:
        _watching.remove(watch)
    return shapes, order, _launches(traced.explain(*args, **kwargs), order)


def _shape(tensor) -> str:
    shape = list(getattr(tensor, "shape", ()))
    return f"({', '.join(map(str, ['n', *shape[1:]]))})" if shape else "()"


def _launches(explanation, layers) -> dict:
    found = {}
    for number, launch in enumerate(explanation.launches, 1):
        paths = [part for step in launch["steps"] or [launch["label"]] for part in step.split(" ")[0].split("/")[:-1]]
        for layer in layers:
            if layer.name in paths:
                found.setdefault(id(layer), []).append(str(number))
    return {key: ", ".join(numbers) for key, numbers in found.items()}
