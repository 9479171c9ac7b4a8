// How many cores this process may use at once: those of its affinity mask, and no more than its control group's quota pays for.
#pragma once
#include <optional>
#include <string>

#include "runtime/core/export.h"

namespace lamina {

struct Cores {
  int affinity = 1;             // of the mask (taskset, cpusets)
  std::optional<double> quota;  // cpu.max of the control groups around this process: how many cores' time per second
  int usable() const;           // at least 1; of a quota of 1.5 cores one, since two threads would be stopped for a quarter of the time
};
LAMINA_API const Cores& cores();  // read once

// The smallest quota of the control groups that `groups` (the text of /proc/self/cgroup) names, and of those around them, under `root`
// (/sys/fs/cgroup): version 2's cpu.max, version 1's cpu.cfs_quota_us over cpu.cfs_period_us.
LAMINA_API std::optional<double> quota_of(const std::string& groups, const std::string& root);

}  // namespace lamina
