#include "runtime/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "runtime/cuda/check.h"

namespace lamina::cuda {

Staging::~Staging() {
  for (Block& block : blocks_) {
    if (block.done) api_.event_synchronize(block.done), api_.event_destroy(block.done);
    if (block.data) api_.free_host(block.data);
  }
}

Staging::Block* Staging::take(Stream& stream, size_t bytes) {
  Block* block = &blocks_[current_];
  if (block->data && block->stream == native(stream) && block->used + bytes <= kBlockBytes) return block;
  if (block->used) block = &blocks_[current_ = (current_ + 1) % kBlocks];
  if (block->used) {
    check(api_, api_.event_synchronize(block->done), "wait for an earlier copy", stream.device);
    block->used = 0;
  }
  if (!block->done) check(api_, api_.event_create(&block->done, cudaEventDisableTiming), "make an event", stream.device);
  if (!block->data) {
    void* data = nullptr;
    const cudaError_t status = api_.allocate_host(&data, kBlockBytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) return api_.take_last_error(), nullptr;
    check(api_, status, "get pinned memory", stream.device);
    block->data = static_cast<char*>(data);
  }
  block->stream = native(stream);
  return block;
}

void Staging::copy(Stream& stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = api_.copy(to, from, bytes, kind, native(stream));
  if (status != cudaSuccess) throw error_of(api_, status, cat("copy ", bytes, " bytes"), stream.device);
}

// A copy using the block's next bytes has been started.
void Staging::mark(Stream& stream, Block& block, size_t bytes) {
  const cudaError_t status = api_.event_record(block.done, native(stream));
  if (status == cudaSuccess) {
    block.used += (bytes + 63) / 64 * 64;
    return;
  }
  const Error error = error_of(api_, status, "record an event", stream.device);
  api_.stream_synchronize(native(stream));  // without the event this is the only way to know that the copy has ended
  throw error;
}

void Staging::to_device(Stream& stream, void* to, const void* from, size_t bytes) {
  std::lock_guard lock(mutex_);
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kBlockBytes);
    const char* source = static_cast<const char*>(from) + done;
    char* target = static_cast<char*>(to) + done;
    Block* block = take(stream, piece);
    if (!block) {  // falls back to cudart's own staging, which is synchronous
      copy(stream, target, source, bytes - done, cudaMemcpyHostToDevice);
      check(api_, api_.stream_synchronize(native(stream)), "finish a copy", stream.device);
      return;
    }
    std::memcpy(block->data + block->used, source, piece);
    copy(stream, target, block->data + block->used, piece, cudaMemcpyHostToDevice);
    mark(stream, *block, piece);
    done += piece;
  }
}

void Staging::to_host(Stream& stream, void* to, const void* from, size_t bytes) {
  struct Piece {
    Block* block;
    const char* staged;
    char* to;
    size_t bytes;
  };
  std::lock_guard lock(mutex_);
  std::deque<Piece> pieces;  // started pieces, oldest first
  const auto finish_oldest = [&] {
    const Piece piece = pieces.front();
    check(api_, api_.event_synchronize(piece.block->done), "finish a copy", stream.device);
    std::memcpy(piece.to, piece.staged, piece.bytes);
    pieces.pop_front();
  };
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kBlockBytes);
    if (pieces.size() == kBlocks) finish_oldest();
    Block* block = take(stream, piece);
    const char* source = static_cast<const char*>(from) + done;
    char* target = static_cast<char*>(to) + done;
    if (!block) {
      copy(stream, target, source, bytes - done, cudaMemcpyDeviceToHost);
      check(api_, api_.stream_synchronize(native(stream)), "finish a copy", stream.device);
      break;
    }
    char* staged = block->data + block->used;
    copy(stream, staged, source, piece, cudaMemcpyDeviceToHost);
    mark(stream, *block, piece);
    pieces.push_back({block, staged, target, piece});
    done += piece;
  }
  while (!pieces.empty()) finish_oldest();
}

}  // namespace lamina::cuda
