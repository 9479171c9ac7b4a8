// Sections in one cluster of blocks: layers shared among blocks, resident weights in shared memory, rows handed from block to block.
#include <algorithm>

#include "kernels/cuda/clock.h"
#include "kernels/cuda/section_cluster.cu"
#include "runtime/core/config.h"
#include "runtime/core/error.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"
#include "tests/graph/hundred_layers.h"

namespace lamina::kernels::cuda {
namespace {

using section::BlockLimits;
using section::BlockPlan;
using section::BlockStep;
using section::StepKind;
using tests::cluster_of;
using tests::expect_same_within;
using tests::patterned;
using tests::program_of;
using tests::Trial;

// Tanh layers between `widths`, a squared error, and an optimizer.
struct Net {
  std::vector<Variable> variables;
  std::shared_ptr<optim::Optimizer> optimizer;
  Net(const std::vector<int64_t>& widths, std::shared_ptr<optim::Optimizer> optimizer) : optimizer(std::move(optimizer)) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      variables.push_back(Variable(patterned({widths[i], widths[i + 1]}, 0.05f, int(i)), "kernel"));
      variables.push_back(Variable(patterned({widths[i + 1]}, 0.01f, int(i)), "bias"));
    }
  }
  Tensor forward(Tensor x) const {
    for (size_t i = 0; i < variables.size(); i += 2) x = tanh(matmul(x, variables[i]) + variables[i + 1]);
    return x;
  }
  Tensor step(const Tensor& x, const Tensor& y) const {
    GradientTape tape;
    const Tensor cost = mean(square(forward(x) - y));
    optimizer->apply_gradients(tape.gradient(cost, variables), variables);
    return cost;
  }
};
std::shared_ptr<const exec::Program> training(const std::vector<int64_t>& widths, int64_t batch,
                                              std::shared_ptr<optim::Optimizer> optimizer) {
  auto net = std::make_shared<Net>(widths, std::move(optimizer));
  auto step = function([net](Tensor x, Tensor y) { return net->step(x, y); });
  return program_of(step.concrete(patterned({batch, widths.front()}, 0.05f), patterned({batch, widths.back()}, 0.05f, 3)).graph());
}
// A cluster gives the same bits as blocks that share rows.
void expect_same_bits(Trial& trial, const BlockLimits& limits) {
  trial.run_blocks(*trial.plan(5));
  const auto want = trial.results();
  trial.run_blocks(*trial.plan(limits));
  const auto got = trial.results();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].size() * sizeof(float)), 0) << "result " << i;
}
int handed(const BlockPlan& plan) {
  return int(std::count_if(plan.steps.begin(), plan.steps.end(), [](const BlockStep& s) { return s.handed != 0; }));
}

TEST(SectionInACluster, TrainsAsTheCpuDoes) {
  const std::vector<int64_t> widths{12, 10, 10, 9, 10, 8, 3};
  const std::vector<std::pair<const char*, std::shared_ptr<optim::Optimizer>>> optimizers{
      {"SGD", std::make_shared<optim::SGD>(0.1)},
      {"momentum", std::make_shared<optim::SGD>(0.1, 0.9)},
      {"Adam", std::make_shared<optim::Adam>()}};
  for (const auto& [name, optimizer] : optimizers) {
    SCOPED_TRACE(name);
    Trial trial(training(widths, 7, optimizer));
    for (int blocks : {2, 3, 6}) {
      const auto plan = trial.plan(cluster_of(blocks));
      ASSERT_TRUE(plan->plan.program.cluster) << plan->plan.why_no_cluster;
      EXPECT_EQ(plan->plan.program.blocks, blocks);
      EXPECT_EQ(plan->plan.residents.size(), 6u);
      EXPECT_EQ(handed(plan->plan), 2 * (blocks - 1) - (blocks == 6)) << "there and back, but not to a block with the first layer alone\n"
                                                                      << section::print(plan->plan);
      expect_same_within(trial, cluster_of(blocks));
    }
    expect_same_bits(trial, cluster_of(3));
  }
}

// The batch passes all layers forward and backward without a product waiting for an update.
void expect_no_wait_for_updates(const BlockPlan& p) {
  const auto* starts = reinterpret_cast<const int32_t*>(p.bytes.data() + p.program.starts_at);
  const auto* lists = reinterpret_cast<const int32_t*>(p.bytes.data() + p.program.lists_at);
  int updates = 0;
  for (int b = 0; b < p.program.blocks; ++b) {
    bool updated = false;
    for (int i = starts[b]; i < starts[b + 1]; ++i) {
      const BlockStep& s = p.steps[size_t(lists[i])];
      if (s.kind == StepKind::dense_update) updated = true, ++updates;
      if (s.kind != StepKind::dense && s.kind != StepKind::dense_grad_input) continue;
      EXPECT_FALSE(updated) << "step " << lists[i] << " of block " << b << "\n" << section::print(p);
      for (int w = s.first_wait; w < s.first_wait + s.waits; ++w)
        for (const BlockStep& other : p.steps)
          EXPECT_FALSE(other.kind == StepKind::dense_update && other.signal == p.waits[size_t(w)].counter)
              << "step " << lists[i] << " waits for an update\n"
              << section::print(p);
    }
  }
  EXPECT_GT(updates, 0);
}

// A wide first layer is read from memory and updated by all blocks.
TEST(SectionInACluster, ReadsWeightsThatAreNotResident) {
  const int64_t room = 600 * 4, bytes = (section::kOwnFloats + section::kHandedFloats + 256) * 4 + room;
  Trial trial(training({200, 64, 8, 8, 8}, 20, std::make_shared<optim::SGD>(0.1, 0.9)));
  const auto plan = trial.plan(cluster_of(4, bytes));
  ASSERT_TRUE(plan->plan.program.cluster) << plan->plan.why_no_cluster;
  EXPECT_EQ(plan->plan.residents.size(), 2u) << section::print(plan->plan);
  const auto widest = std::find_if(plan->plan.steps.begin(), plan->plan.steps.end(),
                                   [](const BlockStep& s) { return s.kind == StepKind::dense_update && s.k == 200; });
  ASSERT_NE(widest, plan->plan.steps.end());
  EXPECT_GT(widest->blocks, 1);
  expect_same_within(trial, cluster_of(4, bytes));
}

TEST(SectionInACluster, TrainsOverBatches) {
  const tests::LoopsAsTheyAre whole;
  auto step = tests::scan_over_batches(std::make_shared<Net>(std::vector<int64_t>{12, 6, 5, 3}, std::make_shared<optim::SGD>(0.1, 0.9)));
  Trial trial(program_of(step.concrete(patterned({4, 5, 12}, 0.02f), patterned({4, 5, 3}, 0.02f, 3)).graph()));
  const auto plan = trial.plan(cluster_of(3));
  ASSERT_TRUE(plan->plan.program.cluster) << plan->plan.why_no_cluster;
  EXPECT_EQ(plan->plan.residents.size(), 3u);
  expect_same_within(trial, cluster_of(3));
  // After a launch leaves, the next one reloads the weights.
  trial.run_cpu();
  const auto want = trial.results();
  plan->plan.may_be_long = true;
  emulation::clock_step = 1'000'000'000;
  const int64_t before = emulation::counts().launches;
  trial.run_blocks(*plan);
  EXPECT_EQ(emulation::counts().launches - before, 1 + 4);
  emulation::clock_step = 0;
  EXPECT_LE(tests::difference(want, trial.results()), 2e-6);
}

// One network twice: a block must not get the second batch before it has read the first one.
TEST(SectionInACluster, UsesLayersTwice) {
  auto net = std::make_shared<Net>(std::vector<int64_t>{6, 6, 6, 6}, std::make_shared<optim::SGD>(0.1));
  auto step = function([net](Tensor x, Tensor y) {
    GradientTape tape;
    const Tensor cost = mean(square(net->forward(x) - net->forward(y))) + mean(net->forward(net->forward(x)));
    net->optimizer->apply_gradients(tape.gradient(cost, net->variables), net->variables);
    return cost;
  });
  Trial trial(program_of(step.concrete(patterned({5, 6}, 0.05f), patterned({5, 6}, 0.05f, 3)).graph()));
  for (int blocks : {2, 3}) {
    ASSERT_TRUE(trial.plan(cluster_of(blocks))->plan.program.cluster);
    expect_same_within(trial, cluster_of(blocks));
  }
}

TEST(SectionInACluster, TrainsOnTensorCores) {
  config::set_matmul_precision(Precision::tf32);
  Trial trial(training({12, 10, 24, 9, 10, 8, 3}, 7, std::make_shared<optim::SGD>(0.1)));
  config::set_matmul_precision(Precision::float32);
  ASSERT_TRUE(trial.plan(cluster_of(3))->plan.tensor_cores);
  expect_same_within(trial, cluster_of(3), 16 * 0x1p-11);
  expect_same_bits(trial, cluster_of(3));
}

// The benchmark in tf32 as planned for an H100: sixteen blocks with all hidden layers' weights in shared memory, and the CPU's results.
TEST(SectionInACluster, TrainsTheHundredLayers) {
  const ir::Graph step = tests::hundred_layers({.precision = Precision::tf32}).graph;
  const tests::EmulatedGpu gpu;
  const auto program =
      compile::compile(passes::optimize(step).graph,
                       {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 0});
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const BlockPlan& plan = static_cast<const section::BlockSection*>(program->instructions[0].kernel.args.get())->plan;
  ASSERT_TRUE(plan.program.cluster) << plan.why_no_cluster;
  EXPECT_EQ(plan.program.blocks, 16);
  EXPECT_EQ(plan.residents.size(), 100u) << "all but the first layer's, which are 200 KB";
  EXPECT_EQ(handed(plan), 30);
  EXPECT_LE(plan.program.shared_floats * 4, 227 * 1024);
  expect_no_wait_for_updates(plan);
  if (races_are_checked()) GTEST_SKIP() << "takes minutes when every access is looked at; the tests of small networks run here";
  Trial trial(program_of(step));
  tests::expect_close(trial, {.blocks = 128, .cluster = 16, .shared_bytes = 227 * 1024}, 1e-2);
}

TEST(SectionInACluster, IsUsedWhereTheModelPredictsAGain) {
  auto why = [](Precision precision, const BlockLimits& limits) {
    Trial trial(program_of(tests::hundred_layers({.precision = precision}).graph));
    return trial.plan(limits)->plan.why_no_cluster;
  };
  const BlockLimits h100{.blocks = 128, .cluster = 16, .shared_bytes = 227 * 1024},
      a100{.blocks = 104, .cluster = 0, .shared_bytes = 163 * 1024}, rtx5090{.blocks = 166, .cluster = 8, .shared_bytes = 99 * 1024};
  EXPECT_EQ(why(Precision::tf32, h100), "");
  EXPECT_EQ(why(Precision::bf16, h100), "");
  EXPECT_EQ(why(Precision::float32, h100), "a block for some rows of the batch is expected to be faster than a block for some layers");
  EXPECT_EQ(why(Precision::tf32, a100), "this GPU has no clusters of blocks");
  EXPECT_EQ(why(Precision::tf32, rtx5090), "a block of this GPU has no shared memory for weights");
  BlockLimits off = h100;
  off.clusters = false;
  EXPECT_EQ(why(Precision::tf32, off), "LAMINA_CUDA_CLUSTER=off");
}

}  // namespace
}  // namespace lamina::kernels::cuda
