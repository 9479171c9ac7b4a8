"""lm.Variable."""
import gc, weakref

import numpy as np
import pytest

import lamina as lm


def test_a_variable_has_a_tensors_properties():
    v = lm.Variable([[1.0, 2.0]], name="w")
    assert v.shape == (1, 2) and v.dtype == lm.float32 and v.name == "w" and v.trainable and v.size == 2 and v.ndim == 2 and v.device == "cpu:0"
    assert v.numpy().tolist() == v.tolist() == [[1, 2]] and np.asarray(v).shape == (1, 2) and str(v) == 'lm.Variable([[1. 2.]], shape=(1, 2), dtype=float32, name="w")'
    assert lm.Variable(0).dtype == lm.int32 and lm.Variable(np.zeros(2)).dtype == lm.float64 and lm.Variable(1, dtype="float64").dtype == lm.float64
    assert float(lm.Variable(2.5)) == 2.5 and int(lm.Variable(3)) == 3 and bool(lm.Variable(0)) is False and lm.Variable(4).item() == 4
    assert lm.device_of(v) == "cpu:0" and not lm.Variable(1.0, trainable=False).trainable and len(lm.Variable([1, 2])) == 2


def test_assignment_changes_it_and_nothing_read_before():
    v = lm.Variable([1.0, 2.0])
    before, view = v.read(), np.asarray(v)
    v.assign([3, 4.0])
    v.assign_add(1)
    v.assign_sub([0.5, 0.5])
    assert v.tolist() == [3.5, 4.5] and before.tolist() == [1, 2] and view.tolist() == [1, 2]


def test_assignment_refuses_other_shapes_and_dtypes():
    v = lm.Variable([1.0, 2.0], name="w")
    with pytest.raises(ValueError, match="w"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="i32"):
        v.assign(lm.constant([1, 2]))
    with pytest.raises(TypeError):
        v.assign("text")
    with pytest.raises(TypeError):
        lm.Variable(0).assign(1.5)
    assert v.tolist() == [1, 2]


@pytest.mark.row("S2-8")
def test_operators_use_the_value_of_the_moment():
    v, log = lm.Variable(2.0), []
    for _ in range(3):
        log.append((v * 10 + 1).item())
        v.assign_add(1.0)
    assert log == [21, 31, 41] and (1 + v).item() == 6 and (v > 4).item() and (-v).item() == -5 and lm.exp(v).dtype == lm.float32


@pytest.mark.row("S2-30")
def test_variables_die_with_their_last_reference():
    references = []

    def work():
        v = lm.Variable(np.zeros(1000))
        references.append(weakref.ref(v))
        return v + 1
    work()
    gc.collect()
    assert references[0]() is None


def test_variables_in_cycles_are_collected():
    class Holder:
        pass
    h = Holder()
    h.variable, h.self = lm.Variable(1.0), h
    reference = weakref.ref(h.variable)
    del h
    gc.collect()
    assert reference() is None


def test_every_access_names_the_same_state():
    sgd = lm.optim.SGD(0.5)
    sgd.learning_rate.assign(0.25)
    assert sgd.learning_rate.item() == 0.25 and hash(sgd.learning_rate) == hash(sgd.learning_rate)
    sgd.learning_rate = 0.125
    assert sgd.learning_rate.item() == 0.125
