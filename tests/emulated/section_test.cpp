// The section kernel against the CPU's, on the same tables.
#include "kernels/cuda/section.cu"

#include <array>
#include <map>
#include <numeric>

#include "graph/compile/compile.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/variable.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/image.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/device/backend.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/races.h"
#include "tests/emulated/section_trial.h"
#include "tests/graph/hundred_layers.h"

namespace lamina::kernels::cuda {
namespace {

using exec::Program;
using section::BlockSection;
using tests::difference;
using tests::expect_same;
using tests::Layers;
using tests::patterned;
using tests::program_of;
using tests::small_net;
using tests::small_program;
using tests::Trial;

// An image has 784 pixels: too many accesses to check each.
#define LAMINA_LARGE() \
  if (races_are_checked()) GTEST_SKIP() << "takes minutes when every access is looked at; the tests of small networks run here"

TEST(Section, TrainsTheBenchmarkWithFewLayersOnAnyNumberOfBlocks) {
  LAMINA_LARGE();
  Trial trial(program_of(tests::hundred_layers({.layers = 4}).graph));
  expect_same(trial, {1, 2, 12});
}

// The benchmark as planned for a GPU with 132 multiprocessors: one instruction, whose blocks compute the CPU's weights.
TEST(Section, TrainsTheHundredLayersInOneLaunch) {
  const tests::EmulatedGpu gpu;
  const ir::Graph step = tests::hundred_layers({}).graph;
  const auto program =
      compile::compile(passes::optimize(step).graph,
                       {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 0});
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  const auto& planned = *static_cast<const BlockSection*>(program->instructions[0].kernel.args.get());
  EXPECT_EQ(planned.plan.spines, 10) << "20 rows, 2 for each block";
  EXPECT_EQ(planned.plan.sets, 7) << "the first one has the first layer, the last one the loss";
  EXPECT_GT(planned.plan.helpers, 50);
  std::vector<int> chains, early, take;
  for (const section::BlockStep& s : planned.plan.steps)
    if (s.chain > 0) chains.push_back(s.chain), early.push_back(s.early), take.push_back(s.takes >= 0);
  ASSERT_EQ(chains.size(), 13u) << "forward and, but for the last, back by each set";
  EXPECT_EQ(std::accumulate(chains.begin(), chains.end(), 0), 2 * 102) << "with dropout and its gradient";
  EXPECT_EQ(take, (std::vector<int>{0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1})) << "rows come from another set, or from the loss";
  EXPECT_EQ(early, (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})) << "nothing else is waited for, but behind the loss";
  EXPECT_LE(planned.plan.program.blocks, 128) << "4 multiprocessors are left to others";
  // Rows pass all layers forward and backward without waiting for an update.
  const auto& steps = planned.plan.steps;
  for (const section::BlockStep& s : steps)
    for (int w = 0; s.first_block < planned.plan.sets * planned.plan.spines && w < s.waits; ++w)
      for (const section::BlockStep& earlier : steps)
        EXPECT_FALSE(earlier.kind == section::StepKind::dense_update &&
                     earlier.signal == planned.plan.waits[size_t(s.first_wait + w)].counter)
            << section::print(planned.plan);
  LAMINA_LARGE();
  Trial trial(program_of(step));
  expect_close(trial, 128, 1e-5);
}

TEST(Section, TakesOddWidthsAndBatches) {
  LAMINA_LARGE();
  for (auto [batch, width] : {std::pair<int, int>{1, 64}, {3, 5}, {37, 33}, {70, 100}, {20, 256}}) {
    SCOPED_TRACE(cat("batch ", batch, ", ", width, " wide"));
    Trial trial(program_of(tests::hundred_layers({.layers = 2, .batch = batch, .width = width}).graph));
    expect_same(trial, {1, 7});
  }
}

TEST(Section, HasEveryActivation) {
  LAMINA_LARGE();
  for (const auto& [name, activation] : tests::every_activation()) {
    SCOPED_TRACE(name);
    Trial trial(program_of(tests::hundred_layers({.layers = 2, .width = 16, .activation = activation}).graph));
    expect_same(trial, {5}, 1e-5);
  }
}

// Each program that is compiled into the kernel, by an optimizer that has it.
TEST(Section, RunsOptimizersOfSeveralSlots) {
  std::map<std::string, std::shared_ptr<optim::Optimizer>> all{{"momentum", std::make_shared<optim::SGD>(0.1, 0.9)},
                                                               {"Nesterov momentum", std::make_shared<optim::SGD>(0.1, 0.9, true)},
                                                               {"Adam", std::make_shared<optim::Adam>()},
                                                               {"AdamW", std::make_shared<optim::AdamW>()},
                                                               {"Nadam", std::make_shared<optim::Nadam>()},
                                                               {"RMSprop", std::make_shared<optim::RMSprop>()},
                                                               {"Adagrad", std::make_shared<optim::Adagrad>()},
                                                               {"Lion", std::make_shared<optim::Lion>()}};
  for (const kernels::KnownCode& code : kernels::known::kCodes) {
    SCOPED_TRACE(code.name);
    ASSERT_TRUE(all.contains(code.name));
    auto program = small_program(all[code.name]);
    ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
    Trial trial(program);
    EXPECT_NE(section::print(trial.plan(6)->plan).find(cat(" by ", code.name, ' ')), std::string::npos);
    expect_same(trial, {1, 6});
  }
}

// Programs of up to 48 values, narrow and wide, on shares of a block with fewer elements than threads, as many, and more than a thread has
// at once.
TEST(Section, InterpretsAnyProgramOnAnyShareWithTheCpusBits) {
  std::mt19937 random(5);
  const auto upto = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  int longest = 0, tried = 0;
  for (const int64_t n : {1, 37, 128, 129, 700, 1500})
    for (const int time : {0, 1, 2, 3, 4, 5}) {
      const int64_t rows = 2 + upto(5);
      const bool wide = time % 2 == 0;
      auto f = function([&](Tensor x, Tensor row, Tensor column) {
        std::vector<Tensor> values{x, row * 1.0f, column - 0.25f};
        if (wide) values.push_back(astype(astype(x * 100.0f, DType::i64) * 3, DType::f32));
        const int64_t count = 3 + upto(11);
        const auto any = [&] { return values[size_t(upto(int64_t(values.size())))]; };
        for (int64_t i = 0; i < count; ++i) {
          const Tensor a = any(), b = any();
          switch (upto(7)) {
            case 0: values.push_back(a + b); break;
            case 1: values.push_back(a - b); break;
            case 2: values.push_back(a * b * 0.5f); break;
            case 3: values.push_back(maximum(a, b)); break;
            case 4: values.push_back(sqrt(abs(a))); break;
            case 5: values.push_back(where(a > b, a, b - 1.0f)); break;
            default: values.push_back(a / (abs(b) + 1.0f)); break;
          }
        }
        Tensor all = values[0];
        for (size_t i = 1; i < values.size(); ++i) all = all + values[i];
        return all;
      });
      const auto program =
          program_of(f.concrete(patterned({rows, n}, 0.01f), patterned({n}, 0.02f, 1), patterned({rows, 1}, 0.03f, 2)).graph());
      SCOPED_TRACE(cat(rows, " rows of ", n, wide ? ", wide" : ""));
      for (size_t i = 0; i < program->instructions.size(); ++i) {
        if (program->instructions[i].section_steps == 0) continue;
        Trial trial(program, int(i));
        const auto& codes = trial.table().codes;
        if (std::ranges::any_of(trial.table().steps, [&](const auto& s) { return section::why_not_on_blocks(codes, s) != nullptr; }))
          continue;
        for (const auto& code : codes)
          longest = std::max(longest, int(code.inputs.size() + code.constants.size() + code.instructions.size()));
        expect_same(trial, {1, 2}, 0);
        ++tried;
      }
    }
  EXPECT_GE(tried, 30);
  EXPECT_GT(longest, 30);
}

// A training step of a stack of layers with biases.
std::shared_ptr<const Program> ensemble(int64_t models, int64_t rows, int64_t width, int64_t results,
                                        std::shared_ptr<optim::Optimizer> optimizer) {
  const Variable w = per_model(patterned({models, width, results}, 0.02f), "kernel");
  const Variable b = per_model(patterned({models, results}, 0.1f, 3), "bias");
  auto step = function([&](Tensor x) {
    return vmap(
        [&] {
          GradientTape tape;
          tape.watch(w), tape.watch(b);
          const Tensor cost = mean(square(tanh(matmul(x, w) + b)));
          optimizer->apply_gradients(tape.gradient(cost, std::vector<Variable>{w, b}), std::vector<Variable>{w, b});
          return cost;
        },
        {.in_axes = {std::nullopt}})();
  });
  return program_of(step.concrete(patterned({rows, width}, 0.05f, 1)).graph());
}

// A stack of models: each block has some of them, and no block waits.
TEST(Section, RunsEnsemblesModelByModel) {
  auto program = ensemble(5, 6, 12, 8, std::make_shared<optim::SGD>(0.1));
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  Trial trial(program);
  EXPECT_NE(program->instructions[0].detail.find("replicas 5"), std::string::npos) << program->instructions[0].detail;
  expect_same(trial, {1, 3, 8});
}

// A loss's rows, several for each model, are on the blocks of their models, where the loss waits for no other block.
TEST(Section, RowsOfAnEnsembleRunWhereTheirModelDoes) {
  for (const int64_t models : {2, 3, 6})
    for (const int64_t rows : {2, 5, 16}) {
      SCOPED_TRACE(cat(models, " models, ", rows, " rows"));
      const Variable v = per_model(patterned({models, 7, 5}, 0.05f), "v"), b = per_model(patterned({models, 5}, 0.1f, 3), "b"),
                     w = per_model(patterned({models, 5, 4}, 0.05f, 5), "w"), c = per_model(patterned({models, 4}, 0.1f, 7), "c");
      optim::SGD descent(0.1);
      auto step = function([&](Tensor x, Tensor labels) {
        return vmap(
            [&] {
              GradientTape tape;
              const std::vector<Variable> all{v, b, w, c};
              for (const Variable& one : all) tape.watch(one);
              const Tensor cost = mean(sparse_cross_entropy(matmul(tanh(matmul(x, v) + b), w) + c, labels));
              descent.apply_gradients(tape.gradient(cost, all), all);
              return cost;
            },
            {.in_axes = {std::nullopt}})();
      });
      std::vector<int32_t> labels;
      for (int64_t i = 0; i < rows; ++i) labels.push_back(int32_t(i * i % 4));
      const auto program = program_of(step.concrete(patterned({rows, 7}, 0.1f, 1), tensor(labels, {rows})).graph());
      ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
      Trial trial(program);
      trial.start_with(exec::StorageKind::input, 1, labels.data());
      expect_same(trial, {1, 2, 3, int(models), 12});
      const auto plan = trial.plan(12);
      int losses = 0;
      for (const section::BlockStep& s : plan->plan.steps) {
        if (s.kind != section::StepKind::sparse_cross_entropy) continue;
        EXPECT_TRUE(s.first_block == 0 && s.blocks == models && s.waits == 0) << section::print(plan->plan);
        ++losses;
      }
      EXPECT_EQ(losses, 1) << section::print(plan->plan);
    }
}

// Tiles of 64 rows, of 32 and of fewer; batches that are in shared memory at once, and others.
TEST(Section, UpdatesTilesOfEverySize) {
  LAMINA_LARGE();
  for (auto [rows, width, results] : {std::array<int64_t, 3>{20, 64, 64}, {33, 100, 64}, {41, 68, 132}, {2, 64, 1}, {32, 36, 70}}) {
    SCOPED_TRACE(cat(rows, " rows, ", width, " x ", results));
    Trial descent(ensemble(2, rows, width, results, std::make_shared<optim::SGD>(0.1)));
    expect_close(descent, 2, 0);
    Trial adam(ensemble(2, rows, width, results, std::make_shared<optim::Adam>()));
    expect_close(adam, 2, 2e-6);
  }
}

// Blocks share the weights of wide layers by rows and columns, and the biases by columns: as many as there are.
TEST(Section, SharesUpdatesByRowsAndColumns) {
  for (const float momentum : {0.0f, 0.9f}) {
    const auto layers = std::make_shared<std::vector<Variable>>();
    layers->push_back(Variable(patterned({40, 150}, 0.01f), "kernel"));
    layers->push_back(Variable(patterned({150}, 0.02f), "bias"));
    layers->push_back(Variable(patterned({150, 70}, 0.01f, 3), "kernel"));
    const auto optimizer = std::make_shared<optim::SGD>(0.1, momentum);
    auto step = function([layers, optimizer](Tensor x, Tensor y) {
      GradientTape tape;
      const auto& v = *layers;
      const Tensor cost = mean(square(matmul(tanh(matmul(x, v[0]) + v[1]), v[2]) - y));
      optimizer->apply_gradients(tape.gradient(cost, v), v);
      return cost;
    });
    Trial trial(program_of(step.concrete(patterned({5, 40}, 0.05f), patterned({5, 70}, 0.05f)).graph()));
    std::set<std::pair<int, int>> shares;  // parts of rows, parts of columns
    for (const int blocks : {4, 5, 7, 12, 24}) {
      for (const section::BlockStep& s : trial.plan(blocks)->plan.steps)
        if (s.kind == section::StepKind::dense_update) shares.insert({section::parts_of(s), s.neighbours});
      expect_same_within(trial, blocks);
    }
    std::string text;
    for (const auto& [rows, columns] : shares) text += cat(rows, " x ", columns, ", ");
    EXPECT_EQ(text, "1 x 2, 1 x 3, 2 x 2, 2 x 3, 4 x 2, 5 x 2, ");
  }
}

// A user's traced function: Variables live on the GPU, a call is one launch, and training equals the CPU's.
TEST(Section, ATracedTrainingStepIsOneLaunch) {
  const tests::EmulatedGpu gpu;
  struct Run {
    std::vector<float> losses;
    std::vector<std::vector<float>> weights;
    int launches = 0;
  };
  auto train = [&](const char* device) {
    const DeviceScope scope(parse_device(device));
    const Tensor x = tensor(std::vector<float>(size_t(10 * 40), 0.5f), {10, 40}), y = tensor(std::vector<float>(60, 1.0f), {10, 6});
    const Layers layers = std::make_shared<std::vector<Variable>>();
    auto step = small_net(std::make_shared<optim::SGD>(0.1, 0.9), layers);
    Run run;
    run.losses.push_back(step(x, y).item<float>());  // traced and planned
    const int before = tests::EmulatedBackend::one().launches();
    for (int i = 0; i < 4; ++i) run.losses.push_back(step(x, y).item<float>());
    run.launches = tests::EmulatedBackend::one().launches() - before;
    for (const Variable& v : *layers) {
      EXPECT_EQ(v.device(), parse_device(device));
      run.weights.push_back(v.read().to_vector<float>());
    }
    return run;
  };
  const Run on_cpu = train("cpu:0"), on_gpu = train("gpu:0");
  EXPECT_EQ(on_cpu.launches, 0);
  EXPECT_EQ(on_gpu.launches, 4);
  EXPECT_LT(on_gpu.losses.back(), 0.9f * on_gpu.losses.front());
  for (size_t i = 0; i < on_cpu.losses.size(); ++i)
    EXPECT_NEAR(on_gpu.losses[i], on_cpu.losses[i], 1e-5f * on_cpu.losses[0]) << "step " << i;
  EXPECT_LE(difference(on_cpu.weights, on_gpu.weights), 1e-5);
}

// An invalid label: the call throws with it, and no weight has changed.
TEST(Section, ABadLabelLeavesTheWeightsUnchanged) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  std::vector<float> values(12 * 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.05f * float(int(i * 29 % 37) - 18);
  const Variable w(tensor(values, {12, 5}), "kernel");
  auto step = function([&](Tensor x, Tensor y) {
    GradientTape tape;
    const Tensor cost = mean(sparse_cross_entropy(matmul(x, w), y));
    w.assign_sub(tape.gradient(cost, w)[0] * 0.1f);
    return cost;
  });
  const Tensor x = tensor(std::vector<float>(size_t(3 * 12), 0.5f), {3, 12});
  step(x, tensor(std::vector<int64_t>{1, 2, 3}, {3}));
  const std::vector<float> before = w.read().to_vector<float>();
  std::string why;
  try {
    step(x, tensor(std::vector<int64_t>{1, 7, 3}, {3}));
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_NE(why.find("label 7 is out of range for 5 classes"), std::string::npos) << why;
  EXPECT_EQ(w.read().to_vector<float>(), before);
  step(x, tensor(std::vector<int64_t>{1, 2, 3}, {3}));  // still usable
  EXPECT_NE(w.read().to_vector<float>(), before);
}

// Whole programs on the emulated GPU: planned for it, uploaded, launched.
TEST(Section, RunsInProgramsOnAGpu) {
  const tests::EmulatedGpu gpu;
  const Tensor x = tensor(std::vector<float>(size_t(10 * 40), 0.5f), {10, 40}), y = tensor(std::vector<float>(60, 1.0f), {10, 6});
  auto step = small_net(std::make_shared<optim::SGD>(0.1));
  const ir::Graph g = passes::optimize(step.concrete(x, y).graph()).graph;
  const auto program =
      compile::compile(g, {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 0});
  ASSERT_EQ(program->instructions.size(), 1u) << exec::print(*program);
  EXPECT_NE(exec::print(*program).find("update weights"), std::string::npos) << exec::print(*program);
}

// A layer outside of sections, large enough for a library: both of its gradients are one launch.
TEST(Section, LeavesWideLayersToOtherKernels) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  const auto names = [](int64_t rows) {
    const Variable w(patterned({300, 280}, 0.01f), "kernel"), b(patterned({280}, 0.01f), "bias");
    auto step = function([&](Tensor x) {
      GradientTape tape;
      const Tensor cost = mean(square(matmul(x, w) + b));
      const std::vector<Tensor> gradients = tape.gradient(cost, std::vector<Variable>{w, b});
      w.assign_sub(gradients[0] * 0.1f), b.assign_sub(gradients[1] * 0.1f);
      return cost;
    });
    const auto program =
        compile::compile(passes::optimize(step.concrete(patterned({rows, 300}, 0.02f)).graph()).graph,
                         {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
    std::string out;
    for (const exec::Instruction& i : program->instructions) out += i.name + "; ";
    return out;
  };
  EXPECT_NE(names(50).find("dense_grad_weights"), std::string::npos) << names(50);
  EXPECT_EQ(names(20).find("dense_grad_weights"), std::string::npos) << names(20);
}

// Layers outside of sections: all updates are one section, whose steps have blocks of their own.
TEST(Section, UpdatesOfAllLayersAreOneSection) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  for (const bool adam : {false, true}) {
    SCOPED_TRACE(adam ? "Adam" : "SGD");
    const std::shared_ptr<optim::Optimizer> optimizer =
        adam ? std::shared_ptr<optim::Optimizer>(std::make_shared<optim::Adam>(0.01)) : std::make_shared<optim::SGD>(0.1);
    std::vector<Variable> variables;
    for (int i = 0; i < 4; ++i)
      variables.emplace_back(patterned({64, 64}, 0.01f), "kernel"), variables.emplace_back(patterned({64}, 0.01f), "bias");
    auto step = function([&](Tensor x) {
      GradientTape tape;
      for (size_t i = 0; i < variables.size(); i += 2) x = relu(matmul(x, variables[i]) + variables[i + 1]);
      const Tensor cost = mean(square(x));
      optimizer->apply_gradients(tape.gradient(cost, variables), variables);
      return cost;
    });
    const auto program =
        compile::compile(passes::optimize(step.concrete(patterned({2048, 64}, 0.02f)).graph()).graph,
                         {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
    std::string names;
    for (const exec::Instruction& i : program->instructions) names += i.name + "; ";
    const exec::Instruction& last = program->instructions.back();
    EXPECT_EQ(last.section_steps, 8) << names;
    EXPECT_EQ(std::ranges::count_if(program->instructions, [](const exec::Instruction& i) { return i.section_steps > 0; }), 1) << names;
    EXPECT_NE(last.detail.find("8 update weights"), std::string::npos) << last.detail;
    // The gradients of the weights run beside those of the layers' inputs.
    EXPECT_GT(program->streams.size(), 1u);
  }
}

// Also where the loss's mean, or a layer that is small enough, is in that section: no block has many updates, and none waits for one.
TEST(Section, UpdatesBesideOtherStepsHaveBlocksOfTheirOwn) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  optim::SGD optimizer(0.1);
  std::vector<Variable> variables;
  constexpr int layers = 20;
  for (int i = 0; i <= layers; ++i) {
    const int64_t width = i < layers ? 64 : 10;
    variables.emplace_back(patterned({64, width}, 0.01f), "kernel"), variables.emplace_back(patterned({width}, 0.01f), "bias");
  }
  auto step = function([&](Tensor x) {
    GradientTape tape;
    for (size_t i = 0; i < variables.size(); i += 2) x = relu(matmul(x, variables[i]) + variables[i + 1]);
    const Tensor cost = mean(square(x));
    optimizer.apply_gradients(tape.gradient(cost, variables), variables);
    return cost;
  });
  const auto program =
      compile::compile(passes::optimize(step.concrete(patterned({2048, 64}, 0.02f)).graph()).graph,
                       {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
  int updates = 0;
  for (const exec::Instruction& i : program->instructions) {
    if (i.section_steps == 0) continue;
    const auto& plan = static_cast<const section::BlockSection*>(i.kernel.args.get())->plan;
    std::map<int, int> of_block;
    for (const section::BlockStep& s : plan.steps)
      if (s.kind == section::StepKind::elementwise && s.partition == section::Partition::tiles) {
        ++updates, ++of_block[s.first_block];
        EXPECT_LT(s.signal, 0) << i.detail;
      }
    for (const auto& [block, steps] : of_block) EXPECT_LE(steps, 1) << "block " << block << '\n' << i.detail;
  }
  EXPECT_EQ(updates, 2 * layers);  // the last layer's are a dense_update
}

// Sums over many rows, and large elementwise work, are launches of their own: a section would give them few threads.
TEST(Section, LargeSumsAndElementwiseWorkUseTheWholeCard) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  const auto names = [](int64_t images) {
    const Variable w(patterned({3, 3, 3, 16}, 0.01f), "kernel"), b(patterned({16}, 0.01f), "bias");
    auto step = function([&](Tensor x) {
      GradientTape tape;
      const Tensor y = relu(lamina::conv2d(x, w) + b), cost = mean(square(y));
      const std::vector<Tensor> gradients = tape.gradient(cost, std::vector<Variable>{w, b});
      w.assign_sub(gradients[0] * 0.1f), b.assign_sub(gradients[1] * 0.1f);
      return cost;
    });
    const auto program =
        compile::compile(passes::optimize(step.concrete(patterned({images, 18, 18, 3}, 0.02f)).graph()).graph,
                         {.device = parse_device("gpu:0"), .input_devices = {}, .variable_devices = {}, .sections = true, .threads = 1});
    std::string out;
    for (const exec::Instruction& i : program->instructions) out += i.name + "; ";
    return out;
  };
  EXPECT_EQ(names(1), "conv2d; section of 2 steps; conv2d_grad_filter; section of 3 steps; ");
  for (const int64_t images : {20, 128})  // 5,120 and 32,768 rows of 16 channels; two updates
    EXPECT_EQ(names(images), "conv2d; fused_elementwise; mean; sum; conv2d_grad_filter; section of 2 steps; ");
}

}  // namespace
}  // namespace lamina::kernels::cuda
