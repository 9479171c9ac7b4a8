"""Jobs of several processes for tests, started by the real mpirun."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from built import BUILD

PROGRAM = os.path.join(BUILD, "lamina_mpi_tests")
PLUGIN = os.path.join(BUILD, "python", "lamina", "liblamina_mpi.so")
LONG = bool(os.environ.get("LAMINA_TEST_LONG"))


def why_not():
    """Why no job can be started; "" if it can."""
    if not shutil.which("mpirun"):
        return "there is no mpirun; ./dev setup installs Open MPI"
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout:
        return "mpirun is not Open MPI's, whose options these tests use"
    missing = [path for path in (PROGRAM, PLUGIN) if not os.path.exists(path)]
    return f"this build has no {os.path.basename(missing[0])}: mpi.h was not found" if missing else ""


def environment(**settings):
    out = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "LAMINA_", "SLURM_"))}
    return out | {"PYTHONPATH": os.path.join(BUILD, "python"), "LAMINA_THREADS": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"} | settings


class Job:
    """A finished job: its exit code, output, times, and the processes that it left."""

    def __init__(self, ranks, *words, folder, seconds=60, options=(), **settings):
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root", *options, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, start_new_session=True,
                                   env=environment(LAMINA_FLIGHT_RECORDS=str(folder), **settings))
        try:
            self.output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.output = process.communicate()[0]
            raise AssertionError(f"the job has not ended after {seconds} s:\n{self.output}") from None
        self.ended, self.code = time.time(), process.returncode
        self.records = {}
        for name in os.listdir(folder):
            if found := re.fullmatch(r"lamina-rank-(\d+)\.json", name):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.records[int(found[1])] = json.load(file)

    def seconds_since_the_fault(self):
        return self.ended - float(re.search(r"acts at ([0-9.]+)", self.output)[1])

    def left_behind(self):
        """Processes of the job that still run."""
        return [pid for pid in map(int, re.findall(r"^pid (\d+)", self.output, re.M)) if not gone_within(pid, 2)]


def gone_within(pid, seconds):
    end = time.time() + seconds
    while True:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except OSError:
            return True
        if time.time() > end:
            return False
        time.sleep(0.05)


def python_job(ranks, program, *, folder, **options):
    path = os.path.join(folder, "train.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    return Job(ranks, sys.executable, path, folder=folder, **options)
