"""TensorFlow: tf.function of one training step and of the forward pass. usage: tensorflow_worker.py THREADS BATCH FORM

FORM "graph" or "xla" (jit_compile). Written with tf's own operations, which is faster than through Keras.
"""
import os
import sys
import worker

threads, size, form = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
worker.pin(threads)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with worker.importing() as imported:
    import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
layers = [(tf.Variable(w), tf.Variable(b)) for w, b in worker.looks_linear_weights()]
variables = [v for layer in layers for v in layer]
x, y = (tf.constant(a) for a in worker.batch(size))


def logits_of(x, training):
    h = tf.reshape(x, [x.shape[0], -1])
    for w, b in layers[:-1]:
        h = tf.nn.relu(tf.matmul(h, w) + b)
    if training:
        h = tf.nn.dropout(h, worker.RATE)
    w, b = layers[-1]
    return tf.matmul(h, w) + b


@tf.function(jit_compile=form == "xla")
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits_of(x, True)))
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(worker.LEARNING_RATE * g)
    return loss


@tf.function(jit_compile=form == "xla")
def forward(x):
    return logits_of(x, False)


def steps(n):
    for _ in range(n):
        loss = step(x, y)
    loss.numpy()


def forwards(n):
    for _ in range(n):
        forward(x).numpy()


plus_one, small = tf.function(lambda v: v + 1), tf.ones(4)


def cached_calls(n):
    for _ in range(n):
        plus_one(small).numpy()


def eager_ops(n):
    for _ in range(n):
        (small + small).numpy()


worker.serve({"name": f"TensorFlow {tf.__version__} {form}", "threads": threads, "batch": size, **imported},
             {"step": steps, "forward": forwards, "cached_call": cached_calls, "eager_op": eager_ops})
