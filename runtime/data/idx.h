// Reader of IDX files, the format of MNIST: element type, dimensions, elements, all big-endian; plain or gzipped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"

namespace lamina::data {

struct IdxArray {
  DType dtype = DType::u8;
  std::vector<int64_t> shape;    // outermost first
  std::vector<std::byte> bytes;  // the elements, row-major, in this machine's byte order
};

// Throws file. Safe for hostile files: memory grows with the bytes really read, up to the size that the header declares.
LAMINA_API IdxArray read_idx(const std::string& path);

}  // namespace lamina::data
