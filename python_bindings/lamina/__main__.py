"""``python -m lamina doctor``: which optional software this machine has, and how to install the rest. ``info``: what a saved program has."""

import difflib
import os
import platform
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


def info(path, out=sys.stdout):
    """Prints the signatures, functions and Variables of a saved program, and how large its files are. Returns 0, or 1 when it cannot be loaded."""
    import lamina as lm

    try:
        module = lm._core._Module.load(path)
    except lm.errors.Error as error:
        print(error, file=sys.stderr)
        return 1
    print(str(module), end="", file=out)
    for name in sorted(os.listdir(path)):
        print(f"file {name}: {os.path.getsize(os.path.join(path, name))} bytes", file=out)
    return 0


def main(arguments):
    if arguments[:1] == ["info"] and len(arguments) == 2:
        return info(arguments[1])
    if arguments[:1] == ["doctor"] and (len(arguments) == 1 or arguments[1] == "--needs"):
        return doctor(arguments[2:])
    print("usage: python -m lamina doctor [--needs gpu cuBLASLt cuDNN]    says what this machine has of what Lamina can use\n"
          "       python -m lamina info FOLDER                              what a saved program has", file=sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
