"""Derivatives as transforms of functions: grad, value_and_grad, vjp, jvp, jacobian, hessian and custom_gradient."""
from __future__ import annotations

import functools
import sys

from . import _border, _core, errors
from ._callee import callee
from ._structure import parts_of
from .vmap import _fill, _join, _map, _Slot

Tensor, Variable = _core.Tensor, _core.Variable


def _is_floating(x) -> bool:
    return "float" in str(x.dtype)


def _leaf(value):
    """A value as the tensor or Variable to differentiate with respect to; None when it is neither."""
    if isinstance(value, (Tensor, Variable)):
        return value
    if type(value) is float or type(value).__module__ == "numpy" and hasattr(value, "__array__"):
        return _core.constant(value)
    return None


class _Leaves:
    """The tensors and Variables of a structure, and the structure with slots in their places."""

    def __init__(self, what, value, path, required=True, complex=True):
        self.values, self.what, self.required, self.complex = [], what, required, complex
        self.structure = _map(value, 0, path, what, self._take)

    def _take(self, value, axis, path):
        leaf = _leaf(value)
        if not _has_derivative(leaf, self.complex):
            if not self.required:
                return value
            raise _no_derivative(self.what, path, value, leaf)
        self.values.append(leaf)
        return _Slot(len(self.values) - 1)

    def fill(self, values):
        return _fill(self.structure, values)

    def watched(self, tape):
        """The values to call the function with, watched by the tape. A tensor is an alias for each place, so that the derivative is by this place alone:
        the same tensor may stand in another, or be used from outside. A Variable is itself, wherever it is used."""
        own = [_alias(value) if isinstance(value, Tensor) else value for value in self.values]
        tape.watch(own)
        return own

    def beside(self, value, path, of):
        """The tensors of another value of this structure, in the order of these; `of` is what has this one."""
        out = [None] * len(self.values)
        self._pair(self.structure, value, path, of, out)
        return out

    def _pair(self, place, part, path, of, out):
        if isinstance(place, _Slot):
            out[place.index] = leaf = _leaf(part)
            if not _has_derivative(leaf):
                raise _no_derivative(self.what, path, part, leaf)
            return
        inside = parts_of(place)
        if inside is None:
            return  # it has no derivative
        given = parts_of(part)
        if given is None or given.keys() != inside.keys() or _kind(place) is not _kind(part):
            raise errors.InvalidArgument(f"{self.what}: {path} is {_in_words(part, given)}, {of} has {_in_words(place, inside)} there", why="they are taken in pairs, by key and by position",
                                         fix=f"pass the structure of {of}")
        for key, one in inside.items():
            self._pair(one, given[key], _join(path, key, place), of, out)


def _has_derivative(leaf, complex=True) -> bool:
    return leaf is not None and (_is_floating(leaf) or complex and leaf.dtype.is_complex)


def _no_derivative(what, path, value, leaf):
    given = f"the {type(value).__name__} {errors.shown(value)}"[:60] if leaf is None else f"a tensor of {leaf.dtype}"
    return errors.TypeMismatch(f"{what}: {path} is {given}", why="only floating-point tensors and Variables have derivatives",
                               fix="choose other arguments with argnums, or convert it: lm.astype(x, lm.float32)")


def _alias(tensor):
    alias, masks = _core._alias(tensor), sys.modules.get("lamina.nn.masks")  # not imported: no tensor has one
    if masks is not None and masks.of(tensor) is not None:
        masks.attach(alias, masks.of(tensor))
    return alias


def _kind(value):
    """What containers of one structure have in common."""
    return dict if isinstance(value, dict) else type(value)


def _in_words(value, parts) -> str:
    if parts is None:
        return errors.a_type(value)
    return f"{errors.a_type(value)} of {len(parts)}" if isinstance(value, (tuple, list)) else f"{errors.a_type(value)} with {', '.join(map(str, parts)) or 'nothing'}"


def _chosen(what, fn, args, argnums):
    """The positional arguments to differentiate with respect to, as a tuple."""
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    for n in numbers:
        if isinstance(n, bool) or not isinstance(n, int) or not -len(args) <= n < len(args):
            raise errors.InvalidArgument(f"{what}: argnums is {errors.shown(argnums)}, and {_name(fn)} was given {len(args)} arguments", why="argnums are positions of positional arguments", fix="pass an index, or a tuple of them")
    return tuple(n % len(args) for n in numbers)


def _function(what, fn):
    """fn, if it can be called."""
    if not callable(fn):
        raise errors.TypeMismatch(f"{what}: {errors.a_type(fn)} cannot be called", why="it differentiates functions, not values",
                                  fix="pass a function of its inputs: lm.grad(lambda x: lm.sum(x * x))(x); or record with lm.GradientTape")
    return fn


def _name(fn):
    return getattr(fn, "__name__", None) or type(fn).__name__


def _with(args, numbers, leaves, values):
    """The arguments, with the differentiated ones rebuilt from these values."""
    args, filled = list(args), leaves.fill(values)
    for n, value in zip(numbers, filled):
        args[n] = value
    return args


def _scalar(what, fn, value):
    if isinstance(value, Variable):
        value = value.read()
    if not isinstance(value, Tensor) or tuple(value.shape) != ():
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{errors.a_type(value)}"
        raise errors.InvalidArgument(f"{what}: {_name(fn)} returns {given}", why="a gradient is of one number", fix="reduce it, for example with lm.sum or lm.mean, or use lm.jacobian")
    return value


def value_and_grad(fn, argnums=0, has_aux: bool = False):
    """value_and_grad(fn)(x, ...): (fn(x, ...), its gradient with respect to x).

    fn returns a number as a tensor of shape (); with has_aux a pair of it and anything else, which is returned beside the number. argnums:
    the argument to differentiate with respect to, or a tuple of them. It may be a tensor, a Variable, or any structure of them (tuples,
    lists, dicts, dataclasses), and the gradient has its structure. Other Variables that fn uses are constants. Where nothing connects, the
    gradient is 0. It works eagerly, in lm.function, under lm.vmap, and on itself for higher derivatives.
    """
    _function("value_and_grad", fn)

    @functools.wraps(fn, updated=())
    def wrapped(*args, **kwargs):
        numbers = _chosen("value_and_grad", fn, args, argnums)
        leaves = _Leaves("value_and_grad", tuple(args[n] for n in numbers), _name(fn) + "'s arguments")
        with _core.GradientTape(watch_accessed_variables=False) as tape:
            own = leaves.watched(tape)
            result = callee(fn)(*_with(args, numbers, leaves, own), **kwargs)
            if has_aux:
                if not isinstance(result, tuple) or len(result) != 2:
                    raise errors.InvalidArgument(f"value_and_grad: {_name(fn)} returns {errors.a_type(result)}", why="with has_aux it returns a pair", fix="return value, anything")
                value, aux = result
            else:
                value = result
            value = _scalar("value_and_grad", fn, value)
        gradients = leaves.fill(tape.gradient(value, own, unconnected_gradients="zero"))
        gradients = gradients if isinstance(argnums, (tuple, list)) else gradients[0]
        return ((value, aux), gradients) if has_aux else (value, gradients)

    return wrapped


def grad(fn, argnums=0, has_aux: bool = False):
    """grad(fn)(x, ...): the gradient of fn with respect to x, as in value_and_grad; with has_aux a pair of it and fn's auxiliary result."""
    both = value_and_grad(_function("grad", fn), argnums, has_aux)

    @functools.wraps(fn, updated=())
    def wrapped(*args, **kwargs):
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapped


def _results(what, fn, value):
    leaves = _Leaves(what, value, f"the result of {_name(fn)}", required=False)
    return leaves, [v.read() if isinstance(v, Variable) else v for v in leaves.values]


def vjp(fn, *primals):
    """(fn(*primals), pull), where pull(cotangents) returns a tuple with a gradient per primal.

    cotangents has the structure of fn's result, and they are paired by key; where the result has no floating-point tensor, it may be anything. pull may be
    called repeatedly. Where nothing connects, a gradient is 0.
    """
    _function("vjp", fn)
    given = _Leaves("vjp", tuple(primals), "the primals")
    with _core.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        own = given.watched(tape)
        out = callee(fn)(*given.fill(own))
        leaves, results = _results("vjp", fn, out)

    def pull(cotangents):
        seeds = leaves.beside(cotangents, "the cotangent", f"the result of {_name(fn)}")
        try:
            return tuple(given.fill(tape.gradient(results, own, output_gradients=seeds, unconnected_gradients="zero")))
        except errors.TapeUsed:
            raise errors.TapeUsed(f"vjp: the pull of {_name(fn)} was called in a loop, branch or function that began after vjp", why="what vjp recorded belongs to the graph around it",
                                  fix=f"call vjp there too: lm.vjp({_name(fn)}, ...)[1](cotangents)") from None

    return leaves.fill(results), pull


def jvp(fn, primals, tangents):
    """(fn(*primals), its derivative along the tangents).

    primals and tangents: tuples of arguments of the same structure, paired by key. The second result has the structure of fn's result. It is computed by
    two gradients, one with respect to the cotangent of the other, so it costs about three times fn.
    """
    _function("jvp", fn)
    given = _Leaves("jvp", tuple(primals), "the primals")
    along = given.beside(tuple(tangents), "tangents", "primals")
    for one, tangent in zip(given.values, along):
        if tuple(one.shape) != tuple(tangent.shape):
            raise errors.InvalidArgument(f"jvp: the tangents do not have the primals' shapes: {tuple(tangent.shape)} for {tuple(one.shape)}", why="there is one direction per element of the primals", fix="pass a tuple like primals")
    with _core.GradientTape(watch_accessed_variables=False) as outer:
        with _core.GradientTape(watch_accessed_variables=False) as inner:
            own = given.watched(inner)
            out = callee(fn)(*given.fill(own))
            leaves, results = _results("jvp", fn, out)
        seeds = [_core.zeros_like(r) for r in results]
        outer.watch(seeds)
        pulled = inner.gradient(results, own, output_gradients=seeds, unconnected_gradients="zero")
        parts = [(_core.as_real(x), _core.as_real(y)) if x.dtype.is_complex else (x, y) for x, y in zip(pulled, along)]
        sums = [_core.sum(gradient * tangent) for gradient, tangent in parts]
        along_direction = sum(sums[1:], sums[0]) if sums else _core.zeros([])
    pushed = outer.gradient(along_direction, seeds, unconnected_gradients="zero") if results else []
    return leaves.fill(results), leaves.fill(pushed)


def jacobian(fn, argnums=0):
    """jacobian(fn)(x, ...): the derivative of each element of fn's result with respect to each element of x: [result's shape..., x's
    shape...].

    fn returns one tensor. argnums and structures are as in grad. fn is called once; all rows are computed together.
    """
    _function("jacobian", fn)

    @functools.wraps(fn, updated=())
    def wrapped(*args, **kwargs):
        numbers = _chosen("jacobian", fn, args, argnums)
        leaves = _Leaves("jacobian", tuple(args[n] for n in numbers), _name(fn) + "'s arguments", complex=False)

        with _core.GradientTape(watch_accessed_variables=False) as tape:
            own = leaves.watched(tape)
            out = callee(fn)(*_with(args, numbers, leaves, own), **kwargs)
            out = out.read() if isinstance(out, Variable) else out
        if not isinstance(out, Tensor) or not _is_floating(out):
            raise errors.TypeMismatch(f"jacobian: {_name(fn)} returns {f'a tensor of {out.dtype}' if isinstance(out, Tensor) else f'{errors.a_type(out)}'}", fix="return one floating-point tensor")
        parts = [_core.zeros((*out.shape, *v.shape), dtype=v.dtype) if part is None else part for part, v in zip(tape.jacobian(out, own), own)]
        filled = leaves.fill(parts)
        return tuple(filled) if isinstance(argnums, (tuple, list)) else filled[0]

    return wrapped


def hessian(fn, argnums=0):
    """hessian(fn)(x, ...): the second derivatives of a number with respect to each pair of elements of x: [x's shape..., x's shape...]. x
    is one tensor."""
    return jacobian(grad(_function("hessian", fn), argnums), argnums)


def custom_gradient(fn):
    """A function with a user-defined gradient. fn(x, ...) returns (y, gradient); gradient(dy) returns the gradient with respect to x.

        @lm.custom_gradient
        def clipped(x):
            return x, lambda dy: lm.clip(dy, -1.0, 1.0)

    With several tensor arguments gradient returns a tuple with one per argument, and None where none flows; with several results (a tuple
    or list) it takes one cotangent per floating-point result. Arguments that are not tensors are passed to fn unchanged. Variables and
    other outside tensors that fn uses get no gradient, and fn must not assign Variables. It works eagerly and traced, under lm.vmap, and
    can be differentiated again, because gradient consists of ordinary ops.
    """
    @functools.wraps(fn, updated=())
    def wrapped(*args, **kwargs):
        args, kwargs = _by_position(fn, args, kwargs)
        inputs = [a for a in args if isinstance(a, (Tensor, Variable))]
        shape = []

        def body(given):
            tensors = iter(given)
            made = callee(fn)(*[next(tensors) if isinstance(a, (Tensor, Variable)) else a for a in args], **kwargs)
            if not isinstance(made, tuple) or len(made) != 2 or not callable(made[1]):
                raise errors.InvalidArgument(f"custom_gradient: {_name(fn)} returns {errors.a_type(made)}", why="it returns a pair of the result and the function that gives its gradient", fix="return y, gradient")
            result, gradient = made
            several = isinstance(result, (tuple, list))
            shape[:] = [getattr(type(result), "_make", type(result)) if several else None]
            results = list(result) if several else [result]

            def backward(cotangents):
                back = callee(gradient)(*cotangents)
                back = list(back) if isinstance(back, (tuple, list)) else [back]
                if len(back) != len(given):
                    raise errors.InvalidArgument(f"custom_gradient: the gradient of {_name(fn)} returns {len(back)} values", why=f"{_name(fn)} has {len(given)} tensor arguments", fix="return one per argument, None where none flows")
                return [_core.zeros_like(x) if g is None else g for g, x in zip(back, given)]

            return results, backward

        out = _core._custom_gradient(body, inputs)
        return out[0] if shape[0] is None else shape[0](out)

    return wrapped


def _by_position(fn, args, kwargs):
    """The arguments of a call with those tensors by position that are passed by name: a gradient is returned per position."""
    if not any(isinstance(value, (Tensor, Variable)) for value in kwargs.values()):
        return args, kwargs
    import inspect
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
        args, kwargs = bound.args, bound.kwargs
    except (TypeError, ValueError):  # fn says what it cannot take
        pass
    for name, value in kwargs.items():
        if isinstance(value, (Tensor, Variable)):
            raise errors.TypeMismatch(f"custom_gradient: {_name(fn)}'s argument {name} is {errors.a_type(value)} passed by name", why="gradients are returned by position, and it has none", fix="pass it by position")
    return args, kwargs


_border.guard(globals())
