"""An outside tensor used in a body is an operand of the call: gradients reach it from any body, and no graph keeps an old one."""
import collections
import functools
import types

import numpy as np
import pytest

import lamina as lm

c = lm.constant
W, X = np.array([0.5, -1.25, 2.0]), np.array([[1.0, 2.0, -0.5], [-1.0, 0.25, 3.0]])


def body(w, x):
    return lm.sin(w * x) + w * w


def _scanned(f, x):
    return lm.scan(lambda s, z: (s + f(z), None), x * 0, lm.stack([x]))[0]


def _switched(f, x):
    return lm.switch(lm.astype(lm.sum(x) * 0, lm.int32) + 1, [lambda: x, lambda: f(x), lambda: 2 * x])


# Ways to compute f(x), where f uses an outside w.
PLACES = {
    "cond": lambda f, x: lm.cond(lm.sum(x) < 100.0, lambda: f(x), lambda: x),
    "cond of vmapped": lambda f, x: lm.cond(lm.sum(x) < 3.0, lambda: f(x), lambda: f(x)),
    "switch": _switched,
    "while_loop": lambda f, x: lm.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1] + f(x)), (c(0), x * 0), maximum_iterations=3)[1],
    "scan": _scanned,
    "fori_loop": lambda f, x: lm.fori_loop(0, 1, lambda i, s: s + f(x), x * 0),
    "checkpoint": lambda f, x: lm.checkpoint(f)(x),
    "function": lambda f, x: lm.function(f)(x),
    "function without arguments": lambda f, x: lm.function(lambda: f(x))(),
    "checkpoint in cond in scan": lambda f, x: _scanned(lambda z: lm.cond(lm.sum(z) < 100.0, lambda: lm.checkpoint(f)(z), lambda: z), x),
    "function in cond": lambda f, x: lm.cond(lm.sum(x) < 100.0, lambda: lm.function(lambda: f(x))(), lambda: x),
    "cond in function": lambda f, x: lm.function(lambda: lm.cond(lm.sum(x) < 100.0, lambda: f(x), lambda: x))(),
}


def rows(run):
    return lambda w: lm.vmap(lambda x: run(w, x))(c(X))


# Checks of run(w, x), which is body(w, x) computed in one of these ways.
QUESTIONS = {
    "grad": lambda run: lm.grad(lambda w: lm.sum(run(w, c(X[0]))))(c(W)),
    "value_and_grad": lambda run: lm.value_and_grad(lambda w: lm.sum(run(w, c(X[0]))))(c(W))[0],
    "grad of vmap": lambda run: lm.grad(lambda w: lm.sum(rows(run)(w)))(c(W)),
    "vmap of grad": lambda run: lm.vmap(lambda x: lm.grad(lambda w: lm.sum(run(w, x)))(c(W)))(c(X)),
    "vmap of grad, mapped w": lambda run: lm.vmap(lambda w: lm.grad(lambda w: lm.sum(run(w, c(X[0]))))(w))(c(np.stack([W, 2 * W]))),
    "vmap in vmap": lambda run: lm.grad(lambda w: lm.sum(lm.vmap(lambda y: rows(lambda w, x: run(w, x + y))(w))(c(X))))(c(W)),
    "jacobian": lambda run: lm.jacobian(lambda w: run(w, c(X[0])))(c(W)),
    "jacobian by x": lambda run: lm.jacobian(lambda x: run(c(W), x))(c(X[0])),
    "hessian": lambda run: lm.hessian(lambda w: lm.sum(run(w, c(X[0]))))(c(W)),
    "grad of grad": lambda run: lm.grad(lambda w: lm.sum(lm.grad(lambda v: lm.sum(run(v, c(X[0]))))(w)))(c(W)),
    "jvp": lambda run: lm.jvp(lambda w: run(w, c(X[0])), (c(W),), (c(X[1]),))[1],
    "vjp": lambda run: lm.vjp(lambda w: run(w, c(X[0])), c(W))[1](c(X[1]))[0],
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_what_a_body_uses_from_outside(place, question):
    plain = np.asarray(QUESTIONS[question](body))

    def run(w, x):
        return PLACES[place](lambda z: body(w, z), x)

    np.testing.assert_allclose(np.asarray(QUESTIONS[question](run)), plain, rtol=1e-12, atol=1e-12)
    traced = lm.function(lambda: QUESTIONS[question](run))
    np.testing.assert_allclose(np.asarray(traced()), plain, rtol=1e-12, atol=1e-12)


def test_the_plain_answers_are_those_of_numpy():
    slopes = np.cos(W * X) * X + 2 * W
    np.testing.assert_allclose(np.asarray(QUESTIONS["vmap of grad"](body)), slopes)
    np.testing.assert_allclose(np.asarray(QUESTIONS["jacobian"](body)), np.diag(slopes[0]))
    np.testing.assert_allclose(np.asarray(QUESTIONS["hessian"](body)), np.diag(2 - np.sin(W * X[0]) * X[0] ** 2))


def test_a_tape_sees_what_a_function_that_was_traced_without_it_uses():
    w = c(3.0)
    f = lm.function(lambda x: w * x * x)
    assert float(f(c(2.0))) == 12
    with lm.GradientTape() as tape:
        tape.watch(w)
        y = f(c(2.0))
    assert float(tape.gradient(y, w)) == 4
    assert float(lm.sum(lm.vmap(f)(c([1.0, 2.0])))) == 15


def test_a_tensor_that_a_body_itself_made_may_be_watched():
    @lm.function
    def f():
        w = lm.constant(3.0)
        with lm.GradientTape() as tape:
            tape.watch(w)
            y = lm.checkpoint(lambda: w * w)() + lm.cond(w > 0, lambda: w, lambda: -w)
        return tape.gradient(y, w)

    assert float(f()) == 7


def test_a_method_that_uses_what_its_caller_left_in_an_attribute_sees_each_callers():
    class Model:
        @lm.function
        def inner(self):
            return self.kept * self.kept

        def outer(self, x):
            self.kept = x
            return self.inner()

    model = Model()
    assert [float(lm.grad(model.outer)(c(x))) for x in (3.0, 4.0)] == [6, 8]
    np.testing.assert_array_equal(lm.vmap(model.outer)(c([3.0, 4.0])), [9, 16])
    np.testing.assert_array_equal(lm.vmap(model.outer)(c([5.0, 6.0])), [25, 36])
    np.testing.assert_array_equal(lm.vmap(lm.grad(model.outer))(c([5.0, 6.0])), [10, 12])
    traced = lm.function(model.outer)
    assert [float(traced(c(x))) for x in (3.0, 4.0)] == [9, 16]

    @lm.function
    def twice(x):
        first = model.outer(x)
        return first + model.outer(x + 1)

    assert float(twice(c(1.0))) == 5


class Holder:
    pass


def _rebindings():
    """name: (function without arguments, a function that stores a tensor where the first one finds it)"""
    local = c(0.0)

    def set_local(t):
        nonlocal local
        local = t

    yield "closure", lm.function(lambda: local * local), set_local

    def set_global(t):
        global THE_GLOBAL
        THE_GLOBAL = t

    yield "global", lm.function(lambda: THE_GLOBAL * THE_GLOBAL), set_global
    holder, entries, rows = Holder(), {}, [None]
    yield "attribute", lm.function(lambda: holder.kept * holder.kept), lambda t: setattr(holder, "kept", t)
    yield "item", lm.function(lambda: entries["kept"] * entries["kept"]), lambda t: entries.update(kept=t)
    yield "list", lm.function(lambda: rows[0] * rows[0]), lambda t: rows.__setitem__(0, t)

    def helper():
        return holder.deep * holder.deep

    yield "helper", lm.function(lambda: helper()), lambda t: setattr(holder, "deep", t)
    inner = lm.function(lambda: holder.inner * holder.inner)
    yield "function", lm.function(lambda: inner()), lambda t: setattr(holder, "inner", t)
    net = lm.nn.Layer()
    net.rows, net.named, net.part, net.inner = [None], {}, Holder(), lm.nn.Layer()
    net.inner.rows = [[None]]
    yield "list of a layer", lm.function(lambda: net.rows[0] * net.rows[0]), lambda t: net.rows.__setitem__(0, t)
    yield "dict of a layer", lm.function(lambda: net.named["kept"] * net.named["kept"]), lambda t: net.named.update(kept=t)
    yield "object of a layer", lm.function(lambda: net.part.kept * net.part.kept), lambda t: setattr(net.part, "kept", t)
    yield "list in a list of a layer's layer", lm.function(lambda: net.inner.rows[0][0] * net.inner.rows[0][0]), lambda t: net.inner.rows.__setitem__(0, [t])
    argument = Holder()
    of_object = lm.function(lambda o: o.w * o.w)
    yield "argument", lambda: of_object(argument), lambda t: setattr(argument, "w", t)
    for made in (collections.OrderedDict(w=None), collections.defaultdict(float, w=None), OwnDict(w=None)):
        yield type(made).__name__, *_of_dict(made)
    queue, own, pairs, slotted, module = collections.deque([None], maxlen=1), OwnList([None]), [Pair(None)], Slotted(), types.ModuleType("a_users_module")
    yield "deque", lm.function(lambda: queue[0] * queue[0]), queue.append
    yield "list of a class", lm.function(lambda: own[0] * own[0]), lambda t: own.__setitem__(0, t)
    yield "named tuple in a list", lm.function(lambda: pairs[0].w * pairs[0].w), lambda t: pairs.__setitem__(0, Pair(t))
    yield "class", lm.function(lambda: Slotted.of_class * Slotted.of_class), lambda t: setattr(Slotted, "of_class", t)
    yield "slot", lm.function(lambda: slotted.w * slotted.w), lambda t: setattr(slotted, "w", t)
    yield "module", lm.function(lambda: module.w * module.w), lambda t: setattr(module, "w", t)
    deep = [[[[[{"w": [None]}]]]]]
    yield "deep", lm.function(lambda: deep[0][0][0][0][0]["w"][0] ** 2), lambda t: deep[0][0][0][0][0]["w"].__setitem__(0, t)

    def with_default(made={"w": None}):
        return made["w"] * made["w"]

    yield "default", lm.function(lambda: with_default()), lambda t: with_default.__defaults__[0].update(w=t)
    with_default.own = None
    yield "function's attribute", lm.function(lambda: with_default.own * with_default.own), lambda t: setattr(with_default, "own", t)
    caller = Caller()
    for way, f in (("method", lambda: caller.act()), ("call", lambda: caller()), ("property", lambda: caller.value), ("operator", lambda: caller * 1), ("static method", lambda: Caller.static()),
                   ("class method", lambda: Caller.of_class()), ("item of an object", lambda: caller[0])):
        yield f"global in a {way}", lm.function(f), set_global
    yield "global in a function's object", lm.function(caller), set_global
    yield "global in a partial function", lm.function(functools.partial(Caller.static)), set_global


def _of_dict(made):
    return lm.function(lambda: made["w"] * made["w"]), lambda t: made.update(w=t)


class OwnDict(dict):
    pass


class OwnList(list):
    pass


Pair = collections.namedtuple("Pair", "w")


class Slotted:
    __slots__ = ("w",)
    of_class = None


class Caller:
    def act(self):
        return THE_GLOBAL * THE_GLOBAL

    __call__ = act
    value = property(act)

    def __mul__(self, other):
        return self.act() * other

    def __getitem__(self, i):
        return self.act()

    @staticmethod
    def static():
        return THE_GLOBAL * THE_GLOBAL

    @classmethod
    def of_class(cls):
        return cls.static()


@pytest.mark.parametrize("made, add", [([c(1.0)], lambda made: made.append(c(4.0))), ({"a": c(1.0)}, lambda made: made.update(b=c(4.0))), (collections.deque([c(1.0)]), lambda made: made.append(c(4.0))),
                                       ([[c(1.0)]], lambda made: made.append([c(4.0)])), ([[c(1.0)]], lambda made: made[0].append(c(4.0)))], ids=["list", "dict", "deque", "list of lists", "list in a list"])
def test_what_is_added_beside_a_tensor_is_seen(made, add):
    def total(made):
        return sum(total(part) if isinstance(part, list) else part for part in (made.values() if isinstance(made, dict) else made))

    f = lm.function(lambda x: x * total(made))
    assert float(f(c(1.0))) == 1
    add(made)
    assert float(f(c(1.0))) == float(f(c(1.0))) == 5
    assert f.trace_count == 2


def test_a_deque_or_a_list_of_a_class_is_an_argument_and_a_result_as_a_list_is():
    @lm.function
    def pushed(frames, x):
        frames.append(x)
        return frames

    for frames in (collections.deque([c(0.0), c(0.0)], maxlen=2), OwnList([c(0.0), c(0.0)])):
        for x in (1.0, 2.0, 3.0):
            made = pushed(frames, c(x))
            assert type(made) is type(frames) and len(frames) == 2 and [float(v) for v in made][-2:] == [0.0, x]
            if isinstance(made, collections.deque):
                assert made.maxlen == 2
    total = lm.function(lambda frames: lm.sum(lm.stack(list(frames))))
    frames = collections.deque([c(0.0), c(0.0)], maxlen=2)
    seen = []
    for x in (1.0, 2.0, 3.0):
        frames.append(c(x))
        seen.append(float(total(frames)))
    assert seen == [1.0, 3.0, 5.0] and total.trace_count == 1


class Keeper:
    def __init__(self, x):
        self.x = x


def _generates(x):
    yield x


@pytest.mark.parametrize("result", [lambda x: reversed([1, 2]), lambda x: zip("ab", [x, x]), lambda x: map(abs, [x]), lambda x: {"a": x}.values(), lambda x: {"a": x}.keys(), lambda x: {x}, lambda x: frozenset([x]),
                                    lambda x: Keeper(x), _generates, lambda x: (v for v in [x]), lambda x: [1, {"a": iter([x])}]])
def test_what_could_not_be_a_result_again_is_refused(result):
    for made in (lm.function(result), lm.vmap(result)):
        for _ in range(2):  # the second time, too
            with pytest.raises(lm.errors.TypeMismatch, match="no result of") as caught:
                made(lm.ones(2))
            assert "test_closures.py:" in str(caught.value) and "fix:" in str(caught.value)


@pytest.mark.parametrize("name, f, put", list(_rebindings()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_name_that_holds_another_tensor_is_seen(name, f, put):
    first = c(3.0)
    for tensor, want in ((first, 9), (c(4.0), 16), (first, 9), (c([1.0, 2.0]), 5), (first, 9)):
        put(tensor)
        assert float(lm.sum(f())) == want
    assert [float(lm.grad(lambda v: (put(v), f())[1])(c(x))) for x in (3.0, 4.0)] == [6, 8]
    np.testing.assert_array_equal(lm.vmap(lambda v: (put(v), f())[1])(c([3.0, 4.0])), [9, 16])
    put(first)
    assert float(f()) == 9


def test_a_name_that_stays_costs_no_graph():
    w = c(2.0)
    f = lm.function(lambda x: x * w)
    for x in (1.0, 2.0, 3.0):
        assert float(f(c(x))) == 2 * x
    assert f.trace_count == 1


@pytest.mark.parametrize("name, f, put", list(_rebindings()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_name_that_holds_another_variable_is_seen(name, f, put):
    first = lm.Variable(3.0)
    for value, want in ((first, 9), (lm.Variable(4.0), 16), (c(5.0), 25), (first, 9)):
        put(value)
        assert float(f()) == want
    first.assign(2.0)
    assert float(f()) == 4
    if isinstance(f, lm.Function):
        assert ["what it uses from outside" in trace["cause"] for trace in f.traces][1:] == [True, True]


def test_another_layer_in_a_model_is_seen_and_another_model_has_graphs_of_its_own():
    def of_ones(layers):
        model = lm.nn.Sequential([lm.nn.Dense(1, use_bias=False, kernel_initializer="ones") for _ in range(layers)])
        model(lm.ones((1, 2)))
        return model

    class Net:
        pass

    net, x = Net(), lm.ones((1, 2))
    net.inner = of_ones(1)
    f = lm.function(lambda x: net.inner(x))
    assert f(x).item() == 2
    net.inner = other = of_ones(1)
    for v in other.trainable_variables:
        v.assign(v * 3)
    assert f(x).item() == 6
    models = [of_ones(n) for n in (1, 2, 3, 2)]
    of_model = lm.function(lambda model, x: model(x))
    for _ in range(3):
        assert [of_model(model, x).item() for model in models] == [2, 2, 2, 2]
    assert of_model.trace_count == len(models)


def test_layers_that_change_places_in_a_list_of_a_layer_are_seen():
    class Net(lm.nn.Layer):
        def __init__(self):
            super().__init__()
            self.blocks = [lm.nn.Dense(2, use_bias=False, kernel_initializer="ones") for _ in range(3)]

        def call(self, x):
            return self.blocks[1](self.blocks[0](x))

    net, x = Net(), lm.ones((1, 2))
    f = lm.function(lambda x: net(x)[0, 0])
    for k, block in enumerate(net.blocks):
        block(x)
        block.kernel.assign(block.kernel * (k + 1))
    assert f(x).item() == 8
    net.blocks[0], net.blocks[2] = net.blocks[2], net.blocks[0]
    assert f(x).item() == 24
    del net.blocks[0]
    assert f(x).item() == 8 and f(x).item() == 8


@pytest.mark.parametrize("make", [c, lm.Variable])
def test_the_last_item_of_a_list_that_grew_is_seen(make):
    rows, holder = [make(2.0)], Holder()
    holder.rows = [[make(1.0)], [make(2.0)]]
    last, first, nested = lm.function(lambda x: rows[-1] * x), lm.function(lambda x: rows[0] * x), lm.function(lambda x: holder.rows[-1][-1] * x)
    for n in (2.0, 3.0, 4.0):
        assert [float(f(c(1.0))) for f in (last, first, nested)] == [n, 2, n]
        rows.append(make(n + 1))
        holder.rows.append([make(0.0), make(n + 1)])
    rows[:] = rows[:1]
    assert float(last(c(1.0))) == 2
    assert first.trace_count == 2  # whether it takes all of them shows when there are more
