#include "graph/functions/random.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

TEST(Random, TheSeedDecidesTheNumbers) {
  random::set_seed(7);
  const auto a = uniform({4}).to_vector<float>(), b = uniform({4}).to_vector<float>();
  random::set_seed(7);
  EXPECT_EQ(uniform({4}).to_vector<float>(), a);
  EXPECT_NE(a, b);
  random::set_seed(8);
  EXPECT_NE(uniform({4}).to_vector<float>(), a);
}

TEST(Random, EagerAndTracedGiveTheSameNumbersInProgramOrder) {
  auto body = [](Tensor x) { return std::vector<Tensor>{uniform({3}), random::normal({2}), dropout(x, 0.5)}; };
  const Tensor x = ones({64});
  auto run = [&](auto f) {
    random::set_seed(11);
    std::vector<float> all;
    for (int call = 0; call < 3; ++call)
      for (const Tensor& t : f(x)) {
        auto values = t.template to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
    return all;
  };
  EXPECT_EQ(run(body), run(function(body)));
}

TEST(Random, ATracedDrawChangesFromCallToCall) {
  auto draw = function([] { return uniform({}); });
  std::set<float> seen;
  for (int i = 0; i < 10; ++i) seen.insert(draw().item<float>());
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(draw.trace_count(), 1);
}

TEST(Random, ThreadsNeverShareADraw) {
  random::set_seed(0);
  std::vector<float> seen(400);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) seen[size_t(t * 100 + i)] = uniform({}, dtype::f32).item<float>();
    });
  for (auto& t : threads) t.join();
  EXPECT_GE(std::set<float>(seen.begin(), seen.end()).size(), 399u) << "24 bits: one collision is possible";
}

TEST(Random, UniformLiesBetweenItsBounds) {
  const auto x = uniform({10000}, dtype::f64, -2, 3).to_vector<double>();
  double low = 9, high = -9, total = 0;
  for (double v : x) low = std::min(low, v), high = std::max(high, v), total += v;
  EXPECT_GE(low, -2);
  EXPECT_LT(high, 3);
  EXPECT_NEAR(total / 10000, 0.5, 0.06);
  EXPECT_LT(low, -1.99);
  EXPECT_GT(high, 2.99);
}

TEST(Random, HostSeedsFollowTheSeedAndTheirNumber) {
  random::set_seed(5);
  const uint64_t a = random::next_host_seed(), b = random::next_host_seed();
  uniform({3});
  random::set_seed(5);
  uniform({3});
  EXPECT_EQ(random::next_host_seed(), a);
  EXPECT_EQ(random::next_host_seed(), b);
  EXPECT_NE(a, b);
}

TEST(Random, InASeedScopeDrawsFollowItsSeedAlone) {
  const auto draw = function([] { return uniform({3}); });
  const auto run = [&](uint64_t seed) {
    const random::SeedScope scope(seed);
    std::vector<float> all;
    for (const Tensor& t : {uniform({3}), draw(), uniform({2}), draw()})
      for (const float x : t.to_vector<float>()) all.push_back(x);
    all.push_back(float(random::next_host_seed() >> 40));
    return all;
  };
  random::set_seed(3);
  const random::State before = random::state();
  const auto first = run(1);  // traces `draw`
  EXPECT_EQ(random::state(), before);
  std::vector<float> in_thread;
  std::thread([&] { in_thread = run(1); }).join();
  uniform({5});
  EXPECT_EQ(run(1), first);
  EXPECT_EQ(in_thread, first);
  EXPECT_NE(run(2), first);
  {
    const random::SeedScope outer(1);
    const auto a = draw().to_vector<float>();
    run(2);
    const auto b = uniform({3}).to_vector<float>();
    EXPECT_EQ(std::vector<float>(first.begin(), first.begin() + 3), a);
    EXPECT_EQ(std::vector<float>(first.begin() + 3, first.begin() + 6), b) << "an inner scope takes no draws of the outer one";
  }
  random::set_seed(3);
  const auto outside = draw().to_vector<float>();
  random::set_seed(3);
  EXPECT_EQ(uniform({3}).to_vector<float>(), outside) << "what was traced in a scope draws from the generator outside of it";
}

}  // namespace
}  // namespace lamina
