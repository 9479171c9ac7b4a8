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
