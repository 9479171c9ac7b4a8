// Long lines: one warp or block each, every thread takes the first maximum of every 32nd or 256th element. Short lines: one thread each.
// Memory-bound.
#include "kernels/argmax.h"

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int64_t kLong = 64, kVeryLong = 2048;  // elements of a line: a warp or a block has it

struct Job {
  const char* x;
  DType type;
  int64_t* out;
  int64_t length, step;  // of the axis
  Axes outputs;
};

// Whether b beats a: it is larger, or the first NaN, or equal with a smaller index.
template <class T>
LAMINA_DEVICE bool beats(T b, int64_t b_at, T a, int64_t a_at) {
  if (b > a || (b != b && a == a)) return true;
  if (a > b || (a != a && b == b)) return false;
  return b_at < a_at;
}

template <class T>
LAMINA_KERNEL(256)
argmax_lines(Job job) {
  for (int64_t o = first_element(); o < job.outputs.size; o += all_threads()) {
    const int64_t base = job.outputs.offset(o);
    T best = load_as<T>(job.x, job.type, base);
    int64_t at = 0;
    for (int64_t i = 1; i < job.length; ++i) {
      const T v = load_as<T>(job.x, job.type, base + i * job.step);
      if (beats(v, i, best, at)) best = v, at = i;
    }
    job.out[o] = at;
  }
}

template <class T, bool by_block>
LAMINA_KERNEL(256)
argmax_long_lines(Job job) {
  constexpr int64_t step = by_block ? kThreads : kWarp;
  for (int64_t o = by_block ? block_index() : first_warp(); o < job.outputs.size; o += by_block ? block_count() : all_warps()) {
    const int64_t base = job.outputs.offset(o);
    int64_t at = by_block ? thread_index() : lane();  // a line has at least as many elements as threads
    T best = load_as<T>(job.x, job.type, base + at * job.step);
    for (int64_t i = at + step; i < job.length; i += step) {
      const T v = load_as<T>(job.x, job.type, base + i * job.step);
      if (beats(v, i, best, at)) best = v, at = i;
    }
    for (unsigned bits = kWarp / 2; bits; bits /= 2) {
      const T v = shuffle_xor(best, bits);
      const int64_t i = shuffle_xor(at, bits);
      if (beats(v, i, best, at)) best = v, at = i;
    }
    if constexpr (by_block) {
      LAMINA_SHARED(T, best_of_warp, kThreads / kWarp);
      LAMINA_SHARED(int64_t, place_of_warp, kThreads / kWarp);
      if (lane() == 0) best_of_warp[warp_index()] = best, place_of_warp[warp_index()] = at;
      sync_block();
      if (thread_index() == 0) {
        for (unsigned w = 1; w < kThreads / kWarp; ++w)
          if (beats(best_of_warp[w], place_of_warp[w], best, at)) best = best_of_warp[w], at = place_of_warp[w];
        job.out[o] = at;
      }
      sync_block();
    } else if (lane() == 0) {
      job.out[o] = at;
    }
  }
}

template <class T>
void run(Stream& stream, const Job& job) {
  const int64_t lines = job.outputs.size;
  if (job.length >= kVeryLong)
    launch<argmax_long_lines<T, true>>(stream, over_blocks(lines), job);
  else if (job.length >= kLong)
    launch<argmax_long_lines<T, false>>(stream, over_warps(lines), job);
  else
    launch<argmax_lines<T>>(stream, over(lines), job);
}

}  // namespace

void argmax(Stream& stream, const View& x, const View& out, int axis) {
  const Job job{x.as<const char>(), x.dtype, out.as<int64_t>(), x.shape[axis], x.strides[axis], axes_without(x, axis)};
  if (job.outputs.size == 0) return;
  if (x.dtype == DType::f64)
    run<double>(stream, job);
  else if (is_floating(x.dtype))
    run<float>(stream, job);
  else
    run<int64_t>(stream, job);
}

namespace {
const GpuKernels<&argmax> registered;
}

}  // namespace lamina::kernels::cuda
