// Sorting along an axis. NaN is larger than every number; where indices are returned, equal elements (0 and -0 too) keep their order. T:
// the element type; bool as uint8_t. The results do not depend on threads.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// y: x's elements in order along the axis. x: any strides; y contiguous.
template <class T>
void sort(Stream&, const View& x, const View& y, int axis, bool descending);
// places (i64): their indices in x.
template <class T>
void argsort(Stream&, const View& x, const View& places, int axis, bool descending);
// The largest elements along x's last axis in descending order, as many as the results' last axis has, and their indices (i64).
template <class T>
void top_k(Stream&, const View& x, const View& values, const View& places);
// Along the last axis of x [..., n]: index of the first occurrence and count of each distinct element, ascending (i64 [..., n]; padded with
// the first index and 0); which of them each element is; their number (i64 [...]).
template <class T>
void unique(Stream&, const View& x, const View& first, const View& which, const View& counts, const View& count);
// places (i64): how many of the sorted elements [P..., n] are less than (right: or equal to) each of values [P..., I...]. All contiguous.
template <class T>
void searchsorted(Stream&, const View& sorted, const View& values, const View& places, bool right);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
template <class T>
void sort(Stream&, const View& x, const View& y, int axis, bool descending);
template <class T>
void argsort(Stream&, const View& x, const View& places, int axis, bool descending);
template <class T>
void top_k(Stream&, const View& x, const View& values, const View& places);
template <class T>
void unique(Stream&, const View& x, const View& first, const View& which, const View& counts, const View& count);
template <class T>
void searchsorted(Stream&, const View& sorted, const View& values, const View& places, bool right);
}  // namespace lamina::kernels::cuda
