"""Names that Lamina does not have: what NumPy, TensorFlow, Keras, JAX and PyTorch call things that have another name here, and what an error about a name says."""
from __future__ import annotations

# their name -> the name after "lm."
NAMES = {
    "Print": "print", "Session": "Graph", "TensorArray": "stack(out), with a Python list that the loop appends to",
    "absolute": "abs", "accuracy": "metrics.accuracy", "add_n": "sum(lm.stack(values), 0)", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "array": "constant", "as_tensor": "constant",
    "asarray": "constant", "assert_equal": "check(lm.all(a == b), ...), or assert", "batch_gather": "take_along_axis", "cast": "astype", "cat": "concat", "clamp": "clip",
    "clip_by_value": "clip", "compile": "function", "concatenate": "concat", "convert_to_tensor": "constant", "dstack": "concat",
    "hstack": "concat", "identity": "eye", "index_select": "take", "jacfwd": "jacobian", "jacrev": "jacobian", "jit": "function", "lax": "scan, lm.cond or lm.while_loop",
    "map_fn": "vmap", "mm": "matmul", "multiply": "mul", "mv": "matmul", "negative": "neg", "no_grad": "GradientTape: outside of a tape nothing is recorded, and tape.stop_recording() stops it inside",
    "no_gradient": "stop_gradient", "permute": "transpose", "placeholder": "Graph().input",
    "power": "pow", "quantize_dynamic": "quantize", "quantize_per_channel": "quantize", "quantize_per_tensor": "quantize", "quantize_static": "quantize", "rand": "random.uniform", "randint": "random.randint", "randn": "random.normal", "reduce_all": "all", "reduce_any": "any", "reduce_logsumexp": "logsumexp",
    "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod", "reduce_std": "std", "reduce_sum": "sum", "reduce_variance": "var", "rint": "round",
    "scatter": "scatter_nd, or x.at[...].set(...)", "segment_sum": "scatter_add", "sigmoid_cross_entropy": "losses", "subtract": "sub", "switch_case": "switch", "tensor": "constant",
    "tensor_scatter_nd_add": "scatter_add", "true_divide": "div", "divide": "div", "truediv": "div", "unsqueeze": "expand_dims",
    "vstack": "concat",
    "addmm": "matmul, and +", "amax": "max", "amin": "min", "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "argwhere": "stack(lm.nonzero(x), 1)", "around": "round", "average": "mean",
    "baddbmm": "matmul, and +", "bitwise_invert": "bitwise_not", "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right", "block_until_ready": "synchronize", "bmm": "matmul",
    "case": "switch", "chunk": "split", "clone": "constant(x)", "column_stack": "stack(values, 1)", "copy": "constant(x)", "cumulative_sum": "cumsum", "custom_jvp": "custom_gradient",
    "custom_vjp": "custom_gradient", "default_device": "device", "detach": "stop_gradient", "device_count": "config.list_devices", "devices": "config.list_devices", "disable_jit": "config.run_functions_eagerly",
    "distribute": "distributed", "double": "float64", "dsplit": "split", "eq": "equal", "eval_shape": "function(f).get_concrete_function(spec).outputs", "fabs": "abs", "fill": "full",
    "flatnonzero": "nonzero(lm.flatten(x))[0]", "fliplr": "flip(x, 1)", "flipud": "flip(x, 0)", "float": "float32", "float_power": "pow", "fmax": "maximum", "fmin": "minimum", "foldl": "scan",
    "foldr": "scan", "from_numpy": "constant", "ge": "greater_equal", "gradients": "GradientTape, or lm.grad", "gt": "greater", "half": "float16", "hessians": "hessian", "hsplit": "split",
    "int": "int32", "invert": "bitwise_not", "keras": "nn", "le": "less_equal", "left_shift": "shift_left", "lerp": "add(a, w * (b - a))", "long": "int64", "lt": "less", "make_jaxpr": "function(f).explain(x)",
    "manual_seed": "random.set_seed", "map_structure": "tree.map", "masked_fill": "where(mask, value, x)", "movedim": "moveaxis", "msort": "sort(x, 0)",
    "named_scope": "name_scope", "ne": "not_equal", "optimizers": "optim", "permute_dims": "transpose", "pmap": "distributed.data_parallel", "randperm": "random.permutation",
    "multinomial": "random.categorical", "recompute_grad": "checkpoint", "remat": "checkpoint", "repeat_interleave": "repeat", "reverse": "flip", "right_shift": "shift_right", "rollaxis": "moveaxis",
    "row_stack": "concat", "saved_model": "save, and lm.load", "seed": "random.set_seed", "sgn": "sign", "short": "int16", "tensor_scatter_nd_update": "scatter_nd, or x.at[...].set(...)", "test": "testing",
    "train": "optim", "truncatediv": "trunc(a / b)", "truncatemod": "fmod", "vectorized_map": "vmap", "view": "reshape", "vsplit": "split",
}
# their name -> what to write
WRITTEN = {
    "argpartition": "lm.argsort(x)", "boolean_mask": "x[mask]", "device_put": "x.to(device)", "e": "math.e", "gradient": "lm.grad, or lm.GradientTape", "inf": 'float("inf")', "is_tensor": "isinstance(x, lm.Tensor)",
    "masked_select": "x[mask]", "nan": 'float("nan")', "narrow": "x[begin:end]", "ndarray": "lm.Tensor", "ndim": "x.ndim", "newaxis": "None, as in x[:, None]", "numel": "x.size", "partition": "lm.sort(x)", "pi": "math.pi",
    "rank": "x.ndim", "shape": "x.shape", "size": "x.size", "slice": "x[begin:end]", "strided_slice": "x[begin:end:step]", "unbind": "list(x)",
}
_IN = {  # of parts of Lamina
    "lm.nn": {"BatchNorm1d": "lm.nn.BatchNorm", "BatchNorm2d": "lm.nn.BatchNorm", "CrossEntropyLoss": "lm.losses.SparseCrossEntropy(from_logits=True)", "Identity": "lm.nn.Lambda(lambda x: x)", "Linear": "lm.nn.Dense",
              "MSELoss": "lm.losses.MeanSquaredError", "L1Loss": "lm.losses.MeanAbsoluteError", "Module": "lm.nn.Layer, or lm.nn.Model", "ModuleDict": "a dict", "ModuleList": "a list", "Parameter": "lm.Variable",
              "RNN": "lm.nn.SimpleRNN", "functional": "lm, as in lm.relu", "init": "lm.nn.initializers", "Upsample": "lm.nn.UpSampling2D", "activations": "lm, as in lm.relu", "AdaptiveAvgPool2d": "lm.nn.GlobalAveragePooling2D"},
    "lm.losses": {"CrossEntropyLoss": "lm.losses.SparseCrossEntropy(from_logits=True)", "BCELoss": "lm.losses.BinaryCrossEntropy", "BCEWithLogitsLoss": "lm.losses.BinaryCrossEntropy(from_logits=True)",
                  "MSELoss": "lm.losses.MeanSquaredError", "L1Loss": "lm.losses.MeanAbsoluteError"},
    "lm.linalg": {"inverse": "lm.linalg.inv", "solve_triangular": "lm.linalg.triangular_solve"},
    "lm.data": {"DataLoader": "lm.data.Dataset", "TensorDataset": "lm.data.Dataset.from_tensor_slices"},
}
_PARTS = ("nn", "optim", "optim.schedules", "losses", "metrics", "data", "linalg", "random", "nn.initializers", "config", "profiler")


def missing(place, name, names, where):
    """The AttributeError for a name that `place` ("lm", "lm.nn") does not have. It names what to write instead only where that is known: the same thing under another framework's name, the
    same name in another part of Lamina, or a name that differs by one letter or in upper and lower case."""
    import lamina as lm

    here = "lamina" + place[2:]
    known = _IN.get(place, {}).get(name) if place != "lm" else f"lm.{NAMES[name]}" if name in NAMES else WRITTEN.get(name)
    if known is None:
        known = next((f"lm.{part}.{name}" for part in _PARTS if f"lm.{part}" != place and name in _public(lm, part)), None)
    if known is None and place != "lm" and name in lm.__all__:
        known = f"lm.{name}"
    if known is not None:
        return AttributeError(f"{here} has no '{name}'\n  where: {where}\n  why:   it has another name here\n  fix:   write {known}")
    near = [] if place == "lm" and _of_others(name) else [one for one in sorted(names) if _near(name, one)]
    if near:
        import difflib

        near.sort(key=lambda one: (_bare(one) != _bare(name), -difflib.SequenceMatcher(None, name, one).ratio()))
        return AttributeError(str(lm._core.unknown_name(f"attribute of {here}", name, sorted(names))).partition("\n  fix:")[0] + f"\n  fix:   did you mean '{near[0]}'?")
    why = "NumPy has it" if place == "lm" and _of_others(name) else "there is no such name"
    fix = f"use np.{name} on x.numpy(), outside of traced functions, or compose it of ops" if why == "NumPy has it" else f"dir({place}) lists what there is"
    return AttributeError(f"{here} has no '{name}'\n  where: {where}\n  why:   {why}\n  fix:   {fix}")


def getter(place, names):
    """__getattr__ of a module of Lamina."""
    from . import _core

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(f"module '{place}' has no attribute '{name}'")
        from importlib import util

        if place == "lm.nn" and util.find_spec(f"lamina.nn.{name}") is not None:
            raise AttributeError(f"module '{place}' has no attribute '{name}'")  # an import is looking for a module of this name
        raise missing(place, name, names, _core._user_line())

    return __getattr__


def _public(lm, part):
    module = lm
    for one in part.split("."):
        module = getattr(module, one)
    return getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]


def _of_others(name):
    import numpy

    return name in numpy.__all__


def _bare(name):
    return name.replace("_", "").lower()


def _near(given, name):
    """Whether one is the other in other letters' case or with other underscores, or with one letter more, less, replaced, or swapped with the next."""
    a, b = _bare(given), _bare(name)
    if a == b:
        return True
    if min(len(a), len(b)) < 4 or abs(len(a) - len(b)) > 1:
        return False
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return a[i + 1:] == b[i:] or a[i:] == b[i + 1:] or a[i + 1:] == b[i + 1:] or (a[i:i + 2] == b[i:i + 2][::-1] and a[i + 2:] == b[i + 2:])
