// Ranks as threads of one process: for tests, and for several devices of one process.
#pragma once
#include <functional>

#include "runtime/dist/communicator.h"

namespace lamina::distributed {

// Calls body on `ranks` threads, each with its own rank's Communicator, and waits for all. If a rank throws, calls of the others throw,
// too; then the error of the rank that failed first is thrown.
LAMINA_API void run_ranks(int ranks, const std::function<void(Communicator&)>& body, Patience patience = Patience::of_settings());

}  // namespace lamina::distributed
