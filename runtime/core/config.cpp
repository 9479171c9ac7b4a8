#include "runtime/core/config.h"

#include <atomic>
#include <charconv>
#include <cstdlib>

#include "runtime/core/cores.h"
#include "runtime/core/error.h"

namespace lamina::config {
namespace {

int positive_number(const char* name, int otherwise) {
  std::string text = environment(name);
  if (text.empty()) return otherwise;
  int value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 1 || value > 1024)
    throw Error(ErrorKind::invalid_argument, {.what = cat(name, "=", text, " is not a number from 1 to 1024"),
                                              .where = "the environment",
                                              .why = "",
                                              .fix = cat("unset ", name, ", or set it to a number")});
  return value;
}

bool machine_has(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
  if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return isa == "scalar";
}

std::string checked_isa(const std::string& isa, const char* where) {
  if (isa != "avx512" && isa != "avx2" && isa != "scalar")
    throw Error(ErrorKind::invalid_argument, {.what = cat("LAMINA_CPU=", isa, " names no instruction set"),
                                              .where = where,
                                              .why = "the choices are avx512, avx2 and scalar",
                                              .fix = "unset it to take the best that the machine has"});
  if (!machine_has(isa))
    throw Error(ErrorKind::device, {.what = cat("LAMINA_CPU=", isa, " cannot be used"),
                                    .where = where,
                                    .why = "this machine's processor does not have it",
                                    .fix = cat("use ", best_cpu_isa())});
  return isa;
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count{positive_number("LAMINA_THREADS", cores().usable())};
  return count;
}
std::string& chosen_isa() {
  static std::string isa = environment("LAMINA_CPU").empty() ? best_cpu_isa() : checked_isa(environment("LAMINA_CPU"), "the environment");
  return isa;
}

}  // namespace

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}
int threads() { return thread_count(); }
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
int cpu_devices() {
  static int count = positive_number("LAMINA_CPU_DEVICES", 1);
  return count;
}

}  // namespace lamina::config
