#!/usr/bin/env python3
"""Measures what a newcomer waits for, in a fresh clone: ./dev train from nothing, a build after one edited op, and pip install.

usage: build_times.py [--name NAME] [--only PART,...] [--work DIR]

Parts: train (clone, ./dev train to its accuracy, with no cache of compiled files), edit (ninja after a line was added to graph/ops/softmax.cpp; needs
train), pip (pip install . into a new virtual environment, CPU only), wheel (its size; the platform that auditwheel finds where auditwheel is installed; needs pip).
System packages are not counted: run ./dev setup once before. Writes perf/results/NAME.json: wall seconds, and processor seconds over all cores, which
tell a busy machine from a slow build. LIMITS below are the project's promises; the exit status is 1 when a measured one is missed.
"""
import argparse, datetime, glob, json, os, re, resource, shutil, subprocess, sys, tempfile, time

from bench import RESULTS, machine

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMITS = {"train": 180, "edit": 20, "pip": 180, "wheel": 10}  # seconds; megabytes
OP = "graph/ops/softmax.cpp"


def timed(command, folder, **environment):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, cwd=folder, env=os.environ | {"CCACHE_DISABLE": "1"} | environment, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.time() - start, 1), "processor_seconds": round(used, 1)}


def measure_train(work):
    clone = os.path.join(work, "clone")
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    report = os.path.join(work, "train.json")
    figures = timed(["./dev", "train", "--json", report], clone)
    with open(report, encoding="utf-8") as f:
        return figures | {"training": json.load(f)}


def measure_edit(work):
    clone = os.path.join(work, "clone")
    with open(os.path.join(clone, OP), "a", encoding="utf-8") as f:
        f.write("// edited\n")
    return timed(["ninja", "-C", "build", "--quiet", "_core"], clone)


def measure_pip(work):
    venv = os.path.join(work, "venv")
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    source = os.path.join(work, "source")
    shutil.rmtree(source, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, source], check=True)
    python = os.path.join(venv, "bin", "python")
    figures = timed([python, "-m", "pip", "install", "--quiet", "--config-settings=cmake.define.LAMINA_CUDA=OFF", "."], source)
    subprocess.run([python, "-c", "import lamina as lm; assert float(lm.sum(lm.ones([3])).numpy()) == 3"], cwd=work, check=True)
    return figures


def measure_wheel(work):
    wheels = os.path.join(work, "wheels")
    subprocess.run([os.path.join(work, "venv", "bin", "python"), "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels,
                    "--config-settings=cmake.define.LAMINA_CUDA=OFF", "."], cwd=os.path.join(work, "source"), check=True)
    wheel = glob.glob(os.path.join(wheels, "*.whl"))[0]
    figures = {"megabytes": round(os.path.getsize(wheel) / 1e6, 2)}
    if shutil.which("auditwheel"):
        said = subprocess.run(["auditwheel", "show", wheel], check=True, capture_output=True, text=True).stdout
        figures["auditwheel"] = re.search(r"consistent with.*?\"(\w+)\"", said, re.DOTALL).group(1)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="build-times", help="of the file in perf/results")
    parser.add_argument("--only", default="train,edit,pip,wheel", help="the parts to measure")
    parser.add_argument("--work", help="a folder to build in, which is kept; default: a temporary one")
    options = parser.parse_args()
    work = os.path.abspath(options.work or tempfile.mkdtemp())
    os.makedirs(work, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    found = {"machine": machine(), "date": datetime.date.today().isoformat(), "commit": commit, "limits": LIMITS, "figures": {}}
    missed = []
    for part in options.only.split(","):
        figures = found["figures"][part] = globals()[f"measure_{part}"](work)
        reached = figures.get("seconds", figures.get("megabytes"))
        print(f"{part}: {reached}, at most {LIMITS[part]}")
        if reached > LIMITS[part]:
            missed.append(part)
    with open(os.path.join(RESULTS, options.name + ".json"), "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
        f.write("\n")
    if not options.work:
        shutil.rmtree(work)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
