// From lowered work to a Program: slots, instructions, sections, streams and events.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/compile/compile.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

// Where a value is in memory: a view into a storage.
struct Place {
  int storage = -1;
  int64_t offset = 0;  // bytes
  View view;
  int life = 0;  // index among the values that use the same bytes one after another
};

// A node (or a copy) to run.
struct Work {
  std::string name;
  int node = -1;
  Device device;
  Kernel kernel;                                  // empty: a copy from another device
  const ir::SectionStep* step = nullptr;          // null: cannot be a step of a section
  std::shared_ptr<const section::Nested> nested;  // set when the step is a loop or branch
  std::string why_no_step;                        // of a loop or branch: why it cannot be a step
  std::vector<Place> inputs, outputs;
  SourceLine line;
  section::Infeed infeed;  // of a loop on a GPU: its inputs that stay on the host
  bool is_update = false;  // whether a result is assigned to a Variable
  int owner = -1;          // the thread that runs all of it; -1: shared among threads as the step says
};

// Work that becomes one instruction.
struct Group {
  size_t begin = 0, end = 0;
  bool section = false;
  bool alone = false;     // nothing else may run on its device at the same time, exchanges aside
  bool exchange = false;  // between ranks, on a stream of its own
  int stream = 0;
  std::vector<int> done;  // with several streams: per stream, its last group known to have ended when this one starts; -1: none
};

struct Lowered {
  std::vector<Work> work;                                // in order
  std::vector<Group> groups;                             // in order; filled together with `streams` by plan_streams
  std::vector<Device> streams;                           // the first stream of a device also allocates and frees its buffers
  std::vector<std::unique_ptr<ir::SectionStep>> copies;  // owns steps that Work points to
  std::vector<exec::Storage> storages;                   // with their offsets in the arena
  std::vector<Device> storage_devices;
  std::vector<int> first_use, last_use;  // per storage: first and last index into work
  std::vector<exec::VariableUse> variables;
  std::vector<BufferRef> constants;
  std::vector<Place> outputs;
  std::vector<TensorType> output_types;
  std::vector<Device> output_devices;
  std::vector<Device> devices;
  std::vector<int64_t> arena_bytes;
};

// Of the products that the work makes; 0 for other work that is no step of a section.
double multiply_adds(const Work& work, const ir::Graph& g);
double bytes_of(const Work& work);  // of its inputs and outputs
// Why work with a step is better, or can only be, a launch of its own; null if it joins a section. For GPUs.
const char* why_in_no_section(const Work& work, const Options& options);
std::shared_ptr<const exec::Program> emit_program(Lowered lowered, const ir::Graph& g, const Options& options, int threads);

}  // namespace lamina::compile
