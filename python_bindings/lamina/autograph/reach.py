"""Snapshots of the Python objects that a function can reach: taken before a body is traced, compared and restored after it.

A Holder is an object whose content can change: a list, a dict, an object's attributes, a cell of a closure, the globals that a function
names. Its content is a shallow copy. Holders with parts can be state of a branch or loop of the graph; others can only be restored.
"""
from __future__ import annotations

import collections
import functools
import operator
import pickle
import random
import sys
import types
import weakref

from .. import _core, errors

LIMIT = 200_000  # limit of objects
_COPIED_BYTES = 1 << 20  # arrays up to this size are copied, larger ones may not be written meanwhile
_MISSING = type("_Missing", (), {"__repr__": lambda self: "nothing"})()
_ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), range, slice, types.CodeType,
                    _core.Tensor, _core.Variable, _core.DType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
                    types.MethodDescriptorType, types.ClassMethodDescriptorType, type(_MISSING), weakref.ref})
_WATCHED_STANDARD = frozenset({"builtins", "collections", "types", "argparse", "functools", "os", "queue", "weakref", "__main__"})
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}
_FOREIGN = frozenset({"numpy", "scipy", "pandas", "matplotlib", "torch", "jax", "tensorflow", "pytest", "_pytest", "hypothesis", "PIL", "sklearn"})
NUMBERS = (bool, int, float)
_CACHED = type(functools.lru_cache(lambda: None))


def _root(module) -> str:
    return module.split(".")[0] if isinstance(module, str) else ""


def is_users(module) -> bool:
    """Whether a module is user code; other packages manage their own state."""
    return _root(module) not in _STANDARD and _root(module) not in _FOREIGN and _root(module) != "lamina"


def same_value(a, b) -> bool:
    """Whether a place still has the same value."""
    return a is b or (type(a) is type(b) and type(a) in NUMBERS and same_number(a, b))


def same_number(a, b) -> bool:
    """Whether two numbers of one type are equal, where 0.0 and -0.0 are two."""
    return a == b and (a != 0 or repr(a) == repr(b))


def same_parts(a, b) -> bool:
    """Whether two {key: value} have the same keys in the same order with the same values."""
    return len(a) == len(b) and all(k == l for k, l in zip(a, b)) and all(same_value(a[k], b[k]) for k in a)


class Holder:
    """An object whose content can change. kind and path are for errors."""

    kind = "object"
    __slots__ = ("object", "path", "content")

    def __init__(self, thing, path):
        self.object, self.path = thing, path
        self.content = self.read()

    def same(self) -> bool:
        now = self.read()
        if now is self.content:
            return True
        mine, other = self.parts(self.content), self.parts(now)
        if mine is None:
            return now == self.content
        return same_parts(mine, other)

    def restore(self):
        self.write(self.content)

    def parts(self, content):
        """{key: value} of a content that can be state of the graph; None if it cannot."""
        return content

    def built(self, parts):
        """The content with these parts."""
        return parts

    def put(self, key, value):
        parts = dict(self.parts(self.read()))
        parts[key] = value
        self.write(self.built(parts))

    def name(self, key) -> str:
        return f"{self.path[:300]}[{key!r}]"

    def children(self):
        return [(v, self.name(k)) for k, v in (self.parts(self.content) or {}).items() if type(v) not in _ATOMS]


class _List(Holder):
    kind = "list"
    __slots__ = ()

    def read(self):
        return list(list.__iter__(self.object))

    def same(self):
        o, content = self.object, self.content
        if list.__len__(o) != len(content):
            return False
        return all(map(operator.is_, list.__iter__(o), content)) or all(same_value(a, b) for a, b in zip(list.__iter__(o), content))

    def write(self, content):
        list.__setitem__(self.object, slice(None), content)

    def parts(self, content):
        return dict(enumerate(content))

    def built(self, parts):
        return list(parts.values())

    def children(self):
        if set(map(type, self.content)) <= _ATOMS:
            return []
        return super().children()


class _Deque(_List):
    kind = "deque"
    __slots__ = ()

    def read(self):
        return list(collections.deque.__iter__(self.object))

    same = Holder.same

    def write(self, content):
        collections.deque.clear(self.object)
        collections.deque.extend(self.object, content)


class _Dict(Holder):
    kind = "dict"
    __slots__ = ()

    def read(self):
        return dict(self._kind().items(self.object))

    def _kind(self):
        """The class whose order is the object's."""
        return collections.OrderedDict if isinstance(self.object, collections.OrderedDict) else dict

    def same(self):
        o, content = self.object, self.content
        if type(o) is dict and dict.__len__(o) == len(content) and all(map(operator.is_, dict.__iter__(o), content)) and all(map(operator.is_, dict.values(o), content.values())):
            return True
        return super().same()

    def write(self, content):
        kind = self._kind()
        kind.clear(self.object)
        for k, v in content.items():
            kind.__setitem__(self.object, k, v)

    def children(self):
        keys = [(k, f"a key of {self.path}") for k in self.content if type(k) not in _ATOMS]
        return keys + super().children()


class _Attributes(_Dict):
    kind = "object"
    __slots__ = ()

    def name(self, key):
        return f"{self.path[:300]}.{key}"

    def children(self):
        return Holder.children(self)


class _Slots(Holder):
    __slots__ = ()

    def _descriptors(self):
        out = {}
        for cls in type(self.object).__mro__:
            if "__slots__" in cls.__dict__:
                out.update((k, d) for k, d in cls.__dict__.items() if isinstance(d, types.MemberDescriptorType) and k not in out)
        return out

    def read(self):
        out = {}
        for name, descriptor in self._descriptors().items():
            try:
                out[name] = descriptor.__get__(self.object)
            except AttributeError:
                pass
        return out

    def write(self, content):
        for name, descriptor in self._descriptors().items():
            if name in content:
                descriptor.__set__(self.object, content[name])
            else:
                try:
                    descriptor.__delete__(self.object)
                except AttributeError:
                    pass

    def name(self, key):
        return f"{self.path[:300]}.{key}"


class _Cell(Holder):
    kind = "variable"
    __slots__ = ()

    def read(self):
        try:
            return {self.path: self.object.cell_contents}
        except ValueError:
            return {}

    def write(self, content):
        if content:
            self.object.cell_contents = content[self.path]
        elif self.read():
            del self.object.cell_contents

    def name(self, key):
        return self.path


class _Globals(Holder):
    """The names of a module that functions use."""

    kind = "module"
    __slots__ = ("names",)

    def __init__(self, thing, path):
        self.names = []
        super().__init__(thing, path)

    def add(self, name):
        self.names.append(name)
        if name in self.object:
            self.content[name] = self.object[name]

    def read(self):
        return {n: self.object[n] for n in self.names if n in self.object}

    def same(self):
        return all(same_value(self.object.get(n, _MISSING), self.content.get(n, _MISSING)) for n in self.names)

    def write(self, content):
        for n in self.names:
            if n in content:
                self.object[n] = content[n]
            else:
                self.object.pop(n, None)

    def name(self, key):
        return f"{self.path}{key}"

    def children(self):
        return []


class _Class(Holder):
    kind = "class"
    __slots__ = ()

    def read(self):
        return {k: v for k, v in vars(self.object).items() if not (k.startswith("__") and k.endswith("__")) and k != "_abc_impl" and not k.startswith("_lamina")}

    def write(self, content):
        now = self.read()
        for k in now.keys() - content.keys():
            type.__delattr__(self.object, k)
        for k, v in content.items():
            if now.get(k, _MISSING) is not v:
                type.__setattr__(self.object, k, v)

    def same(self):
        now = self.read()
        return now.keys() == self.content.keys() and all(same_value(now[k], self.content[k]) for k in now)

    def name(self, key):
        return f"{self.path[:300]}.{key}"

    def children(self):
        return [(v, f"{self.path[:300]}.{k}") for k, v in vars(self.object).items() if type(v) not in _ATOMS]


class _Opaque(Holder):
    """Content that can be compared and restored, but is no state of a graph."""

    __slots__ = ("take", "give", "kind", "inside")

    def __init__(self, thing, path, kind, take, give=None, inside=()):
        self.take, self.give, self.kind, self.inside = take, give, kind, inside
        super().__init__(thing, path)

    def read(self):
        return self.take(self.object)

    def write(self, content):
        if self.give is not None:
            self.give(self.object, content)

    def parts(self, content):
        return None

    def same(self):
        return _equal(self.read(), self.content)

    def children(self):
        return [(v, f"an item of {self.path}") for v in (self.inside or (self.content if isinstance(self.content, (set, list)) else ()))]


def _equal(a, b) -> bool:
    if same_value(a, b):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if type(a) is dict:
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if type(a) is set:
        return len(a) == len(b) and {id(x) for x in a} == {id(x) for x in b}
    return type(a) in (str, bytes) and a == b


def _refill(o, content):
    o.clear()
    o.update(content)


def _put_bytes(o, content):
    o[:] = type(o)(content) if isinstance(o, bytearray) else type(o)(o.typecode, content)


def _put_array(o, content):
    import numpy
    o[...] = numpy.frombuffer(content[1], dtype=o.dtype).reshape(o.shape)


def _put_objects(o, content):
    for i, v in enumerate(content):
        o.flat[i] = v


def _position(o):
    return o.__reduce__()


def _put_position(o, content):
    if len(content) > 2 and hasattr(o, "__setstate__"):
        o.__setstate__(content[2])


def _generator_state(o):
    frame = o.gi_frame
    return None if frame is None else (frame.f_lasti, dict(frame.f_locals))


@functools.lru_cache(maxsize=4096)
def _names_of(code: types.CodeType) -> frozenset:
    """All names that code may look up as a global or attribute, including inner functions."""
    names = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            names |= _names_of(c)
    return frozenset(names)


@functools.lru_cache(maxsize=4096)
def _texts_of(code: types.CodeType) -> frozenset:
    """All strings in code, including inner functions."""
    return frozenset().union(*(_texts_of(c) if isinstance(c, types.CodeType) else {c} for c in code.co_consts if isinstance(c, (str, types.CodeType))))


class Reach:
    """All holders that functions reach. own: ids of cells, and names of globals, that are handled elsewhere."""

    def __init__(self, roots, own_cells=frozenset(), own_globals=()):
        self.own_cells, self.own_globals = own_cells, own_globals
        self.seen = {}      # id -> object, which keeps the id unique
        self.holders = []
        self.locked = []    # large arrays
        self._globals = {}  # id of a module's dict -> its _Globals
        self._named = set()
        self._stack = list(roots)
        self._walk()

    def knows(self, value) -> bool:
        return id(value) in self.seen

    def _walk(self):
        stack = self._stack
        while stack:
            value, path = stack.pop()
            kind = type(value)
            if kind in _ATOMS or id(value) in self.seen:
                continue
            self.seen[id(value)] = value
            if len(self.seen) > LIMIT:
                raise errors.ConversionFailed(f"a branch or loop of the graph reaches more than {LIMIT} Python objects, the last of them {path[:200]}",
                                              why="all of them are compared before and after its body is traced, so that no change is lost",
                                              fix="give the body what it uses in local variables, and large data as tensors or arrays")
            try:
                self._take(value, kind, path)
            except RuntimeError as error:  # changed by another thread meanwhile
                raise errors.ConversionFailed(f"{path} changes while it is read: {error}", why="another thread writes it while a function is traced", fix="give each thread its own") from None

    def _add(self, holder):
        self.holders.append(holder)
        self._stack.extend(holder.children())

    def _take(self, value, kind, path):
        if isinstance(value, (tuple, frozenset)):
            self._stack.extend((v, f"{path}[{i}]") for i, v in enumerate(value) if type(v) not in _ATOMS)
        elif isinstance(value, types.FunctionType):
            return self._function(value, path)
        elif isinstance(value, types.CellType):
            return self._cell(value, path)
        elif isinstance(value, types.MethodType):
            self._stack += [(value.__func__, path), (value.__self__, path.rsplit(".", 1)[0] if "." in path else f"{path}.__self__")]
            return
        elif isinstance(value, types.BuiltinFunctionType):
            if not isinstance(value.__self__, (types.ModuleType, type(None))):
                self._stack.append((value.__self__, path.rsplit(".", 1)[0] if "." in path else f"{path}.__self__"))
            return
        elif type(value) is _CACHED:
            self._add(_Opaque(value, path, "cached function", lambda o: o.cache_info().misses, lambda o, n: o.cache_clear()))
            self._stack.append((value.__wrapped__, path))
            return
        elif isinstance(value, functools.partial):
            self._stack += [(value.func, path), (value.args, f"{path}.args"), (value.keywords, f"{path}.keywords")]
            return
        elif isinstance(value, (staticmethod, classmethod)):
            return self._stack.append((value.__func__, path))
        elif isinstance(value, property):
            return self._stack.extend((f, path) for f in (value.fget, value.fset, value.fdel) if f is not None)
        elif isinstance(value, functools.cached_property):
            return self._stack.append((value.func, path))
        elif isinstance(value, _core.Function):
            return self._stack.append((value.python_function, path))
        elif isinstance(value, types.MappingProxyType) or kind is types.ModuleType:
            return  # modules: the names that functions use
        elif isinstance(value, type):
            if is_users(value.__module__):
                self._add(_Class(value, value.__name__))
                self._stack.extend((b, b.__name__) for b in value.__mro__[1:])
            return
        elif isinstance(value, list):
            self._add(_List(value, path))
        elif isinstance(value, dict):
            self._add(_Dict(value, path))
        elif isinstance(value, collections.deque):
            self._add(_Deque(value, path))
        elif isinstance(value, set):
            self._add(_Opaque(value, path, "set", lambda o: set(set.__iter__(o)), _refill))
        elif isinstance(value, bytearray):
            self._add(_Opaque(value, path, "bytearray", bytes, _put_bytes))
        elif isinstance(value, types.GeneratorType):
            self._add(_Opaque(value, path, "generator", _generator_state, inside=tuple(value.gi_frame.f_locals.values()) if value.gi_frame is not None else ()))
        elif _root(kind.__module__) == "array":
            self._add(_Opaque(value, path, "array", lambda o: o.tobytes(), _put_bytes))
        elif isinstance(value, random.Random):
            self._add(_Opaque(value, path, "random generator", lambda o: o.getstate(), lambda o, s: o.setstate(s)))
        elif _root(kind.__module__) == "numpy" or "numpy" in {_root(c.__module__) for c in kind.__mro__}:
            self._numpy(value, path)
        elif _root(kind.__module__) == "torch" and hasattr(value, "_version"):
            self._add(_Opaque(value, path, "tensor of PyTorch", lambda o: o._version))
        elif hasattr(kind, "__next__") and (kind.__module__ == "itertools" or kind.__module__ == "builtins"):
            self._iterator(value, path)
        self._attributes(value, kind, path)

    def _attributes(self, value, kind, path):
        root = _root(kind.__module__)
        if root in _FOREIGN or (root in _STANDARD and root not in _WATCHED_STANDARD):
            return
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = None
        if type(own) is dict:
            if id(own) not in self.seen:
                self.seen[id(own)] = own
                self._add(_Attributes(own, path))
        if any("__slots__" in c.__dict__ and c.__dict__["__slots__"] for c in kind.__mro__) and root != "collections":
            self._add(_Slots(value, path))
        if is_users(kind.__module__):
            self._stack.append((kind, kind.__name__))

    def _numpy(self, value, path):
        import numpy
        if isinstance(value, numpy.ndarray):
            if value.dtype.hasobject:
                self._add(_Opaque(value, path, "NumPy array", lambda o: list(o.flat), _put_objects))
            elif value.nbytes <= _COPIED_BYTES:
                self._add(_Opaque(value, path, "NumPy array", lambda o: (o.shape, o.tobytes()), _put_array))
            elif value.flags.writeable:
                self.locked.append(value)
            if isinstance(value.base, numpy.ndarray):
                self._stack.append((value.base, path))
        elif isinstance(value, numpy.random.RandomState):
            self._add(_Opaque(value, path, "random generator", lambda o: pickle.dumps(o.get_state(legacy=False)), lambda o, s: o.set_state(pickle.loads(s))))
        elif isinstance(value, numpy.random.Generator):
            self._add(_Opaque(value, path, "random generator", lambda o: pickle.dumps(o.bit_generator.state), lambda o, s: setattr(o.bit_generator, "state", pickle.loads(s))))

    def _iterator(self, value, path):
        try:
            held = value.__reduce__()
        except TypeError:
            return
        inside = [v for v in (held[1] if len(held) > 1 and isinstance(held[1], tuple) else ())]
        self._add(_Opaque(value, path, "iterator", _position, _put_position, inside=tuple(inside)))

    def _function(self, function, path):
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            self._stack.append((cell, name))
        for values in (function.__defaults__, function.__kwdefaults__):
            if values:
                self._stack.append((values, f"a default of {function.__name__}"))
        own = {k: v for k, v in function.__dict__.items() if not k.startswith("_lamina")}
        if own:
            self.seen[id(function.__dict__)] = function.__dict__
            self._add(_Attributes(function.__dict__, path))
        if is_users(function.__module__):
            names = _names_of(code)
            if "globals" in names:  # globals()[name]: any name, and those in texts if they are new
                names = names | _texts_of(code) | {n for n in function.__globals__ if isinstance(n, str) and not n.startswith("__")}
            self._module(function.__globals__, names, "")

    def _cell(self, cell, name):
        if name == "ag__":
            return
        if id(cell) not in self.own_cells:
            self.holders.append(_Cell(cell, name))
        try:
            self._stack.append((cell.cell_contents, name))
        except ValueError:
            pass

    def _of_module(self, module, names, path):
        """What functions name of a module: of Python's own and NumPy its objects, such as the generator behind random.random."""
        if is_users(module.__name__):
            return self._module(vars(module), names, path)
        if _root(module.__name__) != "numpy" and _root(module.__name__) not in _STANDARD or id(module) in self.seen:
            return
        self.seen[id(module)] = module
        for name in names:
            value = vars(module).get(name, _MISSING)
            if isinstance(value, types.ModuleType):
                self._of_module(value, names, f"{path}{name}.")
            elif isinstance(value, (types.MethodType, types.BuiltinFunctionType)) or not callable(value) and type(value) not in _ATOMS:
                self._stack.append((value, path + name))

    def _module(self, scope, names, path):
        fresh = [n for n in names if (id(scope), n) not in self._named]
        if not fresh:
            return
        if id(scope) not in self._globals:
            self.seen[id(scope)] = scope
            self._globals[id(scope)] = _Globals(scope, path)
            self.holders.append(self._globals[id(scope)])
        for name in fresh:
            self._named.add((id(scope), name))
            value = scope.get(name, _MISSING)
            if not (isinstance(self.own_globals, dict) and name in self.own_globals.get(id(scope), ())):
                self._globals[id(scope)].add(name)
            if isinstance(value, types.ModuleType):
                self._of_module(value, names, f"{path}{name}.")
            elif value is not _MISSING:
                self._stack.append((value, path + name))
