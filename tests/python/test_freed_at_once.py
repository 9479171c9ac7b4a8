"""What calls have used is freed when they end: nothing of it waits in reference cycles for Python's collector, which may run after many large batches."""
import gc

import numpy as np
import pytest

import lamina as lm

ROWS = np.random.default_rng(0).standard_normal((64, 256)).astype("float32")
LABELS = (ROWS[:, :1] > 0).astype("float32")


def model(**options):
    net = lm.nn.Sequential([lm.nn.Dense(32, "relu", kernel_regularizer="l2"), lm.nn.Dropout(0.1), lm.nn.Dense(1)])
    net.compile("adam", "mse", metrics=["mse"])
    net.fit(ROWS, LABELS, batch_size=8, epochs=2, verbose=0, **options)
    return net


def functional():
    a, b = lm.nn.Input((256,)), lm.nn.Input((256,))
    net = lm.nn.Model([a, b], lm.nn.Dense(2)(a) * lm.nn.Dense(2)(b))
    net((ROWS, ROWS))
    return net


def calls():
    net, both, x = model(), functional(), lm.constant(ROWS)
    w = lm.Variable(lm.ones((256, 2)))
    data = lm.data.Dataset.from_tensor_slices((ROWS, LABELS))

    def gradient():
        with lm.GradientTape() as tape:
            cost = lm.sum(lm.square(x @ w))
        return tape.gradient(cost, w)

    def chained():
        low = lm.mean(x)
        return low - 1 < low < low + 1

    def tree():
        leaves, structure = lm.tree.flatten({"a": [x, (x + 1,)]})
        return lm.tree.unflatten(structure, leaves)

    traced = lm.function(lambda x: {"y": x @ w, "z": [x + 1]})
    return {
        "fit": lambda: net.fit(ROWS, LABELS, batch_size=8, epochs=2, verbose=0),
        "fit in launches": lambda: net.fit(ROWS, LABELS, batch_size=8, epochs=2, verbose=0, steps_per_launch=4),
        "fit of a Dataset": lambda: net.fit(data.batch(16), verbose=0, validation_data=data.batch(32)),
        "evaluate": lambda: net.evaluate(ROWS, LABELS),
        "predict": lambda: net.predict(ROWS, batch_size=16),
        "train_on_batch": lambda: net.train_on_batch(ROWS, LABELS),
        "a call": lambda: net(x),
        "losses": lambda: net.losses,
        "a functional model": lambda: both((x, x)),
        "a traced function": lambda: traced(x),
        "a gradient": gradient,
        "grad": lambda: lm.grad(lambda w: lm.sum(lm.square(x @ w)))(lm.ones((256, 2))),
        "jvp": lambda: lm.jvp(lambda a: lm.tanh(a), (x,), (x,)),
        "vmap": lambda: lm.vmap(lambda row: lm.sum(row * row))(x),
        "jacobian": lambda: lm.jacobian(lambda a: lm.sum(lm.square(a), axis=1), x[:4, :8]),
        "scan": lambda: lm.scan(lambda c, row: (c + row, c), lm.zeros(256), x),
        "cond": lambda: lm.cond(lm.constant(True), lambda: x + 1, lambda: x),
        "switch": lambda: lm.switch(lm.constant(2), [lambda v: v, lambda v: v + 1, lambda v: v * 2], x),
        "associative_scan": lambda: lm.associative_scan(lm.add, x, axis=0),
        "cumprod": lambda: lm.cumprod(x),
        "multi_dot": lambda: lm.linalg.multi_dot([x, lm.transpose(x), x]),
        "einsum": lambda: lm.einsum("ij,kj->ik", x, x),
        "a chained comparison": chained,
        "tree": tree,
        "a Dataset": lambda: [row for row in data.shuffle(64, seed=1).batch(8).prefetch(2)],
        "a mapped Dataset": lambda: [row for row in data.map(lambda a, b: (a * 2, b)).filter(lambda a, b: b[0] >= 0).batch(4)],
        "shard": lambda: [batch for batch in lm.distributed.shard(data.batch(16))],
        "data_parallel": lambda: lm.distributed.data_parallel(lambda x: lm.mean(x))(x),
        "clip_by_global_norm": lambda: lm.optim.clip_by_global_norm([x, x], 1.0),
        "a metric": lambda: lm.metrics.F1().measure(LABELS, LABELS),
    }


@pytest.fixture(scope="module")
def made():
    return calls()


@pytest.mark.parametrize("name", calls())
def test_a_call_leaves_no_tensors_in_cycles(made, name):
    for _ in range(2):
        made[name]()  # traces, whose graphs stay
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        for _ in range(2):
            made[name]()
        gc.collect()
        left = [value for value in gc.garbage if isinstance(value, (lm.Tensor, lm.Variable, np.ndarray))]
        cells = [type(value).__name__ for value in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left, f"{len(left)} tensors among {sorted(set(cells))}"
