"""Makes the files beside it, with Keras: KERAS_BACKEND=jax python make.py [NAME ...]. Each has NAME.keras, and inputs and outputs in NAME.npz (x0, x1, ...; y0, y1, ...)."""
import os
import sys

import keras
import numpy as np
from keras import layers as L

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)


def images(*shape):
    return rng.normal(size=shape).astype("float32")


def dense():
    return keras.Sequential([keras.Input((5,)), L.Dense(6, "relu", kernel_initializer="he_normal"), L.Dropout(0.3, seed=3), L.Dense(3, "softmax", use_bias=False)]), [images(4, 5)]


def activations():
    names = "relu tanh sigmoid elu gelu silu softplus selu hard_sigmoid exponential softmax log_softmax linear".split()
    x = keras.Input((4,))
    h = L.Dense(3, "swish")(x)
    return keras.Model(x, [L.Activation(name)(h) for name in names]), [images(3, 4)]


def convolutions():
    return keras.Sequential([
        keras.Input((9, 8, 2)), L.Conv2D(4, 3, padding="same", activation="relu"), L.BatchNormalization(), L.MaxPooling2D(), L.Conv2D(6, (2, 3), strides=(1, 2), groups=2, dilation_rate=1),
        L.Conv2DTranspose(3, 2, strides=3), L.Conv2DTranspose(2, 3, strides=2, padding="same", use_bias=False), L.AveragePooling2D(2, padding="same"), L.LayerNormalization(epsilon=1e-4), L.Flatten(),
        L.Dense(3)]), [images(2, 9, 8, 2)]


def transposed():
    x = keras.Input((5, 4, 2))
    outputs = [L.Conv2DTranspose(3, k, strides=s, padding=p)(x) for k in (1, 3) for s in (2, 3) for p in ("valid", "same")]
    return keras.Model(x, outputs), [images(2, 5, 4, 2)]


def sequences():
    x = keras.Input((7,), dtype="int32")
    h = L.Conv1D(5, 3, strides=2, padding="same", activation="tanh")(L.Embedding(11, 4)(x))
    return keras.Model(x, L.Dense(2)(L.LayerNormalization(center=False)(h))), [rng.integers(0, 11, (3, 7)).astype("int32")]


def pools():
    x = keras.Input((6, 6, 3))
    h = L.Conv2D(4, 3, dilation_rate=2)(x)
    return keras.Model(x, [L.GlobalAveragePooling2D()(h), L.GlobalMaxPooling2D(keepdims=True)(h), L.MaxPooling2D(2, strides=1, padding="same")(h)]), [images(2, 6, 6, 3)]


def shared():
    """Two inputs, a layer called three times, a nested model, outputs by name, and layers whose order by depth is not that of the calls."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    twice, inner = L.Dense(4, "tanh"), keras.Sequential([keras.Input((4,)), L.Dense(4), L.Dense(4)])
    cell = keras.Input((4,))
    nested = keras.Model(cell, L.Dense(4, "relu")(cell))
    late = L.Dense(4)(b)
    x = twice(L.Dense(4)(twice(a)))
    return keras.Model([a, b], {"first": L.Dense(4)(inner(x)), "second": nested(nested(twice(late)))}), [images(3, 4), images(3, 4)]


def embedded_floats():
    return keras.Sequential([keras.Input((3,)), L.Embedding(5, 2), L.Flatten(), L.Dense(2)]), [rng.integers(0, 5, (2, 3)).astype("float32")]


def unbuilt_input():
    net = keras.Sequential([L.Dense(4, "relu"), L.BatchNormalization(scale=False), L.Dense(2)])
    net(images(2, 3))
    return net, [images(2, 3)]


def halves():
    net = keras.Sequential([keras.Input((4,), dtype="bfloat16"), L.Dense(4, "relu", dtype="bfloat16"), L.Dense(2, dtype="bfloat16")])
    return net, [images(3, 4)]


def masked():
    ids, x = keras.Input((5,)), keras.Input((5, 3))
    a, b, c = L.Embedding(6, 4, mask_zero=True)(ids), L.Embedding(6, 4)(ids), L.LSTM(4, return_sequences=True)(L.Masking(1.0)(x))
    zeros = L.LSTM(4, return_sequences=True, zero_output_for_mask=True)(a)
    joined = [merge([a, other]) for merge in (L.Add(), L.Multiply(), L.Maximum(), L.Concatenate(), L.Concatenate(axis=1)) for other in (b, c)]
    return keras.Model([ids, x], [L.Bidirectional(L.GRU(2, return_sequences=True), "sum")(a), zeros, L.Dense(2)(c), L.MultiHeadAttention(2, 3)(b, a), *(L.SimpleRNN(3)(one) for one in joined)]), \
        [np.array([[3, 1, 4, 0, 0], [2, 5, 0, 0, 0], [1, 2, 3, 4, 5]], "float32"), images(3, 5, 3).round()]


def trained(optimizer, loss="mse", metrics=()):
    def make():
        net = keras.Sequential([keras.Input((4,)), L.Dense(5, "tanh"), L.BatchNormalization(), L.Dense(3)])
        net.compile(optimizer(), loss, metrics=list(metrics))
        net.fit(images(8, 4), rng.integers(0, 3, 8) if "sparse" in str(loss) else images(8, 3), verbose=0, shuffle=False, epochs=2)
        return net, [images(3, 4)]
    return make


FILES = {f.__name__: f for f in (dense, activations, convolutions, transposed, sequences, pools, shared, embedded_floats, unbuilt_input, halves, masked)} | {
    "adam": trained(lambda: keras.optimizers.Adam(0.01, beta_1=0.8)), "adamw": trained(lambda: keras.optimizers.AdamW(0.01)),
    "sgd": trained(lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), keras.losses.Huber()),
    "rmsprop": trained(lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True), keras.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"]),
}


def perturb(net):
    """Weights that are no defaults."""
    for v in net.weights:
        if v.dtype in ("float32", "bfloat16"):
            v.assign(np.abs(np.asarray(v, "float32")) * 0.9 + 0.1 * rng.random(v.shape) + 0.05 if "variance" in v.name else np.asarray(v, "float32") + 0.1 * rng.normal(size=v.shape))


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    for name, make in FILES.items() if len(sys.argv) == 1 else [(name, FILES[name]) for name in sys.argv[1:]]:
        net, inputs = make()
        if not net.compiled:
            perturb(net)
        outputs = keras.tree.flatten(net(inputs if len(inputs) > 1 else inputs[0], training=False))
        more = {}
        if net.compiled:  # one more step on the same rows, from the state in the file
            net.save(os.path.join(HERE, name + ".keras"))
            labels = np.arange(3) % 3 if name == "rmsprop" else images(3, 3)
            more["labels"], more["loss"] = labels, np.float32(net.train_on_batch(inputs[0], labels)[0] if name == "rmsprop" else net.train_on_batch(inputs[0], labels))
            more |= {f"w{i}": np.asarray(w) for i, w in enumerate(net.get_weights())}
        else:
            net.save(os.path.join(HERE, name + ".keras"))
        np.savez_compressed(os.path.join(HERE, name), **{f"x{i}": x for i, x in enumerate(inputs)}, **{f"y{i}": np.asarray(y, "float32") for i, y in enumerate(outputs)}, **more)
        print(name, keras.version(), os.path.getsize(os.path.join(HERE, name + ".keras")))
