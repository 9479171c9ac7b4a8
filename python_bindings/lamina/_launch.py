"""``python -m lamina launch``: starts a program as several ranks by mpirun, or by srun inside of a Slurm allocation, and shows the command."""
from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from . import _core, errors

_STOPPED = 130  # by Ctrl-C
_HOSTS = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE")  # ranks on other hosts, whose cores are not known here
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
    if not environment.get(_THREADS) and not any(environment.get(name) for name in _HOSTS):
        settings[_THREADS] = str(max(1, cores // ranks))
    if "Open MPI" in version(mpirun):
        out += ["--bind-to", "none", *(["--oversubscribe"] if ranks > cores else []), *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
                *(["-x", _THREADS] if settings else [])]
    return out + words, settings


def launch(ranks, program, restarts=0, out=None, as_json=False):
    """Runs the job, again after a failure up to `restarts` times, unless it is itself told to end. Returns the exit status of the last run. `as_json`: what ran is said as a
    line of JSON behind what the job prints."""
    if program and program[0] == "--":
        program = program[1:]
    if not program:
        raise errors.InvalidArgument("launch: there is no program", "the command line", fix="write python -m lamina launch -n 4 train.py")
    if ranks < 1 or restarts < 0:
        raise errors.InvalidArgument(f"launch: -n {ranks} --restarts {restarts}", "the command line", "there is at least one rank, and no negative number of restarts", "write python -m lamina launch -n 4 train.py")
    inside = [name for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK") if os.environ.get(name)]
    if inside:
        raise errors.StateError("launch: this process is itself a rank of a job", "the command line", f"{inside[0]} is set", "call it outside of mpirun and srun")
    cores = len(os.sched_getaffinity(0))
    words, settings = command(ranks, program, os.environ, cores)
    if not (os.path.exists(program[0]) if program[0].endswith(".py") else program[0] == "-m" or shutil.which(program[0])):
        raise errors.NotFound(f"launch: there is no program {program[0]}", "the command line", "every rank would fail to start it", "write python -m lamina launch -n 4 train.py, with its arguments behind it")
    shown = " ".join([*(f"{name}={value}" for name, value in settings.items()), shlex.join(words)])
    begin, says = time.perf_counter(), sys.stderr if as_json else out or sys.stdout
    for run in range(restarts + 1):
        print(f"lamina launch: {shown}", file=says, flush=True)
        status, told = _run(words, settings)
        if told or status == 0 or run == restarts:
            break
        print(f"lamina launch: the job has ended with {status}; restart {run + 1} of {restarts}", file=says, flush=True)
        time.sleep(0.2)  # for what the launcher leaves behind
    if as_json:
        print(json.dumps({"ranks": ranks, "command": words, "settings": settings, "runs": run + 1, "status": status, "seconds": time.perf_counter() - begin}), file=out or sys.stdout)
    return status


def _run(words, settings):
    """(exit status, whether this launcher was told to end). The first SIGTERM or SIGUSR1 goes to the ranks as SIGUSR1: mpirun passes that on and waits, while a
    SIGTERM would leave them a second."""
    told = []
    with subprocess.Popen(words, env=os.environ | settings) as process:
        def pass_on(number, frame):
            told.append(number)
            process.send_signal(signal.SIGUSR1 if len(told) == 1 else signal.SIGTERM)

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGUSR1)}
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the launcher has it, too, and ends the ranks
            try:
                process.wait(10)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.terminate()
            return _STOPPED, True
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return (status if status >= 0 else 128 - status), bool(told)
