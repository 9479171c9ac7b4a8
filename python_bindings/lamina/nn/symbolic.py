"""Models written as a chain of calls: Model(inp, head(body(inp))) with inp = Input(shape)."""
from __future__ import annotations

import operator

from .. import _border, _core, errors
from .._structure import flatten, unflatten


class Symbolic:
    """A placeholder for a tensor that a model will compute: the result of Input, or of a layer or an op called on one. Operators, indexing and the functions of lm work
    on it as on a tensor; they are recorded, and run when the model is called."""

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, spec, layer=None, args=(), training=None, kwargs=None, path=(), name=None):
        self.spec = spec
        self.name = name  # of a model input
        self.layer = layer  # None: a model input
        self.args = args
        self.training = training
        self.kwargs = kwargs or {}
        self.path = path  # which of the layer's outputs

    @property
    def shape(self):
        return tuple(self.spec.shape)

    @property
    def dtype(self):
        return self.spec.dtype

    @property
    def ndim(self):
        return len(self.shape)

    def __repr__(self):
        return f"<symbolic tensor shape={self.shape} dtype={self.dtype} of {self.layer.name if self.layer else self.name or 'Input'}>"

    def __getattr__(self, name):
        of_tensor = None if name.startswith("_") else getattr(_core.Tensor, name, None)
        if of_tensor is None:
            raise AttributeError(f"a symbolic tensor has no attribute '{name}'", name=name, obj=self)
        if callable(of_tensor):
            return lambda *args, **kwargs: record(of_tensor, (self, *args), kwargs)
        return record(operator.attrgetter(name), (self,), {}, name)

    def __getitem__(self, key):
        return record(operator.getitem, (self, key), {})

    def _no_value(self, *_):
        raise errors.TypeMismatch("a symbolic tensor of Input() has no value", why="it stands for what the model will compute", fix="use lm.where or lm.cond, or a Layer whose call() has the branch")

    __bool__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __contains__ = _no_value


def _operators():
    """Symbolic's operators, recorded as those of tensors are called."""
    def plain(function):
        return lambda self, *others: record(function, (self, *others), {})

    def reflected(function):
        return lambda self, other: record(function, (other, self), {})

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"):
        function = getattr(operator, name)
        setattr(Symbolic, f"__{name.rstrip('_')}__", plain(function))
        setattr(Symbolic, f"__r{name.rstrip('_')}__", reflected(function))
    for name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge"):
        setattr(Symbolic, f"__{name}__", plain(getattr(operator, name)))


_operators()


def record(function, args, kwargs, name=None):
    """The symbolic result of a function of tensors, as the layer that calls it."""
    from .layer import op_layer

    return symbolic_call(op_layer(function, name or getattr(function, "__name__", "op")), args, None, kwargs)


def Input(shape, dtype="float32", batch_size: int | None = None, name: str | None = None):
    """Where data enters a model: a tensor of [batch, *shape]. `shape` leaves out the batch dimension, which is unknown unless
    batch_size is given. Models whose inputs have names take dicts by them."""
    if isinstance(shape, int):
        shape = (shape,)
    return Symbolic(_core.TensorSpec([batch_size, *shape], dtype), name=name)


def contains_symbolic(args) -> bool:
    seen, waiting = set(), [args]
    while waiting:
        values = waiting.pop()
        if id(values) in seen:
            continue
        seen.add(id(values))
        for value in list(values.values() if isinstance(values, dict) else values):
            if type(value) is Symbolic:
                return True
            if isinstance(value, (tuple, list, dict)):
                waiting.append(value)
    return False


def parents(node) -> list:
    """The symbolic tensors that a call was given."""
    return [leaf for leaf in flatten((node.args, node.kwargs))[0] if type(leaf) is Symbolic]


def symbolic_call(layer, args, training, kwargs):
    """Builds the layer by tracing it once on inputs of these shapes; returns symbolic outputs."""
    leaves, structure = flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if type(leaf) is Symbolic]

    def run(*tensors):
        filled = list(leaves)
        for place, tensor in zip(places, tensors):
            filled[place] = tensor
        by_place, by_name = unflatten(structure, filled)
        return layer(*by_place, training=training, **by_name)

    result = _core.function(run).get_concrete_function(*[leaves[i].spec for i in places]).structured_outputs
    outputs, output_structure = flatten(result)
    made = [Symbolic(spec, layer, args, training, kwargs, path=(output_structure, i)) for i, spec in enumerate(outputs)]
    return unflatten(output_structure, made)


def evaluate(outputs, bound, training=None):
    """The values of symbolic outputs, given {id(Input): tensor}."""
    results = {}
    leaves, structure = flatten(outputs)
    return unflatten(structure, [_value(leaf, bound, training, results) for leaf in leaves])


def _value(node, bound, training, results):
    if id(node) in bound:
        return bound[id(node)]
    call = (id(node.layer), id(node.args))
    if call not in results:
        leaves, structure = flatten((node.args, node.kwargs))
        args, kwargs = unflatten(structure, [_value(leaf, bound, training, results) if type(leaf) is Symbolic else leaf for leaf in leaves])
        flag = node.training if node.training is not None else training
        results[call] = flatten(node.layer(*args, training=flag, **kwargs))[0]
    return results[call][node.path[1]]


def layers_between(inputs, outputs):
    """All layers that the outputs need, in execution order. Raises InvalidArgument if they need another Input."""
    found, seen = {}, {id(leaf) for leaf in flatten(inputs)[0]}

    def visit(node):
        if id(node) in seen:
            return
        if node.layer is None:
            raise errors.InvalidArgument("Model: an output needs an Input that is not among the model's inputs", why="outputs are computed from the model's inputs alone", fix="pass it too: Model([a, b], outputs)")
        seen.add(id(node))
        for parent in parents(node):
            visit(parent)
        found.setdefault(id(node.layer), node.layer)

    for leaf in flatten(outputs)[0]:
        visit(leaf)
    return list(found.values())


class _Place:
    """Where a Symbolic stands in the arguments of a call: its number."""

    def __init__(self, number):
        self.number = number


class Calls:
    """Symbolic tensors, with those that they are computed from, in order: pickle and deepcopy take it apart without following the chain of calls."""

    def __init__(self, value):
        leaves, self._structure = flatten(value)
        self._symbols, self._arguments = [], []  # (spec, layer, number of the arguments, training, path, name) of each; arguments of each call
        numbers, calls = {}, {}
        waiting = [leaf for leaf in reversed(leaves) if type(leaf) is Symbolic]
        while waiting:
            node = waiting[-1]
            before = [] if id(node) in numbers else [parent for parent in parents(node) if id(parent) not in numbers]
            if before:
                waiting += before
                continue
            waiting.pop()
            if id(node) in numbers:
                continue
            if node.layer is not None and id(node.args) not in calls:
                calls[id(node.args)] = len(self._arguments)
                self._arguments.append(_replaced((node.args, node.kwargs), lambda leaf: _Place(numbers[id(leaf)]) if type(leaf) is Symbolic else leaf))
            numbers[id(node)] = len(self._symbols)
            self._symbols.append((node.spec, node.layer, calls.get(id(node.args)), node.training, node.path, node.name))
        self._leaves = [_Place(numbers[id(leaf)]) if type(leaf) is Symbolic else leaf for leaf in leaves]

    def symbols(self):
        """The value, of new Symbolics."""
        made, arguments = [], []

        def tensor_of(leaf):
            return made[leaf.number] if type(leaf) is _Place else leaf

        for spec, layer, call, training, path, name in self._symbols:
            if call is None:
                made.append(Symbolic(spec, name=name))
                continue
            if call == len(arguments):
                arguments.append(_replaced(self._arguments[call], tensor_of))
            args, kwargs = arguments[call]
            made.append(Symbolic(spec, layer, args, training, kwargs, path))
        return unflatten(self._structure, map(tensor_of, self._leaves))


def _replaced(value, change):
    leaves, structure = flatten(value)
    return unflatten(structure, map(change, leaves))


_border.guard(globals())
