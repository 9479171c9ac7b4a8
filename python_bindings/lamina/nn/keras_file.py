"""Models in Keras 3's .keras files: a zip of metadata.json, config.json and model.weights.h5, which Keras opens, and whose files Lamina opens.

A file that is read may be hostile: no code in it runs, nothing that it names is imported, no other file is opened, and no more memory is taken than its parts say
they need, which is bounded by the file's size. What does not fit is listed in one error, and then nothing is loaded.
"""
from __future__ import annotations

import io
import json
import math
import os
import zipfile

from .. import _border, _core, _state, errors
from . import keras_table as table
from .keras_config import Writer, symbols, graph_of, is_functional, is_stock, keras_class, snake_case
from .keras_reading import Reader
from ..module import _children
from .layer import Layer, _loading
from .model import Model, Sequential

_WRITTEN_AS = "3.15.1"  # the version of Keras whose files these are
_MOST_JSON, _MOST_DEPTH, _MOST_PARTS, _MOST_OBJECTS = 16 << 20, 200, 64, 2**20
_MOST_EXPANSION = 100  # what a packed part may grow to, times the file's size


def save_file(net, path) -> None:
    """Writes a model with its weights to a .keras file, which Keras 3 opens; when it is compiled, also the optimizer with its state, the loss and the metrics.

    Classes of your own need get_config(), which by default gives the arguments that they were made with, and are loaded with `custom`. Raises InvalidArgument, which
    lists all that the file cannot hold, StateError before the weights exist, BadFile where it cannot be written. Needs h5py."""
    h5py, path = _h5py("save_file"), _path("save_file", path)
    if not isinstance(net, Layer):
        raise errors.TypeMismatch(f"save_file: {errors.a_type(net)} is no model", why="a .keras file holds a model and its weights", fix="use lm.save_tensors for tensors")
    net._require_built("save_file")
    writer = Writer()
    config = writer.layer(net)
    if isinstance(net, Model):
        config["compile_config"] = writer.compiled(net)
    places = list(_places(net))
    slots = _slots("save_file", net, places, writer.unfit) if getattr(net, "optimizer", None) is not None and not writer.unfit else None
    if writer.unfit:
        raise errors.InvalidArgument(f"save_file: {net.name} does not fit a .keras file", why="; ".join(writer.unfit),
                                     fix="use lm.save_weights for the weights alone, or change what is named")
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for place, name, variables in places:
            group = file.require_group(f"{place}/vars" if place else "vars")
            group.attrs["name"] = name
            for i, variable in enumerate(variables):
                _put(group, str(i), variable.read())
        if slots is not None:
            group = file.require_group("optimizer/vars")
            group.attrs["name"] = net.optimizer.name
            for i, value in enumerate(slots):
                _put(group, str(i), value)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, part in (("metadata.json", json.dumps({"keras_version": _WRITTEN_AS, "written_by": f"lamina {_core.__version__}"}).encode()),
                           ("config.json", json.dumps(config, allow_nan=False).encode()), ("model.weights.h5", content.getvalue())):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), part)
    _core._replace_file(path, packed.getvalue())


def load_file(path, custom: dict | None = None, compile: bool = True):
    """The model in a .keras file that Lamina or Keras 3 wrote, with its weights; compiled as it was, the optimizer's state included, unless compile is False.

    custom: {"Name": class or function} for the classes, losses, metrics, activations and initializers that the file names and Lamina does not have. A class is made
    by its from_config(). Nothing is imported, and no code is read from the file.
    Raises NotFound, which lists every class that neither Lamina nor custom has, BadFile, which lists what is damaged or does not fit. Needs h5py."""
    h5py, path = _h5py("load_file"), _path("load_file", path)
    custom = {} if custom is None else custom
    if not isinstance(custom, dict) or any(not isinstance(name, str) for name in custom):
        raise errors.TypeMismatch("load_file: custom is no dict of names", why="the file's classes are found in it by name", fix='pass custom={"Net": Net}')
    config, weights = _parts(path)
    stored = _stored(path, h5py, weights)
    reader, before = Reader(custom), _core.random.get_state()
    _loading.budget = _Budget(path, sum(value.nbytes for value in stored.values()))
    try:
        model = reader.layer(config)
        if model is not None and not (reader.unfit or reader.unknown):
            reader.build(model, config)
    finally:
        del _loading.budget
        _core.random.set_state(before)  # the first values that were drawn are not used
    arguments = None
    if compile and model is not None and isinstance(model, Model) and config.get("compile_config"):
        outputs = symbols(model._outputs) if is_functional(model) else [model._output] if isinstance(model, Sequential) and model._output is not None else []
        arguments = reader.compiled(config["compile_config"], len(outputs) or (1 if isinstance(model, Sequential) else None))
    if reader.unknown:
        raise errors.NotFound("load_file: the file names what Lamina does not have", where=f"file '{path}'", why="; ".join([*reader.unknown, *reader.unfit]),
                              fix='pass custom={"Name": class or function} for what is yours' + (", or compile=False" if any("compile()" in text for text in reader.unknown) else ""))
    if reader.unfit:
        raise _bad(path, "the file's config does not make a model", "; ".join(reader.unfit))
    places = list(_places(model))
    values, wrong = _matched(places, stored)
    if arguments is not None:
        model.compile(**arguments)
        if type(model.optimizer) in (row[0] for row in table.OPTIMIZERS.values()):
            values += _matched_slots(model, places, stored, wrong)
    wrong += [f"'{name}' belongs to no layer" for name in stored if not name.startswith("optimizer/") and "/seed_generator/" not in f"/{name}"]
    if wrong:
        raise _bad(path, "the weights do not fit the model", "; ".join(wrong[:20]) + (f" and {len(wrong) - 20} more" if len(wrong) > 20 else ""))
    for variable, value in values:
        variable.assign(_core.astype(value, variable.dtype))
    return model


# --- where weights lie ---


def _places(layer, path="", seen=None):
    """(path, name, Variables) of the layer and all inside, each once, by Keras's paths: layers by class and number, not by their names, which may be equal."""
    seen = set() if seen is None else seen
    if id(layer) in seen:
        return
    seen.add(id(layer))
    own = [child for child in _children(layer) if isinstance(child, _core.Variable)]
    own = [v for v in own if v.trainable] + [v for v in own if not v.trainable]
    inside = f"{path}/" if path else ""
    row = table.LAYERS.get(keras_class(layer)) if is_stock(layer) else None
    groups = row.inside if row else ("",)
    each = len(own) // len(groups)
    for i, group in enumerate(groups):
        yield inside + group if group else path, layer.name, own[i * each:(i + 1) * each]
    parts = {name: getattr(layer, name) for name in row.children} if row else {} if is_stock(layer) else {name: value for name, value in vars(layer).items() if name not in ("optimizer", "_graph_layers", "_stack")}
    ordered = isinstance(layer, Model) and (isinstance(layer, Sequential) or layer._inputs is not None)
    if isinstance(layer, Model):
        parts["layers"] = layer._stack if isinstance(layer, Sequential) else graph_of(layer)[0] if ordered else layer.layers
    for name in sorted(parts, key=lambda name: ("" if ordered and name == "layers" else f"~{name}" if name.startswith("_") else name)):
        part = parts[name]
        if isinstance(part, Layer):
            yield from _places(part, inside + name, seen)
        elif isinstance(part, (list, tuple, dict)):
            yield from _places_in(part, inside + name, seen, set())


def _places_in(container, path, seen, containers):
    if id(container) in containers:
        return
    containers.add(id(container))
    taken: dict = {}
    for part in list(container.values()) if isinstance(container, dict) else container:
        kind = (snake_case(keras_class(part)) if isinstance(part, Layer) else "container" if isinstance(part, (list, tuple, dict))
                else None if not hasattr(part, "spec") else "input_layer")
        if kind is None:
            continue
        taken[kind] = taken.get(kind, -1) + 1
        place = f"{path}/{kind}_{taken[kind]}" if taken[kind] else f"{path}/{kind}"
        if isinstance(part, Layer):
            yield from _places(part, place, seen)
        elif kind == "container":
            yield from _places_in(part, place, seen, containers)
        elif id(part) not in seen:
            seen.add(id(part))
            yield place, "input", []


def _matched(places, stored) -> tuple[list, list]:
    """[(Variable, value)], and what is wrong; what has its place is taken out of `stored`."""
    values, wrong = [], []
    for place, name, variables in places:
        for i, variable in enumerate(variables):
            key = f"{place}/vars/{i}" if place else f"vars/{i}"
            if key not in stored:
                wrong.append(f"'{name}': its weight {i} is missing ('{key}')")
            else:
                values += _fitting(f"weight {i} of '{name}'", variable, stored.pop(key), wrong)
    return values, wrong


def _fitting(what, variable, value, wrong) -> list:
    if tuple(value.shape) != tuple(variable.shape):
        wrong.append(f"{what} has shape {tuple(value.shape)}, the layer's is {tuple(variable.shape)}")
    elif (value.dtype.kind in "fV") != (variable.dtype.name.startswith(("float", "bfloat"))):
        wrong.append(f"{what} is {value.dtype}, the layer's is {variable.dtype.name}")
    else:
        return [(variable, _tensor(value))]
    return []


def _in_order(model, places) -> list:
    """The trainable Variables in the file's order, which is that of Keras's model.trainable_variables."""
    trainable = {hash(variable) for variable in model.trainable_variables}  # by identity: the wrappers of one Variable may be several
    return [v for _, _, variables in places for v in variables if hash(v) in trainable]


def _ordered_slots(optimizer, variables) -> list:
    slots, kind = _state.slots_of(optimizer), next(row for row in table.OPTIMIZERS.values() if row[0] is type(optimizer))
    return [slots[hash(v)][name] for group in kind[2] for v in variables for name in group if name in slots[hash(v)]]


def _slots(call, model, places, unfit) -> list:
    """What Keras keeps of an optimizer: steps, learning rate, slots."""
    optimizer = model.optimizer
    steps = optimizer.iterations.read() if optimizer._counts else _core.constant(0, dtype="int64")
    head = [steps, optimizer.learning_rate.read()]
    variables, trained = _in_order(model, places), {hash(v) for v in optimizer._trained_variables}
    if not trained:
        return head
    if trained != {hash(v) for v in variables}:
        unfit.append(f"the optimizer has the state of {len(trained)} Variables, and {len(variables)} are trainable: the file holds one state for each")
        return head
    return head + [slot.read() for slot in _ordered_slots(optimizer, variables)]


def _matched_slots(model, places, stored, wrong) -> list:
    optimizer, values = model.optimizer, []
    found = {name.rpartition("/")[2]: value for name, value in stored.items() if name.startswith("optimizer/vars/")}
    if not found:
        return []
    variables = _in_order(model, places)
    wanted = [optimizer.iterations if optimizer._counts else None, optimizer.learning_rate]
    if len(found) > 2:
        optimizer.build(variables)
        wanted += _ordered_slots(optimizer, variables)
    if set(found) != {str(i) for i in range(len(wanted))}:
        wrong.append(f"the optimizer's state has {len(found)} parts, {optimizer.name} has {len(wanted)}")
        return []
    for i, variable in enumerate(wanted):
        if variable is not None:
            values += _fitting(f"part {i} of the optimizer's state", variable, found[str(i)], wrong)
    return values


def _put(group, key, value):
    """A tensor as a dataset. NumPy has no bfloat16; Keras writes its bits as two bytes, and says so."""
    if value.dtype == _core.bfloat16:
        bits = _core.astype(value, "float32").numpy().view("<u4") >> 16
        group.create_dataset(key, data=bits.astype("<u2").view("V2")).attrs["dtype"] = "bfloat16"
    else:
        group.create_dataset(key, data=value.numpy())


def _tensor(array):
    if array.dtype.kind == "V":
        return _core.astype(_core.constant((array.view("<u2").astype("<u4") << 16).view("<f4")), "bfloat16")
    return _core.constant(array)


class _Budget:
    """Weights that are made while a file is loaded take no more memory than those in the file, give or take a factor that leaves room for clear errors."""

    def __init__(self, path, stored_bytes):
        self.path, self.left = path, 8 * stored_bytes + (1 << 20)

    def take_for(self, layer, shape):
        kind = keras_class(layer)
        row = table.LAYERS.get(kind)
        if row is None or row.sizes is None or type(layer) is not row.cls:
            return
        try:
            sizes = row.sizes(layer.get_config(), shape)
        except (TypeError, IndexError, ZeroDivisionError):
            return  # build() says what is wrong
        self.take(layer, sizes)

    def take(self, layer, shapes):
        for shape in shapes:
            shape = [shape] if isinstance(shape, int) else shape
            if all(isinstance(d, int) for d in shape):
                self.left -= 8 * math.prod(shape)
        if self.left < 0:
            raise _bad(self.path, f"the layer '{layer.name}' would have more weights than the file", f"its config asks for shapes {', '.join(str(tuple(s)) for s in shapes)}")


# --- the file's parts ---


def _parts(path):
    """(the config, the bytes of the weights)"""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                names = [entry.filename for entry in entries]
                if len(entries) > _MOST_PARTS or len(set(names)) != len(names):
                    raise _bad(path, "the archive has too many parts, or two of one name", f"it has {len(entries)}")
                for entry in entries:
                    _check_part(path, entry, size)
                for name in ("config.json", "model.weights.h5"):
                    if name not in names:
                        raise _bad(path, f"the archive has no {name}", f"it has {', '.join(map(repr, names[:5])) or 'nothing'}")
                return _json(path, archive.read("config.json")), archive.read("model.weights.h5")
    except OSError as problem:
        raise _bad(path, f"the file cannot be read: {problem.strerror or problem}", "") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, LookupError) as problem:
        if isinstance(problem, errors.Error):
            raise
        raise _bad(path, "this is no .keras file, or a damaged one", str(problem)) from None
    except zipfile.zlib.error as problem:
        raise _bad(path, "a packed part is damaged", str(problem)) from None


def _check_part(path, entry, size):
    name = entry.filename
    if name not in ("metadata.json", "config.json", "model.weights.h5"):
        if name.startswith("assets/") and name.endswith("/") and ".." not in name.split("/"):
            return  # a folder with nothing in it
        raise _bad(path, f"the archive has a part {name[:80]!r}", "a .keras file has metadata.json, config.json and model.weights.h5")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
        raise _bad(path, f"{name} is packed in a way that is not read", "stored and deflated parts are")
    if entry.file_size > (_MOST_EXPANSION * size if name.endswith(".h5") else _MOST_JSON):
        raise _bad(path, f"{name} says that it has {entry.file_size} bytes", f"the file has {size}: that is too much for it")


def _json(path, content):
    def pairs(items):
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a name occurs twice in one object")
        return found

    def number(text):
        raise ValueError(f"{text} is no number of JSON")

    try:
        config = json.loads(content.decode("utf-8"), object_pairs_hook=pairs, parse_constant=number)
        depth, level = 0, [config]
        while level := [part for value in level if isinstance(value, (list, dict)) for part in (value.values() if isinstance(value, dict) else value)]:
            depth += 1
            if depth > _MOST_DEPTH:
                raise RecursionError
    except RecursionError:
        raise _bad(path, f"config.json is nested more than {_MOST_DEPTH} levels deep", "what is read by recursion has a bound") from None
    except ValueError as problem:
        raise _bad(path, "config.json is no JSON", str(problem)) from None
    if not isinstance(config, dict):
        raise _bad(path, "config.json is no object", f"it is {errors.a_type(config)}")
    return config


def _stored(path, h5py, content) -> dict:
    """{path: array} of every dataset. Only plain ones, whose bytes lie in the file, are read."""
    found, seen = {}, set()
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            waiting = [(file, "")]
            while waiting:
                group, place = waiting.pop()
                address = h5py.h5o.get_info(group.id).addr
                if address in seen:
                    raise _bad(path, f"the group '{place[:80]}' is in the weights twice", "a tree has each once")
                seen.add(address)
                for name in group:
                    inner = f"{place}/{name}" if place else name
                    if len(seen) + len(found) + len(waiting) > _MOST_OBJECTS or len(inner) > 4096:
                        raise _bad(path, "the weights have too many objects or too long names", f"at most {_MOST_OBJECTS} are read")
                    if type(group.get(name, getlink=True)) is not h5py.HardLink:
                        raise _bad(path, f"'{inner[:80]}' is a link", "links are not followed")
                    kind = group.get(name, getclass=True)
                    if kind is h5py.Group:
                        waiting.append((group[name], inner))
                    elif kind is h5py.Dataset:
                        found[inner] = _dataset(path, h5py, group[name], inner, len(content))
                    else:
                        raise _bad(path, f"'{inner[:80]}' is no group and no dataset", "the weights have nothing else")
    except errors.Error:
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, OverflowError, MemoryError) as problem:
        raise _bad(path, "model.weights.h5 is no HDF5 file, or a damaged one", str(problem).splitlines()[0] if str(problem) else type(problem).__name__) from None
    return found


def _dataset(path, h5py, data, name, most):
    plist = data.id.get_create_plist()
    if data.is_virtual or data.external or plist.get_layout() not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT) or plist.get_nfilters():
        raise _bad(path, f"the dataset '{name[:80]}' is virtual, external, packed or in pieces", "Keras writes weights as they are, in one piece")
    bits = data.dtype.kind == "V" and data.dtype.itemsize == 2 and data.dtype.names is None and data.dtype.subdtype is None
    if not (data.dtype.kind in "fiub" and data.dtype.itemsize <= 8) and not bits:
        raise _bad(path, f"the dataset '{name[:80]}' is of {data.dtype}", "weights are numbers")
    size = math.prod(data.shape) * data.dtype.itemsize if data.shape is not None else -1
    if size < 0 or size > most or data.id.get_storage_size() != size:
        raise _bad(path, f"the dataset '{name[:80]}' says that it has {size} bytes", f"{data.id.get_storage_size()} are in the file")
    import numpy as np
    return np.asarray(data[()])


def _bad(path, what, why):
    return errors.BadFile(f"load_file: {what}", where=f"file '{path}'", why=why or "it was opened as a .keras file", fix="pass a .keras file that lm.nn.save_file or Keras 3 wrote")


def _path(call, path) -> str:
    path = errors.path_of(call, path)
    if not path.endswith(".keras"):
        raise errors.InvalidArgument(f"{call}: the path {errors.shown(path)} does not end in .keras", why="Keras opens no other", fix='call it "net.keras"')
    return path


def _h5py(call):
    try:
        import h5py
    except ImportError:
        raise errors.StateError(f"{call}: the package h5py is not installed", why="the weights in a .keras file are in HDF5",
                                fix="pip install h5py, or pip install lamina[keras]; lm.save_weights needs nothing") from None
    return h5py


_border.guard(globals())
