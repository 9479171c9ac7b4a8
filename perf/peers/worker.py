"""Shared by all measured programs: the networks, and the protocol of preparing and measuring on request.

One line of JSON in ({"what": "step", "seconds": 0.3}), one line out ({"what": "step", "microseconds": [...]}, one mean per block of calls).
../bench.py sends requests to the programs in turn, so that changes of the machine's speed affect all alike.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time

CLASSES = 10
LOOP = 1000  # iterations of a measured loop
# Further measurements that programs may support, besides the network's step and forward pass.
CALLS = ("cached_call", "cached_call_numpy", "cached_call_200", "eager_op")
LOOPS = ("loop_numbers", "loop_op", "loop_written", "loop_dense", "scan_gradient", "step_4000", "fit")
TRACES = ("trace_and_compile", "trace_10000", "first_call_4000", "first_call_10000")
SCAN, CARRIES = 614, 80  # of "scan_gradient": so many steps, so many numbers
MATMULS = (16, 32, 64, 128, 256, 512, 1024, 2048)  # size of matmul_worker.py's matrices
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7  # of Adam


@dataclasses.dataclass(frozen=True)
class Network:
    """Dense layers: inputs -> widths[0] -> ... -> CLASSES, with dropout before the last when rate > 0."""
    inputs: tuple
    widths: tuple
    activation: str = "relu"
    rate: float = 0.0
    optimizer: str = "sgd"
    learning_rate: float = 0.003
    copies: int = 1  # trained side by side on one batch: vmap

    @property
    def layers(self):
        """(inputs, outputs) of every dense layer."""
        first = 1
        for n in self.inputs:
            first *= n
        sizes = (first, *self.widths, CLASSES)
        return list(zip(sizes, sizes[1:]))

    def flops(self, batch):
        """Operations of a forward pass and of a step (a multiply-add counts as two), without the gradient of the first layer's input and
        the update."""
        products = [2.0 * batch * k * n * self.copies for k, n in self.layers]
        return {"forward": sum(products), "step": 3 * sum(products) - products[0]}


NETWORKS = {
    "hundred": Network((28, 28), (64,) * 100, rate=0.2),
    "tanh60": Network((48,), (48,) * 60, "tanh"),
    "gelu30": Network((128,), (128,) * 30, "gelu"),
    "adam200": Network((32,), (32,) * 200, optimizer="adam", learning_rate=1e-4),
    "narrow150": Network((40,), (40,) * 150),
    "uneven": Network((50,), tuple(20 + 37 * i % 181 for i in range(40))),
    "ensemble": Network((64,), (64,) * 5, copies=16),
}


def arguments(forms):
    """A worker's arguments: THREADS NETWORK BATCH [FORM]."""
    parser = argparse.ArgumentParser()
    parser.add_argument("threads", type=int)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("batch", type=int)
    parser.add_argument("form", nargs="?", choices=forms, default=forms[0])
    return parser.parse_args()


def pin(threads):
    """Pins this process to as many cores as it may use threads; call it before importing a framework that creates threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


@contextlib.contextmanager
def importing():
    """Times an import. NumPy, which all of them need, has been imported already."""
    import numpy  # noqa: F401
    took, start = {}, time.perf_counter()
    yield took
    took["import_s"] = round(time.perf_counter() - start, 3)


def start_weights(network, seed=0):
    """(weight, bias) pairs. Relu networks: mirrored orthogonal ("looks linear"), so that activations neither vanish nor grow; otherwise
    orthogonal."""
    import numpy as np
    draw = np.random.default_rng(seed)

    def orthogonal(rows, columns):
        q, r = np.linalg.qr(draw.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        return q if rows >= columns else q.T

    weights, sizes = [], network.layers
    for layer, (rows, columns) in enumerate(sizes):
        mirrored = network.activation == "relu" and columns % 2 == 0 and (layer == 0 or rows % 2 == 0) and layer < len(sizes) - 1
        if not mirrored:
            weights.append(orthogonal(rows, columns))
        elif layer == 0:
            q = orthogonal(rows, columns // 2)
            weights.append(np.hstack([q, -q]))
        else:
            q = orthogonal(rows // 2, columns // 2)
            weights.append(np.block([[q, -q], [-q, q]]))
    return [(w.astype("float32"), np.zeros(w.shape[1], "float32")) for w in weights]


def batch(network, size, seed=1):
    """Inputs [size, ...] in 0..1 and labels [size]."""
    import numpy as np
    draw = np.random.default_rng(seed)
    return draw.random((size, *network.inputs), "float32"), draw.integers(0, CLASSES, size).astype("int32")


def leaves(make):
    """A dict of 20 lists of 10 arrays: the argument of "cached_call_200", which uses one of them."""
    return {f"layer_{i}": [make(4) for _ in range(10)] for i in range(20)}


def loop_weights():
    """x [20, 64] and w [64, 64] of the loop `x = relu(x @ w)`, whose size stays constant."""
    import numpy as np
    draw = np.random.default_rng(2)
    q, _ = np.linalg.qr(draw.standard_normal((32, 32)))
    return draw.random((20, 64), "float32"), np.block([[q, -q], [-q, q]]).astype("float32")


def resident_mb():
    """Current resident memory of this process in megabytes."""
    with open("/proc/self/statm") as f:
        return round(int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def serve(about, work):
    """`work` maps a name to a function of n that makes n calls (or more, and returns how many), and returns when their results are there."""
    calls = {}
    for name, run in work.items():
        start = time.perf_counter()
        run(1)
        about[f"first_{name}_s"] = round(time.perf_counter() - start, 3)
        start = time.perf_counter()
        run(2)
        calls[name] = 1
        if time.perf_counter() - start < 0.2:
            start = time.perf_counter()
            done = run(10) or 10
            calls[name] = max(1, int(0.005 * done / (time.perf_counter() - start)))
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "resident_mb":
            print(json.dumps({"what": "resident_mb", "value": resident_mb()}), flush=True)
            continue
        run, n, means = work[request["what"]], calls[request["what"]], []
        end = time.perf_counter() + request["seconds"]
        while time.perf_counter() < end:
            start = time.perf_counter()
            done = run(n) or n
            means.append((time.perf_counter() - start) / done * 1e6)
        print(json.dumps({"what": request["what"], "microseconds": means}), flush=True)
