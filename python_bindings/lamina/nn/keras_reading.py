"""A model from Keras's config.json. The file is not trusted: a class is one of the table's, or one that the caller gave by name."""
from __future__ import annotations

import collections
import inspect

from .. import _core, errors, metrics as metrics_module
from .._structure import flatten
from . import initializers, keras_masks, keras_table as table
from .keras_config import OURS, Unfit, is_functional, snake_case
from .layer import Layer
from .model import Model, Sequential
from .normalization import Embedding
from .symbolic import Input, Symbolic, symbolic_call

_DATA = (*table.FLOATS, "bool", "uint8", "int8", "int16", "int32", "int64")


def _text(value, what) -> str:
    if not isinstance(value, str):
        raise Unfit(f"{what} is {errors.a_type(value)}, no text")
    return value


def _dict(value, what) -> dict:
    if not isinstance(value, dict):
        raise Unfit(f"{what} is {errors.a_type(value)}, no object")
    return value


def _list(value, what) -> list:
    if not isinstance(value, list):
        raise Unfit(f"{what} is {errors.a_type(value)}, no list")
    return value


def _shape(value, what) -> list:
    if not all(d is None or (type(d) is int and 0 <= d < 2**40) for d in _list(value, what)):
        raise Unfit(f"{what} {errors.shown(value)} is no shape")
    return value


def _is_object(value) -> bool:
    return isinstance(value, dict) and "class_name" in value and "config" in value


class Reader:
    def __init__(self, custom: dict):
        self.custom = custom
        self.unfit: list[str] = []  # what the file says that does not hold together
        self.unknown: list[str] = []  # what it names that Lamina has not

    def _given(self, *names):
        """What the caller gave under one of these names; None when nothing."""
        for name in names:
            for key in (name, name.rpartition(">")[2]) if isinstance(name, str) else ():
                if key in self.custom:
                    return self.custom[key]
        return None

    def layer(self, value, name="the model"):
        """The layer of a config; None, and a note, for one that cannot be."""
        kind = "?"
        try:
            value = _dict(value, "its config")
            kind, config = _text(value.get("class_name"), "class_name"), _dict(value.get("config"), "config")
            name = f"layer '{config['name']}'" if isinstance(config.get("name"), str) else name
            given = self._given(value.get("registered_name"), kind)
            if given is not None:
                return self._custom(given, kind, config)
            module = value.get("module")
            if isinstance(module, str) and module.split(".")[0] == "keras":
                if kind == "Sequential":
                    return self._sequential(config)
                if kind in ("Functional", "Model") and "input_layers" in config:
                    return self._functional(config)
                if kind in table.LAYERS:
                    return self._stock(kind, config)
                self.unknown.append(f"{name}: Lamina has no layer {kind}")
                return None
            self.unknown.append(f"{name}: the class {value.get('registered_name') or kind} is not in `custom`")
        except Unfit as problem:
            self.unfit.append(f"{name} ({kind}): {problem}")
        except errors.Error as problem:
            self.unfit.append(f"{name} ({kind}): {problem.what}")
        return None

    def _stock(self, kind, config):
        row, arguments, wrong = table.LAYERS[kind], {}, []
        for key, value in config.items():
            try:
                if key in row.keys:
                    arguments[row.keys[key]] = self._value(key, value)
                elif key == "dtype":
                    self._policy(value)
                elif key.endswith("_regularizer") and value is not None and key in inspect.signature(row.cls.__init__).parameters:
                    arguments[key] = self.regularizer(key, value)
                elif key not in ("name", "trainable", *row.ignored) and value is not None and not any(value == off and type(value) is type(off) for off in row.off.get(key, ())):
                    wrong.append(f"Lamina's {kind} has no {key} ({errors.shown(value)})")
            except (Unfit, errors.Error) as problem:
                wrong.append(getattr(problem, "what", None) or str(problem))
        if wrong:
            raise Unfit(", ".join(wrong))
        try:
            if kind == "Conv2DTranspose":
                arguments["output_padding"] = self._output_padding(arguments)
            layer = row.cls(**arguments)
        except (TypeError, ValueError, OverflowError, RuntimeError, LookupError) as problem:
            raise problem if isinstance(problem, errors.Error) else Unfit(str(problem)) from None
        return self._common(layer, config)

    @staticmethod
    def _common(layer, config):
        if "name" in config:
            layer.name = _text(config["name"], "name")
        if not isinstance(config.get("trainable", True), (bool, type(None))):
            raise Unfit("trainable is neither true nor false")
        if config.get("trainable") is False:
            layer.trainable = False
        return layer

    @staticmethod
    def _output_padding(given):
        own = given.get("output_padding")
        if own is None:
            return 0
        more = [p - gap for p, gap in zip(table.pair(own), table.gaps(given))]
        if given.get("padding") == "same" or min(more) < 0:
            raise Unfit(f"Lamina's Conv2DTranspose has no output_padding {own} beside padding {errors.shown(given.get('padding'))}")
        return more

    def _value(self, key, value):
        if key == "activation":
            return self.activation(value)
        if key.endswith("_initializer"):
            return self.initializer(value)
        if key == "dtype":
            return self._policy(value)
        if key in ("layer", "backward_layer"):
            return None if value is None else self._inner(value)
        if key == "output_shape" and isinstance(value, list):
            if len(value) != 1:
                raise Unfit(f"output_shape has {len(value)} axes, Lamina's has one")
            value = value[0]
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict) for part in value)):
            raise Unfit(f"{key} is an object")
        return value

    def _inner(self, value):
        layer = self.layer(value)
        if layer is None:
            raise Unfit("the layer in it cannot be made")
        return layer

    def _policy(self, value) -> str:
        if _is_object(value):
            if value["class_name"] != "DTypePolicy":
                raise Unfit(f"Lamina has no dtype policy {errors.shown(value['class_name'])}")
            value = _dict(value["config"], "dtype").get("name")
        if value is None:
            return "float32"
        if value not in table.FLOATS:
            raise Unfit(f"Lamina's layers have no dtype {errors.shown(value)}: one of {', '.join(table.FLOATS)}")
        return value

    def activation(self, value):
        if value is None:
            return "linear"
        name, registered = value, None
        if isinstance(value, dict):
            if value.get("class_name") != "function":
                raise Unfit(f"Lamina has no activation {errors.shown(value.get('class_name'))}")
            name, registered = value.get("config"), value.get("registered_name")
        name = _text(name, "the activation")
        if registered == OURS + name:
            return name
        given = self._given(registered, name)
        if given is not None:
            return given
        name = table.ACTIVATION_ALIASES.get(name, name)
        if name not in table.ACTIVATIONS:
            raise Unfit(f"Lamina has no activation '{name[:60]}', and it is not in `custom`")
        return name

    def initializer(self, value):
        config = {}
        if isinstance(value, dict):
            config = value.get("config")
            registered, cls = value.get("registered_name"), _text(value.get("class_name"), "an initializer's class")
            if cls == "function":
                cls, config = _text(config, "an initializer"), {}
            given = self._given(registered, cls)
            if given is not None:
                return given(**_dict(config, "config")) if isinstance(given, type) else given
            config = _dict(config, "config")
        else:
            cls = _text(value, "the initializer")
            given = self._given(cls)
            if given is not None:
                return given
            name = table.INITIALIZER_ALIASES.get(cls, cls)
            cls = next((theirs for theirs, (ours, _) in table.INITIALIZERS.items() if ours == name), cls)
        if cls not in table.INITIALIZERS:
            raise Unfit(f"Lamina has no initializer '{cls[:60]}', and it is not in `custom`")
        ours, keys = table.INITIALIZERS[cls]
        arguments = {}
        for key, part in config.items():
            if part is None:
                continue
            if key not in keys or not isinstance(part, (int, float)):
                raise Unfit(f"Lamina's initializer {ours} has no {key} ({errors.shown(part)})")
            arguments[keys[key]] = part
        if "seed" in arguments:
            if type(arguments["seed"]) is not int:
                raise Unfit(f"{ours}: the seed is no integer")
            arguments["seed"] %= 2**64
        return getattr(initializers, ours)(**arguments)

    def regularizer(self, key, value):
        value = {"class_name": value, "config": {}} if isinstance(value, str) else _dict(value, key)
        cls, config = _text(value.get("class_name"), f"the {key}'s class"), _dict(value.get("config"), key)
        given = self._given(value.get("registered_name"), cls)
        if given is not None:
            return given(**config) if isinstance(given, type) else given
        if cls not in table.REGULARIZERS:
            raise Unfit(f"Lamina has no {key} {errors.shown(cls)}, and it is not in `custom`")
        return table.REGULARIZERS[cls](**config)

    # --- classes of the caller's ---

    def _custom(self, given, kind, config):
        if not (isinstance(given, type) and issubclass(given, Layer)):
            raise Unfit(f"`custom` has {errors.a_type(given)} as {kind}, no class of layers")
        config = {key: self.plain(value) for key, value in config.items()}
        left = {}
        if given.from_config.__func__ is Layer.from_config.__func__:  # Keras adds what its own Layer takes
            parameters = inspect.signature(given.__init__).parameters
            names = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
            for key in ("dtype",) if names else ("name", "trainable", "dtype"):
                if key in config and key not in parameters:
                    left[key] = config.pop(key)
        made = given.from_config(config)
        if not isinstance(made, Layer):
            raise Unfit(f"from_config() gave {errors.a_type(made)}, no layer")
        return self._common(made, left)

    def plain(self, value):
        """What a class of the caller's gets: objects in its config are made."""
        if isinstance(value, list):
            return [self.plain(part) for part in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("class_name")
        if kind == "__tuple__":
            return tuple(self.plain(part) for part in _list(value.get("items"), "a tuple"))
        if not _is_object(value) or not isinstance(kind, str):
            return {key: self.plain(part) for key, part in value.items()}
        if kind == "DTypePolicy":
            return self._policy(value)
        if kind in table.INITIALIZERS or str(value.get("module")) == "keras.initializers":
            return self.initializer(value)
        if kind == "function":
            given = self._given(value.get("registered_name"), value.get("config"))
            if given is None:
                raise Unfit(f"the function {errors.shown(value.get('config'))} is not in `custom`")
            return given
        return self.layer(value)

    # --- models ---

    def _input(self, entry, takes_ids):
        config = _dict(entry.get("config"), "an InputLayer's config")
        shape = _shape(config.get("batch_shape"), "batch_shape")
        if not shape:
            raise Unfit("an InputLayer has no axis of rows")
        for key in ("sparse", "ragged", "optional"):
            if config.get(key):
                raise Unfit(f"Lamina's Input has no {key}")
        dtype = config.get("dtype") or "float32"
        if dtype not in _DATA:
            raise Unfit(f"Lamina has no input of dtype {errors.shown(dtype)}")
        name = config.get("name")
        name = None if name is None else _text(name, "an InputLayer's name")
        # Keras's Embedding takes floats as ids.
        return Input(shape[1:], "int32" if takes_ids and dtype.startswith(("float", "bfloat")) else dtype, shape[0], name)

    def _sequential(self, config):
        entries = _list(config.get("layers"), "layers")
        stack = []
        for i, entry in enumerate(entries):
            if i == 0 and isinstance(entry, dict) and entry.get("class_name") == "InputLayer":
                stack.append(self._input(entry, len(entries) > 1 and isinstance(entries[1], dict) and entries[1].get("class_name") == "Embedding"))
            else:
                stack.append(self.layer(entry, f"layer {i} of a Sequential"))
        if any(layer is None for layer in stack):
            return None  # said already
        model = Sequential(stack)
        return self._common(model, config)

    def _functional(self, config):
        entries = {}
        for entry in _list(config.get("layers"), "layers"):
            name = _text(_dict(entry, "a layer").get("name"), "a layer's name")
            if name in entries:
                raise Unfit(f"two layers are called '{name[:60]}'")
            entries[name] = entry
        nodes = {(name, i): node for name, entry in entries.items() for i, node in enumerate(_list(entry.get("inbound_nodes"), "inbound_nodes"))}
        masks = keras_masks.calls(nodes, entries, config, self._parents)
        nodes = {place: node for place, node in nodes.items() if place not in masks}
        made = {}
        users = collections.defaultdict(set)  # which layers take an input
        needs = {place: set(self._parents(node, place)) | ({(place[0], place[1] - 1)} if place[1] else set()) for place, node in nodes.items()}
        for place, parents in needs.items():
            for parent in parents:
                users[parent[0]].add(place[0])
        for name, entry in entries.items():
            if (name, 0) in masks:
                continue
            if entry.get("class_name") == "InputLayer" and not entry["inbound_nodes"]:
                made[name] = self._input(entry, bool(users[name]) and all(entries[user].get("class_name") == "Embedding" for user in users[name] if user in entries))
            else:
                made[name] = self.layer(entry, f"layer '{name}'")
        if any(layer is None for layer in made.values()):
            return None
        results = {(name, 0): [made[name]] for name in made if not isinstance(made[name], Layer)}
        waiting = collections.defaultdict(list)
        open_needs = {place: len(parents - results.keys()) for place, parents in needs.items()}
        for place, parents in needs.items():
            for parent in parents - results.keys():
                waiting[parent].append(place)
        ready = collections.deque(place for place, count in open_needs.items() if count == 0)
        while ready:
            place = ready.popleft()
            results[place] = self._call(made[place[0]], nodes[place], results, place[0])
            for user in waiting.pop(place, ()):
                open_needs[user] -= 1
                if open_needs[user] == 0:
                    ready.append(user)
        missing = sorted({name for name, i in nodes if (name, i) not in results})
        if missing:
            raise Unfit(f"the calls of {', '.join(map(repr, missing[:5]))} form a circle, or need what is not there")

        def tensor(value):
            if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and type(value[1]) is int:  # a call of a functional model counts from 1 here
                return self._result([value[0], value[1] - is_functional(made.get(value[0])), value[2]], results)
            if isinstance(value, dict):
                return {key: tensor(part) for key, part in value.items()}
            return [tensor(part) for part in _list(value, "input_layers or output_layers")]

        return self._common(Model(tensor(config["input_layers"]), tensor(config.get("output_layers"))), config)

    def _parents(self, node, place):
        found, waiting = [], [_dict(node, "a call").get("args")]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting.extend(value)
            elif isinstance(value, dict):
                if value.get("class_name") == "__keras_tensor__":
                    history = _dict(value.get("config"), "a tensor").get("keras_history")
                    if not (isinstance(history, list) and len(history) == 3 and isinstance(history[0], str) and all(type(n) is int and n >= 0 for n in history[1:])):
                        raise Unfit(f"a call of '{place[0]}' names no tensor")
                    found.append((history[0], history[1]))
                else:
                    waiting.extend(value.values())
        return found

    def _result(self, history, results):
        name, call, output = history
        outputs = results.get((name, call)) if type(call) is int else None
        if outputs is None or type(output) is not int or not 0 <= output < len(outputs):
            raise Unfit(f"there is no output {output} of call {call} of '{name[:60]}'")
        return outputs[output]

    def _call(self, layer, node, results, name):
        def argument(value):
            if isinstance(value, list):
                return [argument(part) for part in value]
            if isinstance(value, dict):
                if value.get("class_name") == "__keras_tensor__":
                    return self._result(value["config"]["keras_history"], results)
                if value.get("class_name") == "__tuple__":
                    return tuple(argument(part) for part in _list(value.get("items"), "a tuple"))
                raise Unfit(f"a call of '{name}' has an argument that is no tensor")
            return value

        kwargs = {key: value for key, value in _dict(node.get("kwargs", {}), "kwargs").items() if value is not None and key not in keras_masks.given(node)}
        if any(isinstance(value, (dict, list)) for value in kwargs.values()):
            raise Unfit(f"a call of '{name}' gives a tensor by name: Lamina takes them by position")
        training = kwargs.pop("training", None)
        arguments = tuple(argument(value) for value in _list(node.get("args"), "args"))
        if not arguments:
            raise Unfit(f"a call of '{name}' has no argument")
        try:
            return flatten(symbolic_call(layer, arguments, training, kwargs))[0]
        except errors.Error as problem:
            raise Unfit(f"a call of '{name}' fails: {problem.what}") from problem

    def build(self, model, entry):
        """Makes the weights of a model that has no Input, as the file says what it was called on."""
        build = entry.get("build_config")
        if model.built or not isinstance(build, dict) or model.variables:
            return
        try:
            if "shapes_dict" in build:
                shapes = _dict(build["shapes_dict"], "shapes_dict")
                dtypes = entry.get("input_dtype") if isinstance(entry.get("input_dtype"), dict) else {}
                arguments = [self._specs(shape, dtypes.get(key)) for key, shape in shapes.items()]
            elif build.get("input_shape") is not None:
                first = model._stack[0] if type(model) is Sequential and model._stack else None  # Keras's file has no dtype
                dtype = "int32" if type(first) is Embedding else first.get_config().get("dtype") if type(first) in (row.cls for row in table.LAYERS.values()) else None
                arguments = [self._specs(build["input_shape"], entry.get("input_dtype", dtype))]
            else:
                return
            symbolic_call(model, tuple(arguments), None, {})
        except Unfit as problem:
            self.unfit.append(f"the model's build_config: {problem}")
        except errors.Error as problem:
            self.unfit.append(f"the model cannot be built as the file says: {problem.what}")

    def _specs(self, shape, dtype):
        if isinstance(shape, dict):
            return {key: self._specs(part, dtype.get(key) if isinstance(dtype, dict) else None) for key, part in shape.items()}
        if isinstance(shape, list) and shape and isinstance(shape[0], (list, dict)):
            return [self._specs(part, dtype[i] if isinstance(dtype, list) and i < len(dtype) else None) for i, part in enumerate(shape)]
        shape = _shape(shape, "input_shape")
        name = dtype if isinstance(dtype, str) and dtype in _DATA else "float32"
        return Symbolic(_core.TensorSpec(shape, name))

    # --- what compile() is given ---

    def compiled(self, config, outputs) -> dict | None:
        """The arguments of compile(), for a model with so many outputs; None: not known."""
        try:
            config = _dict(config, "compile_config")
            if config.get("weighted_metrics"):
                raise Unfit("Lamina's compile() has no weighted_metrics")
            loss, weights = _spread_out(self._loss, config.get("loss")), _spread_out(_factor, config.get("loss_weights"))
            if outputs == 1:
                loss, weights = _only(loss), _only(weights)
                loss, weights = (loss, None) if weights in (None, 1) else ([loss], [weights])
            elif isinstance(weights, float):
                raise Unfit("loss_weights is one number, for a model of several outputs")
            return {"optimizer": self._optimizer(config.get("optimizer")), "loss": loss, "loss_weights": weights, "metrics": self._metrics(config.get("metrics"), outputs),
                    "run_eagerly": bool(config.get("run_eagerly", False))}
        except Unfit as problem:
            self.unknown.append(f"what compile() was given: {problem}")
        except errors.Error as problem:
            self.unknown.append(f"what compile() was given: {problem.what}")
        return None

    def _optimizer(self, value):
        if isinstance(value, str):
            value = {"class_name": {name.lower(): name for name in table.OPTIMIZERS}.get(value.lower(), value), "config": {}}
        cls, config = _text(_dict(value, "the optimizer").get("class_name"), "the optimizer's class"), _dict(value.get("config"), "config")
        given = self._given(value.get("registered_name"), cls)
        if given is not None:
            return given(**config) if isinstance(given, type) else given
        if cls not in table.OPTIMIZERS:
            raise Unfit(f"Lamina has no optimizer {cls[:60]}")
        kind, keys, _ = table.OPTIMIZERS[cls]
        arguments = {}
        for key, part in config.items():
            if key in keys:
                if isinstance(part, dict):
                    raise Unfit(f"Lamina's {cls} has no {key} that changes by a schedule ({errors.shown(part.get('class_name'))})")
                if part is not None:
                    if not isinstance(part, (int, float)):
                        raise Unfit(f"{cls}: {key} is {errors.a_type(part)}")
                    arguments[keys[key]] = part
            elif key != "name" and key not in table.OPTIMIZER_IGNORED and part is not None and part not in table.OPTIMIZER_OFF.get(key, ()):
                raise Unfit(f"Lamina's {cls} has no {key} ({errors.shown(part)})")
        return kind(**table.switched(arguments))

    def _loss(self, value):
        if value is None:
            return None
        if isinstance(value, (list, dict)) and not _is_object(value):
            raise Unfit("the losses of an output are several")
        config = {}
        if isinstance(value, dict):
            name, config = _text(value["class_name"], "the loss's class"), value["config"]
            if name == "function":
                name, config = _text(config, "the loss"), {}
        else:
            name = _text(value, "the loss")
        given = self._given(value.get("registered_name") if isinstance(value, dict) else None, name)
        if given is not None:
            return given(**_dict(config, "config")) if isinstance(given, type) else given
        known = table.LOSS_ALIASES.get(name, name)
        name = next((theirs for theirs in table.LOSSES if known in (theirs, snake_case(theirs))), None)
        if name is None:
            raise Unfit(f"Lamina has no loss {known[:60]}, and it is not in `custom`")
        cls, keys, off, _ = table.LOSSES[name]
        arguments = {}
        for key, part in _dict(config, "config").items():
            if key in keys:
                arguments[keys[key]] = part
            elif key == "reduction":
                if part not in table.REDUCTIONS:
                    raise Unfit(f"Lamina's {name} has no reduction {errors.shown(part)}: losses are means")
            elif key not in ("name", "dtype", "fn") and part is not None and part not in off.get(key, ()):
                raise Unfit(f"Lamina's {name} has no {key} ({errors.shown(part)})")
        return cls(**arguments)

    def _metrics(self, value, outputs):
        """A list of them, or of lists or a dict with those of each output."""
        each = lambda part: [self._metric(one) for one in (part if isinstance(part, list) else [] if part is None else [part])]  # noqa: E731
        if value is None:
            return []
        if isinstance(value, dict) and not _is_object(value):
            found = {name: each(part) for name, part in value.items()}
            return sum(found.values(), []) if outputs == 1 else found
        if not isinstance(value, list) or not (any(part is None or isinstance(part, list) for part in value) or (outputs or 1) > 1):
            return each(value)
        found = [each(part) for part in value]
        return sum(found, []) if outputs == 1 or len(found) == 1 else found

    def _metric(self, value):
        config = {}
        if _is_object(value):
            name, config = value["class_name"], value["config"]
            if name == "function":
                name, config = config, {}
        else:
            name = value
        given = self._given(value.get("registered_name") if isinstance(value, dict) else None, _text(name, "a metric"))
        config = _dict(config, "config")
        if given is not None:
            return given(**config) if isinstance(given, type) and issubclass(given, metrics_module.Metric) else given
        if name in table.ACCURACIES:
            return metrics_module.Accuracy(config.get("name") or ("accuracy" if name == "acc" else snake_case(name)))
        known = table.METRIC_ALIASES.get(name, name)
        cls = next((theirs for theirs in table.METRICS if known in (theirs, snake_case(theirs))), None)
        if cls is None:
            raise Unfit(f"Lamina has no metric {name[:60]}, and it is not in `custom`")
        kind, keys, fixed = table.METRICS[cls]
        arguments = {"name": _text(config.get("name") or (snake_case(name) if name == cls else name), "a metric's name")}
        for key, allowed in fixed.items():
            if config.get(key) not in allowed:
                raise Unfit(f"Lamina's {cls} has no {key} ({errors.shown(config.get(key))})")
        for key, part in config.items():
            if key in keys:
                part = part[0] if isinstance(part, list) and len(part) == 1 else part
                if part is not None:
                    arguments[keys[key]] = part
                elif cls == "F1Score":
                    raise Unfit("Lamina's F1Score has no argmax in place of a threshold")
            elif key not in fixed and key not in ("name", "dtype") and part is not None:
                raise Unfit(f"Lamina's {cls} has no {key} ({errors.shown(part)})")
        return kind(**arguments)


def _spread_out(f, value):
    """f of a value, or of each output's in a list or a dict."""
    if isinstance(value, list):
        return [f(part) for part in value]
    return {name: f(part) for name, part in value.items()} if isinstance(value, dict) and not _is_object(value) else f(value)


def _only(value):
    """What a list or dict for one output holds."""
    parts = list(value.values()) if isinstance(value, dict) else value
    if isinstance(parts, list) and len(parts) != 1:
        raise Unfit(f"there are {len(parts)} losses or loss_weights for one output")
    return parts[0] if isinstance(parts, list) else parts


def _factor(value):
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise Unfit(f"a loss weight is {errors.a_type(value)}")
    return value
