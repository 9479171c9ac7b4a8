"""The programs that perf/gpu/run.sh starts on a machine with a GPU, run here for the CPU: they must work there on the first try."""
import argparse, json, os, re, shutil, subprocess, sys, tarfile, time

import numpy as np
import pytest

import lamina as lm

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "perf", "gpu"))
import kernels, nets, times, tools  # noqa: E402


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def stub(path, text):
    """A program that replaces another."""
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def run_changed(folder, script, options, change):
    """The script of perf/gpu with Python statements run before it."""
    program = folder / "planted.py"
    program.write_text(f"import runpy, sys\nimport numpy as np\nsys.argv = {[script, '--device', 'cpu:0', *options]}\nsys.path.insert(0, 'perf/gpu')\n{change}\n"
                       f"runpy.run_path('perf/gpu/{script}', run_name='__main__')\n")
    return run(sys.executable, str(program))


def test_training_is_compared_step_by_step():
    status, said = run(sys.executable, "perf/gpu/check.py", "--device", "cpu:0", "--layers", "3", "--steps", "2")
    assert status == 0 and said.endswith("agree\n") and said.count("; ran section of ") == 6, said
    for name, device, cpu in re.findall(r"(losses are off|weights) by (\S+) \((?:the CPU's by )?([^)]*)\)|$", said)[:-1]:
        assert device == cpu, (name, said)


def test_epochs_are_compared_bit_by_bit(tmp_path):
    few = ["--layers", "2", "--batches", "3", "--times", "2"]
    status, said = run(sys.executable, "perf/gpu/epochs.py", "--device", "cpu:0", *few, "--json", str(tmp_path / "epochs.json"))
    assert status == 0 and "the bits are the same" in said, said
    assert json.loads((tmp_path / "epochs.json").read_text())["batches"] == 3
    status, said = run_changed(tmp_path, "epochs.py", few, "import lamina as lm\nseeds, seed = iter(range(9)), lm.random.set_seed\nlm.random.set_seed = lambda _: seed(next(seeds))")
    assert status == 1 and "DIFFERENT" in said, said


def test_logical_devices_are_compared_bit_by_bit(tmp_path):
    few = ["--device", "cpu", "--layers", "2", "--width", "8", "--batch", "4", "--steps", "2", "--times", "2"]
    status, said = run(sys.executable, "perf/gpu/parts.py", *few, "--json", str(tmp_path / "parts.json"))
    assert status == 0 and "the bits are the same" in said and said.count("us a step") == 3, said
    assert set(json.loads((tmp_path / "parts.json").read_text())["us a step"]) == {"one device", "two devices", "auto"}
    status, said = run_changed(tmp_path, "parts.py", few, "import lamina as lm\nrates, SGD = iter((0.001, 0.002, 0.001)), lm.optim.SGD\nlm.optim.SGD = lambda _: SGD(next(rates))")
    assert status == 1 and "the bits are DIFFERENT" in said, said


def test_products_of_every_precision_are_compared_with_double():
    status, said = run(sys.executable, "perf/gpu/products.py", "--device", "cpu:0")
    assert status == 0 and said.endswith("agree\n") and said.count("losses of training differ by 0.0e+00") == 4, said


def test_a_product_of_other_operands_fails(tmp_path):
    status, said = run_changed(tmp_path, "products.py", [], "import lamina as lm\nmatmul = lm.matmul\n"
                               "lm.matmul = lambda a, b, **flags: matmul(lm.astype(lm.astype(a, lm.bfloat16), lm.float32), b, **flags)")
    assert status == 1 and said.endswith("DIFFER\n"), said


def test_rows_name_the_planned_kernels():
    """On a card a section is named by its kernel."""
    w = lm.Variable(np.ones((64, 64), "float32"))
    step = lm.function(lambda x: lm.relu(x @ w) @ w)
    assert nets.kernels(step.explain(lm.ones([20, 64]), device="null:a100")) == {"section_kernel": 1}
    assert nets.in_words({"section_kernel": 1, "sort": 2}) == "section_kernel, 2 x sort"


# The third net that is trained is the device's; the second gradient is a bias'.
PLANTED = """import lamina as lm
gradient, traced = lm.GradientTape.gradient, []
def planted(self, cost, variables):
    traced.append(0)
    return [g * FACTOR if i == 1 and len(traced) == 3 else g for i, g in enumerate(gradient(self, cost, variables))]
lm.GradientTape.gradient = planted"""


@pytest.mark.parametrize("factor, wanted", [(1, "agree\n"), (1.01, "DIFFER\n")])
def test_a_bias_gradient_that_is_off_by_a_percent_fails(factor, wanted, tmp_path):
    status, said = run_changed(tmp_path, "check.py", ["--layers", "10", "--steps", "3", "--batches", "128", "--optimizers", "SGD"], PLANTED.replace("FACTOR", str(factor)))
    assert status == (factor != 1) and said.endswith(wanted), said


def test_another_rate_of_adam_fails(tmp_path):
    status, said = run_changed(tmp_path, "check.py", ["--layers", "2", "--steps", "1", "--batches", "3", "--optimizers", "Adam"],
                               "import lamina as lm\nrates, Adam = iter((1e-4, 1e-4, 1.01e-4)), lm.optim.Adam\nlm.optim.Adam = lambda _, **more: Adam(next(rates), **more)")
    assert status == 1 and said.endswith("DIFFER\n"), said


def test_times_are_written_row_by_row_and_not_measured_twice(tmp_path):
    out = str(tmp_path / "t.json")
    command = [sys.executable, "perf/gpu/times.py", "policy", "--device", "cpu:0", "--batches", "4", "--precisions", "float32", "--seconds", "0.02", "--programs", "lamina", "--out", out]
    status, said = run(*command)
    assert status == 0, said
    results = json.loads((tmp_path / "t.json").read_text())
    assert results["card"] == "cpu" and [row["form"] for row in results["rows"]] == ["call", "loop"]
    call, loop = results["rows"]
    assert "forward" not in loop and call["step"]["microseconds"] > call["forward"]["microseconds"] > 0 and loop["step"]["microseconds"] > 0
    assert [list(row["kernels"]) for row in (call, loop)] == [["step", "forward"], ["step"]]
    assert all(sum(kernels.values()) >= 1 for row in (call, loop) for kernels in row["kernels"].values()) and " us by section of " in said
    assert loop["losses"] == call["losses"] and call["losses"][0] > call["losses"][2] > loop["loop_loss"]
    status, said = run(*command)
    assert status == 0 and "policy, Lamina" not in said and "2 rows" in said, said
    results["rows"].pop()
    (tmp_path / "t.json").write_text(json.dumps(results))
    status, said = run(*command, "--limit", "1")
    assert status == 3 and "1 are missing: run it again" in said, said
    (tmp_path / "t.json").write_text(json.dumps({**results, "card": "another"}))
    status, said = run(*command)
    assert status != 0 and "has rows of another" in said, said


def test_every_program_form_precision_and_batch_is_asked_for():
    asked = {(program, form, p, n) for p in nets.PRECISIONS for n in nets.BATCHES for program in times.PROGRAMS for net in nets.NETS for form in nets.forms(program, net, p, True)}
    for size in (20, 128, 1024, 8192, 262144):
        for precision in ("float32", "tf32", "bf16"):
            for program, forms in {"lamina": ["call", "loop"], "jax": ["jit", "scan"], "torch": ["eager", "compile", "graph", "func", "func_compile", "func_graph"]}.items():
                assert all((program, form, precision, size) in asked for form in forms)
    assert {program for program, _, precision, _ in asked if precision == "3xtf32"} == {"lamina"}
    options = argparse.Namespace(net="hundred", device="gpu:0", batches="20,1024", precisions="float32,tf32", programs="lamina,torch")
    rows = times.missing_rows(options, {("hundred", "torch", "graph", "float32", 20), ("hundred", "torch", "eager", "tf32", 20), ("hundred", "torch", "eager", "tf32", 1024)})
    assert [(program, form, sizes) for program, form, sizes in rows if program == "torch" or form == "loop"] == [
        ("lamina", "loop", [["float32", 20], ["float32", 1024]]), ("torch", "eager", [["float32", 20], ["float32", 1024]]), ("torch", "graph", [["float32", 1024]]),
        ("lamina", "loop", [["tf32", 20], ["tf32", 1024]]), ("torch", "graph", [["tf32", 20], ["tf32", 1024]]),
        ("torch", "compile", [["float32", 20], ["float32", 1024]]), ("torch", "compile", [["tf32", 20], ["tf32", 1024]])]


WORKER = """
import json, os, sys, time
at = sys.argv.index("--rows") + 1
if os.path.exists("absent"): sys.exit("no such module")
print(json.dumps({"ready": "x"}), flush=True)
for precision, batch in json.loads(sys.argv[at]):
    if batch == 3: os.abort()
    if batch == 5: time.sleep(60)
    print(json.dumps({"precision": precision, "batch": batch, "step": 1}), flush=True)
"""


def test_a_row_that_ends_its_program_or_hangs_says_so_and_the_others_are_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, wanted = [], [["tf32", n] for n in (2, 3, 4, 5, 6)]
    command = [sys.executable, "-c", WORKER]
    assert times.measure(command, wanted, 2, time.monotonic() + 60, rows.append) == []
    assert [(row["batch"], row.get("not_run", "")[:24]) for row in rows] == [(2, ""), (3, "it ended with status -6 "), (4, ""), (5, "took longer than 2 s"), (6, "")]
    assert times.measure(command, wanted[3:], 60, time.monotonic() + 7, rows.append) == wanted[3:], "out of time is no fault of the row"
    (tmp_path / "absent").touch()
    rows.clear()
    assert times.measure(command, wanted, 60, time.monotonic() + 60, rows.append) == []
    assert len(rows) == 5 and all("no such module" in row["not_run"] for row in rows)


def test_rows_of_one_run_take_the_place_of_the_networks_older_ones(tmp_path):
    out, old = tmp_path / "gpu-x.json", {"program": "JAX 1", "form": "jit", "precision": "float32", "batch": 4, "losses": [0]}
    rows = [{**old, "net": "policy"}, {**old, "net": "conv"}]
    out.write_text(json.dumps({"card": "cpu", "date": "2000-01-01", "rows": rows}))
    status, said = run(sys.executable, "perf/gpu/times.py", "policy", "--device", "cpu:0", "--batches", "4", "--precisions", "float32", "--seconds", "0.01", "--programs", "lamina",
                       "--out", str(out), "--kept", str(tmp_path / "kept"))
    found = [(row["net"], row["program"].split()[0]) for row in json.loads(out.read_text())["rows"]]
    assert status == 0 and found == [("conv", "JAX"), ("policy", "Lamina"), ("policy", "Lamina")], said


@pytest.mark.parametrize("net", ["conv", "lstm", "ensemble"])
def test_every_network_is_trained(net):
    status, said = run(sys.executable, "perf/gpu/times_lamina.py", net, "call", "--device", "cpu:0", "--seconds", "0.01", "--rows", '[["float32", 2]]')
    row = json.loads(said.splitlines()[-1])
    assert status == 0 and "not_run" not in row and row["losses"][0] > row["losses"][2], said


PEERS = next((p for p in (os.environ.get("LAMINA_PEERS_PYTHON"), os.path.join(ROOT, ".venv-peers", "bin", "python")) if p and os.path.exists(p)), None)


@pytest.mark.skipif(not PEERS, reason="there is no .venv-peers with PyTorch and JAX; ./dev bench makes it, LAMINA_PEERS_PYTHON names another")
@pytest.mark.parametrize("net", ["policy", "conv", "lstm", "ensemble"])
def test_peers_train_the_same(net):
    """In every form that a CPU supports, but torch.compile only for the smallest network, because compiling takes a minute."""
    losses, ends = [], []
    for program in times.PROGRAMS:
        for form in nets.forms(program, net, "float32", on_gpu=False):
            if form.endswith("compile") and net != "policy":
                continue
            status, said = run(sys.executable if program == "lamina" else PEERS, f"perf/gpu/times_{program}.py", net, form, "--device", "cpu:0", "--seconds", "0.01", "--rows", '[["float32", 4]]')
            row = json.loads([line for line in said.splitlines() if line.startswith("{")][-1])
            assert status == 0 and "not_run" not in row and ("loop_loss" in row) == (form in ("loop", "scan")), said
            losses.append(row["losses"])
            ends += [row["loop_loss"]] if "loop_loss" in row else []
    assert len(losses) >= 5 and len(ends) == 2
    for other in losses[1:]:
        assert all(abs(a - b) < 1e-4 * abs(a) for a, b in zip(losses[0], other)), losses
    assert abs(ends[0] - ends[1]) < 1e-3 * abs(ends[0]), ends


def test_random_graphs_are_counted_and_a_failure_is_shown(tmp_path):
    # Replaces the test's program: it fails for one seed.
    program = tmp_path / "tests"
    program.write_text("#!/bin/sh\n[ $LAMINA_TEST_SEED = \"$BAD\" ] && { echo seed $LAMINA_TEST_SEED differs; exit 1; }\necho '[  PASSED  ] 1 test.'\n")
    program.chmod(0o755)
    command = [sys.executable, "perf/gpu/graphs.py", str(program), str(tmp_path / "done"), "--count", "95", "--at-once", "10"]
    status, said = run("env", "BAD=1000030", *command)
    assert status == 1 and "seed 1000030 differs" in said, said
    status, said = run(*command)
    assert status == 0 and "95 of 95 random graphs agree" in said and len(list((tmp_path / "done").iterdir())) == 10, said
    program.write_text("#!/bin/sh\necho '[  SKIPPED ] 1 test'\n")
    status, said = run(*command[:3], str(tmp_path / "others"))
    assert status == 1, said  # a skipped test has compared nothing


def test_each_op_has_a_process_and_one_that_crashes_or_hangs_hides_no_other(tmp_path):
    program = stub(tmp_path / "tests", """[[ $1 != --gtest_list_tests ]] || { printf 'Op_%s.\\n  AgreesWithItsReference\\n  ReadsBackFromItsText\\n' add bad conv2d slow transpose; exit; }
case $LAMINA_TEST_OP in $BAD) echo wrong element; kill -11 $$ ;; $SLOW) exec sleep 60 ;; transpose) echo 0 launches ;; *) echo 8 launches ;; esac
echo '[  PASSED  ] 1 test.'""")
    command = [sys.executable, "perf/gpu/kernels.py", str(program), "--each", "2"]
    status, said = run("env", "BAD=bad", "SLOW=slow", *command)
    assert status == 1 and "bad: exit status -11\nwrong element\n" in said and "slow: took longer than 2 seconds\n" in said, said
    assert said.endswith("3 of 5 ops agree in 16 launches\nnot well: bad, slow\nwithout a kernel of their own: transpose\n"), said
    status, said = run("env", "BAD=none", "SLOW=none", *command)
    assert status == 0 and "5 of 5 ops agree in 32 launches" in said, said
    status, said = run("env", "BAD=none", "SLOW=slow", *command, "--only", "conv2d*")
    assert status == 0 and said == "1 of 1 ops agree in 8 launches\n", said
    status, said = run("env", "BAD=none", "SLOW=slow", *command, "--limit", "1.5")
    assert status == 3 and "not tried: slow\n" in said, said
    stub(tmp_path / "tests", "echo '[  SKIPPED ] 1 test'; [[ $1 != --gtest_list_tests ]] || echo Op_add.")
    status, said = run(*command)
    assert status == 1 and "not well: add" in said, said


def test_the_filters_for_a_card_match_tests():
    """GoogleTest accepts a filter that matches nothing."""
    with open(os.path.join(ROOT, "perf/gpu/run.sh")) as f:
        assert "--gtest_filter=OnACard.*" in f.read()
    suite, test = kernels.TEST.split(".")
    for source, test in (("tests/cuda/on_a_card_test.cpp", f"TEST({suite}, {test})"), ("tests/graph/compile/random_test.cpp", "TEST(Programs, AgreeOnAGpuOnRandomGraphs)")):
        with open(os.path.join(ROOT, source)) as f:
            assert test in f.read()


def test_tools_must_find_exactly_the_planted_bugs(tmp_path):
    stub(tmp_path / "compute-sanitizer", 'case "$*" in *" none") exit 0 ;; *planted*) echo "$SAYS"; exit $FINDS ;; *) exit $OURS ;; esac')

    def tool(*words, **settings):
        return run("env", f"PATH={tmp_path}:{os.environ['PATH']}", *(f"{k}={v}" for k, v in settings.items()), sys.executable, "perf/gpu/tools.py", *words)

    for finds, ours, says, wanted in ((9, 0, "Race reported", 0), (0, 0, "Race reported", 1), (9, 9, "Race reported", 1), (9, 0, "Internal error", 1)):
        status, said = tool("sanitize", "racecheck", "planted", "true", FINDS=finds, OURS=ours, SAYS=says)
        assert status == wanted, said
    # Words between warps of a block, and how many of them count as races.
    inside, lines = min(tools.ordered_lines()), len(tools.ordered_lines())
    assert 6 <= lines <= 20
    race = "========= Error: Race reported between Write access at section_kernel(Arguments)+0x10 in /x/kernels/cuda/{0}\n=========     and Read access at section_kernel(Arguments)+0x90 in /x/kernels/cuda/{1} [3 hazards]\n=========\n"
    summary = "========= RACECHECK SUMMARY: {} hazards displayed ({} errors, 0 warnings)\n"
    ours = f"device_gpu.h:{inside + 1}"
    stub(tmp_path / "compute-sanitizer", 'case "$*" in *" none") exit 0 ;; *planted*) echo "Race reported"; exit 9 ;; *) printf "%s" "$OURS"; exit 9 ;; esac')
    for text, wanted in ((race.format(ours, ours) + summary.format(1, 1), 0), (2 * race.format(ours, ours) + summary.format(2, 2), 0), (race.format(ours, ours) + summary.format(2, 2), 1),
                         (race.format(ours, "section_kernel.h:87") + summary.format(1, 1), 1), (race.format(ours, "device_gpu.h:1") + summary.format(1, 1), 1),
                         (race.format(ours, ours) + race.format("section_kernel.h:84", "section_kernel.h:87") + summary.format(2, 2), 1), (race.format(ours, ours), 1), ("", 1)):
        status, said = tool("sanitize", "racecheck", "planted", "true", OURS=text)
        assert status == wanted, said
    stub(tmp_path / "ncu", 'echo "steps profiled: 2"; echo "==PROF== Disconnected"; echo \'"ID","Kernel Name","Block Size"\'; echo \'"","","block"\'\nfor i in $SEEN; do echo "\\"0\\",\\"$i(Table, int)\\",\\"(1, 1, 1)\\""; done')
    for seen, wanted in (("section_kernel section_kernel", 0), ("section_kernel", 1), ("section_kernel section_kernel fill", 1), ("section_kernel kernel_7", 1), ("", 1)):
        status, said = tool("profile", "kernel", "20", "true", SEEN=seen)
        assert status == wanted, said
    stub(tmp_path / "ncu", "exec sleep 30")
    status, said = tool("profile", "application", "1", "true")
    assert status == 1 and "has not ended in 1 seconds" in said


def test_what_a_profiler_sees_are_steps_of_training():
    status, said = run(sys.executable, "perf/gpu/check.py", "--device", "cpu:0", "--layers", "3", "--batches", "3", "--profile", "2")
    assert status == 0 and said == f"{tools.PROFILED}2\n", said


def test_every_stage_can_be_tried_without_a_gpu(tmp_path):
    status, said = run("perf/gpu/run.sh", "--dry-run", "build", "check", "sanitize", "time", "hundred", "pack")
    words = {"lamina doctor --needs gpu cuBLASLt cuDNN": 4, "cmake -S": 1, "latencies.cu": 1, "planted.cu": 1, "check.py": 7, "products.py": 1, "epochs.py": 1, "parts.py": 1, "lamina_wire": 2, "/instructions": 3, "kernels.py": 2, "OnACard": 3, "NcclOnACard": 1, "graphs.py": 1, "tools.py sanitize": 4, "tools.py profile": 2,
             "times.py hundred": 1, "gathering": 1}
    assert status == 0 and {word: said.count(word) for word in words} == words, said
    assert said.index("latencies ") < said.index("check.py"), "microbenchmarks come first"
    status, said = run("env", "LAMINA_GPU_ARCHITECTURE=80", "perf/gpu/run.sh", "--dry-run", "build")
    assert status == 0 and "-arch=sm_80" in said and "doctor" not in said, "for a card of another machine"
    for words, why in ((["polish"], "there is no stage polish"), (["check"], "fix: perf/gpu/run.sh build"), (["time"], "time needs a word more"), (["--limit", "soon"], "--limit needs seconds"), ([], "no stage is named")):
        status, said = run("env", f"LAMINA_GPU_BUILD={tmp_path}", "perf/gpu/run.sh", *words)
        assert status == 1 and why in said


def test_a_stage_continues_after_failures_and_does_not_repeat_successes(tmp_path):
    build = tmp_path / "build"
    (build / "python" / "lamina").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    log = tmp_path / "log"
    stub(tmp_path / "nvidia-smi", "echo A Card 80GB")
    found = tmp_path / "nvidia" / "lib"
    doctor = f"echo '  cuDNN 9.13.0: found {found}/libcudnn.so.9'; exit $DOCTOR"
    stub(tmp_path / "python", f'[[ $1 != -m ]] || {{ echo doctor >>{log}; {doctor}; }}; echo "$1" | sed "s|.*/||" >>{log}; case "$*" in *$BAD*) exit 1 ;; *$SLOW*) exec sleep 60 ;; *$LEFT*) exit 3 ;; esac')
    stub(build / "latencies", f"echo latencies >>{log}; echo '{{}}'")
    for name in ("instructions", "lamina_tests", "lamina_wire"):
        stub(build / name, f"echo {name} >>{log}; echo looks in $LAMINA_CUDA_LIBRARIES")

    def check(*words, bad="nothing", slow="nothing", left="nothing", doctor=0, then=()):
        log.write_text("")
        status, said = run("env", f"PATH={tmp_path}:{os.environ['PATH']}", f"LAMINA_GPU_BUILD={build}", f"LAMINA_GPU_RESULTS={tmp_path / 'results'}", f"PYTHON={tmp_path / 'python'}",
                           f"BAD={bad}", f"SLOW={slow}", f"LEFT={left}", f"DOCTOR={doctor}", "perf/gpu/run.sh", *words, "check", *then)
        first, *ran = log.read_text().split()
        assert first == "doctor", "doctor comes first"
        return status, said, ran

    def archived():
        with tarfile.open(build / "results.tar.gz") as archive:
            return {name for name in archive.getnames() if "." in os.path.basename(name) or os.path.dirname(name) == "done"}

    status, said, ran = check(doctor=1)
    assert status == 1 and ran == [] and "doctor has found that something is missing" in said, said
    status, said, ran = check(bad="products")
    assert status == 1 and "failed: products" in said and ran == ["latencies", "instructions", "kernels.py", "kernels.py", "lamina_tests", "check.py", "epochs.py", "parts.py", "lamina_wire", "lamina_tests", "products.py", "graphs.py"], said
    assert said.count(f"looks in {found}\n") == 4, "the C++ programs look where Python has found the libraries"
    assert {"logs/products.log", "done/graphs", "latencies.json"} < archived() and "done/products" not in archived(), "also when something has failed"
    assert (tmp_path / "results" / "latencies-a-card-80gb.json").read_text() == "{}\n"
    status, said, ran = check("--limit", "8", slow="products")
    assert status == 3 and ran == ["products.py"] and "start it again" in said, said
    status, said, ran = check()
    assert status == 0 and ran == ["products.py"] and "done/products" in archived(), said
    status, said, ran = check()
    assert status == 0 and ran == [], said
    (build / "done" / "graphs").unlink()
    status, said, ran = check(left="graphs")
    assert status == 3 and ran == ["graphs.py"], said
    status, said, ran = check(left="times", then=("time", "hundred", "time", "policy"))
    assert status == 3 and ran == ["graphs.py", "doctor", "times.py", "doctor", "times.py"], said
    stub(build / "latencies", "echo '{}'; exit 5")
    (build / "done" / "latencies").unlink()
    status, said, ran = check()
    assert status == 1 and "failed: latencies" in said, said


def test_missing_headers_and_libraries_are_packed(tmp_path):
    if not os.path.exists("/usr/include/gtest"):
        pytest.skip("there is no /usr/include/gtest to pack")
    status, said = run("env", f"LAMINA_GPU_BUILD={tmp_path}", "perf/gpu/run.sh", "pack")
    assert status == 0, said
    files = [f for f in (tmp_path / "packed").rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) < 24 << 20
    names = {str(f.relative_to(tmp_path / "packed")) for f in files}
    assert {"include/nlohmann/json.hpp", "include/kissfft/kissfft.hh", "include/zlib.h", "include/gtest/gtest.h"} < names
    assert any(name.endswith("libgtest.a") for name in names) and any(name.endswith("GTestConfig.cmake") for name in names)
    # The library that is built with it is a shared one.
    (tmp_path / "z.cpp").write_text("#include <zlib.h>\nconst char* version(z_stream* s) { inflateInit(s); return zlibVersion(); }\n")
    packed = tmp_path / "packed"
    status, said = run("c++", "-shared", "-fPIC", "-Wl,--no-undefined", f"-I{packed}/include", "-o", str(tmp_path / "z.so"), str(tmp_path / "z.cpp"), *map(str, packed.rglob("libz.*")))
    assert status == 0, said


@pytest.mark.skipif(not shutil.which("nvcc") and not os.path.exists("/usr/local/cuda/bin/nvcc"), reason="there is no nvcc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_programs_for_the_card_compile(architecture, tmp_path):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    for source in ("latencies", "planted", "instructions"):
        status, said = run(nvcc, "-O1", f"-std=c++{20 if source == 'instructions' else 17}", "--expt-relaxed-constexpr", "-I.", f"-arch={architecture}", "-cubin", "-o", str(tmp_path / "out.cubin"), f"perf/gpu/{source}.cu")
        assert status == 0 and "warning" not in said, said


def test_results_of_a_card_are_plotted_by_bench(tmp_path):
    pytest.importorskip("matplotlib")
    row = {"net": "policy", "step": {"microseconds": 5.0}}
    rows = [{**row, "program": program, "form": form, "precision": precision, "batch": batch}
            for program, form in (("Lamina 1", "call"), ("JAX 1", "scan")) for precision in ("float32", "tf32") for batch in (20, 128)]
    rows[0]["forward"] = {"microseconds": 2.0}
    (tmp_path / "gpu-card.json").write_text(json.dumps({"card": "a card", "date": "2000-01-01", "rows": [*rows, {"net": "conv", "program": "lamina", "precision": "tf32", "not_run": "no memory"}]}))
    program = tmp_path / "bench.py"  # ./dev bench, except for the measurements
    program.write_text(f"import sys\nsys.path.insert(0, 'perf')\nimport bench\nbench.RESULTS = {str(tmp_path)!r}\nbench.measure_network = lambda *a: []\n"
                       "bench.figures = lambda run: {}\nbench.table = lambda run: ''\nsys.argv = ['bench.py']\nbench.main()\n")
    status, said = run(sys.executable, str(program))
    assert status == 0 and f"plots of cards: {tmp_path}/gpu-card-policy.svg\n" in said, said
    drawn = (tmp_path / "gpu-card-policy.svg").read_text()
    for text in ("policy: a card, 2000-01-01", "Lamina 1 call", "JAX 1 scan", "float32: microseconds a step over the batch", "tf32: microseconds a step"):
        assert f"<!-- {text}" in drawn
    assert not (tmp_path / "gpu-card-conv.svg").exists()
