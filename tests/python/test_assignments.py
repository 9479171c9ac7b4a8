"""Assignments in traced functions that Python allows beside statements of names: `:=` in conditions, and items of lists that a tensor chooses. Each program against itself without tracing."""
import numpy as np
import pytest

import lamina as lm


def same(program, *args):
    """The traced program gives what Python gives."""
    wanted = program(*(np.float32(a) if isinstance(a, float) else a for a in args))
    got = lm.function(program)(*(lm.constant(a) for a in args))
    flat = lambda value: [float(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
    assert flat(got) == pytest.approx(flat(wanted), rel=1e-6)


CONDITION = """
def program(x):
    n = 0.0
    y = z = 0.0
    while {condition}:
        {jump}
        n = n + 1.0
    else:
        n = n + 100.0
    return y, z, n
"""
CONDITIONS = ["(y := x - n) > 0", "(y := x - n) > 0 and n < 3", "n < 4 and (y := x - n) > 0", "(y := x - n) > 0 and (z := y * 2) > 3", "(y := x - n) > 2 or (z := n) < 2", "not (y := x - n) < 1",
              "0 < (y := x - n) < 5", "not (n > 3 or (y := x - n) < 0)", "n < 9 and 0 < (y := x - n) < (z := 5.0)"]
JUMPS = ["pass", "if x - n < 2: break", "if x - n < 3:\n            n = n + 2.0\n            continue", "if x - n < 2: return y, z, n"]


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_assignments_in_the_condition_of_a_loop(condition, jump, tmp_path):
    program = made(CONDITION.format(condition=condition, jump=jump), tmp_path)
    for x in (5.0, 1.5, -1.0):
        same(program, x)


def made(source, folder):
    """The function of a source that has a file."""
    path = folder / "program.py"
    path.write_text(source)
    names = {}
    exec(compile(source, str(path), "exec"), names)
    return names["program"]


@pytest.mark.parametrize("condition", ["(y := x * 2) > 3", "(y := x * 2) > 3 and x < 8", "x > 0 and (y := x * 3) > 6", "x < 0 or (y := x + 1) > 3", "(y := x) > 1 and (z := y + 1) > 4 or (z := 9.0) < y"])
def test_assignments_in_the_condition_of_a_branch(condition, tmp_path):
    program = made(f"def program(x):\n    y = z = 0.0\n    if {condition}:\n        r = 1.0\n    elif (z := x - 1) > 0:\n        r = z\n    else:\n        r = 2.0\n    return y, z, r\n", tmp_path)
    for x in (5.0, 2.0, 1.2, -1.0, 9.0):
        same(program, x)


def put(v, j):
    a = [v, v * 2.0, v * 3.0]
    a[j] = v * 10.0
    return a


def put_among_numbers(v, j):
    a = [0.0, 1.0, 2.0]
    a[j] = v
    return a


def change(v, j):
    a = [1.0, 1.0, 1.0]
    a[j] += v
    a[-j] *= 3.0
    return a


def swap(v, j):
    a = [v, v * 2.0, v * 3.0]
    a[j], a[0] = a[0], a[j]
    return a


def nested(v, j):
    a = [[v, 1.0], [2.0, 3.0]]
    a[1][j - 1] = v
    return a[0] + a[1]


def in_a_branch(v, j):
    a = [v, v * 2.0, v * 3.0]
    if v > 0:
        a[j] = 7.0
    return a


def alias(v, j):
    a = [v, v, v]
    b = a
    b[j] = 5.0
    return a


def in_pythons_order(v, j):
    a, log, i = [v, v * 2.0, v * 3.0], [], 0

    def changed():
        a[0] = a[0] * 5.0
        log.append(len(log))
        return 1.0

    def at(k):
        log.append(10 + k)
        return k

    a[i] += changed()
    a[i], i = v, 2
    i, a[i], *a[at(1)::2] = 1, 4.0, 7.0
    a[at(0)] = changed() + a[0]
    return [*a, float(i), *map(float, log)]


@pytest.mark.parametrize("program", [put, put_among_numbers, change, swap, nested, in_a_branch, alias, in_pythons_order])
@pytest.mark.parametrize("j", [1, 2])
def test_items_that_a_tensor_chooses(program, j):
    for v in (4.0, -4.0):
        if program is nested and j == 0:
            continue
        same(program, v, j)


def test_items_in_a_loop_of_the_graph():
    @lm.function
    def counts(xs):
        a = [0.0] * 3
        for x in xs:
            a[x] += 1.0
        return lm.stack(a)

    assert counts(lm.constant([0, 2, 2, -1])).tolist() == [1, 0, 3]
    with pytest.raises(lm.errors.IndexOutOfRange):
        counts(lm.constant([0, 3]))


def test_items_that_are_no_tensors_are_refused():
    @lm.function
    def f(j):
        a = ["a", "b"]
        a[j] = "c"
        return 0

    with pytest.raises(lm.errors.ConversionFailed, match="an item of a list that .* a str is chosen by a tensor"):
        f(lm.constant(1))

    @lm.function
    def g(j):
        a = {0: 1.0}
        a[j] = 2.0
        return a[0]

    with pytest.raises(lm.errors.ConversionFailed, match="a dict is indexed by a tensor"):
        g(lm.constant(0))


# --- lengths that are open ---

OPEN = {
    "arithmetic": lambda x: lm.reshape(x, (x.shape[0] * 3,)), "a quotient": lambda x: lm.sum(x) / x.shape[0], "a comparison": lambda x: x if x.shape[0] > 2 else -x, "a range": lambda x: [x[i] for i in range(x.shape[0])],
    "reshape": lambda x: lm.reshape(x, (x.shape[0], -1)), "a method": lambda x: x.reshape(x.shape[0], 3, 1), "zeros": lambda x: lm.zeros(x.shape), "draws": lambda x: lm.random.normal((x.shape[0], 2)),
    "eye": lambda x: lm.eye(x.shape[0]), "arange": lambda x: lm.arange(x.shape[0]), "tile": lambda x: lm.tile(x[:1], (x.shape[0], 1)), "full": lambda x: lm.full(x.shape, 1.0), "broadcast": lambda x: lm.broadcast_to(x[:1], x.shape),
    "padding": lambda x: lm.pad(x, ((0, 10 - x.shape[0]), (0, 0))), "a float": lambda x: float(x.shape[0]),
}


@pytest.mark.parametrize("use", OPEN)
def test_none_of_an_open_length_is_an_error_that_says_what_to_write(use):
    with pytest.raises(lm.errors.TypeMismatch) as error:
        lm.function(OPEN[use], input_signature=[lm.TensorSpec([None, 3])])(lm.ones((4, 3)))
    assert "is None in x.shape" in error.value.why and "len(x)" in error.value.fix and "lm.shape(x)[i]" in error.value.fix and "test_assignments.py" in error.value.where


def test_other_errors_about_none_stay():
    def own(x):
        return None + 1

    with pytest.raises(TypeError) as error:
        lm.function(own)(lm.ones((4, 3)))
    assert not isinstance(error.value, lm.errors.Error)


# --- what is returned early and changed afterwards ---

def changed_by_finally(x):
    out = [x]
    try:
        if x > 0:
            return out
    finally:
        out[0] = out[0] + 100.0
    return out


def changed_by_an_inner_finally(x):
    out = [x, x]
    for i in range(2):
        try:
            if x > i:
                return out
        finally:
            out[i] = out[i] * 2.0
    return out


def changed_on_the_other_way(x):
    out = [x, x]
    if x > 0:
        return out
    out[1] = x * 2.0
    if x < -5:
        return out
    out[0] = x * 3.0
    return out


def changed_in_later_iterations(x):
    out = [x]
    for i in range(3):
        if x > i:
            return out
        out[0] = out[0] * 2.0 + i
    return out


def kept_by_finally(x):
    out, log = [x], [0.0]
    try:
        if x > 0:
            return out
        out = [x * 4.0]
    finally:
        log[0] = log[0] + 1.0
    return [out[0] + log[0]]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("program", [changed_by_finally, changed_by_an_inner_finally, changed_on_the_other_way, changed_in_later_iterations, kept_by_finally])
def test_a_list_that_is_returned_early_is_right_or_refused(program, nested):
    def outer(x):
        made = (lm.function(program) if nested and isinstance(x, lm.Tensor) else program)(x)
        made[0] = made[0] + 1.0
        return made[0] * 10.0 + made[-1]

    for one in (program, outer):
        for x in (2.0, 0.5, -1.0, -7.0):
            try:
                same(one, x)
            except lm.errors.ConversionFailed as error:
                assert "is changed after a branch" in error.what and program is not changed_on_the_other_way and (program is not kept_by_finally or one is outer)
