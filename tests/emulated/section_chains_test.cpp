// Chains of a section's layers, relays of them, and planted bugs in what their warps and blocks do.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/variable.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "kernels/cuda/section_block.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/races.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using exec::Program;
using section::BlockSection;
using tests::difference;
using tests::expect_same;
using tests::patterned;
using tests::program_of;
using tests::small_program;
using tests::Trial;

// Sets of blocks relay rows: weights of several pieces, rows of several passes, one place of the ring after the other.
std::shared_ptr<const Program> relays(int64_t rows, int64_t width) {
  const auto layers = std::make_shared<std::vector<Variable>>();
  for (int i = 0; i < 4; ++i) {
    layers->push_back(Variable(patterned({width, width}, 0.002f, i), "kernel"));
    layers->push_back(Variable(patterned({width}, 0.01f, i), "bias"));
  }
  const auto optimizer = std::make_shared<optim::SGD>(0.1);
  auto step = function([layers, optimizer](Tensor x, Tensor y) {
    GradientTape tape;
    Tensor h = x;
    for (size_t i = 0; i < layers->size(); i += 2) h = relu(matmul(h, (*layers)[i]) + (*layers)[i + 1]);
    const Tensor cost = mean(square(h - y));
    optimizer->apply_gradients(tape.gradient(cost, *layers), *layers);
    return cost;
  });
  return program_of(step.concrete(patterned({rows, width}, 0.05f), patterned({rows, width}, 0.05f, 1)).graph());
}
TEST(Section, SetsOfBlocksRelayRows) {
  for (const auto& [rows, width, places] : {std::tuple{3, 250, 227 * 1024}, {3, 256, 99 * 1024}, {13, 220, 163 * 1024}}) {
    SCOPED_TRACE(cat(rows, " rows, ", width, " wide, ", places, " bytes"));
    Trial trial(relays(rows, width));
    const auto planned = trial.plan(rows == 3 ? 9 : 40);
    EXPECT_GT(planned->plan.program.handed, 0) << section::print(planned->plan);
    EXPECT_EQ(planned->plan.sets, 3) << section::print(planned->plan);
    for (const section::BlockStep& s : planned->plan.steps)
      EXPECT_EQ(s.early != 0, s.chain > 0 && s.waits > 0) << section::print(planned->plan);
    trial.run_cpu();
    const auto want = trial.results();
    emulation::settings().shared_bytes = unsigned(places);
    trial.run_blocks(*planned);
    emulation::settings() = {};
    EXPECT_LE(difference(want, trial.results()), 2e-6) << section::print(planned->plan);
  }
}

// A block with many rows: each form of its chain, one pass and several, with many places for weights and with a single one.
TEST(Section, AChainTakesAnyNumberOfRows) {
  for (const int rows : {3, 4, 5, 12, 13, 20, 21, 27})
    for (const unsigned bytes : {227u * 1024, 99u * 1024}) {
      SCOPED_TRACE(cat(rows, " rows, ", bytes, " bytes"));
      Trial trial(relays(rows, 70));
      const auto planned = trial.plan(1);
      EXPECT_TRUE(std::any_of(planned->plan.steps.begin(), planned->plan.steps.end(), [](const auto& s) { return s.chain == 4; }))
          << section::print(planned->plan);
      trial.run_cpu();
      const auto want = trial.results();
      emulation::settings().shared_bytes = bytes;
      trial.run_blocks(*planned);
      emulation::settings() = {};
      EXPECT_LE(difference(want, trial.results()), 2e-6) << section::print(planned->plan);
    }
}

// A launch that is stopped leaves rows that nobody takes. The next one begins without them.
TEST(Section, AStoppedLaunchLeavesNoRowsForTheNext) {
  Trial trial(relays(3, 200));
  const auto planned = trial.plan(9);
  trial.run_blocks(*planned);
  const auto want = trial.results();
  uint32_t* const state = planned->copies.at(0).state;
  const std::vector<uint32_t> zeros(planned->copies[0].state_bytes / 4);
  state[planned->plan.program.counters + resident::kAbort] = 1;
  trial.run_blocks(*planned);
  EXPECT_EQ(std::vector<uint32_t>(state, state + zeros.size()), zeros);
  trial.run_blocks(*planned);
  EXPECT_EQ(trial.results(), want);
  take_races();
}

// Blocks that have no gradients because the launch was stopped hand none, and raise no counters, for which an update might just begin to
// wait.
TEST(Section, AStoppedChainHandsAndAnnouncesNothing) {
  const auto layers = std::make_shared<std::vector<Variable>>();
  for (int i = 0; i < 6; ++i) layers->push_back(Variable(patterned({200, i < 5 ? 200 : 10}, 0.002f, i), "kernel"));
  const auto optimizer = std::make_shared<optim::SGD>(0.1);
  auto step = function([layers, optimizer](Tensor x, Tensor labels) {
    GradientTape tape;
    Tensor h = x;
    for (size_t i = 0; i + 1 < layers->size(); ++i) h = relu(matmul(h, (*layers)[i]));
    const Tensor cost = mean(sparse_cross_entropy(matmul(h, layers->back()), labels));
    optimizer->apply_gradients(tape.gradient(cost, *layers), *layers);
    return cost;
  });
  const std::vector<int64_t> labels{3, 10, 7};  // one block's is none of ten classes
  const auto program = program_of(step.concrete(patterned({3, 200}, 0.05f), tensor(labels, {3})).graph());
  Trial trial(program);
  trial.start_with(exec::StorageKind::input, 1, labels.data());
  const auto planned = trial.plan(30);
  ASSERT_GT(planned->plan.program.handed, 0) << section::print(planned->plan);
  std::vector<std::vector<float>> at_start;
  for (size_t i = 0; i < layers->size(); ++i) at_start.push_back(trial.variable(int(i)));
  const auto is_changed = [&] {
    trial.run_blocks(*planned);
    for (size_t i = 0; i < layers->size(); ++i)
      if (trial.variable(int(i)) != at_start[i]) return true;
    return false;
  };
  emulation::settings().first_late = unsigned(planned->plan.program.blocks - planned->plan.helpers);  // blocks that update
  EXPECT_FALSE(is_changed());
  emulation::settings().mistake = Mistake::goes_on_stopped;
  EXPECT_TRUE(is_changed());
  emulation::settings() = {};
  take_races();
}

// Blocks of a launch begin when they begin: whichever are late, the others wait for them.
TEST(Section, BlocksMayBeginLate) {
  Trial small(small_program(std::make_shared<optim::SGD>(0.1))), relayed(relays(3, 200));
  for (const auto& [trial, blocks] : {std::pair{&small, 7}, {&relayed, 9}}) {
    const auto planned = trial->plan(blocks);
    trial->run_blocks(*planned);
    const auto want = trial->results();
    for (int late = 0; late < blocks; ++late) {
      emulation::settings().first_late = unsigned(late);
      trial->run_blocks(*planned);
      EXPECT_EQ(trial->results(), want) << "from block " << late << " on";
    }
    emulation::settings() = {};
  }
}

// A mask between two layers is part of their chain, forward and backward, for blocks with few rows and with many.
TEST(Section, ChainsTakeWhatLiesBetweenLayers) {
  for (const int64_t rows : {3, 11}) {
    SCOPED_TRACE(cat(rows, " rows"));
    const auto layers = std::make_shared<std::vector<Variable>>();
    layers->push_back(Variable(patterned({40, 70}, 0.01f), "kernel"));
    layers->push_back(Variable(patterned({70, 24}, 0.01f, 3), "kernel"));
    layers->push_back(Variable(patterned({24, 6}, 0.01f, 5), "kernel"));
    const auto optimizer = std::make_shared<optim::SGD>(0.1);
    auto step = function([layers, optimizer](Tensor x, Tensor mask, Tensor y) {
      GradientTape tape;
      const auto& v = *layers;
      const Tensor hidden = tanh(matmul(matmul(x, v[0]) * mask, v[1])), cost = mean(square(matmul(hidden, v[2]) - y));
      optimizer->apply_gradients(tape.gradient(cost, v), v);
      return cost;
    });
    Trial trial(
        program_of(step.concrete(patterned({rows, 40}, 0.05f), patterned({rows, 70}, 0.05f, 1), patterned({rows, 6}, 0.05f)).graph()));
    const auto planned = trial.plan(7);
    int masks = 0, left = 0;
    for (const section::BlockStep& s : planned->plan.steps) {
      if (s.chain > 0) left = s.chain;
      if (s.link == section::LinkKind::multiply && left > 0) ++masks;
      if (s.link != section::LinkKind::none) --left;
    }
    EXPECT_GE(masks, 1) << section::print(planned->plan);
    expect_same(trial, {1, 7});
  }
}

// Two heads on one body: a chain follows a chain. Their links lie in one memory if there is room, else they are found in turn.
TEST(Section, RunsChainsBehindEachOther) {
  const auto heads = [](int layers) {
    auto f = function([layers](Tensor x, Tensor w) {
      const Tensor body = tanh(matmul(x, w));
      Tensor a = body, b = body;
      for (int i = 0; i < layers; ++i) a = tanh(matmul(a, w));
      for (int i = 0; i < layers; ++i) b = relu(matmul(b, w));
      return std::tuple(a, b, tanh(matmul(body, w) * 2.0f));
    });
    return program_of(f.concrete(patterned({6, 8}, 0.05f), patterned({8, 8}, 0.05f)).graph());
  };
  for (const int layers : {3, 90}) {
    Trial trial(heads(layers));
    std::vector<int> chains;
    for (const section::BlockStep& s : trial.plan(4)->plan.steps)
      if (s.chain > 0) chains.push_back(s.chain);
    ASSERT_GE(chains.size(), 2u);
    EXPECT_EQ(chains[0] + chains[1] > section::kMostLinks, layers == 90)
        << "the chains have " << chains[0] << " and " << chains[1] << " links";
    expect_same(trial, {1, 4});
  }
}

// Planted bugs: each wait of the plan, if removed, is a race; the complete plan has none.
TEST(Section, EveryWaitIsNeeded) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  Trial trial(small_program(std::make_shared<optim::SGD>(0.1)));
  auto plan = trial.plan(6);
  trial.run_blocks(*plan);
  EXPECT_TRUE(take_races().empty());
  ASSERT_GE(plan->plan.waits.size(), 2u);
  auto* steps = reinterpret_cast<section::BlockStep*>(plan->plan.bytes.data());
  auto* waits = reinterpret_cast<section::BlockWait*>(plan->plan.bytes.data() + plan->plan.program.waits_at);
  for (int i = 0; i < plan->plan.program.steps; ++i)
    for (int w = 0; w < steps[i].waits; ++w) {
      section::BlockSection less;  // with its own state on the device
      std::swap(waits[steps[i].first_wait + w], waits[steps[i].first_wait + steps[i].waits - 1]);
      --steps[i].waits;
      less.table = plan->table, less.plan = plan->plan;
      ++steps[i].waits;
      trial.run_blocks(less);
      EXPECT_FALSE(take_races().empty()) << "step " << i << ", wait " << w << "\n" << section::print(plan->plan);
    }
}

// What a planted bug leads to: a race, other numbers or a launch that is stuck. "" if it is not found.
std::string found(Trial& trial, Mistake mistake, int blocks = 6) {
  auto plan = trial.plan(blocks);
  trial.run_blocks(*plan), trial.go_on(*plan);
  EXPECT_TRUE(take_races().empty());
  const auto want = trial.results();
  for (const auto& o : orders()) {
    emulation::settings().order = o.order, emulation::settings().seed = o.seed;
    emulation::settings().most_pauses = 20'000, emulation::settings().mistake = mistake;
    BlockSection other;  // with its own state on the device
    other.table = plan->table, other.plan = plan->plan;
    const std::string stuck = failure_of([&] { trial.run_blocks(other), trial.go_on(other); });
    emulation::settings() = {};
    if (const auto races = take_races(); !races.empty()) return races[0];
    if (!stuck.empty()) return stuck;
    if (trial.results() != want) return "other numbers";
  }
  return "";
}

// Planted bugs in the roles of a chain's warps, and in the steps between chains.
TEST(Section, EveryMistakeOfARoleIsFound) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  Trial trial(small_program(std::make_shared<optim::SGD>(0.1)));
  for (Mistake mistake : {Mistake::meets_early, Mistake::brings_late, Mistake::stores_early, Mistake::announces_early,
                          Mistake::announces_unfenced, Mistake::updates_before})
    EXPECT_NE(found(trial, mistake), "") << "mistake " << int(mistake);
  // Weights for which the chain waits in its middle.
  auto net = function([](Tensor x, Tensor first, Tensor second) { return matmul(tanh(matmul(x, first)), tanh(second)); });
  const auto values = [](const Shape& shape) { return full(shape, 0.25); };
  Trial other(program_of(net.concrete(values({10, 40}), values({40, 24}), values({24, 6})).graph()));
  const auto steps = other.plan(6)->plan.steps;
  ASSERT_TRUE(std::any_of(steps.begin(), steps.end(), [](const section::BlockStep& s) {
    return s.link == section::LinkKind::product && s.chain == 0 && s.waits > 0;
  })) << section::print(other.plan(6)->plan);
  EXPECT_NE(found(other, Mistake::fetches_before), "");
  Trial of_many(relays(13, 70));  // by one block, in one pass of four rows for each group
  for (Mistake mistake : {Mistake::meets_early, Mistake::brings_late, Mistake::stores_early, Mistake::overtakes})
    EXPECT_NE(found(of_many, mistake, 1), "") << "many rows, mistake " << int(mistake);
  Trial relayed(relays(3, 200));
  for (Mistake mistake : {Mistake::overtakes, Mistake::takes_rows_early, Mistake::leaves_marks})
    EXPECT_NE(found(relayed, mistake, 9), "") << "mistake " << int(mistake);
}

// Planted bug: a counter is never incremented. The launch ends by itself, and leaves the counters ready for the next one.
TEST(Section, ReportsAWaitThatIsNeverSatisfied) {
  Trial trial(small_program(std::make_shared<optim::SGD>(0.1)));
  auto plan = trial.plan(6);
  auto* waits = reinterpret_cast<section::BlockWait*>(plan->plan.bytes.data() + plan->plan.program.waits_at);
  waits[0].until += 1;
  emulation::settings().most_pauses = 20000;
  const std::string why = failure_of([&] { trial.run_blocks(*plan); });
  emulation::settings() = {};
  EXPECT_NE(why.find("stuck"), std::string::npos) << why;
  EXPECT_NE(why.find("section_block.h"), std::string::npos) << why;
  take_races();
}

}  // namespace
}  // namespace lamina::kernels::cuda
