// What kernels for the GPU get from the backend of their stream: memory for the length of a launch, and where to report bad indices.
#pragma once
#include "kernels/cuda/device.h"
#include "runtime/core/view.h"
#include "runtime/device/backend.h"
#include "runtime/device/fault.h"
#include "runtime/device/launch_memory.h"

namespace lamina::kernels::cuda {

// Elements in device memory for the length of a launch.
template <class T>
class Scratch {
 public:
  Scratch(Stream& stream, int64_t count) : memory_(stream, size_t(count) * sizeof(T)) {}
  T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  LaunchMemory memory_;
};

// Of every dtype 0 is all bits 0. y: contiguous.
void zero(Stream& stream, const View& y);  // pad_slice.cu

// The first thread of all launches on the device whose report nobody has taken yet is the one that is heard.
LAMINA_DEVICE void report(const FaultSite& site, int which, int64_t value, int64_t limit, int64_t place) {
  if (!site.record || atomic_cas(&site.record->launch, 0u, site.launch) != 0u) return;
  site.record->which = which;
  site.record->value = value, site.record->limit = limit, site.record->place = place;
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#endif
  site.record->ready = 1;
}

}  // namespace lamina::kernels::cuda
