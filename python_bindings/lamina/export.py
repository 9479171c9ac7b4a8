"""Traced programs as C99: a header and a source that need the C library and libm alone."""
from __future__ import annotations

import os
import re

from . import _border, _core, errors
from .module import Module


def export_c(what, folder, *inputs, name=None, weights="arrays", lengths=None) -> None:
    """Writes traced programs as C99: folder/NAME.h and folder/NAME.c, which take the place of the folder that was there at one instant.

    what: a lm.function, a Module with traced functions (of lm.load too), a model or layer (its forward pass), or a dict {name: one of these, or (one of
    these, *inputs)}: a C function each. They share the Variables that they have in common, so {"score": net, "step": train} runs and trains one model.
    inputs: example tensors. A lm.function with one graph that calls run now, or with an input_signature, needs none.
    name: of the files and of the C struct, and what public names begin with; the folder's name, if not given.
    weights: "arrays" in the source, or "file": in folder/NAME.safetensors, whose bytes NAME_init() takes. A file of the same model by
    lm.save_weights() does as well.
    lengths: {"n": 32} for dimensions that are open and have a name; C's memory has a fixed size.
    Raises InvalidArgument, with your line, for what C code cannot have: printed text, half types, lengths known only from data.
    """
    folder = errors.path_of("export_c", folder, "folder")
    if weights not in ("arrays", "file"):
        raise errors.InvalidArgument(f"export_c: weights={weights!r} is unknown", where="argument 'weights'", why="they are in the source or in a file beside it", fix='pass "arrays" or "file"')
    if name is None:
        name = re.sub(r"\W", "_", os.path.basename(os.path.normpath(folder)))
        name = "_" + name if name[:1].isdigit() else name
    functions, variables = _functions(what, inputs)
    _core._export_c(functions, folder, name, weights == "file", lengths or {}, variables)


def _functions(what, inputs) -> tuple[dict, dict]:
    """{name: ConcreteFunction} of what is exported, and {name: Variable} of the models in it."""
    functions, variables = {}, {}
    from ._program import functions_in

    own = functions_in(what) if isinstance(what, Module) and not inputs else {}
    if own:
        variables.update(what._named_variables("export_c"))
        what = own
    elif not isinstance(what, dict):
        what = {"run": (what, *inputs)}
    elif inputs:
        raise errors.InvalidArgument("export_c: inputs beside a dict", why="each of its functions has its own", fix='pass {"score": (score, x)}')
    for key, value in what.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise errors.InvalidArgument(f"export_c: {key!r} is no name", where="argument 'what'", why="a C function gets it", fix="use letters, digits and _")
        one, *own = value if isinstance(value, tuple) else (value,)
        functions[key] = _concrete(key, one, own)
        if hasattr(one, "_named_variables"):
            known = {hash(variable) for variable in variables.values()}  # a hash is the Variable's identity
            variables.update({n: v for n, v in one._named_variables("export_c").items() if hash(v) not in known})
    return functions, variables


def _concrete(key, one, inputs):
    from ._program import graphs_of, traced

    if isinstance(one, _core.ConcreteFunction):
        return one
    function = traced(one)
    if function is None:
        if not callable(one):
            raise errors.TypeMismatch(f"export_c: {errors.a_type(one)} cannot be exported", fix="pass a lm.function, a model, or a dict of them")
        if not inputs:
            raise errors.InvalidArgument(f"export_c: '{key}' has no example inputs", why="it is traced for their shapes", fix="pass a tensor for each argument")
        function = _core.function(lambda *x: one(*x), None, False, True, None)
    if inputs:
        return function.get_concrete_function(*inputs)
    current, older = graphs_of(function)
    graphs = current or older
    if not graphs:  # one without arguments needs no inputs
        return function.get_concrete_function()
    if len(graphs) > 1:
        raise errors.InvalidArgument(
            f"export_c: '{key}' has {len(graphs)} graphs", why="a C function is made of one graph", fix="pass example inputs, which say which one",
        )
    return graphs[0]


_border.guard(globals())
