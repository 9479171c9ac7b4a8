"""The section kernel as compiled by nvcc and ptxas, per architecture: bars for registers, stack, shared memory, instructions and counted cycles of the
built library; limits for spills."""
import functools, os, re, shutil, subprocess, sys

import pytest
from built import ROOT
from training_steps import training_step

import lamina as lm

sys.path.append(os.path.join(ROOT, "perf", "gpu"))
import section_steps  # noqa: E402
from cycles import count, places, said, static_account  # noqa: E402
from disassembler import Missing, tools  # noqa: E402
from sass import Cubin, source_lines  # noqa: E402

NVCC = shutil.which("nvcc") or next((p for p in ["/usr/local/cuda/bin/nvcc"] if os.path.exists(p)), None)
LIMITS = {"registers": 255, "spill bytes": 0, "stack bytes": 300, "static shared bytes": 64}
ARCHITECTURES = ["sm_80", "sm_90a", "sm_100"]

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="there is no nvcc; ./dev setup --cuda brings it")
is_long = pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="compiling the section kernel takes a minute per architecture; --long does")


def compiled(source, architecture, to, *flags):
    """nvcc's messages; its output is in the file `to`."""
    done = subprocess.run([NVCC, "-std=c++20", f"-arch={architecture}", "-fmad=false", "--expt-relaxed-constexpr", "-DLAMINA_BUILDING=1", f"-I{ROOT}", *flags, "-o", str(to),
                           os.path.join(ROOT, f"kernels/cuda/{source}.cu")], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def figures(log, kernel):
    """The kernel's own figures; functions that it calls follow in the report."""
    stack, stores, loads = map(int, re.search(kernel + r"E.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log).groups())
    return {"registers": int(re.search(r"Used (\d+) registers", log)[1]), "spill bytes": stores + loads, "stack bytes": stack,
            "static shared bytes": int((re.search(r"(\d+) bytes smem", log) or [0, 0])[1])}


@needs_nvcc
@is_long
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_section_kernel_stays_within_its_limits(architecture, tmp_path):
    found = figures(compiled("section", architecture, tmp_path / "section.cubin", "-Xptxas", "-v", "-cubin"), "section_kernel")
    assert all(found[name] <= limit for name, limit in LIMITS.items()), found


# The kernel as built by the nvcc of requirements-cuda.lock. A bar is the figure of the day it was set: a change that raises it says so here, and one that
# lowers it may lower the bar. Registers, stack bytes, static shared bytes (sm_90 and later reserve 1,024), instructions that access the stack, all
# instructions; then those of each step in section_steps.STEPS. The stack is the elementwise interpreter's and sin's and cos's; spills add to it. An update is
# a function of its own, which calls another one for tiles at an edge: their frames are in the stack. A warp that updates a bias has a loop of its own, and
# the loads of sums wait together: that takes registers on sm_100 (254, 232 before) and instructions of updates and copies.
TOOLKIT = "13.0"
BARS = {
    ("section_kernel", "sm_80"): (212, 288, 0, 229, 48648, [3229, 363, 2057, 650, 727, 322, 2574]),
    ("section_kernel", "sm_90a"): (222, 288, 1024, 229, 52088, [3445, 380, 2033, 651, 777, 323, 2590]),
    ("section_kernel", "sm_100"): (254, 288, 1024, 221, 51592, [3254, 192, 2137, 676, 806, 260, 2606]),
}
# Cycles and instructions of one warp (section_steps.py): counted. A layer took 840 cycles on an H200 when "forward" was 490: what it takes now was not
# measured.
WAYS = {("forward", "sm_80"): (354, 172), ("forward", "sm_90a"): (351, 171), ("gradient", "sm_80"): (354, 172), ("gradient", "sm_90a"): (348, 169),
        ("chain", "sm_80"): (1743, 263), ("chain", "sm_90a"): (1821, 269), ("known chain", "sm_80"): (618, 143), ("known chain", "sm_90a"): (668, 138),
        ("first piece", "sm_80"): (396, 121), ("first piece", "sm_90a"): (452, 144), ("dropout", "sm_80"): (171, 35), ("dropout", "sm_90a"): (218, 40),
        ("weights", "sm_80"): (319, 77), ("weights", "sm_90a"): (311, 79), ("weights back", "sm_80"): (116, 30), ("weights back", "sm_90a"): (117, 34),
        ("stores", "sm_80"): (288, 59), ("stores", "sm_90a"): (266, 71), ("4 rows", "sm_80"): (665, 265), ("4 rows", "sm_90a"): (691, 271),
        ("4 rows back", "sm_80"): (713, 245), ("4 rows back", "sm_90a"): (735, 252), ("12 rows", "sm_80"): (1106, 573), ("12 rows", "sm_90a"): (984, 579),
        ("12 rows back", "sm_80"): (1172, 571), ("12 rows back", "sm_90a"): (1065, 591), ("20 rows", "sm_80"): (1649, 881), ("20 rows", "sm_90a"): (1406, 890),
        ("20 rows back", "sm_80"): (1802, 905), ("20 rows back", "sm_90a"): (1452, 931), ("stores of 20 rows", "sm_80"): (1256, 299),
        ("stores of 20 rows", "sm_90a"): (1283, 314), ("hands", "sm_80"): (124, 25), ("hands", "sm_90a"): (151, 35), ("takes", "sm_80"): (353, 32),
        ("takes", "sm_90a"): (358, 33), ("fetch", "sm_80"): (340, 86), ("fetch", "sm_90a"): (378, 105), ("step", "sm_80"): (433, 75), ("step", "sm_90a"): (445, 76),
        ("ahead", "sm_80"): (244, 90), ("ahead", "sm_90a"): (254, 90), ("loss", "sm_80"): (2067, 419), ("loss", "sm_90a"): (2035, 435),
        ("loss gradient", "sm_80"): (556, 120), ("loss gradient", "sm_90a"): (577, 129), ("copy", "sm_80"): (1780, 392), ("copy", "sm_90a"): (1833, 394),
        ("mean", "sm_80"): (1757, 337), ("mean", "sm_90a"): (1781, 333), ("update", "sm_80"): (2017, 505), ("update", "sm_90a"): (1854, 519),
        ("whole update", "sm_80"): (2754, 731), ("whole update", "sm_90a"): (2265, 762), ("update with bias", "sm_80"): (2337, 590),
        ("update with bias", "sm_90a"): (2209, 612), ("whole update with bias", "sm_80"): (3211, 811), ("whole update with bias", "sm_90a"): (2667, 850),
        ("program", "sm_80"): (1660, 313), ("program", "sm_90a"): (1872, 354), ("program on 8 warps", "sm_80"): (2027, 313),
        ("program on 8 warps", "sm_90a"): (2222, 354), ("input", "sm_90a"): (420, 92), ("product", "sm_90a"): (388, 87), ("call", "sm_90a"): (127, 31),
        ("input on 8 warps", "sm_90a"): (492, 92), ("product on 8 warps", "sm_90a"): (470, 87), ("call on 8 warps", "sm_90a"): (154, 31),
        ("function on 8 warps", "sm_90a"): (111, 18), ("operation on 8 warps", "sm_90a"): (34, 9), ("elements on 8 warps", "sm_90a"): (66, 15),
        ("momentum", "sm_90a"): (1017, 303), ("momentum on 8 warps", "sm_80"): (1595, 280), ("momentum on 8 warps", "sm_90a"): (1467, 303),
        ("Adam", "sm_90a"): (1501, 440), ("Adam on 8 warps", "sm_80"): (1978, 393), ("Adam on 8 warps", "sm_90a"): (2078, 440)}
# An update of half a layer of 64 x 64, as the sum of counted parts: the tile, and its compiled program twice, for two columns of a thread.
UPDATES = {"SGD": 1854, "momentum": 4920, "Adam": 6142}


@functools.lru_cache(maxsize=None)
def built(kernel, architecture):
    """The kernel of the built library; skips where there is none that the bars are for."""
    if not os.path.exists(section_steps.LIBRARY):
        pytest.skip("this build has no CUDA")
    if f".{architecture}." not in elves():
        pytest.skip(f"this build is not for {architecture}")
    cubin = Cubin(section_steps.LIBRARY, kernel, architecture)
    if cubin.toolkit != TOOLKIT:
        pytest.skip(f"this build is by nvcc {cubin.toolkit}; the bars are of nvcc {TOOLKIT}")
    return cubin


@functools.lru_cache(maxsize=1)
def elves():
    """The library's embedded cubins, as cuobjdump lists them."""
    try:
        return subprocess.run([tools()[1], "-lelf", section_steps.LIBRARY], capture_output=True, text=True, check=True, timeout=60).stdout
    except Missing as reason:
        pytest.skip(str(reason))


def counted(cubin, name):
    return count(cubin, section_steps.WAYS[name], parts=section_steps.PARTS[name], **section_steps.OPTIONS[name])


@pytest.mark.parametrize("kernel, architecture", BARS)
def test_a_built_section_kernel_is_no_larger_than_its_bars(kernel, architecture):
    cubin = built(kernel, architecture)
    account = static_account(cubin.code, places(section_steps.STEP_PARTS, cubin.code))
    found = (*(cubin.resources[name] for name in ("registers", "stack", "shared")), account["by opcode"]["LDL"] + account["by opcode"]["STL"],
             account["instructions"], [account["by part"][step] for step in section_steps.STEPS])
    names = ["registers", "stack bytes", "static shared bytes", "accesses of the stack", "instructions"]
    names += [f"instructions of {step}" for step in section_steps.STEPS]
    *sizes, steps = BARS[kernel, architecture]
    over = [f"{n} {name}, the bar is {bar}" for name, n, bar in zip(names, [*found[:-1], *found[-1]], [*sizes, *steps]) if n > bar]
    if over:
        cycles = [said(counted(cubin, name), 40) for name in section_steps.WAYS if (name, architecture) in WAYS]
        pytest.fail("\n".join([*over, f"all figures: {found}", *(cycles or [said(account, 40)])]), pytrace=False)


@pytest.mark.parametrize("name, architecture", WAYS)
def test_a_part_takes_no_more_cycles_than_its_bar(name, architecture):
    found = counted(built("section_kernel", architecture), name)
    cycles, instructions = WAYS[name, architecture]
    if found["cycles"] > cycles or found["instructions"] > instructions:
        pytest.fail(f"{name}: the bar is {cycles} cycles and {instructions} instructions\n{said(found, 40)}", pytrace=False)
    if name in ("forward", "gradient"):
        assert found["by opcode"]["FFMA"] == 128, "64 products of two rows"


def counted_cycles(name):
    return cycles_of(built("section_kernel", "sm_90a"), name)


@functools.lru_cache(maxsize=None)
def cycles_of(cubin, name):
    return counted(cubin, name)["cycles"]


@functools.lru_cache(maxsize=None)
def plan_by(name):
    """A step of 44 layers of 64 x 64 by an optimizer: half of a layer's weights for each block that updates, once."""
    net = lm.nn.Sequential([*(lm.nn.Dense(64, activation="relu") for _ in range(44)), lm.nn.Dense(10)])
    makers = {"momentum": lambda rate: lm.optim.SGD(rate, momentum=0.9), "Nesterov momentum": lambda rate: lm.optim.SGD(rate, momentum=0.9, nesterov=True)}
    step = training_step(net, makers.get(name, getattr(lm.optim, name, None))(0.1))
    x, y = lm.zeros([20, 64]), lm.zeros([20], dtype=lm.int32)
    net(x)
    return lm.function(step).explain(x, y, device="null:h100")


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_of_half_a_layer_takes_no_more_cycles_than_its_bar(name):
    cycles = counted_cycles("update")
    if name != "SGD":
        cycles += 2 * (counted_cycles(name + section_steps.ON_EIGHT) + counted_cycles("elements" + section_steps.ON_EIGHT))
    assert cycles <= UPDATES[name]


# Cycles that an H200 showed (perf/results/latencies-nvidia-h200.json): a piece of 16 KB from the L2 cache, rows from block to block as marked numbers, and by a counter.
FETCHED, HANDED, COUNTED = 16384 / 27.33, 574, 1662
# Of HANDED, the trial's own instructions, as the tool counts them (hand_over<true> in latencies.cu); and a load from the L2 cache, which "takes" has too.
OF_TRIAL, LOADED = 107, 257
CYCLES_PER_MICROSECOND = 1980


def account(plan, trains):
    """Cycles of the critical path through the benchmark's plan, as the sum of its parts' counts: the first set's pieces as they come, the other sets' as they are multiplied. The warp
    that goes ahead has none of a block's two rows of the loss, and is ready before the last gradient comes."""
    steps = [line for launch in plan.launches for line in launch["details"] if re.search(r" \w+ blocks \d+\.\.", line)]
    of_rows = [line for line in steps if re.search(r" (dense|dense_grad_input) blocks", line)]
    first = [line for line in of_rows if " dense blocks 0.." in line]
    layers = [line for line in of_rows if " dense blocks" in line]
    dropouts = sum(" dropout blocks" in line for line in steps)
    taken = sum("with rows from other blocks" in line for line in of_rows)
    assert len(layers) == 101 and len(of_rows) - len(layers) == 100 * trains and len(first) >= 1 and dropouts == 1 + trains, plan
    pieces = 12 + len(first)  # the first layer has 784 inputs
    parts = {"start of a chain": counted_cycles("chain") + counted_cycles("first piece"), f"{pieces} pieces of the first set": pieces * FETCHED,
             f"{len(layers) - len(first)} layers": (len(layers) - len(first)) * counted_cycles("forward"), f"{dropouts} dropouts": dropouts * counted_cycles("dropout"),
             f"{taken} times rows from another set": taken * (HANDED - OF_TRIAL + counted_cycles("hands") + counted_cycles("takes") - LOADED)}
    if trains:
        parts |= {"loss": counted_cycles("loss"), "its gradient": counted_cycles("step") + counted_cycles("loss gradient"), "its way to a set": COUNTED,
                  "100 gradients": 100 * counted_cycles("gradient"), "the last one's way to an update": COUNTED, "the last update": counted_cycles("step") + counted_cycles("update with bias")}
    return parts


@pytest.mark.parametrize("trains, most", [(False, 27), (True, 50)])
def test_the_benchmarks_account_stays_below_its_bar(trains, most):
    """By counts and an H200's latencies; launch and end of the launch are not in it. No card has shown this time."""
    net = lm.nn.Sequential([lm.nn.Flatten(), *(lm.nn.Dense(64, activation="relu") for _ in range(100)), lm.nn.Dropout(0.2), lm.nn.Dense(10)])
    x, y = lm.zeros([20, 28, 28]), lm.zeros([20], dtype=lm.int32)
    net(x)
    f = training_step(net, lm.optim.SGD(0.01)) if trains else lambda x: net(x, training=True)
    plan = lm.function(f).explain(*(x, y)[:1 + trains], device="null:h100")
    parts = account(plan, trains)
    print("".join(f"\n{cycles:8.0f} cycles  {part}" for part, cycles in parts.items()))
    us = sum(parts.values()) / CYCLES_PER_MICROSECOND
    print(f"{us:8.1f} us")
    assert us <= most


def account_of_ensemble(plan):
    """Cycles of a block that has a model of six hidden layers of 64 and ten classes, batch 20, SGD: the sum of its steps' counts. It waits for other blocks once, for what was made long
    before. Weights come in time, at the rate that an H200 showed; the ten sums of the last layer count as 64, and the loss's gradient as four elements of each thread. The warp that
    goes ahead has none of twenty rows of a loss, of which each warp has three."""
    steps = [found for launch in plan.launches for line in launch["details"] if (found := re.search(r" (\w+) blocks 0\.\.99(.* waits for .*)?", line))]
    kinds = [step[1] for step in steps]
    number = {kind: kinds.count(kind) for kind in set(kinds)}
    assert len(plan.launches) == 1 and number["dense"] == number["dense_update"] == 7 and number["dense_grad_input"] == 6, plan
    assert [step[1] for step in steps if step[2]] == ["elementwise"] and counted_cycles("20 rows") > FETCHED
    assert number["elementwise"] == number["copy"] == number["reduce"] == number["sparse_cross_entropy"] == 1, plan
    step = counted_cycles("step") + counted_cycles("ahead")  # where the warp that goes ahead has a part of the step
    return {"starts of two chains": counted_cycles("chain") + counted_cycles("known chain") + 2 * counted_cycles("first piece"), "7 layers": 7 * counted_cycles("20 rows"),
            "6 gradients": 6 * counted_cycles("20 rows back"), "copy of labels": counted_cycles("copy"), "loss": counted_cycles("loss"),
            "a wait that is over": LOADED, "its gradient": step + counted_cycles("program on 8 warps"), "its mean": counted_cycles("mean"),
            "7 updates": 7 * max(step + counted_cycles("whole update"), counted_cycles("step") + counted_cycles("whole update with bias"))}


def test_an_ensembles_account_stays_below_its_bar():
    """By counts, as the benchmark's. Most of it is updates and small steps, not layers."""
    net = lm.nn.stack(lambda: lm.nn.Sequential([*(lm.nn.Dense(64, activation="relu") for _ in range(6)), lm.nn.Dense(10)]), 100, input_shape=(64,))
    plan = lm.function(lm.vmap(training_step(net, lm.optim.SGD(0.01)), in_axes=None)).explain(lm.zeros([20, 64]), lm.zeros([20], dtype=lm.int32), device="null:h100")
    parts = account_of_ensemble(plan)
    print("".join(f"\n{cycles:8.0f} cycles  {part}" for part, cycles in parts.items()))
    us = sum(parts.values()) / CYCLES_PER_MICROSECOND
    print(f"{us:8.1f} us")
    assert us <= 27


@pytest.mark.parametrize("name", ["momentum", "Nesterov momentum", "Adam", "AdamW", "Nadam", "RMSprop", "Adagrad", "Lion"])
def test_an_optimizers_update_is_compiled_into_the_section_kernel(name):
    """Interpreted, it would take several times the cycles, with no other sign."""
    updates = [line for line in plan_by(name).launches[0]["details"] if " dense_update blocks" in line]
    assert len(updates) == 45
    assert all(re.search(rf" by {name}( |$)", line) for line in updates), updates[:3]


def test_a_load_past_the_cache_is_inlined_where_the_source_calls_it():
    """Callers in the line table are numbered as ptxas numbers them, also in functions that the kernel calls."""
    code = built("section_kernel", "sm_90a").code
    callers = [x.frames[i + 1] for x in code for i, (file, line) in enumerate(x.frames[:-1])
               if file.endswith("device_gpu.h") and source_lines(file)[line - 1].strip() == "return __ldcg(p);"]
    assert len(callers) > 500
    wrong = {(file, line) for file, line in callers if "load_shared_between_blocks" not in "".join(source_lines(file)[max(0, line - 3):line + 2])}
    assert not wrong


def test_a_missed_bar_is_explained_by_source_line(monkeypatch):
    monkeypatch.setitem(WAYS, ("forward", "sm_90a"), (300, WAYS["forward", "sm_90a"][1]))
    monkeypatch.setitem(BARS, ("section_kernel", "sm_90a"), (BARS["section_kernel", "sm_90a"][0] - 1, *BARS["section_kernel", "sm_90a"][1:]))
    for test, case, why in ((test_a_part_takes_no_more_cycles_than_its_bar, "forward", "forward: the bar is "),
                            (test_a_built_section_kernel_is_no_larger_than_its_bars, "section_kernel", r"\d+ registers, the bar is ")):
        with pytest.raises(pytest.fail.Exception, match=rf"(?s)^{why}.*cycles .* multiply.*by source line:.*cycles  section_chain.h:\d+ +\w"):
            test(case, "sm_90a")
