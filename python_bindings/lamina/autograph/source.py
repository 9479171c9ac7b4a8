"""The syntax tree of a function's own source."""
from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
import types


class NoSource(Exception):
    """Why a function's source is not available."""


@functools.lru_cache(maxsize=256)
def _parsed(filename: str, text: str) -> ast.Module:
    return ast.parse(text, filename)


def function_node(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda:
    """A copy of the function's node in its file's tree, with the file's line numbers. Raises NoSource."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise NoSource(f"the source of {function.__qualname__} was not available (it comes from {code.co_filename})")
    try:
        tree = _parsed(code.co_filename, "".join(lines))
    except SyntaxError as error:
        raise NoSource(f"the source of {function.__qualname__} in {code.co_filename} cannot be parsed: {error}") from None
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, kind) and _first_line(node) == code.co_firstlineno
             and (kind is ast.Lambda or node.name == code.co_name)]
    if len(found) > 1:
        found = [node for node in found if _same_code(node, code)]
        found = [node for node in found if _stands_at(node, code, exactly=True)] or [node for node in found if _stands_at(node, code, exactly=False)]
        if len({ast.dump(node) for node in found}) > 1:
            raise NoSource(f"the source of {function.__qualname__} was not available: several like it are on line {code.co_firstlineno} of {code.co_filename}")
    if not found:
        raise NoSource(f"{code.co_filename} has changed since {function.__qualname__} was defined")
    return copy.deepcopy(found[0])


def _first_line(node) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(d.lineno for d in decorators)])


def _stands_at(node, code: types.CodeType, exactly: bool) -> bool:
    """Whether the code's instructions come from this node's body, or from inside the node."""
    if not hasattr(code, "co_positions"):  # before Python 3.11
        return True
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    if not places:
        return not exactly
    first, last = min((p[0], p[2]) for p in places), max((p[1], p[3]) for p in places)
    if exactly:
        body = node.body[0] if isinstance(node.body, list) else node.body
        return (body.lineno, body.col_offset) == first and (body.end_lineno, body.end_col_offset) == last
    return (node.lineno, node.col_offset) <= first and last <= (node.end_lineno, node.end_col_offset)


def _same_code(node, code: types.CodeType) -> bool:
    """Whether this node may compile to that code: the same arguments and, before Python 3.11, which records positions, the same names and
    constants."""
    if [a.arg for a in _arguments(node.args)] != list(code.co_varnames[:_argument_count(code)]):
        return False
    if isinstance(node, ast.Lambda) and not hasattr(code, "co_positions"):
        inner = compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "<compare>", "eval").co_consts
        found = next(c for c in inner if isinstance(c, types.CodeType))
        names = set(found.co_names) | set(found.co_freevars) | set(found.co_varnames)
        constants = [c for c in found.co_consts if not isinstance(c, types.CodeType)]
        return names == set(code.co_names) | set(code.co_freevars) | set(code.co_varnames) and constants == [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    return True


def _arguments(args: ast.arguments):
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *([args.vararg] if args.vararg else []), *([args.kwarg] if args.kwarg else [])]


def _argument_count(code: types.CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
