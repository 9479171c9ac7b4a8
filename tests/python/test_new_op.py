"""Follows CONTRIBUTING.md's recipes for a new op in a copy of the tree: they touch few files, and the new ops compile and compute the
right numbers.

LAMINA_TEST_LONG=1 builds the copy and runs its tests of the new ops, on the CPU, on emulated GPU code and from Python.
"""
import concurrent.futures
import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
from built import ROOT, output_of

STEP = re.compile(r"^In `([^`]+)`, before `([^`]+)`:\n```\w+\n(.*?)^```\n", re.S | re.M)
CXX = os.environ.get("CXX", "c++")
FLAGS = ["-std=c++20", "-I.", "-Wall", "-Wextra", "-Werror=return-type", "-Werror=unused"]


def steps_of(recipe):
    with open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8") as f:
        text = f.read().split(f"**{recipe}**")[1].split("\n**")[0].split("\n## ")[0]
    return STEP.findall(text)


def follow(recipe, root):
    """The files changed by the recipe."""
    touched = set()
    for path, anchor, block in steps_of(recipe):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            lines = f.read().split("\n")
        at = next(i for i, line in enumerate(lines) if anchor in line)
        with open(os.path.join(root, path), "w", encoding="utf-8") as f:
            f.write("\n".join([*lines[:at], block.rstrip("\n"), *lines[at:]]))
        touched.add(path)
    return touched


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    copy = str(tmp_path_factory.mktemp("new_op") / "tree")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build*", ".git", ".venv*", ".cache", "__pycache__", "*.log"))
    touched = {recipe: follow(recipe, copy) for recipe in ("An elementwise op", "An activation")}
    return copy, touched


def test_a_recipe_touches_at_most_five_files(tree):
    _, touched = tree
    for recipe, files in touched.items():
        assert 3 <= len(files) <= 5, (recipe, files)


def test_the_tree_keeps_its_rules_with_them(tree):
    output_of(sys.executable, os.path.join(tree[0], "tests", "lint", "structure.py"), tree[0])


def rows_of(root):
    spec = importlib.util.spec_from_file_location("rows_of_the_copy", os.path.join(root, "tests", "python", "elementwise_rows.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.ROWS


PROGRAM = """
#include <cstdio>
#include "kernels/cpu/elementwise_table.h"
using namespace lamina::kernels;
int main() {
  for (ScalarOp op : {ScalarOp::gaussian, ScalarOp::softsign}) {
    float x[] = {-2, -0.5f, 0, 0.25f, 3}, y[5];
    cpu::scalar::elementwise_table.loops[int(op)][int(cpu::Compute::f32)](5, y, x, nullptr, nullptr);
    std::printf("%s", name(op));
    for (float v : y) std::printf(" %.9g", v);
    std::printf("\\n");
  }
}
"""


def test_what_they_add_compiles_and_computes(tree):
    root, _ = tree
    with open(os.path.join(root, "program.cpp"), "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    checked = ["graph/ops/elementwise.cpp", "graph/functions/op_functions.cpp", "graph/nn/activation.cpp", "kernels/cuda/elementwise.cu", "tests/ops/elementwise_rows.cpp"]
    commands = [[CXX, *FLAGS, "-O0", "-DLAMINA_ISA=scalar", "program.cpp", "kernels/cpu/elementwise_isa.cpp", "-o", "program"],
                *([CXX, *FLAGS, "-fsyntax-only", "-x", "c++", source] for source in checked)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for run in pool.map(lambda command: subprocess.run(command, cwd=root, capture_output=True, text=True), commands):
            assert run.returncode == 0, f"{' '.join(run.args)}\n{run.stderr}"
    rows, x = rows_of(root), [-2, -0.5, 0, 0.25, 3]
    for line in output_of(os.path.join(root, "program")).splitlines():
        op, *values = line.split()
        assert [float(v) for v in values] == pytest.approx([float(rows[op].reference(v)) for v in x], rel=1e-6)


CALLS = """
import numpy as np
import lamina as lm

x = lm.constant([-2.0, -0.5, 0.0, 0.25, 3.0])
n = x.numpy().astype("float64")
for f, value, slope, doc in ((lm.gaussian, np.exp(-n * n), -2 * n * np.exp(-n * n), "e to the power"),
                             (lm.softsign, n / (1 + abs(n)), 1 / (1 + abs(n)) ** 2, "x / (1 + |x|)")):
    assert f.__name__ in lm.__all__ and doc in f.__doc__
    for call in (f, lm.function(f)):
        np.testing.assert_allclose(call(x).numpy(), value, rtol=1e-5, atol=1e-7)
        gradient = lm.grad(lambda v: lm.sum(call(v)))
        np.testing.assert_allclose(gradient(x).numpy(), slope, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(lm.vmap(f)(x).numpy(), f(x).numpy())
layer = lm.nn.Dense(3, activation="softsign")
batch = lm.constant(np.arange(12.0, dtype="float32").reshape(4, 3) / 12)
np.testing.assert_allclose(lm.function(layer)(batch).numpy(), lm.softsign(batch @ layer.kernel + layer.bias).numpy(), rtol=1e-5)
assert "activation=softsign" in str(lm.function(layer).explain(batch))
"""


@pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="builds the tree anew: run with LAMINA_TEST_LONG=1 (./dev test --long)")
def test_the_copy_builds_and_its_tests_pass(tree, monkeypatch):
    root, _ = tree
    build = os.path.join(root, "build")
    monkeypatch.setenv("CCACHE_BASEDIR", root)
    # Not optimised: compiling takes most of this test's time.
    output_of("cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DLAMINA_CUDA=OFF", f"-DPython_EXECUTABLE={sys.executable}")
    output_of("ninja", "-C", build, "_core", "lamina_package", "lamina_tests", "lamina_emulated")
    environment = os.environ | {"PYTHONPATH": os.path.join(build, "python"), "LAMINA_TEST_LONG": ""}
    output_of(sys.executable, "-c", CALLS, env=environment)
    words = "*gaussian*:*softsign*:OpTable.*:AllHalves.*:Dense*:*Activation*"
    for program in ("lamina_tests", "lamina_emulated"):
        output_of(os.path.join(build, program), f"--gtest_filter={words}", cwd=root)
    files = [os.path.join(root, "tests", "python", f"test_{name}.py") for name in ("ops", "op_edges", "every_function")]
    output_of(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", "gaussian or softsign or has_a", cwd=root, env=environment)
