// Converts a section's clock entries to step times.
#include <algorithm>
#include <limits>

#include "kernels/section/blocks.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

template <class T>
const T* part(const BlockPlan& plan, int32_t at) {
  return reinterpret_cast<const T*>(plan.bytes.data() + at);
}

}  // namespace

size_t clock_entries(const BlockPlan& plan) {
  return size_t(part<int32_t>(plan, plan.program.starts_at)[plan.program.blocks] + plan.program.blocks);
}

std::vector<profiler::DeviceStep> times_of_steps(const BlockPlan& plan, const std::vector<BlockClock>& clock) {
  const int32_t* starts = part<int32_t>(plan, plan.program.starts_at);
  const int32_t* lists = part<int32_t>(plan, plan.program.lists_at);
  constexpr auto never = std::numeric_limits<unsigned long long>::max();
  unsigned long long start = never, nanoseconds = 0, cycles = 0;  // of the block that took longest
  for (int b = 0; b < plan.program.blocks; ++b) {
    const BlockClock& all = clock[size_t(starts[b + 1] + b)];
    if (all.times == 0) continue;
    start = std::min(start, all.began);
    if (all.waited >= nanoseconds) nanoseconds = all.waited, cycles = all.busy;
  }
  const double per_cycle = cycles == 0 ? 0 : double(nanoseconds) / double(cycles) / 1000;
  constexpr unsigned long long longest = never / 2;
  std::vector<profiler::DeviceStep> of_step(plan.steps.size());
  for (int b = 0; b < plan.program.blocks; ++b)
    for (int place = 0; place < starts[b + 1] - starts[b]; ++place) {
      const int number = lists[starts[b] + place];
      const BlockClock& c = clock[size_t(starts[b] + b + place)];
      if (c.times == 0 || c.busy > longest || c.waited > longest) continue;  // the launch ended in the middle of the step
      profiler::DeviceStep& step = of_step[size_t(number)];
      const double began = double(c.began - start) / 1000, ended = double(c.ended - start) / 1000;
      step.began = step.blocks == 0 ? began : std::min(step.began, began);
      step.ended = std::max(step.ended, ended);
      step.busy = std::max(step.busy, double(c.busy) * per_cycle);
      step.waited = std::max(step.waited, double(c.waited) * per_cycle);
      step.times = std::max(step.times, int64_t(c.times));
      ++step.blocks;
    }
  std::vector<profiler::DeviceStep> out;
  for (size_t i = 0; i < of_step.size(); ++i) {
    if (of_step[i].blocks == 0) continue;
    const bool turn = plan.steps[i].kind == StepKind::loop;
    of_step[i].text = turn                                              ? cat("a turn of a loop or branch, step ", i)
                      : i < plan.names.size() && !plan.names[i].empty() ? plan.names[i]
                                                                        : name(plan.steps[i].kind);
    out.push_back(std::move(of_step[i]));
  }
  return out;
}

}  // namespace lamina::section
