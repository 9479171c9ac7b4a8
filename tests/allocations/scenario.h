// A scenario: a user's action, repeated with another allocation failing each time.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/frontend/variable.h"
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

using Floats = std::vector<float>;

// run() may be repeated, and always returns the result for fresh objects.
Scenario repeating(const std::function<std::function<Floats()>()>& make);

// step() changes Variables. If it fails, each is left unchanged or fully updated (`whole`: all of them the same way), and later steps
// continue from there.
struct Stepping {
  std::function<void()> step;
  std::vector<Variable> variables;
  std::function<std::vector<Floats>(std::vector<Floats>)> rule;  // the values after a step
  bool whole = true;
};
std::vector<Floats> values_of(const std::vector<Variable>& variables);
Scenario stepping(const std::function<Stepping()>& make);

}  // namespace lamina::tests
