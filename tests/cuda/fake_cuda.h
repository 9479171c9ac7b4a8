// A CudaApi that a test controls: it records every call, hands out host memory, and fails where it is told to.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_api.h"

namespace lamina::cuda {

struct FakeCuda {
  int driver = 13000, runtime = 13000, devices = 2, current = 0;
  cudaError_t count_status = cudaSuccess;
  bool has_pools = true;
  size_t memory = 1 << 20, used = 0, cached = 0;
  std::map<std::string, cudaError_t> fail;  // the call of this name fails, every time
  std::vector<std::string> calls;
  std::map<void*, size_t> blocks;
  std::vector<std::shared_ptr<void>> pinned;
  intptr_t handles = 0;
  cudaError_t last = cudaSuccess;

  static FakeCuda& now() {
    static FakeCuda fake;
    return fake;
  }
  static void reset() {
    for (const auto& [data, size] : now().blocks) std::free(data);
    now() = FakeCuda{};
  }

  cudaError_t call(const std::string& name, const std::string& detail = "") {
    calls.push_back(detail.empty() ? name : name + " " + detail);
    const auto found = fail.find(name);
    if (found == fail.end()) return cudaSuccess;
    return last = found->second;
  }
  template <class T>
  cudaError_t make(const std::string& name, T* handle) {
    const cudaError_t status = call(name, cat("on ", current));
    if (status == cudaSuccess) *handle = reinterpret_cast<T>(++handles);
    return status;
  }
  cudaError_t take(void** data, size_t bytes) {
    if (used + cached + bytes > memory) return last = cudaErrorMemoryAllocation;
    *data = std::malloc(bytes);
    blocks[*data] = bytes;
    used += bytes;
    return cudaSuccess;
  }
  cudaError_t give(void* data, bool keep) {
    const auto found = blocks.find(data);
    if (found == blocks.end()) return last = cudaErrorInvalidValue;
    used -= found->second;
    if (keep) cached += found->second;
    std::free(data);
    blocks.erase(found);
    return cudaSuccess;
  }
};

inline std::string handle_text(const void* handle) { return cat("#", reinterpret_cast<intptr_t>(handle)); }

inline const CudaApi& fake_api() {
  static const CudaApi api{
      .driver_version = [](int* v) { return *v = FakeCuda::now().driver, cudaSuccess; },
      .runtime_version = [](int* v) { return *v = FakeCuda::now().runtime, cudaSuccess; },
      .device_count =
          [](int* n) {
            FakeCuda::now().calls.push_back("device_count");
            if (FakeCuda::now().count_status == cudaSuccess) *n = FakeCuda::now().devices;
            return FakeCuda::now().count_status;
          },
      .get_device = [](int* d) { return *d = FakeCuda::now().current, cudaSuccess; },
      .set_device = [](int d) { return FakeCuda::now().current = d, cudaSuccess; },
      .device_properties =
          [](cudaDeviceProp* p, int device) {
            std::strcpy(p->name, device == 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA A100-SXM4-40GB");
            p->totalGlobalMem = size_t{80} << 30;
            p->major = device == 0 ? 9 : 8;
            p->minor = 0;
            p->multiProcessorCount = 132;
            p->sharedMemPerBlockOptin = 232448;
            return FakeCuda::now().call("device_properties");
          },
      .device_attribute = [](int* v, cudaDeviceAttr, int) { return *v = FakeCuda::now().has_pools, cudaSuccess; },
      .error_name = [](cudaError_t e) { return cudaGetErrorName(e); },
      .error_text = [](cudaError_t e) { return cudaGetErrorString(e); },
      .take_last_error = [] { return std::exchange(FakeCuda::now().last, cudaSuccess); },
      .profiler_start = [] { return FakeCuda::now().call("profiler_start"); },
      .profiler_stop = [] { return FakeCuda::now().call("profiler_stop"); },
      .stream_create = [](cudaStream_t* s, unsigned) { return FakeCuda::now().make("stream_create", s); },
      .stream_destroy = [](cudaStream_t s) { return FakeCuda::now().call("stream_destroy", handle_text(s)); },
      .stream_synchronize = [](cudaStream_t s) { return FakeCuda::now().call("stream_synchronize", handle_text(s)); },
      .stream_wait = [](cudaStream_t s, cudaEvent_t e,
                        unsigned) { return FakeCuda::now().call("stream_wait", handle_text(s) + " for " + handle_text(e)); },
      .event_create = [](cudaEvent_t* e, unsigned) { return FakeCuda::now().make("event_create", e); },
      .event_destroy = [](cudaEvent_t e) { return FakeCuda::now().call("event_destroy", handle_text(e)); },
      .event_record = [](cudaEvent_t e,
                         cudaStream_t s) { return FakeCuda::now().call("event_record", handle_text(e) + " on " + handle_text(s)); },
      .memory_info =
          [](size_t* unused, size_t* total) {
            *total = FakeCuda::now().memory;
            *unused = *total - FakeCuda::now().used - FakeCuda::now().cached;
            return cudaSuccess;
          },
      .pool_create = [](cudaMemPool_t* p, const cudaMemPoolProps*) { return FakeCuda::now().make("pool_create", p); },
      .pool_destroy = [](cudaMemPool_t) { return FakeCuda::now().call("pool_destroy"); },
      .pool_set = [](cudaMemPool_t, cudaMemPoolAttr, void*) { return FakeCuda::now().call("pool_set"); },
      .pool_get =
          [](cudaMemPool_t, cudaMemPoolAttr which, void* value) {
            const FakeCuda& fake = FakeCuda::now();
            *static_cast<uint64_t*>(value) = which == cudaMemPoolAttrReservedMemCurrent ? fake.used + fake.cached : fake.used;
            return cudaSuccess;
          },
      .pool_trim =
          [](cudaMemPool_t, size_t) {
            FakeCuda::now().cached = 0;
            return FakeCuda::now().call("pool_trim");
          },
      .allocate_from_pool =
          [](void** data, size_t bytes, cudaMemPool_t, cudaStream_t) {
            const cudaError_t status = FakeCuda::now().call("allocate_from_pool", cat(bytes));
            return status == cudaSuccess ? FakeCuda::now().take(data, bytes) : status;
          },
      .free_to_pool =
          [](void* data, cudaStream_t) {
            const cudaError_t status = FakeCuda::now().call("free_to_pool");
            return status == cudaSuccess ? FakeCuda::now().give(data, true) : status;
          },
      .allocate =
          [](void** data, size_t bytes) {
            const cudaError_t status = FakeCuda::now().call("allocate", cat(bytes));
            return status == cudaSuccess ? FakeCuda::now().take(data, bytes) : status;
          },
      .free =
          [](void* data) {
            FakeCuda::now().call("free");
            return FakeCuda::now().give(data, false);
          },
      .allocate_host =
          [](void** data, size_t bytes, unsigned) {
            const cudaError_t status = FakeCuda::now().call("host_allocate", cat(bytes));
            if (status == cudaSuccess) FakeCuda::now().pinned.emplace_back(*data = std::calloc(1, bytes), std::free);
            return status;
          },
      .free_host = [](void*) { return FakeCuda::now().call("host_free"); },
      .copy =
          [](void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
            const cudaError_t status =
                FakeCuda::now().call("copy", cat(bytes, " kind ", static_cast<int>(kind), " on ", FakeCuda::now().current));
            if (status == cudaSuccess) std::memcpy(to, from, bytes);
            return status;
          },
      .library_load = [](cudaLibrary_t* l, const void*) { return FakeCuda::now().make("library_load", l); },
      .library_unload = [](cudaLibrary_t l) { return FakeCuda::now().call("library_unload", handle_text(l)); },
      .library_kernel = [](cudaKernel_t* k, cudaLibrary_t, const char* name) { return FakeCuda::now().make(cat("library_kernel ", name), k); },
      .launch = [](const cudaLaunchConfig_t*, const void* kernel, void**) { return FakeCuda::now().call("launch", handle_text(kernel)); },
      .capture_begin = [](cudaStream_t s, cudaStreamCaptureMode) { return FakeCuda::now().call("capture_begin", handle_text(s)); },
      .capture_end = [](cudaStream_t, cudaGraph_t* g) { return FakeCuda::now().make("capture_end", g); },
      .graph_instantiate = [](cudaGraphExec_t* e, cudaGraph_t, unsigned long long) { return FakeCuda::now().make("graph_instantiate", e); },
      .graph_launch = [](cudaGraphExec_t e,
                         cudaStream_t s) { return FakeCuda::now().call("graph_launch", handle_text(e) + " on " + handle_text(s)); },
      .graph_destroy = [](cudaGraph_t g) { return FakeCuda::now().call("graph_destroy", handle_text(g)); },
      .graph_executable_destroy = [](cudaGraphExec_t e) { return FakeCuda::now().call("graph_executable_destroy", handle_text(e)); },
  };
  return api;
}

}  // namespace lamina::cuda
