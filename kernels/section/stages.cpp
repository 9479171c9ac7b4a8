#include "kernels/section/stages.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "kernels/section/access.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

constexpr size_t kMostSteps = 4096;  // more have weights beyond any cache
constexpr int kRowsOfPart = 16, kMostParts = 16;
constexpr double kLeastShare = 0.5, kSmall = 0.01;  // of the table's work
constexpr double kHandOver = 40'000;                // of a part to another thread, as the multiply-adds of that time

double cost(const Step& s) {
  const double values = double(s.rows) * s.n;
  const bool is_product = s.kind == StepKind::dense || s.kind == StepKind::dense_grad_input || s.kind == StepKind::dense_update;
  return is_product ? values * s.k : 8 * values;
}

// Steps of a table from `first` to `last` - 1, by what they need.
struct Run {
  int32_t first = 0, last = 0;
  std::vector<int32_t> rows;           // of each row alone
  std::vector<int32_t> whole;          // updates: of all rows
  std::vector<int32_t> before, after;  // small ones: of nothing in `rows` and `whole`; of no use there
  double cost = 0;
  Within within() const { return {first, last, before, after}; }
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
    if ((s.replicas != 1 && !whole) || !(by_rows || (!run.rows.empty() && (whole || small)))) break;
    accesses_of(table, s, accesses);
    const bool behind_rows = conflicts(of_rows, s, by_rows), behind_others = conflicts(of_whole, s) || conflicts(of_after, s);
    const bool is_state = may_stop && writes_state(accesses, ranges);
    if (!small && (behind_others || (by_rows && (behind_rows || is_state)))) break;
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

// The thread of each of run.rows. Weights are divided evenly in the order of their first use, by the work of the steps that use them,
// into `segments`, which the threads take in turn; another step goes with the one before. An update moves behind, to the thread of its
// weights.
std::vector<int32_t> threads_of(const Run& run, std::vector<size_t>& places, const Table& table, const std::vector<OperandRange>& ranges,
                                int threads, int segments) {
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
    thread_of.push_back(std::min(segments - 1, int(segments * (sum + w / 2) / std::max(total, 1.0))) % threads);
    sum += w;
  }
  for (size_t weights : weights_of) out.push_back(thread_of[weights]);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto own = std::find(out.begin() + long(places[i]), out.end(), thread_of[weights_of_updates[i]]);
    if (own != out.end()) places[i] = size_t(own - out.begin());
  }
  return out;
}

// When the threads would be done with stages, by the work of their steps.
class StageClock {
 public:
  StageClock(int threads, int parts) : free_(size_t(threads)), before_(size_t(parts)), done_(size_t(parts)) {}

  double free(int thread) const { return free_[size_t(thread)]; }
  double ready() const { return before_[0]; }  // the next stage's first part
  void run(int thread, double work) { free_[size_t(thread)] += work; }
  // A stage whose parts take so long each; `last`: what the last part has beside that.
  void run_stage(int thread, double part, double last) {
    double& now = free_[size_t(thread)];
    for (size_t p = 0; p < before_.size(); ++p) {
      now = std::max(now, before_[p]) + part;
      if (p + 1 == before_.size()) now += last;
      done_[p] = now + kHandOver;
    }
    before_ = done_;
  }
  double end() const { return *std::max_element(free_.begin(), free_.end()); }

 private:
  std::vector<double> free_, before_, done_;
};

// Each thread's layers in `segments / threads` runs. An update runs when its thread would wait otherwise, or behind the thread's last
// stage.
std::shared_ptr<const Stages> place_stages(const Run& run, std::vector<size_t> places, const Table& table,
                                           const std::vector<OperandRange>& ranges, int threads, int segments) {
  const int rows = table.steps[size_t(run.rows[0])].rows;
  const std::vector<int32_t> thread = threads_of(run, places, table, ranges, threads, segments);
  const auto cost_of = [&](int32_t step) { return cost(table.steps[size_t(step)]); };

  auto out = std::make_shared<Stages>();
  static_cast<Within&>(*out) = run.within();
  out->threads = threads;
  out->parts = threads == 1 ? 1 : std::max(threads, std::min(rows / kRowsOfPart, kMostParts));
  std::vector<std::vector<int32_t>> updates(run.rows.size());  // by their place
  for (size_t i = 0; i < places.size(); ++i) updates[places[i]].push_back(run.whole[i]);

  struct Made {
    int32_t thread = 0;
    std::vector<Stages::Item> items;
    std::vector<int32_t> tail;
  };
  std::vector<Made> made;
  std::vector<std::deque<int32_t>> waiting(static_cast<size_t>(threads));  // updates
  std::vector<int> latest(size_t(threads), -1);                            // each thread's stage
  StageClock clock(threads, out->parts);
  double work = 0;
  for (size_t begin = 0, end; begin < run.rows.size(); begin = end) {
    end = size_t(std::find_if(thread.begin() + long(begin), thread.end(), [&](int32_t t) { return t != thread[begin]; }) - thread.begin());
    const int32_t t = thread[begin];
    std::deque<int32_t>& own = waiting[size_t(t)];
    for (; !own.empty() && clock.free(t) + cost_of(own.front()) <= clock.ready(); own.pop_front()) {
      made[size_t(latest[size_t(t)])].tail.push_back(own.front());
      clock.run(t, cost_of(own.front()));
    }
    latest[size_t(t)] = int(made.size());
    Made& stage = made.emplace_back(Made{.thread = t});
    double of_rows = 0, of_updates = 0;
    for (size_t p = begin; p < end; ++p) {
      stage.items.push_back({run.rows[p]});
      of_rows += cost_of(run.rows[p]);
      for (int32_t update : updates[p]) {
        work += cost_of(update);
        if (end < run.rows.size()) {
          own.push_back(update);
        } else {
          stage.items.push_back({update, true});
          of_updates += cost_of(update);
        }
      }
    }
    clock.run_stage(t, of_rows / out->parts, of_updates);
    work += of_rows;
  }
  for (size_t t = 0; t < waiting.size(); ++t)
    for (int32_t update : waiting[t]) {
      made[size_t(latest[t])].tail.push_back(update);
      clock.run(int(t), cost_of(update));
    }
  for (const Made& m : made) {
    Stages::Stage& stage = out->stages.emplace_back(Stages::Stage{.thread = m.thread, .begin = int32_t(out->items.size())});
    out->items.insert(out->items.end(), m.items.begin(), m.items.end());
    stage.end = int32_t(out->items.size());
    for (int32_t update : m.tail) out->items.push_back({update, true});
    stage.tail = int32_t(out->items.size());
  }
  out->idle = clock.end() > 0 ? threads - work / clock.end() : 0;
  return out;
}

// With the number of segments that is done first.
std::shared_ptr<const Stages> best_stages(const Run& run, const std::vector<size_t>& places, const Table& table,
                                          const std::vector<OperandRange>& ranges, int threads) {
  if (table.steps[size_t(run.rows[0])].rows < threads) return nullptr;
  std::shared_ptr<const Stages> best;
  for (int segments = threads; segments <= Stages::kMost; segments *= 2) {
    auto made = place_stages(run, places, table, ranges, threads, segments);
    const size_t count = made->stages.size();
    if (count > 1 && count <= Stages::kMost && (!best || made->idle < best->idle)) best = std::move(made);
  }
  return best;
}

// Memory by size: what is given back serves the next value of that size.
class OwnMemory {
 public:
  int64_t take(int64_t bytes) {
    std::vector<int64_t>& free = free_[bytes];
    if (free.empty()) return std::exchange(end_, end_ + (bytes + 63) / 64 * 64);
    const int64_t at = free.back();
    free.pop_back();
    return at;
  }
  void give(int64_t at, int64_t bytes) { free_[bytes].push_back(at); }
  int64_t end() const { return end_; }

 private:
  std::map<int64_t, std::vector<int64_t>> free_;
  int64_t end_ = 0;
};

// A value of the table and the items of chunks that use it.
struct Uses {
  int32_t first = 0, last = 0;
  bool is_local = true;          // only they do, row by row
  std::vector<int32_t> buffers;  // that are this value
};
using Stretch = std::tuple<int, int64_t, int64_t>;  // space, begin and end
int64_t bytes_of(const Stretch& memory) { return std::get<2>(memory) - std::get<1>(memory); }

std::map<Stretch, Uses> local_values(const std::vector<Chunks::Item>& items, const Table& table, const std::vector<OperandRange>& ranges) {
  std::map<Stretch, Uses> values;
  std::vector<std::map<Stretch, Uses>::iterator> numbered;
  RangeIndex index;
  std::vector<int32_t> item_of(table.steps.size(), -1);
  for (size_t i = 0; i < items.size(); ++i) item_of[size_t(items[i].step)] = int32_t(i);
  std::vector<Access> accesses;
  for (size_t i = 0; i < table.steps.size(); ++i) {
    const Step& s = table.steps[i];
    const int32_t item = item_of[i];
    accesses_of(table, s, accesses);
    for (size_t a = 0; a < accesses.size(); ++a) {
      const int32_t buffer = accesses[a].buffer;
      const OperandRange& range = ranges[size_t(buffer)];
      const auto [value, is_new] = values.try_emplace({range.space, range.begin, range.end});
      Uses& uses = value->second;
      if (is_new) {
        index.any_overlapping(range, [&](int other) {
          uses.is_local = numbered[size_t(other)]->second.is_local = false;
          return false;
        });
        index.add(range, int(numbered.size()));
        numbered.push_back(value);
        uses.first = item;
      }
      const bool by_rows = s.kind == StepKind::dense_update ? a < 2 : accesses[a].by_rows;
      uses.is_local = uses.is_local && range.is_inner && item >= 0 && by_rows && bytes_of(value->first) % s.rows == 0;
      uses.first = std::min(uses.first, item), uses.last = std::max(uses.last, item);
      if (std::find(uses.buffers.begin(), uses.buffers.end(), buffer) == uses.buffers.end()) uses.buffers.push_back(buffer);
    }
  }
  std::erase_if(values, [](const auto& value) { return !value.second.is_local; });
  return values;
}

// How many chunks, as many for each thread: large enough for the work of a chunk to be more than its reading of weights and sums.
int64_t chunks_of(int64_t rows, int threads) {
  constexpr int64_t most = 256;  // rows of a chunk
  return (rows + threads * most - 1) / (threads * most) * threads;
}

// Bytes of an update's sums: the gradient of the weights; the bias's blocks or, of one column, dz.
int64_t sums_bytes(const Step& s) {
  const int64_t weights = s.code >= 0 ? int64_t(s.k) * s.n : 0;
  const int64_t bias = !s.has_bias ? 0 : s.n == 1 ? s.rows : (int64_t(s.rows) + Chunks::kBlock - 1) / Chunks::kBlock * s.n;
  return ((weights + bias) * int64_t(sizeof(float)) + 63) / 64 * 64;
}

// Whether the updates can read x and dz chunk by chunk: what the run's rows write there, they write row by row.
bool read_rows_as_written(const Run& run, const Table& table, const std::vector<OperandRange>& ranges) {
  EarlierAccesses of_rows(ranges);
  std::vector<Access> accesses;
  for (int32_t number : run.rows) {
    accesses_of(table, table.steps[size_t(number)], accesses);
    for (const Access& a : accesses) of_rows.add(table.steps[size_t(number)], a);
  }
  return std::all_of(run.whole.begin(), run.whole.end(), [&](int32_t number) {
    Step update = table.steps[size_t(number)];
    accesses_of(table, update, accesses);
    update.partition = Partition::rows;
    return std::all_of(accesses.begin(), accesses.begin() + 2, [&](Access a) {
      a.by_rows = true;
      return of_rows.conflicting(update, a) == nullptr;
    });
  });
}

std::shared_ptr<const Chunks> place_chunks(const Run& run, const std::vector<size_t>& places, const Table& table,
                                           const std::vector<OperandRange>& ranges, int threads, int64_t least_local) {
  const int rows = table.steps[size_t(run.rows[0])].rows;
  if (threads > Chunks::kMost || rows <= Chunks::kBlock * (threads - 1) || !read_rows_as_written(run, table, ranges)) return nullptr;
  auto out = std::make_shared<Chunks>();
  static_cast<Within&>(*out) = run.within();
  out->rows = rows;
  out->count = int32_t(chunks_of(rows, threads));
  std::vector<std::vector<int32_t>> updates(run.rows.size());  // by their place
  for (size_t i = 0; i < places.size(); ++i) updates[places[i]].push_back(run.whole[i]);
  for (size_t p = 0; p < run.rows.size(); ++p) {
    out->items.push_back({run.rows[p]});
    for (int32_t update : updates[p]) {
      const Step& s = table.steps[size_t(update)];
      if (s.rows != rows || rows > Chunks::kMostRows || s.replicas != 1) return nullptr;
      out->items.push_back({update, out->sums_bytes});
      out->sums_bytes += sums_bytes(s);
    }
  }
  struct Value {
    const Uses* uses;
    int64_t bytes, at;  // of a chunk
  };
  std::vector<std::vector<Value>> begin(out->items.size()), end(out->items.size());
  int64_t local = 0;
  const auto values = local_values(out->items, table, ranges);
  for (const auto& [memory, uses] : values) {
    begin[size_t(uses.first)].push_back({&uses, bytes_of(memory) / rows * out->most_rows(), 0});
    local += bytes_of(memory);
  }
  if (local < least_local || out->sums_bytes * out->count > local) return nullptr;  // sums go through the caches once a chunk
  OwnMemory own;
  for (size_t i = 0; i < out->items.size(); ++i) {
    for (Value& value : begin[i]) {
      value.at = own.take(value.bytes);
      for (int32_t buffer : value.uses->buffers) out->locals.push_back({buffer, int32_t(value.bytes / out->most_rows()), value.at});
      end[size_t(value.uses->last)].push_back(value);
    }
    for (const Value& value : end[i]) own.give(value.at, value.bytes);
  }
  out->own_bytes = own.end();
  return out;
}

// The run with the most work, if that is much of the table's.
std::optional<Run> longest_run(const Table& table, const std::vector<OperandRange>& ranges) {
  if (table.steps.size() > kMostSteps) return {};
  Run run;
  double total = 0;
  for (const Step& s : table.steps) total += cost(s);
  for (int32_t i = 0; size_t(i) < table.steps.size();) {
    Run other = run_from(i, table, ranges, kSmall * total);
    i = std::max(other.last, i + 1);
    if (other.cost > run.cost) run = std::move(other);
  }
  if (run.rows.empty() || run.cost < kLeastShare * total) return {};
  return run;
}

std::atomic<int> forced{-1};                                               // a way, or none
constexpr uint32_t kTries = 4, kShortestPause = 64, kLongestPause = 4096;  // calls
constexpr double kClearly = 1.03;

}  // namespace

void place_ways(Table& table, const std::vector<OperandRange>& ranges, int64_t least_local) {
  if (table.threads == 1) return;
  table.ways = std::make_shared<Ways>();
  const std::optional<Run> run = longest_run(table, ranges);
  if (!run) return;
  const std::vector<size_t> places = places_of(*run, table, ranges);
  table.ways->on_all = best_stages(*run, places, table, ranges, table.threads);
  table.ways->in_chunks = place_chunks(*run, places, table, ranges, table.threads, least_local);
  table.ways->on_one = place_stages(*run, places, table, ranges, 1, 1);
}

std::string print(const Ways& ways) {
  std::string out;
  if (ways.on_all) {
    for (size_t i = 0; i < ways.on_all->stages.size(); ++i) {
      const Stages::Stage& stage = ways.on_all->stages[i];
      out += cat(i ? ", thread " : "in stages: thread ", stage.thread, " from step ", ways.on_all->items[size_t(stage.begin)].step);
    }
    out += cat(", rows in ", ways.on_all->parts, " parts");
  }
  if (ways.in_chunks) out += cat(out.empty() ? "" : ", or ", "in chunks of ", ways.in_chunks->most_rows(), " rows");
  return out;
}

void Ways::always(std::optional<Way> way) { forced.store(way ? int(*way) : -1, std::memory_order_relaxed); }

// A trial is four calls of each way, of which the first brings the values into the caches of the way's threads.
Ways::Way Ways::next() {
  std::array<Way, kCount> ways{};
  uint32_t count = 0;
  for (Way way : {shared, staged, chunked, alone})
    if ((way != staged || on_all) && (way != chunked || in_chunks)) ways[count++] = way;
  if (const int way = forced.load(std::memory_order_relaxed); way >= 0)
    return std::find(ways.begin(), ways.begin() + count, Way(way)) == ways.begin() + count ? shared : Way(way);
  std::lock_guard lock(mutex_);
  const uint32_t at = call_++ - trial_;
  if (int32_t(at) < 0) return fastest_;
  if (at == 0) measured_ = {};
  if (at < count * kTries) return ways[at / kTries];
  // Where another way is clearly faster than the one before, the machine has changed, or was disturbed during a trial. Then the next one is
  // soon, and so it is where a way could not run, because its threads had been held up.
  const Way least = Way(std::min_element(least_.begin(), least_.end()) - least_.begin());
  const bool whole = std::all_of(ways.begin(), ways.begin() + count, [&](Way way) { return measured_[way]; });
  const bool changes = least_[fastest_].count() > kClearly * double(least_[least].count());
  if (changes) fastest_ = least;
  pause_ = changes || !whole ? kShortestPause : std::min(2 * pause_, kLongestPause);
  trial_ = call_ + pause_;
  return fastest_;
}

void Ways::took(Way way, std::chrono::nanoseconds time) {
  std::lock_guard lock(mutex_);
  const uint32_t at = call_ - trial_;  // calls of the trial that have begun
  if (int32_t(at) <= 0 || (at - 1) % kTries == 0) return;
  least_[way] = std::exchange(measured_[way], true) ? std::min(least_[way], time) : time;
}

}  // namespace lamina::section
