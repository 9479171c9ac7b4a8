#!/usr/bin/env python3
"""Cycles of the section kernel as it is built: a hidden layer of the benchmark, 64 x 64 with relu, on two rows of the batch, and what surrounds a chain of them.

  section_steps.py [LIBRARY] [--arch sm_90a] [other options of cycles.py]

forward, gradient  a turn of the two warps that multiply, in the middle of a chain, from barrier to barrier
dropout            such a turn of a dropout, which multiplies no weights
stores             such a turn of the warp that stores the results of two rows, whose stores for another block are predicated
20 rows            a turn of the four warps that multiply together for many rows, forward; 12 rows, 4 rows; 20 rows back, ...: of the gradient
stores of 20 rows  such a turn of the warp that stores their results
hands              from the barrier until two rows are handed to other blocks; takes: from loads that see such rows until the barrier behind which they are multiplied
weights            meanwhile, of the other two: the next piece's weights to registers; weights back: of the gradient
chain              from the end of the step before a chain until all its addresses are found; known chain: they were found while that step ran
first piece        of a chain: from there until its weights are in shared memory
step               of any other step: all but its own work
ahead              meanwhile, of the warp that finds the addresses of the next step and asks for those behind it
loss               all of a sparse_cross_entropy of 10 classes, three rows for each warp
update             that work of a dense_update with SGD: half of a layer's weights, 32 x 64, for a batch of 20; whole update: all of them; with bias: of the
                   warp that updates the bias too
program            an interpreted program of two inputs, a product and one result, for four elements of each thread of one warp; on 8 warps: of all
input, product     of such a program: one more input; one more sum, difference or product of floats. one result, two results: until they are stored
call               of any other instruction, of one element: the call, the function that is called, and the operation itself (here a sum)
momentum, Adam     a compiled program, without a root or with one, for four elements of each thread of one warp or of 8; its first input is given. elements: its call
loss gradient      a loss's gradient, of 10 classes: three rows for each warp
copy, mean         all of a copy of two axes, four elements for each thread, and of a mean over rows of at most 32, one row for each warp
fetch              a turn of the warps that fetch weights, in the middle of a chain
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "python", "lamina", "liblamina_cuda.so")

# The chain's roles are a function of their own. There nvdisasm is right about the line of an instruction, but not about where that was inlined.
TURN = 'BAR@device_gpu.h:"n"(barrier), "n"(threads)'
PRODUCTS = "FFMA*128@device_gpu.h:return __fmaf_rn(a, b, c);"  # of two rows
OF_COLUMN = "four.h:asm volatile(\"ld.volatile.shared.f32 %0"
RESULTS = "section_chain.h:y[r * kMostWidth] = gradient"
STORED = "section_store.h:put_two(to + r * kPiece, values[r]);"
OVER = "BAR@section_kernel.h:sync_block();  // the step is over"


def update_of(own, of_bias=False):
    """The stops of an update of 8 * own rows of weights, a function of its own, for a batch of 20; of_bias: of the warp that updates the bias too."""
    load = ["LDG*2@section_update.h:bias.load(b, b.step(), column, columns)"] * of_bias
    products = "FADD*40@section_batch.h:if constexpr (of_bias) db.v[c] += z[i].v[c];" if of_bias else f"FFMA*{20 * 2 * own}@device_gpu.h:return __fmaf_rn(a, b, c);"
    store = ["ST*2@section_update.h:bias.store(columns, db)"] * of_bias
    return ["LDS@section_update.h:Operands o{.x = b.operand", f"LDGSTS*{own // 4 + 2}@section_update.h:BatchRows<own, whole>::ask(b.ring(), o, 0, rows, column0);",
            f"LDG*{own}@section_update.h:values[q] = two_of<whole>(o.w", *load, products, "ST@four.h:*reinterpret_cast<float2*>(p) =", *store,
            "RET@section_update.h:if (!part.has_bias || bias_with_tiles || part.columns.begin > 0) return;"]


def of_many(rows, back):
    """The stops of a turn with so many rows of each group."""
    sides = "sides[r].v[c] = load_shared" if back else "sides[0].v[c] = load_shared"
    return [TURN, f"LDG*{2 * rows if back else 2}@section_many.h:{sides}", f"FFMA*{128 * rows}@device_gpu.h:return __fmaf_rn(a, b, c);",
            "activations.h:return y > 0 ? dy : T(0);" if back else "FADD@section_many.h:put(r, c, gradient ? scalar", TURN]


PROGRAM, INPUTS = "section_code.h:const int *w = words() + section::kCodeHeader", "section_code.h:copy_async<4>(to + e"
PRODUCT, RESULT = "FMUL*4@section_code.h:each([](float a, float b) { return a * b; });", "section_elements.h:if (e < count) reinterpret_cast<T*>(to)[first + e * step] = T(v[e]);"
PROGRAMS = {"program": [PROGRAM, f"LDGSTS*8@{INPUTS}", PRODUCT, f"ST*4@{RESULT}", "RET@section_code.h:run()"],
            "input": [f"LDGSTS*4@{INPUTS}"] * 2, "product": [PRODUCT] * 2,
            "one result": [PROGRAM, f"LDGSTS*8@{INPUTS}", PRODUCT, f"ST*4@{RESULT}"], "two results": [PROGRAM, f"LDGSTS*8@{INPUTS}", PRODUCT, f"ST*8@{RESULT}"],
            "call": ["CALL@section_code.h:if (e < count) value = Word(calculate("] * 2,
            "function": ["section_scalar.h:if (type == DType::f32 && op == ScalarOp::div)", "CALL@section_scalar.h:if (type == DType::f32) return apply<float>",
                         "RET@section_scalar.h:calculate()"],
            "operation": ["section_scalar.h:switch (op) {", "FADD@scalar_ops.h:return a + b;", "RET@section_scalar.h:apply()"]}
MANY = {f"{4 * r} rows{back}": of_many(r, back) for r in (5, 3, 1) for back in ("", " back")}


def compiled_program(inputs, outputs):
    """The stops of a compiled program with so many inputs beside the one that is given. Programs with as many have the same; this is the shortest."""
    return ["section_code.h:if (Block::record(current).has_all()) [[likely]]", f"LDG*{4 * inputs}@section_code.h:program.inputs[i][e] = load_shared",
            f"ST*{4 * outputs}@section_code.h:if (e < count) to[o][e * step] = as<float>", "RET@section_code.h:run_known()"]


PROGRAMS |= {"momentum": compiled_program(3, 2), "Adam": compiled_program(4, 3),
             "elements": ["section_code.h:LAMINA_CALLED_MEMBER void elements(", *(f"{op}@section_code.h:if (known != section::kInterpreted) return run_known(" for op in ("CALL", "RET"))]}
ON_EIGHT = " on 8 warps"
AHEAD = ["LDGDEPBAR@section_kernel.h:ahead.go_on(b, b.current + 1);", "LDGSTS@section_records.h:copy_async<kPart>", "LDGSTS@section_records.h:copy_async<4>(",
         "STS@section_records.h:r.addresses[l] = "]
FETCHED = "section_fetch.h:if (brought > 2) tell_in_block(arrived, brought - 2);"
WEIGHTS = "LDGSTS*16@section_fetch.h:copy_async<16>(to + i * kRowsAtOnce * kLeading"
WAYS = {"forward": [TURN, PRODUCTS, f"FADD@{RESULTS}", TURN],
        "gradient": [TURN, PRODUCTS, "activations.h:return y > 0 ? dy : T(0);", TURN],
        "stores": [TURN, "STG*4@section_store.h:store_marked(handed + r * kPiece + c", f"ST*2@{STORED}", TURN],
        "hands": [TURN, "STG*4@section_store.h:store_marked(handed + r * kPiece + c"],
        "takes": ["LDG*4@section_store.h:values[r][i] = load_marked(", "STS*4@section_store.h:rows[r * kMostWidth + column(i)] = r < in_pass", TURN],
        "weights": [TURN, f"LDS*64@{OF_COLUMN}", TURN], "weights back": [TURN, "LDS*16@four.h:four_in_order()", TURN],
        "dropout": [TURN, "section_chain.h:for (int r = 0; r < R; ++r) sums[r] = x[r", "section_pieces.h:if (kind == LinkKind::dropout) return side", TURN],
        "chain": [OVER, "section_pieces.h:to.signal = s.signal, to.kind", "BAR@section_chain.h:sync_block();  // the links are found"],
        "known chain": [OVER, "CALL@section_chain.h:run_roles<few, back>("],
        "first piece": ["section_chain.h:const ChainMemory memory(b.chains, count)", WEIGHTS, FETCHED],
        "fetch": [FETCHED, WEIGHTS, FETCHED],
        "ahead": AHEAD,
        "step": [OVER, "section_interpreter.h:switch (kind) {", OVER],
        "loss": [OVER, "section_interpreter.h:good = cross_entropy(b, s) && good;", "LDG@section_rows.h:const WarpRow row(lanes, logits", "LDG@section_rows.h:label_at(labels, type, number)",
                 "DADD*10@section_rows.h:for (int k = 0; k < count; ++k) sum += of(e", "section_rows.h:row.store(probabilities", "section_rows.h:if (writes && begins) losses", OVER],
        "loss gradient": ["section_rows.h:const BlockStep s = b.step();  // all of it with one wait", "section_rows.h:const bool is_there = lanes", "LDG*2@section_rows.h:y[at] = (load_shared", "ST@section_rows.h:y[at] = (load_shared", "RET@section_rows.h:loss_gradient()"],
        "copy": [OVER, "section_rows.h:const Index next = rest[e] / n;", "LDG*4@section_rows.h:v[e] = load_shared_between_blocks(x + from[e]);",
                 "ST@section_rows.h:if (first + Index(e * kThreads) < end) y[to[e]] = v[e];", OVER],
        "mean": [OVER, "LDG*8@section_reduce.h:load_shared_between_blocks(x + first + begin + i * int(kWarp))", "FADD*6@section_reduce.h:default: return a + b;", "section_reduce.h:sum / float(n)",
                 "ST@section_reduce.h:if (lane() == 0) y[r] = v;", OVER],
        "stores of 20 rows": [TURN, "ST*20@section_many.h:put_two(to, values);", TURN], **MANY,
        **{name + bias: update_of(own, bias != "") for name, own in (("update", 4), ("whole update", 8)) for bias in ("", " with bias")}, **PROGRAMS, **{name + ON_EIGHT: way for name, way in PROGRAMS.items()}}
ROWS = "four.h:same_four_in_order()"  # one address for all lanes
OF_TURN = {"warps": 4, "broadcast": [ROWS]}  # a pair; and for the pipe to shared memory the other one, which loads weights
OF_MANY = {"warps": 4, "halved": [ROWS, "four.h:two_in_order()", "four.h:four_in_order()", "section_pieces.h:LAMINA_DEVICE ManyTask task(int of_place)"]}
UPDATES = [name for name in WAYS if "update" in name]
OF_UPDATE = {"warps": 8, "broadcast": [ROWS]}
OPTIONS = {**dict.fromkeys(WAYS, {}), **dict.fromkeys(["forward", "gradient"], OF_TURN), **dict.fromkeys(MANY, OF_MANY), **dict.fromkeys(["first piece", "fetch"], {"warps": 2}), **dict.fromkeys(UPDATES, OF_UPDATE),
           **{name + ON_EIGHT: {"warps": 8} for name in PROGRAMS}}
OF_LAYER = ["multiply=device_gpu.h:return __fmaf_rn(a, b, c);", f"loads of rows={ROWS}", "loads of weights=four.h:four_in_order()", f"barrier={TURN[4:]}"]
OF_STEP = ["fetch and dispatch=section_kernel.h:while (b.position < count)..if (!run_step<of_ranks>(b, s)) break;", "chain=section_chain.h:run_chain()"]
PARTS = {**dict.fromkeys(WAYS, OF_STEP), **dict.fromkeys(["forward", "gradient", *MANY], OF_LAYER), **dict.fromkeys(["first piece", "fetch"], ["copies of weights=section_fetch.h:copy_weights()", "task=section_pieces.h:Task task_of(const Pieces& p, const Link& link, unsigned number, int rows_of) {"]),
         **dict.fromkeys(UPDATES, ["loads of rows=section_batch.h:ask()", f"multiply={OF_LAYER[0].split('=')[1]}", f"rows to registers={ROWS}"])}
# The kinds of steps, for static counts of instructions.
STEPS = ["dense_update", "elementwise", "reduce", "log_softmax", "sparse_cross_entropy", "dropout", "copy"]
STEP_PARTS = ["dense_update=section_update.h:update()", "elementwise=section_interpreter.h:case StepKind::elementwise:..elementwise(b, s);",
              "sparse_cross_entropy=section_interpreter.h:good = cross_entropy(b, s) && good;",
              *(f"{step}=section_interpreter.h:case StepKind::{step}:" for step in STEPS[2:] if step != "sparse_cross_entropy")]

if __name__ == "__main__":
    arguments = sys.argv[1:]
    library = arguments.pop(0) if arguments and not arguments[0].startswith("-") else LIBRARY
    for name, way in WAYS.items():
        print(f"--- {name}", flush=True)
        options = OPTIONS[name]
        given = ["--warps", str(options.get("warps", 1)), *(word for kind in ("broadcast", "halved") if kind in options for word in (f"--{kind}", *options[kind]))]
        done = subprocess.run([sys.executable, os.path.join(HERE, "cycles.py"), library, "section_kernel", "--way", *way, "--part", *PARTS[name], *given, *arguments])
        if done.returncode != 0:
            sys.exit(done.returncode)
