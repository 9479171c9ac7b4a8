"""perf/gpu/cycles.py: the reading of SASS, the ways through it and the model of issue, on texts made here and on kernels whose cycles are known."""
import os
import random
import subprocess
import sys

import pytest
from built import ROOT
from test_section_kernel import needs_nvcc, NVCC

sys.path.append(os.path.join(ROOT, "perf", "gpu"))
import cycles  # noqa: E402
import line_table  # noqa: E402
import sass  # noqa: E402
from cycles import account, stops_of, way  # noqa: E402
from disassembler import Missing, tools  # noqa: E402
from latencies import ARCHITECTURES, ASSUMED, latencies  # noqa: E402

FIGURES = latencies("sm_90a")
CYCLES = {name: figure.cycles for name, figure in FIGURES.items()}
KNOWN = "tests/data/sass/known.cu"


@pytest.fixture(scope="module")
def disassembler():
    try:
        return tools()
    except Missing as reason:
        pytest.skip(str(reason))


def row(text, stall=1, writes=7, reads=7, waits=(), line=1, inlined=()):
    """An instruction and its control code; `line` of file a.cu, `inlined`: the lines of b.cu, c.cu, ... that it was inlined into."""
    return text, stall, writes, reads, sum(1 << b for b in waits), line, inlined


def listing(*rows, kernel="k"):
    """nvdisasm's text of a kernel; a row that is a string is a label."""
    lines, address = [f'\t.section\t.text.{kernel},"ax",@progbits'], 0
    for r in rows:
        if isinstance(r, str):
            lines.append(f"{r}:")
            continue
        text, stall, writes, reads, waits, line, inlined = r
        chain = [("a.cu", line), *zip(("b.cu", "c.cu", "d.cu"), inlined)]
        for (path, n), outer in zip(chain, [*chain[1:], None]):
            lines.append(f'\t//## File "{path}", line {n}' + (f' inlined at "{outer[0]}", line {outer[1]}' if outer else ""))
        high = stall << 41 | writes << 46 | reads << 49 | waits << 52
        lines += [f"        /*{address:04x}*/      {text} ;     /* 0x{address:016x} */", f"             /* 0x{high:016x} */"]
        address += 16
    return "\n".join(lines)


def code_of(*rows):
    return sass.parse(listing(*rows))["k"]


def counted(code, *stops, **options):
    return account(code, way(code, stops_of(stops, code)), FIGURES, **options)


def starts(code, **options):
    """Cycle at which each instruction of straight code issues."""
    times = cycles.issue_times(code, list(range(len(code))), FIGURES, options.get("warps", 1), *(options.get(kind, frozenset()) for kind in ("broadcast", "halved")))
    return [cycle for cycle, _, _, _ in times]


# --- reading ---

def test_control_codes_are_read():
    codes = [(stall, writes, reads, 1 << bit) for stall in range(16) for writes in range(8) for reads in range(8) for bit in range(6)]
    code = code_of(*((f"FFMA R{i % 99}, R1, R2, R3", stall, writes, reads, waits, 1, ()) for i, (stall, writes, reads, waits) in enumerate(codes)))
    assert [(x.stall, x.writes, x.reads, x.waits) for x in code] == codes


def test_guards_names_operands_targets_and_inlined_lines_are_read():
    code = code_of(row("MOV R0, 0x1", line=5, inlined=(6, 7)), ".L_x_3", row("@!P0 BRA `(.L_x_9)", line=5, inlined=(6, 7)),
                   row("LDS.128 R4, [R2+0x10]", line=8), ".L_x_9", row("EXIT", line=9, inlined=(2,)))
    assert [(x.address, x.guard, x.name, x.operands, x.target) for x in code] == [
        (0, "", "MOV", "R0, 0x1", None), (16, "@!P0", "BRA", "`(.L_x_9)", 3), (32, "", "LDS.128", "R4, [R2+0x10]", None), (48, "", "EXIT", "", None)]
    assert [x.frames for x in code] == [(("a.cu", 5), ("b.cu", 6), ("c.cu", 7))] * 2 + [(("a.cu", 8),), (("a.cu", 9), ("b.cu", 2))]


def test_kernels_of_one_text_are_told_apart_and_a_label_without_a_place_is_an_error():
    kernels = sass.parse(listing(".L_x_0", row("BRA `(.L_x_0)"), kernel="one") + "\n" + listing(row("EXIT"), ".L_x_0", row("BRA `(.L_x_0)"), kernel="two"))
    assert {name: [x.target for x in code] for name, code in kernels.items()} == {"one": [0], "two": [None, 1]}
    with pytest.raises(sass.Unreadable, match="instruction 0x0 jumps to .L_x_7, which has no place. Fix: give the text of a whole kernel"):
        code_of(row("BRA `(.L_x_7)"))


def test_a_repeated_row_of_a_line_table_has_no_number_of_its_own():
    row = lambda address, line, call: (address, "x.cu", line, call)
    frames = sass.frames_by_address([row(0, 1, 0), row(0, 1, 0), row(16, 2, 0), row(16, 3, 2), row(32, 4, 3)])
    assert frames == {0: (("x.cu", 1),), 16: (("x.cu", 3), ("x.cu", 2)), 32: (("x.cu", 4), ("x.cu", 3), ("x.cu", 2))}


@needs_nvcc
def test_a_line_table_has_the_lines_that_nvdisasm_prints(known, disassembler):
    """For known.cu, whose kernels are sequences of their own."""
    with open(known["sm_90a"], "rb") as f:
        sequences = line_table.line_rows(line_table.section_of(f.read(), ".debug_line"))
    lines = {line for rows in sequences for _, file, line, _ in rows if file.endswith("known.cu")}
    wanted = {n for n, text in enumerate(sass.source_lines(KNOWN), 1) if "__shfl_xor_sync" in text or "__fmaf_rn(v, a, b)" in text}
    assert len(sequences) > 5 and wanted and wanted <= lines


def test_a_text_of_nvdisasm_is_read_and_counted():
    """tests/data/sass/chain_of_shuffles.txt: nvdisasm's text of that kernel of known.cu for sm_90a."""
    with open(os.path.join(ROOT, "tests/data/sass/chain_of_shuffles.txt")) as f:
        code = sass.parse(f.read())["chain_of_shuffles"]
    line = next(n for n, text in enumerate(sass.source_lines(KNOWN), 1) if "__shfl_xor_sync" in text)
    assert sum(cycles.opcode(x) == "SHFL" and (KNOWN, line) in x.frames for x in code) == 16
    found = counted(code, "SHFL@known.cu:__shfl_xor_sync", "SHFL*16@known.cu:__shfl_xor_sync")
    assert found["by opcode"]["SHFL"] == 16 and found["cycles"] == 16 * CYCLES["shuffle"]
    assert set(cycles.static_account(code, {"loop": {(KNOWN, line)}})["by part"]) == {"loop", "rest"}


def test_names_of_kernels():
    mangled = "_ZN6lamina7kernels4cuda14section_kernelENS1_8resident9ArgumentsE"
    assert sass.is_named(mangled, "section_kernel") and sass.is_named("plain", "plain")
    others = (mangled, "section"), (mangled, "kernel"), ("_Z14section_kernel_and_more", "section_kernel"), ("_ZN114section_kernelE", "section_kernel")
    for symbol, name in others:
        assert not sass.is_named(symbol, name)


# --- the model ---

def test_stalls_add_up():
    draw = random.Random(3)
    for _ in range(50):
        stalls = [draw.randrange(16) for _ in range(30)]
        assert starts(code_of(*(row("FADD R0, R1, R2", stall) for stall in stalls))) == [sum(max(1, s) for s in stalls[:n]) for n in range(30)]


@pytest.mark.parametrize("name, figure", [("LDS R0, [R1]", "shared"), ("LDG.E R0, [R2.64]", "l2"), ("LDL R0, [R1]", "l1"),
                                          ("SHFL.IDX PT, R0, R1, R2, 0x1f", "shuffle"),
                                          ("MUFU.RCP R0, R1", "special"), ("LDC R0, c[0x0][0x28]", "constant"), ("S2R R0, SR_TID.X", "register")])
def test_a_result_is_waited_for_by_the_first_instruction_that_names_its_scoreboard(name, figure):
    """Whatever issues between costs nothing, until it takes longer than the result."""
    for between in (0, 5, 100, 400):
        code = code_of(row(name, writes=2), *(row("FADD R4, R5, R6") for _ in range(between)), row("FADD R7, R0, R0", waits=[2]))
        assert starts(code)[-1] == max(CYCLES[figure], between + 1)


def test_the_wait_mask_takes_the_latest_of_its_scoreboards():
    loads = [row("LDS R0, [R1]", writes=0), row("LDG.E R2, [R4.64]", writes=1), row("S2R R3, SR_TID.X", writes=5)]
    at = starts(code_of(*loads))
    ends = {0: at[0] + CYCLES["shared"], 1: CYCLES["queue interval"] + CYCLES["l2"], 5: at[2] + CYCLES["register"]}
    for waits in ([0], [1], [5], [0, 5], [0, 1, 5], []):
        assert starts(code_of(*loads, row("FADD R6, R6, R6", waits=waits)))[-1] == max([at[2] + 1, *(ends[b] for b in waits)])


def test_groups_of_asynchronous_copies_are_waited_for_all_but_the_newest():
    group = [row("LDGSTS.E [R1], [R2.64]"), row("LDGDEPBAR", writes=0)]
    for kept in range(3):
        code = code_of(*group, row("FADD R0, R0, R0", 15), *group, row("FADD R0, R0, R0", 15), *group, row(f"DEPBAR.LE SB0, 0x{kept}"), row("FADD R0, R0, R0"))
        at = starts(code)
        assert at[-2] == at[[0, 3, 6][2 - kept]] + CYCLES["l2"]


def test_memory_instructions_fill_a_queue_that_takes_one_in_four_cycles():
    """They issue as long as fewer than the queue's length have not left it."""
    at = starts(code_of(*(row("LDS R0, [R1]") for _ in range(20))))
    interval, length = CYCLES["queue interval"], CYCLES["queue length"]
    waiting = [[sum(interval * j > cycle for j in range(n)) for cycle in range(at[n] + 1)] for n in range(20)]
    assert at[0] == 0 and all(waiting[n][at[n]] < length for n in range(20))
    assert all(waiting[n][at[n] - 1] == length for n in range(1, 20) if at[n] > at[n - 1] + 1) and at[19] - at[18] == interval


@pytest.mark.parametrize("architecture, name, rate", [("sm_90a", "FFMA", 1), ("sm_80", "FFMA", 2), ("sm_90a", "IADD3", 2), ("sm_90a", "MUFU.EX2", 8),
                                                      ("sm_80", "DFMA", 4)])
def test_a_unit_takes_instructions_at_its_rate_and_warps_share_it(architecture, name, rate):
    code = code_of(*(row(f"{name} R0, R0, R0") for _ in range(10)))
    for warps, shares in ((1, 1), (4, 1), (5, 2), (8, 2)):
        times = cycles.issue_times(code, list(range(10)), latencies(architecture), warps, frozenset())
        assert times[-1][0] == 9 * rate * shares


def test_wide_shared_loads_take_the_pipe_for_128_bytes_a_cycle_unless_lanes_have_one_address():
    code = code_of(*(row("LDS.128 R0, [R4]", line=7) for _ in range(40)), row("LDS R0, [R4]", writes=0), row("FADD R0, R0, R0", waits=[0]))
    each = {warps: (starts(code, warps=warps)[38] - starts(code, warps=warps)[28]) / 10 for warps in (1, 2, 4, 8)}
    assert each == {1: 4, 2: 8, 4: 16, 8: 32}
    alike = frozenset({("a.cu", 7)})
    assert [(starts(code, warps=w, broadcast=alike)[38] - starts(code, warps=w, broadcast=alike)[28]) / 10 for w in (1, 4, 8)] == [4, 4, 8]
    assert [(starts(code, warps=w, halved=alike)[38] - starts(code, warps=w, halved=alike)[28]) / 10 for w in (1, 4, 8)] == [4, 8, 16]


def test_barriers_and_taken_branches_cost_their_figures():
    code = code_of(row("BAR.SYNC 0x0"), row("FADD R0, R0, R0", line=2), row("BRA `(.L_x_1)", 5, line=2), row("EXIT"), ".L_x_1", row("FADD R0, R0, R0", line=3))
    found = counted(code, "BAR@a.cu:1", "a.cu:3", warps=4)
    assert [cycle for cycle, *_ in found["trace"]] == [CYCLES["barrier"] + 4 * CYCLES["barrier per warp"] + n for n in (0, 1, 1 + CYCLES["branch"])]
    assert found["by reason"] == {"barrier": CYCLES["barrier"] + 4, "issue": 1, "taken branch": CYCLES["branch"]}
    assert found["assumed"] == CYCLES["barrier"] + 4 + CYCLES["branch"]


# --- ways ---

@pytest.mark.parametrize("unrolled", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [8, 24, 64])
def test_a_loop_is_gone_round_until_its_trip_count_is_reached_however_it_is_unrolled(unrolled, count):
    body = [row("FFMA R0, R0, R1, R2", 4, line=3) for _ in range(unrolled)]
    code = code_of(row("MOV R3, RZ", 2, line=1), ".L_x_0", *body, row("@P0 BRA `(.L_x_0)", 5, line=2), row("EXIT", line=4))
    found = counted(code, "a.cu:1", f"FFMA*{count}@a.cu:3", "a.cu:4")
    turns = count // unrolled
    assert found["by opcode"] == {"FFMA": count, "BRA": turns, "EXIT": 1}
    assert found["cycles"] == 2 + 4 * count + (turns - 1) * CYCLES["branch"] + 5
    assert sum(found["by line"].values()) == sum(found["by reason"].values()) == found["cycles"]


def test_a_loop_counted_from_its_start_to_its_start_is_one_turn_in_the_steady_state():
    """The load of one turn is waited for in the next, so the first turn is shorter than the others."""
    code = code_of(".L_x_0", row("FADD R0, R1, R1", waits=[0], line=1), row("LDG.E R1, [R2.64]", writes=0, line=2), row("BRA `(.L_x_0)", 5, line=3))
    assert counted(code, "a.cu:1", "a.cu:1")["cycles"] == 1 + CYCLES["l2"]


def test_a_way_skips_what_is_not_named_and_takes_what_is():
    rows = [row("ISETP.NE P0, PT, R0, RZ", line=1), row("@P0 BRA `(.L_x_2)", line=8), row("FADD R1, R1, R1", line=2), row("FADD R1, R1, R1", line=2), ".L_x_2",
            row("BRA.DIV UR4, `(.L_x_3)", line=3), row("CALL.REL.NOINC `($slow)", line=4), row("MOV R5, R6", line=5), row("EXIT", line=6), ".L_x_3",
            row("MOV R7, R8", line=7), row("BRA `(.L_x_2)", line=7)]
    code = code_of(*rows)
    assert way(code, stops_of(["a.cu:1", "a.cu:6"], code)) == [0, 1, 4, 5, 6, 7]
    assert way(code, stops_of(["a.cu:1", "a.cu:2", "a.cu:6"], code)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert way(code, stops_of(["FADD@a.cu:1-6", "FADD@a.cu:2"], code)) == [2, 3]
    with pytest.raises(ValueError, match="no way through the kernel leads from a.cu:3 to a.cu:7"):  # a warp whose lanes are together does not diverge
        way(code, stops_of(["a.cu:1", "a.cu:3", "a.cu:7", "a.cu:6"], code))
    with pytest.raises(ValueError, match="HMMA@a.cu:1: the kernel has no such instruction"):
        stops_of(["HMMA@a.cu:1", "a.cu:6"], code)


def test_a_call_is_avoided_where_there_is_another_way_and_a_called_label_is_a_jump():
    code = code_of(row("@P0 BRA `(.L_x_1)", line=1), row("CALL.REL.NOINC `($division)", line=2), row("BRA `(.L_x_2)", line=2), ".L_x_1",
                   *(row("IMAD R0, R1, R2, R3", line=3) for _ in range(30)), ".L_x_2", row("@P1 CALL.REL.NOINC `(.L_x_4)", line=4),
                   row("MOV R0, R1", line=5), ".L_x_4", row("EXIT", line=6))
    path = way(code, stops_of(["a.cu:1", "a.cu:6"], code))
    assert path == [0, *range(3, 34), 35]


def test_random_ways_are_shortest():
    """Against every way, listed."""
    draw = random.Random(5)
    for _ in range(200):
        rows = []
        for n in range(12):
            rows.append(f".L_x_{n}")
            text = draw.choice(["FADD R0, R0, R0", "MOV R0, R1", "@P0 BRA `(.L_x_{})", "BRA `(.L_x_{})", "MOV R2, R3"]).format(draw.randrange(12))
            rows.append(row(text, line=n))
        code = code_of(*rows)
        begin, end, times = draw.randrange(12), draw.randrange(12), draw.randrange(1, 3)
        texts = [f"a.cu:{begin}", f"FADD*{times}@a.cu:0-11", f"a.cu:{end}"]
        ways, best = [([begin], False, 0)], None
        adds = {i for i, x in enumerate(code) if cycles.opcode(x) == "FADD"}
        seen = set()
        while ways and best is None:  # breadth first: state is (instruction, adds so far)
            further = []
            for path, passed, added in ways:
                if added == times and path[-1] == end and passed:
                    best = path
                    break
                for j in cycles.successors(code, path[-1]):
                    now = min(times, added + (j in adds))
                    state = (j, now, added == times)
                    if state not in seen:
                        seen.add(state)
                        further.append(([*path, j], added == times, now))
            ways = further
        if best is None:
            with pytest.raises(ValueError):
                way(code, stops_of(texts, code))
        else:
            assert len(way(code, stops_of(texts, code))) == len(best), (texts, [x.name for x in code])


# --- places and figures ---

def test_places_are_lines_texts_and_functions():
    files = {KNOWN, "kernels/cuda/section_block.h"}
    text = sass.source_lines(KNOWN)
    assert cycles.lines_of("known.cu:4-6", files) == {(KNOWN, n) for n in (4, 5, 6)}
    (path, line), = cycles.lines_of("known.cu:__shfl_xor_sync", files)
    assert path == KNOWN and "__shfl_xor_sync" in text[line - 1]
    between = sorted(n for _, n in cycles.lines_of("known.cu:chain_of_shared_loads(unsigned..chain_of_shuffles(float", files))
    assert "chain_of_shared_loads" in text[between[0] - 1] and "chain_of_shuffles" in text[between[-1] - 1]
    assert between == list(range(between[0], between[-1] + 1))
    first, *_, last = sorted(n for _, n in cycles.lines_of("section_block.h:bring_launch()", files))
    body = "\n".join(sass.source_lines("kernels/cuda/section_block.h")[first - 1:last])
    assert body.startswith("  LAMINA_DEVICE static void bring_launch(const Launch& given) {") and body.endswith("    sync_block();\n  }")
    for place, why in (("other.cu:3", "no source files"), ("known.cu", "FILE:LINE"), ("known.cu:no such text", "no lines"),
                       ("known.cu:pragma unroll", "lines of .* have the text"), ("section_block.h:nothing()", "no definitions")):
        with pytest.raises(ValueError, match=why):
            cycles.lines_of(place, files)


def test_every_figure_has_a_source_and_changes_are_checked():
    for figures in ARCHITECTURES.values():
        assert all(f.cycles > 0 and (f.source == ASSUMED or len(f.source) > 20) for f in figures.values())
    assert {latency for _, rate, latency in cycles.OPCODES.values()} | {rate for _, rate, _ in cycles.OPCODES.values()} - {None} <= {*FIGURES, None}
    assert latencies("sm_80", ["l2=300"])["l2"] == (300, "given") and latencies("sm_100") is None
    for change in ("l3=5", "l2", "l2=many"):
        with pytest.raises(ValueError, match="not a figure and its cycles"):
            latencies("sm_90a", [change])


def test_without_the_tools_and_a_network_there_is_a_reason(tmp_path):
    program = ("import disassembler as d; d.PATH, d.VENV = '', sys.argv[1]\n"
               "for _ in range(2):\n  try: d.tools()\n  except d.Missing as reason: print(reason)\n")
    done = subprocess.run([sys.executable, "-c", "import sys; sys.path.append('perf/gpu')\n" + program, str(tmp_path / "venv")], cwd=ROOT,
                          capture_output=True, text=True, timeout=300, env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)})
    assert done.stdout.count("nvdisasm and cuobjdump are not installed and cannot be fetched: ERROR: No matching distribution") == 2, done.stdout + done.stderr
    assert done.stderr.count("making .venv-sass") == 1


# --- known kernels ---

@pytest.fixture(scope="module")
def known(disassembler, tmp_path_factory):
    """{architecture: path of its cubin}"""
    folder = tmp_path_factory.mktemp("known")
    paths = {architecture: str(folder / f"known.{architecture}.cubin") for architecture in ("sm_80", "sm_90a")}
    for architecture, path in paths.items():
        subprocess.run([NVCC, f"-arch={architecture}", "-O3", "-lineinfo", "-cubin", "-o", path, os.path.join(ROOT, KNOWN)], check=True, timeout=300)
    return paths


# kernel, opcode, its line, how many in a turn of the loop, warps, cycles of a turn without the loop's own instructions: a figure's name stands for its cycles.
LOOPS = [
    ("chain_of_products", "FFMA", "v = __fmaf_rn(v, a, b)", 64, 1, lambda c: 64 * 4),
    ("eight_chains_of_products", "FFMA", "v[j % 8] = __fmaf_rn", 64, 1, lambda c: 64 * c["rate of floats"]),
    ("eight_chains_of_products", "FFMA", "v[j % 8] = __fmaf_rn", 64, 8, lambda c: 2 * 64 * c["rate of floats"]),
    ("chain_of_shared_loads", "LDS", "ld.volatile.shared.u32", 16, 1, lambda c: 16 * c["shared"]),
    ("wide_shared_loads", "LDS", "ld.volatile.shared.v4.f32", 8, 4, lambda c: 4 * 8 * 4 + c["shared"]),
    ("chain_of_shuffles", "SHFL", "__shfl_xor_sync", 16, 1, lambda c: 16 * c["shuffle"]),
    ("chain_of_global_loads", "LDG", "ld.global.cg.u64", 8, 1, lambda c: 8 * c["l2"]),
    ("barriers", "BAR", "for (int j = 0; j < 4; ++j) __syncthreads", 4, 8, lambda c: 4 * (c["barrier"] + 8 * c["barrier per warp"])),
]


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kernel, opcode, line, count, warps, expected", LOOPS, ids=[f"{name}-{warps}" for name, *_, warps, _ in LOOPS])
def test_compiled_loops_take_as_long_as_is_known(known, architecture, kernel, opcode, line, count, warps, expected):
    """At most 30 cycles more for the loop's counter, its test and the branch back."""
    cubin = sass.Cubin(known[architecture], kernel, architecture)
    found = cycles.count(cubin, [f"{opcode}@known.cu:{line}", f"{opcode}*{count}@known.cu:{line}"], warps=warps)
    at_least = expected({name: figure.cycles for name, figure in latencies(architecture).items()})
    assert found["by opcode"][opcode] == count
    assert at_least <= found["cycles"] <= at_least + 30, cycles.said(found, 20)


@needs_nvcc
def test_the_program_prints_an_account_and_fails_above_its_limit(known):
    def run(*options):
        command = [sys.executable, os.path.join(ROOT, "perf/gpu/cycles.py"), known["sm_90a"], *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    place = "known.cu:v = __fmaf_rn(v, a, b)"
    status, said = run("chain_of_products", "--way", f"FFMA@{place}", f"FFMA*64@{place}", "--part", f"products={place}", "--trace", "--at-most", "300")
    assert status == 0 and "64 instructions  products" in said and "stall of FFMA" in said and "v = __fmaf_rn(v, a, b)" in said, said
    assert run("chain_of_products", "--way", place, "--at-most", "100")[0] == 1
    status, said = run("chain_of_products", "--json")
    assert status == 0 and '"registers"' in said
    for options, why in ((["chain"], "no kernel named chain for sm_90a. Fix: give one of these symbols: barriers"),
                         (["barriers", "--way", "known.cu:1000"], "no such instruction"),
                         (["barriers", "--set", "l9=4", "--way", place], "l9=4: not a figure")):
        status, said = run(*options)
        assert status == 1 and why in said and "Traceback" not in said, said
