"""lm.function: signatures, caching, structures, methods, lifetimes, threads."""
import collections, dataclasses, enum, functools, gc, re, threading, warnings, weakref

import numpy as np
import pytest

import lamina as lm

c = lm.constant


def counted(f):
    runs = []

    @functools.wraps(f)
    def body(*args, **kwargs):
        runs.append(1)
        return f(*args, **kwargs)
    body.runs = runs
    return body


@pytest.mark.row("S1-22", "S1-45", "S2-26")
def test_it_keeps_what_describes_the_function():
    def scale(x, by=2):
        """Scales."""
        return x * by
    g = lm.function(scale)
    assert g.python_function is scale and g.__wrapped__ is scale and g.__name__ == "scale" and g.__doc__ == "Scales." and isinstance(g, lm.Function)
    assert g.__qualname__ == scale.__qualname__ and g.__module__ == __name__ and g.trace_count == 0 and "scale" in repr(g) and callable(g)
    import inspect
    assert list(inspect.signature(g).parameters) == ["x", "by"]
    assert g(c(3)).item() == 6 and scale(c(3)).item() == 6 and "1 graph" in repr(g) and lm.function(g) is g
    assert lm.function(lambda x: x)(c(1)).item() == 1


@pytest.mark.row("S0-23", "S0-25", "S1-42", "S2-21")
def test_decoration_runs_nothing_and_the_body_runs_once_per_signature():
    @lm.function
    @counted
    def f(x):
        return x + 1
    runs = f.python_function.runs
    assert runs == []
    for value in (c(1), c(2), c(3)):
        f(value)
    assert len(runs) == 1 == f.trace_count
    f(c(1.0)), f(c([1, 2])), f(c([3, 4])), f(c(1.5))
    assert len(runs) == 3 == f.trace_count


@pytest.mark.row("S0-41", "S1-19")
def test_both_decorator_forms():
    @lm.function()
    def f(x):
        return x * 2

    @lm.function(relax_shapes=True)
    def g(x):
        return lm.sum(x)
    assert f(c(2)).item() == 4 and [g(lm.ones(n)).item() for n in (1, 2, 3, 4, 9)] == [1, 2, 3, 4, 9] and g.trace_count == 2
    assert g(lm.ones((2, 2))).item() == 4 and g.trace_count == 3


@pytest.mark.parametrize("values", [
    (1, 1.0, True), ("a", "b", b"a", None), ((1, 2), [1, 2], (1, 3), (2, 1)), (0.0, -0.0, float("nan")), ({"a": 1}, {"a": 2}, {"b": 1}),
    (2**70, 2**70 + 1), (1 + 2j, 2 + 1j), (lm.float32, "float32"), (slice(1, 2), slice(1, 3)), (int, float), (range(3), range(4)),
], ids=str)
@pytest.mark.row("S1-81")
def test_python_values_are_told_apart_by_type_and_value(values):
    f = lm.function(lambda v: c(1))
    for _ in range(2):
        for value in values:
            f(value)
    assert f.trace_count == len(values)


class Mode(enum.Enum):
    train, test = 1, 2


def test_objects_count_by_value_where_python_compares_them_so_and_by_identity_otherwise():
    class Plain:
        pass
    f, a, b = lm.function(lambda v: c(1)), Plain(), Plain()
    for value in (a, a, b, b, Mode.train, Mode.train, Mode.test):
        f(value)
    assert f.trace_count == 4


@pytest.mark.filterwarnings("ignore::lamina.RetraceWarning")
def test_a_dead_argument_object_is_not_mistaken_for_a_new_one():
    class Scale:
        def __init__(self, by):
            self.by = by
    f = lm.function(lambda s, x: x * s.by)
    for by in range(1, 30):
        s = Scale(by)  # often at the address of the one before
        assert f(s, c(1)).item() == by
        reference = weakref.ref(s)
        del s
        assert reference() is None


def test_one_call_spelled_in_many_ways():
    @lm.function
    def g(a, b=2, *, k=3):
        return a + b + k
    one = c(1)
    for call in (lambda: g(one), lambda: g(one, 2), lambda: g(one, b=2), lambda: g(b=2, a=one), lambda: g(a=one, k=3), lambda: g(one, 2, k=3)):
        assert call().item() == 6
    assert g.trace_count == 1 and g(one, 5).item() == 9 and g.trace_count == 2

    @lm.function
    def h(*rest, **named):
        return sum(rest) + sum(named.values())
    assert h(one, one, z=one).item() == 3 and h(z=c(2)).item() == 2 and h(z=c(2), a=c(3)).item() == h(a=c(3), z=c(2)).item() == 5 and h.trace_count == 3


@pytest.mark.parametrize("call, words", [
    (lambda f: f(), "missing 1 required positional argument: 'x'"), (lambda f: f(1, 2, 3), "takes 2 positional arguments but 3 were given"),
    (lambda f: f(1, z=2), "unexpected keyword argument 'z'"), (lambda f: f(1, x=2), "multiple values for argument 'x'"),
])
def test_wrong_calls_are_pythons_type_errors(call, words):
    with pytest.raises(TypeError, match=words):
        call(lm.function(lambda x, y=1: c(1)))


@dataclasses.dataclass(frozen=True)
class Batch:
    x: object
    label: str = "none"


Pair = collections.namedtuple("Pair", "first second")


@pytest.mark.row("S1-43")
def test_nested_arguments_and_results():
    @lm.function
    def f(d, seq, batch, pair):
        total = d["a"] + seq[0][1] + batch.x + pair.second
        return {"total": total, "rest": [d["a"], (seq[0][0], None, "text", 3)], "batch": dataclasses.replace(batch, x=total), "pair": Pair(total, 1)}

    def call(n):
        return f({"a": c(n), "b": 1}, [(c(2), c(3))], Batch(c(4), "kept"), Pair(0, c(5)))
    out = call(1)
    assert out["total"].item() == 13 and out["rest"][1][1:] == (None, "text", 3) and isinstance(out["rest"], list)
    assert out["batch"].x.item() == 13 and out["batch"].label == "kept" and out["pair"].first.item() == 13 and type(out["pair"]) is Pair
    assert call(10)["total"].item() == 22 and f.trace_count == 1
    assert call(1)["rest"] is not call(1)["rest"]
    assert lm.function(lambda: None)() is None and lm.function(lambda x: ())(c(1)) == ()


def test_the_order_of_a_dicts_keys_does_not_matter():
    f = lm.function(lambda d: d["a"] - d["b"])
    assert f({"a": c(5), "b": c(1)}).item() == 4 == f({"b": c(1), "a": c(5)}).item() and f.trace_count == 1


def test_the_body_sees_a_dicts_keys_in_their_own_order():
    for d in ({"b": c(2), "a": c(1)}, {"a": c(1), "b": c(2)}):
        first = lm.function(lambda d: list(d.values())[0])
        assert first(d).item() == 1 == first(dict(reversed(d.items()))).item() and first.trace_count == 1
        assert lm.function(lambda parts: list(parts[0]["d"].values())[0])([{"d": d}]).item() == 1
    for ordered, keys in (collections.OrderedDict, "ab"), (dict, (1, 2)):  # their order is a part of the signature
        first = lm.function(lambda d: list(d.values())[0])
        given = [ordered(zip(keys, (c(1), c(2)))), ordered(zip(reversed(keys), (c(2), c(1)))), ordered(zip(keys, (c(3), c(2))))]
        assert [first(d).item() for d in given] == [1, 2, 3] and first.trace_count == 2


@pytest.mark.row("S0-39")
def test_numpy_arguments_are_tensors_and_captures_are_constants():
    host = np.array([1.0, 1.0], "float32")
    f = lm.function(lambda x: x + host)
    assert f(np.zeros(2, "float32")).tolist() == [1, 1]
    host[:] = 9
    assert f(np.ones(2, "float32")).tolist() == [2, 2] and f(np.float32(5)).tolist() == [14, 14] and f.trace_count == 2


@pytest.mark.row("S0-37", "S0-38", "S2-37", "S2-38", "S2-39")
def test_variables_are_arguments_by_reference_and_captures_are_live():
    @lm.function
    def bump(v):
        v.assign_add(1)
        return v
    a, b = lm.Variable(0), lm.Variable(10)
    assert [bump(v).item() for v in (a, a, b, a)] == [1, 2, 11, 3] and bump.trace_count == 1 and a.item() == 3 and b.item() == 11
    assert isinstance(bump(a), lm.Tensor) and not isinstance(bump(a), lm.Variable)
    g = lm.function(lambda x: x * a)
    a.assign(7)
    assert g(c(2)).item() == 14
    a.assign(8)
    assert g(c(2)).item() == 16 and g.trace_count == 1
    times = 3
    frozen = lm.function(lambda x: x * times)
    assert frozen(c(2)).item() == 6
    times = 5
    assert frozen(c(2)).item() == 6 and frozen.trace_count == 1


@pytest.mark.row("S0-37")
def test_layers_models_and_optimizers_are_arguments_by_reference():
    @lm.function
    def step(net, sgd, x):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x)))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost
    net, sgd, x = lm.nn.Sequential([lm.nn.Dense(3)]), lm.optim.SGD(0.1), lm.ones((4, 2))
    net(x)
    costs = [step(net, sgd, x).item() for _ in range(3)]
    assert costs[0] > costs[1] > costs[2] and step.trace_count == 1
    other = lm.nn.Dense(3)
    other(x)
    before = net.get_weights()
    step(other, lm.optim.SGD(0.1), x)
    assert step.trace_count == 2 and all(np.array_equal(a, b) for a, b in zip(before, net.get_weights()))


@pytest.mark.row("S2-19")
def test_effects_keep_program_order():
    v, log = lm.Variable(1.0), lm.Variable([0.0, 0.0, 0.0])

    @lm.function
    def f():
        first = v + 0
        v.assign(first * 10)
        second = v + 0
        v.assign_add(5)
        log.assign(lm.stack([first, second, v + 0]))
        return first, second
    assert [t.item() for t in f()] == [1, 10] and log.tolist() == [1, 10, 15] and [t.item() for t in f()] == [15, 150]


@pytest.mark.row("S1-40", "S1-71")
def test_bound_methods_and_callable_objects():
    class Scale:
        def __init__(self, by):
            self.by = lm.Variable(by)

        def __call__(self, x):
            return x * self.by

        def twice(self, x, extra=0.0):
            return self(self(x)) + extra
    s = Scale(3.0)
    assert lm.function(s)(c(2.0)).item() == 6 and lm.function(s.twice)(c(1.0), extra=c(1.0)).item() == 10 and lm.function(functools.partial(s.twice, extra=2.0))(c(1.0)).item() == 11


@pytest.mark.row("S2-36")
def test_decorated_methods_have_a_graph_cache_per_instance():
    class Cell:
        def __init__(self, start):
            self.v = lm.Variable(start)
            self.runs = 0

        @lm.function
        def __call__(self, x, k=1):
            self.runs += 1
            return x * self.v * k

        @lm.function
        def add(self, x):
            return x + self.v
    a, b = Cell(2.0), Cell(3.0)
    assert [a(c(1.0)).item(), b(c(1.0)).item(), a(c(2.0)).item(), b(c(5.0), k=2).item(), b(c(5.0), 2).item()] == [2, 3, 4, 30, 30]
    assert (a.runs, b.runs) == (1, 2) and a.add(c(1.0)).item() == 3 and a.add.trace_count == 1 and Cell.add.trace_count == 0
    a.v.assign(10.0)
    assert a(c(1.0)).item() == 10 and b(c(1.0)).item() == 3 and a.add.python_function is Cell.add.python_function
    references = [weakref.ref(a), weakref.ref(a.v), weakref.ref(b)]
    del a, b
    gc.collect()
    assert [r() for r in references] == [None] * 3


@pytest.mark.row("S1-40")
def test_rebinding_a_method_on_its_instance_is_collected():
    class Net(lm.nn.Model):
        def __init__(self):
            super().__init__()
            self.d = lm.nn.Dense(3)

        def call(self, x):
            return self.d(x)
    net, x = Net(), lm.ones((2, 4))
    want = net(x).numpy()
    net.call = lm.function(net.call)
    assert np.array_equal(net(x).numpy(), want) and net.call.trace_count == 1 and len(net.trainable_variables) == 2
    references = [weakref.ref(net), weakref.ref(net.d), weakref.ref(net.call), weakref.ref(net.d.kernel)]
    del net
    gc.collect()
    assert [r() for r in references] == [None] * 4


@pytest.mark.row("S2-28", "S2-29")
def test_a_variable_made_in_the_first_trace_stays():
    class Lazy:
        v = None

        @lm.function
        def __call__(self, x):
            if self.v is None:
                self.v = lm.Variable(2.0)
            self.v.assign_add(1.0)
            return x * self.v
    f = Lazy()
    assert [f(c(1.0)).item() for _ in range(3)] == [3, 4, 5] and Lazy.__call__.trace_count == 0


@pytest.mark.row("S2-25")
def test_a_variable_made_on_every_call_is_refused():
    @lm.function
    def f():
        v = lm.Variable(1.0)
        return v + 1
    for _ in range(2):
        with pytest.raises(ValueError, match="Variable"):
            f()
    assert f.trace_count == 0 and f.python_function().item() == 2


def test_a_failed_trace_is_not_kept():
    state = {"fail": True}

    @lm.function
    def f(x):
        if state["fail"]:
            raise KeyError("mine")
        return x + 1
    with pytest.raises(KeyError, match="mine"):
        f(c(1))
    state["fail"] = False
    assert f(c(1)).item() == 2 and f.trace_count == 1


@pytest.mark.row("S1-51", "S2-17")
def test_values_do_not_exist_while_tracing():
    messages = []

    @lm.function
    def f(x):
        assert not lm.executing_eagerly() and x.shape == (2,) and x.dtype == lm.float32
        for look in (bool, float, int, lambda t: t.numpy(), lambda t: t.item(), np.asarray, lambda t: [0][t], lambda t: lm.from_dlpack(t.__dlpack__())):
            with pytest.raises(Exception) as e:
                look(lm.sum(x))
            messages.append(str(e.value))
        return x
    f(lm.ones(2))
    assert lm.executing_eagerly() and len(messages) == 8 and all("symbolic" in m or "traced" in m or "not exist" in m for m in messages[:5])


@pytest.mark.row("S1-50")
def test_errors_while_tracing_name_the_users_line():
    @lm.function
    def f(x):
        return lm.matmul(x, x)  # the line
    with pytest.raises(lm.errors.InvalidArgument) as e:
        f(lm.ones((2, 3)))
    line = f.python_function.__code__.co_firstlineno + 2
    assert f"test_function.py:{line}" in str(e.value) and "matmul" in str(e.value) and "f32[2,3]" in str(e.value)
    net = lm.nn.Sequential([lm.nn.Lambda(lambda x: lm.matmul(x, x))])
    net.compile(loss="mse")  # fit traces its step too
    with pytest.raises(lm.errors.InvalidArgument) as e:
        net.fit(np.ones((4, 3), "float32"), np.ones((4, 3), "float32"), verbose=0)
    assert f"test_function.py:{line + 5}" in str(e.value) and "f32[4,3]" in str(e.value)


def test_a_symbolic_tensor_that_escaped_is_refused():
    kept = []
    lm.function(lambda x: kept.append(x * 2) or x)(c(1.0))
    with pytest.raises(lm.errors.Error):
        kept[0] + 1


@pytest.mark.row("S1-77")
def test_input_signature():
    @lm.function(input_signature=[lm.TensorSpec([None, 2], lm.float32), lm.TensorSpec([], "int32")])
    def f(x, n):
        return lm.sum(x) * lm.astype(n, "float32")
    assert [f(lm.ones((k, 2)), c(k)).item() for k in (1, 2, 5)] == [2, 8, 50] and f([[1.0, 2.0]], 3).item() == 9 and f.trace_count == 1
    for bad in ((lm.ones((2, 3)), c(1)), (lm.ones((2, 2), dtype="float64"), c(1)), (lm.ones(2), c(1)), (lm.ones((2, 2)), c(1.5))):
        with pytest.raises(lm.errors.SignatureMismatch) as e:
            f(*bad)
        assert isinstance(e.value, TypeError)
    with pytest.raises(lm.errors.SignatureMismatch, match=r"None, 2"):
        f(lm.ones((2, 3)), c(1))


@pytest.mark.row("S1-44", "S1-47", "S1-48")
def test_concrete_functions():
    @lm.function
    def f(x, scale):
        return {"y": x * scale}
    graph = f.get_concrete_function(lm.TensorSpec([2], lm.float32), lm.TensorSpec([], lm.float32))
    assert f.trace_count == 1 and f.get_concrete_function(lm.ones(2), c(3.0)).name == graph.name and f.trace_count == 1
    assert graph(lm.ones(2), c(3.0))["y"].tolist() == [3, 3] and f(lm.ones(2), c(4.0))["y"].tolist() == [4, 4] and f.trace_count == 1
    assert [s.shape for s in graph.inputs] == [(2,), ()] and graph.structured_outputs == {"y": lm.TensorSpec((2,), lm.float32)} and "(2,)" in str(graph)
    for bad in ((lm.ones(3), c(1.0)), (lm.ones(2, dtype="float64"), c(1.0)), (lm.ones(2),)):
        with pytest.raises(lm.errors.SignatureMismatch):
            graph(*bad)
    assert "mul" in graph.graph and graph.inspect().traced.count("mul") == 1


def test_a_graphs_arguments_may_be_named():
    spec, x, y = lm.TensorSpec([2], lm.float32), c([3.0, 6.0]), c([1.0, 2.0])
    graph = lm.function(lambda a, b: a - b).get_concrete_function(spec, spec)
    assert graph(x, y).tolist() == graph(b=y, a=x).tolist() == graph(a=x, b=y).tolist() == graph(x, b=y).tolist() == [2, 4]
    by_name = lm.function(lambda a, n, *, low, high: (a - low) * n + high).get_concrete_function(spec, 2, high=spec, low=spec)
    parts = lm.function(lambda d, **rest: d["a"] - rest["b"]).get_concrete_function({"a": spec}, z=spec, b=spec)
    assert by_name(x, high=y * 0, low=y).tolist() == by_name(x, 2, low=y, high=y * 0).tolist() == by_name(a=x, low=y, high=y * 0, n=2).tolist() == [4, 8] and parts(b=y, d={"a": x}, z=x).tolist() == parts({"a": x}, z=x, b=y).tolist() == [2, 4]
    for text, call in {"no argument 'zz'": lambda: graph(zz=x, yy=y), "'a' is passed twice": lambda: graph(x, a=y), "more than 2": lambda: graph(x, y, y), "takes 2 tensors": lambda: graph(x),
                       "'d' is nested in another way": lambda: parts({"b": x}, b=y, z=y)}.items():
        with pytest.raises(lm.errors.SignatureMismatch, match=text):
            call()


@pytest.mark.row("S0-3", "S1-8", "S1-16")
def test_inspect_and_explain():
    w, b = lm.Variable(np.ones((3, 4), "float32")), lm.Variable(np.ones(4, "float32"))

    def f(x):
        return lm.relu(lm.matmul(x, w) + b) + 0.0
    seen = lm.inspect(f, lm.ones((2, 3)))
    assert seen.traced.count("matmul") == 1 and "relu" in seen.traced and seen.optimized.count("dense") == 1 and "matmul" not in seen.optimized
    g = lm.function(f)
    with pytest.raises(lm.errors.StateError, match="no graph"):
        g.explain()
    text = g.explain(lm.ones((2, 3)))
    assert "graph as traced" in text and "passes" in text and "dense" in text
    g(lm.ones((2, 3)))
    assert "program" in g.explain() and len(g.get_concrete_function(lm.ones((2, 3))).instructions) <= 2
    class Holder:
        @lm.function
        def method(self, x):
            return x + 1
    assert "add" in lm.inspect(Holder().method, c(1)).traced
    concrete = g.get_concrete_function(lm.ones((2, 3)))
    assert re.search(r"%(\w+): f32\[2,4\] = matmul\(", concrete.graph) is not None, concrete.graph
    assert {launch["device"] for launch in g.explain(lm.ones((2, 3))).launches} == {"cpu:0"}


@pytest.mark.row("S1-53", "S1-56", "S1-70", "S1-73", "S1-75")
def test_running_eagerly():
    f = lm.function(counted(lambda x: x + 1))
    runs = f.python_function.runs
    f(c(1))
    with lm.config.run_functions_eagerly(True):
        assert lm.config.functions_run_eagerly()
        f(c(1)), f(c(1))
        assert len(runs) == 3 and f.trace_count == 1
    f(c(1))
    assert len(runs) == 3 and not lm.config.functions_run_eagerly()


@pytest.mark.row("S0-28", "S0-29")
def test_functions_inside_functions_become_one_graph():
    inner = lm.function(lambda x: lm.sin(x) * 2)
    outer = lm.function(lambda x: inner(x) + inner(x))
    assert abs(outer(c(1.0)).item() - 4 * np.sin(1)) < 1e-6
    seen = lm.inspect(outer, c(1.0))
    assert seen.traced.count("sin") == 2 and seen.optimized.count("sin") == 1 and not any("call" in op for op in seen.traced)


def retrace_lines(calls):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        calls()
    return [re.sub(r" at \S*test_function.py:\d+;", " HERE:", str(w.message)) for w in log if issubclass(w.category, lm.RetraceWarning)]


@pytest.mark.row("S1-76", "S1-78")
def test_retracing_warns_with_the_cause():
    @lm.function
    def hot(k):
        return c(k)
    lines = retrace_lines(lambda: [hot(k) for k in range(5)])
    assert lines == [f"lm.function hot was traced again ({k + 1} graphs): k was {k - 1}, now {k} HERE: pass it as a tensor: lm.constant({k})" for k in (2, 3, 4)]
    assert [t["cause"] for t in hot.traces] == [""] + [f"k was {k - 1}, now {k}" for k in range(1, 5)] and hot.trace_count == 5


class Named:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return self.n


@pytest.mark.parametrize("before, now, cause, fix", [
    (c([1.0]), c([1.0, 2.0]), "x was f32[1], now f32[2]", "give it an open length: input_signature with lm.TensorSpec([None], lm.float32), or relax_shapes=True"),
    (lm.ones((4, 8)), lm.ones((5, 8)), "x was f32[4,8], now f32[5,8]", "give it an open length: input_signature with lm.TensorSpec([None, 8], lm.float32), or relax_shapes=True"),
    (c([1.0]), c([1]), "x was f32[1], now i32[1]", "convert it before the call: lm.astype(x, lm.float32)"),
    (c([1.0]), c(1.0), "x was f32[1], now f32[]", "reshape it to one rank before the call"),
    (c(1.0), 2, "x was a tensor, now 2", "pass it as a tensor: lm.constant(2)"),
    (1, 1.0, "x was 1, now 1.0", "pass it as a tensor: lm.constant(1.0)"),
    (1, True, "x was 1, now True", "pass it as a tensor: lm.constant(True)"),
    ("relu", "tanh", "x was 'relu', now 'tanh'", "pass one kind of value, or make a function for each"),
    (None, "tanh", "x was None, now 'tanh'", "pass one kind of value, or make a function for each"),
    ([c(1.0)], [c(1.0), c(2.0)], "x was a list of 1, now a list of 2", "pass the same number of tensors every time, or stack them into one"),
    ({"a": 1}, {"a": 2}, "x['a'] was 1, now 2", "pass it as a tensor: lm.constant(2)"),
    ({"a": 1}, {"b": 1}, "x was a dict of 'a', now a dict of 'b'", "pass one kind of value, or make a function for each"),
    (Named(1), Named(2), "x was a Named, now another one", "pass the same object every time, or give its class __eq__ and __hash__"),
    (lm.Variable(1.0), lm.Variable([1.0]), "Variable 0 was f32[], now f32[1]", "pass Variables of one dtype and shape"),
])
def test_each_cause_of_a_retrace_has_its_words_and_its_fix(before, now, cause, fix):
    f = lm.function(lambda x: c(0.0), autograph=False)
    f("another")
    f(before)
    assert retrace_lines(lambda: f(now)) == [f"lm.function <lambda> was traced again (3 graphs): {cause} HERE: {fix}"]
    assert (f.traces[-1]["cause"], f.traces[-1]["fix"]) == (cause, fix)

    @lm.function
    def strict(k):
        return c(k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(lm.RetraceWarning):
            for k in range(12):
                strict(k)


def test_the_training_flag_is_part_of_the_signature():
    drop = lm.nn.Dropout(0.5)
    f = lm.function(lambda x: drop(x))

    class Outer(lm.nn.Layer):
        def call(self, x):
            return f(x)
    outer, x = Outer(), lm.ones(1000)
    assert lm.min(outer(x)).item() == 1 and lm.min(outer(x, training=True)).item() == 0 and lm.min(outer(x)).item() == 1 and f.trace_count == 2


def test_many_threads_share_one_function():
    runs = []

    @lm.function
    def f(x):
        runs.append(threading.get_ident())
        return lm.sum(x * 2)
    results, barrier = [], threading.Barrier(4)

    def work(seed):
        barrier.wait()
        for i in range(50):
            n = 1 + (seed + i) % 3
            results.append(f(lm.full((n,), float(seed))).item() == 2.0 * n * seed)
    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert len(results) == 200 and all(results) and len(runs) == 3 == f.trace_count


def test_concurrent_updates_of_one_variable_are_not_lost():
    v = lm.Variable(0)
    bump = lm.function(lambda: v.assign_add(1))
    bump()
    threads = [threading.Thread(target=lambda: [bump() for _ in range(100)]) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert v.item() == 401


def test_not_callable_is_refused():
    with pytest.raises(TypeError, match="cannot be called"):
        lm.function(3)
    with pytest.raises(TypeError):
        lm.Function(lambda: 1)


@pytest.mark.row("S0-36")
def test_graph_matches_eager_helper():
    lm.testing.assert_graph_matches_eager(lambda x: (lm.sin(x), [x, 1]), lm.ones(3))
    flips = []

    def different(x):
        flips.append(1)
        return x * len(flips)
    with pytest.raises(AssertionError, match="differs"):
        lm.testing.assert_graph_matches_eager(different, lm.ones(3))


def test_arguments_are_not_asked_for_fields_of_dataclasses():
    asked = []

    class Meta(type):
        def __getattr__(cls, name):
            asked.append(name)
            raise AttributeError(name)

    class Setting(metaclass=Meta):
        pass

    f, x, setting = lm.function(lambda x, setting: x + 1), lm.ones((2,)), Setting()
    f(x, setting)
    asked.clear()
    f(x, setting)  # an AttributeError for each array and object of a call would be a good part of its time
    assert "__dataclass_fields__" not in asked
