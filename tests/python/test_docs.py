"""The examples of docs/ run as printed, and names on the pages exist."""
import contextlib
import importlib.util
import io
import linecache
import os
import re
import warnings

import pytest

import lamina as lm

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))


def page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
        return f.read()


@pytest.mark.parametrize("name", PAGES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    scope, left_out = {}, set()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page(name), re.S)):
        missing = {package for package in re.findall(r"^(?:import|from) (torch|jax|sklearn|gymnasium)\b", block, re.M) if importlib.util.find_spec(package) is None}
        if missing:
            left_out |= missing
            continue
        path = tmp_path / f"example_{number}.py"
        path.write_text(block, encoding="utf-8")
        scope["__name__"] = "__main__"
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, str(path), "exec"), scope)
    if left_out:
        pytest.skip(f"the other examples ran; these packages are not installed: {', '.join(sorted(left_out))}")


@pytest.mark.parametrize("name", PAGES)
def test_every_name_exists(name):
    for dotted in set(re.findall(r"`(lm\.[A-Za-z_.]+)", page(name))):
        value = lm
        for part in dotted.rstrip(".").split(".")[1:]:
            assert hasattr(value, part), f"{name} names {dotted}"
            value = getattr(value, part)


def test_the_page_of_settings_is_their_table():
    rows = ["| variable | values | when it is unset | meaning |", "|---|---|---|---|"]
    rows += [f"| `{s['name']}` | {s['values']} | {s['otherwise']} | {s['meaning']} |" for s in lm.config.settings()]
    assert "\n".join(rows) + "\n" in page("settings.md"), "docs/settings.md must hold this table:\n" + "\n".join(rows)


def test_the_page_of_errors_lists_every_kind():
    with open(os.path.join(ROOT, "runtime", "core", "error.h"), encoding="utf-8") as f:
        kinds = re.findall(r"\w+", re.search(r"enum class ErrorKind \{(.*?)\}", f.read(), re.S)[1])
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| .+ \|$", page("errors.md"), re.M)
    assert kinds == [kind for kind, _, _ in rows] == re.findall(r"^## ([a-z_]+)$", page("errors.md"), re.M) == list(lm.errors._BY_KIND)
    listed = []
    for kind, classes, builtins in rows:
        own = [getattr(lm.errors, name) for name in re.findall(r"`(\w+)`", classes)]
        assert lm.errors._BY_KIND[kind] is own[0]
        assert set(re.findall(r"`(\w+)`", builtins)) == {base.__name__ for cls in own for base in cls.__mro__ if base.__module__ == "builtins"} - {"BaseException", "Exception", "object"} - PARENTS
        listed += own
    every = [getattr(lm.errors, name) for name in lm.errors.__all__]
    assert set(listed) == {cls for cls in every if issubclass(cls, lm.errors.Error)} - {lm.errors.Error}
    assert all(f"`lm.{cls.__name__}`" in page("errors.md") for cls in every if issubclass(cls, Warning))


PARENTS = {"LookupError", "OSError"}  # of the built-in exceptions that people catch


def test_the_page_of_errors_shows_what_its_examples_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, shown = {"__name__": "__main__"}, 0
    with warnings.catch_warnings():
        for block, text in re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", page("errors.md"), re.S):
            (tmp_path / "train.py").write_text(block, encoding="utf-8")
            linecache.clearcache()
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, "train.py", "exec"), scope)
            if text or "with printed():" in block:
                assert out.getvalue() == text, f"docs/errors.md must show below this example:\n{block}\n{out.getvalue()}"
                shown += 1
    assert shown >= 13


def test_the_tests_of_the_limitations_exist():
    folder = os.path.join(ROOT, "tests", "python")
    everything = "".join(open(os.path.join(folder, f), encoding="utf-8").read() for f in os.listdir(folder) if f.endswith(".py"))
    named = re.findall(r"`(test_[a-z_]+?)(\.\.\.)?`", page("functions.md").split("## Limitations")[1])
    assert len(named) >= 6
    for test, _ in named:
        assert f"def {test}" in everything, test
