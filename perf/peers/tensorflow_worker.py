"""TensorFlow: tf.function of one training step and of the forward pass. usage: tensorflow_worker.py THREADS NETWORK BATCH FORM

FORM "graph" or "xla" (jit_compile). Written with tf's own operations, which is faster than through Keras.
"""
import os
import worker

options = worker.arguments(["graph", "xla"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with worker.importing() as imported:
    import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(options.threads)
tf.config.threading.set_inter_op_parallelism_threads(options.threads)
activation = {"relu": tf.nn.relu, "tanh": tf.tanh, "gelu": tf.nn.gelu}[network.activation]
many = network.copies > 1  # a model axis in front, through batched products
shape = (lambda a: tf.stack([a] * network.copies)) if many else (lambda a: a)
layers = [(tf.Variable(shape(w)), tf.Variable(shape(b[None, :] if many else b))) for w, b in worker.start_weights(network)]
variables = [v for layer in layers for v in layer]
moments = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in variables] if network.optimizer == "adam" else []
t = tf.Variable(0.0)
x, y = (tf.constant(a) for a in worker.batch(network, options.batch))


def logits_of(x, training):
    h = tf.reshape(x, [x.shape[0], -1])
    if many:
        h = tf.stack([h] * network.copies)
    for w, b in layers[:-1]:
        h = activation(tf.matmul(h, w) + b)
    if training and network.rate:
        h = tf.nn.dropout(h, network.rate)
    w, b = layers[-1]
    return tf.matmul(h, w) + b


@tf.function(jit_compile=options.form == "xla")
def step(x, y):
    with tf.GradientTape() as tape:
        labels = tf.stack([y] * network.copies) if many else y
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits_of(x, True))
        loss = tf.reduce_sum(tf.reduce_mean(losses, axis=-1))
    gradients = tape.gradient(loss, variables)
    if network.optimizer == "sgd":
        for v, g in zip(variables, gradients):
            v.assign_sub(network.learning_rate * g)
        return loss
    t.assign_add(1.0)
    rate = network.learning_rate * tf.sqrt(1 - worker.BETA2 ** t) / (1 - worker.BETA1 ** t)
    for w, g, (m, v) in zip(variables, gradients, moments):
        m.assign(worker.BETA1 * m + (1 - worker.BETA1) * g)
        v.assign(worker.BETA2 * v + (1 - worker.BETA2) * g * g)
        w.assign_sub(rate * m / (tf.sqrt(v) + worker.EPSILON))
    return loss


@tf.function(jit_compile=options.form == "xla")
def forward(x):
    return logits_of(x, False)


def repeat(call):
    def run(n):
        for _ in range(n):
            call().numpy()
    return run


def steps(n):
    for _ in range(n):
        loss = step(x, y)
    loss.numpy()


works = {"step": steps, "forward": repeat(lambda: forward(x))}
if options.network == "hundred" and options.form == "graph":
    plus_one, small = tf.function(lambda v: v + 1), tf.ones(4)
    works |= {"cached_call": repeat(lambda: plus_one(small)), "eager_op": repeat(lambda: small + small)}
worker.serve({"name": f"TensorFlow {tf.__version__} {options.form}", "threads": options.threads, "batch": options.batch, **imported}, works)
