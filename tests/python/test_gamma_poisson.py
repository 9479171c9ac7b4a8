"""lm.random.gamma and lm.random.poisson: moments, distribution functions, keys, eager and traced, vmap, bad parameters."""
import math

import numpy as np
import pytest
import lamina as lm

N = 40000


def largest_gap(sample, distribution):
    """Kolmogorov's distance between a sample and a distribution function."""
    x = np.sort(np.asarray(sample, "float64"))
    f = distribution(x)
    n = len(x)
    return max((np.arange(1, n + 1) / n - f).max(), (f - np.arange(n) / n).max())


def gamma_function(alpha, x):
    """The distribution function of gamma(alpha), by the sum x^alpha exp(-x) sum_k x^k / gamma(alpha + k + 1)."""
    term = np.exp(alpha * np.log(np.maximum(x, 1e-300)) - x - math.lgamma(alpha + 1))
    total = np.zeros_like(x)
    for k in range(1, 4000):
        total += term
        term = term * x / (alpha + k)
        if term.max() < 1e-16:
            break
    return np.minimum(total, 1)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 2.5, 30.0, 1000.0])
def test_gamma_has_its_distribution(alpha):
    lm.random.set_seed(int(alpha * 100))
    for dtype in ("float32", "float64"):
        x = lm.random.gamma(lm.full((N,), alpha, dtype)).numpy()
        assert x.dtype == dtype and (x >= 0).all() and np.isfinite(x).all()
        assert abs(x.mean() - alpha) < 5 * math.sqrt(alpha / N) and abs(x.var() / alpha - 1) < 5 * math.sqrt((2 + 6 / alpha) / N)
        assert largest_gap(x, lambda v: gamma_function(alpha, v)) < 1.95 / math.sqrt(N)  # 0.1 %


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.99, 10.0, 37.5, 1000.0, 1e7])
def test_poisson_has_its_distribution(rate):
    lm.random.set_seed(int(rate * 10) + 1)
    k = lm.random.poisson(rate, (N,)).numpy()
    assert k.dtype == np.int64 and (k >= 0).all()
    if rate == 0:
        return np.testing.assert_array_equal(k, 0)
    assert abs(k.mean() - np.float32(rate)) < 5 * math.sqrt(rate / N) and abs(k.var() / rate - 1) < 5 * math.sqrt((2 + 1 / rate) / N)
    if rate <= 1000:
        values = np.arange(k.max() + 1)
        cdf = np.cumsum([math.exp(v * math.log(rate) - rate - math.lgamma(v + 1)) for v in values])
        share = np.cumsum(np.bincount(k, minlength=len(values))) / N
        assert np.abs(share - cdf).max() < 1.95 / math.sqrt(N)


def test_parameters_broadcast_and_rows_differ():
    a = lm.random.gamma(lm.constant([1.0, 100.0]), (500, 2)).numpy()
    assert a.shape == (500, 2) and abs(a[:, 0].mean() - 1) < 0.3 and abs(a[:, 1].mean() - 100) < 3
    k = lm.random.poisson(lm.constant([[2.0], [50.0]]), (2, 400))
    assert k.shape == (2, 400) and abs(k.numpy()[1].mean() - 50) < 3 and k.dtype == lm.int64
    assert lm.random.gamma(3).shape == () and lm.random.poisson(lm.constant(3)).shape == () and lm.random.gamma(lm.ones((0, 2))).shape == (0, 2)
    assert lm.random.gamma(lm.ones(3, "bfloat16")).dtype == lm.bfloat16 and lm.random.poisson(np.float64(2.5), (3,)).shape == (3,)
    assert abs(np.corrcoef(a[:, 0], a[:, 1])[0, 1]) < 0.2


@pytest.mark.parametrize("draw", [lm.random.gamma, lm.random.poisson], ids=["gamma", "poisson"])
def test_keys_seeds_and_traces(draw):
    p = lm.constant([0.5, 3.0, 25.0] * 20)
    key = lm.random.key(5)
    first = draw(p, key=key).tolist()
    assert first == draw(p, key=key).tolist() != draw(p, key=lm.random.key(6)).tolist()
    assert first == lm.function(lambda p, key: draw(p, key=key))(p, key).tolist()
    state = lm.random.get_state()
    draw(p, key=key)
    assert lm.random.get_state() == state
    eager = [draw(p).tolist() for _ in range(2)]
    assert eager[0] != eager[1]
    lm.random.set_state(state)
    traced = lm.function(lambda p: draw(p))
    assert [traced(p).tolist() for _ in range(2)] == eager and traced.trace_count == 1
    keys = lm.random.split(key, 3)
    mapped = lm.vmap(lambda key: draw(p, key=key))(keys)
    assert mapped.tolist() == [draw(p, key=keys[i]).tolist() for i in range(3)]
    own = lm.vmap(lambda q: draw(q))(lm.stack([p, p])).tolist()
    assert own[0] != own[1]


def test_no_gradient_flows_to_parameters_and_bad_ones_are_refused():
    assert lm.grad(lambda a: lm.sum(lm.random.gamma(a)) + 0.0 * lm.sum(a))(lm.ones(3)).tolist() == [0, 0, 0]
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(lm.errors.AssertionFailed, match="random.gamma: alpha"):
            lm.random.gamma(lm.constant([1.0, bad]))
    for bad in (-0.5, float("nan"), float("inf")):
        with pytest.raises(lm.errors.AssertionFailed, match="random.poisson: the rate"):
            lm.random.poisson(bad)
