"""Several threads at the border at once: functions, tapes, state dicts and datasets on lists, dicts and layers that change concurrently."""
import os
import random
import sys
import threading
import time

import numpy as np

import lamina as lm

SECONDS = 30 if os.environ.get("LAMINA_TEST_LONG") else 4


def test_threads_at_the_border():
    net = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Dense(8, "relu"), lm.nn.Dense(2)])
    sgd = lm.optim.SGD(0.001)
    x = lm.ones((3, 4))
    shared, named = [lm.constant(1.0)] * 3, {"a": lm.constant(1.0), "b": [lm.constant(2.0)]}
    total = lm.function(lambda value: sum((t for t in value if isinstance(t, lm.Tensor)), lm.constant(0.0)))
    of_dict = lm.function(lambda value: value["a"] * 2)
    relaxed = lm.function(lambda value: lm.sum(value), relax_shapes=True)
    count = lm.Variable(0.0, name="count")

    @lm.function
    def step(x):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x)))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    def change(rng):
        shared.append(lm.constant(1.0))
        del shared[rng.randrange(1, 4):]
        shared.extend([lm.constant(1.0)] * rng.randrange(3))
        named[str(rng.randrange(50))] = lm.constant(1.0)
        for key in list(named)[2:6]:
            named.pop(key, None)
        net.layers[rng.randrange(2)].extra = [lm.constant(1.0)]

    def call(rng):
        assert float(total(shared)) >= 1.0 and float(of_dict(named)) == 2.0

    def relax(rng):
        n = rng.randrange(1, 40)
        assert float(relaxed(lm.ones((n,)))) == n

    def train(rng):
        assert np.isfinite(float(step(x)))

    def tape(rng):
        with lm.GradientTape() as tape:
            tape.watch(x)
            cost = lm.sum(x * x)
        assert tape.gradient(cost, [x])[0].numpy()[0, 0] == 2.0

    def state(rng):
        net.load_state_dict({k: np.zeros_like(v) for k, v in net.state_dict().items() if "extra" not in k}, strict=False)
        count.assign_add(1.0)

    def trace(rng):
        factor = rng.random()
        assert abs(float(lm.function(lambda a: a[0] * factor)([lm.constant(2.0)])) - 2 * factor) < 1e-5

    def vmap(rng):
        assert lm.vmap(lambda a, b: a["x"] * b, in_axes=({"x": 0}, None))({"x": lm.ones(3)}, 2.0).tolist() == [2.0] * 3

    def dataset(rng):
        assert sum(len(b.tolist()) for b in lm.data.Dataset.from_tensor_slices(np.ones((7, 2))).shuffle(seed=rng.randrange(9)).batch(2)) == 7

    failed, end = [], time.monotonic() + SECONDS

    def run(work, seed):
        rng = random.Random(seed)
        try:
            while time.monotonic() < end and not failed:
                work(rng)
        except lm.errors.RetraceLimit:
            pass  # of a list that had 256 lengths and orders
        except Exception as error:  # noqa: BLE001
            failed.append((work.__name__, error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(work, i)) for i, work in enumerate([change, call, call, relax, relax, train, tape, state, trace, vmap, dataset])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 60)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    finally:
        sys.setswitchinterval(before)
    if failed:
        raise failed[0][1]
