"""examples/python/cartpole.py and the same loop in JAX, measured alternately.

    ./dev python perf/cartpole.py [--rounds N] [--updates N]

Needs the peers' environment, which ./dev bench creates. A figure is the minimum time of an update over all rounds.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def milliseconds(python, program, updates, seed):
    text = subprocess.run([str(python), str(ROOT / program), "--updates", str(updates), "--seed", str(seed)], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"([\d.]+) ms each", text)[1]), float(re.search(r"after training +([\d.]+)", text)[1])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--updates", type=int, default=60)
    given = options.parse_args()
    jax = ROOT / ".venv-peers/bin/python"
    if not jax.exists():
        sys.exit("the peers are not installed\n  fix: ./dev bench installs them")
    times = {"Lamina": [], "JAX": []}
    for seed in range(given.rounds):
        for name, python, program in (("Lamina", sys.executable, "examples/python/cartpole.py"), ("JAX", jax, "perf/peers/programs/cartpole_jax.py")):
            each, reached = milliseconds(python, program, given.updates, seed)
            times[name].append(each)
            print(f"{name:<8} seed {seed}: {each:8.1f} ms for an update, mean return {reached:.1f}", flush=True)
    least = {name: min(all) for name, all in times.items()}
    print(f"least: Lamina {least['Lamina']:.1f} ms, JAX {least['JAX']:.1f} ms: Lamina takes {least['Lamina'] / least['JAX']:.2f} of JAX's time")


if __name__ == "__main__":
    main()
