// What started this process, by the variables that launchers set.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::distributed {

struct Launch {
  std::string launcher;  // "mpirun (Open MPI)", "srun", ...; "" when there is none
  bool mpi = false;      // MPI has started this process as one of `size`
  bool nccl = false;     // torchrun has, and only NCCL joins the ranks
  int rank = 0, size = 1;
  bool size_known = true;  // false: only MPI itself knows it
  int local_rank = 0;
  std::string meeting;                 // "host:port" where ranks that NCCL joins find each other
  std::string hint;                    // for people; "" when there is nothing to say
  std::vector<std::string> variables;  // "OMPI_COMM_WORLD_RANK=1", all that were found
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
LAMINA_API std::optional<std::string> environment(const char* name);  // of the process

// Throws invalid_argument for variables that are half set, are no numbers, or contradict each other.
LAMINA_API Launch launch_of(const Environment& environment);

}  // namespace lamina::distributed
