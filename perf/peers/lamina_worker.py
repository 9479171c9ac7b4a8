"""Lamina from Python: lm.function of one training step and of the forward pass. usage: lamina_worker.py THREADS NETWORK BATCH FORM

FORM "call": one call a step. "steps": 16 steps on 16 batches in one call, with lm.scan. "training": as "call", and nothing else beside it. Copies of a network are mapped with lm.vmap.
"""
import os
import time

import numpy as np
import worker

options = worker.arguments(["call", "steps", "training"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
os.environ["LAMINA_THREADS"] = str(options.threads)
start = time.perf_counter()
with worker.importing() as imported:
    import lamina as lm

STEPS = 16
x, y = (lm.constant(a) for a in worker.batch(network, options.batch))
loss = lm.losses.SparseCrossEntropy(from_logits=True)


class Layers(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.flat = lm.nn.Flatten()
        self.hidden = [lm.nn.Dense(n, activation=network.activation) for n in network.widths]
        self.drop = lm.nn.Dropout(network.rate)
        self.head = lm.nn.Dense(worker.CLASSES)

    def call(self, x):
        h = self.flat(x)
        for layer in self.hidden:
            h = layer(h)
        return self.head(self.drop(h) if network.rate else h)


def training(net):
    optimizer = lm.optim.SGD(network.learning_rate) if network.optimizer == "sgd" else lm.optim.Adam(network.learning_rate)

    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost
    return step


if network.copies > 1:
    net = lm.nn.stack(Layers, network.copies, seeds=range(network.copies), input_shape=network.inputs)
    one_step, predict = lm.vmap(training(net), in_axes=None), lm.vmap(net, in_axes=None)
else:
    net = Layers()
    net(x)
    net.set_weights([a for layer in worker.start_weights(network) for a in layer])
    one_step, predict = training(net), lambda x: net(x)

step, forward = lm.function(one_step), lm.function(predict)


def ten_thousand_ops(v):
    for _ in range(5000):
        v = lm.tanh(v) + v
    return v


def deep(layers):
    """A function of rows that is a step of a net so deep, not yet traced."""
    weights, biases = [lm.Variable(lm.eye(64)) for _ in range(layers)], [lm.Variable(lm.zeros([64])) for _ in range(layers)]
    sgd, variables = lm.optim.SGD(0.01), weights + biases

    def deep_step(h):
        with lm.GradientTape() as tape:
            for w, b in zip(weights, biases):
                h = lm.relu(h @ w + b)
            cost = lm.mean(lm.square(h))
        sgd.apply_gradients(list(zip(tape.gradient(cost, variables), variables)))
        return cost
    return deep_step


def first_call(deep_step):
    return lambda: lm.function(deep_step)(ones)


def written(v, n):
    i = lm.constant(0)
    while i < n:
        v = v * 0.999 + 1
        i = i + 1
    return v


def carried(w):
    carry, _ = lm.scan(lambda c, _: (tuple(lm.tanh(v * w) for v in c), ()), tuple(lm.constant(0.01 * i) for i in range(worker.CARRIES)), None, length=worker.SCAN)
    return sum(carry)


def fit(n, kept=[]):
    """Epochs of batches in random order; the weights go on from those of step. The calls before the measured ones have chosen how many steps a launch has."""
    batches, epochs = 300, 10
    if not kept:
        kept += [np.concatenate([a.numpy()] * batches) for a in (x, y)]
        net.compile(optimizer=lm.optim.SGD(network.learning_rate), loss=loss)
    net.fit(*kept, batch_size=options.batch, epochs=epochs, verbose=0)
    return epochs * batches


def repeat(call):
    def run(n):
        for _ in range(n):
            call()
        lm.synchronize()
    return run


if options.form == "steps":
    xs, ys = (lm.stack([a] * STEPS) for a in (x, y))
    many = lm.function(lambda xs, ys: lm.scan(lambda carry, xy: (carry, one_step(*xy)), (), (xs, ys))[1])

    def steps(n):
        calls = -(-n // STEPS)
        for _ in range(calls):
            many(xs, ys)
        lm.synchronize()
        return calls * STEPS

    works = {"step": steps}
else:
    works = {"step": repeat(lambda: step(x, y)), "forward": repeat(lambda: forward(x))}
if options.form == "call" and options.network == "hundred":
    plus_one, small = lm.function(lambda v: v + 1), lm.ones([4])
    tree, one_of_many = worker.leaves(lambda n: lm.ones([n])), lm.function(lambda t: t["layer_7"][3] + 1)
    array = np.ones(4, "float32")
    works |= {"cached_call": repeat(lambda: plus_one(small)), "cached_call_numpy": repeat(lambda: plus_one(array)), "cached_call_200": repeat(lambda: one_of_many(tree)), "eager_op": repeat(lambda: small + small)}
    works["trace_and_compile"] = repeat(lambda: lm.function(one_step)(x, y))
    works["trace_10000"] = repeat(lambda: lm.function(ten_thousand_ops).get_concrete_function(lm.TensorSpec([4], lm.float32)))
    if options.batch == 20:
        ones, deep_4000 = lm.ones([20, 64]), deep(4_000)
        traced_4000 = lm.function(deep_4000)
        works |= {"first_call_4000": repeat(first_call(deep_4000)), "first_call_10000": repeat(first_call(deep(10_000))), "step_4000": repeat(lambda: traced_4000(ones)), "fit": fit}
    if hasattr(lm, "fori_loop"):
        numbers, (rows, matrix) = lm.ones([64]), (lm.constant(a) for a in worker.loop_weights())
        loop_numbers = lm.function(lambda v: lm.fori_loop(0, worker.LOOP, lambda _, u: u * 0.999 + 1, v))
        loop_dense = lm.function(lambda v: lm.fori_loop(0, worker.LOOP, lambda _, u: lm.relu(u @ matrix), v))
        loop_op = lm.function(lambda v, n: lm.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.999 + 1), (lm.constant(0), v))[1])
        loop_written, count = lm.function(written), lm.constant(worker.LOOP)
        scan_gradient, near_one = lm.function(lm.grad(carried)), lm.constant(0.99)
        works |= {"loop_numbers": repeat(lambda: loop_numbers(numbers)), "loop_op": repeat(lambda: loop_op(numbers, count)),
                  "loop_written": repeat(lambda: loop_written(numbers, count)), "loop_dense": repeat(lambda: loop_dense(rows)),
                  "scan_gradient": repeat(lambda: scan_gradient(near_one))}
worker.serve({"name": f"Lamina {lm.__version__} {options.form}", "threads": options.threads, "batch": options.batch, **imported}, works)
