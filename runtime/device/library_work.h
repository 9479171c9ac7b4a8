// Which work a library of the device's maker is to do (runtime/cuda calls them), as far as its size and form say.
#pragma once
#include <cstdint>

#include "runtime/core/settings.h"

namespace lamina {

// Work of fewer multiply-adds is left to our own kernels, whose launch needs no plan. Not measured: there was no card to measure on.
inline constexpr double kLeastMultiplyAdds = 4 << 20;
// Of more images cuDNN makes no spatial batch normalisation in training: PyTorch looks for the same number.
inline constexpr int64_t kMostNormalizedImages = 880'801;
// What the setting says instead: always is 1, never is infinity.
double least_multiply_adds(Setting setting);

// Whether a window with as much padding after as before stands in just these places: cuDNN has one padding for both sides.
bool pads_alike(int64_t length, int64_t window, int64_t dilation, int64_t before, int64_t stride, int64_t places);

}  // namespace lamina
