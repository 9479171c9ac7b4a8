// A section as the GPU's kernel sees it: plain data, copied to the device as it is.
#pragma once
#include <cstdint>

#include "kernels/known_codes.h"
#include "kernels/section/table.h"
#include "runtime/core/dtype.h"
#include "runtime/core/view.h"

namespace lamina::section {

inline constexpr int kBlockThreads = 256;
inline constexpr int kMostBlockWidth = 256;  // n of a dense step
inline constexpr int kMostBases = 1000;      // their addresses are launch arguments, which are limited to 32 KB
inline constexpr int kRowsPerSpine = 2;      // batch rows per spine block (blocks.h), for small batches
inline constexpr int kPiecesOfSet = 20;      // of weights: forward, for each set of spines (blocks.h), about
inline constexpr int kPiece = 64;            // most sums, and most terms of a sum, in a piece of weights of a chain
inline constexpr int kMostLinks = 128;       // products that a block runs as one chain (chains.h)
// Batch rows that a chain takes at once: up to two in one form of the kernel; in the other one, up to 20, in four groups.
inline constexpr int kFewRowsInPass = 2, kRowGroups = 4, kMostRowsInPass = 20;
// Passes over a block's rows, if they are many, and the rows that each group has of a pass: 1, 3 or 5.
LAMINA_SCALAR constexpr int passes_of(int rows) { return (rows + kMostRowsInPass - 1) / kMostRowsInPass; }
LAMINA_SCALAR constexpr int rows_of_group(int in_pass) { return in_pass <= kRowGroups ? 1 : in_pass <= 3 * kRowGroups ? 3 : 5; }
inline constexpr int kUpdateRows = 32, kUpdateColumns = 64;  // of weights, that a block updates at once
// Limits of loops and branches in a section: their state is in each block's shared memory.
inline constexpr int kMostTurns = 128, kMostMovers = 128, kMostLoops = 32;

// The elementwise ops that the kernel supports: for f32 all that take floats, for other types those used by counters and learning rates.
LAMINA_SCALAR constexpr bool block_computes(kernels::ScalarOp op, DType t) {
  using kernels::Domain, kernels::ScalarOp;
  const Domain d = kernels::domain(op);
  if (d == Domain::any) return true;
  if (d == Domain::boolean) return t == DType::boolean;
  switch (op) {
    case ScalarOp::add:
    case ScalarOp::sub:
    case ScalarOp::mul:
    case ScalarOp::neg:
    case ScalarOp::maximum:
    case ScalarOp::minimum: return t != DType::boolean;
    case ScalarOp::div:
    case ScalarOp::sqrt:
    case ScalarOp::pow:
    case ScalarOp::exp:
    case ScalarOp::log:
    case ScalarOp::rsqrt:
    case ScalarOp::square:
    case ScalarOp::reciprocal: return t == DType::f32 || t == DType::f64;
    default: return t == DType::f32 && (d == Domain::floating || d == Domain::numeric);
  }
}

template <class Int>
struct Share {
  Int begin, end;
  LAMINA_SCALAR constexpr Int size() const { return end - begin; }
  LAMINA_SCALAR constexpr bool empty() const { return begin >= end; }
};
// Part `part` of 0 to count: the first parts have one more where they cannot be equal. each: count / parts.
template <class Int>
LAMINA_SCALAR constexpr Share<Int> share(Int count, Int each, int part, int parts) {
  const Int more = count - each * parts, begin = part * each + (part < more ? part : more);
  return {begin, begin + each + (part < more ? 1 : 0)};
}
template <class Int>
LAMINA_SCALAR constexpr Share<Int> share(Int count, int part, int parts) {
  return share(count, count / parts, part, parts);
}

// What a step may be in a chain (chains.h): a product, or f(x, other) of the rows x before it, element by element.
enum class LinkKind : uint8_t {
  none,
  product,
  dropout,
  slope,  // x through the gradient of an activation at other
  add,
  multiply,
  activate,
};

// What a step's elementwise program is: one that the section kernel interprets, or the number of a compiled one: of known::kCodes,
// (p - (label == class)) * constant, the gradient of a classification's loss, for rows, or an update's that stores the gradient: the kernel
// for sums over ranks has this one.
inline constexpr int8_t kInterpreted = -1, kLossGradient = kernels::kKnownCodes, kStored = kernels::kKnownCodes + 1;

inline constexpr int kOperandsAtHand = 20;  // of a step: in a block's shared memory with their addresses. An update by AdamW has 18
struct BlockStep {
  StepKind kind = StepKind::copy;
  Activation activation = Activation::none;
  Reduction reduction = Reduction::sum;
  Broadcast reduced = Broadcast::full;
  Partition partition = Partition::one;
  uint8_t has_bias = 0, has_mask = 0;
  uint8_t zeroed = 0;  // copy: the result, before its parts are written
  int32_t rows = 0, k = 0, n = 0;
  int32_t code = -1, code2 = -1;  // offsets into BlockProgram::codes
  int32_t extras = 0;
  float scalar = 0;
  int32_t replicas = 1;
  int32_t first_in = 0, ins = 0, first_out = 0, outs = 0;
  int32_t first_block = 0, blocks = 1;
  int32_t first_wait = 0, waits = 0;
  int32_t signal = -1;  // a counter that each of the step's blocks increments
  int32_t copy = -1;    // index into BlockProgram::copies of the first input's; its result is one operand
  // If code or code2 is `w - rate * g`: which of its two inputs behind g is w; the other one is the rate. Then no interpreter is needed. A
  // bias is updated so only if the step has at most kOperandsAtHand.
  int8_t descent = -1, descent2 = -1;
  int32_t run = 0;    // number of its run: steps without a turn between them
  int16_t chain = 0;  // the first product of a chain: how many of the block's next steps belong to it, itself included
  uint8_t early = 0;  // and its waits are for the product's rows only: weights are brought before (chains.h)
  uint8_t unused = 0;
  // A link whose results are the rows of a chain on other blocks: they go there as handed numbers (BlockProgram), the first of which this
  // is; and that chain's first product.
  int32_t hands = -1, takes = -1;
  LinkKind link = LinkKind::none;
  Activation link_activation = Activation::none;
  int8_t known = kInterpreted, known2 = kInterpreted;  // what code and code2 are
  int32_t each = 0;  // what each part has at least: models, rows of an update's weights or rows of the batch. A GPU divides slowly
  // So many neighbouring blocks have the same part of an update: rows of the weights, whose columns they share; where a kernel of ranks
  // has a leaf for each part, this leaf, whose rows they share.
  int32_t neighbours = 1;
  int32_t announces = -1, announces2 = -1;  // an update: values of sums over ranks that its results are. They go to windows
};
LAMINA_SCALAR constexpr bool announces(const BlockStep& s) { return s.kind == StepKind::announce || s.announces >= 0 || s.announces2 >= 0; }
LAMINA_SCALAR constexpr int parts_of(const BlockStep& s) { return s.neighbours == 1 ? s.blocks : s.blocks / s.neighbours; }
// What the parts share.
constexpr int shared_count(const BlockStep& s) {
  if (s.partition == Partition::models) return s.replicas;
  return s.kind == StepKind::dense_update ? s.k : s.rows;
}
// The columns of an update's weights that a part has: whole tiles.
LAMINA_SCALAR constexpr Share<int> update_columns(const BlockStep& s, int part) {
  if (s.neighbours == 1) return {0, s.n};
  const Share<int> tiles = share((s.n + kUpdateColumns - 1) / kUpdateColumns, part, s.neighbours);
  const int end = tiles.end * kUpdateColumns;
  return {tiles.begin * kUpdateColumns, end < s.n ? end : s.n};
}
struct BlockOperand {
  int32_t buffer = 0;
  int32_t base = 0;          // address passed by the launch
  int64_t offset = 0;        // bytes from there
  int64_t model_stride = 0;  // elements
  Broadcast broadcast = Broadcast::full;
  DType dtype = DType::f32;
  int16_t element_bytes = 4;
  int32_t mover = 0;  // moves the address with the iterations of loops
};
struct BlockWait {
  int32_t counter = 0, until = 0;  // target value per start of its run
};
struct BlockCopy {
  int32_t rank = 0, element_bytes = 4;
  int64_t shape[kMaxRank] = {1}, from[kMaxRank] = {}, to[kMaxRank] = {};
  int64_t row = 1;     // elements of an entry of the leading axis
  int64_t offset = 0;  // bytes in the result
};
// A window's first word is not 0 when the host has ended this rank's part of the job. Behind it are the flags of both buffers' values: the
// number of the launch that has written the value.
inline constexpr int kWindowFlags = 32;  // the first of them, on a line of its own
// A value of a sum over ranks (rank_sums.h).
struct BlockSum {
  int32_t window = 0, ranks = 1;         // the sum's number
  int32_t first_root = 0, roots = 0;     // of all ranks
  int32_t flag = 0, flags = 0;           // word of its flag in the first buffer; words of a buffer
  int64_t at = 0, buffer = 0, root = 0;  // bytes of the first root in the first buffer; of a buffer; from a root to the rank's next
};
struct BlockRoot {
  int32_t rank = 0, number = 0;  // among its rank's
  int32_t joins = 0;             // how often to join the stack's two uppermost sums behind it
};
// A code is: numbers of inputs, constants, instructions, outputs and registers, and whether a register has 8 bytes; then the inputs' types:
// input i is in register i; per constant its type and 8 bytes; per instruction op, type and result in one word, a, b and c, and the
// register of its result; per output its register and type. a, b and c are registers, or ~i for constant i.
inline constexpr int kCodeHeader = 6, kCodeConstant = 3, kCodeInstruction = 5, kCodeOutput = 2;
inline constexpr int kMostRegisters = 48;  // inputs, constants and instructions of a code; and its outputs
inline constexpr int kMostCodeWords = kCodeHeader + kMostRegisters * (kCodeInstruction + kCodeOutput);

// A turn ends a run of steps: a control-flow step of kind loop whose code is the turn's number. Run number + 1 follows it.
enum class Turn : uint8_t {
  scan,    // begins: sets the number of slices; with none, jumps to the target, its `again`
  loop,    // a while_loop begins
  test,    // after its condition: into the body, or to the target
  again,   // end of an iteration: to the target unless it was the last
  branch,  // continues if the bool is true, else to the target
  leave,   // end of the true branch: to the target
  meet,    // only a barrier
};
struct BlockTurn {
  Turn turn = Turn::meet;
  uint8_t barrier = 1;                // of all blocks, before the decision
  uint8_t always = 0;                 // of again: also for a while_loop, whose condition decides
  uint8_t infeed = 0;                 // of again: waits for the host where a chunk of slices begins
  int32_t loop = -1;                  // the loop whose iterations it counts
  int32_t operand = -1;               // scan: the number of slices, or -1; test, branch: the bool
  int32_t result = -1;                // test: receives the number of iterations
  int64_t limit = -1;                 // scan: the number of slices, or the maximum; loop: maximum of iterations, or -1
  int32_t target = -1;                // index of a step
  int32_t target_run = -1;            // the run that begins there; -1: another turn
  int32_t first_tail = 0, tails = 0;  // scan: results with slices after the last iteration, which are zeroed
};
struct BlockMover {
  int32_t parent = -1;  // the mover of the enclosing loop
  int32_t loop = 0;
  int64_t slice = 0;  // bytes per iteration
  int32_t reverse = 0;
  int32_t ring = 0;  // number of slices in a ring buffer; 0: all slices are there
};
struct BlockTail {
  int32_t operand = 0, unused = 0;
  int64_t bytes = 0;  // per slice
};

// Timing of one position in a block's list.
struct BlockClock {
  unsigned long long began = 0, ended = 0;  // nanoseconds on the clock shared by all blocks, last execution
  unsigned long long waited = 0,
                     busy = 0;  // total cycles of the multiprocessor. For the block itself: nanoseconds and cycles of all launches
  unsigned long long times = 0;
};

// Offsets in one piece of device memory.
struct BlockProgram {
  int32_t blocks = 1, steps = 0, counters = 0, bases = 0;
  int32_t loops = 0, movers = 1;
  int32_t turns_at = 0, targets_at = 0, movers_at = 0, tails_at = 0;   // turn t sends block b to targets[t * blocks + b] of its list
  int32_t operands_at = 0, waits_at = 0, copies_at = 0, codes_at = 0;  // bytes; steps come first
  int32_t lists_at = 0, starts_at = 0;                                 // block b runs steps lists[starts[b]] to lists[starts[b + 1] - 1]
  int32_t sums_at = 0, roots_at = 0;
  int32_t chunk = 0;  // slices copied from the host at a time; 0: none
  // Numbers that blocks hand to others in 8 bytes each, with a mark that the number is there. Whoever takes it removes the mark. All are 0
  // between launches.
  int32_t handed = 0;
};

}  // namespace lamina::section
