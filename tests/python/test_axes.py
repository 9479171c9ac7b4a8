"""axis=() names no axis: nothing is reduced, dropped or permuted. None means all axes."""
import numpy as np
import pytest

import lamina as lm

X = np.array([[[3.0, -1.0, 0.0]], [[2.0, 5.0, -4.0]]], "float32")  # (2, 1, 3)
NUMPY = {"count_nonzero": lambda x, axis: (x != 0).astype("int64") if axis == () else np.count_nonzero(x, axis=axis),
         "logsumexp": lambda x, axis: np.log(np.sum(np.exp(x), axis=axis)), "norm": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis))}
REDUCTIONS = ["sum", "mean", "max", "min", "prod", "all", "any", "var", "std", "count_nonzero", "logsumexp", "norm"]


def reference(name):
    return NUMPY.get(name) or (lambda x, axis: getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(), [], None, (0,), (0, 2), -1, (1, -1), (0, 1, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_take_the_axes_that_are_named(name, axis, keepdims):
    f = lambda x: getattr(lm, name)(x, axis=axis, keepdims=keepdims)
    as_numpy = tuple(axis) if isinstance(axis, list) else axis
    wanted = reference(name)(X, as_numpy)
    if keepdims:
        kept = [1 if as_numpy is None or a in ((as_numpy,) if isinstance(as_numpy, int) else as_numpy) or a - 3 in ((as_numpy,) if isinstance(as_numpy, int) else as_numpy)
                else n for a, n in enumerate(X.shape)]
        wanted = np.reshape(wanted, kept)
    x = lm.constant(X)
    open_length = lm.function(f, input_signature=[lm.TensorSpec([None, 1, None], lm.float32)])
    for got in (f(x), lm.function(f)(x), open_length(x)):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert got.shape == wanted.shape
    mapped = lm.vmap(f)(lm.constant(np.stack([X, X + 1])))
    assert mapped.shape == (2, *wanted.shape)
    np.testing.assert_allclose(mapped.numpy()[0], wanted, rtol=1e-5, atol=1e-6)
    if name in ("sum", "mean", "max", "min", "prod", "var", "logsumexp", "norm"):
        g = lm.grad(lambda v: lm.sum(f(v)))
        np.testing.assert_allclose(lm.function(g)(x).numpy(), g(x).numpy(), rtol=1e-6, atol=1e-7)
        if as_numpy == ():
            slopes = {"var": np.zeros_like(X), "norm": np.sign(X)}.get(name, np.ones_like(X))
            np.testing.assert_allclose(g(x).numpy(), slopes)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "all", "any", "var", "std"])
def test_methods_of_tensors_take_no_axis_too(name):
    np.testing.assert_allclose(getattr(lm.constant(X), name)(axis=()).numpy(), reference(name)(X, ()))
    assert getattr(lm.constant(X), name)().shape == ()


def test_a_number_has_no_axes():
    x = lm.constant(3.0)
    for name in REDUCTIONS:
        assert getattr(lm, name)(x, axis=()).shape == () and getattr(lm, name)(x).shape == ()
    assert lm.flip(x, ()).shape == () and lm.squeeze(x, ()).shape == () and lm.transpose(x, ()).shape == ()


def test_sums_of_bools_count_also_over_no_axis():
    b = lm.constant([True, False])
    for f in (lm.sum, lm.prod, lm.count_nonzero):
        for got in (f(b, axis=()), lm.function(lambda v: f(v, axis=()))(b), lm.vmap(lambda v: f(v, axis=()))(b)):
            assert got.dtype == lm.int64 and got.numpy().tolist() == [1, 0]


def test_flip_squeeze_roll_and_moments_without_axes_change_nothing():
    x = lm.constant(X)
    for same in (lm.flip(x, ()), lm.squeeze(x, ()), x.squeeze(()), lm.roll(x, 1, ()), lm.roll(x, (), ()), lm.moveaxis(x, (), ()), lm.moments(x, ())[0]):
        np.testing.assert_array_equal(same.numpy(), X)
    assert (lm.moments(x, ())[1].numpy() == 0).all()
    np.testing.assert_array_equal(lm.flip(x).numpy(), np.flip(X))
    assert lm.squeeze(x).shape == (2, 3) and lm.moments(x)[0].shape == ()


def test_transpose_takes_an_order_of_all_axes():
    x = lm.constant(X)
    assert lm.transpose(x).shape == x.transpose().shape == x.transpose(None).shape == (3, 1, 2)
    for f in (lambda: lm.transpose(x, ()), lambda: x.transpose(())):
        with pytest.raises(lm.errors.InvalidArgument, match="transpose"):
            f()
