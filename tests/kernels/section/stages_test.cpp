// Stages on random tables: steps that touch what another writes keep the table's order.
#include "kernels/section/stages.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/section/access.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

struct RandomTable {
  Table table;
  std::vector<OperandRange> ranges;
  std::mt19937 random;
  int places = 12;

  int draw(int below) { return int(random() % uint32_t(below)); }
  // In one of few places of a small arena, so that values take each other's memory, whole or in part; or a Variable.
  int32_t buffer(int64_t floats, bool is_state = false) {
    const int64_t begin = is_state ? 0 : 96 * draw(places);
    ranges.push_back({.space = is_state ? draw(12) : -1,
                      .begin = begin,
                      .end = begin + 4 * floats,
                      .is_inner = !is_state && draw(8) > 0,
                      .is_state = is_state});
    return int32_t(ranges.size() - 1);
  }
  void add(StepKind kind, Partition partition, int rows, int k, int n, std::vector<Operand> ins, std::vector<Operand> outs) {
    Step s;
    s.kind = kind, s.partition = partition;
    s.rows = rows, s.k = k, s.n = n;
    s.ins = int32_t(ins.size()), s.outs = int32_t(outs.size());
    s.first_in = int32_t(table.operands.size());
    table.operands.insert(table.operands.end(), ins.begin(), ins.end());
    s.first_out = int32_t(table.operands.size());
    table.operands.insert(table.operands.end(), outs.begin(), outs.end());
    if (kind == StepKind::dense_update) s.extras = 2;
    if (kind == StepKind::reduce) s.reduced = partition == Partition::rows ? Broadcast::column : Broadcast::scalar;
    table.steps.push_back(s);
  }

  RandomTable(uint32_t seed, int threads) : random(seed) {
    const int rows = 12 << draw(5), n = 2, k = draw(2) ? 1000 : 100'000, steps = 4 + draw(24);
    if (draw(4) == 0) places = 1000;
    std::vector<int32_t> weights, recent{buffer(rows * n)};
    for (int i = draw(2) ? 3 : 8; i > 0; --i) weights.push_back(buffer(k * n, true));
    const auto some = [&] { return recent[recent.size() - 1 - size_t(draw(std::min(4, int(recent.size()))))]; };
    const auto fresh = [&](int64_t floats, bool is_state = false) { return recent.emplace_back(buffer(floats, is_state)); };
    for (int i = 0; i < steps; ++i) {
      const int32_t x = some(), w = weights[size_t(draw(int(weights.size())))];
      switch (draw(12)) {
        case 0:
        case 1:
        case 2: add(StepKind::dense, Partition::rows, rows, k, n, {{x}, {w}}, {{fresh(rows * n)}}); break;
        case 3:
        case 4: add(StepKind::dense_grad_input, Partition::rows, rows, n, k, {{x}, {w}, {some()}}, {{fresh(rows * n)}}); break;
        case 5:
        case 6: add(StepKind::dense_update, Partition::tiles, rows, k, n, {{x}, {some()}, {w}, {some(), Broadcast::scalar}}, {{w}}); break;
        case 7: add(StepKind::elementwise, Partition::rows, rows, 0, n, {{x}, {some(), Broadcast::row}}, {{fresh(rows * n)}}); break;
        case 8: {  // small ones, in other shares
          const int other = draw(3);
          add(StepKind::elementwise,
              other == 0   ? Partition::rows
              : other == 1 ? Partition::one
                           : Partition::models,
              2 * rows, 0, n / 2, {{x}}, {{fresh(rows * n, draw(4) == 0)}});
          break;
        }
        case 9: add(StepKind::reduce, draw(2) ? Partition::rows : Partition::one, rows, 0, n, {{x}}, {{fresh(rows)}}); break;
        case 10: add(StepKind::copy, Partition::one, 0, 0, 0, {{x}}, {{fresh(rows * n, draw(2) == 0)}}); break;
        case 11:
          if (draw(2))
            add(StepKind::sparse_cross_entropy, Partition::rows, rows, 0, n, {{x}, {some(), Broadcast::column}},
                {{fresh(rows), Broadcast::column}, {fresh(rows * n)}});
          break;
      }
    }
    table.threads = threads;
    place_barriers(table, ranges);
    place_ways(table, ranges, 0);
  }
};

// When a step runs: before another if its place is less. Steps of one turn run part by part.
struct Place {
  int phase = -1;  // 0: shared, 1: before the stages, 2: in them, 3: after them, 4: shared
  int stage = 0, item = 0;
  bool whole = false;
};

std::vector<Place> places_of(const Stages& stages, const Table& table) {
  std::vector<Place> places(table.steps.size());
  const auto put = [&](int32_t step, Place place) {
    EXPECT_EQ(places[size_t(step)].phase, -1) << "step " << step << " runs twice";
    places[size_t(step)] = place;
  };
  for (int32_t i = 0; i < stages.first; ++i) put(i, {0, 0, i});
  for (size_t i = 0; i < stages.before.size(); ++i) put(stages.before[i], {1, 0, int(i)});
  for (size_t s = 0; s < stages.stages.size(); ++s)
    for (int32_t i = stages.stages[s].begin; i < stages.stages[s].tail; ++i)
      put(stages.items[size_t(i)].step, {2, int(s), i, stages.items[size_t(i)].whole});
  for (size_t i = 0; i < stages.after.size(); ++i) put(stages.after[i], {3, 0, int(i)});
  for (int32_t i = stages.last; i < int32_t(table.steps.size()); ++i) put(i, {4, 0, i});
  for (size_t i = 0; i < places.size(); ++i) EXPECT_NE(places[i].phase, -1) << "step " << i << " does not run";
  return places;
}

// As of one stage. An update adds up its gradients in its place, and is made there by the last chunk.
std::vector<Place> places_of(const Chunks& chunks, const Table& table) {
  Stages stages;
  static_cast<Within&>(stages) = chunks;
  for (const Chunks::Item& item : chunks.items) stages.items.push_back({item.step, item.sums >= 0});
  stages.stages.push_back({.end = int32_t(stages.items.size()), .tail = int32_t(stages.items.size())});
  return places_of(stages, table);
}

// Whether local values are used by other steps than those of chunks, or two of them share memory while both are needed.
std::string broken_locals(const RandomTable& t, const Chunks& chunks) {
  struct Life {
    int64_t begin, end;  // bytes
    int first, last;     // items
    OperandRange range;
  };
  std::vector<Life> lives;
  std::vector<Access> accesses;
  for (const Chunks::Local& local : chunks.locals) {
    const OperandRange& range = t.ranges[size_t(local.buffer)];
    Life life{local.at, local.at + local.row_bytes * chunks.most_rows(), int(chunks.items.size()), -1, range};
    if (!range.is_inner || int64_t(local.row_bytes) * chunks.rows != range.end - range.begin || life.end > chunks.own_bytes)
      return cat("%", local.buffer, " is not local");
    for (size_t i = 0; i < t.table.steps.size(); ++i) {
      accesses_of(t.table, t.table.steps[i], accesses);
      const auto at = std::find_if(chunks.items.begin(), chunks.items.end(), [&](const Chunks::Item& item) { return item.step == int(i); });
      for (size_t a = 0; a < accesses.size(); ++a) {
        const OperandRange& other = t.ranges[size_t(accesses[a].buffer)];
        if (!overlap(range, other)) continue;
        const bool is_known = std::any_of(chunks.locals.begin(), chunks.locals.end(),
                                          [&](const Chunks::Local& l) { return l.buffer == accesses[a].buffer && l.at == local.at; });
        const bool by_rows = accesses[a].by_rows || (at != chunks.items.end() && at->sums >= 0 && a < 2);
        if (!is_known || at == chunks.items.end() || !by_rows || other.begin != range.begin || other.end != range.end)
          return cat("step ", i, " looks elsewhere for %", local.buffer, " of\n", print(t.table));
        life.first = std::min(life.first, int(at - chunks.items.begin())), life.last = std::max(life.last, int(at - chunks.items.begin()));
      }
    }
    for (const Life& other : lives)
      if (other.begin < life.end && life.begin < other.end && other.first <= life.last && life.first <= other.last &&
          !overlap(range, other.range))
        return cat("%", local.buffer, " shares its memory in\n", print(t.table));
    lives.push_back(life);
  }
  return "";
}

template <class Way>
std::string broken_order(const RandomTable& t, const Way& way) {
  const std::vector<Place> places = places_of(way, t.table);
  std::vector<Access> of_a, of_b;
  for (size_t b = 0; b < places.size(); ++b)
    for (size_t a = 0; a < b; ++a) {
      const Step &first = t.table.steps[a], &second = t.table.steps[b];
      const Place &p = places[a], &q = places[b];
      accesses_of(t.table, first, of_a);
      accesses_of(t.table, second, of_b);
      bool meet = false, by_row = true, row_before_row = true;
      for (const Access& x : of_a)
        for (const Access& y : of_b) {
          const OperandRange &m = t.ranges[size_t(x.buffer)], &o = t.ranges[size_t(y.buffer)];
          if (!(x.write || y.write) || !overlap(m, o)) continue;
          meet = true;
          const bool same = m.begin == o.begin && m.end == o.end && first.rows == second.rows;
          by_row = by_row && x.by_rows && y.by_rows && same;
          const bool is_row_of_update = second.kind == StepKind::dense_update && &y - of_b.data() < 2;  // x and dz
          row_before_row = row_before_row && (!is_row_of_update || (x.by_rows && same));
        }
      const bool may_stop = first.kind == StepKind::sparse_cross_entropy;
      const bool breaks = may_stop && (second.kind == StepKind::dense_update || writes_state(of_b, t.ranges));
      if (!meet && !breaks) continue;
      by_row = by_row && !breaks;
      bool kept = p.phase < q.phase;
      if (p.phase == q.phase) kept = p.phase != 2 || (!p.whole && (q.whole || by_row)) ? p.item < q.item : false;
      if (p.phase == 2 && q.phase == 2 && !p.whole && q.whole) kept = p.item < q.item && (row_before_row || !std::is_same_v<Way, Chunks>);
      if (!kept) return cat("steps ", a, " and ", b, " of\n", print(t.table));
    }
  return "";
}

TEST(Stages, KeepTheOrderOfStepsThatMeetInMemory) {
  int on_all = 0, before = 0, after = 0, tails = 0, parts = 0, framed = 0, in_chunks = 0, updates = 0, locals = 0, shared_memory = 0;
  int several = 0;  // runs of layers of each thread
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    const RandomTable t(seed, 2 + int(seed % 3));
    for (const auto& stages : {t.table.ways->on_all, t.table.ways->on_one}) {
      if (!stages) continue;
      const std::string broken = broken_order(t, *stages);
      ASSERT_EQ(broken, "") << "seed " << seed << ", " << print(*t.table.ways);
      on_all += stages == t.table.ways->on_all;
      several += int(stages->stages.size()) > 2 * stages->threads - 1;
      before += !stages->before.empty(), after += !stages->after.empty(), parts += stages->parts > 2;
      framed += stages->first > 0 && stages->last < int(t.table.steps.size());
      for (const Stages::Stage& stage : stages->stages) tails += stage.tail > stage.end;
    }
    if (const auto chunks = t.table.ways->in_chunks) {
      ASSERT_EQ(broken_order(t, *chunks) + broken_locals(t, *chunks), "") << "seed " << seed;
      ++in_chunks;
      int64_t bytes = 0;
      for (const Chunks::Item& item : chunks->items) updates += item.sums >= 0;
      for (const Chunks::Local& local : chunks->locals) bytes += local.row_bytes * chunks->most_rows();
      locals += bytes > 0, shared_memory += bytes > chunks->own_bytes;
    }
  }
  for (int seen : {on_all, several, before, after, tails, parts, framed, in_chunks, updates, locals, shared_memory})
    EXPECT_GT(seen, 100) << "the tables are not as various as they were";
}

// A chain of layers in the memory of as many weights, whose cost is far above that of handing rows over.
RandomTable chain(int layers) {
  RandomTable t(0, 2);
  t.table = {}, t.ranges = {};
  std::vector<int32_t> w;
  const int32_t x = t.buffer(24);
  for (int i = 0; i < layers; ++i) w.push_back(t.buffer(2000, true)), t.ranges.back().space = i;
  for (int32_t of : w) t.add(StepKind::dense, Partition::rows, 12, 1'000'000, 2, {{x}, {of}}, {{t.buffer(24)}});
  for (size_t i = 0; i < t.ranges.size(); ++i) t.ranges[i].begin = 1000 * int64_t(i), t.ranges[i].end = t.ranges[i].begin + 96;
  t.table.threads = 2;
  place_ways(t.table, t.ranges);
  return t;
}

TEST(Stages, KnowHowLongThreadsWaitByPlan) {
  const auto stages = chain(2).table.ways->on_all;
  ASSERT_NE(stages, nullptr);
  EXPECT_EQ(stages->parts, 2);
  EXPECT_NEAR(stages->idle, 2 - 4 / 3.0, 0.01) << "two threads work for two of three turns each";
}

TEST(Stages, ThreadsHaveSeveralRunsOfLayersWhereTheyWaitLessSo) {
  const auto stages = chain(32).table.ways->on_all;
  ASSERT_NE(stages, nullptr);
  EXPECT_EQ(stages->stages.size(), size_t(Stages::kMost));
  EXPECT_NEAR(stages->idle, 2 - 32 / 17.0, 0.05) << "each thread waits for one of seventeen turns";
  for (size_t i = 0; i < stages->stages.size(); ++i) EXPECT_EQ(stages->stages[i].thread, int(i % 2));
}

}  // namespace
}  // namespace lamina::section
