// NumPy's files of one array: .npy.
#pragma once
#include <string>

#include "graph/frontend/tensor.h"

namespace lamina {

// The array of a .npy file (versions 1 to 3, C or Fortran order, little endian), on the current device. Throws file for anything else.
LAMINA_API Tensor load_npy(const std::string& path);
// Throws file where it cannot be written, type for bfloat16, which NumPy does not have.
LAMINA_API void save_npy(const std::string& path, const Tensor& value);

}  // namespace lamina
