"""MLPRegressor, MLPClassifier, and ensembles of their nets. Parameters, attributes and the course of a fit are scikit-learn's."""
from __future__ import annotations

import math
import numbers
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import check_random_state, shuffle
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from .. import _border, _core, errors, nn, optim
from .._loops import scan
from ..vmap import vmap

_LAUNCH = 256  # steps of one traced loop at most
_ACTIVATIONS = {"identity": None, "logistic": "sigmoid"}  # scikit-learn's names where Lamina has others
_OPTIMIZERS = {"adam": lambda rate: optim.Adam(rate, epsilon=1e-8), "sgd": lambda rate: optim.SGD(rate, momentum=0.9, nesterov=True)}  # as scikit-learn's


class _Layers:
    """Makes the net. A class, so that pickles hold it by its name."""

    def __init__(self, inputs, hidden, outputs, activation, dtype):
        self.inputs, self.hidden, self.outputs, self.activation, self.dtype = inputs, hidden, outputs, activation, dtype

    def __call__(self):
        dense = [nn.Dense(size, self.activation, kernel_initializer="zeros", dtype=self.dtype) for size in self.hidden]
        return nn.Sequential([nn.Input((self.inputs,), self.dtype), *dense, nn.Dense(self.outputs, kernel_initializer="zeros", dtype=self.dtype)])


class _NeedsSteps(AttributeError):
    """Of a method that a solver without steps lacks, as scikit-learn's estimators raise it."""


class _Net(BaseEstimator):
    """What regression and classification share. `targets` are [rows, outputs]. The arithmetic is float32 or float64, as X is."""

    _members = None  # an ensemble's number of nets

    def __init__(self, hidden_layer_sizes=(100,), activation="relu", *, solver="adam", alpha=0.0001, batch_size="auto", learning_rate_init=0.001, max_iter=200, shuffle=True,
                 random_state=None, tol=1e-4, verbose=False, warm_start=False, early_stopping=False, validation_fraction=0.1, n_iter_no_change=10):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change

    # --- what scikit-learn calls ---

    def fit(self, X, y, sample_weight=None):
        """Trains a new net on X [rows, features] and y; with warm_start, the one of the fit before. sample_weight [rows] multiplies each row's loss. Returns self."""
        return self._fit(X, y, sample_weight, incremental=False)

    def partial_fit(self, X, y, sample_weight=None):
        """One epoch on these rows, with the weights and the optimizer's state of the calls before. Not for solver="lbfgs". Returns self."""
        self._require_steps("partial_fit")
        return self._fit(X, y, sample_weight, incremental=True)

    @property
    def coefs_(self) -> list:
        """The kernels of the layers, [inputs, outputs] each; an ensemble's have an axis of members in front."""
        return [v.numpy() for v in self._variables[::2]]

    @property
    def intercepts_(self) -> list:
        """The biases of the layers, [outputs] each."""
        return [v.numpy() for v in self._variables[1::2]]

    @property
    def n_layers_(self) -> int:
        """The number of layers, with that of the inputs."""
        return len(self._variables) // 2 + 1

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_calls"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "model_"):
            self._trace()

    # --- a fit ---

    def _fit(self, X, y, sample_weight, incremental):
        self._check_parameters()
        if incremental and self.early_stopping:
            raise errors.InvalidArgument(f"{type(self).__name__}.partial_fit: early_stopping=True", why="early_stopping holds rows out of a whole fit", fix="make the estimator with early_stopping=False, or call fit")
        again = hasattr(self, "model_") and (incremental or self.warm_start)
        X, y = self._checked(X, y, reset=not again)
        targets = self._targets(y, reset=not again)
        weights = _check_sample_weight(sample_weight, X, dtype="float64", ensure_non_negative=True) if sample_weight is not None else None
        draw = check_random_state(self.random_state)
        if not again:
            self._begin(X.shape[1], targets.shape[1], X.dtype.name, draw)
        elif not incremental:
            self._optimizer = self._made_optimizer()
            self._trace()
        if self.solver == "lbfgs":
            return self._minimize(X, targets, weights)
        held_out = None
        if self.early_stopping:
            keep, held_out = self._split(len(X), y, draw)
            held_out = X[held_out], y[held_out], None if weights is None else weights[held_out]
            X, targets, weights = X[keep], targets[keep], None if weights is None else weights[keep]
        rows, batch = np.arange(len(X)), self._batch(len(X))
        drawn = self._drawn(len(X), weights, draw)
        self.n_iter_ = 0
        for _ in range(1 if incremental else self.max_iter):
            if self.shuffle:
                rows = shuffle(rows, random_state=draw)
            self.loss_ = self._epoch(X[rows], targets[rows], drawn[..., rows], batch)
            self.n_iter_ += 1
            self.t_ += len(X)
            self.loss_curve_.append(self.loss_)
            if self.verbose:
                print(f"Iteration {self.n_iter_}, loss = {self.loss_:.8f}")
            if not math.isfinite(self.loss_):
                raise errors.InvalidArgument(f"{type(self).__name__}: the loss is {self.loss_} after epoch {self.n_iter_}", why="the training diverged",
                                             fix="scale the inputs and targets, or take a smaller learning_rate_init")
            if self._stops(held_out):
                break
        else:
            if not incremental:
                warnings.warn(f"{type(self).__name__}: the optimization has not converged after max_iter={self.max_iter} epochs", ConvergenceWarning, stacklevel=3)
        if held_out is not None:
            for variable, value in zip(self._variables, self._best):
                variable.assign(value)
        self._best = None
        return self

    def _check_parameters(self):
        def whole(value):
            return isinstance(value, numbers.Integral) and value >= 1

        for name in ("max_iter", "n_iter_no_change", "batch_size"):
            value = getattr(self, name)
            named = isinstance(value, (str, float)) and (name, value) in (("batch_size", "auto"), ("n_iter_no_change", math.inf))
            if not (whole(value) or named):
                self._refuse(name, "a whole number from 1")
        for name, most in (("alpha", math.inf), ("learning_rate_init", math.inf), ("tol", math.inf), ("validation_fraction", 1)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not 0 <= value < most:
                self._refuse(name, "a number from 0" + (" to 1" if most == 1 else ""))
        sizes = self.hidden_layer_sizes
        if not (whole(sizes) or isinstance(sizes, (tuple, list, np.ndarray)) and all(map(whole, sizes))):
            self._refuse("hidden_layer_sizes", "a whole number from 1, or several")

    def _refuse(self, name, wanted):
        raise errors.InvalidArgument(f"{type(self).__name__}: {name}={getattr(self, name)!r} is not {wanted}", fix="pass one that is")

    def _hidden(self):
        return list(np.atleast_1d(np.asarray(self.hidden_layer_sizes, int))) if np.size(self.hidden_layer_sizes) else []

    def _reported(self):
        """The share of the rows' losses in the loss that is reported: scikit-learn minimises the sum over a regression's outputs, and reports their mean."""
        return 1.0

    def _batch(self, rows):
        return min(200, rows) if self.batch_size == "auto" else int(min(self.batch_size, rows))

    def _require_steps(self, what):
        if self.solver == "lbfgs":
            raise _NeedsSteps(f"{type(self).__name__}.{what}: solver='lbfgs' needs all rows at once; take another solver")

    def _begin(self, inputs, outputs, dtype, draw):
        """A new net. Its weights are drawn as scikit-learn draws them: uniform, with Glorot's bounds."""
        hidden = [int(size) for size in self._hidden()]
        activation = _ACTIVATIONS.get(self.activation, self.activation) if isinstance(self.activation, str) else self.activation

        make = _Layers(inputs, hidden, outputs, activation, dtype)
        self._dtype, self.n_outputs_ = dtype, outputs
        before = _core.random.get_state()  # its draws are replaced
        self.model_ = make() if self._members is None else nn.stack(make, self._members, seeds=range(self._members))
        _core.random.set_state(before)
        self._variables = (self.model_ if self._members is None else self.model_.model).trainable_variables
        sizes, factor = [inputs, *hidden, outputs], 2.0 if activation == "sigmoid" else 6.0

        def member():
            values = []
            for before, after in zip(sizes, sizes[1:]):
                bound = np.sqrt(factor / (before + after))
                values += [draw.uniform(-bound, bound, (before, after)), draw.uniform(-bound, bound, after)]
            return values

        drawn = [member() for _ in range(self._members or 1)]
        for variable, values in zip(self._variables, zip(*drawn)):
            variable.assign(np.asarray(values[0] if self._members is None else np.stack(values), dtype))
        self._optimizer = self._made_optimizer()
        self.t_, self.loss_curve_ = 0, []
        self.best_loss_, self._waited, self._best = math.inf, 0, None
        if self.early_stopping:
            self.validation_scores_, self.best_validation_score_ = [], -math.inf
        self._trace()

    def _made_optimizer(self):
        if self.solver == "lbfgs":
            return optim.LBFGS(max_iterations=int(self.max_iter), tolerance=float(self.tol))
        if isinstance(self.solver, str):
            if self.solver in _OPTIMIZERS:
                return _OPTIMIZERS[self.solver](self.learning_rate_init)
            made = optim.get(self.solver)
            made.learning_rate = self.learning_rate_init
            return made
        return self.solver(self.learning_rate_init)

    def _trace(self):
        """The functions that are traced; they are not pickled."""
        net, variables = self.model_, self._variables

        def loss_of(x, y, w):
            """The weighted mean of the rows' losses, and the penalty, as scikit-learn sums it up: what is minimised, and what is reported."""
            total = _core.maximum(_core.sum(w), 1e-30)
            penalty = 0.5 * self.alpha * sum((_core.sum(_core.square(v)) for v in variables[::2]), 0.0)
            wrong = _core.sum(w * self._losses(y, net(x)))
            return (wrong + penalty) / total, (wrong * self._reported() + penalty) / total

        def one(x, y, w):
            with _core.GradientTape() as tape:
                loss, reported = loss_of(x, y, w)
            self._optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return reported

        step = one if self._members is None else vmap(one, in_axes=(None, None, 0))
        forward = (lambda x: net(x)) if self._members is None else vmap(lambda x: net(x), in_axes=None)

        def many(xs, ys, ws):
            return scan(lambda done, batch: (done + 1, step(*batch)), _core.constant(0), (xs, ys, ws))[1]

        self._calls = {"steps": _core.function(many), "outputs": _core.function(forward), "losses": loss_of, "minimised": lambda *rows: loss_of(*rows)[0]}

    def _epoch(self, x, y, w, batch):
        """The mean loss of the batches of one epoch."""
        full, total = len(x) // batch, 0.0
        for begin in range(0, full, _LAUNCH):
            count = min(_LAUNCH, full - begin)
            total += self._launch(x, y, w, slice(begin * batch, (begin + count) * batch), count) * batch
        if len(x) % batch:
            total += self._launch(x, y, w, slice(full * batch, len(x)), 1) * (len(x) % batch)
        return total / len(x)

    def _launch(self, x, y, w, rows, count):
        """The sum of the losses of `count` steps on these rows."""
        w = w[..., rows].reshape(*w.shape[:-1], count, -1)
        parts = [x[rows].reshape(count, -1, x.shape[-1]), y[rows].reshape(count, -1, y.shape[-1]), w if self._members is None else np.moveaxis(w, 0, 1)]  # [steps, members, batch]
        losses = self._calls["steps"](*(_core.constant(np.ascontiguousarray(part, self._dtype)) for part in parts)).numpy()
        return float(losses.astype("float64").sum()) / (self._members or 1)

    def _drawn(self, rows, weights, draw):
        """The rows' weights; an ensemble's [members, rows]."""
        return np.ones(rows) if weights is None else weights

    def _stops(self, held_out) -> bool:
        """Whether neither the loss nor, with early stopping, the score of the rows held out has become better for long enough."""
        if held_out is not None:
            score = self._score(*held_out)
            self.validation_scores_.append(score)
            if self.verbose:
                print(f"Validation score: {score:.6f}")
            self._waited = self._waited + 1 if score < self.best_validation_score_ + self.tol else 0
            if score > self.best_validation_score_:
                self.best_validation_score_, self._best = score, [v.read() for v in self._variables]
        else:
            self._waited = self._waited + 1 if self.loss_ > self.best_loss_ - self.tol else 0
            self.best_loss_ = min(self.best_loss_, self.loss_)
        if self._waited <= self.n_iter_no_change:
            return False
        self._waited = 0
        return True

    def _minimize(self, x, y, weights):
        weights = np.ones(len(x)) if weights is None else weights
        parts = [_core.constant(np.ascontiguousarray(part, self._dtype)) for part in (x, y, weights)]
        found = self._optimizer.minimize(self._calls["minimised"], self._variables, *parts)
        self.loss_, self.n_iter_, self.t_ = float(self._calls["losses"](*parts)[1]), int(found.iterations), self.t_ + len(x)
        self.best_loss_ = self.loss_
        self.loss_curve_.append(self.loss_)
        if self.n_iter_ >= self.max_iter and not bool(found.converged):
            warnings.warn(f"{type(self).__name__}: L-BFGS has not converged after max_iter={self.max_iter} iterations", ConvergenceWarning, stacklevel=4)
        return self

    def _outputs(self, X):
        """The outputs of the last layer, float64 [rows, outputs]; an ensemble's [members, rows, outputs]."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=False, reset=False, dtype=("float64", "float32"))
        return self._calls["outputs"](_core.constant(X.astype(self._dtype, copy=False))).numpy().astype("float64")


class MLPRegressor(RegressorMixin, _Net):
    """A net of dense layers that minimises the squared error, with the interface of sklearn.neural_network.MLPRegressor: y is [rows] or [rows, outputs].

    Weights are drawn and rows are shuffled as scikit-learn does it for the same random_state, and as there the arithmetic is that of X's dtype: float32 is the faster one. Many steps run as one traced loop. activation: "identity", "logistic",
    or what lm.nn.Dense takes. solver: "adam", "sgd", "lbfgs", another name in lm.optim, or a function of the learning rate. model_ is the trained lm.nn.Sequential, for lm.save.
    """

    _mean = True

    def _checked(self, X, y, reset):
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=("float64", "float32"), reset=reset)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        self._flat = y.ndim == 1
        return X, y

    def _targets(self, y, reset):
        targets = np.asarray(y).reshape(len(y), -1)
        if not reset and targets.shape[1] != self.n_outputs_:
            raise errors.InvalidArgument(f"{type(self).__name__}: y has {targets.shape[1]} columns, before it had {self.n_outputs_}", fix="pass targets like those of the first call, or fit anew")
        return targets

    @staticmethod
    def _losses(y, outputs):
        return 0.5 * _core.sum(_core.square(y - outputs), -1)

    def _reported(self):
        return 1 / self.n_outputs_

    def _split(self, rows, y, draw):
        return train_test_split(np.arange(rows), random_state=draw, test_size=self.validation_fraction)

    def _score(self, X, y, weights):
        predicted = self._joined(X)
        return r2_score(y, predicted, sample_weight=weights) if np.isfinite(predicted).all() else math.nan

    def _joined(self, X):
        outputs = self._outputs(X)
        outputs = outputs if self._members is None else outputs.mean(0)
        return outputs[:, 0] if self._flat else outputs

    def predict(self, X):
        """The outputs for X [rows, features]: [rows], or [rows, outputs] where y had several columns."""
        return self._joined(X)


class MLPClassifier(ClassifierMixin, _Net):
    """A net of dense layers that minimises the cross-entropy, with the interface of sklearn.neural_network.MLPClassifier: y has classes [rows], or for several labels a row 0 or 1 [rows, labels].

    Everything else is as in MLPRegressor.
    """

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """One epoch on these rows, with the weights and the optimizer's state of the calls before. classes: all that will occur, in the first call. Returns self."""
        self._require_steps("partial_fit")
        if not hasattr(self, "model_"):
            if classes is None:
                raise errors.InvalidArgument(f"{type(self).__name__}.partial_fit: the first call needs classes", why="a batch may lack some of them", fix="pass classes=np.unique(y) of all labels")
            self._binarizer = LabelBinarizer()
            self._binarizer.fit(y if type_of_target(y).startswith("multilabel") else classes)
            self.classes_ = self._binarizer.classes_
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise errors.InvalidArgument(f"{type(self).__name__}.partial_fit: classes={classes!r} are not those of the first call, {self.classes_!r}", fix="leave classes out")
        return self._fit(X, y, sample_weight, incremental=True)

    def fit(self, X, y, sample_weight=None):
        """Trains a new net on X [rows, features] and y; with warm_start, the one of the fit before, whose classes y must have. sample_weight [rows] multiplies each row's loss. Returns self."""
        if not (self.warm_start and hasattr(self, "model_")):
            self._binarizer = None
        return self._fit(X, y, sample_weight, incremental=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _checked(self, X, y, reset):
        X, y = validate_data(self, X, y, multi_output=True, dtype=("float64", "float32"), reset=reset)
        return X, column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y

    def _targets(self, y, reset):
        check_classification_targets(y)
        if reset and self._binarizer is None:
            self._binarizer = LabelBinarizer()
            self._binarizer.fit(y)
            self.classes_ = self._binarizer.classes_
        elif self.warm_start and hasattr(self, "loss_curve_") and not np.isin(unique_labels(y), self.classes_).all():
            raise errors.InvalidArgument(f"{type(self).__name__}: y has the classes {unique_labels(y)}, those of the first fit are {self.classes_}", why="warm_start keeps the outputs", fix="fit with warm_start=False")
        self._several = self._binarizer.y_type_.startswith("multilabel")
        targets = self._binarizer.transform(y)
        return targets.toarray() if hasattr(targets, "toarray") else targets

    def _losses(self, y, outputs):
        if self.n_outputs_ > 1 and not self._several:
            return -_core.sum(y * _core.log_softmax(outputs), -1)
        return _core.sum(_core.maximum(outputs, 0.0) - outputs * y + _core.log1p(_core.exp(-_core.abs(outputs))), -1)  # of the logistic function

    def _split(self, rows, y, draw):
        return train_test_split(np.arange(rows), random_state=draw, test_size=self.validation_fraction, stratify=y if self.n_outputs_ == 1 else None)

    def _score(self, X, y, weights):
        return accuracy_score(y, self.predict(X), sample_weight=weights)

    def predict_proba(self, X):
        """The probabilities of the classes, [rows, classes], which add up to 1; of several labels those of each, [rows, labels]. An ensemble's are the means of its nets'."""
        outputs = self._outputs(X)
        if self.n_outputs_ > 1 and not self._several:
            outputs = np.exp(outputs - outputs.max(-1, keepdims=True))
            found = outputs / outputs.sum(-1, keepdims=True)
        else:
            found = np.where(outputs >= 0, 1, np.exp(np.minimum(outputs, 0))) / (1 + np.exp(-np.abs(outputs)))
        found = found if self._members is None else found.mean(0)
        return np.concatenate([1 - found, found], 1) if self.n_outputs_ == 1 and not self._several else found

    def predict_log_proba(self, X):
        """The logarithms of predict_proba()."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """The most probable class of each row of X; of several labels 0 or 1 for each, [rows, labels]."""
        chances = self.predict_proba(X)
        if self._several:
            return (chances > 0.5).astype(int)
        return self.classes_[chances.argmax(1)] if len(self.classes_) > 1 else np.repeat(self.classes_, len(chances))


class _Ensemble:
    """n_estimators nets in one traced step."""

    def __init__(self, n_estimators=8, hidden_layer_sizes=(100,), activation="relu", *, bootstrap=True, solver="adam", alpha=0.0001, batch_size="auto", learning_rate_init=0.001, max_iter=200,
                 shuffle=True, random_state=None, tol=1e-4, verbose=False, warm_start=False, early_stopping=False, validation_fraction=0.1, n_iter_no_change=10):
        super().__init__(hidden_layer_sizes, activation, solver=solver, alpha=alpha, batch_size=batch_size, learning_rate_init=learning_rate_init, max_iter=max_iter, shuffle=shuffle,
                         random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start, early_stopping=early_stopping, validation_fraction=validation_fraction,
                         n_iter_no_change=n_iter_no_change)
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap

    @property
    def _members(self):
        return int(self.n_estimators)

    def _check_parameters(self):
        super()._check_parameters()
        if not (isinstance(self.n_estimators, numbers.Integral) and self.n_estimators >= 1):
            self._refuse("n_estimators", "a whole number from 1")
        if self.solver == "lbfgs":
            raise errors.InvalidArgument(f"{type(self).__name__}: solver='lbfgs'", why="it searches along one line for one net", fix="take another solver")

    def _drawn(self, rows, weights, draw):
        """How often each row is drawn for each net (Breiman 1996), times its weight."""
        counts = np.stack([draw.multinomial(rows, np.full(rows, 1 / rows)) for _ in range(self._members)]) if self.bootstrap else np.ones((self._members, rows))
        return counts * (1 if weights is None else weights)


class EnsembleRegressor(_Ensemble, MLPRegressor):
    """n_estimators nets of MLPRegressor that train together in one traced step, each from its own weights; bootstrap: each on its own draw of the rows, with repetition. Predictions are their mean.

    It stops as one: by the mean of the losses, or with early_stopping by the score of the mean. Not for solver="lbfgs".
    """

    def predict(self, X, return_std=False):
        """The mean of the nets' outputs for X [rows, features]: [rows] or [rows, outputs]; with return_std a pair of it and the nets' standard deviation."""
        outputs = self._outputs(X)
        outputs = outputs[..., 0] if self._flat else outputs
        return (outputs.mean(0), outputs.std(0)) if return_std else outputs.mean(0)


class EnsembleClassifier(_Ensemble, MLPClassifier):
    """n_estimators nets of MLPClassifier that train together in one traced step, as in EnsembleRegressor. The classes' probabilities are the means of the nets'."""


# What scikit-learn raises inside of them keeps its words.
for _class in (_Net, MLPRegressor, MLPClassifier, _Ensemble, EnsembleRegressor, EnsembleClassifier):
    for _name in ("__init__", "fit", "partial_fit", "predict", "predict_proba", "predict_log_proba"):
        if _name in vars(_class):
            setattr(_class, _name, _border.guarded(vars(_class)[_name], True, (_NeedsSteps, NotFittedError)))
