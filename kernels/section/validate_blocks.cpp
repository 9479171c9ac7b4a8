// Checks, without running it, that a block plan computes what its table means, from the plan's own bytes.
//
// A turn with a barrier ends everything before it. So the plan is cut into straight paths from one barrier to the next. On a path each
// block takes its steps in order. A satisfied wait implies that certain arrivals happened, without which its counter could not have the
// value. Each block has a vector clock: for each other block, how many of its positions in the path have ended. Checked are:
//  - All blocks reach the path's end. One order of blocks is enough, because counters only rise.
//  - For every byte, each read comes after the preceding write in the table's order, and each write after the preceding write and reads.
#include <algorithm>
#include <map>

#include "kernels/section/plan_form.h"
#include "kernels/section/touches.h"

namespace lamina::section {
namespace {

using Clock = std::vector<int>;  // per block: how many of its positions have ended

class PlanValidator : PlanForm {
 public:
  PlanValidator(const BlockPlan& plan, const Flat& flat) : PlanForm(plan, flat) {}

  void run() {
    go_on_from(0, false);
    for (size_t t = 0; t < turns_.size(); ++t)
      if (meets(t)) after_turn(int(t));
  }

 private:
  // --- paths ---
  // One element of a path: a run of steps, or a turn taken one way or the other.
  struct Element {
    int run = -1, turn = -1;
    bool jumps = false;
  };
  bool meets(size_t t) const { return turns_[t].barrier != 0; }

  void after_turn(int t) {
    const Turn kind = turns_[size_t(t)].turn;
    if (kind != Turn::leave) take(t, false);
    if (kind == Turn::scan || kind == Turn::test || kind == Turn::again || kind == Turn::branch || kind == Turn::leave) take(t, true);
  }
  void take(int t, bool jumps) {
    path_.push_back({.turn = t, .jumps = jumps});
    const int target = turns_[size_t(t)].target;
    if (!jumps)
      go_on_from(t + 1, false);
    else if (size_t(target) >= count_)
      check_path();
    else
      go_on_from(is_turn(target) ? table_.steps[size_t(target)].code : flat_.run_of[size_t(target)], is_turn(target));
    path_.pop_back();
  }
  void go_on_from(int run, bool at_turn) {
    if (!at_turn) {
      for (const Element& e : path_) require(e.run != run || p_.blocks == 1, cat("run ", run, " follows itself and blocks do not meet"));
      for (const Element& e : path_)
        if (e.run == run) return check_path();  // loop of a single block
      path_.push_back({.run = run});
    }
    if (size_t(run) == turns_.size() || meets(size_t(run)))
      check_path();
    else {
      for (const Element& e : path_) require(e.turn != run || p_.blocks == 1, cat("turn ", run, " follows itself and blocks do not meet"));
      after_turn(run);
    }
    if (!at_turn) path_.pop_back();
  }

  // --- one path ---
  void check_path() {
    lay_out();
    advance();
    for (Memory& m : memory_) m.clear();
    memory_.resize(size_t(p_.bases));
    find_moves();
    for (size_t e = 0; e < path_.size(); ++e) {
      if (path_[e].turn >= 0) {
        element_ = -1;
        touch_turn(path_[e]);
        continue;
      }
      element_ = int(e);
      const int r = path_[e].run, first = r == 0 ? 0 : turn_steps_[size_t(r) - 1] + 1,
                last = size_t(r) < turns_.size() ? turn_steps_[size_t(r)] : int(count_);
      for (int i = first; i < last; ++i)
        for (int b = steps_[i].first_block; b < steps_[i].first_block + steps_[i].blocks; ++b) {
          accesses_of(places_, steps_[i], b, accesses_);
          const Place place{b, place_of(i, b)};
          const int first = chain_of_[size_t(i)];
          for (const BlockAccess& a : accesses_)
            if (!a.write && a.ahead && first >= 0)
              touch(a, i, {b, place.at, steps_[first].early != 0}, place_of(first, b));
            else if (!a.write && steps_[i].takes >= 0)
              check_taken(a, i, b);
            else if (!a.write)
              touch(a, i, place, place.at);
          for (const BlockAccess& a : accesses_)
            if (a.write) touch(a, i, place, place.at);
        }
    }
    check_tails();
  }

  // Each block's positions in the path.
  void lay_out() {
    first_part_.resize(count_ + 1);
    if (first_part_[count_] == 0)
      for (size_t i = 0; i < count_; ++i) first_part_[i + 1] = first_part_[i] + steps_[i].blocks;
    part_at_.assign(size_t(first_part_[count_]), -1);
    order_.assign(size_t(p_.blocks), {});
    run_begins_.assign(size_t(p_.blocks), std::vector<int>(path_.size()));
    for (int b = 0; b < p_.blocks; ++b) {
      auto& order = order_[size_t(b)];
      for (size_t e = 0; e < path_.size(); ++e) {
        run_begins_[size_t(b)][e] = int(order.size());
        if (path_[e].turn >= 0) {
          order.push_back(turn_steps_[size_t(path_[e].turn)]);
        } else {
          const auto& list = run_lists_[size_t(b) * (turns_.size() + 1) + size_t(path_[e].run)];
          order.insert(order.end(), list.begin(), list.end());
        }
      }
      for (size_t at = 0; at < order.size(); ++at)
        part_at_[size_t(first_part_[size_t(order[at])] + b - steps_[order[at]].first_block)] = int(at);
    }
  }
  int place_of(int step, int block) const { return part_at_[size_t(first_part_[size_t(step)] + block - steps_[step].first_block)]; }

  // Advances all blocks as far as their waits allow, updating their clocks. A rank cannot know how far the others are. So a value is
  // collected only when this rank cannot go on otherwise, and must have been announced then: so nobody waits for ever (rank_sums.h).
  void advance() {
    const size_t blocks = size_t(p_.blocks), values = announced_by_.size();
    clocks_.assign(1, Clock(blocks));
    clock_of_.assign(blocks, {}), early_clock_of_.assign(blocks, {});
    done_.assign(blocks, 0);
    reached_.assign(size_t(p_.counters) + values + size_t(parts_handed_), 0);  // of a value: its announcements
    watching_.assign(reached_.size(), {});
    collectable_ = 0;
    std::vector<int> ready;
    for (size_t b = blocks; b-- > 0;) ready.push_back(int(b));
    while (true) {
      while (!ready.empty()) {
        const int b = ready.back();
        ready.pop_back();
        advance(b, ready);
      }
      if (size_t(collectable_) == values) break;
      const size_t value = size_t(p_.counters + collectable_);
      const int by = announced_by_[size_t(collectable_)];
      if (place_of(by, steps_[by].first_block) >= 0 && reached_[value] < steps_[by].blocks) break;
      ++collectable_;
      ready.swap(watching_[value]);
    }
    for (size_t b = 0; b < blocks; ++b)
      if (size_t(done_[b]) < order_[b].size()) fail_stuck(int(b));
  }
  void advance(int b, std::vector<int>& ready) {
    const auto raise = [&](int counter) {
      ++reached_[size_t(counter)];
      ready.insert(ready.end(), watching_[size_t(counter)].begin(), watching_[size_t(counter)].end());
      watching_[size_t(counter)].clear();
    };
    int& done = done_[size_t(b)];
    for (auto& order = order_[size_t(b)]; size_t(done) < order.size(); ++done) {
      const BlockStep& s = steps_[order[size_t(done)]];
      int missing = s.kind == StepKind::collect && s.k >= collectable_ ? p_.counters + s.k : -1;
      const int step = order[size_t(done)], giver = handed_by_[size_t(step)];
      const auto part_of = [&](int given) { return p_.counters + int(announced_by_.size()) + first_handed_[size_t(given)] + b; };
      if (const int part = giver < 0 ? -1 : part_of(giver) - s.first_block; part >= 0 && reached_[size_t(part)] == 0) missing = part;
      for (int w = 0; w < s.waits && missing < 0; ++w)
        if (const BlockWait& wait = waits_[s.first_wait + w]; reached_[size_t(wait.counter)] < wait.until) missing = wait.counter;
      if (missing >= 0) return watching_[size_t(missing)].push_back(b);
      auto &clocks = clock_of_[size_t(b)], &early = early_clock_of_[size_t(b)];
      const int before = clocks.empty() ? 0 : clocks.back(), first = chain_of_[size_t(step)];
      clocks.push_back(learn(s, before));
      const bool is_early = first >= 0 && steps_[first].early;
      early.push_back(!is_early ? clocks.back() : &s == &steps_[first] ? before : learn(s, early.back()));
      for (const int value : {s.kind == StepKind::announce ? s.k : -1, s.announces, s.announces2})
        if (value >= 0) ++reached_[size_t(p_.counters + value)];
      if (s.signal >= 0) raise(s.signal);
      if (s.hands >= 0) raise(part_of(step) - s.first_block);
    }
  }
  [[noreturn]] void fail_stuck(int b) const {
    const int step = order_[size_t(b)][size_t(done_[size_t(b)])];
    const BlockStep& s = steps_[step];
    for (int w = 0; w < s.waits; ++w) {
      const BlockWait& wait = waits_[s.first_wait + w];
      if (reached_[size_t(wait.counter)] < wait.until)
        fail(cat(step_text(step), " of block ", b, " waits until counter ", wait.counter, " is ", wait.until,
                 ", which never comes further than ", reached_[size_t(wait.counter)], of_sums()));
    }
    fail(cat(step_text(step), " of block ", b, " is never taken", of_sums()));
  }
  std::string of_sums() const {
    if (size_t(collectable_) == announced_by_.size()) return "";
    return cat(": its rank announces value ", collectable_, " behind a collection of this value or a later one, for which others may wait");
  }
  // Number of this path's arrivals that a satisfied wait implies. A wait for fewer than there are needs none after some iterations.
  int sure_arrivals(const BlockStep& s, const BlockWait& wait) const {
    return repeats_[size_t(s.run)] && wait.until < arrivals_[size_t(wait.counter)] ? 0 : wait.until;
  }

  // The clock of a block that has passed this step's waits.
  int learn(const BlockStep& s, int before) {
    Clock now;
    for (int w = 0; w < s.waits; ++w) {
      const BlockWait& wait = waits_[s.first_wait + w];
      const int sure = sure_arrivals(s, wait);
      if (sure <= 0) continue;
      for (int step : raisers_[size_t(wait.counter)])
        for (int other = steps_[step].first_block; other < steps_[step].first_block + steps_[step].blocks; ++other) {
          const int at = place_of(step, other);
          if (at < 0 || (sure < arrivals_[size_t(wait.counter)] && arrivals_without(wait.counter, other, at) >= sure)) continue;
          if (now.empty()) now = clocks_[size_t(before)];
          now[size_t(other)] = std::max(now[size_t(other)], at + 1);
          const Clock& theirs = clocks_[size_t(clock_of_[size_t(other)][size_t(at)])];
          for (size_t k = 0; k < now.size(); ++k) now[k] = std::max(now[k], theirs[k]);
        }
    }
    if (now.empty()) return before;
    clocks_.push_back(std::move(now));
    return int(clocks_.size()) - 1;
  }
  // The maximum of the counter before this block has passed that point.
  int arrivals_without(int counter, int block, int at) const {
    int out = 0;
    for (int step : raisers_[size_t(counter)])
      for (int other = steps_[step].first_block; other < steps_[step].first_block + steps_[step].blocks; ++other) {
        const int place = place_of(step, other);
        const bool behind =
            other == block ? place >= at
                           : place < done_[size_t(other)] && clocks_[size_t(clock_of_[size_t(other)][size_t(place)])][size_t(block)] > at;
        out += !behind;
      }
    return out;
  }

  // Whether x has ended when y's block, past the waits at y, is there. For one block, x may be y; its steps from `since` on are not over.
  bool is_before(const Place& x, const Place& y, int since) const {
    if (x.block == y.block) return x.at <= since;
    const auto& clock_of = y.early ? early_clock_of_ : clock_of_;
    return clocks_[size_t(clock_of[size_t(y.block)][size_t(y.at)])][size_t(x.block)] > x.at;
  }

  // --- bytes ---
  // Operands that move with the same loops keep their distance in each iteration. If others share their memory, or an iteration ends on the
  // path, an operand counts as all positions that it moves to.
  void find_moves() {
    std::map<int, int> mover_of_base;
    everywhere_.assign(size_t(p_.bases), false);
    auto see = [&](int operand) {
      const BlockOperand& o = operands_[operand];
      if (mover_of_base.try_emplace(o.base, o.mover).first->second != o.mover) everywhere_[size_t(o.base)] = true;
    };
    for (size_t e = 0; e < path_.size(); ++e) {
      if (path_[e].turn >= 0 && e > 0) everywhere_.assign(size_t(p_.bases), true);
      if (path_[e].turn >= 0 && turns_[size_t(path_[e].turn)].operand >= 0) see(turns_[size_t(path_[e].turn)].operand);
      if (path_[e].turn >= 0 && turns_[size_t(path_[e].turn)].result >= 0) see(turns_[size_t(path_[e].turn)].result);
      if (path_[e].run < 0) continue;
      const int r = path_[e].run, first = r == 0 ? 0 : turn_steps_[size_t(r) - 1] + 1,
                last = size_t(r) < turns_.size() ? turn_steps_[size_t(r)] : int(count_);
      for (int i = first; i < last; ++i) {
        for (int k = 0; k < steps_[i].ins; ++k) see(steps_[i].first_in + k);
        for (int k = 0; k < steps_[i].outs; ++k) see(steps_[i].first_out + k);
      }
    }
  }
  // Bytes relative to its base address.
  std::pair<int64_t, int64_t> range_of(const BlockAccess& a) const {
    const BlockOperand& o = operands_[a.operand];
    int64_t begin = o.offset + a.begin, end = o.offset + a.end;
    if (everywhere_[size_t(o.base)])
      for (int m = o.mover; m > 0; m = flat_.movers[size_t(m)].parent) {
        const int64_t most = most_iterations(flat_.movers[size_t(m)].loop);
        const int64_t reach = flat_.movers[size_t(m)].slice * std::max<int64_t>(most - 1, 0);
        (reach < 0 ? begin : end) += reach;
      }
    return {begin, end};
  }
  int64_t most_iterations(int loop) const {
    for (const BlockTurn& t : turns_)
      if (t.loop == loop && t.limit >= 0) return t.limit;
    return int64_t{1} << 32;
  }

  // Cells with exactly these bytes.
  template <class F>
  void each_cell(Memory& memory, int64_t begin, int64_t end, const F& f) {
    auto cut = [&](int64_t at) {
      auto next = memory.upper_bound(at);
      if (next == memory.begin()) return;
      auto cell = std::prev(next);
      if (cell->first == at || cell->second.end <= at) return;
      Cell rest = cell->second;
      cell->second.end = at;
      memory.emplace_hint(next, at, std::move(rest));
    };
    cut(begin), cut(end);
    int64_t at = begin;
    for (auto cell = memory.lower_bound(begin); at < end; ++cell) {
      if (cell == memory.end() || cell->first > at)
        cell = memory.emplace_hint(cell, at,
                                   Cell{.end = cell == memory.end() ? end : std::min(end, cell->first), .writers = {}, .readers = {}});
      f(cell->second);
      at = cell->second.end;
    }
  }

  // since: the place from which the access may happen, as far as the block's own steps order it.
  void touch(const BlockAccess& a, int step, const Place& place, int since) {
    const auto [begin, end] = range_of(a);
    const BlockOperand& o = operands_[a.operand];
    touch_bytes(memory_[size_t(o.base)], begin, end,
                {.place = place,
                 .step = step,
                 .operand = a.operand,
                 .shared = a.shared,
                 .element = element_,
                 .begin = o.offset + a.begin,
                 .end = o.offset + a.end},
                a.write, since);
  }
  // Rows that are handed are those that were written there last.
  void check_taken(const BlockAccess& a, int step, int block) {
    const auto [begin, end] = range_of(a);
    each_cell(memory_[size_t(operands_[a.operand].base)], begin, end, [&](const Cell& cell) {
      for (const Touch& w : cell.writers)
        require(w.step == handed_by_[size_t(step)],
                cat(step_text(step), " of block ", block, " takes what ", step_text(handed_by_[size_t(step)]), " hands, but ",
                    step_text(w.step), " writes there later"));
      require(!cell.writers.empty(), cat(step_text(step), " of block ", block, " takes what nobody has written"));
    });
  }
  // In one iteration of all loops, operands that move alike keep the distance of the first iteration.
  bool are_apart(const Touch& a, const Touch& b) const {
    return a.element >= 0 && a.element == b.element && operands_[a.operand].mover == operands_[b.operand].mover &&
           (a.end <= b.begin || b.end <= a.begin);
  }
  void touch_bytes(Memory& memory, int64_t begin, int64_t end, const Touch& now, bool write, int since) {
    if (begin >= end) return;
    const Place& place = now.place;
    const auto is_over = [&](const Touch& t) { return is_before(t.place, place, since); };
    each_cell(memory, begin, end, [&](Cell& cell) {
      for (const Touch& w : cell.writers)
        if (!(w.shared && now.shared && w.step == now.step) && !is_over(w) && !are_apart(w, now))
          fail_unordered(w, true, now, write, begin, end);
      if (!write) {
        for (Touch& r : cell.readers)
          if (r.place.block == place.block && r.element == now.element && r.begin == now.begin && r.end == now.end &&
              operands_[r.operand].mover == operands_[now.operand].mover) {
            if (r.place.at < place.at) r = now;
            return;
          }
        cell.readers.push_back(now);
        return;
      }
      for (const Touch& r : cell.readers)
        if (!is_over(r) && !are_apart(r, now)) fail_unordered(r, false, now, true, begin, end);
      // Accesses after this write are transitively after everything before it.
      std::erase_if(cell.writers, is_over), std::erase_if(cell.readers, is_over);
      cell.writers.push_back(now);
    });
  }
  [[noreturn]] void fail_unordered(const Touch& a, bool a_writes, const Touch& b, bool b_writes, int64_t begin, int64_t end) const {
    fail(cat(step_text(b.step), " of block ", b.place.block, b_writes ? " writes" : " reads", " bytes ", begin, " to ", end, " of piece ",
             operands_[b.operand].base, " (%", operands_[b.operand].buffer, "), which ", step_text(a.step), " of block ", a.place.block,
             a_writes ? " writes" : " reads", " (%", operands_[a.operand].buffer, ") before it, and nothing orders the two"));
  }

  // The values by which blocks decide, and the number of iterations, which the first block writes.
  void touch_turn(const Element& e) {
    const BlockTurn& turn = turns_[size_t(e.turn)];
    const int step = turn_steps_[size_t(e.turn)];
    if (turn.operand >= 0)
      for (int b = 0; b < p_.blocks; ++b)
        touch({.operand = turn.operand, .begin = 0, .end = turn.turn == Turn::scan ? 8 : 1}, step, {b, place_of(step, b)},
              place_of(step, b));
    if (turn.turn == Turn::test && e.jumps)
      touch({.operand = turn.result, .begin = 0, .end = 8, .write = true}, step, {0, place_of(step, 0)}, place_of(step, 0));
  }
  // All blocks zero the slices that no iteration writes. On the path, only the iterations' slices may touch these results.
  void check_tails() {
    if (p_.blocks == 1) return;
    const BlockTail* tails = reinterpret_cast<const BlockTail*>(plan_.bytes.data() + p_.tails_at);
    for (const Element& e : path_) {
      if (e.turn < 0 || turns_[size_t(e.turn)].tails == 0) continue;
      const BlockTurn& turn = turns_[size_t(e.turn)];
      for (int t = turn.first_tail; t < turn.first_tail + turn.tails; ++t) {
        const BlockOperand& o = operands_[tails[t].operand];
        for (auto& [begin, cell] : memory_[size_t(o.base)]) {
          if (cell.end <= o.offset || begin >= o.offset + turn.limit * tails[t].bytes) continue;
          for (const auto* touches : {&cell.writers, &cell.readers})
            for (const Touch& touch : *touches)
              if (!moves_with(operands_[touch.operand].mover, turn.loop))
                fail(cat(step_text(touch.step), " of block ", touch.place.block, " touches slices of %", o.buffer, " that ",
                         step_text(turn_steps_[size_t(e.turn)]), " makes zero, and nothing orders the two"));
        }
      }
    }
  }
  bool moves_with(int mover, int loop) const {
    for (int m = mover; m > 0; m = flat_.movers[size_t(m)].parent)
      if (flat_.movers[size_t(m)].loop == loop) return true;
    return false;
  }

  std::vector<Element> path_;
  // Per block: its steps; per element, and per position: index of the clock, and of the one without the waits of an early chain's first
  // step.
  std::vector<std::vector<int>> order_, run_begins_, clock_of_, early_clock_of_;
  std::vector<int> first_part_, part_at_, done_, reached_;
  std::vector<std::vector<int>> watching_;  // per counter: blocks that wait for it
  int collectable_ = 0;                     // values of sums over ranks below it may be collected
  std::vector<Clock> clocks_;
  std::vector<Memory> memory_;  // per base
  int element_ = -1;            // of the path: the run being checked
  std::vector<bool> everywhere_;
  std::vector<BlockAccess> accesses_;
};

}  // namespace

void validate(const BlockPlan& plan, const Flat& flat) { PlanValidator(plan, flat).run(); }

}  // namespace lamina::section
