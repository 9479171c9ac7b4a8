// A thread takes adjacent lines of outputs. Along the axis it goes row by row, so that it reads memory in order.
#include "kernels/argmax.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/reduce_table.h"
#include "kernels/cpu/shared_out.h"
#include "kernels/cpu/strided.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kArgmaxWorthThreads = 64 * 1024;  // elements
constexpr int64_t kArgmaxColumns = 1024;

struct ArgmaxJob {
  const char* x;
  int64_t* out;
  int64_t length, step;  // of the axis
  int rank;              // the other axes
  int64_t shape[kMaxRank], strides[kMaxRank];
  int64_t outputs;
};

// Whether b replaces a: it is larger, or the first NaN.
template <class T>
bool beats(T b, T a) {
  return b > a || (b != b && a == a);
}

// Of n elements side by side: the first of those that are as large as the largest, or NaN.
template <class T>
int64_t argmax_of_line(const T* x, int64_t n) {
  T high = x[0];
  int64_t at = 0;  // where its run begins
  for (int64_t i = 0; i < n; i += kRun) {
    T here;
    const int64_t count = std::min(kRun, n - i);
    if constexpr (std::is_same_v<T, float>)
      here = reduce_table().f32[int(Combine::max)](x + i, count);
    else if constexpr (std::is_same_v<T, double>)
      here = reduce_table().f64[int(Combine::max)](x + i, count);
    else
      here = *std::max_element(x + i, x + i + count);
    if (beats(here, high)) high = here, at = i;
  }
  if constexpr (std::is_same_v<T, float>)
    return at + reduce_table().first_f32(x + at, n - at, high);
  else if constexpr (std::is_same_v<T, double>)
    return at + reduce_table().first_f64(x + at, n - at, high);
  else
    return std::find(x + at, x + n, high) - x;
}

// Of n columns side by side, row by row.
template <class T>
void argmax_of_columns(const T* x, int64_t rows, int64_t step, int64_t n, int64_t* index) {
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  T best[kArgmaxColumns];
  Place at[kArgmaxColumns] = {};
  std::copy_n(x, n, best);
  for (int64_t i = 1; i < rows; ++i) {
    if constexpr (sizeof(T) == 4)
      reduce_table().take_larger_f32(x + i * step, n, Place(i), best, at);
    else
      reduce_table().take_larger_f64(x + i * step, n, Place(i), best, at);
  }
  std::copy_n(at, n, index);
}

template <class T>
void argmax_part(const ArgmaxJob& job, int64_t begin, int64_t end) {
  using C = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;
  const T* x = reinterpret_cast<const T*>(job.x);
  Cursor cursor(job.rank, job.shape, begin);
  const int64_t step = job.rank ? job.strides[job.rank - 1] : 0;
  while (begin < end) {
    const int64_t n = std::min({kArgmaxColumns, end - begin, cursor.inner - cursor.in_row});
    const T* first = x + cursor.row_offset(job.strides) + cursor.in_row * step;
    int64_t* index = job.out + begin;
    if constexpr (std::is_same_v<C, T> && !std::is_same_v<T, bool>)
      if (job.step == 1 && job.length > 1) {
        for (int64_t j = 0; j < n; ++j) index[j] = argmax_of_line(first + j * step, job.length);
        begin += n;
        if (begin < end) cursor.advance(n);
        continue;
      }
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      if (step == 1 && n > 1 && job.length <= std::numeric_limits<int32_t>::max()) {
        argmax_of_columns(first, job.length, job.step, n, index);
        begin += n;
        if (begin < end) cursor.advance(n);
        continue;
      }
    C best[kArgmaxColumns];
    for (int64_t j = 0; j < n; ++j) best[j] = C(first[j * step]), index[j] = 0;
    if (n == 1) {
      for (int64_t i = 1; i < job.length; ++i)
        if (C v = C(first[i * job.step]); beats(v, best[0])) best[0] = v, index[0] = i;
    } else if (job.step < step) {  // elements within a line are closer together than lines
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 1; i < job.length; ++i)
          if (C v = C(first[j * step + i * job.step]); beats(v, best[j])) best[j] = v, index[j] = i;
    } else {
      for (int64_t i = 1; i < job.length; ++i)
        for (int64_t j = 0; j < n; ++j)
          if (C v = C(first[j * step + i * job.step]); beats(v, best[j])) best[j] = v, index[j] = i;
    }
    begin += n;
    if (begin < end) cursor.advance(n);
  }
}

}  // namespace

void argmax(Stream& stream, const View& x, const View& out, int axis) {
  ArgmaxJob job{x.as<const char>(), out.as<int64_t>(), x.shape[axis], x.strides[axis], 0, {}, {}, 1};
  for (int a = 0; a < x.rank; ++a) {
    if (a == axis) continue;
    job.shape[job.rank] = x.shape[a], job.strides[job.rank] = x.strides[a];
    job.outputs *= x.shape[a];
    ++job.rank;
  }
  if (job.outputs == 0) return;
  with_dtype(x.dtype, [&]<class T>() {
    share_out(stream, job.outputs, job.outputs * job.length, kArgmaxWorthThreads,
              [&](int64_t begin, int64_t end) { argmax_part<T>(job, begin, end); });
  });
}

}  // namespace lamina::kernels::cpu
