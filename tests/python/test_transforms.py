"""grad, value_and_grad, vjp, jvp, jacobian, hessian, custom_gradient: derivatives of functions, eagerly and traced."""
import collections
import dataclasses

import numpy as np
import pytest

import lamina as lm

c = lm.constant
MODES = {"eager": lambda f: f, "traced": lm.function}


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


def close(got, want, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tolerance, atol=tolerance)


def f(x):
    return lm.sum(lm.sin(x) * x)


X = np.array([0.5, -1.25, 2.0], np.float64)


def test_grad_and_value_and_grad_are_the_derivative(mode):
    value, slope = mode(lm.value_and_grad(f))(c(X))
    close(value, np.sum(np.sin(X) * X))
    close(slope, np.cos(X) * X + np.sin(X))
    close(mode(lm.grad(f))(c(X)), slope)


def test_higher_derivatives_are_grads_of_grads(mode):
    close(mode(lm.grad(lm.grad(lm.grad(lambda x: x ** 4))))(c(2.0)), 48)


def test_the_gradient_has_the_arguments_structure(mode):
    @dataclasses.dataclass
    class Weights:
        w: object
        b: object

    def loss(p, x):
        return lm.sum(p["layers"][0].w * x + p["layers"][0].b) + p["scale"] * 2

    p = {"layers": [Weights(c([1.0, 2.0]), c(3.0))], "scale": c(5.0)}
    got = mode(lambda p, x: lm.grad(loss)(p, x))(p, c([7.0, 8.0]))
    close(got["layers"][0].w, [7, 8])
    close(got["layers"][0].b, 2)
    close(got["scale"], 2)


def test_argnums_choose_several_arguments_and_aux_is_handed_on():
    def g(x, n, y):
        return x * y * n, {"n": n}
    (value, aux), (dx, dy) = lm.value_and_grad(g, argnums=(0, -1), has_aux=True)(c(2.0), 3, c(5.0))
    assert (float(value), aux, float(dx), float(dy)) == (30, {"n": 3}, 15, 6)
    slope, aux = lm.grad(g, has_aux=True)(c(2.0), 3, c(5.0))
    assert float(slope) == 15 and aux == {"n": 3}


def test_variables_may_be_arguments_and_others_are_constants(mode):
    v, w = lm.Variable([1.0, 2.0]), lm.Variable([3.0, 4.0])
    close(mode(lambda v: lm.grad(lambda v: lm.sum(v * v * w))(v))(v), [6, 16])


def test_vjp_pulls_cotangents_back_often():
    out, pull = lm.vjp(lambda x, y: (x * y, lm.sin(x)), c(2.0), c(3.0))
    close(out[0], 6)
    dx, dy = pull((c(1.0), c(0.0)))
    assert (float(dx), float(dy)) == (3, 2)
    close(pull((c(0.0), c(1.0)))[0], np.cos(2.0))


def test_jvp_pushes_tangents_forward(mode):
    def run(x, t):
        return lm.jvp(lambda p: {"a": lm.sin(p["x"]) * p["x"], "b": lm.sum(p["x"])}, ({"x": x},), ({"x": t},))
    out, along = mode(run)(c(X), c([1.0, 0.5, -2.0], dtype=lm.float64))
    t = np.array([1.0, 0.5, -2.0])
    close(out["a"], np.sin(X) * X)
    close(along["a"], (np.cos(X) * X + np.sin(X)) * t)
    close(along["b"], -0.5)


def test_jacobian_and_hessian_have_one_entry_per_pair_of_elements(mode):
    A = np.arange(6.0).reshape(2, 3)

    def g(x):
        return lm.matmul(c(A), x * x)
    close(mode(lm.jacobian(g))(c(X)), A * 2 * X)
    hessian = mode(lm.hessian(f))(c(X))
    close(hessian, np.diag(2 * np.cos(X) - np.sin(X) * X))
    a, b = lm.jacobian(lambda x, y: x * lm.sum(y), argnums=(0, 1))(c([1.0, 2.0]), c([3.0, 4.0, 5.0]))
    close(a, 12 * np.eye(2))
    close(b, np.repeat([[1.0], [2.0]], 3, 1))


def test_derivatives_go_through_loops_and_branches_that_autograph_makes():
    def g(x, n):
        y = x
        for i in lm.range(n):
            if y < 10.0:
                y = y * x
            else:
                y = y + x
        return y
    slope = lm.function(lambda x, n: lm.grad(g)(x, n))
    second = lm.function(lambda x, n: lm.grad(lm.grad(g))(x, n))
    pushed = lm.function(lambda x, n: lm.jvp(lambda x: g(x, n), (x,), (c(1.0),))[1])
    assert float(slope(c(2.0), c(4))) == 33  # x^4 + x
    assert float(second(c(2.0), c(4))) == 48
    assert float(pushed(c(2.0), c(4))) == 33


def test_per_example_gradients_are_vmap_of_grad(mode):
    def loss(w, x):
        return lm.sum(w * x) ** 2
    w, xs = c([1.0, 2.0]), c([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    got = mode(lambda w, xs: lm.vmap(lm.grad(loss), in_axes=(None, 0))(w, xs))(w, xs)
    close(got, [[2, 0], [0, 4], [6, 6]])


def test_tape_jacobian_and_unconnected_gradients(mode):
    def run(x, other):
        with lm.GradientTape(persistent=True) as tape:
            tape.watch([x, other])
            y = x * x
        return tape.jacobian(y, [x])[0], tape.gradient(y, [x, other], unconnected_gradients="zero")
    matrix, (dx, do) = mode(run)(c([1.0, 2.0]), c([3.0]))
    close(matrix, [[2, 0], [0, 4]])
    close(dx, [2, 4])
    close(do, [0])
    tape = lm.GradientTape()
    with tape:
        x = c([1.0])
        tape.watch(x)
    assert tape.jacobian(c([1.0, 2.0]), x) is None
    with pytest.raises(lm.errors.TapeUsed):
        tape.jacobian(x, x)
    with pytest.raises(lm.errors.InvalidArgument, match="unconnected_gradients is 'no'"):
        lm.GradientTape().gradient(x, x, unconnected_gradients="no")


def test_stop_recording_leaves_out_what_runs_inside(mode):
    def run(x):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            with tape.stop_recording():
                z = x * 100.0
            y = y + z
        return tape.gradient(y, x)
    assert float(mode(run)(c(3.0))) == 6


# --- custom gradients ---


@lm.custom_gradient
def clipped(x):
    return x * 1.0, lambda dy: lm.clip(dy, -1.0, 1.0)


@lm.custom_gradient
def log1pexp(x):
    e = lm.exp(x)
    return lm.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


def test_a_custom_gradient_takes_the_place_of_the_derivative(mode):
    close(mode(lm.grad(lambda x: lm.sum(clipped(x) * c([5.0, -0.5, -7.0]))))(c([1.0, 2.0, 3.0])), [1, -0.5, -1])
    close(mode(lm.grad(log1pexp))(c(0.0)), 0.5)
    close(mode(log1pexp)(c(0.0)), np.log(2.0))


def test_a_custom_gradient_that_would_overflow_otherwise_does_not():
    slope = float(lm.grad(log1pexp)(c(100.0)))
    assert slope == 1.0


def test_a_custom_gradient_can_be_differentiated_again(mode):
    x = 0.3
    s = 1 / (1 + np.exp(-x))
    close(mode(lm.grad(lm.grad(log1pexp)))(c(x)), s * (1 - s))


def test_several_arguments_results_and_values_that_are_no_tensors(mode):
    @lm.custom_gradient
    def g(x, power, y):
        def back(da, db):
            return da * 10.0 + db, None
        return (x ** power, y * 2.0), back

    def run(x, y):
        with lm.GradientTape() as tape:
            tape.watch([x, y])
            a, b = g(x, 3, y)
            z = a + b
        return z, tape.gradient(z, [x, y])
    z, (dx, dy) = mode(run)(c(2.0), c(4.0))
    assert (float(z), float(dx), float(dy)) == (16, 11, 0)


def test_a_custom_gradient_may_use_variables_and_loops():
    v = lm.Variable(3.0)

    @lm.custom_gradient
    def g(x, n):
        y = x
        for i in lm.range(n):
            y = y * v
        return y, lambda dy: (dy * 2.0, None)
    run = lm.function(lambda x, n: lm.value_and_grad(g)(x, n))
    value, slope = run(c(1.0), c(2))
    assert (float(value), float(slope)) == (9, 2)
    v.assign(2.0)
    assert float(run(c(1.0), c(3))[0]) == 8 and run.trace_count == 1


def test_a_custom_gradient_under_vmap_is_each_examples_own(mode):
    got = mode(lambda x: lm.vmap(lm.grad(lambda x: clipped(x) * 3.0 + clipped(x) * 0.25))(x))(c([1.0, 2.0]))
    close(got, [1.25, 1.25])


# --- derivatives are by places, not by tensors ---

PAIR = {  # functions of two tensors, linear in neither
    "product": lambda a, b: lm.sum(a * a * b),
    "kernel": lambda a, b: lm.exp(-0.1 * lm.sum((a - 2.0 * b) ** 2)),
    "checkpoint": lambda a, b: lm.checkpoint(lambda a: lm.sum(a * a * b))(a),
    "cond": lambda a, b: lm.cond(lm.sum(a) > 0.0, lambda: lm.sum(a * a * b), lambda: lm.sum(a * b)),
    "dict": lambda a, b: (lambda d: lm.sum(d["a"] * d["a"] * d["b"]))({"a": a, "b": b}),
    "custom": lambda a, b: lm.sum(own_product(a, b) * a),
}


@lm.custom_gradient
def own_product(a, b):
    return a * b, lambda dy: (dy * b, dy * a * 3.0)


def of_dict(F):
    return lambda d: F(d["a"], d["b"])


TRANSFORMS = {
    "grad": lambda F, a, b: lm.grad(F)(a, b),
    "grad by the second": lambda F, a, b: lm.grad(F, 1)(a, b),
    "grad by both": lambda F, a, b: lm.grad(F, (0, 1))(a, b),
    "grad by a dict": lambda F, a, b: list(lm.grad(of_dict(F))({"a": a, "b": b}).values()),
    "grad, the other outside": lambda F, a, b: lm.grad(lambda x: F(x, b))(a),
    "grad of grad, the other outside": lambda F, a, b: lm.grad(lambda x: lm.sum(lm.grad(lambda y: F(x, y))(b) * b))(a),
    "grad of grad by an outer one": lambda F, a, b: lm.grad(lambda x: lm.sum(x * lm.grad(lambda y: F(y, b) * lm.sum(x))(x + 0)))(a),
    "grad of grad": lambda F, a, b: lm.grad(lambda x, y: lm.sum(lm.grad(F, 1)(x, y)))(a, b),
    "value_and_grad": lambda F, a, b: lm.value_and_grad(F, (0, 1))(a, b),
    "vjp": lambda F, a, b: lm.vjp(F, a, b)[1](c(2.0)),
    "vjp, the other outside": lambda F, a, b: lm.vjp(lambda x: F(x, b) * x, a)[1](b),
    "jvp": lambda F, a, b: lm.jvp(F, (a, b), (a, lm.zeros(3))),
    "jvp, the other outside": lambda F, a, b: lm.jvp(lambda x: F(x, b) * b, (a,), (b,)),
    "jacobian": lambda F, a, b: lm.jacobian(lambda x, y: F(x, y) * x, (0, 1))(a, b),
    "jacobian of grad": lambda F, a, b: lm.jacobian(lm.grad(F), 1)(a, b),
    "jacobian, the other outside": lambda F, a, b: lm.jacobian(lambda x: F(x, b) * b)(a),
    "hessian": lambda F, a, b: lm.hessian(F)(a, b),
    "hessian, the other outside": lambda F, a, b: lm.hessian(lambda x: F(x, b))(a),
    "vmap of grad": lambda F, a, b: lm.vmap(lm.grad(F, (0, 1)))(lm.stack([a, b]), lm.stack([b, a])),
    "vmap of grad of shared ones": lambda F, a, b: lm.vmap(lambda s, x, y: lm.grad(F, (0, 1))(x, y)[0] * s, in_axes=(0, None, None))(c([1.0, 2.0]), a, b),
    "vmap of grad, the other outside": lambda F, a, b: lm.vmap(lambda s: lm.grad(lambda x: F(x, b) * s)(a))(c([1.0, 2.0])),
    "grad of vmap": lambda F, a, b: lm.grad(lambda x, y: lm.sum(lm.vmap(lambda s: F(x * s, y))(c([1.0, 2.0]))), (0, 1))(a, b),
}


def leaves(value):
    return [np.asarray(leaf) for leaf in lm.tree.leaves(value)]


@pytest.mark.parametrize("function", PAIR)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_tensor_twice_gives_what_copies_give(transform, function, mode):
    def run(a, b):
        return TRANSFORMS[transform](PAIR[function], a, b)
    x = c([0.5, 1.0, -0.25])
    want, got = leaves(mode(run)(x, x + 0)), leaves(mode(lambda x: run(x, x))(x))
    assert len(got) == len(want) > 0
    for one, other in zip(got, want):
        close(one, other)
    for one, other in zip(leaves(mode(lambda: run(x, x))()), want):  # captured
        close(one, other)


def test_the_derivative_of_a_tensor_twice_is_by_each_place(mode):
    x = c([1.0, 2.0, 3.0])
    first, second = mode(lambda x: lm.grad(lambda a, b: lm.sum(a * a * b), (0, 1))(x, x))(x)
    close(first, [2, 8, 18])
    close(second, [1, 4, 9])
    close(mode(lambda: lm.grad(lambda a: lm.sum(a * x))(x))(), [1, 2, 3])
    close(mode(lambda x: lm.grad(lambda a: a * lm.grad(lambda b: a * b)(a))(x))(c(3.0)), 6)
    close(mode(lambda x: lm.jvp(lambda a, b: a * a * b, (x, x), (lm.ones(3), lm.zeros(3)))[1])(x), [2, 8, 18])
    close(mode(lambda x: lm.jacobian(lm.grad(lambda a, b: lm.exp(-lm.sum((a - b) ** 2))), 1)(x, x))(x), 2 * np.eye(3))


def test_tapes_around_a_transform_see_the_tensors_it_is_given(mode):
    def run(x, w):
        with lm.GradientTape(persistent=True) as tape:
            tape.watch([x, w])
            slope = lm.sum(lm.grad(lambda a: lm.sum(a * a * w * x))(x))
            made = lm.jacobian(lambda a: a * w * a)(x)
        return tape.gradient(slope, [x, w]), tape.gradient(made, [x, w])
    x, w = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    (dx, dw), (jx, jw) = mode(run)(c(x), c(w))
    close(dx, 4 * x * w)
    close(dw, 2 * x * x)
    close(jx, 2 * w)
    close(jw, 2 * x)


def test_variables_are_themselves_wherever_they_are_used(mode):
    v = lm.Variable([1.0, 2.0])
    close(mode(lambda v: lm.grad(lambda a: lm.sum(a * v))(v))(v), [2, 4])
    close(mode(lambda v: lm.jacobian(lambda a: a * v)(v))(v), np.diag([2, 4]))
    close(mode(lambda v: lm.hessian(lambda a: lm.sum(a * a * v))(v))(v), np.diag([6, 12]))


def test_complex_tensors_twice(mode):
    z = c(np.array([1 + 2j, 3 - 1j], np.complex64))
    first = mode(lambda z: lm.grad(lambda a, b: lm.sum(lm.real(a * lm.conj(b) * b)))(z, z))(z)
    close(first, mode(lambda z, w: lm.grad(lambda a, b: lm.sum(lm.real(a * lm.conj(b) * b)))(z, w))(z, z + 0))


def test_masks_go_with_what_is_differentiated():
    embedded = lm.nn.Embedding(5, 3, mask_zero=True)(c([[1, 2, 0]]))
    head = lm.nn.Sequential([lm.nn.LSTM(4)])
    head(embedded)
    slope = lm.grad(lambda e: lm.sum(head(e)))(embedded)
    assert not np.any(slope.numpy()[0, 2]) and np.all(slope.numpy()[0, :2])


# --- structures ---


def test_cotangents_and_tangents_are_paired_by_key(mode):
    x = c([1.0, 2.0, 3.0])
    pulled = mode(lambda x: lm.vjp(lambda a: {"b": a * 2, "a": a * 10}, x)[1]({"a": lm.ones(3), "b": lm.zeros(3)})[0])(x)
    close(pulled, [10, 10, 10])
    pushed = mode(lambda x: lm.jvp(lambda d: d["a"] * 100 + d["b"], ({"a": x, "b": x},), ({"b": lm.ones(3), "a": lm.zeros(3)},))[1])(x)
    close(pushed, [1, 1, 1])
    out, pull = lm.vjp(lambda a: (a * 2, {"steps": 3, "y": a * 5}, None), x)  # what has no derivative needs no cotangent
    close(pull((lm.ones(3), {"y": lm.ones(3), "steps": None}, None))[0], [7, 7, 7])


def test_other_structures_are_refused_and_both_are_named():
    x, ones = c([1.0, 2.0]), lm.ones(2)
    pull = lm.vjp(lambda a: {"b": a * 2, "a": (a, a)}, x)[1]
    for given, text in (({"b": ones, "c": (ones, ones)}, "the cotangent is a dict with b, c, the result of <lambda> has a dict with b, a there"),
                        ({"b": ones, "a": (ones,)}, r"the cotangent\['a'\] is a tuple of 1, .* a tuple of 2"),
                        ({"b": ones, "a": [ones, ones]}, r"the cotangent\['a'\] is a list of 2, .* a tuple of 2"),
                        (ones, "the cotangent is a Tensor, the result of <lambda> has a dict")):
        with pytest.raises(lm.errors.InvalidArgument, match=text):
            pull(given)
    for tangents, text in ((({"b": ones},), r"tangents\[0\] is a dict with b, primals has a dict with a there"), ((x, x), "tangents is a tuple of 2, primals has a tuple of 1"),
                           ((ones,), r"tangents\[0\] is a Tensor")):
        with pytest.raises(lm.errors.InvalidArgument, match=text):
            lm.jvp(lambda d: d["a"], ({"a": x},), tangents)


# --- effects ---


@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp", "jacobian", "hessian"])
def test_the_function_is_called_once(transform, mode):
    calls, count = [], lm.Variable(0)

    def loss(x):
        calls.append(1)
        count.assign_add(1)
        return lm.sum(x * x * x)
    run = {"vjp": lambda x: lm.vjp(loss, x)[1](c(1.0)), "jvp": lambda x: lm.jvp(loss, (x,), (x,))}.get(transform, lambda x: getattr(lm, transform)(loss)(x))
    mode(run)(c([1.0, 2.0]))
    assert len(calls) == 1 and int(count) == 1


DRAWS = {
    "plain": lambda a: a * lm.random.uniform([4]),
    "dropout": lambda a: lm.nn.Dropout(0.5)(a, training=True),
    "checkpoint": lm.checkpoint(lambda a: a * lm.random.uniform([4])),
    "dropout in a checkpoint": lm.checkpoint(lambda a: lm.nn.Dropout(0.5)(a * 2.0, training=True)),
    "branch": lambda a: lm.cond(c(True), lambda: a * lm.random.normal([4]), lambda: a),
    "loop": lambda a: lm.scan(lambda s, _: (lm.nn.Dropout(0.2)(s * lm.random.uniform([4]), training=True), None), a, None, length=3)[0],
    "checkpoint in a loop": lambda a: lm.scan(lambda s, _: (lm.checkpoint(lambda s: s * lm.random.uniform([4]))(s), None), a, None, length=3)[0],
    "vmap": lambda a: lm.vmap(lambda x: x * lm.random.uniform([]))(a),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_all_rows_of_a_jacobian_are_of_the_draws_of_the_call(draw, mode):
    def run(x):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = DRAWS[draw](x)
        return y, tape.jacobian(y, x)
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    y, rows = mode(run)(c(x))
    close(rows, np.diag(y.numpy() / x))
    ys, stacked = mode(lambda xs: lm.vmap(run)(xs))(c(np.stack([x, x])))
    for y, rows in zip(ys.numpy(), stacked.numpy()):
        close(rows, np.diag(y / x))


def test_jacobians_of_no_elements_and_of_what_is_not_connected(mode):
    assert mode(lambda x: lm.jacobian(lambda a: a[:0] * 2.0)(x))(c([1.0, 2.0])).shape == (0, 2)
    assert mode(lambda x: lm.jacobian(lambda a: a * 2.0)(x))(lm.zeros((0, 3))).shape == (0, 3, 0, 3)
    a, b = mode(lambda x, y: lm.jacobian(lambda a, b: a * 2.0, (0, 1))(x, y))(c([1.0, 2.0]), lm.ones((3, 1), dtype=lm.float64))
    close(a, 2 * np.eye(2))
    assert b.shape == (2, 3, 1) and b.dtype == lm.float64 and not np.any(b.numpy())


# --- custom gradients of calls by name ---


def test_a_custom_gradient_of_a_named_tuple_and_of_arguments_by_name(mode):
    Both = collections.namedtuple("Both", "a b")

    @lm.custom_gradient
    def g(x, y, power=2):
        return Both(x * y, y ** power), lambda da, db: (da * 10.0, db * 100.0)
    out = mode(lambda x: tuple(g(x, y=x)))(c(3.0))
    assert [float(one) for one in out] == [9, 9] and type(g(c(1.0), c(1.0))) is Both
    dx, dy = mode(lambda x, y: lm.grad(lambda x, y: g(y=y, power=3, x=x).a + g(x, y=y).b, (0, 1))(x, y))(c(2.0), c(3.0))
    assert (float(dx), float(dy)) == (10, 100)

    @lm.custom_gradient
    def h(x, *, scale):
        return x * scale, lambda dy: dy
    with pytest.raises(lm.errors.TypeMismatch, match="argument scale is a Tensor passed by name"):
        h(c(1.0), scale=c(2.0))
    assert float(lm.grad(lambda x: h(x, scale=3.0))(c(1.0))) == 1


# --- refused ---


def test_what_cannot_be_differentiated_is_named():
    cases = [
        (lambda: lm.grad(f)(c([1, 2])), lm.errors.TypeMismatch, "arguments\\[0\\] is a tensor of"),
        (lambda: lm.grad(f, argnums=2)(c(1.0)), lm.errors.InvalidArgument, "argnums is 2, and f was given 1"),
        (lambda: lm.grad(lambda x: x * 2)(c([1.0, 2.0])), lm.errors.InvalidArgument, "returns a tensor of shape \\(2,\\)"),
        (lambda: lm.jvp(f, (c(1.0),), (c([1.0, 2.0]),)), lm.errors.InvalidArgument, "tangents do not have"),
        (lambda: lm.jacobian(lambda x: 3)(c(1.0)), lm.errors.TypeMismatch, "returns an int"),
        (lambda: lm.custom_gradient(lambda x: x)(c(1.0)), lm.errors.InvalidArgument, "custom_gradient: <lambda> returns a Tensor"),
        (lambda: lm.custom_gradient(lambda x: (x, lambda dy: (dy, dy)))(c(1.0)), lm.errors.InvalidArgument, "returns 2 values"),
        (lambda: lm.custom_gradient(lambda x: (x, lambda dy: lm.concat([dy, dy])))(c([1.0])), lm.errors.InvalidArgument, "the gradient of input 0 is"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()
    v = lm.Variable(1.0)

    @lm.custom_gradient
    def assigns(x):
        v.assign(x)
        return x, lambda dy: dy
    with pytest.raises(lm.errors.InvalidArgument, match="assigns the variable"):
        lm.function(lambda x: assigns(x))(c(1.0))


@pytest.mark.parametrize("inside", [lambda pull: lm.scan(lambda u, _: (pull(u)[0], None), lm.ones(3), length=2), lambda pull: lm.cond(lm.constant(True), lambda: pull(lm.ones(3))[0], lambda: lm.ones(3)),
                                    lambda pull: lm.while_loop(lambda u: lm.sum(u) < 5, lambda u: pull(u)[0] + 1, lm.ones(3)), lambda pull: lm.function(lambda: pull(lm.ones(3))[0])()], ids=["scan", "cond", "while_loop", "function"])
def test_a_pull_in_a_graph_that_began_after_vjp_is_told_to_call_vjp_there(inside):
    def run(x):
        return inside(lm.vjp(lm.sin, x)[1])
    with pytest.raises(lm.errors.TapeUsed, match=r"(?s)vjp: the pull of .*began after vjp.*call vjp there too: lm.vjp\("):
        lm.function(run)(lm.ones(3))
    found = lm.function(lambda x: inside(lambda u: lm.vjp(lm.sin, x)[1](u)))(lm.zeros(3))
    assert found is not None
