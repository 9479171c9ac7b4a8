// From a graph to a Program: passes of Stage::plan, kernel selection, scheduling, lowering (which plans memory).
#pragma once
#include <memory>
#include <vector>

#include "graph/cost/costs.h"
#include "graph/ir/graph.h"
#include "runtime/exec/program.h"

namespace lamina::compile {

// For Programs that become source text instead of running: what stands for a node's kernel, and the temporary memory that it needs. An
// empty one: the node's decomposition is taken.
struct TextKernel {
  Kernel kernel;
  int64_t scratch_bytes = 0;
};
using KernelWriter = TextKernel (*)(const ir::Node&, const ir::KernelRequest&);

struct Options {
  Device device;                         // for nodes without a device of their own
  std::vector<Device> input_devices;     // where the inputs are; empty: `device`
  std::vector<Device> variable_devices;  // where the Variables are; empty: `device`
  bool sections = true;                  // group small nodes into sections
  int threads = 0;                       // of a CPU device; 0: config::threads()
  bool lone_sections = false;            // also make sections of a single step
  std::vector<Device> candidates;        // for nodes on kAutomatic; empty: all devices of the kind of `device`, of null ones itself
  const cost::Costs* costs = nullptr;    // for the choice among them; null: Costs::here()
  int64_t device_memory = 0;             // what a plan may use of each device; 0: all that it has
  int64_t memory_budget = 0;             // limit of the arena in bytes, kept where possible by recomputing values; 0: none
  bool share_all_sections = false;       // among threads, even if they are small: for tests
  int streams = 0;                       // limit per device, at most 8; 0: as many as pay off on a GPU, up to 4, one on a CPU
  bool share_all_streams = false;        // also for work too small to gain from it: for tests
  bool own_outputs = false;              // each output gets its own storage, even if it is an input or a Variable
  KernelWriter writer = nullptr;         // makes kernels instead of the device's own
  bool inside = false;                   // compiling the body of a loop or branch, which explain() prints inside it
};
// Sharing work among threads costs a few microseconds; below this much of it one thread is faster.
constexpr double kFlopsWorthThreads = 6e6;

// g has concrete shapes only (ir::specialize) and is not changed. Throws device for an op without a kernel on its device, out_of_memory
// when a device has less memory than the plan needs there.
LAMINA_API std::shared_ptr<const exec::Program> compile(const ir::Graph& g, const Options& options);

}  // namespace lamina::compile
