"""Values of the interpreter: dtypes, shapes, and ways between ONNX, NumPy and Lamina."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from .. import _core, errors
from .._core import Tensor, Variable

OPEN = np.iinfo(np.int64).min + 1  # a length that is open, in the value of a Shape
LENGTHS = 32  # how many axes a tensor may have

T = onnx.TensorProto
DTYPES = {T.BOOL: _core.bool, T.UINT8: _core.uint8, T.INT8: _core.int8, T.INT16: _core.int16, T.INT32: _core.int32, T.INT64: _core.int64,
          T.FLOAT16: _core.float16, T.BFLOAT16: _core.bfloat16, T.FLOAT: _core.float32, T.DOUBLE: _core.float64}
CODES = {d.name: code for code, d in DTYPES.items()}
FLOATS = ("float16", "bfloat16", "float32", "float64")
HALVES = ("float16", "bfloat16")


def width(dtype):
    name = dtype if isinstance(dtype, str) else dtype.name
    return {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}.get(name, 8)


def dtype_from(code):
    """Lamina's dtype for ONNX's code."""
    if code not in DTYPES:
        name = T.DataType.Name(code) if code in T.DataType.values() else str(code)
        raise errors.TypeMismatch(f"the ONNX graph: there are no tensors of dtype {name.lower()}", why=f"Lamina's are {', '.join(CODES)}",
                                  fix="convert that part of the model")
    return DTYPES[code]


def dtype_of(value):
    """Lamina's dtype of a value."""
    if isinstance(value, np.ndarray):
        return _core.dtype(str(value.dtype)) if str(value.dtype) in CODES else dtype_from(-1)
    return value.dtype


def code_of(dtype):
    return CODES[dtype.name]


def shape_of(value):
    return tuple(value.shape)


def known_array(value):
    """What a tensor holds, while no graph is traced; else None."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list) or not _core.executing_eagerly():
        return None
    value = value.read() if isinstance(value, Variable) else value
    if value.dtype.name == "bfloat16":
        import ml_dtypes
        return np.asarray(value.astype(_core.float32).numpy()).astype(ml_dtypes.bfloat16)
    return np.asarray(value.numpy())


def to_tensor(value):
    """A tensor or Variable as it is, a known array as a constant, sequences part by part."""
    if isinstance(value, list):
        return [to_tensor(v) for v in value]
    if value is None or isinstance(value, (Tensor, Variable)):
        return value.read() if isinstance(value, Variable) and not _core.executing_eagerly() else value
    if value.dtype == np.int64 and value.ndim <= 1 and bool((value == OPEN).any()):
        raise errors.InvalidArgument("the ONNX graph computes with a length that is open", why="only shapes may depend on it", fix="trace with that length fixed")
    name = str(value.dtype)
    if name == "bfloat16":
        return _core.constant(np.ascontiguousarray(value.astype(np.float32)), _core.bfloat16)
    if name not in CODES:
        raise errors.TypeMismatch(f"the ONNX graph: there are no tensors of dtype {name}", why=f"Lamina's are {', '.join(CODES)}",
                                  fix="convert that part of the model")
    return _core.constant(np.array(value, order="C", copy=True), _core.dtype(name))


def to_value(value):
    """What was passed to a network, as a tensor."""
    if isinstance(value, (Tensor, Variable)):
        return value
    array = np.asarray(value)
    return to_tensor(array) if str(array.dtype) in CODES else _core.constant(value)


def finished(value):
    """What a network returns for a value."""
    if isinstance(value, list):
        return [finished(v) for v in value]
    if isinstance(value, np.ndarray):
        return to_tensor(value)
    return value.read() if isinstance(value, Variable) else value


def check_type(name, spec, value):
    """Throws where a tensor does not fit the dtype and shape that the file gives for an input."""
    wanted = dtype_from(spec.elem_type)
    if value.dtype.name != wanted.name:
        raise errors.SignatureMismatch(f"the network's input '{name}' is {wanted.name}, {value.dtype.name} was given", why="the file says so",
                                       fix=f"pass lm.astype(x, lm.{wanted.name})")
    if not spec.HasField("shape"):
        return
    given, dims = shape_of(value), spec.shape.dim
    if len(given) != len(dims) or any(d.HasField("dim_value") and g is not None and d.dim_value != g for d, g in zip(dims, given)):
        shape = ", ".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims)
        raise errors.SignatureMismatch(f"the network's input '{name}' has the shape [{shape}], {list(given)} was given", why="the file says so",
                                       fix="pass a tensor of that shape")


def trains(tensor):
    return tensor.data_type in (T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE)


def from_proto(tensor):
    """The array of a TensorProto; its shape and size are checked by the file's checks or here."""
    return numpy_helper.to_array(tensor)


def from_sparse(sparse):
    values, indices, shape = from_proto(sparse.values), from_proto(sparse.indices), [int(d) for d in sparse.dims]
    out = np.zeros(int(np.prod(shape)), values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    out[flat] = values
    return out.reshape(shape)


def type_proto(value):
    """ONNX's type of a value."""
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(type_proto(value[0]) if value else onnx.helper.make_tensor_type_proto(T.FLOAT, None))
    code = onnx.helper.np_dtype_to_tensor_dtype(value.dtype) if isinstance(value, np.ndarray) else code_of(value.dtype)
    return onnx.helper.make_tensor_type_proto(code, [None if d is None or d == OPEN else d for d in shape_of(value)])


def in_float32(function):
    """A function of floating tensors that computes in float32 for half types."""

    def computed(n, x, *rest):
        if x.dtype.name not in HALVES:
            return function(n, x, *rest)
        out = function(n, *(_core.astype(v, _core.float32) if v is not None and not isinstance(v, np.ndarray) and v.dtype.name in HALVES else v for v in (x, *rest)))
        return tuple(_core.astype(o, x.dtype) if o is not None and o.dtype.name == "float32" else o for o in out) if isinstance(out, tuple) else _core.astype(out, x.dtype)

    return computed
