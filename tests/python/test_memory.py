"""Memory of a device: what is live, its peak, a limit, and an error that names what holds most of it."""
import numpy as np
import pytest

import lamina as lm

KIBI = 1024


def live():
    return lm.memory_stats()["live"]


def test_live_bytes_grow_and_shrink_with_tensors_and_peak_stays():
    before = lm.memory_stats(reset_peak=True)["live"]
    x = lm.zeros((256, KIBI)) + 1
    assert live() - before == 4 * 256 * KIBI
    del x
    after = lm.memory_stats()
    assert after["live"] == before and after["peak"] >= before + 4 * 256 * KIBI
    assert lm.memory_stats(reset_peak=True)["peak"] == after["peak"] and lm.memory_stats()["peak"] == before
    assert after["pool"] > 0  # the block is kept for later
    assert after["limit"] > after["live"]


def test_the_largest_holders_are_named():
    weight = lm.Variable(np.zeros((512, KIBI), "float32"), name="tower/kernel")

    @lm.function
    def the_step(x):
        return lm.sum(lm.sort(lm.cumsum(x @ weight, axis=0), axis=0))  # sorted values and sums lie in its arena

    the_step(lm.ones((256, 512)))
    largest = lm.memory_stats()["largest"]
    assert largest["Variable 'tower/kernel'"] == 4 * 512 * KIBI
    assert largest["temporaries of 'the_step'"] >= 4 * 256 * KIBI
    assert list(largest.values()) == sorted(largest.values(), reverse=True)
    weight = the_step = None
    assert "Variable 'tower/kernel'" not in lm.memory_stats()["largest"] and "temporaries of 'the_step'" not in lm.memory_stats()["largest"]


def test_a_stacked_variable_counts_all_its_models():
    nets = lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(64, name="wide")]), 8, input_shape=(512,), learning_rate=0.1)
    name = nets.models.variables[0].name
    assert name.endswith("wide/kernel") and lm.memory_stats()["largest"][f"Variable '{name}'"] == 4 * 8 * 512 * 64


def test_a_limit_stops_an_allocation_and_the_error_names_the_holders():
    weight = lm.Variable(np.zeros((KIBI, KIBI), "float32"), name="encoder/kernel")
    lm.config.set_memory_limit(live() + 1000 * KIBI)
    try:
        assert lm.memory_stats()["limit"] == live() + 1000 * KIBI
        with pytest.raises(lm.errors.OutOfMemory, match=r"out of memory on cpu:0: asked for 8388608 bytes(.|\n)*Variable 'encoder/kernel' with 4194304(.|\n)*set_memory_limit"):
            lm.zeros((2 * KIBI, KIBI)) + 1
        small = lm.zeros(64) + 1  # what fits still runs
        assert float(lm.sum(small)) == 64
    finally:
        lm.config.set_memory_limit(None)
    assert float(lm.sum(lm.zeros((2 * KIBI, KIBI)) + 1)) == 2 * KIBI * KIBI
    assert weight.shape == (KIBI, KIBI)


def test_a_function_that_fits_no_limit_is_an_error_and_runs_without_it():
    @lm.function
    def many(x):
        return lm.sum(lm.sort(lm.cumsum(x, axis=0), axis=0))

    x = lm.ones((KIBI, KIBI))
    lm.config.set_memory_limit(live() + 256 * KIBI)
    try:
        with pytest.raises(lm.errors.OutOfMemory):
            many(x)
        assert live() <= lm.memory_stats()["limit"]
    finally:
        lm.config.set_memory_limit(None)
    assert float(many(x)) > 0


def test_memory_that_is_not_laminas_is_not_counted():
    before, array = live(), np.zeros((512, KIBI), "float32")
    shared = lm.from_dlpack(array)
    assert live() - before < 4 * KIBI and shared.shape == (512, KIBI)


def test_bad_arguments():
    with pytest.raises(lm.errors.InvalidArgument, match="memory limit"):
        lm.config.set_memory_limit(-1)
    with pytest.raises(lm.errors.DeviceUnavailable):
        lm.memory_stats("cpu:7")
    with pytest.raises(lm.errors.DeviceUnavailable):
        lm.config.set_memory_limit(10, device="cpu:7")
    with pytest.raises(lm.errors.NotFound):
        lm.memory_stats("disk:0")


def test_a_negative_limit_is_refused_as_it_was_written():
    with pytest.raises(lm.errors.InvalidArgument, match="a memory limit of -1 bytes"):
        lm.config.set_memory_limit(-1)
