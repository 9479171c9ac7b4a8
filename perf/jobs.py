"""Jobs under the real mpirun: the sum of 1.66 MB in the fixed tree against MPI_Allreduce beside it, the simulator's time of a sum beside the measured one, steps of
data_parallel on one rank and on two beside the plain step, how long a job lives after a rank was killed or stopped, and the time from a killed rank to the first new
step. Asserts nothing.

    PYTHONPATH=build/python python perf/jobs.py [--json]
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build", "lamina_mpi_tests")
GRADIENTS = 416_000  # of 100 dense layers of 64 with bias: 1.66 MB
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI"))} | {
    "PYTHONPATH": os.path.join(ROOT, "build", "python"), "LAMINA_THREADS": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

SUMS = f"""import time, numpy as np, lamina as lm
from lamina import distributed as d
d.barrier()
latency, rate = lm._core.distributed.measured_sums()
x = lm.constant(np.ones({GRADIENTS}, np.float32))
times = []
for _ in range(30):
    d.barrier()
    start = time.perf_counter()
    d.host_all_reduce(x, "gradients")
    times.append(1e6 * (time.perf_counter() - start))
if d.rank() == 0: print("modelled", latency + {4 * GRADIENTS} / rate, "measured", min(times))
"""
KILLED = """import os, sys, time, lamina as lm
from lamina import distributed as d
w = lm.Variable(0.0)
run = lm.Checkpoint(sys.argv[1], {"w": w})
step = first = run.restore() or 0
while step < 6:
    step += 1
    w.assign_add(d.host_all_reduce(1.0, "w"))
    if d.rank() == 0 and step == first + 1: print("step", step, time.time(), flush=True)
    if d.rank() == 1 and first == 0 and step == 4:
        print("killed", time.time(), flush=True)
        os.kill(os.getpid(), 9)
    run.save(step)
"""


def ran(*words, folder=None, threads=1):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT | {"LAMINA_THREADS": str(threads)}, cwd=folder)
    return done.stdout


def mpirun(ranks, *words, folder=None):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ran("mpirun", "-n", str(ranks), "--oversubscribe", *root, *words, folder=folder)


def over_mpi(ranks):
    """The median of five runs."""
    ratios = []
    for _ in range(5):
        tree, mpi = map(float, re.search(r"tree (\d+) us, MPI_Allreduce (\d+) us", mpirun(ranks, PROGRAM, "time", str(GRADIENTS), "100")).groups())
        ratios.append(tree / mpi)
    return statistics.median(ratios)


def steps(batch):
    """Microseconds of the plain step and of data_parallel's in one process of two threads, and of data_parallel's on two ranks of one: the best of three turns."""
    program = os.path.join(ROOT, "perf", "data_parallel.py")
    best = {}
    for _ in range(3):
        for where, said in (("one", ran(sys.executable, program, str(batch), threads=2)), ("two", mpirun(2, sys.executable, program, str(batch)))):
            for what, text in re.findall(r"^(data_parallel|the plain step) +best +([\d,]+) us", said, re.M):
                best[where, what] = min(best.get((where, what), float("inf")), float(text.replace(",", "")))
    return best["one", "the plain step"], best["one", "data_parallel"], best["two", "data_parallel"]


def seconds_to_the_end(action, folder):
    """From the moment at which rank 1 is killed or stopped to the end of the job."""
    said = mpirun(3, PROGRAM, "fault", "steps", action, "1", folder=folder)
    return round(time.time() - float(re.search(r"acts at (\S+)", said)[1]), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the figures of promises.json alone")
    options = parser.parse_args()
    if not shutil.which("mpirun") or not os.path.exists(PROGRAM):
        sys.exit("jobs: there is no mpirun, or this build has no lamina_mpi_tests; ./dev setup installs Open MPI")
    out = {"sum_over_mpi_4": round(over_mpi(4), 2), "sum_over_mpi_2": round(over_mpi(2), 2)}
    plain, one, two = steps(1024)
    out |= {"one_rank_over_step_1024": round(one / plain, 2), "two_ranks_over_two_threads_1024": round(two / plain, 2)}
    few_plain, few_one, _ = steps(20)
    out["one_rank_over_step_20"] = round(few_one / few_plain, 2)
    with tempfile.TemporaryDirectory() as folder:
        out |= {"killed_s": statistics.median(seconds_to_the_end("kill", folder) for _ in range(3)), "stopped_s": seconds_to_the_end("stop", folder)}
        for name, text in (("sums.py", SUMS), ("killed.py", KILLED)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        modelled, measured = map(float, re.search(r"modelled (\S+) measured (\S+)", mpirun(2, sys.executable, os.path.join(folder, "sums.py"))).groups())
        out["modelled_sum_error_percent"] = round(100 * abs(modelled / measured - 1), 1)
        said = ran(sys.executable, "-m", "lamina", "launch", "-n", "2", "--restarts", "1", os.path.join(folder, "killed.py"), os.path.join(folder, "run"), folder=folder)
        out["restart_s"] = round(float(re.findall(r"step 4 (\S+)", said)[-1]) - float(re.search(r"killed (\S+)", said)[1]), 2)
    if options.json:
        print(json.dumps(out))
    else:
        print(f"1.66 MB in the fixed tree over MPI_Allreduce: 4 ranks {out['sum_over_mpi_4']}, 2 ranks {out['sum_over_mpi_2']}; load average {os.getloadavg()[0]:.1f}")
        print(f"a sum of 1.66 MB on 2 ranks: modelled {modelled:.0f} us, measured {measured:.0f} us ({100 * (modelled / measured - 1):+.0f} %)")
        print(f"100 layers of 64, batch 1024: plain step {plain:.0f} us, data_parallel on one rank {one:.0f} us (batch 20: {few_plain:.0f} and {few_one:.0f}), on two {two:.0f} us")
        print(f"a job is over {out['killed_s']} s after a rank was killed, {out['stopped_s']} s after one was stopped")
        print(f"from a killed rank to the first new step: {out['restart_s']} s")


if __name__ == "__main__":
    main()
