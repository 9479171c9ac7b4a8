#include "runtime/device/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "runtime/core/config.h"

namespace lamina {
namespace {

constexpr int kRounds = 2000, kChains = 12;  // enough independent sums for two pipelines with four cycles of latency

// Volatile input and output keep the compiler from evaluating or dropping the sums.
volatile float start = 1.0f, sink = 0;

#define LAMINA_CHAINS(vector, fma)                                           \
  vector x = vector{} + start, y = vector{} + 0.999f, sum[kChains];          \
  for (int i = 0; i < kChains; ++i) sum[i] = x * float(i);                   \
  for (int round = 0; round < kRounds; ++round) {                            \
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) sum[i] = fma; \
    asm volatile("" : "+x"(y));                                              \
  }                                                                          \
  vector total{};                                                            \
  for (int i = 0; i < kChains; ++i) total += sum[i];                         \
  sink = total[0];                                                           \
  return double(kRounds) * kChains * 2 * double(sizeof(vector) / sizeof(float));

#if defined(__x86_64__)
typedef float Wide __attribute__((vector_size(64)));
typedef float Middle __attribute__((vector_size(32)));

__attribute__((target("avx512f"), noinline)) double chains_avx512() {
  LAMINA_CHAINS(Wide, (Wide)__builtin_ia32_vfmaddps512_mask(sum[i], y, x, -1, 4))
}
__attribute__((target("avx2,fma"), noinline)) double chains_avx2() { LAMINA_CHAINS(Middle, __builtin_ia32_vfmaddps256(sum[i], y, x)) }
#endif
typedef float Narrow __attribute__((vector_size(16)));
__attribute__((noinline)) double chains_scalar() { LAMINA_CHAINS(Narrow, sum[i] * y + x) }

}  // namespace

double peak_flops(double seconds) {
  double (*run)() = chains_scalar;
#if defined(__x86_64__)
  if (config::cpu_isa() == "avx512") run = chains_avx512;
  if (config::cpu_isa() == "avx2") run = chains_avx2;
#endif
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
    auto begin = Clock::now();
    double flops = run();
    best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace lamina
