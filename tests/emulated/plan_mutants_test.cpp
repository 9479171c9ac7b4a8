// The validator of block plans against mutated plans: plans that it accepts run without races, to the end, with the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include <cstdio>
#include <utility>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/variable.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "runtime/core/error.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/plan_mutants.h"
#include "tests/emulated/ranks_job.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using section::BlockSection;
using tests::LoopsAsTheyAre;
using tests::PlanMutator;

Tensor some(Shape shape, int seed = 0) { return tests::patterned(shape, 0.05f, seed); }

struct Layers {
  std::vector<Variable> layers;
  std::shared_ptr<optim::Optimizer> optimizer;
  Layers(const std::vector<int64_t>& widths, std::shared_ptr<optim::Optimizer> o) : optimizer(std::move(o)) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(Variable(some({widths[i], widths[i + 1]}, int(i)), "kernel"));
      layers.push_back(Variable(tensor(std::vector<float>(size_t(widths[i + 1]), 0.1f), {widths[i + 1]}), "bias"));
    }
  }
  Tensor step(Tensor x, Tensor y, bool labels = false) {
    GradientTape tape;
    Tensor h = x;
    for (size_t i = 0; i < layers.size(); i += 2) {
      h = matmul(h, layers[i]) + layers[i + 1];
      if (i + 2 < layers.size()) h = tanh(h);
    }
    const Tensor cost = labels ? mean(sparse_cross_entropy(h, y)) : mean(square(h - y));
    optimizer->apply_gradients(tape.gradient(cost, layers), layers);
    return cost;
  }
};

struct Lowering {
  std::string name;
  std::shared_ptr<const exec::Program> program;
  int blocks = 1;
  int chunk = 0;  // stacked inputs stay on the host, with this many slices per chunk
  int ranks = 1;  // that train the network of ranks_job.h; then `program` is null
};

Lowering training(const char* name, std::vector<int64_t> widths, int64_t batch, int blocks, std::shared_ptr<optim::Optimizer> optimizer,
                  bool labels = false) {
  auto net = std::make_shared<Layers>(widths, std::move(optimizer));
  auto step = function([net, labels](Tensor x, Tensor y) { return net->step(x, y, labels); });
  const Tensor y = labels ? tensor(std::vector<int64_t>(size_t(batch), 1), {batch}) : some({batch, widths.back()}, 3);
  return {name, tests::program_of(step.concrete(some({batch, widths.front()}), y).graph()), blocks};
}

Lowering forward(int blocks) {
  auto f = function([](Tensor x, Tensor w) {
    Tensor h = x;
    for (int i = 0; i < 5; ++i) h = h + tanh(matmul(h, w));
    return softmax(matmul(h, w)) * mean(h, {0});
  });
  return {"residual forward", tests::program_of(f.concrete(some({7, 9}), some({9, 9}, 4)).graph()), blocks};
}

Lowering ensemble(int models, int blocks) {
  const Variable w = per_model(some({models, 7, 6}), "kernel"), b = per_model(some({models, 6}, 2), "bias");
  auto optimizer = std::make_shared<optim::SGD>(0.1, 0.9);
  auto step = function([&](Tensor x) {
    return mean(vmap(
        [&] {
          GradientTape tape;
          tape.watch(w), tape.watch(b);
          const Tensor cost = mean(square(tanh(matmul(x, w) + b)));
          optimizer->apply_gradients(tape.gradient(cost, std::vector<Variable>{w, b}), std::vector<Variable>{w, b});
          return cost;
        },
        {.in_axes = {std::nullopt}})());
  });
  return {"ensemble", tests::program_of(step.concrete(some({5, 7})).graph()), blocks};
}

// The second step waits for weights.
Lowering steps_of_two(int blocks) {
  auto net = std::make_shared<Layers>(std::vector<int64_t>{6, 5, 3}, std::make_shared<optim::SGD>(0.1));
  auto twice = function([net](Tensor x, Tensor y) { return net->step(x, y) + net->step(x, y); });
  return {"two steps", tests::program_of(twice.concrete(some({5, 6}), some({5, 3}, 3)).graph()), blocks};
}

Lowering epoch(int blocks) {
  const LoopsAsTheyAre whole;
  auto net = std::make_shared<Layers>(std::vector<int64_t>{6, 5, 3}, std::make_shared<optim::SGD>(0.1, 0.9));
  auto f = tests::scan_over_batches(net);
  return {"scan over batches", tests::program_of(f.concrete(some({3, 4, 6}), some({3, 4, 3}, 3)).graph()), blocks};
}

Lowering loops(int blocks) {
  const LoopsAsTheyAre whole;
  auto f = tests::loops_and_a_branch();
  return {"scan, cond and while", tests::program_of(f.concrete(some({6, 4}), some({4, 4}, 4), some({3, 6, 4}, 2)).graph()), blocks};
}

Lowering with_infeed(Lowering l, int chunk) {
  l.name += " from the host", l.chunk = chunk;
  return l;
}

std::vector<Lowering> lowerings() {
  using namespace optim;
  return {{"2 ranks", nullptr, 5, 0, 2},
          {"3 ranks", nullptr, 4, 0, 3},
          training("SGD, 3 blocks", {9, 7, 3}, 5, 3, std::make_shared<SGD>(0.1)),
          training("SGD, 6 blocks", {8, 12, 5}, 10, 6, std::make_shared<SGD>(0.1)),
          training("deep SGD", {6, 6, 6, 6, 6, 4}, 7, 7, std::make_shared<SGD>(0.05)),
          training("wide momentum", {20, 33, 6}, 4, 5, std::make_shared<SGD>(0.1, 0.9, true)),
          training("Adam", {9, 8, 3}, 6, 5, std::make_shared<Adam>()),
          training("RMSprop", {5, 6, 4}, 9, 4, std::make_shared<RMSprop>()),
          training("classes", {8, 6, 5}, 6, 5, std::make_shared<SGD>(0.1), true),
          training("one block", {5, 4, 3}, 3, 1, std::make_shared<SGD>(0.1)),
          training("relays", std::vector<int64_t>(42, 3), 3, 9, std::make_shared<SGD>(0.1)),
          steps_of_two(6),
          forward(3),
          ensemble(4, 3),
          epoch(5),
          loops(4),
          with_infeed(epoch(4), 1)};
}

// The emulation's verdict on a plan.
class Judge {
 public:
  virtual ~Judge() { emulation::settings() = {}; }
  virtual const section::BlockPlan& plan() const = 0;
  virtual section::Flat flat() const = 0;

  // "" or the error.
  std::string fault(const section::BlockPlan& plan) {
    for (const Order& o : orders()) {
      emulation::settings() = {};
      emulation::settings().order = o.order, emulation::settings().seed = o.seed;
      emulation::settings().most_pauses = 20'000;
      Numbers got;
      const std::string stuck = failure_of([&] { got = numbers_of(plan); });
      const auto races = take_races();
      if (!races.empty()) return races[0];
      if (!stuck.empty()) return stuck.substr(0, stuck.find('\n'));
      if (!same_bits(got, want_)) return "other numbers";
    }
    return "";
  }

 protected:
  virtual Numbers numbers_of(const section::BlockPlan& plan) = 0;
  void take_as_right(Numbers numbers) {
    EXPECT_TRUE(take_races().empty());
    want_ = std::move(numbers);
  }

 private:
  Numbers want_;
};

class JudgeOfOne final : public Judge {
 public:
  explicit JudgeOfOne(const Lowering& l)
      : trial_(l.program), real_(l.chunk > 0 ? trial_.plan_with_infeed(l.blocks, l.chunk) : trial_.plan(l.blocks)) {
    take_as_right(numbers_of(real_->plan));
  }
  const section::BlockPlan& plan() const override { return real_->plan; }
  section::Flat flat() const override { return trial_.flat(*real_->table); }

 private:
  Numbers numbers_of(const section::BlockPlan& plan) override {
    BlockSection section;  // with its own state on the device
    section.table = real_->table, section.plan = plan;
    trial_.run_blocks(section);
    return trial_.results();
  }
  Trial trial_;
  std::unique_ptr<BlockSection> real_;
};

// The last rank's plan; the others' are right.
class JudgeOfRanks final : public Judge {
 public:
  explicit JudgeOfRanks(const Lowering& l) : ranks_(l.ranks), blocks_(l.blocks), job_(net_.graph(), l.ranks) {
    job_.plan(blocks_);
    plan_ = job_.plan_of(ranks_ - 1);
    take_as_right(numbers_of(plan_));
  }
  const section::BlockPlan& plan() const override { return plan_; }
  section::Flat flat() const override { return job_.flat_of(ranks_ - 1); }

 private:
  Numbers numbers_of(const section::BlockPlan& plan) override {
    job_.plan(blocks_, [&](section::BlockPlan& own, int rank) {
      if (rank == ranks_ - 1) own = plan;
    });
    emulation::settings().most_pauses = 200'000;  // ranks wait for each other, too
    job_.run(3);                                  // each buffer, and one again
    Numbers out;
    for (int r = 0; r < ranks_; ++r)
      for (std::vector<float>& values : job_.variables(r)) out.push_back(std::move(values));
    return out;
  }
  const int ranks_, blocks_;
  Net net_;
  Job job_;
  section::BlockPlan plan_;
};

std::unique_ptr<Judge> judge_of(const Lowering& l) {
  if (l.ranks > 1) return std::make_unique<JudgeOfRanks>(l);
  EXPECT_EQ(l.program->instructions.size(), 1u) << exec::print(*l.program);
  return std::make_unique<JudgeOfOne>(l);
}

std::string refusal(const section::BlockPlan& plan, const section::Flat& flat) {
  try {
    section::validate(plan, flat);
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(ErrorKind::internal));
    return e.what();
  }
  return "";
}

TEST(PlanValidator, RejectsEveryMutantThatRacesHangsOrComputesWrongly) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  const char* chosen = std::getenv("LAMINA_TEST_SEED");
  const int count = std::getenv("LAMINA_TEST_LONG") ? 5000 : 240;
  const uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : 1;
  struct Tally {
    int mutants = 0, faulty = 0, refused_although_harmless = 0, accepted = 0;
  };
  std::vector<Tally> tallies(PlanMutator::kinds().size());
  const std::vector<Lowering> all = lowerings();
  int made = 0;
  for (size_t which = 0; which < all.size(); ++which) {
    SCOPED_TRACE(all[which].name);
    const std::unique_ptr<Judge> judge = judge_of(all[which]);
    const section::Flat flat = judge->flat();
    ASSERT_EQ(refusal(judge->plan(), flat), "");
    const int until = int(int64_t(count) * int64_t(which + 1) / int64_t(all.size()));
    for (unsigned n = 0; made < until; ++n) {
      std::mt19937 random(unsigned(seed) + unsigned(which) * 1'000'003u + n);
      PlanMutator mutator(judge->plan(), flat);
      const std::string what = mutator.mutate(random);
      if (what.empty()) continue;
      ++made;
      // A changed sum may have addresses that are none: it is run only if the validator accepts it.
      const std::string refused = refusal(mutator.plan(), flat);
      const bool runs = refused.empty() || PlanMutator::kinds()[mutator.kind] != "sum changed";
      const std::string fault = runs ? judge->fault(mutator.plan()) : "not run";
      Tally& tally = tallies[mutator.kind];
      ++tally.mutants;
      tally.faulty += !fault.empty();
      tally.accepted += refused.empty();
      tally.refused_although_harmless += fault.empty() && !refused.empty();
      EXPECT_FALSE(refused.empty() && !fault.empty()) << "seed " << seed << ", mutant " << n << ": " << what << ": " << fault << "\n"
                                                      << section::print(judge->plan());
      if (fault.empty() && !refused.empty() && std::getenv("LAMINA_TEST_VERBOSE"))
        std::printf("harmless, but refused: %s: %s\n    %s\n", all[which].name.c_str(), what.c_str(), refused.c_str());
    }
  }
  Tally sum;
  std::printf("%d mutants of %zu plans, first seed %llu\n%-26s %8s %8s %10s %s\n", made, all.size(), static_cast<unsigned long long>(seed),
              "", "mutants", "faulty", "accepted", "refused although emulation finds nothing");
  for (size_t k = 0; k < tallies.size(); ++k) {
    const Tally& t = tallies[k];
    std::printf("%-26s %8d %8d %10d %d\n", PlanMutator::kinds()[k].c_str(), t.mutants, t.faulty, t.accepted, t.refused_although_harmless);
    sum.faulty += t.faulty, sum.accepted += t.accepted, sum.refused_although_harmless += t.refused_although_harmless;
  }
  std::printf("%-26s %8d %8d %10d %d\n", "all", made, sum.faulty, sum.accepted, sum.refused_although_harmless);
  EXPECT_GT(sum.faulty, made / 3);
  EXPECT_GT(sum.accepted, 0);
}

TEST(PlanValidator, NamesStepsBlocksAndBytes) {
  const Lowering l = training("SGD", {8, 12, 5}, 10, 6, std::make_shared<optim::SGD>(0.1));
  Trial trial(l.program);
  const auto real = trial.plan(l.blocks);
  const section::Flat flat = trial.flat();
  section::BlockPlan plan = real->plan;
  auto* steps = reinterpret_cast<section::BlockStep*>(plan.bytes.data());
  auto* waits = reinterpret_cast<section::BlockWait*>(plan.bytes.data() + plan.program.waits_at);
  int late = 0;
  while (steps[late].waits == 0) ++late;
  const int waited = std::exchange(steps[late].waits, 0);
  std::string why = refusal(plan, flat);
  for (const char* part : {"of block", "bytes", "before it, and nothing orders the two"})
    EXPECT_NE(why.find(part), std::string::npos) << why;
  steps[late].waits = waited;
  const int counter = waits[steps[late].first_wait].counter;
  for (int i = 0; i < plan.program.steps; ++i)
    if (steps[i].signal == counter) steps[i].signal = -1;
  why = refusal(plan, flat);
  EXPECT_NE(why.find(cat("step ", late)), std::string::npos) << why;
  EXPECT_NE(why.find(cat("counter ", counter)), std::string::npos) << why;
}

// A later step may wait for any earlier one, whether it needs it or not.
TEST(PlanValidator, AcceptsRedundantWaits) {
  const Lowering l = training("deep SGD", {6, 6, 6, 6, 6, 4}, 7, 7, std::make_shared<optim::SGD>(0.1));
  Trial trial(l.program);
  section::BlockPlan plan = trial.plan(l.blocks)->plan;
  auto* steps = reinterpret_cast<section::BlockStep*>(plan.bytes.data());
  const auto* waits = reinterpret_cast<section::BlockWait*>(plan.bytes.data() + plan.program.waits_at);
  const auto raised_before = [&](int counter, int step) {
    return std::any_of(steps, steps + step, [&](const section::BlockStep& s) { return s.signal == counter; });
  };
  int added = 0;
  for (int k = 0; k < plan.program.steps; ++k) {
    if (steps[k].waits != 1) continue;
    const section::BlockWait own = waits[steps[k].first_wait];
    for (int w = 0; w + 1 < int(plan.waits.size()); ++w) {  // two neighbours in the list: a wait of its own, and another step's
      const int other = std::memcmp(&waits[w], &own, sizeof own) == 0 ? w + 1 : w;
      if (std::memcmp(&waits[w + w + 1 - other], &own, sizeof own) != 0 || waits[other].counter == own.counter ||
          !raised_before(waits[other].counter, k))
        continue;
      steps[k].first_wait = w, steps[k].waits = 2, ++added;
      break;
    }
  }
  EXPECT_GT(added, 0);
  EXPECT_EQ(refusal(plan, trial.flat()), "");
}

}  // namespace
}  // namespace lamina::kernels::cuda
