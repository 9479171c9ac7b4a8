"""Functions of Lamina in programs of PyTorch and JAX, with gradients, and PyTorch's weights in layers of Lamina.

Both packages are imported when a function here is called.
"""
from __future__ import annotations

import functools
import importlib

from . import _border, _core, _state, errors
from ._structure import flatten, unflatten
from .module import Module
from .transforms import jvp
from .vmap import vmap

__all__ = ["load_torch", "to_jax", "to_torch"]


def to_torch(fn):
    """fn, a function of tensors such as a model or a lm.function, as a function of PyTorch's tensors with gradients to any order: it is traced, and each call is one torch.autograd.Function.

    Arguments and results may be nested in tuples, lists and dicts. Tensors are in host memory; inputs are shared, results are copies. Other arguments are part of the signature, as for
    lm.function. Lamina's Variables count as constants: pass what PyTorch is to train as an argument. torch.func's transforms work too, and forward mode. A gradient computes the function again
    as it was called: it draws the same numbers and assigns nothing.
    Raises NotFound where PyTorch is not installed, DeviceUnavailable for tensors on a GPU.
    """
    torch = _imported("torch", "to_torch")
    bridge = _Bridge(fn, lambda leaf: isinstance(leaf, torch.Tensor))

    @functools.wraps(fn, updated=())
    def call(*args, **kwargs):
        flat, tensors = bridge.flat(args, kwargs)
        found = _Found()
        results = _torch_function().apply(flat, found, *tensors)
        return unflatten(found.structure, results)

    return call


def to_jax(fn):
    """fn, a function of tensors such as a model or a lm.function, as a function of JAX's arrays with gradients (reverse mode, to any order): it is traced, and runs in a jax.pure_callback with
    a jax.custom_vjp. Forward mode (jax.jvp, jax.jacfwd, jax.hessian) is refused by JAX; second derivatives are jax.jacrev(jax.grad(f)).

    It works in jax.jit, where the host waits for it, and in jax.vmap, which becomes lm.vmap. Arguments and results may be nested in tuples, lists and dicts; shapes are known when it is
    called. Other arguments are part of the signature, as for lm.function. Lamina's Variables count as constants, with the values of the time of the call. Without jax_enable_x64 results
    of 64 bits become 32. Raises NotFound where JAX is not installed, NotDefined for the gradient of a function that draws from a generator or assigns Variables.
    """
    _imported("jax", "to_jax")
    bridge = _Bridge(fn, lambda leaf: hasattr(leaf, "shape") and hasattr(leaf, "dtype"))

    @functools.wraps(fn, updated=())
    def call(*args, **kwargs):
        flat, arrays = bridge.flat(args, kwargs)
        leaves, structure = flat.results_of(arrays)
        results = iter(_jax_function(flat)(*arrays))
        return unflatten(structure, [next(results) if isinstance(leaf, _core.TensorSpec) else leaf for leaf in leaves])

    return call


def _imported(name, what):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.NotFound(f"lm.interop.{what}: the package {name} is not installed", why=str(error), fix=f"pip install {name}") from None


# --- functions ---


class _Bridge:
    """A function by the nesting of its arguments and by those of them that are no tensors."""

    def __init__(self, fn, is_tensor):
        if not callable(fn):
            raise errors.TypeMismatch(f"lm.interop: {errors.a_type(fn)} is no function", fix="pass a function of tensors, a model or a lm.function")
        self.fn, self.is_tensor, self._flats = fn, is_tensor, {}

    def flat(self, args, kwargs):
        """The function of the tensors alone, and these."""
        leaves, structure = flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if self.is_tensor(leaf)]
        others = [None if self.is_tensor(leaf) else leaf for leaf in leaves]
        key = _key(structure), tuple(places), tuple((type(one), one) for one in others)
        try:
            known = self._flats.get(key)
        except TypeError:
            wrong = next(one for one in others if type(one).__hash__ is None)
            raise errors.TypeMismatch(f"lm.interop: {errors.a_type(wrong)} among the arguments", why="what is no tensor is part of the signature", fix="pass a tensor, a number or a text") from None
        if known is None:
            def run(*tensors):
                filled = list(others)
                for place, tensor in zip(places, tensors):
                    filled[place] = tensor
                by_place, by_name = unflatten(structure, filled)
                return self.fn(*by_place, **by_name)

            known = self._flats[key] = _Flat(run)
        return known, [leaves[i] for i in places]


def _key(structure):
    return structure.kind, structure.keys, tuple(map(_key, structure.children))


class _Flat:
    """A traced function of tensors, with its derivatives and its form for batches as further ones. pure: a derivative, which leaves all Variables as they are."""

    def __init__(self, fn, pure=False):
        self.fn, self._body, self._pure, self._made = _core.function(fn), fn, pure, {}

    def __call__(self, tensors):
        """The results' leaves, and their structure."""
        return flatten(self.fn(*tensors))

    def results_of(self, arrays):
        """The results' TensorSpecs for arrays like these, and their structure."""
        return flatten(self._concrete(arrays).structured_outputs)

    def state(self, arrays) -> tuple:
        """The Variables that a call with arrays like these assigns; the generators it draws from are among them."""
        if self._pure:
            return ()
        key = "state", *((tuple(array.shape), array.dtype) for array in arrays)
        if key not in self._made:
            self._made[key] = tuple(self._concrete(arrays)._assigned)
        return self._made[key]

    def _concrete(self, arrays):
        return self.fn.get_concrete_function(*[_core.TensorSpec(list(array.shape), str(array.dtype).removeprefix("torch.")) for array in arrays])

    def pull(self, wanted, inputs, state=()) -> _Flat:
        """The gradients for the inputs at these places: a function of all inputs, of the cotangents of the inexact results and of what these Variables had before the call."""
        def pulled(given, cotangents):
            watched = [given[i] for i in wanted]
            with _core.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(watched)
                results = [one for one in flatten(self._body(*given))[0] if _inexact(one)]
            return tape.gradient(results, watched, output_gradients=[_core.astype(c, r.dtype) for c, r in zip(cotangents, results)], unconnected_gradients="zero")

        return self._again("pull", pulled, wanted, inputs, state)

    def push(self, wanted, inputs, state=()) -> _Flat:
        """The inexact results' derivatives along tangents of the inputs at these places: a function as pull's, of tangents instead of cotangents."""
        def pushed(given, tangents):
            def of_wanted(*some):
                filled = list(given)
                for i, one in zip(wanted, some):
                    filled[i] = one
                return [one for one in flatten(self._body(*filled))[0] if _inexact(one)]

            return jvp(of_wanted, tuple(given[i] for i in wanted), tuple(tangents))[1]

        return self._again("push", pushed, wanted, inputs, state)

    def _again(self, name, derivative, wanted, inputs, state):
        """A derivative that computes the function again, as it was called: it draws the same numbers, and its assignments are undone."""
        def run(*tensors):
            end = len(tensors) - len(state)
            now = [v.read() for v in state]
            for variable, before in zip(state, tensors[end:]):
                variable.assign(before)
            found = derivative(tensors[:inputs], tensors[inputs:end])
            for variable, value in zip(state, now):
                variable.assign(value)
            return found

        return self._kept((name, wanted, inputs, tuple(map(id, state))), run, pure=True)

    def mapped(self, axes) -> _Flat:
        """The function of a batch: inputs have an axis in front where axes has 0, results always."""
        return self._kept(("mapped", axes), vmap(self._body, in_axes=axes), self._pure)

    def _kept(self, key, fn, pure):
        if key not in self._made:
            self._made[key] = _Flat(fn, pure)
        return self._made[key]


def _inexact(value) -> bool:
    return any(kind in str(getattr(value, "dtype", "")) for kind in ("float", "complex"))


class _Found:
    """What is known after a call: the nesting of its results, the Variables that it assigns, what these had before, and under how many vmaps it ran."""

    structure, state, before, depth = None, (), (), 0


@functools.cache
def _torch_function():
    import torch

    def copied(result):
        return torch.from_dlpack(result.__dlpack__(copy=True)) if isinstance(result, _core.Tensor) else result

    class LaminaFunction(torch.autograd.Function):
        @staticmethod
        def forward(flat, found, *tensors):
            found.state = flat.state(tensors)
            found.before = [copied(v.read()) for v in found.state]
            results, found.structure = flat([_core.from_dlpack(t.detach().contiguous()) for t in tensors])
            return tuple(map(copied, results))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.flat, ctx.call, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.inexact = [_inexact(one) for one in output]
            ctx.mark_non_differentiable(*(one for one, inexact in zip(output, ctx.inexact) if not inexact and isinstance(one, torch.Tensor)))

        @staticmethod
        def backward(ctx, *cotangents):
            wanted = tuple(i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed)
            gradients = iter(derivative(ctx, ctx.flat.pull, wanted, [c for c, inexact in zip(cotangents, ctx.inexact) if inexact]))
            return None, None, *(next(gradients) if needed else None for needed in ctx.needs_input_grad[2:])

        @staticmethod
        def jvp(ctx, _, __, *tangents):
            wanted = tuple(i for i, t in enumerate(tangents) if t is not None and _inexact(t))
            pushed = iter(derivative(ctx, ctx.flat.push, wanted, [tangents[i] for i in wanted]))
            return tuple(next(pushed) if inexact else None for inexact in ctx.inexact)

        @staticmethod
        def vmap(info, in_dims, flat, found, *tensors):
            axes = [None if axis is None else 0 for axis in in_dims[2:]]
            moved = [t if axis is None else t.movedim(axis, 0) for t, axis in zip(tensors, in_dims[2:])]
            inside = _Found()
            results = LaminaFunction.apply(flat.mapped(tuple(axes)), inside, *moved)
            found.structure, found.state, found.before, found.depth = inside.structure, inside.state, inside.before, inside.depth + 1
            return results, tuple(0 for _ in results)

    def derivative(ctx, of, wanted, given):
        tensors, call, found = ctx.saved_tensors, ctx.call, _Found()
        results = LaminaFunction.apply(of(wanted, len(tensors), call.state), found, *tensors, *given, *call.before)
        if call.state and found.depth != call.depth:
            raise errors.NotDefined("lm.interop.to_torch: the derivative of a function that draws or assigns is mapped, and the function is not", why="its draws would differ from the call's",
                                    fix="take one gradient at a time instead of jacrev, jacfwd and hessian; or pass what it draws as an argument")
        return results

    return LaminaFunction


def _jax_function(flat):
    """The function of JAX's arrays; it belongs to the flat one."""
    if not hasattr(flat, "_in_jax"):
        flat._in_jax = _made_for_jax(flat)
    return flat._in_jax


def _made_for_jax(flat):
    import jax
    import jax.numpy as jnp
    import numpy as np

    def specs_of(arrays):
        return [leaf for leaf in flat.results_of(arrays)[0] if isinstance(leaf, _core.TensorSpec)]

    def taken(array):  # NumPy's own dtypes do not have bfloat16; float32 holds it
        return _core.constant(np.asarray(array, "float32"), dtype="bfloat16") if array.dtype == jnp.bfloat16 else _core.constant(np.asarray(array))

    def given_back(result, dtype):
        return np.asarray(_core.astype(result, "float32") if result.dtype == _core.bfloat16 else result).astype(dtype, copy=False)

    @jax.custom_vjp
    def run(*arrays):
        arrays = [jnp.asarray(array) for array in arrays]
        specs, ranks = specs_of(arrays), [array.ndim for array in arrays]
        shapes = [jax.ShapeDtypeStruct(tuple(spec.shape), jax.dtypes.canonicalize_dtype(spec.dtype.name)) for spec in specs]

        def on_host(*given):
            of_batch = flat
            for _ in range(given[0].ndim - ranks[0] if given else 0):
                of_batch = of_batch.mapped((0,) * len(given))
            results = [one for one in of_batch([taken(array) for array in given])[0] if isinstance(one, _core.Tensor)]
            return [given_back(result, shape.dtype) for result, shape in zip(results, shapes)]

        return jax.pure_callback(on_host, shapes, *arrays, vmap_method="broadcast_all")

    def forward(*arrays):
        arrays = [jnp.asarray(array) for array in arrays]
        if flat.state(arrays):
            raise errors.NotDefined("lm.interop.to_jax: the gradient of a function that draws or assigns", why="JAX's functions are pure: the gradient computes the function again",
                                    fix="draw with a key that is an argument: lm.random.normal(shape, key=lm.astype(key, lm.int64)); and return new values instead of assigning them")
        return run(*arrays), arrays

    def backward(arrays, cotangents):  # JAX's gradients are the conjugates of Lamina's, which are PyTorch's
        wanted = tuple(i for i, array in enumerate(arrays) if _inexact(array))
        seeds = [jnp.conj(c) for c, spec in zip(cotangents, specs_of(arrays)) if _inexact(spec)]
        found = iter(_jax_function(flat.pull(wanted, len(arrays)))(*arrays, *seeds) if wanted and seeds else ())
        return tuple(jnp.conj(next(found)) if i in wanted and seeds else np.zeros(array.shape, array.dtype if i in wanted else jax.dtypes.float0) for i, array in enumerate(arrays))

    run.defvjp(forward, backward)
    return run


# --- weights ---


def load_torch(model, state, names=None, strict: bool = True) -> None:
    """Assigns the weights of a PyTorch module to a model or layer of Lamina that is built alike; each layer takes them in PyTorch's layout: Linear, convolutions, BatchNorm, LayerNorm, GroupNorm,
    RMSNorm, Embedding, RNN, LSTM, GRU and MultiheadAttention.

    state: what module.state_dict() gives, or a safetensors file's path. names: {path of a layer, as in model.state_dict(), or its name: prefix in `state`}, where a
    layer k of a stacked LSTM(num_layers=...) is (prefix, k). A layer that is not named has its own path there, as "encoder.0" of "encoder.0.weight". strict: every weight of the
    model is there, and nothing else.
    Nothing is changed when something does not fit: the error lists all that does not. Raises NotFound for names, InvalidArgument for shapes, TypeMismatch for dtypes.
    """
    import os

    if isinstance(state, (str, os.PathLike)):
        from .saving import load_tensors

        state = load_tensors(state)
    if not isinstance(model, Module):
        raise errors.TypeMismatch(f"load_torch: {errors.a_type(model)} is no model or layer", fix="pass a lm.nn.Layer")
    if not hasattr(state, "keys"):
        raise errors.TypeMismatch(f"load_torch: {errors.a_type(state)} is no state dict", fix="pass module.state_dict()")
    variables = model._named_variables("load_torch")
    names, values, taken = dict(names or {}), {}, set()
    owners = {id(v): layer for layer in _modules(model) for v in vars(layer).values() if isinstance(v, _core.Variable)}
    used = set()

    def given(key):
        if key not in state:
            return None
        taken.add(key)
        value = state[key]
        return value.detach().cpu().numpy() if hasattr(value, "detach") and value.dtype.itemsize != 2 else _core.constant(value).numpy()

    for path, variable in variables.items():
        where, _, weight = path.rpartition(".")
        layer, suffix = owners.get(id(variable)), ""
        for direction, ending in (("forward_layer", ""), ("backward_layer", "_reverse")):
            if where == direction or where.endswith("." + direction):
                where, suffix = where[:-len(direction)].rstrip("."), ending
        prefix = next((names[one] for one in (where, getattr(layer, "name", None)) if one in names), where)
        used |= {where, getattr(layer, "name", None)} & set(names)
        prefix, number = prefix if isinstance(prefix, tuple) else (prefix, 0)
        value = _taken_from(layer, weight, variable, lambda name: given(f"{prefix}.{name}" if prefix else name), f"_l{number}{suffix}")
        if value is not None:
            values[path] = value
    unknown = [name for name in names if name not in used]
    if unknown:
        raise _core.unknown_name("layer", str(unknown[0]), sorted({path.rpartition(".")[0] for path in variables}))
    left = [key for key in state if key not in taken and not key.endswith("num_batches_tracked")]
    _state.write("load_torch", model._described(), variables, values, list(state), left, strict, "the state dict")


def _modules(module):
    found, waiting = {}, [module]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting += one.modules
    return list(found.values())


# PyTorch's names of ours, and the axes of its kernels in our order
_PLAIN = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var", "scale": "weight", "embeddings": "weight"}
_KERNELS = {"Dense": (1, 0), "Conv1D": (2, 1, 0), "Conv2D": (2, 3, 1, 0), "Conv1DTranspose": (2, 1, 0), "Conv2DTranspose": (2, 3, 1, 0)}
_GATES = {"SimpleRNN": (0,), "LSTM": (0, 1, 2, 3), "GRU": (1, 0, 2)}  # places in PyTorch's weights of ours


def _taken_from(layer, weight, variable, given, suffix):
    """A weight as the layer has it; None where it is not there. given(name): the array of that name."""
    kind = next((cls.__name__ for cls in type(layer).__mro__ if cls.__name__ in (*_KERNELS, *_GATES, "DepthwiseConv2D", "MultiHeadAttention")), None)
    if kind in _GATES:
        return _of_recurrent(layer, kind, weight, variable, given, suffix)
    if kind == "MultiHeadAttention":
        return _of_attention(weight, variable, given)
    if weight == "kernel" and kind == "DepthwiseConv2D":
        value, (rows, columns, channels, times) = given("weight"), variable.shape
        return value if value is None or value.size != variable.size else value.reshape(channels, times, rows, columns).transpose(2, 3, 0, 1)
    if weight == "kernel" and kind in _KERNELS:
        value, order = given("weight"), _KERNELS[kind]
        return value.transpose(order) if value is not None and value.ndim == len(order) else value
    return given(_PLAIN.get(weight, weight))


def _of_recurrent(layer, kind, weight, variable, given, suffix):
    import numpy as np

    def ordered(value):
        """Our order of the gates, which are along the first axis."""
        parts = np.split(value, len(_GATES[kind])) if len(value) % len(_GATES[kind]) == 0 else None
        return value if parts is None else np.concatenate([parts[i] for i in _GATES[kind]])

    if weight in ("kernel", "recurrent_kernel"):
        value = given(("weight_ih" if weight == "kernel" else "weight_hh") + suffix)
        return None if value is None else ordered(value).T
    first, second = given("bias_ih" + suffix), given("bias_hh" + suffix)
    if first is None or second is None:
        return None
    if kind == "GRU" and len(variable.shape) != 2:
        raise errors.InvalidArgument(f"load_torch: {layer.name} has reset_after=False", why="PyTorch's GRU resets after the product", fix="make it with reset_after=True")
    return np.stack([ordered(first), ordered(second)]) if kind == "GRU" else ordered(first) + ordered(second)


def _of_attention(weight, variable, given):
    part, what = weight.split("_", 1)
    if part == "output":
        value = given("out_proj.weight" if what == "kernel" else "out_proj.bias")
        return value if value is None else value.T.reshape(variable.shape) if what == "kernel" and value.size == variable.size else value
    at = ("query", "key", "value").index(part)
    if what == "bias":
        value = given("in_proj_bias")
        return None if value is None else value.reshape(3, *variable.shape)[at] if value.size == 3 * variable.size else value
    value = given(f"{part[0]}_proj_weight")
    if value is None:
        joined = given("in_proj_weight")
        value = None if joined is None else joined.reshape(3, -1, joined.shape[-1])[at]
    return value if value is None or value.size != variable.size else value.T.reshape(variable.shape)


_border.guard(globals())
