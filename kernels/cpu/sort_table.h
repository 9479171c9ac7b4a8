// Table of the functions that sort keys, compiled once per instruction set. Only data.
#pragma once
#include <cstdint>

namespace lamina::kernels::cpu {

// Sorts n keys in ascending order. `other`: a buffer of as many.
template <class K>
using SortKeys = void (*)(K* x, int64_t n, K* other);

struct SortTable {
  SortKeys<uint32_t> u32;
  SortKeys<uint64_t> u64;
};

namespace scalar {
extern const SortTable sort_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const SortTable sort_table;
}
namespace avx512 {
extern const SortTable sort_table;
}
#endif

}  // namespace lamina::kernels::cpu
