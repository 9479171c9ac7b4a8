// How often a call allocates, where that tells what it does.
#include <gtest/gtest.h>

#include <thread>

#include "include/lamina/lamina.h"
#include "kernels/section/table.h"
#include "runtime/core/config.h"
#include "tests/allocations/failing.h"

namespace lamina::tests {
namespace {

// The interpreter of an elementwise step with more than six operands allocates each time it starts.
TEST(Allocations, AnElementwiseStepStartsOnceForAllRowsOfAMatrix) {
  const auto asked = [](int64_t rows) {
    const Tensor x = full({rows, 3}, 0.25), row = full({3}, 0.5), column = full({rows, 1}, 2);
    std::vector<Tensor> more;
    for (int i = 0; i < 7; ++i) more.push_back(x + float(i));
    auto f = function([](const std::vector<Tensor>& in, Tensor b, Tensor c) {
      Tensor y = in[0];
      for (size_t i = 1; i < in.size(); ++i) y = y + in[i];
      return max(tanh(y + b) * c, Axes{0});
    });
    f(more, row, column), f(more, row, column);
    const FailingAllocations counted(0, Failing::once);
    f(more, row, column);
    return counted.asked();
  };
  EXPECT_LE(asked(500), asked(5) + 20);
}

// A new thread asks for its scratch.
TEST(Allocations, AProductOfFewColumnsDoesNotCopyTheRowsOfItsLeftOperand) {
  const int threads = config::threads();
  config::set_threads(1);
  const auto asked = [](int64_t n) {
    int64_t count = 0;
    std::thread([&] {
      constexpr int64_t m = 1500, k = 100;
      const std::vector<float> a(size_t(m * k), 1.0f), b(size_t(k * n), 2.0f);
      std::vector<float> c(size_t(m * n));
      const FailingAllocations counted(0, Failing::once);
      kernels::cpu::matmul(m, n, k, a.data(), k, false, b.data(), n, false, c.data(), n, Device());
      count = counted.asked();
      EXPECT_EQ(c.back(), 200.0f);
    }).join();
    return count;
  };
  asked(4);                // the first product of a process asks for more
  EXPECT_EQ(asked(4), 2);  // of a new thread: its table of memories, and one for the right operand
  config::set_threads(threads);
}

}  // namespace
}  // namespace lamina::tests
