// Makes allocations fail. The program's operator new and posix_memalign, and buffers of wrapped backends, ask here.
#pragma once
#include <cstdint>

namespace lamina::tests {

enum class Failing { once, from_then_on };
enum class Threads { this_one, all };

// Until stop() or destruction, allocation number `index` (from 1) fails; 0: none fails, they are only counted. One at a time.
class FailingAllocations {
 public:
  FailingAllocations(int64_t index, Failing manner, Threads threads = Threads::this_one);
  ~FailingAllocations() { stop(); }
  FailingAllocations(const FailingAllocations&) = delete;
  void stop();
  int64_t asked() const;  // number of allocations
  bool failed() const;    // whether one was made to fail
};

bool allocation_fails();  // counts one more allocation; whether it must fail
// Blocks of operator new allocated while failing was active and not yet freed.
int64_t blocks_alive();
// While this returns true on a thread, its allocations neither count nor fail: a fake of a library is not part of Lamina.
void set_outside(bool (*outside)());

}  // namespace lamina::tests
