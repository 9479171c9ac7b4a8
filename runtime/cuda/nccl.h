// The part of NCCL's interface that Lamina uses, declared as in cudnn.h.
#pragma once
#include <climits>
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/cuda/libraries.h"

namespace lamina::cuda {

namespace nccl {

struct UniqueId {  // processes exchange it so that their ranks can connect
  char bytes[128] = {};
};

// ncclConfig_t of 2.14, the first version that has it; later versions accept it and fill in the rest.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = INT_MIN;
};

inline constexpr int kSuccess = 0, kCudaError = 1, kSystemError = 2, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5,
                     kRemoteError = 6,
                     kInProgress = 7;                         // ncclResult_t
inline constexpr int kUint8 = 1, kFloat32 = 7, kFloat64 = 8;  // ncclDataType_t: data move as bytes
inline constexpr int kSum = 0;                                // ncclRedOp_t
inline constexpr int kSymmetric = 1;                          // NCCL_WIN_COLL_SYMMETRIC

// NCCL has no status for out of memory: it reports a CUDA error (device) or a system error (host); `said`, its message, tells.
inline bool no_memory(int status, std::string_view said) {
  return (status == kCudaError && said.find("out of memory") != said.npos) ||
         (status == kSystemError && said.find("Failed to malloc") != said.npos);
}
std::string version_text(int version);  // 22809: "2.28.9"

}  // namespace nccl

// Functions return ncclResult_t; a communicator is one rank's.
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
  int (*send)(const void* data, size_t count, int type, int to, void* communicator, void* stream);
  int (*receive)(void* data, size_t count, int type, int from, void* communicator, void* stream);
  int (*broadcast)(const void* in, void* out, size_t count, int type, int root, void* communicator, void* stream);
  int (*all_gather)(const void* in, void* out, size_t in_count, int type, void* communicator, void* stream);
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int op, void* communicator, void* stream);
  const char* (*status_text)(int status);
  const char* (*last_error)(void* communicator);  // may be null; for the whole process, whatever the communicator
  // Windows, memory that the other ranks' kernels may read. peer_pointer is null if one is missing:
  // it came with NCCL 2.29, and its type is declared by hand, because earlier headers do not have it.
  int (*mem_alloc)(void** data, size_t bytes);
  int (*mem_free)(void* data);
  int (*register_window)(void* communicator, void* data, size_t bytes, void** window, int flags);  // collective; null: not supported
  int (*deregister_window)(void* communicator, void* window);
  int (*peer_pointer)(void* window, size_t offset, int peer, void** data);  // null: this GPU does not reach that rank's
};
// Throws device, with every path that was tried, when the library is missing.
NcclApi load_nccl(const Loader& loader);

}  // namespace lamina::cuda
