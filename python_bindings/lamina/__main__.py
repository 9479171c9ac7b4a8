"""``python -m lamina``: ``doctor``, which optional software this machine has, and how to install the rest; ``info``, what a saved program has; ``explain``, ``profile`` and
``bench`` (_commands.py); ``convert``, a saved program of an ONNX or .keras file, or an ONNX file of a saved program; ``launch``, a program as several ranks;
``plan``, a model of its training step on several GPUs."""

import argparse
import difflib
import json
import os
import platform
import re
import sys

from lamina import _commands


# What runs if an optional library is missing.
INSTEAD = {"cuBLASLt": "Lamina's own kernels make large matrix products",
           "cuDNN": "Lamina's own kernels make large convolutions"}


def facts(lm):
    """What doctor() prints, as data."""
    available = lm.cuda.is_available()
    settings = {setting["name"] for setting in lm.config.settings()}
    return {"lamina": lm.__version__, "python": platform.python_version(), "machine": platform.machine(),
            "cpu": {"isa": lm.config.cpu_isa(), "features": lm.config.cpu_features(), "threads": lm.config.threads(), "devices": lm.config.list_devices("cpu")},
            "gpu": {"devices": lm.config.list_devices("gpu") if available else [], "why_none": "" if available else lm.cuda.why_unavailable()},
            "profiler": lm.profiler.status(), "attached_by": lm.profiler.attached_by(), "mpi": lm._core.distributed.mpi_report(), "lapack": lm._core.linalg.library(), "launch": launch_of(lm)[0],
            "settings": {name: value for name, value in sorted(os.environ.items()) if name in settings},
            "unknown_settings": [name for name in sorted(os.environ) if name.startswith("LAMINA_") and name not in settings], "libraries": lm.cuda.libraries()}


def launch_of(lm):
    """(what the launchers' variables say, "") or (None, what is wrong with them)."""
    try:
        return lm._core.distributed.launch_report(), ""
    except lm.errors.Error as error:
        return None, str(error)


def doctor(needs=(), out=sys.stdout, as_json=False):
    """Prints what was found, what is needed and where, and the command that installs what is missing; or the same as JSON.

    Returns 0 if everything that a GPU needs is there or there is no GPU, and 1 if there is a GPU and something that it needs is missing, or
    if one of `needs` is: "gpu", or libraries by name.
    """
    import lamina as lm

    def say(text=""):
        if not as_json:
            print(text, file=out)

    say(f"Lamina {lm.__version__}, Python {platform.python_version()}, {platform.machine()}")
    say(f"CPU: {lm.config.cpu_isa()}, {lm.config.threads()} threads; devices: {', '.join(lm.config.list_devices('cpu'))}")
    available = lm.cuda.is_available()
    say(f"GPU: {', '.join(lm.config.list_devices('gpu'))}" if available else f"GPU: none. {lm.cuda.why_unavailable()}")
    say(f"Profiler: {lm.profiler.status()}" + (f"; attached: {lm.profiler.attached_by()}" if lm.profiler.attached() else ""))
    say(f"MPI: {lm._core.distributed.mpi_report()}")
    say(f"LAPACK: {lm._core.linalg.library()}")
    _say_launch(lm, say)
    names = [setting["name"] for setting in lm.config.settings()]
    for name, value in sorted(os.environ.items()):
        if name in names:
            say(f"Setting: {name}={value}")
        elif name.startswith("LAMINA_") and (like := difflib.get_close_matches(name, names, 1)):
            say(f"Setting: {name} is not known; did you mean {like[0]}?")
    libraries = lm.cuda.libraries()
    for library in libraries:
        version = f" {library['version']}" if library["version"] else ""
        if library["found"]:
            say(f"  {library['name']}{version}: found {library['found']}")
            continue
        say(f"  {library['name']}: missing, wanted {library['wanted']}{'' if library['required'] else ' (optional)'}")
        if library["name"] in INSTEAD:
            say(f"    until then {INSTEAD[library['name']]}")
        for tried in library["why"].split("; "):
            say(f"    tried {tried}")
        say(f"    fix: {library['fix']}")
    there = {library["name"] for library in libraries if library["found"]} | ({"gpu"} if available else set())
    absent = [name for name in needs if name not in there]
    if absent:
        say(f"missing, and needed: {', '.join(absent)}")
    if as_json:
        print(json.dumps({**facts(lm), "missing": absent}, indent=1), file=out)
    return 1 if absent or available and any(library["required"] and not library["found"] for library in libraries) else 0


def _say_launch(lm, say):
    """What the launchers' variables say, or what is wrong with them."""
    launch, wrong = launch_of(lm)
    if launch is None:
        say("Launch variables: " + wrong.replace("\n", "\n  "))
        return
    said = f"rank {launch['rank']} of {launch['size']}, by {launch['launcher']}" if launch["mpi"] else "none: one rank"
    say(f"Launch variables: {said}" + (f" ({', '.join(launch['variables'])})" if launch["variables"] else ""))
    if launch["hint"]:
        say(f"  {launch['hint']}")


def _failed(error):
    """Prints an error without the line of Python that ran this file. Returns the exit status: 2 for wrong arguments, 1 for all else."""
    print(re.sub(r"(, at |\n  where:  ?)<frozen runpy>:\d+", "", str(error)), file=sys.stderr)
    import lamina as lm

    return 2 if isinstance(error, lm.errors.InvalidArgument) and error.where.startswith("the command line") else 1


def info(path, out=sys.stdout, as_json=False):
    """Prints the signatures, functions and Variables of a saved program, and how large its files are; or the same as JSON. Returns 0, or 1 when it cannot be loaded."""
    import lamina as lm

    try:
        module = _commands.program_of(lm, path)
    except lm.errors.Error as error:
        return _failed(error)
    sizes = {name: os.path.getsize(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if as_json:
        def specs(names, of):
            return [{"name": name, "shape": [n if isinstance(n, int) else None for n in one.shape], "dtype": str(one.dtype)} for name, one in zip(names, of)]

        functions = {name: [{"inputs": specs(arguments, graph.inputs), "outputs": specs(outputs, graph.outputs)} for graph, arguments, outputs in graphs] for name, graphs in module.functions.items()}
        variables = {name: {"shape": list(v.shape), "dtype": str(v.dtype)} for name, v in module.variables.items()}
        print(json.dumps({"signatures": dict(module.signatures), "functions": functions, "variables": variables, "files": sizes}, indent=1), file=out)
        return 0
    print(str(module), end="", file=out)
    for name, size in sizes.items():
        print(f"file {name}: {size} bytes", file=out)
    return 0


def convert(source, target, signature=None, out=sys.stdout, as_json=False):
    """Writes what the file or folder `source` holds to `target`; the endings of the names say what they are. Returns 0, or the status of what is wrong."""
    import lamina as lm

    try:
        kinds = [next((ending for ending in (".onnx", ".keras") if path.lower().endswith(ending)), "") for path in (source, target)]
        if kinds[1] == ".keras":
            raise lm.errors.InvalidArgument(f"convert: {target} cannot be written", "the command line", "a .keras file is made of layers, not of a graph",
                                            "write it with lm.nn.save_file(model, path)")
        if kinds[0] == kinds[1]:
            raise lm.errors.InvalidArgument(f"convert: {source} and {target} are both {'ONNX files' if kinds[0] else 'saved programs'}, by their names", "the command line",
                                            "a name that ends in .onnx or .keras is such a file, any other a saved program", "copy it, or name the target differently")
        if signature is not None and kinds[0]:
            raise lm.errors.InvalidArgument("convert: --signature is for saved programs", "the command line", f"{source} is one function")
        what = lm.onnx.load(source) if kinds[0] == ".onnx" else lm.nn.load_file(source, compile=False) if kinds[0] else lm.load(source)
        if kinds[1] == ".onnx":
            _to_onnx(lm, what, source, target, signature)
        else:
            lm.save(what, target)
    except lm.errors.Error as error:
        return _failed(error)
    if as_json:
        print(json.dumps({"source": source, "target": target, "bytes": _size(target)}), file=out)
    return 0


def _size(path):
    return os.path.getsize(path) if os.path.isfile(path) else sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def _to_onnx(lm, what, source, target, signature):
    from lamina._program import graphs_of, model_functions

    functions = what.signatures if hasattr(what, "signatures") else model_functions(what)  # of a saved program; of a .keras file
    given, signature = signature, signature or _commands.meant_of(functions)
    if signature not in functions:
        raise lm.errors.NotFound(f"convert: {source} has {len(functions)} signatures" if given is None else f"convert: {source} has no signature '{given}'",
                                 "the command line", f"it has {', '.join(functions) or 'none'}", "name one of them with --signature")
    function = functions[signature]
    lm.onnx.save(function if hasattr(function, "graph_for") else graphs_of(function)[0][0], target)


_CODES = "exit status: 0 done, 1 failed (the error is on stderr), 2 wrong arguments, 130 stopped by Ctrl-C"
_STOPPED, _NOBODY_READS = 130, 141  # as shells say of programs that end by SIGINT and SIGPIPE


def main(arguments):
    """Runs one command. Returns its exit status."""
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as in `... | head`: nothing is to be said, also not by Python at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _NOBODY_READS
    except OSError as error:  # such as a full disk: Python would fail again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"lamina: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lamina: stopped", file=sys.stderr)
        return _STOPPED


def _run(arguments):
    import lamina as lm

    parser = argparse.ArgumentParser("python -m lamina", description="What a machine has of what Lamina can use; saved programs: their functions, plans, times and other files; timelines of programs.",
                                     epilog="python -m lamina COMMAND --help shows a command's options and an example. " + _CODES)
    parser.add_argument("--version", action="version", version=f"lamina {lm.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name, run, help, example, more=""):
        one = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}. {more}".strip(), epilog=f"example: {example}\n{_CODES}", formatter_class=argparse.RawDescriptionHelpFormatter)
        one.set_defaults(run=run)
        return one

    one = add("doctor", lambda lm, given, out: doctor(given.needs, out, given.json), "says what this machine has of what Lamina can use", "python -m lamina doctor --needs gpu cuDNN")
    one.add_argument("--needs", nargs="+", default=[], metavar="NAME", help="what must be there: gpu, cuBLASLt, cuDNN or other libraries by name")
    one.add_argument("--json", action="store_true", help="prints the same as JSON")
    one = add("info", lambda lm, given, out: info(given.folder, out, given.json), "says what a saved program has", "python -m lamina info policy --json")
    one.add_argument("folder", metavar="FOLDER", help="a saved program, from lm.save")
    one.add_argument("--json", action="store_true", help="prints the same as JSON")
    _commands.add_to(add)
    one = add("convert", lambda lm, given, out: convert(given.source, given.target, given.signature, out, given.json),
              "makes a saved program of an ONNX or .keras file, or an ONNX file of a saved program or .keras file", "python -m lamina convert policy.keras policy.onnx",
              "Converts by the endings of the names: .onnx and .keras are files, all else is the folder of a saved program.")
    one.add_argument("source", metavar="SOURCE", help="policy.onnx, policy.keras, or the folder of a saved program")
    one.add_argument("target", metavar="TARGET", help="policy.onnx, or the folder of a saved program; takes the place of the one before")
    one.add_argument("--signature", metavar="NAME", help="which function; by default the only one, serving_default or call")
    one.add_argument("--json", action="store_true", help="prints what was written as JSON")
    one = add("launch", lambda lm, given, out: _launched(given), "starts a program as several ranks, by mpirun or srun", "python -m lamina launch -n 4 train.py --epochs 10",
              "Prints the mpirun or srun command that it runs. The exit status is the job's.")
    one.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="number of processes")
    one.add_argument("--restarts", type=int, default=0, metavar="N", help="how often a failed job is started again; it goes on from its last checkpoint")
    one.add_argument("--json", action="store_true", help="prints what ran, and its status and seconds, as a line of JSON behind what the ranks print")
    one.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="train.py, or any program, and its arguments")
    one = add("plan", lambda lm, given, out: _planned(given, rest), "models a program's training step on one GPU and on several, which need not be there", "python -m lamina plan --devices 8xH100 train.py",
              "Runs the program up to its first training step.")
    one.add_argument("--devices", required=True, metavar="NxGPU", help="GPUs of a host: 8xH100")
    one.add_argument("--nodes", type=int, default=1, metavar="N", help="number of hosts")
    one.add_argument("--json", action="store_true", help="the figures as JSON")
    one.add_argument("program", metavar="PROGRAM", help="train.py; its arguments come after --")
    rest = []
    if arguments[:1] == ["plan"] and "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1:]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands.choices:
        near = difflib.get_close_matches(arguments[0], commands.choices, 1)
        print(f"lamina: there is no command '{arguments[0]}'\n  why:   there are: {', '.join(commands.choices)}\n  fix:   " + (f"did you mean '{near[0]}'?" if near else "python -m lamina --help says what each does"),
              file=sys.stderr)
        return 2
    try:
        given = parser.parse_args(arguments)
    except SystemExit as end:
        return end.code
    try:
        return given.run(lm, given, sys.stdout)
    except lm.errors.Error as error:
        return _failed(error)


def _launched(given):
    from lamina import _launch

    return _launch.launch(given.ranks, given.program, given.restarts, as_json=given.json)


def _planned(given, rest):
    from lamina import _ranks_model

    return _ranks_model.plan([given.program, *rest], given.devices, given.nodes, given.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
