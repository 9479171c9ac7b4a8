"""lm.random."""
import inspect
import numpy as np
import pytest

import lamina as lm


def draws():
    return [lm.random.uniform((3,)).numpy(), lm.random.normal((2, 2)).numpy(), lm.dropout(lm.ones(8), 0.5).numpy()]


def test_a_seed_gives_the_same_numbers_eager_and_traced():
    lm.random.set_seed(7)
    eager = draws() + draws()
    f = lm.function(lambda: (lm.random.uniform((3,)), lm.random.normal((2, 2)), lm.dropout(lm.ones(8), 0.5)))
    lm.random.set_seed(7)
    traced = [t.numpy() for t in (*f(), *f())]
    assert all(np.array_equal(a, b) for a, b in zip(eager, traced)) and not np.array_equal(eager[0], eager[3])
    lm.random.set_seed(8)
    assert not np.array_equal(draws()[0], eager[0])


def test_distributions():
    u, n = lm.random.uniform((100000,), -2.0, 6.0).numpy(), lm.random.normal((100000,), 3.0, 2.0).numpy()
    assert u.dtype == np.float32 and u.min() >= -2 and u.max() < 6 and abs(u.mean() - 2) < 0.05 and abs(u.std() - 8 / np.sqrt(12)) < 0.05
    assert abs(n.mean() - 3) < 0.05 and abs(n.std() - 2) < 0.05 and lm.random.uniform([2], dtype="float64").dtype == lm.float64
    with pytest.raises(ValueError):
        lm.dropout(lm.ones(3), 1.5)


def more_draws():
    r = lm.random
    return [r.integers(-5, 5, (4,)), r.integers(300, dtype="int64"), r.truncated_normal((5,), low=-1, high=3), r.exponential((3,), rate=2.0), r.bernoulli(0.3, (8,)),
            r.bernoulli(lm.constant([0.0, 1.0])), r.categorical(lm.constant([0.0, 1.0, 2.0]), (5,)), r.permutation(6), r.shuffle(lm.arange(10)), r.permutation(lm.ones((3, 2)))]


def test_more_draws_are_the_same_eager_and_traced():
    lm.random.set_seed(3)
    eager = [t.numpy() for t in more_draws()]
    lm.random.set_seed(3)
    traced = [t.numpy() for t in lm.function(more_draws)()]
    for a, b in zip(eager, traced):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    again = [t.numpy() for t in more_draws()]
    assert any(not np.array_equal(a, b) for a, b in zip(eager, again))


def test_more_distributions():
    r = lm.random
    x = r.integers(2, 6, (40000,)).numpy()
    assert set(x) == {2, 3, 4, 5} and abs(np.bincount(x)[2:] / 40000 - 0.25).max() < 0.02
    assert abs(r.bernoulli(0.3, (40000,)).numpy().mean() - 0.3) < 0.015 and r.bernoulli(lm.constant([0.0, 1.0])).tolist() == [False, True]
    p = np.float32([0.1, 0.2, 0.7])
    c = r.categorical(np.log(p), (40000,)).numpy()
    assert c.dtype == np.int64 and abs(np.bincount(c, minlength=3) / 40000 - p).max() < 0.02
    assert r.categorical(np.float32([[0, -np.inf], [-np.inf, 0]]), (7,)).tolist() == [[0, 1]] * 7
    e = r.exponential((40000,), rate=4.0, dtype="float64").numpy()
    assert e.min() >= 0 and abs(e.mean() - 0.25) < 0.01
    t = r.truncated_normal((40000,), low=-0.5, high=2).numpy()
    assert t.min() >= -0.5 and t.max() <= 2 and abs(t.mean() - (np.exp(-0.125) - np.exp(-2)) / np.sqrt(2 * np.pi) / 0.66871) < 0.02
    order = r.permutation(1000).numpy()
    assert sorted(order) == list(range(1000)) and abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.2
    m = np.arange(12).reshape(3, 4)
    assert sorted(map(tuple, r.shuffle(m, axis=1).numpy().T)) == sorted(map(tuple, m.T))


@pytest.mark.parametrize("bad", [
    lambda: lm.random.integers(3, 3), lambda: lm.random.integers(0, 300, dtype="uint8"), lambda: lm.random.integers(0, 3, dtype="float32"), lambda: lm.random.exponential(rate=0.0),
    lambda: lm.random.truncated_normal(deviation=0.0), lambda: lm.random.truncated_normal(low=2.0, high=1.0), lambda: lm.random.permutation(-1), lambda: lm.random.categorical(1.0),
    lambda: lm.random.bernoulli(lm.constant([0.5, 0.5]), (3,)),
])
def test_more_draws_refuse_what_does_not_fit(bad):
    with pytest.raises(lm.errors.Error):
        bad()


ATTENTION, SEQUENCE = lm.nn.MultiHeadAttention(1, 4, dropout=0.5), lm.reshape(lm.range(60.0), (1, 15, 4)) * 0.01
ATTENTION(SEQUENCE, SEQUENCE)
DRAWS = {
    "uniform": lambda: lm.random.uniform((3,)),
    "normal": lambda: lm.random.normal((3,)),
    "integers": lambda: lm.random.integers(1_000_000, shape=(3,)),
    "truncated_normal": lambda: lm.random.truncated_normal((3,)),
    "exponential": lambda: lm.random.exponential((3,)),
    "bernoulli": lambda: lm.random.bernoulli(0.5, (60,)),
    "gamma": lambda: lm.random.gamma(2.0, (3,)),
    "poisson": lambda: lm.random.poisson(1000.0, (3,)),
    "categorical": lambda: lm.random.categorical(lm.zeros((1000,)), (3,)),
    "permutation": lambda: lm.random.permutation(50),
    "shuffle": lambda: lm.random.shuffle(lm.range(50)),
    "randint": lambda: lm.random.randint(0, 1000, (40,)),
    "choice": lambda: lm.random.choice(1000, (40,)),
    "dropout": lambda: lm.dropout(lm.ones((60,)), 0.5),
    "Dropout": lambda: lm.nn.Dropout(0.5)(lm.ones((1, 60)), training=True),
    "MultiHeadAttention": lambda: ATTENTION(SEQUENCE, SEQUENCE, training=True),
}
NO_DRAWS = {"key", "split", "set_seed", "next_seed", "get_state", "set_state"}  # functions of lm.random

DRAWN_IN = {
    "itself": lambda f: f(),
    "cond": lambda f: lm.cond(lm.constant(True), f, f),
    "switch": lambda f: lm.switch(lm.constant(1), [f, f, f]),
    "scan": lambda f: lm.scan(lambda s, _: (s, f()), lm.constant(0), None, length=2)[1],
    "while_loop": lambda f: lm.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f()), (lm.constant(0), lm.zeros_like(f())))[1],
    "checkpoint": lambda f: lm.checkpoint(f)(),
    "function": lambda f: lm.function(f)(),
    "cond in scan": lambda f: lm.scan(lambda s, _: (s, lm.cond(s == 0, f, f)), lm.constant(0), None, length=2)[1],
}


def test_every_function_that_draws_is_in_the_table():
    public = {name for name in dir(lm.random) if not name.startswith("_")}
    assert public - NO_DRAWS == set(DRAWS) - {"dropout", "Dropout", "MultiHeadAttention"}
    calls = {name: getattr(getattr(lm.nn, name), "call", None) for name in lm.nn.__all__}
    told = {name for name, call in calls.items() if call is not None and "training" in inspect.signature(call).parameters}
    assert told - {"BatchNorm", "BatchNormalization", "Layer", "Model", "Sequential", "Stack"} == {"Dropout", "MultiHeadAttention"}


@pytest.mark.parametrize("how", ["eager", "traced", "nested"])
@pytest.mark.parametrize("place", DRAWN_IN)
@pytest.mark.parametrize("name", DRAWS)
def test_every_vmapped_call_draws_its_own(name, place, how):
    run = lm.vmap(lambda x: DRAWN_IN[place](DRAWS[name]))
    if how == "traced":
        run = lm.function(run)
    x = lm.ones((6,))
    if how == "nested":
        run, x = lm.vmap(run), lm.ones((2, 3))
    drawn = np.asarray(run(x)).reshape(6, -1)
    assert len({one.tobytes() for one in drawn}) == 6
    again = np.asarray(run(x)).reshape(6, -1)
    assert not {one.tobytes() for one in drawn} & {one.tobytes() for one in again}


@pytest.mark.parametrize("name", DRAWS)
def test_vmapped_draws_are_the_same_eager_and_traced(name):
    run = lm.vmap(lambda x: DRAWS[name]())
    lm.random.set_seed(5)
    eager = np.asarray(run(lm.ones((4,))))
    lm.random.set_seed(5)
    np.testing.assert_array_equal(lm.function(run)(lm.ones((4,))), eager)


def test_a_draw_made_by_only_some_models_is_refused_with_a_message_about_draws():
    with pytest.raises(lm.errors.InvalidArgument, match="a draw stands in a branch or loop whose condition differs") as caught:
        lm.vmap(lambda x: lm.cond(x > 0, lambda: lm.random.uniform(()), lambda: x))(lm.constant([1.0, -1.0]))
    assert "draw before the branch" in caught.value.fix


KEYED = {
    "uniform": lambda k: lm.random.uniform((5,), key=k), "normal": lambda k: lm.random.normal((5,), key=k), "integers": lambda k: lm.random.integers(0, 10**6, (5,), key=k),
    "integers of tensors": lambda k: lm.random.integers(lm.constant(0), lm.constant(10**6), (5,), key=k), "randint": lambda k: lm.random.randint(10**6, shape=(5,), key=k),
    "truncated_normal": lambda k: lm.random.truncated_normal((5,), key=k), "exponential": lambda k: lm.random.exponential((5,), key=k), "bernoulli": lambda k: lm.random.bernoulli(0.5, (64,), key=k),
    "categorical": lambda k: lm.random.categorical(lm.zeros((1000,)), (5,), key=k), "permutation": lambda k: lm.random.permutation(30, key=k), "shuffle": lambda k: lm.random.shuffle(lm.range(30), key=k),
    "choice": lambda k: lm.random.choice(10**6, (5,), key=k), "choice once": lambda k: lm.random.choice(50, (9,), False, key=k), "choice of": lambda k: lm.random.choice(lm.linspace(0, 1, 99), (5,), p=lm.ones(99), key=k),
    "choice once with p": lambda k: lm.random.choice(50, (9,), False, lm.range(1, 51), key=k), "split": lambda k: lm.random.split(k, 3),
}


@pytest.mark.parametrize("name", KEYED)
def test_a_key_decides_what_is_drawn(name):
    draw = KEYED[name]
    before = lm.random.get_state()
    keys = lm.random.split(lm.random.key(7), 4)
    each = [draw(k).numpy() for k in keys]
    assert len({e.tobytes() for e in each}) == 4
    for mode in (lambda f: f, lm.function):
        assert all((mode(draw)(k).numpy() == e).all() for k, e in zip(keys, each))
        assert (mode(lm.vmap(draw))(keys).numpy() == np.stack(each)).all()
    assert lm.random.get_state() == before


def test_keys_are_split_and_checked():
    k = lm.random.key(3)
    a, b = lm.random.split(k)
    assert k.numpy().tolist() == [3, 0] and a.shape == (2,) and a.numpy().tolist() != b.numpy().tolist()
    assert len({tuple(r) for r in lm.random.split(k, 5000).numpy().tolist()}) == 5000
    assert abs(np.corrcoef(lm.random.normal((20000,), key=a).numpy(), lm.random.normal((20000,), key=b).numpy())[0, 1]) < 0.03
    for wrong, kind in ((lm.ones(2), lm.errors.TypeMismatch), (lm.constant([1, 2, 3], "int64"), lm.errors.InvalidArgument), (7, lm.errors.TypeMismatch)):
        with pytest.raises(kind, match="no key"):
            lm.random.uniform((2,), key=wrong)
    with pytest.raises(lm.errors.InvalidArgument, match="keys"):
        lm.random.split(k, 0)


def test_choice_follows_its_probabilities():
    lm.random.set_seed(5)
    p = np.array([0.5, 0.3, 0.2, 0.0])
    drawn = np.bincount(lm.random.choice(4, (20000,), p=p).numpy(), minlength=4) / 20000
    np.testing.assert_allclose(drawn, p, atol=0.015)
    assert sorted(lm.random.choice(6, (6,), False).numpy().tolist()) == list(range(6)) and lm.random.choice(6, (2, 3), False).shape == (2, 3)
    first = np.array([lm.random.choice(3, (1,), False, np.array([0.7, 0.2, 0.1])).item() for _ in range(600)])
    np.testing.assert_allclose(np.bincount(first, minlength=3) / 600, [0.7, 0.2, 0.1], atol=0.08)
    assert lm.random.choice(lm.constant([[1.0, 2.0], [3.0, 4.0]]), (5,), axis=1).shape == (2, 5)
    assert lm.random.choice(3, (0,), p=[0.0, 0.0, 0.0]).shape == (0,) and lm.random.choice(3, (2,), p=[0, 0, 1]).tolist() == [2, 2]
    for wrong in (lambda: lm.random.choice(3, (4,), False), lambda: lm.random.choice(3, p=[0.5, 0.5]), lambda: lm.random.choice(0)):
        with pytest.raises(lm.errors.InvalidArgument, match="choice"):
            wrong()


NOT_DISTRIBUTIONS = [
    *(("choice", lambda p, replace=replace: lm.random.choice(3, (2,), replace, p), p) for replace in (True, False) for p in ([0.5, -0.1, 0.6], [np.nan, 0.5, 0.5], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0])),
    ("choice", lambda p: lm.random.choice(3, (2,), False, p), [0.0, 0.0, 1.0]),
    *(("categorical", lm.random.categorical, logits) for logits in ([np.nan, 1.0], [1.0, np.inf], [-np.inf, -np.inf], [[0.0, 0.0], [np.nan, 0.0]])),
    *(("bernoulli", lm.random.bernoulli, p) for p in ([0.5, 1.5], [-0.1, 0.5], [np.nan])),
]


@pytest.mark.parametrize("name, draw, bad", NOT_DISTRIBUTIONS)
@pytest.mark.parametrize("traced", [False, True])
def test_what_is_no_distribution_is_refused(name, draw, bad, traced):
    with pytest.raises(lm.errors.AssertionFailed, match=f"random.{name}"):
        (lm.function(draw) if traced else draw)(np.array(bad, "float32"))


def test_numbers_that_are_no_probability_are_refused():
    for p in (1.5, -0.1, float("nan"), 2):
        with pytest.raises(lm.errors.AssertionFailed, match="random.bernoulli"):
            lm.random.bernoulli(p)
    assert lm.random.bernoulli(1).item() and not lm.random.bernoulli(0.0).item()
    assert lm.random.categorical(np.array([-np.inf, 1.0], "float32"), (5,)).tolist() == [1] * 5
