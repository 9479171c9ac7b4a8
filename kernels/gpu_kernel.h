// Marks declarations of kernels/cuda. A build without CUDA has only these declarations; as weak symbols, missing kernels are null pointers
// instead of link errors.
#pragma once

#if defined(__CUDACC__)
#define LAMINA_GPU_KERNEL
#else
#define LAMINA_GPU_KERNEL __attribute__((weak))
#endif
