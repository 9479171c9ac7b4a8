// Integers: one Thrust prefix sum over all lines; each line subtracts the sum before it. Floating types: one thread per line. If the lines
// are too few to fill a card they are cut into runs of 128: first the runs' sums, then the cumulative sums of these in the same way, then
// the runs themselves, one thread each. Thrust's order of additions is not fixed, which only integers tolerate.
#include "kernels/cumsum.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int64_t kRun = 128, kManyLines = 32768;

struct Job {
  Line line;
  int64_t run, runs;  // of a line
  bool reverse, exclusive;
};

// Element i of a line in the order of summation.
LAMINA_DEVICE int64_t place(const Job& job, int64_t line, int64_t i) {
  const int64_t length = job.line.length, inner = job.line.inner;
  return (line / inner * length + (job.reverse ? length - 1 - i : i)) * inner + line % inner;
}

template <class T>
LAMINA_KERNEL(256)
sum_runs(Job job, const T* x, double* sums) {
  const int64_t lines = job.line.outer * job.line.inner;
  for (int64_t unit = first_element(); unit < lines * job.runs; unit += all_threads()) {
    const int64_t first = unit / lines * job.run, end = first + job.run < job.line.length ? first + job.run : job.line.length;
    double sum = 0;
    for (int64_t i = first; i < end; ++i) sum += double(widen(x[place(job, unit % lines, i)]));
    sums[unit] = sum;
  }
}
template <class T>
LAMINA_KERNEL(256)
scan_runs(Job job, const T* x, T* out, const double* before_runs) {
  const int64_t lines = job.line.outer * job.line.inner;
  for (int64_t unit = first_element(); unit < lines * job.runs; unit += all_threads()) {
    const int64_t first = unit / lines * job.run, end = first + job.run < job.line.length ? first + job.run : job.line.length;
    double sum = before_runs ? before_runs[unit] : 0;
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = place(job, unit % lines, i);
      const double before = sum;
      sum = before + double(widen(x[at]));
      const double given = job.exclusive ? before : sum;
      if constexpr (sizeof(T) == 2)
        out[at] = narrow<T>(scalar::cut_to_float(given));
      else
        out[at] = T(given);
    }
  }
}

// Line by line, in the order of summation.
LAMINA_KERNEL(256) take_integers(Job job, const void* x, DType type, uint64_t* values, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads())
    values[i] = uint64_t(integer_at(x, type, place(job, i / job.line.length, i % job.line.length)));
}
// out may be x.
LAMINA_KERNEL(256) give_sums(Job job, const void* x, DType type, const uint64_t* sums, void* out, DType out_type, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads()) {
    const int64_t line = i / job.line.length, at = place(job, line, i % job.line.length), first = line * job.line.length;
    const uint64_t sum = sums[i] - (first ? sums[first - 1] : 0), own = job.exclusive ? uint64_t(integer_at(x, type, at)) : 0;
    store_as<int64_t>(out, out_type, at, int64_t(sum - own));
  }
}

// out may be x.
template <class T>
void add_in_order(Stream& stream, const T* x, T* out, Job job) {
  const int64_t lines = job.line.outer * job.line.inner;
  if (job.line.length > kRun && lines < kManyLines) job.run = kRun, job.runs = (job.line.length + kRun - 1) / kRun;
  if (job.runs == 1) return launch<scan_runs<T>>(stream, over(lines), job, x, out, static_cast<const double*>(nullptr));
  const Scratch<double> sums(stream, lines * job.runs);  // [run, line]
  launch<sum_runs<T>>(stream, over(lines * job.runs), job, x, sums.data());
  add_in_order<double>(stream, sums.data(), sums.data(), {{1, job.runs, lines}, job.runs, 1, false, true});
  launch<scan_runs<T>>(stream, over(lines * job.runs), job, x, out, static_cast<const double*>(sums.data()));
}

}  // namespace

void cumsum(Stream& stream, const View& x, const View& out, int axis, bool reverse, bool exclusive) {
  const Job job{line_of(x, axis), x.shape[axis], 1, reverse, exclusive};
  const int64_t count = x.size();
  if (count == 0) return;
  switch (x.dtype) {
    case DType::f16: return add_in_order(stream, x.as<const f16>(), out.as<f16>(), job);
    case DType::bf16: return add_in_order(stream, x.as<const bf16>(), out.as<bf16>(), job);
    case DType::f32: return add_in_order(stream, x.as<const float>(), out.as<float>(), job);
    case DType::f64: return add_in_order(stream, x.as<const double>(), out.as<double>(), job);
    default: break;
  }
  const Scratch<uint64_t> sums(stream, count);
  launch<take_integers>(stream, over(count), job, static_cast<const void*>(x.data), x.dtype, sums.data(), count);
  add_up(stream, sums.data(), count);
  launch<give_sums>(stream, over(count), job, static_cast<const void*>(x.data), x.dtype, static_cast<const uint64_t*>(sums.data()),
                    static_cast<void*>(out.data), out.dtype, count);
}

namespace {
const GpuKernels<&cumsum> registered;
}

}  // namespace lamina::kernels::cuda
