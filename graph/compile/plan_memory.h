// Where temporary storages lie in an arena: two share bytes only when their lifetimes do not touch.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace lamina::compile {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // the steps that write it first and use it last
  int64_t offset = -1;      // the answer
};
inline constexpr int64_t kArenaAlignment = 64;

// Fills the offsets; returns the arena's size. Best fit over the lifetimes in order of time: O(n log n).
int64_t plan_memory(std::vector<Lifetime>& lifetimes);
// Where steps run beside each other: two share bytes only when all uses of the one surely end before the first use of the other, which
// is_over(earlier, later) says by their numbers. The lowest place that is free: O(n^2).
int64_t plan_memory(std::vector<Lifetime>& lifetimes, const std::function<bool(size_t earlier, size_t later)>& is_over);

}  // namespace lamina::compile
