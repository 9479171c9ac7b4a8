"""A hyperparameter sweep in one call: 24 small nets with different seeds and learning rates, trained together on handwritten digits."""
import os
import time

import lamina as lm

HERE = os.path.dirname(os.path.abspath(__file__))
data = os.path.join(HERE, "..", "data")
images = (lm.data.read_idx(os.path.join(data, "digits-images-idx3-ubyte.gz")).astype("float32") / 255).reshape(-1, 784)
labels = lm.data.read_idx(os.path.join(data, "digits-labels-idx1-ubyte.gz")).astype("int32")
test = [i for i in range(len(images)) if i % 5 == 0]
train = [i for i in range(len(images)) if i % 5]

rates = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
seeds = range(4)
sweep = [(rate, seed) for rate in rates for seed in seeds]


def build() -> lm.nn.Sequential:
    return lm.nn.Sequential([lm.nn.Dense(32, activation="relu"), lm.nn.Dense(32, activation="relu"), lm.nn.Dense(10)])


nets = lm.nn.stack(build, len(sweep), seeds=[seed for _, seed in sweep], input_shape=(784,))
sgd = lm.optim.SGD(lm.per_model([rate for rate, _ in sweep]))
loss = lm.losses.SparseCrossEntropy(from_logits=True)


def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
    with lm.GradientTape() as tape:
        cost = loss(y, nets(x))
    sgd.apply_gradients(zip(tape.gradient(cost, nets.trainable_variables), nets.trainable_variables))
    return cost


train_all = lm.function(lm.vmap(step, in_axes=None))  # every net sees the same batches
accuracy_of_all = lm.function(lm.vmap(lambda x, y: lm.metrics.accuracy(y, nets(x)), in_axes=None))

feed = lm.data.Dataset.from_tensor_slices((images[train], labels[train])).shuffle().batch(50)
start = time.time()
for epoch in range(3):
    for x, y in feed:
        train_all(x, y)
accuracy = accuracy_of_all(images[test], labels[test]).numpy().reshape(len(rates), len(seeds))

for rate, row in zip(rates, accuracy):
    print(f"learning rate {rate:5}: accuracy {row.mean():.3f} over {len(seeds)} seeds, from {row.min():.3f} to {row.max():.3f}")
best = int(accuracy.argmax())
print(f"best: {sweep[best]}; nets[{best}] is an ordinary model of {nets[best].count_params()} parameters; {time.time() - start:.1f} s in all")
