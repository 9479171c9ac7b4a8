"""Every kind of op beside NumPy, and beside PyTorch where it is installed: python perf/ops.py [NAME...] [--seconds S] [--json FILE]

Arrays of 1,000, 30,000 and 1,000,000 elements of float32. The sides alternate in one process, on LAMINA_THREADS threads (1 unless set); a time is the minimum of many calls, of
the processor's time where the sides have one thread, so that other programs disturb it little. The ratio is Lamina's eager call over the
faster of the others; the worst comes first. A ratio above 1.5 is listed with its reason from REASONS, or is marked as unexplained, and the exit status is 1 then.
PyTorch is the one of .venv-peers when that Python runs the script (PYTHONPATH must name Lamina's package).
NumPy must run its best BLAS kernel: see threadpoolctl, or the variable OPENBLAS_CORETYPE.
"""
import argparse
import json
import os
import sys
import time

for one in ("LAMINA_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(one, "1")
import numpy as np  # noqa: E402

import lamina as lm  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

SIZES = (1_000, 30_000, 1_000_000)
LIMIT = 1.5
CALL_US = 1.0  # of an eager call's arguments, checks and result: at 1,000 elements a difference of at most so much is this
# Ops (and sizes, if not all) whose ratio may be above LIMIT, with the reason.
ROUNDED = "rounded correctly or nearly so (at most 0.5 ulp in 2,000,000 draws), the same bits on every processor; NumPy's is off by 1 to 4 ulp"
REASONS = {
    **dict.fromkeys("sinh cosh pow log2 exp2 expm1 log1p tan atan atan2 acos asin asinh atanh sin cos".split(), ROUNDED),
    **dict.fromkeys(("cumprod", "hypot", "diff", "roll", "einsum ii->i", "einsum ij,ij->i", "einsum ij,ij->", "tril", "histogram", "bincount", "norm", "dot"),
                    "composed of several ops, each a call and a pass when eager; traced they are one or two kernels"),
    "matrix times vector": "a row's products are added in the order of its elements, as in every product, whatever its shape: 16 rows side by side, which are turned in registers (64 "
                           "shuffles of vectors for 256 elements, one a cycle); BLAS adds partial sums of a row",
    "astype int32": "numbers beyond the range become its ends, and NaN 0; NumPy's and PyTorch's results for these are the processor's",
    "uniform": "Philox, which gives element i without its predecessors: the same numbers for any number of threads and devices",
    "unique": "by a stable sort with places, since it returns places and inverse too; NumPy sorts values alone",
}

ROWS = {}
rng = np.random.default_rng(0)


def row(name, make, lamina, numpy, pytorch=None):
    """make(n): the arrays, of about n elements; then a function of them for each side."""
    ROWS[name] = (make, lamina, numpy, pytorch)


def vector(n):
    return (rng.standard_normal(n).astype(np.float32),)


def positive(n):
    return (rng.uniform(0.1, 2, n).astype(np.float32),)


def two(n):
    return vector(n) + positive(n)


def whole(n):
    return (rng.integers(0, 100, n).astype(np.int32),)


def sides(n):
    """The sides of a matrix of about n elements that is not square."""
    rows = int(np.sqrt(n))
    return rows, n // rows


def matrix(n):
    return (rng.standard_normal(sides(n)).astype(np.float32),)


def matrices(n):
    return matrix(n) + matrix(n)


def square(n):
    side = int(np.sqrt(n))
    return (rng.standard_normal((side, side)).astype(np.float32),)


def squares(n):
    return square(n) + square(n)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(x):
    mean = x.mean(1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


NAMES = {"atan": "arctan", "asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "atanh": "arctanh", "neg": "negative", "sub": "subtract", "mul": "multiply",
         "div": "divide", "pow": "power", "atan2": "arctan2"}  # Lamina's, which are PyTorch's too, and NumPy's


def elementwise(names, make):
    for name in names.split():
        row(name, make, getattr(lm, name), getattr(np, NAMES.get(name, name)), getattr(torch, name, None))


elementwise("exp log sqrt sin cos tan tanh atan abs neg square floor ceil round sign log1p expm1 log2 exp2 reciprocal isfinite isnan", positive)
elementwise("asin acos sinh cosh asinh atanh", lambda n: (rng.uniform(-0.9, 0.9, n).astype(np.float32),))
elementwise("add sub mul div maximum minimum pow atan2 hypot logaddexp fmod", lambda n: positive(n) + positive(n))
row("greater", two, lm.greater, np.greater, torch and torch.greater)
row("where", lambda n: (rng.standard_normal(n) > 0,) + two(n), lm.where, np.where, torch and torch.where)
row("clip", vector, lambda x: lm.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), torch and (lambda x: torch.clip(x, -0.5, 0.5)))
row("add, a row to each row", lambda n: matrix(n) + vector(sides(n)[1]), lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a + b)
row("add, a column to each column", lambda n: matrix(n) + (vector(sides(n)[0])[0][:, None],), lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a + b)
row("add of a transposed", squares, lambda a, b: a + lm.transpose(b), lambda a, b: a + b.T, lambda a, b: a + b.T)
row("add, int32", lambda n: whole(n) + whole(n), lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a + b)
row("floor_divide, int32", lambda n: whole(n) + (whole(n)[0] + 1,), lambda a, b: a // b, lambda a, b: a // b, lambda a, b: a // b)
row("astype int32", vector, lambda x: lm.astype(x, lm.int32), lambda x: x.astype(np.int32), lambda x: x.int())
row("astype float64", vector, lambda x: lm.astype(x, lm.float64), lambda x: x.astype(np.float64), lambda x: x.double())
row("relu", vector, lm.relu, lambda x: np.maximum(x, 0), torch and torch.relu)
row("sigmoid", vector, lm.sigmoid, lambda x: 1 / (1 + np.exp(-x)), torch and torch.sigmoid)
row("gelu", vector, lm.gelu, lambda x: 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x**3))), torch and torch.nn.functional.gelu)
row("silu", vector, lm.silu, lambda x: x / (1 + np.exp(-x)), torch and torch.nn.functional.silu)
row("softplus", vector, lm.softplus, lambda x: np.log1p(np.exp(x)), torch and torch.nn.functional.softplus)

for name in "sum mean max min prod var std".split():
    function, other = getattr(lm, name), getattr(np, name)
    third = None if torch is None else getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
    everything = torch and {"max": torch.max, "min": torch.min}.get(name, third)
    row(f"{name} of all", vector, function, other, everything)
    for axis in (0, 1):
        if torch is not None and name in ("var", "std"):
            by_axis = lambda x, f=third, a=axis: f(x, dim=a, correction=0)
        else:
            by_axis = torch and (lambda x, f=third, a=axis: f(x, dim=a))
        row(f"{name} along axis {axis}", matrix, lambda x, f=function, a=axis: f(x, axis=a), lambda x, f=other, a=axis: f(x, axis=a), by_axis)
for name in "any all".split():
    row(name, lambda n, every=name == "all": (rng.uniform(0, 1, n) < every,), getattr(lm, name), getattr(np, name), torch and getattr(torch, name))
row("count_nonzero", lambda n: (rng.standard_normal(n) > 0,), lm.count_nonzero, np.count_nonzero, torch and torch.count_nonzero)
for axis in (0, 1):
    row(f"argmax along axis {axis}", matrix, lambda x, a=axis: lm.argmax(x, axis=a), lambda x, a=axis: np.argmax(x, axis=a),
        torch and (lambda x, a=axis: torch.argmax(x, dim=a)))
    row(f"cumsum along axis {axis}", matrix, lambda x, a=axis: lm.cumsum(x, axis=a), lambda x, a=axis: np.cumsum(x, axis=a),
        torch and (lambda x, a=axis: torch.cumsum(x, dim=a)))
row("cumprod", matrix, lambda x: lm.cumprod(x, axis=1), lambda x: np.cumprod(x, axis=1), torch and (lambda x: torch.cumprod(x, dim=1)))
row("logsumexp", matrix, lambda x: lm.logsumexp(x, axis=1), lambda x: np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1),
    torch and (lambda x: torch.logsumexp(x, dim=1)))
row("softmax", matrix, lm.softmax, softmax, torch and (lambda x: torch.softmax(x, dim=1)))
row("log_softmax", matrix, lm.log_softmax, lambda x: np.log(softmax(x)), torch and (lambda x: torch.log_softmax(x, dim=1)))
row("softmax along axis 0", matrix, lambda x: lm.softmax(x, axis=0), lambda x: softmax(x.T).T, torch and (lambda x: torch.softmax(x, dim=0)))
row("layer_norm", matrix, lambda x: lm.layer_norm(x, lm.ones([x.shape[1]]), lm.zeros([x.shape[1]])), layer_norm,
    torch and (lambda x: torch.nn.functional.layer_norm(x, (x.shape[1],))))
row("norm", vector, lm.norm, np.linalg.norm, torch and torch.linalg.norm)

row("matmul", squares, lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b)
row("matmul of a transposed", squares, lambda a, b: lm.transpose(a) @ b, lambda a, b: a.T @ b, lambda a, b: a.T @ b)
row("matrix times vector", lambda n: square(n) + vector(int(np.sqrt(n))), lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b)
row("matmul of many 8 x 8", lambda n: (rng.standard_normal((n // 64 + 1, 8, 8)).astype(np.float32),) * 2, lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b)
row("dot", two, lm.dot, np.dot, torch and torch.dot)
row("outer", lambda n: two(int(np.sqrt(n))), lm.outer, np.outer, torch and torch.outer)
for formula in ("ij,ij->i", "ij,ij->", "ij->j", "ii->i", "ij,kj->ik"):
    make = squares if "," in formula else square
    row(f"einsum {formula}", make, lambda *a, f=formula: lm.einsum(f, *a), lambda *a, f=formula: np.einsum(f, *a, optimize=len(a) > 1 and "k" in f),
        torch and (lambda *a, f=formula: torch.einsum(f, *a)))

row("concat", matrices, lambda a, b: lm.concat([a, b], 1), lambda a, b: np.concatenate([a, b], 1), torch and (lambda a, b: torch.cat([a, b], 1)))
row("stack", matrices, lambda a, b: lm.stack([a, b], 1), lambda a, b: np.stack([a, b], 1), torch and (lambda a, b: torch.stack([a, b], 1)))
row("transpose", square, lambda x: lm.transpose(x), lambda x: np.ascontiguousarray(x.T), lambda x: x.T.contiguous())
row("flip", matrix, lambda x: lm.flip(x, 1), lambda x: np.ascontiguousarray(np.flip(x, 1)), torch and (lambda x: torch.flip(x, (1,))))
row("roll", matrix, lambda x: lm.roll(x, 1, 1), lambda x: np.roll(x, 1, 1), torch and (lambda x: torch.roll(x, 1, 1)))
row("repeat", matrix, lambda x: lm.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1), torch and (lambda x: torch.repeat_interleave(x, 2, 1)))
row("tile", matrix, lambda x: lm.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1)), lambda x: x.tile((2, 1)))
row("pad", matrix, lambda x: lm.pad(x, ((1, 1), (1, 1))), lambda x: np.pad(x, 1), torch and (lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1))))
row("tril", square, lm.tril, np.tril, torch and torch.tril)
row("slice", matrix, lambda x: x[1:-1, ::2], lambda x: np.ascontiguousarray(x[1:-1, ::2]), lambda x: x[1:-1, ::2].contiguous())
row("take of rows", lambda n: matrix(n) + (rng.integers(0, sides(n)[0], sides(n)[0]),), lambda x, i: lm.take(x, i, 0), lambda x, i: np.take(x, i, 0),
    lambda x, i: x[i])
row("take of elements", lambda n: vector(n) + (rng.integers(0, n, n),), lambda x, i: lm.take(x, i, 0), np.take, lambda x, i: x[i])
row("take_along_axis", lambda n: matrix(n) + (rng.integers(0, sides(n)[1], sides(n)),), lambda x, i: lm.take_along_axis(x, i, 1),
    lambda x, i: np.take_along_axis(x, i, 1), torch and (lambda x, i: torch.take_along_dim(x, i, 1)))
row("scatter_add", lambda n: vector(n) + (rng.integers(0, n, n),), lambda x, i: lm.scatter_add(x, i, (len(i),)), lambda x, i: np.bincount(i, x, len(i)),
    torch and (lambda x, i: torch.zeros(len(i)).index_add_(0, i, x)))
row("one_hot", lambda n: (rng.integers(0, 50, n // 50),), lambda i: lm.one_hot(i, 50), lambda i: np.eye(50, dtype=np.float32)[i])
row("sort", matrix, lambda x: lm.sort(x, axis=1), lambda x: np.sort(x, 1), torch and (lambda x: torch.sort(x, 1)[0]))
row("sort of all", vector, lm.sort, np.sort, torch and (lambda x: torch.sort(x)[0]))
row("sort along axis 0", matrix, lambda x: lm.sort(x, axis=0), lambda x: np.sort(x, 0), torch and (lambda x: torch.sort(x, 0)[0]))
row("sort, int32", whole, lm.sort, np.sort, torch and (lambda x: torch.sort(x)[0]))
row("argsort", matrix, lambda x: lm.argsort(x, axis=1), lambda x: np.argsort(x, 1, stable=True), torch and (lambda x: torch.argsort(x, 1, stable=True)))
row("top_k of 5", matrix, lambda x: lm.top_k(x, 5), lambda x: np.argpartition(x, -5, 1)[:, -5:], torch and (lambda x: torch.topk(x, 5)))
row("unique", whole, lambda x: lm.unique(x, size=100), np.unique, torch and torch.unique)
row("searchsorted", lambda n: (np.sort(vector(n)[0]),) + vector(n), lm.searchsorted, np.searchsorted, torch and torch.searchsorted)
row("median", matrix, lambda x: lm.median(x, axis=1), lambda x: np.median(x, 1), torch and (lambda x: torch.quantile(x, 0.5, dim=1)))
row("bincount", whole, lambda x: lm.bincount(x, length=100), lambda x: np.bincount(x, minlength=100), torch and (lambda x: torch.bincount(x, minlength=100)))
row("histogram", vector, lambda x: lm.histogram(x, bins=10), lambda x: np.histogram(x, bins=10), torch and (lambda x: torch.histogram(x, bins=10)))
row("diff", matrix, lambda x: lm.diff(x, axis=1), lambda x: np.diff(x, axis=1), torch and (lambda x: torch.diff(x, dim=1)))
row("uniform", lambda n: (np.zeros(n, np.float32),), lambda x: lm.random.uniform(x.shape), lambda x: generator.random(len(x), dtype=np.float32),
    torch and (lambda x: torch.rand(len(x))))
row("normal", lambda n: (np.zeros(n, np.float32),), lambda x: lm.random.normal(x.shape), lambda x: generator.standard_normal(len(x), dtype=np.float32),
    torch and (lambda x: torch.randn(len(x))))
row("conv2d of 3 x 3, 8 to 8", lambda n: (rng.standard_normal((1, int(np.sqrt(n / 8)), int(np.sqrt(n / 8)), 8)).astype(np.float32),
                                          rng.standard_normal((3, 3, 8, 8)).astype(np.float32)), lm.conv2d, None,
    torch and (lambda x, w: torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1))))
row("max_pool2d", lambda n: (rng.standard_normal((1, int(np.sqrt(n / 8)), int(np.sqrt(n / 8)), 8)).astype(np.float32),), lambda x: lm.max_pool2d(x, 2), None,
    torch and (lambda x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2)))
generator = np.random.default_rng(1)


clock = time.thread_time if lm.config.threads() == 1 else time.perf_counter


def measure(functions, seconds):
    """Microseconds of each function: the minimum over calls that alternate for about this long."""
    best, calls = [float("inf")] * len(functions), [1] * len(functions)
    for i, f in enumerate(functions):  # blocks of calls of about 50 us
        for _ in range(3):
            begin = clock()
            f()
            took = clock() - begin
        calls[i] = max(1, int(50e-6 / max(took, 1e-7)))
    end = time.perf_counter() + seconds
    while True:
        for i, f in enumerate(functions):
            begin = clock()
            for _ in range(calls[i]):
                f()
            best[i] = min(best[i], (clock() - begin) / calls[i] * 1e6)
        if time.perf_counter() > end:
            return best


def survey(names, seconds):
    for name in names or ROWS:
        make, lamina, numpy, pytorch = ROWS[name]
        for n in SIZES:
            arrays = make(n)
            tensors = [lm.constant(a) for a in arrays]
            works = {"lamina": lambda: lamina(*tensors)}
            if numpy:
                works["numpy"] = lambda: numpy(*arrays)
            if torch is not None and pytorch:
                others = [torch.from_numpy(a) for a in arrays]
                works["pytorch"] = lambda: pytorch(*others)
            if len(works) > 1:
                us = dict(zip(works, measure(list(works.values()), seconds)))
                yield {"op": name, "elements": n, **{side: round(t, 2) for side, t in us.items()},
                       "ratio": round(us["lamina"] / min(t for side, t in us.items() if side != "lamina"), 2)}


def reason(result):
    for key in (f"{result['op']}, {result['elements']}", result["op"]):
        if key in REASONS:
            return REASONS[key]
    others = [us for us in (result.get("numpy"), result.get("pytorch")) if us]
    if result["elements"] == 1_000 and result["lamina"] - min(others) <= CALL_US:
        return "the call itself"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="ops to measure; all without one")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each op and size")
    parser.add_argument("--json", help="file to write the results to")
    asked = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(lm.config.threads())
    results = sorted(survey(asked.names, asked.seconds), key=lambda r: -r["ratio"])
    print(f"{'ratio':>6} {'elements':>9} {'Lamina us':>10} {'NumPy us':>10} {'PyTorch us':>10}  op")
    for r in results:
        why = reason(r) or ("unexplained" if r["ratio"] > LIMIT else "") if r["ratio"] > LIMIT else ""
        print(f"{r['ratio']:6.2f} {r['elements']:9,} {r['lamina']:10.1f} {r.get('numpy', float('nan')):10.1f} {r.get('pytorch', float('nan')):10.1f}  {r['op']}{'   ! ' + why if why else ''}")
    if asked.json:
        with open(asked.json, "w") as f:
            json.dump(results, f, indent=1)
    return any(r["ratio"] > LIMIT and not reason(r) for r in results)


if __name__ == "__main__":
    sys.exit(main())
