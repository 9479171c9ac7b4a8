#include "tests/allocations/failing.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace lamina::tests {
namespace {

constinit std::atomic<int64_t> asked_for{0}, failing_index{0}, failures{0}, alive{0};
constinit std::atomic<bool> armed{false}, all_threads{false}, goes_on{false};
constinit std::atomic<bool (*)()> outside_now{nullptr};
constinit thread_local bool this_thread = false;

bool counts() {
  if (!armed.load(std::memory_order_relaxed) || (!this_thread && !all_threads.load(std::memory_order_relaxed))) return false;
  bool (*outside)() = outside_now.load(std::memory_order_relaxed);
  return !outside || !outside();
}

// Header of every block of operator new, as large as its alignment.
struct Header {
  uint64_t counted;
  void* start;
};
constexpr size_t kHeader = 16;
static_assert(sizeof(Header) == kHeader);

void* take(size_t bytes, size_t alignment) {
  const bool counted = counts();
  if (counted && allocation_fails()) return nullptr;
  const size_t before = std::max(kHeader, alignment);
  if (bytes > SIZE_MAX - 2 * before) return nullptr;
  char* start =
      static_cast<char*>(alignment <= 16 ? std::malloc(bytes + before)
                                         : std::aligned_alloc(alignment, (bytes + before + alignment - 1) / alignment * alignment));
  if (!start) return nullptr;
  const Header header{counted, start};
  std::memcpy(start + before - kHeader, &header, kHeader);
  if (counted) alive.fetch_add(1, std::memory_order_relaxed);
  return start + before;
}

void give(void* data) {
  if (!data) return;
  Header header;
  std::memcpy(&header, static_cast<char*>(data) - kHeader, kHeader);
  if (header.counted) alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(header.start);
}

}  // namespace

FailingAllocations::FailingAllocations(int64_t index, Failing manner, Threads threads) {
  asked_for = 0, failures = 0, failing_index = index;
  goes_on = manner == Failing::from_then_on, all_threads = threads == Threads::all;
  this_thread = true;
  armed = true;
}
void FailingAllocations::stop() { armed = false, this_thread = false; }
int64_t FailingAllocations::asked() const { return asked_for; }
bool FailingAllocations::failed() const { return failures > 0; }

bool allocation_fails() {
  if (!counts()) return false;
  const int64_t number = asked_for.fetch_add(1, std::memory_order_relaxed) + 1, index = failing_index.load(std::memory_order_relaxed);
  if (index == 0 || (goes_on.load(std::memory_order_relaxed) ? number < index : number != index)) return false;
  failures.fetch_add(1, std::memory_order_relaxed);
  return true;
}

int64_t blocks_alive() { return alive; }
void set_outside(bool (*outside)()) { outside_now = outside; }

}  // namespace lamina::tests

void* operator new(size_t bytes) {
  if (void* data = lamina::tests::take(bytes, 16)) return data;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* data = lamina::tests::take(bytes, size_t(alignment))) return data;
  throw std::bad_alloc();
}
// Otherwise a sanitizer's would be used: std::stable_sort allocates its buffer here.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return lamina::tests::take(bytes, 16); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return lamina::tests::take(bytes, size_t(alignment));
}
void operator delete(void* data) noexcept { lamina::tests::give(data); }
void operator delete(void* data, size_t) noexcept { lamina::tests::give(data); }
void operator delete(void* data, std::align_val_t) noexcept { lamina::tests::give(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { lamina::tests::give(data); }

// The linker redirects Lamina's calls here (--wrap in cmake/tests.cmake).
extern "C" int __real_posix_memalign(void** data, size_t alignment, size_t bytes);
extern "C" int __wrap_posix_memalign(void** data, size_t alignment, size_t bytes) {
  return lamina::tests::allocation_fails() ? ENOMEM : __real_posix_memalign(data, alignment, bytes);
}
