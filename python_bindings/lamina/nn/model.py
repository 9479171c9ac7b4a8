"""Model and Sequential: layers that can be compiled and fitted."""
from __future__ import annotations

from .. import _border, _core, errors
from .._structure import flatten
from ..module import specs_of
from .layer import _HALF, Layer, _Arguments, _shape
from .symbolic import Calls, Symbolic, contains_symbolic, evaluate, layers_between, symbolic_call
from .summary import table_of
from .training import Training


class Model(Training, Layer):
    """A network. Subclass it and define call(), or pass the inputs and outputs of a chain of layer calls: Model(inp, head(body(inp)))."""

    def __init__(self, inputs=None, outputs=None, name: str | None = None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        if (inputs is None) != (outputs is None):
            raise errors.InvalidArgument("Model: inputs and outputs belong together", fix="pass both, or subclass Model and define call()")
        self._inputs, self._outputs = inputs, outputs
        if inputs is not None:
            for leaf in flatten(inputs)[0] + flatten(outputs)[0]:
                if type(leaf) is not Symbolic:
                    raise errors.TypeMismatch(f"Model: {errors.shown(leaf)} is not a symbolic tensor", fix="begin with lm.nn.Input and call layers on it")
            self._graph_layers = layers_between(inputs, outputs)
            if not trainable:
                self.trainable = False  # the layers inside, too
            self.built = True

    supports_masking = None  # its layers say
    _unread = ("inputs", "outputs")
    _inputs = _outputs = None
    _symbols: tuple = ("_inputs", "_outputs")

    def __getstate__(self):
        state = super().__getstate__()
        made = state["_made_with"]
        symbols = [made.args, made.kwargs, *(state.get(name) for name in self._symbols)]
        if not contains_symbolic(symbols):
            return state
        return {name: value for name, value in state.items() if name not in ("_made_with", *self._symbols)} | {"_calls": Calls(symbols)}

    def __setstate__(self, state):
        if "_calls" in state:
            args, kwargs, *symbols = state.pop("_calls").symbols()
            state |= {"_made_with": _Arguments(args, kwargs)} | dict(zip(self._symbols, symbols))
        super().__setstate__(state)

    def build(self, input_shape) -> None:
        """Creates the weights of all layers without data. input_shape is the input's, with None for unknown dimensions: (None, 784)."""
        _shape(self, input_shape)
        if input_shape is None:
            raise errors.InvalidArgument("Model.build: input_shape is None", why="the weights' shapes follow from it", fix="pass (None, 784)")
        if not self.built:
            symbolic_call(self, (Symbolic(_core.TensorSpec(list(input_shape), "float32")),), None, {})

    def _build_once(self, args, kwargs) -> None:
        if type(self).build is not Model.build:  # a subclass creates its own weights; inner layers create theirs at the first call
            return super()._build_once(args, kwargs)

        def build():
            self._built_with, self.built = self._arguments_of(args, kwargs), True

        self._make_once(build)

    def get_layer(self, name: str | None = None, index: int | None = None):
        """The layer of this name, or with this index in `layers`. Raises NotFound, IndexOutOfRange."""
        layers = self.layers
        if (name is None) == (index is None):
            raise errors.InvalidArgument("get_layer: name and index" if name is not None else "get_layer: neither name nor index", why="one of them says which layer", fix="pass a name")
        if name is not None:
            for layer in layers:
                if layer.name == name:
                    return layer
            raise _core.unknown_name("layer", str(name), [layer.name for layer in layers])
        if isinstance(index, bool) or not isinstance(index, int) or not -len(layers) <= index < len(layers):
            raise errors.IndexOutOfRange(f"get_layer: index {errors.shown(index)} of {len(layers)} layers", fix=f"pass an index from 0 to {len(layers) - 1}")
        return layers[index]

    def summary(self, print_fn=print) -> None:
        """Prints the layers with output shapes (n: rows), parameters and the launch that computes each: layers of one launch are fused. Calls the model once on zeros. Raises
        StateError before the weights exist."""
        self._require_built("summary")
        print_fn(table_of(self))

    def _input_specs(self):
        if self._inputs is None:
            return super()._input_specs()
        return (specs_of(self._inputs),), {}

    def plot(self, path=None):
        """A picture of the layers, their output shapes and parameters, drawn from the graph of a call: layers as boxes, layers inside of layers as groups, ops outside of layers by
        name. Returns the SVG, a str that notebooks show; with a path that ends in .svg it is written there. Needs no other program. Raises StateError before
        the weights exist."""
        from .plot import picture_of

        picture = picture_of(self)
        if path is not None:
            picture.save(path)
        return picture

    def _repr_html_(self) -> str:
        from .._html import of_model

        return of_model(self)

    def call(self, inputs):
        if self._inputs is None:
            raise self._no_call()
        bound = {}
        self._bind(self._inputs, inputs, bound)
        return evaluate(self._outputs, bound)

    def _bind(self, wanted, given, bound) -> None:
        """Puts {id(Input): tensor} into bound: parts of dicts by key, of lists and tuples by place."""
        several = isinstance(given, (tuple, list)) and any(hasattr(leaf, "shape") for leaf in flatten(given)[0])  # else nested lists of numbers, one tensor
        if isinstance(wanted, dict):
            names, fix = ", ".join(map(str, wanted)), f"pass a dict with the keys {', '.join(map(repr, wanted))}"
            if not isinstance(given, dict):
                raise errors.InvalidArgument(f"{self.name}: the inputs are {errors.a_type(given)}", why=f"the model has inputs by name: {names}", fix=fix)
            for key in (*given, *wanted):
                if key not in wanted or key not in given:
                    raise errors.InvalidArgument(f"{self.name}: {'there is no input' if key in given else 'nothing is given for the input'} {key!r}", why=f"the model's inputs are {names}", fix=fix)
            parts = [(one, given[key]) for key, one in wanted.items()]
        elif isinstance(given, dict):
            symbols = flatten(wanted)[0]
            named = {symbol.name: symbol for symbol in symbols}
            if None in named or len(named) < len(symbols):
                raise errors.InvalidArgument(f"{self.name}: the inputs are a dict", why="the model's inputs have places, no names",
                                             fix="pass them in order, or give them names: lm.nn.Input(shape, name='a'), or Model({'a': a}, outputs)")
            return self._bind(named, given, bound)
        elif isinstance(wanted, (tuple, list)):
            given = given if several or len(wanted) > 1 and isinstance(given, (tuple, list)) else [given]
            if len(given) != len(wanted):
                raise errors.InvalidArgument(f"{self.name}: the model has {len(wanted)} inputs, {len(given)} were given", why="each has its own tensor", fix="pass as many, in order")
            parts = list(zip(wanted, given))
        elif several:
            if len(given) != 1:
                raise errors.InvalidArgument(f"{self.name}: the model has 1 input, {len(given)} were given", why="each has its own tensor", fix="pass one tensor")
            parts = [(wanted, given[0])]
        else:
            bound[id(wanted)] = self._entering(given, wanted)
            return
        for one, part in parts:
            self._bind(one, part, bound)

    def _entering(self, value, symbol):
        """What is given for an Input as a tensor, a floating one of the Input's dtype."""
        if type(value) is Symbolic:
            return value
        tensor = value if isinstance(value, (_core.Tensor, _core.Variable)) else _core.constant(value)
        convert = tensor.dtype not in (symbol.dtype, _HALF.get(self._policy)) and tensor.dtype.is_floating and symbol.dtype.is_floating and (self._autocast or tensor is not value)
        return _core.astype(tensor, symbol.dtype) if convert else tensor

    def _cast(self, args):
        return super()._cast(args) if self._inputs is None else args  # its Inputs have dtypes of their own


class Sequential(Model):
    """Layers one after another. With lm.nn.Input first, the weights exist at once, otherwise after the first call."""

    _symbols = ("_inputs", "_outputs", "_input", "_output")
    _unread = ("layers",)

    def __init__(self, layers=(), name: str | None = None):
        super().__init__(name=name)
        self._stack: list[Layer] = []
        self._input: Symbolic | None = None
        self._output: Symbolic | None = None
        for layer in layers:
            self.add(layer)

    def add(self, layer) -> None:
        """Appends a layer (or, as the first, an Input)."""
        if isinstance(layer, Symbolic):
            if self._stack or self._input is not None:
                raise errors.InvalidArgument("Sequential: an Input behind another layer", why="it says what the first layer takes", fix="pass one Input, before all layers")
            self._input = self._output = layer
            return
        if not isinstance(layer, Layer):
            name = getattr(layer, "__name__", "")
            raise errors.TypeMismatch(f"Sequential: {f'the function {name}' if name else errors.shown(layer)} is not a layer", why="each of its layers is called on the result of the one before",
                                      fix=f"write lm.nn.Lambda({'lm.' * (getattr(_core, name, None) is layer) + name}), or activation= of the layer before" if name and not isinstance(layer, type)
                                      else f"write {name}(...)" if isinstance(layer, type) else "pass lm.nn layers, or your own subclass of lm.nn.Layer")
        self._stack.append(layer)
        if self._train_step is not None:
            self._make_steps()  # those that are traced have the layers before
        _core.trainable_changed()
        if self._input is None and len(self._stack) == 1 and getattr(layer, "input_shape", None) is not None:
            from .symbolic import Input

            self._input = self._output = Input(layer.input_shape)
        if self._input is not None:
            self._output = layer(self._output)
            self.built = True

    def _input_specs(self):
        return super()._input_specs() if self._input is None else ((self._input.spec,), {})

    def _cast(self, args):
        return super()._cast(args) if self._input is None else args

    def call(self, inputs):
        if self._input is not None:
            inputs = self._entering(inputs, self._input)
        for layer in self._stack:
            inputs = layer(inputs)
        return inputs


_border.guard(globals())
