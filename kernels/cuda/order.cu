// Few instances, because each takes half a megabyte per architecture: callers convert their keys and counts. nvcc compiles Thrust's CUDA
// backend, the host compiler its sequential one.
#include "kernels/cuda/order.h"

#if defined(__CUDACC__)
#define THRUST_FORCE_64_BIT_OFFSET_TYPE  // one instance of each call instead of two
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>

#include "runtime/cuda/kernel_launch.h"
#include "runtime/cuda/launch_error.h"
#else
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#include <thrust/system/cpp/execution_policy.h>
#endif
#include <thrust/scan.h>
#include <thrust/sort.h>

#include "runtime/device/backend.h"

namespace lamina::kernels::cuda {
namespace {

// Thrust's allocator: stream-ordered memory. A recorded launch keeps it.
struct StreamMemory {
  using value_type = char;
  Stream& stream;
  char* allocate(std::ptrdiff_t bytes) { return static_cast<char*>(stream.backend->allocate(stream, size_t(bytes))); }
  void deallocate(char* data, size_t bytes) { stream.backend->free(stream, data, bytes); }
};

// Calls call(policy), with Thrust's work on the stream.
template <class Call>
void with_policy(Stream& stream, Call call) {
  StreamMemory memory{stream};
#if defined(__CUDACC__)
  if (lamina::cuda::launch_failed(stream)) return;  // Thrust would report the previous launch's error
  try {
    call(thrust::cuda::par_nosync(memory).on(static_cast<cudaStream_t>(stream.native)));
  } catch (const thrust::system_error& e) {
    throw lamina::cuda::launch_error(stream, e.code().value());
  }
#else
  call(thrust::cpp::par(memory));
#endif
}

template <class K>
void sort_keys(Stream& stream, K* keys, int64_t* places, int64_t count) {
  if (count < 2) return;
  with_policy(stream, [&](const auto& policy) { thrust::stable_sort_by_key(policy, keys, keys + count, places); });
}

}  // namespace

void sort_pairs(Stream& stream, uint32_t* keys, int64_t* places, int64_t count) { sort_keys(stream, keys, places, count); }
void sort_pairs(Stream& stream, uint64_t* keys, int64_t* places, int64_t count) { sort_keys(stream, keys, places, count); }

void add_up(Stream& stream, uint64_t* values, int64_t count) {
  if (count < 2) return;
  with_policy(stream, [&](const auto& policy) { thrust::inclusive_scan(policy, values, values + count, values); });
}

}  // namespace lamina::kernels::cuda
