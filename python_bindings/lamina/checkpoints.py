"""Checkpoints: what training needs to go on where it was, with the same bits, in one file for each step that was saved."""
from __future__ import annotations

import json
import numbers
import operator
import os
import re
import signal
import sys
import warnings
import weakref

from . import _border, _core, _state, distributed, errors, saving

_NAME = re.compile(r"step-(\d{12})\.safetensors")
_KEY = "lamina.checkpoint"
_VERSION = 1  # of what is under the key; files without one have 1
STOPPED = 75  # status of a program that was asked to stop and has saved: EX_TEMPFAIL of sysexits.h, "try again"


class Checkpoint:
    """Files of a folder, one per saved step: the weights of a model, the state of an optimizer, the random generators, and the position in a Dataset.

        saved = lm.Checkpoint("run1", net, adam, data=feed)
        step = saved.restore() or 0
        for x, y in feed:                  # goes on after the last batch that was saved
            step += 1
            train(x, y)
            saved.save(step)

    A file replaces nothing until it is complete and on the disk: after a kill or a power failure, every step whose save() has returned is there. The `keep` newest stay.
    save() writes the steps that `every` divides, and leaves out the others.

    In a job of several ranks all call save() and restore() together. Rank 0 writes and reads; a file does not say how many ranks there were, and any number goes on
    from it.

    SIGTERM and SIGUSR1, by which schedulers announce that they take the machine away, no longer end a program that has called save(): the next save() on every rank
    writes its step, also one that `every` does not divide, and raises SystemExit(75). A second such signal ends the program at once. Signals that the program
    handles itself are left to it.
    """

    def __init__(self, folder, model=None, optimizer=None, data=None, *, keep: int = 2, every: int = 1):
        errors.in_range("Checkpoint", "it is how many files stay", 1, keep=keep)
        errors.in_range("Checkpoint", "it is a number of steps", 1, every=every)
        if model is not None and not isinstance(model, dict) and not hasattr(model, "_named_variables"):
            raise errors.TypeMismatch(f"Checkpoint: model is {errors.a_type(model)}", why="its weights are saved", fix="pass a model, a layer, or a dict of Variables")
        if optimizer is not None and not hasattr(optimizer, "apply_gradients"):
            raise errors.TypeMismatch(f"Checkpoint: optimizer is {errors.a_type(optimizer)}", why="its state is saved", fix="pass one of lm.optim")
        if data is not None and not hasattr(data, "_position"):
            raise errors.TypeMismatch(f"Checkpoint: {errors.a_type(data)} does not know its position", why="it must be a Dataset, or lm.distributed.shard of one", fix="leave out data=")
        self.folder, self.keep, self.every = errors.path_of("Checkpoint", folder, "folder"), operator.index(keep), operator.index(every)
        self.model, self.optimizer, self.data = model, optimizer, data
        self._damaged: set[int] = set()
        self._expects_stops = False

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

        Raises InvalidArgument when the folder has a later step, which restore() would take; BadFile when it cannot be written; RankMismatch when the ranks have
        different states or steps; SystemExit when the program was asked to stop. Errors are raised on all ranks."""
        self._save(step, dict, isinstance(step, numbers.Integral) and step % self.every == 0)

    def restore(self) -> int | None:
        """Puts everything back as it was at the last step that was saved, and returns that step; None when there is none. A damaged file is left out with a warning
        that says why, and the one before it is used. Every rank gets the same.

        Raises what lm.load_weights raises when the file does not fit the model or the optimizer, and BadFile when no file is whole, or one is of a newer Lamina; then
        nothing has changed."""
        found = self._newest()
        if found is None:
            return None
        self._put_back(*found)
        return found[0]

    def _save(self, step, more, wanted):
        """Ends a step. If it is wanted, or the program was asked to stop, the state is saved with what `more` returns for JSON beside it."""
        if not (errors.is_whole(step) and 0 <= step < 10**12):
            raise errors.InvalidArgument(f"Checkpoint.save: {errors.shown(step)} is no step", why="it is a number from 0 to 999,999,999,999", fix="pass how many steps were done")
        step = operator.index(step)
        ranks = distributed._join()
        if not self._expects_stops:
            self._expects_stops = True
            ranks.expect_stops(True)
            weakref.finalize(self, ranks.expect_stops, False)
        name = f"{self.folder}: checkpoint of step {step}"  # of a long text the end is kept
        stop = ranks.end_of_step(name)
        if not wanted and not stop:
            return
        tensors = {key: variable.read() for key, variable in self._variables().items()}
        state = {**({"version": _VERSION} if _VERSION > 1 else {}), "step": step, "random": list(_core.random.get_state()), "data": None if self.data is None else self.data._position()} | more()
        if ranks.size() > 1:
            text = json.dumps([state["random"], state["data"]]).encode()
            distributed._require_same("Checkpoint.save", {"random generators and position in the data": text} | tensors, name)
        distributed._on_rank_0(lambda warn: self._write(step, state, tensors), name)
        if stop:
            if ranks.rank() == 0:
                print(f"lamina: {signal.Signals(stop).name}: step {step} is saved in '{self.folder}'; the program ends with status {STOPPED}", file=sys.stderr, flush=True)
            raise SystemExit(STOPPED)

    def _write(self, step, state, tensors):
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as problem:
            raise self._unusable(problem) from None
        steps = self.steps()
        later = [s for s in steps if s > step and s not in self._damaged]
        if later:
            raise errors.InvalidArgument(f"Checkpoint.save: '{self.folder}' has step {later[-1]} already, which comes after {step}", why="restore() takes the last step",
                                         fix="call restore() first, or use another folder")
        saving.save_tensors(self._path(step), tensors, {_KEY: json.dumps(state)})
        self._damaged.discard(step)
        self._remove([s for s in steps if s < step and s not in self._damaged][:1 - self.keep or None] + sorted(self._damaged))
        self._damaged.clear()
        return None, {}

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
        """(step, state, tensors) of the last file that is whole, as rank 0 reads it; None when there is none."""
        def warn(text):
            warnings.warn(text, stacklevel=6)

        found, tensors = distributed._on_rank_0(self._read, f"checkpoint in {self.folder}", warn)
        return found and (*found, tensors)

    def _read(self, warn):
        reasons = []
        for step in reversed(self.steps()):
            path = self._path(step)
            try:
                tensors, state = saving.load_tensors(path), json.loads(saving.load_metadata(path)[_KEY])
                version = state.get("version", 1)
                if state["step"] != step:
                    raise errors.BadFile("it is the file of another step", where=f"file '{path}'")
            except (errors.BadFile, KeyError, ValueError, TypeError, AttributeError) as problem:
                self._damaged.add(step)
                reason = getattr(problem, "what", None) or problem
                reasons.append(f"step {step}: {reason}")
                warn(f"the checkpoint of step {step} is left out: {reason} ('{path}')")
                continue
            if not isinstance(version, int) or version > _VERSION:
                raise errors.BadFile(f"Checkpoint: step {step} was saved by a newer Lamina", f"file '{path}'", f"its format has version {version}, this Lamina knows {_VERSION}",
                                     "use the Lamina that has written it, or remove the file to go on from an earlier step")
            return [step, state], tensors
        if reasons:
            raise errors.BadFile("Checkpoint.restore: no checkpoint is whole", f"folder '{self.folder}'", "; ".join(reasons), "put a whole one back, or use another folder to begin again")
        return None, {}

    def _put_back(self, step, state, tensors, position=True):
        optimizer, of_model = self.optimizer, self._of_model()
        with_slots = {name[10:].rpartition("/")[0] for name in tensors if name.startswith("optimizer/")}
        trained = [variable for name, variable in of_model.items() if name in with_slots]  # whichever train now
        if trained and optimizer is not None:
            (optimizer.add_variables if optimizer.built else optimizer.build)(trained)
        variables = self._variables()
        try:
            _state.write("Checkpoint.restore", self.folder, variables, {n: v for n, v in tensors.items() if n in variables}, list(tensors),
                         [n for n in tensors if n not in variables], True, f"step {step}")
        except errors.Error as problem:
            raise type(problem)(problem.what, problem.where, problem.why, "restore into a model and an optimizer built as in the first run, or use another folder to begin again") from None
        if position and self.data is not None and state["data"] is not None:
            self.data._go_to(*state["data"])
        _core.random.set_state(state["random"])

    def _of_model(self) -> dict:
        return {} if self.model is None else {f"model/{name}": variable for name, variable in saving._variables("Checkpoint", self.model).items()}

    def _variables(self) -> dict:
        found = self._of_model()
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
