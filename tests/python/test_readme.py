"""The programs in README.md have ten lines and work, and so do its commands."""
import os
import re
import signal
import subprocess
import sys

import pytest
from built import BUILD, ROOT, output_of
from mpi_jobs import environment, why_not


def program(language):
    with open(os.path.join(ROOT, "README.md")) as f:
        (text,) = re.findall(rf"```{language}\n(.*?)```", f.read(), re.S)
    assert text.count("\n") == 10
    return text


def expect_fitted(output):
    w, b, graphs = re.search(r"([\d.]+)\D*?([\d.]+)[^:]*: ?(\d+)$", re.sub(r"lm\.Tensor\(([^,]+), shape=\(\), dtype=float32\)", r"\1", output.strip())).groups()
    assert (float(w), float(b), graphs) == (pytest.approx(3, abs=1e-4), pytest.approx(1, abs=1e-4), "1")


def test_the_python_program_fits_the_line(tmp_path):
    (tmp_path / "first.py").write_text(program("python"))
    expect_fitted(output_of(sys.executable, str(tmp_path / "first.py"), env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}))


def test_the_cpp_program_fits_the_line(tmp_path):
    (tmp_path / "first.cpp").write_text(program("cpp"))
    library = os.path.join(BUILD, "python", "lamina")
    output_of("g++", "-std=c++20", "-I", ROOT, "-I", os.path.join(ROOT, "include"), str(tmp_path / "first.cpp"), "-L", library, "-llamina", f"-Wl,-rpath,{library}",
              "-o", str(tmp_path / "first"))
    expect_fitted(output_of(str(tmp_path / "first")))


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_killed_process_of_its_job_leaves_no_trace_in_the_weights(tmp_path):
    """The command as it stands there, but for the number of epochs and the folder."""
    with open(os.path.join(ROOT, "README.md")) as f:
        words = re.search(r"`\./dev python (-m lamina launch [^`]+)`", f.read())[1].split()
    *words, epochs, folder = words
    assert int(epochs) > 10 and folder.startswith("/tmp/")
    weights = []
    for kill in (False, True):
        run = tmp_path / str(kill)
        with subprocess.Popen([sys.executable, *words, "3", str(run)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment(LAMINA_FLIGHT_RECORDS=str(tmp_path))) as job:
            said = ""
            for line in job.stdout:
                said += line
                if kill and line.startswith("epoch 1: "):
                    os.kill(rank_of(1, str(run)), signal.SIGKILL)
                    kill = False
        assert job.returncode == 0, said
        assert ("goes on after step" in said) == ("restart 1 of 3" in said) == (run.name == "True"), said
        weights.append(re.search(r"with 2 ranks; weights (\w+)", said)[1])
    assert weights[0] == weights[1]


def rank_of(rank, folder):
    """The process of a job that has this folder as an argument."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as words, open(f"/proc/{pid}/environ") as variables:
                if words.read().split("\0")[-2:] == [folder, ""] and f"OMPI_COMM_WORLD_RANK={rank}" in variables.read().split("\0"):
                    return int(pid)
        except OSError:
            pass
    raise AssertionError("the rank is gone")
