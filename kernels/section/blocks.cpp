#include "kernels/section/blocks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "kernels/section/access.h"
#include "kernels/section/block_codes.h"
#include "kernels/section/chains.h"
#include "kernels/section/flatten.h"
#include "kernels/section/rank_sums.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

using kernels::ElementwiseCode;

// BlockStep::descent; input 0 of the code is g.
int8_t descent_of(const ElementwiseCode& code, const Operand* extras) {
  using kernels::ScalarOp;
  if (code.inputs.size() != 3 || code.instructions.size() != 2 || code.outputs.size() != 1 || !code.constants.empty()) return -1;
  const auto &product = code.instructions[0], &difference = code.instructions[1];
  if (product.op != ScalarOp::mul || difference.op != ScalarOp::sub || product.type != DType::f32 || difference.type != DType::f32)
    return -1;
  const int rate = product.a == 0 ? product.b : product.b == 0 ? product.a : -1, w = difference.a;
  if (w + rate != 3 || w < 1 || w > 2 || difference.b != 3 || code.outputs[0] != 4) return -1;
  if (extras[w - 1].broadcast == Broadcast::scalar || extras[w - 1].broadcast == Broadcast::column ||
      extras[rate - 1].broadcast != Broadcast::scalar)
    return -1;
  return int8_t(w - 1);
}

int64_t column_tiles(const Step& s) {
  return s.kind == StepKind::dense_update && s.partition != Partition::models && s.code >= 0
             ? std::max(1, (s.n + kUpdateColumns - 1) / kUpdateColumns)
             : 1;
}
// Updates and sums over ranks have no batch rows; they are shared by tiles.
bool is_update(const Step& s) {
  return s.partition == Partition::tiles && (s.kind == StepKind::dense_update || s.kind == StepKind::elementwise || is_of_ranks(s.kind));
}

class Planner {
 public:
  Planner(const Flat& flat, int most) : flat_(flat), table_(flat_.table), most_(std::max(1, most)), ensemble_(is_ensemble(table_.steps)) {
    for (const FlatBuffer& b : flat_.buffers) ranges_.push_back(b.range);
  }

  BlockPlan run() {
    place_bases();
    accesses_.resize(table_.steps.size());
    for (size_t i = 0; i < table_.steps.size(); ++i) accesses_of(table_, table_.steps[i], accesses_[i]);
    for (const Step& s : table_.steps)
      if (const char* why = s.kind == StepKind::loop ? nullptr : why_not_on_blocks(table_.codes, s))
        internal_error(cat("a section step of the kind ", name(s.kind), " for a GPU: ", why));
    share();
    place_codes();
    for (size_t i = 0; i < table_.steps.size(); ++i) place_step(i);
    plan_.turns = flat_.turns;
    do {
      find_waits();
      find_chains();
    } while (!hand_from_chains());
    find_early_chains();
    write();
    validate(plan_, flat_);
    plan_.names = flat_.names;
    return std::move(plan_);
  }

 private:
  // All buffers of a space share one base address.
  void place_bases() {
    std::map<int, int> of_space;
    for (size_t i = 0; i < flat_.buffers.size(); ++i) {
      const FlatBuffer& b = flat_.buffers[i];
      const auto [it, is_new] = of_space.try_emplace(b.range.space, int(plan_.base_of.size()));
      if (is_new) plan_.base_of.push_back({.buffer = b.constant ? -1 : int(i), .offset = b.constant ? 0 : b.first, .constant = b.constant});
      base_of_buffer_.push_back(it->second);
    }
    if (plan_.base_of.size() > size_t(kMostBases))
      internal_error(cat("a section of ", plan_.base_of.size(), " separate pieces of memory for a GPU"));
    plan_.program.bases = int32_t(plan_.base_of.size());
  }

  // --- which block runs which step ---
  void share() {
    int64_t rows = 0, replicas = 0;
    bool helped = false;
    for (const Step& s : table_.steps) {
      if (by_rows(s)) rows = std::max<int64_t>(rows, s.rows);
      if (s.partition == Partition::models && !is_leaf_update(s)) replicas = std::max<int64_t>(replicas, s.replicas);
      helped = helped || is_update(s) || is_leaf_update(s);
    }
    const int spine_limit = helped ? std::max(1, most_ / 2) : most_;
    plan_.spines = int(std::clamp<int64_t>((rows + kRowsPerSpine - 1) / kRowsPerSpine, 1, spine_limit));
    replicas_ = replicas;
    models_ = int(std::clamp<int64_t>(replicas, 1, most_));
    // No more helpers than the work justifies.
    int64_t wanted = 0;
    for (const Step& s : table_.steps)
      if (is_update(s) || is_leaf_update(s)) wanted += worth(s);
    last_turn_ = table_.steps.size();
    for (size_t i = 0; i < table_.steps.size(); ++i)
      if (table_.steps[i].kind == StepKind::loop) last_turn_ = i;
    find_sets(most_ - int(std::min<int64_t>(wanted, most_ / 3)));
    spines_ = plan_.spines * plan_.sets;
    plan_.helpers = helped ? int(std::min<int64_t>(most_ - spines_, wanted)) : 0;
    plan_.program.blocks = std::max(spines_ + plan_.helpers, models_);
  }
  // Which set of spines has a step of rows. Layers are shared in their order, so that all sets have about as many pieces of weights; but
  // those of the first set, whose weights are not there before its rows, count twice; and in training the last layer is alone with the
  // loss, whose steps would keep a block from bringing weights. A gradient of a layer's input is where that input was made: its set has the
  // masks. Other steps are where the step before them is.
  void find_sets(int blocks) {
    const auto pieces = [](const Step& s) {
      const auto in = [](int width) { return (width + kPiece - 1) / kPiece; };
      return s.kind == StepKind::dense && by_rows(s) ? int64_t(in(s.k)) * in(s.n) : 0;
    };
    int64_t all = 0, of_last = 0, before = 0;
    bool trains = false;
    for (const Step& s : table_.steps) {
      trains = trains || (s.kind == StepKind::dense_grad_input && by_rows(s));
      if (pieces(s) > 0) of_last = pieces(s);
      all += pieces(s);
    }
    const auto counted = [](int64_t number) { return number + std::min<int64_t>(number, kPiecesOfSet); };
    const int64_t shared = counted(trains ? all - of_last : all);
    const int sharing = int(std::min<int64_t>(shared / kPiecesOfSet, blocks / plan_.spines - trains));
    plan_.sets = sharing > 1 ? sharing + trains : 1;
    set_of_.assign(table_.steps.size(), 0);
    if (plan_.sets == 1) return;
    std::map<int, int> made_in, of_weights, of_gradient;  // by buffer
    for (size_t i = 0; i < table_.steps.size(); ++i) {
      const Step& s = table_.steps[i];
      int& set = set_of_[i] = i > 0 ? set_of_[i - 1] : 0;
      if (!by_rows(s)) continue;
      if (is_product(s.kind)) {
        const int x = table_.operands[size_t(s.first_in)].buffer, weights = table_.operands[size_t(s.first_in + 1)].buffer;
        if (pieces(s) > 0) {
          set = of_weights.try_emplace(weights, int(counted(before) * sharing / shared)).first->second;
          of_gradient.try_emplace(weights, made_in.count(x) ? made_in[x] : set);
          before += pieces(s);
        } else if (of_gradient.count(weights)) {
          set = of_gradient[weights];
        }
      }
      for (int o = 0; o < s.outs; ++o) made_in[table_.operands[size_t(s.first_out + o)].buffer] = set;
    }
  }
  // Gradients of a batch's shards, which are summed.
  bool is_leaf_update(const Step& s) const { return s.kind == StepKind::dense_update && s.partition == Partition::models && !ensemble_; }
  int64_t worth(const Step& s) const { return is_leaf_update(s) && table_.sums.empty() ? s.replicas : blocks_worth(s); }
  // A product shared by tiles may also be cut into rows: any cut gives the same bits.
  static bool by_rows(const Step& s) { return s.partition == Partition::rows || (s.partition == Partition::tiles && !is_update(s)); }
  // Whether rows run where their model does: there no block waits for others. So do several rows of each model, if no warp has more than
  // one more than it would have on all blocks.
  bool by_models(const Step& s) const {
    if (s.rows == replicas_) return true;
    constexpr int kWarps = kBlockThreads / 32;
    const auto of_warp = [&](int64_t blocks) { return (s.rows + blocks * kWarps - 1) / (blocks * kWarps); };
    return replicas_ > 1 && s.rows % replicas_ == 0 && replicas_ % models_ == 0 && of_warp(models_) <= of_warp(plan_.spines) + 1;
  }
  void assign(const Step& s, size_t number, BlockStep& out) {
    const int64_t copied = flat_.copied[number];
    out.first_block = 0, out.blocks = 1;
    if (s.kind == StepKind::loop) {
      out.blocks = plan_.program.blocks;
    } else if (copied > 0) {  // all blocks copy a part at the start of a loop
      constexpr int64_t worth_a_block = 8192;
      out.blocks = int(std::clamp<int64_t>(copied / worth_a_block, 1, plan_.program.blocks));
      if (next_copier_ + out.blocks > plan_.program.blocks) next_copier_ = 0;
      out.first_block = next_copier_;
      next_copier_ += out.blocks;
    } else if (s.partition == Partition::models && !(is_leaf_update(s) && plan_.helpers > 0)) {
      out.blocks = models_;
    } else if (is_update(s) || is_leaf_update(s)) {
      if (plan_.helpers == 0) return;
      int blocks = int(std::min<int64_t>(plan_.helpers, worth(s)));
      out.neighbours = is_leaf_update(s) ? std::max(1, blocks / s.replicas) : int32_t(std::min<int64_t>(column_tiles(s), blocks));
      if (is_leaf_update(s)) blocks = std::min(blocks, s.replicas * out.neighbours);
      blocks -= blocks % out.neighbours;
      if (next_helper_ + blocks > plan_.helpers) next_helper_ = 0;
      out.first_block = spines_ + next_helper_, out.blocks = blocks;
      next_helper_ += blocks;
    } else if (by_rows(s)) {
      out.first_block = set_of_[number] * plan_.spines, out.blocks = plan_.spines;
      if (by_models(s)) {
        out.first_block = 0, out.blocks = models_;
      } else if (const int64_t enough = (s.rows + kRowsPerSpine - 1) / kRowsPerSpine;
                 replicas_ > 1 && plan_.sets == 1 && 0 < enough && models_ + enough <= plan_.program.blocks) {
        out.first_block = models_, out.blocks = int(enough);  // beside the models
      }
    } else if (spines_ > 1 && plan_.helpers > 0) {
      out.first_block = plan_.program.blocks - 1;  // rows do not wait behind it
      if (s.kind != StepKind::copy || number <= last_turn_) return;
      if (next_helper_ == plan_.helpers) next_helper_ = 0;
      out.first_block = spines_ + next_helper_++;  // many Variables may be copied behind a loop
    }
  }

  // The compiled program that a step's code is, if it has the operands that this takes: matrices and numbers, or rows for a single row.
  int8_t known_of(int32_t code, int first, int count, bool is_row, bool is_update) const {
    const int8_t found = known(table_.codes[size_t(code)]);
    if (found == kLossGradient || (found == kStored && (table_.sums.empty() || !is_update))) return kInterpreted;
    for (int i = first; i < first + count; ++i) {
      const Broadcast broadcast = table_.operands[size_t(i)].broadcast;
      if (broadcast == Broadcast::column || (broadcast == Broadcast::row && !is_row)) return kInterpreted;
    }
    return found;
  }
  bool is_loss_gradient(const Step& s) const {
    const auto is = [&](int i, Broadcast broadcast) { return table_.operands[size_t(s.first_in + i)].broadcast == broadcast; };
    return s.kind == StepKind::elementwise && s.partition != Partition::tiles && known(table_.codes[size_t(s.code)]) == kLossGradient &&
           is(0, Broadcast::column) && is(1, Broadcast::row) && is(2, Broadcast::full);
  }

  void place_step(size_t number) {
    const Step& s = table_.steps[number];
    BlockStep out;
    out.kind = s.kind, out.activation = s.activation, out.reduction = s.reduction, out.reduced = s.reduced, out.partition = s.partition;
    out.has_bias = s.has_bias, out.has_mask = s.has_mask;
    out.rows = s.rows, out.k = s.k, out.n = s.n;
    out.run = flat_.run_of[number];
    out.code = s.code < 0 || s.kind == StepKind::loop ? s.code : code_at_[size_t(s.code)],
    out.code2 = s.code2 < 0 ? -1 : code_at_[size_t(s.code2)];
    const bool is_update = s.kind == StepKind::dense_update;
    if (s.code >= 0 && (s.kind == StepKind::elementwise || s.kind == StepKind::collect || is_update)) {
      const int before = is_update ? 2 : 0;
      out.known =
          known_of(s.code, s.first_in + before, is_update ? s.extras : s.ins, s.kind == StepKind::elementwise && s.rows == 1, is_update);
    }
    if (is_loss_gradient(s)) out.known = kLossGradient;
    if (s.code2 >= 0) out.known2 = known_of(s.code2, s.first_in + 2 + s.extras, s.ins - 2 - s.extras, true, true);
    out.announces = flat_.announced[number].weights, out.announces2 = flat_.announced[number].bias;
    out.extras = s.extras, out.scalar = s.scalar, out.replicas = s.replicas;
    out.first_in = s.first_in, out.ins = s.ins, out.first_out = s.first_out, out.outs = s.outs;
    const LinkOf link = link_of(table_, s);
    out.link = link.kind, out.link_activation = link.activation;
    assign(s, number, out);
    out.each = shared_count(out) / parts_of(out);
    if (s.code >= 0 && (is_update || s.kind == StepKind::collect))
      out.descent = descent_of(table_.codes[size_t(s.code)], table_.operands.data() + s.first_in + (is_update ? 2 : 0));
    if (is_update && s.has_bias && s.ins + s.outs <= kOperandsAtHand)
      out.descent2 = descent_of(table_.codes[size_t(s.code2)], table_.operands.data() + s.first_in + 2 + s.extras);
    if (s.kind == StepKind::copy) {
      out.copy = int32_t(copies_.size());
      out.outs = 1;
      if (const int64_t bytes = flat_.copied[number]) {
        const int32_t element = size_of(view_of(s.first_in).dtype) >= 4 ? 4 : 1;  // as far as it is aligned
        copies_.push_back({.rank = 1, .element_bytes = element, .shape = {bytes / element}, .from = {1}, .to = {1}});
      } else {
        place_copies(s, out);
      }
    }
    plan_.steps.push_back(out);
  }

  void place_copies(const Step& s, BlockStep& out) {
    const bool in_parts = s.outs > 1;
    int64_t rest = view_of(s.first_out).size();
    for (int i = 0; i < s.ins; ++i) {
      const int part = s.first_out + (in_parts ? 1 + i : 0);
      const View &x = view_of(s.first_in + i), &y = view_of(part);
      BlockCopy c{.rank = y.rank, .element_bytes = int32_t(size_of(y.dtype))};
      for (int a = 0; a < y.rank; ++a) {
        c.shape[a] = y.shape[a], c.from[a] = x.strides[a], c.to[a] = y.strides[a];
        if (a > 0) c.row *= y.shape[a];
      }
      c.offset = buffer_of(part).first - buffer_of(s.first_out).first;
      rest -= y.size();
      copies_.push_back(c);
    }
    out.zeroed = rest > 0;
  }

  const FlatBuffer& buffer_of(int operand) const { return flat_.buffers[size_t(table_.operands[size_t(operand)].buffer)]; }
  const View& view_of(int operand) const { return buffer_of(operand).view; }

  void place_codes() {
    for (const ElementwiseCode& code : table_.codes) {
      code_at_.push_back(int32_t(codes_.size()));
      if (!why_not_on_blocks(code)) append_code(code, codes_);  // else no step uses it
    }
  }

  // --- which block waits for which ---
  static bool same_blocks(const BlockStep& a, const BlockStep& b) { return a.first_block == b.first_block && a.blocks == b.blocks; }
  // Part i of both belongs to the same block.
  static bool shared_alike(const BlockStep& a, const BlockStep& b) {
    const bool by_models = a.partition == Partition::models && b.partition == Partition::models;
    return same_blocks(a, b) && !(by_models && std::max(a.neighbours, b.neighbours) > 1);
  }

  // Whether x of step a and y of step b, which comes later, touch the same bytes in different blocks, and one writes.
  bool meet(size_t a, const Access& x, size_t b, const Access& y) const {
    return shared_alike(plan_.steps[a], plan_.steps[b])
               ? conflict(table_.steps[a], x, table_.steps[b], y, ranges_, plan_.steps[a].blocks)
               : (x.write || y.write) && overlap(ranges_[size_t(x.buffer)], ranges_[size_t(y.buffer)]);
  }
  // Whether b may only start a part after other blocks have finished all of a. handed: b's first input comes without a wait.
  bool must_wait(size_t a, size_t b, bool handed = false) const {
    if (shared_alike(plan_.steps[a], plan_.steps[b]) && plan_.steps[a].blocks == 1) return false;
    for (const Access& x : accesses_[a])
      for (size_t k = handed; k < accesses_[b].size(); ++k)
        if (meet(a, x, b, accesses_[b][k])) return true;
    return false;
  }

  // All of step a has ended, and so has everything that a waited for, and everything its blocks did before.
  void learn_of(size_t a, size_t begin, std::vector<bool>& known) const {
    known[a] = true;
    for (size_t e = begin; e < a; ++e)
      if (known_[a][e] || same_blocks(plan_.steps[e], plan_.steps[a])) known[e] = true;
  }
  // Waits of the same blocks' earlier steps are inherited; and part i of those steps precedes part i of this one.
  std::vector<bool> inherited(size_t b, size_t begin) const {
    for (size_t a = b; a-- > begin;)
      if (same_blocks(plan_.steps[a], plan_.steps[b])) return known_[a];
    return std::vector<bool>(plan_.steps.size());
  }
  void find_waits() {
    const size_t count = plan_.steps.size();
    known_.assign(count, std::vector<bool>(count));
    waits_for_.assign(count, {});
    plan_.waits.clear();
    plan_.program.counters = plan_.program.handed = 0;
    for (BlockStep& step : plan_.steps) step.signal = step.hands = step.takes = -1;
    size_t begin = 0;  // start of the run
    for (size_t b = 0; b < count; ++b) {
      if (table_.steps[b].kind == StepKind::loop) {
        begin = b + 1;
        continue;
      }
      known_[b] = inherited(b, begin);
      const size_t from = handed_from(b, begin);
      for (size_t a = b; a-- > begin;) {
        if (known_[b][a] || !must_wait(a, b, a == from)) continue;
        waits_for_[b].push_back(int(a));
        learn_of(a, begin, known_[b]);
      }
    }
    for (size_t b = 0; b < count; ++b) {
      BlockStep& step = plan_.steps[b];
      step.first_wait = int32_t(plan_.waits.size());
      for (int a : waits_for_[b]) {
        BlockStep& earlier = plan_.steps[size_t(a)];
        if (earlier.signal < 0) earlier.signal = plan_.program.counters++;
        plan_.waits.push_back({earlier.signal, earlier.blocks});
      }
      step.waits = int32_t(plan_.waits.size()) - step.first_wait;
    }
    for (BlockStep& step : plan_.steps)  // its last block to end tells the other ranks
      if (announces(step) && step.signal < 0) step.signal = plan_.program.counters++;
  }

  // The step whose results are handed to the blocks of step b instead of waiting for it; b: none. It knows nothing else of that step.
  size_t handed_from(size_t b, size_t begin) {
    BlockStep& to = plan_.steps[b];
    if (!is_product(to.kind) || accesses_[b].empty()) return b;
    for (size_t a = b; a-- > begin;) {
      const bool writes = std::any_of(accesses_[a].begin(), accesses_[a].end(), [&](const Access& x) {
        return x.write && overlap(ranges_[size_t(x.buffer)], ranges_[size_t(accesses_[b][0].buffer)]);
      });
      if (!writes) continue;
      BlockStep& from = plan_.steps[a];
      if (not_handed_.count(a) || from.hands >= 0 || known_[b][a] || !hands_rows(flat_, from, to) || must_wait(a, b, true)) return b;
      from.hands = to.takes = plan_.program.handed;
      plan_.program.handed += from.rows * width_behind(from);
      return a;
    }
    return b;
  }
  // Only chains hand their results. False: another step should, and waits are to be found without it.
  bool hand_from_chains() {
    const size_t before = not_handed_.size();
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (plan_.steps[i].hands >= 0 && !in_chain_[i]) not_handed_.insert(i);
    return not_handed_.size() == before;
  }

  // Links that every block of theirs takes one after the other.
  void find_chains() {
    std::vector<int> chain;
    in_chain_.assign(plan_.steps.size(), false);
    for (BlockStep& step : plan_.steps) step.chain = 0;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const BlockStep& step = plan_.steps[i];
      const bool goes_on = !chain.empty() && !why_not_next(flat_, plan_.steps.data(), plan_.waits.data(), chain, int(i));
      if (!goes_on && !is_product(step.kind)) {
        const auto meets = [&](const BlockStep& other) {
          return step.first_block < other.first_block + other.blocks && other.first_block < step.first_block + step.blocks;
        };
        if (!chain.empty() && meets(plan_.steps[size_t(chain[0])])) chain.clear();
        continue;
      }
      if (!goes_on) chain.clear();
      chain.push_back(int(i));
      in_chain_[i] = true;
      ++plan_.steps[size_t(chain[0])].chain;
    }
  }

  void find_early_chains() {
    size_t begin = 0;  // start of the run
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (table_.steps[i].kind == StepKind::loop) begin = i + 1;
      if (plan_.steps[i].chain > 0 && plan_.steps[i].waits > 0) plan_.steps[i].early = waits_for_rows_only(i, begin);
    }
  }
  // Whether all that the chain's steps read beside the first one's rows is there without its waits.
  bool waits_for_rows_only(size_t first, size_t begin) const {
    std::vector<bool> known = inherited(first, begin);
    int left = plan_.steps[first].chain;
    for (size_t i = first; left > 0; ++i) {
      if (!same_blocks(plan_.steps[i], plan_.steps[first])) continue;
      --left;
      if (i > first)
        for (int a : waits_for_[i]) learn_of(size_t(a), begin, known);
      for (size_t a = begin; a < i; ++a) {
        if (known[a] || (a >= first && same_blocks(plan_.steps[a], plan_.steps[first]))) continue;
        for (const Access& x : accesses_[a])
          for (size_t k = 1; k < accesses_[i].size(); ++k)
            if (x.write && !accesses_[i][k].write && meet(a, x, i, accesses_[i][k])) return false;
      }
    }
    return true;
  }

  // --- memory ---
  template <class T>
  int32_t append(const std::vector<T>& values) {
    plan_.bytes.resize((plan_.bytes.size() + 15) / 16 * 16);
    const size_t at = plan_.bytes.size();
    plan_.bytes.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(plan_.bytes.data() + at, values.data(), values.size() * sizeof(T));
    return int32_t(at);
  }
  void write() {
    BlockProgram& p = plan_.program;
    p.steps = int32_t(plan_.steps.size());
    append(plan_.steps);
    std::vector<BlockOperand> operands;
    for (const Operand& o : table_.operands) {
      const FlatBuffer& b = flat_.buffers[size_t(o.buffer)];
      operands.push_back({.buffer = o.buffer,
                          .base = base_of_buffer_[size_t(o.buffer)],
                          .offset = b.first,
                          .model_stride = o.model_stride,
                          .broadcast = o.broadcast,
                          .dtype = b.view.dtype,
                          .element_bytes = int16_t(size_of(b.view.dtype)),
                          .mover = b.mover});
    }
    p.operands_at = append(operands);
    p.waits_at = append(plan_.waits);
    p.copies_at = append(copies_);
    p.codes_at = append(codes_);
    const WindowLayout windows = layout_of(table_.sums);
    p.sums_at = append(windows.values);
    p.roots_at = append(windows.roots);
    plan_.windows = windows.bytes;
    p.loops = flat_.loops, p.movers = int32_t(flat_.movers.size());
    p.turns_at = append(flat_.turns);
    p.movers_at = append(flat_.movers);
    p.tails_at = append(flat_.tails);
    std::vector<int32_t> lists, starts{0}, targets(flat_.turns.size() * size_t(p.blocks));
    for (int b = 0; b < p.blocks; ++b) {
      for (size_t i = 0; i < plan_.steps.size(); ++i)
        if (const BlockStep& s = plan_.steps[i]; b >= s.first_block && b < s.first_block + s.blocks) lists.push_back(int32_t(i));
      const auto own = lists.begin() + starts.back();
      for (size_t t = 0; t < flat_.turns.size(); ++t)
        targets[t * size_t(p.blocks) + size_t(b)] = int32_t(std::lower_bound(own, lists.end(), flat_.turns[t].target) - own);
      starts.push_back(int32_t(lists.size()));
    }
    p.targets_at = append(targets);
    p.lists_at = append(lists);
    p.starts_at = append(starts);
    plan_.infeed = flat_.infeed;
    p.chunk = plan_.infeed.chunk;
    for (const BlockPlan::Stack& s : plan_.infeed.stacks)
      if (plan_.base_of[size_t(base_of_buffer_[size_t(s.buffer)])].buffer != s.buffer)
        internal_error(cat("%", s.buffer, " comes from the host and shares its memory with another operand"));
  }

  const Flat& flat_;
  const Table& table_;
  std::vector<OperandRange> ranges_;
  const int most_;
  const bool ensemble_;
  int64_t replicas_ = 0;
  int spines_ = 1;  // of all sets
  std::vector<int> set_of_;
  // [b][a]: whether step a has ended when a step b's blocks start it. Everything before a turn has ended.
  std::vector<std::vector<bool>> known_;
  std::vector<std::vector<int>> waits_for_;
  std::vector<bool> in_chain_;   // per step
  std::set<size_t> not_handed_;  // steps that do not hand their results, although these are a chain's rows
  int models_ = 1, next_helper_ = 0, next_copier_ = 0;
  size_t last_turn_ = 0;  // the last step of kind loop; past the end: there is none
  BlockPlan plan_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<int32_t> codes_, code_at_, base_of_buffer_;
  std::vector<BlockCopy> copies_;
};

}  // namespace

namespace {
const char* why_not(const TableWithLoops& table) {
  for (const Step& s : table.steps) {
    const bool has_body = s.kind == StepKind::loop || s.kind == StepKind::branch;
    if (const char* why = why_not_on_blocks(table.codes, s, has_body ? table.nested[size_t(s.code)].get() : nullptr)) return why;
  }
  return nullptr;
}
}  // namespace

int64_t blocks_worth(const Step& s) {
  if (s.kind == StepKind::dense_update) {
    const bool by_models = s.partition == Partition::models;
    const int rows = by_models ? 2 * kUpdateRows : kUpdateRows;  // leaves keep many blocks busy, and large tiles take less time in all
    const int64_t tiles = s.code < 0 ? 1 : std::max<int64_t>(1, (s.k + rows - 1) / rows);
    return tiles * (by_models ? s.replicas : column_tiles(s));
  }
  if (is_of_ranks(s.kind)) return s.rows;
  constexpr int64_t worth_a_block = 5120;  // elements
  return std::clamp<int64_t>(int64_t(s.rows) * s.n / worth_a_block, 1, 16);
}
int64_t serial_terms(const Step& s) {
  constexpr int64_t lanes = 32;
  switch (s.reduced) {
    case Broadcast::row: return s.n == 1 ? s.rows / lanes : s.rows;
    case Broadcast::column: return s.n / lanes;
    default: return int64_t(s.rows) * s.n / lanes;
  }
}

const char* why_not_on_blocks(const std::vector<ElementwiseCode>& codes, const Step& s, const Nested* nested) {
  if (s.kind == StepKind::dense_update && s.partition == Partition::tiles && s.replicas != 1) return "an update that adds up leaves";
  switch (s.kind) {
    case StepKind::dense:
    case StepKind::dense_grad_input:
    case StepKind::dense_update:
      if (s.n > kMostBlockWidth) return "a layer wider than 256";
      break;
    case StepKind::loop:
    case StepKind::branch:
      if (!nested) return "a loop or branch whose body is no section";
      if (const char* why = why_too_much(needs_of(*nested))) return why;
      for (const InnerProgram& program : nested->programs)
        if (const char* why = why_not(*program.table)) return why;
      return nullptr;
    default: break;
  }
  constexpr int most_rows = 100'000;  // of a sum over a column: 12 levels of 32 rows
  if (s.rows > most_rows && s.kind == StepKind::dense_update && s.has_bias) return "a sum over more than 100,000 rows";
  if (s.kind == StepKind::reduce && serial_terms(s) > 4096) return "one thread would add more than 4,096 terms";
  for (int32_t code : {s.code, s.code2})
    if (code >= 0)
      if (const char* why = why_not_on_blocks(codes[size_t(code)])) return why;
  return nullptr;
}

BlockPlan plan_blocks(const TableWithLoops& table, const std::vector<OperandRange>& ranges, const std::vector<View>& views,
                      int most_blocks) {
  constexpr double long_seconds = 0.05;
  const Flat flat = flatten(table, ranges, views);
  BlockPlan plan = Planner(flat, most_blocks).run();
  plan.may_be_long = plan.program.loops > 0 && (plan.infeed.chunk > 0 || most_seconds(table) > long_seconds);
  return plan;
}

}  // namespace lamina::section
