// Collectives by NCCL: what several GPUs, of one process or of several, compute together.
//
// No call waits inside of NCCL, which does not return where another rank has gone: its communicators are nonblocking, and each call here
// ends within a time limit, but for ncclCommAbort and ncclCommDestroy, which wait for this process's ranks: where several communicators
// hang on one GPU, aborting one may wait for the others. After a failure the ranks of this process are aborted, once, since NCCL promises
// nothing about a communicator after that; a new one can be made, by all ranks.
//
// All ranks make the same calls in the same order with the same sizes. NCCL does not compare them: where they differ, they wait for each
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

enum class ReduceOp : uint8_t { sum, product, max, min, mean };  // the mean of integers is rounded towards 0
const char* name(ReduceOp op);

// What one rank brings to a collective, on its device. Both are contiguous; `in` may be `out` where they have the same size.
struct RankOperands {
  Stream stream;
  View in, out;
};

inline constexpr std::chrono::milliseconds kCollectiveTimeLimit = std::chrono::minutes(5);

// For a communicator of several processes: one of them makes it and tells the others.
nccl::UniqueId unique_id(const NcclApi& api);

class Communicator {
 public:
  // All ranks are this process's, one for each of these GPUs. Both tables must live as long as this.
  Communicator(const NcclApi& api, const CudaApi& cuda, std::vector<Device> devices,
               std::chrono::milliseconds limit = kCollectiveTimeLimit);
  // Of `ranks` ranks this process has `first` and those after it, one for each of `devices`. Returns when all ranks are there.
  Communicator(const NcclApi& api, const CudaApi& cuda, const nccl::UniqueId& id, int ranks, int first, std::vector<Device> devices,
               std::chrono::milliseconds limit = kCollectiveTimeLimit);
  ~Communicator();  // finalizes, or aborts while an exception passes or when that fails
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int ranks() const { return ranks_; }

  // Started on the ranks' streams, in whose order they are done; one entry for each rank of this process, from one thread.
  // Throws device when NCCL says that something failed (out_of_memory when it was memory), collective when the time is over, state after a
  // failure or finalize(); type and invalid_argument, with nothing done, for operands that it cannot take. Bool and i16 are moved, but not
  // reduced.
  void all_reduce(std::span<const RankOperands> own, ReduceOp op);  // out has in's size
  void broadcast(std::span<const RankOperands> own, int root);      // out has in's size; only the root's in is read
  void reduce_scatter(std::span<const RankOperands> own,
                      ReduceOp op);                    // in is as many pieces of out's size as there are ranks: rank r gets piece r
  void all_gather(std::span<const RankOperands> own);  // out is as many pieces of in's size as there are ranks: piece r is rank r's

  // Waits until each rank's stream has done what was started on it, by the time limit. Throws what was found wrong meanwhile.
  void synchronize(std::span<const Stream> streams);
  // Waits for what was started, and gives NCCL's resources back. A collective too: all ranks call it.
  void finalize();

 private:
  struct Rank {
    int number = 0;
    Device device;
    void* handle = nullptr;  // null before it is made, and when it was given back
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
  const int exceptions_;  // that were passing when this was made
  Mutex mutex_;
  std::vector<Rank> own_;
  bool ended_ = false;
  std::string why_ended_;  // "" after finalize()
};

}  // namespace lamina::cuda
