// The order of sums, and so the bits, are those of kernels/reduce.h. Along a row, a warp sums a run: lane l takes every 32nd element, and
// the lanes are added as a balanced tree. For columns, a thread sums a block of 32 rows. Partial results go to scratch, where neighbours
// are added until one is left: a warp takes 256 of them, and a further launch their results. Memory-bound.
#include "kernels/reduce.h"

#include <limits>
#include <utility>

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

using section::Reduction;

constexpr int64_t kRun = 1024, kRows = 32;
constexpr int64_t kOwnParts = 8, kChunk = kOwnParts * kWarp;  // partial results that a lane and a warp take; powers of two

template <class T>
LAMINA_DEVICE T join(Reduction op, T a, T b) {
  switch (op) {
    case Reduction::prod:
      if constexpr (std::is_same_v<T, int64_t>)
        return T(uint64_t(a) * uint64_t(b));
      else
        return a * b;
    case Reduction::max:
      if constexpr (!std::is_same_v<T, int64_t>)
        if (a != a) return a;
      return a > b ? a : b;
    case Reduction::min:
      if constexpr (!std::is_same_v<T, int64_t>)
        if (a != a) return a;
      return a < b ? a : b;
    default:
      if constexpr (std::is_same_v<T, int64_t>)
        return T(uint64_t(a) + uint64_t(b));
      else
        return a + b;
  }
}

struct Job {
  const char* x;
  DType type;  // of x
  void* out;
  DType out_type;
  Axes kept, reduced;
  Reduction op;
  int64_t parts;  // of each result
};

// A result or a partial result.
template <class T>
LAMINA_DEVICE void put(const Job& job, T* scratch, int64_t output, int64_t part, T v) {
  if (job.parts > 1) {
    scratch[output * job.parts + part] = v;
    return;
  }
  if constexpr (!std::is_same_v<T, int64_t>)
    if (job.op == Reduction::mean) v = v / T(job.reduced.size);
  store_as(job.out, job.out_type, output, v);
}

// One warp per run.
template <class T>
LAMINA_KERNEL(256)
reduce_runs(Job job, T* scratch) {
  for (int64_t unit = first_warp(); unit < job.kept.size * job.parts; unit += all_warps()) {
    const int64_t output = unit / job.parts, first = unit % job.parts * kRun;
    const int64_t end = first + kRun < job.reduced.size ? first + kRun : job.reduced.size, base = job.kept.offset(output);
    auto element = [&](int64_t i) { return load_as<T>(job.x, job.type, base + job.reduced.offset(i)); };
    T sum = job.op == Reduction::prod ? T(1) : job.op == Reduction::max || job.op == Reduction::min ? element(first) : T(0);
    for (int64_t i = first + lane(); i < end; i += kWarp) sum = join(job.op, sum, element(i));
    for (unsigned half = kWarp / 2; half; half /= 2) {
      const T other = shuffle_down(sum, half);
      sum = join(job.op, sum, other);
    }
    if (lane() == 0) put(job, scratch, output, unit % job.parts, sum);
  }
}

// One thread per block of rows of a column.
template <class T>
LAMINA_KERNEL(256)
reduce_columns(Job job, T* scratch) {
  for (int64_t unit = first_element(); unit < job.kept.size * job.parts; unit += all_threads()) {
    const int64_t output = unit % job.kept.size, first = unit / job.kept.size * kRows;
    const int64_t end = first + kRows < job.reduced.size ? first + kRows : job.reduced.size, base = job.kept.offset(output);
    auto element = [&](int64_t i) { return load_as<T>(job.x, job.type, base + job.reduced.offset(i)); };
    T sum = element(first);
    for (int64_t i = first + 1; i < end; ++i) sum = join(job.op, sum, element(i));
    put(job, scratch, output, unit / job.kept.size, sum);
  }
}

// One warp per chunk of a result's parts: joins neighbours, then pairs of those. to: the chunks' results, if there are several.
template <class T>
LAMINA_KERNEL(256)
reduce_parts(Job job, const T* from, T* to) {
  const int64_t parts = job.parts, chunks = (parts + kChunk - 1) / kChunk;
  for (int64_t unit = first_warp(); unit < job.kept.size * chunks; unit += all_warps()) {
    const int64_t output = unit / chunks, first = unit % chunks * kChunk, own = lane() * kOwnParts;
    const int64_t count = parts - first < kChunk ? parts - first : kChunk;
    T v[kOwnParts];
    LAMINA_UNROLL
    for (int j = 0; j < kOwnParts; ++j) v[j] = own + j < count ? from[output * parts + first + own + j] : T(0);
    LAMINA_UNROLL
    for (int step = 1; step < kOwnParts; step *= 2) LAMINA_UNROLL
    for (int j = 0; j + step < kOwnParts; j += 2 * step)
      if (own + j + step < count) v[j] = join(job.op, v[j], v[j + step]);
    T sum = v[0];
    for (unsigned by = 1; by < kWarp; by *= 2) {
      const T other = shuffle_down(sum, by);
      if (lane() % (2 * by) == 0 && own + by * kOwnParts < count) sum = join(job.op, sum, other);
    }
    if (lane() != 0) continue;
    Job last = job;
    last.parts = chunks;
    put<T>(last, to, output, unit % chunks, sum);
  }
}

template <class T>
LAMINA_KERNEL(256)
fill(Job job, T v) {
  for (int64_t i = first_element(); i < job.kept.size; i += all_threads()) store_as(job.out, job.out_type, i, v);
}

template <class T>
void run(Stream& stream, Job job, bool by_rows) {
  if (job.reduced.size == 0) {
    const T v = job.op == Reduction::mean ? std::numeric_limits<T>::quiet_NaN() : job.op == Reduction::prod ? T(1) : T(0);
    return launch<fill<T>>(stream, over(job.kept.size), job, v);
  }
  const int64_t length = by_rows ? kRun : kRows;
  job.parts = (job.reduced.size + length - 1) / length;
  const auto make = [&](T* scratch) {
    if (by_rows)
      launch<reduce_runs<T>>(stream, over_warps(job.kept.size * job.parts), job, scratch);
    else
      launch<reduce_columns<T>>(stream, over(job.kept.size * job.parts), job, scratch);
  };
  if (job.parts == 1) return make(nullptr);
  const int64_t parts = job.kept.size * job.parts, chunks = job.kept.size * ((job.parts + kChunk - 1) / kChunk);
  const Scratch<T> scratch(stream, parts + chunks);
  T *from = scratch.data(), *to = from + parts;
  make(from);
  for (; job.parts > 1; job.parts = (job.parts + kChunk - 1) / kChunk, std::swap(from, to))
    launch<reduce_parts<T>>(stream, over_warps(job.kept.size * ((job.parts + kChunk - 1) / kChunk)), job, static_cast<const T*>(from), to);
}

}  // namespace

void reduce(Stream& stream, const View& x, const View& out, Reduction op, uint32_t axes) {
  if (out.size() == 0) return;
  Job job{.x = x.as<const char>(), .type = x.dtype, .out = out.data, .out_type = out.dtype, .op = op, .parts = 1};
  bool by_rows = true;
  for (int a = 0; a < x.rank; ++a) {
    const bool reduced = axes >> a & 1;
    (reduced ? job.reduced : job.kept).add(x.shape[a], x.strides[a]);
    if (x.shape[a] != 1) by_rows = reduced;
  }
  if (x.dtype == DType::f64)
    run<double>(stream, job, by_rows);
  else if (is_floating(x.dtype))
    run<float>(stream, job, by_rows);
  else
    run<int64_t>(stream, job, by_rows);
}

namespace {
const GpuKernels<&reduce> registered;
}

}  // namespace lamina::kernels::cuda
