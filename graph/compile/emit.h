// From placed work to a Program: slots, instructions, sections, streams and events.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/compile/compile.h"
#include "kernels/section/nested.h"

namespace lamina::compile {

// A value's memory: a view inside a storage.
struct Place {
  int storage = -1;
  int64_t offset = 0;  // bytes
  View view;
  int life = 0;  // of values that lie there one after the other: which
};

// A node (or a copy) to run.
struct Work {
  std::string name;
  int node = -1;
  Device device;
  Kernel kernel;                                  // empty: a copy from another device
  const ir::SectionStep* step = nullptr;          // null: cannot be a step of a section
  std::shared_ptr<const section::Nested> nested;  // of a step that is a loop or branch
  std::string why_no_step;                        // of a loop or branch
  std::vector<Place> inputs, outputs;
  SourceLine line;
  section::Infeed infeed;  // of a loop on a GPU: inputs that are on the host
  int owner = -1;          // the thread that does all of it; -1: shared as the step says
};

// Work that is one instruction.
struct Group {
  size_t begin = 0, end = 0;
  bool section = false;
  bool alone = false;  // nothing else may run on its device meanwhile
  int stream = 0;
  std::vector<int> done;  // where a device has several streams: per stream, its last group that has ended when this one starts, or -1
};

struct Lowered {
  std::vector<Work> work;                                // in order
  std::vector<Group> groups;                             // in order; made with `streams` by streams.h
  std::vector<Device> streams;                           // the first one of a device is where its buffers are filled and freed
  std::vector<std::unique_ptr<ir::SectionStep>> copies;  // steps that Work points to
  std::vector<exec::Storage> storages;                   // with their offsets
  std::vector<Device> storage_devices;
  std::vector<int> first_use, last_use;  // per storage: indices into work
  std::vector<exec::VariableUse> variables;
  std::vector<BufferRef> constants;
  std::vector<Place> outputs;
  std::vector<TensorType> output_types;
  std::vector<Device> output_devices;
  std::vector<Device> devices;
  std::vector<int64_t> arena_bytes;
};

std::shared_ptr<const exec::Program> emit_program(Lowered lowered, const ir::Graph& g, const Options& options, int threads);

}  // namespace lamina::compile
