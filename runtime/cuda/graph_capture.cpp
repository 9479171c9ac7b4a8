#include "runtime/cuda/graph_capture.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/device/recording.h"

namespace lamina::cuda {
namespace {

constexpr size_t kMostReady = 4, kMissesKept = 8;

// Making the graph failed before anything was started.
struct NoGraph {
  cudaError_t status;
  std::string why;
};

void require(const CudaApi& api, cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  api.take_last_error();
  throw NoGraph{status, cat("cannot ", doing, ": ", api.error_name(status))};
}

thread_local GraphScratch* scratch_now = nullptr;

}  // namespace

GraphScratch* GraphScratch::now() { return scratch_now; }
GraphScratch::Recording::Recording(GraphScratch* scratch) : before_(std::exchange(scratch_now, scratch)) {}
GraphScratch::Recording::~Recording() { scratch_now = before_; }

GraphScratch::~GraphScratch() {
  for (Block& block : blocks_) backend_.free(home_, block.data, block.bytes);
  for (auto& [owner, block] : kept_) backend_.free(home_, block.data, block.bytes);
}

void* GraphScratch::take(const Stream& stream, size_t bytes) {
  if (bytes == 0) return nullptr;
  for (Block& block : blocks_)
    if (!block.taken && block.bytes >= bytes && (!block.stream || block.stream == stream.native)) {
      block.taken = true, block.stream = stream.native;
      return block.data;
    }
  Recording none(nullptr);
  blocks_.reserve(blocks_.size() + 1);
  void* data = backend_.allocate(home_, bytes);
  blocks_.push_back({data, bytes, true, stream.native});
  return data;
}

bool GraphScratch::give_back(void* data) {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.data == data; });
  if (found == blocks_.end()) return false;
  found->taken = false;
  return true;
}

void* GraphScratch::keep(const void* owner, std::span<const char> contents) {
  const auto [at, is_new] = kept_.try_emplace(owner, Block{nullptr, contents.size(), true, nullptr});
  if (!is_new) return at->second.data;
  const Recording none(nullptr);
  try {
    at->second.data = backend_.allocate(home_, contents.size());
    backend_.copy(home_, at->second.data, contents.data(), contents.size(), CopyKind::to_device);
  } catch (...) {
    if (at->second.data) backend_.free(home_, at->second.data, contents.size());
    kept_.erase(at);
    throw;
  }
  return at->second.data;
}

void GraphScratch::start_again() {
  for (Block& block : blocks_) block.taken = false, block.stream = nullptr;
}

std::vector<CaptureStreams::Lane> CaptureStreams::take(CudaBackend& backend, Device device, size_t count) {
  std::vector<Lane> lanes;
  lanes.reserve(count);
  {
    std::lock_guard lock(mutex_);
    while (lanes.size() < count && !idle_.empty()) lanes.push_back(idle_.back()), idle_.pop_back();
  }
  try {
    while (lanes.size() < count) {
      Lane& lane = lanes.emplace_back();
      lane.stream = backend.create_stream(device);
      lane.event = backend.create_event(device);
    }
  } catch (...) {
    destroy(lanes);
    throw;
  }
  return lanes;
}

void CaptureStreams::give_back(std::vector<Lane> lanes) noexcept {
  try {
    std::lock_guard lock(mutex_);
    idle_.insert(idle_.end(), lanes.begin(), lanes.end());
  } catch (const std::bad_alloc&) {  // streams are made on demand
    destroy(lanes);
  }
}

void CaptureStreams::destroy(std::vector<Lane>& lanes) {
  for (Lane& lane : lanes) {
    if (lane.event.native) lane.event.backend->destroy_event(lane.event);
    try {
      if (lane.stream.native) lane.stream.backend->destroy_stream(lane.stream);
    } catch (...) {  // nothing is lost
    }
  }
  lanes.clear();
}

RecordedGraph::~RecordedGraph() {
  drop();
  for (Event& event : joins_) backend_.destroy_event(event);
}

void RecordedGraph::run(std::span<Stream> streams, std::span<void* const> addresses,
                        const std::function<void(std::span<Stream>)>& launches) {
  CurrentDevice current(backend_.api(), device_);
  if (launch_recorded(streams, addresses, launches)) return;
  joins_.reserve(streams.size());
  while (streams.size() > 1 && joins_.size() < streams.size()) joins_.push_back(backend_.create_event(device_));
  if (streams.size() > 1) backend_.record(streams[0], joins_[0]);
  for (size_t s = 1; s < streams.size(); ++s) backend_.wait(streams[s], joins_[0]);
  launches(streams);
  for (size_t s = 1; s < streams.size(); ++s) backend_.record(streams[s], joins_[s]), backend_.wait(streams[0], joins_[s]);
}

// False: the launches should be started one by one.
bool RecordedGraph::launch_recorded(std::span<Stream> streams, std::span<void* const> addresses,
                                    const std::function<void(std::span<Stream>)>& launches) {
  // Work that runs once needs no graph; and the first run loads kernels, which should not happen during capture.
  if (!std::exchange(ran_, true) || !why_not_.empty() || profiler::step_clock_runs()) return false;
  const CudaApi& api = backend_.api();
  try {
    if (!scratch_) scratch_ = std::make_unique<GraphScratch>(backend_, streams[0]);
    Ready& ready = ready_for(streams, addresses, launches);
    require(api, api.graph_launch(ready.executable, native(streams[0])), "launch the graph");
    return true;
  } catch (const NoGraph& e) {
    drop();
    if (ends_the_context(e.status)) throw error_of(api, e.status, "run launches as a graph; it is an earlier launch that failed", device_);
    why_not_ = e.why;
  } catch (const Error& e) {
    // If the error is theirs, launching one by one throws it again.
    drop();
    why_not_ = e.parts.why.empty() ? e.parts.what : cat(e.parts.what, " (", e.parts.why, ")");
  } catch (const std::bad_alloc&) {  // out of host memory; the next call may succeed
    drop();
    throw;
  }
  return false;
}

RecordedGraph::Ready& RecordedGraph::ready_for(std::span<Stream> streams, std::span<void* const> addresses,
                                               const std::function<void(std::span<Stream>)>& launches) {
  const CudaApi& api = backend_.api();
  auto at = std::find_if(ready_.begin(), ready_.end(), [&](const Ready& r) {
    return std::equal(addresses.begin(), addresses.end(), r.addresses.begin(), r.addresses.end());
  });
  if (at == ready_.end()) {
    const bool own = came_before(addresses) && ready_.size() < kMostReady;
    at = ready_.empty() || own ? ready_.emplace(ready_.end()) : ready_.end() - 1;
  }
  std::rotate(ready_.begin(), at, at + 1);
  Ready& ready = ready_.front();
  if (ready.executable && std::equal(addresses.begin(), addresses.end(), ready.addresses.begin(), ready.addresses.end())) return ready;

  std::vector<void*> now(addresses.begin(), addresses.end());  // from here on, an executable and its addresses change together
  struct Graph {                                               // committed at the end
    const CudaApi& api;
    cudaGraph_t graph;
    ~Graph() { api.graph_destroy(graph); }
  } graph{api, record(streams.size(), launches)};
  if (ready.executable) {
    cudaGraphExecUpdateResultInfo result{};
    const cudaError_t status = api.graph_update(ready.executable, graph.graph, &result);
    if (status != cudaSuccess) {
      api.take_last_error();
      if (ends_the_context(status)) require(api, status, "update the graph");
      api.graph_executable_destroy(std::exchange(ready.executable, nullptr));
    }
  }
  if (!ready.executable) require(api, api.graph_instantiate(&ready.executable, graph.graph, 0), "make the graph ready to run");
  ready.addresses = std::move(now);
  return ready;
}

// Whether these addresses were missed recently and so are likely to recur.
bool RecordedGraph::came_before(std::span<void* const> addresses) {
  size_t hash = addresses.size();
  for (void* address : addresses) hash = (hash ^ reinterpret_cast<uintptr_t>(address)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  if (std::find(missed_.begin(), missed_.end(), hash) != missed_.end()) return true;
  if (missed_.size() == kMissesKept) missed_.erase(missed_.begin());
  missed_.push_back(hash);
  return false;
}

cudaGraph_t RecordedGraph::record(size_t streams, const std::function<void(std::span<Stream>)>& launches) {
  const CudaApi& api = backend_.api();
  CaptureStreams& stock = backend_.capture_streams(device_);
  std::vector<CaptureStreams::Lane> lanes = stock.take(backend_, device_, streams);
  std::vector<Stream> on;
  const auto event = [&](size_t lane) { return native(lanes[lane].event); };
  bool begun = false;
  try {
    for (const CaptureStreams::Lane& lane : lanes) on.push_back(lane.stream);
    scratch_->start_again();
    // Relaxed mode: launches may load code and allocate memory, neither of which is part of the graph. No other thread uses these streams.
    require(api, api.capture_begin(native(on[0]), cudaStreamCaptureModeRelaxed), "begin to record");
    begun = true;
    if (streams > 1) require(api, api.event_record(event(0), native(on[0])), "record an event");
    for (size_t s = 1; s < streams; ++s) require(api, api.stream_wait(native(on[s]), event(0), 0), "record a branch");
    {
      GraphScratch::Recording recording(scratch_.get());
      launches(on);
    }
    for (size_t s = 1; s < streams; ++s) {
      require(api, api.event_record(event(s), native(on[s])), "record an event");
      require(api, api.stream_wait(native(on[0]), event(s), 0), "record the end of a branch");
    }
    cudaGraph_t graph = nullptr;
    begun = false;
    require(api, api.capture_end(native(on[0]), &graph), "record the launches");
    stock.give_back(std::move(lanes));
    return graph;
  } catch (...) {
    cudaGraph_t half = nullptr;
    if (begun && api.capture_end(native(on[0]), &half) == cudaSuccess && half) api.graph_destroy(half);
    api.take_last_error();
    CaptureStreams::destroy(lanes);
    throw;
  }
}

void RecordedGraph::drop() {
  for (Ready& ready : ready_)
    if (ready.executable) backend_.api().graph_executable_destroy(ready.executable);
  ready_.clear();
  scratch_.reset();
}

}  // namespace lamina::cuda
