// CudaBackend: NVIDIA GPUs over a table of cudart calls. CUDA is not called before the first question about a device.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/mutex.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/convolutions.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/cuda/graph_capture.h"
#include "runtime/cuda/library_use.h"
#include "runtime/cuda/nccl.h"
#include "runtime/cuda/products.h"
#include "runtime/cuda/staging.h"
#include "runtime/device/backend.h"
#include "runtime/device/peers.h"

namespace lamina::cuda {

NcclApi system_nccl();

class CudaBackend final : public Backend, public JoinsPeers {
 public:
  explicit CudaBackend(const CudaApi& api, std::function<NcclApi()> load_nccl = system_nccl);
  ~CudaBackend() override { opened_.clear(); }  // before the members that freeing needs

  const char* name() const override { return "cuda"; }
  int device_count() override;
  std::string unavailable_reason() override { return found().reason; }
  DeviceProperties properties(Device device) override;
  std::vector<LibraryReport> libraries() override;
  void capture_range(bool on) override;

  Stream default_stream(Device device) override;
  Stream create_stream(Device device) override;
  void destroy_stream(Stream& stream) override;
  Event create_event(Device device) override;
  void destroy_event(Event& event) override;
  void record(Stream& stream, Event& event) override;
  void wait(Stream& stream, Event& event) override;
  void synchronize(Stream& stream) override;

  void* allocate(Stream& stream, size_t bytes) override;
  void free(Stream& stream, void* data, size_t bytes) override;
  void copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) override;

  FaultSite fault_site(Stream& stream, DescribeFault describe, const std::string& about = {}) override;
  void launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) override;
  void* memory_of_recording(const void* owner, std::span<const char> contents) override;
  std::unique_ptr<LaunchGraph> launch_graph(Device device) override;  // null with LAMINA_CUDA_GRAPHS=off

  std::string device_id(Device device) override;
  std::string peers_id() override;
  std::unique_ptr<Peers> join_peers(const JoinPeers& join) override;  // by NCCL

  Products& products();          // large matrix products, by cuBLASLt
  Convolutions& convolutions();  // large convolutions, by cuDNN
  // Whether the kernel may start with this much shared memory. Calls cudart once per kernel and size.
  bool allow(Device device, const void* kernel, unsigned shared_bytes);
  int64_t pooled(Device device);  // bytes that the memory pool keeps for later
  CaptureStreams& capture_streams(Device device) { return open(device).capture_streams; }
  const CudaApi& api() const { return api_; }
  void keep_error(const Stream& stream, const Error& error);  // for the next wait for the stream

 private:
  static constexpr unsigned kAlwaysAllowed = 48 * 1024;  // bytes of shared memory that every kernel may use
  struct Found {
    int count = 0;       // of cards
    std::string reason;  // why count is 0
  };
  // The state of a logical device, made on its first use.
  struct Opened {
    std::once_flag once;
    Stream stream;
    cudaMemPool_t pool = nullptr;  // null if the driver has no memory pools
    CaptureStreams capture_streams;
    std::unique_ptr<Staging> staging;
    Fault* fault = nullptr;  // pinned memory in which kernels report faults
    Mutex allowed_mutex;
    std::map<const void*, unsigned> allowed;  // bytes of shared memory, by kernel
  };

  const Found& found();
  Opened& open(Device device);
  void require(Device device);
  void* try_allocate(Opened& opened, Stream& stream, size_t bytes, cudaError_t* status);
  [[noreturn]] void throw_out_of_memory(Opened& opened, Device device, size_t bytes);
  const NcclApi& nccl();
  const CudaApi& api_;
  std::once_flag asked_;
  Found found_;
  std::vector<std::unique_ptr<Opened>> opened_;  // of every logical device that there may be
  FaultLog faults_;
  std::once_flag products_once_;
  std::unique_ptr<Products> products_;
  std::once_flag convolutions_once_;
  std::unique_ptr<Convolutions> convolutions_;
  LazyApi<NcclApi> nccl_;
  Mutex errors_mutex_;
  std::map<void*, Error> errors_;  // the first error of each stream, until a caller sees it
};

// The instruction that this thread is launching, for errors of libraries; "" if none.
const char* launching_instruction();

// Makes a device current and restores the previous one on leaving, because other libraries in the process share that state.
class CurrentDevice {
 public:
  CurrentDevice(const CudaApi& api, Device device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const CudaApi& api_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace lamina::cuda
