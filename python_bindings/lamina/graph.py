"""lm.Graph: a graph built by hand and run by fetching values."""
from __future__ import annotations

from . import _border, _core, errors
from ._structure import flatten, unflatten


class Graph:
    """A graph built by hand and run by fetching values, without tracing a function.

        g = lm.Graph()
        with g.building():
            x = g.input([2], lm.float32, name="x")
            b = g.variable(12.0)
            y = x * 2 + b
        g.initialize()
        g.run(y, {"x": [1.0, 2.0]})     # array([14., 16.], dtype=float32)

    run() computes only what the fetches need: errors and prints of other nodes do not happen. lm.function does not need this class; it is
    for graphs made by programs, and for programs written in this style.
    """

    def __init__(self, name: str = "graph"):
        self._graph = _core._Graph(name)

    def building(self):
        """For a with statement: inside it, ops add nodes to this graph."""
        return self._graph.building()

    def input(self, shape, dtype=None, name: str = "input"):
        """A placeholder that run() must feed; None in the shape means any length. Only inside building()."""
        return self._graph.input(_core.TensorSpec(shape, _core.float32 if dtype is None else dtype), name)

    def variable(self, initial, name: str = ""):
        """A Variable without a value; initialize() sets its initial value. Reading it earlier raises UninitializedVariable."""
        return self._graph.variable(initial, name)

    def initialize(self) -> None:
        """Sets all Variables to their initial values; may be called again."""
        self._graph.initialize()

    @property
    def operations(self) -> list:
        """The names of all operations in program order: "matmul", "add", "add_1"."""
        return self._graph.operations()

    def tensor(self, name: str):
        """A value by its name: "add_1:0". Raises NotFound with the nearest names."""
        return self._graph.tensor(name)

    def run(self, fetches, inputs=None):
        """The values of fetches, as NumPy arrays in the same structure.

        fetches: a tensor of this graph, a Variable, a name ("add:0", or an operation such as "print", whose value is None), or a nested
        list, tuple or dict of them. inputs: a dict from input names, or tensors returned by input(), to values.
        """
        leaves, structure = flatten(fetches)
        for leaf in leaves:
            if not isinstance(leaf, (str, _core.Tensor, _core.Variable)):
                raise errors.TypeMismatch(f"Graph.run: {errors.a_type(leaf)} cannot be fetched", fix="fetch a tensor of this graph, a Variable, or a name")
        given = [(key if isinstance(key, str) else self._graph.name_of(key), value) for key, value in (inputs or {}).items()]
        results = iter(self._graph.run([leaf for leaf in leaves if not isinstance(leaf, _core.Variable)], given))
        values = [leaf.numpy() if isinstance(leaf, _core.Variable) else next(results) for leaf in leaves]
        return unflatten(structure, [v.numpy() if isinstance(v, _core.Tensor) else v for v in values])

    def __repr__(self):
        return f"<lm.Graph, {len(self.operations)} operations>"


_border.guard(globals())
