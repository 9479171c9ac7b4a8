// Elementwise programs and copies on fixed addresses: a list of calls that can be repeated cheaply. For loop bodies, where choosing the
// functions would take longer than running them.
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
  static bool fits_copy(int64_t bytes);
  void add_copy(const CallOperand& in, const CallOperand& out, int64_t bytes);

  void run() const {
    for (const Call& c : calls_) c.loop(c.n, c.operands[0], c.operands[1], c.operands[2], c.operands[3]);
  }
  void advance(int64_t slices) {
    for (const Moving& m : moving_) calls_[m.call].operands[m.which] += slices * m.slice;
  }

 private:
  struct Call {
    Loop loop;
    int64_t n;
    char* operands[4];  // the result, then those of the loop
  };
  struct Moving {
    uint32_t call, which;
    int64_t slice;
  };
  void call(Loop loop, int64_t n, const CallOperand& to, const CallOperand& a, const CallOperand& b = {}, const CallOperand& c = {});

  std::vector<Call> calls_;
  std::vector<Moving> moving_;
  std::vector<std::vector<char>> scratch_;
};

}  // namespace lamina::kernels::cpu
