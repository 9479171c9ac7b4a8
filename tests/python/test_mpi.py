"""Ranks as processes under the real mpirun: the conformance suite, and jobs in which a rank fails."""
import contextlib
import os
import re
import shutil
import subprocess

import pytest

from built import ROOT
from mpi_jobs import LONG, PROGRAM, Job, environment, python_job, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_mpi_passes_the_conformance_suite(ranks, tmp_path):
    job = Job(ranks, PROGRAM, "suite", folder=tmp_path)
    assert job.code == 0 and f"13 cases on {ranks} ranks" in job.output, job.output


def why_no_small_memory():
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=4m", "none", "/dev/shm"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if shutil.which("unshare") else None
    return "" if done and done.returncode == 0 else "this user may not mount a small /dev/shm"


@pytest.mark.skipif(bool(why_no_small_memory()), reason=why_no_small_memory())
def test_a_host_with_little_shared_memory_sends_messages(tmp_path):
    """As in a container. Open MPI gives one rank an error there, and lets the others wait for ever."""
    job = f"mount -t tmpfs -o size=4m none /dev/shm && exec mpirun -n 2 --oversubscribe --allow-run-as-root {PROGRAM} suite"
    done = subprocess.run(["unshare", "-m", "sh", "-c", job], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, timeout=100, env=environment())
    assert done.returncode == 0 and "13 cases on 2 ranks" in done.stdout, done.stdout


MPICH = PROGRAM.replace("lamina_mpi_tests", "lamina_mpich_tests")


def why_no_mpich():
    if not LONG:
        return "runs with --long"
    if not shutil.which("mpiexec.mpich"):
        return "there is no MPICH (Debian: mpich, libmpich-dev)"
    return "" if os.path.exists(MPICH) else "this build has no lamina_mpich_tests: MPICH's mpi.h was not found"


@pytest.mark.skipif(bool(why_no_mpich()), reason=why_no_mpich())
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_mpich_passes_the_conformance_suite(ranks, tmp_path):
    done = subprocess.run(["mpiexec.mpich", "-n", str(ranks), MPICH, "suite"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, timeout=300,
                          env=environment())
    assert done.returncode == 0 and f"13 cases on {ranks} ranks" in done.stdout, done.stdout


def test_an_allreduce_of_the_library_in_place_of_the_tree_is_found_at_three_ranks(tmp_path):
    said = {ranks: Job(ranks, PROGRAM, "planted", folder=tmp_path).output for ranks in (1, 3)}
    assert "the same bits" in said[1] and "other bits" in said[3], said


# In tests a rank is lost after 1 s, and a fault may take five times what is promised: 2 s if the rank is dead, 1 s + 2 s if it is silent.
FAST = {"LAMINA_HEARTBEAT_TIMEOUT": "1", "LAMINA_COLLECTIVE_TIMEOUT": "20"}
DEAD, SILENT = 5 * 2, 5 * 3


def faulty(folder, phase, action, rank, ranks=3, **settings):
    job = Job(ranks, PROGRAM, "fault", phase, action, str(rank), folder=folder, **(FAST | settings))
    assert job.code != 0, job.output
    assert job.left_behind() == [], job.output
    return job


def check_report(job, first_line, survivors):
    """One report, which all ranks that live have in their records."""
    assert len(re.findall("lamina: the job ends", job.output)) == 1, job.output
    assert re.search(first_line, job.output), job.output
    for rank in survivors:
        record = job.records[rank]
        assert re.search(first_line, record["why"]) and record["rank"] == rank
        assert [r["rank"] for r in record["ranks"]] == [0, 1, 2]
        assert record["why"] == job.records[survivors[0]]["why"]
        last = record["collectives"][-1]
        assert last["op"] == "all_reduce" and last["dtype"] == "f32" and last["count"] == 1000 and last["tensor"] == "grad/w"
        assert last["line"] == "train.py:9" and last["bytes"] == 4000 and last["sequence"] == len(record["collectives"])
    line = r"rank {} \(host \S+, pid \d+\): step \d+, last finished collective \d+, all_reduce of f32\[1000\] 'grad/w' in 3 shards \(train.py:9\)"
    for rank in survivors:
        assert re.search(line.format(rank), job.records[survivors[0]]["why"]), job.output


REPEATS = range(34 if LONG else 1)  # 200 deaths in all


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("action, phase, rank", [("kill", "collective", 0), ("kill", "steps", 1), ("crash", "steps", 2), ("leave", "steps", 1),
                                                 *([("crash", "collective", 1), ("leave", "collective", 0)] if LONG else [])])
def test_a_rank_that_dies_ends_the_job_with_one_report(action, phase, rank, repeat, tmp_path):
    job = faulty(tmp_path, phase, action, rank)
    assert job.seconds_since_the_fault() < DEAD
    check_report(job, rf"rank {rank} \(host \S+, pid \d+\) is dead: (its process is gone|signal \d+ \(.*\))", [r for r in range(3) if r != rank])


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("phase, rank", [("collective", 2), ("steps", 0)])
def test_a_stopped_rank_is_lost_and_ends_the_job_with_one_report(phase, rank, repeat, tmp_path):
    job = faulty(tmp_path, phase, "stop", rank)
    assert job.seconds_since_the_fault() < SILENT
    check_report(job, rf"rank {rank} \(host \S+, pid \d+\) is lost: no heartbeat for 1(\.\d)? s; its process is stopped", [r for r in range(3) if r != rank])


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_rank_that_fails_before_mpi_starts_ends_the_job(action, repeat, tmp_path):
    """Nobody can ask it yet: mpirun names a dead rank, and the others see that the process of a stopped one is stopped."""
    job = faulty(tmp_path, "init", action, 1)
    assert job.seconds_since_the_fault() < (DEAD if action == "kill" else SILENT)
    said = "has been aborted" if action == "kill" else r"Rank [02] \(host \S+, pid \d+\) waits for MPI to start, but rank 1 \(pid \d+\) is a stopped process"
    reports = re.findall("lamina: the job ends. Rank ([02])", job.output)  # of a stopped rank both others may say it
    assert re.search(said, job.output) and len(reports) == len(set(reports)) and bool(reports) == (action == "stop"), job.output


def test_a_rank_that_never_starts_mpi_ends_the_job_when_the_patience_is_over(tmp_path):
    job = faulty(tmp_path, "init", "stall", 1, LAMINA_COLLECTIVE_TIMEOUT="2")
    assert job.seconds_since_the_fault() < 5 * 4
    assert "has waited 2 s for MPI to start: another rank has not reached its start" in job.output, job.output


def test_an_exception_on_one_rank_ends_the_job_and_is_reported(tmp_path):
    job = faulty(tmp_path, "steps", "throw", 1)
    assert job.seconds_since_the_fault() < DEAD
    check_report(job, r"rank 1 \(host \S+, pid \d+\) has failed: a planted exception", [0, 1, 2])


def test_a_rank_that_ends_early_is_an_error_that_all_ranks_tell(tmp_path):
    job = faulty(tmp_path, "steps", "return", 1)
    assert job.seconds_since_the_fault() < DEAD
    both = "rank 1 is at the end of its program; ranks 0, 2 are at all_reduce of f32[1000] 'grad/w' in 3 shards (train.py:9)"
    assert all(re.search(rf"^rank {rank}: ranks disagree about collective 5\n.*\n.*{re.escape(both)}", job.output, re.M) for rank in (0, 2)), job.output
    assert len(re.findall("lamina: the job ends", job.output)) == 1, job.output


def test_a_rank_that_stalls_is_named_when_the_patience_is_over(tmp_path):
    job = faulty(tmp_path, "steps", "stall", 2, LAMINA_COLLECTIVE_WARNING="1", LAMINA_COLLECTIVE_TIMEOUT="2")
    assert job.seconds_since_the_fault() < 5 * 4
    assert re.search(r"lamina: rank [01] has waited 1 s in collective 5, all_reduce .*\nnot there: rank 2 \(host", job.output), job.output
    check_report(job, r"collective 5, all_reduce of f32\[1000\] 'grad/w' in 3 shards \(train.py:9\), has not ended after 2 s\n.*\n.*not there: rank 2 ", [0, 1])


LINK = os.path.join(ROOT, "tests", "mpi", "slow_link.c")
SUMS = """
import hashlib, time
import numpy as np
from lamina import distributed as d
me, n = d.rank(), d.size()
first = [0, 3, 6, 8][me]
leaves = np.random.default_rng(3).standard_normal((8, STEPS, 1500)).astype(np.float32)[first:[3, 6, 8][me]]
d.barrier()
start, sums = time.time(), hashlib.sha256()
for step in range(STEPS):
    d.set_step(step)
    sums.update(d.host_all_reduce(leaves[:, step], f"step {step}", shards=8).numpy().tobytes())
d.barrier()
print(f"sums {sums.hexdigest()} in {time.time() - start:.2f} s", flush=True)
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_a_slow_link_that_loses_packets_is_no_dead_rank_and_leaves_the_bits(tmp_path):
    """1 Mbit/s and one lost packet in twenty: a library in front of the system's calls delays what ranks send, because a test may not shape the machine's network."""
    library = tmp_path / "slow_link.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), LINK, "-ldl"], check=True)
    steps = 60 if LONG else 8
    tcp = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    quick, slow = (python_job(3, SUMS.replace("STEPS", str(steps)), folder=tmp_path, seconds=600, options=[*tcp, *more], LAMINA_HEARTBEAT_TIMEOUT="3")
                   for more in ((), ("-x", f"LD_PRELOAD={library}")))
    assert quick.code == slow.code == 0 and "lamina: " not in slow.output, slow.output
    said = [re.findall(r"sums (\w+) in ([\d.]+) s", job.output) for job in (quick, slow)]
    assert len(said[0]) == len(said[1]) == 3 and len({bits for bits, _ in said[0] + said[1]}) == 1, said
    # A rank sends at least a third of 6,000 bytes to two others and its slice of the sum to them: 8,000 bytes take 64 ms.
    assert min(float(seconds) for _, seconds in said[1]) > steps * 0.064, said


@pytest.mark.parametrize("repeat", range(20 if LONG else 2))
def test_no_control_message_is_on_its_way_when_mpi_ends(repeat, tmp_path):
    """With messages under way, MPI_Finalize of Open MPI ends the process in an error now and then. Here ranks send ten heartbeats a second, and receive them 300 ms late."""
    job = Job(3, PROGRAM, "end", folder=tmp_path, **FAST)
    counts = [(int(lost), int(all_of)) for lost, all_of in re.findall(r"(-?\d+) of (\d+) control messages are not received", job.output)]
    assert job.code == 0 and len(counts) == 3, job.output
    assert all(lost == 0 and all_of > 3 for lost, all_of in counts), job.output


@pytest.mark.parametrize("action, rank, said", [("kill", 1, "is dead: "), ("stop", 0, "is lost: no heartbeat for"), ("stop", 2, "is lost: no heartbeat for"),
                                                ("mute", 1, "is lost: it has not left within 5 s of the end of the job")])
def test_a_rank_that_is_lost_while_ranks_leave_ends_the_job(action, rank, said, tmp_path):
    job = faulty(tmp_path, "end", action, rank)
    assert job.seconds_since_the_fault() < DEAD + 5
    assert len(re.findall("lamina: the job ends", job.output)) == 1 and said in job.output, job.output


@contextlib.contextmanager
def memory_group():
    """A control group whose processes may have 96 MB of memory, or None where this user may not make one: yields its folder."""
    parents = {"/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "/sys/fs/cgroup": ("memory.max", "memory.swap.max")}
    for parent, limits in parents.items():
        folder = os.path.join(parent, f"lamina-test-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            if os.path.exists(os.path.join(folder, limits[0])):
                for name, limit in zip(limits, ("96M", "96M" if "memsw" in limits[1] else "0")):
                    if os.path.exists(os.path.join(folder, name)):
                        with open(os.path.join(folder, name), "w") as file:
                            file.write(limit)
                yield folder
                return
        finally:
            os.rmdir(folder)
    yield None


TAKES_MEMORY = """
import os, time
print("pid", os.getpid(), flush=True)
import numpy as np
from lamina import distributed as d
for step in range(100):
    d.set_step(step)
    if step == 5 and d.rank() == 1:
        with open("GROUP/cgroup.procs", "w") as group: group.write(str(os.getpid()))
        print("acts at", time.time(), flush=True)
        kept = [np.ones(1 << 20) for _ in range(100)]  # 800 MB
    d.host_all_reduce(np.ones(1000, np.float32), "grad/w")
"""


def test_a_rank_that_the_system_kills_for_its_memory_ends_the_job_with_one_report(tmp_path):
    with memory_group() as group:
        if not group:
            pytest.skip("this user may not make control groups for memory")
        job = python_job(3, TAKES_MEMORY.replace("GROUP", group), folder=tmp_path, **FAST)
        assert job.code != 0 and job.left_behind() == [], job.output
        assert job.seconds_since_the_fault() < DEAD
        assert len(re.findall("lamina: the job ends", job.output)) == 1, job.output
        assert re.search(r"rank 1 \(host \S+, pid \d+\) is dead: (its process is gone|signal 9 \(.*\))", job.output), job.output
        assert "exited on signal 9" in job.output and {0, 2} <= set(job.records), job.output


def test_a_rank_told_to_end_writes_its_record(tmp_path):
    job = faulty(tmp_path, "steps", "terminate", 1)
    assert set(job.records) == {0, 1, 2} and "SIGTERM" in job.records[1]["why"], job.output
    assert job.seconds_since_the_fault() < DEAD
