#!/usr/bin/env python3
"""Cycles of the section kernel's steps as it is built: a hidden layer of the benchmark, 64 x 64 with relu, on a block's three rows of the batch.

  section_steps.py [LIBRARY] [--arch sm_90a] [other options of cycles.py]

One turn of the block's loop in the middle of the network, as the warps that multiply go through it: the step before is over, its rows are still in shared
memory, its weights have arrived, no other block is waited for, and the next piece of weights is asked for.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "python", "lamina", "liblamina_cuda.so")

LOOP = ["BAR@section_kernel.h:b.sync();"]
# Rows are shared by blocks (not one block with all of them), for the step itself and for the step whose weights are asked for: 1,024 pieces of 16 bytes
# by 256 threads.
SHARES = ["section_block.h:return share(s.rows", "section_block.h:const Rows batch = rows_of(s), models", "section_block.h:return share(s.rows",
          "LDGSTS*4@section_block.h:copy_async<16>"]
# 64 products for each of three rows; then the loop over groups of rows finds the second group empty.
PRODUCTS = ["FFMA*192@section_dense.h:if (rows == 3) multiply<1, 3", "section_dense.h:const int rows = t + 1 < pass.tiles"]
RESULTS = ["elementwise_ops.inc:ACTIVATION(relu, of", "STG@section_dense.h:y[(long long)row * outer"] * 3
BIAS = ["LDG@section_dense.h:const float biased = bias ?"]
MASKS = ["LDG*3@section_dense.h:if (pass.has(t, r)) masks.v"]

WAYS = {"forward": [*LOOP, "section_interpreter.h:case StepKind::dense:", *SHARES, *PRODUCTS, *BIAS, *RESULTS, *LOOP],
        "gradient": [*LOOP, "section_interpreter.h:case StepKind::dense_grad_input:", *SHARES, *MASKS, *PRODUCTS, *RESULTS, *LOOP]}
OF_LOOP = ["dispatch=section_kernel.h:if (!run_step", "step end=section_kernel.h:b.sync();..clock_end_step(b, b.position)",
           "step fetch=section_kernel.h:while (b.position < count)..clock_begin_step(b, b.position);"]
PARTS = {
    "forward": ["ask=section_block.h:ask()", "take=section_block.h:take()", "multiply=section_dense.h:multiply<false>(sums, pass, batch",
                "epilogue=section_dense.h:if constexpr (!gradient) {..b.held_buffer = keep", "operands=section_interpreter.h:case StepKind::dense:", *OF_LOOP],
    "gradient": ["ask=section_block.h:ask()", "take=section_block.h:take()", "multiply=section_dense.h:multiply<true>(sums, pass, batch",
                 "epilogue=section_dense.h:finish(sums.v[t][r], begin + pass.first[t] + r, k + column",
                 "operands=section_interpreter.h:case StepKind::dense_grad_input:", *OF_LOOP]}
# The kinds of steps, for static counts of instructions.
STEPS = ["dense", "dense_grad_input", "dense_update", "elementwise", "reduce", "log_softmax", "sparse_cross_entropy", "dropout", "copy"]
STEP_PARTS = [f"{step}=section_interpreter.h:case StepKind::{step}:" for step in STEPS]

if __name__ == "__main__":
    arguments = sys.argv[1:]
    library = arguments.pop(0) if arguments and not arguments[0].startswith("-") else LIBRARY
    for name, way in WAYS.items():
        print(f"--- {name}", flush=True)
        done = subprocess.run([sys.executable, os.path.join(HERE, "cycles.py"), library, "section_kernel", "--way", *way, "--part", *PARTS[name], *arguments])
        if done.returncode != 0:
            sys.exit(done.returncode)
