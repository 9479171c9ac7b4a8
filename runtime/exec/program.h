// Program: the compiled form of a graph. A flat list of instructions over buffer slots, with streams and events.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/source_line.h"
#include "runtime/core/type.h"
#include "runtime/device/buffer.h"
#include "runtime/device/kernel.h"

namespace lamina::exec {

// A kind of memory. An arena is one allocation per device and call; outputs are never inside it.
enum class StorageKind : uint8_t { input, variable, constant, arena, output };

struct Storage {
  StorageKind kind = StorageKind::arena;
  int index = 0;       // which input, variable, constant or output; for an arena: index into Program::devices
  int64_t offset = 0;  // in an arena: bytes from its start
  int64_t bytes = 0;
};

// A tensor inside a storage, whole or as a view (reshape, transpose, slice).
struct Slot {
  int storage = 0;
  int64_t offset = 0;  // bytes from the storage's start
  View view;           // without data, which is set for each call
};

struct Instruction {
  std::string name;  // "dense_relu", "section 612 steps"
  Kernel kernel;
  std::vector<int> inputs, outputs;  // slots
  int stream = 0;
  int source_stream = -1;         // for a copy from another device (kernel is empty): the stream that makes its input
  SourceLine line;                // the user's line
  std::vector<int> wait_for;      // events to wait for before it starts
  int signal = -1;                // the event recorded after it, or -1
  std::string detail;             // first line for profilers: layer and fused ops, or a section's layers; the rest for print()
  int section_steps = 0;          // of a section
  std::string why_in_no_section;  // why it is not part of a section, if known
  bool alone = false;             // nothing else may run on its device at the same time
  bool host_effect = false;       // it prints, checks, or is a collective of ranks: these keep the program's order on all devices
  double flops = 0, bytes = 0;    // its arithmetic, and what its steps read and write
  bool waits =
      false;  // its launch does more than launch, for instance wait for a loop's condition or for other ranks: it cannot be recorded
};

struct VariableUse {
  std::string name;
  TensorType type;
  Device device;
  bool written = false;        // the call locks the variable and gets exclusive use of its buffer before it starts
  bool written_first = false;  // written before any read: needs no value yet
};

struct StreamUse {
  Device device;
};

// A placement that the planner compared, for explain().
struct Candidate {
  std::string name;         // "cpu:0 alone"
  double microseconds = 0;  // of a call, by the model; below 0: not modelled
  std::string why;          // why it was taken, or lost
};

struct Program {
  std::vector<TensorType> inputs;  // concrete
  std::vector<Device> input_devices;
  std::vector<VariableUse> variables;
  std::vector<BufferRef> constants;
  std::vector<TensorType> outputs;  // concrete
  std::vector<Device> output_devices;
  std::vector<int> output_slots;  // an output's slot covers its own storage, or an input's, variable's or constant's entire storage
  std::vector<Storage> storages;
  std::vector<Slot> slots;
  std::vector<Instruction> instructions;
  std::vector<Device> devices;  // one arena each
  std::vector<int64_t> arena_bytes;
  std::vector<StreamUse> streams;
  int events = 0;
  std::vector<Candidate> candidates;  // where the planner chose devices: the one taken first
  bool host_effects = false;          // print, assert, collectives: the call returns only when finished, and throws their errors
};

LAMINA_API std::string print(const Program& program);
// The number, from 0, of one of the program's streams on its device.
LAMINA_API int stream_number(const Program& program, int stream);

}  // namespace lamina::exec
