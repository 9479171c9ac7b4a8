#include "kernels/section/plan_form.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/section/chains.h"
#include "kernels/section/rank_sums.h"

namespace lamina::section {

PlanForm::PlanForm(const BlockPlan& plan, const Flat& flat) : plan_(plan), p_(plan.program), flat_(flat), table_(flat.table) {
  check_tables();
  check_places();
  for (size_t i = 0; i < count_; ++i) check_step(i);
  check_counters();
  check_sums();
  for (int b = 0; b < p_.blocks; ++b) check_list(b);
  check_handed();
}

template <class T>
const T* PlanForm::table_at(int32_t at, size_t count, const char* what) const {
  if (at < 0 || size_t(at) % alignof(T) != 0 || size_t(at) + count * sizeof(T) > plan_.bytes.size())
    fail(cat("its ", what, " do not lie in it"));
  return reinterpret_cast<const T*>(plan_.bytes.data() + at);
}
void PlanForm::check_tables() {
  count_ = table_.steps.size();
  require(size_t(p_.steps) == count_ && p_.blocks >= 1, "it has not the table's steps");
  steps_ = table_at<BlockStep>(0, count_, "steps");
  operands_ = table_at<BlockOperand>(p_.operands_at, table_.operands.size(), "operands");
  waits_ = table_at<BlockWait>(p_.waits_at, plan_.waits.size(), "waits");
  const BlockTurn* turns = table_at<BlockTurn>(p_.turns_at, flat_.turns.size(), "turns");
  turns_.assign(turns, turns + flat_.turns.size());
  targets_ = table_at<int32_t>(p_.targets_at, turns_.size() * size_t(p_.blocks), "targets");
  starts_ = table_at<int32_t>(p_.starts_at, size_t(p_.blocks) + 1, "lists");
  for (int b = 0; b < p_.blocks; ++b) require(starts_[b] >= 0 && starts_[b] <= starts_[b + 1], cat("block ", b, " has no list"));
  lists_ = table_at<int32_t>(p_.lists_at, size_t(starts_[p_.blocks]), "lists");
  places_ = {operands_, reinterpret_cast<const BlockCopy*>(plan_.bytes.data() + p_.copies_at),
             reinterpret_cast<const int32_t*>(plan_.bytes.data() + p_.codes_at)};
  for (size_t t = 0; t < turns_.size(); ++t) {
    BlockTurn turn = turns_[t];
    turn.barrier = flat_.turns[t].barrier;  // recomputed here
    require(std::memcmp(&turn, &flat_.turns[t], sizeof turn) == 0, cat("turn ", t, " is not the table's"));
    require(!turn.infeed || turns_[t].barrier, cat("turn ", t, ": blocks do not meet where slices come from the host"));
  }
  const BlockMover* movers = table_at<BlockMover>(p_.movers_at, flat_.movers.size(), "movers");
  require(flat_.movers.empty() || std::memcmp(movers, flat_.movers.data(), flat_.movers.size() * sizeof(BlockMover)) == 0,
          "its movers are not the table's");
  for (size_t i = 0; i < count_; ++i)
    if (is_turn(int(i))) turn_steps_.push_back(int(i));
  require(turn_steps_.size() == turns_.size(), "it has not the table's turns");
  require(p_.chunk == flat_.infeed.chunk, "it has not the table's chunks of slices");
}

// Operands are where the table has them, relative to one address per block of memory.
void PlanForm::check_places() const {
  std::map<int, int> base_of_space, space_of_base;
  for (size_t i = 0; i < table_.operands.size(); ++i) {
    const BlockOperand& o = operands_[i];
    const Operand& wanted = table_.operands[i];
    const FlatBuffer& b = flat_.buffers[size_t(wanted.buffer)];
    const auto [base, is_new] = base_of_space.try_emplace(b.range.space, o.base);
    const bool right = o.base == base->second && space_of_base.try_emplace(o.base, b.range.space).first->second == b.range.space &&
                       o.base >= 0 && o.base < p_.bases;
    require(right && o.offset == b.first && o.mover == b.mover,
            cat("operand ", i, ", %", wanted.buffer, ", lies at ", o.base, ':', o.offset, ", where the table does not have it"));
    require(o.buffer == wanted.buffer && o.model_stride == wanted.model_stride && o.broadcast == wanted.broadcast &&
                o.dtype == b.view.dtype && size_t(o.element_bytes) == size_of(b.view.dtype),
            cat("operand ", i, " is not the table's"));
  }
  require(plan_.base_of.size() == size_t(p_.bases), "it has not as many addresses as it says");
  for (const auto& [base, space] : space_of_base) {
    const BlockPlan::Base& at = plan_.base_of[size_t(base)];
    require(at.buffer < 0 || (size_t(at.buffer) < flat_.buffers.size() && flat_.buffers[size_t(at.buffer)].range.space == space &&
                              flat_.buffers[size_t(at.buffer)].first == at.offset),
            cat("address ", base, " is another piece of memory's"));
  }
}

void PlanForm::check_step(size_t i) const {
  const BlockStep& s = steps_[i];
  const Step& t = table_.steps[i];
  const LinkOf link = link_of(table_, t);
  const bool same = s.kind == t.kind && s.partition == t.partition && s.rows == t.rows && s.k == t.k && s.n == t.n &&
                    s.replicas == t.replicas && s.extras == t.extras && s.has_bias == t.has_bias && s.has_mask == t.has_mask &&
                    s.reduced == t.reduced && s.first_in == t.first_in && s.ins == t.ins && s.first_out == t.first_out &&
                    s.outs == (t.kind == StepKind::copy ? 1 : t.outs) && s.run == flat_.run_of[i] && s.link == link.kind &&
                    s.link_activation == link.activation && s.announces == flat_.announced[i].weights &&
                    s.announces2 == flat_.announced[i].bias;
  require(same, cat(step_text(int(i)), " is not the table's"));
  require(s.first_block >= 0 && s.blocks >= 1 && s.first_block + s.blocks <= p_.blocks,
          cat(step_text(int(i)), " belongs to blocks that are not there"));
  const bool by_tiles = s.partition == Partition::tiles,
             by_leaf = s.partition == Partition::models && parts_of(s) == s.replicas && !table_.sums.empty();
  require(
      s.neighbours == 1 || (s.kind == StepKind::dense_update && (by_tiles || by_leaf) && s.neighbours > 1 && s.blocks % s.neighbours == 0),
      cat(step_text(int(i)), " has parts that blocks cannot share"));
  require(s.each == shared_count(s) / parts_of(s), cat(step_text(int(i)), " shares other rows"));
  require(s.kind != StepKind::loop || (s.blocks == p_.blocks && s.code == t.code && s.waits == 0 && s.signal < 0),
          cat(step_text(int(i)), " is not all blocks'"));
  require(s.waits >= 0 && s.first_wait >= 0 && size_t(s.first_wait) + size_t(s.waits) <= plan_.waits.size(),
          cat(step_text(int(i)), " has waits that are not there"));
  require(!s.early || (s.chain > 0 && s.early == 1), cat(step_text(int(i)), " brings weights, and begins no chain"));
  require(s.signal < p_.counters, cat(step_text(int(i)), " raises a counter that is not there"));
  for (int w = 0; w < s.waits; ++w) {
    const int counter = waits_[s.first_wait + w].counter;
    require(counter >= 0 && counter < p_.counters, cat(step_text(int(i)), " waits for counter ", counter, ", which is not there"));
  }
}

// A counter belongs to one run. At the start of the run it has the value that the run's earlier executions gave it.
void PlanForm::check_counters() {
  raisers_.resize(size_t(p_.counters));
  arrivals_.resize(size_t(p_.counters));
  for (size_t i = 0; i < count_; ++i)
    if (const int c = steps_[i].signal; c >= 0) {
      require(raisers_[size_t(c)].empty() || steps_[size_t(raisers_[size_t(c)][0])].run == steps_[i].run,
              cat("counter ", c, " is raised in two runs"));
      raisers_[size_t(c)].push_back(int(i));
      arrivals_[size_t(c)] += steps_[i].blocks;
    }
  for (size_t i = 0; i < count_; ++i)
    for (int w = 0; w < steps_[i].waits; ++w) {
      const BlockWait& wait = waits_[steps_[i].first_wait + w];
      const auto& raisers = raisers_[size_t(wait.counter)];
      if (wait.until <= 0) continue;
      require(!raisers.empty() && wait.until <= arrivals_[size_t(wait.counter)],
              cat(step_text(int(i)), " waits until counter ", wait.counter, " is ", wait.until, ", which comes to ",
                  arrivals_[size_t(wait.counter)]));
      require(steps_[size_t(raisers[0])].run == steps_[i].run,
              cat(step_text(int(i)), " waits for counter ", wait.counter, " of another run"));
    }
  repeats_.resize(turns_.size() + 1);
  for (size_t t = 0; t < turns_.size(); ++t)
    if (turns_[t].turn == Turn::again)
      for (int r = flat_.run_of[size_t(turns_[t].target)]; r <= int(t); ++r) repeats_[size_t(r)] = true;
}

void PlanForm::check_sums() {
  const WindowLayout windows = layout_of(table_.sums);
  const BlockSum* values = table_at<BlockSum>(p_.sums_at, windows.values.size(), "values of sums");
  const BlockRoot* roots = table_at<BlockRoot>(p_.roots_at, windows.roots.size(), "roots of sums");
  require(windows.values.empty() || (std::memcmp(values, windows.values.data(), windows.values.size() * sizeof(BlockSum)) == 0 &&
                                     std::memcmp(roots, windows.roots.data(), windows.roots.size() * sizeof(BlockRoot)) == 0),
          "its sums over ranks are not the table's");
  require(plan_.windows == windows.bytes, "its windows have other lengths than its sums");
  const char* why = why_not_sums({steps_, count_}, table_.sums, repeats_, announced_by_);
  require(!why, cat("of its sums over ranks, ", why ? why : ""));
  for (size_t i = 0; i < count_; ++i)
    require(!announces(steps_[i]) || (steps_[i].signal >= 0 && raisers_[size_t(steps_[i].signal)] == std::vector<int>{int(i)}),
            cat(step_text(int(i)), " has no counter of its own, by which its last block knows that it announces"));
}

// Each run's steps of the block, in any order, followed by its turn; targets are starts of runs or turns.
void PlanForm::check_list(int b) {
  const int32_t* list = lists_ + starts_[b];
  const int length = starts_[b + 1] - starts_[b];
  std::vector<int> run_at{0}, turn_at, given;
  int at = 0;
  for (int i = 0; i < length; ++i) require(list[i] >= 0 && size_t(list[i]) < count_, cat("block ", b, " has a step that is not there"));
  for (size_t r = 0; r <= turns_.size(); ++r) {
    const int first = r == 0 ? 0 : turn_steps_[r - 1] + 1, last = r < turns_.size() ? turn_steps_[r] : int(count_);
    given.clear();
    while (at < length && !is_turn(list[at])) given.push_back(list[at++]);
    std::vector<int> wanted;
    for (int i = first; i < last; ++i)
      if (has(b, i)) wanted.push_back(i);
    run_lists_.push_back(given);
    std::sort(given.begin(), given.end());
    require(given == wanted, cat("block ", b, " has other steps in run ", r, " than the plan says"));
    check_chains(b, run_lists_.back());
    if (r == turns_.size()) break;
    require(at < length && list[at] == turn_steps_[r], cat("block ", b, " has no turn ", r));
    turn_at.push_back(at++);
    run_at.push_back(at);
  }
  require(at == length, cat("block ", b, " goes on behind the end"));
  for (size_t t = 0; t < turns_.size(); ++t) {
    const int target = turns_[t].target;
    if (target < 0) continue;
    const int wanted = size_t(target) >= count_ ? length
                       : is_turn(target)        ? turn_at[size_t(table_.steps[size_t(target)].code)]
                                                : run_at[size_t(flat_.run_of[size_t(target)])];
    require(targets_[t * size_t(p_.blocks) + size_t(b)] == wanted,
            cat("turn ", t, " sends block ", b, " to another place than the others"));
  }
}
// Each product is in one chain, whose steps the block takes one after the other.
void PlanForm::check_chains(int b, const std::vector<int>& list) {
  chain_of_.resize(count_, -1);
  for (size_t i = 0; i < list.size();) {
    const BlockStep& first = steps_[list[i]];
    const size_t length = is_product(first.kind) ? size_t(std::max<int>(first.chain, 0)) : 1;
    require(length >= 1 && i + length <= list.size() && (is_product(first.kind) || first.chain == 0),
            cat(step_text(list[i]), " of block ", b, " begins no chain"));
    const std::vector<int> chain(list.begin() + ptrdiff_t(i), list.begin() + ptrdiff_t(i + length));
    i += length;
    if (!chains_.insert(chain).second) continue;
    std::vector<int> before;
    for (int step : chain) {
      chain_of_[size_t(step)] = chain[0];
      if (!before.empty()) {
        require(steps_[step].chain == 0, cat(step_text(step), " is in two chains"));
        const char* why = why_not_next(flat_, steps_, waits_, before, step);
        require(!why, cat(step_text(step), " is in a chain, but ", why ? why : ""));
      }
      before.push_back(step);
    }
  }
}
// What a chain hands is one other chain's rows, block by block.
void PlanForm::check_handed() {
  handed_by_.assign(count_, -1), first_handed_.assign(count_, 0);
  std::map<int, int> givers;  // by the first number
  int numbers = 0;
  for (size_t i = 0; i < count_; ++i) {
    const BlockStep& s = steps_[i];
    if (s.hands < 0) continue;
    require(givers.try_emplace(s.hands, int(i)).second && chain_of_[i] >= 0,
            cat(step_text(int(i)), " hands what others hand, or no chain's"));
    first_handed_[i] = parts_handed_;
    parts_handed_ += s.blocks;
  }
  for (const auto& [first, giver] : givers) {
    const BlockStep& s = steps_[giver];
    require(first >= numbers, cat(step_text(giver), " hands numbers that others hand"));
    numbers = first + s.rows * width_behind(s);
  }
  require(numbers <= p_.handed, "it hands more numbers than there are places");
  for (size_t i = 0; i < count_; ++i) {
    if (steps_[i].takes < 0) continue;
    const auto giver = givers.find(steps_[i].takes);
    require(giver != givers.end() && giver->second < int(i) && steps_[i].chain > 0 && hands_rows(flat_, steps_[giver->second], steps_[i]),
            cat(step_text(int(i)), " takes numbers that no step hands to it"));
    handed_by_[i] = giver->second;
    givers.erase(giver);
  }
  for (const auto& left : givers) fail(cat(step_text(left.second), " hands numbers that no step takes"));
}

}  // namespace lamina::section
