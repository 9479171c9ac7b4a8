"""SASS, the machine code of NVIDIA's GPUs, as nvdisasm prints it: instructions with their control codes and source lines.

An instruction has 128 bits. Bits 105 to 125 are its control code, which the compiler writes for the issue logic (Jia et al. 2018, arXiv 1804.06826):

  105-108  stall: cycles until the warp may issue its next instruction
  109      yield: whether the scheduler may prefer another warp
  110-112  the scoreboard released when the result is written, 7: none
  113-115  the scoreboard released when the operands have been read, 7: none
  116-121  one bit per scoreboard to wait for before issue

Scoreboards are the six counters of a warp for instructions whose latency the compiler does not know.
"""
import collections
import functools
import glob
import os
import re
import subprocess
import tempfile

from disassembler import tools
from line_table import line_rows, section_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_SCOREBOARD = 7

# address: bytes from the start of the section. name: mnemonic with modifiers. guard: its predicate, "" if none. target: index of a branch's target,
# or None. A call of a function has none; ptxas also writes jumps as calls of a label.
# frames: (file, line) of the code, then of each function it was inlined into, outermost last.
Instruction = collections.namedtuple("Instruction", "address guard name operands stall writes reads waits frames target")

SECTION = re.compile(r"\s*\.section\s+\.text\.([^\s,]+)")
LABEL = re.compile(r"\s*(\.L_x?_?\w+):\s*$")
SOURCE = re.compile(r'//## File "([^"]+)", line (\d+)(?: inlined at "([^"]+)", line (\d+))?')
LOW_HALF = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
HIGH_HALF = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
TARGET = re.compile(r"`\((\.L_x?_?\w+)\)")


class Unreadable(ValueError):
    """The input is not what was asked for; the text says what, where and how to go on."""


@functools.lru_cache(maxsize=None)
def in_tree(path):
    """The path of a source relative to the project, however the compiler was given it; a path outside stays as it is."""
    parts = os.path.normpath(path).strip("/").split("/")
    for i in range(len(parts)):
        inside = "/".join(parts[i:])
        if os.path.isfile(os.path.join(ROOT, inside)):
            return inside
    return path


@functools.lru_cache(maxsize=None)
def source_lines(path):
    """The lines of a source file; none if it cannot be read."""
    try:
        with open(os.path.join(ROOT, path), errors="replace") as f:
            return f.read().splitlines()
    except OSError:
        return []


def decode(high):
    """stall, writes, reads and waits of an instruction's upper 64 bits."""
    return high >> 41 & 15, high >> 46 & 7, high >> 49 & 7, high >> 52 & 63


def parse(text):
    """{kernel: [Instruction]} of nvdisasm's text (options -c -gi -hex)."""
    kernels, code, labels, targets = {}, None, {}, []
    frames, first_of_chain, low = (), True, None

    def finish():
        for index, label in targets:
            if label not in labels:
                raise Unreadable(f"nvdisasm's text: instruction {code[index].address:#x} jumps to {label}, which has no place. "
                                 "Fix: give the text of a whole kernel")
            code[index] = code[index]._replace(target=labels[label])

    for line in text.splitlines():
        if found := SECTION.match(line):
            if code is not None:
                finish()
            code = kernels.setdefault(found[1], [])
            labels, targets, frames, first_of_chain = {}, [], (), True
        elif code is None:
            continue
        elif found := SOURCE.search(line):
            here = (in_tree(found[1]), int(found[2]))
            frames = (here,) if first_of_chain else frames if here == frames[-1] else (*frames, here)
            if found[3]:
                frames = (*frames, (in_tree(found[3]), int(found[4])))
            first_of_chain = False
        elif found := LABEL.match(line):
            labels[found[1]] = len(code)
        elif found := LOW_HALF.match(line):
            low = int(found[1], 16), found[2]
        elif low and (found := HIGH_HALF.match(line)):
            address, words = low
            guard, words = words.split(None, 1) if words.startswith("@") else ("", words)
            name, _, operands = words.partition(" ")
            if (target := TARGET.search(operands)) and not name.startswith("RET"):
                targets.append((len(code), target[1]))
            code.append(Instruction(address, guard, name, operands.strip(), *decode(int(found[1], 16)), frames, None))
            low, first_of_chain = None, True
    if code is not None:
        finish()
    return kernels


def frames_by_address(rows):
    """{address: frames} of a sequence of rows. A row that repeats the one before has no number of its own: ptxas numbers them so, while nvdisasm counts each,
    and gives wrong callers after the first such row."""
    numbered = [row for row, before in zip(rows, [None, *rows]) if row != before]
    frames = {}
    for row in numbered:
        chain = [row]
        while call := chain[-1][3]:
            chain.append(numbered[call - 1])
        frames[row[0]] = tuple((in_tree(file), line) for _, file, line, _ in chain)
    return frames


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unreadable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def is_named(mangled, kernel):
    """Whether `kernel` is the symbol, or the last identifier of its qualified name."""
    return mangled == kernel or re.search(rf"(?<!\d){len(kernel)}{kernel}(?![a-z0-9_])", mangled) is not None


class Cubin:
    """The cubin for one architecture that has the kernel. `file`: a cubin, or an object, library or program with embedded ones.

    Raises Unreadable if there is none or several, disassembler.Missing without nvdisasm and cuobjdump.
    """

    def __init__(self, file, kernel, architecture):
        if not os.path.isfile(file):
            raise Unreadable(f"{file}: there is no such file. Fix: build it first")
        self.architecture = architecture
        with tempfile.TemporaryDirectory() as folder:
            cubins, known = [file], []
            if not file.endswith(".cubin"):
                done = subprocess.run([tools()[1], "-xelf", f".{architecture}.", os.path.abspath(file)], cwd=folder, capture_output=True, text=True)
                cubins = sorted(glob.glob(os.path.join(folder, "*.cubin")))
                if not cubins:
                    raise Unreadable(f"{file}: has no code for {architecture}: {(done.stderr or done.stdout).strip()[-200:]} "
                                     "Fix: cuobjdump --list-elf prints what it has")
            matches = []
            for cubin in cubins:
                with open(cubin, "rb") as f:
                    image = f.read()
                names = {name.decode() for name in re.findall(rb"\0\.text\.([\w$]+)", image)}
                known += names
                matches += [(cubin, name, image) for name in names if is_named(name, kernel)]
            if len(matches) != 1:
                what = "no kernel" if not matches else f"{len(matches)} kernels"
                symbols = sorted(name for _, name, _ in matches) or sorted(set(known))[:40]
                raise Unreadable(f"{file}: {what} named {kernel} for {architecture}. Fix: give one of these symbols: {' '.join(symbols)}")
            cubin, self.symbol, image = matches[0]
            release = re.search(rb"Cuda compilation tools, release ([\d.]+)", image)
            self.toolkit = release[1].decode() if release else "unknown"
            self.resources = resources(output_of(tools()[1], "--dump-resource-usage", cubin), self.symbol)
            self.code = parse(output_of(tools()[0], "-c", "-gi", "-hex", cubin))[self.symbol]
            sequences = line_rows(section_of(image, ".debug_line"))
            if len(sequences) == 1:
                frames, here = frames_by_address(sequences[0]), ()
                for i, x in enumerate(self.code):
                    here = frames.get(x.address, here)
                    self.code[i] = x._replace(frames=here)


def resources(text, symbol):
    """Registers per thread; stack and static shared memory in bytes. A spill lies in the stack, and so do arrays indexed at run time."""
    found = re.search(rf"Function {re.escape(symbol)}:\s*(.*)", text)
    if found is None:
        raise Unreadable(f"cuobjdump --dump-resource-usage says nothing about {symbol}")
    words = dict(word.split(":") for word in found[1].split())
    return {"registers": int(words["REG"]), "stack": int(words["STACK"]), "shared": int(words["SHARED"]), "local": int(words["LOCAL"])}
