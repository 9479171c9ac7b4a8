// What the section kernel sees of a section: plain data, copied to the device as it is.
#pragma once
#include <cstdint>

#include "kernels/section/table.h"
#include "runtime/core/dtype.h"
#include "runtime/core/precision.h"
#include "runtime/core/view.h"

namespace lamina::section {

inline constexpr int kBlockThreads = 256;
inline constexpr int kMostBlockWidth = 256;  // n of a dense step
inline constexpr int kMostBases = 1000;      // their addresses are arguments of the launch, of which there may be 32 KB
inline constexpr int kRowsPerSpine = 3;      // of a batch that is small enough
// Shared memory, in floats: what the kernel has of its own; the most rows of a batch that one block of a cluster hands to another.
inline constexpr int kOwnFloats = 24836, kHandedFloats = 2304;
// What a section may have of loops and branches: their state lies in each block's shared memory.
inline constexpr int kMostTurns = 128, kMostMovers = 128, kMostLoops = 32;

// Which elementwise ops the kernel computes: of f32 all that take floats; of the others what counters and learning rates are made of.
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

struct BlockStep {
  StepKind kind = StepKind::copy;
  Activation activation = Activation::none;
  Reduction reduction = Reduction::sum;
  Broadcast reduced = Broadcast::full;
  Partition partition = Partition::one;
  uint8_t has_bias = 0, has_mask = 0;
  uint8_t prefetch = 0;  // dense: the weights may be read as soon as the launch begins
  int32_t rows = 0, k = 0, n = 0;
  int32_t code = -1, code2 = -1;  // where they begin in BlockProgram::codes
  int32_t extras = 0;
  float scalar = 0;
  int32_t replicas = 1;
  int32_t first_in = 0, ins = 0, first_out = 0, outs = 0;
  int32_t first_block = 0, blocks = 1;
  int32_t first_wait = 0, waits = 0;
  int32_t signal = -1;  // a counter that each of its blocks raises by 1
  int32_t copy = -1;    // into BlockProgram::copies
  // Of code and code2 where they are `w - rate * g`: which of their inputs are w and rate; then the interpreter of codes is not needed.
  int32_t descent_w = -1, descent_rate = -1, descent_w2 = -1, descent_rate2 = -1;
  int32_t run = 0;  // of steps without a turn between them: which
  Precision precision = Precision::float32;
  uint8_t handed = 0;  // product: its rows lie in the block's inbox
  // In a cluster:
  int32_t resident = -1;  // product: where in shared memory its weights lie, which stay there
  int16_t renews = -1;    // of BlockProgram::residents: what the step writes, brought again behind it
  int16_t hands_to = -1;  // product: the block whose inbox gets its rows too
};
static_assert(sizeof(BlockStep) % 8 == 0);
struct BlockOperand {
  int32_t buffer = 0;
  int32_t base = 0;          // whose address the launch gives
  int64_t offset = 0;        // bytes from there
  int64_t model_stride = 0;  // elements
  Broadcast broadcast = Broadcast::full;
  DType dtype = DType::f32;
  int16_t element_bytes = 4;
  int32_t mover = 0;  // by which the address moves with the iterations of loops
};
struct BlockWait {
  int32_t counter = 0, until = 0;  // per time that its run has begun
};
struct BlockCopy {
  int32_t rank = 0, element_bytes = 4;
  int64_t shape[kMaxRank] = {}, from[kMaxRank] = {}, to[kMaxRank] = {};
};
// A code is: inputs, constants, instructions, outputs, whether some number has 8 bytes; then types of inputs; of each constant its type and
// 8 bytes; of each instruction op, type and result in one, a, b and c; of each output its register and type.
inline constexpr int kCodeHeader = 5, kCodeConstant = 3, kCodeInstruction = 4, kCodeOutput = 2;

// Floats from one row of a matrix that is n wide to the next one in shared memory (section_block.h says why).
constexpr int padded_width(int n) { return (n + 3) / 4 * 4 + 4; }
// Weights that stay in a block's shared memory for a launch: floats [rows, n], rows padded_width(n) apart.
struct BlockResident {
  int32_t operand = 0, at = 0, rows = 0, n = 0;
};

// Where a straight run of steps ends. A turn is a step of the kind loop, whose code is its number; run number + 1 follows it.
enum class Turn : uint8_t {
  scan,    // one begins: how many slices there are. With none it goes to the target, which is its `again`
  loop,    // a while_loop begins
  test,    // its condition was made: into the body, or to the target
  again,   // an iteration has ended: back to the target unless it was the last
  branch,  // into what follows where the bool is true, else to the target
  leave,   // what is done where it is true has ended: to the target
  meet,    // a barrier and nothing else
};
struct BlockTurn {
  Turn turn = Turn::meet;
  uint8_t barrier = 1;                // of all blocks, before anything is decided
  uint8_t always = 0;                 // again: also of a while_loop, whose condition decides
  uint8_t infeed = 0;                 // again: where a chunk of slices begins, it has come from the host
  int32_t loop = -1;                  // whose iterations it counts
  int32_t operand = -1;               // scan: the number of slices, or -1; test, branch: the bool
  int32_t result = -1;                // test: where the number of iterations goes
  int64_t limit = -1;                 // scan: the number of slices, or the most; loop: the most iterations, or -1
  int32_t target = -1;                // a step
  int32_t target_run = -1;            // the run that begins there; -1: another turn
  int32_t first_tail = 0, tails = 0;  // scan: results whose slices behind the last iteration's are zero
};
struct BlockMover {
  int32_t parent = -1;  // moves with that one too
  int32_t loop = 0;
  int64_t slice = 0;  // bytes from one iteration to the next one
  int32_t reverse = 0;
  int32_t ring = 0;  // so many slices lie one after the other, the next one where the first was; 0: all of them
};
struct BlockTail {
  int32_t operand = 0, unused = 0;
  int64_t bytes = 0;  // of a slice
};

// What the clock of steps keeps of one place in a block's list.
struct BlockClock {
  unsigned long long began = 0, ended = 0;  // nanoseconds of a clock that all blocks share, of the last time
  unsigned long long
      waited = 0,
      busy = 0;  // cycles of the block's multiprocessor, of all times. Of the block itself: nanoseconds and cycles of all launches
  unsigned long long times = 0;
};

// Places in one piece of memory on the device.
struct BlockProgram {
  int32_t blocks = 1, steps = 0, counters = 0, bases = 0;
  int32_t loops = 0, movers = 1;
  int32_t turns_at = 0, targets_at = 0, movers_at = 0, tails_at = 0;   // turn t sends block b to its list's place targets[t * blocks + b]
  int32_t operands_at = 0, waits_at = 0, copies_at = 0, codes_at = 0;  // bytes; steps come first
  int32_t lists_at = 0, starts_at = 0;                                 // block b takes steps lists[starts[b]] to lists[starts[b + 1] - 1]
  // Of a plan whose blocks are one cluster; shared memory in floats. Counter c is word places[c] & 0xffff of block places[c] >> 16; the
  // first word of block 0 counts who has met.
  int32_t cluster = 0, inbox_at = 0, words_at = 0, words = 0, shared_floats = kOwnFloats;
  int32_t counter_places_at = 0, residents_at = 0, resident_starts_at = 0;  // block b keeps residents starts[b] to starts[b + 1] - 1
  int32_t chunk = 0;                                                        // slices that come from the host at a time; 0: none do
};

}  // namespace lamina::section
