"""Cycles that the control codes of SASS do not tell: latencies and rates, each with its source. Those of `ASSUMED` have no published measurement for the
architecture; an account says how many of its cycles rest on them.

An architecture belongs here when its latencies are published. Accounts of others have instructions, registers and stack only.
"""
import collections

Figure = collections.namedtuple("Figure", "cycles source")

LUO = "Luo et al. 2024, arXiv 2402.13499 and 2501.12084: latencies of memory on A100 and H100"
HUERTA = "Huerta et al. 2025, arXiv 2503.20481: the memory pipeline, measured on GA102"
GUIDE = "CUDA C++ Programming Guide, throughput of arithmetic instructions per multiprocessor, divided by four schedulers of 32 lanes"
PIPE = "white papers of A100 and H100: 32 load and store units and 128 bytes of shared memory per cycle in a multiprocessor"
ASSUMED = "assumed"

# What every architecture below has in common.
COMMON = {
    # Latencies, from issue to the release of the scoreboard.
    "shared": Figure(29, LUO),     # LDS, 32 bits
    "generic": Figure(32, ASSUMED),  # LD, whose address the compiler does not know to be global or shared: taken as shared
    "shuffle": Figure(24, ASSUMED),
    "constant": Figure(40, ASSUMED),  # LDC, cached
    "special": Figure(18, ASSUMED),   # MUFU, conversions
    "register": Figure(24, ASSUMED),  # S2R and others that read special registers
    "vote": Figure(12, ASSUMED),
    "double": Figure(12, ASSUMED),
    "product": Figure(33, ASSUMED),   # HMMA
    "atomic": Figure(300, ASSUMED),   # one that returns the old value
    "store": Figure(20, ASSUMED),     # until its scoreboard is released
    "operands": Figure(12, ASSUMED),  # from the issue of a memory instruction to the release of its operands
    "fence": Figure(500, ASSUMED),    # MEMBAR beyond the block
    "fence of a block": Figure(16, ASSUMED),
    "barrier": Figure(24, ASSUMED),   # BAR, from the last warp's arrival, and per warp that arrives
    "barrier per warp": Figure(1, ASSUMED),
    "branch": Figure(8, ASSUMED),     # from a taken branch to the next instruction
    # Memory instructions pass a queue of the scheduler and then the multiprocessor's pipe.
    "queue length": Figure(5, HUERTA),
    "queue interval": Figure(4, HUERTA),
    "pipe interval": Figure(1, PIPE),
    # Cycles for which a warp's instruction holds a unit of its scheduler.
    "rate of integers": Figure(2, GUIDE),
    "rate of integer products": Figure(2, GUIDE),
    "rate of special": Figure(8, GUIDE),
    "rate of shuffles": Figure(4, GUIDE),
    "rate of others": Figure(2, ASSUMED),
}
ARCHITECTURES = {
    "sm_80": {**COMMON, "l1": Figure(38, LUO), "l2": Figure(262, LUO), "rate of floats": Figure(2, GUIDE), "rate of doubles": Figure(4, GUIDE)},
    "sm_90": {**COMMON, "l1": Figure(41, LUO), "l2": Figure(263, LUO), "rate of floats": Figure(1, GUIDE), "rate of doubles": Figure(2, GUIDE)},
}


def latencies(architecture, changes=()):
    """The figures of an architecture (sm_90a is sm_90), None if it has none; with `changes`, words like "l2=300"."""
    table = ARCHITECTURES.get(architecture.rstrip("af"))
    if table is None:
        return None
    table = dict(table)
    for change in changes:
        name, _, value = change.partition("=")
        if name not in table or not value.isdigit():
            raise ValueError(f"--set {change}: not a figure and its cycles. Fix: one of {', '.join(table)}, as in l2=300")
        table[name] = Figure(int(value), "given")
    return table
