// Launches recorded as a CUDA graph, which the driver starts with one call.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

class CudaBackend;

// Memory for the time of a launch, of launches that are recorded: theirs as long as the graph lives. Each recording gets it in the same
// order.
class GraphScratch {
 public:
  GraphScratch(CudaBackend& backend, const Stream& home) : backend_(backend), home_(home) {}
  ~GraphScratch();
  GraphScratch(const GraphScratch&) = delete;
  void* take(const Stream& stream, size_t bytes);
  bool give_back(void* data);  // false: it is not of this
  // Memory that stays with the graph and begins as `contents`: in each recording the same for the same owner.
  void* keep(const void* owner, std::span<const char> contents);
  void start_again();

  // Of the recording that this thread is in, or null.
  static GraphScratch* now();
  class Recording {  // makes it the one of this thread
   public:
    explicit Recording(GraphScratch* scratch);
    ~Recording();
    Recording(const Recording&) = delete;

   private:
    GraphScratch* before_;
  };

 private:
  struct Block {
    void* data;
    size_t bytes;
    bool taken;
    void* stream;  // whose launches have used it in this recording: those of others are not ordered behind them
  };
  CudaBackend& backend_;
  Stream home_;  // the graph is launched here, so that memory given back is free after it
  std::vector<Block> blocks_;
  std::map<const void*, Block> kept_;  // by owner
};

// Streams of a device that nothing but recordings use: what other threads start meanwhile on a stream of theirs is not recorded.
class CaptureStreams {
 public:
  struct Lane {
    Stream stream;
    Event event;
  };
  std::vector<Lane> take(CudaBackend& backend, Device device, size_t count);
  void give_back(std::vector<Lane> lanes) noexcept;
  static void destroy(std::vector<Lane>& lanes);
  ~CaptureStreams() { destroy(idle_); }

 private:
  Mutex mutex_;
  std::vector<Lane> idle_;
};

// A LaunchGraph that records from the second run on. Same addresses as in a recording: it is launched as it is. Others: the launches are
// recorded again and the executable graph is updated; only when that cannot be, as when there are other launches, it is made anew.
// Addresses that come back after others get an executable graph of their own, up to four.
class RecordedGraph final : public LaunchGraph {
 public:
  RecordedGraph(CudaBackend& backend, Device device) : backend_(backend), device_(device) {}
  ~RecordedGraph() override;
  void run(std::span<Stream> streams, std::span<void* const> addresses, const std::function<void(std::span<Stream>)>& launches) override;
  std::string why_not() const override { return why_not_; }

 private:
  struct Ready {
    cudaGraphExec_t executable = nullptr;
    std::vector<void*> addresses;
  };
  bool launch_recorded(std::span<Stream> streams, std::span<void* const> addresses, const std::function<void(std::span<Stream>)>& launches);
  Ready& ready_for(std::span<Stream> streams, std::span<void* const> addresses, const std::function<void(std::span<Stream>)>& launches);
  cudaGraph_t record(size_t streams, const std::function<void(std::span<Stream>)>& launches);
  bool came_before(std::span<void* const> addresses);
  void drop();

  CudaBackend& backend_;
  const Device device_;
  bool ran_ = false;
  std::string why_not_;
  std::unique_ptr<GraphScratch> scratch_;
  std::vector<Ready> ready_;    // the one used last is first
  std::vector<size_t> missed_;  // hashes of the last addresses that no recording had
  std::vector<Event> joins_;    // per stream
};

}  // namespace lamina::cuda
