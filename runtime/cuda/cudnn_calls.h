// Helpers of cuDNN's callers: descriptors, limits and errors.
#pragma once
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"

namespace lamina::cuda {

int cudnn_type(DType dtype);  // of a floating type

// Its sizes are ints, and its kernels read 16 bytes at once.
bool fits_cudnn(const View& v);

// Makes the calls of one operation, described by `text`. A failed call throws device (or out_of_memory) with the call, the instruction and
// the operation.
class CudnnCalls {
 public:
  CudnnCalls(const CudnnApi& api, const std::string& text) : api_(api), text_(text) {}

  void check(int status, const char* call) const;
  Owned make(int (*create)(void**), int (*destroy)(void*), const char* call) const;
  Owned handle() const;
  Owned images(DType dtype, int64_t images, int64_t height, int64_t width, int64_t channels) const;  // a tensor descriptor, channels last

 private:
  const CudnnApi& api_;
  const std::string& text_;
};

}  // namespace lamina::cuda
