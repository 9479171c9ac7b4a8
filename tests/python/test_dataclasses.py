"""Dataclasses are containers of tensors wherever lists, tuples and dicts are: each kind of class in each function that takes structures, and in converted
code, against the same program with plain tensors or in plain Python."""
import contextlib
import copy
import dataclasses
import enum
import operator
import typing

import numpy as np
import pytest

import lamina as lm


@dataclasses.dataclass
class Plain:
    x: typing.Any
    n: typing.Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: typing.Any
    n: typing.Any


@dataclasses.dataclass(slots=True)
class Slots:
    x: typing.Any
    n: typing.Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSlots:
    x: typing.Any
    n: typing.Any


@dataclasses.dataclass
class Base:
    x: typing.Any


@dataclasses.dataclass
class Derived(Base):
    n: typing.Any = None


@dataclasses.dataclass(eq=False)
class Rich:
    """With what is no field: of the class, for __init__ only, without a value, and made after __init__."""
    x: typing.Any
    n: typing.Any
    factor: dataclasses.InitVar[float] = 1.0
    kind: typing.ClassVar[str] = "rich"
    later: typing.Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self, factor):
        self.note = f"factor {factor}"


CLASSES = [Plain, Frozen, Slots, FrozenSlots, Derived, Rich]
X, Y = np.array([1.0, -2.0, 3.0], "float32"), np.array([0.5, 4.0, -1.0], "float32")
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def numbers(value):
    return [np.asarray(getattr(value, name)) for name in ("x", "n")]


def same(value, cls, x, n):
    assert type(value) is cls
    for got, wanted in zip(numbers(value), (x, n)):
        np.testing.assert_array_equal(got, np.asarray(wanted))


def scaled(s, by):
    return type(s)(x=s.x * by, n=s.n + 1.0)


USES = {
    "argument and result": lambda cls: lm.function(lambda s: scaled(s, 2.0))(cls(x=X, n=Y)),
    "keyword": lambda cls: lm.function(lambda *, s: {"s": scaled(s, 2.0)})(s=cls(x=X, n=Y))["s"],
    "cond": lambda cls: lm.cond(lm.constant(True), lambda: cls(x=X * 2, n=Y + 1), lambda: cls(x=X, n=Y)),
    "switch": lambda cls: lm.switch(lm.constant(1), [lambda: cls(x=X, n=Y), lambda: cls(x=X * 2, n=Y + 1)]),
    "while_loop": lambda cls: lm.while_loop(lambda s: lm.sum(s.n) < 6.0, lambda s: scaled(s, 2.0), cls(x=X, n=Y)),
    "fori_loop": lambda cls: lm.fori_loop(0, 1, lambda i, s: scaled(s, 2.0), cls(x=X, n=Y)),
    "scan's state": lambda cls: lm.scan(lambda s, row: (scaled(s, row), None), cls(x=X, n=Y), lm.constant([2.0]))[0],
    "scan's slices": lambda cls: lm.scan(lambda s, row: (s, scaled(row, 2.0)), lm.constant(0.0), cls(x=X, n=Y))[1],
    "associative_scan": lambda cls: lm.tree.map(lambda x: x[1], lm.associative_scan(lambda a, b: type(a)(x=a.x * b.x, n=a.n + b.n), cls(x=lm.stack([X, X * 0.0 + 2.0]), n=lm.stack([Y, X * 0.0 + 1.0])))),
    "checkpoint": lambda cls: lm.checkpoint(lambda s: scaled(s, 2.0))(cls(x=lm.constant(X), n=lm.constant(Y))),
    "vmap": lambda cls: lm.vmap(lambda row: scaled(row, 2.0))(cls(x=lm.constant(X), n=lm.constant(Y))),
    "vmap by axes": lambda cls: lm.vmap(lambda row: scaled(row, 2.0), in_axes=(cls(x=0, n=0),))(cls(x=lm.constant(X), n=lm.constant(Y))),
    "tree.map": lambda cls: lm.tree.map(operator.add, cls(x=X, n=Y), cls(x=X, n=np.ones(3, "float32"))),
    "tree.unflatten": lambda cls: lm.tree.unflatten(lm.tree.structure(cls(x=0, n=0)), [X * 2, Y + 1]),
    "data": lambda cls: next(iter(lm.data.Dataset.from_tensor_slices(cls(x=X * 2, n=Y + 1)).batch(3))),
    "host_map": lambda cls: next(iter(lm.data.Dataset.from_tensor_slices((X, Y)).batch(3).host_map(lambda x, y: cls(x=np.asarray(x) * 2, n=np.asarray(y) + 1)))),
}


@every_class
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("use", USES)
def test_a_dataclass_goes_through(use, traced, cls):
    if traced and ("data" in use or use == "host_map"):
        run = USES[use]
    else:
        run = lm.function(lambda cls: USES[use](cls)) if traced else USES[use]
    same(run(cls), cls, X * 2, Y + 1)


DERIVATIVES = {
    "grad": lambda f, s: lm.grad(f)(s),
    "value_and_grad": lambda f, s: lm.value_and_grad(f)(s)[1],
    "vjp": lambda f, s: lm.vjp(f, s)[1](lm.constant(1.0))[0],
    "jacobian": lambda f, s: lm.jacobian(f)(s),
}


@every_class
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_derivatives_by_a_dataclass_are_one(derivative, traced, cls):
    def run(s):
        return DERIVATIVES[derivative](lambda s: lm.sum(lm.checkpoint(lambda s: scaled(s, 2.0))(s).x * s.n), s)
    same((lm.function(run) if traced else run)(cls(x=lm.constant(X), n=lm.constant(Y))), cls, 2 * Y, 2 * X)


@every_class
def test_a_traced_function_of_dataclasses_is_traced_once(cls):
    f = lm.function(lambda s, t: s.x * 2.0 + t.n)
    for x in (X, Y):
        np.testing.assert_array_equal(f(cls(x=x, n=x), cls(x=X, n=X)).numpy(), x * 2 + X)
    assert f.trace_count == 1
    f(cls(x=X, n=None), cls(x=X, n=X))
    assert f.trace_count == 2


def test_what_is_no_field_stays_with_the_object():
    same(lm.function(lambda s: s)(Rich(X, Y, 3.0)), Rich, X, Y)
    assert lm.function(lambda s: lm.tree.map(lambda x: x * 2, s))(Rich(X, Y, 3.0)).note == "factor 3.0"
    late = Rich(X, Y)
    f = lm.function(lambda s: s.x if not hasattr(s, "later") else s.x + s.later)
    np.testing.assert_array_equal(f(late).numpy(), X)
    late.later = Y
    np.testing.assert_array_equal(f(late).numpy(), X + Y)
    assert [id(leaf) for leaf in lm.tree.leaves(late)] == [id(late.x), id(late.n), id(late.later)]


def test_different_classes_are_different_structures():
    with pytest.raises(lm.errors.InvalidArgument, match=r"cond: the second branch returns Frozen\(x=Tensor, n=Tensor\), the first one Plain\("):
        lm.function(lambda c: lm.cond(c, lambda: Plain(X, Y), lambda: Frozen(X, Y)))(lm.constant(True))
    with pytest.raises(lm.errors.InvalidArgument, match="the structures differ"):
        lm.tree.map(operator.add, Plain(X, Y), Frozen(X, Y))
    with pytest.raises(lm.errors.TypeMismatch, match="scan: a str at .n is not a tensor"):
        lm.scan(lambda s, x: (s, x), Plain(X, "text"), lm.constant([1.0]))
    loop = Plain(X, None)
    loop.n = loop
    with pytest.raises(lm.errors.InvalidArgument, match="contains itself"):
        lm.tree.leaves(loop)
    with pytest.raises(lm.errors.InvalidArgument, match="contains itself"):
        lm.while_loop(lambda s: False, lambda s: s, loop)


# Programs in converted code: each runs eagerly, as Python, and traced.

def branch_makes_one(make, x, n):
    s = make(x=x, n=n)
    if lm.sum(x) > 0:
        s = make(x=x * 2.0, n=n + 1)
    return s.x, s.n


def both_branches_make_one(make, x, n):
    if lm.sum(x) > 0:
        s = make(x=x * 2.0, n=n + 1)
    else:
        s = make(x=x, n=n)
    return s


def loop_makes_the_next(make, x, n):
    s = make(x=x, n=0)
    for i in lm.range(n):
        s = make(x=s.x * 0.5, n=s.n + i)
    return s


def loop_replaces(make, x, n):
    s = make(x=x, n=n)
    while lm.sum(lm.abs(s.x)) > 0.1:
        s = dataclasses.replace(s, x=s.x * 0.5, n=s.n + 1)
    return s


def early_return(make, x, n):
    for i in lm.range(n):
        if i > 0 and lm.sum(x) > 1.0:
            return make(x=x + 1.0, n=i)
    return make(x=x, n=n * 2)


def early_break(make, x, n):
    best = make(x=x, n=-1)
    for i, row in enumerate(x):
        if row < 0:
            best = make(x=best.x + row, n=i)
            break
    return best


def nested(make, x, n):
    s = {"a": make(x=(x, [x]), n=n), "b": [make(x=x, n=n)]}
    if lm.sum(x) > 0:
        s = {"a": make(x=(x * 2.0, [x + 1.0]), n=n + 1), "b": [make(x=x - 1.0, n=n)]}
    return s["a"].x[0] + s["a"].x[1][0] + s["b"][0].x, s["a"].n


def without_a_part(make, x, n):
    s = make(x=x, n=None)
    for i in lm.range(n):
        s = make(x=s.x + 1.0, n=None)
    return s.x, s.n is None


def chosen(make, x, n):
    s = make(x=x, n=n) if lm.sum(x) > 0 else make(x=-x, n=n + 1)
    return s.x, s.n


def through_a_call(make, x, n):
    def step(s):
        if lm.sum(s.x) > 1.0:
            return make(x=s.x * 0.5, n=s.n + 1)
        return s
    s = make(x=x, n=n)
    for _ in range(4):
        s = step(s)
    return s.x, s.n


def argument_is_replaced(make, x, n):
    def f(s):
        if lm.sum(s.x) > 0:
            s = make(x=s.x * 2.0, n=s.n)
        return s.x + 1.0, s.n
    return f(make(x=x, n=n))


def two_names(make, x, n):
    a, b = make(x=x, n=n), make(x=x * 3.0, n=n + 5)
    for _ in lm.range(n):
        a, b = make(x=b.x * 0.5, n=b.n), make(x=a.x, n=a.n + 1)
    return a, b


def changed_in_place(make, x, n):
    s = make(x=x, n=n)
    if lm.sum(x) > 0:
        s.x = s.x * 2.0
        s.n += 1
    for _ in lm.range(n):
        s.x = s.x + 1.0
    return s.x, s.n


def made_then_changed(make, x, n):
    s = make(x=x, n=0)
    for i in lm.range(n):
        s = make(x=s.x, n=s.n)
        s.n = s.n + i
        s.x += 0.5
    return s.x, s.n


def another_name_keeps_the_old_one(make, x, n):
    s = old = make(x=x, n=n)
    if lm.sum(x) > 0:
        s = make(x=x * 2.0, n=n + 1)
    return s.x, s.n, old.x, old.n


def changed_through_another_name(make, x, n):
    s = old = make(x=x, n=n)
    if lm.sum(x) > 0:
        s = make(x=x * 2.0, n=n + 1)
    old.x = old.x + 10.0
    return s.x, s.n, old.x


def aliased_in_a_branch(make, x, n):
    s, t = make(x=x, n=n), make(x=x + 1.0, n=n)
    if lm.sum(x) > 0:
        t = s
    t.x = t.x * 5.0
    return s.x, t.x


def held_by_a_list(make, x, n):
    s = make(x=x, n=n)
    kept = [s]
    for i in lm.range(n):
        s = make(x=s.x + 1.0, n=s.n)
    s.x = s.x * 2.0
    return s.x, kept[0].x


def copied(make, x, n):
    s = make(x=x, n=n)
    for i in lm.range(n):
        t = copy.copy(s)
        t.x = t.x + 1.0
        s = t
    return s.x, s.n


VALUES = [branch_makes_one, both_branches_make_one, loop_makes_the_next, loop_replaces, early_return, early_break, nested, without_a_part, chosen, through_a_call,
          argument_is_replaced, two_names, another_name_keeps_the_old_one]
CHANGES = [changed_in_place, made_then_changed, copied]
MAY_BE_REFUSED = [changed_through_another_name, aliased_in_a_branch, held_by_a_list]


def flat(value):
    return [np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf, "float64") for leaf in lm.tree.leaves(value)]


@every_class
@pytest.mark.parametrize("program", VALUES + CHANGES + MAY_BE_REFUSED, ids=lambda program: program.__name__)
def test_converted_code_does_what_python_does(program, cls):
    if program not in VALUES and cls.__dataclass_params__.frozen:
        with pytest.raises((lm.errors.Error, AttributeError)):
            program(cls, lm.constant(X), lm.constant(2))
        return
    traced = lm.function(lambda x, n: program(cls, x, n))
    for x, n in ((X, 3), (-X, 2), (Y, 0)):
        wanted = program(cls, lm.constant(x), n)
        try:
            got = traced(lm.constant(x), lm.constant(n))
        except lm.errors.Error as error:
            assert program in MAY_BE_REFUSED, error
            return
        for a, b in zip(flat(got), flat(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@every_class
def test_gradients_through_a_loop_of_dataclasses(cls):
    def loss(x):
        s = cls(x=x, n=0)
        for i in lm.range(lm.constant(3)):
            s = cls(x=s.x * s.x * 0.5, n=s.n + 1)
        return lm.sum(s.x)
    x = lm.constant(Y)
    wanted = lm.grad(lambda x: lm.sum((((x * x * 0.5) ** 2) * 0.5) ** 2 * 0.5))(x)
    np.testing.assert_allclose(lm.function(lm.grad(loss))(x).numpy(), wanted.numpy(), rtol=1e-5)


def test_print_shows_the_fields_that_have_values(capsys):
    lm.print(Rich(lm.constant(1.0), lm.constant(2.0)))
    assert capsys.readouterr().out == "Rich(x=1, n=2)\n"


@dataclasses.dataclass(eq=False)
class Pair:
    x: typing.Any
    n: typing.Any


class Choice(Pair, enum.Enum):
    """Members cannot be copied."""
    ONE = (1, 2.0)
    TENSOR = (lm.constant(X), lm.constant(Y))


def test_members_of_enumerations_stay_what_they_are():
    f = lm.function(lambda c, x: (c, x * c.n))
    assert f(Choice.ONE, X)[0] is Choice.ONE and f(Choice.ONE, X)[1].numpy()[0] == 2.0
    for use in (lambda: f(Choice.TENSOR, X), lambda: lm.tree.map(lambda x: x * 2, Choice.TENSOR), lambda: lm.vmap(lambda c: c.x)(Choice.TENSOR)):
        with pytest.raises(lm.errors.TypeMismatch, match="the copy of a Choice is itself"):
            use()
    np.testing.assert_array_equal(Choice.TENSOR.x.numpy(), X)


@pytest.mark.parametrize("claim", [5, None, [("x", 1)], {"x": 1}, {1: 2}], ids=repr)
def test_a_class_that_claims_to_be_a_dataclass_is_an_object(claim):
    class Claims:
        __dataclass_fields__ = claim
        x = 2.0

    one = Claims()
    np.testing.assert_array_equal(lm.function(lambda c, x: x * c.x)(one, X).numpy(), X * 2)
    assert lm.function(lambda x: (x, one))(X)[1].x == 2.0
    assert lm.tree.leaves({"a": one, "b": 1}) in ([one, 1], [1])
    with pytest.raises(lm.errors.TypeMismatch) if not isinstance(claim, dict) else contextlib.nullcontext():
        assert type(lm.cond(lm.constant(True), lambda: one, lambda: one)) is Claims


@pytest.mark.parametrize("cls", [Plain, Frozen, Slots], ids=lambda cls: cls.__name__)
def test_objects_that_reach_themselves_stay_python_objects(cls):
    def f(x):
        node = cls(x=[], n=1)
        node.x.append(node)
        pair = ([], node)
        pair[0].append(pair)
        other = node
        for _ in lm.range(lm.constant(3)):
            x = x + node.n
            if lm.sum(x) > 3.0:
                x = x + pair[1].n
            other = node
        return x, other is node
    traced, kept = lm.function(f)(lm.constant(X))
    assert traced.numpy().tolist() == f(lm.constant(X))[0].numpy().tolist() and kept


@dataclasses.dataclass
class Table(dict):
    x: typing.Any = None


def test_a_dict_is_a_dict_whatever_decorates_its_class():
    table = Table(x=1)
    table["k"] = lm.constant(X)
    assert lm.tree.leaves(table) == [table["k"]]
    np.testing.assert_array_equal(lm.function(lambda t: t["k"] * 2)(table).numpy(), X * 2)


@dataclasses.dataclass(eq=False)
class Net(lm.Module):
    """A Module is an object, also where its class is a dataclass."""
    units: int
    weights: typing.Any = None

    def __call__(self, x):
        if self.weights is None:
            self.weights = lm.Variable(lm.ones((3, self.units)), name="made")
        return x @ self.weights


def test_a_module_that_is_a_dataclass_is_an_object():
    net = Net(2)
    f = lm.function(lambda net, x: net(x))
    first = f(net, X[None])
    made = net.weights
    np.testing.assert_array_equal(f(net, X[None]).numpy(), first.numpy())
    assert net.weights is made and net.trainable_variables == [made] and lm.tree.leaves([net]) == [net] and f.trace_count <= 2
    made.assign(made * 2.0)
    np.testing.assert_array_equal(f(net, X[None]).numpy(), 2 * first.numpy())


@dataclasses.dataclass
class Weights:
    kernel: typing.Any
    layers: list
    scale: float = 2.0


class Holding(lm.Module):
    def __init__(self):
        super().__init__()
        self.inside = Weights(lm.Variable(X), [lm.nn.Dense(3)])

    @lm.function(input_signature=[lm.TensorSpec([None, 3])])
    def __call__(self, x):
        return self.inside.layers[0](x) * self.inside.kernel * self.inside.scale


def test_what_a_module_has_in_a_dataclass_is_found_trained_and_saved(tmp_path):
    module = Holding()
    wanted = module(X[None]).numpy()
    dense = module.inside.layers[0]
    assert module.modules == [dense] and len(module.trainable_variables) == 3
    assert list(module.state_dict()) == ["inside.kernel", "inside.layers.0.kernel", "inside.layers.0.bias"]
    lm.save(module, tmp_path / "saved")
    loaded = lm.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded(X[None]).numpy(), wanted)
    assert loaded.inside.scale == 2.0 and type(loaded.inside).__name__ == "Weights" and len(loaded.trainable_variables) == 3
    own = lm.load(tmp_path / "saved", custom={"Weights": Weights, "Holding": Holding})
    assert type(own.inside) is Weights
    np.testing.assert_array_equal(own.inside.kernel.numpy(), X)
    dense.trainable = False
    assert [v is module.inside.kernel for v in module.trainable_variables] == [True]
    module.inside.kernel.assign(Y)
    np.testing.assert_array_equal(copy.deepcopy(module)(X[None]).numpy(), module(X[None]).numpy())
