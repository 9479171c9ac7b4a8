#include "runtime/core/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"

namespace lamina {
namespace {

std::atomic<int> asked{0};
struct Interrupted {};

struct Check {
  explicit Check(void (*check)()) { asked = 0, set_interrupt_check(check); }
  ~Check() { set_interrupt_check(nullptr); }
};

TEST(Interrupt, ShortLoopsDoNotCheck) {
  const Check check([] { ++asked; });
  InterruptPoll poll;
  for (int i = 0; i < 1000; ++i) poll();
  EXPECT_EQ(asked, 0);
}

TEST(Interrupt, IsCheckedForShortAndLongIterations) {
  const Check check([] { ++asked; });
  InterruptPoll tight;
  while (asked < 3) tight();
  asked = 0;
  InterruptPoll slow;
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    slow();
  }
  EXPECT_GE(asked, 3);
}

TEST(Interrupt, EndsALoopOfAGraphAndLeavesTheFunctionUsable) {
  auto count = function([](Tensor until) {
    return while_loop([&](Tensor n) { return n < until; }, [](Tensor n) { return n + 1.0; }, zeros({}, DType::f64));
  });
  {
    const Check check([] { throw Interrupted(); });
    EXPECT_THROW(count(tensor(std::vector<double>{1e18}, {})), Interrupted);
  }
  EXPECT_EQ(count(tensor(std::vector<double>{100.0}, {})).item<double>(), 100.0);
}

}  // namespace
}  // namespace lamina
