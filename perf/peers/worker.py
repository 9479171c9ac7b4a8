"""What every measured program has in common: it prepares itself, says so, and then measures on request.

One line of JSON in ({"what": "step", "seconds": 0.3}), one line out ({"what": "step", "microseconds": [...]}, one mean per block of calls).
Requests come in turns from ../bench.py, so that a change of the machine's speed meets all programs alike.
"""
import contextlib
import json
import os
import sys
import time

LAYERS, WIDTH, CLASSES, PIXELS, RATE, LEARNING_RATE = 100, 64, 10, 784, 0.2, 0.003


def pin(threads):
    """Leaves this process as many cores as it may use threads; must run before a framework is imported and makes its threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


@contextlib.contextmanager
def importing():
    """Times an import, by itself: NumPy, which every one of them needs, is there already."""
    import numpy  # noqa: F401
    took, start = {}, time.perf_counter()
    yield took
    took["import_s"] = round(time.perf_counter() - start, 3)


def looks_linear_weights(seed=0):
    """(weight, bias) pairs of the benchmark network: mirrored orthogonal, so that activations neither vanish nor grow."""
    import numpy as np
    draw = np.random.default_rng(seed)

    def orthogonal(rows, columns):
        q, r = np.linalg.qr(draw.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        return q if rows >= columns else q.T

    weights = []
    for layer in range(LAYERS):
        q = orthogonal(PIXELS if layer == 0 else WIDTH // 2, WIDTH // 2)
        weights.append(np.hstack([q, -q]) if layer == 0 else np.block([[q, -q], [-q, q]]))
    weights.append(orthogonal(WIDTH, CLASSES))
    return [(w.astype("float32"), np.zeros(w.shape[1], "float32")) for w in weights]


def batch(size, seed=1):
    """Images [size, 28, 28] in 0..1 and labels [size]."""
    import numpy as np
    draw = np.random.default_rng(seed)
    return draw.random((size, 28, 28), "float32"), draw.integers(0, CLASSES, size).astype("int32")


def serve(about, work):
    """`work` maps a name to a function of n that makes n calls and returns when their results are there."""
    calls = {}
    for name, run in work.items():
        start = time.perf_counter()
        run(1)
        about[f"first_{name}_s"] = round(time.perf_counter() - start, 3)
        run(10)
        start = time.perf_counter()
        run(10)
        calls[name] = max(1, int(0.005 * 10 / (time.perf_counter() - start)))
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        run, n, means = work[request["what"]], calls[request["what"]], []
        end = time.perf_counter() + request["seconds"]
        while time.perf_counter() < end:
            start = time.perf_counter()
            run(n)
            means.append((time.perf_counter() - start) / n * 1e6)
        print(json.dumps({"what": request["what"], "microseconds": means}), flush=True)
