"""fn.explain(x, device="null:h100", count=8) and ``python -m lamina plan``: a training step on one GPU and on several, as modelled without any."""
from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import sys

from . import _core, errors
from ._structure import flatten, unflatten

_HALVES = (_core.float16, _core.bfloat16)


def explain(function, args, kwargs, device, count, hosts):
    """The Explanation of one rank's program, under what the ranks' sums cost."""
    for name, value in (("count", count), ("hosts", hosts)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65536:
            raise errors.InvalidArgument(f"explain: {name} {errors.shown(value)} is not a whole number", why="it is a number of ranks or hosts", fix="pass a whole number from 1 to 65536")
    if device is None or device.startswith("cpu"):
        raise errors.InvalidArgument("explain: count= needs a GPU to plan for", why=f"the device is {device or 'not given'}", fix='pass device="null:h100", which need not be there')
    if count % hosts:
        raise errors.InvalidArgument(f"explain: {count} ranks cannot be spread over {hosts} hosts", why="each host has the same number", fix="pass a multiple of hosts as count")
    leaves, structure = flatten((args, kwargs))
    shapes = [list(getattr(leaf, "shape", ())) for leaf in leaves]
    axes = getattr(function.__wrapped__, "_axes", None)  # of a data_parallel function
    rows = next((shape[axis] for shape, axis in zip(shapes, axes or [0] * len(shapes)) if shape and axis is not None), None)
    if not isinstance(rows, int) or rows < count:
        raise errors.InvalidArgument("explain: no argument has rows" if rows is None else f"explain: {rows} rows cannot be cut for {count} ranks",
                                     why="each rank has at least one row of the batch, which is the arguments' first axis where in_axes says no other",
                                     fix="pass the whole batch of all ranks")
    mine = -(-rows // count)
    each = axes or [0 if shape and shape[0] == rows else None for shape in shapes]
    cut = [leaf if axis is None else _core.TensorSpec(_with_rows(shape, axis, mine), _core.constant(leaf).dtype) for leaf, shape, axis in zip(leaves, shapes, each)]
    own_args, own_kwargs = unflatten(structure, cut)
    with _whole_batches():
        whole = function.explain(*args, **kwargs, device=device)
        alone = function.explain(*own_args, **own_kwargs, device=device)
        own = alone if count == 1 else _core.distributed.explain_rank(function.get_concrete_function(*args, **kwargs), rows, axes or [], device, count, hosts)
        assigned = function.get_concrete_function(*own_args, **own_kwargs)._assigned
    exchanges = sum(launch["name"].startswith("all_") for launch in own.launches)
    trained = [v for v in assigned if v.trainable and not re.match("u?int|bool", str(v.dtype))]
    gradients = [float(_elements(v.shape) * _bytes_each(v.dtype)) for v in reversed(trained)]
    in_launch = any("from all ranks: value" in detail for launch in own.launches for detail in launch["details"])
    joined, ways = _core.distributed.modelled_steps(device, count, hosts, alone.modelled_us, gradients if count > 1 else [], in_launch)
    best = own.modelled_us if in_launch else min(way[2] for way in ways)  # what would run
    faster = "ranks" if best < whole.modelled_us else "one device"
    lines = [f"{joined}; every time here is modelled: launches by what one H200 showed, links as published",
             f"  rows: {rows}, {mine} a rank; gradients: {sum(gradients):,.0f} bytes of {len(gradients)} Variables",
             f"  launches a rank and step: {len(own.launches)}" + (", which sums over the ranks, too" if in_launch and not exchanges else f", of which {exchanges} exchange sums or rows" if exchanges else ""),
             f"  one device, all rows: {whole.modelled_us:.1f} us modelled"]
    lines += [f"  {name}, {sums} {'sum' if sums == 1 else 'sums'}: {us:.1f} us modelled, of which {exposed:.1f} us exposed communication modelled"
              for name, sums, us, exposed in ways]
    if in_launch:
        lines.append(f"  the program below, as planned: {own.modelled_us:.1f} us modelled, of which {max(own.modelled_us - alone.modelled_us, 0):.1f} us exposed communication modelled")
    if count > 1:
        lines.append(f"  {f'{count} ranks are' if faster == 'ranks' else 'one device is'} faster, {max(best, whole.modelled_us) / min(best, whole.modelled_us):.2f} times as modelled")
    made = type(own)("\n".join(lines) + "\n\nthe program of one rank\n" + own, {k: v for k, v in vars(own).items() if k != "predicted_us"} | {
        "ranks": {"joined": joined, "count": count, "hosts": hosts, "rows": rows, "rows_of_a_rank": mine, "gradient_bytes": sum(gradients), "one_device_us": whole.modelled_us,
                  "ways": [dict(zip(("name", "sums", "step_us", "exposed_us"), way)) for way in ways], "faster": faster}})
    made.summary = "\n".join(lines)
    return made


@contextlib.contextmanager
def _whole_batches():
    """A data_parallel function is the function of the whole batch: its graph is cut here, for ranks that are not there."""
    before = _core.distributed.take_all_as_whole(True)
    try:
        yield
    finally:
        _core.distributed.take_all_as_whole(before)


def _with_rows(shape, axis, rows):
    out = list(shape)
    out[axis] = rows
    return out


def _elements(shape):
    out = 1
    for length in shape:
        out *= length
    return out


def _bytes_each(dtype):
    return 2 if dtype in _HALVES else 8 if dtype == _core.float64 else 4


class _Step(BaseException):
    """Ends the user's program at its first training step. No `except Exception` of the program takes it."""

    def __init__(self, function, args, kwargs):
        self.call = function, args, kwargs


def _devices(text):
    found = re.fullmatch(r"(?:(\d+)\s*[xX*])?\s*([A-Za-z]+\d[A-Za-z0-9]*)", text)
    if not found or found[1] and int(found[1]) < 1:
        raise errors.InvalidArgument(f"plan: --devices {text}", "the command line", "it is a number and a GPU", "write --devices 8xH100")
    return int(found[1] or 1), f"null:{found[2].lower()}"


def first_step(path, arguments):
    """(function, args, kwargs) of the first call of a traced function that trains, in the program. What it prints goes to stderr."""
    def look(function, args, kwargs, concrete):
        if any(v.trainable for v in concrete._assigned):
            raise _Step(function, args, kwargs)

    before, folder = sys.argv, os.path.dirname(os.path.abspath(path))
    sys.argv = [path, *arguments]
    sys.path.insert(0, folder)
    _core._before_call(look)
    try:
        with contextlib.redirect_stdout(sys.stderr), _whole_batches():
            runpy.run_path(path, run_name="__main__")
    except _Step as step:
        return step.call
    except SystemExit:
        pass
    finally:
        _core._before_call(None)
        sys.argv = before
        sys.path.remove(folder)
    raise errors.StateError(f"plan: '{path}' has no training step", "the command line", "no traced function that it called assigns a trainable Variable",
                            "train by a function under @lm.function, or by fit")


def plan(program, devices, nodes, as_json, out=None):
    """Prints what a step takes on one device and on all. Returns 0."""
    if nodes < 1:
        raise errors.InvalidArgument(f"plan: --nodes {nodes}", "the command line", "there is at least one")
    each, device = _devices(devices)
    _core.distributed.modelled_steps(device, 1, 1, 1.0, [], False)  # the card's name is known
    try:
        function, args, kwargs = first_step(program[0], program[1:])
    except OSError as problem:
        raise errors.BadFile(f"plan: the program cannot be read: {problem.strerror}", f"file '{program[0]}'", "it runs up to its first training step", "write python -m lamina plan --devices 8xH100 train.py") from None
    seen = function.explain(*args, **kwargs, device=device, count=each * nodes, hosts=nodes)
    if as_json:
        print(json.dumps({"function": seen.function, "device": device, "modelled": True} | seen.ranks, indent=1), file=out or sys.stdout)
    else:
        print(f"{program[0]}: the step is '{seen.function}'\n{seen.summary}", file=out or sys.stdout)
    return 0
