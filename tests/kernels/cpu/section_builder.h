// Builds sections by hand for tests: named buffers, steps, and a run of them.
#pragma once
#include <initializer_list>
#include <vector>

#include "kernels/section/table.h"
#include "runtime/device/backend.h"

namespace lamina::section {

class SectionBuilder {
 public:
  // A buffer with its own memory. Add the section's inputs first.
  int input(std::vector<float> values);
  int input_integers(std::vector<int64_t> values);
  int output(int64_t count);
  int inner(int64_t count);  // an output whose values nothing outside of the section needs: a run may not write them
  int alias(int buffer);     // another number for the same memory

  Step& add(StepKind kind, Partition partition, int32_t rows, int32_t k, int32_t n, std::vector<Operand> ins, std::vector<Operand> outs);
  int code(kernels::ElementwiseCode code);

  void finish(int threads);  // places barriers and validates
  void run();                // on cpu:0
  std::vector<float> values(int buffer) const;
  void set(int buffer, const std::vector<float>& values);

  Table table;
  std::vector<OperandRange> ranges;
  int inputs = 0;

 private:
  struct Memory {
    std::vector<char> bytes;
    DType dtype = DType::f32;
    int64_t count = 0;
  };
  std::vector<Memory> memories_;
  std::vector<int> memory_of_;  // per buffer
};

// Programs that optimizers produce.
kernels::ElementwiseCode descent_code(bool rate_first);      // (g, w, rate) -> w - rate * g
kernels::ElementwiseCode momentum_code();                    // (g, w, m, rate) -> w - rate * (0.9 m + g), 0.9 m + g
kernels::ElementwiseCode unary_code(kernels::ScalarOp op);   // (x) -> op(x)
kernels::ElementwiseCode binary_code(kernels::ScalarOp op);  // (a, b) -> op(a, b)
kernels::ElementwiseCode identity_code();                    // (x) -> x

}  // namespace lamina::section
