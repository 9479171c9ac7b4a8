// Traced programs as C99: a header and a source that need the C library and libm alone. graph/export_c/README.md says how.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/frontend/concrete_function.h"

namespace lamina {

// A function of what is exported. Variables that several functions have are one in the struct.
struct ExportedFunction {
  std::string name;  // of the C function, behind the model's
  std::shared_ptr<ConcreteFunction> function;
};
struct ExportOptions {
  std::string name;                           // of the struct, the files, and the beginning of every public name
  bool weights_in_file = false;               // read from the model's safetensors file instead of being arrays in the source
  std::map<std::string, int64_t> lengths;     // of open dimensions that have names
  std::map<std::string, Variable> variables;  // their names in header and file; others have their own
};
// Writes NAME.h, NAME.c and, if asked for, NAME.safetensors to a folder, which takes the place of the one before at one instant. Throws
// invalid_argument for what C code cannot have, with the user's line.
LAMINA_API void export_c(std::span<const ExportedFunction> functions, const std::string& folder, const ExportOptions& options);

}  // namespace lamina
