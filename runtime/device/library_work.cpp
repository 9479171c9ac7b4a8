#include "runtime/device/library_work.h"

#include <limits>

namespace lamina {

double least_multiply_adds(Setting setting) {
  const std::string value = config::text(setting);
  if (value == "never") return std::numeric_limits<double>::infinity();
  if (value == "always") return 1;
  return config::number(setting).value_or(kLeastMultiplyAdds);
}

bool pads_alike(int64_t length, int64_t window, int64_t dilation, int64_t before, int64_t stride, int64_t places) {
  const int64_t room = length + 2 * before - ((window - 1) * dilation + 1);
  return room >= 0 && room / stride + 1 == places;
}

}  // namespace lamina
