"""Writes what the fuzz targets begin with into FOLDER/tensors, FOLDER/graphs and FOLDER/programs: python3 tests/fuzz/seeds.py FOLDER

A graph of graphs.txt stands behind a line "== NAME". Saved programs and weights are those that are kept in tests/data.
"""
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}


def headers():
    """Of safetensors files that other programs could have written."""
    yield {}
    every, end = {}, 0
    for name, size in DTYPES.items():
        every[name] = {"dtype": name, "shape": [2, 1], "data_offsets": [end, end + 2 * size]}
        end += 2 * size
    yield every
    yield {"__metadata__": {"format": "pt", "": "\n"}, "é/\"\\": {"dtype": "U8", "shape": [1] * 8, "data_offsets": [0, 1]},
           "empty": {"dtype": "F64", "shape": [3, 0], "data_offsets": [1, 1]}}


def file_of(header, data):
    return struct.pack("<Q", len(header)) + header + data


def tensors():
    for i, header in enumerate(headers()):
        size = max([tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"], default=0)
        yield f"made_{i}", file_of(json.dumps(header).encode(), bytes(i % 2 for i in range(size)))
    for i, path in enumerate(sorted(HERE.parent.glob("data/**/*.safetensors"))):
        yield f"kept_{i}", path.read_bytes()


def graphs():
    for part in (HERE / "graphs.txt").read_text().split("== ")[1:]:
        name, text = part.split("\n", 1)
        yield name, text.encode()


def program(folder):
    """A saved program as the one text that lamina_fuzz_programs takes, with types in place of weights."""
    names = sorted(file.name for file in folder.iterdir() if file.name not in ("checksums.json", "weights.safetensors"))
    files = [f"== {name}\n{(folder / name).read_text().rstrip()}\n" for name in names]
    data = (folder / "weights.safetensors").read_bytes()
    weights = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    types = [f"{name}: {lamina_dtype(t['dtype'])}[{','.join(map(str, t['shape']))}]\n" for name, t in sorted(weights.items()) if name != "__metadata__"]
    return "".join([*files, "== weights\n", *types]).encode()


def lamina_dtype(name):
    return "bool" if name == "BOOL" else name.lower()


def programs():
    for i, path in enumerate(sorted(HERE.parent.glob("data/programs/**/program.json"))):
        yield f"kept_{i}", program(path.parent)
    yield from graphs()


def write(folder):
    for seeds in (tensors, graphs, programs):
        into = pathlib.Path(folder, seeds.__name__)
        into.mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (into / name).write_bytes(content)


if __name__ == "__main__":
    write(sys.argv[1])
