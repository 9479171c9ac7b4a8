"""PyTorch: a training step and a forward pass. usage: times_torch.py NET FORM [--rows JSON] [--device gpu:0]

FORM "eager", with foreach updates; "compile": torch.compile with mode="reduce-overhead" (CUDA graphs; on a CPU the default mode); "graph":
a manually captured and replayed CUDA graph of many steps; "cudnn": eager, with torch.nn.LSTM instead of ops. Copies of a network by
torch.func.vmap of grad: "func", "func_compile", "func_graph".
"""
import nets

options = nets.arguments(["eager", "compile", "graph", "cudnn", "func", "func_compile", "func_graph"])
import torch  # noqa: E402

functions = torch.nn.functional
device = torch.device("cuda" if options.device.startswith("gpu") else "cpu")
on_gpu = device.type == "cuda"
is_compiled, is_captured = options.form.endswith("compile"), options.form.endswith("graph")
many = nets.copies(options.net)
torch.backends.cudnn.benchmark = True  # cuDNN's fastest convolution algorithm, searched in the first calls


def compiled(function):
    return torch.compile(function, mode="reduce-overhead" if on_gpu else None) if is_compiled else function


def logits_of(w, x):
    if options.net == "conv":
        *hidden, kernel, bias = w
        for i in range(0, len(hidden), 2):
            x = torch.relu(functions.conv2d(x, hidden[i], hidden[i + 1], padding=1))
            if i % 4 == 2:
                x = functions.max_pool2d(x, 2)
        return torch.addmm(bias, x.permute(0, 2, 3, 1).flatten(1), kernel)  # the order of the other frameworks
    if options.net == "lstm":
        of_input, of_state, bias, kernel, last = w
        h = c = x.new_zeros(x.shape[0], nets.LSTM_UNITS)
        for t in range(x.shape[1]):
            i, f, g, o = torch.chunk(torch.addmm(bias, x[:, t], of_input) + h @ of_state, 4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return torch.addmm(last, h, kernel)
    network = nets.DENSE[options.net]
    activation = {"relu": torch.relu, "tanh": torch.tanh}[network.activation]
    h = x.flatten(1)
    for kernel, bias in zip(w[:-2:2], w[1:-2:2]):
        h = activation(torch.addmm(bias, h, kernel))
    return torch.addmm(w[-1], h, w[-2])


def layer_of_cudnn(weights):
    """torch.nn.LSTM with these weights, and its trained weights: it has two biases, one of which stays zero."""
    of_input, of_state, bias = (torch.from_numpy(a) for a in weights[:3])
    layer = torch.nn.LSTM(nets.LSTM_INPUTS, nets.LSTM_UNITS, batch_first=True)
    values = {"weight_ih_l0": of_input.T, "weight_hh_l0": of_state.T, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    layer.load_state_dict(values)
    layer.bias_hh_l0.requires_grad_(False)
    layer.to(device)
    return layer, [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]


def prepare(precision, size):
    if is_captured and not on_gpu:
        raise ValueError("CUDA graphs are for GPUs")
    if (many > 1) != options.form.startswith("func"):
        raise ValueError("copies of a network are torch.func's, and it has no others")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    half = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
    torch.manual_seed(0)
    torch.compiler.reset()
    w = [torch.from_numpy(a).to(device) for a in nets.weights(options.net)]
    x, y = (torch.from_numpy(a).to(device) for a in nets.batch(options.net, size))
    y = y.long()
    if options.net == "conv":  # PyTorch's own order, in its fastest memory format for convolutions
        w = [a.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last) if a.ndim == 4 else a for a in w]
        x = x.permute(0, 3, 1, 2)
    logits = logits_of
    if options.form == "cudnn":
        layer, of_layer = layer_of_cudnn(nets.weights(options.net))
        w = [*of_layer, *w[3:]]
        logits = lambda w, x: torch.addmm(w[-1], layer(x)[1][0][0], w[-2])
    if many > 1:
        w = [torch.stack([a] * many) for a in w]
    if is_compiled:  # these addresses are fixed: CUDA graphs need no copies of them
        for a in (*w, x, y):
            torch._dynamo.mark_static_address(a, guard=False)

    def loss_of(w, x, y):
        with half:
            return functions.cross_entropy(logits(w, x), y)

    update = torch._foreach_add_
    if many > 1:
        gradients_of = compiled(torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(0, None, None)))
        predict = compiled(torch.func.vmap(logits, in_dims=(0, None)))

        def step():
            gradients, loss = gradients_of(w, x, y)
            update(w, list(gradients), alpha=-nets.LEARNING_RATE)
            return loss.mean()
    else:
        w = [a.requires_grad_() for a in w]
        cost, predict = compiled(loss_of), compiled(logits)

        def step():
            loss = cost(w, x, y)
            gradients = torch.autograd.grad(loss, w)
            with torch.no_grad():
                update(w, gradients, alpha=-nets.LEARNING_RATE)
            return loss.detach()

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    def marked(run):
        if is_compiled and on_gpu:
            torch.compiler.cudagraph_mark_step_begin()
        return run()

    def steps(n):
        for _ in range(n):
            marked(step)
        wait()

    def forwards(n):
        with torch.no_grad(), half:
            for _ in range(n):
                marked(lambda: predict(w, x))
        wait()

    if not is_captured:
        return {"losses": [float(marked(step)) for _ in range(3)], "step": steps, "forward": forwards}
    # As PyTorch's manual does it: some steps on a separate stream, then many are captured. The replay starts from the initial weights.
    count, side, start = nets.steps_in_one_call(size), torch.cuda.Stream(), [a.detach().clone() for a in w]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        torch._foreach_copy_(w, start)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = torch.stack([step() for _ in range(count)])

    def replays(n):
        for _ in range(-(-n // count)):
            graph.replay()
        wait()
        return -(-n // count) * count

    replays(1)
    return {**nets.of_loop(losses.tolist()), "step": replays}


nets.serve(f"PyTorch {torch.__version__}", options, prepare)
