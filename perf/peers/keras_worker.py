"""Keras on JAX: Model.fit and the compiled model. usage: keras_worker.py THREADS NETWORK BATCH FORM

FORM "fit": Model.fit with steps_per_execution. Keras on JAX calls its compiled step once a batch and waits once for that many steps.
"""
import os
import worker

options = worker.arguments(["fit"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if options.threads > 1 else 'false'} intra_op_parallelism_threads={options.threads}"
if network.copies > 1:
    raise SystemExit("keras_worker: Keras has no vmap over models")
with worker.importing() as imported:
    import keras
import numpy as np  # noqa: E402

STEPS = 100  # of one call of fit

layers = [keras.layers.Dense(w.shape[1], activation=network.activation) for w, _ in worker.start_weights(network)[:-1]]
model = keras.Sequential([keras.Input(network.inputs), keras.layers.Flatten(), *layers, *[keras.layers.Dropout(network.rate)] * (network.rate > 0), keras.layers.Dense(worker.CLASSES)])
model.set_weights([a for pair in worker.start_weights(network) for a in pair])
if network.optimizer == "sgd":
    optimizer = keras.optimizers.SGD(network.learning_rate)
else:
    optimizer = keras.optimizers.Adam(network.learning_rate, beta_1=worker.BETA1, beta_2=worker.BETA2, epsilon=worker.EPSILON)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), steps_per_execution=STEPS)
x, y = worker.batch(network, options.batch)
xs, ys = np.concatenate([x] * STEPS), np.concatenate([y] * STEPS)


def steps(n):
    calls = -(-n // STEPS)
    for _ in range(calls):
        model.fit(xs, ys, batch_size=options.batch, shuffle=False, verbose=0)
    return calls * STEPS


def forwards(n):
    for _ in range(n):
        model.predict_on_batch(x)


worker.serve({"name": f"Keras {keras.__version__} on JAX {options.form}", "threads": options.threads, "batch": options.batch, **imported}, {"step": steps, "forward": forwards})
