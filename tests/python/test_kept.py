"""Memory kept by functions: only what their graphs need, and nothing after they are freed."""
import gc
import tracemalloc
import weakref

import lamina as lm

c = lm.constant


class Equal:
    """Compared by value."""

    def __init__(self, content):
        self.content = content

    def __eq__(self, other):
        return isinstance(other, Equal) and self.content == other.content

    def __hash__(self):
        return hash(self.content)


class NoWeak:
    """Compared by identity, without weak references."""

    __slots__ = ("content",)

    def __init__(self, content):
        self.content = content


class Watched(str):
    """A value whose destruction is observed."""


def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096


def grown(make, warm=300, count=2000):
    """Growth of memory per call in bytes, after some calls."""
    for _ in range(warm):
        make()
    gc.collect()
    before = resident()
    for _ in range(count):
        make()
    gc.collect()
    return (resident() - before) / count


def test_arguments_of_a_function_that_is_gone_are_released():
    for kind in (Equal, NoWeak):
        content = Watched("x" * 10)
        alive = weakref.ref(content)
        f = lm.function(lambda x, how: x * len(how.content))
        assert float(f(c(2.0), kind(content))) == 20
        del content
        gc.collect()
        assert alive() is not None  # finds the graph again
        del f
        gc.collect()
        assert alive() is None, kind.__name__


def test_a_function_in_a_cycle_with_its_argument_is_released():
    holder = Equal(Watched("cycle"))
    holder.f = lm.function(lambda x, how: x * len(how.content))
    holder.f(c(1.0), holder)
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None


def test_equal_arguments_share_a_graph_and_different_ones_do_not():
    f = lm.function(lambda x, how: x * len(how.content))
    assert [float(f(c(1.0), Equal(t))) for t in ("a", "a", "bb", "a")] == [1, 1, 2, 1]
    assert f.trace_count == 2
    kept = [NoWeak("a"), NoWeak("bb")]
    assert [float(f(c(1.0), o)) for o in (*kept, *kept)] == [1, 2, 1, 2]
    assert f.trace_count == 4


def test_large_arguments_are_not_accumulated():
    def once():
        f = lm.function(lambda x, how: x * 2.0)
        f(c(1.0), Equal(str(resident()) * 2000))

    once()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(50):
            once()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_freed_functions_leave_nothing():
    def of_open_lengths():
        f = lm.function(lambda x: x * 2.0 + 1.0, input_signature=[lm.TensorSpec([None, None], lm.float32)])
        f(lm.ones((2, 3)))

    def relaxed():
        f = lm.function(lambda x: lm.sum(x) * 2.0, relax_shapes=True)
        f(lm.ones((2, 3)))
        f(lm.ones((4, 3)))

    def nested():
        inner = lm.function(lambda x: x + 1.0, input_signature=[lm.TensorSpec([None], lm.float32)])
        outer = lm.function(lambda x: inner(x) * 2.0, input_signature=[lm.TensorSpec([None], lm.float32)])
        outer(lm.ones((3,)))

    def of_captures():
        w = c(2.0)
        f = lm.function(lambda x: x * w)
        f(c(1.0))

    assert {make.__name__: grown(make) for make in (of_open_lengths, relaxed, nested, of_captures) if grown(make) > 60} == {}


def test_a_function_that_captures_its_callers_values_does_not_accumulate_graphs():
    class Model:
        @lm.function
        def inner(self):
            return self.kept * 2.0

        def outer(self, x):
            self.kept = x
            return self.inner()

    model = Model()
    assert grown(lambda: lm.vmap(model.outer)(c([1.0, 2.0])), 100, 500) < 300


def test_open_lengths_of_functions_inside_of_each_other_are_different():
    spec = [lm.TensorSpec([None], lm.float32)]

    @lm.function(input_signature=spec)
    def outer(x):
        @lm.function(input_signature=spec)
        def inner(y):
            return lm.sum(y) * lm.sum(x)

        return inner(x) + inner(lm.ones((2,)))

    assert float(outer(lm.ones((5,)))) == 35
    assert float(outer(lm.ones((3,)))) == 15
