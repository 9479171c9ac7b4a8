// Elementwise programs on fixed addresses: a list of calls that can be repeated cheaply. For loop bodies, where choosing the functions
// would take longer than running them.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cpu/elementwise_table.h"
#include "kernels/elementwise.h"

namespace lamina::kernels::cpu {

struct CallOperand {
  char* data = nullptr;
  bool scalar = false;  // one number for all elements
  bool fixed = false;   // of a scalar: its value is known now and never changes
  int64_t slice = 0;    // bytes from one iteration to the next
};

class ElementwiseCalls {
 public:
  // Whether a program on n elements can be such a list: it must be small and without half types.
  static bool fits(const ElementwiseCode& code, int64_t n);
  void add(const ElementwiseCode& code, const std::vector<CallOperand>& in, const std::vector<CallOperand>& out, int64_t n);

  void run() const {
    for (const Call& call : calls_) call.loop(call.n, call.out, call.a, call.b, call.c);
  }
  void advance(int64_t slices) {
    for (const Moving& m : moving_) {
      Call& call = calls_[m.call];
      char*& pointer = m.which == 0 ? call.out : m.which == 1 ? call.a : m.which == 2 ? call.b : call.c;
      pointer += slices * m.slice;
    }
  }

 private:
  struct Call {
    Loop loop;
    int64_t n;
    char *out, *a, *b, *c;
  };
  struct Moving {
    uint32_t call, which;
    int64_t slice;
  };
  std::vector<Call> calls_;
  std::vector<Moving> moving_;
  std::vector<std::vector<char>> scratch_;
};

}  // namespace lamina::kernels::cpu
