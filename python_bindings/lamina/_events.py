"""TensorBoard's records: protobuf messages (Event, Summary, GraphDef) in the framing of TFRecord files."""
from __future__ import annotations

import re
import struct

# --- protobuf: a field is its number and type, then the value ---


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers take ten bytes
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(field, value):
    return _varint(field << 3) + _varint(value)


def _double(field, value):
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field, value):
    return _varint(field << 3 | 5) + struct.pack("<f", _within_float(value))


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _doubles(field, values):
    return _bytes(field, struct.pack(f"<{len(values)}d", *values))


def _within_float(value):
    """struct refuses what no float32 can hold; it becomes infinity, as in a cast."""
    try:
        struct.pack("<f", value)
        return value
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


# --- events ---


def version(time):
    return _double(1, time) + _bytes(3, "brain.Event:2")


def event(summary, step, time):
    return _double(1, time) + _int(2, step) + _bytes(5, summary)


def scalar(name, value):
    return _bytes(1, _bytes(1, name) + _float(2, value))


def histogram(name, values, squares, counts, limits):
    told = _double(1, values.min()) + _double(2, values.max()) + _double(3, values.size) + _double(4, values.sum()) + _double(5, squares)
    return _bytes(1, _bytes(1, name) + _bytes(5, told + _doubles(6, limits) + _doubles(7, counts)))


def graph(data, time):
    return _double(1, time) + _bytes(4, _Graph(data).message())


# --- graphs ---

_LONGEST = 1000  # characters of an attribute
_OPS = {"input": "Placeholder", "constant": "Const"}  # which TensorBoard draws in its own way


class _Graph:
    """A graph's nodes as NodeDefs. Variables and results are nodes of their own; branches and loops contain the nodes of their regions."""

    def __init__(self, data):
        self.taken, self.nodes = set(), []
        self._add(data, "", [self._node(_clean(name), "Variable", [], [kind]) for name, kind in data["resources"]])

    def message(self):
        return b"".join(_bytes(1, node) for node in self.nodes) + _bytes(4, _int(1, 1))

    def _add(self, data, inside, variables):
        """Adds the nodes of a graph or region under the name `inside`; returns the names of its outputs."""
        made = []
        for node in data["nodes"]:
            scope = _clean(inside + node["scope"])
            attrs = node["attrs"]
            own = attrs.get("name", "").strip('"') if node["op"] == "input" else ""
            inputs = [made[i] + (f":{k}" if k else "") for i, k in node["inputs"]]
            if node["op"] in ("read", "assign") and not inside:
                inputs.insert(0, variables[int(attrs.get("resource", 0))])
            name = self._unique(scope + (_clean(own) or node["op"]))
            regions = [f"{name}/{k}/" if len(node["regions"]) > 1 else f"{name}/" for k in range(len(node["regions"]))]
            for region, under in zip(node["regions"], regions):
                inputs += [f"^{output}" for output in self._add(region, under, ())]
            told = {k: v for k, v in attrs.items() if isinstance(v, str) and k != "type"} | ({"line": node["line"]} if node["line"] else {})
            made.append(self._node(name, _OPS.get(node["op"], node["op"]), inputs, node["types"], told, named=True))
        outputs = [made[i] + (f":{k}" if k else "") for i, k in data["outputs"]]
        if not inside:
            for i, output in enumerate(outputs):
                self._node(f"output_{i}", "Result", [output], [])
        return list(dict.fromkeys(output.partition(":")[0] for output in outputs))

    def _node(self, name, op, inputs, types, attrs=(), named=False):
        name = name if named else self._unique(name)
        out = _bytes(1, name) + _bytes(2, op) + b"".join(_bytes(3, i) for i in inputs)
        for key, value in dict(attrs).items():
            out += _bytes(5, _bytes(1, key) + _bytes(2, _bytes(2, value[:_LONGEST])))
        if types:
            shapes = b"".join(_bytes(7, b"".join(_bytes(2, _int(1, d if isinstance(d, int) else -1)) for d in shape)) for _, shape in types)
            out += _bytes(5, _bytes(1, "dtype") + _bytes(2, _bytes(2, ", ".join(dtype for dtype, _ in types))))
            out += _bytes(5, _bytes(1, "_output_shapes") + _bytes(2, _bytes(1, shapes)))
        self.nodes.append(out)
        return name

    def _unique(self, name):
        base, n = name, 0
        while name in self.taken:
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        return name


def _clean(name):
    """A name of the characters that TensorBoard takes in names of nodes."""
    name = re.sub(r"[^A-Za-z0-9_.\-/]", "_", name)
    return re.sub(r"^[^A-Za-z0-9.]", "n", name)


# --- TFRecord: length, its checksum, the payload, its checksum ---


def framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc32c(length)) + payload + struct.pack("<I", masked_crc32c(payload))


def masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli's polynomial, reversed
    return byte


_TABLE = [_entry(i) for i in range(256)]
