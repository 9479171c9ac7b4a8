"""ONNX files: load() makes a network of one, save() writes a traced function as one.

Both need the package onnx, which is imported when they are called: pip install "lamina[onnx]".
"""
from __future__ import annotations

from .. import _border, _elsewhere, errors
from ._network import Network as Network

__all__ = ["Network", "load", "save"]


def _package() -> None:
    try:
        import onnx.checker  # noqa: F401
    except ImportError as error:
        raise errors.NotFound("lm.onnx: the package onnx is not installed", why=str(error), fix='pip install "lamina[onnx]"') from None


def load(path, external_data=None, max_trips: int = 100_000, memory_budget: int = 2 << 30) -> Network:
    """The network in an ONNX file, callable with tensors in the order of its inputs or by their names.

    It can be called in a traced function, under a tape and in vmap. Its floating-point initializers are Variables: fn.variables[name in the file].
    external_data: the folder whose files the network's tensors may lie in; without it such a network is refused.
    max_trips: how many rounds a Loop of the file may take. memory_budget: how many bytes one value of the graph may take.
    Raises BadFile for a damaged or hostile file, NotFound for an op that Lamina does not have, and InvalidArgument, when called, for a node that does not
    fit; each names the node.
    """
    _package()
    from ._file import read
    return Network(read(path, external_data, memory_budget), max_trips, memory_budget)


def save(fn, path, *args, **kwargs) -> None:
    """Writes what fn computes for arguments like these to an ONNX file: a function, a lm.Function, a model or layer, or a ConcreteFunction.

    The arguments are tensors, or TensorSpecs, whose open lengths are open in the file too. Variables become initializers with their names, the arguments
    inputs with theirs; the outputs are "output", or "output_0" ... of a tuple, or the keys of a dict. The file takes the place of the one before at one instant.
    Raises InvalidArgument, with the op and the user's line, for what ONNX cannot hold: assignments, random draws, prints, lengths that follow from data.
    """
    _package()
    from ._save import write
    write(path, fn, args, kwargs)


TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.onnx", __all__)
_border.guard(globals())
