#include "runtime/io/checksum.h"

#include <zlib.h>

#include <algorithm>
#include <atomic>

#include "runtime/core/config.h"
#include "runtime/device/thread_pool.h"

namespace lamina::io {
namespace {

constexpr size_t kPart = size_t{4} << 20;  // bytes

uint32_t of_part(std::span<const std::byte> bytes) {
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

uint32_t joined_crc32(uint32_t before, uint32_t next, uint64_t size) { return uint32_t(crc32_combine(before, next, z_off_t(size))); }

uint32_t crc32(std::span<const std::byte> bytes) {
  return crc32_of_parts(bytes.size(), [&](size_t begin, size_t size) { return bytes.subspan(begin, size); });
}

uint32_t crc32_of_parts(size_t size, const std::function<std::span<const std::byte>(size_t, size_t)>& bytes_of) {
  const size_t parts = (size + kPart - 1) / kPart;
  if (parts <= 1) return of_part(bytes_of(0, size));
  const auto size_of_part = [&](size_t part) { return std::min(kPart, size - part * kPart); };
  std::vector<uint32_t> sums(parts);
  std::atomic<size_t> next{0};
  auto job = [&] {
    for (size_t part; (part = next++) < parts;) sums[part] = of_part(bytes_of(part * kPart, size_of_part(part)));
  };
  const int threads = int(std::min(parts, size_t(config::threads())));
  ThreadPool::of(Device{}).run(threads, [](void* f, int, int, ThreadPool::Barrier&) { (*static_cast<decltype(job)*>(f))(); }, &job);
  uint32_t sum = sums[0];
  for (size_t part = 1; part < parts; ++part) sum = joined_crc32(sum, sums[part], size_of_part(part));
  return sum;
}

}  // namespace lamina::io
