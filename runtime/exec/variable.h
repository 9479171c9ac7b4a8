// VariableState: a Variable's value at run time.
#pragma once
#include <string>

#include "runtime/core/mutex.h"
#include "runtime/device/buffer.h"

namespace lamina::exec {

// A program that writes it holds the mutex. Readers lock it only to take the buffer. A writer never changes a buffer that has other
// holders.
struct VariableState {
  Mutex mutex;
  BufferRef buffer;  // null until initialised
  TensorType type;
  Device device;
  std::string name;
  uint64_t version = 0;
};

LAMINA_API BufferRef read(VariableState& variable);  // the complete current value; throws state when not initialised
LAMINA_API void write(VariableState& variable, BufferRef value);

}  // namespace lamina::exec
