"""PyTorch: a training step and a forward pass, eager or compiled. usage: pytorch_worker.py THREADS NETWORK BATCH FORM

FORM "eager", with the optimizer's foreach form, or "compile": torch.compile of the whole forward pass with its loss; the optimizer's step is
compiled too. FORM "aot": the forward pass alone, exported and compiled ahead of time by AOTInductor. Copies of a network are batched
products, as torch.func.vmap makes them.
"""
import os
import tempfile

import worker

options = worker.arguments(["eager", "compile", "aot"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
with worker.importing() as imported:
    import torch

torch.set_num_threads(options.threads)
torch.manual_seed(0)
functions = torch.nn.functional
activation = {"relu": torch.relu, "tanh": torch.tanh, "gelu": functions.gelu}[network.activation]
many = network.copies > 1
layers = [(torch.from_numpy(w), torch.from_numpy(b)) for w, b in worker.start_weights(network)]
if many:
    layers = [(torch.stack([w] * network.copies), torch.stack([b[None, :]] * network.copies)) for w, b in layers]
layers = [(w.clone().requires_grad_(), b.clone().requires_grad_()) for w, b in layers]
parameters = [p for layer in layers for p in layer]
x, y = (torch.from_numpy(a) for a in worker.batch(network, options.batch))
y = y.long()
if network.optimizer == "sgd":
    optimizer = torch.optim.SGD(parameters, lr=network.learning_rate, foreach=True)
else:
    optimizer = torch.optim.Adam(parameters, lr=network.learning_rate, betas=(worker.BETA1, worker.BETA2), eps=worker.EPSILON, foreach=True)


def logits_of(x, training):
    h = x.reshape(x.shape[0], -1)
    if many:
        h = h.expand(network.copies, *h.shape)
    for w, b in layers[:-1]:
        h = activation(h @ w + b) if many else activation(torch.addmm(b, h, w))
    if training and network.rate:
        h = functions.dropout(h, network.rate)
    w, b = layers[-1]
    return h @ w + b


def loss_of(x, y):
    logits = logits_of(x, True)
    if many:
        return functions.cross_entropy(logits.flatten(0, 1), y.repeat(network.copies)) * network.copies
    return functions.cross_entropy(logits, y)


forward = lambda x: logits_of(x, False)
update = optimizer.step
if options.form == "compile":
    loss_of, forward, update = torch.compile(loss_of), torch.compile(forward), torch.compile(optimizer.step)
if options.form == "aot":
    layers = [(w.detach(), b.detach()) for w, b in layers]

    class Net(torch.nn.Module):
        def forward(self, x):
            return logits_of(x, False)

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        package = torch._inductor.aoti_compile_and_package(torch.export.export(Net(), (x,)), package_path=os.path.join(folder, "net.pt2"))
        forward = torch._inductor.aoti_load_package(package)


def steps(n):
    for _ in range(n):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        update()
    loss.item()


def forwards(n):
    with torch.inference_mode(options.form == "eager"), torch.no_grad():
        for _ in range(n):
            forward(x)


works = {"forward": forwards} if options.form == "aot" else {"step": steps, "forward": forwards}
if options.network == "hundred" and options.form == "compile":
    plus_one, one_of_many = torch.compile(lambda v: v + 1), torch.compile(lambda t: t["layer_7"][3] + 1)
    one, tree = torch.ones(4), worker.leaves(torch.ones)

    def calls(function, argument):
        def run(n):
            for _ in range(n):
                function(argument)
        return run

    works |= {"cached_call": calls(plus_one, one), "cached_call_200": calls(one_of_many, tree)}
if options.network == "hundred" and options.form == "eager":
    small = torch.ones(4)

    def eager_ops(n):
        for _ in range(n):
            small + small

    works["eager_op"] = eager_ops
worker.serve({"name": f"PyTorch {torch.__version__} {options.form}", "threads": options.threads, "batch": options.batch, **imported}, works)
