// Sums over ranks in the section kernel: the ranks' launches run together, for several steps.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "runtime/dist/threads.h"
#include "tests/emulated/ranks_job.h"
#include "tests/graph/compile/run.h"

namespace lamina::kernels::cuda {
namespace {

using section::StepKind;

// The Variables of rank 0 after some steps on CPUs, as floats.
Numbers on_cpu(const ir::Graph& whole, int ranks, int64_t shards) {
  Numbers out;
  distributed::run_ranks(ranks, [&](distributed::Communicator& c) {
    const passes::RowsGraph own = graph_of(whole, ranks, c.rank(), shards);
    tests::Resources resources;
    for (size_t r = 0; r < own.graph.resources.size(); ++r) {
      tests::Tensor t(own.graph.resources[r].type);
      if (t.type.dtype == DType::f32) {
        const std::vector<float> start = pattern(size_t(t.size()), 0.01f, int(r));
        std::copy(start.begin(), start.end(), t.data<float>());
      }
      resources.emplace(int(r), t);
    }
    std::vector<tests::Tensor> in;
    for (const int64_t width : {kIn, kOut}) {
      const std::vector<float> rows = rows_of(width, ranks, c.rank(), shards);
      in.push_back(tests::Tensor::of<float>({int64_t(rows.size()) / width, width}, rows));
    }
    tests::run_program(own.graph, in, &resources, {.threads = 1}, kSteps);
    if (c.rank() > 0) return;
    for (const auto& [r, t] : resources) out.emplace_back(t.data<float>(), t.data<float>() + t.byte_count() / 4);
  });
  return out;
}

TEST(SectionRanks, HaveTheBitsOfCpusAndOfOneRankInEveryOrder) {
  Net net;
  const ir::Graph whole = net.graph();
  for (const auto& [ranks, shards, bucket] : {std::tuple{2, 8, 1 << 20}, {4, 8, 64}, {3, 8, 1 << 20}, {2, 5, 64}}) {
    SCOPED_TRACE(cat(ranks, " ranks, ", shards, " shards, buckets of ", bucket, " bytes"));
    const Numbers want = on_cpu(whole, ranks, shards);
    EXPECT_TRUE(same_bits(on_cpu(whole, 1, shards), want));
    Job job(whole, ranks, shards, bucket);
    for (const int blocks : {1, 5}) {
      const auto run = [&] {
        job.plan(blocks);
        job.run();
        for (int r = 0; r < ranks; ++r) EXPECT_TRUE(same_bits(job.variables(r), want)) << "rank " << r << section::print(job.plan_of(r));
      };
      if (races_are_checked())
        run();
      else
        in_every_order(run);
    }
  }
}

// What a planted mistake leads to: a race, other numbers or launches that are stuck. "" if it is not found.
std::string found(Job& job, int ranks, const Numbers& want, Mistake mistake, const std::function<void(section::BlockPlan&, int)>& change) {
  std::string out;
  for (const Order& o : orders()) {
    job.plan(5, change);
    emulation::settings().order = o.order, emulation::settings().seed = o.seed;
    emulation::settings().most_pauses = 200'000, emulation::settings().mistake = mistake;
    const std::string stuck = failure_of([&] { job.run(); });
    emulation::settings() = {};
    if (const auto races = take_races(); !races.empty()) return races[0];
    if (!stuck.empty()) return stuck;
    for (int r = 0; r < ranks; ++r)
      if (!same_bits(job.variables(r), want)) return "other numbers";
  }
  return out;
}

TEST(SectionRanks, EveryMistakeOfTheirStepsIsFound) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  Net net;
  const ir::Graph whole = net.graph();
  const Numbers want = on_cpu(whole, 1, 8);
  Job job(whole, 2);
  EXPECT_EQ(found(job, 2, want, Mistake::none, {}), "");
  for (const Mistake mistake : {Mistake::shows_early, Mistake::collects_early, Mistake::misses_a_rank, Mistake::has_one_buffer})
    EXPECT_NE(found(job, 2, want, mistake, {}), "") << "mistake " << int(mistake);
}

// Of the steps that announce and collect, or for them.
TEST(SectionRanks, ARemovedWaitIsFound) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  Net net;
  const ir::Graph whole = net.graph();
  const Numbers want = on_cpu(whole, 1, 8);
  for (const int ranks : {2, 4}) {
    Job job(whole, ranks);
    job.plan(5);
    const std::vector<section::BlockStep> all = job.plan_of(1).steps;
    int removed = 0;
    for (size_t i = 0; i < all.size(); ++i)
      for (int w = 0; w < all[i].waits; ++w) {
        const int counter = job.plan_of(1).waits[size_t(all[i].first_wait + w)].counter;
        const auto raiser = std::find_if(all.begin(), all.end(), [&](const section::BlockStep& s) { return s.signal == counter; });
        if (!is_of_ranks(all[i].kind) && !announces(all[i]) && !is_of_ranks(raiser->kind)) continue;
        ++removed;
        const auto change = [&](section::BlockPlan& plan, int rank) {
          if (rank != 1) return;
          auto* steps = reinterpret_cast<section::BlockStep*>(plan.bytes.data());
          auto* waits = reinterpret_cast<section::BlockWait*>(plan.bytes.data() + plan.program.waits_at) + steps[i].first_wait;
          std::swap(waits[w], waits[--steps[i].waits]);
        };
        EXPECT_NE(found(job, ranks, want, Mistake::none, change), "") << ranks << " ranks, step " << i << ", wait " << w;
      }
    EXPECT_GE(removed, 6);
  }
}

// The validator knows the order of announcements and collections.
TEST(SectionRanks, APlanInWhichRanksWouldWaitForEverIsRefused) {
  Net net;
  Job job(net.graph(), 2, 8, 64);
  job.plan(1);
  section::BlockPlan plan = job.plan_of(0);
  const section::Flat flat = job.flat_of(0);
  const auto refusal = [&] {
    try {
      section::validate(plan, flat);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "");
  auto* list = reinterpret_cast<int32_t*>(plan.bytes.data() + plan.program.lists_at);
  int announced = -1, collected = -1;
  for (int i = 0; i < plan.program.steps; ++i) {
    if (plan.steps[size_t(i)].kind == StepKind::announce && announced < 0) announced = i;
    if (plan.steps[size_t(i)].kind == StepKind::collect && plan.steps[size_t(i)].k == plan.steps[size_t(announced)].k) collected = i;
  }
  ASSERT_LT(announced, collected);
  const char* const order = "behind a collection of this value or a later one";
  // The only block collects a value before it announces it.
  std::swap(list[announced], list[collected]);
  EXPECT_NE(refusal().find(order), std::string::npos) << refusal();
  std::swap(list[announced], list[collected]);
  // It announces and collects that value, the first one, behind the collection of the last one: where the other rank does not, it waits for
  // the first one, and this rank for the last.
  const std::vector<int32_t> right(list, list + plan.program.steps);
  std::vector<int32_t> wrong = right;
  std::erase_if(wrong, [&](int32_t i) { return i == announced || i == collected; });
  const auto last = std::max_element(wrong.begin(), wrong.end(), [&](int32_t a, int32_t b) {
    const auto value = [&](int32_t i) { return plan.steps[size_t(i)].kind == StepKind::collect ? plan.steps[size_t(i)].k : -1; };
    return value(a) < value(b);
  });
  wrong.insert(last + 1, {announced, collected});
  std::copy(wrong.begin(), wrong.end(), list);
  EXPECT_NE(refusal().find(order), std::string::npos) << refusal();
  std::copy(right.begin(), right.end(), list);
  EXPECT_EQ(refusal(), "");
  // Another value, and roots in another order.
  auto* steps = reinterpret_cast<section::BlockStep*>(plan.bytes.data());
  std::swap(steps[announced].k, steps[collected].k);
  EXPECT_EQ(refusal(), "");  // the same value
  steps[announced].rows += 1;
  EXPECT_NE(refusal().find("is not the table's"), std::string::npos) << refusal();
  steps[announced].rows -= 1;
  auto* roots = reinterpret_cast<section::BlockRoot*>(plan.bytes.data() + plan.program.roots_at);
  std::swap(roots[0], roots[1]);
  EXPECT_NE(refusal().find("sums over ranks are not the table's"), std::string::npos) << refusal();
}

// A graph that was made for another rank would read beyond its roots.
TEST(SectionRanks, ThePartOfAnotherRankIsRefused) {
  Net net;
  Job job(net.graph(), 3);  // with 3, 3 and 2 leaves
  job.plan(2);
  job.exchange_places(0, 2);
  try {
    job.run();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.parts.what, "all_reduce: rank 2 has 3 summands");
    EXPECT_EQ(e.parts.why, "of 8 shards it has 2");
  }
}

TEST(SectionRanks, ValuesAreAnnouncedEarlyAndCollectedLate) {
  Net net;
  for (const int64_t bucket : {int64_t{64}, passes::kBucketBytes}) {
    Job job(net.graph(), 4, 8, bucket);
    job.plan(9);
    const auto& steps = job.plan_of(2).steps;
    size_t last_announced = 0, first_collected = steps.size();
    std::set<int> announced;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (announces(steps[i])) last_announced = i;
      for (const int value : {steps[i].kind == StepKind::announce ? steps[i].k : -1, steps[i].announces, steps[i].announces2})
        if (value >= 0) announced.insert(value);
      if (steps[i].kind == StepKind::collect) first_collected = std::min(first_collected, i);
    }
    EXPECT_EQ(announced, (std::set{0, 1, 2, 3}));  // three gradients and the loss
    EXPECT_LT(last_announced, first_collected) << section::print(job.plan_of(2));
  }
}

// The host ends a rank's part while it waits for another one, which is gone. Nothing that depends on the sums changes, then or later.
Job* ended_job = nullptr;
TEST(SectionRanks, AWaitingLaunchLeavesWhenTheHostEndsItsPart) {
  Net net;
  Job job(net.graph(), 2);
  job.plan(5);
  const Numbers before = job.variables(0);
  ended_job = &job;
  emulation::host_turn = [] {
    static int turns = 0;
    if (++turns == 5000) ended_job->end(0);
  };
  job.run_alone(0, 1);
  emulation::host_turn = nullptr;
  EXPECT_TRUE(same_bits(job.variables(0), before));
  // This rank announces nothing more, in the other buffer.
  job.run_alone(0, 1);
  EXPECT_TRUE(same_bits(job.variables(0), before));
  EXPECT_EQ(job.flag(0, 1), 1u);
  EXPECT_EQ(job.flag(0, 0), 0u) << "a stopped rank has announced something";
  take_races();
}

// After a label out of range the other ranks wait for what this one did not announce, so it does not go on.
TEST(SectionRanks, AStepBehindAStoppedOneIsAnError) {
  const Variable w(tests::patterned({4, 3}, 0.1f), "w");
  auto step = function([&](Tensor x, Tensor y) {
    GradientTape tape;
    const Tensor cost = mean(sparse_cross_entropy(matmul(x, w), y));
    w.assign_sub(tape.gradient(cost, w)[0] * 0.1f);
    return cost;
  });
  std::vector<int64_t> labels(8, 1);
  const ir::Graph whole = step.concrete(tests::patterned({8, 4}, 0.05f), tensor(labels, {8})).graph();
  const std::vector<ir::Cut> cuts{{0, 1}, {0, 1}};
  const passes::RowsGraph own = passes::cut_rows(whole, {.rows = 8, .ranks = 2, .in_launch = true, .inputs = cuts});
  const tests::EmulatedGpu gpu;
  Stream stream = tests::EmulatedBackend::one().default_stream(parse_device("gpu:0"));
  Trial trial(compile::compile(passes::optimize(own.graph).graph, {.device = parse_device("gpu:0")}));
  AllWindows windows;
  const auto section = trial.plan(3);
  section->ranks = std::make_shared<OneRank>(windows, 2, 0);
  const auto error = [&] {
    try {
      trial.go_on(*section, stream);
      tests::EmulatedBackend::one().synchronize(stream);
    } catch (const Error& e) {
      return e.parts.what;
    }
    return std::string();
  };
  labels[2] = 7;
  trial.start_with(exec::StorageKind::input, 1, labels.data());
  const std::vector<float> before = trial.variable(0);
  EXPECT_NE(error().find("label 7"), std::string::npos);
  labels[2] = 1;
  trial.start_with(exec::StorageKind::input, 1, labels.data());
  EXPECT_EQ(error(), "a step of several ranks was stopped before, and cannot go on");
  EXPECT_EQ(trial.variable(0), before);
  take_races();
}

}  // namespace
}  // namespace lamina::kernels::cuda
