"""Tensors as parameters of functions: gradients flow to them, or they are refused where only a plain number will do. Never a derivative of 0 in silence."""
import numpy as np
import pytest

import lamina as lm

DATA = [1.0, 2.0, 4.0, 8.0]


def drawn(draw):
    return lambda p: lm.sum(draw(p, lm.random.key(3)))


DIFFERENTIABLE = {
    "quantile": (lambda q: lm.quantile(lm.constant(DATA, dtype="float64"), q), 0.3),
    "quantile at an element": (lambda q: lm.quantile(lm.constant([1.0, 3.0, 5.0], dtype="float64"), q), 0.5),
    "several quantiles": (lambda q: lm.sum(lm.quantile(lm.constant(DATA, dtype="float64"), lm.stack([q, q * q]))), 0.7),
    "linspace's start": (lambda t: lm.sum(lm.square(lm.linspace(t, 5.0, 4))), 2.0),
    "linspace's stop": (lambda t: lm.sum(lm.square(lm.linspace(0.0, t, 4))), 2.0),
    "normal's mean": (drawn(lambda p, k: lm.square(lm.random.normal((3,), p, 1.0, "float64", key=k))), 0.4),
    "normal's deviation": (drawn(lambda p, k: lm.random.normal((3,), 0.0, p, "float64", key=k)), 0.4),
    "uniform's low": (drawn(lambda p, k: lm.random.uniform((3,), p, 3.0, "float64", key=k)), 0.4),
    "uniform's high": (drawn(lambda p, k: lm.random.uniform((3,), 0.0, p, "float64", key=k)), 0.4),
    "exponential's rate": (drawn(lambda p, k: lm.random.exponential((3,), p, "float64", key=k)), 0.4),
}
WHILE_NO_LENGTH_CHANGES = {
    "arange's start": (lambda s: lm.sum(lm.square(lm.arange(s, 4.0, dtype="float64"))), 0.51),
    "arange's step": (lambda s: lm.sum(lm.square(lm.arange(0.0, 3.0, s, dtype="float64"))), 0.51),
}
REFUSED = {
    "truncated_normal": lambda p: lm.sum(lm.random.truncated_normal((3,), p, key=lm.random.key(1))),
    "layer_norm": lambda p: lm.sum(lm.layer_norm(lm.constant([DATA]), epsilon=p)),
    "batch_norm": lambda p: lm.sum(lm.batch_norm(lm.constant([DATA]), lm.zeros(4), lm.ones(4), epsilon=p)),
    "huber": lambda p: lm.sum(lm.losses.huber(lm.constant([DATA]), lm.zeros((1, 4)), p)),
    "dropout": lambda p: lm.sum(lm.dropout(lm.constant(DATA), p)),
    "var": lambda p: lm.var(lm.constant(DATA), ddof=p),
    "std, the method": lambda p: lm.constant(DATA).std(ddof=p),
    "norm": lambda p: lm.norm(lm.constant(DATA), p),
    "a learning rate": lambda p: (lm.optim.SGD(p), lm.constant(0.0))[1],
}


def difference(f, at, step=1e-6):
    return (float(f(lm.constant(at + step, dtype="float64"))) - float(f(lm.constant(at - step, dtype="float64")))) / (2 * step)


def with_tape(f):
    def gradient(p):
        with lm.GradientTape() as tape:
            tape.watch(p)
            y = f(p)
        return tape.gradient(y, p)
    return gradient


HOW = {
    "eager": lm.grad, "traced": lambda f: lm.function(lm.grad(f)), "a tape": with_tape, "a Variable": lambda f: lambda p: with_tape(f)(lm.Variable(p)),
    "vmap": lambda f: lambda p: lm.grad(lambda v: lm.sum(lm.vmap(f)(v)))(lm.expand_dims(p, 0))[0],
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *WHILE_NO_LENGTH_CHANGES])
def test_gradients_flow_to_parameters(name, how):
    f, at = {**DIFFERENTIABLE, **WHILE_NO_LENGTH_CHANGES}[name]
    if how == "vmap" and name not in DIFFERENTIABLE:
        with pytest.raises(lm.errors.ConversionFailed, match="length"):
            HOW[how](f)(lm.constant(at, dtype="float64"))
        return
    if how == "vmap" and "'s " in name and "linspace" not in name:
        assert abs(float(HOW[how](f)(lm.constant(at, dtype="float64")))) > 1e-3  # draws of its own
        return
    got = float(HOW[how](f)(lm.constant(at, dtype="float64")))
    assert got == pytest.approx(difference(f, at), rel=1e-5) or (name == "quantile at an element" and got == pytest.approx(4.0))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", REFUSED)
def test_what_must_be_a_plain_number_is_refused_where_it_is_differentiated(name, how):
    with pytest.raises(lm.errors.Error) as error:
        HOW[how](REFUSED[name])(lm.constant(0.4))
    assert "plain number" in str(error.value) or how in ("traced", "vmap") or (name, how) == ("a learning rate", "a Variable"), error.value
    assert "fix:" in str(error.value)


@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_that_nobody_differentiates_is_a_number(name):
    f = REFUSED[name]
    assert np.array_equal(f(lm.constant(0.5)).numpy(), f(0.5).numpy()) or name == "dropout"
    assert float(lm.grad(lambda w: w * f(lm.constant(0.5)))(lm.constant(2.0))) == pytest.approx(float(f(0.5))) or name == "dropout"


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("traced", [False, True])
def test_quantiles_at_a_tensor_are_those_at_a_number(method, traced):
    x = np.array([[3.0, 1.0, 2.0, 7.0], [1.0, np.inf, 5.0, 2.0], [1.0, np.nan, 1.0, 1.0], [-np.inf, 0.0, 1.0, np.inf]])
    f = lambda q: lm.quantile(lm.constant(x), q, axis=1, keepdims=True, method=method)
    for q in (0.0, 0.1, 0.5, 0.77, 1.0):
        got = (lm.function(f) if traced else f)(lm.constant(q, dtype="float64"))
        assert np.array_equal(got.numpy(), f(q).numpy(), equal_nan=True), (q, got, f(q))
    with pytest.raises((lm.errors.InvalidArgument, lm.errors.AssertionFailed), match="quantile"):
        (lm.function(f) if traced else f)(lm.constant(1.5, dtype="float64"))


def test_numbers_of_numpy_are_numbers():
    key = lm.random.key(2)
    for draw in (lambda p: lm.random.uniform((1000,), p, p * 3, key=key), lambda p: lm.random.normal((1000,), p, p, key=key), lambda p: lm.random.exponential((1000,), p, key=key)):
        for number in (np.float64(0.3), np.array(0.3)):
            assert np.array_equal(draw(number).numpy(), draw(0.3).numpy()) and draw(number).dtype == lm.float32


def test_parameters_broadcast_to_the_shape_of_the_draws():
    n = lm.random.normal((1000, 3), lm.constant([0.0, 10.0, 20.0]), np.array([1.0, 2.0, 3.0])).numpy()
    assert n.dtype == np.float32 and np.allclose(n.mean(0), [0, 10, 20], atol=0.5) and np.allclose(n.std(0), [1, 2, 3], rtol=0.2)
    assert lm.random.normal((2,), np.array([1.0, 2.0])).dtype == lm.float32
    assert lm.random.uniform((2,), lm.constant(1.0, dtype="float64")).dtype == lm.float64
    with pytest.raises(lm.errors.InvalidArgument, match="broadcast"):
        lm.random.normal((2,), lm.zeros(3))
    with pytest.raises(lm.errors.AssertionFailed, match="rate must be positive"):
        lm.random.exponential((2,), lm.constant(-1.0))
    ends = lm.linspace(lm.constant([0.0, 1.0]), 4.0, 5).numpy()
    assert np.array_equal(ends, np.linspace([0.0, 1.0], 4.0, 5).astype(np.float32))
    assert np.array_equal(lm.function(lambda a: lm.linspace(a[0], a[1], 3))(lm.constant([1.0, 2.0])).numpy(), [1.0, 1.5, 2.0])
