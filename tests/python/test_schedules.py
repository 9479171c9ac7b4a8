"""Schedules of learning rates: values against the documented formulas in NumPy, steps that do not retrace, state, fit and callbacks."""
import math

import numpy as np
import pytest

import lamina as lm

S = lm.optim.schedules


def piecewise(boundaries, values):
    def rate(t):
        for boundary, value in zip(boundaries, values):
            if t <= boundary:
                return value
        return values[-1]
    return rate


def cosine(rate, steps, alpha):
    return lambda t: rate * ((1 - alpha) * 0.5 * (1 + math.cos(math.pi * min(t, steps) / steps)) + alpha)


def restarts(rate, first, t_mul, m_mul, alpha):
    def at(t):
        length = float(first)
        top = 1.0
        while t >= length - 1e-9:
            t, length, top = t - length, length * t_mul, top * m_mul
        return rate * ((1 - alpha) * top * 0.5 * (1 + math.cos(math.pi * t / length)) + alpha)
    return at


def polynomial(rate, steps, end, power, cycle):
    def at(t):
        all_steps = steps * max(1, math.ceil(t / steps)) if cycle else steps
        return (rate - end) * (1 - (t if cycle else min(t, steps)) / all_steps) ** power + end
    return at


def one_cycle(top, total, start=0.3, div=25.0, final=1e4):  # PyTorch's OneCycleLR with anneal_strategy="cos"
    def wave(a, b, share):
        return b + (a - b) / 2 * (1 + math.cos(math.pi * share))

    def at(t):
        first, peak = top / div, start * total - 1
        return wave(first, top, t / peak) if t <= peak else wave(top, first / final, (min(t, total - 1) - peak) / (total - 1 - peak))
    return at


def warm(steps, start, after):
    return lambda t: start + (after(0) - start) * t / steps if t < steps else after(t - steps)


CASES = {
    "constant": (S.Constant(0.3), lambda t: 0.3),
    "piecewise": (S.PiecewiseConstantDecay([5, 10, 11], [1.0, 0.5, 0.1, 0.01]), piecewise([5, 10, 11], [1.0, 0.5, 0.1, 0.01])),
    "exponential": (S.ExponentialDecay(0.1, 7, 0.9), lambda t: 0.1 * 0.9 ** (t / 7)),
    "staircase": (S.ExponentialDecay(0.1, 7, 0.5, staircase=True), lambda t: 0.1 * 0.5 ** (t // 7)),
    "cosine": (S.CosineDecay(0.2, 20), cosine(0.2, 20, 0)),
    "cosine with a floor": (S.CosineDecay(0.2, 20, alpha=0.1), cosine(0.2, 20, 0.1)),
    "restarts": (S.CosineDecayRestarts(0.2, 5, 2.0, 0.5, 0.05), restarts(0.2, 5, 2.0, 0.5, 0.05)),
    "restarts of equal length": (S.CosineDecayRestarts(0.2, 5, 1.0, 0.9), restarts(0.2, 5, 1.0, 0.9, 0)),
    "restarts that grow by a half": (S.CosineDecayRestarts(0.2, 6, 1.5), restarts(0.2, 6, 1.5, 1.0, 0)),
    "polynomial": (S.PolynomialDecay(0.1, 13), polynomial(0.1, 13, 1e-4, 1.0, False)),
    "polynomial in cycles": (S.PolynomialDecay(0.1, 6, 0.01, 2.0, cycle=True), polynomial(0.1, 6, 0.01, 2.0, True)),
    "one cycle": (S.OneCycle(0.5, 20), one_cycle(0.5, 20)),
    "one cycle of other shape": (S.OneCycle(0.5, 30, 0.5, 10.0, 100.0), one_cycle(0.5, 30, 0.5, 10.0, 100.0)),
    "warm-up to a number": (S.Warmup(0.4, 6), warm(6, 0.0, lambda t: 0.4)),
    "warm-up to a cosine": (S.Warmup(S.CosineDecay(0.2, 20), 5, start=0.02), warm(5, 0.02, cosine(0.2, 20, 0))),
    "a function": (lambda t: 0.1 / (1 + t), lambda t: 0.1 / (1 + t)),
    "a function with fractions": (lambda t: 0.1 / (1 + 0.01 * t) * 0.5 ** (t // 10), lambda t: 0.1 / (1 + 0.01 * t) * 0.5 ** (t // 10)),
}


@pytest.mark.parametrize("name", CASES)
def test_rates_are_those_of_the_formula(name):
    schedule, formula = CASES[name]
    wanted = [formula(t) for t in range(41)]
    got = [float(schedule(lm.constant(t, dtype="int64" if isinstance(schedule, S.Schedule) else "float64"))) for t in range(41)]
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_step_uses_the_rate_of_its_number_and_traces_once(name):
    schedule, formula = CASES[name]
    v, sgd = lm.Variable(np.zeros(2, "float64")), lm.optim.SGD(schedule)
    step = lm.function(lambda g: sgd.apply_gradients([(g, v)]))
    wanted = 0.0
    for t in range(12):
        assert float(sgd.learning_rate) == pytest.approx(formula(t), rel=2e-6, abs=1e-9)
        step(np.ones(2))
        wanted -= formula(t)
        np.testing.assert_allclose(v.numpy(), wanted, rtol=1e-5, atol=1e-8)
    assert int(sgd.iterations.numpy()) == 12 and step.trace_count == 1


@pytest.mark.parametrize("make", [lm.optim.SGD, lm.optim.RMSprop, lm.optim.Adagrad, lm.optim.Adam, lm.optim.AdamW, lm.optim.Nadam, lm.optim.Lion])
def test_every_optimizer_takes_one(make):
    def run(schedule):
        v = lm.Variable([1.0, -2.0])
        own = make(0.1 if schedule is None else schedule)
        for t in range(6):
            if schedule is None:
                own.learning_rate = 0.1 * 0.5 ** t
            own.apply_gradients([(v * 2, v)])
        return v.numpy()

    np.testing.assert_allclose(run(S.ExponentialDecay(0.1, 1, 0.5)), run(None), rtol=2e-6)


def test_a_rate_per_model_follows_a_schedule():
    v, rates = lm.per_model(np.zeros(3, "float32")), lm.per_model([0.1, 0.2, 0.3])
    sgd = lm.optim.SGD(S.ExponentialDecay(rates, 1, 0.5))
    step = lm.function(lm.vmap(lambda g: sgd.apply_gradients([(g, v)]), in_axes=None))
    for _ in range(3):
        step(np.float32(1))
    np.testing.assert_allclose(v.numpy(), -1.75 * np.array([0.1, 0.2, 0.3]), rtol=1e-6)


def test_the_count_of_steps_is_the_state():
    def run(own, v, steps):
        for _ in range(steps):
            own.apply_gradients([(lm.constant(1.0), v)])

    make = lambda: lm.optim.SGD(S.CosineDecay(0.1, 10))
    whole, first, second = lm.Variable(0.0), lm.Variable(0.0), lm.Variable(0.0)
    run(make(), whole, 8)
    a, b = make(), make()
    run(a, first, 5)
    second.assign(first.read())
    b.load_state_dict(a.state_dict())
    assert set(a.state_dict()) == {"iterations"}
    run(b, second, 3)
    assert second.numpy() == whole.numpy()


def net():
    lm.random.set_seed(3)
    return lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(4, "tanh"), lm.nn.Dense(1)])


X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


def test_fit_traces_once_and_goes_on_after_a_checkpoint(tmp_path):
    def fit(epochs, **how):
        model = net()
        model.compile(lm.optim.Adam(S.Warmup(S.CosineDecay(0.05, 30), 5)), "mse")
        model.fit(X, Y, batch_size=5, epochs=epochs, verbose=0, shuffle=False, **how)
        return model

    whole = fit(4)
    assert whole._train_step.trace_count == 1 and int(whole.optimizer.iterations.numpy()) == 16
    fit(2, checkpoint=tmp_path / "c")
    gone_on = fit(4, checkpoint=tmp_path / "c")
    for a, b in zip(whole.get_weights(), gone_on.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_a_saved_program_trains_with_its_schedule(tmp_path):
    class Trainer(lm.Module):
        def __init__(self):
            super().__init__()
            self.v, self.sgd = lm.Variable(0.0), lm.optim.SGD(S.ExponentialDecay(1.0, 1, 0.5))

        @lm.function(input_signature=[lm.TensorSpec((), "float32")])
        def step(self, g):
            self.sgd.apply_gradients([(g, self.v)])
            return self.v.read()

    own = Trainer()
    own.step(1.0)
    lm.save(own, tmp_path / "t.lamina")
    loaded = lm.load(tmp_path / "t.lamina")
    assert [float(loaded.step(lm.constant(1.0))) for _ in range(3)] == [-1.5, -1.75, -1.875]


def test_what_sets_the_rate_says_that_it_is_a_schedule():
    sgd = lm.optim.SGD(S.Constant(0.1))
    with pytest.raises(lm.errors.StateError, match="the learning rate is a schedule"):
        sgd.learning_rate = 0.5
    with pytest.raises(lm.errors.TypeMismatch, match="sgd: a schedule cannot take the place of the learning rate"):
        lm.optim.SGD(0.1).learning_rate = S.Constant(0.1)
    for callback in (lm.nn.LearningRateScheduler(lambda epoch, rate: rate / 2), lm.nn.ReduceLROnPlateau("loss")):
        model = net()
        model.compile(lm.optim.SGD(S.Constant(0.1)), "mse")
        with pytest.raises(lm.errors.StateError, match=f"{type(callback).__name__}: the optimizer's learning rate is a schedule"):
            model.fit(X, Y, verbose=0, callbacks=[callback])


@pytest.mark.parametrize("make, text", [
    (lambda: S.CosineDecay(0.1, 0), "decay_steps 0"), (lambda: S.PiecewiseConstantDecay([1], [0.1]), "1 values for 1 boundaries"),
    (lambda: S.PiecewiseConstantDecay([5, 1], [1, 2, 3]), "the boundaries fall"), (lambda: S.CosineDecayRestarts(0.1, 5, 0.5), "t_mul 0.5"),
    (lambda: S.OneCycle(0.1, 10, 1.5), "pct_start 1.5"), (lambda: S.Warmup(0.1, -3), "warmup_steps -3"),
])
def test_numbers_that_make_no_schedule_are_refused(make, text):
    with pytest.raises(lm.errors.InvalidArgument, match=text):
        make()


def test_a_function_gives_one_floating_point_number():
    with pytest.raises(lm.errors.TypeMismatch, match="a learning rate is one floating-point number"):
        lm.optim.SGD(lambda step: step > 3).learning_rate
    with pytest.raises(lm.errors.InvalidArgument, match="a learning rate is one floating-point number"):
        lm.optim.SGD(lambda step: lm.ones(2)).learning_rate
    with pytest.raises(lm.errors.TypeMismatch, match="a str is no number"):
        lm.optim.SGD("fast")
