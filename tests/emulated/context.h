// Contexts of fibers: a stack, and the registers of a fiber that does not run.
#pragma once
#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace lamina::kernels::cuda::emulation {

struct Context {
#if defined(__x86_64__)
  void* sp = nullptr;
#else
  ucontext_t registers;
#endif
  char* stack = nullptr;
  size_t size = 0;
};

// The context begins with a call of `main`, which does not return, on its stack.
void start(Context& c, void (*main)());
void switch_contexts(Context& from, Context& to);

}  // namespace lamina::kernels::cuda::emulation
