#!/usr/bin/env python3
"""Cycles of a part of a kernel, counted from its SASS without a GPU.

  cycles.py FILE KERNEL [--arch sm_90a] [--way STOP STOP ...] [--part NAME=PLACE ...] [--lines N] [--trace] [--at-most N]

FILE is a cubin, or an object or library with embedded ones (liblamina_cuda.so), built with -lineinfo. Without a way it prints registers, stack,
shared memory, and the static instructions by part and by source line.

A place is FILE:LINE, FILE:FIRST-LAST, FILE:TEXT for the only line with that text, FILE:TEXT..TEXT, or FILE:FUNCTION() for a function's body. It stands
for the instructions of these lines and of everything inlined into them.

A way is the instructions that one warp executes, given by stops in order. A stop is a place, or OPCODE*N@PLACE: N instructions with that opcode, which
gives a loop its trip count however far the compiler unrolled it. Between two stops the way has the fewest instructions, so what is not named is skipped
where the kernel can skip it: waits that are already over, slow paths, loops of length 0. It begins at whichever instruction of the first stop makes it
shortest. A way that ends where it begins is one turn of a loop, and is counted in the second turn. A single place is the way from its first to its last
instruction. Look at --trace before believing a way.

The model. A warp issues in order: an instruction waits for the stall count of the one before it, for the scoreboards in its wait mask, for its unit and, if
it accesses memory, for the queue of its scheduler. Results of unknown latency release their scoreboard after the figures in latencies.py. A taken branch and
a barrier have a fixed cost. With --warps N the same N warps run in step, spread over four schedulers: they share units and the pipe to memory.

Not in the model: what other warps do, waiting for them at barriers, conflicts of register banks and shared memory banks, misses of the instruction cache, L1
hits of global loads (all are L2 hits; --set l2=41 shows the other end), and the bodies of called functions. A load from shared memory of 64 or 128
bits takes 2 or 4 cycles of the pipe; 1 if it is named by --broadcast, one address for all lanes; and half as many if it is named by --halved, where neighbouring
lanes have the same address. So an account compares versions of a kernel; it does not predict times. Encoding and issue follow Jia et al. (arXiv 1804.06826) and Huerta et al. (arXiv 2503.20481).
"""
import argparse
import collections
import heapq
import json
import re
import sys

from disassembler import Missing
from latencies import ASSUMED, latencies
from sass import NO_SCOREBOARD, Cubin, source_lines

Stop = collections.namedtuple("Stop", "instructions times text")  # a visit of one of these indices, so many times
CALLS_COST = 1000  # instructions: a way calls a function only if there is no other
SCHEDULERS = 4
# What an opcode uses: its unit, the figure of the unit's rate, and the figure of its latency. Memory instructions pass the queue and the pipe instead.
OPCODES = {}
for unit, rate, latency, names in (
        ("floats", "rate of floats", None, "FFMA FMUL FADD HFMA2 HADD2 HMUL2"),
        ("floats", "rate of integer products", None, "IMAD IDP"),
        ("doubles", "rate of doubles", "double", "DFMA DMUL DADD DSETP"),
        ("special", "rate of special", "special", "MUFU FCHK I2F F2I F2F I2I FRND POPC FLO BREV"),
        ("products", "rate of others", "product", "HMMA IMMA DMMA BMMA"),
        ("registers", "rate of others", "register", "S2R S2UR CS2R B2R R2B"),
        ("votes", "rate of others", "vote", "VOTE VOTEU R2UR"),
        ("constants", "rate of others", "constant", "LDC ULDC LDCU"),
        ("memory", None, "shared", "LDS LDSM SYNCS ATOMS"),
        ("memory", None, "l2", "LDG LDGSTS"),
        ("memory", None, "generic", "LD"),
        ("memory", None, "l1", "LDL"),
        ("memory", None, "shuffle", "SHFL REDUX MATCH"),
        ("memory", None, "atomic", "ATOM ATOMG"),
        ("memory", None, "store", "STS STSM STG ST STL RED REDG UBLKCP UBLKRED UTMALDG UTMASTG"),
        ("memory", None, "fence", "MEMBAR"),
        (None, None, None, "BAR BRA JMP CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC ENDCOLLECTIVE NOP YIELD NANOSLEEP DEPBAR LDGDEPBAR ERRBAR CGAERRBAR "
                           "CCTL FENCE PMTRIG")):
    OPCODES.update(dict.fromkeys(names.split(), (unit, rate, latency)))


def opcode(x):
    return x.name.split(".")[0]


# --- places ---

def body_of(path, function):
    """First and last line of a function in a C++ source."""
    lines = source_lines(path)
    starts = [n for n, line in enumerate(lines, 1)
              if re.search(rf"[\w>&*]\s+{re.escape(function)}\(", line) and not re.search(r"\breturn\b|;\s*(//.*)?$", line)]
    if len(starts) != 1:
        raise ValueError(f"{path}:{function}(): {len(starts) or 'no'} definitions. Fix: give its lines, FILE:FIRST-LAST")
    depth = 0
    for n in range(starts[0], len(lines) + 1):
        code = lines[n - 1].split("//")[0]
        depth += code.count("{") - code.count("}")
        if depth == 0 and "}" in code:
            return starts[0], n
    return starts[0], len(lines)


def lines_of(place, files):
    """The set of (file, line) of a place; `files` are those of the kernel."""
    name, colon, where = place.partition(":")
    matches = [f for f in files if f == name or f.endswith("/" + name)]
    if not colon or len(matches) != 1:
        raise ValueError(f"{place}: {'no' if not matches else len(matches)} source files of the kernel are named {name}. "
                         f"Fix: FILE:LINE with one of {', '.join(sorted(files))}")
    path = matches[0]
    if found := re.fullmatch(r"(\d+)(?:-(\d+))?", where):
        first, last = int(found[1]), int(found[2] or found[1])
    elif found := re.fullmatch(r"(\w+)\(\)", where):
        first, last = body_of(path, found[1])
    else:
        ends = where.split("..")
        for i, text in enumerate(ends):
            numbers = [n for n, line in enumerate(source_lines(path), 1) if text in line]
            if len(numbers) != 1:
                raise ValueError(f"{place}: {len(numbers) or 'no'} lines of {path} have the text {text!r}. Fix: give a text of one line, or its number")
            ends[i] = numbers[0]
        first, last = ends[0], ends[-1]
    return {(path, n) for n in range(first, last + 1)}


def files_of(code):
    return {path for x in code for path, _ in x.frames}


def is_at(x, lines):
    return any(frame in lines for frame in x.frames)


def stops_of(texts, code):
    """The stops of a way, each PLACE, OPCODE@PLACE or OPCODE*N@PLACE; one place alone stands for its first and its last instruction."""
    files, stops = files_of(code), []
    for text in texts:
        found = re.match(r"(?:([A-Z][A-Z0-9]*)(?:\*([1-9]\d*))?@)?(.+)", text)
        lines = lines_of(found[3], files)
        inside = {i for i, x in enumerate(code) if found[1] in (None, opcode(x)) and is_at(x, lines)}
        if not inside:
            raise ValueError(f"{text}: the kernel has no such instruction. Fix: see its lines without --way")
        stops.append(Stop(inside, int(found[2] or 1), text))
    if len(stops) == 1:
        stops = [Stop({end(stops[0].instructions)}, 1, texts[0]) for end in (min, max)]
    return stops


# --- ways ---

def successors(code, i):
    """Indices of the instructions that may follow instruction i."""
    x = code[i]
    kind = opcode(x)
    after = [i + 1] if i + 1 < len(code) else []
    if kind in ("EXIT", "RET", "BRX", "JMX", "KILL", "BPT"):
        return after if x.guard else []
    if kind in ("BRA", "JMP") and not x.name.startswith(("BRA.DIV", "BRA.CONV")):  # those are for a warp whose lanes have parted
        conditional = x.guard or re.match(r"!?U?P\d", x.operands)
        return (after if conditional else []) + ([x.target] if x.target is not None else [])
    if kind == "CALL" and x.target is not None:
        return (after if x.guard else []) + [x.target]
    return after


def blocks_of(code, begins):
    """Basic blocks: {first: (end, [successors])}; some begin at `begins`."""
    follow = [successors(code, i) for i in range(len(code))]
    begins = {0, *begins} | {j for i, after in enumerate(follow) if after != [i + 1] for j in (*after, i + 1) if j < len(code)}
    begins = sorted(begins)
    return {b: (e, follow[e - 1]) for b, e in zip(begins, [*begins[1:], len(code)])}


def way(code, stops):
    """Indices of the instructions from the first stop to the last, the fewest that pass all stops in order. Raises ValueError if no way does."""
    blocks, last = blocks_of(code, stops[0].instructions), len(stops) - 1
    calls = {i for i, x in enumerate(code) if opcode(x) == "CALL" and x.target is None}
    # A state is a block's first instruction, the stops that lie behind, and the visits of the next one so far.
    queue, before, furthest, pushed = [(0, i, (i, -1, 0), None) for i in sorted(stops[0].instructions)], {}, 0, len(code)
    while queue:
        cost, _, state, came_from = heapq.heappop(queue)
        if state in before:
            continue
        before[state] = came_from
        first, behind, count = state
        end, after = blocks[first]
        for i in range(first, end):
            cost += CALLS_COST if i in calls else 1
            if i in stops[behind + 1].instructions:
                count += 1
                if count == stops[behind + 1].times:
                    behind, count = behind + 1, 0
                    furthest = max(furthest, behind)
                    if behind == last:
                        path = [range(first, i + 1)]
                        while came_from is not None:
                            path.append(range(came_from[0], blocks[came_from[0]][0]))
                            came_from = before[came_from]
                        return [i for part in reversed(path) for i in part]
        for j in after:
            if (j, behind, count) not in before:
                pushed += 1
                heapq.heappush(queue, (cost, pushed, (j, behind, count), state))
    raise ValueError(f"no way through the kernel leads from {stops[furthest].text} to {stops[furthest + 1].text}")


# --- the model ---

def wavefronts(x, broadcast, halved):
    """Cycles for which a warp's memory instruction takes the pipe, without bank conflicts: 128 bytes each."""
    bits = re.search(r"\.(64|128)\b", x.name)
    if not bits or opcode(x) not in ("LDS", "STS", "LDG", "STG", "LD", "ST", "LDGSTS") or is_at(x, broadcast):
        return 1
    return int(bits[1]) // (64 if is_at(x, halved) else 32)


def issue_times(code, path, figures, warps, broadcast, halved=frozenset()):
    """[(cycle, wait, reason, figure)] of the way's instructions: when it issues, how long after the one before, what it waited for, by which figure."""
    cycles = {name: figure.cycles for name, figure in figures.items()}
    slots = -(-warps // SCHEDULERS)
    releases = [[] for _ in range(6)]  # per scoreboard: (cycle, opcode, figure) of each instruction that it counts
    free, queue, pipe, copied = {}, [], 0, 0
    times, ready, reason, figure, last = [], 0, "", None, 0
    for n, i in enumerate(path):
        x = code[i]
        kind = opcode(x)
        unit, rate, latency = OPCODES.get(kind, ("uniform", "rate of others", "vote") if kind.startswith("U") else ("integers", "rate of integers", None))
        latency = "fence of a block" if latency == "fence" and "CTA" in x.name else latency
        now = ready
        waits = [max(releases[b]) for b in range(6) if x.waits >> b & 1 and releases[b]]
        if kind == "DEPBAR" and (counted := re.match(r"SB(\d), (0x[0-9a-f]+|\d+)", x.operands)):
            pending = sorted(releases[int(counted[1])])
            waits += pending[:max(0, len(pending) - int(counted[2], 0))][-1:]
        for cycle, by, of in waits:
            if cycle > now:
                now, reason, figure = cycle, f"result of {by}", of
        if unit == "memory":
            if len(queue) >= cycles["queue length"] and queue[-cycles["queue length"]] > now:
                now, reason, figure = queue[-cycles["queue length"]], "queue of memory instructions", "queue interval"
            leaves = max(now, pipe, queue[-1] + cycles["queue interval"] * slots if queue else 0)
            taken = max(cycles["pipe interval"], wavefronts(x, broadcast, halved)) * warps
            pipe = leaves + taken
            queue.append(leaves)
            done, read = leaves + taken - 1 + cycles[latency], leaves + cycles["operands"]
        else:
            if free.get(unit, 0) > now:
                now, reason, figure = free[unit], f"unit of {unit}", rate
            if unit:
                free[unit] = now + cycles[rate] * slots
            done, read = now + (cycles[latency] if latency else 0), now + cycles["operands"]
        if kind == "LDGSTS":
            copied = max(copied, done)
        if kind == "LDGDEPBAR":
            done, latency, copied = max(copied, now), "l2", 0
        if x.writes != NO_SCOREBOARD:
            releases[x.writes] = [*releases[x.writes][-15:], (done, kind, latency or "register")]
        if x.reads != NO_SCOREBOARD:
            releases[x.reads] = [*releases[x.reads][-15:], (read, f"{kind}'s operands", "operands")]
        times.append((now, now - last, reason if now - last > 1 else "issue", figure if now - last > 1 else None))
        last = now
        ready, reason, figure = now + max(1, x.stall, slots), f"stall of {kind}", None
        if kind == "BAR" and "ARV" not in x.name and now + cycles["barrier"] > ready:
            ready, reason, figure = now + cycles["barrier"] + cycles["barrier per warp"] * warps, "barrier", "barrier"
        if n + 1 < len(path) and path[n + 1] != i + 1 and now + cycles["branch"] > ready:
            ready, reason, figure = now + cycles["branch"], "taken branch", "branch"
    return times


def line_of(x):
    """The innermost source line of an instruction that is the project's."""
    return next((f for f in x.frames if not f[0].startswith("/")), x.frames[0] if x.frames else ("no line", 0))


def part_of(x, parts):
    return next((name for name, lines in parts.items() if is_at(x, lines)), "rest")


def static_account(code, parts):
    """The instructions of a kernel: how many, by opcode, by source line and by part."""
    return {"instructions": len(code), "by opcode": collections.Counter(map(opcode, code)), "by line": collections.Counter(map(line_of, code)),
            "by part": collections.Counter(part_of(x, parts) for x in code)}


def account(code, path, figures, *, parts=None, warps=1, broadcast=frozenset(), halved=frozenset()):
    """The cycles of a way from the issue of its first instruction to that of its last, and the instructions after the first: by source line, part, reason."""
    turns = 2 if path[0] == path[-1] else 1
    walked = path + path[1:] * (turns - 1)
    times = issue_times(code, walked, figures, warps, broadcast, halved)
    found = {"cycles": times[-1][0] - times[-len(path)][0], "instructions": len(path) - 1, "assumed": 0, "trace": []}
    tables = {name: collections.Counter() for name in ("by line", "by part", "by reason", "by opcode", "instructions by part")}
    for i, (cycle, wait, reason, figure) in list(zip(walked, times))[1 - len(path):]:
        x, part = code[i], part_of(code[i], parts or {})
        tables["by line"][line_of(x)] += wait
        tables["by part"][part] += wait
        tables["by reason"][reason] += wait
        tables["by opcode"][opcode(x)] += 1
        tables["instructions by part"][part] += 1
        if figure and figures[figure].source == ASSUMED:
            found["assumed"] += wait
        found["trace"].append((cycle - times[-len(path)][0], wait, reason, x))
    return {**found, **tables}


# --- the program ---

def by_line(table, most, unit):
    """The rows of a table of source lines, largest first."""
    def text(path, line):
        lines = source_lines(path)
        return lines[line - 1].strip()[:100] if 0 < line <= len(lines) else ""

    rows = sorted(table.items(), key=lambda row: (-row[1], row[0]))
    rest = sum(n for _, n in rows[most:])
    return [*(f"  {n:6d} {unit}  {path.rsplit('/', 1)[-1]}:{line:<4d} {text(path, line)}" for (path, line), n in rows[:most]),
            *([f"  {rest:6d} {unit}  other lines"] if rest else [])]


def said(found, lines):
    """An account as text, with so many source lines."""
    opcodes = ", ".join(f"{name} {n}" for name, n in found["by opcode"].most_common(8))
    if "cycles" in found:
        rows = [f"{found['cycles']} cycles, {found['instructions']} instructions: {opcodes}", f"{found['assumed']} of the cycles are waits of assumed length",
                *(f"  {n:6d} cycles  {reason}" for reason, n in found["by reason"].most_common(10)), "by part:",
                *(f"  {n:6d} cycles  {found['instructions by part'][part]:5d} instructions  {part}" for part, n in found["by part"].most_common())]
    else:
        rows = [f"{found['instructions']} instructions: {opcodes}", *(f"  {n:6d} instructions  {part}" for part, n in found["by part"].most_common())]
    return "\n".join(rows + (["by source line:", *by_line(found["by line"], lines, "cycles" if "cycles" in found else "instructions")] if lines else []))


def places(parts, code):
    """{name: lines} of texts NAME=PLACE, or PLACE alone, its own name."""
    files = files_of(code)
    return {name: lines_of(place or name, files) for name, _, place in (part.partition("=") for part in parts)}


def count(cubin, stops, *, parts=(), warps=1, broadcast=(), halved=(), changes=()):
    """The account of a way of a Cubin. stops, parts ("NAME=PLACE"), broadcast and halved (places) are texts as on the command line. Raises ValueError for those that
    do not fit the kernel."""
    figures = latencies(cubin.architecture, changes)
    if figures is None:
        raise ValueError(f"{cubin.architecture}: its latencies have no published source, so cycles cannot be counted. "
                         "Fix: leave the way out, or take sm_80 or sm_90a")
    path = way(cubin.code, stops_of(stops, cubin.code))
    lines = [set().union(*places(texts, cubin.code).values()) for texts in (broadcast, halved)]
    return account(cubin.code, path, figures, parts=places(parts, cubin.code), warps=warps, broadcast=lines[0], halved=lines[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("kernel", help="its symbol, or its name without namespaces")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--way", nargs="+", metavar="STOP")
    parser.add_argument("--part", nargs="+", default=[], metavar="NAME=PLACE", help="an instruction belongs to the first part that has it")
    parser.add_argument("--warps", type=int, default=1)
    parser.add_argument("--broadcast", nargs="+", default=[], metavar="PLACE")
    parser.add_argument("--halved", nargs="+", default=[], metavar="PLACE")
    parser.add_argument("--set", nargs="+", default=[], metavar="FIGURE=CYCLES")
    parser.add_argument("--lines", type=int, default=20, help="rows of the table of source lines")
    parser.add_argument("--trace", action="store_true", help="every instruction of the way: its cycle, its wait and the reason")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--at-most", type=int, metavar="N", help="fail if there are more cycles; without a way, more instructions")
    given = parser.parse_args()
    try:
        cubin = Cubin(given.file, given.kernel, given.arch)
        if given.way:
            found = count(cubin, given.way, parts=given.part, warps=given.warps, broadcast=given.broadcast, halved=given.halved, changes=given.set)
        else:
            found = static_account(cubin.code, places(given.part, cubin.code))
    except (ValueError, Missing) as problem:
        sys.exit(f"cycles.py: {problem}")
    for cycle, wait, reason, x in found.pop("trace", []) if given.trace else []:
        print(f"{cycle:6d} {wait:+5d} {reason:30.30s} {x.address:5x} {line_of(x)[0].rsplit('/', 1)[-1]}:{line_of(x)[1]:<4d} {x.guard} {x.name} {x.operands}")
    if given.json:
        found.pop("trace", None)
        by_line_text = {f"{path}:{line}": n for (path, line), n in found.pop("by line").items()}
        print(json.dumps({"kernel": cubin.symbol, "architecture": given.arch, **cubin.resources, **found, "by line": by_line_text}))
    else:
        sizes = cubin.resources
        print(f"{given.kernel}, {given.arch}: {sizes['registers']} registers, {sizes['stack']} bytes of stack, {sizes['shared']} of static shared memory")
        print(said(found, given.lines))
    total = found.get("cycles", found["instructions"])
    if given.at_most is not None and total > given.at_most:
        sys.exit(f"cycles.py: {total} are more than {given.at_most}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
