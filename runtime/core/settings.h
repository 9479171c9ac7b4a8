// Settings: the LAMINA_ variables of the environment. The table in settings.cpp is the only place that reads them.
// docs/settings.md shows the table; a test compares the two.
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
  cpu_devices,
  dump,
  disable,
  pass_limit,
  cublaslt,
  cudnn,
  cuda_libraries,
  cuda_graphs,
  cuda_streams,
  cuda_cluster,
  cuda_infeed,
  resident,
  section_clock,
};

namespace config {

struct SettingInfo {
  Setting setting;
  const char* name;
  std::vector<std::string_view> words;  // values that are words
  double least = 0, most = -1;          // the range of values that are numbers; empty: there are none
  bool whole = true;                    // only whole numbers
  const char* any = "";                 // any text is a value, and stands for this; its reader checks it
  const char* otherwise;                // what holds when the variable is not set
  const char* meaning;
};
LAMINA_API std::span<const SettingInfo> settings();  // in the order of Setting
LAMINA_API const char* name(Setting setting);
LAMINA_API std::string values(const SettingInfo& info);  // "on or off", "a whole number from 1 to 4"

// The value in the environment now; empty when the variable is unset or empty.
// Throws Error invalid_argument for a value that the table does not list.
LAMINA_API std::string text(Setting setting);
LAMINA_API std::optional<double> number(Setting setting);  // empty for a word too
LAMINA_API std::optional<bool> is_on(Setting setting);     // on and 1 are true, off and 0 false

}  // namespace config
}  // namespace lamina
