"""lm.vmap: against loops, with gradients from inside and outside, structures of axes, state, ensembles, and errors."""
import collections
import dataclasses

import numpy as np
import pytest

import lamina as lm

E = lm.errors


def loop(f, *arrays):
    return np.stack([np.asarray(f(*row)) for row in zip(*arrays)])


@pytest.fixture
def xs():
    return np.random.randn(5, 3, 2).astype("float32")


@pytest.mark.parametrize("traced", [False, True])
def test_is_a_loop_over_the_first_axis(xs, traced):
    w = lm.constant(np.random.randn(2, 4).astype("float32"))
    f = lambda x: lm.softmax(lm.tanh(x @ w))
    mapped = lm.vmap(f)
    if traced:
        mapped = lm.function(mapped)
    np.testing.assert_allclose(mapped(xs).numpy(), loop(f, xs), rtol=1e-5)


def test_axes_of_arguments_and_results(xs):
    y = np.random.randn(3, 5).astype("float32")
    f = lambda x, y: lm.sum(x, 0) * lm.sum(y)
    got = lm.vmap(f, in_axes=(0, -1), out_axes=1)(xs, y)
    assert got.shape == (2, 5)
    np.testing.assert_allclose(got.numpy().T, loop(f, xs, y.T), rtol=1e-5)


def test_arguments_that_all_share(xs):
    shared = np.ones(2, "float32")
    out, same = lm.vmap(lambda x, b: (x + b, b * 2), in_axes=(0, None), out_axes=(0, None))(xs, shared)
    np.testing.assert_allclose(out.numpy(), xs + 1)
    assert same.shape == (2,)
    assert lm.vmap(lambda x: lm.ones(2), axis_size=3, in_axes=None)(shared).shape == (3, 2)


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Batch:
    x: object
    name: str = "batch"


def test_structures_of_axes(xs):
    f = lambda d, p: {"sum": lm.sum(d["x"]) + lm.sum(d["y"][0]), "b": p.b, "name": "kept"}
    got = lm.vmap(f, in_axes=({"x": 0, "y": [1]}, Pair(None, 0)), out_axes={"sum": 0, "b": 0, "name": None})(
        {"x": xs, "y": [np.arange(10, dtype="float32").reshape(2, 5)]}, Pair(np.ones(7), np.arange(5.0)))
    np.testing.assert_allclose(got["sum"].numpy(), xs.sum((1, 2)) + np.arange(10).reshape(2, 5).sum(0), rtol=1e-5)
    assert got["name"] == "kept" and got["b"].shape == (5,)
    # A prefix applies to everything below it; keyword arguments are mapped along axis 0; values that are not tensors are passed unchanged.
    np.testing.assert_allclose(lm.vmap(lambda b, *, scale: b.x * scale if b.name == "batch" else b.x)(Batch(xs), scale=np.arange(5, dtype="float32")).numpy(),
                               xs * np.arange(5, dtype="float32")[:, None, None])
    got = lm.vmap(lambda b: Batch(b.x * 2, b.name))(Batch(xs))
    assert isinstance(got, Batch) and got.x.shape == xs.shape


def test_gradients_per_example(xs):
    w = lm.Variable(np.random.randn(2).astype("float32"))

    def gradient(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(x @ w - y))
        return tape.gradient(cost, w)

    y = np.random.randn(5, 3).astype("float32")
    expected = loop(gradient, xs, y)
    for mapped in (lm.vmap(gradient), lm.function(lm.vmap(gradient)), lm.vmap(lm.function(gradient))):
        np.testing.assert_allclose(mapped(xs, y).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_tape_around_it_sees_arguments_captures_and_variables(xs):
    w, c = lm.Variable([1.0, 2.0]), lm.constant([3.0, 4.0])

    def total(x):
        with lm.GradientTape() as tape:
            tape.watch(x)
            tape.watch(c)
            cost = lm.sum(lm.vmap(lambda row: lm.sum(lm.exp(row * 0.1) * w * c))(x))
        return tape.gradient(cost, [x, w, c])

    e = np.exp(xs * 0.1)
    expected = 0.1 * e * np.array([3.0, 8.0]), e.sum((0, 1)) * [3, 4], e.sum((0, 1)) * [1, 2]
    for run in (total, lm.function(total)):
        for got, want in zip(run(lm.constant(xs)), expected):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4)


def test_nested_with_second_derivatives():
    f = lambda a, b: lm.sin(a) * b * b

    def second(a, b):
        with lm.GradientTape() as outer:
            outer.watch(b)
            with lm.GradientTape() as inner:
                inner.watch(b)
                y = f(a, b)
            slope = inner.gradient(y, b)
        return outer.gradient(slope, b)

    a, b = np.linspace(0, 1, 4, dtype="float32"), np.linspace(1, 2, 3, dtype="float32")
    got = lm.function(lm.vmap(lm.vmap(second, in_axes=(None, 0)), in_axes=(0, None)))(a, b)
    np.testing.assert_allclose(got.numpy(), np.repeat(2 * np.sin(a)[:, None], 3, 1), rtol=1e-5)


def test_draws_differ_from_call_to_call():
    draws = lm.vmap(lambda x: lm.random.uniform((4,)) + x * 0)(np.zeros(3, "float32")).numpy()
    assert draws.shape == (3, 4) and len(np.unique(draws)) == 12
    lm.random.set_seed(0)
    again = lm.function(lm.vmap(lambda x: lm.random.uniform((4,)) + x * 0))(np.zeros(3, "float32")).numpy()
    np.testing.assert_array_equal(draws, again)


def test_per_model_values_are_seen_without_their_axis():
    rates = lm.per_model([1.0, 2.0, 3.0])
    assert rates.shape == (3,) and rates.models == 3 and not rates.trainable

    def f(x):
        assert rates.shape == ()
        return x * rates

    np.testing.assert_allclose(lm.vmap(f, in_axes=None)(np.ones(2, "float32")).numpy(), [[1, 1], [2, 2], [3, 3]])
    assert rates.shape == (3,)


def test_assignments_of_stacked_variables_write_all_models():
    total = lm.per_model(np.zeros(3, "float32"))

    def add(x):
        total.assign_add(x)
        return total.read()

    for run in (lm.vmap(add), lm.function(lm.vmap(add)), lm.vmap(lm.function(add))):
        before = total.numpy()
        np.testing.assert_allclose(run(np.arange(3, dtype="float32")).numpy(), before + np.arange(3))
        np.testing.assert_allclose(total.numpy(), before + np.arange(3))


def test_a_traced_function_has_a_graph_for_inside_and_one_for_outside():
    v = lm.per_model([1.0, 2.0])
    double = lm.function(lambda: v * 2)
    assert lm.vmap(double, in_axes=None)().shape == (2,)
    assert double().shape == (2,)  # both models, as an ordinary Variable
    assert double.trace_count == 2


# --- ensembles ---

OPTIMIZERS = {
    "sgd": lambda r: lm.optim.SGD(r), "momentum": lambda r: lm.optim.SGD(r, momentum=0.9, nesterov=True), "rmsprop": lambda r: lm.optim.RMSprop(r, momentum=0.5, centered=True),
    "adam": lambda r: lm.optim.Adam(r), "adamw": lambda r: lm.optim.AdamW(r),
}


def build():
    return lm.nn.Sequential([lm.nn.Dense(8, activation="tanh"), lm.nn.Dropout(0.2), lm.nn.Dense(3)])


def trainer(net, opt):
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x, training=True) - y))
        opt.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost
    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("traced", [False, True])
def test_each_model_of_an_ensemble_is_the_same_net_trained_alone(name, traced):
    rates, seeds = [0.01, 0.05, 0.1], [3, 1, 4]
    x, y = np.random.randn(10, 2).astype("float32"), np.random.randn(10, 3).astype("float32")
    nets = lm.nn.stack(build, 3, seeds=seeds, input_shape=(2,))
    opt = OPTIMIZERS[name](lm.per_model(rates))
    step = lm.vmap(trainer(nets, opt), in_axes=None)
    step = lm.function(step) if traced else step
    together = np.stack([step(x, y).numpy() for _ in range(4)], 1)
    for k in range(3):
        lm.random.set_seed(seeds[k])
        net = build()
        net.build((None, 2))
        own = trainer(net, OPTIMIZERS[name](rates[k]))
        np.testing.assert_allclose(together[k], [float(own(x, y)) for _ in range(4)], rtol=1e-4, err_msg=f"model {k}")
        for a, b in zip(nets[k].get_weights(), net.get_weights()):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_hyperparameters_besides_the_learning_rate_may_differ_too():
    momenta = [0.0, 0.5, 0.9]
    x, y = np.random.randn(10, 2).astype("float32"), np.random.randn(10, 3).astype("float32")
    plain = lambda: lm.nn.Sequential([lm.nn.Dense(3)])
    nets = lm.nn.stack(plain, 3, seeds=[7, 7, 7], input_shape=(2,))
    step = lm.vmap(trainer(nets, lm.optim.SGD(0.1, momentum=lm.per_model(momenta))), in_axes=None)
    together = np.stack([step(x, y).numpy() for _ in range(4)], 1)
    for k, momentum in enumerate(momenta):
        lm.random.set_seed(7)
        net = plain()
        net.build((None, 2))
        own = trainer(net, lm.optim.SGD(0.1, momentum=momentum))
        np.testing.assert_allclose(together[k], [float(own(x, y)) for _ in range(4)], rtol=1e-4)


def test_a_batch_of_its_own_for_each_model():
    nets = lm.nn.stack(build, 3, input_shape=(2,))
    xs = np.random.randn(3, 6, 2).astype("float32")
    got = lm.vmap(nets)(xs).numpy()
    np.testing.assert_allclose(got, np.stack([net(x).numpy() for net, x in zip(nets, xs)]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [{}, {"use_bias": False}, {"use_bias": False, "activation": "relu"}])
def test_an_ensembles_step_is_one_launch_on_a_gpu(layer):
    nets = lm.nn.stack(lambda: lm.nn.Sequential([*(lm.nn.Dense(16, **layer) for _ in range(3)), lm.nn.Dense(3, **layer)]), 20, input_shape=(8,))
    step = lm.function(lm.vmap(trainer(nets, lm.optim.SGD(0.1)), in_axes=None))
    plan = step.explain(lm.zeros([10, 8]), lm.zeros([10, 3]), device="null:h100")
    assert len(plan.launches) == 1, plan


@pytest.mark.parametrize("seed", range(40))
def test_products_of_stacks_beside_others(seed):
    """Of any shapes, transposed or not, with an axis of 1 or none on either side: as numpy, and eagerly as in a section."""
    random = np.random.default_rng(seed)
    models, rows, inner, columns = (int(n) for n in random.integers(1, [9, 40, 70, 70]))
    ta, tb = (bool(v) for v in random.integers(0, 2, 2))
    leading = [[(models,), (1,), ()][random.choice(3, p=[0.7, 0.15, 0.15])] for _ in range(2)]
    of = lambda shape: random.standard_normal(shape).astype("float32")
    a, b = of((*leading[0], *((inner, rows) if ta else (rows, inner)))), of((*leading[1], *((columns, inner) if tb else (inner, columns))))
    f = lambda a, b: lm.tanh(lm.matmul(lm.tanh(a), b * 0.1, transpose_a=ta, transpose_b=tb))
    got, eager = lm.function(f)(a, b).numpy(), f(lm.constant(a), lm.constant(b)).numpy()
    swapped = lambda x, swaps: np.swapaxes(x, -1, -2) if swaps else x
    np.testing.assert_allclose(got, np.tanh(swapped(np.tanh(a), ta) @ swapped(b * np.float32(0.1), tb)), rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(got, eager, rtol=1e-5, atol=1e-6)


def test_members_of_a_stack():
    nets = lm.nn.stack(build, 3, seeds=range(3), input_shape=(2,))
    assert len(nets) == 3 and len(list(nets)) == 3
    assert [v.shape for v in nets.variables] == [(3, 2, 8), (3, 8), (3, 8, 3), (3, 3)]
    one = nets[-1]
    assert isinstance(one, lm.nn.Sequential) and [v.shape for v in one.variables] == [(2, 8), (8,), (8, 3), (3,)]
    np.testing.assert_array_equal(one.get_weights()[0], nets.variables[0].numpy()[2])
    with pytest.raises(IndexError):
        nets[3]


def test_making_a_stack_with_seeds_leaves_the_generator_as_it_was():
    lm.random.set_seed(5)
    expected = lm.random.uniform((3,)).numpy()
    lm.random.set_seed(5)
    nets = lm.nn.stack(build, 2, seeds=[8, 9], input_shape=(2,))
    nets[1]
    np.testing.assert_array_equal(lm.random.uniform((3,)).numpy(), expected)


def test_per_example_gradients_of_every_model():
    nets = lm.nn.stack(lambda: lm.nn.Sequential([lm.nn.Dense(3)]), 2, input_shape=(2,))
    xs = np.random.randn(4, 1, 2).astype("float32")

    def gradient(x):
        with lm.GradientTape() as tape:
            cost = lm.sum(lm.square(nets(x)))
        return tape.gradient(cost, nets.trainable_variables[0])

    got = lm.function(lm.vmap(lambda: lm.vmap(gradient)(xs), in_axes=None))().numpy()
    assert got.shape == (2, 4, 2, 3)
    for k in range(2):
        weights, bias = nets[k].get_weights()
        for i, x in enumerate(xs):
            np.testing.assert_allclose(got[k, i], 2 * x.T @ (x @ weights + bias), rtol=1e-4, atol=1e-6)


# --- what it refuses ---

def text_of(error, f, *args):
    with pytest.raises(error) as info:
        f(*args)
    return "\n".join(line for line in str(info.value).split("\n") if "where:" not in line)


def test_axes_of_different_lengths():
    assert text_of(E.InvalidArgument, lm.vmap(lambda x, y: x), np.ones((3, 2), "float32"), np.ones((4,), "float32")) == (
        "vmap: axis 0 of y, f32[4] has length 4, axis 0 of x, f32[3,2] has 3\n"
        "  why:   all mapped axes are one: entry i of each belongs to model i\n"
        "  fix:   pass inputs of one length, or in_axes=None for those that all models share")


def test_an_axis_out_of_range():
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x, in_axes=2), np.ones((3, 2), "float32")) == (
        "vmap: in axis 2 is out of range for x, f32[3,2]\n  why:   it has 2 axes\n  fix:   pass an axis from -2 to 1")
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x, out_axes=-4), np.ones((3, 2), "float32")) == (
        "vmap: out axis -4 is out of range for result 0, f32[3,2]\n  why:   it has 2 axes\n  fix:   pass an axis from -2 to 1")
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x), 3.0) == (
        "vmap: x is the number 3.0\n  why:   a number has no axis to map\n  fix:   pass in_axes=None for it, or a tensor")


def test_in_axes_of_another_structure():
    x = np.ones((3, 2), "float32")
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x, in_axes=(0, 0)), x) == (
        "vmap: in_axes has 2 entries, <lambda> was given 1 arguments\n  why:   there is one for each positional argument\n"
        "  fix:   pass one per argument, or one for all of them")
    assert text_of(E.InvalidArgument, lm.vmap(lambda d: d, in_axes=({"a": 0},)), {"b": x}) == (
        "vmap: in_axes does not have the structure of d\n  why:   it has 1 parts: a; d has 1 parts: b\n"
        "  fix:   pass an axis for all of it, or a structure with the same keys and lengths")
    assert text_of(E.TypeMismatch, lm.vmap(lambda x: x, in_axes="0"), x) == (
        "vmap: in_axes has '0' for x\n  why:   an axis is an integer or None\n  fix:   pass an integer, None, or a structure of them")
    with pytest.raises(TypeError, match="True"):
        lm.vmap(lambda x: x, in_axes=True)(x)


def test_nothing_is_mapped():
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x, in_axes=None), np.ones(3)) == (
        "vmap: nothing of <lambda> is mapped\n  why:   in_axes is None for every argument, and the function uses no stacked variable\n"
        "  fix:   map an argument, use Variables of lm.nn.stack or lm.per_model, or pass axis_size")


def test_a_result_that_differs_but_must_not():
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x * 2, out_axes=None), np.ones(3)) == (
        "vmap: result 0 of <lambda> differs from model to model, its out_axes is None\n  why:   None is for results that all models share\n"
        "  fix:   pass the axis along which the models' results are stacked: out_axes=0")


def test_assigning_a_variable_that_is_not_stacked_a_value_per_model_names_the_line():
    total = lm.Variable(0.0, name="total")

    def f(x):
        total.assign(x)  # here

    with pytest.raises(E.InvalidArgument) as info:
        lm.vmap(f)(np.ones(3, "float32"))
    line = f.__code__.co_firstlineno + 1
    assert info.value.what == "assign: under vmap each model has a value of its own for the variable 'total'"
    assert f"test_vmap.py:{line}" in info.value.where and "lm.nn.stack" in info.value.fix
    lm.vmap(lambda x: total.assign(7.0))(np.ones(3, "float32"))  # the same for all models
    assert float(total) == 7


def test_stacked_variables_of_another_number_of_models():
    rates = lm.per_model([1.0, 2.0], name="rates")
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: x * rates), np.ones(3, "float32")).startswith(
        "vmap: the variable 'rates' is stacked for 2 models, the call is about 3")


def test_a_stack_outside_of_vmap():
    nets = lm.nn.stack(build, 2, input_shape=(2,))
    with pytest.raises(E.StateError, match="a stack of 2 models was called outside of lm.vmap"):
        nets(np.ones((1, 2), "float32"))
    with pytest.raises(E.StateError, match="stack: 2 models are made while a function is traced"):
        lm.vmap(lambda x: lm.nn.stack(build, 2, input_shape=(2,))(x), in_axes=None)(np.ones((1, 2), "float32"))
    assert text_of(E.InvalidArgument, lm.vmap(lambda x: nets(x)), np.ones((3, 1, 2), "float32")).partition("\n")[0].endswith("is stacked for 2 models, the call is about 3")


def test_models_that_cannot_be_stacked():
    sizes = iter([3, 4])
    with pytest.raises(E.InvalidArgument, match="model 1 differs from model 0"):
        lm.nn.stack(lambda: lm.nn.Sequential([lm.nn.Dense(next(sizes))]), 2, input_shape=(2,))
    with pytest.raises(E.InvalidArgument, match="2 seeds for 3 models"):
        lm.nn.stack(build, 3, seeds=[1, 2], input_shape=(2,))
    with pytest.raises(E.StateError, match="do not exist yet"):
        lm.nn.stack(build, 2)


def test_control_flow_is_converted_outside_of_traced_functions_too():
    def steps(v, limit):
        n = 0
        while v < limit:
            v = v * 2
            n += 1
        return v if n % 2 == 0 else -v

    x, limits = np.array([1, 5, 100, 3], "f4"), np.array([10, 10, 10, 4], "f4")
    want = [16, -10, 100, -6]
    assert lm.vmap(steps)(lm.constant(x), lm.constant(limits)).tolist() == want
    assert lm.function(lm.vmap(steps))(lm.constant(x), lm.constant(limits)).tolist() == want
    assert lm.vmap(lm.vmap(lambda v: v if v > 0 else -v))(lm.constant([[1.0, -2.0]])).tolist() == [[1, 2]]
    seen = []

    def changes(v):
        if v > 0:
            seen.append(v)
        return v
    with pytest.raises(E.Error):
        lm.vmap(changes)(lm.constant([1.0, -2.0]))
    assert seen == []


def test_a_counter_keeps_its_counts():
    assert lm.vmap(lambda x: collections.Counter(a=1, b=x))(lm.ones(2))["a"] == 1
    assert lm.vjp(lambda x: collections.Counter(a=1, b=3), lm.constant(1.0))[0] == {"a": 1, "b": 3}
    assert float(lm.grad(lambda d: d["a"] ** 2)(collections.Counter(a=lm.constant(3.0)))["a"]) == 6
