"""compile, fit, evaluate and predict: the methods that Model adds to Layer."""
from __future__ import annotations

import sys
import warnings

from .. import _border, _core, errors, losses as losses_module, metrics as metrics_module, optim
from .._structure import flatten, unflatten
from ..data import Dataset
from ..progress import ProgressBar
from .callbacks import CallbackList, History
from .resume import Run


class Training:
    """One traced training step per batch shape; compile() defines it."""

    optimizer = None
    loss = None
    stop_training = False
    _train_step = _test_step = _predict_step = None
    _trainable_changes = 0  # Variables known to the optimizer

    def compile(self, optimizer="rmsprop", loss=None, metrics=(), run_eagerly: bool = False) -> None:
        """Sets the optimizer, the loss and the metrics: names or objects. Traces nothing and does not change the weights.

        loss(labels, predictions) and metrics may be functions. run_eagerly runs the Python code for every batch, for debugging.
        """
        self.optimizer = optim.get(optimizer)
        self.loss = None if loss is None else losses_module.get(loss)
        self._metrics = [metrics_module.get(metric) for metric in metrics]
        wrap = (lambda step: step) if run_eagerly else _core.function
        self._train_step, self._test_step = wrap(self._run_train_step), wrap(self._run_test_step)
        self._predict_step = wrap(self._run_predict_step)
        self.run_eagerly = run_eagerly

    def fit(self, x, y=None, *, batch_size: int = 32, epochs: int = 1, verbose: int = 1, shuffle: bool = True, validation_data=None,
            callbacks=(), initial_epoch: int = 0, checkpoint=None, checkpoint_every="epoch") -> History:
        """Trains, and returns the History with the loss and metrics of every epoch, each weighted by samples.

        x is an array or tensor, a tuple or dict of them, or a Dataset of (inputs, labels) batches (then y, batch_size and shuffle do not
        apply). verbose: 1 a progress bar, 2 a line per epoch, 0 nothing. validation_data is (x, y) or a Dataset.

        checkpoint: a folder or a lm.Checkpoint. The state is saved there after every epoch, or every checkpoint_every steps, and at the end. When the folder has a
        checkpoint of this fit, training resumes from it with the same bits as if it had not been interrupted; the History includes the epochs before."""
        self._require_compiled("fit")
        run = None if checkpoint is None else Run(checkpoint, checkpoint_every, self)
        feed = _feed("fit", x, y, batch_size, shuffle)
        steps = len(feed)
        if steps == 0:
            raise errors.InvalidArgument("fit: there is no data", fix="pass at least one row")
        history = History()
        hooks = CallbackList([history, *callbacks], self, {"verbose": verbose, "epochs": epochs, "steps": steps})
        self.stop_training = False
        begun = None if run is None else run.resume(feed.data, steps, history)  # (epoch, steps done of it, totals)
        hooks.on_train_begin()
        for epoch in range(max(initial_epoch, begun[0] if begun else 0), epochs):
            hooks.on_epoch_begin(epoch)
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs}", flush=True)
            bar = ProgressBar(steps, verbose, sys.stdout)
            totals, done = _Totals(self._metrics), 0
            if begun and begun[0] == epoch:
                done = begun[1]
                totals.set_state(begun[2])
            for step, (inputs, labels, samples) in enumerate(feed, done + 1):
                self._give_new_variables_slots()
                totals.add(self._train_step(inputs, labels), samples)
                if run is not None:
                    run.after_step(epoch, step, totals)
                if bar.wants(step) and step < steps:
                    bar.update(step, totals.results().items())
                hooks.on_train_batch_end(step - 1, totals)
            bar.step = steps
            results = totals.results()
            if validation_data is not None:
                results |= {f"val_{name}": value for name, value in self._evaluate(validation_data, batch_size).items()}
            bar.finish(results.items())
            hooks.on_epoch_end(epoch, results)
            if run is not None:
                run.after_epoch(epoch + 1, last=epoch + 1 == epochs or self.stop_training)
            if self.stop_training:
                break
        hooks.on_train_end()
        return history

    def evaluate(self, x, y=None, *, batch_size: int = 32, verbose: int = 0, return_dict: bool = False):
        """The loss over all samples, and the metrics: a number, a list, or a dict by name."""
        self._require_compiled("evaluate")
        results = self._evaluate((x, y) if y is not None else x, batch_size, verbose)
        if return_dict:
            return results
        values = list(results.values())
        return values[0] if len(values) == 1 else values

    def predict(self, x, *, batch_size: int = 32):
        """The outputs for all rows of x, as NumPy arrays.

        x is an array or tensor, a tuple or dict of them, or a Dataset of batches. If a Dataset's elements are tuples, only the inputs are
        used, which come first, as in fit: (inputs, labels).
        """
        import numpy as np

        step = self._predict_step or self._run_predict_step
        labelled = isinstance(x, Dataset)
        parts, structure = [], None
        for element in x if labelled else Dataset.from_tensor_slices(x).batch(batch_size):
            leaves, structure = flatten(step(_inputs_of(element) if labelled else element))
            parts.append([leaf.numpy() for leaf in leaves])
            if any(part.ndim == 0 for part in parts[-1]):
                raise errors.InvalidArgument("predict: an output has no axis of rows", why="the outputs of all batches are joined along it",
                                             fix="call the model on each batch instead")
        if structure is None:
            raise errors.InvalidArgument("predict: there is no data", fix="pass at least one row")
        return unflatten(structure, [np.concatenate(column) for column in zip(*parts)])

    # --- the traced steps ---

    def _run_train_step(self, inputs, labels):
        with _core.GradientTape() as tape:
            predictions = self(inputs, training=True)
            loss = self._loss_of(labels, predictions)
        variables = self.trainable_variables
        if variables:
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        else:
            warnings.warn(f"fit: nothing in {self.name} is trainable, so no weight changes", stacklevel=2)
        return (loss, *[metric.measure(labels, predictions) for metric in self._metrics])

    def _give_new_variables_slots(self):
        """Creates slots for Variables that became trainable after the optimizer was built, which a traced step could not do."""
        changes = _core.trainable_changes()
        if changes != self._trainable_changes:
            self._trainable_changes = changes
            if getattr(self.optimizer, "built", False) and hasattr(self.optimizer, "add_variables"):
                self.optimizer.add_variables(self.trainable_variables)

    def _run_test_step(self, inputs, labels):
        predictions = self(inputs, training=False)
        return (self._loss_of(labels, predictions), *[metric.measure(labels, predictions) for metric in self._metrics])

    def _run_predict_step(self, inputs):
        return self(inputs, training=False)

    def _loss_of(self, labels, predictions):
        if self.loss is None:
            raise errors.InvalidArgument("fit: the model was compiled without a loss", fix='pass compile(loss=...), for example "mse"')
        value = self.loss(labels, predictions)
        return value if len(value.shape) == 0 else _core.mean(value)

    def _evaluate(self, data, batch_size, verbose=0):
        feed = _feed("evaluate", *(data if isinstance(data, tuple) else (data, None)), batch_size, False)
        bar, totals = ProgressBar(len(feed), verbose, sys.stdout), _Totals(self._metrics)
        for step, (inputs, labels, samples) in enumerate(feed, 1):
            totals.add(self._test_step(inputs, labels), samples)
            if bar.wants(step) or step == len(feed):
                bar.update(step, totals.results().items())
        bar.finish(totals.results().items())
        return totals.results()

    def _require_compiled(self, what: str) -> None:
        if self._train_step is None:
            raise errors.StateError(f"{what}: the model is not compiled", why="compile() says what is made smaller, and how", fix="call compile(optimizer, loss) first")


class _Totals:
    """Running means of the loss and the metrics, weighted by samples. Tensors are read only when needed."""

    def __init__(self, metrics):
        self.metrics = metrics
        self.loss = metrics_module.Mean("loss")
        for metric in metrics:
            metric.reset()
        self.waiting = []

    def add(self, values, samples):
        self.waiting.append((values, samples))
        if len(self.waiting) >= 256:
            self._read()

    def _read(self):
        for values, samples in self.waiting:
            self.loss.update(values[0], samples)
            for metric, value in zip(self.metrics, values[1:]):
                metric.update(value, samples)
        self.waiting.clear()

    def state(self) -> list:
        """The numbers of the loss and of each metric, for set_state()."""
        self._read()
        return [{name: value for name, value in vars(metric).items() if isinstance(value, (int, float))} for metric in (self.loss, *self.metrics)]

    def set_state(self, state) -> None:
        for metric, numbers in zip((self.loss, *self.metrics), state or ()):
            vars(metric).update(numbers)

    def results(self) -> dict:
        self._read()
        return {"loss": self.loss.result()} | {metric.name: metric.result() for metric in self.metrics}


class _Feed:
    """Batches of (inputs, labels, number of samples)."""

    def __init__(self, what, data):
        self.what, self.data = what, data

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for element in self.data:
            if not (isinstance(element, (tuple, list)) and len(element) == 2):
                raise errors.InvalidArgument(f"{self.what}: an element of the dataset is not (inputs, labels)",
                                             why="weights of samples are for the loss to apply" if _is_tuple(element, 3) else "",
                                             fix="make it with Dataset.from_tensor_slices((x, y)).batch(n)")
            inputs, labels = element
            yield inputs, labels, flatten(inputs)[0][0].shape[0]


def _is_tuple(element, length) -> bool:
    return isinstance(element, (tuple, list)) and len(element) == length


def _inputs_of(element):
    """x of (x,), (x, y) and (x, y, weights); anything else unchanged."""
    if not isinstance(element, tuple):
        return element
    if not 1 <= len(element) <= 3:
        raise errors.InvalidArgument(f"predict: an element of the dataset is a tuple of {len(element)}",
                                     why="it is inputs, (inputs, labels) or (inputs, labels, weights)",
                                     fix="several inputs of a model are a tuple in front: ((a, b), labels), or a dict")
    return element[0]


def _feed(what, x, y, batch_size, shuffle):
    if isinstance(x, Dataset):
        if y is not None:
            raise errors.InvalidArgument(f"{what}: y is given beside a Dataset", fix="put the labels into the Dataset: from_tensor_slices((x, y))")
        return _Feed(what, x)
    if y is None:
        raise errors.InvalidArgument(f"{what}: there are no labels", fix="pass y, or a Dataset of (inputs, labels)")
    data = Dataset.from_tensor_slices((x, y))
    return _Feed(what, (data.shuffle() if shuffle else data).batch(batch_size))


_border.guard(globals())
