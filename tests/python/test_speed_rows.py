"""Rows S3-* of tests/rows.txt: what the advice on speed relies on."""
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import lamina as lm

row = pytest.mark.row


@row("S3-4")
def test_float64_of_numpy_stays_float64():
    a, b = np.random.default_rng(0).uniform(size=(2, 60, 60))
    product = lm.matmul(lm.constant(a), lm.constant(b))
    assert product.dtype == lm.float64
    np.testing.assert_allclose(product.numpy(), a @ b, rtol=1e-12)


@row("S3-10", "S3-18")
def test_a_constant_is_a_copy_and_synchronize_waits():
    a = np.ones((4, 4))
    x = lm.constant(a)
    a[:] = 2
    product = lm.matmul(x, x)
    lm.synchronize()
    assert product.numpy().tolist() == [[4.0] * 4] * 4


def looped(a, b):
    return lm.stack([lm.matmul(a[i], b) for i in range(a.shape[0])], axis=0)


def batched(a, b):
    return lm.einsum("ijk,kl->ijl", a, b)


@row("S3-12", "S3-13", "S3-15")
def test_a_loop_of_products_is_one_batched_product():
    a, b = lm.random.uniform((30, 10, 20)), lm.random.uniform((20, 20))
    want = a.numpy() @ b.numpy()
    for f in (looped, batched, lm.matmul):
        for call in (f, lm.function(f)):
            np.testing.assert_allclose(call(a, b).numpy(), want, rtol=1e-5)
    assert lm.inspect(looped, a, b).traced.count("matmul") == 30
    assert len(lm.inspect(batched, a, b).traced) <= 5 and len(lm.inspect(lm.function(lm.matmul), a, b).traced) <= 3


@row("S3-14")
@pytest.mark.parametrize("formula", ["ij,jk->ik", "ij,kj->ik", "ij->ji", "ij,ij->", "ii->i", "ij,jk,kl->il", "bij,bjk->bik", "...i,i->..."])
def test_einsum_takes_any_formula(formula):
    terms = formula.split("->")[0].split(",")
    arrays = [np.random.default_rng(i).standard_normal([3] * len(term.replace("...", "xy"))) for i, term in enumerate(terms)]
    np.testing.assert_allclose(lm.einsum(formula, *map(lm.constant, arrays)).numpy(), np.einsum(formula, *arrays), rtol=1e-10, atol=1e-12)


@row("S3-11")
def test_a_loop_over_the_elements_of_a_tensor_is_warned_of():
    def elements(x):
        return sum(x[i] * 2 for i in range(x.shape[0]))

    def layers(x):
        for _ in range(600):
            x = lm.tanh(x) * 2
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lm.function(elements)(lm.ones((499, 2)))
        lm.function(layers)(lm.ones((2, 2)))
    traced = lm.function(elements)
    with pytest.warns(lm.UnrollWarning, match=r"elements: the Python loop at .*test_speed_rows.py:\d+ takes 500 parts of one tensor or more.*lm.einsum") as seen:
        assert traced(lm.ones((600, 2))).numpy().tolist() == [1200, 1200]
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced(lm.ones((600, 2)))  # the same graph


@row("S3-16")
def test_the_profiler_has_the_time_of_each_op():
    x = lm.ones((64, 64))
    f = lm.function(lambda x: lm.sum(lm.sort(lm.matmul(x, x))))
    f(x)
    with lm.profiler.record() as recording:
        f(x)
    names = [one.text for one in recording.ranges]
    assert any("matmul" in name for name in names) and any("sort" in name for name in names)
    assert all(one.end >= one.begin for one in recording.ranges)


@row("S3-23", "S3-24", "S3-25")
def test_the_processor_is_not_spoken_of_and_its_instruction_set_can_be_chosen():
    program = "import lamina as lm; print(lm.matmul(lm.ones((2, 2)), lm.ones((2, 2))).numpy().tolist())"
    for chosen in ("", "scalar"):
        environment = {name: value for name, value in os.environ.items() if name != "LAMINA_CPU"} | ({"LAMINA_CPU": chosen} if chosen else {})
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[[2.0, 2.0], [2.0, 2.0]]\n", ""), chosen


@row("S3-28")
def test_a_layer_that_is_used_three_times_has_its_weights_once():
    shared, x = lm.nn.Dense(4), lm.nn.Input((4,))
    net = lm.nn.Model(x, shared(shared(shared(x))))
    assert net.count_params() == 20 and len(net.trainable_variables) == 2
    w = shared.trainable_variables[0]
    with lm.GradientTape() as tape:
        y = lm.sum(net(lm.ones((1, 4))))
    gradient = tape.gradient(y, w).numpy()
    wanted, step = np.zeros((4, 4)), 1e-3
    for i in range(4):
        for j in range(4):
            sides = []
            for sign in (1, -1):
                before = w.numpy()
                moved = before.copy()
                moved[i, j] += sign * step
                w.assign(moved)
                sides.append(float(lm.sum(net(lm.ones((1, 4)))).numpy()))
                w.assign(before)
            wanted[i, j] = (sides[0] - sides[1]) / (2 * step)
    np.testing.assert_allclose(gradient, wanted, rtol=5e-2, atol=5e-2)


@row("S3-29")
def test_two_optimisers_and_tapes_for_one_use_and_for_several():
    p, q = lm.Variable(1.0), lm.Variable(1.0)
    slow, fast = lm.optim.SGD(0.1), lm.optim.SGD(0.5)
    with lm.GradientTape(persistent=True) as tape:
        cost = p * p + q * q
    slow.apply_gradients([(tape.gradient(cost, p), p)])
    fast.apply_gradients([(tape.gradient(cost, q), q)])
    assert (round(float(p.numpy()), 6), float(q.numpy())) == (0.8, 0.0)
    with pytest.raises(ValueError, match="ptimizer"):
        slow.apply_gradients([(tape.gradient(cost, q), q)])
    with lm.GradientTape() as once:
        cost = p * p
    once.gradient(cost, p)
    with pytest.raises(RuntimeError):
        once.gradient(cost, p)
