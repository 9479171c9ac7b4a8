"""Names that statements read and write, and liveness: the values still needed after each statement."""
from __future__ import annotations

import ast

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class FreshNames:
    """Gives names that a function does not use."""

    def __init__(self, function):
        self._taken = {getattr(n, "id", None) or getattr(n, "arg", None) or getattr(n, "name", None) for n in ast.walk(function)}

    def __call__(self, stem: str) -> str:
        """stem, stem_2, ..."""
        name, n = stem, 1
        while name in self._taken:
            name, n = f"{stem}_{n + 1}", n + 1
        self._taken.add(name)
        return name


def written(node) -> set[str]:
    """Names that a node (or a list of statements) binds in its scope."""
    out = set()

    def visit(n):
        if isinstance(n, list):
            for one in n:
                visit(one)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(n.name)
        elif isinstance(n, ast.Lambda):
            pass
        elif isinstance(n, _COMPREHENSIONS):
            out.update(w.target.id for w in ast.walk(n) if isinstance(w, ast.NamedExpr))
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            out.update((a.asname or a.name.split(".")[0]) for a in n.names)
        elif isinstance(n, ast.AST):
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
                out.add(n.id)
            elif isinstance(n, ast.ExceptHandler) and n.name:
                out.add(n.name)
            elif isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
                out.add(n.name)
            elif isinstance(n, ast.MatchMapping) and n.rest:
                out.add(n.rest)
            for child in ast.iter_child_nodes(n):
                visit(child)

    visit(node)
    return out


def read(node) -> set[str]:
    """Names that a node reads, including outside names that functions defined in it may read when called."""
    if node is None:
        return set()
    if isinstance(node, list):
        return set().union(*(read(n) for n in node)) if node else set()
    out = set()

    def visit(n, hidden):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            body = n.body if isinstance(n.body, list) else [n.body]
            for outside in (*n.args.defaults, *n.args.kw_defaults, *getattr(n, "decorator_list", ()), getattr(n, "returns", None), *(a.annotation for a in _arguments(n.args))):
                if outside is not None:
                    visit(outside, hidden)
            declared = {name for s in body for d in ast.walk(s) if isinstance(d, (ast.Global, ast.Nonlocal)) for name in d.names}
            hidden = hidden | {a.arg for a in _arguments(n.args)} | (written(body) - declared)
            for s in body:
                visit(s, hidden)
        elif isinstance(n, _COMPREHENSIONS):
            visit(n.generators[0].iter, hidden)
            hidden = hidden | {t.id for g in n.generators for t in ast.walk(g.target) if isinstance(t, ast.Name)}
            for child in ast.iter_child_nodes(n):
                visit(child, hidden)
        else:
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Load, ast.Del)) and n.id not in hidden:  # del needs a value
                out.add(n.id)
            if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id not in hidden:
                out.add(n.target.id)
            for child in ast.iter_child_nodes(n):
                visit(child, hidden)

    visit(node, frozenset())
    return out


def _arguments(args):
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *(a for a in (args.vararg, args.kwarg) if a)]


def captured(node) -> set[str]:
    """Names that functions and generators defined in a node may read later. A generator that is an argument of a call, as in sum(...), has run by then."""
    if isinstance(node, (*_SCOPES, ast.GeneratorExp)):
        return read(node)
    parts = []
    for n in ast.iter_child_nodes(node):
        parts += ast.iter_child_nodes(n) if isinstance(node, ast.Call) and isinstance(n, ast.GeneratorExp) else [n]
    return set().union(set(), *map(captured, parts))


class Liveness:
    """Writes live_out (names needed after it) on every statement of a function, and live_in (before it runs; of a loop: before each iteration) on
    every branch and loop, as body_in and orelse_in."""

    def __init__(self, function: ast.FunctionDef):
        declared = {n for s in ast.walk(function) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        self.always = declared | set().union(set(), *(captured(s) for s in function.body))
        self.block(function.body, set())

    def block(self, statements, out):
        for s in reversed(statements):
            s.live_out = out | self.always
            out = self.statement(s, out)
        return out

    def statement(self, s, out):
        if isinstance(s, ast.If):
            s.body_in, s.orelse_in = self.block(s.body, out), self.block(s.orelse, out)
            return read(s.test) | s.body_in | s.orelse_in
        if isinstance(s, (ast.While, ast.For)):
            exits = set(getattr(s, "exits", ()))
            inside = written(s.target) if isinstance(s, ast.For) else set()
            head = out | exits | (read(s.test) if isinstance(s, ast.While) else set())
            while True:
                wider = head | (self.block(s.body, head) - inside)
                if wider == head:
                    break
                head = wider
            s.body_in = head
            return head | (read(s.iter) | (read(s.target) - inside) if isinstance(s, ast.For) else set())
        if isinstance(s, ast.With):
            bound = set().union(*(written(i.optional_vars) for i in s.items if i.optional_vars is not None))
            return (self.block(s.body, out) - bound) | set().union(*(read(i.context_expr) for i in s.items))
        if isinstance(s, ast.Try):
            # An exception may follow any statement, so everything that handlers or the finally block read stays alive inside.
            end = self.block(s.finalbody, out)
            handlers = set().union(set(), *((self.block(h.body, end | out) - {h.name}) | read(h.type) for h in s.handlers))
            inside = end | out | handlers
            return self.block(s.body, self.block(s.orelse, inside)) | inside
        if isinstance(s, ast.Match):
            live = set(out)
            for case in s.cases:
                live |= self.block(case.body, out) | read(case.pattern) | read(case.guard)
            return live | read(s.subject)
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return (out - {s.name}) | read(s)
        if isinstance(s, (ast.Return, ast.Raise)):
            return read(s)
        if isinstance(s, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            return (out - written(s)) | read(s)
        return out | read(s)
