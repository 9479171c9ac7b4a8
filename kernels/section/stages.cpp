#include "kernels/section/stages.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "kernels/section/access.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

constexpr size_t kMostSteps = 4096;  // more have weights beyond any cache
constexpr int kRowsOfPart = 16, kMostParts = 16;
constexpr double kLeastShare = 0.5, kSmall = 0.01;  // of the table's work

double cost(const Step& s) {
  const double values = double(s.rows) * s.n;
  const bool is_product = s.kind == StepKind::dense || s.kind == StepKind::dense_grad_input || s.kind == StepKind::dense_update;
  return is_product ? values * s.k : 8 * values;
}

bool can_fail(const Step& s) { return s.kind == StepKind::sparse_cross_entropy; }  // a label may be out of range

// Steps of a table from `first` to `last` - 1, by what they need.
struct Run {
  int32_t first = 0, last = 0;
  std::vector<int32_t> rows;           // of each row alone
  std::vector<int32_t> whole;          // updates: of all rows
  std::vector<int32_t> before, after;  // small ones: of nothing in `rows` and `whole`; of no use there
  double cost = 0;
};

// The longest run from step `first` on in which the order of rows is free.
Run run_from(int32_t first, const Table& table, const std::vector<OperandRange>& ranges, double small_cost) {
  Run run{.first = first, .last = first};
  EarlierAccesses of_rows(ranges), of_whole(ranges), of_after(ranges);
  std::vector<Access> accesses;
  bool may_stop = false;  // by an error, behind which no state may change
  // Only steps of the same rows keep their order row by row; any other two must not touch what the other writes.
  const auto conflicts = [&](const EarlierAccesses& earlier, Step s, bool row_by_row = false) {
    if (!row_by_row) s.partition = Partition::tiles;
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return earlier.conflicting(s, a) != nullptr; });
  };
  for (; size_t(run.last) < table.steps.size(); ++run.last) {
    const Step& s = table.steps[size_t(run.last)];
    const bool by_rows = s.partition == Partition::rows && (run.rows.empty() || table.steps[size_t(run.rows[0])].rows == s.rows);
    const bool whole = s.kind == StepKind::dense_update && s.partition == Partition::tiles;
    const bool small =
        !by_rows && !whole && cost(s) <= small_cost && s.kind != StepKind::loop && s.kind != StepKind::branch && !can_fail(s);
    if (s.replicas != 1 || !(by_rows || (!run.rows.empty() && (whole || small)))) break;
    accesses_of(table, s, accesses);
    const bool behind_rows = conflicts(of_rows, s, by_rows), behind_others = conflicts(of_whole, s) || conflicts(of_after, s);
    if (!small && (behind_others || (by_rows && behind_rows))) break;
    const bool is_state = may_stop && std::any_of(accesses.begin(), accesses.end(),
                                                  [&](const Access& a) { return a.write && ranges[size_t(a.buffer)].space >= 0; });
    std::vector<int32_t>& list = by_rows ? run.rows : whole ? run.whole : behind_rows || behind_others || is_state ? run.after : run.before;
    may_stop = may_stop || can_fail(s);
    list.push_back(run.last);
    if (&list != &run.before)
      for (const Access& a : accesses) (by_rows ? of_rows : whole ? of_whole : of_after).add(s, a);
    run.cost += cost(s);
  }
  return run;
}

// Per update, the position among run.rows of the last step that it must follow.
std::vector<size_t> places_of(const Run& run, const Table& table, const std::vector<OperandRange>& ranges) {
  struct Touch {
    size_t position;
    Access access;
  };
  std::vector<Touch> touches;
  RangeIndex index;
  std::vector<Access> accesses;
  std::vector<size_t> failing;
  for (size_t p = 0; p < run.rows.size(); ++p) {
    if (can_fail(table.steps[size_t(run.rows[p])])) failing.push_back(p);
    accesses_of(table, table.steps[size_t(run.rows[p])], accesses);
    for (const Access& a : accesses) index.add(ranges[size_t(a.buffer)], int(touches.size())), touches.push_back({p, a});
  }
  std::vector<size_t> places;
  for (int32_t number : run.whole) {
    const Step& update = table.steps[size_t(number)];
    accesses_of(table, update, accesses);
    size_t place = 0;
    for (size_t p : failing)
      if (run.rows[p] < number) place = p;
    for (const Access& a : accesses)
      index.any_overlapping(ranges[size_t(a.buffer)], [&](int touch) {
        const Touch& t = touches[size_t(touch)];
        if (t.position > place && conflict(table.steps[size_t(run.rows[t.position])], t.access, update, a, ranges)) place = t.position;
        return false;
      });
    places.push_back(place);
  }
  return places;
}

// The thread of each of run.rows. Weights are divided evenly in the order of their first use, by the work of the steps that use them;
// another step goes with the one before. An update moves behind, to the thread of its weights.
std::vector<int32_t> threads_of(const Run& run, std::vector<size_t>& places, const Table& table, const std::vector<OperandRange>& ranges,
                                int threads) {
  std::map<std::pair<int, int64_t>, size_t> known;
  const auto memory_of = [&](int operand) {
    const OperandRange& range = ranges[size_t(table.operands[size_t(operand)].buffer)];
    return std::pair(range.space, range.begin);
  };
  std::vector<size_t> weights_of, weights_of_updates;
  std::vector<double> work;
  double total = 0;
  for (int32_t number : run.rows) {
    const Step& s = table.steps[size_t(number)];
    size_t weights = weights_of.empty() ? 0 : weights_of.back();
    if (s.kind == StepKind::dense || s.kind == StepKind::dense_grad_input)
      weights = known.try_emplace(memory_of(s.first_in + 1), work.size()).first->second;
    if (weights >= work.size()) work.push_back(0);
    weights_of.push_back(weights);
    work[weights] += cost(s), total += cost(s);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Step& s = table.steps[size_t(run.whole[i])];
    size_t weights = weights_of[places[i]];
    for (int operand = s.first_in + 2; operand < s.first_in + 2 + s.extras; ++operand)
      if (const auto found = known.find(memory_of(operand)); found != known.end()) weights = found->second;
    weights_of_updates.push_back(weights);
    work[weights] += cost(s), total += cost(s);
  }
  std::vector<int32_t> thread_of, out;
  double sum = 0;
  for (double w : work) {
    thread_of.push_back(std::min(threads - 1, int(threads * (sum + w / 2) / std::max(total, 1.0))));
    sum += w;
  }
  for (size_t weights : weights_of) out.push_back(thread_of[weights]);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto own = std::find(out.begin() + long(places[i]), out.end(), thread_of[weights_of_updates[i]]);
    if (own != out.end()) places[i] = size_t(own - out.begin());
  }
  return out;
}

double idle_of(const Stages& stages, const Table& table) {
  std::vector<double> free(size_t(stages.threads)), before(size_t(stages.parts)), done(size_t(stages.parts));
  double work = 0;
  for (const Stages::Stage& stage : stages.stages) {
    double& now = free[size_t(stage.thread)];
    const auto run = [&](int32_t item, double share) { now += share * cost(table.steps[size_t(stages.items[size_t(item)].step)]); };
    for (int32_t i = stage.begin; i < stage.tail; ++i) work += cost(table.steps[size_t(stages.items[size_t(i)].step)]);
    for (int part = 0; part < stages.parts; ++part) {
      now = std::max(now, before[size_t(part)]);
      for (int32_t i = stage.begin; i < stage.end; ++i) {
        const bool whole = stages.items[size_t(i)].whole;
        if (!whole || part == stages.parts - 1) run(i, whole ? 1 : 1.0 / stages.parts);
      }
      done[size_t(part)] = now;
    }
    for (int32_t i = stage.end; i < stage.tail; ++i) run(i, 1);
    before = done;
  }
  const double all = *std::max_element(free.begin(), free.end());
  return all > 0 ? stages.threads - work / all : 0;
}

std::shared_ptr<const Stages> place_stages(const Table& table, const std::vector<OperandRange>& ranges, int threads) {
  if (table.steps.size() > kMostSteps) return nullptr;
  Run run;
  double total = 0;
  for (const Step& s : table.steps) total += cost(s);
  for (int32_t i = 0; size_t(i) < table.steps.size();) {
    Run other = run_from(i, table, ranges, kSmall * total);
    i = std::max(other.last, i + 1);
    if (other.cost > run.cost) run = std::move(other);
  }
  if (run.rows.empty() || run.cost < kLeastShare * total) return nullptr;
  const int rows = table.steps[size_t(run.rows[0])].rows;
  if (threads > 1 && rows < threads) return nullptr;
  std::vector<size_t> places = places_of(run, table, ranges);
  const std::vector<int32_t> thread = threads_of(run, places, table, ranges, threads);

  auto out = std::make_shared<Stages>();
  out->first = run.first, out->last = run.last;
  out->before = std::move(run.before), out->after = std::move(run.after);
  out->threads = threads;
  out->parts = threads == 1 ? 1 : std::max(threads, std::min(rows / kRowsOfPart, kMostParts));
  std::vector<std::vector<int32_t>> updates(run.rows.size());  // by their place
  for (size_t i = 0; i < places.size(); ++i) updates[places[i]].push_back(run.whole[i]);
  for (size_t begin = 0, end; begin < run.rows.size(); begin = end) {
    end = size_t(std::find_if(thread.begin() + long(begin), thread.end(), [&](int32_t t) { return t != thread[begin]; }) - thread.begin());
    const bool is_last = end == run.rows.size();
    Stages::Stage stage{.thread = thread[begin], .begin = int32_t(out->items.size())};
    std::vector<int32_t> tail;
    for (size_t p = begin; p < end; ++p) {
      out->items.push_back({run.rows[p]});
      for (int32_t update : updates[p]) {
        if (is_last)
          out->items.push_back({update, true});
        else
          tail.push_back(update);
      }
    }
    stage.end = int32_t(out->items.size());
    for (int32_t update : tail) out->items.push_back({update, true});
    stage.tail = int32_t(out->items.size());
    out->stages.push_back(stage);
  }
  out->idle = idle_of(*out, table);
  const int count = int(out->stages.size());
  return threads == 1 || (count > 1 && count <= Stages::kMost) ? out : nullptr;
}

std::atomic<int> forced{-1};  // a way, or none
constexpr uint32_t kTries = 4, kLongestPause = 4096;

}  // namespace

void place_ways(Table& table, const std::vector<OperandRange>& ranges) {
  if (table.threads == 1) return;
  table.ways = std::make_shared<Ways>();
  table.ways->on_all = place_stages(table, ranges, table.threads);
  table.ways->on_one = place_stages(table, ranges, 1);
}

std::string print(const Ways& ways) {
  if (!ways.on_all) return "";
  std::string out = "in stages";
  for (size_t i = 0; i < ways.on_all->stages.size(); ++i) {
    const Stages::Stage& stage = ways.on_all->stages[i];
    out += cat(i ? ", thread " : ": thread ", stage.thread, " from step ", ways.on_all->items[size_t(stage.begin)].step);
  }
  return cat(out, ", rows in ", ways.on_all->parts, " parts");
}

void Ways::always(std::optional<Way> way) { forced.store(way ? int(*way) : -1, std::memory_order_relaxed); }

// A trial is four calls of each way, of which the first brings the values into the caches of the way's threads.
Ways::Way Ways::next() {
  if (const int way = forced.load(std::memory_order_relaxed); way >= 0) return way == staged && !on_all ? shared : Way(way);
  std::lock_guard lock(mutex_);
  const uint32_t at = call_++ - trial_, ways = 3;
  if (int32_t(at) < 0) return fastest_;
  if (at == 0) measured_ = {};
  if (at < ways * kTries) {
    const Way way = Way(at / kTries);
    return way == staged && !on_all ? shared : way;
  }
  fastest_ = Way(std::min_element(least_.begin(), least_.end()) - least_.begin());
  trial_ = call_ + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return fastest_;
}

void Ways::took(Way way, std::chrono::nanoseconds time) {
  std::lock_guard lock(mutex_);
  const uint32_t at = call_ - trial_;  // calls of the trial that have begun
  if (int32_t(at) <= 0 || (at - 1) % kTries == 0) return;
  least_[way] = std::exchange(measured_[way], true) ? std::min(least_[way], time) : time;
}

}  // namespace lamina::section
