"""fit(checkpoint=...): where training is saved as it goes, and how it resumes."""
from __future__ import annotations


from .. import _core, errors
from .._structure import unflatten
from ..checkpoints import Checkpoint
from .symbolic import Symbolic, symbolic_call


class Run:
    """One call of fit. It begins with the random state that the first one began with, so that its data come in the same order."""

    def __init__(self, checkpoint, every, model):
        if every != "epoch" and not (errors.is_whole(every) and every >= 1):
            raise errors.InvalidArgument(f"fit: checkpoint_every {errors.shown(every)} is not a number of steps", why='it is a positive integer or "epoch"', fix='pass "epoch"')
        self.saved = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.saved.model, self.saved.optimizer = self.saved.model or model, self.saved.optimizer or model.optimizer
        self.model, self.every, self.found = model, every, self.saved._newest()
        if self.found is not None and "fit" not in self.found[1]:
            raise errors.InvalidArgument(f"fit: step {self.found[0]} in '{self.saved.folder}' was not saved by fit", why="it does not say how far the epoch was", fix="use another folder")
        self.start = list(_core.random.get_state()) if self.found is None else self.found[1]["fit"]["start"]
        _core.random.set_state(self.start)

    def resume(self, feed, steps, history):
        """(epoch, steps done of it, totals so far) of the last checkpoint, with everything as it was then; None when there is none."""
        self.feed, self.saved.data, self.steps, self.history, self.inputs = feed, feed.data, steps, history, None
        if self.found is None:
            return None
        fit = self.found[1]["fit"]
        self.inputs = fit.get("inputs")
        if fit["steps"] != steps:
            raise errors.InvalidArgument(f"fit: an epoch has {steps} steps, in '{self.saved.folder}' it had {fit['steps']}", why="training resumes in the middle of the same data",
                                         fix="pass the data and the batch_size of the run that was saved, or use another folder")
        self._build(feed.data)
        self.saved._put_back(*self.found, position=False)
        history.history, history.epoch = fit["history"], fit["epochs"]
        return fit["epoch"], fit["step"], fit["totals"]

    def put_back(self):
        """The state as it was at the checkpoint, once more after what callbacks do at the beginning of training, or of the epoch if that had begun: it was saved after that."""
        self.saved._put_back(*self.found)
        self.feed.go_on()

    def _build(self, data):
        """Makes the weights of a model that has no Input, from the shapes of the first batch."""
        if self.model.built or self.model.variables:
            return
        if self.inputs is None and data._form.specs is not None:  # a file without them
            self.inputs = _written(unflatten(data._form.structure, [_core.TensorSpec(list(shape), dtype) for shape, dtype in data._form.specs])[0])
        if self.inputs is None:
            raise errors.StateError("fit: the weights of the model do not exist yet", why="inputs by name do not say how it is called", fix="call it once on data before fit")
        symbolic_call(self.model, (_read(self.inputs),), None, {})

    def began(self, inputs):
        """Before each step; the first one's inputs are saved."""
        if self.inputs is None:
            self.inputs = _written(inputs)

    def after_step(self, epoch, step, totals):
        self._save(epoch, step, totals.state, self.every != "epoch" and (epoch * self.steps + step) % self.every == 0)

    def after_epoch(self, epoch, last):
        self._save(epoch, 0, lambda: None, last or self.every == "epoch")

    def _save(self, epoch, step, totals, wanted):
        self.saved._save(epoch * self.steps + step, lambda: {"fit": {
            "epoch": epoch, "step": step, "steps": self.steps, "totals": totals(), "start": self.start, "history": self.history.history, "epochs": self.history.epoch,
            "inputs": self.inputs}}, wanted)


def _written(inputs):
    """Inputs for JSON: [shape, dtype] of a tensor, with its rows left open, and lists of these; None where a dict is among them."""
    if isinstance(inputs, dict):
        return None
    if isinstance(inputs, (tuple, list)):
        parts = [_written(part) for part in inputs]
        return None if None in parts else {"parts": parts}
    return [[None, *inputs.shape[1:]], str(inputs.dtype)]


def _read(written):
    if isinstance(written, dict):
        return tuple(map(_read, written["parts"]))
    return Symbolic(_core.TensorSpec(*written))
