// A thread takes the four elements of one Philox block. Memory-bound.
#include "kernels/dropout.h"

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cuda {
namespace {

template <class T>
LAMINA_KERNEL(256)
dropout_blocks(const T* x, const int64_t* state, T* y, int64_t models, int64_t n, int64_t first, unsigned drop, compute_t<T> scale) {
  const int64_t skipped = first / 4, blocks = (first + n + 3) / 4 - skipped;
  for (int64_t unit = first_element(); unit < models * blocks; unit += all_threads()) {
    const int64_t model = unit / blocks, block = skipped + unit % blocks;
    const philox::Block words = philox::draw(state[2 * model], state[2 * model + 1], block);
    for (int k = 0; k < 4; ++k) {
      const int64_t element = 4 * block + k - first, i = model * n + element;
      if (element < 0 || element >= n) continue;
      y[i] = narrow<T>(words.word[k] < drop ? compute_t<T>(0) : compute_t<T>(widen(x[i]) * scale));
    }
  }
}

}  // namespace

template <class T>
void dropout(Stream& stream, const View& x, const View& state, const View& y, float rate, int64_t first) {
  const int64_t models = state.size() / 2, n = models ? x.size() / models : 0;
  if (n == 0) return;
  launch<dropout_blocks<T>>(stream, over(models * ((first + n + 3) / 4 - first / 4)), x.as<const T>(), state.as<const int64_t>(), y.as<T>(),
                            models, n, first, philox::drop_below(rate), compute_t<T>(1 / (1 - double(rate))));
}

namespace {
const GpuKernels<LAMINA_FLOATING(dropout)> registered;
}

}  // namespace lamina::kernels::cuda
