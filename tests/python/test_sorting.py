"""Sorting, searching and distinct values against NumPy."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lamina as lm

DTYPES = st.sampled_from(["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"])
ARRAYS = DTYPES.flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)))


@settings(max_examples=200, deadline=None)
@given(ARRAYS, st.data())
def test_sorting_agrees_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    np.testing.assert_array_equal(lm.sort(x, axis).numpy(), np.sort(x, axis))
    np.testing.assert_array_equal(lm.argsort(x, axis).numpy(), np.argsort(x, axis, kind="stable"))
    np.testing.assert_array_equal(lm.sort(x, axis, descending=True).numpy(), np.flip(np.sort(x, axis), axis))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8"])
def test_long_rows(dtype):
    x = (np.random.randn(2, 5000) * 50).astype(dtype)
    assert np.array_equal(lm.sort(x).numpy(), np.sort(x)) and np.array_equal(lm.argsort(x).numpy(), np.argsort(x, kind="stable"))
    assert np.array_equal(lm.sort(x, 0).numpy(), np.sort(x, 0)) and np.array_equal(lm.constant(x).argsort(axis=0).numpy(), np.argsort(x, 0, kind="stable"))


@settings(max_examples=100, deadline=None)
@given(ARRAYS)
def test_unique_agrees_with_numpy(x):
    got = lm.unique(x, return_index=True, return_inverse=True, return_counts=True)
    want = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for g, w in zip(got, want):
        np.testing.assert_array_equal(g.numpy().reshape(-1), np.reshape(w, -1))
    assert got[2].shape == x.shape


def test_unique_of_a_known_size():
    f = lm.function(lambda x: lm.unique(x, return_counts=True, size=4))
    values, counts = f(np.array([3, 1, 3, 2, 1]))
    assert values.tolist() == [1, 2, 3, 1] and counts.tolist() == [2, 1, 2, 0]
    values, counts = f(np.array([5, 7, 9, 4, 6]))
    assert values.tolist() == [4, 5, 6, 7]
    assert lm.unique([2, 1], size=4).tolist() == [1, 2, 1, 1]
    with pytest.raises(ValueError, match="size"):
        lm.function(lambda x: lm.unique(x))(np.array([1, 2]))


@settings(max_examples=100, deadline=None)
@given(hnp.arrays("float64", st.integers(0, 9)), hnp.arrays("float64", hnp.array_shapes(min_dims=0, max_dims=2, max_side=5)), st.sampled_from(["left", "right"]))
def test_searchsorted_agrees_with_numpy(row, values, side):
    row = np.sort(row)
    np.testing.assert_array_equal(lm.searchsorted(row, values, side=side).numpy(), np.searchsorted(row, values, side=side))


def test_top_k():
    x = np.random.permutation(60).reshape(3, 20).astype("float32")
    values, places = lm.top_k(x, 4)
    assert np.array_equal(values.numpy(), -np.sort(-x)[:, :4]) and np.array_equal(places.numpy(), np.argsort(-x)[:, :4])
    values, places = lm.top_k(x, 2, axis=0)
    assert np.array_equal(values.numpy(), -np.sort(-x, 0)[:2]) and np.array_equal(places.numpy(), np.argsort(-x, 0)[:2])
    assert lm.top_k([1, 3, 3, 2], 3)[1].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="top_k"):
        lm.top_k(x, 21)


def test_gradients_go_back_to_where_the_elements_stood():
    x = lm.constant([3.0, 1.0, 2.0])
    with lm.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = lm.sum(lm.sort(x) * np.float32([1, 10, 100]))
        z = lm.sum(lm.top_k(x, 2)[0] * np.float32([1, 10]))
        u = lm.sum(lm.unique(lm.concat([x, x])) * np.float32([1, 10, 100]))
    assert tape.gradient(y, x).tolist() == [100, 1, 10] and tape.gradient(z, x).tolist() == [1, 0, 10] and tape.gradient(u, x).tolist() == [100, 1, 10]
