// Which work goes to vendor libraries (called by runtime/cuda), judged by size and form.
#pragma once
#include <cstdint>

#include "runtime/core/settings.h"

namespace lamina {

// Smaller work is left to our own kernels, whose launch needs no plan. An estimate, not measured on a card.
inline constexpr double kLeastMultiplyAdds = 4 << 20;
// The threshold that the setting gives: always is 1, never is infinity.
LAMINA_API double least_multiply_adds(Setting setting);

// Whether equal padding on both sides (cuDNN has no other) gives the same window positions.
LAMINA_API bool pads_alike(int64_t length, int64_t window, int64_t dilation, int64_t before, int64_t stride, int64_t places);

}  // namespace lamina
