// Number of cores that this process may use at once: limited by its affinity mask and by its cgroup's CPU quota.
#pragma once
#include <optional>
#include <string>

#include "runtime/core/export.h"

namespace lamina {

struct Cores {
  int affinity = 1;             // cores in the mask (taskset, cpusets)
  std::optional<double> quota;  // CPU seconds per second, by cpu.max of the process's cgroups
  int usable() const;           // at least 1; a quota of 1.5 cores gives 1, because two threads would be throttled a quarter of the time
};
LAMINA_API const Cores& cores();  // read once

// The smallest quota of the cgroups named in `groups` (the text of /proc/self/cgroup) and of their ancestors, under `root`
// (/sys/fs/cgroup): cpu.max in version 2, cpu.cfs_quota_us / cpu.cfs_period_us in version 1.
LAMINA_API std::optional<double> quota_of(const std::string& groups, const std::string& root);

}  // namespace lamina
