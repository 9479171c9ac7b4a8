// A scenario: a user's action, repeated with another allocation failing each time.
#pragma once
#include <functional>
#include <string>

#include "tests/allocations/failing.h"

namespace lamina::tests {

struct Work {
  std::function<void()> attempt;            // runs while allocations fail
  std::function<std::string()> afterwards;  // with memory again and the same objects: "", or what attempt() left broken
};

struct Scenario {
  std::function<Work()> make;  // makes the objects; no allocation fails
  Threads threads = Threads::this_one;
  bool on_a_new_thread = false;  // attempt() runs on a new thread
  bool forget_eager_ops = true;  // attempts plan eager ops anew
};

// Runs attempt() with its first allocation failing, then the second, until nothing fails any more: once with that allocation alone, once
// with all from there on. It must either succeed or end with out of memory: std::bad_alloc or an Error of that kind. Nothing may leak, and
// afterwards() must be "". About 60 allocations per way are made to fail; with LAMINA_TEST_LONG=1 all.
void survives_failing_allocations(const Scenario& scenario);

}  // namespace lamina::tests
