// Lines along the axis are independent: a thread goes along one. Few long lines are cut into runs of 1024: the runs' sums first, then what
// comes before each run, then the runs themselves, each by a thread.
#include "kernels/cumsum.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int64_t kRun = 1024, kManyLines = 4096;

struct Job {
  Line line;
  int64_t run, runs;  // of a line
  bool reverse, exclusive;
};

// Element i of a line, counted in the order of the sum.
LAMINA_DEVICE int64_t place(const Job& job, int64_t unit, int64_t i) {
  const int64_t length = job.line.length, inner = job.line.inner;
  return (unit / inner * length + (job.reverse ? length - 1 - i : i)) * inner + unit % inner;
}

template <class T, class M>
LAMINA_KERNEL(256)
sum_runs(Job job, const T* x, M* sums) {
  const int64_t lines = job.line.outer * job.line.inner;
  for (int64_t unit = first_element(); unit < lines * job.runs; unit += all_threads()) {
    const int64_t first = unit / lines * job.run, end = first + job.run < job.line.length ? first + job.run : job.line.length;
    M sum{};
    for (int64_t i = first; i < end; ++i) sum = M(sum + M(widen(x[place(job, unit % lines, i)])));
    sums[unit] = sum;
  }
}
// sums[run, line] becomes the sum of the runs before it.
template <class M>
LAMINA_KERNEL(256)
add_runs(Job job, M* sums) {
  const int64_t lines = job.line.outer * job.line.inner;
  for (int64_t line = first_element(); line < lines; line += all_threads()) {
    M sum{};
    for (int64_t r = 0; r < job.runs; ++r) {
      const M own = sums[r * lines + line];
      sums[r * lines + line] = sum;
      sum = M(sum + own);
    }
  }
}
template <class T, class M>
LAMINA_KERNEL(256)
scan_runs(Job job, const T* x, typename CumsumTypes<T>::stored* out, const M* before_runs) {
  using S = typename CumsumTypes<T>::stored;
  const int64_t lines = job.line.outer * job.line.inner;
  for (int64_t unit = first_element(); unit < lines * job.runs; unit += all_threads()) {
    const int64_t first = unit / lines * job.run, end = first + job.run < job.line.length ? first + job.run : job.line.length;
    M sum = before_runs ? before_runs[unit] : M{};
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = place(job, unit % lines, i);
      const M before = sum;
      sum = M(before + M(widen(x[at])));
      const M given = job.exclusive ? before : sum;
      if constexpr (sizeof(S) == 2 && std::is_same_v<M, double>)
        out[at] = narrow<S>(scalar::cut_to_float(given));
      else
        out[at] = S(given);
    }
  }
}

}  // namespace

void cumsum(Stream& stream, const View& x, const View& out, int axis, bool reverse, bool exclusive) {
  Job job{line_of(x, axis), x.shape[axis], 1, reverse, exclusive};
  const int64_t lines = job.line.outer * job.line.inner;
  if (lines == 0 || job.line.length == 0) return;
  if (job.line.length > kRun && lines < kManyLines) job.run = kRun, job.runs = (job.line.length + kRun - 1) / kRun;
  with_dtype(x.dtype, [&]<class T>() {
    using M = typename CumsumTypes<T>::made;
    auto* to = out.as<typename CumsumTypes<T>::stored>();
    if (job.runs == 1) return launch<scan_runs<T, M>>(stream, over(lines), job, x.as<const T>(), to, static_cast<const M*>(nullptr));
    const Scratch<M> sums(stream, lines * job.runs);
    launch<sum_runs<T, M>>(stream, over(lines * job.runs), job, x.as<const T>(), sums.data());
    launch<add_runs<M>>(stream, over(lines), job, sums.data());
    launch<scan_runs<T, M>>(stream, over(lines * job.runs), job, x.as<const T>(), to, static_cast<const M*>(sums.data()));
  });
}

}  // namespace lamina::kernels::cuda
