"""Times a network on one card: Lamina and its peers, precision by precision, each in a program of its own, one after the other.

usage: times.py NET [--device gpu:0] [--batches 20,128] [--precisions float32,tf32] [--programs lamina,torch,jax] [--limit SECONDS] [--out
FILE] [--kept FOLDER] [--retry]

Rows are added to the file as they are measured; existing rows are not measured again, so a run that reached its limit can be continued. All
programs are timed in one precision before the next, so that partial results can be compared; torch.compile, which takes most of the time,
comes last. A row that cannot run says why; --retry tries those again. A peer that cannot be imported is skipped with a message. Every
network starts from the same weights in every program and repeats one batch. With --kept the rows of this run go to that folder and replace
the network's older ones in the file, so that rows of different runs are never mixed.
"""
import argparse
import datetime
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import nets

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(os.path.dirname(HERE), "results")
PROGRAMS = ["lamina", "jax", "torch"]  # names of their modules


def card(device):
    """The device's name: a GPU's from the driver, "cpu" for a CPU."""
    if device.startswith("cpu"):
        return "cpu"
    said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].strip()


def result_file(name):
    return os.path.join(RESULTS, "gpu-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".json")


def read(path, name):
    if os.path.exists(path):
        with open(path) as f:
            results = json.load(f)
        if results["card"] != name:
            sys.exit(f"times.py: {path} has rows of {results['card']}, and this is {name}: give another --out")
        return results
    return {"card": name, "date": datetime.date.today().isoformat(), "rows": []}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


def write(path, results):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w") as f:
        json.dump(results, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def key(row):
    return row["net"], row["program"].split()[0].replace("PyTorch", "torch").lower(), row["form"], row["precision"], row["batch"]


def missing_rows(o, have):
    """The rows to measure, in order: [program, form, [[precision, batch], ...]]. torch.compile comes last, because it takes most of the
    time."""
    out = []
    batches = [int(b) for b in o.batches.split(",")]
    for is_slow, precision, program in itertools.product((False, True), o.precisions.split(","), o.programs.split(",")):
        for form in nets.forms(program, o.net, precision, o.device.startswith("gpu")):
            wanted = [[precision, size] for size in batches if (o.net, program, form, precision, size) not in have]
            if wanted and form.endswith("compile") == is_slow:
                out.append((program, form, wanted))
    return out


class Program:
    """A program that times rows, in a process group of its own, which is killed with it."""

    def __init__(self, command):
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.said, text=True, start_new_session=True)
        self.late = False

    def answer(self, seconds):
        """The next line of JSON; None if the program ends first, or is killed at the time limit."""
        guard = threading.Timer(seconds, self.kill)
        guard.start()
        try:
            return next((json.loads(line) for line in self.process.stdout if line.startswith("{")), None)
        finally:
            guard.cancel()

    def kill(self):
        self.late = True
        self.end()

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def why(self):
        """Why there was no answer."""
        status = self.process.wait()
        self.said.seek(0)
        last = next((line.strip() for line in reversed(self.said.readlines()) if line.strip()), "nothing")
        return f"it ended with status {status} and said: {last[:300]}"


def measure(command, wanted, row_limit, end, found):
    """Calls found(row) for each of the wanted rows, until all are there or the time is up."""
    while wanted and time.monotonic() < end - 5:
        program = Program([*command, "--rows", json.dumps(wanted)])
        try:
            seconds = lambda: min(row_limit, end - time.monotonic())
            waited = seconds()
            ready = answer = program.answer(waited)
            while answer and wanted:
                waited = seconds()
                if answer := program.answer(waited):
                    found(answer)
                    wanted = wanted[1:]
            if not wanted or (program.late and waited < row_limit):
                continue
            why = f"took longer than {row_limit:g} s" if program.late else program.why()
            for precision, batch in wanted if not ready else wanted[:1]:  # nothing can be measured before it is ready
                found({"precision": precision, "batch": batch, "not_run": why})
            wanted = wanted[1:] if ready else []
        finally:
            program.end()
            program.process.wait()
    return wanted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=nets.NETS)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--batches", default=",".join(map(str, nets.BATCHES)))
    parser.add_argument("--precisions", default=",".join(nets.PRECISIONS))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers; default: this one")
    parser.add_argument("--seconds", type=float, default=0.3, help="of measuring a row's step, and its forward pass")
    parser.add_argument("--row-limit", type=float, default=180, help="seconds for a row with all its preparation")
    parser.add_argument("--limit", type=float, default=560, help="seconds for all; then it ends with exit status 3 if rows are missing")
    parser.add_argument("--out", help="default: perf/results/gpu-CARD.json")
    parser.add_argument("--kept", help="folder for the rows of this run; default: they are in the file")
    parser.add_argument("--retry", action="store_true")
    o = parser.parse_args()
    end = time.monotonic() + o.limit
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also ends its child processes
    name = card(o.device)
    out = o.out or result_file(name)
    path = os.path.join(o.kept, os.path.basename(out)) if o.kept else out
    results = read(path, name)
    if o.retry:
        results["rows"] = [row for row in results["rows"] if "not_run" not in row]

    def publish():
        write(path, results)
        mine = [row for row in results["rows"] if row["net"] == o.net]
        if path != out and mine:
            whole = read(out, name)
            write(out, {**whole, "date": results["date"], "rows": [row for row in whole["rows"] if row["net"] != o.net] + mine})

    missing, absent = 0, set()
    for program, form, wanted in missing_rows(o, {key(row) for row in results["rows"]}):
        python = sys.executable if program == "lamina" else o.python
        if program in absent or time.monotonic() > end - 5:
            missing += len(wanted) * (program not in absent)
            continue

        def found(row):
            row = {"net": o.net, "program": program, "form": form, **row, "measured": now()}
            results["rows"].append(row)
            publish()
            ran = lambda w: f" by {nets.in_words(row['kernels'][w])}" if "kernels" in row else ""
            what = row.get("not_run") or ", ".join(f"{w} {row[w]['microseconds']:.1f} us{ran(w)}" for w in ("step", "forward") if w in row)
            print(f"{o.net}, {row['program']} {form}, {row['precision']}, batch {row['batch']}: {what}", flush=True)

        if subprocess.run([python, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{program}') is None)"]).returncode != 0:
            print(f"{program}: not measured, {python} cannot import it", flush=True)
            absent.add(program)
            continue
        command = [python, os.path.join(HERE, f"times_{program}.py"), o.net, form, "--device", o.device, "--seconds", str(o.seconds)]
        missing += len(measure(command, wanted, o.row_limit, end, found))
    publish()
    print(f"{path}: {len(results['rows'])} rows" + (f"; {missing} are missing: run it again" if missing else ""))
    return 3 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
