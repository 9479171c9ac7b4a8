"""Which dtypes the ops of ONNX take, and wider ones for those that they do not take."""
from __future__ import annotations

import functools

import onnx

OPSET = 21
SMALL, MIDDLE = ("bool", "int8", "uint8", "int16", "uint16"), ("int32", "uint32")
# {dtype: those that hold all its numbers}
WIDER = {**dict.fromkeys(SMALL, ("int32", "float32")), **dict.fromkeys(MIDDLE, ("int64", "float64")), "float16": ("float32",), "bfloat16": ("float32",)}
RUNTIME = {  # what ONNX Runtime (1.32, on a CPU) lacks of what the standard has
    "ArgMax": "int16 uint16 uint32", "Max": "int16 uint16", "Min": "int16 uint16", "ReduceMax": "bool uint32", "ReduceMin": "bool uint32", "ReduceProd": "uint32", "ReduceSum": "uint32",
    "CumSum": "uint32", "Pad": "int16 uint16", "TopK": "int8 uint8 int16 uint16 uint32", "Where": "bool int16 uint16",
}
NAMES = {"float": "float32", "double": "float64"}


@functools.cache
def schema(op):
    """({type variable: its dtypes}, the variables of the inputs, those of the outputs). A loop's values have None: each is of its own type."""
    found = onnx.defs.get_schema(op, OPSET)
    dtypes = lambda texts: {NAMES.get(t[7:-1], t[7:-1]) for t in texts if t.startswith("tensor(")}
    variables = {c.type_param_str: dtypes(c.allowed_type_strs) for c in found.type_constraints}
    lists = [[None if not f.is_homogeneous else f.type_str for f in formals] for formals in (found.inputs, found.outputs)]
    variables.update({t: dtypes([t]) for of in lists for t in of if t and t not in variables})
    return variables, *lists


def matched(variables, values):
    """A type variable for each value; the last one stands for all that follow."""
    return [*variables, *variables[-1:] * (len(values) - len(variables))][:len(values)]


def wider(op, dtype, inputs):
    """The dtype that stands in for this one in an op with inputs [(type variable, dtype)], or the dtype itself; None if there is none."""
    variables = schema(op)[0]
    own = [variables[v] for v, d in inputs if v and d == dtype]
    missing = [kinds for kinds in own if dtype not in kinds]
    if not missing and not (own and dtype in RUNTIME.get(op, "").split()):
        return dtype
    return next((w for w in WIDER.get(dtype, ()) if any(w in kinds for kinds in own) and all(w in kinds for kinds in missing)), None if missing else dtype)
