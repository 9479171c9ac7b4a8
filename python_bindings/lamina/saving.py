"""Programs, weights and tensors in files. Tensors are in the safetensors format, which other programs read and write too.

A file or folder takes the place of the one before at one instant: when the process or the machine ends while it is written, the old one is there. What is
read may be hostile: nothing in it runs.
"""
from __future__ import annotations

import os

from . import _border, _core, _state, errors

# Endings of files that are no saved programs: what writes and what reads such a file, where Lamina does.
_FILES = {".keras": ("lm.nn.save_file(net, path)", "lm.nn.load_file(path)"), ".onnx": ("lm.onnx.save(net, path, x)", "lm.onnx.load(path)"),
          ".safetensors": ("lm.save_weights(net, path)", "lm.load_weights(model, path)"),
          **dict.fromkeys((".h5", ".hdf5", ".pt", ".pth", ".pb", ".tflite", ".pkl", ".pickle", ".npy", ".npz"), ("", ""))}


def save(what, path, signatures: dict | None = None) -> None:
    """Writes a program to a folder: the graphs of traced functions, and the Variables and values that they use. lm.load, C++ and lamina-run need no source
    code for it.

    what: a Module (its traced methods, __call__ as "call", and those of the modules inside), a model or layer (its call as "call"; when it was fitted, one step of training as
    "train_step"), a lm.function, or a dict of these by name. A function is saved with the graphs that calls run now; one with an
    input_signature is traced when it has none. One with a private name (_f) is a part of the functions that call it, and not saved by itself.
    signatures: {name: function} under which other programs find the functions; without it a single function is "serving_default", several have their own
    names.
    What an attribute holds is saved when it is a Variable, a tensor or array, a number, text, None, a module, a function, or a list, tuple, dict or dataclass of these;
    access to anything else raises StateError in the loaded program, with what it was.
    Raises StateError when there is no graph to save, InvalidArgument for modules more than 200 levels deep and for a name that ends as other files do (.keras,
    .onnx, .pt), BadFile where the folder cannot be written, TypeMismatch for what is no such thing.
    """
    path = errors.path_of("save", path)
    if isinstance(what, dict) and what and all(isinstance(one, (_core.Tensor, _core.Variable)) or hasattr(one, "__array__") for one in what.values()):
        raise errors.TypeMismatch("save: a dict of tensors is no program", why="a program has traced functions", fix="write lm.save_tensors(path, tensors), or lm.save_weights(net, path) for the weights of a model")
    ending = os.path.splitext(path)[1].lower()
    if ending in _FILES:
        writer, _ = _FILES[ending]
        raise errors.InvalidArgument(f"save: '{path}' is the name of a file of another kind", why="a saved program is a folder, which no other program takes for such a file",
                                     fix=(f"write {writer} for such a file, or " if writer else "") + f"name the folder '{path[:-len(ending)]}'")
    saver = _program().Saver()
    saver.write(*saver.root(what, signatures), path)


def load(path, custom: dict | None = None):
    """What lm.save wrote: a Module with the attributes, live Variables and functions that were saved, or a function. Nothing is traced again and no source
    code is needed; `.signatures` has the functions by the names of their signatures.

    custom: {name: class} of modules, named tuples and dataclasses that are to be of their own class again: their methods are then traced from its source.
    Raises BadFile, with the place, for a folder that is damaged or something else.
    """
    custom = custom or {}
    if not all(isinstance(name, str) and isinstance(cls, type) for name, cls in custom.items()):
        raise errors.TypeMismatch("load: custom is no dict of classes by name", why="only what the caller passes is used", fix='pass custom={"Policy": Policy}')
    path = errors.path_of("load", path)
    for _ in range(100):
        found = _identity(path)
        try:
            return _loaded(path, custom)
        except errors.BadFile:
            if found == _identity(path):
                raise  # else another program took its place while it was read
    raise errors.BadFile("load: the saved program is replaced again and again", where=f"file '{path}'", why="each time another program took its place while it was read", fix="load it when it stays")


def _loaded(path, custom):
    if os.path.isfile(path):
        _, reader = _FILES.get(os.path.splitext(path)[1].lower(), ("", ""))
        raise errors.BadFile("load: it is a file", where=f"file '{path}'", why="a saved program is a folder", fix=f"read it by {reader}" if reader else "pass the folder that lm.save wrote")
    if os.path.isdir(path) and not {"program.json", "checksums.json"} & set(os.listdir(path)):
        raise errors.BadFile("load: it holds no saved program", where=f"file '{path}'", why="there is no program.json in it", fix="pass the folder that lm.save wrote")
    return _program().Loader(path, custom).load()


def _identity(folder):
    """What changes when lm.save replaces a folder; None where there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _program():
    from . import _program

    return _program


def save_tensors(path, tensors: dict, metadata: dict | None = None) -> None:
    """Writes {name: Tensor, Variable or array} to a safetensors file, with texts beside them. Raises BadFile where it cannot be written, InvalidArgument for
    a name that the format cannot hold."""
    _core._save_tensors(errors.path_of("save_tensors", path), _texts("tensors", tensors), {k: str(v) for k, v in _texts("metadata", metadata or {}).items()})


def load_tensors(path) -> dict:
    """{name: Tensor} of a safetensors file, on the current device. Raises BadFile, with the byte, for a file that is damaged or something else."""
    return _core._load_tensors(errors.path_of("load_tensors", path))


def load_metadata(path) -> dict:
    """The texts in a safetensors file, as save_tensors(metadata=...) wrote them."""
    return _core._load_metadata(errors.path_of("load_metadata", path))


def save_weights(model, path) -> None:
    """Writes every Variable of a model, layer or optimizer, or of a dict {name: Variable}, to a safetensors file. Names are as in state_dict():
    "hidden.0.kernel"; an optimizer's have a number: "2.momentum". Dtypes stay, bfloat16 too. Raises StateError before the weights exist."""
    variables = _variables("save_weights", model)
    _core._save_tensors(errors.path_of("save_weights", path), {name: variable.read() for name, variable in variables.items()}, {"format": "lamina"})


def load_weights(model, path, names=None, strict: bool = True) -> None:
    """Assigns what save_weights() wrote, or another program, to the Variables of a model, layer or optimizer, or of a dict {name: Variable}.

    names: how the file calls them: a dict {name in the model: name in the file, or (name, function)}, where function(tensor) gives the weight, as
    lm.transpose does for PyTorch's Linear; or a function from the model's name to either. Names that the dict lacks are the same in both.
    strict: every Variable is in the file, and the file has nothing else; False: what both have is assigned.
    Nothing is changed when something does not fit: the error lists all that does not. Raises NotFound for names, InvalidArgument for shapes, TypeMismatch
    for dtypes, BadFile for a damaged file.
    """
    variables = _variables("load_weights", model)
    stored = load_tensors(errors.path_of("load_weights", path))
    state, taken = {}, set()  # by the model's names; the file's names
    for name in variables:
        source = names(name) if callable(names) else (names or {}).get(name, name)
        source, change = source if isinstance(source, tuple) else (source, None)
        if source in stored:
            state[name] = stored[source] if change is None else change(stored[source])
            taken.add(source)
    _state.write("load_weights", _described(model), variables, state, list(stored), [name for name in stored if name not in taken], strict, "the file")


def _variables(call, model) -> dict:
    if isinstance(model, dict):
        wrong = next((v for v in model.values() if not isinstance(v, _core.Variable)), None)
        if wrong is not None:
            raise errors.TypeMismatch(f"{call}: {errors.a_type(wrong)} in the dict is no Variable", why="weights are assigned in place", fix="use lm.save_tensors and lm.load_tensors for tensors")
        return _texts("the dict", model)
    if hasattr(model, "_named_variables"):
        return model._named_variables(call)
    if isinstance(model, _core.optim.Optimizer):
        return {f"{i}.{variable.name.rpartition('/')[2]}": variable for i, variable in enumerate(model.variables)}  # whatever the model's layers are called
    raise errors.TypeMismatch(f"{call}: {errors.a_type(model)} has no weights", fix="pass a model, a layer, an optimizer, or a dict of Variables")


def _described(model) -> str:
    return "the dict" if isinstance(model, dict) else getattr(model, "name", None) or type(model).__name__


def _texts(what, named) -> dict:
    if not isinstance(named, dict) or any(not isinstance(name, str) for name in named):
        raise errors.TypeMismatch(f"{what} is no dict of names", why="the file holds tensors by name", fix='pass {"name": value}')
    return named


_border.guard(globals())
