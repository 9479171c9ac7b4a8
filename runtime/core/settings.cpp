#include "runtime/core/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "runtime/core/error.h"

namespace lamina::config {
namespace {

constexpr double kAnyNumber = 1e300;

const std::vector<SettingInfo>& table() {
  static const std::vector<SettingInfo>& rows = *new std::vector<SettingInfo>{
      {.setting = Setting::threads,
       .name = "LAMINA_THREADS",
       .least = 1,
       .most = 1024,
       .otherwise = "the cores that the process may use, divided among the CPU's devices",
       .meaning = "threads of each CPU device"},
      {.setting = Setting::cpu,
       .name = "LAMINA_CPU",
       .words = {"avx512", "avx2", "scalar"},
       .otherwise = "the best that the processor has",
       .meaning = "instruction set of the CPU's kernels"},
      {.setting = Setting::collective_warning,
       .name = "LAMINA_COLLECTIVE_WARNING",
       .least = 1,
       .most = 86400,
       .whole = false,
       .otherwise = "30",
       .meaning = "seconds after which a rank that waits in a collective says which ranks are missing"},
      {.setting = Setting::collective_timeout,
       .name = "LAMINA_COLLECTIVE_TIMEOUT",
       .least = 1,
       .most = 86400,
       .whole = false,
       .otherwise = "300",
       .meaning = "seconds after which a collective that some ranks have not reached ends the job"},
      {.setting = Setting::heartbeat_timeout,
       .name = "LAMINA_HEARTBEAT_TIMEOUT",
       .least = 1,
       .most = 3600,
       .whole = false,
       .otherwise = "5",
       .meaning = "seconds without a heartbeat after which a rank counts as lost; ranks send ten heartbeats in that time"},
      {.setting = Setting::flight_records,
       .name = "LAMINA_FLIGHT_RECORDS",
       .any = "a folder",
       .otherwise = "the current folder",
       .meaning = "where each rank of a job that fails writes its last collectives as JSON"},
      {.setting = Setting::dump,
       .name = "LAMINA_DUMP",
       .any = "a folder",
       .otherwise = "nothing is written",
       .meaning = "where the graph is written after each pass"},
      {.setting = Setting::disable,
       .name = "LAMINA_DISABLE",
       .any = "names of passes, separated by commas",
       .otherwise = "all passes run",
       .meaning = "passes that are left out"},
      {.setting = Setting::pass_limit,
       .name = "LAMINA_PASS_LIMIT",
       .least = 0,
       .most = 1e6,
       .otherwise = "all passes run",
       .meaning = "how many passes run, from the first"},
      {.setting = Setting::cublaslt,
       .name = "LAMINA_CUBLASLT",
       .words = {"always", "never"},
       .most = kAnyNumber,
       .whole = false,
       .otherwise = "4194304",
       .meaning = "matrix products of at least so many multiply-adds are left to cuBLASLt"},
      {.setting = Setting::cudnn,
       .name = "LAMINA_CUDNN",
       .words = {"always", "never"},
       .most = kAnyNumber,
       .whole = false,
       .otherwise = "4194304",
       .meaning = "convolutions of at least so many multiply-adds are left to cuDNN"},
      {.setting = Setting::cuda_libraries,
       .name = "LAMINA_CUDA_LIBRARIES",
       .any = "folders, separated by colons",
       .otherwise = "NVIDIA's wheels and the CUDA toolkit are searched",
       .meaning = "where NVIDIA's libraries are looked for first"},
      {.setting = Setting::cuda_graphs,
       .name = "LAMINA_CUDA_GRAPHS",
       .words = {"on", "off"},
       .otherwise = "on",
       .meaning = "launches of a program are joined to a CUDA graph"},
      {.setting = Setting::cuda_streams,
       .name = "LAMINA_CUDA_STREAMS",
       .least = 1,
       .most = 8,
       .otherwise = "4",
       .meaning = "streams of a GPU among which independent branches are divided"},
      {.setting = Setting::cuda_infeed,
       .name = "LAMINA_CUDA_INFEED",
       .words = {"on", "off"},
       .otherwise = "for large stacks",
       .meaning = "stacked values on the host are copied to the GPU while their loop runs"},
      {.setting = Setting::resident,
       .name = "LAMINA_RESIDENT",
       .words = {"staged"},
       .otherwise = "staged where a profiler, sanitizer or debugger is found",
       .meaning = "no kernel waits for the host, so that a tool can run each several times"},
      {.setting = Setting::section_clock,
       .name = "LAMINA_SECTION_CLOCK",
       .words = {"on", "off"},
       .otherwise = "off",
       .meaning = "each launch of a section reports the time of its steps to the attached profiler"},
  };
  return rows;
}

const SettingInfo& row(Setting setting) { return table()[size_t(setting)]; }

std::optional<double> parsed(const SettingInfo& info, std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits = code == std::errc() && end == text.data() + text.size() && value >= info.least && value <= info.most;
  return fits && (!info.whole || value == double(int64_t(value))) ? std::optional(value) : std::nullopt;
}

bool is_switch(const SettingInfo& info) { return info.words == std::vector<std::string_view>{"on", "off"}; }

std::string number_text(double value) { return cat(int64_t(value)); }

}  // namespace

std::span<const SettingInfo> settings() { return table(); }

const char* name(Setting setting) { return row(setting).name; }

std::string values(const SettingInfo& info) {
  std::vector<std::string> all;
  if (info.most >= info.least)
    all.push_back(cat(info.whole ? "a whole number " : "a number ",
                      info.most == kAnyNumber ? cat("of at least ", number_text(info.least))
                                              : cat("from ", number_text(info.least), " to ", number_text(info.most))));
  if (*info.any) all.push_back(info.any);
  all.insert(all.end(), info.words.begin(), info.words.end());
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) out += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + all[i];
  return out;
}

std::string text(Setting setting) {
  const SettingInfo& info = row(setting);
  const char* set = std::getenv(info.name);
  std::string value = set ? set : "";
  if (is_switch(info) && (value == "1" || value == "0")) value = value == "1" ? "on" : "off";
  if (value.empty() || *info.any || std::find(info.words.begin(), info.words.end(), value) != info.words.end() || parsed(info, value))
    return value;
  throw Error(ErrorKind::invalid_argument, {.what = cat(info.name, "=", value, " is not ", values(info)),
                                            .where = "the environment",
                                            .why = info.meaning,
                                            .fix = cat("unset ", info.name, ", or set it to ", values(info))});
}

std::optional<double> number(Setting setting) { return parsed(row(setting), text(setting)); }

std::optional<bool> is_on(Setting setting) {
  const std::string value = text(setting);
  return value.empty() ? std::nullopt : std::optional(value == "on");
}

}  // namespace lamina::config
