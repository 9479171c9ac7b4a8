"""Values of the interpreter: dtypes, shapes, and ways between ONNX, NumPy and Lamina."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from .. import _core, errors
from .._core import Tensor, Variable
from ._open import counted, has_open

LENGTHS = 32  # how many axes a tensor may have

T = onnx.TensorProto
DTYPES = {T.BOOL: _core.bool, T.UINT8: _core.uint8, T.UINT16: _core.uint16, T.UINT32: _core.uint32, T.UINT64: _core.uint64, T.INT8: _core.int8, T.INT16: _core.int16, T.INT32: _core.int32, T.INT64: _core.int64,
          T.FLOAT16: _core.float16, T.BFLOAT16: _core.bfloat16, T.FLOAT: _core.float32, T.DOUBLE: _core.float64}
CODES = {d.name: code for code, d in DTYPES.items()}
FLOATS = ("float16", "bfloat16", "float32", "float64")
HALVES = ("float16", "bfloat16")


def dtype_named(name):
    """Lamina's dtype of this name."""
    if name not in CODES:
        raise errors.TypeMismatch(f"the ONNX graph: there are no tensors of dtype {name}", why=f"Lamina's are {', '.join(CODES)}", fix="convert that part of the model")
    return DTYPES[CODES[name]]


def dtype_from(code):
    """Lamina's dtype for ONNX's code."""
    return DTYPES[code] if code in DTYPES else dtype_named(T.DataType.Name(code).lower() if code in T.DataType.values() else str(code))


def dtype_of(value):
    """Lamina's dtype of a value."""
    return dtype_named(str(value.dtype)) if isinstance(value, np.ndarray) else value.dtype


def numpy_dtype(name):
    """NumPy's dtype for a name of Lamina's; ml_dtypes has bfloat16."""
    if name == "bfloat16":
        import ml_dtypes
        name = ml_dtypes.bfloat16
    return np.dtype(name)


def code_of(dtype):
    return CODES[dtype.name]


def pairs_of(array):
    """Complex numbers as pairs of real ones along a new last axis; other arrays as they are."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def shape_of(value):
    return tuple(value.shape)


def array_of(raw, dtype, dims):
    """The array of these bytes; None stands for zeros."""
    kind = numpy_dtype(dtype)
    return np.zeros(dims, kind) if raw is None else np.frombuffer(raw, kind).reshape(dims)


def known_array(value):
    """What a tensor holds, while no graph is traced; else None."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list) or not _core.executing_eagerly():
        return None
    value = value.read() if isinstance(value, Variable) else value
    if value.dtype.name == "bfloat16":
        return value.astype(_core.float32).numpy().astype(numpy_dtype("bfloat16"))
    return np.asarray(value.numpy())


def to_tensor(value):
    """A tensor or Variable as it is, a known array as a constant, sequences part by part."""
    if isinstance(value, list):
        return [to_tensor(v) for v in value]
    if value is None or isinstance(value, (Tensor, Variable)):
        return value.read() if isinstance(value, Variable) and not _core.executing_eagerly() else value
    if has_open(value):
        return counted(value)
    dtype = dtype_of(value)
    if dtype.name == "bfloat16":
        return _core.constant(np.ascontiguousarray(value.astype(np.float32)), dtype)
    return _core.constant(np.array(value, order="C", copy=True), dtype)


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


class InputType:
    """What the file says of an input: the kind of its value; of a tensor the code of its dtype, and lengths, None where they are open; `named`: their names there."""

    def __init__(self, proto):
        self.name, self.kind = proto.name, proto.type.WhichOneof("value")
        tensor = proto.type.tensor_type
        self.code, dims = tensor.elem_type, tensor.shape.dim if tensor.HasField("shape") else None
        self.dims = None if dims is None else [d.dim_value if d.HasField("dim_value") else None for d in dims]
        self.named = None if dims is None else [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
        self.shown = ", ".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims or ())

    def check(self, value):
        """Raises SignatureMismatch for a tensor of another dtype or shape."""
        wanted = dtype_from(self.code)
        if value.dtype != wanted:
            raise errors.SignatureMismatch(f"the network's input '{self.name}' is {wanted.name}, {value.dtype.name} was given", why="the file says so",
                                           fix=f"pass lm.astype(x, lm.{wanted.name})")
        if self.dims is None:
            return
        given = shape_of(value)
        if len(given) != len(self.dims) or any(d != g and d is not None and g is not None for d, g in zip(self.dims, given)):
            raise errors.SignatureMismatch(f"the network's input '{self.name}' has the shape [{self.shown}], {list(given)} was given", why="the file says so",
                                           fix="pass a tensor of that shape")

    def spec(self):
        """The input as a TensorSpec."""
        if self.kind != "tensor_type" or self.named is None:
            raise errors.InvalidArgument(f"the network's input '{self.name}' is no tensor whose rank the file says", why="a graph is traced for dtypes and ranks",
                                         fix="trace the network yourself: lm.function(net), called with inputs")
        return _core.TensorSpec(self.named, dtype_from(self.code), name=self.name)


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
    return onnx.helper.make_tensor_type_proto(code, list(shape_of(value)))


def in_float32(function):
    """A function of floating tensors that computes in float32 for half types."""

    def computed(n, x, *rest):
        if x.dtype.name not in HALVES:
            return function(n, x, *rest)
        out = function(n, *(_core.astype(v, _core.float32) if v is not None and not isinstance(v, np.ndarray) and v.dtype.name in HALVES else v for v in (x, *rest)))
        return tuple(_core.astype(o, x.dtype) if o is not None and o.dtype.name == "float32" else o for o in out) if isinstance(out, tuple) else _core.astype(out, x.dtype)

    return computed
