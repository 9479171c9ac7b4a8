#include "tests/emulated/context.h"

#if defined(__x86_64__)
extern "C" void lamina_switch_fiber(void** save, void* load);
// Ends with a jump instead of a return, whose target the processor would always mispredict.
asm(R"(
.text
.type lamina_switch_fiber,@function
lamina_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size lamina_switch_fiber,.-lamina_switch_fiber
)");
#endif

namespace lamina::kernels::cuda::emulation {

void start(Context& c, void (*main)()) {
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(c.stack + c.size);
  // Equal stack tops would share cache sets, so each starts a little lower than the one before.
  static unsigned colour = 0;
  top -= 8 * (colour++ * 5 % 127) + 2;
  *--top = nullptr;  // the return address of main; keeps the stack 16-byte aligned as after a call
  *--top = reinterpret_cast<void*>(main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.sp = top;
#else
  getcontext(&c.registers);
  c.registers.uc_stack.ss_sp = c.stack;
  c.registers.uc_stack.ss_size = c.size;
  makecontext(&c.registers, main, 0);
#endif
}

void switch_contexts(Context& from, Context& to) {
#if defined(__x86_64__)
  lamina_switch_fiber(&from.sp, to.sp);
#else
  swapcontext(&from.registers, &to.registers);
#endif
}

}  // namespace lamina::kernels::cuda::emulation
