"""C code that lm.export_c wrote, compiled and called: in this process, or as a program of its own for sanitizers and other machines."""
import ctypes
import os
import re
import shutil
import subprocess

import numpy as np

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
TYPES = {"float": np.float32, "double": np.float64, "uint8_t": np.uint8, "uint16_t": np.uint16, "uint32_t": np.uint32, "uint64_t": np.uint64, "int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "int64_t": np.int64}


def compiled(compiler, arguments):
    run = subprocess.run([compiler, *STRICT, *map(str, arguments), "-lm"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:4000]


def compilers():
    return [c for c in ("gcc", "clang") if shutil.which(c)]


class Code:
    """One exported folder. functions: {name: [(type, is_output, shape), ...]}, as the header says."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.name = next(f for f in os.listdir(folder) if f.endswith(".h"))[:-2]
        self.source = os.path.join(self.folder, self.name + ".c")
        with open(self.source[:-1] + "h", encoding="utf-8") as f:
            self.header = f.read()
        shapes = re.findall(r"/\* (\w+)\n((?: \*   .*\n)*) \*/\nint (\w+)\((.*)\);", self.header)
        self.functions = {}
        for function, lines, _, parameters in shapes:
            sizes = [[int(n) for n in dims.split(",") if n] for dims in re.findall(r": \w+\[(.*?)\]", lines)]
            own = [(p.replace("const ", "").split(" *")[0], not p.startswith("const ")) for p in parameters.split(", ")[1:]]
            self.functions[function] = [(t, out, tuple(size)) for (t, out), size in zip(own, sizes, strict=True)]
        self.file = b""
        if os.path.exists(self.source[:-1] + "safetensors"):
            with open(self.source[:-1] + "safetensors", "rb") as f:
                self.file = f.read()

    def loaded(self, tmp_path, compiler="gcc", flags=("-O2",)):
        beside = os.path.join(tmp_path, f"{self.name}_size.c")
        with open(beside, "w", encoding="utf-8") as f:
            f.write(f'#include "{self.name}.h"\nsize_t size_of_state(void);\nsize_t size_of_state(void) {{ return sizeof({self.name}); }}\n')
        library = os.path.join(tmp_path, f"{self.name}_{compiler}.so")
        compiled(compiler, [*flags, "-shared", "-fPIC", "-I", self.folder, self.source, beside, "-o", library])
        return Loaded(self, ctypes.CDLL(library))

    def program(self, calls):
        """The text of a C program that makes these calls [(function, inputs)] and prints all results as numbers."""
        lines = [f'#include "{self.name}.h"', "#include <stdio.h>", f"static {self.name} state;", "#define SHOW(x) do { size_t i; for (i = 0; i < sizeof x / sizeof *x; ++i) printf(\"%.17g\\n\", (double)x[i]); } while (0)",
                 "int main(void) {", f"  {self.name}_init(&state);"]
        for n, (function, inputs) in enumerate(calls):
            names, left = [], list(inputs)
            for k, (t, out, shape) in enumerate(self.functions[function]):
                count = int(np.prod(shape, dtype=int))
                names.append(f"b{n}_{k}")
                values = "" if out else " = {" + ", ".join(repr(v) for v in np.ravel(left.pop(0)).tolist()) + "}"
                lines.append(f"  static {t} b{n}_{k}[{count}]{values};".replace("inf", "1e999").replace("True", "1").replace("False", "0"))
            lines.append(f"  if ({self.name}_{function}(&state, {', '.join(names)})) return 1;")
            lines += [f"  SHOW({name});" for name, (_, out, _) in zip(names, self.functions[function]) if out]
        return "\n".join([*lines, "  return 0;", "}", ""])

    def run(self, tmp_path, calls, compiler="gcc", flags=("-O2",), before=()):
        """What the program above prints, compiled by this compiler and run by `before`."""
        main, program = os.path.join(tmp_path, "main.c"), os.path.join(tmp_path, "main")
        with open(main, "w", encoding="utf-8") as f:
            f.write(self.program(calls))
        compiled(compiler, [*flags, "-I", self.folder, main, self.source, "-o", program])
        run = subprocess.run([*before, program], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[:4000]
        return np.array(run.stdout.split(), float)


class Loaded:
    def __init__(self, code, library):
        self.code, self.library = code, library
        library.size_of_state.restype = ctypes.c_size_t
        self.text_of = getattr(library, code.name + "_error")
        self.text_of.restype = ctypes.c_char_p

    def model(self, file=None):
        """A new struct, with the Variables' first values."""
        state = ctypes.create_string_buffer(self.library.size_of_state() + 64)
        state.at = ctypes.c_void_p((ctypes.addressof(state) + 63) // 64 * 64)
        if self.code.file or file is not None:
            file = self.code.file if file is None else file
            state.code = getattr(self.library, self.code.name + "_init")(state.at, file, ctypes.c_size_t(len(file)))
        else:
            getattr(self.library, self.code.name + "_init")(state.at)
        return state

    def call(self, state, function, *inputs):
        """(results, the error's text)."""
        left, arguments, results, kept = list(inputs), [], [], []
        for t, out, shape in self.code.functions[function]:
            array = np.zeros(shape, TYPES[t]) if out else np.array(left.pop(0), TYPES[t], order="C")
            assert array.shape == shape, (array.shape, shape)
            kept.append(array)
            arguments.append(array.ctypes.data_as(ctypes.c_void_p))
            if out:
                results.append(array)
        code = getattr(self.library, f"{self.code.name}_{function}")(state.at, *arguments)
        return results, self.text_of(code).decode()
