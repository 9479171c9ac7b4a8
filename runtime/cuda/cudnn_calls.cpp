#include "runtime/cuda/cudnn_calls.h"

#include <limits>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_backend.h"

namespace lamina::cuda {

int cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return cudnn::kHalf;
    case DType::bf16: return cudnn::kBfloat16;
    case DType::f64: return cudnn::kDouble;
    default: return cudnn::kFloat;
  }
}

bool fits_cudnn(const View& v) {
  constexpr uintptr_t kAligned = 16;
  return v.size() <= std::numeric_limits<int32_t>::max() && uintptr_t(v.data) % kAligned == 0;
}

void CudnnCalls::check(int status, const char* call) const {
  if (status == 0) return;
  const char* instruction = launching_instruction();
  throw Error(cudnn::no_memory(status) ? ErrorKind::out_of_memory : ErrorKind::device,
              {.what = cat("cuda: ", call, " failed", *instruction ? " in " : "", instruction),
               .where = text_,
               .why = cat("cuDNN says ", api_.status_text(status), " (", status, ")"),
               .fix = "LAMINA_CUDNN=never has Lamina's own kernels do all that cuDNN would"});
}

Owned CudnnCalls::make(int (*create)(void**), int (*destroy)(void*), const char* call) const {
  void* made = nullptr;
  check(create(&made), call);
  return Owned(made, destroy);
}

Owned CudnnCalls::handle() const { return make(api_.create, api_.destroy, "cudnnCreate"); }

Owned CudnnCalls::images(DType dtype, int64_t images, int64_t height, int64_t width, int64_t channels) const {
  Owned tensor = make(api_.tensor_create, api_.tensor_destroy, "cudnnCreateTensorDescriptor");
  check(api_.tensor_set(tensor.get(), cudnn::kChannelsLast, cudnn_type(dtype), int(images), int(channels), int(height), int(width)),
        "cudnnSetTensor4dDescriptor");
  return tensor;
}

}  // namespace lamina::cuda
