"""What users of NumPy, TensorFlow, Keras, JAX and PyTorch write by habit on tensors, Variables, layers and optimizers and in calls, and what to write here."""
from __future__ import annotations

from . import _elsewhere

_SAME = "use x itself: a tensor never changes"
_TAPE = "tape.gradient(loss, variables), with lm.GradientTape() around the computation, or lm.grad"
_NO_ZEROS = "leave it out: each tape gives new gradients"
# a name that the class does not have -> what to write
TENSOR = {
    "assign": "v.assign(v.at[index].set(value)), where x is v[index]", "assign_add": "v.assign(v.at[index].add(value)), where x is v[index]", "assign_sub": "v.assign(v.at[index].add(-value)), where x is v[index]",
    "backward": _TAPE, "block_until_ready": "lm.synchronize()", "byte": "x.astype(lm.uint8)", "bfloat16": "x.astype(lm.bfloat16)", "bool": "x.astype(lm.bool)", "clone": _SAME, "contiguous": _SAME, "copy": _SAME,
    "cpu": 'x.to("cpu:0"), or x.numpy()', "cuda": 'x.to("gpu:0")', "data": _SAME, "detach": "lm.stop_gradient(x)", "dim": "x.ndim", "double": "x.astype(lm.float64)", "element_size": "x.dtype.itemsize",
    "eval": "x.numpy()", "expand": "lm.broadcast_to(x, shape)", "expand_as": "lm.broadcast_to(x, y.shape)", "float": "x.astype(lm.float32)", "gather": "lm.take_along_axis(x, indices, axis)",
    "get_device": "x.device", "get_shape": "x.shape", "grad": _TAPE, "half": "x.astype(lm.float16)", "int": "x.astype(lm.int32)", "is_cuda": "x.device", "itemsize": "x.dtype.itemsize",
    "long": "x.astype(lm.int64)", "masked_select": "x[mask]", "nbytes": "x.size * x.dtype.itemsize", "ndimension": "x.ndim", "nelement": "x.size", "new_full": "lm.full(shape, value, dtype=x.dtype)",
    "new_ones": "lm.ones(shape, dtype=x.dtype)", "new_tensor": "lm.constant(values, dtype=x.dtype)", "new_zeros": "lm.zeros(shape, dtype=x.dtype)", "numel": "x.size", "requires_grad": "tape.watch(x), or a lm.Variable",
    "requires_grad_": "tape.watch(x), or a lm.Variable", "short": "x.astype(lm.int16)", "t": "x.T", "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)", "values": "x.numpy()", "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)", "where": "lm.where(condition, x, y)",
}
VARIABLE = {
    "add_": "v.assign_add(value)", "apply": "lm.tree.map", "copy_": "v.assign(value)", "data": "v.read(), or v.assign(value)", "detach": "v.read()", "fill_": "v.assign(lm.full(v.shape, value))", "grad": _TAPE, "backward": _TAPE,
    "numpy_": "v.numpy()", "requires_grad": "v.trainable", "requires_grad_": "v.trainable", "set_value": "v.assign(value)", "sub_": "v.assign_sub(value)", "value": "v.read()", "zero_": "v.assign(lm.zeros_like(v))",
}
LAYER = {
    "add_loss": "cost + penalty in a loop of your own, or kernel_regularizer= of its layers", "apply": "net(x)", "children": "net.layers", "cpu": 'with lm.device("cpu:0"): around the first call', "cuda": 'with lm.device("gpu:0"): around the first call',
    "double": 'dtype="float64" in its layers', "explain": "lm.function(net).explain(x)", "eval": "net(x): training is off unless a call passes training=True", "fit_generator": "net.fit(dataset)", "float": 'dtype="float32" in its layers', "forward": "net(x), and call in classes of your own",
    "export": "lm.save(net, folder)", "half": 'dtype="float16" in its layers', "init": "net(x): the first call makes the weights", "load_weights": "lm.load_weights(net, path)", "named_parameters": "net.state_dict()", "non_trainable_weights": "net.non_trainable_variables",
    "parameters": "net.trainable_variables", "register_buffer": "self.name = lm.Variable(value, trainable=False)", "register_parameter": "self.name = lm.Variable(value)", "requires_grad_": "net.trainable = False",
    "save": 'lm.save(net, folder), or lm.nn.save_file(net, "net.keras")', "save_weights": "lm.save_weights(net, path)", "to": 'with lm.device("gpu:0"): around the first call', "train": "net(x, training=True); fit does it by itself",
    "trainable_weights": "net.trainable_variables", "weights": "net.variables", "zero_grad": _NO_ZEROS,
}
AT = {
    "apply": "x.at[i].set(f(x[i]))", "divide": "x.at[i].mul(1 / v)", "multiply": "x.at[i].mul(v)", "power": "x.at[i].set(x[i] ** v)", "subtract": "x.at[i].add(-v)", "replace": "x.at[i].set(v)", "maximum": "x.at[i].max(v)", "minimum": "x.at[i].min(v)",
}
DATASET = {
    "apply": "function(dataset)", "as_numpy_iterator": "x.numpy() in a loop over it", "cardinality": "len(dataset)", "element_spec": "next(iter(dataset)), which shows dtypes and shapes", "enumerate": "enumerate(dataset)", "flat_map": "dataset.interleave(f)", "reduce": "a loop over it",
    "unbatch": "a loop over its batches and their rows", "window": "dataset.batch(n)",
}
FUNCTION = {
    "clear_cache": "lm.function(fn), which has traced nothing yet", "compile": "use f itself: its first call compiles", "cost_analysis": "f.explain(*arguments)", "eval_shape": "f.inspect(*arguments), which shows dtypes and shapes",
    "experimental_get_compiler_ir": "f.explain(*arguments)", "experimental_get_tracing_count": "f.trace_count", "fn": "f.python_function", "function_spec": "f.inspect(*arguments)", "graph": "f.inspect(*arguments)",
    "input_signature": "lm.function(f, input_signature=[...])", "lower": "f.explain(*arguments), which plans a call and shows what it runs", "pretty_printed_concrete_signatures": "f.traces", "save": "lm.save(module, folder), with f as a method of an lm.Module",
    "trace": "f.get_concrete_function(*arguments)", "vmap": "lm.vmap(f)", "grad": "lm.grad(f)",
}
METRIC = {
    "reset_state": "metric.reset()", "reset_states": "metric.reset()", "update_state": "metric.update(metric.measure(labels, predictions), len(labels))", "compute": "metric.result()",
}
OPTIMIZER = {
    "apply": "optimizer.apply_gradients(zip(gradients, variables))", "init": "leave it out: the first apply_gradients makes its state", "lr": "optimizer.learning_rate", "minimize": "optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))",
    "param_groups": "optimizer.learning_rate, or an optimizer for each group", "step": "optimizer.apply_gradients(zip(gradients, variables))", "update": "optimizer.apply_gradients(zip(gradients, variables))", "zero_grad": _NO_ZEROS,
}
# another framework's name of an argument -> names here, of which the function has one
ARGUMENTS = {
    "a_max": ("high",), "a_min": ("low",), "argnum": ("argnums",), "axes": ("axis",), "axis": ("axes",), "begin_axis": ("axis",), "betas": ("beta_1",), "constant_values": ("value",), "drop_last": ("drop_remainder",), "embedding_dim": ("output_dim",), "filepath": ("path",), "hidden_size": ("units",), "num_embeddings": ("input_dim",), "weights": ("sample_weight",), "bias": ("use_bias",), "clip_value_max": ("high",), "clip_value_min": ("low",), "depth": ("classes",), "dim": ("axis", "axes"),
    "dims": ("axis", "axes"), "eps": ("epsilon",), "high": ("high", "upper"), "in_dims": ("in_axes",), "keep_dims": ("keepdims",), "keepdim": ("keepdims",), "loc": ("mean",), "lr": ("learning_rate",), "max": ("high",), "maxval": ("high", "upper"),
    "min": ("low",), "minval": ("low", "lower"), "nb_epoch": ("epochs",), "num_classes": ("classes",), "out_channels": ("filters",), "out_dims": ("out_axes",), "out_features": ("units",), "p": ("rate",), "perm": ("axes",),
    "reduce_retracing": ("relax_shapes",), "requires_grad": ("trainable",), "scale": ("deviation",), "shuffle_buffer": ("buffer_size",), "size": ("shape",), "std": ("deviation",), "stddev": ("deviation",), "tensors": ("parts",), "values": ("parts",),
}
# what an argument that no function here has is for -> what to do
WITHOUT = {
    "clipnorm": "leave it out, and clip the gradients in a loop of your own: lm.optim.clip_by_norm(gradients, limit)", "clipvalue": "leave it out, and clip the gradients in a loop of your own: lm.optim.clip_by_value(gradients, limit)",
    "global_clipnorm": "leave it out, and clip the gradients in a loop of your own: lm.optim.clip_by_global_norm(gradients, limit)", "foreach": "leave it out: one launch updates all weights", "fused": "leave it out: one launch updates all weights",
    "histogram_freq": "leave it out; lm.summary.Writer.histogram writes one", "update_freq": "leave it out: it writes after every epoch", "write_graph": "leave it out; lm.summary.write_graph writes one", "input_length": "leave it out: the first call says it",
    "validation_batch_size": "leave it out: it is batch_size", "validation_freq": "leave it out: validation follows every epoch", "validation_steps": "leave it out, and pass validation_data=dataset.take(n)", "requires_grad": "leave it out: tapes watch Variables, and lm.grad takes any argument",
    "activity_regularizer": "leave it out, and add the penalty of the outputs to the loss in a loop of your own", "batch_first": "leave it out: the batch is the first axis", "direction": "write descending=True, or leave it out",
    "embed_dim": "leave it out: the first call says it; key_dim is the size of one head", "input_size": "leave it out: the first call says it", "max_queue_size": "leave it out; a Dataset reads ahead: prefetch(n)", "normalized_shape": "leave it out: the last axis is normalised",
    "num_layers": "leave it out, and put several layers into a Sequential", "save_weights_only": "leave it out: a path that ends in .safetensors gets the weights alone", "start_dim": "leave it out: all axes but the first become one",
    "use_multiprocessing": "leave it out; a Dataset reads in threads: host_map(f, parallel=8)", "workers": "leave it out; a Dataset reads in threads: host_map(f, parallel=8)",
    "device": 'leave it out, and write with lm.device("gpu:0"): around the call', "donate_argnums": "leave it out: Variables are updated in place", "in_channels": "leave it out: the first call says it", "in_features": "leave it out: the first call says it",
    "input_dim": "leave it out: the first call says it", "jit_compile": "leave it out: every traced function is compiled", "static_argnums": "leave it out: Python values are static, tensors are not",
    "static_argnames": "leave it out: Python values are static, tensors are not",
}


def missing_attribute(kind, table, owner, name, where):
    """The AttributeError for an attribute that an object does not have."""
    import inspect

    import lamina as lm

    fix = table.get(name)
    if kind == "Layer" and not owner.built and name in (*owner._weights, *inspect.unwrap(type(owner).build).__code__.co_names):
        error = AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}' yet\n  where: {where}\n  why:   its weights exist from the first call on\n  fix:   call it on data once, or start the model with lm.nn.Input")
        error.missing = owner, name
        return error
    if fix is None and kind in ("Tensor", "Variable"):
        x = "x" if kind == "Tensor" else "v"
        if kind == "Variable" and not name.startswith("_") and hasattr(lm.Tensor, name):
            fix = f"v.read().{name}"
        elif kind == "Variable" and name in TENSOR:
            fix = TENSOR[name].replace("x.", "v.read().").replace("(x", "(v")
        elif name in lm.__all__ and callable(getattr(lm, name)) and not isinstance(getattr(lm, name), type):
            fix = _call(lm, name, x)
        elif name in _elsewhere.NAMES:
            ours = _elsewhere.NAMES[name]
            fix = _call(lm, ours, x) if ours in lm.__all__ and callable(getattr(lm, ours)) else f"lm.{ours}"
        elif name in _elsewhere.WRITTEN:
            fix = _elsewhere.WRITTEN[name].replace("x", x) if kind == "Variable" else _elsewhere.WRITTEN[name]
        elif name.endswith("_") and not name.startswith("_"):
            fix = f"x = {_call(lm, name[:-1], x)}: a tensor never changes" if kind == "Tensor" and name[:-1] in lm.__all__ else "v.assign(value)" if kind == "Variable" else "x.at[...].set(value), which gives a new tensor: a tensor never changes"
    if fix is None:
        near = [one for one in dir(owner) if not one.startswith("_") and _elsewhere._near(name, one)]
        fix = f"did you mean '{near[0]}'?" if near else None
    else:
        fix = fix if fix.startswith(("use ", "leave ")) else f"write {fix}"
    text = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if fix is None:
        return AttributeError(text, name=name, obj=owner)
    error = AttributeError(f"{text}\n  where: {where}\n  why:   it has another name here\n  fix:   {fix}" if not fix.startswith("did") else f"{text}\n  where: {where}\n  why:   there is no such name\n  fix:   {fix}")
    error.missing = owner, name  # not name= and obj=: Python would add a guess of its own
    return error


def _call(lm, name, x):
    """A call of lm.name on x, with the arguments that it needs."""
    from . import _border

    more = [p.name for p in (_border._parameters(getattr(lm, name)) or ())[1:] if p.default is None and p.kind < 2]
    return f"lm.{name}({', '.join([x, *more])})"


def hints(cls, kind, table):
    """Gives a class errors that say what to write in place of another framework's attributes."""
    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)
        if hasattr(type(self), name):  # a property, whose error says why it has no value
            return object.__getattribute__(self, name)
        from . import _core

        raise missing_attribute(kind, table, self, name, _core._user_line())

    cls.__getattr__ = __getattr__


def keyword(name, named):
    """What to write for an argument `name` of another framework, where the function's parameters are `named`; None if that is not known."""
    ours = next((one for one in ARGUMENTS.get(name, ()) if one in named), None)
    return f"write {ours}=" if ours else WITHOUT.get(name)


def positions(name, parameters, args):
    """What to write where values are passed by position as another framework takes them; None if that is not seen."""
    from . import _core

    short = name.rpartition(".")[2]
    tensors = (_core.Tensor, _core.Variable)
    first = parameters[0] if parameters else ""
    whole = [one for one in args if type(one) is int]
    if first == "shape" and len(args) > 1 and len(whole) == len(args):
        return f"pass the shape as one tuple: {short}({tuple(args)})"
    if first == "shape" and len(args) > 1 and isinstance(args[0], tensors) and isinstance(args[1], (tuple, list)):
        return f"write {short}({tuple(args[1])}, key=key): the shape comes first" if "key" in parameters else f"leave out the key, and pass the shape {tuple(args[1])} first, or seed="
    if first == "path" and len(args) > 1 and isinstance(args[1], str) and not isinstance(args[0], str):
        return f"write {short}({args[1]!r}, {parameters[1]}): the path comes first"
    if first == "learning_rate" and args and isinstance(args[0], (list, tuple)) and all(isinstance(one, _core.Variable) for one in args[0]):
        return f"write {short}(learning_rate): apply_gradients is given the Variables"
    if first == "shape" and len(args) > 1 and isinstance(args[0], (int, float)) and isinstance(args[-1], (tuple, list)):
        return f"write {short}({tuple(args[-1])}, {', '.join(map(str, args[:-1]))}): the shape comes first"
    if first == "parts" and len(args) > 1 and isinstance(args[0], tensors) and isinstance(args[1], tensors):
        return f"pass the parts as one list: {short}([a, b])"
    if short == "transpose" and len(whole) == 2:
        return f"write lm.swapaxes(x, {whole[0]}, {whole[1]}), or transpose with all axes as one tuple"
    if short in ("max", "min") and "Tensor" not in name and len(args) > 1 and isinstance(args[1], tensors):
        return f"write lm.{short}imum(a, b): {short} is over the elements of one tensor"
    if name.endswith(("Tensor.to", "Tensor.to_device")) and args and isinstance(args[-1], _core.DType):
        return f"write x.astype({args[-1]!r})"
    if first == "layers" and args and not isinstance(args[0], (list, tuple)):
        return f"pass the layers as one list: {short}([first, second])"
    if first == "units" and whole == list(args[:len(whole)]) and len(whole) == 2:
        return f"write {short}({whole[1]}): the first call says how many inputs there are"
    return None
