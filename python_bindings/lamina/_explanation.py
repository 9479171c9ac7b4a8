"""lm.Explanation: what fn.explain() returns."""
from __future__ import annotations


class Explanation(str):
    """A plan as text (which it prints), and the same as data.

    function: its name. launches: the launches of one call in order, as dicts of name, device, label (layers and ops), line (the user's, or
    ""), stream (of the device, from 0), wait (events before it, copies between devices included), signal (the event recorded after it, or
    None), section_steps (0: no section), why_alone (why it is not in a section, or ""), details (a section's steps), steps (layer, op and line of each), predicted_us
    (microseconds predicted by a model of the GPU from the times of an H200's steps and the card's published rates; None where the model has no
    figure, as on a CPU), launch_us (the part of predicted_us until the kernel starts, or None), measured_us (of the last measured run if this is the call's only launch; else None). copies: between devices.
    predicted_us: sum over all launches, None if one is missing.
    traced_kernels: number of launches if every op of the traced graph were one. temporary_bytes: per device. Milliseconds: trace_ms,
    passes_ms, compile_ms, run_ms (of the last measured run; None before). runs: number of calls served by the plan. planned_only: the plan
    was made for the device passed to explain(), and nothing ran. placements: under lm.device("auto") the placements that were compared,
    the one taken first, as (name, modelled microseconds or None, why), else []. modelled_us: of a call, by the simulator; None without device= or "auto".
    ranks: with count=, a dict: what joins the ranks, rows, gradient_bytes, one_device_us, faster ("ranks" or "one device"), and ways to sum the gradients, each with its
    name, number of sums, step_us, and the exposed_us of them by which the sums prolong the step. All times are modelled. Else None.
    """

    def __new__(cls, text: str, data: dict):
        self = super().__new__(cls, text)
        vars(self).update({"ranks": None} | data)
        predicted = [launch["predicted_us"] for launch in self.launches]
        self.predicted_us = sum(predicted) if predicted and None not in predicted else None
        return self

    def __getnewargs__(self):  # for pickle and copy
        return str.__str__(self), vars(self)

    def json(self) -> str:
        """All data except the text."""
        import json  # imported here, because few programs need it
        return json.dumps(vars(self), indent=1)

    def html(self, record=None) -> str:
        """A page that needs nothing else: the launches as frames on the lanes of their streams, with the steps of sections inside; zoom and search; a click shows the numbers of a layer or
        launch; then a table of launches, and the text. record: a lm.profiler.record or trace of some calls, whose times of steps are shown too. Raises StateError while it still runs."""
        from . import errors, profiler
        from ._explanation_page import page_of

        if record is not None and not isinstance(record, profiler.record):
            raise errors.TypeMismatch(f"Explanation: record is {errors.shown(record)}", why="its times of steps are shown", fix="pass what `with lm.profiler.record() as record:` made")
        if record is not None and record._runs:
            raise errors.StateError("Explanation: the recording still runs", why="its times are there after its end", fix="make the page after the with block")
        return page_of(self, record)

    def save(self, path, record=None) -> None:
        """Writes html() to a file whose name ends in .html, in place of the one before. Raises InvalidArgument for other endings, BadFile when it cannot be written."""
        from ._drawing import _save

        _save(path, self.html(record), ".html", "Explanation.save")

    def _repr_html_(self) -> str:
        import html

        return f'<iframe srcdoc="{html.escape(self.html())}" sandbox="allow-scripts" style="width:100%;height:700px;border:0"></iframe>'
