"""What lm.save and lm.load do: Python objects as a program with a description of them, and back.

The compiled part (graph/program/module.h) keeps Variables and graphs by name. Beside it lies a JSON text, written here: how the arguments and results of
each graph are nested, and which object held what. Only plain data is read from it; a class is used when the caller of lm.load has passed it.
"""
from __future__ import annotations

import collections
import json
import keyword
import math

from . import _border, _core, errors
from ._structure import enter
from .module import Module, open_specs

# --- trees: how values are nested. ["tensor"], ["variable"], ["value", x], ["list" or "tuple", parts], ["dict", [[key, part], ...]],
# ["named", class name, [[field, part], ...]], and of objects ["variable", name], ["stored", name], ["function", name], ["object", number], ["lost", what] ---


def _plain(value):
    """A constant as JSON keeps it exactly: a float that is no number as text."""
    return ["float", repr(value)] if isinstance(value, float) and not math.isfinite(value) else ["value", value]


def _encoded(tree):
    kind, *rest = tree
    if kind == "value":
        return _plain(rest[0])
    if kind in ("list", "tuple"):
        return [kind, [_encoded(part) for part in rest[0]]]
    if kind == "dict":
        return [kind, [[_plain(key) if isinstance(key, (str, int, float, bool, type(None))) else ["lost", errors.a_type(key)], _encoded(part)] for key, part in rest[0]]]
    if kind == "named":
        return [kind, rest[0], [[field, _encoded(part)] for field, part in rest[1]]]
    return list(tree)


def _constant(tree):
    return float(tree[1]) if tree[0] == "float" else tree[1]


def _lost_in(tree):
    """What in a tree cannot be saved, or None."""
    kind, *rest = tree
    if kind in ("object", "lost"):
        return rest[0]
    if kind in ("list", "tuple"):
        return next(filter(None, map(_lost_in, rest[0])), None)
    if kind == "dict":
        return next(filter(None, (_lost_in(part) for pair in rest[0] for part in pair)), None)
    if kind == "named":
        return next(filter(None, (_lost_in(part) for _, part in rest[1])), None)
    return None


def _names(tree, path):
    """The path to each tensor: "x", "options['depth'][0]"."""
    kind, *rest = tree
    if kind == "tensor":
        yield path
    elif kind in ("list", "tuple"):
        for i, part in enumerate(rest[0]):
            yield from _names(part, f"{path}[{i}]")
    elif kind == "dict":
        for key, part in rest[0]:
            yield from _names(part, f"{path}[{_constant(key)!r}]")
    elif kind == "named":
        for field, part in rest[1]:
            yield from _names(part, f"{path}.{field}")


def _result_names(tree):
    """As programs without Python see them: the keys of a dict, else "output" and what leads to each."""
    if tree[0] == "dict" and all(key[0] == "value" and isinstance(key[1], str) for key, _ in tree[1]):
        return [name for key, part in tree[1] for name in _names(part, key[1])]
    return list(_names(tree, "output"))


def _tuple_class(name, fields):
    """A class for results of a named tuple or dataclass whose own class is not known here."""
    good = [field for field in (name, *fields) if isinstance(field, str) and field.isidentifier() and not keyword.iskeyword(field) and not field.startswith("_")]
    return collections.namedtuple(name, fields) if len(good) == len(fields) + 1 and len(set(fields)) == len(fields) else None


def _built(tree, leaf, custom):
    """The value of a tree, with leaf(node) for each part that is no container and no constant."""
    kind, *rest = tree
    if kind in ("value", "float"):
        return _constant(tree)
    if kind in ("list", "tuple"):
        parts = [_built(part, leaf, custom) for part in rest[0]]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {_constant(key): _built(part, leaf, custom) for key, part in rest[0]}
    if kind == "named":
        values = {field: _built(part, leaf, custom) for field, part in rest[1]}
        made = custom.get(rest[0]) or _tuple_class(rest[0], tuple(values))
        return values if made is None else made(**values)
    return leaf(tree)


class _Different(Exception):
    """The arguments of a call are not those of a graph."""


def _taken(tree, value, tensors, variables, path):
    """Appends the tensors and Variables of an argument; _Different when it is nested in another way or a constant is another."""
    kind, *rest = tree
    if kind == "tensor":
        return tensors.append(value)
    if kind == "variable":
        if not isinstance(value, _core.Variable):
            raise _Different(f"{path} is {errors.a_type(value)}, it was saved for a Variable")
        return variables.append(value)
    if kind in ("value", "float"):
        constant = _constant(tree)
        if type(value) is not type(constant) or (value != constant and not (value != value and constant != constant)):
            raise _Different(f"{path} is {errors.shown(value)}, it was saved for {errors.shown(constant)}")
        return None
    if kind == "named":
        fields = [field for field, _ in rest[1]]
        if type(value).__name__ != rest[0] or not all(hasattr(value, field) for field in fields):
            raise _Different(f"{path} is {errors.a_type(value)}, it was saved for a {rest[0]} of {', '.join(fields)}")
        parts = [(part, getattr(value, field), f"{path}.{field}") for field, part in rest[1]]
    elif kind == "dict":
        keys = [_constant(key) for key, _ in rest[0]]
        if not isinstance(value, dict) or set(value) != set(keys):
            raise _Different(f"{path} is {errors.a_type(value)}, it was saved for a dict of {', '.join(map(repr, keys)) or 'nothing'}")
        parts = [(part, value[key], f"{path}[{key!r}]") for key, (_, part) in zip(keys, rest[0])]
    else:
        if type(value) is not (list if kind == "list" else tuple) or len(value) != len(rest[0]):
            raise _Different(f"{path} is {errors.a_type(value)}, it was saved for a {kind} of {len(rest[0])}")
        parts = [(part, one, f"{path}[{i}]") for i, (part, one) in enumerate(zip(rest[0], value))]
    for part, one, inside in parts:
        _taken(part, one, tensors, variables, inside)
    return None


class _Graph:
    """A graph of a saved function, and how its arguments and its result are nested."""

    def __init__(self, concrete, arguments, result, training):
        self.concrete, self.arguments, self.result, self.training = concrete, arguments, result, training
        self.plain = [name for name, by_name, _, tree in arguments if tree[0] == "tensor" and not by_name]
        self.plain = self.plain if len(self.plain) == len(arguments) else None  # all are tensors that may be passed by position
        self.specs = concrete.inputs

    def inputs(self, args, kwargs):
        """(tensors, Variables) of a call."""
        positional, given = [a for a in self.arguments if not a[1]], dict(kwargs)
        if len(args) > len(positional):
            raise _Different(f"{len(args)} arguments are given, it was saved for {len(positional)}")
        for (name, *_), value in zip(positional, args):
            if name in given:
                raise _Different(f"{name} is given twice")
            given[name] = value
        tensors, variables = [], []
        for name, _, is_default, tree in self.arguments:
            if name in given:
                _taken(tree, given.pop(name), tensors, variables, name)
            elif not is_default or tree[0] not in ("value", "float"):
                raise _Different(f"{name} is missing")
        if given:
            raise _Different(f"there is no argument {next(iter(given))}")
        return [self._tensor(value, spec) for value, spec in zip(tensors, self.specs)], variables

    @staticmethod
    def _tensor(value, spec):
        if isinstance(value, _core.Tensor):
            return value
        if isinstance(value, _core.Variable):
            return value.read()
        if hasattr(value, "dtype"):
            return _core.constant(value)
        return _core.constant(value, dtype=spec.dtype)

    def in_words(self):
        shown = iter(self.specs)

        def words(tree):
            kind, *rest = tree
            if kind == "tensor":
                spec = next(shown)
                return f"{spec.dtype}{spec.shape}"
            if kind in ("value", "float"):
                return errors.shown(_constant(tree))
            if kind == "variable":
                return "a Variable"
            if kind in ("list", "tuple"):
                return ("[%s]" if kind == "list" else "(%s)") % ", ".join(map(words, rest[0]))
            if kind == "dict":
                return "{%s}" % ", ".join(f"{_constant(key)!r}: {words(part)}" for key, part in rest[0])
            return f"{rest[0]}({', '.join(f'{field}={words(part)}' for field, part in rest[1])})"

        return ", ".join(f"{name}: {words(tree)}" for name, _, _, tree in self.arguments)


class SavedFunction:
    """A function of a saved program: its graphs, without the source code. It is called as the function was; what no graph takes raises
    SignatureMismatch."""

    def __init__(self, name, graphs, custom=None):
        self.__name__, self._saved_graphs, self._custom = name, graphs, custom or {}

    def __call__(self, *args, **kwargs):
        graph = self._saved_graphs[0]
        if len(self._saved_graphs) == 1 and not kwargs and graph.plain is not None and len(args) == len(graph.plain) and all(type(a) is _core.Tensor for a in args):
            return self._run(graph, args, ())
        graph, tensors, variables = self._chosen(args, kwargs)
        return self._run(graph, tensors, variables)

    def _run(self, graph, tensors, variables):
        results = graph.concrete._call(list(tensors), list(variables))
        if graph.result[0] == "tensor":
            return results[0]
        results = iter(results)
        return _built(graph.result, lambda _: next(results), self._custom)

    def _chosen(self, args, kwargs):
        """(graph, tensors, Variables) for a call: the first that fits and was traced as layers are called now, to train or to predict."""
        training, why, alone = _core.training(), [], len(self._saved_graphs) == 1
        for graph in sorted(self._saved_graphs, key=lambda graph: graph.training != training):
            try:
                tensors, variables = graph.inputs(args, kwargs)
            except _Different as different:
                why.append(str(different))
                continue
            if alone or graph.concrete._fits(tensors, variables):  # alone: the call says what does not fit
                return graph, tensors, variables
        raise errors.SignatureMismatch(f"{self.__name__}: no graph of it takes these arguments", why="; ".join(dict.fromkeys(why)) or "a dtype or a shape is another",
                                       fix="call it as " + " or ".join(f"{self.__name__}({graph.in_words()})" for graph in self._saved_graphs[:5]))

    def get_concrete_function(self, *args, **kwargs):
        """The graph for these arguments."""
        return self._chosen(args, kwargs)[0].concrete

    def explain(self, *args, **kwargs):
        """As lm.Function.explain, of the graph for these arguments, or of the first one."""
        return (self._chosen(args, kwargs)[0] if args or kwargs else self._saved_graphs[0]).concrete.explain()

    @property
    def variables(self):
        """The Variables that its graphs use, each once."""
        return list({id(v): v for graph in self._saved_graphs for v in graph.concrete.variables}.values())

    def __repr__(self):
        return f"<saved function {'; '.join(f'{self.__name__}({graph.in_words()})' for graph in self._saved_graphs[:5])}>"


# --- saving ---


class Saver:
    def __init__(self):
        self.module = _core._Module()
        self.objects, self.numbers, self.kept = [], {}, []
        self.variable_names, self.functions = {}, {}  # by id
        self.nested = {}  # of each function: its graphs' arguments and results
        self.lost = {}  # path: what is there

    def tree(self, value, path, inside=()):
        """The tree of an attribute's value; what cannot be saved is in self.lost."""
        if isinstance(value, _Lost):
            return self.missing(path, value.what)
        if isinstance(value, _core.Variable):
            return ["variable", self.variable(value, path)]
        if isinstance(value, _core.Tensor) or type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "shape"):
            self.module.add_variable(path, _core.Variable(_core.constant(value), name=path, trainable=False))
            return ["stored", path]
        if is_function(value):
            return self.function(value, path)
        if value is None or type(value) in (bool, int, float, str):
            return _plain(value)
        if isinstance(value, (Module, _core.optim.Optimizer)):
            return ["object", self.object(value, path)]
        if type(value) in (list, tuple, dict) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            inside = enter(inside, value, "lm.save")
            if type(value) is dict:
                if not all(type(key) in (str, int, bool, float, type(None)) for key in value):
                    return self.missing(path, "a dict with keys that are no plain values")
                return ["dict", [[_plain(key), self.tree(part, f"{path}.{key}", inside)] for key, part in list(value.items())]]
            if hasattr(value, "_fields"):
                return ["named", type(value).__name__, [[field, self.tree(part, f"{path}.{field}", inside)] for field, part in zip(value._fields, value)]]
            return ["list" if type(value) is list else "tuple", [self.tree(part, f"{path}.{i}" if path else str(i), inside) for i, part in enumerate(list(value))]]
        return self.missing(path, errors.a_type(value))

    def missing(self, path, what):
        self.lost[path] = what
        return ["lost", what]

    def variable(self, variable, path):
        if id(variable) not in self.variable_names:
            self.variable_names[id(variable)] = path
            self.kept.append(variable)
            self.module.add_variable(path, variable)
        return self.variable_names[id(variable)]

    def object(self, thing, path):
        """The number of an object in the list of all."""
        if id(thing) in self.numbers:
            return self.numbers[id(thing)]
        self.numbers[id(thing)] = number = len(self.objects)
        self.kept.append(thing)
        record = {"class": getattr(thing, "_saved_class", None) or type(thing).__name__, "attributes": {}, "lost": {}}
        self.objects.append(record)
        unnamed = getattr(thing, "_unnamed", ())
        for name, value in _attributes(thing):
            tree = self.tree(value, path if name in unnamed else f"{path}.{name}" if path else name)
            if tree[0] == "lost":
                record["lost"][name] = tree[1]
            elif not (name.startswith("_") and _lost_in(tree)):  # what is private is missed by its functions only, and they are saved
                record["attributes"][name] = tree
        return number

    def function(self, value, path):
        function = getattr(value, "__func__", value)  # of a method: it is kept per instance
        if id(function) not in self.functions:
            graphs = _graphs_of(value)
            self.kept.append(function)
            if isinstance(graphs, str):
                return self.missing(path, graphs)
            self.functions[id(function)] = path
            self.nested[path] = []
            for graph in graphs:
                names = [name for argument, _, _, tree in graph.arguments for name in _names(tree, argument)]
                self.module.add_graph(path, graph.concrete, names, _result_names(graph.result))
                self.nested[path].append({"arguments": [[name, by_name, is_default, tree] for name, by_name, is_default, tree in graph.arguments],
                                          "result": graph.result, "training": graph.training})
        return ["function", self.functions[id(function)]]

    def root(self, what, signatures):
        """(tree, signatures by name) of what lm.save was given."""
        if isinstance(what, dict) and all(isinstance(name, str) for name in what):
            record = {"class": "Module", "attributes": {}, "lost": {}}
            self.objects.append(record)
            for name, value in what.items():
                tree = self.tree(value, name)
                if tree[0] == "lost":
                    record["lost"][name] = tree[1]
                else:
                    record["attributes"][name] = tree
            tree = ["object", 0]
        elif isinstance(what, Module):
            tree = self.tree(what, "")
            for name, function in _model_functions(what).items():
                self.kept.append(function)
                self.objects[0]["attributes"][name] = self.function(function, name)
        elif is_function(what):
            tree = self.tree(what, what.__name__)
        else:
            raise errors.TypeMismatch(f"lm.save: {errors.a_type(what)} cannot be saved", why="a program is a module with traced functions, or a traced function",
                                      fix="pass a lm.Module, a model, a lm.function, or a dict of them by name")
        return tree, None if signatures is None else {name: self.signature(name, function) for name, function in signatures.items()}

    def signature(self, name, function):
        tree = self.tree(function, f"signatures.{name}") if not isinstance(function, str) else ["function", function]
        if tree[0] != "function":
            raise errors.StateError(f"lm.save: the signature '{name}' is {tree[-1] if tree[0] == 'lost' else errors.a_type(function)}",
                                    fix="pass a lm.function that was called, or that has an input_signature")
        return tree[1]

    def write(self, root, signatures, path):
        nested = self.nested
        if not nested:
            listed = "; ".join(f"{where}: {what}" for where, what in self.lost.items())
            raise errors.StateError("lm.save: there is no traced function to save", why=listed or "it has no lm.function among its attributes",
                                    fix="write @lm.function(input_signature=[...]) above a method, or call its functions once before; lm.save_weights saves weights alone")
        if signatures is None:
            signatures = {"serving_default": next(iter(nested))} if len(nested) == 1 else {name: name for name in nested}
        for name, function in signatures.items():
            self.module.add_signature(name, function)
        self.module.language = json.dumps({"language": "python", "root": root, "objects": self.objects, "functions": nested}, indent=1, allow_nan=False)
        self.module.save(path)


def _attributes(thing):
    """(name, value) of what an object holds, its traced methods among it."""
    if isinstance(thing, _core.optim.Optimizer):
        return [("name", thing.name), ("variables", list(thing.variables))] if hasattr(thing, "name") else [("variables", list(thing.variables))]
    found = [(name, value) for name, value in vars(thing).items()
             if name not in ("_saved_class", "signatures", "_lost_attributes") and not (name.startswith("_") and is_function(value))]
    names = {name for name, _ in found}
    for cls in type(thing).__mro__:
        for name, value in vars(cls).items():
            if isinstance(value, _core.Function) and name not in names and not name.startswith("_"):
                names.add(name)
                found.append((name, getattr(thing, name)))
    for name, what in getattr(thing, "_lost_attributes", {}).items():
        found.append((name, _Lost(what)))
    return found


class _Lost:
    """Stands for what an earlier lm.save left out."""

    def __init__(self, what):
        self.what = what


def is_function(value) -> bool:
    """Whether this is a traced function, one as a method, or one of a saved program."""
    return isinstance(value, (_core.Function, SavedFunction)) or isinstance(getattr(value, "__func__", None), _core.Function)


def instance_of(function) -> list:
    """The first arguments of a method's functions, which Python passes in calls only: [the object], or nothing."""
    return [function.__self__] if isinstance(getattr(function, "__func__", None), _core.Function) else []


def functions_in(module) -> dict:
    """{name: function} of the traced functions that a Module has."""
    return {name: value for name, value in _attributes(module) if is_function(value)}


def graphs_of(function) -> list:
    """The ConcreteFunctions of a traced or saved function. One with an input_signature that was never called is traced."""
    if isinstance(function, SavedFunction):
        return [graph.concrete for graph in function._saved_graphs]
    own = getattr(function, "__func__", function)
    if not own._graphs and own._signature is not None:
        own.get_concrete_function(*instance_of(function), *own._signature)
    return own._graphs


def _graphs_of(function):
    """The _Graphs of a function, or why there are none, as text."""
    if isinstance(function, SavedFunction):
        return function._saved_graphs
    try:
        graphs = graphs_of(function)
    except errors.SignatureMismatch:
        return "a function of nested arguments that was not called yet"
    if not graphs:
        return "a function that was not called yet and has no input_signature"
    out, why = [], None
    for concrete in graphs:
        arguments = [(name, by_name, is_default, _encoded(tree)) for name, by_name, is_default, tree in concrete._arguments]
        result = _encoded(_core._described(concrete.structured_outputs))
        lost = next(filter(None, (_lost_in(tree) for _, _, _, tree in arguments)), None)
        if lost:
            why = f"a function whose argument is {lost}"
        elif _lost_in(result):
            why = f"a function whose result holds {_lost_in(result)}"
        else:
            out.append(_Graph(concrete, arguments, result, concrete._training))
    return out or why


def _model_functions(model) -> dict:
    """Of a layer or model without traced functions of its own: its call, and, when it was fitted, one step of training."""
    inputs = getattr(model, "_input_specs", None)
    if inputs is None or any(is_function(value) for _, value in _attributes(model)):
        return {}
    inputs = inputs()
    if inputs is None:
        return {}

    def call(inputs, *more):
        return model(inputs, *more, training=False)

    made = {"call": _core.function(call, autograph=False)}
    made["call"].get_concrete_function(*inputs)
    fitted = getattr(getattr(model, "_train_step", None), "_graphs", ())
    if fitted:
        names = ["loss", *[metric.name for metric in model._metrics]]

        def train_step(inputs, labels):
            return dict(zip(names, model._run_train_step(inputs, labels)))

        step = made["train_step"] = _core.function(train_step, autograph=False)
        shapes = iter(fitted[-1].inputs)
        arguments = [_built(_encoded(tree), lambda _: next(shapes), {}) for _, _, _, tree in fitted[-1]._arguments]
        step.get_concrete_function(*[open_specs(argument) for argument in arguments])
    return made


# --- loading ---


class Loader:
    def __init__(self, path, custom):
        self.path, self.custom, self.module = path, custom or {}, _core._Module.load(path)
        self.variables, self.made = self.module.variables, {}
        self.data = self._language()

    def _language(self):
        """The description, or one made of names when the program is none of Python's."""
        try:
            data = json.loads(self.module.language) if self.module.language else {}
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        if isinstance(data, dict) and data.get("language") == "python":
            return data
        attributes = {name: ["variable", name] for name in self.variables} | {name: ["function", name] for name in self.module.functions}
        return {"root": ["object", 0], "objects": [{"class": "Module", "attributes": attributes, "lost": {}}], "functions": {}}

    def _damaged(self, why):
        return errors.BadFile("load: the saved program is damaged", where=f"file '{self.path}/language.json'", why=why, fix="copy or save it again")

    def _graph(self, name, number, concrete, arguments, outputs):
        known = self.data["functions"].get(name)
        if known is None:
            result = ["dict", [[["value", output], ["tensor"]] for output in outputs]] if outputs != ["output"] else ["tensor"]
            return _Graph(concrete, [(argument, False, False, ["tensor"]) for argument in arguments], result, False)
        known = known[number]
        graph = _Graph(concrete, [tuple(argument) for argument in known["arguments"]], known["result"], bool(known["training"]))
        names = [name for argument, _, _, tree in graph.arguments for name in _names(tree, argument)]
        if names != arguments or len(list(_names(graph.result, ""))) != len(outputs):
            raise self._damaged(f"the arguments or results of {name} are not those of its graph")
        return graph

    def value(self, tree, name=""):
        kind, *rest = tree
        if kind == "variable":
            return self.variables[rest[0]]
        if kind == "stored":
            return self.variables[rest[0]].read()
        if kind == "function":
            return self.functions[rest[0]]
        if kind == "object":
            return self.object(rest[0])
        if kind == "lost":
            return _Lost(rest[0])
        return _built(tree, self.value, self.custom)

    def object(self, number):
        if number in self.made:
            return self.made[number]
        record = self.data["objects"][number]
        wanted = self.custom.get(record["class"])
        made = self.made[number] = object.__new__(LoadedModule if wanted is None else wanted)
        values = {name: self.value(tree) for name, tree in record["attributes"].items()}
        if wanted is not None:  # its functions are its own
            own = {name for cls in wanted.__mro__ for name, value in vars(cls).items() if isinstance(value, _core.Function)}
            vars(made).update({name: value for name, value in values.items() if name not in own})
            return made
        vars(made).update({"_saved_class": record["class"], "_lost_attributes": dict(record["lost"])} | values)
        return made

    def load(self):
        try:
            self.functions = {name: SavedFunction(name.rpartition(".")[2], [self._graph(name, i, *graph) for i, graph in enumerate(graphs)], self.custom)
                              for name, graphs in self.module.functions.items()}
            root = self.value(self.data["root"])
            signatures = {name: self.functions[function] for name, function in self.module.signatures.items()}
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise self._damaged(f"{type(error).__name__}: {error}") from None
        try:
            root.signatures = signatures
        except AttributeError:
            pass
        return root


class LoadedModule(Module):
    """What lm.load makes of an object whose class it was not given: its attributes, with live Variables and the functions that were saved."""

    def __getattr__(self, name):
        lost = vars(self).get("_lost_attributes", {})
        if name in lost:
            raise errors.StateError(f"{self._described()}: '{name}' was not saved", why=f"it was {lost[name]}",
                                    fix="call a function once, or give it an input_signature, before lm.save; pass the class as lm.load(path, custom={...}) for what only its source code has")
        raise AttributeError(str(_core.unknown_name(f"attribute of {self._described()}", name, sorted(vars(self)))))

    def __call__(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def _described(self):
        return vars(self).get("_saved_class", "Module")

    def __repr__(self):
        functions = [name for name, value in vars(self).items() if isinstance(value, SavedFunction)]
        return f"<saved {self._described()}: {len(self.variables)} Variables, functions {', '.join(functions) or 'none'}>"


_border.guard(globals())
