"""Trains two towers that are joined at the end on one logical device, on two, and placed by cost, and compares every bit.

usage: parts.py [--device gpu] [--layers N] [--width N] [--batch ROWS] [--steps N] [--times N] [--json FILE]
A GPU is split into two logical devices (lm.config.set_virtual_devices), or the CPU with --device cpu. Prints, and writes to FILE, the
minimum time of a step in microseconds of each placement. The exit status tells whether the bits are the same.
"""
import argparse, json, sys, time

import numpy as np

import lamina as lm


def train(kind, places, layers, width, xs, steps, times):
    """(microseconds a step, losses, weights) of towers on these devices; ("auto",) leaves the placement to the cost model."""
    first, *_ = lm.config.list_devices(kind)
    automatic = places == ("auto",)
    random = np.random.default_rng(5)
    start = [(np.eye(width) + 0.01 * random.standard_normal((width, width))).astype("float32") for _ in range(2 * layers)]
    towers = []
    for number in range(2):
        with lm.device(first if automatic else places[number % len(places)]):
            towers.append([lm.Variable(w) for w in start[number * layers : (number + 1) * layers]])
    weights = towers[0] + towers[1]
    rule = lm.optim.SGD(0.001)
    rule.build(weights)

    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            halves = []
            for number, tower in enumerate(towers):
                y = x
                for w in tower:
                    if automatic:
                        y = lm.tanh(y @ w)
                    else:
                        with lm.device(places[number % len(places)]):
                            y = lm.tanh(y @ w)
                halves.append(y)
            cost = lm.mean(lm.square(halves[0] - 0.5 * halves[1]))
        gradients = tape.gradient(cost, weights)
        for number, tower in enumerate(towers):  # an update on another device than its weight's would copy both there and back
            own = gradients[number * layers : (number + 1) * layers]
            if automatic:
                rule.apply_gradients(zip(own, tower))
            else:
                with lm.device(places[number % len(places)]):
                    rule.apply_gradients(zip(own, tower))
        return cost

    losses, least = [], float("inf")
    with lm.device(first):
        x = lm.constant(xs)
    with lm.device("auto" if automatic else first):
        for _ in range(times):
            began = time.perf_counter()
            for _ in range(steps):
                cost = step(x)
            losses.append(cost.numpy())
            least = min(least, 1e6 * (time.perf_counter() - began) / steps)
    return least, losses, [w.numpy() for w in weights]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu", type=lambda name: name.partition(":")[0], choices=["gpu", "cpu"])
    options.add_argument("--layers", type=int, default=50)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--times", type=int, default=4)
    options.add_argument("--json")
    o = options.parse_args()
    lm.config.set_virtual_devices(o.device, 2)
    one, other, *_ = lm.config.list_devices(o.device)
    xs = np.random.default_rng(3).standard_normal((o.batch, o.width)).astype("float32")
    figures, wanted, same = {}, None, True
    for name, places in (("one device", (one,)), ("two devices", (one, other)), ("auto", ("auto",))):
        figures[name], losses, weights = train(o.device, places, o.layers, o.width, xs, o.steps, o.times)
        got = [*losses, *weights]
        wanted = wanted or got
        same = same and all(np.array_equal(a, b) for a, b in zip(wanted, got, strict=True))
        print(f"{name}: {figures[name]:.1f} us a step, last loss {float(losses[-1]):.6f}")
    print(f"the bits are {'the same' if same else 'DIFFERENT'}")
    if o.json:
        with open(o.json, "w") as file:
            json.dump({"layers": o.layers, "width": o.width, "batch": o.batch, "us a step": figures}, file, indent=1)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
