"""Traced functions as methods: what belongs to a function goes for a method too, and a traced __call__ makes its object one."""
import dataclasses
import gc
import weakref

import numpy as np
import pytest

import lamina as lm

X = np.array([1.0, 2.0, 3.0], "float32")


class Scale(lm.Module):
    def __init__(self, by=2.0):
        super().__init__()
        self.by = lm.Variable(by)

    @lm.function(input_signature=[lm.TensorSpec([3])])
    def __call__(self, x):
        return x * self.by

    @lm.function
    def plus(self, x, n=1):
        return x * self.by + float(n)

    @lm.function
    def nothing(self):
        return self.by * 2.0


class Plain:
    """No Module."""
    def __init__(self, by=2.0):
        self.by = lm.Variable(by)

    plus, nothing = Scale.plus, Scale.nothing


@pytest.mark.parametrize("cls", [Scale, Plain])
def test_members_of_a_method_take_its_own_arguments(cls):
    a, b = cls(2.0), cls(5.0)
    for one, by in ((a, 2.0), (b, 5.0)):
        graph = one.plus.get_concrete_function(lm.TensorSpec([3]), n=4)
        np.testing.assert_array_equal(graph(lm.constant(X)).numpy(), X * by + 4)
        assert one.plus.get_concrete_function(one, lm.constant(X), 4) is graph, "the instance may be said"
        np.testing.assert_array_equal(one.plus(lm.constant(X), 4).numpy(), X * by + 4)
        assert one.plus.trace_count == 1
        assert "mul" in str(one.plus.explain(X, 4)) and "mul" in str(one.plus.explain())
        assert one.plus.inspect(X, 4).traced
        assert one.nothing.get_concrete_function()().numpy() == by * 2.0
        assert "mul" in str(one.nothing.explain())
    with pytest.raises(lm.errors.SignatureMismatch, match="missing 1 required positional argument: 'x'"):
        a.plus.get_concrete_function()


def test_an_instance_can_be_an_argument_too():
    class Point:
        def __init__(self):
            self.x = lm.Variable(3.0)

        @lm.function
        def distance(self, other=None):
            return self.x * 100.0 if other is None else other.x - self.x

    one = Point()
    assert one.distance(one).numpy() == one.distance.get_concrete_function(one)().numpy() == 0.0
    assert one.distance().numpy() == one.distance.get_concrete_function()().numpy() == 300.0


def test_an_instance_is_not_kept_alive():
    one = Plain()
    one.plus.get_concrete_function(X)
    members = one.plus.__func__
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None
    with pytest.raises(lm.errors.Error):
        members.get_concrete_function(X)


@dataclasses.dataclass(frozen=True, slots=True)
class Without:
    """Without weak references."""
    by: float

    @lm.function
    def plus(self, x):
        return x + self.by


def test_an_instance_without_weak_references_is_an_argument():
    one = Without(2.0)
    np.testing.assert_array_equal(one.plus(X).numpy(), X + 2)
    np.testing.assert_array_equal(one.plus.get_concrete_function(one, X)(lm.constant(X)).numpy(), X + 2)


def test_a_traced_call_is_saved_as_call(tmp_path):
    class Twice(lm.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        @lm.function(input_signature=[lm.TensorSpec([3])])
        def __call__(self, x):
            return self.scale(self.scale(x))

        @lm.function(input_signature=[lm.TensorSpec([3])])
        def once(self, x):
            return self.scale(x)

    made = Twice()
    lm.save(made, tmp_path / "program")
    loaded = lm.load(tmp_path / "program")
    assert sorted(loaded.signatures) == ["call", "once", "scale.call"]
    np.testing.assert_array_equal(loaded(X).numpy(), X * 4)
    np.testing.assert_array_equal(loaded.scale(X).numpy(), X * 2)
    loaded.scale.by.assign(3.0)
    np.testing.assert_array_equal(loaded(X).numpy(), X * 9)
    lm.save(loaded, tmp_path / "again")
    np.testing.assert_array_equal(lm.load(tmp_path / "again")(X).numpy(), X * 9)
    own = lm.load(tmp_path / "again", custom={"Twice": Twice, "Scale": Scale})
    assert type(own) is Twice and "call" not in vars(own) and own.scale.plus(X).numpy()[0] == 4.0
    np.testing.assert_array_equal(own(X).numpy(), X * 9)


def test_an_object_with_a_traced_call_is_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    one = Scale(3.0)
    for number, given in enumerate([(one,), (one, X), (one.__call__,), (one.plus, X)]):
        path = tmp_path / f"{number}.onnx"
        lm.onnx.save(given[0], path, *given[1:])
        session = onnxruntime.InferenceSession(str(path))
        np.testing.assert_array_equal(session.run(None, {session.get_inputs()[0].name: X})[0], X * 3 + (number == 3))
    lm.export_c(one, tmp_path / "c1")
    lm.export_c(one.plus, tmp_path / "c2", X)
    assert "call" in (tmp_path / "c1" / "c1.h").read_text()
