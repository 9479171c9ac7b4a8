// The planned program of the benchmark's training step.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/hundred_layers.h"
#include "tests/source_file.h"

namespace lamina::tests {
namespace {

compile::Options on(const char* device, int threads = 1) {
  return {.device = parse_device(device), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = threads};
}

TEST(HundredLayersProgram, IsOneSectionOnAnH100) {
  HundredLayers model = hundred_layers();
  auto program = compile::compile(passes::optimize(model.graph).graph, on("null:h100"));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  EXPECT_GE(program->instructions[0].section_steps, 302);
}

TEST(HundredLayersProgram, IsOneSectionOnACpu) {
  HundredLayers model = hundred_layers();
  for (int threads : {1, 2}) {
    auto program = compile::compile(passes::optimize(model.graph).graph, on("cpu:0", threads));
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    const auto count = [&](const std::string& word) {
      size_t found = 0;
      for (size_t at = 0; (at = program->instructions[0].detail.find(word, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    // A weight's new value is computed in its own memory. The generator's 16 bytes are copied, because dropout reads the old ones in the
    // backward pass.
    EXPECT_EQ(count(" copy "), 2u) << program->instructions[0].detail;
    EXPECT_LE(count("| barrier"), 12u) << program->instructions[0].detail;  // the chain of layers needs none
  }
}

// With each activation the step remains one section, whose backward products include the activation's slope, and trains like plain ops.
TEST(HundredLayersProgram, IsOneSectionWithAnyActivation) {
  for (const auto& [name, activation] : every_activation()) {
    SCOPED_TRACE(name);
    HundredLayers model = hundred_layers({.layers = 5, .activation = activation});
    const ir::Graph optimized = passes::optimize(model.graph).graph;
    auto program = compile::compile(optimized, on("cpu:0"));
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    const std::string& steps = program->instructions[0].detail;
    EXPECT_NE(steps.find(cat("dense_grad_input ", name)), std::string::npos) << steps;
    const std::vector<Tensor> batch = random_batch(model, 3);
    Resources wanted = initial_values(model, Initializer::glorot, 3), state = initial_values(model, Initializer::glorot, 3);
    const std::vector<Tensor> loss = evaluate(model.graph, batch, &wanted), got = run_program(optimized, batch, &state, on("cpu:0", 2));
    EXPECT_NEAR(got[0].at(0), loss[0].at(0), 1e-5 * std::abs(loss[0].at(0)));
    for (int w : model.weights) {
      const Tensor before = initial_values(model, Initializer::glorot, 3).at(w);
      double moved = 0, wrong = 0;
      for (int64_t i = 0; i < before.size(); ++i) {
        const double step = wanted.at(w).at(i) - before.at(i), error = state.at(w).at(i) - wanted.at(w).at(i);
        moved += step * step, wrong += error * error;
      }
      EXPECT_LT(std::sqrt(wrong), 2e-2 * std::sqrt(moved) + 1e-7) << "resource " << w;
    }
  }
}

// Four layers instead of a hundred: short enough to read, and compared letter by letter.
TEST(HundredLayersProgram, HasThisText) {
  HundredLayers model = hundred_layers({.layers = 4});
  tests::expect_text_of_file(program_text(passes::optimize(model.graph).graph, on("null:h100")),
                             "tests/graph/compile/four_layers_h100.txt");
}

TEST(HundredLayersProgram, TrainsAsTheReferenceInterpreter) {
  HundredLayers model = hundred_layers();
  std::vector<Tensor> batch = random_batch(model, 3);
  Resources wanted = initial_values(model, Initializer::looks_linear, 3);
  std::vector<Tensor> loss = evaluate(model.graph, batch, &wanted);
  ir::Graph optimized = passes::optimize(model.graph).graph;
  Resources first;
  for (int threads : {1, 2, 3}) {
    Resources state = initial_values(model, Initializer::looks_linear, 3);
    std::vector<Tensor> got = run_program(optimized, batch, &state, on("cpu:0", threads));
    EXPECT_NEAR(got[0].at(0), loss[0].at(0), 1e-5 * std::abs(loss[0].at(0)));
    for (int w : model.weights) {
      double moved = 0, wrong = 0;
      Tensor before = initial_values(model, Initializer::looks_linear, 3).at(w);
      for (int64_t i = 0; i < before.size(); ++i) {
        double step = wanted.at(w).at(i) - before.at(i), error = state.at(w).at(i) - wanted.at(w).at(i);
        moved += step * step, wrong += error * error;
      }
      EXPECT_GT(moved, 0) << w;
      EXPECT_LT(std::sqrt(wrong), 2e-3 * std::sqrt(moved)) << "resource " << w;
    }
    if (threads == 1) first = state;
    for (auto& [r, value] : first) EXPECT_TRUE(state.at(r).same_bits(value)) << threads << " threads give other bits in resource " << r;
  }
}

}  // namespace
}  // namespace lamina::tests
