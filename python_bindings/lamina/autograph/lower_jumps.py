"""Replaces break, continue and return by flags and branches.

Statements after a jump move into the other branch where that is equivalent (`if c: return a` and the rest become an if with an else);
otherwise the flags guard them. Afterwards a function has no break or continue, and a single return at its end.
"""
from __future__ import annotations

import ast

from .names import FreshNames

_COMPOUND = (ast.If, ast.While, ast.For, ast.With, ast.Try, ast.Match)
RETURNED, VALUE = "did_return", "return_value"
HELD = VALUE + "_held"  # of a function whose finally blocks run after a return, and may change what is returned


def lower_jumps(function: ast.FunctionDef) -> None:
    """Rewrites the function's body in place."""
    function.body = _Lowering(function).function(function.body)


def _blocks(statement):
    """All lists of statements directly in a compound statement, including loop bodies."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
        yield part.body


def _jumps(block, kinds) -> bool:
    """Whether the block may jump out of itself by one of these kinds."""
    for s in block:
        if isinstance(s, kinds):
            return True
        if isinstance(s, _COMPOUND):
            inside = kinds
            if isinstance(s, (ast.While, ast.For)):
                inside = tuple(k for k in kinds if k is ast.Return)
                if _jumps(s.orelse, kinds):
                    return True
            if inside and any(_jumps(b, inside) for b in _blocks(s)):
                return True
    return False


def _returns_before_finally(block) -> bool:
    """Whether a return in the block leaves a try with a finally block."""
    return any(isinstance(s, _COMPOUND) and (isinstance(s, ast.Try) and bool(s.finalbody) and _jumps([s], (ast.Return,)) or any(map(_returns_before_finally, _blocks(s)))) for s in block)


def _always(block) -> bool:
    """Whether every path through the block ends with a jump (or raises). A with statement may swallow the exception that its body leaves by."""
    for s in block:
        if isinstance(s, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(s, ast.If) and _always(s.body) and _always(s.orelse):
            return True
        if isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and s.test.value and not _jumps(s.body, (ast.Break,)):
            return True
    return False


_JUMPS = (ast.Return, ast.Break, ast.Continue)


class _Lowering:
    def __init__(self, function):
        self.name = FreshNames(function)
        self.flags = set()  # all flags
        self.loops = []     # (break flag, continue flag) of the enclosing loops

    def flag(self, stem):
        self.flags.add(name := self.name(stem))
        return name

    def function(self, body):
        self.returned = self.value = None
        simple = not any(_jumps(b, (ast.Return,)) for s in body if isinstance(s, _COMPOUND) for b in _blocks(s))
        if not simple:
            self.returned, self.value = self.flag(RETURNED), self.name(HELD if _returns_before_finally(body) else VALUE)
            if not _always(body):
                body = [*body, ast.copy_location(ast.Return(value=None), body[-1])]
        elif not any(isinstance(s, _COMPOUND) and any(_jumps(b, _JUMPS) or True for b in _blocks(s)) for s in body):
            return body
        lowered, _, _ = self.block(body)
        if not simple:
            first, last = body[0], body[-1]
            lowered = [_assign(self.returned, ast.Constant(False), first),
                       _assign(self.value, ast.Call(ast.Attribute(ast.Name("ag__", ast.Load()), "Undefined", ast.Load()), [ast.Constant(None)], []), first),
                       *lowered, ast.copy_location(ast.Return(ast.Name(self.value, ast.Load())), last)]
        read = {n.id for s in lowered for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        read |= {f for s in lowered for n in ast.walk(s) for f in getattr(n, "exits", ())}
        return _without(lowered, self.flags - read)

    def block(self, statements):
        """The statements without jumps, the flags that skip the rest, and whether one of them is always set."""
        out = []
        for i, s in enumerate(statements):
            rest = statements[i + 1:]
            if isinstance(s, ast.Return):
                if self.value is None:
                    return [*out, s], set(), True
                out += [_assign(self.value, s.value or ast.Constant(None), s), _assign(self.returned, ast.Constant(True), s)]
                return out, {self.returned}, True
            if isinstance(s, (ast.Break, ast.Continue)):
                flag = self.loops[-1][isinstance(s, ast.Continue)]
                return [*out, _assign(flag, ast.Constant(True), s)], {flag}, True
            if isinstance(s, ast.If):
                if rest and (_jumps(s.body, _JUMPS) or _jumps(s.orelse, _JUMPS)):
                    if _always(s.body):
                        s.orelse, rest = [*s.orelse, *rest], []
                    elif _always(s.orelse):
                        s.body, rest = [*s.body, *rest], []
                s.body, flags, first = self.block(s.body)
                s.orelse, others, second = self.block(s.orelse)
                flags, always = flags | others, first and second
            elif isinstance(s, (ast.While, ast.For)):
                replaced, flags = self.loop(s)
                out += replaced[:-1]
                s, always = replaced[-1], False
            elif isinstance(s, ast.With):
                s.body, flags, _ = self.block(s.body)
                always = False
            elif isinstance(s, ast.Try):
                s.body, flags, _ = self.block(s.body)
                if s.orelse:
                    s.orelse, others, _ = self.block(s.orelse)
                    s.orelse, flags = self.guarded(flags, s.orelse), flags | others
                for handler in s.handlers:
                    handler.body, others, _ = self.block(handler.body)
                    flags |= others
                s.finalbody, others, _ = self.block(s.finalbody)
                flags, always = flags | others, False
            elif isinstance(s, ast.Match):
                flags, always = set(), False
                for case in s.cases:
                    case.body, others, _ = self.block(case.body)
                    flags |= others
            else:
                out.append(s)
                continue
            out.append(s)
            if always or not rest:
                return out, flags, always
            if flags:
                following, others, ends = self.block(rest)
                return out + self.guarded(flags, following), flags | others, ends
        return out, set(), False

    def loop(self, s):
        """The statements that replace the loop (the last one for what follows), and the flags that leave more than the loop."""
        broke = self.flag("did_break") if _jumps(s.body, (ast.Break,)) else None
        skipped = self.flag("did_continue") if _jumps(s.body, (ast.Continue,)) else None
        self.loops.append((broke, skipped))
        body, flags, _ = self.block(s.body)
        self.loops.pop()
        outward = flags - {broke, skipped}
        exits = sorted(outward | ({broke} if broke else set()))
        if skipped:
            body = [_assign(skipped, ast.Constant(False), s), *body]
        s.body, orelse, s.orelse = body, s.orelse, []
        s.exits = exits
        out = ([_assign(broke, ast.Constant(False), s)] if broke else []) + [s]
        if orelse:
            following, others, _ = self.block(orelse)
            out += self.guarded(set(exits), following)
            outward |= others
        return out, outward

    def guarded(self, flags, statements):
        """The statements, guarded by none of the flags being set."""
        if not flags or not statements:
            return statements
        return [ast.copy_location(ast.If(none_of(flags), statements, []), statements[0])]


def none_of(flags):
    """not (a or b)"""
    names = [ast.Name(f, ast.Load()) for f in sorted(flags)]
    return ast.UnaryOp(ast.Not(), names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names))


def _assign(name, value, at):
    return ast.fix_missing_locations(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at))


def _without(statements, flags):
    """Removes assignments to unused flags."""
    out = []
    for s in statements:
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id in flags:
            continue
        if isinstance(s, _COMPOUND):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(s, name, None)
                if isinstance(block, list) and block:
                    setattr(s, name, _without(block, flags) or ([ast.copy_location(ast.Pass(), block[0])] if name == "body" else []))
            for part in [*getattr(s, "handlers", ()), *getattr(s, "cases", ())]:
                part.body = _without(part.body, flags) or [ast.copy_location(ast.Pass(), s)]
        out.append(s)
    return out
