// Logical devices: each GPU may be split into several, gpu:0/0, gpu:0/1, ..., with streams and a memory pool of their own, and an equal
// share of its memory and multiprocessors. Kernels whose blocks wait for each other take no more than that share, so they can run beside
// each other. Device::index counts logical devices, those of a card one after the other.
#pragma once
#include "runtime/device/device.h"

namespace lamina {

constexpr int kMostGpuParts = 16;
LAMINA_API int gpu_parts();  // of each GPU; 1 at first
inline int gpu_number(Device gpu) { return gpu.index / gpu_parts(); }
inline bool share_a_card(Device a, Device b) {
  return a.kind == DeviceKind::gpu && b.kind == DeviceKind::gpu && gpu_number(a) == gpu_number(b);
}

// Throws invalid_argument for a count that is not from 1 to kMostGpuParts, and state once a GPU is in use, unless it is the present one.
LAMINA_API void split_gpus(int parts);
LAMINA_API void note_gpu_use(bool used = true);  // for the backend; false: for tests

}  // namespace lamina
