"""Functions of Lamina in programs of PyTorch and JAX, with gradients, and PyTorch's weights in layers of Lamina.

Both packages are imported when a function here is called.
"""
from __future__ import annotations

import functools
import importlib

from . import _border, _core, _state, errors
from ._structure import flatten, unflatten
from .module import Module
from .vmap import vmap

__all__ = ["load_torch", "to_jax", "to_torch"]


def to_torch(fn):
    """fn, a function of tensors such as a model or a lm.function, as a function of PyTorch's tensors with gradients to any order: it is traced, and each call is one torch.autograd.Function.

    Arguments and results may be nested in tuples, lists and dicts. Tensors are in host memory; inputs are shared, results are copies. Other arguments are part of the signature, as for
    lm.function. Lamina's Variables count as constants: pass what PyTorch is to train as an argument. torch.func's vmap and grad work too.
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
    a jax.custom_vjp.

    It works in jax.jit, where the host waits for it, and in jax.vmap, which becomes lm.vmap. Arguments and results may be nested in tuples, lists and dicts; shapes are known when it is
    called. Other arguments are part of the signature, as for lm.function. Lamina's Variables count as constants, with the values of the time of the call. Without jax_enable_x64 results
    of 64 bits become 32. Raises NotFound where JAX is not installed.
    """
    _imported("jax", "to_jax")
    bridge = _Bridge(fn, lambda leaf: hasattr(leaf, "shape") and hasattr(leaf, "dtype"))

    @functools.wraps(fn, updated=())
    def call(*args, **kwargs):
        flat, arrays = bridge.flat(args, kwargs)
        _, structure = flat.results_of(arrays)
        return unflatten(structure, _jax_function(flat)(*arrays))

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
    """A traced function of tensors, with its gradient and its form for batches as further ones."""

    def __init__(self, fn):
        self.fn, self._body, self._made = _core.function(fn), fn, {}

    def __call__(self, tensors):
        """The results' leaves, and their structure."""
        return flatten(self.fn(*tensors))

    def results_of(self, arrays):
        """The results' TensorSpecs for arrays like these, and their structure."""
        specs = [_core.TensorSpec(list(array.shape), str(array.dtype).removeprefix("torch.")) for array in arrays]
        return flatten(self.fn.get_concrete_function(*specs).structured_outputs)

    def pull(self, wanted, inputs) -> _Flat:
        """The gradients for the inputs at these places: a function of all inputs and of the cotangents of the floating results."""
        def pulled(*tensors):
            given, cotangents = tensors[:inputs], tensors[inputs:]
            watched = [given[i] for i in wanted]
            with _core.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(watched)
                results = [one for one in flatten(self._body(*given))[0] if _floating(one)]
            return tape.gradient(results, watched, output_gradients=[_core.astype(c, r.dtype) for c, r in zip(cotangents, results)], unconnected_gradients="zero")

        return self._kept(("pull", wanted, inputs), pulled)

    def mapped(self, axes) -> _Flat:
        """The function of a batch: inputs have an axis in front where axes has 0, results always."""
        return self._kept(("mapped", axes), vmap(self._body, in_axes=axes))

    def _kept(self, key, fn):
        if key not in self._made:
            self._made[key] = _Flat(fn)
        return self._made[key]


def _floating(value) -> bool:
    return "float" in str(getattr(value, "dtype", ""))


class _Found:
    """How the results of a call are nested."""


@functools.cache
def _torch_function():
    import torch

    def copied(result):
        return torch.from_dlpack(result.__dlpack__(copy=True)) if isinstance(result, _core.Tensor) else result

    class LaminaFunction(torch.autograd.Function):
        @staticmethod
        def forward(flat, found, *tensors):
            results, structure = flat([_core.from_dlpack(t.detach().contiguous()) for t in tensors])
            found.structure = structure
            return tuple(map(copied, results))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.flat, _, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.floating = [_floating(one) for one in output]
            ctx.mark_non_differentiable(*(one for one, floating in zip(output, ctx.floating) if not floating and isinstance(one, torch.Tensor)))

        @staticmethod
        def backward(ctx, *cotangents):
            tensors = ctx.saved_tensors
            wanted = tuple(i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed)
            seeds = [c for c, floating in zip(cotangents, ctx.floating) if floating]
            gradients = iter(LaminaFunction.apply(ctx.flat.pull(wanted, len(tensors)), _Found(), *tensors, *seeds))
            return None, None, *(next(gradients) if i in wanted else None for i in range(len(tensors)))

        @staticmethod
        def vmap(info, in_dims, flat, found, *tensors):
            axes = [None if axis is None else 0 for axis in in_dims[2:]]
            moved = [t if axis is None else t.movedim(axis, 0) for t, axis in zip(tensors, in_dims[2:])]
            results = LaminaFunction.apply(flat.mapped(tuple(axes)), found, *moved)
            return results, tuple(0 for _ in results)

    return LaminaFunction


def _jax_function(flat):
    """The function of JAX's arrays; it belongs to the flat one."""
    if not hasattr(flat, "_in_jax"):
        flat._in_jax = _made_for_jax(flat)
    return flat._in_jax


def _made_for_jax(flat):
    import jax
    import numpy as np

    @jax.custom_vjp
    def run(*arrays):
        specs, ranks = flat.results_of(arrays)[0], [len(a.shape) for a in arrays]
        shapes = [jax.ShapeDtypeStruct(tuple(spec.shape), jax.dtypes.canonicalize_dtype(spec.dtype.name)) for spec in specs]

        def on_host(*given):
            of_batch = flat
            for _ in range(given[0].ndim - ranks[0] if given else 0):
                of_batch = of_batch.mapped((0,) * len(given))
            results = of_batch([_core.constant(np.asarray(array)) for array in given])[0]
            return [np.asarray(result).astype(shape.dtype, copy=False) for result, shape in zip(results, shapes)]

        return jax.pure_callback(on_host, shapes, *arrays, vmap_method="broadcast_all")

    def backward(arrays, cotangents):
        wanted = tuple(i for i, array in enumerate(arrays) if _floating(array))
        seeds = [c for c, spec in zip(cotangents, flat.results_of(arrays)[0]) if _floating(spec)]
        found = iter(_jax_function(flat.pull(wanted, len(arrays)))(*arrays, *seeds) if wanted and seeds else ())
        return tuple(next(found) if i in wanted and seeds else np.zeros(array.shape, array.dtype if i in wanted else jax.dtypes.float0) for i, array in enumerate(arrays))

    run.defvjp(lambda *arrays: (run(*arrays), arrays), backward)
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
