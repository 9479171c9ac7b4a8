"""Calls every public function, class and method of Lamina with hostile and half-sensible values: eager, traced, under a tape, vmap and
grad. A call may return a value or raise an error of Lamina; nothing else. Each batch runs in a process of its own, with limits on
memory and time.

usage: fuzz_border.py [CALLS] [SEED]
"""
import concurrent.futures
import faulthandler
import inspect
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings

BATCH = 100  # calls per process
SECONDS = 30  # per call
MEMORY = 6 << 30  # bytes of address space per process

# Not called: they end or change the process, wait for input, or run their arguments on purpose.
LEFT_OUT = {"lamina.profiler.trace", "lamina.profiler.start", "lamina.profiler.stop", "lamina.config.set_threads", "lamina.data.read_idx", "lamina.save", "lamina.load"}
# Record classes, which are public only to be named.
MADE_BY_LAMINA = ("lamina.Explanation", "lamina.profiler.DeviceStep", "lamina.profiler.TimedRange")


class Hostile(Exception):
    """Raised by hostile values; any call may raise it."""


def values(lm, np, rng):
    """One value, half-sensible or hostile."""
    class Raising:
        def __getattr__(self, name):
            raise Hostile(name)

        def __iter__(self):
            raise Hostile("iter")

        def __repr__(self):
            raise Hostile("repr")

        def __hash__(self):
            raise Hostile("hash")

        def __eq__(self, other):
            raise Hostile("eq")

        def __index__(self):
            raise Hostile("index")

    class Long:
        def __len__(self):
            return rng.choice([0, 3, 2**62])

        def __getitem__(self, i):
            if i > 2000:
                raise IndexError(i)
            return i

    class LyingList(list):
        def __iter__(self):
            return iter(range(7))

        def __len__(self):
            return 10**12

    def cyclic():
        one = [lm.ones(2)]
        one.append(one)
        return one

    def deep():
        one = lm.ones(2)
        for _ in range(rng.choice([3, 300, 5000])):
            one = rng.choice([[one], (one,), {"a": one}])
        return one

    shape = rng.choice([(), (1,), (3,), (0,), (2, 3), (3, 3), (2, 0, 3), (1, 4, 4, 2), (2, 1)])
    dtype = rng.choice(["float32", "float64", "int32", "int64", "bool", "uint8", "float16", "bfloat16"])
    array = np.array(rng.choices([0, 1, -1, 2, 0.5, 1e30, float("nan"), float("inf")], k=int(np.prod(shape)))).reshape(shape)
    makers = [
        lambda: lm.astype(lm.constant(np.nan_to_num(array.astype("float32"))), dtype), lambda: lm.constant(array.astype("float32")),
        lambda: lm.ones(shape), lambda: lm.ones((3,)), lambda: lm.ones((2, 3)), lambda: lm.zeros(shape, dtype=dtype), lambda: lm.Variable(lm.ones(shape), name="v"),
        lambda: array.astype("float32"), lambda: array.astype("float64"), lambda: np.asfortranarray(np.ones((2, 3))), lambda: np.ones(3, ">f4"), lambda: np.array(["a"]),
        lambda: np.array([object()]), lambda: np.float32(2), lambda: np.int64(-1), lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        lambda: rng.choice([0, 1, -1, 2, 3, 2**31, 2**62, 2**63 - 1, -2**63, 2**64, 10**5000]), lambda: rng.choice([0, 1, 2, -1]), lambda: rng.choice([0, 1, 2, -1]),
        lambda: rng.choice([0.0, -0.0, 0.5, 1e308, float("nan"), float("inf")]), lambda: rng.choice([True, False]), lambda: None,
        lambda: rng.choice(["", "float32", "same", "valid", "mse", "relu", "x", "\0", "é" * 3, "\ud800", "a" * 10000, "cpu:0", "gpu:0", "null:h100", "ij,jk->ik", "{}"]),
        lambda: rng.choice([lm.float32, lm.int32, lm.bfloat16, int, float, object]), lambda: b"bytes", lambda: bytearray(b"abcd"), lambda: memoryview(b"abcd"), lambda: 1j,
        lambda: rng.choice([(), (1,), (2, 3), (0, 1), (-1,), (2**40,), (2**62, 2**62), [1, [2]], [], [[]], [[1.0, 2.0], [3.0, 4.0]], [1, "a"]]),
        lambda: [lm.ones(3), lm.ones(3)], lambda: (lm.ones(2), lm.zeros(2, dtype="int32")), lambda: {"a": lm.ones(2), "b": [1]}, lambda: {1: 2, None: 3}, lambda: set(), cyclic, deep,
        lambda: slice(None, rng.choice([None, 1, 2**70]), rng.choice([None, -1, 0])), lambda: ..., lambda: Raising(), lambda: Long(), lambda: LyingList([1.0]),
        lambda: (lambda *a, **k: a[0] if a else 1.0), lambda: (lambda x: x * x), lambda: (lambda: lm.ones(2)), lambda: (lambda *a: None), lambda: len,
        lambda: lm.function(lambda x: x + 1), lambda: lm.TensorSpec([None, 3]), lambda: lm.nn.Dense(2), lambda: lm.optim.SGD(0.1), lambda: lm.losses.MeanSquaredError(),
        lambda: lm.GradientTape(), lambda: lm.data.Dataset.from_tensor_slices(np.ones((4, 3), "float32")), lambda: lm.nn.Sequential([lm.nn.Dense(2)]),
        lambda: lm.Tensor, lambda: lm.Variable.__new__(lm.Variable), lambda: lm.Tensor.__new__(lm.Tensor), lambda: lm, lambda: range(3), lambda: iter([1, 2]),
    ]
    return rng.choice(makers)()


# Methods called by Python's syntax, and their number of arguments.
PROTOCOLS = {"__call__": None, "__getitem__": 1, "__array__": 0, "__format__": 1, "__iter__": 0, "__len__": 0, "__enter__": 0, "__round__": 0, "__add__": 1, "__matmul__": 1,
             "__pow__": 1, "__eq__": 1, "__index__": 0, "__dlpack__": 0, "__contains__": 1, "__iadd__": 1}


def surface():
    """Every public callable by name: functions, classes, and their methods and properties, except those inherited from Python."""
    import public_surface  # imports Lamina: in a batch's process
    found = {name: value for name, value in public_surface.callables() if name not in LEFT_OUT}
    for full, owner in list(found.items()):
        for name in sorted(dir(owner)) if isinstance(owner, type) else ():
            definer = next((c for c in owner.__mro__ if name in vars(c)), object)
            if (not name.startswith("_") or name in PROTOCOLS) and definer.__module__.startswith("lamina"):
                found[f"{full}.{name}"] = (owner, name)
    return {name: target for name, target in found.items() if not name.startswith(MADE_BY_LAMINA)}


def arguments(target, make, rng):
    protocol = PROTOCOLS.get(getattr(target, "__name__", None))
    if protocol is not None:
        return [make() for _ in range(protocol)], {}
    try:
        signature = inspect.signature(target)
        wanted = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
        optional = [p.name for p in signature.parameters.values() if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY]
        count = len(wanted) if rng.random() < 0.85 else rng.randrange(5)
    except (TypeError, ValueError):
        text = (getattr(target, "__doc__", "") or "").split("\n")[0]
        inside = text[text.find("(") + 1:text.rfind(")")] if "(" in text else ""
        parts = [p.strip() for p in inside.split(", ") if p.strip() and not p.startswith("self")]
        optional = [p.split(":")[0].strip() for p in parts if "=" in p and p[0].isalpha()]
        needed = sum("=" not in p and p not in ("*", "/") for p in parts)
        count = needed if needed and rng.random() < 0.85 else rng.randrange(4)
    named = {name: make() for name in optional if rng.random() < 0.25}
    if rng.random() < 0.02:
        named["no_such_name"] = 1
    return [make() for _ in range(count)], named


MODES = ["eager", "eager", "traced", "tape", "vmap", "grad"]


def run(lm, mode, call, args, named):
    if mode == "traced":
        return lm.function(lambda *a: call(*a, **named))(*args)
    if mode == "tape":
        with lm.GradientTape(persistent=True) as tape:
            for a in args:
                if isinstance(a, (lm.Tensor, lm.Variable)):
                    tape.watch(a)
            out = call(*args, **named)
        sources = [a for a in args if isinstance(a, (lm.Tensor, lm.Variable))]
        return tape.gradient(out, sources) if sources and isinstance(out, lm.Tensor) else out
    if mode == "vmap":
        return lm.vmap(lambda *a: call(*a, **named))(*args)
    if mode == "grad":
        return lm.grad(lambda *a: call(*a, **named))(*args)
    return call(*args, **named)


# Errors with a general meaning, or raised by values: any call may raise them.
STAY = (Hostile, StopIteration, KeyboardInterrupt, RecursionError, UnicodeError, OSError, Warning)


def of_a_value(error):
    """Whether a value's code, or a function passed to Lamina, raised the error: the last frame is not Lamina's, but follows one that is."""
    package = os.sep + "lamina" + os.sep
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return bool(files) and package not in files[-1] and any(package in file for file in files) or files[-1:] == [__file__] and files.count(__file__) > 3


def foreign(lm, error):
    """Why a user should not see this error; None if it is fine."""
    if isinstance(error, lm.errors.InternalError):
        return str(error)
    if isinstance(error, (lm.errors.Error, *STAY)):
        return None
    seen, one = set(), error
    while one is not None and id(one) not in seen:
        if isinstance(one, Hostile):
            return None
        seen.add(id(one))
        one = one.__cause__ or one.__context__
    return None if of_a_value(error) else str(error) or repr(error)


def name_of(names, seed):
    return random.Random(seed).choice(names)


def one_call(lm, np, targets, names, seed):
    rng = random.Random(seed)
    rng.choice(names)
    name = name_of(names, seed)
    target, mode = targets[name], rng.choice(MODES)

    def make():
        return values(lm, np, rng)

    if isinstance(target, tuple):
        owner, method = target
        half = rng.random() < 0.1
        if half:
            instance = owner.__new__(owner)
        else:
            own, named = arguments(owner, make, rng)
            if owner in (lm.Tensor, lm.Variable):
                instance = lm.ones((2, 3)) if owner is lm.Tensor else lm.Variable(lm.ones((2, 3)))
            else:
                instance = owner(*own, **named)
        static = inspect.getattr_static(owner, method)
        if not callable(static) and not isinstance(static, (classmethod, staticmethod)):  # a property, whose AttributeError hasattr() expects
            getattr(instance, method, None)
            return name, mode
        call = getattr(instance, method)
    else:
        call = target
    args, named = arguments(call, make, rng)
    result = run(lm, mode, call, args, named)
    if rng.random() < 0.3 and type(result).__module__.startswith("lamina"):  # the text of a list of the caller's values is Python's
        str(result)
    return name, mode


def batch(first, count, report):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import numpy as np

    import lamina as lm

    targets = surface()
    names = sorted(targets)
    sys.stdout = open(os.devnull, "w")
    for seed in range(first, first + count):
        os.write(report, f"{seed}\n".encode())
        faulthandler.dump_traceback_later(SECONDS - 2, exit=False)
        signal.alarm(SECONDS)
        try:
            one_call(lm, np, targets, names, seed)
        except BaseException as error:  # noqa: BLE001
            try:
                name = name_of(names, seed)
                why = foreign(lm, error)
            except BaseException:  # noqa: BLE001
                why = "its text cannot be read"
            if why is not None:
                os.write(report, f"! {seed} {name}: {type(error).__name__}: {' '.join(why.split())[:200]}\n".encode("utf-8", "replace"))
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def failures_of(first, count):
    bad = []
    while count > 0:
        reader, writer = os.pipe()
        with tempfile.TemporaryDirectory() as folder:  # calls write files under the names that they are given
            child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--batch", str(first), str(count), str(writer)], stderr=subprocess.PIPE, text=True,
                                     errors="replace", pass_fds=(writer,), cwd=folder,
                                     env=dict(os.environ, LAMINA_THREADS="2", PYTHONPATH=os.pathsep.join(map(os.path.abspath, sys.path))))
            os.close(writer)
            # Both pipes are read to their ends, so the child never waits for this process.
            with os.fdopen(reader, errors="replace") as lines:
                reports = lines.read().splitlines()
            errors = child.stderr.read()
            status = child.wait()
        bad += [line[2:] for line in reports if line.startswith("!")]
        last = max((int(line) for line in reports if line.isdigit()), default=first)
        if status == 0 and last == first + count - 1:
            break
        how = f"signal {-status}" if status < 0 else f"exit {status}"
        bad.append(f"{last} {how}: {' | '.join(line.strip() for line in errors.splitlines()[:12])[:900]}")
        count -= last + 1 - first
        first = last + 1
    return bad


def fuzz(calls, seed):
    """The failures, as lines that start with the seed of the call."""
    first = range(seed, seed + calls, BATCH)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(failures_of, first, [min(BATCH, seed + calls - f) for f in first]), [])


def main():
    if sys.argv[1:2] == ["--batch"]:
        batch(*map(int, sys.argv[2:5]))
        return
    if sys.argv[1:2] == ["--one"]:  # in this process, to look at
        import numpy as np

        import lamina as lm
        targets = surface()
        print(one_call(lm, np, targets, sorted(targets), int(sys.argv[2])))
        return
    calls, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 300, int(sys.argv[2]) if len(sys.argv) > 2 else 1
    bad = fuzz(calls, seed)
    print("\n".join(bad))
    print(f"{calls} calls from seed {seed}: {len(bad)} bad")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
