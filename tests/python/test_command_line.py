"""python -m lamina: info, explain, profile, bench, doctor, convert: texts, JSON, exit status, help."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import lamina as lm

COMMANDS = re.search(r"\{([a-z,]+)\}", subprocess.run([sys.executable, "-m", "lamina", "--help"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout)[1].split(",")


def lamina(*words, folder=None):
    return subprocess.run([sys.executable, "-m", "lamina", *map(str, words)], capture_output=True, text=True, cwd=folder, timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def data(done, status=0):
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "policy"
    net = lm.nn.Sequential([lm.nn.Dense(8, activation="relu", name="first"), lm.nn.Dense(3, name="second")], name="net")
    net(lm.ones([4, 5]))

    class Program(lm.Module):
        def __init__(self):
            self.net, self.calls = net, lm.Variable(0, name="calls", trainable=False)

        @lm.function(input_signature=[lm.TensorSpec([None, 5])])
        def score(self, x):
            self.calls.assign_add(1)
            return self.net(x)

        @lm.function(input_signature=[lm.TensorSpec(["n"], lm.int32), lm.TensorSpec(["n"], lm.bool)])
        def count(self, x, mask):
            return lm.sum(lm.where(mask, x, 0))

    lm.save(Program(), str(folder))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_exit_codes(command):
    assert {"doctor", "info", "explain", "profile", "bench", "convert", "launch", "plan"} == set(COMMANDS)
    done = lamina(command, "--help")
    assert done.returncode == 0 and not done.stderr
    assert f"example: python -m lamina {command}" in done.stdout and "exit status: 0 done, 1 failed" in done.stdout
    assert "--json" in done.stdout
    wrong = lamina(command, "--no-such-option")
    assert wrong.returncode == 2 and "usage:" in wrong.stderr and not wrong.stdout


def test_info_says_the_same_as_text_and_as_json(policy):
    told = data(lamina("info", policy, "--json"))
    assert set(told["functions"]) >= {"score", "count"} and set(told["signatures"].values()) <= set(told["functions"])
    (score,), (count,) = told["functions"]["score"], told["functions"]["count"]
    assert score["inputs"] == [{"name": "x", "shape": [None, 5], "dtype": "float32"}] and score["outputs"][0]["shape"] == [None, 3]
    assert [one["dtype"] for one in count["inputs"]] == ["int32", "bool"]
    assert sorted(v["shape"] for v in told["variables"].values()) == [[], [3], [5, 8], [8], [8, 3]]
    assert told["files"] == {name: os.path.getsize(policy / name) for name in os.listdir(policy)}
    text = lamina("info", policy).stdout
    assert all(name in text for name in (*told["variables"], *told["files"], "score", "count"))
    for command in ("info", "explain", "bench"):
        wrong = lamina(command, policy / "nothing")
        assert wrong.returncode == 1 and "nothing" in wrong.stderr and not wrong.stdout and "Traceback" not in wrong.stderr


def test_explain_shows_a_saved_functions_plan(policy, tmp_path):
    told = data(lamina("explain", policy, "--signature", "score", "--batch", 7, "--json"))
    assert told["runs"] == 1 and not told["planned_only"] and told["launches"][0]["section_steps"] >= 2 and "[7,5]x[5,8]" in " ".join(told["launches"][0]["details"])
    told = data(lamina("explain", policy, "--signature", "score", "--device", "null:h100", "--json"))
    assert told["planned_only"] and {launch["device"] for launch in told["launches"]} == {"null:h100"} and told["function"] == "score"
    done = lamina("explain", policy, "--signature", "score", "--save", tmp_path / "x.html")
    assert done.stdout == f"wrote {tmp_path / 'x.html'}\n" and (tmp_path / "x.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "graph after the passes" in lamina("explain", policy, "--signature", "count", "--batch", 3).stdout
    for words, said in ((("--signature", "nothing"), "it has"), ((), "name one of them with --signature"), (("--signature", "score", "--batch", 0), "--batch"),
                        (("--signature", "score", "--device", "null:h900"), "h900"), (("--signature", "score", "--save", "x.pdf"), "html")):
        wrong = lamina("explain", policy, *words)
        assert wrong.returncode == (2 if said == "--batch" else 1) and said in wrong.stderr and "Traceback" not in wrong.stderr, words


def test_bench_times_calls(policy):
    told = data(lamina("bench", policy, "--signature", "score", "--batch", 20, "--seconds", 0.05, "--json"))
    assert told["function"] == "score" and told["batch"] == 20 and told["calls"] >= 1 and told["device"] == "cpu:0"
    assert 0 < told["least_us"] <= told["median_us"] <= told["p99_us"] and told["first_us"] > 0
    assert re.match(r"count on cpu:0, .*batch 1: \d+ calls\nleast ", lamina("bench", policy, "--signature", "count", "--seconds", 0.05).stdout)
    assert lamina("bench", policy, "--signature", "score", "--seconds", -1).returncode == 2


PROGRAM = """
import sys
import time
import lamina as lm
import helper
print("arguments", sys.argv[1:], __name__)
with lm.profiler.range(helper.NAME):
    lm.matmul(lm.ones([3, 3]), lm.ones([3, 3]))
{end}
"""


@pytest.mark.parametrize("end, status", [("", 0), ("sys.exit(7)", 7), ("sys.exit('no way')", 1), ("raise ValueError('own mistake')", 1), ("lm.ones([2]) + lm.ones([3])", 1)])
def test_profile_runs_a_program_and_writes_its_trace(tmp_path, end, status):
    (tmp_path / "helper.py").write_text("NAME = 'my part'\n")
    (tmp_path / "train.py").write_text(PROGRAM.format(end=end))
    done = lamina("profile", "--dir", "here", "--json", "train.py", "--epochs", "3", folder=tmp_path)
    assert done.returncode == status, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert first == "arguments ['--epochs', '3'] __main__"
    told = json.loads(rest)
    assert told["status"] == status and {"my part"} == {one["text"] for one in told["ranges"] if one["kind"] == "user"}
    (name,) = os.listdir(tmp_path / "here")
    assert told["trace"] == os.path.join("here", name) and any("matmul" in e["name"] for e in json.loads((tmp_path / "here" / name).read_text())["traceEvents"])
    assert ("train.py" in done.stderr and "Traceback" in done.stderr) == (end.startswith("raise") or end.startswith("lm"))
    if status == 0:
        assert "my part" in lamina("profile", "train.py", folder=tmp_path).stdout and os.listdir(tmp_path / "traces")
        wrong = lamina("profile", "other.py", folder=tmp_path)
        assert wrong.returncode == 1 and "other.py" in wrong.stderr and not wrong.stdout


def test_a_program_under_profile_may_record_parts_of_itself(tmp_path):
    (tmp_path / "train.py").write_text("""
import lamina as lm
def part(name):
    with lm.profiler.range(name):
        lm.ones(2) + 1
part("before")
with lm.profiler.record() as record:
    part("inside")
    try:
        lm.profiler.record().__enter__()
    except lm.errors.StateError:
        print("one at a time")
part("between")
with lm.profiler.trace("own") as trace:
    part("traced")
part("after")
print([[one.text for one in r.ranges if one.kind == "user"] for r in (record, trace)])
""")
    done = lamina("profile", "--json", "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, own, rest = done.stdout.split("\n", 2)
    told = json.loads(rest)
    assert first == "one at a time" and own == "[['inside'], ['traced']]" and len(os.listdir(tmp_path / "own")) == 1
    assert [one["text"] for one in told["ranges"] if one["kind"] == "user"] == ["before", "inside", "between", "traced", "after"]
    events = [e for e in json.loads((tmp_path / told["trace"]).read_text())["traceEvents"] if e.get("cat") == "user"]
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(events, events[1:])), events
    assert next(one for one in told["ranges"] if one["text"] == "add")["times"] == 5


def test_doctor_and_convert_say_the_same_as_json(policy, tmp_path):
    told = data(lamina("doctor", "--json"))
    assert told["lamina"] == lm.__version__ and told["cpu"]["isa"] == lm.config.cpu_isa() and told["cpu"]["features"] == lm.config.cpu_features() and told["missing"] == []
    assert told["gpu"]["devices"] or told["gpu"]["why_none"]
    assert data(lamina("doctor", "--json", "--needs", "nonsense"), status=1)["missing"] == ["nonsense"]
    pytest.importorskip("onnx", reason="onnx is not installed; convert writes its files with it")
    told = data(lamina("convert", policy, tmp_path / "p.onnx", "--signature", "count", "--json"))
    assert told["bytes"] == os.path.getsize(tmp_path / "p.onnx")
    told = data(lamina("convert", tmp_path / "p.onnx", tmp_path / "back", "--json"))
    assert told["bytes"] == sum(os.path.getsize(tmp_path / "back" / name) for name in os.listdir(tmp_path / "back"))


def started(*words, folder):
    return subprocess.Popen([sys.executable, "-m", "lamina", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"})


def test_wrong_words_are_told_what_there_is(tmp_path):
    assert lamina("--version").stdout == f"lamina {lm.__version__}\n"
    for words, said in ((["exlain", "policy"], "did you mean 'explain'?"), (["serve"], "there are: doctor, info,"), ([], "usage:"), (["bench", "x", "--batch", "many"], "--batch"), (["launch", "train.py"], "-n"),
                        (["launch", "-n", "0", "train.py"], "at least one rank"), (["launch", "-n", "2"], "train.py"), (["profile"], "train.py"), (["plan", "--devices", "many", "nothing.py"], "8xH100")):
        done = lamina(*words, folder=tmp_path)
        assert done.returncode == 2 and said in done.stderr and not done.stdout and "Traceback" not in done.stderr, words
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.onnx").write_text("no network")
    (tmp_path / "text.keras").write_text("no network")
    for words, said in ((["info", "nothing"], "nothing"), (["info", "empty"], "empty"), (["info", "text.onnx"], "convert"), (["explain", "text.onnx"], "text.onnx"), (["bench", "empty"], "empty"),
                        (["convert", "nothing.onnx", "out"], "nothing.onnx"), (["convert", "text.onnx", "out"], "text.onnx"), (["convert", "text.keras", "out"], "text.keras"), (["convert", "nothing", "out.onnx"], "nothing"),
                        (["profile", "nothing.py"], "nothing.py"), (["profile", "empty"], "empty"), (["launch", "-n", "2", "nothing.py"], "nothing.py"),
                        (["launch", "-n", "2", "no_such_program"], "no_such_program"), (["plan", "--devices", "8xH900", "nothing.py"], "h900"),
                        (["plan", "--devices", "8xH100", "nothing.py"], "nothing.py")):
        done = lamina(*words, folder=tmp_path)
        assert done.returncode == 1 and said in done.stderr and not done.stdout and "Traceback" not in done.stderr and re.search(r"^  (why|fix): ", done.stderr, re.M), (words, done)
    assert sorted(os.listdir(tmp_path)) == ["empty", "text.keras", "text.onnx"]


def test_a_reader_that_goes_away_is_no_error(policy):
    for words in (("explain", policy, "--signature", "score"), ("info", policy, "--json"), ("doctor",)):
        with started(*words, folder=policy) as process:
            process.stdout.close()
            assert process.stderr.read() == "" and process.wait(60) in (0, 141), words


def test_ctrl_c_stops_a_command_and_keeps_the_trace(policy, tmp_path):
    (tmp_path / "train.py").write_text("import time, lamina as lm\nlm.matmul(lm.ones([3, 3]), lm.ones([3, 3]))\nprint('begun', flush=True)\ntime.sleep(300)\n")
    with started("profile", "--dir", "here", "train.py", folder=tmp_path) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
        assert process.wait(60) == 130 and "train.py was stopped" in error and "Traceback" not in error
    (name,) = os.listdir(tmp_path / "here")
    assert any("matmul" in e["name"] for e in json.loads((tmp_path / "here" / name).read_text())["traceEvents"])
    with started("bench", policy, "--signature", "score", "--seconds", "300", folder=tmp_path) as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "lamina: stopped\n" and process.wait(60) == 130


def test_a_saved_model_needs_no_signature(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(3)], name="net")
    net.compile("adam", "mse")
    net.fit(lm.ones((8, 5)), lm.ones((8, 3)), epochs=1, verbose=0)
    lm.save(net, str(tmp_path / "net"))
    told = data(lamina("info", "net", "--json", folder=tmp_path))
    assert {"call", "train_step"} <= set(told["signatures"])
    assert data(lamina("bench", "net", "--seconds", 0.05, "--json", folder=tmp_path))["function"] == "call"
    assert data(lamina("explain", "net", "--json", folder=tmp_path))["function"] == "call"
    pytest.importorskip("onnx", reason="onnx is not installed; convert writes its files with it")
    assert data(lamina("convert", "net", "net.onnx", "--json", folder=tmp_path))["bytes"] > 0


def test_launch_says_as_json_what_ran(tmp_path):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    (tmp_path / "train.py").write_text("import os, sys\nos.write(1, f\"rank {os.environ['OMPI_COMM_WORLD_RANK']}\\n\".encode())\nsys.exit(int(sys.argv[1]))\n")
    for status, runs in ((0, 1), (3, 2)):
        done = lamina("launch", "-n", 2, "--restarts", 1, "--json", "train.py", status, folder=tmp_path)
        assert done.returncode == status, done
        *printed, last = done.stdout.splitlines()
        told = json.loads(last)
        assert (told["ranks"], told["status"], told["runs"]) == (2, status, runs) and told["command"][-2:] == ["train.py", str(status)] and told["seconds"] > 0
        assert "lamina launch:" not in done.stdout and done.stderr.count("lamina launch: ") == 2 * runs - 1 and (status or sorted(printed) == ["rank 0", "rank 1"])


def test_output_that_cannot_be_written_is_an_error(policy):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "lamina", "info", str(policy)], stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 1 and done.stderr == "lamina: the output cannot be written: No space left on device\n"
