// Ops with another form for GPU libraries: when they are used, and that the numbers stay. null:h100 has every library.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "graph/autodiff/gradient.h"
#include "graph/compile/planner.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/ops.h"
#include "graph/passes/passes.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/compile/run.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

using ir::Graph;
using ir::Value;
using ops::MaxPool2dAttrs;

compile::Options on(const char* device) { return {.device = parse_device(device), .input_devices = {}, .variable_devices = {}}; }
passes::Target target(const char* device) { return {.device = parse_device(device)}; }
bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

// The sum of max_pool2d's elements weighted by `dy`, and its gradient. A window has 4 elements; 6.4 M in all at the default size.
struct Pools {
  Graph g;
  Value x, dy, y, dx;
  explicit Pools(Shape shape = {10, 80, 80, 100}, MaxPool2dAttrs attrs = {}, DType dtype = DType::f32) {
    x = g.add_input({dtype, shape});
    y = ops::max_pool2d(g, x, attrs);
    dy = g.add_input(g.type(y));
    dx = ops::max_pool2d_grad(g, dy, places(), shape, attrs);
    g.outputs = {y, dx};
  }
  Value places() const { return {y.node, 1}; }
};

class Libraries : public testing::Test {
 protected:
  void TearDown() override { unsetenv("LAMINA_CUDNN"); }
  // The pooling and its gradient are both replaced, or neither.
  static bool chosen(const Graph& g, const char* device = "null:h100") {
    std::set<std::string> names;
    const auto program = compile::compile(g, on(device));
    for (const exec::Instruction& i : program->instructions) names.insert(i.name);
    if (names.empty()) return false;  // nothing is computed for images without pixels
    EXPECT_NE(names.count("max_pool2d_values"), names.count("max_pool2d"));
    EXPECT_NE(names.count("max_pool2d_values_grad"), names.count("max_pool2d_grad"));
    EXPECT_EQ(names.count("max_pool2d_values"), names.count("max_pool2d_values_grad"));
    return names.count("max_pool2d_values") > 0;
  }
};

TEST_F(Libraries, PoolLargeInputs) {
  const Pools usual;
  EXPECT_TRUE(chosen(usual.g));
  EXPECT_FALSE(chosen(usual.g, "cpu"));
  EXPECT_FALSE(chosen(Pools({1, 80, 80, 100}).g));
  EXPECT_TRUE(chosen(Pools({10, 80, 80, 100}, {}, DType::bf16).g));
  // Exactly 4 Mi elements under windows.
  EXPECT_TRUE(chosen(Pools({1, 1024, 1024, 4}).g));
  EXPECT_FALSE(chosen(Pools({1, 1024, 1023, 4}).g));
  setenv("LAMINA_CUDNN", "never", 1);
  EXPECT_FALSE(chosen(usual.g));
  setenv("LAMINA_CUDNN", "always", 1);
  EXPECT_TRUE(chosen(Pools({1, 2, 2, 1}).g));
  EXPECT_FALSE(chosen(Pools({0, 2, 2, 1}).g));
  setenv("LAMINA_CUDNN", "96", 1);
  EXPECT_TRUE(chosen(Pools({1, 4, 8, 3}).g));
  EXPECT_FALSE(chosen(Pools({1, 4, 8, 2}).g));
}

TEST_F(Libraries, LeaveOneSidedPaddingToOwnKernels) {
  EXPECT_FALSE(chosen(Pools({10, 80, 80, 100}, {.window = {3, 3}, .strides = {2, 2}, .padding = ops::Padding::same}).g));
  EXPECT_TRUE(chosen(Pools({10, 80, 80, 100}, {.window = {3, 3}, .strides = {1, 1}, .padding = ops::Padding::same}).g));
  EXPECT_TRUE(
      chosen(Pools({10, 81, 81, 100}, {.window = {3, 3}, .strides = {2, 2}, .padding = ops::Padding::given, .pads = {1, 1, 1, 1}}).g));
  EXPECT_FALSE(
      chosen(Pools({10, 81, 81, 100}, {.window = {3, 3}, .strides = {2, 2}, .padding = ops::Padding::given, .pads = {0, 2, 1, 1}}).g));
}

TEST_F(Libraries, DoNotPoolWhenIndicesAreUsed) {
  Pools read;
  read.g.outputs.push_back(read.places());
  EXPECT_FALSE(chosen(read.g));
  Pools used;
  used.g.outputs.push_back(ops::add(used.g, used.places(), used.places()));
  EXPECT_FALSE(chosen(used.g));
  Pools other;  // windows that differ from the pooling's
  other.g.outputs.push_back(
      ops::max_pool2d_grad(other.g, other.dy, other.places(), {10, 80, 80, 100}, {.window = {1, 1}, .strides = {2, 2}}));
  EXPECT_FALSE(chosen(other.g));
  Pools larger;
  larger.g.outputs.push_back(ops::max_pool2d_grad(larger.g, larger.dy, larger.places(), {10, 81, 80, 100}, {}));
  EXPECT_FALSE(chosen(larger.g));
  Graph forward;
  forward.outputs = {ops::max_pool2d(forward, forward.add_input(f32({10, 80, 80, 100})), {})};
  EXPECT_TRUE(has(program_text(forward, on("null:h100")), "max_pool2d_values(")) << "nobody asks for a gradient";
}

TEST_F(Libraries, PoolOnlyOnTheNodesDevice) {
  Graph g;
  const Value x = g.add_input(f32({10, 80, 80, 100}));
  g.place.device = parse_device("cpu");
  const Value y = ops::max_pool2d(g, x, {});
  g.outputs = {y};
  EXPECT_TRUE(ir::equal(passes::use_libraries(g, target("null:h100")), g));
  g.place.device = {};
  g.outputs.push_back(ops::max_pool2d_grad(g, y, {y.node, 1}, {10, 80, 80, 100}, {}));  // its indices come from the CPU
  EXPECT_TRUE(ir::equal(passes::use_libraries(g, target("null:h100")), g));
}

TEST_F(Libraries, PoolInsideOfLoops) {
  auto body = std::make_shared<Graph>();
  const Value s = body->add_input(f32({10, 40, 40, 100})), image = body->add_input(f32({10, 80, 80, 100}));
  body->outputs = {ops::add(*body, s, ops::max_pool2d(*body, image, {}))};
  Graph g;
  g.outputs = {ops::scan(g, {g.add_input(f32({10, 40, 40, 100}))}, {g.add_input(f32({3, 10, 80, 80, 100}))}, {}, body, 3)};
  const auto program = compile::compile(g, on("null:h100"));
  EXPECT_TRUE(has(exec::print(*program), "max_pool2d_values")) << exec::print(*program);
}

TEST_F(Libraries, PoolToTheSameNumbers) {
  setenv("LAMINA_CUDNN", "always", 1);
  for (const MaxPool2dAttrs& attrs :
       {MaxPool2dAttrs{}, MaxPool2dAttrs{.window = {3, 3}, .strides = {1, 2}, .padding = ops::Padding::given, .pads = {1, 1, 0, 0}}}) {
    const Pools p({2, 6, 7, 3}, attrs);
    const Graph theirs = passes::use_libraries(p.g, target("null:h100"));
    ASSERT_FALSE(ir::equal(theirs, p.g));
    EXPECT_NO_THROW(ir::verify(theirs));
    const std::vector<Tensor> in{random_tensor({p.g.type(p.x)}, 1), random_tensor({p.g.type(p.dy)}, 2)};
    const std::vector<Tensor> want = run_program(p.g, in, nullptr, on("cpu")), got = run_program(theirs, in, nullptr, on("cpu"));
    for (size_t i : {0, 1}) EXPECT_TRUE(got[i].same_bits(want[i])) << i;
  }
}

TEST_F(Libraries, AreNamedByExplain) {
  const auto program = compile::compile(Pools().g, on("null:h100"));
  ASSERT_EQ(program->instructions.size(), 2u) << exec::print(*program);
  EXPECT_EQ(program->instructions[0].detail, "max_pool2d_values for cuDNN\n");
  EXPECT_EQ(program->instructions[1].detail, "max_pool2d_values_grad for cuDNN\n");
  EXPECT_TRUE(has(exec::print(*program), "  # max_pool2d_values for cuDNN\n")) << exec::print(*program);
}

// A training step of one normalisation: y, and the gradients of sum(y dy).
struct Norms {
  Graph g;
  explicit Norms(Shape shape = {16, 32, 32, 64}, DType dtype = DType::f32) {
    const TensorType of_channels{dtype, {shape.back()}};
    const std::vector<Value> in{g.add_input({dtype, shape}), g.add_input(of_channels), g.add_input(of_channels)};
    const Value dy = g.add_input({dtype, shape}), y = g.add(ops::def::batch_norm_train, ir::make_attrs(ops::BatchNormAttrs{}), in);
    const std::vector<Value> targets{y}, cotangents{dy};
    g.outputs = autodiff::gradient(g, {.targets = targets, .cotangents = cotangents, .sources = in, .first_node = 0, .blocks = {}});
    g.outputs.insert(g.outputs.end(), {y, {y.node, 1}, {y.node, 2}});
  }
};
// Planned as a function's graph.
std::set<std::string> instructions_of(const Graph& g, const char* device = "null:h100") {
  const auto program = compile::compile(passes::optimize(g, target(device)).graph, on(device));
  std::set<std::string> names;
  for (const exec::Instruction& i : program->instructions) names.insert(i.name);
  return names;
}

TEST_F(Libraries, NormaliseLargeInputs) {
  const std::set<std::string> whole{"batch_norm_train", "batch_norm_train_grad"};
  EXPECT_EQ(instructions_of(Norms().g), whole);
  EXPECT_EQ(instructions_of(Norms({16, 32, 32, 64}, DType::f64).g), whole);
  EXPECT_EQ(instructions_of(Norms({1 << 14, 64}).g), whole) << "rows of channels";
  for (const std::string& name : whole) {
    EXPECT_FALSE(instructions_of(Norms().g, "cpu").count(name));
    EXPECT_FALSE(instructions_of(Norms({16, 32, 31, 64}).g).count(name)) << "fewer than 1 Mi elements";
    EXPECT_FALSE(instructions_of(Norms({1, 1 << 20}).g).count(name)) << "one row has no variance to speak of";
  }
  setenv("LAMINA_CUDNN", "never", 1);
  EXPECT_FALSE(instructions_of(Norms().g).count("batch_norm_train"));
  setenv("LAMINA_CUDNN", "always", 1);
  EXPECT_EQ(instructions_of(Norms({2, 1}).g), whole);
}

TEST_F(Libraries, LeaveASmallStepToOneSection) {
  const Graph g = Norms({8, 4, 4, 16}).g;
  EXPECT_FALSE(passes::keeps_batch_norm(g, target("null:h100")));
  const auto program = compile::compile(passes::optimize(Norms({128, 16}).g).graph, on("null:h100"));
  EXPECT_EQ(program->instructions.size(), 1u) << exec::print(*program);
}

TEST_F(Libraries, NormaliseInsideOfLoopsAndOnTheirDevice) {
  auto body = std::make_shared<Graph>();
  const Value s = body->add_input(f32({1 << 14, 64})), gamma = body->add_input(f32({64})), beta = body->add_input(f32({64}));
  body->outputs = {body->add(ops::def::batch_norm_train, ir::make_attrs(ops::BatchNormAttrs{}), {s, gamma, beta})};
  Graph g;
  const Value x = g.add_input(f32({1 << 14, 64})), w = g.add_input(f32({64}));
  g.outputs = {ops::scan(g, {x}, {}, {w, w}, body, 3)};
  EXPECT_TRUE(passes::keeps_batch_norm(g, target("null:h100")));
  const Graph passed = passes::optimize(g, target("null:h100")).graph;
  EXPECT_TRUE(has(ir::print(passed), "batch_norm_train")) << ir::print(passed);
  EXPECT_FALSE(has(ir::print(passes::optimize(g).graph), "batch_norm_train"));
  Graph on_cpu;
  on_cpu.place.device = parse_device("cpu");
  const Value y = on_cpu.add_input(f32({1 << 14, 64})), v = on_cpu.add_input(f32({64}));
  on_cpu.outputs = {on_cpu.add(ops::def::batch_norm_train, ir::make_attrs(ops::BatchNormAttrs{}), {y, v, v})};
  EXPECT_FALSE(passes::keeps_batch_norm(on_cpu, target("null:h100")));
}

TEST_F(Libraries, NormaliseToTheSameNumbers) {
  setenv("LAMINA_CUDNN", "always", 1);
  const Graph g = Norms({3, 4, 5, 6}).g;
  ASSERT_TRUE(passes::keeps_batch_norm(g, target("null:h100")));
  std::vector<Tensor> in;
  for (size_t i = 0; i < g.inputs.size(); ++i) in.push_back(random_tensor({g.type(g.inputs[i])}, i));
  const std::vector<Tensor> want = run_program(passes::optimize(g).graph, in, nullptr, on("cpu")),
                            got = run_program(passes::optimize(g, target("null:h100")).graph, in, nullptr, on("cpu"));
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].same_bits(want[i])) << i;
}

TEST_F(Libraries, NormaliseByTheLengthsOfThePlan) {
  const Dim rows = Dim::symbol("rows");
  Graph g;
  const Value x = g.add_input({DType::f32, {rows, 64}}), v = g.add_input(f32({64}));
  g.outputs = {g.add(ops::def::batch_norm_train, ir::make_attrs(ops::BatchNormAttrs{}), {x, v, v})};
  compile::Planner planner(g);
  const auto names = [&](int64_t n) {
    const compile::Planned planned = planner.plan(on("null:h100"), {{"rows", n}});
    EXPECT_EQ(planned.passed == planner.passed(), n < 1 << 14);
    return exec::print(*planned.program);
  };
  EXPECT_TRUE(has(names(1 << 14), "batch_norm_train for cuDNN"));
  EXPECT_FALSE(has(names(1 << 4), "batch_norm_train"));
}

}  // namespace
}  // namespace lamina::tests
