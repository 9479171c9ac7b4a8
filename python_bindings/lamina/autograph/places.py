"""Locations of errors in converted code: function, line, and a caret under the faulty expression."""
from __future__ import annotations

import dis
import functools
import linecache
import os
import re
import sys

from .reach import is_users

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def located(error, function):
    """Raises the error with the converted function's name, its line and a caret in its text."""
    if getattr(error, "_located", False) or function is None:
        raise error
    line, excerpt = _place(error)
    where = error.where or ""
    if not where or where.startswith("in "):
        where = f"{line}, {where or f'in {function}'}" if line else where or f"in {function}"
    else:
        where = f"{where}, in {function}"
    shown = excerpt if line and where.startswith(line + ",") else ""
    what = re.sub(r"(?:result )?(?<![\w\])])\[(?:'(\w+)'|\"([^\"]+)\")\]", lambda m: f"'{m[1] or m[2]}'", error.what)  # a name in the function, not a part of a structure
    made = type(error)(what, where + shown, error.why, error.fix)
    made._located = True
    raise made.with_traceback(error.__traceback__) from None


def place_of(error) -> str:
    """Where an error of Python's comes from: the user's line, with its text."""
    line, excerpt = _place(error)
    return line + excerpt


_GENERATED = re.compile(r"(if_body|else_body|loop_body|loop_test|extra_test|get_state|set_state)(_\d+)?")  # names of functions made by transform.py


def is_generated(code) -> bool:
    return _GENERATED.fullmatch(code.co_name) is not None


def is_state_code(code) -> bool:
    """Whether code is a get_state or set_state."""
    return is_generated(code) and "_state" in code.co_name


def is_users_code(code) -> bool:
    return not code.co_filename.startswith(_PACKAGE)


def _place(error):
    """("file.py:41", the line's text with a caret below) of the innermost user code that the error passed through, else of the running
    user code."""
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        if is_users_code(traceback.tb_frame.f_code):
            found = traceback.tb_frame.f_code, traceback.tb_lasti, traceback.tb_lineno
        traceback = traceback.tb_next
    frame = sys._getframe(1)
    while found is None and frame is not None:
        if is_users_code(frame.f_code):
            found = frame.f_code, frame.f_lasti, frame.f_lineno
        frame = frame.f_back
    if found is None:
        return "", ""
    code, instruction, line = found
    return _excerpt(code, line, instruction)


@functools.lru_cache(maxsize=4096)
def counts_from_the_end(code) -> bool:
    """Whether code, or a function in it, has a negative constant as an index, as in l[-1]."""
    before = None
    for now in dis.get_instructions(code):
        if (now.opname == "BINARY_SUBSCR" or now.argrepr == "[]") and before.opname == "LOAD_CONST" and type(before.argval) is int and before.argval < 0:
            return True
        before = now
    return any(counts_from_the_end(c) for c in code.co_consts if hasattr(c, "co_consts"))


def line_of_raise(error) -> str:
    """The user's line, with its text, of the raise statement in user code that an exception comes from; empty if it comes from elsewhere."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or not is_users(traceback.tb_frame.f_globals.get("__name__")):
        return ""
    code = traceback.tb_frame.f_code
    return text_at(code, traceback.tb_lineno) if code.co_code[traceback.tb_lasti] == dis.opmap["RAISE_VARARGS"] else ""


def running_line() -> str:
    """The user's running line with its text, for an error."""
    frame = sys._getframe(1)
    while frame is not None and not is_users_code(frame.f_code):
        frame = frame.f_back
    return text_at(frame.f_code, frame.f_lineno) if frame is not None else ""


def text_at(code, line) -> str:
    """ "file.py:41, in f" and the line's text, for an error with only a line number."""
    place, excerpt = _excerpt(code, line, None)
    name = code.co_name.removeprefix("lm__")
    inner = is_generated(code)
    if inner and hasattr(code, "co_qualname"):
        name = next((p.removeprefix("lm__") for p in reversed(code.co_qualname.split(".")) if p.startswith("lm__")), "")
        return f"{place}{f', in {name}' if name else ''}{excerpt}"
    return f"{place}{'' if inner else f', in {name}'}{excerpt}"


def _excerpt(code, line, instruction):
    text = linecache.getline(code.co_filename, line).rstrip()
    place = f"{code.co_filename}:{line}"
    if not text:
        return place, ""
    first, last = len(text) - len(text.lstrip()), len(text)
    if instruction is not None and hasattr(code, "co_positions"):
        start, end, column, end_column = list(code.co_positions())[instruction // 2]
        if start == line and column is not None:
            # Columns count bytes of UTF-8.
            first = len(text.encode()[:column].decode(errors="ignore"))
            last = len(text.encode()[:end_column].decode(errors="ignore")) if end == line and end_column is not None else last
    indent = len(text) - len(text.lstrip())
    return place, f"\n           {text[indent:]}\n           {' ' * (first - indent)}{'^' * max(1, last - first)}"
