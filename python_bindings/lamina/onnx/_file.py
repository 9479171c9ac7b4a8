"""Reading an ONNX file: sizes, external data and the checks before anything is interpreted."""
from __future__ import annotations

import math
import os
import stat

import onnx

from .. import errors
from . import _tensors

FILE_BYTES = (2 << 30) - 1  # protobuf's own limit
NODES = 1_000_000
DEPTH = 64  # of functions and subgraphs in each other


def bad(what, why, fix="take the file from where it was made again"):
    return errors.BadFile(what, why=why, fix=fix)


def read(path, external_data, memory_budget):
    """The checked model of a file."""
    path = errors.path_of("lm.onnx.load", path)
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise bad(f"{path} is not a file", "an ONNX model is one file")
            if os.fstat(file.fileno()).st_size > FILE_BYTES:
                raise bad(f"{path} is larger than 2 GiB", "an ONNX model is not", "keep its tensors as external data")
            raw = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise bad(f"{path} cannot be read", error.strerror or str(error), "check the path") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except Exception as error:
        raise bad(f"{path} is no ONNX model", str(error).splitlines()[0] if str(error) else "it is damaged or cut short") from None
    if not raw or not model.HasField("graph"):
        raise bad(f"{path} is no ONNX model", "it has no graph")
    nodes = 0
    for graph_or_function in everything(model):
        nodes += len(graph_or_function.node)
        if nodes > NODES:
            raise bad(f"{path} has more than {NODES:,} nodes", "no model needs that")
        for tensor in tensors(graph_or_function):
            check(path, tensor, external_data, memory_budget)
        for sparse in getattr(graph_or_function, "sparse_initializer", ()):
            check_sparse(path, sparse, memory_budget)
        for node in graph_or_function.node:
            for a in node.attribute:
                for sparse in ([a.sparse_tensor] if a.HasField("sparse_tensor") else list(a.sparse_tensors)):
                    check_sparse(path, sparse, memory_budget)
    names = [t.name for t in model.graph.initializer]
    if len(set(names)) != len(names):
        raise bad(f"{path}: two initializers have one name", "a name stands for one value")
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        lines = str(error).splitlines() or ["it does not say"]
        raise bad(f"{path} is not a valid ONNX model", f"onnx.checker: {lines[0]}") from None
    return model


def subgraphs(node):
    """The graphs in a node's attributes."""
    for a in node.attribute:
        yield from [a.g] if a.HasField("g") else a.graphs


def everything(model):
    """The graph, its subgraphs and the functions, without recursion."""
    waiting = [(model.graph, 0), *((f, 0) for f in model.functions)]
    while waiting:
        one, depth = waiting.pop()
        yield one
        for node in one.node:
            for g in subgraphs(node):
                if depth > DEPTH:
                    raise bad(f"the ONNX graph has subgraphs more than {DEPTH} deep", "no model needs that")
                waiting.append((g, depth + 1))


def tensors(one):
    yield from getattr(one, "initializer", ())
    for node in one.node:
        for a in node.attribute:
            if a.HasField("t"):
                yield a.t
            yield from a.tensors


def length(path, name, dims):
    if any(d < 0 for d in dims) or len(dims) > _tensors.LENGTHS:
        raise bad(f"{path}: the tensor '{name}' has the shape {list(dims)[:8]}", f"lengths are not negative, and there are at most {_tensors.LENGTHS}")
    return math.prod(dims)


def check_sparse(path, sparse, memory_budget):
    if length(path, sparse.values.name, sparse.dims) * 8 > memory_budget:
        raise errors.OutOfMemory(f"{path}: the sparse tensor '{sparse.values.name}' takes more than {memory_budget:,} bytes", why=f"its shape is {list(sparse.dims)}",
                                 fix="load it with a larger memory_budget=")
    check(path, sparse.values, None, memory_budget)
    check(path, sparse.indices, None, memory_budget)


def check(path, tensor, external_data, memory_budget):
    """A tensor's bytes are as many as its shape and dtype say; bytes elsewhere are read where that was asked for."""
    size = length(path, tensor.name, tensor.dims)
    if tensor.data_type == onnx.TensorProto.STRING:
        raise bad(f"{path}: the tensor '{tensor.name}' holds texts", "there are no tensors of texts", "convert that part of the model")
    try:
        item = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except Exception:
        raise bad(f"{path}: the tensor '{tensor.name}' has the unknown dtype {tensor.data_type}", "ONNX has none of that number") from None
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor.raw_data = external(path, tensor, external_data, size * item)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    elif size > 0 and not tensor.HasField("raw_data"):
        stored = max(len(tensor.float_data), len(tensor.int32_data), len(tensor.int64_data), len(tensor.double_data), len(tensor.uint64_data))
        if stored > size * 2 or stored < size and item > 1 or stored * 8 < size:
            raise bad(f"{path}: the tensor '{tensor.name}' has {stored:,} elements, its shape {list(tensor.dims)[:8]} has {size:,}", "both must be the same")
    elif tensor.HasField("raw_data") and item * size != len(tensor.raw_data) and tensor.data_type in _tensors.DTYPES:
        raise bad(f"{path}: the tensor '{tensor.name}' has {len(tensor.raw_data):,} bytes, its shape {list(tensor.dims)[:8]} takes {item * size:,}",
                  "both must be the same")


def external(path, tensor, folder, size):
    """The bytes of a tensor that lie in another file."""
    if folder is None:
        raise bad(f"{path}: the tensor '{tensor.name}' lies in another file", "a model's file may name any file of this machine",
                  "pass external_data=, the folder whose files it may read")
    entries = {e.key: e.value for e in tensor.external_data}
    unknown = set(entries) - {"location", "offset", "length", "checksum"}
    try:
        offset, count = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError:
        offset = count = -1
    location = entries.get("location", "")
    parts = location.split("/")
    if unknown or offset < 0 or count != size:
        raise bad(f"{path}: the tensor '{tensor.name}' has external data that does not fit", f"its shape takes {size:,} bytes, its entries are {sorted(entries.items())}")
    if not location or os.path.isabs(location) or "\\" in location or "\0" in location or any(p in ("", ".", "..") for p in parts):
        raise bad(f"{path}: the tensor '{tensor.name}' lies in '{location}'", "only a plain path inside of the folder is read")
    descriptors = []
    try:  # part by part, each without following a link, so that nothing can be put in between
        descriptors.append(os.open(os.path.realpath(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in parts[:-1]:
            descriptors.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptors[-1]))
        descriptors.append(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptors[-1]))
        about = os.fstat(descriptors[-1])
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise bad(f"{path}: '{location}' is not a plain file", "links and devices are not read")
        if offset + count > about.st_size:
            raise bad(f"{path}: the tensor '{tensor.name}' ends behind the end of '{location}'", f"it is {about.st_size:,} bytes long")
        out = bytearray()
        while len(out) < count:
            block = os.pread(descriptors[-1], min(count - len(out), 1 << 26), offset + len(out))
            if not block:
                raise bad(f"{path}: '{location}' was cut while it was read", "it changed")
            out += block
        return bytes(out)
    except OSError as error:
        raise bad(f"{path}: '{location}' of the tensor '{tensor.name}' cannot be read", f"{error.strerror}; links are not followed") from None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
