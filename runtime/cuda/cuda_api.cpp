#include "runtime/cuda/cuda_api.h"

// From cuda_profiler_api.h, which NVIDIA's Python packages for cudart lack.
extern "C" cudaError_t CUDARTAPI cudaProfilerStart();
extern "C" cudaError_t CUDARTAPI cudaProfilerStop();

namespace lamina::cuda {

const CudaApi& cudart_api() {
  static constexpr CudaApi api{
      .driver_version = cudaDriverGetVersion,
      .runtime_version = cudaRuntimeGetVersion,
      .device_count = cudaGetDeviceCount,
      .get_device = cudaGetDevice,
      .set_device = cudaSetDevice,
      .device_properties = cudaGetDeviceProperties,
      .device_attribute = cudaDeviceGetAttribute,
      .error_name = cudaGetErrorName,
      .error_text = cudaGetErrorString,
      .take_last_error = cudaGetLastError,
      .peek_last_error = cudaPeekAtLastError,
      .profiler_start = cudaProfilerStart,
      .profiler_stop = cudaProfilerStop,
      .stream_create = cudaStreamCreateWithFlags,
      .stream_destroy = cudaStreamDestroy,
      .stream_synchronize = cudaStreamSynchronize,
      .stream_wait = cudaStreamWaitEvent,
      .event_create = cudaEventCreateWithFlags,
      .event_destroy = cudaEventDestroy,
      .event_record = cudaEventRecord,
      .event_query = cudaEventQuery,
      .event_synchronize = cudaEventSynchronize,
      .memory_info = cudaMemGetInfo,
      .pool_create = cudaMemPoolCreate,
      .pool_destroy = cudaMemPoolDestroy,
      .pool_set = cudaMemPoolSetAttribute,
      .pool_get = cudaMemPoolGetAttribute,
      .pool_trim = cudaMemPoolTrimTo,
      .allocate_from_pool = cudaMallocFromPoolAsync,
      .free_to_pool = cudaFreeAsync,
      .allocate = cudaMalloc,
      .free = cudaFree,
      .allocate_host = cudaHostAlloc,
      .free_host = cudaFreeHost,
      .copy = cudaMemcpyAsync,
      .function_attribute = cudaFuncSetAttribute,
      .resident_blocks = cudaOccupancyMaxActiveBlocksPerMultiprocessor,
      .launch = cudaLaunchKernelExC,
      .capture_begin = cudaStreamBeginCapture,
      .capture_end = cudaStreamEndCapture,
      .graph_instantiate = cudaGraphInstantiate,
      .graph_update = cudaGraphExecUpdate,
      .graph_launch = cudaGraphLaunch,
      .graph_destroy = cudaGraphDestroy,
      .graph_executable_destroy = cudaGraphExecDestroy,
  };
  return api;
}

}  // namespace lamina::cuda
