// Table of the loops of reductions, compiled once per instruction set. Only data.
#pragma once
#include <cstdint>

namespace lamina::kernels::cpu {

// The operation within a run; section::Reduction::mean is a sum, divided later.
enum class Combine : uint8_t { sum, max, min, prod };

// One run: 1 to kRun consecutive elements. Lane j of 32 takes elements j, j + 32, ...; the lanes are combined as a tree.
inline constexpr int64_t kRun = 1024;
template <class T>
using RunLoop = T (*)(const T* x, int64_t n);

struct ReduceTable {
  RunLoop<float> f32[4];
  RunLoop<double> f64[4];
  RunLoop<int64_t> i64[4];
  int64_t (*count)(const uint8_t* x, int64_t n);  // the sum of a run of bools
  // Where `value` is first among n elements, or the first NaN if it is NaN; n: nowhere.
  int64_t (*first_f32)(const float* x, int64_t n, float value);
  int64_t (*first_f64)(const double* x, int64_t n, double value);
  // best[i], at[i] = x[i], place where x[i] is larger than best[i], or the first NaN
  void (*take_larger_f32)(const float* x, int64_t n, int32_t place, float* best, int32_t* at);
  void (*take_larger_f64)(const double* x, int64_t n, int64_t place, double* best, int64_t* at);
};

const ReduceTable& reduce_table();  // for config::cpu_isa()

namespace scalar {
extern const ReduceTable reduce_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const ReduceTable reduce_table;
}
namespace avx512 {
extern const ReduceTable reduce_table;
}
#endif

}  // namespace lamina::kernels::cpu
