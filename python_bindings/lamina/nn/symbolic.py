"""Models written as a chain of calls: Model(inp, head(body(inp))) with inp = Input(shape)."""
from __future__ import annotations

from .. import _border, _core, errors
from .._structure import flatten, unflatten


class Symbolic:
    """A placeholder for a tensor that a model will compute: the result of Input, or of a layer called on one."""

    def __init__(self, spec, layer=None, args=(), training=None, kwargs=None, path=()):
        self.spec = spec
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

    def __repr__(self):
        return f"<symbolic tensor shape={self.shape} dtype={self.dtype} of {self.layer.name if self.layer else 'Input'}>"

    def _no_operator(self, *_):
        raise errors.TypeMismatch("a symbolic tensor of Input() takes part in layer calls only", why="operators on it are not recorded",
                                  fix="write the operation in a Layer, or subclass lm.nn.Model and define call()")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __neg__ = __bool__ = __float__ = _no_operator


def Input(shape, dtype="float32", batch_size: int | None = None):
    """Where data enters a model: a tensor of [batch, *shape]. `shape` leaves out the batch dimension, which is unknown unless
    batch_size is given."""
    if isinstance(shape, int):
        shape = (shape,)
    return Symbolic(_core.TensorSpec([batch_size, *shape], dtype))


def contains_symbolic(args) -> bool:
    seen, waiting = set(), [args]
    while waiting:
        values = waiting.pop()
        if id(values) in seen:
            continue
        seen.add(id(values))
        for value in list(values):
            if type(value) is Symbolic:
                return True
            if isinstance(value, (tuple, list)):
                waiting.append(value)
    return False


def symbolic_call(layer, args, training, kwargs):
    """Builds the layer by tracing it once on inputs of these shapes; returns symbolic outputs."""
    leaves, structure = flatten(args, is_leaf=lambda value: not isinstance(value, (tuple, list)))
    places = [i for i, leaf in enumerate(leaves) if type(leaf) is Symbolic]

    def run(*tensors):
        filled = list(leaves)
        for place, tensor in zip(places, tensors):
            filled[place] = tensor
        return layer(*unflatten(structure, filled), training=training, **kwargs)

    result = _core.function(run).get_concrete_function(*[leaves[i].spec for i in places]).structured_outputs
    outputs, output_structure = flatten(result)
    made = [Symbolic(spec, layer, args, training, kwargs, path=(output_structure, i)) for i, spec in enumerate(outputs)]
    return unflatten(output_structure, made)


def evaluate(outputs, bound, training=None):
    """The values of symbolic outputs, given {id(Input): tensor}."""
    results = {}

    def value(node):
        if id(node) in bound:
            return bound[id(node)]
        if node.layer is None:
            raise errors.InvalidArgument("Model: an output needs an Input that is not among the model's inputs")
        call = (id(node.layer), id(node.args))
        if call not in results:
            leaves, structure = flatten(node.args, is_leaf=lambda v: not isinstance(v, (tuple, list)))
            leaves = [value(leaf) if type(leaf) is Symbolic else leaf for leaf in leaves]
            flag = node.training if node.training is not None else training
            results[call] = flatten(node.layer(*unflatten(structure, leaves), training=flag, **node.kwargs))[0]
        return results[call][node.path[1]]

    leaves, structure = flatten(outputs)
    return unflatten(structure, [value(leaf) for leaf in leaves])


def layers_between(outputs):
    """All layers that the outputs need, in execution order."""
    found, seen = {}, set()

    def visit(node):
        if id(node) in seen or node.layer is None:
            return
        seen.add(id(node))
        for leaf in flatten(node.args)[0]:
            if type(leaf) is Symbolic:
                visit(leaf)
        found.setdefault(id(node.layer), node.layer)

    for leaf in flatten(outputs)[0]:
        visit(leaf)
    return list(found.values())


_border.guard(globals())
