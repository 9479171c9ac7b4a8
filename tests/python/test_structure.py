"""The structure of the tree, and tests of the checks themselves."""
import os, re, subprocess, sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINT = os.path.join(ROOT, "tests", "lint", "structure.py")


def broken_rules(root):
    run = subprocess.run([sys.executable, LINT, str(root)], capture_output=True, text=True)
    assert run.stderr == "" and run.returncode == (1 if run.stdout else 0)
    return run.stdout.splitlines()


def write(root, files):
    for path, text in files.items():
        path = root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_tree_keeps_its_rules():
    found = broken_rules(ROOT)
    assert not found, "\n".join(["the tree breaks its rules:", *found])


def test_c_and_cuda_sources_are_formatted():
    """`./dev format` formats them."""
    names = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    names = [n for n in names if os.path.exists(os.path.join(ROOT, n))]
    if not names:
        pytest.skip("the tree is not a git checkout, so its sources cannot be told from what was built")
    formatter = os.path.join(os.path.dirname(sys.executable), "clang-format")
    run = subprocess.run([formatter, "--dry-run", "-Werror", *names], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, "run ./dev format; " + run.stderr[:2000]
    long = [f"{n}:{i}" for n in names for i, line in enumerate(open(os.path.join(ROOT, n), encoding="utf-8"), 1) if len(line.rstrip("\n")) > 140]
    assert not long, f"lines of more than 140 columns: {long}"


SOUND = {
    "runtime/core/README.md": "core\n", "runtime/core/a.h": "#include <vector>\n",
    "graph/README.md": "graph\n", "graph/ir/README.md": "ir\n", "graph/ir/b.h": '#include "runtime/core/a.h"\n',
}


def test_a_sound_tree_has_no_findings(tmp_path):
    write(tmp_path, SOUND)
    write(tmp_path, {"build/graph/ir/c.cpp": "#include <cuda.h>\n", ".venv/x.py": "\n" * 700, "build-asan/y.cpp": "#include <nccl.h>\n"})
    assert broken_rules(tmp_path) == []


@pytest.mark.parametrize("planted, finding", [
    ({"runtime/core/a.h": '#include "graph/ir/b.h"\n', "graph/ir/b.h": ""}, "upward include of graph/ir/b.h"),
    ({"graph/passes/README.md": "", "graph/passes/p.h": "", "graph/autodiff/README.md": "", "graph/autodiff/q.cpp": '#include "graph/passes/p.h"\n'},
     "sideways include of graph/passes/p.h"),
    ({"graph/ir/b.h": '#include "graph/ir/c.h"\n', "graph/ir/c.h": '#include "graph/ir/b.h"\n'}, "include cycle through graph/ir/c.h"),
    ({"graph/ir/d.cpp": "#include <cuda_runtime.h>\n"}, "includes <cuda_runtime.h>"),
    ({"graph/ir/d.cpp": '#include "runtime/cuda/cuda_api.h"\n'}, 'includes <runtime/cuda/cuda_api.h>'),
    ({"graph/ir/d.cpp": "#  include <nanobind/nanobind.h>\n"}, "includes <nanobind/nanobind.h>"),
    ({"graph/ir/d.cpp": "#include <nccl.h>\n"}, "includes <nccl.h>"),
    ({"graph/ir/d.cpp": "#include <mpi.h>\n"}, "includes <mpi.h>"),
    ({"graph/ir/d.h": "\n" * 301}, "301 lines, the limit is 300"),
    ({"graph/ir/d.cpp": "\n" * 601}, "601 lines, the limit is 600"),
    ({"elsewhere/d.cpp": ""}, "under no listed folder"),
    ({"kernels/x.h": ""}, "kernels/README.md: missing"),
    ({"runtime/core/README.md": "\n" * 41}, "41 lines, the limit is 40"),
    ({"graph/ir/d.cpp": 'std::getenv("LAMINA_DUMP")'}, "LAMINA_DUMP\" is read here"),
    ({"python_bindings/README.md": "", "python_bindings/lamina/README.md": "", "python_bindings/lamina/d.py": "os.environ['LAMINA_DUMP']"}, "LAMINA_DUMP' is read here"),
    ({"kernels/README.md": "", "kernels/d.cpp": 'const char* name = "LAMINA_DUMP";'}, "LAMINA_DUMP\" is read here"),
    ({"graph/ir/README.md": "`b.h` and `c.h`\n"}, "graph/ir/README.md:1: names the file or folder 'c.h'"),
    ({"ARCHITECTURE.md": "\n`graph/ir/b.h`, `graph/passes`\n"}, "ARCHITECTURE.md:2: names the file or folder 'graph/passes'"),
    ({"docs/a.md": "[a](b.md)\n"}, "names the file or folder 'b.md'"),
    ({"CONTRIBUTING.md": "`./dev tset`\n", "dev": "  test [WORD ...]\n"}, "names the command of ./dev 'tset'"),
    ({"README.md": "`lamina_tests`\n", "cmake/README.md": "", "cmake/t.cmake": "add_executable(lamina_test)\n"}, "names the build target 'lamina_tests'"),
    ({"README.md": "word " * 701}, "README.md:1: has 701 words, and 700 are the limit"),
    ({"README.md": "`LAMINA_DUMPS=dir`\n", "cmake/README.md": "", "cmake/t.cmake": "LAMINA_DUMP\n"}, "names the variable 'LAMINA_DUMPS'"),
    ({"docs/a.md": "see /wo" "rk/main\n"}, "docs/a.md:1: names '/wo" "rk/m'"),
    ({"docs/a.md": "\nsee ../sh" "ared/x\n"}, "docs/a.md:2: names '../sh" "ared'"),
    ({"docs/a.md": "built in /ro" "ot/x\n"}, "names '/ro" "ot/x'"),
])
def test_a_planted_violation_is_found(tmp_path, planted, finding):
    write(tmp_path, SOUND | {"docs/README.md": ""} | planted)
    found = broken_rules(tmp_path)
    assert len(found) == 1 and finding in found[0], found


OPS = [f"op_{chr(97 + i)}" for i in range(26)]
TABLE = {"kernels/README.md": "", "kernels/shared/elementwise_ops.inc": "".join(f'ELEMENTWISE({op}, 1, "doc")\n' for op in OPS) + "".join(f"ACTIVATION({op}, plain)\n" for op in OPS[20:]),
         "graph/ops/README.md": "", "graph/ops/ops.inc": "OP(sort)\n"}


@pytest.mark.parametrize("path, text, finding", [
    ("graph/ir/d.h", " ".join(f"OP({op})" for op in OPS[:20]), "lists 20 ops, op_a to op_t"),
    ("graph/ir/d.cpp", "".join(f'ROW({op}, grad_{op}, "what {op} gives, in a few words that count as one")\n' for op in OPS[:20]), "lists 20 ops"),
    ("graph/ir/d.cpp", "".join(f"case Op::{op}: return scalar::{op}(x);\n" for op in OPS[20:]), "lists 6 activations"),
    ("python_bindings/lamina/d.py", f"__all__ = {OPS[:20]}\n", "lists 20 ops"),
    ("python_bindings/src/d.cpp", 'm.def(\n  "sort", [](nb::handle x) { return sort(x); }, nb::arg("x"), "The elements in order");\n', "sort has a docstring of its own"),
])
def test_a_second_list_of_ops_is_found(tmp_path, path, text, finding):
    folders = {f"{folder}/README.md": "" for folder in ("kernels/shared", "python_bindings", "python_bindings/src", "python_bindings/lamina")}
    write(tmp_path, SOUND | TABLE | folders)
    assert broken_rules(tmp_path) == []
    write(tmp_path, {path: text})
    found = broken_rules(tmp_path)
    assert len(found) == 1 and finding in found[0], found


def test_python_is_tidy():
    run = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "--no-cache", ROOT], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_what_people_run_is_executable():
    for path in ("dev", ".ci/run"):
        assert os.access(os.path.join(ROOT, path), os.X_OK), path
        assert subprocess.run(["bash", "-n", os.path.join(ROOT, path)]).returncode == 0


@pytest.mark.parametrize("kind", ["dev", "cuda"])
def test_every_python_package_is_pinned_by_version_and_hash(kind):
    wanted = re.findall(r"^([A-Za-z0-9_-]+)", open(os.path.join(ROOT, f"requirements-{kind}.txt")).read(), re.M)
    pinned = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", open(os.path.join(ROOT, f"requirements-{kind}.lock")).read(), flags=re.M))
    assert wanted and {w.lower() for w in wanted} <= {re.match(r"[a-z0-9_-]+", p)[0] for p in pinned}
    for package in pinned:
        assert re.match(r"[a-z0-9_-]+==[0-9]", package) and "--hash=sha256:" in package, package
