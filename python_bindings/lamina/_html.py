"""What notebooks show of tensors, Variables and models. All text is escaped."""
from __future__ import annotations

import html
import re

from . import _core, errors

_MOST = 12  # rows and columns
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # characters that HTML and XML cannot have


def escaped(text) -> str:
    return html.escape(_NO_TEXT.sub("\ufffd", str(text)))


def table(rows, head=None) -> str:
    """A table of texts."""
    def cells(kind, values):
        return "<tr>" + "".join(f"<{kind}>{escaped(value)}</{kind}>" for value in values) + "</tr>"

    return "<table>" + ("" if head is None else cells("th", head)) + "".join(cells("td", row) for row in rows) + "</table>"


def of_tensor(x) -> str:
    """Shape, dtype and device, and the elements: a table of at most 12 rows and columns for one or two axes, else as text."""
    name = escaped(getattr(x, "name", "") or "") if type(x).__name__ == "Variable" else ""
    title = f"<b>{'Variable ' + name if type(x).__name__ == 'Variable' else 'Tensor'}</b> shape {escaped(tuple(x.shape))}, {escaped(x.dtype)}"
    try:
        corner = x[(slice(_MOST + 1),) * len(x.shape)]
        array = (_core.astype(corner, _core.float32) if x.dtype == _core.bfloat16 else corner).numpy()  # NumPy has no bfloat16
    except errors.StateError:
        return f"<div>{title}, a value of a graph</div>"
    title += f", {escaped(x.device)}"
    rank = len(x.shape)
    if rank not in (1, 2) or 0 in x.shape:
        return f"<div>{title}<pre>{escaped(x)}</pre></div>"
    rows = array if rank == 2 else array[None]
    shown = [[_cell(value) for value in row[:_MOST]] + ["…"] * (row.shape[0] > _MOST) for row in rows[:_MOST]]
    if len(rows) > _MOST:
        shown.append(["…"] * len(shown[0]))
    return f"<div>{title}{table(shown)}</div>"


def _cell(value):
    return f"{value:.6g}" if hasattr(value, "dtype") and value.dtype.kind in "fV" else value


def of_model(model) -> str:
    """A row per layer: name, class, weights, parameters, whether it is trained."""
    rows = []

    def visit(parent, depth, around):
        for layer in parent.layers:
            if id(layer) in around:  # a layer may hold the one that it is in
                continue
            shapes = ", ".join(str(tuple(variable.shape)) for variable in layer.variables) if not layer.layers else ""
            rows.append(["\u2003" * depth + layer.name, type(layer).__name__, shapes, f"{sum(v.size for v in layer.variables):,}", "yes" if layer.trainable else "no"])
            visit(layer, depth + 1, {*around, id(layer)})

    visit(model, 0, {id(model)})
    total = sum(v.size for v in model.variables)
    state = f"{total:,} parameters" if total or model.built else "not called yet: its weights do not exist"
    return f"<div><b>{escaped(type(model).__name__)} {escaped(model.name)}</b>: {state}{table(rows, ('layer', 'class', 'weights', 'parameters', 'trained'))}</div>"
