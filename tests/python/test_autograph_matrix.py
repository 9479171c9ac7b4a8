"""AutoGraph against plain Python: generated programs of every kind of loop, operand, exit and nesting, for 0 to 4 iterations.

A program is written once with `c(...)` and `lm.range`, and run three ways: plain (Python numbers and lists), eager, and traced. All of them must give
the same number, and a traced one must need one graph for all numbers of iterations when its operands are tensors.
"""
import itertools
import linecache
import os

import numpy as np
import pytest

import lamina as lm

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
TRIPS = range(5)

# The forms of loops: the head at a nesting level (which ends the names of its counter), and code that computes i, the item's number.
HEADS = {
    "while": ["i{d} = c(-1)", "while i{d} + 1 < n:", "    i{d} = i{d} + 1"],
    "while true": ["i{d} = c(-1)", "while True:", "    i{d} = i{d} + 1", "    if i{d} >= n: break"],
    "range": ["for i{d} in range(n):"],
    "lm.range": ["for i{d} in lm.range(n):"],
    "stepped": ["for j{d} in range(2 * n, 0, -2):", "    i{d} = n - j{d} // 2"],
    "rows": ["for i{d} in v:"],
    "enumerate": ["for i{d}, r{d} in enumerate(v):"],
    "zip": ["for i{d}, r{d} in zip(v, v):"],
}
EXITS = {
    "none": [],
    "break": ["if s % 7 > 4: break"],
    "continue": ["if s % 3 == 1: continue"],
    "return": ["if s % 11 > 7: return s + 1000"],
    "break or continue": ["if s % 3 == 1: continue", "if s > 20 and i{d} > 0: break"],
    "return or break": ["if s > 40:", "    return -s", "elif s % 5 == 2:", "    break", "else:", "    s = s + 1"],
}
# Where the loop is placed ("LOOP"), and how a program ends.
PLACES = {
    "alone": ["LOOP"],
    "in a branch": ["if n != 2:", "    LOOP", "else:", "    s = s - 5"],
    "in a loop": ["for k in lm.range(2):", "    s = s + k", "    LOOP"],
    "in a while": ["k = c(0)", "while k < 2:", "    k = k + 1", "    LOOP", "    s = s * 2"],
    "twice": ["LOOP", "s = s + 3", "LOOP"],
    "around a loop": ["OUTER"],
}
BODIES = {
    "state": ["s = s + 2 * i{d} + 1"],
    "branch": ["if i{d} % 2 == 0:", "    s = s + 3", "elif s > 2 or i{d} == 3:", "    s = s * 2", "else:", "    t = t + s", "s = s + (t if s > t else 1)"],
}


def indented(lines, by):
    return [" " * by + line for line in lines]


def loop(head, leave, body, has_else, level, inside=()):
    """A loop as lines."""
    lines = [line.format(d=level) for line in HEADS[head]]
    inner = [line.format(d=level) for line in [*BODIES[body], *inside, *EXITS[leave], "s = s + 1"]]
    lines += indented(inner, 4)
    return lines + (["else:", "    s = s + 100"] if has_else else [])


def program(head, leave, place, body, has_else):
    lines = []
    for line in PLACES[place]:
        stripped = line.lstrip()
        pad = len(line) - len(stripped)
        if stripped == "LOOP":
            lines += indented(loop(head, leave, body, has_else, 0), pad)
        elif stripped == "OUTER":
            inner = loop(head, leave, "state", False, 1)
            lines += loop(head, leave, body, has_else, 0, [line.replace("{", "{{").replace("}", "}}") for line in inner])
        else:
            lines.append(line)
    return "\n".join(["def f(n, v):", *indented(["s = c(1)", "t = c(0)", *lines, "return s + t"], 4), ""])


def plain(source):
    """The program on Python's own numbers."""
    return source.replace("lm.range", "range").replace("c(", "(")


def made(source, **names):
    filename = f"<matrix {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = dict(names)
    exec(compile(source, filename, "exec"), scope)
    return scope["f"]


PROGRAMS = list(itertools.product(HEADS, EXITS, PLACES, BODIES, (False, True)))
# "while True" ends only by break, so its else never runs, as in Python; half of the programs is enough.
PROGRAMS = [p for p in PROGRAMS if not (p[0] == "while true" and p[4])]
OPERANDS = ("tensors", "python state", "python trips")


def cases():
    all_cases = [(p, o) for p in PROGRAMS for o in OPERANDS]
    return all_cases if LONG else all_cases[::23]


def run(case):
    (head, leave, place, body, has_else), operand = case
    source = program(head, leave, place, body, has_else)
    want = made(plain(source))
    if operand == "python state":  # numbers before the loop, which become tensors where necessary
        source = source.replace("c(1)", "1").replace("c(0)", "0")
    fn = made(source, lm=lm, c=lm.constant)
    graph = lm.function(fn, relax_shapes=False)
    lists = head in ("rows", "enumerate", "zip")
    for n in TRIPS:
        v = list(range(n))
        if operand == "python trips":
            given = (n, tuple(v))
        else:
            given = (lm.constant(n), lm.constant(np.arange(n, dtype=np.int32)))
        got = graph(*given)
        if not isinstance(got, lm.Tensor) and operand == "python trips":
            got = lm.constant(got)
        assert int(got) == want(n, v), f"{operand}, {n} iterations of\n{source}"
    if operand != "python trips" and not lists:
        return graph, source
    return None, source


@pytest.mark.parametrize("part", range(8 if LONG else 1))
def test_generated_programs_give_what_python_gives(part):
    chosen = cases()
    chosen = chosen[part::8] if LONG else chosen
    failures = []
    for case in chosen:
        try:
            run(case)
        except Exception as error:
            failures.append(f"{case}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} of {len(chosen)} programs:\n" + "\n\n".join(failures[:5])


def test_the_matrix_is_as_large_as_it_says():
    assert len(PROGRAMS) * len(OPERANDS) * len(TRIPS) >= 3000
    assert len(cases()) * len(TRIPS) >= 200
