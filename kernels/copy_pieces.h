// copy_pieces: copies many pieces of memory at once, which do not overlap.
#pragma once
#include <cstddef>
#include <span>

#include "runtime/device/stream.h"

namespace lamina {

struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

namespace kernels::cuda {
// Within the memory of the stream's device, in one launch for every 128 pieces.
void copy_pieces(Stream& stream, std::span<const Piece> pieces);
}  // namespace kernels::cuda

}  // namespace lamina
