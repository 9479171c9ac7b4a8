#include "tests/emulated/plan_mutants.h"

#include <algorithm>
#include <cstring>

namespace lamina::tests {

using namespace section;

PlanMutator::PlanMutator(BlockPlan plan, Flat flat) : plan_(std::move(plan)), flat_(std::move(flat)), steps_(plan_.steps) {
  for (const BlockStep& s : steps_) waits_.emplace_back(plan_.waits.begin() + s.first_wait, plan_.waits.begin() + s.first_wait + s.waits);
}

const std::vector<std::string>& PlanMutator::kinds() {
  static const std::vector<std::string> all{"wait removed",    "count changed", "wait moved",    "wait for another counter",
                                            "arrival removed", "arrival moved", "steps swapped", "operand moved",
                                            "meeting dropped", "chain changed", "sum changed",   "weights first",
                                            "handing changed"};
  return all;
}

std::string PlanMutator::mutate(std::mt19937& random) {
  constexpr std::string (PlanMutator::* all[])(std::mt19937&) = {
      &PlanMutator::remove_wait,    &PlanMutator::change_count, &PlanMutator::move_wait,  &PlanMutator::retarget_wait,
      &PlanMutator::remove_arrival, &PlanMutator::move_arrival, &PlanMutator::swap_steps, &PlanMutator::move_slot,
      &PlanMutator::drop_meeting,   &PlanMutator::change_chain, &PlanMutator::change_sum, &PlanMutator::bring_first,
      &PlanMutator::change_handing};
  kind = random() % std::size(all);
  const std::string done = (this->*all[kind])(random);
  write();
  return done;
}

int PlanMutator::pick_step(std::mt19937& random, bool (*good)(const BlockStep&)) const {
  std::vector<int> those;
  for (size_t i = 0; i < steps_.size(); ++i)
    if (good(steps_[i])) those.push_back(int(i));
  return those.empty() ? -1 : those[random() % those.size()];
}
static bool waits(const BlockStep& s) { return s.waits > 0; }
static bool raises(const BlockStep& s) { return s.signal >= 0; }
static bool is_step(const BlockStep& s) { return s.kind != StepKind::loop; }

std::string PlanMutator::remove_wait(std::mt19937& random) {
  const int i = pick_step(random, waits);
  if (i < 0) return "";
  auto& list = waits_[size_t(i)];
  const size_t w = random() % list.size();
  list.erase(list.begin() + ptrdiff_t(w));
  return cat("step ", i, ": wait ", w, " removed");
}
std::string PlanMutator::change_count(std::mt19937& random) {
  const int i = pick_step(random, waits);
  if (i < 0) return "";
  BlockWait& wait = waits_[size_t(i)][random() % waits_[size_t(i)].size()];
  const int before = wait.until;
  while (wait.until == before) wait.until = int(random() % unsigned(before + 2));
  return cat("step ", i, ": until ", wait.until, " instead of ", before);
}
std::string PlanMutator::move_wait(std::mt19937& random) {
  const int i = pick_step(random, waits), to = pick_step(random, is_step);
  if (i < 0 || to == i) return "";
  auto& list = waits_[size_t(i)];
  const size_t w = random() % list.size();
  waits_[size_t(to)].push_back(list[w]);
  list.erase(list.begin() + ptrdiff_t(w));
  return cat("step ", i, ": wait ", w, " moved to step ", to);
}
std::string PlanMutator::retarget_wait(std::mt19937& random) {
  const int i = pick_step(random, waits);
  if (i < 0 || plan_.program.counters < 2) return "";
  BlockWait& wait = waits_[size_t(i)][random() % waits_[size_t(i)].size()];
  const int before = wait.counter;
  while (wait.counter == before) wait.counter = int(random() % unsigned(plan_.program.counters));
  // A planner that picks the wrong step would use its number of blocks too.
  if (random() % 2)
    for (const BlockStep& s : steps_)
      if (s.signal == wait.counter) wait.until = s.blocks;
  return cat("step ", i, ": waits for counter ", wait.counter, " instead of ", before);
}
std::string PlanMutator::remove_arrival(std::mt19937& random) {
  const int i = pick_step(random, raises);
  if (i < 0) return "";
  steps_[size_t(i)].signal = -1;
  return cat("step ", i, ": raises nothing");
}
std::string PlanMutator::move_arrival(std::mt19937& random) {
  const int i = pick_step(random, raises), to = pick_step(random, is_step);
  if (i < 0 || to == i) return "";
  std::swap(steps_[size_t(i)].signal, steps_[size_t(to)].signal);
  return cat("steps ", i, " and ", to, ": each raises the other's counter");
}
std::string PlanMutator::swap_steps(std::mt19937& random) {
  const int block = int(random() % unsigned(plan_.program.blocks));
  int32_t starts[2];
  std::memcpy(starts, plan_.bytes.data() + plan_.program.starts_at + block * 4, 8);
  auto* list = reinterpret_cast<int32_t*>(plan_.bytes.data() + plan_.program.lists_at);
  std::vector<std::pair<int, int>> pairs;  // of one run
  for (int a = starts[0]; a < starts[1]; ++a)
    for (int b = a + 1; b < std::min(starts[1], a + 4) && is_step(steps_[size_t(list[a])]) && is_step(steps_[size_t(list[b])]); ++b)
      pairs.emplace_back(a, b);
  if (pairs.empty()) return "";
  const auto [a, b] = pairs[random() % pairs.size()];
  std::swap(list[a], list[b]);
  return cat("block ", block, ": step ", list[a], " before step ", list[b]);
}
// Moves it to where it overlaps others, within its block of memory.
std::string PlanMutator::move_slot(std::mt19937& random) {
  auto* operands = reinterpret_cast<BlockOperand*>(plan_.bytes.data() + plan_.program.operands_at);
  const int i = pick_step(random, is_step), which = int(random() % unsigned(steps_[size_t(i)].ins + steps_[size_t(i)].outs));
  const BlockStep& s = steps_[size_t(i)];
  const int operand = which < s.ins ? s.first_in + which : s.first_out + which - s.ins;
  const BlockOperand moved = operands[operand];
  if (moved.mover != 0) return "";
  const auto& buffers = flat_.buffers;
  const FlatBuffer& buffer = buffers[size_t(moved.buffer)];
  const int64_t before = buffer.first - buffer.range.begin, bytes = buffer.range.end - buffer.range.begin;
  std::vector<int64_t> places;
  int64_t high = 0;
  for (const FlatBuffer& b : buffers)
    if (b.range.space == buffer.range.space) high = std::max(high, b.range.end);
  for (const FlatBuffer& b : buffers)
    if (b.range.space == buffer.range.space && b.range.begin != buffer.range.begin && b.range.begin % 16 == buffer.range.begin % 16 &&
        b.range.begin + bytes <= high)
      places.push_back(b.range.begin);
  if (places.empty() || bytes == 0) return "";
  const int64_t to = places[random() % places.size()] + before;
  const bool all = random() % 2;
  for (size_t o = 0; o < flat_.table.operands.size(); ++o)
    if (int(o) == operand || (all && operands[o].buffer == moved.buffer)) operands[o].offset = to;
  return cat("step ", i, ": operand ", which, all ? " and all of its buffer" : "", " at ", to, " instead of ", moved.offset);
}
std::string PlanMutator::drop_meeting(std::mt19937& random) {
  auto* turns = reinterpret_cast<BlockTurn*>(plan_.bytes.data() + plan_.program.turns_at);
  std::vector<size_t> those;
  for (size_t t = 0; t < plan_.turns.size(); ++t)
    if (turns[t].barrier) those.push_back(t);
  if (those.empty()) return "";
  const size_t t = those[random() % those.size()];
  turns[t].barrier = 0;
  return cat("turn ", t, ": blocks do not meet");
}
// Joins a chain with the next one of its run, or cuts it in two.
std::string PlanMutator::change_chain(std::mt19937& random) {
  const int i = pick_step(random, [](const BlockStep& s) { return s.chain > 0; });
  if (i < 0) return "";
  BlockStep& first = steps_[size_t(i)];
  std::vector<int> links;  // of this chain, then of the run's next one
  int other = -1;
  for (int k = i; k < int(steps_.size()) && steps_[size_t(k)].run == first.run; ++k) {
    const BlockStep& s = steps_[size_t(k)];
    if (s.first_block != first.first_block || s.blocks != first.blocks) continue;
    if (k > i && s.chain > 0 && other < 0) other = k;
    if (int(links.size()) < first.chain) links.push_back(k);
  }
  if (int(links.size()) < first.chain) return "";
  if (other >= 0 && random() % 2) {
    first.chain += steps_[size_t(other)].chain, steps_[size_t(other)].chain = 0;
    return cat("step ", other, ": in one chain with step ", i);
  }
  if (first.chain < 2) return "";
  const int place = 1 + int(random() % unsigned(first.chain - 1));
  steps_[size_t(links[size_t(place)])].chain = first.chain - place, first.chain = place;
  return cat("step ", links[size_t(place)], ": cut from the chain of step ", i);
}

// A chain's weights are brought before its first step's waits, or no longer.
std::string PlanMutator::bring_first(std::mt19937& random) {
  const int i = pick_step(random, [](const BlockStep& s) { return s.chain > 0 && s.waits > 0; });
  if (i < 0) return "";
  steps_[size_t(i)].early ^= 1;
  return cat("step ", i, ": its weights come ", steps_[size_t(i)].early ? "first" : "behind its waits");
}

// Rows go elsewhere, come from elsewhere, or are not handed at all.
std::string PlanMutator::change_handing(std::mt19937& random) {
  const int from = pick_step(random, [](const BlockStep& s) { return s.hands >= 0; }),
            to = pick_step(random, [](const BlockStep& s) { return s.takes >= 0; });
  if (from < 0 || to < 0) return "";
  BlockStep &gives = steps_[size_t(from)], &takes = steps_[size_t(to)];
  switch (random() % 5) {
    case 0: gives.hands = -1; return cat("step ", from, ": hands nothing");
    case 1: takes.takes = -1; return cat("step ", to, ": takes nothing");
    case 2: gives.hands += 1; return cat("step ", from, ": hands rows to the next numbers");
    case 3: {
      const int other = pick_step(random, [](const BlockStep& s) { return s.link != LinkKind::none; });
      if (other == from) return "";
      std::swap(gives.hands, steps_[size_t(other)].hands);
      return cat("step ", other, ": hands its rows instead of step ", from);
    }
    default: {
      const int other = pick_step(random, [](const BlockStep& s) { return s.chain > 0; });
      if (other == to) return "";
      std::swap(takes.takes, steps_[size_t(other)].takes);
      return cat("step ", other, ": takes rows instead of step ", to);
    }
  }
}

// One number of a step that sums over ranks, or of what it finds in windows.
std::string PlanMutator::change_sum(std::mt19937& random) {
  const int i = pick_step(random, [](const BlockStep& s) { return is_of_ranks(s.kind); });
  if (i < 0) return "";
  BlockStep& s = steps_[size_t(i)];
  auto* const values = reinterpret_cast<BlockSum*>(plan_.bytes.data() + plan_.program.sums_at);
  BlockSum& sum = values[s.k];
  BlockRoot& root =
      reinterpret_cast<BlockRoot*>(plan_.bytes.data() + plan_.program.roots_at)[sum.first_root + int(random() % unsigned(sum.roots))];
  struct Number {
    const char* name;
    int32_t* at;
  };
  const Number numbers[] = {{"value", &s.k},
                            {"chunks", &s.rows},
                            {"elements", &s.n},
                            {"chunks of each", &s.each},
                            {"first block", &s.first_block},
                            {"roots of the step", &s.extras},
                            {"window", &sum.window},
                            {"ranks", &sum.ranks},
                            {"first root", &sum.first_root},
                            {"roots", &sum.roots},
                            {"flag", &sum.flag},
                            {"flags", &sum.flags},
                            {"rank of a root", &root.rank},
                            {"number of a root", &root.number},
                            {"joins of a root", &root.joins}};
  const Number& n = numbers[random() % std::size(numbers)];
  const int before = *n.at;
  *n.at += random() % 2 ? 1 : -1;
  return cat("step ", i, ": ", n.name, ' ', *n.at, " instead of ", before);
}

void PlanMutator::write() {
  auto* to = reinterpret_cast<BlockWait*>(plan_.bytes.data() + plan_.program.waits_at);
  int32_t next = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].first_wait = next, steps_[i].waits = int32_t(waits_[i].size());
    for (const BlockWait& wait : waits_[i]) to[next++] = wait;
  }
  std::memcpy(plan_.bytes.data(), steps_.data(), steps_.size() * sizeof(BlockStep));
}

}  // namespace lamina::tests
