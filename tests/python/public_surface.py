"""The public names of Lamina, for tests that call all of them."""
import importlib.util
import types

import lamina as lm

SUBMODULES = ("autograph", "config", "cuda", "data", "distributed", "errors", "fft", "interop", "linalg", "losses", "metrics", "nn", "nn.initializers", "nn.regularizers", "onnx", "optim", "optim.schedules", "profiler", "progress", "random", "summary", "testing", "tree", "xp", "xp.fft", "xp.linalg")
if importlib.util.find_spec("sklearn") is not None:
    SUBMODULES += ("sklearn",)


def namespaces():
    """(path, module, names)."""
    yield "lamina", lm, lm.__all__
    for path in SUBMODULES:
        module = lm
        for part in path.split("."):
            module = getattr(module, part)
        yield f"lamina.{path}", module, getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")])


def callables():
    """(full name, value) of functions and classes, except exceptions."""
    for path, module, names in namespaces():
        for name in names:
            value = getattr(module, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, types.ModuleType):
                if not (isinstance(value, type) and issubclass(value, BaseException)):
                    yield f"{path}.{name}", value
