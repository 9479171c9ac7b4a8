// Loops and branches inside the section kernel, against the CPU interpreter: the same tables, and whole calls.
#include <gtest/gtest.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/variable.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/reporting.h"
#include "graph/functions/shape_functions.h"
#include "graph/nn/optimizer.h"
#include "graph/ops/ops.h"
#include "kernels/cuda/clock.h"
#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"
#include "tests/graph/hundred_layers.h"

namespace lamina::kernels::cuda {
namespace {

using section::BlockSection;
using section::BlockTurn;
using section::Turn;
using tests::difference;
using tests::EmulatedBackend;
using tests::EmulatedGpu;
using tests::expect_same;
using tests::LoopsAsTheyAre;
using tests::program_of;
using tests::scan_over_batches;
using tests::Trial;

Tensor some(Shape shape, int seed = 0) { return tests::patterned(shape, 0.02f, seed); }

std::shared_ptr<const exec::Program> program_on(const char* device, const ir::Graph& g) {
  return compile::compile(passes::optimize(g).graph,
                          {.device = parse_device(device), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
}

std::shared_ptr<const exec::Program> looping_program(const ir::Graph& g) {
  const LoopsAsTheyAre whole;
  return program_of(g);
}

// One instruction, with the same results from blocks and CPU.
void expect_one_section(const ir::Graph& g, const std::vector<int>& grids, double tolerance = 2e-6) {
  const auto program = looping_program(g);
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  ASSERT_NE(program->instructions[0].detail.find("inside of 0"), std::string::npos) << exec::print(*program);
  Trial trial(program);
  expect_same(trial, grids, tolerance);
}

// An LSTM's states for each step of xs, [steps, rows, inputs].
Tensor lstm(Tensor xs, Tensor of_input, Tensor of_state, int64_t rows, int64_t units) {
  const Tensor zero = zeros({rows, units});
  return scan(
             [&](std::tuple<Tensor, Tensor> state, Tensor x) {
               const auto& [h, c] = state;
               const Tensor z = matmul(x, of_input) + matmul(h, of_state);
               const auto part = [&](int64_t k) { return slice(z, {0, k * units}, {rows, (k + 1) * units}); };
               const Tensor next = sigmoid(part(0)) * c + sigmoid(part(1)) * tanh(part(2));
               return std::pair(std::tuple(sigmoid(part(3)) * tanh(next), next), next);
             },
             std::tuple(zero, zero), xs)
      .second;
}

// Slices of columns, and what joins them in the gradient, belong to the blocks that have their rows.
TEST(SectionLoops, NoBlockOfAnLstmWaitsForAnother) {
  constexpr int64_t units = 4, rows = 5;
  for (const bool trains : {false, true}) {
    auto f = function([&](Tensor xs, Tensor of_input, Tensor of_state) {
      if (!trains) return lstm(xs, of_input, of_state, rows, units);
      GradientTape tape;
      tape.watch(of_input), tape.watch(of_state);
      const std::vector<Tensor> d = tape.gradient(sum(square(lstm(xs, of_input, of_state, rows, units))), of_input, of_state);
      return concat({of_input - d[0] * 0.1f, of_state - d[1] * 0.1f});
    });
    const ir::Graph& g = f.concrete(some({3, rows, 7}), some({7, 4 * units}), some({units, 4 * units}, 5)).graph();
    expect_one_section(g, {1, 2, 7});
    const EmulatedGpu gpu;
    const LoopsAsTheyAre whole;
    const auto program = program_on("gpu:0", g);
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    const section::BlockPlan& plan = static_cast<const BlockSection*>(program->instructions[0].kernel.args.get())->plan;
    EXPECT_EQ(plan.program.loops, trains ? 2 : 1);
    int slices = 0, joins = 0;
    for (const section::BlockStep& s : plan.steps) {
      if (s.run != 1 && s.run != 3) continue;  // the bodies
      EXPECT_TRUE(s.waits == 0 || s.kind == section::StepKind::dense_update) << section::print(plan);
      slices += s.kind == section::StepKind::copy && s.ins == 1 && s.blocks == plan.spines;
      joins += s.kind == section::StepKind::copy && s.ins == 4 && s.blocks == plan.spines;
    }
    EXPECT_GE(slices, 4) << section::print(plan);
    EXPECT_EQ(joins, trains ? 1 : 0) << section::print(plan);
  }
}

TEST(SectionLoops, TrainOverBatchesAsTheCpuDoes) {
  auto step = scan_over_batches(std::make_shared<tests::TwoLayers>());
  expect_one_section(step.concrete(some({4, 5, 12}), some({4, 5, 3}, 3)).graph(), {1, 2, 7});
}

TEST(SectionLoops, RunBodiesOnceNeverAndBackwards) {
  const auto program_of_length = [](int64_t length) {
    auto f = function([](Tensor start, Tensor xs) {
      return scan([](Tensor s, Tensor x) { return std::pair(s * 0.5f + x, s + 1); }, start, xs,
                  {.length = -1, .reverse = true, .names = {}});
    });
    return f.concrete(some({3, 4}), some({length, 3, 4}, 2)).graph();
  };
  for (int64_t length : {1, 3}) {
    SCOPED_TRACE(length);
    expect_one_section(program_of_length(length), {1, 3});
  }
  // Operands with an axis of length 0 are not allowed in section steps.
  const auto none = looping_program(program_of_length(0));
  for (const exec::Instruction& i : none->instructions) EXPECT_EQ(i.section_steps, 0) << exec::print(*none);
}

// One block evaluates the condition for all; the number of iterations is a result.
TEST(SectionLoops, RunWhileAConditionHolds) {
  for (int64_t limit : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{100}}) {
    SCOPED_TRACE(cat("at most ", limit));
    auto f = function([&](Tensor x, Tensor w) {
      auto [last, turns] = while_loop([](Tensor v, Tensor) { return sum(square(v)) > 0.05f; },
                                      [&](Tensor v, Tensor n) { return std::tuple(matmul(v, w) * 0.5f, n + 1.0f); },
                                      std::tuple(x, tensor({0.0f}, {})), {.maximum_iterations = limit, .names = {}});
      return std::pair(last + 1, turns);
    });
    expect_one_section(f.concrete(some({6, 8}), some({8, 8}, 4)).graph(), {1, 5});
  }
}

// Nested loops with slices of slices, and branches in them.
TEST(SectionLoops, NestLoopsAndBranches) {
  auto f = function([](Tensor x, Tensor w, Tensor series) {
    return scan(
        [&](Tensor s, Tensor rows) {
          auto [last, outs] = scan(
              [&](Tensor t, Tensor row) {
                const Tensor next = cond(
                    sum(row) > 0.0f, [&] { return tanh(matmul(t, w)) + row; },
                    [&] { return cond(sum(t) > 0.0f, [&] { return t - row; }, [&] { return row * 2.0f; }); });
                return std::pair(next, next * 0.5f);
              },
              s, rows, {.length = -1, .reverse = true, .names = {}});
          auto [halved, count] =
              while_loop([](Tensor v, Tensor) { return sum(abs(v)) > 3.0f; },
                         [](Tensor v, Tensor n) { return std::tuple(v * 0.5f, n + 1.0f); }, std::tuple(last, tensor({0.0f}, {})));
          return std::pair(halved, std::tuple(outs, count));
        },
        x, series);
  });
  expect_one_section(f.concrete(some({4, 6}), some({6, 6}, 3), some({3, 2, 4, 6}, 7)).graph(), {1, 2, 6});
}

TEST(SectionLoops, TakeOneOfTwoBranches) {
  for (float v : {-1.0f, 1.0f}) {
    auto f = function([&](Tensor x, Tensor w) {
      const Tensor pred = sum(x * v) > 0.0f;
      return cond(pred, [&] { return matmul(x, w) + 1; }, [&] { return x * 2.0f; }) + 0.5f;
    });
    expect_one_section(f.concrete(some({5, 6}), some({6, 6}, 4)).graph(), {1, 4});
  }
}

// The gradient of a loop runs back over what the forward loop stacked; for a while_loop as far as it was counted.
TEST(SectionLoops, HaveGradients) {
  auto f = function([](Tensor x, Tensor w) {
    GradientTape tape;
    tape.watch(w);
    const Tensor last = while_loop([](Tensor v) { return sum(square(v)) > 0.3f; }, [&](Tensor v) { return tanh(matmul(v, w)) * 0.9f; }, x,
                                   {.maximum_iterations = 6, .names = {}});
    return tape.gradient(sum(square(last)), w)[0];
  });
  const auto program = looping_program(f.concrete(some({4, 6}), some({6, 6}, 4)).graph());
  for (size_t i = 0; i < program->instructions.size(); ++i) {
    ASSERT_GT(program->instructions[i].section_steps, 0) << exec::print(*program);
  }
  ASSERT_EQ(program->instructions.size(), 1u);
  Trial trial(program);
  expect_same(trial, {1, 3});
}

// Planted bugs: without the barrier at the end of an iteration, or before a condition is read, there are races; with all barriers there are
// none.
TEST(SectionLoops, EveryBarrierIsNeeded) {
  if (!races_are_checked()) GTEST_SKIP() << "this program's accesses are not looked at; lamina_emulated_checked runs this test";
  auto f = tests::loops_and_a_branch();
  ir::Graph g = f.concrete(some({9, 8}), some({8, 8}, 4), some({3, 9, 8}, 2)).graph();
  for (int n = 0; n < g.size(); ++n)  // one block writes the number of iterations, which all of them read
    if (g[n].op == &ops::def::while_loop) {
      g.outputs.push_back(ops::mul(g, ops::astype(g, {n, 0}, DType::i64), {n, 1}));
      break;
    }
  ASSERT_EQ(g.outputs.size(), 3u);
  const auto program = looping_program(g);
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  Trial trial(program);
  const auto plan = trial.plan(6);
  trial.run_blocks(*plan);
  EXPECT_TRUE(take_races().empty());
  auto* turns = reinterpret_cast<BlockTurn*>(plan->plan.bytes.data() + plan->plan.program.turns_at);
  int planted = 0;
  for (size_t t = 0; t < plan->plan.turns.size(); ++t) {
    if (!turns[t].barrier) continue;
    turns[t].barrier = 0;
    BlockSection less;  // with its own state on the device
    less.table = plan->table, less.plan = plan->plan;
    turns[t].barrier = 1;
    ++planted;
    // Blocks that read the condition too early may also diverge, and then wait for each other for ever.
    emulation::settings().most_pauses = 20000;
    const std::string stuck = failure_of([&] { trial.run_blocks(less); });
    emulation::settings() = {};
    EXPECT_FALSE(take_races().empty()) << "turn " << t << ' ' << stuck << "\n" << section::print(plan->plan);
  }
  EXPECT_GE(planted, 6);
}

// A launch that has run long enough leaves at the end of an iteration, of inner loops too, and the next one continues there.
TEST(SectionLoops, ContinueInAnotherLaunch) {
  auto f = function([](Tensor x, Tensor w, Tensor series) {
    return scan(
        [&](Tensor s, Tensor rows) {
          return scan(
              [&](Tensor t, Tensor row) {
                const Tensor next = tanh(matmul(t, w)) + row;
                return std::pair(next, mean(next));
              },
              s, rows);
        },
        x, series);
  });
  const auto program = looping_program(f.concrete(some({7, 6}), some({6, 6}, 3), some({3, 4, 7, 6}, 7)).graph());
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  Trial trial(program);
  trial.run_cpu();
  const auto want = trial.results();
  for (int blocks : {1, 5}) {
    const auto plan = trial.plan(blocks);
    EXPECT_FALSE(plan->plan.may_be_long) << "12 short iterations are known to end";
    plan->plan.may_be_long = true;
    for (unsigned long long step : {0ull, 60'000'000ull, 1'000'000'000ull}) {
      SCOPED_TRACE(cat(blocks, " blocks, ", step, " ns between looks at the clock"));
      emulation::clock_step = step;
      const int64_t before = emulation::counts().launches;
      trial.run_blocks(*plan);
      const int64_t launches = emulation::counts().launches - before;
      emulation::clock_step = 0;
      EXPECT_LE(difference(want, trial.results()), 2e-6);
      // The clock is read at the start of a launch and at the end of each iteration of both loops.
      EXPECT_EQ(launches, step == 0 ? 1 : step == 60'000'000 ? 1 + (12 + 3) / 2 : 1 + 12 + 3);
    }
  }
}

// Ctrl-C between two launches ends the call; the next call starts over. It is checked every 50 ms: the loop takes longer.
TEST(SectionLoops, EndWhenInterrupted) {
  auto f = function([](Tensor x) { return while_loop([](Tensor v) { return sum(v) < 3000.0f; }, [](Tensor v) { return v + 1.0f; }, x); });
  Trial trial(looping_program(f.concrete(some({3})).graph()));
  trial.run_cpu();
  const auto want = trial.results();
  const auto plan = trial.plan(2);
  EXPECT_TRUE(plan->plan.may_be_long) << "nobody knows how many iterations there will be";
  emulation::clock_step = 1'000'000'000;
  set_interrupt_check([] { throw Error(ErrorKind::state, {.what = "interrupted", .where = "", .why = "", .fix = ""}); });
  EXPECT_THROW(trial.run_blocks(*plan), Error);
  set_interrupt_check(nullptr);
  emulation::clock_step = 0;
  trial.run_blocks(*plan);
  EXPECT_LE(difference(want, trial.results()), 0);
}

// Planted bug: a block never arrives. The others stop by themselves.
TEST(SectionLoops, ReportABlockThatNeverComes) {
  auto step = scan_over_batches(std::make_shared<tests::TwoLayers>());
  Trial trial(looping_program(step.concrete(some({4, 5, 12}), some({4, 5, 3}, 3)).graph()));
  const auto plan = trial.plan(5);
  auto* turns = reinterpret_cast<BlockTurn*>(plan->plan.bytes.data() + plan->plan.program.turns_at);
  auto* targets = reinterpret_cast<int32_t*>(plan->plan.bytes.data() + plan->plan.program.targets_at);
  for (size_t t = 0; t < plan->plan.turns.size(); ++t)
    if (turns[t].turn == Turn::again) targets[t * size_t(plan->plan.program.blocks) + 1] = 1 << 20;  // block 1 leaves after an iteration
  emulation::settings().most_pauses = 20000;
  const std::string why = failure_of([&] { trial.run_blocks(*plan); });
  emulation::settings() = {};
  EXPECT_NE(why.find("stuck"), std::string::npos) << why;
  take_races();
}

struct Outcome {
  std::vector<std::vector<float>> values;
  int launches = 0;
};

// A user's traced function: an epoch is one launch, apart from copies, and trains as on the CPU.
TEST(SectionLoops, ATracedEpochIsOneLaunch) {
  const EmulatedGpu gpu;
  const LoopsAsTheyAre whole;
  auto train = [&](const char* device) {
    const DeviceScope scope(parse_device(device));
    const Tensor xs = some({6, 5, 12}), ys = some({6, 5, 3}, 3);
    const auto net = std::make_shared<tests::TwoLayers>();
    auto step = scan_over_batches(net);
    Outcome run;
    step(xs, ys);
    const int before = EmulatedBackend::one().launches();
    auto [best, losses] = step(xs, ys);
    run.launches = EmulatedBackend::one().launches() - before;
    run.values = {best.to_vector<float>(), losses.to_vector<float>()};
    for (const Variable& v : net->layers) run.values.push_back(v.read().to_vector<float>());
    return run;
  };
  const Outcome on_cpu = train("cpu:0"), on_gpu = train("gpu:0");
  EXPECT_EQ(on_gpu.launches, 1);
  EXPECT_LT(on_gpu.values[1].back(), on_gpu.values[1].front());
  EXPECT_LE(difference(on_cpu.values, on_gpu.values), 1e-5);
}

// The benchmark's step for stacked batches, as planned for a GPU with 132 multiprocessors; with four layers instead of a hundred it gives
// the CPU's weights.
TEST(SectionLoops, AnEpochOfTheBenchmarkIsOneSection) {
  const EmulatedGpu gpu;
  const auto program = program_on("gpu:0", tests::epoch_of(tests::hundred_layers({}).graph, 100));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const auto& planned = *static_cast<const BlockSection*>(program->instructions[0].kernel.args.get());
  EXPECT_EQ(planned.plan.spines, 10) << "20 rows, 2 for each block";
  EXPECT_LE(planned.plan.program.blocks, 128) << "4 multiprocessors are left to others";
  EXPECT_TRUE(planned.plan.may_be_long);
  EXPECT_NE(program->instructions[0].detail.find("a scan of 100 iterations"), std::string::npos);
  if (races_are_checked()) GTEST_SKIP() << "takes minutes when every access is looked at; the tests of small networks run here";
  Trial trial(looping_program(tests::epoch_of(tests::hundred_layers({.layers = 4}).graph, 3)));
  expect_close(trial, 12, 1e-5);
}

// An invalid label in the second batch: the call throws with it, and no weight has changed.
TEST(SectionLoops, ABadLabelLeavesTheWeightsUnchanged) {
  const EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  const LoopsAsTheyAre whole;
  const Variable w(some({12, 5}), "kernel");
  auto step = tests::classifier_over_batches(w);
  const Tensor xs = some({3, 2, 12});
  step(xs, tensor(std::vector<int64_t>{1, 2, 3, 4, 0, 1}, {3, 2}));
  const std::vector<float> before = w.read().to_vector<float>();
  std::string why;
  try {
    step(xs, tensor(std::vector<int64_t>{1, 2, 3, 7, 0, 1}, {3, 2}));
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_NE(why.find("label 7 is out of range for 5 classes"), std::string::npos) << why;
  EXPECT_EQ(w.read().to_vector<float>(), before);
  step(xs, tensor(std::vector<int64_t>{1, 2, 3, 4, 0, 1}, {3, 2}));  // still usable
  EXPECT_NE(w.read().to_vector<float>(), before);
}

// Loops that no section supports still run: the host starts each iteration, and explain says why.
TEST(SectionLoops, UnsupportedLoopsRunOnTheHost) {
  const EmulatedGpu gpu;
  const LoopsAsTheyAre whole;
  auto results = [&](const char* device) {
    const DeviceScope scope(parse_device(device));
    const Tensor x = some({4, 6}), xs = some({3, 4, 6}, 9);
    auto f = function([](Tensor x, Tensor xs) {
      auto [last, outs] = scan([](Tensor s, Tensor row) { return std::pair(cumsum(s + row, 1) * 0.25f, s); }, x, xs,
                               {.length = -1, .reverse = true, .names = {}});
      auto [end, turns] =
          while_loop([](Tensor v, Tensor) { return sum(abs(v)) > 0.2f; },
                     [](Tensor v, Tensor n) { return std::tuple(cumsum(v, 0) * 0.2f, n + 1.0f); }, std::tuple(last, tensor({0.0f}, {})));
      return std::tuple(end, turns, outs, cond(sum(end) > 0.0f, [&] { return cumsum(end, 0); }, [&] { return cumsum(end, 1); }));
    });
    const auto [a, b, c, d] = f(x, xs);
    return std::vector<std::vector<float>>{a.to_vector<float>(), b.to_vector<float>(), c.to_vector<float>(), d.to_vector<float>()};
  };
  EXPECT_LE(difference(results("cpu:0"), results("gpu:0")), 2e-6);

  ir::Graph g;
  const ir::Value x = g.add_input({DType::f32, {4, 6}});
  auto body = std::make_shared<ir::Graph>();
  const ir::Value y = body->add_input({DType::f32, {4, 6}});
  body->outputs = {ops::cumsum(*body, y, 1)};
  g.outputs = {ops::scan(g, {x}, {}, {}, body, 9)};
  const std::string text = exec::print(*program_on("gpu:0", g));
  EXPECT_NE(text.find("in no section: inside of it is cumsum, which is no step of a section"), std::string::npos) << text;
}

// Without a maximum of iterations, memory for the gradient is allocated after the loop has been counted.
TEST(SectionLoops, HaveGradientsWithoutAMaximumOfIterations) {
  const EmulatedGpu gpu;
  auto gradients = [&](const char* device) {
    const DeviceScope scope(parse_device(device));
    const Variable w(some({6, 6}, 4), "kernel");
    auto f = function([&](Tensor x) {
      GradientTape tape;
      const Tensor last =
          while_loop([](Tensor v) { return sum(square(v)) > 0.02f; }, [&](Tensor v) { return tanh(matmul(v, w)) * 0.9f; }, x);
      const Tensor cost = sum(square(last));
      return std::pair(cost, tape.gradient(cost, w)[0]);
    });
    const auto [cost, gradient] = f(some({4, 6}));
    return std::vector<std::vector<float>>{cost.to_vector<float>(), gradient.to_vector<float>()};
  };
  EXPECT_LE(difference(gradients("cpu:0"), gradients("gpu:0")), 1e-5);
}

TEST(SectionLoops, DoNotPrint) {
  const EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  auto f = function([](Tensor x) {
    return while_loop([](Tensor v) { return sum(v) < 9.0f; },
                      [](Tensor v) {
                        lamina::print("v", v);
                        return v + 1.0f;
                      },
                      x);
  });
  try {
    f(some({3}));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(int(e.kind), int(ErrorKind::device));
    EXPECT_NE(std::string(e.what()).find("print: it is in a loop or branch on gpu:0"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lamina::kernels::cuda
