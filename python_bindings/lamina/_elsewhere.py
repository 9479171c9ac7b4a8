"""Names that Lamina does not have: what NumPy, TensorFlow, Keras, JAX and PyTorch call things that have another name here, and what an error about a name says."""
from __future__ import annotations

# their name -> the name after "lm."
NAMES = {
    "Print": "print", "Session": "Graph", "TensorArray": "stack(out), with a Python list that the loop appends to",
    "absolute": "abs", "accuracy": "metrics.accuracy", "add_n": "sum(lm.stack(values), 0)", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "array": "constant", "as_tensor": "constant",
    "asarray": "constant", "assert_equal": "check(lm.all(a == b), ...), or assert", "batch_gather": "take_along_axis", "cast": "astype", "cat": "concat", "clamp": "clip",
    "clip_by_value": "clip", "compile": "function", "concatenate": "concat", "convert_to_tensor": "constant", "dstack": "concat",
    "identity": "eye", "index_select": "take", "jacfwd": "jacobian", "jacrev": "jacobian", "jit": "function", "lax": "scan, lm.cond or lm.while_loop",
    "map_fn": "vmap", "mm": "matmul", "multiply": "mul", "mv": "matmul", "negative": "neg", "no_grad": "GradientTape: outside of a tape nothing is recorded, and tape.stop_recording() stops it inside",
    "no_gradient": "stop_gradient", "permute": "transpose", "placeholder": "Graph().input",
    "power": "pow", "quantize_dynamic": "quantize", "quantize_per_channel": "quantize", "quantize_per_tensor": "quantize", "quantize_static": "quantize", "rand": "random.uniform", "randint": "random.randint", "randn": "random.normal", "reduce_all": "all", "reduce_any": "any", "reduce_logsumexp": "logsumexp",
    "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod", "reduce_std": "std", "reduce_sum": "sum", "reduce_variance": "var", "rint": "round",
    "scatter": "scatter_nd, or x.at[...].set(...)", "segment_sum": "scatter_add", "sigmoid_cross_entropy": "losses", "subtract": "sub", "switch_case": "switch", "tensor": "constant",
    "tensor_scatter_nd_add": "scatter_add", "true_divide": "div", "divide": "div", "truediv": "div", "unsqueeze": "expand_dims",
    "addmm": "matmul, and +", "amax": "max", "amin": "min", "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "argwhere": "stack(lm.nonzero(x), 1)", "around": "round",
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
    "activations": "relu, lm.tanh and so on", "array_equal": "all(a == b)", "autocast": 'nn.set_policy("mixed_bfloat16")', "autograd": "grad, or lm.GradientTape", "broadcast_tensors": "broadcast_arrays", "bucketize": "searchsorted",
    "callbacks": "nn, as in lm.nn.EarlyStopping", "clamp_max": "minimum", "clamp_min": "maximum", "convert_element_type": "astype", "cross_entropy": "losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)", "debug": "print, or lm.check",
    "binary_cross_entropy": "losses.binary_crossentropy(labels, probabilities)", "binary_cross_entropy_with_logits": "losses.binary_crossentropy(labels, logits, from_logits=True)", "dot_general": "einsum", "dot_product_attention": "nn.MultiHeadAttention",
    "embedding": "take(table, numbers, 0)", "embedding_lookup": "take(table, numbers, 0)", "empty": "zeros(shape)", "empty_like": "zeros_like", "enable_grad": "GradientTape", "fix": "trunc", "func": "grad, lm.vmap and the like", "get_num_threads": "config.threads",
    "ger": "outer", "huber_loss": "losses.huber", "inference_mode": "GradientTape: outside of a tape nothing is recorded, and tape.stop_recording() stops it inside", "interpolate": "nn.UpSampling2D", "iota": "arange", "kl_div": "losses.kl_divergence", "l1_loss": "losses.mae",
    "layers": "nn", "load_model": "nn.load_file", "logistic": "sigmoid", "map": "vmap, or lm.scan", "math": "sin, lm.exp and so on", "mse_loss": "losses.mse", "models": "nn", "nest": "tree", "nll_loss": "losses.sparse_categorical_crossentropy(labels, lm.exp(log_probabilities))",
    "numpy": "sin, lm.sum and so on; lm.xp is the array API standard", "ops": "sin, lm.sum and so on", "optimizer": "optim", "percentile": "quantile(x, q / 100)", "pinverse": "linalg.pinv", "ptp": "max(x) - lm.min(x)", "rand_like": "random.uniform(x.shape)",
    "randn_like": "random.normal(x.shape)", "rem": "fmod", "rev": "flip", "select": "where", "select_n": "where", "set_float32_matmul_precision": "config.set_matmul_precision", "sigmoid_cross_entropy_with_logits": "losses.binary_crossentropy(labels, logits, from_logits=True)",
    "smooth_l1_loss": "losses.huber", "softmax_cross_entropy_with_logits": "losses.categorical_crossentropy(labels, logits, from_logits=True)", "sparse_softmax_cross_entropy_with_logits": "losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)",
    "swapdims": "swapaxes", "swish": "silu", "t": "matrix_transpose", "take_along_dim": "take_along_axis", "tree_map": "tree.map", "tree_util": "tree", "tree_leaves": "tree.leaves", "grad_fn": "grad", "set_random_seed": "random.set_seed", "set_seed": "random.set_seed", "to_categorical": "one_hot",
    "cdouble": "complex128", "cfloat": "complex64", "conjugate": "conj", "signal": "fft", "view_as_complex": "as_complex", "view_as_real": "as_real",
    "train": "optim", "truncatediv": "trunc(a / b)", "truncatemod": "fmod", "vectorized_map": "vmap", "view": "reshape", "vsplit": "split",
    "trapz": "trapezoid", "degrees": "rad2deg", "radians": "deg2rad", "expit": "sigmoid", "logsigmoid": "log_sigmoid", "cumlogsumexp": "logcumsumexp", "gammaln": "lgamma", "unsorted_segment_sum": "scatter_add", "batch_matmul": "matmul", "std_mean": "moments", "var_mean": "moments", "expand": "broadcast_to", "array_split": "split", "ediff1d": "diff",
}
# their name -> what to write
WRITTEN = {
    "argpartition": "lm.argsort(x)", "boolean_mask": "x[mask]", "device_put": "x.to(device)", "e": "math.e", "explain": "f.explain(x) of a traced function, or lm.function(net).explain(x)", "gradient": "lm.grad, or lm.GradientTape", "inf": 'float("inf")', "is_tensor": "isinstance(x, lm.Tensor)",
    "convert_to_numpy": "x.numpy()", "device_get": "x.numpy()", "dynamic_slice": "lm.gather(x, begin + lm.arange(length)), or x[begin:end] of Python numbers", "dynamic_update_slice": "x.at[begin + lm.arange(length)].set(values), or x.at[begin:end] of Python numbers", "finfo": "np.finfo(np.float32)", "iinfo": "np.iinfo(np.int32)", "index_add": "x.at[indices].add(values)",
    "index_copy": "x.at[indices].set(values)", "index_fill": "x.at[indices].set(value)", "index_put": "x.at[indices].set(values)", "is_floating_point": "x.dtype.is_floating", "get_default_dtype": "lm.float32, which it is", "put": "x.at[indices].set(values)",
    "scatter_update": "x.at[indices].set(values)", "set_default_dtype": "dtype= where tensors and layers are made", "set_default_device": 'with lm.device("gpu:0"):', "set_num_threads": "LAMINA_THREADS=4 in the environment", "slice_update": "x.at[begin:end].set(values)",
    "is_complex": "x.dtype.is_complex", "iscomplexobj": "x.dtype.is_complex", "masked_select": "x[mask]", "nan": 'float("nan")', "narrow": "x[begin:end]", "ndarray": "lm.Tensor", "ndim": "x.ndim", "newaxis": "None, as in x[:, None]", "numel": "x.size", "partition": "lm.sort(x)", "pi": "math.pi",
    "rank": "x.ndim", "size": "x.size", "slice": "x[begin:end]", "strided_slice": "x[begin:end:step]", "unbind": "list(x)",
    "isposinf": 'x == float("inf")', "isneginf": 'x == -float("inf")', "squared_difference": "lm.square(a - b)", "relu6": "lm.clip(x, 0, 6)", "hardtanh": "lm.clip(x, -1, 1)", "hard_tanh": "lm.clip(x, -1, 1)", "mish": "x * lm.tanh(lm.softplus(x))", "l2_normalize": "x / lm.norm(x, axis=-1, keepdims=True)", "divide_no_nan": "lm.where(b == 0, 0, a / lm.where(b == 0, 1, b))", "tri": "lm.tril(lm.ones((n, m)))", "ldexp": "x * 2.0 ** n", "modf": "(x - lm.trunc(x), lm.trunc(x))", "extract": "x[mask]", "sequence_mask": "lm.arange(n) < lengths[:, None]", "softsign": "x / (1 + lm.abs(x))", "append": "lm.concat",
    "utils": "lm.one_hot for to_categorical, lm.random.set_seed for set_random_seed, model.plot for plot_model, lm.data.Dataset for DataLoader",
}
_IN = {  # of parts of Lamina
    "lm.nn": {"BatchNorm1d": "lm.nn.BatchNorm", "BatchNorm2d": "lm.nn.BatchNorm", "CrossEntropyLoss": "lm.losses.SparseCrossEntropy(from_logits=True)", "Identity": "lm.nn.Lambda(lambda x: x)", "Linear": "lm.nn.Dense",
              "MSELoss": "lm.losses.MeanSquaredError", "L1Loss": "lm.losses.MeanAbsoluteError", "Module": "lm.nn.Layer, or lm.nn.Model", "ModuleDict": "a dict", "ModuleList": "a list", "Parameter": "lm.Variable",
              "RNN": "lm.nn.SimpleRNN", "functional": "lm, as in lm.relu", "init": "lm.nn.initializers", "Upsample": "lm.nn.UpSampling2D", "UpsamplingNearest2d": "lm.nn.UpSampling2D", "BCELoss": "lm.losses.BinaryCrossEntropy()", "BCEWithLogitsLoss": "lm.losses.BinaryCrossEntropy(from_logits=True)",
              "NLLLoss": "lm.losses.SparseCrossEntropy()", "HuberLoss": "lm.losses.Huber", "SmoothL1Loss": "lm.losses.Huber", "KLDivLoss": "lm.losses.KLDivergence", "ConvTranspose1d": "lm.nn.Conv1DTranspose", "ConvTranspose2d": "lm.nn.Conv2DTranspose",
              "ZeroPad2d": "lm.nn.ZeroPadding2D", "ParameterList": "a list", "ParameterDict": "a dict", "Unflatten": "lm.nn.Reshape", "GRUCell": "lm.nn.GRU, or lm.scan", "LSTMCell": "lm.nn.LSTM, or lm.scan", "RNNCell": "lm.nn.SimpleRNN, or lm.scan",
              "SimpleRNNCell": "lm.nn.SimpleRNN, or lm.scan", "InstanceNorm1d": "lm.nn.GroupNorm", "InstanceNorm2d": "lm.nn.GroupNorm", "AdaptiveAvgPool1d": "lm.nn.GlobalAveragePooling1D", "AdaptiveMaxPool2d": "lm.nn.GlobalMaxPooling2D",
              "LazyLinear": "lm.nn.Dense", "Convolution2D": "lm.nn.Conv2D", "GlobalAvgPool1D": "lm.nn.GlobalAveragePooling1D", "GlobalAvgPool2D": "lm.nn.GlobalAveragePooling2D", "Attention": "lm.nn.MultiHeadAttention", "Rescaling": "lm.nn.Lambda(lambda x: x / 255)",
              "Permute": "lm.nn.Lambda(lambda x: lm.transpose(x, axes))", "LogSoftmax": "lm.nn.Lambda(lm.log_softmax)", "Swish": "lm.nn.SiLU", "InputLayer": "lm.nn.Input", "clone_model": "copy.deepcopy(model)", "load_model": "lm.nn.load_file", "models": "lm.nn", "plot_model": "model.plot(path)", "save_model": "lm.nn.save_file", "utils": "lm.optim.clip_by_global_norm for clip_grad_norm_, copy.deepcopy for clone", "activations": "lm, as in lm.relu", "AdaptiveAvgPool2d": "lm.nn.GlobalAveragePooling2D",
              "TimeDistributed": "the layer without it: lm.nn.Dense works on each step", "RepeatVector": "lm.nn.Lambda(lambda x: lm.repeat(x[:, None], n, 1))", "GaussianNoise": "x + lm.random.normal(x.shape) in the call(self, x, training=False) of a lm.nn.Layer",
              "Normalization": "lm.nn.Lambda(lambda x: (x - mean) / deviation)", "SeparableConv2D": "lm.nn.DepthwiseConv2D, then lm.nn.Conv2D(filters, 1)",
              "Dot": "lm.nn.Lambda(lambda pair: lm.sum(pair[0] * pair[1], -1, keepdims=True))", "Cropping2D": "lm.nn.Lambda(lambda x: x[:, 1:-1, 1:-1])", "TransformerEncoderLayer": "lm.nn.MultiHeadAttention and lm.nn.Dense in a lm.nn.Layer"},
    "lm.losses": {"CrossEntropyLoss": "lm.losses.SparseCrossEntropy(from_logits=True)", "BCELoss": "lm.losses.BinaryCrossEntropy", "BCEWithLogitsLoss": "lm.losses.BinaryCrossEntropy(from_logits=True)",
                  "MSELoss": "lm.losses.MeanSquaredError", "L1Loss": "lm.losses.MeanAbsoluteError", "LogCosh": "a function: lambda y, p: lm.mean(lm.log(lm.cosh(p - y)), -1)",
                  "MeanAbsolutePercentageError": "a function: lambda y, p: 100 * lm.mean(lm.abs((y - p) / y), -1)", "MeanSquaredLogarithmicError": "a function: lambda y, p: lm.mean((lm.log1p(y) - lm.log1p(p)) ** 2, -1)"},
    "lm.metrics": {"SparseCategoricalAccuracy": "lm.metrics.Accuracy", "CategoricalAccuracy": "lm.metrics.Accuracy", "F1Score": "lm.metrics.F1", "R2Score": "lm.metrics.R2", "TopKCategoricalAccuracy": "lm.metrics.TopK", "SparseTopKCategoricalAccuracy": "lm.metrics.TopK",
                   "RootMeanSquaredError": "lm.metrics.MeanSquaredError, and its root"},
    "lm.random": {"PRNGKey": "lm.random.key", "beta": "lm.random.gamma, twice", "default_rng": "lm.random.set_seed, or lm.random.key", "manual_seed": "lm.random.set_seed", "multinomial": "lm.random.categorical", "rand": "lm.random.uniform", "randn": "lm.random.normal",
                  "random": "lm.random.uniform", "randperm": "lm.random.permutation", "sample": "lm.random.uniform", "seed": "lm.random.set_seed", "standard_normal": "lm.random.normal", "fold_in": "lm.random.split", "get_global_generator": "lm.random.get_state"},
    "lm.config": {"list_physical_devices": "lm.config.list_devices", "list_logical_devices": "lm.config.list_devices", "set_logical_device_configuration": "lm.config.set_virtual_devices", "threading": "LAMINA_THREADS=4 in the environment",
                  "update": "LAMINA_ variables in the environment, or a function of lm.config"},
    "lm.cuda": {"device_count": 'len(lm.config.list_devices("gpu"))', "synchronize": "lm.synchronize", "current_device": "lm.config.list_devices", "set_device": 'with lm.device("gpu:0"):', "get_device_name": 'lm.config.list_devices("gpu")', "manual_seed": "lm.random.set_seed"},
    "lm.optim": {"lr_scheduler": "lm.optim.schedules", "clip_grad_norm_": "lm.optim.clip_by_global_norm", "exponential_decay": "lm.optim.schedules.ExponentialDecay"},
    "lm.optim.schedules": {"CosineAnnealingLR": "lm.optim.schedules.CosineDecay", "CosineAnnealingWarmRestarts": "lm.optim.schedules.CosineDecayRestarts", "ExponentialLR": "lm.optim.schedules.ExponentialDecay", "OneCycleLR": "lm.optim.schedules.OneCycle",
                           "PolynomialLR": "lm.optim.schedules.PolynomialDecay", "StepLR": "lm.optim.schedules.ExponentialDecay(..., staircase=True)", "MultiStepLR": "lm.optim.schedules.PiecewiseConstantDecay", "ConstantLR": "lm.optim.schedules.Constant",
                           "LinearLR": "lm.optim.schedules.PolynomialDecay", "LinearWarmup": "lm.optim.schedules.Warmup"},
    "lm.linalg": {"cho_solve": "lm.linalg.triangular_solve, twice", "cholesky_solve": "lm.linalg.triangular_solve, twice", "logdet": "lm.linalg.slogdet(x)[1]", "inverse": "lm.linalg.inv", "solve_triangular": "lm.linalg.triangular_solve"},
    "lm.nn.initializers": {"kaiming_normal_": "lm.nn.initializers.he_normal", "kaiming_uniform_": "lm.nn.initializers.he_uniform", "normal_": "lm.nn.initializers.random_normal", "uniform_": "lm.nn.initializers.random_uniform",
                           "xavier_normal_": "lm.nn.initializers.glorot_normal", "xavier_uniform_": "lm.nn.initializers.glorot_uniform"},
    "lm.onnx": {"export": "lm.onnx.save", "load_model": "lm.onnx.load", "save_model": "lm.onnx.save"},
    "lm.profiler": {"Profile": "lm.profiler.record()", "annotate_function": "lm.name_scope", "profile": "lm.profiler.record()", "record_function": "lm.profiler.range", "start": "with lm.profiler.trace(dir):", "start_trace": "with lm.profiler.trace(dir):", "stop": "with lm.profiler.trace(dir):", "stop_trace": "with lm.profiler.trace(dir):", "TraceAnnotation": "lm.profiler.range",
                    "Trace": "lm.profiler.range"},
    "lm.data": {"DataLoader": "lm.data.Dataset", "TensorDataset": "lm.data.Dataset.from_tensor_slices"},
}
# Names that mean something else where they are usually from than what has them here.
_OTHER_MEANING = {"RReLU", "eigvals", "erfcinv", "exponential", "get", "poisson", "random", "record", "rrelu"}
_PARTS = ("nn", "optim", "optim.schedules", "losses", "metrics", "data", "linalg", "fft", "random", "nn.initializers", "config", "profiler")


def missing(place, name, names, where):
    """The AttributeError for a name that `place` ("lm", "lm.nn") does not have. It names what to write instead only where that is known: the same thing under another framework's name, the
    same name in another part of Lamina, or a name that differs by one letter or in upper and lower case."""
    import lamina as lm

    here = "lamina" + place[2:]
    known = _IN.get(place, {}).get(name) if place != "lm" else f"lm.{NAMES[name]}" if name in NAMES else WRITTEN.get(name)
    if known is None and name not in _OTHER_MEANING:
        known = next((f"lm.{part}.{name}" for part in _PARTS if f"lm.{part}" != place and (place == "lm" or part not in ("random", "config", "profiler")) and name in _public(lm, part)), None)
    if known is None and place != "lm" and name in lm.__all__:
        known = f"lm.{name}"
    if known is not None:
        return AttributeError(f"{here} has no '{name}'\n  where: {where}\n  why:   it has another name here\n  fix:   write {known}")
    near = [] if place == "lm" and _of_others(name) or name in _OTHER_MEANING or name.endswith("_p") else [one for one in sorted(names) if _near(name, one)]
    if near:
        import difflib

        near.sort(key=lambda one: (_bare(one) != _bare(name), -difflib.SequenceMatcher(None, name, one).ratio()))
        return AttributeError(str(lm._core.unknown_name(f"attribute of {here}", name, sorted(names))).partition("\n  fix:")[0] + f"\n  fix:   did you mean '{near[0]}'?")
    why = "NumPy has it" if place == "lm" and _of_others(name) else "there is no such name"
    fix = f"use np.{name} on x.numpy(), outside of traced functions, or compose it of ops" if why == "NumPy has it" else f"dir({place}) lists what there is"
    return AttributeError(f"{here} has no '{name}'\n  where: {where}\n  why:   {why}\n  fix:   {fix}")


def names_of(place, names):
    """(__getattr__, __dir__) of a module of Lamina that has these names for users."""
    from . import _core

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(f"module '{place}' has no attribute '{name}'")
        from importlib import util

        if place == "lm.nn" and util.find_spec(f"lamina.nn.{name}") is not None:
            raise AttributeError(f"module '{place}' has no attribute '{name}'")  # an import is looking for a module of this name
        raise missing(place, name, names, _core._user_line())

    return __getattr__, lambda: sorted(names)


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
    """Whether one is the other in other letters' case or with other underscores, or with one letter more, less, replaced, or swapped with the next. Other first letters and other digits
    are other names: celu, relu6, Conv3d."""
    a, b = _bare(given), _bare(name)
    if a == b:
        return True
    if min(len(a), len(b)) < 4 + (len(a) == len(b)) or abs(len(a) - len(b)) > 1 or a[0] != b[0] or [c for c in a if c.isdigit()] != [c for c in b if c.isdigit()]:
        return False
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return a[i + 1:] == b[i:] or a[i:] == b[i + 1:] or a[i + 1:] == b[i + 1:] or (a[i:i + 2] == b[i:i + 2][::-1] and a[i + 2:] == b[i + 2:])
