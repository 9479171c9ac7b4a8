"""Optimizers against plain float64 loops; their switches; their state."""
import copy
import inspect

import numpy as np
import pytest

import lamina as lm


def sgd(v, g, t, s):
    return v - 0.05 * g


def adagrad(v, g, t, s):
    s["sum"] = s.get("sum", 0.1) + g * g
    return v - 0.1 * g / np.sqrt(s["sum"] + 1e-7)


def adam_moments(g, s, beta_1, beta_2):
    s["m"] = s.get("m", 0.0) * beta_1 + g * (1 - beta_1)
    s["s"] = s.get("s", 0.0) * beta_2 + g * g * (1 - beta_2)


def nadam(v, g, t, s, rate=0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-6):  # Keras 3
    now, after = beta_1 * (1 - 0.5 * 0.96**t), beta_1 * (1 - 0.5 * 0.96 ** (t + 1))
    s["p"] = s.get("p", 1.0) * now
    adam_moments(g, s, beta_1, beta_2)
    m = after * s["m"] / (1 - s["p"] * after) + (1 - now) * g / (1 - s["p"])
    return v - rate * m / (np.sqrt(s["s"] / (1 - beta_2**t)) + epsilon)


def lion(v, g, t, s, rate=0.01, beta_1=0.9, beta_2=0.99, decay=0.0):
    m = s.get("m", 0.0)
    s["m"] = beta_2 * m + (1 - beta_2) * g
    return v - rate * decay * v - rate * np.sign(beta_1 * m + (1 - beta_1) * g)


RULES = {
    "adagrad": (lambda **kw: lm.optim.Adagrad(0.1, **kw), adagrad),
    "nadam": (lambda **kw: lm.optim.Nadam(0.02, 0.8, 0.95, 1e-6, **kw), nadam),
    "nadam with decay": (lambda **kw: lm.optim.Nadam(0.02, 0.8, 0.95, 1e-6, 0.1, **kw), lambda v, g, t, s: nadam(v, g, t, s) - 0.02 * 0.1 * v),
    "lion": (lambda **kw: lm.optim.Lion(0.01, **kw), lion),
    "lion with decay": (lambda **kw: lm.optim.Lion(0.01, 0.9, 0.99, 0.3, **kw), lambda v, g, t, s: lion(v, g, t, s, decay=0.3)),
    "sgd": (lambda **kw: lm.optim.SGD(0.05, **kw), sgd),
}
START = np.random.default_rng(5).uniform(-2, 2, (3, 4))
FACTOR = np.random.default_rng(6).uniform(0.1, 3, (3, 4))


@pytest.mark.parametrize("dtype, tolerance", [("float32", 5e-6), ("float64", 1e-7)])  # the learning rate is float32
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_steps_are_those_of_the_formula(name, traced, dtype, tolerance):
    make, rule = RULES[name]
    v, own = lm.Variable(START.astype(dtype)), make()

    def step(factor):
        with lm.GradientTape() as tape:
            cost = lm.sum(factor * lm.square(v)) / 2
        own.apply_gradients([(tape.gradient(cost, v), v)])

    step = lm.function(step) if traced else step
    wanted, state = START.copy(), {}
    for t in range(1, 13):
        step(FACTOR.astype(dtype))
        wanted = rule(wanted, FACTOR * wanted, t, state)
        np.testing.assert_allclose(v.numpy(), wanted, rtol=tolerance, atol=tolerance, err_msg=f"step {t}")
    assert not traced or step.trace_count == 1


@pytest.mark.parametrize("make", [lambda r, b: lm.optim.Nadam(r, b), lambda r, b: lm.optim.Lion(r, b), lambda r, b: lm.optim.Adagrad(r)])
def test_models_of_an_ensemble_have_their_own_numbers(make):
    rates, betas = [0.01, 0.03, 0.1], [0.5, 0.8, 0.9]
    start = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
    v = lm.per_model(start)
    own = make(lm.per_model(rates), lm.per_model(betas))
    step = lm.function(lm.vmap(lambda: own.apply_gradients([(v * v * 0.5 + v, v)]), in_axes=None))
    for _ in range(5):
        step()
    for k in range(3):
        alone, single = lm.Variable(start[k]), make(rates[k], betas[k])
        for _ in range(5):
            single.apply_gradients([(alone * alone * 0.5 + alone, alone)])
        np.testing.assert_allclose(v.numpy()[k], alone.numpy(), rtol=1e-5, atol=1e-6)


def test_names_give_the_new_optimizers():
    assert [type(lm.optim.get(name)).__name__ for name in ("adagrad", "nadam", "Lion")] == ["Adagrad", "Nadam", "Lion"]


RANGES = {"learning_rate": "from 0 on", "epsilon": "from 0 on", "weight_decay": "from 0 on", "initial_accumulator_value": "from 0 on", "momentum": "0 to 1", "rho": "0 to 1",
          "beta_1": "below 1", "beta_2": "below 1"}
OUTSIDE = {"from 0 on": (-1e-3, float("inf")), "0 to 1": (-0.1, 1.1), "below 1": (-0.1, 1.0)}


@pytest.mark.parametrize("cls, option", [(cls, option) for cls in (lm.optim.SGD, lm.optim.RMSprop, lm.optim.Adagrad, lm.optim.Adam, lm.optim.AdamW, lm.optim.Nadam, lm.optim.Lion)
                                         for option in inspect.signature(cls).parameters if option in RANGES])
@pytest.mark.parametrize("wrap", [float, lambda v: lm.per_model([0.5, v])], ids=["number", "per model"])
def test_every_number_of_an_optimizer_has_its_range(cls, option, wrap):
    if wrap is not float and option == "initial_accumulator_value":
        wrap = float  # a number for all models
    for wrong in (*OUTSIDE[RANGES[option]], float("nan")):
        with pytest.raises(lm.errors.InvalidArgument, match=f"{option} {wrong:.4g}") as e:
            cls(**{option: wrap(wrong)})
        assert RANGES[option] in e.value.fix
    for right in (0.0, 0.99):
        cls(**{option: wrap(right)})


# --- gradient accumulation ---

@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("make", [lambda **kw: lm.optim.SGD(0.1, 0.9, **kw), lambda **kw: lm.optim.Adam(0.1, **kw)])
def test_accumulated_gradients_make_one_step_of_their_mean(make, traced):
    gradients = np.random.default_rng(2).normal(size=(7, 3)).astype("float32")
    v, own, w, plain = lm.Variable(np.zeros(3, "float32")), make(gradient_accumulation_steps=3), lm.Variable(np.zeros(3, "float32")), make()
    step = lambda g: own.apply_gradients([(g, v)])
    step = lm.function(step) if traced else step
    for i, g in enumerate(gradients):
        step(g)
        if i % 3 == 2:
            plain.apply_gradients([(gradients[i - 2:i + 1].mean(0), w)])
        np.testing.assert_allclose(v.numpy(), w.numpy(), rtol=1e-5, atol=1e-6, err_msg=f"call {i}")
    if isinstance(own, lm.optim.Adam):
        assert int(own.iterations.numpy()) == 2
    assert not traced or step.trace_count == 1


def test_accumulation_works_in_an_ensemble():
    v = lm.per_model(np.zeros((2, 3), "float32"))
    own = lm.optim.SGD(lm.per_model([0.1, 0.2]), gradient_accumulation_steps=2)
    step = lm.function(lm.vmap(lambda g: own.apply_gradients([(g, v)]), in_axes=None))
    for g in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, 5.0, 5.0]):
        step(np.float32(g))
    np.testing.assert_allclose(v.numpy(), [[-0.2] * 3, [-0.4] * 3], rtol=1e-6)


# --- averages of the weights ---

@pytest.mark.parametrize("traced", [False, True])
def test_averages_follow_the_weights_and_stand_in_for_them(traced):
    gradients = np.random.default_rng(3).normal(size=(5, 3))
    v, own = lm.Variable(np.zeros(3)), lm.optim.SGD(0.1, ema_momentum=0.9)
    with pytest.raises(lm.errors.StateError, match="there are no averages"):
        own.averaged_weights()
    step = lambda g: own.apply_gradients([(g, v)])
    step = lm.function(step) if traced else step
    weight, average = np.zeros(3), None
    for g in gradients:
        step(g)
        weight = weight - 0.1 * g
        average = weight if average is None else 0.9 * average + 0.1 * weight
    with own.averaged_weights():
        np.testing.assert_allclose(v.numpy(), average, rtol=1e-6)
    np.testing.assert_allclose(v.numpy(), weight, rtol=1e-6)


# --- loss scaling ---

def test_the_scale_of_the_loss_leaves_out_steps_that_overflow():
    v, own = lm.Variable(np.float16([1.0, 2.0])), lm.optim.Adam(0.1, dynamic_loss_scale=True)
    scale = next(s for s in own.variables if s.name.endswith("loss_scale"))

    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            cost = lm.sum(v * x)
            scaled = own.scale_loss(cost)
        own.apply_gradients([(tape.gradient(scaled, v), v)])
        return cost

    step(np.float16([1.0, 1.0]))
    first = v.numpy()
    assert first[0] == pytest.approx(0.9, abs=1e-3) and scale.numpy() == 32768
    step(np.float16([4.0, 4.0]))  # 4 * 32768 is above float16's largest number
    np.testing.assert_array_equal(v.numpy(), first)
    assert scale.numpy() == 16384 and int(own.iterations.numpy()) == 1
    step(np.float16([1.0, 1.0]))
    assert int(own.iterations.numpy()) == 2 and (v.numpy() < first).all() and step.trace_count == 1


def test_good_steps_raise_the_scale():
    v, own = lm.Variable(0.0), lm.optim.SGD(0.0, dynamic_loss_scale=True)
    own.variables[1].assign(8.0)
    own.variables[2].assign(1998)
    scales = []
    for g in (1.0, 1.0, np.inf, 1.0):
        own.apply_gradients([(np.float32(g), v)])
        scales.append(float(own.variables[1].numpy()))
    assert scales == [8.0, 16.0, 8.0, 8.0] and int(own.variables[2].numpy()) == 1


def test_small_gradients_of_float16_survive_by_scaling():
    def trained(**how):
        v = lm.Variable(np.float16(1.0))
        own = lm.optim.SGD(1e6, **how)
        with lm.GradientTape() as tape:
            cost = own.scale_loss(v * lm.constant(np.float16(1e-4)) * np.float16(1e-4))
        own.apply_gradients([(tape.gradient(cost, v), v)])
        return float(v.numpy())

    assert trained() == 1.0  # 1e-8 is 0 in float16
    assert trained(dynamic_loss_scale=True) == pytest.approx(1 - 1e-2, abs=2e-3)


def test_switches_work_together_in_fit():
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    y = x.sum(1, keepdims=True)
    model = lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(1)])
    model.compile(lm.optim.Adam(lm.optim.schedules.CosineDecay(0.2, 100), gradient_accumulation_steps=2, ema_momentum=0.5, dynamic_loss_scale=True), "mse")
    losses = model.fit(x, y, batch_size=8, epochs=25, verbose=0).history["loss"]
    assert losses[-1] < 1e-2 < losses[0] and model._train_step.trace_count == 1 and int(model.optimizer.iterations.numpy()) == 100
    plain = model.evaluate(x, y)
    with model.optimizer.averaged_weights():
        assert model.evaluate(x, y) < 1e-2
    assert model.evaluate(x, y) == plain


@pytest.mark.parametrize("switches, text", [({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps 0"), ({"ema_momentum": 1.5}, "ema_momentum 1.5")])
def test_switches_out_of_range_are_refused(switches, text):
    with pytest.raises(lm.errors.InvalidArgument, match=text):
        lm.optim.SGD(0.1, **switches)


# --- state ---

@pytest.mark.parametrize("make", [lambda: lm.optim.SGD(0.1, 0.9), lambda: lm.optim.Adam(0.1, ema_momentum=0.9, gradient_accumulation_steps=2), lambda: lm.optim.Nadam(0.1), lambda: lm.optim.Adagrad(0.1)])
def test_state_goes_into_an_optimizer_of_another_model(make):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")

    def net():
        lm.random.set_seed(1)
        model = lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(4), lm.nn.Dense(1)])  # the names of its layers count on in the process
        model.compile(make(), "mse")
        return model

    first, second = net(), net()
    for _ in range(3):
        first.train_on_batch(x, x[:, :1])
    state = first.optimizer.state_dict()
    assert "learning_rate" in state and all(name in ("learning_rate", "iterations", "product", "gradients_added") or name[0].isdigit() for name in state)
    with pytest.raises(lm.errors.NotFound, match="no slots yet"):
        second.optimizer.load_state_dict(state)
    second.optimizer.build(second.trainable_variables)
    second.optimizer.load_state_dict(state)
    second.set_weights(first.get_weights())
    for one in (first, second):
        for _ in range(3):
            one.train_on_batch(x, x[:, :1])
    for a, b in zip(first.get_weights(), second.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_each_model_of_an_ensemble_has_its_own_loss_scale():
    nets = lm.nn.stack(lambda: lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dense(1, dtype="float16")]), 3, seeds=range(3))
    own = lm.optim.Adam(0.1, dynamic_loss_scale=True)

    @lm.function
    @lm.vmap
    def step(x):
        with lm.GradientTape() as tape:
            cost = lm.mean(nets(x))
            scaled = own.scale_loss(cost)
        own.apply_gradients(zip(tape.gradient(scaled, nets.trainable_variables), nets.trainable_variables))
        return cost

    x = np.ones((3, 4, 2), "float16")
    with pytest.raises(lm.errors.Error, match=r"the loss scales of 3 models do not exist yet(.|\n)*optimizer.build"):
        step(x)
    own = lm.optim.Adam(0.1, dynamic_loss_scale=True)
    own.build(nets.trainable_variables)
    step(x)
    before = [v.numpy() for v in nets.trainable_variables]
    x[1] = 60000  # its gradients overflow
    step(x)
    scale = next(s for s in own.variables if s.name.endswith("loss_scale"))
    assert scale.numpy().tolist() == [32768, 16384, 32768] and own.iterations.numpy().tolist() == [2, 1, 2]
    for old, variable in zip(before, nets.trainable_variables):
        now = variable.numpy()
        assert np.array_equal(old[1], now[1]) and not np.array_equal(old[0], now[0]) and not np.array_equal(old[2], now[2])


def test_an_ensemble_trains_with_a_loss_scale():
    nets = lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dense(1)]), 3, input_shape=(2,), learning_rate=0.05, optimizer=lambda rate: lm.optim.Adam(rate, dynamic_loss_scale=True))
    x = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
    found = nets.fit(x, x[:, :1] * x[:, 1:], epochs=20)["loss"]
    assert (found[-1] < 0.5 * found[0]).all()


@pytest.mark.parametrize("kind", ["SGD", "RMSprop", "Adagrad", "Adam", "AdamW", "Nadam", "Lion"])
@pytest.mark.parametrize("traced", [False, True])
def test_every_optimizer_counts_the_steps_that_are_asked_for_before_the_first(kind, traced):
    optimizer, v = getattr(lm.optim, kind)(0.1), lm.Variable([1.0, 2.0])
    count = optimizer.iterations
    assert count.dtype == lm.int64 and count.item() == 0 and optimizer.iterations.item() == 0

    def step():
        with lm.GradientTape() as tape:
            loss = lm.sum(v * v)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        return loss

    step = lm.function(step) if traced else step
    for _ in range(3):
        step()
    assert count.item() == 3 and "iterations" in optimizer.state_dict()
    again = copy.deepcopy(optimizer)
    assert again.iterations.item() == 3
    counting = getattr(lm.optim, kind)(0.1)
    counting.iterations
    counting.build([v])
    counting.load_state_dict(optimizer.state_dict())
    assert counting.iterations.item() == 3


def test_an_optimizer_that_did_not_count_its_steps_says_so():
    for optimizer in (lm.optim.SGD(0.1), lm.optim.RMSprop(), lm.optim.Lion()):
        v = lm.Variable(1.0)
        optimizer.apply_gradients([(lm.constant(1.0), v)])
        with pytest.raises(AttributeError, match="(?s)steps done so far were not counted.*does not depend.*before the first step"):
            optimizer.iterations
        assert not hasattr(optimizer, "iterations")


@pytest.mark.parametrize("turns", [[(1,), (0, 1)], [(1,), (0,), (2,)], [(2,), (0, 1, 2), (1,)], [(0, 1, 2)]])
def test_slots_follow_the_model_whichever_layers_trained_first(turns):
    x = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")

    def network():
        lm.random.set_seed(0)
        net = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Dense(4), lm.nn.Dense(4), lm.nn.Dense(4)])
        net.compile(lm.optim.Adam(0.01), "mse")
        return net

    net, other = network(), network()
    for turn in turns:
        for i, layer in enumerate(net.layers):
            layer.trainable = i in turn
        net.fit(x, x, verbose=0)
    trained = set.union(*map(set, turns))
    for i, layer in enumerate(net.layers):
        layer.trainable = other.layers[i].trainable = i in trained
    other.set_weights(net.get_weights())
    other.optimizer.build(other.trainable_variables)
    other.optimizer.load_state_dict(net.optimizer.state_dict())
    for one in (net, other):
        one.fit(x, x, shuffle=False, verbose=0)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(net.variables, other.variables))


@pytest.mark.parametrize("gradient", [lambda g: [g, g], lambda g: (g, None), lambda g: {"w": g}, lambda g: lm.optim.clip_by_global_norm([g], 1.0)], ids=["list", "tuple", "dict", "pair of clip_by_global_norm"])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_several_tensors_are_no_gradient_of_one_variable(gradient, traced):
    w, sgd = lm.Variable([1.0, 2.0], name="w"), lm.optim.SGD(0.1)
    run = lambda: sgd.apply_gradients([(gradient(lm.ones(2)), w)])
    with pytest.raises(lm.errors.TypeMismatch, match=r"(?s)the gradient of 'w' is a (list|tuple|dict) of tensors.*gradients, norm = lm.optim.clip_by_global_norm"):
        lm.function(run)() if traced else run()
    sgd.apply_gradients([([1.0, 1.0], w)])  # a list of numbers is a tensor
    np.testing.assert_allclose(w, [0.9, 1.9], rtol=1e-6)
