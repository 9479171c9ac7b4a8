// Chooses the kernel of each node, and whether the node can be a step of a section.
#pragma once
#include <optional>
#include <vector>

#include "graph/compile/compile.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

struct Selected {
  Device device;
  Kernel kernel;  // to run it as one instruction; empty for nodes that run nothing, and on a GPU for some ops that run only in sections
  std::optional<ir::SectionStep> step;
  std::shared_ptr<const section::Nested> nested;  // set when the step is a loop or branch
  std::string why_no_step;                        // of a loop or branch: why it cannot be a step
  int64_t scratch_bytes = 0;                      // temporary memory, passed to the kernel as an extra result
};
struct Selection {
  ir::Graph graph;              // nodes without a kernel are replaced by their decompositions
  std::vector<Selected> nodes;  // one per node of `graph`
};
Selection select_kernels(const ir::Graph& g, const Options& options);

// Why a GPU's section kernel cannot run the step on this device; null if it can. Always null for the null device, which runs nothing.
const char* why_in_no_section(const ir::SectionStep& step, const section::Nested* nested, Device device);

// Whether a node needs no kernel: input, constant, read, or a view of its input.
bool runs_nothing(const ir::Node& node);
// Whether the node, or one in its regions, prints, checks or is a collective: these keep one order, which one stream of the CPU keeps.
bool on_host(const ir::Node& node);

// A kernel that copies a view with any strides into a contiguous one.
Kernel copy_kernel(Device device, const TensorType& type);
ir::SectionStep copy_step(const TensorType& type);

}  // namespace lamina::compile
