// Static objects, atexit handlers and threads of a program may use Lamina until the process is gone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "graph/frontend/tape.h"
#include "graph/frontend/typed_function.h"
#include "graph/frontend/vmap.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/dense.h"
#include "graph/nn/loss.h"
#include "runtime/core/per_thread.h"

namespace lamina {
namespace {

// Ops, layers, gradients, loops and saved state, from which static objects of the library were once made.
double some_of_everything() {
  nn::Dense layer(3, "relu");
  const NameScope scope("a name that does not fit into a short string");
  const Tensor x = ones({2, 4});
  auto f = function([&](Tensor a) {
    GradientTape tape;
    const Tensor cost = losses::Loss("mse")(zeros({2, 3}), layer(a));
    return tape.gradient(cost, layer.trainable_variables())[0];
  });
  const Tensor gradient = f(x);
  const Tensor sums = vmap([](Tensor row) { return sum(row); })(matmul(x, ones({4, 5})));
  return sum(gradient).item<double>() + sum(sums).item<double>() + sum(x + 1).item<double>();
}

TEST(ProcessEndDeathTest, LaminaWorksWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // What is used after the handler was registered would end before it.
  EXPECT_EXIT(
      {
        std::atexit([] {
          const double first = some_of_everything();
          _exit(first == first && some_of_everything() != 0 ? 7 : 1);
        });
        some_of_everything();
        std::exit(0);
      },
      testing::ExitedWithCode(7), "");
}

// A thread's own object is made anew after its end, and ends with its thread.
TEST(PerThread, ObjectsMayBeUsedAfterTheirEnd) {
  static std::atomic<int> made, ended;
  struct Counted {
    Counted() { ++made; }
    ~Counted() { ++ended; }
    int uses = 0;
  };
  std::thread([] {
    struct Last {
      ~Last() { later = ++PerThread<Counted>::get().uses; }
      int& later;
    };
    static int uses = 0;
    thread_local Last last{uses};  // made before the object: it ends after it
    last.later = 5;
    PerThread<Counted>::get().uses = 7;
    EXPECT_EQ(PerThread<Counted>::get().uses, 7);
  }).join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace lamina
