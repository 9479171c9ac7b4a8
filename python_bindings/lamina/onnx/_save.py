"""The exporter: translates a traced function's graph into an ONNX graph, node by node (_export_ops.py has the functions of the ops)."""
from __future__ import annotations

import ast
import operator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .. import _core, errors
from .._program import SavedFunction, traced
from ._export_dtypes import OPSET, matched, schema, wider
from ._file import subgraphs
from ._tensors import CODES, DTYPES, FLOATS, known_array, numpy_dtype, pairs_of

IR = 10
DRAW = "ONNX cannot repeat its numbers", "save what is predicted, without the draw: model(x, training=False)"
ARITHMETIC = {  # of lengths: what an expression's operation is in ONNX, and of numbers
    ast.Add: ("Add", operator.add), ast.Sub: ("Sub", operator.sub), ast.Mult: ("Mul", operator.mul), ast.Div: ("Div", operator.floordiv), ast.FloorDiv: ("Div", operator.floordiv),
    ast.USub: ("Neg", operator.neg), "min": ("Min", min), "max": ("Max", max),
}
EFFECTS = {  # ops that a file cannot hold, and why; draws first, since each assigns its generator too
    "dropout": DRAW, "random_integers": DRAW, "random_normal": DRAW, "random_truncated_normal": DRAW, "random_uniform": DRAW,
    "assign": ("an ONNX graph has no state that changes", "save a function that returns the new value"),
    "print": ("an ONNX graph prints nothing", "leave it out of the function that is saved"), "check": ("an ONNX graph checks nothing", "leave it out of the function that is saved"),
}


def as_array(tensor):
    """A concrete tensor's elements; bfloat16 as ml_dtypes has it, complex numbers as pairs."""
    return np.array(pairs_of(known_array(tensor)), order="C")


class Result:
    """A value of Lamina's graph in the ONNX graph: its name there, its dtype and lengths (numbers, or texts such as "n" and "2*n")."""

    __slots__ = ("name", "dtype", "dims")

    def __init__(self, name, dtype, dims):
        self.name, self.dtype, self.dims = name, dtype, list(dims)

    @property
    def rank(self):
        return len(self.dims)

    @property
    def floating(self):
        return self.dtype in FLOATS


class Node:
    """One node of Lamina's graph while its op's function runs."""

    def __init__(self, exporter, data, inputs):
        self.e, self.op, self.attrs, self.inputs, self.regions, self.line, self.scope = exporter, data["op"], data["attrs"], inputs, data["regions"], data["line"], data["scope"]
        self.types = data["types"]

    def refuse(self, why, fix="leave it out of the function that is saved"):
        return errors.InvalidArgument(f"lm.onnx.save: the op {self.op} cannot be written", self.line, why, fix)

    def text(self, name):
        return self.attrs[name]

    def flag(self, name):
        return self.attrs[name] == "true"

    def int(self, name):
        return int(self.attrs[name])

    def dims(self, name):
        """A list of lengths or numbers: "[2,n]"."""
        inner = self.attrs[name].strip("[]")
        return [int(d) if d.lstrip("-").isdigit() else d for d in inner.split(",")] if inner else []

    def axes(self, name, rank):
        return list(range(rank)) if self.attrs[name] == "all" else [a % rank for a in self.dims(name)]

    def known(self, dims, why):
        if not all(isinstance(d, int) for d in dims):
            raise self.refuse(f"{why} needs lengths that are known, and {dims} are open", "save it for TensorSpecs with fixed lengths")
        return dims


class Exporter:
    def __init__(self):
        self.nodes, self.initializers, self.taken, self.constants, self.symbols = [], [], set(), {}, {}
        self.opset, self.node, self.dtypes = OPSET, None, {}  # the node that is written, and {name: dtype}

    # --- names and constants ---

    def name(self, stem):
        name, i = stem, 0
        while name in self.taken or not name:
            i += 1
            name = f"{stem}_{i}"
        self.taken.add(name)
        return name

    def const(self, array, dtype=None):
        """The name of a constant; equal ones are one initializer."""
        array = np.array(array, np.float32 if dtype == "bfloat16" else dtype, order="C")
        if dtype == "bfloat16":
            array = array.astype(numpy_dtype(dtype))
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.name("constant")
            self.initializers.append(numpy_helper.from_array(array, self.constants[key]))
            self.dtypes[self.constants[key]] = str(array.dtype)
        return self.constants[key]

    def ints(self, values):
        return self.const(np.array(values, np.int64))

    def like(self, x, value):
        """A scalar of x's dtype."""
        return self.const(value, x.dtype)

    # --- nodes ---

    def add(self, op, *inputs, outputs=1, stem=None, **attrs):
        """Adds a node, of wider dtypes where its op does not take these; returns the name of its output, or a list of them."""
        inputs = [i.name if isinstance(i, Result) else i for i in inputs]
        variables, taken, given = schema(op)
        typed = [(v, self.dtypes.get(i)) for v, i in zip(matched(taken, inputs), inputs)]
        wide = {dtype: wider(op, dtype, typed) for _, dtype in typed if dtype}
        if None in wide.values():
            raise self.node.refuse(f"ONNX's {op} takes no {next(d for d, w in wide.items() if w is None)}", "compute that part in another dtype: lm.astype")
        inputs = [self.cast(i, wide[d]) if d and wide[d] != d and wide[d] in variables[v] else i for i, (v, d) in zip(inputs, typed)]
        names = [self.name(f"{stem or op.lower()}") for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **{k: v for k, v in attrs.items() if v is not None}))
        for i, variable in enumerate(matched(given, names)):
            dtype = DTYPES[attrs["to"]].name if op == "Cast" else next((d for v, d in typed if v and v == variable), None)
            if dtype is None and variable and len(variables[variable]) == 1:
                (dtype,) = variables[variable]
            self.dtypes[names[i]] = wide.get(dtype, dtype) if variable and op != "Cast" else dtype
            if self.dtypes[names[i]] != dtype:
                names[i] = self.cast(names[i], dtype)
        return names[0] if outputs == 1 else names

    def chain(self, first, *rest):
        """Nested nodes as tuples: ("Add", ("Mul", a, b), c)."""
        args = [self.chain(*a) if isinstance(a, tuple) else a for a in rest]
        return self.add(first, *args)

    # --- lengths ---

    def length_of(self, x, axis):
        """The length of an axis as it is when the file runs, for use in expressions."""
        symbol = self.name("_length")
        self.symbols[symbol] = x.name if isinstance(x, Result) else x, axis
        return symbol

    def length(self, dim):
        """The name of an int64 [1] with a length: a number or an expression such as "2*n" or "max(n-2,0)"."""
        return self._length(self._value(dim))

    def _length(self, value):
        return self.ints([value]) if isinstance(value, int) else value

    def _value(self, dim):
        """What length() names, or its number if it is known."""
        if isinstance(dim, int):
            return dim
        try:
            return self._expression(ast.parse(dim, mode="eval").body)
        except SyntaxError:
            raise errors.InvalidArgument(f"lm.onnx.save: the length {dim} cannot be written", "", "it is known only from data", "save it for fixed lengths") from None

    def _expression(self, e):
        if isinstance(e, ast.Constant):
            return e.value
        if isinstance(e, ast.Name):
            if e.id not in self.symbols:
                raise errors.InvalidArgument(f"lm.onnx.save: the length {e.id} cannot be written", "", "no input of the function has it as a length of its own",
                                             "save it for fixed lengths")
            name, axis = self.symbols[e.id]
            return self.add("Shape", name, start=axis, end=axis + 1)
        kind, parts = (e.func.id, e.args) if isinstance(e, ast.Call) else (type(e.op), [e.operand] if isinstance(e, ast.UnaryOp) else [e.left, e.right])
        (op, function), values = ARITHMETIC[kind], [self._expression(part) for part in parts]
        return function(*values) if all(isinstance(v, int) for v in values) else self.add(op, *map(self._length, values))

    def shape(self, dims):
        """The name of an int64 vector with these lengths."""
        values = [self._value(d) for d in dims]
        if all(isinstance(v, int) for v in values):
            return self.ints(values)
        return self.add("Concat", *map(self._length, values), axis=0) if len(values) > 1 else values[0]

    def reshape(self, x, dims):
        if sum(not isinstance(d, int) for d in dims) == 1:
            dims = [d if isinstance(d, int) else -1 for d in dims]
        return self.add("Reshape", x, self.shape(dims), allowzero=1 if 0 in dims and -1 not in dims else None)

    def transpose(self, x, perm):
        return self.add("Transpose", x, perm=list(perm)) if list(perm) != list(range(len(perm))) else (x.name if isinstance(x, Result) else x)

    def cast(self, x, dtype):
        return self.add("Cast", x, to=CODES[dtype])

    # --- graphs ---

    def translate(self, graph, feeds, given=()):
        """Adds the nodes of a graph whose inputs are `feeds`; returns its outputs as Results. given: Results of resources."""
        from ._export_ops import EXPORTED
        from ._export_quantized import recognised
        graph = recognised(graph)
        values = {tuple(place): feed for place, feed in zip(graph["inputs"], feeds)}
        needed = self._needed(graph)
        effects = [(list(EFFECTS).index(graph["nodes"][i]["op"]), i) for i in needed if graph["nodes"][i]["op"] in EFFECTS]
        if effects:
            node = Node(self, graph["nodes"][min(effects)[1]], [])
            raise node.refuse(*EFFECTS[node.op])
        for i, data in enumerate(graph["nodes"]):
            if data["op"] == "input" or i not in needed:
                continue
            node = Node(self, data, [self.look(values, graph, v) for v in data["inputs"]])
            if data["op"] == "read":
                values[i, 0] = given[node.int("resource")]
                continue
            function = data.get("written_by") or EXPORTED.get(data["op"])
            if function is None:
                raise node.refuse("ONNX has no op for it")
            self.dtypes.update((i.name, i.dtype) for i in node.inputs)
            outer, self.node = self.node, node
            out = function(self, node, *node.inputs)
            self.node = outer
            for r, (name, (dtype, dims)) in enumerate(zip(out if isinstance(out, (list, tuple)) else [out], data["types"])):
                if name is not None:
                    values[i, r] = Result(name.name if isinstance(name, Result) else name, dtype, dims)
        return [self.look(values, graph, v) for v in graph["outputs"]]

    def look(self, values, graph, place):
        if tuple(place) not in values:
            raise Node(self, graph["nodes"][place[0]], []).refuse(f"its result {place[1]} has no counterpart in ONNX")
        return values[tuple(place)]

    @staticmethod
    def _needed(graph):
        """The nodes that outputs or effects depend on."""
        waiting = [v[0] for v in graph["outputs"]] + [i for i, n in enumerate(graph["nodes"]) if n["op"] in ("assign", "print", "check")]
        needed = set()
        while waiting:
            i = waiting.pop()
            if i not in needed:
                needed.add(i)
                waiting += [v[0] for v in graph["nodes"][i]["inputs"]]
        return needed

    def subgraph(self, name, inputs, build):
        """A GraphProto with these inputs, whose outputs build() returns; all are Results."""
        outer, self.nodes = self.nodes, []
        try:
            outs = [Result(self.add("Identity", one), one.dtype, one.dims) for one in build()]
            nodes = self.nodes
        finally:
            self.nodes = outer
        return helper.make_graph(nodes, name, [self.info(i) for i in inputs], [self.info(o) for o in outs])

    def fresh(self, stem, type_):
        return Result(self.name(stem), *type_)

    def info(self, r):
        if r.dtype not in CODES:
            raise errors.TypeMismatch(f"lm.onnx.save: a tensor is {r.dtype}", why="inputs, outputs, loops and branches of an ONNX graph pass real numbers", fix="pass and return parts: lm.as_real(x)")
        return helper.make_tensor_value_info(r.name, CODES[r.dtype], [d if isinstance(d, int) or d.isidentifier() else None for d in r.dims])


def concrete(fn, args, kwargs):
    if isinstance(fn, _core.ConcreteFunction):
        return fn
    if isinstance(fn, SavedFunction):
        return fn.graph_for(args, kwargs).concrete
    return (traced(fn) or _core.function(fn, None, False, True, None)).get_concrete_function(*args, **kwargs)


def output_names(structure):
    """Names for the leaves of what a function returns: keys of dicts, else numbers."""
    if isinstance(structure, dict):
        return [f"{key}" if len(inner) == 1 else f"{key}_{name}" for key, value in structure.items() for inner in [output_names(value)] for name in inner]
    if isinstance(structure, (list, tuple)):
        return [f"output_{i}" if len(inner) == 1 else f"output_{i}_{name}" for i, value in enumerate(structure) for inner in [output_names(value)] for name in inner]
    return [] if structure is None else ["output"]


def model_of(function):
    """The ModelProto of a ConcreteFunction."""
    e, graph = Exporter(), function._graph_data
    specs, captures, variables = function.inputs, function._captures, function.variables
    feeds, inputs = [], []
    arguments = len(graph["inputs"]) - len(captures)
    for i, (node, result) in enumerate(graph["inputs"]):
        dtype, dims = graph["nodes"][node]["types"][result]
        if i < arguments:
            feed = Result(e.name(specs[i].name or f"input_{i}"), dtype, dims)
            inputs.append(feed)
            for axis, d in enumerate(dims):
                if not isinstance(d, int) and d.isidentifier():
                    e.symbols.setdefault(d, (feed.name, axis))
        else:
            array = as_array(captures[i - arguments])
            feed = Result(e.name("captured"), dtype, dims)
            e.initializers.append(numpy_helper.from_array(array, feed.name))
        feeds.append(feed)
    resources = []
    for variable, (name, (dtype, dims)) in zip(variables, graph["resources"]):
        resource = Result(e.name(name or "variable"), dtype, dims)
        e.initializers.append(numpy_helper.from_array(as_array(variable), resource.name))
        resources.append(resource)
    outs, outputs = e.translate(graph, feeds, resources), []
    for name, out in zip(output_names(function.structured_outputs), outs):
        final = Result(e.name(name), out.dtype, out.dims)
        e.nodes.append(helper.make_node("Identity", [out.name], [final.name]))
        outputs.append(final)
    used = {name for node in e.nodes for name in read_by(node)}
    initializers = [t for t in e.initializers if t.name in used]
    graph_proto = helper.make_graph(e.nodes, function.name or "function", [e.info(i) for i in inputs], [e.info(o) for o in outputs], initializers)
    return helper.make_model(graph_proto, producer_name="lamina", producer_version=_core.__version__, ir_version=IR, opset_imports=[helper.make_opsetid("", e.opset)])


def read_by(node):
    yield from node.input
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from read_by(inner)


def write(path, fn, args, kwargs):
    path = errors.path_of("lm.onnx.save", path)
    model = model_of(concrete(fn, args, kwargs))
    if model.ByteSize() >= 2 << 30:
        raise errors.InvalidArgument("lm.onnx.save: the model takes 2 GiB or more", why="a file of protobuf is smaller", fix="save the weights with lm.save_weights")
    try:
        onnx.checker.check_model(model, full_check=False)
    except Exception as error:
        raise errors.InternalError("lm.onnx.save made a graph that onnx.checker refuses", why=str(error).splitlines()[0], fix="please report it") from error
    _core._replace_file(path, model.SerializeToString(deterministic=True))
