// CRC-32, the checksum of tensors in files.
#pragma once
#include <functional>

#include "runtime/io/files.h"

namespace lamina::io {

LAMINA_API uint32_t crc32(std::span<const std::byte> bytes);
// Of bytes with the CRC-32 `before`, followed by `size` bytes with the CRC-32 `next`.
LAMINA_API uint32_t joined_crc32(uint32_t before, uint32_t next, uint64_t size);
// Of `size` bytes that are handled in parts, several threads at once: bytes_of(begin, size) returns the bytes of a part.
LAMINA_API uint32_t crc32_of_parts(size_t size, const std::function<std::span<const std::byte>(size_t begin, size_t size)>& bytes_of);

}  // namespace lamina::io
