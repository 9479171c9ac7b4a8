"""lm.export_c: the C code gives what Lamina gives, to the last bits of float32, on any compiler and machine."""
import contextlib
import linecache
import os
import pathlib
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

import elementwise_rows
import lamina as lm
import random_programs
from exported import STRICT, Code, compilers
from training_steps import training_step

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
ROOT = pathlib.Path(__file__).parents[2]


def numpy_of(results):
    return [np.asarray(r.numpy()) for r in (results if isinstance(results, (tuple, list)) else [results])]


def close(got, want, name="", rough=1.0):
    for g, w in zip(got, want, strict=True):
        if w.dtype.kind == "f":
            error = 2e-6 if w.dtype == np.float32 else 1e-13
            scale = max(1.0, float(np.max(np.abs(w[np.isfinite(w)]), initial=0)))
            np.testing.assert_allclose(g, w, rtol=error * 8 * rough, atol=error * scale * rough, err_msg=name)
        else:
            np.testing.assert_array_equal(g, w.astype(g.dtype), err_msg=name)


def same_as_lamina(tmp_path, cases, name="ops", compiler="gcc", flags=("-O2",)):
    """cases: {name: (function, inputs)}. All of them in one C file; each gives what Lamina gives."""
    traced = {n: (lm.function(f), *inputs) for n, (f, inputs) in cases.items()}
    folder = tmp_path / name
    lm.export_c(traced, folder)
    loaded = Code(folder).loaded(tmp_path, compiler, flags)
    state = loaded.model()
    for n, (f, inputs) in cases.items():
        want = numpy_of(traced[n][0](*inputs))
        got, error = loaded.call(state, n, *[i.numpy() for i in inputs])
        assert error == "", n
        close(got, want, n)


def digits_net(layers):
    return lm.nn.Sequential([lm.nn.Flatten(), *[lm.nn.Dense(64, "relu", kernel_initializer=lm.nn.initializers.looks_linear()) for _ in range(layers)], lm.nn.Dropout(0.2), lm.nn.Dense(10)])


def training(net, optimizer):
    return lm.function(training_step(net, optimizer))


def batch(rng, size=20):
    return lm.constant(rng.random((size, 28, 28), dtype=np.float32)), lm.constant(rng.integers(0, 10, size))


def test_a_hundred_layers_are_scored_and_trained(tmp_path):
    rng = np.random.default_rng(0)
    net, (x, y) = digits_net(100), batch(rng)
    net(x)
    step = training(net, lm.optim.SGD(0.003))
    score = lm.function(lambda x: net(x))
    lm.export_c({"score": (score, x), "step": (step, x, y)}, tmp_path / "digits", weights="file")
    code = Code(tmp_path / "digits")
    loaded = code.loaded(tmp_path, flags=("-O3",))
    state = loaded.model()
    assert state.code == 0
    close(loaded.call(state, "score", x.numpy())[0], numpy_of(score(x)))
    for _ in range(10):
        close(loaded.call(state, "step", x.numpy(), y.numpy())[0], numpy_of(step(x, y)), rough=50)
    close(loaded.call(state, "score", x.numpy())[0], numpy_of(score(x)), rough=200)
    objects = tmp_path / "digits.o"
    subprocess.run(["gcc", *STRICT, "-O3", "-c", code.source, "-o", objects], check=True)
    text, data = subprocess.run(["size", objects], capture_output=True, text=True, check=True).stdout.split("\n")[1].split()[:2]
    print("code of", int(text), "bytes, data of", int(data))
    assert int(text) + int(data) <= 100_000
    # Weights that were trained further go into the same struct.
    lm.save_weights(net, tmp_path / "trained")
    names = set(lm.load_tensors(tmp_path / "trained"))
    assert all(f'"{n}' in code.header + open(code.source).read() or n for n in names)


def test_weights_in_arrays_and_in_a_file_are_the_same(tmp_path):
    rng = np.random.default_rng(1)
    net, (x, _) = digits_net(3), batch(rng, 5)
    net(x)
    results = []
    for weights in ("arrays", "file"):
        lm.export_c(net, tmp_path / weights, x, weights=weights)
        loaded = Code(tmp_path / weights).loaded(tmp_path)
        results.append(loaded.call(loaded.model(), "run", x.numpy())[0][0])
    np.testing.assert_array_equal(*results)
    close(results[:1], numpy_of(net(x)))
    # What lm.save_weights() wrote has the same names.
    net.trainable_variables[0].assign(net.trainable_variables[0] * 0.5)
    lm.save_weights(net, tmp_path / "other")
    state = loaded.model((tmp_path / "other").read_bytes())
    assert state.code == 0
    close(loaded.call(state, "run", x.numpy())[0], numpy_of(net(x)))


def test_a_damaged_file_is_an_error(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    x = lm.ones((2, 4))
    net(x)
    lm.export_c(net, tmp_path / "net", x, weights="file")
    loaded = Code(tmp_path / "net").loaded(tmp_path)
    good = loaded.code.file
    for bad in (b"", good[:7], good[:40], good[:-1], b"\xff" * 8 + good[8:], good.replace(b"[4,3]", b"[3,4]"), good.replace(b"F32", b"F64")):
        code = loaded.model(bad).code
        assert code > 0 and loaded.text_of(code)


@pytest.mark.parametrize("optimizer", [lm.optim.SGD(0.05, momentum=0.9), lm.optim.Adam(0.01), lm.optim.RMSprop(0.01)])
def test_optimizers_train(tmp_path, optimizer):
    rng = np.random.default_rng(2)
    net = lm.nn.Sequential([lm.nn.Flatten(), lm.nn.Dense(17, "tanh"), lm.nn.Dropout(0.3), lm.nn.Dense(9, "gelu"), lm.nn.Dense(10)])
    x, y = batch(rng, 7)
    net(x)
    step = training(net, optimizer)
    step(x, y)
    lm.export_c({"step": step}, tmp_path / "net")
    loaded = Code(tmp_path / "net").loaded(tmp_path)
    state = loaded.model()
    for _ in range(10):
        close(loaded.call(state, "step", x.numpy(), y.numpy())[0], numpy_of(step(x, y)), rough=20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compiler", compilers())
def test_elementwise_functions(tmp_path, dtype, compiler):
    rng = np.random.default_rng(3)
    numbers = {"n": lambda: rng.normal(size=(3, 37)) * 2, "p": lambda: rng.random((3, 37)) * 4 + 0.1, "u": lambda: rng.random((3, 37)) * 1.8 - 0.9, "o": lambda: rng.random((3, 37)) * 4 + 1.1,
               "b": lambda: rng.random((3, 37)) > 0.5, "i": lambda: rng.integers(0, 9, (3, 37))}
    cases = {}
    for name, row in elementwise_rows.ROWS.items():
        inputs = [lm.constant(v if v.dtype.kind != "f" else v.astype(dtype)) for v in (numbers[k]() for k in row.kinds)]
        cases[name + "_"] = (getattr(lm, name, None) or getattr(lm.nn, name), inputs)
        if row.slope:
            f = cases[name + "_"][0]
            cases[name + "_slope"] = (lambda *x, f=f: lm.grad(lambda *x: lm.sum(f(*x)), argnums=tuple(range(len(x))))(*x), inputs)
    same_as_lamina(tmp_path, cases, "elementwise", compiler)


def test_integers(tmp_path):
    rng = np.random.default_rng(4)
    cases = {}
    for dtype in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"):
        low = 0 if "uint" in dtype else -50
        a, b = (lm.constant(rng.integers(low, 50, (4, 9)).astype(dtype)) for _ in range(2))
        for f in (lm.add, lm.sub, lm.mul, lm.floor_divide, lm.mod, lm.fmod, lm.maximum, lm.minimum, lm.pow, lm.bitwise_xor, lm.greater, lm.equal):
            cases[f"{f.__name__}_{dtype}"] = (f, [a, b])
        for f in (lm.neg, lm.abs, lm.sign, lm.square, lm.bitwise_not, lm.sum, lm.max, lm.isfinite, lm.isnan):
            cases[f"{f.__name__}_{dtype}"] = (f, [a])
        for to in (lm.float32, lm.float64, lm.bool, lm.int8, lm.uint8, lm.int64, lm.uint16, lm.uint64):
            cases[f"to_{to}_{dtype}".replace(".", "_")] = (lambda x, to=to: lm.astype(x, to), [a])
    wild = lm.constant(np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, 255.9, -0.5, 127.5], np.float32))
    for to in (lm.uint8, lm.uint16, lm.uint32, lm.uint64, lm.int8, lm.int16, lm.int32, lm.int64, lm.bool):
        cases[f"cut_{to}".replace(".", "_")] = (lambda x, to=to: lm.astype(x, to), [wild])
    cases["product"] = (lm.matmul, [lm.constant(rng.integers(-9, 9, (5, 6))), lm.constant(rng.integers(-9, 9, (6, 7)))])
    same_as_lamina(tmp_path, cases, "integers")


def other_cases(rng):
    def n(*shape):
        return lm.constant(rng.normal(size=shape).astype(np.float32))

    labels, places = lm.constant(rng.integers(0, 6, 5)), lm.constant(rng.integers(-6, 6, (2, 3)))
    w, table, x3 = n(6, 11), n(6, 4), n(3, 4, 5)
    flags = lm.constant(rng.random((4, 9)) > 0.5)
    repeated = lm.constant(rng.integers(0, 4, (3, 8)).astype(np.float32))
    cases = {
        "matmul_": (lm.matmul, [n(5, 6), w]), "matmul_ta": (lambda a, b: lm.matmul(lm.transpose(a), b), [n(6, 5), w]), "matmul_tb": (lambda a, b: lm.matmul(a, lm.transpose(b)), [n(7, 11), w]),
        "matmul_batch": (lm.matmul, [n(2, 1, 5, 6), n(3, 6, 4)]), "matmul_large": (lm.matmul, [n(70, 300), n(300, 150)]), "matmul_f64": (lambda a, b: lm.matmul(lm.astype(a, lm.float64), lm.astype(b, lm.float64)), [n(5, 6), w]),
        "row_sum": (lambda x: lm.sum(x, axis=-1), [n(3, 3000)]), "column_mean": (lambda x: lm.mean(x, axis=0), [n(777, 70)]), "middle_sum": (lambda x: lm.sum(x, axis=1), [x3]),
        "outer_sum": (lambda x: lm.sum(x, axis=(0, 2)), [x3]), "all_max": (lm.max, [x3]), "min_": (lambda x: lm.min(x, axis=1), [x3]), "prod_": (lambda x: lm.prod(x, axis=2), [x3]), "any_sum": (lm.sum, [flags]),
        "turned_sum": (lambda x: lm.sum(lm.transpose(x), axis=0), [n(5, 300)]), "mean_all": (lm.mean, [n(50, 50)]),
        "softmax_": (lm.softmax, [n(5, 10)]), "softmax_0": (lambda x: lm.softmax(x, axis=0), [n(5, 10)]), "log_softmax_": (lm.log_softmax, [n(5, 10)]),
        "gather_": (lambda t, i: lm.gather(t, i, axis=0), [table, places]), "gather_1": (lambda t, i: lm.gather(t, i, axis=1), [lm.transpose(table), places]),
        "gather_slope": (lambda t, i: lm.grad(lambda t: lm.sum(lm.square(lm.gather(t, i, axis=0))))(t), [table, places]),
        "slices": (lambda x: (x[1:, ::2, -2:], x[::-1], x[..., 0]), [x3]), "slice_slope": (lm.grad(lambda x: lm.sum(lm.square(x[1:, ::-2, 1:3]))), [x3]),
        "concat_": (lambda a, b: lm.concat([a, b, a], axis=1), [n(3, 4), n(3, 2)]), "transpose_": (lambda x: lm.transpose(x, (2, 0, 1)) + 1.0, [x3]), "stack_": (lambda a, b: lm.stack([a, b], axis=1), [n(3, 4), n(3, 4)]),
        "broadcast": (lambda a, b: a[:, None] * b + a[0], [n(6), n(7)]), "argmax_": (lambda x: (lm.argmax(x, axis=1), lm.argmax(x, axis=0)), [x3]), "cumsum_": (lambda x: (lm.cumsum(x, axis=1), lm.cumsum(x, axis=0, reverse=True)), [x3]),
        "one_hot_": (lambda i: lm.one_hot(i, 6), [labels]), "where_": (lm.where, [flags, n(4, 9), n(4, 9)]), "clip_": (lambda x: lm.clip(x, -0.5, 0.5), [x3]), "iota": (lambda x: lm.arange(5) * 2 + x, [lm.constant(3)]),
        "sort_": (lambda x: (lm.sort(x), lm.sort(x, axis=0, descending=True), lm.argsort(x, axis=1)), [repeated]), "top_k_": (lambda x: lm.top_k(x, 3), [repeated]),
        "searchsorted_": (lambda s, v: (lm.searchsorted(s, v), lm.searchsorted(s, v, side="right")), [lm.constant(np.arange(8, dtype=np.float32)), repeated]),
        "put": (lambda x, i, u: x.at[i].set(u), [table, lm.constant([4, 1, 4]), n(3, 4)]), "put_add": (lambda x, i, u: x.at[i].add(u), [table, lm.constant([4, 1, -2]), n(3, 4)]),
        "entropy": (lambda x, y: lm.losses.sparse_categorical_crossentropy(y, x, from_logits=True), [n(5, 6), labels]),
        "norm": (lambda x: (x - lm.mean(x, axis=-1, keepdims=True)) * lm.rsqrt(lm.mean(lm.square(x), axis=-1, keepdims=True) + 1e-5), [n(8, 33)]),
    }
    images, kernels = n(2, 7, 6, 4), n(3, 2, 4, 6)
    for number, options in enumerate(({}, {"padding": "same", "strides": 2}, {"dilation": 2, "padding": "same"})):
        cases[f"conv_{number}"] = (lambda x, w, o=options: lm.conv2d(x, w, **o), [images, kernels])
        cases[f"conv_slopes_{number}"] = (lambda x, w, o=options: lm.grad(lambda x, w: lm.sum(lm.square(lm.conv2d(x, w, **o))), argnums=(0, 1))(x, w), [images, kernels])
    cases["conv_groups"] = (lambda x, w: lm.grad(lambda x, w: lm.sum(lm.square(lm.conv2d(x, w, groups=2))), argnums=(0, 1))(x, w), [images, n(3, 2, 2, 6)])
    cases["pool"] = (lambda x: lm.max_pool2d(x, 3, strides=2, padding="same"), [images])
    cases["pool_slope"] = (lm.grad(lambda x: lm.sum(lm.square(lm.max_pool2d(x, 2)))), [images])
    return cases


@pytest.mark.parametrize("compiler", compilers())
def test_other_functions(tmp_path, compiler):
    same_as_lamina(tmp_path, other_cases(np.random.default_rng(5)), "others", compiler)


def repeated(tmp_path, name, f, *inputs, rough=20.0):
    """Three calls in a row, from the state that f's Variables have now."""
    lm.export_c(f, tmp_path / name, *inputs)
    loaded = Code(tmp_path / name).loaded(tmp_path)
    state = loaded.model()
    for _ in range(3):
        want = numpy_of(f(*inputs))
        got, error = loaded.call(state, "run", *[i.numpy() for i in inputs])
        assert error == ""
        close(got, want, name, rough)


def test_models_of_many_kinds_train(tmp_path):
    rng = np.random.default_rng(10)
    images, labels = lm.constant(rng.random((4, 12, 12, 3), dtype=np.float32)), lm.constant(rng.integers(0, 5, 4))
    convolutions = lm.nn.Sequential([lm.nn.Conv2D(8, 3, activation="relu"), lm.nn.BatchNormalization(), lm.nn.MaxPool2D(2), lm.nn.Flatten(), lm.nn.Dense(5)])
    convolutions(images)
    repeated(tmp_path, "convolutions", training(convolutions, lm.optim.Adam(0.001)), images, labels, rough=1000)
    repeated(tmp_path, "scored", lm.function(lambda x: convolutions(x)), images)

    x, y = lm.constant(rng.random((6, 7), dtype=np.float32)), lm.constant(rng.integers(0, 3, 6))
    nets = lm.nn.stack(lambda: lm.nn.Sequential([lm.nn.Dense(16, activation="elu"), lm.nn.Dense(8, activation="relu"), lm.nn.Dense(3)]), 5, seeds=list(range(5)), input_shape=(7,))
    repeated(tmp_path, "ensemble", lm.function(lm.vmap(training(nets, lm.optim.SGD(lm.per_model([0.1, 0.2, 0.3, 0.01, 0.05]))), in_axes=None)), x, y)

    net = lm.nn.Sequential([lm.nn.Dense(8, "silu"), lm.nn.LayerNormalization(), lm.nn.Dense(3)])
    net(x)
    step = training(net, lm.optim.SGD(0.1))

    @lm.function
    def epoch(xs, ys):
        total = lm.zeros(())
        for i in lm.range(5):
            total = total + step(xs[i], ys[i])
        return total

    repeated(tmp_path, "epoch", epoch, lm.constant(rng.random((5, 6, 7), dtype=np.float32)), lm.constant(rng.integers(0, 3, (5, 6))), rough=100)


def test_state_is_read_and_written_in_order(tmp_path):
    v, k = lm.Variable(np.arange(6.0).reshape(2, 3), name="v 64"), lm.Variable(3, name="int")
    a, b = lm.Variable(np.ones(3, np.float32)), lm.Variable(np.zeros(3, np.float32))

    @lm.function
    def change(x):
        k.assign_add(2)
        old = v.read()
        v.assign(old * 2.0 + x)
        v.assign_sub(old)
        first, second = a.read(), b.read() + 1.0
        a.assign(second)
        b.assign(first)
        return lm.transpose(v), k.read(), old, x, v.read()[0], first - second, x[:0]

    repeated(tmp_path, "state", change, lm.constant(np.ones((2, 3))))

    @lm.function
    def swap():
        first, second = a.read(), b.read() + 1.0
        a.assign(second)
        b.assign(first)
        return first - second

    repeated(tmp_path, "swap", swap)


def test_control_flow(tmp_path):
    x = lm.constant(np.arange(6, dtype=np.float32).reshape(3, 2))

    def branches(x, n):
        if n > 2:
            x = x * 2.0
        elif n > 0:
            x = x - 1.0
        else:
            x = lm.sort(x, axis=0)
        return x

    def loops(x, n):
        total, steps = lm.zeros((2,)), 0
        while steps < n:
            for row in x:
                if lm.sum(row) > 3.0:
                    total = total + row * lm.astype(steps + 1, lm.float32)
            steps = steps + 1
        return total, steps

    def scans(x, n):
        carry, ys = lm.scan(lambda c, row: (c * 0.5 + row, c + row), lm.zeros((2,)), x)
        back = lm.fori_loop(0, n, lambda i, c: c + lm.astype(i, lm.float32), carry)
        return carry, ys, back

    slope = lambda x, n: lm.grad(lambda x: lm.sum(lm.scan(lambda c, row: (lm.tanh(c + row), c * row), lm.ones((2,)), x)[1]))(x)  # noqa: E731
    cases = {}
    for n in (-1, 0, 2, 5):
        for f in (branches, loops, scans, slope):
            name = "slope" if f is slope else f.__name__
            cases[f"{name}_{n}".replace("-", "m")] = (f, [x, lm.constant(n)])
    same_as_lamina(tmp_path, cases, "flow")


def test_draws_have_the_same_bits(tmp_path):
    lm.random.set_seed(7)

    def draw():
        return (lm.random.uniform((5, 3), -1.0, 2.0), lm.random.normal((7,)), lm.random.integers(0, 100, (9,)), lm.dropout(lm.ones((4, 9)), 0.25),
                lm.random.truncated_normal((6,)))

    traced = lm.function(draw)
    lm.export_c({"draw": traced}, tmp_path / "draws")
    loaded = Code(tmp_path / "draws").loaded(tmp_path)
    state = loaded.model()
    for _ in range(3):
        got, want = loaded.call(state, "draw")[0], numpy_of(traced())
        for place in (0, 2, 3):
            np.testing.assert_array_equal(got[place], want[place])
        close(got, want)


def test_random_graphs(tmp_path):
    """Chains of ops that are drawn, in one file."""
    rng = np.random.default_rng(8)
    steps = [lambda x: lm.tanh(x), lambda x: x * 0.5 + lm.mean(x, axis=0), lambda x: lm.softmax(x), lambda x: lm.transpose(lm.transpose(x) * 2.0 - 1.0), lambda x: lm.matmul(x, lm.transpose(x))[:, :6] * 0.1,
             lambda x: lm.concat([x[:, 3:], lm.sin(x[:, :3])], axis=1), lambda x: lm.where(x > 0.1, x, -x), lambda x: lm.cumsum(x, axis=1) * 0.2, lambda x: lm.gather(x, lm.argmax(x, axis=0), axis=0),
             lambda x: x - lm.max(x, axis=1, keepdims=True), lambda x: lm.sort(x, axis=0), lambda x: lm.relu(x) + lm.sum(x) * 0.01, lambda x: lm.reshape(lm.reshape(x, (3, 12)) * 1.5, (6, 6))]
    cases = {}
    for number in range(200 if LONG else 12):
        chosen = [steps[i] for i in rng.integers(0, len(steps), rng.integers(4, 14))]

        def chain(x, chosen=chosen):
            for f in chosen:
                x = f(x)
            return x

        x = lm.constant(rng.normal(size=(6, 6)).astype(np.float32))
        cases[f"chain_{number}"] = (chain, [x])
    same_as_lamina(tmp_path, cases, "chains")


@pytest.mark.parametrize("first", range(0, 400 if LONG else 10, 10))
def test_random_programs_with_state_and_loops(tmp_path, first):
    """The programs of random_programs.py, without what they print and assert: numbers are small integers, so all bits are the same."""
    programs = {}
    for seed in range(first, first + 10):
        source = re.sub(r"^( *)(lm\.print\(|assert ).*$", r"\1pass", random_programs.source_of(random_programs.Writer(seed).program()), flags=re.M)
        v, w = lm.Variable([1.0, 2.0, 3.0], name=f"v{seed}"), lm.Variable(2, name=f"w{seed}")
        names = {"lm": lm, "v": v, "w": w, "place": contextlib.nullcontext, "helper": random_programs.helper, "k": seed % 3, "out": None, "other": None}
        file = f"<exported program {seed}>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        exec(compile(source, file, "exec"), names)
        names["traced_effects"] = lm.function(names["effects"])
        types = [lm.TensorSpec([3]), lm.TensorSpec([3]), lm.TensorSpec([], lm.int32), lm.TensorSpec([seed % 4])]
        programs[f"p{seed}"] = lm.function(names["f"], input_signature=types), v, w, seed % 4
    lm.random.set_seed(first)
    inputs = lambda call, length: [np.array([float((call * i) % 6 - 2) for i in range(b, b + 3)], np.float32) for b in (0, 2)] + [np.int32(call), np.arange(length, dtype=np.float32) - 1]  # noqa: E731
    lm.export_c({name: (f, *map(lm.constant, inputs(0, length))) for name, (f, _, _, length) in programs.items()}, tmp_path / "programs")
    loaded = Code(tmp_path / "programs").loaded(tmp_path)
    state = loaded.model()
    for call in range(3):
        for name, (f, _, _, length) in programs.items():
            got = loaded.call(state, name, *inputs(call, length))[0][0]
            np.testing.assert_array_equal(got, f(*map(lm.constant, inputs(call, length))).numpy(), err_msg=f"{name}, call {call}")


@pytest.mark.parametrize("compiler", [("g++", "-std=c++20"), ("gcc", "-std=c2x"), ("gcc", "-std=gnu99", "-include", "stdbool.h", "-include", "complex.h")], ids=["C++", "C23", "GNU"])
def test_the_header_is_for_cpp_and_newer_c_too(tmp_path, compiler):
    if not shutil.which(compiler[0]):
        pytest.skip(f"there is no {compiler[0]}")

    @lm.function
    def f(new, template, bool, linux, I, uint8_t):  # noqa: E741
        return lm.where(lm.sum(new) > template, bool, linux) * I + uint8_t

    flag = lm.Variable([True, False], name="class")

    @lm.function
    def turned():
        flag.assign(~flag.read())
        return flag.read()

    lm.export_c({"f": (f, *[lm.ones(2)] * 6), "class": turned}, tmp_path / "named")
    code = Code(tmp_path / "named")
    (tmp_path / "user.c").write_text('#include "named/named.h"\nnamed model;\n')
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", *(["-x", "c++"] if compiler[0] == "g++" else [])]
    run = subprocess.run([*compiler, *strict, str(tmp_path / "user.c")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:4000]
    loaded = code.loaded(tmp_path)
    assert np.ravel(loaded.call(loaded.model(), "class")[0][0]).tolist() == [0, 1]


def test_wrong_data_give_the_code_of_an_error(tmp_path):
    def pick(x, i):
        return lm.gather(x, i, axis=0)

    def checked(x):
        lm.check(lm.sum(x) > 0.0, "the sum is not positive")
        return x * 2.0

    x = lm.ones((4, 2))
    lm.export_c({"pick": (lm.function(pick), x, lm.constant([0, 1])), "checked": (lm.function(checked), x)}, tmp_path / "wrong")
    loaded = Code(tmp_path / "wrong").loaded(tmp_path, flags=("-O1", "-fsanitize=undefined", "-fno-sanitize-recover"))
    state = loaded.model()
    assert loaded.call(state, "pick", np.ones((4, 2)), [3, -4])[1] == ""
    assert "out of range" in loaded.call(state, "pick", np.ones((4, 2)), [3, 4])[1] and "test_export_c.py" in loaded.call(state, "pick", np.ones((4, 2)), [-5, 0])[1]
    assert loaded.call(state, "checked", np.ones((4, 2)))[1] == ""
    assert "the sum is not positive" in loaded.call(state, "checked", -np.ones((4, 2)))[1]


def test_what_c_cannot_have_is_refused(tmp_path):
    x = lm.ones((4,))

    def refused(f, *inputs, error=lm.errors.InvalidArgument, **options):
        with pytest.raises(error) as info:
            lm.export_c(f, tmp_path / "none", *inputs, **options)
        assert not (tmp_path / "none").exists()
        return str(info.value)

    def prints(x):
        lm.print(x)
        return x

    assert "print" in refused(lm.function(prints), x) and "test_export_c.py" in refused(lm.function(prints), x)
    assert "float16" in refused(lm.function(lambda x: lm.astype(x, lm.float16) * 2), x)
    open_length = lm.function(lambda x: x * 2, input_signature=[lm.TensorSpec(["n", 2])])
    assert "lengths=" in refused(open_length, lm.ones((3, 2)))
    padded = lm.function(lambda x: lm.pad(x[3:], ((0, 3),)), input_signature=[lm.TensorSpec(["n"])])
    assert "is too short" in refused(padded, lm.ones(4), lengths={"n": 1}, error=lm.errors.SignatureMismatch)
    assert "missing" in refused(lm.function(lambda x: x), error=lm.errors.Error)
    twice = lm.function(lambda x: x * 2)
    twice(x), twice(x[:2])
    assert "2 graphs" in refused(twice)
    assert "no name" in refused(lm.function(lambda x: x), x, name="long")
    assert "no example inputs" in refused(lambda x: x)
    assert "weights" in refused(lm.function(lambda x: x), x, weights="disk")
    assert "no name" in refused(lm.function(lambda x: x), x, name="a b")
    assert "no name" in refused({"a b": lm.function(lambda x: x)})
    refused(3, error=lm.errors.TypeMismatch)
    lm.export_c(open_length, tmp_path / "some", lm.ones((3, 2)), lengths={"n": 5})
    loaded = Code(tmp_path / "some").loaded(tmp_path)
    close(loaded.call(loaded.model(), "run", np.ones((5, 2)))[0], [np.full((5, 2), 2, np.float32)])


def small_training(tmp_path, name="small"):
    rng = np.random.default_rng(9)
    net, (x, y) = digits_net(4), batch(rng, 6)
    net(x)
    step = training(net, lm.optim.Adam(0.01))
    step(x, y)
    score = lm.function(lambda x: net(x))
    lm.export_c({"step": step, "score": (score, x)}, tmp_path / name)
    calls = [("score", [x.numpy()]), *[("step", [x.numpy(), y.numpy()])] * 3, ("score", [x.numpy()])]
    want = [numpy_of(score(x) if name == "score" else step(x, y))[0].ravel() for name, _ in calls]
    return Code(tmp_path / name), calls, np.concatenate(want)


def test_two_structs_train_in_two_threads(tmp_path):
    code, calls, want = small_training(tmp_path)
    loaded, results = code.loaded(tmp_path), {}

    def run(number):
        state = loaded.model()
        results[number] = np.concatenate([loaded.call(state, f, *inputs)[0][0].ravel() for f, inputs in calls])

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiler", compilers())
def test_sanitizers_find_nothing(tmp_path, compiler):
    code, calls, want = small_training(tmp_path)
    got = code.run(tmp_path, calls, compiler, ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_other_machines_give_the_same(tmp_path, machine):
    compiler, emulator = f"{machine}-linux-gnu-gcc", shutil.which(f"qemu-{machine}") or shutil.which(f"qemu-{machine}-static")
    if not shutil.which(compiler) or not emulator:
        pytest.skip(f"needs {compiler} and qemu-{machine}: apt-get install gcc-{machine}-linux-gnu libc6-dev-{ {'aarch64': 'arm64'}.get(machine, machine)}-cross qemu-user")
    code, calls, want = small_training(tmp_path)
    got = code.run(tmp_path, calls, compiler, ("-O3", "-static"), [emulator])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    if not LONG:
        return
    cases = other_cases(np.random.default_rng(5))
    lm.export_c({n: (lm.function(f), *inputs) for n, (f, inputs) in cases.items()}, tmp_path / "others")
    got = Code(tmp_path / "others").run(tmp_path, [(n, [i.numpy() for i in inputs]) for n, (_, inputs) in cases.items()], compiler, ("-O2", "-static"), [emulator])
    want = np.concatenate([r.ravel().astype(float) for f, inputs in cases.values() for r in numpy_of(lm.function(f)(*inputs))])
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-4)


def test_every_op_has_a_c_form_or_a_reason():
    """A rule, functions of its elements, a view or a decomposition; or it is refused by name."""
    sources = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "graph/export_c").glob("*.cpp")}
    rules = set(re.findall(r"\{&ops::def::(\w+), write_", "".join(sources.values()))) | set(re.findall(r"&op == &ops::def::(\w+)\) return \"", sources["rules.cpp"]))
    scalars = set(re.findall(r"^ +\{\"(\w+)\", (?:\d, )?k", sources["scalar_functions.cpp"], re.M))
    elementwise = re.findall(r"^ELEMENTWISE\((\w+),", elementwise_rows.TABLE, re.M)
    assert not set(elementwise) - scalars
    taken_apart = {}
    for source in (ROOT / "graph/ops").glob("*.cpp"):
        for name, text in re.findall(r"OpDef def::(\w+)\{(.*?)\n\};", source.read_text(encoding="utf-8"), re.S):
            taken_apart[name] = re.search(r"\.(alias|decompose) = ", text)
    others = re.findall(r"^OP\((\w+)\)", (ROOT / "graph/ops/ops.inc").read_text(encoding="utf-8"), re.M)
    by_the_planner = {"assign", "read", "input", "constant", "cond", "scan", "while_loop", "checkpoint", "custom_gradient", "astype"}  # passes and plans leave none, or a loop
    by_the_planner |= {"all_gather", "all_reduce", "broadcast_from", "reduce_scatter", "send_receive"}  # of ranks: refused by name, test_data_parallel.py
    by_the_planner |= {"cholesky", "eigh", "qr", "slogdet", "solve", "svd", "triangular_solve"}  # by LAPACK: refused by name, test_linalg.py
    by_the_planner |= {"fft"}  # by KissFFT: refused by name, test_fft.py
    missing = {name for name in others if name not in rules | by_the_planner and not taken_apart.get(name)}
    assert not missing, missing


def test_the_page_s_program_runs(tmp_path):
    page = (ROOT / "docs/c_export.md").read_text(encoding="utf-8")
    scope = {"__name__": "page"}
    folder = tmp_path / "policy_c"
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1].replace('"policy_c"', repr(str(folder))), scope)
    (tmp_path / "main.c").write_text(re.search(r"```c\n(.*?)```", page, re.S)[1])
    command = re.search(r"^    (cc .*)$", page, re.M)[1].split()
    subprocess.run(["gcc", *STRICT, *command[1:]], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.startswith("loss")
