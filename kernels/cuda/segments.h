// Updates at possibly equal indices: sorted by index, then each group of equal indices is applied by one thread per column, in the order of
// the updates.
#pragma once
#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gather.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {

inline Error index_error(const char* op, const Fault& f) {
  return Error(ErrorKind::index, {.what = cat(op, ": index ", f.value, " is out of range for an axis of length ", f.limit),
                                  .where = cat("indices[", f.place, "]"),
                                  .why = f.limit ? cat("indices are from ", -f.limit, " to ", f.limit - 1) : "the axis has no elements",
                                  .fix = "correct the indices"});
}

// Sorts keys[batch * count]: b * (length + 1) + index, and the number of each update. An index out of range is reported and becomes
// `length`.
void sort_indices(Stream& stream, const View& indices, const GatherSizes& s, uint64_t* keys, int64_t* places, DescribeFault describe);
// For results without elements, whose indices are still checked.
void check_indices(Stream& stream, const View& indices, const GatherSizes& s, DescribeFault describe);

// One thread per update and column; the thread of the first update of an index applies the whole group.
template <class T, class Combine>
LAMINA_KERNEL(256)
combine_groups(const uint64_t* keys, const int64_t* places, const T* updates, T* y, GatherSizes s, Combine combine) {
  constexpr int64_t together = 8;
  const int64_t columns = s.outer * s.inner, count = s.batch * s.count;
  for (int64_t unit = first_element(); unit < count * columns; unit += all_threads()) {
    const int64_t first = unit / columns, b = first / s.count, o = unit % columns / s.inner, inner = unit % s.inner;
    const uint64_t key = keys[first];
    const int64_t index = int64_t(key) - b * (s.length + 1);
    if (index == s.length || (first > 0 && keys[first - 1] == key)) continue;
    T* to = y + ((b * s.outer + o) * s.length + index) * s.inner + inner;
    compute_t<T> sum = widen(*to);
    bool more = true;
    for (int64_t i = first; more; i += together) {
      compute_t<T> some[together];  // their loads wait together
      bool is_own[together];
      LAMINA_UNROLL
      for (int64_t j = 0; j < together; ++j) {
        is_own[j] = i + j < count && keys[i + j] == key;
        const int64_t place = is_own[j] ? places[i + j] : places[first];
        some[j] = widen(updates[((b * s.outer + o) * s.count + place - b * s.count) * s.inner + inner]);
      }
      LAMINA_UNROLL
      for (int64_t j = 0; j < together; ++j)
        if (is_own[j]) sum = combine(sum, some[j]);
      more = is_own[together - 1];
    }
    *to = narrow<T>(sum);
  }
}

// y[b, o, index, :] = combine(it, update) for each update in order; half types are floats until the last one. All contiguous.
template <class T, class Combine>
void combine_segments(Stream& stream, const View& updates, const View& indices, const View& y, const GatherSizes& s, Combine combine,
                      DescribeFault describe) {
  if (s.batch * s.outer * s.inner * s.count == 0 || s.length == 0) return check_indices(stream, indices, s, describe);
  const Scratch<uint64_t> keys(stream, s.batch * s.count);
  const Scratch<int64_t> places(stream, s.batch * s.count);
  sort_indices(stream, indices, s, keys.data(), places.data(), describe);
  launch<combine_groups<T, Combine>>(stream, over(s.batch * s.count * s.outer * s.inner), static_cast<const uint64_t*>(keys.data()),
                                     static_cast<const int64_t*>(places.data()), updates.as<const T>(), y.as<T>(), s, combine);
}

}  // namespace lamina::kernels::cuda
