"""If, Loop and Scan: Lamina's cond, while_loop and scan."""
from __future__ import annotations

import numpy as np

from .. import _core as core
from .. import _loops as loops
from .. import errors, reporting
from ._open import has_open
from ._shapes import axis_of
from ._table import op
from ._tensors import dtype_from, from_proto, known_array, shape_of, to_tensor


@op("If", fixed=(0,))
def if_(n, _):
    then, otherwise = n.attr("then_branch"), n.attr("else_branch")
    condition = n.inputs[0]
    if isinstance(condition, np.ndarray) or core.executing_eagerly():
        return tuple(n.run(then if bool(np.asarray(n.known(0)).reshape(())) else otherwise, []))
    branch = lambda graph: lambda: tuple(to_tensor(v) for v in n.run(graph, []))
    try:
        return tuple(loops.cond(core.reshape(condition, []), branch(then), branch(otherwise)))
    except (errors.InvalidArgument, errors.TypeMismatch):
        n.known(0)  # branches that differ in shape: a graph for each
        raise


@op("Loop", raw=True)
def loop(n, trips, go, *state):
    body = n.attr("body")
    steps = None if trips is None else n.inputs[0]
    count = len(body.output) - 1 - len(state)  # outputs that are stacked
    if core.executing_eagerly() or any(isinstance(v, list) or v is None for v in state):
        return eager_loop(n, body, trips, go, list(state), count)
    always = passes_through(body)
    limit = n.interpreter.max_trips
    if isinstance(steps, np.ndarray) and not has_open(steps):
        total = int(steps.reshape(()))
        go_on = go is None or isinstance(go, np.ndarray) and bool(go.reshape(()))
        if always and go_on:  # as many rounds as are known: scan
            if total > limit:
                raise n.refuse(f"its {total:,} rounds are more than max_trips, {limit:,}", fix="load the network with a larger max_trips=")

            def step(carried, i):
                out = n.run(body, [core.reshape(i, []), np.array(True), *carried], loop=True)
                return [to_tensor(v) for v in out[1:1 + len(state)]], [to_tensor(v) for v in out[1 + len(state):]]

            last, stacked = loops.scan(step, [to_tensor(v) for v in state], core.arange(max(total, 0), dtype=core.int64))
            return (*last, *(stacked or ()))
    if count:
        raise n.needs_data("how long its stacked outputs are follows from data")
    end = core.constant(np.int64(np.iinfo(np.int64).max)) if steps is None else core.astype(core.reshape(to_tensor(steps), []), core.int64)
    first = core.constant(True) if go is None else core.reshape(to_tensor(go), [])

    def more(carried):
        return core.logical_and(carried[1], core.less(carried[0], end))

    def round_(carried):
        out = n.run(body, carried, loop=True)
        return [carried[0] + 1, core.reshape(to_tensor(out[0]), []), *(to_tensor(v) for v in out[1:])]

    last = loops.while_loop(more, round_, [core.constant(np.int64(0)), first, *(to_tensor(v) for v in state)], limit + 1)
    reporting.check(core.logical_not(last[0] > limit), f"ONNX node '{n.proto.name}': Loop took more than max_trips, {limit:,} rounds")
    return tuple(last[2:])


def passes_through(body):
    """Whether a Loop's condition is never changed by its body."""
    name = body.output[0].name
    if any(t.name == name for t in body.initializer):
        return bool(from_proto(next(t for t in body.initializer if t.name == name)).reshape(()))
    for _ in range(len(body.node) + 1):
        if name == body.input[1].name:
            return True
        maker = next((m for m in body.node if name in m.output), None)
        if maker is None or maker.op_type not in ("Identity", "Constant", "Cast"):
            return False
        if maker.op_type == "Constant":
            return any(a.name == "value" and bool(from_proto(a.t).reshape(-1)[0]) for a in maker.attribute)
        name = maker.input[0]
    return False


def eager_loop(n, body, trips, go, state, count):
    """Round by round; while something is traced the rounds must be known."""
    limit = None if trips is None else int(n.known(0).reshape(()))
    going = go is None or bool(np.asarray(n.known(1)).reshape(()))
    stacked, i = [[] for _ in range(count)], 0
    while going and (limit is None or i < limit):
        if i >= n.interpreter.max_trips:
            raise n.refuse(f"it took {i:,} rounds, which is max_trips, and would go on", fix="load the network with a larger max_trips=")
        out = n.run(body, [np.array(i, np.int64), np.array(True), *state])
        state = out[1:1 + len(state)]
        for column, value in zip(stacked, out[1 + len(state):]):
            column.append(to_tensor(value))
        condition = to_known(n, out[0])
        going, i = bool(condition.reshape(())), i + 1
    ends = []
    for column, formal in zip(stacked, body.output[1 + len(state):]):
        if column:
            ends.append(core.stack(column, 0))
        else:
            spec = formal.type.tensor_type
            ends.append(core.zeros([0, *(d.dim_value for d in spec.shape.dim)], dtype_from(spec.elem_type)))
    return (*state, *ends)


def to_known(n, value):
    array = known_array(value)
    if array is None:
        raise n.needs_data("how many rounds it takes follows from data, and its state is a sequence")
    return array


@op("Scan")
def scan(n, *inputs):
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    if n.version < 9:
        if inputs[0] is not None:
            raise n.refuse("its sequences have lengths of their own (opset 8)")
        inputs = inputs[1:]
        batches = shape_of(inputs[0])[0]
        rows = [scanned(n, body, count, [core.squeeze(v[b:b + 1], 0) for v in inputs], 8) for b in range(batches)]
        return tuple(core.stack([row[i] for row in rows], 0) for i in range(len(rows[0])))
    return tuple(scanned(n, body, count, list(inputs), n.version))


def scanned(n, body, count, inputs, version):
    states = len(inputs) - count
    outputs = len(body.output) - states
    each = lambda name, length: n.attr(name) or [0] * length
    backward = each("scan_input_directions" if version >= 9 else "directions", count)
    in_axes, out_axes, out_backward = each("scan_input_axes", count), each("scan_output_axes", outputs), each("scan_output_directions", outputs)
    xs = []
    for x, axis, back in zip(inputs[states:], in_axes, backward):
        x = core.moveaxis(x, axis_of(n, axis, x.ndim), 0)
        xs.append(core.flip(x, 0) if back else x)

    def step(carried, parts):
        out = [to_tensor(v) for v in n.run(body, [*carried, *parts], loop=True)]
        return out[:states], out[states:]

    last, stacked = loops.scan(step, list(inputs[:states]), xs)
    out = list(last)
    for y, axis, back in zip(stacked or [], out_axes, out_backward):
        y = core.flip(y, 0) if back else y
        out.append(core.moveaxis(y, 0, axis_of(n, axis, y.ndim)))
    return out
