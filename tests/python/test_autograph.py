"""AutoGraph: control flow on tensors equals plain Python, in one graph; code that cannot be converted is an error at the user's line."""
import itertools
import linecache
import runpy
import textwrap

import numpy as np
import pytest

import lamina as lm

c = lm.constant


def both(fn, *args):
    """The eager result of fn, after checking that the graph gives the same."""
    eager = fn(*(c(a) for a in args))
    graph = lm.function(fn)(*(c(a) for a in args))
    np.testing.assert_array_equal(np.asarray(graph), np.asarray(eager))
    return np.asarray(eager).tolist()


def made(source, name="f", **names):
    """A function from source text that AutoGraph can read."""
    source = textwrap.dedent(source)
    filename = f"<test {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = {"lm": lm, "c": c, **names}
    exec(compile(source, filename, "exec"), scope)
    return scope[name]


# --- a matrix of loops: iterables, lengths, exits, places ---

LOOPS = {"while": "i = c(0)\n    while i < n:\n        i += 1", "range": "for i in lm.range(n):\n        pass", "builtin range": "for i in range(n):\n        pass"}
EXITS = {"none": "", "break": "if s > 7: break", "continue": "if s % 2 == 1: continue", "return": "if s > 7: return s * 100",
         "both": "if s % 3 == 2: continue\n        if s > 9: break", "else": "if s > 7: return -s\n        elif s == 3: continue\n        else: s = s + 1"}
AFTER = {"": "", "loop else": "\n    else:\n        s = s + 1000"}


@pytest.mark.parametrize("loop, leave, after", list(itertools.product(LOOPS, EXITS, AFTER)))
@pytest.mark.row("S0-30", "S1-25", "S1-29")
def test_a_loop_gives_what_python_gives(loop, leave, after):
    body = f"\n        s = s + 2 * i\n        {EXITS[leave]}\n        s = s + 1"
    fn = made(f"def f(n):\n    s = c(0)\n    {LOOPS[loop]}{body}{AFTER[after]}\n    return s\n")
    plain = made(f"def f(n):\n    s = 0\n    {LOOPS[loop]}{body}{AFTER[after]}\n    return s\n".replace("lm.range", "range").replace("c(0)", "0"))
    graph = lm.function(fn)
    for trips in (0, 1, 2, 3, 4, 9):
        assert int(graph(c(trips))) == plain(trips), trips
    assert graph.trace_count == 1


@pytest.mark.parametrize("outer, inner, leave", list(itertools.product(("while", "range"), ("while", "range"), ("none", "break", "continue", "return"))))
def test_nested_loops_give_what_python_gives(outer, inner, leave):
    heads = {"while": ("{v} = c(-1)\n{pad}while {v} < {n} - 1:\n{pad}    {v} += 1"), "range": "for {v} in lm.range({n}):\n{pad}    pass"}
    inside = heads[inner].format(v="j", n="(i + 1)", pad=" " * 8)
    exits = {"none": "pass", "break": "if t > 5: break", "continue": "if j == 1: continue", "return": "if t > 9: return t"}[leave]
    source = f"""def f(n):
    t = c(0)
    {heads[outer].format(v='i', n='n', pad=' ' * 4)}
        {inside}
            t = t + j + 1
            {exits}
            t = t * 2 % 1000
        t = t + 1
    return t
"""
    fn, plain = made(source), made(source.replace("lm.range", "range").replace("c(", "("))
    graph = lm.function(fn)
    for trips in range(5):
        assert int(graph(c(trips))) == plain(trips), trips
    assert graph.trace_count == 1


CONDITIONS = ["x > 0", "not x > 0", "x > 0 and x < 5", "x < 0 or x == 3", "0 < x < 5", "not (x > 0 and x < 5)", "x > 1 and (x < 4 or x == 7)", "0 < x <= 3 != x"]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.row("S1-26")
def test_conditions_give_what_python_gives(condition):
    for source in (f"def f(x):\n    if {condition}: return x + 10\n    return x - 10\n", f"def f(x):\n    return x + 10 if {condition} else x - 10\n",
                   f"def f(x):\n    y = x\n    if {condition}:\n        y = y * 2\n    elif x == 2:\n        y = y * 3\n    return y\n"):
        fn = made(source)
        graph = lm.function(fn)
        for x in range(-2, 9):
            assert int(graph(c(x))) == fn(x)
        assert graph.trace_count == 1


@pytest.mark.row("S0-20", "S2-34")
def test_python_values_stay_python():
    seen = []

    @lm.function
    def f(x, n, flag):
        if flag:
            x = x + 1
        for i in range(n):
            seen.append(i)
            x = x * 2
        while n > 0:
            n -= 1
            x = x + 1
        return x

    assert int(f(c(1), 3, True)) == 19
    assert seen == [0, 1, 2]


@pytest.mark.row("S1-23")
def test_functions_called_inside_are_converted():
    def inner(v):
        if v > 0:
            return v * 2
        return -v

    class Thing:
        def __init__(self):
            self.__scale = 3

        def method(self, v):
            while v < 10:
                v = v * self.__scale
            return v

    thing = Thing()
    assert both(lambda v: inner(v) + inner(-v), 4) == 12
    assert both(lambda v: thing.method(v), 2) == 18
    assert both(lambda v: [f(v) for f in (lambda u: u if u > 3 else u + 10, lambda u: -u if u > 3 else u)][1], 5) == -5


def test_lambdas_on_one_line_are_told_apart():
    fs = [lambda x: x + 1, lambda x: 1 - x, lambda x: x * x, lambda x: x ** 2, lambda x: -x, lambda x: x[0], lambda x: x[:, 1], (lambda x: (x if x[0, 0] > 0 else -x)), lambda x: lambda y: x + y]
    for f in fs[:-1]:
        lm.testing.assert_graph_matches_eager(f, c([[3, 5], [7, 11]]))
    assert int(lm.function(lambda x: fs[-1](x)(x))(c(4))) == 8
    both_of_them = lambda n: (lambda x: x + n, lambda x: x - n)  # noqa: E731
    plus, minus = both_of_them(2)
    assert int(lm.function(plus)(c(5))) == 7 and int(lm.function(minus)(c(5))) == 3


def test_super_and_closures_work():
    class Base:
        def call(self, v):
            return v + 1

    class Derived(Base):
        def call(self, v):
            if v > 0:
                v = super().call(v)
            return v

    count = 0

    def counted(v):
        nonlocal count
        count += 1
        if v > 0:
            return v + count
        return v

    assert both(Derived().call, 1) == 2
    assert int(lm.function(counted)(c(1))) == 2 and count == 1


def test_layers_and_models_are_converted():
    class Net(lm.nn.Model):
        def call(self, x):
            if lm.sum(x) > 0:
                return x * 2
            return -x

    net = lm.function(Net())
    assert net(c([1.0, 2.0])).numpy().tolist() == [2, 4]
    assert net(c([-1.0, -2.0])).numpy().tolist() == [1, 2]
    assert net.trace_count == 1


@pytest.mark.row("S2-19")
def test_variables_are_assigned_on_the_way_that_runs():
    v = lm.Variable(0.0)

    @lm.function
    def f(flag, n):
        if flag:
            v.assign_add(1.0)
        else:
            v.assign_add(100.0)
        for i in lm.range(n):
            v.assign_add(lm.astype(i, lm.float32))

    f(c(True), c(3))
    assert float(v) == 4
    f(c(False), c(4))
    assert float(v) == 110
    assert f.trace_count == 1


def test_gradients_flow_through_branches_and_loops():
    @lm.function
    def f(x, n):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in lm.range(n):
                if y > 10.0:
                    y = y + x
                else:
                    y = y * x
        return y, tape.gradient(y, x)

    y, slope = f(c(2.0), c(4))
    assert (float(y), float(slope)) == (18.0, 33.0)  # ((2*2)*2)*2 = 16, + 2: 4 x^3 + 1


def test_a_training_loop_is_one_graph():
    w = lm.Variable([0.0, 0.0])
    adam = lm.optim.Adam(0.1)

    @lm.function
    def train(x, y, steps):
        cost = 0.0
        for _ in lm.range(steps):
            with lm.GradientTape() as tape:
                cost = lm.mean(lm.square(lm.sum(x * w, axis=1) - y))
            adam.apply_gradients(zip(tape.gradient(cost, [w]), [w]))
        return cost

    x = c([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert float(train(x, c([2.0, -1.0, 1.0]), c(300))) < 1e-4
    np.testing.assert_allclose(w.numpy(), [2, -1], atol=0.02)
    assert train.trace_count == 1


def test_enumerate_and_zip_go_through_tensors():
    def weighted(v):
        s = c(0)
        for i, r in enumerate(v): s += i * r
        return s

    def paired(v, w):
        s = c(0)
        for a, b in zip(v, w):
            if a > b: break
            s += a * b
        return s

    assert both(weighted, [5, 6, 7]) == 20
    assert both(paired, [1, 2, 9, 4], [3, 4, 5, 6]) == 11


def test_a_step_and_a_start_of_a_range_are_respected():
    def f(a, b):
        s = c(0)
        for i in lm.range(a, b, 3): s = s * 10 + i
        for i in range(b, a, -2): s = s * 10 + i
        return s

    graph = lm.function(f)
    for a, b in ((0, 7), (2, 3), (5, 1)):
        s = 0
        for i in [*range(a, b, 3), *range(b, a, -2)]: s = s * 10 + i
        assert int(graph(c(a), c(b))) == s


# --- refused, with the reason ---


def refused(fn, *args):
    with pytest.raises(Exception) as caught:
        lm.function(fn)(*(c(a) for a in args))
    return caught.value


@pytest.mark.row("S1-30")
def test_a_name_without_a_value_in_one_branch_is_named():
    def one_arm(x):
        if x > 0:
            y = x
        return y
    error = refused(one_arm, 1)
    assert isinstance(error, lm.errors.InvalidArgument)
    assert str(error).startswith("'y' is given a value in only one branch of an if\n") and "one_arm" in str(error) and "fix:" in str(error)


@pytest.mark.row("S1-30")
def test_a_branch_that_changes_the_dtype_is_named():
    def mixed(x):
        if x > 0:
            y = c(1)
        else:
            y = c(1.0)
        return y
    error = refused(mixed, 1)
    assert isinstance(error, lm.errors.TypeMismatch) and "'y'" in str(error) and "mixed" in str(error)


@pytest.mark.row("S1-30")
def test_a_loop_variable_that_grows_is_named():
    def growing(n):
        x, i = c([1.0]), c(0)
        while i < n:
            x = lm.concat([x, x], 0)
            i += 1
        return x
    error = refused(growing, 2)
    assert isinstance(error, lm.errors.InvalidArgument) and "'x'" in str(error) and "growing" in str(error)


@pytest.mark.row("S1-30")
def test_a_missing_return_is_named():
    def missing(x):
        if x > 0:
            return x
    error = refused(missing, 1)
    assert isinstance(error, lm.errors.InvalidArgument) and "return" in str(error) and "missing" in str(error)


def test_errors_show_the_line_with_a_caret():
    def growing(n):
        x, i = c([1.0]), c(0)
        while i < n:
            x = lm.concat([x, x], 0); i += 1
        return x
    error = refused(growing, 2)
    assert error.what == "while_loop: the loop variable 'x' starts as f32[1] and becomes f32[2]"
    line, text, caret = error.where.split("\n")
    assert line.endswith(", in growing") and text.strip() == "while i < n:" and caret.strip() == "^" * len("while i < n")

    def inside(n):
        for _ in lm.range(n):
            "é"; lm.matmul(lm.ones((2, 3)), lm.ones((2, 3)))
        return n
    _, text, caret = refused(inside, 2).where.split("\n")
    assert text[caret.index("^"):caret.rindex("^") + 1] == "lm.matmul(lm.ones((2, 3)), lm.ones((2, 3)))"


def test_a_name_that_only_a_loop_gives_is_named():
    def last(n):
        for r in lm.range(n):
            y = r
        return y
    error = refused(last, 2)
    assert "'y' has no value before the loop" in str(error)


@pytest.mark.row("S1-25")
def test_without_autograph_a_tensor_is_no_condition():
    def f(x):
        if x > 0: return x
        return -x
    with pytest.raises(lm.errors.Error, match="bool"):
        lm.function(f, autograph=False)(c(1))


def test_a_function_that_must_not_be_converted_is_left_alone():
    @lm.autograph.do_not_convert
    def inner(x):
        if x > 0: return x
        return -x
    with pytest.raises(lm.errors.Error, match="bool"):
        lm.function(lambda x: inner(x))(c(1))


def test_eager_mode_runs_the_function_as_written():
    lines = []

    def f(x):
        if x > 0:
            lines.append("positive")
        return x

    with lm.config.run_functions_eagerly(True):
        lm.function(f)(c(1))
        lm.function(f)(c(-1))
    assert lines == ["positive"]


@pytest.mark.row("S1-28")
def test_to_code_shows_what_is_traced():
    def piecewise(v):
        if lm.sum(v) <= 1:
            return v * v
        else:
            return v - 1
    text = lm.autograph.to_code(piecewise)
    assert text.startswith("def lm__piecewise(v):") and "<= 1" in text and "if_body" in text and "else_body" in text
    with pytest.raises(lm.errors.ConversionFailed, match="not available"):
        scope = {}
        exec("def f(x): return x", scope)
        lm.autograph.to_code(scope["f"])


# --- limitations ---


def test_a_python_object_cannot_change_in_a_loop_of_the_graph():
    def f(n):
        word = "a"
        for _ in lm.range(n):
            word = word + "b"
        return word
    error = refused(f, 3)
    assert "'word' is the str 'a' before an iteration" in str(error)


def test_a_generator_is_run_by_python():
    def numbers(n):
        for i in range(n):
            yield i

    def f(x):
        for i in numbers(4):
            x = x + i
        return x
    assert int(lm.function(f)(c(0))) == 6
    assert lm.inspect(lm.function(f), c(0)).traced.count("add") == 4

    def wrong(x):
        while x > 0:
            yield x
    with pytest.raises(lm.errors.Error, match="generator"):
        lm.function(lambda x: list(wrong(x)))(c(1))


def test_except_does_not_see_what_the_graph_raises():
    seen = []

    @lm.function
    def f(x):
        try:
            assert x > 0, "negative"
        except AssertionError:
            seen.append(1)
        return x
    with pytest.raises(lm.errors.AssertionFailed, match="negative"):
        f(c(-1))
    assert seen == []


def test_functions_that_transforms_are_given_are_converted_too():
    def pick(x):
        if x > 0:
            return x * 2
        return -x
    assert int(lm.function(lambda x: lm.vmap(pick)(x).sum())(c([1, -3]))) == 5
    assert int(lm.function(lambda x: lm.cond(x > 5, lambda: pick(x), lambda: pick(-x)))(c(3))) == 3
    assert int(lm.function(lambda n: lm.fori_loop(0, n, lambda i, s: s + pick(i - 1), c(0)))(c(3))) == 3


def test_messages_of_python_show_names_as_they_are_written():
    said = []

    def f(a):
        class Local:
            def method(self): return 1

        def outer(x): return x
        try: outer()
        except TypeError as e: said.append(str(e))
        if a > 0:
            def inner(x): return x
            try: inner()
            except TypeError as e: message = str(e)
            assert "lm__" not in message and "if_body" not in message and "inner()" in message
            a = inner(a)
        assert Local.method.__qualname__.endswith(".f.<locals>.Local.method") and "lm__" not in Local.__qualname__
        return a
    assert int(lm.function(f)(c(1))) == 1
    assert "f.<locals>.outer() missing 1" in said[0] and "lm__" not in said[0]


@pytest.mark.parametrize("name", ["state", "get_state", "set_state", "ag__item", "loop_body", "loop_test", "extra_test", "if_body", "else_body", "state_2", "item", "test"])
def test_variables_may_have_the_names_that_generated_code_uses(name, tmp_path):
    (tmp_path / "program.py").write_text(f"""
import lamina as lm

def f(w, x):
    {name} = x
    for t in lm.range(5):
        {name} = lm.tanh({name} @ w)
        if lm.sum({name}) > 100.0:
            {name} = {name} * 0.0
    while lm.sum({name}) < 3.0:
        {name} = {name} + 1.0
    return {name}
""")
    names = runpy.run_path(str(tmp_path / "program.py"))
    w, x = lm.ones((2, 2)) * 0.25, lm.ones((1, 2))
    wanted = x.numpy()
    for _ in range(5):
        wanted = np.tanh(wanted @ w.numpy())
    while wanted.sum() < 3:
        wanted = wanted + 1
    np.testing.assert_allclose(lm.function(names["f"])(w, x).numpy(), wanted, rtol=1e-5)


def test_equal_functions_of_two_files_have_lines_of_their_own(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("import lamina as lm\n\n@lm.function\ndef f(x):\n    return int(x)\n")
        with pytest.raises(lm.errors.StateError) as error:
            runpy.run_path(str(tmp_path / name))["f"](c(1.0))
        assert f"{name}:5" in error.value.where


RAISES = {
    "in an if": "if x > 0:\n    raise KIND('no')\nreturn x",
    "after an if that returns": "if x <= 0:\n    return x\nraise KIND('no')",
    "in a loop": "for i in lm.range(x):\n    raise KIND('no')\nreturn x",
    "in a while": "while x > 0:\n    raise KIND('no')\nreturn x",
    "in a function that a branch calls": "return fail() if x > 0 else x",
    "in a property that a branch reads": "if x > 0:\n    x = box.fail\nreturn x",
    "in a body of lm.cond": "return lm.cond(x > 0, fail, lambda: x)",
    "in a handler": "if x > 0:\n    try:\n        int('a')\n    except ValueError:\n        raise KIND('no')\nreturn x",
    "caught outside of the branch": "try:\n    if x > 0:\n        raise KIND('no')\nexcept Exception:\n    x = -x\nreturn x",
}


@pytest.mark.parametrize("kind", [ValueError, KeyError, lm.errors.InvalidArgument])
@pytest.mark.parametrize("name", RAISES)
def test_a_raise_statement_in_a_branch_or_loop_of_the_graph_is_refused_at_its_line(name, kind):
    def fail():
        raise kind("no")  # here

    class Box:
        fail = property(lambda self: fail())

    body = RAISES[name]
    f = made("def f(x):\n" + textwrap.indent(body, "    "), fail=fail, KIND=kind, box=Box())
    for value in (1, -1):
        with pytest.raises(lm.errors.ConversionFailed, match=f"a branch or loop of the graph raises {kind.__name__}: '?no") as error:
            lm.function(f)(c(value))
        assert "raise kind" in error.value.where if "fail" in body else "raise KIND" in error.value.where
        assert "assert" in error.value.fix


@pytest.mark.parametrize("body", ["raise ValueError('mine')", "if x.shape == ():\n    raise ValueError('mine')\nreturn x", "for i in range(2):\n    raise ValueError('mine')", "return lm.checkpoint(fail)()"])
def test_a_raise_statement_that_python_comes_by_stays_pythons(body):
    def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="^mine$"):
        lm.function(made("def f(x):\n" + textwrap.indent(body, "    "), fail=fail))(c(1))


def test_a_raise_statement_that_its_own_branch_catches_stays_pythons():
    def f(x):
        if x > 0:
            try:
                raise KeyError("a")
            except KeyError:
                x = x + 1
        return x
    assert both(f, 1) == 2 and both(f, -1) == -1


def test_del_takes_a_name_its_value():
    def passing(x):
        y = x * 2
        if lm.sum(x) > 0:
            z = y + 1
            del y
            x = z
        return x

    def unbound(x):
        y = x * 2
        if lm.sum(x) > 0:
            del y
        else:
            x = -x
        return x

    def in_a_loop(x):
        for _ in lm.range(lm.constant(3)):
            y = x * 2
            x = y - 1
            del y
        return x
    for f in (passing, unbound, in_a_loop):
        for x in ([1.0, 2.0], [-1.0, -2.0]):
            assert np.array_equal(lm.function(f)(lm.constant(x)).numpy(), f(lm.constant(x)).numpy())

    def after(x):
        y = x * 2
        del y
        return y  # noqa: F821
    with pytest.raises(UnboundLocalError, match="'y'"):
        lm.function(after)(lm.constant(1.0))

    def of_one_branch(x):
        y = x * 2
        if lm.sum(x) > 0:
            del y
        return y
    with pytest.raises(lm.errors.InvalidArgument, match="'y' is given a value in only one branch"):
        lm.function(of_one_branch)(lm.constant(1.0))
