"""Dependences, exports and contents of the built files."""
import glob, os, re, shutil, sys, zlib

import pytest
from built import BUILD, LIBRARY, ROOT, module_path, output_of

SYSTEM = {"libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6", "libz.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


CUDA_LIBRARY = glob.glob(os.path.join(BUILD, "python", "lamina", "liblamina_cuda.so"))  # none in a build without CUDA
MPI_LIBRARY = glob.glob(os.path.join(BUILD, "python", "lamina", "liblamina_mpi.so"))  # none in a build without MPI
FILES = [LIBRARY, module_path(), *CUDA_LIBRARY]


def needed(path):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", path)))


@pytest.mark.row("S0-16", "S1-11")
def test_the_library_needs_only_the_system():
    assert "libc.so.6" in needed(LIBRARY)
    assert needed(LIBRARY) - SYSTEM == set()


def test_the_library_is_small(tmp_path):
    """Programs that embed a saved network carry it: at most 10 MB, without CUDA in it."""
    output_of("strip", "-o", str(tmp_path / "stripped"), LIBRARY)
    assert os.path.getsize(tmp_path / "stripped") <= 10e6
    assert b"libcublasLt.so" not in open(LIBRARY, "rb").read()


@pytest.mark.parametrize("path", [module_path(), *CUDA_LIBRARY], ids=os.path.basename)
def test_what_lies_beside_the_library_needs_only_that(path):
    assert needed(path) - SYSTEM == {"liblamina.so"}
    assert re.search(r"R(UN)?PATH.*\[\$ORIGIN\]", output_of("readelf", "-d", path))


@pytest.mark.skipif(not MPI_LIBRARY, reason="this build has no liblamina_mpi.so: mpi.h was not found")
def test_only_the_plugin_needs_mpi_and_it_exports_one_symbol():
    assert any(name.startswith("libmpi") for name in needed(MPI_LIBRARY[0]))
    assert not any("mpi" in name for path in FILES for name in needed(path))
    assert [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", MPI_LIBRARY[0]).splitlines()] == ["lamina_mpi"]
    called = {line.split()[-1].partition("@")[0] for line in output_of("nm", "-D", "-u", MPI_LIBRARY[0]).splitlines()}
    assert "MPI_Isend" in called and {name for name in called if "reduce" in name.lower()} == {"MPI_Iallreduce"}  # for reproducible=False alone


# The requirements of manylinux_2_36: the libraries of Debian 12.
MANYLINUX_2_36 = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12,), "ZLIB": (1, 2, 9)}


def test_the_files_need_no_newer_system_than_manylinux_2_36():
    found = set()
    for path in FILES:
        found |= set(re.findall(r"Name: (\w+)_([0-9.]+) ", output_of("readelf", "-V", "-W", path)))
    assert {"GLIBC", "GLIBCXX"} <= {family for family, _ in found}
    newer = [(family, version) for family, version in found if tuple(map(int, version.split("."))) > MANYLINUX_2_36[family]]
    assert newer == []


def test_a_wheel_of_the_files_is_small():
    """At most 10 MB, with kernels for three GPU architectures 30 MB; wheels are compressed with zlib."""
    megabytes = sum(len(zlib.compress(open(path, "rb").read(), 6)) for path in FILES) / 1e6
    assert megabytes <= (30 if CUDA_LIBRARY else 10)


def test_pip_is_told_what_the_readme_says():
    project = open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8").read()
    readme = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
    lowest = re.search(r'requires-python = ">=([0-9.]+)"', project)[1]
    assert "`pip install .`" in readme and f"Python {lowest} or later on Linux x86-64" in readme
    targets = re.search(r"build.targets = \[(.*)\]", project)[1]
    assert targets == '"lamina_package"', "a wheel needs no tests, benchmarks and examples"


@pytest.mark.parametrize("path", [LIBRARY, *CUDA_LIBRARY], ids=os.path.basename)
def test_only_lamina_is_exported(path):
    """Static cudart inside the library must not replace another library's symbols."""
    names = [line.split(maxsplit=2)[-1] for line in output_of("nm", "-D", "--defined-only", "-C", path).splitlines()]
    assert any("lamina::" in name for name in names)
    foreign = [n for n in names if re.match(r"_*(cuda|cu|nv)[A-Z_]", n) or n.startswith(("nlohmann::", "deflate", "inflate"))]
    assert foreign == []


def test_nothing_in_the_library_ends_the_process_or_starts_another():
    called = {line.split()[-1].partition("@")[0] for line in output_of("nm", "-D", "-u", LIBRARY).splitlines()}
    assert "memcpy" in called
    assert called & {"abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "raise", "fork", "vfork", "system", "popen", "execv", "execve", "execvp", "posix_spawn",
                     "connect", "listen", "accept", "send", "sendto", "sendmsg"} == set()  # a socket is bound alone, to see whether NCCL's port is free


def symbols(objects, kinds):
    return {fields[-1] for fields in (line.split() for o in objects for line in output_of("nm", "--defined-only", o).splitlines())
            if len(fields) == 3 and fields[1] in kinds}


def test_shared_inline_functions_use_only_baseline_instructions():
    """The linker keeps one copy of an inline function. If that copy comes from a file compiled with AVX-512, a machine without it crashes."""
    objects = {name: glob.glob(os.path.join(BUILD, "CMakeFiles", name + ".dir", "**", "*.o"), recursive=True)
               for name in ("lamina_objects", "lamina_isa_scalar", "lamina_isa_avx2", "lamina_isa_avx512")}
    if not objects["lamina_isa_avx512"]:
        pytest.skip("this build has no files for AVX-512")
    # In link order: the linker takes a symbol from the earliest file.
    safe = symbols(objects["lamina_objects"] + objects["lamina_isa_scalar"], "WVuT")
    for isa in ("avx2", "avx512"):
        shared = symbols(objects["lamina_isa_" + isa], "WVu")
        assert {s for s in shared if isa not in s} - safe == set(), f"put these into a namespace named by LAMINA_ISA, or make them static ({isa})"


def test_importing_and_computing_on_the_cpu_opens_no_library_of_nvidia():
    """NVIDIA's libraries are opened on first use: not by the import, and not by work on the CPU."""
    program = """
import re
def of_nvidia():
    return sorted(set(re.findall(r"/(lib(?:cuda|cudart|cublas|cudnn|nvrtc|nccl|nvidia)\\w*\\.so[^\\s]*)", open("/proc/self/maps").read())))
import lamina as lm
assert of_nvidia() == [], of_nvidia()
with lm.device("cpu:0"):
    w = lm.Variable(lm.ones([64, 64]))
    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            loss = lm.sum(lm.relu(x @ w))
        w.assign_sub(tape.gradient(loss, w) * 1e-3)
        return loss
    x = lm.ones([512, 64])
    first, second = float(step(x).numpy()), float(step(x).numpy())
assert second < first, (first, second)
assert [name for name in of_nvidia() if not name.startswith(("libcuda.", "libnvidia"))] == [], of_nvidia()  # the driver's own are asked for GPUs
"""
    environment = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "python"))
    output_of(sys.executable, "-c", program, env=environment)


@pytest.mark.parametrize("what, why", [(None, "Lamina was built without CUDA: there is no "), (b"no library", "cannot be opened: ")])
def test_without_the_library_of_gpus_there_is_a_reason_and_the_rest_works(what, why, tmp_path):
    package = tmp_path / "lamina"
    shutil.copytree(os.path.dirname(LIBRARY), package, symlinks=False, ignore=shutil.ignore_patterns("liblamina_cuda.so", "__pycache__"))
    if what is not None:
        (package / "liblamina_cuda.so").write_bytes(what)
    program = "import lamina as lm; print(lm.cuda.why_unavailable()); assert not lm.cuda.is_available(); assert float(lm.sum(lm.ones(3)).numpy()) == 3"
    said = output_of(sys.executable, "-c", program, env=dict(os.environ, PYTHONPATH=str(tmp_path)))
    assert why in said and str(package / "liblamina_cuda.so") in said
