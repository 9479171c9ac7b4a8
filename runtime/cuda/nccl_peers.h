// Peers by NCCL, which moves bytes, and adds in sum() alone. Communicators are nonblocking: NCCL returns at once and is polled, so no
// thread waits inside of it. ncclCommAbort and ncclCommDestroy are exceptions, which wait for this rank's kernels to leave. After a failure
// the communicator is aborted once, because NCCL then guarantees nothing about it.
//
// NCCL does not compare what ranks call: ranks that differ wait for each other until the patience is over. runtime/dist compares.
#pragma once
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/cuda/nccl.h"
#include "runtime/device/peers.h"

namespace lamina::cuda {

class CudaBackend;

std::string nccl_id(const NcclApi& api);

class NcclPeers final : public Peers {
 public:
  // `backend` and `api` must outlive it.
  NcclPeers(CudaBackend& backend, const NcclApi& api, const JoinPeers& join);
  ~NcclPeers() override;

  void exchange(Stream& stream, std::span<const Transfer> transfers, const std::string& what) override;
  void all_gather(Stream& stream, const void* own, void* all, size_t bytes, const std::string& what) override;
  void broadcast(Stream& stream, void* data, size_t bytes, int root, const std::string& what) override;
  void sum(Stream& stream, DType dtype, void* data, int64_t count, const std::string& what) override;
  bool has_windows() const override { return api_.peer_pointer != nullptr; }
  std::vector<char*> window(Stream& stream, size_t bytes, const std::string& what) override;
  void watch(Stream& stream, const std::string& what) override;
  void abort(const Error& why) override;

 private:
  using Clock = std::chrono::steady_clock;
  // What was started and has perhaps not ended.
  struct Started {
    Event end;
    Stream stream;
    std::string what;
    Clock::time_point begun;
    bool warned = false;
  };

  struct Window {
    void* data = nullptr;
    void* handle = nullptr;  // NCCL's
  };
  std::vector<char*> make_window(size_t bytes, const std::string& what);
  void stop_kernels() noexcept;
  void start(Stream& stream, const std::string& what, const std::function<void()>& calls);
  void require_status(int status, const char* call, const std::string& what) const;
  void require_done(int status, const char* call, const std::string& what) const;
  void settle(const char* call, const std::string& what);
  bool is_ready(const char* call, const std::string& what);
  std::optional<Error> late(Clock::time_point begun, bool& warned, const std::string& what) const;
  void finish();
  void end(const Error& why) noexcept;
  void forget(Started& started);
  void watch();
  std::optional<Error> look();
  std::string rank_text() const;

  CudaBackend& backend_;
  const NcclApi& api_;
  const JoinPeers join_;
  const int exceptions_;  // in flight at construction
  Mutex mutex_;           // held during a call
  Condition changed_;
  void* communicator_ = nullptr;
  std::vector<Window> windows_;
  Stream stopping_;  // on which the host stops kernels that wait in windows
  std::deque<Started> started_;
  std::vector<Event> free_events_;
  std::optional<Error> why_ended_;
  bool stop_ = false;
  std::thread watch_;
};

}  // namespace lamina::cuda
