"""Random programs that change Python objects in branches and loops: the graph equals Python, or Lamina raises an error."""
import collections
import importlib.util
import os
import sys

import pytest

import lamina as lm
from compared import plain
from state_programs import CALLS, Program

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
SEEDS = 3000 if LONG else 150


def loaded(text, path):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


class Endless(Exception):
    """A program goes through a list that it makes longer."""


def bounded(f, call, events=20_000):
    """f(*call), unless it has no end."""
    def tick(frame, event, arg):
        nonlocal events
        events -= 1
        if events < 0:
            raise Endless
        return tick

    before = sys.gettrace()
    sys.settrace(tick)
    try:
        return f(*call)
    finally:
        sys.settrace(before)


def run(seed, folder):
    """ "equal", "refused: ..." or "Python raises"; AssertionError when the graph differs."""
    text = Program(seed).text
    f = loaded(text, folder / f"program_{seed}.py")
    graph = lm.function(f)
    wants = []
    for call in CALLS:
        try:
            wants.append(plain(bounded(f, call)))
        except (Endless, AttributeError, IndexError, KeyError, StopIteration, UnboundLocalError, ZeroDivisionError):
            return "Python raises"
    for call, want in zip(CALLS, wants):
        try:
            got = plain(graph(*map(lm.constant, call)))
        except lm.errors.Error as error:
            for generated in ("if_body", "else_body", "loop_body", "loop_test", "extra_test", "ag__", "lm__"):
                assert generated not in str(error), f"seed {seed}: {error}\n{text[text.index('def f('):]}"
            return f"refused: {error.what}"
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text[text.index('def f('):]}") from error
        assert got == want, f"seed {seed}, f{call}: the graph gives {got}, Python {want}\n{text[text.index('def f('):]}"
    return "equal"


def test_the_graph_gives_what_python_gives_or_refuses(tmp_path):
    found = collections.Counter()
    for seed in range(SEEDS):
        found[run(seed, tmp_path).split(":")[0]] += 1
    runs = found["equal"] + found["refused"]
    share = found["refused"] / runs
    print(f"{SEEDS} programs: {found['equal']} equal, {found['refused']} refused ({share:.0%}), {found['Python raises']} that Python cannot run either")
    assert runs > 0.8 * SEEDS and share < 0.5


if __name__ == "__main__":
    pytest.main([__file__, "-s"])
