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
  const int64_t i = first_out_of_range(indices, length);
  if (i < 0) return;
  throw Error(ErrorKind::index, {.what = cat(op, ": index ", index_at(indices, i), " is out of range for an axis of length ", length),
                                 .where = cat("indices[", i, "]"),
                                 .why = length ? cat("indices are from ", -length, " to ", length - 1) : "the axis has no elements",
                                 .fix = "correct the indices"});
}

// Calls row(place of [b, o, j] on one side, place of [b, o, index] on the other) for `inner` elements.
template <class Row>
void each_row(const View& indices, const GatherSizes& s, Row row) {
  with_indices(indices, [&](const auto* index) {
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t j = 0; j < s.count; ++j)
          row(((b * s.outer + o) * s.count + j) * s.inner,
              ((b * s.outer + o) * s.length + from_front(int64_t(index[b * s.count + j]), s.length)) * s.inner);
  });
}

}  // namespace

template <class T>
void gather(Stream&, const View& x, const View& indices, const View& y, GatherSizes s) {
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  if (s.inner == 1 && s.batch == 1 && s.outer == 1) {
    with_indices(indices, [&](const auto* index) {
      const uint64_t length = uint64_t(s.length);
      for (int64_t j = 0, n = s.count; j < n; ++j) {
        uint64_t place = uint64_t(int64_t(index[j]));
        if (place >= length && (place += length) >= length) return check("gather", indices, s.length);
        to[j] = from[place];
      }
    });
    return;
  }
  check("gather", indices, s.length);
  if (s.inner == 1)
    each_row(indices, s, [=](int64_t picked, int64_t whole) { to[picked] = from[whole]; });
  else
    each_row(indices, s, [=, inner = s.inner](int64_t picked, int64_t whole) { std::copy_n(from + whole, inner, to + picked); });
}

template <class T>
void scatter_add(Stream&, const View& updates, const View& indices, const View& y, GatherSizes s) {
  check("scatter_add", indices, s.length);
  const T* from = updates.as<const T>();
  Sums<T> sums(y.as<T>(), y.size());
  std::fill_n(sums.data(), y.size(), compute_t<T>(0));
  compute_t<T>* to = sums.data();
  const auto add = [from, to](int64_t picked, int64_t whole) {
    if constexpr (std::is_integral_v<T>)
      to[whole] = T(std::make_unsigned_t<T>(to[whole]) + std::make_unsigned_t<T>(from[picked]));
    else
      to[whole] += compute_t<T>(from[picked]);
  };
  if (s.inner == 1) return each_row(indices, s, add);
  each_row(indices, s, [=, inner = s.inner](int64_t picked, int64_t whole) {
    for (int64_t i = 0; i < inner; ++i) add(picked + i, whole + i);
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
