"""Runs the C++ and Python tests and counts passes: called by ./dev test after building.

The C++ program is started once per core with GoogleTest's sharding, and pytest shares the files of Python tests among as many processes.
Failures are printed in full, passes are counted. The last line is "N passed, N failed, N skipped".
"""
import argparse, base64, datetime, os, platform, re, subprocess, sys, tempfile, time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUZZ_TARGETS = ("tensors", "graphs", "programs")
END = re.compile(r"^(.*?)\[( +OK |  FAILED  |  SKIPPED )\] (\S+?),? .*\(\d+ ms\)$")


def read_gtest(text, exit_status):
    """Counts of one run's output and the text of its failures; a test that never ended has failed."""
    passed, failures, skipped, running, part = 0, [], [], None, []
    for line in text.splitlines():
        if line.startswith("[ RUN      ] "):
            running, part = line[13:].strip(), []
            continue
        end = END.match(line)
        if not (running and end):
            part.append(line)
            continue
        part.append(end[1])
        text_of_test = "\n".join(p for p in part if p)
        if "FAILED" in end[2]:
            failures.append(f"{running}\n{text_of_test}")
        elif "SKIPPED" in end[2]:
            skipped.append(f"{running}: {text_of_test.splitlines()[-1].strip() if text_of_test else 'no reason given'}")
        else:
            passed += 1
        running, part = None, []
    if running:
        failures.append(f"{running} never ended ({exit_status})\n" + "\n".join(part[-60:]))
    elif exit_status != 0 and not failures:
        failures.append(f"exit status {exit_status}\n" + "\n".join(part[-60:]))
    return passed, failures, skipped


def run_cpp(program, words, shards, timeout):
    if not os.path.exists(program):
        return 0, [f"{program} was not built: GoogleTest or every test is missing"], []
    command = [program, "--gtest_color=no"]
    if words:
        command.append("--gtest_filter=" + ":".join(f"*{w}*" for w in words))
    if "tsan" in program and subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0:
        command = ["setarch", "-R"] + command  # ThreadSanitizer supports only the usual address layout
    deadline, runs = time.time() + timeout, []
    for shard in range(shards):
        out = tempfile.TemporaryFile("w+", errors="replace")
        env = dict(os.environ, GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard),
                   UBSAN_OPTIONS="print_stacktrace=1",
                   # A call holds the locks of all its Variables; ThreadSanitizer's deadlock detector aborts at 64.
                   TSAN_OPTIONS="halt_on_error=1:detect_deadlocks=0")
        runs.append((subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=ROOT), out))
    passed, failures, skipped = 0, [], []
    for process, out in runs:
        try:
            status = process.wait(max(1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = f"stopped after {timeout} s"
        out.seek(0)
        p, f, s = read_gtest(out.read(), status)
        passed, failures, skipped = passed + p, failures + f, skipped + s
    return passed, failures, skipped


def run_python(words, files, timeout, python=sys.executable, processes=1):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        patience = 1800 if os.environ.get("LAMINA_TEST_LONG") else 600  # seconds until a test says where it is
        command = [python, "-m", "pytest", *files, "--junitxml", report, "-o", f"faulthandler_timeout={patience}"]
        if processes > 1:
            command += ["-n", str(processes), "--dist", "worksteal"]  # neighbours stay together: they share what a file builds
        if os.environ.get("LAMINA_TEST_LONG"):
            command += ["--durations=40", "--durations-min=10"]
        if words:
            command += ["-k", " or ".join(words)]
        try:
            status = subprocess.run(command, cwd=ROOT, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            return 0, [f"pytest: stopped after {timeout} s"], []
        if status == 5:  # no test matches
            return 0, [], []
        if not os.path.exists(report):
            return 0, [f"pytest: exit status {status}"], []
        suite = ElementTree.parse(report).getroot().find("testsuite")
    total, skips = int(suite.get("tests")), int(suite.get("skipped"))
    bad = int(suite.get("failures")) + int(suite.get("errors"))
    failures = [f"pytest: {case.get('classname')}.{case.get('name')}" for case in suite.iter("testcase")
                if case.find("failure") is not None or case.find("error") is not None]
    skipped = [f"{case.get('classname')}.{case.get('name')}: {case.find('skipped').get('message')}" for case in suite.iter("testcase")
               if case.find("skipped") is not None]
    if status not in (0, 1) and not failures:
        failures.append(f"pytest: exit status {status}")
    return total - skips - bad, failures, skipped


def fuzz_result(name, status, text, found):
    """What a fuzz target's output says: a line of counts, and the text of its failure or None."""
    counts = {what: int(n) for what, n in re.findall(r"^([a-z ]+): (\d+)$", text, re.M)}
    executed, cover = re.search(r"^stat::number_of_executed_units: (\d+)$", text, re.M), re.findall(r"\bcov: (\d+)", text)
    line = f"fuzz {name}: {int(executed[1]) if executed else 0:,} inputs, {int(cover[-1]) if cover else 0:,} edges covered"
    line += "".join(f", {n:,} {what}" for what, n in counts.items())
    if status == 0 and executed and int(executed[1]):
        return line, None
    at = re.search(r"^.*(finding: |runtime error: |ERROR: )", text, re.M)
    lines = [f"fuzz {name}: ended with {status}", *text[at.start() if at else -4000:].splitlines()[:60]]
    if os.path.exists(found):
        with open(found, "rb") as f:
            lines.append(f"the input, {found}, as base64: {base64.b64encode(f.read()).decode()}")
    return line, "\n".join(lines)


def run_fuzz(folder, seconds):
    """Every target from its seeds for so many seconds, all at once. Without --long always with the same draws: no run fails by chance."""
    passed, failures, runs = 0, [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as scratch:
        subprocess.run([sys.executable, os.path.join(ROOT, "tests", "fuzz", "seeds.py"), scratch], check=True)
        for name in FUZZ_TARGETS:
            program, found, corpus = os.path.join(folder, f"lamina_fuzz_{name}"), os.path.join(folder, f"found_{name}"), os.path.join(scratch, f"corpus_{name}")
            if not os.path.exists(program):
                failures.append(f"{program} was not built")
                continue
            if os.path.exists(found):
                os.remove(found)
            os.mkdir(corpus)
            # Leaks are looked for once, at the end.
            command = [program, f"-max_total_time={seconds}", "-max_len=32768", "-timeout=25", "-malloc_limit_mb=256", "-rss_limit_mb=2048", "-detect_leaks=0",
                       "-print_final_stats=1", "-print_funcs=0", "-close_fd_mask=1", f"-exact_artifact_path={found}", corpus, os.path.join(scratch, name)]
            if "LAMINA_TEST_LONG" not in os.environ:
                command.insert(1, "-seed=1")
            out = tempfile.TemporaryFile("w+", errors="replace")
            runs.append((name, found, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out, env=dict(os.environ, TMPDIR=scratch)), out))
        for name, found, process, out in runs:
            try:
                status = process.wait(2 * seconds + 300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "no end"
            out.seek(0)
            line, failure = fuzz_result(name, status, out.read(), found)
            print(line, flush=True)
            passed, failures = passed + (failure is None), failures + [failure] * (failure is not None)
    return passed, failures, []


def run_beside_peers(words, timeout):
    """The tests that use PyTorch and JAX, in the benchmark's environment of the other frameworks."""
    made = subprocess.run([sys.executable, os.path.join(ROOT, "perf", "peers", "environment.py")], stdout=subprocess.PIPE, text=True)
    if made.returncode:
        return 0, [], ["tests with PyTorch and JAX: .venv-peers could not be made, see above"]
    return run_python(words, ["tests/python/test_dlpack.py", "tests/python/test_interop.py"], timeout, made.stdout.strip())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("words", nargs="*")
    options.add_argument("--cpp", action="append", default=[])
    options.add_argument("--python", action="store_true")
    options.add_argument("--fuzz", help="the folder in which the fuzz targets were built")
    options.add_argument("--no-fuzz", help="why there are none")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--long", action="store_true")
    o = options.parse_intermixed_args()
    if o.long:
        os.environ["LAMINA_TEST_LONG"] = "1"
    if o.quick:
        os.environ["LAMINA_TEST_QUICK"] = "1"
    timeout = 6 * 3600 if o.long else 30 * 60
    lines, totals, start = [], [0, 0, 0], time.time()

    def take(name, result, began):
        passed, failures, skipped = result
        for failure in failures:
            print(f"\nFAILED {failure}", flush=True)
        for reason in skipped:
            print(f"skipped {reason}", flush=True)
        lines.append(f"{name}: {passed} passed, {len(failures)} failed, {len(skipped)} skipped ({time.time() - began:.0f} s)")
        print(lines[-1], flush=True)
        for i, n in enumerate((passed, len(failures), len(skipped))):
            totals[i] += n

    for program in o.cpp:
        began, folder = time.time(), os.path.basename(os.path.dirname(program))
        name = "C++" if program.endswith("lamina_tests") else os.path.basename(program)
        take(name if folder == "build" else f"{name} in {folder}", run_cpp(program, o.words, os.cpu_count() or 1, timeout), began)
    if o.fuzz:
        began = time.time()
        take("fuzz", run_fuzz(o.fuzz, 600 if o.long else 15), began)
    elif o.no_fuzz:
        take("fuzz", (0, [], [f"fuzz {name}: {o.no_fuzz}" for name in FUZZ_TARGETS]), time.time())
    if o.python:
        began = time.time()
        files = ["tests/python/test_structure.py", "tests/python/test_fuzz.py"] if o.quick else ["tests/python", "tests/onnx"]
        take("Python", run_python(o.words, files, timeout, processes=os.cpu_count() or 1), began)
        if o.long and not o.quick:
            began = time.time()
            take("with PyTorch and JAX", run_beside_peers(o.words, timeout), began)
    lines.append(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    if o.long and not o.words:
        os.makedirs(os.path.join(ROOT, "tests", "results"), exist_ok=True)
        with open(os.path.join(ROOT, "tests", "results", "long.txt"), "w") as f:
            f.write(f"./dev test --long, {datetime.date.today()}, {os.cpu_count()} cores {platform.machine()}, {time.time() - start:.0f} s\n")
            f.write("\n".join(lines) + "\n")
    if not any(totals):
        print("no test ran" + (": none has a name with " + " or ".join(o.words) if o.words else ""))
    print(lines[-1])
    return 1 if totals[1] or not any(totals) else 0


if __name__ == "__main__":
    sys.exit(main())
