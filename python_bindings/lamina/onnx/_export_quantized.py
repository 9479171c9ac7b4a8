"""QuantizeLinear and DequantizeLinear: the compositions of ops that they are in Lamina (_quantized.py makes them) become one node each."""
from __future__ import annotations

import numpy as np


def recognised(graph):
    """The graph with one node for each composition, which its function below writes; what was inside of it alone is no longer needed."""
    nodes = graph["nodes"]
    multiplied = {tuple(v) for node in nodes if node["op"] == "matmul" for v in node["inputs"]}
    found = [_quantize(nodes, node) or _dequantize(nodes, node, (i, 0) in multiplied) or node for i, node in enumerate(nodes)]
    return {**graph, "nodes": found} if any(a is not b for a, b in zip(found, nodes)) else graph


def _known(nodes, v):
    """The only element of a constant, or of one whose elements are all the same; otherwise None."""
    node, kinds = nodes[v[0]], ["int8", "uint8", "float32"]
    while node["op"] in ("astype", "reshape"):
        kinds = kinds[:2] if node["op"] == "astype" else kinds  # whole numbers stay what they are
        node = nodes[node["inputs"][0][0]]
    if node["op"] != "constant" or node["types"][0][0] not in kinds:
        return None
    raw = node["attrs"]["value"]
    values = np.zeros(1) if raw is None else np.frombuffer(raw, node["types"][0][0])
    return float(values[0]) if len(values) and np.all(values == values[0]) else None


def _made_by(nodes, v, op):
    """The inputs of the node that makes a value, if it is this op."""
    return nodes[v[0]]["inputs"] if nodes[v[0]]["op"] == op else None


def _changed(node, function, inputs, **attrs):
    return {**node, "written_by": function, "inputs": inputs, "attrs": attrs}


def _shift(nodes, v, op, limits):
    """(value, zero point) of value + zero point or value - zero point; the zero point is 0 where nothing is added."""
    parts = _made_by(nodes, v, op)
    zero = None if parts is None else _known(nodes, parts[1])
    return (parts[0], int(zero)) if zero is not None and zero == int(zero) and limits.min <= zero <= limits.max else (v, 0)


def _quantize(nodes, node):
    """astype(clip(round(x / scale) + zero, least, most)) to the dtype of these limits."""
    if node["op"] != "astype" or node["types"][0][0] not in ("int8", "uint8"):
        return None
    limits, clipped = np.iinfo(node["types"][0][0]), _made_by(nodes, node["inputs"][0], "clip")
    if clipped is None or [_known(nodes, v) for v in clipped[1:]] != [limits.min, limits.max]:
        return None
    rounded, zero = _shift(nodes, clipped[0], "add", limits)
    divided = _made_by(nodes, rounded, "round")
    divided = divided and _made_by(nodes, divided[0], "div")
    scale = divided and nodes[divided[0][0]]["types"][divided[0][1]] == ("float32", node["types"][0][1]) and _known(nodes, divided[1])
    return _changed(node, quantize_linear, divided[:1], scale=scale, zero=zero) if scale and scale > 0 else None


def _dequantize(nodes, node, multiplied):
    """(astype(q) - zero) * scale, with a scale for all or for each place along one axis. multiplied: a matmul takes it; ONNX Runtime (1.32) fails on stacks of
    matrices with a scale for each column."""
    kind, dims = node["types"][0] if node["types"] else (None, None)
    if node["op"] != "mul" or kind != "float32":
        return None
    for wide, scale in (node["inputs"], node["inputs"][::-1]):
        for whole_kind in ("int8", "uint8"):
            shifted, zero = _shift(nodes, wide, "sub", np.iinfo(whole_kind))
            whole = _made_by(nodes, shifted, "astype")
            if whole is None or nodes[whole[0][0]]["types"][whole[0][1]] != (whole_kind, dims):
                continue
            one = (_made_by(nodes, scale, "reshape") or [scale])[0]
            spread, own = nodes[scale[0]]["types"][scale[1]][1], nodes[one[0]]["types"][one[1]][1]
            if not spread:
                return _changed(node, dequantize_linear, [whole[0], scale], zero=zero, axis=None)
            last = range(-len(spread), 0)
            long = [axis for axis in last if spread[axis] != 1] or [axis for axis in last if dims[axis] == 1][:1]
            if len(long) == 1 and own == [dims[long[0]]] and not (multiplied and len(dims) > 2):
                return _changed(node, dequantize_linear, [whole[0], one], zero=zero, axis=long[0] + len(dims))
    return None


SAFE_OPSET = 20  # ONNX Runtime's transpose optimizer makes invalid nodes of int8 zero points in opset 21 (its issue 25526)


def quantize_linear(e, n, x):
    e.opset = min(e.opset, SAFE_OPSET)
    return e.add("QuantizeLinear", x, e.const(n.attrs["scale"], "float32"), e.const(n.attrs["zero"], n.types[0][0]))


def dequantize_linear(e, n, x, scale):
    e.opset = min(e.opset, SAFE_OPSET)
    zero = e.const(np.full(n.known(scale.dims, "DequantizeLinear"), n.attrs["zero"]), x.dtype)
    return e.add("DequantizeLinear", x, scale, zero, axis=n.attrs["axis"])
