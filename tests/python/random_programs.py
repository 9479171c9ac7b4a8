"""Random programs with control flow, state and effects, run eagerly and traced: the same numbers, the same state, the same texts in the same order.

Effects are assignments to two Variables, prints to two files, draws and assertions that fail in some calls; in branches, loops and called functions, plain
and traced ones. Eagerly they happen one after the other in Python: that is the interpreter which the traced program is compared with.

All numbers are small integers (in float32 and int32), so that every order of sums gives the same bits and no condition stands on an edge. No product is
-0: a pass that leaves an addition of 0 out would show it.
A failing program is made smaller, statement by statement, as long as it still fails.

    python tests/python/random_programs.py FIRST_SEED COUNT [--every-pass]
"""
import contextlib
import linecache
import os
import random
import sys
import time
import traceback

import numpy as np

import lamina as lm

PASSES = ["inline_checkpoints", "forward_assigned_values", "remove_dead_nodes", "merge_loops", "fold_branches", "drop_unused_loop_values", "hoist_invariants",
          "fold_constants", "simplify_algebra", "simplify_arithmetic", "merge_equal_nodes", "fold_transposes_into_matmul", "flatten_products", "fuse_dense", "fuse_dense_backward", "fuse_elementwise",
          "recompute_values"]


class Block:
    """A statement that contains statements: its lines are strings (the end of a part's head) and lists (a part's body)."""

    def __init__(self, *parts):
        self.parts = parts


def text_of(statements, depth=0):
    lines = []
    for s in statements:
        if isinstance(s, str):
            lines.append("    " * depth + s)
            continue
        for part in s.parts:
            lines += ["    " * depth + part] if isinstance(part, str) else text_of(part or ["pass"], depth + 1)
    return lines


# Functions called by programs: `effects` is plain, and AutoGraph converts it; `traced_effects` is a traced function of its own.
EFFECTS = """
def effects(a, n):
    v.assign_add(a % 3.0)
    lm.print("effects", n, w, file=other)
    if n % 2 == 0:
        w.assign((w * 2 + n) % 37)
        a = a + lm.astype(lm.random.integers(0, 3, (3,)), lm.float32)
    for i in lm.range(n % 3):
        lm.print(i, v, file=out)
        w.assign_add(i)
    return a % 43.0
"""


class Writer:
    """Writes the body of f(x, y, n, o): x and y float32[3], n an int32 scalar, o float32 of a length that each call chooses; k is a Python int; v and w are
    Variables, float32[3] and int32."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.counters = 0

    def pick(self, *choices):
        return self.random.choice(choices)

    def vector(self):
        a, b = self.pick("x", "y", "z", "v"), self.pick("x", "y", "z", "v", "1.0", "k", "lm.astype(m, lm.float32)")
        c = self.pick("x", "y", "z", "v")
        return self.pick(f"({a} + {b}) % 17.0", f"({a} * {b}) % 13.0", f"{a} - {b}", f"lm.minimum({a}, {b})", f"lm.where({a} > {b}, {a}, {b} + 0.0 * lm.abs({a}))", f"lm.abs({a}) % 7.0",
                         f"lm.flip({a}, 0)", f"({a} + lm.sum({a})) % 19.0", f"lm.relu({a}) + {b}", f"helper({a}, {self.pick('m', 'n')})", f"lm.stack([{a}[2], {a}[0], {a}[1]])",
                         f"lm.matmul(lm.reshape({a}, (1, 3)), lm.tril(lm.ones((3, 3))))[0] % 11.0",
                         # axes of length 0
                         f"{a} + lm.sum(lm.zeros((0, 3)) * {b}, 0)", f"lm.concat([lm.abs({a})[:0], {a} + 0.0])", f"{a} - lm.matmul({b} * lm.ones((0, 3)), lm.ones((3, 0))).shape[0]",
                         f"{a} + lm.reshape(lm.matmul(lm.zeros((3, 0)), lm.zeros((0, 1))), (3,))", f"lm.scan(lambda s, row: (s + row, row), {a} + 0.0 * lm.abs({c}), lm.zeros((0, 3)))[0]",
                         # an axis of open length
                         f"{a} + lm.sum(o)", f"lm.sum(o[:, None] * {a}, 0) % 13.0", f"lm.scan(lambda s, r: ((s + r) % 5.0, s), {a} * 1.0, o)[0]", f"lm.sum(lm.vmap(lambda r: (r + {a}) % 7.0)(lm.concat([o, {b} * lm.ones(3)])), 0)",
                         f"({a} + lm.matmul(o[None, :], o[:, None])[0, 0]) % 11.0", f"{a} + lm.sum(lm.stack([o, lm.flip(o, 0)])[:, :2])", f"{a} + lm.sum(lm.concat([o, {a}])[-2:])",
                         f"lm.concat([lm.sort(o), {a}])[:3] + 0.0 * lm.concat([o, lm.abs({a})])[-3:]",
                         # bodies that use outside values
                         f"(lambda t: (t + {b}) % 9.0)({a})", f"lm.checkpoint(lambda: ({a} + {b}) % 8.0)()", f"lm.cond(m > 2, lambda: {a} * 1.0, lambda: {a} + 0.0 * lm.abs({c})) % 17.0",
                         f"lm.scan(lambda s, q: ((s + q + {b}) % 5.0, s), lm.abs({a}) * 1.0, lm.stack([x, y]))[0]")

    def number(self):
        return self.pick("m + 1", "m * 2 % 23", "n - m", "(m + w) % 9", "lm.astype(lm.sum(x), lm.int32) % 5", "lm.maximum(m, n)", "m + k")

    def condition(self):
        one = self.pick("lm.sum(x) > 4", "m % 2 == 0", "n > 1", "m < n", "k > 1", "lm.all(x < y)", "w % 3 != 1", "0 <= m < 6", "not lm.sum(z) > 3", "k")
        return self.pick(one, one, one, f"{one} and {self.pick('n > 0', 'm != 3', 'k < 2')}", f"{one} or {self.pick('n == 2', 'm > 4')}", f"not ({one})")

    def simple(self):
        return self.pick(f"{self.pick('x', 'y', 'z')} = {self.vector()}", f"{self.pick('x', 'y', 'z')} = {self.vector()}", f"m = {self.number()}", f"v.assign(({self.vector()}) % 29.0)",
                         f"w.assign(({self.number()}) % 31)", f"v.assign_add({self.pick('x', 'y', 'z')} % 5.0)", "w.assign_add(1)", f"x, y = y, {self.vector()}", "x += y",
                         self.print(), self.print(), f"{self.pick('x', 'y', 'z')} = {self.pick('effects', 'traced_effects')}({self.pick('x', 'y', 'z')}, {self.pick('m', 'n')})", "x = x + lm.astype(lm.random.integers(0, 4, (3,)), lm.float32)",
                         "assert lm.all(x == x), ('x is NaN', x)", f"z = [i * 1.0 + {self.pick('x', 'y')} for i in range(k + 1)][-1]", "m = m + len([x, y])",
                         f"o = {self.pick('(o + lm.sum(x)) % 5.0', 'lm.flip(o, 0)', 'lm.cumsum(o) % 7.0', 'lm.where(o > x[0], o, 1.0 - o)', 'lm.sort(o)', 'lm.cond(m > 2, lambda: o * 1.0, lambda: o + y[0]) % 6.0', 'lm.vmap(lambda r: r + k)(o)', '(o * v[1]) % 11.0')}",
                         f"z = ({self.vector()}) if {self.condition()} else ({self.vector()})")

    def print(self):
        return f"lm.print({self.pick('m', 'w', 'n', 'lm.sum(x)', 'x, y', 'v')}, file={self.pick('out', 'other')})"

    def block(self, depth, in_loop):
        return [self.statement(depth, in_loop) for _ in range(self.random.randint(1, 3))]

    def loop(self, depth):
        self.counters += 1
        i = f"i{self.counters}"
        head = self.pick(f"for {i} in lm.range(n):", f"for {i} in range(n):", f"for {i} in range(3):", f"for {i}, row in enumerate(lm.stack([x, y])):", f"while {i} < {self.pick('n', 3, 'k + 2')}:", f"for {i} in range(k):", f"for {i}, row in enumerate(o):")
        body = self.block(depth - 1, True)
        if head.startswith("while"):
            return Block(f"{i} = n - n", head, f"    {i} = {i} + 1", body)  # lines that a smaller program keeps, so that it terminates
        use = "x = (x + row) % 9.0" if "row" in head else f"m = (m + {i}) % 12"
        ending = [Block("else:", [self.simple()])] if self.random.random() < 0.15 else []
        return Block(head, [use, *body], *[part for e in ending for part in e.parts])

    def statement(self, depth, in_loop):
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            if in_loop and kind < 0.12:
                return Block(f"if {self.condition()}:", [self.pick("break", "continue")])
            if kind > 0.41:
                return Block(f"if {self.condition()}:", [f"return {self.pick('x', 'y', 'z')}"])
            return self.simple()
        if kind < 0.75:
            parts = [f"if {self.condition()}:", self.block(depth - 1, in_loop)]
            if self.random.random() < 0.3:
                parts += [f"elif {self.condition()}:", self.block(depth - 1, in_loop)]
            if self.random.random() < 0.6:
                parts += ["else:", self.block(depth - 1, in_loop)]
            return Block(*parts)
        return self.loop(depth)

    def program(self):
        # A loop or branch is on one device with its contents, and code after a return in a branch becomes a branch: so they come first.
        placed = [s for _ in range(self.random.randint(0, 2)) for s in (Block("with place():", [self.simple()]), self.simple())]
        # Before a failing assertion all effects have happened, after it none; in a loop or branch, Variables keep their values from before it.
        for _ in range(self.random.randint(0, 2)):
            placed += [self.simple(), self.print(), f"assert lm.sum({self.pick('x', 'y', 'z', 'v')}) % 5.0 != {self.pick(1.0, 2.0, 3.0)}, ('it is', w)", self.simple()]
        return placed + [self.statement(3, False) for _ in range(self.random.randint(3, 6))]


def source_of(statements):
    return "\n".join([
        EFFECTS, "def f(x, y, n, o):",
        *text_of(["z = x - y", "m = n + 1", *statements, "return (x + y + z + lm.astype(m, lm.float32) + lm.sum(o)) % 101.0"], 1), ""])


def helper(a, b):
    if b % 2 == 0:
        return a + 1.0
    return lm.flip(a, 0)


class File:
    """A file that writes to a list shared with other files, which shows their order."""

    def __init__(self, name, written):
        self.name, self.written = name, written

    def write(self, text):
        self.written.append((self.name, text))


def run(statements, seed, traced, two_devices):
    """The effects of a program in all calls: results, Variables, and the text written to each file."""
    written = []
    v, w = lm.Variable([1.0, 2.0, 3.0]), lm.Variable(2)
    place = (lambda: lm.device("cpu:1")) if two_devices and traced else contextlib.nullcontext
    names = {"lm": lm, "v": v, "w": w, "out": File("out", written), "other": File("other", written), "place": place, "helper": helper, "k": seed % 3}
    source, file = source_of(statements), f"<random program {seed}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, "exec"), names)
    names["traced_effects"] = lm.function(names["effects"]) if traced else names["effects"]
    f = lm.function(names["f"], input_signature=[lm.TensorSpec([3]), lm.TensorSpec([3]), lm.TensorSpec([], lm.int32), lm.TensorSpec([None])]) if traced else names["f"]
    lm.random.set_seed(seed)
    did = []
    for call in range(4):
        x, y = ([float((seed + call * i) % 6 - 2) for i in range(first, first + 3)] for first in (0, 2))
        try:
            result = f(lm.constant(x), lm.constant(y), lm.constant(call), lm.constant([float((seed + i) % 5 - 1) for i in range((seed + 2 * call) % 4)], lm.float32)).numpy()
        except AssertionError:
            result = np.array("an assertion failed")
        did += [result, v.numpy().copy(), w.numpy().copy()]
    if traced and f.trace_count != 1:
        raise AssertionError(f"traced {f.trace_count} times: {f.traces}")
    return did, written


def run_eagerly(statements, seed):
    """The result of run(), or a text: a program that does not run eagerly proves nothing about tracing."""
    try:
        with np.errstate(all="ignore"):
            return run(statements, seed, False, False)
    except Exception as error:
        return f"EAGER {type(error).__name__}: {error}"


def difference(statements, seed, without=(), two_devices=False, eagerly=None):
    """ "" if the traced program does the same as the eager one, whose result is `eagerly` if it has been run already."""
    eagerly = eagerly or run_eagerly(statements, seed)
    if isinstance(eagerly, str):
        return eagerly
    expected, expected_text = eagerly
    before = os.environ.get("LAMINA_DISABLE")
    os.environ["LAMINA_DISABLE"] = ",".join(without)
    try:
        got, got_text = run(statements, seed, True, two_devices)
    except Exception:
        return traceback.format_exc(limit=-3)
    finally:
        os.environ.pop("LAMINA_DISABLE") if before is None else os.environ.__setitem__("LAMINA_DISABLE", before)
    for i, (a, b) in enumerate(zip(expected, got)):
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return f"call {i // 3}, {('the result', 'v', 'w')[i % 3]}: eagerly {a}, traced {b}"
    return "" if expected_text == got_text else f"printed eagerly {expected_text!r}, traced {got_text!r}"


def smaller(statements):
    """The programs with one statement less, or with one block replaced by its contents."""
    for i, s in enumerate(statements):
        yield statements[:i] + statements[i + 1:]
        if isinstance(s, Block):
            for j, part in enumerate(s.parts):
                if isinstance(part, list):
                    yield statements[:i] + part + statements[i + 1:]
                    for inner in smaller(part):
                        yield statements[:i] + [Block(*s.parts[:j], inner, *s.parts[j + 1:])] + statements[i + 1:]


def shrink(statements, fails, seconds=120):
    going, end = True, time.monotonic() + seconds
    while going:
        going = False
        for candidate in smaller(statements):
            if time.monotonic() > end:
                break
            if fails(candidate):
                statements, going = candidate, True
                break
    return statements


def check(seed, every_pass=False):
    """ "" or how the program of this seed fails, in its smallest form. Without every_pass, only one pass in turn is disabled."""
    statements = Writer(seed).program()
    eagerly = run_eagerly(statements, seed)
    left_out = [[p] for p in PASSES] if every_pass else [[PASSES[seed % len(PASSES)]]]
    for two_devices in (False, True)[:len(lm.config.list_devices("cpu"))]:
        for without in [[], *left_out]:
            wrong = difference(statements, seed, without, two_devices, eagerly)
            if not wrong:
                continue
            if wrong.startswith("EAGER"):
                return wrong + "\n" + source_of(statements)

            def fails(candidate):
                text = difference(candidate, seed, without, two_devices)
                return bool(text) and not text.startswith("EAGER")

            small = shrink(statements, fails)
            return f"seed {seed}, without {without}, two devices: {two_devices}\n{difference(small, seed, without, two_devices)}\n{source_of(small)}"
    return ""


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) > 3 and sys.argv[3].isdigit():
        lm.config.set_virtual_devices("cpu", int(sys.argv[3]))
    failures = 0
    for seed in range(first, first + count):
        if wrong := check(seed, "--every-pass" in sys.argv):
            failures += 1
            print(wrong, flush=True)
    print(f"{count} random programs, seeds {first} to {first + count - 1}, {len(lm.config.list_devices('cpu'))} devices: {failures} differ")
    sys.exit(failures > 0)
