#include "runtime/core/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace lamina {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void take_smaller(std::optional<double>& quota, double time, double period) {
  if (time > 0 && period > 0) quota = std::min(quota.value_or(time / period), time / period);
}

void read_folder(const std::string& folder, std::optional<double>& quota) {
  double time = 0, period = 0;
  // "max 100000" does not start with a number: no limit.
  if (std::istringstream both(text_of(folder + "/cpu.max")); both >> time >> period) take_smaller(quota, time, period);
  std::istringstream first(text_of(folder + "/cpu.cfs_quota_us")), second(text_of(folder + "/cpu.cfs_period_us"));
  if (first >> time && second >> period) take_smaller(quota, time, period);
}

}  // namespace

std::optional<double> quota_of(const std::string& groups, const std::string& root) {
  std::optional<double> quota;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string top = controllers.empty() ? root : root + "/" + controllers;
    std::string path = line.substr(second + 1);
    for (;; path.resize(path.rfind('/'))) {
      if (!path.empty() && path.back() == '/') path.pop_back();
      read_folder(top + path, quota);
      if (path.empty() || path.rfind('/') == std::string::npos) break;
    }
  }
  return quota;
}

int Cores::usable() const { return std::max(1, quota ? std::min(affinity, int(*quota)) : affinity); }

const Cores& cores() {
  static const Cores found = [] {
    Cores c;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) c.affinity = std::max(1, CPU_COUNT(&set));
    c.quota = quota_of(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
    return c;
  }();
  return found;
}

}  // namespace lamina
