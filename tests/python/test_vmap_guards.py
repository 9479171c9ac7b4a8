"""Under vmap all models run a branch or an iteration together. What a model's guard keeps it from must not fail the call, and one key for all gives each model
draws of its own, however a loop is written."""
import numpy as np
import pytest

import lamina as lm


def index_while(x):
    i = 0
    while i < 3 and x[i] > 0:
        i += 1
    return lm.astype(i, "float32") + x[0]


def taken(x):
    i = lm.astype(x[0], "int32")
    return lm.cond(i < 2, lambda: x[i] * 2.0, lambda: x[0])


def chased(x):
    following, n, i = lm.constant([3, -5, 1, 2]), 0.0, lm.astype(x[0], "int32")
    while i != -5:
        i, n = following[i], n + x[1]
    return n


def solved(x):
    a = lm.stack([x[0], x[0]])
    while lm.sum(a) > 1:
        a = lm.linalg.solve(lm.diag(a), a * a * 0.5)
    return lm.sum(a) + x[1]


def factored(x):
    if x[0] > 1:
        return lm.sum(lm.linalg.cholesky(lm.eye(2) * (x[0] - 1))) * x[1]
    return x[1]


def nested(x):
    if x[0] > 0:
        if x[1] > 0:
            return lm.linalg.slogdet(lm.eye(2) * x[0])[1] * x[1] + x[lm.astype(x[2], "int32")]
        return x[1]
    return x[2]


def at_two_places(x):
    i = lm.astype(x[0], "int32")
    table = lm.reshape(lm.arange(6, dtype="float32"), (2, 3))
    return lm.cond(i < 2, lambda: table[i, lm.astype(x[1], "int32")] * 2.0, lambda: x[2])


def scattered(x):
    if x[0] < 2:
        return lm.sum(lm.zeros(3).at[lm.astype(x[0], "int32")].add(x[1]) * x)
    return x[1]


ROWS = {
    index_while: [[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], taken: [[0.0, 5, 7], [1, 5, 7], [9, 5, 7]], chased: [[0.0, 1, 0], [1, 2, 0], [-5, 3, 0], [3, 1, 0]],
    solved: [[1.0, 2, 3], [4, 5, 6], [100, 8, 9], [0.1, 0, 0]], factored: [[0.0, 1, 2], [3, 4, 5], [1, 3, 3], [6, 2, 2]],
    at_two_places: [[0.0, 2, 7], [1, 0, 7], [9, 50, 7], [2, -9, 5]],
    nested: [[1.0, 2, 1], [-1, 2, 9], [3, -1, 9], [0, 0, 5]], scattered: [[0.0, 1, 2], [1, 5, 3], [7, 2, 2], [5, 2, 2]],
}


@pytest.mark.parametrize("f", ROWS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("traced", [False, True])
def test_models_get_what_each_gets_alone(f, traced):
    x = lm.constant(ROWS[f])
    wrap = lm.function if traced else lambda g: g
    alone = lm.function(f)
    assert np.allclose(wrap(lm.vmap(f))(x).numpy(), [float(alone(row)) for row in x], rtol=1e-6)
    want = np.stack([lm.function(lm.grad(f))(row).numpy() for row in x])
    assert np.allclose(wrap(lm.vmap(lm.grad(f)))(x).numpy(), want, rtol=1e-5)
    assert np.allclose(wrap(lm.grad(lambda v: lm.sum(lm.vmap(f)(v))))(x).numpy(), want, rtol=1e-5)
    if f is not chased:  # whose second model of the outer vmap has no start
        assert np.allclose(wrap(lm.vmap(lm.vmap(f)))(lm.stack([x, x])).numpy()[1], wrap(lm.vmap(f))(x).numpy())


@pytest.mark.parametrize("f, rows", [(taken, [[9.0, 5, 7], [8, 5, 7]]), (factored, [[0.0, 1, 2], [1, 3, 3]]), (scattered, [[7.0, 2, 2], [5, 2, 2]])], ids=lambda f: getattr(f, "__name__", ""))
def test_a_branch_that_no_model_takes_does_not_run(f, rows):
    x = lm.constant(rows)
    assert np.array_equal(lm.vmap(f)(x).numpy(), [float(lm.function(f)(row)) for row in x])


def test_the_error_of_a_model_on_its_own_way_is_raised():
    with pytest.raises(lm.errors.IndexOutOfRange):
        lm.vmap(lambda i: lm.cond(i < 7, lambda: lm.take(lm.constant([1.0, 2.0]), i), lambda: lm.constant(0.0)))(lm.constant([0, 1, 5]))


def unrolled(y):
    key = lm.random.key(1)
    for _ in range(3):
        key, own = lm.unstack(lm.random.split(key))
        y = y + lm.random.normal((), key=own)
    return y


def scanned(y):
    def step(state, _):
        y, key = state
        key, own = lm.unstack(lm.random.split(key))
        return (y + lm.random.normal((), key=own), key), None
    return lm.scan(step, (y, lm.random.key(1)), None, length=3)[0][0]


def looped(y):
    key = lm.random.key(1)
    for _ in lm.range(lm.constant(3)):
        key, own = lm.unstack(lm.random.split(key))
        y = y + lm.random.normal((), key=own)
    return y


def until(y):
    key, n = lm.random.key(1), 0
    while n < 3 and y < 100:
        key, own = lm.unstack(lm.random.split(key))
        y, n = y + lm.random.normal((), key=own), n + 1
    return y


def inside(y):
    """The key is drawn from in a branch of the loop."""
    key = lm.random.key(1)
    for i in lm.range(lm.constant(3)):
        if i < 5:
            y = y + lm.random.normal((), key=key)
        key = lm.random.split(key)[0]
    return y


@pytest.mark.parametrize("f", [unrolled, scanned, looped, until, inside], ids=lambda f: f.__name__)
@pytest.mark.parametrize("traced", [False, True])
def test_a_key_for_all_models_gives_each_draws_of_its_own(f, traced):
    g = lm.vmap(lm.vmap(f))
    got = (lm.function(g) if traced else g)(lm.zeros((2, 50))).numpy().ravel()
    assert len(np.unique(got)) == 100 and abs(got.mean()) < 0.7 and 1.2 < got.std() < 2.4, got  # a sum of three normal numbers


def test_models_with_keys_of_their_own_draw_as_each_alone():
    keys = lm.random.split(lm.random.key(5), 4)
    step = lambda state, _: ((state[0] + lm.random.normal((), key=state[1]), lm.random.split(state[1])[0]), None)
    run = lambda key: lm.scan(step, (lm.constant(0.0), key), None, length=3)[0][0]
    assert np.array_equal(lm.vmap(run)(keys).numpy(), [float(run(key)) for key in keys])
