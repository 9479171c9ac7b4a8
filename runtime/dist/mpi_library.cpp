#include "runtime/dist/mpi_library.h"

#include <dlfcn.h>

#include <atomic>
#include <filesystem>

#include "runtime/core/beside.h"
#include "runtime/core/error.h"

namespace lamina::distributed {
namespace {

std::atomic<const LaminaMpi*> provided = nullptr;

MpiLibrary find_library() {
  MpiLibrary out;
  if (const LaminaMpi* table = provided) {
    out.table = table;
    return out;
  }
  out.path = beside_this_library("liblamina_mpi.so");
  const OpenedLibrary library = open_library(out.path);
  auto* table_of = library.handle ? reinterpret_cast<const LaminaMpi* (*)()>(dlsym(library.handle, "lamina_mpi")) : nullptr;
  if (library.missing) {
    out.path.clear();
    out.why = cat("Lamina was built without MPI: ", library.why);
  } else if (!table_of) {
    out.why = cat("liblamina_mpi.so cannot be opened: ", library.handle ? out.path : library.why);
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
  static const MpiLibrary* found = new MpiLibrary(find_library());  // never closed
  return *found;
}

std::string mpi_library_path() {
  const std::string path = beside_this_library("liblamina_mpi.so");
  std::error_code failed;
  return std::filesystem::exists(path, failed) ? path : "";
}

}  // namespace lamina::distributed
