"""AutoGraph: Python numbers that loops and branches of the graph carry take the dtype of what they meet."""
import os, runpy
from random import Random

import numpy as np
import pytest

import lamina as lm


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int64", "uint8"])
def test_numbers_take_the_dtype_of_the_tensors_that_they_meet_in_a_loop(name):
    x = lm.constant([[1, 5], [3, 2]], dtype=getattr(lm, name))

    def total(x):
        s = 0
        for row in x:
            t = 0
            for v in row:
                t += v
            s += t
        return s

    def most(x):
        best = -1
        for v in x[:, 1]:
            if v > best:
                best = v
        return best

    for body, expected in ((total, 11), (most, 5)) if name != "uint8" else ((total, 11),):
        result = lm.function(body)(x)
        assert result.dtype == x.dtype and float(result) == expected

    def mixed(x):
        s = 0
        for row in x:
            s += row[0]
            s += lm.astype(row[0], lm.complex64)
        return s

    with pytest.raises(lm.errors.TypeMismatch, match="have different dtypes|u8 only if its values fit"):  # the user's own error, at its line
        lm.function(mixed)(x)


def test_an_int_and_a_float_of_two_branches_are_a_float():
    def early(x):
        if x > 0:
            return 0
        return 1.5

    def three(x):
        if x > 0:
            s = 1
        elif x > -1:
            s = 2.5
        else:
            s = 3
        return s * x

    for body in (early, three, lambda x: 0 if x > 0 else 1.5, lambda x: 1.5 if x > 0 else 0):
        for v in (2.0, -0.5, -2.0):
            result = lm.function(body)(lm.constant(v))
            assert result.dtype == lm.float32 and float(result) == body(v)


def _random_function(random, name):
    """A function of x, three elements, and n: an int c, a float d and a length change in loops and branches, then meet x in arithmetic."""
    number = lambda: random.choice(["c", "d", "i", str(random.randrange(1, 5)), random.choice(["0.5", "2.0", "1.5"])])
    lines = [f"def {name}(x, n):", "    c, d, seen = 0, 0.5, []"]

    def change(pad, inside):
        kind = random.randrange(5)
        if kind == 0:
            lines.append(f"{pad}c = (c {random.choice('+-*')} {random.choice(['i', '3', 'c'])}) % 7")
        elif kind == 1:
            lines.append(f"{pad}d = d * 0.5 + {random.choice(['c', 'i', '1', '2.0'])}")
        elif kind == 2:
            lines.append(f"{pad}c, d = {random.choice(['max(c, i)', 'min(2, c)', 'abs(c - 5)', '-c', 'c // 2', 'c + 1'])}, {random.choice(['d', 'd / 2', 'c / 2', 'd - c'])}")
        elif kind == 3:
            lines.append(f"{pad}c = {random.choice(['i', '2', 'c + 1'])} if {random.choice(['x[i % 3] > 0', 'n > 2', 'c < 3'])} else {random.choice(['c', '1', 'i + 2'])}")
        elif inside:
            lines.append(f"{pad}if {random.choice(['x[i % 3] > 1', 'c > 2', 'd > 1.0', 'n > i'])}:")
            change(pad + "    ", False)
            lines.append(f"{pad}else:")
            change(pad + "    ", False)
        else:
            lines.append(f"{pad}c += 1")

    lines.append("    i = 0")
    for _ in range(random.randrange(1, 3)):
        head = random.choice(["for i in range(n):", "for i, v in enumerate(x):", "while i < n:"])
        lines.append("    i = 0" if head.startswith("while") else "    pass")
        lines.append("    " + head)
        for _ in range(random.randrange(1, 4)):
            change("        ", True)
        if head.startswith("while"):
            lines.append("        i += 1")
    lines += [f"    seen = [x {random.choice('+-*')} ({number()} {random.choice('+-*')} {number()})]" for _ in range(1)]
    results = ", ".join([f"{random.choice(['x', 'x[0]'])} {random.choice(['+', '-', '*', '/'])} ({number()} + 8)", f"lm.where(x > 1, x, {number()})", f"lm.maximum({number()}, x)", "seen[0]", "c", "d"])
    return "\n".join([*lines, f"    return {results}", ""])


def test_numbers_of_the_graph_meet_tensors_as_pythons_do(tmp_path):
    """Random functions, eager and traced, on tensors of several dtypes: the same values and dtypes, or TypeMismatch from both."""
    count = 600 if os.environ.get("LAMINA_TEST_LONG") else 60
    random, met, refused = Random(5), 0, 0
    file = tmp_path / "functions.py"
    file.write_text("import lamina as lm\n\n" + "\n".join(_random_function(random, f"f{k}") for k in range(count)))
    functions = runpy.run_path(str(file))
    for k in range(count):
        x = lm.constant([1, 2, 3], dtype=getattr(lm, random.choice(["float32", "float16", "float64", "int32", "int64"])))
        n, made = lm.constant(random.randrange(1, 5)), []
        for f in (functions[f"f{k}"], lm.function(functions[f"f{k}"])):
            try:
                made.append([np.asarray(part) for part in f(x, n)])
            except lm.errors.TypeMismatch:
                made.append("refused")
        eager, traced = made
        if isinstance(eager, str) or isinstance(traced, str):
            assert isinstance(eager, str) and isinstance(traced, str), (k, x.dtype, eager, traced)
            refused += 1
            continue
        met += 1
        for a, b in zip(eager, traced):
            np.testing.assert_array_equal(a, b, err_msg=f"f{k} of {x.dtype}")
            assert a.ndim == 0 or a.dtype == b.dtype, (k, x.dtype)
    assert met > count / 2 and refused > 0, (met, refused)


def _sum(x):
    total = 0
    for row in x:
        total = total + row
    return total


def _a_sum_that_the_first_iteration_reads(x):
    total, count = 1.0, 0
    for i, row in enumerate(x):
        total = row + lm.astype(lm.sum(total), x.dtype) * i
        count += 1
    return total / count


def _in_nested_loops(x):
    total = 0
    for row in x:
        for v in row:
            total = total + v * x[0]
    return total


def _in_branches(x):
    total, seen = 0.0, {"last": 0.5}
    for a, b in zip(x, x * 2):
        if lm.sum(a) > 0:
            total = total + a * b
        else:
            total = total - b
        seen["last"] = seen["last"] * b
    return total + seen["last"]


def _beside_a_list(x):
    out, total = [x[1]], 0.0
    for row in x:
        total = total + row
        out.append(total * 2)
    return lm.stack(out)


def _of_one_row(x):
    total = 0.0
    for row in x[:1]:
        total = total + lm.expand_dims(row, 0) * lm.expand_dims(row, 1)
    return total


def _with_a_gradient(x):
    with lm.GradientTape() as tape:
        tape.watch(x)
        total = 0.0
        for row in x:
            total = total + row * row
        cost = lm.sum(total)
    return tape.gradient(cost, x)


@pytest.mark.parametrize("name", ["float32", "float16"])
@pytest.mark.parametrize("f", [_sum, _a_sum_that_the_first_iteration_reads, _in_nested_loops, _in_branches, _beside_a_list, _of_one_row, _with_a_gradient], ids=lambda f: f.__name__)
def test_a_number_that_becomes_an_array_does_so_in_the_first_iteration(f, name):
    x = lm.constant(np.arange(12).reshape(4, 3) - 4, dtype=getattr(lm, name))
    wanted = f(x)
    traced = lm.function(f)(x)
    assert traced.dtype == wanted.dtype and np.array_equal(traced, wanted)
    for each in lm.function(lm.vmap(f))(lm.stack([x, x])):
        assert np.array_equal(each, wanted)


def test_a_number_that_becomes_an_array_is_refused_where_there_may_be_no_iteration():
    def f(x, n):
        total = 0.0
        for i in range(n):
            total = total + x
        return total

    with pytest.raises(lm.errors.InvalidArgument, match=r"'total' starts as f32\[\] and becomes f32\[2\]"):
        lm.function(f)(lm.ones(2), lm.constant(3))


def tensor_first(x):
    if x > 1.0:
        y = x
    elif x < -1.0:
        y = -1.0
    else:
        y = 0.0
    return y


def tensor_last(x):
    if x > 1.0:
        y = 1.0
    elif x < -1.0:
        y = -1.0
    else:
        y = x
    return y


def counter_or_tensor(x):
    k = 0
    for i in range(3):
        if x > i:
            k = k + 1
    return k if x > -1.0 else x


def nested_expressions(x):
    return (1 if x > 2.0 else 2) if x < 0.0 else (x * 2 if x > 1.0 else 0.5 if x > 0.25 else 3)


def half_counts(x):
    k = 1
    if x > 0.0:
        k = 2
    return k if x > 1.0 else 0.5


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("f", [tensor_first, tensor_last, counter_or_tensor, nested_expressions])
def test_the_order_of_branches_does_not_decide_the_dtype_of_numbers(f, dtype):
    traced = lm.function(f)
    for x in (-2.0, -0.5, 0.125, 0.5, 1.5, 2.5):
        x = lm.constant(x, dtype)
        assert traced(x).dtype == x.dtype and float(traced(x)) == float(f(x))


def test_counters_and_floats_of_branches_meet_as_numbers():
    traced = lm.function(lambda x: half_counts(x) * x)
    for dtype in ("float16", "float32", "float64"):
        for x in (-1.0, 0.5, 2.0):
            x = lm.constant(x, dtype)
            assert traced(x).dtype == x.dtype and float(traced(x)) == float(half_counts(x) * x)
