// From a graph to a Program: passes of Stage::plan -> select kernels -> schedule -> lower (which plans memory).
#pragma once
#include <memory>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/exec/program.h"

namespace lamina::compile {

struct Options {
  Device device;                         // where nodes go that have no device of their own
  std::vector<Device> input_devices;     // where inputs come from; empty: `device`
  std::vector<Device> variable_devices;  // where variables live; empty: `device`
  bool sections = true;                  // group small nodes into sections
  int threads = 0;                       // of a CPU device; 0: config::threads()
  bool lone_sections = false;            // also of one step
  int64_t memory_budget = 0;             // bytes of the arena to stay within by computing values again, if that can be; 0: none
  bool share_all_sections = false;       // among threads, however little work they are: for tests
  int streams = 0;                       // at most so many of one device, up to 4; 0: as many as pay on a GPU, one on a CPU
  bool share_all_streams = false;        // also what is too small to gain by it: for tests
  bool own_outputs = false;              // every output gets a storage of its own, also one that is an input or a variable
  bool inside = false;                   // of a loop or branch, whose text shows what is inside of it
};
// g has concrete shapes only (ir::specialize) and is not changed. Throws device for an op that has no kernel there.
LAMINA_API std::shared_ptr<const exec::Program> compile(const ir::Graph& g, const Options& options);

}  // namespace lamina::compile
