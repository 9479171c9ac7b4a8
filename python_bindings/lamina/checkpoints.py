"""Checkpoints: what training needs to go on where it was, with the same bits, in one file for each step that was saved."""
from __future__ import annotations

import json
import os
import re
import warnings

from . import _border, _core, _state, errors, saving

_NAME = re.compile(r"step-(\d{12})\.safetensors")
_KEY = "lamina.checkpoint"


class Checkpoint:
    """Files of a folder, one per saved step: the weights of a model, the state of an optimizer, the random generators, and the position in a Dataset.

        saved = lm.Checkpoint("run1", model=net, optimizer=adam, data=feed)
        step = saved.restore() or 0
        for x, y in feed:                  # goes on after the last batch that was saved
            step += 1
            train(x, y)
            saved.save(step)

    A file replaces nothing until it is complete and on the disk: after a kill or a power failure, every step whose save() has returned is there. The `keep` newest stay.
    """

    def __init__(self, folder, *, model=None, optimizer=None, data=None, keep: int = 2):
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise errors.InvalidArgument(f"Checkpoint: keep {errors.shown(keep)} is not a positive integer", why="at least the last one stays", fix="pass 2")
        self.folder, self.keep = os.fspath(folder), keep
        self.model, self.optimizer, self.data = model, optimizer, data
        self._damaged: set[int] = set()

    def steps(self) -> list:
        """The steps that have a file, in rising order."""
        try:
            return sorted(int(found[1]) for found in map(_NAME.fullmatch, os.listdir(self.folder)) if found)
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise self._unusable(problem) from None

    def save(self, step: int) -> None:
        """Writes the state as it is now under this step, and removes all but the newest. When it has returned, the step survives a kill and a power failure.

        Raises InvalidArgument when the folder has a later step, which restore() would take; BadFile when it cannot be written."""
        self._save(step, {})

    def restore(self) -> int | None:
        """Puts everything back as it was at the last step that was saved, and returns that step; None when there is none. A damaged file is left out with a warning
        that says why, and the one before it is used.

        Raises what lm.load_weights raises when the file does not fit the model or the optimizer; then nothing has changed."""
        found = self._newest()
        if found is None:
            return None
        self._put_back(*found)
        return found[0]

    def _save(self, step, more):
        """save(), with more that JSON holds beside the state."""
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 10**12:
            raise errors.InvalidArgument(f"Checkpoint.save: {errors.shown(step)} is no step", why="it is a number from 0 to 999,999,999,999", fix="pass how many steps were done")
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as problem:
            raise self._unusable(problem) from None
        steps = self.steps()
        later = [s for s in steps if s > step and s not in self._damaged]
        if later:
            raise errors.InvalidArgument(f"Checkpoint.save: '{self.folder}' has step {later[-1]} already, which comes after {step}", why="restore() takes the last step",
                                         fix="call restore() first, or use another folder")
        state = {"step": step, "random": list(_core.random.get_state()), "data": None if self.data is None else self.data._position()} | more
        tensors = {name: variable.read() for name, variable in self._variables().items()}
        saving.save_tensors(self._path(step), tensors, {_KEY: json.dumps(state)})
        self._damaged.discard(step)
        self._remove([s for s in steps if s < step][:1 - self.keep or None] + sorted(self._damaged))
        self._damaged.clear()

    def _remove(self, steps):
        """Files that are not needed, and what killed saves left behind."""
        names = {os.path.basename(self._path(step)) for step in steps}
        for name in os.listdir(self.folder):
            if name in names or (not _NAME.fullmatch(name) and _NAME.search(name)):
                try:
                    os.remove(os.path.join(self.folder, name))
                except FileNotFoundError:
                    pass

    def _newest(self):
        """(step, state, tensors) of the last file that is whole; None when there is none."""
        for step in reversed(self.steps()):
            path = self._path(step)
            try:
                tensors, state = saving.load_tensors(path), json.loads(saving.load_metadata(path)[_KEY])
                if state["step"] != step:
                    raise errors.BadFile("it is the file of another step", where=f"file '{path}'")
                return step, state, tensors
            except (errors.BadFile, KeyError, ValueError, TypeError) as problem:
                self._damaged.add(step)
                warnings.warn(f"the checkpoint of step {step} is left out: {getattr(problem, 'what', None) or problem} ('{path}')", stacklevel=4)
        return None

    def _put_back(self, step, state, tensors):
        optimizer = self.optimizer
        if optimizer is not None and not optimizer.built and self.model is not None and any(name.startswith("optimizer/") and "/" in name[10:] for name in tensors):
            optimizer.build(self.model.trainable_variables)
        variables = self._variables()
        _state.write("Checkpoint.restore", self.folder, variables, {n: v for n, v in tensors.items() if n in variables}, list(tensors),
                     [n for n in tensors if n not in variables], True, f"step {step}")
        if self.data is not None and state["data"] is not None:
            self.data._go_to(*state["data"])
        _core.random.set_state(state["random"])

    def _variables(self) -> dict:
        found = {}
        if self.model is not None:
            found |= {f"model/{name}": variable for name, variable in saving._variables("Checkpoint", self.model).items()}
        if self.optimizer is not None:
            names = {hash(variable): name for name, variable in found.items()}  # a hash is the Variable's identity
            found |= {f"optimizer/{v.name.rpartition('/')[2]}": v for v in _state.beside_slots(self.optimizer)}
            found |= {f"optimizer/{names.get(key, f'variable/{i}')}/{name}": slot
                      for i, (key, group) in enumerate(_state.slots_of(self.optimizer).items()) for name, slot in group.items()}
        return found

    def _path(self, step) -> str:
        return os.path.join(self.folder, f"step-{step:012}.safetensors")

    def _unusable(self, problem):
        return errors.BadFile(f"Checkpoint: the folder cannot be used: {problem.strerror}", where=f"file '{self.folder}'", why="checkpoints are files in it", fix="pass a folder that can be written")

    def __repr__(self) -> str:
        return f"<lm.Checkpoint '{self.folder}' of {len(self.steps())} steps>"


_border.guard(globals())
