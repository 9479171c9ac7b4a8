"""print, check, check_numerics and explicit graphs: effects happen in program order, on every call, with that call's values."""
import contextlib
import io
import threading

import numpy as np
import pytest

import lamina as lm

c = lm.constant


def printed(fn, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = fn(*args)
    return out.getvalue(), result


# --- print ---


@pytest.mark.parametrize("value, text", [
    (c(3), "3"), (c(3.0), "3"), (c(3.25), "3.25"), (c(1e20), "1e+20"), (c(1e-7), "1e-07"), (c(-0.001), "-0.001"), (c([True, False]), "[True False]"),
    (c([1.0, 2.5]), "[1 2.5]"), (c([[1, 2], [3, 4]]), "[[1 2]\n [3 4]]"), (c([[[1], [2]], [[3], [4]]]), "[[[1]\n  [2]]\n\n [[3]\n  [4]]]"),
    (lm.range(10), "[0 1 2 ... 7 8 9]"), (lm.range(6), "[0 1 2 3 4 5]"), (lm.zeros([0]), "[]"), (c(float("nan")), "nan"), (c(float("-inf")), "-inf"),
    (c(0.1, dtype=lm.float16), "0.1"), (c(0.1, dtype=lm.float64), "0.1"), (c(2, dtype=lm.uint8), "2")])
@pytest.mark.row("S2-40")
def test_a_tensor_is_printed_with_as_few_digits_as_read_back(value, text):
    assert printed(lm.print, value)[0] == text + "\n"
    assert printed(lm.function(lambda x: lm.print(x)), value)[0] == text + "\n"


@pytest.mark.row("S2-40")
def test_structures_are_printed_with_strings_inside_quoted():
    x = c([1.0, 2.0])
    expected = "a {'k': [1 2], 'n': None} ([1 2], 'b') {brace}\n"
    assert printed(lambda: lm.print("a", {"k": x, "n": None}, (x, "b"), "{brace}"))[0] == expected
    assert printed(lm.function(lambda x: lm.print("a", {"k": x, "n": None}, (x, "b"), "{brace}")), x)[0] == expected


def test_separators_ends_and_how_much_is_shown_can_be_chosen():
    assert printed(lambda: lm.print(c(1), 2, sep="-", end="!"))[0] == "1-2!"
    assert printed(lambda: lm.print(lm.range(9), summarize=1))[0] == "[0 ... 8]\n"
    assert printed(lambda: lm.print(lm.range(9), summarize=-1))[0] == "[0 1 2 3 4 5 6 7 8]\n"
    with pytest.raises(lm.errors.InvalidArgument, match="summarize is -2"):
        lm.print(c(1), summarize=-2)


@pytest.mark.row("S2-24", "S2-40")
def test_a_traced_print_goes_to_stdout_as_it_is_when_the_graph_runs():
    f = lm.function(lambda x: lm.print("x", x))
    assert printed(f, c(1))[0] == "x 1\n"
    assert printed(f, c(2))[0] == "x 2\n"
    assert f.trace_count == 1


@pytest.mark.row("S2-40")
def test_a_traced_print_may_go_to_any_object_with_write():
    lines = []

    class Log:
        def write(self, text):
            lines.append(text)

    log, errors = Log(), io.StringIO()

    @lm.function
    def f(x):
        lm.print("log", x, file=log)
        import sys
        lm.print("err", x, file=sys.stderr)
    with contextlib.redirect_stderr(errors):
        f(c(1))
        f(c(2))
    assert lines == ["log 1\n", "log 2\n"] and errors.getvalue() == "err 1\nerr 2\n"


def test_an_exception_of_the_file_reaches_the_caller_and_the_function_stays_usable():
    class Full:
        broken = True

        def write(self, text):
            if self.broken:
                raise OSError("disk full")

    full, v = Full(), lm.Variable(0.0)

    @lm.function
    def f():
        v.assign_add(1.0)
        lm.print(v, file=full)
        return v.read()
    with pytest.raises(OSError, match="disk full"):
        f()
    full.broken = False
    assert float(f()) == 2


@pytest.mark.row("S2-19")
def test_prints_in_loops_and_branches_keep_program_order():
    v = lm.Variable(0)

    @lm.function
    def f(n):
        for i in lm.range(n):
            if i % 2 == 0:
                lm.print("even", i)
            else:
                v.assign_add(1)
                lm.print("odd", i, v)
            lm.print("next")
        lm.print("end", v)
    text, _ = printed(f, c(3))
    assert text == "even 0\nnext\nodd 1 1\nnext\neven 2\nnext\nend 1\n"


def test_a_gradient_does_not_print_or_check_again():
    @lm.function
    def f(x, n):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in lm.range(n):
                lm.print("step", i)
                assert y > 0.0
                y = y * x
            for r in c([1.0, 2.0]):
                lm.print("row", r)
                y = y * r
            if y > 0.0:
                lm.print("positive")
                y = y * x
        return tape.gradient(y, x)
    text, slope = printed(f, c(2.0), c(2))
    assert text == "step 0\nstep 1\nrow 1\nrow 2\npositive\n"
    assert float(slope) == 4 * 2.0 ** 3 * 2  # 2 x^4


def test_another_thread_may_read_a_variable_while_a_function_that_writes_it_prints():
    v = lm.Variable(0.0)

    class Slow:
        def write(self, text):
            float(v)  # waits for the variable's lock if it is still held

    slow = Slow()

    @lm.function
    def f():
        v.assign_add(1.0)
        lm.print(v, file=slow)

    def read():
        for _ in range(200):
            float(v)
    threads = [threading.Thread(target=read), threading.Thread(target=lambda: [f() for _ in range(100)])]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads) and float(v) == 100


def test_under_vmap_there_is_a_text_per_model():
    def f(x, y):
        lm.print("x", x, "y", y)
        return x * 2
    assert printed(lambda: lm.vmap(f, in_axes=(0, None))(c([1, 2, 3]), c(7)))[0] == "x 1 y 7\nx 2 y 7\nx 3 y 7\n"
    assert printed(lm.function(lambda x: lm.vmap(lambda r: lm.vmap(lambda e: lm.print(e) or e)(r))(x)), c([[1, 2], [3, 4]]))[0] == "1\n2\n3\n4\n"


def test_under_vmap_a_print_where_models_take_different_branches_is_refused():
    def f(x):
        if x > 0:
            lm.print("positive", x)
        return x
    with pytest.raises(lm.errors.InvalidArgument, match="condition per model cannot print"):
        lm.function(lambda x: lm.vmap(f)(x))(c([1, -1]))


# --- check and assert ---


def test_a_check_says_its_message_its_values_and_where():
    @lm.function
    def f(x):
        lm.check(x > 0, "must be positive", x=x)
        return x * 2
    assert f(c([1, 2])).numpy().tolist() == [2, 4]
    with pytest.raises(lm.errors.AssertionFailed) as caught:
        f(c([1, -2, -3]))
    error = caught.value
    assert error.what == "must be positive" and error.why == "2 of 3 are false, the first at [1]; x = [1 -2 -3]" and "test_effects.py:" in error.where
    with pytest.raises(AssertionError) as caught:
        lm.check(c([1, -2]) > 0, "must be positive", x=c([1, -2]))
    assert caught.value.why == "1 of 2 are false, the first at [1]; x = [1 -2]" and "test_effects.py:" in caught.value.where


def test_a_python_condition_is_checked_while_tracing():
    with pytest.raises(lm.errors.AssertionFailed, match="n is 0"):
        lm.function(lambda n: lm.check(n > 0, f"n is {n}") or c(1))(0)
    lm.check(True)
    with pytest.raises(lm.errors.AssertionFailed, match="a check failed"):
        lm.check(False)


@pytest.mark.row("S2-18")
def test_an_assert_statement_shows_the_condition_and_its_values():
    @lm.function
    def f(x, low):
        assert lm.all(x > low)
        return x
    with pytest.raises(lm.errors.AssertionFailed) as caught:
        f(c([1, 5]), c(2))
    assert caught.value.what == "assertion failed: lm.all(x > low)" and caught.value.why == "low = 2, x = [1 5]"

    @lm.function
    def g(x, n):
        assert n > 0, "n must be positive"  # Python's own, while the function is traced
        return x * n
    assert g(c(2), 3).item() == 6
    with pytest.raises(AssertionError, match="n must be positive"):
        g(c(2), 0)


def test_a_failing_check_keeps_earlier_assignments_and_prevents_later_ones():
    v, w = lm.Variable([1.0] * 64), lm.Variable([1.0] * 64)

    @lm.function
    def f(x):
        v.assign(v * 2)
        assert x > 0
        w.assign(w * 3)
        v.assign(v * 5)
    f(c(1))
    assert v.numpy()[0] == 10 and w.numpy()[0] == 3
    with pytest.raises(lm.errors.AssertionFailed):
        f(c(-1))
    assert v.numpy()[0] == 20 and w.numpy()[0] == 3


def test_an_assignment_is_not_moved_before_a_check_fused_with_later_values():
    w = lm.Variable(2)

    @lm.function
    def f(x, n):
        m = n + 1  # one kernel computes both the check's and the result's inputs, so it comes after the assignment's operands
        assert lm.sum(x * lm.astype(m, lm.float32)) < 100.0
        w.assign((m + w) % 9)
        return x * lm.astype(m, lm.float32) + 1.0
    f(c([1.0, 2.0]), c(1))
    assert int(w) == 4
    with pytest.raises(lm.errors.AssertionFailed):
        f(c([100.0, 2.0]), c(1))
    assert int(w) == 4


def test_a_check_in_a_loop_stops_it():
    @lm.function
    def f(n):
        s = c(0)
        for i in lm.range(n):
            assert i < 5, "too far"
            s = s + i
        return s
    assert int(f(c(5))) == 10
    with pytest.raises(lm.errors.AssertionFailed, match="too far"):
        f(c(6))


def test_a_check_that_fails_in_a_loop_leaves_variables_as_before_the_loop():
    v = lm.Variable(0)

    @lm.function
    def f(n):
        v.assign(10)
        for i in lm.range(n):
            v.assign_add(1)
            assert i < 2
    f(c(2))
    assert int(v) == 12
    with pytest.raises(lm.errors.AssertionFailed):
        f(c(5))
    assert int(v) == 10


def test_under_vmap_a_check_names_the_model():
    def f(x):
        lm.check(x > 0, "positive", x=x)
        return x
    with pytest.raises(lm.errors.AssertionFailed) as caught:
        lm.vmap(f)(c([3, 2, -1]))
    assert caught.value.why == "of model 2: x = -1"


def test_check_numerics_finds_what_is_not_finite_and_has_a_gradient():
    x = c([1.0, float("nan"), float("inf")])
    with pytest.raises(lm.errors.InvalidArgument) as caught:
        lm.check_numerics(x, "the loss")
    assert caught.value.what == "check_numerics: the loss" and caught.value.why.startswith("1 NaN and 1 infinite of 3 elements, the first at [1]: nan")
    y = c([2.0, 3.0])
    with lm.GradientTape() as tape:
        tape.watch(y)
        z = lm.sum(lm.check_numerics(y) ** 2)
    assert tape.gradient(z, y).numpy().tolist() == [4, 6]
    with pytest.raises(lm.errors.InvalidArgument, match="check_numerics"):
        lm.function(lambda x: lm.check_numerics(x / 0.0))(c(1.0))


def test_check_numerics_of_a_branch_that_is_not_taken_does_not_fail():
    @lm.function
    def f(x):
        if x > 0:
            return lm.check_numerics(x / 0.0)
        return x
    assert float(f(c(-1.0))) == -1


# --- explicit graphs ---


@pytest.mark.row("S2-6")
def test_an_explicit_graph_is_fetched_by_value_by_name_and_in_structures():
    g = lm.Graph()
    with g.building():
        x = g.input([None], lm.float32, name="x")
        b = g.variable(12.0, name="b")
        y = x * 2 + b
        z = lm.sum(y)
    with pytest.raises(lm.errors.UninitializedVariable):
        g.run(y, {"x": [1.0]})
    g.initialize()
    assert g.run(y, {"x": [1.0, 2.0]}).tolist() == [14, 16]
    assert g.run({"y": y, "all": [z, b]}, {x: [1.0, 2.0, 3.0]})["all"][0] == 48
    assert g.run("sum:0", {"x": [1.0]}) == 14 and g.tensor("sum:0").shape == ()
    assert g.operations[0] == "x" and "mul" in g.operations and repr(g).startswith("<lm.Graph, ")


@pytest.mark.row("S2-5")
def test_an_explicit_graph_runs_only_what_is_fetched():
    g, lines = lm.Graph(), io.StringIO()
    with g.building():
        a = lm.constant([1.0, 2.0])
        v = g.variable(1.0)
        before = v + 0.0
        v.assign_add(10.0)
        after = v + 0.0
        lm.print("v", v, file=lines)
        trap = lm.check_numerics(a / 0.0)
    g.initialize()
    assert g.run(before) == 1 and g.run(before) == 1
    assert g.run(after) == 11 and g.run(v) == 11
    assert lines.getvalue() == "" and g.run("print") is None and lines.getvalue() == "v 21\n"
    with pytest.raises(lm.errors.InvalidArgument):
        g.run(trap)


def test_errors_of_an_explicit_graph_name_what_is_there():
    g = lm.Graph()
    with g.building():
        x = g.input([2], name="x")
        y = x + 1.0
    with pytest.raises(lm.errors.NotFound, match="did you mean 'add'"):
        g.run("ad", {"x": [1.0, 2.0]})
    with pytest.raises(lm.errors.InvalidArgument, match="input 'x' has no value"):
        g.run(y)
    with pytest.raises(lm.errors.InvalidArgument, match="'add' is not an input"):
        g.run(y, {"x": [1.0, 2.0], "add": 1.0})
    with pytest.raises(lm.errors.SignatureMismatch):
        g.run(y, {"x": [1.0]})
    with pytest.raises(lm.errors.InvalidArgument, match="not a value of this graph"):
        g.run(c(1))
    with pytest.raises(lm.errors.StateError):
        g.input([2])
    np.testing.assert_array_equal(g.run([y], {"x": [1.0, 2.0]})[0], [2, 3])


def test_a_print_two_branches_deep_happens():
    def f(x, m):
        if m > 5:
            x = x * 2.0
        else:
            if m % 2 == 0:
                lm.print("even", m)
        return x

    traced = lm.function(f)
    for m in range(8):
        assert printed(traced, c(1.0), c(m))[0] == (f"even {m}\n" if m < 6 and m % 2 == 0 else "")


def test_hoisting_invariants_leaves_prints_in_the_loop():
    def f(x, m):
        y = x
        for i in lm.range(m):
            lm.print("iteration", i)
            y = lm.exp(x) + 1.0
        return y

    traced = lm.function(f)
    for m in range(4):
        assert printed(traced, c(1.0), c(m))[0] == "".join(f"iteration {i}\n" for i in range(m))
