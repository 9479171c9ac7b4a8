// Processes of this system, by what /proc says.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/dist/flight_record.h"

namespace lamina::distributed {

// This process, without its collectives.
RankStatus this_process(int rank);

struct Process {
  bool dead = false, stopped = false;
  int signal = 0;  // that killed it; 0: unknown, also once its parent has asked
};
Process process_of(int64_t pid);
std::string death_text(int signal);

// Ranks that the same daemon of the launcher has started here, this one among them, by the variables of its other children: rank and pid.
// MPI need not run. Empty where the system does not tell.
std::map<int, int64_t> ranks_beside();

}  // namespace lamina::distributed
