"""Jobs that save, are killed, stopped or started again with another number of ranks: what was saved is there, and the weights end with the bits of a job that
nothing has disturbed."""
import os
import random
import re
import signal
import subprocess
import sys

import pytest

import lamina as lm
from mpi_jobs import LONG, Job, environment, why_not

needs_mpi = pytest.mark.skipif(bool(why_not()), reason=why_not())
FAST = {"LAMINA_HEARTBEAT_TIMEOUT": "1", "PYTHONWARNINGS": "error"}

# train.py FOLDER STEPS [EVERY]: eight shards, each computed alone; Adam, shuffled data, draws.
TRAIN = """import hashlib, os, signal, sys, threading, time
os.write(1, b"pid %d\\n" % os.getpid())
import numpy as np, lamina as lm
from lamina import distributed as d

folder, steps, every = sys.argv[1], int(sys.argv[2]), int((*sys.argv, 1)[3])
lm.random.set_seed(1)
rng = np.random.default_rng(0)
x = rng.standard_normal((56, 4)).astype(np.float32)
net = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dense(1)])
net(x[:1])
adam = lm.optim.Adam(0.01)
adam.build(net.trainable_variables)
feed = d.shard(lm.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).shuffle(56, seed=2).batch(16))
run = lm.Checkpoint(folder, net, adam, feed, every=every)

@lm.function
def gradients(x, y):
    with lm.GradientTape() as tape:
        loss = lm.sum(lm.square(net(x) - y))
    return tape.gradient(loss, net.trainable_variables)

def train(x, y):
    rows = len(x) // (8 // d.size()) if d.size() in (1, 2, 4, 8) else 0
    parts = [gradients(x[i:i + rows], y[i:i + rows]) for i in range(0, len(x), rows)]
    sums = [d.host_all_reduce(np.stack(part), f"gradient {i}", shards=8) for i, part in enumerate(zip(*([v.numpy() for v in p] for p in parts)))]
    noise = lm.random.normal((1,)) * 0.001
    adam.apply_gradients(zip([s + noise for s in sums], net.trainable_variables))

def end(text=""):
    if d.rank() == 0:
        print(text, "weights", hashlib.sha256(b"".join(v.numpy().tobytes() for v in (*net.variables, *adam.variables))).hexdigest(), flush=True)
    d.barrier("end")

def at_step(step): pass
"""
LOOP = """
step = run.restore() or 0
if d.rank() == 0: print("from step", step, f"at {time.time():.3f}", flush=True)
while step < steps:
    for a, b in feed:
        step += 1
        d.set_step(step)
        train(a, b)
        at_step(step)
        run.save(step)
        if d.rank() == 0: print("saved", step, flush=True)
        if step == steps: break
end()
"""


def written(folder, program):
    path = os.path.join(folder, "train.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    return path


def weights(output):
    return re.search(r"weights (\w+)", output)[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights after a number of steps of one process."""
    folder, found = tmp_path_factory.mktemp("whole"), {}
    path = written(folder, TRAIN + LOOP)

    def after(steps):
        if steps not in found:
            done = subprocess.run([sys.executable, path, str(folder / str(steps)), str(steps)], capture_output=True, text=True, env=environment(PYTHONWARNINGS="error"))
            assert done.returncode == 0, done.stderr
            found[steps] = weights(done.stdout)
        return found[steps]
    return after


@needs_mpi
def test_any_number_of_ranks_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, undisturbed):
    path, start = written(tmp_path, TRAIN + LOOP), 0
    for ranks, steps in ((8, 5), (4, 10), (2, 15), (8, 22)):
        job = Job(ranks, sys.executable, path, str(tmp_path / "run"), str(steps), folder=tmp_path, **FAST)
        assert job.code == 0 and f"from step {start} " in job.output, job.output
        assert weights(job.output) == undisturbed(steps), f"{ranks} ranks, step {steps}"
        start = steps
    assert lm.Checkpoint(tmp_path / "run").steps() == [21, 22]
    assert b"rank" not in (tmp_path / "run" / "step-000000000022.safetensors").read_bytes()


# Where a rank is killed in the save of step 3. Rank 0 writes; the others wait for it.
PHASES = {
    "before": "def at_step(step): step == 3 and kill()",
    "comparing": "require = d._require_same\ndef compare(*a):\n  before_3() and kill()\n  require(*a)\nd._require_same = compare",
    "compared": "require = d._require_same\ndef compare(*a):\n  require(*a)\n  before_3() and kill()\nd._require_same = compare",
    "writing": "write = lm.saving.save_tensors\ndef save(*a):\n  if before_3(): later(0.0005)\n  write(*a)\nlm.saving.save_tensors = save",
    "written": "write = lm.saving.save_tensors\ndef save(*a):\n  write(*a)\n  before_3() and kill()\nlm.saving.save_tensors = save",
    "removing": "remove = run._remove\ndef removed(steps):\n  before_3() and kill()\n  remove(steps)\nrun._remove = removed",
    "removed": "remove = run._remove\ndef removed(steps):\n  remove(steps)\n  before_3() and kill()\nrun._remove = removed",
    "waiting": "tell = d._on_rank_0\ndef told(*a):\n  if d.rank() == guilty and before_3(): later(DELAY)\n  return tell(*a)\nd._on_rank_0 = told",
}
KILLS = """
guilty = {guilty}
at = 0
def kill():
    if d.rank() == guilty:
        print("acts at", time.time(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
def later(seconds):
    def wait():
        time.sleep(seconds)
        kill()
    threading.Thread(target=wait, daemon=True).start()
def before_3(): return at == 3
"""


@needs_mpi
@pytest.mark.parametrize("repeat", range(50 if LONG else 1))
@pytest.mark.parametrize("phase", PHASES if LONG else ["before", "writing", "written", "waiting"])
def test_a_rank_killed_in_a_save_leaves_a_complete_step(phase, repeat, tmp_path, undisturbed):
    on_rank_0 = phase in ("writing", "written", "removing", "removed")
    guilty = 0 if on_rank_0 else repeat % 3
    kills = KILLS.format(guilty=guilty) + PHASES[phase].replace("DELAY", str(random.Random(repeat).random() * 0.003))
    loop = LOOP.replace("        at_step(step)\n", "        at = step\n        at_step(step)\n").replace("if step == steps: break", "time.sleep(0.02)\n        if step == steps: break")
    path = written(tmp_path, TRAIN.replace("8 // d.size()) if d.size() in (1, 2, 4, 8) else 0", "8 // 4)") + kills + "\n" + loop)
    job = Job(4, sys.executable, path, str(tmp_path / "run"), "40", folder=tmp_path, **FAST)
    assert job.code != 0 and "acts at" in job.output and job.left_behind() == [], job.output
    last = max(map(int, re.findall(r"^saved (\d+)", job.output, re.M)))
    whole = written(tmp_path, TRAIN + "\nstep = run.restore()\nprint('from step', step)\nend()\n")
    done = subprocess.run([sys.executable, whole, str(tmp_path / "run"), "0"], capture_output=True, text=True, env=environment(PYTHONWARNINGS="error"))
    step = int(re.search(r"from step (\d+)", done.stdout)[1])
    assert step in (last, last + 1), job.output + done.stderr
    if phase in ("before", "comparing", "written", "removing", "removed") or phase == "compared" and guilty == 0:  # rank 0 alone writes what was compared
        assert step == (2 if phase in ("before", "comparing", "compared") else 3), job.output
    assert weights(done.stdout) == undisturbed(step)
    left = os.listdir(tmp_path / "run")
    run = lm.Checkpoint(tmp_path / "run", {"w": lm.Variable(1.0)})
    run.save(100)
    assert len(os.listdir(tmp_path / "run")) <= 2, left


def launch(ranks, *words, folder, restarts=0, **settings):
    command = [sys.executable, "-m", "lamina", "launch", "-n", str(ranks), *(["--restarts", str(restarts)] if restarts else []), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=folder, env=environment(**FAST, **settings))


@needs_mpi
def test_launch_starts_a_killed_job_again_and_it_ends_with_the_same_bits(tmp_path, undisturbed):
    """Faults at random steps of random ranks, one in each run."""
    faults = 100 if LONG else 3
    draws = random.Random(5)
    steps = 4 * faults + 8
    at = sorted(draws.sample(range(2, steps), faults))
    acts = f"""
faults = {[(step, draws.randrange(4), draws.choice(['kill', 'crash', 'raise', 'exit'])) for step in at]}
def at_step(step):
    done = len(os.listdir({str(tmp_path / 'faults')!r}))
    if done < len(faults) and faults[done][0] <= step and faults[done][1] == d.rank():
        with open(os.path.join({str(tmp_path / 'faults')!r}, str(done)), "w") as file: file.write(str(step))
        how = faults[done][2]
        if how == "raise": raise ValueError("planted")
        if how == "exit": os._exit(7)
        os.kill(os.getpid(), 9 if how == "kill" else 11)
"""
    os.mkdir(tmp_path / "faults")
    path = written(tmp_path, TRAIN + acts + LOOP)
    job = launch(4, path, str(tmp_path / "run"), str(steps), folder=tmp_path, restarts=faults)
    output = job.communicate(timeout=60 * 60 if LONG else 120)[0]
    assert job.returncode == 0 and output.count("lamina launch: the job has ended with") == faults, output
    assert weights(output) == undisturbed(steps)
    begun = [int(step) for step in re.findall(r"from step (\d+)", output)]
    failed = [int((tmp_path / "faults" / str(fault)).read_text()) for fault in range(faults)]  # what a killed rank prints may be lost
    assert begun == [0, *(step - 1 for step in failed)], "each fault loses the step in which it came alone"


@needs_mpi
def test_a_job_told_to_stop_saves_its_step_and_goes_on_when_it_is_started_again(tmp_path, undisturbed):
    """The launcher passes the signal on; `every` divides none of the steps."""
    path = written(tmp_path, TRAIN + "def at_step(step): time.sleep(0.05)\n" + LOOP)
    job = launch(2, path, str(tmp_path / "run"), "40", "1000", folder=tmp_path, restarts=3)
    output = ""
    for line in job.stdout:
        output += line
        if line.startswith("saved 4"):
            job.send_signal(signal.SIGTERM)
            break
    output += job.communicate(timeout=60)[0]
    found = re.search(r"lamina: SIGUSR1: step (\d+) is saved in '.*run'; the program ends with status 75", output)
    assert found and job.returncode == 75 and output.count("lamina launch: ") == 1, output
    stopped = int(found[1])
    assert lm.Checkpoint(tmp_path / "run").steps() == [stopped] and 4 < stopped < 40
    job = launch(4, path, str(tmp_path / "run"), "20", "1000", folder=tmp_path)
    output = job.communicate(timeout=60)[0]
    assert f"from step {stopped} " in output and weights(output) == undisturbed(20), output


@needs_mpi
def test_one_rank_told_to_stop_stops_all_and_the_launcher_starts_them_again(tmp_path, undisturbed):
    tells = "def at_step(step): step == 4 and d.rank() == 1 and os.kill(os.getpid(), signal.SIGTERM)\n"
    job = launch(2, written(tmp_path, TRAIN + tells + LOOP), str(tmp_path / "run"), "8", folder=tmp_path, restarts=2)
    output = job.communicate(timeout=60)[0]
    assert job.returncode == 0 and output.count("the job has ended with 75; restart") == 1, output
    assert "from step 4 " in output and weights(output) == undisturbed(8), output


def alone(tmp_path, program, *words, **settings):
    return subprocess.Popen([sys.executable, written(tmp_path, program), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(**settings))


def test_one_process_told_to_stop_saves_its_step_and_ends(tmp_path, undisturbed):
    process = alone(tmp_path, TRAIN + "def at_step(step): step == 5 and os.kill(os.getpid(), signal.SIGUSR1)\n" + LOOP, str(tmp_path / "run"), "8", "3")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 75 and "SIGUSR1: step 5 is saved" in output, output
    assert lm.Checkpoint(tmp_path / "run").steps() == [3, 5]


@pytest.mark.parametrize("before, status, said", [
    ("", -signal.SIGTERM, None),  # nothing was saved, so nobody would see the signal
    ("run.save(1)\n", 0, "after this step, with a checkpoint"),
    ("run.save(1)\ndel run\nimport gc; gc.collect()\n", -signal.SIGTERM, None),
    ("run.save(1)\nkill(); time.sleep(1.1)\n", -signal.SIGTERM, "a second SIGTERM ends it at once"),
    ("signal.signal(signal.SIGTERM, lambda *a: print('mine', flush=True))\nrun.save(1)\n", 0, "mine"),
    ("run.save(1)\nif os.fork() == 0: kill()\nelse: print('child', os.wait()[1], flush=True); os._exit(0)\n", 0, "child 15"),
])
def test_who_handles_sigterm(before, status, said, tmp_path):
    program = f"""
import os, signal, sys, time, lamina as lm
def kill(): os.kill(os.getpid(), signal.SIGTERM)
run = lm.Checkpoint({str(tmp_path / 'run')!r}, {{"w": lm.Variable(1.0)}})
{before}
kill()
print("goes on", flush=True)
"""
    process = alone(tmp_path, program)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == status and (said or "") in output and (status == 0 and "child" not in output) == ("goes on" in output), output


def test_fit_told_to_stop_resumes_to_the_same_bits(tmp_path):
    program = """
import hashlib, os, signal, sys, numpy as np, lamina as lm
lm.random.set_seed(3)
x, y = np.random.default_rng(1).normal(size=(40, 4)).astype("float32"), np.arange(40) % 3
net = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.Dropout(0.3), lm.nn.Dense(3)])
net.compile(lm.optim.Adam(0.01), lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
class Tell(lm.nn.Callback):
    def on_train_batch_end(self, batch, logs):
        if len(sys.argv) == 3 and batch == 2: os.kill(os.getpid(), signal.SIGTERM)
history = net.fit(x, y, batch_size=8, epochs=3, verbose=0, checkpoint=sys.argv[1], callbacks=[Tell()])
print("weights", hashlib.sha256(b"".join(v.numpy().tobytes() for v in (*net.variables, *net.optimizer.variables))).hexdigest(), history.history)
"""
    whole = alone(tmp_path, program, str(tmp_path / "whole")).communicate()[0]
    stopped = alone(tmp_path, program, str(tmp_path / "run"), "stop")
    output = stopped.communicate()[0]
    assert stopped.returncode == 75 and "SIGTERM: step 4 is saved" in output, output
    assert alone(tmp_path, program, str(tmp_path / "run")).communicate()[0] == whole


@needs_mpi
def test_every_rank_gets_the_same_of_damaged_newer_and_unfit_checkpoints(tmp_path):
    """A damaged file is left out with a warning, a newer one refused; errors of rank 0's files are every rank's."""
    run = lm.Checkpoint(tmp_path / "run", {"w": lm.Variable([1.0, 2.0])}, keep=5)
    for step in (1, 2):
        run.save(step)
    path = tmp_path / "run" / "step-000000000002.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    newer = lm.Checkpoint(tmp_path / "newer", {"w": lm.Variable([1.0, 2.0])})
    newer.save(1)
    tensors = lm.saving.load_tensors(newer._path(1))
    lm.saving.save_tensors(newer._path(1), tensors, {"lamina.checkpoint": '{"version": 2, "step": 1, "random": [0, 0], "data": null}'})
    (tmp_path / "file").write_text("")
    program = f"""import warnings
import numpy as np, lamina as lm
from lamina import distributed as d
me = d.rank()
def error_of(call):
    try: return call()
    except lm.errors.Error as error: return f"{{type(error).__name__}}: {{error.what}}; {{error.why}}"
def say(*what): print(*what, file=said)
said = open(f"{tmp_path}/said-{{me}}", "w")
w = lm.Variable([0.0, 0.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run = lm.Checkpoint("{tmp_path}/run", {{"w": w}})
    say(run.restore(), w.numpy().tolist(), len(caught), caught[0].message)
say(error_of(lm.Checkpoint("{tmp_path}/newer", {{"w": w}}).restore))
say(error_of(lm.Checkpoint("{tmp_path}/run", {{"v": w}}).restore))
say(error_of(lambda: lm.Checkpoint("{tmp_path}/file", {{"w": w}}).save(1)))
say(error_of(lambda: run.save(0)))
w.assign([1.0, float(me == 2)])
say(error_of(lambda: run.save(3)))
w.assign([1.0, 1.0])
say(error_of(lambda: run.save(3 + me)))
run.save(9)
say("steps", run.steps())
"""
    job = Job(3, sys.executable, written(tmp_path, program), folder=tmp_path)
    assert job.code == 0, job.output
    said = [(tmp_path / f"said-{rank}").read_text().splitlines() for rank in range(3)]
    assert said[0] == said[1] == said[2] and len(said[0]) == 8, job.output
    assert said[0][0].startswith("1 [1.0, 2.0] 1 the checkpoint of step 2 is left out: ")
    assert said[0][1] == "BadFile: Checkpoint: step 1 was saved by a newer Lamina; its format has version 2, this Lamina knows 1"
    assert said[0][2].startswith("NotFound: ") and said[0][3].startswith("BadFile: Checkpoint: the folder cannot be used")
    assert said[0][4].startswith("InvalidArgument: Checkpoint.save: ") and "has step 1 already" in said[0][4]
    assert said[0][5].startswith("RankMismatch: Checkpoint.save: 'model/w' differs between rank 0 and rank 2; ")
    assert said[0][6].startswith("RankMismatch: ranks disagree about collective ") and "checkpoint of step 4" in said[0][6]
    assert said[0][7] == "steps [1, 9]"  # the damaged step is gone
