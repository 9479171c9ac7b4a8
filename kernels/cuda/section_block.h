// One block of the section kernel: its position and its shared memory.
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
};

// A chain of products (section_chain.h): threads that compute, and that fetch.
inline constexpr int kComputeThreads = 128, kFetchThreads = 64;
inline constexpr int kFewRows = section::kFewRowsInPass;

using Rows = section::Share<int>;

// An operand of the first model, and how far apart those of two models are.
struct alignas(16) Address {
  char* at;
  long long per_model;
  template <class T>
  LAMINA_DEVICE T* of(int model) const {
    return reinterpret_cast<T*>(at + model * per_model);
  }
};
// A step with its operands, brought to shared memory while steps before it run (section_records.h).
struct alignas(16) Record {
  static constexpr int kOperands = section::kOperandsAtHand;
  BlockStep step;
  alignas(16) BlockOperand operands[kOperands];  // the first ones of the step
  Address addresses[kOperands];
  LAMINA_DEVICE int all() const { return step.ins + step.outs; }
  LAMINA_DEVICE bool has_all() const { return all() <= kOperands; }
  LAMINA_DEVICE int here() const { return has_all() ? all() : kOperands; }
};
static_assert(sizeof(BlockStep) <= 4 * kWarp);

// Shared memory, in floats. Fits cards with 99 KB per block.
inline constexpr int kPiece = section::kPiece;
inline constexpr int kLeading = kPiece + 4;                // stride of a row of weights: 16-byte reads of 8 neighbours hit every bank once
inline constexpr int kFewestPlaces = 4, kMostPlaces = 11;  // of the ring: pieces that are there, on their way or in use
inline constexpr int kTaskFloats = 8;
inline constexpr int kTaskAt = kPiece * kLeading, kSideAt = kTaskAt + kTaskFloats,
                     kPlaceFloats = kSideAt + kFewRows * kPiece;  // of a place: weights, task, bias or mask
inline constexpr int kFirstRows = 4;                              // pieces of the first product whose rows are there or on their way
inline constexpr int kMostWidth = section::kMostBlockWidth;
inline constexpr int kLinkFloats = 16, kMostLinks = section::kMostLinks;
inline constexpr int kScratchFloats = 3072;
inline constexpr int kChainWords = 8;     // ChainMemory's
inline constexpr int kLaunchFloats = 64;  // Launch's
inline constexpr unsigned kRecords = 4;   // the step that runs, and three behind it
inline constexpr int kRecordsAt = 0, kRecordFloats = sizeof(Record) / 4;
inline constexpr int kLinksAt = kRecordsAt + int(kRecords) * kRecordFloats, kRowsAt = kLinksAt + kMostLinks * kLinkFloats,
                     kFirstRowsAt = kRowsAt + 2 * kFewRows * kMostWidth, kWordsAt = kFirstRowsAt + kFirstRows * kFewRows * kPiece,
                     kTurnsAt = kWordsAt + 2 * kChainWords, kLaunchAt = kTurnsAt + (int(sizeof(Turns)) + 15) / 16 * 4,
                     kRingAt = kLaunchAt + kLaunchFloats;
// Other steps use the ring between chains: all of it as registers of elementwise programs, or its end as scratch memory.
inline constexpr int kFreeFloats = kFewestPlaces * kPlaceFloats, kScratchAt = kRingAt + kFreeFloats - kScratchFloats;
static_assert(kTurnsAt % 4 == 0 && kWordsAt % 4 == 0);
LAMINA_DEVICE constexpr unsigned shared_bytes(int places) { return unsigned(kRingAt + places * kPlaceFloats) * 4; }
static_assert(shared_bytes(kFewestPlaces) <= 99 * 1024 && shared_bytes(kMostPlaces) <= 227 * 1024);
// Places of the ring on a card whose blocks have so much shared memory.
constexpr int places_within(size_t bytes) {
  int places = kFewestPlaces;
  while (places < kMostPlaces && shared_bytes(places + 1) <= bytes) ++places;
  return places;
}

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
// Behind these words, the handed numbers.
LAMINA_SCALAR constexpr int handed_at(const BlockProgram& p) { return (p.counters + kStateWords + 31) / 32 * 32; }
LAMINA_SCALAR constexpr int words_of_state(const BlockProgram& p) { return handed_at(p) + 2 * p.handed; }
// Why a launch stops: Fault::which.
enum Stop : int { kBadLabel, kStuck, kStopped };
inline constexpr unsigned kMostPolls = 1u << 26;

// What is the same for all blocks. A block keeps a copy in shared memory: generic loads of a kernel's arguments go through the L1 cache,
// which each wait for another block empties.
struct Launch {
  const char* program;
  BlockProgram places;
  unsigned* state;  // counters, then the words above, then handed numbers
  FaultSite faults;
  section::BlockClock* clock;           // per block: each position in its list, then the block itself; null: off
  unsigned long long most_nanoseconds;  // time after which the launch leaves its loops, to be relaunched; 0: never
  int goes_on;                          // continues where the last launch left
  int ring;                             // its places
  int rank;
  unsigned launch;       // number of this launch, the same on all ranks
  char* const* windows;  // of each sum over ranks in turn, on rank 0, 1, ...; null: there are none
};
static_assert(sizeof(Launch) <= 4 * kLaunchFloats && alignof(Launch) <= 16);
struct Arguments : Launch {
  char* at[section::kMostBases];
};

}  // namespace lamina::kernels::cuda::resident
namespace lamina::kernels::cuda {
// Of sections with sums over ranks: their steps' code would cost the other sections' kernel registers.
void launch_of_ranks(Stream& stream, const LaunchShape& shape, const resident::Arguments& a);
}  // namespace lamina::kernels::cuda
namespace lamina::kernels::cuda::resident {

LAMINA_DEVICE int least(int a, int b) { return a < b ? a : b; }
LAMINA_DEVICE int most(int a, int b) { return a > b ? a : b; }

struct Block {
  char* const* const at;  // the launch's
  const int* const list;  // of steps
  const int count;
  int position = 0;  // index into the list
  int current = 0;   // its record
  int chains = 0;    // that it has run
  int model = 0;
  bool timed = false;  // by this thread

  unsigned met = 0;  // barriers of all blocks in this launch
  unsigned long long began = 0;

  LAMINA_DEVICE Block(char* const* addresses, const int* steps, int n) : at(addresses), list(steps), count(n) {}

  LAMINA_DEVICE static const Launch& launch() { return *reinterpret_cast<const Launch*>(dynamic_shared<float>() + kLaunchAt); }
  LAMINA_DEVICE static void bring_launch(const Launch& given) {
    const unsigned* from = reinterpret_cast<const unsigned*>(&given);
    unsigned* to = dynamic_shared<unsigned>() + kLaunchAt;
    if (const unsigned t = thread_index(); t < sizeof(Launch) / 4) to[t] = from[t];
    sync_block();
  }

  // In the device's memory: any step of the list, and all operands.
  LAMINA_DEVICE const BlockStep& listed(int at) const { return reinterpret_cast<const BlockStep*>(launch().program)[list[at]]; }
  LAMINA_DEVICE const BlockOperand* all_operands() const {
    return reinterpret_cast<const BlockOperand*>(launch().program + launch().places.operands_at);
  }
  LAMINA_DEVICE static Record& record(int which) {
    return reinterpret_cast<Record*>(dynamic_shared<float>() + kRecordsAt)[unsigned(which) % kRecords];
  }
  LAMINA_DEVICE const BlockStep& step() const { return record(current).step; }
  // Operand i of the current step is operands()[i]; their numbers are those of the table.
  LAMINA_DEVICE const BlockOperand* operands() const {
    return record(current).has_all() ? record(current).operands - step().first_in : all_operands();
  }
  LAMINA_DEVICE const int* code(int at) const { return reinterpret_cast<const int*>(launch().program + launch().places.codes_at) + at; }
  template <class T>
  LAMINA_DEVICE T* data(int i) const {
    if (!record(current).has_all()) [[unlikely]]
      return data<T>(all_operands()[i], model);
    return record(current).addresses[i - step().first_in].of<T>(model);
  }
  LAMINA_DEVICE Address address(const BlockOperand& o) const { return {data<char>(o), o.model_stride * o.element_bytes}; }
  template <class T>
  LAMINA_DEVICE T* data(const BlockOperand& o, int model = 0) const {
    return reinterpret_cast<T*>(at[o.base] + o.offset + turns().moved[o.mover] + model * o.model_stride * o.element_bytes);
  }
  // Operand i of the current step, below Record::kOperands.
  template <class T>
  LAMINA_DEVICE T* operand(int i) const {
    return record(current).addresses[i].of<T>(model);
  }

  LAMINA_DEVICE unsigned long long* handed() const {
    return reinterpret_cast<unsigned long long*>(launch().state + handed_at(launch().places));
  }
  LAMINA_DEVICE static Turns& turns() { return *reinterpret_cast<Turns*>(dynamic_shared<float>() + kTurnsAt); }
  LAMINA_DEVICE static float* scratch() { return dynamic_shared<float>() + kScratchAt; }
  LAMINA_DEVICE static float* ring() { return dynamic_shared<float>() + kRingAt; }

  // The rows of the batch that this block has in a step.
  LAMINA_DEVICE Rows rows_of(const BlockStep& s) const {
    if (s.partition == Partition::models || s.partition == Partition::one) return {0, s.rows};
    return section::share(s.rows, s.each, int(block_index()) - s.first_block, s.blocks);
  }
  LAMINA_DEVICE Rows models_of(const BlockStep& s) const {
    if (s.partition != Partition::models) return {0, 1};
    return section::share(s.replicas, s.each, int(block_index()) - s.first_block, s.blocks);
  }
};

// Of a poll without success: whether to go on. False: the launch stops, because another block stopped it or there were too many.
LAMINA_DEVICE bool goes_on(const Block& b, unsigned polls) {
  const Launch& a = b.launch();
  if (polls % 16 != 15) return true;  // the abort word is as far away as what is waited for
  unsigned* abort = a.state + a.places.counters + kAbort;
  if (load_acquire(abort) != 0) return false;
  if (polls >= kMostPolls) {
    report(a.faults, kStuck, b.list[b.position], 0, 0);
    atomic_cas(abort, 0u, 1u);
    return false;
  }
  pause();
  return true;
}
// Waits until `reached` accepts the word's value. False: the launch stops, because another block stopped it or the wait timed out.
template <class F>
LAMINA_DEVICE bool poll(const Block& b, const unsigned* word, const F& reached) {
  for (unsigned polls = 0; !reached(load_acquire(word)); ++polls)
    if (!goes_on(b, polls)) return false;
  return true;
}

// Of a step or link, by one of `threads` threads: polls its part of the counters. False when the launch should stop.
LAMINA_DEVICE bool wait_for_others(const Block& b, int first_wait, int waits, int thread, int threads) {
  const Launch& a = b.launch();
  const unsigned times = b.turns().begun[b.step().run];  // counters keep counting when a run repeats
  const section::BlockWait* all = reinterpret_cast<const section::BlockWait*>(a.program + a.places.waits_at) + first_wait;
  bool good = true;
  for (int w = thread; w < waits; w += threads)
    good = poll(b, a.state + all[w].counter, [&](unsigned value) { return int(value - unsigned(all[w].until) * times) >= 0; }) && good;
  return good;
}

}  // namespace lamina::kernels::cuda::resident
