"""What lm.quantize does: it finds the products by weights in a graph, watches their inputs, and traces the graph again with both rounded.

Rounding is a composition of ordinary ops, Steps.rounded() for inputs and Weight.read() for weights, which onnx/_export_quantized.py recognises. Weights are
Variables of int8, which no pass folds into constants of float32.
"""
from __future__ import annotations

import numpy as np

from . import _core, _program, errors
from ._products import find
from .data import Dataset
from .module import specs_of

LOW, HIGH = -128, 127  # of int8
ROWS = 256  # of an array in one call
BEYOND = 1e-4  # the share of values on each side that the steps need not reach


def quantized(model, data):
    batches, one = _batches(model, data)
    graph = _graph_of(model, one, batches[0])
    found = find(graph.concrete, "quantize")
    calls = [part for batch in batches for part in _calls(graph, batch)]
    if not any(all(t.size for t in call) for call in calls):
        raise errors.InvalidArgument("quantize: there is no calibration data", why="all batches are empty", fix="pass at least one row")
    steps = {key: Steps(*limits) for key, limits in _ranges(graph.concrete, found, calls).items()}
    made, weights = _made(model, graph, found, steps)
    vars(made)["report"] = _report(graph.concrete, made, found, steps, weights, calls)
    return made


class Quantized(_program.LoadedModule):
    """What lm.quantize makes. `report`: its figures; print() shows them."""

    def __str__(self):
        r = self.report
        lines = [repr(self), f"  {r['bytes_before']:,} bytes before, {r['bytes_after']:,} after",
                 f"  difference from the model's results: at most {r['max_difference']:.3%} of the largest, on average {r['mean_difference']:.3%} of the average"]
        lines += [f"  {r['changed']:.3%} of the results that are whole numbers changed"] if "changed" in r else []
        for name, weight in r["weights"].items():
            inputs = ", ".join(f"inputs from {low:.4g} to {high:.4g}" for low, high in weight["inputs"]) or "inputs as they are"
            lines.append(f"  {name}: int8{weight['shape']}, {weight['scales']} scales, {inputs}")
        return "\n".join(lines + [f"  float32: {why}" for why in r["float32"]])

    def __repr__(self):
        return f"<Quantized call({self.call._saved_graphs[0].in_words()})>"


# --- the model and the data ---


def _graph_of(model, one, batch):
    """The _Graph of a model's inference. one: a batch is one argument, of any number of rows."""
    if isinstance(model, _program.LoadedModule):
        model = vars(model).get("call", model)
    if hasattr(model, "_as_program"):
        model = model._as_program()["call"]
    if isinstance(model, _program.SavedFunction):
        return model.graph_for(batch, {})
    if not callable(model):
        raise errors.TypeMismatch(f"quantize: {errors.a_type(model)} cannot be called", fix="pass a model, a function, or a function of a module: policy.score")
    concrete = model
    if one:
        model._require_built("quantize")

        def call(inputs):
            return model(inputs, training=False)

        concrete = _core.function(call).get_concrete_function(specs_of(batch[0], open_rows=True))
    elif not isinstance(model, _core.ConcreteFunction):
        function = _program.traced(model) or _core.function(model)
        concrete = function.get_concrete_function(*batch)
    graph = _program.described(concrete)
    if isinstance(graph, str):
        raise errors.InvalidArgument(f"quantize: {graph} cannot be quantized", why="arguments and results are tensors, numbers, text, and containers of them",
                                     fix="pass a function that takes and returns such")
    return graph


def _batches(model, data):
    """(the arguments of each call, whether a batch is one argument)."""
    from .nn.layer import Layer

    one = isinstance(model, Layer)
    if isinstance(data, Dataset):
        if data._core.size is None:
            raise errors.InvalidArgument("quantize: the Dataset repeats for ever", why="all of it is used", fix="pass it without repeat()")
        batches = [batch[0] if one and isinstance(batch, tuple) else batch for batch in data]
    elif isinstance(data, list) or hasattr(data, "__next__"):
        batches = list(data)
    elif hasattr(data, "dtype") or isinstance(data, (tuple, dict)):
        batches = [data]
    else:
        raise errors.TypeMismatch(f"quantize: {errors.shown(data)} is no calibration data", fix="pass an array, a list of batches, or a lm.data.Dataset")
    if not batches:
        raise errors.InvalidArgument("quantize: there is no calibration data", why="the steps of the inputs are chosen for it", fix="pass at least one batch")
    return [batch if isinstance(batch, tuple) and not one else (batch,) for batch in batches], one


def _calls(graph, batch):
    """The tensors of each call for a batch: large ones in parts, where the graph takes any number of rows."""
    try:
        tensors, variables = graph.inputs(batch, {}, True)
    except _program.Different as different:
        raise errors.SignatureMismatch(f"quantize: the model cannot be called with this data: {different}", fix=f"pass batches of ({graph.in_words()})") from None
    if variables:
        raise errors.InvalidArgument("quantize: the function takes a Variable as an argument", why="the result keeps its weights itself",
                                     fix="let the function use the Variable without passing it")
    rows = {t.shape[0] if t.shape else None for t in tensors}
    if len(rows) != 1 or not all(spec.shape and spec.shape[0] is None for spec in graph.specs) or tensors[0].shape[0] <= ROWS:
        return [tensors]
    return [[t[begin:begin + ROWS] for t in tensors] for begin in range(0, tensors[0].shape[0], ROWS)]


# --- how inputs are rounded ---


class Steps:
    """x is rounded to (q - zero) * scale, with q in -128 ... 127: 256 steps, of which one is 0."""

    def __init__(self, low, high):
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / (HIGH - LOW))
        self.scale = float(scale) if scale >= np.finfo(np.float32).tiny else 1.0
        self.zero = int(np.clip(np.rint(LOW - low / self.scale), LOW, HIGH))

    @property
    def limits(self):
        return [(LOW - self.zero) * self.scale, (HIGH - self.zero) * self.scale]

    def rounded(self, x):
        y = _core.round(x / self.scale)
        y = _core.astype(_core.clip(y + float(self.zero) if self.zero else y, float(LOW), float(HIGH)), _core.int8)
        y = _core.astype(y, _core.float32)
        return (y - float(self.zero) if self.zero else y) * self.scale


def _ranges(concrete, found, calls):
    """{input of a product: (low, high)} of its values for this data, without the outermost."""
    at = {p.node: p for p in found.products}
    keys = list(dict.fromkeys(p.key for p in found.products))

    def run(*tensors):
        seen = {}

        def operands(node, inputs):
            if node in at:
                seen[at[node].key] = inputs[at[node].operand]

        concrete._inline_changed(list(tensors), lambda i: concrete.variables[i].read(), operands)
        return [seen[key] for key in keys]

    watched = _core.function(run, None, False, False).get_concrete_function(*concrete.inputs)
    counts, ends = dict.fromkeys(keys, 0), {key: (np.zeros(0), np.zeros(0)) for key in keys}
    for call in calls:
        for key, value in zip(keys, watched._call(call, [])):
            counts[key] += value.size
            if not np.isfinite(value.numpy()).all():
                product = next(p for p in found.products if p.key == key)
                raise errors.InvalidArgument(f"quantize: the inputs of {product.op} are not finite for this data", product.line,
                                             "inf and nan have no place among 256 steps", "leave such rows out")
    for call in calls:
        for key, value in zip(keys, watched._call(call, [])):
            most = int(BEYOND * counts[key]) + 1
            low, high = (np.append(end, value.numpy()) for end in ends[key])
            ends[key] = (np.partition(low, most)[:most], np.partition(high, -most)[-most:]) if len(low) > most else (low, high)
    return {key: (float(low.max(initial=-np.inf)), float(high.min(initial=np.inf))) if counts[key] else (0.0, 0.0) for key, (low, high) in ends.items()}


# --- the quantized graph ---


class Weight:
    """A Variable as int8, with a scale for each place along an axis, or one for all."""

    def __init__(self, variable, name, axis):
        value = variable.numpy()
        if not np.isfinite(value).all():
            raise errors.InvalidArgument(f"quantize: '{name}' is not finite", why="inf and nan have no place among 256 steps", fix="train it again")
        self.axis, self.rank = axis, value.ndim
        scale = np.abs(value).max(axis=tuple(a for a in range(value.ndim) if a != axis), initial=0) / np.float32(HIGH)
        scale = np.where(scale >= np.finfo(np.float32).tiny, scale, 1).astype(np.float32)
        whole = np.clip(np.rint(value / self._along(scale, np.reshape)), -HIGH, HIGH).astype(np.int8)
        self.whole = _core.Variable(_core.constant(whole), name=name, trainable=False)
        self.scale = _core.Variable(_core.constant(scale), name=f"{name}.scale", trainable=False)

    def _along(self, scale, reshape):
        return scale if self.axis is None or self.axis == self.rank - 1 else reshape(scale, [-1 if a == self.axis else 1 for a in range(self.rank)])

    def read(self):
        return _core.astype(self.whole.read(), _core.float32) * self._along(self.scale.read(), _core.reshape)


def _made(model, graph, found, steps):
    """The Quantized module, without its report, and {name: the resource} of its weights of int8."""
    concrete, at = graph.concrete, {p.node: p for p in found.products}
    names = _names(model, concrete)
    kept = {}
    for i in found.reads:
        variable = concrete.variables[i]
        kept[i] = Weight(variable, names[i], found.axes[i]) if i in found.axes else _core.Variable(variable.read(), name=names[i], trainable=False)

    def run(*tensors):
        read, rounded = {}, {}

        def value(i):
            if i not in read:
                read[i] = kept[i].read()
            return read[i]

        def operands(node, inputs):
            if node not in at:
                return None
            key, place = at[node].key, at[node].operand
            if key not in rounded:
                rounded[key] = steps[key].rounded(inputs[place])
            inputs[place] = rounded[key]
            return inputs

        return concrete._inline_changed(list(tensors), value, operands)

    run.__name__ = concrete.name
    again = _core.function(run, None, False, False).get_concrete_function(*concrete.inputs)
    made = object.__new__(Quantized)
    for i, one in kept.items():
        vars(made).update({names[i]: one.whole, f"{names[i]}.scale": one.scale} if isinstance(one, Weight) else {names[i]: one})
    call = _program.SavedFunction("call", [_program._Graph(again, graph.arguments, graph.result, False)])
    vars(made).update({"call": call, "_saved_class": "Quantized", "_signatures": {"serving_default": call}})
    return made, {names[i]: i for i in found.axes}


def _names(model, concrete):
    """A name for each of a graph's Variables: what leads to it in the model, or its own."""
    known = {hash(v): name for name, v in model._named_variables("quantize").items()} if hasattr(model, "_named_variables") else {}
    names, taken = [], {"call", "report"}
    for variable in concrete.variables:
        stem = name = known.get(hash(variable)) or variable.name or "variable"
        n = 1
        while name in taken or f"{name}.scale" in taken:
            n += 1
            name = f"{stem}_{n}"
        taken |= {name, f"{name}.scale"}
        names.append(name)
    return names


def _report(concrete, made, found, steps, weights, calls):
    most = total = largest = size = 0.0
    changed = whole = 0
    new = made.call._saved_graphs[0].concrete
    for call in calls:
        for want, got in zip(concrete._call(call, []), new._call(call, [])):
            if want.dtype not in (_core.float16, _core.bfloat16, _core.float32, _core.float64):
                changed, whole = changed + int((want.numpy() != got.numpy()).sum()), whole + want.size
                continue
            want, got = (t.astype(_core.float64).numpy() for t in (want, got))
            apart = np.abs(got - want)
            most, largest = max(most, float(apart.max(initial=0))), max(largest, float(np.abs(want).max(initial=0)))
            total, size = total + float(apart.sum()), size + float(np.abs(want).sum())
    inputs = lambda i: [steps[key].limits for key in dict.fromkeys(p.key for p in found.products if p.resource == i)]
    bytes_of = lambda variables: sum(v.size * v.dtype.itemsize for v in variables)
    return {"bytes_before": bytes_of(concrete.variables[i] for i in found.reads), "bytes_after": bytes_of(made.variables),
            "max_difference": most / largest if largest else most, "mean_difference": total / size if size else total,
            "weights": {name: {"shape": list(vars(made)[name].shape), "scales": int(vars(made)[f"{name}.scale"].size), "inputs": inputs(i)}
                        for name, i in weights.items()},
            "float32": list(dict.fromkeys(found.left))} | ({"changed": changed / whole} if whole else {})
