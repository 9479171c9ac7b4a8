// Kernels of kernels/cuda are in liblamina_cuda.so, which is opened when a GPU is first asked for (runtime/device/backend.h). Its files
// register their kernels while it is opened, and other code finds them here.
#pragma once
#include <typeinfo>

#include "runtime/core/export.h"

namespace lamina::kernels {

using GpuFunction = void (*)();
LAMINA_API void register_gpu_kernel(const char* name, GpuFunction kernel);
LAMINA_API GpuFunction find_gpu_kernel(const char* name);  // null if it is not registered

// The name of this type has that of the function F in it, and does not need F to be linked.
template <auto F>
struct GpuKernelName {};

// The function F of kernels/cuda, or null while it is not registered.
template <auto F>
decltype(F) gpu_kernel() {
  return reinterpret_cast<decltype(F)>(find_gpu_kernel(typeid(GpuKernelName<F>).name()));
}

// At the end of a file of kernels/cuda; instantiates the kernels too:
//   const GpuKernels<LAMINA_FLOATING(softmax), LAMINA_FLOATING(log_softmax)> registered;
template <auto... F>
struct GpuKernels {
  GpuKernels() { (register_gpu_kernel(typeid(GpuKernelName<F>).name(), reinterpret_cast<GpuFunction>(F)), ...); }
};

#define LAMINA_FLOATING(kernel) &kernel<f16>, &kernel<bf16>, &kernel<float>, &kernel<double>
#define LAMINA_INTEGERS(kernel) &kernel<uint8_t>, &kernel<int8_t>, &kernel<int16_t>, &kernel<int32_t>, &kernel<int64_t>
#define LAMINA_NUMERIC(kernel) LAMINA_INTEGERS(kernel), LAMINA_FLOATING(kernel)
#define LAMINA_WIDTHS(kernel) &kernel<uint8_t>, &kernel<uint16_t>, &kernel<uint32_t>, &kernel<uint64_t>  // for kernels that only move data

}  // namespace lamina::kernels
