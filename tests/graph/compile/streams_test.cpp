// Independent branches on several streams of one device.
#include "graph/compile/streams.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/exec/order.h"
#include "tests/graph/compile/branches.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"
#include "tests/source_file.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;

compile::Options on(const char* device) { return {.device = parse_device(device), .input_devices = {}, .variable_devices = {}}; }
size_t streams_of(const Graph& g, const compile::Options& options) { return compile::compile(g, options)->streams.size(); }

TEST(Streams, TwoBranchesThatJoinHaveThisPlan) {
  expect_text_of_file(program_text(two_branches(), on("null:h100")), "tests/graph/compile/two_branches_h100.txt");
}

TEST(Streams, AreAsManyAsThereAreBranchesAndAtMostFourUnlessMoreAreAskedFor) {
  for (const int branches : {1, 2, 3, 4, 6, 11}) {
    Graph g;
    const Value x = g.add_input({DType::f32, {1, 28, 28, 64}});
    for (int b = 0; b < branches; ++b) {
      Value y = x;
      for (int layer = 0; layer < 3; ++layer) y = ops::conv2d(g, y, g.add_input({DType::f32, {1, 1, 64, 64}}), {});
      g.outputs.push_back(y);
    }
    compile::Options options = on("null:h100");
    options.share_all_streams = true;
    auto program = compile::compile(g, options);
    EXPECT_EQ(program->streams.size(), size_t(std::min(branches, compile::kUsualStreams)));
    EXPECT_EQ(program->events, 0) << "chains that never meet wait for each other";
    for (size_t i = 0; i < program->instructions.size(); ++i)
      EXPECT_EQ(program->instructions[i].stream, program->instructions[i / 3 * 3].stream) << "a chain has two streams";
    EXPECT_EQ(what_is_unordered(*program), "");
    options.streams = 100;
    program = compile::compile(g, options);
    EXPECT_EQ(program->streams.size(), size_t(std::min(branches, compile::kMostStreams)));
    EXPECT_EQ(what_is_unordered(*program), "");
  }
}

TEST(Streams, AreOneForSmallWorkAMemoryBudgetOrOnRequest) {
  EXPECT_EQ(streams_of(two_branches(), on("null:h100")), 2u);
  EXPECT_EQ(streams_of(two_branches(1, 4, 8), on("null:h100")), 1u);
  compile::Options options = on("null:h100");
  options.memory_budget = int64_t{1} << 40;
  EXPECT_EQ(streams_of(two_branches(), options), 1u);
  options = on("null:h100");
  options.streams = 1;
  EXPECT_EQ(streams_of(two_branches(), options), 1u);
  EXPECT_EQ(streams_of(two_branches(1, 6, 4), on("cpu:0")), 1u);
}

TEST(Streams, AreAsManyAsTheEnvironmentSays) {
  struct Restore {
    ~Restore() { unsetenv("LAMINA_CUDA_STREAMS"); }
  } restore;
  setenv("LAMINA_CUDA_STREAMS", "1", 1);
  EXPECT_EQ(streams_of(two_branches(), on("null:h100")), 1u);
  for (const char* wrong : {"0", "9", "two", "2x"}) {
    setenv("LAMINA_CUDA_STREAMS", wrong, 1);
    try {
      compile::compile(two_branches(), on("null:h100"));
      ADD_FAILURE() << wrong << " is taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
      EXPECT_EQ(e.parts.what, cat("LAMINA_CUDA_STREAMS=", wrong, " is not a whole number from 1 to 8"));
    }
  }
}

// A convolution's two gradients are independent: those of the filters leave the chain of those of the images.
TEST(Streams, LetWeightGradientsLeaveTheChain) {
  Graph g;
  const TensorType images{DType::f32, {1, 28, 28, 64}};
  const Value filters = g.add_input({DType::f32, {3, 3, 64, 64}});
  ops::Conv2dAttrs same;
  same.padding = ops::Padding::same;
  Value dy = g.add_input(images);
  for (int layer = 0; layer < 6; ++layer) {
    if (layer < 5) g.outputs.push_back(ops::conv2d_grad_filter(g, g.add_input(images), dy, g.type(filters).shape, same));
    dy = ops::conv2d_grad_input(g, dy, filters, images.shape, same);
  }
  g.outputs.push_back(dy);
  auto program = compile::compile(g, on("null:h100"));
  std::set<int> chain;
  for (const exec::Instruction& i : program->instructions)
    if (i.name == "conv2d_grad_input") chain.insert(i.stream);
  EXPECT_EQ(chain.size(), 1u) << exec::print(*program);
  EXPECT_EQ(program->streams.size(), size_t(compile::kUsualStreams)) << exec::print(*program);
  EXPECT_EQ(what_is_unordered(*program), "");
}

TEST(Streams, ASectionRunsAloneOnItsDevice) {
  Graph g = two_branches();
  Value x = g.add_input({DType::f32, {64, 32}});
  for (int i = 0; i < 4; ++i) x = ops::relu(g, ops::add(g, x, x));  // a section between the join and later work
  g.outputs = {ops::mul(g, g.outputs[0], ops::sum(g, x)), ops::conv2d(g, g.outputs[0], g.inputs[1], {}),
               ops::conv2d(g, g.inputs[0], g.inputs[2], {})};
  auto program = compile::compile(g, on("null:h100"));
  bool section = false;
  for (const exec::Instruction& i : program->instructions) section = section || i.section_steps > 0;
  EXPECT_TRUE(section) << exec::print(*program);
  EXPECT_GT(program->streams.size(), 1u) << exec::print(*program);
  for (const exec::Instruction& i : program->instructions) EXPECT_TRUE(!i.section_steps || i.stream == 0);
  EXPECT_EQ(what_is_unordered(*program), "");
}

// Between the two: work that does not need the sum. On one rank nothing travels.
Graph sum_beside_products(int64_t ranks, bool beside) {
  Graph g;
  const Value leaves = g.add_input({DType::f32, {8 / ranks, 64, 64}}), w = g.add_input({DType::f32, {64, 64}});
  Value x = g.add_input({DType::f32, {64, 64}});
  const Value sum = ops::all_reduce(g, {ops::relu(g, leaves)}, {.ranks = ranks, .shards = 8})[0];
  for (int i = 0; beside && i < 3; ++i) x = ops::relu(g, ops::matmul(g, x, w));
  g.outputs = {ops::mul(g, x, sum)};
  return g;
}

TEST(Streams, AnExchangeOfRanksHasOneOfItsOwnWhereOtherWorkGoesOn) {
  for (const char* device : {"cpu:0", "null:h100"}) {
    compile::Options options = on(device);
    EXPECT_EQ(streams_of(sum_beside_products(2, true), options), 1u) << "small work";
    options.share_all_streams = true;
    auto program = compile::compile(sum_beside_products(2, true), options);
    ASSERT_EQ(program->streams.size(), 2u) << exec::print(*program);
    EXPECT_EQ(what_is_unordered(*program), "") << exec::print(*program);
    int exchanges = 0;
    for (const exec::Instruction& i : program->instructions) {
      EXPECT_EQ(exec::is_exchange(*program, i), i.name == "all_reduce");
      exchanges += exec::is_exchange(*program, i);
    }
    EXPECT_EQ(exchanges, 1);
    EXPECT_EQ(program->instructions.back().wait_for.size(), 1u) << exec::print(*program);
    exec::Program p = *program;
    p.instructions.back().wait_for.clear();
    EXPECT_NE(what_is_unordered(p), "");
    EXPECT_EQ(streams_of(sum_beside_products(2, false), options), 1u);
    EXPECT_EQ(streams_of(sum_beside_products(1, true), options), 1u);
    options.memory_budget = int64_t{1} << 40;
    EXPECT_EQ(streams_of(sum_beside_products(2, true), options), 1u);
  }
}

// Random graphs: everything is ordered as needed, and without any one event something is not. The same graph has the same plan.
TEST(Streams, OfRandomGraphsHaveOnlyNecessaryWaits) {
  const int count = random_graph_count(60);
  const uint64_t first = random_graph_seed(71000);
  int64_t waits = 0, several = 0;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const RandomGraph random = random_graph(first + uint64_t(i), {.least_nodes = 20, .most_nodes = i % 2 ? 60 : 150});
    const Graph g = i % 3 == 0 ? random.graph : passes::optimize(random.graph).graph;
    compile::Options options = on("null:h100");
    options.sections = i % 4 == 3;
    options.share_all_streams = true;
    auto program = compile::compile(g, options);
    EXPECT_EQ(exec::print(*program), program_text(g, options));
    EXPECT_EQ(what_is_unordered(*program), "") << exec::print(*program);
    several += program->streams.size() > 1;
    exec::Program p = *program;
    for (exec::Instruction& instruction : p.instructions)
      for (size_t w = 0; w < instruction.wait_for.size(); ++w) {
        const std::vector<int> all = instruction.wait_for;
        instruction.wait_for.erase(instruction.wait_for.begin() + int64_t(w));
        EXPECT_NE(what_is_unordered(p), "") << "event " << all[w] << " is waited for in vain\n" << exec::print(*program);
        instruction.wait_for = all;
        ++waits;
      }
  }
  EXPECT_GT(several, count / 2);
  EXPECT_GT(waits, count);
  std::printf("%d random graphs, seeds from %s: %lld on several streams, %lld events taken away one by one\n", count,
              std::to_string(first).c_str(), static_cast<long long>(several), static_cast<long long>(waits));
}

}  // namespace
}  // namespace lamina::tests
