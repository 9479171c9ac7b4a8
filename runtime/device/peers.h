// Peers: the devices of a job's ranks, one of each rank, which exchange bytes in stream order.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/core/error.h"
#include "runtime/device/stream.h"

namespace lamina {

// One piece of an exchange. Between two ranks, the n-th piece that one sends is the n-th that the other receives, of the same length.
struct Transfer {
  int rank = 0;  // the other one
  void* data = nullptr;
  size_t bytes = 0;
  bool sends = false;
};
inline Transfer to_rank(int rank, const void* data, size_t bytes) { return {rank, const_cast<void*>(data), bytes, true}; }
inline Transfer from_rank(int rank, void* data, size_t bytes) { return {rank, data, bytes, false}; }

// How long a rank waits for others.
struct Patience {
  std::chrono::duration<double> warning{30}, failure{300};
  static LAMINA_API Patience of_settings();
};

// How a rank joins.
struct JoinPeers {
  Device device;  // of this rank; no other rank's
  int rank = 0, ranks = 1;
  std::string id;  // of peers_id() on one rank
  Patience patience;
  // Called by threads of Peers:
  std::function<std::string()> missing;             // which ranks are not there, for errors
  std::function<void(const std::string&)> warn;     // says it to people
  std::function<std::optional<Error>()> job_ended;  // why, if another rank has ended the job
  std::function<void(const Error&)> failed;         // started work has failed, and this rank's part has been aborted
};

// All ranks make the same calls in the same order with the same lengths. Calls return before the bytes have moved. A thread watches what
// has been started: a failure, or work that does not end within the patience, aborts this rank's part, so nobody waits for ever. Each later
// call, and the next wait for one of the streams, throws that error.
class Peers {
 public:
  virtual ~Peers() = default;  // waits for what was started; aborts it during an exception or after a failure

  // `what` is named in errors: "all_reduce of f32[100] 'w'".
  virtual void exchange(Stream& stream, std::span<const Transfer> transfers, const std::string& what) = 0;
  // The same number of bytes of each rank, in the order of ranks.
  virtual void all_gather(Stream& stream, const void* own, void* all, size_t bytes, const std::string& what) = 0;
  virtual void broadcast(Stream& stream, void* data, size_t bytes, int root, const std::string& what) = 0;
  // Of all ranks' f32 or f64, in place, in the library's order.
  virtual void sum(Stream& stream, DType dtype, void* data, int64_t count, const std::string& what) = 0;

  // Whether window() may be called: on all ranks, or on none.
  virtual bool has_windows() const = 0;
  // Memory of this device, zeroed, that kernels of the other ranks' devices read: its address on each rank, in the order of ranks. Empty
  // where this device does not reach all of them. It lives as long as this. A failure sets its first word to 1.
  virtual std::vector<char*> window(Stream& stream, size_t bytes, const std::string& what) = 0;
  // Watches what the stream does now, which may wait for other ranks, as if it were an exchange.
  virtual void watch(Stream& stream, const std::string& what) = 0;

  // Ends this rank's part: work that waits for others leaves. Later calls throw `why`.
  virtual void abort(const Error& why) = 0;
};

// What a Backend is, too, where its devices can exchange bytes with those of other ranks.
class LAMINA_API JoinsPeers {
 public:
  virtual ~JoinsPeers();
  virtual std::string device_id(Device device) = 0;  // the same in all processes that see this device
  virtual std::string peers_id() = 0;                // made on one rank, and passed by all
  // Collective: returns when all ranks have joined. Throws device where the library is missing or fails, collective when the patience is
  // over.
  virtual std::unique_ptr<Peers> join_peers(const JoinPeers& join) = 0;

  static JoinsPeers& of(Device device);  // its backend; throws device where that joins none
};

}  // namespace lamina
