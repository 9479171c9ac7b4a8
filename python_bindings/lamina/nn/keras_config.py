"""A model as Keras's config.json. One error lists all that has no counterpart in Keras, layer by layer."""
from __future__ import annotations

import inspect
import math
import re

from .. import _core, errors, losses as losses_module, metrics as metrics_module
from . import keras_table as table, regularizers
from .layer import Layer, Op
from .layers import _Named
from .model import Model, Sequential
from .symbolic import Symbolic, parents as parents_of
from .training import spread

OURS = "lamina>"
_LAYER_OF = {row.cls: name for name, row in table.LAYERS.items()}
_LOSS_OF = {row[3]: name for name, row in table.LOSSES.items()}
_METRIC_OF = {row[0]: name for name, row in reversed(table.METRICS.items())}
_INITIALIZER_OF = {row[0]: name for name, row in table.INITIALIZERS.items()}
_OPTIMIZER_OF = {row[0]: name for name, row in table.OPTIMIZERS.items()}


class Unfit(Exception):
    """One thing that has no counterpart on the other side, as text."""


def snake_case(name: str) -> str:
    """As Keras makes a class's name a part of a path."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def is_functional(layer) -> bool:
    return type(layer) is Model and layer._inputs is not None


def is_stock(layer) -> bool:
    """Whether Lamina's own code says what it is, not a class of the user's."""
    return type(layer) in _LAYER_OF or isinstance(layer, _Named) or type(layer) is Sequential or is_functional(layer)


def keras_class(layer) -> str:
    return "Sequential" if type(layer) is Sequential else "Functional" if is_functional(layer) else _LAYER_OF.get(type(layer), type(layer).__name__)


def _wrapped(module, cls, config, registered=None):
    return {"module": module, "class_name": cls, "config": config, "registered_name": registered}


def _policy(name: str) -> dict:
    return _wrapped("keras", "DTypePolicy", {"name": name})


def _unique(name, taken: set) -> str:
    found, n = name, 0
    while found in taken:
        n += 1
        found = f"{name}_{n}"
    taken.add(found)
    return found


def _function(name: str) -> dict:
    return _wrapped("builtins", "function", name, name)


def _function_name(what, function) -> str:
    name = getattr(function, "__name__", None)
    if name is None or not name.isidentifier():
        raise Unfit(f"{what} is {'a lambda' if name == '<lambda>' else errors.a_type(function)}: a file holds names, no code; make it a function with a name")
    return name


def _plain(what, value):
    """A number that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Unfit(f"{what} is {value}")
    return value


def graph_of(model):
    """A functional model's operations (layers, and its inputs as Symbols) in Keras's order, and each layer's calls as one Symbol of each."""
    inputs = symbols(model._inputs)
    key = lambda symbol: id(symbol) if symbol.layer is None else (id(symbol.layer), id(symbol.args))  # noqa: E731
    operation = lambda symbol: symbol if symbol.layer is None else symbol.layer  # noqa: E731
    done, entered, order, seen, parents = set(), set(), [], {}, {}
    waiting = [(symbol, False) for symbol in reversed(symbols(model._outputs))]
    while waiting:  # depth first, without recursion
        symbol, finished = waiting.pop()
        if finished:
            done.add(key(symbol))
            order.append(symbol)
        elif key(symbol) not in entered:
            entered.add(key(symbol))
            seen.setdefault(id(operation(symbol)), len(seen))
            parents[key(symbol)] = parents_of(symbol)
            waiting.append((symbol, True))
            waiting.extend((parent, False) for parent in reversed(parents[key(symbol)]))
    depth, height, operations = {}, {}, {}
    for symbol in reversed(order):
        own = max(depth.setdefault(key(symbol), 0), height.get(id(operation(symbol)), 0))
        depth[key(symbol)] = height[id(operation(symbol))] = own
        operations[id(operation(symbol))] = operation(symbol)
        for parent in parents[key(symbol)]:
            depth[key(parent)] = max(own + 1, depth.get(key(parent), 0))
    for symbol in inputs:
        if id(symbol) not in operations:
            operations[id(symbol)], height[id(symbol)], seen[id(symbol)] = symbol, 0, -1
    ordered = sorted(operations.values(), key=lambda o: (-height[id(o)], seen[id(o)]))
    calls = {}
    for symbol in order:
        if symbol.layer is not None:
            calls.setdefault(id(symbol.layer), []).append(symbol)
    return ordered, calls


def symbols(value) -> list:
    """The Symbols in nested containers; those of dicts by key, as Keras goes through them."""
    if isinstance(value, Symbolic):
        return [value]
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    return [symbol for part in value for symbol in symbols(part)] if isinstance(value, (list, tuple)) else []


class Writer:
    def __init__(self):
        self.unfit: list[str] = []

    def layer(self, layer, name=None) -> dict:
        """The config of a layer under this name. What does not fit is noted."""
        name = name or layer.name
        try:
            if type(layer) is Sequential:
                made = _wrapped("keras", "Sequential", self._sequential(layer, name))
            elif is_functional(layer):
                made = _wrapped("keras.src.models.functional", "Functional", self._functional(layer, name), "Functional")
            elif type(layer) is Op:
                raise Unfit("an op on a symbolic tensor: a .keras file holds layers; write lm.nn.Add()([a, b]), or a Layer with the op in its call()")
            elif isinstance(layer, _Named) and type(layer) not in _LAYER_OF:  # Keras has one class for them
                made = _wrapped("keras.layers", "Activation", {"name": name, "trainable": layer.trainable, "dtype": _policy(self._dtype(layer, {})), "activation": type(layer).__name__.lower()})
            elif type(layer) in _LAYER_OF:
                made = _wrapped("keras.layers", _LAYER_OF[type(layer)], self._stock(layer, name))
            else:
                made = _wrapped(None, type(layer).__name__, self._custom(layer), type(layer).__name__)
        except Unfit as problem:
            self.unfit.append(f"layer '{name}' ({keras_class(layer)}): {problem}")
            return {}
        return made | self._build(layer)

    def _build(self, layer) -> dict:
        """What it was called on, where no Input says so. Keras keeps no dtypes: they stand beside what it reads."""
        specs = () if is_functional(layer) else _called_on(layer)
        if not specs or not all(map(_is_spec, specs)):
            return {}
        if len(specs) == 1:
            return {"build_config": {"input_shape": (_batches if is_stock(layer) else _shapes)(specs[0])}, "input_dtype": _dtypes(specs[0])}
        names = list(inspect.signature(layer.call).parameters)
        return {"build_config": {"shapes_dict": {f"{n}_shape": _shapes(s) for n, s in zip(names, specs)}}, "input_dtype": {f"{n}_shape": _dtypes(s) for n, s in zip(names, specs)}}

    def _stock(self, layer, name) -> dict:
        kind, given = _LAYER_OF[type(layer)], layer.get_config()
        row = table.LAYERS[kind]
        config = {"name": name, "trainable": layer.trainable, "dtype": _policy(self._dtype(layer, given))}
        for theirs, ours in row.keys.items():
            if ours != "dtype":
                config[theirs] = self._value(theirs, given[ours])
        for key, value in given.items():
            if key.endswith("_regularizer") and value is not None:
                config[key] = self.regularizer(kind, key, value)
        if kind == "Conv1DTranspose" and (given["groups"] != 1 or given["output_padding"] != 0):
            raise Unfit("Keras's Conv1DTranspose has no groups, and counts output_padding otherwise")
        if kind == "Bidirectional" and config["backward_layer"] is None:
            del config["backward_layer"]
        if kind == "Conv2DTranspose":
            if given["groups"] == 1:
                del config["groups"]  # Keras's has none
            more = table.pair(given["output_padding"])
            config["output_padding"] = None if given["padding"] == "same" or more == (0, 0) else [p + gap for p, gap in zip(more, table.gaps(given))]
        return config | table.WRITTEN[kind]

    def _dtype(self, layer, given) -> str:
        if "dtype" in given:
            return _core.dtype(given["dtype"]).name
        dtype = getattr(next(iter(_called_on(layer)), None), "dtype", None)
        return dtype.name if dtype is not None and dtype.name in table.FLOATS else "float32"

    def _value(self, key, value):
        if key == "activation":
            return self.activation(value)
        if key.endswith("_initializer"):
            return self.initializer(value)
        return self.plain(key, value)

    def activation(self, value):
        if value is None:
            return "linear"
        if not isinstance(value, str):
            return _function(_function_name("the activation", value))
        value = table.ACTIVATION_ALIASES.get(value, value)
        return value if value in table.ACTIVATIONS else _wrapped("lamina", "function", value, OURS + value)

    def initializer(self, value):
        if not isinstance(value, (str, _core.nn.Initializer)):
            return _function(_function_name("an initializer", value))
        value = _core.nn.get_initializer(value)
        if value.name not in _INITIALIZER_OF:
            raise Unfit(f"the initializer '{value.name}' is a function without a name in the file")
        seed = value._seed if value._seed is not None and value._seed < 2**31 else None  # Keras takes no larger one; the weights are in the file
        cls, given = _INITIALIZER_OF[value.name], value._parameters | {"seed": seed}
        ours = cls.startswith(OURS)
        return _wrapped("lamina" if ours else "keras.initializers", cls, table.switched({theirs: given[name] for theirs, name in table.INITIALIZERS[cls][1].items()}), cls if ours else None)

    @staticmethod
    def regularizer(kind, key, value):
        value = regularizers.get(value)
        cls = type(value).__name__
        if kind == "RMSNormalization":
            raise Unfit(f"Keras's {kind} has no {key}")
        if table.REGULARIZERS.get(cls) is not type(value):
            raise Unfit(f"{key} is {errors.a_type(value)}: the file holds L1, L2 and L1L2")
        return _wrapped("keras.regularizers", cls, {name: getattr(value, name) for name in ("l1", "l2") if name in cls.lower()})

    def plain(self, key, value):
        """Numbers, texts, and lists and dicts of them; also layers and what the table knows."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return _plain(key, value)
        if isinstance(value, (list, tuple)):
            return [self.plain(key, part) for part in value]
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            return {name: self.plain(f"{key}.{name}", part) for name, part in value.items()}
        if isinstance(value, Layer):
            return self.layer(value)
        if isinstance(value, _core.nn.Initializer):
            return self.initializer(value)
        if isinstance(value, _core.DType):
            return value.name
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            return self.plain(key, value.item())
        if callable(value) and not isinstance(value, type):
            return _function(_function_name(key, value))
        raise Unfit(f"{key} is {errors.a_type(value)}: a config holds numbers, texts, lists, dicts, layers and functions with names")

    def _custom(self, layer) -> dict:
        config = layer.get_config()
        if not isinstance(config, dict) or any(not isinstance(name, str) for name in config):
            raise Unfit(f"get_config() gave {errors.a_type(config)}, no dict of names")
        return {name: self.plain(name, value) for name, value in config.items()}

    def _sequential(self, model, name) -> dict:
        taken, stack = set(), []
        if model._input is not None:
            stack.append(self._input(model._input, _unique(model._input.name or "input_layer", taken)))
        stack += [self.layer(layer, _unique(layer.name, taken)) for layer in model._stack]
        config = {"name": name, "trainable": model.trainable, "dtype": _policy("float32"), "layers": stack}
        build = self._build(model)
        return config | ({"build_input_shape": build["build_config"]["input_shape"]} if build else {})

    def _input(self, symbol, name) -> dict:
        shape = list(symbol.shape)
        return _wrapped("keras.layers", "InputLayer", {"batch_shape": shape, "dtype": symbol.dtype.name, "sparse": False, "ragged": False, "name": name, "optional": False})

    def _functional(self, model, name) -> dict:
        operations, calls = graph_of(model)
        taken, names = set(), {}
        for operation in operations:  # layers keep their names before inputs, which may have none
            if isinstance(operation, Layer):
                names[id(operation)] = _unique(operation.name, taken)
        for operation in symbols(model._inputs):
            names.setdefault(id(operation), _unique(operation.name or "input_layer", taken))
        place = {}  # (layer, args) -> number of the call
        for of_layer in calls.values():
            place |= {(id(s.layer), id(s.args)): i for i, s in enumerate(of_layer)}

        def where(symbol):
            if symbol.layer is None:
                return [names[id(symbol)], 0, 0]
            return [names[id(symbol.layer)], place[id(symbol.layer), id(symbol.args)], symbol.path[1]]

        def argument(value):
            if isinstance(value, Symbolic):
                return _wrapped_tensor(list(value.shape), value.dtype.name, where(value))
            if isinstance(value, tuple):
                return {"class_name": "__tuple__", "items": [argument(part) for part in value]}
            return [argument(part) for part in value] if isinstance(value, list) else self.plain("an argument of a call", value)

        entries = []
        for operation in operations:
            own = names[id(operation)]
            if isinstance(operation, Layer):
                entry, nodes = self.layer(operation, own), []
                try:
                    for symbol in calls[id(operation)]:
                        kwargs = {key: self.plain(key, value) for key, value in symbol.kwargs.items()}
                        nodes.append({"args": [argument(a) for a in symbol.args], "kwargs": kwargs | ({} if symbol.training is None else {"training": bool(symbol.training)})})
                except Unfit as problem:
                    self.unfit.append(f"layer '{own}' ({keras_class(operation)}): {problem}")
            else:
                entry, nodes = self._input(operation, own), []
            entries.append(entry | {"name": own, "inbound_nodes": nodes})
        # As the model's own input or output, a call of a functional model counts from 1.
        end = lambda symbol: [(at := where(symbol))[0], at[1] + (symbol.layer is not None and is_functional(symbol.layer)), at[2]]  # noqa: E731
        spread = lambda value: (end(value) if isinstance(value, Symbolic) else {k: spread(v) for k, v in value.items()} if isinstance(value, dict)  # noqa: E731
                                else [spread(v) for v in value])
        return {"name": name, "trainable": model.trainable, "layers": entries, "input_layers": spread(model._inputs), "output_layers": spread(model._outputs)}

    # --- what compile() was given ---

    def compiled(self, model) -> dict:
        if model.optimizer is None:
            return {}
        try:
            names = model._output_names(model._outputs) if is_functional(model) else [None] if type(model) is Sequential else None  # None: a class of the user's
            losses, weights = _losses(model, names)
            return {"optimizer": self._optimizer(model.optimizer), "loss": _each(self._loss, losses), "loss_weights": _each(_factor, weights),
                    "metrics": self._metrics(model, names, losses), "weighted_metrics": None, "run_eagerly": model.run_eagerly, "steps_per_execution": 1, "jit_compile": False}
        except Unfit as problem:
            self.unfit.append(f"what compile() was given: {problem}")
            return {}

    def _optimizer(self, optimizer) -> dict:
        if type(optimizer) not in _OPTIMIZER_OF:
            raise Unfit(f"the optimizer is {errors.a_type(optimizer)}, none of {', '.join(table.OPTIMIZERS)}")
        if optimizer.schedule is not None:
            raise Unfit(f"the learning rate is a schedule ({optimizer.schedule!r}), the format takes a number here")
        on = [name for name, value in optimizer._switches.items() if value not in (1, None, False)]
        if on:
            raise Unfit(f"the optimizer has {', '.join(on)}")
        cls = _OPTIMIZER_OF[type(optimizer)]
        given = optimizer._parameters | {"learning_rate": optimizer.learning_rate}
        if any(isinstance(value, _core.Variable) and value.shape != () for value in given.values()):
            raise Unfit("the optimizer has a number for each model of an ensemble")
        config = {theirs: float(given[ours].numpy()) if isinstance(given[ours], _core.Variable) else given[ours] for theirs, ours in table.OPTIMIZERS[cls][1].items()}
        config = table.switched(config)
        if cls in ("Adam", "Lion") and not config["weight_decay"]:
            config["weight_decay"] = None  # Keras asks for more than 0
        return _wrapped("keras.optimizers", cls, {"name": optimizer.name} | config)

    def _loss(self, loss):
        if loss is None:
            return None
        if not isinstance(loss, losses_module.Loss):
            return _function(_function_name("the loss", loss))
        name = table.LOSS_ALIASES.get(loss.name, loss.name)
        if name not in _LOSS_OF or hasattr(loss, "call"):
            raise Unfit(f"the loss '{loss.name}' is none of lm.losses")
        cls, given = _LOSS_OF[name], loss._parameters
        config = {key: given.get(key, 1.0 if key == "delta" else 0) for key in table.LOSSES[cls][1]}
        return _wrapped("keras.losses", cls, {"reduction": "sum_over_batch_size"} | table.switched(config))

    def _metrics(self, model, names, losses):
        """A list of them, or one for each output, in a list or by name."""
        made = symbols(model._outputs) if is_functional(model) else [model._output] if type(model) is Sequential else []
        several = any(place is not None for place in model._metric_outputs) and (names is None or len(names) > 1)
        found = {}
        for metric, place in zip(model._metrics, model._metric_outputs):
            place = place if several else None
            if several and names is not None:
                place = names.index(place) if place in names else place
                if not isinstance(place, int) or not 0 <= place < len(names):
                    raise Unfit(f"the metric '{metric.name}' is of the output {place!r}, there are {', '.join(map(str, names))}")
            at = place or 0
            loss = losses.get(place if names is None else names[at]) if isinstance(losses, dict) else losses[at] if isinstance(losses, (list, tuple)) and at in range(len(losses)) else losses
            found.setdefault(place, []).append(self._metric(metric, loss, made[at].shape if at in range(len(made)) and made[at] is not None else ()))
        if not several:
            return found.get(None)
        if names is None and all(isinstance(place, str) for place in found):
            return found
        lists = [found.get(i, []) for i in range(len(names) if names else 1 + max(place for place in found if isinstance(place, int)))]
        return dict(zip(names, lists)) if names and isinstance(model._outputs, dict) else lists

    def _metric(self, metric, loss, shape):
        kind, name = type(metric), getattr(metric, "_own_name", metric.name)
        sparse = getattr(loss, "name", "") == "sparse_cross_entropy"
        if kind is metrics_module.Accuracy:
            if name == "accuracy":
                return "accuracy"
            if tuple(shape)[-1:] == (1,):
                return self._metric(metrics_module.BinaryAccuracy(name=name), loss, shape)
            return _wrapped("keras.metrics", "SparseCategoricalAccuracy" if sparse else "CategoricalAccuracy", {"name": name})
        if kind is metrics_module._FromFunction:
            return _function(_function_name("a metric", metric._function))
        if kind in _METRIC_OF:
            cls = "SparseTopKCategoricalAccuracy" if kind is metrics_module.TopK and sparse else _METRIC_OF[kind]
            _, keys, fixed = table.METRICS[cls]
            config = {theirs: getattr(metric, ours) for theirs, ours in keys.items()}
            if cls in ("Precision", "Recall", "F1Score") and not (0 < (least := min(config.values())) <= 1 or least == 0 and cls != "F1Score"):
                raise Unfit(f"the metric '{name}' has the threshold {least}, Keras's {cls} takes those from 0 to 1")
            return _wrapped("keras.metrics", cls, {"name": name} | {key: allowed[-1] for key, allowed in fixed.items()} | config)
        if kind.__module__ == metrics_module.__name__:
            raise Unfit(f"the metric '{name}' ({kind.__name__}) has no counterpart in Keras: compile() without it before saving")
        takes = [one.name for one in inspect.signature(kind).parameters.values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        if hasattr(kind, "get_config"):
            config = self.plain(f"the metric '{name}'", metric.get_config())
        elif set(takes) - {"name"}:
            raise Unfit(f"the metric '{name}' ({kind.__name__}) is made with {', '.join(takes)}: give its class get_config(), which returns them")
        else:
            config = {"name": name} if "name" in takes else {}
        return _wrapped(None, kind.__name__, config, kind.__name__)


def _losses(model, names):
    """(the loss or those of each output, their factors), in the form that Keras takes: factors only beside a loss for each."""
    loss, weights = model.loss, model._loss_weights
    one = not isinstance(loss, (list, tuple, dict))
    if one and (weights is None or names is not None and len(names) == 1):
        return loss, None
    if names is None or len(names) == 1:
        return ({name: loss for name in weights} if isinstance(weights, dict) else [loss] * len(weights)) if one else loss, weights
    losses, weights = spread("loss", loss, names, loss), weights and [1.0 if factor is None else factor for factor in spread("loss_weights", weights, names, 1.0)]
    return (dict(zip(names, losses)), weights and dict(zip(names, weights))) if isinstance(model._outputs, dict) else (losses, weights)


def _factor(value):
    if value is None or isinstance(value, (int, float)):
        return _plain("a loss weight", value)
    if isinstance(value, _core.Variable):
        raise Unfit("a loss weight is a Variable: the file holds numbers")
    return float(value.numpy())


def _wrapped_tensor(shape, dtype, where):
    return {"class_name": "__keras_tensor__", "config": {"shape": shape, "dtype": dtype, "keras_history": where}}


def _called_on(layer) -> tuple:
    """The TensorSpecs of the first call's arguments; none before it."""
    return () if layer._built_with is None else layer._built_with.args


def _is_spec(value) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_spec, value))
    return bool(value) and all(map(_is_spec, value.values())) if isinstance(value, dict) else isinstance(value, _core.TensorSpec)


def _each(f, value):
    return [_each(f, part) for part in value] if isinstance(value, (list, tuple)) else {k: _each(f, v) for k, v in value.items()} if isinstance(value, dict) else f(value)


def _shapes(spec):
    return _each(lambda s: list(s.shape), spec)


def _dtypes(spec):
    return _each(lambda s: s.dtype.name, spec)


def _batches(spec):
    """Shapes whose first axis takes any number of rows."""
    return _each(lambda s: [None, *list(s.shape)[1:]] if len(s.shape) > 1 else list(s.shape), spec)
