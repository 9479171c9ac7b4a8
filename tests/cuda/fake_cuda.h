// A CudaApi controlled by a test: it records every call, returns host memory, and fails on request.
#pragma once
#include <cstring>
#include <string>
#include <utility>

#include "runtime/cuda/check.h"
#include "tests/cuda/fake_device.h"

namespace lamina::cuda {

inline std::string handle_text(const void* handle) { return cat("#", reinterpret_cast<intptr_t>(handle)); }

inline const CudaApi& fake_api() {
  static const CudaApi api{
      .driver_version = [](int* v) { return *v = FakeCuda::lock()->driver, cudaSuccess; },
      .runtime_version = [](int* v) { return *v = FakeCuda::lock()->runtime, cudaSuccess; },
      .device_count =
          [](int* n) {
            FakeCuda::lock()->calls.push_back("device_count");
            if (FakeCuda::lock()->count_status == cudaSuccess) *n = FakeCuda::lock()->devices;
            return FakeCuda::lock()->count_status;
          },
      .get_device = [](int* d) { return *d = FakeCuda::lock()->current, cudaSuccess; },
      .set_device = [](int d) { return FakeCuda::lock()->current = d, cudaSuccess; },
      .device_properties =
          [](cudaDeviceProp* p, int device) {
            std::strcpy(p->name, device == 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA A100-SXM4-40GB");
            p->totalGlobalMem = size_t{80} << 30;
            p->uuid.bytes[0] = char(device);
            p->major = device == 0 ? 9 : 8;
            p->minor = 0;
            p->multiProcessorCount = 132;
            p->sharedMemPerBlockOptin = 232448;
            return FakeCuda::lock()->call("device_properties");
          },
      .device_attribute = [](int* v, cudaDeviceAttr, int) { return *v = FakeCuda::lock()->has_pools, cudaSuccess; },
      .error_name = [](cudaError_t e) { return cudaGetErrorName(e); },
      .error_text = [](cudaError_t e) { return cudaGetErrorString(e); },
      .take_last_error =
          [] {
            return ends_the_context(FakeCuda::last) && FakeCuda::lock()->sticky ? FakeCuda::last
                                                                                : std::exchange(FakeCuda::last, cudaSuccess);
          },
      .peek_last_error = [] { return FakeCuda::last; },
      .profiler_start = [] { return FakeCuda::lock()->call("profiler_start"); },
      .profiler_stop = [] { return FakeCuda::lock()->call("profiler_stop"); },
      .stream_create = [](cudaStream_t* s, unsigned) { return FakeCuda::lock()->make("stream_create", s); },
      .stream_destroy = [](cudaStream_t s) { return FakeCuda::lock()->call("stream_destroy", handle_text(s)); },
      .stream_synchronize =
          [](cudaStream_t s) {
            cudaError_t status = FakeCuda::lock()->call("stream_synchronize", handle_text(s));
            if (status == cudaSuccess) status = FakeCuda::lock()->live(s);
            if (status == cudaSuccess) FakeCuda::wait_until([&] { return FakeCuda::now().work.finish(s); });
            return status;
          },
      .stream_wait =
          [](cudaStream_t s, cudaEvent_t e, unsigned) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("stream_wait", handle_text(s) + " for " + handle_text(e));
            return status == cudaSuccess ? fake->work.wait(s, e) : status;
          },
      .event_create = [](cudaEvent_t* e, unsigned) { return FakeCuda::lock()->make("event_create", e); },
      .event_destroy =
          [](cudaEvent_t e) {
            const auto fake = FakeCuda::lock();
            fake->work.forget(e);
            return fake->call("event_destroy", handle_text(e));
          },
      .event_record =
          [](cudaEvent_t e, cudaStream_t s) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("event_record", handle_text(e) + " on " + handle_text(s));
            if (status == cudaSuccess) fake->work.record(e, s);
            return status;
          },
      .event_query =
          [](cudaEvent_t e) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("event_query", handle_text(e));
            if (status != cudaSuccess) return status;
            return fake->work.advance(e) ? cudaSuccess : FakeCuda::last = cudaErrorNotReady;
          },
      .event_synchronize =
          [](cudaEvent_t e) {
            const cudaError_t status = FakeCuda::lock()->call("event_synchronize", handle_text(e));
            if (status != cudaSuccess) return status;
            if (FakeCuda::lock()->work.is_captured(e)) return cudaErrorCapturedEvent;
            FakeCuda::wait_until([&] { return FakeCuda::now().work.finish_event(e); });
            return status;
          },
      .memory_info =
          [](size_t* unused, size_t* total) {
            *total = FakeCuda::lock()->memory;
            *unused = *total - FakeCuda::lock()->used - FakeCuda::lock()->cached;
            return cudaSuccess;
          },
      .pool_create = [](cudaMemPool_t* p, const cudaMemPoolProps*) { return FakeCuda::lock()->make("pool_create", p); },
      .pool_destroy = [](cudaMemPool_t) { return FakeCuda::lock()->call("pool_destroy"); },
      .pool_set = [](cudaMemPool_t, cudaMemPoolAttr, void*) { return FakeCuda::lock()->call("pool_set"); },
      .pool_get =
          [](cudaMemPool_t, cudaMemPoolAttr which, void* value) {
            const FakeCuda& fake = FakeCuda::now();
            *static_cast<uint64_t*>(value) = which == cudaMemPoolAttrReservedMemCurrent ? fake.used + fake.cached : fake.used;
            return cudaSuccess;
          },
      .pool_trim =
          [](cudaMemPool_t, size_t) {
            FakeCuda::lock()->cached = 0;
            return FakeCuda::lock()->call("pool_trim");
          },
      .allocate_from_pool =
          [](void** data, size_t bytes, cudaMemPool_t, cudaStream_t s) {
            cudaError_t status = FakeCuda::lock()->call("allocate_from_pool", cat(bytes));
            if (status == cudaSuccess) status = FakeCuda::lock()->live(s);
            return status == cudaSuccess ? FakeCuda::lock()->take(data, bytes) : status;
          },
      .free_to_pool =
          [](void* data, cudaStream_t s) {
            cudaError_t status = FakeCuda::lock()->call("free_to_pool");
            if (status == cudaSuccess) status = FakeCuda::lock()->live(s);
            return status == cudaSuccess ? FakeCuda::lock()->give(data, s) : status;
          },
      .allocate =
          [](void** data, size_t bytes) {
            const cudaError_t status = FakeCuda::lock()->call("allocate", cat(bytes));
            return status == cudaSuccess ? FakeCuda::lock()->take(data, bytes) : status;
          },
      .free =
          [](void* data) {
            FakeCuda::lock()->call("free");
            return FakeCuda::lock()->give(data, nullptr);
          },
      .allocate_host =
          [](void** data, size_t bytes, unsigned) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("host_allocate", cat(bytes));
            if (status != cudaSuccess) return status;
            std::shared_ptr<char[]> memory(new char[bytes]());
            *data = memory.get();
            fake->pinned_bytes[*data] = bytes;
            fake->pinned[*data] = std::move(memory);
            return status;
          },
      .free_host =
          [](void* data) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("host_free");
            if (status != cudaSuccess) return status;
            fake->work.finish_all();
            fake->pinned_bytes.erase(data);
            return fake->pinned.erase(data) ? cudaSuccess : FakeCuda::last = cudaErrorInvalidValue;
          },
      .copy =
          [](void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
            cudaError_t status = FakeCuda::lock()->call("copy", cat(bytes, " kind ", static_cast<int>(kind), " on ", FakeCuda::current));
            bool waits = false;
            if (status == cudaSuccess) status = FakeCuda::lock()->copy(to, from, bytes, kind, s, &waits);
            if (waits) FakeCuda::wait_until([&] { return FakeCuda::now().work.finish(s); });
            return status;
          },
      .function_attribute = [](const void*, cudaFuncAttribute, int) { return FakeCuda::lock()->call("function_attribute"); },
      .resident_blocks = [](int* each, const void*, int, size_t) { return *each = FakeCuda::lock()->resident_blocks, cudaSuccess; },
      .launch =
          [](const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("launch", handle_text(kernel));
            if (status != cudaSuccess) return status;
            FakeWork::Operation o{.arguments = {}};
            if (!fake->only_records_kernels) {
              o.kernel = reinterpret_cast<FakeWork::Kernel>(const_cast<void*>(kernel));
              o.arguments = *static_cast<const FakeArguments*>(arguments[0]);
            }
            fake->work.add(config->stream, std::move(o));
            return status;
          },
      .capture_begin =
          [](cudaStream_t s, cudaStreamCaptureMode) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("capture_begin", handle_text(s));
            return status == cudaSuccess ? fake->work.begin(s) : status;
          },
      .capture_end =
          [](cudaStream_t s, cudaGraph_t* g) {
            const auto fake = FakeCuda::lock();
            cudaError_t status = fake->make("capture_end", g);
            FakeWork::Graph graph;
            const cudaError_t ended = fake->work.end(s, &graph);  // also when it is told to fail
            if (status == cudaSuccess) status = ended;
            if (status == cudaSuccess) fake->work.graphs[*g] = std::move(graph);
            if (status != cudaSuccess) *g = nullptr;
            return FakeCuda::last = status;
          },
      .graph_instantiate =
          [](cudaGraphExec_t* e, cudaGraph_t g, unsigned long long) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->make("graph_instantiate", e);
            if (status == cudaSuccess) fake->work.executables[*e] = fake->work.graphs.at(g);
            return status;
          },
      .graph_update =
          [](cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo* result) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("graph_update", handle_text(e));
            if (status != cudaSuccess || FakeWork::update(fake->work.executables.at(e), fake->work.graphs.at(g))) return status;
            result->result = cudaGraphExecUpdateErrorTopologyChanged;
            return FakeCuda::last = cudaErrorGraphExecUpdateFailure;
          },
      .graph_launch =
          [](cudaGraphExec_t e, cudaStream_t s) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("graph_launch", handle_text(e) + " on " + handle_text(s));
            if (status == cudaSuccess) fake->work.launch(s, fake->work.executables.at(e));
            return status;
          },
      .graph_destroy =
          [](cudaGraph_t g) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("graph_destroy", handle_text(g));
            if (status == cudaSuccess) fake->work.graphs.erase(g);
            return status;
          },
      .graph_executable_destroy =
          [](cudaGraphExec_t e) {
            const auto fake = FakeCuda::lock();
            const cudaError_t status = fake->call("graph_executable_destroy", handle_text(e));
            if (status == cudaSuccess) fake->work.executables.erase(e);
            return status;
          },
  };
  return api;
}

}  // namespace lamina::cuda
