// Marks the kernels of kernels/cuda in their contracts. A build without CUDA has the declarations alone: there is no device that would run
// them, so a missing one is a null pointer instead of an error of the linker.
#pragma once

#if defined(__CUDACC__)
#define LAMINA_GPU_KERNEL
#else
#define LAMINA_GPU_KERNEL __attribute__((weak))
#endif
