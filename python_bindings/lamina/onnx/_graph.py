"""The interpreter: runs an ONNX graph node by node, eagerly or while a function is traced.

A value is a NumPy array as long as it is known at trace time (constants, and what shapes are computed with), else a tensor; a list of values for a
sequence, and None for an input that is not there.
"""
from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import defs, helper

from .. import _core, errors
from . import _tensors
from ._file import DEPTH, NODES, subgraphs
from ._network import _NeedsValue
from ._table import FOLDED, OPS
from ._open import folded, has_open, is_open, moves
from ._tensors import known_array, to_tensor

LOOP = "a loop's state"


def resolved(proto, attributes):
    """The node with the attributes that it takes over from the function around it."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    out = onnx.NodeProto()
    out.CopyFrom(proto)
    del out.attribute[:]
    for a in proto.attribute:
        source = attributes.get(a.ref_attr_name) if a.ref_attr_name else a
        if source is not None:
            out.attribute.add().CopyFrom(source)
            out.attribute[-1].name = a.name
    return out


def domain_of(name):
    return "" if name == "ai.onnx" else name


class Scope:
    """The values that nodes of one graph see: its own, then those of the graph around it."""

    def __init__(self, parent=None, opsets=None, attributes=None):
        self.parent, self.values, self.origins = parent, {}, {}
        self.opsets = opsets if opsets is not None else parent.opsets
        self.attributes = attributes if attributes is not None else (parent.attributes if parent else {})
        self.depth = parent.depth + 1 if parent else 0

    def find(self, name):
        scope = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name], scope.origins.get(name, frozenset())
            scope = scope.parent
        raise KeyError(name)

    def set(self, name, value, origins=frozenset()):
        if name:
            self.values[name], self.origins[name] = value, origins


class Node:
    """One node while its op's function runs: attributes, version, and the errors that name it."""

    def __init__(self, interpreter, proto, scope, inputs, origins):
        self.interpreter, self.proto, self.scope, self.inputs, self.origins = interpreter, proto, scope, inputs, origins
        self.op, self.domain = proto.op_type, domain_of(proto.domain)
        self.version = scope.opsets.get(self.domain, 1)
        self.outputs = len(proto.output)

    def attr(self, name, default=None):
        for a in self.proto.attribute:
            if a.name == name:
                value = helper.get_attribute_value(a)
                if isinstance(value, bytes):
                    return value.decode(errors="replace")
                if isinstance(value, list) and value and isinstance(value[0], bytes):
                    return [v.decode(errors="replace") for v in value]
                return value
        return default

    def choice(self, name, *values):
        """A text attribute that is one of these; the first is its default."""
        value = self.attr(name, values[0])
        if value not in values:
            raise self.refuse(f"its {name} is '{value}', which is none of {', '.join(values)}")
        return value

    def has(self, name):
        return self.attr(name) is not None

    def wanted(self, output):
        return output < self.outputs and bool(self.proto.output[output])

    def refuse(self, why, kind=errors.InvalidArgument, fix="change the model, or export it another way"):
        name = f" '{self.proto.name}'" if self.proto.name else ""
        return kind(f"ONNX node{name}: {self.op} (domain '{self.domain or 'ai.onnx'}', opset {self.version}) cannot be run", why=why, fix=fix)

    def known(self, position, default=None, lengths=False):
        """The value of an input that must be known at trace time, as a NumPy array. lengths: numbers in it may stand for open lengths (_open.py)."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            return default
        if isinstance(value, np.ndarray):
            if not lengths and has_open(value):
                raise self.refuse(f"its input '{self.proto.input[position]}' follows from a length that is open", fix="trace with that length fixed")
            return value
        array = known_array(value)
        if array is not None:
            return array
        name = self.proto.input[position]
        origins = self.origins[position]
        inputs = frozenset(o for o in origins if o != LOOP) if LOOP not in origins else frozenset()
        raise _NeedsValue(inputs, self.refuse(f"its input '{name}' decides shapes, and its value is known only when the graph runs",
                                              fix="call the network outside of a traced function, or make that input a constant"))

    def needs_data(self, why):
        """Raised where lengths follow from data: the network then runs op by op."""
        return _NeedsValue(frozenset(), self.refuse(why, fix="call the network outside of a traced function"))

    def ints(self, position, default=None, lengths=False):
        value = self.known(position, lengths=lengths)
        return default if value is None else [int(v) for v in np.asarray(value).reshape(-1)]

    def room(self, shape, dtype=None):
        """A shape that fits into the memory budget."""
        shape = [d if d is None else int(d) for d in shape]
        if any(not is_open(d) and d < 0 for d in shape):
            raise self.refuse(f"the shape {shape} has a negative length")
        size = math.prod(1 if is_open(d) else d for d in shape) * (8 if dtype is None else dtype.itemsize)
        if size > self.interpreter.memory_budget:
            raise self.refuse(f"a value of shape {tuple(shape)} takes {size:,} bytes, the budget is {self.interpreter.memory_budget:,}",
                              errors.OutOfMemory, "load it with a larger memory_budget=")
        return shape

    def run(self, graph, feeds, loop=False):
        """The outputs of a subgraph whose inputs are `feeds`."""
        scope = Scope(self.scope)
        origins = frozenset().union(*self.origins) if self.origins else frozenset()
        if loop:
            origins |= {LOOP}
        for formal, value in zip(graph.input, feeds):
            scope.set(formal.name, value, frozenset() if isinstance(value, np.ndarray) else origins)
        return self.interpreter.run_graph(graph, scope)


class Interpreter:
    def __init__(self, model, max_trips, memory_budget):
        self.model, self.graph, self.max_trips, self.memory_budget = model, model.graph, max_trips, memory_budget
        self.opsets = {domain_of(o.domain): o.version for o in model.opset_import}
        newest = defs.onnx_opset_version()
        if self.opsets.get("", 1) > newest:
            raise errors.BadFile(f"the ONNX file wants opset {self.opsets['']}", why=f"the installed package onnx knows opsets up to {newest}", fix="pip install --upgrade onnx")
        self.functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        self.schema_functions: dict = {}
        self._refuse_unknown(model.graph.node, 0)
        for f in model.functions:
            self._refuse_unknown(f.node, 0, {domain_of(o.domain): o.version for o in f.opset_import})
        if self._nodes_of(model.graph.node, {}, 0) > NODES:
            raise errors.BadFile(f"the ONNX graph has more than {NODES:,} nodes when its functions are inlined", why="no model needs that", fix="export the model again")
        self.variables: dict = {}
        self.constants: dict = {}
        statistics, fixed = self._special()
        for tensor in model.graph.initializer:
            array = _tensors.from_proto(tensor)
            if _tensors.trains(tensor) and tensor.name not in fixed:
                self.variables[tensor.name] = _core.Variable(to_tensor(array), tensor.name, tensor.name not in statistics)
            else:
                self.constants[tensor.name] = array
        for sparse in model.graph.sparse_initializer:
            self.constants[sparse.values.name] = _tensors.from_sparse(sparse)
        self.types = {i.name: _tensors.InputType(i) for i in model.graph.input if i.name not in self.variables and i.name not in self.constants}
        self.inputs = list(self.types)

    def _nodes_of(self, nodes, known, depth):
        """How many nodes these are with the file's functions inlined; `known`: of functions, by key."""
        if depth > DEPTH:
            raise errors.BadFile(f"functions of the ONNX file are more than {DEPTH} deep in each other", why="no model needs that", fix="export the model again")
        total = 0
        for proto in nodes:
            key = (domain_of(proto.domain), proto.op_type, proto.overload)
            if key in self.functions and key not in known:
                known[key] = self._nodes_of(self.functions[key].node, known, depth + 1)
            total += 1 + known.get(key, 0) + sum(self._nodes_of(g.node, known, depth + 1) for g in subgraphs(proto))
        return total

    def _special(self):
        """Initializers that are running statistics, and those whose values must be known while tracing."""
        statistics, fixed = set(), set()
        for node in self.graph.node:
            row = OPS.get((domain_of(node.domain), node.op_type))
            if node.op_type == "BatchNormalization":
                statistics.update(node.input[3:5])
            elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                fixed.update(node.input[1:])  # rounding has no slope by which a scale could train
            if row:
                fixed.update(node.input[i] for i in row.fixed if i < len(node.input))
        return statistics, fixed

    def _refuse_unknown(self, nodes, depth, opsets=None):
        if depth > DEPTH:
            raise errors.BadFile(f"the ONNX graph has subgraphs more than {DEPTH} deep", why="no model needs that", fix="export the model again")
        for proto in nodes:
            node = Node(self, proto, Scope(opsets=opsets or self.opsets), [], [])
            key = (node.domain, node.op)
            if key not in OPS and (*key, proto.overload) not in self.functions and self._schema_with_function(node) is None:
                raise node.refuse("Lamina has no such op", errors.NotFound, "see docs/onnx.md for the ops that it has")
            for g in subgraphs(proto):
                self._refuse_unknown(g.node, depth + 1, opsets)

    def _schema_with_function(self, node):
        try:
            schema = defs.get_schema(node.op, node.version, node.domain)
        except Exception:
            return None
        return schema if schema.has_function or schema.has_context_dependent_function else None

    def checked_input(self, name, value):
        wanted = self.types[name]
        if value is None:
            if wanted.kind == "optional_type":
                return None
            raise errors.SignatureMismatch(f"the network's input '{name}' is missing", why=f"its inputs are {', '.join(self.inputs)}",
                                           fix="pass one tensor for each")
        if isinstance(value, (list, tuple)) and wanted.kind != "tensor_type":
            return [_tensors.to_value(v) for v in value]
        value = _tensors.to_value(value)
        if wanted.kind == "tensor_type":
            wanted.check(value)
        return value

    def run(self, values):
        scope = Scope(opsets=self.opsets, attributes={})
        for name, array in self.constants.items():
            scope.set(name, array)
        for name, variable in self.variables.items():
            scope.set(name, variable)
        for name, value in values.items():
            scope.set(name, value, frozenset([name]))
        out = self.run_graph(self.graph, scope)
        out = tuple(_tensors.finished(v) for v in out)
        return out[0] if len(out) == 1 else out

    def run_graph(self, graph, scope):
        if scope.depth:
            for tensor in graph.initializer:
                scope.set(tensor.name, _tensors.from_proto(tensor))
            for sparse in graph.sparse_initializer:
                scope.set(sparse.values.name, _tensors.from_sparse(sparse))
        self.run_nodes(graph.node, scope)
        return [self.look(scope, o.name)[0] for o in graph.output]

    def run_nodes(self, nodes, scope):
        if scope.depth > DEPTH:
            raise errors.BadFile(f"functions and subgraphs of the ONNX file are more than {DEPTH} deep", why="no model needs that", fix="export it again")
        for proto in nodes:
            self.run_node(proto, scope)

    def look(self, scope, name):
        try:
            return scope.find(name)
        except KeyError:
            raise errors.BadFile(f"the ONNX graph has no value '{name}'", why="a node or an output names it", fix="export the model again") from None

    def run_node(self, proto, scope):
        found = [self.look(scope, name) if name else (None, frozenset()) for name in proto.input]
        inputs, origins = [f[0] for f in found], [f[1] for f in found]
        node = Node(self, resolved(proto, scope.attributes), scope, inputs, origins)
        inside = any(True for _ in subgraphs(proto))  # its subgraphs may read any value
        below = frozenset(self.inputs if inside else ()).union(*origins)
        try:
            out = self.outputs(node)
        except (_NeedsValue, errors.Error) as error:
            if isinstance(error, errors.Error) and not error.what.startswith(("ONNX node", "functions and", "the ONNX")):
                raise type(error)(f"ONNX node '{proto.name}': {node.op} (domain '{node.domain or 'ai.onnx'}', opset {node.version}) failed: {error.what}",
                                  error.where, error.why, error.fix) from error
            raise
        except RecursionError:
            raise node.refuse("it nests too deep", errors.BadFile) from None
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, RuntimeError, NotImplementedError) as error:
            if isinstance(error, TypeError) and any(None in getattr(value, "shape", ()) for value in inputs):
                raise node.refuse("it needs a length of its inputs that is open", fix="trace with that length fixed") from error
            raise node.refuse(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error
        for name, value in zip(proto.output, out):
            scope.set(name, value, below)

    def outputs(self, node):
        key = (node.domain, node.op)
        row, function = OPS.get(key), self.functions.get((*key, node.proto.overload))
        if row is not None and function is None:
            if key in FOLDED and all(v is None or isinstance(v, np.ndarray) for v in node.inputs) and node.inputs:
                out = self.fold(node, row)
                if out is not None:
                    return out
            args = [v if v is None or i in row.fixed or row.raw else to_tensor(v) for i, v in enumerate(node.inputs)]
            out = row.function(node, *args)
            return out if isinstance(out, tuple) else (out,)
        if function is not None:
            opsets = {domain_of(o.domain): o.version for o in function.opset_import}
        else:
            function, opsets = self.schema_function(node)
        return self.inline(node, function, opsets)

    def schema_function(self, node):
        schema = self._schema_with_function(node)
        if schema is None:
            raise node.refuse("Lamina has no such op", errors.NotFound, "see docs/onnx.md for the ops that it has")
        types = [_tensors.type_proto(v).SerializeToString() for v in node.inputs]
        key = (node.proto.SerializeToString(), node.version, tuple(types))
        if key not in self.schema_functions:
            if schema.has_context_dependent_function:
                raw = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
            else:
                raw = schema.function_body.SerializeToString()
            f = onnx.FunctionProto()
            f.ParseFromString(raw)
            self.schema_functions[key] = f, {**node.scope.opsets, **{domain_of(o.domain): o.version for o in f.opset_import}}
        return self.schema_functions[key]

    def inline(self, node, function, opsets):
        attributes = {a.name: a for a in function.attribute_proto}
        if node.domain == "" or node.domain.startswith("ai.onnx"):
            try:
                for name, a in defs.get_schema(node.op, node.version, node.domain).attributes.items():
                    if a.default_value.name:
                        attributes.setdefault(name, a.default_value)
            except Exception:
                pass
        attributes.update({a.name: a for a in node.proto.attribute})
        scope = Scope(opsets=opsets, attributes=attributes)
        scope.depth = node.scope.depth + 1
        for i, formal in enumerate(function.input):
            present = i < len(node.inputs)
            scope.set(formal, node.inputs[i] if present else None, node.origins[i] if present else frozenset())
        self.run_nodes(function.node, scope)
        return tuple(self.look(scope, name)[0] if name in scope.values else None for name in function.output)

    def fold(self, node, row):
        """The outputs of a node whose inputs are all known; None where they follow from the values of open lengths."""
        arrays = node.inputs
        if any(map(has_open, arrays)):
            if not moves(node, arrays):
                return folded(node, arrays)
        elif node.op in ("Expand", "Tile", "ConstantOfShape", "Range"):
            row.function(node, *arrays, only_check=True)
        from onnx.reference import ReferenceEvaluator
        if sum(0 if a is None else a.size for a in arrays) > 1 << 24:
            raise node.refuse("it computes a constant of more than 16 million elements while loading", errors.OutOfMemory)
        feeds = {name: a for name, a in zip(node.proto.input, arrays) if name}
        out = ReferenceEvaluator(_model_of(node.proto, feeds, node.version), verbose=0).run(None, feeds)
        return tuple(np.asarray(o) if not isinstance(o, list) else o for o in out)


def _model_of(proto, feeds, version):
    graph = helper.make_graph([proto], "node", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()],
                              [helper.make_empty_tensor_value_info(n) for n in proto.output if n])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
