// Bytes of bools that come in from outside. Kernels take a bool for 0 or 1; NumPy and files may hold other bytes for true.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lamina {

// Whether each byte is 0 or 1.
inline bool are_bools(std::span<const std::byte> bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  uint64_t seen = 0;
  size_t i = 0;
  for (; i + kWord <= bytes.size(); i += kWord) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, kWord);
    seen |= word;
  }
  for (; i < bytes.size(); ++i) seen |= uint64_t(bytes[i]);
  return (seen & ~uint64_t(0x0101010101010101)) == 0;
}

// Writes 1 for each byte that is neither 0 nor 1.
inline void make_bools(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
}

}  // namespace lamina
