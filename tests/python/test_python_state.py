"""Python objects changed in branches and loops of the graph: Python's result, or an error at the line of the change. Never anything else."""
import collections
import dataclasses
import types

import numpy as np
import pytest

import lamina as lm
from compared import plain

c = lm.constant


def carried(fn, *calls):
    """The graph equals Python, with one graph for all calls."""
    graph = lm.function(fn)
    for args in calls:
        args = args if isinstance(args, tuple) else (args,)
        assert plain(graph(*map(c, args))) == plain(fn(*args)), args
    assert graph.trace_count == 1


def refused(fn, words, line, *args, kind=lm.errors.Error):
    """An error with these words, at the line that ends in `# line`."""
    with pytest.raises(kind, match=words) as caught:
        lm.function(fn)(*map(c, args or (1,)))
    error = caught.value
    assert isinstance(error, lm.errors.Error) and error.why and error.fix, error
    text = open(__file__).read().splitlines()
    marked = next(i for i, t in enumerate(text, 1) if t.endswith(f"# {line}"))
    assert f"{__file__}:{marked}," in error.where + ",", error
    for generated in ("if_body", "else_body", "loop_body", "loop_test", "ag__", "lm__"):
        assert generated not in str(error), error


class Box:
    def __init__(self, v=0):
        self.v = v


class Slotted:
    __slots__ = ("u", "writes")

    def __init__(self):
        self.u, self.writes = 1, 0

    @property
    def x(self):
        return self.u

    @x.setter
    def x(self, v):
        self.u = v * 2
        self.writes += 1


@dataclasses.dataclass
class State:
    total: int = 0
    inner: dict = dataclasses.field(default_factory=lambda: {"scale": 1.5, "rows": [1, 2]})


def test_items_of_dicts_and_lists_are_carried_in_branches():
    def items(a):
        d, l = {"b": 0}, [1, [2, 3]]
        if a > 0:
            d["b"] = 1
            l[1][0] = a
        else:
            d["b"] = -1
        if a > 5:
            l[0] = d["b"] + 10
        return d, l
    carried(items, 1, -1, 9)


def test_items_attributes_and_nested_containers_are_carried_in_loops():
    def loop(n):
        y, s, m = {"a": 0, "c": {"x": [1, 2]}}, State(), types.SimpleNamespace(z=1)
        alias = s.inner
        for i in range(n):
            y["a"] += 1
            y["c"]["x"][1] += i
            s.total += i
            s.inner["scale"] *= 2
            s.inner["rows"][0] = s.total
            m.z = m.z + y["a"]
        return y, s.total, alias, m.z
    carried(loop, 5, 0, 1)

    def while_loop(n):
        o = Box(1)
        while n > 0:
            o.v = o.v * n
            n -= 1
        return o.v
    carried(while_loop, 5, 0)


def test_attributes_slots_properties_and_collections_are_carried():
    def objects(a):
        o, p = Box(), Slotted()
        if a > 2:
            o.v = a
            p.x = a
        else:
            p.x = -a
        return o.v, p.u, p.writes
    carried(objects, 1, 4)

    def collected(n):
        d, k, q = collections.defaultdict(int, x=0), collections.Counter(y=1), collections.deque([1, 2])
        for i in range(n):
            d["x"] += i
            k["y"] += 2
            q[0] += 1
        return d["x"], k["y"], q[0], q[1]
    carried(collected, 3, 0)

    class Local:
        count = 0

    def classes(n):
        o = Local()
        o.count = 5
        for i in range(n):
            o.count += Local.count + i
        return o.count
    carried(classes, 3, 0)


def test_nonlocals_of_inner_functions_and_changes_in_helpers_are_carried():
    def counted(n):
        count = 0

        def bump(by):
            nonlocal count
            count += by
        for i in range(n):
            bump(i)
        if n > 3:
            bump(100)
        return count
    carried(counted, 5, 0, 2)

    @lm.autograph.do_not_convert
    def store(d, v):
        d["h"] = v

    def helped(a):
        d = {"h": 0}
        alias = d
        if a > 0:
            store(d, a * 2)
        else:
            store(alias, a - 1)
        return alias["h"]
    carried(helped, 1, -1)


def test_lists_of_equal_lengths_are_merged_whatever_made_them():
    def both(a):
        l = [1, 2, 3]
        alias = l
        if a > 0:
            l.pop()
            l.insert(0, a)
            l.reverse()
        else:
            l.pop(0)
            l.extend([a])
        return alias
    carried(both, 1, -1)


def test_conditions_with_side_effects_are_evaluated_as_often_as_in_python():
    def walrus(a):
        x, k = 10, 0
        while (x := x - a) > 0:
            k += 1
        return x, k
    carried(walrus, 3, 20)

    def counted(a):
        d = {"n": 0}

        def product():
            d["n"] += 1
            return d["n"] * a
        s = 0
        while product() < 10:
            s += d["n"]
        return s, d["n"]
    carried(counted, 3, 20)


def test_what_cannot_be_carried_is_refused_at_its_line():
    def one_key(a):
        d = {"k": 1}
        if a > 0:
            del d["k"]  # one key
        return len(d)
    refused(one_key, r"'d\['k'\]' is given a value in only one branch", "one key")

    def popped(a):
        l = [1, 2]
        if a > 0:
            l.pop()  # popped
        return l
    refused(popped, "the list 'l' has 1 element in one branch of an if and 2 elements in the other", "popped")

    def added(a):
        s = {1}
        if a > 0:
            s.add(2)  # added
        return len(s)
    refused(added, "the set 's' is changed", "added", kind=lm.errors.ConversionFailed)

    def items(n):
        it, t = iter([1, 2, 3]), 0
        for _ in range(n):
            t = t * 10 + next(it)  # items
        return t
    refused(items, "next: a list_iterator", "items")

    def new_key(n):
        d = {}
        for i in range(n):
            d["x"] = i  # new key
        return d
    refused(new_key, r"'d\['x'\]' has no value before the loop", "new key")

    def string(a):
        o = Box("a")
        if a > 0:
            o.v = "b"
        return 1
    with pytest.raises(lm.errors.InvalidArgument, match="'o.v' is the str 'b' in one branch of an if and the str 'a' in the other"):
        lm.function(string)(c(1))

    def through_a_helper(n):
        s = set()

        @lm.autograph.do_not_convert
        def helper(v):
            s.update([v])  # in a helper
        while n > 0:
            helper(1)
            n -= 1
        return len(s)
    refused(through_a_helper, "the set 's' is changed", "in a helper")

    def deque(n):
        q = collections.deque([1])
        for i in range(n):
            q.appendleft(2)  # deque
        return q[0]
    refused(deque, "the deque 'q' has 1 elements before an iteration and 2 after it", "deque")


def test_refused_changes_of_arrays_are_undone():
    small, large = np.zeros(3), np.zeros(1 << 18)

    def write_small(a):
        if a > 0:
            small[0] = 1  # small array
        return a
    refused(write_small, "the NumPy array 'small' is changed", "small array")

    def write_large(a):
        if a > 0:
            large[0] = 1
        return a
    with pytest.raises(lm.errors.ConversionFailed, match="a NumPy array is written"):
        lm.function(write_large)(c(1))
    assert small[0] == large[0] == 0 and large.flags.writeable


def test_a_refused_trace_restores_objects():
    d, s, o, l = {"a": 1}, {1}, Box([1]), [1, 2]

    def f(n):
        for i in range(n):
            d["a"] += i
            o.v.append(2)
            l[0] = i
            s.add(2)
        return n
    with pytest.raises(lm.errors.Error):
        lm.function(f)(c(3))
    assert d == {"a": 1} and s == {1} and o.v == [1] and l == [1, 2]


def test_lists_with_other_references_do_not_grow():
    def alias(n):
        l = [1]
        m = l
        for i in range(n):  # alias
            l.append(i)
        return len(m)
    refused(alias, "the list 'l' grows in a loop of the graph, and something else holds it", "alias")

    def argument(n):
        def fill(out):
            for i in range(n):  # argument
                out.append(i)
        l = []
        fill(l)
        return len(l)
    refused(argument, "the list 'out' grows", "argument")

    def its_own(out, n):
        for i in range(n):
            out.append(i)
        return lm.stack(out)
    assert lm.function(its_own)([], c(3)).numpy().tolist() == [0, 1, 2]


class Counter:
    def __init__(self):
        self.steps = 0

    @lm.function
    def count(self, n):
        for _ in lm.range(n):  # outlives
            self.steps += 1
        return self.steps

    @lm.function
    def count_from_zero(self, n):
        self.steps = n * 0
        for _ in lm.range(n):
            self.steps += 1
        return self.steps


def test_changes_that_would_outlive_the_call_are_refused():
    m = Counter()
    with pytest.raises(lm.errors.ConversionFailed, match="'self.steps' is changed in a branch or loop of the graph, and outlives the call") as caught:
        m.count(c(3))
    text = open(__file__).read().splitlines()
    assert f"{__file__}:{next(i for i, t in enumerate(text, 1) if t.endswith('# outlives'))}," in caught.value.where
    assert m.steps == 0
    assert [int(m.count_from_zero(c(n))) for n in (3, 0, 5)] == [3, 0, 5]


def test_bodies_given_as_functions_may_not_change_objects():
    o, seen = Box(), []

    def body(i, s):
        o.v += 1  # by hand
        return s + i
    for traced in (lambda n: lm.fori_loop(0, n, body, c(0)), lambda n: lm.scan(lambda s, x: (body(1, s), None), n, length=3)[0],
                   lambda n: lm.while_loop(lambda s: s < 3, lambda s: body(1, s), n), lambda n: lm.cond(n > 0, lambda: body(n, n), lambda: n),
                   lambda n: lm.switch(n, [lambda: body(n, n), lambda: n]), lambda n: lm.checkpoint(lambda: body(n, n))()):
        refused(traced, "'o.v' is changed", "by hand")
        with pytest.raises(lm.errors.ConversionFailed, match="'o.v' is changed"):
            lm.function(traced, autograph=False)(c(1))
    assert o.v == 0
    with pytest.raises(lm.errors.ConversionFailed, match=r"'seen\[0\]' is changed"):
        lm.function(lambda x: lm.cond(x > 0, lambda: seen.append(x) or x, lambda: x))(c(1))
    assert seen == []
    assert int(lm.cond(c(1) > 0, lambda: body(c(1), c(2)), lambda: c(0))) == 3 and o.v == 1  # eagerly it is Python


def test_layers_and_variables_are_made_once_in_branches():
    class Lazy(lm.nn.Layer):
        def __init__(self):
            super().__init__()
            self.dense, self.extra = lm.nn.Dense(2), None

        def build(self, shape):
            self.width = shape[-1]

        def call(self, x):
            if lm.sum(x) > 0:
                if self.extra is None:
                    self.extra = lm.Variable(3.0)
                return self.dense(x) * self.extra
            return self.dense(x)

    layer = Lazy()
    f = lm.function(layer)
    assert f(c([[1.0, 2.0]])).shape == (1, 2) and f(c([[-1.0, 2.0]])).shape == (1, 2)
    assert len(layer.variables) == 3 and layer.built and layer.width == 2 and f.trace_count == 1


def test_more_objects_than_the_guard_compares_are_refused(monkeypatch):
    from lamina.autograph import reach
    monkeypatch.setattr(reach, "LIMIT", 1000)
    tree = [[i] for i in range(2000)]

    def f(a):
        d = {"x": 0}
        if a > 0:
            d["x"] = len(tree)
        return d["x"]
    with pytest.raises(lm.errors.ConversionFailed, match="reaches more than 1000 Python objects"):
        lm.function(f)(c(1))


def test_cyclic_and_large_objects_are_compared():
    root = Box()
    root.children = [Box() for _ in range(1000)]
    for child in root.children:
        child.parent = root
    numbers = list(range(1_000_000))

    def f(a):
        t = 0
        if a > 0:
            t = numbers[3] + len(root.children)
        return t
    assert int(lm.function(f)(c(1))) == 1003


def test_a_list_that_one_branch_writes_and_the_other_replaces_is_merged():
    def f(a):
        l = [1, 2, 9]
        if a < 1:
            l = [a, *l[1:]]
        else:
            l[1] = a
        return l
    carried(f, 5, -4)


def test_exceptions_of_a_branch_that_are_caught_while_it_is_traced_are_refused():
    def caught(a):
        l = [1, 2]
        try:
            if a > 0:
                l[0] = 5
                raise ValueError("x")
        except ValueError:
            pass
        return l
    with pytest.raises(lm.errors.ConversionFailed, match="a branch or loop of the graph raises ValueError: x"):
        lm.function(caught)(c(1))

    def index(a):
        l = []
        if a > 0:
            l = l[7]
        return a
    with pytest.raises(lm.errors.IndexOutOfRange, match="IndexError: list index out of range"):
        lm.function(index)(c(1))


def test_iterators_generators_and_caches_are_refused_wherever_they_are_read():
    import functools
    import itertools
    import random

    @lm.autograph.do_not_convert
    def take(it):
        return next(it)
    for make in (lambda: iter([1, 2, 3]), lambda: itertools.count(), lambda: zip([1, 2] * 9, [4, 5] * 9), lambda: (i for i in range(99)), lambda: iter(dict.fromkeys(range(9)))):
        it = make()

        def f(n):
            s = 0
            for i in range(n):
                take(it)
                s += 1
            return s
        with pytest.raises(lm.errors.ConversionFailed, match="(iterator|generator) .* is changed in a branch or loop"):
            lm.function(f)(c(2))

    calls = {"n": 0}

    @functools.lru_cache
    def cached():
        calls["n"] += 1
        return 3

    def uses(n):
        s = 0
        for i in range(n):
            s += cached()
        return s
    with pytest.raises(lm.errors.ConversionFailed, match="the cached function 'cached' is changed|'calls"):
        lm.function(uses)(c(2))

    generator = random.Random(1)
    before = generator.getstate()

    def draws(a):
        if a > 0:
            generator.random()  # draws
        return a
    refused(draws, "the random generator 'generator' is changed", "draws")
    assert generator.getstate() == before


class Countdown:
    def __init__(self):
        self.i = 0

    def __next__(self):
        self.i += 1
        return self.i


def test_objects_of_all_kinds_that_helpers_change_are_carried():
    def kinds(n):
        def f(x, acc=[0]):
            acc[0] += x
            f.calls += 1
            return acc[0]
        f.calls = 0
        a, b, it, d = Box(1), Box(2), Countdown(), {"a": 0}
        a.next, b.next = b, a
        up = lambda: d.__setitem__("a", d["a"] + 1)  # noqa: E731
        s = 0
        for i in range(n):
            a.v += i
            a.next.v *= 2
            s = s * 10 + next(it) + f(i) - f(i)
            up()
        return a.v, b.next.next.v, s, d, f.calls
    plain_result = plain(kinds(3))
    assert plain(lm.function(kinds)(c(3))) == plain_result


def test_tracing_time_is_linear_in_nested_branches_that_change_objects(tmp_path):
    import importlib.util
    import time
    seconds = []
    for depth in (8, 18):
        lines = ["def f(a):", "    d = {'x': 0}"]
        for i in range(depth):
            lines += ["    " * (i + 1) + f"if a > {i}:", "    " * (i + 2) + f"d['x'] += {i}"]
        path = tmp_path / f"nested_{depth}.py"
        path.write_text("\n".join([*lines, "    return d['x']", ""]))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        start = time.perf_counter()
        carried(module.f, depth, 0, depth // 2)
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 20 * seconds[0] + 1, seconds  # two to the tenth would be 1,000


def test_changes_inside_of_large_objects_are_found_in_time():
    import time
    numbers, rows = list(range(1_000_000)), [Box(i) for i in range(20_000)]

    def f(a):
        t = 0
        for _ in range(3):
            if a > 0:
                t = t + len(numbers)
                rows[7].v = rows[8].v
            else:
                t = t - len(rows)
        return t
    start = time.perf_counter()
    with pytest.raises(lm.errors.ConversionFailed, match=r"'rows\[7\].v' is changed .* outlives"):
        lm.function(f)(c(1))
    assert time.perf_counter() - start < 60 and rows[7].v == 7


class Flagged:
    """A typical user's layer: it creates state at the first call and sets a flag."""

    def __init__(self):
        self.ready = False

    def __call__(self, x):
        if not self.ready:
            self.w = lm.Variable(2.0)
            self.ready = True
        return x * self.w


@pytest.mark.parametrize("make", [lambda: lm.nn.Sequential([lm.nn.Dense(1, kernel_initializer="ones")]), Flagged], ids=["Sequential", "Flagged"])
def test_a_model_may_come_first_in_a_hand_written_body(make):
    net = make()
    f = lm.function(lambda xs: lm.scan(lambda c, x: (c + lm.sum(net(x)), c), lm.constant(0.0), xs)[0])
    xs = lm.ones((3, 1, 1))
    first = float(f(xs).numpy())
    assert first == float(f(xs).numpy()) == sum(float(lm.sum(net(x)).numpy()) for x in xs) == (6 if make is Flagged else 3)
