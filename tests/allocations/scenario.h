// A scenario: something that a user does, done again and again with another allocation failing each time.
#pragma once
#include <functional>
#include <string>

#include "tests/allocations/failing.h"

namespace lamina::tests {

struct Work {
  std::function<void()> attempt;  // what runs while allocations fail
  std::function<std::string()>
      afterwards;  // with memory again: "", or what is wrong with what attempt() left behind. Uses the same objects again
};

struct Scenario {
  std::function<Work()> make;  // the objects that it is done with; every allocation works
  Threads threads = Threads::this_one;
  bool on_a_new_thread = false;  // attempt() runs on a thread that has done nothing yet
  bool forget_eager_ops = true;  // what eager ops were planned for is planned again in each attempt
};

// Runs attempt() with its first allocation failing, then the second, until nothing fails any more: first one alone, then all from there on.
// It must end as if nothing had failed, or with out of memory: std::bad_alloc or an Error of that kind. Nothing may be left allocated, and
// afterwards() is "". About 60 of the allocations are made to fail in each of the two ways, with LAMINA_TEST_LONG=1 all of them.
void survives_failing_allocations(const Scenario& scenario);

}  // namespace lamina::tests
