"""Lamina: a training step and a forward pass. usage: times_lamina.py NET FORM [--rows JSON] [--device gpu:0]

FORM "call": one call per step. "loop": many steps in one call, with lm.scan. Copies of a network are mapped with lm.vmap. "kernels" in a
row: the launches of a call.
"""
import nets

options = nets.arguments(["call", "loop"])
import lamina as lm  # noqa: E402


class Net(lm.nn.Model):
    """Its weights come from nets.weights()."""

    def __init__(self):
        super().__init__()
        self.w = [lm.Variable(a, name="bias" if a.ndim == 1 else "kernel") for a in nets.weights(options.net)]

    def call(self, x):
        if options.net == "conv":
            return self.conv(x)
        if options.net == "lstm":
            return self.lstm(x)
        activation = {"relu": lm.relu, "tanh": lm.tanh}[nets.DENSE[options.net].activation]
        *hidden, w, b = self.w
        h = lm.reshape(x, [-1, self.w[0].shape[0]])
        for kernel, bias in zip(hidden[::2], hidden[1::2]):
            h = activation(h @ kernel + bias)
        return h @ w + b

    def conv(self, x):
        *hidden, w, b = self.w
        for i in range(0, len(hidden), 2):
            x = lm.relu(lm.conv2d(x, hidden[i], padding="same") + hidden[i + 1])
            if i % 4 == 2:
                x = lm.max_pool2d(x, 2)
        return lm.reshape(x, [-1, w.shape[0]]) @ w + b

    def lstm(self, x):
        of_input, of_state, bias, w, b = self.w
        n = nets.LSTM_UNITS

        def step(state, x):
            h, c = state
            z = x @ of_input + h @ of_state + bias
            i, f, g, o = lm.sigmoid(z[:, :n]), lm.sigmoid(z[:, n:2 * n]), lm.tanh(z[:, 2 * n:3 * n]), lm.sigmoid(z[:, 3 * n:])
            c = f * c + i * g
            return (o * lm.tanh(c), c), ()

        zeros = lm.zeros([x.shape[0], n])
        (h, _), _ = lm.scan(step, (zeros, zeros), lm.transpose(x, [1, 0, 2]))
        return h @ w + b


def prepare(precision, size):
    lm.config.set_matmul_precision(precision)
    with lm.device(options.device):
        loss, optimizer = lm.losses.SparseCrossEntropy(from_logits=True), lm.optim.SGD(nets.LEARNING_RATE)
        many = nets.copies(options.net)
        net = lm.nn.stack(Net, many, input_shape=nets.DENSE[options.net].inputs) if many > 1 else Net()
        x, y = (lm.constant(a) for a in nets.batch(options.net, size))

        def step(x, y):
            with lm.GradientTape() as tape:
                cost = loss(y, net(x))
            optimizer.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
            return cost

        mapped = (lambda f: lm.vmap(f, in_axes=None)) if many > 1 else (lambda f: f)
        one, forward, count = mapped(step), lm.function(mapped(lambda x: net(x))), nets.steps_in_one_call(size)
        call = lm.function(one)
        loop = lm.function(lambda x, y: lm.scan(lambda carry, _: (carry, lm.mean(one(x, y))), (), length=count)[1])

        def calls(n):
            for _ in range(n):
                last = call(x, y)
            last.numpy()

        def loops(n):
            for _ in range(-(-n // count)):
                last = loop(x, y)
            last.numpy()
            return -(-n // count) * count

        def forwards(n):
            for _ in range(n):
                forward(x)
            lm.synchronize()
            return n

        if options.form == "call":
            forward(x)
            works = {"losses": [float(lm.mean(call(x, y)).numpy()) for _ in range(3)], "step": calls, "forward": forwards,
                     "kernels": {"step": nets.kernels(call.explain(x, y)), "forward": nets.kernels(forward.explain(x))}}
        else:
            works = {**nets.of_loop(loop(x, y).numpy().tolist()), "step": loops}
            works["kernels"] = {"step": nets.kernels(loop.explain(x, y))}

        def placed(run):
            def inside(n):
                with lm.device(options.device):
                    return run(n)
            return inside

        return {what: placed(run) if callable(run) else run for what, run in works.items()}


nets.serve(f"Lamina {lm.__version__}", options, prepare)
