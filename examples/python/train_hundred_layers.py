"""Trains a network of 100 small layers on handwritten digits: Flatten, 100 x Dense(64, relu), Dropout(0.2), Dense(10).

With Glorot or He initialisation this network learns almost nothing, because its gradients vanish. Mirrored orthogonal weights
(lm.nn.initializers.looks_linear) prevent that. A training step, from the images to the updated weights, is one traced function.
"""
import argparse, json, os, sys, time
from collections.abc import Callable
from typing import Any

import numpy as np

import lamina as lm
from lamina.progress import ProgressBar

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FIRST_RATE = 0.008  # decreases linearly to 0
Rows = tuple[Any, Any]  # images and labels
Batch = tuple[lm.Tensor, lm.Tensor]


def read_digits(folder: str) -> tuple[Rows, Rows]:
    """(train images, train labels), (test images, test labels). The files are sorted by digit: every fifth image is a test image."""
    images = lm.data.read_idx(os.path.join(folder, "digits-images-idx3-ubyte.gz")).astype("float32") / 255
    labels = lm.data.read_idx(os.path.join(folder, "digits-labels-idx1-ubyte.gz")).astype("int32")
    test = np.arange(len(labels)) % 5 == 4
    return (images[~test], labels[~test]), (images[test], labels[test])


class HundredLayers(lm.nn.Model):
    def __init__(self) -> None:
        super().__init__()
        initializers = lm.nn.initializers
        self.flat = lm.nn.Flatten()
        self.hidden = [lm.nn.Dense(64, activation="relu", kernel_initializer=initializers.looks_linear(mirror_in=i > 0)) for i in range(100)]
        self.drop = lm.nn.Dropout(0.2)
        self.head = lm.nn.Dense(10, kernel_initializer=initializers.orthogonal())

    def call(self, x: lm.Tensor) -> lm.Tensor:
        x = self.flat(x)
        for layer in self.hidden:
            x = layer(x)
        scores: lm.Tensor = self.head(self.drop(x))
        return scores


def make_step(net: HundredLayers, optimizer: lm.optim.Optimizer) -> Any:
    loss = lm.losses.SparseCrossEntropy(from_logits=True)

    @lm.function
    def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        with lm.GradientTape() as tape:
            cost = loss(y, net(x, training=True))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(cost, variables), variables))
        return cost

    return step


def seconds_per_call(call: Callable[[], object], repeats: int, calls: int) -> float:
    """The best of several runs, so that other load disturbs it little."""
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        lm.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def step_flops(batch: int) -> int:
    """Floating-point operations of one step's matrix products: forward, weight gradients, input gradients (except the first layer's)."""
    sizes = [784 * 64] + [64 * 64] * 99 + [64 * 10]
    return 2 * batch * (3 * sum(sizes) - sizes[0])


def train(options: argparse.Namespace) -> tuple[HundredLayers, lm.optim.SGD, Any, Batch, list[float], list[float], float]:
    lm.random.set_seed(options.seed)
    (x, y), (test_x, test_y) = read_digits(options.data)
    feed = lm.data.Dataset.from_tensor_slices((x, y)).shuffle().batch(options.batch)
    test_x, test_y = lm.constant(test_x), lm.constant(test_y)
    net, optimizer = HundredLayers(), lm.optim.SGD(FIRST_RATE)
    step = make_step(net, optimizer)
    accuracy = lm.function(lambda x, y: lm.metrics.accuracy(y, net(x)))

    steps, done = options.epochs * len(feed), 0
    losses: list[float] = []
    accuracies: list[float] = []
    start = time.perf_counter()
    for epoch in range(options.epochs):
        print(f"Epoch {epoch + 1}/{options.epochs}", flush=True)
        bar, total = ProgressBar(len(feed)), 0.0
        for i, (bx, by) in enumerate(feed, 1):
            optimizer.learning_rate.assign(FIRST_RATE * (steps - done) / steps)  # a Variable, so nothing is retraced
            total += float(step(bx, by))
            done += 1
            if i < len(feed):
                bar.update(i, {"loss": total / i})
        losses.append(total / len(feed))
        accuracies.append(float(accuracy(test_x, test_y)))
        bar.step = len(feed)
        bar.finish({"loss": losses[-1], "test accuracy": accuracies[-1]})
    seconds = time.perf_counter() - start
    return net, optimizer, step, (lm.constant(x[:options.batch]), lm.constant(y[:options.batch])), losses, accuracies, seconds


def measure(optimizer: lm.optim.SGD, step: Any, batch: Batch) -> dict[str, Any]:
    """Measures a step, and reports what it was compiled to. The learning rate is set to 0 so that the weights stay."""
    optimizer.learning_rate.assign(0.0)
    graph = step.get_concrete_function(*batch)
    traced = seconds_per_call(lambda: step(*batch), repeats=7, calls=50)
    eager = seconds_per_call(lambda: step.python_function(*batch), repeats=3, calls=3)
    floor = step_flops(len(batch[1])) / lm.testing.fma_peak()
    return {
        "eager_microseconds_per_step": eager * 1e6, "traced_microseconds_per_step": traced * 1e6,
        "kernels_per_step_before_fusion": graph.traced_kernels, "kernels_per_step": len(graph.instructions),
        "floor_microseconds_per_step": floor * 1e6, "traced_over_floor": traced / floor, "graphs_traced": step.trace_count,
    }


def draw(path: str, losses: list[float], accuracies: list[float]) -> None:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    epochs = range(1, len(losses) + 1)
    figure, left = plt.subplots(figsize=(8, 4.5))
    right = left.twinx()
    left.plot(epochs, losses, color="tab:blue", marker="o", label="training loss")
    right.plot(epochs, [100 * a for a in accuracies], color="tab:orange", marker="s", label="test accuracy")
    left.set(xlabel="epoch", ylabel="training loss", title="100 layers of 64 on handwritten digits")
    left.set_ylim(bottom=0)
    right.set(ylabel="test accuracy, %", ylim=(0, 100))
    left.grid(alpha=0.3)
    figure.legend(loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=120)


def show_table(f: dict[str, Any], isa: str) -> None:
    rows = [
        ("test accuracy", f"{100 * f['test_accuracy']:.1f} %"),
        ("training time", f"{f['training_seconds']:.1f} s for {f['epochs']} epoch{'s' if f['epochs'] > 1 else ''}"),
        ("one step, eager", f"{f['eager_microseconds_per_step']:,.0f} us"),
        ("one step, traced", f"{f['traced_microseconds_per_step']:,.0f} us"),
        ("kernels per step, as traced", f"{f['kernels_per_step_before_fusion']:,}"),
        ("kernels per step, fused", f"{f['kernels_per_step']:,}"),
        (f"arithmetic floor, one core ({isa})", f"{f['floor_microseconds_per_step']:,.0f} us"),
        (f"traced step over the floor ({f['threads']} thread{'s' if f['threads'] > 1 else ''})", f"{f['traced_over_floor']:.2f} x"),
    ]
    width = [max(len(row[i]) for row in rows) for i in (0, 1)]
    line = "-" * (sum(width) + 3)
    print(line, *(f"{name:<{width[0]}}   {value:>{width[1]}}" for name, value in rows), line, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too, as one flat object")
    parser.add_argument("--plot", metavar="FILE", help="the picture of the training curve (default: training_curve.png in build/, or here)")
    parser.add_argument("--data", metavar="FOLDER", default=os.path.join(ROOT, "examples", "data"), help="where the digits are")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch < 1:
        parser.error("--epochs and --batch must be positive")
    plot = options.plot or os.path.join(os.path.join(ROOT, "build") if os.path.isdir(os.path.join(ROOT, "build")) else ".", "training_curve.png")

    net, optimizer, step, batch, losses, accuracies, seconds = train(options)
    figures = {
        "test_accuracy": accuracies[-1], "training_loss": losses[-1], "training_seconds": seconds, "epochs": options.epochs, "seed": options.seed,
        "batch": options.batch, "parameters": net.count_params(), "cpu": lm.config.cpu_isa(), "threads": lm.config.threads(),
        **measure(optimizer, step, batch),
    }
    show_table(figures, figures["cpu"])
    try:
        draw(plot, losses, accuracies)
        print("training curve:", os.path.relpath(plot))
    except ImportError:
        print("no picture of the training curve: matplotlib is not installed", file=sys.stderr)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(figures, f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
