// Updates at indices that may be equal: sorted by index, then each group of one index by one thread per column, in the order of the
// updates.
#pragma once
#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sort_items.h"
#include "kernels/gather.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cuda {

inline Error index_error(const char* op, const Fault& f) {
  return Error(ErrorKind::index, {.what = cat(op, ": index ", f.value, " is out of range for an axis of length ", f.limit),
                                  .where = cat("indices[", f.place, "]"),
                                  .why = f.limit ? cat("indices are from ", -f.limit, " to ", f.limit - 1) : "the axis has no elements",
                                  .fix = "correct the indices"});
}

// items[batch, padded]: the index of each update and where it stands, in order; an index out of range is reported, and stands behind the
// others.
void sort_indices(Stream& stream, const View& indices, const GatherSizes& s, Item* items, int64_t padded, Error (*describe)(const Fault&));
// For results without elements, whose indices must be right all the same.
void check_indices(Stream& stream, const View& indices, const GatherSizes& s, Error (*describe)(const Fault&));

// A thread for each item and column; the one at the first item of its index does the work.
template <class T, class Combine>
LAMINA_KERNEL(256)
combine_groups(const Item* items, const T* updates, T* y, GatherSizes s, int64_t padded, Combine combine) {
  const int64_t columns = s.outer * s.inner;
  for (int64_t unit = first_element(); unit < s.batch * s.count * columns; unit += all_threads()) {
    const int64_t b = unit / columns / s.count, first = unit / columns % s.count, o = unit % columns / s.inner, inner = unit % s.inner;
    const Item* row = items + b * padded;
    const uint64_t index = row[first].key;
    if (index == ~uint64_t(0) || (first > 0 && row[first - 1].key == index)) continue;
    T* to = y + ((b * s.outer + o) * s.length + int64_t(index)) * s.inner + inner;
    compute_t<T> sum = widen(*to);
    for (int64_t j = first; j < s.count && row[j].key == index; ++j)
      sum = combine(sum, widen(updates[((b * s.outer + o) * s.count + row[j].place) * s.inner + inner]));
    *to = narrow<T>(sum);
  }
}

// y[b, o, index, :] = combine(it, update) for each update in order, half types as floats until the last one. All contiguous.
template <class T, class Combine>
void combine_segments(Stream& stream, const View& updates, const View& indices, const View& y, const GatherSizes& s, Combine combine,
                      Error (*describe)(const Fault&)) {
  if (s.batch * s.outer * s.inner * s.count == 0 || s.length == 0) return check_indices(stream, indices, s, describe);
  const int64_t padded = padded_length(s.count);
  const Scratch<Item> items(stream, s.batch * padded);
  sort_indices(stream, indices, s, items.data(), padded, describe);
  launch<combine_groups<T, Combine>>(stream, over(s.batch * s.count * s.outer * s.inner), static_cast<const Item*>(items.data()),
                                     updates.as<const T>(), y.as<T>(), s, padded, combine);
}

}  // namespace lamina::kernels::cuda
