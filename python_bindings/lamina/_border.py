"""Converts errors of Python, NumPy and nanobind in a call of Lamina to errors of Lamina, with what, where, why and fix.

Compiled functions call this module when they fail (src/border.cpp); guard() wraps public functions and methods written in Python. Errors
raised by a user's own code, inside a function passed to Lamina, are not changed.
"""
from __future__ import annotations

import functools
import os
import sys
import types

from . import errors

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Errors caused by wrong arguments. OSError, MemoryError, StopIteration, warnings and interrupts have a general meaning and are not changed.
_FOREIGN = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError)
_STAY = (RecursionError, UnicodeError)
# How parameters are passed: the values of inspect.Parameter, which is imported only after a failure.
_BY_POSITION, _EITHER, _REST, _BY_NAME, _NAMES = range(5)


_KINDS = ((NotImplementedError, errors.NotDefined), (KeyError, errors.NotFound), (IndexError, errors.IndexOutOfRange), (ValueError, errors.InvalidArgument),
          (ArithmeticError, errors.InvalidArgument), (RuntimeError, errors.StateError))


class _Parameter:
    def __init__(self, name, type="", default=None, kind=_EITHER, value=None):
        self.name, self.type, self.default, self.kind, self.value = name, type, default, kind, value  # texts; default None: no default; value: the default itself

    def __str__(self):
        stars = {_REST: "*", _NAMES: "**"}.get(self.kind, "")
        return stars + self.name + ("" if self.default is None else f"={self.default}")


def _parts(text):
    """Splits a text at commas outside of brackets and quotes."""
    out, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [part.strip() for part in [*out, text[start:]] if part.strip()]


def _of_compiled(function):
    """The parameters of a compiled function, from the signature in its help; the first overload's."""
    signature, _, defaults = function.__nb_signature__[0]
    inner = signature[signature.index("(") + 1:signature.rindex(" -> ")].rstrip()
    out, kind, values = [], _EITHER, iter(defaults or ())
    for part in _parts(inner[:-1]):
        if part == "/":
            for p in out:
                p.kind = _BY_POSITION
            continue
        if part == "*":
            kind = _BY_NAME
            continue
        name, _, rest = part.partition(":")
        if not rest:
            name, _, rest = part.partition("=")
            rest = "=" + rest if rest else ""
        stars = len(name) - len(name.lstrip("*"))
        own = _NAMES if stars == 2 else _REST if stars else kind
        type, equals, _ = rest.rpartition("=")
        default = value = None
        if equals:
            value = next(values, "...")
            default = value if isinstance(value, str) and value[:1] in "'\"" else repr(value)
        out.append(_Parameter(name.lstrip("*").strip(), (type if equals else rest).strip(), default, own, value))
        if stars == 1:
            kind = _BY_NAME
    return out


def _parameters(callable):
    """The parameters of a callable; None if they are unknown."""
    if isinstance(callable, type) and "__nb_signature__" in dir(callable.__init__):
        return _of_compiled(callable.__init__)[1:]
    if hasattr(callable, "__nb_signature__"):
        return _of_compiled(callable)
    import inspect
    try:
        signature = inspect.signature(callable)
    except (TypeError, ValueError):
        return None
    def text(p):
        return None if p.default is p.empty else getattr(p.default, "__name__", None) or repr(p.default)
    return [_Parameter(p.name, " | ".join(_plain(p.annotation)), text(p), p.kind) for p in signature.parameters.values()]


def _signature_of(compiled, bound=False):
    """inspect.Signature of a compiled function, method or class, from its help; None where it cannot be called."""
    import inspect

    if isinstance(compiled, type):
        compiled, bound = compiled.__init__, True
        if not hasattr(compiled, "__nb_signature__"):
            return None if compiled is object.__init__ or not isinstance(compiled, types.FunctionType) else inspect.Signature(list(inspect.signature(compiled).parameters.values())[1:])
    parameters = []
    for p in _of_compiled(compiled):
        default = p.default if isinstance(p.value, str) and p.value == p.default else p.value  # a text in quotes is how nanobind tells of a value
        parameters.append(inspect.Parameter(p.name, inspect._ParameterKind(p.kind), default=inspect.Parameter.empty if p.default is None else default, annotation=p.type or inspect.Parameter.empty))
    return inspect.Signature(parameters[1:] if bound else parameters)


def give_signatures(set_on, function, method, bound, cls):
    """inspect.signature(), help() and editors see the parameters of compiled functions, methods and classes, of which these are one each."""
    set_on(type(function), property(_signature_of))
    set_on(type(method), property(_signature_of))
    set_on(type(bound), property(lambda self: _signature_of(self.__func__, True)))
    set_on(type(cls), property(_signature_of))


def _name(callable, args=(), bound_self=False):
    """ "softmax", "Tensor.reshape", or the class when it is created or called."""
    name = getattr(callable, "__qualname__", None) or getattr(callable, "__name__", None) or type(callable).__name__
    stem, _, last = name.rpartition(".")
    if bound_self and args and stem.startswith("_"):  # users see the classes that are made of it
        stem = type(args[0]).__name__
    return name if not stem else stem if last in ("__init__", "__call__", "__new__") else f"{stem}.{last}"


def _called(name, args, kwargs):
    types = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    return f"{name}({', '.join(types)})"


def _text(value):
    try:
        text = repr(value)
    except Exception:
        return ""
    return text if len(text) <= 40 and "\n" not in text else ""


def _is_number(value, *ways):
    return not isinstance(value, bool) and any(hasattr(type(value), way) for way in ways)


# Whether a value is of a plain type. NumPy's numbers are numbers; a tensor of one element is a float.
_TYPES = {"int": lambda value: _is_number(value, "__index__") and not type(value).__module__.startswith("lamina"), "float": lambda value: _is_number(value, "__float__", "__index__"), "bool": lambda value: type(value).__name__ in ("bool", "bool_"),
          **{cls.__name__: lambda value, cls=cls: isinstance(value, cls) for cls in (str, list, tuple, dict, bytes)}}
_EXACT = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,), "None": (type(None),)}


def _plain(annotation):
    """The names of the types in an annotation of plain ones, such as "int | None"; () for any other."""
    names = tuple(annotation.split(" | ")) if isinstance(annotation, str) else ()
    return names if all(name in _EXACT for name in names) else ()


def _checked(function):
    """[(index, name, exact types, all types)] of the parameters that are annotated with plain types."""
    code, out = function.__code__, []
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(names[code.co_argcount - len(function.__defaults__ or ()):], function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    for i, name in enumerate(names):
        types = _plain(function.__annotations__.get(name))
        if types and defaults.get(name, 0) is None:
            types = (*types, "None")
        if types:
            out.append((i if i < code.co_argcount else 1 << 30, name, {exact for one in types for exact in _EXACT[one]}, [one for one in types if one != "None"]))
    return out


def _wrong_value(parameter, value, large):
    """(what is wrong with a parameter's value, what is expected), or None. large: the smallest int that is too large."""
    wanted = [t.strip() for t in parameter.type.split("|")]
    if not parameter.type:
        return None
    if value is None:
        fits = "None" in wanted or parameter.default == "None"
        wanted = [t for t in wanted if t != "object"] or ["value"]
    elif any(t not in _TYPES and t != "None" for t in wanted):
        return None
    elif "int" in wanted and isinstance(value, int) and not isinstance(value, bool):
        return (f"is {_text(value) or 'an int of many digits'}, which does not fit", "a smaller number") if abs(value) >= large else None
    else:
        fits = any(t in _TYPES and _TYPES[t](value) for t in wanted)
    if fits:
        return None
    shown = _text(value)
    return f"is {errors.a_type(value)}{', ' + shown if shown and value is not None else ''}", " or ".join(t if t == "None" else f"{'an' if t[0] in 'aeiou' else 'a'} {t.rpartition('.')[2]}" for t in wanted)


def _near(name, names):
    """The argument that is meant: one letter off, or of some of the same words and no other."""
    from ._elsewhere import _near as near

    words = set(name.split("_"))
    return next((one for one in names if near(name, one)), None) or next((one for one in names if set(one.split("_")) <= words or words <= set(one.split("_"))), None)


def _misfit(name, parameters, args, kwargs, bound_self):
    """(what, fix) for a call that does not match a signature; None if no mismatch is visible."""
    own = parameters[1:] if bound_self else parameters
    given = args[1:] if bound_self else args
    positional = [p for p in own if p.kind in (_BY_POSITION, _EITHER)]
    named = {p.name: p for p in own if p.kind in (_EITHER, _BY_NAME)}
    takes_rest, takes_names = (any(p.kind == kind for p in own) for kind in (_REST, _NAMES))
    if len(given) > len(positional) and not takes_rest:
        most = len(positional)
        by_name = [p.name for p in own if p.kind == _BY_NAME]
        return (f"{name}: {len(given)} argument{'s were' if len(given) > 1 else ' was'} given by position, it takes {'none' if most == 0 else f'at most {most}'}",
                f"pass {by_name[0]} by name" if by_name else "leave the others out" if most else "call it without arguments")
    for key in kwargs:
        if key not in named and not takes_names:
            from . import _habits

            near = _near(key, list(named))
            return f"{name}: there is no argument '{key}'", _habits.keyword(key, named) or (f"write {near}=" if near else "leave it out" if not named else f"it may be one of: {', '.join(named)}")
        if key in [p.name for p in positional[:len(given)]]:
            return f"{name}: the argument '{key}' was given twice, by position and by name", "pass it once"
    for i, p in enumerate(own):
        if p.kind in (_REST, _NAMES) or p.default is not None:
            continue
        if not (p.name in kwargs or (i < len(given) and p.kind != _BY_NAME)):
            return f"{name}: the argument '{p.name}' is missing", f"pass {p.name}"
    for large in (2**63, 2**31):  # a C++ int is narrower
        for p, value in [*zip(positional, given), *((named[k], v) for k, v in kwargs.items() if k in named)]:
            wrong = _wrong_value(p, value, large)
            if wrong:
                return f"{name}: the argument '{p.name}' {wrong[0]}", f"pass {wrong[1]}"
    return None


def _ours(traceback):
    """Whether only code of Lamina and NumPy ran, so that no user code raised the error."""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and f"{os.sep}numpy{os.sep}" not in file and not file.startswith("<frozen"):
            return False
        traceback = traceback.tb_next
    return True


def _signature(name, callable, bound_self):
    parameters = _parameters(callable)
    if parameters is None:
        return None, name
    shown = parameters[1:] if bound_self else parameters
    return parameters, f"{name}({', '.join(map(str, shown))})"


def _habit(callable, args, bound_self):
    """What to write where the arguments stand as another framework takes them; None if that is not seen, or an argument has no text."""
    from . import _habits

    parameters = _parameters(callable) if args else None
    try:
        return _habits.positions(_name(callable), [p.name for p in parameters[bound_self:]], args[bound_self:]) if parameters else None
    except Exception:
        return None


def _wants_line(error):
    """Whether an error names an argument or a file but not the line that passed it."""
    return error.where == "" or (error.where.startswith("argument") and ":" not in error.where) or (error.where.startswith("file '") and ", at " not in error.where)


def _items(value, depth=4):
    """A value and what is in it, where that is little."""
    yield value
    if isinstance(value, (list, tuple)) and len(value) <= 8 and depth:
        for one in value:
            yield from _items(one, depth - 1)


def _meant(error, parameters, args, kwargs):
    """The argument that an error tells of by its text, or begins with by its value or type, and does not name; None where it may be one of several."""
    import re

    found, what = {}, re.sub(r"^\w+: ", "", error.what)
    for name, value in [*zip([p.name for p in parameters if p.kind in (_BY_POSITION, _EITHER)], args), *kwargs.items()]:
        begins = [text(one) for one in _items(value) for text in (errors.shown, errors.a_type)]
        if isinstance(value, str) and repr(value) in what or any(what.startswith(f"{text} ") for text in begins):
            found[name] = value
    if len(found) > 1:  # "an int is not an initializer" is about kernel_initializer
        found = [name for name in found if any(re.search(rf"\b{part}\b", what) for part in name.split("_"))]
    name = next(iter(found), "")
    return name if len(found) == 1 and not re.search(rf"\b{name}\b", f"{error.what} {error.why} {error.fix}" if len(name) > 4 else error.what) else None


def _named_by_type(name, text, parameters, args, kwargs):
    """(what, fix) for a text of Python's that tells of an argument by its type alone, such as "'int' object is not callable"; None where it may be several."""
    import re

    types = {one or other for one, other in re.findall(r"'(\w+)'|\bnot (\w+)$", text)}
    given, by_name = [*zip([p.name for p in parameters if p.kind in (_BY_POSITION, _EITHER)], args), *kwargs.items()], {p.name: p for p in parameters}
    found = [(argument, value) for argument, value in given if type(value).__name__ in types and not (argument in by_name and _plain(by_name[argument].type) and _wrong_value(by_name[argument], value, 2**63) is None)]
    if len(found) != 1:
        return None
    argument, value = found[0]
    shown = _text(value)
    return f"{name}: the argument '{argument}' is {errors.a_type(value)}{', ' + shown if shown and value is not None else ''}", "pass a function" if "callable" in text else f"pass what help() says of {argument}"


def complete(error, callable, args, kwargs, bound_self=False):
    """An Error of Lamina with all parts; missing ones are derived from the call."""
    line = errors._user_line()
    inner, before = getattr(error, "_meant", (None, None))  # the line at which a call that this one made has named its own argument, and what was there
    if inner == line:
        error.where = before
    told = error.why and error.fix and not _wants_line(error)
    if told and "argument" in error.where or isinstance(error, errors.AssertionFailed):  # the message of a check is the user's
        return error
    name = _name(callable, args, bound_self)
    parameters, signature = _signature(name, callable, bound_self)
    meant = None if "argument" in error.where or parameters is None else _meant(error, parameters[bound_self:], args[bound_self:], kwargs)
    if told and not meant and inner != line:
        return error
    if meant:
        error._meant = line, error.where
        error.where = f"argument '{meant}'" + (f", at {error.where or line}" if error.where or line else "")
    elif line and _wants_line(error):
        error.where += f", at {line}" if error.where else line
    why = error.why or f"the call was {_called(name, args[bound_self:], kwargs)}"
    fix = error.fix or f"check the arguments of {signature}"
    changed = type(error)(error.what, error.where, why, fix)
    error.args, error.where, error.why, error.fix = changed.args, changed.where, why, fix
    return error


def _of_callee(name, text, callable):
    """The error where Lamina called a function that it was given with other arguments than that takes; None for other errors."""
    import inspect
    import re

    found, short = re.match(r"(\S+)\(\) ((?:missing|takes|got) .+)", text), name.rpartition(".")[2]
    if not found or short in found[1].split("."):
        return None
    lines = [line for line in (inspect.getdoc(callable) or "").splitlines() if line.strip() and not line.startswith(f"{short}(")]
    return errors.TypeMismatch(f"{name}: the function {found[1].rpartition('<locals>.')[2]} {found[2]}", why=f"{name} is: {lines[0].strip()}" if lines else f"{name} calls it", fix="give the function the parameters that it is called with")


def _tracing():
    from . import _core  # imported while this module is being imported
    return not _core.executing_eagerly()


def explain(callable, args, kwargs, error, bound_self=False):
    """The error to raise for an error in a call of Lamina: itself, or Lamina's replacement."""
    habit = _habit(callable, args, bound_self) if isinstance(error, (errors.TypeMismatch, TypeError)) or _name(callable).endswith("transpose") else None
    if isinstance(error, errors.Error):
        if habit:
            error.args, error.fix = type(error)(error.what, error.where, error.why, habit).args, habit
        return complete(error, callable, args, kwargs, bound_self)
    memory = isinstance(error, MemoryError) or str(error).startswith(("std::bad_alloc", "vector::", "cannot create std::vector"))
    if memory:
        return errors.OutOfMemory(f"{_name(callable)}: there is not enough memory", why=f"the call was {_called(_name(callable), args[bound_self:], kwargs)}", fix="ask for less at a time")
    if not isinstance(error, _FOREIGN) or isinstance(error, _STAY):
        return error
    name, text = _name(callable, args, bound_self), str(error)
    parameters, signature = _signature(name, callable, bound_self)
    why = f"it takes {signature}"
    misfit = _misfit(name, parameters, args, kwargs, bound_self) if parameters is not None else None
    if not misfit and isinstance(error, (TypeError, AttributeError)) and parameters is not None:
        misfit = _named_by_type(name, text, parameters[bound_self:], args[bound_self:], kwargs)
    if misfit and misfit[0].endswith("is a NoneType") and _tracing():
        why, habit = errors.OPEN_LENGTH
    if misfit and isinstance(error, (TypeError, AttributeError)):
        return errors.TypeMismatch(misfit[0], why=why, fix=habit or misfit[1])
    if isinstance(error, TypeError) and (told := _of_callee(name, text, callable)):
        return told
    if "incompatible function arguments" in text or "no constructor" in text:
        if "no constructor" in text:
            return errors.TypeMismatch(f"{name}: objects of this class are made by Lamina alone", why="it has no constructor", fix="write lm.constant(values)" if name == "Tensor" else "use what the functions of lm return")
        return errors.TypeMismatch(f"{name}: the arguments of {_called(name, args[bound_self:], kwargs)} do not fit", why=why, fix="pass values of the types that help() names")
    kind = errors.TypeMismatch
    owner, missing = getattr(error, "missing", (getattr(error, "obj", None), getattr(error, "name", None)))
    if isinstance(error, AttributeError) and missing:
        if bound_self and owner is args[0]:
            return errors.StateError(f"{name}: the {type(owner).__name__} has no '{missing}' yet", why="its __init__ has not run, or not to its end", fix="call super().__init__() first in __init__")
        return errors.TypeMismatch(f"{name}: {errors.a_type(owner)} does not fit here", why=f"it has no '{missing}'; the call was {_called(name, args[bound_self:], kwargs)}",
                                   fix=f"check the arguments of {signature}")
    if text == "std::bad_cast":
        text = f"an argument of {_called(name, args[bound_self:], kwargs)} is of a type that does not fit"
    elif not isinstance(error, (TypeError, AttributeError)):
        kind = next(ours for theirs, ours in _KINDS if isinstance(error, theirs)) if not isinstance(error, LookupError) or isinstance(error, (KeyError, IndexError)) else errors.InvalidArgument
    text = text if text.startswith(f"{name}:") else f"{name}: {text or type(error).__name__}"
    return kind(text.splitlines()[0], why=f"the call was {_called(name, args[bound_self:], kwargs)}", fix=habit or f"check the arguments of {signature}")


def failed(callable, args, kwargs, bound_self, error):
    """What a failed compiled function raises, or its result where it was given a symbolic tensor of a model; called by src/border.cpp."""
    symbolic = sys.modules.get(f"{__package__}.nn.symbolic")
    if symbolic and isinstance(error, TypeError):
        try:
            if symbolic.contains_symbolic((args, kwargs)):
                return symbolic.record(callable, args, kwargs)
        except errors.Error as problem:
            return problem
        except Exception:  # of a value that cannot be looked into
            pass
    if not isinstance(error, errors.Error) and not _ours(error.__traceback__):
        return error
    if isinstance(error, AttributeError) and len(args) + len(kwargs) <= bound_self:
        return error  # a property's, as hasattr() expects
    return explain(callable, args, kwargs, error, bound_self)


def guarded(function, bound_self=False, stay=()):
    """Wraps a function so that it refuses values of other types than its annotations' plain ones, and raises explain() of its errors, except errors of the types in `stay`."""
    checked = _checked(function)

    @functools.wraps(function)
    def border(*args, **kwargs):
        for i, name, exact, kinds in checked:
            if i < len(args):
                value = args[i]
            elif name in kwargs:
                value = kwargs[name]
            else:
                continue
            if type(value) in exact:
                continue
            if not any(_TYPES[one](value) for one in kinds):
                raise explain(function, args, kwargs, TypeError(name), bound_self)
            if kinds == ["bool"]:  # NumPy's
                args, kwargs = (*args[:i], bool(value), *args[i + 1:]) if i < len(args) else args, kwargs | {name: bool(value)} if name in kwargs else kwargs
        try:
            return function(*args, **kwargs)
        except stay:
            raise
        except Exception as error:
            if not isinstance(error, errors.Error) and not _ours(error.__traceback__):
                raise
            other = explain(function, args, kwargs, error, bound_self)
            if other is error:
                raise
            raise other.with_traceback(error.__traceback__) from None

    border.__lamina_border__ = True
    return border


def _shown(show):
    """A __repr__ that also shows an object whose __init__ has not run to its end."""
    @functools.wraps(show)
    def shown(self):
        try:
            return show(self)
        except (AttributeError, errors.StateError):
            return f"<{type(self).__name__}, not made yet>"

    return shown


def _guard_class(cls):
    for name, value in list(vars(cls).items()):
        if name == "__repr__" and isinstance(value, types.FunctionType):
            cls.__repr__ = _shown(value)
        if type(value) is property and not name.startswith("_"):
            get, set = (f and not hasattr(f, "__lamina_border__") and guarded(f, True, AttributeError) for f in (value.fget, value.fset))
            if get or set:
                setattr(cls, name, property(get or value.fget, set or value.fset, value.fdel, value.__doc__))
        if name.startswith("_") and name not in ("__init__", "__call__", "__getitem__", "__len__", "__iter__", "__enter__", "__deepcopy__", "__reduce_ex__", "__setstate__"):
            continue
        kind = type(value) if isinstance(value, (staticmethod, classmethod)) else None
        function = value.__func__ if kind else value
        if isinstance(function, types.FunctionType) and not hasattr(function, "__lamina_border__") and not function.__code__.co_flags & 0x20:
            made = guarded(function, kind is not staticmethod)
            setattr(cls, name, kind(made) if kind else made)


_OF_LM = ("numeric", "numpy_like", "linalg", "xp", "transforms", "saving", "checkpoints")  # modules with functions of lm, or with what is called as they are


def _name_errors(namespace):
    """Puts what src/raises.inc says of a module's functions and classes behind their docstrings."""
    from ._core import _raised_by

    parts = namespace["__name__"].split(".")[1:]
    bare = parts[0] in _OF_LM or parts[0].startswith("_")
    for name, value in namespace.items():
        own = getattr(value, "__module__", None) == namespace["__name__"]
        if name.startswith("_") or not value.__doc__ or not (isinstance(value, types.FunctionType) and own or isinstance(value, type) and (own or name in namespace.get("__all__", ()))):
            continue
        keys = [".".join([*parts[start:end], name]) for start in (0, 1) for end in range(len(parts), -1, -1) if bare or end > start]
        raises = next(filter(None, map(_raised_by, keys)), "")
        if raises and raises not in value.__doc__:
            value.__doc__ = value.__doc__.rstrip() + ("\n\n    " if "\n    " in value.__doc__ else "\n\n") + raises


def guard(namespace):
    """Guards the public functions and classes written in a module. Call it at the module's end with its globals()."""
    module = namespace["__name__"]
    _name_errors(namespace)
    for name, value in list(namespace.items()):
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, type):
            _guard_class(value)  # methods of a private base are public too
        elif not name.startswith("_") and isinstance(value, types.FunctionType) and not hasattr(value, "__lamina_border__"):
            namespace[name] = guarded(value)
