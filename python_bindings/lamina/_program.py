"""What lm.save and lm.load do: Python objects as a program with a description of them, and back.

The compiled part (graph/program/module.h) keeps Variables and graphs by name. Beside it lies a JSON text, written here: how the arguments and results of
each graph are nested, and which object held what. Only plain data is read from it; a class is used when the caller of lm.load has passed it.
"""
from __future__ import annotations

import functools
import json

from . import _border, _core, errors
from ._structure import DEEPEST, enter, is_dataclass, parts_of
from ._trees import Different, built, constant_of, encoded, is_constant, lost_in, names_of, plain, result_names, take
from .module import Module, specs_of


class _Graph:
    """A graph of a saved function, and how its arguments and its result are nested."""

    def __init__(self, concrete, arguments, result, training):
        self.concrete, self.arguments, self.result, self.training = concrete, arguments, result, training
        self.specs = concrete.inputs
        self.plain = all(tree[0] == "tensor" and not by_name for _, by_name, _, tree in arguments)  # tensors that may be passed by position

    def key(self):
        """Calls with one key take one graph."""
        return json.dumps([self.arguments, [str(spec) for spec in self.specs], self.training])

    def inputs(self, args, kwargs, convert):
        """(tensors, Variables) of a call. convert: numbers and lists become tensors, arrays of floats or integers take the dtype that the graph has."""
        positional, given = [a for a in self.arguments if not a[1]], dict(kwargs)
        if len(args) > len(positional):
            raise Different(f"{len(args)} arguments are given, it was saved for {len(positional)}")
        for (name, *_), value in zip(positional, args):
            if name in given:
                raise Different(f"{name} is given twice")
            given[name] = value
        tensors, variables = [], []
        for name, _, is_default, tree in self.arguments:
            if name in given:
                take(tree, given.pop(name), tensors, variables, name)
            elif not is_default or not is_constant(tree):
                raise Different(f"{name} is missing")
        if given:
            raise Different(f"there is no argument {next(iter(given))}")
        return [self._tensor(value, spec, convert) for value, spec in zip(tensors, self.specs)], variables

    @staticmethod
    def _tensor(value, spec, convert):
        if isinstance(value, _core.Tensor):
            return value
        if isinstance(value, _core.Variable):
            return value.read()
        if hasattr(value, "dtype") or hasattr(type(value), "__array__"):
            made = _core.constant(value)
            if not convert or made.dtype == spec.dtype:
                return made
            other = _core.astype(made, spec.dtype)  # arrays are weak in kind, as in ops
            fits = made.dtype.is_floating and spec.dtype.is_floating or made.dtype.is_integer and spec.dtype.is_integer and bool(_core.all(_core.astype(other, made.dtype) == made))
            return other if fits else made
        if not convert or not isinstance(value, (bool, int, float, list, tuple)):
            raise Different(f"{errors.shown(value)} is no tensor")
        return _core.constant(value, dtype=spec.dtype)

    def in_words(self):
        shown = iter(self.specs)

        def words(tree):
            kind, *rest = tree
            if kind == "tensor":
                spec = next(shown)
                return f"{spec.dtype}{spec.shape}"
            if kind in ("value", "float"):
                return errors.shown(constant_of(tree))
            if kind == "variable":
                return "a Variable"
            if kind in ("list", "tuple"):
                return ("[%s]" if kind == "list" else "(%s)") % ", ".join(map(words, rest[0]))
            if kind == "dict":
                return "{%s}" % ", ".join(f"{constant_of(key)!r}: {words(part)}" for key, part in rest[0])
            return f"{rest[0]}({', '.join(f'{field}={words(part)}' for field, part in rest[1])})"

        return ", ".join(f"{name}: {words(tree)}" for name, _, _, tree in self.arguments)


def _examples(args, kwargs):
    """Arguments with tensors in place of TensorSpecs."""
    from . import tree
    return tree.map(lambda v: _core.zeros([2 if n is None else n for n in v.shape], v.dtype) if isinstance(v, _core.TensorSpec) else v, (args, kwargs))


class SavedFunction:
    """A function of a saved program: its graphs, without the source code. It is called as the function was; what no graph takes raises
    SignatureMismatch."""

    def __init__(self, name, graphs, custom=None):
        self.__name__, self._saved_graphs, self._signatures = name, graphs, {}
        for graph in graphs:
            graph.concrete._nest = functools.partial(_nested, graph.result, custom or {})

    def __call__(self, *args, **kwargs):
        graph = self._saved_graphs[0]
        if len(self._saved_graphs) == 1 and not kwargs and graph.plain and len(args) == len(graph.arguments) and all(type(a) is _core.Tensor for a in args):
            return self._run(graph, args, ())
        graph, tensors, variables = self._chosen(args, kwargs)
        return self._run(graph, tensors, variables)

    def __reduce_ex__(self, protocol):
        raise errors.TypeMismatch(f"pickle: {self.__name__}, a function of a saved program or of a quantized model, cannot be pickled or copied", why="its graphs are of this process, and no source makes them anew",
                                  fix="pass a folder on: lm.save(program, folder) writes it, lm.load(folder) makes it, with Variables of its own")

    def _run(self, graph, tensors, variables):
        try:
            results = graph.concrete._call(list(tensors), list(variables))
        except errors.SignatureMismatch as problem:
            if problem.what.startswith(self.__name__ + ":"):  # there is no source that could be traced again
                problem = errors.SignatureMismatch(problem.what, problem.where, problem.why, f"call it as {self.__name__}({graph.in_words()}); lm.astype(x, dtype) converts a tensor")
            raise problem from None
        return results[0] if graph.result[0] == "tensor" else graph.concrete._nest(results)

    def _chosen(self, args, kwargs):
        """(graph, tensors, Variables) for a call: the first that fits and was traced as layers are called now, to train or to predict."""
        training, why, alone = _core.training(), [], len(self._saved_graphs) == 1
        for convert in (False, True):  # a number selects the graph that was traced with it before one that takes a tensor
            for graph in sorted(self._saved_graphs, key=lambda graph: graph.training != training):
                try:
                    tensors, variables = graph.inputs(args, kwargs, convert)
                except Different as different:
                    why.append(str(different))
                    continue
                if alone and convert or graph.concrete._fits(tensors, variables):  # alone: the call says what does not fit
                    return graph, tensors, variables
        raise errors.SignatureMismatch(f"{self.__name__}: no graph of it takes these arguments", why="; ".join(dict.fromkeys(why)) or "a dtype or a shape is another",
                                       fix="call it as " + " or ".join(f"{self.__name__}({graph.in_words()})" for graph in self._saved_graphs[:5]))

    def graph_for(self, args, kwargs):
        """The _Graph for these arguments, or the only one there is."""
        if args or kwargs:
            return self._chosen(*_examples(args, kwargs))[0]
        if len(self._saved_graphs) > 1:
            raise errors.InvalidArgument(f"{self.__name__} has {len(self._saved_graphs)} graphs", why="one is needed", fix="pass example arguments, which say which one")
        return self._saved_graphs[0]

    def get_concrete_function(self, *args, **kwargs):
        """The graph for these arguments, tensors or TensorSpecs."""
        return self.graph_for(args, kwargs).concrete

    @property
    def signatures(self) -> dict:
        """{name: function} of the program's signatures, of a function that was saved by itself."""
        return self._signatures

    def explain(self, *args, **kwargs):
        """As lm.Function.explain, of the graph for these arguments, or of the first one."""
        return (self.graph_for(args, kwargs) if args or kwargs else self._saved_graphs[0]).concrete.explain()

    @property
    def variables(self):
        """The Variables that its graphs use, each once."""
        return list({hash(v): v for graph in self._saved_graphs for v in graph.concrete.variables}.values())

    def __repr__(self):
        return f"<saved function {'; '.join(f'{self.__name__}({graph.in_words()})' for graph in self._saved_graphs[:5])}>"


def _nested(tree, custom, results):
    results = iter(results)
    return built(tree, lambda _: next(results), custom)


# --- saving ---


class Saver:
    def __init__(self):
        self.module = _core._Module()
        self.objects, self.numbers, self.kept = [], {}, []
        self.variable_names, self.functions = {}, {}  # of Variables by their hash, of functions by id
        self.called = set()  # ids of the layers and models that are saved with their call
        self.nested = {}  # of each function: its graphs' arguments and results
        self.lost = {}  # path: what is there

    def tree(self, value, path, inside=()):
        """The tree of an attribute's value; what cannot be saved is in self.lost."""
        if isinstance(value, _Lost):
            return self.missing(path, value.what)
        if isinstance(value, _core.Variable):
            return ["variable", self.variable(value, path)]
        if isinstance(value, _core.Tensor) or type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "shape"):
            try:
                value = _core.constant(value)
            except errors.TypeMismatch:  # an array of text, or of a dtype that no tensor has
                return self.missing(path, f"an array of {value.dtype}")
            self.module.add_variable(path, _core.Variable(value, name=path, trainable=False))
            return ["stored", path]
        if is_function(value):
            return self.function(value, path)
        if value is None or type(value) in (bool, int, float, str):
            return plain(value)
        if isinstance(value, (Module, _core.optim.Optimizer)):
            return ["object", self.object(value, path, inside)]
        named = is_dataclass(value) or isinstance(value, tuple) and hasattr(value, "_fields")
        if named or type(value) in (list, tuple, dict):
            inside = enter(inside, value, "lm.save")
            if type(value) is dict:
                if not all(type(key) in (str, int, bool, float, type(None)) for key in value):
                    return self.missing(path, "a dict with keys that are no plain values")
                return ["dict", [[plain(key), self.tree(part, f"{path}.{key}", inside)] for key, part in list(value.items())]]
            if named:
                parts = parts_of(value).items() if is_dataclass(value) else zip(value._fields, value)
                return ["named", type(value).__name__, [[field, self.tree(part, f"{path}.{field}", inside)] for field, part in parts]]
            return ["list" if type(value) is list else "tuple", [self.tree(part, f"{path}.{i}" if path else str(i), inside) for i, part in enumerate(list(value))]]
        return self.missing(path, errors.a_type(value))

    def missing(self, path, what):
        self.lost[path] = what
        return ["lost", what]

    def variable(self, variable, path):
        if hash(variable) not in self.variable_names:
            self.variable_names[hash(variable)] = path
            self.kept.append(variable)
            self.module.add_variable(path, variable)
        return self.variable_names[hash(variable)]

    def object(self, thing, path, inside=(), attributes=None):
        """The number of an object in the list of all. attributes: instead of its own."""
        if id(thing) in self.numbers:
            return self.numbers[id(thing)]
        if len(inside) >= DEEPEST:
            raise errors.InvalidArgument(f"lm.save: modules are nested more than {DEEPEST} levels deep", where=f"at '{path[:80]}...'", why="what is saved can be loaded again, which has a bound",
                                         fix="keep the modules in one list")
        inside = (*inside, id(thing))
        self.numbers[id(thing)] = number = len(self.objects)
        self.kept.append(thing)
        if attributes is None:
            attributes = _attributes(thing) + (list(model_functions(thing).items()) if id(thing) in self.called else [])
        record = {"class": getattr(thing, "_saved_class", None) or type(thing).__name__, "unnamed": list(getattr(thing, "_unnamed", ())), "attributes": {}, "lost": {},
                  "not_inside": [*getattr(thing, "_not_inside", ()), *(name for name, value in attributes if isinstance(value, _core.optim.Optimizer))]}
        self.objects.append(record)
        for name, value in attributes:
            tree = self.tree(value, path if name in record["unnamed"] else f"{path}.{name}" if path else name, inside)
            if tree[0] == "lost":
                record["lost"][name] = tree[1]
            else:
                record["attributes"][name] = tree
        return number

    def function(self, value, path):
        function = getattr(value, "__func__", value)  # of a method: it is kept per instance
        if id(function) not in self.functions:
            graphs = _graphs_of(value)
            self.kept.append(function)
            if isinstance(graphs, str):
                return self.missing(path, graphs)
            if path in self.nested:
                raise errors.InvalidArgument(f"lm.save: two functions would be saved as '{path}'", why="a name is the attributes and keys that lead to a function", fix="rename one of them")
            self.functions[id(function)] = path
            self.nested[path] = []
            for graph in graphs:
                names = [name for argument, _, _, tree in graph.arguments for name in names_of(tree, argument)]
                self.module.add_graph(path, graph.concrete, names, result_names(graph.result))
                self.nested[path].append({"arguments": [[name, by_name, is_default, tree] for name, by_name, is_default, tree in graph.arguments],
                                          "result": graph.result, "training": graph.training})
        return ["function", self.functions[id(function)]]

    def root(self, what, signatures):
        """(tree, signatures by name) of what lm.save was given."""
        self.what = what
        if signatures is None and isinstance(what, LoadedModule):
            signatures = vars(what).get("_signatures")
        if hasattr(what, "_as_program"):  # a network of lm.onnx.load
            what = what._as_program()
        if isinstance(what, dict) and all(isinstance(name, str) for name in what):
            self.called.update(map(id, what.values()))
            tree = ["object", self.object(Module(), "", attributes=list(what.items()))]
        elif isinstance(what, Module):
            self.called.add(id(what))
            tree = self.tree(what, "")
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
            if hasattr(self.what, "_require_built"):
                self.what._require_built("lm.save")
            listed = "; ".join(f"{where}: {what}" for where, what in self.lost.items() if not any(part.startswith("_") for part in where.split(".")))
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
        return [(name, getattr(thing, name)) for name in ("name",) if hasattr(thing, name)] + [("variables", list(thing.variables))]
    found = {name: value for name, value in vars(thing).items() if name not in ("_saved_class", "_signatures", "_lost_attributes", "_unnamed", "_not_inside")}
    for name in _traced_methods(type(thing)):
        found.setdefault("call" if name == "__call__" else name, getattr(thing, name))
    private = _Lost("a function with a private name")
    return [(name, private if name.startswith("_") and is_function(value) else value) for name, value in found.items()] + [
        (name, _Lost(what)) for name, what in getattr(thing, "_lost_attributes", {}).items()]


def _traced_methods(cls) -> list:
    return [name for base in cls.__mro__ for name, value in vars(base).items() if is_function(value)]


class _Lost:
    """Stands for what lm.save left out."""

    def __init__(self, what):
        self.what = what

    def __repr__(self):
        return f"<not saved: {self.what}>"


def is_function(value) -> bool:
    """Whether this is a traced function, one as a method, or one of a saved program."""
    return isinstance(value, (_core.Function, SavedFunction)) or isinstance(getattr(value, "__func__", None), _core.Function)


def traced(callable):
    """The traced function that a call runs: itself, also as a method, or that of an object whose __call__ is one; None if there is none."""
    called = callable.__call__ if isinstance(getattr(type(callable), "__call__", None), _core.Function) else callable
    return called if is_function(called) else None


def functions_in(module) -> dict:
    """{name: function} of the traced functions that a Module has."""
    return {name: value for name, value in _attributes(module) if is_function(value)}


def graphs_of(function) -> tuple[list, list]:
    """The ConcreteFunctions of a traced or saved function, the newest first: those that calls run now, and those traced with other tensors in attributes,
    closures and globals, or with other layers to train. One with an input_signature that calls would trace is traced."""
    if isinstance(function, SavedFunction):
        return [graph.concrete for graph in function._saved_graphs], []
    own = getattr(function, "__func__", function)
    now = own._outside()
    if own._signature is not None and all(graph._outside != now for graph in own._graphs):
        try:
            own.get_concrete_function()
        except errors.SignatureMismatch:  # its arguments are nested: only a call says how
            if not own._graphs:
                raise
        now = own._outside()
    graphs = own._graphs[::-1]
    return [graph for graph in graphs if graph._outside == now], [graph for graph in graphs if graph._outside != now]


def function_of(name, concrete, arguments) -> SavedFunction:
    """A ConcreteFunction whose arguments are one tensor each, as a function with these names of its arguments."""
    result = encoded(_core._described(concrete.structured_outputs))
    return SavedFunction(name, [_Graph(concrete, [(argument, False, False, ["tensor"]) for argument in arguments], result, False)])


def _graphs_of(function):
    """The _Graphs of a function, or why there are none, as text."""
    if isinstance(function, SavedFunction):
        return function._saved_graphs
    try:
        current, older = graphs_of(function)
    except errors.SignatureMismatch:
        return "a function of nested arguments that was not called yet"
    if not current and not older:
        return "a function that was not called yet and has no input_signature"
    found, why = {}, None
    for concrete in sorted([*current, *older], key=lambda concrete: concrete._training):  # a loaded function takes the first that fits
        graph = described(concrete)
        if isinstance(graph, str):
            why = graph
        else:
            found.setdefault(graph.key(), graph)
    return list(found.values()) or why


def described(concrete):
    """The _Graph of a ConcreteFunction, or why it cannot be saved, as text."""
    arguments = [(name, by_name, is_default, encoded(tree)) for name, by_name, is_default, tree in concrete._arguments]
    result = encoded(_core._described(concrete.structured_outputs))
    lost = next(filter(None, (lost_in(tree) for _, _, _, tree in arguments)), None)
    if lost:
        return f"a function whose argument is {lost}"
    return f"a function whose result holds {lost_in(result)}" if lost_in(result) else _Graph(concrete, arguments, result, concrete._training)


def model_functions(model) -> dict:
    """Of a layer or model without traced functions of its own: its call, and, when it was fitted, one step of training."""
    if not hasattr(model, "_input_specs") or any(is_function(value) for _, value in _attributes(model)):
        return {}
    specs = model._input_specs()
    if specs is None:
        return {}
    args, kwargs = specs

    def call(inputs, *more, **named):
        return model(inputs, *more, training=False, **named)

    def call_by_name(**named):
        return model(training=False, **named)

    made = {"call": _core.function(call if args else call_by_name)}
    made["call"].get_concrete_function(*args, **kwargs)
    fitted = getattr(getattr(model, "_train_step", None), "_graphs", ())
    if fitted:
        names = ["loss", *[metric.name for metric in model._metrics]]

        def train_step(inputs, labels):
            return dict(zip(names, model._run_train_step(inputs, labels)))

        def weighted_step(inputs, labels, weights):
            return dict(zip(names, model._run_train_step(inputs, labels, weights)))

        shapes = iter(fitted[-1].inputs)
        arguments = [built(encoded(tree), lambda _: next(shapes), {}) for _, _, _, tree in fitted[-1]._arguments]
        weighted = len(arguments) == 3 and arguments[2] is not None
        step = made["train_step"] = _core.function(weighted_step if weighted else train_step)
        arguments = arguments if weighted else arguments[:2]
        step.get_concrete_function(*specs_of(arguments, open_rows=True))
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
        return {"root": ["object", 0], "functions": {},
                "objects": [{"class": "Module", "unnamed": [], "not_inside": [], "attributes": attributes, "lost": {}}]}

    def _damaged(self, why):
        return errors.BadFile("load: the saved program is damaged", where=f"file '{self.path}/language.json'", why=why, fix="copy or save it again")

    def _graph(self, name, number, concrete, arguments, outputs):
        known = self.data["functions"].get(name)
        if known is None:
            result = ["dict", [[["value", output], ["tensor"]] for output in outputs]] if outputs != ["output"] else ["tensor"]
            return _Graph(concrete, [(argument, False, False, ["tensor"]) for argument in arguments], result, False)
        known = known[number]
        graph = _Graph(concrete, [tuple(argument) for argument in known["arguments"]], known["result"], bool(known["training"]))
        names = [name for argument, _, _, tree in graph.arguments for name in names_of(tree, argument)]
        if names != arguments or len(list(names_of(graph.result, ""))) != len(outputs):
            raise self._damaged(f"the arguments or results of {name} are not those of its graph")
        return graph

    def value(self, tree):
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
        return built(tree, self.value, self.custom)

    def object(self, number):
        if number in self.made:
            return self.made[number]
        record = self.data["objects"][number]
        wanted = self.custom.get(record["class"])
        if wanted is not None and not issubclass(wanted, Module):
            raise errors.TypeMismatch(f"load: custom has {wanted.__name__} for a module", why="its attributes are set as the saved ones", fix="pass a subclass of lm.Module")
        made = self.made[number] = object.__new__(LoadedModule if wanted is None else wanted)
        values = {name: self.value(tree) for name, tree in record["attributes"].items()}
        if wanted is not None:  # its functions are its own
            own = _traced_methods(wanted)
            vars(made).update({name: value for name, value in values.items() if name not in own and not (name == "call" and "__call__" in own)})
            return made
        vars(made).update(values | {"_saved_class": record["class"], "_lost_attributes": dict(record["lost"]),
                                    "_unnamed": tuple(record["unnamed"]), "_not_inside": tuple(record["not_inside"])})
        return made

    def load(self):
        try:
            self.functions = {name: SavedFunction(name.rpartition(".")[2], [self._graph(name, i, *graph) for i, graph in enumerate(graphs)], self.custom)
                              for name, graphs in self.module.functions.items()}
            root = self.value(self.data["root"])
            signatures = {name: self.functions[function] for name, function in self.module.signatures.items()}
        except errors.Error:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, StopIteration) as error:
            raise self._damaged(f"{type(error).__name__}: {error}") from None
        if isinstance(root, (LoadedModule, SavedFunction)):
            vars(root)["_signatures"] = signatures
        elif not hasattr(root, "signatures"):  # of a class that the caller gave
            root.signatures = signatures
        return root


class _NotSaved(errors.StateError, AttributeError):
    """For hasattr() there is no such attribute."""


class LoadedModule(Module):
    """What lm.load makes of an object whose class it was not given: its attributes, with live Variables and the functions that were saved."""

    def __getattr__(self, name):
        lost = vars(self).get("_lost_attributes", {})
        if name in lost:
            raise _NotSaved(f"{self._described()}: '{name}' was not saved", why=f"it was {lost[name]}",
                                    fix="before lm.save, call a function once or give it an input_signature, and a name that does not begin with _; pass the class as "
                                        "lm.load(path, custom={...}) for what only its source code has")
        if name in ("compile", "evaluate", "fit", "layers", "plot", "predict", "summary"):
            raise AttributeError(str(errors.NotFound(f"there is no {name}{'' if name == 'layers' else '()'} of a saved {self._described()}", where=_core._user_line(), why="a saved program has graphs and weights, not the class",
                                                     fix="call it: program(x); or keep the model with lm.nn.save_file(model, path) and lm.nn.load_file(path)")))
        raise AttributeError(str(_core.unknown_name(f"attribute of {self._described()}", name, sorted(one for one in vars(self) if not one.startswith("_")))))

    @property
    def signatures(self) -> dict:
        """{name: function} of the signatures."""
        return vars(self).get("_signatures", {})  # those of the whole program, at its root

    def __call__(self, *args, **kwargs):
        call = vars(self).get("call")
        if not callable(call):
            raise errors.StateError(f"{self._described()}: its call was not saved", why="of a model inside of another module only what traced functions use of it is saved",
                                    fix="call a function that uses it, or save the model itself: lm.save({'net': net}, folder)")
        return call(*args, **kwargs)

    def _described(self):
        return vars(self).get("_saved_class", "Module")

    def __repr__(self):
        functions = [name for name, value in vars(self).items() if isinstance(value, SavedFunction)]
        return f"<saved {self._described()}: {len(self.variables)} Variables, functions {', '.join(functions) or 'none'}>"


# What users hold; the Saver and the Loader are called through lm.save and lm.load.
_border.guard({"__name__": __name__, "SavedFunction": SavedFunction, "LoadedModule": LoadedModule})
