"""lm.random."""
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
