#include "runtime/core/config.h"

#include <algorithm>
#include <atomic>

#include "runtime/core/cores.h"
#include "runtime/core/error.h"
#include "runtime/core/settings.h"

namespace lamina::config {
namespace {

bool machine_has(const std::string& isa) {
#ifdef LAMINA_HAS_AVX
  if (isa == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
  if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return isa == "scalar";
}

std::string checked_isa(const std::string& isa, const char* where) {
  if (isa != "avx512" && isa != "avx2" && isa != "scalar") throw unknown_name("instruction set", isa, {"avx512", "avx2", "scalar"});
  if (!machine_has(isa))
    throw Error(ErrorKind::device, {.what = cat("the instruction set ", isa, " cannot be used"),
                                    .where = where,
                                    .why = "this machine's processor does not have it",
                                    .fix = cat("use ", best_cpu_isa())});
  return isa;
}

std::atomic<int> devices{1};

// 0: the cores are divided among the devices.
std::atomic<int>& thread_count() {
  static std::atomic<int> count{int(number(Setting::threads).value_or(0))};
  return count;
}
std::string& chosen_isa() {
  static std::string& isa =
      *new std::string(text(Setting::cpu).empty() ? best_cpu_isa() : checked_isa(text(Setting::cpu), name(Setting::cpu)));
  return isa;
}

}  // namespace

int threads() {
  const int chosen = thread_count().load(std::memory_order_relaxed);
  return chosen > 0 ? chosen : std::max(1, cores().usable() / cpu_devices());
}
void set_threads(int threads) {
  if (threads < 1 || threads > 1024)
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(threads, " threads cannot be used"), .where = "", .why = "the count is from 1 to 1024", .fix = ""});
  thread_count() = threads;
}
std::string best_cpu_isa() {
  for (const char* isa : {"avx512", "avx2"})
    if (machine_has(isa)) return isa;
  return "scalar";
}
const std::string& cpu_isa() { return chosen_isa(); }
void set_cpu_isa(const std::string& isa) { chosen_isa() = checked_isa(isa, "set_cpu_isa"); }
int cpu_devices() { return devices.load(std::memory_order_relaxed); }
void store_cpu_devices(int count) { devices = count; }

}  // namespace lamina::config
