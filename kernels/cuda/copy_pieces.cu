// The words of all pieces are numbered through; each thread finds the piece of its words.
#include "kernels/copy_pieces.h"

#include <algorithm>

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int kPieces = 128;  // of a launch

struct SomePieces {
  const void* from[kPieces];
  void* to[kPieces];
  int64_t first[kPieces + 1];  // word of each piece, then the number of all
  int count;
};

struct alignas(16) FourWords {
  uint32_t words[4];
};

template <class Word>
LAMINA_KERNEL(256)
copy_words(LAMINA_ARGUMENT SomePieces pieces) {
  int piece = 0;
  for (int64_t i = first_element(); i < pieces.first[pieces.count]; i += all_threads()) {
    while (pieces.first[piece + 1] <= i) ++piece;
    const int64_t word = i - pieces.first[piece];
    static_cast<Word*>(pieces.to[piece])[word] = static_cast<const Word*>(pieces.from[piece])[word];
  }
}

template <class Word>
bool is_of(const Piece& p) {
  return (reinterpret_cast<uintptr_t>(p.from) | reinterpret_cast<uintptr_t>(p.to) | p.bytes) % sizeof(Word) == 0;
}

template <class Word>
void copy_all(Stream& stream, std::span<const Piece> pieces) {
  SomePieces some{.from = {}, .to = {}, .first = {}, .count = 0};
  const auto send = [&] {
    const int64_t words = some.first[some.count];
    if (words) launch<copy_words<Word>>(stream, over(words), some);
    some.count = 0;
  };
  for (const Piece& p : pieces) {
    some.from[some.count] = p.from, some.to[some.count] = p.to;
    some.first[some.count + 1] = some.first[some.count] + int64_t(p.bytes / sizeof(Word));
    if (++some.count == kPieces) send();
  }
  send();
}

}  // namespace

void copy_pieces(Stream& stream, std::span<const Piece> pieces) {
  if (std::all_of(pieces.begin(), pieces.end(), is_of<FourWords>)) return copy_all<FourWords>(stream, pieces);
  if (std::all_of(pieces.begin(), pieces.end(), is_of<uint32_t>)) return copy_all<uint32_t>(stream, pieces);
  copy_all<uint8_t>(stream, pieces);
}

namespace {
const GpuKernels<&copy_pieces> registered;
}

}  // namespace lamina::kernels::cuda
