// Reductions. The order of sums depends on the shape and the axes alone: not on strides, threads or the instruction set.
//   The last axis is reduced: the sequence of an output's elements is cut into runs of 1024; in a run, 32 lanes take every 32nd
//   element and are added as a balanced tree; the runs are added pairwise. (For max, min and prod, read that as combined.)
//   It is kept: every column adds blocks of 32 rows in order, and the blocks pairwise.
// Either way the error grows with the logarithm of the length. Axes of length 1 play no part.
#pragma once
#include <cstdint>

#include "kernels/gpu_kernel.h"
#include "kernels/section/table.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// out = the reduction of x over the axes whose bit is set in `axes`. out is contiguous and holds the kept axes in order (axes of 1 may
// stand for reduced ones). f16 and bf16 accumulate in float and round once; integers wrap; bool sums and multiplies to i64, otherwise
// dtypes are equal. NaN wins in max and min. An empty sum is 0, an empty product 1, an empty mean NaN; max and min of nothing are refused
// by the shape rule, with dtypes for which there is no mean.
LAMINA_API void reduce(Stream&, const View& x, const View& out, section::Reduction op, uint32_t axes);

// The same bits for a contiguous f32 matrix on the calling thread, for sections. `reduced` is the result's shape: row [n], column [r,1]
// or scalar. Rows of a column result are independent: a caller may do some of them.
LAMINA_API void reduce_matrix(section::Reduction op, section::Broadcast reduced, const float* x, float* out, int64_t rows, int64_t n);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// The same bits as cpu::reduce.
LAMINA_GPU_KERNEL void reduce(Stream&, const View& x, const View& out, section::Reduction op, uint32_t axes);
}  // namespace lamina::kernels::cuda
