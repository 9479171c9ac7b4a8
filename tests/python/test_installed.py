"""The installed tree as C++ users see it, through find_package."""
import os, re, subprocess

import pytest
from built import BUILD, ROOT, output_of
from mpi_jobs import Job, why_not

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(Lamina REQUIRED)
add_executable(user {source})
target_link_libraries(user PRIVATE Lamina::Runtime)
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    for component in ("cpp", "mpi"):
        output_of("cmake", "--install", BUILD, "--prefix", str(folder), "--component", component)
    return folder


def build(prefix, folder, source):
    (folder / "CMakeLists.txt").write_text(PROJECT.format(source=source))
    output_of("cmake", "-S", str(folder), "-B", str(folder / "b"), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    output_of("cmake", "--build", str(folder / "b"))
    return str(folder / "b" / "user")


def test_the_installed_headers_compile(prefix, tmp_path):
    """All headers together; with --long also each separately, which takes minutes."""
    base = prefix / "include" / "lamina"
    headers = sorted(str(p.relative_to(base)) for p in base.rglob("*.h"))
    assert "runtime/core/error.h" in headers
    groups = [[h] for h in headers] if os.environ.get("LAMINA_TEST_LONG") else [headers]
    for i, group in enumerate(groups):
        source = tmp_path / f"{i}.cpp"
        source.write_text("".join(f'#include "{h}"\n' for h in group))
        output_of("g++", "-std=c++20", "-fsyntax-only", "-I", str(base), "-I", str(base.parent), str(source))


WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wnon-virtual-dtor", "-pedantic"]


@pytest.mark.parametrize("standard", ["c++20", "c++23"])
def test_the_public_headers_give_no_warnings(prefix, tmp_path, standard):
    """In two translation units of one program, with the headers as the program's own: -isystem would hide their warnings."""
    user = os.path.join(ROOT, "tests", "python", "installed_user.cpp")
    (tmp_path / "other.cpp").write_text(f'#define main other_main\nint other_main();\n#include "{user}"\n')
    include, lib = prefix / "include", prefix / "lib"
    output_of("g++", f"-std={standard}", "-O1", *WARNINGS, "-I", str(include), "-I", str(include / "lamina"), user, str(tmp_path / "other.cpp"), "-L", str(lib), "-llamina", f"-Wl,-rpath,{lib}", "-o",
              str(tmp_path / "user"))
    if standard == "c++20":
        run = subprocess.run([str(tmp_path / "user")], capture_output=True, text=True, timeout=300)
        lines = run.stdout.splitlines()
        assert run.returncode == 0 and lines[-1].startswith("after main: ") and "at exit: 1" in lines and "in main: 15" in lines, (run.returncode, run.stdout, run.stderr)


def test_no_object_of_the_library_ends_with_the_process(prefix):
    """Threads and static objects of a program may use Lamina until the process is gone (runtime/core/per_thread.h)."""
    code = output_of("objdump", "-d", "--no-show-raw-insn", "-C", str(prefix / "lib" / "liblamina.so"))
    functions, now = set(), ""
    for line in code.splitlines():
        if line.endswith(">:"):
            now = line.split(" ", 1)[1]
        elif line.endswith("<__cxa_atexit@plt>"):
            functions.add(now)
    assert functions == {"<atexit>:"}, functions  # by which a job of several ranks ends


def test_a_program_builds_and_catches_an_error(prefix, tmp_path):
    (tmp_path / "main.cpp").write_text("""
#include <cstdio>
#include <runtime/data/idx.h>
#include <runtime/core/error.h>
int main() {
  try { lamina::data::read_idx("absent"); } catch (const lamina::Error& e) { std::puts(e.parts.why.c_str()); }
}
""")
    assert output_of(build(prefix, tmp_path, "main.cpp")) == "No such file or directory\n"


def test_the_examples_build_from_the_installed_tree_and_run(prefix, tmp_path):
    output_of("cmake", "-S", os.path.join(ROOT, "examples", "cpp"), "-B", str(tmp_path), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    output_of("cmake", "--build", str(tmp_path))
    *values, graphs = output_of(str(tmp_path / "first_program")).splitlines()
    assert [float(re.match(r"lm\.Tensor\(([^,]+), shape=\(\), dtype=float32\)$", line)[1]) for line in values] == pytest.approx([3, 1], abs=1e-4)
    assert graphs == "graphs: 1"
    output = output_of(str(tmp_path / "train_hundred_layers"), os.path.join(ROOT, "examples", "data"), "2")
    assert float(re.search(r"^test accuracy ([0-9.]+)$", output, re.M)[1]) > 0.5, output
    trainer, folder = str(tmp_path / "train_and_serve"), str(tmp_path / "program")
    trained = subprocess.run([trainer, "train", folder], capture_output=True, text=True, check=True)
    assert float(re.findall(r"mean squared error (\S+)", trained.stderr)[-1]) < 1e-3, trained.stderr
    served = subprocess.run([trainer, "serve", folder], input="0.5 1\n-0.5 1\n0.25 -0.5\n0 0\n", capture_output=True, text=True, check=True)
    assert len(trained.stdout.splitlines()) == 4 and served.stdout == trained.stdout  # another process, another number of points: the same bits
    towers = str(tmp_path / "two_towers")
    alone = output_of(towers)
    assert "placement by cost, times modelled" in alone and "ranks: 1" in alone, alone
    if not why_not():  # under the real mpirun: the same bits
        both = Job(2, towers, folder=tmp_path)
        assert both.code == 0 and "ranks: 2" in both.output and both.output.splitlines()[-1] == alone.splitlines()[-1], both.output
        many = Job(9, towers, folder=tmp_path)
        assert many.code == 1 and "9 ranks are more than 8 shards" in many.output and "Signal: Aborted" not in many.output, many.output
    refused = subprocess.run([str(tmp_path / "train_hundred_layers"), "absent"], capture_output=True, text=True)
    assert refused.returncode == 1 and "absent" in refused.stderr
