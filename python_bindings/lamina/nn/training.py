"""compile, fit, evaluate and predict: the methods that Model adds to Layer."""
from __future__ import annotations

import contextlib
import itertools
import math
import numbers
import operator
import sys
import warnings

from .. import _border, _core, errors, losses as losses_module, metrics as metrics_module, optim
from .._structure import flatten, unflatten
from ..module import contents, parts_of, specs_of
from ..data import Dataset
from ..progress import ProgressBar, verbosity
from .callbacks import CallbackList, History
from .feeding import as_arrays, cut, inputs_of, made_feed, loaded, no_data, require_classes, require_pair, require_rows, with_classes
from .launches import Launches
from .layer import Layer, widened
from . import masks
from .resume import Run


_TRACED = ("_train_step", "_test_step", "_predict_step", "_parallel_step", "_loops", "_trainable_changes", "_used")  # belong to one process and one object


class _Used:
    """What a model consisted of when its steps ran last."""

    __slots__ = ("parts", "containers", "changes")

    def __init__(self, model):
        self.containers, self.changes = [], _core.trainable_changes()
        self.parts = [model.optimizer, model.loss, *parts_of(model, self.containers)]

    def untouched(self, model) -> bool:
        """Whether nothing was assigned since, to attributes of any Module or in lists and dicts of this one."""
        return (self.changes == _core.trainable_changes() and self.parts[0] is model.optimizer and self.parts[1] is model.loss
                and all(_same(contents(container), before) for container, before in self.containers))


def _same(some, others) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


class Training:
    """One traced training step per batch shape; compile() defines it."""

    optimizer = None
    loss = None
    stop_training = False
    _train_step = _test_step = _predict_step = _parallel_step = None
    _used = None
    _trainable_changes = 0  # Variables known to the optimizer
    _part_names: tuple = ()  # of several outputs' losses

    def compile(self, optimizer="rmsprop", loss=None, metrics=(), run_eagerly: bool = False, loss_weights=None) -> None:
        """Sets the optimizer, the loss and the metrics: names or objects. Traces nothing and does not change the weights.

        loss(labels, predictions) and metrics may be functions. A model of several outputs takes one loss for all, a list with one for each, or a dict by name: the keys of
        its outputs, or the names of the layers that make them; the whole is their sum, times loss_weights in the same form. Its metrics are lists or a dict likewise.
        run_eagerly runs the Python code for every batch, for debugging.
        """
        scaled = self._policy == "mixed_float16"
        self.optimizer = optim._made(optimizer, **({"dynamic_loss_scale": True} if scaled else {}))
        if scaled and not getattr(self.optimizer, "_switches", {"dynamic_loss_scale": True})["dynamic_loss_scale"]:
            warnings.warn(f"compile: {self.name} computes in float16, and {self.optimizer.name} has no loss scale, so small gradients become 0: pass dynamic_loss_scale=True to it", stacklevel=2)
        self.loss = _each(loss, lambda one: None if one is None else losses_module.get(one))
        if not isinstance(loss_weights, (list, tuple, dict, type(None))):
            raise errors.TypeMismatch(f"compile: loss_weights {errors.shown(loss_weights)}", why="each output's loss has a factor", fix="pass a list of numbers, or a dict by name")
        self._loss_weights = None if loss_weights is None else _each(loss_weights, _factor)
        self._metrics, self._metric_outputs = [], []
        several = isinstance(metrics, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in metrics)
        names, seen = {}, set()  # those of each output; the loss's is taken
        for place, given in metrics.items() if isinstance(metrics, dict) else enumerate(metrics) if several else [(None, metrics)]:
            for metric in given if isinstance(given, (list, tuple)) else [given]:
                metric, taken = metrics_module.get(metric), names.setdefault(place, {"loss"})
                if id(metric) not in seen and metric.name in taken:
                    metric.name = next(name for name in (f"{metric.name}_{i}" for i in itertools.count(1)) if name not in taken)
                taken.add(metric.name), seen.add(id(metric))
                self._metrics.append(metric)
                self._metric_outputs.append(place)
        self.run_eagerly = run_eagerly
        self._make_steps()

    def _make_steps(self) -> None:
        wrap = (lambda step: step) if self.run_eagerly else lambda step: _core.function(step, of_model=True)
        self._train_step, self._test_step = wrap(self._run_train_step), wrap(self._run_test_step)
        self._predict_step, self._parallel_step, self._loops, self._used = wrap(self._run_predict_step), None, {}, None

    def _begin_steps(self) -> None:
        """Before calls of steps: makes them anew where layers or Variables are others than in the last use, which traced those."""
        used = self._used
        if used is not None and not used.untouched(self):
            now = _Used(self)
            if _same(now.parts, used.parts):
                self._used = now
            else:
                self._make_steps()

    def _end_steps(self) -> None:
        """After calls of steps, which may have created parts."""
        if self._train_step is not None and (self._used is None or self._used.changes != _core.trainable_changes()):
            self._used = _Used(self)

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name not in _TRACED}

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "_metrics"):
            self._make_steps()

    def fit(self, x, y=None, *, batch_size: int = 32, epochs: int = 1, verbose: int | bool | str = 1, shuffle: bool = True, validation_data=None, validation_split: float = 0.0,
            class_weight=None, sample_weight=None, steps_per_epoch: int | None = None, callbacks=(), initial_epoch: int = 0, checkpoint=None,
            checkpoint_every="epoch", distribute: bool = False, steps_per_launch: int | None = None) -> History:
        """Trains, and returns the History with the loss and metrics of every epoch, each weighted by samples.

        x is an array or tensor, a tuple, list or dict of them for several inputs, or a Dataset or PyTorch's DataLoader of (inputs, labels) or (inputs, labels, weights)
        batches (then y, batch_size and shuffle do not apply). verbose: 1 a progress bar, 2 a line per epoch, 0 nothing.
        validation_data is (x, y), (x, y, weights) or a Dataset; validation_split instead takes that share of the last rows of arrays.
        sample_weight [rows], or [rows, steps] for sequences, multiplies losses, class_weight {class: weight} those of its label, of each step where the labels number classes. steps_per_epoch: the batches of an epoch; the next one goes on
        where it ended, and the data begin again at their end.

        checkpoint: a folder or a lm.Checkpoint. The state is saved there after every epoch, or every checkpoint_every steps, and at the end. When the folder has a
        checkpoint of this fit, training resumes from it with the same bits as if it had not been interrupted; the History includes the epochs before.

        distribute: the ranks of a job (lm.distributed) train together. All call fit with the same data; each computes its rows of every batch of batch_size rows, and the
        results have the same bits for any number of ranks up to 8. Rank 0 prints. A callback that sets stop_training on one rank ends training on all.

        steps_per_launch: so many steps on arrays run as one traced loop, with the bits of single ones; by default a number that fits their time and their batches' memory, where it is worth
        the trace: from the second epoch of the first fit on such data on. One by one they run for Datasets, with callbacks for each batch, checkpoint, distribute, steps_per_epoch or run_eagerly."""
        self._require_compiled("fit")
        errors.in_range("fit", "it is how often the data is seen", 0, epochs=epochs, initial_epoch=initial_epoch)
        verbose = verbosity("fit", verbose)
        if callable(getattr(type(self), "train_step", None)):
            raise errors.StateError(f"fit: {type(self).__name__} defines train_step(), which fit does not call", why="fit's step is the loss and the optimizer of compile()",
                                    fix="write the loop yourself around a traced step, or give train_step another name")
        self._begin_steps()
        train_step = self._train_step
        if distribute:
            from .. import distributed  # here: import lamina does without it
            train_step = self._parallel_step = self._parallel_step or distributed.data_parallel(self._run_train_step)
            distributed._require_same_fit("fit")
            verbose = verbose if distributed.rank() == 0 else 0
        run = None if checkpoint is None else Run(checkpoint, checkpoint_every, self)
        require_pair("fit", validation_data)
        if validation_split:
            if validation_data is not None:
                raise errors.InvalidArgument("fit: validation_split beside validation_data", why="one of them says what is held back", fix="pass one of them")
            (x, y, sample_weight), validation_data = cut(validation_split, x, y, sample_weight)
        feed = made_feed("fit", x, y, batch_size, shuffle, sample_weight, class_weight, steps_per_epoch, _takes_numbers(self.loss))
        steps = feed.steps
        if steps == 0:
            raise no_data("fit")
        if run is not None and steps is None:
            raise errors.InvalidArgument("fit: the length of the Dataset is not known", why="a checkpoint counts the steps of an epoch", fix="pass steps_per_epoch, or fit without checkpoint")
        history = History()
        hooks = CallbackList([history, *(() if callbacks is None else callbacks if isinstance(callbacks, (list, tuple)) else [callbacks])], self, {"verbose": verbose, "epochs": epochs, "steps": steps})
        launches = Launches(train_step, batch_size, feed, steps_per_launch, hooks.of_batches or distribute or run is not None or self.run_eagerly, self._loops)
        self.stop_training = False
        of_batches = distributed._on_any_rank(hooks.of_batches, "fit: callbacks of batches") if distribute else True
        begun = None if run is None else run.resume(feed, steps, history)  # (epoch, steps done of it, totals)
        hooks.on_train_begin()
        if begun and begun[1] == 0:
            run.put_back()
        for epoch in range(max(initial_epoch, begun[0] if begun else 0), epochs):
            hooks.on_epoch_begin(epoch)
            if begun and begun[0] == epoch and begun[1] > 0:
                run.put_back()
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            bar = ProgressBar(steps, verbose, sys.stdout)
            totals, done = _Totals(self), 0
            if begun and begun[0] == epoch:
                done = begun[1]
                totals.set_state(begun[2])
            first = done
            for inputs, labels, weights, samples in feed.epoch(done, launches.rows):
                self._give_new_variables_slots(inputs)
                if run is not None:
                    run.began(inputs)
                hooks.on_train_batch_begin(done, totals)
                batch = (inputs, labels) if weights is None else (inputs, labels, weights)
                if distribute:
                    distributed.set_step(epoch * (steps or 0) + done + 1)
                    batch = distributed._rows_of_fit("fit", batch, done == first)
                for values, rows in launches.of(batch, samples):
                    totals.add(values, rows, done + 1)
                    done, bar.waited = done + 1, feed.waited
                    if run is not None:
                        run.after_step(epoch, done, totals)
                    if bar.wants(done) and done != steps:
                        bar.update(done, totals.shown().items())
                hooks.on_train_batch_end(done - 1, totals)
                if of_batches and self._stops(distribute):
                    break
            if done == 0:
                raise no_data("fit")
            steps = steps or (None if self.stop_training else done)
            launches.after_epoch(done * (epochs - epoch - 1))
            bar.step = done
            results = totals.results()
            totals.warn_of_nan(epoch)
            if validation_data is not None:
                results |= {f"val_{name}": value for name, value in self._evaluate(validation_data, batch_size, what="fit's validation_data").items()}
            bar.finish(_numbers(results).items())
            hooks.on_epoch_end(epoch, results)
            stops = self._stops(distribute)
            if run is not None:
                run.after_epoch(epoch + 1, last=epoch + 1 == epochs or stops)
            if stops:
                break
        hooks.on_train_end()
        self._end_steps()
        return history

    def _stops(self, distribute: bool) -> bool:
        """stop_training; of ranks that train together, also if it is set on another one."""
        if distribute:
            from .. import distributed
            self.stop_training = distributed._on_any_rank(self.stop_training, "fit: stop_training")
        return self.stop_training

    def evaluate(self, x, y=None, *, batch_size: int = 32, verbose: int | bool | str = 0, return_dict: bool = False, sample_weight=None, steps: int | None = None):
        """The loss over all samples, and the metrics: a number, a list, or a dict by name. As for fit."""
        self._require_compiled("evaluate")
        self._begin_steps()
        results = self._evaluate((x, y, sample_weight) if y is not None else x, batch_size, verbosity("evaluate", verbose), steps)
        self._end_steps()
        return _returned(results, return_dict)

    def predict(self, x, *, batch_size: int = 32, verbose: int | bool | str = 0):
        """The outputs for all rows of x, as NumPy arrays. verbose: as for fit.

        x is an array or tensor, a tuple or dict of them, or a Dataset or PyTorch's DataLoader of batches. If a Dataset's elements are tuples, only the inputs are
        used, which come first, as in fit: (inputs, labels).
        """
        import numpy as np

        self._begin_steps()
        step = self._predict_step or self._run_predict_step
        errors.in_range("predict", "it is the number of rows of a batch", 1, batch_size=batch_size)
        x = loaded(x)
        require_rows("predict", "x", x)
        verbose, labelled = verbosity("predict", verbose), isinstance(x, Dataset)
        parts, structure = [], None
        if labelled and x._core.endless:
            raise errors.InvalidArgument("predict: the Dataset never ends", why="predict gives the outputs of all rows", fix="give repeat() a number of times, or leave it out")
        batches = x if labelled else Dataset.from_tensor_slices(tuple(x) if isinstance(x, list) and any(hasattr(part, "shape") for part in x) else x).batch(batch_size)
        bar = ProgressBar(batches._core.size, verbose, sys.stdout)
        for done, element in enumerate(batches, 1):
            if bar.wants(done):
                bar.update(done, ())
            bar.step = done
            leaves, structure = flatten(step(inputs_of(element) if labelled else element))
            parts.append([leaf.numpy() for leaf in leaves])
            if any(part.ndim == 0 for part in parts[-1]):
                raise errors.InvalidArgument("predict: an output has no axis of rows", why="the outputs of all batches are joined along it",
                                             fix="call the model on each batch instead")
        if structure is None:
            raise errors.InvalidArgument("predict: there is no data", why="x, an array or a Dataset, has no rows", fix="pass at least one row")
        bar.finish(())
        self._end_steps()
        return unflatten(structure, [np.concatenate(column) for column in zip(*parts)])

    def train_on_batch(self, x, y, sample_weight=None, class_weight=None, return_dict: bool = False):
        """One training step on these rows: the loss and metrics of the batch before it, as evaluate() gives them."""
        self._require_compiled("train_on_batch")
        return self._on_batch("train_on_batch", "_train_step", x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(self, x, y, sample_weight=None, return_dict: bool = False):
        """The loss and metrics of these rows, as evaluate() gives them."""
        self._require_compiled("test_on_batch")
        return self._on_batch("test_on_batch", "_test_step", x, y, sample_weight, None, return_dict)

    def predict_on_batch(self, x):
        """The outputs for these rows, as NumPy arrays."""
        self._begin_steps()
        leaves, structure = flatten((self._predict_step or self._run_predict_step)(_tensors(x)))
        self._end_steps()
        return unflatten(structure, [leaf.numpy() for leaf in leaves])

    def _on_batch(self, what, step, x, y, weights, class_weight, return_dict):
        x, y, totals = _tensors(x), _tensors(y), _Totals(self)
        weights = None if weights is None else _core.constant(weights)
        rows = [next((tuple(leaf.shape)[:1] for leaf in flatten(value)[0]), ()) for value in (x, y, weights) if value is not None]
        if () in rows or len(set(rows)) > 1:
            said = " and ".join(f"{name} has {'no' if one == () else one[0]} rows" for name, one in zip(("x", "y", "sample_weight"), rows))
            raise errors.InvalidArgument(f"{what}: {said}", why="row i of each belongs to sample i", fix="pass as many of each")
        require_classes(what, class_weight)
        weights = with_classes(what, weights, y, class_weight, _takes_numbers(self.loss))
        self._begin_steps()
        if step == "_train_step":
            self._give_new_variables_slots(x)
        totals.add(getattr(self, step)(x, y, *(() if weights is None else (_core.astype(weights, "float32"),))), flatten(x)[0][0].shape[0], 1)
        self._end_steps()
        return _returned(totals.results(), return_dict)

    # --- the traced steps ---

    def _run_train_step(self, inputs, labels, weights=None):
        inputs, labels = as_arrays(inputs), as_arrays(labels)
        with _core.GradientTape() as tape:
            predictions = widened(self, self(inputs, training=True))
            loss, parts = self._losses_of(labels, predictions, weights)
            loss = self._regularized(loss)
            minimized = self.optimizer.scale_loss(loss) if hasattr(self.optimizer, "scale_loss") else loss
        variables = self.trainable_variables
        if variables:
            self.optimizer.apply_gradients(zip(tape.gradient(minimized, variables), variables))
        else:
            warnings.warn(f"fit: nothing in {self.name} is trainable, so no weight changes", stacklevel=2)
        return (loss, *parts, *self._measured(labels, predictions))

    def _give_new_variables_slots(self, inputs):
        """Creates slots for Variables that became trainable, or part of the model, after the optimizer was built, which a traced step could not do."""
        if _core.trainable_changes() == self._trainable_changes:
            return
        if getattr(self.optimizer, "built", False) and hasattr(self.optimizer, "add_variables"):
            if any(isinstance(part, Layer) and not part.built for part in parts_of(self)):
                _core.function(self._run_predict_step).get_concrete_function(specs_of(inputs))  # creates their weights
            self.optimizer.add_variables(self.trainable_variables, self.variables)
        self._trainable_changes = _core.trainable_changes()

    def _run_test_step(self, inputs, labels, weights=None):
        inputs, labels = as_arrays(inputs), as_arrays(labels)
        predictions = widened(self, self(inputs, training=False))
        loss, parts = self._losses_of(labels, predictions, weights)
        return (self._regularized(loss), *parts, *self._measured(labels, predictions))

    def _regularized(self, loss):
        for value in self.losses:
            loss = loss + _core.astype(value, loss.dtype)
        return loss

    def _run_predict_step(self, inputs):
        return widened(self, self(as_arrays(inputs), training=False))

    def _output_names(self, predictions) -> list:
        """[None] for one that is not in a list or dict."""
        if not isinstance(predictions, (tuple, list, dict)):
            return [None]
        if isinstance(predictions, dict):
            return list(predictions)
        made = flatten(self._outputs)[0] if self._inputs is not None else ()
        names = [getattr(symbol.layer, "name", None) for symbol in made]
        return names if len(set(names)) == len(predictions) else [f"output_{i}" for i in range(len(predictions))]

    def _outputs_with(self, labels, predictions) -> list:
        """[(name, labels, predictions)] of each output."""
        names = self._output_names(predictions)
        if not isinstance(predictions, (tuple, list, dict)):
            return [(None, labels, predictions)]
        if isinstance(predictions, dict):
            predictions = list(predictions.values())
        if isinstance(labels, dict):
            missing = [name for name in names if name not in labels]
            if missing:
                raise errors.NotFound(f"fit: there are no labels for the output '{missing[0]}'", why=f"the labels are {', '.join(map(str, labels))}", fix=f"name them {', '.join(names)}")
            labels = [labels[name] for name in names]
        if not isinstance(labels, (tuple, list)) or len(labels) != len(names):
            raise errors.InvalidArgument(f"fit: the model has {len(names)} outputs, the labels are {len(labels) if isinstance(labels, (tuple, list)) else 1}",
                                         why="each output has its own", fix=f"pass a tuple or a dict with {', '.join(names)}")
        return list(zip(names, labels, predictions))

    def _losses_of(self, labels, predictions, weights):
        """The whole loss, and those of several outputs."""
        if self.loss is None:
            raise errors.InvalidArgument("fit: the model was compiled without a loss", fix='pass compile(loss=...), for example "mse"')
        outputs = self._outputs_with(labels, predictions)
        names = [name for name, _, _ in outputs]
        if len(outputs) == 1 and names[0] is None and not isinstance(self.loss, (list, tuple, dict)):
            self._part_names = ()
            return _loss_value(self.loss, labels, predictions, weights), ()
        losses, factors = spread("loss", self.loss, names, self.loss), spread("loss_weights", self._loss_weights, names, 1.0)
        parts = {}
        for (name, y, p), loss, factor in zip(outputs, losses, factors):
            if loss is not None:
                parts[name] = _loss_value(loss, y, p, weights), 1.0 if factor is None else factor
        if not parts:
            raise errors.InvalidArgument("fit: no output has a loss", fix="pass compile(loss=...) with one")
        self._part_names = tuple(f"{name}_loss" for name in parts) if len(outputs) > 1 else ()
        whole = sum(value * factor for value, factor in parts.values())
        return whole, [value for value, _ in parts.values()] if len(outputs) > 1 else ()

    def _measured(self, labels, predictions) -> list:
        if not self._metrics:
            return []
        outputs = self._outputs_with(labels, predictions)
        found = []
        for metric, place in zip(self._metrics, self._metric_outputs):
            if place is None and len(outputs) > 1:
                raise errors.InvalidArgument(f"fit: the metric '{metric.name}' does not say which output it measures", why=f"the model has {len(outputs)}",
                                             fix="pass metrics as a list with a list for each output, or as a dict by name")
            at = 0 if place is None else place if isinstance(place, int) else next((i for i, (name, _, _) in enumerate(outputs) if name == place), None)
            if at is None or at >= len(outputs):
                raise _core.unknown_name("output", str(place), [str(name) for name, _, _ in outputs])
            if place is not None and len(outputs) > 1 and not hasattr(metric, "_own_name"):
                metric.name, metric._own_name = f"{outputs[at][0]}_{metric.name}", metric.name
            found.append(metric.measure(*outputs[at][1:]))
        return found

    def _evaluate(self, data, batch_size, verbose=0, steps=None, what="evaluate"):
        pair = isinstance(data, tuple) or isinstance(data, list) and len(data) in (2, 3)
        x, y, weights = (*data, None, None)[:3] if pair else (data, None, None)
        feed = made_feed(what, x, y, batch_size, False, weights, None, steps)
        bar, totals = ProgressBar(feed.steps, verbose, sys.stdout), _Totals(self)
        for step, (inputs, labels, weights, samples) in enumerate(feed.epoch(), 1):
            totals.add(self._test_step(inputs, labels, *(() if weights is None else (weights,))), samples, step)
            bar.waited = feed.waited
            if bar.wants(step):
                bar.update(step, totals.shown().items())
            bar.step = step
        if not bar.step:
            raise no_data(what)
        bar.finish(totals.shown().items())
        return totals.results()

    def _require_compiled(self, what: str) -> None:
        if self._train_step is None:
            raise errors.StateError(f"{what}: the model is not compiled", why="compile() says what is made smaller, and how", fix="call compile(optimizer, loss) first")


def _tensors(value):
    if isinstance(value, dict):
        return {name: _tensors(part) for name, part in value.items()}
    if isinstance(value, tuple) or isinstance(value, list) and any(hasattr(part, "shape") for part in value):
        return tuple(_tensors(part) for part in value)
    return _core.constant(value)


def _factor(given):
    """A factor of loss_weights; NumPy's numbers as Python's."""
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        return given if isinstance(given, (int, float)) else float(given)
    if isinstance(given, (_core.Tensor, _core.Variable)):
        return given
    raise errors.TypeMismatch(f"compile: a factor of loss_weights is {errors.a_type(given)}, {errors.shown(given)}", why="each output's loss is multiplied by its factor", fix="pass a list of numbers, or a dict by name")


def _each(given, f):
    if isinstance(given, dict):
        return {name: f(one) for name, one in given.items()}
    return [f(one) for one in given] if isinstance(given, (list, tuple)) else f(given)


def spread(what, given, names, otherwise) -> list:
    """One for each output: of a list by place, of a dict by name; else `otherwise` for all."""
    if isinstance(given, dict):
        for name in given:
            if name not in names:
                raise _core.unknown_name(f"output in {what}", str(name), [str(n) for n in names])
        return [given.get(name) for name in names]
    if not isinstance(given, (list, tuple)):
        return [otherwise] * len(names)
    if len(given) != len(names):
        raise errors.InvalidArgument(f"compile: {what} has {len(given)} parts, the model {len(names)} outputs", why="each output has its own", fix="pass one for each, or a dict by name")
    return list(given)


def _takes_numbers(loss) -> bool:
    """Whether a loss takes labels that number classes."""
    return getattr(loss, "name", getattr(loss, "__name__", None)) in ("sparse_cross_entropy", "sparse_categorical_crossentropy")


def _loss_value(loss, labels, predictions, weights):
    """The mean over samples; with weights, of weight times loss. Of sequences with a mask, over the steps that count."""
    mask = masks.of(predictions) if not isinstance(predictions, (tuple, list, dict)) else None
    if mask is not None:
        value = _result_of(loss, labels, predictions, each=True)
        if len(value.shape) == len(mask.shape):
            counted = _core.astype(mask, value.dtype)
            total = _core.maximum(_core.sum(counted), 1.0)
            if weights is not None:
                weights = losses_module._checked_weights(weights, value, "fit")
                counted = counted * (weights if len(weights.shape) == len(value.shape) else _core.expand_dims(weights, -1))
            return _core.sum(value * counted) / total
    if weights is None:
        value = _result_of(loss, labels, predictions, each=False)
        return value if len(value.shape) == 0 else _core.mean(value)
    value = _result_of(loss, labels, predictions, each=True)
    return losses_module._weighted_mean(value, weights, "fit")


def _result_of(loss, labels, predictions, each):
    """What a loss gives; `each`: per sample, if it can."""
    value = loss.per_sample(labels, predictions) if each and hasattr(loss, "per_sample") else loss(labels, predictions)
    if not isinstance(value, (_core.Tensor, _core.Variable)):
        name = getattr(loss, "__name__", type(loss).__name__)
        raise errors.TypeMismatch(f"fit: the loss '{name}' gave {errors.shown(value)}", why="a loss is a tensor, computed from the labels and the predictions", fix=f"return it from '{name}'" if value is None else "compute it with functions of lm")
    return value


def _returned(results, as_dict):
    values = list(results.values())
    return results if as_dict else values[0] if len(values) == 1 else values


def _numbers(results) -> dict:
    return {name: value for name, value in results.items() if isinstance(value, (int, float))}


class _Totals:
    """Running means of the loss and the metrics, weighted by samples. Tensors are read only when needed."""

    def __init__(self, model):
        self._model, self.metrics = model, model._metrics
        self.loss, self.parts = metrics_module.Mean("loss"), []
        for metric in self.metrics:
            metric.reset()
        self.waiting, self.bad = [], None

    def add(self, values, samples, step):
        self.waiting.append((values, samples, step))
        if len(self.waiting) >= 256:
            self._read()

    def _read(self):
        for values, samples, step in self.waiting:
            loss = float(values[0])
            if self.bad is None and not math.isfinite(loss):
                self.bad = step, loss
            self.loss._add(loss, samples)
            self._make_parts(len(values) - 1 - len(self.metrics))
            for metric, value in zip((*self.parts, *self.metrics), values[1:]):
                metric.update(value, samples)
        self.waiting.clear()

    def _make_parts(self, count):
        while len(self.parts) < count:
            self.parts.append(metrics_module.Mean())

    def warn_of_nan(self, epoch):
        if self.bad is not None:
            warnings.warn(f"fit: the loss is {self.bad[1]} since batch {self.bad[0]} of epoch {epoch + 1}: look for NaN in its inputs and labels, or take a smaller learning rate; "
                          "lm.nn.TerminateOnNaN stops there", RuntimeWarning, stacklevel=3)

    @contextlib.contextmanager
    def kept(self):
        """Around what may measure other data by the same metrics, such as evaluate() in a callback."""
        before = [(metric, {name: value for name, value in vars(metric).items() if name not in ("name", "_of_output")}) for metric in self.metrics]
        yield
        for metric, values in before:
            vars(metric).update(values)

    def state(self) -> list:
        """The numbers of the loss and of each metric, for set_state()."""
        self._read()
        return [{name: value for name, value in vars(metric).items() if isinstance(value, (int, float, list))} for metric in (self.loss, *self.parts, *self.metrics)]

    def set_state(self, state) -> None:
        if state:
            self._make_parts(len(state) - 1 - len(self.metrics))
        for metric, values in zip((self.loss, *self.parts, *self.metrics), state or ()):
            vars(metric).update(values)

    def results(self) -> dict:
        self._read()
        return {"loss": self.loss.result()} | {name: part.result() for name, part in zip(self._model._part_names, self.parts)} | {m.name: m.result() for m in self.metrics}

    def shown(self) -> dict:
        return _numbers(self.results())


for _name, _method in vars(Training).items():  # errors name the class that users know
    if callable(_method) and hasattr(_method, "__code__"):
        _method.__qualname__ = f"Model.{_name}"
_border.guard(globals())
