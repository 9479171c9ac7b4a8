"""RNN, GRU and LSTM: a scan over time per direction."""
from __future__ import annotations

from .. import _core as lm
from .. import _loops as loops
from ._open import counting, full, lengths_of
from ._table import op
from ._tensors import shape_of

ACTIVATIONS = {  # by name, of any case
    "relu": lambda x, a, b: lm.relu(x), "tanh": lambda x, a, b: lm.tanh(x), "sigmoid": lambda x, a, b: lm.sigmoid(x),
    "affine": lambda x, a, b: x * (1.0 if a is None else a) + (0.0 if b is None else b),
    "leakyrelu": lambda x, a, b: lm.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: lm.where(x > (1.0 if a is None else a), x, lm.zeros_like(x)),
    "scaledtanh": lambda x, a, b: lm.tanh(x * (1.0 if b is None else b)) * (1.0 if a is None else a),
    "hardsigmoid": lambda x, a, b: lm.clip(x * (0.2 if a is None else a) + (0.5 if b is None else b), 0.0, 1.0),
    "elu": lambda x, a, b: lm.elu(x, 1.0 if a is None else a), "softsign": lambda x, a, b: x / (lm.abs(x) + 1.0),
    "softplus": lambda x, a, b: lm.softplus(x),
}


class Cell:
    """What the three ops share: weights of one direction, activations, clipping."""

    def __init__(self, n, direction, count, defaults, w, r, b):
        names = n.attr("activations") or defaults * (2 if n.choice("direction", "forward", "reverse", "bidirectional") == "bidirectional" else 1)
        each = len(defaults)
        chosen = names[direction * each:(direction + 1) * each]
        alphas, betas = n.attr("activation_alpha") or [], n.attr("activation_beta") or []
        self.f = []
        for i, name in enumerate(chosen, direction * each):
            function = ACTIVATIONS.get(name.lower())
            if function is None:
                raise n.refuse(f"the activation '{name}' is unknown")
            alpha, beta = (values[i] if i < len(values) else None for values in (alphas, betas))
            self.f.append(lambda x, f=function, a=alpha, b=beta: f(x, a, b))
        self.clip, self.size = n.attr("clip"), shape_of(r)[-1]
        self.w, self.r = w[direction], r[direction]
        zeros = lm.zeros([count * self.size], w.dtype)
        self.wb, self.rb = (b[direction][:count * self.size], b[direction][count * self.size:]) if b is not None else (zeros, zeros)

    def part(self, v, i):
        return v[..., i * self.size:(i + 1) * self.size]

    def clipped(self, x):
        return x if self.clip is None else lm.clip(x, -self.clip, self.clip)


def directions(n, x, lengths, count, gates, defaults, w, r, b, initials, make_step):
    """Runs each direction; returns all outputs [time, directions, batch, size] and each state's last values."""
    layout, names = n.attr("layout", 0), n.choice("direction", "forward", "reverse", "bidirectional")
    if layout:
        x = lm.swapaxes(x, 0, 1)
        initials = [None if v is None else lm.swapaxes(v, 0, 1) for v in initials]
    time, batch = lengths_of(x)[:2]
    size, outs, lasts = shape_of(r)[-1], [], []
    for d in range(shape_of(w)[0]):
        backward = names == "reverse" or d == 1
        cell = Cell(n, d, gates, defaults, w, r, b)
        state = [full(lm.constant(0.0, x.dtype), [batch, size]) if v is None else v[d] for v in initials]
        step = make_step(cell, d)
        steps = counting(0, time, "int64")

        def one(state, part, step=step):
            row, t = part
            after = step(row, state)
            if lengths is None:
                return after, after[0]
            inside = lm.reshape(t < lm.astype(lengths, lm.int64), [-1, 1])
            return [lm.where(inside, new, old) for new, old in zip(after, state)], lm.where(inside, after[0], lm.zeros_like(after[0]))

        last, out = loops.scan(one, state, (x, steps), reverse=backward)
        outs.append(out)
        lasts.append(last)
    y = lm.stack(outs, 1)
    ends = [lm.stack([last[i] for last in lasts], 0) for i in range(len(initials))]
    if layout:
        y, ends = lm.transpose(y, [2, 0, 1, 3]), [lm.swapaxes(e, 0, 1) for e in ends]
    return (y, *ends)


@op("RNN")
def rnn(n, x, w, r, b=None, lengths=None, h=None):
    def make(cell, d):
        def step(row, state):
            return [cell.f[0](cell.clipped(lm.matmul(row, cell.w, False, True) + lm.matmul(state[0], cell.r, False, True) + cell.wb + cell.rb))]
        return step
    return directions(n, x, lengths, 1, 1, ["Tanh"], w, r, b, [h], make)


@op("GRU")
def gru(n, x, w, r, b=None, lengths=None, h=None):
    after = n.attr("linear_before_reset", 0)

    def make(cell, d):
        def step(row, state):
            (old,) = state
            gates = lm.matmul(row, cell.w, False, True) + cell.wb
            z, reset = (cell.f[0](cell.clipped(cell.part(gates, i) + lm.matmul(old, cell.r[i * cell.size:(i + 1) * cell.size], False, True) + cell.part(cell.rb, i))) for i in (0, 1))
            last = cell.r[2 * cell.size:]
            if after:
                inner = reset * (lm.matmul(old, last, False, True) + cell.part(cell.rb, 2))
            else:
                inner = lm.matmul(reset * old, last, False, True) + cell.part(cell.rb, 2)
            new = cell.f[1](cell.clipped(cell.part(gates, 2) + inner))
            return [(1 - z) * new + z * old]
        return step
    return directions(n, x, lengths, 1, 3, ["Sigmoid", "Tanh"], w, r, b, [h], make)


@op("LSTM")
def lstm(n, x, w, r, b=None, lengths=None, h=None, c=None, p=None):
    together = n.attr("input_forget", 0)

    def make(cell, d):
        peep = [lm.zeros([cell.size], x.dtype)] * 3 if p is None else [cell.part(p[d], i) for i in range(3)]

        def step(row, state):
            old, memory = state
            gates = lm.matmul(row, cell.w, False, True) + lm.matmul(old, cell.r, False, True) + cell.wb + cell.rb
            i = cell.f[0](cell.clipped(cell.part(gates, 0) + peep[0] * memory))
            f = 1 - i if together else cell.f[0](cell.clipped(cell.part(gates, 2) + peep[2] * memory))
            new = f * memory + i * cell.f[1](cell.clipped(cell.part(gates, 3)))
            o = cell.f[0](cell.clipped(cell.part(gates, 1) + peep[1] * new))
            return [o * cell.f[2](new), new]
        return step
    return directions(n, x, lengths, 2, 4, ["Sigmoid", "Tanh", "Tanh"], w, r, b, [h, c], make)
