"""The stubs that the build generates from the module: editors and type checkers see all public functions."""
import ast, importlib.util, os, subprocess, sys

import pytest
from built import BUILD

import lamina as lm

STUBS = os.path.join(BUILD, "python", "lamina", "_core")


def names_in(stub):
    with open(os.path.join(STUBS, stub), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found.update(t.id for t in node.targets)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(a.asname or a.name for a in node.names)
    return found


def test_every_public_name_is_in_the_stubs():
    core = lm._core
    missing = {n for n in dir(core) if n[0] != "_"} - names_in("__init__.pyi")
    assert missing == set()
    for module in ("nn", "losses", "optim", "schedules", "config", "cuda", "random", "data"):
        missing = {n for n in dir(getattr(core, module)) if n[0] != "_"} - names_in(module + ".pyi")
        assert missing == set(), module
    assert {"matmul", "conv2d", "Tensor", "Variable", "GradientTape"} <= names_in("__init__.pyi")


PROGRAM = '''
import lamina as lm

def loss(x: lm.Tensor, w: lm.Variable) -> lm.Tensor:
    return lm.mean(lm.square(lm.matmul(x, w)))

x: lm.Tensor = lm.constant([[1.0, 2.0]])
w = lm.Variable(lm.ones([2, 3]), name="w")
with lm.GradientTape() as tape:
    cost = loss(x, w)
slope: lm.Tensor = tape.gradient(cost, w)
shape: tuple[object, ...] = cost.shape
lm.check(lm.all(lm.isfinite(lm.abs(x))))
kind: type[Exception] = lm.errors.Error
layer = lm.nn.Dense(3, activation="relu")
images: lm.Tensor = lm.conv2d(lm.zeros([1, 4, 4, 1]), lm.zeros([3, 3, 1, 2]), padding="same")
optimizer = lm.optim.Adam(1e-3)
'''
MISTAKES = {
    "lm.matmul(x)": "matmul",
    "x.no_such_method()": "no_such_method",
    "lm.optim.Adam(learning_rate='fast')": "learning_rate",
}


def checked(folder, text):
    source = folder / "program.py"
    source.write_text(text)
    run = subprocess.run([sys.executable, "-m", "mypy", "--no-implicit-reexport", "--no-incremental", "--cache-dir", os.devnull, str(source)], capture_output=True, text=True,
                         env={**os.environ, "MYPYPATH": os.path.join(BUILD, "python")}, cwd=folder)
    return [line for line in run.stdout.splitlines() if line.startswith("program.py") and ": error:" in line]


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed; ./dev setup brings it")
def test_a_type_checker_understands_a_program(tmp_path):
    assert checked(tmp_path, PROGRAM) == []
    mistakes = checked(tmp_path, PROGRAM + "\n".join(MISTAKES) + "\n")
    assert len(mistakes) == len(MISTAKES), mistakes
    for line, word in zip(mistakes, MISTAKES.values()):
        assert word in line


EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "python")


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed; ./dev setup brings it")
def test_the_examples_are_strictly_typed():
    files = sorted(os.path.join(EXAMPLES, name) for name in os.listdir(EXAMPLES) if name.endswith(".py"))
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, *files], capture_output=True, text=True,
                         env={**os.environ, "MYPYPATH": os.path.join(BUILD, "python")})
    found = [line for line in run.stdout.splitlines() if os.path.basename(line.partition(":")[0]) in map(os.path.basename, files) and "examples" in line and ": error:" in line]
    assert len(files) >= 5 and found == []


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed; ./dev setup brings it")
def test_a_traced_function_keeps_its_types(tmp_path):
    program = """
import lamina as lm

@lm.function
def scaled(x: lm.Tensor, times: int) -> lm.Tensor:
    return x * times

@lm.function(relax_shapes=True)
def other(x: lm.Tensor) -> lm.Tensor:
    return x

y: lm.Tensor = scaled(lm.ones([2]), 3)
n: int = scaled.trace_count
z: lm.Tensor = other(y)
"""
    assert checked(tmp_path, program) == []
    wrong = checked(tmp_path, program + "scaled(y, 'three')\nscaled(y)\nword: str = other(y)\nscaled.trace_cuont\nlm.matmull(y, y)\nlm.nn.Dens(3)\n")
    assert len(wrong) == 6, wrong
