"""Network: what lm.onnx.load gives. It calls the graph's interpreter inside a traced function."""
from __future__ import annotations

from .. import _border, _core, errors


class Network:
    """A network from an ONNX file; lm.onnx.load makes it."""

    def __init__(self, model, max_trips, memory_budget):
        from ._graph import Interpreter
        self._interpreter = Interpreter(model, max_trips, memory_budget)
        self._fixed: set[str] = set()  # inputs whose values the graph's shapes depend on: a graph is traced for each value
        self._op_by_op = False  # lengths depend on data: no graph
        self._traced = _core.function(self._run, None, False, False)

    @property
    def variables(self) -> dict:
        """{name in the file: Variable}: the initializers that are floating-point tensors."""
        return dict(self._interpreter.variables)

    @property
    def trainable_variables(self) -> list:
        """Those of them that train: all but running statistics."""
        return [v for v in self._interpreter.variables.values() if v.trainable]

    @property
    def inputs(self) -> list[str]:
        """The names of its inputs, in order."""
        return list(self._interpreter.inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of its outputs, in order."""
        return [o.name for o in self._interpreter.graph.output]

    def state_dict(self) -> dict:
        """{name: Tensor}, what lm.save_weights writes."""
        return {name: v.read() for name, v in self._interpreter.variables.items()}

    def _named_variables(self, call):
        return self.variables

    def _as_program(self) -> dict:
        """What lm.save writes: the network as the function call(), for the lengths that the file leaves open, and its Variables by their names in the file."""
        from .._program import function_of

        names = self.outputs

        def call(*tensors):
            results = self(*tensors)
            return dict(zip(names, results)) if isinstance(results, tuple) else results

        specs = [kind.spec() for kind in self._interpreter.types.values()]
        concrete = _core.function(call, None, False, False).get_concrete_function(*specs)
        return self.variables | {"call": function_of("call", concrete, self.inputs)}

    def __call__(self, *args, **named):
        """The outputs for these inputs: one tensor, or a tuple of as many as the file's graph has."""
        values = self._bound(args, named)
        while True:
            try:
                return self._call(values)
            except _NeedsValue as need:
                if not _core.executing_eagerly():
                    raise need.error from None
                if need.inputs and not need.inputs <= self._fixed:
                    self._fixed |= need.inputs
                elif not self._op_by_op:
                    self._op_by_op = True
                else:
                    raise need.error from None

    def _call(self, values):
        if not _core.executing_eagerly() or self._op_by_op:
            return self._run(values, ())
        if not self._fixed:
            return self._traced(values, ())
        from ._tensors import known_array
        fixed = {name: known_array(values[name]) for name in sorted(self._fixed) if values.get(name) is not None}
        key = tuple((name, str(a.dtype), a.shape, a.tobytes()) for name, a in fixed.items())
        return self._traced({name: value for name, value in values.items() if name not in fixed}, key)

    def _run(self, values, fixed):
        if fixed:
            from ._tensors import array_of
            values = values | {name: array_of(raw, dtype, shape) for name, dtype, shape, raw in fixed}
        return self._interpreter.run(values)

    def _bound(self, args, named):
        names = self._interpreter.inputs
        if len(args) > len(names):
            raise errors.SignatureMismatch(f"the network takes {len(names)} inputs, {len(args)} were given", why=f"its inputs are {', '.join(names)}",
                                           fix="pass one tensor for each")
        values = dict(zip(names, args))
        for name, value in named.items():
            if name not in names or name in values:
                raise errors.SignatureMismatch(f"the network cannot take '{name}'", why=f"its inputs are {', '.join(names)}, each given once",
                                               fix="pass one tensor for each")
            values[name] = value
        return {name: self._interpreter.checked_input(name, values.get(name)) for name in names}


class _NeedsValue(Exception):
    """While tracing: a node needs the value of something that depends on these inputs; none: it depends on data in another way."""

    def __init__(self, inputs, error):
        super().__init__(str(error))
        self.inputs, self.error = inputs, error


_border.guard(globals())
