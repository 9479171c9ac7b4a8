// Records ranges with their times in this process, without a tool. While recording, profiler::listening() is true.
#pragma once
#include <string>
#include <vector>

#include "runtime/device/profiler.h"

namespace lamina::profiler {

struct TimedRange {
  std::string text;
  Kind kind = Kind::user;
  int64_t payload = -1;       // as given to Scope; -1: none
  int thread = 0;             // numbered in order of appearance
  int parent = -1;            // the enclosing range of the same thread; -1: none
  Lane lane;                  // of an instruction
  double begin = 0, end = 0;  // microseconds since the recording began
};

// A step of one call of a section on a GPU (usually one launch), timed by the kernel's own clock.
struct DeviceStep {
  std::string text;             // its layer, op and line, as in a CPU range
  int range = -1;               // the range that launched it, its instruction's; -1: none
  int64_t times = 0;            // executions in the call: in a loop's body, the iterations
  int blocks = 0;               // blocks that took part
  double began = 0, ended = 0;  // the last execution, first block to last; microseconds since the first launch began
  double busy = 0,
         waited = 0;  // microseconds, maximum over blocks, summed over executions: at work, and waiting for other blocks
};

struct Recording {
  std::vector<TimedRange> ranges;        // in order of their begin
  std::vector<DeviceStep> device_steps;  // launch by launch
};

// Only one recording at a time; throws state otherwise. With device_steps, GPU sections time their steps, and the host waits for each
// launch.
LAMINA_API void start_recording(bool device_steps = false);
// Ends open ranges now. Throws state when there is no recording.
LAMINA_API Recording stop_recording();

// Whether sections should time their steps: for a recording, or for a listening tool if LAMINA_SECTION_CLOCK=1.
LAMINA_API bool step_clock_runs();
// Adds the steps of a section call that has just ended on this thread. A tool gets each as a range without a length.
LAMINA_API void add_device_steps(std::vector<DeviceStep> steps);

namespace detail {
extern std::atomic<bool> recording;
void record_push(Kind kind, std::string_view text, int64_t payload, Lane lane = {});
void record_pop();
}  // namespace detail

}  // namespace lamina::profiler
