"""The page of an Explanation: its launches as boxes on the lanes of their streams, the steps inside of them, their numbers, and everything as text."""
from __future__ import annotations

import json
import re

from ._chrome_trace import parts_of
from ._drawing import shortened
from ._html import escaped, table

_STEP, _HEIGHT, _PAD, _HEAD, _GAP, _NAMES = 92, 26, 8, 22, 26, 120  # pixels: a step's box, a launch's frame, between launches, names of lanes


def _steps_of(launch):
    """(text, shapes) of each step, or of the launch itself."""
    if not launch["section_steps"]:
        line = launch["line"].rpartition("/")[2]
        return [((launch["label"] or launch["name"]) + (f" {line}" if line else ""), "")]
    shapes = {}
    for detail in launch["details"]:
        found = re.match(r"\s*(\d+) (\S.*)", detail)
        if found:
            shapes.setdefault(int(found[1]), found[2])
    return [(text, shapes.get(i, "")) for i, text in enumerate(launch["steps"])]


def _phase(layer, op):
    return "update" if "update" in op.partition("(")[0] or op.startswith("assign") else "backward" if layer.startswith("grad/") or layer == "grad" else "forward"


def _short(op):
    """An op's name without what was fused into it; of a fused group the ops."""
    name, _, inside = op.partition("(")
    return inside.removesuffix(")") if name == "fused_elementwise" and inside else name


def _measured(record):
    """{text: (times, least microseconds)} of a recording."""
    out = {}
    for one in getattr(record, "ranges", ()):
        if one.kind in ("step", "instruction"):
            times, least = out.get(one.text, (0, float("inf")))
            out[one.text] = times + 1, min(least, one.end - one.begin)
    for one in getattr(record, "device_steps", ()):
        times, least = out.get(one.text, (0, float("inf")))
        out[one.text] = times + one.times, min(least, one.busy / max(one.times, 1))
    return out


def _place(launches, sizes):
    """Where each launch begins: after those before it on its stream, and after those whose events it waits for."""
    free, signalled, begins = {}, {}, []
    for launch, (width, _) in zip(launches, sizes):
        lane = launch["device"], launch["stream"]
        begin = max([free.get(lane, _NAMES), *(signalled[event][0] + _GAP for event in launch["wait"] if event in signalled)])
        begins.append(begin)
        free[lane] = begin + width + _GAP
        if launch["signal"] is not None:
            signalled[launch["signal"]] = begin + width, len(begins) - 1
    return begins


def _drawn(launches, measured):
    """(SVG, data of the steps)."""
    steps, sizes, inside = [], [], []
    for number, launch in enumerate(launches):
        own = []
        for text, shapes in _steps_of(launch):
            layer, op, line = parts_of(text)
            times, least = measured.get(text, (0, None))
            own.append(len(steps))
            steps.append({"launch": number, "layer": layer.removeprefix("grad/") if layer != "grad" else "", "op": op, "line": line, "shapes": shapes, "phase": _phase(layer, op), "us": least, "times": times})
        columns = max(1, min(len(own), 12, round((len(own) * 1.5) ** 0.5)))
        rows = -(-len(own) // columns)
        sizes.append((max(columns * (_STEP + 4) - 4 + 2 * _PAD, 150), rows * (_HEIGHT + 4) - 4 + 2 * _PAD + _HEAD))
        inside.append((own, columns))
    begins = _place(launches, sizes)
    lanes = sorted({(launch["device"], launch["stream"]) for launch in launches})
    tops, y = {}, _PAD
    for lane in lanes:
        tops[lane] = y
        y += max(height for launch, (_, height) in zip(launches, sizes) if (launch["device"], launch["stream"]) == lane) + 2 * _PAD
    width = max((begin + size[0] for begin, size in zip(begins, sizes)), default=_NAMES) + _PAD
    out = []
    for (device, stream), top in tops.items():
        bottom = min((t for t in tops.values() if t > top), default=y)
        out.append(f'<g class="lane"><rect x="0" y="{top - _PAD + 2}" width="{width}" height="{bottom - top - 4}"/><text x="8" y="{top + 18}">{escaped(device)}</text>'
                   f'<text x="8" y="{top + 34}">stream {stream}</text></g>')
    ends = {}
    for number, launch in enumerate(launches):
        (w, h), x, top = sizes[number], begins[number], tops[launch["device"], launch["stream"]]
        for event in launch["wait"]:
            if event in ends:
                x0, y0 = ends[event]
                out.append(f'<path class="wait" d="M{x0} {y0}C{x0 + 20} {y0} {x - 20} {top + h / 2:.0f} {x} {top + h / 2:.0f}"/>')
        if launch["signal"] is not None:
            ends[launch["signal"]] = x + w, top + h // 2
        out.append(f'<g class="launch" data-launch="{number}"><rect x="{x}" y="{top}" width="{w}" height="{h}" rx="5"/><text x="{x + _PAD}" y="{top + 16}">{escaped(launch["name"][:w // 8])}</text></g>')
        own, columns = inside[number]
        for k, step in enumerate(own):
            one = steps[step]
            sx, sy = x + _PAD + k % columns * (_STEP + 4), top + _HEAD + k // columns * (_HEIGHT + 4)
            name = shortened(one["layer"].rpartition("/")[2] or _short(one["op"]), 13)
            out.append(f'<g class="step {one["phase"]}" data-step="{step}"><title>{escaped(" ".join(filter(None, (one["layer"], one["op"], one["line"]))))}</title>'
                       f'<rect x="{sx}" y="{sy}" width="{_STEP}" height="{_HEIGHT}" rx="3"/><text x="{sx + 5}" y="{sy + 17}">{escaped(name)}</text></g>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">{"".join(out)}</svg>', steps


_STYLE = """body{font:14px system-ui,sans-serif;margin:16px;color:#1a1a1a;background:#fff}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 8px;text-align:left;vertical-align:top}pre{overflow:auto}
#bar{position:sticky;top:0;background:#fff;padding:6px 0;z-index:1}#view{overflow:auto;border:1px solid #ccc;max-height:70vh}#numbers{border:1px solid #ccc;padding:8px;margin-top:8px;min-height:3em}
svg text{font:12px system-ui,sans-serif;pointer-events:none}.lane rect{fill:#f3f5f8}.launch rect{fill:#fff;stroke:#5b6b7f;cursor:pointer}.step{cursor:pointer}.step rect{stroke:#5b6b7f}
.forward rect{fill:#d9e8fb}.backward rect{fill:#fbe6d0}.update rect{fill:#e3f4e1}.key{padding:1px 8px;border:1px solid #5b6b7f;border-radius:3px}.key.forward{background:#d9e8fb}
.key.backward{background:#fbe6d0}.key.update{background:#e3f4e1}.key.waits{border-color:#b3261e;color:#b3261e}.time{white-space:nowrap}.wait{fill:none;stroke:#b3261e}.dim{opacity:.2}.chosen rect{stroke:#b3261e;stroke-width:2.5}"""

_SCRIPT = """(() => {
const data = JSON.parse(document.getElementById("data").textContent), svg = document.querySelector("#view svg"), view = document.getElementById("view");
const found = document.getElementById("found"), numbers = document.getElementById("numbers"), search = document.getElementById("search");
const boxes = [...svg.querySelectorAll(".step")], frames = [...svg.querySelectorAll(".launch")];
const width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
let zoom = 1;
const scale = z => { zoom = Math.min(Math.max(z, 0.02), 8); svg.setAttribute("width", width * zoom); svg.setAttribute("height", height * zoom); };
document.getElementById("in").onclick = () => scale(zoom * 1.3);
document.getElementById("out").onclick = () => scale(zoom / 1.3);
document.getElementById("fit").onclick = () => scale((view.clientWidth - 4) / width);
view.addEventListener("wheel", e => { if (e.ctrlKey) { e.preventDefault(); scale(zoom * (e.deltaY < 0 ? 1.1 : 1 / 1.1)); } }, {passive: false});
const words = s => [s.layer, s.op, s.line, s.shapes, data.launches[s.launch].name].join(" ").toLowerCase();
search.oninput = () => {
  const wanted = search.value.toLowerCase();
  let hits = 0;
  for (const box of boxes) {
    const hit = words(data.steps[box.dataset.step]).includes(wanted);
    hits += hit;
    box.classList.toggle("dim", !hit);
  }
  found.textContent = wanted ? hits + " of " + boxes.length + " steps" : "";
};
const add = (parent, kind, text) => { const e = document.createElement(kind); if (text !== undefined) e.textContent = text; parent.append(e); return e; };
const rows = (head, lines) => { const t = add(numbers, "table"), h = add(t, "tr"); head.forEach(c => add(h, "th", c)); lines.forEach(line => { const r = add(t, "tr"); line.forEach(c => { const cell = add(r, "td", c); if (String(c).endsWith(" us")) cell.className = "time"; }); }); };
const count = (n, what) => n + " " + what + (n === 1 ? "" : what.endsWith("h") ? "es" : "s");
const us = value => value === null || value === undefined ? "" : value.toFixed(2) + " us";
const choose = test => { boxes.forEach(b => b.classList.toggle("chosen", test(data.steps[b.dataset.step]))); numbers.textContent = ""; };
const show_launch = n => {
  const l = data.launches[n];
  choose(s => s.launch === n);
  add(numbers, "b", "launch " + n + ": " + l.name);
  rows(["device", "stream", "steps", "waits for events", "signals", "by a model, not measured", "measured", "line", "why in no section"],
       [[l.device, l.stream, data.steps.filter(s => s.launch === n).length, l.wait.join(", "), l.signal === null ? "" : l.signal, us(l.predicted_us), us(l.measured_us), l.line, l.why_alone]]);
};
const show_layer = step => {
  const same = s => step.layer ? s.layer === step.layer : s === step;
  choose(same);
  const all = data.steps.filter(same), timed = all.filter(s => s.us !== null);
  add(numbers, "b", step.layer ? "layer " + step.layer : step.op);
  add(numbers, "span", ": " + count(all.length, "step") + " in " + count(new Set(all.map(s => s.launch)).size, "launch") + (timed.length ? ", " + us(timed.reduce((sum, s) => sum + s.us, 0)) + " at least, as recorded" : ""));
  rows(["launch", "device", "phase", "op", "line", "shapes", "times recorded", "least time"],
       all.map(s => [s.launch, data.launches[s.launch].device + " stream " + data.launches[s.launch].stream, s.phase, s.op, s.line, s.shapes, s.times || "", us(s.us)]));
};
boxes.forEach(b => b.addEventListener("click", () => show_layer(data.steps[b.dataset.step])));
frames.forEach(f => f.addEventListener("click", () => show_launch(+f.dataset.launch)));
if (width > view.clientWidth) scale(Math.max((view.clientWidth - 4) / width, 0.35));
})();"""


def page_of(e, record=None):
    """The whole page, which loads nothing from elsewhere."""
    svg, steps = _drawn(e.launches, _measured(record))
    kept = ("name", "device", "stream", "wait", "signal", "predicted_us", "measured_us", "line", "why_alone")
    data = json.dumps({"launches": [{name: launch[name] for name in kept} for launch in e.launches], "steps": steps})
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    ran = f"run {e.runs} times, last measured {e.run_ms:.3f} ms" if e.run_ms is not None else "not run"
    facts = [("launches, if every op were one", e.traced_kernels), ("launches", len(e.launches)), ("copies between devices", e.copies),
             ("temporary memory", ", ".join(f"{device}: {size:,} bytes" for device, size in e.temporary_bytes.items()) or "none"),
             ("times", f"traced in {e.trace_ms:.1f} ms, passes {e.passes_ms:.1f} ms, compiled in {e.compile_ms:.1f} ms, {ran}")]
    title = escaped(e.function)
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'; script-src \'unsafe-inline\'">'
            f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>{table(facts)}<h2>Launches on their streams</h2>"
            '<div id="bar"><input id="search" type="search" placeholder="layer, op or line" aria-label="search"> <span id="found"></span> <button id="in">+</button> <button id="out">−</button> <button id="fit">fit</button> '
            '<span class="key forward">forward</span> <span class="key backward">gradient</span> <span class="key update">update of weights</span> <span class="key waits">wait for another stream</span></div>'
            f'<div id="view">{svg}</div><div id="numbers">A click on a step shows the numbers of its layer, on a frame those of its launch.</div>'
            f"<h2>Launches</h2>{_launches(e.launches)}<h2>Everything</h2><pre>{escaped(str(e))}</pre>"
            f'<script type="application/json" id="data">{data}</script><script>{_SCRIPT}</script></body></html>\n')


def _launches(launches):
    def time(microseconds):
        return "" if microseconds is None else f"{microseconds:.1f} us"

    def row(i, launch):
        name = escaped(launch["name"])
        if launch["details"]:
            name = f"<details><summary>{name}</summary><pre>{escaped(chr(10).join(launch['details']))}</pre></details>"
        cells = (launch["device"], launch["stream"], ", ".join(map(str, launch["wait"])), "" if launch["signal"] is None else launch["signal"], time(launch["predicted_us"]),
                 time(launch["measured_us"]), launch["label"], launch["line"].rpartition("/")[2], launch["why_alone"])
        return f"<tr><td>{i}</td><td>{name}</td>" + "".join(f"<td>{escaped(str(cell))}</td>" for cell in cells) + "</tr>"

    head = ("", "launch", "device", "stream", "waits for events", "signals", "by a model, not measured", "measured", "layers and ops", "line", "why in no section")
    return "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>" + "".join(row(i, launch) for i, launch in enumerate(launches)) + "</table>"
