"""L-BFGS: known minima, one graph, its history, what it refuses."""
import numpy as np
import pytest

import lamina as lm


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-8), ("float32", 1e-3)])
def test_rosenbrock_ends_at_its_minimum(dtype, tolerance):
    v = lm.Variable(np.array([-1.2, 1.0, -1.2, 1.0], dtype))

    def rosenbrock():
        return lm.sum(100 * lm.square(v[1:] - lm.square(v[:-1])) + lm.square(1 - v[:-1]))

    found = lm.optim.LBFGS(max_iterations=300, tolerance=tolerance).minimize(rosenbrock, [v])
    assert bool(found.converged) and int(found.iterations) < 150
    # The other stationary point is a local minimum near (-0.776, 0.613, 0.382, 0.146).
    best = np.ones(4) if v.numpy()[0] > 0 else np.array([-0.77565923, 0.61309337, 0.38206285, 0.14597202])
    np.testing.assert_allclose(v.numpy(), best, atol=1e-6 if dtype == "float64" else 5e-3)


def regression():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    best = np.linalg.lstsq(np.c_[x, np.ones(40)], y, rcond=None)[0]
    return x, y, best


def test_a_regression_of_several_variables_has_the_solution_of_least_squares():
    x, y, best = regression()
    w, b = lm.Variable(np.zeros(5)), lm.Variable(np.float64(0))
    own = lm.optim.LBFGS(history_size=5, tolerance=1e-10)
    loss = lambda x, y: lm.mean(lm.square(lm.matmul(x, w) + b - y))
    found = own.minimize(loss, [w, b], x, y)
    np.testing.assert_allclose(np.r_[w.numpy(), b.numpy()], best, atol=1e-9)
    assert bool(found.converged) and float(found.loss) == pytest.approx(float(loss(lm.constant(x), lm.constant(y))))
    assert [tuple(v.shape) for v in own.variables] == [(5, 6)] * 2 and np.abs(own.variables[0].numpy()).sum() > 0
    function = own._of[2]
    own.minimize(loss, [w, b], x, y + 1)  # other data, the same graph
    np.testing.assert_allclose(b.numpy(), best[-1] + 1, atol=1e-9)
    assert function is own._of[2] and function.trace_count == 1


def test_the_loss_never_rises_and_iterations_are_bounded():
    v = lm.Variable(np.array([3.0, -2.0]))
    own, losses = lm.optim.LBFGS(max_iterations=1, tolerance=0.0), [np.inf]
    loss = lambda: lm.sum(lm.square(lm.square(v) - 1)) + lm.sum(v)
    for _ in range(12):
        found = own.minimize(loss, [v])
        assert int(found.iterations) <= 1 and float(found.loss) <= losses[-1]
        losses.append(float(found.loss))
    assert np.abs(4 * v.numpy() * (v.numpy() ** 2 - 1) + 1).max() < 1e-4


def test_steps_where_the_loss_is_not_a_number_are_shortened():
    v = lm.Variable(np.float64(1e-3))
    found = lm.optim.LBFGS().minimize(lambda: v - lm.log(v), [v])
    assert bool(found.converged) and v.numpy() == pytest.approx(1.0, abs=1e-6)


def test_what_it_cannot_minimize_is_refused():
    own, v = lm.optim.LBFGS(), lm.Variable([1.0, 2.0])
    with pytest.raises(lm.errors.InvalidArgument, match="there are no Variables"):
        own.minimize(lambda: lm.constant(1.0), [])
    with pytest.raises(lm.errors.InvalidArgument, match=r"the loss has shape \(2,\)"):
        own.minimize(lambda: v * 2, [v])
    with pytest.raises(lm.errors.TypeMismatch, match="the Variables are float32, float64"):
        own.minimize(lambda: lm.sum(v), [v, lm.Variable(np.float64(1))])
    with pytest.raises(lm.errors.TypeMismatch, match="is no function"):
        own.minimize(1.0, [v])
    with pytest.raises(lm.errors.InvalidArgument, match="history_size 0"):
        lm.optim.LBFGS(history_size=0)
