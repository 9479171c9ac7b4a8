// Ranks as processes that MPI has started.
#pragma once
#include <memory>

#include "runtime/dist/communicator.h"
#include "runtime/dist/launch.h"
#include "runtime/dist/mpi_table.h"

namespace lamina::distributed {

class MpiCommunicator : public Communicator {
 public:
  using Communicator::Communicator;
  [[noreturn]] virtual void fail(const std::string& why) = 0;  // ends the job because of this rank
  virtual void finish() = 0;                                   // after end(): MPI_Finalize
};

// Initialises MPI and starts the control thread. Throws if what MPI says contradicts the launcher's variables.
std::unique_ptr<MpiCommunicator> start_mpi(const LaminaMpi& mpi, const Launch& launch);

}  // namespace lamina::distributed
