"""lm.Explanation: what fn.explain() returns."""
from __future__ import annotations


class Explanation(str):
    """A plan as text (which it prints), and the same as data.

    function: its name. launches: the launches of one call in order, as dicts of name, device, label (layers and ops), line (the user's, or
    ""), stream (of the device, from 0), wait (events before it, copies between devices included), signal (the event recorded after it, or
    None), section_steps (0: no section), why_alone (why it is not in a section, or ""), details (a section's steps), predicted_us
    (microseconds predicted by a model of the GPU from published latencies and rates, not confirmed on a card; None where the model has no
    figure, as on a CPU), measured_us (of the last measured run if this is the call's only launch; else None). copies: between devices.
    predicted_us: sum over all launches, None if one is missing.
    traced_kernels: number of launches if every op of the traced graph were one. temporary_bytes: per device. Milliseconds: trace_ms,
    passes_ms, compile_ms, run_ms (of the last measured run; None before). runs: number of calls served by the plan. planned_only: the plan
    was made for the device passed to explain(), and nothing ran. placements: under lm.device("auto") the placements that were compared,
    the one taken first, as (name, modelled microseconds or None, why); modelled_us: of a call, by the simulator; else [] and None.
    """

    def __new__(cls, text: str, data: dict):
        self = super().__new__(cls, text)
        vars(self).update(data)
        predicted = [launch["predicted_us"] for launch in self.launches]
        self.predicted_us = sum(predicted) if predicted and None not in predicted else None
        return self

    def json(self) -> str:
        """All data except the text."""
        import json  # imported here, because few programs need it
        return json.dumps(vars(self), indent=1)

    def html(self) -> str:
        """A standalone page: a table of launches with expandable steps, then the text. Notebooks display it automatically."""
        import html

        def cells(kind, values):
            return "<tr>" + "".join(f"<{kind}>{v}</{kind}>" for v in values) + "</tr>"

        def unfolding(launch):
            name = html.escape(launch["name"])
            if not launch["details"]:
                return name
            return f"<details><summary>{name}</summary><pre>{html.escape(chr(10).join(launch['details']))}</pre></details>"

        ran = f"run {self.runs} times, last measured {self.run_ms:.3f} ms" if self.run_ms is not None else "not run"
        facts = [("launches, if every op were one", self.traced_kernels), ("launches", len(self.launches)), ("copies between devices", self.copies),
                 ("temporary memory", ", ".join(f"{device}: {size:,} bytes" for device, size in self.temporary_bytes.items()) or "none"),
                 ("times", f"traced in {self.trace_ms:.1f} ms, passes {self.passes_ms:.1f} ms, compiled in {self.compile_ms:.1f} ms, {ran}")]
        def time(microseconds):
            return "" if microseconds is None else f"{microseconds:.1f} us"

        def order(launch):
            return launch["stream"], ", ".join(map(str, launch["wait"])), "" if launch["signal"] is None else launch["signal"]

        rows = [(i, unfolding(launch), html.escape(launch["device"]), *order(launch), time(launch["predicted_us"]), time(launch["measured_us"]), html.escape(launch["label"]),
                 html.escape(launch["line"]), html.escape(launch["why_alone"])) for i, launch in enumerate(self.launches)]
        title = html.escape(self.function)
        return (f"<!doctype html><meta charset=utf-8><title>{title}</title><style>body{{font-family:sans-serif}}table{{border-collapse:collapse}}"
                "td,th{border:1px solid #ccc;padding:2px 8px;text-align:left;vertical-align:top}</style>"
                f"<h1>{title}</h1><table>{''.join(cells('td', (what, html.escape(str(value)))) for what, value in facts)}</table>"
                f"<h2>Launches</h2><table>{cells('th', ('', 'launch', 'device', 'stream', 'waits for events', 'signals', 'by a model, not measured', 'measured', 'layers and ops', 'line', 'why in no section'))}{''.join(cells('td', row) for row in rows)}</table>"
                f"<h2>Everything</h2><pre>{html.escape(self)}</pre>")

    def _repr_html_(self) -> str:
        return self.html()
