"""What ops that index, sort and own graphs are in ONNX."""
from __future__ import annotations

from ._export_ops import export, image_attrs
from ._save import Result

# --- indices ---


@export("gather")
def gather(e, n, x, indices):
    axis, batch = n.int("axis") % x.rank, n.int("batch_axes")
    if batch == 0:
        return e.add("Gather", x, indices, axis=axis)
    # GatherND with the axis right after the shared ones
    between = list(range(batch, axis))
    y = e.transpose(x, [*range(batch), axis, *between, *range(axis + 1, x.rank)])
    y = e.add("GatherND", y, e.add("Unsqueeze", e.cast(indices, "int64"), e.ints([-1])), batch_dims=batch)
    inner = indices.rank - batch  # [P, I, A, B] -> [P, A, I, B]
    total = x.rank - 1 + inner
    first = [*range(batch), *range(batch + inner, batch + inner + len(between)), *range(batch, batch + inner), *range(batch + inner + len(between), total)]
    return e.transpose(y, first)


def coordinates(e, n, indices, batch):
    """[..., batch + 1] int64: the places of indices [P..., I...] along the shared axes and the one after them."""
    wide = e.add("Unsqueeze", e.cast(indices, "int64"), e.ints([-1]))
    if batch == 0:
        return wide
    dims, parts = indices.dims, []
    for i in range(batch):
        numbers = e.ints(range(n.known([dims[i]], "a scatter with shared axes")[0]))
        numbers = e.reshape(numbers, [-1 if k == i else 1 for k in range(len(dims) + 1)])
        parts.append(e.add("Expand", numbers, e.shape([*dims, 1])))
    return e.add("Concat", *parts, wide, axis=-1)


@export("scatter")
def scatter(e, n, updates, indices, x):
    mode, batch = n.text("mode"), n.int("batch_axes")
    return e.add("ScatterND", x, coordinates(e, n, indices, batch), updates, reduction=None if mode == "set" else mode)


@export("scatter_add")
def scatter_add(e, n, updates, indices):
    dtype, dims = n.types[0]
    axis, batch = n.int("axis") % len(dims), n.int("batch_axes")
    between, inner = axis - batch, indices.rank - batch
    # updates [P, A, I, B] -> [P, I, A, B]; the axis of the result comes right after P
    total = updates.rank
    front = [*range(batch), *range(batch + between, batch + between + inner), *range(batch, batch + between), *range(batch + between + inner, total)]
    moved = [*dims[:batch], dims[axis], *dims[batch:axis], *dims[axis + 1:]]
    zeros = e.add("Expand", e.const(0, dtype), e.shape(moved))
    y = e.add("ScatterND", zeros, coordinates(e, n, indices, batch), e.transpose(updates, front), reduction="add")
    return e.transpose(y, [*range(batch), *range(batch + 1, axis + 1), batch, *range(axis + 1, len(dims))])


@export("ravel_index")
def ravel_index(e, n, *places):
    total, zero = None, e.ints(0)
    for place, length in zip(places, n.dims("lengths")):
        size = e.length(length)
        i = e.cast(place, "int64")
        i = e.add("Where", e.add("Less", i, zero), e.add("Add", i, e.add("Squeeze", size)), i)
        total = i if total is None else e.add("Add", e.add("Mul", total, e.add("Squeeze", size)), i)
    return total


@export("searchsorted")
def searchsorted(e, n, row, values):
    extra = values.rank - (row.rank - 1)
    wide = e.add("Unsqueeze", values, e.ints([-1]))
    against = e.add("Unsqueeze", row, e.ints(range(row.rank - 1, row.rank - 1 + extra))) if extra else row.name
    less = e.add("LessOrEqual" if n.flag("right") else "Less", against, wide)
    return e.add("ReduceSum", e.cast(less, "int64"), e.ints([-1]), keepdims=0)


@export("nonzero")
def nonzero(e, n, condition):
    (length,) = n.known(condition.dims[-1:], "nonzero")
    chosen = e.add("Where", condition, e.ints(range(length)), e.const(length, "int64"))
    places = e.add("TopK", chosen, e.ints([length]), outputs=2, axis=-1, largest=0)[0]
    return places, e.add("ReduceSum", e.cast(condition, "int64"), e.ints([-1]), keepdims=0)


# --- order: TopK keeps equal elements as they are ---


def ordered(e, n, x, axis, k, largest):
    return e.add("TopK", x, e.ints([k]), outputs=2, axis=axis, largest=int(largest))


@export("sort", "argsort")
def sort(e, n, x):
    axis = n.int("axis") % x.rank
    (length,) = n.known(x.dims[axis:axis + 1], "a sort")
    return ordered(e, n, x, axis, length, n.flag("descending"))[n.op == "argsort"]


@export("top_k")
def top_k(e, n, x):
    return ordered(e, n, x, x.rank - 1, n.int("k"), True)


# --- gradients of filters ---


@export("conv2d_grad_filter")
def conv2d_grad_filter(e, n, x, dy):
    out = n.types[0][1]
    n.known([*out, *x.dims[1:3], *dy.dims[1:3]], "the gradient of a filter")
    if n.int("groups") != 1:
        raise n.refuse("the gradient of a filter in groups has no op")
    strides, dilation, pads = image_attrs(n, x.dims[1:3], out[:2])
    # channels are the batch; the window moves by the dilation over dy spread by the strides
    reach = [(k - 1) * g + (d - 1) * s + 1 for k, g, d, s in zip(out[:2], dilation, dy.dims[1:3], strides)]
    behind = [r - length - p for r, length, p in zip(reach, x.dims[1:3], pads)]
    images = e.add("Pad", e.transpose(x, [3, 0, 1, 2]), e.ints([0, 0, *pads[:2], 0, 0, *behind]), e.like(x, 0))
    y = e.add("Conv", images, e.transpose(dy, [3, 0, 1, 2]), strides=dilation, dilations=strides, kernel_shape=dy.dims[1:3])
    return e.transpose(y, [2, 3, 0, 1])


# --- ops that own graphs ---


@export("checkpoint", "custom_gradient")
def inlined(e, n, *inputs):
    return e.translate(n.regions[0], inputs)


@export("cond")
def cond(e, n, pred, *captures):
    branches = [e.subgraph(name, [], lambda g=g: e.translate(g, captures)) for name, g in zip(("then", "else"), n.regions)]
    out = e.add("If", pred, outputs=max(len(n.types), 1), then_branch=branches[0], else_branch=branches[1])
    return [out] if isinstance(out, str) else out


def region_types(graph, count):
    return [graph["nodes"][node]["types"][result] for node, result in graph["inputs"][:count]]


@export("while_loop")
def while_loop(e, n, *inputs):
    count, maximum = n.int("carried"), n.int("maximum")
    condition, body = n.regions
    carried, captures = inputs[:count], inputs[count:]
    go = e.translate(condition, inputs)[0]
    step, running, rounds = e.fresh("round", ("int64", [])), e.fresh("go", ("bool", [])), e.fresh("rounds", ("int64", []))
    states = [e.fresh("state", t) for t in region_types(body, count)]

    def build():
        after = e.translate(body, [*states, *captures])
        more = e.translate(condition, [*after, *captures])[0]
        total = Result(e.add("Add", rounds, e.const(1, "int64")), "int64", [])
        return [more, *after, total]

    graph = e.subgraph("body", [step, running, *states, rounds], build)
    return e.add("Loop", e.const(maximum, "int64") if maximum >= 0 else "", go, *carried, e.const(0, "int64"), outputs=count + 1, body=graph)


@export("scan")
def scan(e, n, *inputs):
    if n.flag("counted"):
        raise n.refuse("how many of its slices are used follows from data")
    count, stacked, (body,) = n.int("carried"), n.int("stacked"), n.regions
    carried, xs, captures = inputs[:count], list(inputs[count:count + stacked]), inputs[count + stacked:]
    types = region_types(body, count + stacked)
    states, parts = [e.fresh("state", t) for t in types[:count]], [e.fresh("slice", t) for t in types[count:]]
    (length,) = n.dims("length")
    dummy = []
    if not xs:  # Scan takes its length from what it scans
        dummy = [e.fresh("index", ("int64", []))]
        xs = [e.add("Range", e.const(0, "int64"), e.add("Squeeze", e.length(length)), e.const(1, "int64"))]
    # A state must be of the type of the first, and an output is a value made in the body.
    graph = e.subgraph("body", [*states, *parts, *dummy], lambda: e.translate(body, [*states, *parts, *captures]))
    backward, outputs = int(n.flag("reverse")), len(n.types) - count
    out = e.add("Scan", *carried, *xs, outputs=len(n.types), body=graph, num_scan_inputs=len(xs), scan_input_directions=[backward] * len(xs),
                scan_output_directions=[backward] * outputs if outputs else None)
    return [out] if isinstance(out, str) else out
