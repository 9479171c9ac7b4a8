// Elements by position: ravel_index, scatter and nonzero. Indices of any integer type; a negative index counts from the end, one out of
// range throws index before anything is written.
#pragma once
#include <span>
#include <vector>

#include "kernels/gather.h"

namespace lamina::kernels {

enum class ScatterMode : uint8_t { set, add, mul, min, max };

namespace cpu {

// y[...] = the index in the flattened axes of these lengths; out[0] is contiguous i64; the inputs broadcast to it, with any strides.
void ravel_index(Stream&, std::span<const View* const> in, std::span<const View* const> out, std::vector<int64_t> lengths);
// y = x, then y[b, indices[b, j], :] = updates[b, j, :] for j in order. y may be x's memory. All contiguous. sizes.outer is 1. T: an
// unsigned type of the elements' size.
template <class T>
void scatter_set(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes sizes);
// The same with y op= updates; integers wrap, half types stay floats until the last update; min and max of a number and NaN are NaN. T: any
// numeric type.
template <class T>
void scatter_combine(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes sizes, ScatterMode mode);
// The indices along the last axis where x (bool) is true, padded with the axis's length; count: their number. All contiguous.
void nonzero(Stream&, const View& x, const View& places, const View& count);

}  // namespace cpu

namespace cuda {
// Indices out of range as in gather: here they give 0, in scatter the update is skipped.
void ravel_index(Stream&, std::span<const View* const> in, std::span<const View* const> out, std::vector<int64_t> lengths);
template <class T>
void scatter_set(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes sizes);
template <class T>
void scatter_combine(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes sizes, ScatterMode mode);
void nonzero(Stream&, const View& x, const View& places, const View& count);
}  // namespace cuda
}  // namespace lamina::kernels
