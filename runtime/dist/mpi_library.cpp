#include "runtime/dist/mpi_library.h"

#include <dlfcn.h>

#include <atomic>
#include <filesystem>

#include "runtime/core/error.h"

namespace lamina::distributed {
namespace {

std::atomic<const LaminaMpi*> provided = nullptr;

std::filesystem::path beside_this_library() {
  Dl_info self{};
  std::error_code failed;
  dladdr(reinterpret_cast<const void*>(&mpi_library), &self);
  const auto path = std::filesystem::canonical(self.dli_fname ? self.dli_fname : "", failed).replace_filename("liblamina_mpi.so");
  return failed ? std::filesystem::path() : path;
}

MpiLibrary open_library() {
  MpiLibrary out;
  if (const LaminaMpi* table = provided) {
    out.table = table;
    return out;
  }
  const std::filesystem::path path = beside_this_library();
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) {
    out.why = cat("Lamina was built without MPI: there is no ", path.native());
    return out;
  }
  out.path = path.native();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* table_of = library ? reinterpret_cast<const LaminaMpi* (*)()>(dlsym(library, "lamina_mpi")) : nullptr;
  if (!table_of) {
    const char* error = dlerror();
    out.why = cat("liblamina_mpi.so cannot be opened: ", error ? error : out.path);
  } else if (table_of()->version != kLaminaMpiVersion) {
    out.why = cat(out.path, " is of another version of Lamina");
  } else {
    out.table = table_of();
  }
  return out;
}

}  // namespace

void provide_mpi(const LaminaMpi* table) { provided = table; }

const MpiLibrary& mpi_library() {
  static const MpiLibrary* found = new MpiLibrary(open_library());  // never closed
  return *found;
}

std::string mpi_library_path() {
  const std::filesystem::path path = beside_this_library();
  std::error_code failed;
  return !path.empty() && std::filesystem::exists(path, failed) ? path.native() : "";
}

}  // namespace lamina::distributed
