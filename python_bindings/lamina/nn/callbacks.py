"""Callbacks of fit()."""
from __future__ import annotations

import contextlib
import inspect
import math

from .. import _border, errors, metrics, saving
from ..progress import verbosity


class Callback:
    """Base of callbacks: override the methods you need. `model` and `params` are set before training begins."""

    model = None
    params: dict = {}

    def __init__(self):
        """Takes no arguments; subclasses need not call it."""

    def on_train_begin(self) -> None:
        """Before the first epoch."""

    def on_train_end(self) -> None:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Before an epoch; the first is 0."""

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        """After an epoch. logs is {name: number}, with validation's names behind "val_"."""

    def on_train_batch_begin(self, batch: int) -> None:
        """Before a step; the first of each epoch is 0."""

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        """After a step. logs has the loss and metrics of the epoch so far."""


class History(Callback):
    """The loss and metrics of every epoch. history is {name: [one number per epoch]}, epoch the list of epochs, params the arguments of
    fit."""

    def __init__(self):
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch, logs):
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)

    def plot(self, path=None):
        """The curves of the loss and metrics over the epochs, each beside its val_ one, as the SVG that notebooks show; with a path that ends in .svg it is written there. Needs no other
        program. Raises StateError before the first epoch has ended."""
        from .._drawing import curves_of

        if not self.history:
            raise errors.StateError("History.plot: there is nothing to draw", why="no epoch has ended", fix="train for an epoch or more")
        picture = curves_of({name: values for name, values in self.history.items() if not isinstance(values[0], list)}, self.epoch)  # no confusion matrix
        if path is not None:
            picture.save(path)
        return picture

    def __repr__(self) -> str:
        return f"<lm.nn.History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


class _Monitor(Callback):
    """What follows a number of the epoch's logs that is to become smaller or larger."""

    def __init__(self, monitor, mode, min_delta=0.0):
        if mode not in ("auto", "min", "max"):
            raise errors.InvalidArgument(f"{type(self).__name__}: mode {errors.shown(mode)}", why='it is "min", "max" or "auto"', fix='pass "auto"')
        errors.in_range(type(self).__name__, "it is a size of change", -math.inf, min_delta=min_delta)
        self.monitor, self._delta = monitor, abs(min_delta)
        self._larger = None if mode == "auto" else mode == "max"  # auto: found at the first number, when the model's metrics have their names
        self._forget()

    def _forget(self):
        self.best = -math.inf if self._larger else math.inf

    def _find_direction(self):
        name = self.monitor.removeprefix("val_")
        metric = next((one for one in getattr(self.model, "_metrics", ()) if one.name == name), None)
        known = metrics._BY_NAME.get(name if metric is None else type(metric).name)
        found = getattr(metric, "larger_is_better", None)
        found = known.larger_is_better if found is None and known is not None else found
        if found is None and metric is not None:
            raise errors.InvalidArgument(f"{type(self).__name__}: whether '{self.monitor}' is to become larger or smaller is not known", why=f"{errors.shown(metric)} does not say larger_is_better" if type(metric) is not metrics._FromFunction else "it is a function of your own",
                                         fix='pass mode="max" or mode="min"')
        self._larger = bool(found)
        self._forget()

    def _value(self, logs):
        if self.monitor not in logs:
            without = self.monitor.startswith("val_") and not any(name.startswith("val_") for name in logs)
            raise errors.NotFound(f"{type(self).__name__}: the epoch has no '{self.monitor}'", why=f"it has {', '.join(logs)}", fix="pass validation_data or validation_split to fit" if without else "name one of these")
        if self._larger is None:
            self._find_direction()
        return logs[self.monitor]

    def _improved(self, value) -> bool:
        better = value > self.best + self._delta if self._larger else value < self.best - self._delta
        if better:
            self.best = value
        return better


class EarlyStopping(_Monitor):
    """Stops training when `monitor` has not become better by min_delta for `patience` epochs. restore_best_weights: puts back the weights of the best epoch. verbose: 1 prints that it
    stopped."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0.0, patience: int = 0, mode: str = "auto", restore_best_weights: bool = False, start_from_epoch: int = 0, verbose: int | bool | str = 0):
        super().__init__(monitor, mode, min_delta)
        errors.in_range("EarlyStopping", "it is a number of epochs", 0, patience=patience, start_from_epoch=start_from_epoch)
        self.verbose = verbosity("EarlyStopping", verbose)
        self.patience, self.restore_best_weights, self.start_from_epoch = patience, restore_best_weights, start_from_epoch
        self.stopped_epoch = None

    def on_train_begin(self):
        self._forget()
        self._waited, self._weights, self.stopped_epoch = 0, None, None

    def on_epoch_end(self, epoch, logs):
        if epoch < self.start_from_epoch:
            return
        if self._improved(self._value(logs)):
            self._waited = 0
            if self.restore_best_weights:
                self._weights = self.model.get_weights()
            return
        self._waited += 1
        if self._waited >= max(self.patience, 1):
            self.stopped_epoch, self.model.stop_training = epoch, True
            if self.verbose:
                print(f"Epoch {epoch + 1}: stopped, {self.monitor} has not become better for {self._waited} epochs", flush=True)

    def on_train_end(self):
        if self._weights is not None:
            self.model.set_weights(self._weights)


class ModelCheckpoint(_Monitor):
    """Saves the model after every epoch, or with save_best_only after those in which `monitor` became better. The path may have fields: "net-{epoch:02d}-{val_loss:.3f}.keras";
    it ends in .keras (the model) or .safetensors (its weights). verbose: 1 prints what is written."""

    def __init__(self, path, monitor: str = "val_loss", save_best_only: bool = False, mode: str = "auto", verbose: int | bool | str = 0):
        super().__init__(monitor, mode)
        self.verbose = verbosity("ModelCheckpoint", verbose)
        self.path, self.save_best_only = errors.path_of("ModelCheckpoint", path), save_best_only
        if not self.path.endswith((".keras", ".safetensors")):
            raise errors.InvalidArgument(f"ModelCheckpoint: the path {errors.shown(self.path)} ends in neither .keras nor .safetensors", why="the ending says what is saved", fix='call it "net.keras"')

    def on_epoch_end(self, epoch, logs):
        if self.save_best_only and not self._improved(self._value(logs)):
            return
        try:
            path = self.path.format(epoch=epoch + 1, **logs)
        except (KeyError, ValueError, IndexError) as problem:
            raise errors.NotFound(f"ModelCheckpoint: the path '{self.path}' cannot be filled in: {problem}", why=f"the epoch has epoch, {', '.join(logs)}", fix="name one of these") from None
        if path.endswith(".keras"):
            from .keras_file import save_file
            save_file(self.model, path)
        else:
            saving.save_weights(self.model, path)
        if self.verbose:
            print(f"Epoch {epoch + 1}: saved {path}", flush=True)


class CSVLogger(Callback):
    """Writes a line per epoch to a CSV file: epoch, then the loss and the metrics that are numbers. append: after the lines that are there. Raises BadFile, before the first epoch, where
    the file cannot be written."""

    def __init__(self, path, separator: str = ",", append: bool = False):
        if not separator:
            raise errors.InvalidArgument("CSVLogger: separator ''", why="it stands between the fields of a line", fix='pass ","')
        self.path, self.separator, self.append = errors.path_of("CSVLogger", path), separator, append
        self._names = None

    def on_train_begin(self):
        self._names = None
        with self._opened("a+" if self.append else "w") as file:
            if self.append:
                file.seek(0)
                self._names = file.readline().rstrip("\n").split(self.separator)[1:] or None

    def on_epoch_end(self, epoch, logs):
        first = self._names is None
        self._names = self._names or [name for name, value in logs.items() if not isinstance(value, list)]
        with self._opened("a") as file:
            if first:
                print("epoch", *self._names, sep=self.separator, file=file)
            print(epoch, *(logs.get(name, "") for name in self._names), sep=self.separator, file=file)

    @contextlib.contextmanager
    def _opened(self, mode):
        try:
            with open(self.path, mode, encoding="utf-8") as file:
                yield file
        except (OSError, ValueError) as problem:
            raise errors.BadFile("CSVLogger: the file cannot be written", where=f"file '{self.path}'", why=getattr(problem, "strerror", None) or str(problem), fix="pass a file in a folder that can be written") from None


def _settable_rate(callback):
    """The optimizer's learning rate as a Variable."""
    optimizer = callback.model.optimizer
    if getattr(optimizer, "schedule", None) is not None:
        raise errors.StateError(f"{type(callback).__name__}: the optimizer's learning rate is a schedule", why=f"{optimizer.schedule!r} gives it in every step",
                                fix="leave out the callback, or make the optimizer with a number")
    return optimizer.learning_rate


def _takes(function, *arguments) -> bool:
    """Whether a function can be called so; True where Python does not know its arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch to schedule(epoch, rate), or schedule(epoch) of a function with one argument. Nothing is traced anew."""

    def __init__(self, schedule) -> None:
        if not callable(schedule):
            raise errors.TypeMismatch(f"LearningRateScheduler: {errors.a_type(schedule)} is no function", fix="pass a function of (epoch, rate)")
        self.schedule = schedule

    def on_epoch_begin(self, epoch):
        rate = _settable_rate(self)
        given = (epoch, float(rate.numpy()))
        rate.assign(float(self.schedule(*given if _takes(self.schedule, *given) else given[:1])))


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor`, down to min_lr, when `monitor` has not become better by min_delta for `patience` epochs; then waits `cooldown` epochs."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0):
        super().__init__(monitor, mode, min_delta)
        if not 0 < factor < 1:
            raise errors.InvalidArgument(f"ReduceLROnPlateau: factor {errors.shown(factor)}", why="it makes the rate smaller", fix="pass a number between 0 and 1")
        errors.in_range("ReduceLROnPlateau", "it is a number of epochs", 0, patience=patience, cooldown=cooldown)
        errors.in_range("ReduceLROnPlateau", "a learning rate is 0 or more", 0, min_lr=min_lr)
        self.factor, self.patience, self.cooldown, self.min_lr = factor, patience, cooldown, min_lr

    def on_train_begin(self):
        _settable_rate(self)
        self._forget()
        self._waited = self._rest = 0

    def on_epoch_end(self, epoch, logs):
        better = self._improved(self._value(logs))
        if self._rest > 0:
            self._rest, self._waited = self._rest - 1, 0
        self._waited = 0 if better else self._waited + (self._rest == 0)
        if self._waited >= max(self.patience, 1):
            rate = self.model.optimizer.learning_rate
            now = float(rate.numpy())
            rate.assign(min(now, max(now * self.factor, self.min_lr)))
            self._waited, self._rest = 0, self.cooldown


class TerminateOnNaN(Callback):
    """Stops training after a batch whose loss is not a number or infinite."""

    def on_train_batch_end(self, batch, logs):
        if not math.isfinite(logs["loss"]):
            print(f"batch {batch + 1}: the loss is {logs['loss']}, training stops", flush=True)
            self.model.stop_training = True


class TensorBoard(Callback):
    """Writes the loss and metrics of every epoch for TensorBoard, by lm.summary.Writer: training under their names, validation with val_ before them."""

    def __init__(self, log_dir):
        self.log_dir = errors.path_of("TensorBoard", log_dir, "log_dir")

    def on_train_begin(self):
        from .. import summary
        self._writer = summary.Writer(self.log_dir)

    def on_epoch_end(self, epoch, logs):
        for name, value in logs.items():
            if isinstance(value, (int, float)):
                self._writer.scalar(name, value, epoch)
        self._writer.flush()

    def on_train_end(self):
        self._writer.close()


class LambdaCallback(Callback):
    """Functions as a callback: LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, logs))."""

    def __init__(self, **functions):
        for name, function in functions.items():
            if not name.startswith("on_") or not hasattr(Callback, name):
                raise errors.NotFound(f"LambdaCallback: there is no event '{name}'", fix=f"it may be one of: {', '.join(n for n in dir(Callback) if n.startswith('on_'))}")
            if not callable(function):
                raise errors.TypeMismatch(f"LambdaCallback: {name} is {errors.a_type(function)}, no function", fix="pass a function")
            setattr(self, name, function)


class CallbackList:
    """Forwards every event to all callbacks."""

    def __init__(self, callbacks, model, params):
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise errors.TypeMismatch(f"fit: {errors.a_type(callback)} is no callback", why="it is told of epochs and batches by its methods",
                                          fix="write lm.nn.LambdaCallback(on_epoch_end=...)" if callable(callback) and not isinstance(callback, type) else "pass objects of lm.nn.Callback")
        self.callbacks = callbacks
        # Reading a batch's metrics waits for the device, so it happens only if a callback needs them.
        self.batch_listeners = [c for c in callbacks if getattr(c.on_train_batch_end, "__func__", None) is not Callback.on_train_batch_end]
        self.before_batches = [c for c in callbacks if getattr(c.on_train_batch_begin, "__func__", None) is not Callback.on_train_batch_begin]
        for callback in callbacks:
            callback.model, callback.params = model, params

    @property
    def of_batches(self) -> bool:
        """Whether a callback follows each batch."""
        return bool(self.batch_listeners or self.before_batches)

    def on_train_begin(self):
        for callback in self.callbacks:
            callback.on_train_begin()

    def on_train_end(self):
        for callback in self.callbacks:
            callback.on_train_end()

    def on_epoch_begin(self, epoch):
        for callback in self.callbacks:
            callback.on_epoch_begin(epoch)

    def on_epoch_end(self, epoch, logs):
        for callback in self.callbacks:
            callback.on_epoch_end(epoch, dict(logs))

    def on_train_batch_begin(self, batch, totals):
        for callback in self.before_batches:
            with totals.kept():
                callback.on_train_batch_begin(batch)

    def on_train_batch_end(self, batch, totals):
        for callback in self.batch_listeners:
            logs = totals.results()
            with totals.kept():
                callback.on_train_batch_end(batch, logs)


_border.guard(globals())
