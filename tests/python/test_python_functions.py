"""Python's functions and operators on tensors of the graph: Python's result, or an error of Lamina."""
import collections

import pytest

import lamina as lm
from compared import plain

c = lm.constant
OPEN = [lm.TensorSpec([None], lm.int32)]


def sum_until(v):
    s = 0
    for x in v:
        if x > 2:
            break
        s += x
    return s


def enumerated(v):
    s = 0
    for i, x in enumerate(v, 1):
        if x == 4:
            continue
        s += i * x
    return s


def enumerated_until(v):
    s = 0
    for i, x in enumerate(v):
        if x > 3:
            return s
        s += i * x
    return s


def backwards(v):
    s = 0
    for x in reversed(v):
        s = s * 10 + x
    return s


def zipped(v):
    s = 0
    for i, (x, y) in enumerate(zip(v, reversed(v))):
        s += i * x * y
    return s


@pytest.mark.parametrize("fn", [sum_until, enumerated, enumerated_until, backwards, zipped, len, sum, min, max, sorted, lambda v: sorted(v, reverse=True), lambda v: any(x > 2 for x in [v[0], v[1]]),
                                lambda v: all(v), lambda v: any(v), lambda v: 3 in v, lambda v: 7 not in v, lambda v: min(v[0], v[1], 2), lambda v: max([v[0], v[2]]), lambda v: divmod(v[1], 2),
                                lambda v: 0 < v[0] < v[1] in [1, 2, 3, 4], lambda v: sum([v[0], v[1]], 10), lambda v: v[0] in (1, 2), lambda v: v[0] in range(0, 9, 2), lambda v: [10, 20, 30, 40, 50][v[0]],
                                lambda v: [10, 20, 30, 40, 50][-v[0]], lambda v: (v[0], v[1])[v[2] % 2], lambda v: v[1] in {1: 0, 4: 0}])
@pytest.mark.parametrize("length", ["known", "open"])
def test_functions_of_python_on_tensors(fn, length):
    wrapped = fn if fn.__name__ != "<lambda>" and fn.__module__ == __name__ else lambda v: fn(v)
    graph = lm.function(wrapped, input_signature=OPEN if length == "open" else None)
    for numbers in ([1, 2, 3], [3, 1, 4, 1], [2, 4, 1, 2, 3]):
        assert plain(graph(c(numbers))) == plain(fn(numbers)), numbers


def grown(n):
    out = []
    for i in range(n):
        out.append(i * 3 % 5)
    return out


@pytest.mark.parametrize("fn", [sum_until, enumerated, enumerated_until, backwards, zipped, len, sum, min, max, sorted, lambda v: 3 in v, lambda v: v[1] + v[-1], lambda v: v])
def test_functions_of_python_on_lists_that_grew(fn):
    graph = lm.function(lambda n: fn(grown(n)))
    for n in (2, 5, 4):
        assert plain(graph(c(n))) == plain(fn(grown(n))), n
    assert graph.trace_count == 1


def test_ranges_of_tensors_are_tensors():
    def values(n):
        r = lm.range(n)
        total = 0
        for i in r:
            total += i
        return r, total, lm.arange(2, n, 2) * 3, len(range(n)), lm.sum(lm.range(n, 0, -1)), 2 in range(n)
    graph = lm.function(values)
    for n in (5, 0, 8):
        want = [list(range(n)), sum(range(n)), [3 * i for i in range(2, n, 2)], n, sum(range(n + 1)), 2 in range(n)]
        assert plain(graph(c(n))) == want
    assert graph.trace_count == 1
    assert plain(lm.function(lambda x: lm.range(0.0, x, 0.5))(c(1.9))) == [0, 0.5, 1, 1.5]
    assert plain(lm.function(lambda x: lm.range(x, dtype=lm.float32))(c(3))) == [0, 1, 2]
    with pytest.raises(lm.errors.ConversionFailed, match="a tensor of this length is made inside of a branch or loop"):
        def inside(n):
            s = 0
            for i in range(n):
                s += lm.sum(lm.range(i))
            return s
        lm.function(inside)(c(3))

    def reversed_ranges(n):
        s = 0
        for i, j in zip(reversed(range(1, n, 2)), lm.range(n)):
            s = s * 10 + i + j
        return s
    for n in (0, 1, 6, 7):
        s = 0
        for i, j in zip(reversed(range(1, n, 2)), range(n)):
            s = s * 10 + i + j
        assert int(lm.function(reversed_ranges)(c(n))) == s


def test_lists_are_read_and_written_while_they_grow():
    def fibonacci(n):
        l = [1, 1]
        for i in range(2, n):
            l.append(l[i - 1] + l[i - 2])
        return l
    graph = lm.function(fibonacci)
    for n in (7, 2, 10, 0):
        assert plain(graph(c(n))) == fibonacci(n)
    assert graph.trace_count == 1

    def written(n):
        l = [1, 2]
        for i in range(n):
            l[1] = l[0] + i
            l.append(i)
            l[-1] = l[i] + 10
            if l[0] in [1, 5]:
                l[0] += 1
        return l
    assert plain(lm.function(written)(c(4))) == written(4)

    def outside(n):
        l = [1]
        for i in range(n):
            l.append(l[i + 5])
        return l
    with pytest.raises(lm.errors.IndexOutOfRange):
        plain(lm.function(outside)(c(3)))


def test_names_first_assigned_in_a_loop_that_runs_at_least_once():
    def last(v):
        for x in v:
            y = x * 2
        return x, y

    def early(v):
        for i in lm.range(4):
            if i > v:
                break
        return i
    assert plain(lm.function(last)(c([1, 2, 3]))) == [3, 6]
    assert plain(lm.function(early)(c(2))) == 3
    with pytest.raises(lm.errors.InvalidArgument, match="'x' has no value before the loop"):
        lm.function(last, input_signature=OPEN)(c([1, 2, 3]))


@pytest.mark.parametrize("fn, words", [
    (lambda v: {1: 2}[v[0]], "a dict is indexed by a tensor"), (lambda v: ["a", "b"][v[0]], "a list that holds a str"), (lambda v: v[0] in ["a", 1], "one of which is a str"),
    (lambda v: max(v, key=lambda x: -x), "max: key cannot be used"), (lambda v: [x for x in lm.range(v[0])], "a comprehension goes through"), (lambda v: list(range(v[0])), "list: the length of what it goes through is known when the graph runs"), (lambda v: tuple(lm.range(v[0])), "tuple: the length"), (lambda v: min(v[0], v), r"min: a tensor of shape \(3,\)")])
def test_unsupported_functions_are_refused(fn, words):
    with pytest.raises(lm.errors.Error, match=words) as caught:
        lm.function(fn)(c([1, 2, 3]))
    assert caught.value.why and caught.value.fix


def test_a_dict_is_not_written_at_a_tensor():
    def write(a):
        d = {}
        d[a] = 1
        return len(d)
    with pytest.raises(lm.errors.ConversionFailed, match="a dict is indexed by a tensor"):
        lm.function(write)(c(1))


def test_empty_lists_take_the_dtype_that_is_asked_for():
    for dtype in (lm.int32, lm.bool, lm.float64):
        assert lm.constant([], dtype=dtype).dtype == dtype and lm.constant([[], []], dtype=dtype).shape == (2, 0)
    assert lm.constant([]).dtype == lm.float32


LOOKUPS = {
    "get": lambda d, i: d.get(i, -1.0),
    "pop": lambda d, i: d.pop(i, -1.0),
    "pop of an OrderedDict by name": lambda d, i: collections.OrderedDict(d).pop(key=i, default=-1.0),
    "setdefault": lambda d, i: d.setdefault(i, -1.0),
    "get of a defaultdict": lambda d, i: collections.defaultdict(float, d).get(i, -1.0),
    "get of a tuple": lambda d, i: d.get((i, 1), -1.0),
    "in of a pair among items": lambda d, i: 1.0 if (i, 2.0) in d.items() else -1.0,
    "in of a pair in a set": lambda d, i: 1.0 if (i, 2.0) in {(1, 2.0)} else -1.0,
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_by_a_tensor_of_the_graph_is_refused(name):
    with pytest.raises(lm.errors.ConversionFailed, match="a dict is indexed by|is looked for among keys"):
        lm.function(lambda i: LOOKUPS[name]({0: 1.0, 1: 2.0}, i) * i)(c(1))


def test_a_lookup_by_what_python_knows_stays_pythons():
    v, numbers = lm.Variable(2.0), {0: 1.0, 1: 2.0}
    assert lm.function(lambda i: numbers.get(1, i) * i)(c(3.0)).item() == 6
    assert lm.function(lambda i: {v: 5.0}.get(v, i) * i + {}.setdefault(v, 1.0))(c(3.0)).item() == 16
    for value, found in ((1, True), (7, False)):
        assert [bool(lm.function(f)(c(value))) for f in (lambda i: i in numbers.keys(), lambda i: i in {"a": 1, "b": 3}.values(), lambda i: i not in numbers.keys())] == [found, found, not found]
