// Programs of loops: the benchmark's training step in a scan over batches, its memory, and what runs in it.
#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/hundred_layers.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;

compile::Options on(const char* device, int threads = 1) {
  return {.device = parse_device(device), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = threads};
}

// The step for each of the batches, which are stacked; its Variables are carried.
Graph epoch_of(const Graph& step, int64_t batches) {
  auto body = std::make_shared<Graph>();
  std::vector<Value> state, moved(size_t(step.size()));
  for (const ir::Resource& r : step.resources) state.push_back(body->add_input(r.type));
  for (Value v : step.inputs) moved[size_t(v.node)] = body->add_input(step.type(v));
  auto now = [&](Value v) { return Value{moved[size_t(v.node)].node, moved[size_t(v.node)].result + v.result}; };
  for (int n = 0; n < step.size(); ++n) {
    if (moved[size_t(n)].valid()) continue;
    const ir::Node& node = step[n];
    if (node.op->effect == ir::Effect::read) {
      moved[size_t(n)] = state[size_t(ir::resource_of(node))];
    } else if (node.op->effect == ir::Effect::write) {
      state[size_t(ir::resource_of(node))] = now(node.inputs[0]);
    } else {
      std::vector<Value> in;
      for (Value v : node.inputs) in.push_back(now(v));
      moved[size_t(n)] = body->copy(node, std::move(in));
    }
  }
  body->outputs = state;
  for (Value v : step.outputs) body->outputs.push_back(now(v));
  Graph g;
  g.resources = step.resources;
  std::vector<Value> carried, stacked;
  for (Value v : step.inputs) {
    TensorType type = step.type(v);
    type.shape.insert(type.shape.begin(), Dim(batches));
    stacked.push_back(g.add_input(type));
  }
  for (size_t r = 0; r < g.resources.size(); ++r) carried.push_back(ops::read(g, int(r)));
  const Value first = ops::scan(g, carried, stacked, {}, body, batches);
  for (size_t r = 0; r < carried.size(); ++r) ops::assign(g, int(r), {first.node, int(r)});
  for (size_t o = 0; o < step.outputs.size(); ++o) g.outputs.push_back({first.node, int(carried.size() + o)});
  return g;
}

TEST(Regions, AnEpochIsOneSectionOnAnH100) {
  HundredLayers model = hundred_layers();
  auto program = compile::compile(passes::optimize(epoch_of(model.graph, 50)).graph, on("null:h100"));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  EXPECT_NE(program->instructions[0].detail.find("loop"), std::string::npos);
  EXPECT_NE(program->instructions[0].detail.find("dense relu"), std::string::npos) << "the body is in the text";
}

TEST(Regions, AnEpochGivesTheWeightsOfItsSteps) {
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
    for (int64_t i = 0; i < value.size(); ++i) largest = std::max(largest, std::abs(value.at(i))), wrong = std::max(wrong, std::abs(value.at(i) - scanned.at(r).at(i)));
    EXPECT_LE(wrong, 1e-5 * largest) << "resource " << r;
  }
}

TEST(Regions, ALoopNeedsMemoryForOneIteration) {
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

TEST(Regions, AllOfALoopRunsOnOneDevice) {
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
