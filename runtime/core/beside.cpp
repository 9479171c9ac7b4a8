#include "runtime/core/beside.h"

#include <dlfcn.h>

#include <filesystem>

namespace lamina {

std::string beside_this_library(const char* file) {
  Dl_info self{};
  std::error_code failed;
  dladdr(reinterpret_cast<const void*>(&beside_this_library), &self);
  const auto path = std::filesystem::canonical(self.dli_fname ? self.dli_fname : "", failed).replace_filename(file);
  return failed ? "" : path.native();
}

OpenedLibrary open_library(const std::string& path) {
  OpenedLibrary out;
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) {
    out.missing = true, out.why = "there is no " + path;
    return out;
  }
  out.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!out.handle) out.why = dlerror();
  return out;
}

}  // namespace lamina
