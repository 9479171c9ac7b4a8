#include "runtime/core/stack.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lamina {
namespace {

struct Stack {
  uintptr_t low = 0, high = 0;  // high 0: not asked yet
  uintptr_t reserve = 0;
};
thread_local Stack stack;

void ask() {
  constexpr uintptr_t kMost = uintptr_t{1} << 20;
  void* low = nullptr;
  size_t size = 0;
  pthread_attr_t attributes;
  stack.high = 1;  // unknown: nothing is compared
  if (pthread_getattr_np(pthread_self(), &attributes)) return;
  if (!pthread_attr_getstack(&attributes, &low, &size) && size) {
    stack.low = reinterpret_cast<uintptr_t>(low);
    stack.high = stack.low + size;
    stack.reserve = std::min<uintptr_t>(size / 4, kMost);
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace

bool stack_runs_out() {
  if (!stack.high) [[unlikely]]
    ask();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here < stack.low + stack.reserve && here >= stack.low && here < stack.high;
}

}  // namespace lamina
