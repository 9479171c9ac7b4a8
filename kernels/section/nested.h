// Loops and branches inside a section: steps of the kinds loop and branch. Their bodies are tables of their own, whose buffers lie in the
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

// Where a buffer of an inner table lies.
struct InnerBuffer {
  int32_t operand = -1;  // of the step: inputs from 0, then outputs; -1: a constant, at the view's address
  int64_t offset = 0;    // bytes
  int64_t slice = 0;     // bytes from one iteration's to the next one's; 0: the same in all
  View view;
};
// Stacked inputs of a scan on a GPU that stay on the host. The GPU has room for two chunks of their slices, a ring, which the host fills
// behind the launch while it runs.
struct Infeed {
  int32_t chunk = 0;            // slices; 0: all inputs are on the device
  std::vector<int32_t> inputs;  // of the step
};
struct InnerProgram {
  std::shared_ptr<const TableWithLoops> table;
  std::vector<InnerBuffer> buffers;
  std::vector<BufferRef> constants;  // whose addresses views have
};

// What a loop or branch step does. Its inputs: branch: the bool, then what is used; loop: the carried values, stacked ones, what is used,
// the count. Its outputs: the results, then temporary memory. Carried values change in the outputs' place.
struct Nested {
  enum class Kind : uint8_t { branch, while_loop, scan };
  Kind kind = Kind::branch;
  std::vector<InnerProgram>
      programs;  // branch: where true, where false; while_loop: condition (a bool at the start of the temporary memory), body; scan: body
  std::vector<int64_t> carried_bytes;  // per carried value
  std::vector<int64_t> stacked_bytes;  // scan: bytes of a slice of each stacked result
  int64_t limit = -1;                  // scan: the length; while_loop: the most iterations, or -1
  int32_t count = -1;                  // scan: the operand that says how many slices, or -1
  bool reverse = false;
  Infeed infeed;  // scan, in a section's outermost table alone
};

// "scan of 100 iterations"
LAMINA_API std::string describe(const Nested& nested);

struct TableWithLoops : Table {
  std::vector<std::shared_ptr<const Nested>> nested;  // Step::code of loops and branches
  std::vector<profiler::Name> names;                  // per step, for profilers: "dense_1/dense train.py:9"; may be empty
};

}  // namespace lamina::section

namespace lamina::kernels::cpu {
// run_section of a TableWithLoops. While a profiler listens each step is a range, on each thread that does a share of it.
LAMINA_API void run_section_with_loops(const KernelCall& call);
}  // namespace lamina::kernels::cpu
