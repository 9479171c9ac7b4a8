"""``python -m lamina explain``, ``profile`` and ``bench``: plans, timelines and times from the command line."""
from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
import traceback


def program_of(lm, folder):
    """The saved program in a folder."""
    if os.path.isfile(folder):
        can = folder.lower().endswith((".onnx", ".keras"))
        raise lm.errors.BadFile(f"load: {folder} is a file", "the command line", "a saved program is a folder", f"write python -m lamina convert {folder} FOLDER first" if can else "pass the folder that lm.save wrote")
    return lm._core._Module.load(folder)


def meant_of(functions):
    """The function that is meant where no name is given: the only one, or what saved programs and models are called by; None if there is none such."""
    return next(iter(functions)) if len(functions) == 1 else next((name for name in ("serving_default", "call") if name in functions), None)


def function_of(lm, folder, signature):
    """(its name, the first graph of one function of a saved program)."""
    program = program_of(lm, folder)
    functions = program.signatures
    signature = signature or meant_of(functions)
    if signature not in functions:
        what = f"{folder} has {len(functions)} signatures" if signature is None else f"{folder} has no signature '{signature}'"
        raise lm.errors.NotFound(what, "the command line", f"it has {', '.join(functions) or 'none'}", "name one of them with --signature")
    return signature, program.functions[functions[signature]][0][0]


def inputs_of(lm, concrete, batch):
    """Tensors for a graph: random numbers, zeros for integers and bools; `batch` for each open length."""
    if batch < 1:
        raise lm.errors.InvalidArgument(f"a batch of {batch}", "the command line", "it stands for every open length", "pass --batch 1 or more")

    def made(spec):
        shape = [n if isinstance(n, int) else batch for n in spec.shape]
        return lm.random.normal(shape, dtype=spec.dtype) if spec.dtype in (lm.float16, lm.bfloat16, lm.float32, lm.float64) else lm.zeros(shape, dtype=spec.dtype)

    lm.random.set_seed(0)
    return [made(spec) for spec in concrete.inputs]


def explain(lm, given, out):
    name, concrete = function_of(lm, given.folder, given.signature)
    inputs = inputs_of(lm, concrete, given.batch)
    if given.device is None:
        concrete._call(inputs, [])
        plan = concrete.explain()
    else:
        def planned(*tensors):
            return concrete._call(list(tensors), [])

        planned.__name__ = name
        plan = lm.function(planned, autograph=False).explain(*inputs, device=given.device)
    if given.save is not None:
        plan.save(given.save)
    if given.json:
        print(plan.json(), file=out)
    elif given.save is None:
        print(plan, file=out)
    else:
        print(f"wrote {given.save}", file=out)
    return 0


def bench(lm, given, out):
    name, concrete = function_of(lm, given.folder, given.signature)
    inputs = inputs_of(lm, concrete, given.batch)
    if not 0 < given.seconds <= 3600:
        raise lm.errors.InvalidArgument(f"{given.seconds} seconds", "the command line", "more than 0 and at most 3600", "leave out --seconds")

    def call():
        begin = time.perf_counter()
        concrete._call(inputs, [])
        lm.synchronize()
        return (time.perf_counter() - begin) * 1e6

    first = call()  # traces nothing; plans the graph for these shapes
    call()
    times, end = [], time.perf_counter() + given.seconds
    while not times or time.perf_counter() < end:
        times.append(call())
    times.sort()
    figures = {"function": name, "device": str(inputs[0].device) if inputs else lm.config.list_devices("cpu")[0], "threads": lm.config.threads(), "isa": lm.config.cpu_isa(), "batch": given.batch,
               "calls": len(times), "first_us": first, "least_us": times[0], "median_us": times[len(times) // 2], "p99_us": times[min(len(times) - 1, len(times) * 99 // 100)]}
    if given.json:
        print(json.dumps(figures, indent=1), file=out)
    else:
        print(f"{name} on {figures['device']}, {figures['isa']}, {figures['threads']} threads, batch {given.batch}: {len(times)} calls", file=out)
        print(f"least {times[0]:.1f} us, median {figures['median_us']:.1f} us, 99th percentile {figures['p99_us']:.1f} us, first call with its plan {first:.1f} us", file=out)
    return 0


def profile(lm, given, out):
    program = [word for i, word in enumerate(given.program) if i > 0 or word != "--"]
    if not program:
        raise lm.errors.InvalidArgument("profile: there is no program", "the command line", fix="write python -m lamina profile train.py, with its arguments behind it")
    if not os.path.isfile(program[0]):
        raise lm.errors.NotFound(f"profile: there is no program {program[0]}", "the command line", "it is a Python file", "write python -m lamina profile train.py, with its arguments behind it")
    before, status = (sys.argv, sys.path[:]), 0
    with lm.profiler.trace(given.dir, device_steps=given.device_steps) as trace:
        lm.profiler._around = trace  # the program may record parts of itself
        sys.argv, sys.path[0:1] = program, [os.path.dirname(os.path.abspath(program[0]))]
        try:
            runpy.run_path(program[0], run_name="__main__")
            lm.synchronize()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except Exception:  # the program's own: the trace up to there is written too
            traceback.print_exc()
            status = 1
        except KeyboardInterrupt:
            print(f"lamina: {program[0]} was stopped; the trace has what it did until then", file=sys.stderr)
            status = 130
        finally:
            lm.profiler._around, sys.argv, sys.path[:] = None, *before
    print(f"trace: {trace.path}", file=sys.stderr)
    rows = {}
    for one in trace.ranges:
        times = rows.setdefault((one.kind, one.text), [])
        times.append(one.end - one.begin)
    if given.json:
        told = [{"kind": kind, "text": text, "times": len(times), "total_us": sum(times), "least_us": min(times)} for (kind, text), times in rows.items()]
        print(json.dumps({"trace": trace.path, "status": status, "ranges": told}), file=out)
    else:
        print(trace, file=out)
    return status


def add_to(add):
    """Adds the commands; add(name, run, help, example, **more) gives a parser."""
    def of_a_function(one):
        one.add_argument("folder", metavar="FOLDER", help="a saved program, from lm.save")
        one.add_argument("--signature", metavar="NAME", help="which function; by default the only one, serving_default or call")
        one.add_argument("--batch", type=int, default=1, metavar="N", help="what every open length is; by default 1")
        one.add_argument("--json", action="store_true", help="prints the figures as JSON")

    one = add("explain", explain, "shows how a function of a saved program runs: graph, passes, launches and their times", "python -m lamina explain policy --batch 32 --save policy.html")
    of_a_function(one)
    one.add_argument("--device", metavar="DEVICE", help="plans for a device that need not be there, such as null:h100; nothing runs")
    one.add_argument("--save", metavar="FILE", help="writes the page with lanes, search and numbers to FILE.html")
    one = add("bench", bench, "times calls of a function of a saved program, with random inputs", "python -m lamina bench policy --batch 32 --json")
    of_a_function(one)
    one.add_argument("--seconds", type=float, default=2.0, metavar="S", help="how long to call it; by default 2")
    one = add("profile", profile, "runs a Python program and writes its timeline as a Chrome trace", "python -m lamina profile --dir traces train.py --epochs 1",
              "The exit status is the program's. Open the trace at ui.perfetto.dev.")
    one.add_argument("--dir", default="traces", metavar="FOLDER", help="where the trace is written; by default traces")
    one.add_argument("--device-steps", action="store_true", help="also the steps inside of launches on a GPU")
    one.add_argument("--json", action="store_true", help="prints the sums as JSON, behind what the program prints")
    one.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="train.py, and its arguments")
