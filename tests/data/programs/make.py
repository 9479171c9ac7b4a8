"""Writes the folder of a release beside it: ./dev python tests/data/programs/make.py 0.1. Files of every kind, made with this version, and what they must give.
Later versions load them: no folder is ever written again.

function/          a lm.function: open lengths, loops, branches, a growing list, a draw
policy/            a Module: a step of training with Adam, Dropout and noise, several Variables
weights.safetensors, checkpoint/, net.keras
expected.safetensors
    NN/PROGRAM:FUNCTION/argument/NAME, NN/PROGRAM:FUNCTION/result/NAME: the calls, in order
    after/PROGRAM/NAME: the weights of the program when it is saved after the calls
    checkpoint/NAME: the weights after the rest of the epoch
    keras/x, keras/labels, keras/y, keras/after: arguments, the .keras file's result, and that after an epoch of training
"""
import os
import sys
import tempfile

import numpy as np

import lamina as lm

HERE = os.path.dirname(os.path.abspath(__file__))
F32 = lm.float32
rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.normal(size=shape).astype("float32")


def function():
    total = lm.Variable(0.0, name="total")

    @lm.function(input_signature=[lm.TensorSpec([None], F32, name="x"), lm.TensorSpec([], lm.int32, name="n")])
    def f(x, n):
        best = x[0]
        for i in lm.range(n):
            if x[i] > best:
                best = x[i]
        while lm.sum(lm.abs(x)) > 10.0:
            x = x / 2.0
        total.assign_add(best)
        grown = []
        for i in lm.range(n):
            grown.append(x[i] * 2)
        return {"best": best, "noise": lm.random.normal([2]), "scaled": lm.cond(n > 2, lambda: x * total, lambda: x), "grown": lm.stack(grown)}

    return f


class Policy(lm.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out, self.dropout = lm.nn.Dense(6, activation="tanh"), lm.nn.Dense(2), lm.nn.Dropout(0.25)
        self.optimizer = lm.optim.Adam(0.01)
        self.scale = lm.Variable(np.float16(0.5), trainable=False, name="scale")
        self.counts = lm.Variable(np.zeros(3, "int64"), trainable=False, name="counts")
        self.title, self.shape = "kept", (3, 2)

    @lm.function(input_signature=[lm.TensorSpec([None, 3], F32)])
    def score(self, rows):
        return lm.softmax(self.out(self.hidden(rows))) * lm.astype(self.scale, F32)

    @lm.function(input_signature=[lm.TensorSpec(["n", 3], F32), lm.TensorSpec(["n"], lm.int32)])
    def step(self, x, labels):
        with lm.GradientTape() as tape:
            logits = self.out(self.dropout(self.hidden(x + 0.1 * lm.random.normal([3])), training=True))
            loss = lm.losses.SparseCrossEntropy(from_logits=True)(labels, logits)
        variables = self.hidden.trainable_variables + self.out.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.counts.assign_add(lm.astype(lm.sum(lm.one_hot(labels, 3), axis=0), lm.int64))
        return {"loss": loss, "counts": self.counts.read()}


def training():
    """What the checkpoint is of, as it is before anything is restored: {"model":, "optimizer":, "data":}."""
    values = np.random.default_rng(3)
    net = lm.nn.Sequential([lm.nn.Input((3,)), lm.nn.Dense(4, activation="tanh"), lm.nn.Dropout(0.5), lm.nn.Dense(2)])
    data = lm.data.Dataset.from_tensor_slices((values.normal(size=(20, 3)).astype("float32"), values.normal(size=(20, 2)).astype("float32"))).shuffle(20, seed=1).batch(4)
    return {"model": net, "optimizer": lm.optim.Adam(0.01), "data": data}


def steps(model, optimizer, data):
    """Trains one step for each batch that is left."""
    for x, y in data:
        with lm.GradientTape() as tape:
            loss = lm.mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        yield loss


def main(version):
    folder = os.path.join(HERE, version)
    os.makedirs(folder)
    inside = lambda name: os.path.join(folder, name)  # noqa: E731
    lm.random.set_seed(5)
    lm.save(function(), inside("function"))
    policy = Policy()
    policy.score(numbers(2, 3))
    lm.save(policy, inside("policy"))

    expected, loaded = {}, {"function": lm.load(inside("function")), "policy": lm.load(inside("policy"))}
    calls = [("function", "serving_default", {"x": numbers(n), "n": np.int32(k)}) for n, k in ((4, 3), (7, 2), (1, 1))]
    calls += [("policy", name, arguments) for n in (4, 1, 5) for name, arguments in (
        ("step", {"x": numbers(n, 3), "labels": rng.integers(0, 2, n).astype("int32")}), ("score", {"rows": numbers(n + 1, 3)}))]
    for number, (program, name, arguments) in enumerate(calls):
        results = loaded[program].signatures[name](**{key: lm.constant(value) for key, value in arguments.items()})
        for kind, values in (("argument", arguments), ("result", results if isinstance(results, dict) else {"output": results})):
            expected |= {f"{number:02}/{program}:{name}/{kind}/{key}": value for key, value in values.items()}
    with tempfile.TemporaryDirectory() as after:
        for program, module in loaded.items():
            lm.save(module, os.path.join(after, program))
            expected |= {f"after/{program}/{name}": value for name, value in lm.load_tensors(os.path.join(after, program, "weights.safetensors")).items()}

    lm.save_tensors(inside("weights.safetensors"), {d: lm.astype(lm.constant(numbers(2, 3) * 3), d) for d in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")} | {"empty": lm.zeros((0, 3)), "a/b.c é": lm.zeros(())}, {"made by": "make.py"})

    saved = lm.Checkpoint(inside("checkpoint"), **(parts := training()), keep=1)
    for step, _ in enumerate(steps(**parts), 1):
        if step == 3:
            saved.save(step)
    expected |= {f"checkpoint/{name}": value for name, value in parts["model"].state_dict().items()}

    net = lm.nn.Sequential([lm.nn.Input((5,)), lm.nn.Dense(4, activation="relu"), lm.nn.BatchNorm(), lm.nn.Dense(3)])
    net.compile("adam", "mse")
    x, y = numbers(8, 5), numbers(8, 3)
    net.fit(x, y, batch_size=4, epochs=1, verbose=0, shuffle=False)
    lm.nn.save_file(net, inside("net.keras"))
    again = lm.nn.load_file(inside("net.keras"))
    expected |= {"keras/x": x, "keras/labels": y, "keras/y": again.predict(x)}
    again.fit(x, y, batch_size=4, epochs=1, verbose=0, shuffle=False)
    expected["keras/after"] = again.predict(x)
    lm.save_tensors(inside("expected.safetensors"), expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
