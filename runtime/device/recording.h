// Ranges with their times, kept in this process instead of given to a tool. While a recording runs, profiler::listening() is true.
#pragma once
#include <string>
#include <vector>

#include "runtime/device/profiler.h"

namespace lamina::profiler {

struct TimedRange {
  std::string text;
  Kind kind = Kind::user;
  int64_t payload = -1;         // as Scope was given it; -1: none
  int thread = 0;               // numbered as they come
  int parent = -1;              // the range around it, of the same thread; -1: none
  double begin = 0, end = 0;    // microseconds since the recording began
};

// One at a time. Throws state when one runs already.
LAMINA_API void start_recording();
// The ranges in the order in which they began; those that have not ended yet end now. Throws state when none runs.
LAMINA_API std::vector<TimedRange> stop_recording();

namespace detail {
extern std::atomic<bool> recording;
void record_push(Kind kind, std::string_view text, int64_t payload);
void record_pop();
}  // namespace detail

}  // namespace lamina::profiler
