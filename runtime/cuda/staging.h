// Staging: copies between pageable host memory and a device through a few blocks of pinned memory, so that the device transfers one block
// while the host copies the next. Blocks are allocated on demand and reused in turn.
#pragma once
#include <array>

#include "runtime/core/mutex.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/device/stream.h"

namespace lamina::cuda {

class Staging {
 public:
  static constexpr size_t kBlocks = 4, kBlockBytes = size_t{1} << 20;

  explicit Staging(const CudaApi& api) : api_(api) {}
  ~Staging();
  Staging(const Staging&) = delete;
  // The stream's device must be current. Returns when `from` may be changed; the device has the bytes in stream order.
  void to_device(Stream& stream, void* to, const void* from, size_t bytes);
  // Returns when `to` has the bytes.
  void to_host(Stream& stream, void* to, const void* from, size_t bytes);

 private:
  struct Block {
    char* data = nullptr;
    cudaEvent_t done = nullptr;     // recorded after the copies that use it
    cudaStream_t stream = nullptr;  // that these copies ran on
    size_t used = 0;                // bytes, from the start
  };
  // A block with room for `bytes` after those that copies of the same stream still use; null if there is no pinned memory.
  Block* take(Stream& stream, size_t bytes);
  void copy(Stream& stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
  void mark(Stream& stream, Block& block, size_t bytes);

  const CudaApi& api_;
  Mutex mutex_;  // held during a copy; concurrent copies would share one bus anyway
  std::array<Block, kBlocks> blocks_;
  size_t current_ = 0;
};

}  // namespace lamina::cuda
