#include "runtime/cuda/cuda_backend.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "runtime/core/settings.h"
#include "runtime/cuda/capture_range.h"
#include "runtime/cuda/launch_error.h"
#include "runtime/cuda/libraries.h"
#include "runtime/cuda/nccl_peers.h"
#include "runtime/device/memory.h"
#include "runtime/device/virtual_gpus.h"

namespace lamina {
namespace cuda {
namespace {

const bool registered = [] {
  provide_cuda([]() -> Backend& { return *new CudaBackend(cudart_api()); });
  memory::tell_pool(DeviceKind::gpu, [](Device device) { return static_cast<CudaBackend&>(cuda_backend()).pooled(device); });
  return true;
}();

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

// Without any driver, cudart's message is misleading: "the driver version is insufficient".
std::string explain(const CudaApi& api, cudaError_t status, int count) {
  int driver = 0, runtime = 0;
  api.driver_version(&driver);
  api.runtime_version(&runtime);
  api.take_last_error();
  if (driver == 0) {
    return "there is no NVIDIA driver: libcuda.so.1 was not found or does not load. Install the driver; in a container, pass the GPUs on "
           "(docker run --gpus all)";
  }
  if (status == cudaErrorInsufficientDriver) {
    return cat("the NVIDIA driver is too old: it supports CUDA ", version_text(driver), " and Lamina was built with CUDA ",
               version_text(runtime), ". Update the driver");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible ? cat("there is a driver, but no GPU that this process may use: CUDA_VISIBLE_DEVICES is '", visible,
                         "'. Unset it to see all")
                   : std::string(
                         "there is a driver, but it finds no GPU. nvidia-smi should list one; in a container, pass the GPUs on (docker run "
                         "--gpus all)");
  }
  if (status == cudaErrorInitializationError) {
    return "CUDA cannot be used in a process that was forked after CUDA was started in its parent. Start worker processes with spawn "
           "instead of fork";
  }
  return cat("the NVIDIA driver (CUDA ", version_text(driver), ") says ", api.error_name(status), " (", static_cast<int>(status),
             "): ", api.error_text(status));
}

// The launch in progress on this thread.
struct Launching {
  const char* name = "";
  SourceLine line;
};
thread_local Launching launching;

struct LaunchingFor {
  const Launching before = launching;  // launches can nest: a host loop launches its body's instructions
  explicit LaunchingFor(const Launching& now) { launching = now; }
  ~LaunchingFor() { launching = before; }
};

}  // namespace

const char* launching_instruction() { return launching.name; }

CurrentDevice::CurrentDevice(const CudaApi& api, Device device) : api_(api) {
  check(api, api.get_device(&before_), "ask for the current device", device);
  const int card = gpu_number(device);
  if (before_ == card) return;
  check(api, api.set_device(card), "make the device current", device);
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_) api_.set_device(before_);
}

NcclApi system_nccl() { return load_nccl(system_loader()); }

CudaBackend::CudaBackend(const CudaApi& api, std::function<NcclApi()> load_nccl) : api_(api), nccl_(std::move(load_nccl)) {}

const CudaBackend::Found& CudaBackend::found() {
  std::call_once(asked_, [this] {
    int count = 0;
    const cudaError_t status = api_.device_count(&count);
    if (status == cudaSuccess && count > 0) {
      found_.count = count;
      for (int i = 0; i < count * kMostGpuParts; ++i) opened_.push_back(std::make_unique<Opened>());
    } else {
      found_.reason = explain(api_, status, count);
    }
  });
  return found_;
}

int CudaBackend::device_count() { return found().count * gpu_parts(); }

void CudaBackend::require(Device device) {
  const Found& now = found();
  const int count = device_count();
  if (device.index >= 0 && device.index < count) return;
  throw Error(ErrorKind::device,
              {.what = cat("there is no device ", text(device)),
               .where = "cuda",
               .why = now.count ? cat("this machine has ", now.count, now.count == 1 ? " GPU" : " GPUs", ", counted from 0",
                                      gpu_parts() > 1 ? cat(", each split into ", gpu_parts()) : std::string())
                                : now.reason,
               .fix = now.count ? "use a smaller number, or look at CUDA_VISIBLE_DEVICES" : "use 'cpu', or make a GPU available"});
}

CudaBackend::Opened& CudaBackend::open(Device device) {
  require(device);
  Opened& opened = *opened_[static_cast<size_t>(device.index)];
  std::call_once(opened.once, [&] {
    note_gpu_use();
    // Keeps what was already made when a step fails.
    if (!opened.stream.native) opened.stream = create_stream(device);
    CurrentDevice current(api_, device);
    if (!opened.fault) {
      void* record = nullptr;
      check(api_, api_.allocate_host(&record, sizeof(Fault), cudaHostAllocMapped | cudaHostAllocPortable), "get pinned memory", device);
      opened.fault = new (record) Fault;
    }
    if (!opened.staging) opened.staging = std::make_unique<Staging>(api_);
    int pools = 0;
    check(api_, api_.device_attribute(&pools, cudaDevAttrMemoryPoolsSupported, gpu_number(device)), "ask for memory pools", device);
    if (!pools) return;
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location = {.type = cudaMemLocationTypeDevice, .id = gpu_number(device)};
    if (gpu_parts() > 1) wanted.maxSize = size_t(properties(device).memory);
    cudaMemPool_t pool = nullptr;
    check(api_, api_.pool_create(&pool, &wanted), "make a memory pool", device);
    // Freed memory stays in the pool: returning it to the driver at every synchronisation would stall each step.
    uint64_t keep = std::numeric_limits<uint64_t>::max();
    if (const cudaError_t status = api_.pool_set(pool, cudaMemPoolAttrReleaseThreshold, &keep); status != cudaSuccess) {
      api_.pool_destroy(pool);
      throw error_of(api_, status, "set up the memory pool", device);
    }
    opened.pool = pool;
  });
  return opened;
}

DeviceProperties CudaBackend::properties(Device device) {
  require(device);
  cudaDeviceProp p{};
  check(api_, api_.device_properties(&p, gpu_number(device)), "ask for the device's properties", device);
  return {.name = p.name,
          .memory = static_cast<int64_t>(p.totalGlobalMem) / gpu_parts(),
          .compute_capability = p.major * 10 + p.minor,
          .multiprocessors = p.multiProcessorCount / gpu_parts(),
          .shared_memory_per_block = static_cast<int64_t>(p.sharedMemPerBlockOptin),
          .threads = 1};
}

std::vector<LibraryReport> CudaBackend::libraries() { return library_reports(system_loader()); }

Stream CudaBackend::default_stream(Device device) { return open(device).stream; }

Stream CudaBackend::create_stream(Device device) {
  require(device);
  CurrentDevice current(api_, device);
  cudaStream_t made = nullptr;
  check(api_, api_.stream_create(&made, cudaStreamNonBlocking), "make a stream", device);
  return {.backend = this, .device = device, .native = made};
}

void CudaBackend::destroy_stream(Stream& stream) {
  if (!stream.native) return;
  {
    std::lock_guard lock(errors_mutex_);
    errors_.erase(stream.native);
  }
  const cudaError_t status = api_.stream_destroy(native(stream));
  stream.native = nullptr;
  if (status != cudaErrorCudartUnloading) check(api_, status, "destroy a stream", stream.device);
}

Event CudaBackend::create_event(Device device) {
  require(device);
  CurrentDevice current(api_, device);
  cudaEvent_t made = nullptr;
  check(api_, api_.event_create(&made, cudaEventDisableTiming), "make an event", device);
  return {.backend = this, .native = made};
}

void CudaBackend::destroy_event(Event& event) {
  if (event.native && api_.event_destroy(native(event)) != cudaSuccess) api_.take_last_error();
  event.native = nullptr;
}

void CudaBackend::record(Stream& stream, Event& event) {
  CurrentDevice current(api_, stream.device);
  check(api_, api_.event_record(native(event), native(stream)), "record an event", stream.device);
}

void CudaBackend::wait(Stream& stream, Event& event) {
  CurrentDevice current(api_, stream.device);
  check(api_, api_.stream_wait(native(stream), native(event), 0), "wait for an event", stream.device);
}

void CudaBackend::keep_error(const Stream& stream, const Error& error) {
  std::lock_guard lock(errors_mutex_);
  errors_.emplace(stream.native, error);
}

void CudaBackend::synchronize(Stream& stream) {
  const cudaError_t status = api_.stream_synchronize(native(stream));
  std::optional<Error> first;
  {
    std::lock_guard lock(errors_mutex_);
    if (const auto kept = errors_.find(stream.native); kept != errors_.end()) {
      first.emplace(kept->second);
      errors_.erase(kept);
    }
  }
  if (first) throw *first;
  check(api_, status, "finish what was started on the stream", stream.device);
  Opened& opened = *opened_[static_cast<size_t>(stream.device.index)];
  if (opened.fault)
    if (std::optional<Error> fault = faults_.take(*opened.fault)) throw *fault;
}

void* CudaBackend::try_allocate(Opened& opened, Stream& stream, size_t bytes, cudaError_t* status) {
  void* data = nullptr;
  *status = opened.pool ? api_.allocate_from_pool(&data, bytes, opened.pool, native(stream)) : api_.allocate(&data, bytes);
  if (*status == cudaErrorMemoryAllocation) api_.take_last_error();
  return *status == cudaSuccess ? data : nullptr;
}

void* CudaBackend::allocate(Stream& stream, size_t bytes) {
  if (bytes == 0) return nullptr;
  if (GraphScratch* scratch = GraphScratch::now()) return scratch->take(stream, bytes);
  Opened& opened = open(stream.device);
  CurrentDevice current(api_, stream.device);
  cudaError_t status = cudaSuccess;
  void* data = try_allocate(opened, stream, bytes, &status);
  if (status == cudaErrorMemoryAllocation && opened.pool) {
    // Memory freed by other streams may be reused only when they have finished.
    check(api_, api_.stream_synchronize(native(stream)), "finish what was started on the stream", stream.device);
    check(api_, api_.pool_trim(opened.pool, 0), "give cached memory back", stream.device);
    data = try_allocate(opened, stream, bytes, &status);
  }
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(opened, stream.device, bytes);
  check(api_, status, "allocate memory", stream.device);
  return data;
}

int64_t CudaBackend::pooled(Device device) {
  const Opened& opened = open(device);
  if (!opened.pool) return 0;
  uint64_t reserved = 0, used = 0;
  check(api_, api_.pool_get(opened.pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "ask for the pool's memory", device);
  check(api_, api_.pool_get(opened.pool, cudaMemPoolAttrUsedMemCurrent, &used), "ask for the pool's memory", device);
  return int64_t(reserved - used);
}

void CudaBackend::throw_out_of_memory(Opened& opened, Device device, size_t bytes) {
  size_t unused = 0, total = 0;
  uint64_t reserved = 0, used = 0;
  api_.memory_info(&unused, &total);
  if (opened.pool) {
    api_.pool_get(opened.pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
    api_.pool_get(opened.pool, cudaMemPoolAttrUsedMemCurrent, &used);
  }
  throw Error(ErrorKind::out_of_memory,
              {.what = cat("out of memory on ", text(device), ": asked for ", bytes, " bytes"),
               .where = text(device),
               .why = cat("free: ", unused, " of ", total, " bytes; used by Lamina: ", used, "; cached by Lamina: ", reserved - used),
               .fix = "use a smaller batch, drop tensors that are no longer needed, or end other programs that use this GPU"});
}

void CudaBackend::free(Stream& stream, void* data, size_t) {
  if (!data) return;
  if (GraphScratch* scratch = GraphScratch::now(); scratch && scratch->give_back(data)) return;
  Opened& opened = open(stream.device);
  const cudaError_t status = opened.pool ? api_.free_to_pool(data, native(stream)) : api_.free(data);
  // Called by destructors: a failure is kept for the stream's next wait. At process exit CUDA may already be gone.
  if (status != cudaSuccess && status != cudaErrorCudartUnloading) keep_error(stream, error_of(api_, status, "free memory", stream.device));
}

void CudaBackend::copy(Stream& stream, void* to, const void* from, size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  Opened& opened = open(stream.device);
  CurrentDevice current(api_, stream.device);
  if (kind == CopyKind::within_device) {
    const cudaError_t status = api_.copy(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream));
    if (status != cudaSuccess) throw error_of(api_, status, cat("copy ", bytes, " bytes"), stream.device);
    return;
  }
  if (GraphScratch::now())
    throw Error(ErrorKind::device,
                {.what = "a copy between host and device cannot be recorded", .where = text(stream.device), .why = "", .fix = ""});
  if (kind == CopyKind::to_device)
    opened.staging->to_device(stream, to, from, bytes);
  else
    opened.staging->to_host(stream, to, from, bytes);
}

FaultSite CudaBackend::fault_site(Stream& stream, DescribeFault describe, const std::string& about) {
  return {open(stream.device).fault, faults_.add(describe, about, launching.name, launching.line)};
}

void CudaBackend::launch(Stream& stream, const Kernel& kernel, const KernelCall& call, const char* name) {
  if (!kernel) {
    throw Error(ErrorKind::device, {.what = cat(name, ": there is no kernel for a GPU"),
                                    .where = text(stream.device),
                                    .why = "this operation has only a CPU kernel so far",
                                    .fix = "run it on 'cpu'"});
  }
  CurrentDevice current(api_, stream.device);
  const LaunchingFor now({name, call.line});
  // An error of an earlier call that nobody waited for: not this launch's fault. An error that ended the context stays for ever.
  if (const cudaError_t before = api_.take_last_error(); ends_the_context(before)) throw launch_error(stream, before);
  kernel.run(call);
  if (const cudaError_t status = api_.take_last_error(); status != cudaSuccess) throw launch_error(stream, status);
}

Error launch_error(const Stream& stream, int failure) {
  const CudaApi& api = static_cast<CudaBackend&>(*stream.backend).api();
  const auto status = cudaError_t(failure);
  // A launch may report errors of earlier work.
  if (ends_the_context(status))
    return error_of(api, status, cat("launch ", launching.name, "; it is an earlier launch that failed"), stream.device);
  const Error error = error_of(api, status, cat("launch ", launching.name), stream.device);
  return launching.line.known() ? error.at(text(launching.line)) : error;
}

bool CudaBackend::allow(Device device, const void* kernel, unsigned shared_bytes) {
  if (shared_bytes <= kAlwaysAllowed) return true;
  Opened& opened = open(device);
  const std::lock_guard lock(opened.allowed_mutex);
  unsigned& allowed = opened.allowed[kernel];
  if (shared_bytes <= allowed) return true;
  if (api_.function_attribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)) != cudaSuccess) return false;
  allowed = shared_bytes;
  return true;
}

Products& CudaBackend::products() {
  std::call_once(products_once_, [this] {
    products_ = std::make_unique<Products>([] { return load_cublaslt(system_loader()); }, least_multiply_adds(Setting::cublaslt));
  });
  return *products_;
}

Convolutions& CudaBackend::convolutions() {
  std::call_once(convolutions_once_, [this] {
    convolutions_ = std::make_unique<Convolutions>([] { return load_cudnn(system_loader()); }, least_multiply_adds(Setting::cudnn));
  });
  return *convolutions_;
}

const NcclApi& CudaBackend::nccl() {
  if (const NcclApi* api = nccl_.get()) return *api;
  throw Error(ErrorKind::device, {.what = "GPUs of different ranks cannot exchange anything without NCCL",
                                  .where = "",
                                  .why = nccl_.why_missing(),
                                  .fix = "install NCCL; python -m lamina doctor shows where it is looked for"});
}

// As nvidia-smi prints it, without the dashes.
std::string CudaBackend::device_id(Device device) {
  require(device);
  cudaDeviceProp p{};
  check(api_, api_.device_properties(&p, gpu_number(device)), "ask for the device's properties", device);
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "GPU-";
  for (const char c : p.uuid.bytes) out += digits[uint8_t(c) >> 4], out += digits[uint8_t(c) & 15];
  return out;
}

std::string CudaBackend::peers_id() { return nccl_id(nccl()); }

std::unique_ptr<Peers> CudaBackend::join_peers(const JoinPeers& join) {
  require(join.device);
  return std::make_unique<NcclPeers>(*this, nccl(), join);
}

void CudaBackend::capture_range(bool on) {
  if (device_count() > 0) cuda::capture_range(api_, on);
}

void* CudaBackend::memory_of_recording(const void* owner, std::span<const char> contents) {
  GraphScratch* scratch = GraphScratch::now();
  return scratch ? scratch->keep(owner, contents) : nullptr;
}

std::unique_ptr<LaunchGraph> CudaBackend::launch_graph(Device device) {
  if (!config::is_on(Setting::cuda_graphs).value_or(true)) return nullptr;
  return std::make_unique<RecordedGraph>(*this, device);
}

}  // namespace cuda
}  // namespace lamina
