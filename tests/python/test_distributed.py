"""lm.distributed: one rank, jobs of several processes under the real mpirun, and python -m lamina launch."""
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
import lamina._launch as _launch
from built import ROOT
from mpi_jobs import LONG, PLUGIN, environment, python_job, why_not

needs_mpi = pytest.mark.skipif(bool(why_not()), reason=why_not())
FAST = {"LAMINA_HEARTBEAT_TIMEOUT": "1"}
START = """import os, time
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one write: lines of ranks do not mix
say("pid", os.getpid())
import numpy as np, lamina as lm
from lamina import distributed as d
"""


def run(program, **variables):
    """A process of its own: a job is joined once."""
    return subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, env=environment(**variables))


def test_a_process_without_a_launcher_is_one_rank():
    assert (lm.distributed.rank(), lm.distributed.size()) == (0, 1)
    lm.distributed.barrier()
    lm.distributed.set_step(3)
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert np.array_equal(lm.distributed.host_all_reduce(x), x) and lm.distributed.host_all_reduce(x).dtype == lm.int16
    assert np.array_equal(lm.distributed.host_all_gather(x), x[None])
    assert np.array_equal(lm.distributed.host_broadcast(x), x)
    assert lm.distributed.host_all_gather(1.5).shape == (1,) and lm.distributed.host_all_reduce(np.zeros((0, 2))).shape == (0, 2)


def test_bad_arguments_are_typed_errors():
    with pytest.raises(lm.errors.TypeMismatch, match="bool has no sum"):
        lm.distributed.host_all_reduce([True])
    with pytest.raises(lm.errors.InvalidArgument, match="there is no rank 1"):
        lm.distributed.host_broadcast(1.0, root=1)
    with pytest.raises(lm.errors.InvalidArgument, match="is not what rank 0 of 1 has of 8 shards"):
        lm.distributed.host_all_reduce(np.zeros((7, 3)), shards=8)
    with pytest.raises(lm.errors.TypeMismatch, match="the argument 'name' is an int, 7"):
        lm.distributed.barrier(7)
    for shards in (0, 65537):
        with pytest.raises(lm.errors.InvalidArgument, match="is not a whole number"):
            lm.distributed.shard([], shards)
    for shards in (True, 2.0):
        with pytest.raises(lm.errors.TypeMismatch, match="the argument 'shards' is a"):
            lm.distributed.shard([], shards)
    with pytest.raises(lm.errors.InvalidArgument, match="different numbers of rows"):
        list(lm.distributed.shard([(np.zeros(2), np.zeros(3))]))
    with pytest.raises(lm.errors.TypeMismatch, match="has no batches"):
        lm.distributed.shard(3)

    @lm.function
    def traced(x):
        return lm.distributed.host_all_reduce(x)

    with pytest.raises(lm.errors.Error, match="does not exist yet"):
        traced(lm.ones(3))


def test_shard_of_one_rank_is_every_batch_whole():
    data = lm.data.Dataset.from_tensor_slices({"x": np.arange(10.0), "y": np.arange(10)}).batch(4)
    batches = list(lm.distributed.shard(data))
    assert len(lm.distributed.shard(data)) == 3
    assert [b["x"].shape[0] for b in batches] == [4, 4, 2] and np.array_equal(batches[2]["y"], [8, 9])


def test_half_set_variables_are_an_error_at_the_first_use_and_not_at_the_import():
    done = run("try: d.size()\nexcept lm.errors.InvalidArgument as e: print(e)", OMPI_COMM_WORLD_RANK="1")
    assert "OMPI_COMM_WORLD_RANK is set without OMPI_COMM_WORLD_SIZE" in done.stdout and done.returncode == 0, done.stderr


def test_the_shell_of_an_allocation_is_one_rank():
    done = run("print(d.rank(), d.size())", SLURM_JOB_ID="7", SLURM_NTASKS="4")
    assert done.stdout.endswith("0 1\n"), done.stderr


def test_srun_without_mpi_is_an_error():
    done = run("d.size()", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="4")
    assert done.returncode == 1 and "srun has started 4 tasks without MPI" in done.stderr


@pytest.mark.skipif(lm.config.list_devices("gpu") != [], reason="this machine has a GPU")
def test_torchrun_without_gpus_is_an_error_and_not_many_worlds_of_one():
    done = run("d.size()", RANK="1", LOCAL_RANK="1", WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29500")
    assert done.returncode == 1 and "torchrun has started this process as rank 1 of 2, but there is no gpu:1" in done.stderr, done.stderr
    assert "on CPUs start the program by mpirun, srun --mpi=pmix or python -m lamina launch" in done.stderr


def expect_error(name, done, folder=""):
    """The text in tests/errors/mpi.txt, where paths, lines and versions do not stand."""
    text = done.stdout.partition("\n")[2].replace(folder or "/no folder", "FOLDER")
    text = re.sub(r"<string>:\d+", "train.py:N", re.sub(r"Open MPI [\d.]+", "Open MPI N", text))
    with open(os.path.join(ROOT, "tests", "errors", "mpi.txt"), encoding="utf-8") as file:
        wanted = dict(re.findall(r"^== (.*)\n((?:(?!== ).*\n)*)", file.read(), re.M))
    assert text == wanted[name], done.stderr


CAUGHT = """
try: d.size()
except lm.errors.DeviceUnavailable as e: print(e)
"""


@pytest.mark.parametrize("damage, name", [(None, "mpirun without the plug-in"), (b"no library", "a plug-in that cannot be opened")])
def test_mpirun_without_the_plugin_is_an_error_and_not_many_worlds_of_one(damage, name, tmp_path):
    package = tmp_path / "lamina"
    shutil.copytree(os.path.dirname(PLUGIN), package, symlinks=False, ignore=shutil.ignore_patterns("liblamina_mpi.so", "__pycache__"))
    if damage:
        (package / "liblamina_mpi.so").write_bytes(damage)
    expect_error(name, run(CAUGHT, PYTHONPATH=str(tmp_path), OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2"), str(package))
    done = run("print(d.size())", PYTHONPATH=str(tmp_path), OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    assert done.stdout.endswith("1\n"), "one process is one rank"


@needs_mpi
def test_variables_that_mpi_contradicts_are_an_error():
    """As under the mpirun of another MPI, where each process would be a world of one rank."""
    expect_error("the mpirun of another MPI", run(CAUGHT, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))


@needs_mpi
def test_ranks_of_a_job_share_arrays_and_cut_batches(tmp_path):
    program = START + """
me, n = d.rank(), d.size()
assert n == 3
d.barrier("start")
x = np.full((2, 2), me + 1.0, np.float32)
assert np.array_equal(d.host_all_reduce(x, "x"), np.full((2, 2), 6)), "sum"
assert np.array_equal(d.host_all_gather(me), [0, 1, 2])
assert np.array_equal(d.host_broadcast(x, root=2), np.full((2, 2), 3))
data = lm.data.Dataset.from_tensor_slices((np.arange(21), np.arange(21.0))).shuffle(21, seed=4).batch(9)
mine = [(a.numpy(), b.numpy()) for a, b in d.shard(data)]
counts = d.host_all_gather([len(a) for a, _ in mine]).numpy()
assert counts.sum(0).tolist() == [9, 9, 3], counts
rows = np.concatenate([a for a, _ in mine])
seen = d.host_all_reduce(np.bincount(rows, minlength=21))
assert np.array_equal(seen, np.ones(21)), seen
few = [len(b) for b in d.shard([np.arange(2)])]
assert d.host_all_reduce(few).numpy().tolist() == [2]
try: d.host_all_reduce(np.zeros(3 + (me == 1), np.float32), "w")
except lm.errors.RankMismatch as e: say(f"rank {me}: {e}")
try: next(iter(d.shard([x], shards=2)))
except lm.errors.InvalidArgument as e: assert "more than 2 shards" in str(e)
say(f"rank {me} is done")
"""
    job = python_job(3, program, folder=tmp_path)
    assert job.code == 0, job.output
    assert all(f"rank {r} is done" in job.output for r in range(3)), job.output
    said = re.findall(r"rank \d: ranks disagree about collective \d+\n.*\n +why: +rank 1 is at all_reduce of f32\[4\] 'w' in 3 shards \((\S+):(\d+)\); ranks 0, 2 are at", job.output)
    assert len(said) == 3, job.output
    assert said[0][0].endswith("train.py") and "host_all_reduce(np.zeros(3" in program.splitlines()[int(said[0][1]) - 1]


ACTIONS = [("raise ValueError('a planted error')", r"rank 1 \(host \S+, pid \d+\) has failed: ValueError: a planted error"),
           ("os.kill(os.getpid(), 9)", r"rank 1 \(host \S+, pid \d+\) is dead"),
           ("raise SystemExit(3)", "rank 1 is at the end of its program"),
           ("os._exit(0)", r"rank 1 \(host \S+, pid \d+\) is dead"),
           ("os.kill(os.getpid(), 19)", r"rank 1 \(host \S+, pid \d+\) is lost: no heartbeat for 1(\.\d)? s; its process is stopped")]


@needs_mpi
@pytest.mark.parametrize("action, told", ACTIONS if LONG else ACTIONS[:2])  # test_mpi.py has the others in C++
def test_a_failing_rank_ends_the_job(action, told, tmp_path):
    program = START + f"""
for step in range(1000):
    d.set_step(step)
    d.host_all_reduce(np.ones(10), "grad/w")
    if step == 5 and d.rank() == 1:
        print(f"acts at {{time.time()}}", flush=True)
        {action}
"""
    job = python_job(3, program, folder=tmp_path, **FAST)
    assert job.code != 0 and re.search(told, job.output), job.output
    assert job.seconds_since_the_fault() < 5 * 3 and job.left_behind() == [], job.output
    assert len(re.findall("lamina: the job ends", job.output)) == 1, job.output
    assert re.search(r"'grad/w' in 3 shards \(\S*train\.py:\d+\)", job.output) and {0, 2} <= set(job.records), job.output


@needs_mpi
def test_sums_have_the_same_bits_for_every_number_of_ranks_over_many_steps(tmp_path):
    """Gradients of a small network, summed on the host by ranks that each compute their shards; the weights are one process's."""
    program = START + f"""
import hashlib
rng = np.random.default_rng(1)
x, y = rng.standard_normal((64, 5)).astype(np.float32), rng.standard_normal((64, 3)).astype(np.float32)
w = lm.Variable(rng.standard_normal((5, 3)).astype(np.float32))
@lm.function
def gradient(x, y):
    with lm.GradientTape() as tape: loss = lm.sum(lm.square(lm.tanh(x @ w) - y))
    return tape.gradient(loss, w)
for step in range({1000 if LONG else 50}):
    d.set_step(step)
    parts = [gradient(x[i:i + 8], y[i:i + 8]).numpy() for i in range(0, 64, 8)]  # eight shards, each computed alone
    first, end = lm._core.distributed.rows_of_rank(8, 8)
    w.assign_sub(d.host_all_reduce(np.stack(parts[first:end]), "grad/w", shards=8) * 0.01)
if d.rank() == 0: print("weights", hashlib.sha256(w.numpy().tobytes()).hexdigest())
"""
    weights = {ranks: re.search(r"weights (\w+)", python_job(ranks, program, folder=tmp_path).output)[1] for ranks in ((1, 2, 3, 4, 6, 8) if LONG else (1, 3))}
    assert len(set(weights.values())) == 1, weights


def launched(*words, **variables):
    return subprocess.run([sys.executable, "-m", "lamina", "launch", *words], capture_output=True, text=True, timeout=60, env=environment(**variables))


@needs_mpi
def test_launch_prints_the_command_and_runs_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(START + "import sys\nsay(d.rank(), d.size(), sys.argv[1:], os.environ['LAMINA_THREADS'])\n")
    done = launched("-n", "2", str(path), "--epochs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^lamina launch: mpirun -n 2 .*train\.py --epochs 3$", done.stdout, re.M), done.stdout
    assert all(f"{rank} 2 ['--epochs', '3'] 1" in done.stdout for rank in (0, 1)), done.stdout


@needs_mpi
def test_launch_restarts_a_failed_job(tmp_path):
    path, count = tmp_path / "train.py", tmp_path / "runs"
    path.write_text(f"""{START}
with open({str(count)!r}, "a") as f: f.write("x" if d.rank() == 0 else "")
d.barrier()
if len(open({str(count)!r}).read()) < 2: raise ValueError("not yet")
""")
    done = launched("-n", "2", "--restarts", "5", str(path), LAMINA_FLIGHT_RECORDS=str(tmp_path))
    assert done.returncode == 0 and count.read_text() == "xx", done.stdout + done.stderr
    assert "restart 1 of 5" in done.stdout and "restart 2" not in done.stdout
    done = launched("-n", "1", "--restarts", "1", "sh", "-c", "exit 3")
    assert done.returncode == 3 and done.stdout.count("lamina launch: mpirun") == 2, done.stdout


def test_launch_refuses_what_cannot_be_run():
    assert "there is no program" in launched("-n", "2").stderr
    none = launched("-n", "0", "train.py").stderr
    assert "-n 0" in none and "fix:" in none
    assert "itself a rank" in launched("-n", "2", "train.py", PMIX_RANK="0").stderr
    done = launched("-n", "2", "train.py", PATH="/nowhere")
    assert done.returncode == 1 and "there is no mpirun" in done.stderr


def test_launch_in_an_allocation_uses_srun():
    words, settings = _launch.command(4, ["train.py", "-v"], {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, 2, lambda name: "/usr/bin/" + name)
    assert words == ["srun", "--mpi=pmix", "--kill-on-bad-exit=1", "-n", "4", sys.executable, "train.py", "-v"] and settings == {}


def test_launch_uses_the_options_of_the_mpirun_that_is_there():
    words, settings = _launch.command(4, ["./a.out"], {}, 8, lambda name: "/usr/bin/" + name, lambda mpirun: "mpirun (Open MPI) 4.1.4")
    assert words[:5] == ["mpirun", "-n", "4", "--bind-to", "none"] and words[-1] == "./a.out" and settings == {"LAMINA_THREADS": "2"}
    assert "--oversubscribe" not in words and words[words.index("-x") + 1] == "LAMINA_THREADS"
    assert "--oversubscribe" in _launch.command(4, ["./a.out"], {}, 2, lambda name: "/usr/bin/" + name, lambda mpirun: "mpirun (Open MPI) 4.1.4")[0]
    words, settings = _launch.command(4, ["./a.out"], {}, 2, lambda name: "/usr/bin/" + name, lambda mpirun: "HYDRA build details: ...")
    assert words == ["mpirun", "-n", "4", "./a.out"] and settings == {"LAMINA_THREADS": "1"}
    assert _launch.command(2, ["./a.out"], {"LAMINA_THREADS": "3"}, 2, lambda name: "/usr/bin/" + name, lambda mpirun: "HYDRA")[1] == {}


def test_doctor_says_what_started_the_process_and_which_mpi_there_is():
    done = run("import sys, lamina.__main__ as m; sys.exit(m.main(['doctor']))", SLURM_JOB_ID="7")
    assert "Launch variables: none: one rank" in done.stdout and "srun --mpi=pmix" in done.stdout, done.stdout
    assert re.search(r"MPI: (missing: Lamina was built without MPI|\S+liblamina_mpi.so, built with )", done.stdout), done.stdout
    done = run("import sys, lamina.__main__ as m; sys.exit(m.main(['doctor']))", PMI_RANK="0")
    assert done.returncode == 0 and "PMI_RANK is set without PMI_SIZE" in done.stdout, done.stdout + done.stderr
