"""What branches and loops of the graph carry in containers: tensors and numbers; other parts stay Python values, and dicts keep the order of their keys."""
import collections
import dataclasses
import enum
import itertools
import typing

import numpy as np
import pytest

import lamina as lm


class Kind(enum.Enum):
    FAST = 1
    SLOW = 2


@dataclasses.dataclass
class State:
    x: typing.Any
    kind: typing.Any


Named = collections.namedtuple("Named", "x kind")
LAYER = lm.nn.Dense(2)
KINDS = ["a text", None, Kind.FAST, print, int, b"bytes", LAYER, lm.float32, frozenset({1}), (), ("a", None), {"deep": ["b"]}, slice(None)]
MAKERS = {"tuple": lambda x, kind: (x, kind), "list": lambda x, kind: [x, kind], "dict": lambda x, kind: {"x": x, "kind": kind}, "dataclass": State, "named": Named,
          "nested": lambda x, kind: {"a": [State((x, kind), kind), kind], "b": (kind,)}}


def x_of(made):
    return lm.tree.leaves(made)[0] if not isinstance(made, dict) or "a" not in made else made["a"][0].x[0]


def kind_of(made):
    return made["b"][0] if isinstance(made, dict) and "b" in made else made["kind"] if isinstance(made, dict) else made.kind if hasattr(made, "kind") else made[1]


def carried_by_a_loop(make, kind, x, n):
    s = make(x, kind)
    for _ in lm.range(n):
        s = make(x_of(s) + 1.0, kind_of(s))
    return x_of(s), kind_of(s)


def carried_by_a_while(make, kind, x, n):
    s = make(x, kind)
    while x_of(s) < 4.0:
        s = make(x_of(s) + 1.0, kind)
    return x_of(s), kind_of(s)


def made_by_branches(make, kind, x, n):
    if n > 1:
        s = make(x * 2.0, kind)
    else:
        s = make(x, kind)
    return x_of(s), kind_of(s)


def replaced_in_a_branch(make, kind, x, n):
    s = make(x, kind)
    if n > 1:
        s = make(x * 2.0, kind_of(s))
    return x_of(s), kind_of(s)


def returned_early(make, kind, x, n):
    def inner():
        for i in lm.range(n):
            if i > 0:
                return make(x + 3.0, kind)
        return make(x, kind)
    s = inner()
    return x_of(s), kind_of(s)


def first_made_in_a_loop(make, kind, x, n):
    for i in lm.range(3):
        s = make(x + 1.0, kind)
        x = x * 2.0
    return x_of(s), kind_of(s)


@pytest.mark.parametrize("program", [carried_by_a_loop, carried_by_a_while, made_by_branches, replaced_in_a_branch, returned_early, first_made_in_a_loop], ids=lambda p: p.__name__)
@pytest.mark.parametrize("maker", MAKERS)
def test_parts_that_are_no_tensors_stay_what_they_are(maker, program):
    for kind in KINDS:
        held = []

        def run(x, n, eagerly=False):
            value, found = program(MAKERS[maker], kind, x, n)
            held.append(found)
            return value

        for n in (3, 0):
            wanted = run(lm.constant(1.0), n)
            got = lm.function(run)(lm.constant(1.0), lm.constant(n))
            assert got.numpy() == wanted.numpy(), (kind, n)
            assert held[-1] == kind and type(held[-1]) is type(kind), (kind, held[-1])


@pytest.mark.parametrize("maker", MAKERS)
def test_other_parts_on_the_other_way_are_refused(maker):
    make = MAKERS[maker]

    def branch(x):
        s = make(x, "one")
        if x > 0:
            s = make(x, "two")
        return s

    def loop(x):
        s = make(x, "one")
        for _ in lm.range(lm.constant(3)):
            s = make(x, None)
        return s

    with pytest.raises(lm.errors.InvalidArgument, match=r"'s.*' is the str '(one|two)' in one branch of an if and the str '(one|two)' in the other"):
        lm.function(branch)(lm.constant(1.0))
    with pytest.raises(lm.errors.InvalidArgument, match=r"'s.*' is the str 'one' before an iteration and None after it"):
        lm.function(loop)(lm.constant(1.0))


def test_a_python_container_is_carried_as_the_same_object():
    def f(x, n):
        config = {"names": ["a"]}
        s = State(x, config)
        for _ in lm.range(n):
            s = State(s.x + 1.0, s.kind)
        config["names"].append("b")
        return s.x, s.kind is config and s.kind["names"] == ["a", "b"]

    def another(x, n):
        s = State(x, {"names": ["a"]})
        for _ in lm.range(n):
            s = State(s.x + 1.0, {"names": ["a"]})
        return s

    x, kept = lm.function(f)(lm.constant(1.0), lm.constant(3))
    assert x.numpy() == 4.0 and kept
    with pytest.raises(lm.errors.InvalidArgument, match="'s.kind' is the dict"):
        lm.function(another)(lm.constant(1.0), lm.constant(3))


ORDERS = [("c", "a", "b"), ("b", "c", "a"), ("a", "b", "c")]


def in_a_loop(keys, x, n):
    d = {key: x * i for i, key in enumerate(keys)}
    for _ in lm.range(n):
        d = {key: value + 1.0 for key, value in d.items()}
    return d


def in_a_branch(keys, x, n):
    d = {key: x * i for i, key in enumerate(keys)}
    if n > 1:
        d = {key: value + 1.0 for key, value in d.items()}
    return d


def by_cond(keys, x, n):
    return lm.cond(lm.constant(n) > 1, lambda: {key: x * i for i, key in enumerate(keys)}, lambda: {key: x for key in sorted(keys)})


def by_while_loop(keys, x, n):
    return lm.while_loop(lambda d: d["a"] < 5.0, lambda d: {key: d[key] + 1.0 for key in sorted(keys)}, {key: x * i for i, key in enumerate(keys)})


def by_scan(keys, x, n):
    made = {key: x * i for i, key in enumerate(keys)}
    state, rows = lm.scan(lambda s, row: ({key: s[key] + row[key] for key in sorted(keys)}, row), made, {key: lm.stack([value, value]) for key, value in made.items()})
    assert list(rows) == list(keys)
    return state


@pytest.mark.parametrize("program", [in_a_loop, in_a_branch, by_cond, by_while_loop, by_scan], ids=lambda p: p.__name__)
@pytest.mark.parametrize("keys", ORDERS, ids="".join)
def test_dicts_keep_the_order_of_their_keys(keys, program):
    def run(x, n):
        made = program(keys, x, n)
        assert list(made) == list(keys)
        return lm.stack(list(made.values()))

    for n in (3, 0) if program is not by_cond else (3,):
        wanted = run(lm.constant(1.0), n)
        np.testing.assert_array_equal(lm.function(run)(lm.constant(1.0), lm.constant(n)).numpy() if "by" not in program.__name__ else lm.function(lambda x: run(x, n))(lm.constant(1.0)).numpy(), wanted.numpy())


def test_nested_dicts_in_any_order_meet_by_key():
    for one, other in itertools.product(itertools.permutations("abc"), repeat=2):
        def made(keys, scale):
            return {k: {j: lm.constant(float(ord(k) * 10 + ord(j)) * scale) for j in reversed(keys)} for k in keys}
        got = lm.function(lambda c: lm.cond(c, lambda: made(one, 1.0), lambda: made(other, 2.0)))(lm.constant(False))
        assert list(got) == list(one) and list(got["a"]) == list(reversed(one))
        assert all(got[k][j].numpy() == 2.0 * (ord(k) * 10 + ord(j)) for k in "abc" for j in "abc")


@dataclasses.dataclass
class Ball:
    x: typing.Any
    n: typing.Any


def list_then_another(x, n):
    s = [x, 0.0]
    for _ in lm.range(n):
        s[0] = s[0] + 0.5
        if s[0] > 1.5:
            s = [-s[0], s[1] + 1.0]
    return s[0] + 10 * s[1]


def always_another(x, n):
    s = Ball(x, 0.0)
    for _ in lm.range(n):
        s.x += 0.5
        s = Ball(-s.x, s.n + 1.0)
    return s.x + 10 * s.n


def dict_in_a_while(x, n):
    d, i = {"b": x, "a": x + 1.0}, 0
    while i < n:
        d["a"] = d["a"] * 2.0
        if d["a"] > 3.0:
            d = {"b": d["a"], "a": d["b"]}
        i += 1
    first, second = d.values()
    return first + 10 * second


def replaced(x, n):
    s = Ball(x, 0.0)
    for _ in lm.range(n):
        s.x = s.x * 2.0
        if s.x > 4.0:
            s = dataclasses.replace(s, x=s.x - 3.0)
        else:
            s.n += 1.0
    return s.x + 10 * s.n


def part_of_a_part(x, n):
    s = [[x, x + 1.0], Ball(x, 1.0)]
    for _ in lm.range(n):
        s[0][1] = s[0][1] + 1.0
        s[1].n = s[1].n * 2.0
        s = [[s[0][1], s[0][0]], Ball(s[1].n, s[1].x)]
    return s[0][0] + 10 * s[0][1] + 100 * s[1].x + 1000 * s[1].n


def of_an_argument(x, n, given=None):
    for _ in lm.range(n):
        given[0] = given[0] + x
        if given[0] > 2.0:
            given = [given[1], given[0]]
    return given[0] + 10 * given[1]


@pytest.mark.parametrize("f", [list_then_another, always_another, dict_in_a_while, replaced, part_of_a_part, of_an_argument], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_what_is_changed_in_place_and_then_made_another_object(f, n):
    more = (lambda: [1.0, 0.5]) if f is of_an_argument else None
    for x in (-0.25, 1.0):
        want = float(f(x, n, more()) if more else f(x, n))
        got = lm.function(f)(lm.constant(x), lm.constant(n), *([[lm.constant(v) for v in more()]] if more else []))
        assert float(got) == pytest.approx(want, rel=1e-6)


def test_another_holder_of_the_first_object_is_refused():
    def f(x, n):
        s = [x, 0.0]
        kept = s
        for _ in lm.range(n):
            s[0] = s[0] + 0.5
            if s[0] > 1.5:
                s = [-s[0], s[1] + 1.0]
        return s[0] + kept[0]
    with pytest.raises(lm.errors.InvalidArgument, match="changes 's\\[0\\]', and makes 's' another object"):
        lm.function(f)(lm.constant(1.0), lm.constant(3))
