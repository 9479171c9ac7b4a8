// Finds liblamina_mpi.so, which lies beside liblamina.so and is opened only for processes that MPI has started.
#pragma once
#include <string>

#include "runtime/core/export.h"
#include "runtime/dist/mpi_table.h"

namespace lamina::distributed {

struct MpiLibrary {
  const LaminaMpi* table = nullptr;  // null: `why`
  std::string path, why;
};
LAMINA_API const MpiLibrary& mpi_library();  // opens it at the first call
LAMINA_API std::string mpi_library_path();   // opens nothing; "" when there is none

}  // namespace lamina::distributed
