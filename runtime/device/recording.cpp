#include "runtime/device/recording.h"

#include <chrono>
#include <cstdio>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/core/per_thread.h"
#include "runtime/core/settings.h"

namespace lamina::profiler {
namespace detail {
constinit std::atomic<bool> recording{false};
}

namespace {

using Clock = std::chrono::steady_clock;

Mutex mutex;  // guards the members below
uint64_t session = 0;
bool other_tool = false;
int threads = 0;
Clock::time_point began;
std::vector<TimedRange>& ranges = *new std::vector<TimedRange>;  // never destroyed: threads may outlive statics
std::vector<DeviceStep>& device_steps = *new std::vector<DeviceStep>;
std::atomic<bool> steps_wanted{false};

// Ranges open on this thread in a session.
struct Open {
  uint64_t session = 0;
  int thread = 0;
  std::vector<int> ranges;
};
Open& open() { return PerThread<Open>::get(); }

double since(Clock::time_point time) { return std::chrono::duration<double, std::micro>(time - began).count(); }

}  // namespace

void start_recording(bool with_device_steps) {
  const bool tool = listening();
  std::lock_guard lock(mutex);
  if (detail::recording)
    throw Error(ErrorKind::state, {.what = "a recording of ranges runs already",
                                   .where = "",
                                   .why = "there is one for the whole process",
                                   .fix = "end the other one first"});
  other_tool = tool;
  ++session, threads = 0;
  ranges.clear(), device_steps.clear();
  steps_wanted = with_device_steps;
  began = Clock::now();
  detail::recording = true;
  detail::state.store(detail::on, std::memory_order_release);
}

Recording stop_recording() {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex);
  if (!detail::recording)
    throw Error(ErrorKind::state, {.what = "no recording of ranges runs", .where = "", .why = "", .fix = "start one first"});
  detail::recording = false, steps_wanted = false;
  if (!other_tool) detail::state.store(detail::off, std::memory_order_release);
  for (TimedRange& range : ranges)
    if (range.end < 0) range.end = since(now);
  return {std::exchange(ranges, {}), std::exchange(device_steps, {})};
}

bool step_clock_runs() {
  static const bool always = config::is_on(Setting::section_clock).value_or(false);
  return steps_wanted.load(std::memory_order_relaxed) || (always && listening());
}

void add_device_steps(std::vector<DeviceStep> steps) {
  for (const DeviceStep& s : steps) {
    if (steps_wanted) break;
    char times[160];
    std::snprintf(times, sizeof times, ": %.2f us busy, %.2f us waited, %lld times, %d blocks", s.busy, s.waited,
                  static_cast<long long>(s.times), s.blocks);
    const Range range(s.text + times, Kind::step);
  }
  std::lock_guard lock(mutex);
  if (!detail::recording || !steps_wanted) return;
  for (DeviceStep& s : steps) {
    s.range = open().session == session && !open().ranges.empty() ? open().ranges.back() : -1;
    device_steps.push_back(std::move(s));
  }
}

void detail::record_push(Kind kind, std::string_view text, int64_t payload, Lane lane) {
  std::lock_guard lock(mutex);
  if (!recording) return;
  if (open().session != session) open() = {session, threads++, {}};
  ranges.push_back({std::string(text), kind, payload, open().thread, open().ranges.empty() ? -1 : open().ranges.back(), lane, 0, -1});
  open().ranges.push_back(int(ranges.size()) - 1);
  ranges.back().begin = since(Clock::now());  // last, so that our own work is not part of the range
}

void detail::record_pop() {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex);
  if (!recording || open().session != session || open().ranges.empty()) return;  // it began before the recording
  ranges[size_t(open().ranges.back())].end = since(now);
  open().ranges.pop_back();
}

}  // namespace lamina::profiler
