"""Layer: state and a computation on tensors, the base of Dense, Model and user-defined layers."""
from __future__ import annotations

import inspect
import itertools
import operator
import re
import sys
import threading
import weakref

from .. import _border, _core, _habits, errors
from .._structure import enter, flatten
from ..module import Module, specs_of
from . import masks
from .symbolic import Symbolic, contains_symbolic, symbolic_call

_names_wanted = _core.profiler._names_wanted
_counters: dict[str, itertools.count] = {}
_watching: list = []  # summaries that look at the calls of layers
_loading = threading.local()  # .budget: asked before weights are made while a file is loaded, which says how large they are all together


def _next_name(cls) -> str:
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower().lstrip("_")
    n = next(_counters.setdefault(stem, itertools.count()))
    return stem if n == 0 else f"{stem}_{n}"


def shape_of(value):
    """The shape of the first tensor in an argument, as a tuple; None for an unknown dimension."""
    inside = ()
    while isinstance(value, (tuple, list, dict)) and value:
        inside = enter(inside, value, "an input")
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return tuple(value.shape) if hasattr(value, "shape") else ()


def _training(layer, given) -> bool:
    """What a call takes as training: also 0, 1 and NumPy's bools."""
    if type(given).__name__ in ("bool", "bool_") or isinstance(given, int) and given in (0, 1):
        return bool(given)
    raise errors.TypeMismatch(f"{layer.name}: training is {errors.a_type(given)}, {errors.shown(given)}", why="a layer is traced for training or for use", fix="pass True or False")


def _shape(layer, given):
    """An argument input_shape: the lengths without the batch, None for unknown ones."""
    fits = lambda one: one is None or hasattr(type(one), "__index__") and not isinstance(one, bool) and one >= 0
    if given is None or isinstance(given, (tuple, list)) and all(map(fits, given)):
        return given
    raise errors.InvalidArgument(f"{type(layer).__name__}: input_shape is {given if isinstance(given, (int, tuple, list)) else errors.shown(given)}", why="it has the lengths of the input without the batch, None for unknown ones", fix="pass a tuple such as (784,)")


def _holds_numbers(value):
    return all(map(_holds_numbers, value)) if isinstance(value, (list, tuple)) else isinstance(value, (bool, int, float, complex))


class _Arguments:
    """Arguments of a call, kept as they are: what is in them is no part of the layer that keeps them."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs


_HALF = {"mixed_float16": _core.float16, "mixed_bfloat16": _core.bfloat16}


class _PolicySwitch:
    """What set_policy gives: usable in `with`, which sets the policy back."""

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.nn._set_policy(self._before)


def set_policy(name: str) -> _PolicySwitch:
    """The dtypes of layers and models that are made from now on, in the whole process:

    - "float32" (the default): weights, computation and results are float32.
    - "mixed_float16", "mixed_bfloat16": weights, their gradients and the optimizer's state stay float32. Layers of products (Dense, convolutions, recurrent layers,
      MultiHeadAttention) read their weights in the half type; normalisations and layers of your own with float32 weights compute in float32. Every layer gives the half type.
      fit, evaluate and predict convert a model's outputs to float32 before losses, metrics and results; a loop of your own does it with lm.astype(net(x), "float32").

    Layers with another dtype= than float32 keep it. float16 needs a loss scale: compile() gives one to an optimizer that it makes of a name; pass dynamic_loss_scale=True to others.

        with lm.nn.set_policy("mixed_bfloat16"):        # sets it back at the end
            net = make()

    Raises NotFound for any other name."""
    before = _core.nn.policy()
    _core.nn._set_policy(name)
    return _PolicySwitch(before)


def policy() -> str:
    """The name that set_policy() has set; "float32" before."""
    return _core.nn.policy()


def widened(layer, outputs):
    """A model's outputs for losses, metrics and users: float32 in place of its policy's half type."""
    half = _HALF.get(layer._policy)
    return outputs if half is None else _each(outputs, half, "float32")


def _each(value, old, new):
    """The tensors of dtype `old` in a result of call() as `new`."""
    if isinstance(value, _core.Tensor):
        return _core.astype(value, new) if value.dtype == old else value
    if isinstance(value, dict):
        return {key: _each(one, old, new) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [_each(one, old, new) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _converted(value, dtype):
    """The floating tensors and arrays of an argument in this dtype; the argument itself if they have it."""
    if isinstance(value, dict):
        parts = {key: _converted(one, dtype) for key, one in value.items()}
        return value if all(parts[key] is one for key, one in value.items()) else parts
    if isinstance(value, (tuple, list)):
        parts = [_converted(one, dtype) for one in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return _core.astype(value, dtype) if "float" in str(getattr(value, "dtype", "")) and value.dtype != dtype else value


_taken = weakref.WeakKeyDictionary()  # a layer's dtype that floating inputs are converted to; None: they stay as they are


def _told_of_recursion(error):
    """The error for a RecursionError that ends the outermost call of a layer: which layer calls itself, and by way of which others. The error itself if none does."""
    code, frame = _call_code, sys._getframe(2)
    while frame is not None:
        if frame.f_code is code:
            return error  # that call tells
        frame = frame.f_back
    calls, traceback = [], error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            calls.append(traceback.tb_frame.f_locals["self"])
        traceback = traceback.tb_next
    for start, layer in enumerate(calls):
        again = [i for i, one in enumerate(calls) if one is layer]
        if len(again) > 7:  # fewer may be a recursion that ends, around another one that does not
            names = [one.name for one in calls[start:again[1] + 1]]
            way = " -> ".join(names if len(names) <= 6 else [*names[:4], "...", names[-1]])
            return errors.RecursionTooDeep(f"calls are nested too deep: the layer {layer.name} calls itself without end ({way})", why="each call of a layer inside of another takes some of the stack",
                                           fix="call another layer in call(), or use a loop")
    return error


def _add_losses(layer, found, seen):
    if id(layer) in seen or not layer.trainable:
        return
    seen.add(id(layer))
    for name, regularizer in getattr(layer, "_regularizers", {}).items():
        weight = getattr(layer, name, None)
        if weight is not None and weight.trainable:
            found.append(regularizer(weight))
    for inner in layer.layers:
        _add_losses(inner, found, seen)


class Layer(Module):
    """Base of all layers. A subclass defines call(self, inputs) and, if it has weights whose shapes depend on the input, build(self,
    input_shape), which runs once before the first call.

    Variables and layers in attributes are found automatically, also inside lists, tuples and dicts. `training` is off unless a call passes
    training=True; it applies to every layer called inside, even if the calls in between do not pass it on.
    """

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        vars(self).update(_made_with=_Arguments(args, kwargs), _policy=_core.nn.policy())
        _core._layer_changed()
        return self

    def __init__(self, name: str | None = None, trainable: bool = True):
        self.name = _next_name(type(self)) if name is None else name
        self._trainable = bool(trainable)
        self.built = False

    # Defaults for subclasses that forget super().__init__().
    name = "layer"
    built = False
    supports_masking: bool | None = False  # whether the result has the input's mask; None: its own compute_mask() says
    _told_of_mask = _makes_mask = False
    _autocast = True
    _weights: tuple = ()  # attributes that are the weights of the C++ layer
    _read: tuple = ()  # arguments of the constructor that Python reads in a call, though the layer has a C++ one
    _unread: tuple = ()  # those that are not kept under their names
    _built_with = None  # the first call's arguments, with TensorSpecs in place of tensors
    _unnamed = ("_stack", "_graph_layers")  # a model's layers
    _not_inside = ("optimizer",)

    def _computed_by(self, kind, *args) -> None:
        """The layer's computation is that of the C++ layer of this name, made with these arguments."""
        vars(self).update(_core=getattr(_core.nn, kind)(*args), _core_made=_Arguments((kind, *args), {}))

    def _build_core(self, *shapes) -> None:
        self._core.build(*shapes)
        self._core_made.kwargs["shapes"] = shapes
        vars(self).update({name: self._core_weight(name) for name in self._weights})
        _core.trainable_changed()

    def _core_weight(self, name):
        """The C++ layer's weight of this name, None if it has none."""
        return getattr(self._core, name)

    def _make_core(self, weights) -> None:
        """Makes the C++ layer anew, as it was made before, with these weights."""
        kind, *args = self._core_made.args
        with set_policy(self._policy):
            core = self._core = getattr(_core.nn, kind)(*args)
        if "shapes" in self._core_made.kwargs:
            core._take_weights(weights)
            core.build(*self._core_made.kwargs["shapes"])
        self.autocast = self._autocast

    def __setattr__(self, name, value):
        kept = self.__dict__
        if not kept.get("built") and "_core_made" not in kept and not self._unread:
            pass  # the constructor is at work
        elif name in self._weights and "_core_made" in kept and ("shapes" in kept["_core_made"].kwargs or type(self).build.__module__.startswith(__package__)):
            return self._set_weight(name, value)
        elif name in _fixed(type(self), "_core_made" in kept, kept.get("built", False)) and not (name in kept and (value is kept[name] or isinstance(value, (int, float, str)) and value == kept[name])):
            raise errors.StateError(f"{self.name}: {name} cannot be assigned", why=f"the computation of {type(self).__name__}, and what is traced of it, was made with the {name} that the constructor was given",
                                    fix=f"make a new layer: {type(self).__name__}(..., {name}=...)")
        if not isinstance(kept.get(name), (type(None), bool, int, float, str)) and kept[name] is not value:
            _core._layer_changed()
        super().__setattr__(name, value)

    def _set_weight(self, name, value) -> None:
        """A Variable in place of a weight of the C++ layer: weights that layers share."""
        old = vars(self).get(name)
        if value is old and old is not None:
            return
        if not isinstance(value, _core.Variable):
            raise errors.TypeMismatch(f"{self.name}: {name} is a weight, and the value is {errors.a_type(value)}", why="a weight is a Variable", fix=f"write layer.{name}.assign(value)")
        if old is None:
            raise errors.StateError(f"{self.name}: there is no {name} that a Variable could replace", why=f"the layer was made without {name}" if "shapes" in self._core_made.kwargs else "weights are made at the first call",
                                    fix="make the layer with it" if "shapes" in self._core_made.kwargs else "call the layer once first")
        if tuple(value.shape) != tuple(old.shape) or value.dtype != old.dtype:
            raise errors.InvalidArgument(f"{self.name}: the Variable for {name} is {value.dtype.name} {tuple(value.shape)}, {name} is {old.dtype.name} {tuple(old.shape)}", why="the layer computes with weights of that shape and dtype",
                                         fix="pass a Variable of that shape and dtype; a layer that uses a weight in another form, such as transposed, is a subclass of lm.nn.Layer")
        vars(self)[name] = value
        _core._layer_changed()
        self._make_core([vars(self)[one] for one in self._weights if vars(self)[one] is not None])
        _core.trainable_changed()

    def __getstate__(self):
        state = super().__getstate__()
        core = state.pop("_core", None)
        return state if core is None else state | {"_core_weights": core._variables() if hasattr(core, "_variables") else []}

    def __setstate__(self, state):
        weights = state.pop("_core_weights", None)
        super().__setstate__(state)
        if weights is None:
            return
        self._make_core(weights)

    def build(self, input_shape) -> None:
        """Creates the weights; input_shape is the first input's, a tuple with None for unknown dimensions."""

    def call(self, *args, **kwargs):
        """The outputs for the inputs: tensors, or structures of them. Layers of your own override it; call the layer itself instead."""
        raise self._no_call()

    def _no_call(self):
        name, forward = type(self).__name__, getattr(type(self), "forward", None) is not None
        return errors.NotDefined(f"{name} does not define call()", why=f"a call of {name} runs its method call()" + (", not forward()" if forward else ""),
                                 fix="rename forward to call" if forward else "define call(self, inputs) in the class")

    def __call__(self, *args, training=None, **kwargs):
        if training is not None and not isinstance(training, bool):
            training = _training(self, training)
        if args and (type(args[0]) is Symbolic or contains_symbolic(args)) or kwargs and contains_symbolic(kwargs):
            return symbolic_call(self, args, training, kwargs)
        try:
            if not _names_wanted() and self.built and not _watching:
                return self._run(args, kwargs, training)
            _core.profiler._enter_layer(self.name)
            try:
                result = self._run(args, kwargs, training)
            finally:
                _core.profiler._leave()
        except RecursionError as error:
            told = _told_of_recursion(error)
            if told is error:
                raise
            raise told from None
        for watch in _watching:
            watch(self, result)
        return result

    def _run(self, args, kwargs, training):
        half = _HALF.get(self._policy)
        return self._called(args, kwargs, training) if half is None else _each(self._called(args, kwargs, training), _core.float32, half)

    def _called(self, args, kwargs, training):
        if not self.built:
            self._build_once(args, kwargs)
        call = self.call
        if self._autocast:
            args = self._cast(args)
        parameters = _parameters(call)
        takes_training = "training" in parameters
        if _core.autograph_is_active():
            from ..autograph.conversion import converted
            call = converted(call)
        if training is None:
            training = _core.training()
            if takes_training:
                kwargs["training"] = training
            return call(*args, **kwargs) if not masks._of and not self._makes_mask else masks.run(self, call, parameters, args, kwargs)
        if takes_training:
            kwargs["training"] = training
        before = _core.set_training(bool(training))
        try:
            return call(*args, **kwargs) if not masks._of and not self._makes_mask else masks.run(self, call, parameters, args, kwargs)
        finally:
            _core.set_training(before)

    def compute_mask(self, inputs, mask=None):
        """The mask of the result, bool [n, t] or None, for the inputs and theirs: the same with supports_masking = True, else None. Layers with masks of their own override it."""
        return masks.all_of(mask if isinstance(mask, list) else [mask]) if self.supports_masking else None

    @property
    def autocast(self) -> bool:
        """Whether floating inputs, tensors and arrays, are converted to the dtype of this layer's own weights. False: another dtype is an error."""
        return self._autocast

    @autocast.setter
    def autocast(self, value) -> None:
        self._autocast = bool(value)
        if "_core" in vars(self) and hasattr(self._core, "autocast"):
            self._core.autocast = self._autocast

    def _cast(self, args) -> tuple:
        """The positional arguments as call() takes them. Layers of C++ convert by themselves."""
        takes = _taken.get(self, _taken)
        if takes is _taken:
            own = [] if "_core" in vars(self) else [v.dtype for v in vars(self).values() if isinstance(v, _core.Variable) and "float" in v.dtype.name]
            takes = _taken[self] = own[0] if own else None if "_core" in vars(self) else _HALF.get(self._policy)
        if takes is None:
            return args
        return tuple(_converted(x, takes) for x in args)

    def _build_once(self, args, kwargs) -> None:
        given = self._arguments_of(args, kwargs)
        first = shape_of(next(iter([*given.args, *given.kwargs.values()]), None))

        def build():
            if hasattr(_loading, "budget"):
                _loading.budget.take_for(self, first)
            self.build(first)
            self._built_with, self.built = given, True

        self._make_once(build)

    def _arguments_of(self, args, kwargs) -> _Arguments:
        """The arguments of the first call, with TensorSpecs in place of tensors. What call() takes first comes first, also when it was passed by name."""
        if not args:
            parameters = inspect.signature(self.call).parameters
            kwargs = {name: kwargs[name] for name in parameters if name in kwargs} | kwargs
            first = next(iter(parameters.values()), None)
            if first is not None and first.kind is first.POSITIONAL_OR_KEYWORD and first.name in kwargs:
                args = (kwargs.pop(first.name),)
        if args:
            args = (self._input_of(args[0]), *args[1:])
        args, kwargs = specs_of((args, kwargs))
        return _Arguments(args, kwargs)

    def _input_of(self, value):
        """What call() takes first: nested lists of numbers are one tensor, and a layer of C++ takes nothing but tensors."""
        if any(hasattr(leaf, "shape") for leaf in flatten(value)[0]):
            return value
        return _core.constant(value) if "_core" in vars(self) or isinstance(value, list) and _holds_numbers(value) else value

    @staticmethod
    def _make_once(build) -> None:
        """Calls build(), whose changes of this layer are kept even when a branch or loop of the graph is the first to call it."""
        if _core.executing_eagerly():
            return build()
        from ..autograph.state import keep_what_is_made
        keep_what_is_made(build)

    def add_weight(self, shape, initializer="glorot_uniform", dtype="float32", name: str = "weight", trainable: bool = True):
        """A new Variable of this layer, initialised by an initializer."""
        from . import initializers

        if hasattr(_loading, "budget"):
            _loading.budget.take(self, [shape])
        value = initializers.get(initializer)(shape, dtype=dtype)
        return _core.Variable(value, name=f"{self.name}/{name}", trainable=trainable)

    def _regularize(self, **regularizers):
        """Regularisers of attributes, by name."""
        from . import regularizers as module
        found = {name: module._made(one) for name, one in regularizers.items() if one is not None}
        if found:
            self._regularizers = found

    @property
    def losses(self) -> list:
        """The regularisers' values for the trainable weights of this layer and of those inside it, as scalar tensors; fit, evaluate and their like add them to the loss."""
        found = []
        _add_losses(self, found, set())
        return found

    # --- contents ---

    @property
    def layers(self) -> list:
        """The layers directly inside this one, each once, in attribute order."""
        return [child for child in self.modules if isinstance(child, Layer)]

    def count_params(self) -> int:
        """The number of elements of all weights. Raises RuntimeError before they exist."""
        self._require_built("count_params")
        return sum(variable.size for variable in self.variables)

    def get_weights(self) -> list:
        """A NumPy copy of every variable, in the order of `variables`."""
        return [variable.numpy() for variable in self.variables]

    def set_weights(self, weights) -> None:
        """Assigns arrays in the order of get_weights(). If one does not fit, nothing is changed."""
        variables = self.variables
        weights = list(itertools.islice(weights, len(variables) + 1))
        if len(weights) != len(variables):
            given = "more" if len(weights) > len(variables) else len(weights)
            raise errors.InvalidArgument(f"set_weights: {self.name} has {len(variables)} variables, {given} arrays were given",
                                         why="each variable takes one array, in the order of get_weights()",
                                         fix="pass weights for all of them" if variables else "call the layer once, so that its weights exist")
        for variable, weight in zip(variables, weights):
            shape = tuple(getattr(weight, "shape", None) or _core.constant(weight).shape)
            if shape != tuple(variable.shape):
                raise errors.InvalidArgument(f"set_weights: {variable.name} has shape {tuple(variable.shape)}, the array has {shape}",
                                             why="arrays come in the order of get_weights()", fix="pass an array of the weight's shape")
        for variable, weight in zip(variables, weights):
            variable.assign(_core.astype(_core.constant(weight), variable.dtype))

    def _described(self) -> str:
        return self.name

    def _input_specs(self):
        """(args, kwargs) of a call, with TensorSpecs for any number of rows; None before they are known."""
        return None if self._built_with is None else specs_of((self._built_with.args, self._built_with.kwargs), open_rows=True)

    def _named_variables(self, what: str) -> dict:
        self._require_built(what)
        return super()._named_variables(what)

    def _require_built(self, what: str) -> None:
        if not self.built and not self.variables:
            raise errors.StateError(f"{what}: the weights of {self.name} do not exist yet", why="their shapes follow from the first input",
                                    fix="call it on data once, or start it with lm.nn.Input")

    # --- how it is made again ---

    def get_config(self) -> dict:
        """What from_config() makes an equal layer of: the arguments that this one was made with, by name. A subclass that overrides it gets name and
        trainable from here, and adds its own."""
        base = {"name": self.name, "trainable": self.trainable}
        if type(self).get_config is not Layer.get_config:
            return base
        made, config = self._made_with, {}
        parameters = inspect.signature(type(self).__init__).parameters
        bound = inspect.signature(type(self).__init__).bind(self, *made.args, **made.kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            kind = parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL and value:
                raise errors.StateError(f"get_config: {type(self).__name__} is made of *{name}", why="a config holds arguments by name",
                                        fix="define get_config() and from_config() in the class")
            config.update(value if kind is inspect.Parameter.VAR_KEYWORD else {} if kind is inspect.Parameter.VAR_POSITIONAL else {name: value})
        return config | {name: value for name, value in base.items() if name in config}

    @classmethod
    def from_config(cls, config: dict):
        """A layer of what get_config() gave, with weights of its own."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class CoreLayer(Layer):
    """A layer that builds and computes as the C++ layer of _computed_by() does."""

    def build(self, input_shape):
        if self._weights:
            self._build_core(input_shape)

    def call(self, x):
        return self._core.call(x)


_fixed_arguments = weakref.WeakKeyDictionary()  # of classes, see _fixed


def _fixed(cls, made, built) -> frozenset:
    """The constructor's arguments that assignments would not reach, of a layer with Lamina's own call(). made: its C++ layer exists; built: calls may have been traced."""
    of_class = _fixed_arguments.setdefault(cls, {})
    found = of_class.get((made, built))
    if found is None:
        ours = next(base for base in cls.__mro__ if base.__module__.startswith(__package__))
        given = frozenset(inspect.signature(ours.__init__).parameters) - {"self", "name", "trainable", "input_shape"}
        found = given if built else given - set(cls._read) if made else frozenset(cls._unread)
        found = found if cls.call.__module__.startswith(__package__) else frozenset()
        of_class[made, built] = found
    return found


_habits.hints(Layer, "Layer", _habits.LAYER)


def _parameters(call):
    """The names of call's parameters, cached on the function, because every call of every layer needs them."""
    names = getattr(call, "_lamina_parameters", None)
    if names is None:
        try:
            names = frozenset(inspect.signature(call).parameters)
        except (TypeError, ValueError):
            names = frozenset()
        try:
            getattr(call, "__func__", call)._lamina_parameters = names
        except AttributeError:
            pass
    return names


_core._layers_are(Layer)
_call_code = Layer.__call__.__code__


class Op(Layer):
    """A function of tensors that was called on a symbolic one."""

    def __init__(self, function, name):
        super().__init__(name=name)
        self._function, self.built = function, True

    def call(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def op_layer(function, name) -> Op:
    n = next(_counters.setdefault(name, itertools.count()))
    return Op(function, name if n == 0 else f"{name}_{n}")


_border.guard(globals())
