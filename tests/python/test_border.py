"""Every public function, class, method and property, called with nothing, too much, unknown names and wrong types: what it raises is Lamina's error and
says what, where, why and how to fix it. No words of nanobind, Python or the C++ library reach a user."""
import inspect
import operator
import re

import numpy as np
import public_surface
import pytest

import lamina as lm

FOREIGN = re.compile(r"incompatible function arguments|std::|nanobind|nb_|bad_cast|_core\.|NoneType' object has|object has no attribute|unhashable type: 'lamina")

# They write, wait, or end the process, and have tests of their own.
NOT_CALLED = {"lamina.print": "writes", "lamina.Explanation": "made by explain()", "lamina.profiler.DeviceStep": "a record", "lamina.profiler.TimedRange": "a record",
              "lamina.check": "what fails is the message that it is given", "lamina.data.read_idx": "reads any file", "lamina.testing.fma_peak": "takes a second", "lamina.profiler.capture": "devices", "lamina.config.experimental_run_functions_eagerly": "warns once, which another test waits for"}
# Python's own protocols, whose errors Python raises.
PROTOCOLS = {"__init_subclass__", "__subclasshook__", "__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__dir__", "__sizeof__", "__class__", "__getattribute__",
             "__getattr__", "__setattr__", "__delattr__", "__hash__", "__repr__", "__str__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__weakref__", "__dict__", "__module__", "__doc__",
             "__init__", "__dlpack__", "__dlpack_device__", "__buffer__", "__release_buffer__", "__array_priority__", "__annotations__", "__match_args__", "__class_getitem__", "__enter__", "__exit__", "__format__", "__iter__", "__len__", "__next__"}


def functions():
    return ((name, value) for name, value in public_surface.callables() if name not in NOT_CALLED)


def objects():
    x = lm.constant([[1.0, 2.0], [3.0, 4.0]])
    f = lm.function(lm.relu)
    f(x)
    dense = lm.nn.Dense(2)
    dense(x)
    model = lm.nn.Sequential([lm.nn.Dense(2)])
    model(x)
    metric, loss, tape = lm.metrics.Accuracy(), lm.losses.MeanSquaredError(), lm.GradientTape(persistent=True)
    made = [x, lm.Variable(x), lm.float32, x.at, x.at[0], f, f.get_concrete_function(x), lm.TensorSpec((2,), lm.float32), tape, lm.Graph(), lm.profiler.range("a"), lm.profiler.record(),
            lm.data.Dataset.from_tensor_slices(np.zeros((4, 2), "float32")), metric, loss, lm.losses.Huber(), lm.losses.SparseCrossEntropy(), lm.optim.SGD(0.1), lm.optim.Adam(), lm.optim.RMSprop(),
            lm.optim.AdamW(), lm.optim.Nadam(), lm.optim.Adagrad(), lm.optim.Lion(), lm.optim.schedules.CosineDecay(0.1, 5), dense, model, lm.nn.Flatten(), lm.nn.Dropout(0.5), lm.nn.Activation("relu"), lm.nn.LayerNorm(), lm.nn.BatchNorm(), lm.nn.Embedding(4, 2), lm.nn.Conv2D(2, 3),
            lm.nn.LSTM(2), lm.nn.Bidirectional(lm.nn.GRU(2)), lm.nn.MultiHeadAttention(2, 2), lm.nn.GroupNorm(2), lm.nn.Add(), lm.nn.MaxPool2D(), lm.nn.initializers.zeros(), lm.nn.Callback(), lm.nn.History(), lm.device("cpu:0"), lm.progress.ProgressBar(3, verbose=0)]
    return made


def methods():
    for o in objects():
        for name in dir(type(o)):
            if name in PROTOCOLS or (name.startswith("_") and not (name.startswith("__") and name.endswith("__"))):
                continue
            static = inspect.getattr_static(type(o), name)
            if static is vars(object).get(name):
                continue
            if isinstance(static, property) or type(static).__name__ in ("getset_descriptor", "member_descriptor", "wrapper_descriptor") or not callable(getattr(o, name, None)):
                continue
            yield f"{type(o).__module__}.{type(o).__name__}.{name}", getattr(o, name)


class Odd:
    """Nothing that Lamina knows."""


TENSOR = lm.constant([[1.0, 2.0]])
WRONG = [Odd(), "no such word", None, {}, [Odd()], 1 + 2j, b"bytes", float("nan"), -1, 2**70, TENSOR, lambda: None]


def calls(rng):
    yield (), {}
    yield (Odd(),) * 40, {}
    yield (), {"no_such_argument": 1}
    yield (TENSOR,), {"no_such_argument": 1}
    for value in WRONG:
        yield (value,), {}
    for _ in range(12):
        yield tuple(WRONG[i] for i in rng.integers(0, len(WRONG), int(rng.integers(2, 5)))), {}
    for _ in range(4):
        yield (TENSOR, *(WRONG[i] for i in rng.integers(0, len(WRONG), int(rng.integers(1, 3))))), {}


def described(name, args, kwargs):
    return f"{name}({', '.join([repr(a)[:40] for a in args][:5] + [f'{k}={v!r}' for k, v in kwargs.items()])})"


def complaints(name, callable_, rng):
    out = []
    for args, kwargs in calls(rng):
        try:
            result = callable_(*args, **kwargs)
            if inspect.isgenerator(result):
                result.close()
            continue
        except lm.errors.Error as error:
            parts = {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix}
            missing = [k for k, v in parts.items() if not v]
            if isinstance(error, lm.errors.InternalError):
                out.append(f"{described(name, args, kwargs)}: InternalError {error}")
            elif missing:
                out.append(f"{described(name, args, kwargs)}: without {missing}: {error}")
            elif FOREIGN.search(str(error)):
                out.append(f"{described(name, args, kwargs)}: foreign words: {error}")
            elif "test_border.py" not in error.where and "argument" not in error.where:
                out.append(f"{described(name, args, kwargs)}: not the user's line: {error}")
        except (StopIteration, MemoryError):
            pass
        except Exception as error:
            out.append(f"{described(name, args, kwargs)}: {type(error).__name__}: {error}")
    return out


def all_complaints(found):
    rng = np.random.default_rng(7)
    out, seen = [], 0
    try:
        for name, callable_ in found:
            seen += 1
            out += complaints(name, callable_, rng)
    finally:
        lm.config.run_functions_eagerly(False)
        lm.config.set_matmul_precision("float32")
    return out, seen


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some functions write the files that they are given


def test_functions_and_classes(capfd):
    out, seen = all_complaints(functions())
    capfd.readouterr()
    assert seen > 250 and not out, f"{len(out)} of them:\n" + "\n".join(out[:60])


def test_methods(capfd):
    out, seen = all_complaints(methods())
    capfd.readouterr()
    assert seen > 150 and not out, f"{len(out)} of them:\n" + "\n".join(out[:60])


@pytest.mark.parametrize("call, error, words", [
    (lambda: lm.softmax(), TypeError, "softmax: the argument 'x' is missing.*it takes softmax\\(x, axis=-1\\)"),
    (lambda: lm.softmax(TENSOR, axes=1), TypeError, "softmax: there is no argument 'axes'.*write axis="),
    (lambda: lm.softmax(TENSOR, 1, 2), TypeError, "softmax: 3 arguments were given by position, it takes at most 2"),
    (lambda: lm.softmax(TENSOR, x=TENSOR), TypeError, "softmax: the argument 'x' was given twice"),
    (lambda: lm.softmax(TENSOR, "1"), TypeError, "softmax: the argument 'axis' is a str, '1'.*pass an int"),
    (lambda: lm.softmax(TENSOR, 2**63), TypeError, "softmax: the argument 'axis' is 9223372036854775808, which does not fit"),
    (lambda: lm.relu(None), TypeError, "relu: the argument 'x' is a NoneType"),
    (lambda: lm.nn.Dense(), TypeError, "Dense: the argument 'units' is missing.*it takes Dense\\(units, activation=None"),
    (lambda: lm.nn.Dense(2, unit=3), TypeError, "Dense: there is no argument 'unit'.*write units="),
    (lambda: lm.grad(), TypeError, "grad: the argument 'fn' is missing"),
    (lambda: lm.optim.SGD(rate=0.1), TypeError, "SGD: there is no argument 'rate'"),
    (lambda: TENSOR.sum(5, True, 3), TypeError, "Tensor.sum: 3 arguments were given by position, it takes at most 2"),
    (lambda: lm.function(lambda a, b=2: a)(), TypeError, "missing 1 required positional argument: 'a'.*it takes .*\\(a, b=2\\)"),
    (lambda: type(lm.float32)(), TypeError, "made by Lamina alone"),
])
def test_a_wrong_call_says_what_is_wrong(call, error, words):
    with pytest.raises(error, match=f"(?s){words}") as info:
        call()
    assert isinstance(info.value, lm.errors.Error) and "test_border.py" in info.value.where and info.value.why and info.value.fix


def test_errors_of_the_users_own_code_stay_as_they_are():
    def broken(x):
        return x.no_such_thing

    def fails(x):
        raise KeyError("mine")

    for call, error in ((lambda: lm.grad(broken)(TENSOR), AttributeError), (lambda: lm.grad(fails)(TENSOR), KeyError), (lambda: lm.function(fails)(TENSOR), KeyError),
                        (lambda: lm.vmap(fails)(TENSOR), KeyError), (lambda: lm.cond(True, lambda: fails(1), lambda: 0), KeyError)):
        with pytest.raises(error) as info:
            call()
        assert not isinstance(info.value, lm.errors.Error)

    class Mine(lm.nn.Layer):
        def call(self, x):
            return fails(x)

    with pytest.raises(KeyError, match="mine"):
        Mine()(TENSOR)


def test_attributes_that_are_asked_for_are_missing_as_in_python():
    for o in (TENSOR, lm.Variable(1.0), lm.float32, lm.nn.Dense(2), lm.optim.SGD(0.1), lm):
        assert not hasattr(o, "no_such_attribute") and getattr(o, "no_such_attribute", 7) == 7


@pytest.mark.parametrize("use", [lambda t, b: t + b, lambda t, b: b * t, lambda t, b: t @ b, lambda t, b: t[b], lambda t, b: t ** b, lambda t, b: t < b, lambda t, b: t.at[b].set(1.0)])
@pytest.mark.parametrize("value", [[0, "a"], [object()], slice(0.5), slice("a", None), 2**70, [1, True], "a", Odd()])
def test_operators_and_indices_say_what_is_wrong(use, value):
    for t in (TENSOR, lm.Variable(TENSOR)):
        with pytest.raises((TypeError, ValueError)) as info:
            use(t, value)
        if not isinstance(info.value, lm.errors.Error):  # Python's own, when neither side knows the other
            assert re.search("unsupported operand|not supported between|can't multiply", str(info.value)), info.value
        else:
            assert info.value.what and info.value.where and info.value.why and info.value.fix and not FOREIGN.search(str(info.value)), info.value


@pytest.mark.filterwarnings("ignore:nanobind")
def test_objects_whose_init_has_not_run_have_a_repr():
    shown = 0
    for name, owner in public_surface.callables():
        if isinstance(owner, type) and next(c for c in owner.__mro__ if "__repr__" in vars(c)).__module__.startswith("lamina"):
            try:
                half_made = owner.__new__(owner)
            except TypeError:  # of classes that only Lamina makes
                continue
            try:
                shown += isinstance(repr(half_made), str)
            except lm.errors.Error:
                shown += 1
    assert shown > 50, shown


def of_two(a, b):
    return a


class OfTwo:
    def __call__(self, a, b):
        return a


@pytest.mark.parametrize("call, said", [
    (lambda f: lm.while_loop(f, lambda s: s, lm.constant(0)), r"state = body\(state\) as long as condition\(state\)"), (lambda f: lm.while_loop(lambda s: s < 3, f, lm.constant(0)), r"state = body\(state\)"),
    (lambda f: lm.fori_loop(0, 3, lambda: 0, lm.constant(0)), ""), (lambda f: lm.scan(lambda a: a, lm.constant(0), lm.arange(3)), r"state, y = body\(state, x\)"), (lambda f: lm.cond(lm.constant(True), f, f, 1.0), ""),
    (lambda f: lm.switch(lm.constant(0), [f, f], 1.0), ""), (lambda f: lm.associative_scan(lambda a: a, lm.arange(3)), "")], ids=["condition", "body", "fori_loop", "scan", "cond", "switch", "associative_scan"])
@pytest.mark.parametrize("f", [of_two, OfTwo()], ids=["function", "object"])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_function_with_other_parameters_than_it_is_called_with_is_told_how_it_is_called(call, said, f, traced):
    with pytest.raises(TypeError, match=r"missing 1 required positional argument|takes \d+ positional arguments? but") as caught:
        lm.function(lambda: call(f))() if traced else call(f)
    if isinstance(caught.value, lm.errors.Error):
        assert __file__ in caught.value.where and "check the arguments of" not in caught.value.fix
        assert re.search(said, caught.value.why)


def test_an_operand_larger_than_memory_is_an_error_of_laminas():
    class Lying(list):  # Python asks it, and finds that so much is not there
        def __len__(self):
            return 10**12

    x = lm.ones(3)
    for call in (operator.add, operator.mul, operator.eq, lambda x, y: y in x, lambda x, y: x[y], lm.add):
        with pytest.raises(lm.errors.OutOfMemory) as error:
            call(x, Lying([1.0]))
        assert error.value.fix == "ask for less at a time" and "test_border.py" in error.value.where
