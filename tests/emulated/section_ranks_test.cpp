// Sums over ranks in the section kernel: the ranks' launches run together, for several steps.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "graph/passes/cut_rows.h"
#include "runtime/dist/threads.h"
#include "runtime/dist/tree.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"
#include "tests/graph/compile/run.h"

namespace lamina::kernels::cuda {
namespace {

using exec::StorageKind;
using section::BlockSection;
using section::StepKind;
using tests::pattern;
using tests::Trial;
using Numbers = std::vector<std::vector<float>>;

constexpr int64_t kRows = 21, kIn = 40, kHidden = 33, kOut = 6, kSteps = 5;

// Three layers, the first with more weights than a chunk.
struct Net {
  std::vector<Variable> layers{Variable(tests::patterned({kIn, kHidden}, 0.01f), "kernel"),
                               Variable(tensor(std::vector<float>(kHidden, 0.1f), {kHidden}), "bias"),
                               Variable(tests::patterned({kHidden, kOut}, 0.02f, 5), "kernel")};
  std::shared_ptr<optim::Optimizer> optimizer = std::make_shared<optim::SGD>(0.1, 0.9);
  ir::Graph graph() {
    auto step = function([this](Tensor x, Tensor y) {
      GradientTape tape;
      const Tensor cost = mean(square(matmul(relu(matmul(x, layers[0]) + layers[1]), layers[2]) - y));
      optimizer->apply_gradients(tape.gradient(cost, layers), layers);
      return cost;
    });
    return step.concrete(tests::patterned({kRows, kIn}, 0.05f), tests::patterned({kRows, kOut}, 0.1f, 3)).graph();
  }
};

passes::RowsGraph graph_of(const ir::Graph& whole, int ranks, int rank, int64_t shards = 8, int64_t bucket = passes::kBucketBytes) {
  const std::vector<ir::Cut> cuts{{0, 1}, {0, 1}};
  passes::RowsGraph out = passes::cut_rows(
      whole, {.rows = kRows, .shards = shards, .ranks = ranks, .rank = rank, .bucket_bytes = bucket, .in_launch = true, .inputs = cuts});
  out.graph = passes::optimize(out.graph).graph;
  return out;
}

// A rank's rows of the batch.
std::vector<float> rows_of(int64_t width, int ranks, int rank, int64_t shards) {
  const std::vector<float> all = pattern(size_t(kRows * width), 0.05f, int(width));
  const distributed::Range own = distributed::rows_of_rank(kRows, shards, ranks, rank);
  return {all.begin() + own.begin * width, all.begin() + own.end * width};
}

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

// Windows of all ranks, in memory with red zones.
struct AllWindows {
  std::vector<std::vector<std::unique_ptr<Buffer<char>>>> of_sum;  // per sum and rank
  std::vector<char*> addresses;
  void make(const std::vector<int64_t>& bytes, int ranks) {
    if (!of_sum.empty()) return;
    for (int64_t size : bytes) {
      of_sum.emplace_back();
      for (int r = 0; r < ranks; ++r) {
        of_sum.back().push_back(std::make_unique<Buffer<char>>(std::vector<char>(size_t(size), 0)));
        addresses.push_back(of_sum.back().back()->data());
      }
    }
  }
};
class OneRank final : public section::RankMemory {
 public:
  OneRank(AllWindows& all, int ranks, int rank) : all_(all), ranks_(ranks), rank_(rank) {}
  int rank() const override { return rank_; }
  const std::vector<char*>& begin(Stream&, const std::vector<int64_t>& bytes) override {
    all_.make(bytes, ranks_);
    return all_.addresses;
  }
  void started(Stream&) override {}

 private:
  AllWindows& all_;
  const int ranks_, rank_;
};

// The ranks' sections, whose launches run together.
class Job {
 public:
  Job(const ir::Graph& whole, int ranks, int64_t shards = 8, int64_t bucket = passes::kBucketBytes) : ranks_(ranks) {
    for (int r = 0; r < ranks; ++r) {
      graphs_.push_back(graph_of(whole, ranks, r, shards, bucket));
      const auto program = compile::compile(graphs_.back().graph, {.device = parse_device("gpu:0")});
      EXPECT_EQ(program->instructions.size(), 1u) << exec::print(*program);
      trials_.push_back(std::make_unique<Trial>(program));
      for (size_t i = 0; i < graphs_.back().graph.resources.size(); ++i) {
        const TensorType& type = graphs_.back().graph.resources[i].type;
        std::vector<float> start = pattern(size_t(byte_size(type)) / 4, 0.01f, int(i));
        if (type.dtype != DType::f32) std::fill(start.begin(), start.end(), 0.0f);
        trials_.back()->start_with(StorageKind::variable, int(i), start.data());
      }
      for (int i = 0; i < 2; ++i) trials_.back()->start_with(StorageKind::input, i, rows_of(i ? kOut : kIn, ranks, r, shards).data());
    }
  }
  // Plans with so many blocks for each rank; a change of them, if any.
  void plan(int blocks, const std::function<void(section::BlockPlan&, int rank)>& change = {}) {
    sections_.clear();
    windows_ = std::make_unique<AllWindows>();
    for (int r = 0; r < ranks_; ++r) {
      sections_.push_back(trials_[size_t(r)]->plan(blocks));
      if (change) change(sections_.back()->plan, r);
      sections_.back()->ranks = std::make_shared<OneRank>(*windows_, ranks_, r);
    }
  }
  const section::BlockPlan& plan_of(int rank) const { return sections_[size_t(rank)]->plan; }
  const section::Flat flat_of(int rank) const { return trials_[size_t(rank)]->flat(); }

  // Some steps from the start. A rank's step begins when its own one before has ended.
  void run() {
    std::vector<std::function<void()>> steps;
    for (int r = 0; r < ranks_; ++r)
      steps.push_back([&, r] {
        trials_[size_t(r)]->run_blocks(*sections_[size_t(r)]);
        for (int step = 1; step < kSteps; ++step) trials_[size_t(r)]->go_on(*sections_[size_t(r)]);
      });
    emulation::run_together(steps);
  }
  void exchange_places(int a, int b) { std::swap(sections_[size_t(a)]->ranks, sections_[size_t(b)]->ranks); }
  // Launches of one rank; the others are gone.
  void run_alone(int rank, int steps) {
    for (int step = 0; step < steps; ++step) trials_[size_t(rank)]->go_on(*sections_[size_t(rank)]);
  }
  void end(int rank) { *reinterpret_cast<uint32_t*>(windows_->of_sum[0][size_t(rank)]->data()) = 1; }
  // Of the first chunk, in a buffer.
  uint32_t flag(int rank, int buffer) const {
    const auto* value = reinterpret_cast<const section::BlockSum*>(plan_of(rank).bytes.data() + plan_of(rank).program.sums_at);
    return reinterpret_cast<const uint32_t*>(windows_->of_sum[0][size_t(rank)]->data())[value->flag + buffer * value->flags];
  }
  Numbers variables(int rank) const {
    Numbers out;
    for (size_t i = 0; i < graphs_[size_t(rank)].graph.resources.size(); ++i) out.push_back(trials_[size_t(rank)]->variable(int(i)));
    return out;
  }

 private:
  const int ranks_;
  const tests::EmulatedGpu gpu_;
  std::vector<passes::RowsGraph> graphs_;
  std::vector<std::unique_ptr<Trial>> trials_;
  std::unique_ptr<AllWindows> windows_;
  std::vector<std::unique_ptr<BlockSection>> sections_;
};

bool same_bits(const Numbers& a, const Numbers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 4) == 0;
  });
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
  for (const Mistake mistake : {Mistake::shows_early, Mistake::collects_early, Mistake::has_one_buffer})
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
        if (!is_of_ranks(all[i].kind) && !is_of_ranks(raiser->kind)) continue;
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
  // The only block collects a value before it announces it.
  auto* list = reinterpret_cast<int32_t*>(plan.bytes.data() + plan.program.lists_at);
  int announced = -1, collected = -1;
  for (int i = 0; i < plan.program.steps; ++i) {
    if (plan.steps[size_t(i)].kind == StepKind::announce && announced < 0) announced = i;
    if (plan.steps[size_t(i)].kind == StepKind::collect && plan.steps[size_t(i)].k == plan.steps[size_t(announced)].k) collected = i;
  }
  ASSERT_LT(announced, collected);
  std::swap(list[announced], list[collected]);
  EXPECT_NE(refusal().find("in another order than the plan"), std::string::npos) << refusal();
  std::swap(list[announced], list[collected]);
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
    EXPECT_EQ(e.parts.what, "all_reduce: rank 2 has 2 roots");
    EXPECT_EQ(e.parts.why, "of 8 shards it has 1");
  }
}

TEST(SectionRanks, ValuesAreAnnouncedEarlyAndCollectedLate) {
  Net net;
  for (const int64_t bucket : {int64_t{64}, passes::kBucketBytes}) {
    Job job(net.graph(), 4, 8, bucket);
    job.plan(9);
    const auto& steps = job.plan_of(2).steps;
    size_t last_announced = 0, first_collected = steps.size();
    int announced = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == StepKind::announce) last_announced = i, ++announced;
      if (steps[i].kind == StepKind::collect) first_collected = std::min(first_collected, i);
    }
    EXPECT_EQ(announced, 4);  // three gradients and the loss
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
  trial.start_with(StorageKind::input, 1, labels.data());
  const std::vector<float> before = trial.variable(0);
  EXPECT_NE(error().find("label 7"), std::string::npos);
  labels[2] = 1;
  trial.start_with(StorageKind::input, 1, labels.data());
  EXPECT_EQ(error(), "a step of several ranks was stopped before, and cannot go on");
  EXPECT_EQ(trial.variable(0), before);
  take_races();
}

}  // namespace
}  // namespace lamina::kernels::cuda
