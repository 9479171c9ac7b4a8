"""An ensemble: equal models with separate weights, trained in one call of lm.vmap."""
from __future__ import annotations

import operator

from .. import _border, _core, errors
from .layer import Layer
from .symbolic import Input, symbolic_call

_MOST = 2**20  # a number beyond is a mistake that would fill the memory


def stack(build, n: int, *, seeds=None, input_shape=None) -> Stack:
    """n models of build() as one, whose Variables have a leading model axis: [n, ...].

    seeds: one per model; each model is then what build() returns after lm.random.set_seed(seed), with the same weights and the same draws
    (dropout) in training. None: the models' weights follow one another as if built one by one, and lm.random's generator provides all
    draws.
    input_shape: without the batch dimension; needed unless the models create their weights in build().

    Use it inside lm.vmap, where it is an ordinary model with one model's weights:

        nets = lm.nn.stack(build, 8, seeds=range(8), input_shape=(1,))
        outputs = lm.vmap(nets, in_axes=None)(x)      # [8, ...]: the batch is shared
        outputs = lm.vmap(nets)(xs)                   # a batch for each model

    nets[k] is an ordinary model with a copy of model k's weights; len(nets) and `for net in nets` work as for a list. Raises
    InvalidArgument for models whose weights differ in shape or dtype, and for a wrong number of seeds.
    """
    if not callable(build):
        raise errors.TypeMismatch(f"stack: build is {errors.a_type(build)}", why="it makes one model a call", fix="pass a function without arguments")
    errors.in_range("stack", "it is how many models there are", 1, _MOST, n=n)
    if seeds is not None:
        seeds = [operator.index(seed) for seed in seeds]
        if len(seeds) != n:
            raise errors.InvalidArgument(f"stack: {len(seeds)} seeds for {n} models", why="each model has its own", fix="pass one per model, or none")
    return Stack(build, n, seeds, input_shape)


class Stack(Layer):
    """The result of lm.nn.stack."""

    _not_inside = (*Layer._not_inside, "_generator")  # not a weight

    def __init__(self, build, n, seeds, input_shape):
        super().__init__()
        if not _core.executing_eagerly():
            raise errors.StateError(f"stack: {n} models are made while a function is traced", why="their weights are state, which is made once, outside of the graph", fix="make the stack before, and use it in the function")
        self._make, self._size, self._input_shape = build, n, input_shape
        before = _core.random.get_state()
        models, generators = [], []
        try:
            for k in range(n):
                if seeds is not None:
                    _core.random.set_seed(seeds[k])
                models.append(self._member())
                generators.append(_core.random.get_state()[2:])
        finally:
            if seeds is not None:
                _core.random.set_state(before)
        columns = [list(column) for column in zip(*_equal_variables(models))]
        values = [_core.stack([variable.read() for variable in column]) for column in columns]
        self.model = models[0]
        for column, value in zip(columns, values):
            _core._stack_variable(column[0], value)
        self._generator = None if seeds is None else _core.per_model(_core.constant(generators, "int64"), "generator")
        self.built = True

    def _member(self):
        """An ordinary model with its weights created."""
        net = self._make()
        if not isinstance(net, Layer):
            raise errors.TypeMismatch(f"stack: build() gave {errors.a_type(net)}", why="a stack is made of layers or models", fix="return an lm.nn.Layer")
        if self._input_shape is not None and not net.built:
            symbolic_call(net, (Input(self._input_shape),), None, {})
        if not net.variables:
            raise errors.StateError(f"stack: the weights of {net.name} do not exist yet", why="their shapes follow from the first input", fix="pass input_shape, without the batch dimension")
        return net

    def call(self, *args, **kwargs):
        if not _core._is_mapped(self.model.variables[0]):
            if _core._in_vmap():
                self.model.variables[0].read()  # the error of a Variable that no call of vmap maps
            raise errors.StateError(f"{self.name}: a stack of {self._size} models was called outside of lm.vmap", why="it is a model only where lm.vmap maps its weights",
                                    fix=f"lm.vmap({self.name}, in_axes=None)(x) for all models on one input, or {self.name}[k](x) for one model")
        if self._generator is None:
            return self.model(*args, **kwargs)
        before = _core._use_generator(self._generator)
        try:
            return self.model(*args, **kwargs)
        finally:
            _core._use_generator(before)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, k):
        """An ordinary model with a copy of model k's current weights."""
        index = operator.index(k)
        if not -self._size <= index < self._size:
            raise errors.IndexOutOfRange(f"{self.name}[{index}]: there are {self._size} models", fix=f"pass an index from {-self._size} to {self._size - 1}")
        before = _core.random.get_state()
        try:
            net = self._member()
        finally:
            _core.random.set_state(before)
        for own, all_models in zip(net.variables, self.model.variables):
            own.assign(all_models.read()[index])
        return net

    def __iter__(self):
        return (self[k] for k in range(self._size))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._size} {type(self.model).__name__}>"


def _equal_variables(models):
    """The Variables of each model, which must have equal shapes and dtypes."""
    rows = [model.variables for model in models]
    for k, row in enumerate(rows):
        alike = len(row) == len(rows[0]) and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(row, rows[0]))
        if not alike:
            raise errors.InvalidArgument(f"stack: model {k} differs from model 0", why=f"its Variables are {_types(row)}, those of model 0 {_types(rows[0])}",
                                         fix="let build() make the same layers every time")
    return rows


def _types(variables) -> str:
    return ", ".join(f"{v.dtype.name}{list(v.shape)}" for v in variables)


_border.guard(globals())
