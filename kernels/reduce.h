// Reductions. The order of sums depends only on the shape and the axes: not on strides, threads or the instruction set.
//   If the last axis is reduced, an output's elements are cut into runs of 1024. In a run, 32 lanes take every 32nd element
//   and are added as a balanced tree; the runs are added pairwise. (max, min and prod combine in the same order.)
//   If the last axis is kept, every column adds blocks of 32 rows in order, and the blocks pairwise.
// Either way the error grows with the logarithm of the length. Axes of length 1 do not matter.
#pragma once
#include <cstdint>

#include "kernels/section/table.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// Reduces x over the axes whose bit is set in `axes`. out is contiguous and has the kept axes in order (reduced ones may remain with length
// 1). f16 and bf16 accumulate in float and round once; integers wrap; bool sums and multiplies to i64, otherwise dtypes are equal. NaN wins
// in max and min. An empty sum is 0, an empty product 1, an empty mean NaN; the shape rule refuses empty max and min, and dtypes without a
// mean.
LAMINA_API void reduce(Stream&, const View& x, const View& out, section::Reduction op, uint32_t axes);

// The same bits for a contiguous f32 matrix on the calling thread, for sections. `reduced` is the result's shape: row [n], column [r,1] or
// scalar. Rows of a column result are independent, so a caller may compute a part of them.
LAMINA_API void reduce_matrix(section::Reduction op, section::Broadcast reduced, const float* x, float* out, int64_t rows, int64_t n);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
// The same bits as cpu::reduce.
void reduce(Stream&, const View& x, const View& out, section::Reduction op, uint32_t axes);
}  // namespace lamina::kernels::cuda
