"""JAX: jit of one training step with the parameters donated, and of the forward pass. usage: jax_worker.py THREADS BATCH FORM

FORM "list": 202 arrays, one jitted expression. "stacked": the hidden layers' weights in one array, walked with lax.scan.
"""
import sys
import worker

threads, size, form = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
worker.pin(threads)
with worker.importing() as imported:
    import jax
    import jax.numpy as jnp

layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in worker.looks_linear_weights()]
if form == "stacked":
    hidden = (jnp.stack([w for w, _ in layers[1:-1]]), jnp.stack([b for _, b in layers[1:-1]]))
    layers = [layers[0], hidden, layers[-1]]


def logits_of(layers, x, key=None):
    h = x.reshape(x.shape[0], -1)
    if form == "stacked":
        first, hidden, last = layers
        h = jax.nn.relu(h @ first[0] + first[1])
        h, _ = jax.lax.scan(lambda h, layer: (jax.nn.relu(h @ layer[0] + layer[1]), None), h, hidden)
    else:
        *others, last = layers
        for w, b in others:
            h = jax.nn.relu(h @ w + b)
    if key is not None:
        kept = jax.random.bernoulli(key, 1 - worker.RATE, h.shape)
        h = jnp.where(kept, h / (1 - worker.RATE), 0)
    return h @ last[0] + last[1]


def loss_of(layers, x, y, key):
    log_p = jax.nn.log_softmax(logits_of(layers, x, key))
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], axis=1))


def step(layers, key, x, y):
    key, draw = jax.random.split(key)
    loss, gradients = jax.value_and_grad(loss_of)(layers, x, y, draw)
    return jax.tree.map(lambda p, g: p - worker.LEARNING_RATE * g, layers, gradients), key, loss


step = jax.jit(step, donate_argnums=(0, 1))
forward = jax.jit(lambda x: logits_of(weights, x))  # the weights become constants, which is the fastest way to run it
weights = jax.tree.map(jnp.array, layers)
x, y = (jnp.asarray(a) for a in worker.batch(size))
state = [layers, jax.random.key(0, impl="unsafe_rbg")]


def steps(n):
    for _ in range(n):
        state[0], state[1], loss = step(state[0], state[1], x, y)
    loss.block_until_ready()


def forwards(n):
    for _ in range(n):
        forward(x).block_until_ready()


plus_one, small = jax.jit(lambda v: v + 1), jnp.ones(4)


def cached_calls(n):
    for _ in range(n):
        plus_one(small).block_until_ready()


def eager_ops(n):
    for _ in range(n):
        (small + small).block_until_ready()


worker.serve({"name": f"JAX {jax.__version__} jit, {form}", "threads": threads, "batch": size, "donation": True, **imported},
             {"step": steps, "forward": forwards, "cached_call": cached_calls, "eager_op": eager_ops})
