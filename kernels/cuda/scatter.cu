// Updates as in gather.cu: sorted by index, one thread per column and group of equal indices. nonzero: an element's position is the number
// of true elements before it.
#include "kernels/scatter.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/segments.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

LAMINA_KERNEL(256) make_index_keys(const void* indices, DType type, uint64_t* keys, int64_t* places, GatherSizes s, FaultSite site) {
  for (int64_t i = first_element(); i < s.batch * s.count; i += all_threads()) {
    const int64_t given = integer_at(indices, type, i);
    int64_t index = given < 0 ? given + s.length : given;
    if (index < 0 || index >= s.length) {
      report(site, 0, given, s.length, i);
      index = s.length;
    }
    keys[i] = uint64_t(i / s.count * (s.length + 1) + index), places[i] = i;
  }
}

LAMINA_KERNEL(256) check_index_elements(const void* indices, DType type, int64_t count, int64_t length, FaultSite site) {
  for (int64_t i = first_element(); i < count; i += all_threads()) {
    const int64_t index = integer_at(indices, type, i);
    if (index < -length || index >= length) report(site, 0, index, length, i);
  }
}

struct Set {
  template <class T>
  LAMINA_DEVICE T operator()(T, T update) const {
    return update;
  }
};
template <ScatterMode mode>
struct CombineBy {
  template <class T>
  LAMINA_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      if constexpr (mode == ScatterMode::add)
        return T(U(U(a) + U(b)));
      else if constexpr (mode == ScatterMode::mul)
        return T(uint64_t(U(a)) * uint64_t(U(b)));
      else if constexpr (mode == ScatterMode::min)
        return b < a ? b : a;
      else
        return b > a ? b : a;
    } else {
      if constexpr (mode == ScatterMode::add)
        return a + b;
      else if constexpr (mode == ScatterMode::mul)
        return a * b;
      else if constexpr (mode == ScatterMode::min)
        return b < a || b != b ? b : a;
      else
        return b > a || b != b ? b : a;
    }
  }
};

Error scatter_error(const Fault& f, const std::string&) { return index_error("scatter", f); }
Error ravel_error(const Fault& f, const std::string&) {
  return Error(ErrorKind::index, {.what = cat("index: index ", f.value, " is out of range for an axis of length ", f.limit),
                                  .where = cat("indices of axis ", f.which),
                                  .why = f.limit ? cat("indices are from ", -f.limit, " to ", f.limit - 1) : "the axis has no elements",
                                  .fix = "correct the indices"});
}

LAMINA_KERNEL(256) ravel_axis(const void* indices, DType type, Axes places, int64_t* y, int64_t length, int axis, FaultSite site) {
  for (int64_t i = first_element(); i < places.size; i += all_threads()) {
    const int64_t given = integer_at(indices, type, places.offset(i));
    int64_t index = given < 0 ? given + length : given;
    if (index < 0 || index >= length) {
      report(site, axis, given, length, i);
      index = 0;
    }
    y[i] = axis ? y[i] * length + index : index;
  }
}

LAMINA_KERNEL(256) mark_nonzero(const unsigned char* x, uint64_t* found, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads()) found[i] = x[i] != 0;
}
// found[i]: number of true elements up to element i of all.
LAMINA_KERNEL(256) take_nonzero(const unsigned char* x, const uint64_t* found, int64_t* places, int64_t* count, int64_t n, int64_t all) {
  for (int64_t i = first_element(); i < all; i += all_threads()) {
    const int64_t at = i % n, row = i - at;
    const uint64_t before = row ? found[row - 1] : 0;
    const int64_t of_row = int64_t(found[row + n - 1] - before);
    if (x[i] != 0) places[row + int64_t(found[i] - before) - 1] = at;
    if (at >= of_row) places[i] = n;
    if (at == 0) count[i / n] = of_row;
  }
}

template <class T>
void copy_if_apart(Stream& stream, const View& x, const View& y) {
  if (y.data != x.data && x.size() > 0) stream.backend->copy(stream, y.data, x.data, size_t(x.size()) * sizeof(T), CopyKind::within_device);
}

}  // namespace

void sort_indices(Stream& stream, const View& indices, const GatherSizes& s, uint64_t* keys, int64_t* places, DescribeFault describe) {
  launch<make_index_keys>(stream, over(s.batch * s.count), static_cast<const void*>(indices.data), indices.dtype, keys, places, s,
                          stream.backend->fault_site(stream, describe));
  sort_pairs(stream, keys, places, s.batch * s.count);
}

void check_indices(Stream& stream, const View& indices, const GatherSizes& s, DescribeFault describe) {
  if (indices.size() == 0) return;
  launch<check_index_elements>(stream, over(indices.size()), static_cast<const void*>(indices.data), indices.dtype, indices.size(),
                               s.length, stream.backend->fault_site(stream, describe));
}

void ravel_index(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, std::vector<int64_t> lengths) {
  const View& y = *out[0];
  if (y.size() == 0) return;
  for (size_t k = 0; k < in.size(); ++k) {
    Axes places;
    for (int a = 0; a < y.rank; ++a) {
      const int own = a - (y.rank - in[k]->rank);
      places.add(y.shape[a], own < 0 || in[k]->shape[own] == 1 ? 0 : in[k]->strides[own]);
    }
    launch<ravel_axis>(stream, over(y.size()), static_cast<const void*>(in[k]->data), in[k]->dtype, places, y.as<int64_t>(), lengths[k],
                       int(k), stream.backend->fault_site(stream, ravel_error));
  }
}

template <class T>
void scatter_set(Stream& stream, const View& updates, const View& indices, const View& x, const View& y, GatherSizes s) {
  copy_if_apart<T>(stream, x, y);
  combine_segments<T>(stream, updates, indices, y, s, Set{}, scatter_error);
}

template <class T>
void scatter_combine(Stream& stream, const View& updates, const View& indices, const View& x, const View& y, GatherSizes s,
                     ScatterMode mode) {
  copy_if_apart<T>(stream, x, y);
  switch (mode) {
    case ScatterMode::add: return combine_segments<T>(stream, updates, indices, y, s, CombineBy<ScatterMode::add>{}, scatter_error);
    case ScatterMode::mul: return combine_segments<T>(stream, updates, indices, y, s, CombineBy<ScatterMode::mul>{}, scatter_error);
    case ScatterMode::min: return combine_segments<T>(stream, updates, indices, y, s, CombineBy<ScatterMode::min>{}, scatter_error);
    case ScatterMode::max: return combine_segments<T>(stream, updates, indices, y, s, CombineBy<ScatterMode::max>{}, scatter_error);
    case ScatterMode::set: return combine_segments<T>(stream, updates, indices, y, s, Set{}, scatter_error);
  }
}

void nonzero(Stream& stream, const View& x, const View& places, const View& count) {
  const int64_t all = x.size();
  if (all == 0) return zero(stream, count);
  const Scratch<uint64_t> found(stream, all);
  launch<mark_nonzero>(stream, over(all), x.as<const unsigned char>(), found.data(), all);
  add_up(stream, found.data(), all);
  launch<take_nonzero>(stream, over(all), x.as<const unsigned char>(), static_cast<const uint64_t*>(found.data()), places.as<int64_t>(),
                       count.as<int64_t>(), x.shape[x.rank - 1], all);
}

namespace {
const GpuKernels<&ravel_index, &nonzero, LAMINA_WIDTHS(scatter_set), LAMINA_NUMERIC(scatter_combine)> registered;
}

}  // namespace lamina::kernels::cuda
