"""Values that Python code may pass by accident: endless containers, arguments that change while they are read, half-made objects, sizes
that overflow. Each is a named error, never a crash."""
import collections
import dataclasses
import sys
import threading

import numpy as np
import pytest

import lamina as lm


@dataclasses.dataclass
class Node:
    value: object
    parent: object = None
    children: list = dataclasses.field(default_factory=list)


def tree():
    root = Node(lm.constant(1.0))
    root.children.append(Node(lm.constant(2.0), root))
    return root


def cyclic_list():
    inside = [lm.constant(1.0)]
    inside.append(inside)
    return inside


def cyclic_dict():
    inside = {"x": lm.constant(1.0)}
    inside["self"] = (inside,)
    return inside


def deep(levels=100_000):
    value = lm.constant(1.0)
    for _ in range(levels):
        value = [value]
    return value


def doubled():
    """2 ** 60 leaves in 60 lists."""
    value = [lm.constant(1.0)]
    for _ in range(60):
        value = [value, value]
    return value


def taped(method):
    def call(value):
        with lm.GradientTape(persistent=True) as tape:
            x = lm.constant(1.0)
            tape.watch(x)
            y = x * x
            return {"watch": lambda: tape.watch(value), "target": lambda: tape.gradient(value, x), "sources": lambda: tape.gradient(y, value),
                    "jacobian": lambda: tape.jacobian(y, value)}[method]()
    return call


def loaded(value):
    layer = lm.nn.Dense(2)
    layer(lm.ones((1, 3)))
    layer.load_state_dict({"kernel": value, "bias": value})


x = np.ones(3, "float32")
walkers = {
    "an argument": lambda value: lm.function(lambda a: 1.0)(value),
    "a keyword argument": lambda value: lm.function(lambda *, a: 1.0)(a=value),
    "explain": lambda value: lm.function(lambda a: 1.0).explain(value),
    "a result": lambda value: lm.function(lambda: value)(),
    "constant": lm.constant,
    "an operand": lambda value: lm.constant(1.0) + value,
    "a shape": lm.zeros,
    "axes": lambda value: lm.sum(lm.ones((2, 3)), axis=value),
    "an index": lambda value: lm.ones(3)[value],
    "watch": taped("watch"), "gradient of": taped("target"), "gradient by": taped("sources"), "jacobian by": taped("jacobian"),
    "cond": lambda value: lm.cond(lm.constant(True), lambda: value, lambda: value),
    "while_loop": lambda value: lm.while_loop(lambda s: lm.constant(False), lambda s: s, value),
    "scan init": lambda value: lm.scan(lambda s, v: (s, v), value, x),
    "scan xs": lambda value: lm.scan(lambda s, v: (s, v), 1.0, value),
    "scan ys": lambda value: lm.scan(lambda s, v: (s, value), 1.0, x),
    "checkpoint": lambda value: lm.function(lambda: lm.checkpoint(lambda: value)())(),
    "vmap": lambda value: lm.vmap(lambda a: a)(value),
    "vmap in_axes": lambda value: lm.vmap(lambda a: a, in_axes=(value,))(value),
    "vmap out_axes": lambda value: lm.vmap(lambda a: value, out_axes=value)(x),
    "vmap result": lambda value: lm.vmap(lambda a: value)(x),
    "grad": lambda value: lm.grad(lambda a: 1.0)(value),
    "jacobian": lambda value: lm.jacobian(lambda a: a)(value),
    "vjp": lambda value: lm.vjp(lambda a: a, value),
    "jvp": lambda value: lm.jvp(lambda a: a, (value,), (value,)),
    "load_state_dict": loaded,
    "set_weights": lambda value: lm.nn.BatchNorm().set_weights([value]),
    "a dataset": lm.data.Dataset.from_tensor_slices,
    "a dataset's dict": lambda value: lm.data.Dataset.from_tensor_slices({"x": value}),
    "apply_gradients": lambda value: lm.optim.SGD().apply_gradients(value),
    "a layer": lambda value: lm.nn.Dense(2)(value),
    "concat": lambda value: lm.concat(value, 0),
    "input_signature": lambda value: lm.function(lambda a: a, input_signature=value),
    "fit": lambda value: compiled().fit(value, value, verbose=0),
    "predict": lambda value: compiled().predict(value),
}


def compiled():
    model = lm.nn.Sequential([lm.nn.Dense(1)])
    model.compile(loss="mse")
    return model


@pytest.mark.parametrize("make", [tree, cyclic_list, cyclic_dict, deep, doubled], ids=lambda make: make.__name__)
@pytest.mark.parametrize("walker", walkers)
def test_container_without_an_end_is_an_error(walker, make):
    if walker == "a keyword argument" and make is tree:  # the message is one of Lamina's, with a fix
        with pytest.raises(lm.errors.InvalidArgument, match="Node contains itself[^$]*fix:"):
            walkers[walker](make())
    with pytest.raises((lm.errors.Error, TypeError, ValueError)):
        walkers[walker](make())


def test_print_shows_a_cycle_as_python_does(capfd):
    lm.print(cyclic_list())
    assert capfd.readouterr().out == "[1, [...]]\n"


def test_cycle_of_lists_in_a_layer_is_harmless():
    layer = lm.nn.Layer()
    layer.parts = [lm.nn.Dense(2), lm.Variable(1.0, name="w")]
    layer.parts.append(layer.parts)
    layer.parts[0](lm.ones((1, 3)))
    assert len(layer.variables) == 3 and list(layer.state_dict()) == ["parts.0.kernel", "parts.0.bias", "parts.1"]


def test_containers_up_to_the_bound_go_through():
    value = deep(150)
    out = lm.function(lambda a: a)(value)
    for _ in range(150):
        out = out[0]
    assert float(out) == 1.0


# --- arguments that change while they are read ---

def test_lists_that_another_thread_changes():
    f = lm.function(lambda l: sum((t for t in l if isinstance(t, lm.Tensor)), lm.constant(0.0)))
    shared, stop, wrong = [lm.constant(1.0)] * 4, threading.Event(), []

    def change():
        while not stop.is_set():
            shared.append(lm.constant(1.0))
            shared.append(3)
            del shared[1:]
            shared.extend([lm.constant(1.0)] * 3)

    def call():
        for _ in range(200):
            try:
                if float(f(shared)) not in (1.0, 2.0, 3.0, 4.0, 5.0):
                    wrong.append("another sum than any state's")
            except lm.errors.Error as error:
                wrong.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=call) for _ in range(3)]
        changer = threading.Thread(target=change)
        for thread in [changer, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        changer.join()
    finally:
        sys.setswitchinterval(0.005)
    assert not wrong, wrong[:3]


class Restless:
    """A key whose hash changes each time."""

    def __init__(self):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return self.asked


class Lying(list):
    def __iter__(self):
        return iter([lm.constant(1.0)] * 100)

    def __len__(self):
        return 10**9


class Growing:
    """An endless sequence."""

    def __getitem__(self, i):
        return 1

    def __len__(self):
        return 2


@dataclasses.dataclass
class Moody:
    asked: int = 0

    def __getattribute__(self, name):
        if name != "asked":
            return object.__getattribute__(self, name)
        Moody.count = getattr(Moody, "count", 0) + 1
        return lm.constant(1.0) if Moody.count % 2 else 5


def test_values_that_lie():
    f = lm.function(lambda a: 1.0)
    assert f({Restless(): lm.constant(1.0)}) == 1.0
    assert f(Lying([lm.constant(1.0)])) == 1.0 and f((Lying(),)) == 1.0
    for call in (lambda: lm.concat(Lying([lm.ones(2)]), 0), lambda: lm.function(lambda a: a)(collections.OrderedDict(a=Lying()))):
        call()
    with pytest.raises(lm.errors.Error):
        lm.zeros(Growing())
    for _ in range(4):
        try:
            f(Moody())
        except lm.errors.InvalidArgument as error:
            assert "each time" in str(error)


# --- half-made objects ---

def bound_classes():
    """Every class reachable from lamina, by its full name."""
    found, seen, waiting = {}, set(), [lm, lm._core]
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for value in list(vars(module).values()):
            if isinstance(value, type(lm)) and value.__name__.startswith("lamina"):
                waiting.append(value)
            elif isinstance(value, type) and value.__module__.startswith("lamina") and not issubclass(value, BaseException):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


# Operations allowed on a half-made object: its address, its class, and copying, as for any object.
HARMLESS = {"__class__", "__new__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__", "__delattr__", "__dir__", "__doc__",
            "__init__", "__sizeof__", "__class_getitem__", "__dict__", "__weakref__", "__annotations__", "__module__", "__slots__"}
ARGUMENTS = [(), (1,), (lm.constant(1.0),), (1, 2), (lm.constant([1.0]), lm.constant([1.0]), 3)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(bound_classes()))
def test_half_made_objects_do_no_harm(name):
    cls = bound_classes()[name]
    try:
        half = cls.__new__(cls)
    except Exception:
        return  # there are none
    used = 0
    for attribute in sorted(set(dir(cls)) - HARMLESS):
        for arguments in ARGUMENTS:
            try:
                value = getattr(half, attribute)
                used += 1
                if callable(value):
                    value(*arguments)
            except Exception:
                pass
    for use in (lm.function(lambda a: 1.0), lm.constant, lm.sum, lm.zeros, lambda o: lm.ones(2) + o, lambda o: lm.ones(2)[o], lambda o: lm.cond(o, int, int),
                lambda o: lm.astype(lm.ones(2), o), lambda o: lm.function(lambda: o)(), lambda o: lm.vmap(o)(x), lambda o: lm.grad(o)(x), lm.nn.Sequential,
                lambda o: lm.optim.SGD(o), lambda o: lm.nn.Dense(2, o), lambda o: lm.nn.Dense(2, kernel_initializer=o)(lm.ones((1, 2))), repr, str, hash, bool):
        try:
            use(half)
        except Exception:
            pass
    assert used


@pytest.mark.parametrize("base, arguments", [(lm.Variable, (1.0,)), (lm.GradientTape, ()), (lm.nn.Layer, ()), (lm.optim.SGD, ()), (lm.nn.Model, ())])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_class_that_uses_itself_before_super_init(base, arguments):
    uses = [repr, str, hash, bool, len, lambda o: o + 1, lambda o: o[0], lambda o: o.variables, lambda o: o.read(), lambda o: o.__enter__(), lambda o: o(1),
            lambda o: lm.sum(o), lambda o: o.watch(lm.constant(1.0)), lambda o: lm.function(lambda a: 1.0)(o), lambda o: o.state_dict(), lambda o: o.learning_rate]

    class Early(base):
        def __init__(self):
            for use in uses:
                try:
                    use(self)
                except Exception:
                    pass
            super().__init__(*arguments)

    made = Early()
    assert repr(made)
    if base is lm.Variable:
        with pytest.raises(lm.errors.StateError, match=r"super\(\).__init__"):
            lm.sum(Early.__new__(Early))


def test_methods_refuse_another_type():
    for call in (lambda: lm.Tensor.__array__(5), lambda: lm.Tensor.__format__(5, "x"), lambda: lm.Variable.__format__(5, "x"), lambda: lm.Tensor.__add__(5, 6)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("layer, shape", [
    (lm.nn.Dense(2), (2, 3)), (lm.nn.Embedding(3, 2), (2,)), (lm.nn.BatchNorm(), (2, 3)), (lm.nn.LayerNorm(), (2, 3)), (lm.nn.LayerNorm(scale=False), (2, 3)),
    (lm.nn.Conv2D(2, 2), (1, 4, 4, 2)), (lm.nn.Conv1D(2, 2), (1, 4, 2)), (lm.nn.Conv2DTranspose(2, 2), (1, 4, 4, 2)),
    (lm.nn.LSTM(2), (1, 4, 2)), (lm.nn.RMSNorm(), (2, 3)), (lm.nn.GroupNorm(1), (2, 3)), (lm.nn.DepthwiseConv2D(2), (1, 4, 4, 2)), (lm.nn.Conv1DTranspose(2, 2), (1, 4, 2)),
], ids=lambda value: type(value).__name__ if isinstance(value, lm.nn.Layer) else "")
def test_call_before_build_is_an_error(layer, shape):
    given = lm.ones(shape) if not isinstance(layer, lm.nn.Embedding) else lm.zeros(shape, dtype="int32")
    with pytest.raises(lm.errors.StateError, match="layer|kernel"):
        layer.call(given)
    assert layer(given) is not None and layer.call(given) is not None


# --- sizes ---

@pytest.mark.parametrize("call", [
    lambda: lm.arange(2**62), lambda: lm.arange(2**62, dtype="int64"), lambda: lm.arange(-2**63, 2**63 - 1, dtype="int64"), lambda: lm.arange(2.0**62),
    lambda: lm.zeros((2**62,)), lambda: lm.ones((2**40,)), lambda: lm.full((2**31, 2**31, 2**31), 1), lambda: lm.zeros((0, 2**62, 2**62)),
    lambda: lm.nn.initializers.zeros()((2**40,)), lambda: lm.nn.initializers.glorot_uniform()((2**62, 2**62)), lambda: lm.random.uniform((2**62,)),
    lambda: lm.random.normal((2**33, 2**33)), lambda: lm.broadcast_to(lm.ones(1), (2**62,)), lambda: lm.tile(lm.ones(4), (2**62,)),
    lambda: lm.repeat(lm.ones(4), 2**62), lambda: lm.one_hot(lm.constant([0, 1]), 2**62), lambda: lm.eye(2**32), lambda: lm.linspace(0.0, 1.0, 2**62),
    lambda: lm.pad(lm.ones(2), ((2**62, 2**62),)), lambda: lm.reshape(lm.ones(4), (2**32, 2**32)),
])
def test_sizes_that_overflow_are_errors(call):
    try:
        out = call()
    except (lm.errors.Error, AttributeError):
        return
    assert out.size == 0


def test_integer_ranges_are_exact():
    for start, stop, step in [(2**53 + 1, 2**53 + 9, 1), (2**62, 2**62 + 10, 3), (-2**63, -2**63 + 5, 2), (2**63 - 1, 2**63 - 8, -3), (5, 1, -2), (1, 5, -2), (0, 0, 1)]:
        assert lm.arange(start, stop, step, dtype="int64").tolist() == list(range(start, stop, step))
    with pytest.raises(lm.errors.InvalidArgument, match="does not fit"):
        lm.arange(2**31 - 2, 2**31 + 2)


class Labelled(np.ndarray):
    """An array subclass of another library."""


@pytest.mark.parametrize("size", [1, 3])
def test_arrays_of_other_classes_are_arrays(size, tmp_path):
    plain = np.arange(size, dtype="float32")
    mapped = np.memmap(tmp_path / "x", "float32", "w+", shape=(size,))
    mapped[:] = plain
    x = lm.ones(size)
    for other in (plain.view(Labelled), mapped, np.ma.masked_array(plain)):
        for made in (x + other, lm.add(x, other), lm.function(lambda a, b: a + b)(x, other)):
            assert made.dtype == lm.float32 and made.shape == (size,) and np.array_equal(made.numpy(), plain + 1)


def test_masked_elements_are_refused():
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for use in (lm.constant, lambda v: lm.ones(2) + v, lambda v: lm.ones(2) == v, lm.function(lambda v: v)):
        with pytest.raises(lm.errors.TypeMismatch, match="masked"):
            use(masked)
