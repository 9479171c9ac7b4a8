// CheckedCall: what every collective does around moving data. It compares the call on all ranks and keeps the flight record.
#pragma once
#include "runtime/core/mutex.h"
#include "runtime/dist/collectives.h"

namespace lamina::distributed {

LAMINA_API uint64_t hash_of_text(std::string_view text);  // the same in every process, which std::hash and ir::hash are not

class CheckedCall {
 public:
  // `entry`: op, dtype, counts. Throws on every rank if the ranks disagree. own_signal: that asked this rank to stop (stop.h).
  CheckedCall(Communicator& c, Entry entry, Subject subject, int own_signal = 0);
  ~CheckedCall();
  CheckedCall(const CheckedCall&) = delete;
  int signal() const { return signal_; }  // that asked any rank to stop; 0: none

 private:
  void compare(uint64_t tensor_hash);
  Communicator& c_;
  const std::lock_guard<Mutex> turn_;
  Entry entry_;
  int signal_;
  const int exceptions_;
};

// A call of a graph with collectives. Where it fails on this rank alone, as by a bad label among its rows, the other ranks' next collective
// of this call throws the same error, so that all ranks go on with the same call.
class LAMINA_API GraphCall {
 public:
  explicit GraphCall(Communicator& c);
  ~GraphCall();
  GraphCall(const GraphCall&) = delete;
  void failed(const Error& why) noexcept;

 private:
  Communicator& c_;
};
// f() as such a call.
template <class F>
auto in_graph_call(Communicator& c, F&& f) {
  GraphCall call(c);
  try {
    return f();
  } catch (const Error& e) {
    call.failed(e);
    throw;
  }
}

}  // namespace lamina::distributed
