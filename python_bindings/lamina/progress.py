"""The progress bar of training: animated on a terminal, few plain lines elsewhere."""
from __future__ import annotations

import sys
import time

from . import _border, errors

__all__ = ["ProgressBar", "format_duration", "format_metric", "format_step_time"]

CELLS = 30
REDRAW_SECONDS = 0.1  # on a terminal
LINE_SECONDS = 10.0  # elsewhere


def format_metric(value: float) -> str:
    """A number as training shows it: 1.6631 if larger than 0.001 in magnitude, else 5.7225e-04."""
    return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"


def format_step_time(seconds: float) -> str:
    """Time per step in a unit with a readable integer: 2s, 13ms, 350us."""
    if seconds >= 1:
        return f"{seconds:.0f}s/step"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.0f}ms/step"
    return f"{seconds * 1e6:.0f}us/step"


def format_duration(seconds: float) -> str:
    """0s, 59s, 1:05, 2:00:09. Raises InvalidArgument for NaN and infinity."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def verbosity(what: str, verbose) -> int:
    """0, 1 or 2 for what fit and its like take as verbose. Keras's "auto" is 1."""
    if isinstance(verbose, (int, str)) and verbose in (0, 1, 2, "auto"):
        return 1 if verbose == "auto" else int(verbose)
    raise errors.InvalidArgument(f"{what}: verbose {errors.shown(verbose)}", why="0 prints nothing, 1 a progress bar, 2 a line per epoch", fix="pass 0, 1 or 2")


class ProgressBar:
    """Shows steps 1..total of one epoch.

    verbose 1: on a terminal an animated bar; elsewhere a line at the first and at the last step and at most one every ten seconds in
    between, without control codes. verbose 2: one line at the end. verbose 0: nothing. With total=None (length unknown) only the count is
    shown until finish() is called.
    """

    def __init__(self, total: int | None, verbose: int | bool | str = 1, file=None, clock=time.perf_counter):
        if total is not None:
            errors.in_range("ProgressBar", "it is a number of steps", 0, total=total)
        if file is not None and not hasattr(file, "write"):
            raise errors.TypeMismatch(f"ProgressBar: file is {errors.a_type(file)}", why="lines are written to it", fix="pass sys.stderr, or an open file")
        self.total = total
        self.verbose = verbosity("ProgressBar", verbose)
        self.file = sys.stdout if file is None else file
        self.clock = clock
        self.start = clock()
        self.step = 0
        self.waited = 0.0  # seconds of it for data; shown from a tenth of the time on
        self._shown_at = None
        self._width = 0  # length of the current line on the terminal
        self._finished = False
        self._moving = bool(getattr(self.file, "isatty", lambda: False)())

    def wants(self, step: int) -> bool:
        """Whether update(step) would draw, so that a loop can skip reading the metrics."""
        if self.verbose != 1 or self._finished:
            return False
        if self._shown_at is None or step == self.total:
            return True
        return self.clock() - self._shown_at >= (REDRAW_SECONDS if self._moving else LINE_SECONDS)

    def update(self, step: int, metrics=()) -> None:
        """Reports that `step` steps are done; metrics are pairs of name and number."""
        self.step = step
        if not self.wants(step):
            return
        if step == self.total:
            self.finish(metrics)
        else:
            self._shown_at = self.clock()
            self._show(self._line(metrics), final=False)

    def finish(self, metrics=()) -> None:
        """Draws the last line unless it is already there."""
        if self._finished:
            return
        self._finished = True
        elapsed = self.clock() - self.start
        per_step = format_step_time(elapsed / max(self.step, 1))
        total = self.step if self.total is None else self.total
        if self.verbose == 2:
            print(f"{self.step}/{total} - {elapsed:.0f}s - {per_step}{self._waiting(elapsed)}{self._metrics(metrics)}", file=self.file, flush=True)
        elif self.verbose == 1:
            text = f"{self.step}/{total} [{self._bar(total)}] - {format_duration(elapsed)} {per_step}{self._waiting(elapsed)}{self._metrics(metrics)}"
            self._show(text, final=True)

    def _line(self, metrics) -> str:
        elapsed = self.clock() - self.start
        if self.total is None:
            return f"{self.step} - {format_duration(elapsed)}{self._waiting(elapsed)}{self._metrics(metrics)}"
        remaining = elapsed / max(self.step, 1) * (self.total - self.step)
        return f"{self.step}/{self.total} [{self._bar(self.total)}] - ETA: {format_duration(remaining)}{self._waiting(elapsed)}{self._metrics(metrics)}"

    def _bar(self, total: int) -> str:
        if self.step >= total:
            return "=" * CELLS
        full = CELLS * self.step // max(total, 1)
        return "=" * max(full - 1, 0) + ">" + "." * (CELLS - max(full, 1))

    def _waiting(self, elapsed: float) -> str:
        share = self.waited / elapsed if elapsed > 0 else 0
        return f" - waiting for data: {min(share, 1):.0%}" if share >= 0.1 else ""

    @staticmethod
    def _metrics(metrics) -> str:
        pairs = list(metrics.items() if hasattr(metrics, "items") else metrics)
        for name, value in pairs:
            if not hasattr(value, "__float__"):
                raise errors.TypeMismatch(f"ProgressBar: the metrics' '{name}' is {errors.a_type(value)}", why="metrics are pairs of a name and a number", fix="leave it out")
        return "".join(f" - {name}: {format_metric(value)}" for name, value in pairs)

    def _show(self, text: str, final: bool) -> None:
        if not self._moving:
            print(text, file=self.file, flush=True)
            return
        padding = " " * max(self._width - len(text), 0)
        self._width = len(text)
        self.file.write("\r" + text + padding + ("\n" if final else ""))
        self.file.flush()


_border.guard(globals())
