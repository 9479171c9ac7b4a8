"""L-BFGS: the whole minimisation as one graph."""
from __future__ import annotations

from typing import NamedTuple

from .. import _border, _core, errors

_ENOUGH, _HALVINGS = 1e-4, 30  # Armijo's constant; attempts of a line search


class Minimized(NamedTuple):
    """What LBFGS.minimize() found: tensors without axes."""

    loss: object  # at the end
    iterations: object  # int32: how many were done
    converged: object  # bool: whether the largest element of the gradient is at most `tolerance`


class LBFGS:
    """Minimises a smooth function of Variables by the limited-memory BFGS method, with the line search that halves the step until the loss falls enough. Nocedal and Wright 2006,
    algorithms 7.4, 7.5 and 3.1. For losses of all data, not of random batches.

        found = lm.optim.LBFGS().minimize(loss, variables)      # loss() -> a scalar tensor

    history_size: pairs of steps and gradient changes that are kept; max_iterations: of one minimize(); tolerance: it ends when no element of the gradient is larger.
    """

    def __init__(self, history_size: int = 10, max_iterations: int = 100, tolerance: float = 1e-6):
        for name, value in (("history_size", history_size), ("max_iterations", max_iterations)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise errors.InvalidArgument(f"LBFGS: {name} {errors.shown(value)} is not a positive integer", fix="pass 10" if name == "history_size" else "pass 100")
        errors.in_range("LBFGS", "it is the size of a gradient's element", 0, tolerance=tolerance)
        self.history_size, self.max_iterations, self.tolerance = history_size, max_iterations, tolerance
        self._of = None  # the variables, the history for them, and the function that was traced for a loss

    def minimize(self, loss_fn, variables, *args) -> Minimized:
        """Moves the Variables to a minimum of loss_fn(*args), a scalar tensor; tensors in args may change from call to call. The history stays: a further call for the same Variables
        goes on with it. The loss after it is never larger than before. A call with the same function and Variables traces nothing anew.

        Raises InvalidArgument for no Variables and a loss that is no scalar, TypeMismatch for Variables of several dtypes or of whole numbers."""
        variables = list(variables)
        if not callable(loss_fn):
            raise errors.TypeMismatch(f"LBFGS.minimize: {errors.a_type(loss_fn)} is no function", why="the loss is computed at many points", fix="pass a function that computes the loss")
        if not variables or not all(isinstance(v, _core.Variable) for v in variables):
            raise errors.InvalidArgument("LBFGS.minimize: there are no Variables" if not variables else "LBFGS.minimize: not all are Variables", fix="pass a list of Variables")
        if len({v.dtype.name for v in variables}) > 1 or variables[0].dtype.name not in ("float32", "float64"):
            raise errors.TypeMismatch(f"LBFGS.minimize: the Variables are {', '.join(sorted({v.dtype.name for v in variables}))}", why="they make one vector of float32 or float64",
                                      fix="give all of them one of these dtypes")
        known = self._of
        same = known is not None and len(known[0]) == len(variables) and all(a is b or hash(a) == hash(b) for a, b in zip(known[0], variables))
        if not same:
            shape = (self.history_size, sum(v.size for v in variables))
            self._history = tuple(_core.Variable(_core.zeros(shape, variables[0].dtype), name=f"lbfgs/{name}", trainable=False) for name in ("steps", "changes"))
        if not same or known[1] is not loss_fn:
            self._of = variables, loss_fn, _core.function(lambda *inputs: self._run(loss_fn, variables, inputs))
        return Minimized(*self._of[2](*args))

    @property
    def variables(self) -> list:
        """The history: steps and changes of the gradient, [history_size, numbers in the Variables] each, the newest last. Empty before the first minimize()."""
        return list(getattr(self, "_history", ()))

    def _run(self, loss_fn, variables, inputs):
        steps, changes = self._history

        def put(x):
            begin = 0
            for v in variables:
                v.assign(_core.reshape(x[begin:begin + v.size], v.shape))
                begin += v.size

        def loss_at(x):
            put(x)
            value = loss_fn(*inputs)
            if len(value.shape):
                raise errors.InvalidArgument(f"LBFGS.minimize: the loss has shape {tuple(value.shape)}", why="it is one number", fix="return its mean or sum")
            return _core.astype(value, variables[0].dtype)

        def slope_at(x):
            put(x)
            with _core.GradientTape() as tape:
                value = loss_fn(*inputs)
            parts = [_core.zeros_like(v.read()) if g is None else g for v, g in zip(variables, tape.gradient(value, variables))]
            return _core.concat([_core.reshape(g, (-1,)) for g in parts], 0)

        def direction(g, s, y):
            """The two-loop recursion; pairs that are not there yet are zeros and change nothing."""
            products = _core.sum(s * y, 1)
            rho = _core.where(products > 0, 1 / _core.where(products > 0, products, 1.0), 0.0)
            q, alphas = g, {}
            for i in reversed(range(self.history_size)):
                alphas[i] = rho[i] * _core.sum(s[i] * q)
                q = q - alphas[i] * y[i]
            size = _core.sum(y[-1] * y[-1])
            r = q * _core.where(size > 0, products[-1] / _core.where(size > 0, size, 1.0), 1.0)
            for i in range(self.history_size):
                r = r + (alphas[i] - rho[i] * _core.sum(y[i] * r)) * s[i]
            return -r

        def iterate(state):
            n, x, f, g, s, y, _ = state
            d = direction(g, s, y)
            fall = _core.sum(d * g)
            d, fall = _core.where(fall < 0, d, -g), _core.where(fall < 0, fall, -_core.sum(g * g))
            first = _core.where(_core.sum(_core.abs(s[-1])) > 0, 1.0, _core.minimum(1 / _core.maximum(_core.sum(_core.abs(g)), 1e-30), 1.0))
            t = _core.astype(first, g.dtype)

            def too_high(search):
                return _core.logical_not(search[1] <= f + _ENOUGH * search[0] * fall)

            def halve(search):
                t = search[0] * 0.5
                return t, loss_at(x + t * d)

            t, lower = _core.while_loop(too_high, halve, (t, loss_at(x + t * d)), maximum_iterations=_HALVINGS)
            better = lower <= f + _ENOUGH * t * fall
            after = _core.where(better, x + t * d, x)
            slope = slope_at(after)
            step, change = after - x, slope - g
            keep = _core.sum(step * change) > 1e-10 * _core.sum(change * change)
            s, y = (_core.where(keep, _core.concat([old[1:], new[None]], 0), old) for old, new in ((s, step), (y, change)))
            return n + 1, after, _core.where(better, lower, f), slope, s, y, better

        def going_on(state):
            return _core.logical_and(state[6], _core.max(_core.abs(state[3])) > self.tolerance)

        x = _core.concat([_core.reshape(v.read(), (-1,)) for v in variables], 0)
        begin = (_core.constant(0, "int32"), x, loss_at(x), slope_at(x), steps.read(), changes.read(), _core.constant(True))
        n, x, f, g, s, y, _ = _core.while_loop(going_on, iterate, begin, maximum_iterations=self.max_iterations)
        put(x)
        steps.assign(s)
        changes.assign(y)
        return f, n, _core.max(_core.abs(g)) <= self.tolerance

    def __repr__(self) -> str:
        return f"<lm.optim.LBFGS of {self.history_size} pairs>"


_border.guard(globals())
