"""Pictures without other programs: a layered layout of boxes in boxes, as SVG."""
from __future__ import annotations

import math
import os

from . import _border, _core, errors
from ._html import escaped

_GAP, _ROW, _PAD, _TITLE = 18, 30, 12, 20  # between boxes of a row, between rows, inside a group, its title's height


class Picture(str):
    """An SVG drawing as text: picture.save("m.svg") writes it, notebooks show it."""

    def __new__(cls, text: str):
        return super().__new__(cls, text)

    def save(self, path) -> None:
        """Writes the drawing to a file whose name ends in .svg, in place of the one before. Raises InvalidArgument for other endings, BadFile when it cannot be written."""
        _save(path, str(self), ".svg", "Picture.save")

    def _repr_svg_(self) -> str:
        return str(self)


def _save(path, text, ending, what):
    path = errors.path_of(what, path)
    if not path.lower().endswith(ending):
        raise errors.InvalidArgument(f"{what}: '{path}' does not end in {ending}", why="the ending says what a file is", fix=f"name it {os.path.splitext(path)[0]}{ending}")
    _core._replace_file(path, text.encode("utf-8", "replace"))


def shortened(text, most=34):
    return text if len(text) <= most else text[:most - 1] + "…"


class Box:
    """A box with lines of text, or a group: a titled frame around boxes with edges between them."""

    def __init__(self, key, lines, kind="op", about=""):
        self.key, self.lines, self.kind, self.about = key, lines, kind, about  # about: the whole text, shown when the mouse is over it
        self.inside, self.edges = {}, {}  # of a group: its boxes by key, and which follows which
        self.x = self.y = self.width = self.height = 0.0
        self.routes = []

    def lay_out(self):
        """Sets sizes, and the places of what is inside relative to this box."""
        text = max((len(shortened(line)) for line in self.lines), default=0) * 7.0 + 20
        if not self.inside:
            self.width, self.height = max(text, 60), 12 + 16 * len(self.lines)
            return
        for box in self.inside.values():
            box.lay_out()
        width, height, self.routes = _layered(list(self.inside.values()), self.edges)
        for box in self.inside.values():
            box.x, box.y = box.x + _PAD + max(text - width - 2 * _PAD, 0) / 2, box.y + _PAD + _TITLE
        shift = _PAD + max(text - width - 2 * _PAD, 0) / 2
        self.routes = [([(x + shift, y + _PAD + _TITLE) for x, y in points], back) for points, back in self.routes]
        self.width, self.height = max(width + 2 * _PAD, text), height + 2 * _PAD + _TITLE

    def draw(self, out, x=0.0, y=0.0):
        x, y = x + self.x, y + self.y
        out.append(f'<g class="{self.kind}"><title>{escaped(self.about or " ".join(self.lines))}</title>'
                   f'<rect x="{x:.1f}" y="{y:.1f}" width="{self.width:.1f}" height="{self.height:.1f}" rx="5"/>')
        name = ' class="name"'
        for i, line in enumerate(self.lines):
            at = y + 17 + 16 * i
            out.append(f'<text x="{x + self.width / 2:.1f}" y="{at:.1f}"{name if i == 0 else ""}>{escaped(shortened(line))}</text>')
        out.append("</g>")
        for box in self.inside.values():
            box.draw(out, x, y)
        for points, back in self.routes:
            (x0, y0), *rest = [(px + x, py + y) for px, py in points]
            path = f"M{x0:.1f} {y0:.1f}"
            for px, py in rest:
                middle = (y0 + py) / 2
                path += f"C{x0:.1f} {middle:.1f} {px:.1f} {middle:.1f} {px:.1f} {py:.1f}"
                x0, y0 = px, py
            out.append(f'<path class="{"back" if back else "edge"}" d="{path}" marker-end="url(#arrow)"/>')


class _Bend:
    """A place that a long edge passes in a row."""

    width, height = 8.0, 0.0
    x = y = 0.0


def _layered(boxes, edges):
    """Places boxes in rows, each below those that it follows. (width, height, [points of each edge, whether it goes back up])."""
    order = {id(box): i for i, box in enumerate(boxes)}
    by_key = {box.key: box for box in boxes}
    pairs = [(by_key[a], by_key[b]) for a, b in edges if a != b]
    forward = [(a, b) for a, b in pairs if order[id(a)] < order[id(b)]]
    row = dict.fromkeys(map(id, boxes), 0)
    for a, b in sorted(forward, key=lambda pair: order[id(pair[0])]):  # sources come in order, so their rows are final
        row[id(b)] = max(row[id(b)], row[id(a)] + 1)
    rows = [[] for _ in range(max(row.values(), default=0) + 1)]
    for box in boxes:
        rows[row[id(box)]].append(box)
    before, after, chains = {}, {}, []
    for a, b in forward:
        chain = [a, *(_Bend() for _ in range(row[id(b)] - row[id(a)] - 1)), b]
        for k, bend in enumerate(chain[1:-1]):
            rows[row[id(a)] + 1 + k].append(bend)
        for p, q in zip(chain, chain[1:]):
            before.setdefault(id(q), []).append(p)
            after.setdefault(id(p), []).append(q)
        chains.append((chain, False))
    for sweep in range(4):  # fewer crossings: each by the mean place of its neighbours in the row before
        place = {id(box): i for r in rows for i, box in enumerate(r)}
        near = before if sweep % 2 == 0 else after
        for r in rows if sweep % 2 == 0 else reversed(rows):
            r.sort(key=lambda box: sum(place[id(n)] for n in near[id(box)]) / len(near[id(box)]) if id(box) in near else place[id(box)])
            place.update((id(box), i) for i, box in enumerate(r))
    y = 0.0
    for r in rows:
        x, shift = None, 0.0
        for box in r:
            wanted = [n.x + n.width / 2 for n in before.get(id(box), ())]
            ideal = sum(wanted) / len(wanted) - box.width / 2 if wanted else (0.0 if x is None else x)
            box.x = ideal if x is None else max(ideal, x)
            shift += box.x - ideal
            x = box.x + box.width + _GAP
        height = max(box.height for box in r)
        for box in r:
            box.x, box.y = box.x - shift / len(r), y + (height - box.height) / 2
        y += height + _ROW
    everything = [box for r in rows for box in r]
    left = min(box.x for box in everything)
    for box in everything:
        box.x -= left
    chains += [([a, b], True) for a, b in pairs if order[id(a)] > order[id(b)]]
    routes = []
    for chain, back in chains:
        a, b = (chain[0], chain[-1])
        start = (a.x + a.width / 2, a.y) if back else (a.x + a.width / 2, a.y + a.height)
        end = (b.x + b.width / 2, b.y + b.height) if back else (b.x + b.width / 2, b.y)
        routes.append(([start, *((c.x + 4, c.y) for c in chain[1:-1]), end], back))
    return max(box.x + box.width for box in everything), y - _ROW, routes


_STYLE = ("text{font:12px system-ui,sans-serif;text-anchor:middle;fill:#1a1a1a}.name{font-weight:600}rect{stroke:#5b6b7f;fill:#fff}.group>rect{fill:#eef2f7;stroke:#a9b4c2}"
          ".layer>rect{fill:#d9e8fb}.input>rect{fill:#e3f4e1}.op>rect{fill:#f6f1e0}.output>rect{fill:#e3f4e1}.edge,.back{fill:none;stroke:#5b6b7f}.back{stroke-dasharray:4 3}")


def svg_of(box: Box) -> Picture:
    """The drawing of a group with everything in it."""
    box.lay_out()
    box.x = box.y = 4.0
    out = []
    box.draw(out)
    width, height = box.width + 8, box.height + 8
    return Picture(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"><style>{_STYLE}</style>'
                   '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b6b7f"/></marker></defs>'
                   + "".join(out) + "</svg>\n")


# --- curves ---

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _ROW_OF = 420, 270, 64, 44, 34, 3  # of a pair of axes; so many stand side by side


def _ticks(low, high):
    """Four to nine round numbers from low to high."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * power for s in (2, 1, 0.5, 0.25, 0.2) if (high - low) / (s * power) >= 4)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _range(values):
    low, high = min(values), max(values)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    return low, high


def _panel(out, left, above, title, lines, epochs):
    """One pair of axes with a line for each of (name, values); values that are not finite leave a gap."""
    finite = [value for _, values in lines for value in values if math.isfinite(value)]
    (low, high), (first, last) = _range(finite or [0.0]), _range(epochs)
    bottom, right, margin = above + _HEIGHT - _BOTTOM, left + _WIDTH - 12, (high - low) / 25  # lines keep away from the frame
    def place(epoch, value):
        return (left + _LEFT + (epoch - first) / (last - first) * (right - left - _LEFT), bottom - (value - low + margin) / (high - low + 2 * margin) * (_HEIGHT - _TOP - _BOTTOM))

    out.append(f'<text class="name" x="{left + _LEFT}" y="{above + 20}">{escaped(shortened(title, 24))}</text>')
    for value in _ticks(low, high):
        y = place(first, value)[1]
        out.append(f'<path class="grid" d="M{left + _LEFT} {y:.1f}H{right}"/><text class="tick" x="{left + _LEFT - 6}" y="{y + 4:.1f}">{value:.4g}</text>')
    out.append(f'<path class="axis" d="M{left + _LEFT} {above + _TOP}V{bottom}H{right}"/><text x="{(left + _LEFT + right) / 2:.0f}" y="{bottom + 36}">epoch</text>')
    shown = {round(tick) for tick in _ticks(first + 1, last + 1)}  # epochs are counted from 1
    for epoch in [epoch for epoch in epochs if epoch + 1 in shown] or epochs[:1]:
        out.append(f'<text x="{place(epoch, low)[0]:.1f}" y="{bottom + 18}">{epoch + 1}</text>')
    at = right
    for number, (name, values) in reversed(list(enumerate(lines))):  # from the right, beside the title
        if len(lines) > 1 or name != title:
            out.append(f'<text class="c{number % 4} key" x="{at}" y="{above + 20}">{escaped(shortened(name, 24))}</text>')
            at -= 7 * len(shortened(name, 24)) + 12
    for number, (name, values) in enumerate(lines):
        path, pen = "", "M"
        for epoch, value in zip(epochs, values):
            if not math.isfinite(value):
                pen = "M"
                continue
            x, y = place(epoch, value)
            path, pen = path + f"{pen}{x:.1f} {y:.1f}", "L"
            out.append(f'<circle class="c{number % 4}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{escaped(name)}, epoch {epoch + 1}: {value:.6g}</title></circle>')
        out.append(f'<path class="c{number % 4} line" d="{path}"/>')


def curves_of(history, epochs) -> Picture:
    """{name: a number per epoch} as curves: "loss" and "val_loss" share their axes."""
    panels = {}
    for name, values in history.items():
        panels.setdefault(name.removeprefix("val_"), []).append((name, [float(value) for value in values]))
    out = []
    for number, (title, lines) in enumerate(panels.items()):
        _panel(out, number % _ROW_OF * _WIDTH, number // _ROW_OF * _HEIGHT, title, lines, list(epochs))
    colours = "".join(f".c{i}{{fill:{c};stroke:none}}.c{i}.line{{stroke:{c};fill:none;stroke-width:1.8}}" for i, c in enumerate(("#1a5fb4", "#c64600", "#26734d", "#813d9c")))
    width, height = min(len(panels), _ROW_OF) * _WIDTH, -(-len(panels) // _ROW_OF) * _HEIGHT
    return Picture(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"><style>text{{font:12px system-ui,sans-serif;text-anchor:middle;fill:#1a1a1a}}'
                   f'.name{{font-weight:600;text-anchor:start}}.tick,.key{{text-anchor:end}}.grid{{stroke:#ddd}}.axis{{stroke:#5b6b7f;fill:none}}{colours}</style><rect width="{width}" height="{height}" fill="#fff"/>'
                   f'{"".join(out)}</svg>\n')


_border.guard(globals())
