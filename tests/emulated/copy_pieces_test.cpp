#include "kernels/cuda/copy_pieces.cu"

#include <random>

#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"

namespace lamina::tests {
namespace {

using kernels::cuda::Buffer;

// Pieces of whole vectors of words, of words and of bytes, more of them than a launch takes, and empty ones.
TEST(CopyPieces, ArriveWhereTheyBelong) {
  Stream stream = EmulatedBackend::one().default_stream({DeviceKind::gpu, 0, 0});
  for (const size_t unit : {size_t(16), size_t(4), size_t(1)})
    for (const size_t count : {0, 1, 5, 128, 129, 300}) {
      std::mt19937 random(unsigned(count + unit));
      Buffer<uint8_t> from(count * 64);
      for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(random());
      std::vector<uint8_t> expected(count * 64, 0xff);
      std::vector<size_t> sizes;
      for (size_t i = 0; i < count; ++i) {
        sizes.push_back(random() % (64 / unit + 1) * unit);
        std::copy_n(from.data() + i * 64, sizes[i], expected.begin() + int64_t((count - 1 - i) * 64));
      }
      kernels::cuda::in_every_order([&] {
        Buffer<uint8_t> to(count * 64);
        std::vector<Piece> pieces;
        for (size_t i = 0; i < count; ++i) pieces.push_back({from.data() + i * 64, to.data() + (count - 1 - i) * 64, sizes[i]});
        kernels::cuda::copy_pieces(stream, pieces);
        ASSERT_EQ(to.values(), expected) << count << " pieces of " << unit;
      });
    }
}

}  // namespace
}  // namespace lamina::tests
