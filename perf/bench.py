"""Measures Lamina beside JAX and TensorFlow in one run: ./dev bench [--check] [--name NAME] [--batch N] [--rounds N] [--no-peers] [--kernels]

Each program is a process of its own that prepares itself and then measures when its turn comes, round after round, so that a change of the
machine's speed meets all of them alike. Times are microseconds per call: the smallest block of calls, and the median block. The arithmetic
floor is measured in Lamina's C++ process: the operations of the step or forward pass at the rate of one core that does nothing but multiply and add.
Writes perf/results/NAME.json. --check fails when a figure in promises.json is missed; --kernels runs Google Benchmark's list instead.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(HERE, "peers")
BENCH = os.path.join(ROOT, "build", "lamina_bench")
VENV = os.path.join(ROOT, ".venv-peers")
WHAT = ["step", "forward", "cached_call", "eager_op"]


def peers_python():
    """The interpreter of .venv-peers, made when it is missing or its list of packages has changed."""
    with open(os.path.join(PEERS, "requirements.txt")) as f:
        wanted = f.read()
    stamp, python = os.path.join(VENV, "requirements.txt"), os.path.join(VENV, "bin", "python")
    if not (os.path.exists(stamp) and open(stamp).read() == wanted):
        print("making .venv-peers with JAX and TensorFlow", file=sys.stderr)
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", os.path.join(PEERS, "requirements.txt")], check=True)
        with open(stamp, "w") as f:
            f.write(wanted)
    return python


def commands(batch, cores, with_peers):
    """(command, environment) of each program to measure: every one with 1 thread and with 2."""
    for threads in (1, 2)[:cores]:
        environment = {"LAMINA_THREADS": str(threads)}
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
        yield ["taskset", "-c", cpus, BENCH, "--serve", str(batch)], environment
        yield [sys.executable, os.path.join(PEERS, "lamina_worker.py"), str(threads), str(batch)], environment
    if with_peers:
        python = peers_python()
        for script, forms in (("jax_worker.py", ("list", "stacked")), ("tensorflow_worker.py", ("graph", "xla"))):
            for form in forms:
                for threads in (1, 2)[:cores]:
                    yield [python, os.path.join(PEERS, script), str(threads), str(batch), form], {"PYTHONPATH": ""}


class Program:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()
        self.means = {}
        print(f"  ready: {self.name}", file=sys.stderr)

    @property
    def name(self):
        return f"{self.about['name']}, {self.about['threads']} thread{'s' * (self.about['threads'] > 1)}"

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: {' '.join(map(str, self.process.args))} ended with status {self.process.wait()}; see its message above")
        return json.loads(line)

    def measure(self, what, seconds):
        self.process.stdin.write(json.dumps({"what": what, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        self.means.setdefault(what, []).extend(self.read()["microseconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def results(self):
        return {**self.about, "microseconds": {what: {"min": round(min(m), 3), "median": round(statistics.median(m), 3)} for what, m in self.means.items()}}


def machine():
    model = platform.processor() or platform.machine()
    flags = set()
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            if key.strip() == "flags":
                flags = set(value.split())
    vectors = [name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2")) if flag in flags][:1]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "vectors": vectors[0] if vectors else "none", "system": platform.platform(),
            "load": os.getloadavg()[0]}


def best(programs, start, what, which="min"):
    """The best configuration of one framework."""
    return min((p["microseconds"][what][which] for p in programs if p["name"].startswith(start) and what in p["microseconds"]), default=None)


def figures(programs):
    """What promises.json may name."""
    out = {}
    for what in WHAT:
        for lamina in ("Lamina C++", "Lamina Python"):
            key = f"{what}_{'cpp' if lamina.endswith('C++') else 'python'}"
            out[f"{key}_us"] = ours = best(programs, lamina, what)
            for peer in ("JAX", "TensorFlow"):
                theirs = best(programs, peer, what)
                if ours and theirs:
                    out[f"{key}_times_{peer.lower()}"] = round(theirs / ours, 3)
    for what in ("step", "forward"):
        floor = best(programs, "Lamina C++", f"{what}_floor")
        one = [p for p in programs if p["threads"] == 1]
        if floor:
            out[f"{what}_floor_us"] = floor
            out[f"{what}_over_floor_1_thread"] = round(best(one, "Lamina C++", what) / floor, 3)
            out[f"{what}_over_floor_best"] = round(best(programs, "Lamina C++", what) / floor, 3)
    return {k: v for k, v in out.items() if v is not None}


def table(programs):
    rows = [["microseconds per call: min (median)", *WHAT, "import s", "first step s"]]
    for p in programs:
        name = f"{p['name']}, {p['threads']} thread{'s' * (p['threads'] > 1)}"
        cells = [f"{m['min']:.1f} ({m['median']:.1f})" if (m := p["microseconds"].get(what)) else "-" for what in WHAT]
        rows.append([name, *cells, p.get("import_s", "-"), f"{p['first_step_s']:.2f}"])
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(r, widths))) for r in rows)


def check(found):
    with open(os.path.join(HERE, "promises.json")) as f:
        promises = json.load(f)
    missed = 0
    for name, (relation, bound) in promises.items():
        value = found.get(name)
        kept = value is not None and (value >= bound if relation == "at least" else value <= bound)
        print(f"{'kept  ' if kept else 'MISSED'} {name}: {value}, promised {relation} {bound}")
        missed += not kept
    return missed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="fail when a figure in promises.json is missed")
    options.add_argument("--name", default=None, help="of the file in perf/results; default: latest, which git ignores")
    options.add_argument("--batch", type=int, default=20)
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--seconds", type=float, default=0.25, help="per turn")
    options.add_argument("--no-peers", action="store_true", help="Lamina alone")
    options.add_argument("--kernels", action="store_true", help="run Google Benchmark's list of single things instead")
    options = options.parse_args()
    if options.kernels:
        sys.exit(subprocess.run([BENCH]).returncode)

    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, {here['vectors']}, load {here['load']:.1f} at the start; batch {options.batch}", file=sys.stderr)
    programs = [Program(*c) for c in commands(options.batch, here["cores"], not options.no_peers)]
    for _ in range(options.rounds):
        for what in WHAT:
            for p in programs:
                p.measure(what, options.seconds)
        for p in programs:
            if p.about["name"] == "Lamina C++":
                for what in ("step_floor", "forward_floor"):
                    p.measure(what, options.seconds / 2)
    for p in programs:
        p.close()
    results = [p.results() for p in programs]
    found = figures(results)
    print(table(results))
    print()
    for name, value in found.items():
        print(f"{name:40} {value}")
    folder = os.path.join(HERE, "results")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{options.name or 'latest'}.json"), "w") as f:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        json.dump({"machine": here, "date": date, "batch": options.batch, "rounds": options.rounds, "figures": found, "programs": results}, f, indent=1)
        f.write("\n")
    if options.check and check(found):
        sys.exit(1)


if __name__ == "__main__":
    main()
