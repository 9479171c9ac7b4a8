"""``python -m lamina launch``: starts a program as several ranks by mpirun, or by srun inside of a Slurm allocation, and shows the command."""
from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time

from . import _core, errors

_STOPPED = 130  # by Ctrl-C
_THREADS = next(row["name"] for row in _core.config.settings() if row["meaning"] == "threads of each CPU device")


def _version(mpirun):
    return subprocess.run([mpirun, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def command(ranks, program, environment, cores, which=shutil.which, version=_version):
    """The words of the command, and the variables that are set for it."""
    words = [sys.executable, *program] if program[0].endswith(".py") or program[0] == "-m" else list(program)
    settings = {}
    nodes = environment.get("SLURM_JOB_ID") and int(environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or 1)
    if nodes and which("srun"):
        return ["srun", "--mpi=pmix", "--kill-on-bad-exit=1", "-n", str(ranks), *words], settings
    mpirun = which("mpirun")
    if not mpirun:
        raise errors.DeviceUnavailable("launch: there is no mpirun", "the command line", "mpirun of Open MPI starts the ranks on this host",
                                       "install Open MPI (Debian: openmpi-bin), or start the program by your cluster's launcher")
    out = ["mpirun", "-n", str(ranks)]
    if not environment.get(_THREADS):
        settings[_THREADS] = str(max(1, cores // ranks))
    if "Open MPI" in version(mpirun):
        out += ["--bind-to", "none", *(["--oversubscribe"] if ranks > cores else []), *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
                *(["-x", _THREADS] if settings else [])]
    return out + words, settings


def launch(ranks, program, restarts=0, out=None):
    """Runs the job, again after a failure up to `restarts` times. Returns the exit status of the last run."""
    if program and program[0] == "--":
        program = program[1:]
    if not program:
        raise errors.InvalidArgument("launch: there is no program", "the command line", fix="write python -m lamina launch -n 4 train.py")
    if ranks < 1 or restarts < 0:
        raise errors.InvalidArgument(f"launch: -n {ranks} --restarts {restarts}", "the command line", "there is at least one rank, and no negative number of restarts")
    inside = [name for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK") if os.environ.get(name)]
    if inside:
        raise errors.StateError("launch: this process is itself a rank of a job", "the command line", f"{inside[0]} is set", "call it outside of mpirun and srun")
    cores = len(os.sched_getaffinity(0))
    words, settings = command(ranks, program, os.environ, cores)
    shown = " ".join([*(f"{name}={value}" for name, value in settings.items()), shlex.join(words)])
    for run in range(restarts + 1):
        print(f"lamina launch: {shown}", file=out or sys.stdout, flush=True)
        status = _run(words, settings)
        if status in (0, _STOPPED) or run == restarts:
            return status
        print(f"lamina launch: the job has ended with {status}; restart {run + 1} of {restarts}", file=out or sys.stdout, flush=True)
        time.sleep(0.2)  # for what the launcher leaves behind
    return 0


def _run(words, settings):
    with subprocess.Popen(words, env=os.environ | settings) as process:
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:  # the launcher has it, too, and ends the ranks
                try:
                    process.wait(10)
                except (subprocess.TimeoutExpired, KeyboardInterrupt):
                    process.terminate()
                return _STOPPED
    return status if status >= 0 else 128 - status
