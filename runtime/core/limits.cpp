#include "runtime/core/limits.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <utility>

#include "runtime/core/error.h"

namespace lamina {

struct LimitState {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<LimitState> outer;
  double seconds;  // as given
  Clock::time_point end;
  int64_t most;  // bytes; -1: any
  std::atomic<int64_t> used{0};
};

namespace {
thread_local std::shared_ptr<LimitState> current;
thread_local constinit LimitState* innermost = nullptr;  // the same, at the cost of one read

void set(std::shared_ptr<LimitState> limits) {
  innermost = limits.get();
  current = std::move(limits);
}
}  // namespace

Limits::Limits(Amounts most) : before_(current) {
  if (!(most.seconds >= 0) || most.bytes < -1)
    throw Error(ErrorKind::invalid_argument,
                {.what = "a limit is negative or no number", .where = "", .why = "", .fix = "leave out what has no limit"});
  auto state = std::make_shared<LimitState>();
  state->outer = before_;
  state->seconds = most.seconds;
  constexpr double kForever = 1e8;  // seconds that any clock can add
  state->end = LimitState::Clock::time_point::max();
  if (most.seconds < kForever)
    state->end =
        LimitState::Clock::now() + std::chrono::duration_cast<LimitState::Clock::duration>(std::chrono::duration<double>(most.seconds));
  state->most = most.bytes;
  set(std::move(state));
}
Limits::~Limits() { set(std::move(before_)); }

LimitsOf::LimitsOf(std::shared_ptr<LimitState> limits) : before_(current) { set(std::move(limits)); }
LimitsOf::~LimitsOf() { set(std::move(before_)); }

std::shared_ptr<LimitState> current_limits() { return innermost ? current : nullptr; }

void check_time_limit() {
  if (!innermost) return;
  const auto now = LimitState::Clock::now();
  for (const LimitState* s = innermost; s; s = s->outer.get())
    if (now > s->end)
      throw Error(ErrorKind::time_limit, {.what = cat("the time limit of ", s->seconds, " seconds is over"),
                                          .where = "",
                                          .why = "the program was stopped before its end",
                                          .fix = "raise the limit, or look whether its loops end"});
}

MemoryCharge::MemoryCharge(size_t bytes) : bytes_(bytes) {
  if (!innermost || bytes == 0) return;
  for (LimitState* s = innermost; s; s = s->outer.get()) {
    const int64_t before = s->used.fetch_add(int64_t(bytes));
    if (s->most < 0 || before + int64_t(bytes) <= s->most) continue;
    for (LimitState* charged = innermost; charged != s->outer.get(); charged = charged->outer.get()) charged->used -= int64_t(bytes);
    throw Error(ErrorKind::out_of_memory, {.what = cat(bytes, " bytes were requested, beyond the memory limit"),
                                           .where = "",
                                           .why = cat("of the limit of ", s->most, " bytes ", before, " are in use"),
                                           .fix = "raise the limit, or use smaller inputs"});
  }
  limits_ = current;
}
MemoryCharge::~MemoryCharge() {
  for (LimitState* s = limits_.get(); s; s = s->outer.get()) s->used -= int64_t(bytes_);
}

}  // namespace lamina
