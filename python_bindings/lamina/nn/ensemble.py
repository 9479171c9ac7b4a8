"""Ensemble: equal models with separate weights that are trained together, in one call per batch."""
from __future__ import annotations

from .. import _border, _core, errors, losses as losses_module, optim
from .._structure import flatten
from .feeding import as_arrays, made_feed, require_pair
from .layer import _shape, widened
from .stack import stack


class Ensemble:
    """n models of make(), which train together as one traced step: lm.nn.stack and lm.vmap in one word. Each member has the bits of a model that is trained alone.

        nets = lm.nn.Ensemble(make, 8, learning_rate=[...], input_shape=(3,))
        nets.fit(x, y, epochs=50, validation_data=(xv, yv), patience=5)
        nets.predict(x)                         # the mean of the members
        nets.predict(x, members=True)           # [n, rows, ...]

    learning_rate: a number for all, a list with one per member, or a schedule. optimizer: a function of the learning rate, such as a class of lm.optim. seeds: as for lm.nn.stack, by default
    0 to n - 1. nets[k] is an ordinary model with a copy of member k's weights."""

    def __init__(self, make, n: int, *, learning_rate=0.001, optimizer=optim.Adam, loss="mse", seeds=None, input_shape=None):
        if not callable(make):
            raise errors.TypeMismatch(f"Ensemble: make is {errors.a_type(make)}", why="it makes one model a call", fix="pass a function without arguments")
        if not callable(optimizer):
            raise errors.TypeMismatch(f"Ensemble: optimizer is {errors.a_type(optimizer)}", why="each member has its own learning rate", fix="pass a class such as lm.optim.Adam, or a function of the learning rate")
        _shape(self, input_shape)
        self.loss = losses_module.get(loss)
        self.models = stack(make, n, seeds=range(n) if seeds is None else seeds, input_shape=input_shape)
        rates = list(learning_rate) if isinstance(learning_rate, (list, tuple)) or getattr(learning_rate, "ndim", 0) else None
        if rates is not None and len(rates) != n:
            raise errors.InvalidArgument(f"Ensemble: {len(rates)} learning rates for {n} members", why="each has its own", fix="pass one per member, or a number")
        self.optimizer = optimizer(learning_rate if rates is None else _core.per_model(rates, "learning_rate"))
        if hasattr(self.optimizer, "build"):
            self.optimizer.build(self.models.trainable_variables)
        self._train, self._parallel_train = _core.function(_vmap(self._train_one), of_model=True), None
        self._test = _core.function(_vmap(lambda x, y: self._loss_of(x, y, False)), of_model=True)
        self._predict = _core.function(_vmap(lambda x: widened(self.models, self.models(as_arrays(x), training=False))), of_model=True)

    def _loss_of(self, x, y, training):
        value = self.loss(as_arrays(y), widened(self.models, self.models(as_arrays(x), training=training)))
        value = value if len(value.shape) == 0 else _core.mean(value)
        return sum((_core.astype(one, value.dtype) for one in self.models.losses), value)

    def _train_one(self, x, y):
        with _core.GradientTape() as tape:
            loss = self._loss_of(x, y, True)
            scaled = self.optimizer.scale_loss(loss)
        variables = self.models.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables))
        return loss

    def fit(self, x, y=None, *, batch_size: int = 32, epochs: int = 1, shuffle: bool = True, validation_data=None, patience: int | None = None,
            distribute: bool = False) -> dict:
        """Trains all members on the same batches; x and y as for Model.fit. Returns the losses of every epoch: {"loss": [epochs, n], "val_loss": ..., "epochs": [n]}, the last being the
        epoch that each member's weights are from, counted from 1.

        patience: a member stops when its val_loss has not become better for so many epochs, and gets the weights of its best epoch, as EarlyStopping(patience=...,
        restore_best_weights=True) does for a model alone. Training ends when all have stopped.

        distribute: the ranks of a job train together, as in Model.fit."""
        import numpy as np

        errors.in_range("Ensemble.fit", "it is how often the data is seen", 0, epochs=epochs)
        if patience is not None:
            errors.in_range("Ensemble.fit", "it is a number of epochs", 1, patience=patience)
        require_pair("Ensemble.fit", validation_data)
        if patience is not None and validation_data is None:
            raise errors.InvalidArgument("Ensemble.fit: patience without validation_data", why="members stop by their val_loss", fix="pass validation_data=(x, y)")
        train = self._train
        if distribute:
            from .. import distributed  # here: import lamina does without it
            train = self._parallel_train = self._parallel_train or distributed.data_parallel(_vmap(self._train_one))
            distributed._require_same_fit("Ensemble.fit")
        n, feed = len(self), made_feed("Ensemble.fit", x, y, batch_size, shuffle, None, None, None)
        history, best, source, waited, stopped = {"loss": []}, np.full(n, np.inf), np.zeros(n, int), np.zeros(n, int), np.zeros(n, bool)
        kept = None
        for epoch in range(1, epochs + 1):
            history["loss"].append(self._mean(train, feed, distribute))
            source[~stopped] = epoch if patience is None else source[~stopped]
            if validation_data is not None:
                values = self._mean(self._test, made_feed("Ensemble.fit's validation_data", *_pair(validation_data), batch_size, False, None, None, None))
                history.setdefault("val_loss", []).append(values)
            if patience is None:
                continue
            better = ~stopped & (values < best)
            best, source, waited = np.where(better, values, best), np.where(better, epoch, source), np.where(better, 0, waited + 1)
            kept = self._weights() if kept is None else [_chosen(better, new, old) for new, old in zip(self._weights(), kept)]
            stopped |= waited >= patience
            if stopped.all():
                break
        for variable, value in zip(self.models.model.variables, kept or ()):
            variable.assign(value)
        return {name: np.stack(values) for name, values in history.items()} | {"epochs": source}

    def evaluate(self, x, y=None, *, batch_size: int = 32):
        """The loss of every member over all samples: a NumPy array [n]."""
        return self._mean(self._test, made_feed("Ensemble.evaluate", x, y, batch_size, False, None, None, None))

    def predict(self, x, *, members: bool = False):
        """The mean of the members' outputs for the rows of x, as a NumPy array; members: all of them, [n, rows, ...]."""
        outputs = flatten(self._predict(_core.constant(x)))[0]
        if len(outputs) != 1:
            raise errors.InvalidArgument(f"Ensemble.predict: the models have {len(outputs)} outputs", why="one is averaged", fix="use lm.vmap(nets.models, in_axes=None)(x)")
        return (outputs[0] if members else _core.mean(outputs[0], 0)).numpy()

    def _mean(self, step, feed, distribute=False):
        """The mean over samples of what a step gives for each member."""
        total, rows = 0.0, 0
        for inputs, labels, _, samples in feed.epoch():
            if distribute:
                from .. import distributed
                inputs, labels = distributed._rows_of_fit("Ensemble.fit", (inputs, labels), rows == 0)
            total, rows = total + step(inputs, labels).numpy().astype("float64") * samples, rows + samples
        if rows == 0:
            raise errors.InvalidArgument("Ensemble: there is no data", why="the arrays, or the Dataset, have no rows", fix="pass at least one row")
        return total / rows

    def _weights(self) -> list:
        return [variable.read() for variable in self.models.model.variables]

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, k):
        return self.models[k]

    def __iter__(self):
        return iter(self.models)

    def __repr__(self) -> str:
        return f"<lm.nn.Ensemble of {len(self)} {type(self.models.model).__name__}>"


def _vmap(f):
    from ..vmap import vmap

    return vmap(f, in_axes=None)


def _pair(data):
    if isinstance(data, (tuple, list)) and len(data) == 3:
        raise errors.InvalidArgument("Ensemble.fit: validation_data has weights", why="an ensemble's losses are not weighted", fix="pass validation_data=(x, y)")
    return data if isinstance(data, (tuple, list)) else (data, None)


def _chosen(better, new, old):
    return _core.where(_core.reshape(_core.constant(better), (-1, *[1] * (len(new.shape) - 1))), new, old)


_border.guard(globals())
