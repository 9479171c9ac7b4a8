// Collectives by NCCL over several GPUs of one or more processes.
//
// No call blocks inside NCCL, which would hang if another rank has failed: communicators are nonblocking, and each call here ends within a
// time limit. Exceptions are ncclCommAbort and ncclCommDestroy, which wait for this process's ranks; with several communicators on one GPU,
// aborting one may wait for the others. After a failure this process's ranks are aborted once, because NCCL then guarantees nothing about
// the communicator. All ranks can make a new one.
//
// All ranks must make the same calls in the same order with the same sizes. NCCL does not check this; ranks that differ wait for each
// other.
#pragma once
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/core/view.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/cuda/nccl.h"
#include "runtime/device/stream.h"

namespace lamina::cuda {

enum class ReduceOp : uint8_t { sum, product, max, min, mean };  // integer means are rounded towards 0
const char* name(ReduceOp op);

// One rank's operands, on its device. Both are contiguous; `in` may be `out` where they have the same size.
struct RankOperands {
  Stream stream;
  View in, out;
};

inline constexpr std::chrono::milliseconds kCollectiveTimeLimit = std::chrono::minutes(5);

// For a communicator over several processes: one process creates the id and sends it to the others.
nccl::UniqueId unique_id(const NcclApi& api);

class Communicator {
 public:
  // All ranks are in this process, one per GPU. Both tables must outlive the communicator.
  Communicator(const NcclApi& api, const CudaApi& cuda, std::vector<Device> devices,
               std::chrono::milliseconds limit = kCollectiveTimeLimit);
  // This process has ranks `first`, first + 1, ... of `ranks`, one per device. Returns when all ranks have joined.
  Communicator(const NcclApi& api, const CudaApi& cuda, const nccl::UniqueId& id, int ranks, int first, std::vector<Device> devices,
               std::chrono::milliseconds limit = kCollectiveTimeLimit);
  ~Communicator();  // finalizes; aborts during an exception or if that fails
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int ranks() const { return ranks_; }

  // These run in order on the ranks' streams. Pass one entry per rank of this process, from one thread. Throw device when NCCL reports a
  // failure (out_of_memory for memory), collective on timeout, state after a failure or finalize(); type and invalid_argument, with nothing
  // done, for unsupported operands. Bool and i16 can be moved, but not reduced.
  void all_reduce(std::span<const RankOperands> own, ReduceOp op);  // out has in's size
  void broadcast(std::span<const RankOperands> own, int root);      // out has in's size; only the root's in is read
  void reduce_scatter(std::span<const RankOperands> own,
                      ReduceOp op);                    // `in` has as many pieces of out's size as there are ranks; rank r gets piece r
  void all_gather(std::span<const RankOperands> own);  // `out` has as many pieces of in's size as there are ranks; piece r is rank r's

  // Waits, up to the time limit, for all work on the ranks' streams. Throws errors found meanwhile.
  void synchronize(std::span<const Stream> streams);
  // Waits for started work and frees NCCL's resources. A collective: all ranks must call it.
  void finalize();

 private:
  struct Rank {
    int number = 0;
    Device device;
    void* handle = nullptr;  // null before creation and after release
  };
  using Call = std::function<int(Rank&, const RankOperands*)>;

  void connect(const nccl::UniqueId& id);
  void guarded(const std::function<void()>& work);
  void collective(const char* call, std::span<const RankOperands> own, const std::string& detail, const Call& each);
  void in_group(const char* call, const std::string& text, const std::function<int(Rank&)>& each);
  void wait(const char* call, const std::string& text, const std::function<bool(Rank&)>& done);
  bool is_ready(Rank& rank, const char* call, const std::string& text);
  void destroy();
  void abort() noexcept;
  void check_operands(std::span<const RankOperands> own, int64_t in_pieces, int64_t out_pieces, bool reduces,
                      const std::string& detail) const;
  std::string ranks_text(const std::vector<const Rank*>& some) const;
  std::string own_text() const;
  Error error_of(int status, const char* call, const std::string& text, const Rank* rank) const;
  Error time_is_over(const char* call, const std::string& text, const std::vector<const Rank*>& late) const;

  const NcclApi& api_;
  const CudaApi& cuda_;
  const int ranks_;
  const std::chrono::milliseconds limit_;
  const int exceptions_;  // exceptions in flight at construction
  Mutex mutex_;
  std::vector<Rank> own_;
  bool ended_ = false;
  std::string why_ended_;  // "" after finalize()
};

}  // namespace lamina::cuda
