// Programs of loops: the benchmark's training step in a scan over batches, its memory, and its instructions.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/hundred_layers.h"
#include "tests/source_file.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;

compile::Options on(const char* device, int threads = 1) {
  return {.device = parse_device(device), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = threads};
}

TEST(ControlFlowPrograms, AnEpochIsOneSectionOnAnH100) {
  HundredLayers model = hundred_layers();
  auto program = compile::compile(passes::optimize(epoch_of(model.graph, 50)).graph, on("null:h100"));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  EXPECT_NE(program->instructions[0].detail.find("loop"), std::string::npos);
  EXPECT_NE(program->instructions[0].detail.find("dense relu"), std::string::npos) << "the body is in the text";
}

// Short enough to read, and compared letter by letter.
TEST(ControlFlowPrograms, LoopsAndBranchesHaveThisTextOnAnH100) {
  Graph g;
  const Value x = g.add_input({DType::f32, {20, 64}}), batches = g.add_input({DType::f32, {100, 20, 64}}),
              w = g.add_input({DType::f32, {64, 64}});
  auto then = std::make_shared<Graph>(), otherwise = std::make_shared<Graph>(), body = std::make_shared<Graph>(),
       condition = std::make_shared<Graph>(), half = std::make_shared<Graph>();
  const Value a = then->add_input({DType::f32, {20, 64}}), b = otherwise->add_input({DType::f32, {20, 64}});
  then->outputs = {ops::tanh(*then, a)};
  otherwise->outputs = {ops::square(*otherwise, b)};
  const Value s = body->add_input({DType::f32, {20, 64}}), batch = body->add_input({DType::f32, {20, 64}}),
              weights = body->add_input({DType::f32, {64, 64}});
  const Value z = ops::matmul(*body, ops::add(*body, s, batch), weights),
              positive = ops::greater(*body, ops::sum(*body, z), ops::scalar(*body, DType::f32, 0));
  const Value next = ops::cond(*body, positive, {z}, then, otherwise);
  body->outputs = {next, ops::mean(*body, next)};
  const Value c = condition->add_input({DType::f32, {20, 64}}), h = half->add_input({DType::f32, {20, 64}});
  condition->outputs = {ops::greater(*condition, ops::sum(*condition, c), ops::scalar(*condition, DType::f32, 1))};
  half->outputs = {ops::mul(*half, h, ops::scalar(*half, DType::f32, 0.5))};
  const Value last = ops::scan(g, {x}, {batches}, {w}, body, 100);
  const Value end = ops::while_loop(g, {last}, {}, condition, half);
  g.outputs = {end, {end.node, 1}, {last.node, 1}};
  tests::expect_text_of_file(program_text(passes::optimize(g).graph, on("null:h100")), "tests/graph/compile/loops_h100.txt");
}

// Each simulated GPU runs 100 steps of the benchmark as one launch.
TEST(ControlFlowPrograms, AHundredStepsAreOneLaunchOnEachGpu) {
  const Graph epoch = passes::optimize(epoch_of(hundred_layers().graph, 100)).graph;
  for (const char* device : {"null:h100", "null:h200", "null:a100", "null:b200", "null:rtx4090"}) {
    auto program = compile::compile(epoch, on(device));
    ASSERT_EQ(program->instructions.size(), 1u) << device << exec::print(*program);
    EXPECT_NE(program->instructions[0].detail.find("again loop 0 -> "), std::string::npos) << program->instructions[0].detail;
    EXPECT_NE(program->instructions[0].detail.find("a scan of 100 iterations"), std::string::npos);
  }
}

// Movers of two scans move in what the first one stacks: in one iteration blocks write separate rows, and over all iterations their bytes
// interleave.
TEST(ControlFlowPrograms, AScanOverAStackedResultJoinsTheSection) {
  for (const bool reverse : {false, true}) {
    Graph g;
    const TensorType rows{DType::f32, {6, 3}};
    const Value start = g.add_input(rows), xs = g.add_input({DType::f32, {2, 6, 3}});
    const auto body_of = [&](auto op) {  // of a sum and slices: what it carries on, and that times the slice
      auto body = std::make_shared<Graph>();
      const Value sum = body->add_input(rows), slice = body->add_input(rows), next = op(*body, ops::add(*body, sum, slice));
      body->outputs = {next, ops::mul(*body, next, slice)};
      return body;
    };
    const Value first = ops::scan(g, {start}, {xs}, {}, body_of(ops::tanh), 2);
    const Value second = ops::scan(g, {first}, {{first.node, 1}}, {}, body_of(ops::sin), 2, reverse);
    g.outputs = {second, {second.node, 1}};
    auto program = compile::compile(g, on("null:h100"));  // which also validates the plan
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    EXPECT_NE(program->instructions[0].detail.find("3 blocks: 3 take rows"), std::string::npos)
        << "one block is no test: " << program->instructions[0].detail;
    EXPECT_NE(program->instructions[0].detail.find("2 loops"), std::string::npos) << program->instructions[0].detail;
  }
}

// `loops` nested scans.
Graph nest(int loops) {
  Graph g;
  const Value x = g.add_input({DType::f32, {4}});
  if (loops == 0) {
    g.outputs = {ops::sin(g, x)};
  } else {
    g.outputs = {ops::scan(g, {x}, {}, {}, std::make_shared<const Graph>(nest(loops - 1)), 9)};
  }
  return g;
}

TEST(ControlFlowPrograms, LoopsBeyondTheLimitsAreNotInTheSection) {
  EXPECT_EQ(compile::compile(nest(32), on("null:h100"))->instructions.at(0).section_steps, 1);
  const std::string deep = exec::print(*compile::compile(nest(33), on("null:h100")));
  EXPECT_NE(deep.find("in no section: more than 32 loops in one section"), std::string::npos) << deep;

  Graph row;  // one after the other
  Value x = row.add_input({DType::f32, {4}});
  for (int i = 0; i < 40; ++i) x = ops::scan(row, {x}, {}, {}, std::make_shared<const Graph>(nest(0)), 9);
  row.outputs = {x};
  auto program = compile::compile(row, on("null:h100"));
  ASSERT_EQ(program->instructions.size(), 2u) << exec::print(*program);
  EXPECT_EQ(program->instructions[0].section_steps, 32);

  Graph wide;
  const Value y = wide.add_input({DType::f32, {4, 300}});
  auto body = std::make_shared<Graph>();
  const Value z = body->add_input({DType::f32, {4, 300}}), w = body->add_input({DType::f32, {300, 300}});
  body->outputs = {ops::matmul(*body, z, w)};
  wide.outputs = {ops::scan(wide, {y}, {}, {wide.add_input({DType::f32, {300, 300}})}, body, 1000)};
  const std::string text = exec::print(*compile::compile(passes::optimize(wide).graph, on("null:h100")));
  EXPECT_NE(text.find("in no section: inside of it is matmul, which is no step of a section"), std::string::npos) << text;
}

TEST(ControlFlowPrograms, AnEpochGivesTheWeightsOfItsSteps) {
  HundredLayers model = hundred_layers({.layers = 6});
  constexpr int64_t batches = 10;
  Resources stepped = initial_values(model, Initializer::looks_linear, 3), scanned = stepped;
  for (auto& [r, value] : scanned) value = value.clone();
  const Graph step = passes::optimize(model.graph).graph, epoch = passes::optimize(epoch_of(model.graph, batches)).graph;
  std::vector<Tensor> stacked;
  std::vector<double> losses;
  for (int64_t b = 0; b < batches; ++b) {
    const std::vector<Tensor> batch = random_batch(model, uint64_t(b));
    for (size_t i = 0; i < batch.size(); ++i) {
      TensorType type = batch[i].type;
      type.shape.insert(type.shape.begin(), Dim(batches));
      if (b == 0) stacked.emplace_back(type);
      std::memcpy(static_cast<char*>(stacked[i].raw()) + size_t(b) * batch[i].byte_count(), batch[i].raw(), batch[i].byte_count());
    }
    losses.push_back(run_program(step, batch, &stepped, on("cpu:0"))[0].at(0));
  }
  const std::vector<Tensor> out = run_program(epoch, stacked, &scanned, on("cpu:0"));
  for (int64_t b = 0; b < batches; ++b) EXPECT_NEAR(out[0].at(b), losses[size_t(b)], 1e-5 * losses[size_t(b)]) << "batch " << b;
  for (auto& [r, value] : stepped) {
    double largest = 0, wrong = 0;
    for (int64_t i = 0; i < value.size(); ++i)
      largest = std::max(largest, std::abs(value.at(i))), wrong = std::max(wrong, std::abs(value.at(i) - scanned.at(r).at(i)));
    EXPECT_LE(wrong, 1e-5 * largest) << "resource " << r;
  }
}

TEST(ControlFlowPrograms, ALoopNeedsMemoryForOneIteration) {
  auto memory = [](int64_t length) {
    Graph g;
    const Value x = g.add_input({DType::f32, {100}});
    auto body = std::make_shared<Graph>();
    const Value y = body->add_input({DType::f32, {100}});
    body->outputs = {ops::add(*body, ops::softmax(*body, y, 0), ops::log_softmax(*body, y, 0))};
    g.outputs = {ops::scan(g, {x}, {}, {}, body, length)};
    return compile::compile(g, on("cpu:0"))->arena_bytes[0];
  };
  EXPECT_GT(memory(10), 0);
  EXPECT_EQ(memory(10), memory(1000000));
}

TEST(ControlFlowPrograms, AllOfALoopRunsOnOneDevice) {
  Graph g;
  const Value x = g.add_input({DType::f32, {4}});
  auto body = std::make_shared<Graph>();
  const Value y = body->add_input({DType::f32, {4}});
  body->place.device = parse_device("null:h100");
  body->outputs = {ops::sin(*body, y)};
  g.outputs = {ops::scan(g, {x}, {}, {}, body, 9)};
  try {
    compile::compile(g, on("cpu:0"));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(ErrorKind::device));
    EXPECT_NE(e.parts.what.find("sin: it stands on null:h100"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lamina::tests
