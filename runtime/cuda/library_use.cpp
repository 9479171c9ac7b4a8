#include "runtime/cuda/library_use.h"

#include <charconv>
#include <limits>

namespace lamina::cuda {

double least_multiply_adds(const char* variable, const std::string& setting) {
  if (setting.empty()) return kLeastMultiplyAdds;
  if (setting == "never") return std::numeric_limits<double>::infinity();
  if (setting == "always") return 1.0;
  double value = 0;
  const auto [end, code] = std::from_chars(setting.data(), setting.data() + setting.size(), value);
  if (code != std::errc() || end != setting.data() + setting.size() || !(value >= 0))
    throw Error(ErrorKind::invalid_argument, {.what = cat(variable, "=", setting, " is neither a number of multiply-adds, nor always or never"),
                                              .where = "the environment",
                                              .why = "work of at least as many goes to NVIDIA's library",
                                              .fix = cat("unset ", variable, ", or set it to one of these")});
  return value;
}

}  // namespace lamina::cuda
