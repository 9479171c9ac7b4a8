"""The op functions of lm against NumPy."""
import numpy as np
import pytest
from elementwise_rows import ROWS

import lamina as lm

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]], "float32")


KINDS = {"n": X, "p": np.abs(X), "u": X / 4, "o": np.abs(X) + 1, "b": X > 0, "i": np.abs(X).astype("int32")}


@pytest.mark.parametrize("name", ROWS)
def test_elementwise(name):
    """Eager and traced, on NumPy arrays, tensors and numbers."""
    row, f = ROWS[name], getattr(lm, name)
    args = [KINDS[kind] for kind in row.kinds]
    if len(args) == 2:
        args[1] = args[1][:, 1:2]
    wanted, eager = row.reference(*args), f(*args)
    np.testing.assert_allclose(eager.numpy(), wanted, rtol=2e-6, atol=1e-6)
    assert np.array_equal(lm.function(f)(*map(lm.constant, args)).numpy(), eager.numpy())
    if row.kinds in ("nn", "np"):
        np.testing.assert_allclose(f(lm.constant(X), 0.25).numpy(), row.reference(X, np.float32(0.25)), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions(name, axis, keepdims):
    np.testing.assert_allclose(getattr(lm, name)(X, axis=axis, keepdims=keepdims).numpy(), getattr(np, name)(X, axis=axis, keepdims=keepdims), rtol=1e-6)


def test_arg_reductions_and_softmax():
    assert np.array_equal(lm.argmax(X, axis=1).numpy(), X.argmax(1)) and np.array_equal(lm.argmin(X, axis=0).numpy(), X.argmin(0))
    p = lm.softmax(X)
    np.testing.assert_allclose(p.numpy().sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(lm.log_softmax(X).numpy(), np.log(p.numpy()), rtol=1e-5)


def test_shapes():
    a = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(lm.reshape(a, (4, -1)).numpy(), a.reshape(4, -1)) and lm.flatten(a, 1).shape == (2, 12)
    assert np.array_equal(lm.transpose(a).numpy(), a.T) and np.array_equal(lm.transpose(a, (1, 0, 2)).numpy(), a.transpose(1, 0, 2))
    assert lm.expand_dims(a, -1).shape == (2, 3, 4, 1) and lm.squeeze(a[:1], 0).shape == (3, 4) and lm.broadcast_to(a[0], (5, 3, 4)).shape == (5, 3, 4)
    assert np.array_equal(lm.concat([a, a], axis=1).numpy(), np.concatenate([a, a], 1)) and np.array_equal(lm.stack([a, a], axis=-1).numpy(), np.stack([a, a], -1))
    assert np.array_equal(lm.gather(a, [1, 0, 1]).numpy(), a[[1, 0, 1]]) and np.array_equal(lm.one_hot([2, 0], 3).numpy(), np.eye(3)[[2, 0]])
    with pytest.raises(TypeError, match="concat"):
        lm.concat(3)


def test_factories():
    assert lm.zeros((2, 3)).numpy().tolist() == [[0] * 3] * 2 and lm.ones(2, dtype="int64").dtype == lm.int64 and lm.full((2,), 7).numpy().tolist() == [7, 7]
    assert lm.zeros_like(lm.constant([1, 2])).dtype == lm.int32 and lm.ones_like([1, 2], dtype=lm.float32).tolist() == [1, 1]
    assert lm.arange(3).tolist() == [0, 1, 2] and lm.arange(1, 7, 2).dtype == lm.int32 and lm.range(0.0, 1.0, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert lm.arange(3, dtype="float64").dtype == lm.float64 and lm.arange(3, 0, -1).tolist() == [3, 2, 1]
    for shape in ((-1,), (2, 1.5), "a", (True,)):
        with pytest.raises((ValueError, TypeError)):
            lm.zeros(shape)


def test_where_clip_astype():
    assert lm.where(X > 0, X, 0.0).numpy().min() == 0 and lm.clip(X, -1.0, 1.0).numpy().tolist() == np.clip(X, -1, 1).tolist()
    assert lm.astype([1.7, -1.7], "int32").tolist() == [1, -1] and lm.astype([0.0, 2.0], bool).tolist() == [False, True]


def test_every_op_of_the_table_is_documented():
    for name in lm.__all__:
        value = getattr(lm, name)
        if callable(value) and not isinstance(value, type):
            assert (value.__doc__ or "").strip(), name


def test_unknown_names_list_the_nearest():
    with pytest.raises(AttributeError, match="relu"):
        lm.rellu
