// One thread for each element, with the stack of sums in its own memory. More arrays than a launch takes are added by several: each leaves
// its stack to the next one.
#include "kernels/tree_sum.h"

#include <algorithm>

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int kArrays = 64;  // of a launch
constexpr int kDepth = 20;   // enough for 2^19 arrays

struct SomeArrays {
  const void* data[kArrays];
  uint8_t joins[kArrays];
  int count = 0;
  int left = 0;       // entries that the launch before has left, `count` elements each
  bool last = false;  // the result is written, not what is left
};

template <class From, class To, class S>
LAMINA_KERNEL(256)
add_arrays(LAMINA_ARGUMENT SomeArrays arrays, S* entries, To* result, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads()) {
    S stack[kDepth];
    int depth = 0;
    for (; depth < arrays.left; ++depth) stack[depth] = entries[depth * count + i];
    for (int a = 0; a < arrays.count; ++a) {
      stack[depth++] = S(widen(static_cast<const From*>(arrays.data[a])[i]));
      for (int joins = arrays.joins[a]; joins > 0; --joins) {
        --depth;
        stack[depth - 1] = S(stack[depth - 1] + stack[depth]);
      }
    }
    if (arrays.last) {
      if constexpr (std::is_same_v<S, float>)
        result[i] = narrow<To>(stack[0]);
      else
        result[i] = To(stack[0]);
    } else {
      for (int d = 0; d < depth; ++d) entries[d * count + i] = stack[d];
    }
  }
}

template <class From, class To, class S>
void add_all(Stream& stream, const TreeSum& sum, std::span<const void* const> arrays, To* result) {
  const int most = stack_depth(sum, arrays.size());
  if (most > kDepth) internal_error(cat("tree_sum of ", arrays.size(), " arrays"));
  if (sum.count == 0) return;
  const Scratch<S> entries(stream, arrays.size() > kArrays ? most * sum.count : 0);
  int depth = 0;
  for (size_t at = 0; at < arrays.size(); at += kArrays) {
    SomeArrays some{.data = {}, .joins = {}, .left = depth};
    for (size_t i = at; i < std::min(at + kArrays, arrays.size()); ++i) {
      some.data[some.count] = arrays[i], some.joins[some.count++] = sum.joins[i];
      depth += 1 - sum.joins[i];
    }
    some.last = at + kArrays >= arrays.size();
    launch<add_arrays<From, To, S>>(stream, over(sum.count), some, entries.data(), result, sum.count);
  }
}

}  // namespace

void tree_sum(Stream& stream, const TreeSum& sum, std::span<const void* const> arrays, void* result) {
  with_types_of(sum, [&]<class From, class To, class S>() { add_all<From, To, S>(stream, sum, arrays, static_cast<To*>(result)); });
}

namespace {
const GpuKernels<&tree_sum> registered;
}

}  // namespace lamina::kernels::cuda
