// Allocations that fail. The program's operator new and posix_memalign, and the buffers of backends that a test wraps, ask here.
#pragma once
#include <cstdint>

namespace lamina::tests {

enum class Failing { once, from_then_on };
enum class Threads { this_one, all };

// Until stop() or its end the allocation number `index` (1 is the first) fails; 0: none, they are only counted. One at a time.
class FailingAllocations {
 public:
  FailingAllocations(int64_t index, Failing manner, Threads threads = Threads::this_one);
  ~FailingAllocations() { stop(); }
  FailingAllocations(const FailingAllocations&) = delete;
  void stop();
  int64_t asked() const;  // how many allocations there were
  bool failed() const;    // whether one of them was made to fail
};

bool allocation_fails();  // one more allocation is asked for: whether it must fail
// Blocks of operator new that were taken while allocations could fail and have not been given back.
int64_t blocks_alive();
// While this returns true on a thread, what it allocates is neither counted nor fails: a fake of a library is no part of Lamina.
void set_outside(bool (*outside)());

}  // namespace lamina::tests
