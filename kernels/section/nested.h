// Loops and branches inside a section: steps of kind loop and branch. Their bodies are tables of their own, whose buffers are inside the
// step's operands.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/section/table.h"
#include "runtime/core/view.h"
#include "runtime/device/buffer.h"
#include "runtime/device/profiler.h"

namespace lamina::section {

struct TableWithLoops;

// The location of an inner table's buffer.
struct InnerBuffer {
  int32_t operand = -1;  // of the step: inputs from 0, then outputs; -1: a constant at the view's address
  int64_t offset = 0;    // bytes
  int64_t slice = 0;     // bytes per iteration; 0: the same in all
  View view;
};
// Infeed: stacked inputs of a scan on a GPU that stay on the host. The GPU has a ring of two chunks of slices, which the host fills while
// the section runs.
struct Infeed {
  int32_t chunk = 0;            // slices per chunk; 0: all inputs are on the device
  std::vector<int32_t> inputs;  // of the step
};
struct InnerProgram {
  std::shared_ptr<const TableWithLoops> table;
  std::vector<InnerBuffer> buffers;
  std::vector<BufferRef> constants;  // own the memory that views point to
};

// The content of a loop or branch step. Inputs of a branch: the bool, then captures; of a loop: carried values, stacked values, captures,
// count. Outputs: results, then temporary memory. Carried values are updated in place in the outputs.
struct Nested {
  enum class Kind : uint8_t { branch, while_loop, scan };
  Kind kind = Kind::branch;
  std::vector<InnerProgram>
      programs;  // branch: true, false; while_loop: condition (its bool is at the start of the temporary memory), body; scan: body
  std::vector<int64_t> carried_bytes;  // per carried value
  std::vector<int64_t> stacked_bytes;  // scan: bytes per slice of each stacked result
  int64_t limit = -1;                  // scan: the length; while_loop: maximum of iterations, or -1
  int32_t count = -1;                  // scan: the operand with the number of slices, or -1
  bool reverse = false;
  Infeed infeed;  // scan, only in a section's outermost table
};

// "scan of 100 iterations"
LAMINA_API std::string describe(const Nested& nested);

struct TableWithLoops : Table {
  std::vector<std::shared_ptr<const Nested>> nested;  // indexed by Step::code of loops and branches
  std::vector<profiler::Name> names;                  // per step, for profilers: "dense_1/dense train.py:9"; may be empty
};

}  // namespace lamina::section

namespace lamina::kernels::cpu {
// run_section for a TableWithLoops. While a profiler listens, each step is a range on each thread that takes part.
LAMINA_API void run_section_with_loops(const KernelCall& call);
}  // namespace lamina::kernels::cpu
