"""Public classes given one wrong value at a time: constructors, methods and calls. None takes nonsense silently, and each error names the argument.

test_border.py looks at the words of errors for values of any kind; here a table says for each argument which values are wrong.
"""
import inspect
import os
import re
import sys
import warnings

import numpy as np
import public_surface
import pytest

import lamina as lm

NAN, INF = float("nan"), float("inf")


class Odd:
    """Nothing that Lamina knows."""


def near(*shape):
    return lm.constant(np.random.default_rng(0).uniform(0.1, 0.9, size=shape).astype("float32"))


COUNT = [0, -1, 2.5, "3", NAN, [], Odd()]
FROM_ZERO = [-1, 2.5, "3", NAN, [], Odd()]
SHARE = [-0.1, 1.5, NAN, INF, "0.5", [], Odd()]
POSITIVE = [-1.0, NAN, INF, "1", [], Odd()]
REAL = [NAN, "1", [], Odd()]
BOOL = ["yes", 2, 0.5, [], NAN, Odd()]
WORD = ["no such", 3, NAN, [], Odd()]
NAME = [3, NAN, [], Odd()]
FUNCTION = [3, "no such", NAN, [], Odd()]
PATH = [3, NAN, [], Odd(), None]
SIZES = [0, -1, 2.5, "ab", NAN, [], Odd(), (1, 2, 3, 4, 5, 6)]
SIDES = [-1, 2.5, "ab", NAN, [], Odd(), (1, 2, 3, 4, 5, 6)]
VERBOSE = ["loud", 7, -1, 2.5, [], NAN, Odd()]
SEED = ["a", 2.5, NAN, [], Odd()]

# The wrong values of constructors' arguments. An argument has one meaning wherever it stands.
CONSTRUCTORS = {
    "activation": FUNCTION, "alpha": REAL, "append": BOOL, "axis": [2.5, "1", NAN, Odd(), 9, -9], "backward_layer": FUNCTION, "beta_1": SHARE, "beta_2": SHARE, "beta_regularizer": FUNCTION,
    "bias_initializer": FUNCTION, "bias_regularizer": FUNCTION, "boundaries": [3, "ab", [3, 2], [1.5], Odd()], "bytes": [-1, "1", NAN, []], "center": BOOL, "centered": BOOL, "classes": COUNT,
    "clock": [3, "x", Odd()], "cooldown": FROM_ZERO, "cycle": BOOL, "data": [3, "x", Odd()], "decay_rate": POSITIVE, "decay_steps": COUNT, "delta": POSITIVE, "depth_multiplier": COUNT,
    "depthwise_initializer": FUNCTION, "depthwise_regularizer": FUNCTION, "device_steps": BOOL, "dilation_rate": SIZES, "dir": PATH, "div_factor": [0.0, *POSITIVE], "dropout": SHARE,
    "dtype": ["float33", 3, [], Odd()], "dynamic_loss_scale": BOOL, "ema_momentum": SHARE, "embeddings_initializer": FUNCTION, "embeddings_regularizer": FUNCTION, "end_learning_rate": POSITIVE,
    "epsilon": [-1.0, NAN, INF, "1", [], Odd()], "every": COUNT, "factor": [0.0, 1.0, -1.0, NAN, "1", [], Odd()], "file": [3, "x", Odd()], "filters": COUNT, "final_div_factor": [0.0, *POSITIVE],
    "first_decay_steps": COUNT, "folder": PATH, "from_logits": BOOL, "function": [3, NAN, [], Odd()], "gamma_regularizer": FUNCTION, "go_backwards": BOOL, "gradient_accumulation_steps": COUNT,
    "groups": [0, -2, 2.5, "3", NAN, [], Odd()], "history_size": COUNT, "initial": ["x", None, Odd()], "initial_accumulator_value": POSITIVE, "initial_learning_rate": POSITIVE, "input_dim": COUNT,
    "input_shape": ["ab", (-2,), (2.5,), NAN, Odd(), 3], "inputs": [3, "x", Odd(), near(2, 2)], "k": COUNT, "keep": COUNT, "keepdims": BOOL, "kernel_initializer": FUNCTION, "kernel_regularizer": FUNCTION,
    "kernel_size": SIZES, "key_dim": COUNT, "l1": POSITIVE, "l2": POSITIVE, "layer": FUNCTION, "layers": [3, "ab", NAN, [3], Odd()], "learning_rate": POSITIVE, "log_dir": PATH, "loss": FUNCTION,
    "m_mul": [-1.0, NAN, "1", Odd()], "make": FUNCTION, "mask_value": ["1", [], Odd()], "mask_zero": BOOL, "max_iterations": COUNT, "max_learning_rate": POSITIVE, "merge_mode": WORD, "min_delta": REAL,
    "min_lr": POSITIVE, "mode": WORD, "model": [3, "x", Odd()], "momentum": SHARE, "monitor": NAME, "n": COUNT, "name": NAME, "negative_slope": REAL, "nesterov": BOOL, "num_heads": COUNT,
    "optimizer": [3, "x", NAN, [], Odd()], "output_dim": COUNT, "output_padding": SIDES, "output_size": COUNT, "outputs": [3, "x", Odd(), near(2, 2)], "padding": ["no such", -3, NAN, [], Odd(), 2.5],
    "path": PATH, "patience": FROM_ZERO, "pct_start": SHARE, "persistent": BOOL, "pool_size": SIZES, "power": [-1.0, NAN, "1", Odd()], "rate": SHARE, "recurrent_activation": FUNCTION,
    "zero_output_for_mask": BOOL, "recurrent_initializer": FUNCTION, "recurrent_regularizer": FUNCTION, "reset_after": BOOL, "restore_best_weights": BOOL, "return_sequences": BOOL, "return_state": BOOL, "rho": SHARE,
    "save_best_only": BOOL, "scale": BOOL, "scale_regularizer": FUNCTION, "schedule": ["no such", NAN, [], Odd(), -1.0], "seconds": [-1.0, NAN, "1", [], Odd()], "seeds": [3, "ab", NAN, [1.5, 2.5], Odd()],
    "separator": [3, NAN, [], Odd(), None, ""], "shape": [(-2,), "ab", (2.5,), NAN, Odd()], "size": SIZES, "staircase": BOOL, "start": POSITIVE, "start_from_epoch": FROM_ZERO, "strides": SIZES,
    "t_mul": [0.0, -1.0, NAN, INF, "1", Odd()], "target_shape": ["ab", (-2,), (2.5,), NAN, Odd(), 3.5], "threshold": REAL, "thresholds": [0, 1, -1, 2.5, "3", NAN, Odd()], "tolerance": POSITIVE,
    "total": [-1, 2.5, "3", Odd()], "total_steps": COUNT, "trainable": BOOL, "unit_forget_bias": BOOL, "units": COUNT, "use_bias": BOOL, "value_dim": COUNT, "values": [3, "ab", [1.0], Odd()],
    "verbose": VERBOSE, "warmup_steps": COUNT, "watch_accessed_variables": BOOL, "weight_decay": POSITIVE,
}
# Right arguments, where a class needs some.
RIGHT = {
    "Activation": ("relu",), "Bidirectional": (lm.nn.GRU(2),), "CSVLogger": ("a.csv",), "Checkpoint": ("saved",), "ConfusionMatrix": (3,), "Constant": (0.1,), "Conv1D": (2, 1), "Conv1DTranspose": (2, 1),
    "Conv2D": (2, 1), "Conv2DTranspose": (2, 1), "CosineDecay": (0.1, 5), "CosineDecayRestarts": (0.1, 5), "Dense": (3,), "DepthwiseConv2D": (1,), "Dropout": (0.5,), "Embedding": (4, 2),
    "Ensemble": (lambda: lm.nn.Sequential([lm.nn.Dense(1, input_shape=(3,))]), 2), "ExponentialDecay": (0.1, 5, 0.5), "GRU": (2,), "GroupNorm": (2,), "LSTM": (2,), "Lambda": (lambda x: x,), "LearningRateScheduler": (lambda epoch, rate: rate,),
    "Loss": ("mse",), "ModelCheckpoint": ("a.keras",), "MultiHeadAttention": (2, 2), "OneCycle": (0.1, 10), "PiecewiseConstantDecay": ([1], [0.1, 0.2]), "PolynomialDecay": (0.1, 5), "ProgressBar": (3,),
    "Reshape": ((-1,),), "SimpleRNN": (2,), "TensorBoard": ("events",), "TensorSpec": ((2,),), "Variable": (1.0,), "Warmup": (0.1, 5), "Writer": ("events",), "device": ("cpu:0",), "name_scope": ("a",),
    "range": ("a",), "trace": ("traced",),
}
# Made by Lamina alone; scikit-learn's own checks call its estimators with wrong values.
LEFT_OUT = {"lamina.Explanation", "lamina.data.Dataset", "lamina.nn.Stack", "lamina.onnx.Network", "lamina.profiler.DeviceStep", "lamina.profiler.TimedRange"}
FOREIGN = re.compile(r"std::|nanobind|_core\.|object has no attribute|not supported between|not callable|object is not")


def used(made):
    """Uses an object for the first time, since a layer's shapes are known only then."""
    if isinstance(made, lm.nn.Layer) and type(made) not in (lm.nn.Layer, lm.nn.Model):
        kind = type(made).__name__
        if isinstance(made, lm.nn.Embedding):
            made(lm.constant([[1, 2]]))
        elif isinstance(made, lm.nn.MultiHeadAttention):
            made(near(2, 5, 3), near(2, 5, 3))
        elif "merged" in dir(made):
            made([near(2, 4), near(2, 4)])
        else:
            rows = (2, 6, 6, 4) if "2D" in kind else (2, 5, 3) if "1D" in kind or kind in ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "Masking") else (2, 4)
            made(near(*rows), training=True)
    elif isinstance(made, lm.optim.Optimizer):
        made.apply_gradients([(lm.constant([0.5, 0.5]), lm.Variable([1.0, 2.0]))])
    elif isinstance(made, lm.optim.schedules.Schedule):
        made(2)
    elif isinstance(made, lm.nn.Callback):
        net = lm.nn.Sequential([lm.nn.Dense(1)])
        net.compile(lm.optim.SGD(0.1), "mse")
        net.fit(np.zeros((4, 2), "float32"), np.zeros((4, 1), "float32"), epochs=3, verbose=0, validation_split=0.5, callbacks=[made])


def complaint(call, argument, wrong):
    """What is wrong with how a call takes a wrong value; None if nothing is."""
    try:
        call()
    except lm.errors.Error as error:
        text = f"{error.what} {error.why} {error.fix}"
        if isinstance(error, lm.errors.InternalError) or FOREIGN.search(str(error)) or not (error.what and error.where and error.why and error.fix):
            return f"not Lamina's words: {error}"
        # Its name, or a word of it; an array's shape will do.
        words = [argument, *(["label"] if argument == "y_true" else ()), *(part for part in argument.split("_") if len(part) > 3)]
        told = any(re.search(rf"\b{word.rstrip('s')}", f"{text} {error.where}", re.I) for word in words)
        shape = hasattr(wrong, "shape") and ",".join(map(str, wrong.shape)) in error.what
        return None if told or shape else f"does not name the argument: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "was accepted"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def classes():
    seen = {}
    for full, cls in public_surface.callables():
        if isinstance(cls, type) and full not in LEFT_OUT and not full.startswith("lamina.sklearn") and getattr(cls, "__signature__", True) is not None:
            seen.setdefault(cls, full)
    return seen


@pytest.mark.parametrize("cls", [pytest.param(cls, id=full.removeprefix("lamina.")) for cls, full in classes().items()])
def test_constructors(cls):
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except ValueError:
        return pytest.skip("it has no constructor")
    out = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        right = dict(zip((q.name for q in parameters), RIGHT.get(cls.__name__, ())))
        for wrong in CONSTRUCTORS[p.name]:
            said = complaint(lambda p=p, wrong=wrong, right=right: used(cls(**right | {p.name: wrong})), p.name, wrong)
            out += [f"{cls.__name__}({p.name}={wrong!r}) {said}"] if said else []
    assert not out, "\n".join(out)


X, Y, FIVE = near(4, 3).numpy(), np.zeros((4, 1), "float32"), np.zeros((5, 1), "float32")
XS = ["a", None, NAN, 3, [], Odd(), {}, np.zeros((4, 5), "float32"), np.zeros((4, 3), "complex64"), [["a"]], [Odd()]]
YS = ["a", NAN, 3, [], Odd(), FIVE, [["a"]]]
WEIGHTS = ["a", 3, [], Odd(), np.zeros(5, "float32"), {}]
CLASSES = [3, "a", {"a": 1.0}, {0: "x"}, {0: NAN}, [], Odd()]
VALIDATION = [3, "a", (X,), NAN, [], Odd(), (X, FIVE), ()]
G = lm.constant([1.0, 2.0])


def v():
    return lm.Variable([1.0, 2.0])


def net():
    made = lm.nn.Sequential([lm.nn.Dense(1, name="one")])
    made(X)
    made.compile(lm.optim.SGD(0.1), "mse")
    return made


def ensemble():
    return lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(1)]), 2, input_shape=(3,))


def data():
    return lm.data.Dataset.from_tensor_slices((X, Y))


def bar():
    return lm.progress.ProgressBar(3, file=open(os.devnull, "w"))


def writer():
    return lm.summary.Writer("events")


def tape():
    w = lm.Variable([1.0, 2.0])
    with lm.GradientTape(persistent=True) as made:
        target = lm.sum(w * w)
    return made, target, w


TAPE, TARGET, SOURCE = tape()
# (what makes the object, method, right arguments, {argument: wrong values})
METHODS = [
    (net, "compile", {"optimizer": "adam", "loss": "mse"}, {"optimizer": [3, "admm", NAN, [], Odd()], "loss": [3, "mes", NAN, Odd()], "metrics": [3, "acuracy", NAN, [3], ["nope"], Odd()], "run_eagerly": BOOL, "loss_weights": [3, "x", Odd(), ["a"]]}),
    (net, "fit", {"x": X, "y": Y, "verbose": 0}, {"x": XS, "y": YS, "batch_size": COUNT, "epochs": FROM_ZERO, "verbose": VERBOSE, "shuffle": BOOL, "validation_data": VALIDATION,
                                                 "validation_split": [1.0, -0.1, NAN, "a", 2.0, [], Odd()], "class_weight": CLASSES, "sample_weight": WEIGHTS, "steps_per_epoch": COUNT, "callbacks": [3, "a", [3], NAN, Odd()],
                                                 "initial_epoch": FROM_ZERO, "checkpoint": [3, NAN, [], Odd()], "distribute": BOOL, "steps_per_launch": COUNT}),
    (net, "fit", {"x": X, "y": Y, "verbose": 0, "checkpoint": "run"}, {"checkpoint_every": [0, -1, "never", NAN, [], Odd(), 2.5]}),
    (net, "evaluate", {"x": X, "y": Y}, {"x": XS, "y": YS, "batch_size": COUNT, "verbose": VERBOSE, "return_dict": BOOL, "sample_weight": WEIGHTS, "steps": COUNT}),
    (net, "predict", {"x": X}, {"x": XS, "batch_size": COUNT, "verbose": VERBOSE}),
    (net, "train_on_batch", {"x": X, "y": Y}, {"x": XS, "y": YS, "sample_weight": WEIGHTS, "class_weight": CLASSES, "return_dict": BOOL}),
    (net, "test_on_batch", {"x": X, "y": Y}, {"x": XS, "y": YS, "sample_weight": WEIGHTS, "return_dict": BOOL}),
    (net, "predict_on_batch", {"x": X}, {"x": ["a", None, Odd(), {}, np.zeros((4, 5), "float32"), [["a"]]]}),
    (net, "get_layer", {}, {"name": ["no such", 3, NAN, [], Odd()], "index": [9, -9, 2.5, "a", NAN, [], Odd()]}),
    (net, "plot", {}, {"path": [3, NAN, [], Odd(), "m.png"]}),
    (net, "summary", {}, {"print_fn": FUNCTION}),
    (lambda: lm.nn.Sequential([lm.nn.Dense(1)]), "build", {}, {"input_shape": ["ab", 3, NAN, Odd(), (-2,), (2.5,), None]}),
    (net, "add", {}, {"layer": [*FUNCTION, None]}),
    (net, "set_weights", {}, {"weights": [3, "a", NAN, [], Odd(), None, [np.zeros((3, 2)), np.zeros(1)], [["a"], [0.0]]]}),
    (lambda: lm.nn.Dense(2), "add_weight", {"shape": (2,)}, {"shape": ["ab", NAN, Odd(), (-2,), (2.5,)], "initializer": FUNCTION, "dtype": ["float33", 3, [], Odd()], "name": NAME, "trainable": BOOL}),
    (lambda: lm.nn.Dense(2), "from_config", {}, {"config": [3, "a", None, NAN, [], Odd()]}),
    (net, "load_state_dict", {}, {"state": [3, "a", None, NAN, [], Odd(), {}, {"a": 3}], "strict": BOOL}),
    (ensemble, "fit", {"x": X, "y": Y}, {"x": XS, "y": YS, "batch_size": COUNT, "epochs": FROM_ZERO, "shuffle": BOOL, "validation_data": VALIDATION, "distribute": BOOL}),
    (ensemble, "fit", {"x": X, "y": Y, "validation_data": (X, Y)}, {"patience": COUNT}),
    (ensemble, "evaluate", {"x": X, "y": Y}, {"x": XS, "y": YS, "batch_size": COUNT}),
    (ensemble, "predict", {"x": X}, {"x": ["a", None, Odd(), {}, np.zeros((4, 5), "float32"), [["a"]]], "members": BOOL}),
    (lambda: lm.Checkpoint("kept", net()), "save", {}, {"step": [-1, 2.5, "a", NAN, None, [], Odd(), 10**13]}),
    (writer, "scalar", {"name": "a", "value": 1.0, "step": 1}, {"name": NAME, "value": ["a", None, [], Odd(), [1, 2]], "step": [2.5, "a", NAN, None, Odd()], "time": ["a", [], Odd(), NAN]}),
    (writer, "histogram", {"name": "a", "values": [1.0, 2.0], "step": 1}, {"name": NAME, "values": ["a", None, Odd(), [NAN]], "step": [2.5, "a", NAN, None, Odd()], "time": ["a", [], Odd(), NAN], "bins": COUNT}),
    (bar, "update", {"step": 1}, {"step": ["a", NAN, None, [], Odd(), 2.5], "metrics": [3, "ab", [3], [("a", "b")], NAN, Odd()]}),
    (bar, "wants", {}, {"step": ["a", NAN, None, [], Odd(), 2.5]}),
    (bar, "finish", {}, {"metrics": [3, "ab", [3], [("a", "b")], NAN, Odd()]}),
    (data, "batch", {"batch_size": 2}, {"batch_size": COUNT, "drop_remainder": BOOL}),
    (data, "filter", {}, {"predicate": [*FUNCTION, None]}),
    (data, "from_csv", {"path": "d.csv"}, {"path": [*PATH, "none.csv"], "label": ["z", 3, NAN], "delimiter": [3, NAN, "", None]}),
    (data, "from_generator", {"source": lambda: iter([1.0])}, {"source": [3, NAN, Odd(), None, iter([1])], "size": FROM_ZERO}),
    (data, "from_pandas", {}, {"frame": [3, "a", NAN, Odd(), None, []]}),
    (data, "from_tensor_slices", {}, {"tensors": [3, "a", NAN, Odd(), None, (X, np.zeros(5)), (), {}, [["a"]]]}),
    (data, "host_map", {"function": lambda x, y: x}, {"function": [*FUNCTION, None], "dtypes": ["float33", 3, Odd()], "parallel": [0, -2, 2.5, "a", NAN]}),
    (data, "interleave", {"function": lambda x, y: lm.data.Dataset.range(2)}, {"function": [*FUNCTION, None], "cycle_length": COUNT, "block_length": COUNT}),
    (data, "map", {"function": lambda x, y: x}, {"function": [*FUNCTION, None], "parallel": [0, -2, 2.5, "a", NAN]}),
    (data, "padded_batch", {"batch_size": 2}, {"batch_size": COUNT, "value": ["a", [], Odd()], "drop_remainder": BOOL}),
    (data, "prefetch", {}, {"buffer_size": [-2, 2.5, "a", NAN, [], Odd()]}),
    (data, "random_split", {"parts": [0.5, 0.5]}, {"parts": [3, "a", NAN, [], [2.0, 3.0], [-0.5, 1.5], ["a"], Odd()], "seed": SEED}),
    (data, "range", {}, {"n": FROM_ZERO}),
    (data, "repeat", {}, {"count": [-2, 2.5, "a", NAN, [], Odd()]}),
    (data, "shuffle", {}, {"buffer_size": COUNT, "seed": SEED}),
    (data, "skip", {}, {"count": FROM_ZERO}),
    (data, "take", {}, {"count": [-2, 2.5, "a", NAN, [], Odd()]}),
    (lm.optim.LBFGS, "minimize", {"loss_fn": lambda: lm.constant(1.0), "variables": [v()]}, {"loss_fn": [*FUNCTION, None, lambda: "a", lambda: G, lambda: None], "variables": [3, "a", NAN, None, Odd(), [3], []]}),
    (lm.nn.initializers.glorot_uniform, "__call__", {"shape": (2, 2)}, {"shape": ["ab", NAN, Odd(), None, (-1,), (2.5,)], "dtype": ["float33", 3, [], Odd()], "seed": SEED}),
    (lm.nn.regularizers.L2, "__call__", {}, {"weight": ["a", None, Odd(), 3]}),
    (lambda: lm.nn, "LambdaCallback", {}, {"on_epoch_end": [3, "a", NAN, Odd()], "on_epoch": [print]}),
    (lm.GradientTape, "watch", {}, {"x": ["a", None, Odd(), 3, NAN]}),
    (lambda: TAPE, "gradient", {"target": TARGET, "sources": [SOURCE]}, {"target": ["a", None, Odd(), 3], "sources": ["a", None, Odd(), 3, [3]], "output_gradients": ["a", Odd(), G], "unconnected_gradients": ["a", 3]}),
    (lambda: TAPE, "jacobian", {"target": TARGET, "sources": [SOURCE]}, {"target": ["a", None, Odd(), 3], "sources": ["a", None, Odd(), 3, [3]]}),
]
for optimizer in (lm.optim.SGD, lm.optim.RMSprop, lm.optim.Adagrad, lm.optim.Adam, lm.optim.AdamW, lm.optim.Nadam, lm.optim.Lion):
    METHODS += [
        (optimizer, "apply_gradients", {}, {"gradients_and_variables": [3, "a", NAN, None, Odd(), [3], [(G, 3)], [("a", v())], [(lm.constant([1.0]), v())], [(lm.constant([1, 2]), v())], [(None, v())], [(G,)]]}),
        (optimizer, "build", {}, {"variables": [3, "a", NAN, None, Odd(), [3], [lm.Variable(1)]]}),
        (optimizer, "add_variables", {}, {"variables": [3, "a", NAN, None, Odd(), [3]]}),
        (optimizer, "load_state_dict", {"state": {}}, {"state": [3, "a", NAN, None, Odd(), {"a": 3}], "strict": BOOL}),
        (optimizer, "scale_loss", {}, {"loss": ["a", None, Odd(), [["a"]]]}),
    ]
METHODS += [(lambda schedule=schedule: schedule, "__call__", {}, {"steps": ["a", None, Odd(), [], NAN, 2.5]}) for schedule in (lm.optim.schedules.Constant(0.1), lm.optim.schedules.CosineDecay(0.1, 5), lm.optim.schedules.Warmup(0.1, 5))]
for loss in ("BinaryCrossEntropy", "CategoricalCrossEntropy", "CosineSimilarity", "Hinge", "Huber", "KLDivergence", "MeanAbsoluteError", "MeanSquaredError", "SparseCrossEntropy"):
    sparse = loss == "SparseCrossEntropy"
    METHODS += [(getattr(lm.losses, loss), "__call__", {"y_true": lm.constant([0, 1]) if sparse else near(2, 4), "y_pred": near(2, 4)},
                 {"y_true": ["a", None, Odd(), near(5, 4), [["a"]], *([lm.constant([0, 9]), lm.constant([0, -1])] if sparse else [])], "y_pred": ["a", None, Odd(), [], near(5, 4), lm.constant([[1, 2], [3, 4]])]})]
for metric in ("AUC", "Accuracy", "BinaryAccuracy", "F1", "MeanAbsoluteError", "MeanSquaredError", "Precision", "R2", "Recall", "TopK"):
    labels, rows = (lm.constant([0, 1]), near(2, 6)) if metric in ("Accuracy", "TopK") else (near(2), near(2))
    METHODS += [(getattr(lm.metrics, metric), "measure", {"labels": labels, "predictions": rows}, {"labels": ["a", None, Odd(), [], near(5), [["a"]]], "predictions": ["a", None, Odd(), [], near(5)]}),
                (getattr(lm.metrics, metric), "update", {"value": near(3) if metric in ("AUC", "F1", "Precision", "R2", "Recall") else lm.constant(1.0)}, {"value": ["a", None, Odd(), []], "samples": FROM_ZERO})]


@pytest.mark.parametrize("make, method, right, wrong", [pytest.param(*row, id=f"{getattr(row[0], '__qualname__', '').split('.')[-1]}-{row[1]}-{i}") for i, row in enumerate(METHODS)])
def test_methods(make, method, right, wrong):
    with open("d.csv", "w") as file:
        file.write("a,b\n1,2\n3,4\n")
    out = []
    for argument, values in wrong.items():
        for value in values:
            def call(argument=argument, value=value):
                result = getattr(make(), method)(**right | {argument: value})
                if isinstance(result, lm.data.Dataset):
                    list(result if method == "take" else result.take(8))

            said = complaint(call, argument, value)
            out += [f"{method}({argument}={value!r}) {said}"] if said else []
    assert not out, "\n".join(out)


LINES, IMAGES = (2, 5, 3), (2, 4, 4, 3)
# Rows that a layer takes, by its name. Those in OF_ANY_RANK take more.
LAYERS = {"BatchNorm": (2, 4), "Conv1D": LINES, "Conv1DTranspose": LINES, "Conv2D": IMAGES, "Conv2DTranspose": IMAGES, "Dense": (2, 4), "DepthwiseConv2D": IMAGES, "MaxPool1D": LINES, "MaxPool2D": IMAGES,
          "AveragePooling1D": LINES, "AveragePooling2D": IMAGES, "GlobalAveragePool1D": LINES, "GlobalMaxPool1D": LINES, "GlobalAveragePool2D": IMAGES, "GlobalMaxPool2D": IMAGES, "UpSampling2D": IMAGES, "ZeroPadding2D": IMAGES,
          "LayerNorm": (2, 4), "GroupNorm": (2, 4), "RMSNorm": (2, 4), "LSTM": LINES, "GRU": LINES, "SimpleRNN": LINES, "Dropout": (2, 4), "Activation": (2, 4), "Reshape": (2, 4), "Flatten": IMAGES, "Softmax": (2, 4),
          "ReLU": (2, 4), "ELU": (2, 4), "LeakyReLU": (2, 4), "Masking": LINES, "Embedding": None}
OF_ANY_RANK = {"Activation", "BatchNorm", "Dense", "Dropout", "ELU", "Embedding", "Flatten", "GroupNorm", "LayerNorm", "LeakyReLU", "Masking", "RMSNorm", "ReLU", "Reshape", "Softmax"}


@pytest.mark.parametrize("built", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize("name", LAYERS)
def test_calls_of_layers(name, built):
    good = near(*LAYERS[name]) if LAYERS[name] else lm.constant([[1, 2]])
    wrong = ["a", None, Odd(), {}, [["a"]], lambda: 3, *([] if name in OF_ANY_RANK else [near(2), near(2, 2, 2, 2, 2, 2)]), *([near(2, 2), lm.constant([[9]])] if name == "Embedding" else [])]
    out = []
    for value in wrong:
        layer = getattr(lm.nn, name)(*RIGHT.get(name, ()))
        if built:
            layer(good)
        try:
            layer(value)
            out.append(f"{name}()({value!r}) was accepted")
        except lm.errors.Error as error:
            if isinstance(error, lm.errors.InternalError) or FOREIGN.search(str(error)) or not (error.what and error.where and error.why and error.fix):
                out.append(f"{name}()({value!r}): {error}")
    for value in ["yes", 2, NAN, []]:
        said = complaint(lambda value=value: getattr(lm.nn, name)(*RIGHT.get(name, ()))(good, training=value), "training", value)
        out += [f"{name}()(training={value!r}) {said}"] if said else []
    assert not out, "\n".join(out)


@pytest.mark.parametrize("what, given, fix", [
    ("loss", "mes", "did you mean 'mse'?"), ("loss", "SparseCategoricalCrossentropy", "did you mean 'sparse_categorical_crossentropy'?"), ("loss", "bce", "did you mean 'binary_cross_entropy'?"), ("loss", "mape", "use one of these"),
    ("activation", "swish", "did you mean 'silu'?"), ("activation", "tahn", "did you mean 'tanh'?"), ("activation", "mish", "use one of these"), ("metric", "accurcay", "did you mean 'accuracy'?"),
    ("metric", "sparse_categorical_accuracy", "did you mean 'accuracy'?"), ("metric", "rmse", "use one of these"), ("optimizer", "sdg", "did you mean 'sgd'?"), ("optimizer", "momentum", "did you mean 'sgd'?"), ("optimizer", "adamax", "use one of these"),
    ("initializer", "xavier_uniform", "did you mean 'glorot_uniform'?"), ("initializer", "GlorotNormal", "did you mean 'glorot_normal'?"), ("initializer", "lecun_normal", "use one of these"), ("regularizer", "lasso", "did you mean 'l1'?"), ("regularizer", "l1l2", "did you mean 'l1_l2'?")])
def test_unknown_names_have_the_near_one(what, given, fix):
    call = {"loss": lambda: lm.losses.get(given), "activation": lambda: lm.nn.Dense(2, given), "metric": lambda: lm.metrics.get(given), "optimizer": lambda: lm.optim.get(given),
            "initializer": lambda: lm.nn.Dense(2, kernel_initializer=given), "regularizer": lambda: lm.nn.Dense(2, kernel_regularizer=given)}[what]
    with pytest.raises(lm.errors.NotFound) as info:
        call()
    assert info.value.what == f"there is no {what} named '{given}'" and info.value.fix == fix


def test_other_kinds_of_numbers_and_bools_are_taken():
    net = lm.nn.Sequential([lm.nn.Dense(np.int64(2), use_bias=np.bool_(True))])
    net.compile(lm.optim.SGD(np.float32(0.1)), "mse")
    history = net.fit(X, np.zeros((4, 2), "float32"), batch_size=np.int32(2), epochs=np.int64(1), verbose=False, shuffle=np.bool_(True), validation_split=np.float64(0.25))
    assert len(history.history["loss"]) == 1 and lm.nn.EarlyStopping(verbose=True).verbose == 1
    assert net(X, training=1).shape == (4, 2) and net(X, training=np.bool_(False)).shape == (4, 2)
    assert net.fit(X, np.zeros((4, 2), "float32"), verbose="auto").epoch == [0]


def test_the_argument_of_the_users_own_call_is_named():
    """A call of Lamina makes others; a user's function may call Lamina too."""
    with pytest.raises(TypeError) as info:
        lm.nn.Dense(3, kernel_regularizer=3)
    assert info.value.where.startswith("argument 'kernel_regularizer', at ") and sys._getframe().f_code.co_filename.rpartition("/")[2] in info.value.where
    with pytest.raises(TypeError) as info:
        lm.grad(lambda x: lm.nn.Dense(3, kernel_initializer=[])(x))(near(2, 2))
    assert info.value.where.startswith("argument 'kernel_initializer', at ")
