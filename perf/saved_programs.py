#!/usr/bin/env python3
"""Measures saved programs: process start to first output, a call from C++ beside the traced call, weights and their files, and the library's size.

usage: ./dev python perf/saved_programs.py [--rounds N] [--gigabyte] [--json]

The model is the 100-layer benchmark. Times are minima over the rounds; processes start with warm files. --gigabyte also writes and reads 1 GB of
weights, beside dd with conv=fsync, and dd of a file that is not in the system's cache. ./dev bench --check compares the figures with promises.json.
"""
import argparse, json, os, re, subprocess, tempfile, time

import numpy as np

import lamina as lm

PACKAGE = os.path.dirname(os.path.abspath(lm.__file__))
RUN = os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "lamina-run")
ALLOWED = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libz.so", "ld-linux")


def least(rounds, call):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def run_json(*arguments):
    return json.loads(subprocess.run([RUN, *map(str, arguments), "--json"], capture_output=True, text=True, check=True).stdout)


def program_figures(folder, rounds):
    net = lm.nn.Sequential([lm.nn.Flatten(), *[lm.nn.Dense(64, "relu") for _ in range(100)], lm.nn.Dropout(0.2), lm.nn.Dense(10)])
    x = lm.constant(np.random.default_rng(0).random((1, 28, 28), dtype=np.float32))
    net(x)
    lm.save(net, f"{folder}/net")
    np.save(f"{folder}/x.npy", x.numpy())
    call = (f"{folder}/net", "-i", f"inputs={folder}/x.npy")
    traced = lm.function(lambda x: net(x))
    traced(x)
    out = {"start_to_output_ms": 1e3 * least(rounds, lambda: run_json(*call))}
    out["load_ms"] = min(run_json(*call)["load_us"] for _ in range(rounds)) / 1e3
    out["call_us"] = min(run_json(*call, "--repeat", 2000)["least_us"] for _ in range(max(3, rounds // 5)))
    out["traced_call_us"] = 1e6 * least(20 * rounds, lambda: traced(x).numpy())
    out["call_over_traced_us"] = out["call_us"] - out["traced_call_us"]
    weights = {"w": lm.Variable(np.random.default_rng(1).random(462_730, dtype=np.float32))}
    out["save_weights_ms"] = 1e3 * least(rounds, lambda: lm.save_weights(weights, f"{folder}/weights"))
    out["load_weights_ms"] = 1e3 * least(rounds, lambda: lm.load_weights(weights, f"{folder}/weights"))
    return out


def forget(path):
    """Drops a file from the system's cache, so that it is read from the disk again."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def gigabyte_figures(folder):
    tensors = {f"t{i}": lm.ones((8192, 4096)) for i in range(8)}  # 1.07 GB
    path, copy = f"{folder}/gigabyte", f"{folder}/copy"
    times = {name: [] for name in ("save", "dd", "load", "read")}
    for _ in range(6):
        for name, call in (("save", lambda: lm.save_tensors(path, tensors)),
                           ("dd", lambda: subprocess.run(["dd", f"if={path}", f"of={copy}", "bs=16M", "conv=fsync"], check=True, stderr=subprocess.DEVNULL)),
                           ("load", lambda: lm.load_tensors(path)),
                           ("read", lambda: subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=16M"], check=True, stderr=subprocess.DEVNULL))):
            if name in ("load", "read"):
                forget(path)
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    best = {name: min(values) for name, values in times.items()}
    return {**{f"{name}_gigabyte_s": value for name, value in best.items()}, "save_gigabyte_over_dd": best["save"] / best["dd"],
            "load_gigabyte_over_dd": best["load"] / best["read"]}


def library_figures(folder):
    stripped = f"{folder}/liblamina.so"
    subprocess.run(["strip", "-o", stripped, f"{PACKAGE}/liblamina.so"], check=True)
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", stripped], capture_output=True, text=True, check=True).stdout)
    return {"library_mb": os.path.getsize(stripped) / 1e6, "needed": needed, "other_libraries": sum(not name.startswith(ALLOWED) for name in needed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--gigabyte", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = program_figures(folder, options.rounds) | library_figures(folder) | (gigabyte_figures(folder) if options.gigabyte else {})
    figures = {name: value if isinstance(value, list) else round(value, 3) for name, value in figures.items()}
    print(json.dumps(figures) if options.json else "\n".join(f"{name:<24} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
