"""Each program of examples/ has a twin in PyTorch or JAX (perf/peers/programs), and is shorter than each of its twins."""
import ast
import io
import os
import re
import tokenize

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

TWINS = os.path.join(ROOT, "perf", "peers", "programs")
PROGRAMS = ["regression.py", "ensemble.py", "digits.py", "two_inputs.py", "oscillator.py", "burgers.py", "ppo.py", "cartpole.py", "lstm.py", "char_gpt.py", "neural_field.py",
            "tabular.py", "train_and_serve.cpp"]
EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}


def lines_of_python(text):
    """The number of lines with code: neither blank nor of comments or docstrings."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in EMPTY:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            found.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(found)


def lines_of_cpp(text):
    """The same of C++, in which the programs use // for comments."""
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in text.splitlines())


def lines(path):
    with open(path) as f:
        return (lines_of_python if path.endswith(".py") else lines_of_cpp)(f.read())


def test_lines_of_code_are_counted():
    assert lines_of_python('"""Text."""\nimport os  # comment\n\n# comment\nx = """a\n\n# b"""\n\n\ndef f():\n    """Text\n\n    and more."""\n    return (1,\n            2)\n') == 7
    assert lines_of_cpp("// comment\n#include <a>\n\nint f() {  // comment\n  // comment\n  return 1;\n}\n") == 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_shorter_than_its_twins(name):
    stem, ending = os.path.splitext(name)
    twins = [twin for twin in os.listdir(TWINS) if re.fullmatch(rf"{stem}_(torch|jax){ending}", twin)]
    assert twins, f"{name} has no twin in perf/peers/programs"
    ours = lines(os.path.join(ROOT, "examples", "cpp" if ending == ".cpp" else "python", name))
    theirs = {twin: lines(os.path.join(TWINS, twin)) for twin in twins}
    assert all(ours < count for count in theirs.values()), (ours, theirs)


def test_every_twin_is_of_a_program():
    stems = "|".join(os.path.splitext(name)[0] for name in PROGRAMS)
    assert not [name for name in os.listdir(TWINS) if not re.fullmatch(rf"({stems})_(torch|jax)\.(py|cpp)|README\.md|__pycache__", name)]
