#include "runtime/device/library_work.h"

#include <charconv>
#include <limits>

#include "runtime/core/error.h"

namespace lamina {

double least_multiply_adds(const char* variable, const std::string& setting) {
  if (setting.empty()) return kLeastMultiplyAdds;
  if (setting == "never") return std::numeric_limits<double>::infinity();
  if (setting == "always") return 1.0;
  double value = 0;
  const auto [end, code] = std::from_chars(setting.data(), setting.data() + setting.size(), value);
  if (code != std::errc() || end != setting.data() + setting.size() || !(value >= 0))
    throw Error(ErrorKind::invalid_argument,
                {.what = cat(variable, "=", setting, " is neither a number of multiply-adds, nor always or never"),
                 .where = "the environment",
                 .why = "work of at least as many goes to NVIDIA's library",
                 .fix = cat("unset ", variable, ", or set it to one of these")});
  return value;
}

bool pads_alike(int64_t length, int64_t window, int64_t dilation, int64_t before, int64_t stride, int64_t places) {
  const int64_t room = length + 2 * before - ((window - 1) * dilation + 1);
  return room >= 0 && room / stride + 1 == places;
}

}  // namespace lamina
