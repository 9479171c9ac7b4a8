// Many threads over Functions, Variables and the eager cache. Run under the thread sanitizer as well.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

template <class F>
void in_threads(int count, F f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
  for (auto& t : threads) t.join();
}

TEST(Concurrency, EightThreadsCallOneFunctionWhileOthersTrace) {
  std::atomic<int> runs{0}, wrong{0};
  auto f = function([&](Tensor x) {
    ++runs;
    return sum(x * x + 1);
  });
  in_threads(8, [&](int t) {
    for (int i = 0; i < 60; ++i) {
      const int64_t n = t < 4 ? 3 : 1 + (i + t) % 10;  // half of the threads keep using new lengths
      wrong += f(full({n}, 2)).item<float>() != float(5 * n);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(runs, f.trace_count()) << "one trace per signature";
  EXPECT_EQ(f.trace_count(), 10);
}

// Functions come and go: each thread calls the shared one, traces it for new lengths, and sometimes replaces it, so that one thread drops
// what others are calling. The Variable outlives them all.
TEST(Concurrency, SixteenThreadsCallTraceAndDropFunctions) {
  Variable scale(scalar(3));
  auto make = [&] {
    return function([scale](Tensor x, int times) {
      Tensor total = x * 0.f;
      for (int i = 0; i < times; ++i) total = total + x * scale;
      return cond(sum(x) > 0.f, [&] { return total; }, [&] { return total * 2; });
    });
  };
  using Shared = decltype(make());
  std::mutex mutex;
  auto shared = std::make_shared<Shared>(make());
  std::atomic<int> wrong{0};
  in_threads(16, [&](int t) {
    for (int i = 0; i < 40; ++i) {
      const std::shared_ptr<Shared> mine = [&] {
        std::lock_guard lock(mutex);
        if (i % 10 == t % 10) shared = std::make_shared<Shared>(make());
        return shared;
      }();
      const int64_t n = 1 + (i + t) % 4;
      const int times = 1 + i % 2;
      wrong += (*mine)(full({n}, 2), times).to_vector<float>() != std::vector<float>(size_t(n), float(6 * times));
      wrong += (*mine)(full({n}, -2), times).to_vector<float>() != std::vector<float>(size_t(n), float(-12 * times));
    }
  });
  EXPECT_EQ(wrong, 0);
}

// 64 threads call one shared function and one of 16 others, tracing their graphs for new lengths; with LAMINA_TEST_LONG=1 a hundred
// thousand times each. Four more threads create, trace and drop functions meanwhile. Every bit of every result equals the first call's.
TEST(Concurrency, SixtyFourThreadsGetTheSameBits) {
  const int calls = std::getenv("LAMINA_TEST_LONG") ? 100'000 : 200;
  const Variable w(full({8, 8}, 0.3f));
  auto shared = function([w](Tensor x) { return softmax(matmul(x, w), -1); });
  auto make = [&] { return function([w](Tensor x) { return tanh(x * 0.5) + sum(w); }); };
  std::vector<decltype(make())> others;
  for (int i = 0; i < 16; ++i) others.push_back(make());
  const Tensor x = full({4, 8}, 0.7f);
  const std::vector<float> want = shared(x).to_vector<float>();
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> wanted;
  for (int64_t n = 1; n <= 5; ++n)
    inputs.push_back(full({n}, 0.1f * float(n))), wanted.push_back((tanh(inputs.back() * 0.5) + sum(w)).to_vector<float>());
  std::atomic<int64_t> wrong{0}, dropped{0};
  std::atomic<int> callers{64};
  in_threads(68, [&](int t) {
    for (int i = 0; t >= 64 && (i < 5 || callers > 0); ++i) {
      auto f = make();
      const size_t n = size_t(i) % inputs.size();
      wrong += f(inputs[n]).to_vector<float>() != wanted[n] || f(inputs[0]).to_vector<float>() != wanted[0];
      ++dropped;
    }
    for (int i = 0; t < 64 && i < calls; ++i) {
      wrong += shared(x).to_vector<float>() != want;
      const size_t n = size_t(i + t) % inputs.size();
      wrong += others[size_t(t % 16)](inputs[n]).to_vector<float>() != wanted[n];
    }
    if (t < 64) --callers;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(dropped, 20);
  for (auto& f : others) EXPECT_EQ(f.trace_count(), 5);
}

TEST(Concurrency, TheFirstCallTracesOnce) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> runs{0}, ready{0};
    auto f = function([&](Tensor x) {
      ++runs;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return x + 1;
    });
    in_threads(4, [&](int) {
      ++ready;
      while (ready < 4) std::this_thread::yield();
      EXPECT_EQ(f(scalar(1)).item<float>(), 2);
    });
    EXPECT_EQ(runs, 1);
  }
}

TEST(Concurrency, FunctionsThatTraceEachOtherDoNotDeadlock) {
  for (int round = 0; round < 10; ++round) {
    std::function<Tensor(Tensor, int)> call_f, call_g;
    auto f = function([&](Tensor x, int depth) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return depth ? call_g(x + 1, depth - 1) : x;
    });
    auto g = function([&](Tensor x, int depth) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return depth ? call_f(x + 1, depth - 1) : x;
    });
    call_f = [&](Tensor x, int n) { return f(x, n); };
    call_g = [&](Tensor x, int n) { return g(x, n); };
    in_threads(2, [&](int t) { EXPECT_EQ((t ? f(scalar(0), 3) : g(scalar(0), 3)).item<float>(), 3); });
  }
}

TEST(Concurrency, WritersOfOneVariableTakeTurns) {
  Variable v(zeros({16}));
  auto step = function([&](Tensor x) {
    v.assign_add(x);
    v.assign_sub(x);
    v.assign_add(x);
  });
  std::atomic<int> torn{0};
  in_threads(8, [&](int t) {
    for (int i = 0; i < 50; ++i) {
      if (t < 4) {
        step(ones({16}));
      } else {
        const auto seen = v.read().to_vector<float>();
        for (float x : seen) torn += x != seen[0];
      }
    }
  });
  EXPECT_EQ(torn, 0) << "readers see whole values";
  EXPECT_EQ(v.read().to_vector<float>(), std::vector<float>(16, 200));
}

TEST(Concurrency, TwoFunctionsThatReadEachOthersVariableDoNotDeadlock) {
  Variable a(scalar(0)), b(scalar(0));
  auto first = function([&] { a.assign(b + 1); });
  auto second = function([&] { b.assign(a + 1); });
  in_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) t % 2 ? first() : second();
  });
  EXPECT_GT(a.read().item<float>(), 0);
}

TEST(Concurrency, EagerOpsAndTapesBelongToTheirThread) {
  std::atomic<int> wrong{0};
  in_threads(8, [&](int t) {
    for (int i = 0; i < 30; ++i) {
      Variable w(scalar(t));
      GradientTape tape;
      Tensor y = w * w * double(i);
      wrong += tape.gradient(y, w)[0].item<float>() != float(2 * t * i);
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lamina
