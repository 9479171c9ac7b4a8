#!/usr/bin/env python3
"""Cycles of the section kernel as it is built: a hidden layer of the benchmark, 64 x 64 with relu, on two rows of the batch, and what surrounds a chain of them.

  section_steps.py [LIBRARY] [--arch sm_90a] [other options of cycles.py]

forward, gradient  a turn of the computing warps in the middle of a chain, from barrier to barrier. Other warps bring weights and take results away.
chain              from the end of the step before a chain until all its addresses are found; known chain: they were found while that step ran
step               of any other step: all but its own work
update             that work of a dense_update with SGD: half of a layer's weights, 32 x 64, for a batch of 20
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "python", "lamina", "liblamina_cuda.so")

# The chain's roles are a function of their own. There nvdisasm is right about the line of an instruction, but not about where that was inlined.
TURN = 'BAR@device_gpu.h:"n"(barrier), "n"(threads)'
PRODUCTS = "FFMA*128@device_gpu.h:return __fmaf_rn(a, b, c);"  # 64 for each of two rows
OVER = "BAR@section_kernel.h:sync_block();  // the step is over"

WAYS = {"forward": [TURN, PRODUCTS, "FADD*2@section_chain.h:y[r * kMostWidth] = gradient", TURN],
        "gradient": [TURN, PRODUCTS, "activations.h:return y > 0 ? dy : T(0);", TURN],
        "chain": [OVER, "section_pieces.h:to.signal = s.signal, to.kind", "BAR@section_chain.h:sync_block();  // the links are found"],
        "known chain": [OVER, "CALL@section_chain.h:run_roles<kFewRows, false>(b, first_rows"],
        "step": [OVER, "section_interpreter.h:case StepKind::dropout:", OVER],
        "update": ["section_update.h:const int part = by_models", "LDG*8@section_update.h:values[q] = load_shared", "LDG@section_update.h:x = r < s.batch ? four_of",
                   "LDG*2@section_update.h:z[i] = row < s.batch ? four_of", "BAR@section_update.h:sync_block();  // all threads are done with that memory",
                   "FFMA*160@device_gpu.h:return __fmaf_rn(a, b, c);", "STG*8@section_update.h:to[at + q * sizes.n] = values", OVER]}
ROWS = "four.h:same_four_in_order()"  # one address for all lanes
OF_TURN = {"warps": 2, "broadcast": [ROWS]}
OPTIONS = {"forward": OF_TURN, "gradient": OF_TURN, "chain": {}, "known chain": {}, "step": {}, "update": {"warps": 8, "broadcast": [ROWS]}}
OF_LAYER = ["multiply=device_gpu.h:return __fmaf_rn(a, b, c);", f"loads of rows={ROWS}", "loads of weights=four.h:four_in_order()", f"barrier={TURN[4:]}"]
OF_STEP = ["fetch and dispatch=section_kernel.h:while (b.position < count)..if (!run_step(b, s)) break;", "chain=section_chain.h:run_chain()"]
PARTS = {"forward": OF_LAYER, "gradient": OF_LAYER, "chain": OF_STEP, "known chain": OF_STEP, "step": OF_STEP,
         "update": ["loads of rows=section_update.h:load()", f"multiply={OF_LAYER[0].split('=')[1]}", f"rows to registers={ROWS}"]}
# The kinds of steps, for static counts of instructions.
STEPS = ["dense_update", "elementwise", "reduce", "log_softmax", "sparse_cross_entropy", "dropout", "copy"]
STEP_PARTS = [f"{step}=section_interpreter.h:case StepKind::{step}:" for step in STEPS]

if __name__ == "__main__":
    arguments = sys.argv[1:]
    library = arguments.pop(0) if arguments and not arguments[0].startswith("-") else LIBRARY
    for name, way in WAYS.items():
        print(f"--- {name}", flush=True)
        options = OPTIONS[name]
        given = ["--warps", str(options.get("warps", 1)), *(word for place in options.get("broadcast", ()) for word in ("--broadcast", place))]
        done = subprocess.run([sys.executable, os.path.join(HERE, "cycles.py"), library, "section_kernel", "--way", *way, "--part", *PARTS[name], *given, *arguments])
        if done.returncode != 0:
            sys.exit(done.returncode)
