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
