"""PyTorch: a training step and a forward pass. usage: times_torch.py NET FORM [--rows JSON] [--device gpu:0]

FORM "eager", with foreach updates; "compile": torch.compile with mode="reduce-overhead" (CUDA graphs; on a CPU the default mode); "graph": a CUDA graph of many steps,
captured by hand and replayed; "func": copies of a network by torch.func.vmap of grad, eager, and "func_compile", the same compiled.
"""
import nets

options = nets.arguments(["eager", "compile", "graph", "func", "func_compile"])
import torch  # noqa: E402

functions = torch.nn.functional
device = torch.device("cuda" if options.device.startswith("gpu") else "cpu")
many = nets.copies(options.net)


def logits_of(w, x):
    if options.net == "conv":
        *hidden, kernel, bias = w
        for i in range(0, len(hidden), 2):
            x = torch.relu(functions.conv2d(x, hidden[i], hidden[i + 1], padding=1))
            if i % 4 == 2:
                x = functions.max_pool2d(x, 2)
        return torch.addmm(bias, x.permute(0, 2, 3, 1).flatten(1), kernel)  # the others' order
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


def prepare(precision, size):
    if precision == "3xtf32":
        return "there is no 3xtf32"
    if options.form == "graph" and device.type != "cuda":
        return "CUDA graphs are for GPUs"
    if (many > 1) != options.form.startswith("func"):
        return "copies of a network are torch.func's" if many > 1 else "there is one copy"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    half = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
    torch.manual_seed(0)
    torch.compiler.reset()
    w = [torch.from_numpy(a).to(device) for a in nets.weights(options.net)]
    x, y = (torch.from_numpy(a).to(device) for a in nets.batch(options.net, size))
    y = y.long()
    if options.net == "conv":  # PyTorch's own order, in the memory format that its convolutions are fastest in
        w = [a.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last) if a.ndim == 4 else a for a in w]
        x = x.permute(0, 3, 1, 2)
    if many > 1:
        w = [torch.stack([a] * many) for a in w]

    def loss_of(w, x, y):
        with half:
            return functions.cross_entropy(logits_of(w, x), y)

    update = torch._foreach_add_
    if many > 1:
        of = torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(0, None, None))
        if options.form == "func_compile":
            of = torch.compile(of, mode="reduce-overhead" if device.type == "cuda" else None)

        def step():
            gradients, loss = of(w, x, y)
            update(w, list(gradients), alpha=-nets.LEARNING_RATE)
            return loss.mean()
        predict = torch.func.vmap(logits_of, in_dims=(0, None))
    else:
        w = [a.requires_grad_() for a in w]
        predict, compiled = logits_of, loss_of
        if options.form == "compile":
            mode = "reduce-overhead" if device.type == "cuda" else None
            compiled, predict = torch.compile(loss_of, mode=mode), torch.compile(logits_of, mode=mode)

        def step():
            loss = compiled(w, x, y)
            gradients = torch.autograd.grad(loss, w)
            with torch.no_grad():
                update(w, gradients, alpha=-nets.LEARNING_RATE)
            return loss.detach()

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    def marked():
        if options.form.endswith("compile") and device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()

    def steps(n):
        for _ in range(n):
            marked()
            step()
        wait()

    def forwards(n):
        with torch.no_grad(), half:
            for _ in range(n):
                marked()
                predict(w, x)
        wait()

    losses = []
    for _ in range(3):
        marked()
        losses.append(float(step()))
    if options.form != "graph":
        return {"losses": losses, "step": steps, "forward": forwards}
    count = nets.steps_in_one_call(size)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            step()

    def replays(n):
        for _ in range(-(-n // count)):
            graph.replay()
        wait()
        return -(-n // count) * count

    return {"losses": losses, "step": replays}


nets.serve(f"PyTorch {torch.__version__}", options, prepare)
