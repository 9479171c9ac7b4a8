#include "runtime/core/rank_of_thread.h"

namespace lamina {

distributed::Communicator*& rank_of_thread() {
  thread_local distributed::Communicator* rank = nullptr;
  return rank;
}

}  // namespace lamina
