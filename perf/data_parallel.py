"""data_parallel on the benchmark of 100 layers of 64: on one rank against the plain step, and, under mpirun, its step on all ranks. Prints the best and the middle time of
each, measured in turns; asserts nothing.

    PYTHONPATH=build/python LAMINA_THREADS=2 python perf/data_parallel.py [batch]
    PYTHONPATH=build/python LAMINA_THREADS=1 mpirun -n 2 python perf/data_parallel.py [batch]
"""
import sys
import time

import numpy as np

import lamina as lm

LAYERS, WIDTH, CLASSES, TURNS = 100, 64, 10, 60


def training_step(seed):
    lm.random.set_seed(seed)
    net = lm.nn.Sequential([lm.nn.Dense(WIDTH, activation="relu") for _ in range(LAYERS)] + [lm.nn.Dense(CLASSES)])
    loss, sgd = lm.losses.SparseCrossEntropy(from_logits=True), lm.optim.SGD(1e-4)

    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    net(np.zeros((1, WIDTH), np.float32))
    return step


def main():
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    random = np.random.default_rng(0)
    x, y = random.standard_normal((batch, WIDTH)).astype(np.float32), random.integers(0, CLASSES, batch).astype(np.int32)
    x, y = next(iter(lm.distributed.shard([(x, y)])))
    steps = {"data_parallel": lm.distributed.data_parallel(training_step(1))}
    if lm.distributed.size() == 1:
        steps["the plain step"] = lm.function(training_step(1))
    x, y = lm.constant(x), lm.constant(y)
    times = {name: [] for name in steps}
    for turn in range(TURNS + 3):
        for name, step in steps.items():
            lm.distributed.barrier("start")
            start = time.perf_counter()
            float(step(x, y))
            if turn >= 3:
                times[name].append(time.perf_counter() - start)
    if lm.distributed.rank() == 0:
        print(f"batch {batch}, {LAYERS} layers of {WIDTH}, {lm.distributed.size()} ranks")
        for name, values in times.items():
            print(f"{name:16} best {min(values) * 1e6:8,.0f} us, middle {sorted(values)[len(values) // 2] * 1e6:8,.0f} us")
        if len(times) == 2:
            first, second = times.values()
            print(f"ratio of the best: {min(first) / min(second):.2f}")


if __name__ == "__main__":
    main()
