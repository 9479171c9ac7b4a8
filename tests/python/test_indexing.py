"""x[...] and x.at[...] against NumPy."""
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lamina as lm

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
settings.register_profile("indexing", max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
EXAMPLES = settings.get_profile("indexing")


def array(shape):
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


@st.composite
def keys(draw, shape):
    """A mix of basic and advanced parts."""
    parts, axis, dots = [], 0, False
    broadcast = draw(st.sampled_from([(3,), (2, 1), (2, 3), (), (1,)]))
    while axis < len(shape) and len(parts) < 6:
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "array", "mask", "none", "dots", "end"]))
        n = shape[axis]
        if kind == "end":
            break
        if kind == "none":
            if sum(p is None for p in parts) < 2:
                parts.append(None)
            continue
        if kind == "dots":
            if dots:
                continue
            dots = True
            skipped = draw(st.integers(0, len(shape) - axis))
            parts.append(...)
            axis += skipped
            rest = len(shape) - axis
            for _ in range(rest):  # what follows the dots names every axis that is left
                n = shape[axis]
                parts.append(draw(st.slices(n)) if n == 0 or draw(st.booleans()) else draw(st.integers(-n, n - 1)))
                axis += 1
            break
        if kind == "mask":
            width = draw(st.integers(1, min(2, len(shape) - axis)))
            mask = draw(hnp.arrays(bool, shape[axis:axis + width]))
            parts.append(mask)
            axis += width
            continue
        if kind == "slice" or n == 0:
            parts.append(draw(st.slices(n)))
        elif kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        else:
            own = draw(st.sampled_from([broadcast, broadcast[1:], tuple(1 for _ in broadcast)]))
            parts.append(draw(hnp.arrays(draw(st.sampled_from(["int32", "int64", "int8"])), own, elements=st.integers(-n, n - 1))))
        axis += 1
    return tuple(parts)


def numpy_or_none(f):
    try:
        return f()
    except IndexError:
        return None


@settings(EXAMPLES)
@given(st.data())
def test_reading_agrees_with_numpy(data):
    shape = data.draw(SHAPES)
    key, x = data.draw(keys(shape)), array(shape)
    want = numpy_or_none(lambda: x[key])
    assume(want is None or want.ndim <= 8)
    if want is None:  # parts that do not broadcast
        with pytest.raises((IndexError, ValueError)):
            lm.constant(x)[key]
        return
    got = lm.constant(x)[key]
    assert got.shape == want.shape
    assert np.array_equal(got.numpy(), want)


@settings(EXAMPLES)
@given(st.data())
def test_traced_reading_agrees_with_numpy(data):
    shape = data.draw(SHAPES)
    key, x = data.draw(keys(shape)), array(shape)
    want = numpy_or_none(lambda: x[key])
    assume(want is not None and want.ndim <= 8)
    assert np.array_equal(lm.function(lambda t: t[key])(x).numpy(), want)


@settings(EXAMPLES)
@given(st.data())
def test_setting_agrees_with_numpy(data):
    shape = data.draw(SHAPES)
    key, x = data.draw(keys(shape)), array(shape)
    want = x.copy()
    chosen = numpy_or_none(lambda: x[key])
    assume(chosen is not None and chosen.ndim <= 7)
    values = np.asarray(np.random.random_sample(chosen.shape)).astype("float32")
    if data.draw(st.booleans()) and chosen.ndim:
        values = values[:1]
    try:
        want[key] = values
    except ValueError:
        assume(False)
    # Of several values for one element the last counts, as NumPy promises for arrays that it iterates in order.
    assert np.array_equal(lm.constant(x).at[key].set(values).numpy(), want)
    assert np.array_equal(lm.constant(x).numpy(), x)


@settings(EXAMPLES)
@given(st.data())
def test_combining_agrees_with_ufunc_at(data):
    shape = data.draw(SHAPES)
    key, x = data.draw(keys(shape)), array(shape)
    chosen = numpy_or_none(lambda: x[key])
    assume(chosen is not None and chosen.ndim <= 7)
    name, ufunc = data.draw(st.sampled_from([("add", np.add), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum)]))
    values = np.asarray(np.random.randint(-3, 9, chosen.shape)).astype("float32")
    want = x.copy()
    ufunc.at(want, key, values)
    assert np.array_equal(getattr(lm.constant(x).at[key], name)(values).numpy(), want)
    f = lm.function(lambda t, v: getattr(t.at[key], name)(v))
    assert np.array_equal(f(x, values).numpy(), want)


def test_masks_in_a_trace():
    x = np.random.randn(4, 3).astype("float32")
    assert np.array_equal(lm.function(lambda x: x.at[x < 0].set(0.0))(x).numpy(), np.where(x < 0, 0, x))
    assert np.array_equal(lm.function(lambda x: x.at[x[:, 0] < 0].mul([1.0, 2.0, 3.0]))(x).numpy(), np.where(x[:, :1] < 0, x * np.float32([1, 2, 3]), x))
    with pytest.raises(ValueError, match="not known while tracing"):
        lm.function(lambda x: x[x > 0])(x)
    with pytest.raises(ValueError, match="size"):
        lm.function(lambda x: lm.nonzero(x)[0])(x)
    assert np.array_equal(lm.constant(x)[lm.constant(x) > 0].numpy(), x[x > 0])
    with pytest.raises(IndexError, match="does not fit"):
        lm.constant(x)[np.ones(3, bool)]


def test_nonzero_and_where():
    x = np.array([[0, 1, 0], [2, 0, 3]])
    for got, want in zip(lm.nonzero(x), np.nonzero(x)):
        assert got.dtype == lm.int64 and np.array_equal(got.numpy(), want)
    assert [t.tolist() for t in lm.where(x > 1)] == [t.tolist() for t in np.where(x > 1)]
    for size in (2, 5, 9):
        rows, columns = lm.function(lambda x: lm.nonzero(x, size=size, fill_value=-1))(x)
        r, c = np.nonzero(x)
        assert rows.tolist() == (r.tolist() + [-1] * 9)[:size] and columns.tolist() == (c.tolist() + [-1] * 9)[:size]
    assert lm.nonzero(np.zeros((0, 2)))[1].shape == (0,)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_taking(axis):
    x = np.random.rand(3, 4, 2)
    for i in (1, [1, 0, -1], [[1, 0], [0, 1]]):
        assert np.array_equal(lm.take(x, i, axis).numpy(), np.take(x, i, axis)) and np.array_equal(lm.constant(x).take(i).numpy(), np.take(x, i))
    order = np.argsort(x, axis)
    assert np.array_equal(lm.take_along_axis(x, order, axis).numpy(), np.take_along_axis(x, order, axis))
    one = order.take([0], axis)
    assert np.array_equal(lm.take_along_axis(x, one, axis).numpy(), np.take_along_axis(x, one, axis))


def test_gather_nd_and_scatter_nd():
    x, i = np.random.rand(3, 4, 2), np.array([[0, 1], [2, -1], [0, 1]])
    assert np.array_equal(lm.gather_nd(x, i).numpy(), x[i[:, 0], i[:, 1]]) and np.array_equal(lm.gather_nd(x, i[0]).numpy(), x[0, 1])
    want = np.zeros((3, 4))
    np.add.at(want, (i[:, 0], i[:, 1]), [1.0, 2.0, 4.0])
    assert np.array_equal(lm.scatter_nd(i, np.array([1.0, 2.0, 4.0]), (3, 4)).numpy(), want)
    assert lm.scatter_add([1.0, 2.0, 4.0], [1, 0, 1], (3,)).tolist() == [2, 5, 0]
    assert np.array_equal(lm.gather(np.arange(6).reshape(2, 3), [[2, 0], [1, 1]], axis=1, batch_axes=1).numpy(), [[2, 0], [4, 4]])
    with pytest.raises(IndexError):
        lm.gather_nd(x, [[0, 4]])
    with pytest.raises(ValueError):
        lm.gather_nd(x, np.zeros((2, 4), int))


def test_places_out_of_range_are_index_errors():
    x = lm.constant(np.zeros((3, 4), "float32"))
    for bad in (lambda: x[[3]], lambda: x[:, [0, -5]], lambda: x[[0, 1], [0, 4]], lambda: x.at[[3]].set(0.0), lambda: x.at[[0, 1], [0, 4]].add(1.0), lambda: x.at[5].set(1.0),
                lambda: lm.take(x, 12), lambda: lm.function(lambda i: x[i])([3]), lambda: x[0, 0, 0], lambda: x[..., ..., 0]):
        with pytest.raises(IndexError):
            bad()
    for bad in (lambda: x["a"], lambda: x[1.5], lambda: x[True], lambda: x[[0.5]], lambda: x.at[0].set(lm.constant([1, 2, 3, 4]))):
        with pytest.raises(TypeError):
            bad()
    with pytest.raises(ValueError):
        x.at[0].set(np.zeros(3, "float32"))


def test_of_several_values_for_one_element_the_last_counts():
    assert lm.zeros(3).at[[1, 1, 1]].set([1.0, 2.0, 3.0]).tolist() == [0, 3, 0]
    assert lm.zeros(3).at[[1, 1]].add(2.0).tolist() == [0, 4, 0]
    assert lm.constant([True, False]).at[1].set(True).tolist() == [True, True]
    assert lm.constant([1, 2, 3]).at[::2].mul(-1).tolist() == [-1, 2, -3] and lm.constant([1, 2]).at[...].set(0).tolist() == [0, 0] and lm.constant(5).at[()].set(3).item() == 3


def test_a_variable_is_changed_in_its_own_memory():
    v = lm.Variable(np.zeros((1000, 8), "float32"))

    @lm.function
    def step(i, rows):
        v.assign(v.at[i].add(rows))

    for _ in range(3):
        step([3, 3, 999], np.ones((3, 8), "float32"))
    assert v.numpy()[3, 0] == 6 and v.numpy()[999, 7] == 3 and v.numpy().sum() == 9 * 8
    with pytest.raises(IndexError):
        step([0, 1000, 1], np.ones((3, 8), "float32"))
    assert v.numpy().sum() == 9 * 8


def test_gradients_of_set():
    x, v = lm.constant(np.zeros(4, "float32")), lm.constant(np.ones(3, "float32"))
    with lm.GradientTape() as tape:
        tape.watch(x)
        tape.watch(v)
        y = lm.sum(x.at[[1, 1, 2]].set(v) * np.float32([1, 2, 3, 4]))
    dx, dv = tape.gradient(y, [x, v])
    assert dx.tolist() == [1, 0, 0, 4] and dv.tolist() == [0, 2, 3]


def test_a_slice_at_a_computed_place_says_what_to_write():
    with pytest.raises(lm.errors.StateError, match=r"does not exist yet(?s:.*)fix: .*lm\.gather\(x, begin \+ lm\.arange\(length\)\)"):
        lm.function(lambda x, i: x[i:i + 2])(lm.arange(5.0), lm.constant(1))
    f = lm.function(lambda x, i: (lm.gather(x, i + lm.arange(2)), x.at[i + lm.arange(2)].set(lm.constant([9.0, 8.0]))))
    assert [v.tolist() for v in f(lm.arange(5.0), lm.constant(1))] == [[1, 2], [0, 9, 8, 3, 4]]
