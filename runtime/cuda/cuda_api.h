// CudaApi: a table of all cudart functions that Lamina calls. The real one is static cudart's; tests fill in their own.
#pragma once
#include <cuda_runtime_api.h>

#include "runtime/device/stream.h"

namespace lamina::cuda {

struct CudaApi {
  cudaError_t (*driver_version)(int* version);
  cudaError_t (*runtime_version)(int* version);
  cudaError_t (*device_count)(int* count);
  cudaError_t (*get_device)(int* device);
  cudaError_t (*set_device)(int device);
  cudaError_t (*device_properties)(cudaDeviceProp* properties, int device);
  cudaError_t (*device_attribute)(int* value, cudaDeviceAttr attribute, int device);
  const char* (*error_name)(cudaError_t error);
  const char* (*error_text)(cudaError_t error);
  cudaError_t (*take_last_error)();
  cudaError_t (*peek_last_error)();
  cudaError_t (*profiler_start)();
  cudaError_t (*profiler_stop)();

  cudaError_t (*stream_create)(cudaStream_t* stream, unsigned flags);
  cudaError_t (*stream_destroy)(cudaStream_t stream);
  cudaError_t (*stream_synchronize)(cudaStream_t stream);
  cudaError_t (*stream_wait)(cudaStream_t stream, cudaEvent_t event, unsigned flags);
  cudaError_t (*event_create)(cudaEvent_t* event, unsigned flags);
  cudaError_t (*event_destroy)(cudaEvent_t event);
  cudaError_t (*event_record)(cudaEvent_t event, cudaStream_t stream);
  cudaError_t (*event_query)(cudaEvent_t event);  // cudaErrorNotReady while work before it is pending
  cudaError_t (*event_synchronize)(cudaEvent_t event);

  cudaError_t (*memory_info)(size_t* free, size_t* total);
  cudaError_t (*pool_create)(cudaMemPool_t* pool, const cudaMemPoolProps* properties);
  cudaError_t (*pool_destroy)(cudaMemPool_t pool);
  cudaError_t (*pool_set)(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
  cudaError_t (*pool_get)(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
  cudaError_t (*pool_trim)(cudaMemPool_t pool, size_t keep);
  cudaError_t (*allocate_from_pool)(void** data, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
  cudaError_t (*free_to_pool)(void* data, cudaStream_t stream);
  cudaError_t (*allocate)(void** data, size_t bytes);
  cudaError_t (*free)(void* data);
  cudaError_t (*allocate_host)(void** data, size_t bytes, unsigned flags);  // pinned; mapped if the device accesses it
  cudaError_t (*free_host)(void* data);
  cudaError_t (*copy)(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

  cudaError_t (*function_attribute)(const void* kernel, cudaFuncAttribute attribute, int value);
  cudaError_t (*resident_blocks)(int* per_multiprocessor, const void* kernel, int threads, size_t shared_bytes);
  cudaError_t (*launch)(const cudaLaunchConfig_t* config, const void* kernel, void** arguments);

  cudaError_t (*capture_begin)(cudaStream_t stream, cudaStreamCaptureMode mode);
  cudaError_t (*capture_end)(cudaStream_t stream, cudaGraph_t* graph);
  cudaError_t (*graph_instantiate)(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
  cudaError_t (*graph_update)(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result);
  cudaError_t (*graph_launch)(cudaGraphExec_t executable, cudaStream_t stream);
  cudaError_t (*graph_destroy)(cudaGraph_t graph);
  cudaError_t (*graph_executable_destroy)(cudaGraphExec_t executable);
};

const CudaApi& cudart_api();

inline cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native); }
inline cudaEvent_t native(const Event& event) { return static_cast<cudaEvent_t>(event.native); }

}  // namespace lamina::cuda
