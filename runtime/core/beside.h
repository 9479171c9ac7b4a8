// Other libraries of Lamina, which lie beside this one.
#pragma once
#include <string>

#include "runtime/core/export.h"

namespace lamina {

// The full path that a file beside this library has. Empty where this library's own path is unknown.
LAMINA_API std::string beside_this_library(const char* file);
// Opens a library; returns its handle. Null: `why` says why, and `missing` whether there is no such file.
struct OpenedLibrary {
  void* handle = nullptr;
  bool missing = false;
  std::string why;
};
LAMINA_API OpenedLibrary open_library(const std::string& path);

}  // namespace lamina
