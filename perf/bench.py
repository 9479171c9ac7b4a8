"""Measures Lamina beside its peers in one run: ./dev bench [--check] [--network NAME] [--batch N] [--name NAME] [--all-peers] [--no-peers] [--kernels]

Each program is a process of its own that prepares itself and then measures when its turn comes, round after round, so that a change of the
machine's speed meets all of them alike. Times are microseconds per call: the smallest block of calls, and the median block. The arithmetic
floor is measured in Lamina's C++ process: the operations of the step or forward pass at the rate of one core that does nothing but multiply and add.
Writes perf/results/NAME.json, and draws what perf/gpu has measured on cards. --check measures every row of promises.json, prints what was reached beside what is promised, draws the README's
plot beside the results, and fails when a row is missed; --kernels runs Google Benchmark's list instead.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(HERE, "peers")
BENCH = os.path.join(ROOT, "build", "lamina_bench")
RESULTS = os.path.join(HERE, "results")
sys.path[:0] = [HERE, PEERS]
import plots  # noqa: E402
from environment import peers_python  # noqa: E402
from worker import CALLS, LOOPS, MATMULS, NETWORKS, TRACES  # noqa: E402

FASTEST = [("jax_worker.py", "list"), ("jax_worker.py", "stacked"), ("jax_worker.py", "steps"), ("tensorflow_worker.py", "graph"),
           ("onnxruntime_worker.py", "forward")]
# Slower than those in every measured network; part of the benchmark's own row, and of all rows with --all-peers.
OTHERS = [("tensorflow_worker.py", "xla"), ("pytorch_worker.py", "eager"), ("pytorch_worker.py", "compile"), ("pytorch_worker.py", "aot"), ("keras_worker.py", "fit")]


class Program:
    """One measured process. A peer that cannot start is reported and skipped; Lamina's own must start."""

    def __init__(self, command, environment, must):
        self.command, self.must, self.means = command, must, {}
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ready(self):
        self.about = self.read()
        if self.about:
            print(f"  ready: {self.name}", file=sys.stderr)
        return self.about is not None

    @property
    def name(self):
        return f"{self.about['name']}, {self.about['threads']} thread{'s' * (self.about['threads'] > 1)}"

    def read(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        message = f"bench: {' '.join(map(str, self.command))} ended with status {self.process.wait()}; see its message above"
        if self.must:
            sys.exit(message)
        print(message, file=sys.stderr)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def can(self, what):
        return f"first_{what}_s" in self.about

    def measure(self, what, seconds):
        self.means.setdefault(what, []).extend(self.ask({"what": what, "seconds": seconds})["microseconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def results(self):
        return {**self.about, "microseconds": {what: {"min": round(min(m), 3), "median": round(statistics.median(m), 3)} for what, m in self.means.items()}}


def machine():
    model, flags = platform.machine(), set()
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            if key.strip() == "flags":
                flags = set(value.split())
    vectors = [name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2")) if flag in flags][:1]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "vectors": vectors[0] if vectors else "none", "system": platform.system(),
            "python": platform.python_version(), "load": round(os.getloadavg()[0], 2)}


def commands(network, batch, cores, peers):
    """(command, environment, must it start) of each program to measure, each with 1 thread and with 2."""
    for threads in (1, 2)[:cores]:
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
        here = [str(threads), network, str(batch)]
        if network == "hundred":
            yield ["taskset", "-c", cpus, BENCH, "--serve", str(batch)], {"LAMINA_THREADS": str(threads)}, True
        for form in ("call", "steps"):
            yield [sys.executable, os.path.join(PEERS, "lamina_worker.py"), *here, form], {}, form == "call"
        for script, form in peers:
            yield [peers_python(), os.path.join(PEERS, script), *here, form], {"PYTHONPATH": ""}, False


def measure_network(network, batch, peers, cores, rounds, seconds):
    """Every program's times for one network and batch, measured alternately."""
    print(f"{network}, batch {batch}", file=sys.stderr)
    programs = []
    for command in commands(network, batch, cores, peers):  # one after the other, because concurrent compilation would distort the times
        program = Program(*command)
        if program.ready():
            programs.append(program)
    floors = [p for p in programs if p.about["name"] == "Lamina C++"]
    for _ in range(rounds):
        for what in ("step", "forward", *CALLS, *TRACES, *LOOPS):
            for p in programs:
                if p.can(what):
                    p.measure(what, seconds)
        for p in floors:
            for what in ("step_floor", "forward_floor", "loop_dense_floor"):
                p.measure(what, seconds / 2)
    for p in programs:
        p.close()
    return [p.results() for p in programs]


def measure_matmul(cores, rounds, seconds):
    """Times of matrix products by Lamina and by NumPy's BLAS."""
    print("matrix products", file=sys.stderr)
    worker = os.path.join(PEERS, "matmul_worker.py")
    programs = [Program([sys.executable, worker, str(threads), side], {}, True) for threads in (1, 2)[:cores] for side in ("lamina", "numpy")]
    for p in programs:
        p.ready()
    for _ in range(rounds):
        for n in MATMULS:
            for p in programs:
                p.measure(f"matmul_{n}", seconds / 2)
    for p in programs:
        p.close()
    return [p.results() for p in programs]


def matmul_figures(programs):
    """Lamina's time over that of NumPy's BLAS, each with its better number of threads; `matmul_over_blas` is the worst."""
    ratios = {n: round(best(programs, "Lamina", f"matmul_{n}")[0] / best(programs, "NumPy", f"matmul_{n}")[0], 3) for n in MATMULS}
    return {**{f"matmul_{n}_over_blas": r for n, r in ratios.items()}, "matmul_over_blas": max(ratios.values())}


def best(programs, start, what, threads=None):
    """(microseconds, name) of the fastest configuration whose name has this prefix."""
    found = [(p["microseconds"][what]["min"], f"{p['name']}, {p['threads']} thread{'s' * (p['threads'] > 1)}") for p in programs
             if p["name"].startswith(start) and what in p["microseconds"] and threads in (None, p["threads"])]
    return min(found, default=(None, None))


def figures(programs):
    """The figures for promises.json: Lamina's best against each peer's best, and one thread against the arithmetic floor."""
    out = {}
    peers = sorted({p["name"].split()[0] for p in programs} - {"Lamina"})
    for what in ("step", "forward", *CALLS, *LOOPS):
        ours, how = best(programs, "Lamina", what)
        if what in CALLS:
            ours, how = best([p for p in programs if p["name"] != "Lamina C++"], "Lamina", what)  # the target is for Python
        if ours is None:
            continue
        out[f"{what}_us"], out[f"{what}_by"] = ours, how
        theirs = {peer: best(programs, peer, what)[0] for peer in peers}
        theirs = {peer: t for peer, t in theirs.items() if t}
        for peer, t in theirs.items():
            out[f"{what}_times_{peer.lower()}"] = round(t / ours, 2)
        if theirs:
            out[f"{what}_fastest_peer_us"], out[f"{what}_fastest_peer"] = min(best(programs, peer, what) for peer in theirs)
            out[f"{what}_times_fastest"] = round(min(theirs.values()) / ours, 2)
        floor = best(programs, "Lamina C++", f"{what}_floor")[0]
        if floor:
            out[f"{what}_floor_us"] = floor
            out[f"{what}_over_floor"] = round(best(programs, "Lamina", what, threads=1)[0] / floor, 3)
            if two := best(programs, "Lamina", what, threads=2)[0]:
                out[f"{what}_two_over_half_floor"] = round(two / (floor / 2), 3)
    for what in TRACES:
        if traced := best(programs, "Lamina", what)[0]:
            out[f"{what}_ms"] = round(traced / 1000, 2)
    if "loop_op_us" in out:
        out["loop_written_over_op"] = round(out["loop_written_us"] / out["loop_op_us"], 3)
    if "fit_us" in out:
        out["fit_over_step"] = round(out["fit_us"] / out["step_us"], 3)
    if "cached_call_numpy_us" in out:
        out["numpy_argument_us"] = round(out["cached_call_numpy_us"] - out["cached_call_us"], 3)
    return out


def process_figures(quick):
    """Import time in addition to starting Python, and the memory of a process that trains the benchmark for 100,000 steps (10,000 when
    quick)."""
    def seconds(code):
        times = []
        for _ in range(15):
            start = time.perf_counter()
            printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
            times.append(time.perf_counter() - start)
        if printed:
            sys.exit(f"bench: {code} printed {printed!r}")
        return min(times)

    out = {"import_s": round(seconds("import lamina") - seconds("pass"), 4)}
    cores = len(os.sched_getaffinity(0))
    trainer = Program([sys.executable, os.path.join(PEERS, "lamina_worker.py"), str(min(2, cores)), "hundred", "20", "training"], {}, True)
    trainer.ready()
    trainer.measure("step", 1.0)
    before, steps = trainer.ask({"what": "resident_mb"})["value"], 0
    while steps < (10_000 if quick else 100_000):
        means = trainer.ask({"what": "step", "seconds": 5})["microseconds"]
        steps += int(5e6 / statistics.mean(means))
    after = trainer.ask({"what": "resident_mb"})["value"]
    trainer.close()
    return {**out, "resident_mb": after, "resident_growth_mb": round(after - before, 2), "resident_steps": steps}


def script_figures(name, *arguments):
    """What another script of this folder measures."""
    print(name, file=sys.stderr)
    return json.loads(subprocess.run([sys.executable, os.path.join(HERE, name), *arguments, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)


def table(programs):
    whats = [w for w in ("step", "forward", *CALLS, *LOOPS) if any(w in p["microseconds"] for p in programs)]
    rows = [["microseconds per call: min (median)", *whats, "import s", "first step s"]]
    for p in programs:
        cells = [f"{m['min']:.1f} ({m['median']:.1f})" if (m := p["microseconds"].get(what)) else "-" for what in whats]
        first = p.get("first_step_s")
        rows.append([f"{p['name']}, {p['threads']} thread{'s' * (p['threads'] > 1)}", *cells, p.get("import_s", "-"), "-" if first is None else f"{first:.2f}"])
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(r, widths))) for r in rows)


def check(promises, found):
    """Prints every row with its measured value; returns the number of missed targets."""
    missed = 0
    print(f"{'what':66} {'promised':>14} {'reached':>9}")
    for row in promises:
        relation = "at least" if "at least" in row else "at most"
        bound, value = row[relation], found.get(row["run"], {}).get(row["figure"])
        kept = value is not None and (value >= bound if relation == "at least" else value <= bound)
        print(f"{row['what']:66} {relation:>9} {bound:>4} {'-' if value is None else value:>9}  {'kept' if kept else 'MISSED'}")
        missed += not kept
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="measure every row of promises.json; fail when one is missed")
    parser.add_argument("--only", metavar="RUN,...", help="with --check: only rows of these runs, as promises.json calls them")
    parser.add_argument("--network", choices=NETWORKS, default="hundred")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--name", default="latest", help="of the file in perf/results; default: latest, which git ignores")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.25, help="per turn")
    parser.add_argument("--no-peers", action="store_true", help="Lamina alone")
    parser.add_argument("--all-peers", action="store_true", help="the slower forms of the peers too, in every row")
    parser.add_argument("--quick", action="store_true", help="with --check: 10,000 steps instead of 100,000 where memory is measured")
    parser.add_argument("--kernels", action="store_true", help="run Google Benchmark's list of single things instead")
    options = parser.parse_args()
    if options.kernels:
        sys.exit(subprocess.run([BENCH]).returncode)

    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, {here['vectors']}, load {here['load']} at the start", file=sys.stderr)
    with open(os.path.join(HERE, "promises.json")) as f:
        promises = json.load(f)["rows"]
    if options.check:
        if options.only:
            promises = [row for row in promises if row["run"] in options.only.split(",")]
        checked = {row["run"] for row in promises}
        wanted = list(dict.fromkeys(row["run"] for row in promises if "/" in row["run"]))
    else:
        wanted = [f"{options.network}/{options.batch}"]
    found, runs = {}, {}
    for run in wanted:
        network, batch = run.split("/")
        peers = [] if options.no_peers else FASTEST + OTHERS * (options.all_peers or run == "hundred/20")
        runs[run] = measure_network(network, int(batch), peers, here["cores"], options.rounds, options.seconds)
        found[run] = figures(runs[run])
        print(table(runs[run]), "\n", flush=True)
    if options.check:
        if "matmul" in checked:
            runs["matmul"] = measure_matmul(here["cores"], options.rounds, options.seconds)
            found["matmul"] = matmul_figures(runs["matmul"])
        for run, measure in {"process": lambda: process_figures(options.quick), "saved": lambda: script_figures("saved_programs.py", "--gigabyte"),
                             "exported": lambda: script_figures("c_export.py"), "placed": lambda: script_figures("two_towers.py"),
                             "jobs": lambda: script_figures("jobs.py")}.items():
            if run in checked:
                found[run] = measure()

    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, f"{options.name}.json"), "w") as f:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        json.dump({"machine": here, "date": date, "rounds": options.rounds, "figures": found, "programs": runs}, f, indent=1)
        f.write("\n")
    for run, values in found.items():
        for name, value in values.items():
            print(f"{run:14} {name:36} {value}")
    if options.check and runs:
        print("plot:", plots.draw(os.path.join(RESULTS, f"{options.name}.json")))
    print("plots of cards:", *(plots.draw_cards(RESULTS) or ["there are no results of one (perf/gpu/run.sh)"]))
    if options.check:
        print()
        if check(promises, found):
            sys.exit(1)


if __name__ == "__main__":
    main()
