"""model.plot(): the layers of a model, drawn from its graph."""
from __future__ import annotations

from .. import _core, errors
from .._drawing import Box, svg_of
from .layer import Op

_HIDDEN = ("read", "constant", "assign", "stop_gradient")


def picture_of(model):
    """The Picture of a built model."""
    specs = model._input_specs()
    if specs is None:
        raise errors.StateError(f"plot: the weights of {model.name} do not exist yet", why="the picture is of the graph for its input", fix="call it on data once, or start it with lm.nn.Input")
    args, kwargs = specs
    data = _core.function(model).get_concrete_function(*args, **kwargs)._graph_data
    return svg_of(_boxes(model, data))


def _boxes(model, data):
    layers = {}

    def visit(parent, path, around):
        for layer in parent.layers:
            if (*path, layer.name) not in layers and id(layer) not in around:  # a layer may hold the one that it is in
                layers[(*path, layer.name)] = layer
                visit(layer, (*path, layer.name), {*around, id(layer)})

    visit(model, (), {id(model)})
    root = Box((), [model.name, f"{type(model).__name__}, {_number(model.count_params())} parameters"][:1], "group", _about(model))
    places = []  # of each node: the keys of the boxes that it is in, from the root
    for number, node in enumerate(data["nodes"]):
        parts = tuple(part for part in node["scope"].split("/") if part)
        parts = parts[1:] if parts[:1] == (model.name,) else parts
        places.append(None if node["op"] in _HIDDEN else _place(root, parts, number, node, layers, len(data["inputs"])))
    for number, node in enumerate(data["nodes"]):
        if places[number] is not None:
            for source in {i for value, _ in node["inputs"] for i in _shown(data, places, value)}:
                _connect(root, places[source], places[number])
    for i, (value, _) in enumerate(data["outputs"]):
        for source in _shown(data, places, value):
            key = ("output", i)
            root.inside[key] = Box(key, [f"output {i}" if len(data["outputs"]) > 1 else "output", _shape(data["nodes"][value]["types"])], "output")
            _connect(root, places[source], [key])
    return root


def _place(root, parts, number, node, layers, inputs):
    """Makes the boxes around a node and its own; their keys. A layer without layers inside is one box with all its ops."""
    inside, keys = root, []
    for depth in range(1, len(parts) + 1):
        path = parts[:depth]
        layer = layers.get(path)
        leaf = layer is not None and not layer.layers
        keys.append(path)
        if path not in inside.inside:
            lines = [parts[depth - 1]] + ([] if layer is None or not leaf or type(layer) is Op else [f"{type(layer).__name__}, {_number(layer.count_params())} parameters" if layer.variables else type(layer).__name__])
            inside.inside[path] = Box(path, lines, "op" if type(layer) is Op else "layer" if leaf else "group", _about(layer) if layer is not None else "/".join(path))
        inside = inside.inside[path]
        if leaf:
            shape = _shape(node["types"])
            inside.lines[1 if type(layer) is Op else 2:] = [shape]
            return keys
    key = ("node", number)
    inside.inside[key] = Box(key, [node["op"] if node["op"] != "input" else f"input {node['attrs']['index']}" if inputs > 1 else "input", _shape(node["types"])], "input" if node["op"] == "input" else "op", " ".join(filter(None, (node["op"], node["line"]))))
    return [*keys, key]


def _shown(data, places, number):
    """The nodes that a value comes from, through those that have no box."""
    found, waiting, seen = [], [number], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if places[one] is not None:
            found.append(one)
        else:
            waiting.extend(value for value, _ in data["nodes"][one]["inputs"])
    return found


def _connect(root, source, target):
    """An edge between the boxes of the innermost group that has both."""
    group = root
    for a, b in zip(source, target):
        if a != b:
            group.edges[a, b] = True
            return
        group = group.inside[a]


def _shape(types):
    shape = types[0][1] if types else ()
    return " × ".join("n" if axis == 0 and length == "any" else str(length) for axis, length in enumerate(shape)) if shape else "scalar" if types else ""


def _number(count):
    return f"{count:,}"


def _about(layer):
    lines = [f"{layer.name}: {type(layer).__name__}"]
    lines += [f"{variable.name} {tuple(variable.shape)} {variable.dtype}" for variable in layer.variables]
    return "\n".join(lines if len(lines) < 12 else [*lines[:11], f"and {len(lines) - 11} more"])
