"""Losses of the user's own: classes derived from lm.losses.Loss that define call()."""
import copy
import pickle

import numpy as np
import pytest

import lamina as lm


class Scaled(lm.losses.Loss):
    """A parameter, and a branch on a tensor."""

    def __init__(self, scale, name=None):
        super().__init__(name)
        self.scale = scale

    def call(self, y_true, y_pred):
        if lm.mean(y_pred) > 0:
            error = lm.abs(y_true - y_pred)
        else:
            error = lm.square(y_true - y_pred)
        return lm.mean(error, axis=-1) * self.scale


class OfHuber(lm.losses.Huber):
    """A class of lm.losses whose computation is another one."""

    def call(self, y_true, y_pred):
        return lm.mean(lm.abs(y_true - y_pred), axis=-1) * 3.0


class Renamed(lm.losses.Huber):
    """Nothing but another class."""


def expected(y, p):
    return np.mean(np.abs(y - p) if np.mean(p) > 0 else np.square(y - p), axis=-1) * 3.0


Y = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize("p", [Y + 2.0, Y - 2.0], ids=["positive", "negative"])
@pytest.mark.parametrize("of", [np.asarray, lm.constant, lm.Variable, lambda x: x.tolist()], ids=["array", "tensor", "Variable", "list"])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_loss_of_an_own_class_is_the_mean_of_its_call(p, of, traced):
    loss, y, p, wanted = Scaled(3.0), of(Y), of(p), expected(Y, p)
    run, each = (lm.function(lambda y, p: loss(y, p)), lm.function(lambda y, p: loss.per_sample(y, p))) if traced else (loss, loss.per_sample)
    np.testing.assert_allclose(run(y, p), wanted.mean(), rtol=1e-6)
    np.testing.assert_allclose(each(y, p), wanted, rtol=1e-6)


def test_its_name_is_the_given_one_or_the_class_s():
    assert (Scaled(1.0).name, Scaled(1.0, "mse").name, OfHuber().name) == ("Scaled", "mse", "huber")
    np.testing.assert_allclose(Scaled(3.0, "mse")(Y, Y + 2.0), expected(Y, Y + 2.0).mean(), rtol=1e-6)   # the name computes nothing
    np.testing.assert_allclose(OfHuber()(Y, Y + 2.0), 6.0, rtol=1e-6)
    np.testing.assert_allclose(Renamed(0.5)(Y, Y + 2.0), lm.losses.Huber(0.5)(Y, Y + 2.0))


def test_fit_and_evaluate_compute_with_it_and_with_weights_of_samples():
    net = lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dense(2)])
    net.compile(lm.optim.SGD(0.0), Scaled(3.0))
    x, weights = np.random.default_rng(1).normal(size=(6, 2)), np.arange(6.0)
    each = expected(Y, net.predict(x))
    assert net.evaluate(x, Y) == pytest.approx(each.mean(), rel=1e-5)
    assert net.evaluate(x, Y, sample_weight=weights) == pytest.approx((each * weights).mean(), rel=1e-5)
    assert net.fit(x, Y, batch_size=6, sample_weight=weights, verbose=0).history["loss"][0] == pytest.approx((each * weights).mean(), rel=1e-5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))], ids=["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("make", [lambda: Scaled(3.0, "own"), OfHuber, lambda: Renamed(0.5)], ids=["Scaled", "OfHuber", "Renamed"])
def test_it_is_copied_with_its_attributes(copied, make):
    loss = make()
    loss.note = "kept"
    other = copied(loss)
    assert type(other) is type(loss) and other.name == loss.name and other.note == "kept"
    np.testing.assert_array_equal(other(Y, Y + 2.0), loss(Y, Y + 2.0))


def test_a_class_without_call_and_a_call_without_result_are_told():
    class Nothing(lm.losses.Loss):
        pass

    class Silent(lm.losses.Loss):
        def call(self, y_true, y_pred):
            lm.square(y_true - y_pred)

    with pytest.raises(lm.errors.TypeMismatch, match=r"Nothing does not define call\(\)"):
        Nothing()
    with pytest.raises(lm.errors.TypeMismatch, match=r"Silent.call\(\) gave None[^$]*fix: +return it"):
        Silent()(Y, Y)
    with pytest.raises(lm.errors.TypeMismatch, match=r"(?s)Loss: the argument 'name' is missing.*derive a class with call"):
        lm.losses.Loss()
    with pytest.raises(lm.errors.NotFound, match="there is no loss named 'foo'"):
        lm.losses.Loss("foo")


def test_a_keras_file_refuses_it_whatever_its_name(tmp_path):
    pytest.importorskip("h5py", reason=".keras files need h5py")
    net = lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dense(2)])
    net.compile("adam", Scaled(1.0, "mean_squared_error"))
    with pytest.raises(lm.errors.Error, match="the loss 'mean_squared_error' is none of lm.losses"):
        lm.nn.save_file(net, tmp_path / "net.keras")
