// Which kernel runs each node, and whether it can be a step of a section.
#pragma once
#include <optional>
#include <vector>

#include "graph/compile/compile.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

struct Selected {
  Device device;
  Kernel kernel;  // as an instruction of its own; empty for nodes that run nothing, and on a GPU for some that only sections run
  std::optional<ir::SectionStep> step;
  std::shared_ptr<const section::Nested> nested;  // of a step that is a loop or branch
  std::string why_no_step;                        // of a loop or branch
  int64_t scratch_bytes = 0;                      // temporary memory that the kernel is given as one more result
};
struct Selection {
  ir::Graph graph;              // nodes that have no kernel replaced by their decompositions
  std::vector<Selected> nodes;  // one per node of it
};
Selection select_kernels(const ir::Graph& g, const Options& options);

// Why the section kernel of GPUs cannot run a step on this device, or null. The null device's is never run: every build has it.
const char* why_in_no_section(const ir::SectionStep& step, const section::Nested* nested, Device device);

// Whether a node runs nothing: input, constant, read, or another view of its input.
bool runs_nothing(const ir::Node& node);

// A kernel that copies a view of any strides into a contiguous one.
Kernel copy_kernel(Device device, const TensorType& type);
ir::SectionStep copy_step(const TensorType& type);

}  // namespace lamina::compile
