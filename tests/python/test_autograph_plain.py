"""AutoGraph leaves plain Python as it is: iterators, with statements, annotations, private names, numbers beside tensors, `and` and `or`, zip."""
import collections
import contextlib
import itertools
import os
import queue
import random
import textwrap

import numpy as np
import pytest
from test_autograph import both, made

import lamina as lm

c = lm.constant


# --- plain Python in traced functions ---

LEFT_LOOPS = {
    "break": "it = iter([1., 2., 3., 4.])\nfor k in it:\n    if k == 2.: break\nreturn x * next(it)",
    "return": "it = iter([1., 2., 3., 4.])\ndef first():\n    for k in it:\n        if k == 2.: return k\nreturn x * first() + next(it)",
    "two loops": "it, s = iter(range(9)), []\nfor k in it:\n    if k == 2: break\nfor k in it:\n    s.append(k)\n    if k == 5: break\nreturn x * sum(s) + next(it)",
    "generator": "made = []\ndef items():\n    for k in range(9):\n        made.append(k)\n        yield k\nfor k in items():\n    if k == 3: break\nreturn x * len(made)",
    "else": "it = iter([1., 2., 3.])\nfor k in it:\n    if k == 9.: break\nelse:\n    x = x + 1\nreturn x * len(list(it))",
}


@pytest.mark.parametrize("name", LEFT_LOOPS)
def test_a_python_loop_takes_no_item_after_it_is_left(name):
    f = made("def f(x):\n" + textwrap.indent(LEFT_LOOPS[name], "    "))
    both(f, [1.0, 2.0])


def test_a_python_loop_that_only_a_tensor_ends_has_a_bound():
    def endless(x):
        for _ in itertools.count():
            x = x * 0.5
            if lm.max(x) < 0.1:
                break
        return x

    def long(x):
        for _ in range(30):
            x = x * 0.5
            if lm.max(x) < 0.1:
                break
        return x
    with pytest.raises(lm.errors.ConversionFailed, match="a Python loop over a count has 10000 iterations, and no end yet") as error:
        lm.function(endless)(c([1.0]))
    assert "in endless" in error.value.where and "lm.range(n)" in error.value.fix
    both(long, [1.0])


SUPPRESSED = {
    "return": "with suppress(KeyError):\n    return x * {}['b']\nreturn x",
    "return without": "with suppress(KeyError):\n    return x * {'b': 2.}['b']\nreturn x",
    "continue": "for i in range(4):\n    with suppress(KeyError):\n        x = x * {1: 2.}[i]\n        continue\n    x = x + 10\nreturn x",
    "break": "for i in range(4):\n    with suppress(KeyError):\n        x = x * {1: 2.}[i]\n        break\n    x = x + 10\nreturn x",
    "raise in one arm": "if x.shape == (2,):\n    with suppress(KeyError):\n        raise KeyError('a')\nelse:\n    x = x * 3\nx = x + 1\nreturn x",
    "return in one arm": "if x.shape == (2,):\n    with suppress(KeyError):\n        return x * {}['a']\nreturn x + 1",
    "tensor": "if lm.sum(x) > 0:\n    with suppress(KeyError):\n        return x * 2\nreturn x + 1",
}


@pytest.mark.parametrize("name", SUPPRESSED)
def test_a_with_statement_may_swallow_exceptions(name):
    f = made("def f(x):\n" + textwrap.indent(SUPPRESSED[name], "    "), suppress=contextlib.suppress)
    both(f, [1.0, 2.0])
    both(f, [-1.0, -2.0])


ANNOTATED = {
    "python if": "if x.shape == (2,):\n    y: int = 1\nelse:\n    y: int = 2\nreturn x * y",
    "tensor if": "if lm.sum(x) > 0:\n    y: lm.Tensor = x * 2\nelse:\n    y: lm.Tensor\n    y = x\nreturn y",
    "loop": "for i in range(3):\n    y: 'a type' = x + i\n    x = y\nreturn x",
    "attribute": "class Part:\n    size: int = 3\nd = {}\nfor i in range(2):\n    d['k']: int = i\n    Part.more: int = i\nreturn x * d['k'] * len(Part.__annotations__)",
}


@pytest.mark.parametrize("name", ANNOTATED)
def test_variables_may_have_annotations(name):
    both(made("def f(x):\n" + textwrap.indent(ANNOTATED[name], "    ")), [1.0, 2.0])


class Private:
    __w = 3.0

    def parameter(self, __x): return __x * 2 if lm.sum(__x) > 0 else __x

    def nested(self, x):
        def g(y): return y * self.__w if lm.sum(y) > 0 else y
        return g(x)

    def in_lambda(self, x): return lm.grad(lambda y: lm.sum(y * y * self.__w))(x)

    def local_function(self, x):
        def __h(y): return y * 2
        if lm.sum(x) > 0:
            x = __h(x)
        return x

    def local(self, x):
        __t = x * 2
        if lm.sum(x) > 0:
            __t = __t + 1
        return __t

    def named(self, x):
        import math as __m
        try: raise KeyError("a")
        except KeyError as __e: return x * len(__e.args) * __m.pi

    def inner_class(self, x):
        class Other:
            __w = 5.0
            def twice(self, x): return x * self.__w if lm.sum(x) > 0 else x
        return Other().twice(x)

    def own_class(self, x): return x * Private.__w if lm.sum(x) > 0 and isinstance(self, Private) else x


@pytest.mark.parametrize("name", [n for n in vars(Private) if not n.startswith("_")])
def test_private_names_of_classes(name):
    both(getattr(Private(), name), [1.0, 2.0])


def test_private_names_of_a_local_class():
    class Local:
        __z = 2.0
        k = 3.0

        def method(self, x):
            def g(y): return y * Local.k * self.__z if lm.sum(y) > 0 else y
            return g(x)
    both(Local().method, [1.0, 2.0])


# --- Python numbers that meet tensors ---

MEETINGS = {
    "if": "y = x\nif p > 0: y = V\nreturn y", "else": "y = V\nif p > 0: y = x\nreturn y", "loop": "y = x\nfor i in range(p): y = V\nreturn y", "before a loop": "y = V\nfor i in range(p): y = x\nreturn y",
    "append": "out = []\nfor i in range(p):\n    out.append(x)\n    out.append(V)\nreturn out[1]", "started list": "out = [V]\nfor i in range(p): out.append(x)\nreturn out[0]",
    "item": "out = []\nfor i in range(p): out.append(x)\nout[0] = V\nreturn out[0]",
}
ELSEWHERE = ("else", "before a loop")  # the result is x


def meetings(*values):
    """(name, dtype, value); NumPy's numbers have a dtype of their own except in lists."""
    return pytest.mark.parametrize("name, dtype, value", [(n, *v) for n in MEETINGS for v in values if "out" in MEETINGS[n] or type(v[1]).__module__ != "numpy"])


@meetings(("float64", 0.1), ("float64", 1e300), ("int64", 2 ** 40), ("uint64", 2 ** 63 + 1), ("complex128", 0.1), ("float64", np.float64(0.1)), ("uint8", np.int32(30)))
def test_a_number_takes_the_dtype_of_the_tensor_that_it_meets(name, dtype, value):
    f = made("def f(x, p):\n" + textwrap.indent(MEETINGS[name], "    "), V=value)
    got = lm.function(f)(c(1, dtype=dtype), c(2))
    assert got.dtype == getattr(lm, dtype) and got.numpy() == np.asarray(1 if name in ELSEWHERE else value, dtype)


@meetings(("uint8", 300), ("uint32", -1), ("int32", 2.7), ("int32", 2 ** 40), ("bool", 5), ("uint8", np.int64(300)), ("int32", np.float64(2.7)))
def test_a_number_that_a_tensor_cannot_hold_is_refused(name, dtype, value):
    f = made("def f(x, p):\n" + textwrap.indent(MEETINGS[name], "    "), V=value)
    with pytest.raises(lm.errors.TypeMismatch):
        lm.function(f)(c(1, dtype=dtype) if dtype != "bool" else c(True), c(2))


def test_large_integers_of_both_branches_are_int64():
    assert int(lm.function(lambda p: 2 ** 40 if p else 1)(c(True))) == 2 ** 40


def test_zero_has_a_sign():
    assert [np.signbit(lm.function(lambda p: 0.0 if p else -0.0)(c(p)).numpy()) for p in (True, False)] == [False, True]

    class Holder:
        pass

    def stored(p):
        h = Holder()
        h.a = 0.0
        if p:
            h.a = -0.0
        return h.a
    assert [np.signbit(lm.function(stored)(c(p)).numpy()) for p in (True, False)] == [True, False]


RANGES = [("uint8", (2, "n"), 1), ("uint8", (0, "n", 2), 255), ("int8", (0, "n", 2), 127), ("uint8", ("n", 0, -1), 5), ("int8", ("n", -128, -50), 100), ("uint32", ("n",), 0), ("int64", ("n",), -2 ** 40),
          ("uint64", (3, "n"), 0), ("int32", (2 ** 31 - 3, "n", 4), 2 ** 31 - 1), ("uint8", ("n", 9), 3), ("int32", ("n",), -5)]


@pytest.mark.parametrize("dtype, bounds, n", RANGES)
@pytest.mark.parametrize("order", ["", "reversed"])
def test_the_count_of_a_range_does_not_overflow(dtype, bounds, n, order):
    text = ", ".join(map(str, bounds))
    f = made(f"def f(n):\n    k, s = c(0), c(0, dtype=lm.int64)\n    for i in {order}(range({text})):\n        k, s = k + 1, s * 3 + lm.astype(i, lm.int64)\n    return k, s")
    k, s = lm.function(f)(c(n, dtype=dtype))
    items = list(range(*(n if b == "n" else b for b in bounds)))
    items = items[::-1] if order else items
    want = 0
    for i in items:
        want = (want * 3 + i + 2 ** 63) % 2 ** 64 - 2 ** 63
    assert (int(k), int(s)) == (len(items), want)


def test_a_range_of_more_than_int32_goes_on():
    def f(n):
        k = 0
        for _ in range(n):
            k += 1
            if k == 3:
                break
        return k
    assert [int(lm.function(f)(c(3 * 10 ** 9, dtype=d))) for d in ("int64", "uint32")] == [3, 3]


# --- `and` and `or` ---


@pytest.mark.parametrize("operator", ["and", "or"])
@pytest.mark.parametrize("first", [3, 0, True, False, 2.5, 0.0])
@pytest.mark.parametrize("second", [5, 0, True, False, 1.5, 0.0])
def test_and_and_or_of_tensors_give_an_operand(operator, first, second):
    f, condition = made(f"def f(a, b): return a {operator} b"), made(f"def f(a, b): return 1 if a {operator} b else 2")
    want, mixed = (first and second if operator == "and" else first or second), {type(first), type(second)} == {int, float}
    for b in (c(second), second):
        assert int(lm.function(condition)(c(first), b)) == (1 if want else 2)
        if mixed:
            with pytest.raises(lm.errors.ConversionFailed, match=f"{operator}: .* cannot be an operand beside a tensor") as error:
                lm.function(f)(c(first), second if type(second) is float else c(second))
            assert "lm.where" in error.value.fix
        else:
            assert float(lm.function(f)(c(first), b)) == float(want)
    both(made("def f(x, s):\n    s = s or 1.0\n    return x * s"), [1.0, 2.0], 3.0)
    both(made("def f(x, s): return (s > 0 and 2.0 or 3.0) * x"), [1.0, 2.0], -1.0)
    both(made("def f(x, s): return x * (s or two)", two=np.float64(2.0)), [1.0, 2.0], 0.0)
    weight = lm.Variable(0.0)
    both(lambda x: x * (weight or 2.0), [1.0, 2.0])


def test_and_of_a_tensor_and_an_object_is_refused():
    with pytest.raises(lm.errors.ConversionFailed, match="and: None cannot be an operand"):
        lm.function(lambda a: a and None)(c(1.0))
    with pytest.raises(lm.errors.ConversionFailed, match=r"or: a tensor float32\(2,\) cannot be an operand"):
        lm.function(lambda a: a or a)(c([1.0, 2.0]))
    assert lm.function(lambda a, b: a > 0 and b > 0)(c([1.0, -1.0]), c([1.0, 1.0])).numpy().tolist() == [True, False]


# --- zip and map ---


def test_strict_zip_compares_lengths():
    def f(a, b):
        s = c(0.0)
        for p, q in zip(a, b, strict=True):
            s = s + p * q
        return s

    def counted(a, n):
        s = c(0.0)
        for p, i in zip(a, range(n), strict=True):
            s = s + p * lm.astype(i, lm.float32)
        return s
    x, short = c([1.0, 2.0, 3.0]), c([1.0, 2.0])
    assert float(lm.function(f)(x, x)) == 14 and float(lm.function(counted)(x, c(3))) == 8
    with pytest.raises(lm.errors.InvalidArgument, match="zip: the lengths 3 and 2 differ"):
        lm.function(f)(x, short)
    with pytest.raises(ValueError, match="shorter"):
        lm.function(lambda x: f(x, [1.0, 2.0]))(x)
    open_ = lm.function(f, input_signature=[lm.TensorSpec([None], lm.float32)] * 2)
    assert float(open_(x, x)) == 14
    for call in (lambda: open_(x, short), lambda: lm.function(counted)(x, c(2))):
        with pytest.raises(lm.errors.AssertionFailed, match="the lengths differ"):
            call()


def test_a_tensor_of_open_length_must_last_as_long_as_the_list_beside_it():
    def f(x):
        s = c(0.0)
        for _, q in zip(x, [1.0, 2.0]):
            s = s + q
        return s
    graph = lm.function(f, input_signature=[lm.TensorSpec([None], lm.float32)])
    assert float(graph(c([1.0, 2.0, 3.0]))) == 3
    with pytest.raises(lm.errors.AssertionFailed, match="is shorter"):
        graph(c([1.0]))


@pytest.mark.parametrize("head", ["zip(range(n), [1, 2])", "map(abs, range(n))", "filter(None, range(n))"])
def test_a_range_that_python_goes_through_is_refused(head):
    with pytest.raises(lm.errors.ConversionFailed, match="a range of a tensor cannot be gone through by Python") as error:
        lm.function(made(f"def f(n):\n    for a in {head}: n = n + 1\n    return n"))(c(2))
    assert "lm.constant(list)" in error.value.fix


def test_a_users_function_in_the_head_of_a_loop_gets_a_tensor():
    def twice(r): return r * 2
    f = made("def f(n):\n    s = c(0)\n    for i in twice(range(n)): s = s + i\n    return s", twice=twice)
    assert int(lm.function(f)(c(4))) == 12


# --- what Python would do once ---

HIDDEN = {
    "random.random": "x = x * random.random()", "random.uniform": "x = x * random.uniform(1.0, 2.0)", "numpy": "x = x * float(np.random.rand())", "numpy.random": "x = x * float(npr.normal())",
    "order": "ordered.move_to_end('a')", "globals": "globals()['level'] = 3.0", "new global": "globals()['fresh'] = 3.0", "environment": "os.environ['LAMINA_NOTHING'] = '1'", "queue": "queue.put(1)",
}


@pytest.mark.parametrize("head", ["if lm.sum(x) > 0:", "for i in lm.range(n):"])
@pytest.mark.parametrize("name", HIDDEN)
def test_a_change_of_hidden_state_is_refused_and_undone(name, head):
    state = {"random": random, "np": np, "npr": np.random, "ordered": collections.OrderedDict(a=1.0, b=2.0), "level": 1.0, "os": os, "queue": queue.Queue()}
    f = made(f"def f(x, n):\n    {head}\n        {HIDDEN[name]}\n    return x", **state)
    scope = f.__globals__

    def now():
        return random.getstate(), np.random.get_state()[1].tobytes(), list(scope["ordered"]), scope["level"], "fresh" in scope, "LAMINA_NOTHING" in os.environ, scope["queue"].qsize()
    before = now()
    with pytest.raises(lm.errors.Error):
        lm.function(f)(c([1.0, 2.0]), c(3))
    assert now() == before


def test_a_generator_sees_what_a_branch_changes():
    def late(x):
        k = 2.0
        parts = (x * k for _ in range(3))
        if x.shape == (2,):
            k = 5.0
        return sum(parts)

    def early(x, p):
        k = 2.0
        y = sum(x * k for _ in range(3))
        if p:
            k = "unused"
        return y
    both(late, [1.0, 2.0])
    both(early, [1.0, 2.0], True)
