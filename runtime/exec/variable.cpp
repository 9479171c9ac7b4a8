#include "runtime/exec/variable.h"

#include "runtime/core/error.h"

namespace lamina::exec {

BufferRef read(VariableState& variable) {
  std::lock_guard lock(variable.mutex);
  if (!variable.buffer)
    throw Error(ErrorKind::state, {.what = cat("the variable '", variable.name, "' has no value yet"),
                                   .where = "",
                                   .why = "it was read before it was initialised",
                                   .fix = "assign it first"});
  return variable.buffer;
}

void write(VariableState& variable, BufferRef value) {
  std::lock_guard lock(variable.mutex);
  variable.buffer = std::move(value);
  ++variable.version;
}

}  // namespace lamina::exec
