"""Plots the results of ./dev bench --check: how many times faster Lamina is than each peer, per network and batch. usage: plots.py
RESULTS.json"""
import glob
import json
import os
import sys

PEERS = {"JAX": "#4878a8", "TensorFlow": "#d98032", "PyTorch": "#b04a4a", "ONNX": "#6a9a58"}
LABELS = {"hundred": "100 x 64 relu", "tanh60": "60 x 48 tanh", "gelu30": "30 x 128 gelu", "adam200": "200 x 32 relu, Adam", "narrow150": "150 x 40 relu", "uneven": "40 layers of 20 to 200",
          "ensemble": "16 nets of 6 x 64, vmap"}


def draw(path):
    """Plots training steps as NAME-step.svg beside the results; returns its path."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lamina"
    from matplotlib import pyplot
    with open(path) as f:
        results = json.load(f)
    here = results["machine"]
    rows = [(run, values) for run, values in results["figures"].items() if "step_times_fastest" in values]
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.75 * len(rows)))
    for y, (run, values) in enumerate(rows):
        bars = [(peer, values[f"step_times_{peer.lower()}"]) for peer in PEERS if f"step_times_{peer.lower()}" in values]
        for i, (peer, times) in enumerate(bars):
            at = y + (i - (len(bars) - 1) / 2) * 0.8 / len(bars)
            axes.barh(at, times, 0.75 / len(bars), color=PEERS[peer])
            axes.text(times * 1.03, at, f"{times:.1f}", va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [f"{LABELS[run.split('/')[0]]}, batch {run.split('/')[1]}" for run, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("step: a peer's time over Lamina's, each at its best form and number of threads (more is better for Lamina)", fontsize=8)
    axes.set_title(f"{here['cpu']}, {here['cores']} cores, {here['vectors']}, {results['date']}", fontsize=8)
    axes.legend(handles=[pyplot.Rectangle((0, 0), 1, 1, color=c, label=p if p != "ONNX" else "ONNX Runtime") for p, c in PEERS.items()], fontsize=7, frameon=False)
    figure.tight_layout()
    written = os.path.splitext(path)[0] + "-step.svg"
    figure.savefig(written, metadata={"Date": None})
    pyplot.close(figure)
    return written


STYLES = {"call": "-", "jit": "-", "eager": "-", "func": "-", "loop": "--", "scan": "--", "graph": "--", "func_graph": "--", "cudnn": "-."}  # others: dotted
PRECISIONS = ["float32", "tf32", "bf16", "3xtf32"]


def draw_card(path):
    """Plots the results of perf/gpu/times.py: microseconds over the batch, one plot per network, one column per precision, one line per
    program and form; returns their paths."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lamina"
    from matplotlib import pyplot
    with open(path) as f:
        results = json.load(f)
    written = []
    for net in sorted({row["net"] for row in results["rows"] if "step" in row}):
        mine = [row for row in results["rows"] if row["net"] == net and "step" in row]
        precisions = [p for p in PRECISIONS if any(row["precision"] == p for row in mine)]
        figure, all_axes = pyplot.subplots(2, len(precisions), figsize=(4 * len(precisions), 7), sharex=True, squeeze=False)
        for axes, (what, precision) in zip(all_axes.flat, ((w, p) for w in ("step", "forward") for p in precisions)):
            here = [row for row in mine if row["precision"] == precision and what in row]
            for program, form in sorted({(row["program"], row["form"]) for row in here}):
                points = sorted((row["batch"], row[what]["microseconds"]) for row in here if (row["program"], row["form"]) == (program, form))
                color = next((c for peer, c in PEERS.items() if program.startswith(peer)), "black")
                axes.plot(*zip(*points), marker="o", markersize=3, color=color, linestyle=STYLES.get(form, ":"), label=f"{program} {form}")
            axes.set(xscale="log", yscale="log")
            axes.set_title(f"{precision}: microseconds a {'step' if what == 'step' else 'forward pass'} over the batch", fontsize=8)
            if here:
                axes.legend(fontsize=6, frameon=False)
        days = sorted({row.get("measured", results["date"])[:10] for row in mine})
        figure.suptitle(f"{net}: {results['card']}, {' to '.join(days[::max(1, len(days) - 1)])}", fontsize=9)
        figure.tight_layout()
        written.append(f"{os.path.splitext(path)[0]}-{net}.svg")
        figure.savefig(written[-1], metadata={"Date": None})
        pyplot.close(figure)
    return written


def draw_cards(folder):
    """Plots every card that has a file in the folder."""
    return [svg for path in sorted(glob.glob(os.path.join(folder, "gpu-*.json"))) for svg in draw_card(path)]


if __name__ == "__main__":
    print(*(draw_card if os.path.basename(sys.argv[1]).startswith("gpu-") else draw)(sys.argv[1]), sep="\n")
