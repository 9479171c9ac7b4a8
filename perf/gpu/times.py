"""Times a network on one card: Lamina and its peers, batch by batch, precision by precision, in programs of their own one after the other.

usage: times.py NET [--device gpu:0] [--batches 20,128] [--precisions float32,tf32] [--programs lamina,torch,jax] [--limit SECONDS] [--out FILE]

Rows are added to the file as they are measured; one that is there is not measured again, so a run that was cut off at its limit goes on where it was. A peer that
cannot be imported is left out, with a line that says so. Every network starts from the same weights in every program and repeats one batch.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import threading
import time

import nets

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(os.path.dirname(HERE), "results")
FORMS = {"lamina": ["loop", "call", "rows", "layers"], "jax": ["scan", "jit"], "torch": ["graph", "eager", "compile", "func", "func_compile"]}
MODULES = {"lamina": "lamina", "jax": "jax", "torch": "torch"}


def card(device):
    """Its name: of a GPU as the driver says it, of a CPU "cpu"."""
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


def write(path, results):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w") as f:
        json.dump(results, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def key(row):
    return row["net"], row["program"].split()[0].replace("PyTorch", "torch").lower(), row["form"], row["precision"], row["batch"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=nets.NETS)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--batches", default=",".join(map(str, nets.BATCHES)))
    parser.add_argument("--precisions", default=",".join(nets.PRECISIONS))
    parser.add_argument("--programs", default=",".join(FORMS))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers; default: this one")
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring a row's step, and its forward pass")
    parser.add_argument("--limit", type=float, default=560, help="seconds for all; then it ends with exit status 3 if rows are missing")
    parser.add_argument("--out")
    o = parser.parse_args()
    end = time.monotonic() + o.limit
    name = card(o.device)
    path = o.out or result_file(name)
    results = read(path, name)
    have = {key(row) for row in results["rows"]}
    missing = 0
    for program in o.programs.split(","):
        python = sys.executable if program == "lamina" else o.python
        if subprocess.run([python, "-c", f"import {MODULES[program]}"], capture_output=True).returncode != 0:
            print(f"{program}: not measured, {python} cannot import it", flush=True)
            continue
        for form in FORMS[program]:
            if form in ("rows", "layers") and o.device.startswith("cpu"):
                continue  # plans of a GPU's sections
            wanted = [[p, int(b)] for b in o.batches.split(",") for p in o.precisions.split(",") if (o.net, program, form, p, int(b)) not in have]
            if not wanted:
                continue
            left = end - time.monotonic()
            if left < 5:
                missing += len(wanted)
                continue
            with subprocess.Popen([python, os.path.join(HERE, f"times_{program}.py"), o.net, form, "--device", o.device, "--seconds", str(o.seconds), "--rows", json.dumps(wanted)],
                                  stdout=subprocess.PIPE, text=True) as run:
                guard = threading.Timer(left, run.kill)
                guard.start()
                for line in run.stdout:
                    if not line.startswith("{"):
                        continue
                    row = json.loads(line)
                    results["rows"].append(row)
                    have.add(key(row))
                    write(path, results)
                    what = row.get("not_run") or ", ".join(f"{w} {row[w]['microseconds']:.1f} us" for w in ("step", "forward") if w in row)
                    print(f"{row['net']}, {row['program']} {form}, {row['precision']}, batch {row['batch']}: {what}", flush=True)
                guard.cancel()
            missing += sum((o.net, program, form, p, b) not in have for p, b in wanted)
    write(path, results)
    print(f"{path}: {len(results['rows'])} rows" + (f"; {missing} are missing: run it again" if missing else ""))
    return 3 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
