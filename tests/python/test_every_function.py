"""Every public function of tensors: eager, traced, under vmap, grad of vmap and jacobian, and with arguments captured by bodies, against
plain loops and finite differences in float64."""
import numpy as np
import pytest

import lamina as lm
from every_function import CASES, EXEMPT, EXEMPT_LOSSES

c = lm.constant
NAMES = list(CASES)
SMOOTH = [name for name in NAMES if CASES[name].slopes]


def leaves(result):
    if isinstance(result, lm.Tensor):
        return [result]
    return [t for one in (result.values() if isinstance(result, dict) else result) for t in leaves(one)]


def arrays(result):
    return [np.asarray(t) for t in leaves(result)]


def agree(got, want, rtol=1e-9, atol=1e-9):
    got, want = arrays(got), arrays(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def weights(shape):
    return c(np.cos(np.arange(np.prod(shape, dtype=int)) * 1.7 + 0.4).reshape(shape))


def number(case):
    """The case as one number: a weighted sum of the results' elements."""
    def total(*args):
        parts = [lm.sum(t * weights(t.shape)) for t in leaves(case.fn(*args)) if t.dtype == lm.float64]
        return sum(parts[1:], parts[0])

    return total


def tensors(case):
    return [c(a) for a in case.args]


def slopes(case, args=None):
    args = tensors(case) if args is None else args
    return lm.grad(number(case), argnums=tuple(range(len(args))))(*args)


def stacked(case, count=3):
    """Arguments of several calls: small changes of the first."""
    return [np.stack([a * (1 + 1e-3 * i) for i in range(count)]) for a in case.args]


def test_every_public_function_is_in_the_table_or_exempt():
    public = set(lm.__all__) - set(" ".join(EXEMPT.values()).split())
    assert public - {name.split()[0] for name in NAMES} == set()
    losses = {f"losses.{name}" for name in set(lm.losses.__all__) - set(" ".join(EXEMPT_LOSSES.values()).split())}
    assert losses - {name.split()[0] for name in NAMES} == set()
    exempt = set(" ".join(EXEMPT.values()).split()) | set(" ".join(EXEMPT_LOSSES.values()).split())
    assert exempt <= set(lm.__all__) | set(lm.losses.__all__) | {"profiler", "progress", "autograph"}


@pytest.mark.row("S0-2", "S0-36")
@pytest.mark.parametrize("name", NAMES)
def test_traced_is_eager(name):
    case = CASES[name]
    agree(lm.function(case.fn)(*tensors(case)), case.fn(*tensors(case)))
    lm.testing.assert_graph_matches_eager(case.fn, *tensors(case))


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_is_that_of_finite_differences(name):
    case, step = CASES[name], 1e-5
    got = slopes(case)
    rng = np.random.default_rng(3)
    along = [rng.normal(size=a.shape) for a in case.args]
    ahead, behind = (float(number(case)(*[c(a + sign * step * d) for a, d in zip(case.args, along)])) for sign in (1, -1))
    want = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(sum(np.sum(np.asarray(g) * d) for g, d in zip(got, along)), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_a_loop(name):
    case, many = CASES[name], stacked(CASES[name])
    each = [leaves(case.fn(*[c(a[i]) for a in many])) for i in range(3)]
    want = [np.stack([np.asarray(one[k]) for one in each]) for k in range(len(each[0]))]
    run = lm.vmap(lambda *args: tuple(leaves(case.fn(*args))))
    for f in (run, lm.function(run)):
        for got, wanted in zip(f(*map(c, many)), want):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
def test_grad_of_vmap_and_vmap_of_grad_are_loops_of_gradients(name):
    case, many = CASES[name], stacked(CASES[name])
    each = [slopes(case, [c(a[i]) for a in many]) for i in range(3)]
    want = [np.stack([np.asarray(one[k]) for one in each]) for k in range(len(many))]
    every = tuple(range(len(many)))
    of_vmap = lm.grad(lambda *args: lm.sum(lm.vmap(number(case))(*args)), argnums=every)
    vmap_of = lm.vmap(lambda *args: lm.grad(number(case), argnums=every)(*args))
    for f in (of_vmap, vmap_of, lm.function(of_vmap)):
        for got, wanted in zip(f(*map(c, many)), want):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_jacobian_has_the_gradients_of_all_elements(name):
    case = CASES[name]
    args, first = tensors(case), next(i for i, t in enumerate(leaves(case.fn(*tensors(case)))) if t.dtype == lm.float64)
    out, pull = lm.vjp(lambda *args: leaves(case.fn(*args))[first], *args)
    directions = np.eye(int(np.prod(out.shape, dtype=int))).reshape(-1, *out.shape)
    rows = [pull(c(d))[0] for d in directions]
    want = np.stack([np.asarray(r) for r in rows]).reshape(*out.shape, *args[0].shape)
    got = lm.jacobian(lambda *args: leaves(case.fn(*args))[first])(*args)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-8, atol=1e-8)


def _counted(f):
    return lm.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1] + f()), (c(0), c(0.0, dtype=lm.float64)), maximum_iterations=2)[1]


# Ways to compute the case with captured arguments.
PLACES = {
    "cond": lambda f: lm.cond(c(True), f, lambda: c(0.0, dtype=lm.float64)),
    "scan": lambda f: lm.scan(lambda s, _: (s + f(), None), c(0.0, dtype=lm.float64), None, length=1)[0],
    "while_loop": _counted,
    "checkpoint": lambda f: lm.checkpoint(f)(),
    "function": lambda f: lm.function(f)(),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_reach_arguments_that_a_body_uses_from_outside(name, place):
    case, run = CASES[name], PLACES[place]
    args = tensors(case)
    every = tuple(range(len(args)))
    want = slopes(case)

    def inside(*args):
        return run(lambda: number(case)(*args))

    plain = lm.grad(inside, argnums=every)
    agree(plain(*args), want, 1e-8, 1e-8)
    agree(lm.function(plain)(*args), want, 1e-8, 1e-8)
    under = lm.vmap(lambda z: [g * z for g in plain(*args)])(c([1.0, 2.0], dtype=lm.float64))
    agree([g[1] for g in under], [2 * g for g in want], 1e-8, 1e-8)
    around = lm.grad(lambda *args: lm.sum(lm.vmap(lambda z: z * inside(*args))(c([1.0, 2.0], dtype=lm.float64))), argnums=every)
    agree([g / 3.0 for g in around(*args)], want, 1e-8, 1e-8)
