#include "tests/allocations/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>

#include "graph/frontend/eager.h"
#include "graph/frontend/factories.h"
#include "graph/ops/ops.h"
#include "runtime/core/error.h"
#include "tests/allocations/failing_backend.h"

namespace lamina::tests {
namespace {

constexpr int64_t kQuick = 60;  // attempts per way of failing

// Drops caches: plans of eager ops, which the next op on this thread releases.
void forget_eager_ops() {
  clear_eager_cache();
  apply_one(ops::def::neg, nullptr, std::array{scalar(1)});
}

struct Outcome {
  std::string wrong;  // "" for an allowed error
  bool threw = false, failed = false;
  int64_t asked = 0;
};

Outcome attempt(const Scenario& s, const Work& work, int64_t index, Failing manner) {
  Outcome out;
  if (s.forget_eager_ops) forget_eager_ops();
  auto run = [&] {
    FailingAllocations failing(index, manner, s.threads);
    std::string unexpected;
    std::optional<Error> error;
    try {
      work.attempt();
    } catch (const std::bad_alloc&) {
      out.threw = true;
    } catch (const Error& e) {
      failing.stop();
      out.threw = true;
      if (e.kind != ErrorKind::out_of_memory) error.emplace(e);
    } catch (const std::exception& e) {
      failing.stop();
      out.threw = true;
      unexpected = std::string("threw ") + e.what();
    }
    failing.stop();
    out.failed = failing.failed(), out.asked = failing.asked();
    if (error) out.wrong = std::string("threw an Error of kind ") + name(error->kind) + ": " + error->what();
    if (!unexpected.empty()) out.wrong = unexpected;
    if (out.threw && !out.failed) out.wrong = "threw although nothing failed: " + out.wrong;
  };
  if (s.on_a_new_thread)
    std::thread(run).join();
  else
    run();
  return out;
}

}  // namespace

void survives_failing_allocations(const Scenario& s) {
  FailingBackend::install();
  const bool all = std::getenv("LAMINA_TEST_LONG") != nullptr;
  // Twice with memory, so that state kept per process or thread is already there.
  int64_t asked = 0;
  for (int i = 0; i < 2; ++i) {
    const Work work = s.make();
    const Outcome outcome = attempt(s, work, 0, Failing::once);
    asked = outcome.asked;
    ASSERT_EQ(outcome.wrong, "");
    ASSERT_EQ(work.afterwards(), "") << "without any failure";
  }
  ASSERT_GT(asked, 0) << "the attempt allocates nothing";
  const int64_t step = all ? 1 : std::max<int64_t>(1, asked / kQuick);
  int64_t attempts = 0, threw = 0;
  for (const Failing manner : {Failing::once, Failing::from_then_on}) {
    for (int64_t index = 1;; index += step) {
      SCOPED_TRACE(cat("allocation ", index, " of about ", asked, manner == Failing::once ? " fails" : " and all later ones fail"));
      Outcome outcome;
      auto once = [&] {  // number of live blocks and tensor bytes
        if (s.forget_eager_ops) forget_eager_ops();
        const int64_t blocks = blocks_alive(), bytes = int64_t(FailingBackend::bytes_in_use());
        {
          const Work work = s.make();
          outcome = attempt(s, work, index, manner);
          EXPECT_EQ(outcome.wrong, "");
          std::string wrong;
          try {
            wrong = work.afterwards();
          } catch (const std::exception& e) {
            wrong = e.what();
          }
          EXPECT_EQ(wrong, "");
        }
        if (s.forget_eager_ops) forget_eager_ops();
        return std::pair(blocks_alive() - blocks, int64_t(FailingBackend::bytes_in_use()) - bytes);
      };
      // State kept by the first error at a line, such as the line's text, is no leak; growth with each error is.
      std::pair<int64_t, int64_t> left = once();
      if (left != std::pair<int64_t, int64_t>() && !testing::Test::HasFailure()) left = once();
      EXPECT_EQ(left.first, 0) << "blocks leaked";
      EXPECT_EQ(left.second, 0) << "bytes of tensors leaked";
      if (testing::Test::HasFailure()) return;
      if (!outcome.failed) break;
      ++attempts, threw += outcome.threw;
    }
  }
  std::printf("%lld allocations, %lld made to fail, %lld errors\n", static_cast<long long>(asked), static_cast<long long>(attempts),
              static_cast<long long>(threw));
}

Scenario repeating(const std::function<std::function<Floats()>()>& make) {
  return {.make = [make] {
    struct State {
      std::function<Floats()> run;
      Floats want;
      std::optional<Floats> got;
    };
    auto state = std::make_shared<State>();
    state->want = make()();
    state->run = make();
    return Work{[state] { state->got = state->run(); },
                [state]() -> std::string {
                  if (state->got && *state->got != state->want) return "it gave other numbers";
                  for (int i = 0; i < 2; ++i)
                    if (state->run() != state->want) return cat("afterwards call ", i, " gives other numbers");
                  return "";
                }};
  }};
}

std::vector<Floats> values_of(const std::vector<Variable>& variables) {
  std::vector<Floats> out;
  for (const Variable& v : variables) out.push_back(v.read().to_vector<float>());
  return out;
}
Scenario stepping(const std::function<Stepping()>& make) {
  return {.make = [make] {
    auto s = std::make_shared<Stepping>(make());
    auto finished = std::make_shared<bool>(false);
    const std::vector<Floats> before = values_of(s->variables), after = s->rule(before);
    return Work{[s, finished] { s->step(), *finished = true; },
                [s, finished, before, after]() -> std::string {
                  const std::vector<Floats> now = values_of(s->variables);
                  if (*finished && now != after) return "it finished without its effect";
                  if (s->whole && now != before && now != after) return "it left half of its effect";
                  for (size_t i = 0; i < now.size(); ++i)
                    if (now[i] != before[i] && now[i] != after[i]) return cat("it left something else in Variable ", i);
                  s->step();
                  return values_of(s->variables) == s->rule(now) ? "" : "afterwards a step does something else";
                }};
  }};
}

}  // namespace lamina::tests
