// Program: what a planned graph became. A flat list of instructions over buffer slots, with streams and events.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/source_line.h"
#include "runtime/core/type.h"
#include "runtime/device/buffer.h"
#include "runtime/device/kernel.h"

namespace lamina::exec {

// Where bytes lie. An arena is one allocation per device and call; outputs are never inside it.
enum class StorageKind : uint8_t { input, variable, constant, arena, output };

struct Storage {
  StorageKind kind = StorageKind::arena;
  int index = 0;       // which input, variable, constant or output; of an arena: which device of Program::devices
  int64_t offset = 0;  // of an arena: bytes from its start
  int64_t bytes = 0;
};

// A tensor inside a storage: a whole one, or a view of it (reshape, transpose, slice).
struct Slot {
  int storage = 0;
  int64_t offset = 0;  // bytes from the storage's start
  View view;           // data is null here; filled for each call
};

struct Instruction {
  std::string name;  // "dense_relu", "section 612 steps"
  Kernel kernel;
  std::vector<int> inputs, outputs;  // slots
  int stream = 0;
  int source_stream = -1;     // of a copy from another device (kernel is empty): where its input comes from
  SourceLine line;            // the user's line
  std::vector<int> wait_for;  // events, before it starts
  int signal = -1;            // the event recorded after it, or -1
  std::string detail;     // for profilers, in its first line: layer and what is fused, or a section's layers; then more text for print()
  int section_steps = 0;  // of a section
  std::string why_in_no_section;  // of what could have been a step of one, where that is known
  bool waits = false;             // its kernel waits for the device, as one that reads a loop's condition does: it cannot be recorded
};

struct VariableUse {
  std::string name;
  TensorType type;
  Device device;
  bool written = false;        // the call takes the variable's lock, and makes its buffer its own before it starts
  bool written_first = false;  // before any read: it needs no value yet
};

struct StreamUse {
  Device device;
};

struct Program {
  std::vector<TensorType> inputs;  // concrete
  std::vector<Device> input_devices;
  std::vector<VariableUse> variables;
  std::vector<BufferRef> constants;
  std::vector<TensorType> outputs;  // concrete
  std::vector<Device> output_devices;
  std::vector<int> output_slots;  // an output's slot is in its own storage, or is all of an input's, variable's or constant's storage
  std::vector<Storage> storages;
  std::vector<Slot> slots;
  std::vector<Instruction> instructions;
  std::vector<Device> devices;  // an arena each
  std::vector<int64_t> arena_bytes;
  std::vector<StreamUse> streams;
  int events = 0;
  bool host_effects = false;  // print, assert: has finished, and raises, when the call returns
};

LAMINA_API std::string print(const Program& program);
// Which of its device's streams one of the program's is, from 0.
LAMINA_API int stream_number(const Program& program, int stream);

}  // namespace lamina::exec
