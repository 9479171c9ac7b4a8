// Lines along the axis are independent and shared among threads. Adjacent lines are summed together, one row of them at a time.
#include "kernels/cumsum.h"

#include <algorithm>

#include "kernels/cpu/shared_out.h"
#include "runtime/core/dtype.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kCumsumColumns = 64;               // lines added together
constexpr int64_t kCumsumWorthThreads = 128 * 1024;  // elements

struct CumsumJob {
  const char* x;
  char* out;
  int64_t outer, length, inner;  // [outer, length, inner], summed over the middle
  bool reverse, exclusive;
  int64_t tiles() const { return (inner + kCumsumColumns - 1) / kCumsumColumns; }
};

template <class T>
void cumsum_part(const CumsumJob& job, int64_t begin, int64_t end) {
  using M = typename CumsumTypes<T>::made;
  using S = typename CumsumTypes<T>::stored;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t column = unit % job.tiles() * kCumsumColumns, n = std::min(kCumsumColumns, job.inner - column);
    const int64_t first = unit / job.tiles() * job.length * job.inner + column;
    const T* x = reinterpret_cast<const T*>(job.x) + first;
    S* out = reinterpret_cast<S*>(job.out) + first;
    M sum[kCumsumColumns] = {};
    for (int64_t k = 0; k < job.length; ++k) {
      const int64_t at = (job.reverse ? job.length - 1 - k : k) * job.inner;
      for (int64_t j = 0; j < n; ++j) {
        const M before = sum[j];
        sum[j] = M(before + M(x[at + j]));
        out[at + j] = S(job.exclusive ? before : sum[j]);
      }
    }
  }
}

}  // namespace

void cumsum(Stream& stream, const View& x, const View& out, int axis, bool reverse, bool exclusive) {
  CumsumJob job{x.as<const char>(), out.as<char>(), 1, x.shape[axis], 1, reverse, exclusive};
  for (int a = 0; a < x.rank; ++a) (a < axis ? job.outer : job.inner) *= a == axis ? 1 : x.shape[a];
  const int64_t units = job.outer * job.tiles();
  if (units == 0 || job.length == 0) return;
  with_dtype(x.dtype, [&]<class T>() {
    share_out(stream, units, x.size(), kCumsumWorthThreads, [&](int64_t begin, int64_t end) { cumsum_part<T>(job, begin, end); });
  });
}

}  // namespace lamina::kernels::cpu
