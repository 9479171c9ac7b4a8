"""Module: Variables, other Modules and traced functions in attributes. What layers and saved programs share."""
from __future__ import annotations

from . import _border, _core, _pickle, _state, _structure, errors
from ._structure import flatten, is_container, unflatten


class Module:
    """Base of objects with state. Variables and Modules in attributes are found automatically, also inside lists, tuples, dicts and
    dataclasses. lm.save saves a Module with its traced methods (@lm.function)."""

    _lamina_whole = True

    _trainable = True
    # Attributes whose contents have names of their own, and those that hold no part of the module.
    _unnamed: tuple = ()
    _not_inside: tuple = ()

    def __init__(self):
        pass

    def __setattr__(self, name, value):
        if _is_inside(value) or _is_inside(self.__dict__.get(name)):
            _core.trainable_changed()  # models look whether their traced steps are still those of their parts
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol):
        _pickle.require_by_name(self)
        return object.__reduce_ex__(self, max(protocol, 2))

    def __getstate__(self):
        return dict(vars(self))

    def __setstate__(self, state):
        vars(self).update(state)

    def __deepcopy__(self, memo):
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(_pickle.copied_parts(self, memo))
        return made

    @property
    def trainable(self) -> bool:
        """Whether training changes the weights of this module. Assigning it also assigns that of all modules inside; a weight that is reached on several ways is trained when every module
        on them is trainable. Traced functions are retraced after a change."""
        _core.trainable_read(self, self._trainable)
        return self._trainable

    @trainable.setter
    def trainable(self, value) -> None:
        for module in parts_of(self):
            if isinstance(module, Module) and module._trainable != bool(value):
                module._trainable = bool(value)
                _core.trainable_changed()

    @property
    def modules(self) -> list:
        """The Modules directly inside this one, each once, in attribute order."""
        return [child for child in _children(self) if isinstance(child, Module)]

    @property
    def variables(self) -> list:
        """All Variables of this module and of those inside it, each once."""
        return [variable for variable, _ in _collect(self)]

    @property
    def trainable_variables(self) -> list:
        """The variables that training changes."""
        return [variable for variable, trainable in _collect(self) if trainable]

    @property
    def non_trainable_variables(self) -> list:
        """The Variables that no optimizer changes, such as moving statistics, in the order of `variables`."""
        return [variable for variable, trainable in _collect(self) if not trainable]

    def state_dict(self) -> dict:
        """{path: NumPy copy} of every variable. A path consists of attributes and positions, as in "hidden.0.kernel". np.savez(file,
        **state) writes it to a file."""
        return _state.read(_paths(self))

    def load_state_dict(self, state, strict: bool = True) -> None:
        """Assigns a dict from state_dict() or np.load(file). If something does not fit, nothing is changed.

        Raises NotFound for names that are missing or unknown unless strict is False, InvalidArgument for other shapes, TypeMismatch for
        other dtypes.
        """
        _state.write_state("load_state_dict", self._described(), self._named_variables("load_state_dict"), state, strict)

    def _described(self) -> str:
        return type(self).__name__

    def _named_variables(self, what: str) -> dict:
        return _paths(self)


def _is_inside(value) -> bool:
    return isinstance(value, (Module, _core.Variable)) or is_container(value)


def specs_of(value, open_rows=False):
    """An argument with TensorSpecs instead of its tensors and TensorSpecs. open_rows: for any length of their first axis, which is the same in all of them."""
    def spec(leaf):
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        shape = list(leaf.shape)
        shape = ["n", *shape[1:]] if open_rows and shape else shape
        try:
            return _core.TensorSpec(shape, leaf.dtype)
        except errors.TypeMismatch:  # a dtype of another library, such as PyTorch's
            return _core.TensorSpec(shape, _core.constant(leaf).dtype)

    leaves, structure = flatten(value)
    return unflatten(structure, map(spec, leaves))


def contents(container):
    return container if isinstance(container, (list, tuple)) else container.values() if isinstance(container, dict) else _structure.parts_of(container).values()


def _children(module, containers=None):
    """Modules and Variables in the attributes, in order, through containers; each once."""
    seen = set()
    waiting = [value for name, value in reversed(list(vars(module).items())) if name not in module._not_inside]
    while waiting:
        value = waiting.pop()
        if not _is_inside(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Module, _core.Variable)):
            yield value
        else:
            inside = list(contents(value))
            waiting.extend(reversed(inside))
            if containers is not None:
                containers.append((value, inside))


def parts_of(module, containers=None) -> list:
    """The module, and all Modules and Variables inside, each once. The containers that were looked through are added to `containers`, each with its contents."""
    found, waiting = {id(module): module}, [module]
    while waiting:
        for child in _children(waiting.pop(), containers):
            if id(child) not in found:
                found[id(child)] = child
                if isinstance(child, Module):
                    waiting.append(child)
    return list(found.values())


def _collect(module):
    """(variable, whether training changes it) for all variables inside, each once. It does where every module on every way to the variable is trainable."""
    found = {}
    _visit(module, True, found, {})
    return list(found.values())


def _visit(node, trainable, found, modules):
    trainable = trainable and node.trainable
    if id(node) in modules and (trainable or not modules[id(node)]):
        return
    modules[id(node)] = trainable
    for child in _children(node):
        if isinstance(child, Module):
            _visit(child, trainable, found, modules)
        else:
            found[id(child)] = (child, trainable and child.trainable and found.get(id(child), (child, True))[1])


def _paths(module) -> dict:
    """{path: variable} for all variables inside, each once, in the order of `variables`."""
    found, seen, waiting = {}, set(), [(module, ())]
    while waiting:
        value, path = waiting.pop()
        if not _is_inside(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _core.Variable):
            found[".".join(path)] = value
            continue
        if isinstance(value, Module):
            parts = [(inside, path if name in value._unnamed else (*path, name)) for name, inside in list(vars(value).items()) if name not in value._not_inside]
        else:
            parts = [(inside, (*path, str(key))) for key, inside in _structure.parts_of(value).items()]
        waiting.extend(reversed(parts))
    return found


_border.guard(globals())
