// NCCL: the functions and the numbers of its interface that Lamina uses, declared here as those of cudnn.h are.
#pragma once
#include <climits>
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/cuda/libraries.h"

namespace lamina::cuda {

namespace nccl {

struct UniqueId {  // what processes tell each other so that their ranks find together
  char bytes[128] = {};
};

// ncclConfig_t as it was in 2.14, the first that has it; later ones take it and fill in the rest.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = INT_MIN;
};

inline constexpr int kSuccess = 0, kCudaError = 1, kSystemError = 2, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5,
                     kRemoteError = 6,
                     kInProgress = 7;                                                                                   // ncclResult_t
inline constexpr int kInt8 = 0, kUint8 = 1, kInt32 = 2, kInt64 = 4, kHalf = 6, kFloat = 7, kDouble = 8, kBfloat16 = 9;  // ncclDataType_t
inline constexpr int kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4;                                          // ncclRedOp_t

// It has no status for memory that ran out: the device's is an error of CUDA, the host's one of the system, and `said` tells.
inline bool no_memory(int status, std::string_view said) {
  return (status == kCudaError && said.find("out of memory") != said.npos) ||
         (status == kSystemError && said.find("Failed to malloc") != said.npos);
}
std::string version_text(int version);  // 22809: "2.28.9"

}  // namespace nccl

// Results are ncclResult_t; a communicator is one rank's.
struct NcclApi {
  int (*version)(int* version);
  int (*unique_id)(nccl::UniqueId* id);
  int (*init_rank)(void** communicator, int ranks, nccl::UniqueId id, int rank, nccl::Config* config);
  int (*finalize)(void* communicator);
  int (*destroy)(void* communicator);
  int (*abort)(void* communicator);
  int (*async_error)(void* communicator, int* status);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int op, void* communicator, void* stream);
  int (*broadcast)(const void* in, void* out, size_t count, int type, int root, void* communicator, void* stream);
  int (*reduce_scatter)(const void* in, void* out, size_t out_count, int type, int op, void* communicator, void* stream);
  int (*all_gather)(const void* in, void* out, size_t in_count, int type, void* communicator, void* stream);
  const char* (*status_text)(int status);
  const char* (*last_error)(void* communicator);  // may be null; of the whole process, whatever the communicator
};
// Throws device, with every path that was tried, when the library is missing.
NcclApi load_nccl(const Loader& loader);

}  // namespace lamina::cuda
