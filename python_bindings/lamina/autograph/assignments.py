"""Rewrites assignments before the transformation: those in conditions (`:=`) become statements of their own where branches need them, and those to items of a list become calls, since a
tensor of the graph may say which item it is."""
from __future__ import annotations

import ast

from .lower_jumps import _jumps
from .names import FreshNames

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def lower_assignments(function: ast.FunctionDef, runtime) -> None:
    """Rewrites the function's body in place. runtime(name, *args): the call of a function of runtime.py."""
    made = _Lowering(function, runtime)
    function.body = made.block(function.body)


def _assigns(node) -> bool:
    """Whether an expression has an assignment of this function's own."""
    return isinstance(node, ast.NamedExpr) or not isinstance(node, _NESTED) and any(map(_assigns, ast.iter_child_nodes(node)))


def _is_joined(node) -> bool:
    """Whether an expression has operands that Python may leave out: and, or, a < b < c."""
    return isinstance(node, ast.BoolOp) or isinstance(node, ast.Compare) and len(node.ops) > 1


def _joins(node) -> bool:
    """Whether an expression has an assignment in such an operand."""
    return not isinstance(node, _NESTED) and (_is_joined(node) and _assigns(node) or any(map(_joins, ast.iter_child_nodes(node))))


class _Lowering:
    def __init__(self, function, runtime):
        self.runtime = runtime
        self.name = FreshNames(function)

    def block(self, statements):
        return [one for s in statements for one in self.statement(s)]

    def statement(self, s):
        if isinstance(s, _NESTED):
            return [s]
        if isinstance(s, ast.While) and _assigns(s.test) and (_joins(s.test) or _jumps(s.body, (ast.Break, ast.Return))) and not _jumps(s.orelse, (ast.Break, ast.Continue)):
            # The end of the loop is a break: its condition stands in the body, where assignments belong to the iteration.
            end = ast.copy_location(ast.If(s.test, [ast.copy_location(ast.Pass(), s)], [*s.orelse, ast.copy_location(ast.Break(), s)]), s)
            s.test, s.body, s.orelse = ast.copy_location(ast.Constant(True), s.test), [end, *s.body], []
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(s, name, None), list):
                setattr(s, name, self.block(getattr(s, name)))
        for part in [*getattr(s, "handlers", ()), *getattr(s, "cases", ())]:
            part.body = self.block(part.body)
        if isinstance(s, ast.If) and self.is_split(s.test):
            name = self.name("is_true")
            before = self.joined(s.test, name)
            s.test = ast.copy_location(ast.Name(name, ast.Load()), s.test)
            return [ast.fix_missing_locations(one) for one in [*before, s]]
        if isinstance(s, ast.Assign):
            return self.assign(s)
        if isinstance(s, ast.AugAssign) and self.is_item(s.target):  # Python reads the item before it computes the value
            read = ast.copy_location(self.runtime("item_to_change", s.target.value, s.target.slice), s.target)
            call = ast.copy_location(self.runtime("change_item", read, ast.Constant(type(s.op).__name__), s.value), s.target)
            return [ast.fix_missing_locations(ast.copy_location(ast.Expr(call), s))]
        return [s]

    def is_split(self, test):
        """Whether a condition's operands become statements."""
        return _is_joined(test) and _assigns(test) or isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and self.is_split(test.operand)

    def pairs(self, test):
        """a < b < c as a < (name := b) and name < c."""
        out, left = [], test.left
        for i, (op, right) in enumerate(zip(test.ops, test.comparators)):
            name = self.name("between") if i + 1 < len(test.ops) else None
            made = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), right), right) if name else right
            out.append(ast.copy_location(ast.Compare(left, [op], [made]), test))
            left = ast.copy_location(ast.Name(name, ast.Load()), right) if name else None
        return ast.fix_missing_locations(ast.copy_location(ast.BoolOp(ast.And(), out), test))

    def joined(self, test, name):
        """Statements after which `name` is the truth of a condition."""
        if isinstance(test, ast.UnaryOp) and self.is_split(test):
            turned = ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load()))
            return [*self.joined(test.operand, name), ast.fix_missing_locations(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], ast.copy_location(turned, test)), test))]
        if isinstance(test, ast.Compare) and self.is_split(test):
            test = self.pairs(test)
        if not (isinstance(test, ast.BoolOp) and _assigns(test)):
            true = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), test))
            return [ast.fix_missing_locations(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], ast.copy_location(true, test)), test))]
        out = self.joined(test.values[0], name)
        rest = test.values[1:]
        if rest:
            other = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(test.op, rest), rest[0])
            goes_on = ast.Name(name, ast.Load()) if isinstance(test.op, ast.And) else ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load()))
            out.append(ast.copy_location(ast.If(goes_on, self.joined(other, name), []), test))
        return out

    def is_item(self, target):
        """Whether a target is an item whose index may be a tensor."""
        index = target.slice.operand if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.UnaryOp) else getattr(target, "slice", None)
        return isinstance(target, ast.Subscript) and not isinstance(index, (ast.Constant, ast.Slice, ast.Tuple))

    def assign(self, s):
        """a[i] = v, and a[i], a[j] = v, w."""
        target = s.targets[0]
        if len(s.targets) > 1:
            return [s]
        if self.is_item(target):
            return [self.put(s, target, s.value)]
        if not isinstance(target, (ast.Tuple, ast.List)) or not any(self.is_item(one.value if isinstance(one, ast.Starred) else one) for one in target.elts):
            return [s]
        out = [s]
        for i, one in enumerate(target.elts):  # targets are assigned in their order, and an index may be one of them
            name, is_rest = self.name("item_value"), isinstance(one, ast.Starred)
            kept = ast.copy_location(ast.Name(name, ast.Store()), one)
            target.elts[i] = ast.copy_location(ast.Starred(kept, ast.Store()), one) if is_rest else kept
            value = ast.copy_location(ast.Name(name, ast.Load()), one)
            out += self.assign(ast.fix_missing_locations(ast.copy_location(ast.Assign([one.value if is_rest else one], value), s)))
        return out

    def put(self, s, target, value):
        call = ast.copy_location(self.runtime("set_item", value, target.value, target.slice), target)
        target.value.ctx = ast.Load()
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), s))
