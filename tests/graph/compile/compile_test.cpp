#include "graph/compile/compile.h"

#include <gtest/gtest.h>

#include "graph/autodiff/gradient.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/compile/run.h"
#include "tests/ops/op_case.h"

namespace lamina {
namespace {

using compile::Options;
using ir::Graph;
using ir::Value;
using tests::Resources;
using tests::Tensor;

const TensorType kF4{DType::f32, {4}};
Tensor numbers(std::vector<float> values) { return Tensor::of<float>({int64_t(values.size())}, values); }

// Every way to run a graph agrees with the reference interpreter, bit for bit.
void expect_same_as_evaluation(const Graph& g, const std::vector<Tensor>& inputs, const Resources& before = {}) {
  ir::verify(g);
  Resources wanted_state = before;
  std::vector<Tensor> wanted = tests::evaluate(g, inputs, &wanted_state);
  for (bool sections : {true, false})
    for (int threads : {1, 2}) {
      Resources state = before;
      std::vector<Tensor> got = tests::run_program(g, inputs, &state,
                                                   {.device = {},
                                                    .input_devices = {},
                                                    .variable_devices = {},
                                                    .sections = sections,
                                                    .threads = threads,
                                                    .share_all_sections = true});
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(got[i].same_bits(wanted[i])) << "output " << i << "\n" << ir::print(g) << tests::program_text(g);
      for (auto& [r, value] : wanted_state)
        EXPECT_TRUE(state.at(r).same_bits(value)) << "resource " << r << "\n" << ir::print(g) << tests::program_text(g);
    }
}

TEST(Compile, ReturnsInputsConstantsAndRepeatedOutputs) {
  Graph g;
  Value x = g.add_input(kF4), c = g.add_constant(ir::Literal::of<float>({4}, {1, 2, 3, 4})), s = ops::add(g, x, c);
  g.outputs = {x,
               c,
               s,
               s,
               ops::reshape(g, s, {2, 2}),
               ops::transpose(g, ops::reshape(g, s, {2, 2}), {1, 0}),
               ops::broadcast_to(g, ops::sum(g, s), {3})};
  expect_same_as_evaluation(g, {numbers({5, 6, 7, 8})});
}

TEST(Compile, RunsEmptyTensors) {
  Graph g;
  Value x = g.add_input({DType::f32, {0, 3}});
  g.outputs = {ops::relu(g, ops::add(g, x, x)), ops::sum(g, x, {0})};
  expect_same_as_evaluation(g, {Tensor({DType::f32, {0, 3}})});
}

TEST(Compile, UpdatesAVariableInItsOwnMemory) {
  Graph g;
  int w = g.add_resource({"w", kF4});
  Value x = g.add_input(kF4);
  ops::assign(g, w, ops::sub(g, ops::read(g, w), ops::mul(g, x, ops::scalar(g, DType::f32, 0.5))));
  expect_same_as_evaluation(g, {numbers({1, 2, 3, 4})}, {{w, numbers({1, 1, 1, 1})}});
  EXPECT_EQ(tests::program_text(g).find("copy"), std::string::npos) << tests::program_text(g);
}

TEST(Compile, KeepsAnOldValueThatIsReadAfterTheUpdate) {
  Graph g;
  int w = g.add_resource({"w", kF4});
  Value x = g.add_input(kF4), old = ops::read(g, w);
  ops::assign(g, w, ops::add(g, old, x));
  Value now = ops::read(g, w);
  g.outputs = {ops::mul(g, old, x), ops::mul(g, now, x), old, now};
  expect_same_as_evaluation(g, {numbers({1, 2, 3, 4})}, {{w, numbers({10, 20, 30, 40})}});
}

TEST(Compile, SwapsVariables) {
  Graph g;
  int a = g.add_resource({"a", kF4}), b = g.add_resource({"b", kF4});
  Value x = ops::read(g, a), y = ops::read(g, b);
  ops::assign(g, a, y);
  ops::assign(g, b, x);
  expect_same_as_evaluation(g, {}, {{a, numbers({1, 2, 3, 4})}, {b, numbers({5, 6, 7, 8})}});
}

TEST(Compile, ReadsTheOldValueThroughAnotherView) {
  Graph g;
  TensorType square{DType::f32, {2, 2}};
  int w = g.add_resource({"w", square});
  Value old = ops::read(g, w);
  ops::assign(g, w, ops::add(g, old, ops::transpose(g, old, {1, 0})));
  expect_same_as_evaluation(g, {}, {{w, Tensor::of<float>({2, 2}, {1, 2, 3, 4})}});
}

TEST(Compile, OrdersReadsAndWritesOfOneVariable) {
  Graph g;
  int w = g.add_resource({"w", kF4});
  Value x = g.add_input(kF4);
  for (int i = 0; i < 3; ++i) {
    Value v = ops::read(g, w);
    g.outputs.push_back(v);
    ops::assign(g, w, ops::add(g, ops::mul(g, v, v), x));
  }
  g.outputs.push_back(ops::read(g, w));
  expect_same_as_evaluation(g, {numbers({1, 2, 3, 4})}, {{w, numbers({1, -1, 2, 0.5})}});
}

TEST(Compile, WritesAVariableThatHasNoValueYet) {
  Graph g;
  int w = g.add_resource({"w", kF4});
  ops::assign(g, w, g.add_input(kF4));
  Resources state;
  tests::run_program(g, {numbers({1, 2, 3, 4})}, &state, {});
  EXPECT_TRUE(state.at(w).same_bits(numbers({1, 2, 3, 4})));
  Graph reads;
  reads.add_resource({"w", kF4});
  reads.outputs = {ops::read(reads, 0)};
  try {
    tests::run_program(reads, {}, nullptr, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::state);
  }
}

TEST(Compile, AssignsOneValueToTwoVariables) {
  Graph g;
  int a = g.add_resource({"a", kF4}), b = g.add_resource({"b", kF4});
  Value sum = ops::add(g, ops::read(g, a), ops::read(g, b));
  ops::assign(g, a, sum);
  ops::assign(g, b, sum);
  g.outputs = {sum};
  expect_same_as_evaluation(g, {}, {{a, numbers({1, 2, 3, 4})}, {b, numbers({5, 6, 7, 8})}});
}

TEST(Compile, RunsOnTwoVirtualDevices) {
  Graph g;
  int w = g.add_resource({"w", kF4});
  Value x = g.add_input(kF4);
  g.place.device = parse_device("cpu:1");
  Value y = ops::add(g, x, x);
  g.place.device = parse_device("cpu:0");
  Value z = ops::mul(g, y, x);
  ops::assign(g, w, ops::add(g, ops::read(g, w), z));
  g.place.device = parse_device("cpu:1");
  g.outputs = {ops::sub(g, z, y), y, z};
  expect_same_as_evaluation(g, {numbers({1, 2, 3, 4})}, {{w, numbers({1, 1, 1, 1})}});
}

TEST(Compile, ReadsAViewOfAResultThatTookAnotherViewsMemory) {
  Graph g;
  Value x = g.add_input({DType::f32, {2}}), y = g.add_input({DType::f32, {1, 2}});
  Value row = ops::reshape(g, ops::mul(g, x, x), {1, 2});
  Value sum = ops::reshape(g, ops::add(g, row, y), {2});  // shares the product's memory, through another view
  g.outputs = {ops::sin(g, sum)};
  expect_same_as_evaluation(g, {Tensor::of<float>({2}, {1, 2}), Tensor::of<float>({1, 2}, {3, 4})}, {});
}

TEST(Compile, KeepsAValuesCopyOnAnotherDeviceForItsLaterUsers) {
  Graph g;
  Value x = g.add_input(kF4);
  Value y = ops::exp(g, x);
  g.place.device = parse_device("cpu:1");
  Value z = ops::sin(g, ops::reshape(g, y, {2, 2}));  // must not reuse the copy of y, which is needed again
  g.outputs = {ops::sum(g, z), ops::sum(g, y)};
  expect_same_as_evaluation(g, {numbers({1, 2, 3, 4})}, {});
}

// Two towers of layers trained on the sum of their losses: a handwritten ensemble.
Graph towers(int count, int layers) {
  Graph g;
  const TensorType type{DType::f32, {16, 16}};
  Value x = g.add_input(type), loss;
  std::vector<Value> weights;
  for (int t = 0; t < count; ++t) {
    Value y = x;
    for (int i = 0; i < layers; ++i) {
      weights.push_back(ops::read(g, g.add_resource({cat("w", t, "_", i), type})));
      y = ops::tanh(g, ops::matmul(g, y, weights.back()));
    }
    y = ops::mean(g, ops::square(g, y));
    loss = loss.valid() ? ops::add(g, loss, y) : y;
  }
  const std::vector<Value> gradients =
      autodiff::gradient(g, {.targets = {&loss, 1}, .cotangents = {}, .sources = weights, .first_node = 0, .blocks = {}});
  for (size_t i = 0; i < weights.size(); ++i) ops::assign(g, int(i), ops::sub(g, weights[i], gradients[i]));
  g.outputs = {loss};
  return passes::optimize(g).graph;
}

TEST(Compile, TwoTowersGetAThreadEach) {
  const Graph g = towers(2, 6);
  compile::Options options;
  options.threads = 2;
  options.share_all_sections = true;
  auto program = compile::compile(g, options);
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const std::string text = program->instructions[0].detail;
  EXPECT_NE(text.find("tanh [16,16]x[16,16] one 1"), std::string::npos) << text;
  int barriers = 0;
  for (size_t at = text.find("barrier"); at != std::string::npos; at = text.find("barrier", at + 1)) ++barriers;
  EXPECT_LE(barriers, 4) << text;  // around the loss that joins them
  options.threads = 1;
  const int64_t alone = compile::compile(g, options)->arena_bytes[0];
  EXPECT_LE(program->arena_bytes[0], 2 * alone);
  Resources before;
  for (size_t r = 0; r < g.resources.size(); ++r) before[int(r)] = tests::random_tensor({g.resources[r].type, -0.5, 0.5}, r);
  expect_same_as_evaluation(g, {tests::random_tensor({{DType::f32, {16, 16}}}, 77)}, before);
}

TEST(Compile, ASingleTowerIsSharedAmongThreads) {
  compile::Options options;
  options.threads = 2;
  const auto program = compile::compile(towers(1, 6), options);
  EXPECT_EQ(exec::print(*program).find("one 1"), std::string::npos) << exec::print(*program);
}

TEST(Compile, PlansForAbsentCards) {
  Graph g;
  Value x = g.add_input({DType::f32, {20, 64}}), w = g.add_input({DType::f32, {64, 64}}), b = g.add_input({DType::f32, {64}});
  g.outputs = {ops::dense(g, ops::dense(g, x, w, b, section::Activation::relu), w, b, section::Activation::none)};
  take_null_record();
  auto program = compile::compile(g, {.device = parse_device("null:h100"), .input_devices = {}, .variable_devices = {}});
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  EXPECT_EQ(program->instructions[0].section_steps, 2);
  exec::Executor executor(program);
  std::vector<BufferRef> in;
  for (const TensorType& t : program->inputs) in.push_back(std::make_shared<Buffer>(program->devices[0], size_t(byte_size(t))));
  EXPECT_EQ(executor.run(in, {}).size(), 1u);
  int launches = 0;
  for (const std::string& line : take_null_record()) launches += line.find("launch") != std::string::npos;
  EXPECT_EQ(launches, 1);
}

TEST(Compile, AnAbsentDeviceIsAnErrorNotACpu) {
  Graph g;
  g.outputs = {ops::relu(g, g.add_input(kF4))};
  EXPECT_THROW(compile::compile(g, {.device = parse_device("cpu:99"), .input_devices = {}, .variable_devices = {}}), Error);
  if (cuda_backend().device_count() == 0) {
    try {
      compile::compile(g, {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::device);
      EXPECT_FALSE(e.parts.why.empty());
    }
  }
}

}  // namespace
}  // namespace lamina
