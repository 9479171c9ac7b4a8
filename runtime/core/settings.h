// Settings: the LAMINA_ environment variables. Only the table in settings.cpp reads them. docs/settings.md shows the table; a test compares
// the two.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

enum class Setting {
  threads,
  cpu,
  collective_warning,
  collective_timeout,
  heartbeat_timeout,
  flight_records,
  dump,
  disable,
  pass_limit,
  cublaslt,
  cudnn,
  cuda_libraries,
  cuda_graphs,
  cuda_streams,
  cuda_infeed,
  resident,
  section_clock,
};

namespace config {

struct SettingInfo {
  Setting setting;
  const char* name;
  std::vector<std::string_view> words;  // the values that are words
  double least = 0, most = -1;          // range of numeric values; empty: none
  bool whole = true;                    // only integers
  const char* any = "";                 // name for arbitrary text, which its reader checks
  const char* otherwise;                // the default
  const char* meaning;
};
LAMINA_API std::span<const SettingInfo> settings();  // in the order of Setting
LAMINA_API const char* name(Setting setting);
LAMINA_API std::string values(const SettingInfo& info);  // "on or off", "a whole number from 1 to 4"

// The current value in the environment; empty when unset or empty. Throws invalid_argument for a value that the table does not list.
LAMINA_API std::string text(Setting setting);
LAMINA_API std::optional<double> number(Setting setting);  // empty for a word too
LAMINA_API std::optional<bool> is_on(Setting setting);     // on and 1 are true, off and 0 false

}  // namespace config
}  // namespace lamina
