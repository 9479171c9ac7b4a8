"""Opens .keras files with Keras, in an interpreter that has it: keras_worker.py FOLDER. For each NAME.keras with inputs in NAME.npz it writes what Keras computes
to NAME.out.npz, what its metrics are of the labels l0, ... to NAME.json, and the model, as Keras saves it, to NAME.again.keras. Prints the version of Keras and one line per file."""
import glob
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", next((b for b in ("jax", "torch", "tensorflow") if __import__("importlib.util").util.find_spec(b)), "numpy"))
import keras  # noqa: E402
import numpy as np  # noqa: E402


class Twin(keras.Model):
    """The same network as test_keras_files.Twin."""

    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.b = keras.layers.Dense(units, name="same")
        self.a = [keras.layers.Dense(units, name="same"), [keras.layers.Dense(units, name="same")]]
        self._last = keras.layers.Dense(2)
        self.zero = keras.layers.Dense(units, "tanh")

    def call(self, x):
        return self._last(self.zero(self.a[1][0](self.a[0](self.b(x)))))

    def get_config(self):
        return super().get_config() | {"units": self.units}


print("keras", keras.version(), keras.backend.backend())
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.keras"))):
    stem = path[:-len(".keras")]
    given = np.load(stem + ".npz")
    net = keras.saving.load_model(path, custom_objects={"Twin": Twin})
    inputs = [given[f"x{i}"] for i in range(9) if f"x{i}" in given]
    inputs = inputs if len(inputs) > 1 else inputs[0]
    out = {f"y{i}": np.asarray(y, "float32") for i, y in enumerate(keras.tree.flatten(net(inputs, training=False)))}
    net.save(stem + ".again.keras")
    if "labels" in given:  # the step that follows, from the optimizer's state in the file
        loss = net.train_on_batch(inputs, given["labels"])
        out["loss"] = np.float32(loss[0] if isinstance(loss, list) else loss)
        out |= {f"w{i}": np.asarray(w) for i, w in enumerate(net.get_weights())}
    if "l0" in given:
        labels = [given[f"l{i}"] for i in range(9) if f"l{i}" in given]
        made = net(inputs)
        labels = dict(zip(made, labels)) if isinstance(made, dict) else labels if len(labels) > 1 else labels[0]
        with open(stem + ".json", "w") as file:
            json.dump({key: float(value) for key, value in net.evaluate(inputs, labels, verbose=0, return_dict=True).items()}, file)
    np.savez(stem + ".out.npz", **out)
    print(os.path.basename(stem), "of", ", ".join(sorted({type(layer).__name__ for layer in net._flatten_layers()})))
