// Sums over ranks within a section's launch: which all_reduce becomes a step.
#include <gtest/gtest.h>

#include "graph/cost/predict.h"
#include "graph/ops/collectives.h"
#include "graph/ops/ops.h"
#include "graph/passes/cut_rows.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/block_section.h"
#include "runtime/dist/tree.h"
#include "tests/emulated/networks.h"
#include "tests/graph/compile/run.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;

// A training step's part on one of the ranks.
Graph part_of_step(int ranks, bool in_launch) {
  auto net = small_net(std::make_shared<optim::SGD>(0.1));
  const Graph whole = net.concrete(patterned({64, 40}, 0.01f), patterned({64, 6}, 0.02f)).graph();
  const std::vector<ir::Cut> cuts{{0, 1}, {0, 1}};
  const passes::RowsRequest request{.rows = 64, .ranks = ranks, .rank = ranks - 1, .in_launch = in_launch, .inputs = cuts};
  return passes::optimize(passes::cut_rows(whole, request).graph).graph;
}
std::shared_ptr<const exec::Program> program_on(const char* device, const Graph& g) {
  return compile::compile(g, {.device = parse_device(device)});
}
int launches_of(const exec::Program& program, const std::string& name) {
  int out = 0;
  for (const exec::Instruction& i : program.instructions) out += i.name.starts_with(name);
  return out;
}

TEST(RankSums, AStepIsOneLaunchWhereRanksReachEachOthersMemory) {
  for (int ranks : {2, 3, 8}) {
    const auto program = program_on("null:h100", part_of_step(ranks, true));
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    const std::string text = exec::print(*program);
    EXPECT_NE(text.find(cat("all_reduce over ", ranks, " ranks")), std::string::npos) << text;
    EXPECT_NE(text.find("announce"), std::string::npos) << text;
    EXPECT_NE(text.find("from all ranks: value 0"), std::string::npos) << text;
    EXPECT_TRUE(program->instructions[0].waits) << "it may be recorded in a CUDA graph, with its number";
  }
  const auto elsewhere = program_on("null:h100", part_of_step(8, false));
  EXPECT_EQ(launches_of(*elsewhere, "all_reduce"), 1) << exec::print(*elsewhere);
  EXPECT_GE(elsewhere->instructions.size(), 3u);
  EXPECT_GE(launches_of(*program_on("cpu:0", part_of_step(8, true)), "all_reduce"), 1) << "CPUs have no windows";
}

// Sums of these types, alone behind an addition.
std::shared_ptr<const exec::Program> sum_of(std::vector<TensorType> types, ops::CollectiveAttrs attrs) {
  Graph g;
  std::vector<Value> roots;
  for (const TensorType& t : types) {
    const Value v = g.add_input(t);
    roots.push_back(ops::add(g, v, v));
  }
  g.outputs = ops::all_reduce(g, roots, std::move(attrs));
  return program_on("null:h100", g);
}
TEST(RankSums, LargeSumsOtherTypesAndTheLibrarysOrderStayLaunches) {
  const ops::CollectiveAttrs two{.ranks = 2, .shards = 8, .name = "x", .of_rows = true, .in_launch = true};
  const auto stays = [&](const TensorType& type, ops::CollectiveAttrs attrs) {
    return launches_of(*sum_of({type}, std::move(attrs)), "all_reduce") == 1;
  };
  EXPECT_FALSE(stays({DType::f32, {1, 64}}, two));
  EXPECT_TRUE(stays({DType::f64, {1, 64}}, two));
  EXPECT_TRUE(stays({DType::f16, {1, 64}}, two));
  EXPECT_TRUE(stays({DType::f32, {1, 0}}, two));
  EXPECT_FALSE(stays({DType::f32, {1, 1 << 22}}, two));
  EXPECT_TRUE(stays({DType::f32, {1, (1 << 22) + 1}}, two)) << "more than 16 MB";
  auto others = two;
  others.in_launch = false;
  EXPECT_TRUE(stays({DType::f32, {1, 64}}, others));
  others = two, others.reproducible = false;
  EXPECT_TRUE(stays({DType::f32, {1, 64}}, others));
  others = two, others.ranks = 40, others.shards = 120;
  EXPECT_TRUE(stays({DType::f32, {1, 64}}, others)) << "more than 64 roots";
  others.ranks = others.shards = 64;
  EXPECT_FALSE(stays({DType::f32, {1, 64}}, others));
}

TEST(RankSums, InALoopTheHostExchanges) {
  Graph body;
  const Value carried = body.add_input({DType::f32, {16}});
  const ops::CollectiveAttrs two{.ranks = 2, .shards = 2, .name = "x", .of_rows = true, .in_launch = true};
  body.outputs = {ops::all_reduce(body, {ops::reshape(body, carried, {1, 16})}, two)[0]};
  Graph g;
  const Value x = g.add_input({DType::f32, {16}});
  const auto region = std::make_shared<const Graph>(std::move(body));
  g.outputs = {g.add(ops::def::scan, ir::make_attrs(ops::ScanAttrs{.carried = 1, .stacked = 0, .length = {Dim(3)}}), {x}, {region})};
  const auto program = program_on("null:h100", g);
  EXPECT_EQ(launches_of(*program, "scan"), 1) << exec::print(*program);
}

// Gradients, and the sums of those of a rank's shards, belong to other blocks than rows, and no row waits for them.
TEST(RankSums, GradientsHaveBlocksOfTheirOwn) {
  for (const bool in_launch : {true, false})
    for (int ranks : {1, 2, 3, 8}) {
      if (ranks == 1 && in_launch) continue;
      const auto program = program_on("null:h100", part_of_step(ranks, in_launch));
      const auto& plan = static_cast<const section::BlockSection*>(program->instructions[0].kernel.args.get())->plan;
      int gradients = 0;
      for (const section::BlockStep& s : plan.steps) {
        if (s.kind == section::StepKind::dense_update) {
          ++gradients;
          EXPECT_GE(s.first_block, plan.spines) << ranks << " ranks\n" << section::print(plan);
        }
        if (is_product(s.kind)) {
          EXPECT_EQ(s.waits, 0) << ranks << " ranks\n" << section::print(plan);
        }
      }
      EXPECT_EQ(gradients, 2);
    }
}

const section::BlockPlan& plan_of(const exec::Program& program) {
  return static_cast<const section::BlockSection*>(program.instructions[0].kernel.args.get())->plan;
}

// Gradients go to windows as they are made, all shards' of a rank, and the optimizer's arithmetic belongs to the collections.
TEST(RankSums, GradientsAreAnnouncedByTheirUpdatesAndUpdatedWhereTheyAreCollected) {
  for (int ranks : {2, 3, 8}) {
    const auto program = program_on("null:h100", part_of_step(ranks, true));
    const section::BlockPlan& plan = plan_of(*program);
    std::vector<int> announced;
    int descents = 0, additions = 0;
    for (const section::BlockStep& s : plan.steps) {
      for (int value : {s.announces, s.announces2})
        if (value >= 0) announced.push_back(value);
      descents += s.kind == section::StepKind::collect && s.descent >= 0;
      additions += s.kind == section::StepKind::elementwise && s.partition == section::Partition::tiles;
    }
    EXPECT_EQ(announced.size(), 3u) << ranks << " ranks\n" << section::print(plan);
    EXPECT_EQ(descents, 3) << ranks << " ranks\n" << section::print(plan);
    EXPECT_EQ(additions, 0) << ranks << " ranks\n" << section::print(plan);
  }
}

// A rank's step of a network of 60 layers, and that without other ranks on as many rows.
TEST(RankSums, AreCollectedWhileTheBackwardPassRuns) {
  std::vector<Variable> layers;
  for (int i = 0; i < 60; ++i) layers.emplace_back(patterned({64, 64}, 0.01f, i), "kernel");
  optim::SGD sgd(0.1);
  auto step = function([&](lamina::Tensor x) {
    GradientTape tape;
    for (const Variable& w : layers) x = relu(matmul(x, w));
    const lamina::Tensor cost = mean(square(x));
    sgd.apply_gradients(tape.gradient(cost, layers), layers);
    return cost;
  });
  const auto modelled = [](const exec::Program& program) {
    EXPECT_EQ(program.instructions.size(), 1u) << exec::print(program);
    return cost::predicted_microseconds(program, program.instructions[0]).value();
  };
  const double alone = modelled(*program_on("null:h100", passes::optimize(step.concrete(patterned({20, 64}, 0.01f)).graph()).graph));
  for (int ranks : {2, 4, 8}) {
    const Graph whole = step.concrete(patterned({20 * ranks, 64}, 0.01f)).graph();
    const std::vector<ir::Cut> cuts{{0, 1}};
    const auto program = program_on(
        "null:h100",
        passes::optimize(passes::cut_rows(whole, {.rows = 20 * ranks, .ranks = ranks, .in_launch = true, .inputs = cuts}).graph).graph);
    EXPECT_LT(modelled(*program) - alone, 13) << ranks << " ranks\n" << section::print(plan_of(*program));
    const auto& steps = plan_of(*program).steps;
    size_t last_announced = 0, first_collected = steps.size();
    for (size_t i = 0; i < steps.size(); ++i) {
      if (announces(steps[i])) last_announced = i;
      if (steps[i].kind == section::StepKind::collect) first_collected = std::min(first_collected, i);
    }
    EXPECT_LT(first_collected, last_announced);
  }
}

// Two sums of one step, of which the second needs the first.
TEST(RankSums, ASumMayNeedAnother) {
  Graph g;
  const ops::CollectiveAttrs two{.ranks = 2, .shards = 2, .name = "x", .of_rows = true, .in_launch = true};
  const Value first = ops::all_reduce(g, {g.add_input({DType::f32, {1, 100}})}, two)[0];
  g.outputs = {ops::all_reduce(g, {ops::reshape(g, ops::add(g, first, first), {1, 100})}, two)[0]};
  const auto program = program_on("null:h100", g);
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const auto& plan = static_cast<const section::BlockSection*>(program->instructions[0].kernel.args.get())->plan;
  std::string kinds;
  for (const section::BlockStep& s : plan.steps) kinds += cat(section::name(s.kind), ' ');
  EXPECT_EQ(kinds, "announce collect elementwise announce collect ");
  EXPECT_EQ(plan.windows.size(), 2u);
}

TEST(RankSums, ArePredicted) {
  const auto of_sum = [](int64_t ranks, int64_t elements) {
    const auto program =
        sum_of({{DType::f32, {1, elements}}}, {.ranks = ranks, .shards = 8, .name = "x", .of_rows = true, .in_launch = true});
    return cost::predicted_microseconds(*program, program->instructions.back()).value();
  };
  // 3.5 MB and 6 MB at 360 GB/s.
  EXPECT_NEAR(of_sum(8, 250'000) - of_sum(8, 125'000), 9.7, 3);
  EXPECT_NEAR(of_sum(8, 250'000) - of_sum(2, 250'000), 16.7, 3);
}

}  // namespace
}  // namespace lamina::tests
