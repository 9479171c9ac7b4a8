#include "runtime/device/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/core/error.h"

namespace lamina {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

TEST(Allocator, RoundsToClassesThatWasteAtMostAnEighth) {
  for (size_t bytes : {size_t(0), size_t(1), size_t(64), size_t(65), size_t(1000), size_t(1024), size_t(1025), size_t(5000), size_t(65537),
                       3 * kMiB + 1, size_t(1) << 40}) {
    const size_t rounded = Allocator::class_bytes(Allocator::class_of(bytes));
    EXPECT_GE(rounded, bytes);
    EXPECT_EQ(rounded % 64, 0u);
    EXPECT_LE(rounded, std::max(bytes + bytes / 8, bytes + 64)) << bytes;
    EXPECT_EQ(Allocator::class_of(rounded), Allocator::class_of(bytes));
  }
  for (size_t i = 1; i < 200; ++i) ASSERT_EQ(Allocator::class_of(Allocator::class_bytes(i - 1) + 1), i);
}

TEST(Allocator, ReusesFreedBlocks) {
  Allocator a("cpu:0", 64 * kMiB);
  void* first = a.allocate(5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 5000);
  a.free(first, 5000);
  EXPECT_GE(a.usage().cached, 5000u);
  void* again = a.allocate(4990);  // of the same size class
  EXPECT_EQ(again, first);
  EXPECT_EQ(a.usage().cached, 0u);
  a.free(again, 4990);
  EXPECT_EQ(a.usage().in_use, 0u);
  a.trim();
  EXPECT_EQ(a.usage().cached, 0u);
}

TEST(Allocator, KeepsABoundedCache) {
  Allocator a("cpu:0", 80 * kMiB);  // 10 MiB may be cached
  std::vector<void*> blocks;
  for (int i = 0; i < 15; ++i) blocks.push_back(a.allocate(kMiB));
  for (void* p : blocks) a.free(p, kMiB);
  EXPECT_LE(a.usage().cached, 10 * kMiB);
  EXPECT_GT(a.usage().cached, 0u);
  void* large = a.allocate(20 * kMiB);
  const size_t cached = a.usage().cached;
  a.free(large, 20 * kMiB);  // larger than the whole cache
  EXPECT_EQ(a.usage().cached, cached);
  EXPECT_EQ(a.usage().in_use, 0u);
}

TEST(Allocator, OutOfMemoryNamesRequestedFreeAndCached) {
  Allocator a("cpu:1", 10 * kMiB);
  void* held = a.allocate(6 * kMiB);
  void* cached = a.allocate(kMiB);
  a.free(cached, kMiB);
  try {
    a.allocate(5 * kMiB);
    FAIL() << "it fitted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::out_of_memory);
    EXPECT_EQ(e.parts.what, "out of memory on cpu:1: asked for 5242880 bytes");
    EXPECT_EQ(e.parts.why, "of 10485760 bytes 4194304 are free and 0 are cached");  // the cache was freed first
  }
  void* fits = a.allocate(4 * kMiB);
  a.free(fits, 4 * kMiB);
  a.free(held, 6 * kMiB);
  EXPECT_THROW(a.allocate(SIZE_MAX), Error);
  EXPECT_THROW(a.allocate(SIZE_MAX / 2), Error);
}

TEST(Allocator, IsSafeFromManyThreads) {
  Allocator a("cpu:0", 256 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&a, t] {
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = size_t(64 + (i * 37 + t * 11) % 5000);
        auto* p = static_cast<unsigned char*>(a.allocate(bytes));
        p[0] = p[bytes - 1] = static_cast<unsigned char>(t);
        if (p[0] != t) abort();
        a.free(p, bytes);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(a.usage().in_use, 0u);
}

}  // namespace
}  // namespace lamina
