// Ranges with their times, kept in this process instead of given to a tool. While a recording runs, profiler::listening() is true.
#pragma once
#include <string>
#include <vector>

#include "runtime/device/profiler.h"

namespace lamina::profiler {

struct TimedRange {
  std::string text;
  Kind kind = Kind::user;
  int64_t payload = -1;       // as Scope was given it; -1: none
  int thread = 0;             // numbered as they come
  int parent = -1;            // the range around it, of the same thread; -1: none
  double begin = 0, end = 0;  // microseconds since the recording began
};

// A step inside of one call of a section on a GPU, which is mostly one launch, by the kernel's own clock.
struct DeviceStep {
  std::string text;             // its layer, op and line, as a range of it has on the CPU
  int range = -1;               // the range in which it was launched: its instruction's; -1: none
  int64_t times = 0;            // in the call: of a loop's body, the iterations
  int blocks = 0;               // that have taken part
  double began = 0, ended = 0;  // its last time, from the first block to the last one; microseconds since the first launch began
  double busy = 0,
         waited = 0;  // microseconds of the block for which it was most, of all times together: at work, and before it for other blocks
};

struct Recording {
  std::vector<TimedRange> ranges;        // in the order in which they began
  std::vector<DeviceStep> device_steps;  // launch by launch
};

// One at a time. With device_steps launches of sections on GPUs take the time of their steps, and the host waits for each. Throws state
// when one runs already.
LAMINA_API void start_recording(bool device_steps = false);
// Ranges that have not ended yet end now. Throws state when none runs.
LAMINA_API Recording stop_recording();

// Whether launches of sections are to take the time of their steps: for a recording, or for the tool that listens where
// LAMINA_SECTION_CLOCK=1.
LAMINA_API bool step_clock_runs();
// Those of a call of a section that has just ended on this thread. A tool gets a range without a length for each.
LAMINA_API void add_device_steps(std::vector<DeviceStep> steps);

namespace detail {
extern std::atomic<bool> recording;
void record_push(Kind kind, std::string_view text, int64_t payload);
void record_pop();
}  // namespace detail

}  // namespace lamina::profiler
