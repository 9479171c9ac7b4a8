#include "kernels/gather.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/sums.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {
namespace {

int64_t from_front(int64_t index, int64_t length) { return index < 0 ? index + length : index; }

void check(const char* op, const View& indices, int64_t length) {
  for (int64_t i = 0, n = indices.size(); i < n; ++i) {
    int64_t index = index_at(indices, i);
    if (index < -length || index >= length)
      throw Error(ErrorKind::index, {.what = cat(op, ": index ", index, " is out of range for an axis of length ", length),
                                     .where = cat("indices[", i, "]"),
                                     .why = length ? cat("indices are from ", -length, " to ", length - 1) : "the axis has no elements",
                                     .fix = "correct the indices"});
  }
}

// Calls row(b, o, j, index) for `inner` elements at [b, o, j] on one side and [b, o, index] on the other.
template <class Row>
void each_row(const View& indices, const GatherSizes& s, Row row) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t j = 0; j < s.count; ++j) {
        int64_t index = from_front(index_at(indices, b * s.count + j), s.length);
        row(((b * s.outer + o) * s.count + j) * s.inner, ((b * s.outer + o) * s.length + index) * s.inner);
      }
}

}  // namespace

template <class T>
void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes s) {
  check("gather", indices, s.length);
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  each_row(indices, s, [&](int64_t picked, int64_t whole) { std::copy_n(from + whole, s.inner, to + picked); });
}

template <class T>
void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes s) {
  check("scatter_add", indices, s.length);
  const T* from = updates.as<const T>();
  Sums<T> sums(y.as<T>(), y.size());
  std::fill_n(sums.data(), y.size(), compute_t<T>(0));
  each_row(indices, s, [&](int64_t picked, int64_t whole) {
    compute_t<T>* to = sums.data() + whole;
    for (int64_t i = 0; i < s.inner; ++i) {
      if constexpr (std::is_integral_v<T>)
        to[i] = T(std::make_unsigned_t<T>(to[i]) + std::make_unsigned_t<T>(from[picked + i]));
      else
        to[i] += compute_t<T>(from[picked + i]);
    }
  });
}

template void gather<uint8_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void gather<uint16_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void gather<uint32_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void gather<uint64_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<uint8_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<int8_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<int16_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<int32_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<int64_t>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<f16>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<bf16>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<float>(Stream&, const View&, const View&, const View&, GatherSizes);
template void scatter_add<double>(Stream&, const View&, const View&, const View&, GatherSizes);

}  // namespace lamina::kernels::cpu
