// Records launches as a CUDA graph, which the driver then starts with one call.
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

// Scratch memory of recorded launches. It lives as long as the graph; each recording gets the same blocks in the same order.
class GraphScratch {
 public:
  GraphScratch(CudaBackend& backend, const Stream& home) : backend_(backend), home_(home) {}
  ~GraphScratch();
  GraphScratch(const GraphScratch&) = delete;
  void* take(const Stream& stream, size_t bytes);
  bool give_back(void* data);  // false: not allocated here
  // Memory that stays with the graph and initially holds `contents`; the same owner gets the same memory in each recording.
  void* keep(const void* owner, std::span<const char> contents);
  void start_again();

  // The GraphScratch of this thread's current recording, or null.
  static GraphScratch* now();
  class Recording {  // sets now() for this thread
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
    void* stream;  // stream that used it in this recording; launches on others are not ordered after it
  };
  CudaBackend& backend_;
  Stream home_;  // the graph is launched here, so freed memory can be reused after it
  std::vector<Block> blocks_;
  std::map<const void*, Block> kept_;  // by owner
};

// Streams used only for recording, so that work which other threads start on their own streams is not recorded.
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

// A LaunchGraph that records from the second run on. With the addresses of the recording, the graph is launched as it is. With other
// addresses, the launches are recorded again and the executable graph is updated, or rebuilt if the update fails (different launches).
// Addresses that recur after others get an executable graph of their own, up to four.
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
  std::vector<Ready> ready_;    // most recently used first
  std::vector<size_t> missed_;  // hashes of the last addresses without a recording
  std::vector<Event> joins_;    // one per stream
};

}  // namespace lamina::cuda
