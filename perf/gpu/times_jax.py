"""JAX: a training step and a forward pass. usage: times_jax.py NET FORM [--rows JSON] [--device gpu:0]

FORM "jit": one call per step, with donated parameters. "scan": many steps in one call. Copies of a network are mapped with jax.vmap; with
"scan" it is vmap of scan.
"""
import os

import nets

options = nets.arguments(["jit", "scan"])
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if options.device.startswith("cpu"):
    os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

many = nets.copies(options.net)


def logits_of(w, x):
    if options.net == "conv":
        *hidden, kernel, bias = w
        for i in range(0, len(hidden), 2):
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, hidden[i], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + hidden[i + 1])
            if i % 4 == 2:
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(x.shape[0], -1) @ kernel + bias
    if options.net == "lstm":
        of_input, of_state, bias, kernel, last = w

        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ of_input + h @ of_state + bias, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((x.shape[0], nets.LSTM_UNITS), x.dtype)
        (h, _), _ = jax.lax.scan(step, (zeros, zeros), jnp.swapaxes(x, 0, 1))
        return h @ kernel + last
    activation = {"relu": jax.nn.relu, "tanh": jnp.tanh}[nets.DENSE[options.net].activation]
    h = x.reshape(x.shape[0], -1)
    for kernel, bias in zip(w[:-2:2], w[1:-2:2]):
        h = activation(h @ kernel + bias)
    return h @ w[-2] + w[-1]


def prepare(precision, size):
    jax.config.update("jax_default_matmul_precision", {"float32": "highest", "tf32": "tensorfloat32", "bf16": "default"}[precision])
    half = precision == "bf16"
    w = [jnp.asarray(a) for a in nets.weights(options.net)]
    x, y = (jnp.asarray(a) for a in nets.batch(options.net, size))
    if many > 1:
        w = [jnp.stack([a] * many) for a in w]
    of_half = lambda tree: jax.tree.map(lambda a: a.astype(jnp.bfloat16), tree) if half else tree

    def loss_of(w, x, y):
        log_p = jax.nn.log_softmax(logits_of(of_half(w), of_half(x)).astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], axis=1))

    def one(w, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(w, x, y)
        return jax.tree.map(lambda p, g: p - nets.LEARNING_RATE * g, w, gradients), loss

    def loop(w, x, y):
        return jax.lax.scan(lambda w, _: one(w, x, y), w, None, length=count)

    def predict(w, x):
        return logits_of(of_half(w), of_half(x))

    def mapped(f, data):
        return jax.vmap(f, in_axes=(0, *[None] * data)) if many > 1 else f

    count = nets.steps_in_one_call(size)
    step, loops, forward = jax.jit(mapped(one, 2), donate_argnums=(0,)), jax.jit(mapped(loop, 2), donate_argnums=(0,)), jax.jit(mapped(predict, 1))
    state = [w]

    def steps(n):
        for _ in range(n):
            state[0], loss = step(state[0], x, y)
        loss.block_until_ready()

    def many_steps(n):
        for _ in range(-(-n // count)):
            state[0], loss = loops(state[0], x, y)
        loss.block_until_ready()
        return -(-n // count) * count

    def forwards(n):
        for _ in range(n):
            out = forward(state[0], x)
        out.block_until_ready()

    if options.form == "scan":
        state[0], loss = loops(state[0], x, y)
        return {**nets.of_loop(loss.reshape(-1, count).mean(0).tolist()), "step": many_steps}
    losses = []
    for _ in range(3):
        state[0], loss = step(state[0], x, y)
        losses.append(float(jnp.mean(loss)))
    return {"losses": losses, "step": steps, "forward": forwards}


nets.serve(f"JAX {jax.__version__}", options, prepare)
