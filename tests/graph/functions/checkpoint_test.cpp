// lm::checkpoint and FunctionOptions::memory_budget: less temporary memory, the same bits.
#include <gtest/gtest.h>

#include "graph/frontend/tape.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/random.h"
#include "graph/functions/shape_functions.h"

namespace lamina {
namespace {

using Floats = std::vector<float>;

constexpr int kBlocks = 6, kLayers = 4, kWidth = 32, kRows = 64;

std::vector<Variable> weights() {
  std::vector<Variable> out;
  random::set_seed(3);
  for (int i = 0; i < kBlocks * kLayers; ++i) out.emplace_back(random::normal({kWidth, kWidth}, DType::f32, 0, 0.25), "w");
  return out;
}
Tensor batch_of_rows() { return reshape(linspace(-1, 1, kRows * kWidth), {kRows, kWidth}); }

// Layers in blocks; each block optionally a checkpoint.
Tensor deep(Tensor x, const std::vector<Variable>& w, bool checkpoints) {
  for (int block = 0; block < kBlocks; ++block) {
    auto layers = [&w, block](Tensor h) {
      for (int i = 0; i < kLayers; ++i) h = tanh(matmul(h, w[size_t(block * kLayers + i)]));
      return h;
    };
    x = checkpoints ? checkpoint(layers)(x) : layers(x);
  }
  return x;
}

struct Trained {
  std::vector<Floats> numbers;  // the loss, then each gradient
  int64_t bytes = 0;
};
Trained gradients(bool checkpoints, int64_t budget = 0) {
  const std::vector<Variable> w = weights();
  FunctionOptions options;
  options.memory_budget = budget;
  auto f = function(
      [&](Tensor x) {
        GradientTape tape;
        const Tensor loss = mean(square(deep(x, w, checkpoints)));
        std::vector<Tensor> out = tape.gradient(loss, w);
        out.insert(out.begin(), loss);
        return out;
      },
      options);
  const Tensor x = batch_of_rows();
  Trained out;
  for (const Tensor& t : f(x)) out.numbers.push_back(t.to_vector<float>());
  out.bytes = f.concrete(x).temporary_bytes();
  return out;
}

TEST(Checkpoint, TakesLessMemoryForTheSameBits) {
  const Trained plain = gradients(false), saved = gradients(true);
  EXPECT_EQ(plain.numbers, saved.numbers);
  const int64_t activation = kRows * kWidth * 4;
  EXPECT_GE(plain.bytes, (kBlocks * kLayers - 2) * activation);
  EXPECT_LE(saved.bytes, (kBlocks + kLayers + 4) * activation);
}

TEST(MemoryBudget, IsKeptByRecomputationWithTheSameBits) {
  const Trained plain = gradients(false);
  for (const int64_t parts : {2, 3}) {
    const Trained less = gradients(false, plain.bytes * 2 / (parts + 1));
    EXPECT_EQ(plain.numbers, less.numbers);
    EXPECT_LE(less.bytes, plain.bytes * 2 / (parts + 1));
  }
}

TEST(MemoryBudget, TooSmallUsesTheSmallestPlan) {
  const Trained plain = gradients(false), least = gradients(false, 1);
  EXPECT_EQ(plain.numbers, least.numbers);
  EXPECT_LT(least.bytes, plain.bytes / 2);
}

TEST(MemoryBudget, LargeEnoughChangesNothing) {
  const Trained plain = gradients(false);
  EXPECT_EQ(gradients(false, plain.bytes).bytes, plain.bytes);
}

TEST(Checkpoint, KeepsStateAndDrawsInProgramOrder) {
  Variable count(Operand(0.0f), "count");
  auto body = [&](Tensor x) {
    count.assign(count.read() + 1);
    return std::pair(x * count.read(), random::uniform({3}));
  };
  auto run = [&](bool checkpointed) {
    random::set_seed(7);
    count.assign(0.0f);
    auto f = function([&](Tensor x) {
      const auto [y, u] = checkpointed ? checkpoint(body)(x) : body(x);
      return std::vector<Tensor>{y + u, random::uniform({3}), count.read()};
    });
    std::vector<Floats> out;
    for (int i = 0; i < 2; ++i)
      for (const Tensor& t : f(ones({3}))) out.push_back(t.to_vector<float>());
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, RecomputationDrawsTheSameNumbers) {
  auto gradient = [](bool checkpointed) {
    random::set_seed(11);
    auto noisy = [](Tensor x) { return tanh(x * random::uniform({8})); };
    auto f = function([=](Tensor x) {
      GradientTape tape;
      tape.watch(x);
      return tape.gradient(sum(checkpointed ? checkpoint(noisy)(x) : noisy(x)), x)[0];
    });
    return f(full({8}, 0.5)).to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Checkpoint, HasSecondGradientsInsideLoopsAndUnderVmap) {
  auto second = [](bool checkpointed, bool mapped) {
    auto f = [=](Tensor x) {
      auto inner = [](Tensor h) { return sin(h) * h; };
      auto step = [=](Tensor, Tensor h) { return checkpointed ? checkpoint(inner)(h) : inner(h); };
      return sum(fori_loop(0, 12, step, x));
    };
    auto twice = [=](Tensor x) { return grad([=](Tensor y) { return sum(grad(f)(y)); })(x); };
    const Tensor x = tensor({0.1, 0.4, 0.7, 1.1}, {4});
    if (mapped) return function([=](Tensor all) { return vmap(twice)(all); })(reshape(x, {2, 2})).to_vector<float>();
    return function(twice)(x).to_vector<float>();
  };
  for (bool mapped : {false, true}) {
    const Floats plain = second(false, mapped), saved = second(true, mapped);
    ASSERT_EQ(plain.size(), saved.size());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], saved[i], 1e-4 * (1 + std::abs(plain[i])));
  }
}

TEST(Checkpoint, JustRunsEagerly) {
  GradientTape tape;
  const Tensor x = full({2}, 3);
  tape.watch(x);
  const Tensor y = checkpoint([](Tensor a) { return square(a); })(x);
  EXPECT_EQ(tape.gradient(y, x)[0].to_vector<float>(), (Floats{6, 6}));
}

}  // namespace
}  // namespace lamina
