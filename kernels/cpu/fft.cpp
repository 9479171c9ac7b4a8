#include "kernels/fft.h"

#include <complex>
#include <kissfft/kissfft.hh>
#include <vector>

#include "kernels/cpu/shared_out.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kFftWorthThreads = 16 * 1024;  // numbers

}  // namespace

template <class T>
void fft(Stream& stream, const View& x, const View& y, bool inverse) {
  const int64_t n = x.shape[x.rank - 2], numbers = x.size() / 2;
  if (numbers == 0) return;
  share_out(stream, numbers / n, numbers, kFftWorthThreads, [&](int64_t begin, int64_t end) {
    kissfft<double> plan(size_t(n), inverse);  // it has scratch memory: one for each thread
    std::vector<std::complex<double>> from(static_cast<size_t>(n)), to(static_cast<size_t>(n));
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x.as<const T>() + row * n * 2;
      T* out = y.as<T>() + row * n * 2;
      for (int64_t i = 0; i < n; ++i) from[size_t(i)] = {double(in[2 * i]), double(in[2 * i + 1])};
      plan.transform(from.data(), to.data());
      for (int64_t i = 0; i < n; ++i) out[2 * i] = T(to[size_t(i)].real()), out[2 * i + 1] = T(to[size_t(i)].imag());
    }
  });
}
template void fft<float>(Stream&, const View&, const View&, bool);
template void fft<double>(Stream&, const View&, const View&, bool);

}  // namespace lamina::kernels::cpu
