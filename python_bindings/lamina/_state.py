"""State dicts: the values of Variables by name, as NumPy arrays. np.savez(path, **state) writes one to a file without pickle."""
from __future__ import annotations

from . import _core, errors


def read(variables: dict) -> dict:
    """A copy of every value by name. bfloat16 becomes float32, which holds it exactly, because NumPy lacks it."""
    return {name: _array(variable.read()) for name, variable in variables.items()}


def _array(value):
    return (_core.astype(value, "float32") if value.dtype == _core.bfloat16 else value).numpy()


def write_state(call: str, owner: str, variables: dict, state, strict: bool) -> None:
    """Assigns a state dict to the Variables with its names."""
    if not hasattr(state, "keys"):
        raise errors.TypeMismatch(f"{call}: {errors.a_type(state)} is not a state dict", fix="pass what state_dict() gave: a dict of arrays by name")
    given = dict.fromkeys(state.keys())
    write(call, owner, variables, {n: state[n] for n in variables if n in given}, list(given), [n for n in given if n not in variables], strict, "the state dict")


def write(call: str, owner: str, variables: dict, values: dict, given: list, unknown: list, strict: bool, source: str) -> None:
    """Assigns the values to the Variables with their names. If one does not fit, nothing is changed, and the error lists all that do not.

    given: the source's content by its own names; unknown: those of them that belong to no Variable.
    """
    wrong = []  # errors by decreasing priority
    missing = [n for n in variables if n not in values]
    if strict and missing:
        wrong.append(errors.NotFound(f"{call}: {_some(missing)} of {owner} {_are(missing)} not in {source}", why=f"it holds {_some(given) or 'nothing'}",
                                     fix="pass the state of a model built alike, or strict=False"))
    if strict and unknown:
        wrong.append(errors.NotFound(f"{call}: {owner} has no {_some(unknown)}", why=f"it has {_some(variables)}" if variables else "its weights do not exist yet",
                                     fix="pass strict=False to leave these out" if variables else "call it once, so that its weights exist"))
    ready = {}
    for name, value in values.items():
        variable, value = variables[name], _core.constant(value)
        half = variable.dtype == _core.bfloat16 and value.dtype == _core.float32
        if tuple(value.shape) != tuple(variable.shape):
            wrong.append(errors.InvalidArgument(f"{call}: {name} of {owner} has shape {tuple(variable.shape)}, {source}'s has {tuple(value.shape)}",
                                                fix="pass the state of a model built alike"))
        elif value.dtype != variable.dtype and not half:
            wrong.append(errors.TypeMismatch(f"{call}: {name} of {owner} is {variable.dtype}, {source}'s is {value.dtype}", fix="convert the array with astype"))
        else:
            ready[name] = _core.astype(value, variable.dtype)
    if wrong:
        raise wrong[0] if len(wrong) == 1 else type(wrong[0])(
            wrong[0].what, why="; ".join([*filter(None, [wrong[0].why]), *(f"also {error.what.removeprefix(call + ': ')}" for error in wrong[1:])]), fix=wrong[0].fix)
    for name, value in ready.items():
        variables[name].assign(value)


def beside_slots(optimizer) -> list:
    """An optimizer's Variables that belong to no weight: its learning rate, its count of steps, and what else it has."""
    return optimizer.variables[:len(optimizer.variables) - len(optimizer._trained_variables) * optimizer._slots_per_variable]


def slots_of(optimizer) -> dict:
    """{hash of a Variable: {name: its slot}}"""
    slots, each = optimizer.variables[len(beside_slots(optimizer)):], optimizer._slots_per_variable
    return {hash(v): {slot.name.rpartition("/")[2]: slot for slot in slots[i * each:(i + 1) * each]} for i, v in enumerate(optimizer._trained_variables)}


def _optimizer_names(optimizer) -> dict:
    """{name: Variable}: "learning_rate", and of the weights by their number "0.momentum", whatever their layers are called."""
    own, each = beside_slots(optimizer), optimizer._slots_per_variable
    found = {v.name.rpartition("/")[2]: v for v in own}
    return found | {f"{i // each}.{v.name.rpartition('/')[2]}": v for i, v in enumerate(optimizer.variables[len(own):])}


def of_optimizer(optimizer) -> dict:
    return read(_optimizer_names(optimizer))


def into_optimizer(optimizer, state, strict) -> None:
    if strict and not optimizer.built and any(str(name)[:1].isdigit() for name in getattr(state, "keys", tuple)()):
        raise errors.NotFound(f"load_state_dict: {optimizer.name} has no slots yet", why="they exist from build() or the first step on", fix="call build(model.trainable_variables) first")
    write_state("load_state_dict", optimizer.name, _optimizer_names(optimizer), state, strict)


def _some(names) -> str:
    names = [repr(name) for name in names]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _are(names) -> str:
    return "is" if len(names) == 1 else "are"
