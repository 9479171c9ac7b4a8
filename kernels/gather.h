// gather and scatter_add along one axis, by integer indices. A negative index counts from the end; one out of range throws Error index
// before anything is written.
#pragma once
#include "kernels/gpu_kernel.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// How x [batch, outer, length, inner] and `count` indices per batch meet; the result or updates are [batch, outer, count, inner].
struct GatherSizes {
  int64_t batch = 1, outer = 1, length = 1, inner = 1, count = 1;
};

// y[b, o, j, :] = x[b, o, indices[b, j], :]. All contiguous; indices of any integer type. T: an unsigned type as wide as the elements.
template <class T>
void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes sizes);

// y = 0, then y[b, o, indices[b, j], :] += updates[b, o, j, :] for j in order, so the sums do not depend on threads. T: any number type;
// integers wrap, half types are added in float and rounded once.
template <class T>
void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes sizes);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
using cpu::GatherSizes;
// An index out of range is found while the kernel runs: what it would have read is 0, and the stream's next wait throws.
template <class T>
LAMINA_GPU_KERNEL void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes sizes);
// An update whose index is out of range is left out, and the stream's next wait throws.
template <class T>
LAMINA_GPU_KERNEL void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes sizes);
}  // namespace lamina::kernels::cuda
