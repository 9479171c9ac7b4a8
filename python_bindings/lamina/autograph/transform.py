"""Transforms a function's syntax tree: branches, loops and conditions become calls of runtime.py, which decides at run time whether each
stays Python or becomes part of the graph."""
from __future__ import annotations

import ast

from .assignments import lower_assignments
from .lower_jumps import lower_jumps
from .names import FreshNames, Liveness, read, written

AG = "ag__"
_UNCONVERTED = frozenset({"locals", "globals", "vars", "eval", "exec", "dir", "isinstance", "issubclass", "hasattr", "getattr", "setattr", "type", "id"})


def convert(node: ast.FunctionDef | ast.Lambda, name: str) -> ast.FunctionDef:
    """The converted function, named `name`."""
    if isinstance(node, ast.Lambda):
        body = [ast.copy_location(ast.Return(node.body), node.body)]
        function = ast.copy_location(ast.FunctionDef(name, node.args, body, [], None), node)
    else:
        function = node
        function.name, function.decorator_list, function.returns = name, [], None
    function.type_comment = None
    if not hasattr(function, "type_params"):
        function.type_params = []
    _forget_defaults(function.args)
    docstring = function.body[:1] if ast.get_docstring(function, clean=False) is not None else []
    function.body = function.body[len(docstring):] or [ast.copy_location(ast.Pass(), function)]
    _Unannotated(function).visit(function)
    _Appends(function).visit(function)
    lower_assignments(function, _runtime)
    lower_jumps(function)
    Liveness(function)
    transformer = _Transformer(function)
    function.body = docstring + transformer.block(function.body)
    return ast.fix_missing_locations(function)


def _forget_defaults(args: ast.arguments):
    """Replaces default values by placeholders; the new function object gets the original ones."""
    for argument in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
        if argument is not None:
            argument.annotation = None
    args.defaults = [ast.copy_location(ast.Constant(None), d) for d in args.defaults]
    args.kw_defaults = [d if d is None else ast.copy_location(ast.Constant(None), d) for d in args.kw_defaults]


class _Own(ast.NodeTransformer):
    """Visits a function's own statements, not those of functions and classes in it."""

    def __init__(self, function):
        self.function = function

    def visit_FunctionDef(self, node):
        return self.generic_visit(node) if node is self.function else node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef


class _Unannotated(_Own):
    """Turns `y: int = 1` into `y = 1`: Python does not evaluate annotations in functions, and an inner function's names shared with it must have none."""

    def visit_AnnAssign(self, node):
        return ast.copy_location(ast.Assign([node.target], node.value) if node.value is not None else ast.Pass(), node)


class _Appends(_Own):
    """Turns the statement out.append(x) on a local list into an assignment, because the list may be a value of the graph."""

    def __init__(self, function):
        args = function.args
        own = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a is not None}
        outer = {n for s in ast.walk(function) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        super().__init__(function)
        self.own = (own | written(function.body)) - outer

    def visit_Expr(self, node):
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append" and isinstance(call.func.value, ast.Name)):
            return node
        if call.func.value.id not in self.own or len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            return node
        name = call.func.value.id
        made = ast.Assign([ast.Name(name, ast.Store())], _runtime("append", _load(name), call.args[0]))
        return ast.fix_missing_locations(ast.copy_location(made, node))


def _load(name):
    return ast.Name(name, ast.Load())


def _runtime(function, *args):
    return ast.Call(ast.Attribute(_load(AG), function, ast.Load()), list(args), [])


def _thunk(expression):
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), expression)


def _tuple(names, context=ast.Load):
    return ast.Tuple([ast.Name(n, context()) for n in names], context())


def _function(name, arguments, body):
    args = ast.arguments([], [ast.arg(a) for a in arguments], None, [], [], None, [])
    made = ast.FunctionDef(name, args, body, [], None)
    made.type_params = []
    return made


class _Expressions(ast.NodeTransformer):
    """Converts and, or, not, chained comparisons, conditional expressions and calls."""

    def __init__(self, undefined, first_argument):
        self.undefined = undefined  # names whose value may be missing
        self.first_argument = first_argument
        self.head = False

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id in self.undefined:
            return ast.copy_location(_runtime("value_of", node, ast.Constant(node.id)), node)
        return node

    def _scope(self, node):
        return node  # functions and classes are converted when called

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope

    def visit_Lambda(self, node):
        return node

    def _delayed(self, node, operands):
        """Whether operands can be moved into functions: an assignment or yield inside would change its meaning."""
        return not any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for o in operands for n in ast.walk(o))

    def condition(self, node):
        """An expression of which only the truth matters."""
        return self._joined(node, "and_", "or_", self.condition) if isinstance(node, ast.BoolOp) else self.visit(node)

    def visit_BoolOp(self, node):
        return self._joined(node, "first_false", "first_true", self.visit)

    def _joined(self, node, both, either, visit):
        plain = not self._delayed(node, node.values)
        node.values = [visit(v) for v in node.values]
        if plain:
            return node
        return ast.copy_location(_runtime(both if isinstance(node.op, ast.And) else either, *(_thunk(v) for v in node.values)), node)

    def visit_UnaryOp(self, node):
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return ast.copy_location(_runtime("not_", self.condition(node.operand)), node)

    def visit_IfExp(self, node):
        plain = not self._delayed(node, [node.body, node.orelse])
        node.test, node.body, node.orelse = self.condition(node.test), self.visit(node.body), self.visit(node.orelse)
        return node if plain else ast.copy_location(_runtime("if_expression", node.test, _thunk(node.body), _thunk(node.orelse)), node)

    def visit_Subscript(self, node):
        self.generic_visit(node)
        index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
        if isinstance(index, (ast.Constant, ast.Slice, ast.Tuple)):
            return node
        if isinstance(node.ctx, ast.Load):
            return ast.copy_location(_runtime("item", node.value, node.slice), node)
        if isinstance(node.value, ast.Name):
            node.slice = ast.copy_location(_runtime("check_key", _load(node.value.id), node.slice), node.slice)
        return node

    def visit_comprehension(self, node):
        self.generic_visit(node)
        node.iter = ast.copy_location(_runtime("items", node.iter), node.iter)
        return node

    def visit_Compare(self, node):
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            self.generic_visit(node)
            return ast.copy_location(_runtime("contains" if isinstance(node.ops[0], ast.In) else "not_in", node.left, node.comparators[0]), node)
        plain = len(node.ops) == 1 or not self._delayed(node, node.comparators)
        self.generic_visit(node)
        if plain:
            return node
        names = ast.Tuple([ast.Constant(type(op).__name__) for op in node.ops], ast.Load())
        return ast.copy_location(_runtime("compare", names, node.left, *(_thunk(c) for c in node.comparators)), node)

    def visit_Call(self, node):
        head = self.head
        self.head = False
        if head:
            node.func = self.visit(node.func)
            node.args = [self.visit_head(a) for a in node.args]
            node.keywords = [self.visit(k) for k in node.keywords]
        else:
            self.generic_visit(node)
        if isinstance(node.func, ast.Name):
            if node.func.id == "super" and not node.args and self.first_argument:
                node.args = [_load("__class__"), _load(self.first_argument)]
                return node
            if node.func.id in _UNCONVERTED:
                return node
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == AG:
            return node
        node.func = ast.copy_location(_runtime("head" if head else "callee", node.func), node.func)
        return node

    def visit_head(self, node):
        """The head of a for statement: ranges in it, also inside enumerate, zip and reversed, are iterated without making tensors."""
        self.head = isinstance(node, ast.Call)
        try:
            return self.visit(node)
        finally:
            self.head = False


def _header(s):
    """Limits a branch's or loop's location to its header, up to the condition, so that errors point there."""
    last = s.test if isinstance(s, (ast.If, ast.While)) else s.iter if isinstance(s, ast.For) else None
    if last is None or getattr(s, "lineno", None) is None:
        return s
    end = last.end_col_offset if getattr(last, "end_lineno", None) == s.lineno else s.col_offset + 2
    return ast.Pass(lineno=s.lineno, col_offset=s.col_offset, end_lineno=s.lineno, end_col_offset=max(end, s.col_offset + 2))


class _Transformer:
    def __init__(self, function):
        args = function.args
        parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs, *([args.vararg] if args.vararg else []), *([args.kwarg] if args.kwarg else [])]
        self.first_argument = parameters[0].arg if parameters else None
        self.bound = {a.arg for a in parameters}     # names bound in this function or around it
        self.defined = set(self.bound)               # names that certainly have a value
        self.made_undefined = set()                  # names initialised to Undefined somewhere
        self.outer = {n for s in ast.walk(function) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        self.globals = {n for s in ast.walk(function) if isinstance(s, ast.Global) for n in s.names}
        self.bound |= self.outer
        self.defined |= self.outer
        self.name = FreshNames(function)
        self.values, self.item = self.name("state"), self.name("ag__item")  # parameters of what is made

    def expression(self, node):
        return _Expressions(self.made_undefined - self.defined, self.first_argument).visit(node) if node is not None else None

    def condition(self, node):
        return _Expressions(self.made_undefined - self.defined, self.first_argument).condition(node)

    def block(self, statements):
        out = []
        for s in statements:
            place = _header(s)
            made = self.statement(s)
            for one in made:
                ast.copy_location(one, place)
                ast.fix_missing_locations(one)
            out += made
        return out

    def inner_block(self, statements, names):
        """A block that becomes an inner function and shares these names with the enclosing one."""
        inside = [n for n in names if n not in self.globals]
        shared = [n for n in names if n in self.globals]
        return ([ast.Nonlocal(inside)] if inside else []) + ([ast.Global(shared)] if shared else []) + (self.block(statements) or [ast.Pass()])

    def undefined_before(self, names):
        """Statements that initialise unbound names to Undefined."""
        missing = [n for n in sorted(names) if n not in self.bound]
        self.bound |= set(missing)
        self.made_undefined |= set(missing)
        return [ast.Assign([ast.Name(n, ast.Store())], _runtime("Undefined", ast.Constant(n))) for n in missing]

    def state(self, names):
        """get_state and set_state for names, as statements and as expressions."""
        get, put = self.name("get_state"), self.name("set_state")
        inside = [n for n in names if n not in self.globals]
        shared = [n for n in names if n in self.globals]
        body = ([ast.Nonlocal(inside)] if inside else []) + ([ast.Global(shared)] if shared else [])
        body += [ast.Assign([_tuple(names, ast.Store)], _load(self.values))] if names else [ast.Pass()]
        return [_function(get, [], [ast.Return(_tuple(names))]), _function(put, [self.values], body)], [_load(get), _load(put)]

    def statement(self, s):
        handler = getattr(self, f"visit_{type(s).__name__}", None)
        return handler(s) if handler else self.simple(s)

    def simple(self, s):
        for field, value in ast.iter_fields(s):
            if isinstance(value, ast.expr):
                setattr(s, field, self.expression(value))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(s, field, [self.expression(v) for v in value])
        names = written(s)
        self.bound |= names
        self.defined |= names
        return [s]

    def visit_Delete(self, s):
        """A local name is given no value instead, so that branches and loops can say what it is afterwards."""
        out = []
        targets = [one for target in s.targets for one in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
        for target in targets:
            if not isinstance(target, ast.Name):
                out += self.simple(ast.Delete([target]))
                continue
            name = target.id
            self.defined.discard(name)
            if name in self.outer:
                out.append(ast.Delete([target]))
                continue
            self.made_undefined.add(name)
            out += [ast.Expr(_runtime("value_of", _load(name), ast.Constant(name))), ast.Assign([ast.Name(name, ast.Store())], _runtime("Undefined", ast.Constant(name)))]
        return out

    def visit_AugAssign(self, s):
        if isinstance(s.target, ast.Name) and s.target.id in self.made_undefined - self.defined:
            name = s.target.id
            check = ast.Expr(_runtime("value_of", _load(name), ast.Constant(name)))
            return [check, *self.simple(s)]
        return self.simple(s)

    def visit_FunctionDef(self, s):
        s.decorator_list = [self.expression(d) for d in s.decorator_list]
        self.bound.add(s.name)
        self.defined.add(s.name)
        return [s]

    def visit_ClassDef(self, s):
        self.bound.add(s.name)
        self.defined.add(s.name)
        return [s]

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assert(self, s):
        message = s.msg or ast.Constant(None)
        names = sorted(read(s.test) & self.defined)
        source = ast.Constant(ast.unparse(s.test))
        values = ast.Constant(tuple(names)), _thunk(_tuple(names))
        return [ast.Expr(_runtime("assert_", self.condition(s.test), source, _thunk(self.expression(message)), *values))]

    def visit_If(self, s):
        test = self.condition(s.test)
        modified = written(s.body) | written(s.orelse)
        merged = sorted(modified & s.live_out)
        scratch = sorted((modified & (s.body_in | s.orelse_in)) - s.live_out)  # changed, but not needed afterwards
        names = merged + scratch
        out = self.undefined_before(names)
        states, state = self.state(names)
        first, second = self.name("if_body"), self.name("else_body")
        before, bound = set(self.defined), set(self.bound)
        body = self.inner_block(s.body, names)
        after, self.defined, self.bound = self.defined, set(before), set(bound)
        orelse = self.inner_block(s.orelse, names)
        self.defined, self.bound = before | (after & self.defined & set(merged)), bound
        call = _runtime("if_", test, _load(first), _load(second), *state, ast.Constant(tuple(names)), ast.Constant(len(merged)))
        return [*out, *states, _function(first, [], body), _function(second, [], orelse), ast.Expr(call)]

    def loop_names(self, s, extra=()):
        return sorted((written(s.body) | set(extra)) & (s.body_in | s.live_out))

    def visit_While(self, s):
        from .lower_jumps import none_of
        names = sorted((written(s.body) | written(s.test)) & (s.body_in | s.live_out))
        out = self.undefined_before(names)
        states, state = self.state(names)
        test, body = self.name("loop_test"), self.name("loop_body")
        condition = s.test if not s.exits else ast.BoolOp(ast.And(), [none_of(s.exits), s.test])
        before, bound = set(self.defined), set(self.bound)
        condition = self.condition(condition)
        shared = sorted(written(s.test) & set(names))
        tests = ([ast.Nonlocal(shared)] if shared else []) + [ast.Return(condition)]
        inner = self.inner_block(s.body, names)
        self.defined, self.bound = before, bound
        call = _runtime("while_", _load(test), _load(body), *state, ast.Constant(tuple(names)))
        return [*out, *states, _function(test, [], tests), _function(body, [], inner), ast.Expr(call)]

    def visit_For(self, s):
        from .lower_jumps import none_of
        names = self.loop_names(s, written(s.target))
        iterated = _Expressions(self.made_undefined - self.defined, self.first_argument).visit_head(s.iter)
        out = self.undefined_before(names)
        states, state = self.state(names)
        body, test = self.name("loop_body"), self.name("extra_test")
        before, bound = set(self.defined), set(self.bound)
        extra = _load(test) if s.exits else ast.Constant(None)
        tests = [_function(test, [], [ast.Return(self.expression(none_of(s.exits)))])] if s.exits else []
        assign = ast.copy_location(ast.Assign([s.target], _load(self.item)), s)
        inner = self.inner_block([assign, *s.body], names)
        self.defined, self.bound = before, bound
        call = _runtime("for_", iterated, extra, _load(body), *state, ast.Constant(tuple(names)))
        return [*out, *states, *tests, _function(body, [self.item], inner), ast.Expr(call)]

    def _python_block(self, block):
        before = set(self.defined)
        made = self.block(block)
        self.defined = before
        return made

    def visit_With(self, s):
        for item in s.items:
            item.context_expr = self.expression(item.context_expr)
            if item.optional_vars is not None:
                self.bound |= written(item.optional_vars)
                self.defined |= written(item.optional_vars)
        s.body = self.block(s.body)
        return [s]

    def visit_Try(self, s):
        out = self.undefined_before(written(s) - {h.name for h in s.handlers})
        s.body, s.orelse, s.finalbody = (self._python_block(b) for b in (s.body, s.orelse, s.finalbody))
        for handler in s.handlers:
            handler.type = self.expression(handler.type)
            names = {handler.name} if handler.name else set()
            self.bound |= names
            self.defined |= names
            handler.body = self._python_block(handler.body)
        return [*out, s]

    def visit_Match(self, s):
        s.subject = self.expression(s.subject)
        out = self.undefined_before(written(s))
        for case in s.cases:
            before = set(self.defined)
            self.defined |= written(case.pattern)
            case.guard = self.expression(case.guard)
            case.body = self.block(case.body)
            self.defined = before
        return [*out, s]

    def visit_Return(self, s):
        s.value = _runtime("returned", self.expression(s.value)) if s.value is not None else None
        return [s]


__all__ = ["AG", "convert", "read"]
