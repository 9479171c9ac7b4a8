"""The networks timed by perf/gpu, the same for every framework: shapes, initial weights, a batch; the protocol and timing of programs.

Dense networks are those of ../peers/worker.py. The others: "conv", two 3x3 convolutions of 16 channels, pooling, two of 32, pooling, a
dense layer; "lstm", a layer of 64 units over 16 time steps of 32 numbers, a dense layer on the last. All are trained by SGD on the mean
cross entropy of 10 classes.
"""
import argparse
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
import worker  # noqa: E402

LEARNING_RATE = 0.003
DENSE = {
    "hundred": worker.NETWORKS["hundred"],
    "policy": worker.Network((64,), (64,) * 6, "tanh"),
    "wide30": worker.Network((128,), (128,) * 30),
    "ensemble": worker.Network((64,), (64,) * 6, "tanh", copies=100),
}
NETS = [*DENSE, "conv", "lstm"]
BATCHES = [20, 128, 1024, 8192, 262144]
PRECISIONS = ["float32", "tf32", "bf16", "3xtf32"]  # the last is only Lamina's
CONV_SHAPE, CONV_CHANNELS = (16, 16, 3), (16, 16, 32, 32)
LSTM_STEPS, LSTM_INPUTS, LSTM_UNITS = 16, 32, 64


def copies(net):
    return DENSE[net].copies if net in DENSE else 1


def weights(net):
    """The initial weights of one copy, float32: kernel, bias, kernel, bias, ... "lstm": of the inputs, of the state, the bias, and the
    last layer's two."""
    import numpy as np
    if net in DENSE:
        return [a for pair in worker.start_weights(DENSE[net]) for a in pair]
    draw = np.random.default_rng(0)

    def scaled(*shape):
        fan_in = 1
        for n in shape[:-1]:
            fan_in *= n
        return (draw.standard_normal(shape) * (1.5 / fan_in) ** 0.5).astype("float32")

    if net == "lstm":
        return [scaled(LSTM_INPUTS, 4 * LSTM_UNITS), scaled(LSTM_UNITS, 4 * LSTM_UNITS), np.zeros(4 * LSTM_UNITS, "float32"), scaled(LSTM_UNITS, 10), np.zeros(10, "float32")]
    out, before = [], CONV_SHAPE[2]
    for channels in CONV_CHANNELS:
        out += [scaled(3, 3, before, channels), np.zeros(channels, "float32")]
        before = channels
    size = CONV_SHAPE[0] // 4 * (CONV_SHAPE[1] // 4) * before
    return [*out, scaled(size, 10), np.zeros(10, "float32")]


def batch(net, size):
    """Inputs, float32 from 0 to 1, and labels, int32."""
    import numpy as np
    if net in DENSE:
        return worker.batch(DENSE[net], size)
    draw = np.random.default_rng(1)
    shape = CONV_SHAPE if net == "conv" else (LSTM_STEPS, LSTM_INPUTS)
    return draw.random((size, *shape), "float32"), draw.integers(0, 10, size).astype("int32")


def steps_in_one_call(size):
    """For forms with many steps per call: fewer steps if a step takes so long that launch overhead is negligible."""
    return 100 if size <= 1024 else 10 if size <= 8192 else 2


def of_loop(losses):
    """A row's record of the losses of the first call of many steps."""
    return {"losses": losses[:3], "loop_loss": losses[-1]}


def forms(program, net, precision, on_gpu):
    """The forms in which a program is timed, the fastest to prepare first."""
    if program == "lamina":
        return ["call", "loop"]
    if precision == "3xtf32":
        return []
    if program == "jax":
        return ["jit", "scan"]
    if copies(net) > 1:
        return ["func", *["func_graph"] * on_gpu, "func_compile"]
    return ["eager", *["graph"] * on_gpu, *["cudnn"] * (net == "lstm" and precision != "bf16"), "compile"]


def kernels(explanation):
    """The launches of a call with their counts: GPU sections by kernel, as a profiler shows it, other launches by name."""
    counts = {}
    for launch in explanation.launches:
        run_by = re.search(r"; run by (\w+)", "\n".join(launch["details"]))
        name = run_by.group(1) if run_by else launch["name"]
        counts[name] = counts.get(name, 0) + 1
    return counts


def in_words(counts):
    return ", ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())


def arguments(forms):
    """A program's arguments: NET FORM and the rows, as [[precision, batch], ...] in JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=NETS)
    parser.add_argument("form", choices=forms)
    parser.add_argument("--rows", type=json.loads, default=[["float32", 20]])
    parser.add_argument("--device", default="gpu:0", help="gpu:0 or cpu:0")
    parser.add_argument("--seconds", type=float, default=1.0, help="a row's measuring, after its first calls")
    return parser.parse_args()


def measure(run, seconds):
    """run(n) runs n steps and returns when they are done; if it runs more, it returns their number. Result: microseconds per step, minimum
    and median of at least five blocks."""
    start = time.perf_counter()
    run(1)
    first = time.perf_counter() - start
    run(1)
    start = time.perf_counter()
    done = run(2) or 2
    n = max(1, int(seconds / 10 * done / max(time.perf_counter() - start, 1e-9)))
    blocks, end = [], time.perf_counter() + seconds
    while len(blocks) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        done = run(n) or n
        blocks.append((time.perf_counter() - start) / done * 1e6)
    blocks.sort()
    return {"microseconds": blocks[0], "median": blocks[len(blocks) // 2], "blocks": len(blocks), "first_s": round(first, 3)}


def serve(program, options, prepare):
    """prepare(precision, batch) returns the functions to time, "step" and "forward", with the losses of the first three steps and of the
    last one of the first call of many.

    Prints a line of JSON when the program is ready, and one for each row.
    """
    print(json.dumps({"ready": program}), flush=True)
    for precision, size in options.rows:
        row = {"net": options.net, "program": program, "form": options.form, "precision": precision, "batch": size}
        try:
            for what, run in prepare(precision, size).items():
                row[what] = measure(run, options.seconds) if callable(run) else run
        except Exception as e:  # out of memory, or an option that a version lacks: continue with the other rows
            row["not_run"] = f"{type(e).__name__}: {e}".splitlines()[0][:300]
        print(json.dumps(row), flush=True)
