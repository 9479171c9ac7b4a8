"""Networks of 64 wide layers at batch 64 on two virtual devices with one thread each, placed by cost, against one device, beside the simulator's times: two towers of
100 layers joined at the end, one chain of 100, and a fan of 8 branches of 12. Then how long placing 1,000 nodes takes, and a plan for 1,024 GPUs. Asserts nothing.

    LAMINA_THREADS=1 PYTHONPATH=build/python python perf/two_towers.py [--seconds 3] [--json]
"""
import argparse
import json
import os
import time

os.environ.setdefault("LAMINA_THREADS", "1")

import numpy as np

import lamina as lm

WIDTH, BATCH = 64, 64
NETWORKS = {"towers": (2, 100), "chain": (1, 100), "fan": (8, 12)}  # branches, layers of each


def network(branches, layers, devices):
    random = np.random.default_rng(0)
    weights = []
    for branch in range(branches):
        with lm.device(devices[branch % len(devices)]):
            weights.append([lm.Variable((random.normal(size=(WIDTH, WIDTH)) / 8).astype(np.float32)) for _ in range(layers)])

    @lm.function
    def joined(x):
        out = None
        for branch in weights:
            y = x
            for w in branch:
                y = lm.tanh(y @ w)
            out = y if out is None else out * y
        return lm.sum(out)

    return joined


def microseconds(calls, seconds):
    """The best and the median of each of `calls`, which take turns."""
    times = [[] for _ in calls]
    for call in calls:
        for _ in range(5):
            call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for call, own in zip(calls, times):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return [(min(own) * 1e6, sorted(own)[len(own) // 2] * 1e6) for own in times]


def placing_ms(layers=250, rounds=5):
    """What "auto" adds to compiling a graph, per 1,000 nodes: two towers of 250 layers have 1,003."""
    x, times = lm.constant(np.zeros((BATCH, WIDTH), np.float32)), {"auto": [], "cpu:0": []}
    for _ in range(rounds):
        for device, own in times.items():
            joined = network(2, layers, ["cpu:0", "cpu:1"] if device == "auto" else ["cpu:0"])
            with lm.device(device):
                joined(x)
                own.append(joined.explain(x).compile_ms)
    return (min(times["auto"]) - min(times["cpu:0"])) / (4 * layers + 3) * 1000


def plan_seconds(gpus=1024, layers=100):
    """explain() of a training step on GPUs that are not there, 8 a host."""
    weights = [lm.Variable(np.zeros((WIDTH, WIDTH), np.float32)) for _ in range(layers)]
    sgd = lm.optim.SGD(0.1)

    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            y = x
            for w in weights:
                y = lm.tanh(y @ w)
            loss = lm.mean(y)
        sgd.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    x = lm.constant(np.zeros((8 * gpus, WIDTH), np.float32))
    began = time.perf_counter()
    step.explain(x, device="null:h100", count=gpus, hosts=gpus // 8)
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="per network")
    parser.add_argument("--json", action="store_true", help="the figures of promises.json alone")
    options = parser.parse_args()
    lm.config.set_virtual_devices("cpu", 2)
    x = lm.constant(np.random.default_rng(1).normal(size=(BATCH, WIDTH)).astype(np.float32))
    errors, gains = [], {}
    for name, (branches, layers) in NETWORKS.items():
        one, two = network(branches, layers, ["cpu:0"]), network(branches, layers, ["cpu:0", "cpu:1"])

        def placed(two=two):
            with lm.device("auto"):
                return two(x).numpy()

        measured = dict(zip(("one device", "placed by cost"), microseconds([lambda one=one: one(x).numpy(), placed], options.seconds)))
        with lm.device("auto"):
            explained = two.explain(x)
        alone = next((us for candidate, us, _ in explained.placements if candidate == "cpu:0 alone" and us is not None), None)
        modelled = {"one device": alone, "placed by cost": explained.modelled_us}
        gains[name] = measured["one device"][0] / measured["placed by cost"][0]
        for what, (best, median) in measured.items():
            if modelled[what] is not None:
                errors.append(100 * (modelled[what] / best - 1))
            if not options.json:
                simulated = "" if modelled[what] is None else f", {modelled[what]:9.0f} us simulated ({errors[-1]:+.0f} % of the best)"
                print(f"{name:8}{what:16}{best:9.0f} us at best, {median:9.0f} us median{simulated}")
        if not options.json:
            print(f"{name:8}gain {gains[name]:.2f}x at best")
    placing, plan = placing_ms(), plan_seconds()
    if options.json:
        print(json.dumps({"placing_ms_per_1000_nodes": round(placing, 1), "plan_1024_gpus_seconds": round(plan, 2),
                          "towers_gain": round(gains["towers"], 2), "chain_gain": round(gains["chain"], 2), "fan_gain": round(gains["fan"], 2),
                          "simulator_error_percent": round(sum(map(abs, errors)) / len(errors), 1)}))
    else:
        print(f"placing: {placing:.1f} ms per 1,000 nodes; plan of a step of 100 layers on 1,024 GPUs: {plan:.2f} s")
        print(f"simulator: mean error {sum(map(abs, errors)) / len(errors):.0f} %; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
