// One block of the section kernel: its position, its shared memory, and the weights being prefetched.
#pragma once
#include "kernels/cuda/scratch.h"
#include "kernels/section/block_table.h"

namespace lamina::kernels::cuda::resident {

using section::BlockOperand;
using section::BlockProgram;
using section::BlockStep;
using section::Broadcast;
using section::Partition;
using section::StepKind;

inline constexpr int kThreads = section::kBlockThreads;

// Position in loops and branches (section::Turn), the same in all blocks. In shared memory; only one thread changes it.
struct Turns {
  long long moved[section::kMostMovers];  // byte offset per mover
  long long iteration[section::kMostLoops], count[section::kMostLoops];
  unsigned begun[section::kMostTurns + 1];  // per run of steps: times started
  int jumps, leaves;                        // the last decision
  unsigned ended;                           // number of blocks that ended before this one
};

// Shared memory, in floats. Fits cards with 99 KB per block.
inline constexpr int kStepFloats = sizeof(BlockStep) / 4;
inline constexpr int kCachedSteps = 128;
inline constexpr int kStages = 3;          // pieces of weights in use or in flight
inline constexpr int kStageRows = 64;      // most rows of weights in a piece
inline constexpr int kStageFloats = 4352;  // 64 x 68, or 16 x 260
inline constexpr int kRowFloats = 2304;    // rows of a batch: 33 x 68, or 8 x 260
inline constexpr int kScratchFloats = 3072;
inline constexpr int kStepsAt = 0, kRingAt = kStepsAt + kCachedSteps * kStepFloats, kRowsAt = kRingAt + kStages * kStageFloats,
                     kScratchAt = kRowsAt + 2 * kRowFloats, kTurnsAt = kScratchAt + kScratchFloats,
                     kSharedFloats = kTurnsAt + (int(sizeof(Turns)) + 15) / 16 * 4;
static_assert(kTurnsAt % 4 == 0);
inline constexpr unsigned kSharedBytes = kSharedFloats * 4;
static_assert(kSharedBytes <= 99 * 1024);

// Words of the state after the counters. First come those that are 0 between launches, then the position at which the next launch
// continues, then those of an infeed: slices that have arrived, slices no longer needed, and whether the launch has ended.
enum StateWord : int {
  kEnded,
  kAbort,
  kArrived,
  kWordsOfALaunch,
  kGoOn = kWordsOfALaunch,
  kCome,
  kTaken,
  kLeft,
  kIterations,
  kStateWords = kIterations + 4 * section::kMostLoops
};
inline constexpr unsigned kLeaves = 1u << 31;  // bit of kArrived
// Why a launch stops: Fault::which.
enum Stop : int { kBadLabel, kStuck };
inline constexpr unsigned kMostPolls = 1u << 26;

struct Arguments {
  const char* program;
  BlockProgram places;
  unsigned* state;  // counters, then the words above
  FaultSite faults;
  section::BlockClock* clock;           // per block: each position in its list, then the block itself; null: off
  unsigned long long most_nanoseconds;  // time after which the launch leaves its loops, to be relaunched; 0: never
  int goes_on;                          // continues where the last launch left
  char* at[section::kMostBases];
};

// Waits until `reached` accepts the word's value. False: the launch stops, because another block stopped it or the wait timed out.
template <class F>
LAMINA_DEVICE bool poll(const Arguments& a, const unsigned* word, int step, const F& reached) {
  unsigned* abort = a.state + a.places.counters + kAbort;
  for (unsigned polls = 0; !reached(load_acquire(word)); ++polls) {
    if (load_acquire(abort) != 0) return false;
    if (polls == kMostPolls) {
      report(a.faults, kStuck, step, 0, 0);
      atomic_cas(abort, 0u, 1u);
      return false;
    }
    pause();
  }
  return true;
}

// Stride of a weight row in shared memory, in floats. 4 more than a multiple of 4: 16-byte reads of 8 neighbouring rows hit every bank
// once, and so do reads of 32 neighbours in one row.
LAMINA_DEVICE int padded(int n) { return (n + 3) / 4 * 4 + 4; }
LAMINA_DEVICE int least(int a, int b) { return a < b ? a : b; }
LAMINA_DEVICE int most(int a, int b) { return a > b ? a : b; }

struct Rows {
  int begin, end;
  LAMINA_DEVICE int size() const { return end - begin; }
};
LAMINA_DEVICE Rows share(long long count, int part, int parts) { return {int(count * part / parts), int(count * (part + 1) / parts)}; }

struct Block {
  const Arguments& arguments;
  float* const shared;
  const int* const list;  // of steps
  const int count;
  int position = 0;  // index into the list
  long long model = 0;

  // Prefetch position in the weights, in order of use.
  int ahead = 0, ahead_model = 0, ahead_row = 0, ahead_served = 0;
  unsigned asked = 0, taken = 0;  // pieces requested and consumed
  bool settled = false;           // the next piece has arrived, and a barrier has passed since
  // Rows of the batch that the previous step left in shared memory.
  int held_buffer = -1, held_at = 0, held_rows = 0;
  long long held_model = 0;
  unsigned met = 0;  // barriers of all blocks in this launch
  unsigned long long began = 0;

  LAMINA_DEVICE Block(const Arguments& a, float* memory, const int* steps, int n) : arguments(a), shared(memory), list(steps), count(n) {}

  LAMINA_DEVICE const BlockStep& step(int at) const {
    return at < kCachedSteps ? reinterpret_cast<const BlockStep*>(shared + kStepsAt)[at]
                             : reinterpret_cast<const BlockStep*>(arguments.program)[list[at]];
  }
  LAMINA_DEVICE const BlockOperand* operands() const {
    return reinterpret_cast<const BlockOperand*>(arguments.program + arguments.places.operands_at);
  }
  LAMINA_DEVICE const BlockOperand& operand(int i) const { return operands()[i]; }
  LAMINA_DEVICE const int* code(int at) const { return reinterpret_cast<const int*>(arguments.program + arguments.places.codes_at) + at; }
  template <class T>
  LAMINA_DEVICE T* data(int i) const {
    const BlockOperand& o = operand(i);
    return reinterpret_cast<T*>(arguments.at[o.base] + o.offset + turns().moved[o.mover] + model * o.model_stride * o.element_bytes);
  }
  template <class T>
  LAMINA_DEVICE T* in(const BlockStep& s, int i) const {
    return data<T>(s.first_in + i);
  }
  template <class T>
  LAMINA_DEVICE T* out(const BlockStep& s, int i) const {
    return data<T>(s.first_out + i);
  }

  LAMINA_DEVICE Turns& turns() const { return *reinterpret_cast<Turns*>(shared + kTurnsAt); }
  LAMINA_DEVICE float* scratch() const { return shared + kScratchAt; }
  LAMINA_DEVICE float* rows_memory(int which) const { return shared + kRowsAt + which * kRowFloats; }
  LAMINA_DEVICE float* ring() const { return shared + kRingAt; }

  // --- products ---
  // How a dense step, or its gradient, is split; the same for all who ask.
  struct Cut {
    int stage_rows;  // of weights
    int columns;     // of the result per piece, rounded up to whole warps
    int groups;      // of threads, which take groups of four batch rows in turn
    int batch_rows;  // rows per pass over the weights
    int leading;     // stride of a batch row in shared memory, in floats
  };
  LAMINA_DEVICE static Cut cut(const BlockStep& s) {
    Cut c;
    c.stage_rows = least(kStageRows, kStageFloats / padded(s.n) / 4 * 4);
    c.columns = ((s.kind == StepKind::dense ? s.n : least(c.stage_rows, s.k)) + int(kWarp) - 1) / int(kWarp) * int(kWarp);
    c.groups = kThreads / most(c.columns, int(kWarp));
    c.leading = padded(s.kind == StepKind::dense ? least(c.stage_rows, s.k) : s.n);
    c.batch_rows = most(1, least(8 * c.groups, kRowFloats / c.leading));
    return c;
  }
  LAMINA_DEVICE static bool is_product(const BlockStep& s) { return s.kind == StepKind::dense || s.kind == StepKind::dense_grad_input; }
  // The rows of the batch that this block has in a step.
  LAMINA_DEVICE Rows rows_of(const BlockStep& s) const {
    if (s.partition == Partition::models || s.partition == Partition::one) return {0, s.rows};
    return share(s.rows, int(block_index()) - s.first_block, s.blocks);
  }
  LAMINA_DEVICE Rows models_of(const BlockStep& s) const {
    if (s.partition != Partition::models) return {0, 1};
    return share(s.replicas, int(block_index()) - s.first_block, s.blocks);
  }

  LAMINA_DEVICE float* stage(unsigned number) const { return ring() + number % kStages * kStageFloats; }

  // Requests pieces of weights, leaving one stage for the piece in use. Not requested: weights that an earlier step of the same run still
  // writes, anything while an update still needs the ring, and anything beyond the run.
  LAMINA_DEVICE void ask() {
    while (asked - taken < unsigned(kStages) - 1 && ahead < count)
      if (!ask_for(step(ahead))) return;
  }
  // Requests one piece for the step, if it still needs one. False: nothing can be requested yet.
  LAMINA_DEVICE bool ask_for(const BlockStep& s) {
    if (s.kind == StepKind::loop) return false;
    const Rows batch = rows_of(s), models = models_of(s);
    if (s.kind == StepKind::dense_update && ahead >= position) return false;
    if (is_product(s) && ahead > position && !s.prefetch) return false;
    if (!is_product(s) || batch.size() <= 0 || models.size() <= 0 || s.k == 0 || s.n == 0) {
      ++ahead;
      return true;
    }
    const Cut c = cut(s);
    const BlockOperand& w = operand(s.first_in + 1);
    const float* from = reinterpret_cast<const float*>(arguments.at[w.base] + w.offset + turns().moved[w.mover]) +
                        (models.begin + ahead_model) * w.model_stride + (long long)ahead_row * s.n;
    const int rows = least(c.stage_rows, s.k - ahead_row);
    copy_piece(from, rows, s.n, stage(asked));
    ++asked;
    ahead_row += rows;
    if (ahead_row < s.k) return true;
    ahead_row = 0;
    ahead_served += c.batch_rows;
    if (ahead_served < batch.size()) return true;
    ahead_served = 0;
    if (++ahead_model < models.size()) return true;
    ahead_model = 0;
    ++ahead;
    return true;
  }
  LAMINA_DEVICE static void copy_piece(const float* from, int rows, int n, float* to) {
    const int leading = padded(n);
    if (n % 4 == 0 && reinterpret_cast<size_t>(from) % 16 == 0) {
      const int pieces = n / 4;
      for (int i = int(thread_index()); i < rows * pieces; i += kThreads)
        copy_async<16>(to + i / pieces * leading + i % pieces * 4, from + 4 * (long long)i);
    } else {
      for (int i = int(thread_index()); i < rows * n; i += kThreads) copy_async<4>(to + i / n * leading + i % n, from + i);
    }
    commit_copies();
  }
  // Waits until this thread's part of the next piece has arrived.
  LAMINA_DEVICE void settle() {
    if (asked - taken > 1)
      wait_copies<1>();
    else
      wait_copies<0>();
  }
  // Returns the next requested piece of weights to all threads. All have finished with the previous piece, whose stage is reused.
  LAMINA_DEVICE const float* take() {
    if (!settled) {
      settle();
      sync_block();
    }
    settled = false;
    const float* piece = stage(taken);
    ++taken;
    ask();
    return piece;
  }
  // A barrier; also completes the next piece if one is in flight.
  LAMINA_DEVICE void sync() {
    if (asked != taken) {
      settle();
      settled = true;
    }
    sync_block();
  }
};

}  // namespace lamina::kernels::cuda::resident
