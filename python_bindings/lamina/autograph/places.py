"""Where an error of converted code is: the function's name, the line, and a caret under what is wrong."""
from __future__ import annotations

import linecache
import os
import re
import sys

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
    what = re.sub(r"(?:result )?\['(\w+)'\]", r"'\1'", error.what)  # a name of the function, not a part of a structure
    made = type(error)(what, where + shown, error.why, error.fix)
    made._located = True
    raise made.with_traceback(error.__traceback__) from None


def _is_users(code) -> bool:
    return not code.co_filename.startswith(_PACKAGE)


def _place(error):
    """("file.py:41", the line's text with a caret below) of the innermost code of the user's that the error passed through, else that is running."""
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        if _is_users(traceback.tb_frame.f_code):
            found = traceback.tb_frame.f_code, traceback.tb_lasti, traceback.tb_lineno
        traceback = traceback.tb_next
    frame = sys._getframe(1)
    while found is None and frame is not None:
        if _is_users(frame.f_code):
            found = frame.f_code, frame.f_lasti, frame.f_lineno
        frame = frame.f_back
    if found is None:
        return "", ""
    code, instruction, line = found
    text = linecache.getline(code.co_filename, line).rstrip()
    place = f"{code.co_filename}:{line}"
    if not text:
        return place, ""
    first, last = len(text) - len(text.lstrip()), len(text)
    if hasattr(code, "co_positions"):
        start, end, column, end_column = list(code.co_positions())[instruction // 2]
        if start == line and column is not None:
            # Columns count bytes of UTF-8.
            first = len(text.encode()[:column].decode(errors="ignore"))
            last = len(text.encode()[:end_column].decode(errors="ignore")) if end == line and end_column is not None else last
    indent = len(text) - len(text.lstrip())
    return place, f"\n           {text[indent:]}\n           {' ' * (first - indent)}{'^' * max(1, last - first)}"
