"""Each program of examples/ beside its twins in PyTorch and JAX (peers/programs), measured in one run.

    PYTHONPATH=build/python python perf/programs.py [PROGRAM ...] [--rounds N] [--name NAME]

A program runs as a user starts it, in turn with its twins, on one core and on two; each side counts with its better number of cores. A step's time comes from the lines of
progress that the programs print: between two such lines, the least of the rounds; beside it the median of the rounds' means. The rest is what a user waits for beyond the
steps of the loop: start, import, data, trace, compile, test. Both sides run in the peers' environment, with the same NumPy, pandas and gymnasium. Writes results/NAME.json;
the exit status is 1 when a program of small layers takes longer for a step than a twin.
"""
import argparse
import datetime
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench import PEERS, RESULTS, ROOT, machine
from environment import peers_python

TWINS = os.path.join(PEERS, "programs")
# What a step is, and the program's arguments: as many steps as two lines of progress need, or a few more.
PROGRAMS = {
    "regression": ("epoch", ["--epochs", "41"]),
    "ensemble": ("epoch", ["--epochs", "6"]),
    "digits": ("epoch", ["--epochs", "4"]),
    "two_inputs": ("epoch", ["--epochs", "5"]),
    "oscillator": ("step", ["--steps", "2001"]),
    "burgers": ("iteration", ["--iterations", "500"]),
    "ppo": ("update", ["--updates", "15"]),
    "cartpole": ("update", ["--updates", "400"]),
    "lstm": ("step", ["--steps", "1002"]),
    "char_gpt": ("step", ["--steps", "101"]),
    "neural_field": ("step", ["--steps", "801"]),
    "tabular": ("epoch", ["--epochs", "30"]),
    "train_and_serve": ("step", ["train"]),
}
PRINTED = ("digits", "char_gpt")  # layers that are not small: their ratio is printed, not judged


def compiled(source, folder):
    """The program of a C++ twin, built with the PyTorch of the peers' environment."""
    torch = subprocess.run([peers_python(), "-c", "import torch; print(torch.__path__[0])"], check=True, capture_output=True, text=True).stdout.strip()
    program = os.path.join(folder, os.path.basename(source).removesuffix(".cpp"))
    subprocess.run(["c++", "-std=c++20", "-O2", f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include", source, f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib",
                    "-ltorch", "-ltorch_cpu", "-lc10", "-o", program], check=True)
    return program


def sides(name, folder, fastest):
    """{"Lamina": command, "PyTorch": ...} of a program and its twins; fastest: without PyTorch where JAX has one."""
    arguments = PROGRAMS[name][1]
    if name == "train_and_serve":
        found = {"Lamina": [os.path.join(ROOT, "build", "examples", name), *arguments, os.path.join(folder, "net")]}
    else:
        found = {"Lamina": [peers_python(), os.path.join(ROOT, "examples", "python", f"{name}.py"), *arguments]}
    for side, ending in (("PyTorch", "torch.py"), ("JAX", "jax.py"), ("PyTorch", "torch.cpp")):
        twin = os.path.join(TWINS, f"{name}_{ending}")
        if os.path.exists(twin) and not (fastest and ending == "torch.py" and os.path.exists(os.path.join(TWINS, f"{name}_jax.py"))):
            found[side] = [compiled(twin, folder), *arguments, folder] if ending.endswith("cpp") else [peers_python(), twin, *arguments]
    return found


def run(command, cores, unit, limit):
    """(seconds in all, [(steps, seconds)] between lines of progress); None when it takes longer than `limit` seconds."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores), "LAMINA_THREADS": str(cores), "PYTHONUNBUFFERED": "1"}
    start, text, spans, before = time.perf_counter(), [], [], None
    with subprocess.Popen(["taskset", "-c", cpus, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        alarm = threading.Timer(limit, process.kill)
        alarm.start()
        for line in process.stdout:
            now = time.perf_counter()
            text.append(line)
            if at := re.match(rf"{unit} +(\d+)", line, re.IGNORECASE):
                steps = int(at[1])
                if before and steps > before[0]:
                    spans.append((steps - before[0], now - before[1]))
                before = steps, now
            elif timed := re.match(r"(\d+) updates of .* ([\d.]+) s,", line):  # a loop inside of one graph prints nothing until its end
                spans.append((int(timed[1]), float(timed[2])))
        alarm.cancel()
    if process.returncode == -signal.SIGKILL and time.perf_counter() - start >= limit:
        return None
    if process.returncode or not spans:
        sys.exit(f"programs: {shlex.join(command)} ended with status {process.returncode} and printed {len(spans) + 1} lines of progress\n{''.join(text[-20:])}")
    # fit prints before an epoch, so that its first span has the compilation in it; the twins leave theirs out too.
    return time.perf_counter() - start, spans[1:] if unit == "epoch" and len(spans) > 1 else spans


def times(name, commands, threads, rounds):
    """{side: figures}, each with its better number of cores. Two cores are left out once they take twice what one does, as they may where others use them too."""
    runs, found = {(side, cores): [] for cores in threads for side in commands}, {}
    for _ in range(rounds):
        for (side, cores), own in list(runs.items()):
            one = runs[side, threads[0]]
            took = run(commands[side], cores, PROGRAMS[name][0], 3600 if cores == threads[0] else 2 * max(all for all, _ in one))
            if took:
                own.append(took)
            else:
                del runs[side, cores]
    for (side, cores), own in runs.items():
        steps = [span[0] for span in own[0][1]]
        least = sum(min(seconds) for seconds in zip(*([span[1] for span in spans] for _, spans in own)))
        means = [sum(seconds for _, seconds in spans) / sum(count for count, _ in spans) for _, spans in own]
        rest = min(all - sum(seconds for _, seconds in spans) for all, spans in own)
        figures = {"step_ms": round(least / sum(steps) * 1e3, 4), "median_ms": round(statistics.median(means) * 1e3, 4), "rest_s": round(rest, 2), "cores": cores}
        if side not in found or figures["step_ms"] < found[side]["step_ms"]:
            found[side] = figures
    return found


def write(given, here, found):
    load = round(os.getloadavg()[0], 2)
    note = "other programs used the machine during the run" if max(load, here["load"]) > here["cores"] / 2 else ""
    with open(os.path.join(RESULTS, f"{given.name}.json"), "w") as f:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        json.dump({"machine": here | {"load_at_the_end": load}, "note": note, "date": date, "rounds": given.rounds, "figures": found}, f, indent=1)
        f.write("\n")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}; default: all")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--name", default="latest", help="of the file in perf/results; default: latest, which git ignores")
    options.add_argument("--fastest", action="store_true", help="leave PyTorch out where there is a twin in JAX")
    given = options.parse_args()
    if unknown := set(given.programs) - set(PROGRAMS):
        options.error(f"no program is called {', '.join(sorted(unknown))}")
    here, found, slower = machine(), {}, []
    print(f"{'program':16} {'side':8} {'of':10} {'step, ms':>10} {'median':>10} {'rest, s':>8} {'cores':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.programs or PROGRAMS:
            unit, _ = PROGRAMS[name]
            measured = times(name, sides(name, folder, given.fastest), sorted({1, min(2, here["cores"])}), given.rounds)
            for side, row in measured.items():
                print(f"{name:16} {side:8} {unit:10} {row['step_ms']:10.3f} {row['median_ms']:10.3f} {row['rest_s']:8.2f} {row['cores']:6}")
            fastest = min((side for side in measured if side != "Lamina"), key=lambda side: measured[side]["step_ms"])
            ratio = round(measured[fastest]["step_ms"] / measured["Lamina"]["step_ms"], 2)
            print(f"{name:16} {ratio} times {fastest}'s speed{' (printed only)' * (name in PRINTED)}", flush=True)
            found[name] = {"step": unit, **measured, "fastest_peer": fastest, "times_fastest": ratio}
            if ratio < 1 and name not in PRINTED:
                slower.append(name)
            write(given, here, found)  # after each, because a run takes long
    if slower:
        sys.exit(f"programs: slower than a twin: {', '.join(slower)}")


if __name__ == "__main__":
    main()
