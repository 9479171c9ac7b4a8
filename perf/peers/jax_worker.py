"""JAX: jit of one training step with the parameters donated, and of the forward pass. usage: jax_worker.py THREADS NETWORK BATCH FORM

FORM "list": an array per parameter, one jitted expression. "stacked": the equal hidden layers' weights in one array, walked with lax.scan.
"steps": as "list", and 16 steps on 16 batches in one call with lax.scan. Copies of a network are mapped with vmap.
"""
import worker

options = worker.arguments(["list", "stacked", "steps"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
with worker.importing() as imported:
    import jax
    import jax.numpy as jnp

STEPS = 16
activation = {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": lambda x: jax.nn.gelu(x, approximate=False)}[network.activation]
pairs = worker.start_weights(network)
layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in pairs]
if options.form == "stacked":
    hidden = (jnp.stack([w for w, _ in layers[1:-1]]), jnp.stack([b for _, b in layers[1:-1]]))
    layers = [layers[0], hidden, layers[-1]]
if network.copies > 1:
    layers = jax.tree.map(lambda p: jnp.stack([p] * network.copies), layers)


def logits_of(layers, x, key=None):
    h = x.reshape(x.shape[0], -1)
    if options.form == "stacked":
        first, hidden, last = layers
        h = activation(h @ first[0] + first[1])
        h, _ = jax.lax.scan(lambda h, layer: (activation(h @ layer[0] + layer[1]), None), h, hidden)
    else:
        *others, last = layers
        for w, b in others:
            h = activation(h @ w + b)
    if key is not None and network.rate:
        kept = jax.random.bernoulli(key, 1 - network.rate, h.shape)
        h = jnp.where(kept, h / (1 - network.rate), 0)
    return h @ last[0] + last[1]


def loss_of(layers, x, y, key):
    log_p = jax.nn.log_softmax(logits_of(layers, x, key))
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], axis=1))


def update(p, g, m, v, t):
    if network.optimizer == "sgd":
        return p - network.learning_rate * g, m, v
    m, v = worker.BETA1 * m + (1 - worker.BETA1) * g, worker.BETA2 * v + (1 - worker.BETA2) * g * g
    rate = network.learning_rate * jnp.sqrt(1 - worker.BETA2 ** t) / (1 - worker.BETA1 ** t)
    return p - rate * m / (jnp.sqrt(v) + worker.EPSILON), m, v


def one_step(state, x, y):
    layers, m, v, t, key = state
    key, draw = jax.random.split(key)
    of = jax.value_and_grad(loss_of)
    if network.copies > 1:
        of = jax.vmap(of, (0, None, None, None))
    loss, gradients = of(layers, x, y, draw)
    leaves, tree = jax.tree.flatten(layers)
    new = [update(p, g, a, b, t) for p, g, a, b in zip(leaves, *(jax.tree.flatten(s)[0] for s in (gradients, m, v)))]
    return tuple(jax.tree.unflatten(tree, list(part)) for part in zip(*new)) + (t + 1, key), loss


step = jax.jit(one_step, donate_argnums=(0,))
many = jax.jit(lambda state, xs, ys: jax.lax.scan(lambda s, xy: one_step(s, *xy), state, (xs, ys)), donate_argnums=(0,))
weights = jax.tree.map(jnp.array, layers)
predict = logits_of if network.copies == 1 else jax.vmap(logits_of, (0, None))
forward = jax.jit(lambda x: predict(weights, x))  # the weights become constants, which is the fastest way to run it
x, y = (jnp.asarray(a) for a in worker.batch(network, options.batch))
xs, ys = (jnp.stack([a] * STEPS) for a in (x, y))
zeros = lambda: jax.tree.map(jnp.zeros_like, layers) if network.optimizer == "adam" else jax.tree.map(lambda _: jnp.zeros(()), layers)
state = [(layers, zeros(), zeros(), jnp.float32(1), jax.random.key(0, impl="unsafe_rbg"))]


def steps(n):
    if options.form == "steps":
        calls = -(-n // STEPS)
        for _ in range(calls):
            state[0], loss = many(state[0], xs, ys)
        loss.block_until_ready()
        return calls * STEPS
    for _ in range(n):
        state[0], loss = step(state[0], x, y)
    loss.block_until_ready()


def repeat(call):
    def run(n):
        for _ in range(n):
            call().block_until_ready()
    return run


plus_one, small = jax.jit(lambda v: v + 1), jnp.ones(4)
numbers, (rows, matrix) = jnp.ones(64), worker.loop_weights()
rows, matrix = jnp.asarray(rows), jnp.asarray(matrix)
loop_numbers = jax.jit(lambda v: jax.lax.fori_loop(0, worker.LOOP, lambda _, u: u * 0.999 + 1, v))
loop_dense = jax.jit(lambda v: jax.lax.fori_loop(0, worker.LOOP, lambda _, u: jax.nn.relu(u @ matrix), v))


def carried(w):
    carry, _ = jax.lax.scan(lambda c, _: (tuple(jnp.tanh(v * w) for v in c), None), tuple(jnp.float32(0.01 * i) for i in range(worker.CARRIES)), None, worker.SCAN)
    return sum(carry)


scan_gradient = jax.jit(jax.grad(carried))
works = {"step": steps, "forward": repeat(lambda: forward(x))}
if options.form == "list" and options.network == "hundred":
    tree, one_of_many = worker.leaves(jnp.ones), jax.jit(lambda t: t["layer_7"][3] + 1)
    works |= {"cached_call": repeat(lambda: plus_one(small)), "cached_call_200": repeat(lambda: one_of_many(tree)), "eager_op": repeat(lambda: small + small),
              "loop_numbers": repeat(lambda: loop_numbers(numbers)), "loop_dense": repeat(lambda: loop_dense(rows)),
              "scan_gradient": repeat(lambda: scan_gradient(jnp.float32(0.99)))}
if options.form == "steps":
    del works["forward"]  # the same as with "list"
worker.serve({"name": f"JAX {jax.__version__} jit, {options.form}", "threads": options.threads, "batch": options.batch, "donation": True, **imported}, works)
