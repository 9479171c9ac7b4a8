"""Which nodes of a graph multiply by a Variable."""
from __future__ import annotations

import os

from . import errors

PRODUCTS = ("matmul", "conv2d", "conv2d_grad_input")  # the last is a transposed convolution
MOVES = ("transpose", "reshape", "stop_gradient", "to_device")  # between a Variable and its product


class Product:
    """A node that multiplies one of its inputs, `operand`, by the Variable `resource`. key: the value that this input is."""

    def __init__(self, node, data, operand, resource):
        self.node, self.op, self.line, self.operand, self.resource = node, data["op"], data["line"], operand, resource
        self.key = tuple(data["inputs"][operand])


class Found:
    """The products; reads: the Variables that results need; axes: {Variable that is multiplied: the axis of its output channels, None if there is none}, those
    that are multiplied in loops and branches among them; left: products that stay as they are, with the reason."""

    def __init__(self):
        self.products, self.reads, self.axes, self.left = [], [], {}, []


def find(concrete, what) -> Found:
    """Those of a ConcreteFunction's graph. Raises InvalidArgument if it trains or draws, and if there are none."""
    graph, found = concrete._graph_data, Found()
    _refuse_training(graph, what)
    found.reads = list(dict.fromkeys(_resource(graph["nodes"][i]) for i in _needed(graph) if graph["nodes"][i]["op"] == "read"))
    _search(found, graph, _needed(graph), {}, "")
    if not found.axes:
        raise errors.InvalidArgument(f"{what}: {concrete.name} multiplies nothing by a Variable of float32",
                                     why="; ".join(dict.fromkeys(found.left[:5])) or "it has no matmul and no conv2d", fix="pass a model with dense or convolutional layers")
    return found


def _resource(node):
    return int(node["attrs"]["resource"])


def _all(graph):
    """The nodes of a graph and of its regions."""
    for node in graph["nodes"]:
        yield node
        for region in node["regions"]:
            yield from _all(region)


def _refuse_training(graph, what):
    drawing = [node for node in _all(graph) if node["op"] == "dropout" or node["op"].startswith("random_")]
    for node in drawing + [node for node in graph["nodes"] if node["op"] == "assign"]:
        why = "it assigns a Variable" if node["op"] == "assign" else f"it draws random numbers: {node['op']}"
        raise errors.InvalidArgument(f"{what}: the function does not only predict", node["line"], why, "pass one that does: lambda x: model(x, training=False)")


def _needed(graph):
    """The nodes that results or effects depend on, in order."""
    nodes = graph["nodes"]
    needed = {v[0] for v in graph["outputs"]}
    for i in range(len(nodes) - 1, -1, -1):
        if i in needed or any(inner["op"] in ("print", "check") for inner in _all({"nodes": [nodes[i]]})):
            needed.add(i)
            needed.update(v[0] for v in nodes[i]["inputs"])
    return sorted(needed)


def _search(found, graph, order, captured, around):
    """Adds the products of a graph, which is inside of an op `around`. captured: {input of the graph: its _source outside}."""
    for i in order:
        node = graph["nodes"][i]
        if node["op"] in PRODUCTS:
            reason = _add(found, graph, i, captured, around)
            if reason:
                place = f" in {around}" * bool(around) + f", {os.path.basename(node['line'])}" * bool(node["line"])
                found.left.append(f"{node['op']}{place}: {reason}")
        first, before = int(node["attrs"].get("carried", 0)) + int(node["attrs"].get("stacked", 0)), node["op"] == "cond"
        for region in node["regions"]:
            outside = {region["inputs"][j][0]: _source(graph, v, captured) for j, v in enumerate(node["inputs"][before:]) if first <= j < len(region["inputs"])}
            _search(found, region, range(len(region["nodes"])), outside, around or node["op"])


def _add(found, graph, i, captured, around):
    """Adds a product to what is found; or why it is none by a Variable."""
    node, types = graph["nodes"][i], lambda v: graph["nodes"][v[0]]["types"][v[1]]
    sources = [_source(graph, v, captured) for v in node["inputs"]]
    if sources[0] is None and sources[1] is None:
        return "its weights are int8 already" if any(_is_rounded(graph, v) for v in node["inputs"]) else "both are computed"
    if sources[0] is not None and sources[1] is not None:
        return "both are Variables"
    weight = 0 if sources[1] is None else 1
    if weight == 0 and node["op"] != "matmul":
        return "its image is the Variable"
    if any(types(v)[0] != "float32" for v in node["inputs"]):
        return f"the Variable is {types(node['inputs'][weight])[0]}"
    resource, moves = sources[weight]
    if resource not in found.axes:
        found.axes[resource] = _moved_back(moves, _channels(node, weight, len(types(node["inputs"][weight])[1])))
    if not around:
        found.products.append(Product(i, node, 1 - weight, resource))
    return None


def _source(graph, v, captured):
    """(the Variable that a value is, what moves its elements on the way, last first), or None."""
    moves = []
    while graph["nodes"][v[0]]["op"] in MOVES:
        node = graph["nodes"][v[0]]
        v = node["inputs"][0]
        moves.append((node, graph["nodes"][v[0]]["types"][v[1]][1]))
    node = graph["nodes"][v[0]]
    outside = (_resource(node), []) if node["op"] == "read" else captured.get(v[0])
    return outside and (outside[0], moves + outside[1])


def _is_rounded(graph, v):
    """Whether a value is what _quantized.py makes of numbers of int8."""
    node = graph["nodes"][v[0]]
    while node["op"] in MOVES:
        node = graph["nodes"][node["inputs"][0][0]]
    inputs = [graph["nodes"][u[0]] for u in node["inputs"]] if node["op"] == "mul" else []
    return any(n["op"] == "astype" and graph["nodes"][n["inputs"][0][0]]["types"][n["inputs"][0][1]][0] == "int8" for n in inputs)


def _channels(node, weight, rank):
    """The axis of a product's operand `weight` along which its output channels lie."""
    if node["op"] == "conv2d":
        return rank - 1
    if node["op"] == "conv2d_grad_input":
        return rank - 2
    if rank < 2:
        return None
    turned = node["attrs"]["transpose_b" if weight else "transpose_a"] == "true"
    return rank - 1 if bool(weight) != turned else rank - 2


def _moved_back(moves, axis):
    """The axis of the Variable that becomes this axis; None if none does."""
    for node, before in moves:
        after = node["types"][0][1]
        if axis is not None and node["op"] == "transpose":
            axis = [int(d) for d in node["attrs"]["axes"].strip("[]").split(",")][axis]
        elif axis is not None and node["op"] == "reshape":  # the last and the first axis may stay what they were
            at_end, at_begin = axis == len(after) - 1 and before[-1:] == after[-1:], axis == 0 and before[:1] == after[:1]
            axis = len(before) - 1 if at_end else 0 if at_begin else None
    return axis
