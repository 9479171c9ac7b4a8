"""cond, while_loop, scan and fori_loop in Python: structures, state, gradients and errors."""
import collections

import numpy as np
import pytest

import lamina as lm

Pair = collections.namedtuple("Pair", "a b")


def both(f, *args):
    """f eagerly and traced, which must agree; as NumPy arrays."""
    eager, traced = f(*args), lm.function(f)(*args)
    np.testing.assert_allclose(traced.numpy(), eager.numpy(), rtol=1e-5, atol=1e-6)
    return eager.numpy()


def test_cond_takes_the_branch_and_returns_structures():
    def f(x):
        r = lm.cond(lm.sum(x) > 0, lambda: {"y": x * 2, "z": (x, None)}, lambda: {"z": (x - 1, None), "y": x})
        assert r["z"][1] is None
        return r["y"] + r["z"][0]

    assert both(f, lm.constant([1.0, 2.0])).tolist() == [3, 6]
    assert both(f, lm.constant([-1.0, -2.0])).tolist() == [-3, -5]


def test_cond_on_a_python_bool_runs_one_branch():
    assert lm.cond(True, lambda: 3, lambda: 1 / 0) == 3


def test_numbers_in_branches_take_the_other_branchs_dtype():
    f = lm.function(lambda x: lm.cond(x > 0, lambda: x, lambda: 0))
    assert f(lm.constant(2.0)).dtype == lm.float32
    assert f(lm.constant(-2.0)).numpy() == 0


def test_while_loop_carries_any_structure():
    def f(x):
        state = {"i": 0, "values": [x, Pair(x, 1.0)]}

        def body(s):
            a, pair = s["values"]
            return {"values": [a + 1, Pair(pair.a * 2, pair.b + 0.5)], "i": s["i"] + 1}

        out = lm.while_loop(lambda s: s["i"] < 5, body, state)
        assert isinstance(out["values"][1], Pair)
        return out["values"][0] + out["values"][1].a * out["values"][1].b

    assert both(f, lm.constant(1.0)) == 6 + 32 * 3.5


def test_while_loop_depends_on_data():
    collatz = lm.function(lambda n: lm.while_loop(lambda s: s[0] != 1, lambda s: (lm.where(s[0] % 2 == 0, lm.floor_divide(s[0], 2), 3 * s[0] + 1), s[1] + 1), (n, 0))[1])
    assert [int(collatz(lm.constant(n)).numpy()) for n in (1, 6, 27)] == [0, 8, 111]
    assert collatz.trace_count == 1


def test_while_loop_ends_at_the_maximum_of_iterations():
    assert both(lambda x: lm.while_loop(lambda y: y < 1e9, lambda y: y * 2, x, maximum_iterations=3), lm.constant(1.0)) == 8


def test_scan_carries_and_stacks():
    def f(xs):
        last, ys = lm.scan(lambda total, x: (total + x["a"], (total, x["b"] * 2)), 10.0, {"a": xs, "b": lm.stack([xs, xs], axis=1)})
        return lm.concat([ys[0], lm.reshape(ys[1], (-1,)), lm.reshape(last, (1,))])

    assert both(f, lm.constant([1.0, 2.0, 3.0])).tolist() == [10, 11, 13, 2, 2, 4, 4, 6, 6, 16]


def test_the_gradient_of_a_scan_reads_products_instead_of_computing_them_again():
    w = lm.Variable(np.eye(4, dtype="float32") / 2)

    @lm.function
    def slope(h, x):
        with lm.GradientTape() as tape:
            cost = lm.sum(lm.scan(lambda h, x: (lm.tanh(h @ w + x), ()), h, x)[0])
        return tape.gradient(cost, w)

    h, x = np.ones((3, 4), "float32"), np.linspace(-1, 1, 480, dtype="float32").reshape(40, 3, 4)
    assert str(slope.explain(h, x)).split("graph after the passes")[1].count("= matmul(") == 1  # of the forward pass; the others are dense_grad_input and dense_update
    states = [h]
    for row in x:
        states.append(np.tanh(states[-1] / 2 + row))
    wanted, dh = np.zeros((4, 4)), np.ones((3, 4))
    for before, after in zip(states[-2::-1], states[:0:-1]):
        dz = dh * (1 - after**2)
        wanted, dh = wanted + before.T @ dz, dz / 2
    np.testing.assert_allclose(slope(h, x).numpy(), wanted, rtol=1e-5)


def test_scan_backwards_and_with_a_length():
    assert both(lambda xs: lm.scan(lambda s, x: (s + x, s), 0.0, xs, reverse=True)[1], lm.constant([1.0, 2.0, 3.0])).tolist() == [5, 3, 0]
    assert both(lambda x: lm.scan(lambda s, _: (s * 2, s), x, length=4)[1], lm.constant(1.0)).tolist() == [1, 2, 4, 8]


def test_fori_loop():
    assert both(lambda x: lm.fori_loop(0, 4, lambda i, y: y * 10 + lm.astype(i, lm.float32), x), lm.constant(1.0)) == 10123
    power = lm.function(lambda x, n: lm.fori_loop(0, n, lambda i, y: y * x, lm.ones_like(x)))
    assert [float(power(lm.constant(2.0), lm.constant(n)).numpy()) for n in (0, 1, 10)] == [1, 2, 1024]


@pytest.mark.parametrize("traced", [False, True])
def test_variables_in_branches_and_bodies(traced):
    v, w = lm.Variable(1.0), lm.Variable([1.0, 2.0])

    def f(n):
        def body(s):
            v.assign_add(s[1] * 1.0)
            lm.cond(v > 2.5, lambda: w.assign_sub([1.0, 1.0]), lambda: None)
            return s[0] + 1, s[1] + w[0] * 0

        return lm.while_loop(lambda s: s[0] < n, body, (0, 1.0))[0]

    (lm.function(f) if traced else f)(lm.constant(3))
    assert v.numpy() == 4 and w.numpy().tolist() == [-1, 0]


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_gradients_through_a_while_loop(n):
    w = lm.Variable(0.9)

    def f(x):
        with lm.GradientTape() as tape:
            y = lm.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * w), (0, x))[1]
        return tape.gradient(y, w) if n else lm.constant(0.0)

    assert both(f, lm.constant(2.0)) == pytest.approx(2 * n * 0.9 ** (n - 1), rel=1e-4)


def test_an_epoch_is_one_program_and_gives_the_weights_of_a_loop():
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(6, 4, 3)).astype("float32"), rng.integers(0, 2, (6, 4)).astype("int32")

    def make():
        lm.random.set_seed(3)
        model = lm.nn.Sequential([lm.nn.Dense(8, activation="relu"), lm.nn.Dense(2)])
        model(lm.constant(xs[0]))
        optimizer = lm.optim.Adam(0.01)

        def step(x, y):
            with lm.GradientTape() as tape:
                loss = lm.mean(lm.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return loss

        return model, step

    model, step = make()
    step = lm.function(step)
    losses = [float(step(lm.constant(x), lm.constant(y)).numpy()) for x, y in zip(xs, ys)]
    scanned, scanned_step = make()
    epoch = lm.function(lambda xs, ys: lm.scan(lambda state, batch: (state, scanned_step(*batch)), None, (xs, ys))[1])
    np.testing.assert_allclose(epoch(lm.constant(xs), lm.constant(ys)).numpy(), losses, rtol=1e-5)
    for a, b in zip(model.trainable_variables, scanned.trainable_variables):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)


def refuses(kind, what, f, *args):
    with pytest.raises(kind) as caught:
        lm.function(f)(*args)
    assert what in str(caught.value)
    assert "test_control_flow.py" in str(caught.value)


def test_errors_say_what_and_where():
    x = lm.constant(1.0)
    refuses(lm.errors.InvalidArgument, "the second branch returns (Tensor, Tensor), the first one Tensor", lambda x: lm.cond(x > 0, lambda: x, lambda: (x, x)), x)
    refuses(lm.errors.TypeMismatch, "result is f32[] in the first branch and i32[] in the second", lambda x: lm.cond(x > 0, lambda: x, lambda: lm.constant(1)), x)
    refuses(lm.errors.InvalidArgument, "result ['a'] is f32[] in the first branch and f32[1] in the second",
            lambda x: lm.cond(x > 0, lambda: {"a": x, "b": x}, lambda: {"a": lm.reshape(x, (1,)), "b": x}), x)
    refuses(lm.errors.InvalidArgument, "the body returns Tensor, init is (Tensor, Tensor)", lambda x: lm.while_loop(lambda s: s[0] < 3, lambda s: s[0], (0, x)), x)
    refuses(lm.errors.TypeMismatch, "loop variable [0] starts as i32[] and becomes f32[]", lambda x: lm.while_loop(lambda s: s[0] < 3, lambda s: (s[1], s[1]), (0, x)), x)
    refuses(lm.errors.InvalidArgument, "the loop variable starts as f32[] and becomes f32[2]", lambda x: lm.while_loop(lambda s: lm.sum(s) < 3, lambda s: lm.stack([s, s]), x), x)
    refuses(lm.errors.TypeMismatch, "it returns a tuple of two", lambda x: lm.scan(lambda s, _: s, x, length=3), x)
    refuses(lm.errors.TypeMismatch, "is not a tensor", lambda x: lm.while_loop(lambda s: s < 3, lambda s: s, "text"), x)
    refuses(lm.errors.InvalidArgument, "scan: it has no length", lambda x: lm.scan(lambda s, _: (s, s), x), x)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_switch_takes_one_of_several(count):
    branches = [lambda x, i=i: {"y": x * i + lm.sin(x)} for i in range(count)]
    x = lm.constant([0.5, 2.0])
    f = lm.function(lambda i, x: lm.switch(i, branches, x)["y"])
    slope = lm.function(lm.grad(lambda x, i: lm.sum(lm.switch(i, branches, x)["y"])))
    for i in range(-1, count + 1):
        taken = min(max(i, 0), count - 1)
        wanted = x.numpy() * taken + np.sin(x.numpy())
        for index in (i, lm.constant(i), lm.Variable(i), lm.constant(i, dtype=lm.int64)):
            np.testing.assert_allclose(lm.switch(index, branches, x)["y"].numpy(), wanted, rtol=1e-6)
            np.testing.assert_allclose(f(index, x).numpy(), wanted, rtol=1e-6)
        np.testing.assert_allclose(slope(x, lm.constant(i)).numpy(), taken + np.cos(x.numpy()), rtol=1e-6)
    each = lm.vmap(lambda i: lm.switch(i, branches, x)["y"])(lm.arange(count))
    np.testing.assert_allclose(each.numpy(), [x.numpy() * i + np.sin(x.numpy()) for i in range(count)], rtol=1e-6)


def test_switch_without_a_branch_is_refused():
    with pytest.raises(lm.errors.InvalidArgument, match="there is no branch"):
        lm.switch(lm.constant(0), [])


# --- gradients with less memory ---


def deep(x, weights, checkpoints):
    def block(h, some):
        for w in some:
            h = lm.tanh(h @ w)
        return {"h": h, "sum": lm.sum(h)}

    total = 0.0
    for i in range(0, len(weights), 4):
        out = (lm.checkpoint(block) if checkpoints else block)(x, weights[i:i + 4])
        x, total = out["h"], total + out["sum"]
    return total


def trained(checkpoints=False, memory_budget=None):
    rng = np.random.default_rng(0)
    weights = [lm.Variable(rng.normal(0, 0.2, (32, 32)).astype("float32")) for _ in range(24)]

    @lm.function(memory_budget=memory_budget)
    def gradients(x):
        with lm.GradientTape() as tape:
            y = deep(x, weights, checkpoints)
        return tape.gradient(y, weights)

    x = np.ones((64, 32), "float32")
    numbers = [g.numpy() for g in gradients(x)]
    return numbers, gradients.get_concrete_function(x).temporary_bytes


def test_checkpoints_and_a_memory_budget_take_less_memory_for_the_same_bits():
    plain, most = trained()
    for numbers, least in (trained(checkpoints=True), trained(memory_budget=most // 2)):
        for a, b in zip(plain, numbers):
            np.testing.assert_array_equal(a, b)
        assert least <= 0.6 * most
    with pytest.raises(ValueError, match="memory budget"):
        lm.function(lambda x: x, memory_budget=0)


def test_checkpoint_keeps_the_name_and_runs_eagerly():
    @lm.checkpoint
    def double(x, by=2):
        """Twice."""
        return x * by, None

    assert double.__name__ == "double" and double.__doc__ == "Twice."
    y, nothing = double(lm.ones(3), by=3)
    assert y.tolist() == [3, 3, 3] and nothing is None


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
def test_bounds_and_indices_of_every_integer_type(name, traced):
    dtype, made = getattr(lm, name), lm.function if traced else lambda f: f
    wide = lm.int64 if name in ("int64", "uint32") else lm.int32
    number = lambda n: lm.constant(n, dtype=dtype)
    loop = made(lambda a, b: lm.fori_loop(a, b, lambda i, s: s + lm.astype(i, lm.float32), lm.constant(0.0)))
    last = made(lambda a, b: lm.fori_loop(a, b, lambda i, s: i, lm.constant(0, dtype=wide)))
    for a, b in ((0, number(4)), (number(1), 4), (number(0), number(4)), (lm.constant(0), number(4))):
        assert float(loop(a, b)) == 6 and int(last(a, b)) == 3
    choose = made(lambda i: lm.switch(i, [lambda k=k: lm.constant(k) for k in range(200)]))
    assert int(choose(number(120))) == 120 and int(choose(number(-1 if name.startswith("int") else 250))) == (0 if name.startswith("int") else 199)
    for wrong in (1.5, "a", lm.constant(1.5), lm.constant(True)):
        with pytest.raises(lm.errors.TypeMismatch, match="not an integer"):
            lm.fori_loop(0, wrong, lambda i, s: s, lm.constant(0.0))
        with pytest.raises(lm.errors.TypeMismatch, match="not an integer"):
            lm.switch(wrong, [lambda: lm.constant(0.0)])


def test_loops_that_never_end_are_refused():
    for negative in (-1, -5):
        with pytest.raises(lm.errors.InvalidArgument, match="maximum of iterations"):
            lm.while_loop(lambda x: x < 3, lambda x: x + 1, lm.constant(0), maximum_iterations=negative)

    def total(n, step):
        s = 0
        for i in range(0, n, step):
            s += i
        return s

    def backwards(n, step):
        s = 0
        for i in reversed(range(0, n, step)):
            s += i
        return s
    for f in (total, backwards, lambda n, step: lm.sum(lm.range(0, n, step))):
        g = lm.function(f)
        assert g(5, lm.constant(2)).item() == 6
        with pytest.raises(lm.errors.AssertionFailed, match="a step of 0"):
            g(5, lm.constant(0))


@pytest.mark.parametrize("traced", [False, True])
def test_fori_loop_counts_in_int64_where_a_bound_does_not_fit_int32(traced):
    wrapped = lm.function if traced else lambda f: f
    for lower, upper in [(2**33, 2**33 + 2), (2**31 - 2, 2**31 + 3), (-(2**31) - 1, -(2**31) + 1)]:
        assert int(wrapped(lambda y: lm.fori_loop(lower, upper, lambda i, _: lm.astype(i, lm.int64), y))(lm.constant(0, dtype=lm.int64))) == upper - 1  # noqa: B023
    assert lm.fori_loop(0, 2, lambda i, _: i, lm.constant(0)).dtype == lm.int32
