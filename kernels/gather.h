// gather and scatter_add along one axis, by integer indices. A negative index counts from the end; one out of range throws index before
// anything is written.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// Sizes for x [batch, outer, length, inner] with `count` indices per batch; the result or updates are [batch, outer, count, inner].
struct GatherSizes {
  int64_t batch = 1, outer = 1, length = 1, inner = 1, count = 1;
};

// y[b, o, j, :] = x[b, o, indices[b, j], :]. All contiguous; indices of any integer type. T: an unsigned type of the elements' size.
template <class T>
void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes sizes);

// y = 0, then y[b, o, indices[b, j], :] += updates[b, o, j, :] for j in order, so sums do not depend on threads. T: any numeric type;
// integers wrap, half types are added in float and rounded once.
template <class T>
void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes sizes);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
using cpu::GatherSizes;
// Indices are checked by the kernel: a bad one reads 0, and the stream's next wait throws.
template <class T>
void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes sizes);
// An update with an index out of range is skipped, and the stream's next wait throws.
template <class T>
void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes sizes);
}  // namespace lamina::kernels::cuda
