"""Which graphs lm.save takes of a function, and how a loaded function chooses among them and nests what it takes and gives."""
import collections
import dataclasses
import itertools
import os

import numpy as np
import pytest

import lamina as lm

F32 = lm.float32


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class State:
    position: object
    speed: object
    name: str = "state"


def test_structures_and_the_classes_that_the_caller_gives(tmp_path):
    @lm.function
    def move(state, points, flag=True):
        return State(state.position + state.speed, state.speed, "moved"), Point(points[0].x, points[-1].y), {"n": 2, 3: state.speed}

    given = State(lm.constant(1.0), lm.constant(2.0)), [Point(lm.ones(2), lm.zeros(2)), Point(lm.ones(2), lm.ones(2))]
    expected = move(*given)
    lm.save(move, tmp_path / "move")
    plain, own = lm.load(tmp_path / "move"), lm.load(tmp_path / "move", custom={"State": State, "Point": Point})
    for f in (plain, own):
        state, point, rest = f(*given)
        assert float(state.position) == float(expected[0].position) and state.name == "moved"
        assert point.y.numpy().tolist() == [1.0, 1.0] and rest["n"] == 2 and float(rest[3]) == 2.0
    assert type(own(*given)[0]) is State and type(own(*given)[1]) is Point
    with pytest.raises(lm.errors.SignatureMismatch, match="flag is False"):
        plain(*given, flag=False)
    with pytest.raises(lm.errors.SignatureMismatch, match="a list of 2|list"):
        plain(given[0], given[1][:1])


def test_a_loaded_graph_gives_what_the_traced_one_gives(tmp_path):
    results = [lambda x: x, lambda x: (x,), lambda x: [x, x + 1.0], lambda x: {"a": x, "b": (x, [x])}, lambda x: Point(x, 2), lambda x: (), lambda x: None,
               lambda x: State(x, {"deep": x}), lambda x: (3, x, "text")]

    def plain(value):
        if isinstance(value, (lm.Tensor, np.ndarray)):
            return value.numpy().tolist()
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if dataclasses.is_dataclass(value):
            return [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, *map(plain, value)]
        return [str(value)] if isinstance(value, lm.TensorSpec) else value

    for result in results:
        f, x = lm.function(result), lm.constant([1.0, 2.0])
        ours = f.get_concrete_function(x)
        lm.save(f, tmp_path / "f")
        theirs = lm.load(tmp_path / "f", custom={"State": State, "Point": Point}).get_concrete_function(x)
        assert plain(theirs(x)) == plain(ours(x)) and plain(theirs.structured_outputs) == plain(ours.structured_outputs)
        assert type(theirs(x)) is type(ours(x))


def test_several_graphs_of_a_function(tmp_path):
    @lm.function
    def f(x, k=2):
        return x * k

    f(lm.ones(3)), f(lm.ones((2, 2), dtype="float64")), f(lm.ones(3), 5)
    lm.save(f, tmp_path / "f")
    g = lm.load(tmp_path / "f")
    assert g(lm.ones(3)).numpy().tolist() == [2.0] * 3 and g(lm.ones(3), k=5).numpy().tolist() == [5.0] * 3
    assert g(np.ones((2, 2))).dtype == lm.float64
    with pytest.raises(lm.errors.SignatureMismatch):
        g(lm.ones(4))
    assert sorted(g.signatures) == ["serving_default"]


def test_constants_select_the_graph_that_was_traced_with_them(tmp_path):
    f = lm.function(lambda x, n: x + n if isinstance(n, lm.Tensor) else x * 100.0)
    x = lm.ones(1)
    f(x, lm.constant(2.0)), f(x, 2.0), f(x, None), f(x, -0.0), f(x, "a")
    lm.save(f, tmp_path / "f")
    g = lm.load(tmp_path / "f")
    assert g(x, 2.0).numpy().tolist() == [100.0] and g(x, lm.constant(2.0)).numpy().tolist() == [3.0] and g(x, 5.0).numpy().tolist() == [6.0]
    assert g(x, None).numpy().tolist() == [100.0] and g(x, "a").numpy().tolist() == [100.0]
    with pytest.raises(lm.errors.SignatureMismatch):
        g(x, "b")
    h = lm.function(lambda x, axes=(0, 1): lm.sum(x, axes))
    h(lm.ones((2, 2)))
    lm.save(h, tmp_path / "h")
    assert float(lm.load(tmp_path / "h")(lm.ones((2, 2)))) == 4.0


def test_variables_as_arguments(tmp_path):
    f = lm.function(lambda v, w, x: (v.assign_add(x), v + w)[1])
    a, b, x = lm.Variable([1.0]), lm.Variable([2.0]), lm.ones(1)
    f(a, b, x)
    lm.save(f, tmp_path / "f")
    g = lm.load(tmp_path / "f")
    assert g(b, a, x).numpy().tolist() == [5.0] and b.numpy().tolist() == [3.0]
    with pytest.raises(lm.errors.SignatureMismatch):
        g(a, a, x)
    used = lm.function(lambda v, x: (v.assign_add(x), a * 100.0 + v)[1])
    assert used(a, x).numpy().tolist() == [303.0]  # a is both: each call sees one Variable
    with pytest.raises(lm.errors.StateError, match="argument and is used directly"):
        lm.save(used, tmp_path / "used")


def test_every_dtype(tmp_path):
    names = [d for d in "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()]

    @lm.function(input_signature=[lm.TensorSpec([None], name) for name in names])
    def f(*tensors):
        return [lm.concat([t, t], 0) for t in tensors]

    lm.save(f, tmp_path / "f")
    given = [lm.astype(lm.constant([0.0, 1.0]), name) for name in names]
    for ours, theirs in zip(lm.load(tmp_path / "f")(*given), f(*given)):
        assert ours.dtype == theirs.dtype and np.array_equal(lm.astype(ours, "float64").numpy(), lm.astype(theirs, "float64").numpy())


def test_control_flow_state_draws_and_prints(tmp_path, capfd):
    total = lm.Variable(0.0)

    @lm.function(input_signature=[lm.TensorSpec([None], F32), lm.TensorSpec([], lm.int32)])
    def f(x, n):
        best = x[0]
        for i in lm.range(n):
            if x[i] > best:
                best = x[i]
        while lm.sum(x) > 100.0:
            x = x / 2.0
        total.assign_add(best)
        lm.print("best", best)
        grown = []
        for i in lm.range(n):
            grown.append(x[i] * 2)
        return best, lm.random.normal([2]), lm.cond(n > 2, lambda: x * total, lambda: x), lm.stack(grown)

    lm.save(f, tmp_path / "f")
    g = lm.load(tmp_path / "f")
    x = np.array([1.0, 5.0, 300.0, -2.0], "float32")
    for _ in range(2):
        for ours, theirs in zip(g(x, 3), f(lm.constant(x), lm.constant(3))):
            assert np.array_equal(ours.numpy(), theirs.numpy())
    captured = capfd.readouterr()
    assert (captured.out + captured.err).count("best 300") == 4


def test_a_graph_that_predicts_comes_before_one_that_trains(tmp_path):
    dropout = lm.nn.Dropout(0.9)
    f = lm.function(lambda x: dropout(x))
    before = lm._core.set_training(True)
    f(lm.ones(8))
    lm._core.set_training(before)
    f(lm.ones(8))
    lm.save(f, tmp_path / "f")
    assert lm.load(tmp_path / "f")(lm.ones(8)).numpy().tolist() == [1.0] * 8
    (_, first), *_ = [(name, graphs[0][0]) for name, graphs in lm._core._Module.load(str(tmp_path / "f")).functions.items()]
    assert "bernoulli" not in first.graph and "dropout" not in first.graph


def test_a_function_is_what_a_call_would_run_now(tmp_path):
    class Changing(lm.Module):
        def __init__(self):
            super().__init__()
            self.c = lm.constant([5.0])

        @lm.function
        def f(self, x):
            return x * self.c

    m = Changing()
    m.f(lm.ones(1))
    m.c = lm.constant([7.0])
    assert m.f(lm.ones(1)).numpy().tolist() == [7.0]
    lm.save(m, tmp_path / "m")
    loaded = lm.load(tmp_path / "m")
    assert loaded.f(lm.ones(1)).numpy().tolist() == [7.0] and loaded.c.numpy().tolist() == [7.0]
    assert len(os.listdir(tmp_path / "m")) == 5  # one graph


def changing(states):
    """A module whose function f depends on a tensor in an attribute and on which layer trains, and a call that puts it into a state."""
    class Changing(lm.Module):
        def __init__(self):
            super().__init__()
            self.layer = lm.nn.Dense(1)
            self.layer(lm.ones((1, 3)))

        def run(self, x):
            return x * self.c + (10.0 if self.layer.trainable_variables else 0.0)

        @lm.function
        def f(self, x):
            return self.run(x)

        @lm.function(input_signature=[lm.TensorSpec([None], F32)])
        def signed(self, x):
            return self.run(x)

    made = Changing()

    def enter(state):
        made.c, made.layer.trainable = states[state]

    return made, enter


@pytest.mark.parametrize("states", [[(lm.constant([2.0]), True), (lm.constant([3.0]), True)], [(lm.constant([2.0]), True), (lm.constant([2.0]), False)]], ids=["tensor", "trainable"])
def test_the_graph_that_a_call_runs_is_saved_after_any_order_of_calls(states, tmp_path):
    steps = list(itertools.product(range(2), (1, 2)))  # a state and a length
    for order in itertools.product(steps, repeat=3):
        made, enter = changing(states)
        for state, length in order:
            enter(state)
            made.f(lm.ones(length))
        expected = {length: made.f(lm.ones(length)).numpy() for seen, length in set(order) if seen == state}
        lm.save(made, tmp_path / "m")
        loaded = lm.load(tmp_path / "m")
        for length, values in expected.items():
            assert np.array_equal(loaded.f(lm.ones(length)).numpy(), values), (order, length)
        assert np.array_equal(loaded.signed(lm.ones(4)).numpy(), made.signed(lm.ones(4)).numpy()), order
        enter(1 - state)
        lm.save(made, tmp_path / "m")  # with an input_signature it is traced again: it needs no call
        assert np.array_equal(lm.load(tmp_path / "m").signed(lm.ones(4)).numpy(), made.signed(lm.ones(4)).numpy()), order


def test_c_code_is_made_of_the_graph_that_a_call_runs(tmp_path):
    class Scaled(lm.Module):
        @lm.function
        def f(self, x):
            return x * self.c

    def exported(states):
        made = Scaled()
        for state in states:
            made.c = tensors[state]
            made.f(lm.ones(2))
        lm.export_c(made, tmp_path / "c", name="scaled")
        return [(tmp_path / "c" / name).read_bytes() for name in sorted(os.listdir(tmp_path / "c"))]

    tensors = [lm.constant([2.0, 3.0]), lm.constant([4.0, 5.0])]
    for order in itertools.product(range(2), repeat=3):
        assert exported(order) == exported(order[-1:]), order
