"""Generates random programs, as source, that change dicts, lists, attributes and nonlocals in branches and loops. They work with Python
ints and with int32 tensors alike, and return everything that they changed."""
import random

_HEAD = '''\
import collections
import dataclasses

import lamina as lm


class Box:
    def __init__(self, v, w):
        self.v, self.w = v, w

    def add(self, by):
        self.v = (self.v + by) % 97

    @property
    def twice(self):
        return self.v * 2

    @twice.setter
    def twice(self, value):
        self.v = value


class Slotted:
    __slots__ = ("v", "w")

    def __init__(self, v, w):
        self.v, self.w = v, w

    def add(self, by):
        if by > 3:
            self.v = self.v + 1


@dataclasses.dataclass
class Data:
    v: int
    w: list

    def add(self, by):
        self.w[0] = (self.w[0] + by) % 97


def put(d, key, value):
    d[key] = value


@lm.autograph.do_not_convert
def put_unconverted(d, key, value):
    d[key] = value


def put_if(d, key, value):
    if value > 5:
        d[key] = value % 5
        return d[key] + 1
    return value


'''


class Program:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines = []
        self.loops = 0     # enclosing loops
        self.depth = 0
        self.variable = 0  # numbers of loop variables
        self.indices = []
        self.wild = self.r.random() < 0.35  # structures change too
        self.text = self.make()

    def pick(self, *choices):
        return self.r.choice(choices)

    def number(self):
        return str(self.r.randint(0, 9))

    def place(self):
        return self.pick("d['x']", "d['x']", "d['y']['z']", "e['z']", "l[0]", "l[1]", "l[-1]", "m[0]", "o.v", "o.v", "o.w[0]", "o.w[1]", "t.v", "p", "q", "c['k']", "n2[1]['deep'][0]")

    def atom(self):
        choices = ["a", "b", self.number(), self.place(), self.place(), "count", "len(l)" if self.wild else "b", "o.twice" if self.box == "Box" else "o.v", *self.indices]
        return self.r.choice(choices)

    def expression(self, depth=0):
        if depth > 1 or self.r.random() < 0.35:
            return self.atom()
        form = self.r.random()
        if form < 0.75:
            return f"({self.expression(depth + 1)} {self.pick('+', '-', '*', '+')} {self.expression(depth + 1)})"
        if form < 0.9:
            return f"({self.expression(depth + 1)} if {self.condition()} else {self.expression(depth + 1)})"
        return f"tell({self.expression(depth + 1)})"

    def condition(self):
        left = f"{self.atom()} {self.pick('>', '<', '>=', '==', '!=')} {self.atom()}"
        form = self.r.random()
        if form < 0.1:
            return f"{left} {self.pick('and', 'or')} {self.atom()} > {self.number()}"
        if form < 0.15:
            return f"not {left}"
        if form < 0.2:
            return f"0 < {self.atom()} < {self.number()}"
        if form < 0.25:
            return f"tell({self.atom()}) > {self.number()}"
        return left

    def add(self, line):
        self.lines.append("    " * (self.depth + 1) + line)

    def block(self, size):
        self.depth += 1
        before = len(self.lines)
        for _ in range(self.r.randint(1, max(1, size))):
            self.statement(size - 1)
        if len(self.lines) == before:
            self.add("pass")
        self.depth -= 1

    def statement(self, size):
        form = self.r.random()
        deep = self.depth > 3
        if form < 0.42 or deep and form < 0.9:
            return self.assignment()
        if form < 0.52:
            return self.call()
        if form < 0.6 and self.wild:
            return self.structure()
        if form < 0.8:
            self.add(f"if {self.condition()}:")
            self.block(size)
            if self.r.random() < 0.3:
                self.add(f"elif {self.condition()}:")
                self.block(size)
            if self.r.random() < 0.6:
                self.add("else:")
                self.block(size)
            return
        if form < 0.95 and self.loops < 2:
            return self.loop(size)
        if self.loops and form < 0.98:
            self.add(f"if {self.condition()}:")
            self.add("    " + self.pick("break", "continue"))
            return
        if self.r.random() < 0.5:
            self.add(f"if {self.condition()}:")
            self.depth += 1
            self.add(self.result())
            self.depth -= 1
            return
        self.assignment()

    def assignment(self):
        form = self.r.random()
        if form < 0.55:
            return self.add(f"{self.place()} = {self.expression()} % 97")
        if form < 0.8:
            place = self.place()
            return self.add(f"{place} {self.pick('+=', '-=')} {self.atom()} % 7")
        if form < 0.88:
            return self.add(f"{self.place()}, {self.place()} = {self.atom()}, {self.expression()} % 97")
        if form < 0.94:
            return self.add("l[0], l[1] = l[1], l[0]")
        return self.add(self.pick("o.twice = %s %% 97" if self.box == "Box" else "o.v = %s %% 97", "l = [%s %% 97, *l[1:]]", "e = d['y'] = {'z': %s %% 97}") % self.expression())

    def call(self):
        value = f"{self.expression()} % 97"
        return self.add(self.pick(f"bump({value})", f"bump({value})", f"o.add({value})", f"put(d, 'x', {value})", f"put_unconverted(d, 'x', {value})", f"q = put_if(d, 'x', {value})",
                                  f"d.update(x={value})", f"d.setdefault('x', {value})", "o.w.reverse()", "c['k'] = max(0, 1) + c['k']"))

    def structure(self):
        value = f"{self.expression()} % 97"
        return self.add(self.pick(f"l.append({value})", f"l.append({value})", "l.pop()", f"l.insert(0, {value})", f"l.extend([{value}, 1])", "m = l", f"l = [{value}, 1, 2]", "o.w = l", f"d['new'] = {value}", "d.pop('new', 0)",
                                  f"seen.add({self.number()})", "del l[-1]", f"o = {self.box}({value}, [1, 2])", "l = list(m)", f"d = {{'x': {value}, 'y': {{'z': 1}}}}", "q = l.pop()", "t = o",
                                  "q = next(it)", f"late = {value}", "l.clear()", "e = d['y']", "d['y'] = e", "l += [1]", "o = t", f"t = Data({value}, [3, {self.number()}])",
                                  f"t = Data({value}, o.w)", f"t = dataclasses.replace(t, v={value})" if self.box == "Data" else "t = o", "t = Data(t.v, list(o.w))", f"t = tell(0) or o if {self.condition()} else t"))

    def loop(self, size):
        self.loops += 1
        self.variable += 1
        name = f"i{self.variable}"
        form = self.r.random()
        count = self.pick("n", "n", "3", "n - 1", "a % 3", "lm.range(n)") if self.r.random() < 0.9 else "len(l)"
        if form < 0.6:
            self.add(f"for {name} in {count}:" if count.startswith("lm") else f"for {name} in range({count}):")
            self.indices.append(name)
            self.block(size)
            self.indices.pop()
        elif form < 0.8:
            self.add(f"{name} = 0")
            self.add(f"while {name} < {count if not count.startswith('lm') else 'n'}:")
            self.depth += 1
            self.add(f"{name} += 1")
            self.depth -= 1
            self.block(size)
        else:
            self.add(f"for {name}, item in enumerate({self.pick('v', 'o.w', 'v')}):")
            self.indices += [name, "item"]
            self.block(size)
            del self.indices[-2:]
        self.loops -= 1
        if self.r.random() < 0.1:
            self.add("else:")
            self.block(1)

    def result(self):
        return "return p, q, d, l, m, o.v, o.w, t.v, c['k'], n2, count, e, len(seen), " + ("0" if self.r.random() < 0.9 else "len(l)")

    def make(self):
        self.box = self.pick("Box", "Slotted", "Data")
        self.lines = ["def f(a, b, n, v):"]
        for line in ("p, q, count = 0, 1, 0", "d = {'x': 1, 'y': {'z': 2}}", "e = d['y']", f"l = [1, 2, {self.number()}]", "m = l" if self.r.random() < 0.3 else "m = [7, 8]", f"o = {self.box}({self.number()}, [4, 5])",
                     "t = o" if self.r.random() < 0.3 else "t = Data(b, [1])", "c = collections.Counter(k=3)", "n2 = (0, {'deep': [a, 1]})", "seen = {100}", "it = iter([5, 6, 7, 8] * 5)",
                     "", "def bump(by):", "    nonlocal count", "    count = (count + by) % 97", "", "def tell(x):", "    d['x'] += 1", "    return x % 97", ""):
            self.add(line)
        for _ in range(self.r.randint(2, 6)):
            self.statement(3)
        self.add(self.result())
        return _HEAD + "\n".join(self.lines) + "\n"


CALLS = [(1, 2, 3, [3, 1, 2]), (5, -4, 0, [3, 9, 2]), (0, 0, 1, [0, 0, 0]), (-7, 8, 2, [6, -1, 4]), (1, 2, 3, [3, 1, 2])]
