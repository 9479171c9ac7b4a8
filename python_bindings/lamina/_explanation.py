"""lm.Explanation: what fn.explain() returns."""
from __future__ import annotations


class Explanation(str):
    """A plan as text, which it prints as, with the same as data beside it.

    function: its name. launches: what one call starts, in order: dicts of name, device, label (layers and ops), line (the user's, or ""),
    stream (of the device, from 0), wait (events that come before it; of copies between devices too), signal (the event that it ends with, or None),
    section_steps (0: no section), why_alone (why it is in no section, or ""), details (a section's steps), predicted_us (microseconds by a model of
    the GPU: a formula over published latencies and rates, which no card has confirmed; None where the model has no figure, as on a CPU), measured_us
    (of the run measured last, where the launch is the call's only one; else None). copies: from one device to another. predicted_us: of all launches
    together by that model, None where it lacks one of them.
    traced_kernels: launches, if every op of the traced graph were one. temporary_bytes: per device. Milliseconds: trace_ms, passes_ms,
    compile_ms, run_ms (the run measured last; None before). runs: how many calls the plan has served. planned_only: the plan was made for a
    device that explain() was given, and nothing ran.
    """

    def __new__(cls, text: str, data: dict):
        self = super().__new__(cls, text)
        vars(self).update(data)
        predicted = [launch["predicted_us"] for launch in self.launches]
        self.predicted_us = sum(predicted) if predicted and None not in predicted else None
        return self

    def json(self) -> str:
        """All of it but the text."""
        import json  # here, as few programs need it
        return json.dumps(vars(self), indent=1)

    def html(self) -> str:
        """A page that needs nothing else: a table of launches that unfold into their steps, then the text. Notebooks show it by themselves."""
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
