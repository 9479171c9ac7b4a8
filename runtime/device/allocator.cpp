#include "runtime/device/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "runtime/core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace lamina {
namespace {

constexpr size_t kGrain = 64, kSmallClasses = 16;  // up to 1024 bytes each multiple of 64 is a size class
constexpr size_t kStepBits = 3;                    // above, eight classes per power of two: at most 1/8 is wasted
constexpr size_t kHuge = size_t(2) << 20;
constexpr size_t kMostCached = size_t(1) << 30;

void* from_system(size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, bytes >= kHuge ? kHuge : kGrain, bytes) != 0) return nullptr;
  if (bytes >= kHuge) madvise(data, bytes, MADV_HUGEPAGE);  // fewer TLB misses for the weights of many layers
  return data;
}

}  // namespace

size_t Allocator::class_of(size_t bytes) {
  if (bytes <= kGrain * kSmallClasses) return bytes == 0 ? 0 : (bytes - 1) / kGrain;
  size_t last = bytes - 1, top = size_t(std::bit_width(last)) - 1;  // 2^top <= last
  size_t step = (last >> (top - kStepBits)) & ((1 << kStepBits) - 1);
  return kSmallClasses + ((top - 10) << kStepBits) + step;
}

size_t Allocator::class_bytes(size_t index) {
  if (index < kSmallClasses) return (index + 1) * kGrain;
  size_t above = index - kSmallClasses, top = 10 + (above >> kStepBits), step = above & ((1 << kStepBits) - 1);
  return (size_t(1) << top) + ((step + 1) << (top - kStepBits));
}

Allocator::Allocator(std::string device, size_t limit)
    : device_(std::move(device)), limit_(limit), cache_limit_(std::min(kMostCached, limit / 8)), cache_(class_of(SIZE_MAX / 4) + 1) {}

Allocator::~Allocator() { trim(); }

void* Allocator::allocate(size_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes <= limit_) {
    size_t index = class_of(bytes), size = class_bytes(index);
    auto& blocks = cache_[index];
    if (!blocks.empty()) {
      void* data = blocks.back();
      blocks.pop_back();
      cached_ -= size;
      in_use_ += size;
      ASAN_UNPOISON_MEMORY_REGION(data, bytes);
      return data;
    }
    if (in_use_ + cached_ + size > limit_) trim_locked();
    if (in_use_ + size <= limit_) {
      void* data = from_system(size);
      if (!data && cached_ > 0) {
        trim_locked();
        data = from_system(size);
      }
      if (data) {
        in_use_ += size;
        return data;
      }
    }
  }
  const size_t limit = limit_, free = limit_ - std::min(limit_, in_use_ + cached_), cached = cached_;
  lock.unlock();
  throw Error(ErrorKind::out_of_memory, {.what = cat("out of memory on ", device_, ": asked for ", bytes, " bytes"),
                                         .where = "",
                                         .why = cat("of ", limit, " bytes ", free, " are free and ", cached, " are cached"),
                                         .fix = "use a smaller batch or model, or free tensors that are no longer needed"});
}

void Allocator::free(void* data, size_t bytes) {
  if (!data) return;
  size_t index = class_of(bytes), size = class_bytes(index);
  std::unique_lock lock(mutex_);
  in_use_ -= size;
  bool keep = size <= cache_limit_ && in_use_ + size <= limit_;
  if (keep && cached_ + size > cache_limit_) trim_locked();  // the cached sizes do not match those in use: start afresh
  try {
    if (keep) cache_[index].push_back(data);
  } catch (const std::bad_alloc&) {  // no memory to cache it
    keep = false;
  }
  if (!keep) {
    lock.unlock();
    std::free(data);
    return;
  }
  cached_ += size;
  ASAN_POISON_MEMORY_REGION(data, size);
}

void Allocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Allocator::trim_locked() {
  for (size_t index = 0; index < cache_.size(); ++index) {
    for (void* data : cache_[index]) {
      ASAN_UNPOISON_MEMORY_REGION(data, class_bytes(index));
      std::free(data);
    }
    cache_[index].clear();
  }
  cached_ = 0;
}

void Allocator::set_limit(size_t limit) {
  std::lock_guard lock(mutex_);
  limit_ = limit, cache_limit_ = std::min(kMostCached, limit / 8);
  if (in_use_ + cached_ > limit_ || cached_ > cache_limit_) trim_locked();
}

Allocator::Usage Allocator::usage() {
  std::lock_guard lock(mutex_);
  return {in_use_, cached_, limit_};
}

}  // namespace lamina
