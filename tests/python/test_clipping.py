"""Gradients limited by value, norm and global norm."""
import numpy as np
import pytest

import lamina as lm

R = np.random.default_rng(5)
G = [R.standard_normal((3, 4)).astype("float32"), None, R.standard_normal(5).astype("float32") * 4]


def tensors():
    return [None if g is None else lm.constant(g) for g in G]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("limit", [0.5, 2.0, 1e3])
def test_gradients_are_limited(limit, traced):
    def of(f):
        def run(a, b):
            made = f([a, None, b])
            made, norm = made if isinstance(made, tuple) else (made, a[0, 0])
            assert made[1] is None
            return made[0], made[2], norm
        a, b, norm = (lm.function(run) if traced else run)(*(lm.constant(G[i]) for i in (0, 2)))
        return a.numpy(), b.numpy(), norm.numpy()

    total = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in G if g is not None))
    for made, want in ((of(lambda g: lm.optim.clip_by_value(g, limit)), [np.clip(G[i], -limit, limit) for i in (0, 2)]),
                       (of(lambda g: lm.optim.clip_by_norm(g, limit)), [G[i] * min(1, limit / np.linalg.norm(G[i])) for i in (0, 2)]),
                       (of(lambda g: lm.optim.clip_by_global_norm(g, limit)), [G[i] * min(1, limit / total) for i in (0, 2)])):
        assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(made, want))
    assert np.isclose(of(lambda g: lm.optim.clip_by_global_norm(g, limit))[2], total, rtol=1e-5)


def test_half_types_do_not_overflow_and_zeros_stay_zeros():
    big = lm.full((100,), 300.0, dtype="float16")
    assert np.allclose(lm.optim.clip_by_norm([big], 1.0)[0].numpy(), 0.1, rtol=1e-2) and lm.optim.clip_by_norm([big], 1.0)[0].dtype == lm.float16
    made, norm = lm.optim.clip_by_global_norm([lm.zeros((3,)), lm.zeros((2,), dtype="float64")], 1.0)
    assert norm.item() == 0 and made[0].tolist() == [0] * 3 and made[1].dtype == lm.float64


def test_clipped_training_takes_steps_of_the_limit():
    w, sgd = lm.Variable([3.0, 4.0]), lm.optim.SGD(1.0)

    @lm.function
    def step():
        with lm.GradientTape() as tape:
            loss = lm.sum(lm.square(w)) * 50
        gradients, norm = lm.optim.clip_by_global_norm(tape.gradient(loss, [w]), 0.5)
        sgd.apply_gradients(zip(gradients, [w]))
        return norm
    assert step().item() == pytest.approx(500) and np.allclose(w.numpy(), [2.7, 3.6])


@pytest.mark.parametrize("bad", [0, -1.0, True, "1", float("nan")])
def test_limits_are_positive_numbers(bad):
    for clip in (lm.optim.clip_by_value, lm.optim.clip_by_norm, lm.optim.clip_by_global_norm):
        with pytest.raises(lm.errors.TypeMismatch if bad in (True, "1") else lm.errors.InvalidArgument, match="limit"):
            clip(tensors(), bad)
    with pytest.raises(ValueError, match="no gradients"):
        lm.optim.clip_by_global_norm([None], 1.0)


def test_one_gradient_is_not_taken_for_a_list_of_its_rows():
    g = lm.constant(G[0])
    for clip in (lm.optim.clip_by_value, lm.optim.clip_by_norm):
        assert np.array_equal(clip(g, 0.5).numpy(), clip([g], 0.5)[0].numpy()) and clip(None, 0.5) is None
    one, norm = lm.optim.clip_by_global_norm(g, 0.5)
    assert np.allclose(one.numpy(), G[0] * 0.5 / np.linalg.norm(G[0])) and float(norm) == pytest.approx(np.linalg.norm(G[0]))
    for clip in (lm.optim.clip_by_value, lm.optim.clip_by_norm, lm.optim.clip_by_global_norm):
        for wrong in (3.0, {"w": g}):
            with pytest.raises(lm.errors.TypeMismatch, match="no list of gradients"):
                clip(wrong, 1.0)
