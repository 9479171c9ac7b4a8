"""Callbacks of fit()."""
from __future__ import annotations

from .. import _border


class Callback:
    """Base of callbacks: override the methods you need. `model` and `params` are set before training begins."""

    model = None
    params: dict = {}

    def __init__(self):
        """Takes no arguments; subclasses need not call it."""

    def on_train_begin(self) -> None: ...
    def on_train_end(self) -> None: ...
    def on_epoch_begin(self, epoch: int) -> None: ...
    def on_epoch_end(self, epoch: int, logs: dict) -> None: ...
    def on_train_batch_end(self, batch: int, logs: dict) -> None: ...


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

    def __repr__(self) -> str:
        return f"<lm.nn.History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


class CallbackList:
    """Forwards every event to all callbacks."""

    def __init__(self, callbacks, model, params):
        self.callbacks = callbacks
        # Reading a batch's metrics waits for the device, so it happens only if a callback needs them.
        self.batch_listeners = [c for c in callbacks if type(c).on_train_batch_end is not Callback.on_train_batch_end]
        for callback in callbacks:
            callback.model, callback.params = model, params

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

    def on_train_batch_end(self, batch, totals):
        for callback in self.batch_listeners:
            callback.on_train_batch_end(batch, totals.results())


_border.guard(globals())
