// Services of a stream's backend to GPU kernels: scratch memory for a launch, and reports of bad data.
#pragma once
#include "kernels/cuda/device.h"
#include "runtime/core/view.h"
#include "runtime/device/backend.h"
#include "runtime/device/fault.h"
#include "runtime/device/launch_memory.h"

namespace lamina::kernels::cuda {

// Elements in device memory for the duration of a launch.
template <class T>
class Scratch {
 public:
  Scratch(Stream& stream, int64_t count) : memory_(stream, size_t(count) * sizeof(T)) {}
  T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  LaunchMemory memory_;
};

// Works for every dtype, because 0 is all bits 0. y: contiguous.
void zero(Stream& stream, const View& y);  // pad_slice.cu

// Reports a bad index. Only the first report on the device counts, until it has been taken.
LAMINA_DEVICE void report(const FaultSite& site, int which, int64_t value, int64_t limit, int64_t place) {
  if (!site.record || atomic_cas(&site.record->launch, 0u, site.launch) != 0u) return;
  site.record->which = which;
  site.record->value = value, site.record->limit = limit, site.record->place = place;
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#endif
  site.record->ready = 1;
}
// Reports what `fill` writes to the record. report() is not built on this: the section kernel would be 32 instructions longer.
template <class Fill>
LAMINA_DEVICE void report_by(const FaultSite& site, Fill&& fill) {
  if (!site.record || atomic_cas(&site.record->launch, 0u, site.launch) != 0u) return;
  fill(*site.record);
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#endif
  site.record->ready = 1;
}

}  // namespace lamina::kernels::cuda
