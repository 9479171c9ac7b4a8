"""Nested branches: the time is linear in their number, and too many are refused."""
import sys
import threading
import time

import numpy as np
import pytest

import lamina as lm

c = lm.constant


def nest(x, depth):
    if depth == 0:
        return x
    return lm.cond(x > float(depth), lambda: nest(x * 1.01, depth - 1), lambda: x * 2.0)


def product(x, depth):
    """Its gradient needs each inner branch's value."""
    if depth == 0:
        return x
    return lm.cond(x > float(depth), lambda: product(x * 1.01, depth - 1) * x, lambda: x * 2.0)


@pytest.fixture(autouse=True)
def deep_python():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def seconds(depth, differentiated):
    """The minimum of three times that this thread's tracing, planning and one call took of a core."""
    def once():
        plain = lm.function(lambda x: lm.grad(nest)(x, depth) if differentiated else nest(x, depth), autograph=False)
        start = time.thread_time()
        plain(c(5.0))
        return time.thread_time() - start

    return min(once(), once(), once())


@pytest.mark.parametrize("f", [nest, product])
def test_gradients_through_nested_branches_are_right(f):
    traced = lm.function(lambda x: lm.grad(f)(x, 12), autograph=False)
    for x in (0.5, 11.7, 12.5, 40.0):
        np.testing.assert_allclose(float(traced(c(x))), float(lm.grad(f)(c(x), 12)), rtol=1e-5)


@pytest.mark.parametrize("differentiated", [False, True], ids=["forward", "gradient"])
def test_time_is_linear_in_the_number_of_nested_branches(differentiated):
    # 4 times as many branches take 4 times as long if the time is linear, 16 times if quadratic, 128 times for n^3.5.
    few, many = seconds(40, differentiated), seconds(160, differentiated)
    assert many < 14 * few, f"40 deep {few:.3f} s, 160 deep {many:.3f} s"


def test_a_thousand_nested_branches_work_and_more_are_refused():
    results = []

    def run():
        results.append(float(lm.function(lambda x: nest(x, 900), autograph=False)(c(5.0))))
        with pytest.raises(lm.errors.ConversionFailed, match="nested more than 1000 deep"):
            lm.function(lambda x: nest(x, 1100), autograph=False)(c(5.0))

    thread = threading.Thread(target=run)  # with a stack as large as the main thread's
    thread.start()
    thread.join()
    assert results == [10.0]
