#include "kernels/dropout.h"

#include <algorithm>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/philox_words.h"

namespace lamina::kernels::cpu {
namespace {

template <class T>
void run(const T* x, const int64_t* state, float rate, T* y, int64_t first, int64_t count) {
  using C = compute_t<T>;
  uint32_t words[4 * 64];
  const uint32_t drop = philox::drop_below(rate);
  const C scale = C(1 / (1 - double(rate)));
  for (int64_t i = first, end = first + count; i < end;) {
    int64_t block = i / 4, blocks = std::min<int64_t>(64, (end + 3) / 4 - block), stop = std::min(end, 4 * (block + blocks));
    random_words(state, block, blocks, words);
    for (; i < stop; ++i) y[i - first] = words[i - 4 * block] < drop ? T(C(0)) : T(C(x[i - first]) * scale);
  }
}

}  // namespace

template <class T>
void dropout(Stream&, const View& x, const View& state, const View& y, float rate, int64_t first) {
  int64_t models = state.size() / 2, n = models ? x.size() / models : 0;
  for (int64_t m = 0; m < models; ++m) {
    const T* from = x.as<const T>() + m * n;
    T* to = y.as<T>() + m * n;
    if constexpr (std::is_same_v<T, float>)
      dropout_run(from, state.as<const int64_t>() + 2 * m, rate, to, first, n);
    else
      run(from, state.as<const int64_t>() + 2 * m, rate, to, first, n);
  }
}

void dropout_run(const float* x, const int64_t* state, float rate, float* y, int64_t first, int64_t count) {
#ifdef LAMINA_PHILOX_AVX2
  if (philox_uses_avx2()) {
    int64_t head = std::min(count, (4 - first % 4) % 4), body = (count - head) / 32 * 32;
    run(x, state, rate, y, first, head);
    dropout_avx2(x + head, state, philox::drop_below(rate), float(1 / (1 - double(rate))), y + head, first + head, body);
    return run(x + head + body, state, rate, y + head + body, first + head + body, count - head - body);
  }
#endif
  run(x, state, rate, y, first, count);
}

template void dropout<f16>(Stream&, const View&, const View&, const View&, float, int64_t);
template void dropout<bf16>(Stream&, const View&, const View&, const View&, float, int64_t);
template void dropout<float>(Stream&, const View&, const View&, const View&, float, int64_t);
template void dropout<double>(Stream&, const View&, const View&, const View&, float, int64_t);

}  // namespace lamina::kernels::cpu
