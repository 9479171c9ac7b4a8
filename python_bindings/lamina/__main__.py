"""``python -m lamina doctor``: which optional software this machine has, and how to install the rest. ``info``: what a saved program has. ``convert``:
a saved program of an ONNX or .keras file, or an ONNX file of a saved program. ``launch``: starts a program as several ranks."""

import argparse
import difflib
import os
import platform
import re
import sys


# What runs if an optional library is missing.
INSTEAD = {"cuBLASLt": "Lamina's own kernels make large matrix products",
           "cuDNN": "Lamina's own kernels make large convolutions, pooling and batch normalisation"}


def doctor(needs=(), out=sys.stdout):
    """Prints what was found, what is needed and where, and the command that installs what is missing.

    Returns 0 if everything that a GPU needs is there or there is no GPU, and 1 if there is a GPU and something that it needs is missing, or
    if one of `needs` is: "gpu", or libraries by name.
    """
    import lamina as lm

    def say(text=""):
        print(text, file=out)

    say(f"Lamina {lm.__version__}, Python {platform.python_version()}, {platform.machine()}")
    say(f"CPU: {lm.config.cpu_isa()}, {lm.config.threads()} threads; devices: {', '.join(lm.config.list_devices('cpu'))}")
    available = lm.cuda.is_available()
    say(f"GPU: {', '.join(lm.config.list_devices('gpu'))}" if available else f"GPU: none. {lm.cuda.why_unavailable()}")
    say(f"Profiler: {lm.profiler.status()}" + (f"; attached: {lm.profiler.attached_by()}" if lm.profiler.attached() else ""))
    say(f"MPI: {lm._core.distributed.mpi_report()}")
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
    return 1 if absent or available and any(library["required"] and not library["found"] for library in libraries) else 0


def _say_launch(lm, say):
    """What the launchers' variables say, or what is wrong with them."""
    try:
        launch = lm._core.distributed.launch_report()
    except lm.errors.Error as error:
        say("Launch variables: " + str(error).replace("\n", "\n  "))
        return
    said = f"rank {launch['rank']} of {launch['size']}, by {launch['launcher']}" if launch["mpi"] else "none: one rank"
    say(f"Launch variables: {said}" + (f" ({', '.join(launch['variables'])})" if launch["variables"] else ""))
    if launch["hint"]:
        say(f"  {launch['hint']}")


def _failed(error):
    """Prints an error without the line of Python that ran this file. Returns 1."""
    print(re.sub(r"(, at |\n  where:  ?)<frozen runpy>:\d+", "", str(error)), file=sys.stderr)
    return 1


def info(path, out=sys.stdout):
    """Prints the signatures, functions and Variables of a saved program, and how large its files are. Returns 0, or 1 when it cannot be loaded."""
    import lamina as lm

    try:
        module = lm._core._Module.load(path)
    except lm.errors.Error as error:
        return _failed(error)
    print(str(module), end="", file=out)
    for name in sorted(os.listdir(path)):
        print(f"file {name}: {os.path.getsize(os.path.join(path, name))} bytes", file=out)
    return 0


def convert(source, target, signature=None):
    """Writes what the file or folder `source` holds to `target`; the endings of the names say what they are. Returns 0, or 1 when that cannot be done."""
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
    return 0


def _to_onnx(lm, what, source, target, signature):
    from lamina._program import graphs_of, model_functions

    functions = what.signatures if hasattr(what, "signatures") else model_functions(what)  # of a saved program; of a .keras file
    if signature is None and len(functions) != 1 or signature is not None and signature not in functions:
        raise lm.errors.NotFound(f"convert: {source} has {len(functions)} signatures" if signature is None else f"convert: {source} has no signature '{signature}'",
                                 "the command line", f"it has {', '.join(functions) or 'none'}", "name one of them with --signature")
    function = functions[signature] if signature is not None else next(iter(functions.values()))
    lm.onnx.save(function if hasattr(function, "graph_for") else graphs_of(function)[0][0], target)


def main(arguments):
    parser = argparse.ArgumentParser("python -m lamina", description="What a machine has of what Lamina can use, what a saved program has, and other files of it.")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("doctor", help="says what this machine has of what Lamina can use")
    add.add_argument("--needs", nargs="+", default=[], metavar="NAME", help="what must be there: gpu, cuBLASLt, cuDNN or other libraries by name")
    add = commands.add_parser("info", help="says what a saved program has")
    add.add_argument("folder", metavar="FOLDER")
    add = commands.add_parser("convert", help="makes a saved program of an ONNX or .keras file, or an ONNX file of a saved program or .keras file",
                              description="Converts by the endings of the names: .onnx and .keras are files, all else is the folder of a saved program.")
    add.add_argument("source", metavar="SOURCE", help="policy.onnx, policy.keras, or the folder of a saved program")
    add.add_argument("target", metavar="TARGET", help="policy.onnx, or the folder of a saved program; takes the place of the one before")
    add.add_argument("--signature", metavar="NAME", help="which function, of a saved program that has several")
    add = commands.add_parser("launch", help="starts a program as several ranks, by mpirun or srun",
                              description="Prints the mpirun or srun command that it runs. The exit status is the job's.")
    add.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="number of processes")
    add.add_argument("--restarts", type=int, default=0, metavar="N", help="how often a failed job is started again; it goes on from its last checkpoint")
    add.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="train.py, or any program, and its arguments")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as end:
        return end.code
    if given.command == "doctor":
        return doctor(given.needs)
    if given.command == "launch":
        import lamina as lm
        from lamina import _launch

        try:
            return _launch.launch(given.ranks, given.program, given.restarts)
        except lm.errors.Error as error:
            return _failed(error)
    return info(given.folder) if given.command == "info" else convert(given.source, given.target, given.signature)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
