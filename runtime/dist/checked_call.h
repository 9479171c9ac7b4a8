// CheckedCall: what every collective does around moving data. It compares the call on all ranks and keeps the flight record.
#pragma once
#include "runtime/core/mutex.h"
#include "runtime/dist/collectives.h"

namespace lamina::distributed {

class CheckedCall {
 public:
  // `entry`: op, dtype, counts. Throws on every rank if the ranks disagree.
  CheckedCall(Communicator& c, Entry entry, Subject subject);
  ~CheckedCall();
  CheckedCall(const CheckedCall&) = delete;

 private:
  void compare(uint64_t tensor_hash);
  Communicator& c_;
  const std::lock_guard<Mutex> turn_;
  Entry entry_;
  const int exceptions_;
};

}  // namespace lamina::distributed
