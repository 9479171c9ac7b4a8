#include "graph/cost/predict.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "graph/cost/costs.h"
#include "kernels/section/block_access.h"
#include "kernels/section/block_section.h"
#include "runtime/device/backend.h"

namespace lamina::cost {
namespace {

using section::BlockPlan;
using section::BlockStep;
using section::BlockTurn;
using section::StepKind;
using section::Turn;

// Vendor figures: boost clock, float32 multiply-add lanes per multiprocessor, memory bandwidth; and pieces of weights for which a
// multiprocessor's shared memory has places (kernels/cuda/section_block.h).
struct Card {
  const char* name;
  double gigahertz, lanes, gigabytes_per_second;
  int places;
};
constexpr Card kCards[]{{"h100", 1.98, 128, 3350, 11},
                        {"h200", 1.98, 128, 4800, 11},
                        {"a100", 1.41, 64, 2039, 8},
                        {"l40s", 2.52, 128, 864, 4},
                        {"rtx5090", 2.41, 128, 1792, 4}};

// Measured on an H200, and used for every card: perf/results, the step clock in these networks, and for the cache's rate a trial that was
// not kept. Instructions take about half as long again, or twice as long, as perf/gpu/section_steps.py counts them: warps share schedulers,
// caches of instructions and shared memory.
constexpr double kCacheBytesPerCycle = 17.5;  // per multiprocessor, from the L2 cache when all read different bytes
constexpr double kWordMicroseconds = 0.51, kMeetMicroseconds = 0.93;
constexpr double kStartMicroseconds = 4.7;  // of a section, from its launch to its first step
// A chain's pieces of weights, 64 x 64. Fetching one takes kFetchCycles, or more where each block reads other weights (in an ensemble of
// 100 models); they were measured when a piece took 840 or 2,350 cycles, most of it to fetch. The products of one on its rows take
// kPieceCycles or more, and cycles_of_many() with many rows, of which a group has 1, 3 or 5: not measured, but counted (351 forward, 348
// back; up to 735, 1,065 and 1,452) and rounded up. The start of a chain until its first piece is there, and of one that has more links
// than one warp finds at once. Rows from other blocks, from the word that tells of them on.
constexpr double kFetchCycles = 700, kFetchOfManyCycles = 2350, kPieceCycles = 370;
constexpr double cycles_of_many(int rows_of_group) { return rows_of_group == 1 ? 780 : rows_of_group == 3 ? 1130 : 1540; }
constexpr double kChainCycles = 7700, kLongChainCycles = 4000, kRowsCycles = 650;
// From rows that a block has made until they are another's: 574 in a trial on an H200, of which 107 are counted for its instructions. The
// kernel's are counted at 151 until the store, and 101 from the load on.
constexpr double kHandedCycles = 574 - 107 + 151 + 101;
// A step without its own work: measured when one of its warps waited for the next step's record, three loads one behind the other.
constexpr double kStepCycles = 2970, kLossCycles = 3960;
constexpr double kCopyCycles = 1300;  // of one element of each thread, when it took one at a time
// A tile of 32 x 64 weights of an update, and one of 64 x 64: without the batch, and for each of its rows.
constexpr double kTileCycles = 2520, kTileRowCycles = 19.5, kLargeTileCycles = 2250, kLargeTileRowCycles = 51;
// An interpreted program, for up to four elements of each thread: without its parts, with its words' way to shared memory (one load from
// the L2 cache); for an input; for an instruction that the interpreter has itself (f32 add, sub, mul); for each element of another one, a
// call; and for a result. With one warp to each scheduler, and with two. Counted in the machine code, times 1.6: so an LSTM's cell and its
// two sums took what was measured when each call was made for four elements.
constexpr double kProgramFactor = 1.6;
struct ProgramCycles {
  double start, input, quick, other, output;
};
constexpr ProgramCycles kProgramOfFewWarps{365 + 57 + 263, 420, 388, 127 + 106 + 26, 279},
    kProgram{425 + 66 + 263, 492, 470, 154 + 111 + 34, 343};
// A compiled program: momentum's for all without a root, Adam's for all with one. The gradient of a loss: eight rows of 32 classes at once.
struct CompiledCycles {
  double plain, with_root;
};
constexpr CompiledCycles kCompiledOfFewWarps{57 + 1017, 57 + 1501}, kCompiled{66 + 1467, 66 + 2078};
constexpr double kLossGradientCycles = 160;
constexpr int kElementsAtOnce = 4, kFewWarpsThreads = 128;
// A product in a launch of its own: beside the launch, and times its arithmetic at the card's peak rate. One that sums over a batch's rows
// has few multiprocessors for each 64 x 64 of its result. Both fitted to an H200's times of the benchmark at 1,024 and 8,192 rows: forward
// passes of 381 and 520 us, steps of 1,425 and 2,802 us.
constexpr double kProductMicroseconds = 2.3, kProductFactor = 1.6;
constexpr double kUpdateMicroseconds = 24, kUpdateMultiprocessors = 3;
// Operations per element outside of products.
constexpr double kElementFlops = 8;

const Card* card_of(Device device) {
  std::string name;
  for (char c : backend_of(device).properties(device).name)
    if (c != ' ') name.push_back(char(std::tolower(static_cast<unsigned char>(c))));
  for (const Card& card : kCards)
    if (name.find(card.name) != std::string::npos) return &card;
  return nullptr;
}

// The places for a block's pieces of weights.
struct Ring {
  std::vector<double> done;  // when the piece in the place is
  double brought = 0;        // when the last piece was
  size_t next = 0;           // place
};

// A section: each block's steps in order, with waits and barriers.
class SectionModel {
 public:
  // link: to the other ranks' devices
  SectionModel(const BlockPlan& plan, const Card& card, const Link& link)
      : plan_(plan),
        card_(card),
        link_(link),
        times_(size_t(plan.program.blocks)),
        rings_(size_t(plan.program.blocks)),
        raised_(size_t(plan.program.counters)) {
    const char* bytes = plan.bytes.data();
    places_ = {reinterpret_cast<const section::BlockOperand*>(bytes + plan.program.operands_at),
               reinterpret_cast<const section::BlockCopy*>(bytes + plan.program.copies_at),
               reinterpret_cast<const int32_t*>(bytes + plan.program.codes_at)};
    sums_ = reinterpret_cast<const section::BlockSum*>(bytes + plan.program.sums_at);
    for (const BlockStep& s : plan.steps)
      if (is_of_ranks(s.kind)) announced_.resize(std::max(announced_.size(), size_t(s.k) + 1));
  }

  std::optional<double> microseconds() {
    const bool known = run(0, plan_.steps.size());
    meet();
    if (!known) return {};
    return *std::max_element(times_.begin(), times_.end());
  }

 private:
  // Steps [begin, end), with complete loops and branches. False if a loop's number of iterations is unknown.
  bool run(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const BlockStep& s = plan_.steps[i];
      if (s.kind != StepKind::loop) {
        take(s);
        continue;
      }
      const BlockTurn& turn = plan_.turns[size_t(s.code)];
      meet();
      if (turn.turn == Turn::scan || turn.turn == Turn::loop) {
        const size_t again = turn_step(Turn::again, turn.loop, i);
        if (turn.limit < 0) return false;
        const double before = times_[0];
        if (!run(i + 1, again)) return false;
        meet();
        const double once = times_[0] - before;
        std::fill(times_.begin(), times_.end(), before + once * double(turn.limit));
        i = again;
      }
      // A branch counts both sides, and a condition all its tests: an upper bound.
    }
    return true;
  }
  size_t turn_step(Turn turn, int loop, size_t from) const {
    for (size_t i = from; i < plan_.steps.size(); ++i)
      if (plan_.steps[i].kind == StepKind::loop && plan_.turns[size_t(plan_.steps[i].code)].turn == turn &&
          plan_.turns[size_t(plan_.steps[i].code)].loop == loop)
        return i;
    return plan_.steps.size();
  }

  void meet() {
    const double all = *std::max_element(times_.begin(), times_.end()) + (times_.size() > 1 ? kMeetMicroseconds : 0);
    std::fill(times_.begin(), times_.end(), all);
  }

  void take(const BlockStep& s) {
    const bool in_chain = is_in_chain(s);
    double from = 0;
    for (int w = 0; w < s.waits; ++w)
      from = std::max(from, raised_[size_t(plan_.waits[size_t(s.first_wait + w)].counter)] + kWordMicroseconds);
    // All ranks are alike: another one's announcement comes a link's latency after this one's.
    if (s.kind == StepKind::collect) from = std::max(from, announced_[size_t(s.k)] + link_.latency - kEventMicroseconds);
    for (int b = s.first_block; b < s.first_block + s.blocks; ++b) {
      accesses_of(places_, s, b, accesses_);
      double& time = times_[size_t(b)];
      const double before = time;
      time = std::max(time, from);
      if (accesses_.empty()) continue;
      if (s.kind == StepKind::collect) {  // all blocks share the link
        const double bytes = double(sizeof(float)) * elements_of_sum(s, b) * sums_[s.k].roots * (sums_[s.k].ranks - 1) / sums_[s.k].ranks;
        time = link_is_free(time, bytes / link_.bytes);
      }
      if (in_chain)
        time = end_of_link(s, rings_[size_t(b)], before, std::max(from, taken_at(s, b)));
      else
        time += cycles(s, b) / cycles_per_microsecond();
      if (s.hands >= 0) handed_[{s.hands, b - s.first_block}] = time;
      if (s.signal >= 0) raised_[size_t(s.signal)] = std::max(raised_[size_t(s.signal)], time);
      // The last block finds by a counter that it is that.
      for (const int value : {s.kind == StepKind::announce ? s.k : -1, s.announces, s.announces2})
        if (value >= 0) announced_[size_t(value)] = std::max(announced_[size_t(value)], time + kWordMicroseconds);
    }
  }

  // When what takes the link so long has passed: it takes the first time from `from` on at which the link is free.
  double link_is_free(double from, double length) {
    auto next = link_taken_.begin();
    for (; next != link_taken_.end() && next->first < from + length; ++next) from = std::max(from, next->second);
    link_taken_.insert(next, {from, from + length});
    return from + length;
  }

  // Steps come in the table's order, and those of a chain follow each other on its blocks.
  bool is_in_chain(const BlockStep& s) {
    if (s.chain > 0) chain_ = &s, left_ = s.chain;
    const bool is_link =
        s.link != section::LinkKind::none && left_ > 0 && s.first_block == chain_->first_block && s.blocks == chain_->blocks;
    left_ -= is_link;
    return is_link;
  }
  double cycles_per_microsecond() const { return card_.gigahertz * 1e3; }
  // Of a sum over ranks, in a block's part.
  static double elements_of_sum(const BlockStep& s, int block) {
    const section::Share<int> chunks = section::share(s.rows, s.each, block - s.first_block, s.blocks);
    return std::max(0, std::min(chunks.end * section::kSumChunk, s.n) - chunks.begin * section::kSumChunk);
  }
  // A block's part of a step, whose accesses are accesses_.
  double cycles(const BlockStep& s, int block) const {
    if (s.kind == StepKind::dense_update) return kStepCycles + cycles_of_update(s);
    if (s.kind == StepKind::elementwise) return kStepCycles + cycles_of_elementwise(s);
    double bytes = 0;
    for (const section::BlockAccess& a : accesses_) bytes += double(a.end - a.begin);
    if (s.kind == StepKind::collect) bytes += double(sizeof(float)) * elements_of_sum(s, block) * sums_[s.k].roots;
    const double program =
        s.kind == StepKind::collect && s.code >= 0 && s.descent < 0
            ? std::ceil(elements_of_sum(s, block) / section::kSumChunk) * cycles_of_program(s.known, s.code, true, false, kElementsAtOnce)
            : 0;
    const double loss = s.kind == StepKind::sparse_cross_entropy ? kLossCycles : 0;  // of ten classes: sums in double, in order
    const double rounds = s.kind == StepKind::copy ? std::ceil(double(s.rows) * s.n / s.blocks / section::kBlockThreads) : 0;
    return kStepCycles + loss + program + std::max({flops(s) / (2 * card_.lanes), bytes / kCacheBytesPerCycle, rounds * kCopyCycles});
  }
  // given: the program's first input is not loaded. elements: of a thread, on average.
  double cycles_of_program(int8_t known, int32_t code, bool given, bool few_warps, double elements) const {
    if (known == section::kStored) return 0;  // as in gradient descent, this is a part of a tile's time
    if (known != section::kInterpreted) {
      const kernels::KnownCode& program = kernels::known::kCodes[known];
      const bool root = std::any_of(program.code, program.code + program.instructions,
                                    [](const auto& instruction) { return instruction.op == kernels::ScalarOp::sqrt; });
      const CompiledCycles& c = few_warps ? kCompiledOfFewWarps : kCompiled;
      return kProgramFactor * (root ? c.with_root : c.plain);
    }
    const int32_t* w = places_.codes + code;
    const ProgramCycles& c = few_warps ? kProgramOfFewWarps : kProgram;
    double cycles = c.start + (w[0] - given) * c.input + w[3] * c.output;
    const int32_t* instruction = w + section::kCodeHeader + w[0] + w[1] * section::kCodeConstant;
    for (int i = 0; i < w[2]; ++i, instruction += section::kCodeInstruction) {
      const auto op = kernels::ScalarOp(instruction[0] & 0xff);
      const bool quick = DType(instruction[0] >> 8 & 0xff) == DType::f32 &&
                         (op == kernels::ScalarOp::add || op == kernels::ScalarOp::sub || op == kernels::ScalarOp::mul);
      cycles += quick ? c.quick : elements * c.other;
    }
    return kProgramFactor * cycles;
  }
  double cycles_of_elementwise(const BlockStep& s) const {
    const bool by_models = s.partition == section::Partition::models;
    const double models = by_models ? std::ceil(double(s.replicas) / s.blocks) : 1,
                 rows = std::ceil(double(s.rows) / (by_models ? 1 : s.blocks)), elements = rows * s.n;
    if (s.known == section::kLossGradient)
      return models * std::ceil(rows / (section::kBlockThreads / 32)) * std::ceil(s.n / 32.0) * kLossGradientCycles;
    const double times = std::ceil(elements / (kElementsAtOnce * section::kBlockThreads));
    const double of_thread = std::ceil(elements / section::kBlockThreads) / std::max(times, 1.0);
    return models * times * cycles_of_program(s.known, s.code, false, elements <= kFewWarpsThreads, of_thread);
  }
  double cycles_of_update(const BlockStep& s) const {
    const bool by_models = s.partition == section::Partition::models;
    const double models = by_models ? std::ceil(double(s.replicas) / section::parts_of(s)) : 1,
                 rows = std::ceil(double(s.k) / (by_models ? s.neighbours : section::parts_of(s)));
    const double own = by_models ? s.n : section::update_columns(s, 0).size();  // the first part has the most
    const double whole_columns = std::floor(own / section::kUpdateColumns), columns = std::ceil(own / section::kUpdateColumns);
    const double large = std::floor(rows / (2 * section::kUpdateRows)), all = std::ceil(rows / section::kUpdateRows);
    const double tiles = whole_columns * (all - 2 * large) + (columns - whole_columns) * all;
    // A thread has four or eight rows of two columns.
    const double program = s.code >= 0 && s.descent < 0 ? 2 * cycles_of_program(s.known, s.code, true, false, kElementsAtOnce) : 0;
    const double of_bias = s.code2 >= 0 && s.descent2 < 0 ? columns * cycles_of_program(s.known2, s.code2, true, true, 2) : 0;
    return models * (whole_columns * large * (kLargeTileCycles + kLargeTileRowCycles * s.rows + 2 * program) +
                     tiles * (kTileCycles + kTileRowCycles * s.rows + program) + of_bias);
  }
  static double chunks_of(const BlockStep& s) {
    return section::is_product(s.kind) ? std::max(1.0, std::ceil(double(s.k) / section::kPiece)) : 1;
  }
  // When the rows that a block takes from another have come, less kRowsCycles.
  double taken_at(const BlockStep& s, int b) const {
    if (s.takes < 0) return 0;
    return handed_.at({s.takes, b - s.first_block}) + (kHandedCycles - kRowsCycles) / cycles_per_microsecond();
  }
  // When a block's part of a step in a chain is done. before: when the block is; from: when what it waits for has come.
  double end_of_link(const BlockStep& s, Ring& ring, double before, double from) const {
    const auto us = [&](double cycles) { return cycles / cycles_per_microsecond(); };
    const bool by_models = s.partition == section::Partition::models;
    const double rows = by_models ? s.rows : std::ceil(double(s.rows) / s.blocks),
                 models = by_models ? std::ceil(double(s.replicas) / s.blocks) : 1;
    const bool few = rows <= section::kFewRowsInPass;
    const int passes = few ? 1 : section::passes_of(int(rows)), of_group = section::rows_of_group((int(rows) + passes - 1) / passes);
    const double chunks = chunks_of(s), groups = std::ceil(double(s.n) / section::kPiece), pieces = models * passes * chunks * groups;
    const double fetch = us(by_models ? kFetchOfManyCycles : kFetchCycles), multiply = us(few ? kPieceCycles : cycles_of_many(of_group));
    double done = std::max(before, from);
    if (s.chain > 0) {
      const bool early = s.early || s.takes >= 0;
      const double begin = early ? before : done;
      done = std::max(begin + us(kChainCycles + (s.chain > 32 ? kLongChainCycles : 0)), early ? from + us(kRowsCycles) : 0);
      const int places = few ? card_.places : card_.places - (of_group + 1) / 2;  // the rows take the others
      ring = {.done = std::vector<double>(size_t(places)), .brought = begin + us(kChainCycles) - fetch, .next = 0};
    }
    for (double piece = 0; piece < pieces; ++piece) {
      double& place = ring.done[ring.next++ % ring.done.size()];
      ring.brought = std::max(ring.brought, place) + (section::is_product(s.kind) ? fetch : 0);
      place = done = std::max(done, ring.brought) + multiply;
    }
    return done;
  }
  double flops(const BlockStep& s) const {
    const double models = s.partition == section::Partition::models ? std::ceil(double(s.replicas) / s.blocks) : 1,
                 share = s.partition == section::Partition::models ? 1 : 1.0 / s.blocks;
    switch (s.kind) {
      case StepKind::copy:
      case StepKind::announce:
      case StepKind::collect: return 0;
      default: return kElementFlops * s.rows * s.n * share * models;
    }
  }

  const BlockPlan& plan_;
  const Card& card_;
  const Link link_;
  std::vector<double> times_;  // per block
  std::vector<Ring> rings_;
  std::map<std::pair<int, int>, double> handed_;       // by the first number, and part: when
  std::vector<double> raised_;                         // per counter: time of the last increment
  std::vector<double> announced_;                      // per value of sums over ranks: when its last chunk was
  std::vector<std::pair<double, double>> link_taken_;  // from when until when, in order
  const section::BlockSum* sums_ = nullptr;
  section::BlockPlaces places_;
  std::vector<section::BlockAccess> accesses_;
  const BlockStep* chain_ = nullptr;  // the last chain's first step
  int left_ = 0;                      // of its steps
};

Link to_other_ranks(Device device) { return Costs(CpuRates{}).link({device.kind, device.model, 0}, {device.kind, device.model, 1}); }

bool begins_with_any(const std::string& name, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return name.rfind(word, 0) == 0; });
}

}  // namespace

std::optional<double> predicted_microseconds(const exec::Program& program, const exec::Instruction& instruction) {
  const Device device = program.streams[size_t(instruction.stream)].device;
  if (device.kind == DeviceKind::cpu || !instruction.kernel) return {};
  const Card* card = card_of(device);
  if (!card) return {};
  double bytes = 0;
  for (const auto* list : {&instruction.inputs, &instruction.outputs})
    for (int slot : *list) {
      const View& v = program.slots[size_t(slot)].view;
      bytes += double(v.size()) * double(size_of(v.dtype));
    }
  const double memory = bytes / (card->gigabytes_per_second * 1e3);
  if (instruction.section_steps > 0) {
    const auto& planned = *static_cast<const section::BlockSection*>(instruction.kernel.args.get());
    const std::optional<double> steps = SectionModel(planned.plan, *card, to_other_ranks(device)).microseconds();
    if (!steps) return {};
    return kLaunchMicroseconds + kStartMicroseconds + std::max(*steps, memory);
  }
  if (instruction.waits ||
      begins_with_any(instruction.name, {"conv2d", "sort", "argsort", "top_k", "unique", "cumsum", "cond", "while_loop", "scan"}))
    return {};
  const double all = backend_of(device).properties(device).multiprocessors, rate = 2 * card->lanes * card->gigahertz * 1e3;  // of one
  if (begins_with_any(instruction.name, {"matmul", "dense"}) && instruction.inputs.size() >= 2 && !instruction.outputs.empty()) {
    // For [m,k] times [k,n], the product of the three sizes is (m k n)^2.
    auto size = [&](int slot) { return double(program.slots[size_t(slot)].view.size()); };
    const double result = size(instruction.outputs[0]);
    const double flops = 2 * std::sqrt(size(instruction.inputs[0]) * size(instruction.inputs[1]) * result);
    const bool is_update = begins_with_any(instruction.name, {"dense_update"});
    const double used =
        is_update ? std::clamp(kUpdateMultiprocessors * result / (64 * 64), 1.0, all / kProductFactor) : all / kProductFactor;
    return kLaunchMicroseconds + (is_update ? kUpdateMicroseconds : kProductMicroseconds) + std::max(memory, flops / (used * rate));
  }
  double flops = 0;
  for (int slot : instruction.outputs) flops += kElementFlops * double(program.slots[size_t(slot)].view.size());
  return kLaunchMicroseconds + std::max(memory, flops / (all * rate));
}

}  // namespace lamina::cost
