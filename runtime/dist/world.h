// The ranks of this job. The first call of any of these finds out what has started the process; a process without a launcher is one rank.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/dist/communicator.h"
#include "runtime/dist/launch.h"

namespace lamina::distributed {

LAMINA_API int rank();
LAMINA_API int size();
// Throws for launch variables that are half set or contradict each other, and under mpirun or srun when MPI cannot be used: never N worlds
// of one rank.
LAMINA_API Communicator& world();
// This thread's rank where ranks are threads (RankScope), else world().
LAMINA_API Communicator& current();
// For its lifetime, this thread is the rank of `communicator`.
class LAMINA_API RankScope {
 public:
  explicit RankScope(Communicator& communicator);
  ~RankScope();
  RankScope(const RankScope&) = delete;

 private:
  Communicator* before_;
};
LAMINA_API const Launch& launch();
LAMINA_API bool is_started();            // whether world() was called
LAMINA_API void set_step(int64_t step);  // for reports
// The end of this rank, which waits for all others. At the latest, the end of the process calls it. No collective may follow.
LAMINA_API void end_world();
// Ends the job on all ranks because this one has failed, with a report. Returns if there is no other rank.
LAMINA_API void fail(const std::string& why);

// What `python -m lamina doctor` says of MPI: its plug-in or why there is none.
LAMINA_API std::string mpi_report();

}  // namespace lamina::distributed
