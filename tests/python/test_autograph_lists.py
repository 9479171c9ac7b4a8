"""Lists that grow in loops of the graph equal Python's, stacked; others are refused."""
import numpy as np
import pytest

import lamina as lm

c = lm.constant


def plain_and_traced(fn, *args):
    """The plain Python result, after checking that the graph gives the same; one graph."""
    graph = lm.function(fn)
    got = graph(*(c(a) for a in args))
    want = fn(*(c(a) for a in args))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    return graph


def test_lists_that_grow_in_a_loop_are_stacked():
    def every(n):
        out = []
        for i in lm.range(n):
            out.append(i * i)
        return lm.stack(out)

    graph = plain_and_traced(every, 4)
    for n in (1, 7, 4, 2):
        assert graph(c(n)).numpy().tolist() == [i * i for i in range(n)]
    assert graph(c(0)).shape == (0,) and graph.trace_count == 1


def test_lists_that_grow_where_a_condition_holds_have_its_length():
    def some(v, low):
        out = []
        for x in v:
            if x > low:
                out.append([x, -x][0])
        return lm.stack(out) * 2, len(out)

    graph = lm.function(some)
    for low, want in ((0, [6, 10, 4]), (2, [6, 10]), (3, [10])):
        got, count = graph(c([3, -1, 5, 2]), c(low))
        assert got.numpy().tolist() == want and int(count) == len(want)
    assert graph.trace_count == 1


def test_lists_start_with_elements_and_grow_in_nested_loops_and_while():
    def nested(n):
        out = [c(-1), c(-2)]
        i = c(0)
        while i < n:
            for j in lm.range(i):
                out.append(i * 10 + j)
            i += 1
        return lm.stack(out)

    graph = plain_and_traced(nested, 3)
    assert graph(c(4)).numpy().tolist() == [-1, -2, 10, 20, 21, 30, 31, 32]


def test_lists_are_indexed_gone_through_and_followed_by_others():
    def two(n):
        a, b = [], []
        for i in lm.range(n):
            a.append(i + 1)
        total = a[0] + a[-1] + a[n - 2]
        for x in a:
            if x % 2 == 1:
                b.append(x * total)
        return lm.stack(b), lm.sum(lm.stack(a))

    graph = lm.function(two)
    b, total = graph(c(5))
    assert b.numpy().tolist() == [10, 30, 50] and int(total) == 15


def test_lists_of_rows_and_gradients_through_them():
    @lm.function
    def f(x, n):
        with lm.GradientTape() as tape:
            tape.watch(x)
            out = []
            y = x
            for i in lm.range(n):
                y = y * x
                out.append(y)
            z = lm.sum(lm.stack(out))
        return lm.stack(out), tape.gradient(z, x)
    rows, slope = f(c([1.0, 2.0]), c(3))
    assert rows.numpy().tolist() == [[1, 4], [1, 8], [1, 16]]
    assert slope.numpy().tolist() == [2 + 3 + 4, 4 + 12 + 32]  # of x^2 + x^3 + x^4


def test_lists_with_effects_beside_them_have_the_effects_once():
    v = lm.Variable(0)

    @lm.function
    def f(n):
        out = []
        for i in lm.range(n):
            v.assign_add(1)
            out.append(v + 0)
        return lm.stack(out)
    assert f(c(3)).numpy().tolist() == [1, 2, 3] and int(v) == 3
    assert f(c(2)).numpy().tolist() == [4, 5] and int(v) == 5


def test_lists_that_cannot_become_tensors_are_refused():
    def refuse(fn, kind, words):
        with pytest.raises(kind, match=words):
            lm.function(fn)(c(3))

    def mixed(n):
        out = []
        for i in lm.range(n):
            out.append(i)
            out.append(lm.astype(i, lm.float32))
        return lm.stack(out)
    refuse(mixed, lm.errors.TypeMismatch, "append: the list has elements of")

    def strings(n):
        out = []
        for i in lm.range(n):
            out.append("x")
        return out
    refuse(strings, lm.errors.ConversionFailed, "append: a str cannot be collected")

    def inside(n):
        t = c(0)
        for i in lm.range(n):
            out = []
            for j in lm.range(i):
                out.append(j)
            t += lm.sum(lm.stack(out))
        return t
    refuse(inside, lm.errors.InvalidArgument, "made inside of another loop")

    def again(n):
        out = []
        for i in lm.range(n):
            out.append(i)
        for i in lm.range(n):
            out.append(i)
        return lm.stack(out)
    refuse(again, lm.errors.ConversionFailed, "cannot grow again")

    def depends(n):
        out = [n]
        while out[-1] > 0:
            out.append(out[-1] - 1)
        return lm.stack(out)
    refuse(depends, lm.errors.Error, "depends on what is in it|list")

    def sliced(n):
        out = []
        for i in lm.range(n):
            out.append(i)
        return out[1:]
    refuse(sliced, lm.errors.ConversionFailed, "cannot be sliced")

    def branch(x):
        out = []
        if x > 0:
            out.append(x)
        return out
    refuse(branch, lm.errors.InvalidArgument, "list 'out' has 1 element in one branch")

    def grows(n):
        out = []
        for i in lm.range(n):
            out.append(i)
        return lm.stack(out)
    inner = lm.function(grows)
    refuse(lambda n: lm.sum(inner(n)), lm.errors.InvalidArgument, "a list grows in it")


# --- a list that gets one element in each iteration over a tensor of known length: it may be made anywhere ---


def filtered(xs):
    out, s = [], 0.0 * xs[0]
    for v in xs:
        s = s * 0.5 + v
        out.append(s)
    return lm.stack(out)


def of_lists(xs):
    rows = []
    for v in xs:
        row = []
        for w in xs:
            row.append(v * w)
        rows.append(lm.stack(row))
    return lm.sum(lm.stack(rows), 1)


def gone_through(xs):
    squares, doubled = [], []
    for v in xs:
        squares.append(v * v)
        doubled.append(2.0 * v)
    total = 0.0
    for one in squares:
        total = total + one
    return lm.stack(doubled) * total + squares[0] + doubled[-1] + lm.astype(len(squares), "float32")


def read_inside(xs):
    out = []
    for v in xs:
        out.append(v)
        v = v + out[-1]
        out.append(v)
    return lm.stack(out)


def sometimes(xs):
    out = []
    for v in xs:
        if v > 0.5:
            out.append(v)
    return lm.stack(out)


ANYWHERE = [filtered, of_lists, gone_through]
VALUES = np.array([[0.5, 2.0, -1.0, 3.0], [1.0, 0.25, 4.0, -2.0]], "float32")


@pytest.mark.parametrize("f", ANYWHERE, ids=lambda f: f.__name__)
def test_lists_of_one_element_an_iteration_may_be_made_anywhere(f):
    want = np.stack([f(lm.constant(row)).numpy() for row in VALUES])
    x = lm.constant(VALUES)
    slopes = lm.vmap(lm.jacobian(f))(x).numpy()

    def in_a_branch(v):
        if v[0] < 100.0:
            return f(v)
        return v

    def in_a_loop(v):
        y = v
        for _ in lm.range(lm.constant(2)):
            y = f(v)
        return y
    for g in (f, in_a_branch, in_a_loop, lm.checkpoint(f), lm.function(f), lambda v: lm.cond(v[0] < 100.0, lambda: f(v), lambda: v)):
        got = lm.function(g)(x[0])
        assert np.allclose(got.numpy(), want[0], rtol=1e-6) and got.shape == (4,)
        assert np.allclose(lm.function(lm.vmap(g))(x).numpy(), want, rtol=1e-6) and np.allclose(lm.vmap(g)(x).numpy(), want, rtol=1e-6)
        assert np.allclose(lm.function(lambda v: lm.jacobian(g)(v))(x[0]).numpy(), slopes[0], rtol=1e-5)
    rows, columns = np.eye(4, dtype="float32"), 1e-3
    for i in range(4):
        moved = (f(lm.constant(VALUES[0] + columns * rows[i])).numpy() - f(lm.constant(VALUES[0] - columns * rows[i])).numpy()) / (2 * columns)
        assert np.allclose(slopes[0][:, i], moved, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("f", [read_inside, sometimes], ids=lambda f: f.__name__)
def test_other_lists_grow_as_before(f):
    for row in VALUES:
        assert np.allclose(lm.function(f)(lm.constant(row)).numpy(), f(lm.constant(row)).numpy())
    with pytest.raises(lm.errors.InvalidArgument, match="grows in a loop"):
        lm.vmap(f)(lm.constant(VALUES))


def test_a_list_of_no_iteration_is_empty():
    got = lm.function(lambda xs: filtered_of_none(xs))(lm.zeros((0, 3)))
    assert got.shape == (0, 3)


def filtered_of_none(xs):
    out = []
    for v in xs:
        out.append(v * 2.0)
    return lm.stack(out)
